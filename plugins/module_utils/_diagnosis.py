# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What is wrong: the catalogue of causes, and how they are found in what programs print.

The exit status names no cause: mpirun gives 255 for almost everything, and nccl-tests gives it for a size it cannot read.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils import (
    _diagnosis_gpu,
    _diagnosis_kubernetes,
    _diagnosis_launch,
    _diagnosis_nccl,
    _diagnosis_nodes,
    _diagnosis_ssh,
    _diagnosis_system,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis_entry import (
    ECHO,
    EFFECT,
    Entry,
    Sign,
    entry,
    filled,
    words,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._problem import Problem

#: What the texts of a Source are: all that mpirun and its ranks print, what one program prints, or anything.
KINDS = ("launcher", "ssh", "sshd", "kubernetes", "kernel", "any")

#: The entries of each chapter of the documentation.
DOMAINS: dict[str, tuple[Entry, ...]] = {
    "What the workers have": _diagnosis_nodes.ENTRIES,
    "Names and ssh": _diagnosis_ssh.ENTRIES,
    "mpirun and the program": _diagnosis_launch.ENTRIES,
    "NCCL and nccl-tests": _diagnosis_nccl.ENTRIES,
    "GPUs": _diagnosis_gpu.ENTRIES,
    "Memory, limits, files, networks": _diagnosis_system.ENTRIES,
    "Kubernetes": _diagnosis_kubernetes.ENTRIES,
    "Anything else": (
        entry(
            "unknown",
            "It failed, and the cause is not one that the collection knows.",
            "Read the lines that are shown, and the whole output; run it again with NCCL_DEBUG=INFO, and mpi_preflight.",
            primacy=ECHO + 90,
        ),
    ),
}
CATALOGUE: dict[str, Entry] = {item.id: item for entries in DOMAINS.values() for item in entries}

_BY_WORD: dict[str, list[tuple[Entry, Sign]]] = {}
for _entry in CATALOGUE.values():
    for _sign in _entry.signs:
        _BY_WORD.setdefault(_sign.word, []).append((_entry, _sign))

#: Of these it is the other end that something is wrong with: the address that was asked for, or what mpirun names elsewhere.
_OF_THE_OTHER_END = (
    "account-",
    "connect-",
    "daemon-",
    "host-key-",
    "mpi-version-",
    "ssh-banner-",
    "ssh-closed",
    "ssh-not-",
)

#: What mpirun says of a cause that only a look at the host can name.
_SEEN_CLOSER = {
    "mpi-prefix-differs": "daemon-missing",
    "env-not-accepted": "daemon-library-missing",
    "env-not-sent": "daemon-library-missing",
    "ssh-max-startups": "ssh-closed",
    "callback-refused": "callback-timeout",
    "callback-rejected": "callback-timeout",
    "callback-unreachable": "callback-timeout",
}
#: What is no single rank's, where mpirun names the one that ended first.
_OF_ALL_RANKS = ("btl-", "mca-", "mpi-", "nccl-", "test-")

#: Of what a program prints that is no text, a line may have no end.
_LONGEST = 4096
_MOST_FINDINGS = 10_000
_MOST_EVIDENCE = 3
_WIDTH = 300

_FRAME = re.compile(r"\s*-{20,}\s*\Z")
#: What may stand before a line, each at most once: a time, a rank (mpirun --tag-output, srun --label), a pod, a syslog header.
_PREFIXES = (
    re.compile(r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*\]? (?:ERROR |WARN |INFO )?"),
    re.compile(r"\s*\[(?:[\w.-]+@)?\d+,(?P<rank>\d+)\]<std(?:out|err|diag)>: ?"),
    re.compile(r" *(?P<rank>\d+): (?!Test )"),
    re.compile(r"\[pod/(?P<host>[^/\]]+)/[^\]]*\] "),
    re.compile(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?P<host>[\w.-]+) [\w./-]+(?:\[\d+\])?: "),
)
#: Who speaks: NCCL, Open MPI, nccl-tests.
_SPEAKERS = re.compile(
    r"(?:^|[\s:])(?P<nccl>[\w.-]+):\d+:\d+ \[-?\d+\] "
    r"|^\[(?P<mpi>[\w.-]*[A-Za-z][\w.-]*):\d+\S*\] "
    r"|(?:^|\s)(?P<test>[\w.-]+): Test (?:CUDA|NCCL|HIP|RCCL) failure"
)
_RANK_LINE = re.compile(r"#?\s*Rank\s+(\d+)\s.*?\bon\s+(\S+)\s+device\s")
_FIRST_ENDED = re.compile(r"\s*Process name: +\[\S+,(\d+)\]\s")
#: Compared with words in lower case.
_TELLING = frozenset(
    (
        "abort", "aborted", "aborting", "cannot", "denied", "error", "errors", "exception", "fail", "failed", "failure",
        "fatal", "invalid", "killed", "missing", "not", "refused", "signal", "timed", "timeout", "traceback", "unable",
        "unknown", "warn", "warning",
    )
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Source:
    """A text to look at. ``lines``: its lines, as they come, such as an open file. ``host``: where it was written; None for
    what mpirun printed, which is of all hosts. ``name``: of the file, for the evidence.
    """

    kind: str
    lines: t.Iterable[str]
    host: str | None = None
    name: str = ""


@dataclasses.dataclass(frozen=True)
class Facts:
    """What is known of the run. ``names``: the hosts' names by what else they are called. ``ranks``: hosts by rank."""

    names: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    ranks: t.Mapping[int, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class _Finding:
    entry: Entry
    host: str | None
    rank: int | None
    facts: dict[str, str]
    evidence: list[str]


@dataclasses.dataclass
class _Window:
    """A line with a sign and those after it in its stream, until there are enough; lines of other ranks come between."""

    entry: Entry
    sign: Sign
    first: _Place
    texts: list[str]
    shown: list[str]


@dataclasses.dataclass(frozen=True)
class _Place:
    rank: int | None
    host: str | None


def problem(
    identity: str, host: str | None = None, evidence: str = "", severity: str | None = None, **facts: t.Any
) -> Problem:
    """A Problem from the catalogue. ``facts``: what its texts may use; those that they do not use do no harm."""
    item = CATALOGUE[identity]
    return Problem(
        item.id, severity or item.severity, filled(item.cause, facts), filled(item.cure, facts), host, evidence
    )


def completed(problems: t.Sequence[Problem], looked: t.Iterable[Problem]) -> list[Problem]:
    """What was told of a run that failed, with the errors that a look at its hosts found: the first causes first.

    A look knows better which host it is than mpirun, which often names another one or none; what only says that the launch
    failed is left out where a look says why.
    """
    errors = [item for item in looked if item.severity == "error"]
    hosts = collections.defaultdict(set)
    for item in errors:
        hosts[item.id].add(item.host)
    # Whichever host mpirun named.
    closer = {_SEEN_CLOSER[identity] for identity in hosts if identity in _SEEN_CLOSER} - set(hosts)
    kept = [
        item
        for item in problems
        if not errors
        or (_primacy(item) < ECHO and item.id not in closer and (item.id not in hosts or item.host in hosts[item.id]))
    ]
    # A cause that names no host is that of the only one which shows what follows from it.
    followers = {item.host for item in errors if _primacy(item) >= EFFECT}
    if len(followers) == 1 and any(item.host is None and _primacy(item) < EFFECT for item in kept):
        (host,) = followers
        kept = [dataclasses.replace(item, host=host) if item.host is None else item for item in kept]
        errors = [item for item in errors if _primacy(item) < EFFECT]
    known = {(item.id, item.host) for item in kept}
    kept += [item for item in errors if (item.id, item.host) not in known]
    return sorted(kept, key=_primacy) if errors or followers else kept


def _primacy(item: Problem) -> int:
    return CATALOGUE[item.id].primacy


def diagnose(sources: t.Iterable[Source], exit_status: int | None, facts: Facts | None = None) -> list[Problem]:
    """Why a run failed, the first cause first, each host's own; what only follows from these is left out.

    ``exit_status``: None where the run was ended. Empty where it is 0, and where nothing is found in a run that was ended.
    Reads each line once and keeps little of it.
    """
    if exit_status == 0:
        return []
    reader = _Reader(exit_status, facts or Facts())
    for source in sources:
        reader.read(source)
    found = _first_causes(_merged(reader.findings, reader.host_of), exit_status)
    first = reader.host_of_first()
    if not found and exit_status is not None:
        return [problem("unknown", first, "\n".join(reader.telling.lines()))]
    problems = []
    for item in found:
        host = item.host or (None if item.entry.id.startswith(_OF_ALL_RANKS) else first)
        named = {"name": host} if host else {}
        problems.append(problem(item.entry.id, host, "\n".join(item.evidence), **{**named, **item.facts}))
    return problems


class _Reader:
    """Goes through texts, line by line."""

    def __init__(self, exit_status: int | None, facts: Facts) -> None:
        self._exit_status = exit_status
        self.findings: list[_Finding] = []
        self.telling = _Telling()
        self._names = facts.names
        self._ranks = dict(facts.ranks)
        self._first: int | None = None
        self._counts: collections.Counter[tuple[str, str | None, int | None]] = collections.Counter()

    def host_of(self, finding: _Finding) -> str | None:
        """Whose a finding is, by the name that the run knows."""
        host = finding.host
        if host is None and finding.rank is not None:
            host = self._ranks.get(finding.rank)
        if host is None:
            return None
        # As ssh writes what known_hosts has: [10.0.0.1]:2222
        host = re.sub(r"\A\[(.+)\](?::\d+)?\Z", r"\1", host).strip("'\",;.")
        return self._names.get(host) or self._names.get(host.partition(".")[0]) or host

    def host_of_first(self) -> str | None:
        """Where the rank was that mpirun names as the first that ended."""
        return None if self._first is None else self._ranks.get(self._first)

    def read(self, source: Source) -> None:
        """Look at all lines of a source."""
        windows: dict[str, list[_Window]] = {}
        where = f"{source.name}:" if source.name else "line "
        for number, whole in enumerate(source.lines, 1):
            raw = whole[:_LONGEST]
            # Nearly all lines of a large log; a line may be torn and hold the start of another.
            if "NCCL INFO" in raw and "NCCL WARN" not in raw and "ailure" not in raw:
                continue
            found = words(raw)
            if "Rank" in found:
                self._read_rank(raw)
            if "Process" in found:
                first = _FIRST_ENDED.match(raw)
                self._first = int(first.group(1)) if first else self._first
            line = raw.rstrip("\r\n")
            self.telling.add(line, found)
            candidates = [pair for word in dict.fromkeys(found) for pair in _BY_WORD.get(word, ())]
            if not candidates and not windows:
                continue
            stream, place, text = _parted(line, source)
            shown = f"{where}{number}: {line.strip()[:_WIDTH]}"
            if stream in windows:
                windows[stream] = [window for window in windows[stream] if not self._extend(window, text, shown)]
            for item, sign in candidates:
                if sign.mark in text and self._counts_in(sign, source):
                    window = _Window(item, sign, place, [text.strip()], [shown])
                    if sign.lines == 1:
                        self._close(window)
                    else:
                        windows.setdefault(stream, []).append(window)
        for window in itertools.chain.from_iterable(windows.values()):
            self._close(window)

    def _counts_in(self, sign: Sign, source: Source) -> bool:
        """Whether a sign says anything there."""
        return (not sign.kinds or source.kind in sign.kinds) and sign.status in (None, self._exit_status)

    def _read_rank(self, line: str) -> None:
        match = _RANK_LINE.search(line)
        if match:
            self._ranks.setdefault(int(match.group(1)), match.group(2))

    def _extend(self, window: _Window, text: str, shown: str) -> bool:
        """Give a window the next line of its stream; whether it is done."""
        framed = _FRAME.match(text) is not None
        if not framed and text.strip():
            window.texts.append(text.strip())
            window.shown.append(shown)
        if framed or len(window.texts) >= window.sign.lines:
            self._close(window)
            return True
        return False

    def _close(self, window: _Window) -> None:
        match = window.sign.pattern.search(" ".join(window.texts))
        if match is None:
            return
        facts = {name: value.strip() for name, value in match.groupdict().items() if value}
        told = facts.pop("host", None)
        if told == "Unknown":
            told = None
        if told is None and window.entry.id.startswith(_OF_THE_OTHER_END):
            told = facts.get("address")
        host = told or window.first.host
        rank = int(facts["rank"]) if facts.get("rank", "").isdigit() else window.first.rank
        key = (window.entry.id, host, rank if host is None else None)
        if self._counts[key] >= _MOST_EVIDENCE or len(self.findings) >= _MOST_FINDINGS:
            return
        self._counts[key] += 1
        telling = [
            line
            for text, line in zip(window.texts[1:], window.shown[1:])
            if any(value in text for value in match.groups() if value)
        ]
        self.findings.append(_Finding(window.entry, host, rank, facts, [window.shown[0], *telling[:4]]))


def _parted(line: str, source: Source) -> tuple[str, _Place, str]:
    """The stream that a line belongs to, who speaks in it, and the line without what stands before it."""
    rank, host, start = None, None, 0
    for prefix in _PREFIXES:
        match = prefix.match(line, start)
        if match:
            groups = match.groupdict()
            rank = int(groups["rank"]) if groups.get("rank") else rank
            host = groups.get("host") or host
            start = match.end()
    text = line[start:]
    speaker = _SPEAKERS.search(text)
    if speaker:
        host = speaker.group(speaker.lastgroup or 0)
    return f"{rank} {host if speaker is None else ''}", _Place(rank, host or source.host), text


class _Telling:
    """The lines that may tell a cause that is not known: the first that sound like it, and the last."""

    def __init__(self) -> None:
        self._sounding: list[tuple[int, str]] = []
        self._last: collections.deque[tuple[int, str]] = collections.deque(maxlen=20)
        self._advice: list[tuple[int, str]] = []
        self._framed = False
        self._number = 0

    def add(self, line: str, found: t.Sequence[str]) -> None:
        """A line with its words."""
        self._number += 1
        item = (self._number, line[:_WIDTH])
        if _FRAME.match(line):
            self._framed = not self._framed
        elif self._framed:
            # Advice of Open MPI on whatever may be wrong is pages long: it gets the room that is left.
            if len(self._advice) < 20:
                self._advice.append(item)
        elif line.strip():
            self._last.append(item)
            sounds = len(self._sounding) < 10 and not _TELLING.isdisjoint(word.lower() for word in found)
            if sounds and item[1] not in (text for _number, text in self._sounding):
                self._sounding.append(item)

    def lines(self, most: int = 20) -> list[str]:
        """At most so many of them, as they came."""
        kept = list(self._sounding)
        kept += [item for item in self._last if item not in kept][len(kept) - most :]
        kept += self._advice[: most - len(kept)]
        return [line for _number, line in sorted(kept)]


def _short(host: str | None) -> str | None:
    """The first part of a name; an address as it is."""
    return host if host is None or re.match(r"[\d.]+\Z|.*:", host) else host.partition(".")[0]


def _merged(findings: t.Iterable[_Finding], host_of: t.Callable[[_Finding], str | None]) -> list[_Finding]:
    """One finding for each cause on each host, in the order of their first lines."""
    merged: dict[tuple[str, str | None], _Finding] = {}
    for finding in findings:
        host = host_of(finding)
        first = merged.setdefault(
            (finding.entry.id, _short(host)), dataclasses.replace(finding, host=host, evidence=[])
        )
        first.facts.update({name: value for name, value in finding.facts.items() if name not in first.facts})
        if len(first.evidence) < _MOST_EVIDENCE * 2:
            first.evidence += [line for line in finding.evidence if line not in first.evidence]
    with_host = {identity for identity, host in merged if host is not None}
    return [item for (identity, host), item in merged.items() if host is not None or identity not in with_host]


def _first_causes(findings: list[_Finding], exit_status: int | None) -> list[_Finding]:
    """Those that follow from no other."""
    causes = [item for item in findings if item.entry.primacy < EFFECT]
    blamed = {_short(item.host) for item in causes}
    effects = [
        item
        for item in findings
        if EFFECT <= item.entry.primacy < ECHO
        and not (blamed and (None in blamed or _short(item.host) in {None, *blamed}))
    ]
    kept = causes + effects
    if not kept:
        first = min((item.entry.primacy for item in findings), default=0)
        kept = [item for item in findings if item.entry.primacy == first]
    others = {_short(item.host): item.host for item in findings if item not in kept and item.host}
    if len(others) == 1:
        (host,) = others.values()
        kept = [
            dataclasses.replace(item, host=host)
            if item.host is None and item.entry.id.startswith(_OF_THE_OTHER_END)
            else item
            for item in kept
        ]
    return sorted(kept, key=lambda item: (item.entry.primacy, exit_status not in item.entry.statuses))
