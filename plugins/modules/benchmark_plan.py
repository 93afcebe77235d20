#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark_plan
short_description: Plan a benchmark over the workers
version_added: 0.2.0
description:
  - Chooses the backend, the launcher, the ranks of each worker and the command lines, from what the workers have and from the
    variables of the role P(gpufabric.nccl.nccl_benchmark#role).
  - Only a task of that role can call it.
  - Reads each variable as its type says, also if it was given as text. A list may have commas or lines between its items, or be JSON.
  - If the workers cannot run the benchmark together, it fails, names the worker at fault, and says what to do.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
  - gpufabric.nccl.attributes.read_only
options:
  nodes:
    description: The C(node) that M(gpufabric.nccl.mpi_node_info) returned, by the worker's name in the inventory.
    type: dict
    required: true
  peers:
    description:
      - The workers, as M(gpufabric.nccl.collect_peers) lists them.
      - Without them, the plan only says whether the workers can run anything together.
    type: list
    elements: dict
  refusals:
    description:
      - The C(problems) that M(gpufabric.nccl.mpi_node_info) returned, by worker. If the run must not be started on one, the plan fails with
        them. If there are programs of another run on one, the task warns.
    type: dict
    default: {}
seealso:
  - module: gpufabric.nccl.mpi_node_info
  - module: gpufabric.nccl.mpi_run
"""

EXAMPLES = r"""
- name: Plan the benchmark
  gpufabric.nccl.benchmark_plan:
    nodes: "{{ dict(gpufabric_hosts | zip(gpufabric_hosts | map('extract', hostvars, ['_nccl_benchmark_info', 'node']))) }}"
    peers: "{{ gpufabric_peers }}"
  register: plan
"""

RETURN = r"""
backend:
  description: What runs, V(nccl) or V(cpu).
  returned: success
  type: str
  sample: nccl
reason:
  description: Why it is this backend.
  returned: success
  type: str
  sample: GPUs and nccl-tests are on all workers
launcher:
  description: The host that mpirun runs on.
  returned: success
  type: str
  sample: gpu-1
program:
  description: Path of the first program, if workers have one of their own.
  returned: success
  type: str
  sample: /opt/nccl-tests/build/all_reduce_perf
data:
  description: The interfaces for NCCL's traffic, if they have the same names on all workers.
  returned: success
  type: str
  sample: net1
node_env:
  description: The environment variables of each worker's own, by worker.
  returned: success
  type: dict
  sample: {gpu-2: {NCCL_SOCKET_IFNAME: =net2}}
settings:
  description: The variables of the role, by their names without its prefix, each as its type says.
  returned: success
  type: dict
  sample: {"iterations": 20}
control:
  description: The control network, as Open MPI takes it.
  returned: with O(peers)
  type: str
  sample: eth0
hosts:
  description: The hosts of the hostfile, for M(gpufabric.nccl.mpi_hostfile).
  returned: with O(peers)
  type: list
  elements: dict
  sample: [{"name": "gpu-1", "address": "10.0.0.11", "slots": 8}]
points:
  description: What to run, for M(gpufabric.nccl.mpi_run).
  returned: with O(peers)
  type: list
  elements: dict
  sample: [{"name": "all_reduce", "argv": ["/opt/nccl-tests/build/all_reduce_perf", "-b", "8"], "env": {}}]
mca:
  description: MCA parameters, for M(gpufabric.nccl.mpi_run).
  returned: with O(peers)
  type: dict
  sample: {btl_tcp_links: "2"}
cpu_program:
  description: Path of the program of the backend V(cpu) on the host of rank 0.
  returned: with O(peers)
  type: str
  sample: /run/gpufabric/default/mpi/files/cpu_perf.py
inventory_names:
  description: Inventory names by the short host names that the programs print, of hosts where these differ.
  returned: with O(peers)
  type: dict
  sample: {"g1": "gpu-1"}
hardware:
  description: What most workers have.
  returned: with O(peers)
  type: dict
  contains:
    ports: {description: "The active RDMA ports, and the rate of each in Gb/s.", type: dict, sample: {"mlx5_0:1": 400.0}}
    nvlink_gbytes:
      description: What the NVLinks of a GPU carry in one direction, in GB/s; V(null) if it is not known.
      type: float
      sample: 450.0
beside:
  description: A warning, as M(gpufabric.nccl.mpi_node_info) returns it, for each other run that has programs on the workers.
  returned: with O(peers)
  type: list
  elements: dict
  version_added: 0.2.0
  sample:
    - id: run-beside
      severity: warning
      host: gpu-1
      cause: Programs of another run, night, of you@there, started 3 minutes ago, are on the host. Both runs measure less than the machine can do.
      cure: Wait for the end of that run, and then run this one again.
      evidence: 9 processes in /run/gpufabric/night
sweep:
  description: What P(gpufabric.nccl.sweep_points#filter) made for each point, empty without a sweep.
  returned: with O(peers)
  type: list
  elements: dict
  sample: [{id: all_reduce-8-64K-1c4a5e0b9d21-2, collective: all_reduce, env: {NCCL_ALGO: Ring}, repeat: 2}]
points_table:
  description: The first points of a sweep as text.
  returned: success
  type: str
  sample: "all_reduce-8-64K-1c4a5e0b9d21-2  all_reduce NCCL_ALGO=Ring"
problems:
  description: What keeps the plan from working, of each host at fault.
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
