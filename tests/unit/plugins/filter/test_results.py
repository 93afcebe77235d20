# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import json
import pathlib
import re

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpufabric.nccl.plugins.filter.results import FilterModule
from ansible_collections.gpufabric.nccl.plugins.filter.sweep import sweep_results
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.sweep import sweep_points
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import parse_results

TEXT = (pathlib.Path(__file__).parents[2] / "fixtures" / "alltoall_cpu.txt").read_text(encoding="utf-8")
FILTERS = FilterModule().filters()


@pytest.mark.parametrize(
    ("name", "begin"), [("results_table", "alltoall (cpu 0.1.0)"), ("results_markdown", "# Benchmark")]
)
def test_text(name, begin):
    assert FILTERS[name](parse_results(TEXT.splitlines())).startswith(begin)


@pytest.mark.parametrize("name", sorted(FILTERS))
def test_a_text_of_a_machine_is_no_template(name):
    """Before ansible-core 2.19, set_fact may run one in what a filter makes of hostvars."""
    template = "{{ lookup('pipe', 'id') }}{% if true %}{# x #}"
    (document,) = parse_results(TEXT.splitlines())
    problem = {
        "id": template,
        "severity": "error",
        "host": template,
        "cause": template,
        "cure": "D.",
        "evidence": template,
    }
    odd = {**document, "collective": template, "problems": [problem]}
    odd["rows"] = [{**row, "type": template} for row in document["rows"]]
    made = FILTERS[name]([odd], *([[odd]] if name == "compare_results" else []))
    assert "lookup(" in repr(made) and not re.search(r"\{[{%#]", json.dumps(made))


@pytest.mark.parametrize("name", sorted(FILTERS))
def test_error_names_the_filter(name):
    with pytest.raises(AnsibleFilterError, match=f"{name}: a list of result documents is needed"):
        FILTERS[name]("text", *([[]] if name == "compare_results" else []))


def test_compare_results_checks_both_sides():
    documents = parse_results(TEXT.splitlines())
    result = FILTERS["compare_results"](documents, documents)
    assert result["counts"]["noise unknown"] == len(result["rows"]) > 0
    with pytest.raises(AnsibleFilterError, match="compare_results: a list of result documents is needed"):
        FILTERS["compare_results"](documents, [{}])


def swept():
    """A sweep of which the last point was not run, and one failed."""
    (document,) = parse_results(TEXT.splitlines())
    points = sweep_points({"collectives": "alltoall", "env": {"NCCL_ALGO": "Ring"}, "repeats": 3})
    documents = [{**document, "points": {"sweep": {**point, "total": 6}}} for point in points[:5]]
    wrong = {"id": "run-failed", "severity": "error", "host": None, "cause": "C.", "cure": "D.", "evidence": "E"}
    documents[1] = {**documents[1], "rows": [], "problems": [wrong], "verdict": "fail"}
    return documents


def test_a_name_of_a_point_is_no_template():
    documents = swept()
    documents[1]["points"]["sweep"] = {**documents[1]["points"]["sweep"], "name": "{{ 7 * 7 }}"}
    assert sweep_results(documents)["excluded"][0]["name"] == "{ { 7 * 7 }}"


def test_points_of_a_sweep_are_told_together():
    documents, alone = swept(), parse_results(TEXT.splitlines())
    table = FILTERS["results_table"]([*documents, *alone])
    # In full is the test that is none of its points.
    assert table.startswith("alltoall (cpu 0.1.0)") and table.count("out-of-place") == 1
    assert "alltoall NCCL_ALGO=Ring #1, FAIL\nERROR run-failed: C.\n" in table
    assert "4 of 6 tests used, 1 failed, 1 not run." in table
    assert table.endswith("Verdict over 6 tests: FAIL, by the CPU program: NCCL was not tested\n")

    report = FILTERS["results_markdown"]([*documents, *alone])
    headings = [line for line in report.splitlines() if line.startswith("#")]
    assert headings[:3] == ["# Benchmark report", "## Sweep", "### Best settings"]
    assert [line for line in headings if line.startswith("## ")][1:] == [
        *("## Summary", "## Problems", "## 6. alltoall", "## How to read it")
    ]
    assert "### 2. alltoall NCCL_ALGO=Ring #1: error `run-failed`" in headings
    hosts = report.split("### Hosts of the sweep\n\n")[1].split("\n\n")[0]
    assert hosts.count("\n") == 1 + documents[0]["host_count"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["verdict"], "fine"),
        (["verdict"], []),
        (["tool"], None),
        (["tool", "name"], 3),
        (["collective"], []),
        (["host_count"], None),
        (["summary"], []),
        (["summary", "avg_busbw"], 10**400),
        (["summary", "peak_size"], float("inf")),
        (["rows", 0], None),
        (["rows", 0, "type"], {}),
        (["ranks", 0, "host"], 5),
        (["env"], None),
        (["points"], None),
        (["points", "argv"], "x"),
        (["points", "env"], []),
        (["points", "sweep"], {"id": "x"}),
        (["hardware"], {"nic_gbps": 10**400, "rails": 8, "ports": 8, "nvlink_gbytes": None}),
        (["hardware"], {"nic_gbps": 0, "rails": 8, "ports": 8, "nvlink_gbytes": None}),
        (["stragglers"], [{"rank": 0, "host": "h", "device": None, "share": 10**400}]),
    ],
)
def test_a_document_that_somebody_has_edited_is_one_clear_error(path, value):
    (document,) = copy.deepcopy(parse_results(TEXT.splitlines()))
    *before, last = path
    place = document
    for name in before:
        place = place[name]
    place[last] = value
    for name in ("results_table", "results_markdown"):
        with pytest.raises(AnsibleFilterError, match=f"^{name}: (a list of result documents is needed|stragglers of)"):
            FILTERS[name]([document])
