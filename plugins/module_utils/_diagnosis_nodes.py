# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Causes: what workers lack, or have differently, that are to run a benchmark together."""

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis_entry import entry

_FOUND_BY = "the role nccl_benchmark"
_SEARCH = "the role isolate"

ENTRIES = (
    entry(
        "mpi-unusable",
        "[{reason}|There is no mpirun on the host that programs can be started by].",
        "Install Open MPI 4 or 5 (Debian, Ubuntu: apt-get install openmpi-bin; RHEL and its kin: dnf install openmpi), or set"
        " gpufabric_mpi_prefix to the directory that holds its bin/mpirun.",
        found_by=_FOUND_BY,
    ),
    entry(
        "benchmark-missing",
        "There is no [{programs}|program of nccl-tests] on the host, which the backend nccl needs.",
        "Install nccl-tests there and set nccl_benchmark_dir to its directory, or leave nccl_benchmark_backend at auto or cpu.",
        found_by=_FOUND_BY,
    ),
    entry(
        "python-differs",
        "Python is [{there}, and on the first worker {here}|another one than on the first worker], and the cpu backend needs the same.",
        "Set ansible_python_interpreter to one that all workers have.",
        found_by=_FOUND_BY,
    ),
    entry(
        "control-address-missing",
        "No interface of the host has the address[ {address}] that its sshd listens on.",
        "See whether the address has changed since; run it again, or set gpufabric_control_interface.",
        found_by=_FOUND_BY,
    ),
    entry(
        "control-network-differs",
        "The control network has neither one interface name nor one subnet on all workers[: here {interface} {subnet}].",
        "Give the interfaces one name, or the workers addresses of one subnet, and set gpufabric_control_interface or"
        " gpufabric_control_subnet.",
        found_by=_FOUND_BY,
    ),
    entry(
        "data-interface-unset",
        "gpufabric_data_interface is set for other workers and not for this one.",
        "Set it for all, or gpufabric_data_subnet.",
        found_by=_FOUND_BY,
    ),
    entry(
        "data-interface-differs",
        "The data interface is not called the same on all workers[: here {interface}], which it must be with a launcher that is apart.",
        "Give the interfaces one name, and set gpufabric_data_interface to it.",
        found_by=_FOUND_BY,
    ),
    entry(
        "node-slow-inside",
        "The node is slow by itself, or fails.",
        "Look at its GPUs, NVLink, PCIe, clocks and CPU; the playbook diagnose looks at some of them.",
        found_by=_SEARCH,
    ),
    entry(
        "node-slow-between",
        "The node is slow with others, and fast by itself.",
        "Look at its network cards, cables and switch ports.",
        found_by=_SEARCH,
    ),
    entry(
        "node-slow",
        "The node is slow with others; it was not run by itself.",
        "Look at its network and at the machine itself.",
        found_by=_SEARCH,
    ),
    entry(
        "node-suspect",
        "The node is slow with others that may be the reason, or was not tested with any that is good.",
        "Repair what is bad and search again, or give isolate_limit where nearly all are slow.",
        severity="warning",
        found_by=_SEARCH,
    ),
    entry(
        "node-unreachable",
        "Nothing can be run on the node.",
        "See whether it runs and can be logged in to; the playbook diagnose says what is in the way.",
        found_by=_SEARCH,
    ),
    entry(
        "path-slow",
        "The path between [{ends}|two nodes] is slow; with others both are fast.",
        "Look at the switches and cables between them, and at how traffic is spread over these.",
        found_by=_SEARCH,
    ),
)
