#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mpijob_finished
short_description: Wait until a Kubeflow MPIJob is finished, and collect its launcher's log
version_added: 0.2.0
description:
  - Waits until an MPIJob of C(kubeflow.org/v2beta1) has succeeded or failed, or the time is over, and shows how many of its workers are
    ready.
  - Then collects the job, its pods, events and logs, however the job ended. It does not fail if the job did.
  - Run it on the controller. It uses M(kubernetes.core.k8s_info) and M(kubernetes.core.k8s_log) and has their requirements.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
  - gpufabric.nccl.attributes.read_only
  - gpufabric.nccl.cluster
options:
  name:
    description: Name of the MPIJob.
    type: str
    required: true
  uid:
    description: Its C(metadata.uid). A job of the same name that has replaced it is not followed, and the job is then reported as gone.
    type: str
  workers:
    description: Number of workers of the job.
    type: int
    required: true
  operator_timeout:
    description: How long the MPI Operator may take to react to the job, in seconds.
    type: float
    default: 60
  start_timeout:
    description: How long it may take until all pods run, in seconds.
    type: float
    default: 600
  timeout:
    description: How long it may take until the job is finished, in seconds.
    type: float
    default: 3600
  interval:
    description: How long to wait between two polls, in seconds.
    type: float
    default: 2
  plan:
    description: The result of M(gpufabric.nccl.mpijob_plan). By default RV(results) is not returned.
    type: dict
seealso:
  - module: gpufabric.nccl.mpijob_plan
"""

EXAMPLES = r"""
- name: Wait for a job
  gpufabric.nccl.mpijob_finished:
    namespace: benchmarks
    name: nccl-tests
    workers: 4
  register: observed
  delegate_to: localhost
"""

RETURN = r"""
job:
  description: The MPIJob as Kubernetes has it, V(null) if it is gone or was replaced.
  returned: success
  type: dict
  sample: {kind: MPIJob, metadata: {name: gpufabric-default-x7k2p}}
pods:
  description: Its pods.
  returned: success
  type: list
  elements: dict
  sample: [{kind: Pod, metadata: {name: gpufabric-default-x7k2p-worker-0}}]
events:
  description: The warnings of its namespace.
  returned: success
  type: list
  elements: dict
  sample: [{type: Warning, reason: FailedScheduling, message: "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."}]
logs:
  description: The last lines that crashed pods printed, by the pod's name.
  returned: success
  type: dict
  sample: {gpufabric-default-x7k2p-worker-0: [no hostkeys available -- exiting.]}
launcher_log:
  description: The whole log of the launcher.
  returned: success
  type: str
  sample: "gpufabric-mpijob: stage names"
lost_launcher:
  description: The C(name) and C(node) of the launcher's pod, if it was there and was deleted, else V(null).
  returned: success
  type: dict
  sample: {name: gpufabric-default-x7k2p-launcher-x7k2p, node: node-1}
results:
  description: A result document of each point that was planned, also of one that was not run, with the problems that explain it.
  returned: success, with O(plan)
  type: list
  elements: dict
  sample: [{schema: gpufabric.nccl/result/v1, collective: all_reduce, complete: true, verdict: pass}]
given_up:
  description: Whether the time was over before the job was finished.
  returned: success
  type: bool
  sample: false
waited:
  description: How long it took, in seconds.
  returned: success
  type: float
  sample: 42.1
"""
