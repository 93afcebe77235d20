# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The few lines of a long text that can be the output of nccl-tests.

Most of a long log is NCCL's own (``NCCL_DEBUG``). A search for its mark rules those lines out, without a regular expression, in
blocks. Memory is constant: one block, and never more than ``LONGEST`` of one line.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.reader import LogReader, add_facts
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.shapes import FleetFacts

#: Bytes that are read at once: what fits in the processor's cache.
BLOCK = 1 << 15
#: Characters of a line that are kept. Nothing of interest is longer, but what is no text may have no line ends at all.
LONGEST = 1 << 20
#: Of these, those that are the last of it.
_END = 1 << 12

_OF_NCCL = "] NCCL "
_ANY_OF_NCCL = "CCL "
#: In the first line of a test that all versions print.
_BANNER = " nGpus "
#: Tests whose logs are told from one another.
_MOST_TESTS = 1000
_BLANKS = "    "
#: What the values of a row may be.
TYPES = r"(?:u?int(?:8|32|64)?|char|half|float|double|bfloat16|fp8_e\dm\d|f8e\dm\d)"
#: The ends of these. A search for each is faster than one by an expression.
_ENDS_OF_TYPES = (
    " int ",
    " uint ",
    "int8 ",
    "int32 ",
    "int64 ",
    "char ",
    "half ",
    "float ",
    "float16 ",
    "double ",
    "fp8_",
    "f8e",
)
#: How the two lines of a summary begin, by kind.
SUMMARY = {"out_of_bounds": "Out of bounds values", "average": "Avg bus bandwidth"}
_ROW_BEGIN = re.compile(rf"\s\d{{1,19}}\s+\d{{1,19}}\s+{TYPES}\s")


class Lines:
    """The lines that are worth a look, of a text that comes in blocks: of a file, or of one that still grows."""

    def __init__(self, log: TestLogs | None = None) -> None:
        self._carry = ""
        self._log = log

    def feed(self, block: bytes) -> t.Iterator[str]:
        """The lines that have ended in a block."""
        # Each byte is one character for now: strings are searched much faster than bytes.
        text = self._carry + block.decode("latin-1")
        *lines, carry = text.split("\n")
        # Its end, since a row may be there.
        self._carry = carry if len(carry) <= LONGEST else carry[: LONGEST - _END] + carry[-_END:]
        if self._log is not None and (_ANY_OF_NCCL in text or _BANNER in text):
            self._log.feed(lines)
        if (
            "CCL version" in text
            or _has_piece(text)
            or any(word in text for word in (*_ENDS_OF_TYPES, *SUMMARY.values()))
        ):
            found = [line for line in lines if is_candidate(line)]
        else:
            found = [line for line in lines if _OF_NCCL not in line]
        for line in found:
            yield _decoded(line)

    def rest(self) -> str:
        """What follows the last line end."""
        return _decoded(self._carry)


class TestLogs:
    """What NCCL logged in a text, by the tests that are in it."""

    def __init__(self) -> None:
        self._readers = [LogReader()]
        self._begun = False

    def feed(self, lines: t.Sequence[str]) -> None:
        """Take some lines."""
        begin = 0
        for index, line in enumerate(lines):
            if _BANNER in line:
                # What comes before the first banner is of the first test.
                if self._begun and len(self._readers) < _MOST_TESTS:
                    self._readers[-1].feed(lines[begin:index])
                    self._readers.append(LogReader())
                    begin = index
                self._begun = True
        self._readers[-1].feed(lines[begin:] if begin else lines)

    def facts(self, count: int) -> list[FleetFacts]:
        """The facts of each of ``count`` tests; none of any if it cannot be told which lines are whose."""
        found = [reader.facts for reader in self._readers]
        if count == 1:
            total: FleetFacts = {}
            for facts in found:
                add_facts(total, facts)
            return [total]
        return found if len(found) == count else [{} for _number in range(count)]


def lines_of(file: t.IO[bytes], log: TestLogs | None = None) -> t.Iterator[tuple[str, bool]]:
    """The lines of a file that are worth a look, each with whether its end is there; ``log`` takes those of NCCL."""
    lines = Lines(log)
    while True:
        block = file.read(BLOCK)
        if not block:
            break
        for line in lines.feed(block):
            yield line, True
    if lines.rest():
        yield lines.rest(), False


def is_candidate(line: str) -> bool:
    """Whether a line may hold a piece of the output.

    In NCCL's own lines that is its version, a piece of a row before them, whose columns are many blanks apart, or a row or a summary
    behind one that was not printed to its end.
    """
    before, mark, own = line.partition(_OF_NCCL)
    if not mark or _BLANKS in before or "CCL version" in line:
        return True
    return any(word in own for word in SUMMARY.values()) or _ROW_BEGIN.search(own) is not None


def _has_piece(text: str) -> bool:
    """Whether there may be a piece of a row before one of NCCL's own lines."""
    blanks = text.find(_BLANKS)
    while blanks >= 0:
        end = text.find("\n", blanks)
        if text.find(_OF_NCCL, blanks, end if end >= 0 else len(text)) >= 0:
            return True
        blanks = text.find(_BLANKS, end) if end >= 0 else -1
    return False


def _decoded(line: str) -> str:
    return line.encode("latin-1").decode("utf-8", errors="replace")
