#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lost_pods
short_description: Find the pods of a run that were lost, and why
version_added: 0.2.0
description:
  - Compares the pods that M(gpufabric.nccl.pods_ready) returned with those that the cluster has now. A pod is lost if it is gone, was
    replaced by another of its name, is being deleted, or if its container has ended.
  - Does not fail if the cluster does not answer; see RV(answered).
  - Run it on the controller. It uses M(kubernetes.core.k8s_info) and has its requirements.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
  - gpufabric.nccl.attributes.read_only
  - gpufabric.nccl.cluster
options:
  joined:
    description: The pods as M(gpufabric.nccl.pods_ready) returned them.
    type: list
    elements: dict
    required: true
  label_selector:
    description: Label selector of the pods. By default all pods of the namespace are read.
    type: str
seealso:
  - module: gpufabric.nccl.pods_ready
"""

EXAMPLES = r"""
- name: Find the pods that were lost
  gpufabric.nccl.lost_pods:
    namespace: benchmarks
    joined: "{{ ready.pods }}"
  register: lost
  delegate_to: localhost
"""

RETURN = r"""
answered:
  description: Whether the cluster answered. If not, nothing is known of the pods, and RV(problems) says why.
  returned: success
  type: bool
  sample: true
names:
  description: The pods that were lost.
  returned: success
  type: list
  elements: str
  sample: [nccl-default-1]
problems:
  description: Why each of them was lost.
  returned: success
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
