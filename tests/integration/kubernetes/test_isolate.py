# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finding the bad machine among pods, and the marks on their nodes. Whether pods are good is decided by the limit alone."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
import yaml
from pod_runs import REMAINS, Runs
from test_worker_pods import ROOT, account

#: Of a test, with the kind of its marks at the end.
KEY = "gpufabric.nccl/test-"
#: Of one node, in GB/s: more than any has, and less.
ALL_ARE_BAD = {"isolate_mode": "nodes", "isolate_inside_limit": 1e6}
ALL_ARE_GOOD = {"isolate_limit": 1e-6, "isolate_inside_limit": 1e-6}
#: A taint that keeps no pod of other tests from the node.
EFFECT = "PreferNoSchedule"


@pytest.fixture
def isolate(runs: Runs, cluster_player: t.Any) -> t.Callable[..., t.Any]:
    """Runs the playbook over pods."""

    def play(refused: bool = False, **variables: t.Any) -> t.Any:
        settings = {
            "gpufabric_worker_pods": True,
            "gpufabric_namespace": runs.namespace,
            "worker_pods_gpus": 0,
            "worker_pods_image": runs.cluster.image,
            "worker_pods_shm_size": "64Mi",
            "worker_pods_timeout": 300,
            "isolate_min_bytes": "64K",
            "isolate_iterations": 2,
            "isolate_warmup_iterations": 1,
            "report_dir": str(runs.directory / "report"),
        }
        played = cluster_player.playbook("gpufabric.nccl.isolate", **{**settings, **variables})
        assert (played.returncode == 0) != refused, played.output
        return played

    return play


def verdicts(directory: pathlib.Path) -> dict[str, str]:
    found = json.loads((directory / "report/isolation.json").read_text())
    return {entry["node"]: entry["verdict"] for entry in found["nodes"]}


@pytest.mark.slow
def test_created_pods_are_gone_afterwards_and_no_node_is_marked(isolate, runs):
    def marks() -> list[tuple[dict[str, str], list[dict[str, str]]]]:
        """Without those that the tests below make beside this one."""
        return [
            (
                {key: value for key, value in node["metadata"]["labels"].items() if not key.startswith(KEY)},
                [taint for taint in node["spec"].get("taints", []) if not taint["key"].startswith(KEY)],
            )
            for node in runs.cluster.get("nodes")["items"]
        ]

    before = marks()
    played = isolate(worker_pods_replicas=3, **ALL_ARE_GOOD)
    assert verdicts(runs.directory) == {f"gpufabric-isolate-{number}": "good" for number in range(3)}
    assert "Round 1: 3 nodes alone, all fast" in played.output and "Round 2: 1 pair, all fast" in played.output
    assert runs.ours() == []
    assert marks() == before


@pytest.mark.slow
def test_who_may_not_mark_nodes_is_told_before_pods_are_made(isolate, runs, cluster, namespace, tmp_path):
    items = yaml.safe_load((ROOT / "docs/examples/kubernetes/rbac.yml").read_text())["items"]
    rules = next(item["rules"] for item in items if item["kind"] == "Role")
    kubeconfig = account(cluster, namespace, tmp_path, "no-nodes", rules)
    played = isolate(refused=True, gpufabric_kubeconfig=kubeconfig, isolate_mark="label")
    assert "may not list, patch nodes" in played.output and "a ClusterRole" in played.output, played.output
    assert "Make the Service" not in played.output and runs.ours() == []


@pytest.mark.parametrize("kind", ["taint", pytest.param("label", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_nodes_are_marked_and_lose_the_mark_when_they_are_good_again(isolate, runs, pods, kind):
    names = ["a", "b"]
    (pod, _other) = pods.create(*names)
    node, key = pod["spec"]["nodeName"], f"{KEY}{kind}"
    by_hand = {"taint": f"{key}=bad:{EFFECT}", "label": f"{key}=bad"}
    (other,) = {*by_hand} - {kind}

    def marked() -> set[str]:
        """The kinds of marks that the node has."""
        found = runs.cluster.get("node", node)
        taints = [taint for taint in found["spec"].get("taints", []) if taint["key"] == key]
        assert taints in ([], [{"key": key, "value": "bad", "effect": EFFECT}])
        label = found["metadata"]["labels"].get(key)
        assert label in (None, "bad")
        return {*(["taint"] if taints else []), *(["label"] if label else [])}

    asked = {
        "worker_pods_names": ",".join(names),
        "isolate_mode": "nodes",
        "isolate_mark": kind,
        "isolate_mark_key": key,
        "isolate_mark_effect": EFFECT,
    }
    try:
        played = isolate(**{**asked, **ALL_ARE_BAD, "isolate_mark_verdicts": ["suspect"]})
        assert f"{kind} {key}=bad: set on no node, removed from no node." in played.output
        assert marked() == set()
        played = isolate(**{**asked, **ALL_ARE_BAD})
        assert verdicts(runs.directory) == dict.fromkeys(names, "bad")
        assert f"{kind} {key}=bad: set on {node}, removed from no node." in played.output
        assert marked() == {kind}
        # Where it is good, the mark of the kind that is asked for goes, whatever effect it has.
        runs.cluster.kubectl(other, "node", node, by_hand[other])
        isolate(**{**asked, **ALL_ARE_GOOD, "isolate_mark_effect": "NoSchedule"})
        assert verdicts(runs.directory) == dict.fromkeys(names, "good")
        assert marked() == {other}
        assert {name: runs.shell(name, REMAINS) for name in names} == dict.fromkeys(names, "")
    finally:
        for command in by_hand:
            runs.cluster.kubectl(command, "node", node, f"{key}-", check=False)


@pytest.mark.slow
def test_a_search_that_was_cut_off_is_not_continued_with_a_pod_that_has_replaced_another(isolate, runs, pods):
    """It may be on another node, whose mark the findings of the first one would decide."""
    names = ["a", "b"]
    pods.create(*names)
    # Not the addresses of the pods, which a new one would change.
    asked = {
        "worker_pods_names": ",".join(names),
        "isolate_mode": "nodes",
        "gpufabric_control_interface": "eth0",
        **ALL_ARE_GOOD,
    }
    isolate(**asked)
    file = runs.directory / "report/isolation.json"
    for replaced in (False, True):
        file.write_text(json.dumps({**json.loads(file.read_text()), "complete": False}))
        if replaced:
            runs.cluster.kubectl("delete", "pod", "b", namespace=runs.namespace)
            pods.create("b")
        played = isolate(**asked)
        assert ("Taken up after round" in played.output) != replaced, played.output
        assert json.loads(file.read_text())["complete"]
