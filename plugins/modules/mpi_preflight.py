#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mpi_preflight
short_description: Find out what would keep mpirun from working, on which host, and what to do
version_added: 0.2.0
description:
  - Goes the way that mpirun goes from this node, the launcher, to all hosts at once, and from each host back to the launcher,
    and says for each host which step fails first, why, and what to do. mpirun itself answers most of this with exit status 255.
  - Each host costs one ssh session. A host that does not answer costs O(timeout) and delays no other. One whose login hangs is given
    up after 20 seconds and twice O(timeout).
  - The hosts need Python 3.8 or newer. Nothing is installed on them and nothing is written, but for a file of 4 KiB that is removed at once.
  - The module does not fail where a host does. It returns RV(ok) and RV(problems).
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.read_only
  - gpufabric.nccl.run
options:
  hosts:
    description:
      - The hosts. By default those of the run's hostfile or, where there is none yet, of the run's ssh configuration.
    type: list
    elements: dict
    suboptions:
      name:
        description: What to call the host in results. Without O(hosts[].address), the name that is resolved, or a numeric address.
        type: str
        required: true
      address:
        description: Its numeric address, as in the run's ssh configuration.
        type: str
      python:
        description: Path of a Python on the host that is tried before C(python3).
        type: path
      run_dir:
        description: Directory of the run on the host. By default the same as on this node.
        type: path
  level:
    description:
      - V(quick) goes as far as the connection back to the launcher.
      - V(full) also tries the data network between the hosts, and looks at GPUs, C(/dev/shm), limits, disks, clocks and RDMA devices.
    type: str
    choices: [quick, full]
    default: quick
  mpi_prefix:
    description: Directory in which Open MPI is installed, on all hosts. By default that of this node's mpirun.
    type: path
  program:
    description: Path of a benchmark program that must be there, load and be the same on all hosts. By default none is looked at.
    type: path
  control_interface:
    description:
      - The interface of the control network by its name or, where names differ between hosts, its subnet.
      - By default the launcher waits for its hosts on the address that leads to the first of them.
    type: str
  data_interface:
    description: Name of the interface for NCCL's traffic. By default the data network is not tried.
    type: str
  environment:
    description:
      - Environment variables that must reach the hosts over ssh, C(*) and C(?) are wildcards. One that is not set is tried with a stand-in.
      - Not all that mpirun needs goes this way. Set it to an empty list for hosts whose sshd is not the run's.
    type: list
    elements: str
    default: [LD_LIBRARY_PATH, NCCL_*, OMPI_MCA_*, PRTE_MCA_*, PMIX_MCA_*]
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
        description: GPUs. By default any number.
        type: int
      shm_bytes:
        description: Size of C(/dev/shm). By default 64 MiB for each GPU.
        type: int
      memlock_bytes:
        description: Memory that may be locked. By default 64 MiB where there are RDMA devices.
        type: int
      processes:
        description: How many more processes and threads may be started.
        type: int
        default: 256
      open_files:
        description: How many files a process may have open.
        type: int
        default: 1024
      disk_bytes:
        description: Free space in the run's directory and that of temporary files.
        type: int
        default: 67108864
      clock_skew:
        description: How far, in seconds, the clock may be from the launcher's.
        type: float
        default: 5
seealso:
  - module: gpufabric.nccl.ssh_mesh
  - module: gpufabric.nccl.ssh_probe
  - module: gpufabric.nccl.mpi_run
"""

EXAMPLES = r"""
- name: Look at all hosts of the run before anything is started
  gpufabric.nccl.mpi_preflight:
    control_interface: eth0
  register: preflight
  run_once: true

- name: Stop where a launch would fail
  ansible.builtin.assert:
    that: preflight.ok
    fail_msg: "{{ preflight.problems | gpufabric.nccl.problems_text }}"
  run_once: true

- name: Look at all there is
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
      description: Its address; V(null) where its name does not resolve.
      type: str
      sample: 10.0.0.11
    ok:
      description: Whether it has no error.
      type: bool
      sample: false
    stage:
      description: >-
        The first stage that fails, V(null) where none does. In order, C(resolve), C(connect), C(host_key), C(authenticate), C(session),
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
      description: What the host looks like from inside an ssh session, sizes in bytes, times in seconds; V(null) where it could not be looked at.
      type: dict
      sample: {hostname: gpu-node-1}
problems:
  description: >-
    What is wrong, each with C(id), C(severity) (V(error) or V(warning)), C(host), C(cause), C(cure) and C(evidence).
    What is wrong with the launcher is there once.
  returned: success
  type: list
  elements: dict
  sample:
    - id: daemon-library-missing
      severity: error
      host: gpu-node-1
      cause: /usr/bin/orted does not start, because the loader does not find libopen-rte.so.40.
      cure: Install what is missing, or set LD_LIBRARY_PATH in gpufabric_environment to where it is.
      evidence: /usr/bin/orted
