# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import read_addresses
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.info import group_interfaces
from ansible_collections.gpufabric.nccl.plugins.modules import mpi_node_info

INTERFACE = "'nosuch7' is not allowed; allowed: an interface of this node: {interfaces}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"control_interface": "nosuch7"}, f"control_interface: {INTERFACE} (variable: gpufabric_control_interface)"),
        ({"data_interface": "nosuch7"}, f"data_interface: {INTERFACE} (variable: gpufabric_data_interface)"),
        ({"data_interface": "lo,nosuch7"}, f"data_interface: {INTERFACE} (variable: gpufabric_data_interface)"),
        *(
            (
                {"data_interface": names},
                f"data_interface: {bad!r}{INTERFACE[len(repr('nosuch7')) :]} (variable: gpufabric_data_interface)",
            )
            for names, bad in ((".", "."), ("lo,", ""), ("lo, lo", " lo"))
        ),
        (
            {"data_interface": "lo", "data_subnet": "127.0.0.0/8"},
            "data_subnet: '127.0.0.0/8' is not allowed; allowed: to leave it out, since data_interface is set, too"
            " (variable: gpufabric_data_subnet)",
        ),
        (
            {"data_subnet": "net1"},
            "data_subnet: 'net1' is not allowed; allowed: a subnet with its prefix length, such as 10.0.0.0/24",
        ),
        (
            {"mpi_prefix": "/nosuch"},
            "mpi_prefix: '/nosuch' is not allowed; allowed: a directory with bin/mpirun in it",
        ),
        (
            {"benchmark_dir": "/nosuch"},
            "benchmark_dir: '/nosuch' is not allowed; allowed: a directory of this node (variable: nccl_benchmark_dir)",
        ),
    ],
)
def test_bad_input_is_one_line(refuse, options, message):
    refuse(mpi_node_info, options, message)


def test_a_subnet_of_others_is_refused_with_those_of_this_node(refuse):
    own = ", ".join(
        f"{address} ({name})" for name, items in group_interfaces(read_addresses()).items() for address in items
    )
    message = f"data_subnet: '240.0.0.0/24' is not allowed; allowed: a subnet that this node has an address in: {own}"
    refuse(mpi_node_info, {"data_subnet": "240.0.0.0/24"}, message)
