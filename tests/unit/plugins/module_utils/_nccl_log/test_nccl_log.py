# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is read of NCCL's own log. Each line has its source: a file of NCCL's or RCCL's source, or "real log" for its form."""

from __future__ import annotations

import json
import os
import pathlib
import random

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log import reader as reader_module
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.reader import LogReader, read_log
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.summary import (
    checked_transport,
    describe_differences,
    describe_transport,
    software_of,
    transport_of,
)

CORPUS = pathlib.Path(os.environ.get("GPUFABRIC_CORPUS", "") or "-")

#: A line, the fact that it tells, and where the line is from.
LINES = [
    ("Using network IB", {"network": {"IB": 1}}, "real log of 2.16.5; src/init.cc, 2.6 to 2.31"),
    ("Using network AWS Libfabric", {"network": {"AWS Libfabric": 1}}, "real log of 2.22.3 with aws-ofi-nccl 1.9.2"),
    (
        "Using network IBext_v8",
        {"network": {"IBext_v8": 1}},
        "real log with the plugin of HPC-X; src/init.cc, 2.6 to 2.31",
    ),
    (
        "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.1.2.3<0>",
        {"listed_layer": {"IB": 1, "RoCE": 1}, "bootstrap": {"eth0": 1}},
        "real log of 2.26.5; src/transport/net_ib.cc, 2.4 to 2.28",
    ),
    (
        "NET/IB : Using [0]mlx5_0:1/IB ; OOB eth0:10.1.2.3<0>",
        {"listed_layer": {"IB": 1}, "bootstrap": {"eth0": 1}},
        "src/transport/net_ib.cc, 2.4 to 2.32, without relaxed ordering",
    ),
    (
        "NET/IB : Using [0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE} [2]mlx5_2:1/RoCE [RO]; OOB eth0:10.1.2.3<0>",
        {"listed_layer": {"RoCE": 3}, "bootstrap": {"eth0": 1}},
        "src/transport/net_ib.cc, 2.20 to 2.23",
    ),
    (
        "NET/IB : Using [0]mlx5_0:1:3/IB [1]mlx5_1:1::2/IB [2]mlx5_2:1:3:2/IB [RO]; OOB eth0:10.1.2.3<0>",
        {"listed_layer": {"IB": 3}, "bootstrap": {"eth0": 1}},
        "src/transport/net_ib/init.cc, 2.30, with rail and plane",
    ),
    (
        "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",
        {"gdr_device": {"no": 1}},
        "real log of 2.26.5; src/graph/topo.cc, 2.13 to 2.31",
    ),
    (
        "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0' (no module)",
        {"gdr_device": {"no": 1}},
        "src/transport/net_ib.cc, 2.6 to 2.12",
    ),
    (
        "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
        {"gdr_device": {"yes": 1}},
        "real log of 2.16.5; src/graph/topo.cc, 2.13 to 2.31",
    ),
    (
        "NET/IB : mlx5_3:1 speed change detected: 400000 -> 200000 Mbps",
        {"speed": {"mlx5_3:1 from 400000 to 200000 Mb/s": 1}},
        "src/transport/net_ib/common.cc, 2.30 and 2.31",
    ),
    (
        "NET/IB : mlx5_3:1 speed change detected: 400000 -> N/A Mbps",
        {"speed": {"mlx5_3:1 from 400000 to N/A Mb/s": 1}},
        "src/transport/net_ib/common.cc, 2.30 and 2.31",
    ),
    (
        "NET/Socket : Using [0]eth0:10.1.2.3<0> [1]eth1:10.1.3.3<0>",
        {"socket": {"eth0": 1, "eth1": 1}},
        "real log of 2.4.6; src/transport/net_socket.cc, 2.4 to 2.31",
    ),
    ("NET/Socket: Using 0 threads and 1 sockets per thread", {}, "src/transport/net_socket.cc, 2.4 to 2.30"),
    ("Bootstrap : Using [0]eth0:10.1.2.3<0>", {"bootstrap": {"eth0": 1}}, "real log, 2.6"),
    ("Bootstrap : Using eth0:10.1.2.3<0>", {"bootstrap": {"eth0": 1}}, "real log, 2.22"),
    ("Bootstrap: Using eth0:10.1.2.3<0>", {"bootstrap": {"eth0": 1}}, "real log, 2.26"),
    ("Bootstrap: Using N/A:-1", {}, "src/bootstrap.cc, 2.24 to 2.30"),
    (
        "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/AWS Libfabric/4/GDRDMA",
        {"way": {"NET": 1}, "carrier": {"AWS Libfabric": 1}, "gdr": {"yes": 1}, "used": {"AWS Libfabric/4": 1}},
        "real log, 2.22",
    ),
    (
        "Channel 01/1 : 1[81000] -> 0[81000] [receive] via NET/IB/1/GDRDMA/Shared",
        {"way": {"NET": 1}, "carrier": {"IB": 1}, "gdr": {"yes": 1}, "unnamed": {"IB": 1}},
        "real log of gather_perf; src/transport/net.cc, 2.12 to 2.31",
    ),
    (
        "Channel 01/1 : 1[3] -> 0[2] [send] via NET/IB/1(4)/GDRDMA(PCI)/Shared",
        {"way": {"NET": 1}, "carrier": {"IB": 1}, "gdr": {"yes": 1}, "unnamed": {"IB": 1}},
        "src/transport/net.cc, 2.26 to 2.30",
    ),
    (
        "Ring 00 : 3 -> 8 [receive] via NET/AWS Libfabric/0",
        {"way": {"NET": 1}, "carrier": {"AWS Libfabric": 1}, "gdr": {"no": 1}, "used": {"AWS Libfabric/0": 1}},
        "real log, 2.4",
    ),
    (
        "Channel 00/0 : 0[c000] -> 1[22000] [send] via NET/Socket/0 comm 0x5581 nRanks 16",
        {"way": {"NET": 1}, "carrier": {"Socket": 1}, "gdr": {"no": 1}, "unnamed": {"Socket": 1}},
        "src/transport/net.cc of RCCL 2.21",
    ),
    (
        "Channel 00/0 : 1[1] -> 2[2] via P2P/CUMEM",
        {"way": {"P2P": 1}},
        "real log of 2.22.3; src/transport/p2p.cc, 2.18 to 2.31",
    ),
    ("Channel 00/0 : 1[1] -> 2[2] via P2P/CUMEM/read", {"way": {"P2P": 1}}, "src/transport/p2p.cc, 2.18 to 2.30"),
    ("Ring 00 : 1[1] -> 2[2] via P2P/IPC", {"way": {"P2P": 1}}, "real log of 2.4.6 and 2.6.4"),
    ("Channel 00/0 : 1[1] -> 2[2] via P2P/indirect/3[3]", {"way": {"P2P": 1}}, "src/transport/p2p.cc, 2.12 to 2.30"),
    ("Channel 00 : 1[1] -> 2[2] via SHM/direct/direct", {"way": {"SHM": 1}}, "src/transport/shm.cc, 2.12 to 2.28"),
    (
        "CollNet 00/1 : 3 [send] via COLLNET/SHARP/0/GDRDMA",
        {"way": {"COLLNET": 1}},
        "src/transport/coll_net.cc, 2.12 to 2.30",
    ),
    (
        "NVLS multicast support is available on dev 0",
        {"multicast": {"yes": 1}},
        "real log of 2.22.3; src/transport/nvls.cc, 2.17 to 2.26 and 2.30",
    ),
    (
        "NVLS multicast support is not available on dev 0 (NVLS_NCHANNELS 0)",
        {"multicast": {"no": 1}},
        "src/transport/nvls.cc, 2.27 to 2.29",
    ),
    ("MNNVL 1 cliqueId 7fd cliqueSize 8 cliqueRank 3 ", {"mnnvl": {"yes": 1}}, "src/mnnvl.cc, 2.21 to 2.29"),
    ("MNNVL 1 cliqueId 7fd cliqueSize 8 cliqueRank 3 nvlDomainSize 8", {"mnnvl": {"yes": 1}}, "src/mnnvl.cc, 2.30"),
    ("MNNVL busId 0x1b0 fabric UUID 0.0 cliqueId 0x0 state 3 healthMask 0x0", {}, "src/init.cc, 2.20 to 2.30"),
    (
        "comm 0x5581 rank 3 nRanks 16 nNodes 2 localRanks 8 localRank 3 MNNVL 0",
        {"nodes": {"2": 1}, "mnnvl": {"no": 1}},
        "real log of 2.22.3 and 2.26.5; src/init.cc, 2.20 to 2.32",
    ),
    ("2 coll channels, 2 p2p channels, 2 p2p channels per peer", {"channels": {"2": 1}}, "src/init.cc, 2.7 to 2.16"),
    (
        "24 coll channels, 16 nvls channels, 32 p2p channels, 32 p2p channels per peer",
        {"channels": {"24": 1}, "nvls": {"yes": 1}},
        "real log of an H100 on EFA; src/init.cc, 2.17 to 2.19",
    ),
    (
        "16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer",
        {"channels": {"16": 1}, "nvls": {"no": 1}},
        "real log of 2.22.3 and 2.26.5; src/init.cc, 2.20 to 2.31",
    ),
    (
        "NCCL version 2.22.3+cuda12.2",
        {"library": {"NCCL": 1}, "nccl": {"2.22.3": 1}, "cuda": {"12.2": 1}},
        "real log of that version",
    ),
    (
        "RCCL version : 2.21.5-HEAD:9a0e6a1",
        {"library": {"RCCL": 1}, "nccl": {"2.21.5": 1}},
        "real log of that version; src/init.cc of RCCL 2.21 to 2.30",
    ),
    (
        "RCCL version 2.18.6+hip6.0 HEAD:abc",
        {"library": {"RCCL": 1}, "nccl": {"2.18.6": 1}},
        "src/init.cc of RCCL 2.18",
    ),
    ("cudaDriverVersion 12020", {"driver_cuda": {"12.2": 1}}, "real log of 2.22.3; src/misc/cudawrap.cc, 2.13 to 2.31"),
    (
        "NET/OFI Initializing aws-ofi-nccl 1.9.2-aws",
        {"plugin_version": {"aws-ofi-nccl 1.9.2-aws": 1}},
        "real log of that version",
    ),
    (
        "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/4/GDRDMA(PCI)/Shared/flush=gdrcopy",
        {"way": {"NET": 1}, "carrier": {"IB": 1}, "gdr": {"yes": 1}, "unnamed": {"IB": 1}},
        "format in libnccl.so of 2.32.3, the word after flush= is made up",
    ),
    (
        "NVLS multicast support is available on dev 3, transport x, symmetric multimem y",
        {"multicast": {"yes": 1}},
        "format in libnccl.so of 2.32.3, the words are made up",
    ),
    # What looks alike and proves nothing.
    ("Using non-device net plugin version 0", {}, "real log; src/net.cc, 2.19"),
    ("NET/Plugin: No plugin found (libnccl-net.so), using internal implementation", {}, "real log of 2.16.5"),
    ("Connected NVLS tree", {}, "real log of 2.22.3; src/transport/nvls.cc, 2.27"),
    ("Using network ", {}, "cut"),
    ("Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB", {}, "cut"),
    ("Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/1/GDR", {}, "cut"),
    ("16 coll channels, 16 collnet channels, 16 nvls ch", {}, "cut"),
    ("cudaDriverVersion 12", {}, "cut"),
    ("cudaDriverVersion " + 50 * "9", {}, "hostile"),
    ("Using network <script>alert(1)</script>", {}, "hostile"),
    ("Channel 00/0 : 8[0] -> 0[0] [send] via NET/{{ lookup('pipe', 'id') }}/0", {}, "hostile"),
]


