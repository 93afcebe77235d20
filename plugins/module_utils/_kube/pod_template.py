# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The pods of a run, made alike for a StatefulSet and for an MPIJob, from settings that both roles have by the same names."""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import Hidden, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.objects import OWN_LABELS

_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?([EPTGMK]i|[EPTGMkm]|[eE][0-9]+)?\Z")
_VARIABLE = re.compile(r"[A-Za-z_.-][A-Za-z0-9_.-]*\Z")
_CAPABILITY = re.compile(r"[A-Z][A-Z_]+\Z")
_SHM = "shm"
#: The largest numbers that make sense: of pods, of ids of users, of anything else, such as seconds.
_MOST_REPLICAS = 10_000
_MOST_ID = (1 << 31) - 1
_MOST = 1_000_000_000


def check_pod_settings(prefix: str, settings: t.Mapping[str, t.Any], least: t.Mapping[str, int]) -> None:
    """Raise OptionError if a setting of a pod is not what Kubernetes takes.

    ``prefix``: of the role's variables. ``least``: the smallest number that is allowed, by setting.
    """
    for name, smallest in least.items():
        largest = _MOST_REPLICAS if name == "replicas" else _MOST
        if not smallest <= settings[name] <= largest:
            allowed = f"{smallest} or more" if settings[name] < smallest else f"at most {largest}"
            raise OptionError(f"{prefix}_{name}", settings[name], allowed)
    for name in ("affinity", "env", "pod_spec", "resources", "tolerations"):
        try:
            json.dumps(settings[name], default=str)
        except (RecursionError, TypeError, ValueError):
            raise OptionError(f"{prefix}_{name}", Hidden(), "what JSON can hold") from None
    quantities = {"shm_size": settings["shm_size"]}
    quantities.update({f"resources[{name}]": value for name, value in settings["resources"].items()})
    for name, value in quantities.items():
        if not _QUANTITY.match(str(value)):
            raise OptionError(f"{prefix}_{name}", value, "a quantity, such as 8, 500m or 16Gi")
    for name in settings["capabilities"]:
        if not _CAPABILITY.match(name):
            raise OptionError(f"{prefix}_capabilities", name, "names such as IPC_LOCK, SYS_CHROOT, NET_RAW")
    for name in ("run_as_user", "run_as_group"):
        if settings[name] is not None and not 0 <= settings[name] <= _MOST_ID:
            raise OptionError(f"{prefix}_{name}", settings[name], f"0 to {_MOST_ID}")
    for name in ("labels", "annotations", "node_selector"):
        for key, value in settings[name].items():
            # YAML makes a number or a switch of what looks like one.
            if not isinstance(value, str):
                raise OptionError(
                    f"{prefix}_{name}[{key}]", value, "a text, in quotes if it looks like a number, true or false"
                )
    for name, value in settings["env"].items():
        if not _VARIABLE.match(name):
            raise OptionError(f"{prefix}_env", name, "names of environment variables")
        # NCCL reads numbers: the text True would be 0 to it.
        if isinstance(value, (t.Mapping, list, bool)) and not is_reference(value):
            allowed = "a text or a number, such as 1 or 0, or valueFrom as in the env of a container"
            raise OptionError(f"{prefix}_env[{name}]", Hidden(), allowed)
    for name in ("containers", "initContainers", "volumes"):
        items = settings["pod_spec"].get(name, [])
        # Values of variables may be in them.
        if not isinstance(items, list) or not all(map(_name_of, items)):
            raise OptionError(f"{prefix}_pod_spec.{name}", Hidden(), "a list of dictionaries, each with a name")
    for name in settings["labels"]:
        if name in OWN_LABELS:
            raise OptionError(f"{prefix}_labels", name, f"labels other than {', '.join(sorted(OWN_LABELS))}")


def make_container(
    name: str,
    settings: t.Mapping[str, t.Any],
    env: t.Mapping[str, t.Any],
    mounts: t.Sequence[t.Mapping[str, t.Any]] = (),
    *,
    works: bool = True,
) -> dict[str, t.Any]:
    """A container with /dev/shm of its own.

    ``env``: its variables; None is one that is not set. ``works``: whether it gets the GPUs, the resources and the capabilities.
    """
    container: dict[str, t.Any] = {
        "name": name,
        "image": settings["image"],
        "imagePullPolicy": settings["image_pull_policy"],
        "env": [_variable(key, value) for key, value in env.items() if value is not None],
        "volumeMounts": [*mounts, {"name": _SHM, "mountPath": "/dev/shm"}],
    }
    resources = _resources(settings)
    if works and resources:
        container["resources"] = {"requests": resources, "limits": resources}
    container["securityContext"] = _security_context(settings if works else {**settings, "capabilities": []})
    return container


