# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every field of a pod that the roles worker_pods and mpijob offer, on pods that run with it."""

from __future__ import annotations

import json
import typing as t

import pytest
from background import wait
from job_runs import JobRuns

pytestmark = pytest.mark.slow

#: What a node offers besides CPU and memory; any name in a domain will do.
RESOURCE = "test.gpufabric.example/accelerator"
LINUX = {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}
AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [LINUX]}}}
TOLERATIONS = [{"key": "test.gpufabric.example/taint", "operator": "Exists", "effect": "NoSchedule"}]
ALIASES = [{"ip": "192.0.2.1", "hostnames": ["elsewhere"]}]
POD_FIELDS = {
    "worker_pods_affinity": AFFINITY,
    "worker_pods_annotations": {"test.gpufabric.example/note": "yes"},
    "worker_pods_capabilities": ["IPC_LOCK"],
    "worker_pods_gpu_resource": RESOURCE,
    "worker_pods_gpus": 1,
    "worker_pods_image_pull_secrets": ["no-such-secret"],
    "worker_pods_labels": {"team": "fabric"},
    "worker_pods_networks": ["sriov-a", "sriov-b"],
    "worker_pods_node_selector": {"kubernetes.io/os": "linux"},
    "worker_pods_pod_spec": {"hostAliases": ALIASES},
    "worker_pods_python_interpreter": "/usr/bin/python3",
    "worker_pods_resources": {"memory": "256Mi"},
    "worker_pods_shm_size": "128Mi",
    "worker_pods_tolerations": TOLERATIONS,
}
JOB_FIELDS = {
    "mpijob_affinity": AFFINITY,
    "mpijob_annotations": {"test.gpufabric.example/note": "yes"},
    "mpijob_capabilities": ["IPC_LOCK"],
    "mpijob_gpu_resource": RESOURCE,
    "mpijob_gpus": 1,
    "mpijob_image_pull_secrets": ["no-such-secret"],
    "mpijob_labels": {"team": "fabric"},
    "mpijob_networks": ["sriov-a", "sriov-b"],
    "mpijob_node_selector": {"kubernetes.io/os": "linux"},
    "mpijob_pod_spec": {"hostAliases": ALIASES},
    "mpijob_python_interpreter": "/usr/bin/python3",
    "mpijob_resources": {"memory": "256Mi"},
    "mpijob_shm_size": "128Mi",
    "mpijob_tolerations": TOLERATIONS,
}


@pytest.fixture
def accelerators(cluster: t.Any) -> t.Iterator[None]:
    """Four devices on each node, as a device plugin would report them."""

    def report(patch: dict[str, t.Any]) -> None:
        for node in cluster.get("nodes")["items"]:
            name = node["metadata"]["name"]

            def written(name: str = name) -> bool:
                # The kubelet writes the status too: what was read may be out of date.
                current = cluster.get("node", name)
                for key in ("capacity", "allocatable"):
                    values = {**current["status"][key], **patch}
                    current["status"][key] = {key: value for key, value in values.items() if value is not None}
                path = f"/api/v1/nodes/{name}/status"
                done = cluster.kubectl("replace", "--raw", path, "--filename=-", stdin=json.dumps(current), check=False)
                return done.returncode == 0

            wait(written)

    report({RESOURCE: "4"})
    try:
        yield
    finally:
        report({RESOURCE: None})


def check_worker(pod: dict[str, t.Any], resources: dict[str, str]) -> None:
    """Fail unless a worker has all fields."""
    metadata, spec = pod["metadata"], pod["spec"]
    (container,) = (item for item in spec["containers"] if item["name"] == "worker")
    assert spec["affinity"] == AFFINITY
    assert metadata["annotations"]["test.gpufabric.example/note"] == "yes"
    assert metadata["annotations"]["k8s.v1.cni.cncf.io/networks"] == "sriov-a,sriov-b"
    assert container["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]
    for kind in ("requests", "limits"):
        assert container["resources"][kind] == resources
    assert spec["imagePullSecrets"] == [{"name": "no-such-secret"}]
    assert metadata["labels"]["team"] == "fabric"
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert spec["hostAliases"] == ALIASES
    assert TOLERATIONS[0] in spec["tolerations"]
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "128Mi"}} in spec["volumes"]
    assert "/dev/shm" in [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "shm"]


