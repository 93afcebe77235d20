# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import signal
import threading

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight import probe_full
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.probe_full import (
    Listener,
    pids_directories,
    pids_left,
    send_to,
)


@pytest.mark.parametrize(("maximum", "current", "left"), [("100\n", "40\n", 60), ("max", "40", None), ("", "", None)])
def test_how_many_processes_a_control_group_takes(maximum, current, left):
    assert pids_left(maximum, current) == left


def test_where_a_limit_on_processes_may_be():
    assert pids_directories("0::/a/b\n") == ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]
    assert pids_directories("8:pids:/a\n7:memory:/x\n") == ["/sys/fs/cgroup/pids/a", "/sys/fs/cgroup/pids"]


@pytest.mark.parametrize("temporary", ["", "no/such/place"])
def test_a_place_for_temporary_files_that_is_none_holds_no_probe_up(monkeypatch, tmp_path, temporary):
    def too_long(_number, _frame):
        raise TimeoutError

    monkeypatch.setenv("TMPDIR", temporary)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(probe_full, "_gpus", dict)
    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(10)
    try:
        disks = probe_full.look_closer({"run_dir": str(tmp_path / "run")})["disks"]
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert {disk["path"] for disk in disks} == {str(tmp_path), str(tmp_path) if temporary else "/tmp"}


def test_a_peer_without_room_for_threads_answers_the_others_nevertheless(monkeypatch):
    class Full(threading.Thread):
        def start(self):
            raise RuntimeError("can't start new thread")

    listener = Listener("127.0.0.1", 5.0)
    monkeypatch.setattr(threading, "Thread", Full)
    for _peer in range(2):
        assert send_to("127.0.0.1", listener.port, "127.0.0.1", 5.0)["status"] == "ok"
