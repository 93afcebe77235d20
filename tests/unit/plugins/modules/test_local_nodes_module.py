# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os

import pytest
from ansible_collections.gpufabric.nccl.plugins.modules import local_nodes

NODES = {
    "state_dir": "{tmp}/nodes",
    "control_network": "control",
    "control_subnet": "192.0.2.0/24",
    "data_network": "data",
    "data_subnet": "198.51.100.0/24",
}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is let as far as these options")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 0}, "count: 0 is not allowed; allowed: 1 to 250"),
        (
            {"prefix": "g-"},
            "prefix: 'g-' is not allowed; allowed: 1 to 30 lowercase letters and digits, beginning with a letter",
        ),
        (
            {"control_subnet": "10.66.251.0"},
            "control_subnet: '10.66.251.0' is not allowed;"
            " allowed: a subnet with its prefix length, such as 10.0.0.0/24",
        ),
        (
            {"run_id": "a/b"},
            "run_id: 'a/b' is not allowed; allowed: 1 to 63 letters, digits, dots, underscores and dashes,"
            " beginning with a letter or digit",
        ),
    ],
)
def test_bad_input_is_one_line_and_starts_nothing(refuse, options, message):
    refuse(local_nodes, {"run_id": "bad", **NODES, **options}, message)
