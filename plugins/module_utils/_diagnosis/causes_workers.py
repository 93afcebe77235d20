# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Causes: what workers lack, or have differently, that are to run a benchmark together."""

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.entry import entry

_FOUND_BY = "the role nccl_benchmark"
_SEARCH = "the role isolate"

ENTRIES = (
    entry(
        "mpi-unusable",
        "[{reason}|The host has no mpirun that can start programs].",
        "Install Open MPI 4 or 5 (Debian, Ubuntu: apt-get install openmpi-bin; RHEL and its kin: dnf install"
        " openmpi), or set gpufabric_mpi_prefix to the directory that holds its bin/mpirun."
        " In a pod with several containers, set worker_pods_container to the one that has it.",
        found_by=_FOUND_BY,
    ),
    entry(
        "benchmark-missing",
        "The host has no [{programs}|program of nccl-tests], which the backend nccl needs.",
        "Build it by the playbook nccl_tests, or install it, built with MPI=1, and set nccl_benchmark_dir to its directory. To test the"
        " machines without NCCL, set nccl_benchmark_backend to cpu.",
        found_by=_FOUND_BY,
    ),
    entry(
        "gpus-nowhere",
        "No GPU was found on any host.",
        "To test the machines without GPUs, set nccl_benchmark_backend to cpu. If they have GPUs, run nvidia-smi -L on one of them; in a"
        " container, check worker_pods_gpus and NVIDIA_VISIBLE_DEVICES.",
        found_by=_FOUND_BY,
    ),
    entry(
        "gpus-differ",
        "The GPUs differ between workers[: here {here}; {usual} on {hosts} workers].",
        "Check nvidia-smi -L and the kernel log of the host for a GPU that is gone. If the workers are meant to differ,"
        " set nccl_benchmark_allow_uneven_gpus.",
        found_by=_FOUND_BY,
    ),
    entry(
        "host-name-shared",
        "Several hosts have the host name[ {name}].",
        "Give each of them a host name of its own, for instance with hostnamectl set-hostname: Open MPI, NCCL and nccl-tests"
        " tell hosts apart by their names. A domain does not count, nor do capitals.",
        found_by=f"{_FOUND_BY}, mpi_preflight",
    ),
    entry(
        "address-shared",
        "Several hosts have the address[ {address} on {interface}][: {hosts}].",
        "Give each of them an address of its own. ip -brief address lists those of a host; a machine that was cloned keeps"
        " the addresses of the other one.",
        found_by="mpi_preflight",
    ),
    entry(
        "python-differs",
        "Python is [{there}, and on the first worker {here}|not the same as on the first worker], but the cpu"
        " backend needs the same on all.",
        "Set ansible_python_interpreter to one that all workers have.",
        found_by=_FOUND_BY,
    ),
    entry(
        "control-address-missing",
        "No interface of the host has the address[ {address}] that its sshd listens on.",
        "Run the play again if the address has changed since the start, or set gpufabric_control_interface.",
        found_by=_FOUND_BY,
    ),
    entry(
        "control-network-differs",
        "The workers share neither the name of the control interface nor its subnet[: here {interface} {subnet}].",
        "Give the interfaces one name, or the workers addresses of one subnet, and set gpufabric_control_interface"
        " or gpufabric_control_subnet.",
        found_by=_FOUND_BY,
    ),
    entry(
        "data-interface-unset",
        "gpufabric_data_interface is set for other workers, but not for this one.",
        "Set gpufabric_data_interface for all workers, or gpufabric_data_subnet.",
        found_by=_FOUND_BY,
    ),
    entry(
        "data-interface-differs",
        "The name of the data interface differs between workers[: here {interface}]. A launcher that is"
        " none of them needs one name.",
        "Give the interfaces one name, and set gpufabric_data_interface to it.",
        found_by=_FOUND_BY,
    ),
    entry(
        "node-slow-inside",
        "The node is slow, or fails, when it runs alone.",
        "Check its GPUs, NVLink, PCIe, clocks and CPU; the playbook diagnose checks some of them.",
        found_by=_SEARCH,
    ),
    entry(
        "node-slow-between",
        "The node is slow, or fails, together with others, but not alone.",
        "Check its network cards, cables and switch ports.",
        found_by=_SEARCH,
    ),
    entry(
        "node-slow",
        "The node is slow, or fails, together with others; it has not run alone.",
        "Check its network and the machine itself.",
        found_by=_SEARCH,
    ),
    entry(
        "node-suspect",
        "The node is slow together with nodes that may be the reason, or has not run with a good node.",
        "Repair the bad nodes and search again. If nearly all nodes are slow, set isolate_limit.",
        severity="warning",
        found_by=_SEARCH,
    ),
    entry(
        "node-unreachable",
        "Nothing runs on the node.",
        "Check that the node is up and accepts logins; the playbook diagnose names the obstacle.",
        found_by=_SEARCH,
    ),
    entry(
        "path-slow",
        "The path between [{ends}|two nodes] is slow, although both nodes are fast with others.",
        "Check the switches and cables between them, and how traffic is spread over them.",
        found_by=_SEARCH,
    ),
    entry(
        "path-failed",
        "The benchmark fails over [{ends}|two nodes], although both nodes run with others.",
        "The evidence has the reason. The playbook diagnose over these two nodes (gpufabric_target) names the host and the obstacle.",
        found_by=_SEARCH,
    ),
    entry(
        "group-slow",
        "[{nodes}|Several nodes] are slow together, although no part of them is.",
        "Check the switches between them, and how traffic is spread over them. If they are in different racks, set isolate_domains.",
        found_by=_SEARCH,
    ),
    entry(
        "path-noisy",
        "The path between [{ends}|two nodes] may be slow: the values of the same test differ too much to say.",
        "End what else uses the machines and their network, and search again, with more isolate_iterations. If that does not help,"
        " set isolate_limit.",
        severity="warning",
        found_by=_SEARCH,
    ),
    entry(
        "test-unsteady",
        "A test of [{nodes}|some nodes] failed, and ran when it was repeated. One of them may fail now and then, though none is called bad.",
        "The evidence has the reason. Search again over these nodes, with more isolate_iterations, to see which one it is.",
        severity="warning",
        found_by=_SEARCH,
    ),
)
