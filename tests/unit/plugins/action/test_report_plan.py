# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables of the role report, however they were given."""

from __future__ import annotations

import os

import pytest
from ansible_collections.gpufabric.nccl.plugins.action.report_plan import ActionModule as ReportPlan


@pytest.fixture
def plan(planned):
    return lambda **variables: planned(ReportPlan, "report", {}, **variables)


@pytest.mark.parametrize("given", [["fail", "unchecked"], "fail,unchecked", '["fail", "unchecked"]', "fail\nunchecked"])
def test_verdicts_that_fail_the_play(plan, given):
    assert plan(report_fail_on=given)["fail_on"] == ["fail", "unchecked"]


def test_a_host_does_not_say_by_its_facts_what_fails_the_play(plan):
    """A play may have gathered them after the last look at those of all hosts."""
    told = plan(report_fail_on=[], ansible_facts={"report_fail_on": []}, inventory_hostname="g1")
    assert told["msg"].startswith(
        "report_fail_on: it is among the facts of g1, which take precedence over the inventory"
    )
    assert plan(ansible_facts={"distribution": "Debian"}, inventory_hostname="g1")["fail_on"] == ["fail", "incomplete"]


def test_what_is_left_blank_is_the_default(plan):
    found = plan(**dict.fromkeys(("report_fail_on", "report_formats", "report_thresholds", "report_baseline"), ""))
    assert found["fail_on"] == ["fail", "incomplete"] and found["formats"][0] == "json"
    assert (found["thresholds"], found["baseline"], found["saved"], found["is_judged"]) == ({}, {}, {}, False)


@pytest.mark.parametrize(
    "given", ["b.json", {"path": "b.json"}, '{"path": "b.json", "mode": "compare"}', {"path": "b.json", "mode": None}]
)
def test_a_baseline_to_compare_with(plan, given):
    found = plan(report_baseline=given)
    assert found["baseline"] == {"path": os.path.realpath("b.json")}
    assert (found["saved"], found["is_judged"]) == ({}, True)


def test_a_baseline_to_save(plan):
    found = plan(report_baseline={"path": "~/b.json", "mode": "save", "add": "yes"})
    assert found["saved"] == {"path": os.path.realpath(os.path.expanduser("~/b.json")), "add": True}
    assert (found["baseline"], found["is_judged"]) == ({}, False)


def test_rules_as_text(plan):
    found = plan(report_thresholds='{"rules": [{"limit": 1}]}', report_assertions='[{"that": "complete"}]')
    assert found["thresholds"] == {"rules": [{"limit": 1}]}
    assert (found["assertions"], found["is_judged"]) == ([{"that": "complete"}], True)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"report_fail_on": "never"}, "report_fail_on: 'never' is not allowed; allowed: fail, incomplete, unchecked"),
        ({"report_formats": ["pdf"]}, "report_formats: 'pdf'"),
        ({"report_baseline": ["b.json"]}, "report_baseline: ['b.json']"),
        ({"report_baseline": "{"}, "report_baseline: '{'"),
        ({"report_baseline": {"file": "b.json"}}, "report_baseline.file: 'b.json'"),
        ({"report_baseline": {"path": "b", "mode": "sav"}}, "report_baseline.mode: 'sav' is not allowed; allowed: compare, save"),
        ({"report_baseline": {"mode": "save"}}, "report_baseline.path: None"),
        ({"report_baseline": {"mode": "compare"}}, "report_baseline.path: None is not allowed; allowed: the path of a file to"),
        ({"report_baseline": {"path": " ", "tolerance_percent": 5}}, "report_baseline.path: ' '"),
        ({"report_baseline": {"path": "b", "tolerance_percent": "much"}}, "report_baseline.tolerance_percent: 'much'"),
    ],
)  # fmt: skip
def test_what_is_not_allowed(plan, variables, words):
    found = plan(**variables)
    assert found["failed"] and words in found["msg"]
