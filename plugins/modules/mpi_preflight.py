#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mpi_preflight
short_description: Find what would keep mpirun from working, on which host, and how to fix it
version_added: 0.2.0
description:
  - Checks the launch path of mpirun from this node, the launcher, to all hosts at once, and from each host back to the launcher.
    For each host it returns the first stage that fails, the cause and the cure. mpirun itself ends with exit status 255 in most cases.
  - Each host costs one ssh session. A host that does not answer costs O(timeout) and delays no other. If a login hangs, the module
    gives up after 20 seconds plus twice O(timeout).
  - The hosts need Python 3.8 or newer. The module installs nothing on them, and writes only a file of 4 KiB that it removes at once.
  - The module does not fail if a host does. It returns RV(ok) and RV(problems).
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.read_only
  - gpufabric.nccl.run
options:
  hosts:
    description:
      - The hosts. By default those of the run's hostfile or, if there is none yet, of the run's ssh configuration.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the host in results. Without O(hosts[].address), it is resolved, or is a numeric address.
        type: str
        required: true
      address:
        description: Its numeric address, as in the run's ssh configuration.
        type: str
      python:
        description: Path of a Python on the host to try before C(python3).
        type: path
      run_dir:
        description: Directory of the run on the host. By default the same as on this node.
        type: path
      control_interface:
        description: The same as O(control_interface), for this host alone; empty if it has none.
        type: str
      data_interface:
        description: The same as O(data_interface), for this host alone; empty if it has none. Several are the same networks in the same order.
        type: str
  level:
    description:
      - V(quick) ends with the connection back to the launcher.
      - V(full) also checks the data network between the hosts, GPUs, C(/dev/shm), limits, disks, clocks and RDMA devices.
    type: str
    choices: [quick, full]
    default: quick
  mpi_prefix:
    description: Directory in which Open MPI is installed, on all hosts. By default that of this node's mpirun.
    type: path
  program:
    description: Path of a benchmark program that must exist, load and be the same on all hosts. By default no program is checked.
    type: path
  control_interface:
    description:
      - The interface of the control network by its name or, if names differ between hosts, its subnet.
      - By default the launcher waits for its hosts on the address that leads to the first of them.
    type: str
  data_interface:
    description: Name of the interface for NCCL's traffic, or several, separated by commas. By default no data network is checked.
    type: str
  environment:
    description:
      - Environment variables that must reach the hosts over ssh; C(*) and C(?) are wildcards. A variable that is not set is tested with a
        stand-in.
      - Not all that mpirun needs is passed this way. Set it to an empty list for hosts whose sshd is not the run's.
    type: list
    elements: str
    default: [LD_LIBRARY_PATH, NCCL_*, OMPI_MCA_*, PRTE_MCA_*, PMIX_MCA_*]
  env:
    description:
      - Environment variables that all ranks are to get from mpirun, whatever their hosts set; V(null) for one that the launcher's environment
        is not to hand on.
      - The libraries of O(program) are searched by E(LD_LIBRARY_PATH), if it has that.
      - With O(level=full), the RDMA ports that are checked are those that E(NCCL_IB_HCA) selects for the ranks of the host, and
        E(NCCL_IB_GID_INDEX) is to be an address of theirs. Without these in O(env), they are what the host's sshd sets, else the launcher's.
    type: dict
    default: {}
  timeout:
    description: How long a connection may take, in seconds.
    type: float
    default: 5
  expect:
    description: What each host must have at least, with O(level=full).
    type: dict
    default: {}
    suboptions:
      gpus:
        description: Number of GPUs. By default any number.
        type: int
      shm_bytes:
        description: Size of C(/dev/shm), in bytes. By default 64 MiB for each GPU.
        type: int
      memlock_bytes:
        description: Memory that may be locked, in bytes. By default 64 MiB if there are RDMA devices.
        type: int
      processes:
        description: Number of further processes and threads that may be started.
        type: int
        default: 256
      open_files:
        description: Number of files that a process may have open.
        type: int
        default: 1024
      disk_bytes:
        description: Free space in the run's directory and that of temporary files, in bytes.
        type: int
        default: 67108864
      clock_skew:
        description: Largest difference of the clock from the launcher's, in seconds.
        type: float
        default: 5
requirements:
  - Open MPI 4 or 5 and OpenSSH's client on the node
seealso:
  - module: gpufabric.nccl.ssh_mesh
  - module: gpufabric.nccl.ssh_probe
  - module: gpufabric.nccl.mpi_run
