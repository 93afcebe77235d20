# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What becomes of the objects of a run, whoever else is at work in the cluster. That a real one answers so: tests/integration/kubernetes."""

from __future__ import annotations

import copy
import itertools
import pathlib

import pytest
from ansible_collections.gpufabric.nccl.plugins.action.mpijob_plan import ActionModule as MPIJobPlan
from ansible_collections.gpufabric.nccl.plugins.action.run_objects import ActionModule as RunObjects
from ansible_collections.gpufabric.nccl.plugins.action.worker_pods_plan import ActionModule as WorkerPodsPlan
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.task_results import failure_details

FORBIDDEN = (
    'networkpolicies.networking.k8s.io is forbidden: User "u" cannot create resource "networkpolicies" in API group'
    ' "networking.k8s.io" in the namespace "default"'
)


class Cluster:
    """Answers as the modules of kubernetes.core do: an object that exists is only changed or removed by its uid."""

    def __init__(self):
        self.objects, self.calls, self.forbidden = {}, [], set()
        self.rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
        self._uids = (f"u{number}" for number in itertools.count())

    def __call__(self, module_name, module_args, task_vars):
        # What a module is given has values of variables, and is not for the controller's log.
        assert task_vars["ansible_no_target_syslog"] is True
        self.calls.append((module_name, module_args))
        return getattr(self, module_name.rsplit(".", 1)[1])(**module_args)

    def k8s_info(self, kind, name=None, label_selectors=(), namespace=None, **_more):
        if kind in self.forbidden or (namespace is None and "all namespaces" in self.forbidden):
            return {"failed": True, "msg": FORBIDDEN.replace("create", "list")}
        wanted = dict(label.split("=") for label in label_selectors)
        found = [
            item
            for (of, its), item in self.objects.items()
            if of == kind
            and name in (None, its)
            and wanted.items() <= item["metadata"]["labels"].items()
            and namespace in (None, item["metadata"].get("namespace", "default"))
        ]
        return {"resources": copy.deepcopy(found)}

    def k8s(self, namespace=None, **arguments):
        if arguments.get("state") == "absent":
            return self.delete(**arguments)
        if "definition" in arguments:
            return {"changed": True, "result": {"status": {"resourceRules": self.rules}}}
        results = []
        for item in copy.deepcopy(arguments["resource_definition"]):
            key = item["kind"], item["metadata"]["name"]
            there, uid = self.objects.get(key), item["metadata"]["uid"]
            if item["kind"] in self.forbidden:
                return {"failed": True, "msg": FORBIDDEN}
            if there and there["metadata"]["uid"] != uid and arguments["apply"]:
                return {"failed": True, "msg": "the object has been modified"}
            if there and uid == "new":
                results.append({"result": {}})
                continue
            item["metadata"]["uid"] = uid if there else next(self._uids)
            self.objects[key] = item
            results.append({"result": item})
        return {"changed": True, "result": {"results": results} if len(results) > 1 else results[0]["result"]}

    def delete(self, kind, name, delete_options, **_more):
        there = self.objects.get((kind, name))
        if there and there["metadata"]["uid"] != delete_options["preconditions"]["uid"]:
            return {"failed": True, "msg": "Precondition failed: the UID in the precondition differs"}
        self.objects.pop((kind, name), None)
        return {"changed": there is not None}

    def names(self):
        return sorted(kind for kind, _name in self.objects)


@pytest.fixture
def cluster(monkeypatch):
    cluster = Cluster()
    monkeypatch.setattr(RunObjects, "_execute_module", cluster)
    return cluster


@pytest.fixture
def plan(planned):
    def plan(owner="me@here", **variables):
        return planned(
            WorkerPodsPlan, "worker_pods", {}, worker_pods_image="worker", gpufabric_owner=owner, **variables
        )

    return plan


@pytest.fixture
def play(planned, cluster):
    """What run_objects returns; a failure with its problems."""

    def play(state, owner="me@here", take_over=False, namespace="default", **arguments):
        given = {"state": state, **{name: value for name, value in arguments.items() if value is not None}}
        variables = {
            "gpufabric_owner": owner,
            "gpufabric_take_over": take_over,
            "gpufabric_namespace": namespace,
        }
        result = planned(RunObjects, "worker_pods", given, **variables)
        return {**result, "ids": [item["id"] for item in failure_details(result).get("problems", [])]}

    return play