def facts_of(*messages, host="g1"):
    found = LogReader()
    found.feed([f"{host}:4711:4712 [0] NCCL INFO {message}" for message in messages])
    return found.facts


def run_of(host="g1", network="IB", ports=8, channels=16, gdr=True):
    """The log of one process as NCCL 2.22 writes it."""
    listed = " ".join(f"[{number}]mlx5_{number}:1/IB" for number in range(ports))
    lines = ["cudaDriverVersion 12020", "NCCL version 2.22.3+cuda12.2"]
    if network == "IB":
        lines.append(f"NET/IB : Using {listed} [RO]; OOB eth0:10.0.0.1<0>")
    else:
        lines += ["NET/IB : No device found.", "NET/Socket : Using [0]eth1:10.0.0.1<0>"]
    lines.append(f"Using network {network}")
    for number in range(ports if network == "IB" else 1):
        lines.append(f"Channel 00/0 : 8[0] -> 0[0] [receive] via NET/{network}/{number}{'/GDRDMA' * gdr}")
    lines.append(
        f"{channels} coll channels, 0 collnet channels, 16 nvls channels, 16 p2p channels, 2 p2p channels per peer"
    )
    return [f"{host}:4711:4712 [0] NCCL INFO {line}" for line in lines]


def fleet_of(*runs):
    found = LogReader()
    for run in runs:
        found.feed(run)
    return found.facts


