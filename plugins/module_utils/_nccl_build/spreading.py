# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.
"""Brings the programs of one node to others, over the ssh that the nodes of a run have between them."""

from __future__ import annotations

import concurrent.futures
import gzip
import io
import json
import os
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import BOOLEAN, TEXT, check_answer, text
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.openmpi import library_path
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build import receiver
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.installation import Installation, Mark
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import run
from ansible_collections.gpufabric.nccl.plugins.module_utils._remote_python import (
    program_text,
    python_command,
    sources_of,
)

#: How many nodes get the programs at the same time: one network card feeds them all.
_SESSIONS = 32
#: Bytes that a node may print.
_MOST_OUTPUT = 1 << 20

_ANSWER = {
    "changed": BOOLEAN,
    "missing": [text(r"[ -~]{1,255}", "the name of a library")],
    "reason": TEXT,
}


class Target(t.NamedTuple):
    """A node that gets the programs."""

    name: str
    address: str


class Outcome(t.NamedTuple):
    """What came of a node."""

    changed: bool
    problem: Problem | None


def pack(installation: Installation, mark: Mark, mpi_prefix: str) -> bytes:
    """What is sent to each node: the receiver with its parameters, and the programs behind it. Raises NodeError."""
    packed = io.BytesIO()
    sizes = []
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=3) as file:
        for name in sorted(mark.programs):
            try:
                with open(os.path.join(installation.build, name), "rb") as program:
                    data = program.read()
            except OSError as error:
                raise NodeError(f"cannot read {name}: {error.strerror}") from error
            sizes.append((name, len(data)))
            file.write(data)
    parameters = {
        "directory": installation.path,
        "mark": mark.as_text(),
        "sizes": sizes,
        "libraries": [path for path in library_path(mpi_prefix, "").split(":") if path],
    }
    return program_text(sources_of(receiver.__name__), parameters) + packed.getvalue()


def spread(agent: t.Sequence[str], targets: t.Sequence[Target], data: bytes, timeout: float) -> dict[str, Outcome]:
    """Bring the programs to all targets at once; what came of each, by its name. ``agent``: the argv of ssh."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=_SESSIONS) as pool:
        return dict(
            zip((one.name for one in targets), pool.map(lambda one: _bring(agent, one, data, timeout), targets))
        )


def _bring(agent: t.Sequence[str], target: Target, data: bytes, timeout: float) -> Outcome:
    argv = [*agent, "-T", "-o", "LogLevel=INFO", target.address, python_command(None, f"{receiver.ANSWER}null")]
    try:
        result = run(argv, timeout=timeout, most=_MOST_OUTPUT, data=data)
        answer = _answer_in(target.name, result.stdout)
    except NodeError as error:
        return _failed(target, str(error))
    if answer is None:
        lines = (result.stderr or result.stdout).strip().splitlines()
        return _failed(target, lines[-1] if lines else f"exit status {result.returncode}")
    if answer["missing"]:
        libraries = ", ".join(answer["missing"])
        return Outcome(
            False, problem("program-library-missing", target.name, program="nccl-tests", libraries=libraries)
        )
    if answer["reason"]:
        return _failed(target, answer["reason"])
    return Outcome(answer["changed"], None)


def _failed(target: Target, reason: str) -> Outcome:
    return Outcome(False, problem("programs-not-brought", target.name, reason=reason.rstrip(".")[:300]))


def _answer_in(host: str, output: str) -> t.Any:
    """What the receiver says; None if it says nothing. Raises NodeError."""
    for line in output.splitlines():
        if line.startswith(receiver.ANSWER):
            try:
                answer = json.loads(line[len(receiver.ANSWER) :])
            except (ValueError, RecursionError) as error:
                raise NodeError(f"the answer cannot be read: {error}") from error
            if answer is None:
                raise NodeError("no Python 3.8 or later starts there")
            return check_answer(host, "answer", answer, _ANSWER)
    return None