def test_pods_have_the_fields_that_are_set(runs, accelerators):
    sidecar = {"name": "sidecar", "image": runs.cluster.image, "imagePullPolicy": "IfNotPresent"}
    sidecar["command"] = ["sleep", "infinity"]
    fields = {**POD_FIELDS, "worker_pods_pod_spec": {"hostAliases": ALIASES, "containers": [sidecar]}}
    played = runs.play(**fields, worker_pods_container="worker", worker_pods_keep=True, nccl_benchmark_backend="cpu")
    assert played.returncode == 0, played.output
    assert (runs.result()["verdict"], runs.result()["host_count"]) == ("pass", 2)
    pods = runs.cluster.get("pods", namespace=runs.namespace)["items"]
    assert len(pods) == 2
    for pod in pods:
        check_worker(pod, {RESOURCE: "1", "memory": "256Mi"})
        assert "sidecar" in [item["name"] for item in pod["spec"]["containers"]]
        # Not the 64 MiB of a container; before 1.22 a kubelet gives half of the node's memory.
        shm = ["-c", "worker", pod["metadata"]["name"], "--", "df", "-k", "--output=size", "/dev/shm"]
        size = runs.cluster.kubectl("exec", *shm, namespace=runs.namespace).stdout.split()[-1]
        assert int(size) >= 128 * 1024
    torn_down = runs.teardown()
    assert torn_down.returncode == 0, torn_down.output
    assert runs.ours() == []


def test_a_pod_in_the_network_of_its_node(runs):
    """One: two on a node are one machine, by all that can be seen of them, and are refused as such."""
    played = runs.play(worker_pods_host_network=True, worker_pods_replicas=1, nccl_benchmark_ranks_per_node=2)
    assert played.returncode == 0, played.output
    assert (runs.result()["verdict"], runs.result()["rank_count"]) == ("pass", 2)


def test_a_job_has_the_fields_that_are_set(cluster, cluster_player, namespace, operator, tmp_path):
    run = JobRuns(cluster_player, cluster, namespace, tmp_path / "report")
    policies = {
        "mpijob_clean_pod_policy": "Running",
        "mpijob_cluster_domain": "cluster.local",
        "mpijob_launcher_creation_policy": "AtStartup",
        "mpijob_rewrite_fqdn": "true",
        "mpijob_timeout": 900,
        "mpijob_ttl": 3600,
        "mpijob_worker_mode": "image",
    }
    played = run(**JOB_FIELDS, **policies, mpijob_keep=True)
    assert played.returncode == 0, played.output
    result = run.results()[0]
    assert (result["verdict"], result["host_count"], result["rank_count"]) == ("pass", 2, 2)
    job = cluster.get("mpijob", "gpufabric-t1", namespace=namespace)
    policy = job["spec"]["runPolicy"]
    assert (policy["cleanPodPolicy"], policy["ttlSecondsAfterFinished"]) == ("Running", 3600)
    assert job["spec"]["launcherCreationPolicy"] == "AtStartup"
    # The CPU program uses no GPU, so none is asked for.
    check_worker(job["spec"]["mpiReplicaSpecs"]["Worker"]["template"], {"memory": "256Mi"})
    assert job["metadata"]["labels"]["team"] == "fabric"
    # The names that mpirun was given are whole.
    assert ".svc.cluster.local" in (run.directory / "launcher.log").read_text()


def test_a_job_in_the_network_of_its_node(cluster, cluster_player, namespace, operator, tmp_path):
    """One worker: two would want one port."""
    run = JobRuns(cluster_player, cluster, namespace, tmp_path / "report")
    played = run(mpijob_host_network=True, mpijob_replicas=1, mpijob_slots=2)
    assert played.returncode == 0, played.output
    assert (run.results()[0]["verdict"], run.results()[0]["rank_count"]) == ("pass", 2)
    run.wait_gone()
