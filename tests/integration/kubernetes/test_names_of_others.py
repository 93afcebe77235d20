# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Objects in the cluster that have the names of a run's: others' stay as they are, and of plays that begin together one gets the run."""

from __future__ import annotations

import concurrent.futures
import json
import typing as t

import pytest
from background import wait
from job_runs import JOB_KINDS, JobRuns
from pod_runs import OURS, attempts

RUN_OBJECTS = "gpufabric.nccl.run_objects"
OWNERS = {"a": "ada@one", "b": "bob@two", "c": "cyd@three"}


def policy(name: str) -> dict[str, t.Any]:
    spec = {"podSelector": {"matchLabels": {"app": "theirs"}}}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name}, "spec": spec}


def service(name: str) -> dict[str, t.Any]:
    spec = {"clusterIP": "None", "selector": {"app": "theirs"}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def config_map(name: str) -> dict[str, t.Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"theirs": "yes"}}


def stateful_set(name: str) -> dict[str, t.Any]:
    labels = {"app": "theirs"}
    container = {"name": "c", "image": "localhost/none"}
    spec = {
        "replicas": 0,
        "serviceName": name,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec}


def job(name: str) -> dict[str, t.Any]:
    template = {"spec": {"containers": [{"name": "c", "image": "localhost/none"}]}}
    spec = {"mpiReplicaSpecs": {"Launcher": {"replicas": 1, "template": template}}}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": name}, "spec": spec}


def without_status(item: dict[str, t.Any]) -> dict[str, t.Any]:
    metadata = {
        key: value for key, value in item["metadata"].items() if key not in ("resourceVersion", "managedFields")
    }
    return {"kind": item["kind"], "metadata": metadata, **{key: item[key] for key in ("spec", "data") if key in item}}


def read(cluster: t.Any, namespace: str, kinds: str, selector: str = "") -> list[dict[str, t.Any]]:
    which = [f"--selector={selector}"] if selector else []
    items = cluster.get(kinds, *which, namespace=namespace)["items"]
    # Kubernetes has some of its own in each namespace.
    return [without_status(item) for item in items if item["metadata"]["name"] != "kube-root-ca.crt"]


def problems(played: t.Any, host: str) -> list[dict[str, t.Any]]:
    failed = [record for record in played.records if (record["host"], record["status"]) == (host, "failed")]
    return failed[-1]["result"]["problems"]


KINDS = "services,networkpolicies,statefulsets"


def test_pods_of_a_run_change_nothing_that_has_their_names(runs):
    """Objects of others: a name comes from the run, so each case is a run of its own."""
    made = {"service": service, "policy": policy, "set": stateful_set}
    runs.cluster.create(*(make(f"gpufabric-{name}") for name, make in made.items()), namespace=runs.namespace)
    before = read(runs.cluster, runs.namespace, KINDS)
    played = runs.attempts(
        {name: {"gpufabric_run_id": name, "worker_pods_replicas": 1, "gpufabric_take_over": True} for name in made}
    )
    for name, make in made.items():
        (problem,) = problems(played, name)
        assert problem["id"] == "kube-name-taken", played.output
        assert f"{make(name)['kind']} gpufabric-{name} exists already" in problem["cause"]
        assert "gpufabric_run_id" in problem["cure"]
    wait(lambda: runs.ours() == [], left=runs.ours)
    assert read(runs.cluster, runs.namespace, KINDS) == before


def test_of_plays_that_begin_together_one_gets_the_pods(runs):
    """They take each step at the same time, and see nobody when they look."""
    cases = {name: {"gpufabric_owner": owner, "worker_pods_replicas": 1} for name, owner in OWNERS.items()}
    played = runs.attempts(cases)
    items = read(runs.cluster, runs.namespace, KINDS, OURS)
    owners = {item["metadata"]["annotations"]["gpufabric.nccl/owner"] for item in items}
    assert len(items) == 3 and len(owners) == 1, items
    (winner,) = (name for name, owner in OWNERS.items() if owner in owners)
    for name in OWNERS.keys() - {winner}:
        (problem,) = problems(played, name)
        assert problem["id"] == "run-taken" and f"belongs to {OWNERS[winner]}, started" in problem["cause"], (
            played.output
        )
    # Nobody has changed what the winner made.
    assert [item["metadata"].get("generation", 1) for item in items] == [1, 1, 1]
    joined = [record for record in played.records if record["action"] == "gpufabric.nccl.pods_ready"]
    assert [record["host"] for record in joined] == [winner] and joined[0]["status"] == "ok", played.output


