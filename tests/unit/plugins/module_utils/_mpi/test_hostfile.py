# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import ipaddress
import json
import threading

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi import hostfile
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.hostfile import (
    Host,
    candidates,
    cluster_labels,
    match_expected,
    parse_hostfile,
    parse_hosts,
    render_hostfile,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.resolution import (
    NO_ANSWER,
    ControlNetwork,
    Resolution,
    Resolver,
    UnresolvedNames,
    choose,
    resolve_hosts,
    source_address,
    wait_line,
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
        *(
            ({"name": name, "address": "10.0.0.1", "slots": 1}, "hosts[0].name")
            for name in ("g1\ng2", "\x1b[2J", "{{ 1 }}", " ", "\u202eg1", "g" * 1025)
        ),
        ({"name": "g1", "slots": 0}, "hosts[0].slots"),
    ],
)
def test_parse_hosts_refuses(host, option):
    with pytest.raises(OptionError) as error:
        parse_hosts([host])
    assert str(error.value).startswith(f"{option}: ")


@pytest.mark.parametrize("name", ["p5 node 1", "gr\u00fc\u00dfe/2, x", "-g1", "10.0.0.256", "#1"])
def test_beside_an_address_a_name_is_any_line_of_text(name):
    """The hostfile has the address alone, unless names are wanted in it."""
    value = {"name": name, "address": "10.0.0.1", "slots": 2}
    assert parse_hosts([value]) == [Host(name, 2, "10.0.0.1")]
    with pytest.raises(OptionError, match="a host name or a numeric address"):
        parse_hosts([value], numeric=False)


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
    control = ControlNetwork(ipaddress.ip_network("10.0.0.0/24"), "10.0.0.0/24")
    assert choose("g1", ["127.0.1.1", "10.0.0.1"], None) == "10.0.0.1"
    assert choose("g1", ["192.168.0.1", "10.0.0.1"], control) == "10.0.0.1"
    assert choose("g1", ["fd00::1", "10.0.0.1"], None) == "10.0.0.1"
    with pytest.raises(NodeError, match="g1 resolves to loopback only"):
        choose("g1", ["127.0.1.1"], None)
    with pytest.raises(NodeError, match="g1 has more than one address: 10.0.0.1, 192.168.0.1"):
        choose("g1", ["192.168.0.1", "10.0.0.1"], None)
    with pytest.raises(NodeError, match="g1 has no address in 10.0.0.0/24"):
        choose("g1", ["192.168.0.1"], control)


def test_choose_takes_what_lies_behind_the_interface():
    """Each pod has a subnet of its own here, as with Calico."""
    control = ControlNetwork(ipaddress.ip_network("10.1.0.1/32"), "eth0", lambda address: address.startswith("10."))
    assert choose("self", ["10.1.0.1", "192.168.0.1"], control) == "10.1.0.1"
    assert choose("g2", ["10.2.0.1", "192.168.0.2"], control) == "10.2.0.1"
    with pytest.raises(NodeError, match="g2 has no address in eth0: 192.168.0.2"):
        choose("g2", ["192.168.0.2"], control)


def test_source_address():
    assert source_address("127.0.0.7") == "127.0.0.1"
    # A link-local address is reached by no route without its zone.
    assert source_address("fe80::1") is None


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("w-0", ("w-0",)),
        ("w-0.job", ("w-0", "job")),
        ("W-0.job.ns", ("w-0", "job", "ns")),
        ("w-0.job.ns.svc", ("w-0", "job", "ns")),
        ("w-0.job.ns.svc.my.domain.", ("w-0", "job", "ns")),
        ("g1.example.com", ("g1", "example", "com")),
    ],
)
def test_cluster_labels(name, labels):
    assert cluster_labels(name, "my.domain") == labels


@pytest.mark.parametrize(
    ("name", "expected", "address"),
    [
        ("w-0.job.ns.svc", {"w-0": "10.0.0.1"}, "10.0.0.1"),
        ("w-0", {"w-0.job.ns.svc.cluster.local": "10.0.0.1"}, "10.0.0.1"),
        ("w-0.job", {"w-0": "10.0.0.1", "w-0.job.ns": "10.0.0.2"}, "10.0.0.2"),
        ("w-0.job", {"w-0.other": "10.0.0.1"}, None),
        ("w-1.job", {"w-10.job": "10.0.0.1", "w-1": "10.0.0.2"}, "10.0.0.2"),
        ("w-0", {"w-0.job": "10.0.0.1", "w-0.other": "10.0.0.1"}, "10.0.0.1"),
        ("g1", {"g1": "FD00:0::1"}, "fd00::1"),
        ("10.0.0.1", {"10": "10.0.0.2"}, None),
    ],
)
def test_match_expected(name, expected, address):
    assert match_expected([Host(name, 1)], expected, "cluster.local").get(name) == address


