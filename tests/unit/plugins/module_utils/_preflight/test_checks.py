# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ast
import copy
import dataclasses
import pathlib
import re

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._connect import Attempt
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight import checks
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.checks import (
    Expected,
    Seen,
    Settings,
    check_addresses,
    check_links,
    check_names,
    check_rdma,
    findings_of,
    names_port,
    said_by_ssh,
    unresolved,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.probe_full import CONTROL

MIB = 1 << 20
SETTINGS = Settings("g1", "/usr", "orted", "/run/x", full=True, control="eth0", data_interface="net1")
PORT = {"device": "mlx5_0", "port": 1, "state": "ACTIVE", "link_layer": "Ethernet", "gids": [0, 3]}
DAEMON = {
    "path": "/usr/bin/orted",
    "exists": True,
    "executable": True,
    "missing": [],
    "runtime": "libopen-rte.so.40.30.2",
    "version": "4.1.4",
}
PROGRAM = {
    "path": "/opt/p",
    "exists": True,
    "executable": True,
    "missing": [],
    "sha256": "a",
    "mpi": "/usr/lib/libmpi.so.40",
    "nccl": "/usr/lib/libnccl.so.2.20.5",
}
FACTS = {
    "hostname": "node-2",
    "shell": "/bin/bash",
    "environment": {"LD_LIBRARY_PATH": True},
    "python_home": None,
    "daemon": DAEMON,
    "program": PROGRAM,
    "interfaces": {
        "eth0": {"mtu": 1500, "addresses": ["10.0.0.2/24"]},
        "net1": {"mtu": 9000, "addresses": ["192.168.0.2/24"]},
        "lo": {"mtu": 65536, "addresses": ["127.0.0.1/8"]},
    },
    "callback": {
        "address": "10.0.0.1",
        "port": 5,
        "status": "ok",
        "text": "",
        "by": None,
        "source": "10.0.0.2",
        "seconds": 0.01,
        "offset": 0.1,
    },
    "data": {"net1": {"address": "192.168.0.2", "port": 6}},
    "gpus": {"count": 2, "error": None},
    "shm": {"path": "/dev/shm", "size": 1024 * MIB, "free": 1000 * MIB, "read_only": False},
    "memlock": None,
    "open_files": 4096,
    "address_space": None,
    "processes": None,
    "disks": [{"path": "/run", "size": 1024 * MIB, "free": 1000 * MIB, "error": None}],
    "rdma": [PORT],
    "rdma_env": {"NCCL_IB_HCA": "", "NCCL_IB_GID_INDEX": ""},
}


def changed(path, value):
    """The facts of a healthy host with one of them changed, by its keys."""
    facts = copy.deepcopy(FACTS)
    *keys, last = path
    inner = facts
    for key in keys:
        inner = inner[key]
    inner[last] = value
    return facts


def seen_with(facts):
    return Seen("g2", "10.0.0.2", answered=True, facts=facts, reference=FACTS)


def ids(facts, settings=SETTINGS):
    return [(finding.stage, finding.problem.id) for finding in findings_of(seen_with(facts), settings)]


def test_nothing_is_said_of_a_healthy_host():
    assert ids(FACTS) == []


def test_a_host_may_call_its_networks_otherwise():
    facts = copy.deepcopy(FACTS)
    facts["interfaces"] = {"eno1": facts["interfaces"]["eth0"], "ib0": facts["interfaces"]["net1"]}
    facts["data"] = {"ib0": facts["data"]["net1"]}
    one = dataclasses.replace(seen_with(facts), control="eno1", data="ib0")
    assert findings_of(one, SETTINGS) == []
    wrong = {item.problem.id: item.problem.cause for item in findings_of(seen_with(facts), SETTINGS)}
    assert sorted(wrong) == ["control-interface-missing", "data-interface-missing"]
    own = {item.problem.id: item.problem.cause for item in findings_of(dataclasses.replace(one, data="ib1"), SETTINGS)}
    assert list(own) == ["data-interface-missing"] and "ib1" in own["data-interface-missing"]
    # One that has no such network is in no check of it.
    assert findings_of(dataclasses.replace(one, control="", data=""), SETTINGS) == []


@pytest.mark.parametrize("control", ["eth0", "10.0.0.0/24", "10.0.0.2/32", None])
def test_several_addresses_of_the_control_interface_keep_ranks_of_open_mpi_4_apart(control):
    """Seen with 4.1.4 and 4.1.8, in whatever order the addresses are; 5.0.11 runs."""
    facts = changed(("interfaces", "eth0", "addresses"), ["10.0.0.112/24", "10.0.0.2/24", "fd00::2/64"])
    four = dataclasses.replace(SETTINGS, control=control)
    (finding,) = findings_of(seen_with(facts), four)
    assert finding.problem.id == "control-addresses" and "10.0.0.112, 10.0.0.2" in finding.problem.cause
    assert findings_of(seen_with(facts), dataclasses.replace(four, daemon="prted")) == []
    # One more of IPv6 does no harm, and neither do those of other interfaces.
    for interface, addresses in (("eth0", ["10.0.0.2/24", "fd00::2/64"]), ("lo", ["127.0.0.1/8", "10.0.0.9/32"])):
        assert findings_of(seen_with(changed(("interfaces", interface, "addresses"), addresses)), four) == []


def test_a_bad_link_is_told_by_the_hosts_own_interface():
    facts = copy.deepcopy(FACTS)
    facts["interfaces"]["ib0"] = facts["interfaces"].pop("net1")
    bad = {"net1": {name: {"status": "large-lost"} for name in ("g1", "g3")}}
    seen = {name: dataclasses.replace(seen_with(FACTS), name=name) for name in ("g1", "g3")}
    seen["g2"] = dataclasses.replace(seen_with(facts), data="ib0", links=bad)
    seen["g1"].facts, seen["g3"].facts = ({**FACTS, "interfaces": {}} for _name in seen if _name != "g2")
    (finding,) = check_links(seen, SETTINGS)["g2"]
    assert finding.problem.id == "data-mtu" and finding.problem.host == "g2"
    assert "ib0" in finding.problem.cause and "9000" in finding.problem.cause


def test_what_leads_the_daemon_to_another_open_mpi_matters_where_mpirun_does_not_say_it():
    facts = changed(("daemon", "misled"), ["OPAL_PREFIX=/opt/hpcx/ompi"])
    assert ids(facts, dataclasses.replace(SETTINGS, gives_prefix=True)) == []
    # Where mpirun runs, the run takes it out itself.
    assert ids(facts, dataclasses.replace(SETTINGS, launcher="g2")) == []


CASES = [
    (("environment", "LD_LIBRARY_PATH"), False, ("environment", "env-not-accepted")),
    (("daemon", "foreign"), True, ("daemon", "daemon-wrong-machine")),
    (("daemon", "misled"), ["OPAL_PREFIX=/opt/hpcx/ompi"], ("daemon", "mpi-prefix-variable")),
    (("daemon", "version"), "4.1.6", ("version", "mpi-version-differs")),
    (("daemon", "runtime"), "libopen-rte.so.40.30.3", ("version", "mpi-version-differs")),
    (("program", "mpi"), None, ("program", "program-without-mpi")),
    (("program", "mpi"), "/opt/libmpi.so.40", ("program", "program-mpi-differs")),
    (("program", "nccl"), "/usr/lib/libnccl.so.2.21.5", ("program", "nccl-version-differs")),
    (("interfaces", "eth0", "addresses"), [], ("control", "control-interface-missing")),
    (("interfaces", "eth0", "addresses"), ["10.0.9.2/24"], ("control", "control-interface-address")),
    (("interfaces", "eth0", "addresses"), ["10.0.0.2/24", "192.168.7.5/24"], ("control", "control-addresses")),
    (("callback", "status"), "refused", ("callback", "callback-refused")),
    (("callback", "status"), "unreachable", ("callback", "callback-unreachable")),
    (("callback", "status"), "not-ours", ("callback", "callback-not-ours")),
    (("callback", "source"), "192.168.0.2", ("callback", "callback-wrong-interface")),
    (("callback", "offset"), -9.0, ("clock", "clock-off")),
    (("python_home",), "/opt/garbage", ("environment", "python-home")),
    (("gpus", "error"), "NVML: version mismatch", ("gpus", "gpu-driver")),
    (("gpus", "count"), 20, ("limits", "shm-small")),
    (("shm", "free"), MIB, ("limits", "shm-full")),
    (("shm",), None, ("limits", "shm-small")),
    (("shm", "read_only"), True, ("limits", "shm-read-only")),
    (("memlock",), 65536, ("limits", "memlock-low")),
    (("processes",), 10, ("limits", "pids-low")),
    (("open_files",), 256, ("limits", "files-low")),
    (("address_space",), 512 * MIB, ("limits", "address-space-low")),
    (("disks", 0, "free"), MIB, ("disk", "disk-full")),
    (("disks", 0, "error"), "Read-only file system", ("disk", "disk-unwritable")),
]


@pytest.mark.parametrize(("path", "value", "expected"), CASES)
def test_what_is_wrong_with_a_host(path, value, expected):
    found = ids(changed(path, value))
    if expected == ("control", "control-interface-address"):
        # It also calls back from the same address.
        assert found.pop() == ("callback", "callback-wrong-interface")
    assert found == [expected]


@pytest.mark.parametrize(
    ("there", "launcher", "expected"),
    [
        ("/usr/bin/zsh", "/bin/bash", []),
        ("/bin/busybox", "/bin/sh", []),
        ("/bin/tcsh", "/bin/csh", []),
        (None, "/bin/bash", []),
        ("/bin/tcsh", "/bin/bash", [("daemon", "login-shell")]),
        ("/bin/bash", "/bin/tcsh", [("daemon", "login-shell")]),
        ("/usr/bin/fish", "/bin/bash", [("daemon", "login-shell")]),
        # Open MPI takes a shell that it does not know for one of bash's kind.
        ("/usr/bin/fish", "/usr/bin/fish", [("daemon", "login-shell")]),
        ("/bin/bash", "/usr/bin/fish", []),
    ],
)
def test_login_shells_that_do_not_read_what_mpirun_writes(there, launcher, expected):
    seen = Seen(
        "g2", "10.0.0.2", answered=True, facts={**FACTS, "shell": there}, reference={**FACTS, "shell": launcher}
    )
    assert [(found.stage, found.problem.id) for found in findings_of(seen, SETTINGS)] == expected
    assert findings_of(dataclasses.replace(seen, name=SETTINGS.launcher), SETTINGS) == []
    # What to type is whole, whether or not the account is known.
    for user, account in ((None, "ACCOUNT"), ("root", "root")):
        for found in findings_of(dataclasses.replace(seen, user=user), SETTINGS):
            assert f"usermod -s /bin/bash {account}." in found.problem.cure


def test_hosts_that_open_mpi_takes_for_one():
    clone = changed(("interfaces", "eth0", "addresses"), ["10.0.0.3/24"])
    other = {**changed(("interfaces", "eth0", "addresses"), ["10.0.0.4/24"]), "hostname": "node-4"}
    seen = {name: Seen(name, facts=facts) for name, facts in (("a", FACTS), ("b", clone), ("c", other), ("d", None))}
    found = {name: [(one.stage, one.problem.id) for one in own] for name, own in check_names(seen).items()}
    assert found == {name: [("daemon", "host-name-shared")] for name in "ab"}
    found = check_names({name: Seen(name, facts=FACTS) for name in "ab"})
    assert [one.problem.id for own in found.values() for one in own] == ["host-twice", "host-twice"]


def test_hosts_with_one_address_are_named_and_no_link_of_that_network():
    hosts = {name: {**FACTS, "hostname": name} for name in ("g1", "g2", "g3")}
    hosts["g1"] = {**changed(("interfaces", "net1", "addresses"), ["192.168.0.9/24"]), "hostname": "g1"}
    refused = {"net1": {name: {"status": "refused"} for name in ("g1", "g2")}}
    seen = {name: Seen(name, facts=facts, links=refused if name == "g3" else {}) for name, facts in hosts.items()}
    settings = dataclasses.replace(SETTINGS, control="10.0.0.0/24")
    found = check_addresses(seen, settings)
    assert {name: [(one.stage, one.problem.id) for one in own] for name, own in found.items()} == {
        name: [("data", "address-shared")] for name in ("g2", "g3")
    }
    assert "192.168.0.2 on net1: g2, g3" in found["g2"][0].problem.cause
    assert check_links(seen, settings) == {}
    seen["g2"].facts = hosts["g3"]
    assert check_addresses(seen, settings) == {}
    assert list(check_links(seen, settings)) == ["g3"]


def test_lost_links_of_all_hosts_are_not_searched_again_for_each():
    class Counted(dict):
        looks = 0

        def __iter__(self):
            Counted.looks += 1
            return super().__iter__()

    names = [f"g{number}" for number in range(300)]
    lost = {
        name: Seen(name, links={"net1": {names[index - 1]: {"status": "timeout"}}}) for index, name in enumerate(names)
    }
    found = check_links(Counted(lost), SETTINGS)
    assert len(found) == 150 and Counted.looks < 10
    assert list(found)[:3] == ["g0", "g2", "g4"]


def test_a_clock_is_off_only_by_more_than_the_answer_took():
    facts = changed(("callback", "offset"), 9.0)
    facts["callback"]["seconds"] = 10.0
    assert ids(facts) == []


def test_without_rdma_devices_little_locked_memory_is_enough():
    facts = {**changed(("memlock",), 65536), "rdma": []}
    assert ids(facts) == []
    wanted = dataclasses.replace(SETTINGS, expected=Expected(memlock_bytes=MIB))
    assert ids(facts, wanted) == [("limits", "memlock-low")]


@pytest.mark.parametrize(("control", "found"), [("10.0.0.0/16", []), ("10.1.0.0/16", ["control-interface-missing"])])
def test_a_control_network_may_be_a_subnet(control, found):
    settings = dataclasses.replace(SETTINGS, control=control)
    assert [problem for _stage, problem in ids(FACTS, settings)] == found


@pytest.mark.parametrize(
    ("name", "seen", "expected"),
    [
        ("unresolved", Seen("g2", unresolved="Name or service not known"), ("resolve", "name-unresolved")),
        ("loopback", Seen("g2", loopback=["127.0.1.1"]), ("resolve", "name-loopback")),
        ("timeout", Seen("g2", "10.0.0.2", attempt=Attempt("timeout")), ("connect", "connect-timeout")),
        ("closed", Seen("g2", "10.0.0.2", attempt=Attempt("ok"), banner=("closed", "")), ("connect", "ssh-closed")),
        (
            "large packets",
            Seen("g2", "10.0.0.2", status=255, output="Connection closed by 10.0.0.2 port 99", loses_large=True),
            ("connect", "ssh-packets-lost"),
        ),
        ("no python", Seen("g2", "10.0.0.2", answered=True), ("session", "python-missing")),
        ("nothing", Seen("g2", "10.0.0.2", status=1, output="Segmentation fault"), ("session", "ssh-session")),
        (
            "noise",
            Seen("g2", "10.0.0.2", status=-9, output="Permission denied (publickey)", noisy=True),
            ("session", "session-noisy"),
        ),
    ],
)
def test_an_obstacle_on_the_way(name, seen, expected):
    (finding,) = findings_of(seen, SETTINGS)
    assert (finding.stage, finding.problem.id, finding.problem.host) == (*expected, "g2")


def test_a_name_server_that_does_not_answer():
    assert unresolved("x", "Temporary failure in name resolution", "g2").problem.id == "name-server-silent"


SSH_TEXTS = [
    (
        "No ED25519 host key is known for [10.0.0.2]:99 and you have requested strict checking.",
        "host-key-unknown",
        "host_key",
    ),
    (
        'Load key "/run/x/ssh/id_ed25519": error in libcrypto\nroot@10.0.0.2: Permission denied (publickey).',
        "ssh-key-unreadable",
        "authenticate",
    ),
    ("kex_exchange_identification: Connection closed by remote host", "ssh-closed", "connect"),
    (
        "Unable to negotiate with 10.0.0.2 port 99: no matching host key type found.",
        "ssh-no-common-algorithm",
        "host_key",
    ),
    ("Connection timed out during banner exchange", "ssh-banner-timeout", "connect"),
    ("This account is currently not available.", "account-no-shell", "session"),
    ("bash: fork: retry: Resource temporarily unavailable", "pids-low", "session"),
]


@pytest.mark.parametrize(("text", "problem", "stage"), SSH_TEXTS)
def test_what_ssh_complains_of(text, problem, stage):
    (finding,) = said_by_ssh(text, "g2", "g1", "10.0.0.2")
    assert finding.problem.id == problem and finding.stage == stage
    assert finding.problem.host == ("g1" if problem == "ssh-key-unreadable" else "g2")
    assert said_by_ssh("nothing of the kind", "g2", "g1") == []


def links_of(count, broken, interface="net1"):
    """What hosts saw of each other, each sending to the next three, where ``broken(a, b)`` is the status."""
    names = [f"g{number}" for number in range(1, count + 1)]
    return {
        name: Seen(
            name,
            facts=FACTS,
            links={
                interface: {
                    other: {"status": broken(name, other)}
                    for step in range(1, min(3, count - 1) + 1)
                    for other in [names[(index + step) % count]]
                }
            },
        )
        for index, name in enumerate(names)
    }


LINKS = [
    (8, lambda a, b: "ok", {}),
    (8, lambda a, b: "timeout" if "g3" in (a, b) else "ok", {"g3": "data-unreachable"}),
    (
        8,
        lambda a, b: "timeout" if {"g3", "g4"} & {a, b} else "ok",
        {"g3": "data-unreachable", "g4": "data-unreachable"},
    ),
    (8, lambda a, b: "timeout" if {a, b} == {"g3", "g4"} else "ok", {"g3": "data-link"}),
    (8, lambda a, b: "large-lost" if "g3" in (a, b) else "ok", {"g3": "data-mtu"}),
    (2, lambda a, b: "timeout", {"g1": "data-link"}),
    (3, lambda a, b: "refused" if "g2" in (a, b) else "ok", {"g2": "data-unreachable"}),
]


@pytest.mark.parametrize(("count", "broken", "expected"), LINKS)
def test_who_is_to_blame_for_lost_links(count, broken, expected):
    found = check_links(links_of(count, broken), SETTINGS)
    assert {name: [item.problem.id for item in items] for name, items in found.items()} == {
        name: [problem] for name, problem in expected.items()
    }


@pytest.mark.parametrize("network", [CONTROL, "net1"])
def test_much_data_may_be_lost_by_the_mtu_or_with_one_packet_of_three(network):
    """On local nodes, a third of all packets lost is large-lost as well."""
    found = check_links(links_of(3, lambda a, b: "large-lost" if (a, b) == ("g3", "g1") else "ok", network), SETTINGS)
    [[finding]] = list(found.values())
    assert "MTU" in finding.problem.cure and "loses packets: look at ip -s link" in finding.problem.cure


@pytest.mark.parametrize(("count", "broken", "expected"), LINKS)
def test_who_is_to_blame_for_lost_links_of_the_control_network(count, broken, expected):
    found = check_links(links_of(count, broken, CONTROL), SETTINGS)
    assert {name: [(item.stage, item.problem.id) for item in items] for name, items in found.items()} == {
        name: [("control", problem.replace("data-", "control-"))] for name, problem in expected.items()
    }


def test_each_of_several_data_networks_is_looked_at():
    seen = links_of(4, lambda a, b: "timeout" if "g3" in (a, b) else "ok", "net2")
    for name, other in links_of(4, lambda a, b: "timeout" if "g2" in (a, b) else "ok").items():
        seen[name].links.update(other.links)
    settings = dataclasses.replace(SETTINGS, data_interface="net1,net2")
    found = check_links(seen, settings)
    assert [(name, item.problem.id) for name, items in found.items() for item in items] == [
        ("g2", "data-unreachable"),
        ("g3", "data-unreachable"),
    ]
    assert "net1" in found["g2"][0].problem.cause and "net2" in found["g3"][0].problem.cause


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("mlx5", True),
        ("mlx5_0:1", True),
        ("mlx5_0:2", False),
        ("=mlx5", False),
        ("=mlx5_0", True),
        ("^mlx5_0", False),
        ("^=mlx5_1", True),
        ("mlx5_1,mlx5_0", True),
    ],
)
def test_ports_that_nccl_ib_hca_means(value, meant):
    assert names_port(value, "mlx5_0", 1) is meant


