#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mpi_run
short_description: Run programs on many nodes by mpirun
version_added: 0.1.0
description:
  - Runs each of a list of points, programs with their arguments and environment, by Open MPI 4 or 5, over the run's private sshd.
  - What the programs print is kept in files on the launcher.
  - Proves from the output of an nccl-tests program that all hosts and all ranks took part. A run that fell back to one host fails.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.run
attributes:
  check_mode:
    support: full
    details:
      - Nothing is run. The points are returned with the status V(planned) and the command that would be run.
  diff_mode:
    support: none
    details:
      - The module runs programs.
  idempotent:
    support: none
    details:
      - The module runs programs.
options:
  state:
    description:
      - V(finished) runs the points to their end.
      - V(absent) ends what still runs of them on this node, and removes their files and the hostfile.
    type: str
    choices: [finished, absent]
    default: finished
  points:
    description:
      - The programs to run, one after the other. A point that fails does not keep the following ones from running.
      - Required with O(state=finished).
    type: list
    elements: dict
    suboptions:
      name:
        description: What to call the point in messages. By default the program's name.
        type: str
      argv:
        description: The program and its arguments.
        type: list
        elements: str
        required: true
      env:
        description: Environment variables of the program, on all ranks.
        type: dict
        default: {}
      timeout:
        description: How long the point may take, in seconds. By default O(timeout).
        type: float
  files:
    description:
      - Texts that the programs need on the launcher, by file name. They are written to C(mpi/files) in the run's directory
        before the first point is run.
      - The other nodes do not get them.
    type: dict
    default: {}
  hostfile:
    description:
      - Path of the hostfile.
      - The default is C(mpi/hostfile) in the run's directory, where M(gpufabric.nccl.mpi_hostfile) writes it.
    type: path
  mpi_prefix:
    description: Directory in which Open MPI is installed, on all nodes. By default that of the mpirun that is found.
    type: path
  ranks_per_node:
    description: How many ranks each host takes. By default as many as it has slots.
    type: int
  control_interface:
    description:
      - The interface that Open MPI itself is to use, by its name or, where names differ between nodes, by its subnet.
      - By default Open MPI tries all, and hangs where one leads nowhere.
    type: str
  data_interface:
    description: Name of the interface that NCCL is to use, set as E(NCCL_SOCKET_IFNAME).
    type: str
  forward_env:
    description:
      - Names of the environment variables that the ranks get, C(*) and C(?) are wildcards.
      - Those of a point are always handed on.
    type: list
    elements: str
    default: [LD_LIBRARY_PATH, PATH, NCCL_*]
  mca:
    description:
      - MCA parameters, which come before those that the module sets.
      - By default, C(pml) is V(ob1), C(btl) is V(self,tcp), and the collective components C(ucc) and C(hcoll) are off.
    type: dict
    default: {}
  timeout:
    description: How long a point may take, in seconds. When it is over, the point's processes are ended.
    type: float
    default: 600
requirements:
  - Open MPI 4 or 5 on all nodes, the same everywhere
seealso:
  - module: gpufabric.nccl.mpi_hostfile
  - module: gpufabric.nccl.nccl_result
"""

EXAMPLES = r"""
- name: Run a benchmark with eight GPUs a node
  gpufabric.nccl.mpi_run:
    points:
      - argv: [/opt/nccl-tests/build/all_reduce_perf, -b, "8", -e, 1G, -f, "2"]
        env:
          NCCL_DEBUG: INFO
    control_interface: eth0
    data_interface: net1
  register: benchmark

- name: Remove its files
  gpufabric.nccl.mpi_run:
    state: absent
"""

RETURN = r"""
points:
  description: What came of each point.
  returned: O(state=finished)
  type: list
  elements: dict
  contains:
    name:
      description: The point's name.
      type: str
      sample: all_reduce_perf
    status:
      description:
        - V(finished), V(failed) (the program or mpirun said so, or hosts or ranks were missing), V(timeout), or V(planned) in check mode.
      type: str
      sample: finished
    exit_status:
      description: Exit status of mpirun; V(null) after a time-out and in check mode.
      type: int
      sample: 0
    duration:
      description: How long it took, in seconds.
      type: float
      sample: 12.345
    stdout_path:
      description: The file with what it printed.
      type: str
      sample: /run/gpufabric/default/mpi/points/1/stdout
    stderr_path:
      description: The file with what it printed as errors.
      type: str
      sample: /run/gpufabric/default/mpi/points/1/stderr
    command:
      description: The command line of mpirun.
      type: list
      elements: str
      sample: [/usr/bin/mpirun, --prefix, /usr, --hostfile, /run/gpufabric/default/mpi/hostfile]
    problems:
      description: What went wrong, each with C(id), C(severity), C(host), C(cause), C(cure) and C(evidence).
      type: list
      elements: dict
      sample: []
