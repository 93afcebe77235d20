# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.pods import lost_pods
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._cluster import (
    CLUSTER_ARGUMENTS,
    ClusterAction,
    Unanswered,
)

_ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    **CLUSTER_ARGUMENTS,
    "joined": {"type": "list", "elements": "dict", "required": True},
    "label_selector": {"type": "str"},
}


class ActionModule(ClusterAction):
    """Compares the pods of a run with those that the cluster has now."""

    _VALID_ARGS = frozenset(_ARGUMENT_SPEC)

    def act(self, task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        """What was lost. That the cluster does not answer is no failure: the job may have ended well."""
        arguments = self.validate_argument_spec(_ARGUMENT_SPEC)[1]
        self.prepare(arguments, task_vars)
        selector = arguments["label_selector"]
        try:
            pods = self.ask("Pod", label_selectors=[selector] if selector else None)
        except Unanswered as error:
            return {"changed": False, "answered": False, "names": [], "problems": error.problems}
        lost = lost_pods(arguments["joined"], pods)
        if "pod-lost" in {problem.id for problem in lost}:
            lost = lost_pods(arguments["joined"], pods, self._warnings())
        names = [problem.host for problem in lost]
        return {"changed": False, "answered": True, "names": names, "problems": [item.as_dict() for item in lost]}

    def _warnings(self) -> list[t.Any]:
        try:
            return self.ask("Event", field_selectors=["type!=Normal"])
        except Unanswered:
            # Who may not ask is told of the pods all the same.
            return []
