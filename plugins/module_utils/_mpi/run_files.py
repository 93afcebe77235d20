# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""A run on the launcher, in files: what is to be run, how far it is, and what came of it.

Whatever is killed when, the files say how far the run is. ``run.json`` is there from the runner's begin, ``exit.json`` of a point
from its end, and ``events.jsonl`` only grows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import json
import os
import shutil
import tarfile
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem, ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import locked, read_text, remove, write_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.points import (
    Plan,
    assemble,
    explain,
    keep,
    said_in,
    telling_lines,
    unfinished_problem,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.progress import (
    LONGEST_EVENT,
    Event,
    is_alive,
    parse_events,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.reaper import Reach, Reaped, reap
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import (
    Selector,
    end_started,
    parse_start,
    read_processes,
    run_detached,
    stamped,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import POINT_VARIABLE, RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._units import format_size

#: What goes through the points of a plan: it gets the run, the plan, what came of points that are kept, and a function to call
#: as soon as it has begun.
Work = t.Callable[["Run", Plan, t.Mapping[int, t.Mapping[str, t.Any]], t.Callable[[], None]], None]

#: The keys of what comes of a point.
OUTCOME = (
    *("status", "exit_status", "duration", "stdout_path", "stderr_path"),
    *("problems", "said", "results", "unread", "resumed"),
)


#: What the outcome of a point says of the plan.
_TOLD = ("id", "name", "command", "fingerprint")


def outcome_of(
    status: str, output: t.Mapping[str, str], problems: t.Sequence[Problem | None], **more: t.Any
) -> dict[str, t.Any]:
    """What comes of a point: nothing but its status and problems, and ``more``. Raises NodeError."""
    values = {
        "status": status,
        "exit_status": None,
        "duration": None,
        **output,
        "problems": [problem.as_dict() for problem in problems if problem is not None],
        "said": [] if status in ("finished", "not_run") else said_in(output),
        "results": [],
        "unread": None if status == "finished" else "the point did not finish",
        "resumed": False,
    }
    return {**values, **more}


class Run:
    """The points on the launcher: what they print is kept in ``mpi/points/NUMBER`` of the run's directory."""

    def __init__(self, run_dir: RunDir) -> None:
        self.run_dir = run_dir
        self._plan = self._path("plan.json")
        self._state = self._path("run.json")
        self._events = self._path("events.jsonl")
        self._polled = self._path("polled")
        self._log = self._path("runner.log")
        #: There until the caller has got what came of the run.
        self._unclaimed = self._path("unclaimed")
        #: There where the caller wants the archive.
        self._wanted = self._path("archive-wanted")
        self._archive = self._path("output.tar.gz")

    def output(self, number: int) -> dict[str, str]:
        """The files that a point prints to; points are numbered from 1."""
        found = {}
        for name in ("stdout", "stderr"):
            path = os.path.join(self._directory(number), name)
            found[f"{name}_path"] = f"{path}.gz" if os.path.exists(f"{path}.gz") else path
        return found

    def runner(self) -> dict[str, t.Any]:
        """The process that goes through the points, and the directory of what it writes, for ``look_command``."""
        state = self._read(self._state) or {}
        return {"pid": state.get("pid"), "start": state.get("start"), "directory": self.run_dir.mpi}

    def can_follow(self, plan: Plan) -> bool:
        """Whether a run of this plan is going, or nobody has got yet what came of one. Raises NodeError where another goes."""
        state = self._read(self._state)
        if state is None:
            return False
        same, going = state["plan"] == plan.fingerprint(), self._is_going(state)
        if going and not same:
            ended = sum(event["event"] == "ended" for event in self._journal())
            facts = {"run_id": self.run_dir.run_id, "ended": ended, "total": state["total"]}
            raise ProblemError(problem("run-in-use", None, f"process {state['pid']}", **facts))
        return same and (going or (state["over"] == "ended" and os.path.exists(self._unclaimed)))

    def start(self, plan: Plan, work: Work, resume: bool = True, archive: bool = False) -> bool:
        """Have a process go through the points, where none does so already; whether one does. Raises NodeError.

        ``archive``: put all that was printed into one file in the end.
        """
        self.run_dir.create(self.run_dir.mpi, self.run_dir.tmp)
        with locked(self.run_dir.mpi):
            followed = self.can_follow(plan)
            if not followed:
                state = self._read(self._state)
                if state is not None and not state["over"]:
                    # A runner that was killed has left its point running.
                    self.end_here(None)
                    reap(self.run_dir.run_id, self._reach(), os.environ)
                # What was cut off before it had begun has no state but its points.
                kept = self._prepare(plan, resume and (state is None or state["over"] != "ended"))
                write_text(self._unclaimed, "")
                run_detached(lambda begun: work(self, plan, kept, begun), self._log)
            # Who follows a run says anew how long it goes on without him.
            write_text(self._polled, f"{plan.limits.orphan:g}\n")
            if archive:
                write_text(self._wanted, "")
                if followed and not os.path.exists(self._archive) and (self._read(self._state) or {}).get("over"):
                    self._pack()
        return followed

    def prepare(self, files: t.Mapping[str, str], check_mode: bool = False) -> bool:
        """Write the texts that programs need, by name; whether one was not there yet. Raises GpufabricError."""
        self.run_dir.check()
        paths = {os.path.join(self.run_dir.files, name): text for name, text in files.items()}
        fresh = {path: text for path, text in paths.items() if read_text(path) != text}
        if fresh and not check_mode:
            self.run_dir.create(self.run_dir.files)
            for path, text in fresh.items():
                write_text(path, text)
        return bool(fresh)

    def exists(self) -> bool:
        """Whether there is anything of the run's points, going or not."""
        return self.run_dir.holds_run() and os.path.isdir(self.run_dir.mpi)

    def has_to_stop(self) -> bool:
        """Whether anything of the points runs on this node, or what came of them is not written down."""
        if not self.exists() or self._read(self._state) is None:
            return False
        return not self._is_told() or bool(stamped(read_processes(), self._is_of_a_point()))

    def stop(self, tell: bool = True) -> dict[str, t.Any]:
        """End what runs of the points, on all hosts; what came of them all, where any were run. Raises NodeError.

        ``tell``: what came of them is to be written down and returned.
        """
        if not self.exists():
            return {}
        with locked(self.run_dir.mpi):
            state = self._read(self._state)
            if state is None:
                return {}
            going = self._is_going(state)
            if self.has_to_stop():
                # Also where the runner is gone: what it started may have stayed.
                reaped = self.end_here(state["pid"] if going else None)
                reaped += reap(self.run_dir.run_id, self._reach(), os.environ)
                # It may have come to its end meanwhile.
                if tell and not self._is_told():
                    reason = (self._read(self._state) or state)["over"] or ("stopped" if going else "lost")
                    try:
                        self._cut_off(reason, reaped)
                    except OSError as error:
                        raise NodeError(f"cannot write to {self.run_dir.mpi}: {error.strerror}") from error
            # To the next play, no other waits for it.
            remove(self._polled)
            result = self.result() if tell else {}
            # Who removes the run may be at it: without a plan, nothing would look like all.
            return result if os.path.exists(self._plan) else {}

    def result(self) -> dict[str, t.Any]:
        """What came of the points as far as it is written down. Raises NodeError."""
        points = (self._read(self._plan) or {}).get("points", [])
        events = self._journal()
        outcomes = {event["point"]: event["outcome"] for event in events if event["event"] == "ended"}
        over = next((event for event in reversed(events) if event["event"] == "over"), {})
        return assemble(points, outcomes, over)

    def remove(self) -> None:
        """End what runs of any point, and remove the points and the hostfile. Raises NodeError."""
        # A file system that is full cannot take what nobody will read.
        self.stop(tell=False)
        # The sessions of the private sshd use the latter.
        self.run_dir.remove(self.run_dir.mpi, *([] if os.path.isdir(self.run_dir.sshd) else [self.run_dir.tmp]))

    # What the runner writes.

    def begin(self, plan: Plan) -> None:
        """Write down that this process is the runner. Raises NodeError."""
        start = parse_start(read_text("/proc/self/stat") or "")
        state = {"plan": plan.fingerprint(), "pid": os.getpid(), "start": start, "total": len(plan.jobs), "over": None}
        self._write(self._state, state)

    def tell(self, **event: t.Any) -> None:
        """Add to the events. Raises NodeError."""
        line = json.dumps(event) + "\n"
        try:
            with open(self._events, "ab", buffering=0) as file:
                file.write(line.encode("ascii"))
        except OSError as error:
            raise NodeError(f"cannot write {self._events}: {error.strerror}") from error

    def end_point(self, number: int, entry: t.Mapping[str, t.Any], outcome: t.Mapping[str, t.Any]) -> None:
        """Write down what came of a point. ``entry``: the plan's, with all of _TOLD.

        It goes to the controller with the output: values of variables, which may be secret, stay here.
        """
        told = {name: entry[name] for name in _TOLD}
        size = len(json.dumps({**told, **outcome}))
        if size > LONGEST_EVENT:
            # The controller would not even learn that the point has ended.
            words = f"its results are {format_size(size)} of JSON, more than the {format_size(LONGEST_EVENT)} that reach the controller"
            advice = "let it run fewer cycles or sizes, or have nccl_result read its output"
            outcome = {**outcome, "results": [], "unread": f"{words}; {advice}"}
        os.makedirs(self._directory(number), mode=0o700, exist_ok=True)
        # One that is written in part is none, and to wait for the disk would make the next point wait.
        with open(os.path.join(self._directory(number), "exit.json"), "w", encoding="ascii") as file:
            json.dump({**told, **outcome}, file)
        self.tell(event="ended", point=number, outcome=outcome)

    def close(self, reason: str, failed: t.Sequence[t.Mapping[str, t.Any]], reaped: t.Iterable[Reaped]) -> None:
        """Write down that the run is over, and why. ``failed``: the points that did not finish. Raises NodeError."""
        state = self._read(self._state) or {}
        paths = {str(number): self.output(number) for number in range(1, state["total"] + 1)}
        if os.path.exists(self._wanted):
            self._pack()
        # What a runner that was killed has written in part is ended by this.
        with open(self._events, "ab") as file:
            file.write(b"\n")
        self._write(self._state, {**state, "over": reason})
        self.tell(
            event="over",
            reason=reason,
            msg=explain(failed, state["total"]) if failed else "",
            reaped=[found.as_dict() for found in reaped],
            paths={number: found for number, found in paths.items() if any(".gz" in path for path in found.values())},
        )

    def asked(self) -> int:
        """Another number whenever somebody has asked for the run."""
        with contextlib.suppress(FileNotFoundError):
            return os.stat(self._polled).st_mtime_ns
        return 0

    def orphan_limit(self) -> float | None:
        """Seconds that the run goes on without being asked for, as its last caller said; None where nobody has said it."""
        with contextlib.suppress(ValueError):
            return float(read_text(self._polled) or "")
        return None

    def end_here(self, pid: int | None) -> list[Reaped]:
        """End a process and all of the points on this node; says so where some do not end."""
        try:
            # mpirun passes the signal on to its daemons, and needs a moment to see them go.
            end_started(pid, self._is_of_a_point(), grace=5.0)
        except NodeError as error:
            return [Reaped(os.uname().nodename, error=str(error))]
        return []

    # What no other has to know.

    def _path(self, name: str) -> str:
        return os.path.join(self.run_dir.mpi, name)

    def _directory(self, number: int) -> str:
        return os.path.join(self.run_dir.points, str(number))

    def _is_going(self, state: t.Mapping[str, t.Any]) -> bool:
        return not state["over"] and is_alive(read_text(f"/proc/{state['pid']}/stat"), state["start"])

    def _journal(self) -> list[Event]:
        return parse_events((read_text(self._events) or "").split("\n"))

    def _reach(self) -> Reach:
        values = (self._read(self._plan) or {}).get("reach", {"hosts": [], "agent": [], "environment": {}})
        return Reach(tuple(values["hosts"]), tuple(values["agent"]), values["environment"])

    def _prepare(self, plan: Plan, resume: bool) -> dict[int, dict[str, t.Any]]:
        """Write what is to be run, and forget the points of an earlier run but for those that are kept: these, by number."""
        entries: list[dict[str, t.Any]] = [
            {
                "id": job.point.id,
                "name": job.point.name,
                "command": list(job.command),
                "env": dict(job.point.env),
                "ranks": job.ranks,
                "ranks_per_node": job.point.ranks_per_node,
                "fingerprint": fingerprint,
            }
            for job, fingerprint in zip(plan.jobs, plan.fingerprints())
        ]
        before = self._path("points*")
        if not resume:
            for path in glob.glob(before):
                shutil.rmtree(path)
        found = self._finished(glob.glob(os.path.join(before, "[0-9]*", "exit.json")))
        for path in (self._state, self._events, self._unclaimed, self._wanted, self._archive):
            remove(path)
        # Under another name until it is whole, where the next call finds it if this one is killed.
        points = f"{self.run_dir.points}.{os.getpid()}"
        self.run_dir.create(points)
        wanted = [(entry["id"], entry["fingerprint"]) for entry in entries]
        kept = {}
        names = {path: (entry["id"], entry["fingerprint"]) for path, entry in found.items()}
        for number, path in keep(wanted, names).items():
            os.rename(os.path.dirname(path), os.path.join(points, str(number)))
            kept[number] = found[path]
        for path in glob.glob(before):
            if path != points:
                shutil.rmtree(path)
        os.rename(points, self.run_dir.points)
        self.prepare(plan.files)
        self._write(self._plan, {"points": entries, "reach": dataclasses.asdict(plan.reach)})
        return kept

    @staticmethod
    def _finished(paths: t.Iterable[str]) -> dict[str, dict[str, t.Any]]:
        found = {}
        for path in sorted(paths):
            with contextlib.suppress(ValueError):
                entry = json.loads(read_text(path) or "")
                if entry["status"] == "finished":
                    found[path] = entry
        return found

    def _is_told(self) -> bool:
        return any(event["event"] == "over" for event in self._journal())

    def _cut_off(self, reason: str, reaped: t.Sequence[Reaped]) -> None:
        """Write down what came of the points of a run whose runner is gone."""
        plan = self._read(self._plan) or {"points": []}
        with open(self._events, "ab") as file:
            file.write(b"\n")
        told = {event["point"]: event["outcome"] for event in self._journal() if event["event"] == "ended"}
        lost = telling_lines(read_text(self._log) or "")
        failed = []
        current: str | None = None
        for number, entry in enumerate(plan["points"], 1):
            outcome = told.get(number)
            if outcome is None:
                before = os.path.join(self._directory(number), "exit.json")
                known = self._finished([before]).get(before)
                if known is not None:
                    outcome = {**{name: known[name] for name in OUTCOME}, **self.output(number)}
                else:
                    problem = unfinished_problem(reason, current, lost)
                    status = "stopped" if current is None else "not_run"
                    current = current or f"point {number}"
                    more = [found.problem() for found in reaped] if status == "stopped" else []
                    outcome = outcome_of(status, self.output(number), [problem, *more])
                self.end_point(number, entry, outcome)
            if outcome["status"] != "finished":
                failed.append({"name": entry["name"], **outcome})
        self.close(reason, failed, reaped)

    def _pack(self) -> None:
        """Put all that was printed into one file. Raises NodeError."""
        part = f"{self._archive}.part"
        try:
            with tarfile.open(part, "w:gz", compresslevel=1) as archive:
                archive.add(
                    self.run_dir.points, "points", filter=lambda entry: None if ".part" in entry.name else entry
                )
            os.replace(part, self._archive)
        except OSError as error:
            # The outcome is worth more; that there is no archive is told where it is looked for.
            remove(part)
            with open(self._log, "a", encoding="utf-8") as log:
                log.write(f"cannot write {self._archive}: {error.strerror}\n")

    def _is_of_a_point(self) -> Selector:
        total = (self._read(self._state) or {"total": 0})["total"]
        points = (f"{self.run_dir.run_id}/{number}" for number in range(1, total + 1))
        return self.run_dir.started_with(POINT_VARIABLE, *points)

    @staticmethod
    def _write(path: str, value: t.Mapping[str, t.Any]) -> None:
        # On one line, for parse_look.
        write_text(path, json.dumps(value) + "\n")

    @staticmethod
    def _read(path: str) -> dict[str, t.Any] | None:
        text = read_text(path)
        return None if text is None else json.loads(text)
