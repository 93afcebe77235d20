#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_tests_spread
short_description: Bring nccl-tests from the node that built it to others
version_added: 0.2.0
description:
  - Sends the programs that M(gpufabric.nccl.nccl_tests_build) has built on this node to other nodes, over the ssh that the nodes of a run have
    between them (M(gpufabric.nccl.ssh_mesh)). The controller has no part in it.
  - The nodes need no compiler, and no header. Before a node installs the programs, it checks that they came whole, and that the loader
    finds their libraries as it will when mpirun starts them. Otherwise it keeps what it had, and the module names it and the library.
  - A node that has the same programs already is left as it is.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.run
attributes:
  check_mode:
    support: full
    details:
      - In check mode nothing is sent, and all of O(hosts) count as changed.
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  directory:
    description: As O(gpufabric.nccl.nccl_tests_build#module:directory) of M(gpufabric.nccl.nccl_tests_build), the same on all nodes.
    type: path
    default: /opt/nccl-tests
  hosts:
    description:
      - The nodes to bring the programs to, each with its C(name) and C(address), as the role P(gpufabric.nccl.key_exchange#role) lists them. Further
        fields are ignored.
    type: list
    elements: dict
    required: true
  mpi_prefix:
    description: Directory in which Open MPI is installed on all nodes. By default that of this node's mpirun.
    type: path
  timeout:
    description: How long one node may take, in seconds.
    type: int
    default: 300
requirements:
  - Python 3.8 or newer on the nodes
seealso:
  - module: gpufabric.nccl.nccl_tests_build
  - module: gpufabric.nccl.ssh_mesh
"""

EXAMPLES = r"""
- name: Bring nccl-tests from the first worker to the others
  gpufabric.nccl.nccl_tests_spread:
    hosts: "{{ gpufabric_peers[1:] }}"
  delegate_to: "{{ gpufabric_peers[0].name }}"
  run_once: true
"""

RETURN = r"""
hosts:
  description: The nodes that have the programs now and did not have them before.
  returned: success
  type: list
  elements: str
  sample: [gpu-2, gpu-3]
bytes:
  description: How many bytes went to each node; 0 in check mode.
  returned: success
  type: int
  sample: 9437184
problems:
  description: What is wrong.
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

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import ADDRESS, PLAIN
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.run_module import run_module
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.installation import RANGES, Installation
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.spreading import Target, pack, spread
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.info import find_mpi
from ansible_collections.gpufabric.nccl.plugins.module_utils._options import check_ranges
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RUN_ARGUMENT_SPEC, RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.mesh import agent
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.programs import find_openssh_program


def parse_target(index: int, host: dict) -> Target:
    """A node to bring the programs to. Raises OptionError."""
    if not PLAIN.is_allowed(host.get("name")):
        raise OptionError(f"hosts[{index}].name", host.get("name"), PLAIN.allowed)
    if not ADDRESS.is_allowed(host.get("address")):
        raise OptionError(f"hosts[{index}].address", host.get("address"), ADDRESS.allowed)
    return Target(host["name"], host["address"])


def run(params: dict, check_mode: bool) -> dict:
    """What the module returns. Raises GpufabricError."""
    check_ranges({"timeout": RANGES["spread_timeout"]}, params)
    run_dir = RunDir(params["run_id"], params["run_dir"])
    installation = Installation(params["directory"])
    targets = [parse_target(index, host) for index, host in enumerate(params["hosts"])]
    if check_mode:
        return {"changed": bool(targets), "hosts": [target.name for target in targets], "bytes": 0}
    installation.check_way()
    mark = installation.read()
    if mark is None:
        raise NodeError(f"there are no programs in {installation.build}, or not those that were built")
    mpi = find_mpi(params["mpi_prefix"])
    data = pack(installation, mark, mpi["prefix"] if mpi else "/usr")
    outcomes = spread(agent(find_openssh_program("ssh"), run_dir), targets, data, params["timeout"])
    problems = [one.problem for one in outcomes.values() if one.problem is not None]
    if problems:
        raise ProblemError(*problems)
    changed = [name for name, one in outcomes.items() if one.changed]
    return {"changed": bool(changed), "hosts": changed, "bytes": len(data)}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **RUN_ARGUMENT_SPEC,
            "directory": {"type": "path", "default": "/opt/nccl-tests"},
            "hosts": {"type": "list", "elements": "dict", "required": True},
            "mpi_prefix": {"type": "path"},
            "timeout": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    run_module(module, run)


if __name__ == "__main__":
    main()
