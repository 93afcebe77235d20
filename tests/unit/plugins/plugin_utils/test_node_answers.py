# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import re
import types

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError
from ansible.executor.interpreter_discovery import discover_interpreter
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import connection_loader
from ansible.release import __version__ as ansible_version
from ansible.template import Templar
from ansible.utils.display import Display
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._hiding import HIDDEN, LONGEST
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._node_answers import NodeModule, told_by_node

ESCAPE = "\x1b]0;owned\x07"
CLEANED = "\ufffd]0;owned\ufffd"
#: What a node says to deceive whoever reads the screen.
FORGED = f"{ESCAPE}\nPLAY RECAP ****\n\n  ok: [g2]\nfatal: [g3]: FAILED!\n"
COMMANDS = {
    "ansible_facts": {"report_dir": "/etc"},
    "ansible_stats": {"data": {"a": 1}},
    "ansible_job_id": "1",
    "_ansible_no_log": True,
    "_ansible_parsed": True,
    "_ansible_new_secrets": ["port"],
    "add_host": {"host_name": "a"},
    "add_group": "a",
    "unreachable": True,
    "deprecations": [{"msg": "a", "removed": True}],
    "failed_when_result": False,
    "include": "a.yml",
}


def nested(levels):
    return {"a": nested(levels - 1)} if levels else 1


def test_nothing_that_ansible_acts_on_is_told():
    assert told_by_node({**COMMANDS, "changed": True, "rows": [1, 1.5, None, True]}) == {
        "changed": True,
        "rows": [1, 1.5, None, True],
    }


def test_all_texts_are_cleaned():
    answer = {
        "msg": ESCAPE,
        ESCAPE: 1,
        "diff": [{"before": ESCAPE, "after": {ESCAPE: ESCAPE}}],
        "warnings": [ESCAPE, 5],
        "exception": ESCAPE,
    }
    assert told_by_node(answer) == {
        "msg": CLEANED,
        CLEANED: 1,
        "diff": [{"before": CLEANED, "after": {CLEANED: CLEANED}}],
        "warnings": [CLEANED, "5"],
        "exception": f"  {CLEANED}",
    }


def test_no_line_of_a_node_looks_like_one_of_ansible():
    forged = "First.\nok: [g2]\nfatal: [g3]: FAILED!"
    answer = {"failed": True, "msg": forged, "warnings": [forged]}
    told = told_by_node(answer)
    assert told["msg"] == "First.\n  ok: [g2]\n  fatal: [g3]: FAILED!"
    assert told["warnings"] == [forged.replace("\n", " ")]
    diff = {"before": forged, "before_header": forged, "prepared": forged}
    shown = {"before": forged, "before_header": told["warnings"][0]}
    assert told_by_node({"diff": diff}) == {"diff": shown} and told_by_node({"diff": [diff]}) == {"diff": [shown]}
    crash = types.SimpleNamespace(event=types.SimpleNamespace(msg=forged, formatted_traceback=None))
    assert told_by_node({"failed": True, "exception": crash})["msg"] == told["msg"]


def test_results_are_documents_and_no_items_of_a_loop():
    documents = [{"schema": ESCAPE, "failed_when_result": True, **COMMANDS}, 1]
    assert told_by_node({"results": documents}) == {"results": [{"schema": CLEANED}]}
    assert told_by_node({"results": 1, "warnings": 1, "exception": [1]}) == {}


def test_a_module_that_crashes_has_a_reason():
    """From ansible-core 2.19 on, such as where its node lets it start no process, there is nothing else."""
    crash = types.SimpleNamespace(event=types.SimpleNamespace(msg=f"[Errno 11] {ESCAPE}", formatted_traceback=None))
    assert told_by_node({"failed": True, "exception": crash}) == {"failed": True, "msg": f"[Errno 11] {CLEANED}"}
    assert told_by_node({"msg": "No.", "exception": crash}) == {"msg": "No."}


