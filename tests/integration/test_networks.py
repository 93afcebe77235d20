# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Networks that are not one of IPv4 each: IPv6, two for data, and a firewall between two workers."""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import json
import pathlib
import subprocess
import typing as t

import pytest
from conftest import Nodes, Played
from groups import one_at_a_time

#: What podman calls a node's third and fourth interface.
RAIL, SIX = "eth1", "eth2"
PREFLIGHT = "gpufabric.nccl.mpi_preflight"
#: Python runs it first in each rank.
SPY = """\
import os
if "OMPI_COMM_WORLD_RANK" in os.environ:
    with open("/tmp/seen", "w") as file:
        file.write(os.environ.get("NCCL_SOCKET_IFNAME", ""))
"""


def podman(*argv: str) -> str:
    return subprocess.run(["podman", *argv], stdout=subprocess.PIPE, text=True, check=True, timeout=120).stdout


@dataclasses.dataclass
class Networks:
    """Nodes with a second network for data, and one of IPv6 alone."""

    nodes: Nodes
    six: str

    def privileged(self, node: str, command: str) -> None:
        """Run a shell command in a node with all capabilities."""
        podman("exec", "--privileged", f"gpufabric-{self.nodes.run_id}-{node}", "bash", "-c", command)

    @contextlib.contextmanager
    def dropped(self, node: str, *rule: str) -> t.Iterator[None]:
        """What fits a rule of iptables does not come to a node."""
        words = " ".join(rule)
        self.privileged(node, f"iptables --wait --append INPUT {words}")
        try:
            yield
        finally:
            self.privileged(node, f"iptables --wait --delete INPUT {words}")

    def benchmark(self, report_dir: pathlib.Path, **variables: t.Any) -> Played:
        """Run the playbook bare_metal with few sizes."""
        small = {"nccl_benchmark_max_bytes": "1K", "report_formats": ["json"]}
        return self.nodes.benchmark(report_dir, **{**small, **variables})


@pytest.fixture(scope="module")
def networks(make_nodes: t.Callable[[int], Nodes]) -> t.Iterator[Networks]:
    nodes = make_nodes(3)
    number = nodes.addresses["g1"].split(".")[2]
    subnets = {"rail": f"172.31.{number}.0/24", "six": f"fd00:66:{number}::/64"}
    names = {kind: f"gpufabric-{nodes.run_id}-{kind}" for kind in subnets}
    containers = [f"gpufabric-{nodes.run_id}-{node}" for node in nodes.names]
    try:
        with one_at_a_time():
            for kind, subnet in subnets.items():
                family = ["--ipv6"] if kind == "six" else []
                podman("network", "create", "--internal", "--disable-dns", *family, "--subnet", subnet, names[kind])
        networks = Networks(nodes, subnets["six"])
        for order, (node, container) in enumerate(zip(nodes.names, containers), 11):
            podman("network", "connect", "--ip", f"172.31.{number}.{order}", names["rail"], container)
            six = str(ipaddress.ip_network(subnets["six"])[order])
            podman("network", "connect", "--ip6", six, names["six"], container)
            # Podman gives it an address of IPv4, too.
            networks.privileged(node, f"ip -4 address flush dev {SIX}")
            seen = nodes.shell(node, f"ip -brief address show dev {RAIL}; ip -brief address show dev {SIX}").stdout
            assert f" 172.31.{number}.{order}/24" in seen and f" {six}/64" in seen and seen.count("/24") == 1, seen
        yield networks
    finally:
        for name in names.values():
            for container in containers:
                subprocess.run(["podman", "network", "disconnect", "--force", name, container], check=False)
            subprocess.run(["podman", "network", "rm", "--force", name], check=False)


def result_of(report_dir: pathlib.Path) -> dict[str, t.Any]:
    (document,) = json.loads((report_dir / "results.json").read_text())["results"]
    return document


def found(problems: t.Iterable[t.Mapping[str, t.Any]]) -> list[tuple[str, str, str]]:
    return [(problem["id"], problem["host"], problem["severity"]) for problem in problems]


def test_a_control_interface_without_ipv4_is_one_error(networks, tmp_path):
    played = networks.benchmark(tmp_path, gpufabric_control_interface=SIX)
    assert played.returncode == 2
    (failed,) = [record for record in played.records if record["status"] == "failed"]
    message = f"control_interface: '{SIX}' is not allowed; allowed: an interface with an IPv4 address"
    assert {entry["host"] for entry in failed["result"]["problems"]} == set(networks.nodes.names)
    assert played.output.count(f"{message} (variable: gpufabric_control_interface); in its place,") == 1, played.output


