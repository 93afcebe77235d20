# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What all objects of a run in a cluster have in common: names and labels."""

from __future__ import annotations

import hashlib
import re

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError

MANAGED_BY = "gpufabric.nccl"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
RUN_LABEL = "gpufabric.nccl/run"
# What the pods of a Kubeflow MPIJob carry (mpi-operator v2beta1, pkg/controller/mpi_job_controller.go).
JOB_LABEL = "training.kubeflow.org/job-name"
ROLE_LABEL = "training.kubeflow.org/job-role"

_PREFIX = "gpufabric-"
# Pods and Services add suffixes of their own to it, up to the 63 characters of a DNS label.
_LONGEST_NAME = 40
_LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?\Z")
_LABEL_VALUE_TEXT = "1 to 63 letters, digits, dots, underscores and dashes, beginning and ending with a letter or digit"


def object_name(run_id: str) -> str:
    """The name of a run's objects: a DNS-1123 label of at most 40 characters.

    Two runs never share one: where the run's name had to be changed to fit, the end is a hash of it.
    """
    fitting = re.sub(r"[^a-z0-9]+", "-", run_id.lower()).strip("-")
    if fitting == run_id and len(_PREFIX + run_id) <= _LONGEST_NAME:
        return _PREFIX + run_id
    digest = hashlib.sha256(run_id.encode()).hexdigest()[:8]
    return f"{_PREFIX}{fitting[: _LONGEST_NAME - len(_PREFIX) - len(digest) - 1].strip('-')}-{digest}"


def labels(run_id: str) -> dict[str, str]:
    """The labels of everything that a run makes in a cluster. Raises OptionError where the run's name is no label."""
    if not _LABEL_VALUE.match(run_id):
        raise OptionError("gpufabric_run_id", run_id, _LABEL_VALUE_TEXT)
    return {MANAGED_BY_LABEL: MANAGED_BY, RUN_LABEL: run_id}


def selector(run_id: str) -> str:
    """The label selector that finds a run's objects and no others. Raises OptionError."""
    return ",".join(f"{name}={value}" for name, value in labels(run_id).items())


def job_selector(job: str, role: str) -> str:
    """The label selector of the pods of an MPIJob with a role, ``launcher`` or ``worker``."""
    return f"{JOB_LABEL}={job},{ROLE_LABEL}={role}"
