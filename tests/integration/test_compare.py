# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts, baselines and comparisons on the controller, without any node."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import sys

import pytest
from conftest import Player

TEXT = (pathlib.Path(__file__).parents[1] / "unit" / "fixtures" / "alltoall_cpu.txt").read_text()


def timed(factor: float) -> str:
    """The output of a run whose times are a multiple of the fixture's; the bandwidths are left, which is a warning."""
    row = re.compile(r"^( +\d+ +\d+ +\w+ +\w+ +-?\d+ +)([0-9.]+)", re.MULTILINE)
    text, number = row.subn(lambda match: f"{match.group(1)}{float(match.group(2)) * factor:.2f}", TEXT)
    assert number > 1
    return text


@pytest.mark.parametrize(
    ("baseline", "message"),
    [
        (
            {"path": "b.json", "mode": "sav"},
            "report_baseline.mode: 'sav' is not allowed; allowed: compare, save",
        ),
        (
            {"mode": "save"},
            "report_baseline.path: None is not allowed; allowed: the path of a file, since mode is save",
        ),
        ({"path": "none.json"}, "none.json' is not allowed; allowed: a file on this host, such as nccl_baseline makes"),
        (
            {"path": "none/b.json", "mode": "save"},
            "none/b.json' is not allowed; allowed: a path in a folder that exists",
        ),
    ],
)
def test_a_baseline_that_cannot_be_used_is_told_before_anything_is_done(tmp_path, baseline, message):
    rules = {"ansible.builtin.include_role": {"name": "gpufabric.nccl.report", "tasks_from": "rules"}}
    play = {"hosts": "localhost", "gather_facts": False, "tasks": [rules], "vars": {"report_baseline": baseline}}
    played = Player(tmp_path).playbook([play])
    assert played.returncode == 2 and message in " ".join(played.output.split()), played.output
    assert played.changed() == []


def test_become_in_an_inventory_is_not_for_the_controller(tmp_path):
    """``all: vars: {ansible_become: true}`` is for workers that let in ordinary users alone."""
    become = {"ansible_become": True, "ansible_become_user": "nobody", "ansible_become_exe": "/nonexistent"}
    (tmp_path / "inventory.json").write_text(json.dumps({"all": {"vars": become, "hosts": {"gpu-1": {}}}}))
    rules = {"ansible.builtin.include_role": {"name": "gpufabric.nccl.report", "tasks_from": "rules"}, "run_once": True}
    limits = {"report_thresholds": {"rules": [{"limit": 1}]}}
    player = Player(tmp_path)
    play = {"hosts": "all", "gather_facts": False, "tasks": [rules], "vars": limits}
    played = player.playbook([play], "-i", "inventory.json")
    assert played.returncode == 0, played.output
    (tmp_path / "run.json").write_text(json.dumps({"results": []}))
    played = player.playbook(
        "gpufabric.nccl.compare", "-i", "inventory.json", compare_before="run.json", compare_after="run.json"
    )
    assert played.returncode == 0, played.output


