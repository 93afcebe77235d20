# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.mpijob import API_VERSION
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.pods import TO_ADOPT, missing_permissions
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._cluster import ClusterRoleAction, Unanswered


class ActionModule(ClusterRoleAction):
    """Asks the cluster what its user may do."""

    ARGUMENT_SPEC: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        "needs": {"type": "list", "elements": "list", "required": True},
        "operator": {"type": "bool", "default": False},
        "adopting": {"type": "str"},
        "rendering": {"type": "str"},
    }

    def act_on_cluster(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """Nothing, or a failure. Raises Unanswered."""
        namespace = self.shared["namespace"]
        if arguments["operator"] and not self._has_operator():
            return self.failure([problem("operator-missing").as_dict()], "")
        status = self.rules(namespace)
        missing = missing_permissions(status, arguments["needs"])
        if not missing:
            return {}
        ways = {name: arguments[name] for name in ("adopting", "rendering") if arguments[name]}
        if missing_permissions(status, TO_ADOPT):
            ways.pop("adopting", None)
        facts = {"rights": "; ".join(missing), "namespace": namespace, **ways}
        return self.failure([problem("kube-forbidden", **facts).as_dict()], "")

    def _has_operator(self) -> bool:
        """Whether the cluster knows MPIJobs. Raises Unanswered."""
        # Others go by what an earlier look has left in a cache, from before the operator came or went.
        answer = self.execute("kubernetes.core.k8s_cluster_info", namespace=None)
        if answer.get("failed"):
            raise Unanswered(answer)
        return "MPIJob" in answer["apis"].get(API_VERSION, ())
