# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The hardware of a result document that was handed in."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.shapes import UNKNOWN_HARDWARE, Hardware

#: What all numbers are below.
LARGEST = 1e9
#: Only typed in.
_COUNTS = ("gpus", "nvlink_hosts")


def checked_hardware(value: t.Any) -> Hardware | None:
    """The hardware of a document that was handed in. Raises GpufabricError where it is something else."""
    if value is None:
        return None
    # Machines with NVLink alone have no ports.
    sound = (
        isinstance(value, dict)
        and set(UNKNOWN_HARDWARE) <= set(value) <= {*UNKNOWN_HARDWARE, *_COUNTS, "in_network_reduction", "typed"}
        and all(
            value[name] is None or is_amount(value[name]) or (name == "ports" and value[name] == 0)
            for name in UNKNOWN_HARDWARE
        )
        and all(is_amount(value.get(name, 1)) for name in _COUNTS)
        and isinstance(value.get("in_network_reduction", False), bool)
        and isinstance(value.get("typed", []), list)
        and all(isinstance(name, str) and name in value for name in value.get("typed", []))
    )
    if not sound:
        raise GpufabricError(
            "a list of result documents is needed; the hardware of an item is not one that the role nccl_benchmark found"
        )
    return t.cast(Hardware, value)


def is_amount(value: t.Any) -> bool:
    """Whether it is a number that hardware may have."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < LARGEST