def test_an_answer_is_not_nested_too_deeply():
    assert told_by_node(nested(20)) == nested(20)
    with pytest.raises(NodeError, match="nested too deeply"):
        told_by_node(nested(60))


@pytest.fixture
def made(monkeypatch):
    """An action of a node that prints a text in place of all that it is told to run, and what Ansible warns of."""

    def make(printed, pipelining=True, tmpdir="/nosuch", **attributes):
        warned = []
        monkeypatch.setattr(Display, "warning", lambda _self, msg, *_more, **_options: warned.append(msg))
        monkeypatch.setattr(Display, "deprecated", lambda _self, msg, *_more, **_options: warned.append(msg))
        task, loader, context = Task(), DataLoader(), PlayContext()
        task.action, task.args = "gpufabric.nccl.free_port", {}
        for name, value in attributes.items():
            setattr(task, name, value)
        connection = connection_loader.get("local", context, None)
        # As ansible.cfg may not say: without it, the module is a file that is brought first.
        connection.set_options(direct={"pipelining": pipelining})
        monkeypatch.setattr(type(connection), "exec_command", printed)
        connection._shell.tmpdir = tmpdir
        action = NodeModule(task, connection, context, loader, Templar(loader), None)
        monkeypatch.setattr(action, "_configure_module", lambda **_arguments: configured())
        return action, warned

    return make


@pytest.fixture
def answer(made):
    """What such an action returns, and what Ansible warns of."""

    def run(printed, **attributes):
        action, warned = made(printed, **attributes)
        return action.run(task_vars={}), warned

    return run


def configured():
    """A module that was packed, as ActionBase has it of its release."""
    try:
        from ansible.plugins.action import _BuiltModule  # type: ignore[attr-defined]
    except ImportError:
        return ("new", "#!/usr/bin/python3", b"#", "/nosuch.py")
    return _BuiltModule(
        module_style="new", shebang="#!/usr/bin/python3", b_module_data=b"#", serialization_profile="legacy"
    ), "/nosuch.py"


def prints(text, errors="", status=0):
    return lambda _self, _command, **_options: (status, text.encode(), errors.encode())


def check_lines(text, is_block=False):
    """It controls no terminal, and no line of it but the first is one that Ansible could have written."""
    lines = text.splitlines()
    assert "owned" in text and all(line.isprintable() for line in lines), text
    assert [line for line in lines[not is_block :] if line and not line.startswith("  ")] == [], text


def test_what_ansible_finds_in_an_answer_and_beside_it(answer):
    told, warned = answer(prints(json.dumps({**COMMANDS, "msg": ESCAPE, "port": 1}) + f"\njunk {ESCAPE}\n"))
    assert (told["msg"], told["port"], told.get("_ansible_parsed", True)) == (CLEANED, 1, True)
    assert set(told) & set(COMMANDS) <= {"_ansible_parsed"}
    assert len(warned) == 1 and warned[0].isprintable() and "junk" in warned[0]


@pytest.mark.parametrize("printed", ['{"port": 1}', '{"port": }'], ids=["an answer", "none"])
def test_text_beside_an_answer_is_one_line(answer, printed):
    told, warned = answer(prints(f"{FORGED}{printed}\n{FORGED}"))
    assert told.get("port") == 1 or told["failed"]
    assert len(warned) == 1 and warned[0].isprintable() and "PLAY RECAP" in warned[0], warned
    assert len(answer(prints(f"{printed}\n{'x' * 5000}"))[1][0]) < 400
    assert answer(prints('{"port": 1}\n\n'))[1] == []


def test_what_is_printed_in_place_of_an_answer_is_indented(answer):
    told, _warned = answer(prints(f"Traceback{FORGED}", FORGED, 1))
    for name in ("module_stdout", "module_stderr"):
        check_lines(told[name], is_block=True)
    if ansible_version < "2.19":
        check_lines(told["exception"], is_block=True)
    check_lines(told_by_node({"exception": FORGED})["exception"], is_block=True)
    assert answer(prints("no", ""))[0]["module_stderr"] == ""


