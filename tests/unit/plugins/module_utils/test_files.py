# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import concurrent.futures
import errno
import fcntl
import os
import stat
import time

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils import _files
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import (
    check_destination,
    cut,
    open_file,
    read_end,
    read_text,
    write_text,
)


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_file_has_the_given_mode_and_no_other_is_left(tmp_path, mode):
    (tmp_path / "report.md").write_text("old")
    write_text(str(tmp_path / "report.md"), "new", mode)
    assert (tmp_path / "report.md").read_text() == "new"
    assert (tmp_path / "report.md").stat().st_mode & 0o777 == mode
    assert os.listdir(tmp_path) == ["report.md"]


@pytest.mark.parametrize("has_links", [True, False])
def test_a_new_file_takes_no_others_place(tmp_path, monkeypatch, has_links):
    def refuse(*_arguments, **_options):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    if not has_links:
        monkeypatch.setattr(os, "link", refuse)
    path = str(tmp_path / "mark")
    for text in ("first", "second"):
        write_text(path, text, new=True)
        assert read_text(path) == "first"
    assert os.listdir(tmp_path) == ["mark"]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_link_that_takes_the_files_place_meanwhile_is_not_followed(tmp_path, monkeypatch):
    secret = tmp_path / "id_ed25519"
    secret.write_text("a key")
    secret.chmod(0o600)
    folder = tmp_path / "of-another-user"
    folder.mkdir()
    fsync = os.fsync

    def replaced(descriptor):
        fsync(descriptor)
        (name,) = folder.iterdir()
        name.rename(tmp_path / "moved")
        name.symlink_to(secret)

    monkeypatch.setattr(os, "fsync", replaced)
    write_text(str(folder / "report.md"), "text", 0o644)
    assert secret.stat().st_mode & 0o777 == 0o600 and secret.read_text() == "a key"


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(NodeError, match="cannot write .*/none/file: No such file"):
        write_text(str(tmp_path / "none" / "file"), "")


def test_a_pipe_is_not_waited_for_and_its_option_is_named(tmp_path):
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    with pytest.raises(OptionError, match="src: '.*/pipe' is not allowed; .*not a file, but a pipe"):
        read_text(pipe, "src")
    with pytest.raises(NodeError, match="cannot read .*/pipe: not a file, but a pipe"):
        read_text(pipe)
    with pytest.raises(OSError, match="not a file"):
        open_file("/dev/zero").close()
    with pytest.raises(OptionError, match="dest: '.*/pipe' is not allowed"):
        check_destination("dest", pipe)


def test_what_hides_a_file_is_empty_and_what_is_no_file_is_named(tmp_path):
    (tmp_path / "config").symlink_to(os.devnull)
    assert read_text(str(tmp_path / "config"), "src") == ""
    assert read_text("/proc/self/comm", "src")
    with pytest.raises(OptionError, match="src: .* can be read .Is a directory."):
        read_text(str(tmp_path), "src")


def test_a_long_log_keeps_its_last_lines_while_it_is_written(tmp_path):
    path = str(tmp_path / "log")
    cut(path, 100, 40)
    with open(path, "ab", buffering=0) as writer:
        writer.write(b"".join(b"line %03d\n" % number for number in range(11)))
        cut(path, 100, 40)
        assert read_text(path).splitlines()[0] == "line 000"
        writer.write(b"line 011\n" * 2)
        cut(path, 100, 40)
        assert read_text(path) == "line 009\nline 010\nline 011\nline 011\n"
        writer.write(b"more\n")
    assert read_text(path).endswith("line 011\nmore\n") and read_end(path, 8) == "011\nmore\n"[-8:]
    assert os.listdir(tmp_path) == ["log"]
    assert read_end(str(tmp_path / "none"), 8) == ""


def test_nobody_who_holds_the_lock_of_a_file_holds_it_up_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "_PATIENCE", 0.2)
    path = tmp_path / "config"
    path.write_text("")
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(NodeError, match="is locked by another program"), _files.locked_file(str(path)):
            pass
    with _files.locked_file(str(path)):
        pass


@pytest.mark.parametrize("mode", [0o755, 0o750])
def test_a_lock_that_any_user_may_hold_is_not_waited_for(tmp_path, mode):
    os.chmod(tmp_path, mode)
    stranger = os.open(tmp_path, os.O_RDONLY)
    try:
        # As any user may do who can read the directory.
        fcntl.flock(stranger, fcntl.LOCK_EX)
        with _files.locked(str(tmp_path), 0):
            (name,) = os.listdir(tmp_path)
            assert stat.S_IMODE(os.stat(tmp_path / name).st_mode) == 0o600
            with pytest.raises(NodeError, match="is locked by another program"), _files.locked(str(tmp_path), 0):
                pass
        assert os.listdir(tmp_path) == []
    finally:
        os.close(stranger)


@pytest.mark.parametrize("mode", [0o700, 0o711, 0o1777, 0o775])
def test_a_directory_that_no_other_or_that_others_may_write_is_locked_itself(tmp_path, mode):
    os.chmod(tmp_path, mode)
    with _files.locked(str(tmp_path), 0):
        assert os.listdir(tmp_path) == []
        with pytest.raises(NodeError, match="is locked by another program"), _files.locked(str(tmp_path), 0):
            pass


def test_one_after_the_other_holds_a_lock(tmp_path):
    os.chmod(tmp_path, 0o755)
    held: list[int] = []

    def work(_number):
        with _files.locked(str(tmp_path), 60):
            held.append(1)
            assert len(held) == 1
            time.sleep(0.001)
            held.pop()

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(100)))
    assert os.listdir(tmp_path) == []
