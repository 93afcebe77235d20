# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fault matrix on pods: each fault is made in the cluster, and its cause and host have to be told, and nothing else.

Not made here: taints and a node that is lost, which all tests of the one node would suffer from; a NetworkPolicy, which the test bed
does not enforce; PodSecurity, which came after its version of Kubernetes.
"""

from __future__ import annotations

import base64
import concurrent.futures
import json
import pathlib
import subprocess
import typing as t

import pytest
import yaml
from background import wait
from job_runs import LOOKED, JobRuns
from pod_runs import OURS, STARTING, Runs


def told(played: t.Any, host: str = "localhost") -> list[dict[str, t.Any]]:
    """The problems that a play ended with, on one of the hosts of the controller."""
    assert played.returncode != 0, played.output
    (*_others, result) = [
        record["result"]
        for record in played.records
        if (record["host"], record["status"]) == (host, "failed") and "problems" in record["result"]
    ]
    for entry in result["problems"]:
        assert entry["cause"] in played.output.replace("\\n", "\n").replace('\\"', '"'), played.output
    return result["problems"]


def at_once(calls: dict[str, t.Callable[[], t.Any]]) -> dict[str, t.Any]:
    """What calls return, made beside each other."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return {
            name: future.result() for name, future in {name: pool.submit(call) for name, call in calls.items()}.items()
        }


