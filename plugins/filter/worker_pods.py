# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube import selector
from ansible_collections.gpufabric.nccl.plugins.module_utils._worker_pods import (
    lost_pods,
    missing_permissions,
    plan_pods,
)


def worker_pods_plan(settings: dict[str, t.Any], run_id: str, init: str) -> dict[str, t.Any]:
    """How a run gets its pods, or what is wrong with the settings as ``error``: a task says that better than a filter."""
    try:
        return {"error": None, **plan_pods(run_id, settings, init)}
    except GpufabricError as error:
        return {"error": str(error)}


def lost(joined: list[dict[str, t.Any]], pods: list[dict[str, t.Any]]) -> dict[str, t.Any]:
    """The pods that are not any more as they were, and what to tell of them."""
    problems = lost_pods(joined, pods)
    return {"names": [problem.host for problem in problems], "problems": [problem.as_dict() for problem in problems]}


class FilterModule:
    """Filters between the steps of the role worker_pods."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """By name."""
        return {
            "worker_pods_plan": worker_pods_plan,
            "missing_permissions": missing_permissions,
            "lost_pods": lost,
            "run_selector": selector,
        }
