# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.plugins.connection.local import Connection
from ansible_collections.gpufabric.nccl.plugins.action.display_text import ActionModule

TABLE = 'first "line"\n  second line\n'


def run(arguments, **keywords):
    task = Task()
    task.args = arguments
    for name, value in keywords.items():
        setattr(task, name, value)
    context = PlayContext()
    return ActionModule(task, Connection(context), context, DataLoader(), None, None).run(task_vars={})


@pytest.mark.parametrize("check_mode", [False, True])
def test_text_is_shown_as_it_is(capsys, check_mode):
    assert run({"text": TABLE}, check_mode=check_mode)["changed"] is False
    assert capsys.readouterr().out == TABLE


def test_control_characters_of_machines_are_not_shown(capsys):
    run({"text": "w1: \x1b]0;owned\x07\x1b[2J\rok: [w1]\u202e"})
    assert capsys.readouterr().out == "w1: \ufffd]0;owned\ufffd\ufffd[2J\ufffdok: [w1]\ufffd\n"


def test_no_log_shows_nothing(capsys):
    assert run({"text": TABLE}, no_log=True) == {"changed": False}
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("arguments", [{}, {"text": TABLE, "msg": "x"}])
def test_arguments_are_checked(arguments):
    with pytest.raises(AnsibleError, match=r"missing required arguments: text|Unsupported parameters.*: msg"):
        run(arguments)
