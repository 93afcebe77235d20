# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import locked
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report.folder import MARK, ReportFolder

NAMES = ["results.json", "junit.xml", "output.tar.gz"]


def folder_at(path):
    return ReportFolder("report_dir", str(path))


def names_in(path):
    return sorted(os.listdir(path))


def test_only_what_runs_wrote_is_written_over_and_removed(tmp_path):
    path = tmp_path / "results"
    folder_at(path).claim(["results.json"])
    (path / "results.json").write_text("{}")
    (path / "junit.xml").write_text("of the build")
    (path / "notes.txt").write_text("")
    with pytest.raises(
        GpufabricError, match="report_dir: .*/results has junit.xml already, which no run wrote; move it"
    ):
        folder_at(path).claim(NAMES)
    # Of another run, who may have started it.
    folder_at(path).claim(["results.json", "output.tar.gz"])
    (path / "output.tar.gz").write_text("")
    folder = folder_at(path)
    assert folder.remove(NAMES) == ["results.json", "output.tar.gz"]
    folder.give_back()
    assert names_in(path) == ["junit.xml", "notes.txt"] and (path / "junit.xml").read_text() == "of the build"


def test_a_path_that_none_can_have_is_named(tmp_path):
    with pytest.raises(GpufabricError, match="report_dir: '.*x00b' is not allowed; allowed: the path of a folder"):
        folder_at(tmp_path / "a\0b").claim(NAMES)


def test_a_folder_of_runs_alone_goes(tmp_path):
    path = tmp_path / "a" / "results"
    folder = folder_at(path)
    folder.claim(NAMES)
    assert names_in(path) == [MARK] and (path / MARK).stat().st_mode & 0o777 == 0o644
    folder.remove(NAMES)
    folder.give_back()
    assert not path.exists()


def test_the_mark_stays_while_another_role_has_a_file_there(tmp_path):
    folder_at(tmp_path).claim(["results.json"])
    folder_at(tmp_path).claim(["diagnosis.md"])
    for name in ("results.json", "diagnosis.md"):
        (tmp_path / name).write_text("")
    folder = folder_at(tmp_path)
    folder.remove(["results.json"])
    folder.give_back()
    assert names_in(tmp_path) == [MARK, "diagnosis.md"]
    assert folder_at(tmp_path).of_runs(["diagnosis.md"]) == ["diagnosis.md"]


def test_a_folder_that_no_run_made_stays(tmp_path):
    path = tmp_path / "team"
    path.mkdir()
    path.chmod(0o2775)
    # Twice, as two runs may claim it; the second one finds the mark.
    for names in (["results.json"], ["junit.xml"]):
        folder_at(path).claim(names)
    folder = folder_at(path)
    folder.remove(NAMES)
    folder.give_back()
    assert names_in(path) == [] and path.stat().st_mode & 0o7777 == 0o2775
    # Also where there was nothing to remove.
    folder = folder_at(path)
    folder.remove(NAMES)
    folder.give_back()
    assert names_in(path) == []


def test_a_folder_of_a_run_that_another_run_used_too_goes(tmp_path):
    path = tmp_path / "results"
    for names in (["results.json"], ["junit.xml"]):
        folder_at(path).claim(names)
        (path / names[0]).write_text("")
    for names, left in ((["results.json"], [MARK, "junit.xml"]), (["junit.xml"], None)):
        folder = folder_at(path)
        assert folder.remove(names) == names
        folder.give_back()
        assert (names_in(path) if path.exists() else None) == left


def test_two_runs_at_once_both_have_their_files_in_the_mark(tmp_path):
    first, second = folder_at(tmp_path), folder_at(tmp_path)
    first.claim(["results.json"])
    second.claim(["diagnosis.json"])
    for name in ("results.json", "diagnosis.json"):
        (tmp_path / name).write_text("")
    assert folder_at(tmp_path).of_runs(["results.json", "diagnosis.json"]) == ["results.json", "diagnosis.json"]
    # Each has read the mark before the other changed it.
    first, second = folder_at(tmp_path), folder_at(tmp_path)
    assert first.remove(["results.json"]) == ["results.json"]
    first.give_back()
    assert names_in(tmp_path) == [MARK, "diagnosis.json"]
    assert second.remove(["diagnosis.json"]) == ["diagnosis.json"]
    second.give_back()
    assert names_in(tmp_path) == []


def test_a_run_waits_until_another_has_changed_the_mark(tmp_path):
    with ThreadPoolExecutor(1) as pool:
        with locked(str(tmp_path)):
            claimed = pool.submit(folder_at(tmp_path).claim, ["junit.xml"])
            assert not wait([claimed], 0.3).done
            (tmp_path / MARK).write_text('{"files": ["results.json"], "made": true}')
        claimed.result()
    assert json.loads((tmp_path / MARK).read_text()) == {"files": ["junit.xml", "results.json"], "made": True}


@pytest.mark.parametrize("mark", [None, "[", "[" * 100000, '{"files": 1}', "[1]"])
@pytest.mark.parametrize(
    ("text", "is_of_run"), [('{\n  "schema": "gpufabric.nccl/results/v1"', True), ('{"schema": "x"}', False)]
)
def test_a_folder_without_a_mark_is_known_by_its_results(tmp_path, mark, text, is_of_run):
    (tmp_path / "results.json").write_text(text)
    (tmp_path / "junit.xml").write_text("")
    if mark is not None:
        (tmp_path / MARK).write_text(mark)
    assert folder_at(tmp_path).of_runs(NAMES) == (["results.json", "junit.xml"] if is_of_run else [])
    if is_of_run:
        folder_at(tmp_path).claim(["results.json"])
        assert folder_at(tmp_path).remove(NAMES) == ["results.json", "junit.xml"]


def test_a_folder_of_an_earlier_release_goes(tmp_path):
    path = tmp_path / "results"
    path.mkdir()
    (path / "results.json").write_text('{"schema": "gpufabric.nccl/results/v1"')
    folder = folder_at(path)
    assert folder.remove(NAMES) == ["results.json"]
    folder.give_back()
    assert not path.exists()


def test_a_link_and_a_pipe_are_files_of_others(tmp_path):
    (tmp_path / "results.json").symlink_to("/nosuch")
    os.mkfifo(tmp_path / "junit.xml")
    with pytest.raises(GpufabricError, match="has results.json, junit.xml already, which no run wrote; move them"):
        folder_at(tmp_path).check(NAMES)
    assert folder_at(tmp_path).remove(NAMES) == []


def test_a_folder_that_cannot_be_made_is_named_with_its_option(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(GpufabricError, match="report_dir: cannot make .*/file/results: Not a directory"):
        folder_at(tmp_path / "file" / "results").claim(NAMES)
