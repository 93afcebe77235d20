# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import subprocess
import types

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.gpufabric.nccl.plugins.action import pods_ready
from ansible_collections.gpufabric.nccl.plugins.action.pods_ready import ActionModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._cluster import Unanswered

DEFAULTS = {
    "kubeconfig": None,
    "context": None,
    "label_selector": None,
    "names": ["p-0"],
    "stateful_set": None,
    "mpijob": None,
    "count": None,
    "container": None,
}


class Looks(ActionModule):
    """Looks at one pod that is as it is said to be, look by look, and answers none but the last call."""

    def __init__(self, pods, timeout=60, identity="kube-exec-failed", **given):
        self._pods = iter(pods)
        self._given = {
            **DEFAULTS,
            "namespace": "n",
            "interpreter": "/python",
            "timeout": timeout,
            "interval": 0,
            **given,
        }
        self._identity = identity
        self.calls = 0
        self.shown = []

    def validate_argument_spec(self, *_what, **_more):
        return None, self._given

    def prepare(self, *_what):
        pass

    def show(self, text):
        self.shown.append(text)

    def ask(self, kind, **_arguments):
        return [next(self._pods)] if kind == "Pod" else []

    def crash_logs(self, _pods):
        return {}

    def _check_interpreter(self, pods):
        self.calls += 1
        if pods[0]["restarts"] < 2:
            raise Unanswered({"problems": [problem(self._identity, "p-0").as_dict()]})


def pod(restarts=0, ready="True"):
    return {
        "metadata": {"name": "p-0", "uid": "1"},
        "spec": {"containers": [{"name": "worker"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"name": "worker", "restartCount": restarts, "state": {"running": {}}}],
        },
    }


def test_a_slip_in_a_name_shows_while_it_is_waited_for():
    looks = Looks([pod(2, ready="False")], timeout=0)
    looks.act(None)
    assert looks.shown == ["0 of 1 pods ready"]
    looks = Looks([pod(2)], timeout=0, names=["p-0", "p-l"])
    looks.act(None)
    assert looks.shown == ["1 of 2 pods ready, 1 found in namespace n"]


@pytest.mark.parametrize(
    ("own", "given"), [("p-0", {"stateful_set": "p", "count": 1}), ("p-worker-0", {"mpijob": "p", "count": None})]
)
def test_a_pod_that_has_only_the_labels_is_no_worker(own, given):
    class Copied(Looks):
        def ask(self, kind, **_arguments):
            found = [{**pod(restarts=2), "metadata": {"name": name, "uid": name}} for name in ("mate-0", own)]
            return found if kind == "Pod" else []

    looks = Copied([], names=None, label_selector="run=default", **given)
    assert [one["name"] for one in looks.act(None)["pods"]] == [own]


def test_a_launcher_that_has_failed_before_is_not_waited_for():
    def launcher(name, created, phase):
        job = {"kind": "Job", "name": "p-launcher", "controller": True}
        found = pod(restarts=2)
        found["metadata"] = {
            "name": f"p-launcher-{name}",
            "uid": name,
            "creationTimestamp": f"2026-01-01T00:00:{created}Z",
            "labels": {"training.kubeflow.org/job-role": "launcher"},
            "ownerReferences": [job],
        }
        found["status"]["phase"] = phase
        return found

    class Retried(Looks):
        def ask(self, kind, **_arguments):
            attempts = [("b", "10", "Failed"), ("a", "30", "Running"), ("c", "20", "Failed")]
            return [launcher(*attempt) for attempt in attempts] if kind == "Pod" else []

    looks = Retried([], timeout=0, names=None, label_selector="job=p", mpijob="p")
    assert [one["name"] for one in looks.act(None)["pods"]] == ["p-launcher-a"]


@pytest.mark.parametrize("refused", [False, True])
def test_a_job_that_has_ended_is_told_where_its_pods_are_gone(refused):
    said = [
        {"type": "Running", "status": "False"},
        {"type": "Created", "status": "True", "message": "MPIJob n/p is created."},
        {"type": "Failed", "status": "True", "message": "Job has reached the specified backoff limit"},
    ]

    class Ended(Looks):
        def ask(self, kind, **_arguments):
            if kind == "MPIJob" and refused:
                raise Unanswered({"msg": "mpijobs.kubeflow.org is forbidden"})
            return {"MPIJob": [{"status": {"conditions": said}}], "Namespace": [{}]}.get(kind, [])

    (found,) = Ended([], timeout=0, names=None, label_selector="job=p", mpijob="p").act(None)["problems"]
    evidence = "" if refused else "MPIJob p: Failed: Job has reached the specified backoff limit"
    assert (found["id"], found["evidence"]) == ("pod-missing", evidence)