def test_rdma_ports_in_use():
    down = {**PORT, "device": "mlx5_1", "state": "DOWN"}
    up = {**down, "state": "ACTIVE"}
    hosts = {name: seen_with({**FACTS, "rdma": [PORT, up]}) for name in ("g1", "g3")}
    hosts["g2"] = seen_with({**FACTS, "rdma": [PORT, down]})

    def found(settings, seen=hosts):
        return {
            name: [item.problem.id for item in items] for name, items in check_rdma(seen, settings).items() if items
        }

    assert found(SETTINGS) == {"g2": ["rdma-port-down"]}
    assert found(of_ranks("=mlx5_0")) == {}
    assert found(of_ranks("^mlx5_1")) == {}
    assert found(SETTINGS, {"g1": seen_with({**FACTS, "rdma": [PORT, down]})}) == {}
    assert found(of_ranks("mlx4")) == {name: ["rdma-device-missing"] for name in hosts}
    assert found(of_ranks("mlx5_0", "5")) == {name: ["rdma-gid-missing"] for name in hosts}
    assert found(of_ranks("mlx5_0", "3")) == {}
    # NCCL reads the index of RoCE ports alone.
    infiniband = {**PORT, "link_layer": "InfiniBand", "gids": [0]}
    assert found(of_ranks("mlx5_0", "3"), {"g1": seen_with({**FACTS, "rdma": [infiniband]})}) == {}
    assert found(of_ranks("mlx5_0", "-1")) == {}


