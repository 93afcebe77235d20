# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The table that nccl-tests and rccl-tests print, of any version, out of a text that holds much else.

The columns are taken from the table's header. What stands before a line (labels of mpirun, srun, kubectl, Ray) is passed over,
since every line of the output is known by what is in it. A row that NCCL's log tore is put together only where that can be done
in one way: its columns are all there, in order, and its bandwidths are its size divided by its times.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.reader import COMPLAINT
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.complaints import Complaints
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.document import (
    Row,
    Test,
    check_amount,
    collective_of,
    library_version,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.json_output import ReporterRows, read_json
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.layout import (
    CELLS,
    DEFAULT,
    NO_NUMBER,
    NUMBER,
    HeaderCut,
    Layout,
    Piece,
    UnknownColumns,
    is_counted,
    is_no_number,
    layout_of,
    row_of,
    step_of,
    steps_of,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.lines import SUMMARY, TYPES
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.torn import before_hosts

_OPERATIONS = r"(?:sum|prod|min|max|avg|mulsum|none)"

#: Characters of a line in which rows are looked for: they are at the begin of far shorter lines.
_LONGEST = 1 << 15
#: Characters in which the begin of a row has room.
_OVERLAP = 256
_TAG = re.compile(r"\[[\w.@-]+,\d+\](?:\[[^\]\s]*\])?<std(?:out|err|diag)>: ?")
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LOG = r"(?=[\w.-]+:\d+:\d+ \[)"
_SIZE_COUNT = r"(?<![^\s:>)\]|,])(0|[1-9]\d{0,18})\s+(0|[1-9]\d{0,18})\s+"
_ROW = re.compile(rf"{_SIZE_COUNT}({TYPES})(?:(?!\w)|{_LOG})")
_OPERATION = re.compile(rf"({_OPERATIONS}){_LOG}")
_ROW_OF_NEW_TYPE = re.compile(rf"{_SIZE_COUNT}([a-z]\w{{1,30}})(?=\s)")
_ROW_BEGIN = re.compile(r"\s*\d{1,19} {2,}\d+(?![\d.])")
_CELLS_ONLY = re.compile(rf"\s*(?:(?:{NUMBER}|N/A|{NO_NUMBER})(?:\s+|\Z)){{3,}}\Z")
_PIECE = re.compile(r"\s*(?:N/A|-?\d|-?[a-z]+\s)")
# NCCL's own lines, also right behind a number, and what other programs write into a row.
_FOREIGN = re.compile(r"[^\s\d.,:;+-]")
_HOST = re.compile(r"([\w.-]+):\d+:\d+ \[")
_STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?!\d)")
_ELISION = re.compile(r"\W{0,8}(?:\.\.\.|…|<snip>|\[\.\.\.\])\W{0,8}\Z")

# The lines of a test other than rows, in the order in which they are printed.
LINES = {
    "version": re.compile(
        r"(nccl-tests|rccl-tests|gpufabric-cpu) version (\S+)(?: \(\w+\))?(?:.*? [nr]ccl-library=(\d{1,9}))?"
    ),
    "starting": re.compile(r"Collective test starting: (\S+)"),
    "banner": re.compile(r"nThread +\d+ +nGpus +\d+ .*"),
    "rank": re.compile(
        r"(?<!\w)Rank +(\d{1,9})(?: +Group +(\d{1,9}))?(?: +Pid +(\d{1,19}))? +on +(\S+) +device +(\d{1,9}) +\[([^]]{0,200})\] *(.*)"
    ),
    # From the last such word before the first busbw, so that no text is searched twice.
    "header": re.compile(r"(?<!\w)(?:size|bytes)\b(?:(?!(?<!\w)(?:size|bytes)\b).){0,400}?\bbusbw\b.*"),
    "out_of_bounds": re.compile(r"Out of bounds values *: *(\d{1,19}) +(OK|FAILED)"),
    "average": re.compile(
        rf"Avg bus bandwidth *: *({NO_NUMBER}|\d{{1,19}}(?:\.\d{{1,19}})?(?:e[+-]\d\d)?)(?: +(OK|FAILED))?(?!\S)"
    ),
}
_MARKS = {
    "version": " version ",
    "starting": "Collective test starting",
    "banner": "nThread ",
    "rank": " device ",
    "header": "busbw",
}
ORDER = {kind: index for index, kind in enumerate([*LINES, "row"])}
TABLE = ORDER["header"]

_LIBRARY = re.compile(r"\b[NR]CCL version {0,4}:? {0,4}(\d\S{0,60})")
_RCCL_TESTS = re.compile(r"rccl-tests: Version (\S{1,100})")
_JSON_OUTPUT = re.compile(r"# Writing JSON output to (.{1,4096})")
# Of nccl-tests since 2.0, before the table, where the sizes asked for do not fit in the GPUs' memory.
_REDUCED = re.compile(r"# Reducing maxBytes to (\d{1,19}) due to memory")
_BITWISE = re.compile(r"Bitwise mismatches *: *(\d{1,19}) +(?:OK|FAILED)")
_ERROR = re.compile(r"# error: (.+)")
_FAILURE = re.compile(r"(?:Test )?(?:CUDA failure|NCCL failure|timeout|failure)\b.{0,200}")
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


class TextReader:
    """Takes the lines of a text one by one; ``tests`` are the tests that were in it."""

    def __init__(self) -> None:
        self.tests: list[Test] = []
        self.unknown: list[str] = []
        self._layout: Layout | None = None
        self._title = ""
        self._version = ""
        self._piece: Piece | None = None
        self._open_table = False
        self._reporter = ReporterRows()
        self._last_average_of: Test | None = None
        self._items = 0
        #: A row beyond what is read of a line.
        self._unread = ""
        #: What was said before the first test began.
        self._complaints = Complaints()

    def complain(self, line: str) -> None:
        """Keep a warning of NCCL, of this text or of another one of the same run."""
        (self.tests[-1].complaints if self.tests else self._complaints).add(line)

    def read(self, line: str, whole: bool = True) -> None:
        """Take one line. ``whole`` is false for one whose end is missing, at the end of the text."""
        text = clean(line)
        if not text or text.isspace():
            return
        self._last_average_of = None
        if COMPLAINT in text:
            # With its prefixes, which may tell whose it is.
            self.complain(line)
        begin = text[:_LONGEST]
        matches = list(_ROW.finditer(begin))
        if len(text) > _LONGEST and not self._unread:
            self._unread = row_in(text[_LONGEST - _OVERLAP :]) or ""
        if matches:
            for match, end in zip(matches, [*(match.start() for match in matches[1:]), len(begin)]):
                self._row(begin[: match.start()], match, begin[match.end() : end], whole or end < len(begin))
            return
        # Any rank may have printed something before it on its line.
        summary = [
            (kind, found) for kind, mark in SUMMARY.items() if mark in text for found in LINES[kind].finditer(text)
        ]
        for kind, found in summary:
            self._line(kind, found)
        if summary:
            return
        for kind, mark in _MARKS.items():
            line_of_kind = LINES[kind].search(begin) if mark in begin else None
            if line_of_kind:
                self._line(kind, line_of_kind)
                return
        self._other(text, whole)

    def finish(self) -> list[Test]:
        """All tests, when the text has ended."""
        self._drop_piece()
        if self._last_average_of is not None:
            self._check_last_average(self._last_average_of)
        self.tests += self._reporter.finish()
        if self.tests:
            self._complaints.follow(self.tests[0].complaints)
            self.tests[0].complaints = self._complaints
            if self._unread:
                self.tests[0].lose(self._unread)
        return self.tests

    def _test(self) -> Test | None:
        return self.tests[-1] if self.tests else None

    def _begin(self) -> Test:
        check_amount("tests", len(self.tests) + 1)
        self.tests.append(Test())
        self._layout = None
        self._open_table = False
        # It may come before the first line that begins a test.
        _remark(self.tests[-1], self._version)
        self._version = ""
        return self.tests[-1]

    def _count(self, items: int = 1) -> None:
        self._items += items
        check_amount("rows and ranks", self._items)

    def _line(self, kind: str, match: t.Any) -> None:
        self._drop_piece()
        if self._begins_test(kind, match):
            self._begin()
        test = self._test()
        if test is None:
            return
        test.stage = max(test.stage, ORDER[kind])
        if kind == "version":
            name, version, library = match.groups()
            test.tool = {
                "name": "cpu" if name == "gpufabric-cpu" else name,
                "version": version,
                "nccl_version": library_version(int(library)) if library else None,
            }
        elif kind == "starting":
            test.collective = collective_of(match.group(1))
        elif kind == "banner":
            test.config.update(_config(match.group(0)))
        elif kind == "rank":
            self._count()
            test.ranks.append(_rank(match))
        elif kind == "header":
            self._header(match.group(0))
        elif kind == "out_of_bounds":
            self._count()
            test.bounds.append((int(match.group(1)), match.group(2) == "OK"))
            self._open_table = False
        elif kind == "average":
            self._count()
            printed = match.group(1)
            test.averages.append((None if is_no_number(printed) else float(printed), match.group(2) != "FAILED"))
            self._open_table = False
            self._last_average_of = test

    def _begins_test(self, kind: str, match: t.Any) -> bool:
        """Whether a line is the first of a test.

        Not where the same line was the last one: programs without MPI, started as one, print each line several times.
        """
        if ORDER[kind] > TABLE:
            return False
        if not self.tests:
            return True
        return self.tests[-1].stage > ORDER[kind] and (kind != "rank" or match.group(1) == "0")

    def _header(self, header: str) -> None:
        self._open_table = True
        title, self._title = self._title, ""
        before = self._layout
        try:
            self._layout = layout_of(header, title)
        except HeaderCut:
            self._layout = None
        except UnknownColumns as error:
            self._layout = None
            if not self.unknown:
                self.unknown.append(str(error))
        # Those that several processes print are the same.
        if before is not None and not before.is_like(self._layout):
            self.tests[-1].lose(header)

    def _other(self, text: str, whole: bool) -> None:
        """A line that is none of the known ones: a piece of a row, NCCL's version, an error, or anybody's."""
        if self._piece is not None and _PIECE.match(self._unlabelled(text)):
            self._go_on(self._unlabelled(text), whole)
            return
        test = self._test()
        if '"numCycle"' in text:
            self._reporter.read_line(text)
            return
        if '{"version":' in text and '"start_time"' in text:
            self._begin()
            self.tests[-1:] = found = read_json([text[text.index('{"version":') :]])
            check_amount("tests", len(self.tests))
            self._count(sum(len(test.ranks) + len(test.rows) for test in found))
            for test in found:
                # What follows is another one.
                test.stage = ORDER["row"]
            return
        if "-place" in text:
            self._title = text
        if "JSON output to" in text:
            match = _JSON_OUTPUT.search(text)
            if match:
                # It comes before the first line of a test.
                if test is None or test.stage > 0:
                    test = self._begin()
                test.json_output = match.group(1).strip()
            return
        if test is None:
            if "CCL version" in text:
                self._version = text
            return
        _remark(test, text)
        match = _RCCL_TESTS.search(text) if "rccl-tests: Version" in text else None
        if match:
            test.tool.update(name="rccl-tests", version=match.group(1))
        if "# Blocking Enabled" in text:
            test.config["blocking"] = True
        match = _REDUCED.search(text) if "Reducing maxBytes" in text else None
        if match:
            test.reduced_to = int(match.group(1))
        match = _BITWISE.search(text) if "Bitwise mismatches" in text else None
        if match:
            self._count()
            test.bitwise.append(int(match.group(1)))
        match = _ERROR.search(text) if "# error:" in text else None
        if match and len(test.errors) < 20:
            test.errors.append(match.group(1).strip()[:200])
        if _CELLS_ONLY.match(text):
            test.orphans += 1
        if self._open_table:
            self._in_table(test, text, whole)

    def _in_table(self, test: Test, text: str, whole: bool) -> None:
        if "(ms)" in text and self._layout is not None and "(GB/s)" in text:
            self._layout = dataclasses.replace(self._layout, unit=1000.0)
        elif "(us)" in text and self._layout is not None and "(GB/s)" in text:
            self._layout = dataclasses.replace(self._layout, unit=1.0)
        elif _ELISION.match(text):
            test.elided = True
        elif self._layout is not None:
            match = _ROW_OF_NEW_TYPE.search(text)
            if match:
                piece = self.piece_of(text[: match.start()], match, text[match.end() :])
                if piece is not None and piece.full and not piece.torn and whole:
                    self._keep(piece)
                    return
            if _ROW_BEGIN.match(text):
                self._drop_piece()
                test.lose(text)

    def _row(self, label: str, match: t.Any, rest: str, whole: bool) -> None:
        self._drop_piece()
        test = self._test()
        if self._layout is None:
            if self._open_table and test is not None:
                test.lose(match.string)
                return
            if not self._sure_without_header(match, rest):
                return
        if test is None:
            test = self._begin()
        piece = self.piece_of(label, match, rest)
        # A line that was torn in the size begins with the rest of its digits.
        torn = match.start() == 0 or not match.string[match.start() - 1].isspace()
        if piece is None or (torn and not piece.size_fits):
            test.lose(match.string)
            return
        test.stage = ORDER["row"]
        test.headless = test.headless or self._layout is None
        if piece.torn:
            _remark(test, rest)
        if piece.full:
            if whole or piece.cells[-1] in ("0", "N/A"):
                self._keep(piece)
            else:
                test.lose(match.string)
        else:
            self._piece = piece

    def _sure_without_header(self, match: t.Any, rest: str) -> bool:
        """Whether a line without a header above it is a row of nccl-tests, or the begin of its last one."""
        cells = rest.split()
        operation, root = (*cells[:2], "none", "0")[:2] if len(cells) != 1 else (cells[0], "0")
        if not re.match(rf"{_OPERATIONS}\Z", operation) or not CELLS["root"].match(root):
            return False
        piece = self.piece_of("", match, rest)
        if piece is not None and piece.full:
            fits = piece.fits([])
            if self.tests and not fits:
                self.tests[-1].doubtful = True
            # What begins a line that is the first of all may lack digits.
            return fits and (match.start() > 0 or bool(self.tests))
        return bool(self.tests and self.tests[-1].rows)

    def piece_of(self, label: str, match: t.Any, rest: str) -> Piece | None:
        """What a line holds of a row; None where its columns are not those of the table."""
        size, count, kind = match.groups()
        piece = Piece(
            int(size), int(count), kind, [], self._layout or DEFAULT, label.strip().lstrip("#").strip(), match.string
        )
        return piece if self._fill(piece, rest) else None

    def _fill(self, piece: Piece, text: str, first: bool = True) -> bool:
        """Add the cells of a text to a piece; whether they are what the columns may hold.

        ``first`` is false for what comes behind a place where the row was torn.
        """
        layout = piece.layout
        position = 0
        while True:
            start = len(text) - len(text[position:].lstrip())
            if start == len(text):
                return True
            stamp = _STAMP.match(text, start) if layout.stamped and piece.stamp is None else None
            if stamp and len(piece.cells) >= layout.tail:
                piece.stamp = stamp.group(0)
                position = stamp.end()
                continue
            if len(piece.cells) == len(layout.names):
                # All is there. What follows is another text, and not one more number.
                return bool(_FOREIGN.match(text, start)) or bool(_HOST.match(text, start))
            index = len(piece.cells)
            name = layout.names[index]
            if name == "redop" and (text[start].isdigit() or text[start] == "-"):
                # A collective without an operation has a blank there in some versions.
                if not first:
                    return False
                piece.cells.append("")
                continue
            if index == layout.halves[0][0] and len(layout.halves) == 2 and start - position >= 30:
                # The out-of-place half was left blank.
                piece.cells += [""] * (layout.halves[1][0] - index)
                continue
            cell = self._cell(piece, layout.kinds[index], text, start)
            if cell is None:
                if not _FOREIGN.match(text, start) and not _HOST.match(text, start):
                    return False
                piece.torn = True
                return True
            piece.cells.append(cell)
            position = start + len(cell)
            if position < len(text) and not text[position].isspace():
                # Another text begins right behind the number.
                if len(piece.cells) < len(layout.names):
                    piece.torn = True
                return True

    def _cell(self, piece: Piece, kind: str, text: str, start: int) -> str | None:
        """The cell at a place of a text; None where there is none of the kind, or where its end is not sure."""
        token = text[start:].split(None, 1)[0]
        if CELLS[kind].fullmatch(token):
            return token
        match = (_OPERATION if kind == "redop" else CELLS[kind]).match(text, start)
        if match is None or kind == "word":
            return None
        if kind == "redop":
            return match.group(1)
        host = _HOST.match(text, start)
        if host is None:
            # Other text than NCCL's must not begin with what might be the rest of the number.
            return match.group(0) if re.match(r"NCCL |\[\d{4}-|[A-Z_a-df-z/\[(#]", text[match.end() :]) else None
        hosts: t.AbstractSet[str] = self.tests[-1].hosts() if self.tests else frozenset()
        cells = {cell for cell, _host in before_hosts(host.group(1), hosts) if CELLS[kind].fullmatch(cell)}
        if len(cells) == 1:
            return cells.pop()
        if cells or hosts or not text[match.end()].isalpha():
            return None
        # The host's name is not known, and may begin with digits: only what has a known width ends for sure.
        return match.group(0) if re.match(r"(?:-1|0|N/A|\d+\.\d\d)\Z", match.group(0)) else None

    def _unlabelled(self, text: str) -> str:
        label = self._piece.label if self._piece is not None else ""
        stripped = text.lstrip()
        return stripped[len(label) :] if label and stripped.startswith(label) else text

    def _go_on(self, text: str, whole: bool) -> None:
        """Add the next piece to a row that was torn."""
        piece = self._piece
        if piece is None or not whole:
            return
        tried = dataclasses.replace(piece, cells=list(piece.cells), torn=False)
        if not self._fill(tried, text, first=False) or len(tried.cells) == len(piece.cells):
            return
        if not tried.full:
            # It was torn again.
            tried.torn = True
            self._piece = tried
        elif tried.fits(self.tests[-1].rows):
            self._piece = None
            row = self._keep(tried)
            self.tests[-1].joined += [row] if row is not None else []
        else:
            self._drop_piece()

    def _drop_piece(self) -> None:
        """Give up on the end of a row that was torn."""
        piece, self._piece = self._piece, None
        if piece is None or not self.tests:
            return
        layout = piece.layout
        if (
            len(layout.halves) == 2
            and len(piece.cells) == layout.halves[1][0]
            and not piece.torn
            and not layout.stamped
        ):
            self._count()
            self.tests[-1].half_rows.append(row_of(piece))
        else:
            self.tests[-1].lose(piece.evidence)

    def _keep(self, piece: Piece) -> Row | None:
        test = self.tests[-1]
        row = row_of(piece)
        if not is_counted(row):
            test.lose(piece.evidence)
            return None
        # Somebody may print a row again when the test is over.
        if test.averages and test.bounds and test.runs == 1 and test.has_row(row):
            return None
        self._count()
        test.rows.append(row)
        test.note_steps(row, {placement: steps_of(piece, start) for start, _end, placement in piece.layout.halves})
        for start, _end, _placement in piece.layout.halves:
            if piece.cells[start]:
                busbw = piece.cells[piece.layout.names.index("busbw", start)]
                test.rounding += 0.0 if is_no_number(busbw) else step_of(busbw)
        return row

    @staticmethod
    def _check_last_average(test: Test) -> None:
        """Drop an average that ends the text and is not that of the rows: its last digits may be missing."""
        if test.rows and len(test.averages) == 1:
            printed, mean = test.averages[0][0], test.mean_busbw()
            if printed is None or mean is None:
                return
            if f"{mean:g}".startswith(f"{printed:g}") and abs(mean - printed) > 0.006:
                test.averages.clear()


def _remark(test: Test, text: str) -> None:
    """Note the version of NCCL, or why the program failed, where a text tells."""
    if test.tool["nccl_version"] is None and "CCL version" in text:
        match = _LIBRARY.search(text)
        test.tool["nccl_version"] = match.group(1) if match else None
    if not test.failure and ("failure" in text or "Test timeout" in text):
        match = _FAILURE.search(text)
        test.failure = match.group(0) if match else ""


def row_in(text: str) -> str | None:
    """The first row of a table in a text, or what begins like one; None if there is none."""
    match = _ROW.search(text)
    return text[match.start() : match.end() + 80].partition("\n")[0] if match else None


def clean(line: str) -> str:
    """A line without mpirun's tags, colours and line ends."""
    if "<std" in line:
        line = _TAG.sub(" ", line)
    if "\x1b" in line:
        line = _COLOUR.sub("", line)
    return line.rstrip("\r\n")


def _config(banner: str) -> dict[str, t.Any]:
    # A line of its own says that it is.
    config: dict[str, t.Any] = {"blocking": False}
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
        "pid": None if pid is None else int(pid),
        "host": host,
        "device": int(device),
        "bus_id": bus_id,
        "name": name.strip(),
    }
