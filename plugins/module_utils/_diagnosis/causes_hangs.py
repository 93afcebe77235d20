# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Causes: which rank the others wait for, of a program that was ended because it had stopped making progress."""

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.entry import ECHO, EFFECT, Entry, entry

_FOUND_BY = "mpi_run, which looks at all ranks before it ends a point that hangs"
_RAS = "NCCL's RAS, which mpi_run asks twice before it ends a point that hangs"

ENTRIES: tuple[Entry, ...] = (
    entry(
        "rank-stopped",
        "[{who}|A rank] [{are}|is] stopped[{behind}], and the others wait.",
        "Find out what stopped it: a debugger, SIGSTOP, Ctrl+Z, or a freezer of the container. kill -CONT PID has it go on.",
        found_by=_FOUND_BY,
    ),
    entry(
        "rank-in-kernel",
        "[{who}|A rank] [{are}|is] stuck in the kernel (state D)[{behind}], and the others wait.",
        "Read the kernel log of the host (dmesg) for the driver or the file system that the evidence names: a GPU or NIC that fell off"
        " the bus, or an NFS server that is gone. Often only a restart of the host helps.",
        found_by=_FOUND_BY,
    ),
    entry(
        "rank-gone",
        "[{who}|A rank] [{are}|is] gone, and the others wait.",
        "Read what it printed last, and the kernel log of the host for processes that were killed (dmesg, OOM).",
        precedence=EFFECT,
        found_by=_FOUND_BY,
    ),
    entry(
        "host-frozen",
        "The host no longer answers the run's ssh[: {reason}][; it has {who}].",
        "Look at its console and its kernel log: it is frozen, overloaded, or cut off from the network. Restart it, and leave it out of"
        " the inventory until then.",
        found_by=_FOUND_BY,
    ),
    entry(
        "rank-not-started",
        "[{who}|A rank] never started. Others did, and wait.",
        "Log in to the host and start the program by hand: a home directory, a library or a container that hangs keeps a rank from"
        " its begin. If the host only needs longer, raise startup_timeout (in playbooks nccl_benchmark_startup_timeout, isolate_startup_timeout).",
        precedence=ECHO,
        found_by=_FOUND_BY,
    ),
    entry(
        "rank-behind",
        "[{who}|A rank] [{late}|has launched fewer collectives than the others], and they wait.",
        "Look at that rank and its GPU: its program does not get to the next collective. The evidence says what its process does;"
        " py-spy, gdb or the kernel log (dmesg, Xid) say where.",
        precedence=ECHO,
        found_by=_RAS,
    ),
    entry(
        "rank-silent",
        "The processes of NCCL get no answer from [{who}|a rank], which [{are}|is] not stopped.",
        "Check the network of NCCL's bootstrap (NCCL_SOCKET_IFNAME, NCCL_OOB_NET_IFNAME) from and to that host, and the load of the host.",
        precedence=ECHO,
        found_by=_RAS,
    ),
    entry(
        "rank-spinning",
        "[{who}|A rank] [{are}|is] computing without end, while the others wait.",
        "Find out what it computes: py-spy dump --pid PID or gdb -p PID on the host, while the program runs again.",
        precedence=ECHO,
        found_by=_FOUND_BY,
    ),
    entry(
        "rank-asleep",
        "[{who}|A rank] [{are}|is] asleep, while the others poll.",
        "Find out what it waits for: the evidence names the function of the kernel; py-spy dump --pid PID or gdb -p PID on the host say"
        " more, while the program runs again.",
        precedence=ECHO,
        found_by=_FOUND_BY,
    ),
)
