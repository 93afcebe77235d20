#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_tests_info
short_description: Look at what a node has of nccl-tests, and of what a build needs
version_added: 0.2.0
description:
  - Returns the architectures of the GPUs of a node, the programs of nccl-tests that it has, and what it lacks to build them, in one round
    trip.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.read_only
options:
  directory:
    description: As O(gpufabric.nccl.nccl_tests_build#module:directory) of M(gpufabric.nccl.nccl_tests_build).
    type: path
    default: /opt/nccl-tests
  cuda_home:
    description: Directory of the CUDA toolkit. By default the module searches for it.
    type: path
  rocm_home:
    description: Directory of ROCm. By default the module searches for it.
    type: path
  nccl_home:
    description: Directory of NCCL or RCCL. By default the module searches for it.
    type: path
  mpi_prefix:
    description: Directory in which Open MPI is installed. By default that of the node's mpirun.
    type: path
seealso:
  - module: gpufabric.nccl.nccl_tests_build
  - module: gpufabric.nccl.mpi_node_info
"""

EXAMPLES = r"""
- name: Look at what a build needs
  gpufabric.nccl.nccl_tests_info:
  register: look

- name: Show what is missing
  ansible.builtin.debug:
    msg: "{{ look.missing | map(attribute='cause') | list }}"
"""

RETURN = r"""
node:
  description: What the node has.
  returned: success
  type: dict
  contains:
    vendor: {description: Whose GPUs the node has; V(null) if it has none., type: str, sample: nvidia}
    architectures: {description: "The architectures of its GPUs, as far as they are known.", type: list, elements: str, sample: ["9.0"]}
    digest:
      description: What the programs in O(directory) are known by; V(null) if there are none that M(gpufabric.nccl.nccl_tests_build) has made.
      type: str
      sample: 5c2b1e0a9d3f4c77
    reason: {description: "Why O(directory) cannot be used; empty if it can.", type: str, sample: /opt/nccl-tests is there already}
    elsewhere:
      description: The programs that the benchmark would find, if they are in another directory.
      type: dict
      contains:
        directory: {description: Their directory., type: str, sample: /usr/local/bin}
        programs: {description: Their names., type: list, elements: str, sample: [all_reduce_perf_mpi]}
missing:
  description: A problem for each thing that a build would need, and that the node does not have.
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

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.run_module import run_module
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.installation import Installation
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.toolchain import (
    Places,
    choose_vendor,
    find_toolchain,
    read_architectures,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.info import find_benchmarks


def run(params: dict, check_mode: bool) -> dict:
    """What the module returns. Raises GpufabricError."""
    installation = Installation(params["directory"])
    places = Places(params["cuda_home"], params["rocm_home"], params["nccl_home"], params["mpi_prefix"])
    vendor, architectures = read_architectures()
    missing, reason, mark = [], "", None
    try:
        find_toolchain(choose_vendor(vendor, places), places)
    except ProblemError as error:
        missing = [problem.as_dict() for problem in error.problems]
    try:
        installation.check()
        # Of what others may have put there, nothing is read.
        mark = installation.read()
    except NodeError as error:
        reason = str(error)
    found = find_benchmarks(None)
    elsewhere = found if found is not None and found["directory"] != installation.build else None
    node = {
        "vendor": vendor,
        "architectures": architectures,
        "digest": mark.digest if mark else None,
        "reason": reason,
        "elsewhere": elsewhere,
    }
    return {"node": node, "missing": missing}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "default": "/opt/nccl-tests"},
            "cuda_home": {"type": "path"},
            "rocm_home": {"type": "path"},
            "nccl_home": {"type": "path"},
            "mpi_prefix": {"type": "path"},
        },
        supports_check_mode=True,
    )
    run_module(module, run)


if __name__ == "__main__":
    main()
