# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Problems as users read them: which host, why, and what to do."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError


@dataclasses.dataclass(frozen=True)
class Problem:
    """One problem. ``severity`` is ``error`` or ``warning``; ``host`` is None if it belongs to no single host."""

    id: str
    severity: str
    cause: str
    cure: str
    host: str | None = None
    evidence: str = ""

    @classmethod
    def from_dict(cls, entry: t.Mapping[str, t.Any]) -> Problem:
        """The Problem of an entry of ``problems``, such as another task returned.

        Nothing outside of this package calls the constructor: every other Problem is made by its id in the catalogue.
        """
        return cls(**entry)

    def as_dict(self) -> dict[str, t.Any]:
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


class ProblemError(NodeError):
    """An error with known causes: ``problems``."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(" ".join(problem.in_a_line() for problem in problems))
        self.problems = problems