#: Whoever ends again and again would be ready for a moment in between.
NEVER_READY = {"readinessProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1}}
#: Faults of single pods: what is wrong in words, the problem, the pod's container, and more of its spec.
BROKEN: dict[str, tuple[str, str, dict[str, t.Any], dict[str, t.Any]]] = {
    "image": ("image that no registry has", "pod-image", {"image": "localhost/no-such-image:1"}, {}),
    "absent": (
        "image that is not on the node, with pull policy Never",
        "pod-image-absent",
        {"image": "localhost/no-such-image:1", "imagePullPolicy": "Never"},
        {},
    ),
    "misnamed": ("name of an image that is none", "pod-image-name", {"image": "UPPER::case"}, {}),
    "crash": (
        "program that ends again and again",
        "pod-crash",
        {"command": ["sh", "-c", "echo last words; exit 3"], **NEVER_READY},
        {},
    ),
    "command": ("command that is not in the image", "pod-start", {"command": ["/no/such/program"]}, {}),
    "memory": (
        "more memory than its limit",
        "oom-killed",
        {"command": ["python3", "-c", "b'x' * (1 << 30)"], "resources": {"limits": {"memory": "64Mi"}}, **NEVER_READY},
        {},
    ),
    "large": (
        "more memory than any node has",
        "pod-unschedulable",
        {"resources": {"requests": {"memory": "9999Gi"}}},
        {},
    ),
    "gpus": ("GPUs that no node has", "pod-unschedulable", {"resources": {"limits": {"nvidia.com/gpu": "8"}}}, {}),
    "selector": ("node selector that fits no node", "pod-unschedulable", {}, {"nodeSelector": {"no": "node"}}),
    "secret": ("Secret for the environment missing", "pod-config", {"envFrom": [{"secretRef": {"name": "none"}}]}, {}),
    "volume": (
        "Secret of a volume missing",
        "pod-volume",
        {"volumeMounts": [{"name": "data", "mountPath": "/data"}]},
        {"volumes": [{"name": "data", "secret": {"secretName": "none"}}]},
    ),
    "unready": (
        "readiness probe that fails",
        "pod-not-ready",
        NEVER_READY,
        {},
    ),
    "full": (
        "more ephemeral storage written than its limit",
        "pod-evicted",
        {
            "command": ["sh", "-c", "dd if=/dev/zero of=/file bs=1M count=32; exec sleep infinity"],
            "resources": {"limits": {"ephemeral-storage": "4Mi"}},
        },
        {},
    ),
    "leaving": (
        "pod that is being deleted and does not end",
        "pod-deleted",
        {},
        {"terminationGracePeriodSeconds": 600},
    ),
}


def test_pods_that_do_not_become_ready(runs: Runs, pods: t.Any, faults: t.Any) -> None:
    pods.create("healthy", wait=False)
    for name, (_words, _identity, container, spec) in BROKEN.items():
        pods.create(name, wait=False, container=container, **spec)
    pods.wait_ready("healthy", "leaving")
    runs.cluster.kubectl("delete", "pod", "leaving", "--wait=false", namespace=runs.namespace)
    wait(lambda: [name for name, state in runs.states().items() if state in STARTING] == ["volume"], left=runs.states)
    wait(lambda: runs.warned("Pod", "volume") and runs.has_ended("crash") and runs.has_ended("memory"), pause=1)
    # The kubelet looks at what is written once a minute.
    wait(lambda: runs.states()["full"] == "Evicted")
    played = runs.play(worker_pods_names=["healthy", "nobody", *BROKEN], worker_pods_timeout=5)
    problems = told(played)
    assert " of 16 pods are ready after 5 s in namespace" in played.output
    expected = {"nobody": "pod-missing", **{name: identity for name, (_words, identity, *_spec) in BROKEN.items()}}
    beside = {(identity, name) for name, identity in expected.items()}
    for name, (words, identity, _container, _spec) in BROKEN.items():
        faults.fault(words, problems, identity, name, "worker_pods", beside=beside)
    faults.fault("pod that is not there", problems, "pod-missing", "nobody", "worker_pods", beside=beside)
    by_host = {entry["host"]: entry for entry in problems}
    assert "last words" in by_host["crash"]["evidence"]
    # The kubelet's last event says no more than that.
    assert "no-such-image" in by_host["image"]["cause"] and "Error: ImagePullBackOff" not in by_host["image"]["cause"]
    assert "ephemeral" in by_host["full"]["cause"] and "nvidia.com/gpu" in by_host["gpus"]["cause"]
    assert "worker_pods_node_selector" in by_host["selector"]["cure"]


@pytest.mark.slow
def test_what_the_cluster_does_not_let_be_created(runs: Runs, faults: t.Any, tmp_path: pathlib.Path) -> None:
    largest = {"limits": [{"type": "Container", "max": {"memory": "256Mi"}}]}
    labels = {**dict(label.split("=") for label in OURS.split(",")), "gpufabric.nccl/run": "other"}
    runs.cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "of-another-run", "labels": labels},
            "spec": {"clusterIP": "None"},
        },
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": largest},
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "few"},
            "spec": {"hard": {"requests.example.com/gpu": "1"}},
        },
        namespace=runs.namespace,
    )
    made: dict[str, tuple[str, str, str | None, dict[str, t.Any]]] = {
        "quota": (
            "quota of the namespace used up",
            "pod-quota",
            "gpufabric-quota",
            {"worker_pods_gpus": 2, "worker_pods_gpu_resource": "example.com/gpu"},
        ),
        "limit": (
            "LimitRange that the pods break",
            "pod-refused",
            "gpufabric-limit",
            {"worker_pods_resources": {"memory": "512Mi"}},
        ),
        "account": (
            "service account of the pods missing",
            "pod-refused",
            "gpufabric-account",
            {"worker_pods_pod_spec": {"serviceAccountName": "nobody"}},
        ),
        "create": (
            "namespace missing, pods to be created",
            "kube-namespace",
            None,
            {"gpufabric_namespace": "gpufabric-no"},
        ),
        "adopt": (
            "namespace missing, pods to be adopted",
            "kube-namespace",
            None,
            {"gpufabric_namespace": "gpufabric-no", "worker_pods_names": ["a"]},
        ),
    }
    cases = {
        name: {"gpufabric_run_id": name, "worker_pods_timeout": 1, **variables}
        for name, (_words, _identity, _host, variables) in made.items()
    }
    # The cluster says so some time after it was asked for the pods.
    hosts = {name: host for name, (_words, _identity, host, _variables) in made.items() if host is not None}
    kept = runs.attempts({name: {**cases[name], "worker_pods_keep": True} for name in hosts})
    assert kept.returncode != 0, kept.output
    wait(lambda: all(runs.warned("StatefulSet", host) for host in hosts.values()))
    # What a play did not make would stay, unless it takes the run over.
    played = runs.attempts({name: {**case, "gpufabric_take_over": True} for name, case in cases.items()})
    for name, (words, identity, host, _variables) in made.items():
        faults.fault(words, told(played, name), identity, host, "worker_pods", "the cluster")
    assert "exceeded quota: few" in played.result("quota", "gpufabric.nccl.pods_ready")["msg"]
    # What was created is removed, which is said beside cures that are to look at it, and what is another run's is not.
    assert "worker_pods_keep=true" in played.output
    assert runs.ours() == ["service/of-another-run"]


