# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import itertools
import os
import pathlib
import re
import shlex
import signal
import subprocess

import pytest
from background import wait
from conftest import ROOT
from groups import one_at_a_time

MODULE = "gpufabric.nccl.local_nodes"


class Role:
    """Runs parts of the role, for the nodes of a group."""

    def __init__(self, player, group):
        self._player = player
        self._group = group

    def __call__(self, tasks_from, *options, **changes):
        task = {"ansible.builtin.include_role": {"name": MODULE, "tasks_from": tasks_from}}
        play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": [task]}
        variables = {**self._group.variables, "local_nodes_count": 2, **changes}
        with one_at_a_time():
            return self._player.playbook([play], "--diff", *options, **variables)

    def container(self, node):
        return f"gpufabric-{self._group.run_id}-{node}"

    def containers(self, *options):
        """The nodes that podman knows, with ``--all`` also those that have ended."""
        label = f"label=gpufabric.run={self._group.run_id}"
        argv = ["podman", "ps", *options, "--filter", label, "--format", "{{.Names}}"]
        names = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        return sorted(name.removeprefix(self.container("")) for name in names)


@pytest.fixture
def role(player, group):
    return Role(player, group)


def ended(pid):
    """Whether a process is gone, or waits for its parent to know."""
    try:
        return not pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True


def networks(group):
    """The networks of the group, by what their names end with."""
    argv = ["podman", "network", "ls", "--format", "{{.Name}}"]
    names = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    begin = f"gpufabric-{group.run_id}-"
    return sorted(name.removeprefix(begin) for name in names if name.startswith(begin))


def kill_with_its_monitor(container):
    """End a container without podman's knowledge."""
    argv = ["podman", "inspect", "--format", "{{.State.ConmonPid}} {{.State.Pid}}", container]
    pids = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    for pid in map(int, pids):
        os.kill(pid, signal.SIGKILL)
    wait(lambda: all(map(ended, pids)))


def done(played):
    """What the module returned of a play that succeeded."""
    assert played.returncode == 0, played.output
    return played.result(action=MODULE)


def predicted(role, tasks_from):
    """Run a part of the role in check mode, for real and again; what the module returned of the real run."""
    expected, result, again = (done(role(tasks_from, *options)) for options in (("--check",), (), ()))
    assert (expected["changed"], expected["diff"]) == (result["changed"], result["diff"])
    assert not again["changed"]
    return result


@pytest.mark.slow
def test_nodes_are_started_mended_added_and_removed_as_predicted(role, tmp_path):
    result = predicted(role, "main")
    assert result["changed"] and result["started"] == ["g1", "g2"]
    assert role.containers() == ["g1", "g2"]
    profile = ["podman", "exec", role.container("g1"), "cat", "/root/.bashrc"]
    assert subprocess.run(profile, stdout=subprocess.PIPE, text=True, check=True).stdout == "# Of a local node.\n"

    subprocess.run(["podman", "kill", role.container("g2")], stdout=subprocess.DEVNULL, check=True)
    # Podman removes it when it has ended.
    wait(lambda: role.containers("--all") == ["g1"])
    assert done(role("main", local_nodes_count=3))["started"] == ["g2", "g3"]

    # As where all processes of a session are killed at once: podman is not told.
    kill_with_its_monitor(role.container("g2"))
    assert role.containers() == ["g1", "g2", "g3"]
    result = done(role("main", local_nodes_count=3))
    assert result["started"] == ["g2"] and "g2: ended, unknown to podman" in result["diff"]["before"]

    # Another owner, and the same one with other keys for nodes of the same names.
    for part, other in itertools.product(
        ("main", "teardown"), ({"gpufabric_owner": "you@there"}, {"local_nodes_state_dir": str(tmp_path / "nodes")})
    ):
        played = role(part, local_nodes_count=3, **other)
        assert played.returncode == 2 and "set gpufabric_take_over=true" in " ".join(played.output.split())
        assert played.changed() == [] and len(role.containers()) == 3

    kill_with_its_monitor(role.container("g3"))
    assert predicted(role, "teardown")["changed"]
    assert role.containers("--all") == []


def test_bad_input_is_one_line_and_starts_nothing(role):
    """Here of one option; each is tried in the module's unit test."""
    played = role("main", local_nodes_count=0)
    assert played.returncode == 2
    (failed,) = [record["result"] for record in played.records if record["status"] == "failed"]
    assert failed["msg"] == "count: 0 is not allowed; allowed: 1 to 250"
    assert role.containers("--all") == []


def test_what_is_left_of_a_start_that_fails_is_told(role, group):
    """Here the second network: another one has its subnet."""
    subnet = group.variables["local_nodes_data_subnet"]
    subprocess.run(["podman", "network", "create", "--subnet", subnet, f"gpufabric-{group.run_id}-other"], check=True)
    failed = role("main")
    assert failed.returncode == 2 and networks(group) == ["control", "other"]
    (command,) = re.findall(r"Remove them with: (ansible localhost .+)", failed.result()["msg"])
    subprocess.run(shlex.split(command), env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}, check=True)
    assert networks(group) == ["other"]


def test_files_of_others_are_left_alone(role, tmp_path):
    """``inventory.yml`` and ``known_hosts`` are names that users give, too."""
    theirs = tmp_path / "inventory.yml"
    theirs.write_text("all: {}\n")
    variables = {"local_nodes_state_dir": str(tmp_path)}
    played = role("main", **variables)
    assert played.returncode == 2
    assert "has inventory.yml already, which nodes of the run" in played.output
    assert not done(role("teardown", **variables))["changed"]
    assert theirs.read_text() == "all: {}\n" and list(tmp_path.iterdir()) == [theirs]
    tmp_path.chmod(0o755)
    os.chown(tmp_path, 12345, -1)
    assert (
        "belongs to uid 12345, who can put another directory there"
        in role("main", local_nodes_state_dir=str(tmp_path / "nodes")).output
    )
    assert role.containers("--all") == []
