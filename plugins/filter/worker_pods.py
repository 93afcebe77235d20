# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemDict
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.objects import (
    claimed,
    objects_taken,
    run_start,
    run_taken,
    selector,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.pods import missing_permissions
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._owner import owner_of_run


def taken(
    found: list[dict[str, t.Any]], run_id: str, owner: str | None = None, wanted: dict[str, t.Any] | None = None
) -> list[ProblemDict]:
    """Why a play must not touch objects of a run."""
    try:
        problems = run_taken(run_id, owner_of_run(owner), found, wanted)
    except GpufabricError as error:
        raise AnsibleFilterError(str(error)) from error
    return [problem.as_dict() for problem in problems]


def names_taken(
    found: list[dict[str, t.Any]],
    wanted: list[dict[str, t.Any]],
    run_id: str,
    owner: str | None = None,
    take_over: bool = False,
    setting: str | None = None,
) -> list[ProblemDict]:
    """Why a play must not change the objects that have the names of those it makes."""
    try:
        whose = owner_of_run(owner)
        problems = objects_taken(run_id, whose, found, wanted, take_over=take_over, setting=setting)
    except GpufabricError as error:
        raise AnsibleFilterError(str(error)) from error
    return [problem.as_dict() for problem in problems]


class FilterModule:
    """Filters between the steps of the role worker_pods."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """By name."""
        return {
            "claimed_objects": claimed,
            "missing_permissions": missing_permissions,
            "objects_taken": names_taken,
            "run_selector": selector,
            "run_start": run_start,
            "run_taken": taken,
        }
