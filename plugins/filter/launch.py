# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark import complete_results, plan_benchmark
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh_mesh import named_peers


def _reporting(function: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
    """The function as a filter: an error that the user can mend becomes Ansible's own."""

    @functools.wraps(function)
    def wrapper(*arguments: t.Any, **options: t.Any) -> t.Any:
        try:
            return function(*arguments, **options)
        except GpufabricError as error:
            raise AnsibleFilterError(str(error)) from error

    return wrapper


class FilterModule:
    """Filters between the steps of the roles key_exchange and nccl_benchmark."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """By name."""
        return {
            "peers": _reporting(named_peers),
            "benchmark_plan": _reporting(plan_benchmark),
            "benchmark_results": _reporting(complete_results),
        }
