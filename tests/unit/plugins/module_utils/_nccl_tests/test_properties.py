# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Random tables in every format are read back as they are, and damage to them never makes a row that was not there.

GPUFABRIC_FUZZ is how many damaged texts to read; ``make fuzz`` reads a million.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import re

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.checking import check_document
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import VERDICTS, parse_results

FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures" / "nccl_tests"
CASES = int(os.environ.get("GPUFABRIC_FUZZ", "3000"))
#: Those of them that are read each time.
QUICK = min(CASES, 600)
FIRST_SEED = int(os.environ.get("GPUFABRIC_FUZZ_SEED", "1"))

TYPES = ["int8", "uint8", "int32", "uint64", "half", "float", "double", "bfloat16", "fp8_e4m3", "f8e5m2"]
LABELS = [
    "", "", "", "[1,0]<stdout>:", "[1,0]<stdout>: ", " 0: ", "[0] ", "2026-01-02T03:04:05.123456789Z ",
    "(head, rank=0, pid=3808) ", "[prterun-n1-12345@1,0]<stdout>: ", "    ", "[pod/launcher/main] ",
]  # fmt: skip
NOISE = [
    "n1:4000:4100 [0] NCCL INFO Channel 00/02 :    0   1   2   3",
    "n2:4100:4201 [1] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC",
    "[n1:02943] 15 more processes have sent help message help-mca-var.txt / mutually-exclusive-vars",
    "+ POD_NAME=worker-0",
    "",
    "srun: error: nid006512: tasks 24-27: Exited with exit code 1",
    "2026-01-02 03:04:05 INFO 17 25 items float around",
]
#: The columns of each half, and behind the halves, of a format.
FORMATS = {
    "2018": ("bytes N type op", "time algbw busbw res", ""),
    "old-all_reduce": ("size count type redop", "time algbw busbw error", ""),
    "old-all_gather": ("size count type", "time algbw busbw error", ""),
    "old-broadcast": ("size count type root", "time algbw busbw error", ""),
    "old-reduce": ("size count type redop root", "time algbw busbw error", ""),
    "new": ("size count type redop root", "time algbw busbw #wrong", ""),
    "cputime": ("size count type redop root", "cputime algbw busbw #wrong", ""),
    "timestamp": ("size count type redop root", "time algbw busbw #wrong", "timestamp"),
    "per-iteration": ("size count type redop root", "time algbw busbw #wrong i_min i_max i_p99 i_cv%", ""),
    "bitwise": ("size count type redop root", "time algbw busbw #wrong #bitdiff", "timestamp"),
    "tuning": ("size count type redop root", "time algbw busbw #wrong", "impl algo proto #channels"),
    "rccl": ("size count type redop root", "time algbw busbw #wrong", "algo proto nchannels timestamp"),
    "hipevt": ("size count type redop root", "time hipevt algbw busbw #wrong", ""),
    "out-of-place": ("size count type redop root", "time algbw busbw #wrong", ""),
    "in-place": ("size count type redop root", "time algbw busbw #wrong", ""),
}
MEASURES = ("i_min", "i_max", "i_p99", "i_cv%", "#bitdiff", "hipevt")


def _printed(cell: str):
    """A bandwidth as it was printed: the one that is worked out from the time may have more digits."""
    return pytest.approx(float(cell), abs=0.0055, rel=0.06 if "e" in cell else 1e-6 if "." in cell else 1e-4)


