# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._owner import claim_of


def run_claim(owner: str | None, take_over: bool = False) -> dict[str, t.Any]:
    """Who starts or removes a run."""
    try:
        return claim_of(owner, take_over)
    except GpufabricError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """The filter that says whose a run is."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """By name."""
        return {"run_claim": run_claim}
