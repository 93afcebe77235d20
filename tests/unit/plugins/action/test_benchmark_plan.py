# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpufabric.nccl.plugins.action.benchmark_plan import ActionModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.task_results import failure_details

NODE = {
    "hostname": "g1",
    "interfaces": [{"name": "eth0", "mtu": 1500, "addresses": ["10.0.0.1/24"]}],
    "data": None,
    "gpus": {"vendor": "nvidia", "count": 8, "names": [], "unusable": []},
    "mpi": {"mpirun": "/usr/bin/mpirun", "prefix": "/usr", "implementation": "openmpi", "version": "4.1.4"},
    "benchmarks": {"directory": "/opt/nccl-tests", "programs": ["all_reduce_perf", "all_gather_perf"]},
    "python": {"executable": "/usr/bin/python3", "mpi4py": "3.1.4", "numpy": "1.24.2"},
}
PEERS = [{"name": "g1", "address": "10.0.0.1", "run_dir": "/run/gpufabric/x"}]


@pytest.fixture
def plan(planned):
    def of(nodes=None, peers=None, **variables):
        arguments = {"nodes": nodes or {"g1": NODE}, **({} if peers is None else {"peers": peers})}
        return planned(ActionModule, "nccl_benchmark", arguments, **variables)

    return of


def test_variables_that_were_given_as_text_are_read_as_their_types_say(plan):
    result = plan(
        peers=PEERS,
        nccl_benchmark_collectives="all_reduce, all_gather",
        nccl_benchmark_iterations="5",
        nccl_benchmark_check="no",
        nccl_benchmark_env="NCCL_DEBUG=WARN,NCCL_ALGO=Ring",
        nccl_benchmark_ranks_per_node="",
    )
    assert [point["name"] for point in result["points"]] == ["all_reduce", "all_gather"]
    argv = result["points"][0]["argv"]
    assert argv[argv.index("-n") + 1] == "5" and argv[argv.index("-c") + 1] == "0"
    assert result["points"][0]["env"] == {"NCCL_DEBUG": "WARN", "NCCL_ALGO": "Ring"}
    assert result["hosts"] == [{"name": "g1", "address": "10.0.0.1", "slots": 8}]
    assert result["settings"]["iterations"] == 5 and result["changed"] is False


def test_without_peers_it_is_only_whether_there_is_a_way(plan):
    result = plan()
    assert (result["backend"], result["launcher"]) == ("nccl", "g1") and "points" not in result


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"nccl_benchmark_env": {"NCCL_IB_DISABLE": True}}, "nccl_benchmark_env.NCCL_IB_DISABLE: True"),
        ({"gpufabric_node_env": {"NCCL_IB_DISABLE": True}}, "gpufabric_node_env.NCCL_IB_DISABLE: True"),
        ({"hostvars": {"g1": {"gpufabric_node_env": {"A": ["s3cret"]}}}}, "gpufabric_node_env.A: (not shown)"),
    ],
)
def test_a_truth_value_is_none_of_a_variable(plan, variables, message):
    """NCCL would read it as 0."""
    result = plan(**variables)
    assert result["failed"] and result["msg"].startswith(f"{message} is not allowed; allowed: a text or a number")


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (
            {"FI_X": 'a "b"'},
            "gpufabric_node_env.FI_X: (not shown) is not allowed; allowed: one line without double quotes",
        ),
        (
            {"FI_X": "a\nb"},
            "gpufabric_node_env.FI_X: (not shown) is not allowed; allowed: one line without double quotes",
        ),
        ({"A B": "1"}, "gpufabric_node_env: 'A B' is not allowed; allowed: names of environment variables"),
        ({"TMPDIR": "/x"}, "gpufabric_node_env: 'TMPDIR' is not allowed; allowed: names of environment variables"),
    ],
)
def test_what_no_sshd_can_set_is_refused_before_one_is_started(plan, own, message):
    """The sshd of the other workers would be started already."""
    result = plan(hostvars={"g1": {"gpufabric_node_env": own}})
    assert result["failed"] and result["msg"].startswith(message) and "\n" not in result["msg"]


def test_a_vaulted_text_that_a_worker_has_of_its_own_is_a_text(plan, vaulted):
    assert not plan(hostvars={"g1": {"gpufabric_node_env": {"A": vaulted}}}).get("failed")


@pytest.mark.parametrize("given", ["A B", "NCCL_ALGO=Ring", [1], ["$HOME"]])
def test_what_is_no_name_of_a_variable_would_not_be_forwarded(plan, given):
    result = plan(nccl_benchmark_forward_env=given)
    assert result["failed"] and result["msg"].startswith("nccl_benchmark_forward_env: ")
    assert "allowed: names of environment variables, with * and ? as wildcards" in result["msg"]


def test_points_of_a_sweep_are_listed(plan):
    result = plan(nccl_benchmark_sweep='{"datatypes": ["half", "float"], "repeats": 3}')
    assert len(result["points_table"].splitlines()) == 6