seconds:
  description: How long it took.
  returned: success
  type: float
  sample: 1.9
"""

import os
import socket
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._account import Account
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import read_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._hostfile import parse_hostfile
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import parse_address, read_addresses
from ansible_collections.gpufabric.nccl.plugins.module_utils._node import find_mpi
from ansible_collections.gpufabric.nccl.plugins.module_utils._openmpi import (
    Launch,
    check_implementation,
    environment,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._openssh import find_openssh_program
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight import (
    Peer,
    Preflight,
    choose_callback_address,
    judge,
    parse_ssh_config,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight_checks import Expected, Settings
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RUN_ARGUMENT_SPEC, RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh_mesh import (
    FORWARDED_ENVIRONMENT,
    agent,
    check_environment_names,
)


def read_config(run_dir: RunDir) -> str:
    """The text of the run's ssh configuration. Raises GpufabricError."""
    config = read_text(run_dir.ssh_config)
    if config is None:
        raise OptionError("run_dir", run_dir.path, "the directory of a run with ssh/config, as ssh_mesh writes it")
    return config


def choose_peers(hosts: list[dict] | None, run_dir: RunDir, config: str) -> list[Peer]:
    """The hosts to look at. Raises GpufabricError."""
    if hosts is None:
        hostfile = read_text(run_dir.hostfile)
        if hostfile is None:
            return [Peer(address, address) for address in parse_ssh_config(config)]
        return [Peer(host.name) for host in parse_hostfile(hostfile, run_dir.hostfile)]
    if not hosts:
        raise OptionError("hosts", hosts, "at least one host with its name")
    names = [host["name"] for host in hosts]
    for index, host in enumerate(hosts):
        if host["name"] in names[:index]:
            raise OptionError(f"hosts[{index}].name", host["name"], "each host once")
        if host["address"] is not None:
            host["address"] = parse_address(f"hosts[{index}].address", host["address"])
    return [Peer(**host) for host in hosts]


def plan(params: dict, run_dir: RunDir, config: str, peers: list[Peer]) -> Preflight:
    """The look that the options name. Raises GpufabricError."""
    check_environment_names("environment", params["environment"])
    if not 0 < params["timeout"] <= 60:
        raise OptionError("timeout", params["timeout"], "more than 0 and at most 60 seconds")
    mpi = check_implementation(find_mpi(params["mpi_prefix"]))
    ssh = agent(find_openssh_program("ssh"), run_dir)
    control = params["control_interface"]
    launch = Launch(mpi["mpirun"], mpi["prefix"], "", 1, None, tuple(ssh), control, params["data_interface"])
    addresses = read_addresses()
    callback = choose_callback_address(control, addresses, next((peer.address for peer in peers if peer.address), None))
    own = {item.address for item in addresses}
    gid_index = os.environ.get("NCCL_IB_GID_INDEX", "")
    settings = Settings(
        launcher=next((peer.name for peer in peers if peer.address in own), socket.gethostname()),
        prefix=mpi["prefix"],
        daemon="orted" if mpi["version"].startswith("4.") else "prted",
        run_dir=run_dir.path,
        full=params["level"] == "full",
        program=params["program"],
        control=control,
        data_interface=params["data_interface"],
        environment=tuple(params["environment"]),
        rdma_devices=os.environ.get("NCCL_IB_HCA", ""),
        gid_index=int(gid_index) if gid_index.isdigit() else None,
        timeout=params["timeout"],
        expected=Expected(**params["expect"]),
    )
    variables = Account(run_dir).added_to(environment(launch, os.environ, {}))
    return Preflight(settings, ssh, config, variables, callback)


def main() -> None:
    """Run the module."""
    defaults = Expected()
    module = AnsibleModule(
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
                },
            },
            "level": {"type": "str", "choices": ["quick", "full"], "default": "quick"},
            "mpi_prefix": {"type": "path"},
            "program": {"type": "path"},
            "control_interface": {"type": "str"},
            "data_interface": {"type": "str"},
            "environment": {"type": "list", "elements": "str", "default": list(FORWARDED_ENVIRONMENT)},
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
    params = module.params
    begin = time.monotonic()
    try:
        run_dir = RunDir(params["run_id"], params["run_dir"])
        config = read_config(run_dir)
        peers = choose_peers(params["hosts"], run_dir, config)
        preflight = plan(params, run_dir, config, peers)
        hosts, problems = judge(preflight.run(peers), preflight.settings)
    except GpufabricError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=False,
        ok=all(problem.severity != "error" for problem in problems),
        hosts=hosts,
        problems=[problem.as_dict() for problem in problems],
        seconds=round(time.monotonic() - begin, 2),
    )


if __name__ == "__main__":
    main()
