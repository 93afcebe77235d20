# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ast
import pathlib
import re

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.gpufabric.nccl.plugins.filter.sweep import FilterModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark import plan as planner
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark import sweep as sweep_module
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._results import sweep_analysis

FILTERS = FilterModule().filters()
ROOT = pathlib.Path(__file__).parents[4]
DOCUMENTED = ROOT / "plugins" / "filter"


def documented(name):
    return yaml.safe_load((DOCUMENTED / f"{name}.yml").read_text())["DOCUMENTATION"]["options"]


def test_error_names_filter_and_option():
    with pytest.raises(AnsibleFilterError, match="^sweep_points: my_sweep.repeats: 0 is not allowed"):
        FILTERS["sweep_points"]({"repeats": 0}, "my_sweep")
    with pytest.raises(AnsibleFilterError, match="^sweep_results: a list of result documents is needed"):
        FILTERS["sweep_results"]("text")
    with pytest.raises(AnsibleFilterError, match="^sweep_results: bands: '1X' is not allowed"):
        FILTERS["sweep_results"]([], bands=["1X"])


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ({"points": "x"}, "points: 'x'"),
        ({"points": [{"id": "a"}]}, "points[0]: {'id': 'a'}"),
        ({"default": ["NCCL_ALGO"]}, "default: ['NCCL_ALGO']"),
        ({"bands": 64}, "bands: 64"),
        ({"bands": "64K"}, "bands: '64K'"),
    ],
)
def test_arguments_of_another_kind_are_one_error_that_names_them(arguments, option):
    with pytest.raises(AnsibleFilterError, match=re.escape(f"sweep_results: {option} is not allowed; allowed: ")):
        FILTERS["sweep_results"]([], **arguments)
    assert FILTERS["sweep_results"]([], FILTERS["sweep_points"]({}), {}, ["1M"])["bands"] == []


def test_keys_of_a_sweep_are_the_documented_ones():
    options = documented("sweep_points")["_input"]["suboptions"]
    sizes = options["sizes"]["suboptions"]
    assert {name: item["default"] for name, item in sizes.items()} == sweep_module._SIZES
    defaults = {name: item.get("default") for name, item in options.items()}
    assert {**defaults, "sizes": sweep_module._SIZES} == sweep_module._DEFAULTS
    assert options["collectives"]["choices"] == list(planner.COLLECTIVES)
    assert options["datatypes"]["choices"] == list(sweep_module.DATATYPES)
    assert options["operations"]["choices"] == list(sweep_module.OPERATIONS)


def test_bands_are_the_documented_ones():
    assert documented("sweep_results")["bands"]["default"] == list(sweep_analysis.BANDS)


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
SETTINGS = {
    "backend": "auto",
    "collectives": ["all_reduce"],
    "launcher": None,
    "dedicated_launcher": False,
    "ranks_per_node": "2",
    "min_bytes": "8",
    "max_bytes": "4M",
    "step_factor": "4",
    "iterations": 20,
    "warmup_iterations": 1,
    "timeout": 600,
    "check": True,
    "extra_args": [],
    "env": {"NCCL_DEBUG": "WARN"},
}
SWEEP = {
    "collectives": ["all_reduce", "all_gather"],
    "datatypes": "half",
    "ranks_per_node": [2, 4],
    "env": {"NCCL_ALGO": [None, "Ring"]},
    "repeats": 2,
}


def plan_of(sweep, peers=(), **settings):
    settings = sweep_module.with_sweep({**SETTINGS, **settings, "sweep": sweep})
    if peers is None:
        return planner.check_nodes({"g1": NODE}, settings)
    return planner.plan_benchmark({"g1": NODE}, peers or PEERS, settings)


@pytest.mark.parametrize("sizes", [{"min": "1K"}, [{"min": "1K"}], {"max": "4M", "min": 1024}])
def test_ranges_of_sizes_have_the_rest_of_the_role(sizes):
    plan = plan_of({"sizes": sizes, "repeats": 1})
    assert {tuple(point["argv"][1:7]) for point in plan["points"]} == {("-b", "1024", "-e", str(4 << 20), "-f", "4")}


def test_plan_of_a_sweep():
    plan = plan_of(SWEEP)
    assert (len(plan["points"]), len(plan["sweep"])) == (16, 16)
    # Room for the point with the most ranks.
    assert plan["hosts"][0]["slots"] == 4
    for point, swept in zip(plan["points"], plan["sweep"]):
        assert point["argv"][0] == f"/opt/nccl-tests/{swept['collective']}_perf"
        assert point["argv"][1:7] == ["-b", "8", "-e", str(4 * 2**20), "-f", "4"]
        assert point["argv"][15:] == ["-d", "half", *(["-o", "sum"] if swept["collective"] == "all_reduce" else [])]
        # What the launcher has of a variable that the sweep varies is not to be handed on.
        assert point["env"] == {"NCCL_DEBUG": "WARN", "NCCL_ALGO": swept["env"].get("NCCL_ALGO")}
        assert (point["id"], point["name"]) == (swept["id"], swept["name"])
        assert point["ranks_per_node"] == swept["ranks_per_node"]


