# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The process on the launcher that goes through the points of a run and writes down what comes of them."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import gzip
import json
import os
import queue
import re
import shutil
import subprocess
import threading
import time
import traceback
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import (
    ENDS_WELL,
    LOST_DAEMON,
    diagnose,
    problem,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.reader import Facts, Source
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import Beginning
from ansible_collections.gpufabric.nccl.plugins.module_utils._hang.judge import Launched, Seen, hang_problems
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.hangs import Watched, look_at_hang
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.nccl_logs import (
    Logged,
    chooses_sockets,
    collect_logs,
    copied,
    unread_logs,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.points import (
    PROGRAM_JSON,
    Job,
    Limits,
    Plan,
    Point,
    overdue_problem,
    unfinished_problem,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.rank_lines import (
    Launcher,
    Mark,
    Marks,
    host_finder,
    missing_hosts,
    started_placement_problems,
    without_marks,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.reaper import Reaped, reap
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.run_files import OUTCOME, Run, outcome_of
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.json_output import is_document
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.lines import Lines
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import GrowingOutput, parse_file
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.placement import listed_placement_problems
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.shapes import ResultDocument
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.twice_told import with_json
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import read_addresses
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import (
    DAEMON_VARIABLES,
    POINT_VARIABLE,
    RUN_ID_VARIABLE,
    RunDir,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import shown_environment
from ansible_collections.gpufabric.nccl.plugins.module_utils._units import format_size

#: Seconds between two looks at what a program has printed.
_TICK = 0.2
_BLOCK = 1 << 18
#: Seconds that an output is read at one look, so that a flood of it does not keep time-outs waiting.
_LONGEST_LOOK = 1.0
_LOST_DAEMON = LOST_DAEMON.encode()
#: Outputs that are longer are compressed when their point is over.
_LONG = 1 << 20
#: What must stay free of the file system that a point prints to: so many bytes, or this part of a small one.
_RESERVE, _RESERVED_PART = 64 << 20, 0.05
#: How much is read for causes of each output that was too long. Of short lines, this takes seconds.
_MOST_DIAGNOSED = 4 << 20
#: Bytes in which the usage of a program is found, after what MPI warns of on all ranks.
_MOST_USAGE = 1 << 20
_LONGEST_LINE = 1 << 16
#: The limits that a point which hangs passes.
_HANGS = ("startup", "silence", "point")
#: Seconds that mpirun has to be gone when it was killed.
_LAST_WAIT = 5.0
#: Seconds without any output after which a point that takes too long counts as one that hangs.
_QUIET = 30.0
#: The address of a GPU on the PCI bus; that of a processor is zeros.
_GPU = re.compile(r"[1-9a-fA-F]")


def this_launcher() -> Launcher:
    """The node that this runs on."""
    return Launcher(os.uname().nodename, frozenset(address.address for address in read_addresses()))


def marks_of(run_dir: RunDir, number: int, point: Point) -> dict[str, str]:
    """The variables that a point's ranks get in any case: its own and the marks to find them by."""
    return {**point.env, RUN_ID_VARIABLE: run_dir.run_id, POINT_VARIABLE: f"{run_dir.run_id}/{number}"}


def launch_environment(run_dir: RunDir, number: int, environment: t.Mapping[str, str]) -> dict[str, str]:
    """The environment to start mpirun in: its daemons can be found, too, and its own files go with the run.

    Without what says where a connection came from, the launcher's ranks are known from the others.
    """
    own = dict.fromkeys(DAEMON_VARIABLES, f"{run_dir.run_id}/{number}")
    kept = {name: value for name, value in environment.items() if name != "SSH_CONNECTION"}
    # On other nodes the run may have another directory.
    return {**kept, **own, **run_dir.marks(), "TMPDIR": run_dir.tmp}


def too_full(free: int, size: int, printed: int) -> bool:
    """Whether what a point has printed, in bytes, may have filled its file system, and what is left must be kept for others."""
    return free < _reserve(size) and printed > _LONG


def _reserve(size: int) -> int:
    return min(_RESERVE, int(size * _RESERVED_PART))


def _space(path: str) -> tuple[int, int]:
    """Bytes that this user may still write to the file system of a directory, and all that it has."""
    status = os.statvfs(path)
    free = status.f_bfree if os.geteuid() == 0 else status.f_bavail
    return free * status.f_frsize, status.f_blocks * status.f_frsize


def go_through(run: Run, plan: Plan, kept: t.Mapping[int, t.Mapping[str, t.Any]], begun: t.Callable[[], None]) -> None:
    """Run all points of a plan but those that are kept. Raises NodeError."""
    _Runner(run, plan, kept).work(begun)


def _size_of(directory: str) -> int:
    """The bytes of the files in a directory; 0 where there is none."""
    if not directory:
        return 0
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
    return 0


class _Growing:
    """A file that grows, read on from where it was last."""

    def __init__(self, path: str, feed: t.Callable[[bytes], None]) -> None:
        self.path = path
        self._file = open(path, "rb")  # noqa: SIM115  # as long as the point
        self._feed = feed
        #: Bytes that have been read.
        self.taken = 0

    def size(self) -> int:
        """Bytes that it has now."""
        return os.fstat(self._file.fileno()).st_size

    def advance(self, end: int | None = None) -> bool:
        """Read what is new, for a while, and not beyond ``end``; whether there was anything."""
        begin, taken = time.monotonic(), self.taken
        while time.monotonic() < begin + _LONGEST_LOOK:
            block = self._file.read(_BLOCK if end is None else min(_BLOCK, max(0, end - self.taken)))
            if not block:
                break
            self.taken += len(block)
            self._feed(block)
        return self.taken > taken

    def close(self) -> None:
        self._file.close()


class _Compressor:
    """Compresses outputs, one after the other, while the next points run."""

    def __init__(self) -> None:
        self._paths: queue.Queue[str | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def add(self, path: str) -> None:
        """Have a file compressed where it is long."""
        with contextlib.suppress(FileNotFoundError):
            if os.stat(path).st_size > _LONG:
                self._paths.put(path)

    def finish(self) -> None:
        """Wait until all are compressed."""
        self._paths.put(None)
        self._thread.join()

    def _work(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            # Of this thread alone, on Linux.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
        while True:
            path = self._paths.get()
            if path is None:
                return
            part = f"{path}.part"
            try:
                with open(path, "rb") as source, gzip.open(part, "wb", compresslevel=1) as target:
                    # No more than that: somebody may still write to it.
                    shutil.copyfileobj(Beginning(source, os.fstat(source.fileno()).st_size), target, _BLOCK)
                os.replace(part, f"{path}.gz")
                os.unlink(path)
            except OSError:
                # Such as a disk that is full: it stays as it is.
                with contextlib.suppress(OSError):
                    os.unlink(part)


class _Runner:
    """The process that goes through the points."""

    def __init__(self, run: Run, plan: Plan, kept: t.Mapping[int, t.Mapping[str, t.Any]]) -> None:
        self._run = run
        self._plan = plan
        self._kept = kept
        self._hosts = [host.name for host in plan.hosts]
        self._launcher = this_launcher()
        self._reaped: list[Reaped] = []
        self._asked = (run.asked(), time.monotonic())
        #: As the last caller said.
        self._orphan = plan.limits.orphan
        #: A result that has its transport, by how its point was launched.
        self._told: dict[str, ResultDocument] = {}

    def work(self, begun: t.Callable[[], None]) -> None:
        """Go through all points."""
        run, limits = self._run, self._plan.limits
        run.begin(self._plan)
        self._compressor = _Compressor()
        begun()
        begin = time.monotonic()
        reason = "ended"
        stopped_at = 0
        failed: list[dict[str, t.Any]] = []
        for number, (job, fingerprint) in enumerate(zip(self._plan.jobs, self._plan.fingerprints()), 1):
            entry = {"id": job.point.id, "name": job.point.name, "command": job.command, "fingerprint": fingerprint}
            if number in self._kept:
                self._take_over(number, job)
                continue
            if reason == "ended" and limits.total is not None and time.monotonic() - begin >= limits.total:
                reason = "limited"
            if reason == "ended":
                outcome, orphaned = self._run_point(number, job)
                if orphaned:
                    reason, stopped_at = "orphaned", number
            else:
                current = f"point {stopped_at}" if reason == "orphaned" else None
                unfinished = unfinished_problem(reason, current, seconds=limits.total or 0)
                outcome = outcome_of("not_run", run.output(number), [unfinished])
            run.end_point(number, entry, outcome)
            for path in run.output(number).values():
                self._compressor.add(path)
            if outcome["status"] != "finished" and (reason, outcome["status"]) != ("limited", "not_run"):
                failed.append({"name": job.point.name, **outcome, "results": []})
        self._compressor.finish()
        run.close(reason, failed, self._reaped)

    def _take_over(self, number: int, job: Job) -> None:
        outcome = {name: self._kept[number][name] for name in OUTCOME}
        if job.log and outcome["results"]:
            self._told[job.configuration] = outcome["results"][0]
        output = self._run.output(number)
        # What it has in its directory already stays true.
        self._run.tell(event="ended", point=number, outcome={**outcome, **output, "resumed": True})
        for path in output.values():
            self._compressor.add(path)

    def _run_point(self, number: int, job: Job) -> tuple[dict[str, t.Any], bool]:
        """Run a point to its end or a time-out: what came of it, and whether the run was given up for want of a caller."""
        run = self._run
        output = run.output(number)
        os.makedirs(os.path.dirname(output["stdout_path"]), mode=0o700, exist_ok=True)
        command = {
            "name": job.point.name,
            "argv": job.command,
            # It goes to the controller with the output, to be shown to others.
            "env": shown_environment(job.point.env),
            "timeout": job.point.timeout,
        }
        with open(os.path.join(os.path.dirname(output["stdout_path"]), "command.json"), "w", encoding="utf-8") as file:
            json.dump(command, file, indent=1)
        self._remove_json()
        begin = time.monotonic()
        with open(output["stdout_path"], "wb") as out, open(output["stderr_path"], "wb") as err:
            try:
                # The module's run_command gives no process to follow.
                process = subprocess.Popen(  # pylint: disable=ansible-bad-function
                    job.command,
                    env=dict(job.environment),
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                )
            except OSError as error:
                missing = problem("not-started", reason=f"{job.command[0]}: {error.strerror}")
                return outcome_of("failed", output, [missing], duration=0.0), False
        run.tell(event="started", point=number, time=round(time.time(), 3))
        watch = _Watch(run, number, job, output)
        overdue = watch.wait(process, self._plan.limits, self._is_orphan)
        duration = round(time.monotonic() - begin, 3)
        # A child that goes on printing when mpirun has ended would fill the file system.
        is_written = not overdue and watch.drain()
        reaped: list[Reaped] = []
        sizes = {name: os.stat(path).st_size for name, path in output.items()} if overdue else None
        # Before anything is ended.
        seen = self._look_at_hang(number) if overdue in _HANGS else None
        if overdue or process.returncode != 0 or watch.lost_daemon or is_written:
            reaped = run.end_here(process.pid if overdue else None)
            # One that is held in the kernel does not end: that is among what was reaped.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LAST_WAIT)
            reaped += reap(run.run_dir.run_id, self._plan.reach, os.environ)
            self._reaped = list(dict.fromkeys([*self._reaped, *reaped]))
        passed = not overdue and process.returncode == 0 and not watch.lost_daemon
        logged = self._logged(job)
        for line in logged.complaints if logged else ():
            watch.complain(line)
        # The rest of a flood is not worth the minutes that it takes.
        if overdue != "output":
            watch.drain()
        results, unread = watch.finish(self._facts(list(watch.marks.found.values())) if passed else None)
        results = self._with_log(job, self._with_json(job, results), logged)
        problems = self._problems(job, overdue, process.returncode, watch, results, output, sizes, seen)
        problems += [problem for problem in (found.problem() for found in reaped) if problem is not None]
        if overdue:
            status = {"orphan": "stopped", "output": "failed", "disk": "failed"}.get(overdue, "timeout")
        else:
            status = "failed" if process.returncode or problems else "finished"
        exit_status = None if overdue else process.returncode
        found = outcome_of(
            status, output, problems, exit_status=exit_status, duration=duration, results=results, unread=unread
        )
        return found, overdue == "orphan"

    def _look_at_hang(self, number: int) -> Seen | None:
        """What all hosts tell of the ranks of a point; None if that fails."""
        own = next((host for host in self._hosts if self._launcher.is_host(host)), None)
        run_dir = self._run.run_dir
        try:
            watched = Watched(f"{run_dir.run_id}/{number}", run_dir.path, own)
            return look_at_hang(watched, self._plan.reach, self._plan.looking, os.environ)
        except Exception:
            # The point ends all the same, with less to say. This goes to the runner's log.
            traceback.print_exc()
            return None

    def _hang_problems(
        self,
        seen: Seen | None,
        job: Job,
        marks: t.Sequence[Mark],
        results: t.Sequence[ResultDocument],
        otherwise: Problem,
        quiet: bool,
    ) -> list[Problem]:
        """The ranks that the others wait for, as far as it shows. ``otherwise``: what is said if it does not."""
        if seen is None:
            return []
        find = host_finder(self._hosts, self._launcher)
        hosts = {mark.rank: find(mark) for mark in marks}
        placed = {rank: host for rank, host in hosts.items() if host is not None}
        expected = {host.name: job.point.ranks_per_node or host.slots for host in self._plan.hosts}
        if len(placed) < len(hosts) or sum(expected.values()) != job.ranks:
            # Where ranks are cannot be said.
            placed = {}
        gpus = {
            rank["rank"]: rank["device"]
            for document in results
            for rank in document["ranks"]
            if rank["device"] is not None and _GPU.search(rank["bus_id"] or "")
        }
        try:
            return hang_problems(seen, Launched(expected, placed, gpus), otherwise, quiet)
        except Exception:
            traceback.print_exc()
            return []

    def _json(self) -> str:
        return os.path.join(self._run.run_dir.mpi, PROGRAM_JSON)

    def _remove_json(self) -> None:
        """Remove the JSON of a point. A program that finds the file there takes another name."""
        for path in glob.glob(f"{glob.escape(self._json())}*"):
            with contextlib.suppress(OSError):
                os.unlink(path)

    def _with_json(self, job: Job, results: list[ResultDocument]) -> list[ResultDocument]:
        """The results with what the program wrote as JSON, to the file that is meant for it here, or to one that its user named."""
        own = self._json()
        try:
            return [self._told_twice(job, document, own) for document in results]
        finally:
            self._remove_json()

    @staticmethod
    def _told_twice(job: Job, document: ResultDocument, own: str) -> ResultDocument:
        path = document["json_output"]
        if path is None or not document["complete"]:
            return document
        if path == own:
            return {**with_json(document, path), "json_output": None}
        # It stays. On another host, where rank 0 may be, there is none here.
        return with_json(document, path) if path in job.command and os.path.isfile(path) else document

    def _logged(self, job: Job) -> Logged | None:
        """What NCCL logged of a launch; None if it writes no log."""
        if not job.log:
            return None
        own = any(self._launcher.is_host(host) for host in self._hosts)
        try:
            return collect_logs(
                job.log, own, self._plan.reach, self._plan.collecting, os.environ, chooses_sockets(job.environment)
            )
        except Exception as error:
            # The point has run: its results stay.
            return unread_logs(self._hosts, error)

    def _with_log(self, job: Job, results: list[ResultDocument], logged: Logged | None) -> list[ResultDocument]:
        """The results with what NCCL logged of this launch, or of an earlier one that was launched alike."""
        if logged is None:
            told = self._told.get(job.configuration)
            return [copied(told, document) for document in results] if told else results
        results = [logged.added_to(document) for document in results]
        if results:
            self._told[job.configuration] = results[0]
        return results

    def _problems(
        self,
        job: Job,
        overdue: str | None,
        returncode: int,
        watch: _Watch,
        results: t.Sequence[ResultDocument],
        output: t.Mapping[str, str],
        sizes: t.Mapping[str, int] | None,
        seen: Seen | None,
    ) -> list[Problem]:
        """``sizes``: of the outputs when it was ended. ``seen``: what its hosts told then."""
        limits = self._plan.limits
        marks = list(watch.marks.found.values())
        if overdue == "orphan":
            return [unfinished_problem("orphaned", None, seconds=self._orphan)]
        if overdue in ("output", "disk"):
            if overdue == "output":
                own = problem("output-too-long", limit=format_size(limits.output))
            else:
                free, size = watch.space
                facts = {
                    "path": self._run.run_dir.path,
                    "free": format_size(free),
                    "wanted": format_size(_reserve(size)),
                }
                printed = format_size(sum((sizes or {}).values()))
                own = problem(
                    "disk-full", self._own_host(), f"the point was ended when it had printed {printed}", **facts
                )
            causes = self._diagnosed(
                None, watch, output, {path: min(length, _MOST_DIAGNOSED) for path, length in (sizes or {}).items()}
            )
            return [own, *(cause for cause in causes if cause.id != own.id)]
        if overdue:
            seconds = {"startup": limits.startup, "silence": limits.silence, "point": job.point.timeout}[overdue]
            missing = missing_hosts(marks, self._hosts, self._launcher) if len(marks) < job.ranks else []
            # What it waits for may be in its words.
            own = overdue_problem(overdue, seconds, job.ranks, len(marks), missing)
            causes = self._diagnosed(None, watch, output, sizes)
            known = any(cause.severity == "error" for cause in causes)
            # That nothing is printed follows from a rank that hangs.
            quiet = overdue != "point" or watch.quiet >= _QUIET
            hung = [] if known else self._hang_problems(seen, job, marks, results, own, quiet)
            return (
                [*hung, *causes] if hung else [*causes, dataclasses.replace(own, severity="warning") if known else own]
            )
        if returncode or watch.lost_daemon:
            # Whatever mpirun ends with, the run has failed, also if nothing tells why.
            return self._diagnosed(returncode or 1, watch, output, watch.taken())
        problems = started_placement_problems(marks, self._hosts, job.ranks, self._launcher)
        for document in results:
            problems += [] if problems else listed_placement_problems(document, len(self._hosts), job.ranks)
        if not results:
            usage = {f"{name}_path": _MOST_USAGE for name in ("stdout", "stderr")}
            problems += [cause for cause in self._diagnosed(None, watch, output, usage) if cause.id in ENDS_WELL]
        return problems

    def _own_host(self) -> str:
        """This node as the hostfile calls it."""
        return next((host for host in self._hosts if self._launcher.is_host(host)), self._launcher.name)

    def _diagnosed(
        self,
        returncode: int | None,
        watch: _Watch,
        output: t.Mapping[str, str],
        sizes: t.Mapping[str, int] | None = None,
    ) -> list[Problem]:
        """The causes that what a point printed tells, and what NCCL logged. ``returncode``: None where it was ended.

        ``sizes``: how much of each output to read; what mpirun says after it was told to end is of that end.
        """
        with contextlib.ExitStack() as files:
            sources = [
                Source(
                    "launcher",
                    _lines(files.enter_context(open(output[f"{name}_path"], "rb")), (sizes or {}).get(f"{name}_path")),
                    name=name,
                )
                for name in ("stderr", "stdout")
            ]
            sources.append(Source("launcher", watch.complaints, name="NCCL's log", numbered=False))
            return diagnose(sources, returncode, self._facts(list(watch.marks.found.values())))

    def _facts(self, marks: t.Sequence[Mark]) -> Facts:
        """The hosts of the ranks that have begun, as the hostfile calls them."""
        find = host_finder(self._hosts, self._launcher)
        hosts = {mark: find(mark) or mark.host for mark in marks}
        return Facts(
            names={mark.host: host for mark, host in hosts.items()},
            ranks={mark.rank: host for mark, host in hosts.items()},
        )

    def _is_orphan(self) -> bool:
        """Whether nobody has asked for the run for too long."""
        last, now = self._run.asked(), time.monotonic()
        if last != self._asked[0]:
            # Not by the time of day, which may be set.
            self._asked = (last, now)
            given = self._run.orphan_limit()
            self._orphan = self._plan.limits.orphan if given is None else given
        return bool(self._orphan) and now - self._asked[1] > self._orphan


def _lines(file: t.BinaryIO, size: int | None) -> t.Iterator[str]:
    """The lines of an output without the marks of the ranks, of its first so many bytes."""
    read = 0
    for line in iter(lambda: file.readline(_LONGEST_LINE), b""):
        read += len(line)
        if size is not None and read > size:
            return
        yield without_marks(line.decode("utf-8", errors="replace"))


class _Watch:
    """Reads what a point prints while it prints it, and knows when it has taken too long."""

    def __init__(self, run: Run, number: int, job: Job, output: t.Mapping[str, str]) -> None:
        self.marks = Marks()
        #: What NCCL wrote elsewhere that may tell of a failure.
        self.complaints: list[str] = []
        self._run = run
        self._number = number
        self._job = job
        self._path = output["stdout_path"]
        self._directory = os.path.dirname(self._path)
        #: Bytes that are free in its file system, and all that this has.
        self.space = (0, 0)
        self._text = GrowingOutput()
        self._error_lines = Lines()
        self._head = b""
        self._out = _Growing(self._path, self._take)
        #: Seconds since it has printed anything, when a limit was passed.
        self.quiet = 0.0
        self.lost_daemon = False
        self._err = _Growing(output["stderr_path"], self._take_error)

    def wait(self, process: subprocess.Popen[bytes], limits: Limits, is_orphan: t.Callable[[], bool]) -> str | None:
        """Wait for the end; the limit that was passed before it: ``startup``, ``silence``, ``point``, ``output``, ``disk``, ``orphan``."""
        ended = threading.Event()

        def wait() -> None:
            process.wait()
            ended.set()

        threading.Thread(target=wait, daemon=True).start()
        begin = changed = time.monotonic()
        while not ended.wait(_TICK):
            now = time.monotonic()
            if self._advance():
                changed = now
            self.quiet = now - changed
            printed = self._out.size() + self._err.size() + _size_of(self._job.log)
            if limits.output and printed > limits.output:
                return "output"
            self.space = _space(self._directory)
            if too_full(*self.space, printed):
                return "disk"
            if now - begin > self._job.point.timeout:
                return "point"
            if len(self.marks.found) < self._job.ranks:
                if limits.startup and now - begin > limits.startup:
                    return "startup"
            elif limits.silence and now - changed > limits.silence:
                return "silence"
            if is_orphan():
                return "orphan"
        return None

    def complain(self, line: str) -> None:
        """Take a line of NCCL's log that may tell of a failure."""
        self.complaints.append(line)
        self._text.complain(line)

    def drain(self) -> bool:
        """Read all that was printed until now; whether somebody has printed more meanwhile."""
        ends = (self._out.size(), self._err.size())
        while self._advance(*ends):
            pass
        return (self._out.size(), self._err.size()) != ends

    def taken(self) -> dict[str, int]:
        """How many bytes of each output were read."""
        return {file.path: file.taken for file in (self._out, self._err)}

    def finish(self, facts: Facts | None) -> tuple[list[ResultDocument], str | None]:
        """The result documents of what was read, or why there are none. ``facts``: of a run that passed, as of parse_results."""
        self._out.close()
        self._err.close()
        try:
            head = self._head.decode("utf-8", errors="replace")
            if is_document(head):
                return parse_file(self._path, facts, self._out.taken), None
            return self._text.documents(facts), None
        except GpufabricError as error:
            return [], str(error)

    def _take(self, block: bytes) -> None:
        self._head = self._head or block[:4096]
        self._text.feed(block)

    def _take_error(self, block: bytes) -> None:
        self.marks.feed(block)
        for line in self._error_lines.feed(block):
            self._text.complain(line)
        self.lost_daemon = self.lost_daemon or _LOST_DAEMON in block

    def _advance(self, *ends: int) -> bool:
        """``ends``: of both, until where to read."""
        # Both, whatever came of the first.
        grown = [file.advance(end) for file, end in zip((self._out, self._err), ends or (None, None))]
        rows = self._text.new_rows()
        if rows:
            self._run.tell(event="rows", point=self._number, rows=rows)
        return any(grown)
