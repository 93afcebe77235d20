# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The points of a run: each a program started by mpirun, its output in files of the run's directory."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import subprocess
import time
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import read_text, write_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests import parse_results, placement_problems
from ansible_collections.gpufabric.nccl.plugins.module_utils._problem import Problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import end_started
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RUN_ID_VARIABLE, RunDir

#: Set in every process of a point, on every node, so that it can be found and ended.
POINT_VARIABLE = "GPUFABRIC_POINT"

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


class PointRunner:
    """Runs points one after the other and keeps what they print in ``mpi/points/NUMBER`` of the run's directory."""

    def __init__(self, run_dir: RunDir) -> None:
        self.run_dir = run_dir

    def prepare(self, files: t.Mapping[str, str]) -> None:
        """Forget the points and files of an earlier call, and write these files. Raises NodeError."""
        for path in (self.run_dir.points, self.run_dir.files):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(path)
        self.run_dir.create(self.run_dir.mpi, self.run_dir.points, *([self.run_dir.files] if files else []))
        for name, text in files.items():
            write_text(os.path.join(self.run_dir.files, name), text)

    def directory(self, number: int) -> str:
        """Where a point's files are; points are numbered from 1."""
        return os.path.join(self.run_dir.points, str(number))

    def stamp(self, number: int) -> str:
        """The value of POINT_VARIABLE in the processes of a point."""
        return f"{self.run_dir.run_id}/{number}"

    def run(
        self, number: int, point: Point, argv: t.Sequence[str], environment: t.Mapping[str, str]
    ) -> dict[str, t.Any]:
        """Run a point to its end or its time-out; what the module returns of it. Raises NodeError."""
        directory = self.directory(number)
        self.run_dir.create(directory)
        stdout, stderr = os.path.join(directory, "stdout"), os.path.join(directory, "stderr")
        command = {"name": point.name, "argv": list(argv), "env": dict(point.env), "timeout": point.timeout}
        write_text(os.path.join(directory, "command.json"), json.dumps(command, indent=1) + "\n")
        begin = time.monotonic()
        with open(stdout, "wb") as out, open(stderr, "wb") as err:
            try:
                process = subprocess.Popen(
                    argv,
                    env=dict(environment),
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                )
            except OSError as error:
                raise NodeError(f"cannot run {argv[0]}: {error.strerror}") from error
            status = "finished"
            try:
                exit_status: int | None = process.wait(point.timeout)
                if exit_status != 0:
                    status = "failed"
            except subprocess.TimeoutExpired:
                status, exit_status = "timeout", None
                self._end(process.pid, self.stamp(number))
                process.wait()
        outcome = {"status": status, "exit_status": exit_status, "duration": round(time.monotonic() - begin, 3)}
        write_text(os.path.join(directory, "exit.json"), json.dumps(outcome) + "\n")
        return {"name": point.name, **outcome, "stdout_path": stdout, "stderr_path": stderr}

    def remove(self) -> None:
        """End what runs of any point on this node, and remove the points and the hostfile."""
        prefix = f"{self.run_dir.run_id}/"
        numbers = os.listdir(self.run_dir.points) if os.path.isdir(self.run_dir.points) else []
        for number in numbers:
            self._end(None, prefix + number)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.run_dir.mpi)
        self.run_dir.remove_if_empty()

    @staticmethod
    def _end(pid: int | None, stamp: str) -> None:
        # mpirun passes the signal on to its daemons, and needs a moment to see them go.
        end_started(pid, POINT_VARIABLE, stamp, grace=5.0)


def variables_of(runner: PointRunner, number: int, point: Point) -> dict[str, str]:
    """The variables that a point's ranks get in any case: its own and the marks to find them by."""
    return {**point.env, RUN_ID_VARIABLE: runner.run_dir.run_id, POINT_VARIABLE: runner.stamp(number)}


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
        if outcome["problems"]:
            what = "; ".join(problem["cause"] for problem in outcome["problems"])
        elif outcome["status"] == "timeout":
            what = f"did not end within {outcome['duration']:.0f} s and was ended"
        else:
            what = f"ended with exit status {outcome['exit_status']}"
        said = telling_lines(read_text(outcome["stderr_path"]) or read_text(outcome["stdout_path"]) or "")
        words = ":\n" + "\n".join(said) if said else " and printed nothing"
        texts.append(f"{outcome['name']} {what} (see {os.path.dirname(outcome['stdout_path'])} on this node){words}")
    return f"{len(failed)} of {total} points did not finish: " + "\n".join(texts)
