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


def test_bad_input_is_one_line(nodes):
    """Here of one option; each is tried in the module's unit test."""
    result = nodes.module("free_port", {"interface": "eth7"})
    allowed = "an interface of this node that has an address: eth0, lo, net1"
    assert result["failed"] and result["msg"] == f"interface: 'eth7' is not allowed; allowed: {allowed}"
