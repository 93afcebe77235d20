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
  - The points are gone through by a process on the launcher that needs no connection. The controller looks now and then how
    far it is, at first after 0.15 seconds and later up to every 15, and shows a line when a point begins or ends. Where the
    connection breaks or the controller is lost, the run goes on.
  - A run that is still going on is followed by a second call with the same points and settings, not started twice.
    Where the points or settings differ, that call fails.
  - A play that is interrupted ends the run.
  - What the programs print is kept in files on the launcher.
  - Proves from the output of an nccl-tests program that all hosts and all ranks took part. A run that fell back to one host fails.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.run
attributes:
  action:
    description: Indicates this has a corresponding action plugin so some parts of the options can be executed on the controller.
    support: full
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
      - V(started) starts the run and does not wait for it. The next call with V(finished) and the same points and settings
        waits for its end, or returns what came of it.
      - V(stopped) ends what still runs of the points on this node, and keeps their files.
        With mpirun, its ranks on other nodes end.
      - V(absent) does the same, and removes the files and the hostfile.
    type: str
    choices: [finished, started, stopped, absent]
    default: finished
  points:
    description:
      - The programs to run, one after the other. A point that fails does not keep the following ones from running.
      - Required with O(state=finished) and O(state=started).
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
  poll_grace:
    description:
      - How long the launcher may give no answer before the task fails, in seconds. The run goes on meanwhile, and after that.
      - Used with O(state=finished).
    type: float
    default: 60
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

- name: End a run that was started elsewhere
  gpufabric.nccl.mpi_run:
    run_id: night
    state: stopped

- name: Remove its files
  gpufabric.nccl.mpi_run:
    state: absent
"""

RETURN = r"""
points:
  description: What came of each point.
  returned: O(state=finished) or O(state=started), or O(state=stopped) where there was a run
  type: list
  elements: dict
  contains:
    name:
      description: The point's name.
      type: str
      sample: all_reduce_perf
    status:
      description:
        - V(finished), V(failed) (the program or mpirun said so, or hosts or ranks were missing) or V(timeout).
        - V(stopped) where it was ended or nobody is left to say what came of it, and V(not_run) for the points after it.
        - V(started) with O(state=started), and V(planned) in check mode.
      type: str
      sample: finished
    exit_status:
      description: Exit status of mpirun; V(null) where it was ended, and before its end.
      type: int
      sample: 0
    duration:
      description: How long it took, in seconds; V(null) where nobody knows.
      returned: when it has begun and ended
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
  returned: as RV(points)
  type: bool
  sample: true
followed:
  description: Whether a run was followed that was going on already, rather than one started.
  returned: O(state=finished) or O(state=started)
  type: bool
  sample: false
runner:
  description: The process on the launcher that goes through the points.
  returned: O(state=started), not in check mode
  type: dict
  contains:
    pid:
      description: Its pid.
      type: int
      sample: 4711
    directory:
      description: The directory with what it writes.
      type: str
      sample: /run/gpufabric/default/mpi
"""

import os
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._account import Account
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import read_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._hostfile import Host, parse_hostfile
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi_run import (
    Job,
    Point,
    Run,
    fingerprint,
    parse_files,
    parse_points,
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


def plan_jobs(points: t.Sequence[Point], launch: Launch, run: Run, account: Account) -> list[Job]:
    """What mpirun is to be started with for each point."""
    jobs = []
    for number, point in enumerate(points, 1):
        own = variables_of(run, number, point)
        variables = account.added_to(environment(launch, os.environ, own))
        jobs.append(Job(point, tuple(argv(launch, variables, own, point.argv)), variables))
    return jobs


def describe(jobs: t.Sequence[Job], run: Run, check_mode: bool) -> list[dict[str, t.Any]]:
    """The points before anything has come of them."""
    values = {"status": "planned" if check_mode else "started", "exit_status": None, "problems": []}
    return [
        {"name": job.point.name, **values, **({} if check_mode else run.output(number)), "command": job.command}
        for number, job in enumerate(jobs, 1)
    ]


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **RUN_ARGUMENT_SPEC,
            "state": {"type": "str", "choices": ["finished", "started", "stopped", "absent"], "default": "finished"},
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
            # Of the action plugin.
            "poll_grace": {"type": "float", "default": 60},
        },
        required_if=[("state", "finished", ["points"]), ("state", "started", ["points"])],
        supports_check_mode=True,
    )
    params = module.params
    os.umask(0o077)
    try:
        run_dir = RunDir(params["run_id"], params["run_dir"])
        run = Run(run_dir)
        if params["state"] == "absent":
            changed = os.path.isdir(run_dir.mpi)
            if changed and not module.check_mode:
                run.remove()
            module.exit_json(changed=changed)
        if params["state"] == "stopped":
            changed = run.has_to_stop()
            module.exit_json(changed=changed, **({} if module.check_mode else run.stop()))
        points = parse_points(params["points"] or [], params["timeout"])
        files = parse_files(params["files"])
        hosts = read_hosts(params["hostfile"] or run_dir.hostfile, module.check_mode)
        run_dir.check()
        launch = plan_launch(params, run_dir, hosts)
        account = Account(run_dir)
        account.check()
        jobs = plan_jobs(points, launch, run, account)
        if module.check_mode:
            followed, runner = run.can_follow(fingerprint(jobs, files, hosts)), None
        else:
            account.create()
            followed = run.start(jobs, files, hosts, launch.ranks, claim=params["state"] == "finished")
            runner = run.runner()
    except GpufabricError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=True,
        points=describe(jobs, run, module.check_mode),
        complete=False,
        followed=followed,
        **({"runner": runner} if runner else {}),
    )


if __name__ == "__main__":
    main()
