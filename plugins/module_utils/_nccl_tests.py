# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The output of nccl-tests, and of the collection's own program that prints the same, as result documents.

Read is the table that nccl-tests prints since version 2.13. Sizes are in bytes, times in microseconds, bandwidths
in GB/s (10^9 bytes a second), as printed.
"""

from __future__ import annotations

import collections
import math
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._problem import Problem

RESULT_SCHEMA = "gpufabric.nccl/result/v1"
RESULTS_SCHEMA = "gpufabric.nccl/results/v1"

#: From best to worst.
VERDICTS = ("pass", "unchecked", "incomplete", "fail")

COLUMNS = ("size", "count", "type", "redop", "root", *("time", "algbw", "busbw", "#wrong") * 2)

#: The two halves of a row, as the document and as people call them.
PLACEMENTS = {"out_of_place": "out-of-place", "in_place": "in-place"}
_TYPES = (
    *("int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16"),
    *("fp8_e4m3", "fp8_e5m2", "f8e4m3", "f8e5m2"),
)

# Digits are bounded, because a torn log may hold any number of them and Python refuses to convert the longest.
_NUMBER = r"\d{1,19}(?:\.\d{0,19})?(?:e[+-]?\d{1,2})?"
_HALF = rf" ({_NUMBER}) ({_NUMBER}) ({_NUMBER}) ({_NUMBER}|N/A)"
_ROW = re.compile(rf"(\d{{1,19}}) (\d{{1,19}}) ([a-z]\w*) ([a-z]\w*) (-?\d{{1,9}}){_HALF}{_HALF}\Z")
_ROW_BEGIN = re.compile(rf"\d\s+\d+\s+(?:{'|'.join(_TYPES)})\b")
_TAG = re.compile(r"\[[\w.@-]+,\d+\]<std(?:out|err)>:")

# The lines of a test other than rows, in the order in which they are printed.
_LINES = {
    "version": re.compile(r"(nccl-tests|rccl-tests|gpufabric-cpu) version (\S+)(?:.* nccl-library=(\d{1,9}))?"),
    "starting": re.compile(r"Collective test starting: (?:\S*/)?(\S+)"),
    "banner": re.compile(r"nThread +\d+ +nGpus +\d+ .*"),
    "rank": re.compile(
        r"Rank +(\d{1,9})(?: +Group +(\d{1,9}))? +Pid +(\d{1,19}) +on +(\S+) +device +(\d{1,9}) +\[([^]]*)\] *(.*)"
    ),
    "header": re.compile(r"(?:size|bytes) .*\bbusbw\b.*"),
    "out_of_bounds": re.compile(r"Out of bounds values *: *(\d{1,19}) +(OK|FAILED)"),
    "average": re.compile(rf"Avg bus bandwidth *: *({_NUMBER})(?: +(OK|FAILED))? *\Z"),
}
_LIBRARY = re.compile(r"\b[NR]CCL version *:? *(\d\S*)")
_RCCL_TESTS = re.compile(r"rccl-tests: Version (\S+)")
_SETTING = re.compile(r"(nThread|nGpus|minBytes|maxBytes|step|warmup iters|agg iters|iters|validation|graph):? +(\S+)")
_CONFIG_KEYS = {
    "nThread": "nthreads",
    "nGpus": "ngpus",
    "minBytes": "minbytes",
    "maxBytes": "maxbytes",
    "step": "step",
    "warmup iters": "warmup_iters",
    "iters": "iters",
    "agg iters": "agg_iters",
    "validation": "validation",
    "graph": "graph",
}

_ORDER = {kind: index for index, kind in enumerate([*_LINES, "row"])}
_TABLE = _ORDER["header"]


def parse_results(lines: t.Iterable[str]) -> list[dict[str, t.Any]]:
    """The tests in a text as result documents, in their order.

    ``lines`` is read once and not kept. Raises GpufabricError where there is no test, or one in a layout that is not read.
    """
    tests: list[_Test] = []
    for line in lines:
        text = _clean(line)
        kind, match = _kind_of(text)
        if match is not None:
            if _begins_test(kind, match, tests):
                tests.append(_Test())
            if tests:
                tests[-1].read(kind, match)
        elif tests:
            tests[-1].read_other(text)
    if not tests:
        raise GpufabricError(
            "the text holds no output of nccl-tests: neither its first lines nor the header of its table were found"
        )
    documents = [test.document() for test in _join_separate_runs(tests)]
    return _with_lone_hosts(documents)


def parse_row(line: str) -> dict[str, t.Any] | None:
    """One row of the table; None for a line that is not a whole row."""
    match = _ROW.match(" ".join(_clean(line).split()))
    if match is None:
        return None
    size, count, kind, redop, root = match.groups()[:5]
    row: dict[str, t.Any] = {"size": int(size), "count": int(count), "type": kind, "redop": redop, "root": int(root)}
    for index, placement in enumerate(PLACEMENTS):
        time, algbw, busbw, wrong = match.groups()[5 + 4 * index : 9 + 4 * index]
        row[placement] = {
            "time_us": float(time),
            "algbw": float(algbw),
            "busbw": float(busbw),
            # N/A is a value that was not checked. A large number is printed rounded, as 1.31072e+08.
            "wrong": None if wrong == "N/A" else int(wrong) if wrong.isdigit() else int(float(wrong)),
        }
    return row


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


def overall_verdict(documents: t.Iterable[t.Mapping[str, t.Any]]) -> str:
    """The worst verdict of all; without any document nothing was measured, which is ``incomplete``."""
    return max((document["verdict"] for document in documents), key=VERDICTS.index, default="incomplete")


def results_object(documents: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """Several documents as the one object that is kept in a file."""
    return {"schema": RESULTS_SCHEMA, "verdict": overall_verdict(documents), "results": list(documents)}


def placement_problems(
    document: t.Mapping[str, t.Any], expected_hosts: int | t.Sequence[str], expected_ranks: int
) -> list[Problem]:
    """Whether the expected hosts and ranks took part, by what the output lists. Empty where they did.

    ``expected_hosts`` are their number, or their names as ``hostname`` prints them; a domain is ignored.
    """
    ranks = document["ranks"]
    separate_runs = [Problem(**entry) for entry in document["problems"] if entry["id"] == "mpi-missing"]
    if separate_runs:
        return separate_runs
    hosts = list(dict.fromkeys(_short(rank["host"]) for rank in ranks))
    listing = _listing(
        f"{count} on {host}" for host, count in collections.Counter(_short(r["host"]) for r in ranks).items()
    )
    evidence = f"ranks listed: {listing or 'none'}; expected: {expected_ranks}"
    if not ranks:
        return [
            Problem(
                id="ranks-unknown",
                severity="error",
                cause=f"The output lists no rank; {expected_ranks} were expected.",
                cure="Read the output and the error output of the run: it ended before the program listed its devices.",
                evidence=evidence,
            )
        ]
    if len(ranks) < expected_ranks and _process_count(ranks) == 1:
        return [
            _mpi_missing(f"one process with {len(ranks)} of {expected_ranks} ranks ran alone on {hosts[0]}", evidence)
        ]
    problems = []
    if len(ranks) != expected_ranks:
        problems.append(
            Problem(
                id="ranks-differ",
                severity="error",
                cause=f"{len(ranks)} ranks took part, {expected_ranks} were expected.",
                cure="Compare the slots of the hostfile and the number of processes with the program's options -t and -g.",
                evidence=evidence,
            )
        )
    names = None if isinstance(expected_hosts, int) else list(dict.fromkeys(_short(name) for name in expected_hosts))
    wanted = expected_hosts if isinstance(expected_hosts, int) else len(names or ())
    missing = [name for name in names or () if name not in hosts]
    unexpected = [name for name in hosts if names is not None and name not in names]
    if len(hosts) != wanted or missing or unexpected:
        if len(hosts) == 1 and wanted > 1:
            cause = f"All {len(ranks)} ranks ran on {hosts[0]}; {wanted} hosts were expected."
        else:
            cause = f"{len(hosts) - len(unexpected)} of {wanted} hosts took part."
        if missing:
            cause += f" Missing: {_listing(missing)}."
        if unexpected or len(hosts) > wanted:
            cause += f" Not expected: {_listing(unexpected or hosts)}."
        problems.append(
            Problem(
                id="hosts-differ",
                severity="error",
                host=missing[0] if len(missing) == 1 else None,
                cause=cause,
                cure="See that mpirun was given the hostfile, that each host is in it with its slots, and that no two have the"
                " same host name. The numbers are not those of the hosts that were meant.",
                evidence=evidence,
            )
        )
    return problems


class _Test:
    """What was read of one test."""

    def __init__(self) -> None:
        self.stage = 0
        self.tool: dict[str, str | None] = {"name": "nccl-tests", "version": None, "nccl_version": None}
        self.collective: str | None = None
        self.config: dict[str, t.Any] = dict.fromkeys(_CONFIG_KEYS.values())
        self.ranks: list[dict[str, t.Any]] = []
        self.rows: list[dict[str, t.Any]] = []
        self.has_header = False
        self.lost_rows = 0
        self.lost_evidence = ""
        self.bounds: list[tuple[int, bool]] = []
        self.averages: list[tuple[float, bool]] = []

    def read(self, kind: str, match: t.Any) -> None:
        """Take one line of the output."""
        # A row without a header above it may be anybody's line.
        if kind != "row" or self.has_header:
            self.stage = max(self.stage, _ORDER[kind])
        if kind == "version":
            name, self.tool["version"], library = match.groups()
            self.tool["name"] = "cpu" if name == "gpufabric-cpu" else name
            self.tool["nccl_version"] = _library_version(library)
        elif kind == "starting":
            self.collective = _collective(match.group(1))
        elif kind == "banner":
            self.config.update(_config(match.group(0)))
        elif kind == "rank":
            self.ranks.append(_rank(match))
        elif kind == "header":
            _check_columns(match.group(0).split())
            self.has_header = True
            self.lost_rows = 0
        elif kind == "out_of_bounds":
            self.bounds.append((int(match.group(1)), match.group(2) == "OK"))
        elif kind == "average":
            self.averages.append((float(match.group(1)), match.group(2) != "FAILED"))
        else:
            row = parse_row(match.string) if self.has_header else None
            if row is not None:
                self.rows.append(row)
            else:
                self.lost_rows += 1
                self.lost_evidence = self.lost_evidence or match.string[:200]

    def read_other(self, text: str) -> None:
        """Take a line that is not the benchmark's table: NCCL's own, or anybody's."""
        if self.tool["nccl_version"] is None and "CCL version" in text:
            match = _LIBRARY.search(text)
            self.tool["nccl_version"] = match.group(1) if match else None
        match = _RCCL_TESTS.match(text)
        if match:
            self.tool.update(name="rccl-tests", version=match.group(1))

    @property
    def runs(self) -> int:
        """How many programs printed this: each has one rank 0 and one summary."""
        return max(1, sum(rank["rank"] == 0 for rank in self.ranks), len(self.bounds))

    def document(self) -> dict[str, t.Any]:
        """The result document."""
        problems = self._problems()
        whole = not {"output-cut", "rows-lost", "average-differs", "mpi-missing"} & {problem.id for problem in problems}
        document = {
            "schema": RESULT_SCHEMA,
            "tool": self.tool,
            "collective": self.collective or _derived_collective(self.rows, len(self.ranks)),
            "complete": whole,
            "config": self.config,
            "ranks": self.ranks,
            "rows": self.rows,
            "summary": self._summary(),
            "points": {},
            "env": {},
            "host_count": len({rank["host"] for rank in self.ranks}),
            "rank_count": len(self.ranks),
            "problems": [],
            "verdict": "",
        }
        return add_problems(document, problems)

    def _summary(self) -> dict[str, t.Any]:
        halves = [(row[placement], row["size"]) for row in self.rows for placement in PLACEMENTS]
        wrong = [half["wrong"] for half, size in halves if half["wrong"] is not None]
        peak: tuple[float | None, int | None] = (None, None)
        # The bandwidths of separate runs are not those of the hosts together.
        if halves and self.runs == 1:
            peak = max((half["busbw"], size) for half, size in halves)
        return {
            "avg_busbw": self.averages[0][0] if self.averages and self.runs == 1 else None,
            "peak_busbw": peak[0],
            "peak_size": peak[1],
            "wrong": sum(wrong) if wrong else None,
            "checked": bool(wrong),
            "out_of_bounds": sum(count for count, okay in self.bounds) if self.bounds else None,
        }

    def _problems(self) -> list[Problem]:
        problems = []
        if self.runs > 1:
            hosts = _listing(dict.fromkeys(rank["host"] for rank in self.ranks)) or "unknown hosts"
            problems.append(
                _mpi_missing(
                    f"{self.runs} separate runs on {hosts}, their lines mixed",
                    f"rank 0 is listed {sum(rank['rank'] == 0 for rank in self.ranks)} times, the summary {len(self.bounds)} times",
                )
            )
        else:
            problems += self._missing_lines()
        problems += self._wrong_values()
        if any(not okay for value, okay in self.averages):
            problems.append(
                Problem(
                    id="average-below-minimum",
                    severity="error",
                    cause="The average bus bandwidth is below 0.9 times NCCL_TESTS_MIN_BW.",
                    cure="Compare the rows with those of an earlier run to see which sizes are slow.",
                    evidence=f"Avg bus bandwidth: {self.averages[0][0]:g} FAILED",
                )
            )
        return problems

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
        numbers = {rank["rank"] for rank in self.ranks}
        if numbers and len(numbers) != max(numbers) + 1:
            yield Problem(
                id="ranks-lost",
                severity="warning",
                cause=f"The list of ranks has gaps: {len(numbers)} are listed, the highest is {max(numbers)}.",
                cure="The counts of hosts and ranks are too low. Read the program's own output, not an excerpt.",
                evidence="",
            )
        if not self.bounds or not self.averages:
            last = f"the last whole row is of {self.rows[-1]['size']} bytes" if self.rows else "there is no row"
            yield Problem(
                id="output-cut",
                severity="warning",
                cause="The output ends before the program's summary.",
                cure="Read the end of the output and the error output: the program was ended, or failed, before it was done.",
                evidence=last,
            )
            return
        busbw = [row[placement]["busbw"] for row in self.rows for placement in PLACEMENTS]
        mean = sum(busbw) / len(busbw) if busbw else 0.0
        printed = self.averages[0][0]
        # Rows are printed with two decimals, the average with six digits.
        if not math.isclose(mean, printed, rel_tol=1e-4, abs_tol=0.006):
            yield Problem(
                id="average-differs",
                severity="warning",
                cause="The printed average is not the mean of the rows, so rows are missing or altered.",
                cure="Read the program's own output, not an excerpt of it.",
                evidence=f"Avg bus bandwidth: {printed:g}; mean of {len(self.rows)} rows: {mean:g}",
            )

    def _wrong_values(self) -> t.Iterator[Problem]:
        found = [
            f"{row[placement]['wrong']} at size {row['size']} {name}"
            for row in self.rows
            for placement, name in PLACEMENTS.items()
            if row[placement]["wrong"]
        ]
        if found or any(not okay for value, okay in self.bounds):
            yield Problem(
                id="wrong-values",
                severity="error",
                cause="The collective delivered wrong values.",
                cure="Run the test on each host alone, then on pairs, to find the machine or link that corrupts data; look for"
                " ECC and Xid errors of its GPUs.",
                evidence=_listing(found) or f"Out of bounds values: {self.bounds[0][0]} FAILED",
            )


