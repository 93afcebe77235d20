# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.cleanup import Leftovers, belonging, program_name
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import Process
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