def of_ranks(devices, index=""):
    """Settings with what all ranks get, whatever their host has."""
    return dataclasses.replace(SETTINGS, rank_env={"NCCL_IB_HCA": devices, "NCCL_IB_GID_INDEX": index})


def test_rdma_ports_in_use_are_those_that_the_ranks_of_the_host_have():
    down = {**PORT, "device": "mlx5_1", "state": "DOWN"}

    def found(settings, devices="", index=""):
        own = {"NCCL_IB_HCA": devices, "NCCL_IB_GID_INDEX": index}
        seen = {"g1": seen_with({**FACTS, "rdma": [PORT, down]})}
        seen["g2"] = seen_with({**FACTS, "rdma": [PORT, down], "rdma_env": own})
        every = check_rdma(seen, settings)
        return {name: [item.problem.id for item in items] for name, items in every.items() if items}

    assert found(SETTINGS) == {}
    assert found(SETTINGS, "mlx5_1") == {"g2": ["rdma-port-down"]}
    assert found(SETTINGS, "mlx5_0", "5") == {"g2": ["rdma-gid-missing"]}
    # mpirun hands on what is set for all ranks, and from the launcher what the host does not have.
    assert found(of_ranks("mlx5_0"), "mlx5_1") == {}
    launcher = dataclasses.replace(SETTINGS, launcher_env={"NCCL_IB_HCA": "mlx5_1"})
    assert found(launcher, "mlx5_0") == {"g1": ["rdma-port-down"]}


