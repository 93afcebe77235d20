# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

import pytest

ROUNDS = pathlib.Path(__file__).parents[4] / "roles/isolate/tasks/rounds.yml"

PLAY = """
- hosts: localhost
  gather_facts: false
  vars:
    isolate_search: {document: {complete: false}}
  tasks:
    - ansible.builtin.include_tasks: rounds.yml
"""
ROUND = """
- ansible.builtin.set_fact:
    done: "{{ done | default(0) | int + 1 }}"
    isolate_search: "{{ {'document': {'complete': done | default(0) | int + 1 == rounds}} }}"
"""


@pytest.mark.parametrize("rounds", [1, 10])
def test_a_search_has_as_many_rounds_as_it_needs(tmp_path, rounds):
    shutil.copy(ROUNDS, tmp_path)
    (tmp_path / "round.yml").write_text(ROUND)
    (tmp_path / "play.yml").write_text(PLAY)
    argv = [sys.executable, "-m", "ansible.cli.playbook", "-i", "localhost,", "-c", "local", "play.yml"]
    done = subprocess.run(
        [*argv, "-e", f'{{"rounds": {rounds}}}'], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("[ansible.builtin.set_fact]") == rounds