@pytest.mark.slow
def test_webhooks_that_do_not_answer(runs: Runs) -> None:
    # Each of these runs is named after what its webhook is asked for.
    run_ids = ("statefulsets", "pods")
    kind, label = "validatingwebhookconfigurations", "gpufabric-test"
    runs.cluster.kubectl("label", "namespace", runs.namespace, f"{label}={runs.namespace}")
    hooks = [
        {
            "name": f"{run_id}.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"service": {"namespace": runs.namespace, "name": "nobody"}},
            "namespaceSelector": {"matchLabels": {label: runs.namespace}},
            "objectSelector": {"matchLabels": {"gpufabric.nccl/run": run_id}},
            "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": [run_id]}],
        }
        for run_id in run_ids
    ]
    runs.cluster.create(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": runs.namespace},
            "webhooks": hooks,
        }
    )
    try:
        cases = {run_id: {"gpufabric_run_id": run_id, "worker_pods_timeout": 1} for run_id in run_ids}
        # The cluster says so some time after it was asked for the pods.
        kept = runs.attempts({"pods": {**cases["pods"], "worker_pods_keep": True}})
        assert kept.returncode != 0, kept.output
        wait(lambda: runs.warned("StatefulSet", "gpufabric-pods"))
        played = runs.attempts({name: {**case, "gpufabric_take_over": True} for name, case in cases.items()})
    finally:
        runs.cluster.kubectl("delete", kind, runs.namespace)
    for name, host in (("statefulsets", None), ("pods", "gpufabric-pods")):
        (problem,) = told(played, name)
        assert (problem["id"], problem["host"]) == ("kube-webhook", host) and f"{name}.example.com" in problem["cause"]
    assert runs.ours() == []


class Configs:
    """Configurations for the cluster that do not work."""

    def __init__(self, runs: Runs, directory: pathlib.Path) -> None:
        self._cluster = runs.cluster
        self._namespace = runs.namespace
        self._directory = directory
        self._config = json.loads(
            runs.cluster.kubectl("config", "view", "--raw", "--flatten", "--minify", "--output=json").stdout
        )

    def write(self, name: str, cluster: dict[str, t.Any] | None = None, user: dict[str, t.Any] | None = None) -> str:
        """One that differs in its cluster or its user."""
        config = json.loads(json.dumps(self._config))
        config["clusters"][0]["cluster"].update(cluster or {})
        if user is not None:
            config["users"][0]["user"] = user
        path = self._directory / f"{name}.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return str(path)

    def of_account(self, name: str, *rules: tuple[str, str]) -> dict[str, str]:
        """A new service account that may do some things, given as verbs and resources; the user of a configuration."""
        self._kubectl("create", "serviceaccount", name)
        for number, (verbs, resources) in enumerate(rules):
            role = f"{name}-{number}"
            self._kubectl("create", "role", role, f"--verb={verbs}", f"--resource={resources}")
            self._kubectl("create", "rolebinding", role, f"--role={role}", f"--serviceaccount={self._namespace}:{name}")
        return {"token": self._cluster.token(name, self._namespace)}

    def other_authority(self) -> str:
        """A certificate of nobody whom the cluster knows, in base64."""
        self._openssl(
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=other", "-keyout", "o.key", "-out", "o.crt"
        )
        return self._encoded("o.crt")

    def expired_certificate(self, authority: pathlib.Path) -> dict[str, str]:
        """The user of a configuration, with a certificate by the cluster's own authority that was valid in January 2024."""
        self._openssl(
            "req",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/O=system:masters/CN=old",
            "-keyout",
            "e.key",
            "-out",
            "e.csr",
        )
        (self._directory / "index").write_text("")
        (self._directory / "serial").write_text("01")
        (self._directory / "ca.cnf").write_text(
            f"[ca]\ndefault_ca=d\n[d]\ndatabase=index\nserial=serial\nnew_certs_dir=.\ncertificate={authority}/ca.crt\n"
            f"private_key={authority}/ca.key\ndefault_md=sha256\npolicy=p\n[p]\norganizationName=optional\ncommonName=supplied\n"
        )
        self._openssl("ca", "-batch", "-notext", "-config", "ca.cnf", "-in", "e.csr", "-out", "e.crt",
                      "-startdate", "20240101000000Z", "-enddate", "20240201000000Z")  # fmt: skip
        return {"client-certificate-data": self._encoded("e.crt"), "client-key-data": self._encoded("e.key")}

    def _openssl(self, *argv: str) -> None:
        subprocess.run(["openssl", *argv], cwd=self._directory, check=True, capture_output=True, timeout=60)

    def _encoded(self, name: str) -> str:
        return base64.b64encode((self._directory / name).read_bytes()).decode()

    def _kubectl(self, *argv: str) -> None:
        self._cluster.kubectl(*argv, namespace=self._namespace)


