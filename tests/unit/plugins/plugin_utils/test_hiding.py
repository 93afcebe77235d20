# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._hiding import HIDDEN, LONGEST, hidden

TOKEN = {"MY_TOKEN": "t0ken"}
CONTAINER = {"name": "c", "env": [{"name": "MY_TOKEN", "value": "t0ken"}]}


@pytest.mark.parametrize(
    "result",
    [
        {"settings": {"env": TOKEN}},
        {"points": [{"env": {}}, {"env": TOKEN}]},
        {"node_env": TOKEN},
        {"environment": TOKEN},
        {"objects": [{"spec": {"template": {"spec": {"containers": [CONTAINER]}}}}]},
        {"objects": ({"kind": "Secret", "data": {"key": "dDBrZW4="}},)},
    ],
)
def test_what_has_values_is_shown_to_nobody(result):
    assert hidden(result) == HIDDEN
    # Problems are for people to read.
    assert hidden({**result, "failed": True}) == {}


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"settings": {"env": {"NCCL_DEBUG": "WARN"}, "forward_env": ["MY_TOKEN"]}},
        {"points": [{"env": {"MY_TOKEN": "(not shown)"}}]},
        # From a Secret.
        {"containers": [{"env": [{"name": "MY_TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}]},
        {"env": "text", "environment": [1], "node_env": None},
    ],
)
def test_the_rest_is_shown(result):
    assert hidden(result) == {}


def test_what_is_long_is_shown_to_nobody():
    hosts = {"hosts": [{"name": f"gpu-{number}", "address": "10.0.0.1"} for number in range(LONGEST // 10)]}
    assert hidden(hosts) == HIDDEN and hidden({"hosts": hosts["hosts"][:16]}) == {}
    # A failure is short, or is for people to read.
    assert hidden({**hosts, "failed": True}) == {}
