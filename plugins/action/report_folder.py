# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report.folder import ReportFolder
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report.formats import FORMATS


class ActionModule(ActionBase):
    """Makes and clears the folder on the controller; nothing runs on the host."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Run the action."""
        result = super().run(tmp, task_vars)
        arguments = self.validate_argument_spec(
            {
                "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
                "path": {"type": "path", "required": True},
                "option": {"type": "str", "default": "path"},
                "files": {"type": "list", "elements": "str", "default": []},
                "formats": {"type": "list", "elements": "str", "choices": list(FORMATS), "default": []},
            }
        )[1]
        path = arguments["path"]
        names = [*arguments["files"], *(FORMATS[name].file for name in arguments["formats"])]
        try:
            folder = ReportFolder(arguments["option"], path)
            if arguments["state"] == "present":
                result.update(changed=not folder.exists(), path=path)
                folder.check(names)
                if not self._task.check_mode:
                    folder.claim(names)
                return result
            removed = folder.of_runs(names)
            if not self._task.check_mode:
                folder.remove(names)
                folder.give_back()
        except GpufabricError as error:
            raise AnsibleActionFail(str(error)) from None
        result.update(changed=bool(removed), path=path)
        result["removed"] = removed
        return result
