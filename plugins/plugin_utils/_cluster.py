# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to the collection: it may change in any release.

"""How actions on the controller ask a cluster: through the modules of kubernetes.core, once for each question."""

from __future__ import annotations

import abc
import functools
import math
import os
import re
import shlex
import shutil
import time
import typing as t

import yaml
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.rendering import problems_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.task_results import (
    answer_of,
    problems_from_result,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.pods import crashed_containers, is_ready
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import clean
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._hiding import hidden
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._planning import VariablesAction, without_prefix

#: The arguments of every such action.
CLUSTER_ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "kubeconfig": {"type": "path"},
    "context": {"type": "str"},
    "namespace": {"type": "str", "default": "default"},
}

_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")

#: More would be noise in a message.
_MOST_LOGS = 5
#: What a kubelet answers for a container that it has removed.
_NO_LOG = "unable to retrieve container logs"

#: How long, in seconds, a cluster that has answered before is asked again when it does not: what runs on it goes on while its API
#: server is restarted.
_OUTAGE = 120
_PAUSE = 2
#: Seconds that a module may take besides those that it is to wait. Its requests have no limit, and what stands before an API server may
#: accept them and never answer; an API server that works ends each after a minute.
_LONGEST = 120
#: How timeout (coreutils) ends after that time.
_TIMED_OUT = 124


def cluster_of(variables: t.Mapping[str, t.Any]) -> dict[str, str | None]:
    """The arguments of CLUSTER_ARGUMENTS, of a role's variables, or else of what kubernetes.core reads. Raises OptionError."""
    names = {
        "kubeconfig": "gpufabric_kubeconfig",
        "context": "gpufabric_kube_context",
        "namespace": "gpufabric_namespace",
    }
    namespace = variables[names["namespace"]]
    # With a blank one, such as an answer of a survey, Kubernetes looks in all namespaces.
    if not _NAMESPACE.match(namespace):
        raise OptionError(names["namespace"], namespace, "the name of a namespace")
    kubeconfig = variables[names["kubeconfig"]]
    if kubeconfig and os.path.isdir(kubeconfig):
        raise OptionError(names["kubeconfig"], kubeconfig, "the path of a file")
    # A command that is shown to a person is for the same cluster.
    return {name: variables[variable] or os.environ.get(f"K8S_AUTH_{name.upper()}") for name, variable in names.items()}


class _ConfigError(ValueError):
    """The configuration for the cluster is not usable: why, with its path."""


def kubectl_config(cluster: t.Mapping[str, t.Any]) -> dict[str, str]:
    """The ``context`` by which modules of kubernetes.core ask the cluster that kubectl asks, if nothing says which. Raises _ConfigError.

    Of the files of KUBECONFIG, the first that has a current context counts to kubectl, and the last to them. In a pod, such as one that a
    pipeline runs in, they take its service account first, and kubectl the kubeconfig. ``cluster``: values of CLUSTER_ARGUMENTS.
    """
    if os.environ.get("K8S_AUTH_HOST"):
        # As a credential of AWX gives it. Files do not count then.
        return {}
    told, context = (
        cluster.get(name) or os.environ.get(f"K8S_AUTH_{name.upper()}") for name in ("kubeconfig", "context")
    )
    paths = told or os.environ.get("KUBECONFIG") or "~/.kube/config"
    configs = _read_configs(paths)
    if (told or context) and not configs:
        raise _ConfigError(f"{paths} does not exist")
    current = context or next(filter(None, (config.get("current-context") for config in configs)), None)
    if told and not current:
        raise _ConfigError(f"{paths} has no current-context")
    listed = [config["contexts"] for config in configs if isinstance(config.get("contexts"), list)]
    known = [str(item.get("name")) for items in listed for item in items if isinstance(item, dict)]
    if current and str(current) not in known:
        raise _ConfigError(f"{paths} has no context {current}{', but ' + ', '.join(known) if known else ''}")
    return {"context": str(current)} if current and not (told or context) else {}


