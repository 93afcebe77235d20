# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import fcntl
import json
import os
import pathlib
import stat

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import locked
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import parse_results
from ansible_collections.gpufabric.nccl.plugins.modules import nccl_baseline

TEXT = (pathlib.Path(__file__).parents[2] / "fixtures" / "all_reduce_perf.txt").read_text(encoding="utf-8")
(DOCUMENT,) = parse_results(TEXT.splitlines())
(OTHER,) = parse_results(TEXT.replace("5802.4", "5803.4").splitlines())
FAILED = {**DOCUMENT, "verdict": "fail"}


@pytest.fixture
def run(capsys, monkeypatch):
    warned = []
    monkeypatch.setattr(nccl_baseline.AnsibleModule, "warn", lambda module, text: warned.append(text))

    def run_module(**arguments):
        warned.clear()
        with patch_module_args(arguments), pytest.raises(SystemExit):
            nccl_baseline.main()
        return {**json.loads(capsys.readouterr().out), "warned": list(warned)}

    return run_module


def test_a_baseline_is_saved_as_predicted_and_once(run, tmp_path):
    path = tmp_path / "baseline.json"
    options = {"results": [DOCUMENT], "path": str(path), "_ansible_diff": True}
    predicted = run(**options, _ansible_check_mode=True)
    assert not path.exists()
    saved = run(**options)
    assert saved == {**predicted, "invocation": saved["invocation"]} and saved["changed"]
    assert saved["diff"]["after"] == path.read_text(encoding="utf-8") and saved["summary"] == "all_reduce 1 run"
    assert json.loads(path.read_text(encoding="utf-8")) == saved["baseline"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert not run(**options)["changed"]


def test_runs_are_added_unless_that_is_not_wanted(run, tmp_path):
    path = str(tmp_path / "baseline.json")
    run(results=[DOCUMENT], path=path)
    assert run(results=[DOCUMENT, OTHER], path=path)["summary"] == "all_reduce 2 runs"
    assert run(results=[OTHER], path=path, add=False)["summary"] == "all_reduce 1 run"


def test_what_failed_changes_no_baseline_and_that_is_said(run, tmp_path):
    path = tmp_path / "baseline.json"
    result = run(results=[FAILED], path=str(path))
    assert (result["changed"], result["baseline"], path.exists()) == (False, None, False)
    (warning,) = result["warned"]
    assert warning.startswith(f"{path} is left as it was: no test can be kept")
    saved = run(results=[DOCUMENT], path=str(path))["baseline"]
    assert run(results=[FAILED], path=str(path))["baseline"] == saved


def test_options_alone_are_checked(run, tmp_path):
    path = tmp_path / "baseline.json"
    result = run(results=[], path=str(path))
    assert (result["changed"], result["warned"], path.exists()) == (False, [], False)
    path.write_text("{}")
    assert run(results=[], path=str(path))["msg"].startswith("path: None is not allowed")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "/nosuch/b"}, "path: '/nosuch/b' is not allowed; allowed: a path in a folder that exists"),
        ({"path": "{tmp}"}, "path: '{tmp}' is not allowed; allowed: a path in a folder that exists"),
        ({"path": "/dev/null"}, "path: '/dev/null' is not allowed; allowed: a path in a folder that exists, of a file"),
        ({"path": "{tmp}/a\0b"}, "path: '{tmp}/a\\x00b' is not allowed; allowed: a path in a folder that exists"),
        ({"results": [{"schema": "x"}]}, "a list of result documents is needed; an item is not of the schema"),
        ({"add": "some"}, "argument 'add' is of type str and we were unable to convert to bool"),
    ],
)
def test_errors_name_option_and_value(run, tmp_path, options, message):
    filled = {"results": [DOCUMENT], "path": str(tmp_path / "b.json"), **options}
    filled["path"] = filled["path"].format(tmp=tmp_path)
    result = run(**filled)
    assert result["failed"] and result["msg"].startswith(message.format(tmp=tmp_path)) and "\n" not in result["msg"]


def test_a_file_that_is_no_baseline_is_left_alone(run, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("notes")
    assert run(results=[DOCUMENT], path=str(path))["msg"].startswith("path: 'text that is no JSON' ")
    for add in (False, True):
        for results in ([], [DOCUMENT]):
            assert run(results=results, path=str(path), add=add)["msg"].startswith("path: ")
            assert path.read_text() == "notes"
    # One that was cut gives way to a new one.
    path.write_text('{"schema": "gpufabric.nccl/baseline/v1", "runs": [')
    assert run(results=[DOCUMENT], path=str(path), add=False)["changed"]
    # So does one that another program has sorted.
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True))
    assert run(results=[DOCUMENT], path=str(path), add=False)["changed"]


def test_a_file_without_an_end_is_not_read(run, tmp_path, monkeypatch):
    monkeypatch.setattr(nccl_baseline, "LONGEST_TEXT", 1000)
    path = tmp_path / "baseline.json"
    path.write_text(" " * 1001)
    message = f"path: '{path}' is not allowed; allowed: a file on this host that can be read (it has more than 1000 characters)"
    assert run(results=[], path=str(path))["msg"] == message


@pytest.mark.parametrize("mode", [0o640, 0o664, 0o600])
def test_a_file_keeps_its_mode_and_group(run, tmp_path, mode):
    path = tmp_path / "baseline.json"
    run(results=[DOCUMENT], path=str(path))
    path.chmod(mode)
    if os.geteuid() == 0:
        os.chown(path, 54321, 54322)
    before = path.stat()
    assert run(results=[OTHER], path=str(path))["changed"]
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


def test_two_plays_that_save_at_once_lose_no_run(run, tmp_path, monkeypatch):
    """The second one comes when the first has read the file."""
    path, read = str(tmp_path / "baseline.json"), nccl_baseline.read_text
    second = {"results": [OTHER], "path": path, "add": True}
    monkeypatch.setattr(nccl_baseline, "_PATIENCE", 0.0)

    def reading(*arguments):
        monkeypatch.setattr(nccl_baseline, "read_text", read)
        with pytest.raises(NodeError, match="is locked by another program"):
            nccl_baseline.run(second, False)
        return read(*arguments)

    monkeypatch.setattr(nccl_baseline, "read_text", reading)
    assert run(results=[DOCUMENT], path=path)["changed"]
    nccl_baseline.run(second, False)
    assert len(json.loads(pathlib.Path(path).read_text())["runs"]) == 2
    assert os.listdir(tmp_path) == ["baseline.json"]


def test_a_folder_that_stays_locked_is_named(run, tmp_path, monkeypatch):
    monkeypatch.setattr(nccl_baseline, "_PATIENCE", 0.0)
    with locked(str(tmp_path)):
        result = run(results=[DOCUMENT], path=str(tmp_path / "b.json"))
    assert result["msg"] == f"{tmp_path} is locked by another program for 0 s already"
    assert run(results=[DOCUMENT], path=str(tmp_path / "b.json"))["changed"]


def test_a_file_system_without_locks_is_written(run, tmp_path, monkeypatch):
    def flock(_descriptor, _operation):
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr(fcntl, "flock", flock)
    assert run(results=[DOCUMENT], path=str(tmp_path / "b.json"))["changed"]
