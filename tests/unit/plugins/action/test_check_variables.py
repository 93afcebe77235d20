# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpufabric.nccl.plugins.action.check_variables import ActionModule

ROLES = ["nccl_benchmark", "key_exchange", "preflight", "report"]


@pytest.fixture
def check(planned):
    return lambda roles=ROLES, **variables: planned(ActionModule, "key_exchange", {"roles": roles}, **variables)


def test_variables_of_all_roles_may_be_text(check):
    text = {
        "nccl_benchmark_collectives": "all_reduce,alltoall",
        "key_exchange_port": "2200",
        "preflight_expect": '{"gpus": 8}',
        "report_formats": "json\nhtml",
        "gpufabric_hosts": ["g1"],
    }
    assert check(**text) == {"changed": False}


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"key_exchange_port": "ssh"}, "key_exchange_port: 'ssh' is not allowed; allowed: a whole number"),
        ({"preflight_level": "deep"}, "preflight_level: 'deep' is not allowed; allowed: none, quick, full"),
        ({"report_formats": "json,pdf"}, "report_formats: 'pdf' is not allowed; allowed: json, csv, "),
        ({"gpufabric_hosts": "g1,g2"}, "gpufabric_hosts: 'g1,g2' is not allowed; allowed: a list; on the command line in JSON: -e"),
        ({"gpufabric_node_env": "A=1"}, "gpufabric_node_env: 'A=1' is not allowed; allowed: a dictionary; on the command line"),
        ({"roles": ["keyexchange"]}, "roles: 'keyexchange' is not allowed; allowed: isolate, key_exchange, "),
    ],
)  # fmt: skip
def test_a_wrong_variable_is_one_line_that_names_it(check, variables, message):
    result = check(**variables)
    assert result["failed"] and result["msg"].startswith(message) and "\n" not in result["msg"]
