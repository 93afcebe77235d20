# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir, default_run_dir


def test_default_is_by_user():
    assert default_run_dir("nightly", 0) == "/run/gpufabric/nightly"
    assert default_run_dir("nightly", 1000) == "/tmp/gpufabric-1000/nightly"


@pytest.mark.parametrize("run_id", ["", "a/b", "../x", ".", "-x", "a b", "a\n", "ä", "x" * 64])
def test_refuses_run_id(run_id):
    with pytest.raises(OptionError, match="run_id: "):
        RunDir(run_id, None)


@pytest.mark.parametrize("path", ["relative", "/", "/a b", "/a\nb", "/a%h", "/$HOME", "/a;b"])
def test_refuses_run_dir(path):
    with pytest.raises(OptionError, match="run_dir: "):
        RunDir("default", path)


def test_create_is_private_and_remove_if_empty_takes_it_back(tmp_path):
    run_dir = RunDir("default", str(tmp_path / "runs" / "one"))
    run_dir.create(run_dir.sshd)
    assert (tmp_path / "runs" / "one").stat().st_mode & 0o777 == 0o700
    run_dir.remove_if_empty(run_dir.sshd)
    assert not (tmp_path / "runs" / "one").exists()


def test_remove_if_empty_keeps_what_is_not_empty(tmp_path):
    run_dir = RunDir("default", str(tmp_path / "one"))
    run_dir.create(run_dir.sshd)
    (tmp_path / "one" / "kept").write_text("")
    run_dir.remove_if_empty(run_dir.sshd)
    assert os.listdir(tmp_path / "one") == ["kept"]


def test_check_refuses_a_directory_that_others_may_write(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one").chmod(0o777)
    with pytest.raises(NodeError, match="mode 0777"):
        RunDir("default", str(tmp_path / "one")).check()


def test_check_refuses_a_link(tmp_path):
    (tmp_path / "target").mkdir()
    (tmp_path / "one").symlink_to(tmp_path / "target")
    with pytest.raises(NodeError, match="is not a directory that only"):
        RunDir("default", str(tmp_path / "one")).check()


def test_check_refuses_a_place_below_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NodeError, match="run_dir: .*file is not a directory"):
        RunDir("default", str(tmp_path / "file" / "one")).check()


def test_remaining_is_what_remove_takes(tmp_path):
    run_dir = RunDir("default", str(tmp_path / "one"))
    assert run_dir.remaining() == []
    run_dir.create(run_dir.sshd, run_dir.account)
    assert run_dir.remaining() == [run_dir.path]
    (tmp_path / "one" / "of-others").write_text("")
    assert run_dir.remaining() == [run_dir.sshd, run_dir.account]
    run_dir.remove()
    assert os.listdir(tmp_path / "one") == ["of-others"] and run_dir.remaining() == []


@pytest.mark.parametrize("method", ["remaining", "remove"])
def test_what_is_not_safely_the_runs_is_not_removed(tmp_path, method):
    (tmp_path / "target" / "sshd").mkdir(parents=True)
    (tmp_path / "one").symlink_to(tmp_path / "target")
    with pytest.raises(NodeError, match="is not a directory that only"):
        getattr(RunDir("default", str(tmp_path / "one")), method)()
    assert (tmp_path / "target" / "sshd").exists()
