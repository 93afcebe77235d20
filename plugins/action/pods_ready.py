# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import concurrent.futures
import os
import shlex
import time
import typing as t

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.loader import connection_loader
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemDict
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.rendering import problems_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.task_results import problems_from_result
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.mpijob import API_VERSION, without_earlier_launchers
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.objects import (
    JOB_LABEL,
    delete_command,
    pods_of,
    pods_of_job,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.pods import (
    ENDED,
    in_rank_order,
    is_current,
    is_ready,
    joined_pod,
    pod_problems,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import kill_descendants
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._cluster import (
    CLUSTER_ARGUMENTS,
    ClusterAction,
    Unanswered,
    check_times,
)

_ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    **CLUSTER_ARGUMENTS,
    "label_selector": {"type": "str"},
    "names": {"type": "list", "elements": "str"},
    "stateful_set": {"type": "str"},
    "mpijob": {"type": "str"},
    "count": {"type": "int"},
    "container": {"type": "str"},
    "interpreter": {"type": "path"},
    "timeout": {"type": "float", "default": 300},
    "interval": {"type": "float", "default": 1},
}

#: Each is a process of kubectl.
_AT_ONCE = 16
#: Seconds without an answer of any of them: kubectl waits for ever for a kubelet, or a container engine, that hangs.
_LONGEST_SILENCE = 60
#: What a shell ends with where a program is missing, or is none.
_NOT_THERE = (126, 127)
#: What kubernetes.core takes for false in K8S_AUTH_VERIFY_SSL.
_FALSE = ("0", "false", "no")
#: Bytes of what a program in a pod, or kubectl, said last.
_LONGEST_ANSWER = 4096


class ActionModule(ClusterAction):
    """Looks at the pods again and again, and shows how far they are."""

    _VALID_ARGS = frozenset(_ARGUMENT_SPEC)

    def act(self, task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        """Wait."""
        self._arguments = self.validate_argument_spec(
            _ARGUMENT_SPEC,
            required_one_of=[("label_selector", "names")],
            mutually_exclusive=[("label_selector", "names")],
        )[1]
        check_times(self._arguments)
        for option in ("label_selector", "names"):
            given = self._arguments[option]
            # Kubernetes would have all pods of the namespace.
            if given is not None and not "".join(given).strip():
                raise AnsibleActionFail(str(OptionError(option, given, "what selects pods")))
        self.prepare(self._arguments, task_vars)
        begin = time.monotonic()
        refusing: list[dict[str, t.Any]] = []
        was_there = False
        while True:
            pods, stateful_set = self._look()
            if _is_going(stateful_set) or (was_there and stateful_set is None):
                # Such as by a teardown.
                return self._explain([], None, 0, self._wanted(pods))
            was_there = stateful_set is not None
            ready = [pod for pod in pods if is_ready(pod) and is_current(pod, stateful_set)]
            wanted = self._wanted(pods)
            waited = time.monotonic() - begin
            is_over = waited + self._arguments["interval"] > self._arguments["timeout"]
            if len(ready) == wanted and len(ready) == len(pods):
                self.show(f"{len(ready)} of {wanted} pods ready after {waited:.0f} s")
                self._check_container(ready)
                joined = [joined_pod(pod, self._arguments["container"]) for pod in ready]
                try:
                    self._check_interpreter(joined)
                    return {"changed": False, "pods": joined, "extra_args": extra_args(), "waited": round(waited, 3)}
                except Unanswered as error:
                    # A container that ends at once is ready for a moment, so these are looked at once more.
                    is_no_exec = "kube-exec-failed" in {entry["id"] for entry in error.problems}
                    if is_over or not is_no_exec or joined == refusing:
                        raise
                refusing = joined
            self.show(f"{len(ready)} of {wanted} pods ready{self._not_found(pods, wanted)}")
            if is_over:
                return self._explain(pods, stateful_set, len(ready), wanted)
            time.sleep(self._arguments["interval"])

    def _wanted(self, pods: t.Sequence[t.Mapping[str, t.Any]]) -> int:
        count = self._arguments["count"]
        if count is not None:
            return count
        return len(set(self._arguments["names"] or ())) or max(len(pods), 1)

    def _not_found(self, pods: t.Sequence[t.Any], wanted: int) -> str:
        # A slip in a name or namespace shows before the time is over.
        is_awaited = self._arguments["stateful_set"] is None and len(pods) < wanted
        return f", {len(pods)} found in namespace {self._arguments['namespace']}" if is_awaited else ""

    def _look(self) -> tuple[list[t.Mapping[str, t.Any]], t.Mapping[str, t.Any] | None]:
        """The pods in rank order, of selected ones those that have not ended well, if there are any; and the StatefulSet."""
        selector, names, name = (self._arguments[option] for option in ("label_selector", "names", "stateful_set"))
        found = self.ask("Pod", label_selectors=[selector] if selector else [])
        if name:
            found = pods_of(name, found)
        if self._arguments["mpijob"]:
            found = without_earlier_launchers(pods_of_job(self._arguments["mpijob"], found))
        if names:
            pods = [pod for pod in found if pod["metadata"]["name"] in names]
        else:
            pods = [pod for pod in found if pod["status"].get("phase") != "Succeeded"] or found
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

    def _check_interpreter(self, pods: t.Sequence[t.Mapping[str, t.Any]]) -> None:
        """Raise Unanswered where a pod cannot be reached as its tasks will, or has no interpreter: such a task may hang."""
        interpreter = self._arguments["interpreter"]
        if interpreter is None:
            return
        try:
            connections = {pod["name"]: self._way_to(pod) for pod in pods}
        except AnsibleError as error:
            raise Unanswered({"msg": str(error)}) from error
        command = shlex.join([interpreter, "-c", ""])
        with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
            calls = {name: pool.submit(item.exec_command, command) for name, item in connections.items()}
            rest = set(calls.values())
            while rest:
                done, rest = concurrent.futures.wait(rest, _LONGEST_SILENCE, concurrent.futures.FIRST_COMPLETED)
                if not done:
                    kill_descendants()
            answers = {name: call.result() for name, call in calls.items()}
        found: list[ProblemDict] = []
        for name, (status, _stdout, stderr) in answers.items():
            if status != 0:
                told = _exec_problems(
                    name, interpreter, status, stderr[-_LONGEST_ANSWER:].decode(errors="replace").strip()
                )
                found += [entry for entry in told if entry not in found]
        if found:
            raise Unanswered({"problems": found})

    def _way_to(self, pod: t.Mapping[str, t.Any]) -> t.Any:
        """What the tasks of a pod will run over."""
        connection = connection_loader.get("kubernetes.core.kubectl", self._play_context, None)
        # validate_certs: see tasks/join.yml of the role worker_pods.
        options = {**self._cluster, "pod": pod["name"], "container": pod["container"], "validate_certs": ""}
        if more := extra_args():
            options["extra_args"] = more
        connection.set_options(var_options={f"ansible_kubectl_{name}": value for name, value in options.items()})
        return connection

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
        if arguments["stateful_set"] and stateful_set is None and not self._has_no(arguments["namespace"]):
            return self._deleted(ready, wanted)
        problems = self._absent(pods, stateful_set)
        if not arguments["names"] and len(pods) > wanted:
            message += f"; {len(pods)} match {arguments['label_selector']}"
        ended = [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") in ENDED]
        if ended and arguments["label_selector"] and arguments["stateful_set"] is None:
            command = delete_command({name: arguments[name] for name in CLUSTER_ARGUMENTS}, "pod", *ended)
            message += f"; pods that have ended match it until they are deleted: {command}"
        try:
            events: list[t.Any] = self.ask("Event")
        except Unanswered as error:
            events = []
            problems += [{**entry, "severity": "warning"} for entry in error.problems]
        missing = [arguments["stateful_set"]] if stateful_set is not None and len(pods) < wanted else []
        problems += [found.as_dict() for found in pod_problems(pods, events, self.crash_logs(pods), missing)]
        return _failure(message, problems)

    def _deleted(self, ready: int, wanted: int) -> dict[str, t.Any]:
        """What there is to say when the StatefulSet is gone: its pods are, or will be."""
        name, namespace = self._arguments["stateful_set"], self._arguments["namespace"]
        lost = [problem("pod-lost", f"{name}-{number}").as_dict() for number in range(wanted)]
        message = f"{ready} of {wanted} pods are ready in namespace {namespace}: their StatefulSet {name} was deleted"
        return _failure(message, lost)

    def _absent(
        self, pods: t.Sequence[t.Mapping[str, t.Any]], stateful_set: t.Mapping[str, t.Any] | None
    ) -> list[ProblemDict]:
        """Of pods that are named, or selected, and are not there."""
        namespace = self._arguments["namespace"]
        if not pods and stateful_set is None and self._has_no(namespace):
            return [problem("kube-namespace", namespace=namespace).as_dict()]
        if self._arguments["names"]:
            absent = sorted(set(self._arguments["names"]) - {pod["metadata"]["name"] for pod in pods})
            return [problem("pod-missing", name).as_dict() for name in absent]
        if not pods and stateful_set is None:
            selector = self._arguments["label_selector"]
            named = {"setting": "worker_pods_mpijob, or mpijob_name"} if JOB_LABEL in selector else {}
            return [problem("pod-missing", evidence=self._state_of_job(), labels=selector, **named).as_dict()]
        return []

    def _state_of_job(self) -> str:
        """What the MPIJob whose pods are awaited says of itself: when it has ended, its workers may be gone. Empty if that is not known."""
        name = self._arguments["mpijob"]
        try:
            jobs = self.ask("MPIJob", api_version=API_VERSION, name=name) if name else []
        except Unanswered:
            # To adopt its pods, nobody needs that right.
            return ""
        conditions = [entry for job in jobs for entry in (job.get("status") or {}).get("conditions") or ()]
        told = [entry for entry in conditions if entry.get("status") == "True"]
        return f"MPIJob {name}: {told[-1].get('type')}: {told[-1].get('message') or ''}".rstrip(": ") if told else ""

    def _has_no(self, namespace: str) -> bool:
        try:
            return not self.ask("Namespace", name=namespace, namespace=None)
        except Unanswered:
            # Who may not ask is not told either.
            return False


def _failure(message: str, problems: t.Sequence[ProblemDict]) -> dict[str, t.Any]:
    text = f":\n{problems_text(problems)}" if problems else ""
    return {"failed": True, "msg": f"{message}{text}", "summary": f"{message}.", "problems": problems}


def _is_going(item: t.Mapping[str, t.Any] | None) -> bool:
    """Whether an object is there, and marked to go."""
    return item is not None and bool(item["metadata"].get("deletionTimestamp"))


def extra_args() -> str:
    """What kubectl is to be told besides; empty if nothing. kubernetes.core's modules do as K8S_AUTH_VERIFY_SSL says, its connection cannot."""
    if os.environ.get("K8S_AUTH_VERIFY_SSL", "").lower() not in _FALSE:
        return ""
    return f"{os.environ.get('K8S_AUTH_EXTRA_ARGS', '')} --insecure-skip-tls-verify=true".strip()


def _exec_problems(pod: str, interpreter: str, status: int, said: str) -> list[ProblemDict]:
    """Why a program does not run in a pod."""
    if status in _NOT_THERE:
        return [problem("interpreter-missing", pod, said, program=interpreter).as_dict()]
    if status < 0 and not said:
        said = f"no answer in {_LONGEST_SILENCE} s"
    otherwise = problem("kube-exec-failed", pod, said, reason=said.rstrip(".")).as_dict()
    return problems_from_result({"msg": said}, pod) or [otherwise]
