# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The most that the hardware allows, from what was found of it or typed in."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.bandwidth import bus_factor, host_traffic
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.shapes import ResultDocument

#: What is found on machines.
FOUND = ("nic_gbps", "rails", "nvlink_gbytes")
#: What of a document's hardware its ceiling depends on.
_SHOWN = (*FOUND, "gpus", "nvlink_hosts", "in_network_reduction")


@dataclasses.dataclass(frozen=True)
class Topology:
    """What the machines are made of. None: not known, or not typed in."""

    nic_gbps: float | None = None
    rails: float | None = None
    #: Of a host; a test with fewer of them has as much less of the rails.
    gpus: int | None = None
    nvlink_gbytes: float | None = None
    nvlink_hosts: int | None = None
    in_network_reduction: bool | None = None
    network: str = ""

    def completed(self, document: ResultDocument) -> Topology:
        """The same with what was found on the machines of a test in place of what was not typed in."""
        hardware: t.Mapping[str, t.Any] = document.get("hardware") or {}
        known = {name: value for name, value in dataclasses.asdict(self).items() if value is not None}
        if "nvlink_hosts" not in known and _is_nvlink_domain(document):
            known["nvlink_hosts"] = document["host_count"]
        found = {name: hardware[name] for name in FOUND if hardware.get(name) is not None}
        return Topology(**{**found, **known})


def _is_nvlink_domain(document: ResultDocument) -> bool:
    """Whether NVLink connects all hosts of a test."""
    transport = document.get("transport")
    return bool(transport and transport["mnnvl"] and transport["connections"].get("NET") == 0)


def groups_of(document: ResultDocument) -> int:
    """How many groups of ranks ran the operation beside each other (NCCL_TESTS_SPLIT): what was measured is that of the first."""
    return len({rank.get("group") for rank in document["ranks"]} - {None}) or 1


def share_of_ceiling(document: ResultDocument) -> str:
    """``371.20 GB/s is 93 % of the ceiling ...``: the peak of a test; empty if the hardware is not known, or has no ceiling for it."""
    peak, transport = document["summary"]["peak_busbw"], document.get("transport")
    hardware: t.Mapping[str, t.Any] | None = document.get("hardware")
    if not hardware or peak is None:
        return ""
    topology = Topology(**{name: value for name, value in hardware.items() if name in _SHOWN}).completed(document)
    if transport and transport["mnnvl"] and topology.nvlink_hosts is None:
        # NVLink carries a part of what goes between hosts.
        return ""
    _algorithm, bus, source = ceiling(topology, document["collective"], document["rank_count"], document["host_count"])
    if bus is None:
        return ""
    return f"{peak:.2f} GB/s is {100 * peak / bus:.0f} % of the ceiling, {bus:.4g} GB/s: {source}"


def ceiling(
    topology: Topology, collective: str | None, ranks: int, hosts: int
) -> tuple[float | None, float | None, str]:
    """The most algorithm and bus bandwidth that the hardware allows, in GB/s, and how that comes; or None and why not.

    Between hosts the network is what limits: a host with B = NIC Gb/s x rails / 8 has to send so many bytes for each byte of
    the message size, n being all ranks, m the hosts and g = n / m the ranks of one:

    - all_reduce by rings 2 (n - 1) / n, reduced in the network 1; all_gather and reduce_scatter (n - 1) / n; broadcast and
      reduce 1; alltoall g (m - 1) / m; gather and scatter (m - 1) / m, of the root's host; sendrecv 1 by a single rail.

    Inside a host, or a domain of hosts with NVLink, each GPU with V GB/s of NVLink in each direction sends (n - 1) / n or 1 as
    above for all but alltoall, (n - 1) / n; all_reduce that is reduced in the switches takes (n + 1) / n.

    Bus bandwidth is algorithm bandwidth times bus_factor. Trees, and reduction in NVLink's switches, need less of the network
    where hosts are few: of two hosts, all_reduce has been measured at 1.2 times the ceiling of rings.
    """
    if ranks < 2 or hosts < 1:
        return None, None, "there is no ceiling for a test of fewer than two ranks"
    factor, sent = bus_factor(collective, ranks), host_traffic(collective, ranks, hosts)
    if factor is None or sent is None:
        return None, None, f"there is no ceiling for {collective or 'an unnamed collective'}"
    if hosts <= (topology.nvlink_hosts or 1):
        if topology.nvlink_gbytes is None:
            return None, None, "thresholds.topology.nvlink_gbytes is not given"
        full, words = topology.nvlink_gbytes, f"{topology.nvlink_gbytes:g} GB/s of NVLink a GPU"
        sent = factor
        if collective == "all_reduce" and topology.in_network_reduction:
            sent, words = (ranks + 1) / ranks, f"{words}, reduced in its switches"
    else:
        if topology.nic_gbps is None:
            return None, None, "thresholds.topology.nic_gbps is not given"
        used = min(1.0, ranks / hosts / topology.gpus) if topology.gpus else 1.0
        rails = 1.0 if collective == "sendrecv" else max(1.0, (topology.rails or 1.0) * used)
        full = topology.nic_gbps * rails / 8
        words = f"{topology.nic_gbps:g} Gb/s x {rails:g} {'rail' if rails == 1 else 'rails'}"
        if collective == "all_reduce" and topology.in_network_reduction:
            sent, words = 1.0, f"{words}, reduced in the network"
    words += f", {collective} over {ranks} ranks on {hosts} {'host' if hosts == 1 else 'hosts'}"
    return full / sent, full / sent * factor, words
