# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.reaper import Reach, Reaped, parse_answer, reap
from ansible_collections.gpufabric.nccl.tests.unit.plugins.module_utils.test_process import ENDLESS

DEAF = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
TIRED = "import time; print(flush=True); time.sleep(60)"


@pytest.mark.parametrize(
    ("text", "said", "reaped"),
    [
        ("banner\ngpufabric.nccl\ngpufabric.nccl\n", "", Reaped("g2")),
        ("gpufabric.nccl\nended sleep\nended orted\ngpufabric.nccl\n", "x", Reaped("g2", ("orted", "sleep"))),
        (
            "gpufabric.nccl\nended a b\nleft a b\ngpufabric.nccl\n",
            "",
            Reaped("g2", ("a b",), "processes that do not end: a b"),
        ),
        ("gpufabric.nccl\nended sleep\n", "a\nconnection lost\n", Reaped("g2", error="connection lost")),
        ("", "", Reaped("g2", error="it gave no answer")),
    ],
)
def test_parse_answer(text, said, reaped):
    assert parse_answer("g2", text, said) == reaped
    assert (reaped.problem() is None) == (reaped.error is None)


@pytest.fixture
def agent(tmp_path):
    """What takes the arguments of ssh and runs the command on this node, with any shell."""
    path = tmp_path / "agent"
    path.write_text('#!/bin/sh\n[ "$5" = dead ] && exec sleep 60\nshift 5\nexec "$@"\n')
    path.chmod(0o755)
    return str(path)


def begin(program, **environment):
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    process.stdout.readline()
    return process


def test_all_of_the_run_is_ended_and_nothing_else(agent):
    run_id = f"unit.{os.getpid()}"
    mine = [
        begin(TIRED, GPUFABRIC_POINT=f"{run_id}/1"),
        begin(DEAF, GPUFABRIC_POINT=f"{run_id}/2"),
        begin(TIRED, OMPI_MCA_gpufabric_point=f"{run_id}/1"),
        begin(TIRED, GPUFABRIC_POINT=f"{run_id}/3"),
    ]
    mine[3].send_signal(19)
    others = [begin(TIRED, GPUFABRIC_POINT=f"{run_id}.other/1"), begin(TIRED, GPUFABRIC_POINT="unit/1")]
    try:
        (found,) = reap(run_id, Reach(("here",), (agent,), {}), os.environ)
        assert found.host == "here" and len(found.ended) == 4 and found.error is None
        assert [process.wait(10) for process in mine] == [-15, -9, -15, -15]
        assert [process.poll() for process in others] == [None, None]
        assert reap(run_id, Reach(("here",), (agent,), {}), os.environ) == []
    finally:
        for process in mine + others:
            process.kill()
            process.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_what_others_start_as_this_user_stays(agent):
    run_id = f"unit.{os.getpid()}"
    process = begin(f"import os; os.setresuid(65534, 0, 0); {TIRED}", GPUFABRIC_POINT=f"{run_id}/1")
    try:
        assert reap(run_id, Reach(("here",), (agent,), {}), os.environ) == []
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("session", "ended"),
    [({"GPUFABRIC_RUN_DIR": "/var/tmp/x"}, ["/var/tmp/x"]), ({}, [None])],
)
def test_a_run_of_the_same_name_in_another_directory_stays(agent, session, ended):
    run_id = f"unit.{os.getpid()}"
    processes = {}
    try:
        for directory in (None, "/var/tmp/x", "/var/tmp/x2", "/other"):
            own = {} if directory is None else {"GPUFABRIC_RUN_DIR": directory}
            processes[directory] = begin(TIRED, GPUFABRIC_POINT=f"{run_id}/1", **own)
        reap(run_id, Reach(("here",), (agent,), session), os.environ)
        for directory in ended:
            assert processes[directory].wait(10) == -15
        assert [directory for directory, process in processes.items() if process.poll() is not None] == ended
    finally:
        for process in processes.values():
            process.kill()
            process.wait()


def test_a_host_that_does_not_answer_or_prints_without_end_holds_nothing_up(agent, monkeypatch, tmp_path):
    monkeypatch.setattr("ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.reaper._DEADLINE", 5.0)
    found = reap("unit-none", Reach(("dead", "here", "dead"), (agent,), {}), os.environ)
    assert found == [Reaped("dead", error="no answer within 5 s")] * 2
    noisy = tmp_path / "noisy"
    noisy.write_text("#!/bin/sh\nexec yes\n")
    noisy.chmod(0o755)
    (loud,) = reap("unit-none", Reach(("loud",), (str(noisy),), {}), os.environ)
    assert loud == Reaped("loud", error=f"{noisy} was ended because it printed more than 1 MiB")
    assert reap("unit-none", Reach(("x",), ("/nosuch",), {}), os.environ)[0].error.startswith("cannot run /nosuch")


@pytest.mark.slow
def test_a_process_whose_environment_is_all_of_its_memory_holds_nothing_up(agent, monkeypatch):
    monkeypatch.setattr("ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.reaper._DEADLINE", 60.0)
    run_id = f"unit.{os.getpid()}"
    # Of a machine's size: it would be read for hours.
    endless = subprocess.Popen([sys.executable, "-c", ENDLESS.replace("64 << 30", "32 << 40")], stdout=subprocess.PIPE)
    mine = begin(TIRED, GPUFABRIC_POINT=f"{run_id}/1", GPUFABRIC_RUN_DIR="/var/tmp/x")
    try:
        if endless.stdout.readline() != b"set\n":
            pytest.skip("the kernel does not let a process do so")
        (found,) = reap(run_id, Reach(("here",), (agent,), {"GPUFABRIC_RUN_DIR": "/var/tmp/x"}), os.environ)
        assert found.error is None and len(found.ended) == 1 and mine.wait(10) == -15
        assert endless.poll() is None
    finally:
        for process in (endless, mine):
            process.kill()
            process.communicate()