#: Of each kind of fault, what a probe of a real host said of it: the names of what differs from a healthy host, and its value.
PROBED = [
    *((path, value) for path, value, _expected in CASES),
    (("shell",), "/usr/bin/fish"),
    (("daemon", "elsewhere"), ["/opt/openmpi/bin/orted"]),
    (("daemon", "exists"), False),
    (("daemon", "executable"), False),
    (("daemon", "missing"), ["libnl-3.so.200", "libz.so.1"]),
    (("program", "exists"), False),
    (("program", "executable"), False),
    (("program", "missing"), ["libcudart.so.12"]),
    (("program", "sha256"), "b"),
    (("callback", "status"), "timeout"),
    (("callback", "status"), "rejected"),
    (("interfaces",), {"eth0": FACTS["interfaces"]["eth0"]}),
    (("data",), {}),
    (("shm",), {"path": "/dev/shm", "size": 64 * MIB, "free": 12 * MIB}),
    (("memlock",), 8 * MIB),
    (("disks", 0, "path"), "/run/gpufabric"),
]
#: Of peers that no session was had with.
MET = [
    Seen("g2", unresolved="Name or service not known"),
    Seen("g2", unresolved="Temporary failure in name resolution"),
    Seen("g2", loopback=["127.0.1.1", "::1"]),
    Seen("g2", "10.0.0.2", status=-9, output="y", noisy=True),
    Seen("g2", "10.0.0.2", answered=True, wrong="g2 returned facts: 7, which is not allowed; allowed: a dictionary"),
    *(Seen("g2", "10.0.0.2", attempt=Attempt(status)) for status in ("refused", "rejected", "timeout", "unreachable")),
    Seen("g2", "10.0.0.2", attempt=Attempt("rejected", "No route to host", "10.0.0.254")),
    *(
        Seen("g2", "10.0.0.2", attempt=Attempt("ok"), banner=(kind, ""))
        for kind in ("closed", "crowded", "refused", "silent", "other")
    ),
    Seen("g2", "10.0.0.2", 2222, answered=True),
    Seen("g2", "10.0.0.2", status=1, output="Segmentation fault"),
    Seen("g2", "10.0.0.2"),
    Seen("g2", "10.0.0.2", loses_large=True),
]


