# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import Process, read_processes
from ansible_collections.gpufabric.nccl.plugins.plugin_utils import _owner
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._owner import claim_of, live_plays, owner_of_run

PLAY = ("/usr/bin/python3", "/opt/bin/ansible-playbook", "site.yml")


def test_each_play_counts_once_whatever_started_it():
    processes = [
        Process(1, 0, 0, ("/sbin/init",), 1),
        Process(10, 1, 0, PLAY, 100),
        # Forks of it, and what they start.
        *(Process(pid, 10, 0, PLAY, 200) for pid in (11, 12)),
        Process(13, 11, 0, ("ssh: /root/.ansible/cp/1234 [mux]",), 201),
        Process(20, 1, 0, ("python3", "-m", "ansible", "playbook", "x.yml"), 300),
        # A play that another program of Ansible has started.
        Process(30, 1, 0, ("python3", "/usr/bin/ansible-runner", "run"), 400),
        Process(31, 30, 0, PLAY, 401),
    ]
    assert live_plays({process.pid: process for process in processes}) == {"10-100", "20-300", "30-400", "31-401"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_the_play_of_a_colleague_on_this_controller_is_live():
    """Or his run would be taken while his play does something else for ten minutes."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        playbook = pathlib.Path(folder, "ansible-playbook")
        playbook.write_text("#!/bin/sh\necho\nread word\n", encoding="utf-8")
        playbook.chmod(0o755)
        pipe = subprocess.PIPE
        with subprocess.Popen([playbook, "site.yml"], stdin=pipe, stdout=pipe, user=65534, group=65534) as process:
            try:
                assert process.stdout.readline() == b"\n"
                here = read_processes()
                assert f"{process.pid}-{here[process.pid].start}" in live_plays(here)
            finally:
                process.kill()


def test_an_owner_has_no_blanks_around_it_and_is_found_if_it_is_blank():
    assert owner_of_run(" me@here ") == "me@here" and "@" in owner_of_run(" ")


def test_the_claim_of_a_task_is_that_of_its_play():
    with multiprocessing.get_context("fork").Pool(1) as pool:
        task = pool.apply(claim_of, ("me@here", True))
    own = claim_of("me@here", False)
    # Other plays on this machine begin and end meanwhile.
    others = {"live": [], "take_over": False}
    assert {**own, **others} == {**task, **others} and task["take_over"] is True
    pid = os.getpid()
    assert own["play"] == f"{pid}-{read_processes()[pid].start}" and own["play"] in own["live"]
    assert json.loads(json.dumps(own)) == own


@pytest.mark.parametrize("owner", ["a\nb", "a" * 201])
def test_an_owner_is_a_short_text(owner):
    with pytest.raises(
        OptionError, match="^gpufabric_owner: .* is not allowed; allowed: text in one line of at most 200 characters"
    ):
        claim_of(owner, False)


def test_a_play_that_has_ended_is_not_live(tmp_path):
    program = tmp_path / "ansible-playbook"
    program.write_text("import time; print(flush=True); time.sleep(60)")
    play = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE)
    try:
        play.stdout.readline()
        name = f"{play.pid}-{read_processes()[play.pid].start}"
        assert name in claim_of("", False)["live"]
    finally:
        play.kill()
        play.wait()
    assert name not in claim_of("", False)["live"]


def test_a_container_and_a_machine_that_was_started_anew_are_other_controllers(monkeypatch):
    """Each job of AWX has a container of its own: its play is not to take the run of a job beside it for one that is over."""
    found = [claim_of("", False)["controller"]]
    monkeypatch.setattr(os, "readlink", lambda path: "pid:[1]")
    found.append(_owner._controller())
    monkeypatch.setattr(pathlib.Path, "read_text", lambda *_arguments, **_keywords: "another\n")
    found.append(_owner._controller())
    assert len(set(found)) == 3 and all(found), found


def test_a_controller_that_does_not_tell_its_processes(monkeypatch):
    monkeypatch.setattr(_owner, "_controller", lambda: "")
    monkeypatch.setattr(_owner, "read_processes", None)
    assert claim_of("me@here", False) == {
        "owner": "me@here",
        "controller": "",
        "play": str(os.getpid()),
        "live": [str(os.getpid())],
        "take_over": False,
    }
