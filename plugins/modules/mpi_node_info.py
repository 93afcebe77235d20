#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mpi_node_info
short_description: Collect the facts of a node that a launch by mpirun needs
version_added: 0.1.0
description:
  - Returns interfaces and addresses, GPUs, Open MPI, the benchmark programs, shared memory, limits and RDMA devices of a node, in one
    round trip.
seealso:
  - module: gpufabric.nccl.mpi_hostfile
  - module: gpufabric.nccl.mpi_run
  - module: gpufabric.nccl.run_claim
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.read_only
  - gpufabric.nccl.run
  - gpufabric.nccl.run.claim
options:
  control_interface:
    description: Name of the interface of the control network. It must exist and have one IPv4 address.
    type: str
  data_interface:
    description: Name of the interface for NCCL's traffic, or several, separated by commas. Each must exist.
    type: str
  data_subnet:
    description:
      - A subnet in CIDR notation. All interfaces with an address in it are for NCCL's traffic, whatever their names are.
      - Mutually exclusive with O(data_interface).
    type: str
    version_added: 0.2.0
  mpi_prefix:
    description:
      - Directory in which Open MPI is installed, the one that holds C(bin/mpirun).
      - By default the module searches the PATH and the directories where vendors put it.
    type: path
  benchmark_dir:
    description:
      - Directory of the nccl-tests or rccl-tests programs.
      - By default the module searches the PATH and the usual directories.
    type: path
"""

EXAMPLES = r"""
- name: Collect the facts of all workers
  gpufabric.nccl.mpi_node_info:
    control_interface: eth0
    data_interface: net1
  register: info

- name: Find NCCL's interfaces by subnet, if their names differ between workers
  gpufabric.nccl.mpi_node_info:
    data_subnet: 192.168.0.0/24

- name: Show how many GPUs there are
  ansible.builtin.debug:
    msg: "{{ info.node.gpus.count }}"