def made_problems():
    """All that the checks say of these hosts, and of the networks between hosts."""
    expected = Expected(gpus=8, shm_bytes=512 * MIB, disk_bytes=64 * MIB)
    for settings in (SETTINGS, dataclasses.replace(SETTINGS, expected=expected)):
        for seen in [*MET, *(seen_with(changed(path, value)) for path, value in PROBED)]:
            yield from (finding.problem for finding in findings_of(seen, settings))
    not_sent = seen_with(changed(("environment", "LD_LIBRARY_PATH"), False))
    yield from (
        item.problem for item in findings_of(dataclasses.replace(not_sent, not_sent=["LD_LIBRARY_PATH"]), SETTINGS)
    )
    for text, _problem, _stage in SSH_TEXTS:
        yield from (item.problem for item in said_by_ssh(text, "g2", "g1", "10.0.0.2"))
    for count, broken, _expected in LINKS:
        for network in ("net1", CONTROL):
            for items in check_links(links_of(count, broken, network), SETTINGS).values():
                yield from (item.problem for item in items)
    without_facts = {
        name: dataclasses.replace(one, facts=None) for name, one in links_of(3, lambda a, b: "large-lost").items()
    }
    for items in check_links(without_facts, SETTINGS).values():
        yield from (item.problem for item in items)
    shared = {name: seen_with({**FACTS, "hostname": name}) for name in ("g2", "g3")}
    yield from (item.problem for items in check_addresses(shared, SETTINGS).values() for item in items)
    for state in ("DOWN", None):
        hosts = {"g2": seen_with({**FACTS, "rdma": [{**PORT, "state": state}]})}
        for devices, index in (("mlx5", ""), ("mlx4", "")):
            yield from (item.problem for item in check_rdma(hosts, of_ranks(devices, index))["g2"])
    yield from (item.problem for item in check_rdma({"g2": seen_with(FACTS)}, of_ranks("mlx5", "5"))["g2"])


