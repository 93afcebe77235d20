# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import pathlib
import stat

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests import parse_results
from ansible_collections.gpufabric.nccl.plugins.modules import nccl_result

LOG = pathlib.Path(__file__).parents[2] / "fixtures" / "all_reduce_perf.txt"
TEXT = LOG.read_text(encoding="utf-8")
CUT = TEXT[: TEXT.index("# Out of bounds")]


@pytest.fixture
def run(capsys):
    def run_module(**arguments):
        with patch_module_args(arguments), pytest.raises(SystemExit):
            nccl_result.main()
        return json.loads(capsys.readouterr().out)

    return run_module


def test_file_and_text_give_the_same(run):
    result = run(src=str(LOG))
    assert result["results"] == parse_results(TEXT.splitlines())
    assert result["result"] == result["results"][0]
    assert (result["changed"], result["verdict"], result["problems"]) == (False, "pass", [])
    assert run(text=TEXT)["results"] == result["results"]


def test_verdict_is_the_worst_and_problems_are_of_all(run):
    result = run(text=TEXT + CUT, points={"NCCL_ALGO": "Ring"})
    assert result["result"]["verdict"] == "pass"
    assert result["verdict"] == "incomplete"
    assert [problem["id"] for problem in result["problems"]] == ["output-cut"]
    assert [document["points"] for document in result["results"]] == [{"NCCL_ALGO": "Ring"}] * 2


def test_dest_is_written_once(run, tmp_path):
    dest = tmp_path / "results.json"
    predicted = run(src=str(LOG), dest=str(dest), _ansible_check_mode=True, _ansible_diff=True)
    assert not dest.exists()
    written = run(src=str(LOG), dest=str(dest), _ansible_diff=True)
    assert written == {**predicted, "invocation": written["invocation"]}
    assert written["changed"]
    assert written["diff"]["after"] == dest.read_text(encoding="utf-8")
    assert json.loads(dest.read_text(encoding="utf-8")) == {
        "schema": "gpufabric.nccl/results/v1",
        "verdict": "pass",
        "results": written["results"],
    }
    assert stat.S_IMODE(dest.stat().st_mode) == 0o644
    again = run(src=str(LOG), dest=str(dest), _ansible_diff=True)
    assert not again["changed"]
    assert "diff" not in again


def test_bad_verdict_fails_only_where_it_is_asked_for(run, tmp_path):
    dest = tmp_path / "results.json"
    assert "failed" not in run(text=CUT, fail_on=["fail", "unchecked"])
    result = run(text=CUT, fail_on=["incomplete"], dest=str(dest))
    assert result["failed"]
    assert result["msg"] == "the verdict is incomplete: The output ends before the program's summary."
    assert result["result"]["verdict"] == "incomplete"
    assert json.loads(dest.read_text(encoding="utf-8"))["results"] == result["results"]


FILE = "is not allowed; allowed: a file on this host that can be read"
FOLDER = "is not allowed; allowed: a path in a folder that exists"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"src": "{tmp}/none.log"}, f"src: '{{tmp}}/none.log' {FILE} (No such file or directory)"),
        ({"src": "{tmp}"}, f"src: '{{tmp}}' {FILE} (Is a directory)"),
        ({"text": CUT, "dest": "{tmp}/none/a.json"}, f"dest: '{{tmp}}/none/a.json' {FOLDER}"),
        (
            {"text": CUT, "dest": "{tmp}/none/a.json", "_ansible_check_mode": True},
            f"dest: '{{tmp}}/none/a.json' {FOLDER}",
        ),
        ({"text": CUT, "dest": "{tmp}"}, f"dest: '{{tmp}}' {FOLDER}"),
        ({}, "one of the following is required: src, text"),
        ({"src": "/a", "text": "b"}, "parameters are mutually exclusive: src|text"),
    ],
)
def test_errors_name_option_and_value(run, tmp_path, arguments, message):
    filled = {
        name: value.format(tmp=tmp_path) if isinstance(value, str) else value for name, value in arguments.items()
    }
    result = run(**filled)
    assert result["failed"]
    assert result["msg"] == message.format(tmp=tmp_path)
