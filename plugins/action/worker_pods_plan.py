# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.objects import mark_start, removal_command
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.pods import ROLE, plan_pods
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._cluster import cluster_of
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
        run_id = variables["gpufabric_run_id"]
        init = (self.role_path / "files" / "init.py").read_text(encoding="utf-8")
        plan = plan_pods(run_id, settings, init.rstrip("\n"))
        if plan["objects"]:
            mark_start(plan["objects"][0])
        return {**plan, "settings": settings, "removal": removal_command(run_id, ROLE, cluster_of(variables))}