def without_kubectl(runs: Runs, directory: pathlib.Path) -> str:
    """A PATH with all programs but one, which may stand beside others."""
    directory.mkdir()
    kept = []
    for item in map(pathlib.Path, runs.cluster.environment["PATH"].split(":")):
        if not (item / "kubectl").exists():
            kept.append(str(item))
            continue
        for program in item.iterdir():
            if program.name != "kubectl" and not (directory / program.name).is_symlink():
                (directory / program.name).symlink_to(program)
    return ":".join([*kept, str(directory)])


def wait_until_refused(runs: Runs, kubeconfig: str) -> None:
    """Wait until the API server does not know the user of a configuration any more: it keeps what it knows of a token for some seconds."""

    def said() -> str:
        # Of two configurations kubectl takes the second.
        asked = runs.cluster.kubectl(
            "get", "pods", "--output=name", f"--kubeconfig={kubeconfig}", namespace=runs.namespace, check=False
        )
        return asked.stdout + asked.stderr

    wait(lambda: "You must be logged in to the server" in said(), left=said)


@pytest.mark.slow
def test_ways_to_the_cluster(runs: Runs, pods: t.Any, faults: t.Any, tmp_path: pathlib.Path) -> None:
    without_python = ["sh", "-c", "mv /usr/bin/python3 /usr/bin/python3.away; exec sleep infinity"]
    pods.create("a", "b", wait=False)
    pods.create("bare", wait=False, container={"command": without_python})
    configs = Configs(runs, tmp_path)
    deleted = configs.write("token", user=configs.of_account("deleted", ("get,list", "pods")))
    runs.cluster.kubectl("delete", "serviceaccount", "deleted", namespace=runs.namespace)
    pods.wait_ready("a", "b", "bare")
    wait_until_refused(runs, deleted)
    faulty = {
        "API server away": ("kube-unreachable", configs.write("away", {"server": "https://127.0.0.1:9"})),
        "name of the API server that does not resolve": (
            "kube-unreachable",
            configs.write("name", {"server": "https://no-such-host.invalid:6443"}),
        ),
        "certificate authority of another cluster": (
            "kube-certificate",
            configs.write("authority", {"certificate-authority-data": configs.other_authority()}),
        ),
        "token of an account that was deleted": ("kube-token-expired", deleted),
        "account without the right to list pods": (
            "kube-forbidden",
            configs.write("none", user=configs.of_account("none")),
        ),
        "account without the right to kubectl exec": (
            "kube-forbidden",
            configs.write("looks", user=configs.of_account("looks", ("get,list", "pods"))),
        ),
        "kubeconfig missing": ("kube-config", "/no/such/file"),
    }
    authority = pathlib.Path(runs.cluster.kubeconfig).parent / "var/node/pki"
    # Clusters of others keep that to themselves.
    if (authority / "ca.key").exists():
        expired = configs.write("certificate", user=configs.expired_certificate(authority))
        faulty["client certificate expired"] = ("kube-token-expired", expired)
    names = {"worker_pods_names": ["a", "b"], "worker_pods_timeout": 10}
    cases = {
        f"way-{number}": {**names, "gpufabric_kubeconfig": path} for number, (_id, path) in enumerate(faulty.values())
    }
    cases["context"] = {**names, "gpufabric_kube_context": "nowhere"}
    cases["python"] = {**names, "worker_pods_names": ["a", "bare"]}
    played = runs.attempts(cases)
    for number, (words, (identity, _path)) in enumerate(faulty.items()):
        faults.fault(words, told(played, f"way-{number}"), identity, None, "worker_pods", "the controller")
    context = told(played, "context")
    faults.fault("context missing in the kubeconfig", context, "kube-config", None, "worker_pods", "the controller")
    faults.fault("no Python in the pod", told(played, "python"), "interpreter-missing", "bare", "worker_pods")
    bare = told(runs.within({"PATH": without_kubectl(runs, tmp_path / "bin")}).attempts({"kubectl": names}), "kubectl")
    faults.fault("kubectl missing", bare, "kubectl-missing", None, "worker_pods", "the controller")
    healthy = runs.play(**names)
    assert healthy.returncode == 0, healthy.output
    problems = [entry for result in runs.results() for entry in result["problems"]]
    faults.healthy("playbook kubernetes on pods that exist", problems, "worker_pods")


