# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finding the bad machine: slow links, a slow CPU and a machine that is away, made on real nodes over real TCP.

The network of all nodes is so slow that it, and not the CPUs that they share, is what limits; a bad link is twenty times slower.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import pathlib
import signal
import subprocess
import time
import typing as t
import uuid

import pytest
from background import kill
from conftest import Nodes, Played, whole_job

GOOD, BAD = "100mbit", "5mbit"
#: In GB/s, about as far from what good as from what bad nodes have: 0.0030 and 0.0009 between nodes, 0.0062 and 0.0009
#: inside one, on two cores with twelve waiting for them.
LIMIT, INSIDE_LIMIT = 0.0015, 0.002
SETTINGS = {
    "gpufabric_control_interface": "net1",
    "isolate_min_bytes": "512K",
    "isolate_iterations": 3,
    "isolate_warmup_iterations": 1,
    "isolate_limit": LIMIT,
    "isolate_inside_limit": INSIDE_LIMIT,
}
#: Lets each of a node's ranks have the CPU in turns, as one that others keep busy does. What is measured takes some twenty turns.
TURNS = """\
import os, signal, time
while True:
    ranks = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as name, open(f"/proc/{pid}/cmdline") as words:
                if name.read().startswith("python") and "/cpu_perf.py\\0" in words.read():
                    ranks.append(int(pid))
        except OSError:
            pass
    for turn in ranks:
        # Whose turn it is comes last: it may well have the CPU from then on.
        for pid in sorted(ranks, key=lambda pid: pid == turn):
            try:
                os.kill(pid, signal.SIGCONT if pid == turn else signal.SIGSTOP)
            except ProcessLookupError:
                pass
        # One that is alone does not keep the other waiting for its first turn.
        time.sleep(0.1 if len(ranks) > 1 else 0.005)
    if not ranks:
        time.sleep(0.005)
"""


class Lab:
    """Nodes that faults are made on."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self._pids = {node: self._podman("inspect", "--format", "{{.State.Pid}}", node) for node in nodes.names}

    def _podman(self, *argv: str) -> str:
        *words, node = argv
        command = ["podman", *words, f"gpufabric-{self.nodes.run_id}-{node}"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def shape(self, node: str, rate: str) -> None:
        """Have a node send no faster, in its network, where the node itself has no right to say so."""
        qdisc = [
            "tc",
            "qdisc",
            "replace",
            "dev",
            "net1",
            "root",
            "tbf",
            "rate",
            rate,
            "burst",
            "32k",
            "latency",
            "400ms",
        ]
        subprocess.run(["nsenter", f"--net=/proc/{self._pids[node]}/ns/net", *qdisc], check=True)

    @contextlib.contextmanager
    def slow_link(self, *nodes: str) -> t.Iterator[None]:
        """All that these nodes send is slow."""
        try:
            for node in nodes:
                self.shape(node, BAD)
            yield
        finally:
            for node in nodes:
                self.shape(node, GOOD)

    @contextlib.contextmanager
    def slow_cpu(self, node: str) -> t.Iterator[None]:
        """Programs on this node wait for the CPU."""
        token = uuid.uuid4().hex
        command = ["podman", "exec", f"gpufabric-{self.nodes.run_id}-{node}", "python3", "-c", TURNS, token]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL):
            try:
                yield
            finally:
                kill(token)

    @contextlib.contextmanager
    def away(self, node: str, ports: str) -> t.Iterator[None]:
        """This node refuses others' connections to these ports: 22 is the machine's own sshd, those from 1024 on have the run's."""
        rule = [
            "INPUT",
            "!",
            "--in-interface",
            "lo",
            "--protocol",
            "tcp",
            "--dport",
            ports,
            "--jump",
            "REJECT",
            "--reject-with",
            "tcp-reset",
        ]
        command = ["nsenter", f"--net=/proc/{self._pids[node]}/ns/net", "iptables", "--wait"]
        subprocess.run([*command, "--insert", *rule], check=True)
        try:
            yield
        finally:
            subprocess.run([*command, "--delete", *rule], check=True)

    def isolate(self, report: pathlib.Path, *arguments: str, **variables: t.Any) -> Played:
        """Run the playbook, with the setting that is None left out."""
        given = {**SETTINGS, "report_dir": str(report), **variables}
        given = {name: value for name, value in given.items() if value is not None}
        return self.nodes.playbook("gpufabric.nccl.isolate", *arguments, **given)


