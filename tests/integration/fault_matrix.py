# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fault matrix: faults that tests make, what is told of them, and runs without a fault, of which nothing may be told.

Each test has a file in build/faults with its records, so that processes of tests beside each other can write them.
scripts/render-fault-matrix keeps the records of tests that passed in fault_records.json, and makes docs/fault-matrix.md of it.
"""

from __future__ import annotations

import collections
import hashlib
import json
import os
import pathlib
import typing as t

#: What faults are made on.
LOCAL_NODES, PODS = BEDS = ("local nodes", "pods")
#: What a record's outcome may be: a fault that was named right, by another name, by none; and of a run without a fault.
OUTCOMES = ("right", "wrong", "unknown", "quiet", "false alarm")
#: Causes that say what was seen, and not what it came of.
SYMPTOMS = ("output-unread", "processes-left", "run-failed", "silence-timeout", "timeout", "unknown")
#: What plays the part of something real in all faults that a module is to tell.
STAND_INS = {"mpijob": "a program of the tests plays the MPI Operator, or there is none"}

Problem = t.Mapping[str, t.Any]
Record = t.Dict[str, t.Any]


class FaultMatrix:
    """Keeps records in a directory. ``bed``: one of BEDS."""

    def __init__(self, directory: pathlib.Path, bed: str) -> None:
        self._directory = directory
        self._bed = bed

    def fault(
        self,
        fault: str,
        problems: t.Iterable[Problem],
        expected: str,
        host: str | None,
        told_by: str,
        where: str = "a worker",
        severity: str = "error",
        beside: t.Iterable[tuple[str, str | None] | tuple[str, str | None, str]] = (),
        *,
        symptom: bool = False,
        stand_in: str = "",
    ) -> None:
        """Record what was told of a fault, and fail unless ``problems`` are ``expected`` of ``host`` with ``severity``, and no more.

        ``fault``: what was done, in words. ``host``: None where it is no host's. ``told_by``: the module, or the program.
        ``where``: in words. ``beside``: id, host and severity of what else is told, such as of other faults that are made at the same
        time; without a severity, it is that of this fault.
        ``symptom``: the cause is another one than ``expected``, which only SYMPTOMS are otherwise. ``stand_in``: in words, what
        is not the real thing.
        """
        problems = list(problems)
        wanted = (expected, host, severity)
        others = {(one, of, *(its or [severity])) for one, of, *its in beside if (one, of) != (expected, host)}
        told = {_key(problem) for problem in problems} - others
        outcome = "right" if told == {wanted} else "wrong" if {key[0] for key in told} - {"unknown"} else "unknown"
        self._keep(
            what=fault,
            where=where,
            told_by=told_by,
            expected=expected,
            host=host,
            severity=severity,
            symptom=symptom or expected in SYMPTOMS,
            stand_in=stand_in or STAND_INS.get(told_by, ""),
            outcome=outcome,
        )
        assert outcome == "right", f"{fault}: {wanted} alone is expected, and not {sorted(told, key=str)}: {problems}"

    def healthy(self, run: str, problems: t.Iterable[Problem], told_by: str) -> None:
        """Record what was told of a run without a fault, and fail unless that is nothing."""
        problems = list(problems)
        self._keep(what=run, told_by=told_by, expected="", outcome="false alarm" if problems else "quiet")
        assert problems == [], f"{run}: nothing is to be told"

    def _keep(self, **record: t.Any) -> None:
        # pytest says here which test runs, and in which phase.
        test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
        document = _read(self._directory, test)
        document["records"].append({"bed": self._bed, **record})
        _write(self._directory, test, document)


def passed(directory: pathlib.Path, test: str, source: pathlib.Path) -> None:
    """Say of a test's records that they are all it has. ``test``: its node id. ``source``: its file."""
    _write(directory, test, {**_read(directory, test), "passed": True, "source": digest(source)})


def begun(directory: pathlib.Path, test: str) -> None:
    """Forget what a test recorded earlier."""
    _file(directory, test).unlink(missing_ok=True)


def digest(source: pathlib.Path) -> str:
    """What a file of tests is known by: records of its earlier forms are stale."""
    return hashlib.sha256(source.read_bytes()).hexdigest()


def read_tests(directory: pathlib.Path) -> list[Record]:
    """What each test recorded: its node id as ``test``, ``records``, whether it ``passed``, and the digest of its ``source``."""
    return [json.loads(path.read_text()) for path in sorted(directory.glob("test-*.json"))]


def counts(records: t.Iterable[Record]) -> str:
    """How many faults were made and what became of them, in one line."""
    found = collections.Counter(record["outcome"] for record in records)
    faults = found["right"] + found["wrong"] + found["unknown"]
    return (
        f"{faults} faults: {found['right']} as expected, {found['wrong']} wrong, {found['unknown']} unknown;"
        f" {found['quiet'] + found['false alarm']} healthy runs: {found['false alarm']} false alarms"
    )


def _key(problem: Problem) -> tuple[str, str | None, str]:
    return problem["id"], problem["host"], problem["severity"]


def _file(directory: pathlib.Path, test: str) -> pathlib.Path:
    return directory / f"test-{hashlib.sha256(test.encode()).hexdigest()[:16]}.json"


def _read(directory: pathlib.Path, test: str) -> Record:
    path = _file(directory, test)
    return json.loads(path.read_text()) if path.exists() else {"test": test, "passed": False, "records": []}


def _write(directory: pathlib.Path, test: str, document: Record) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    # Tests of another bed may be reading all at this moment.
    part = _file(directory, test).with_suffix(".part")
    part.write_text(json.dumps(document))
    part.replace(_file(directory, test))
