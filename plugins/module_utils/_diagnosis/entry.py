# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The entries of the catalogue of causes, the signatures that they are found by, and the templates of their texts."""

from __future__ import annotations

import dataclasses
import functools
import re
import typing as t

#: The precedence of findings: the smaller one is reported first. A cause is something to repair, an effect its consequence on
#: the same host, an echo what other hosts saw of it.
CAUSE, EFFECT, ECHO = 100, 200, 300

_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_WORD = re.compile(r"[A-Za-z]{3,}")


@dataclasses.dataclass(frozen=True)
class Signature:
    """How a cause shows in a text.

    ``literal``: a part of the first line, verbatim. ``regex`` is searched in that line and the next ones, ``lines`` in all,
    joined by blanks. Its groups are facts; ``host`` and ``rank`` name where the cause is. ``kinds``: of sources; empty: all.
    ``status``: the signature counts with this exit status only.
    """

    literal: str
    regex: str
    lines: int = 1
    kinds: tuple[str, ...] = ()
    status: int | None = None

    @functools.cached_property
    def pattern(self) -> t.Pattern[str]:
        """The compiled ``regex``; few of the catalogue's are ever needed."""
        return re.compile(self.regex)

    @property
    def word(self) -> str:
        """The literal's longest word; lines without it are skipped."""
        return max(words(self.literal), key=len)


@dataclasses.dataclass(frozen=True)
class Entry:
    """A cause. ``cause`` and ``cure`` are templates, for ``filled``.

    ``found_by``: what finds it if no output shows it. ``statuses``: exit statuses that go with it, and prove nothing alone.
    ``versions``: of the programs that it concerns; empty: all. ``source``: the program and the place of the texts in its
    source or documentation, if no real output has shown them yet. ``follows``: causes that it may be a consequence of; it is
    left out if one of them is found on the same host. ``shared``: its reason is a setting of all hosts, or lies between hosts;
    the host that reports it first is ``name`` in the texts and is not to blame.
    """

    id: str
    cause: str
    cure: str
    signatures: tuple[Signature, ...] = ()
    precedence: int = CAUSE
    severity: str = "error"
    statuses: tuple[int, ...] = ()
    versions: str = ""
    found_by: str = ""
    source: str = ""
    follows: tuple[str, ...] = ()
    shared: bool = False

    @property
    def meaning(self) -> str:
        """The cause without any facts."""
        return filled(self.cause, {})


def words(line: str) -> list[str]:
    """The words of a line that ``Signature.word`` may be one of."""
    return _WORD.findall(line)


def signature(literal: str, pattern: str | None = None, **more: t.Any) -> Signature:
    """A Signature; without a pattern, the literal alone is searched."""
    return Signature(literal, re.escape(literal) if pattern is None else pattern, **more)


def entry(identity: str, cause: str, cure: str, *signatures: Signature, **more: t.Any) -> Entry:
    """An Entry."""
    return Entry(identity, cause, cure, signatures, **more)


def filled(template: str, facts: t.Mapping[str, t.Any]) -> str:
    """A template with its facts. Of ``[with {fact}|without]`` the first half stays if all of its facts are given, else the second."""

    def option(match: t.Match[str]) -> str:
        with_facts, _bar, without = match.group(1).partition("|")
        try:
            return with_facts.format_map(facts)
        except KeyError:
            return without

    return _OPTIONAL.sub(option, template)
