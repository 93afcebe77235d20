# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role report on the controller alone, over results that are there; no node is needed."""

from __future__ import annotations

import json
import pathlib
import stat

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("junitparser")
pytest.importorskip("prometheus_client")

OUTPUT = pathlib.Path(__file__).parents[1] / "unit" / "fixtures" / "all_reduce_perf.txt"
FILES = {"results.json", "results.csv", "report.md", "report.html", "junit.xml", "results.prom"}
WRITE = "localhost: gpufabric.nccl.report : Write the results and the report"
FOLDER = "localhost: gpufabric.nccl.report : Make the folder of the results"


def names(directory):
    return {path.name for path in directory.iterdir()}


@pytest.fixture
def play(player, tmp_path):
    """Plays the role over the results of a text."""

    def played(*arguments, entry="main", text=None, environment=(), **variables):
        tasks = [
            {
                "gpufabric.nccl.nccl_result": {"text": OUTPUT.read_text() if text is None else text},
                "register": "outcome",
            },
            {
                "ansible.builtin.import_role": {"name": "gpufabric.nccl.report", "tasks_from": entry},
                "vars": {"report_results": "{{ outcome.results }}"},
            },
        ]
        local = {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}
        book = [{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]
        given = {**local, "report_dir": str(tmp_path / "report"), **variables}
        return player.within(dict(environment)).playbook(book, *arguments, **given)

    return played


def test_files_are_written_once_as_predicted_and_go_again(play, tmp_path):
    folder = tmp_path / "report"
    checked = play("--check", "--diff")
    assert checked.returncode == 0 and checked.changed() == [FOLDER, WRITE] and not folder.exists()
    assert "+# Benchmark report" in checked.output

    first = play(environment={"ANSIBLE_SHOW_CUSTOM_STATS": "1"})
    assert first.returncode == 0 and first.changed() == [FOLDER, WRITE], first.output
    assert names(folder) == FILES
    assert {stat.S_IMODE((folder / name).stat().st_mode) for name in FILES} == {0o644}
    assert "gpufabric_verdict: pass" in first.output and "[WARNING]" not in first.output
    assert (
        f"Written to {folder}: results.json, results.csv, report.md, report.html, junit.xml, results.prom"
        in first.output
    )
    result = first.result(action="gpufabric.nccl.write_report")
    assert (
        result["verdict"] == "pass"
        and result["worst"] is None
        and set(result["paths"].values()) == {str(folder / name) for name in FILES}
    )
    assert "346.97" in (folder / "report.html").read_text()

    assert play().changed() == []
    # As text, as -e NAME=VALUE gives it. A file of an earlier run would tell of that.
    fewer = play("-e", "report_formats=json,html")
    assert fewer.changed() == [WRITE] and names(folder) == {"results.json", "report.html"}

    (folder / "mine.txt").write_text("mine")
    assert play(entry="teardown").returncode == 0 and names(folder) == {"mine.txt"}
    (folder / "mine.txt").unlink()
    assert play(entry="teardown").returncode == 0 and not folder.exists()


def test_a_verdict_fails_after_all_is_written(play, tmp_path):
    whole = OUTPUT.read_text()
    played = play(text=whole[: whole.index("# Out of bounds")])
    assert played.returncode == 2
    told = " ".join(played.output.split())
    assert "The output ends before the program's summary." in told and "The verdict is incomplete: all_reduce." in told
    assert names(tmp_path / "report") == FILES
    assert json.loads((tmp_path / "report/results.json").read_text())["verdict"] == "incomplete"
    worst = played.result(action="gpufabric.nccl.write_report")["worst"]
    assert worst["verdict"] == "incomplete" and worst["why"] == "The output ends before the program's summary."


def test_a_missing_library_costs_its_file_and_a_warning(play, tmp_path):
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import sys\n\nsys.modules['matplotlib'] = sys.modules['junitparser'] = None\n"
    )
    played = play(environment={"PYTHONPATH": str(hidden)})
    assert played.returncode == 0, played.output
    assert names(tmp_path / "report") == FILES - {"report.html", "junit.xml"}
    told = " ".join(played.output.split())
    assert played.output.count("[WARNING]") == 1 and "Traceback" not in played.output
    assert "lacks Python libraries: report.html, junit.xml. To have them: " in told
    assert "-m pip install matplotlib junitparser" in told


def test_what_cannot_be_is_one_line(play, tmp_path):
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "results.csv").mkdir()
    played = play()
    assert played.returncode == 2 and "Traceback" not in played.output
    assert f"cannot read {tmp_path}/report/results.csv: Is a directory" in " ".join(played.output.split())
    played = play(report_dir=str(tmp_path / "other"), report_isolation={"pairs": [{"a": 1}]})
    assert played.returncode == 2 and "isolation: {'a': 1} is not allowed" in played.output
