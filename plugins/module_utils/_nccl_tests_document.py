# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What was read of one run of nccl-tests, and the result document that it becomes.

Sizes are in bytes, times in microseconds, bandwidths in GB/s (10^9 bytes a second).
"""

from __future__ import annotations

import dataclasses
import math
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._problem import Problem

RESULT_SCHEMA = "gpufabric.nccl/result/v1"

#: The two halves of a row, as the document and as people call them.
PLACEMENTS = {"out_of_place": "out-of-place", "in_place": "in-place"}

CONFIG = (
    *("nthreads", "ngpus", "minbytes", "maxbytes", "step", "warmup_iters", "iters", "agg_iters", "validation", "graph"),
)

Row = t.Dict[str, t.Any]


@dataclasses.dataclass
class Test:
    """What was read of one test; ``document`` judges it."""

    #: How far the reading of a text has come: the line that comes latest in an output, as an index of their order.
    stage: int = 0
    tool: dict[str, str | None] = dataclasses.field(
        default_factory=lambda: {"name": "nccl-tests", "version": None, "nccl_version": None}
    )
    collective: str | None = None
    config: dict[str, t.Any] = dataclasses.field(default_factory=lambda: dict.fromkeys(CONFIG))
    env: dict[str, str] = dataclasses.field(default_factory=dict)
    ranks: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)
    rows: list[Row] = dataclasses.field(default_factory=list)
    #: Half of what the last printed digit of each bus bandwidth stands for, in sum: how far off their mean may be.
    rounding: float = 0.0
    #: Rows of which only the out-of-place half was printed.
    half_rows: list[Row] = dataclasses.field(default_factory=list)
    #: Whether the table has no header, and whether a row of it is not what such rows are.
    headless: bool = False
    doubtful: bool = False
    #: Those of the rows that were torn and put together, and how many ends of torn rows had no begin.
    joined: list[Row] = dataclasses.field(default_factory=list)
    orphans: int = 0
    lost_rows: int = 0
    lost_evidence: str = ""
    elided: bool = False
    bounds: list[tuple[int, bool]] = dataclasses.field(default_factory=list)
    averages: list[tuple[float, bool]] = dataclasses.field(default_factory=list)
    bitwise: list[int] = dataclasses.field(default_factory=list)
    json_output: str | None = None
    failure: str = ""
    errors: list[str] = dataclasses.field(default_factory=list)
    #: Formats without a summary say in another way that they are whole; None where the summary is to be there.
    ended: bool | None = None

    def lose(self, evidence: str) -> None:
        """Count a row that cannot be put together."""
        self.lost_rows += 1
        self.lost_evidence = self.lost_evidence or evidence.strip()[:200]

    @property
    def runs(self) -> int:
        """How many programs printed this: each has one rank 0 and one summary."""
        return max(1, sum(rank["rank"] == 0 for rank in self.ranks), len(self.bounds))

    def document(self) -> dict[str, t.Any]:
        """The result document."""
        self._settle_headless_rows()
        self._settle_joined_rows()
        self._settle_half_rows()
        self._settle_errors()
        problems = list(self._problems())
        not_whole = {"output-cut", "rows-lost", "rows-elided", "average-differs", "mpi-missing"}
        document = {
            "schema": RESULT_SCHEMA,
            "tool": self.tool,
            "collective": self.collective or _derived_collective(self.rows),
            "complete": not not_whole & {problem.id for problem in problems},
            "config": self.config,
            "ranks": self.ranks,
            "rows": self.rows,
            "lost_rows": self.lost_rows,
            "summary": self._summary(),
            "json_output": self.json_output,
            "points": {},
            "env": self.env,
            "host_count": len({rank["host"] for rank in self.ranks}),
            "rank_count": len(self.ranks),
            "problems": [],
            "verdict": "",
        }
        return add_problems(document, problems)

    def _settle_headless_rows(self) -> None:
        """Keep rows without a header only where the numbers of one of them are such that no other columns could have them."""
        if self.headless and (self.doubtful or not any(half["algbw"] >= 0.1 for _size, _place, half in self._halves())):
            for row in self.rows:
                self.lose(f"size {row['size']}: the header of the table is missing")
            self.rows, self.joined = [], []

    def _settle_joined_rows(self) -> None:
        """Drop what was put together where several programs printed, since the end may be that of another one's row."""
        mixed = self.runs > 1 or self.orphans > 0
        # Where a bandwidth is too low to tell, nothing else must be wrong.
        doubtful = [row for row in self.joined if mixed or (self.lost_rows and not _is_telling(row))]
        known = {id(row) for row in doubtful}
        self.rows = [row for row in self.rows if id(row) not in known]
        for row in doubtful:
            self.lose(f"size {row['size']}: put together of lines of several programs")
        self.joined = []

    def _settle_half_rows(self) -> None:
        """Take rows without the in-place half where all are such, and the printed average is that of them; else they are cut."""
        if not self.half_rows:
            return
        values = [row["out_of_place"]["busbw"] for row in self.half_rows]
        # Without a header it may be the other half.
        alone = not self.rows and not self.headless and self.averages
        if alone and _close(sum(values) / len(values), self.averages[0][0], 0.005):
            self.rows = self.half_rows
            self.rounding = 0.005 * len(self.rows)
        else:
            for row in self.half_rows:
                self.lose(f"size {row['size']}: the in-place half is missing")
        self.half_rows = []

    def _settle_errors(self) -> None:
        """Old versions print the greatest difference of a value instead of how many are wrong; the summary tells that there are none."""
        for _size, _placement, half in self._halves():
            if half.get("error") == 0 or ("error" in half and self.bounds and all(okay for count, okay in self.bounds)):
                half["wrong"] = 0

    def _halves(self) -> t.Iterator[tuple[int, str, dict[str, t.Any]]]:
        for row in self.rows:
            for placement in PLACEMENTS:
                if row[placement] is not None:
                    yield row["size"], placement, row[placement]

    def _summary(self) -> dict[str, t.Any]:
        halves = list(self._halves())
        wrong = [half["wrong"] for size, placement, half in halves if half["wrong"] is not None]
        peak: tuple[float | None, int | None] = (None, None)
        # The bandwidths of separate runs are not those of the hosts together.
        if halves and self.runs == 1:
            peak = max((half["busbw"], size) for size, placement, half in halves)
        return {
            "avg_busbw": self.averages[0][0] if self.averages and self.runs == 1 else None,
            "peak_busbw": peak[0],
            "peak_size": peak[1],
            "wrong": sum(wrong) if wrong else None,
            "checked": bool(wrong) or any("error" in half for size, placement, half in halves),
            "out_of_bounds": sum(count for count, okay in self.bounds) if self.bounds else None,
        }

    def _problems(self) -> t.Iterator[Problem]:
        if self.runs > 1:
            hosts = listing(dict.fromkeys(rank["host"] for rank in self.ranks)) or "unknown hosts"
            rank_0 = sum(rank["rank"] == 0 for rank in self.ranks)
            yield mpi_missing(
                f"{self.runs} separate runs on {hosts}, their lines mixed",
                f"rank 0 is listed {rank_0} times, the summary {len(self.bounds)} times",
            )
        else:
            yield from self._missing_lines()
        yield from self._wrong_values()
        if any(not okay for value, okay in self.averages):
            yield Problem(
                id="average-below-minimum",
                severity="error",
                cause="The average bus bandwidth is below 0.9 times NCCL_TESTS_MIN_BW.",
                cure="Compare the rows with those of an earlier run to see which sizes are slow.",
                evidence=f"Avg bus bandwidth: {self.averages[0][0]:g} FAILED",
            )
        if self.errors:
            yield Problem(
                id="errors-reported",
                severity="warning",
                cause="The program's summary reports an error of NCCL.",
                cure="Run it again with NCCL_DEBUG=WARN, which says more.",
                evidence=listing(self.errors)[:500],
            )

    def _missing_lines(self) -> t.Iterator[Problem]:
        if self.lost_rows:
            yield Problem(
                id="rows-lost",
                severity="warning",
                cause=f"Rows of the table that are torn and were left out: {self.lost_rows}.",
                cure="Keep NCCL's log out of the program's output: set NCCL_DEBUG_FILE, or NCCL_DEBUG to VERSION or WARN."
                " Where the output ends early, its last row is torn too.",
                evidence=self.lost_evidence,
            )
        if self.elided:
            yield Problem(
                id="rows-elided",
                severity="warning",
                cause="Somebody left rows out of the table and put dots in their place.",
                cure="Read the program's own output, not an excerpt of it.",
            )
        numbers = {rank["rank"] for rank in self.ranks}
        if numbers and len(numbers) != max(numbers) + 1:
            yield Problem(
                id="ranks-lost",
                severity="warning",
                cause=f"The list of ranks has gaps: {len(numbers)} are listed, the highest is {max(numbers)}.",
                cure="The counts of hosts and ranks are too low. Read the program's own output, not an excerpt.",
            )
        if not (self.bounds and self.averages if self.ended is None else self.ended):
            last = f"the last whole row is of {self.rows[-1]['size']} bytes" if self.rows else "there is no row"
            yield Problem(
                id="output-cut",
                severity="warning",
                cause="The output ends before the program's summary.",
                cure="Read the end of the output and the error output: the program was ended, or failed, before it was done.",
                evidence=f"{last}; {self.failure}" if self.failure else last,
            )
            return
        if self.averages:
            yield from self._average_differs()

    def _average_differs(self) -> t.Iterator[Problem]:
        busbw = [half["busbw"] for size, placement, half in self._halves()]
        mean = sum(busbw) / len(busbw) if busbw else 0.0
        printed = self.averages[0][0]
        if not _close(mean, printed, self.rounding / len(busbw) if busbw else 0.0):
            yield Problem(
                id="average-differs",
                severity="warning",
                cause="The printed average is not the mean of the rows, so rows are missing or altered.",
                cure="Read the program's own output, not an excerpt of it.",
                evidence=f"Avg bus bandwidth: {printed:g}; mean of {len(self.rows)} rows: {mean:g}",
            )

    def _wrong_values(self) -> t.Iterator[Problem]:
        found = [
            f"{half['wrong']} at size {size} {PLACEMENTS[placement]}"
            for size, placement, half in self._halves()
            if half["wrong"]
        ]
        if found or any(not okay for count, okay in self.bounds):
            yield Problem(
                id="wrong-values",
                severity="error",
                cause="The collective delivered wrong values.",
                cure="Run the test on each host alone, then on pairs, to find the machine or link that corrupts data; look for"
                " ECC and Xid errors of its GPUs.",
                evidence=listing(found) or f"Out of bounds values: {self.bounds[0][0]} FAILED",
            )
        if any(self.bitwise):
            yield Problem(
                id="bitwise-mismatch",
                severity="error",
                cause="The collective did not deliver the same bits each time.",
                cure="Floating point sums may depend on the algorithm that NCCL chose: set NCCL_ALGO and NCCL_PROTO. Otherwise look"
                " for the machine or link that corrupts data.",
                evidence=f"Bitwise mismatches: {sum(self.bitwise)}",
            )


