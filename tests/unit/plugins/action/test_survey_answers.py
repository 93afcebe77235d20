# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answers of a survey of AWX, and texts of -e NAME=VALUE, for every variable of every role: they work, or are refused first of all."""

from __future__ import annotations

import functools
import pathlib
import re
import typing as t

import pytest
import yaml
from ansible_collections.gpufabric.nccl.plugins.action import check_variables
from ansible_collections.gpufabric.nccl.plugins.action.check_variables import NO_BLANK, NO_TEXT, ActionModule
from ansible_collections.gpufabric.nccl.plugins.action.local_nodes import ActionModule as LocalNodes
from ansible_collections.gpufabric.nccl.plugins.action.mpi_preflight import ActionModule as MpiPreflight
from ansible_collections.gpufabric.nccl.plugins.action.nccl_tests_build import ActionModule as NcclTestsBuild
from ansible_collections.gpufabric.nccl.plugins.action.sshd_instance import ActionModule as SshdInstance
from ansible_collections.gpufabric.nccl.plugins.plugin_utils import _planning
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._node_answers import with_texts

ROOT = pathlib.Path(__file__).parents[4]
#: As AWX gives them: text, a number, a choice, choices, a text of several lines, nothing, JSON, NAME=VALUE.
ANSWERS = (
    *("", " ", "a word", "8", 8, 8.5, "8G", "true", True, "no", "-1", "nan"),
    *(["json", "csv"], [], "json,csv", "json, csv\n", "json\ncsv", '["json", "csv"]', "[", "[1, {}]"),
    *('{"A": "1"}', "{}", "{", "A=1", "A=1,B=2", "A=1\nB=2", {"A": "1"}, "null", "{{ 7 }}", "\u20ac\t"),
)
TYPES = {
    "str": str,
    "path": str,
    "bool": bool,
    "int": int,
    "float": (int, float),
    "list": list,
    "dict": dict,
    "raw": object,
}


def options() -> dict[str, dict[str, t.Any]]:
    """The variables of all roles, and the role of each."""
    found = {}
    for path in sorted(ROOT.glob("roles/*/meta/argument_specs.yml")):
        for name, spec in yaml.safe_load(path.read_text())["argument_specs"]["main"]["options"].items():
            found.setdefault(name, {**spec, "role": path.parts[-3]})
    return found


OPTIONS = options()


