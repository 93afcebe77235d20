# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import types

import pytest
from ansible_collections.gpufabric.nccl.plugins.action import mpijob_finished
from ansible_collections.gpufabric.nccl.plugins.action.mpijob_finished import ActionModule


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ({"log": "gpufabric-mpijob: stage keys"}, ("gpufabric-mpijob: stage keys", "")),
        ({"log": ""}, ("", "")),
        ({"failed": True, "msg": "pods/log is forbidden"}, ("", "pods/log is forbidden")),
    ],
)
def test_a_log_that_cannot_be_read_says_why(answer, found):
    action = types.SimpleNamespace(execute=lambda *_module, **_arguments: answer)
    assert ActionModule._log(action, {"metadata": {"name": "launcher"}}) == found


def _pod(name, **metadata):
    labels = {"training.kubeflow.org/job-role": "launcher"}
    return {"metadata": {"name": name, "labels": labels, **metadata}, "spec": {"nodeName": "n1"}, "status": {}}


@pytest.mark.parametrize(
    ("last", "lost"),
    [
        ([], {"name": "launcher-a", "node": "n1"}),
        ([_pod("launcher-a", deletionTimestamp="2026-01-01T00:00:00Z")], {"name": "launcher-a", "node": "n1"}),
        ([_pod("launcher-a")], None),
        ([_pod("launcher-b")], None),
    ],
)
def test_a_launcher_that_was_there_and_is_gone_is_remembered(monkeypatch, last, lost):
    running = {"status": {"conditions": [{"type": "Running", "status": "True"}]}}
    failed = {"status": {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}}
    looks = iter([(running, [_pod("launcher-a")]), (failed, last)])
    given = {"name": "j", "uid": None, "workers": 0, "timeout": 60, "interval": 0, "plan": None}
    action = types.SimpleNamespace(
        validate_argument_spec=lambda _spec: (None, given),
        prepare=lambda *_given: None,
        show=lambda _text: None,
        crash_logs=lambda _pods: {},
        _look=lambda *_which: next(looks),
        _log=lambda _launcher: ("", ""),
        _events=list,
    )
    monkeypatch.setattr(mpijob_finished.time, "sleep", lambda _seconds: None)
    assert ActionModule.act(action, None)["lost_launcher"] == lost


def test_a_pod_that_has_only_the_labels_of_the_job_is_none_of_it():
    own = _pod("j-launcher-x7k2p", ownerReferences=[{"kind": "Job", "name": "j-launcher", "controller": True}])
    copied = _pod("debug", ownerReferences=[{"kind": "ReplicaSet", "name": "debug", "controller": True}])
    there = {"MPIJob": [{"metadata": {"name": "j", "uid": "1"}}], "Pod": [own, copied]}
    action = types.SimpleNamespace(ask=lambda kind, **_which: there[kind])
    assert ActionModule._look(action, "j", "1")[1] == [own]
