# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.objects import (
    claimed,
    labels,
    object_name,
    objects_taken,
    outline,
    ownership,
    pods_of_job,
    removal_command,
    run_taken,
    selector,
    with_start_of,
)

LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?\Z")


@pytest.mark.parametrize("run_id", ["default", "nightly-3", "a", "x" * 30])
def test_a_name_that_fits_is_kept(run_id):
    assert object_name(run_id) == f"gpufabric-{run_id}"


@pytest.mark.parametrize("run_id", ["Nightly", "a_b", "a.b", "-a", "a-", "x" * 31, "x" * 63, "___", "a--b"])
def test_a_name_that_does_not_fit_is_changed_and_stays_unique(run_id):
    name = object_name(run_id)
    assert LABEL.match(name) and len(name) <= 40
    assert name != f"gpufabric-{run_id}"


def test_names_that_are_cut_at_the_same_place_differ():
    assert object_name("x" * 40 + "1") != object_name("x" * 40 + "2")
    assert object_name("Run") != object_name("run")


def test_labels_and_selector():
    own = {"app.kubernetes.io/managed-by": "gpufabric.nccl"}
    assert labels("Run_1.a", "worker_pods") == {**own, "gpufabric.nccl/run": "Run_1.a"}
    # Nothing that one of them finds is the other's.
    assert labels("Run_1.a", "mpijob") == {**own, "gpufabric.nccl/mpijob": "Run_1.a"}
    assert selector("a", "worker_pods") == "app.kubernetes.io/managed-by=gpufabric.nccl,gpufabric.nccl/run=a"


@pytest.mark.parametrize("run_id", ["", "-a", "a-", "a b", "x" * 64, "a\n"])
def test_a_run_that_is_no_label_is_refused(run_id):
    with pytest.raises(OptionError, match="gpufabric_run_id"):
        labels(run_id, "worker_pods")


SPEC = {"replicas": 2}
NOON = 1767268800  # 2026-01-01 12:00:00 UTC


def found(owner="me@here", spec=None, created="2026-01-01T11:57:00Z"):
    spec = SPEC if spec is None else spec
    annotations = ownership(owner, spec) if owner else None
    metadata = {"name": "gpufabric-default", "creationTimestamp": created, "annotations": annotations}
    return {"kind": "StatefulSet", "metadata": metadata, "spec": spec}


def test_a_run_of_ones_own_with_the_same_settings_is_not_taken():
    assert run_taken("default", "me@here", [found()], [found()], NOON) == []
    assert run_taken("default", "me@here", [], [found()], NOON) == []


def test_the_owner_of_a_run_may_remove_it_whatever_its_settings_are():
    assert run_taken("default", "me@here", [found(spec={"replicas": 1})]) == []
    # One of an earlier release says nothing.
    assert run_taken("default", "me@here", [found(owner=None)]) == []


def test_a_live_job_without_an_owner_is_nobody_elses_to_remove():
    live = {**found(owner=None), "kind": "MPIJob", "apiVersion": "kubeflow.org/v2beta1"}
    (problem,) = run_taken("default", "me@here", [live], [], NOON)
    assert (problem.id, "a live MPIJob without an owner" in problem.cause) == ("run-taken", True)
    finished = {**live, "status": {"conditions": [{"type": "Failed", "status": "True"}]}}
    assert run_taken("default", "me@here", [finished], [], NOON) == []


@pytest.mark.parametrize("wanted", [[], [found()]])
def test_a_run_of_another_owner_is_taken(wanted):
    (problem,) = run_taken("default", "me@here", [found(owner="you@there")], wanted, NOON)
    assert (problem.id, problem.severity, problem.host) == ("run-taken", "error", None)
    assert problem.cause == "The run default belongs to you@there, started 3 minutes ago."
    assert "gpufabric_run_id" in problem.cure and "gpufabric_take_over=true" in problem.cure
    assert problem.evidence == "StatefulSet gpufabric-default, created 2026-01-01T11:57:00Z"


@pytest.mark.parametrize("there", [found(spec={"replicas": 1}), found(owner=None)])
def test_a_run_with_other_settings_is_taken(there):
    (problem,) = run_taken("default", "me@here", [there], [found()], NOON)
    assert "has objects in the cluster that were made with other settings" in problem.cause


@pytest.mark.parametrize(
    ("created", "age"),
    [
        ("2026-01-01T11:59:59Z", ", started 1 second ago."),
        ("2026-01-01T12:00:09Z", ", started 0 seconds ago."),
        ("2026-01-01T10:00:00Z", ", started 2 hours ago."),
        ("2025-12-30T12:00:00Z", ", started 2 days ago."),
        (None, "you@there."),
        ("soon", "you@there."),
    ],
)
def test_the_age_of_a_run_is_in_words(created, age):
    (problem,) = run_taken("default", "me@here", [found(owner="you@there", created=created)], [], NOON)
    assert problem.cause.endswith(age)


