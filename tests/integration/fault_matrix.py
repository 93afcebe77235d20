# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fault matrix: faults that are really made, what was told of them, and runs without a fault, which are to tell nothing.

Each record is a file in build/faults, so that processes of tests beside each other can write them; scripts/render-fault-matrix
makes docs/fault-matrix.md of them.
"""

from __future__ import annotations

import collections
import hashlib
import json
import pathlib
import typing as t

#: What faults are made on.
LOCAL_NODES, PODS = BEDS = ("local nodes", "pods")
#: What a record's outcome may be: a fault that was named right, by another name, by none; and of a run without a fault.
OUTCOMES = ("right", "wrong", "unknown", "quiet", "false alarm")

Problem = t.Mapping[str, t.Any]


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
    ) -> None:
        """Record what was told of a fault, and fail unless it is ``expected`` of ``host`` and no other error is told of it.

        ``fault``: what was done, in words. ``where``: in words. ``told_by``: the module, or the program. Other problems of
        ``problems`` may be of other faults at the same time, on other hosts.
        """
        problems = list(problems)
        own = [problem["id"] for problem in problems if problem["host"] in (host, None)]
        errors = [problem["id"] for problem in problems if problem["host"] in (host, None) and _is_error(problem)]
        named = (expected, host) in {(problem["id"], problem["host"]) for problem in problems}
        others = set(errors) - {expected}
        outcome = "right" if named and not others else "unknown" if not others - {"unknown"} else "wrong"
        self._keep(fault, where, told_by, expected, outcome)
        assert outcome == "right", f"{fault}: {expected} of {host} is expected, and not {own}: {problems}"

    def healthy(self, run: str, problems: t.Iterable[Problem], told_by: str) -> None:
        """Record what was told of a run without a fault, and fail unless that is nothing."""
        problems = list(problems)
        self._keep(run, "", told_by, "", "false alarm" if problems else "quiet")
        assert problems == [], f"{run}: nothing is to be told"

    def _keep(self, what: str, where: str, told_by: str, expected: str, outcome: str) -> None:
        record = {
            "bed": self._bed,
            "what": what,
            "where": where,
            "told_by": told_by,
            "expected": expected,
            "outcome": outcome,
        }
        key = hashlib.sha256("\n".join((self._bed, what, where, told_by)).encode()).hexdigest()[:16]
        self._directory.mkdir(parents=True, exist_ok=True)
        # Tests of another bed may be reading all at this moment.
        part = self._directory / f"{key}.part"
        part.write_text(json.dumps(record))
        part.replace(self._directory / f"{key}.json")


def _is_error(problem: Problem) -> bool:
    return problem["severity"] == "error"


def read_records(directory: pathlib.Path) -> list[dict[str, str]]:
    """All records, in the order of the documentation."""
    records = [json.loads(path.read_text()) for path in directory.glob("*.json")]
    return sorted(
        records, key=lambda one: (one["bed"], one["expected"] == "", one["expected"], one["what"], one["told_by"])
    )


def counts(records: t.Iterable[t.Mapping[str, str]]) -> str:
    """How many faults were made and what became of them, in one line."""
    found = collections.Counter(record["outcome"] for record in records)
    faults = found["right"] + found["wrong"] + found["unknown"]
    return (
        f"{faults} faults: {found['right']} named right, {found['wrong']} wrong, {found['unknown']} unknown;"
        f" {found['quiet'] + found['false alarm']} healthy runs: {found['false alarm']} false alarms"
    )
