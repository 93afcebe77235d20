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
from ansible.template import Templar
from ansible_collections.gpufabric.nccl.plugins.action.fail_with_problems import ActionModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.task_results import (
    failure_details,
    problems_from_result,
)

try:
    from ansible.template import trust_as_template
except ImportError:

    def trust_as_template(text):
        """Older releases trust every text."""
        return text


MISSING = problem("daemon-missing", "g2", "/usr/bin/orted", daemon="orted", directory="/usr/bin").as_dict()


def trusted(variables):
    """Variables as a playbook has them."""
    return {name: trust_as_template(value) for name, value in variables.items()}


def run(arguments, task_vars=None):
    task = Task()
    task.args = arguments
    context = PlayContext()
    loader, task_vars = DataLoader(), trusted(task_vars or {})
    templar = Templar(loader, variables=task_vars)
    return ActionModule(task, Connection(context), context, loader, templar, None).run(task_vars=task_vars)


def test_a_person_reads_once_which_host_what_and_what_to_do(capsys):
    result = run({"problems": [MISSING], "logs": ["report.md"], "end": "The verdict is fail.\n"})
    assert result["failed"] is True and result["changed"] is False
    # All that Ansible shows of it.
    assert {name for name in result if name not in ("invocation", "failed", "changed")} == {"msg"}
    assert result["msg"] == "daemon-missing: see above."
    assert failure_details(result)["problems"] == [MISSING] == problems_from_result(result)
    title, cause, cure, *rest = capsys.readouterr().out.splitlines()
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


def test_a_reason_without_problems_is_the_message(capsys):
    result = run({"problems": [], "end": "The verdict is fail."})
    assert result["msg"] == "The verdict is fail." == failure_details(result)["end"]
    assert capsys.readouterr().out == ""


def test_a_playbook_may_say_what_else_to_do_in_the_end(capsys):
    task_vars = {"gpufabric_failure_note": "Remove them with: {{ command }}", "command": "x"}
    run({"problems": [MISSING]}, task_vars)
    assert capsys.readouterr().out.splitlines()[-1] == "Remove them with: x"


def test_control_characters_of_machines_are_neither_shown_nor_returned(capsys):
    hostile = {**MISSING, "host": "g2", "cause": "c \x1b[2J\r", "evidence": "e \x1b]0;t\x07"}
    result = failure_details(run({"problems": [hostile], "logs": ["\x1b[2J"], "end": "\x9b2J"}))
    texts = [result["msg"], *result["problems"][0].values(), *result["logs"], result["end"], capsys.readouterr().out]
    assert all(line.isprintable() for text in texts for line in str(text).split("\n"))


FORGED = "no room\n\nPLAY RECAP ****\ng2 : ok=9 failed=0"


@pytest.mark.parametrize(
    "arguments",
    [
        {"result": {"failed": True, "problems": [MISSING], "end": FORGED}},
        {"result": {"failed": True, "problems": [MISSING], "summary": FORGED}},
        {"result": {"failed": True, "msg": FORGED}},
        {"problems": [MISSING], "logs": [FORGED]},
    ],
)
def test_no_line_of_what_a_machine_says_looks_like_one_of_ansible(capsys, arguments):
    result = failure_details(run(arguments))
    lines = [*capsys.readouterr().out.splitlines(), *result["end"].splitlines()[1:]]
    assert "PLAY RECAP" in str(lines) and not [line for line in lines if line.startswith(("PLAY", "g2 :"))]


def test_a_problem_of_the_catalogue_needs_its_id_and_facts_alone():
    (found,) = problems_from_result(run({"problems": [{"id": "kube-name-taken", "facts": {"object": "Service s"}}]}))
    assert found == problem("kube-name-taken", object="Service s").as_dict()
    facts = {"host": "g1", "self": 1, "identity": "x", "evidence": "y", "severity": "z", 5: 6}
    given = {"id": "env-not-sent", "host": "g2", "severity": "error", "cause": "It is cold.", "facts": facts}
    (found,) = problems_from_result(run({"problems": [given]}))
    assert found == {**problem("env-not-sent", "g2", severity="error").as_dict(), "cause": "It is cold."}
    (found,) = problems_from_result(run({"problems": [{"id": "env-not-sent"}]}))
    assert found["severity"] == "warning"
    result = run({"problems": [{"id": "cold"}]})
    assert result["failed"] and result["msg"].startswith("problems[0].id: 'cold' is not allowed")


def test_a_task_that_failed_says_why():
    earlier = run({"problems": [MISSING], "end": "The end."})
    for given in (earlier, {"failed": True, "msg": "no", "problems": [MISSING], "end": "The end."}):
        result = failure_details(run({"result": given}))
        assert (result["problems"], result["end"]) == ([MISSING], "The end.")
    result = failure_details(
        run({"result": {"failed": True, "msg": "no room"}, "problems": [{"id": "kube-leftovers"}]})
    )
    assert [item["id"] for item in result["problems"]] == ["kube-leftovers"] and result["end"] == "no room"


def test_what_hosts_that_are_gone_said_is_no_news():
    cut = {**problem("output-cut").as_dict(), "severity": "warning"}
    lost = problem("pod-lost", "b").as_dict()
    arguments = {"results": {"a": {"failed": True, "problems": [cut]}, "b": {"failed": True, "msg": "no"}}}
    later = [{"id": "kube-leftovers"}]
    found = problems_from_result(run({**arguments, "lost": [lost], "problems": later}))
    assert [item["id"] for item in found] == ["pod-lost", "kube-leftovers"]
    assert [item["id"] for item in problems_from_result(run(arguments))] == ["output-cut", "step-failed"]


@pytest.mark.parametrize("arguments", [{}, {"problems": [{"cause": "x"}]}, {"problems": [], "text": "x"}])
def test_arguments_are_checked(arguments):
    with pytest.raises(AnsibleError, match="missing required arguments|Unsupported parameters"):
        run(arguments)
