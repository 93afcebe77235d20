# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.launch import (
    ARGUMENT_SPEC,
    make_plan,
    orphan_limit,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.ownership import Ownership
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.account import Account
from ansible_collections.gpufabric.nccl.plugins.modules import mpi_run

POINT = {"argv": ["true"]}


@pytest.mark.parametrize(
    ("given", "state", "grace", "seconds"),
    [
        (None, "finished", 60, 90),
        # As long as it may not answer, it is asked.
        (None, "finished", 600, 630),
        (None, "finished", 3, 90),
        (None, "started", 60, 3600),
        (5, "finished", 60, 5),
        (0, "started", 60, 0),
    ],
)
def test_how_long_a_run_goes_on_without_being_polled(given, state, grace, seconds):
    assert orphan_limit({"orphan_timeout": given, "state": state, "poll_grace": grace}) == seconds


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Stand-ins of programs that are asked for their version or not at all: this machine need not have them."""
    for path, text in (("mpi/bin/mpirun", "mpirun (Open MPI) 4.1.4"), ("bin/ssh", "")):
        program = tmp_path / path
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho '{text}'\n", encoding="utf-8")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin", prepend=os.pathsep)


def test_questions_to_all_hosts_take_a_quick_key_exchange_and_mpirun_that_of_its_ssh(programs, tmp_path):
    hostfile = tmp_path / "hostfile"
    hostfile.write_text("192.0.2.1 slots=1\n", encoding="utf-8")
    params = {name: option.get("default") for name, option in ARGUMENT_SPEC.items()}
    params.update({"points": [{**POINT, "env": {}}], "hostfile": str(hostfile), "mpi_prefix": str(tmp_path / "mpi")})
    run_dir = RunDir("unit", None)
    plan, _notes = make_plan(params, run_dir, Account(run_dir), True)
    ssh = [str(tmp_path / "bin/ssh"), "-F", run_dir.ssh_config]
    assert plan.reach.hosts == ("192.0.2.1",)
    assert list(plan.reach.agent) == [*ssh, "-o", "KexAlgorithms=^mlkem768x25519-sha256,curve25519-sha256"]
    assert not any("KexAlgorithms" in word for word in (*plan.jobs[0].command, *plan.jobs[0].environment.values()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"points": []}, "points: [] is not allowed; allowed: at least one point"),
        (
            {"points": [POINT, {"argv": []}]},
            "points[1].argv: [] is not allowed; allowed: a program and its arguments",
        ),
        (
            {"points": [{**POINT, "timeout": 0}]},
            "points[0].timeout: 0.0 is not allowed; allowed: more than 0 seconds",
        ),
        (
            {"points": [{**POINT, "env": {"A B": 1}}]},
            "points[0].env: {'A B': (not shown)} is not allowed; allowed: names of environment variables, and values of one line",
        ),
        (
            {"points": [{**POINT, "env": {"A": "b\nc"}}]},
            "points[0].env: {'A': (not shown)} is not allowed; allowed: names of environment variables, and values of one line",
        ),
        ({"timeout": -1}, "timeout: -1.0 is not allowed; allowed: more than 0 seconds"),
        (
            {"hostfile": "/etc"},
            "hostfile: '/etc' is not allowed; allowed: a file on this host that can be read (Is a directory)",
        ),
        (
            {"hostfile": "/nosuch"},
            "hostfile: '/nosuch' is not allowed; allowed: a hostfile on this node, such as mpi_hostfile writes",
        ),
        ({"ranks_per_node": 0}, "ranks_per_node: 0 is not allowed; allowed: 1 or more"),
        (
            {"mpi_prefix": "/nosuch"},
            "mpi_prefix: '/nosuch' is not allowed; allowed: a directory with bin/mpirun in it",
        ),
        (
            {"control_interface": "eth0 net1"},
            "control_interface: 'eth0 net1' is not allowed; allowed: the name of an interface, or an IPv4 subnet"
            " such as 10.0.0.0/24; several with commas between",
        ),
        (
            {"mca": {"a b": 1}},
            "mca: {'a b': '1'} is not allowed; allowed: names of MCA parameters, and values of one line",
        ),
        (
            {"run_id": "a/b"},
            "run_id: 'a/b' is not allowed; allowed: 1 to 63 letters, digits, dots, underscores and dashes,"
            " beginning with a letter or digit",
        ),
        (
            {"run_dir": "/etc/passwd/run"},
            "run_dir: /etc/passwd/run cannot be made, because /etc/passwd is not a directory that {user} may write;"
            " set run_dir (in playbooks gpufabric_run_dir) to a path below one that is",
        ),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(refuse, programs, tmp_path, options, message):
    (tmp_path / "hostfile").write_text("127.0.0.1\n", encoding="utf-8")
    places = {"run_dir": "{tmp}/run", "hostfile": "{tmp}/hostfile", "mpi_prefix": "{tmp}/mpi"}
    refuse(mpi_run, {"run_id": "bad", "points": [POINT], **places, **options}, message)


FIRST, SECOND = "10-100", "20-200"


def claim(owner, play, **more):
    return {"owner": owner, "controller": "c1", "play": play, "live": [FIRST, SECOND], "take_over": False, **more}


def refused(tmp_path, state, **claimed):
    """The id of the problem with which a call is refused in a run that the first play has taken; None if it is not."""
    run_dir = RunDir("unit", str(tmp_path / "run"))
    Ownership(run_dir, claim("me@here", FIRST)).take()
    values = {name: option.get("default") for name, option in ARGUMENT_SPEC.items()}
    options = {
        "run_id": "unit",
        "run_dir": run_dir.path,
        "state": state,
        "points": [{**POINT, "name": None, "env": {}}],
    }
    try:
        mpi_run.run({**values, **options, "hostfile": "/nosuch", "claim": claim(**claimed)}, False)
    except ProblemError as error:
        (problem,) = error.problems
        return problem.id
    except OptionError:
        # It came as far as its hostfile.
        pass
    return None


@pytest.mark.parametrize(
    ("claimed", "started", "stopped", "absent"),
    [
        ({"owner": "me@here", "play": FIRST}, None, None, None),
        # An owner removes his own run whenever he wants to; what a play stops is its own.
        ({"owner": "me@here", "play": SECOND}, "run-in-use", "run-in-use", None),
        ({"owner": "me@here", "play": SECOND, "live": [SECOND]}, None, "run-in-use", None),
        ({"owner": "you@there", "play": SECOND}, "run-taken", "run-taken", "run-taken"),
        # Whoever takes a run over does so before.
        ({"owner": "you@there", "play": SECOND, "take_over": True}, "run-taken", "run-taken", None),
    ],
)
def test_a_run_that_another_play_has_is_left_alone(tmp_path, claimed, started, stopped, absent):
    states = {"started": started, "finished": started, "stopped": stopped, "absent": absent}
    assert {state: refused(tmp_path, state, **claimed) for state in states} == states


def test_files_are_brought_to_a_node_that_is_no_launcher(tmp_path):
    run_dir = str(tmp_path / "run")
    params = {"run_id": "x", "run_dir": run_dir, "state": "prepared", "claim": None, "files": {"a.py": "pass\n"}}
    assert mpi_run.run(params, True) == {"changed": True} and not os.path.exists(run_dir)
    assert mpi_run.run(params, False) == {"changed": True}
    path = tmp_path / "run/mpi/files/a.py"
    assert path.read_text(encoding="utf-8") == "pass\n" and path.stat().st_mode & 0o777 == 0o600
    assert mpi_run.run(params, False) == {"changed": False}
    with pytest.raises(OptionError, match="files"):
        mpi_run.run({**params, "files": {"../a.py": ""}}, False)
    mpi_run.run({**params, "claim": claim("me@here", FIRST)}, False)
    assert RunDir("x", run_dir).read_mark()["owner"] == "me@here"
    with pytest.raises(ProblemError, match="run-taken|belongs to me@here"):
        mpi_run.run({**params, "claim": claim("you@there", SECOND)}, False)