def test_expected_addresses_are_not_searched_through_for_each_host(monkeypatch):
    class Label(str):
        compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other):
            Label.compared += 1
            return str.__eq__(self, other)

    monkeypatch.setattr(hostfile, "cluster_labels", lambda name, _domain: tuple(map(Label, name.split("."))))
    hosts = [Host(f"w-{number}.job.x", 1) for number in range(200)]
    expected = {f"w-{number}": f"10.0.0.{number}" for number in range(200)}
    assert match_expected(hosts, expected, "cluster.local") == {
        host.name: f"10.0.0.{n}" for n, host in enumerate(hosts)
    }
    assert Label.compared < 5000


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ({"w-0": "nowhere"}, "expected\\[w-0\\]: 'nowhere' is not allowed"),
        ({"w-0.a": "10.0.0.1", "w-0.b": "10.0.0.2"}, "one address for w-0; write the names in full"),
    ],
)
def test_match_expected_refuses(expected, words):
    with pytest.raises(OptionError, match=words):
        match_expected([Host("w-0", 1)], expected, "cluster.local")


def resolver(known, timeout=0.2):
    return Resolver(timeout, 0.01, lookup=lambda name: known.get(name, []))


def test_resolve_hosts_takes_numeric_and_given_addresses_as_they_are():
    hosts = [Host("10.0.0.1", 1), Host("nosuch", 2, "10.0.0.2"), Host("g3", 3)]
    resolved, _waited = resolve_hosts(hosts, resolver({"g3": ["10.0.0.3"]}), "auto", "cluster.local", None, {})
    assert [(name, address) for _host, name, address in resolved] == [
        ("10.0.0.1", "10.0.0.1"),
        ("nosuch", "10.0.0.2"),
        ("g3", "10.0.0.3"),
    ]


def test_resolve_hosts_completes_a_name_where_only_that_resolves():
    known = {"w.ns.svc.cluster.local": ["10.0.0.1"]}
    resolved, _waited = resolve_hosts([Host("w.ns.svc", 1)], resolver(known), "auto", "cluster.local", None, {})
    assert resolved[0][1:] == ("w.ns.svc.cluster.local", "10.0.0.1")
    with pytest.raises(UnresolvedNames):
        resolve_hosts([Host("w.ns.svc", 1)], resolver(known), "false", "cluster.local", None, {})


def test_resolve_hosts_waits_for_late_names():
    tries = []

    def lookup(name):
        tries.append(name)
        if name == "early":
            return ["10.0.0.2"]
        return ["10.0.0.1"] if tries.count(name) > 2 else []

    hosts = [Host("late", 1), Host("early", 1)]
    resolved, answer = resolve_hosts(hosts, Resolver(5, 0.01, lookup), "auto", "cluster.local", None, {})
    assert resolved[0][2] == "10.0.0.1" and len(tries) == 4
    assert list(answer.late) == ["late"] and answer.waited >= answer.late["late"] > 0


def test_a_wait_in_parts_is_the_wait_as_a_whole():
    answers = {"early": [["10.0.0.1"]], "late": [[], [], ["10.0.0.2"]], "moved": [["10.0.0.9"]] * 3 + [["10.0.0.3"]]}
    asked = []

    def lookup(name):
        asked.append(name)
        return answers[name].pop(0)

    hosts, expected = [Host(name, 1) for name in answers], {"moved": "10.0.0.3"}
    earlier, waiting = None, []
    for _part in range(3):
        one = Resolver(5, 0.01, lookup, part=0, earlier=earlier)
        with pytest.raises(UnresolvedNames) as open_names:
            resolve_hosts(hosts, one, "auto", "cluster.local", None, expected)
        assert open_names.value.answer.has_time
        waiting = open_names.value.waiting()
        earlier = Resolution.from_dict(json.loads(json.dumps(dataclasses.asdict(open_names.value.answer))))
    last = Resolver(5, 0.01, lookup, part=0, earlier=earlier)
    resolved, answer = resolve_hosts(hosts, last, "auto", "cluster.local", None, expected)
    assert [address for _host, _name, address in resolved] == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    # What has resolved is not asked for again.
    assert sorted(answer.late) == ["late", "moved"] and asked.count("early") == 1
    assert answer.waited >= answer.late["moved"] > answer.late["late"] > 0
    assert waiting == {"moved": "10.0.0.9 and not 10.0.0.3"}
    with pytest.raises(UnresolvedNames) as raised:
        resolve_hosts([Host("g1", 1)], resolver({}, timeout=0), "auto", "cluster.local", None, {})
    assert not raised.value.answer.has_time


def test_what_is_shown_of_a_wait():
    waiting = {f"w-{number}": "Name or service not known" for number in range(6)}
    line = wait_line(waiting, 13.2)
    assert line.startswith("after 13 s waiting for names: w-0 (Name or service not known), w-1 (")
    assert line.endswith("w-3 (Name or service not known) and 2 more")


