# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The result document; docs/contracts.md says what each key holds. A key is in both or in neither.

Sizes are in bytes, times in microseconds, bandwidths in GB/s (10^9 bytes a second).
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemDict
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.shapes import Software, Transport

Placement = t.Literal["out_of_place", "in_place"]


class _HalfExtra(t.TypedDict, total=False):
    cpu_time_us: float | None
    #: The greatest difference, which nccl-tests before 2.13 printed instead of ``wrong``.
    error: float | None
    extra: dict[str, float | None]
    #: Bandwidths worked out from the time, in GB/s, which differ from those printed by more than rounding.
    computed: dict[str, float]
    #: What was printed in place of a number, such as nan, by cell. The value of that cell is None.
    no_numbers: dict[str, str]


class Half(_HalfExtra):
    """What was measured out of place, or in place. ``wrong``: None if the values were not checked."""

    time_us: float | None
    algbw: float | None
    busbw: float | None
    wrong: int | None


class _RowExtra(t.TypedDict, total=False):
    extra: dict[str, t.Any]


class Row(_RowExtra):
    """One size. A half is None if it was not measured."""

    size: int
    count: int | None
    type: str
    redop: str
    root: int | None
    out_of_place: Half | None
    in_place: Half | None


class Rank(t.TypedDict):
    """One rank, or one GPU of a process that has several."""

    rank: int
    group: int | None
    pid: int | None
    host: str
    device: int | None
    bus_id: str | None
    name: str | None


class Tool(t.TypedDict):
    """The program that ran."""

    name: str | None
    version: str | None
    nccl_version: str | None


class Summary(t.TypedDict):
    """``avg_busbw`` as printed."""

    avg_busbw: float | None
    peak_busbw: float | None
    peak_size: int | None
    wrong: int | None
    checked: bool
    out_of_bounds: int | None


class _Typed(t.TypedDict, total=False):
    #: Typed in, as of thresholds.topology. ``gpus``: of a host.
    gpus: int
    nvlink_hosts: int
    in_network_reduction: bool
    #: The names of all that was typed in.
    typed: list[str]


class Hardware(_Typed):
    """What most hosts have. None: not known. ``rails``: the NICs that NCCL uses, as far as its log names them."""

    nic_gbps: float | None
    rails: float | None
    #: All active ports of RDMA devices.
    ports: int | None
    nvlink_gbytes: float | None


UNKNOWN_HARDWARE: Hardware = {"nic_gbps": None, "rails": None, "ports": None, "nvlink_gbytes": None}


class Straggler(t.TypedDict):
    """A rank that the others wait for. ``share``: what part of the time of an operation they do.

    ``device``: None of a process with several. ``rank``: its first one then.
    """

    rank: int
    host: str
    device: int | None
    share: float


class SoakSize(t.TypedDict):
    """A size that ran again and again. Bandwidths in GB/s. ``drift_percent``: the last third against the first; None of few cycles.

    ``dips``: how many.
    """

    size: int
    type: str
    redop: str
    root: int | None
    cycles: int
    median: float
    min: float
    max: float
    drift_percent: float | None
    dips: int


class Dip(t.TypedDict):
    """A cycle in which a size was slow. ``percent``: below the median. ``time``: as the program prints it, None if it does not."""

    cycle: int
    time: str | None
    size: int
    busbw: float
    percent: float


class Soak(t.TypedDict):
    """A test that ran its sizes several times. ``begin``, ``end``: when its first and its last row were done."""

    cycles: int
    begin: str | None
    end: str | None
    sizes: list[SoakSize]
    dips: list[Dip]


class _Judged(t.TypedDict, total=False):
    #: Only if rules, a baseline or assertions were given.
    verdicts: list[dict[str, t.Any]]
    #: Inventory names by the short host names of ranks; only if some differ.
    host_names: dict[str, str]


class ResultDocument(_Judged):
    """One test. ``config`` and ``points`` are empty if nothing is known of them."""

    schema: str
    tool: Tool
    collective: str | None
    complete: bool
    config: dict[str, t.Any]
    ranks: list[Rank]
    rows: list[Row]
    lost_rows: int
    summary: Summary
    json_output: str | None
    points: dict[str, t.Any]
    env: dict[str, str]
    host_count: int
    rank_count: int
    #: None without a log of NCCL.
    transport: Transport | None
    software: Software | None
    #: None if nobody looked.
    hardware: Hardware | None
    #: None if the times of the processes are not known.
    stragglers: list[Straggler] | None
    #: None if no size ran more than once.
    soak: Soak | None
    problems: list[ProblemDict]
    verdict: str
