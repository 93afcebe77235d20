# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.plan import complete_results
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.mesh import named_peers, names_twice
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import clean, inert


def peers(results: t.Sequence[t.Mapping[str, t.Any]], names: t.Sequence[str]) -> list[dict[str, t.Any]]:
    """The workers of a run."""
    try:
        return named_peers(results, names)
    except GpufabricError as error:
        raise AnsibleFilterError(str(error)) from error


def hosts_twice(places: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, list[dict[str, t.Any]]]:
    """Problems of hosts that are the machine of another host, by host."""
    return {name: [problem.as_dict()] for name, problem in names_twice(places).items()}


def benchmark_results(
    plan: t.Mapping[str, t.Any],
    run: t.Mapping[str, t.Any],
    found: t.Sequence[t.Mapping[str, t.Any]] = (),
    hosts: t.Sequence[t.Mapping[str, t.Any]] = (),
) -> list[dict[str, t.Any]]:
    """A result document for each point."""
    try:
        return complete_results(plan, run, found, hosts)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        launcher = plan.get("launcher") or "the launcher"
        raise AnsibleFilterError(
            f"what {launcher} returned of the run is not what mpi_run returns: {type(error).__name__}: {inert(clean(str(error)))}"
        ) from error


class FilterModule:
    """Filters between the steps of the roles key_exchange and nccl_benchmark."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """By name."""
        return {
            "peers": peers,
            "hosts_twice": hosts_twice,
            "benchmark_results": benchmark_results,
        }