def _clean(line: str) -> str:
    """A line without mpirun's tags and the leading ``#``."""
    return (_TAG.sub(" ", line) if "<std" in line else line).strip().lstrip("# \t")


def _kind_of(text: str) -> tuple[str, t.Any]:
    for kind, pattern in _LINES.items():
        match = pattern.match(text)
        if match:
            return kind, match
    return "row", _ROW_BEGIN.search(text)


def _begins_test(kind: str, match: t.Any, tests: t.Sequence[_Test]) -> bool:
    """Whether a line is the first of a test.

    Not where the same line was the last one: programs without MPI, started as one, print each line several times.
    """
    if _ORDER[kind] > _TABLE:
        return False
    if not tests:
        return True
    return tests[-1].stage > _ORDER[kind] and (kind != "rank" or match.group(1) == "0")


def _check_columns(columns: t.Sequence[str]) -> None:
    if tuple(columns) != COLUMNS:
        raise GpufabricError(
            f"the table has {len(columns)} columns ({' '.join(columns)[:300]});"
            f" this version reads the {len(COLUMNS)} of nccl-tests 2.13 and later ({' '.join(COLUMNS)})"
        )


def _collective(program: str) -> str:
    """``all_reduce`` of ``all_reduce_perf``, ``all_reduce_perf_mpi`` and ``all_reduce_cpu``."""
    return re.sub(r"_(?:perf|cpu)(?:_\w+)?\Z", "", program)