@pytest.fixture(scope="module", autouse=True)
def _quick():
    """Each role's specs are parsed once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_planning.yaml, "safe_load", functools.cache(yaml.safe_load))
        yield


@pytest.fixture
def answered(planned, monkeypatch):
    """What the first task of a playbook says of an answer, and what a planner reads of it."""

    def answer(name, value):
        read = {}

        def check(action, values):
            read.update(values)
            checked(action, values)

        checked = ActionModule._check_shared
        with monkeypatch.context() as patch:
            patch.setattr(check_variables, "load_extra_vars", lambda loader: {name: value})
            patch.setattr(check_variables, "check_ignored", lambda *arguments: None)
            patch.setattr(ActionModule, "_check_shared", check)
            patch.setattr("ansible.playbook.task.Task.get_play", lambda task: Play)
            variables = {name: value, "groups": {"all": []}, "hostvars": {}}
            return planned(ActionModule, "key_exchange", {"playbook": True}, **variables), read.get(name)

    return answer


class Play:
    """Sets no variables."""

    @staticmethod
    def get_vars():
        return {}


@pytest.mark.parametrize("name", OPTIONS)
def test_every_answer_is_read_or_refused_by_name(answered, name):
    wanted, accepted = TYPES[OPTIONS[name].get("type", "str")], 0
    for value in ANSWERS:
        result, read = answered(name, value)
        if result.get("failed"):
            assert result["msg"].startswith(name) and " is not allowed; allowed: " in result["msg"], (
                value,
                result["msg"],
            )
            assert "\n" not in result["msg"] and "Traceback" not in result["msg"], (value, result["msg"])
            continue
        accepted += 1
        assert read is None or isinstance(read, wanted), (value, read)
        assert not (wanted is int and isinstance(read, bool)), (value, read)
    assert accepted > 0, "nothing is allowed"


#: Lists and dictionaries that an action reads, as the roles name its option.
READ_BY_ACTIONS = {
    "key_exchange_sshd_options": (SshdInstance, "extra_options"),
    "local_nodes_cap_add": (LocalNodes, "cap_add"),
    "nccl_tests_programs": (NcclTestsBuild, "programs"),
    "preflight_expect": (MpiPreflight, "expect"),
}
#: What tasks only ask whether it is empty, which a text is, too; and what they only tell of.
NOT_USED = {"worker_pods_names", "nccl_benchmark_time_limit"}


def used_as_they_are() -> set[str]:
    """The variables that are no text, and that tasks and templates name, but for those that they only set."""
    files = [*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("roles/*/vars/*.yml"), *ROOT.glob("playbooks/**/*.yml")]
    lines = [
        line.partition(" #")[0]
        for path in files
        for line in path.read_text().splitlines()
        if not line.lstrip().startswith("#")
    ]
    words = {word for line in lines for word in re.findall(r"\w+", re.sub(r"^[ -]*\w+: ?", "", line))}
    return {
        name
        for name, spec in OPTIONS.items()
        if name in words and spec.get("type", "str") not in ("str", "path", "raw")
    }


def test_what_tasks_use_as_it_is_may_be_no_text_and_not_blank():
    used = used_as_they_are() - NOT_USED
    several = {name for name in used if OPTIONS[name]["type"] in ("list", "dict")}
    assert len(used) > 30
    assert {name for name in several if not name.startswith("gpufabric_")} == {*NO_TEXT, *READ_BY_ACTIONS}
    assert used - several <= set(NO_BLANK), used - several - set(NO_BLANK)
    assert {"gpufabric_hosts", "gpufabric_forward_env", "key_exchange_hosts"} <= set(NO_BLANK)
    assert set(NO_BLANK) <= used | {"isolate_timeout"}, set(NO_BLANK) - used


@pytest.mark.parametrize("name", NO_BLANK)
def test_a_name_with_nothing_behind_it_is_a_blank(answered, name):
    """YAML makes null of it, which modules refuse in the words of Python."""
    result, _read = answered(name, None)
    assert result["msg"] == f"{name}: None is not allowed; allowed: a value, or to leave the variable out"


def test_texts_that_are_blank_are_as_good_as_none_where_tasks_hand_them_on():
    """Text may be blank, as what a survey leaves out is, and modules would take that for a value."""
    names = "|".join(name for name, spec in OPTIONS.items() if spec.get("type", "str") in ("str", "path"))
    # A pattern of hosts that is left out is all of them, and one that is blank is an error.
    headers = (
        "gpufabric_target",
        "gpufabric_job",
        "local_nodes_group",
        "worker_pods_group",
        "mpijob_state",
        "nccl_tests_state",
    )
    files = [*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("roles/*/vars/*.yml"), *ROOT.glob("playbooks/**/*.yml")]
    # A path may be a number in YAML, such as a date.
    assert not [path for path in files if "true) | ansible.builtin.expanduser" in path.read_text()]
    for path in files:
        for name, default in re.findall(rf"\b({names}) \| default\((.*)", path.read_text()):
            assert name in headers or "true)" in default or default.startswith("''"), (path, name)


@pytest.mark.parametrize("name", READ_BY_ACTIONS)
def test_text_for_a_list_or_dictionary_of_a_module_is_read_by_its_action(name):
    action, option = READ_BY_ACTIONS[name]
    uses = "\n".join(path.read_text() for path in ROOT.glob("roles/*/tasks/*.yml"))
    assert f'{option}: "{{{{ {name} }}}}"' in uses
    text, meant = (
        ("A=1\nB=2,", {"A": "1", "B": "2"}) if OPTIONS[name]["type"] == "dict" else ("a\nb, c", ["a", "b", "c"])
    )
    assert with_texts({option: text, "other": None}, action.TEXTS) == {option: meant, "other": None}
    assert with_texts({option: " "}, action.TEXTS) == with_texts({option: None}, action.TEXTS) == {}
    assert with_texts({option: meant}, action.TEXTS) == {option: meant}