@pytest.mark.parametrize(("line", "facts", "source"), LINES)
def test_lines(line, facts, source):
    assert facts_of(line).get("g1", {}) == facts, source


@pytest.mark.parametrize(("line", "facts", "source"), LINES)
def test_lines_of_a_file(line, facts, source, tmp_path):
    (tmp_path / "log").write_text(
        f"g1:4711:4712 [0] NCCL INFO {line}\ng1:4711:4799 [0] NCCL INFO Launch mode Parallel\n"
    )
    assert read_log(str(tmp_path / "log")).facts.get("g1", {}) == facts, source


def test_healthy_run():
    transport = transport_of(fleet_of(run_of("g1"), run_of("g2")))
    ports = [f"mlx5_{number}:1" for number in range(8)]
    assert transport == {
        "network": "IB", "plugin": None, "gdr": True, "mixed": False, "nics": {"g1": ports, "g2": ports}, "channels": 16,
        "nvls": True, "mnnvl": None, "socket_interface": "eth0",
        "connections": {"P2P": 0, "SHM": 0, "NET": 16, "COLLNET": 0}, "differences": [], "source": "nccl-debug",
    }  # fmt: skip
    assert describe_transport(transport) == "IB, GDR, 8 NICs a host, 16 channels, NVLS"
    assert checked_transport(json.loads(json.dumps(transport))) == transport


