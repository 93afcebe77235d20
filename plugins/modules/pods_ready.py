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
  - Waits until all pods of a selection are ready, and shows meanwhile how many are.
  - When they are not by the deadline, fails with the reason that Kubernetes gives for each pod, such as that no node has enough
    GPUs, that the image cannot be pulled, that the container crashed (with the last lines of its log), or that a quota is used up.
  - Run it on the controller. It asks the cluster through M(kubernetes.core.k8s_info), so what that needs is needed here.
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
      - Name of the StatefulSet that makes the pods. Its pods are waited for until they are as it now wants them, and what keeps it
        from making them is told.
    type: str
  count:
    description:
      - How many pods there are to be.
      - By default as many as O(names) names, or all that O(label_selector) finds, at least one.
    type: int
  container:
    description: The container to run programs in. By default a pod's first.
    type: str
  interpreter:
    description:
      - Path of the pods' Python. Where it is given, it is made sure that each pod can be reached by P(kubernetes.core.kubectl#connection)
        and has it, by one C(kubectl exec) in each. A module that is sent to a pod without it may hang.
    type: path
  timeout:
    description: How long to wait, in seconds.
    type: float
    default: 300
  interval:
    description: How long to wait between two looks, in seconds.
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
      description: What tells it from a later pod of the same name.
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
      description: How often that container has been started anew.
      type: int
      sample: 0
waited:
  description: How long it took, in seconds.
  returned: success
  type: float
  sample: 3.2
summary:
  description: How many pods are ready, of how many.
  returned: when they are not ready in time
  type: str
  sample: 3 of 4 pods are ready after 300 s in namespace bench.
problems:
  description: Why pods are not ready, or why the cluster does not tell, each with C(id), C(severity), C(host) (the pod), C(cause), C(cure) and C(evidence).
  returned: failure
  type: list
  elements: dict
  sample: []
"""
