# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Limits, a baseline and assertions from a playbook's variables to the report and the end of the play."""

from __future__ import annotations

import copy
import json
import pathlib
import re
import typing as t

import pytest

RULES = "gpufabric.nccl.report : Check the limits"


def one_line(output: str) -> str:
    return " ".join(output.split())


def scaled(document: dict[str, t.Any], factor: float) -> dict[str, t.Any]:
    """The document of a run whose times are a multiple of another's."""
    document = copy.deepcopy(document)
    for row in document["rows"]:
        for half in ("out_of_place", "in_place"):
            row[half]["time_us"] *= factor
            row[half]["algbw"] /= factor
            row[half]["busbw"] /= factor
    return document


def report(document: dict[str, t.Any], directory: pathlib.Path, **variables: t.Any) -> dict[str, t.Any]:
    """A play that reports a document, for a host of its own: what is known of an earlier one's folder is not of this."""
    role = {"ansible.builtin.import_role": {"name": "gpufabric.nccl.report"}}
    given = {"ansible_connection": "local", "report_results": [document], "report_dir": str(directory), **variables}
    return {"hosts": directory.name, "gather_facts": False, "vars": given, "tasks": [role]}


def test_rules_that_cannot_be_applied_are_told_before_anything_is_done(nodes, tmp_path):
    """Here of one rule; all are tried in the unit test of nccl_result."""
    played = nodes.benchmark(tmp_path / "report", report_thresholds={"rules": [{"limit": -1}]})
    message = "thresholds.rules[0].limit: -1.0 is not allowed; allowed: a number, 0 or more"
    assert played.returncode == 2 and message in one_line(played.output) and "Traceback" not in played.output
    assert [record["task"] for record in played.records][-1] == RULES
    assert played.changed() == [] and not (tmp_path / "report").exists()


@pytest.mark.slow
def test_runs_are_kept_and_held_against_what_was_asked_for(nodes, player, tmp_path):
    baseline, kept = tmp_path / "baseline.json", {"rules": [{"name": "Alive", "limit": 1e-9}]}
    save = {"report_baseline": {"path": str(baseline), "mode": "save"}}
    # On a machine that is busy, what is printed as bandwidth of smaller sizes may be 0.00 GB/s.
    played = nodes.benchmark(tmp_path / "first", report_thresholds=kept, nccl_benchmark_max_bytes="2M", **save)
    assert played.returncode == 0, played.output
    assert f"Baseline saved: all_reduce 1 run, in {baseline}" in one_line(played.output)
    assert re.search(r"KEPT Alive: [0-9.e-]+ GB/s at .*? % above 1e-09 GB/s \(the rule\)", one_line(played.output))
    (document,) = json.loads((tmp_path / "first/results.json").read_text())["results"]
    assert [(entry["rule"], entry["passed"]) for entry in document["verdicts"]] == [
        ("no wrong values", True),
        ("Alive", True),
    ]

    # Later runs of the same: two as fast, which are kept, and one that takes twice as long and misses what was asked for.
    usual = {"baseline_percent": 1, "size": 8, "metric": "out_of_place.time_us"}
    rules = [*kept["rules"], {"name": "Impossible", "limit": 1e6, "size": "32K"}, usual]
    again = player.playbook(
        [
            report(scaled(document, 1.01), tmp_path / "second", report_formats=["json"], **save),
            report(scaled(document, 0.99), tmp_path / "third", report_formats=["json"], **save),
            report(
                scaled(document, 2),
                tmp_path / "missed",
                report_thresholds={"rules": rules},
                report_baseline=str(baseline),
                report_assertions=[{"that": "rank_count == `64`", "msg": "64 ranks were bought", "name": "ranks"}],
            ),
        ],
        "-i",
        "second,third,missed,",
    )
    told = one_line(again.output)
    assert f"Baseline saved: all_reduce 3 runs, in {baseline}" in told and again.returncode == 2
    # The third was the last that was kept.
    measurements = json.loads(baseline.read_text())["measurements"]
    assert {entry["time_us"]["n"] for entry in measurements} == {3}
    (missed,) = json.loads((tmp_path / "missed/results.json").read_text())["results"]
    _wrong, alive, impossible, slow, ranks = missed["verdicts"]
    assert missed["verdict"] == "fail"
    assert [entry["passed"] for entry in (alive, impossible, slow, ranks)] == [True, False, False, False]
    assert "the median of 3 runs in the baseline" in slow["source"]
    first = next(row for row in document["rows"] if row["size"] == 8)["out_of_place"]["time_us"]
    # What the three differ by counts too.
    assert slow["value"] == pytest.approx(2 * first, rel=1e-4) and 1.01 * first <= slow["limit"] < 1.1 * first
    words = f"Impossible: {impossible['value']:.4g} GB/s at 32 KiB, 100 % below 1,000,000 GB/s (the rule)"
    failure = one_line(again.records[-1]["result"]["msg"])
    for expected in (words, "64 ranks were bought", "The verdict is fail: all_reduce."):
        assert expected in failure and expected in told
    for name in ("report.md", "report.html", "junit.xml"):
        assert words in (tmp_path / "missed" / name).read_text(), name
    assert re.search(
        r'^gpufabric_nccl_rule_kept\{.*rule="Impossible".*\} 0.0$',
        (tmp_path / "missed/results.prom").read_text(),
        re.MULTILINE,
    )
    assert "baseline: median, least to greatest" in (tmp_path / "missed/report.html").read_text()
