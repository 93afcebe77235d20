# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._results.reference_values import read_published
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._hiding import HIDDEN
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._node_answers import NodeModule


class ActionModule(NodeModule):
    """Runs the module on the node, with the published values if it is to use them, and keeps what Ansible acts on out of its answer."""

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Run the action."""
        thresholds = self._task.args.get("thresholds")
        # It may be text.
        named = isinstance(thresholds, (str, t.Mapping)) and "reference" in thresholds
        self._task.args = {**self._task.args, "published": read_published() if named else None}
        result = super().run(tmp, task_vars)
        # It has all results once more.
        result.pop("invocation", None)
        # A role has them from a task before, and writes them to a file.
        return result if result.get("failed") or self._task._role is None else {**result, **HIDDEN}
