# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The actions that ask a cluster what became of pods and of their names."""

from __future__ import annotations

import pytest
from ansible_collections.gpufabric.nccl.plugins.action.explain_hostfile import ActionModule as ExplainHostfile
from ansible_collections.gpufabric.nccl.plugins.action.lost_pods import ActionModule as LostPods
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.task_results import failure_details

JOINED = {"name": "p-0", "uid": "1", "node": "n1", "container": "worker", "restarts": 0, "address": "10.0.0.1"}
AWAY = {"failed": True, "msg": "no", "problems": [problem("kube-forbidden", rights="get pods").as_dict()]}


@pytest.fixture
def ask(planned, monkeypatch):
    """What an action returns if the cluster answers this to every question; and the kinds that it asked for."""

    def ask(action, arguments, answer):
        kinds = []
        monkeypatch.setattr(
            action, "_execute_module", lambda self, module_args, **_more: kinds.append(module_args["kind"]) or answer
        )
        return planned(action, "worker_pods", arguments), kinds

    return ask


def test_a_pod_that_is_gone_is_lost(ask):
    result, kinds = ask(LostPods, {"joined": [JOINED], "namespace": "x"}, {"resources": []})
    assert result["answered"] and result["names"] == ["p-0"] and kinds == ["Pod", "Event"]
    assert [item["host"] for item in result["problems"]] == ["p-0"]


def test_a_cluster_that_does_not_answer_has_lost_no_pods(ask):
    result, _kinds = ask(LostPods, {"joined": [JOINED], "namespace": "x"}, AWAY)
    assert not result.get("failed") and not result["answered"] and result["names"] == []
    assert [item["id"] for item in result["problems"]] == ["kube-forbidden"]


def test_names_that_do_not_resolve_are_looked_up_in_the_cluster(ask):
    failure = {
        "failed": True,
        "msg": "cannot resolve",
        "unresolved": ["w-0.job.x"],
        "lookup_errors": {},
        "evidence": {},
    }
    answer = {"resources": [], "api_found": True}
    result, kinds = ask(ExplainHostfile, {"result": failure, "namespace": "x"}, answer)
    assert result["failed"] and kinds == ["Service", "Endpoints", "Pod"]
    details = failure_details(result)
    assert details["problems"] and "cannot resolve" in details["end"]


def test_names_of_a_large_fleet_are_an_answer(ask):
    names = [f"gpufabric-night-worker-{number}.gpufabric-night" for number in range(4096)]
    failure = {
        "msg": ", ".join(names),
        "unresolved": names[:1],
        "lookup_errors": {f"{name}{more}": "no" for name in names for more in ("", ".svc")},
        "evidence": {"/etc/mpi/hostfile": "x" * 500000},
    }
    result, kinds = ask(
        ExplainHostfile, {"result": failure, "host": "launcher-0"}, {"resources": [], "api_found": True}
    )
    assert len(kinds) == 3 and "wrong-answer" not in {item["id"] for item in failure_details(result)["problems"]}


@pytest.mark.parametrize(
    "answer",
    [
        {"unresolved": 5},
        {"unresolved": [{"a": 1}]},
        {"unresolved": [], "stale": [{"name": "w-0"}]},
        {"unresolved": ["w-0.job.x"], "lookup_errors": {"w-0.job.x": 5}},
        {"unresolved": ["w-0.job.x"], "evidence": {"/etc/resolv.conf": 5}},
        {"unresolved": ["w-0.job.x"], "evidence": {"/etc/hosts": "x" * (2 << 20)}},
        {"unresolved": ["w-0"] * 5000},
        {"unresolved": [], "msg": None},
    ],
    ids=range(8),
)
def test_a_launcher_that_answers_something_else_is_named(ask, answer):
    result, _kinds = ask(
        ExplainHostfile, {"result": {"msg": "cannot resolve", **answer}, "host": "launcher-0"}, {"resources": []}
    )
    (found,) = failure_details(result)["problems"]
    assert (found["id"], found["host"]) == ("wrong-answer", "launcher-0")


def test_another_failure_of_the_hostfile_is_reported_as_it_is(ask):
    result, kinds = ask(
        ExplainHostfile, {"result": {"failed": True, "msg": "src: no"}, "host": "l", "namespace": "x"}, {}
    )
    assert result["failed"] and result["msg"] == "src: no" and kinds == []
