# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Reads what programs print, line by line, and finds the signatures of causes."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.entry import Entry, Signature, words

#: Causes at the other end of a connection: their host is the address in the text, or the host that mpirun names elsewhere.
OF_THE_OTHER_END = (
    "account-",
    "connect-",
    "daemon-",
    "host-key-",
    "login-shell",
    "mpi-version-",
    "ssh-banner-",
    "ssh-closed",
    "ssh-not-",
)

#: What ranks say of one on another host: that is the host that the text names, if it names one, and never the one that says so.
_OF_ANOTHER_RANK = ("mpi-peer-gone", "nccl-remote-error")

#: What NCCL and RCCL begin a warning with.
COMPLAINT = "NCCL WARN "

#: Characters of a line that are read; binary output may be one endless line.
_LONGEST = 4096
#: The same of the lines of a window together; the frames that mpirun prints have some hundred.
_LONGEST_WINDOW = 8192
#: If a signature was not in so many texts longer than _USUAL, only the beginnings of such texts are searched for it: no pattern may
#: cost minutes in a log that somebody fills with lines for it.
_MOST_LONG, _USUAL = 200, 2048
_MOST_FINDINGS = 10_000
#: Of a host.
_LONGEST_NAME = 253
MOST_EVIDENCE = 3
#: Complaints that are kept though nothing is known of them.
MOST_UNEXPLAINED = 8
_WIDTH = 300

