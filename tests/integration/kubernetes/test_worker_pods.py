# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook kubernetes on a real cluster: pods created and adopted, run after run, and all that can go wrong with them."""

from __future__ import annotations

import base64
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
    """Runs with a kubectl before the real one that writes down when each ``kubectl exec`` begins and ends."""
    directory, log = tmp_path / "bin", tmp_path / "kubectl.log"
    directory.mkdir()
    log.touch()
    kubectl = directory / "kubectl"
    kubectl.write_text(
        "#!/bin/bash\n"
        f"log() {{ [[ \" $* \" != *' exec '* ]] || printf '%s\\n' \"${{*//$'\\n'/ }}\" >>{shlex.quote(str(log))}; }}\n"
        'log begin $$ "$@"\n'
        f'{shlex.quote(runs.cluster.kubectl_path)} "$@"\n'
        "status=$?\n"
        'log end $$ "$@"\n'
        "exit $status\n"
    )
    kubectl.chmod(0o755)
    path = f"{directory}:{runs.cluster.environment['PATH']}"
    return runs.within({"PATH": path}), log


def executions(log: pathlib.Path, pods: list[str]) -> collections.Counter[str]:
    """How often there was a ``kubectl exec`` in each pod."""
    calls = [line.split() for line in log.read_text().splitlines()]
    return collections.Counter(
        next(pod for pod in pods if pod in words) for what, _pid, *words in calls if what == "end"
    )


def _open(log: pathlib.Path) -> set[str]:
    """The process ids of ``kubectl exec`` that have begun and not ended."""
    pids: dict[str, set[str]] = {"begin": set(), "end": set()}
    for line in log.read_text().splitlines():
        what, pid, *_words = line.split()
        pids[what].add(pid)
    return pids["begin"] - pids["end"]


FAIL = "gpufabric.nccl.fail_with_problems"
PERMISSIONS = "gpufabric.nccl.check_permissions"
ROOT = pathlib.Path(__file__).parents[3]


def test_created_pods_run_the_benchmark_and_are_gone_afterwards(runs, faults):
    played = runs.play(worker_pods_replicas=4, gpufabric_data_interface="net1")
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


@pytest.mark.slow
def test_kept_pods_are_used_again_and_nothing_is_changed_in_them(runs):
    kept = {"worker_pods_keep": True, "gpufabric_run_id": "kept_Run.1"}
    first = runs.play(**kept)
    assert first.returncode == 0, first.output
    pods = [pod["metadata"] for pod in runs.cluster.get("pods", namespace=runs.namespace)["items"]]
    assert len(pods) == 2

    again = runs.play(**kept)
    assert again.returncode == 0, again.output
    (policy,) = runs.cluster.get("networkpolicies", namespace=runs.namespace)["items"]
    own = {
        "podSelector": {
            "matchLabels": {"app.kubernetes.io/managed-by": "gpufabric.nccl", "gpufabric.nccl/run": "kept_Run.1"}
        }
    }
    assert policy["spec"] == {**own, "policyTypes": ["Ingress"], "ingress": [{"from": [own]}]}
    # The run itself, and its report on the controller.
    own = ("Run the programs by mpirun", "Write the results")
    assert [task for task in again.changed() if not any(word in task for word in own)] == []
    assert [pod["metadata"] for pod in runs.cluster.get("pods", namespace=runs.namespace)["items"]] == pods

    command = next(line.strip() for line in again.output.splitlines() if line.strip().startswith("kubectl"))
    runs.cluster.kubectl(*shlex.split(command)[1:], "--wait")
    # The pods go when the garbage collector comes to them, which other tests' custom resources may hold up.
    wait(lambda: runs.ours() == [], 240, runs.ours, 1)


