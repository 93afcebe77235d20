# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os

from ansible_collections.gpufabric.nccl.plugins.module_utils._node.namesakes import elsewhere, users_with
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import Process
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir


def sshd_of(uid, path):
    command = (
        f"sshd: /usr/sbin/sshd -D -f {path}/sshd/sshd_config -E {path}/sshd/sshd.log [listener] 0 of 32-32 startups"
    )
    return Process(4_000_000 + uid, 1, uid, (command,))


def test_runs_of_the_same_name_of_other_users_are_told(monkeypatch):
    """The play had -b, and the teardown has not, or the other way round."""
    found = [
        *(sshd_of(0, "/run/gpufabric/night"), sshd_of(4007, "/tmp/gpufabric-4007/night")),
        # Of another name, and such as anybody may call his processes.
        *(sshd_of(4008, "/tmp/gpufabric-4008/nightly"), sshd_of(4009, "/run/gpufabric/night")),
        Process(5, 1, 4010, ("vi", "/tmp/gpufabric-4010/night/sshd/sshd_config")),
    ]
    processes = {process.pid: process for process in found}
    assert users_with("night", 0, processes) == ["uid 4007"]
    assert users_with("night", 4007, processes) == ["root"]
    assert users_with("night", 4011, processes) == ["root", "uid 4007"]
    assert users_with("day", 4011, processes) == []
    # Of processes that are not root's, only the name is read.
    monkeypatch.setattr(os.path, "isdir", lambda path: path == "/tmp/gpufabric-4007/day/sshd")
    named = {pid: Process(pid, 1, uid, (name,)) for pid, uid, name in ((7, 4007, "sshd"), (8, 4008, "sshd"))}
    assert users_with("day", 0, named) == ["uid 4007"]
    assert users_with("day", 0, {7: Process(7, 1, 4007, ("vi",))}) == []
    old = ("/usr/sbin/sshd", "-D", "-f", "/tmp/gpufabric-4007/day/sshd/sshd_config", "-E", "x")
    assert users_with("day", 0, {7: Process(7, 1, 4007, old)}) == ["uid 4007"]


def test_a_run_in_another_directory_is_told(tmp_path):
    """The play had gpufabric_run_dir, and the teardown has not."""
    run_dir, other = RunDir("night", str(tmp_path / "own")), RunDir("night", str(tmp_path / "other"))
    processes = {7: sshd_of(run_dir.uid, other.path)}
    assert elsewhere(run_dir, processes) == []
    other.create()
    assert elsewhere(run_dir, processes) == [other.path]
    assert elsewhere(other, processes) == []
    assert elsewhere(RunDir("day", run_dir.path), processes) == []
    assert elsewhere(run_dir, {7: sshd_of(run_dir.uid + 1, other.path)}) == []