def test_resolve_hosts_names_those_that_never_do():
    hosts = [Host("g1", 1), Host("nosuch", 1)]
    with pytest.raises(UnresolvedNames) as error:
        resolve_hosts(hosts, resolver({"g1": ["10.0.0.1"]}), "auto", "cluster.local", None, {})
    assert error.value.names == ["nosuch"]


def test_resolve_hosts_waits_while_a_name_is_that_of_another():
    answers = iter([["10.0.0.9"], ["10.0.0.9"], ["10.0.0.9", "10.0.0.1"]])
    late = Resolver(5, 0.01, lambda name: next(answers))
    resolved, _waited = resolve_hosts([Host("w", 1)], late, "auto", "cluster.local", None, {"w": "10.0.0.1"})
    assert resolved[0][2] == "10.0.0.1"
    known = {"w": ["10.0.0.9"], "x": ["10.0.0.2"]}
    hosts = [Host("w", 1), Host("x", 1), Host("nosuch", 1)]
    with pytest.raises(UnresolvedNames) as error:
        resolve_hosts(hosts, resolver(known), "auto", "cluster.local", None, {"w": "10.0.0.1", "x": "10.0.0.2"})
    assert error.value.names == ["nosuch"]
    assert error.value.stale == [{"name": "w", "addresses": ["10.0.0.9"], "expected": "10.0.0.1"}]
    assert "w is 10.0.0.9 and not 10.0.0.1" in str(error.value) and "\n" not in str(error.value)


def test_resolve_hosts_prefers_the_form_of_a_name_that_is_right():
    known = {"w.ns.svc": ["10.0.0.9"], "w.ns.svc.cluster.local": ["10.0.0.1"]}
    expected = {"w.ns.svc": "10.0.0.1"}
    resolved, _waited = resolve_hosts([Host("w.ns.svc", 1)], resolver(known), "auto", "cluster.local", None, expected)
    assert resolved[0][1:] == ("w.ns.svc.cluster.local", "10.0.0.1")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(-3, "Temporary failure in name resolution"), "Temporary failure in name resolution"),
        (UnicodeError("label too long"), "label too long"),
    ],
)
def test_a_lookup_that_fails_says_why(error, text):
    def lookup(name):
        raise error

    with pytest.raises(UnresolvedNames) as raised:
        resolve_hosts([Host("g1", 1)], Resolver(0, 1, lookup), "auto", "cluster.local", None, {})
    assert raised.value.errors == {"g1": text}


def test_resolve_hosts_refuses_two_names_of_one_host():
    known = {"g1": ["10.0.0.1"], "alias": ["10.0.0.1"]}
    with pytest.raises(NodeError, match="g1 and alias have the same address 10.0.0.1"):
        resolve_hosts([Host("g1", 1), Host("alias", 1)], resolver(known), "auto", "cluster.local", None, {})


def test_a_lookup_that_hangs_does_not_hold_up_the_end():
    def lookup(name):
        threading.Event().wait(30)
        return []

    with pytest.raises(UnresolvedNames) as error:
        resolve_hosts([Host("black-hole", 1)], Resolver(0.1, 0.01, lookup), "auto", "cluster.local", None, {})
    assert error.value.errors == {"black-hole": NO_ANSWER}


@pytest.mark.parametrize("silence", ["hangs", "Temporary failure in name resolution"])
def test_a_name_of_another_is_told_where_the_last_look_gets_no_answer(silence):
    answers = iter([["10.0.0.9"]])

    def lookup(name):
        if name == "w.job.svc.cluster.local":
            raise OSError(-2, "Name or service not known")
        found = next(answers, None)
        if found is None and silence != "hangs":
            raise OSError(-3, silence)
        if found is None:
            threading.Event().wait(30)
        return found

    hosts, expected = [Host("w.job.svc", 1)], {"w.job.svc": "10.0.0.1"}
    with pytest.raises(UnresolvedNames) as error:
        resolve_hosts(hosts, Resolver(0.1, 0.01, lookup), "auto", "cluster.local", None, expected)
    assert [item["addresses"] for item in error.value.stale] == [["10.0.0.9"]] and error.value.names == []


def test_a_name_that_is_unknown_is_told_as_that_where_the_last_look_gets_no_answer():
    answers = iter([OSError(-2, "Name or service not known")])

    def lookup(name):
        for error in answers:
            raise error
        threading.Event().wait(30)
        return []

    with pytest.raises(UnresolvedNames) as error:
        resolve_hosts([Host("w", 1)], Resolver(0.1, 0.01, lookup), "auto", "cluster.local", None, {})
    assert error.value.errors == {"w": "Name or service not known"}


def test_written_hostfile_reads_back():
    text = render_hostfile([("10.0.0.1", 8), ("10.0.0.2", 4)])
    assert parse_hostfile(text, "hostfile") == [Host("10.0.0.1", 8), Host("10.0.0.2", 4)]
