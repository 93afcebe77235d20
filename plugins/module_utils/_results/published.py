# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Which of the published values are of machines like those of a test."""

from __future__ import annotations

import math
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._results.reference_values import (
    MEASURED,
    Reference,
    references,
)

#: A value of a size so many times as large, or as small, tells nothing.
_FAR = 4
#: By this factor, the NICs of a host do more or less than those of another kind of machine.
_OTHER_NETWORK = 1.3


def is_gpu(part: str, names: t.Sequence[str | None]) -> bool:
    """Whether a part of a name stands in those of all devices that have one; B200 is not what GB200 has."""
    pattern = re.compile(rf"(?<![a-z0-9]){re.escape(part)}", re.IGNORECASE)
    # A file of -J names the first device of each process.
    known = [name for name in names if name]
    return bool(known) and all(map(pattern.search, known))


def published(
    collective: str | None,
    names: t.Sequence[str | None],
    hosts: int,
    size: int,
    most: int = 3,
    host_gbps: float = 0,
) -> list[Reference]:
    """What was measured on such machines: with the same GPU, as many on a host, on one host or on several as here, at about that size.

    ``names``: of the device of each rank; ``size``: that of the value to compare, in bytes. One value of a name; first those of
    about as many hosts, and of each name that of the nearest size. ``host_gbps``: what the NICs of a host do together, 0 if unknown;
    values of machines with a network of another rate are left out then.
    """
    found: dict[str, Reference] = {}
    for reference in references():
        if (
            reference.source.kind == MEASURED
            and reference.collective == collective
            and hosts > 0
            and reference.gpus_per_host * hosts == len(names)
            and (reference.hosts == 1) == (hosts == 1)
            and reference.min_bytes <= _FAR * size
            and size <= _FAR * reference.max_bytes
            and is_gpu(reference.gpu, names)
            and _is_such_network(reference, host_gbps)
        ):
            best = found.setdefault(reference.name, reference)
            found[reference.name] = min(best, reference, key=lambda one: _distance(one, hosts, size))
    return sorted(found.values(), key=lambda one: _distance(one, hosts, size))[:most]


def _is_such_network(reference: Reference, host_gbps: float) -> bool:
    gbps = reference.host_gbps
    return gbps <= 0 or host_gbps <= 0 or abs(math.log(gbps / host_gbps)) < math.log(_OTHER_NETWORK)


def _distance(reference: Reference, hosts: int, size: int) -> tuple[float, float]:
    return abs(math.log(reference.hosts / hosts)), abs(math.log(reference.max_bytes / max(size, 1)))