def labelled(**changes):
    item = found(**changes)
    item["metadata"] = {**item["metadata"], "labels": labels("default", "worker_pods"), "uid": "u1"}
    return item


def test_objects_are_new_or_those_that_were_found():
    service = {"kind": "Service", "metadata": {"name": "gpufabric-default"}}
    uids = [item["metadata"]["uid"] for item in claimed([service, found()], [labelled()])]
    assert uids == ["new", "u1"] and "uid" not in service["metadata"]


@pytest.mark.parametrize("take_over", [False, True])
def test_an_object_of_no_run_is_never_taken_over(take_over):
    other = labelled()
    other["metadata"]["labels"] = {**labels("default", "worker_pods"), "gpufabric.nccl/run": "nightly"}
    of_a_job = labelled()
    of_a_job["metadata"]["labels"] = labels("default", "mpijob")
    for there in (found(), other, of_a_job):
        (problem,) = objects_taken(
            "default", "me@here", [there], [labelled()], take_over=take_over, setting="mpijob_name"
        )
        assert problem.id == "kube-name-taken"
        assert problem.cause == "StatefulSet gpufabric-default exists already, and the run default has not made it."
        assert problem.cure.startswith("Set gpufabric_run_id, or mpijob_name, to another name")


def test_objects_of_the_run_are_taken_by_owner_settings_and_start():
    def states(*there, wanted=None, **options):
        problems = objects_taken("default", "me@here", there, [wanted or labelled()], now=NOON, **options)
        return [problem.cause for problem in problems]

    assert states(labelled()) == []
    assert states(labelled(owner="you@there")) == ["The run default belongs to you@there, started 3 minutes ago."]
    assert states(labelled(owner="you@there"), take_over=True) == []
    assert "other settings" in states(labelled(spec={}))[0]
    ours, theirs = labelled(), labelled()
    ours["metadata"] = {**ours["metadata"], "annotations": {**ownership("me@here", SPEC), "gpufabric.nccl/start": "1"}}
    theirs["metadata"]["annotations"] = {**ownership("me@here", SPEC), "gpufabric.nccl/start": "2"}
    assert states(theirs, wanted=ours) == ["The run default is being started by another play, started 3 minutes ago."]
    # Who goes on with what an interrupted play has left is not taken for another.
    assert states(theirs, wanted=with_start_of([theirs], [ours])[0]) == []
    assert with_start_of([labelled()], [ours]) == [ours] == with_start_of([], [ours])


def test_an_outline_tells_whose_an_object_is_and_no_values():
    item = labelled()
    item["metadata"]["annotations"] = {
        **item["metadata"]["annotations"],
        "kubectl.kubernetes.io/last-applied": "secret",
    }
    there = {"apiVersion": "apps/v1", **item, "spec": {"env": "secret"}, "status": {"conditions": [], "replicas": 2}}
    told = outline(there)
    assert "secret" not in str(told) and told["status"] == {"conditions": []} and told["metadata"]["uid"] == "u1"
    assert run_taken("default", "me@here", [told], [found()]) == []
    assert [item.id for item in run_taken("default", "you@there", [told])] == ["run-taken"]


def test_only_objects_of_a_kind_that_is_wanted_have_to_have_the_settings():
    service = {"kind": "Service", "metadata": {"name": "x", "annotations": ownership("me@here", {"other": 1})}}
    assert run_taken("default", "me@here", [service, found()], [found()]) == []


def test_the_command_that_removes_a_run():
    command = removal_command("a", "worker_pods", {"kubeconfig": "/my files/k", "context": None, "namespace": "n"})
    assert command == (
        "kubectl --kubeconfig '/my files/k' --namespace n delete statefulset,networkpolicy,service"
        " --selector app.kubernetes.io/managed-by=gpufabric.nccl,gpufabric.nccl/run=a"
    )
    command = removal_command("a", "mpijob", {"kubeconfig": None, "context": "c", "namespace": "n"})
    assert command.startswith("kubectl --context c --namespace n delete mpijob,networkpolicy,configmap --selector ")


def pod_of(name, *controller):
    references = [{"kind": kind, "name": other, "controller": True} for kind, other in controller]
    return {"metadata": {"name": name, "ownerReferences": references}}


def test_the_pods_of_a_job_are_those_of_its_controllers():
    own = [
        pod_of("train-worker-0", ("MPIJob", "train")),
        pod_of("train-launcher-x7k2p", ("Job", "train-launcher")),
        # Their controllers were deleted without them.
        pod_of("train-worker-1"),
        pod_of("train-launcher"),
    ]
    others = [
        pod_of("debug-5f8dc5f649-g7g62", ("ReplicaSet", "debug-5f8dc5f649")),
        pod_of("train-worker-2", ("MPIJob", "trains")),
        pod_of("train-launcher-abcde", ("Job", "nightly")),
        pod_of("train-worker-0-debug"),
    ]
    assert pods_of_job("train", [*others, *own]) == own
