# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The points of a run: each a program started by mpirun, its output in files of the run's directory.

A process of its own on the launcher, the runner, goes through them. The controller looks at two small files how far it is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import time
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import read_text, remove, write_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._hostfile import Host
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests import parse_results, placement_problems
from ansible_collections.gpufabric.nccl.plugins.module_utils._problem import Problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import (
    end_started,
    parse_start,
    parse_stat,
    read_processes,
    run_detached,
    stamped,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RUN_ID_VARIABLE, RunDir

#: Set in every process of a point, on every node, so that it can be found and ended.
POINT_VARIABLE = "GPUFABRIC_POINT"

#: Around the launcher's answer, so that what is missing in it is missing there and not lost on the way.
_ANSWER = "gpufabric.nccl"

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*\Z")
_FRAME = re.compile(r"-{60,}\s*\Z")


@dataclasses.dataclass(frozen=True)
class Point:
    """One program to run. ``timeout`` in seconds."""

    name: str
    argv: tuple[str, ...]
    env: t.Mapping[str, str]
    timeout: float


@dataclasses.dataclass(frozen=True)
class Job:
    """A point with the command line of mpirun and the environment to start it in."""

    point: Point
    command: tuple[str, ...]
    environment: t.Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a run is: what the runner writes down and the controller polls.

    ``plan``: fingerprint of what is run. ``pid``, ``start``: the runner, as parse_start has it. ``total``: of points.
    ``ended``: status and seconds of each point that is over; the next one is running. ``over``: there is an outcome.
    """

    plan: str
    pid: int
    start: int
    total: int
    ended: tuple[tuple[str, float], ...] = ()
    over: bool = False

    def is_alive(self, stat: str | None) -> bool:
        """Whether the runner runs, from the text of its /proc/PID/stat. Nobody may be there to reap one that has ended."""
        return bool(stat) and parse_stat(stat)[0] not in "ZX" and parse_start(stat) == self.start


@dataclasses.dataclass(frozen=True)
class Look:
    """What the launcher answers to a poll. ``progress`` None: the run's files are gone."""

    progress: Progress | None
    alive: bool = False
    outcome: dict[str, t.Any] | None = None


def parse_progress(text: str) -> Progress:
    """The text of a progress file."""
    values = json.loads(text)
    return Progress(**{**values, "ended": tuple((status, seconds) for status, seconds in values["ended"])})


def look_command(directory: str, pid: int) -> str:
    """The shell command of a poll, for ``parse_look``. ``directory``: the run's mpi.

    The process comes first: it writes the outcome before it ends, so that one which is gone without is lost.
    """
    paths = (f"/proc/{pid}/stat", *(os.path.join(directory, name) for name in ("progress.json", "outcome.json")))
    return f"echo {_ANSWER}; cat {' '.join(shlex.quote(path) for path in paths)} 2>/dev/null; echo {_ANSWER}"


def parse_look(text: str) -> Look | None:
    """What a poll's command printed; None where it did not run to its end. Others may have printed something, too."""
    lines = text.splitlines()
    if lines.count(_ANSWER) < 2:
        return None
    found = [line for line in lines if line.startswith("{")]
    if not found:
        return Look(None)
    progress = parse_progress(found[0])
    stat = next((line for line in lines if line.startswith(f"{progress.pid} (")), None)
    return Look(progress, progress.is_alive(stat), json.loads(found[1]) if progress.over and len(found) > 1 else None)


def poll_interval(elapsed: float) -> float:
    """How many seconds to leave a run alone that has been followed for so long: a part of that, so no end is noticed late."""
    return min(0.15 * (1 + elapsed), 15.0)


def events(names: t.Sequence[str], progress: Progress) -> list[str]:
    """What has happened so far, a line for each point that has begun or ended."""
    lines = []
    for number, name in enumerate(names, 1):
        point = f"point {number} of {progress.total}, {name}:"
        if number > len(progress.ended) + 1 or (progress.over and number > len(progress.ended)):
            break
        lines.append(f"{point} started")
        if number <= len(progress.ended):
            status, seconds = progress.ended[number - 1]
            lines.append(f"{point} {'timed out' if status == 'timeout' else status} after {seconds:.1f} s")
    return lines


def fingerprint(jobs: t.Sequence[Job], files: t.Mapping[str, str], hosts: t.Sequence[Host]) -> str:
    """The same for runs that do the same. Of the environment counts what goes to the ranks: the rest is the login's."""
    whole: dict[str, t.Any] = {"files": files, "hosts": [dataclasses.astuple(host) for host in hosts], "points": []}
    for job in jobs:
        words = frozenset(job.command)
        handed_on = {name: value for name, value in job.environment.items() if name in words}
        whole["points"].append([job.point.name, job.point.timeout, job.command, handed_on])
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def parse_points(values: t.Sequence[t.Mapping[str, t.Any]], default_timeout: float) -> list[Point]:
    """Points from the option of the module. Raises OptionError."""
    if not values:
        raise OptionError("points", list(values), "at least one point")
    if default_timeout <= 0:
        raise OptionError("timeout", default_timeout, "more than 0 seconds")
    points = []
    for index, value in enumerate(values):
        option = f"points[{index}]"
        if not value["argv"]:
            raise OptionError(f"{option}.argv", value["argv"], "a program and its arguments")
        timeout = default_timeout if value.get("timeout") is None else value["timeout"]
        if timeout <= 0:
            raise OptionError(f"{option}.timeout", timeout, "more than 0 seconds")
        env = {str(name): str(item) for name, item in (value.get("env") or {}).items()}
        for name, item in env.items():
            if not _VARIABLE.match(name) or re.search(r"[\x00\n]", item):
                raise OptionError(
                    f"{option}.env", {name: item}, "names of environment variables, and values of one line"
                )
        points.append(
            Point(value.get("name") or os.path.basename(value["argv"][0]), tuple(value["argv"]), env, timeout)
        )
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
            current.append(line)
    plain = plain[-most:]
    return plain + framed[: most - len(plain)]


class Run:
    """The points on the launcher: what they print is kept in ``mpi/points/NUMBER`` of the run's directory."""

    def __init__(self, run_dir: RunDir) -> None:
        self.run_dir = run_dir
        self._progress = os.path.join(run_dir.mpi, "progress.json")
        self._outcome = os.path.join(run_dir.mpi, "outcome.json")
        self._log = os.path.join(run_dir.mpi, "runner.log")
        #: There from a start that nobody waited for until somebody asks what came of it.
        self._unclaimed = os.path.join(run_dir.mpi, "unclaimed")

    def stamp(self, number: int) -> str:
        """The value of POINT_VARIABLE in the processes of a point; points are numbered from 1."""
        return f"{self.run_dir.run_id}/{number}"

    def output(self, number: int) -> dict[str, str]:
        """The files that a point prints to."""
        return {f"{name}_path": os.path.join(self._directory(number), name) for name in ("stdout", "stderr")}

    def progress(self) -> Progress | None:
        """How far the latest run is. Raises NodeError."""
        text = read_text(self._progress)
        return None if text is None else parse_progress(text)

    def runner(self) -> dict[str, t.Any]:
        """The process that goes through the points, and the directory of what it writes, for ``look_command``."""
        progress = self.progress()
        return {"pid": progress.pid if progress else None, "directory": self.run_dir.mpi}

    def is_going(self) -> bool:
        """Whether the runner has not come to its end and runs."""
        progress = self.progress()
        return progress is not None and not progress.over and progress.is_alive(read_text(f"/proc/{progress.pid}/stat"))

    def can_follow(self, plan: str) -> bool:
        """Whether a run of this plan is going, or nobody has asked yet what came of one. Raises NodeError where another goes."""
        progress, going = self.progress(), self.is_going()
        if progress is None or not (going or os.path.exists(self._unclaimed)):
            return False
        if progress.plan == plan:
            return True
        if going:
            raise NodeError(
                f"run_id: the run {self.run_dir.run_id} is still going on with other points or settings (process"
                f" {progress.pid}, {len(progress.ended)} of {progress.total} points are over); wait for its end, or end it"
                " (mpi_run with state=stopped, or the playbook gpufabric.nccl.teardown), or take another run_id"
            )
        return False

    def start(
        self, jobs: t.Sequence[Job], files: t.Mapping[str, str], hosts: t.Sequence[Host], ranks: int, claim: bool
    ) -> bool:
        """Have the runner go through the points, where it does not do so already; whether it does.

        ``claim``: the caller waits for the outcome. Raises NodeError.
        """
        plan = fingerprint(jobs, files, hosts)
        self.run_dir.create(self.run_dir.mpi)
        with self._lock():
            followed = self.can_follow(plan)
            if not followed:
                self._end_lost()
                self.prepare(jobs, files)
                run_detached(lambda begun: self._go(plan, jobs, len(hosts), ranks, begun), self._log)
            if claim:
                remove(self._unclaimed)
            elif not followed:
                write_text(self._unclaimed, "")
        return followed

    def prepare(self, jobs: t.Sequence[Job], files: t.Mapping[str, str]) -> None:
        """Forget the points and files of an earlier run, and write these. Raises NodeError."""
        for path in (self._progress, self._outcome, self._unclaimed):
            remove(path)
        for path in (self.run_dir.points, self.run_dir.files):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(path)
        self.run_dir.create(self.run_dir.mpi, self.run_dir.points, *([self.run_dir.files] if files else []))
        for name, text in files.items():
            write_text(os.path.join(self.run_dir.files, name), text)
        for number, job in enumerate(jobs, 1):
            self.run_dir.create(self._directory(number))
            point = job.point
            command = {"name": point.name, "argv": job.command, "env": dict(point.env), "timeout": point.timeout}
            write_text(self._path(number, "command.json"), json.dumps(command, indent=1) + "\n")

    def run_point(self, number: int, job: Job) -> dict[str, t.Any]:
        """Run a point to its end or its time-out; what the module returns of it. Raises NodeError."""
        output = self.output(number)
        begin = time.monotonic()
        with open(output["stdout_path"], "wb") as out, open(output["stderr_path"], "wb") as err:
            try:
                process = subprocess.Popen(
                    job.command,
                    env=dict(job.environment),
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                )
            except OSError as error:
                raise NodeError(f"cannot run {job.command[0]}: {error.strerror}") from error
            status = "finished"
            try:
                exit_status: int | None = process.wait(job.point.timeout)
                if exit_status != 0:
                    status = "failed"
            except subprocess.TimeoutExpired:
                status, exit_status = "timeout", None
                self._end(process.pid, self.stamp(number))
                process.wait()
        duration = round(time.monotonic() - begin, 3)
        return {"name": job.point.name, "status": status, "exit_status": exit_status, "duration": duration, **output}

    def has_to_stop(self) -> bool:
        """Whether anything of the points runs on this node, or what came of them is not written down."""
        progress = self.progress()
        if progress is None:
            return False
        return not progress.over or bool(stamped(read_processes(), POINT_VARIABLE, *self._stamps(progress)))

    def stop(self) -> dict[str, t.Any]:
        """End what runs of the points on this node; what came of them all, where any were run. Raises NodeError."""
        if not os.path.isdir(self.run_dir.mpi):
            return {}
        with self._lock():
            progress, going = self.progress(), self.is_going()
            if progress is None:
                return {}
            # Also where the runner is gone: what it started may have stayed.
            self._end(progress.pid if going else None, *self._stamps(progress))
            # It may have come to its end meanwhile.
            progress = self.progress() or progress
            if not progress.over:
                self._write_outcome(progress, self._unfinished(progress, going))
            return json.loads(read_text(self._outcome) or "{}")

    def remove(self) -> None:
        """End what runs of any point on this node, and remove the points and the hostfile. Raises NodeError."""
        self.stop()
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.run_dir.mpi)
        self.run_dir.remove_if_empty()

    def _go(self, plan: str, jobs: t.Sequence[Job], hosts: int, ranks: int, begun: t.Callable[[], None]) -> None:
        start = parse_start(read_text("/proc/self/stat") or "")
        progress = Progress(plan, os.getpid(), start, len(jobs))
        self._write(self._progress, dataclasses.asdict(progress))
        begun()
        outcomes = []
        try:
            for number, job in enumerate(jobs, 1):
                outcome = placement(self.run_point(number, job), hosts, ranks)
                outcomes.append({**outcome, "command": job.command})
                self._write(self._path(number, "exit.json"), outcomes[-1])
                progress = dataclasses.replace(
                    progress, ended=(*progress.ended, (outcome["status"], outcome["duration"]))
                )
                self._write(self._progress, dataclasses.asdict(progress))
            self._write_outcome(progress, outcomes)
        except GpufabricError as error:
            self._write_outcome(progress, str(error))

    def _unfinished(self, progress: Progress, stopped: bool) -> list[dict[str, t.Any]]:
        outcomes = []
        for number in range(1, progress.total + 1):
            text = read_text(self._path(number, "exit.json"))
            if text is None:
                command = json.loads(read_text(self._path(number, "command.json")) or "{}")
                problem = self._stopped_problem(progress, number, stopped)
                outcome = {
                    "name": command.get("name"),
                    "status": "stopped" if number == len(progress.ended) + 1 else "not_run",
                    "exit_status": None,
                    "duration": None,
                    **self.output(number),
                    "problems": [problem.as_dict()],
                    "command": command.get("argv"),
                }
                self._write(self._path(number, "exit.json"), outcome)
            else:
                outcome = json.loads(text)
            outcomes.append(outcome)
        return outcomes

    def _stopped_problem(self, progress: Progress, number: int, stopped: bool) -> Problem:
        point = len(progress.ended) + 1
        cure = "Run it again."
        if number > point:
            return Problem("not-run", "error", f"The run ended at point {point}, before it came to this one.", cure)
        if stopped:
            return Problem("stopped", "error", "It was stopped before its end.", cure)
        said = telling_lines(read_text(self._log) or "")
        return Problem(
            id="runner-lost",
            severity="error",
            cause=f"The process that waited for it on the launcher ({progress.pid}) is gone{': ' + said[-1] if said else ''}.",
            cure="Find out what ended it, such as the kernel for want of memory, or a restart; then run it again.",
            evidence="\n".join(said),
        )

    def _write_outcome(self, progress: Progress, found: list[dict[str, t.Any]] | str) -> None:
        self._write(self._outcome, {"msg": found} if isinstance(found, str) else summary(found))
        self._write(self._progress, dataclasses.asdict(dataclasses.replace(progress, over=True)))

    @staticmethod
    def _write(path: str, value: t.Mapping[str, t.Any]) -> None:
        # On one line, for parse_look.
        write_text(path, json.dumps(value) + "\n")

    def _directory(self, number: int) -> str:
        return os.path.join(self.run_dir.points, str(number))

    def _path(self, number: int, name: str) -> str:
        return os.path.join(self._directory(number), name)

    @contextlib.contextmanager
    def _lock(self) -> t.Iterator[None]:
        """Against two starts or ends at once."""
        descriptor = os.open(self.run_dir.mpi, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _stamps(self, progress: Progress) -> list[str]:
        return [self.stamp(number) for number in range(1, progress.total + 1)]

    def _end_lost(self) -> None:
        # A runner that was killed has left its point running.
        progress = self.progress()
        if progress is not None and not progress.over:
            self._end(None, *self._stamps(progress))

    @staticmethod
    def _end(pid: int | None, *stamps: str) -> None:
        # mpirun passes the signal on to its daemons, and needs a moment to see them go.
        end_started(pid, POINT_VARIABLE, *stamps, grace=5.0)


def variables_of(run: Run, number: int, point: Point) -> dict[str, str]:
    """The variables that a point's ranks get in any case: its own and the marks to find them by."""
    return {**point.env, RUN_ID_VARIABLE: run.run_dir.run_id, POINT_VARIABLE: run.stamp(number)}


def placement(outcome: dict[str, t.Any], hosts: int, ranks: int) -> dict[str, t.Any]:
    """An outcome with the proof, from what an nccl-tests program printed, that all hosts and ranks took part.

    Other programs print no ranks, and for them there is no proof.
    """
    problems: list[Problem] = []
    if outcome["status"] == "finished":
        with contextlib.suppress(GpufabricError):
            with open(outcome["stdout_path"], encoding="utf-8", errors="replace") as file:
                for document in parse_results(file):
                    problems += placement_problems(document, hosts, ranks)
    status = "failed" if problems else outcome["status"]
    return {**outcome, "status": status, "problems": [problem.as_dict() for problem in problems]}


def explain(failed: t.Sequence[t.Mapping[str, t.Any]], total: int) -> str:
    """What to tell of the points that did not finish."""
    texts = []
    for outcome in failed:
        if outcome["status"] == "not_run":
            continue
        if outcome["problems"]:
            what = " ".join([":", *(problem["cause"] for problem in outcome["problems"])])
        elif outcome["status"] == "timeout":
            what = f" did not end within {outcome['duration']:.0f} s and was ended"
        else:
            what = f" ended with exit status {outcome['exit_status']}"
        said = telling_lines(read_text(outcome["stderr_path"]) or read_text(outcome["stdout_path"]) or "")
        words = ":\n" + "\n".join(said) if said else " and printed nothing"
        texts.append(f"{outcome['name']}{what} (see {os.path.dirname(outcome['stdout_path'])} on this node){words}")
    left_out = sum(outcome["status"] == "not_run" for outcome in failed)
    if left_out:
        texts.append(f"{left_out} points were not run")
    return f"{len(failed)} of {total} points did not finish: " + "\n".join(texts)


def summary(outcomes: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """What the module returns in the end; ``msg`` where it fails."""
    failed = [outcome for outcome in outcomes if outcome["status"] != "finished"]
    explained = {"msg": explain(failed, len(outcomes))} if failed else {}
    return {"points": list(outcomes), "complete": not failed, **explained}