def test_sockets():
    transport = transport_of(fleet_of(run_of("g1", "Socket", gdr=False), run_of("g2", "Socket", gdr=False)))
    assert transport["network"] == "Socket"
    assert transport["nics"] == {"g1": ["eth1"], "g2": ["eth1"]}
    assert describe_transport(transport) == "Socket, no GDR, eth1, 16 channels, NVLS"


def test_odd_ones_are_named():
    runs = [run_of(f"g{number}") for number in range(1, 5)]
    facts = fleet_of(*runs, run_of("bad-nic", ports=7), run_of("bad-net", "Socket", gdr=False))
    transport = transport_of(facts)
    assert transport["mixed"] and transport["network"] is None and transport["gdr"] is False
    found = {(entry["fact"], entry["host"], entry["value"], entry["others"]) for entry in transport["differences"]}
    assert found == {
        ("network", "bad-net", "Socket", "IB"),
        ("gdr", "bad-net", False, True),
        ("nics", "bad-net", 1, 8),
        ("nics", "bad-nic", 7, 8),
    }
    assert "bad-nic: NICs 7, others 8" in describe_differences(transport["differences"])
    assert describe_transport(transport).endswith("not the same everywhere")


def test_a_host_of_several_minds():
    transport = transport_of(fleet_of(run_of("g1"), run_of("g1", channels=8)))
    assert (transport["channels"], transport["mixed"]) == (None, True)


def test_software_that_differs():
    other = [line.replace("2.22.3", "2.20.5").replace("12020", "12060") for line in run_of("g3")]
    software = software_of(fleet_of(run_of("g1"), run_of("g2"), other))
    assert (software["nccl"], software["driver_cuda"], software["cuda"]) == (None, None, "12.2")
    assert {(entry["fact"], entry["host"], entry["value"]) for entry in software["differences"]} == {
        ("nccl", "g3", "2.20.5"),
        ("driver_cuda", "g3", "12.6"),
    }


def test_merged_ports():
    # 2.20 to 2.23: the single port is the second device, whatever number stands before it.
    old = facts_of(
        "NET/IB : Using [0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE} [2]mlx5_2:1/RoCE [RO]; OOB eth0:10.1.2.3<0>",
        "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/1",
    )
    assert old["g1"]["used"] == {"mlx5_2:1": 1}
    # Since 2.24 (a real log has the first two lines in this order).
    new = facts_of(
        "NET/IB : Made virtual device [0] name=mlx5_0 speed=25000 ndevs=1",
        "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.1.2.3<0>",
        "NET/IB : Made virtual device [2] name=mlx5_0+mlx5_1 speed=50000 ndevs=2",
        "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/2",
    )
    assert new["g1"]["used"] == {"mlx5_0:1": 1, "mlx5_1:1": 1}
    assert transport_of(new)["network"] == "RoCE"


