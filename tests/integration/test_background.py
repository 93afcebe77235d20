# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A play that does not end is ended with all that it started."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest
from background import end, wait
from conftest import Player


def carriers(variable: str) -> list[str]:
    """The processes that have a variable in their environment."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{variable}\0".encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("what_it_does", ["exec sleep 600", "trap '' TERM; while :; do sleep 600; done"])
def test_all_that_a_play_started_is_ended(tmp_path, what_it_does):
    variable = f"GPUFABRIC_RECORD={tmp_path}"
    # One has left its session, as the ssh that is shared between tasks does.
    script = f"setsid sh -c 'echo > {tmp_path}/started; sleep 600; true' & {what_it_does}"
    process = subprocess.Popen(["bash", "-c", script], env={**os.environ, "GPUFABRIC_RECORD": str(tmp_path)})
    wait((tmp_path / "started").exists)
    assert len(carriers(variable)) >= 3
    end(process, variable, seconds=0.5)
    assert carriers(variable) == []
    assert process.wait() < 0


def test_a_play_that_does_not_end_is_named(tmp_path):
    play = {"hosts": "localhost", "gather_facts": False, "tasks": [{"ansible.builtin.wait_for": {"timeout": 600}}]}
    with pytest.raises(pytest.fail.Exception) as told:
        Player(tmp_path, seconds=0.5).playbook([play], "--diff", which="this one")
    assert f"a play has not ended after 0.5 s: {tmp_path}/0.yml --diff: which: this one" in str(told.value)
    assert carriers(f"GPUFABRIC_RECORD={tmp_path}/0.jsonl") == []
