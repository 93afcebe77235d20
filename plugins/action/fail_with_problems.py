# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._planning import failed

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
        told = failed(arguments["problems"], arguments["logs"], arguments["end"], self._task.no_log)
        return {**result, **told}
