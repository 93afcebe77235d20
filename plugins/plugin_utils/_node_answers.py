# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to the collection: it may change in any release.

"""What a node may say to Ansible: values, and texts that no terminal obeys; nothing that Ansible acts on."""

from __future__ import annotations

import json
import typing as t

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.json_utils import _filter_non_json_lines
from ansible.plugins import action
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._options import Spec, read_value
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import (
    clean,
    clean_line,
    clean_values,
    indented,
    inert,
    one_line,
)
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._hiding import HIDDEN, is_long, without_values

#: What Ansible does something with, in the answer of any module: it makes hosts and groups, marks hosts as unreachable, and takes it for
#: something that an action, a loop or a callback said. Of some there is a checked form below; the others no module of the collection has.
_ACTED_ON = frozenset(
    (
        "add_group",
        "add_host",
        "async_result",
        "attempts",
        "censored",
        "deprecations",
        "exception",
        "failed_when_result",
        "failed_when_suppressed_exception",
        "include",
        "include_args",
        "item",
        "parent_groups",
        "results",
        "retries",
        "stderr",
        "stdout",
        "unreachable",
        "warnings",
    )
)
#: Facts, which become variables above those of the inventory and of roles, statistics, and all that Ansible notes for itself.
_ANSIBLES_OWN = ("ansible_", "_ansible_")
#: What is shown below a line of its own: a traceback, and by some callbacks what was printed in place of an answer.
_BLOCKS = ("exception", "module_stderr", "module_stdout")
#: Levels of lists and dictionaries. Ansible copies an answer level by level, in the process that all hosts have in common.
_DEEPEST = 40
#: Characters of a line that is shown with -v.
_LONGEST_SHOWN = 1 << 14


#: What comes of an answer that is nested too deeply, or from 2.19 on names a type of Ansible's that it does not fill as such.
_UNREADABLE = (NodeError, RecursionError, TypeError)
#: What ansible-core has in place of a dictionary, from 2.21 on.
_TaskResult: t.Any = getattr(getattr(action, "_task", None), "UnifiedTaskResult", None)