_FRAME = re.compile(r"\s*-{20,}\s*\Z")
#: Prefixes of a line, each at most once: a time, a rank (mpirun --tag-output, srun --label), a pod, a syslog header, UCX's time.
_PREFIXES = (
    re.compile(r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*\]? (?:ERROR |WARN |INFO )?"),
    re.compile(r"\s*\[(?:[\w.-]+@)?\d+,(?P<rank>\d+)\]<std(?:out|err|diag)>: ?"),
    re.compile(r" *(?P<rank>\d+): (?!Test )"),
    re.compile(r"\[pod/(?P<host>[^/\]]+)/[^\]]*\] "),
    re.compile(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?P<host>[\w.-]+) [\w./-]+(?:\[\d+\])?: "),
    re.compile(r"\[\d{10}\.\d{6}\] +(?=\[)"),
)
#: The program that printed a line, with its host: NCCL, Open MPI, nccl-tests. A line may begin with what another rank has printed.
_SPEAKERS = re.compile(
    r"(?<![\w.-])(?P<nccl>[\w.-]+):\d+:\d+ \[-?\d+\] "
    r"|^\[(?=[\w.-]{0,252}[A-Za-z])(?P<mpi>[\w.-]{1,253}):\d{1,10}\S{0,200}\] "
    r"|(?<![\w.-])(?P<test>[\w.-]+): Test (?:CUDA|NCCL|HIP|RCCL) failure"
)
#: What nccl-tests prints of a call that failed.
_TEST_FAILURE = re.compile(r"Test (?:CUDA|NCCL|HIP|RCCL) failure|(?:CUDA|NCCL) failure [\w.]+:\d")
_RANK_LINE = re.compile(r"(?<!\w)Rank\s{1,20}(\d{1,9})\s.{0,200}?\bon\s{1,20}(\S{1,255})\s{1,20}device\s")
_FIRST_ENDED = re.compile(r"\s*Process name: +\[\S+,(\d+)\]\s")
#: Compared with words in lower case.
_INFORMATIVE = frozenset(
    (
        "abort", "aborted", "aborting", "cannot", "denied", "error", "errors", "exception", "fail", "failed", "failure",
        "fatal", "invalid", "killed", "missing", "not", "refused", "signal", "timed", "timeout", "traceback", "unable",
        "unknown", "warn", "warning",
    )
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Source:
    """A text to search. ``kind``: ``launcher`` (mpirun and its ranks), ``ssh``, ``sshd``, ``kubernetes`` or ``kernel``, by what printed
    it, or ``any``. ``lines``: an iterable such as an open file. ``host``: where it was written; None for the output of
    mpirun, which comes from all hosts. ``name``: of the file, for the evidence. ``numbered``: whether the evidence has the numbers of
    the lines; they say nothing of a part of a text.
    """

    kind: str
    lines: t.Iterable[str]
    host: str | None = None
    name: str = ""
    numbered: bool = True


@dataclasses.dataclass(frozen=True)
class Facts:
    """What is known of the run. ``names``: the names of hosts by their other names and addresses. ``ranks``: hosts by rank."""

    names: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    ranks: t.Mapping[int, str] = dataclasses.field(default_factory=dict)


#: The signatures to search, each with its entry, by Signature.word.
SignaturesByWord = t.Mapping[str, t.Sequence[t.Tuple[Entry, Signature]]]


@dataclasses.dataclass
class Finding:
    """A signature that was found. ``host`` and ``rank``: where the cause is, if the text names it."""

    entry: Entry
    host: str | None
    rank: int | None
    facts: dict[str, str]
    evidence: list[str]


@dataclasses.dataclass
class _Window:
    """A line with a signature, and the next lines of the same rank; lines of other ranks may come between them."""

    entry: Entry
    signature: Signature
    first: _Place
    texts: list[str]
    shown: list[str]


@dataclasses.dataclass(frozen=True)
class _Place:
    rank: int | None
    host: str | None


class Reader:
    """Goes through texts, and keeps little of them."""

    def __init__(self, signatures: SignaturesByWord, exit_status: int | None, facts: Facts) -> None:
        self._signatures = signatures
        self._exit_status = exit_status
        self.findings: list[Finding] = []
        self.informative = _InformativeLines()
        #: Of a run that passed, the first lines with complaints that no signature is in, by what they say, and the hosts of all such.
        self.unexplained: dict[str, str] = {}
        self.unexplained_hosts: set[str | None] = set()
        self._names = facts.names
        self._hosts = {part for name in facts.names for part in (name, name.partition(".")[0]) if not part.isdigit()}
        self._ranks = dict(facts.ranks)
        self._first: int | None = None
        self._in_vain: collections.Counter[Signature] = collections.Counter()
        self._counts: collections.Counter[tuple[str, str | None, int | None]] = collections.Counter()

    def host_of(self, finding: Finding) -> str | None:
        """The host of a finding, by the name that the run has for it."""
        host = finding.host
        if host is None and finding.rank is not None:
            host = self._ranks.get(finding.rank)
        return self.name_of(host)

    def name_of(self, host: str | None) -> str | None:
        """A host by the name that the run has for it."""
        if host is None:
            return None
        # As ssh writes what known_hosts has: [10.0.0.1]:2222
        host = re.sub(r"\A\[(.+)\](?::\d+)?\Z", r"\1", host).strip("'\",;.")
        return self._names.get(host) or self._names.get(host.partition(".")[0]) or host

    def host_of_first(self) -> str | None:
        """The host of the rank that mpirun names as the first that ended."""
        return None if self._first is None else self._ranks.get(self._first)

    def read(self, source: Source) -> None:
        """Read all lines of a source."""
        windows: dict[str, list[_Window]] = {}
        where = f"{source.name}:" if source.name else "line "
        for number, whole in enumerate(source.lines, 1):
            raw = whole[:_LONGEST]
            # Most lines of a large log are of this kind. A torn line may hold the start of another one. NCCL itself informs of failures
            # that it ignores.
            if "NCCL INFO" in raw and "NCCL WARN" not in raw and not ("ailure" in raw and _TEST_FAILURE.search(raw)):
                continue
            found = words(raw)
            if "Rank" in found:
                self._read_rank(raw)
            if "Process" in found:
                first = _FIRST_ENDED.match(raw)
                self._first = int(first.group(1)) if first else self._first
            line = raw.rstrip("\r\n")
            # Of a run that passed, nobody else's words mean anything.
            if self._exit_status == 0 and COMPLAINT not in line:
                continue
            self.informative.add(line, found)
            candidates = [pair for word in dict.fromkeys(found) for pair in self._signatures.get(word, ())]
            if not candidates and not windows and self._exit_status != 0:
                continue
            stream, place, text = _parted(line, source, self._hosts)
            shown = f"{where}{number}: {line.strip()[:_WIDTH]}" if source.numbered else line.strip()[:_WIDTH]
            if stream in windows:
                windows[stream] = [window for window in windows[stream] if not self._extend(window, text, shown)]
            explained = False
            for item, signature in candidates:
                if signature.literal in text and self._counts_in(signature, source):
                    window = _Window(item, signature, place, [text.strip()], [shown])
                    if signature.lines == 1:
                        explained = self._close(window) or explained
                    else:
                        windows.setdefault(stream, []).append(window)
            if self._exit_status == 0 and not explained:
                self.unexplained_hosts.add(self.name_of(place.host))
                if len(self.unexplained) < MOST_UNEXPLAINED:
                    self.unexplained.setdefault(text.partition(COMPLAINT)[2], shown)
        for window in itertools.chain.from_iterable(windows.values()):
            self._close(window)

    def _counts_in(self, signature: Signature, source: Source) -> bool:
        """Whether a signature counts in a source."""
        return (not signature.kinds or source.kind in signature.kinds) and signature.status in (None, self._exit_status)

    def _read_rank(self, line: str) -> None:
        match = _RANK_LINE.search(line)
        if match:
            self._ranks.setdefault(int(match.group(1)), match.group(2))

    def _extend(self, window: _Window, text: str, shown: str) -> bool:
        """Add the next line of its stream to a window; return whether the window is done."""
        framed = _FRAME.match(text) is not None
        if not framed and text.strip():
            window.texts.append(text.strip())
            window.shown.append(shown)
        if framed or len(window.texts) >= window.signature.lines:
            self._close(window)
            return True
        return False

    def _close(self, window: _Window) -> bool:
        """Keep what a window shows; return whether its signature is in it."""
        text = " ".join(window.texts)[:_LONGEST_WINDOW]
        if len(text) > _USUAL and self._in_vain[window.signature] >= _MOST_LONG:
            text = text[:_USUAL]
        match = window.signature.pattern.search(text)
        if match is None:
            self._in_vain[window.signature] += len(text) > _USUAL
            return False
        facts = {name: value.strip() for name, value in match.groupdict().items() if value}
        named = facts.pop("host", None)
        if named == "Unknown":
            named = None
        if named is None and window.entry.id.startswith(OF_THE_OTHER_END):
            named = facts.get("address")
        place = _Place(None, None) if window.entry.id in _OF_ANOTHER_RANK else window.first
        host = named or place.host
        rank = int(facts["rank"]) if facts.get("rank", "").isdigit() else place.rank
        key = (window.entry.id, host, rank if host is None else None)
        if self._counts[key] >= MOST_EVIDENCE or len(self.findings) >= _MOST_FINDINGS:
            return True
        self._counts[key] += 1
        matching = [
            line
            for text, line in zip(window.texts[1:], window.shown[1:])
            if any(value in text for value in match.groups() if value)
        ]
        self.findings.append(Finding(window.entry, host, rank, facts, [window.shown[0], *matching[:4]]))
        return True


def _parted(line: str, source: Source, hosts: t.AbstractSet[str]) -> tuple[str, _Place, str]:
    """The stream that a line belongs to, the rank and host that printed it, and the line without its prefixes."""
    rank, host, start = None, None, 0
    for prefix in _PREFIXES:
        match = prefix.match(line, start)
        if match:
            groups = match.groupdict()
            rank = int(groups["rank"]) if groups.get("rank") else rank
            host = groups.get("host") or host
            start = match.end()
    text = line[start:]
    speaker: re.Match[str] | None = None
    # Of lines that ran into one another, only the last has its end.
    for speaker in _SPEAKERS.finditer(text):
        host = _host_behind(speaker.group(speaker.lastgroup or 0), hosts)
    return f"{rank} {host if speaker is None else ''}", _Place(rank, host or source.host), text


def _host_behind(word: str, hosts: t.AbstractSet[str]) -> str:
    """The host of a speaker: what another one has printed may end right before its name, such as a row of the table in ``-1g1``."""
    end = word[-_LONGEST_NAME:]
    return next((end[begin:] for begin in range(len(end)) if end[begin:] in hosts), word)


class _InformativeLines:
    """The lines that may show an unknown cause: the first ones with words of failure, and the last ones."""

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
            # Open MPI's general advice may be pages long: it gets the room that is left.
            if len(self._advice) < 20:
                self._advice.append(item)
        elif line.strip():
            self._last.append(item)
            sounds = len(self._sounding) < 10 and not _INFORMATIVE.isdisjoint(word.lower() for word in found)
            if sounds and item[1] not in (text for _number, text in self._sounding):
                self._sounding.append(item)

    def lines(self, most: int = 20) -> list[str]:
        """At most ``most`` of them, in the order of the text."""
        kept = list(self._sounding)
        kept += [item for item in self._last if item not in kept][len(kept) - most :]
        kept += self._advice[: most - len(kept)]
        return [line for _number, line in sorted(kept)]
