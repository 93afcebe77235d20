# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whole runs. The tests with the fixture ``first`` need one that has been, and leave it as they found it."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tarfile
import typing as t

import pytest
from background import wait
from conftest import Nodes, Played, ansible_core, slow
from groups import one_at_a_time

DOCUMENT_KEYS = {
    *("schema", "tool", "collective", "complete", "config", "ranks", "rows", "summary", "points", "env"),
    *("host_count", "rank_count", "problems", "verdict", "lost_rows", "json_output"),
    *("transport", "software", "hardware", "stragglers", "soak"),
}
START_SSHD = "gpufabric.nccl.key_exchange : Start a private sshd on every worker"
MESH = "gpufabric.nccl.key_exchange : Give every worker the keys and addresses of all others"
LOOK = "gpufabric.nccl.nccl_benchmark : List the GPUs, networks and programs of every worker"
HOSTFILE = "gpufabric.nccl.nccl_benchmark : Write the hostfile on the launcher"
MPIRUN = "gpufabric.nccl.nccl_benchmark : Run the programs by mpirun"
FOLDER = "gpufabric.nccl.report : Make the folder of the results"
REPORT = "gpufabric.nccl.report : Write the results and the report"
#: Of the run that most tests follow: all sizes and all files.
WHOLE = {
    "nccl_benchmark_step_factor": 2,
    "report_formats": ["json", "csv", "markdown", "html", "junit", "openmetrics"],
}


def read_results(report_dir: pathlib.Path) -> tuple[str, dict[str, t.Any]]:
    """The verdict and the only document of the results that a play wrote."""
    results = json.loads((report_dir / "results.json").read_text())
    (document,) = results["results"]
    return results["verdict"], document


def hosts_of(document: dict[str, t.Any]) -> list[str]:
    return sorted(rank["host"] for rank in document["ranks"])


def packets(nodes: Nodes, interface: str) -> list[int]:
    """How many packets each node has sent."""
    return [
        int(nodes.shell(node, f"cat /sys/class/net/{interface}/statistics/tx_packets").stdout) for node in nodes.names
    ]


def reached(nodes: Nodes, run_id: str, options: str = "") -> list[str]:
    """The host names of the nodes that the run's ssh reaches from the first."""
    config = options or f"-F /run/gpufabric/{run_id}/ssh/config"
    commands = [f"ssh {config} {address} hostname;" for address in nodes.addresses.values()]
    return nodes.shell("g1", "".join(commands), check=False).stdout.split()


def states(nodes: Nodes) -> dict[str, set[str]]:
    return {node: nodes.state(node) for node in nodes.names}


def differences(nodes: Nodes, before: dict[str, set[str]]) -> list[str]:
    """What is on the nodes now and was not before, or the other way round."""
    return sorted(f"{node}: {line}" for node, lines in states(nodes).items() for line in lines ^ before[node])


@dataclasses.dataclass
class First:
    """A run from nothing. ``sent``: packets by interface, of each node."""

    played: Played
    report_dir: pathlib.Path
    sent: dict[str, list[int]]