"""

RETURN = r"""
node:
  description: The facts.
  returned: success
  type: dict
  contains:
    hostname:
      description: Host name.
      type: str
      sample: gpu-node-1
    interfaces:
      description: Interfaces that are up.
      type: list
      elements: dict
      contains:
        name: {description: Its name., type: str, sample: eth0}
        mtu: {description: "Its MTU, in bytes; V(null) if it is unknown.", type: int, sample: 1500}
        addresses: {description: "Its addresses, in CIDR notation.", type: list, elements: str, sample: [10.0.0.11/24]}
    control:
      description: The control network; V(null) if O(control_interface) is not set.
      type: dict
      contains:
        interface: {description: Name of the interface., type: str, sample: eth0}
        address: {description: The node's IPv4 address in it., type: str, sample: 10.0.0.11}
        subnet: {description: "The subnet, in CIDR notation.", type: str, sample: 10.0.0.0/24}
    data:
      description: The network for NCCL's traffic; V(null) if neither O(data_interface) nor O(data_subnet) is set.
      type: dict
      contains:
        interface: {description: "Name of the interface, or several, separated by commas.", type: str, sample: net1}
        address: {description: Its IPv4 address; V(null) if it has none or there are several interfaces., type: str, sample: 192.168.0.11}
        subnet: {description: Its subnet; for several interfaces O(data_subnet)., type: str, sample: 192.168.0.0/24}
    gpus:
      description: The GPUs.
      type: dict
      contains:
        vendor: {description: "V(nvidia), V(amd) or V(none).", type: str, sample: nvidia}
        count: {description: Number of GPUs., type: int, sample: 8}
        names:
          description: The different names of their models, of AMD's GPUs the architecture, such as V(gfx942).
          type: list
          elements: str
          sample: [NVIDIA H100 80GB HBM3]
        memory_bytes:
          description: Memory of the GPU that has least, in bytes; V(null) if it is unknown.
          type: int
          sample: 85520809984
          version_added: 0.2.0
        nvlink_gbytes:
          description:
            - What the NVLinks of a GPU carry in one direction, in GB/s, by the active links of most GPUs that C(nvidia-smi nvlink -s) lists.
            - V(null) if there are none, or nothing is known of them.
          type: float
          sample: 450.0
          version_added: 0.2.0
        unusable:
          description: If RV(node.gpus.count) is 0, the GPUs that are on the PCI bus, by address, vendor and device; no driver offers them.
          type: list
          elements: str
          sample: [0000:1b:00.0 10de:2330]
          version_added: 0.2.0
    line_rate:
      description:
        - How fast the node can send, over all its active RDMA ports; without any over the interfaces of O(data_interface), else
          O(control_interface), else over its fastest one. V(null) if the kernel does not tell.
      type: dict
      version_added: 0.2.0
      contains:
        gbps: {description: Gb/s., type: float, sample: 3200.0}
        source: {description: "The ports or interfaces, in words.", type: str, sample: 8 RDMA ports}
    mpi:
      description: The MPI of the mpirun; V(null) if there is no mpirun.
      type: dict
      contains:
        mpirun: {description: Path of mpirun., type: str, sample: /usr/bin/mpirun}
        prefix: {description: Directory in which it is installed., type: str, sample: /usr}
        implementation:
          description: V(openmpi), V(mpich), V(intel), V(mvapich) or V(other).
          type: str
          sample: openmpi
        version: {description: Its version., type: str, sample: 4.1.4}
        vendor: {description: "Vendor of an Open MPI if that matters (V(hpcx) or V(amazon)), else V(null).", type: str, sample: hpcx}
    benchmarks:
      description: The nccl-tests or rccl-tests programs; V(null) if there are none.
      type: dict
      contains:
        directory: {description: Directory of the programs., type: str, sample: /opt/nccl-tests/build}
        programs: {description: Their names., type: list, elements: str, sample: [all_gather_perf, all_reduce_perf]}
        features:
          description:
            - What all of the programs can do beyond the oldest version, by the constants in their files; V(json) (C(-J)), V(rank_times)
              (C(-I), with the times of each process in the JSON), V(barriers) (C(-z 3)), V(cycles) (C(-N)), V(timestamps) (C(-S)).
          type: list
          elements: str
          sample: [json, rank_times, barriers, cycles, timestamps]
          version_added: 0.2.0
    python:
      description: The Python that ran the module.
      type: dict
      contains:
        executable: {description: Its path., type: str, sample: /usr/bin/python3}
        mpi4py: {description: Version of mpi4py; V(null) if it is missing., type: str, sample: 3.1.4}
        numpy: {description: Version of NumPy; V(null) if it is missing., type: str, sample: 1.24.2}
    cpus:
      description: Number of CPUs that a process on the node may use.
      type: int
      sample: 96
    shm_bytes:
      description: Size of C(/dev/shm) in bytes; V(null) if there is none.
      type: int
      sample: 17179869184
    memlock_bytes:
      description: Limit on locked memory in bytes; V(null) if it is unlimited.
      type: int
      sample: 67108864
    rdma_devices:
      description: Names of the RDMA devices.
      type: list
      elements: str
      sample: [mlx5_0, mlx5_1]
    rdma_ports:
      description: The ports of the RDMA devices.
      type: list
      elements: dict
      version_added: 0.2.0
      contains:
        name: {description: Its device and number, type: str, sample: "mlx5_0:1"}
        active: {description: Whether it is active, type: bool, sample: true}
        gbps: {description: Its rate in Gb/s; V(null) if the kernel does not say it., type: float, sample: 400.0}
problems:
  description:
    - Why a play must not start the run O(run_id) here, if O(claim) is given and the run is not free.
    - A warning, C(run-beside), for each other run that has programs here. As root, the module sees those of all users.
  returned: success
  type: list
  elements: dict
  version_added: 0.2.0
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

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.run_module import run_module
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.info import read_node
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.other_runs import find_others
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.ownership import CLAIM_ARGUMENT_SPEC, Ownership
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RUN_ARGUMENT_SPEC, RunDir

#: What the facts are read by.
NODE_ARGUMENT_SPEC = {
    "control_interface": {"type": "str"},
    "data_interface": {"type": "str"},
    "data_subnet": {"type": "str"},
    "mpi_prefix": {"type": "path"},
    "benchmark_dir": {"type": "path"},
}


def run(params: dict, check_mode: bool) -> dict:
    """What the module returns. Raises GpufabricError."""
    run_dir = RunDir(params["run_id"], params["run_dir"])
    claim = params["claim"]
    refusal = None if claim is None or claim["take_over"] else Ownership(run_dir, claim).refusal()
    facts = {name: params[name] for name in NODE_ARGUMENT_SPEC}
    problems = [*([refusal] if refusal else []), *find_others(run_dir)]
    return {"node": read_node(**facts), "problems": [found.as_dict() for found in problems]}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={**RUN_ARGUMENT_SPEC, **CLAIM_ARGUMENT_SPEC, **NODE_ARGUMENT_SPEC},
        supports_check_mode=True,
    )
    run_module(module, run)


if __name__ == "__main__":
    main()
