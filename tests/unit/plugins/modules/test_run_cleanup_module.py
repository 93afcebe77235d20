# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import pathlib
import subprocess
import time
import uuid

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.ownership import Ownership
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir
from ansible_collections.gpufabric.nccl.plugins.modules import run_cleanup

FIRST, SECOND = "10-100", "20-200"


def claim(owner, play):
    return {"owner": owner, "controller": "c1", "play": play, "live": [FIRST, SECOND]}


@pytest.fixture
def taken(tmp_path):
    """A run that the first play has taken, with a process."""
    run_dir = RunDir(f"unit.{uuid.uuid4().hex}", str(tmp_path / "run"))
    Ownership(run_dir, claim("me@here", FIRST)).take()
    process = subprocess.Popen(["sleep", "60"], env={**os.environ, **run_dir.marks()})
    # Popen may return a moment before the program has its command line.
    while not pathlib.Path(f"/proc/{process.pid}/cmdline").read_bytes():
        time.sleep(0.01)
    yield run_dir, process
    process.kill()
    process.wait()


def cleaned(run_dir, who, own):
    return run_cleanup.run({"run_id": run_dir.run_id, "run_dir": run_dir.path, "claim": who, "own": own}, False)


def test_what_cleans_up_after_itself_leaves_the_run_of_another_play_alone(taken):
    run_dir, process = taken
    for who in (claim("me@here", SECOND), claim("you@there", SECOND)):
        result = cleaned(run_dir, who, True)
        assert (result["changed"], result["ended"], result["removed"]) == (False, [], [])
    assert process.poll() is None and run_dir.read_mark()["play"] == FIRST
    assert cleaned(run_dir, claim("me@here", FIRST), True)["ended"] == ["sleep"]
    assert process.wait(10) == -15 and not os.path.exists(run_dir.path)


def test_an_owner_may_end_his_run_while_its_play_goes_on(taken):
    run_dir, process = taken
    with pytest.raises(ProblemError):
        cleaned(run_dir, claim("you@there", SECOND), False)
    assert process.poll() is None
    assert cleaned(run_dir, claim("me@here", SECOND), False)["ended"] == ["sleep"]


def test_a_run_that_nobody_has_taken_is_cleaned_up(tmp_path):
    run_dir = RunDir("unit", str(tmp_path / "run"))
    run_dir.create(run_dir.mpi)
    assert cleaned(run_dir, claim("me@here", FIRST), True)["removed"] == [run_dir.path]


def test_who_ends_a_run_that_another_user_has_is_told(monkeypatch):
    run_id = f"unit.{uuid.uuid4().hex}"
    monkeypatch.setattr(run_cleanup, "find_users", lambda run_dir: ["bench"] if run_dir.run_id == run_id else [])
    result = run_cleanup.run({"run_id": run_id, "run_dir": None, "claim": None, "own": False}, False)
    told = f"the run {run_id} of bench stays as it is: only that user can end it, so give teardown the ansible_user, or the become, of the run"
    assert (result["changed"], result["warnings"]) == (False, [told])
