# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""From the options of mpi_run to what mpirun is started with on the launcher."""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import read_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi import hangs
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.hostfile import Host, parse_hostfile
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.nccl_logs import (
    USERS_OWN,
    collecting_sources,
    log_variables,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.openmpi import (
    FORWARDED_TO_RANKS,
    Launch,
    argv,
    check_hosts,
    check_implementation,
    conflicts,
    environment,
    notes,
    read_parameter_files,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.points import (
    Job,
    Limits,
    Plan,
    Point,
    parse_files,
    parse_points,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.rank_lines import LOGS, started
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.reaper import Reach
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.run_files import Run
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.runner import (
    launch_environment,
    marks_of,
    this_launcher,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.info import find_mpi
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.ownership import CLAIM_ARGUMENT_SPEC
from ansible_collections.gpufabric.nccl.plugins.module_utils._options import environment_texts
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RUN_ARGUMENT_SPEC, RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.account import Account
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.mesh import agent
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.programs import (
    find_openssh_program,
    quick_exchange,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import shown_environment
from ansible_collections.gpufabric.nccl.plugins.module_utils._units import parse_size

#: Seconds that a run goes on without being polled: followed by a task, which polls at least every 15 s, and not followed yet. A run
#: whose controller was killed is to be gone after two minutes, of which its end on hosts that do not answer takes up to 30 s.
_FOLLOWED, _UNFOLLOWED = 90.0, 3600.0
#: How much longer than poll_grace it is.
_BESIDE_GRACE = 30.0

#: The options of mpi_run, for the module and its action.
ARGUMENT_SPEC: dict[str, t.Any] = {
    **RUN_ARGUMENT_SPEC,
    **CLAIM_ARGUMENT_SPEC,
    "state": {
        "type": "str",
        "choices": ["finished", "started", "prepared", "stopped", "absent"],
        "default": "finished",
    },
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
    "orphan_timeout": {"type": "float"},
    "time_limit": {"type": "float"},
    "output_limit": {"type": "str", "default": "2G"},
    "resume": {"type": "bool", "default": True},
    "nccl_log": {"type": "bool", "default": False},
    # Of the action plugin.
    "cpu_program": {"type": "bool", "default": False},
    "fetch_dest": {"type": "path"},
    "fetch_limit": {"type": "str", "default": "8G"},
    "show": {"type": "str", "choices": ["rows", "points", "none"], "default": "rows"},
    "poll_grace": {"type": "float", "default": 60},
}


def read_hosts(path: str, check_mode: bool) -> list[Host]:
    """The hosts of the hostfile; in check mode it may not be written yet. Raises GpufabricError."""
    text = read_text(path, "hostfile")
    if text is None and check_mode:
        return []
    if text is None:
        raise OptionError("hostfile", path, "a hostfile on this node, such as mpi_hostfile writes")
    return parse_hostfile(text, path)


def plan_launch(params: dict[str, t.Any], run_dir: RunDir) -> Launch:
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
        node_env={
            name: value
            for name, value in environment_texts("node_env", params["node_env"], "gpufabric_node_env").items()
            if value is not None
        },
        files=read_parameter_files(mpi, os.environ.get("HOME", "/")),
    )


def plan_job(
    number: int,
    point: Point,
    launch: Launch,
    hosts: list[Host],
    run_dir: RunDir,
    account: Account,
    log: str | None = None,
    ras: str = "",
) -> Job:
    """What mpirun is to be started with for a point. ``log``: as of plan_logs. ``ras``: where NCCL's RAS listens, if the user
    does not say it. Raises OptionError.
    """
    fewest = min(hosts, key=lambda host: host.slots, default=None)
    if fewest is not None and (point.ranks_per_node or 1) > fewest.slots:
        allowed = f"1 to {fewest.slots}, the slots of {fewest.name} in the hostfile"
        raise OptionError(f"ranks_per_node (of {point.name})", point.ranks_per_node, allowed)
    ranks = sum(point.ranks_per_node or host.slots for host in hosts)
    launch = dataclasses.replace(launch, ranks=ranks, ranks_per_node=point.ranks_per_node)
    ras = "" if _users_own(hangs.USERS_OWN, point, launch) else ras
    own = {
        **({} if log is None else log_variables(log)),
        **({hangs.RAS_ADDRESS: ras} if ras else {}),
        **marks_of(run_dir, number, point),
    }
    variables = account.added_to(environment(launch, os.environ, own))
    variables = {name: value for name, value in variables.items() if name not in point.unset}
    command = argv(launch, variables, own, started(point.argv, bool(log)))
    return Job(
        point,
        tuple(command),
        launch_environment(run_dir, number, variables),
        ranks,
        log or "",
        _configuration(point),
        ras,
    )


def _users_own(names: t.Iterable[str], point: Point, launch: Launch) -> bool:
    """Whether the user sets one of these variables for a point, or has it unset."""
    return any(name in source for name in names for source in (os.environ, launch.node_env, point.env, point.unset))


def _configuration(point: Point) -> str:
    """The same for points that NCCL sets up alike, whatever they run."""
    return json.dumps([point.env, point.ranks_per_node, point.unset], sort_keys=True)


def plan_logs(points: t.Sequence[Point], launch: Launch, run_dir: RunDir) -> list[str | None]:
    """For each point the directory that NCCL logs to on every host; empty where an earlier one is launched alike, so that only
    warnings are wanted; None where the user has a use of his own for the log."""
    token = secrets.token_hex(4)
    known: set[str] = set()
    logs: list[str | None] = []
    for number, point in enumerate(points, 1):
        configuration = _configuration(point)
        if _users_own(USERS_OWN, point, launch):
            logs.append(None)
        elif configuration in known:
            logs.append("")
        else:
            known.add(configuration)
            logs.append(os.path.join(run_dir.path, LOGS, f"{token}-{number}"))
    return logs


def describe(plan: Plan, run: Run, check_mode: bool) -> list[dict[str, t.Any]]:
    """The points before anything has come of them."""
    nothing: dict[str, t.Any] = {
        "exit_status": None,
        "duration": None,
        "problems": [],
        "said": [],
        "results": [],
        "resumed": False,
    }
    return [
        {
            "id": job.point.id,
            "name": job.point.name,
            "env": shown_environment(job.point.env),
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


def orphan_limit(params: t.Mapping[str, t.Any]) -> float:
    """Seconds after which a run that nobody polls ends itself; 0 is never."""
    if params["orphan_timeout"] is not None:
        return float(params["orphan_timeout"])
    if params["state"] == "started":
        return _UNFOLLOWED
    # A controller that asks again and again for poll_grace has not given the run up.
    return max(_FOLLOWED, params["poll_grace"] + _BESIDE_GRACE)


def make_plan(params: dict[str, t.Any], run_dir: RunDir, account: Account, check_mode: bool) -> tuple[Plan, list[str]]:
    """All that is to be run, and what of the settings is done otherwise than said, and why. Raises GpufabricError."""
    points = parse_points(params["points"] or [], params["timeout"], params["ranks_per_node"])
    limits = Limits(
        startup=params["startup_timeout"],
        silence=params["silence_timeout"],
        orphan=orphan_limit(params),
        total=params["time_limit"],
        output=parse_size("output_limit", params["output_limit"]),
    )
    files = parse_files(params["files"])
    hosts = read_hosts(params["hostfile"] or run_dir.hostfile, check_mode)
    run_dir.check()
    launch = plan_launch(params, run_dir)
    check_hosts(launch.release, [host.name for host in hosts])
    account.check()
    logs = plan_logs(points, launch, run_dir) if params["nccl_log"] else [None] * len(points)
    ras = hangs.ras_address()
    jobs = tuple(
        plan_job(number, point, launch, hosts, run_dir, account, log, ras)
        for number, (point, log) in enumerate(zip(points, logs), 1)
    )
    launcher = this_launcher()
    others = tuple(host.name for host in hosts if not launcher.is_host(host.name))
    reach = Reach(others, (*launch.agent, *quick_exchange(launch.agent[0])), account.environment)
    # The module's own files are gone by the time that the first point is over.
    collecting = collecting_sources() if any(logs) else ()
    plan = Plan(jobs, files, tuple(hosts), limits, reach, collecting, hangs.looking_sources())
    variables = {name: value for point in points for name, value in point.env.items()}
    return plan, [*notes(launch, variables), *map(str, conflicts(launch, os.environ))]
