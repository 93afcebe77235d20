# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.plan import complete_results
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import clean, inert
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._hiding import HIDDEN
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._planning import VariablesAction


class ActionModule(VariablesAction):
    """Makes a result document of each point for the role nccl_benchmark."""

    ARGUMENT_SPEC: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        "plan": {"type": "dict", "required": True},
        "run": {"type": "dict", "required": True},
        "look": {"type": "dict", "default": {}},
    }

    def act(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """``results``. Raises GpufabricError if the launcher returned something else than mpi_run does."""
        self.require_role()
        plan, look = arguments["plan"], arguments["look"]
        try:
            found = complete_results(plan, arguments["run"], look.get("problems", ()), look.get("hosts", ()))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            launcher = plan.get("launcher") or "the launcher"
            raise GpufabricError(
                f"what {launcher} returned of the run is not what mpi_run returns: {type(error).__name__}: {inert(clean(str(error)))}"
            ) from error
        # They grow with sizes and points. The report has them.
        return {"results": found, **HIDDEN}