def _read_configs(paths: str) -> list[dict[str, t.Any]]:
    """The files that there are. Raises _ConfigError."""
    configs = []
    for path in filter(None, paths.split(os.pathsep)):
        try:
            with open(os.path.expanduser(path), encoding="utf-8") as file:
                config = yaml.safe_load(file)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise _ConfigError(f"{path}: {error.strerror}") from error
        except (ValueError, yaml.YAMLError) as error:
            mark = getattr(error, "problem_mark", None)
            # Not what stands there, which may be a token.
            raise _ConfigError(f"{path} is not YAML{f', see line {mark.line + 1}' if mark else ''}") from error
        if not isinstance(config, dict):
            raise _ConfigError(f"{path} is {'empty' if config is None else 'no kubeconfig'}")
        configs.append(config)
    return configs


class Unanswered(Exception):
    """The cluster does not answer, or refuses what it is asked for: ``problems``, and the ``message`` of kubernetes.core."""

    def __init__(self, answer: t.Mapping[str, t.Any]) -> None:
        self.problems = problems_from_result(answer)
        self.message = str(answer.get("msg") or "")
        super().__init__(problems_text(self.problems) if self.problems else clean(self.message).strip())


def _reason(answer: t.Mapping[str, t.Any]) -> str:
    """Why a module failed; of one that crashed, the last line that Python says: ansible-core may give no ``msg`` then."""
    if answer.get("msg"):
        return str(answer["msg"])
    error = answer.get("exception")
    text = answer_of(str(getattr(getattr(error, "event", None), "msg", None) or error or "").strip())
    return text.splitlines()[-1] if text else "a module of kubernetes.core gave no reason"


class ClusterMixin(ActionBase):
    """How an action asks: after ``prepare``, by ``ask`` and ``execute``."""

    _limit = _LONGEST

    def prepare(self, arguments: t.Mapping[str, t.Any], task_vars: dict[str, t.Any] | None) -> None:
        """Take the action's arguments, among them those of CLUSTER_ARGUMENTS."""
        self._cluster = {name: arguments[name] for name in CLUSTER_ARGUMENTS if arguments[name] is not None}
        self._task_vars = task_vars or {}
        self._shown: str | None = None
        self._answered = False

    def show(self, text: str) -> None:
        """Show how far things are, where that has changed."""
        if text != self._shown:
            Display().display(clean(text))
        self._shown = text

    def ask(self, kind: str, **arguments: t.Any) -> list[t.Any]:
        """The objects of a kind. Raises Unanswered."""
        answer = self.execute("kubernetes.core.k8s_info", kind=kind, **arguments)
        if answer.get("failed"):
            raise Unanswered(answer)
        return answer["resources"]

    def change(self, **arguments: t.Any) -> dict[str, t.Any]:
        """What kubernetes.core.k8s returns. Raises Unanswered."""
        answer = self.execute("kubernetes.core.k8s", **arguments)
        if answer.get("failed"):
            raise Unanswered(answer)
        return answer

    def rules(self, namespace: str) -> dict[str, t.Any]:
        """What the user may do in a namespace: the status of a SelfSubjectRulesReview. Raises Unanswered."""
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            # Nothing is stored; kubernetes.core asks for a name.
            "metadata": {"generateName": "gpufabric-"},
            "spec": {"namespace": namespace},
        }
        status: dict[str, t.Any] = self.change(definition=review, namespace=None)["result"]["status"]
        return status

    def crash_logs(self, pods: t.Iterable[t.Mapping[str, t.Any]]) -> dict[str, str]:
        """The last log lines of pods that have crashed, by pod. A log that may not be read is empty."""
        logs = {}
        for crashed in crashed_containers(pod for pod in pods if not is_ready(pod))[:_MOST_LOGS]:
            # Of a container that is started again meanwhile the one may be gone, or the other have printed nothing yet.
            for previous in (crashed["previous"], not crashed["previous"]):
                answer = self.execute(
                    "kubernetes.core.k8s_log",
                    name=crashed["pod"],
                    container=crashed["container"],
                    previous=previous,
                    tail_lines=20,
                )
                log = answer.get("log") or ""
                logs[crashed["pod"]] = "" if log.startswith(_NO_LOG) else log
                if logs[crashed["pod"]]:
                    break
        return logs

    @functools.cached_property
    def _config(self) -> dict[str, str]:
        # Once, however often the cluster is asked.
        return kubectl_config(self._cluster)

    def execute(self, module: str, **arguments: t.Any) -> dict[str, t.Any]:
        """Run a module of kubernetes.core on the cluster, again and again where the API server is away for a while."""
        try:
            given = {**self._config, **self._cluster, **arguments}
        except _ConfigError as error:
            return {
                "failed": True,
                "msg": str(error),
                "problems": [problem("kube-config", reason=str(error)).as_dict()],
            }
        given = {name: value for name, value in given.items() if value is not None}
        self._limit = _LONGEST + (arguments["wait_timeout"] if arguments.get("wait") else 0)
        # Modules write their arguments to the controller's log, and objects have values of variables, which may be secret.
        variables = {**self._task_vars, "ansible_no_target_syslog": True}
        deadline = None
        while True:
            answer = self._execute_module(module_name=module, module_args=given, task_vars=variables)
            if answer.get("failed") and answer.get("rc") == _TIMED_OUT:
                answer = {"failed": True, "msg": f"The API server gave no answer in {self._limit} s"}
            elif answer.get("failed"):
                answer = {**answer, "msg": _reason(answer)}
            if not _is_away(answer):
                self._answered = True
                return answer
            deadline = deadline or time.monotonic() + _OUTAGE
            if not self._answered or time.monotonic() > deadline:
                return answer
            self.show(f"the API server does not answer, asked again for {_OUTAGE} s")
            time.sleep(_PAUSE)

    def _low_level_execute_command(self, cmd: str, *arguments: t.Any, **options: t.Any) -> dict[str, t.Any]:
        """Run a command of a module, for a limited time if this machine can, in the folder that the paths of KUBECONFIG are from."""
        if self._connection.transport == "local":
            options["chdir"] = shlex.quote(os.getcwd())
            if shutil.which("timeout"):
                # Busybox has no long options.
                cmd = shlex.join(["timeout", "-k", "5", str(self._limit), "/bin/sh", "-c", cmd])
        answer: dict[str, t.Any] = super()._low_level_execute_command(cmd, *arguments, **options)
        return answer


