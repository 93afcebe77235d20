# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import signal
import subprocess

import pytest
from ansible_collections.gpufabric.nccl.plugins.action.mpi_run import _at_most, _TookTooLong, _without_launcher


def test_what_hangs_is_ended_with_all_that_it_started():
    before = signal.getsignal(signal.SIGUSR1)
    process = subprocess.Popen(["sleep", "60"])
    with pytest.raises(_TookTooLong, match=r"no answer within 0.2 s"), _at_most(0.2):
        process.wait()
    assert process.wait(10) == -signal.SIGKILL
    assert signal.getsignal(signal.SIGUSR1) == before


def test_what_ends_in_time_is_left_alone():
    with _at_most(60):
        done = subprocess.run(["true"], check=False)
    assert done.returncode == 0


def test_what_has_finished_is_known_without_the_launcher():
    points = [{"name": name, "status": "started", "problems": []} for name in "abcd"]
    found = _without_launcher(points, {1: {"status": "finished"}, 2: {"status": "failed"}}, "the launcher is gone")
    assert [point["status"] for point in found["points"]] == ["finished", "failed", "stopped", "not_run"]
    assert found["msg"] == "the launcher is gone" and not found["complete"]
    problem = found["points"][2]["problems"][0]
    assert (problem["id"], problem["cause"]) == (
        "launcher-lost",
        "The launcher no longer answers: the launcher is gone.",
    )