@pytest.mark.slow
def test_a_pod_takes_no_place_of_a_host_or_group(runs, pods):
    """Each case is a host of the inventory, by the name of its pod."""
    pods.create("localhost", "other", "web", "all", "free")
    names = {"web": ["other", "web"], "b": ["localhost", "other"], "c": ["all"], "d": ["free"]}
    played = runs.attempts({name: {"worker_pods_names": adopted} for name, adopted in names.items()})
    for name, pod in {"web": "web", "b": "localhost", "c": "all"}.items():
        (problem,) = problems(played, name)
        assert (problem["id"], problem["host"]) == ("pod-host-name", pod), played.output
    joined = {
        record["host"]
        for record in played.records
        if record["action"] == "ansible.builtin.add_host" and record["status"] == "ok"
    }
    assert joined == {"d"}, played.output
    # The playbook itself, whose next play would have been in the pod.
    whole = runs.play(worker_pods_names=["localhost"])
    assert whole.returncode != 0 and [problem["id"] for problem in problems(whole, "localhost")] == ["pod-host-name"]


class Submitting:
    """Plays of the role mpijob beside each other, whose jobs nobody acts on."""

    def __init__(self, player: t.Any, cluster: t.Any, namespace: str, directory: t.Any) -> None:
        directory.mkdir()
        self.player, self.cluster, self.namespace, self.directory = player, cluster, namespace, directory
        self.single = JobRuns(player, cluster, namespace, directory)

    def __call__(self, cases: dict[str, dict[str, t.Any]], **variables: t.Any) -> t.Any:
        settings = {**self.single._small(), "mpijob_name": "", "mpijob_operator_timeout": 1, **variables}
        return attempts(self.player, self.directory, "gpufabric.nccl.mpijob", settings, cases)


@pytest.fixture
def submitting(cluster_player, cluster, namespace, mpijobs, tmp_path):
    return Submitting(cluster_player, cluster, namespace, tmp_path / "report")


JOBS = "configmaps,networkpolicies,mpijobs"


@pytest.mark.slow
def test_a_job_changes_nothing_that_has_its_name(submitting):
    cluster, namespace = submitting.cluster, submitting.namespace
    theirs = {
        "job": job("mine-job"),
        "policy": policy("mine-policy"),
        "files": config_map("mine-files"),
        "claim": config_map("gpufabric-claim-files"),
    }
    cluster.create(*theirs.values(), namespace=namespace)
    before = read(cluster, namespace, JOBS)
    cases = {name: {"gpufabric_run_id": name, "mpijob_name": f"mine-{name}"} for name in ("job", "policy", "claim")}
    cases["files"] = {"gpufabric_run_id": "files", "mpijob_name": "mine"}
    played = submitting(cases, gpufabric_take_over=True)
    for name in ("job", "policy", "claim"):
        item = theirs[name]
        (problem,) = problems(played, name)
        assert problem["id"] == "kube-name-taken", played.output
        assert f"{item['kind']} {item['metadata']['name']} exists already" in problem["cause"]
        assert "mpijob_name" in problem["cure"]
    # A ConfigMap of that name is no concern of a job that is submitted.
    assert "operator-idle" in str(played.result("files", "gpufabric.nccl.mpijob_finished")["results"])
    assert read(cluster, namespace, JOBS) == before


@pytest.mark.parametrize(
    "owners", [OWNERS, pytest.param(dict.fromkeys("abc", "ada@one"), marks=pytest.mark.slow, id="one")]
)
def test_of_plays_that_begin_together_one_submits_its_job(submitting, owners):
    cases = {name: {"gpufabric_owner": owner} for name, owner in owners.items()}
    played = submitting(cases, mpijob_keep=True)
    (job_of_winner,) = submitting.cluster.get("mpijobs", namespace=submitting.namespace)["items"]
    whose = job_of_winner["metadata"]["annotations"]["gpufabric.nccl/owner"]
    observed = {record["host"] for record in played.records if record["action"] == "gpufabric.nccl.mpijob_finished"}
    (winner,) = observed
    assert owners[winner] == whose
    for name in owners.keys() - {winner}:
        (problem,) = problems(played, name)
        words = f"belongs to {whose}, started" if owners[name] != whose else "is being started by another play, started"
        assert problem["id"] == "run-taken" and words in problem["cause"], played.output
    assert len(submitting.single.labelled()) == 3


