# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark import sweep as planner
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._results import sweep_analysis
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.tables import check_documents


def sweep_points(sweep: t.Any, name: str = "sweep") -> list[dict[str, t.Any]]:
    """The points of a sweep."""
    try:
        return planner.sweep_points(sweep, name)
    except GpufabricError as error:
        raise AnsibleFilterError(f"sweep_points: {error}") from error


def sweep_results(
    documents: t.Any,
    points: t.Sequence[t.Mapping[str, t.Any]] = (),
    default: t.Mapping[str, t.Any] | None = None,
    bands: t.Sequence[str | int] = sweep_analysis.BANDS,
) -> dict[str, t.Any]:
    """What the result documents of a sweep say together."""
    try:
        return sweep_analysis.sweep_results(check_documents(documents), points, default, bands)
    except GpufabricError as error:
        raise AnsibleFilterError(f"sweep_results: {error}") from error


class FilterModule:
    """Filters before and after a sweep."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """By name."""
        return {"sweep_points": sweep_points, "sweep_results": sweep_results}
