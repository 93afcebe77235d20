# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import shlex

import pytest
from background import wait

RAW = "ansible.builtin.raw"
PATH = "/run/gpufabric/names/mpi/hostfile"
#: For names that will not come: a single lookup, which may take its time.
ONCE = {"timeout": 10, "interval": 20}

#: A name server that knows no name. A lookup is two questions, for addresses of IPv4 and IPv6, and one question more is
#: the second lookup of a module that waits. Then the names come.
NAME_SERVER = r"""
import socket

server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
questions = set()
while True:
    question, client = server.recvfrom(512)
    if b"\4late\0" in question and question[:2] not in questions:
        questions.add(question[:2])
        if len(questions) == 3:
            with open("/etc/hosts", "a") as hosts:
                hosts.write(open("/tmp/hosts.late").read())
    server.sendto(question[:2] + b"\x81\x83" + question[4:], client)
"""


def hostfile(*hosts, **options):
    """A call of the module; hosts by their names."""
    return "mpi_hostfile", {"run_id": "names", "hosts": [{"name": name} for name in hosts], **options}


def read_from(src, **options):
    """A call of the module for an existing hostfile."""
    return "mpi_hostfile", {"run_id": "names", "src": src, **options}


def write(path, text):
    """A call that appends to a file on the node."""
    return RAW, f"printf %s '{text}' >> {path}"


@pytest.fixture
def clean(nodes):
    """A node that is given back as it was, its /etc/hosts too."""
    before = nodes.state("g1")
    hosts = nodes.shell("g1", "cat /etc/hosts").stdout
    yield
    assert not nodes.module("mpi_run", {"run_id": "names", "state": "absent"})["failed"]
    # It is podman's file, which can be written but not replaced.
    nodes.shell("g1", f"printf %s '{hosts}' > /etc/hosts; rm -f /tmp/hosts* /run/hosts*")
    assert nodes.state("g1") == before


@pytest.fixture
def comes_late(nodes, clean):
    """Adds lines to the node's /etc/hosts when ``late``, of which nobody else knows, is looked up there again."""
    resolver = nodes.shell("g1", "cat /etc/resolv.conf").stdout
    server = "python3 /tmp/hosts.server"

    def start(lines):
        nodes.shell("g1", f"printf %s {shlex.quote(NAME_SERVER)} > /tmp/hosts.server")
        nodes.shell("g1", f"printf %s '{lines}' > /tmp/hosts.late; setsid -f {server} >/dev/null 2>&1")
        wait(lambda: "127.0.0.1:53 " in nodes.shell("g1", "ss -Hlnu").stdout)
        # It is podman's file, too.
        nodes.shell("g1", "echo nameserver 127.0.0.1 > /etc/resolv.conf")

    yield start
    nodes.shell("g1", f"printf %s '{resolver}' > /etc/resolv.conf; pkill -xf '{server}'", check=False)
    wait(lambda: nodes.shell("g1", f"pgrep -xf '{server}'", check=False).returncode == 1)


def test_names_become_addresses_and_check_mode_predicts(nodes, clean):
    two, three = nodes.addresses["g2"], nodes.addresses["g3"]
    first, _kept, second = nodes.modules(
        [
            ("mpi_hostfile", {"run_id": "names", "hosts": [{"name": "g2", "slots": 2}, {"name": "g3"}]}),
            (RAW, f"ln {PATH} /run/hosts.kept"),
            hostfile("g3"),
        ]
    )
    assert first["path"] == PATH and first["problems"] == []
    assert first["hosts"] == [{"name": "g2", "address": two, "slots": 2}, {"name": "g3", "address": three, "slots": 1}]
    # It is replaced, never written over: who has the old one open reads that to its end.
    assert nodes.shell("g1", "cat /run/hosts.kept").stdout == f"{two} slots=2\n{three} slots=1\n"
    assert nodes.shell("g1", f"cat {PATH}").stdout == f"{three} slots=1\n" and second["changed"]
    assert nodes.shell("g1", f"stat -c %a {PATH}; ls -A {PATH.rsplit('/', 1)[0]}").stdout == "644\nhostfile\n"
    names, elsewhere = nodes.predicted([hostfile("g3", "g2", numeric=False), hostfile("g2", dest="/tmp/hosts.dest")])
    assert names["diff"]["before"] == f"{three} slots=1\n" and names["diff"]["after"] == "g3 slots=1\ng2 slots=1\n"
    assert nodes.shell("g1", "cat /tmp/hosts.dest").stdout == f"{two} slots=1\n" == elsewhere["diff"]["after"]