@pytest.mark.slow
def test_a_job_that_has_replaced_ours_is_not_followed(submitting):
    """The job is deleted, and one of its name made by hand, while a play follows it."""
    cluster, namespace = submitting.cluster, submitting.namespace
    with concurrent.futures.ThreadPoolExecutor() as pool:
        playing = pool.submit(submitting.single, mpijob_name="mine", mpijob_operator_timeout=600)
        there = ("get", "mpijob", "mine", "--output=name")
        wait(
            lambda: cluster.kubectl(*there, namespace=namespace, check=False).returncode == 0 or playing.done(),
            300,
            pause=1,
        )
        cluster.kubectl("delete", "mpijob", "mine", namespace=namespace)
        cluster.create(job("mine"), namespace=namespace)
        played = playing.result()
    assert played.returncode != 0
    assert [problem["id"] for problem in submitting.single.problems()] == ["mpijob-deleted"], played.output
    kinds = {
        name.split("/")[0]
        for name in cluster.kubectl("get", JOB_KINDS, "--output=name", namespace=namespace).stdout.split()
    }
    assert "mpijob.kubeflow.org" in kinds and submitting.single.labelled() == []


@pytest.mark.slow
def test_a_job_that_a_play_waits_for_is_left_alone_by_another_play_of_its_owner(submitting):
    """With the same settings, as of two pipelines of one account; only how long they wait differs."""
    cluster, namespace, settings = submitting.cluster, submitting.namespace, {"mpijob_name": "mine"}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        playing = pool.submit(submitting.single, **settings, mpijob_operator_timeout=600)
        there = ("get", "mpijob", "mine", "--output=name")
        wait(
            lambda: cluster.kubectl(*there, namespace=namespace, check=False).returncode == 0 or playing.done(),
            300,
            pause=1,
        )
        second = submitting.single(**settings, mpijob_operator_timeout=1)
        assert second.returncode != 0
        (problem,) = second.result("localhost", RUN_OBJECTS)["problems"]
        assert problem["id"] == "run-in-use" and "another play of" in problem["cause"], second.output
        assert cluster.kubectl(*there, namespace=namespace).stdout
        assert not playing.done()
        cluster.kubectl("delete", "mpijob", "mine", namespace=namespace)
        playing.result()
    assert [problem["id"] for problem in submitting.single.problems()] == ["mpijob-deleted"]


def test_a_manifest_is_for_its_owner_alone(submitting):
    manifest = submitting.directory / "job.yaml"
    environment = {"HUB_TOKEN": "s3cret"}
    for _again in range(2):
        played = submitting.single(mpijob_state="rendered", mpijob_manifest=str(manifest), mpijob_env=environment)
        assert played.returncode == 0 and "s3cret" not in played.output, played.output
        assert manifest.stat().st_mode & 0o777 == 0o600 and "s3cret" in manifest.read_text()
        # One that was there already, and open to all.
        manifest.chmod(0o644)
    assert json.dumps(environment) not in played.output


@pytest.mark.slow
def test_pods_and_a_job_of_one_run_id_do_not_meet(runs, submitting):
    """The run of one playbook goes on while one of the other, of the same name, begins and ends."""
    namespace = submitting.namespace
    played = submitting.single(mpijob_keep=True, mpijob_operator_timeout=1, gpufabric_run_id="same", mpijob_name="")
    jobs = "mpijobs,configmaps,networkpolicies"
    before = read(submitting.cluster, namespace, jobs, "gpufabric.nccl/mpijob=same")
    assert len(before) == 3, played.output
    # As one of the job's: nobody acts on jobs here.
    labels = {"app.kubernetes.io/managed-by": "gpufabric.nccl", "gpufabric.nccl/mpijob": "same"}
    pod = {"containers": [{"name": "c", "image": submitting.cluster.image, "command": ["sleep", "infinity"]}]}
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "of-the-job", "labels": labels}, "spec": pod}
    submitting.cluster.create(made, namespace=namespace)
    played = runs.play(gpufabric_run_id="same")
    assert played.returncode == 0 and runs.result()["host_count"] == 2, played.output
    assert read(submitting.cluster, namespace, jobs, "gpufabric.nccl/mpijob=same") == before
    assert submitting.cluster.get("pod", "of-the-job", namespace=namespace)["metadata"].get("deletionTimestamp") is None
    # The other way round, with pods that go on.
    played = runs.play(gpufabric_run_id="same", worker_pods_keep=True)
    assert played.returncode == 0, played.output
    kept = read(submitting.cluster, namespace, f"{KINDS},pods", "gpufabric.nccl/run=same")
    played = submitting.single(
        mpijob_operator_timeout=1, gpufabric_run_id="same", mpijob_name="", gpufabric_take_over=True
    )
    assert "operator-idle" in str(submitting.single.problems()), played.output
    assert submitting.single.labelled("same") == ["pod/of-the-job"]
    assert read(submitting.cluster, namespace, f"{KINDS},pods", "gpufabric.nccl/run=same") == kept
