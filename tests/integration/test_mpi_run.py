# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import signal
import time
import uuid

import pytest
from background import Playing, wait
from conftest import slow

POINT = {"argv": ["true"]}


def test_bad_input_is_one_line_and_changes_nothing(nodes):
    """Here of one option; each is tried in the module's unit test."""
    before = nodes.state("g1")
    result = nodes.module("mpi_run", {"run_id": "bad", "points": [POINT], "hostfile": "/nosuch"})
    assert nodes.state("g1") == before
    allowed = "a hostfile on this node, such as mpi_hostfile writes"
    assert result["failed"] and result["msg"] == f"hostfile: '/nosuch' is not allowed; allowed: {allowed}"


#: Of one rank on the launcher, which needs no ssh.
HOSTFILE = "/tmp/hostfile-of-one"
COUNT = "/tmp/times-run"
#: The sleeper ends where this is.
GO_ON = "/tmp/go-on"


@pytest.fixture(scope="module")
def node(nodes):
    nodes.shell("g1", f"echo 127.0.0.1 > {HOSTFILE}")
    yield nodes
    nodes.shell("g1", f"rm {HOSTFILE}")


@pytest.fixture
def run_id(node):
    """A run that is removed, whatever becomes of it."""
    run_id = f"detached-{uuid.uuid4().hex[:8]}"
    yield run_id
    assert not node.module("mpi_run", {"run_id": run_id, "state": "absent"})["failed"]
    node.shell("g1", f"rm -f {COUNT} {GO_ON}")
    assert processes_of(node, run_id) == []


def sleeping(run_id, **options):
    """A run of two points, the second of which waits for GO_ON."""
    program = ["bash", "-c", f"echo >> {COUNT}; until [ -e {GO_ON} ]; do sleep 0.1; done"]
    points = [{"argv": ["true"]}, {"name": "sleeper", "argv": program}]
    return {"run_id": run_id, "points": points, "hostfile": HOSTFILE, **options}


def processes_of(node, run_id):
    """The pids of all that carries the mark of the run."""
    grep = f"grep -lz GPUFABRIC_RUN_ID={run_id} /proc/[0-9]*/environ"
    return node.shell("g1", grep, check=False).stdout.split()


def runner_of(node, run_id):
    return json.loads(node.shell("g1", f"cat /run/gpufabric/{run_id}/mpi/run.json").stdout)["pid"]


def wait_for_sleeper(node):
    wait(lambda: node.shell("g1", f"test -e {COUNT}", check=False).returncode == 0)


def last_poll(node, run_id):
    return node.shell("g1", f"stat -c %y /run/gpufabric/{run_id}/mpi/polled").stdout


def sessions(node):
    """The processes that were started by way of ssh, by pid and name."""
    rows = [line.split() for line in node.shell("g1", "ps -e -o pid=,ppid=,comm=").stdout.splitlines()]
    sshds = {pid for pid, _parent, name in rows if name == "sshd"}
    return {(pid, name) for pid, parent, name in rows if parent in sshds and name not in ("sshd", "sftp-server")}


@pytest.mark.parametrize("pipelining", ["1", slow("0")])
def test_no_session_is_held_while_it_runs(node, run_id, pipelining, monkeypatch):
    monkeypatch.setenv("ANSIBLE_PIPELINING", pipelining)
    begin = time.monotonic()
    playing = Playing(node, sleeping(run_id), environment={"NCCL_GREETING": "hello"})
    wait_for_sleeper(node)
    started = time.monotonic()
    # Polls come and go.
    held = sessions(node)
    wait(lambda: held.intersection_update(sessions(node)) or not held, left=lambda: held)
    modes = node.shell("g1", f"find /run/gpufabric/{run_id} -perm /077").stdout
    assert modes == ""
    assert f"/proc/{runner_of(node, run_id)}/environ" in processes_of(node, run_id)
    looked = time.monotonic() - started
    node.shell("g1", f"touch {GO_ON}")
    played = playing.played()
    result = played.result(action="gpufabric.nccl.mpi_run")
    assert result["complete"] and not result["followed"] and "runner" not in result
    assert [point["status"] for point in result["points"]] == ["finished", "finished"]
    duration = result["points"][1]["duration"]
    assert looked < duration < time.monotonic() - begin
    assert result["points"][1]["command"].count("NCCL_GREETING") == 1
    assert played.output.index("g1: point 2 of 2, sleeper: started") < played.output.index(
        f"g1: point 2 of 2, sleeper: finished after {duration:.1f} s"
    )


def test_a_run_outlives_its_controller_and_is_followed(node, run_id):
    options = sleeping(run_id)
    playing = Playing(node, options)
    wait_for_sleeper(node)
    playing.signal(signal.SIGKILL, workers=True)
    assert playing.played().returncode == -signal.SIGKILL
    other, checked = node.modules([("mpi_run", {**options, "points": [POINT]}), ("mpi_run", options)], "--check")
    assert other["failed"] and "is still going on with other points or settings" in other["msg"]
    assert checked["followed"] and checked["points"][0]["status"] == "planned"
    before = last_poll(node, run_id)
    playing = Playing(node, options)
    wait(lambda: last_poll(node, run_id) != before)
    node.shell("g1", f"touch {GO_ON}")
    result = playing.result()
    assert result["complete"] and result["followed"]
    assert node.shell("g1", f"wc -l < {COUNT}").stdout == "1\n"
    # What is over is run again.
    again = node.module("mpi_run", {**options, "points": [POINT]})
    assert again["complete"] and not again["followed"]


