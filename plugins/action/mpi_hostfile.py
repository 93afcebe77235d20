# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import FINITE, TEXT, Each, check_answer
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.resolution import wait_line
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._node_answers import NodeAction

#: Seconds: the first part of a wait, in which most names come, and each of the others.
_FIRST, _NEXT = 3.0, 10.0
_WAIT = {"waiting": Each(TEXT, TEXT), "waited": FINITE}


class ActionModule(NodeAction):
    """Has the module wait for names in parts, and shows after each what it waits for."""

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Run the action."""
        result = super().run(tmp, task_vars)
        host = self._task.delegate_to or (task_vars or {}).get("inventory_hostname", "the launcher")
        part: dict[str, t.Any] = {"part": _FIRST}
        waited = -1.0
        while True:
            answer = self._execute_module(module_args={**self._task.args, **part}, task_vars=task_vars)
            if "waiting" not in answer:
                return self.shown({**result, **answer})
            try:
                wait = check_answer(host, "answer", answer, _WAIT)
            except GpufabricError as error:
                return {**result, "failed": True, "msg": str(error)}
            if wait["waited"] <= waited:
                # It would go on for ever.
                return {**result, "failed": True, "msg": f"{host} returned waited: {wait['waited']}, as before"}
            waited = wait["waited"]
            self.show(host, wait_line(wait["waiting"], waited))
            # The node's own words, back to where they come from.
            part = {"part": _NEXT, "earlier": answer.get("resolution")}
