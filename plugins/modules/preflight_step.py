#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight_step
short_description: Take the next step of the check before a launch
version_added: 0.2.0
description:
  - Does the thinking of the role P(gpufabric.nccl.preflight#role), whose other tasks look at the hosts.
  - Only a task of that role can call it.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
  - gpufabric.nccl.attributes.read_only
options:
  step:
    description:
      - V(plan) makes the hosts for M(gpufabric.nccl.mpi_preflight) from O(peers), and finds those of O(hosts) that are one machine.
      - V(logs) names the hosts whose sshd refuses the launcher without a reason, according to O(look).
      - V(result) puts the reasons that O(logs) have into the result of O(look).
      - V(diagnosis) combines the problems that all steps found.
    type: str
    choices: [plan, logs, result, diagnosis]
    required: true
  hosts:
    description: All hosts, by their names in the inventory.
    type: list
    elements: str
    default: []
  peers:
    description: The hosts that are connected by ssh, as the role P(gpufabric.nccl.key_exchange#role) lists them.
    type: list
    elements: dict
    default: []
  look:
    description: The result of M(gpufabric.nccl.mpi_preflight).
    type: dict
    default: {}
  logs:
    description: The result of M(gpufabric.nccl.sshd_log), by host.
    type: dict
    default: {}
  lost:
    description: The problems of the hosts that are not connected, by host.
    type: dict
    default: {}
  reach:
    description: The result of M(gpufabric.nccl.ssh_probe). It says why Ansible cannot reach a host of O(lost).
    type: dict
    default: {}
  launcher:
    description: The host that O(look) was made from, if there is one.
    type: str
  result:
    description: The result of the step V(result).
    type: dict
    default: {}
  cleanups:
    description: The result of M(gpufabric.nccl.run_cleanup), by host.
    type: dict
    default: {}
seealso:
  - module: gpufabric.nccl.mpi_preflight
"""

EXAMPLES = r"""
- name: Combine the findings
  gpufabric.nccl.preflight_step:
    step: result
    look: "{{ look }}"
    logs: "{{ logs }}"
  register: result
  run_once: true
"""

RETURN = r"""
targets:
  description: The hosts, for M(gpufabric.nccl.mpi_preflight).
  returned: with O(step=plan)
  type: list
  elements: dict
  sample: [{"name": "gpu-1", "address": "10.0.0.11", "run_dir": "/run/gpufabric/default"}]
twice:
  description: The problems of hosts that are the machine of another host, by host.
  returned: with O(step=plan)
  type: dict
  sample: {gpu-3: [{id: host-twice, severity: error, host: gpu-3}]}
env:
  description: The role's variable C(preflight_env), for M(gpufabric.nccl.mpi_preflight).
  returned: with O(step=plan)
  type: dict
  sample: {NCCL_IB_HCA: ^mlx5_8}
refusing:
  description: The hosts whose logs may have the reason.
  returned: with O(step=logs)
  type: list
  elements: str
  sample: [gpu-2]
ok:
  description: Whether there is no error.
  returned: with O(step=result) and O(step=diagnosis)
  type: bool
  sample: true
problems:
  description: The problems.
  returned: with O(step=result) and O(step=diagnosis)
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
hosts:
  description: The hosts, as M(gpufabric.nccl.mpi_preflight) returns them; with O(step=diagnosis) all of O(hosts).
  returned: with O(step=result) and O(step=diagnosis)
  type: list
  elements: dict
  sample: [{name: gpu-1, address: 10.0.0.11, ok: true, stage: null, problems: [], facts: {hostname: gpu-1}}]
"""
