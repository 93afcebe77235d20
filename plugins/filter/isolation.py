# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._problem import in_the_way
from ansible_collections.gpufabric.nccl.plugins.plugin_utils import _isolation


def isolation_check(infos: dict[str, t.Any], settings: dict[str, t.Any]) -> dict[str, t.Any]:
    """Whether a search can be begun."""
    return _told(_isolation.check, infos, settings)


def isolation_search(results: dict[str, t.Any], settings: dict[str, t.Any], before: str = "") -> dict[str, t.Any]:
    """A search, or what is in its way."""
    return _told(_isolation.search, results, settings, before)


def _told(function: t.Callable[..., dict[str, t.Any]], *arguments: t.Any) -> dict[str, t.Any]:
    """What a function returns, or what is in the way."""
    try:
        return {"error": None, "problems": [], **function(*arguments)}
    except GpufabricError as error:
        return in_the_way(error)


class FilterModule:
    """Filters between the steps of the role isolate."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """By name."""
        return {
            "isolation_check": isolation_check,
            "isolation_marks": _isolation.marks,
            "isolation_observed": _isolation.observed,
            "isolation_report": _isolation.report,
            "isolation_search": isolation_search,
        }
