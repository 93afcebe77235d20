# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.planning import lacking, make_plan
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._planning import PlanAction, without_prefix


class ActionModule(PlanAction):
    """Takes the next step of the role nccl_tests."""

    ARGUMENT_SPEC: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        "step": {"type": "str", "choices": ["plan", "lacking"], "required": True},
        "looks": {"type": "dict", "required": True},
        "builder": {"type": "str"},
        "built": {"type": "dict", "default": {}},
    }

    def plan(self, arguments: dict[str, t.Any], variables: dict[str, t.Any]) -> dict[str, t.Any]:
        """What the step returns. Raises GpufabricError."""
        if arguments["step"] == "plan":
            return make_plan(arguments["looks"], without_prefix(variables, "nccl_tests_"))._asdict()
        return {"lacking": lacking(arguments["looks"], arguments["builder"], arguments["built"].get("digest"))}