@pytest.mark.parametrize(
    "own",
    [
        {"gpufabric_node_env": {"NCCL_IB_HCA": "mlx5_0"}},
        {"gpufabric_node_env": "NCCL_IB_HCA=mlx5_0"},
        {"hostvars": {"g1": {"gpufabric_node_env": {"NCCL_IB_HCA": "mlx5_0"}}}},
    ],
)
def test_a_sweep_does_not_set_what_each_worker_sets_itself(plan, own):
    """The sshd of each sets it, so that a point without it would have it all the same."""
    sweep = {"env": {"NCCL_IB_HCA": [None, "mlx5_1"], "NCCL_ALGO": "Ring"}}
    result = plan(nccl_benchmark_sweep=sweep, **own)
    message = (
        "nccl_benchmark_sweep.env: ['NCCL_IB_HCA'] is not allowed; allowed: variables that gpufabric_node_env does not"
    )
    assert result["failed"] and result["msg"].startswith(message)
    assert plan(nccl_benchmark_sweep=sweep, hostvars={"g1": {"gpufabric_node_env": {"NCCL_DEBUG": "WARN"}}})[
        "points_table"
    ]


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"nccl_benchmark_iterations": "many"}, "nccl_benchmark_iterations: 'many' is not allowed; allowed: a whole number"),
        ({"nccl_benchmark_collectives": "gossip"}, "nccl_benchmark_collectives: 'gossip' is not allowed; allowed: all_reduce, "),
        ({"nccl_benchmark_cycles": 1e308}, "nccl_benchmark_cycles: 1e+308 is not allowed; allowed: a whole number of at most 64 bits"),
        ({"nccl_benchmark_min_bytes": "9" * 5000}, "nccl_benchmark_min_bytes: '999"),
        ({"nccl_benchmark_dir": "/opt/\0"}, "nccl_benchmark_dir: '/opt/\\x00' is not allowed; allowed: a text without NUL"),
        ({"nccl_benchmark_check": "maybe"}, "nccl_benchmark_check: 'maybe' is not allowed; allowed: true or false"),
        ({"nccl_benchmark_env": {"NCCL_IB_DISABLE": True}}, "nccl_benchmark_env.NCCL_IB_DISABLE: True is not allowed; allowed: a text or"),
        ({"nccl_benchmark_env": {"NCCL_IB_HCA": ["a"]}}, "nccl_benchmark_env.NCCL_IB_HCA: (not shown) is not allowed; allowed: a text or"),
        ({"nccl_benchmark_env": {"A": "\ud800"}}, "nccl_benchmark_env: {'A': (not shown)} is not allowed; allowed: names of"),
        ({"nccl_benchmark_ranks_per_node": 1025}, "nccl_benchmark_ranks_per_node: 1025 is not allowed; allowed: 1 to 1024"),
        ({"nccl_benchmark_sweep": {"ranks_per_node": [1, 9999]}}, "nccl_benchmark_sweep.ranks_per_node: 9999 is not allowed; allowed: 1 to 1024"),
        ({"nccl_benchmark_mca": {"btl": None}}, "nccl_benchmark_mca.btl: None is not allowed; allowed: a text or a number"),
        ({"gpufabric_node_env": {"NCCL_NVLS_ENABLE": False}}, "gpufabric_node_env.NCCL_NVLS_ENABLE: False is not allowed; allowed: a text"),
        ({"nccl_benchmark_launcher": "g9"}, "nccl_benchmark_launcher: 'g9' is not allowed; allowed: one of the workers: g1"),
    ],
)  # fmt: skip
def test_a_wrong_variable_is_one_line_that_names_it(plan, variables, message):
    result = plan(**variables)
    assert result["failed"] and result["msg"].startswith(message) and "\n" not in result["msg"]
    details = failure_details(result)
    assert details["problems"] == [] and details["end"] == result["msg"]


def test_no_collective_at_all_is_refused_before_a_size_is_chosen(plan):
    result = plan({"g1": NODE, "g2": {**NODE, "hostname": "g2"}}, nccl_benchmark_collectives=[])
    assert result["failed"] and result["msg"].startswith("nccl_benchmark_collectives: [] is not allowed; allowed: one")


def test_what_a_worker_lacks_fails_with_problems(plan, capsys):
    result = plan(
        {"g1": NODE, "g2": {**NODE, "hostname": "g2", "gpus": {**NODE["gpus"], "count": 0}}},
        nccl_benchmark_backend="nccl",
    )
    assert result["failed"] and [(entry["id"], entry["host"]) for entry in failure_details(result)["problems"]] == [
        ("gpus-missing", "g2")
    ]
    assert capsys.readouterr().out.startswith("WHAT IS WRONG\n  g2: ") and result["msg"] == "gpus-missing: see above."
