# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import resource

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import free_ports
from ansible_collections.gpufabric.nccl.plugins.modules import free_port


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 0}, "count: 0 is not allowed; allowed: 1 to 1000"),
        (
            {"range": "20-10"},
            "range: '20-10' is not allowed; allowed: FIRST-LAST, both from 1 to 65535, such as 20000-20999",
        ),
        ({"exclude": [70000]}, "exclude: 70000 is not allowed; allowed: ports from 1 to 65535"),
        (
            {"interface": "nosuch7"},
            "interface: 'nosuch7' is not allowed; allowed: an interface of this node that has an address:"
            " {interfaces_with_address}",
        ),
        (
            {"address": "nohost"},
            "address: 'nohost' is not allowed; allowed: a numeric IPv4 or IPv6 address, such as 10.0.0.1, without a zone",
        ),
    ],
)
def test_bad_input_is_one_line(refuse, options, message):
    refuse(free_port, options, message)


def test_many_ports_are_found_where_a_process_may_have_few_files_open():
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = {"count": 300, "address": "127.0.0.1", "interface": None, "range": None, "exclude": []}
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, limits[1]))
    try:
        assert len(free_port.find(wanted, False)["ports"]) == 300
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, limits[1]))
        with pytest.raises(NodeError, match="Too many open files"):
            free_ports("127.0.0.1", 300)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