def test_pods_lost_in_the_middle_of_a_run(runs: Runs, pods: t.Any, relay: t.Any, faults: t.Any) -> None:
    """All in one run: whoever goes first ends it, and the play gets to know of it when the others have gone, too."""
    playing_runs = runs.within(relay.environment)
    then = "while ! test -e /tmp/go; do sleep 0.1; done; "
    pods.create("a", "deleted", "evicted", wait=False)
    pods.create("ended", wait=False, container={"command": ["sh", "-c", f"{then} exit 7"]})
    memory = {"resources": {"limits": {"memory": "400Mi"}}}
    much = f"{then} exec python3 -c 'b\"x\" * (1 << 30)'"
    pods.create("memory", wait=False, container={"command": ["sh", "-c", much], **memory})
    names = ["a", "deleted", "evicted", "ended", "memory"]
    pods.wait_ready(*names)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        playing = pool.submit(
            playing_runs.play, worker_pods_names=names, nccl_benchmark_max_bytes="1M", nccl_benchmark_iterations=1000000
        )
        runs.wait_for_output("a", 1, playing)
        eviction = {
            "apiVersion": "policy/v1beta1" if _is_old(runs) else "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": "evicted", "namespace": runs.namespace},
        }
        path = f"/api/v1/namespaces/{runs.namespace}/pods/evicted/eviction"
        relay.down()
        at_once(
            {
                # The container may end before this does.
                "ended": lambda: runs.shell("ended", "touch /tmp/go", check=False),
                "memory": lambda: runs.shell("memory", "touch /tmp/go", check=False),
                "deleted": lambda: runs.cluster.kubectl(
                    "delete", "pod", "deleted", "--wait=false", namespace=runs.namespace
                ),
                "evicted": lambda: runs.cluster.kubectl(
                    "create", "--raw", path, "--filename=-", stdin=json.dumps(eviction)
                ),
            }
        )
        wait(lambda: _running_as_before(runs) == {"a"}, left=lambda: _running_as_before(runs))
        relay.up()
        played = playing.result()
    problems = told(played)
    when = "in the middle of a run"
    made = {
        "deleted": ("pod deleted", "pod-lost"),
        "evicted": ("pod evicted by the API", "pod-lost"),
        "ended": ("first process of the pod ended", "pod-restarted"),
        "memory": ("more memory than its limit", "oom-killed"),
    }
    beside = {(identity, name) for name, (_words, identity) in made.items()}
    for name, (words, identity) in made.items():
        faults.fault(f"{words} {when}", problems, identity, name, "worker_pods", beside=beside)


