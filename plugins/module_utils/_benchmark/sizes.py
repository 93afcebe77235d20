# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The largest size of a benchmark that names none: as large as shows what the network can do, in memory and time that there are."""

from __future__ import annotations

import math
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.bandwidth import host_traffic
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.shapes import NodeInfo
from ansible_collections.gpufabric.nccl.plugins.module_utils._units import format_size, parse_size

_G = 1 << 30
#: By now the bandwidth of the fastest networks has stopped to grow: 8 GiB is at 98 % of 16 GiB where 128 MiB is at 59 % (docs/reading.md).
LARGEST = 8 * _G
#: Where nothing is known of the GPUs, and for the CPU program, whose numbers say nothing about the network anyway.
SMALLEST = 128 << 20
#: Part of the line rate that even a poor network reaches, and what is assumed where it is not known.
_POOR = 0.5
_UNKNOWN_GBPS = 10.0
#: GB/s between GPUs of a host by PCIe alone.
_INSIDE = 10.0
#: Part of a test's time limit that its default sizes may take.
_OF_LIMIT = 0.5
#: Of these nobody knows what a host sends; nothing sends more than this.
_MOST_TRAFFIC = "alltoall"


def default_size(
    nodes: t.Mapping[str, NodeInfo], settings: t.Mapping[str, t.Any], largest: int = LARGEST, is_single: bool = False
) -> tuple[int, str]:
    """Bytes of the largest size on GPUs, and why it is no larger, in words; empty if it is ``largest``.

    ``nodes``: by host, at least one, as mpi_node_info found them. ``settings``: of the role nccl_benchmark, of which the numbers are
    checked. ``is_single``: that size alone is run. Raises OptionError.
    """
    size = largest
    smallest = 0 if is_single else parse_size("nccl_benchmark_min_bytes", settings["min_bytes"])
    memory = min((node["gpus"].get("memory_bytes") or math.inf for node in nodes.values()), default=math.inf)
    fits = room(memory, bool(settings["check"]))
    reason = ""
    if size > fits:
        size = _halved(size, lambda one: one <= fits)
        reason = f"a GPU has {format_size(int(memory))}, and a test needs {3 if settings['check'] else 2} buffers"
    limit = int(settings["timeout"]) * _OF_LIMIT
    # The sizes below the largest take a part of its time.
    step = int(settings["step_factor"])
    factor = 1.0 if is_single else step / (step - 1)
    if factor * seconds(nodes, settings, size) > limit:
        size = _halved(size, lambda one: factor * seconds(nodes, settings, one) <= limit)
        reason = f"more would take over {limit:g} s, half of the time limit, if {rate_words(nodes)}"
    return max(size, smallest), reason


def room(memory: float, check: bool) -> float:
    """Bytes of the largest message that a GPU with so many bytes of memory has buffers for; as src/common.cu of nccl-tests works it out."""
    if math.isinf(memory):
        return memory
    reserve = min(math.ceil(memory / (16 * _G)) * _G, 4 * _G)
    return max(0.0, (memory - reserve - _G) / (3 if check else 2))


def seconds(nodes: t.Mapping[str, NodeInfo], settings: t.Mapping[str, t.Any], size: int) -> float:
    """How long a size takes over a poor network with the slowest of the collectives."""
    hosts = len(nodes)
    ranks = sum(node["gpus"]["count"] for node in nodes.values())
    # Each size is measured out of place and in place, with one operation before and one that is checked, and the warm-up.
    cycles = int(settings.get("cycles") or 1)
    operations = 2 * cycles * (int(settings["iterations"]) + 2) + int(settings["warmup_iterations"])
    volume = size * operations
    if hosts == 1:
        return 2 * volume / (_INSIDE * 1e9)
    known = [
        host_traffic(name, max(ranks, hosts), hosts) or host_traffic(_MOST_TRAFFIC, max(ranks, hosts), hosts) or 1.0
        for name in settings["collectives"]
    ]
    return volume * max(known) / (slowest_gbps(nodes) * _POOR / 8 * 1e9)


def slowest_gbps(nodes: t.Mapping[str, NodeInfo]) -> float:
    """The line rate of the slowest host, in Gb/s."""
    rates = [rate["gbps"] for node in nodes.values() for rate in [node.get("line_rate")] if rate and rate["gbps"] > 0]
    return min(rates) if len(rates) == len(nodes) else min([*rates, _UNKNOWN_GBPS])


def rate_words(nodes: t.Mapping[str, NodeInfo]) -> str:
    """What was assumed of the network."""
    if len(nodes) == 1:
        return f"GPUs send {_INSIDE:g} GB/s to each other"
    known = all(node.get("line_rate") for node in nodes.values())
    return f"hosts send half of {slowest_gbps(nodes):g} Gb/s" + ("" if known else " (the line rate is not known)")


def _halved(size: int, is_allowed: t.Callable[[int], bool]) -> int:
    while size > SMALLEST and not is_allowed(size):
        size //= 2
    return size