def present(play, plan, **more):
    return play("present", objects=plan["objects"], policy=plan["policy"], joins=True, **more)


def test_objects_are_made_found_and_removed(play, plan, cluster):
    ours = plan()
    made = present(play, ours)
    assert made["created"] and made["changed"] and cluster.names() == ["NetworkPolicy", "Service", "StatefulSet"]
    there = play("free", objects=ours["objects"][-1:])
    assert sorted(item["kind"] for item in there["found"]) == cluster.names()
    removed = play("absent", objects=made["made"])
    assert removed["changed"] and removed["problems"] == [] and cluster.names() == []


def test_the_claim_is_the_last_to_go_and_pods_go_before_it(play, plan, cluster):
    made = present(play, plan())
    labels = cluster.objects["Service", "gpufabric-default"]["metadata"]["labels"]
    metadata = {"name": "gpufabric-default-0", "uid": "p", "labels": labels}
    cluster.objects["Pod", "gpufabric-default-0"] = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    cluster.calls.clear()
    play("absent", objects=made["made"])
    deleted = [given["kind"] for _name, given in cluster.calls if given.get("state") == "absent"]
    assert deleted == ["StatefulSet", "Pod", "Pod", "NetworkPolicy", "Service"]
    waits = [given["wait"] for _name, given in cluster.calls if given.get("state") == "absent"]
    assert waits == [True, False, True, False, False]


def test_what_has_only_the_labels_of_a_run_stays(play, plan, cluster):
    made = present(play, plan())
    labels = cluster.objects["Service", "gpufabric-default"]["metadata"]["labels"]
    controller = {"kind": "ReplicaSet", "name": "mate-5d8", "controller": True}
    for kind, name, owners in (("Pod", "mate-5d8-x", [controller]), ("Pod", "mate-0", []), ("StatefulSet", "mate", [])):
        metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels, "ownerReferences": owners}
        cluster.objects[kind, name] = {"apiVersion": "v1", "kind": kind, "metadata": metadata}
    own = {"kind": "StatefulSet", "name": "gpufabric-default", "controller": True}
    metadata = {"name": "gpufabric-default-0", "uid": "p", "labels": labels, "ownerReferences": [own]}
    cluster.objects["Pod", "gpufabric-default-0"] = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    assert [item["metadata"]["name"] for item in play("free")["found"]] == ["gpufabric-default"] * 3
    assert play("absent", objects=made["made"])["problems"] == play("absent")["problems"] == []
    assert {name for _kind, name in cluster.objects} == {"mate-5d8-x", "mate-0", "mate"}


def test_another_owners_run_is_neither_changed_nor_removed(play, plan, cluster):
    present(play, plan("you@there"), owner="you@there")
    before = copy.deepcopy(cluster.objects)
    ours = plan()
    for state in ({"state": "free", "objects": ours["objects"][-1:]}, {"state": "present", "objects": ours["objects"]}):
        result = play(**state)
        assert result["failed"] and result["ids"] == ["run-taken"] and "created" not in result
    left = play("absent")
    assert [item["id"] for item in left["problems"]] == ["run-taken"] and not left["changed"]
    assert cluster.objects == before


def test_what_an_interrupted_play_has_left_is_used_and_stays_if_the_job_fails(play, plan):
    present(play, plan())
    again = present(play, plan())
    assert not again.get("failed") and again["created"] is False


def test_another_play_that_wants_the_claim_for_itself_is_refused(play, plan):
    present(play, plan())
    again = plan()
    result = play("present", objects=again["objects"])
    assert result["failed"] and result["ids"] == ["run-taken"] and "created" not in result


def test_a_run_that_is_taken_over_is_not_removed_by_the_play_before(play, plan, cluster):
    first = present(play, plan())
    second = present(play, plan(), take_over=True)
    assert second["created"]
    before = copy.deepcopy(cluster.objects)
    left = play("absent", objects=first["made"], take_over=True)
    assert [item["id"] for item in left["problems"]] == ["run-taken"] and cluster.objects == before
    assert play("absent", objects=second["made"])["changed"] and cluster.names() == []


