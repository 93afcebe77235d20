# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Causes: what keeps nccl-tests from being built, or brought to a machine."""

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.entry import entry

_FOUND_BY = "nccl_tests_build and the role nccl_tests"

ENTRIES = (
    entry(
        "build-requirement-missing",
        "The host has no [{what}|compiler, header or library that the build of nccl-tests needs][ in {place}].",
        "[Debian, Ubuntu: apt-get install {deb}; RHEL and its kin: dnf install {rpm}|Install the package that the problem"
        " names][ ({note})]. [If it is elsewhere, set {option}. ]To build on another host, set nccl_tests_build_on.",
        found_by=_FOUND_BY,
    ),
    entry(
        "build-architecture",
        "The CUDA compiler[ {version}] makes no code for [GPUs of compute capability {capability}|these GPUs].",
        "Install a CUDA that supports these GPUs and that the driver supports, and set nccl_tests_cuda_home to it: CUDA 13"
        " has none for those before 7.5, and each new GPU needs a CUDA of its time.",
        found_by=_FOUND_BY,
    ),
    entry(
        "build-source-differs",
        "The source of nccl-tests[ in {name}] does not have the SHA-256 that is wanted.",
        "Check where the archive comes from. If it is the one that you want, set nccl_tests_checksum to its SHA-256.",
        found_by=_FOUND_BY,
    ),
    entry(
        "build-source-unreachable",
        "The host cannot get the source of nccl-tests[ from {place}].",
        "Let the host reach the place, or download the archive to the controller and set nccl_tests_archive to its path.",
        found_by=_FOUND_BY,
    ),
    entry(
        "build-failed",
        "The build of nccl-tests has failed.",
        "Read [{log}|the log of the build] on the host. The release may need a newer NCCL or CUDA: another one is chosen by"
        " nccl_tests_git_ref, or by nccl_tests_url and nccl_tests_checksum.",
        found_by=_FOUND_BY,
    ),
    entry(
        "programs-not-brought",
        "The programs of nccl-tests could not be brought to the host[: {reason}].",
        "Check the launch path to the host with the playbook diagnose.",
        found_by="the role nccl_tests",
    ),
)
