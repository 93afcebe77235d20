# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook kubernetes on a real cluster: pods created and adopted, run after run, and all that can go wrong with them."""

from __future__ import annotations

import collections
import concurrent.futures
import json
import pathlib
import shlex
import tarfile
import typing as t

import pytest
import yaml
from background import wait
from pod_runs import OURS, REMAINS, STARTING, Runs


@pytest.fixture
def logged(runs: Runs, tmp_path: pathlib.Path) -> tuple[Runs, pathlib.Path]:
    """Runs with a kubectl before the real one that writes down each call and how long it took, in seconds."""
    directory, log = tmp_path / "bin", tmp_path / "kubectl.log"
    directory.mkdir()
    kubectl = directory / "kubectl"
    kubectl.write_text(
        "#!/bin/bash\n"
        "begin=$(date +%s%N)\n"
        f'{shlex.quote(runs.cluster.kubectl_path)} "$@"\n'
        "status=$?\n"
        f'printf "%s\\n" "$(( ($(date +%s%N) - begin) / 1000000 )) ${{*//$\'\\n\'/ }}" >>{shlex.quote(str(log))}\n'
        "exit $status\n"
    )
    kubectl.chmod(0o755)
    path = f"{directory}:{runs.cluster.environment['PATH']}"
    return runs.within({"PATH": path}), log


def executions(log: pathlib.Path, pods: list[str]) -> dict[str, list[float]]:
    """How long each ``kubectl exec`` in each pod took, in seconds."""
    found: dict[str, list[float]] = collections.defaultdict(list)
    for line in log.read_text().splitlines():
        milliseconds, *words = line.split()
        if "exec" in words:
            found[next(pod for pod in pods if pod in words)].append(int(milliseconds) / 1000)
    return found


FAIL = "gpufabric.nccl.fail_with_problems"


def test_created_pods_run_the_benchmark_and_are_gone_afterwards(runs, faults):
    played = runs.play(worker_pods_replicas=4, gpufabric_data_interface="net1", worker_pods_network_policy=True)
    assert played.returncode == 0, played.output
    result = runs.result()
    assert (result["verdict"], result["host_count"], result["rank_count"]) == ("pass", 4, 4)
    assert {rank["host"] for rank in result["ranks"]} == {f"gpufabric-default-{number}" for number in range(4)}
    assert "4 of 4 pods ready" in played.output
    assert "control network eth0" in played.output
    with tarfile.open(runs.directory / "report/output.tar.gz") as output:
        assert b"# Avg bus bandwidth" in output.extractfile("points/1/stdout").read()
    assert runs.ours() == []
    faults.healthy("playbook kubernetes on pods of its own", result["problems"], "worker_pods")


def test_kept_pods_are_used_again_and_nothing_is_changed_in_them(runs):
    kept = {"worker_pods_keep": True, "gpufabric_run_id": "kept_Run.1"}
    first = runs.play(**kept)
    assert first.returncode == 0, first.output
    pods = [pod["metadata"] for pod in runs.cluster.get("pods", namespace=runs.namespace)["items"]]
    assert len(pods) == 2

    again = runs.play(**kept)
    assert again.returncode == 0, again.output
    # The run itself, and its report on the controller.
    own = ("Start the programs by mpirun", "Write the results")
    assert [task for task in again.changed() if not any(word in task for word in own)] == []
    assert [pod["metadata"] for pod in runs.cluster.get("pods", namespace=runs.namespace)["items"]] == pods

    command = next(line.strip() for line in again.output.splitlines() if line.strip().startswith("kubectl"))
    runs.cluster.kubectl(*shlex.split(command)[1:], "--wait")
    # The pods go when the garbage collector comes to them, which other tests' custom resources may hold up.
    wait(lambda: runs.ours() == [], 240, runs.ours)