class Table:
    """A random test in one format: the pieces of its lines, as they are flushed, and its rows."""

    def __init__(self, chance: random.Random, name: str) -> None:
        self.name = name
        self.chance = chance
        lead, self.columns, self.tail = (text.split() for text in FORMATS[name])
        self.places = [place for place in ("out_of_place", "in_place") if name.replace("-", "_") in (place, "in_place", "out_of_place")
                       and name.replace("-", "_") == place] or ["out_of_place", "in_place"]  # fmt: skip
        self.lead = lead
        # Of alltoall on two ranks, all_reduce on the four that are listed, and others.
        self.factor = chance.choice([1.0, 0.5, 1.5])
        self.busbw: list[float] = []
        self.rows: list[dict] = []
        self.lines: list[list[str]] = []
        self.blank_redop = "redop" in lead and name != "old-all_reduce" and chance.random() < 0.1
        for _number in range(chance.randint(1, 6)):
            self._row()

    def _row(self) -> None:
        chance = self.chance
        size = chance.choice([0, 8, 1000, 1 << 20, 1 << 30, 1 << 34, chance.randrange(1 << 36)])
        count, kind = size // 4, chance.choice(TYPES)
        redop = "" if self.blank_redop else chance.choice(["sum", "prod", "min", "max", "avg", "mulsum", "none"])
        root = chance.choice([-1, 0, 3])
        row = {
            "size": size, "count": count, "type": kind,
            "redop": (redop or "none") if {"redop", "op"} & set(self.lead) else "none",
            "root": root if "root" in self.lead else -1,
            "out_of_place": None, "in_place": None,
        }  # fmt: skip
        text = f"{size:12d}  {count:12d}  {kind:>8}"
        text += f"  {redop:>6}" if {"redop", "op"} & set(self.lead) else ""
        text += f"  {root:6d}" if "root" in self.lead else ""
        pieces = [text]
        for place in self.places:
            piece, row[place] = self._half(size)
            pieces.append(piece)
        extra = {}
        if "timestamp" in self.tail:
            # rccl-tests prints it before the columns that its header has before it.
            extra["timestamp"] = "2026-01-02 03:04:05"
            pieces[-1] += "  2026-01-02 03:04:05"
        for column in self.tail:
            if column != "timestamp":
                extra[column] = chance.choice(["RING", "LL128", "32", "N/A"])
                pieces[-1] += f"  {extra[column]:>8}"
        if extra:
            row["extra"] = extra
        self.rows.append(row)
        self.lines.append(pieces)

    def _half(self, size: int) -> tuple[str, dict]:
        chance = self.chance
        unit = 1000.0 if self.lead[0] == "bytes" else 1.0
        time_us = chance.choice([12.3, 345.6, 78901.0, 1.5e6, 3.2e7]) * (1 + chance.random())
        algbw = size / time_us / 1e3
        cells = {}
        for column in self.columns:
            value = {"algbw": algbw, "busbw": algbw * self.factor, "cputime": time_us / 9}.get(column, time_us / unit)
            if column in ("#wrong", "error", "res"):
                wrong = chance.choice(["0", "0", "N/A", "3", "1.31072e+08"])
                error = chance.choice(["0e+00", "2e-07", "N/A", "1e+00"])
                cells[column] = wrong if column == "#wrong" else error
            elif column in MEASURES:
                cells[column] = chance.choice(["N/A", f"{chance.random() * 99:.2f}"])
            elif unit == 1000.0 and column == "time":
                cells[column] = f"{value:.3f}"
            else:
                cells[column] = f"{value:.2f}" if value < 1e5 else f"{value:.0f}" if value < 1e7 else f"{value:.1e}"
        self.busbw.append(float(cells["busbw"]))
        text = "".join(f"  {cells[column]:>7}" for column in self.columns)
        printed = round(float(cells.get("time") or cells["cputime"]) * unit, 6)
        half = {
            "time_us": printed if "time" in cells else None,
            "algbw": _printed(cells["algbw"]),
            "busbw": _printed(cells["busbw"]),
            "wrong": None,
        }
        if "cputime" in cells:
            half["cpu_time_us"] = printed
        if cells.get("#wrong", "N/A") != "N/A":
            half["wrong"] = int(float(cells["#wrong"]))
        error = cells.get("error", cells.get("res", "N/A"))
        if error != "N/A":
            # The summary says that no value is out of bounds.
            half["error"], half["wrong"] = float(error), 0
        extra = {
            column: None if cells[column] == "N/A" else float(cells[column])
            for column in self.columns
            if column in MEASURES
        }
        if extra:
            half["extra"] = extra
        return text, half

    def head(self) -> list[str]:
        ranks = [
            f"#  Rank {n:2} Group  0 Pid {4000 + n:6} on {'n1' if n < 2 else 'n2':>10} device {n % 2:2} [0000:10:00] X"
            for n in range(4)
        ]
        return [
            "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0",
            "#", "# Using devices", *ranks, "#",
            "#              " + "    ".join(place.replace("_", "-") for place in self.places),
            "#   " + "  ".join([*self.lead, *self.columns * len(self.places), *self.tail]),
        ]  # fmt: skip

    def foot(self) -> list[str]:
        return [
            "# Out of bounds values : 0 OK",
            f"# Avg bus bandwidth    : {sum(self.busbw) / len(self.busbw):g} ",
            "#",
        ]

    def lines_with(self, label: str, noise: bool, torn: bool) -> list[str]:
        chance = self.chance
        lines = []
        for line in [*self.head(), *("".join(pieces) for pieces in self.lines), *self.foot()]:
            pieces = next((pieces for pieces in self.lines if "".join(pieces) == line), None)
            if pieces and torn and self.name != "cputime" and chance.random() < 0.5:
                cut = chance.randint(1, len(pieces) - 1)
                log = f"{chance.choice(['n1', 'n2'])}:4000:4100 [0] NCCL INFO Connected all rings\n"
                line = (
                    "".join(pieces[:cut])
                    + log
                    + (label + log if chance.random() < 0.5 else "")
                    + label
                    + "".join(pieces[cut:])
                )
            lines.append(f"{label}{line}\n")
            if noise and chance.random() < 0.3:
                lines.append(label + chance.choice(NOISE) + "\n")
        return lines


