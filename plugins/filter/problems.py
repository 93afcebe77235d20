# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.task_results import failure_details


class FilterModule:
    """The filter that reads the result of a task that failed."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """By name."""
        return {"failure_details": failure_details}
