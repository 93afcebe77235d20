# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What all objects of a run in a cluster have in common: names, labels, and what their pods ask for."""

from __future__ import annotations

import hashlib
import re
import typing as t

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
_QUANTITY = re.compile(r"\d+(\.\d+)?([EPTGMk]i?|m)?\Z")
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


def check_pod_settings(prefix: str, settings: t.Mapping[str, t.Any], least: t.Mapping[str, int]) -> None:
    """Raise OptionError where a pod's ``shm_size`` or ``resources`` are no quantities, or a number is too small.

    ``prefix``: of the role's variables. ``least``: the smallest number that is allowed, by setting.
    """
    for name, smallest in least.items():
        if int(settings[name]) < smallest:
            raise OptionError(f"{prefix}_{name}", settings[name], f"{smallest} or more")
    quantities = {"shm_size": settings["shm_size"]}
    quantities.update({f"resources[{name}]": value for name, value in settings["resources"].items()})
    for name, value in quantities.items():
        if not _QUANTITY.match(str(value)):
            raise OptionError(f"{prefix}_{name}", value, "a quantity, such as 8, 500m or 16Gi")


def pod_resources(settings: t.Mapping[str, t.Any]) -> dict[str, dict[str, str]]:
    """What a pod requests and may have at most: its ``resources``, and ``gpus`` of the ``gpu_resource``."""
    resources = {name: str(value) for name, value in settings["resources"].items()}
    if int(settings["gpus"]):
        resources[settings["gpu_resource"]] = str(settings["gpus"])
    return {"requests": resources, "limits": resources}


def pod_annotations(settings: t.Mapping[str, t.Any]) -> dict[str, str]:
    """A pod's ``annotations``, with the one that has Multus attach its ``networks``."""
    networks = {"k8s.v1.cni.cncf.io/networks": ",".join(settings["networks"])} if settings["networks"] else {}
    return {**settings["annotations"], **networks}


def security_context(settings: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    context: dict[str, t.Any] = {}
    capabilities: dict[str, t.Any] = {"add": settings["capabilities"]} if settings["capabilities"] else {}
    if settings["run_as_user"] is not None:
        context["runAsUser"] = int(settings["run_as_user"])
        if context["runAsUser"] != 0:
            # What the Pod Security Standard "restricted" asks for.
            capabilities["drop"] = ["ALL"]
            context.update(
                {
                    "runAsNonRoot": True,
                    "allowPrivilegeEscalation": False,
                    "seccompProfile": {"type": "RuntimeDefault"},
                }
            )
    if settings["run_as_group"] is not None:
        context["runAsGroup"] = int(settings["run_as_group"])
    if capabilities:
        context["capabilities"] = capabilities
    return context
