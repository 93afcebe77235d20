# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import write_text


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_file_has_the_given_mode_and_no_other_is_left(tmp_path, mode):
    (tmp_path / "report.md").write_text("old")
    write_text(str(tmp_path / "report.md"), "new", mode)
    assert (tmp_path / "report.md").read_text() == "new"
    assert (tmp_path / "report.md").stat().st_mode & 0o777 == mode
    assert os.listdir(tmp_path) == ["report.md"]


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
