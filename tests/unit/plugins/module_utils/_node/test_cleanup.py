# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.cleanup import (
    Leftovers,
    belonging,
    elsewhere,
    others_with,
    program_name,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import Process
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.mesh import Change

#: sshd 10 of the run with a session and its program; a shell 20 with the module 21 and its child; another user's 30.
PROCESSES = {
    pid: Process(pid, parent, uid, ("",))
    for pid, parent, uid in [(1, 0, 0), (10, 1, 7), (11, 10, 7), (12, 11, 8), (20, 1, 7), (21, 20, 7), (22, 21, 7)]
}


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("/usr/bin/mpirun", "--np", "2", "secret"), "mpirun"),
        (("sshd: root@notty",), "sshd"),
        (("sshd: /usr/sbin/sshd -D -f /run/x [listener] 0 of 10-100 startups",), "sshd"),
        (("-bash",), "-bash"),
        (("",), "?"),
    ],
)
def test_program_name_shows_no_arguments(command, name):
    assert program_name(command) == name


def test_belonging_takes_what_hangs_on_the_roots():
    assert belonging(PROCESSES, {10}, own=22, uid=0) == {10, 11, 12}
    assert belonging(PROCESSES, {11, 12}, own=22, uid=0) == {11, 12}
    assert belonging(PROCESSES, {99}, own=22, uid=0) == set()


def test_belonging_leaves_who_asks_and_what_is_not_the_users_own():
    assert belonging(PROCESSES, {20}, own=21, uid=0) == {22}
    assert belonging(PROCESSES, {10}, own=22, uid=7) == {10, 11}


def leftovers(ended=(), removed=(), line="", changes=()):
    return Leftovers(frozenset(), tuple(ended), tuple(removed), line, tuple(changes))


def test_diff_lists_all_and_shows_what_was_written():
    config = Change("/root/.ssh/config", "Include x\nHost a\n", "Host a\n")
    found = leftovers(["mpirun", "sshd"], ["/run/gpufabric/a", config.path, "/etc/passwd"], "u:x:1:\n", [config])
    assert found
    whole, passwd, user = found.as_diff()
    assert whole["before"].splitlines() == [
        "process mpirun",
        "process sshd",
        "path /run/gpufabric/a",
        "path /root/.ssh/config",
        "path /etc/passwd",
    ]
    assert whole["after"] == ""
    assert (passwd["before"], passwd["after"], passwd["before_header"]) == ("u:x:1:\n", "", "/etc/passwd")
    assert user == config.as_diff()


def test_nothing_is_no_diff():
    assert not leftovers() and leftovers().as_diff() == []
    assert leftovers(ended=["sshd"]) and leftovers(removed=["/run/gpufabric/a"])


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
    assert others_with("night", 0, processes) == ["uid 4007"]
    assert others_with("night", 4007, processes) == ["root"]
    assert others_with("night", 4011, processes) == ["root", "uid 4007"]
    assert others_with("day", 4011, processes) == []
    # Of processes that are not root's, only the name is read.
    monkeypatch.setattr(os.path, "isdir", lambda path: path == "/tmp/gpufabric-4007/day/sshd")
    named = {pid: Process(pid, 1, uid, (name,)) for pid, uid, name in ((7, 4007, "sshd"), (8, 4008, "sshd"))}
    assert others_with("day", 0, named) == ["uid 4007"]
    assert others_with("day", 0, {7: Process(7, 1, 4007, ("vi",))}) == []
    old = ("/usr/sbin/sshd", "-D", "-f", "/tmp/gpufabric-4007/day/sshd/sshd_config", "-E", "x")
    assert others_with("day", 0, {7: Process(7, 1, 4007, old)}) == ["uid 4007"]


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
