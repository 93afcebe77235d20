# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.pods import plan_pods
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._owner import owner_of_run
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._planning import PlanAction, without_prefix


class ActionModule(PlanAction):
    """Plans the pods for the role worker_pods."""

    def plan(self, arguments: dict[str, t.Any], variables: dict[str, t.Any]) -> dict[str, t.Any]:
        """The plan. Raises GpufabricError."""
        settings = {
            **without_prefix(variables, "worker_pods_"),
            "namespace": variables["gpufabric_namespace"],
            "owner": owner_of_run(variables["gpufabric_owner"]),
        }
        init = (self.role_path / "files" / "init.py").read_text(encoding="utf-8")
        return {**plan_pods(variables["gpufabric_run_id"], settings, init.rstrip("\n")), "settings": settings}
