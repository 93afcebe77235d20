# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What the parsers read of one run of nccl-tests, and the result document made from it.

Sizes are in bytes, times in microseconds, bandwidths in GB/s (10^9 bytes a second).
"""

from __future__ import annotations

import collections
import dataclasses
import math
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem, ProblemDict, news
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.reader import Facts
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.result_catalogue import RESULT_CATALOGUE
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.bandwidth import (
    Steps,
    algorithm_bandwidth,
    bus_factor,
    times,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.complaints import Complaints
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.shapes import (
    Placement,
    ResultDocument,
    Soak,
    Summary,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.soak import find_soak, soak_problems
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.stragglers import EARLY_ENDS, find_stragglers
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import listing
from ansible_collections.gpufabric.nccl.plugins.module_utils._units import format_size

problem = RESULT_CATALOGUE.problem

RESULT_SCHEMA = "gpufabric.nccl/result/v1"

#: What one text may hold: runs print far less, and what floods a text would fill the memory. ``rows and ranks`` are the lines of the
#: summaries, too; ``values`` those of JSON.
MOST = {"tests": 10000, "rows and ranks": 1 << 19, "values": 1 << 22}

#: The two halves of a row, as the document and as people call them.
PLACEMENTS: dict[Placement, str] = {"out_of_place": "out-of-place", "in_place": "in-place"}

CONFIG = (
    *("nthreads", "ngpus", "minbytes", "maxbytes", "step", "warmup_iters", "iters", "agg_iters", "validation", "graph"),
    "blocking",
)

#: A row that is being read; in a document it is shapes.Row.
Row = t.Dict[str, t.Any]


@dataclasses.dataclass
class Test:
    """What the parsers read of one test; ``document`` judges it."""

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
    #: How exact the numbers of a half were printed, by the half's id.
    steps: dict[int, Steps] = dataclasses.field(default_factory=dict)
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
    #: The largest size in bytes that the program found room for; None if it had it for all.
    reduced_to: int | None = None
    bounds: list[tuple[int, bool]] = dataclasses.field(default_factory=list)
    #: Printed averages of busbw, None for one that is no number, each with whether it passed.
    averages: list[tuple[float | None, bool]] = dataclasses.field(default_factory=list)
    #: The mean time of each process in us, a list for each half of which the output has them.
    process_times: list[list[float]] = dataclasses.field(default_factory=list)
    bitwise: list[int] = dataclasses.field(default_factory=list)
    json_output: str | None = None
    failure: str = ""
    errors: list[str] = dataclasses.field(default_factory=list)
    complaints: Complaints = dataclasses.field(default_factory=Complaints)
    #: Formats without a summary say in another way that they are whole; None where the summary is to be there.
    ended: bool | None = None
    #: Of the rows and ranks that were looked at, so that each is looked at once.
    _known: set[str] = dataclasses.field(default_factory=set)
    _known_rows: int = 0
    _hosts: set[str] = dataclasses.field(default_factory=set)
    _first_ranks: int = 0
    _known_ranks: int = 0

    def has_row(self, row: Row) -> bool:
        """Whether there is such a row."""
        self._known.update(map(repr, self.rows[self._known_rows :]))
        self._known_rows = len(self.rows)
        return repr(row) in self._known

    def hosts(self) -> t.AbstractSet[str]:
        """The hosts of the listed ranks."""
        self._look_at_ranks()
        return self._hosts

    def _look_at_ranks(self) -> None:
        for rank in self.ranks[self._known_ranks :]:
            self._hosts.add(rank["host"])
            self._first_ranks += rank["rank"] == 0
        self._known_ranks = len(self.ranks)

    def lose(self, evidence: str) -> None:
        """Count a torn row whose parts cannot be joined."""
        self.lost_rows += 1
        self.lost_evidence = self.lost_evidence or evidence.strip()[:200]

    def note_steps(self, row: Row, steps: t.Mapping[str, Steps | None]) -> None:
        """Keep how exact the numbers of a row were printed, for ``document``; ``steps`` by placement."""
        for placement, step in steps.items():
            if step is not None and row[placement] is not None:
                self.steps[id(row[placement])] = step

    @property
    def runs(self) -> int:
        """The number of programs that printed the text: each has one rank 0 and one summary."""
        self._look_at_ranks()
        return max(1, self._first_ranks, len(self.bounds))

    def document(self, facts: Facts | None) -> ResultDocument:
        """The result document. ``facts``: of the run, which name the hosts that NCCL warned of; None: without its warnings."""
        self._settle_headless_rows()
        self._settle_joined_rows()
        self._settle_half_rows()
        self._settle_errors()
        self.collective = self.collective or _derived_collective(self.rows)
        self._settle_bandwidths()
        problems = list(self._problems())
        soak = find_soak(self.rows) if self.runs == 1 else None
        problems += soak_problems(soak, self.rows)
        not_whole = {"output-cut", "rows-lost", "rows-elided", "average-differs", "mpi-missing"}
        document: dict[str, t.Any] = {
            "schema": RESULT_SCHEMA,
            "tool": self.tool,
            "collective": self.collective,
            "complete": not not_whole & {item.id for item in problems},
            "config": self.config,
            "ranks": self.ranks,
            "rows": self.rows,
            "lost_rows": self.lost_rows,
            "summary": self._summary(soak),
            "json_output": self.json_output,
            "points": {},
            "env": self.env,
            "host_count": len({rank["host"] for rank in self.ranks}),
            "rank_count": len(self.ranks),
            "transport": None,
            "software": None,
            "hardware": None,
            "stragglers": None if self.collective in EARLY_ENDS else find_stragglers(self.process_times, self.ranks),
            "soak": soak,
            "problems": [],
            "verdict": "",
        }
        problems += self.complaints.problems(facts, {rank["host"] for rank in self.ranks}) if facts else []
        return add_problems(t.cast(ResultDocument, document), problems)

    def _settle_headless_rows(self) -> None:
        """Keep rows without a header only if the numbers of one of them fit no other columns."""
        if self.headless and (self.doubtful or not any(_is_proof(half) for _size, _place, half in self._halves())):
            for row in self.rows:
                self.lose(f"size {row['size']}: the header of the table is missing")
            self.rows, self.joined = [], []

    def _settle_joined_rows(self) -> None:
        """Drop joined rows if several programs printed: the end may belong to another program's row."""
        mixed = self.runs > 1 or self.orphans > 0
        # A low bandwidth does not prove the row, so nothing else may be wrong.
        doubtful = [row for row in self.joined if mixed or (self.lost_rows and not _has_bandwidth(row))]
        known = {id(row) for row in doubtful}
        self.rows = [row for row in self.rows if id(row) not in known]
        for row in doubtful:
            self.lose(f"size {row['size']}: put together of lines of several programs")
        self.joined = []

    def _settle_half_rows(self) -> None:
        """Keep rows without the in-place half if all rows are such and the printed average is theirs; else they are cut."""
        if not self.half_rows:
            return
        mean = _mean([row["out_of_place"]["busbw"] for row in self.half_rows])
        # Without a header it may be the other half.
        printed = self.averages[0][0] if self.averages and not self.rows and not self.headless else None
        if printed is not None and mean is not None and _close(mean, printed, 0.005):
            self.rows = self.half_rows
            self.rounding = 0.005 * len(self.rows)
        else:
            for row in self.half_rows:
                self.lose(f"size {row['size']}: the in-place half is missing")
        self.half_rows = []

    def _settle_errors(self) -> None:
        """Old versions print the greatest difference instead of the number of wrong values; their summary says if there are none."""
        for _size, _placement, half in self._halves():
            error = half.get("error")
            if error == 0 or (error is not None and self.bounds and all(okay for count, okay in self.bounds)):
                half["wrong"] = 0

    def _settle_bandwidths(self) -> None:
        """Replace bandwidths by those worked out from the times, where these are more exact.

        Where a printed one differs by more than rounding, it stays, and the other is beside it in ``computed``.
        """
        if self.runs > 1:
            return
        ranks = self._ranks_of_a_group()
        factor = None if ranks is None else bus_factor(self.collective, ranks)
        for size, _placement, half in self._halves():
            steps = self.steps.get(id(half))
            if steps is None or half["time_us"] is None:
                continue
            worked_out = algorithm_bandwidth(self.collective, size, ranks, half["time_us"], steps.time_us)
            if worked_out is None:
                continue
            both = {"algbw": worked_out, "busbw": None if factor is None else times(worked_out, factor)}
            for name, value in both.items():
                printed, step = half[name], getattr(steps, name)
                if value is None or printed is None:
                    continue
                if value.is_printed(printed, step):
                    half[name] = value.refined(printed, step)
                # Before 2.13, which printed "error", some collectives had other formulas.
                elif factor is not None and "error" not in half:
                    half.setdefault("computed", {})[name] = value.value

    def _ranks_of_a_group(self) -> int | None:
        """How many ranks took part in a collective; None if the list of ranks has gaps, or groups of several sizes."""
        numbers = {rank["rank"] for rank in self.ranks}
        if not numbers or len(numbers) != max(numbers) + 1:
            return None
        sizes = set(collections.Counter(rank["group"] for rank in self.ranks).values())
        return sizes.pop() if len(sizes) == 1 else None

    def mean_busbw(self) -> float | None:
        """The mean bus bandwidth of all halves, in GB/s; None if one is no number, or there is none."""
        return _mean([half["busbw"] for _size, _placement, half in self._halves()])

    def _halves(self) -> t.Iterator[tuple[int, Placement, dict[str, t.Any]]]:
        for row in self.rows:
            for placement in PLACEMENTS:
                if row[placement] is not None:
                    yield row["size"], placement, row[placement]

    def _summary(self, soak: Soak | None) -> Summary:
        halves = list(self._halves())
        wrong = [half["wrong"] for size, placement, half in halves if half["wrong"] is not None]
        peak: tuple[float | None, int | None] = (None, None)
        # The bandwidths of separate runs are not those of the hosts together.
        known = [(half["busbw"], size) for size, placement, half in halves if half["busbw"] is not None]
        if soak:
            # The best cycle says nothing of the others.
            known = [(entry["median"], entry["size"]) for entry in soak["sizes"]]
        if known and self.runs == 1:
            peak = max(known)
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
            evidence = f"rank 0 is listed {rank_0} times, the summary {len(self.bounds)} times"
            yield problem("mpi-missing", evidence=evidence, runs=self.runs, hosts=hosts)
        else:
            yield from self._missing_lines()
        yield from self._wrong_values()
        if self._measured_nothing():
            yield self._nothing_measured()
        else:
            yield from self._doubtful_numbers()
            yield from self._sizes_reduced()
        failed = [value for value, okay in self.averages if not okay]
        if failed:
            printed = "no number" if failed[0] is None else f"{failed[0]:g}"
            yield problem("average-below-minimum", evidence=f"Avg bus bandwidth: {printed} FAILED")
        if self.errors:
            yield problem("errors-reported", evidence=listing(self.errors)[:500])

    def _missing_lines(self) -> t.Iterator[Problem]:
        if self.lost_rows:
            yield problem("rows-lost", evidence=self.lost_evidence, count=self.lost_rows)
        if self.elided:
            yield problem("rows-elided")
        numbers = {rank["rank"] for rank in self.ranks}
        if numbers and len(numbers) != max(numbers) + 1:
            yield problem("ranks-lost", count=len(numbers), highest=max(numbers))
        if not (self.bounds and self.averages if self.ended is None else self.ended):
            last = f"the last whole row is of {self.rows[-1]['size']} bytes" if self.rows else "there is no row"
            yield problem("output-cut", evidence=f"{last}; {self.failure}" if self.failure else last)
            return
        if self.averages:
            yield from self._average_differs()

    def _average_differs(self) -> t.Iterator[Problem]:
        count = sum(1 for _half in self._halves())
        mean = self.mean_busbw() if count else 0.0
        printed = self.averages[0][0]
        if mean is not None and printed is not None and not _close(mean, printed, self.rounding / max(1, count)):
            evidence = f"Avg bus bandwidth: {printed:g}; mean of {len(self.rows)} rows: {mean:g}"
            yield problem("average-differs", evidence=evidence)

    def _measured_nothing(self) -> bool:
        """Whether the program ended well without a row: its average is 0 / 0 then. Another average is of rows that somebody left out."""
        has_summary = bool(self.bounds and self.averages)
        return (
            (has_summary if self.ended is None else self.ended)
            and not (self.rows or self.lost_rows or self.elided)
            and not any(value for value, _okay in self.averages)
        )

    def _nothing_measured(self) -> Problem:
        least = self.config["minbytes"]
        room = self.reduced_to
        return problem(
            "nothing-measured",
            evidence="" if room is None else f"Reducing maxBytes to {room} due to memory limitation",
            wanted=None if room is None or least is None else format_size(least),
            room=None if room is None else format_size(room),
        )

    def _sizes_reduced(self) -> t.Iterator[Problem]:
        """The table says it; -J does not, but has fewer sizes than its configuration."""
        tests = collections.Counter((row["type"], row["redop"], row["root"]) for row in self.rows)
        wanted = _count_of_sizes(self.config)
        if self.reduced_to is not None:
            evidence = f"Reducing maxBytes to {self.reduced_to} due to memory limitation"
        elif self.ended and not self.lost_rows and wanted is not None and tests and max(tests.values()) < wanted:
            evidence = f"{max(tests.values())} of {wanted} sizes"
        else:
            return
        largest, most = max((row["size"] for row in self.rows), default=None), self.config["maxbytes"]
        yield problem(
            "sizes-reduced",
            evidence=evidence,
            wanted=None if most is None else format_size(most),
            largest=None if largest is None else format_size(largest),
        )

    def _doubtful_numbers(self) -> t.Iterator[Problem]:
        """Cells that are no numbers, and bandwidths that are not those of their times."""
        told = [(size, PLACEMENTS[placement], half) for size, placement, half in self._halves()]
        found = [
            f"{name} {cell} at size {size} {placement}"
            for size, placement, half in told
            for name, cell in half.get("no_numbers", {}).items()
        ]
        if not found and any(value is None for value, _okay in self.averages):
            found = ["the average bus bandwidth"]
        if found:
            yield problem("no-number", evidence=listing(found))
        differ = [
            f"{name} {half[name]:g} at size {size} {placement}, worked out {value:g}"
            for size, placement, half in told
            for name, value in half.get("computed", {}).items()
        ]
        if differ:
            yield problem("bandwidth-differs", evidence=listing(differ))

    def _wrong_values(self) -> t.Iterator[Problem]:
        found = [
            f"{half['wrong']} at size {size} {PLACEMENTS[placement]}"
            for size, placement, half in self._halves()
            if half["wrong"]
        ]
        if found or any(not okay for count, okay in self.bounds):
            evidence = listing(found) or f"Out of bounds values: {self.bounds[0][0]} FAILED"
            yield problem("wrong-values", evidence=evidence)
        if any(self.bitwise):
            yield problem("bitwise-mismatch", evidence=f"Bitwise mismatches: {sum(self.bitwise)}")