def shaped(nodes: Nodes) -> Lab:
    """These nodes, all with the same network."""
    lab = Lab(nodes)
    for node in nodes.names:
        lab.shape(node, GOOD)
    return lab


@pytest.fixture(scope="module")
def lab(make_nodes: t.Callable[[int], Nodes]) -> Lab:
    """Nine nodes."""
    return shaped(make_nodes(9))


@pytest.fixture(scope="module")
def large_lab(make_nodes: t.Callable[[int], Nodes]) -> Lab:
    """Sixteen nodes."""
    return shaped(make_nodes(16))


def document(report: pathlib.Path) -> dict[str, t.Any]:
    return json.loads((report / "isolation.json").read_text())


def not_good(report: pathlib.Path) -> dict[str, tuple[str, str | None]]:
    found = document(report)
    assert found["complete"] and not found["links"], found["links"]
    return {e["node"]: (e["verdict"], e["where"]) for e in found["nodes"] if e["verdict"] != "good"}


@whole_job
def test_each_fault_is_told_though_the_controller_is_lost_in_the_middle(lab, tmp_path):
    before = {node: lab.nodes.state(node) for node in ("g1", "g4")}
    settings = {"isolate_screens": 1, "token": uuid.uuid4().hex}
    with lab.slow_cpu("g2"), lab.slow_link("g5"), lab.away("g9", "22"), concurrent.futures.ThreadPoolExecutor() as pool:
        first = pool.submit(lab.isolate, tmp_path, **settings)
        while not first.done() and not ((tmp_path / "isolation.json").exists() and document(tmp_path)["rounds"]):
            time.sleep(0.5)
        kill(settings["token"])
        assert first.result().returncode == -signal.SIGKILL, first.result().output
        kept = document(tmp_path)
        assert not kept["complete"]

        second = lab.isolate(tmp_path, isolate_fail_on_bad="true", **settings)
    assert second.returncode == 2 and "Not good: g2, g5, g9." in second.output, second.output
    assert not_good(tmp_path) == {"g2": ("bad", "inside"), "g5": ("bad", "between"), "g9": ("unreachable", None)}
    # What was measured before is not measured again.
    found = document(tmp_path)
    assert f"Taken up after round {kept['rounds']}, where an earlier search was cut off." in second.output
    assert found["state"]["tests"][: kept["tests"]] == kept["state"]["tests"]
    assert f"Round {kept['rounds'] + 1}: " in second.output and f"Round {kept['rounds']}: " not in second.output
    evidence = {entry["node"]: entry["evidence"] for entry in found["nodes"]}
    assert evidence["g2"][0].startswith("alone: 0.00") and "(limit 0.002 GB/s)" in evidence["g2"][0]
    assert len(evidence["g5"]) > 2 and evidence["g5"][1].startswith("with good nodes, ")
    # The rest is what Ansible says of it: the connection was refused, or it ended while Ansible was sending.
    assert "10.66" in evidence["g9"][0]
    # What is known of them, for people and for programs.
    assert found["limit"] == "all:!g2:!g5:!g9" and "--limit 'all:!g2:!g5:!g9'" in second.output
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["verdict"] == "fail" and results["isolation"]["nodes"] == found["nodes"]
    told = {problem["host"]: problem["id"] for problem in results["results"][0]["problems"]}
    assert told == {"g2": "node-slow-inside", "g5": "node-slow-between", "g9": "node-unreachable"}
    assert "all:!g2:!g5:!g9" in (tmp_path / "report.md").read_text()
    # Nothing is left of it on the nodes.
    assert {node: lab.nodes.state(node) for node in before} == before


@pytest.mark.slow
def test_two_bad_of_sixteen_and_one_that_others_cannot_reach_are_found_in_few_rounds(large_lab, tmp_path):
    with large_lab.slow_link("g3", "g14"), large_lab.away("g8", "1024:65535"):
        played = large_lab.isolate(tmp_path, isolate_screens=1, isolate_inside="none")
    assert played.returncode == 0, played.output
    assert not_good(tmp_path) == {"g3": ("bad", None), "g8": ("unreachable", None), "g14": ("bad", None)}
    found = document(tmp_path)
    assert found["rounds"] <= 10 and found["tests"] < 40, played.output
    assert "Round 1: 4 groups of 4 nodes, 2 slow (" in played.output
    assert "1 failed (g5, g6, g7, g8)" in played.output
    # Ansible can log in to it, the launchers cannot.
    assert found["nodes"][7]["evidence"][0].startswith("g8: Nothing listens on ")