@pytest.mark.slow
def test_a_container_that_the_cluster_puts_first_is_not_taken_for_the_workers(runs):
    """As a webhook does, such as that of a service mesh for its proxy."""
    first = runs.play(worker_pods_keep=True)
    assert first.returncode == 0, first.output
    command = ["sh", "-c", "rm -f /usr/bin/python3*; exec sleep infinity"]
    proxy = {"name": "proxy", "image": runs.cluster.image, "imagePullPolicy": "IfNotPresent", "command": command}
    patch = [{"op": "add", "path": "/spec/template/spec/containers/0", "value": proxy}]
    arguments = ("statefulset", "gpufabric-default", "--type=json", f"--patch={json.dumps(patch)}")
    runs.cluster.kubectl("patch", *arguments, namespace=runs.namespace)
    again = runs.play()
    assert again.returncode == 0, again.output


@pytest.mark.slow
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


@pytest.mark.parametrize(
    "way", ["selector", *(pytest.param(way, marks=pytest.mark.slow) for way in ("names", "mpijob"))]
)
def test_adopted_pods_are_left_as_they_were(runs, pods, way):
    # Of a job's pods that nothing controls, those with its names count.
    name = "training-worker" if way == "mpijob" else "hand"
    names = [f"{name}-{number}" for number in (2, 10, 1)]
    made = pods.create(*names, labels={"app": "trainer", **MPIJOB_LABELS})
    pods.create("bystander", labels={**MPIJOB_LABELS, "training.kubeflow.org/job-role": "launcher"})
    pods.create("copied", labels=MPIJOB_LABELS)
    chosen = {
        "selector": {"worker_pods_selector": "app=trainer"},
        "names": {"worker_pods_names": ",".join(names)},
        "mpijob": {"worker_pods_mpijob": "training"},
    }[way]
    before = {name: runs.shell(name, REMAINS) for name in names}
    if way == "names":
        checked = runs.play("--check", **chosen)
        assert checked.returncode == 0, checked.output
        assert [item for item in checked.changed() if not item.startswith("localhost")], checked.output
    played = runs.play(**chosen)
    assert played.returncode == 0, played.output
    ranks = [rank["host"] for rank in sorted(runs.result()["ranks"], key=lambda rank: rank["rank"])]
    assert ranks == [f"{name}-{number}" for number in (1, 2, 10)]
    assert [runs.cluster.get("pod", name, namespace=runs.namespace) for name in names] == made
    assert {name: runs.shell(name, REMAINS) for name in names} == before
    assert runs.ours() == []


# test_dns has both networks, and the pods created above name the default.
@pytest.mark.slow
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


@pytest.mark.parametrize("count", [8, 32])
@pytest.mark.slow
def test_cost_of_many_pods(logged, count):
    """At most 3 kubectl exec a worker until all reach each other, and none afterwards but the launcher's."""
    runs, log = logged
    played = runs.play(worker_pods_replicas=count)
    assert played.returncode == 0, played.output
    assert runs.result()["host_count"] == count
    names = [f"gpufabric-default-{number}" for number in range(count)]
    found = executions(log, names)
    assert {name: found[name] for name in names[1:]} == dict.fromkeys(names[1:], 3)
    assert runs.ours() == []


#: In place of Open MPI's daemon: waits until it is let go, where it is to take part in a run.
HELD_DAEMON = """#!/bin/sh
case "$*" in *ess*) touch /tmp/waits; while ! test -e /tmp/go; do sleep 0.1; done;; esac
exec /usr/bin/orted.real "$@"
"""


@pytest.mark.slow
def test_cost_of_adopted_pods_and_no_stream_held_while_the_program_runs(logged, pods):
    runs, log = logged
    names = ["a", "b", "c"]
    pods.create(*names)
    runs.shell("b", f"mv /usr/bin/orted /usr/bin/orted.real; printf %s {shlex.quote(HELD_DAEMON)} >/usr/bin/orted")
    runs.shell("b", "chmod +x /usr/bin/orted")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        playing = pool.submit(runs.play, worker_pods_names=names)
        try:
            wait(lambda: runs.has("b", "test -e /tmp/waits") or playing.done(), 600)
            # The program cannot end before it is let go, so that a stream that is held for it would still be open.
            wait(lambda: _open(log) == set() or playing.done(), left=log.read_text)
            assert not playing.done(), playing.result().output
        finally:
            runs.shell("b", "touch /tmp/go")
        played = playing.result()
    assert played.returncode == 0, played.output
    found = executions(log, names)
    # The first makes sure that there is Python, the teardown is the fifth.
    assert {name: found[name] for name in names[1:]} == dict.fromkeys(names[1:], 5)


