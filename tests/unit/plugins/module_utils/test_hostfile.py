# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ipaddress

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._hostfile import (
    Host,
    Resolver,
    UnresolvedNames,
    candidates,
    choose,
    parse_hostfile,
    parse_hosts,
    render_hostfile,
    resolve_hosts,
)


def test_parse_hostfile():
    text = "# made by somebody\n\ng1 slots=8  # the first\n  10.0.0.2 slots=4 max_slots=8\ng3\n"
    assert parse_hostfile(text, "hostfile") == [Host("g1", 8), Host("10.0.0.2", 4), Host("g3", 1)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("g1:8", "line 1: 'g1:8' is MPICH's way to give slots; Open MPI takes it for a name: write 'g1 slots=8'"),
        ("root@g1", "line 1: 'root@g1' names a user; ssh_config does that, so write 'g1'"),
        ("g1 slots=0", "line 1: slots '0' is not 1 or more"),
        ("g1 slots", "line 1: 'slots' is not a setting of a hostfile"),
        ("g1 8", "line 1: '8' is not a setting of a hostfile"),
        ("-oProxyCommand=x", "line 1: '-oProxyCommand=x' is not a host name"),
        ("g1\ng2\ng1 slots=2", "line 3: g1 is there already, line 1"),
        ("", "it names no host"),
    ],
)
def test_parse_hostfile_says_what_is_wrong_where(line, words):
    with pytest.raises(NodeError) as error:
        parse_hostfile(line, "hostfile")
    assert words in str(error.value)


def test_parse_hostfile_reports_all_mistakes_at_once():
    with pytest.raises(NodeError) as error:
        parse_hostfile("g1:8\ng2\ng2\ng3 slots=x\n", "hostfile")
    assert all(f"line {number}" in str(error.value) for number in (1, 3, 4))


@pytest.mark.parametrize(
    ("host", "option"),
    [
        ({}, "hosts[0]"),
        ({"name": "a b", "slots": 1}, "hosts[0].name"),
        ({"name": "g1\ng2", "slots": 1}, "hosts[0].name"),
        ({"name": "g1", "address": "g1", "slots": 1}, "hosts[0].address"),
        ({"address": "10.0.0.256", "slots": 1}, "hosts[0].address"),
        ({"name": "10.0.0.256", "slots": 1}, "hosts[0].name"),
        ({"name": "g1", "slots": 0}, "hosts[0].slots"),
    ],
)
def test_parse_hosts_refuses(host, option):
    with pytest.raises(OptionError) as error:
        parse_hosts([host])
    assert str(error.value).startswith(f"{option}: ")


def test_parse_hosts_refuses_none_and_doubles():
    with pytest.raises(OptionError, match="hosts: "):
        parse_hosts([])
    with pytest.raises(NodeError, match="g1 is there already"):
        parse_hosts([{"name": "g1", "slots": 1}, {"name": "g1", "slots": 2}])


@pytest.mark.parametrize(
    ("name", "rewrite", "expected"),
    [
        ("w.job.ns.svc", "auto", ["w.job.ns.svc", "w.job.ns.svc.cluster.local"]),
        ("w.job.ns.svc", "true", ["w.job.ns.svc.cluster.local"]),
        ("w.job.ns.svc", "false", ["w.job.ns.svc"]),
        ("w.job.ns.svc.cluster.local", "true", ["w.job.ns.svc.cluster.local"]),
        ("g1", "true", ["g1"]),
    ],
)
def test_candidates(name, rewrite, expected):
    assert candidates(name, rewrite, "cluster.local") == expected


def test_choose_wants_one_address_that_others_reach():
    control = ipaddress.ip_network("10.0.0.0/24")
    assert choose("g1", ["127.0.1.1", "10.0.0.1"], None) == "10.0.0.1"
    assert choose("g1", ["192.168.0.1", "10.0.0.1"], control) == "10.0.0.1"
    assert choose("g1", ["fd00::1", "10.0.0.1"], None) == "10.0.0.1"
    with pytest.raises(NodeError, match="g1 resolves to loopback only"):
        choose("g1", ["127.0.1.1"], None)
    with pytest.raises(NodeError, match="g1 has more than one address: 10.0.0.1, 192.168.0.1"):
        choose("g1", ["192.168.0.1", "10.0.0.1"], None)
    with pytest.raises(NodeError, match="g1 has no address in 10.0.0.0/24"):
        choose("g1", ["192.168.0.1"], control)


def resolver(known, timeout=0.2):
    return Resolver(timeout, 0.01, lookup=lambda name: known.get(name, []))


def test_resolve_hosts_takes_numeric_and_given_addresses_as_they_are():
    hosts = [Host("10.0.0.1", 1), Host("nosuch", 2, "10.0.0.2"), Host("g3", 3)]
    resolved, _waited = resolve_hosts(hosts, resolver({"g3": ["10.0.0.3"]}), "auto", "cluster.local", None)
    assert [(name, address) for _host, name, address in resolved] == [
        ("10.0.0.1", "10.0.0.1"),
        ("nosuch", "10.0.0.2"),
        ("g3", "10.0.0.3"),
    ]


def test_resolve_hosts_completes_a_name_where_only_that_resolves():
    known = {"w.ns.svc.cluster.local": ["10.0.0.1"]}
    resolved, _waited = resolve_hosts([Host("w.ns.svc", 1)], resolver(known), "auto", "cluster.local", None)
    assert resolved[0][1:] == ("w.ns.svc.cluster.local", "10.0.0.1")
    with pytest.raises(UnresolvedNames):
        resolve_hosts([Host("w.ns.svc", 1)], resolver(known), "false", "cluster.local", None)


def test_resolve_hosts_waits_for_late_names():
    tries = []

    def lookup(name):
        tries.append(name)
        return ["10.0.0.1"] if len(tries) > 2 else []

    resolved, waited = resolve_hosts([Host("late", 1)], Resolver(5, 0.01, lookup), "auto", "cluster.local", None)
    assert resolved[0][2] == "10.0.0.1" and len(tries) == 3 and waited > 0


def test_resolve_hosts_names_those_that_never_do():
    hosts = [Host("g1", 1), Host("nosuch", 1)]
    with pytest.raises(UnresolvedNames) as error:
        resolve_hosts(hosts, resolver({"g1": ["10.0.0.1"]}), "auto", "cluster.local", None)
    assert error.value.names == ["nosuch"]


def test_resolve_hosts_refuses_two_names_of_one_host():
    known = {"g1": ["10.0.0.1"], "alias": ["10.0.0.1"]}
    with pytest.raises(NodeError, match="g1 and alias have the same address 10.0.0.1"):
        resolve_hosts([Host("g1", 1), Host("alias", 1)], resolver(known), "auto", "cluster.local", None)


def test_a_lookup_that_hangs_does_not_hold_up_the_end():
    def lookup(name):
        import threading

        threading.Event().wait(30)
        return []

    with pytest.raises(UnresolvedNames):
        resolve_hosts([Host("black-hole", 1)], Resolver(0.1, 0.01, lookup), "auto", "cluster.local", None)


def test_written_hostfile_reads_back():
    text = render_hostfile([("10.0.0.1", 8), ("10.0.0.2", 4)])
    assert parse_hostfile(text, "hostfile") == [Host("10.0.0.1", 8), Host("10.0.0.2", 4)]
