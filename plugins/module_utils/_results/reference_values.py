# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Bus bandwidths that others have published, in GB/s. No rule is made of them unless one chooses them by their name.

They are far apart, since they are of different definitions (an average over sizes, one size, the peak), node counts and kinds:
``measured`` on one machine once, or a ``threshold`` that its authors use to accept machines. They stand in published.json, which only the
controller has: what runs on nodes gets what it needs of it.
"""

from __future__ import annotations

import functools
import json
import os
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._units import parse_size

MEASURED, THRESHOLD = "measured", "threshold"
PATH = os.path.join(os.path.dirname(__file__), "published.json")


class Source(t.NamedTuple):
    """Where values were published. ``where``: repository and file, and of which day or commit. ``measure``: as in a rule."""

    where: str
    kind: str
    definition: str
    measure: str


class Reference(t.NamedTuple):
    """One value. ``gpu``: a part of the device's name; ``min_bytes`` and ``max_bytes`` as in a rule.

    ``host_gbps``: what the NICs of a host do together, as the vendor's page has it; 0 if unknown.
    """

    name: str
    source: Source
    system: str
    gpu: str
    hosts: int
    gpus_per_host: int
    collective: str
    value: float
    min_bytes: int
    max_bytes: int
    host_gbps: float


def read_published() -> dict[str, t.Any]:
    """What published.json holds."""
    with open(PATH, encoding="utf-8") as file:
        return t.cast("dict[str, t.Any]", json.load(file))


def parse_published(published: t.Mapping[str, t.Any]) -> tuple[Reference, ...]:
    """The values of what read_published returned, in its order."""
    sources = {name: Source(**source) for name, source in published["sources"].items()}
    return tuple(
        Reference(
            **{
                **entry,
                "source": sources[entry["source"]],
                "host_gbps": published["host_gbps"].get(entry["name"], 0),
                **{name: parse_size(name, entry[name]) for name in ("min_bytes", "max_bytes")},
            }
        )
        for entry in published["values"]
    )


@functools.lru_cache(maxsize=1)
def references() -> tuple[Reference, ...]:
    """All values, on the controller."""
    return parse_published(read_published())
