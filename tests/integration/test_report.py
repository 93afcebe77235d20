# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role report on the controller alone, over results that are there; no node is needed."""

from __future__ import annotations

import json
import pathlib

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("junitparser")
pytest.importorskip("prometheus_client")

OUTPUT = pathlib.Path(__file__).parents[1] / "unit" / "fixtures" / "all_reduce_perf.txt"
FILES = {"results.json", "results.csv", "report.md", "report.html", "junit.xml", "results.prom"}
MARK = ".gpufabric-report"
WRITE = "gpufabric.nccl.report : Write the results and the report"
FOLDER = "gpufabric.nccl.report : Make the folder of the results"


LIST = "List the folder"
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}
RESULTS = "{{ hostvars['check'].outcome.results }}"


def read(text):
    """A task that reads the results of a text."""
    return {"gpufabric.nccl.nccl_result": {"text": text}, "register": "outcome"}


def use(name, folder, entry="main", before=(), rescued=False, keywords=(), role="report", **variables):
    """A play that uses a role and then lists the folder; ``name``: of its host, whose facts are not another play's."""
    task = {"ansible.builtin.import_role": {"name": f"gpufabric.nccl.{role}", "tasks_from": entry}}
    files = "query('ansible.builtin.fileglob', report_dir ~ '/*') | map('ansible.builtin.basename') | list"
    look = {
        "name": LIST,
        "ansible.builtin.debug": {
            "msg": {
                "exists": "{{ report_dir is exists }}",
                "files": f"{{{{ {files} if report_dir is exists else [] }}}}",
            }
        },
    }
    block = {"block": [task], "rescue": [{"ansible.builtin.debug": {"msg": "rescued"}}]} if rescued else task
    return {
        "hosts": name,
        "gather_facts": False,
        "vars": {**LOCAL, "report_dir": str(folder), "report_results": RESULTS, **variables},
        "tasks": [*before, block, look],
        **dict(keywords),
    }


class Uses:
    """What came of a play for each use of the role, of one command."""

    def __init__(self, played, folder, names):
        self.played = played
        self.folder = folder
        remaining = iter(played.records)
        #: Most of them ran on localhost, for the host of their play; each play but one that fails ends with its list.
        self._records = {name: list(self._until_listed(remaining)) for name in names}

    @staticmethod
    def _until_listed(records):
        for record in records:
            yield record
            if record["task"] == LIST:
                return

    def records(self, name):
        return self._records[name]

    def changed(self, name):
        return [record["task"] for record in self.records(name) if record["result"].get("changed")]

    def result(self, name, action):
        return next(record["result"] for record in self.records(name) if record["action"] == action)

    def error(self, name):
        """The only message of a failure."""
        (failed,) = [record["result"] for record in self.records(name) if record["status"] == "failed"]
        return " ".join(failed["msg"].split())

    def listed(self, name):
        """The names of the files in the folder after this use; None where there is no folder."""
        seen = self.records(name)[-1]["result"]["msg"]
        return set(seen["files"]) if seen["exists"] else None


@pytest.fixture(scope="module")
def uses(player, tmp_path_factory):
    folder = tmp_path_factory.mktemp("uses")
    report, whole = folder / "report", OUTPUT.read_text()
    (folder / "unreadable/results.csv").mkdir(parents=True)
    diagnosis = folder / "diagnosis"
    diagnosis.mkdir()
    for name in ("diagnosis.json", "diagnosis.md"):
        (diagnosis / name).write_text('{"schema": "gpufabric.nccl/diagnosis/v1"}')
    theirs = folder / "theirs"
    theirs.mkdir()
    (theirs / "junit.xml").write_text("of the build")
    (theirs / "build.log").write_text("")
    modes = {"ansible.builtin.find": {"paths": str(report)}, "register": "modes"}
    mine = {"ansible.builtin.copy": {"content": "mine", "dest": f"{report}/mine.txt", "mode": "0644"}}
    not_mine = {"ansible.builtin.file": {"path": f"{report}/mine.txt", "state": "absent"}}
    isolation = {"pairs": [{"a": 1}]}
    cut = read(whole[: whole.index("# Out of bounds")])
    plays = [
        use(
            "check", report, before=[{**read(whole), "check_mode": False}], keywords={"check_mode": True, "diff": True}
        ),
        use("first", report),
        use("again", report, before=[modes]),
        # As text, as -e NAME=VALUE gives it.
        use("fewer", report, report_formats="json,csv"),
        use("mine", report, entry="teardown", before=[mine]),
        use("gone", report, entry="teardown", before=[not_mine]),
        use("diagnosis", diagnosis, entry="teardown", role="preflight", preflight_report_dir=str(diagnosis)),
        use("theirs", theirs, rescued=True),
        use("beside", theirs, report_formats=["json"]),
        use("left", theirs, entry="teardown"),
        use("unreadable", folder / "unreadable", rescued=True, report_formats=["csv"]),
        use("isolation", folder / "isolation", rescued=True, report_formats=["json"], report_isolation=isolation),
        use(
            "cut", folder / "cut", before=[cut], report_results="{{ outcome.results }}", report_formats=["json", "html"]
        ),
    ]
    names = [play["hosts"] for play in plays]
    custom = player.within({"ANSIBLE_SHOW_CUSTOM_STATS": "1"})
    return Uses(custom.playbook(plays, "-i", ",".join([*names, ""])), folder, names)