@pytest.mark.parametrize("later", [None, {"metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}}])
def test_pods_whose_stateful_set_was_deleted_are_not_waited_for(later):
    sets = iter([{"metadata": {"name": "p"}}, later])

    class Deleted(Looks):
        def ask(self, kind, **_arguments):
            found = {"StatefulSet": lambda: next(sets), "Namespace": dict}.get(kind, lambda: None)()
            return [] if found is None else [found]

    given = {"names": None, "label_selector": "run=default", "stateful_set": "p", "count": 2}
    result = Deleted([], **given).act(None)
    assert [(item["id"], item["host"]) for item in result["problems"]] == [("pod-lost", "p-0"), ("pod-lost", "p-1")]
    assert result["summary"] == "0 of 2 pods are ready in namespace n: their StatefulSet p was deleted."


def test_pods_whose_stateful_set_was_never_seen_were_deleted_too():
    looks = Looks([], timeout=0, names=None, label_selector="run=default", stateful_set="p", count=1)
    looks.ask = lambda kind, **_which: [{}] if kind == "Namespace" else []
    assert [(item["id"], item["host"]) for item in looks.act(None)["problems"]] == [("pod-lost", "p-0")]


def test_pods_that_were_ready_for_a_moment_are_waited_for():
    looks = Looks([pod(), pod(ready="False"), pod(1), pod(2)])
    assert looks.act(None)["pods"][0]["restarts"] == 2


def test_a_container_that_there_is_not_is_named():
    looks = Looks([pod()])
    looks._given["container"] = "main"
    with pytest.raises(AnsibleActionFail, match="container: 'main' is not allowed; allowed in pod p-0: worker"):
        looks.act(None)


def test_pods_that_stay_ready_and_start_no_program_end_it():
    looks = Looks([pod(), pod(), pod(2)])
    with pytest.raises(Unanswered):
        looks.act(None)
    assert looks.calls == 2


@pytest.mark.parametrize("case", [{"timeout": 0}, {"identity": "interpreter-missing"}, {"identity": "kube-forbidden"}])
def test_what_a_second_look_would_not_change_ends_it_at_once(case):
    looks = Looks([pod(), pod(2)], **case)
    with pytest.raises(Unanswered):
        looks.act(None)
    assert looks.calls == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"names": []}, r"names: \[\] is not allowed"),
        ({"names": None, "label_selector": " "}, "label_selector: ' ' is not allowed"),
        ({"timeout": float("nan")}, "timeout: nan is not allowed"),
        ({"interval": -1.0}, "interval: -1.0 is not allowed"),
    ],
)
def test_what_selects_all_pods_or_never_ends_is_refused(given, words):
    with pytest.raises(AnsibleActionFail, match=words):
        Looks([pod(2)], **given).act(None)


@pytest.mark.parametrize("given", [{}, {"names": None, "label_selector": "app=x"}])
def test_a_pod_that_has_ended_well_is_not_told_to_be_missing(given):
    done = pod()
    done["status"] = {"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False"}]}
    result = Looks([done], timeout=0, **given).act(None)
    assert [item["id"] for item in result["problems"]] == ["pod-failed"]
    assert ("kubectl --namespace n delete pod p-0" in result["summary"]) == ("label_selector" in given)


class Talks(Looks):
    """Looks at pods whose interpreter prints without end."""

    _check_interpreter = ActionModule._check_interpreter

    def _way_to(self, _pod):
        return types.SimpleNamespace(exec_command=lambda _command: (1, b"", b"x" * 10**6 + b"the end"))


@pytest.mark.parametrize(
    ("selector", "setting"),
    [
        ("app=x", "worker_pods_selector"),
        ("training.kubeflow.org/job-name=x,training.kubeflow.org/job-role=worker", "mpijob_name"),
    ],
)
def test_the_variable_that_selects_no_pods_is_named(selector, setting):
    looks = Looks([], names=None, label_selector=selector, timeout=0)
    looks.ask = lambda kind, **_which: [{}] if kind == "Namespace" else []
    (entry,) = looks.act(None)["problems"]
    assert entry["id"] == "pod-missing" and setting in entry["cure"]
    assert ("worker_pods_selector" in entry["cure"]) == (setting == "worker_pods_selector")


def test_a_container_without_the_interpreter_may_be_the_wrong_one():
    (entry,) = pods_ready._exec_problems("p-0", "/usr/bin/python3", 127, "not found")
    assert entry["id"] == "interpreter-missing" and "worker_pods_container" in entry["cure"]


def test_of_what_an_interpreter_prints_little_is_shown():
    with pytest.raises(Unanswered) as error:
        Talks([pod()], timeout=0).act(None)
    (told,) = error.value.problems
    assert told["evidence"].endswith("the end") and len(told["cause"]) < 5000


class Hangs(Looks):
    """Looks at two pods, and the connection to one of them hangs."""

    _check_interpreter = ActionModule._check_interpreter

    def ask(self, kind, **_arguments):
        others = {**pod(), "metadata": {"name": "p-1", "uid": "2"}}
        return [pod(), others] if kind == "Pod" else []

    def _way_to(self, pod):
        command = ["sleep", "20" if pod["name"] == "p-1" else "0"]

        def exec_command(_command):
            done = subprocess.run(command, capture_output=True, check=False)
            return done.returncode, done.stdout, done.stderr

        return types.SimpleNamespace(exec_command=exec_command)


def test_a_pod_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setattr(pods_ready, "_LONGEST_SILENCE", 0.5, raising=False)
    with pytest.raises(Unanswered) as error:
        Hangs([], timeout=0, names=["p-0", "p-1"]).act(None)
    (told,) = error.value.problems
    assert (told["id"], told["host"]) == ("kube-exec-failed", "p-1") and "no answer in 0.5 s" in told["cause"]


@pytest.mark.parametrize(
    ("verify", "given", "expected"),
    [
        (None, None, ""),
        ("True", "--v=1", ""),
        ("False", None, "--insecure-skip-tls-verify=true"),
        ("no", "--v=1", "--v=1 --insecure-skip-tls-verify=true"),
    ],
)
def test_connections_verify_the_cluster_as_its_modules_do(monkeypatch, verify, given, expected):
    for name, value in (("K8S_AUTH_VERIFY_SSL", verify), ("K8S_AUTH_EXTRA_ARGS", given)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert pods_ready.extra_args() == expected
