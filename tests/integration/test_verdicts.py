# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Limits, a baseline and assertions from a playbook's variables to the report and the end of the play."""

from __future__ import annotations

import json
import re

import pytest

RULES = "gpufabric.nccl.report : Check what the results are to be held against"


def one_line(output: str) -> str:
    return " ".join(output.split())


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"report_thresholds": {"rules": [{"limit": 1, "hosts": 2}]}},
            "Unsupported parameters for (gpufabric.nccl.nccl_result) module: thresholds.rules.hosts.",
        ),
        (
            {"report_thresholds": {"rules": [{"limit": -1}]}},
            "thresholds.rules[0].limit: -1.0 is not allowed; allowed: a number, 0 or more",
        ),
        (
            {"report_baseline": "none.json"},
            "/none.json' is not allowed; allowed: a file on this host, such as mode=save makes",
        ),
        (
            {"report_assertions": [{"that": "rank_count =="}]},
            "assertions[0].that: 'rank_count ==' is not allowed; allowed: an expression of JMESPath",
        ),
    ],
)
def test_rules_that_cannot_be_applied_are_told_before_anything_is_done(nodes, tmp_path, variables, message):
    played = nodes.benchmark(tmp_path / "report", **variables)
    assert played.returncode == 2 and message in one_line(played.output) and "Traceback" not in played.output
    assert [record["task"] for record in played.records][-1] == RULES
    assert played.changed() == [] and not (tmp_path / "report").exists()


def test_runs_are_kept_and_held_against_what_was_asked_for(nodes, tmp_path):
    baseline, kept = tmp_path / "baseline.json", {"rules": [{"name": "Alive", "limit": 1e-9}]}
    # On a machine that is busy, what is printed as bandwidth of smaller sizes may be 0.00 GB/s.
    large = {"nccl_benchmark_max_bytes": "2M", "nccl_benchmark_step_factor": 8}
    for number in ("1 run", "2 runs", "3 runs"):
        played = nodes.benchmark(
            tmp_path / "kept", report_thresholds=kept, report_baseline={"path": str(baseline), "mode": "save"}, **large
        )
        assert played.returncode == 0, played.output
        assert f"Baseline saved: all_reduce {number}, in {baseline}" in one_line(played.output)
    assert re.search(r"KEPT Alive: [0-9.e-]+ GB/s at .*? % above 1e-09 GB/s \(the rule\)", one_line(played.output))
    (document,) = json.loads((tmp_path / "kept/results.json").read_text())["results"]
    assert [(entry["rule"], entry["passed"]) for entry in document["verdicts"]] == [
        ("no wrong values", True),
        ("Alive", True),
    ]
    text = baseline.read_text()
    assert {entry["time_us"]["n"] for entry in json.loads(text)["measurements"]} == {3}

    rules = [{"name": "Impossible", "limit": 1e6, "size": "32K"}, {"baseline_percent": 1, "size": 8}]
    rules[1]["metric"] = "out_of_place.time_us"
    played = nodes.benchmark(
        tmp_path / "missed",
        report_thresholds={"rules": [*kept["rules"], *rules]},
        report_baseline=str(baseline),
        report_assertions=[{"that": "rank_count == `64`", "msg": "64 ranks were bought", "name": "ranks"}],
        **large,
    )
    told = one_line(played.output)
    assert played.returncode == 2 and baseline.read_text() == text
    (document,) = json.loads((tmp_path / "missed/results.json").read_text())["results"]
    _wrong, alive, impossible, usual, ranks = document["verdicts"]
    assert document["verdict"] == "fail" and (alive["passed"], impossible["passed"], ranks["passed"]) == (
        True,
        False,
        False,
    )
    # How the times of two runs compare is not for a test to say.
    assert usual["passed"] is not None and "the median of 3 runs in the baseline" in usual["source"]
    missed = f"Impossible: {impossible['value']:.4g} GB/s at 32 KiB, 100 % below 1e+06 GB/s (the rule)"
    failure = one_line(played.records[-1]["result"]["msg"])
    for words in (missed, "64 ranks were bought", "The verdict is fail: all_reduce."):
        assert words in failure and words in told
    for name in ("report.md", "report.html", "junit.xml"):
        assert missed in (tmp_path / "missed" / name).read_text(), name
    assert re.search(
        r'^gpufabric_nccl_rule_kept\{.*rule="Impossible".*\} 0.0$',
        (tmp_path / "missed/results.prom").read_text(),
        re.MULTILINE,
    )
    assert "baseline: median, least to greatest" in (tmp_path / "missed/report.html").read_text()
