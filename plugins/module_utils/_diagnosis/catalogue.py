# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""A catalogue of causes: it makes Problems from ids, and finds them in what programs print.

The exit status names no cause: mpirun ends with 255 for almost everything, nccl-tests for a size that it cannot read.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import socket
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.entry import (
    ECHO,
    EFFECT,
    Entry,
    Signature,
    filled,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.reader import (
    MOST_EVIDENCE,
    OF_THE_OTHER_END,
    Facts,
    Finding,
    Reader,
    Source,
)

#: Causes that do not belong to the rank that mpirun names as the first that ended.
_OF_ALL_RANKS = ("btl-", "mca-", "mpi-", "nccl-", "test-")


class Catalogue:
    """Causes by their ids. A module ships all chapters that it imports, so it uses a catalogue of those that it needs."""

    def __init__(self, *chapters: t.Iterable[Entry]) -> None:
        self.entries = {item.id: item for chapter in chapters for item in chapter}

    @functools.cached_property
    def signatures_by_word(self) -> dict[str, list[tuple[Entry, Signature]]]:
        """What a Reader looks for."""
        found: dict[str, list[tuple[Entry, Signature]]] = {}
        for item in self.entries.values():
            for signature in item.signatures:
                found.setdefault(signature.word, []).append((item, signature))
        return found

    def problem(
        self, identity: str, host: str | None = None, evidence: str = "", severity: str | None = None, **facts: t.Any
    ) -> Problem:
        """A Problem. ``facts``: what its texts may use, with units; None is as good as no fact, and unused ones do no harm."""
        item = self.entries[identity]
        facts = {name: value for name, value in facts.items() if value is not None}
        return Problem(
            item.id, severity or item.severity, filled(item.cause, facts), filled(item.cure, facts), host, evidence
        )

    def problems_in(self, text: str) -> list[Problem]:
        """The problems that a text of this host shows."""
        return self.diagnose([Source("any", text.splitlines(), socket.gethostname())], None)

    def diagnose(
        self, sources: t.Iterable[Source], exit_status: int | None, facts: Facts | None = None
    ) -> list[Problem]:
        """Why a run failed, by host; the first cause comes first, and consequences of a cause are left out. Then what else it warns of.

        ``exit_status``: None if the run was ended from outside; nothing may be found then. If it is 0, the result is what NCCL
        complained of, as warnings. Reads each line once and keeps little of it.
        """
        reader = Reader(self.signatures_by_word, exit_status, facts or Facts())
        for source in sources:
            reader.read(source)
        merged = _merged(reader.findings, reader.host_of)
        if exit_status == 0:
            return [self._found(item, "warning") for item in _complaints(merged)] + self._unexplained(reader)
        found = _first_causes([item for item in merged if item.entry.severity == "error"], exit_status)
        first = reader.host_of_first()
        problems = [
            self._found(item, "error", None if item.entry.id.startswith(_OF_ALL_RANKS) else first) for item in found
        ]
        if not found and exit_status is not None:
            problems = [self.problem("unknown", first, "\n".join(reader.informative.lines()))]
        return problems + [
            self._found(item, "warning") for item in _without_consequences(merged) if item.entry.severity == "warning"
        ]

    def _unexplained(self, reader: Reader) -> list[Problem]:
        """The warning of complaints that no cause has."""
        if not reader.unexplained:
            return []
        (host,) = reader.unexplained_hosts if len(reader.unexplained_hosts) == 1 else (None,)
        return [self.problem("nccl-complaint", host, "\n".join(reader.unexplained.values()))]

    def _found(self, item: Finding, severity: str, otherwise: str | None = None) -> Problem:
        """The problem of a finding. ``otherwise``: its host, if no text names one and it may be that of a single host."""
        host = item.host or (None if item.entry.shared else otherwise)
        named = {"name": host} if host else {}
        return self.problem(item.entry.id, host, "\n".join(item.evidence), severity, **{**named, **item.facts})


def _short(host: str | None) -> str | None:
    """A name without its domain; an address unchanged."""
    return host if host is None or re.match(r"[\d.]+\Z|.*:", host) else host.partition(".")[0]


def _merged(findings: t.Iterable[Finding], host_of: t.Callable[[Finding], str | None]) -> list[Finding]:
    """One finding for each cause on each host, in the order of their first lines."""
    merged: dict[tuple[str, str | None], Finding] = {}
    for finding in findings:
        host = host_of(finding)
        if finding.entry.shared and host is not None:
            finding.facts.setdefault("name", host)
            host = None
        first = merged.setdefault(
            (finding.entry.id, _short(host)), dataclasses.replace(finding, host=host, evidence=[])
        )
        first.facts.update({name: value for name, value in finding.facts.items() if name not in first.facts})
        if len(first.evidence) < MOST_EVIDENCE * 2:
            first.evidence += [line for line in finding.evidence if line not in first.evidence]
    with_host = {identity for identity, host in merged if host is not None}
    return [item for (identity, host), item in merged.items() if host is not None or identity not in with_host]


def _without_consequences(findings: t.Sequence[Finding]) -> list[Finding]:
    """The findings but those that follow from another one of the same host."""
    known = {(item.entry.id, _short(item.host)) for item in findings}
    return [item for item in findings if not any((cause, _short(item.host)) in known for cause in item.entry.follows)]


def _complaints(findings: t.Sequence[Finding]) -> list[Finding]:
    """What hosts of a run that passed have said of themselves; connections that end are part of its end."""
    kept = [item for item in _without_consequences(findings) if item.entry.precedence < ECHO]
    return sorted(kept, key=lambda item: item.entry.precedence)


def _first_causes(findings: list[Finding], exit_status: int | None) -> list[Finding]:
    """The findings that are not consequences of another one."""
    findings = _without_consequences(findings)
    causes = [item for item in findings if item.entry.precedence < EFFECT]
    blamed = {_short(item.host) for item in causes}
    effects = [
        item
        for item in findings
        if EFFECT <= item.entry.precedence < ECHO
        and not (blamed and (None in blamed or _short(item.host) in {None, *blamed}))
    ]
    kept = causes + effects
    if not kept:
        first = min((item.entry.precedence for item in findings), default=0)
        kept = [item for item in findings if item.entry.precedence == first]
    others = {_short(item.host): item.host for item in findings if item not in kept and item.host}
    if len(others) == 1:
        (host,) = others.values()
        kept = [
            dataclasses.replace(item, host=host)
            if item.host is None and item.entry.id.startswith(OF_THE_OTHER_END)
            else item
            for item in kept
        ]
    return sorted(kept, key=lambda item: (item.entry.precedence, exit_status not in item.entry.statuses))
