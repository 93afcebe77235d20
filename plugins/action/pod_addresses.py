# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.dns import pod_addresses
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._cluster import ClusterRoleAction, Unanswered


class ActionModule(ClusterRoleAction):
    """Asks the cluster for the addresses of the pods in a namespace."""

    def act_on_cluster(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """The addresses; none if the cluster does not tell them."""
        try:
            return {"addresses": pod_addresses(self.ask("Pod", api_version="v1"))}
        except Unanswered:
            return {"addresses": {}}
