# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.dns import dns_report, pod_addresses


def dns_problems(
    failure: dict[str, t.Any],
    lookups: dict[str, t.Any],
    namespace: str = "default",
    cluster_domain: str = "cluster.local",
) -> dict[str, t.Any]:
    """Why names of pods do not resolve."""
    return dns_report(failure, lookups, namespace, cluster_domain)


class FilterModule:
    """Filters about names of pods."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """By name."""
        return {"dns_problems": dns_problems, "pod_addresses": pod_addresses}
