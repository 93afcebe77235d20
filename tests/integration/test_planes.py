# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which network carries what: bytes counted on both interfaces of each node, and networks that lead nowhere."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import subprocess
import typing as t

import pytest
from conftest import Nodes, slow

MEBIBYTE = 2**20
#: Each rank but the first sends so much by MPI, and prints so much, which the daemons carry.
SENT, PRINTED = 4 * MEBIBYTE, 2 * MEBIBYTE
#: More than neighbours ask of each other unbidden, less than any daemon says.
SILENCE = 4096

TALK = f"""\
import os, sys
from mpi4py import MPI
world = MPI.COMM_WORLD
data = bytearray({SENT})
if world.rank:
    world.Send([data, MPI.BYTE], dest=0)
    sys.stdout.write("x" * {PRINTED})
else:
    for rank in range(1, world.size):
        world.Recv([data, MPI.BYTE], source=rank)
names = world.gather(os.environ["NCCL_SOCKET_IFNAME"].lstrip("="))
if names:
    print(names)
"""


@dataclasses.dataclass
class Planes:
    """Nodes that reach each other by ssh on each of their networks, with a run for each, named as its interface."""

    nodes: Nodes
    subnets: dict[str, str]

    def run(self, mpi: dict[str, t.Any], control: str, argv: list[str], **options: t.Any) -> dict[str, t.Any]:
        """The result of ``mpi_run`` on the first node; ``control``: the interface on whose subnet Open MPI talks."""
        given = {
            "run_id": control,
            "points": [{"argv": argv}],
            "control_interface": self.subnets[control],
            "mpi_prefix": mpi["prefix"],
            "timeout": 60,
        }
        return self.nodes.module("mpi_run", {**given, **options})

    def sent(self) -> dict[str, dict[str, int]]:
        """Bytes that each node has sent on each interface."""
        files = "/sys/class/net/{eth0,net1}/statistics/tx_bytes"
        return {
            node: dict(zip(self.subnets, map(int, self.nodes.shell(node, f"cat {files}").stdout.split())))
            for node in self.nodes.names
        }

    def filter(self, *rule: str) -> None:
        """Have iptables do so in the network of each node, where the nodes themselves have no right to."""
        for node in self.nodes.names:
            name = f"gpufabric-{self.nodes.run_id}-{node}"
            inspect = ["podman", "inspect", "--format", "{{.State.Pid}}", name]
            pid = subprocess.run(inspect, capture_output=True, text=True, check=True).stdout.strip()
            subprocess.run(["nsenter", f"--net=/proc/{pid}/ns/net", "iptables", "--wait", *rule], check=True)

    def left(self, run_id: str) -> dict[str, str]:
        """The processes of a run's points, but for the private sshd, by node."""
        look = f"grep -lz GPUFABRIC_POINT={run_id} /proc/[0-9]*/environ"
        found = {node: self.nodes.shell(node, look, check=False).stdout for node in self.nodes.names}
        return {node: text for node, text in found.items() if text}


@pytest.fixture(scope="module")
def planes(make_nodes: t.Callable[[int], Nodes]) -> Planes:
    nodes = make_nodes(3)
    subnets = {}
    for interface in ("eth0", "net1"):
        show = f"ip -json -4 address show {interface}"
        addresses = [json.loads(nodes.shell(node, show).stdout)[0]["addr_info"][0] for node in nodes.names]
        first = addresses[0]
        subnets[interface] = str(ipaddress.ip_interface(f"{first['local']}/{first['prefixlen']}").network)
        hosts = [{"name": name, "address": one["local"]} for name, one in zip(nodes.names, addresses)]
        hostfile = {"gpufabric.nccl.mpi_hostfile": {"run_id": interface, "hosts": hosts}, "run_once": True}
        mesh = {
            "hosts": "workers",
            "gather_facts": False,
            "roles": ["gpufabric.nccl.key_exchange"],
            "tasks": [hostfile],
        }
        played = nodes.playbook([mesh], gpufabric_run_id=interface, gpufabric_control_interface=interface)
        assert played.returncode == 0, played.output
    return Planes(nodes, subnets)


@pytest.fixture(scope="module", params=[slow("4.1"), "5.0"])
def mpi(request: pytest.FixtureRequest) -> dict[str, t.Any]:
    """An Open MPI, and a Python with mpi4py for it."""
    if request.param == "4.1":
        return {"prefix": None, "python": "/usr/bin/python3"}
    openmpi5 = request.getfixturevalue("openmpi5")
    return {"prefix": openmpi5["gpufabric_mpi_prefix"], "python": openmpi5["ansible_python_interpreter"]}


@pytest.fixture
def deaf(planes: Planes) -> t.Iterator[Planes]:
    """The nodes, whose data network swallows all that is sent on it."""
    try:
        planes.filter("--append", "INPUT", "--in-interface", "net1", "--jump", "DROP")
        yield planes
    finally:
        planes.filter("--flush", "INPUT")


def talk(planes: Planes, mpi: dict[str, t.Any], control: str, other: str) -> None:
    """Daemons and ranks talk on one network, and on the other not at all."""
    before = planes.sent()
    # Of the workers, Ansible calls on none but the first meanwhile.
    result = planes.run(mpi, control, [mpi["python"], "-c", TALK], data_interface=other)
    after = planes.sent()
    assert result["complete"], result["msg"]
    # Open MPI 4 mixes what ranks print at the same time.
    output = planes.nodes.shell("g1", f"zcat --force {result['points'][0]['stdout_path']}").stdout
    assert output.count("x") == 2 * PRINTED and str([other] * 3) in output
    for node in planes.nodes.names[1:]:
        sent = {interface: after[node][interface] - before[node][interface] for interface in planes.subnets}
        assert SENT + PRINTED < sent[control] < 1.5 * (SENT + PRINTED), (node, sent)
        assert sent[other] < SILENCE, (node, sent)


@pytest.mark.slow
def test_another_network_may_lead_nowhere(deaf, mpi):
    talk(deaf, mpi, control="eth0", other="net1")


@pytest.mark.slow
def test_the_control_network_may_be_the_second(planes, mpi):
    talk(planes, mpi, control="net1", other="eth0")


@pytest.mark.slow
def test_a_control_network_that_leads_nowhere_ends_in_time(deaf, mpi):
    # ssh is not let through. It fails by itself, and sooner than TCP gives up.
    patience = "sed -i 's/ConnectTimeout {}$/ConnectTimeout {}/' /run/gpufabric/net1/ssh/config"
    deaf.nodes.shell("g1", patience.format(10, 3))
    try:
        refused = deaf.run(mpi, "net1", ["true"])
    finally:
        deaf.nodes.shell("g1", patience.format(3, 10))
    (point,) = refused["points"]
    assert refused["failed"] and point["status"] == "failed", refused
    subnet = ipaddress.ip_network(deaf.subnets["net1"])
    assert any(f" {subnet[number]} " in refused["msg"] for number in (12, 13)), refused["msg"]
    # ssh is, but the daemons wait for an answer that never comes.
    for node in deaf.nodes.names:
        port = deaf.nodes.shell(node, "awk '/^Port / {print $2}' /run/gpufabric/net1/sshd/sshd_config").stdout.strip()
        for side in ("--dport", "--sport"):
            deaf.filter("--insert", "INPUT", "--protocol", "tcp", side, port, "--jump", "ACCEPT")
    silent = deaf.run(mpi, "net1", ["true"], timeout=5)
    (point,) = silent["points"]
    assert silent["failed"] and point["status"] == "timeout" and point["duration"] < 60, silent
    assert deaf.left("net1") == {}