# Workers are also lost in test_faults.
@pytest.mark.slow
@pytest.mark.parametrize("lost", [pytest.param("a", id="launcher"), pytest.param("b", id="worker")])
def test_pod_deleted_in_the_middle_is_named_and_the_others_are_cleaned(runs, pods, faults, lost):
    names = ["a", "b", "c"]
    pods.create(*names)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        playing = pool.submit(
            runs.play, worker_pods_names=names, nccl_benchmark_max_bytes="64M", nccl_benchmark_iterations=100000
        )
        runs.wait_for_output("a", 1, playing)
        runs.cluster.kubectl("delete", "pod", lost, "--wait=false", namespace=runs.namespace)
        played = playing.result()
    assert played.returncode != 0
    problems = played.result("localhost", FAIL)["problems"]
    where = "the launcher" if lost == "a" else "a worker"
    faults.fault("pod deleted in the middle of a run", problems, "pod-lost", lost, "worker_pods", where)
    assert f"{lost}: The pod was deleted during the run." in played.output
    others = [name for name in names if name != lost]
    assert {name: runs.shell(name, REMAINS) for name in others} == dict.fromkeys(others, "")


#: What keeps created pods from starting, and what has to be told of it.
NEVER_START = {
    "unschedulable": (
        {"worker_pods_gpus": 99, "worker_pods_gpu_resource": "example.com/gpu"},
        "Insufficient example.com/gpu",
    ),
    "image": (
        {"worker_pods_image": "localhost/no-such-image:1", "worker_pods_image_pull_policy": "Never"},
        "ErrImageNeverPull",
    ),
    "crash": ({"worker_pods_command": ["sh", "-c", "echo last words; exit 3"]}, "last words"),
    "program": ({"worker_pods_python_interpreter": "/no/such/python"}, "/no/such/python"),
    "selector": ({"worker_pods_node_selector": {"no": "node"}}, "worker_pods_node_selector"),
}


# Pods that are adopted show the same in test_faults, and objects that were created are removed there.
@pytest.mark.slow
def test_pods_that_never_start_have_their_reasons(runs):
    cases = {
        name: {"gpufabric_run_id": name, "worker_pods_timeout": 1, **variables}
        for name, (variables, _told) in NEVER_START.items()
    }
    kept = runs.attempts({name: {**variables, "worker_pods_keep": True} for name, variables in cases.items()})
    assert kept.returncode != 0, kept.output
    # What is wrong shows after a while, and is told by whoever looks then.
    wait(lambda: len(runs.states()) == 2 * len(cases), left=runs.states, pause=1)
    wait(lambda: not {*STARTING, "running"} & set(runs.states().values()), left=runs.states, pause=1)
    # Pods that a play has only found stay when the job fails.
    played = runs.attempts({name: {**variables, "gpufabric_take_over": True} for name, variables in cases.items()})
    assert played.returncode != 0, played.output
    for name, (_variables, told) in NEVER_START.items():
        result = played.result(name, "gpufabric.nccl.pods_ready")
        message = result["msg"]
        assert "0 of 2 pods are ready after 1 s" in message and message.splitlines()[0].rstrip(":") in played.output
        assert [problem["host"] for problem in result["problems"]] == [f"gpufabric-{name}-0", f"gpufabric-{name}-1"]
        # Of two containers that crash one may wait to start anew, whose log another command shows.
        assert name == "crash" or f"gpufabric-{name}-0, gpufabric-{name}-1: " in message
        assert told in message
    assert runs.ours() == []