def test_pods_reach_only_whom_they_know(runs):
    """Host keys are pinned: an sshd with another key in the same place is refused."""
    played = runs.play(worker_pods_keep=True)
    assert played.returncode == 0, played.output
    first, second = "gpufabric-default-0", "gpufabric-default-1"
    config = "/run/gpufabric/default/ssh/config"
    address = runs.shell(first, f"awk '$1 == \"HostName\" {{print $2}}' {config}").split()[1]
    ssh = f"ssh -F {config} -o LogLevel=INFO {address} hostname 2>&1"
    assert runs.shell(first, ssh).strip() == second
    runs.shell(
        second,
        "cd /run/gpufabric/default/sshd; pid=$(cat sshd.pid); kill $pid;"
        " while kill -0 $pid 2>/dev/null || [ -e sshd.pid ]; do sleep 0.1; done; mkdir /tmp/impostor;"
        " ssh-keygen -q -t ed25519 -N '' -f /tmp/impostor/key; sed 's#^HostKey .*#HostKey /tmp/impostor/key#' sshd_config"
        " >/tmp/impostor/config; mkdir -p /run/sshd; $(command -v sshd || echo /usr/sbin/sshd) -f /tmp/impostor/config;"
        # It writes that once it listens.
        " until [ -s sshd.pid ]; do sleep 0.1; done",
    )
    assert "Host key verification failed" in runs.shell(first, ssh, check=False)

    # The next play sees that its sshd is not there any more, and mends that.
    again = runs.play(worker_pods_keep=True)
    assert again.returncode == 0, again.output
    assert runs.result()["verdict"] == "pass"


#: What the workers of a Kubeflow MPIJob are labelled with.
MPIJOB_LABELS = {"training.kubeflow.org/job-name": "training", "training.kubeflow.org/job-role": "worker"}


@pytest.mark.parametrize("way", ["selector", "names", "mpijob"])
def test_adopted_pods_are_left_as_they_were(runs, pods, way):
    names = [f"hand-{number}" for number in (2, 10, 1)]
    made = pods.create(*names, labels={"app": "trainer", **MPIJOB_LABELS})
    pods.create("bystander", labels={**MPIJOB_LABELS, "training.kubeflow.org/job-role": "launcher"})
    chosen = {
        "selector": {"worker_pods_selector": "app=trainer"},
        "names": {"worker_pods_names": ",".join(names)},
        "mpijob": {"worker_pods_mpijob": "training"},
    }[way]
    before = {name: runs.shell(name, REMAINS) for name in names}
    played = runs.play(**chosen)
    assert played.returncode == 0, played.output
    ranks = [rank["host"] for rank in sorted(runs.result()["ranks"], key=lambda rank: rank["rank"])]
    assert ranks == ["hand-1", "hand-2", "hand-10"]
    assert [runs.cluster.get("pod", name, namespace=runs.namespace) for name in names] == made
    assert {name: runs.shell(name, REMAINS) for name in names} == before
    assert runs.ours() == []


def test_addresses_are_those_of_the_control_network(runs, pods):
    """Pods have eth0, with names, and net1, without; hostname -i gives both."""
    pods.create("a", "b")
    addresses = {
        name: {
            interface: runs.shell(name, f"ip -4 -o addr show {interface} | awk '{{print $4}}'").split("/")[0].strip()
            for interface in ("eth0", "net1")
        }
        for name in ("a", "b")
    }
    if not all(address["net1"] for address in addresses.values()):
        pytest.skip("the cluster gives its pods no second network net1")
    hostfile = "/run/gpufabric/default/mpi/hostfile"
    for interface, variables in {
        "eth0": {},
        "net1": {
            "gpufabric_control_subnet": str(pathlib.PurePosixPath(addresses["a"]["net1"])).rpartition(".")[0] + ".0/24"
        },
    }.items():
        played = runs.play(worker_pods_names=["a", "b"], worker_pods_keep=True, **variables)
        assert played.returncode == 0, played.output
        listed = [line.split()[0] for line in runs.shell("a", f"cat {hostfile}").splitlines()]
        assert listed == [addresses[name][interface] for name in ("a", "b")]


