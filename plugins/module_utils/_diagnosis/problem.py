# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Problems as users read them: which host, why, and what to do."""

from __future__ import annotations

import dataclasses
import re
import reprlib
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import clean

_REQUIRED = ("id", "cause", "cure")
#: Entries that are taken from one answer; their number is what later steps look through.
_MOST = 1 << 15
_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}\Z")


class ProblemDict(t.TypedDict):
    """An entry of ``problems``, in results of modules and in documents."""

    id: str
    severity: str
    host: str | None
    cause: str
    cure: str
    evidence: str


_Entry = t.TypeVar("_Entry", bound=t.Mapping[str, t.Any])


@dataclasses.dataclass(frozen=True)
class Problem:
    """One problem. ``severity`` is ``error`` or ``warning``; ``host`` is None if it belongs to no single host."""

    id: str
    severity: str
    cause: str
    cure: str
    host: str | None = None
    evidence: str = ""

    def __post_init__(self) -> None:
        # All of it may be text that a machine printed.
        for name in ("cause", "cure", "host", "evidence"):
            value = getattr(self, name)
            object.__setattr__(self, name, value and clean(value))

    @classmethod
    def from_dict(cls, entry: t.Mapping[str, t.Any]) -> Problem:
        """The Problem of an entry of ``problems``, such as another task returned.

        Nothing outside of this package calls the constructor: every other Problem is made by its id in the catalogue.
        """
        return cls(**entry)

    def as_dict(self) -> ProblemDict:
        """The entry of a result's ``problems``."""
        return {
            "id": self.id,
            "severity": self.severity,
            "host": self.host,
            "cause": self.cause,
            "cure": self.cure,
            "evidence": self.evidence,
        }

    def in_a_line(self) -> str:
        """Cause, cure and evidence as one line of text."""
        evidence = " | ".join(line.strip() for line in self.evidence.splitlines() if line.strip())
        return f"{self.cause} {self.cure}" + (f" ({evidence})" if evidence else "")


def entries_from(value: t.Any) -> list[ProblemDict]:
    """The ``problems`` of a result that a machine returned, in the form of Problem.as_dict. What is no problem is left out.

    Of more than any check of a fleet finds, the first ones.
    """
    found: list[ProblemDict] = []
    for entry in value if isinstance(value, (list, tuple)) else ():
        known: dict[str, t.Any] = {name: entry.get(name) for name in _REQUIRED} if isinstance(entry, t.Mapping) else {}
        if known and all(isinstance(item, str) for item in known.values()) and _ID.match(known["id"]):
            severity = "warning" if entry.get("severity") == "warning" else "error"
            host, evidence = _words(entry.get("host")), _words(entry.get("evidence"))
            found.append(Problem(severity=severity, host=host or None, evidence=evidence, **known).as_dict())
            if len(found) == _MOST:
                break
    return found


def news(entries: t.Iterable[_Entry], known: t.Iterable[t.Mapping[str, t.Any]] = ()) -> list[_Entry]:
    """The entries that are not among those that are known, each once, in a time that grows with their number only."""
    told = set(map(_identity, known))
    found = []
    for entry in entries:
        identity = _identity(entry)
        if identity not in told:
            told.add(identity)
            found.append(entry)
    return found


def _identity(entry: t.Mapping[str, t.Any]) -> str:
    # Documents may have been edited by hand, so that the values are anything.
    return repr(sorted(entry.items()))


def _words(value: t.Any) -> str:
    """A text; of what is none the beginning, however deep it is."""
    try:
        return value if isinstance(value, str) else reprlib.repr(value) if value else ""
    except ValueError:
        # Python shows no integer of thousands of digits.
        return ""


class ProblemError(NodeError):
    """An error with known causes: ``problems``."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(" ".join(problem.in_a_line() for problem in problems))
        self.problems = problems