# In test_faults the objects of one run stay when those of others are removed.
@pytest.mark.slow
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


def test_a_run_that_is_taken_is_refused_and_goes_on(runs, faults, tmp_path):
    """Plays with the name of a run that is going on: of another owner, with other settings, and with another benchmark."""
    ranks = "grep -lz OMPI_COMM_WORLD_RANK /proc/[0-9]*/environ | cut -d / -f 3 | xargs kill -s"
    secret = {"metadata": {"name": "hub"}, "stringData": {"token": "s3cret"}}
    runs.cluster.create({"apiVersion": "v1", "kind": "Secret", **secret}, namespace=runs.namespace)
    reference = {"valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}
    same = {"worker_pods_env": {"FI_PROVIDER": "a 'b'", "HUB_TOKEN": reference}}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        playing = pool.submit(
            runs.play, nccl_benchmark_iterations=1000, nccl_benchmark_silence_timeout=900, worker_pods_keep=True, **same
        )
        runs.wait_for_output("gpufabric-default-0", 1, playing, f"{ranks} STOP")
        try:
            # The other rank would wait for this one at the cost of a processor.
            runs.shell("gpufabric-default-1", f"{ranks} STOP", check=False)
            # The ranks of all pods have the variables of the pods.
            environ = "cat $(grep -lz OMPI_COMM_WORLD_RANK /proc/[0-9]*/environ) | tr '\\0' '\\n'"
            variables = set(runs.shell("gpufabric-default-1", environ).splitlines())
            assert {"FI_PROVIDER=a 'b'", "HUB_TOKEN=s3cret"} <= variables
            before = {pod["metadata"]["uid"] for pod in runs.cluster.get("pods", namespace=runs.namespace)["items"]}
            refused = runs.attempts(
                {"owner": {**same, "gpufabric_owner": "you@there"}, "settings": {**same, "worker_pods_replicas": 1}},
            )
            assert refused.returncode != 0, refused.output
            for name, words in {"owner": "The run default belongs to ", "settings": "made with other settings"}.items():
                (problem,) = refused.result(name, FAIL)["problems"]
                assert problem["id"] == "run-taken" and words in problem["cause"]
                assert "started" in problem["cause"]
            faults.fault(
                "name of a run that another owner has",
                refused.result("owner", FAIL)["problems"],
                "run-taken",
                None,
                "worker_pods",
                "the cluster",
            )
            removing = runs.teardown(gpufabric_owner="you@there")
            assert removing.returncode != 0 and "The run default belongs to" in removing.output
            # The pods are as they were, so this play comes as far as the look at them.
            second = runs.play(report_dir=str(tmp_path / "second"), **same)
            assert second.returncode != 0, second.output
            assert "run-in-use" in second.output and "which is not over" in " ".join(second.output.split())
            assert "did not make them" in second.output
            after = {pod["metadata"]["uid"] for pod in runs.cluster.get("pods", namespace=runs.namespace)["items"]}
            assert after == before and not playing.done()
        finally:
            for pod in ("gpufabric-default-1", "gpufabric-default-0"):
                runs.shell(pod, f"{ranks} CONT", check=False)
        played = playing.result()
    assert played.returncode == 0, played.output
    assert runs.result()["verdict"] == "pass"
    removed = runs.teardown(gpufabric_owner="you@there", gpufabric_take_over=True)
    assert removed.returncode == 0, removed.output
    assert runs.ours() == []


def account(
    cluster: t.Any, namespace: str, directory: pathlib.Path, name: str, rules: t.Sequence[dict[str, t.Any]]
) -> str:
    """The kubeconfig of a user who may do in the namespace what rules say, and nothing else."""
    group = "rbac.authorization.k8s.io"
    cluster.create(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/service-account-token",
            "metadata": {"name": f"{name}-key", "annotations": {"kubernetes.io/service-account.name": name}},
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "Role",
            "metadata": {"name": name},
            "rules": rules,
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
    wait(lambda: "token" in cluster.get("secret", f"{name}-key", namespace=namespace).get("data", {}))
    token = cluster.kubectl(
        "get", "secret", f"{name}-key", "--template={{.data.token | base64decode}}", namespace=namespace
    )
    config = yaml.safe_load(pathlib.Path(cluster.kubeconfig).read_text())
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token.stdout}}]
    path = directory / f"{name}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return str(path)


