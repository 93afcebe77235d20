# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible.release import __version__
from ansible.utils.display import Display
from ansible_collections.gpufabric.nccl.plugins.module_utils._problems_text import problems_text

#: Older releases show the text of a failure as JSON only, in one line.
_SHOWS_LINES = tuple(int(part) for part in __version__.split(".")[:2]) >= (2, 19)

_PROBLEM = {
    "id": {"type": "str", "required": True},
    "severity": {"type": "str", "choices": ["error", "warning"], "default": "error"},
    "host": {"type": "str"},
    "cause": {"type": "str", "required": True},
    "cure": {"type": "str", "required": True},
    "evidence": {"type": "str", "default": ""},
}


class ActionModule(ActionBase):
    """Fails on the controller; nothing runs on the host."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Run the action."""
        result = super().run(tmp, task_vars)
        arguments = self.validate_argument_spec(
            {
                "problems": {"type": "list", "elements": "dict", "options": _PROBLEM, "required": True},
                "logs": {"type": "list", "elements": "str", "default": []},
                "end": {"type": "str", "default": ""},
            }
        )[1]
        problems = arguments["problems"]
        block = problems_text(problems, arguments["logs"]) if problems or arguments["logs"] else ""
        text = "\n".join(part for part in (block, arguments["end"].strip()) if part)
        if not _SHOWS_LINES and not self._task.no_log:
            Display().display(text)
        told = {name: arguments[name] for name in ("problems", "logs", "end")}
        return {**result, **told, "failed": True, "changed": False, "msg": text}