def tagged(kind, value):
    """A value as ansible-core from 2.19 on sends it, with a warning of whoever reads it."""
    tag = {"__ansible_type": "Deprecated", "msg": ESCAPE}
    return {"__ansible_type": f"_AnsibleTagged{kind}", "value": value, "tags": [tag]}


def test_no_value_brings_a_warning_of_its_own(answer):
    values = {"port": tagged("Int", 1), "time": tagged("Float", 0.5), "msg": tagged("Str", "a")}
    told, warned = answer(prints(json.dumps(values)))
    if ansible_version < "2.19":
        # It is a dictionary like any other.
        assert told["port"]["tags"][0]["msg"] == CLEANED
    else:
        kinds = [told[name].__class__.__name__ for name in values]
        assert kinds == ["int", "float", "str"] and [told[name] for name in values] == [1, 0.5, "a"]
    assert not warned


def test_no_name_in_an_object_of_ansible_is_shown_as_it_is(answer):
    told, warned = answer(prints(json.dumps({"port": {**tagged("Str", "a"), FORGED: 1}})))
    shown = str(told["port"]) if ansible_version < "2.19" else told["msg"]
    assert "owned" in shown and shown.isprintable() and not warned
    assert ansible_version < "2.19" or (told["failed"] and not told["_ansible_parsed"])


@pytest.mark.parametrize("printed", [ESCAPE, f"Traceback {ESCAPE}", '{"a":' * 5000, json.dumps(nested(60))])
def test_what_is_no_answer(answer, printed):
    told, warned = answer(prints(printed))
    assert told["failed"] and not told["_ansible_parsed"] and not warned
    assert "\x1b" not in str(told) and told["msg"]


@pytest.mark.parametrize(("verbosity", "length"), [(0, 301), (1, 1004)])
def test_progress_is_one_line(monkeypatch, verbosity, length):
    shown = []
    monkeypatch.setattr(Display, "display", lambda _self, text, *_more, **_options: shown.append(text))
    monkeypatch.setattr(Display(), "verbosity", verbosity)
    action = NodeModule.__new__(NodeModule)
    action._task = Task()
    action.show("g1", f"a{ESCAPE}\nok: [g2]\r\n")
    action.show("g1", "x" * 1000)
    assert shown[0] == f"g1: a{CLEANED} ok: [g2] " and len(shown[1]) == length
    action._task.no_log = True
    action.show("g1", "a")
    assert len(shown) == 2


def test_a_task_of_a_role_shows_no_difference_that_nobody_asked_for_and_nothing_long():
    action = NodeModule.__new__(NodeModule)
    action._task = Task()
    short = {"changed": True, "diff": {"before": "", "after": "x" * LONGEST}}
    long = {"hosts": ["gpu-1"] * LONGEST}
    assert action.shown(short) == short and action.shown(long) == long
    action._task._role = "a role"
    assert action.shown(short) == {"changed": True} and action.shown(long) == {**long, **HIDDEN}
    failed = {**long, "failed": True}
    assert action.shown(failed) == failed
    action._task.diff = True
    assert action.shown(short) == short and action.shown(long) == long


def test_arguments_are_told_without_values_that_may_be_secret():
    made = NodeModule.__new__(NodeModule)
    made._task = Task()
    variables = {"TOKEN": "s3cr3t", "NCCL_IB_HCA": "mlx5"}
    arguments = {"environment": variables, "env": variables, "node_env": variables, "port": 0}
    for answer in ({"changed": True}, {"failed": True, "msg": "no"}):
        told = made.shown({**answer, "invocation": {"module_args": {**arguments, "accept_env": ["TOKEN"]}}})
        assert "s3cr3t" not in str(told) and "mlx5" in str(told)
        shown = told["invocation"]["module_args"]
        assert shown["accept_env"] == ["TOKEN"] and list(shown["environment"]) == list(variables)
    assert made.shown({"invocation": {"module_args": ""}}) == {"invocation": {"module_args": ""}}