def check_amount(name: str, count: int) -> None:
    """Raise GpufabricError if a text has more of something, by its name in MOST, than it may have."""
    if count > MOST[name]:
        raise GpufabricError(f"the text has more than {MOST[name]} {name}; split it")


def add_problems(document: ResultDocument, problems: t.Iterable[Problem]) -> ResultDocument:
    """The document with the problems that it does not have yet, less those that follow from them, and the verdict of all."""
    added = [item.as_dict() for item in problems]
    causes = {(entry["id"], entry["host"]) for entry in added}
    known = [entry for entry in document["problems"] if not _follows(entry, causes)]
    entries = [*known, *news(added, known)]
    if any(entry["severity"] == "error" for entry in entries):
        verdict = "fail"
    elif not document["complete"]:
        verdict = "incomplete"
    else:
        verdict = "pass" if document["summary"]["checked"] else "unchecked"
    return {**document, "problems": entries, "verdict": verdict}


def rows_with_data(document: ResultDocument) -> list[t.Mapping[str, t.Any]]:
    """The rows of a document that measured something.

    With many ranks, small sizes are rounded down to 0 bytes, for which NCCL returns at once: their time is that of the call alone.
    """
    return [row for row in document["rows"] if row["size"]]


def _follows(entry: ProblemDict, causes: t.Collection[tuple[str, str | None]]) -> bool:
    """Whether a problem of a document may be a consequence of one of the ``causes`` (id, host)."""
    return entry["id"] in RESULT_CATALOGUE.entries and any(
        (cause, entry["host"]) in causes for cause in RESULT_CATALOGUE.entries[entry["id"]].follows
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


def _count_of_sizes(config: t.Mapping[str, t.Any]) -> int | None:
    """How many sizes the program was to measure; None where its settings are not known."""
    least, most = config["minbytes"], config["maxbytes"]
    match = re.match(r"(\d{1,19})\((factor|bytes)\)\Z", config["step"] or "")
    step = int(match.group(1)) if match else 0
    if not match or not least or least < 0 or most is None or least > most:
        return None
    if step < (2 if match.group(2) == "factor" else 1):
        return None
    if match.group(2) == "bytes":
        return (most - least) // step + 1
    count = 0
    while least <= most:
        least, count = least * step, count + 1
    return count


def _has_bandwidth(row: Row) -> bool:
    """Whether the bandwidths of a row have enough digits to prove that its parts belong together."""
    return all(row[placement] is None or _is_proof(row[placement]) for placement in PLACEMENTS)


def _is_proof(half: t.Mapping[str, t.Any]) -> bool:
    return half["algbw"] is not None and half["algbw"] >= 0.1


def _mean(values: t.Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _close(mean: float, printed: float, rounding: float) -> bool:
    # The average is printed with six digits.
    return math.isclose(mean, printed, rel_tol=1e-4, abs_tol=max(0.006, 1.1 * rounding))


def _derived_collective(rows: t.Sequence[Row]) -> str | None:
    """``all_reduce`` if the bus bandwidth shows it; None otherwise.

    With more than 2 ranks, the bus bandwidth of all_reduce, 2(n-1)/n of algbw, is larger than algbw; that of no other
    collective is.
    """
    halves = [row["out_of_place"] or row["in_place"] for row in rows]
    known = [half for half in halves if half["algbw"] is not None and half["busbw"] is not None]
    half = max(known, key=lambda half: half["algbw"], default=None)
    if half is None or half["algbw"] < 1:
        return None
    return "all_reduce" if half["busbw"] > 1.1 * half["algbw"] else None