def test_cost_of_many_pods(logged):
    """At most 3 kubectl exec a worker until all reach each other, and none afterwards but the launcher's."""
    runs, log = logged
    count = 32
    played = runs.play(worker_pods_replicas=count)
    assert played.returncode == 0, played.output
    assert runs.result()["host_count"] == count
    names = [f"gpufabric-default-{number}" for number in range(count)]
    found = executions(log, names)
    assert {name: len(found[name]) for name in names[1:]} == dict.fromkeys(names[1:], 3)
    assert runs.ours() == []


def test_cost_of_adopted_pods_and_no_stream_held_while_the_program_runs(logged, pods):
    runs, log = logged
    names = ["a", "b", "c"]
    pods.create(*names)
    played = runs.play(worker_pods_names=names, nccl_benchmark_max_bytes="16M", nccl_benchmark_iterations=60)
    assert played.returncode == 0, played.output
    found = executions(log, names)
    # The first makes sure that there is Python, the teardown is the fifth.
    assert {name: len(found[name]) for name in names[1:]} == dict.fromkeys(names[1:], 5)
    assert max(found["a"]) < runs.result()["points"]["duration_s"]


@pytest.mark.parametrize("lost", ["a", "b"], ids=["launcher", "worker"])
def test_pod_deleted_in_the_middle_is_named_and_the_others_are_cleaned(runs, pods, faults, lost):
    names = ["a", "b", "c"]
    pods.create(*names)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        playing = pool.submit(
            runs.play, worker_pods_names=names, nccl_benchmark_max_bytes="64M", nccl_benchmark_iterations=100000
        )
        wait(lambda: runs.has("a", "test -s /run/gpufabric/default/mpi/points/1/stdout") or playing.done(), 600)
        assert not playing.done(), playing.result().output
        runs.cluster.kubectl("delete", "pod", lost, "--wait=false", namespace=runs.namespace)
        played = playing.result()
    assert played.returncode != 0
    problems = played.result("localhost", FAIL)["problems"]
    where = "the launcher" if lost == "a" else "a worker"
    faults.fault("pod deleted in the middle of a run", problems, "pod-lost", lost, "worker_pods", where)
    assert f"{lost}: The pod was deleted during the run." in played.output
    others = [name for name in names if name != lost]
    assert {name: runs.shell(name, REMAINS) for name in others} == dict.fromkeys(others, "")


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"worker_pods_gpus": 99, "worker_pods_gpu_resource": "example.com/gpu"}, "Insufficient example.com/gpu"),
        (
            {"worker_pods_image": "localhost/no-such-image:1", "worker_pods_image_pull_policy": "Never"},
            "ErrImageNeverPull",
        ),
        ({"worker_pods_command": ["sh", "-c", "echo last words; exit 3"]}, "last words"),
        ({"worker_pods_python_interpreter": "/no/such/python"}, "/no/such/python"),
        ({"worker_pods_node_selector": {"no": "node"}}, "worker_pods_node_selector"),
    ],
    ids=["unschedulable", "image", "crash", "program", "selector"],
)
def test_pod_that_never_starts_has_its_reason(runs, variables, told):
    kept = runs.play(worker_pods_timeout=1, worker_pods_keep=True, **variables)
    assert kept.returncode != 0
    # What is wrong shows after a while, and is told by whoever looks then.
    wait(lambda: not {*STARTING, "running"} & set(runs.states().values()), left=runs.states)
    played = runs.play(worker_pods_timeout=1, **variables)
    assert played.returncode != 0
    message = played.result("localhost", "gpufabric.nccl.pods_ready")["msg"]
    assert "0 of 2 pods are ready after 1 s" in message and message.splitlines()[0].rstrip(":") in played.output
    assert "gpufabric-default-0, gpufabric-default-1: " in message
    assert told in message
    assert runs.ours() == []


def test_quota_is_the_reason(runs):
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "small"},
        "spec": {"hard": {"pods": "1"}},
    }
    runs.cluster.create(quota, namespace=runs.namespace)
    runs.play(worker_pods_timeout=1, worker_pods_keep=True)
    wait(lambda: runs.warned("StatefulSet", "gpufabric-default"))
    played = runs.play(worker_pods_timeout=1)
    message = played.result("localhost", "gpufabric.nccl.pods_ready")["msg"]
    assert played.returncode != 0 and "exceeded quota: small" in message
    assert runs.ours() == []