def test_what_a_connection_says_of_the_node(answer):
    def fail(_self, _command, **_options):
        raise AnsibleConnectionFailure(f"Failed to connect: {FORGED}")

    with pytest.raises(AnsibleConnectionFailure, match="owned") as failed:
        answer(fail)
    check_lines(str(failed.value))


def test_errors_of_the_way_to_a_directory_there_are_lines_of_their_own(answer, made, tmp_path):
    """Ansible tells them before there is an answer, and after."""
    with pytest.raises(AnsibleConnectionFailure, match="Failed to create temporary directory") as failed:
        answer(prints(FORGED, FORGED, 1), pipelining=False, tmpdir=None)
    check_lines(str(failed.value))

    def refuse(_self, command, **_options):
        return (1, b"", FORGED.encode()) if "chmod" in str(command) else (0, b"", b"")

    with pytest.raises(AnsibleError, match="Failed to set ") as failed:
        answer(refuse, pipelining=False, tmpdir=str(tmp_path))
    check_lines(str(failed.value))
    action, warned = made(prints("", FORGED, 1))
    action._remove_tmp_path("/nosuch", force=True)
    (warning,) = warned
    check_lines(warning)


def test_what_a_node_says_of_its_distribution_is_one_line(made):
    """Before ansible-core 2.19, which Python is to be used is told with the name and the version of the distribution."""
    platform = {"platform_dist_result": ["Debian", f"9{FORGED}", ""]}
    found = f"PLATFORM\nLinux\nFOUND\n/usr/bin/python3.99{ESCAPE}\nENDFOUND\n"
    if ansible_version >= "2.19":
        found = found.replace("PLATFORM\nLinux\n", "")
    printed = iter([found, json.dumps(platform), '{"port": 1}'])
    action, warned = made(lambda _self, _command, **_options: (0, next(printed).encode(), b""))
    discover_interpreter(action, "python", "auto", {"inventory_hostname": "g1"})
    if ansible_version >= "2.19":
        next(printed)
    told = action._execute_module(task_vars={})
    warned += told.get("warnings", [])
    assert told["port"] == 1 and len(warned) == 1, warned
    assert "owned" in warned[0] and warned[0].isprintable()


@pytest.mark.parametrize("method", ["_execute_module", "_low_level_execute_command"])
def test_what_an_unreachable_node_says_is_no_template(monkeypatch, method):
    """Before ansible-core 2.19, whoever reads the result of a host that is unreachable runs it: such a result is not marked as unsafe."""

    def fail(*_arguments, **_keywords):
        raise AnsibleConnectionFailure("Failed to connect: {{ lookup('pipe', 'id') }} {% if 1 %} {# a #} {{{ b }}}")

    monkeypatch.setattr(ActionBase, method, fail)
    with pytest.raises(AnsibleConnectionFailure, match="lookup") as failed:
        getattr(NodeModule.__new__(NodeModule), method)()
    assert not re.search("{[{%#]", str(failed.value))


def test_no_module_is_left_to_itself(answer):
    with pytest.raises(AnsibleActionFail, match="async"):
        answer(prints("{}"), async_val=10)


def test_why_a_file_did_not_come_to_the_node_is_cleaned(monkeypatch):
    def refuse(*_arguments, **_keywords):
        raise AnsibleError(f"failed to transfer file: {FORGED}")

    monkeypatch.setattr(ActionBase, "_transfer_file", refuse)
    with pytest.raises(AnsibleError) as raised:
        NodeModule.__new__(NodeModule)._transfer_file("here", "there")
    check_lines(str(raised.value))
