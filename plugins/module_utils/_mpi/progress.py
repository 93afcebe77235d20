# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""How the controller follows a run: what it asks the launcher, what the answer says, and the lines that the user reads."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import re
import shlex
import statistics
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._process import parse_start, parse_stat
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import shown_environment

#: Around the launcher's answer, so that what is missing in it is missing there and not lost on the way.
_ANSWER = "gpufabric.nccl"
#: How much of the events one poll brings.
_MOST_EVENTS = 1 << 18
#: Characters of an event that are waited for. One with the results of 4096 ranks has a few million.
LONGEST_EVENT = 1 << 26
#: How much of the output one call brings, in blocks of 64 KiB.
_MOST_BLOCKS = 48
_BLOCK = 1 << 16
#: Of a number in an event; 64 bits have 20.
_MOST_DIGITS = 30
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?\Z")

Event = t.Mapping[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Look:
    """What the launcher answers to a poll. ``there`` False: the run's files are gone, or are those of another run."""

    there: bool
    alive: bool = False
    events: str = ""

    @property
    def has_more(self) -> bool:
        """Whether there may be events that have not come yet."""
        return len(self.events) >= _MOST_EVENTS


def look_command(directory: str, pid: int, offset: int) -> str:
    """The shell command of a poll, for ``parse_look``. ``directory``: the run's mpi. ``offset``: bytes of events that are known.

    It leaves a note that somebody has asked. The process comes first: it writes what came of the run before it ends, so that one
    which is gone without is lost.
    """
    stat, polled, run, events = (
        shlex.quote(path)
        for path in (
            f"/proc/{pid}/stat",
            *(os.path.join(directory, name) for name in ("polled", "run.json", "events.jsonl")),
        )
    )
    return (
        f"echo {_ANSWER}; {{ test -e {run} && touch {polled}; cat {stat} || echo; cat {run} || echo;"
        f" tail -c +{offset + 1} {events} | head -c {_MOST_EVENTS}; }} 2>/dev/null; echo; echo {_ANSWER}"
    )


def parse_look(text: str, pid: int, start: int) -> Look | None:
    """What a poll's command printed; None where it did not run to its end. Others may have printed something, too.

    ``pid``, ``start``: of the runner, as parse_start has it.
    """
    lines = _framed(text)
    if lines is None or len(lines) < 3:
        return None
    stat, run, *events = lines
    known = next(iter(parse_events([run])), {})
    if (known.get("pid"), known.get("start")) != (pid, start):
        return Look(False)
    # The line end before the mark is not the events'.
    return Look(True, is_alive(stat, start), "\n".join(events))


def is_alive(stat: str | None, start: int) -> bool:
    """Whether a process runs, from the text of its /proc/PID/stat. Nobody may be there to reap one that has ended."""
    return stat is not None and ")" in stat and parse_stat(stat)[0] not in "ZX" and parse_start(stat) == start


def read_command(path: str, offset: int) -> str:
    """The shell command that brings a part of a file, for ``parse_part``. ``offset``: bytes, of whole parts."""
    part = f"if={shlex.quote(path)} bs={_BLOCK} skip={offset // _BLOCK} count={_MOST_BLOCKS}"
    return f"echo {_ANSWER}; dd {part} 2>/dev/null | base64; echo {_ANSWER}"


def parse_part(text: str) -> tuple[bytes, bool] | None:
    """The bytes that a part brought and whether there are more; None where it did not come whole."""
    lines = _framed(text)
    if lines is None:
        return None
    text = "".join(lines)
    # What b64decode takes differs between versions of Python.
    if not _BASE64.match(text):
        return None
    part = base64.b64decode(text)
    return part, len(part) == _BLOCK * _MOST_BLOCKS


def _framed(text: str) -> list[str] | None:
    lines = text.replace("\r", "").split("\n")
    if lines.count(_ANSWER) < 2:
        return None
    begin = lines.index(_ANSWER)
    end = len(lines) - 1 - lines[::-1].index(_ANSWER)
    return lines[begin + 1 : end]


class Journal:
    """The events of a run as they come, in parts that may end anywhere. ``offset``: bytes that have come."""

    def __init__(self) -> None:
        self.offset = 0
        self._part = ""

    def feed(self, text: str) -> list[Event]:
        """The events that are whole now. They are ASCII, so that characters are bytes."""
        self.offset += len(text)
        *lines, part = (self._part + text).split("\n")
        # What follows of a longer one is no event either.
        self._part = part if len(part) <= LONGEST_EVENT else ""
        return parse_events(lines)


def parse_events(lines: t.Iterable[str]) -> list[Event]:
    """Events from the lines of their file. One that was cut off with its runner, or is no event, is passed over."""
    found: list[Event] = []
    for line in lines:
        try:
            event = json.loads(line, parse_int=_integer)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            found.append(event)
    return found


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        # Python before 3.10.7 takes hours for a number of millions of digits.
        raise ValueError("a number of too many digits")
    return int(digits)


def poll_interval(elapsed: float, quiet: float) -> float:
    """How many seconds to leave a run alone that has been followed for so long, and has had no news for so long.

    A part of that, so that no end is noticed late; not long while rows come.
    """
    return min(0.15 * (1 + elapsed), max(2.0, 0.15 * (1 + quiet)), 15.0)


def render_time(seconds: float) -> str:
    """A time in words, as exact as an estimate is."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


_COLUMNS = (("size (B)", 14), ("time (us)", 12), ("algbw (GB/s)", 14), ("busbw (GB/s)", 14), ("#wrong", 8))


def render_header(both: bool) -> str:
    """What stands above rows. ``both``: the in-place half too."""
    halves = ["out-of-place:", "in-place:"] if both else [""]
    size, *rest = _COLUMNS
    columns = [size, *rest * len(halves)]
    names = "".join(f"{name:>{width}}" for name, width in columns)
    if not both:
        return names
    width = sum(width for _name, width in rest)
    return " " * size[1] + "".join(f"{half:>{width}}" for half in halves) + "\n" + names


def render_row(row: t.Mapping[str, t.Any], both: bool) -> str:
    """A row of a result document, in the columns of ``render_header``. What was not measured is a dash."""
    halves = [row["out_of_place"], row["in_place"]] if both else [row["out_of_place"] or row["in_place"]]
    cells = [str(row["size"])]
    for half in halves:
        if half is None:
            cells += ["-"] * 4
            continue
        wrong = "N/A" if half["wrong"] is None else str(half["wrong"])
        cells += [_number(half["time_us"]), _number(half["algbw"]), _number(half["busbw"]), wrong]
    size, *rest = _COLUMNS
    return "".join(f"{cell:>{width}}" for cell, (_name, width) in zip(cells, [size, *rest * len(halves)]))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def labels(points: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """What to call each point: its name, and its variables that others do not have so and that are not in the name."""
    common = set.intersection(*(set(point.get("env", {}).items()) for point in points)) if points else set()
    return [
        " ".join(
            [
                point["name"],
                *(
                    f"{name}={value}"
                    for name, value in shown_environment(point.get("env", {})).items()
                    if (name, point["env"][name]) not in common and name not in point["name"]
                ),
            ]
        )
        for point in points
    ]


class _Cycle:
    """The rows of a program that runs all sizes again and again."""

    def __init__(self) -> None:
        self._first: t.Any = None
        self._number = 1
        self._peak: tuple[float, int] | None = None

    def take(self, row: t.Mapping[str, t.Any]) -> str:
        """Take the next row: what to say of the cycle that it ends, which is nothing if it ends none."""
        key = tuple(row.get(name) for name in ("size", "type", "redop", "root"))
        told = ""
        if self._first is None:
            self._first = key
        elif key == self._first:
            peak = f", peak {self._peak[0]:.1f} GB/s" if self._peak else ""
            told = f"cycle {self._number} done{peak}"
            self._number, self._peak = self._number + 1, None
        busbw = (row["out_of_place"] or row["in_place"] or {}).get("busbw")
        if busbw is not None:
            self._peak = max(self._peak or (busbw, row["size"]), (busbw, row["size"]))
        return told


class Narrator:
    """Tells what happens, a line for each event of interest.

    ``show``: ``rows``, ``points`` (without rows) or ``none``. ``verbose``: the command line of each point, and all columns.
    """

    def __init__(self, points: t.Sequence[t.Mapping[str, t.Any]], show: str, verbose: bool) -> None:
        self._points = points
        self._labels = labels(points)
        self._show = show
        self._verbose = verbose
        self._seconds: list[float] = []
        self._ended: set[int] = set()
        self._in_table = 0
        self._cycle = _Cycle()

    def tell(self, event: Event) -> list[str]:
        """The lines of an event."""
        number = event.get("point", 0)
        if event["event"] == "ended":
            self._ended.add(number)
            if event["outcome"]["duration"] is not None:
                self._seconds.append(event["outcome"]["duration"])
        if self._show == "none" or not 0 < number <= len(self._points):
            return []
        if event["event"] == "rows":
            return self._rows(number, event["rows"])
        head = f"point {number} of {len(self._points)}, {self._labels[number - 1]}:"
        if event["event"] == "started":
            lines = [f"{head} started ({self._placed(number)}){self._left()}"]
            if self._verbose:
                lines.append(shlex.join(self._points[number - 1]["command"]))
            return lines
        outcome = event["outcome"]
        if outcome["status"] == "not_run":
            return []
        return [f"{head} {_ending(outcome)}"]

    def _rows(self, number: int, rows: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
        lines = [] if self._in_table == number or self._show != "rows" else render_header(self._verbose).split("\n")
        if self._in_table != number:
            self._in_table, self._cycle = number, _Cycle()
        for row in rows:
            done = self._cycle.take(row)
            if done:
                lines.append(f"point {number} of {len(self._points)}, {self._labels[number - 1]}: {done}")
            if self._show == "rows":
                lines.append(render_row(row, self._verbose))
        return lines

    def _placed(self, number: int) -> str:
        point = self._points[number - 1]
        count, where = (point["ranks"], "") if point["ranks_per_node"] is None else (point["ranks_per_node"], " a node")
        return f"{count} rank{'' if count == 1 else 's'}{where}"

    def _left(self) -> str:
        """The time that is left, where the pace is known."""
        if not self._seconds:
            return ""
        return f", about {render_time(statistics.median(self._seconds) * (len(self._points) - len(self._ended)))} left"


def _ending(outcome: t.Mapping[str, t.Any]) -> str:
    words = {"timeout": "timed out"}.get(outcome["status"], outcome["status"])
    if outcome["resumed"]:
        text = "finished in an earlier run, not run again"
    else:
        text = words if outcome["duration"] is None else f"{words} after {outcome['duration']:.1f} s"
    peaks = [document["summary"]["peak_busbw"] for document in outcome["results"]]
    peaks = [peak for peak in peaks if peak is not None]
    if outcome["status"] == "finished":
        return text + (f", peak {max(peaks):.1f} GB/s" if peaks else "")
    if outcome["problems"]:
        return f"{text}: {outcome['problems'][0]['cause']}"
    return text + (f": exit status {outcome['exit_status']}" if outcome["exit_status"] is not None else "")
