# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark import (
    check_nodes,
    complete_results,
    plan_benchmark,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._problem import in_the_way
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh_mesh import named_peers
from ansible_collections.gpufabric.nccl.plugins.module_utils._sweep import points_table, with_sweep


def peers(results: t.Sequence[t.Mapping[str, t.Any]], names: t.Sequence[str]) -> list[dict[str, t.Any]]:
    """The workers of a run."""
    try:
        return named_peers(results, names)
    except GpufabricError as error:
        raise AnsibleFilterError(str(error)) from error


def benchmark_plan(
    nodes: dict[str, t.Any], peers: list[dict[str, t.Any]] | None, settings: dict[str, t.Any]
) -> dict[str, t.Any]:
    """The plan of a benchmark, or what is in its way."""
    # Before ansible-core 2.19 a template makes none an empty text.
    settings = {name: None if value == "" else value for name, value in settings.items()}
    try:
        settings = with_sweep(settings)
        plan = check_nodes(nodes, settings) if peers is None else plan_benchmark(nodes, peers, settings)
    except GpufabricError as error:
        return in_the_way(error)
    return {"error": None, "problems": [], "points_table": points_table(settings["sweep_points"]), **plan}


class FilterModule:
    """Filters between the steps of the roles key_exchange and nccl_benchmark."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """By name."""
        return {
            "peers": peers,
            "benchmark_plan": benchmark_plan,
            "benchmark_results": complete_results,
        }
