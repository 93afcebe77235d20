# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What NCCL's log tells of a run; docs/contracts.md says what each key holds. None: the log does not tell."""

from __future__ import annotations

import typing as t

#: How many lines of a host's log say what, by fact and value. It is all that leaves the host: some hundred bytes.
HostFacts = t.Dict[str, t.Dict[str, int]]

#: The facts of all hosts, by the name that the log has for each.
FleetFacts = t.Dict[str, HostFacts]


class Difference(t.TypedDict):
    """A host that differs from most: its value of a fact, and theirs."""

    fact: str
    host: str
    value: t.Any
    others: t.Any


class LogSize(t.TypedDict):
    """What the summary of a launch cost: the logs of all hosts, and the seconds that the pass over these took."""

    files: int
    bytes: int
    seconds: float


class _Launched(t.TypedDict, total=False):
    #: Of a launch of the collection.
    log: LogSize


class Transport(_Launched):
    """What the ranks talked over. ``nics`` and ``connections`` count what NCCL set up, not what each collective used."""

    network: str | None
    plugin: str | None
    gdr: bool | None
    mixed: bool
    nics: dict[str, list[str] | None]
    channels: int | None
    nvls: bool | None
    mnnvl: bool | None
    socket_interface: str | None
    #: By way: P2P, SHM, NET, COLLNET.
    connections: dict[str, int]
    differences: list[Difference]
    source: str


class Software(t.TypedDict):
    """What the ranks ran with. ``cuda`` is what NCCL was built for, ``driver_cuda`` the newest that the driver can.

    ``driver`` is the GPU driver's own version, which the log does not have: it is known if the host was asked.
    """

    nccl: str | None
    cuda: str | None
    driver: str | None
    driver_cuda: str | None
    plugin_version: str | None
    differences: list[Difference]