def test_a_runner_that_is_killed_is_reported(node, run_id):
    playing = Playing(node, sleeping(run_id))
    wait_for_sleeper(node)
    pid = runner_of(node, run_id)
    node.shell("g1", f"kill -9 {pid}")
    result = playing.result()
    assert result["failed"] and "The process on the launcher that waited for the program is gone." in result["msg"]
    assert [point["status"] for point in result["points"]] == ["finished", "stopped"]
    assert result["points"][1]["problems"][0]["id"] == "runner-lost"
    assert processes_of(node, run_id) == []


def test_stopped_ends_all_and_keeps_the_files(node, run_id):
    playing = Playing(node, sleeping(run_id))
    wait_for_sleeper(node)
    stop = ("mpi_run", {"run_id": run_id, "state": "stopped"})
    assert node.module(*stop, "--check")["changed"]
    stopped, again = node.modules([stop, stop])
    assert stopped["changed"] and not again["changed"] and again["points"] == stopped["points"]
    assert [point["status"] for point in stopped["points"]] == ["finished", "stopped"]
    assert processes_of(node, run_id) == []
    result = playing.result()
    assert result["failed"] and "sleeper: The run was stopped before its end." in result["msg"]
    node.shell("g1", f"test -e {stopped['points'][1]['stdout_path']}")


@pytest.mark.parametrize("number", [slow(signal.SIGINT), signal.SIGTERM], ids=["INT", "TERM"])
def test_a_play_that_is_interrupted_ends_its_run(node, run_id, number):
    playing = Playing(node, sleeping(run_id))
    wait_for_sleeper(node)
    playing.signal(number)
    assert playing.played().returncode != 0
    wait(lambda: processes_of(node, run_id) == [])


@pytest.mark.slow
def test_a_task_whose_time_is_over_ends_its_run(node, run_id):
    # Long enough for the run to start, on a machine that is busy.
    tasks = [{"gpufabric.nccl.mpi_run": sleeping(run_id), "timeout": 60}]
    played = node.playbook([{"hosts": "g1", "gather_facts": False, "tasks": tasks}])
    assert played.result()["failed"] and played.returncode == 2
    assert node.shell("g1", f"test -e {COUNT}").returncode == 0
    assert processes_of(node, run_id) == []


@pytest.mark.slow
def test_a_run_that_was_started_is_waited_for_later(node, run_id):
    options = sleeping(run_id)
    started = node.module("mpi_run", {**options, "state": "started"})
    node.shell("g1", f"touch {GO_ON}")
    finished, again = node.modules([("mpi_run", options), ("mpi_run", options)])
    assert [point["status"] for point in started["points"]] == ["started", "started"]
    assert started["runner"]["directory"] == f"/run/gpufabric/{run_id}/mpi" and not started["followed"]
    assert finished["complete"] and finished["followed"]
    assert again["complete"] and not again["followed"]


@pytest.fixture
def cut_off(breakable, monkeypatch):
    """Cuts the connection to a node and any new one, and lets them be made again."""
    monkeypatch.setenv("ANSIBLE_TIMEOUT", "3")
    (sshd,) = breakable.shell("g1", "pgrep -P 1 -f sshd_config").stdout.split()

    def switch(off):
        sessions = f"pkill -P {sshd};" if off else ""
        breakable.shell("g1", f"kill -{'STOP' if off else 'CONT'} {sshd}; {sessions} true")

    breakable.shell("g1", f"echo 127.0.0.1 > {HOSTFILE}")
    yield switch
    switch(False)
    breakable.shell("g1", f"rm -f {HOSTFILE} {COUNT} {GO_ON}")
    assert not breakable.module("mpi_run", {"run_id": "cut-off", "state": "absent"})["failed"]


def test_a_run_goes_on_while_the_launcher_cannot_be_reached(breakable, cut_off, told):
    options = sleeping("cut-off")
    playing = Playing(breakable, {**options, "poll_grace": 3})
    wait(lambda: "g1: point 2 of 2, sleeper: started" in told())
    wait_for_sleeper(breakable)
    cut_off(True)
    result = playing.result()
    assert result["failed"] and "the launcher g1 has not answered for 3 s: " in result["msg"]
    assert "Connection timed out" in result["msg"]
    cut_off(False)
    playing = Playing(breakable, options)
    wait(lambda: "g1: this run was started before and is followed" in told())
    cut_off(True)
    wait(lambda: "g1: no answer, asked again for 60 s" in told())
    cut_off(False)
    wait(lambda: "g1: answers again" in told())
    breakable.shell("g1", f"touch {GO_ON}")
    result = playing.result()
    assert result["complete"] and result["followed"]
    assert breakable.shell("g1", f"wc -l < {COUNT}").stdout == "1\n"


@pytest.mark.slow
def test_a_run_that_was_removed_is_not_waited_for(node, run_id):
    playing = Playing(node, sleeping(run_id))
    wait_for_sleeper(node)
    assert not node.module("mpi_run", {"run_id": run_id, "state": "absent"})["failed"]
    result = playing.result()
    # It may look before the run's directory is gone, or the run.
    said = (
        f"/run/gpufabric/{run_id}/mpi is no longer on g1",
        "the run was stopped, or removed, before its end",
        "sleeper: The run was stopped before its end.",
    )
    assert result["failed"] and any(words in result["msg"] for words in said), result["msg"]