def test_files_are_written_once_as_predicted_and_go_again(uses):
    folder = uses.folder / "report"
    assert uses.changed("check") == [FOLDER, WRITE] and uses.listed("check") is None
    assert "+# Benchmark report" in uses.played.output

    assert uses.changed("first") == [FOLDER, WRITE] and uses.listed("first") == FILES
    found = uses.result("again", "ansible.builtin.find")["files"]
    assert {(pathlib.Path(file["path"]).name, file["mode"]) for file in found} == {(name, "0644") for name in FILES}
    assert "[WARNING]" not in uses.played.output
    assert (
        f"Written to {folder}: results.json, results.csv, report.md, report.html, junit.xml, results.prom"
        in uses.played.output
    )
    result = uses.result("first", "gpufabric.nccl.write_report")
    assert (
        result["verdict"] == "pass"
        and result["worst"] is None
        and set(result["paths"].values()) == {str(folder / name) for name in FILES}
    )

    assert uses.changed("again") == []
    # A file of an earlier run would tell of that.
    assert uses.changed("fewer") == [WRITE] and uses.listed("fewer") == {"results.json", "results.csv"}
    assert uses.listed("mine") == {"mine.txt"}
    # A folder that has had files of others is theirs.
    assert uses.listed("gone") == set()
    # The files of the role preflight go the same way.
    assert uses.listed("diagnosis") is None


def test_a_file_that_no_run_wrote_stays(uses):
    theirs = uses.folder / "theirs"
    assert uses.changed("theirs") == [] and uses.listed("theirs") == {"junit.xml", "build.log"}
    assert uses.error("theirs") == (
        f"report_dir: {theirs} has junit.xml already, which no run wrote; move it, or set report_dir to another folder"
    )
    assert uses.listed("beside") == {"junit.xml", "build.log", "results.json"}
    assert uses.listed("left") == {"junit.xml", "build.log"}
    assert (theirs / "junit.xml").read_text() == "of the build" and not (theirs / MARK).exists()


def test_a_verdict_fails_after_all_is_written(uses):
    assert uses.played.returncode == 2
    # The last word of a workflow's job.
    assert "gpufabric_verdict: incomplete" in uses.played.output
    told = uses.error("cut")
    assert "The output ends before the program's summary." in told and "The verdict is incomplete: all_reduce." in told
    folder = uses.folder / "cut"
    assert {path.name for path in folder.iterdir()} == {"results.json", "report.html", MARK}
    assert json.loads((folder / "results.json").read_text())["verdict"] == "incomplete"
    assert "346.97" in (folder / "report.html").read_text()
    worst = uses.result("cut", "gpufabric.nccl.write_report")["worst"]
    assert worst["verdict"] == "incomplete" and worst["why"] == "The output ends before the program's summary."


def test_what_cannot_be_is_one_line(uses):
    assert "Traceback" not in uses.played.output
    unreadable = uses.folder / "unreadable/results.csv"
    assert uses.error("unreadable").startswith(
        f"report_dir: {unreadable.parent} has results.csv already, which no run wrote"
    )
    assert uses.error("isolation").startswith("isolation: {'a': 1} is not allowed")


def test_a_missing_library_costs_its_file_and_a_warning(player, tmp_path):
    hidden, folder = tmp_path / "hidden", tmp_path / "report"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import sys\n\nsys.modules['matplotlib'] = sys.modules['junitparser'] = None\n"
    )
    play = use("check", folder, before=[read(OUTPUT.read_text())])
    played = player.within({"PYTHONPATH": str(hidden)}).playbook([play], "-i", "check,")
    assert played.returncode == 0, played.output
    assert {path.name for path in folder.iterdir()} == FILES - {"report.html", "junit.xml"} | {MARK}
    told = " ".join(played.output.split())
    assert played.output.count("[WARNING]") == 1 and "Traceback" not in played.output
    assert "lacks Python libraries: report.html, junit.xml. To have them: " in told
    assert "-m pip install matplotlib junitparser" in told
