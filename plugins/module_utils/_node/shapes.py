# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What mpi_node_info returns of a node; its documentation says what each key holds."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._rdma import Port


class Interface(t.TypedDict):
    """One network interface. ``addresses``: in CIDR notation."""

    name: str
    mtu: int | None
    addresses: list[str]


class Network(t.TypedDict):
    """An interface that an option names. Several are named with commas between, and have no address in common."""

    interface: str | None
    address: str | None
    subnet: str | None


class Gpus(t.TypedDict):
    """``vendor``: ``none`` if there is none. ``memory_bytes``: of the one that has least. ``nvlink_gbytes``: of a GPU, in one direction. None:
    not known.

    ``unusable``: of a node without GPUs, those that are on its PCI bus nevertheless.
    """

    vendor: str | None
    count: int
    names: list[str]
    memory_bytes: int | None
    nvlink_gbytes: float | None
    unusable: list[str]


class LineRate(t.TypedDict):
    """How many Gb/s a node can send. ``source``: over which ports or interfaces, in words."""

    gbps: float
    source: str


class Mpi(t.TypedDict):
    """``vendor``: as far as it matters."""

    mpirun: str
    prefix: str
    implementation: str
    version: str
    vendor: str | None


class Benchmarks(t.TypedDict):
    """The programs of nccl-tests, which are in one directory. ``features``: what all of them can do beyond the oldest version."""

    directory: str
    programs: list[str]
    features: list[str]


class Python(t.TypedDict):
    """``mpi4py``, ``numpy``: their versions."""

    executable: str
    mpi4py: str | None
    numpy: str | None


class NodeInfo(t.TypedDict):
    """What a node has."""

    hostname: str
    interfaces: list[Interface]
    control: Network | None
    data: Network | None
    gpus: Gpus
    line_rate: LineRate | None
    mpi: Mpi | None
    benchmarks: Benchmarks | None
    python: Python
    cpus: int
    shm_bytes: int | None
    memlock_bytes: int | None
    rdma_devices: list[str]
    rdma_ports: list[Port]
