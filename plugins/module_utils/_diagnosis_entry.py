# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What an entry of the catalogue of causes is made of."""

from __future__ import annotations

import dataclasses
import re
import typing as t

#: What a finding is to others, smaller is earlier. A cause is something to mend. An effect is what became of it, on the
#: same host. An echo is what others saw of it, on any host.
CAUSE, EFFECT, ECHO = 100, 200, 300

_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_WORD = re.compile(r"[A-Za-z]{3,}")


@dataclasses.dataclass(frozen=True)
class Sign:
    """How a cause shows in a text.

    ``mark``: what its first line holds, as it is. ``pattern`` is searched in that line and those after it, ``lines`` in all,
    joined by blanks; its groups are facts, and ``host`` and ``rank`` tell whose it is. ``kinds``: of sources; empty: all.
    ``status``: where it says something together with this exit status alone.
    """

    mark: str
    pattern: t.Pattern[str]
    lines: int = 1
    kinds: tuple[str, ...] = ()
    status: int | None = None

    @property
    def word(self) -> str:
        """The mark's longest word: lines without it need not be looked at any closer."""
        return max(words(self.mark), key=len)


@dataclasses.dataclass(frozen=True)
class Entry:
    """A cause. ``cause`` and ``cure`` are templates, for ``filled``.

    ``found_by``: what finds it where no output does. ``statuses``: exit statuses that go with it, and prove nothing alone.
    ``versions``: of programs that it concerns; empty: all.
    """

    id: str
    cause: str
    cure: str
    signs: tuple[Sign, ...] = ()
    primacy: int = CAUSE
    severity: str = "error"
    statuses: tuple[int, ...] = ()
    versions: str = ""
    found_by: str = ""

    @property
    def meaning(self) -> str:
        """What it means, whatever the facts."""
        return filled(self.cause, {})

    @property
    def docs(self) -> str:
        """Where it is described."""
        return f"docs/troubleshooting.md#{self.id}"


def words(line: str) -> list[str]:
    """What of a line ``Sign.word`` is compared with."""
    return _WORD.findall(line)


def sign(mark: str, pattern: str | None = None, **more: t.Any) -> Sign:
    """A Sign; without a pattern the mark is all there is."""
    return Sign(mark, re.compile(re.escape(mark) if pattern is None else pattern), **more)


def entry(identity: str, cause: str, cure: str, *signs: Sign, **more: t.Any) -> Entry:
    """An Entry."""
    return Entry(identity, cause, cure, signs, **more)


def filled(template: str, facts: t.Mapping[str, t.Any]) -> str:
    """A template with its facts: ``[with {fact}|without]``, where the first goes if a fact is missing, and the second if none is."""

    def option(match: t.Match[str]) -> str:
        with_facts, _bar, without = match.group(1).partition("|")
        try:
            return with_facts.format_map(facts)
        except KeyError:
            return without

    return _OPTIONAL.sub(option, template)
