# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.mpijob import (
    API_VERSION,
    is_idle,
    job_results,
    last_launcher,
    own_log,
    progress,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.objects import (
    JOB_LABEL,
    condition_of,
    is_finished,
    pods_of_job,
)
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._cluster import (
    CLUSTER_ARGUMENTS,
    ClusterAction,
    Unanswered,
    check_times,
)

_ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    **CLUSTER_ARGUMENTS,
    "name": {"type": "str", "required": True},
    "uid": {"type": "str"},
    "workers": {"type": "int", "required": True},
    "operator_timeout": {"type": "float", "default": 60},
    "start_timeout": {"type": "float", "default": 600},
    "timeout": {"type": "float", "default": 3600},
    "interval": {"type": "float", "default": 2},
    "plan": {"type": "dict"},
}


class ActionModule(ClusterAction):
    """Looks at the job again and again, shows how far it is, and collects what is there to see of it in the end."""

    _VALID_ARGS = frozenset(_ARGUMENT_SPEC)

    def act(self, task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        """Wait."""
        arguments = self.validate_argument_spec(_ARGUMENT_SPEC)[1]
        check_times(arguments)
        self.prepare(arguments, task_vars)
        begin = time.monotonic()
        seen: t.Mapping[str, t.Any] | None = None
        while True:
            job, pods = self._look(arguments["name"], arguments["uid"])
            seen = last_launcher(pods) or seen
            waited = time.monotonic() - begin
            self.show(progress(job, pods, arguments["workers"]) if job else "the MPIJob is gone")
            if job is None or is_finished(job):
                given_up = False
                break
            limit = arguments["timeout"]
            if is_idle(job, pods):
                limit = min(limit, arguments["operator_timeout"])
            elif not condition_of(job, "Running"):
                limit = min(limit, arguments["start_timeout"])
            if waited + arguments["interval"] > limit:
                given_up = True
                break
            time.sleep(arguments["interval"])
        launcher = last_launcher(pods)
        log, why = self._log(launcher)
        observed: dict[str, t.Any] = {
            "changed": False,
            "job": job,
            "pods": pods,
            "events": self._events(),
            "logs": self.crash_logs(pod for pod in pods if pod is not launcher),
            "launcher_log": log,
            "lost_launcher": _lost(seen, launcher),
            "given_up": given_up,
            "waited": round(waited, 3),
        }
        plan = arguments["plan"]
        # Why there is no log stands in its place, for people: the problem run-missing sends there.
        told = {**observed, "launcher_log": log or why}
        return told if plan is None else {**told, "results": job_results(plan, observed)}

    def _look(self, name: str, uid: str | None) -> tuple[t.Mapping[str, t.Any] | None, list[t.Mapping[str, t.Any]]]:
        jobs = self.ask("MPIJob", api_version=API_VERSION, name=name)
        if jobs and uid and jobs[0]["metadata"]["uid"] != uid:
            # One of the same name has replaced it, with pods of its own.
            return None, []
        pods = pods_of_job(name, self.ask("Pod", label_selectors=[f"{JOB_LABEL}={name}"]))
        return (jobs[0] if jobs else None), pods

    def _events(self) -> list[t.Mapping[str, t.Any]]:
        try:
            return self.ask("Event", field_selectors=["type!=Normal"])
        except Unanswered:
            # Pods tell most of it themselves.
            return []

    def _log(self, launcher: t.Mapping[str, t.Any] | None) -> tuple[str, str]:
        """The launcher's log, and why it could not be read."""
        if launcher is None:
            return "", ""
        answer = self.execute("kubernetes.core.k8s_log", name=launcher["metadata"]["name"], container="launcher")
        return own_log(answer.get("log") or ""), str(answer.get("msg") or "")


def _lost(seen: t.Mapping[str, t.Any] | None, launcher: t.Mapping[str, t.Any] | None) -> dict[str, t.Any] | None:
    """The launcher's pod that was there, if it was deleted, or is about to go."""
    if seen is None or (launcher is not None and not launcher["metadata"].get("deletionTimestamp")):
        return None
    return {"name": seen["metadata"]["name"], "node": seen["spec"].get("nodeName")}
