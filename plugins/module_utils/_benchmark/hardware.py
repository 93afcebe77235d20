# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What most workers have: the NICs and their rates, and NVLink. It is the same size however many workers there are."""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import Kind
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.shapes import Transport
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.shapes import Hardware
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.shapes import NodeInfo

#: In Gb/s, or in GB/s.
RATE = Kind(
    lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e6,
    "a rate above 0 and below 1000000",
)


class Common(t.TypedDict):
    """``ports``: the rates of the active RDMA ports, in Gb/s, by name."""

    ports: dict[str, float]
    nvlink_gbytes: float | None


def common_hardware(nodes: t.Mapping[str, NodeInfo]) -> Common:
    """What most of the nodes with GPUs have, else most of all. Of a port whose rate is not known, there is nothing."""
    measured = [node for node in nodes.values() if node["gpus"]["count"]] or list(nodes.values())
    ports = collections.Counter(
        tuple((port["name"], port["gbps"]) for port in node.get("rdma_ports", ()) if port["active"] and port["gbps"])
        for node in measured
    )
    links = collections.Counter(node["gpus"].get("nvlink_gbytes") for node in measured)
    return {"ports": dict(_most(ports) or ()), "nvlink_gbytes": _most(links)}


def hardware_of(common: Common | None, transport: Transport | None) -> Hardware | None:
    """The hardware of a test; None if nothing is known. ``rails`` are the ports that most hosts used, else all that are active."""
    if not common or not (common["ports"] or common["nvlink_gbytes"]):
        return None
    rates = common["ports"]
    used = collections.Counter(tuple(ports) for ports in transport["nics"].values() if ports) if transport else {}
    chosen = [rates[port] for port in _most(used) or () if port in rates] or list(rates.values())
    # NICs of another rate, such as those of the storage, are not those of the GPUs.
    sums = {rate: rate * chosen.count(rate) for rate in chosen}
    rate = max(sums, key=lambda one: (sums[one], one), default=None)
    return {
        "nic_gbps": rate,
        "rails": chosen.count(rate) if rate is not None else None,
        "ports": len(rates),
        "nvlink_gbytes": common["nvlink_gbytes"],
    }


def _most(counts: t.Mapping[t.Any, int]) -> t.Any:
    """What is there most often; None if there is nothing."""
    return max(counts, key=lambda one: counts[one], default=None)