"""

EXAMPLES = r"""
- name: Check all hosts of the run before a launch
  gpufabric.nccl.mpi_preflight:
    control_interface: eth0
  register: preflight
  run_once: true

- name: Stop if a launch would fail
  ansible.builtin.assert:
    that: preflight.ok
    fail_msg: "{{ preflight.problems | gpufabric.nccl.problems_text }}"
  run_once: true

- name: Check everything
  gpufabric.nccl.mpi_preflight:
    level: full
    data_interface: net1
    expect:
      gpus: 8
"""

RETURN = r"""
ok:
  description: Whether no problem is an error.
  returned: success
  type: bool
  sample: false
hosts:
  description: The hosts in their order.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The host.
      type: str
      sample: gpu-node-1
    address:
      description: Its address; V(null) if its name does not resolve.
      type: str
      sample: 10.0.0.11
    ok:
      description: Whether it has no error.
      type: bool
      sample: false
    stage:
      description: >-
        The first stage that fails, V(null) if none does. In order, C(resolve), C(connect), C(host_key), C(authenticate), C(session),
        C(environment), C(daemon), C(libraries), C(version), C(program), C(control), C(callback), C(data), C(gpus), C(limits), C(disk),
        C(clock), C(rdma).
      type: str
      sample: libraries
    problems:
      description: The ids of its problems.
      type: list
      elements: str
      sample: [daemon-library-missing]
    facts:
      description: Facts of the host inside an ssh session, sizes in bytes, times in seconds; V(null) if they could not be collected.
      type: dict
      sample: {hostname: gpu-node-1}
problems:
  description: What is wrong. A problem of the launcher is listed once.
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
  sample:
    - id: daemon-library-missing
      severity: error
      host: gpu-node-1
      cause: /usr/bin/orted does not start, because the loader does not find libopen-rte.so.40.
      cure: Install what is missing, or set LD_LIBRARY_PATH in gpufabric_environment to where it is.
      evidence: /usr/bin/orted
seconds:
  description: How long it took, in seconds.
  returned: success
  type: float
  sample: 1.9
"""

import time

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import CATALOGUE
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.run_module import QuietModule, run_module
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.checks import Expected
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.planning import choose_peers, plan, read_config
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.sessions import judge
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RUN_ARGUMENT_SPEC, RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.policy import FORWARDED_ENVIRONMENT


def run(params: dict, check_mode: bool) -> dict:
    """Look at all hosts; what the module returns. Raises GpufabricError."""
    begin = time.monotonic()
    run_dir = RunDir(params["run_id"], params["run_dir"])
    config = read_config(run_dir)
    peers = choose_peers(params["hosts"], run_dir, config)
    preflight = plan(params, run_dir, config, peers)
    hosts, problems = judge(preflight.run(peers), preflight.settings)
    return {
        "ok": all(problem.severity != "error" for problem in problems),
        "hosts": hosts,
        "problems": [problem.as_dict() for problem in problems],
        "seconds": round(time.monotonic() - begin, 2),
    }


def main() -> None:
    """Run the module."""
    defaults = Expected()
    module = QuietModule(
        argument_spec={
            **RUN_ARGUMENT_SPEC,
            "hosts": {
                "type": "list",
                "elements": "dict",
                "options": {
                    "name": {"type": "str", "required": True},
                    "address": {"type": "str"},
                    "python": {"type": "path"},
                    "run_dir": {"type": "path"},
                    "control_interface": {"type": "str"},
                    "data_interface": {"type": "str"},
                },
            },
            "level": {"type": "str", "choices": ["quick", "full"], "default": "quick"},
            "mpi_prefix": {"type": "path"},
            "program": {"type": "path"},
            "control_interface": {"type": "str"},
            "data_interface": {"type": "str"},
            "environment": {"type": "list", "elements": "str", "default": list(FORWARDED_ENVIRONMENT)},
            "env": {"type": "dict", "default": {}},
            "timeout": {"type": "float", "default": 5},
            "expect": {
                "type": "dict",
                "default": {},
                "apply_defaults": True,
                "options": {
                    "gpus": {"type": "int"},
                    "shm_bytes": {"type": "int"},
                    "memlock_bytes": {"type": "int"},
                    "processes": {"type": "int", "default": defaults.processes},
                    "open_files": {"type": "int", "default": defaults.open_files},
                    "disk_bytes": {"type": "int", "default": defaults.disk_bytes},
                    "clock_skew": {"type": "float", "default": defaults.clock_skew},
                },
            },
        },
        supports_check_mode=True,
    )
    run_module(module, run, CATALOGUE.problems_in)


if __name__ == "__main__":
    main()
