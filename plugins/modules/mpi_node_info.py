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
      description: Interfaces that are up, each with C(name), C(mtu) (bytes) and C(addresses) (in CIDR notation).
      type: list
      elements: dict
      sample: [{name: eth0, mtu: 1500, addresses: [10.0.0.11/24]}]
    control:
      description: The control network's C(interface), C(address) and C(subnet); V(null) if O(control_interface) is not set.
      type: dict
      sample: {interface: eth0, address: 10.0.0.11, subnet: 10.0.0.0/24}
    data:
      description:
        - The same for NCCL's traffic; C(address) and C(subnet) are V(null) if the interface has no IPv4 address.
        - For several interfaces, C(interface) holds their names, separated by commas, C(address) is V(null), and C(subnet) is
          O(data_subnet).
      type: dict
      sample: {interface: net1, address: 192.168.0.11, subnet: 192.168.0.0/24}
    gpus:
      description: C(vendor) (V(nvidia), V(amd) or V(none)), C(count) and C(names), of AMD's GPUs the architecture, such as V(gfx942).
      type: dict
      sample: {vendor: nvidia, count: 8, names: [NVIDIA H100 80GB HBM3]}
    mpi:
      description:
        - C(mpirun) (path), C(prefix), C(implementation) (V(openmpi), V(mpich), V(intel), V(mvapich) or V(other)), C(version),
          and the C(vendor) of an Open MPI if that matters (V(hpcx) or V(amazon)).
        - V(null) if there is no mpirun.
      type: dict
      sample: {mpirun: /usr/bin/mpirun, prefix: /usr, implementation: openmpi, version: 4.1.4, vendor: null}
    benchmarks:
      description: The nccl-tests or rccl-tests programs, C(directory) and the names in C(programs); V(null) if there are none.
      type: dict
      sample: {directory: /opt/nccl-tests/build, programs: [all_gather_perf, all_reduce_perf]}
    python:
      description: The Python that ran the module, as C(executable), and its versions of C(mpi4py) and C(numpy), V(null) if they are missing.
      type: dict
      sample: {executable: /usr/bin/python3, mpi4py: 3.1.4, numpy: 1.24.2}
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
problems:
  description:
    - Why a play must not start the run O(run_id) here, each with C(id), C(severity), C(host), C(cause), C(cure) and C(evidence).
    - Empty without O(claim), or if the run is free.
  returned: success
  type: list
  elements: dict
  version_added: 0.2.0
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.run_module import run_module
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.info import read_node
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
    return {"node": read_node(**facts), "problems": [refusal.as_dict()] if refusal else []}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={**RUN_ARGUMENT_SPEC, **CLAIM_ARGUMENT_SPEC, **NODE_ARGUMENT_SPEC},
        mutually_exclusive=[("data_interface", "data_subnet")],
        supports_check_mode=True,
    )
    run_module(module, run)


if __name__ == "__main__":
    main()
