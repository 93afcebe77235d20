# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import socket

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import (
    InterfaceAddress,
    choose_address,
    default_route_interface,
    free_ports,
    is_numeric,
    parse_address,
    parse_port_range,
    parse_source,
    parse_subnet,
    read_addresses,
    subnet_of,
)

LOOPBACK = InterfaceAddress("lo", "127.0.0.1", 8)
CONTROL = InterfaceAddress("eth0", "10.0.0.11", 24)
DATA = InterfaceAddress("net1", "192.168.0.11", 24)
DATA_IPV6 = InterfaceAddress("net1", "fd00::11", 64)
# Interfaces are listed in any order.
ADDRESSES = [LOOPBACK, DATA, DATA_IPV6, CONTROL]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"address": "10.0.0.11"}, "10.0.0.11"),
        ({"address": "127.0.0.1"}, "127.0.0.1"),
        ({"interface": "eth0"}, "10.0.0.11"),
        ({"interface": "net1"}, "192.168.0.11"),
        ({"subnet": "10.0.0.0/16"}, "10.0.0.11"),
        ({"subnet": "fd00::/64"}, "fd00::11"),
        ({"default_interface": "eth0"}, "10.0.0.11"),
        ({"default_interface": "net1"}, "192.168.0.11"),
    ],
)
def test_choose_address(options, expected):
    assert choose_address(ADDRESSES, **options) == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"address": "10.0.0.300"}, ["address: '10.0.0.300'", "10.0.0.1"]),
        ({"address": "10.0.0.12"}, ["address: '10.0.0.12'", "10.0.0.11 (eth0)"]),
        ({"interface": "eth7"}, ["interface: 'eth7'", "eth0, lo, net1"]),
        ({"subnet": "10.0.0.0"}, ["subnet: '10.0.0.0'", "10.0.0.0/24"]),
        ({"subnet": "172.16.0.0/12"}, ["subnet: '172.16.0.0/12'", "10.0.0.11 (eth0)"]),
    ],
)
def test_choose_address_names_option_value_and_what_is_allowed(options, words):
    with pytest.raises(OptionError) as error:
        choose_address(ADDRESSES, **options)
    assert all(word in str(error.value) for word in words)
    assert "\n" not in str(error.value)


NO_ADDRESSES = [
    "fe80::1%eth0",
    "fe80::1%x\nHost *",
    'fe80::1%x" ssh-ed25519 AAAA anyone',
    "10.0.0.1\n",
    "10.0.0.1 slots=64",
    " 10.0.0.1",
    '10.0.0.1"',
    "{{ 1 }}",
    "",
]


@pytest.mark.parametrize("text", NO_ADDRESSES)
def test_text_after_an_address_makes_it_none(text):
    assert not is_numeric(text)
    with pytest.raises(OptionError, match="without a zone"):
        parse_address("address", text)
    for source in (text, f"{text}/64"):
        with pytest.raises(OptionError, match="a list of addresses and subnets"):
            parse_source("sources", source)
        with pytest.raises(OptionError, match="a subnet with its prefix length"):
            parse_subnet("subnet", source)


def test_a_subnet_with_nothing_behind_its_name_is_refused_by_its_name():
    with pytest.raises(
        OptionError, match=r"^control_subnet: None is not allowed; allowed: a subnet with its prefix length"
    ):
        parse_subnet("control_subnet", None)


def test_addresses_are_taken_in_their_usual_spelling():
    assert is_numeric("10.0.0.1")
    assert parse_address("address", "FD00:0::1") == "fd00::1"
    assert [parse_source("sources", text) for text in ("10.0.0.0/24", "fd00::1")] == ["10.0.0.0/24", "fd00::1"]
    assert not is_numeric(167772161)


def test_choose_address_never_guesses_between_two():
    with pytest.raises(NodeError, match="more than one address fits"):
        choose_address(ADDRESSES)
    with pytest.raises(NodeError, match="more than one address fits"):
        choose_address([CONTROL, InterfaceAddress("eth0", "10.0.0.12", 24)], interface="eth0")
    with pytest.raises(NodeError, match="no address fits"):
        choose_address([LOOPBACK])


def test_subnet_of_an_interface():
    assert str(subnet_of(ADDRESSES, "eth0")) == "10.0.0.0/24"


def test_default_route_interface_takes_the_lowest_metric():
    routes = (
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
        "net1\t00000000\t0100A8C0\t0003\t0\t0\t200\t00000000\t0\t0\t0\n"
        "eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
        "eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    )
    assert default_route_interface(routes) == "eth0"
    assert default_route_interface(routes.splitlines()[0]) is None


@pytest.mark.parametrize(
    "text", ["", "20000", "20000-", "20999-20000", "0-10", "65000-65536", "a-b", "-5-10", "1-" + "9" * 5000]
)
def test_port_range_refuses(text):
    with pytest.raises(OptionError, match="range: .*20000-20999"):
        parse_port_range(text)


def test_free_ports_are_different_and_can_be_bound():
    ports = free_ports("127.0.0.1", 20)
    assert len(set(ports)) == 20
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", ports[0]))


def test_free_ports_passes_over_a_taken_and_an_excluded_one():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        taken = listener.getsockname()[1]
        free = free_ports("127.0.0.1", 2)
        assert free_ports("127.0.0.1", 1, [taken, *free], exclude={free[0]}) == [free[1]]
        with pytest.raises(NodeError, match="has 0 free TCP ports"):
            free_ports("127.0.0.1", 1, [taken])


def test_free_ports_of_an_address_that_is_not_here():
    with pytest.raises(NodeError, match="cannot bind to 203.0.113.7"):
        free_ports("203.0.113.7")


def test_read_addresses_finds_loopback():
    assert LOOPBACK in read_addresses()
