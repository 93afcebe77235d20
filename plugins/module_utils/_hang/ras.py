# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What NCCL's RAS says of the communicators of a job, from its answers to VERBOSE STATUS, in text or JSON.

The formats are those of ``rasClientRunComms`` and ``rasDumpCommsToJSON`` in src/ras/client_support.cc:

- Text of NCCL 2.24.3 and 2.25.1 has one count for all collectives, and ``The missing ranks: 3,4``.
- Text of NCCL 2.26.2 to 2.30.7 has a count for each collective, and a line for each missing rank.
- JSON of NCCL 2.28.7 and 2.28.9 lacks a comma after ``nvml_dev`` of a missing rank; that of 2.29.2 to 2.30.7 is whole.
- RCCL (projects/rccl/src/ras of ROCm/rocm-systems, on NCCL 2.30) differs in the first two lines of the text alone.

The text lists only ranks of groups that are less than half of their communicator. JSON lists all. A rank is named by the address of its
host, its pid, and its GPU.
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

_MOST = 6 << 20
_LONGEST_LINE = 1 << 10
_MOST_RANKS = 1 << 17
_MOST_COMMUNICATORS = 1 << 12
#: The error code of a JSON document's ``init_state`` while a communicator is set up: ncclInProgress in nccl.h.
_IN_PROGRESS = 7

_NODE = re.compile(r"[0-9A-Fa-f.:]{2,45}\Z")
_VERSION = re.compile(r"[\w.+-]{1,40}\Z", re.ASCII)
_FIRST_LINE = re.compile(r"(?:NCCL|RCCL) version (\S{1,40}) compiled with ")
_ROW = re.compile(r" *(\d{1,9}) +\d{1,9} +\d{1,9} +\d{1,9}(?:-\d{1,9})? +(\d{1,9}) +\d{1,9} +[A-Z]+ +[A-Z,]+ *\Z")
_SECTION = re.compile(r"#(\d{1,9})-(\d{1,9}) \(([0-9a-f]{1,16})\) (INCOMPLETE|ERROR|MISMATCH) *\Z")
_JOB_SECTION = re.compile(r"(INCOMPLETE|DEAD|TIMEOUT) *\Z")
_COUNTS = re.compile(r"  Communicator ranks have different (\w{1,40}) operation counts *\Z", re.ASCII)
_GROUP = re.compile(r"  (\d{1,9}) ranks have (?:launched up to operation (\d{1,18})|not launched any operations) *\Z")
_ALONE = r"(?P<alone> has launched up to operation (?P<count>\d{1,18})| has not launched any operations)?"
_PLACE = r"GPU (?P<gpu>\d{1,4})(?: \(NVML \d{1,4}\))? managed by process (?P<pid>\d{1,9}) on node (?P<node>\S{2,45})"
_RANK = re.compile(rf"  Rank (?P<rank>\d{{1,7}}){_ALONE} -- (?:{_PLACE}|\[process information not found\]) *\Z")
_MISSING = re.compile(r"  The missing ranks?: (\d[\d,]{0,999}) *\Z")
#: In JSON of NCCL 2.28.7 and 2.28.9.
_NO_COMMA = re.compile(r'("nvml_dev": -?\d{1,9})(\s{1,80}"status")')


@dataclasses.dataclass(frozen=True)
class Place:
    """The process of a rank. ``node``: the address of its host; None if RAS does not know it."""

    node: str | None = None
    pid: int | None = None
    gpu: int | None = None


@dataclasses.dataclass
class Communicator:
    """``counts``: how many operations of each kind a rank has launched, as far as it is said. ``groups``: how many ranks have launched
    so many. ``silent``: ranks that RAS gets no answer from.
    """

    size: int | None = None
    counts: dict[str, dict[int, int]] = dataclasses.field(default_factory=dict)
    groups: dict[str, dict[int, int]] = dataclasses.field(default_factory=dict)
    places: dict[int, Place] = dataclasses.field(default_factory=dict)
    silent: set[int] = dataclasses.field(default_factory=set)

    def most(self) -> dict[str, int]:
        """The highest count of each kind of operation."""
        return {kind: max(found) for kind, found in self.groups.items() if found}

    def behind(self) -> dict[int, int]:
        """The ranks that have launched fewer operations than others, and how many fewer. Of a kind that most are late with, none."""
        found: dict[int, int] = {}
        for kind, most in self.most().items():
            groups = self.groups[kind]
            late = sum(number for count, number in groups.items() if count < most)
            if late * 2 > sum(groups.values()):
                continue
            for rank, count in self.counts.get(kind, {}).items():
                if count < most:
                    found[rank] = found.get(rank, 0) + most - count
        return found


@dataclasses.dataclass
class Report:
    """An answer, by the hashes of its communicators."""

    version: str | None = None
    communicators: dict[str, Communicator] = dataclasses.field(default_factory=dict)


def parse_report(text: str) -> Report | None:
    """An answer of RAS; None if it is none, or was cut off within JSON. Whatever a line does not say as expected is left out."""
    if len(text) > _MOST:
        return None
    return _parse_json(text) if text.lstrip().startswith("{") else _parse_text(text)


