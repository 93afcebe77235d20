# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Bandwidths worked out from sizes and times.

nccl-tests prints two decimals, which leave nothing of the bandwidth of a small size: 8 bytes in 30 us are 0.00 GB/s. The time
beside it has three digits or more. Of n ranks (doc/PERFORMANCE.md of nccl-tests, and ``getBw`` in src/ of each collective):

- algbw is size / time. hypercube leaves out the part of a rank itself, so there it is (n - 1) / n of that.
- busbw is algbw times 2 (n - 1) / n for all_reduce, 1 for broadcast, reduce, sendrecv and hypercube, and (n - 1) / n for all_gather,
  reduce_scatter, alltoall, gather and scatter.
- For alltoallv the bytes come from a matrix that the output does not show.
"""

from __future__ import annotations

import typing as t


class Steps(t.NamedTuple):
    """Half of what the last printed digit stands for, of a time in us and of two bandwidths in GB/s."""

    time_us: float
    algbw: float
    busbw: float


class WorkedOut(t.NamedTuple):
    """A bandwidth in GB/s from a size and a time, and between what it is, since the time is rounded."""

    value: float
    low: float
    high: float

    def is_printed(self, printed: float, step: float) -> bool:
        """Whether a printed bandwidth differs from it by rounding at most."""
        return self.low - 1.01 * step <= printed <= self.high + 1.01 * step

    def refined(self, printed: float, step: float) -> float:
        """The more exact of both, with six digits, which is more than a measurement has; it is what was printed, if rounded."""
        if (self.high - self.low) / 2 >= step:
            return printed
        value = min(max(float(f"{self.value:.6g}"), printed - 0.99 * step), printed + 0.99 * step)
        return float(f"{value:.8g}")


_ONE = frozenset({"broadcast", "reduce", "sendrecv", "hypercube"})
_ALL_BUT_OWN = frozenset({"all_gather", "reduce_scatter", "alltoall", "gather", "scatter"})


def bus_factor(collective: str | None, ranks: int) -> float | None:
    """Bus by algorithm bandwidth; None if the collective's is not known."""
    if collective in _ONE:
        return 1.0
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if collective in _ALL_BUT_OWN else None


def algorithm_bandwidth(
    collective: str | None, size: int, ranks: int | None, time_us: float, step: float
) -> WorkedOut | None:
    """algbw of a size in bytes; None if it cannot be worked out. ``step`` as in Steps."""
    if time_us <= step or (collective == "hypercube" and ranks is None):
        return None
    counted = size * (ranks - 1) / ranks if collective == "hypercube" and ranks else size
    return WorkedOut(*(counted / time / 1e3 for time in (time_us, time_us + step, time_us - step)))


def times(bandwidth: WorkedOut, factor: float) -> WorkedOut:
    """A bandwidth times a factor."""
    return WorkedOut(*(factor * value for value in bandwidth))


#: What a host sends for each byte of the message size, by ranks and hosts, where rings or single senders carry it.
_TRAFFIC: dict[str, t.Callable[[int, int], float]] = {
    "all_reduce": lambda ranks, hosts: 2 * (ranks - 1) / ranks,
    "all_gather": lambda ranks, hosts: (ranks - 1) / ranks,
    "reduce_scatter": lambda ranks, hosts: (ranks - 1) / ranks,
    "broadcast": lambda ranks, hosts: 1.0,
    "reduce": lambda ranks, hosts: 1.0,
    "sendrecv": lambda ranks, hosts: 1.0,
    "alltoall": lambda ranks, hosts: ranks / hosts * (hosts - 1) / hosts,
    "gather": lambda ranks, hosts: (hosts - 1) / hosts,
    "scatter": lambda ranks, hosts: (hosts - 1) / hosts,
}


def host_traffic(collective: str | None, ranks: int, hosts: int) -> float | None:
    """Bytes that the busiest host sends over the network for each byte of the message size; None if that is not known."""
    traffic = _TRAFFIC.get(collective or "")
    return None if traffic is None else traffic(ranks, hosts)