@pytest.mark.slow
def test_of_good_nodes_none_is_accused(lab, tmp_path):
    # Neighbours in a rack are not measured first.
    racks = {"g6": "b", "g7": "a", "g8": "b", "g9": "a"}
    settings = {
        "gpufabric_target": "g6:g7:g8:g9",
        "isolate_mode": "pairs",
        "isolate_inside": "none",
        "isolate_domains": racks,
    }
    # The limit is what these nodes show themselves.
    derived = {"isolate_limit": None, "isolate_tolerance_percent": 60}
    report = tmp_path / "report"
    checked = lab.isolate(report, "--check", **settings)
    assert checked.returncode == 0 and "To run now: 2 pairs, all_reduce of 512K." in checked.output, checked.output
    assert not report.exists()
    played = lab.isolate(report, **settings, **derived)
    assert played.returncode == 0 and "4 nodes good" in played.output, played.output
    assert not_good(report) == {} and document(report)["limit"] == "all"
    assert {frozenset((pair["a"], pair["b"])) for pair in document(report)["pairs"]} == {
        frozenset(pair) for pair in (("g6", "g7"), ("g6", "g8"), ("g6", "g9"), ("g7", "g8"), ("g7", "g9"), ("g8", "g9"))
    }
    state = document(report)["state"]
    assert state["domains"] == racks and [test["nodes"] for test in state["tests"][:2]] == [["g7", "g8"], ["g9", "g6"]]
    assert json.loads((report / "results.json").read_text())["verdict"] == "pass"
    # Four module executions prepare and clean a node, and three are of each round in which it starts a group.
    rounds = document(report)["rounds"]
    assert len(played.executions("g9")) <= 4 + 3 * rounds
    # What has come to its end is not taken up; what the play has on the controller is removed by teardown.
    assert "Taken up" not in lab.isolate(report, "--check", **settings, **derived).output
    teardown = {
        "hosts": "workers",
        "gather_facts": False,
        "tasks": [{"ansible.builtin.include_role": {"name": "gpufabric.nccl.isolate", "tasks_from": "teardown"}}],
    }
    (report / "mine.txt").write_text("mine")
    assert lab.nodes.playbook([teardown], report_dir=str(report)).returncode == 0
    assert [path.name for path in report.iterdir()] == ["mine.txt"]


@pytest.mark.slow
def test_a_node_that_keeps_the_run_is_told(lab, tmp_path):
    node, path = f"gpufabric-{lab.nodes.run_id}-g2", "/run/gpufabric/isolate/tmp"
    before = lab.nodes.state("g2")

    def privileged(command: str) -> None:
        subprocess.run(["podman", "exec", "--privileged", node, "sh", "-c", command], check=True)

    privileged(f"mkdir -m 0700 -p {path} && mount -t tmpfs none {path}")
    try:
        played = lab.isolate(tmp_path, gpufabric_target="g1:g2", isolate_mode="nodes")
    finally:
        # mount makes the latter.
        privileged(f"umount {path} && rmdir /run/mount")
    assert played.returncode == 2 and not_good(tmp_path) == {}, played.output
    assert "2 nodes good" in played.output and "Not good" not in played.output, played.output
    words = " ".join(played.output.split())
    assert f"g2: The host cannot take part: it failed to run the job: cannot remove {path}: " in words, played.output
    assert not lab.nodes.module("run_cleanup", {"run_id": "isolate"}, hosts="g2")["failed"]
    assert lab.nodes.state("g2") == before


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        # Of what is wrong in itself; each option is tried in a unit test.
        ({"isolate_screens": "no"}, "isolate_screens: 'no' is not allowed; allowed: 1 or more, or all"),
        # Of what the nodes do not have.
        ({"isolate_backend": "nccl"}, "all_gather_perf"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_changed(lab, tmp_path, variables, told):
    played = lab.isolate(tmp_path, gpufabric_target="g1:g2", **variables)
    assert played.returncode == 2 and told in " ".join(played.output.split()), played.output
    assert not any("sshd" in task for task in played.changed())
