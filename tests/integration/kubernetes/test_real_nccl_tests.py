# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real nccl-tests in pods that ask for GPUs: see tests/stand_in/README.md. The node says that it has some, and has none."""

from __future__ import annotations

import collections
import fcntl
import json
import pathlib
import subprocess
import tempfile

import pytest
from job_runs import JobRuns

#: On the node.
DIRECTORY = "/var/lib/gpufabric-nccl-tests"
PROGRAMS = ("all_reduce_perf", "alltoall_perf")
GPUS = 2
#: Fewer than the tests of pods that find no GPUs ask for.
GPUS_OF_NODE = 4
#: How users mount what their image lacks.
POD_SPEC = {
    "volumes": [{"name": "nccl-tests", "hostPath": {"path": DIRECTORY, "type": "DirectoryOrCreate"}}],
    "containers": [
        {
            "name": "worker",
            "volumeMounts": [
                {"name": "nccl-tests", "mountPath": DIRECTORY},
                {"name": "nccl-tests", "mountPath": "/usr/local/bin/nvidia-smi", "subPath": "bin/nvidia-smi"},
                {"name": "nccl-tests", "mountPath": "/etc/gpufabric-stand-in", "subPath": "settings"},
            ],
        }
    ],
}
ENVIRONMENT = {"LD_LIBRARY_PATH": f"{DIRECTORY}/lib"}


def offer(cluster, node, gpus):
    """Have a node say how many GPUs it has; None: nothing of them."""
    path = f"/api/v1/nodes/{node}/status"
    for _attempt in range(20):
        status = json.loads(cluster.kubectl("get", "--raw", f"/api/v1/nodes/{node}").stdout)
        for what in ("capacity", "allocatable"):
            status["status"][what].pop("nvidia.com/gpu", None)
            if gpus is not None:
                status["status"][what]["nvidia.com/gpu"] = str(gpus)
        done = cluster.kubectl("replace", "--raw", path, "--filename=-", stdin=json.dumps(status), check=False)
        # Kubelet writes it, too.
        if done.returncode == 0:
            return
    pytest.fail(f"the node does not take its GPUs: {done.stderr}")


@pytest.fixture
def gpus(cluster, pods, nccl_tests):
    """A node with GPUs and nccl-tests, for one test at a time."""
    node = cluster.get("nodes")["items"][0]["metadata"]["name"]
    with (pathlib.Path(tempfile.gettempdir()) / "gpufabric-gpus-of-node.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (volume,) = POD_SPEC["volumes"]
        pods.create(
            "loader",
            nodeName=node,
            volumes=[volume],
            container={"volumeMounts": [{"name": "nccl-tests", "mountPath": DIRECTORY}]},
        )
        files = [*(f"build/{name}" for name in PROGRAMS), "lib", "bin"]
        where = ["--kubeconfig", cluster.kubeconfig, "--namespace", pods.namespace]
        unpack = ["sh", "-c", f"tar -x -C {DIRECTORY} && echo GPUFABRIC_STAND_IN_GPUS={GPUS} >{DIRECTORY}/settings"]
        with subprocess.Popen(["tar", "-ch", "-C", nccl_tests, *files], stdout=subprocess.PIPE) as tar:
            argv = [cluster.kubectl_path, *where, "exec", "-i", "loader", "--", *unpack]
            subprocess.run(argv, stdin=tar.stdout, check=True, timeout=300)
        try:
            offer(cluster, node, GPUS_OF_NODE)
            yield
        finally:
            offer(cluster, node, None)
            pods.exec("loader", "sh", "-c", f"rm -rf {DIRECTORY}/*")


def check(results, hosts):
    """That these are what the real programs said of all GPUs of these pods."""
    assert [result["collective"] for result in results] == ["all_reduce", "alltoall"]
    for result in results:
        assert (result["verdict"], result["problems"]) == ("pass", [])
        assert result["tool"] == {"name": "nccl-tests", "version": "2.19.6", "nccl_version": "2.32.3"}
        assert collections.Counter(rank["host"] for rank in result["ranks"]) == dict.fromkeys(hosts, GPUS)
        assert sorted({rank["device"] for rank in result["ranks"]}) == [*range(GPUS)]


def check_requests(cluster, namespace):
    """Check that each of the two workers has its GPUs from the cluster."""
    pods = cluster.get("pods", namespace=namespace)["items"]
    containers = [container for pod in pods for container in pod["spec"]["containers"]]
    limits = [container.get("resources", {}).get("limits", {}).get("nvidia.com/gpu") for container in containers]
    assert sorted(filter(None, limits)) == [str(GPUS)] * 2, containers


@pytest.mark.slow
def test_pods_with_gpus(cluster, runs, gpus):
    played = runs.play(
        worker_pods_replicas=2,
        worker_pods_gpus=GPUS,
        worker_pods_env=ENVIRONMENT,
        worker_pods_pod_spec=POD_SPEC,
        nccl_benchmark_dir=f"{DIRECTORY}/build",
        nccl_benchmark_collectives=["all_reduce", "alltoall"],
        worker_pods_keep=True,
    )
    try:
        assert played.returncode == 0, played.output
        check_requests(cluster, runs.namespace)
    finally:
        # The next test writes what these pods have mounted.
        removed = runs.teardown()
    assert removed.returncode == 0, removed.output
    assert "Backend nccl: GPUs and nccl-tests are on all workers. 4 ranks on 2 hosts" in played.output
    check(runs.results(), ["gpufabric-default-0", "gpufabric-default-1"])


@pytest.mark.slow
def test_an_mpijob_with_gpus(cluster_player, cluster, namespace, tmp_path, operator, gpus):
    run = JobRuns(cluster_player, cluster, namespace, tmp_path / "report")
    played = run(
        mpijob_gpus=GPUS,
        mpijob_env=ENVIRONMENT,
        mpijob_pod_spec=POD_SPEC,
        nccl_benchmark_backend="nccl",
        nccl_benchmark_dir=f"{DIRECTORY}/build",
        nccl_benchmark_collectives=["all_reduce", "alltoall"],
        mpijob_keep=True,
    )
    try:
        assert played.returncode == 0, played.output
        check_requests(cluster, namespace)
    finally:
        own = {"gpufabric_namespace": namespace, "gpufabric_run_id": "t1", "gpufabric_mpijobs": True}
        removed = cluster_player.playbook("gpufabric.nccl.teardown", **own)
    assert removed.returncode == 0, removed.output
    check(run.results(), ["gpufabric-t1-worker-0", "gpufabric-t1-worker-1"])
    run.wait_gone()
