# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import SIMPLE, TEXT, AnswerError, check_answer
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark import sweep as planner
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._results import sweep_analysis
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.tables import check_documents
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import clean_values, inert

#: What is used of a planned point.
_POINT = {
    **dict.fromkeys(("id", "collective"), TEXT),
    "options": dict.fromkeys(("min_bytes", "max_bytes", "step_factor"), SIMPLE),
}


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
        _check("points", points, (list, tuple), "a list of points, as sweep_points returns it")
        for number, point in enumerate(points):
            _check_point(f"points[{number}]", point)
        _check("default", default or {}, t.Mapping, "variables, each with a value")
        _check("bands", bands, (list, tuple), "a list of sizes, such as 64K")
        found = sweep_analysis.sweep_results(check_documents(documents), points, default, bands)
    except GpufabricError as error:
        raise AnsibleFilterError(f"sweep_results: {error}") from error
    return t.cast("dict[str, t.Any]", clean_values(found, inert))


def _check(option: str, value: t.Any, kind: t.Any, allowed: str) -> None:
    if not isinstance(value, kind):
        raise OptionError(option, value, allowed)


def _check_point(option: str, point: t.Any) -> None:
    try:
        check_answer(option, "a point", point, _POINT)
    except AnswerError:
        raise OptionError(option, point, "a point, as sweep_points returns it") from None


class FilterModule:
    """Filters before and after a sweep."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """By name."""
        return {"sweep_points": sweep_points, "sweep_results": sweep_results}
