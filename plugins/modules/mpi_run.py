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
    far it is, at first after 0.15 seconds and later up to every 15, and shows a line when a point begins or ends, and the rows
    of nccl-tests as they come. Where the connection breaks or the controller is lost, the run goes on.
  - A run that is still going on is followed by a second call with the same points and settings, not started twice.
    Where the points or settings differ, that call fails. A run that has ended, and whose outcome nobody has got, is told of.
  - What was stopped, or ended itself, or lost its launcher's process is taken up by the next call; see O(resume).
  - A play that is interrupted ends the run.
  - A point that takes too long, fails, or is stopped leaves no process. On all hosts of the hostfile, each that carries
    E(GPUFABRIC_POINT) of the run is ended over the run's ssh, by SIGTERM and then by SIGKILL.
  - What the programs print is kept in files on the launcher. What is longer than 1 MiB is compressed when its point is over.
  - Proves that all hosts and all ranks took part, by a line that each rank writes to its error output before the program begins,
    C(gpufabric-rank RANK SIZE HOST), and by the ranks that an nccl-tests program lists. A run that fell back to one host fails.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
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
      - V(started) starts the run and does not wait for it. The next call with V(finished) and the same points and settings
        waits for its end, or returns what came of it; see O(orphan_timeout).
      - V(stopped) ends what still runs of the points, on this node and on the hosts, and keeps their files.
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
      id:
        description:
          - What to know the point by when it is taken up again. Each id is there once.
          - By default its name, with its number where others have the same name.
        type: str
        version_added: 0.2.0
      name:
        description: What to call the point in messages. By default the program's name.
        type: str
      argv:
        description: The program and its arguments.
        type: list
        elements: str
        required: true
      env:
        description:
          - Environment variables of the program, on all ranks.
          - V(null) is a variable that they do not get, whatever the launcher's environment has of it.
        type: dict
        default: {}
      timeout:
        description: How long the point may take, in seconds. By default O(timeout).
        type: float
      ranks_per_node:
        description: How many ranks each host takes. By default O(ranks_per_node).
        type: int
        version_added: 0.2.0
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
    description: How many ranks each host takes, at most as many as it has slots. By default as many.
    type: int
  control_interface:
    description:
      - The interface that Open MPI itself is to use, by its name or, where names differ between nodes, by its subnet.
      - By default Open MPI tries all, and hangs where one leads nowhere.
    type: str
  data_interface:
    description:
      - Name of the interface that NCCL is to use, set as E(NCCL_SOCKET_IFNAME). Several are separated by commas.
    type: str
  node_env:
    description:
      - Environment variables whose value differs from node to node, as they are on this one.
        They are not handed on to the other nodes, which have theirs from the option
        O(gpufabric.nccl.sshd_instance#module:environment) of M(gpufabric.nccl.sshd_instance).
    type: dict
    default: {}
    version_added: 0.2.0
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
  startup_timeout:
    description:
      - How long it may take until all ranks of a point have started, in seconds. V(0) is as long as O(timeout).
      - When it is over, the point's processes are ended, and the hosts are named on which no rank has started.
    type: float
    default: 120
    version_added: 0.2.0
  silence_timeout:
    description:
      - How long a point may print nothing once all ranks have started, in seconds. V(0) is as long as O(timeout).
      - When it is over, the point's processes are ended.
    type: float
    default: 0
    version_added: 0.2.0
  orphan_timeout:
    description:
      - How long a run goes on that nobody asks for, in seconds. Then it ends itself. V(0) is for ever.
      - A task that waits for the run asks for it. After O(state=started), nobody does.
    type: float
    default: 3600
    version_added: 0.2.0
  limit_time:
    description:
      - How long the run as a whole may take, in seconds. After that no further point is started. Those that are left are V(not_run),
        which is no failure, and the next call takes up there.
      - By default there is no limit.
    type: float
    version_added: 0.2.0
  resume:
    description:
      - Whether the points that have finished in an earlier run of the same O(run_id) are kept, and not run again, where
        that run was stopped, ended itself, came to O(limit_time), or lost its process on the launcher.
      - A point is kept where its command line, the environment that its ranks get, its ranks, and O(files) and the hosts are the same.
      - A run that has come to its end is run again as a whole.
    type: bool
    default: true
    version_added: 0.2.0
  fetch_dest:
    description:
      - Directory on the controller that gets all that the points have printed, in one compressed file, C(output.tar.gz).
      - Where it cannot be brought there, the task warns. The files stay on the launcher.
      - Used with O(state=finished).
    type: path
    version_added: 0.2.0
  show:
    description:
      - What of the run is shown while it goes on. V(points) is when a point begins and ends, V(rows) also the rows of nccl-tests.
      - With C(-v), also the command line of each point and the in-place half of the rows.
      - Used with O(state=finished).
    type: str
    choices: [rows, points, none]
    default: rows
    version_added: 0.2.0
  poll_grace:
    description:
      - How long the launcher may give no answer before the task fails, in seconds. The run goes on meanwhile, and after that.
        The task returns the points that have finished until then.
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
    id:
      description: The point's id.
      type: str
      sample: all_reduce_perf
    name:
      description: The point's name.
      type: str
      sample: all_reduce_perf
    env:
      description: The point's own environment variables.
      type: dict
      sample: {NCCL_ALGO: Ring}
    ranks:
      description: How many ranks it has on all hosts together.
      type: int
      sample: 16
    ranks_per_node:
      description: How many ranks each host takes; V(null) where each takes as many as it has slots.
      type: int
      sample: 8
    status:
      description:
        - V(finished), V(failed) (the program or mpirun said so, or hosts or ranks were missing) or V(timeout).
        - V(stopped) where it was ended or nobody is left to say what came of it, and V(not_run) for the points after it,
          and where O(limit_time) was over.
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
      description: The file on the launcher with what it printed. Its name ends with C(.gz) where it was compressed.
      type: str
      sample: /run/gpufabric/default/mpi/points/1/stdout
    stderr_path:
      description: The same of what it printed as errors.
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
    said:
      description: Of a point that did not finish, the last lines that it printed.
      type: list
      elements: str
      sample: []
    results:
      description: What an nccl-tests program printed, each test as a result document, as M(gpufabric.nccl.nccl_result) returns it.
      type: list
      elements: dict
      sample: []
    unread:
      description: Why there is no result; V(null) where there is one.
      type: str
      sample: null
    resumed:
      description: Whether it finished in an earlier run and was not run again.
      type: bool
      sample: false
    output:
      description:
        - Where the output is on the controller, C(archive), the path of a compressed file, and in it C(stdout) and C(stderr).
      returned: with O(fetch_dest)
      type: dict
      sample: {archive: /var/tmp/nccl/output.tar.gz, stdout: points/1/stdout, stderr: points/1/stderr}
complete:
  description: Whether all points finished.
  returned: as RV(points)
  type: bool
  sample: true
limited:
  description: Whether O(limit_time) was over before all points were started.
  returned: as RV(points)
  type: bool
  sample: false
reaped:
  description:
    - The hosts on which processes were left of a point that did not finish, and those that could not be asked.
    - Each has C(host), C(ended), the names of processes, and C(error), why nobody knows what is left there.
  returned: as RV(points)
  type: list
  elements: dict
  sample: []
followed:
  description: Whether a run was followed that had been started before, rather than one started.
  returned: O(state=finished) or O(state=started)
  type: bool
  sample: false
notes:
  description:
    - What is done otherwise than O(mca), the environment or files of Open MPI on the launcher say, and why, such as parameters
      that do nothing in this version.
  returned: O(state=finished) or O(state=started)
  type: list
  elements: str
  sample: []
runner:
  description: The process on the launcher that goes through the points.
  returned: O(state=started), not in check mode
  type: dict
  contains:
    pid:
      description: Its pid.
      type: int
      sample: 4711
    start:
      description: When it began, in clock ticks since the launcher was started.
      type: int
      sample: 1234567
    directory:
      description: The directory with what it writes.
      type: str
      sample: /run/gpufabric/default/mpi
"""

import dataclasses
import os
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._account import Account
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import read_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._hostfile import Host, parse_hostfile
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi_marks import started
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi_reap import Reach
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi_run import (
    Job,
    Limits,
    Plan,
    Point,
    parse_files,
    parse_points,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi_runner import (
    go_through,
    launch_environment,
    marks_of,
    this_launcher,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi_state import Run
from ansible_collections.gpufabric.nccl.plugins.module_utils._node import find_mpi
from ansible_collections.gpufabric.nccl.plugins.module_utils._openmpi import (
    FORWARDED_TO_RANKS,
    Launch,
    argv,
    check_implementation,
    conflicts,
    environment,
    notes,
    read_parameter_files,
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


def plan_launch(params: dict, run_dir: RunDir) -> Launch:
    """The launch that the options name, of no ranks yet. Raises GpufabricError."""
    mpi = check_implementation(find_mpi(params["mpi_prefix"]))
    return Launch(
        mpirun=mpi["mpirun"],
        prefix=mpi["prefix"],
        hostfile=params["hostfile"] or run_dir.hostfile,
        ranks=0,
        ranks_per_node=None,
        agent=tuple(agent(find_openssh_program("ssh"), run_dir)),
        control=params["control_interface"],
        data_interface=params["data_interface"],
        forward_env=tuple(params["forward_env"]),
        mca={name: str(value) for name, value in params["mca"].items()},
        version=mpi["version"],
        vendor=mpi["vendor"],
        node_env={name: str(value) for name, value in params["node_env"].items()},
        files=read_parameter_files(mpi, os.environ.get("HOME", "/")),
    )


def plan_job(number: int, point: Point, launch: Launch, hosts: list[Host], run_dir: RunDir, account: Account) -> Job:
    """What mpirun is to be started with for a point. Raises OptionError."""
    fewest = min(hosts, key=lambda host: host.slots, default=None)
    if fewest is not None and (point.ranks_per_node or 1) > fewest.slots:
        allowed = f"1 to {fewest.slots}, the slots of {fewest.name} in the hostfile"
        raise OptionError(f"ranks_per_node (of {point.name})", point.ranks_per_node, allowed)
    ranks = sum(point.ranks_per_node or host.slots for host in hosts)
    launch = dataclasses.replace(launch, ranks=ranks, ranks_per_node=point.ranks_per_node)
    own = marks_of(run_dir, number, point)
    variables = account.added_to(environment(launch, os.environ, own))
    variables = {name: value for name, value in variables.items() if name not in point.unset}
    command = argv(launch, variables, own, started(point.argv))
    return Job(point, tuple(command), launch_environment(run_dir, number, variables), ranks)


def describe(plan: Plan, run: Run, check_mode: bool) -> list[dict[str, t.Any]]:
    """The points before anything has come of them."""
    nothing = {"exit_status": None, "duration": None, "problems": [], "said": [], "results": [], "resumed": False}
    return [
        {
            "id": job.point.id,
            "name": job.point.name,
            "env": job.point.env,
            "ranks": job.ranks,
            "ranks_per_node": job.point.ranks_per_node,
            "status": "planned" if check_mode else "started",
            **nothing,
            "unread": "the point has not ended",
            **({} if check_mode else run.output(number)),
            "command": job.command,
        }
        for number, job in enumerate(plan.jobs, 1)
    ]


def make_plan(params: dict, run_dir: RunDir, account: Account, check_mode: bool) -> tuple[Plan, list[str]]:
    """All that is to be run, and what of the settings is done otherwise than said, and why. Raises GpufabricError."""
    points = parse_points(params["points"] or [], params["timeout"], params["ranks_per_node"])
    limits = Limits(
        startup=params["startup_timeout"],
        silence=params["silence_timeout"],
        orphan=params["orphan_timeout"],
        total=params["limit_time"],
    )
    files = parse_files(params["files"])
    hosts = read_hosts(params["hostfile"] or run_dir.hostfile, check_mode)
    run_dir.check()
    launch = plan_launch(params, run_dir)
    account.check()
    jobs = tuple(plan_job(number, point, launch, hosts, run_dir, account) for number, point in enumerate(points, 1))
    launcher = this_launcher()
    others = tuple(host.name for host in hosts if not launcher.is_host(host.name))
    plan = Plan(jobs, files, tuple(hosts), limits, Reach(others, launch.agent, account.environment))
    return plan, [*notes(launch), *map(str, conflicts(launch, os.environ))]


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
                    "id": {"type": "str"},
                    "name": {"type": "str"},
                    "argv": {"type": "list", "elements": "str", "required": True},
                    "env": {"type": "dict", "default": {}},
                    "timeout": {"type": "float"},
                    "ranks_per_node": {"type": "int"},
                },
            },
            "files": {"type": "dict", "default": {}},
            "hostfile": {"type": "path"},
            "mpi_prefix": {"type": "path"},
            "ranks_per_node": {"type": "int"},
            "control_interface": {"type": "str"},
            "data_interface": {"type": "str"},
            "node_env": {"type": "dict", "default": {}},
            "forward_env": {"type": "list", "elements": "str", "default": list(FORWARDED_TO_RANKS)},
            "mca": {"type": "dict", "default": {}},
            "timeout": {"type": "float", "default": 600},
            "startup_timeout": {"type": "float", "default": 120},
            "silence_timeout": {"type": "float", "default": 0},
            "orphan_timeout": {"type": "float", "default": 3600},
            "limit_time": {"type": "float"},
            "resume": {"type": "bool", "default": True},
            # Of the action plugin.
            "fetch_dest": {"type": "path"},
            "show": {"type": "str", "choices": ["rows", "points", "none"], "default": "rows"},
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
        account = Account(run_dir)
        plan, noted = make_plan(params, run_dir, account, module.check_mode)
        if module.check_mode:
            followed, runner = run.can_follow(plan), None
        else:
            account.create()
            followed = run.start(plan, go_through, params["resume"], archive=params["fetch_dest"] is not None)
            runner = run.runner()
    except GpufabricError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=True,
        points=describe(plan, run, module.check_mode),
        complete=False,
        limited=False,
        reaped=[],
        followed=followed,
        notes=noted,
        **({"runner": runner} if runner else {}),
    )


if __name__ == "__main__":
    main()