def test_names_that_come_late_and_names_of_clusters(nodes, clean, comes_late):
    two, three, four = (nodes.addresses[node] for node in ("g2", "g3", "g4"))
    comes_late(f"{four} late\n")
    mixed = (
        f"# Made by hand\n\nw-0.job.ns.svc slots=4  # long form only\n  w-1.job.ns.svc\n{four} slots=2 max_slots=8\n"
    )
    _hosts, _mixed, short, long, kept, waited = nodes.modules(
        [
            write("/etc/hosts", f"{two} w-0.job.ns.svc.cluster.local\n{three} w-1.job.ns.svc\n"),
            write("/tmp/hosts.mixed", mixed),
            read_from("/tmp/hosts.mixed", numeric=False),
            hostfile("w-0.job.ns.svc", "w-1.job.ns.svc", rewrite_fqdn="true", **ONCE),
            hostfile("w-0.job.ns.svc", "w-1.job.ns.svc", rewrite_fqdn="false", **ONCE),
            hostfile("w-1.job.ns.svc", "late", interval=0.2),
        ]
    )
    assert short["hosts"] == [
        {"name": "w-0.job.ns.svc.cluster.local", "address": two, "slots": 4},
        {"name": "w-1.job.ns.svc", "address": three, "slots": 1},
        {"name": four, "address": four, "slots": 2},
    ]
    assert short["diff"]["after"] == f"w-0.job.ns.svc.cluster.local slots=4\nw-1.job.ns.svc slots=1\n{four} slots=2\n"
    assert long["failed"] and long["unresolved"] == ["w-1.job.ns.svc"]
    assert kept["failed"] and kept["unresolved"] == ["w-0.job.ns.svc"]
    assert [host["address"] for host in waited["hosts"]] == [three, four]
    assert [problem["id"] for problem in waited["problems"]] == ["name-late"]


def test_names_that_never_come(nodes, clean):
    nodes.shell("g1", "printf 'g2\\nnever-1\\nnever-2\\n' > /tmp/hosts.never")
    options = {"run_id": "names", "src": "/tmp/hosts.never", "timeout": 4, "interval": 0.4}
    played = nodes.playbook(
        [{"hosts": "g1", "gather_facts": False, "tasks": [{"gpufabric.nccl.mpi_hostfile": options}]}]
    )
    failed = played.result("g1", "gpufabric.nccl.mpi_hostfile")
    # The wait has been made in two parts, and what was open after the first is shown.
    assert "g1: after 3 s waiting for names: never-1 (" in played.output and "), never-2 (" in played.output
    assert failed["failed"] and failed["unresolved"] == ["never-1", "never-2"]
    assert failed["msg"] == "names that do not resolve on this node after 4 s: never-1, never-2"
    assert failed["evidence"] == {
        "/tmp/hosts.never": "g2\nnever-1\nnever-2\n",
        "/etc/resolv.conf": nodes.shell("g1", "cat /etc/resolv.conf").stdout,
        "/etc/hosts": nodes.shell("g1", "cat /etc/hosts").stdout,
    }
    assert nodes.shell("g1", f"test -e {PATH}", check=False).returncode == 1