class ClusterAction(ClusterMixin):
    """An action that takes the arguments of CLUSTER_ARGUMENTS. ``act`` does it, and calls ``prepare`` first."""

    TRANSFERS_FILES = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Run the action."""
        result = super().run(tmp, task_vars)
        try:
            done = self.act(task_vars)
            return {**result, **done, **hidden(done)}
        except Unanswered as error:
            return {**result, "failed": True, "msg": str(error), "problems": error.problems}

    @abc.abstractmethod
    def act(self, task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        """What the action is for; what it returns. Raises Unanswered."""


def check_times(arguments: t.Mapping[str, t.Any]) -> None:
    """Raise AnsibleActionFail unless all arguments that are seconds can be waited for."""
    for name, value in arguments.items():
        if name.endswith(("timeout", "interval")) and not 0 <= value < math.inf:
            raise AnsibleActionFail(str(OptionError(name, value, "0 or more seconds")))


class ClusterRoleAction(ClusterMixin, VariablesAction):
    """An action that asks the cluster which the variables of its task's role name."""

    _requires_connection = True

    def act(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """What the action returns. Raises GpufabricError."""
        self.require_role()
        variables = self.read_variables(self.role_path, "gpufabric_")
        self.shared = without_prefix(variables, "gpufabric_")
        self.prepare(cluster_of(variables), self._task_vars)
        try:
            return self.act_on_cluster(arguments)
        except Unanswered as error:
            return self.failure(error.problems, str(error))

    @abc.abstractmethod
    def act_on_cluster(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """What the action returns. ``self.shared``: the role's variables that begin with gpufabric_. Raises GpufabricError, Unanswered."""


def _is_away(answer: t.Mapping[str, t.Any]) -> bool:
    return bool(answer.get("failed")) and any(
        entry["id"] == "kube-unreachable" for entry in problems_from_result(answer)
    )
