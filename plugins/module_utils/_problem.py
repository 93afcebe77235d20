# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What was found wrong, as the user reads it: which host, why, and what to do."""

from __future__ import annotations

import dataclasses
import typing as t


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
