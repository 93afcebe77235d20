# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import CATALOGUE, problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemDict, entries_from
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.task_results import (
    failure_details,
    problems_from_play,
    problems_from_result,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._planning import VariablesAction, failed, note_of

_PROBLEM = {
    "id": {"type": "str", "required": True},
    "severity": {"type": "str", "choices": ["error", "warning"]},
    "host": {"type": "str"},
    "cause": {"type": "str"},
    "cure": {"type": "str"},
    "evidence": {"type": "str", "default": ""},
    "facts": {"type": "dict", "default": {}},
}


class ActionModule(VariablesAction):
    """Fails on the controller; nothing runs on the host."""

    ARGUMENT_SPEC: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        "problems": {"type": "list", "elements": "dict", "options": _PROBLEM, "default": []},
        "result": {"type": "dict"},
        "results": {"type": "dict", "default": {}},
        "lost": {"type": "list", "elements": "dict"},
        "logs": {"type": "list", "elements": "str", "default": []},
        "end": {"type": "str", "default": ""},
    }

    def act(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """The failure. Raises OptionError for a problem that has no words."""
        result, end = arguments["result"], arguments["end"]
        if not {"problems", "result", "results"} & set(self._task.args):
            raise AnsibleActionFail("missing required arguments: problems, result or results")
        given = [_in_words(f"problems[{index}]", item) for index, item in enumerate(arguments["problems"])]
        if result is not None:
            known = problems_from_result(result)
            given = [*known, *given]
            told = failure_details(result)
            end = end or str((told.get("summary") or told.get("end") or "") if known else told.get("msg") or "")
        lost = None if arguments["lost"] is None else entries_from(arguments["lost"])
        given = [*problems_from_play(arguments["results"], lost), *given]
        return failed(given, arguments["logs"], end, self._task.no_log, note_of(self))


def _in_words(option: str, item: t.Mapping[str, t.Any]) -> ProblemDict:
    """A problem with its cause and its cure, which are the catalogue's if they are not given."""
    if item["cause"] is None or item["cure"] is None:
        if item["id"] not in CATALOGUE.entries:
            raise OptionError(f"{option}.id", item["id"], "an id of docs/troubleshooting.md, or cause and cure")
        given = {name: item[name] for name in ("host", "evidence", "severity")}
        # No words of the catalogue have these.
        facts = {str(name): value for name, value in item["facts"].items() if name not in (*given, "identity", "self")}
        words = {name: item[name] for name in ("cause", "cure") if item[name] is not None}
        return t.cast(ProblemDict, {**problem(item["id"], **given, **facts).as_dict(), **words})
    severity = item["severity"] or "error"
    return t.cast(
        ProblemDict, {**{name: value for name, value in item.items() if name != "facts"}, "severity": severity}
    )
