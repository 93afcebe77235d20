# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The ports of a host's RDMA devices, as the kernel shows them."""

from __future__ import annotations

import glob
import os
import re
import typing as t

#: "400 Gb/sec (4X NDR)", "2.5 Gb/sec (1X SDR)"
_RATE = re.compile(r"\s*(\d{1,5}(?:\.\d{1,3})?) Gb/sec\b", re.ASCII)


class Port(t.TypedDict):
    """``name``: as NCCL has it, such as ``mlx5_0:1``. ``gbps``: its rate; None if the kernel does not say it."""

    name: str
    active: bool
    gbps: float | None


def read_ports(root: str = "/") -> list[Port]:
    """All ports, in the order of their names. ``root``: of the host's files."""
    found: list[Port] = []
    for path in sorted(glob.glob(os.path.join(glob.escape(root), "sys/class/infiniband/*/ports/*"))):
        device, _ports, number = path.split(os.sep)[-3:]
        rate = _RATE.match(_text_of(path, "rate"))
        gbps = float(rate.group(1)) if rate else 0.0
        active = "ACTIVE" in _text_of(path, "state")
        found.append({"name": f"{device}:{number}", "active": active, "gbps": gbps or None})
    return found


def _text_of(port: str, name: str) -> str:
    try:
        with open(os.path.join(port, name), encoding="ascii", errors="replace") as file:
            return file.read(100)
    except OSError:
        return ""
