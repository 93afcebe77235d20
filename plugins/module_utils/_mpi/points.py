# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The points of a run, each a program started by mpirun: what is to be run, and what came of it."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import json
import os
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem, ProblemDict
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.hostfile import Host
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.openmpi import check_environment
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.rank_lines import without_marks
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.reaper import Reach
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.shapes import ResultDocument
from ansible_collections.gpufabric.nccl.plugins.module_utils._options import NO_TEXT, environment_texts
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import POINT_VARIABLE, RUN_ID_VARIABLE
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import clean, listing

_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*\Z")
_FRAME = re.compile(r"-{60,}\s*\Z")

#: Where a program writes JSON to that is read when its point is over: in the run's mpi directory. It has the ranks' whole environment.
PROGRAM_JSON = "program.json"

#: Bytes of the end of an output in which the cause of a failure is looked for.
_TAIL = 1 << 16
#: Characters of a line that are quoted.
_LONGEST = 1000
#: How many points that failed are explained.
_MOST_EXPLAINED = 10


@dataclasses.dataclass(frozen=True)
class Point:
    """One program to run. ``timeout`` in seconds; ``ranks_per_node`` None: as many as each host has slots.

    ``unset``: names of variables that its ranks do not get, whatever the launcher has of them.
    """

    id: str
    name: str
    argv: tuple[str, ...]
    env: t.Mapping[str, str]
    timeout: float
    ranks_per_node: int | None = None
    unset: tuple[str, ...] = ()


class PointResult(t.TypedDict):
    """A point as mpi_run returns it. ``duration`` in seconds; ``unread``: why there are no ``results``."""

    id: str
    name: str
    command: list[str]
    env: dict[str, str]
    ranks: int
    ranks_per_node: int | None
    status: str
    exit_status: int | None
    duration: float | None
    problems: list[ProblemDict]
    said: list[str]
    results: list[ResultDocument]
    unread: str | None
    resumed: bool
    stdout_path: str
    stderr_path: str


@dataclasses.dataclass(frozen=True)
class Limits:
    """Times in seconds: for all ranks to start, without any output, without anybody who asks, for the run as a whole.

    ``output``: bytes that a point may print. 0 is no limit, of ``total`` None.
    """

    startup: float = 120.0
    silence: float = 0.0
    orphan: float = 90.0
    total: float | None = None
    output: int = 2 << 30

    def __post_init__(self) -> None:
        for option, value in (("startup", self.startup), ("silence", self.silence), ("orphan", self.orphan)):
            # Not a number is neither.
            if not value >= 0:
                raise OptionError(f"{option}_timeout", value, "0 or more seconds")
        if self.total is not None and not self.total > 0:
            raise OptionError("time_limit", self.total, "more than 0 seconds")


@dataclasses.dataclass(frozen=True)
class Job:
    """A point with the command line of mpirun, the environment to start it in, and how many ranks that starts."""

    point: Point
    command: tuple[str, ...]
    environment: t.Mapping[str, str]
    ranks: int
    #: The directory of NCCL's logs on every host; empty if it writes none.
    log: str = ""
    #: The same for points that are launched alike: those that write no log have the transport of one that does.
    configuration: str = ""
    #: Where NCCL's RAS listens on every host; empty if that is the user's choice.
    ras: str = ""


@dataclasses.dataclass(frozen=True)
class Plan:
    """All that a run does. ``files``: texts by name. ``hosts``: of the hostfile. ``reach``: how they are reached.

    ``collecting``, ``looking``: the modules that summarise NCCL's logs on other hosts, and that look at ranks that hang.
    """

    jobs: tuple[Job, ...]
    files: t.Mapping[str, str]
    hosts: tuple[Host, ...]
    limits: Limits
    reach: Reach
    collecting: tuple[tuple[str, str], ...] = ()
    looking: tuple[tuple[str, str], ...] = ()

    def fingerprints(self) -> list[str]:
        """Of each point, the same where its result would be: time-outs do not count, nor what it is called."""
        common = {"files": self.files, "hosts": [(host.name, host.slots) for host in self.hosts]}
        return [_digest({**common, "point": _told(job)}) for job in self.jobs]

    def fingerprint(self) -> str:
        """The same for runs that do the same and give up at the same time."""
        points = [(job.point.id, job.point.name, job.point.timeout) for job in self.jobs]
        return _digest([self.fingerprints(), points, self.limits.startup, self.limits.silence, self.limits.output])


