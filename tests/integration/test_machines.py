# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Machines that are set up in ways of their own: names, addresses, login shells."""

from __future__ import annotations

import contextlib
import json
import subprocess
import typing as t

import pytest
from conftest import Nodes, Played


def privileged(nodes: Nodes, node: str, command: str) -> None:
    """Run a shell command with a node's names and networks, as root of this machine."""
    container = f"gpufabric-{nodes.run_id}-{node}"
    argv = ["podman", "inspect", "--format", "{{.State.Pid}}", container]
    pid = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True, timeout=120).stdout.strip()
    subprocess.run(["nsenter", "-t", pid, "-u", "-n", "bash", "-c", command], check=True, timeout=120)


@contextlib.contextmanager
def changed(nodes: Nodes, make: dict[str, str], mend: dict[str, str]) -> t.Iterator[None]:
    """Nodes on which commands were run, by node."""
    try:
        for node, command in make.items():
            privileged(nodes, node, command)
        yield
    finally:
        for node, command in mend.items():
            privileged(nodes, node, command)


def problems_of(played: Played) -> list[dict[str, t.Any]]:
    (failed,) = [record["result"] for record in played.records if record["status"] == "failed"]
    return failed["problems"]


@pytest.fixture(scope="module")
def machines(make_nodes: t.Callable[[int], Nodes]) -> Nodes:
    return make_nodes(3)


def test_machines_with_one_host_name(machines, faults, tmp_path):
    one, two = list(machines.names)[:2]
    names = {node: machines.shell(node, "hostname").stdout.strip() for node in (one, two)}
    clone = {two: f"hostname {names[one]}"}
    with changed(machines, clone, {two: f"hostname {names[two]}"}):
        played = machines.benchmark(tmp_path)
        assert played.returncode == 2
        # Before anything is started.
        assert "gpufabric.nccl.sshd_instance" not in played.output and "Start a private sshd" not in played.output
        diagnosed = machines.playbook("gpufabric.nccl.diagnose", preflight_report_dir=str(tmp_path))
        assert diagnosed.returncode == 2
    found = json.loads((tmp_path / "diagnosis.json").read_text())["problems"]
    for host, other in ((one, two), (two, one)):
        beside = [("host-name-shared", other)]
        faults.fault(
            "two machines have one host name",
            problems_of(played),
            "host-name-shared",
            host,
            "the role nccl_benchmark",
            beside=beside,
        )
        faults.fault(
            "two machines have one host name", found, "host-name-shared", host, "the playbook diagnose", beside=beside
        )


def test_a_machine_that_is_in_the_inventory_twice(machines, faults, tmp_path):
    one, two = list(machines.names)[:2]
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(json.dumps({"workers": {"hosts": {"again": {"ansible_host": machines.addresses[two]}}}}))
    more = ["-i", str(inventory)]
    target = {"gpufabric_target": f"{one},{two},again"}
    played = machines.benchmark(tmp_path, *more, **target)
    assert played.returncode == 2
    diagnosed = machines.playbook("gpufabric.nccl.diagnose", *more, preflight_report_dir=str(tmp_path), **target)
    assert diagnosed.returncode == 2
    found = json.loads((tmp_path / "diagnosis.json").read_text())["problems"]
    for host, other in ((two, "again"), ("again", two)):
        faults.fault(
            "a machine has two names in the inventory",
            problems_of(played),
            "host-twice",
            host,
            "the role nccl_benchmark",
            beside=[("host-twice", other)],
        )
    faults.fault("a machine has two names in the inventory", found, "host-twice", "again", "the playbook diagnose")


def test_obstacles_that_only_mpirun_would_meet(machines, faults, tmp_path):
    """A firewall as of a cloud, which lets in ssh alone, and a login shell that does not read what mpirun writes."""
    _one, two, three = machines.names
    only = "-i eth0 -p tcp -m multiport ! --dports 22,2223 -m conntrack --ctstate NEW"
    make, mend = ({two: f"iptables --wait {verb} INPUT {only} -j DROP"} for verb in ("-A", "-D"))
    machines.shell(three, "usermod -s $(command -v tcsh) root")
    try:
        with changed(machines, make, mend):
            played = machines.benchmark(tmp_path, key_exchange_port=2223, preflight_level="full", preflight_timeout=2)
    finally:
        machines.shell(three, "usermod -s /bin/bash root")
    assert played.returncode == 2
    found, teller = problems_of(played), "mpi_preflight"
    shell, firewall = ("login-shell", three), ("control-unreachable", two)
    faults.fault("a firewall lets in ssh alone on the control network", found, *firewall, teller, beside=[shell])
    faults.fault("the login shell is tcsh, and the launcher's is bash", found, *shell, teller, beside=[firewall])


def test_a_target_that_only_the_inventory_names(player, tmp_path):
    inventory = tmp_path / "hosts.yml"
    hosts = {"gpu-1": {"ansible_connection": "local"}, "web-1": {"ansible_connection": "local"}}
    inventory.write_text(json.dumps({"gpus": {"hosts": hosts, "vars": {"gpufabric_target": "gpu-1"}}}))
    played = player.playbook("gpufabric.nccl.teardown", "-i", str(inventory))
    assert played.returncode == 2 and [record["status"] for record in played.records] == ["ok", "failed"]
    assert played.result()["msg"].startswith("gpufabric_target: 'gpu-1' is not allowed; allowed: to set it with -e,")
