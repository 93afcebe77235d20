#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: pods_ready
short_description: Wait until pods are ready, or say why they are not
version_added: 0.2.0
description:
  - Waits until all selected pods are ready, and shows how many are.
  - If they are not ready in time, it fails and gives the reason for each pod. No node has enough GPUs, the image cannot be pulled, the
    container crashed (with the last lines of its log), or a quota is used up, for example.
  - Run it on the controller. It uses M(kubernetes.core.k8s_info) and has its requirements.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
  - gpufabric.nccl.attributes.read_only
  - gpufabric.nccl.cluster
options:
  label_selector:
    description:
      - Label selector of the pods, such as V(app=trainer,tier!=web).
      - Exactly one of O(label_selector) and O(names) is required.
    type: str
  names:
    description: Names of the pods.
    type: list
    elements: str
  stateful_set:
    description:
      - Name of the StatefulSet that makes the pods. Other pods that match do not count.
      - The module waits until its pods match its current template. If something keeps it from making them, the failure says what.
    type: str
  mpijob:
    description: Name of the Kubeflow MPIJob that the pods are of. Other pods that match do not count.
    type: str
  count:
    description:
      - Number of pods to wait for.
      - By default the number of O(names), or of all pods that match O(label_selector), at least one.
    type: int
  container:
    description: The container to run programs in. By default a pod's first.
    type: str
  interpreter:
    description:
      - Path of the pods' Python. If it is set, one C(kubectl exec) in each pod checks that P(kubernetes.core.kubectl#connection) reaches
        the pod and that the pod has this Python. A module that is sent to a pod without Python may hang.
    type: path
  timeout:
    description: How long to wait, in seconds.
    type: float
    default: 300
  interval:
    description: How long to wait between two polls, in seconds.
    type: float
    default: 1
seealso:
  - module: kubernetes.core.k8s_info
"""

EXAMPLES = r"""
- name: Wait for the workers of a job
  gpufabric.nccl.pods_ready:
    namespace: training
    label_selector: app=trainer
    count: 16
  register: workers
  delegate_to: localhost
"""

RETURN = r"""
pods:
  description: The pods in the order of the numbers in their names.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the pod.
      type: str
      sample: trainer-0
    uid:
      description: Its UID. A later pod of the same name has another.
      type: str
      sample: 5cba46a1-8bd0-4f0f-8a85-6b4ab0f3ae5a
    address:
      description: Its address in the cluster's network.
      type: str
      sample: 10.88.0.5
    node:
      description: Name of the node that it runs on.
      type: str
      sample: node-1
    container:
      description: The container to run programs in.
      type: str
      sample: worker
    restarts:
      description: How often that container has been restarted.
      type: int
      sample: 0
extra_args:
  description:
    - What E(K8S_AUTH_EXTRA_ARGS) has, and C(--insecure-skip-tls-verify=true), if E(K8S_AUTH_VERIFY_SSL) is false; otherwise empty. For
      C(ansible_kubectl_extra_args) of the pods, since the connection C(kubernetes.core.kubectl) makes an argument of E(K8S_AUTH_VERIFY_SSL)
      that kubectl refuses.
  returned: success
  type: str
  sample: --insecure-skip-tls-verify=true
waited:
  description: How long it took, in seconds.
  returned: success
  type: float
  sample: 3.2
summary:
  description: How many of the pods are ready.
  returned: when they are not ready in time
  type: str
  sample: 3 of 4 pods are ready after 300 s in namespace bench.
problems:
  description: Why pods are not ready, or the cluster does not answer.
  returned: failure
  type: list
  elements: dict
  contains:
    id:
      description: The cause, as L(troubleshooting,https://github.com/gpufabric/gpufabric.nccl/blob/main/docs/troubleshooting.md) describes it.
      type: str
      sample: connect-refused
    severity: {description: V(error) or V(warning)., type: str, sample: error}
    host: {description: The host or pod that has the problem; V(null) if no single one has it., type: str, sample: gpu-2}
    cause: {description: What is wrong., type: str, sample: Nothing listens on 10.0.0.12 port 22.}
    cure: {description: What to do., type: str, sample: Start sshd there.}
    evidence: {description: The output or value that shows it; may be empty., type: str, sample: Connection refused}
"""