@pytest.fixture
def adopter(cluster: t.Any, namespace: str, tmp_path: pathlib.Path) -> str:
    """The kubeconfig of a user who may get, list and exec pods in the namespace, and nothing else."""
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]},
    ]
    return account(cluster, namespace, tmp_path, "adopter", rules)


@pytest.fixture
def without_policies(cluster: t.Any, namespace: str, tmp_path: pathlib.Path) -> str:
    """The kubeconfig of a user who has the rights of the example, but for those on NetworkPolicies."""
    items = yaml.safe_load((ROOT / "docs/examples/kubernetes/rbac.yml").read_text())["items"]
    rules = next(item["rules"] for item in items if item["kind"] == "Role")
    return account(
        cluster, namespace, tmp_path, "creator", [rule for rule in rules if rule["resources"] != ["networkpolicies"]]
    )


@pytest.mark.slow
def test_user_who_may_not_make_network_policies_goes_on_without_and_is_told(runs, without_policies):
    own = {"gpufabric_kubeconfig": without_policies, "worker_pods_replicas": 1}
    for arguments in (("--check",), ()):
        played = runs.play(*arguments, **own)
        assert played.returncode == 0, played.output
        told = "No NetworkPolicy keeps other pods from those of this run: the account may not make and remove one in namespace"
        assert played.output.count(told) == 1, played.output
    assert runs.result()["verdict"] == "pass" and runs.ours() == []
    required = runs.play(worker_pods_network_policy=True, **own)
    assert required.returncode != 0 and runs.ours() == []
    (problem,) = required.result("localhost", PERMISSIONS)["problems"]
    assert problem["id"] == "kube-forbidden" and "networkpolicies.networking.k8s.io" in problem["cause"]


@pytest.mark.slow
def test_network_policy_of_another_owner_is_a_run_of_his(runs):
    theirs = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": "gpufabric-default",
            "labels": {"app.kubernetes.io/managed-by": "gpufabric.nccl", "gpufabric.nccl/run": "default"},
            "annotations": {"gpufabric.nccl/owner": "you@there"},
        },
        "spec": {"podSelector": {}},
    }
    runs.cluster.create(theirs, namespace=runs.namespace)
    for played in (runs.play(), runs.teardown()):
        assert played.returncode != 0
        (problem,) = played.result("localhost", FAIL)["problems"]
        assert problem["id"] == "run-taken" and "you@there" in problem["cause"]
    assert runs.ours() == ["networkpolicy.networking.k8s.io/gpufabric-default"]
    assert runs.teardown(gpufabric_take_over=True).returncode == 0 and runs.ours() == []


@pytest.mark.slow
def test_user_who_may_only_exec_can_adopt_and_is_told_what_creation_takes(runs, pods, adopter):
    pods.create("a", "b")
    refused = runs.play(gpufabric_kubeconfig=adopter)
    assert refused.returncode != 0
    (problem,) = refused.result("localhost", PERMISSIONS)["problems"]
    assert (problem["id"], problem["host"]) == ("kube-forbidden", None) and "worker_pods_names" in problem["cure"]
    rights = problem["cause"].split(" may not ")[1].split(f" in namespace {runs.namespace}")[0].split("; ")
    assert [right.split()[-1] for right in rights] == ["pods", "services", "statefulsets.apps"]
    asked = runs.play(gpufabric_kubeconfig=adopter, worker_pods_network_policy=True)
    assert "networkpolicies.networking.k8s.io" in asked.result("localhost", PERMISSIONS)["problems"][0]["cause"]

    played = runs.play(gpufabric_kubeconfig=adopter, worker_pods_names=["a", "b"])
    assert played.returncode == 0, played.output
    assert runs.result()["verdict"] == "pass"