def test_each_process_has_its_own_numbers():
    found = LogReader()
    for pid in (1, 2):
        found.feed(
            [
                f"g1:{pid}:{pid} [0] NCCL INFO NET/IB : Using [0]mlx5_{pid}:1/IB [RO]; OOB eth0:10.1.2.3<0>",
                f"g1:{pid}:{pid} [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0",
            ]
        )
    assert transport_of(found.facts)["nics"] == {"g1": ["mlx5_1:1", "mlx5_2:1"]}


def test_plugin_for_verbs():
    facts = fleet_of(
        [line.replace("network IB", "network IBext_v8").replace("NET/IB/", "NET/IBext_v8/") for line in run_of()]
    )
    transport = transport_of(facts)
    assert (transport["network"], transport["plugin"], len(transport["nics"]["g1"])) == ("IB", "IBext_v8", 8)
    assert describe_transport(transport).startswith("IB by IBext_v8, GDR, 8 NICs a host")


def test_capability_is_no_proof():
    assert transport_of(facts_of("NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'"))["gdr"] is None
    assert transport_of(facts_of("NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'"))["gdr"] is False


def test_cut_list_of_ports():
    facts = facts_of(
        "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_11:1/I",
        "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0",
        "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/1",
    )
    assert transport_of(facts)["nics"] == {"g1": None}


def test_one_host():
    transport = transport_of(facts_of("Using network IB", "Channel 00/0 : 1[1] -> 2[2] via P2P/CUMEM"))
    assert transport["nics"] == {"g1": []}
    assert describe_transport(transport) == "no network connections"


@pytest.mark.parametrize("label", ["", "[1,3]<stdout>:", "12: ", "[2026-07-20 04:24:08] ", "\x1b[32m(Worker pid=3) "])
def test_labels_before_a_line(label):
    found = LogReader()
    found.feed([label + line for line in run_of("g-1.example")])
    assert transport_of(found.facts) == transport_of(fleet_of(run_of("g-1.example")))


def test_lines_that_ran_into_one_another():
    found = LogReader()
    found.feed(
        [
            "g1:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPCg2:2:2 [1] NCCL INFO Channel 00 : 1 -> 0 via SHM/x/y"
        ]
    )
    assert found.facts == {}


def test_interleaved_ranks():
    lines = run_of("g1") + run_of("g2")
    whole = transport_of(fleet_of(lines))
    mixed = [line for pair in zip(run_of("g1"), run_of("g2")) for line in pair]
    assert transport_of(fleet_of(mixed)) == whole


def test_nothing_is_nothing():
    assert transport_of({}) is None and software_of({}) is None
    assert describe_transport(transport_of(facts_of("cudaDriverVersion 12020"))) == ""


def test_any_cut_or_change_is_read_without_a_fault(tmp_path):
    rng = random.Random(16)
    text = "\n".join(f"g1:4711:4712 [0] NCCL INFO {line}" for line, _facts, _source in LINES)
    for number in range(200):
        begin, end = sorted(rng.randrange(len(text)) for _side in "ab")
        broken = list(text[begin:end])
        for _change in range(rng.randrange(6)):
            if broken:
                broken[rng.randrange(len(broken))] = rng.choice("\n\0é[]:/{ 9")
        path = tmp_path / str(number)
        path.write_text("".join(broken), encoding="utf-8")
        for facts in (fleet_of("".join(broken).split("\n")), read_log(str(path)).facts):
            transport = transport_of(facts)
            assert json.dumps(transport) and json.dumps(software_of(facts))
            if transport:
                assert checked_transport(transport) == transport
                describe_transport(transport)


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(reader_module, "MOST_HOSTS", 10)
    monkeypatch.setattr(reader_module, "MOST_PROCESSES", 10)
    monkeypatch.setattr(reader_module, "MOST_VALUES", 10)
    found = LogReader()
    for number in range(100):
        found.feed(run_of(f"g{number}"))
        found.feed([f"g1:1:1 [0] NCCL INFO Channel 00/0 : 0 -> 1 via NET/AWS Libfabric/{number}"])
    assert len(found.facts) == 10 and len(found._processes) <= 10 and len(found._known) <= 10
    assert all(len(values) <= 10 for facts in found.facts.values() for values in facts.values())