def make_template(
    labels: t.Mapping[str, str],
    settings: t.Mapping[str, t.Any],
    container: t.Mapping[str, t.Any],
    volumes: t.Sequence[t.Mapping[str, t.Any]] = (),
    spec: t.Mapping[str, t.Any] | None = None,
    *,
    works: bool = True,
) -> dict[str, t.Any]:
    """A pod's ``metadata`` and ``spec`` around its container, merged with the ``pod_spec`` of the settings.

    ``labels``: of the run. ``volumes``, ``spec``: what it has besides. ``works``: whether it is a worker, which is placed and gets networks.
    """
    shm = {"name": _SHM, "emptyDir": {"medium": "Memory", "sizeLimit": settings["shm_size"]}}
    own: dict[str, t.Any] = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 5,
        "containers": [dict(container)],
        "volumes": [*volumes, shm],
        **(spec or {}),
    }
    optional = {
        "imagePullSecrets": [{"name": secret} for secret in settings["image_pull_secrets"]],
        "tolerations": settings["tolerations"],
        "nodeSelector": settings["node_selector"] if works else {},
        "affinity": settings["affinity"] if works else {},
        "hostNetwork": settings["host_network"],
        # Names of the cluster resolve on the host's network only so.
        "dnsPolicy": "ClusterFirstWithHostNet" if settings["host_network"] else None,
    }
    own.update({key: value for key, value in optional.items() if value})
    metadata: dict[str, t.Any] = {"labels": {**settings["labels"], **labels}}
    annotations = _annotations(settings) if works else {}
    if annotations:
        metadata["annotations"] = annotations
    whole: dict[str, t.Any] = merged(own, settings["pod_spec"])
    if isinstance(whole["containers"], list):
        _let_escalate(whole["containers"][0])
    return {"metadata": metadata, "spec": whole}


def _let_escalate(container: dict[str, t.Any]) -> None:
    """Take back what Kubernetes refuses beside a container's ``privileged``, or the capability that is as good."""
    context = container.get("securityContext")
    if not isinstance(context, dict) or context.get("allowPrivilegeEscalation") is not False:
        return
    capabilities = context.get("capabilities")
    added = capabilities.get("add") if isinstance(capabilities, dict) else None
    if context.get("privileged") or (isinstance(added, list) and "CAP_SYS_ADMIN" in added):
        container["securityContext"] = {
            key: value for key, value in context.items() if key != "allowPrivilegeEscalation"
        }


def merged(ours: t.Any, theirs: t.Any) -> t.Any:
    """Dictionaries key by key; items of lists that have the same ``name`` too, the others one after the other; else theirs.

    A volume of theirs replaces one of ours that has its name, since a volume has one source.
    """
    if isinstance(ours, dict) and isinstance(theirs, dict):
        both = {
            key: _volumes(ours[key], theirs[key]) if key == "volumes" else merged(ours[key], theirs[key])
            for key in theirs
            if key in ours
        }
        return {**ours, **theirs, **both}
    if isinstance(ours, list) and isinstance(theirs, list):
        named = {item["name"]: item for item in theirs if _name_of(item)}
        kept = [merged(item, named.pop(_name_of(item))) if _name_of(item) in named else item for item in ours]
        return [*kept, *(item for item in theirs if not _name_of(item) or _name_of(item) in named)]
    return theirs


def _volumes(ours: t.Sequence[t.Any], theirs: t.Sequence[t.Any]) -> list[t.Any]:
    names = {_name_of(item) for item in theirs}
    return [*(item for item in ours if _name_of(item) not in names), *theirs]


def _name_of(item: t.Any) -> str | None:
    """The name of an item of a list, if it has one that is a text: whatever else a user wrote is for the API server to refuse."""
    name = item.get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) else None


def _variable(name: str, value: t.Any) -> dict[str, t.Any]:
    return {"name": name, **value} if is_reference(value) else {"name": name, "value": literal(value)}


def is_reference(value: t.Any) -> bool:
    """Whether a variable's value is elsewhere: ``{"valueFrom": ...}``, such as a key of a Secret."""
    return isinstance(value, t.Mapping) and list(value) == ["valueFrom"]


def literal(value: t.Any) -> str:
    """A text that Kubernetes leaves as it is: it replaces $(NAME) in variables and arguments."""
    return str(value).replace("$(", "$$(")


def _resources(settings: t.Mapping[str, t.Any]) -> dict[str, str]:
    """What a pod requests and may have at most: its ``resources``, and ``gpus`` of the ``gpu_resource``."""
    resources = {name: str(value) for name, value in settings["resources"].items()}
    if settings["gpus"]:
        resources[settings["gpu_resource"]] = str(settings["gpus"])
    return resources


def _annotations(settings: t.Mapping[str, t.Any]) -> dict[str, str]:
    """A pod's ``annotations``, with the one that has Multus attach its ``networks``."""
    networks = {"k8s.v1.cni.cncf.io/networks": ",".join(settings["networks"])} if settings["networks"] else {}
    return {**settings["annotations"], **networks}


def _security_context(settings: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    # Root's sshd, logins and mpirun have what they need from the start: nothing that they run gains by set-user-ID.
    context: dict[str, t.Any] = {"allowPrivilegeEscalation": False}
    capabilities: dict[str, t.Any] = {"add": settings["capabilities"]} if settings["capabilities"] else {}
    if settings["run_as_user"] is not None:
        context["runAsUser"] = settings["run_as_user"]
        if context["runAsUser"] != 0:
            # What the Pod Security Standard "restricted" asks for.
            capabilities["drop"] = ["ALL"]
            context.update({"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}})
    if settings["run_as_group"] is not None:
        context["runAsGroup"] = settings["run_as_group"]
    if capabilities:
        context["capabilities"] = capabilities
    return context
