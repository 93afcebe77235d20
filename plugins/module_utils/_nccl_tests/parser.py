# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Result documents from the output of nccl-tests, rccl-tests, and the collection's own program, which prints the same.

Read is the text of every version since 2018 and the JSON of ``-J`` and ``-Z json``, out of logs that hold much else. Nothing is
made up: a row that is not all there is counted in ``lost_rows``, and the document is not complete then. Sizes are in bytes, times
in microseconds, bandwidths in GB/s (10^9 bytes a second), as printed.
"""

from __future__ import annotations

import codecs
import io
import itertools
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.reader import COMPLAINT, Facts
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.result_catalogue import RESULT_CATALOGUE
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import Beginning, open_file
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.document import (
    PLACEMENTS,
    RESULT_SCHEMA,
    Test,
    add_problems,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.json_output import (
    foreign_name,
    is_document,
    read_json,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.lines import (
    BLOCK,
    Lines,
    TestLogs,
    is_candidate,
    lines_of,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.logged import with_log
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.placement import process_count
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.shapes import ResultDocument
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.text_output import TABLE, TextReader, row_in
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import listing

__all__ = [
    "PLACEMENTS",
    "RESULTS_SCHEMA",
    "RESULT_SCHEMA",
    "GrowingOutput",
    "add_problems",
    "overall_verdict",
    "parse_file",
    "parse_results",
    "results_object",
]

RESULTS_SCHEMA = "gpufabric.nccl/results/v1"

#: Of a text that somebody kept, of which no more is known.
_NO_FACTS = Facts()

#: Characters of a row, with all that stands before it.
_LONGEST_ROW = 1 << 10

#: From best to worst.
VERDICTS = ("pass", "unchecked", "incomplete", "fail")

#: What programs print that measure something alike. Their numbers are not comparable, so they are refused by their names.
_OTHER_PROGRAMS = {
    "the OSU micro-benchmarks": re.compile(r"# OSU \S"),
    "the Intel MPI benchmarks": re.compile(r"Intel\(R\) MPI Benchmarks|#bytes +#repetitions +t"),
    "perftest (ib_write_bw and the like)": re.compile(r"#bytes +#iterations"),
    "nccom-test of AWS Neuron": re.compile(r"size\(B\)\s+count\(elems\)"),
    "hccl_test of Ascend": re.compile(r"data_size\(Bytes\)|alg_bandwidth\(GB/s\)"),
    "the communication benchmark of DeepSpeed": re.compile(r"Throughput \(Gbps\)\s+BusBW"),
    "the PARAM benchmarks": re.compile(r"COMMS-RES"),
    "nvbandwidth": re.compile(r"nvbandwidth Version"),
    "p2pBandwidthLatencyTest": re.compile(r"P2P \(Peer-to-Peer\) GPU Bandwidth Latency Test"),
    "ucx_perftest": re.compile(r"\| +overhead \(usec\)|\[thread 0\]"),
    "fi_pingpong or fabtests": re.compile(r"bytes +#sent +#ack"),
    "iperf3": re.compile(r"Connecting to host \S+, port \d"),
    "nccl-tests' device API latency test": re.compile(r"GIN .{0,20}[Ll]atency"),
}
#: No word of theirs is in most lines, and the search for it costs little.
_HINT = re.compile(
    r"OSU|Intel\(R\)|#bytes|size\(B|data_size|Throughput|COMMS-RES|nvbandwidth|P2P \(|overhead|thread 0|#sent|Connecting|GIN "
)


class _Input:
    """Reads the lines of a text. If it is not output of nccl-tests, ``other`` is the program that printed it."""

    def __init__(self) -> None:
        self.reader = TextReader()
        self.log = TestLogs()
        self.other: str | None = None

    def read(self, line: str, whole: bool = True) -> None:
        """Take one line."""
        if not self.reader.tests and self.other is None and _HINT.search(line):
            self.other = next(
                (f"the output of {name}" for name, mark in _OTHER_PROGRAMS.items() if mark.search(line)), None
            )
        if not self.reader.tests and self.other is None and line.lstrip().startswith("{"):
            self.other = foreign_name(line)
        self.reader.read(line, whole)

    def documents(self, facts: Facts | None) -> list[ResultDocument]:
        """The documents of all tests. Raises GpufabricError if there is no test."""
        tests = self.reader.finish()
        if self.reader.unknown and not any(test.rows for test in tests):
            columns = self.reader.unknown[0]
            raise GpufabricError(
                f"the table has {len(columns.split())} columns ({columns[:300]}), which are not those of any nccl-tests"
                + (f"; it looks like {self.other}" if self.other else "")
            )
        return _documents(tests, self.other, facts, self.log)


class GrowingOutput:
    """Reads the output of a program that still runs. JSON is left to ``parse_file``, which reads it when it is complete."""

    def __init__(self) -> None:
        self._input = _Input()
        self._lines = Lines(self._input.log)
        self._shown = (0, 0)
        #: Why it cannot be read. It is told at the end: the program goes on, and others follow it.
        self._error: GpufabricError | None = None

    def feed(self, block: bytes) -> None:
        """Take what was printed since the last time."""
        if self._error is not None:
            return
        try:
            for line in self._lines.feed(block):
                self._input.read(line)
        except GpufabricError as error:
            self._error = error

    def complain(self, line: str) -> None:
        """Take a warning of NCCL that the program printed elsewhere."""
        if COMPLAINT in line:
            self._input.reader.complain(line)

    def new_rows(self) -> list[dict[str, t.Any]]:
        """The rows of tables that have come since the last time."""
        tests = self._input.reader.tests
        rows = []
        index, count = self._shown
        while index < len(tests):
            rows += tests[index].rows[count:]
            self._shown = (index, len(tests[index].rows))
            index, count = index + 1, 0
        return rows

    def documents(self, facts: Facts | None) -> list[ResultDocument]:
        """The documents of all tests, after the program has ended. Raises GpufabricError if there is no test.

        ``facts``: as of ``parse_results``.
        """
        if self._error is not None:
            raise self._error
        rest = self._lines.rest()
        if rest:
            self._input.read(rest, False)
        return self._input.documents(facts)


def parse_results(lines: t.Iterable[str], facts: Facts | None = _NO_FACTS) -> list[ResultDocument]:
    """The tests in a text as result documents, in their order.

    ``lines`` is read once and not kept, and may be the lines of a JSON file. ``facts``: of the run, which name the hosts of NCCL's
    warnings; None if the run failed: diagnose() reads them then, and knows causes from consequences. Raises GpufabricError if there
    is no test.
    """
    lines = iter(lines)
    head = ""
    for head in lines:
        head = head.lstrip("\ufeff")
        if head.strip():
            break
    if is_document(head) or head.strip() in ("{", "[", "[{"):
        # The first line of a formatted file proves nothing.
        first = [head, *(line for _number, line in zip(range(4), lines))]
        if is_document("".join(first)):
            return _documents(_json_tests(itertools.chain(first, lines)), None, facts)
        lines = itertools.chain(first, lines)
    else:
        lines = itertools.chain([head], lines)
    text = _Input()
    before: str | None = None
    terminated = False
    logged: list[str] = []
    for line in lines:
        if "CCL " in line or " nGpus " in line:
            logged.append(line.rstrip("\r\n"))
            if len(logged) == 1000:
                text.log.feed(logged)
                logged = []
        if before is not None:
            text.read(before)
        terminated = terminated or line.endswith("\n")
        before = line if is_candidate(line) else None
    text.log.feed(logged)
    if before is not None:
        text.read(before, before.endswith("\n") or not terminated)
    return text.documents(facts)


def parse_file(path: str, facts: Facts | None = _NO_FACTS, size: int | None = None) -> list[ResultDocument]:
    """The same of a file, which is read in blocks and never held as a whole. ``size``: of its first so many bytes.

    Raises OSError too.
    """
    with open_file(path) as whole:
        head = whole.read(4096)
        whole.seek(0)
        file: t.BinaryIO = whole if size is None else io.BufferedReader(Beginning(whole, size))
        encoding = "utf-16" if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
        if encoding == "utf-16":
            # What PowerShell writes.
            return parse_results(codecs.getreader(encoding)(file, "replace"), facts)
        if is_document(head.decode(encoding, errors="replace")):
            return _documents(_json_tests(_decoded(file)), None, facts)
        text = _Input()
        for line, ended in lines_of(file, text.log):
            text.read(line, ended)
        return text.documents(facts)


def overall_verdict(documents: t.Iterable[ResultDocument]) -> str:
    """The worst verdict of all documents; ``incomplete`` if there is no document."""
    return max((document["verdict"] for document in documents), key=VERDICTS.index, default="incomplete")


def results_object(documents: t.Sequence[ResultDocument]) -> dict[str, t.Any]:
    """Several documents as one object for a file."""
    return {"schema": RESULTS_SCHEMA, "verdict": overall_verdict(documents), "results": list(documents)}


def _documents(
    tests: t.Sequence[Test], other: str | None, facts: Facts | None, log: TestLogs | None = None
) -> list[ResultDocument]:
    if not tests:
        if other:
            raise GpufabricError(f"the text holds no output of nccl-tests, but {other}")
        raise GpufabricError(
            "the text holds no output of nccl-tests: neither its first lines nor the header of its table were found"
        )
    documents = [test.document(facts) for test in _join_separate_runs(tests)]
    logged = log.facts(len(documents)) if log else [{} for _document in documents]
    return _with_lone_hosts([with_log(*both) for both in zip(documents, logged)])


def _json_tests(chunks: t.Iterable[str]) -> list[Test]:
    """The tests of JSON. Rows of a table beside it are another test, which is not read: anybody may have printed the JSON before it."""
    rows: list[str] = []
    tests = read_json(_watched(chunks, rows))
    if rows:
        tests.append(Test())
        tests[-1].lose(rows[0])
    return tests


def _watched(chunks: t.Iterable[str], rows: list[str]) -> t.Iterator[str]:
    """The same text; ``rows`` gets the first row of a table that is in it."""
    line = ""
    for chunk in chunks:
        text = line + chunk
        row = None if rows else row_in(text)
        rows += [] if row is None else [row]
        line = text.rpartition("\n")[2][-_LONGEST_ROW:]
        yield chunk


def _decoded(file: t.IO[bytes]) -> t.Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
    while True:
        block = file.read(BLOCK)
        yield decoder.decode(block, final=not block)
        if not block:
            return


def _join_separate_runs(tests: t.Sequence[Test]) -> list[Test]:
    """Join the tests of programs without MPI that printed side by side: their first lines, then the rows of all."""
    joined: list[Test] = []
    # Whether the last one that was read is of one process.
    is_alone = False
    for test in tests:
        before = joined[-1] if joined else None
        was_alone, is_alone = is_alone, process_count(test.ranks) == 1
        if (
            before is not None
            and before.stage <= TABLE
            and was_alone
            and (before.collective, before.config) == (test.collective, test.config)
        ):
            before.ranks.extend(test.ranks)
            test.ranks = before.ranks
            before.complaints.follow(test.complaints)
            test.complaints = before.complaints
            joined.pop()
        joined.append(test)
    return joined


def _with_lone_hosts(documents: list[ResultDocument]) -> list[ResultDocument]:
    """Warn if several tests may be one test that ran without MPI and printed in turn."""
    alike: dict[str, list[int]] = {}
    for index, document in enumerate(documents):
        if process_count(document["ranks"]) == 1:
            alike.setdefault(repr((document["collective"], document["config"])), []).append(index)
    documents = list(documents)
    for indexes in alike.values():
        hosts = list(dict.fromkeys(documents[index]["ranks"][0]["host"] for index in indexes))
        if len(hosts) < 2:
            continue
        evidence = listing(hosts)
        separate = RESULT_CATALOGUE.problem("separate-runs", evidence=evidence, count=len(indexes), hosts=len(hosts))
        for index in indexes:
            documents[index] = add_problems(documents[index], [separate])
    return documents
