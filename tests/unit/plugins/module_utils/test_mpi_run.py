# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import sys

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi_run import (
    PointRunner,
    explain,
    parse_files,
    parse_points,
    telling_lines,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir


@pytest.mark.parametrize(
    ("points", "timeout", "option"),
    [
        ([], 10, "points"),
        ([{"argv": []}], 10, r"points\[0\].argv"),
        ([{"argv": ["x"], "timeout": 0}], 10, r"points\[0\].timeout"),
        ([{"argv": ["x"], "env": {"A B": 1}}], 10, r"points\[0\].env"),
        ([{"argv": ["x"], "env": {"A": "1\n2"}}], 10, r"points\[0\].env"),
        ([{"argv": ["x"]}], 0, "timeout"),
    ],
)
def test_parse_points_refuses(points, timeout, option):
    with pytest.raises(OptionError, match=f"^{option}: "):
        parse_points(points, timeout)


def test_parse_points_fills_in():
    (point,) = parse_points([{"argv": ["/opt/x/all_reduce_perf"], "env": {"A": 1}}], 10)
    assert (point.name, point.env, point.timeout) == ("all_reduce_perf", {"A": "1"}, 10)


@pytest.mark.parametrize(
    ("program", "timeout", "status", "exit_status"),
    [
        ("print('x')", 30, "finished", 0),
        ("raise SystemExit(7)", 30, "failed", 7),
        ("import time; time.sleep(60)", 0.3, "timeout", None),
    ],
)
def test_runner_runs_to_the_end_or_the_time_out(tmp_path, program, timeout, status, exit_status):
    runner = PointRunner(RunDir("unit", str(tmp_path / "run")))
    runner.prepare({"script": "text"})
    command = [sys.executable, "-c", program]
    assert (tmp_path / "run" / "mpi" / "files" / "script").read_text() == "text"
    (point,) = parse_points([{"argv": command}], timeout)
    outcome = runner.run(1, point, command, {})
    assert (outcome["status"], outcome["exit_status"]) == (status, exit_status)
    assert (tmp_path / "run" / "mpi" / "points" / "1" / "exit.json").exists()
    runner.remove()
    assert not (tmp_path / "run").exists()


def test_explain_quotes_the_end_of_the_errors(tmp_path):
    (tmp_path / "stderr").write_text("first\n\n" + "x\n" * 30 + "the last\n")
    outcome = {
        "name": "all_reduce",
        "status": "failed",
        "exit_status": 255,
        "duration": 1,
        "problems": [],
        "stdout_path": str(tmp_path / "stdout"),
        "stderr_path": str(tmp_path / "stderr"),
    }
    text = explain([outcome], 3)
    assert text.startswith("1 of 3 points did not finish: all_reduce ended with exit status 255")
    assert "the last" in text and "first" not in text


def test_telling_lines_leave_blank_ones_out():
    assert telling_lines("a\n\nb\n \nc\n", 2) == ["b", "c"]


def test_telling_lines_come_before_what_open_mpi_frames():
    frame = "-" * 74
    text = f"ssh: refused\n{frame}\nadvice 1\n\nadvice 2\n{frame}\n{frame}\nadvice 3\n{frame}\n[g1] the end\n"
    assert telling_lines(text, 3) == ["ssh: refused", "[g1] the end", "advice 1"]
    assert telling_lines(text, 1) == ["[g1] the end"]
    assert telling_lines(f"{frame}\nno such program\n{frame}\n") == ["no such program"]


@pytest.mark.parametrize("files", [{"../x": ""}, {".hidden": ""}, {"a/b": ""}, {"a": 1}])
def test_parse_files_refuses(files):
    with pytest.raises(OptionError, match="^files: "):
        parse_files(files)
