# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


def test_ports_of_the_control_interface(nodes):
    found = nodes.module("free_port", {"interface": "eth0", "count": 3, "range": "20000-20010", "exclude": [20005]})
    assert found["address"] == nodes.addresses["g1"]
    assert len(set(found["ports"])) == 3 and found["port"] == found["ports"][0]
    assert all(20000 <= port <= 20010 and port != 20005 for port in found["ports"])
    assert not found["changed"]


def test_the_systems_sshd_has_port_22(nodes):
    found = nodes.module("free_port", {"interface": "eth0", "range": "22-22"})
    assert "has 0 free TCP ports between 22 and 22" in found["msg"]


BAD_INPUT = [
    ({"count": 0}, "count: 0 is not allowed; allowed: 1 to 1000"),
    ({"range": "20-10"}, "range: '20-10' is not allowed; allowed: FIRST-LAST"),
    ({"exclude": [70000]}, "exclude: 70000 is not allowed; allowed: ports from 1 to 65535"),
    ({"interface": "eth7"}, "interface: 'eth7' is not allowed; allowed: an interface of this node"),
    ({"address": "nohost"}, "address: 'nohost' is not allowed; allowed: a numeric IPv4 or IPv6 address"),
]


def test_bad_input_is_one_line(nodes):
    results = nodes.modules([("free_port", arguments) for arguments, _message in BAD_INPUT])
    for result, (_arguments, message) in zip(results, BAD_INPUT):
        assert result["failed"] and result["msg"].startswith(message) and "\n" not in result["msg"]
