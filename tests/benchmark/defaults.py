# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which faults the defaults see, by simulation over published bandwidths: those of the benchmark, of the example for acceptance, and of isolate.

Prints the tables of docs/isolation.md and docs/verdicts.md. The machines have 8 H100 and 8 NICs of 400 Gb/s. A fault takes a share of
the network of one host, or of the speed of one of its GPUs.
usage: make bench-defaults [TRIALS=20]
"""

from __future__ import annotations

import math
import pathlib
import random
import sys
import typing as t

import yaml
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.isolation_search import (
    new_state,
    observe,
    plan_round,
    verdict,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.bandwidth import bus_factor
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.verdict import Judge
from ansible_collections.gpufabric.nccl.plugins.module_utils._units import format_size, parse_size
from ansible_collections.gpufabric.nccl.plugins.plugin_utils import _isolation

ROOT = pathlib.Path(__file__).parents[2]
G = 1 << 30
GPUS = 8
#: GB/s of many hosts, as published: AWS on two hosts, and OCI on four.
_NETWORK = {"all_gather": 338.57, "all_reduce": 391.1, "alltoall": 79.11}
#: Of two: what was measured (AWS), and what the network would allow. By trees, all_reduce needs 65 % of it.
_PAIR = {"all_gather": (338.57, 338.57), "all_reduce": (487.87, 750.0), "alltoall": (79.11, 79.11)}
#: Of one HGX host.
_INSIDE = {"all_gather": 370.0, "all_reduce": 480.0, "alltoall": 370.0}
#: What a collective over hosts takes beside the transfer, in s: from 64 MiB on, as all_reduce of AWS, with 209 in place of 487.87 GB/s
#: there; and for a few bytes. By how much it grows with the number of hosts has not been published.
_LATENCY, _LATENCY_FROM, _LEAST = 0.34e-3, 64 << 20, 20e-6
#: Standard deviation of a test.
NOISE = 0.01

#: The share that is left of the network of one host, and of the speed of one of its GPUs.
FAULTS: dict[str, tuple[float, float]] = {
    "none": (1.0, 1.0),
    "half of one of 8 NICs": (15 / 16, 1.0),
    "one of 8 NICs": (7 / 8, 1.0),
    "two of 8 NICs": (6 / 8, 1.0),
    "one of 16 GPUs at half of its speed": (1.0, 0.5),
}

#: As they were in release 0.1.0.
EARLIER_ISOLATE: dict[str, t.Any] = {"collective": "all_reduce", "min_bytes": "64M", "tolerance_percent": 15}
EARLIER_LARGEST = 128 << 20
EARLIER_RULES = [
    {
        "name": "Network",
        "collective": ["all_reduce", "all_gather"],
        "min_hosts": 2,
        "min_bytes": "1G",
        "ceiling_percent": 90,
    },
    {"name": "All to all", "collective": ["alltoall"], "min_bytes": "1G", "limit": 70},
]


def bandwidth(collective: str, size: int, hosts: int, share: float = 1.0, throttled: float = 1.0) -> float:
    """Bus bandwidth in GB/s of hosts, one of which has that share of its network, and one GPU that share of its speed."""
    if hosts == 1:
        return _INSIDE[collective] * throttled
    most, wire = _PAIR[collective] if hosts == 2 else (_NETWORK[collective], _NETWORK[collective])
    if collective == "alltoall":
        # Published for two hosts, where half of the data goes over the network; of more hosts it is a larger part.
        most = wire = wire * _sent(2) / _sent(hosts)
    # NVLink is faster than the network, so only a GPU that is much slower is what all wait for.
    inside = most * throttled if collective == "all_reduce" and hosts == 2 else _INSIDE[collective] * throttled
    full = min(most, wire * share, inside)
    moved = size * (bus_factor(collective, GPUS * hosts) or 1.0)
    latency = _LEAST + (_LATENCY - _LEAST) * min(1.0, size / _LATENCY_FROM)
    return moved / (moved / full / 1e9 + latency) / 1e9


def _sent(hosts: int) -> float:
    """Bytes of alltoall that a host sends, for each byte of bus bandwidth."""
    ranks = GPUS * hosts
    return GPUS * (hosts - 1) / hosts / ((ranks - 1) / ranks)


def curve(
    collective: str, hosts: int, share: float = 1.0, throttled: float = 1.0, largest: int = 8 * G
) -> list[tuple[int, float]]:
    """Sizes from 8 bytes, each with its bus bandwidth in GB/s."""
    sizes = [8 << exponent for exponent in range(40) if 8 << exponent <= largest]
    return [(size, bandwidth(collective, size, hosts, share, throttled)) for size in sizes]


def document(collective: str, hosts: int, ranks: int, values: t.Sequence[tuple[int, float]]) -> dict[str, t.Any]:
    """A result document with such a curve, out of place and in place. Small sizes take 15 us, and 6 for each doubling of the ranks."""
    factor = bus_factor(collective, ranks) or 1.0
    least = 15 + 6 * math.log2(max(ranks, 2))
    rows = []
    for size, value in values:
        time = max(least, size * factor / value / 1e3)
        half = {"time_us": time, "algbw": size / time / 1e3, "busbw": size * factor / time / 1e3, "wrong": 0}
        row = {"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": -1}
        rows.append({**row, "out_of_place": half, "in_place": dict(half)})
    each = -(-ranks // hosts)
    return {
        "schema": "gpufabric.nccl/result/v1",
        "tool": {"name": "nccl-tests", "version": "2.19.6", "nccl_version": "2.28.7"},
        "collective": collective,
        "complete": True,
        "config": {},
        "lost_rows": 0,
        "ranks": [
            {"rank": rank, "host": f"g{rank // each}", "device": rank % each, "name": "NVIDIA H100 80GB HBM3"}
            for rank in range(ranks)
        ],
        "rows": rows,
        "summary": {
            "avg_busbw": 100.0,
            "peak_busbw": values[-1][1],
            "peak_size": values[-1][0],
            "wrong": 0,
            "checked": True,
        },
        "points": {},
        "env": {},
        "host_count": hosts,
        "rank_count": ranks,
        "problems": [],
        "verdict": "pass",
    }


def found_by_isolate(
    settings: t.Mapping[str, t.Any], share: float, throttled: float, trials: int, hosts: int = 16
) -> int:
    """In how many of the searches the host with the fault is named, and no other."""
    size, right = parse_size("size", settings["min_bytes"]), 0
    for seed in range(trials):
        luck = random.Random(seed)
        state = new_state([f"g{number}" for number in range(hosts)], tolerance_percent=settings["tolerance_percent"])
        while groups := plan_round(state):
            results = []
            for group in groups:
                fault = (share, throttled) if "g5" in group else (1.0, 1.0)
                value = bandwidth(settings["collective"], size, len(group), *fault) * luck.gauss(1, NOISE)
                results.append({"nodes": group, "value": value, "reason": None, "unreachable": []})
            state = observe(state, results)
        right += [entry["node"] for entry in verdict(state)["nodes"] if entry["verdict"] != "good"] == ["g5"]
    return right


def judges() -> tuple[Judge, Judge]:
    """By the rules of the example for acceptance about bandwidths, as they were and as they are."""
    example = yaml.safe_load((ROOT / "docs" / "examples" / "acceptance.yml").read_text(encoding="utf-8"))[
        "report_thresholds"
    ]
    rules = [rule for rule in example["rules"] if "ceiling_percent" in rule]
    return Judge({**example, "rules": EARLIER_RULES}), Judge({**example, "rules": rules})


def missed_limits(judge: Judge, hosts: int, share: float, throttled: float) -> str:
    """The collectives whose rule is missed, or that none is."""
    missed = [
        name
        for name in ("all_reduce", "all_gather", "alltoall")
        if judge.judge(document(name, hosts, GPUS * hosts, curve(name, hosts, share, throttled)))["verdict"] == "fail"
    ]
    return ", ".join(missed) or "passes"


def peak_text(hosts: int, share: float, throttled: float, largest: int) -> str:
    """The peak that is printed of all_reduce, and by how much it is lower than that of healthy hosts."""
    healthy, value = (bandwidth("all_reduce", largest, hosts, *fault) for fault in ((1.0, 1.0), (share, throttled)))
    return f"{value:.0f} ({100 * (value / healthy - 1):+.0f} %)"


def _table(header: t.Sequence[str], rows: t.Iterable[t.Sequence[t.Any]]) -> None:
    print(f"| {' | '.join(header)} |")
    print(f"| --- |{' ---: |' * (len(header) - 1)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |", flush=True)
    print()


def main(trials: int) -> None:
    """Print the tables."""
    print(f"Isolate, 16 hosts, noise {100 * NOISE:g} %: in how many of {trials} searches the bad host is named alone\n")
    searches = (EARLIER_ISOLATE, _isolation._DEFAULTS[True])
    _table(
        ("fault", "before", "now"),
        ((name, *(found_by_isolate(one, *fault, trials) for one in searches)) for name, fault in FAULTS.items()),
    )
    sizes = (EARLIER_LARGEST, 8 * G)
    print("Benchmark, all_reduce: the peak in GB/s, and how it differs from that of healthy hosts\n")
    _table(
        ("fault", *(f"{hosts} hosts, up to {format_size(size)}" for hosts in (2, 16) for size in sizes)),
        (
            (name, *(peak_text(hosts, *fault, size) for hosts in (2, 16) for size in sizes))
            for name, fault in FAULTS.items()
        ),
    )
    print("docs/examples/acceptance.yml: the collectives whose limit is missed\n")
    _table(
        ("fault", *(f"{hosts} hosts, {when}" for hosts in (2, 16) for when in ("before", "now"))),
        (
            (name, *(missed_limits(one, hosts, *fault) for hosts in (2, 16) for one in judges()))
            for name, fault in FAULTS.items()
        ),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