def test_runs_are_judged_kept_and_compared(tmp_path):
    """Three runs become a baseline; a fourth that is slower misses it, and the comparison says the same."""
    factors = {"run1": 1.0, "run2": 1.01, "run3": 0.99, "slow": 2.0}
    for name, factor in factors.items():
        (tmp_path / f"{name}.log").write_text(timed(factor))
    baseline = {"path": str(tmp_path / "baseline.json")}
    tasks = [
        task
        # The last is one that is in it already.
        for name in ("run1", "run2", "run3", "run3")
        for task in (
            {
                "name": f"Read {name}",
                "gpufabric.nccl.nccl_result": {
                    "src": str(tmp_path / f"{name}.log"),
                    "dest": str(tmp_path / f"{name}.json"),
                },
                "register": "outcome",
            },
            {
                "name": f"Keep {name}",
                "gpufabric.nccl.nccl_baseline": {"results": "{{ outcome.results }}", **baseline},
            },
        )
    ]
    tasks += [
        {
            "name": "Judge a run",
            "gpufabric.nccl.nccl_result": {
                "src": str(tmp_path / "slow.log"),
                "dest": str(tmp_path / "slow.json"),
                "baseline": baseline,
                "thresholds": {
                    "rules": [
                        {"limit": 0.001, "collective": ["alltoall"]},
                        {"baseline_percent": 1, "over": "each", "metric": "in_place.busbw"},
                    ]
                },
                "assertions": [{"that": "rank_count == `0`", "msg": "there are ranks"}],
                "fail_on": ["fail"],
            },
            "ignore_errors": True,
        }
    ]
    player = Player(tmp_path)
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        # That of the tests, which has jmespath.
        "vars": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable},
        "tasks": tasks,
    }
    played = player.playbook([play], "--diff")
    assert played.returncode == 0, played.output
    kept = [record["result"] for record in played.records if record["task"].startswith("Keep")]
    assert [result["changed"] for result in kept] == [True, True, True, False]
    assert kept[-1]["baseline"] == json.loads((tmp_path / "baseline.json").read_text())
    judged = played.result(action="gpufabric.nccl.nccl_result")
    assert judged["failed"] and judged["msg"].startswith("the verdict is fail: ")
    assert [entry["passed"] for entry in judged["verdicts"]] == [True, True, True, False]
    assert judged["problems"][-1]["cause"] == "There are ranks."
    assert json.loads((tmp_path / "slow.json").read_text())["results"][0]["verdicts"] == judged["result"]["verdicts"]

    before = ",".join(f"{name}.json" for name in ("run1", "run2", "run3"))
    shutil.copy(tmp_path / "slow.json", tmp_path / "after.json")
    compared = player.playbook("gpufabric.nccl.compare", compare_before=before, compare_after="after.json")
    assert compared.returncode == 0, compared.output
    assert compared.changed() == ["localhost: Write the comparison"]
    report = (tmp_path / "compare.md").read_text()
    summary = next(line for line in report.splitlines() if " measurements: " in line)
    # In-place times are the same in all runs.
    half = int(summary.split()[0]) // 2
    told = f"{2 * half} measurements: {half} slower, {half} within noise."
    assert summary == f"{told} Tests that failed are compared, too: 0 of 3 before, 1 of 1 after."
    assert summary in compared.output and "Report: " in compared.output
    again = player.playbook("gpufabric.nccl.compare", compare_before=before, compare_after="after.json")
    assert again.returncode == 0 and again.changed() == []
    bad = player.playbook("gpufabric.nccl.compare", compare_before=before)
    assert bad.returncode != 0 and "compare_before and compare_after are to be given" in bad.output
    (tmp_path / "log.json").write_text("Traceback")
    bad = player.playbook("gpufabric.nccl.compare", compare_before=f"{before},log.json", compare_after="after.json")
    message = f"compare_before: '{tmp_path}/log.json' is not allowed; allowed: the paths of files results.json"
    assert bad.returncode != 0 and message in " ".join(bad.output.split()), bad.output
    for text in ('{"results": [', "{bad}", '{"results": null}'):
        (tmp_path / "log.json").write_text(text)
        bad = player.playbook("gpufabric.nccl.compare", compare_before=before, compare_after="log.json")
        message = f"compare_after: '{tmp_path}/log.json' is not allowed; allowed: the paths of files results.json"
        assert bad.returncode != 0 and message in " ".join(bad.output.split()), bad.output
    # What is no comparison stays.
    text = (tmp_path / "after.json").read_text()
    bad = player.playbook(
        "gpufabric.nccl.compare", compare_before=before, compare_after="after.json", compare_dest="after.json"
    )
    assert bad.returncode != 0 and f"compare_dest: {tmp_path}/after.json is not allowed" in " ".join(bad.output.split())
    assert (tmp_path / "after.json").read_text() == text