def test_a_run_in_another_namespace_is_told_of_and_stays(play, plan, cluster):
    made = present(play, plan())
    before = copy.deepcopy(cluster.objects)
    left = play("absent", namespace="other")
    (warning,) = left["warnings"]
    assert "default in namespace default stays" in warning and "-e gpufabric_namespace=default" in warning
    assert not left["changed"] and left["problems"] == [] and cluster.objects == before
    # Others' runs are their own, a play that ends knows where it made its objects, and few may look everywhere.
    assert "warnings" not in play("absent", namespace="other", owner="you@there")
    assert "warnings" not in play("absent", namespace="other", objects=made["made"])
    cluster.forbidden.add("all namespaces")
    assert "warnings" not in play("absent", namespace="other")
    cluster.forbidden.clear()
    assert "warnings" not in play("absent") and cluster.names() == []
    assert "warnings" not in play("absent")


def test_an_object_that_has_taken_a_place_stays(play, plan, cluster):
    present(play, plan())
    found = play("free")["found"]
    for item in cluster.objects.values():
        item["metadata"]["uid"] += "-another"
    assert play("absent", found=found)["problems"] == [] and len(cluster.names()) == 3


def test_a_name_that_something_else_has_is_not_free(play, plan, cluster):
    ours = plan()
    there = {**ours["objects"][-1], "metadata": {"name": "gpufabric-default", "labels": {"app": "x"}, "uid": "x"}}
    cluster.objects["StatefulSet", "gpufabric-default"] = there
    for result in (play("free", names=ours["objects"]), present(play, ours, take_over=True)):
        assert result["failed"] and result["ids"] == ["kube-name-taken"]
    assert cluster.objects["StatefulSet", "gpufabric-default"] == there
    # The Service was made: it is this play's to remove.
    assert result["created"] and play("absent", objects=result["made"])["changed"]
    assert cluster.names() == ["StatefulSet"]


def test_an_account_that_may_make_no_policy_goes_on_without_unless_it_is_required(play, plan, cluster, capsys):
    cluster.forbidden = {"NetworkPolicy"}
    ours = plan()
    result = present(play, ours, policy_required=True)
    assert result["failed"] and result["ids"] == ["kube-forbidden"] and result["created"]
    assert play("absent", objects=result["made"])["problems"] == [] and cluster.names() == []
    assert present(play, plan())["created"] and "No NetworkPolicy" in capsys.readouterr().out
    assert cluster.names() == ["Service", "StatefulSet"]
    # And goes on with them, or takes them over: the first object is refused then, and not the policy.
    for more, created in (({}, False), ({"take_over": True}, True)):
        again = present(play, plan(), **more)
        assert not again.get("failed") and again["created"] is created
        assert capsys.readouterr().out.count("No NetworkPolicy") == 1


def test_a_policy_that_the_account_could_not_remove_is_not_made_unless_it_is_required(play, plan, cluster, capsys):
    verbs = ["get", "create", "patch", "delete"]
    cluster.rules = [{"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": verbs}]
    made = present(play, plan())
    assert cluster.names() == ["Service", "StatefulSet"] and "No NetworkPolicy" in capsys.readouterr().out
    assert play("absent", objects=made["made"])["problems"] == [] and cluster.names() == []
    assert present(play, plan(), policy_required=True)["created"] and "NetworkPolicy" in cluster.names()


def test_pods_of_a_play_that_begins_while_another_removes_stay(play, plan, cluster, monkeypatch):
    made = present(play, plan())
    delete = cluster.delete

    def deleted(kind, **given):
        answer = delete(kind=kind, **given)
        if kind == "StatefulSet":
            present(play, plan())
        return answer

    monkeypatch.setattr(cluster, "delete", deleted)
    assert play("absent", objects=made["made"])["problems"] == []
    assert cluster.names() == ["NetworkPolicy", "Service", "StatefulSet"]