@pytest.fixture(scope="module")
def first(nodes: Nodes, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[First]:
    """A run, whose teardown leaves nothing after all tests that need it: whatever their order, none of them is the last."""
    before = states(nodes)
    report_dir = tmp_path_factory.mktemp("first")
    begin = {name: packets(nodes, name) for name in ("eth0", "net1")}
    played = nodes.benchmark(report_dir, **WHOLE)
    assert played.returncode == 0, played.output
    sent = {name: [b - a for a, b in zip(counts, packets(nodes, name))] for name, counts in begin.items()}
    yield First(played, report_dir, sent)
    played = nodes.playbook("gpufabric.nccl.teardown")
    assert played.returncode == 0, played.output
    assert {node: len(played.executions(node)) for node in nodes.names} == dict.fromkeys(nodes.names, 1)
    assert differences(nodes, before) == []
    again = nodes.playbook("gpufabric.nccl.teardown")
    assert again.returncode == 0 and again.changed() == []


def test_a_run(nodes, first):
    verdict, document = read_results(first.report_dir)
    assert verdict == document["verdict"] == "pass"
    assert set(document) == DOCUMENT_KEYS and document["schema"] == "gpufabric.nccl/result/v1"
    assert document["tool"]["name"] == "cpu" and document["collective"] == "all_reduce" and document["complete"]
    assert hosts_of(document) == nodes.names and document["host_count"] == document["rank_count"] == 4
    assert [row["size"] for row in document["rows"]] == [2**exponent for exponent in range(3, 17)]
    assert all(row[half]["wrong"] == 0 for row in document["rows"] for half in ("out_of_place", "in_place"))
    assert document["summary"]["checked"] and document["problems"] == []
    assert document["transport"] is document["software"] is None
    assert document["hardware"] is None or document["hardware"]["nvlink_gbytes"] is None
    files = {"results.json", "results.csv", "report.md", "report.html", "junit.xml", "results.prom", "output.tar.gz"}
    files.add(".gpufabric-report")
    assert {path.name for path in first.report_dir.iterdir()} == files
    report = (first.report_dir / "report.md").read_text()
    assert "all_reduce" in report and "pass" in report.lower()
    with tarfile.open(first.report_dir / "output.tar.gz") as output:
        assert b"# Avg bus bandwidth" in output.extractfile("points/1/stdout").read()
    assert "Backend cpu: no GPU on any worker" in first.played.output
    assert "Verdict over 1 test: PASS" in first.played.output


def test_a_worker_costs_three_tasks(nodes, first):
    for node in nodes.names[1:]:
        assert first.played.executions(node) == [LOOK, START_SSHD, MESH]
        assert first.played.tasks(node) == [LOOK, START_SSHD, MESH]


def test_mpi_keeps_to_the_control_network(first):
    assert min(first.sent["eth0"]) > 500 and max(first.sent["net1"]) < 50
    command = first.played.result("g1", "gpufabric.nccl.mpi_run")["points"][0]["command"]
    assert command[command.index("btl_tcp_if_include") + 1] == "eth0"


def test_a_second_run_changes_nothing_but_results(nodes, first):
    played = nodes.benchmark(first.report_dir, **WHOLE)
    assert played.returncode == 0, played.output
    assert played.changed() == [f"g1: {MPIRUN}", f"localhost: {REPORT}"]


def test_a_killed_sshd_is_started_again_alone(nodes, first):
    nodes.shell("g3", f"kill -9 $(cat /run/gpufabric/{nodes.run_id}/sshd/sshd.pid)")
    assert reached(nodes, nodes.run_id) == ["g1", "g2", "g4"]
    played = nodes.playbook([{"hosts": "workers", "gather_facts": False, "roles": ["gpufabric.nccl.key_exchange"]}])
    assert played.returncode == 0, played.output
    assert played.changed() == [f"g3: {START_SSHD}"]
    assert reached(nodes, nodes.run_id) == nodes.names


@pytest.mark.slow
def test_two_runs_at_once(nodes, first, tmp_path):
    variables = {"gpufabric_run_id": "other", "key_exchange_user_config": True}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        one = pool.submit(nodes.benchmark, tmp_path / "one")
        other = pool.submit(nodes.benchmark, tmp_path / "other", **variables)
    for played, report_dir in ((one.result(), tmp_path / "one"), (other.result(), tmp_path / "other")):
        assert played.returncode == 0, played.output
        verdict, document = read_results(report_dir)
        assert verdict == "pass" and hosts_of(document) == nodes.names
    assert reached(nodes, "other") == reached(nodes, "other", "-o BatchMode=yes") == nodes.names

    played = nodes.playbook("gpufabric.nccl.teardown", **variables)
    assert played.returncode == 0, played.output
    for node in nodes.names:
        nodes.shell(node, "test ! -e /run/gpufabric/other && test ! -e ~/.ssh")
    assert reached(nodes, nodes.run_id) == nodes.names


@pytest.mark.slow
def test_a_wrong_value_fails_the_play_and_is_reported(nodes, first, tmp_path):
    played = nodes.benchmark(tmp_path, nccl_benchmark_extra_args=["--corrupt-rank", "1"])
    assert played.returncode == 2
    assert "The verdict is fail: all_reduce." in played.output
    verdict, document = read_results(tmp_path)
    assert verdict == document["verdict"] == "fail"
    assert document["summary"]["wrong"] > 0 and document["complete"]
    assert [problem["id"] for problem in document["problems"]] == ["wrong-values"]
    assert hosts_of(document) == nodes.names


def test_a_time_out_ends_the_ranks_on_every_node(nodes, first):
    # Its silence counts from the start of the last rank, however long that takes, and from the last word of any.
    program = ["bash", "-c", "touch /tmp/rank-was-here; echo; sleep 600; true"]
    points = [{"name": "sleeper", "argv": program}]
    options = {"run_id": nodes.run_id, "points": points, "control_interface": "eth0", "silence_timeout": 4}
    result = nodes.module("mpi_run", options)
    assert result["failed"] and "sleeper: The program printed nothing for 4 s" in result["msg"]
    assert result["points"][0]["status"] == "timeout"
    for node in nodes.names:
        nodes.shell(node, "rm /tmp/rank-was-here")
        # The daemons of the other nodes end when they see that mpirun is gone, which takes them a moment on a busy machine.
        wait(lambda node=node: nodes.shell(node, "pgrep -x 'orted|mpirun|sleep'", check=False).stdout == "", 30)
        assert nodes.shell(node, "grep -la GPUFABRIC_POINT= /proc/[0-9]*/environ", check=False).stdout == ""


def test_a_launch_that_fails_says_why(nodes, first, tmp_path):
    stop = {"gpufabric.nccl.sshd_instance": {"run_id": nodes.run_id, "state": "stopped"}}
    tasks = [
        {"ansible.builtin.import_role": {"name": "gpufabric.nccl.key_exchange"}},
        {**stop, "when": "inventory_hostname == 'g2'"},
        {"ansible.builtin.import_role": {"name": "gpufabric.nccl.nccl_benchmark"}},
        {
            "ansible.builtin.import_role": {"name": "gpufabric.nccl.report"},
            "vars": {"report_results": "{{ nccl_benchmark_results }}"},
        },
    ]
    connect, benchmark = tasks[:1], {"report_dir": str(tmp_path), "report_formats": ["json"]}
    play = {"hosts": "workers", "gather_facts": False}
    try:
        played = nodes.playbook([{**play, "tasks": tasks}], **benchmark)
    finally:
        assert nodes.playbook([{**play, "tasks": connect}]).changed() == [f"g2: {START_SSHD}"]
    assert played.returncode == 2
    assert "Traceback" not in played.output
    verdict, document = read_results(tmp_path)
    assert verdict == "fail" and document["rows"] == []
    problem, left = document["problems"]
    assert [(found["id"], found["host"]) for found in (problem, left)] == [
        ("connect-refused", "g2"),
        ("processes-left", "g2"),
    ]
    assert f"ssh: connect to host {nodes.addresses['g2']} port" in problem["evidence"]
    assert "Connection refused" in problem["evidence"] and "Connection refused" in played.output


@pytest.fixture(scope="module")
def pair(make_nodes: t.Callable[[int], Nodes]) -> Nodes:
    """Two nodes that tests put into a state of their own."""
    return make_nodes(2)


def test_a_host_that_is_down_and_a_wrong_interface_are_told_once_and_a_forgotten_inventory_by_its_name(
    player, tmp_path
):
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {"n1": here, "n2": here, "n3": {"ansible_host": "127.0.0.1", "ansible_port": 1}}
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(json.dumps({"all": {"hosts": hosts}}))
    variables = {"report_dir": str(tmp_path / "r"), "gpufabric_control_interface": "nosuch7"}
    played = player.playbook("gpufabric.nccl.bare_metal", "-i", str(inventory), **variables)
    (failed,) = [record for record in played.records if record["status"] == "failed"]
    assert played.returncode == 2, played.output
    assert {(entry["id"], entry["host"]) for entry in failed["result"]["problems"]} == {
        ("step-failed", "n1"),
        ("step-failed", "n2"),
        ("host-unreachable", "n3"),
    }
    assert played.output.count("control_interface: 'nosuch7' is not allowed; allowed: an interface") == 1
    assert played.output.count("(variable: gpufabric_control_interface)") == 1
    assert "gpufabric.nccl.diagnose" in played.output and "--limit 'all:!NAME'" in played.output
    forgotten = player.playbook("gpufabric.nccl.bare_metal", **variables)
    assert (
        forgotten.returncode == 2 and "The inventory has no hosts: give one with -i inventory.yml" in forgotten.output
    )
    assert "gpufabric_target" not in forgotten.output


def test_check_mode_predicts_and_changes_nothing(pair, tmp_path):
    before = states(pair)
    checked = pair.benchmark(tmp_path / "report", "--check", gpufabric_run_id="checked")
    assert checked.returncode == 0, checked.output
    assert differences(pair, before) == []
    assert list(tmp_path.iterdir()) == []

    real = pair.benchmark(tmp_path / "report", gpufabric_run_id="checked")
    assert real.returncode == 0, real.output
    of_workers = {f"{node}: {task}" for node in pair.names for task in (START_SSHD, MESH)}
    of_launcher = {f"g1: {task}" for task in (HOSTFILE, MPIRUN)}
    assert set(checked.changed()) == of_workers | of_launcher | {f"g1: {FOLDER}"}
    done = {(record["host"], record["task"]): record["result"].get("changed") for record in real.records}
    for record in checked.records:
        assert record["result"].get("changed") == done[record["host"], record["task"]], record


@pytest.mark.slow
def test_local_nodes_of_a_play_that_fails_stay_and_it_says_how_to_remove_them(player, group, tmp_path):
    variables = {**group.variables, "local_nodes_count": 1, "nccl_benchmark_backend": "nccl"}
    with one_at_a_time():
        played = player.playbook("gpufabric.nccl.local", report_dir=str(tmp_path), **variables)
    assert played.returncode == 2 and played.output.count("No GPU was found on any host.") == 1, played.output
    (command,) = re.findall(
        r"^The nodes g1 to g\d+ stay. Remove them with: ansible-playbook (.+)$", played.output, re.MULTILINE
    )
    assert left_on_this_machine(group.run_id)["containers"]
    options, inventory, playbook, *rest = shlex.split(command)
    removed = player.playbook(playbook, options, inventory, *rest)
    assert removed.returncode == 0, removed.output
    wait(lambda: not any(left_on_this_machine(group.run_id).values()), 30)


MISSING = {
    "mpirun": ("mpirun", "mpi-unusable", "Install Open MPI 4 or 5 (Debian, Ubuntu: apt-get install openmpi-bin;"),
    "mpi4py": ("mpi4py*", "python-module-missing", "apt-get install python3-mpi4py python3-numpy"),
}


@pytest.mark.parametrize("name", [slow("mpirun"), "mpi4py"])
def test_missing_software_is_told_before_anything_is_changed(pair, tmp_path, name, faults):
    files, identity, advice = MISSING[name]
    folder = {"mpirun": "/usr/bin", "mpi4py": "/usr/lib/python3/dist-packages"}[name]
    try:
        pair.shell("g2", f"mkdir /opt/away; mv {folder}/{files} /opt/away")
        before = states(pair)
        played = pair.benchmark(tmp_path, gpufabric_run_id="missing")
        changes = differences(pair, before)
    finally:
        pair.shell("g2", f"mv /opt/away/* {folder}; rmdir /opt/away")
    assert played.returncode == 2
    (failed,) = [record for record in played.records if record["status"] == "failed"]
    title, cause, cure = failed["result"]["msg"].splitlines()
    assert title == "WHAT IS WRONG" and cause.startswith("  g2: ") and advice in cure
    assert played.output.count(cause) == played.output.count(cure) == 1, played.output
    assert changes == []
    faults.fault(f"no {name} on one node", failed["result"]["problems"], identity, "g2", "nccl_benchmark")


#: What ansible-core begins the version with, of the releases of scripts/ansible-core.
CORES = {**{release: f"{release}." for release in ("2.16", "2.17", "2.18", "2.19", "2.20", "2.21")}, "next": "2."}


@pytest.mark.rotating
@pytest.mark.parametrize("release", CORES)
def test_every_ansible_core(pair, tmp_path, release):
    environment = {**ansible_core(release), "ANSIBLE_DEPRECATION_WARNINGS": "1"}
    nodes = pair.within(environment)
    variables = {"gpufabric_run_id": "core"}
    before = states(pair)

    def play(playbook: str, *arguments: str, **more: t.Any) -> None:
        played = nodes.playbook(f"gpufabric.nccl.{playbook}", *arguments, **more)
        assert played.returncode == 0 and "DEPRECATION" not in played.output, played.output

    said = subprocess.run(
        ["ansible", "--version"], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    assert f"[core {CORES[release]}" in said.stdout

    checked = nodes.benchmark(tmp_path / "report", "--check", **variables)
    assert checked.returncode == 0, checked.output
    assert differences(pair, before) == [] and list(tmp_path.iterdir()) == []
    played = nodes.benchmark(tmp_path / "report", **variables)
    assert played.returncode == 0 and "DEPRECATION" not in played.output, played.output
    verdict, document = read_results(tmp_path / "report")
    assert verdict == "pass" and hosts_of(document) == pair.names
    again = nodes.benchmark(tmp_path / "again", "--check", **variables)
    assert again.returncode == 0, again.output

    play("diagnose", preflight_report_dir=str(tmp_path / "diagnosis"))
    assert (tmp_path / "diagnosis" / "diagnosis.md").exists()
    ended = states(pair)
    play("teardown", "--check", **variables)
    assert differences(pair, ended) == []
    play("teardown", **variables)
    assert differences(pair, before) == []


@pytest.mark.slow
def test_a_host_that_the_inventory_leaves_out_is_not_diagnosed(pair, tmp_path):
    """Nothing runs there, and no run of that name is removed."""
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(json.dumps({"all": {"vars": {"gpufabric_hosts": ["g2"]}}}))
    before = states(pair)
    played = pair.playbook(
        "gpufabric.nccl.diagnose", "-i", str(inventory), preflight_report_dir=str(tmp_path / "diagnosis")
    )
    assert played.returncode == 0, played.output
    document = json.loads((tmp_path / "diagnosis" / "diagnosis.json").read_text())
    assert [host["name"] for host in document["hosts"]] == ["g2"]
    assert played.executions("g1") == [] and len(played.executions("g2")) > 2
    assert differences(pair, before) == []


@pytest.mark.slow
def test_the_output_of_programs_goes_where_the_inventory_says(pair, tmp_path):
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(json.dumps({"all": {"vars": {"nccl_benchmark_output_dir": str(tmp_path / "output")}}}))
    played = pair.benchmark(tmp_path / "report", "-i", str(inventory), gpufabric_run_id="output")
    assert played.returncode == 0, played.output
    assert (tmp_path / "output" / "output.tar.gz").is_file()
    assert (tmp_path / "report" / "results.json").is_file()
    assert not (tmp_path / "report" / "output.tar.gz").exists()
    assert pair.playbook("gpufabric.nccl.teardown", gpufabric_run_id="output").returncode == 0


@pytest.mark.slow
def test_the_oldest_ansible_shows_what_is_wrong(pair, tmp_path):
    nodes = pair.within(ansible_core("2.16"))
    sweep = {"env": {"NCCL_ALGO": [None, "Ring"]}, "repeats": 1}
    variables = {"gpufabric_run_id": "oldest", "nccl_benchmark_sweep": sweep}
    played = nodes.benchmark(tmp_path / "run", **variables)
    assert played.returncode == 0, played.output
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["verdict"] == "pass" and [len(one["rows"]) for one in results["results"]] == [5, 5]
    pair.shell("g2", "mv /usr/bin/orted /root")
    try:
        failed = nodes.benchmark(tmp_path / "failed", **variables)
        diagnosed = nodes.playbook("gpufabric.nccl.diagnose", preflight_report_dir=str(tmp_path / "diagnosis"))
    finally:
        pair.shell("g2", "mv /root/orted /usr/bin")
    for played in (failed, diagnosed):
        # Older releases show the text of a failure as JSON, in one line.
        assert played.returncode == 2 and "\nWHAT IS WRONG\n  g2: The host has no orted " in played.output
    assert "g2" in (tmp_path / "diagnosis" / "diagnosis.md").read_text()
    assert nodes.playbook("gpufabric.nccl.teardown", gpufabric_run_id="oldest").returncode == 0


@pytest.mark.slow
def test_an_ordinary_user(pair, tmp_path):
    for node in pair.names:
        pair.shell(node, "useradd --create-home --shell /bin/bash tester")
    become = {"ansible_become": True, "ansible_become_method": "su", "ansible_become_user": "tester"}
    inventory = tmp_path / "become.json"
    inventory.write_text(json.dumps({"workers": {"vars": become}}))
    more = ("-i", str(inventory))
    before = states(pair)
    played = pair.benchmark(tmp_path / "report", *more, gpufabric_run_id="user")
    assert played.returncode == 0, played.output
    verdict, document = read_results(tmp_path / "report")
    assert verdict == "pass" and hosts_of(document) == pair.names
    sshd = played.result("g2", "gpufabric.nccl.sshd_instance")
    assert sshd["user"] == "tester" and sshd["run_dir"].startswith("/tmp/gpufabric-")
    assert pair.shell("g2", f"stat -c %U /proc/{sshd['pid']}").stdout == "tester\n"

    played = pair.playbook("gpufabric.nccl.teardown", *more, gpufabric_run_id="user")
    assert played.returncode == 0, played.output
    assert differences(pair, before) == []


def left_on_this_machine(run_id: str) -> dict[str, list[str]]:
    """What there is of the local nodes of a run."""
    listing = {
        "containers": ["podman", "ps", "--all", "--format", "{{.Names}}"],
        "networks": ["podman", "network", "ls", "--format", "{{.Name}}"],
        "processes": ["ps", "-e", "-o", "args="],
        "mounts": ["cat", "/proc/mounts"],
    }
    found = {}
    for what, argv in listing.items():
        lines = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        found[what] = [line for line in lines if f"gpufabric-{run_id}" in line or f"gpufabric-local/{run_id}" in line]
    places = ("/run", "/run/gpufabric-local", "/etc/containers/networks", "/tmp")
    found["files"] = [str(path) for place in places for path in pathlib.Path(place).glob(f"*{run_id}*")]
    return found


def mounts_of_no_container() -> set[str]:
    """Mounts that podman made and that belong to no container: other tests' start and end meanwhile."""
    format_ = "{{.Id}} {{.NetworkSettings.SandboxKey}}"
    argv = ["podman", "ps", "--all", "--quiet"]
    containers = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    argv = ["podman", "inspect", "--format", format_, *containers]
    # One of them may be gone by now.
    inspected = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False) if containers else None
    known = inspected.stdout.split() if inspected else []
    lines = pathlib.Path("/proc/mounts").read_text().splitlines()
    made = [line for line in lines if "/netns/" in line or "/overlay-containers/" in line]
    return {line for line in made if not any(name in line for name in known)}


def test_local_nodes_from_start_to_end(player, group, tmp_path):
    mounts = mounts_of_no_container()
    variables = {
        **group.variables,
        "local_nodes_count": 2,
        "nccl_benchmark_max_bytes": "64K",
        "nccl_benchmark_iterations": 3,
    }
    with one_at_a_time():
        played = player.playbook("gpufabric.nccl.local", report_dir=str(tmp_path), **variables)
    assert played.returncode == 0, played.output
    verdict, document = read_results(tmp_path)
    assert verdict == "pass" and hosts_of(document) == ["g1", "g2"]
    nothing = {"containers": [], "networks": [], "processes": [], "mounts": [], "files": []}
    # What watched over a container may end a moment after it.
    wait(lambda: left_on_this_machine(group.run_id) == nothing, 30, lambda: left_on_this_machine(group.run_id))
    wait(lambda: mounts_of_no_container() <= mounts, 60, lambda: mounts_of_no_container() - mounts)