def test_ports_that_are_listed_again_are_kept_once():
    found = LogReader()
    line = "g1:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>"
    found.feed([line] * 100)
    process = next(iter(found._processes.values()))
    assert process.listed == {0: ["mlx5_0:1"], 1: ["mlx5_1:1"]}


def test_a_file_without_line_ends(tmp_path):
    (tmp_path / "log").write_bytes(b"g1:1:1 [0] NCCL INFO Using network IB" * 100000)
    assert read_log(str(tmp_path / "log")).facts == {}


def test_a_file_is_read_alike_by_any_block(tmp_path, monkeypatch):
    warning = ["", "[2026-07-20 04:24:08] g1:4711:4712 [0] socket.cc:1 NCCL WARN x"]
    (tmp_path / "log").write_text("\n".join([*run_of(), *warning, *run_of("g2")]) + "\n")
    whole = read_log(str(tmp_path / "log"))
    assert whole.facts == fleet_of(run_of(), run_of("g2"))
    for size in (50, 200, 1000):
        monkeypatch.setattr(reader_module, "BLOCK", size)
        assert read_log(str(tmp_path / "log")) == whole


@pytest.mark.parametrize("value", ["IB", {}, {"network": 3}, {**transport_of({"g1": {}}), "nics": {"g1": 8}}])
def test_a_transport_that_is_none_is_refused(value):
    with pytest.raises(GpufabricError, match="the transport of an item"):
        checked_transport(value)


#: By the number of the file: what its log proves, and the end of a line that does.
REAL = {
    "007": ("AWS Libfabric, no GDR, 1 NIC a host", "via NET/AWS Libfabric/0"),
    "009": ("AWS Libfabric, no GDR, 4 NICs a host", "via NET/AWS Libfabric/3"),
    "011": ("AWS Libfabric, GDR, 8 NICs a host, 16 channels, NVLS", "/GDRDMA"),
    "013": ("no network connections, 64 channels", "nNodes 1 localRanks 1 localRank 0 MNNVL 0"),
    "015": ("RoCE, no GDR, 1 NIC a host", "via NET/IB/1"),
    "027": ("no network connections, 4 channels", "via P2P/IPC"),
    "029": ("IB, GDR, 1 NIC a host, 2 channels", "via NET/IB/0/GDRDMA"),
    "057": ("24 channels, NVLS", "24 coll channels, 16 nvls channels, 32 p2p channels, 32 p2p channels per peer"),
    "075": ("IB, GDR", "via NET/IB/1/GDRDMA/Shared"),
}


@pytest.mark.skipif(not CORPUS.is_dir(), reason="GPUFABRIC_CORPUS names no folder")
@pytest.mark.parametrize("number", REAL)
def test_real_logs(number):
    (path,) = CORPUS.glob(f"nccl/{number}-*")
    text = path.read_text(errors="replace")
    described, proof = REAL[number]
    assert any(line.rstrip().endswith(proof) for line in text.splitlines())
    assert describe_transport(transport_of(fleet_of(text.splitlines()))) == described
    assert transport_of(read_log(str(path)).facts) == transport_of(fleet_of(text.split("\n")))


@pytest.mark.skipif(not CORPUS.is_dir(), reason="GPUFABRIC_CORPUS names no folder")
def test_no_other_log_proves_anything():
    for path in CORPUS.glob("nccl/*"):
        transport = transport_of(read_log(str(path)).facts)
        assert path.name[:3] in REAL or transport is None, path.name


@pytest.mark.parametrize("words", [["mlx5_\u00b2"], ["mlx5_" + "9" * 5000], ["mlx5_10:1", "mlx5_2:1"]])
def test_ports_with_any_names_have_an_order(words):
    fleet = {"g1": {"way": {"NET": 1}, "used": dict.fromkeys(words, 1)}}
    assert transport_of(fleet)["nics"] == {"g1": words[::-1]}


def test_an_interface_that_is_no_name_is_not_kept():
    reader = LogReader()
    reader.feed(["g1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB ; OOB <b>:10.0.0.1<0>"])
    assert reader.facts == {"g1": {"listed_layer": {"IB": 1}}}
