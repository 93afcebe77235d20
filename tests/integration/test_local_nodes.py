# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import pathlib
import signal
import subprocess

import pytest
from background import wait
from conftest import one_at_a_time

RUN_ID = "locals"
VARIABLES = {
    "gpufabric_run_id": RUN_ID,
    "local_nodes_count": 2,
    "local_nodes_control_subnet": "10.66.251.0/24",
    "local_nodes_data_subnet": "192.168.251.0/24",
}
MODULE = "gpufabric.nccl.local_nodes"


@pytest.fixture
def role(player):
    """Runs a part of the role; all is removed at the end."""

    def run(tasks_from, *options, **changes):
        task = {"ansible.builtin.include_role": {"name": MODULE, "tasks_from": tasks_from}}
        play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": [task]}
        with one_at_a_time():
            return player.playbook([play], "--diff", *options, **{**VARIABLES, **changes})

    yield run
    run("teardown")


def containers(*options):
    argv = ["podman", "ps", *options, "--filter", f"label=gpufabric.run={RUN_ID}", "--format", "{{.Names}}"]
    return sorted(subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout.split())


def ended(pid):
    """Whether a process is gone, or waits for its parent to know."""
    try:
        return not pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True


def kill_with_its_monitor(container):
    """End a container without podman's knowledge."""
    argv = ["podman", "inspect", "--format", "{{.State.ConmonPid}} {{.State.Pid}}", container]
    pids = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    for pid in map(int, pids):
        os.kill(pid, signal.SIGKILL)
    wait(lambda: all(map(ended, pids)))


def predicted(role, tasks_from, **changes):
    """Run a part of the role in check mode, for real and again; what the module returned of the real run."""
    check, run, again = (role(tasks_from, *options, **changes) for options in (("--check",), (), ()))
    for played in (check, run, again):
        assert played.returncode == 0, played.output
    expected, result = check.result(action=MODULE), run.result(action=MODULE)
    assert (expected["changed"], expected["diff"]) == (result["changed"], result["diff"])
    assert again.changed() == []
    return result


def test_nodes_are_started_mended_added_and_removed_as_predicted(role):
    result = predicted(role, "main")
    assert result["changed"] and result["started"] == ["g1", "g2"]
    assert containers() == [f"gpufabric-{RUN_ID}-g1", f"gpufabric-{RUN_ID}-g2"]
    profile = ["podman", "exec", f"gpufabric-{RUN_ID}-g1", "cat", "/root/.bashrc"]
    assert subprocess.run(profile, stdout=subprocess.PIPE, text=True, check=True).stdout == "# Of a local node.\n"

    subprocess.run(["podman", "kill", f"gpufabric-{RUN_ID}-g2"], stdout=subprocess.DEVNULL, check=True)
    # Podman removes it when it has ended.
    wait(lambda: containers("--all") == [f"gpufabric-{RUN_ID}-g1"])
    assert predicted(role, "main")["started"] == ["g2"]
    assert predicted(role, "main", local_nodes_count=3)["started"] == ["g3"]

    # As where all processes of a session are killed at once: podman is not told.
    kill_with_its_monitor(f"gpufabric-{RUN_ID}-g2")
    assert containers() == [f"gpufabric-{RUN_ID}-{name}" for name in ("g1", "g2", "g3")]
    result = predicted(role, "main", local_nodes_count=3)
    assert result["started"] == ["g2"] and "g2: ended, unknown to podman" in result["diff"]["before"]

    kill_with_its_monitor(f"gpufabric-{RUN_ID}-g3")
    assert predicted(role, "teardown")["changed"]
    assert containers("--all") == []


def test_bad_input_is_one_line_and_starts_nothing(role):
    cases = [
        ({"local_nodes_count": 0}, "count: 0 is not allowed; allowed: 1 to 250"),
        ({"local_nodes_prefix": "g-"}, "prefix: 'g-' is not allowed; allowed: 1 to 30 lowercase letters and digits"),
        (
            {"local_nodes_control_subnet": "10.66.251.0"},
            "control_subnet: '10.66.251.0' is not allowed; allowed: a subnet",
        ),
        ({"gpufabric_run_id": "a/b"}, "run_id: 'a/b' is not allowed; allowed: 1 to 63 letters"),
    ]
    for changes, message in cases:
        played = role("main", **changes)
        assert played.returncode == 2
        (failed,) = [record["result"] for record in played.records if record["status"] == "failed"]
        assert failed["msg"].startswith(message) and "\n" not in failed["msg"]
    assert containers() == []
