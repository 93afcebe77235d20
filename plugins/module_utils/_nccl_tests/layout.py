# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The columns of a table of nccl-tests, as its header names them, and the row that the cells of a line make."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.bandwidth import Steps
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.document import PLACEMENTS, Row

# Digits are bounded, because a torn log may hold any number of them and Python refuses to convert the longest.
NUMBER = r"\d{1,19}(?:\.\d{1,6})?(?:e[+-]\d{2})?"
#: What C prints for a value that is no number. It may not touch other text: ``inf`` begins many words.
NO_NUMBER = r"-?(?:nan|inf)(?!\S)"
CELLS = {
    "redop": re.compile(r"[a-z]\w{0,30}"),
    "root": re.compile(r"-1|0|[1-9]\d{0,8}"),
    "time": re.compile(rf"{NO_NUMBER}|{NUMBER}"),
    "bandwidth": re.compile(rf"{NO_NUMBER}|{NUMBER}"),
    # As %g prints them: whole numbers, or six digits and an exponent.
    "wrong": re.compile(r"N/A|[1-9](?:\.\d{1,5})?e\+\d\d|0|[1-9]\d{0,6}"),
    "error": re.compile(rf"N/A|{NO_NUMBER}|\d(?:\.\d{{1,6}})?e[+-]\d\d"),
    "measure": re.compile(rf"N/A|{NO_NUMBER}|{NUMBER}"),
    "word": re.compile(r"\S{1,60}"),
}