def add_problems(document: t.Mapping[str, t.Any], problems: t.Iterable[Problem]) -> dict[str, t.Any]:
    """The document with the problems that it does not have yet, and the verdict that follows."""
    known = document["problems"]
    entries = [*known, *(entry for entry in (problem.as_dict() for problem in problems) if entry not in known)]
    if any(entry["severity"] == "error" for entry in entries):
        verdict = "fail"
    elif not document["complete"]:
        verdict = "incomplete"
    else:
        verdict = "pass" if document["summary"]["checked"] else "unchecked"
    return {**document, "problems": entries, "verdict": verdict}


def mpi_missing(what: str, evidence: str) -> Problem:
    """The finding that programs ran side by side instead of together."""
    return Problem(
        id="mpi-missing",
        severity="error",
        cause=f"The program was built without MPI, or with another MPI than mpirun's: {what}.",
        cure="Build nccl-tests with MPI=1 and MPI_HOME set to the Open MPI that mpirun is of.",
        evidence=evidence,
    )


def collective_of(program: str) -> str:
    """``all_reduce`` of ``/opt/all_reduce_perf``, ``all_reduce_perf_mpi`` and ``all_reduce_cpu``."""
    return re.sub(r"_(?:perf|cpu)(?:_\w+)?\Z", "", re.split(r"[/\\]", program)[-1])