def test_points_of_a_sweep_that_were_not_run_are_missing_and_no_failure():
    plan = plan_of(SWEEP)
    result = {**planner._empty_document(), "complete": True, "verdict": "pass", "ranks": []}
    done = {"status": "finished", "problems": [], "duration": 2.0, "results": [result]}
    ended = {"id": "not-run", "severity": "error", "cause": "", "cure": "", "host": None, "evidence": ""}
    points = [done] * 10 + [{"status": "not_run", "problems": [ended], "duration": None}] * 6
    documents = planner.complete_results(plan, {"points": points, "limited": True})
    assert [item["points"]["sweep"] for item in documents] == [{**point, "total": 16} for point in plan["sweep"][:10]]
    assert [item["collective"] for item in documents] == [point["collective"] for point in plan["sweep"][:10]]
    results = FILTERS["sweep_results"](documents, plan["sweep"])
    assert results["missing"] == [point["id"] for point in plan["sweep"][10:]]
    assert (results["remaining"]["left"], results["remaining"]["seconds"]) == (6, 12.0)
    # Without the plan it is known how many.
    assert FILTERS["sweep_results"](documents)["counts"]["missing"] == 6
    # Nobody's limit: somebody ended the run.
    assert len(planner.complete_results(plan, {"points": points})) == 16


@pytest.mark.parametrize("peers", [None, PEERS])
@pytest.mark.parametrize(
    ("sweep", "settings", "begin"),
    [
        ("env", {}, "nccl_benchmark_sweep: 'env' "),
        ({"repeats": 0}, {}, "nccl_benchmark_sweep.repeats: 0 "),
        ({"ranks_per_node": [None, 4]}, {}, "nccl_benchmark_sweep.ranks_per_node: "),
        ({"env": {"NCCL_DEBUG": [None, "INFO"]}}, {}, "nccl_benchmark_env: ['NCCL_DEBUG'] "),
        ({"datatypes": ["half", "bfloat16"]}, {"backend": "cpu"}, "nccl_benchmark_sweep.datatypes: ['bfloat16'] "),
        ({"datatypes": "half"}, {"time_limit": 0}, "nccl_benchmark_time_limit: "),
        ({"repeats": 1}, {"extra_args": ["-z 1", "-d half"]}, "nccl_benchmark_extra_args: '-d half' "),
        ({"repeats": 1}, {"extra_args": ["--minby=4M"]}, "nccl_benchmark_extra_args: '--minby 4M' "),
        ({"repeats": 1}, {"extra_args": ["-omax"]}, "nccl_benchmark_extra_args: '-o max' "),
    ],
)
def test_errors_of_a_sweep_are_told_by_the_plan_before_anything_is_changed(sweep, settings, begin, peers):
    with pytest.raises(OptionError, match=f"^{re.escape(begin)}"):
        plan_of(sweep, peers, **settings)


def test_a_sweep_takes_further_arguments_that_no_point_has():
    given = ["-z", "1", "-c", "0", "--device_implementation", "1"]
    plan = plan_of({"repeats": 1}, extra_args=[" ".join(given)])
    assert plan["points"][0]["argv"][-6:] == given


def test_ranks_that_a_host_has_no_room_for():
    with pytest.raises(OptionError, match=r"^nccl_benchmark_sweep\.ranks_per_node: 9 "):
        plan_of({"ranks_per_node": [1, 9]})
    peers = [{**PEERS[0], "slots": 4}]
    with pytest.raises(OptionError, match=r"^nccl_benchmark_sweep\.ranks_per_node: 8 "):
        plan_of({"ranks_per_node": [1, 8]}, peers)
    assert plan_of({"ranks_per_node": [1, 2]}, peers)["hosts"][0]["slots"] == 2


def test_datatypes_of_the_cpu_program_are_those_that_it_knows():
    program = (ROOT / "plugins/plugin_utils/_programs/cpu_perf.py").read_text()
    values = {
        ast.unparse(item.targets[0]): item.value for item in ast.parse(program).body if isinstance(item, ast.Assign)
    }
    assert list(ast.literal_eval(values["TYPES"])) == list(planner.CPU_DATATYPES)


def test_problems_of_hosts_are_told_by_the_plan_before_anything_is_changed():
    with pytest.raises(ProblemError) as error:
        plan_of({"collectives": "alltoall"}, None, backend="nccl")
    assert [(one.id, one.host) for one in error.value.problems] == [("benchmark-missing", "g1")]
    assert "alltoall_perf" in error.value.problems[0].cause