def _running_as_before(runs: Runs) -> set[str]:
    """The pods that nothing has happened to."""
    return {
        pod["metadata"]["name"]
        for pod in runs.cluster.get("pods", namespace=runs.namespace)["items"]
        if "deletionTimestamp" not in pod["metadata"]
        and all(
            "running" in status["state"] and status["restartCount"] == 0
            for status in pod["status"]["containerStatuses"]
        )
    }


def _is_old(runs: Runs) -> bool:
    """Whether the cluster has only the first version of the eviction API."""
    version = json.loads(runs.cluster.kubectl("version", "--output=json").stdout)["serverVersion"]
    return int(version["minor"].rstrip("+")) < 22


@pytest.fixture
def jobs(cluster_player: t.Any, cluster: t.Any, namespace: str, tmp_path: pathlib.Path) -> t.Callable[[str], JobRuns]:
    """Runs of the playbook mpijob, each with its own report."""
    return lambda name: JobRuns(cluster_player, cluster, namespace, tmp_path / name)


SMALL_JOB = {"mpijob_ssh_port": 2222, "mpijob_replicas": 1}
#: What a rank of a job is to have, which gets it from the launcher alone.
OF_A_RANK = {
    "FI_PROVIDER=a 'b'",
    "NCCL_SOCKET_IFNAME==net1",
    "OMPI_MCA_btl_tcp_if_include=eth0",
    "OMPI_MCA_coll_ucc_enable=0",
    "OMPI_MCA_coll_hcoll_enable=0",
}


@pytest.mark.slow
def test_a_job_that_is_deleted_while_it_runs(
    jobs: t.Any, cluster: t.Any, namespace: str, operator: t.Any, faults: t.Any
) -> None:
    run = jobs("deleted")
    network = {"gpufabric_data_interface": "net1", "mpijob_env": {"FI_PROVIDER": "a 'b'"}}
    environ = "cat $(grep -lz OMPI_COMM_WORLD_RANK /proc/[0-9]*/environ) </dev/null | tr '\\0' '\\n'"

    def variables_of_ranks() -> set[str]:
        shell = ["exec", "gpufabric-t1-worker-0", "--", "sh", "-c", environ]
        return set(cluster.kubectl(*shell, namespace=namespace, check=False).stdout.splitlines())

    with concurrent.futures.ThreadPoolExecutor() as pool:
        playing = pool.submit(run, **SMALL_JOB, **network, nccl_benchmark_iterations=1000000)
        try:
            wait(lambda: variables_of_ranks() >= OF_A_RANK or playing.done(), 600, variables_of_ranks, 1)
        finally:
            cluster.kubectl(
                "delete", "mpijob", "gpufabric-t1", "--ignore-not-found", "--wait=false", namespace=namespace
            )
        played = playing.result()
    assert played.returncode != 0, played.output
    faults.fault("job deleted while it runs", run.problems(), "mpijob-deleted", None, "mpijob", "the launcher")


# Programs that fail and names that do not resolve are told of by the launcher, too, and pods that do not start by the same
# catalogue: in test_mpijob_with_played_operator.
@pytest.mark.slow
def test_mpijobs(jobs: t.Any, runs: Runs, operator: t.Any, relay: t.Any, faults: t.Any) -> None:
    worker = "exec bash /gpufabric/mpijob-pod worker"
    made = {
        "daemon": (
            "Open MPI's daemon missing in the workers",
            "daemon-missing",
            "gpufabric-daemon-worker-0",
            {**SMALL_JOB, "mpijob_command": ["sh", "-c", f"rm /usr/bin/orted; {worker}"]},
        ),
        "sshd": (
            "no sshd in the workers",
            "pod-not-ready",
            "gpufabric-sshd-worker-0",
            {**SMALL_JOB, "mpijob_command": ["sleep", "infinity"], "mpijob_start_timeout": 25},
        ),
        "hostfile": (
            "hostfile with fewer workers than were asked for",
            "launcher-hostfile",
            None,
            {**SMALL_JOB, "mpijob_env": {"GPUFABRIC_WORKERS": "5"}},
        ),
    }

    def let_it_start() -> None:
        wait(lambda: relay.has_heard(*LOOKED), 600)
        relay.down()
        wait(lambda: runs.states().get("gpufabric-sshd-worker-0") == "running", left=runs.states)
        relay.up()

    cases = {
        name: {"gpufabric_run_id": name, **variables} for name, (_words, _identity, _host, variables) in made.items()
    }
    relayed = {"sshd": cases.pop("sshd")}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        others = [pool.submit(let_it_start), pool.submit(jobs("sshd").through(relay).attempts, relayed)]
        _played, problems = jobs("others").attempts(cases)
        _none, (_played, own) = (other.result() for other in others)
    for name, (words, identity, host, _variables) in made.items():
        where = "the launcher" if host is None else "a worker"
        faults.fault(words, {**problems, **own}[name], identity, host, "mpijob", where)