def test_a_name_on_two_networks_is_not_guessed(nodes, clean):
    control, data = nodes.addresses["g1"], nodes.shell("g1", "hostname -I").stdout.split()
    (data,) = (address for address in data if address.startswith("192.168."))
    # A node finds its own name on both of its networks.
    guessed, by_interface, by_subnet, outside, loopback = nodes.modules(
        [
            hostfile("g1"),
            hostfile("g1", interface="eth0"),
            hostfile("g1", subnet=f"{data}/24"),
            hostfile("g1", subnet="10.99.0.0/16"),
            hostfile("localhost"),
        ]
    )
    assert guessed["msg"] == (
        f"g1 has more than one address: {control}, {data}; set subnet or interface, or the host's address"
    )
    assert by_interface["hosts"][0]["address"] == control and by_subnet["hosts"][0]["address"] == data
    assert outside["msg"] == f"g1 has no address in 10.99.0.0/16: {control}, {data}"
    assert loopback["msg"].startswith("localhost resolves to loopback only (")


def test_names_of_another_host_are_waited_for_and_told(nodes, clean, comes_late):
    """``w-0`` was the name of g3 once; it is that of g2 now."""
    two, three, four = (nodes.addresses[node] for node in ("g2", "g3", "g4"))
    comes_late(f"{two} w-1.job.ns\n{four} late\n")
    expected = {"w-0": two, "w-1.job": two, "others": three}
    src = "w-0.job.ns.svc slots=2\n"
    _hosts, _src, failed, taken, waited, short = nodes.modules(
        [
            write("/etc/hosts", f"{three} w-0.job.ns.svc w-1.job.ns\n"),
            write("/tmp/hosts.stale", src),
            read_from("/tmp/hosts.stale", expected=expected, **ONCE),
            read_from("/tmp/hosts.stale", expected=expected, use_expected=True, dest="/tmp/hosts.dest"),
            hostfile("w-1.job.ns", "late", interval=0.2, expected=expected),
            hostfile("w-0.job.ns.svc", "nosuch", expected={"w-0": three}, **ONCE),
        ]
    )
    assert failed["failed"] and failed["unresolved"] == []
    assert failed["stale"] == [{"name": "w-0.job.ns.svc", "addresses": [three], "expected": two}]
    assert f": w-0.job.ns.svc is {three} and not {two}; such records are of earlier hosts or pods" in failed["msg"]
    assert failed["evidence"]["/tmp/hosts.stale"] == src
    assert taken["hosts"] == [{"name": "w-0.job.ns.svc", "address": two, "slots": 2}] and taken["waited"] == 0
    assert nodes.shell("g1", "cat /tmp/hosts.dest").stdout == f"{two} slots=2\n"
    assert [host["address"] for host in waited["hosts"]] == [two, four]
    assert [problem["id"] for problem in waited["problems"]] == ["name-late", "name-late"]
    assert short["unresolved"] == ["nosuch"] and short["stale"] == [] and "nosuch" in short["lookup_errors"]


def test_bad_input_is_one_line_and_changes_nothing(nodes):
    """Here of one option and of one file; all are tried in the module's unit test."""
    nodes.shell("g1", "printf 'g2:4\\n' > /tmp/hosts.wrong")
    try:
        before = nodes.state("g1")
        refused, wrong = nodes.modules([hostfile("g2", dest="/nosuch/hostfile"), read_from("/tmp/hosts.wrong")])
        assert nodes.state("g1") == before
    finally:
        nodes.shell("g1", "rm /tmp/hosts.wrong")
    assert refused["failed"] and refused["msg"] == (
        "dest: '/nosuch/hostfile' is not allowed; allowed: a path in a directory that exists and can be written"
    )
    assert wrong["failed"] and wrong["msg"] == (
        "hostfile /tmp/hosts.wrong: line 1: 'g2:4' is MPICH's way to give slots;"
        " Open MPI takes it for a name: write 'g2 slots=4'"
    )
