# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import clean


class ActionModule(ActionBase):
    """Shows a text on the controller; nothing runs on the host."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Run the action."""
        result = super().run(tmp, task_vars)
        arguments = self.validate_argument_spec({"text": {"type": "str", "required": True}})[1]
        # no_log hides a task's result only, and this text is not part of the result.
        if not self._task.no_log:
            Display().display(clean(arguments["text"]).rstrip("\n"))
        result["changed"] = False
        return result
