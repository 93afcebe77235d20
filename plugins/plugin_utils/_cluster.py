# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to the collection: it may change in any release.

"""How actions on the controller ask a cluster: through the modules of kubernetes.core, once for each question."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gpufabric.nccl.plugins.module_utils._worker_pods import crashed_containers, is_ready

#: The arguments of every such action.
CLUSTER_ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "kubeconfig": {"type": "path"},
    "context": {"type": "str"},
    "namespace": {"type": "str", "default": "default"},
}

#: More would be noise in a message.
_MOST_LOGS = 5


class ClusterAction(ActionBase):
    """An action that asks a cluster. ``prepare`` comes first."""

    TRANSFERS_FILES = False

    def prepare(self, arguments: t.Mapping[str, t.Any], task_vars: dict[str, t.Any] | None) -> None:
        """Take the action's arguments, among them those of CLUSTER_ARGUMENTS."""
        self._cluster = {name: arguments[name] for name in CLUSTER_ARGUMENTS if arguments[name] is not None}
        self._task_vars = task_vars or {}
        self._shown: str | None = None

    def show(self, text: str) -> None:
        """Show how far things are, where that has changed."""
        if text != self._shown:
            Display().display(text)
        self._shown = text

    def ask(self, kind: str, **arguments: t.Any) -> list[t.Any]:
        """The objects of a kind. Raises AnsibleActionFail."""
        answer = self.execute("kubernetes.core.k8s_info", kind=kind, **arguments)
        if answer.get("failed"):
            raise AnsibleActionFail(answer.get("msg") or f"{kind} cannot be read")
        return answer["resources"]

    def crash_logs(self, pods: t.Iterable[t.Mapping[str, t.Any]]) -> dict[str, str]:
        """The last log lines of pods that have crashed, by pod. A log that may not be read is empty."""
        logs = {}
        for crashed in crashed_containers(pod for pod in pods if not is_ready(pod))[:_MOST_LOGS]:
            answer = self.execute(
                "kubernetes.core.k8s_log",
                name=crashed["pod"],
                container=crashed["container"],
                previous=crashed["previous"],
                tail_lines=20,
            )
            logs[crashed["pod"]] = answer.get("log") or ""
        return logs

    def execute(self, module: str, **arguments: t.Any) -> dict[str, t.Any]:
        """Run a module of kubernetes.core on the cluster."""
        given = {name: value for name, value in {**self._cluster, **arguments}.items() if value is not None}
        return self._execute_module(module_name=module, module_args=given, task_vars=self._task_vars)