def tables(seed: int) -> list[Table]:
    chance = random.Random(seed)
    return [Table(chance, chance.choice(list(FORMATS))) for _number in range(chance.choice([1, 1, 1, 2, 3]))]


@pytest.mark.parametrize("name", FORMATS)
def test_tables_are_read_back(name):
    for seed in range(20):
        chance = random.Random(f"{name} {seed}")
        table = Table(chance, name)
        end = chance.choice(["\n", "\r\n"])
        label = chance.choice(LABELS)
        text = "".join(table.lines_with(label, noise=seed % 2 == 1, torn=seed % 3 == 2)).replace("\n", end)
        (document,) = parse_results(text.splitlines(keepends=True))
        assert document["rows"] == table.rows, seed
        assert (document["lost_rows"], document["complete"], document["rank_count"]) == (0, True, 4), seed


def test_tables_in_one_text_are_read_back():
    for seed in range(50):
        several = tables(seed)
        text = "".join("".join(table.lines_with("", noise=True, torn=True)) for table in several)
        documents = parse_results(text.splitlines(keepends=True))
        assert [document["rows"] for document in documents] == [table.rows for table in several], seed


def sources() -> list[str]:
    """Texts to damage: the fixtures, and random tables."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(FIXTURES.iterdir())]
    for seed in range(60):
        several = tables(seed)
        texts.append("".join("".join(table.lines_with("", noise=True, torn=True)) for table in several))
    return texts


def truncated(chance: random.Random, text: str, _other: str) -> str:
    return text[: chance.randrange(len(text) + 1)]


def headless(chance: random.Random, text: str, _other: str) -> str:
    return text[chance.randrange(len(text) + 1) :]


def twice(chance: random.Random, text: str, _other: str) -> str:
    """As two programs without MPI print it."""
    return interleaved(chance, text, text)


def interleaved(chance: random.Random, text: str, other: str) -> str:
    lines = [[part + "\n" for part in source.split("\n")] for source in (text, other)]
    mixed = []
    while any(lines):
        mixed.append(chance.choice([source for source in lines if source]).pop(0))
    return "".join(mixed)


def spliced(chance: random.Random, text: str, other: str) -> str:
    """Other text in the middle of a line, as when two processes write to one pipe."""
    for _number in range(chance.randint(1, 6)):
        place, begin = chance.randrange(len(text) + 1), chance.randrange(len(other) + 1)
        piece = chance.choice([chance.choice(NOISE) + "\n", other[begin : begin + chance.randrange(1, 120)], "\n", " "])
        text = text[:place] + piece + text[place:]
    return text


def shuffled(chance: random.Random, text: str, _other: str) -> str:
    lines = text.splitlines(keepends=True)
    chance.shuffle(lines)
    return "".join(lines)


def cut_out(chance: random.Random, text: str, _other: str) -> str:
    begin = chance.randrange(len(text) + 1)
    return text[:begin] + text[begin + chance.randrange(200) :]


def flipped(chance: random.Random, text: str, _other: str) -> str:
    data = bytearray(text.encode())
    for _number in range(chance.randint(1, 20)):
        if data:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return data.decode("utf-8", errors="replace")


HOSTILE = ["9" * 5000, "1e" + "9" * 400, "[" * 3000, '{"a":' * 3000, "\0", "\x1b[31m", "\ud7ff", "# " * 2000, "N/A " * 400, '"' * 99,
           "   8   2   float", "-1 " * 500, "{\"version\":", "nan", "-inf", "1e400", "\r", "\u2028", " " * 5000, "[1,0]<stdout>:" * 200,
           "9" * 19, "9e+99"]  # fmt: skip


def hostile(chance: random.Random, text: str, _other: str) -> str:
    for _number in range(chance.randint(1, 8)):
        place = chance.randrange(len(text) + 1)
        text = text[:place] + chance.choice(HOSTILE) + text[place:]
    return text


#: Damage that leaves the numbers as they were, and damage that may change a digit into another.
HARMLESS = [truncated, headless, twice]
HARMFUL = [interleaved, shuffled, spliced, cut_out, flipped, hostile]


def halves_of(row: dict) -> list[tuple[tuple, tuple]]:
    """What a row says, half by half, without what only a summary can tell: its size and time, and its bandwidths."""
    return [
        ((row["size"], row["type"], place, row[place]["time_us"]), (row[place]["algbw"], row[place]["busbw"]))
        for place in ("out_of_place", "in_place")
        if row[place] is not None
    ]


def is_known(known: set, half: tuple[tuple, tuple]) -> bool:
    """Whether it is one of the halves. How exact bandwidths are depends on whether the ranks are known."""
    if half in known:
        return True
    first, bandwidths = half
    return any(first == other and all(map(is_about, bandwidths, values)) for other, values in known)


def is_about(one: float | None, other: float | None) -> bool:
    """Whether two bandwidths are the same but for rounding; None is one that is not a number."""
    return one == other if None in (one, other) else one == pytest.approx(other, abs=0.011, rel=1e-3)


def check(text: str, known: set | None) -> None:
    documents, refusal = [], ""
    try:
        documents = parse_results(text.splitlines(keepends=True))
    except GpufabricError as error:
        refusal = str(error)
    assert bool(documents) != bool(refusal) and "\n" not in refusal
    plain = json.dumps(documents, allow_nan=False)
    assert known is None or "do-not-keep" not in plain
    text = text.replace("\x1b[31m", "")
    for document in documents:
        check_document("g1", document)
        assert document["verdict"] in VERDICTS
        assert not (document["lost_rows"] and document["complete"])
        for row in document["rows"]:
            if known is not None:
                assert all(is_known(known, half) for half in halves_of(row)), row
            # Whatever was changed: what is read stands in the text.
            assert re.search(rf"(?<!\d){row['size']}(?!\d)", text), row
            assert row["type"] in text


@pytest.mark.parametrize(
    "numbers", [range(QUICK), pytest.param(range(QUICK, CASES), marks=pytest.mark.slow)], ids=["some", "rest"]
)
def test_damage_makes_no_row(numbers):
    texts = sources()
    known = []
    for text in texts:
        rows = [row for document in parse_results(text.splitlines(keepends=True)) for row in document["rows"]]
        known.append({half for row in rows for half in halves_of(row)})
    for number in numbers:
        chance = random.Random(f"{FIRST_SEED} {number}")
        first, second = chance.randrange(len(texts)), chance.randrange(len(texts))
        damage = chance.choice(HARMLESS + HARMFUL)
        text = damage(chance, texts[first], texts[second])
        # What is mixed of tables in different formats cannot be told apart.
        sure = damage in HARMLESS and not (damage is twice and texts[first].count(" busbw") > 2)
        try:
            check(text, known[first] | known[second] if sure else None)
        except BaseException:
            print(f"GPUFABRIC_FUZZ_SEED={FIRST_SEED}, case {number}: {damage.__name__} of texts {first} and {second}")
            raise