def test_a_job_of_a_manifest_stays_and_keeps_no_other_from_being_removed(planned, cluster):
    def play(state, **given):
        return planned(RunObjects, "mpijob", {"state": state, **given}, gpufabric_owner="me@here")

    ours = planned(MPIJobPlan, "mpijob", {}, mpijob_image="worker", gpufabric_owner="me@here")
    made = play("present", objects=ours["objects"])["made"]
    manifest = planned(MPIJobPlan, "mpijob", {}, mpijob_image="worker", mpijob_state="rendered")
    applied = manifest["objects"][-1]
    cluster.objects["MPIJob", "gpufabric-default"] = {**applied, "metadata": {**applied["metadata"], "uid": "x"}}
    assert play("absent", objects=made)["problems"] == []
    assert ("MPIJob", ours["name"]) not in cluster.objects and ("MPIJob", "gpufabric-default") in cluster.objects
    # Nor does a teardown remove it.
    (left,) = play("absent")["problems"]
    assert left["id"] == "run-taken" and ("MPIJob", "gpufabric-default") in cluster.objects


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("timed out", "timed out"),
        # No pod is refused here, so that its settings are no cure.
        (
            'Failed to delete object: {"kind":"Status","message":"admission webhook \\"a.example.com\\" denied the request: kept","code":403}\n',
            'admission webhook "a.example.com" denied the request: kept',
        ),
        (
            'Failed to retrieve\nHTTP response body: {"message":"services is forbidden: User \\"a\\" cannot list"}\n',
            'services is forbidden: User "a" cannot list',
        ),
    ],
)
def test_what_cannot_be_removed_is_told_with_the_command(play, plan, cluster, monkeypatch, said, reason):
    made = present(play, plan())
    monkeypatch.setattr(cluster, "delete", lambda **given: {"failed": True, "msg": said})
    (left,) = play("absent", objects=made["made"])["problems"]
    assert left["id"] == "kube-leftovers" and left["evidence"] == reason
    assert left["cause"] == f"The run could not remove all that it made in the cluster: {reason}."
    selector = "--selector app.kubernetes.io/managed-by=gpufabric.nccl,gpufabric.nccl/run=default."
    assert left["cure"].endswith(f": kubectl --namespace default delete statefulset,networkpolicy,service {selector}")


def test_what_nobody_may_remove_any_more_is_told_with_the_cause(play, plan, cluster, monkeypatch):
    """A token that has expired meanwhile is no missing right, and no webhook's doing."""
    made = present(play, plan())
    said = 'Failed to delete object: {"kind":"Status","message":"Unauthorized","reason":"Unauthorized","code":401}'
    monkeypatch.setattr(cluster, "delete", lambda **given: {"failed": True, "msg": said})
    unknown, left = play("absent", objects=made["made"])["problems"]
    assert unknown["id"] == "kube-token-expired" and left["id"] == "kube-leftovers"
    assert left["evidence"] == "You must be logged in to the server (Unauthorized)"


def test_the_command_that_removes_what_is_left_is_for_the_cluster_of_the_run(
    planned, play, plan, cluster, monkeypatch, tmp_path
):
    other, own = (str(tmp_path / name) for name in ("other", "own"))
    for path in (other, own):
        pathlib.Path(path).write_text("contexts: [{name: north}]")
    made = present(play, plan())
    monkeypatch.setattr(cluster, "delete", lambda **given: {"failed": True, "msg": "timed out"})
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", other)
    monkeypatch.setenv("K8S_AUTH_CONTEXT", "north")
    (left,) = play("absent", objects=made["made"])["problems"]
    assert f": kubectl --kubeconfig {other} --context north --namespace default delete " in left["cure"]
    assert plan()["removal"] in left["cure"]
    # A variable counts more.
    given = {"gpufabric_kubeconfig": own, "gpufabric_owner": "me@here"}
    absent = {"state": "absent", "objects": made["made"]}
    (left,) = planned(RunObjects, "worker_pods", absent, **given)["problems"]
    assert f": kubectl --kubeconfig {own} --context north --namespace " in left["cure"]


def test_what_is_being_removed_is_waited_for(play, plan, cluster, monkeypatch):
    present(play, plan())
    going = cluster.objects["StatefulSet", "gpufabric-default"]["metadata"]
    going["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    naps = []
    monkeypatch.setattr("time.sleep", lambda seconds: naps.append(seconds) or going.pop("deletionTimestamp", None))
    assert not play("free", timeout=30).get("failed") and len(naps) == 1
    # Unless its place is not needed.
    going["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    assert not play("free").get("failed") and len(naps) == 1