#: Settings that are wrong, and what has to be told of them.
WRONG = {
    "no-image": ({"worker_pods_image": ""}, "worker_pods_image: '' is not allowed"),
    "two-ways": (
        {"worker_pods_names": ["a"], "worker_pods_mpijob": "b"},
        "worker_pods_names, worker_pods_mpijob: ",
    ),
    "nobody": ({"worker_pods_names": ["nobody"], "worker_pods_timeout": 1}, "nobody: The pod does not exist."),
    "no-label": ({"worker_pods_selector": "app=nobody", "worker_pods_timeout": 1}, "none has the labels app=nobody"),
    "no-file": ({"gpufabric_kubeconfig": "/no/such/file"}, "Set gpufabric_kubeconfig"),
    "no-context": ({"gpufabric_kube_context": "nowhere"}, "gpufabric_kube_context"),
}


def test_wrong_settings_change_nothing(runs):
    played = runs.attempts({name: variables for name, (variables, _told) in WRONG.items()})
    failed = {record["host"]: record["result"]["msg"] for record in played.records if record["status"] == "failed"}
    for name, (_variables, told) in WRONG.items():
        assert told in failed[name], played.output
        # The last failure of a host is the one that is shown as it is.
        assert _shown(failed[name]) in _shown(played.output), failed[name]
    # The playbook ends where its role does.
    whole = runs.play(**WRONG["no-image"][0])
    assert whole.returncode != 0 and WRONG["no-image"][1] in whole.output
    assert runs.ours() == []


def _shown(text: str) -> str:
    """A text without what a screen adds to it: breaks, and quotes that are doubled."""
    return " ".join(text.replace("''", "'").split())


EXAMPLES = pathlib.Path(__file__).parents[3] / "docs/examples"


def test_the_cluster_takes_the_rights_of_the_examples(runs):
    text = (EXAMPLES / "kubernetes/rbac.yml").read_text().replace("gpu-benchmark", runs.namespace)
    done = runs.cluster.kubectl("apply", "--dry-run=server", "--filename=-", namespace=runs.namespace, stdin=text)
    assert done.stdout.count("created (server dry run)") == 3


@pytest.mark.slow
@pytest.mark.parametrize("verifies", ["True", "False"])
def test_credential_of_awx_reaches_the_pods(runs, cluster, tmp_path, verifies):
    """AWX gives it in the environment, without a kubeconfig; the account has the Role of the example."""
    role = (EXAMPLES / "kubernetes/rbac.yml").read_text().replace("gpu-benchmark", runs.namespace)
    cluster.kubectl("apply", "--filename=-", namespace=runs.namespace, stdin=role)
    config = cluster.kubectl("config", "view", "--raw", "--minify", "--flatten", "--output=json").stdout
    certificate = tmp_path / "ca.crt"
    certificate.write_bytes(
        base64.b64decode(json.loads(config)["clusters"][0]["cluster"]["certificate-authority-data"])
    )
    (tmp_path / "home").mkdir()
    credential = {
        "K8S_AUTH_HOST": cluster.server,
        "K8S_AUTH_API_KEY": cluster.token("gpufabric", runs.namespace),
        "K8S_AUTH_VERIFY_SSL": verifies,
        # AWX gives none where nothing is verified.
        **({"K8S_AUTH_SSL_CA_CERT": str(certificate)} if verifies == "True" else {}),
    }
    played = runs.within({"KUBECONFIG": "", "HOME": str(tmp_path / "home"), **credential}).play()
    assert played.returncode == 0, played.output
    assert runs.result()["verdict"] == "pass" and runs.ours() == []


def test_check_mode_on_an_empty_namespace_makes_nothing(runs):
    played = runs.play("--check")
    assert played.returncode == 0, played.output
    assert runs.ours() == []