@pytest.mark.slow
def test_a_control_network_of_ipv6_is_for_open_mpi_5(networks, tmp_path, openmpi5):
    """The interface is not named, since its name would mean an address of IPv4."""
    six = {"gpufabric_control_interface": "", "gpufabric_control_subnet": networks.six}
    four = networks.benchmark(tmp_path / "4", gpufabric_run_id="four", **six)
    assert four.returncode == 2
    (failed,) = [record["result"]["msg"] for record in four.records if record["status"] == "failed"]
    second = str(ipaddress.ip_network(networks.six)[11])
    assert failed.startswith(f"hostfile: '{second}' is not allowed; allowed: host names and IPv4 addresses;")
    five = networks.benchmark(tmp_path / "5", gpufabric_run_id="five", **six, **openmpi5)
    assert five.returncode == 0, five.output
    document = result_of(tmp_path / "5")
    assert document["verdict"] == "pass" and document["rank_count"] == 3
    assert f"control network {SIX}." in five.output


@pytest.mark.slow
def test_a_data_interface_of_ipv6(networks, tmp_path):
    played = networks.benchmark(tmp_path, gpufabric_data_interface=SIX, preflight_level="full")
    assert played.returncode == 0, played.output
    assert result_of(tmp_path)["verdict"] == "pass"
    expected = [("data-interface-address", node, "warning") for node in networks.nodes.names]
    assert found(played.result("g1", PREFLIGHT)["problems"]) == expected


@pytest.mark.slow
def test_two_data_interfaces(networks, tmp_path):
    rails = f"net1,{RAIL}"
    for node in networks.nodes.names:
        networks.nodes.shell(node, f"mkdir -p /opt/spy; cat >/opt/spy/sitecustomize.py <<'END'\n{SPY}END")
    played = networks.benchmark(
        tmp_path / "good",
        gpufabric_data_interface=rails,
        nccl_benchmark_env={"PYTHONPATH": "/opt/spy"},
        preflight_level="full",
    )
    assert played.returncode == 0, played.output
    assert found(played.result("g1", PREFLIGHT)["problems"]) == []
    (document,) = json.loads((tmp_path / "good" / "results.json").read_text())["results"]
    assert document["verdict"] == "pass"
    for node in networks.nodes.names:
        assert networks.nodes.shell(node, "cat /tmp/seen; rm /tmp/seen").stdout == f"={rails}"
    with networks.dropped("g2", "--in-interface", RAIL, "--jump", "DROP"):
        cut = networks.benchmark(
            tmp_path / "cut", gpufabric_data_interface=rails, preflight_level="full", preflight_timeout=2
        )
    assert cut.returncode == 2
    assert found(cut.result("g1", PREFLIGHT)["problems"]) == [("data-unreachable", "g2", "error")]
    assert RAIL in cut.result("g1", PREFLIGHT)["problems"][0]["cause"]


@contextlib.contextmanager
def divided(networks: Networks, verdict: str) -> t.Iterator[None]:
    """What g2 sends to g3 over the control network does not arrive; the launcher, g1, reaches both."""
    source = networks.nodes.addresses["g2"]
    with networks.dropped("g3", "--in-interface", "eth0", "--source", source, "--protocol", "tcp", "--jump", verdict):
        yield


@pytest.mark.slow
def test_a_firewall_between_two_workers_that_refuses(networks, tmp_path):
    with divided(networks, "REJECT --reject-with tcp-reset"):
        played = networks.benchmark(tmp_path, nccl_benchmark_silence_timeout=10, preflight_timeout=2)
    assert played.returncode == 2
    problems = result_of(tmp_path)["problems"]
    assert found(problems) == [("mpi-connect-failed", "g2", "error"), ("control-link", "g2", "error")]
    assert f"cannot connect to {networks.nodes.addresses['g3']}:" in problems[0]["cause"]


@pytest.mark.slow
def test_a_firewall_between_two_workers_that_drops_on_the_only_network(networks, tmp_path):
    """Nothing is printed, and no connection fails in time; the look after it tries the links between workers."""
    with divided(networks, "DROP"):
        played = networks.benchmark(
            tmp_path, gpufabric_data_interface="eth0", nccl_benchmark_silence_timeout=10, preflight_timeout=2
        )
    assert played.returncode == 2
    problems = result_of(tmp_path)["problems"]
    assert found(problems) == [("data-link", "g2", "error")]
    assert "g3" in problems[0]["cause"] and "eth0" in problems[0]["cause"]
