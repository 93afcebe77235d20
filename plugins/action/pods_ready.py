# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
import typing as t

from ansible.errors import AnsibleActionFail
from ansible_collections.gpufabric.nccl.plugins.module_utils._worker_pods import (
    in_rank_order,
    is_current,
    is_ready,
    joined_pod,
    pod_problems,
    problems_text,
)
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._cluster import CLUSTER_ARGUMENTS, ClusterAction

_ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    **CLUSTER_ARGUMENTS,
    "label_selector": {"type": "str"},
    "names": {"type": "list", "elements": "str"},
    "stateful_set": {"type": "str"},
    "count": {"type": "int"},
    "container": {"type": "str"},
    "timeout": {"type": "float", "default": 300},
    "interval": {"type": "float", "default": 1},
}


class ActionModule(ClusterAction):
    """Looks at the pods again and again, and shows how far they are."""

    _VALID_ARGS = frozenset(_ARGUMENT_SPEC)

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Run the action."""
        result = super().run(tmp, task_vars)
        self._arguments = self.validate_argument_spec(
            _ARGUMENT_SPEC,
            required_one_of=[("label_selector", "names")],
            mutually_exclusive=[("label_selector", "names")],
        )[1]
        self.prepare(self._arguments, task_vars)
        begin = time.monotonic()
        while True:
            pods, stateful_set = self._look()
            ready = [pod for pod in pods if is_ready(pod) and is_current(pod, stateful_set)]
            wanted = self._wanted(pods)
            waited = time.monotonic() - begin
            if len(ready) == wanted and len(ready) == len(pods):
                self.show(f"{len(ready)} of {wanted} pods ready after {waited:.0f} s")
                self._check_container(ready)
                joined = [joined_pod(pod, self._arguments["container"]) for pod in ready]
                return {**result, "changed": False, "pods": joined, "waited": round(waited, 3)}
            self.show(f"{len(ready)} of {wanted} pods ready")
            if waited + self._arguments["interval"] > self._arguments["timeout"]:
                return {**result, **self._explain(pods, stateful_set, len(ready), wanted)}
            time.sleep(self._arguments["interval"])

    def _wanted(self, pods: t.Sequence[t.Mapping[str, t.Any]]) -> int:
        count = self._arguments["count"]
        if count is not None:
            return count
        return len(self._arguments["names"] or ()) or max(len(pods), 1)

    def _look(self) -> tuple[list[t.Mapping[str, t.Any]], t.Mapping[str, t.Any] | None]:
        """The pods in rank order, without those that have ended well, and the StatefulSet."""
        selector, names = self._arguments["label_selector"], self._arguments["names"]
        found = self.ask("Pod", label_selectors=[selector] if selector else [])
        pods = [pod for pod in found if pod["status"].get("phase") != "Succeeded"]
        if names:
            pods = [pod for pod in pods if pod["metadata"]["name"] in names]
        name = self._arguments["stateful_set"]
        sets = self.ask("StatefulSet", api_version="apps/v1", name=name) if name else []
        return in_rank_order(pods), sets[0] if sets else None

    def _check_container(self, pods: t.Sequence[t.Mapping[str, t.Any]]) -> None:
        wanted = self._arguments["container"]
        for pod in pods:
            names = [container["name"] for container in pod["spec"]["containers"]]
            if wanted is not None and wanted not in names:
                raise AnsibleActionFail(
                    f"container: {wanted!r} is not allowed; allowed in pod {pod['metadata']['name']}: {', '.join(names)}"
                )

    def _explain(
        self,
        pods: t.Sequence[t.Mapping[str, t.Any]],
        stateful_set: t.Mapping[str, t.Any] | None,
        ready: int,
        wanted: int,
    ) -> dict[str, t.Any]:
        arguments = self._arguments
        message = (
            f"{ready} of {wanted} pods are ready after {arguments['timeout']:g} s in namespace {arguments['namespace']}"
        )
        if arguments["names"]:
            absent = sorted(set(arguments["names"]) - {pod["metadata"]["name"] for pod in pods})
            message += f"; no pod is called {', '.join(absent)}" if absent else ""
        elif not pods and stateful_set is None:
            message += f"; no pod has the labels {arguments['label_selector']}"
        elif len(pods) > wanted:
            message += f"; {len(pods)} match {arguments['label_selector']}"
        try:
            events: list[t.Any] = self.ask("Event")
        except AnsibleActionFail as error:
            events = []
            message += f"; what happened to them cannot be told ({error})"
        missing = [arguments["stateful_set"]] if stateful_set is not None and len(pods) < wanted else []
        problems = pod_problems(pods, events, self.crash_logs(pods), missing)
        text = f":\n{problems_text(problems)}" if problems else ""
        return {"failed": True, "msg": f"{message}{text}", "problems": [problem.as_dict() for problem in problems]}
