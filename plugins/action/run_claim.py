# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.plugin_utils._owner import claim_of
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._planning import VariablesAction


class ActionModule(VariablesAction):
    """Says on the controller who starts or removes a run."""

    ARGUMENT_SPEC: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        "owner": {"type": "str", "default": ""},
        "take_over": {"type": "bool", "default": False},
    }

    def act(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """The claim. Raises OptionError."""
        return {"claim": claim_of(arguments["owner"], arguments["take_over"])}
