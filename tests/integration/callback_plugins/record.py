# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: record
type: aggregate
short_description: Write each result as a line of JSON, for tests
description:
  - Writes to the file that E(GPUFABRIC_RECORD) names.
"""

import json
import os
import time

from ansible.plugins.callback import CallbackBase
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.rendering import problems_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.task_results import failure_details

_SET_FACT = "ansible.builtin.set_fact"


class CallbackModule(CallbackBase):
    """Writes ``host`` (where it ran), ``task``, ``action``, ``status``, ``time`` and ``result`` of each result, and ``hidden``: that
    Ansible shows it to nobody.

    Also ``started`` (the host that it is for) and ``task`` of each task that costs the controller a process.
    """

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "record"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self):
        super().__init__()
        path = os.environ.get("GPUFABRIC_RECORD")
        self.disabled = path is None
        self._file = open(path, "a", encoding="utf-8") if path else None  # noqa: SIM115  # as long as the play
        self._variables = None
        # What is hidden from callbacks: the record so far, the host, and the task, whose variables will have the result.
        self._hidden = None

    def _write(self, status, result):
        self._write_hidden()
        record = {
            "host": result._task.delegate_to or result._host.get_name(),
            "task": result._task.get_name(),
            "action": result._task.action,
            "status": status,
            "time": time.time(),
        }
        task = result._task
        if "censored" in result._result and (task.action == _SET_FACT or (task.register and not task.no_log)):
            self._hidden = ({**record, "hidden": True}, result._host.get_name(), task)
        else:
            self._write_record({**record, "hidden": False}, result._result)

    def _write_hidden(self):
        """Write the last record if its result was hidden. A result is registered after callbacks have been called."""
        if self._hidden is not None:
            record, host, task = self._hidden
            self._hidden = None
            known = self._variables._nonpersistent_fact_cache[host]
            if task.action == _SET_FACT:
                result = {"ansible_facts": {name: known[name] for name in task.args if name in known}}
            else:
                # From ansible-core 2.22 on, a dictionary: what is registered under each name.
                name = task.register if isinstance(task.register, str) else next(iter(task.register))
                result = dict(known[name])
            self._write_record(record, result)

    def _write_record(self, record, result):
        record["result"] = {**json.loads(self._dump_results(result)), "failed": record["status"] == "failed"}
        # What is dumped for the screen lacks them.
        for name in {"diff", "invocation"} & set(result):
            record["result"][name] = result[name]
        details = failure_details(result)
        if "problems" in details and "problems" not in result:
            # What was shown, in place of the line that names it.
            block = (
                problems_text(details["problems"], details["logs"]) if details["problems"] or details["logs"] else ""
            )
            text = "\n".join(part for part in (block, details["end"]) if part)
            record["result"].update({name: details[name] for name in ("problems", "logs", "end")}, msg=text)
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()

    def v2_playbook_on_play_start(self, play):
        self._write_hidden()
        self._variables = play.get_variable_manager()

    def v2_playbook_on_stats(self, _stats):
        self._write_hidden()

    def v2_runner_on_start(self, host, task):
        self._file.write(json.dumps({"started": host.get_name(), "task": task.get_name()}) + "\n")

    def v2_runner_on_ok(self, result):
        self._write("ok", result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._write("failed", result)

    def v2_runner_on_unreachable(self, result):
        self._write("unreachable", result)