#: What no text holds: a number with two units, what was not filled in, a fact that is none, a word or a mark twice.
SLIPS = re.compile(
    r"(?i)\b(?:[KMG]iB|s|bytes|seconds) (?:are )?(?:[KMG]iB|s|bytes|seconds)\b|[{}|]|  |\.\.(?!\.)|,,| [.,;:](?!:)|\(\)|\[\]"
    r"|\b(?-i:None)\b|\b([a-z]+) \1\b|\((?:a|the) "
)


def test_every_text_of_a_check_is_well_formed():
    source = pathlib.Path(checks.__file__).read_text(encoding="utf-8")
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    named = {
        argument.value
        for node in calls
        if getattr(node.func, "id", "") == "problem"
        for argument in node.args[:1]
        if isinstance(argument, ast.Constant)
    }
    problems = list(made_problems())
    made = {item.id for item in problems}
    assert len(named) > 30 and named - made == set()
    assert {f"connect-{status}" for status in ("refused", "rejected", "timeout", "unreachable")} <= made
    assert {f"callback-{status}" for status in ("refused", "rejected", "timeout", "unreachable", "not-ours")} <= made
    texts = {text for item in problems for text in (item.cause, item.cure)}
    assert sorted(text for text in texts if SLIPS.search(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "12 MiB bytes are free.",
        "The the host.",
        "Set {name}.",
        "It is full..",
        "A firewall (a firewall)",
        "status None.",
    ],
)
def test_a_text_that_is_not_well_formed_is_seen(text):
    assert SLIPS.search(text)
