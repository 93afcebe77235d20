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
from ansible_collections.gpufabric.nccl.plugins.action.fail_with_problems import ActionModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem

MISSING = problem("daemon-missing", "g2", "/usr/bin/orted", daemon="orted", directory="/usr/bin").as_dict()


def run(arguments):
    task = Task()
    task.args = arguments
    context = PlayContext()
    return ActionModule(task, Connection(context), context, DataLoader(), None, None).run(task_vars={})


def test_a_person_reads_first_which_host_what_and_what_to_do():
    result = run({"problems": [MISSING], "logs": ["report.md"], "end": "The verdict is fail.\n"})
    assert result["failed"] is True and result["changed"] is False and result["problems"] == [MISSING]
    title, cause, cure, *rest = result["msg"].splitlines()
    assert (
        title == "WHAT IS WRONG" and cause.startswith("  g2: The host has no orted") and cure.startswith("    To do: ")
    )
    assert rest == [
        "EVIDENCE",
        "  g2, daemon-missing: /usr/bin/orted",
        "LOGS",
        "  report.md",
        "The verdict is fail.",
    ]


def test_control_characters_of_machines_are_neither_shown_nor_returned(capsys):
    hostile = {**MISSING, "host": "g2", "cause": "c \x1b[2J\r", "evidence": "e \x1b]0;t\x07"}
    result = run({"problems": [hostile], "logs": ["\x1b[2J"], "end": "\x9b2J"})
    texts = [result["msg"], *result["problems"][0].values(), *result["logs"], result["end"], capsys.readouterr().out]
    assert all(line.isprintable() for text in texts for line in str(text).split("\n"))


@pytest.mark.parametrize("arguments", [{}, {"problems": [{"id": "x"}]}, {"problems": [], "text": "x"}])
def test_arguments_are_checked(arguments):
    with pytest.raises(AnsibleError, match="missing required arguments|Unsupported parameters"):
        run(arguments)
