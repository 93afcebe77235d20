# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.plan import (
    check_free,
    check_nodes,
    plan_benchmark,
    runs_beside,
    with_sizes,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.sweep import points_table, with_sweep
from ansible_collections.gpufabric.nccl.plugins.module_utils._options import environment_texts, read_value
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.sshd import check_environment
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._planning import (
    PlanAction,
    as_warnings,
    decrypted,
    without_prefix,
)


class ActionModule(PlanAction):
    """Plans a benchmark for the role nccl_benchmark."""

    ARGUMENT_SPEC: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        "nodes": {"type": "dict", "required": True},
        "peers": {"type": "list", "elements": "dict"},
        "refusals": {"type": "dict", "default": {}},
    }

    def plan(self, arguments: dict[str, t.Any], variables: dict[str, t.Any]) -> dict[str, t.Any]:
        """The plan. Raises GpufabricError."""
        nodes, peers = arguments["nodes"], arguments["peers"]
        sized = with_sizes(nodes, without_prefix(variables, "nccl_benchmark_"))
        settings = with_sweep(sized, self._node_env(nodes, variables))
        check_free(arguments["refusals"])
        beside = runs_beside(arguments["refusals"])
        if peers is None:
            plan = {**check_nodes(nodes, settings), "warnings": as_warnings(beside)}
        else:
            plan = {**plan_benchmark(nodes, peers, settings), "beside": beside}
        return {**plan, "settings": settings, "points_table": points_table(settings["sweep_points"])}

    def _node_env(self, hosts: t.Iterable[str], variables: t.Mapping[str, t.Any]) -> set[str]:
        """The names of the variables that some host sets for its own ranks. Raises OptionError, before a host starts its sshd with them."""
        option, spec = "gpufabric_node_env", {"type": "dict", "default": {}}
        every = self._task_vars.get("hostvars", {})
        own = [read_value(option, spec, decrypted(every[host].get(option))) for host in hosts if host in every]
        every_own = [
            {name: value for name, value in environment_texts(option, values).items() if value is not None}
            for values in (variables[option], *own)
        ]
        for values in every_own:
            check_environment(option, values)
        return {name for values in every_own for name in values}
