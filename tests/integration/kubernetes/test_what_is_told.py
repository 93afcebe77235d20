# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What users are told of pods: commands that work as they stand, and ways out that are theirs."""

from __future__ import annotations

import concurrent.futures
import pathlib
import shlex
import signal
import typing as t
import uuid

import pytest
import yaml
from background import kill, wait
from test_worker_pods import FAIL, ROOT, account


def commands(text: str) -> list[list[str]]:
    """The kubectl commands of an output or a cure, without the program."""
    lines = [line[line.index("kubectl ") :] for line in text.splitlines() if "kubectl " in line]
    return [shlex.split(line.rstrip("."))[1:] for line in lines]


@pytest.fixture
def without_exec(cluster: t.Any, namespace: str, tmp_path: pathlib.Path) -> str:
    """The kubeconfig of a user who has the rights of the example, but for running programs in pods."""
    items = yaml.safe_load((ROOT / "docs/examples/kubernetes/rbac.yml").read_text())["items"]
    rules = next(item["rules"] for item in items if item["kind"] == "Role")
    kept = [rule for rule in rules if "pods/exec" not in rule["resources"]]
    assert len(kept) == len(rules) - 1
    return account(cluster, namespace, tmp_path, "no-exec", kept)


@pytest.mark.slow
def test_user_who_may_not_exec_is_not_told_to_adopt(runs, without_exec):
    refused = runs.play(gpufabric_kubeconfig=without_exec)
    (problem,) = refused.result("localhost", "gpufabric.nccl.check_permissions")["problems"]
    assert problem["id"] == "kube-forbidden" and "create pods/exec" in problem["cause"], refused.output
    assert "worker_pods_names" not in problem["cure"] and runs.ours() == []


@pytest.mark.slow
def test_cure_of_leftovers_works_as_it_stands(runs, cluster, tmp_path):
    labels = {"app.kubernetes.io/managed-by": "gpufabric.nccl", "gpufabric.nccl/run": "default"}
    metadata = {"name": "gpufabric-default", "labels": labels}
    left = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"clusterIP": "None", "selector": labels},
    }
    runs.cluster.create(left, namespace=runs.namespace)
    looks = {"apiGroups": ["*"], "resources": ["pods", "services", "statefulsets", "networkpolicies"]}
    looker = account(cluster, runs.namespace, tmp_path, "looker", [{**looks, "verbs": ["get", "list"]}])
    refused = runs.teardown(gpufabric_kubeconfig=looker)
    (problem,) = refused.result("localhost", FAIL)["problems"]
    assert problem["id"] == "kube-leftovers" and 'cannot delete resource "services"' in problem["cause"], refused.output
    binding = ("rolebinding", "rights", "--clusterrole=admin", f"--serviceaccount={runs.namespace}:looker")
    cluster.kubectl("create", *binding, namespace=runs.namespace)
    (command,) = commands(problem["cure"])
    assert command[:2] == ["--kubeconfig", looker]
    cluster.kubectl(*command)
    assert runs.ours() == []


@pytest.mark.slow
def test_pods_of_a_play_that_is_cut_off_go_by_the_command_that_it_showed(runs, told):
    token = uuid.uuid4().hex
    with concurrent.futures.ThreadPoolExecutor() as pool:
        playing = pool.submit(runs.play, token=token)
        wait(lambda: "This removes them" in told() or playing.done(), 300, told)
        kill(token)
        assert playing.result().returncode == -signal.SIGKILL, playing.result().output
    assert "If this play is interrupted, the pods stay; the same command goes on with them." in told()
    assert runs.ours() != []
    (command,) = commands(told())
    runs.cluster.kubectl(*command)
    wait(lambda: runs.ours() == [], 240, runs.ours)


@pytest.mark.slow
def test_a_container_without_mpi_is_told_apart_from_the_one_that_has_it(runs, pods, cluster):
    container = {"image": cluster.image, "imagePullPolicy": "IfNotPresent", "command": ["sleep", "infinity"]}
    pods.create("a", "b", containers=[{"name": "sidecar", **container}, {"name": "trainer", **container}])
    # Programs run in a pod's first container unless another is named.
    for name in ("a", "b"):
        pods.exec(name, "find", "/usr", "/opt", "-xdev", "-name", "mpirun*", "-delete")
    played = runs.play(worker_pods_names=["a", "b"])
    problems = played.result("localhost", FAIL)["problems"]
    assert {problem["id"] for problem in problems} == {"mpi-unusable"}, played.output
    assert "set worker_pods_container to the one that has it" in problems[0]["cure"]
    played = runs.play(worker_pods_names=["a", "b"], worker_pods_container="trainer")
    assert played.returncode == 0, played.output