def library_version(number: int | None) -> str | None:
    """``2.16.5`` of ``21605``; up to 2.8 the number had one digit less (``2804``)."""
    if not number:
        return None
    major = 10000 if number >= 10000 else 1000
    return f"{number // major}.{number % major // 100}.{number % 100}"


def listing(items: t.Iterable[str], most: int = 8) -> str:
    """A list in words, of a bounded length."""
    items = list(items)
    return ", ".join(items[:most]) + (f" and {len(items) - most} more" if len(items) > most else "")


def _is_telling(row: Row) -> bool:
    return all(row[placement] is None or row[placement]["algbw"] >= 0.1 for placement in PLACEMENTS)


def _close(mean: float, printed: float, rounding: float) -> bool:
    # The average is printed with six digits.
    return math.isclose(mean, printed, rel_tol=1e-4, abs_tol=max(0.006, 1.1 * rounding))


def _derived_collective(rows: t.Sequence[Row]) -> str | None:
    """``all_reduce`` where nothing names the collective but its bus bandwidth does, being 2(n-1)/n of algbw.

    That of every other collective is at most algbw; of 2 ranks that of all_reduce too.
    """
    halves = [row["out_of_place"] or row["in_place"] for row in rows]
    half = max(halves, key=lambda half: half["algbw"], default=None)
    if half is None or half["algbw"] < 1:
        return None
    return "all_reduce" if half["busbw"] > 1.1 * half["algbw"] else None