def _told(job: Job) -> list[t.Any]:
    """What a point does. Of the environment counts what goes to the ranks: the rest is the login's."""
    # The directory of a log, and the port of RAS, are other ones in each run.
    own = {name for name, used in (("NCCL_DEBUG_FILE", job.log), ("NCCL_RAS_ADDR", job.ras)) if used}
    words = frozenset(job.command) - {RUN_ID_VARIABLE, POINT_VARIABLE} - own
    handed_on = {name: value for name, value in job.environment.items() if name in words}
    return [job.command, handed_on, job.ranks]


def _digest(value: t.Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def keep(wanted: t.Sequence[tuple[str, str]], found: t.Mapping[str, tuple[str, str]]) -> dict[int, str]:
    """Which finished points need not be run again: their keys in ``found``, by number in ``wanted``, from 1.

    Both name points by id and fingerprint. Points of the same fingerprint are repeats: each is kept once, by its id if it can be.
    """
    left: dict[tuple[str, ...], list[str]] = collections.defaultdict(list)
    for key, (point_id, fingerprint) in list(found.items())[::-1]:
        left[point_id, fingerprint].append(key)
        left[(fingerprint,)].append(key)
    kept: dict[int, str] = {}
    taken: set[str] = set()
    for same_id in (True, False):
        for number, (point_id, fingerprint) in enumerate(wanted, 1):
            keys = left[(point_id, fingerprint) if same_id else (fingerprint,)]
            while keys and number not in kept:
                key = keys.pop()
                if key not in taken:
                    kept[number] = key
                    taken.add(key)
    return dict(sorted(kept.items()))


def parse_points(
    values: t.Sequence[t.Mapping[str, t.Any]], default_timeout: float, default_ranks_per_node: int | None = None
) -> list[Point]:
    """Points from the option of the module. Raises OptionError."""
    if not values:
        raise OptionError("points", list(values), "at least one point")
    if not default_timeout > 0:
        raise OptionError("timeout", default_timeout, "more than 0 seconds")
    if default_ranks_per_node is not None and default_ranks_per_node < 1:
        raise OptionError("ranks_per_node", default_ranks_per_node, "1 or more")
    names = [value.get("name") or os.path.basename((*value["argv"], "")[0]) for value in values]
    counts = collections.Counter(names)
    points: list[Point] = []
    known: dict[str, int] = {}
    for index, (value, name) in enumerate(zip(values, names)):
        option = f"points[{index}]"
        if not value["argv"]:
            raise OptionError(f"{option}.argv", value["argv"], "a program and its arguments")
        if any(map(NO_TEXT.search, value["argv"])):
            raise OptionError(f"{option}.argv", value["argv"], "texts without NUL and halves of characters")
        timeout = default_timeout if value.get("timeout") is None else value["timeout"]
        if not timeout > 0:
            raise OptionError(f"{option}.timeout", timeout, "more than 0 seconds")
        ranks = default_ranks_per_node if value.get("ranks_per_node") is None else value["ranks_per_node"]
        if ranks is not None and ranks < 1:
            raise OptionError(f"{option}.ranks_per_node", ranks, "1 or more")
        given = environment_texts(f"{option}.env", value.get("env") or {})
        unset = tuple(name for name, item in given.items() if item is None)
        env = {name: item for name, item in given.items() if item is not None}
        check_environment(f"{option}.env", {**env, **dict.fromkeys(unset, "")})
        own = value.get("id") or (name if counts[name] == 1 else f"{name}-{index + 1}")
        first = known.setdefault(own, index)
        if first != index:
            raise OptionError(f"{option}.id", own, f"each id once; points[{first}] has it too")
        points.append(Point(own, name, tuple(value["argv"]), env, timeout, ranks, unset))
    return points


def parse_files(values: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Files from the option of the module, their texts by name. Raises OptionError."""
    for name, text in values.items():
        if not _FILE_NAME.match(name) or not isinstance(text, str):
            raise OptionError("files", name, "texts by names of letters, digits, dots, underscores and dashes")
    return dict(values)


def telling_lines(text: str, most: int = 20) -> list[str]:
    """At most so many lines that may tell the cause: the last that are not blank.

    What Open MPI frames in lines of dashes is advice on whatever may be wrong, pages of it: it gets the room that is left.
    """
    plain: list[str] = []
    framed: list[str] = []
    current, other = plain, framed
    for line in text.splitlines():
        if _FRAME.match(line):
            current, other = other, current
        elif line.strip():
            current.append(line[:_LONGEST])
    plain = plain[-most:]
    return plain + framed[: most - len(plain)]


def said_in(output: t.Mapping[str, str]) -> list[str]:
    """The telling lines of the files that a point printed to. Raises NodeError."""
    lines = telling_lines(_tail(output["stderr_path"])) or telling_lines(_tail(output["stdout_path"]))
    return [clean(line) for line in lines]


def _tail(path: str) -> str:
    """The end of an output without the marks of the ranks; empty where there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            return without_marks(file.read().decode("utf-8", errors="replace"))
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise NodeError(f"cannot read {path}: {error.strerror}") from error


def overdue_problem(kind: str, seconds: float, ranks: int, started: int, missing: t.Sequence[str]) -> Problem:
    """Why a point was ended. ``kind``: ``startup``, ``silence`` or ``point``. ``missing``: hosts without any rank."""
    facts: dict[str, t.Any] = {"seconds": f"{seconds:g}"}
    if missing:
        facts["missing"] = listing(missing)
    if kind == "startup":
        host = missing[0] if len(missing) == 1 else None
        # The last ones may have started since.
        if started < ranks:
            facts.update(ranks=ranks, started=started)
        return problem("startup-timeout", host, **facts)
    return problem("silence-timeout" if kind == "silence" else "timeout", **facts)


def unfinished_problem(reason: str, current: str | None, lost: t.Sequence[str] = (), seconds: float = 0) -> Problem:
    """Why a point has no outcome of its own.

    ``reason``: ``stopped``, ``orphaned``, ``limited`` or ``lost``, of the run. ``current``: the point at which that happened, where
    this is a later one. ``lost``: what the runner has left in its log.
    """
    if reason == "limited":
        return problem("limit-reached", seconds=f"{seconds:g}")
    if current is not None:
        return problem("not-run", current=current)
    if reason == "orphaned":
        return problem("orphaned", seconds=f"{seconds:g}")
    if reason == "stopped":
        return problem("stopped")
    return problem("runner-lost", evidence="\n".join(lost), **({"said": lost[-1].rstrip(".")} if lost else {}))


def explain(failed: t.Sequence[t.Mapping[str, t.Any]], total: int) -> str:
    """What to tell of the points that did not finish, of so many."""
    texts = []
    left_out = [outcome for outcome in failed if outcome["status"] == "not_run"]
    tried = [outcome for outcome in failed if outcome["status"] != "not_run"]
    for outcome in tried[:_MOST_EXPLAINED]:
        what = f" ended with exit status {outcome['exit_status']}" if outcome["exit_status"] else ""
        if outcome["problems"]:
            what += ": " + " ".join(map(_in_words, outcome["problems"]))
        words = ":\n" + "\n".join(outcome["said"]) if outcome["said"] else " and printed nothing"
        texts.append(f"{outcome['name']}{what} (see {os.path.dirname(outcome['stdout_path'])} on this node){words}")
    if len(tried) > _MOST_EXPLAINED:
        texts.append(f"{len(tried) - _MOST_EXPLAINED} more points failed")
    if left_out:
        texts.append(f"{len(left_out)} points were not run")
    return f"{len(failed)} of {total} points did not finish: " + "\n".join(texts)


def _in_words(entry: ProblemDict) -> str:
    where = f"{entry['host']}: " if entry["host"] else ""
    return f"{where}{entry['cause']} {entry['cure']}"


def assemble(
    points: t.Sequence[t.Mapping[str, t.Any]],
    outcomes: t.Mapping[int, t.Mapping[str, t.Any]],
    over: t.Mapping[str, t.Any],
) -> dict[str, t.Any]:
    """What the module returns in the end; ``msg`` where it fails.

    ``points``: as they were described. ``outcomes``: by number, from 1. ``over``: what was said of the run as a whole.
    """
    paths = over.get("paths", {})
    whole: list[PointResult] = [
        t.cast(PointResult, {**point, **outcomes.get(number, {}), **paths.get(str(number), {})})
        for number, point in enumerate(points, 1)
    ]
    return {
        "points": whole,
        "complete": all(point["status"] == "finished" for point in whole),
        "limited": over.get("reason") == "limited",
        "reaped": over.get("reaped", []),
        **({"msg": over["msg"]} if over.get("msg") else {}),
    }
