# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Which ranks keep the others waiting, from how long each process takes for the same operations.

No rank of a collective such as all_reduce can be done before the last one has begun. So a rank that comes late has the *shortest* time:
it finds the others waiting. One with the longest time came early. Where a rank needs nothing of the others, as the root of a broadcast,
the shortest time may also be that of a rank which is done before they have begun, so nothing is said of such collectives. Times of single
iterations are of CUDA events (option -I of nccl-tests). Iterations that follow each other without a barrier start together on all ranks
but for the first, so a rank that is late each time shows with -z 3, which has one before each.
"""

from __future__ import annotations

import statistics
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.shapes import Straggler

#: The collectives in which a rank may be done before the last one has begun.
EARLY_ENDS = frozenset({"broadcast", "reduce", "gather", "scatter", "sendrecv"})
#: The least part of the time that is worth a name, and by how many deviations of all processes it has to stand out.
LEAST_SHARE = 0.05
_DEVIATIONS = 6.0
MOST = 8


def find_stragglers(
    times: t.Sequence[t.Sequence[float]], ranks: t.Sequence[t.Mapping[str, t.Any]]
) -> list[Straggler] | None:
    """The ranks that the others wait for, the worst first; None if the times are not known.

    ``times``: of each half of each row, the mean time of each process; ``ranks``: as in a result document.
    """
    count = len(times[0]) if times else 0
    numbers = sorted(rank["rank"] for rank in ranks)
    each = len(numbers) // count if count else 0
    if count < 2 or any(len(row) != count for row in times):
        return None
    if not each or numbers != list(range(each * count)):
        # Which of them a process has is not known.
        return None
    by_process = [sorted(waits) for waits in zip(*map(_waits, times))]
    shares = [statistics.median(waits) for waits in by_process]
    centre = statistics.median(shares)
    # Of two, the one that is late is the deviation.
    spread = 0.0 if count == 2 else 1.4826 * statistics.median(abs(share - centre) for share in shares)
    least = max(LEAST_SHARE, centre + _DEVIATIONS * spread)
    # Not by chance: it shows in three of four halves.
    often = [waits[len(waits) // 4] >= LEAST_SHARE for waits in by_process]
    late = sorted((share, -process) for process, share in enumerate(shares) if share >= least and often[process])
    by_number = {rank["rank"]: rank for rank in ranks}
    found: list[Straggler] = []
    for share, process in late[: -MOST - 1 : -1]:
        first = by_number[-process * each]
        found.append(
            {
                "rank": first["rank"],
                "host": first["host"],
                "device": first["device"] if each == 1 else None,
                "share": round(share, 4),
            }
        )
    return found


def _waits(row: t.Sequence[float]) -> list[float]:
    """What part of the time of an operation the others wait for each process."""
    usual = max(row) if len(row) == 2 else statistics.median(row)
    return [1 - time / usual for time in row]


def describe_stragglers(stragglers: t.Sequence[Straggler], most: int = 3) -> str:
    """In a few words, for people; empty if there are none."""
    told = [
        f"rank {one['rank']} on {one['host']}"
        + (f", GPU {one['device']}" if one["device"] is not None else "")
        + f" ({100 * one['share']:.0f} %)"
        for one in stragglers[:most]
    ]
    more = f", and {len(stragglers) - most} more" if len(stragglers) > most else ""
    return f"the others wait for {'; '.join(told)}{more}" if told else ""


def checked_stragglers(value: t.Any) -> list[Straggler] | None:
    """The stragglers of a document that was handed in. Raises GpufabricError where it is something else."""
    if value is None:
        return None
    kinds: dict[str, t.Any] = {"rank": int, "host": str, "device": (int, type(None)), "share": (int, float)}
    if isinstance(value, list) and all(
        isinstance(one, dict) and all(isinstance(one.get(name, ...), kind) for name, kind in kinds.items())
        for one in value
    ):
        return value
    raise GpufabricError("stragglers of a result are a list of dicts with rank, host, device and share")