def told_by_node(answer: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """A module's answer as a node may give it: without what Ansible acts on, and all texts cleaned. Raises NodeError.

    To be called before Ansible itself has taken anything out of it, or put anything in.
    """
    told = _without_commands(answer)
    results, warnings, exception = (answer.get(name) for name in ("results", "warnings", "exception"))
    if isinstance(results, list):
        # The tests of a text; Ansible takes the key for the items of a loop.
        told["results"] = [_without_commands(item) for item in results if isinstance(item, t.Mapping)]
    if isinstance(warnings, list):
        told["warnings"] = [clean_line(_words(warning)) for warning in warnings]
    # From 2.19 on, the traceback is in an object.
    event = getattr(exception, "event", None)
    traceback = getattr(event, "formatted_traceback", exception)
    if isinstance(traceback, str):
        told["exception"] = clean(traceback)
    for name in _BLOCKS:
        if isinstance(told.get(name), str):
            told[name] = _block(told[name])
    said = getattr(event, "msg", None)
    if isinstance(said, str):
        # A module that crashes gives no more than this.
        told.setdefault("msg", clean(said))
    if isinstance(told.get("msg"), str):
        told["msg"] = indented(told["msg"])
    if "diff" in told:
        told["diff"] = _difference(told["diff"])
    return told


def _block(text: str) -> str:
    """A text that is shown below a line which says what it is: its first line is indented, too."""
    return indented(f"\n{text}")[1:] if text else text


def _unread(error: Exception) -> dict[str, t.Any]:
    """What is told in place of an answer that cannot be read. The error may have names of the node's."""
    return {"failed": True, "msg": clean_line(str(error))}


def _without_junk(res: dict[str, t.Any]) -> dict[str, t.Any]:
    """What a node printed, up to the end of its answer. What follows is shown as one line; Ansible's own warning would have all its lines."""
    try:
        text, warnings = _filter_non_json_lines(res["stdout"], objects_only=True)
    except ValueError:
        return res
    for warning in warnings:
        Display().warning(one_line(warning))
    return {**res, "stdout": text} if warnings else res


def _difference(value: t.Any) -> t.Any:
    """A diff whose lines all begin as those of a diff do: without text that is ``prepared``, and with headers of one line."""
    if isinstance(value, list):
        return [_difference(item) for item in value]
    if not isinstance(value, t.Mapping):
        return value
    return {
        name: clean_line(item) if name.endswith("_header") and isinstance(item, str) else item
        for name, item in value.items()
        if name != "prepared"
    }


def _without_commands(values: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {
        clean(key): plain(value)
        for key, value in values.items()
        if isinstance(key, str) and key not in _ACTED_ON and not key.startswith(_ANSIBLES_OWN)
    }


def plain(value: t.Any, depth: int = 0) -> t.Any:
    """A value as JSON has it: ansible-core from 2.19 on also makes objects of its own of what a node says, and such as bring a warning."""
    if depth > _DEEPEST:
        raise NodeError("the answer of the module is nested too deeply")
    if isinstance(value, t.Mapping):
        return {_words(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, depth + 1) for item in value]
    if value is None or isinstance(value, bool):
        return value
    for number in (int, float):
        if isinstance(value, number):
            return number(value)
    return _words(value)


def _words(value: t.Any) -> str:
    """A text, or what a warning of ansible-core from 2.19 on says."""
    return clean(str(getattr(getattr(value, "event", None), "msg", value)))


def _cleaned(error: AnsibleError) -> AnsibleError:
    # Before ansible-core 2.19, the result of a host that is unreachable is not marked as unsafe: a template in it would be run.
    return type(error)(inert(indented(clean(str(error)))))


def with_texts(arguments: t.Mapping[str, t.Any], texts: t.Mapping[str, Spec]) -> dict[str, t.Any]:
    """The arguments of a task with the values of those that are text, by their specs; without those that are blank or null. Raises OptionError."""
    given = {
        name: value for name, value in arguments.items() if name in texts and (value is None or isinstance(value, str))
    }
    read = {name: read_value(name, texts[name], value) for name, value in given.items()}
    kept = {name: value for name, value in arguments.items() if name not in read}
    return {**kept, **{name: value for name, value in read.items() if value is not None}}


class NodeAction(ActionBase):
    """An action whose module runs on a node, and may say only what ``told_by_node`` lets through."""

    TRANSFERS_FILES = False
    # What came of it would be asked for by Ansible's own module, which hands on any answer.
    _supports_async = False
    # Whether the module that was run last gave an answer that can be read.
    _is_answer = False
    #: Lists and dictionaries that roles hand on as they are given, so that text is read here, as all roles read it.
    TEXTS: t.ClassVar[dict[str, Spec]] = {}

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Run the action."""
        result = super().run(tmp, task_vars)
        try:
            self._task.args = with_texts(self._task.args, self.TEXTS)
        except OptionError as error:
            raise AnsibleActionFail(str(error)) from None
        return result

    def shown(self, result: dict[str, t.Any]) -> dict[str, t.Any]:
        """The result as callbacks may have it. Of a role's task it is short, and without a difference that nobody has asked for."""
        invocation = result.get("invocation")
        if isinstance(invocation, t.Mapping) and isinstance(invocation.get("module_args"), t.Mapping):
            told = without_values(invocation["module_args"])
            result = {**result, "invocation": {**invocation, "module_args": told}}
        if self._task._role is None or self._task.diff:
            return result
        result = {name: value for name, value in result.items() if name != "diff"}
        return {**result, **(HIDDEN if is_long(result) and not result.get("failed") else {})}

    def show(self, host: str, text: str) -> None:
        """Show what a node says of its progress, as one line, so that it is no line of Ansible's or of another node's."""
        if not self._task.no_log:
            # With -v, command lines are shown too.
            most = {"most": _LONGEST_SHOWN} if Display().verbosity else {}
            Display().display(one_line(f"{host}: {text}", **most))

    def _low_level_execute_command(self, *arguments: t.Any, **keywords: t.Any) -> dict[str, t.Any]:
        """As Ansible does it, with all that the node prints cleaned: Ansible shows what it finds beside an answer, and in place of one.

        Where it sets up or removes its directory there, it shows the errors of ``chmod`` and others as they are.
        """
        try:
            answer = clean_values(super()._low_level_execute_command(*arguments, **keywords))
        except AnsibleError as error:
            raise _cleaned(error) from None
        return {**answer, "stderr": indented(answer["stderr"])}

    def _transfer_file(self, *arguments: t.Any, **keywords: t.Any) -> t.Any:
        """As Ansible does it: why a file did not come there is told in what the node printed."""
        try:
            return super()._transfer_file(*arguments, **keywords)
        except AnsibleError as error:
            raise _cleaned(error) from None

    def _execute_module(self, *arguments: t.Any, **keywords: t.Any) -> dict[str, t.Any]:
        """As Ansible does it, with ``_ansible_parsed`` also from ansible-core 2.21 on if what the node said is no answer."""
        self._is_answer = True
        try:
            answer = super()._execute_module(*arguments, **keywords)
        except AnsibleConnectionFailure as error:
            # Such as of a directory that could not be made, in what the node printed.
            raise _cleaned(error) from None
        return answer if self._is_answer else {**answer, "_ansible_parsed": False}

    def _parse_returned_data(self, res: dict[str, t.Any], *more: t.Any) -> t.Any:
        """The module's answer, before Ansible has looked at it."""
        # Before 2.19, with the name and the version of its distribution as the node tells them.
        self._discovery_warnings = [clean_line(warning) for warning in getattr(self, "_discovery_warnings", ())]
        res = _without_junk(res)
        if _TaskResult is not None:
            return self._parse_to_object(res, *more)
        try:
            data = super()._parse_returned_data(res, *more)
            told = told_by_node(data)
        except _UNREADABLE as error:
            return {**_unread(error), "_ansible_parsed": False}
        if not data["_ansible_parsed"] and "exception" in data:
            # Ansible's own words for what is no answer.
            told.setdefault("exception", data["exception"])
        return {**told, "_ansible_parsed": data["_ansible_parsed"]}

    def _parse_to_object(self, res: dict[str, t.Any], profile: str) -> t.Any:
        """The same from ansible-core 2.21 on. To make its object, it already obeys the answer: it keeps warnings, and secrets to hide."""
        try:
            text = _filter_non_json_lines(res["stdout"], objects_only=True)[0]
            decoder = action.get_module_decoder(profile, action.Direction.MODULE_TO_CONTROLLER)
            answer = _TaskResult.from_module_result_dict(told_by_node(json.loads(text, cls=decoder)))
        except _UNREADABLE as error:
            answer = _TaskResult.from_module_result_dict(_unread(error))
            self._is_answer = False
        except ValueError:
            # Ansible's own words for what is no answer.
            printed = {name: _block(res[name]) for name in ("stdout", "stderr")}
            answer = super()._parse_returned_data({**res, **printed}, profile)
            self._is_answer = False
        answer.ansible_parsed = self._is_answer
        return answer


class NodeModule(NodeAction):
    """Runs a module on a node as Ansible does where there is no action."""

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Run the action."""
        result = super().run(tmp, task_vars)
        result.update(self._execute_module(task_vars=task_vars))
        self._remove_tmp_path(self._connection._shell.tmpdir)
        return self.shown(result)