@pytest.mark.slow
def test_a_job_that_is_suspended(jobs: t.Any, cluster: t.Any, mpijobs: t.Any, relay: t.Any, faults: t.Any) -> None:
    run = jobs("suspended")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        playing = pool.submit(run.through(relay), mpijob_operator_timeout=15)
        patch = [
            "patch",
            "mpijob",
            "gpufabric-t1",
            "--type=merge",
            '--patch={"spec": {"runPolicy": {"suspend": true}}}',
        ]
        wait(lambda: relay.has_heard(*LOOKED) or playing.done(), 600)
        relay.down()
        cluster.kubectl(*patch, namespace=run.namespace)
        relay.up()
        played = playing.result()
    assert played.returncode != 0
    faults.fault(
        "job suspended, as by a queue",
        run.problems(),
        "mpijob-suspended",
        None,
        "mpijob",
        "the cluster",
        stand_in="no MPI Operator runs, and the tests set suspend",
    )


@pytest.mark.slow
def test_diagnosis_of_pods(
    cluster: t.Any, cluster_player: t.Any, pods: t.Any, faults: t.Any, tmp_path: pathlib.Path
) -> None:
    memory = {"volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]}
    mounted = {"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}
    names = ["healthy-0", "healthy-1", "daemon", "sshd"]
    pods.create(*names, wait=False, container=mounted, **memory)
    pods.create("shm", wait=False)
    pods.wait_ready(*names, "shm")
    pods.exec("daemon", "mv", "/usr/bin/orted", "/usr/bin/orted.away")
    pods.exec("sshd", "mv", "/usr/sbin/sshd", "/usr/sbin/sshd.away")
    pods.exec("shm", "dd", "if=/dev/zero", "of=/dev/shm/left", "bs=1M", "count=60")

    def diagnose(*hosts: str) -> list[dict[str, t.Any]]:
        variables = {
            "ansible_connection": "kubernetes.core.kubectl",
            "ansible_kubectl_namespace": pods.namespace,
            "ansible_python_interpreter": "/usr/bin/python3",
            "gpufabric_control_interface": "eth0",
            "preflight_report_dir": str(tmp_path),
        }
        inventory = tmp_path / "inventory.yml"
        group = {"vars": variables, "hosts": {host: {"ansible_kubectl_pod": host} for host in hosts}}
        inventory.write_text(yaml.safe_dump({"all": group}))
        played = cluster_player.playbook("gpufabric.nccl.diagnose", "-i", str(inventory))
        document = json.loads((tmp_path / "diagnosis.json").read_text())
        assert (played.returncode == 0) is document["ok"], played.output
        return document["problems"]

    faults.healthy("playbook diagnose on pods", diagnose("healthy-0", "healthy-1"), "diagnose")
    problems = diagnose("healthy-0", *names[2:], "shm", "nobody")
    made = {
        "daemon": ("Open MPI's daemon missing", "daemon-missing"),
        "sshd": ("sshd missing in the image", "openssh-missing"),
        "shm": ("/dev/shm of 64 MiB full", "shm-full"),
        "nobody": ("pod of the inventory that is not there", "pod-missing"),
    }
    beside = {(identity, host) for host, (_words, identity) in made.items()}
    for host, (words, identity) in made.items():
        faults.fault(words, problems, identity, host, "diagnose", beside=beside)
