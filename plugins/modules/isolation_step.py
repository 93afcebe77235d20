#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: isolation_step
short_description: Take the next step of a search for bad machines
version_added: 0.2.0
description:
  - Does the thinking of the role P(gpufabric.nccl.isolate#role), whose other tasks do the measuring.
  - Only a task of that role can call it. It reads the variables of that role, each as its type says, also if it was given as text.
  - If the nodes cannot run anything together, it fails, names the node at fault, and says what to do.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
  - gpufabric.nccl.attributes.read_only
options:
  step:
    description:
      - V(check) checks that the nodes of O(infos) can run a benchmark together.
      - V(begin) begins a search, or continues the one in O(earlier), with the nodes of O(infos), O(peers) and O(lost).
      - V(observe) takes the results of a round, O(runs), into O(search), and plans the next round.
      - V(report) makes the report of O(search).
    type: str
    choices: [check, begin, observe, report]
    required: true
  infos:
    description: The result of M(gpufabric.nccl.mpi_node_info), by the node's name in the inventory.
    type: dict
    default: {}
  peers:
    description: The nodes that are connected by ssh, as the role P(gpufabric.nccl.key_exchange#role) lists them.
    type: list
    elements: dict
    default: []
  lost:
    description: The problems of the other nodes, by node.
    type: dict
    default: {}
  earlier:
    description: The text of an C(isolation.json), or none.
    type: str
    default: ""
  environment:
    description:
      - The first letters of a digest of the environment that nodes and play give to the programs, and of the UIDs of the nodes that are pods.
        A search is not continued with another one.
    type: str
    default: ""
  search:
    description: The search, as V(begin) or V(observe) returned it.
    type: dict
    default: {}
  runs:
    description: The result of M(gpufabric.nccl.mpi_run), by launcher.
    type: dict
    default: {}
  adopted:
    description: Whether the play found its nodes as pods (V(true)), or made them (V(false)). Without it they are hosts of the inventory.
    type: bool
seealso:
  - module: gpufabric.nccl.benchmark_plan
  - module: gpufabric.nccl.mark_nodes
"""

EXAMPLES = r"""
- name: Update the search with the results of this round
  gpufabric.nccl.isolation_step:
    step: observe
    search: "{{ isolate_search }}"
    runs: "{{ runs }}"
  register: isolate_search
"""

RETURN = r"""
node_env:
  description: The environment variables of each node's own, by node.
  returned: V(check)
  type: dict
  sample: {g2: {NCCL_SOCKET_IFNAME: =net2}}
answered:
  description: The nodes that answered.
  returned: V(check)
  type: list
  elements: str
  sample: [g1, g2]
beside:
  description: A warning, as M(gpufabric.nccl.mpi_node_info) returns it, for each other run that has programs on the nodes.
  returned: V(check)
  type: list
  elements: dict
  sample:
    - id: run-beside
      severity: warning
      host: gpu-1
      cause: Programs of another run, night, of you@there, started 3 minutes ago, are on the host. Both runs measure less than the machine can do.
      cure: Wait for the end of that run, and then run this one again.
      evidence: 9 processes in /run/gpufabric/night
document:
  description: What C(isolation.json) holds.
  returned: V(begin) and V(observe)
  type: dict
  sample: {"complete": false}
launch:
  description: How groups of nodes are run.
  returned: V(begin) and V(observe)
  type: dict
  sample: {"backend": "nccl"}
runs:
  description: The groups of the next round, by launcher.
  returned: V(begin) and V(observe)
  type: dict
  sample: {"g1": {"nodes": ["g1", "g2"]}}
resumed:
  description: Whether an earlier search is continued.
  returned: V(begin) and V(observe)
  type: bool
  sample: false
said:
  description: What to show of the step.
  returned: V(begin) and V(observe)
  type: str
  sample: "Round 1: 4 nodes alone, all fast"
results:
  description: The result documents for the role P(gpufabric.nccl.report#role).
  returned: V(report)
  type: list
  elements: dict
  sample: [{schema: gpufabric.nccl/result/v1, collective: all_reduce, complete: true, verdict: pass}]
isolation:
  description: The search for the role P(gpufabric.nccl.report#role).
  returned: V(report)
  type: dict
  sample: {nodes: [{node: g3, verdict: bad, where: inside}], limit: "all:!g3"}
table:
  description: The nodes and their verdicts as text.
  returned: V(report)
  type: str
  sample: "g3  bad  inside  alone: 0.003696 GB/s (limit 0.01 GB/s)"
problems:
  description: What keeps the nodes from running anything, or, with V(report), what is wrong with the nodes that are not good.
  returned: failure, and V(report)
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