complete:
  description: Whether all points finished.
  returned: O(state=finished)
  type: bool
  sample: true
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import read_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._hostfile import Host, parse_hostfile
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi_run import (
    Point,
    PointRunner,
    explain,
    parse_files,
    parse_points,
    placement,
    variables_of,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._node import find_mpi
from ansible_collections.gpufabric.nccl.plugins.module_utils._openmpi import (
    FORWARDED_TO_RANKS,
    Launch,
    argv,
    check_implementation,
    environment,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._openssh import find_openssh_program
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RUN_ARGUMENT_SPEC, RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh_mesh import agent


def read_hosts(path: str, check_mode: bool) -> list[Host]:
    """The hosts of the hostfile; in check mode it may not be written yet. Raises GpufabricError."""
    text = read_text(path)
    if text is None and check_mode:
        return []
    if text is None:
        raise OptionError("hostfile", path, "a hostfile on this node, such as mpi_hostfile writes")
    return parse_hostfile(text, path)


def plan_launch(params: dict, run_dir: RunDir, hosts: list[Host]) -> Launch:
    """The launch that the options name. Raises GpufabricError."""
    ranks_per_node = params["ranks_per_node"]
    if ranks_per_node is not None and ranks_per_node < 1:
        raise OptionError("ranks_per_node", ranks_per_node, "1 or more")
    mpi = check_implementation(find_mpi(params["mpi_prefix"]))
    return Launch(
        mpirun=mpi["mpirun"],
        prefix=mpi["prefix"],
        hostfile=params["hostfile"] or run_dir.hostfile,
        ranks=sum(ranks_per_node or host.slots for host in hosts),
        ranks_per_node=ranks_per_node,
        agent=tuple(agent(find_openssh_program("ssh"), run_dir)),
        control=params["control_interface"],
        data_interface=params["data_interface"],
        forward_env=tuple(params["forward_env"]),
        mca={name: str(value) for name, value in params["mca"].items()},
    )


def run_points(
    points: list[Point],
    files: dict[str, str],
    launch: Launch,
    hosts: list[Host],
    runner: PointRunner,
    check_mode: bool,
) -> list[dict]:
    """Run the points, or plan them in check mode; what came of each. Raises NodeError."""
    if not check_mode:
        runner.prepare(files)
    outcomes = []
    for number, point in enumerate(points, 1):
        own = variables_of(runner, number, point)
        variables = environment(launch, os.environ, own)
        command = argv(launch, variables, own, point.argv)
        if check_mode:
            outcome = {"name": point.name, "status": "planned", "exit_status": None, "problems": []}
        else:
            outcome = placement(runner.run(number, point, command, variables), len(hosts), launch.ranks)
        outcomes.append({**outcome, "command": command})
    return outcomes


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **RUN_ARGUMENT_SPEC,
            "state": {"type": "str", "choices": ["finished", "absent"], "default": "finished"},
            "points": {
                "type": "list",
                "elements": "dict",
                "options": {
                    "name": {"type": "str"},
                    "argv": {"type": "list", "elements": "str", "required": True},
                    "env": {"type": "dict", "default": {}},
                    "timeout": {"type": "float"},
                },
            },
            "files": {"type": "dict", "default": {}},
            "hostfile": {"type": "path"},
            "mpi_prefix": {"type": "path"},
            "ranks_per_node": {"type": "int"},
            "control_interface": {"type": "str"},
            "data_interface": {"type": "str"},
            "forward_env": {"type": "list", "elements": "str", "default": list(FORWARDED_TO_RANKS)},
            "mca": {"type": "dict", "default": {}},
            "timeout": {"type": "float", "default": 600},
        },
        required_if=[("state", "finished", ["points"])],
        supports_check_mode=True,
    )
    params = module.params
    os.umask(0o077)
    try:
        run_dir = RunDir(params["run_id"], params["run_dir"])
        runner = PointRunner(run_dir)
        if params["state"] == "absent":
            changed = os.path.isdir(run_dir.mpi)
            if changed and not module.check_mode:
                runner.remove()
            module.exit_json(changed=changed)
        points = parse_points(params["points"] or [], params["timeout"])
        files = parse_files(params["files"])
        hosts = read_hosts(params["hostfile"] or run_dir.hostfile, module.check_mode)
        run_dir.check()
        launch = plan_launch(params, run_dir, hosts)
        outcomes = run_points(points, files, launch, hosts, runner, module.check_mode)
    except GpufabricError as error:
        module.fail_json(msg=str(error))
    failed = [outcome for outcome in outcomes if outcome["status"] not in ("finished", "planned")]
    if failed:
        module.fail_json(msg=explain(failed, len(outcomes)), changed=True, points=outcomes, complete=False)
    module.exit_json(changed=True, points=outcomes, complete=not module.check_mode)


if __name__ == "__main__":
    main()