def test_two_runs_in_one_namespace_do_not_meet(runs, tmp_path):
    ids = ("blue", "green")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        playing = {
            run_id: pool.submit(
                runs.play,
                gpufabric_run_id=run_id,
                worker_pods_group=run_id,
                worker_pods_keep=run_id == "blue",
                report_dir=str(tmp_path / run_id),
            )
            for run_id in ids
        }
    for run_id, future in playing.items():
        assert future.result().returncode == 0, future.result().output
        result = json.loads((tmp_path / run_id / "results.json").read_text())["results"][0]
        assert {rank["host"] for rank in result["ranks"]} == {f"gpufabric-{run_id}-0", f"gpufabric-{run_id}-1"}
    assert runs.ours(f"{OURS},gpufabric.nccl/run=green") == []
    kept = runs.ours(f"{OURS},gpufabric.nccl/run=blue")
    assert len([name for name in kept if name.startswith("pod/")]) == 2


@pytest.fixture
def adopter(cluster: t.Any, namespace: str, tmp_path: pathlib.Path) -> str:
    """The kubeconfig of a user who may get, list and exec pods in the namespace, and nothing else."""
    name = "adopter"
    group = "rbac.authorization.k8s.io"
    cluster.create(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/service-account-token",
            "metadata": {"name": "adopter-key", "annotations": {"kubernetes.io/service-account.name": name}},
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "Role",
            "metadata": {"name": name},
            "rules": [
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
                {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]},
            ],
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        },
        namespace=namespace,
    )
    wait(lambda: "token" in cluster.get("secret", "adopter-key", namespace=namespace).get("data", {}))
    token = cluster.kubectl(
        "get", "secret", "adopter-key", "--template={{.data.token | base64decode}}", namespace=namespace
    )
    config = yaml.safe_load(pathlib.Path(cluster.kubeconfig).read_text())
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token.stdout}}]
    path = tmp_path / "adopter.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return str(path)


def test_user_who_may_only_exec_can_adopt_and_is_told_what_creation_takes(runs, pods, adopter):
    pods.create("a", "b")
    refused = runs.play(gpufabric_kubeconfig=adopter)
    assert refused.returncode != 0
    (problem,) = refused.result("localhost", FAIL)["problems"]
    assert (problem["id"], problem["host"]) == ("kube-forbidden", None) and "worker_pods_names" in problem["cure"]
    rights = problem["cause"].split(" may not ")[1].split(f" in namespace {runs.namespace}")[0].split("; ")
    assert [right.split()[-1] for right in rights] == ["pods", "services", "statefulsets.apps"]

    played = runs.play(gpufabric_kubeconfig=adopter, worker_pods_names=["a", "b"])
    assert played.returncode == 0, played.output
    assert runs.result()["verdict"] == "pass"


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"worker_pods_image": ""}, "worker_pods_image: '' is not allowed"),
        ({"worker_pods_names": ["a"], "worker_pods_mpijob": "b"}, "worker_pods_names, worker_pods_mpijob: "),
        ({"worker_pods_names": ["nobody"], "worker_pods_timeout": 1}, "nobody: There is no such pod."),
        ({"worker_pods_selector": "app=nobody", "worker_pods_timeout": 1}, "none has the labels app=nobody"),
        ({"gpufabric_kubeconfig": "/no/such/file"}, "Set gpufabric_kubeconfig"),
        ({"gpufabric_kube_context": "nowhere"}, "gpufabric_kube_context"),
    ],
)
def test_wrong_settings_change_nothing(runs, variables, told):
    played = runs.play(**variables)
    assert played.returncode != 0
    assert told in played.output.replace("\n", " ").replace("    ", "") or told in played.result("localhost")["msg"]
    assert runs.ours() == []


def test_check_mode_on_an_empty_namespace_makes_nothing(runs):
    played = runs.play("--check")
    assert played.returncode == 0, played.output
    assert runs.ours() == []