def _derived_collective(rows: t.Sequence[t.Mapping[str, t.Any]], rank_count: int) -> str | None:
    """``all_reduce`` where nothing names the collective but its bus bandwidth does, being 2(n-1)/n of algbw.

    That of every other collective is at most algbw; of 2 ranks all are alike.
    """
    half = max((row["out_of_place"] for row in rows), key=lambda half: half["algbw"], default=None)
    if half is None or rank_count < 3 or half["algbw"] < 1:
        return None
    return "all_reduce" if half["busbw"] > 1.1 * half["algbw"] else None


def _config(banner: str) -> dict[str, t.Any]:
    config: dict[str, t.Any] = {}
    for label, value in _SETTING.findall(banner):
        if label == "step":
            config["step"] = value
        elif re.match(r"-?\d{1,19}\Z", value):
            config[_CONFIG_KEYS[label]] = int(value)
    return config


def _rank(match: t.Any) -> dict[str, t.Any]:
    number, group, pid, host, device, bus_id, name = match.groups()
    return {
        "rank": int(number),
        "group": None if group is None else int(group),
        "pid": int(pid),
        "host": host,
        "device": int(device),
        "bus_id": bus_id,
        "name": name.strip(),
    }


def _library_version(number: str | None) -> str | None:
    """``2.16.5`` of ``21605``; up to 2.8 the number had one digit less (``2804``)."""
    if not number:
        return None
    value = int(number)
    major = 10000 if value >= 10000 else 1000
    return f"{value // major}.{value % major // 100}.{value % 100}"