@dataclasses.dataclass(frozen=True)
class Layout:
    """The columns of a table behind ``type``, by their names in the header and what they may hold."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    #: Where each half begins and ends, with the half's name.
    halves: tuple[tuple[int, int, str], ...]
    #: Where the columns behind the last half begin.
    tail: int
    #: What the printed times are to be multiplied with, for microseconds.
    unit: float = 1.0
    stamped: bool = False

    def is_like(self, other: Layout | None) -> bool:
        """Whether another one has the same columns."""
        return other is not None and dataclasses.replace(other, unit=self.unit) == self


class UnknownColumns(Exception):
    """A header that is none of nccl-tests."""


class HeaderCut(Exception):
    """A header of which the end is missing."""


_MEASURES = {
    "hipevt": "measure",
    "#bitdiff": "measure",
    "i_min": "measure",
    "i_max": "measure",
    "i_p99": "measure",
    "i_cv%": "measure",
}
_WRONG = {"#wrong": "wrong", "error": "error", "res": "error"}


def layout_of(header: str, title: str = "") -> Layout:
    """The layout that a header describes. ``title`` is the line above it. Raises UnknownColumns and HeaderCut."""
    columns = header.split()
    unit = 1000.0 if columns[0] == "bytes" else 1.0
    if columns[1:3] not in (["count", "type"], ["N", "type"]):
        raise UnknownColumns(" ".join(columns))
    names: list[str] = []
    kinds: list[str] = []
    rest = columns[3:]
    for name, others in (("redop", ("redop", "op")), ("root", ("root",))):
        if rest and rest[0] in others:
            names.append(name)
            kinds.append(name)
            del rest[0]
    starts: list[int] = []
    while rest and re.match(r"(?:cpu)?time(?:\((?:us|ms)\))?\Z", rest[0]):
        if rest[0].endswith("(us)"):
            unit = 1.0
        starts.append(len(names))
        names.append("cputime" if rest[0].startswith("cpu") else "time")
        kinds.append("time")
        del rest[0]
        for name in ("hipevt", "algbw", "busbw"):
            if rest and rest[0] == name:
                names.append(name)
                kinds.append(_MEASURES.get(name, "bandwidth"))
                del rest[0]
        if rest and rest[0] in _WRONG:
            names.append(rest[0])
            kinds.append(_WRONG[rest[0]])
            del rest[0]
        while rest and rest[0] in _MEASURES:
            names.append(rest[0])
            kinds.append("measure")
            del rest[0]
    if not starts or len(starts) > 2 or names[starts[-1] :][:2] == ["time", "#wrong"]:
        raise UnknownColumns(" ".join(columns))
    for start, end in zip(starts, [*starts[1:], len(names)]):
        if not {"algbw", "busbw"} <= set(names[start:end]) or not set(_WRONG) & set(names[start:end]):
            if end == len(names) and not rest:
                raise HeaderCut
            raise UnknownColumns(" ".join(columns))
    tail = len(names)
    stamped = "timestamp" in rest
    for name in rest:
        if not re.match(r"[#A-Za-z][\w%#/-]{0,30}\Z", name):
            break
        if name != "timestamp":
            names.append(name)
            kinds.append("word")
    placements = list(PLACEMENTS)
    if len(starts) == 1:
        # rccl-tests -O prints one half, and which it is stands above the header only.
        placements = [place for place, name in PLACEMENTS.items() if re.search(rf"(?<!\S){name}(?!\S)", title)]
        if len(placements) != 1:
            raise HeaderCut
    return Layout(tuple(names), tuple(kinds), tuple(zip(starts, [*starts[1:], tail], placements)), tail, unit, stamped)


#: What a table without a header is read as, where its rows leave no doubt.
DEFAULT = layout_of("size count type redop root time algbw busbw #wrong time algbw busbw #wrong")


#: Bytes of an element, by the type's name without what it begins with.
_WIDTHS = {"16": 2, "32": 4, "64": 8, "": 4, "half": 2, "bfloat16": 2, "float": 4, "double": 8}


@dataclasses.dataclass
class Piece:
    """The begin of a row, up to where it was torn."""

    size: int
    count: int
    kind: str
    cells: list[str]
    layout: Layout
    label: str
    evidence: str
    stamp: str | None = None
    #: Whether other text came behind the begin, rather than the end of the line.
    torn: bool = False

    @property
    def full(self) -> bool:
        """Whether all cells are there."""
        return len(self.cells) == len(self.layout.names) and (self.stamp is not None or not self.layout.stamped)

    @property
    def size_fits(self) -> bool:
        """Whether the size is that of so many elements, on one rank or on several."""
        width = _WIDTHS.get(re.sub(r"\A(?:u?int)", "", self.kind), 1)
        return self.size == self.count == 0 or (
            self.count > 0 and self.size > 0 and self.size % (self.count * width) == 0
        )

    def fits(self, before: t.Sequence[Row]) -> bool:
        """Whether the bandwidths are the size divided by the times.

        Some collectives of old versions have a factor in that: the same as in the rows ``before``.
        """
        layout = self.layout
        factors = [1.0]
        if before and "error" in layout.kinds:
            half = before[-1]["out_of_place"] or before[-1]["in_place"]
            size = before[-1]["size"]
            # Either may have been printed as nan.
            if size and half["algbw"] is not None:
                factors.append(half["algbw"] * (half["time_us"] or 0.0) * 1e3 / size)
        for start, end, _placement in layout.halves:
            if not self.cells[start]:
                continue
            if layout.names[start] != "time":
                return False
            cells = dict(zip(layout.names[start:end], self.cells[start:end]))
            if any(is_no_number(cells[name]) for name in ("time", "algbw", "busbw")):
                return False
            time, algbw = float(cells["time"]) * layout.unit, float(cells["algbw"])
            # Both are rounded to what was printed.
            error, step = step_of(cells["time"]) * layout.unit, 1.01 * step_of(cells["algbw"])
            if time <= error or float(cells["busbw"]) > 2.0 * algbw + 3.0 * step_of(cells["busbw"]):
                return False
            least, most = (self.size / (time + sign * error) / 1e3 for sign in (1, -1))
            if not any(factor * least - step <= algbw <= factor * most + step for factor in factors):
                return False
        return True


def row_of(piece: Piece) -> Row:
    layout, cells = piece.layout, piece.cells
    named = dict(zip(layout.names[: layout.halves[0][0]], cells))
    row: Row = {
        "size": piece.size,
        "count": piece.count,
        "type": piece.kind,
        # Versions that print neither are of collectives that have neither.
        "redop": named.get("redop") or "none",
        "root": int(named.get("root", -1)),
        "out_of_place": None,
        "in_place": None,
    }
    for start, end, placement in layout.halves:
        half = dict(zip(layout.names[start:end], cells[start:end]))
        if len(half) == end - start and half[layout.names[start]]:
            row[placement] = _half(half, layout.unit)
    extra = dict(zip(layout.names[layout.tail :], cells[layout.tail :]))
    if piece.stamp is not None:
        extra["timestamp"] = piece.stamp
    if extra:
        row["extra"] = extra
    return row


#: Names of the document for columns that it calls otherwise.
_NAMES = {"time": "time_us", "cputime": "cpu_time_us"}


def _half(cells: dict[str, str], unit: float) -> dict[str, t.Any]:
    half: dict[str, t.Any] = {
        # The time that the host needs to start the work is not the time of the collective.
        "time_us": _microseconds(cells["time"], unit) if "time" in cells else None,
        "algbw": _number(cells["algbw"]),
        "busbw": _number(cells["busbw"]),
        "wrong": None,
    }
    if "cputime" in cells:
        half["cpu_time_us"] = _microseconds(cells["cputime"], unit)
    for name in _WRONG:
        value = cells.get(name)
        # N/A is a value that was not checked. A large number is printed rounded, as 1.31072e+08.
        if value is not None and value != "N/A":
            half["wrong" if name == "#wrong" else "error"] = round(float(value)) if name == "#wrong" else _number(value)
    extra = {name: None if cells[name] == "N/A" else _number(cells[name]) for name in _MEASURES if name in cells}
    if extra:
        half["extra"] = extra
    no_numbers = {_NAMES.get(name, name): cell for name, cell in cells.items() if is_no_number(cell)}
    if no_numbers:
        half["no_numbers"] = no_numbers
    return half


def is_counted(row: Row) -> bool:
    """Whether the whole numbers of a row fit in 64 bits, as those of nccl-tests do."""
    wrong = [row[placement]["wrong"] for placement in PLACEMENTS if row[placement] is not None]
    return all(number is None or number < 1 << 63 for number in (row["size"], row["count"], *wrong))


def is_no_number(cell: str) -> bool:
    """Whether a cell is ``nan`` or ``inf``, as C prints a division by zero."""
    return re.match(rf"{NO_NUMBER}\Z", cell) is not None


def _number(cell: str) -> float | None:
    return None if is_no_number(cell) else float(cell)


def _microseconds(cell: str, unit: float) -> float | None:
    time = _number(cell)
    return time if unit == 1.0 or time is None else round(time * unit, 6)


def steps_of(piece: Piece, start: int) -> Steps | None:
    """How exact the numbers of the half are that begins there; None if one of them is none, or the time is the CPU's."""
    names, cells = piece.layout.names, piece.cells
    if names[start] != "time":
        return None
    used = [cells[names.index(name, start)] for name in ("time", "algbw", "busbw")]
    if any(map(is_no_number, used)):
        return None
    time, algbw, busbw = map(step_of, used)
    return Steps(time * piece.layout.unit, algbw, busbw)


def step_of(cell: str) -> float:
    """Half of what the last digit of a printed number stands for."""
    mantissa, _e, exponent = cell.partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 0.5 * 10.0 ** (int(exponent or 0) - decimals)
