# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What was found wrong, as the user reads it: which host, why, and what to do."""

from __future__ import annotations

import dataclasses
import socket
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, NodeError


@dataclasses.dataclass(frozen=True)
class Problem:
    """One finding. ``severity`` is ``error`` or ``warning``; ``host`` None where it is nobody's in particular."""

    id: str
    severity: str
    cause: str
    cure: str
    host: str | None = None
    evidence: str = ""

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
    """A failure of which the causes are known: ``problems``."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(" ".join(problem.in_a_line() for problem in problems))
        self.problems = problems


def _problems_in(error: GpufabricError) -> t.Sequence[Problem]:
    if not isinstance(error, NodeError):
        return ()
    # It takes as long to load as all else of a module, and is not needed where all is well.
    from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis import Source, diagnose

    return diagnose([Source("any", [str(error)], socket.gethostname())], None)


def failure(error: GpufabricError) -> dict[str, t.Any]:
    """What a module fails with: ``msg`` and, where causes are known, ``problems``."""
    problems = error.problems if isinstance(error, ProblemError) else _problems_in(error)
    cures = () if isinstance(error, ProblemError) else (f"{problem.cause} {problem.cure}" for problem in problems)
    return {"msg": ". ".join([str(error), *cures]), "problems": [problem.as_dict() for problem in problems]}


def in_the_way(error: GpufabricError) -> dict[str, t.Any]:
    """What a filter returns in place of a plan: ``problems`` of hosts, or the ``error`` of an option.

    A task says that better than a filter that fails.
    """
    if isinstance(error, ProblemError):
        return {"error": "", "problems": [problem.as_dict() for problem in error.problems]}
    return {"error": str(error), "problems": []}
