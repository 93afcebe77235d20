# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Private keys are in the pod that made them, or in the Secret of the operator: nothing else of the cluster or the controller has one."""

from __future__ import annotations

import base64

import pytest
from job_runs import JobRuns
from private_keys import MARKS, holders, lines_of, tellers

pytestmark = pytest.mark.slow

#: Shows all that Ansible shows: each module's arguments and whole result.
ALL = ("-vvv", "--diff")
TOKEN = "t0ken-of-somebody"
RUN_DIR = "/run/gpufabric/default"
KEYS = [f"{RUN_DIR}/ssh/id_ed25519", f"{RUN_DIR}/sshd/ssh_host_ed25519_key"]


def kept_by_cluster(cluster, namespace, kinds="pods,services,statefulsets,networkpolicies,configmaps,events"):
    """What the cluster has of a run: the objects, the events and what the pods have printed."""
    found = {"objects": cluster.kubectl("get", kinds, "--output=json", namespace=namespace).stdout}
    for pod in cluster.kubectl("get", "pods", "--output=name", namespace=namespace).stdout.split():
        found[pod] = cluster.kubectl("logs", pod, "--all-containers", namespace=namespace, check=False).stdout
    return found


def telling(texts, secrets):
    """The names of the texts that have a private key, or a line of one."""
    return [name for name, text in texts.items() if any(mark in text for mark in (*MARKS, *secrets))]


def test_keys_of_created_pods(runs, cluster, tmp_path):
    names = ["gpufabric-default-0", "gpufabric-default-1"]
    own = {"worker_pods_keep": True, "gpufabric_run_id": "default", "nccl_benchmark_env": {"MY_TOKEN": TOKEN}}
    plays = {"check": runs.play(*ALL, "--check", **own), "first": runs.play(*ALL, **own)}
    assert plays["first"].returncode == 0, plays["first"].output[-6000:]
    keys = {name: [runs.shell(name, f"cat {path}") for path in KEYS] for name in names}
    secrets = lines_of(key for each in keys.values() for key in each)
    assert len(secrets) >= 8
    patterns = "\n".join([*MARKS, *secrets])
    for name in names:
        found = runs.shell(name, f"grep -rslF -e '{patterns}' /run /tmp /var/log /dev/shm /root; true").split()
        assert sorted(found) == KEYS
        # No pod has a key of another.
        others = "\n".join(lines_of(key for other in names if other != name for key in keys[other]))
        assert runs.shell(name, f"grep -rslF -e '{others}' /run /tmp; true") == ""
    plays["again"] = runs.play(*ALL, **own)
    # One that fails says and keeps the most.
    runs.shell(names[1], f"chmod 0644 {KEYS[0]}; echo broken >{RUN_DIR}/ssh/config")
    plays["failed"] = runs.play(*ALL, **own, nccl_benchmark_mca={"plm_base_verbose": "5", "plm_rsh_agent": "/none"})
    assert plays["failed"].returncode != 0
    kept = kept_by_cluster(cluster, runs.namespace)
    plays["teardown"] = runs.teardown(*ALL)
    assert plays["teardown"].returncode == 0, plays["teardown"].output[-6000:]
    assert "max_startups" in plays["first"].output and names[0] in kept["objects"]
    assert telling(kept, secrets) == []
    assert {play: tellers(played, TOKEN) for play, played in plays.items()} == {play: [] for play in plays}
    assert {play: holders(played, tmp_path, secrets) for play, played in plays.items()} == {play: [] for play in plays}


def test_keys_of_a_submitted_job(cluster_player, cluster, operator, namespace, tmp_path):
    run = JobRuns(cluster_player, cluster, namespace, tmp_path / "report")
    played = run(*ALL, mpijob_keep=True, nccl_benchmark_env={"MY_TOKEN": TOKEN})
    assert played.returncode == 0, played.output[-6000:]
    data = [item.get("data", {}) for item in cluster.get("secrets", namespace=namespace)["items"]]
    encoded = [values["ssh-privatekey"] for values in data if "ssh-privatekey" in values]
    assert len(encoded) == 1
    key = base64.b64decode(encoded[0]).decode()
    # As the API server gives it, too.
    secrets = [*lines_of([key]), *(encoded[0][begin : begin + 40] for begin in range(80, len(encoded[0]) - 120, 40))]
    assert len(secrets) >= 8
    kept = kept_by_cluster(cluster, namespace, "mpijobs,pods,services,networkpolicies,configmaps,jobs,events")
    assert telling(kept, secrets) == []
    assert tellers(played, TOKEN) == []
    assert holders(played, tmp_path, secrets) == []
    assert "gpufabric-t1-launcher" in kept["objects"] and any(
        "mpijob" in kept[name] for name in kept if name != "objects"
    )
