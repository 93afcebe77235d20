# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.plugin_utils import _isolation
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._cluster import ClusterRoleAction, Unanswered
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._planning import without_prefix


class ActionModule(ClusterRoleAction):
    """Marks the nodes of a cluster for the role isolate."""

    ARGUMENT_SPEC: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        "search": {"type": "dict", "required": True},
        "uids": {"type": "dict", "default": {}},
    }

    def act_on_cluster(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """Which nodes have the mark now, and which no longer. Raises GpufabricError, Unanswered."""
        own = without_prefix(self.read_variables(self.role_path, "isolate_"), "isolate_")
        key, effect = own["mark_key"], own["mark_effect"]
        marks = _isolation.marks(
            arguments["search"]["document"],
            self.ask("Pod", api_version="v1"),
            self.ask("Node", api_version="v1", namespace=None),
            {"kind": own["mark"], "key": key, "verdicts": own["mark_verdicts"]},
            arguments["uids"],
        )
        changed = False
        for state in ("present", "absent"):
            for node in marks[state]:
                if own["mark"] == "label":
                    value = marks["value"] if state == "present" else None
                    changed |= self._label(node, {key: value})
                else:
                    # An earlier search may have set another effect.
                    effects = {"effect": effect} if state == "present" else {}
                    changed |= self._taint(node, state, {"key": key, "value": marks["value"], **effects})
        return {**marks, "changed": changed}

    def _label(self, node: str, labels: dict[str, str | None]) -> bool:
        """Whether a label was set or removed. Raises Unanswered."""
        definition = {"metadata": {"labels": labels}}
        answer = self.change(
            state="patched", api_version="v1", kind="Node", name=node, namespace=None, definition=definition
        )
        return bool(answer["changed"])

    def _taint(self, node: str, state: str, taint: dict[str, str]) -> bool:
        """Whether a taint was set or removed. Raises Unanswered."""
        answer = self.execute("kubernetes.core.k8s_taint", name=node, state=state, taints=[taint], namespace=None)
        if answer.get("failed"):
            raise Unanswered(answer)
        return bool(answer["changed"])
