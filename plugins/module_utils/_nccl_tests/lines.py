# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The few lines of a long text that can be the output of nccl-tests.

Most of a long log is NCCL's own (``NCCL_DEBUG``). A search for its mark rules those lines out, without a regular expression, in
blocks. Memory is constant: one block, and never more than ``LONGEST`` of one line.
"""

from __future__ import annotations

import typing as t

#: Bytes that are read at once: what fits in the processor's cache.
BLOCK = 1 << 15
#: Characters of a line that are kept. Nothing of interest is longer, but what is no text may have no line ends at all.
LONGEST = 1 << 20

_OF_NCCL = "] NCCL "
_BLANKS = "    "


class Lines:
    """The lines that are worth a look, of a text that comes in blocks: of a file, or of one that still grows."""

    def __init__(self) -> None:
        self._carry = ""

    def feed(self, block: bytes) -> t.Iterator[str]:
        """The lines that have ended in a block."""
        # Each byte is one character for now: strings are searched much faster than bytes.
        text = self._carry + block.decode("latin-1")
        *lines, carry = text.split("\n")
        self._carry = carry[:LONGEST]
        if "CCL version" in text or _has_piece(text):
            found = [line for line in lines if is_candidate(line)]
        else:
            found = [line for line in lines if _OF_NCCL not in line]
        for line in found:
            yield _decoded(line)

    def rest(self) -> str:
        """What follows the last line end."""
        return _decoded(self._carry)


def lines_of(file: t.IO[bytes]) -> t.Iterator[tuple[str, bool]]:
    """The lines of a file that are worth a look, each with whether its end is there."""
    lines = Lines()
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

    In NCCL's own lines that is its version, or a piece of a row before them: its columns are many blanks apart.
    """
    return _OF_NCCL not in line or _BLANKS in line.partition(_OF_NCCL)[0] or "CCL version" in line


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