def _process_count(ranks: t.Iterable[t.Mapping[str, t.Any]]) -> int:
    return len({(rank["host"], rank["pid"]) for rank in ranks})


def _join_separate_runs(tests: t.Sequence[_Test]) -> list[_Test]:
    """Put together what programs without MPI printed side by side: first lines of each, then the rows of all."""
    joined: list[_Test] = []
    for test in tests:
        before = joined[-1] if joined else None
        if (
            before is not None
            and before.stage <= _TABLE
            and _process_count(before.ranks) == 1
            and (before.collective, before.config) == (test.collective, test.config)
        ):
            test.ranks = before.ranks + test.ranks
            joined.pop()
        joined.append(test)
    return joined


def _with_lone_hosts(documents: list[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Warn where what looks like several tests may be one that was started without MPI and printed in turn."""
    alike: dict[str, list[int]] = {}
    for index, document in enumerate(documents):
        if _process_count(document["ranks"]) == 1:
            alike.setdefault(repr((document["collective"], document["config"])), []).append(index)
    documents = list(documents)
    for indexes in alike.values():
        hosts = list(dict.fromkeys(documents[index]["ranks"][0]["host"] for index in indexes))
        if len(hosts) < 2:
            continue
        problem = Problem(
            id="separate-runs",
            severity="warning",
            cause=f"{len(indexes)} tests with the same settings ran alone, each on one of {len(hosts)} hosts.",
            cure="If mpirun started them as one test, the program was built without MPI: build nccl-tests with MPI=1.",
            evidence=_listing(hosts),
        )
        for index in indexes:
            documents[index] = add_problems(documents[index], [problem])
    return documents


def _mpi_missing(what: str, evidence: str) -> Problem:
    return Problem(
        id="mpi-missing",
        severity="error",
        cause=f"The program was built without MPI, or with another MPI than mpirun's: {what}.",
        cure="Build nccl-tests with MPI=1 and MPI_HOME set to the Open MPI that mpirun is of.",
        evidence=evidence,
    )


def _short(host: str) -> str:
    """A host's name as nccl-tests prints it: without its domain."""
    return host.split(".")[0].lower()


def _listing(items: t.Iterable[str], most: int = 8) -> str:
    items = list(items)
    return ", ".join(items[:most]) + (f" and {len(items) - most} more" if len(items) > most else "")