def _parse_text(text: str) -> Report | None:
    report = Report()
    sizes: dict[str, int] = {}
    communicator: Communicator | None = None
    kind: str | None = None
    section = ""
    group: int | None = None
    for line in text.split("\n"):
        line = line.rstrip("\r")
        if not line.strip() or len(line) > _LONGEST_LINE:
            continue
        first = None if report.version else _FIRST_LINE.match(line)
        if first:
            report.version = first[1] if _VERSION.match(first[1]) else None
            continue
        match = _SECTION.match(line)
        if match:
            if len(report.communicators) >= _MOST_COMMUNICATORS:
                return None
            communicator = report.communicators.setdefault(match[3], Communicator(sizes.get(match[1])))
            section, kind, group = match[4], None, None
        elif _JOB_SECTION.match(line) or not line.startswith(" "):
            communicator, kind, group = None, None, None
        elif communicator is None:
            match = _ROW.match(line)
            if match:
                sizes[match[1]] = int(match[2])
        elif section == "MISMATCH":
            kind, group = _read_mismatch(line, communicator, kind, group)
        elif section == "INCOMPLETE":
            _read_missing(line, communicator)
    return report if report.version or report.communicators else None


def _read_mismatch(
    line: str, communicator: Communicator, kind: str | None, group: int | None
) -> tuple[str | None, int | None]:
    """The kind of operations and the count that the next lines are of."""
    match = _COUNTS.match(line)
    if match:
        return match[1], None
    if kind is None:
        # Of the different states of ranks.
        return None, None
    match = _GROUP.match(line)
    if match:
        count = int(match[2] or 0)
        groups = communicator.groups.setdefault(kind, {})
        groups[count] = groups.get(count, 0) + int(match[1])
        return kind, count
    match = _RANK.match(line)
    if match:
        rank = int(match["rank"])
        if match["alone"]:
            groups = communicator.groups.setdefault(kind, {})
            groups[int(match["count"] or 0)] = groups.get(int(match["count"] or 0), 0) + 1
        count = int(match["count"] or 0) if match["alone"] else group if group is not None else -1
        if count >= 0:
            communicator.counts.setdefault(kind, {})[rank] = count
            communicator.places[rank] = _place(match)
    return kind, group


def _read_missing(line: str, communicator: Communicator) -> None:
    match = _MISSING.match(line)
    if match:
        communicator.silent |= {int(word) for word in match[1].split(",") if word and len(word) < 8}
    match = _RANK.match(line)
    if match and not match["alone"]:
        communicator.silent.add(int(match["rank"]))
        communicator.places[int(match["rank"])] = _place(match)


def _place(match: t.Match[str]) -> Place:
    if match["node"] is None or not _NODE.match(match["node"]):
        return Place()
    return Place(match["node"], int(match["pid"]), int(match["gpu"]))


def _parse_json(text: str) -> Report | None:
    try:
        value = json.loads(_NO_COMMA.sub(r"\1,\2", text), parse_int=_parsed_number)
    except (ValueError, RecursionError):
        return None
    entries = value.get("communicators") if isinstance(value, dict) else None
    if not isinstance(entries, list) or len(entries) > _MOST_COMMUNICATORS:
        return None
    version = value.get("nccl_version")
    report = Report(version if isinstance(version, str) and _VERSION.match(version) else None)
    left = _MOST_RANKS
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("hash"), str):
            continue
        found = Communicator(_number(entry.get("size")))
        for rank in _entries(entry.get("ranks"))[:left]:
            _add_rank(found, rank)
        for rank in _entries(entry.get("missing_ranks"))[:left]:
            number, status = _number(rank.get("rank")), rank.get("status")
            # One that answers, but has left the communicator, is not silent.
            if number is not None and isinstance(status, dict) and status.get("unresponsive") is True:
                found.silent.add(number)
                found.places[number] = _json_place(rank)
        left -= len(found.places)
        report.communicators[f"{entry['hash'][:40]} {str(entry.get('secondary_hash'))[:80]}"] = found
    return report


def _add_rank(found: Communicator, entry: t.Mapping[str, t.Any]) -> None:
    number, counts, status = _number(entry.get("rank")), entry.get("collective_counts"), entry.get("status")
    if number is None or not isinstance(counts, dict) or not isinstance(status, dict):
        return
    if status.get("init_state") == _IN_PROGRESS:
        # It has not launched anything yet, as no other has.
        return
    found.places[number] = _json_place(entry)
    for kind, value in counts.items():
        count = _number(value)
        if count is not None and len(kind) <= 40:
            found.counts.setdefault(kind, {})[number] = count
            groups = found.groups.setdefault(kind, {})
            groups[count] = groups.get(count, 0) + 1


def _json_place(entry: t.Mapping[str, t.Any]) -> Place:
    node, pid = entry.get("host"), _number(entry.get("pid"))
    if not isinstance(node, str) or not _NODE.match(node) or pid is None:
        return Place(gpu=_number(entry.get("cuda_dev")))
    return Place(node, pid, _number(entry.get("cuda_dev")))


def _entries(value: t.Any) -> list[dict[str, t.Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _number(value: t.Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _parsed_number(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError("the number is too long")
    return int(digits)


class Late(t.NamedTuple):
    """A rank as RAS knows it. ``behind``: how many collectives fewer than the others it has launched; None if RAS gets no answer from it.

    ``size``: of its communicator, if RAS says it.
    """

    rank: int
    place: Place
    behind: int | None
    size: int | None


def late_ranks(first: Report, second: Report) -> list[Late]:
    """The ranks that are behind in both answers, while their communicator launches nothing more, and those that are silent in the second.

    An answer alone proves nothing: ranks that go on are apart for moments, too.
    """
    found = []
    for name, after in second.communicators.items():
        before = first.communicators.get(name)
        if before is not None and before.most() == after.most():
            earlier = before.behind()
            for rank, behind in sorted(after.behind().items()):
                if earlier.get(rank) == behind:
                    found.append(Late(rank, after.places.get(rank, Place()), behind, after.size))
        if before is not None:
            for rank in sorted(after.silent & before.silent):
                found.append(Late(rank, after.places.get(rank, Place()), None, after.size))
    return found
