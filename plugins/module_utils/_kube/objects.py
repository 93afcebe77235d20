# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What all objects of a run in a cluster have in common: names, labels, and whose they are."""

from __future__ import annotations

import calendar
import hashlib
import json
import re
import secrets
import shlex
import time
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import ago

MANAGED_BY = "gpufabric.nccl"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
#: By which label the objects of a run are found, by the role that makes them: runs of both may have one name and go on at the same time.
RUN_LABELS = {"worker_pods": "gpufabric.nccl/run", "mpijob": "gpufabric.nccl/mpijob"}
POLICY = ("networking.k8s.io/v1", "NetworkPolicy")
#: The kinds of a role's objects, as (apiVersion, kind), in the order of removal: what makes pods is the first, what claims the run the last.
RUN_KINDS = {
    "worker_pods": (("apps/v1", "StatefulSet"), POLICY, ("v1", "Service")),
    "mpijob": (("kubeflow.org/v2beta1", "MPIJob"), POLICY, ("v1", "ConfigMap")),
}
#: Labels that nobody else may set.
OWN_LABELS = frozenset((MANAGED_BY_LABEL, *RUN_LABELS.values()))
#: Who made an object, and a digest of the settings that it was made with.
OWNER_ANNOTATION = "gpufabric.nccl/owner"
SETTINGS_ANNOTATION = "gpufabric.nccl/settings"
#: Which attempt of an owner to start the run made the object that claims it.
START_ANNOTATION = "gpufabric.nccl/start"
#: The controller and the play that wait for the end of a run.
PLAY_ANNOTATION = "gpufabric.nccl/play"
_OWN_ANNOTATIONS = frozenset((OWNER_ANNOTATION, SETTINGS_ANNOTATION, START_ANNOTATION, PLAY_ANNOTATION))
_TELLING = ("name", "namespace", "uid", "labels", "creationTimestamp", "deletionTimestamp")
# What the pods of a Kubeflow MPIJob carry (mpi-operator v2beta1, pkg/controller/mpi_job_controller.go).
JOB_LABEL = "training.kubeflow.org/job-name"
ROLE_LABEL = "training.kubeflow.org/job-role"

#: What a user must be let do with the objects that a play makes.
CHANGES = ("get", "list", "create", "patch", "delete")
#: For the NetworkPolicy of a run, as (group, resource, verbs).
TO_SHIELD = ("networking.k8s.io", "networkpolicies", CHANGES)

_PREFIX = "gpufabric-"
#: In place of the id of an object that is to be new.
_NEW = "new"
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


def labels(run_id: str, role: str) -> dict[str, str]:
    """The labels of everything that a run of a role makes in a cluster. Raises OptionError where the run's name is no label."""
    if not _LABEL_VALUE.match(run_id):
        raise OptionError("gpufabric_run_id", run_id, _LABEL_VALUE_TEXT)
    return {MANAGED_BY_LABEL: MANAGED_BY, RUN_LABELS[role]: run_id}


def selector(run_id: str, role: str) -> str:
    """The label selector that finds the objects of a role's run and no others. Raises OptionError."""
    return ",".join(f"{name}={value}" for name, value in labels(run_id, role).items())


def removal_command(run_id: str, role: str, cluster: t.Mapping[str, str | None]) -> str:
    """The command by which a person removes a role's run. ``cluster``: ``kubeconfig``, ``context`` and ``namespace``. Raises OptionError."""
    kinds = ",".join(kind.lower() for _version, kind in RUN_KINDS[role])
    return delete_command(cluster, kinds, "--selector", selector(run_id, role))


def delete_command(cluster: t.Mapping[str, str | None], *words: str) -> str:
    """``kubectl delete`` of something in the namespace of a play, for a person to type. ``cluster``: as ``removal_command``'s."""
    options = [f"--{name} {shlex.quote(value)}" for name, value in cluster.items() if value]
    return " ".join(["kubectl", *options, "delete", *words])


def ownership(owner: str, settings: t.Any) -> dict[str, str]:
    """The annotations that say whose an object is. ``settings``: all that it is made with, as data."""
    # A key may be what YAML makes of on, true or 1, which cannot be sorted among texts.
    text = json.dumps(json.loads(json.dumps(settings, default=str)), sort_keys=True)
    return {OWNER_ANNOTATION: owner, SETTINGS_ANNOTATION: hashlib.sha256(text.encode()).hexdigest()[:16]}


def network_policy(run_id: str, role: str, metadata: t.Mapping[str, t.Any], owner: str) -> dict[str, t.Any]:
    """The NetworkPolicy by which only the run's own pods can connect to each other, on any port, as MPI and NCCL do.

    ``metadata``: ``name``, ``namespace`` and ``labels``. Says nothing about what the pods connect to, such as the DNS.
    """
    own = {"matchLabels": labels(run_id, role)}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {**metadata, **({"annotations": {OWNER_ANNOTATION: owner}} if owner else {})},
        "spec": {"podSelector": own, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": own}]}]},
    }


def shield(wanted: str) -> tuple[bool, list[tuple[str, str, t.Sequence[str]]]]:
    """Whether a run has a NetworkPolicy, and what must be permitted for it. ``wanted``: ``auto``, ``true`` or ``false``, in any case."""
    value = str(wanted).lower()
    return value != "false", [TO_SHIELD] if value == "true" else []


def mark_start(claim: dict[str, t.Any]) -> None:
    """Note in the object that claims a run that this attempt makes it: two plays of one owner are not to take each other's for their own."""
    claim["metadata"]["annotations"][START_ANNOTATION] = secrets.token_hex(8)


def mark_play(claim: dict[str, t.Any], controller: str, play: str) -> None:
    """Note in the object that claims a run which play waits for its end. ``controller``: empty if plays cannot be told apart there."""
    if controller:
        claim["metadata"]["annotations"][PLAY_ANNOTATION] = f"{controller} {play}"


def run_in_use(
    run_id: str, found: t.Iterable[t.Mapping[str, t.Any]], controller: str, play: str, live: t.Container[str]
) -> list[Problem]:
    """Why a play must leave its owner's run alone: another one on this controller waits for its end. Empty if none does.

    ``found``: objects of the run. ``live``: the plays that are running.
    """
    for item in found:
        where, _blank, theirs = (_annotation(item, PLAY_ANNOTATION) or "").partition(" ")
        if where == controller and theirs != play and theirs in live:
            state = f"belongs to another play of {_annotation(item, OWNER_ANNOTATION)}, which is not over"
            return [problem("run-in-use", None, _created(item), run_id=run_id, state=state, **_aged(item, None))]
    return []


def with_start_of(
    found: t.Iterable[t.Mapping[str, t.Any]], wanted: t.Iterable[t.Mapping[str, t.Any]]
) -> list[t.Mapping[str, t.Any]]:
    """The objects that are wanted, by the attempt that has made those of their kinds and names which were found."""
    starts = {_identity(item): _annotation(item, START_ANNOTATION) for item in found}
    return [
        _annotated(item, {START_ANNOTATION: starts[_identity(item)]}) if starts.get(_identity(item)) else item
        for item in wanted
    ]


def _annotated(item: t.Mapping[str, t.Any], more: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    metadata = item["metadata"]
    return {**item, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **more}}}


def has_settings(found: t.Mapping[str, t.Any], wanted: t.Mapping[str, t.Any]) -> bool:
    """Whether an object of the cluster was made with the settings of the one that is wanted."""
    return _annotation(found, SETTINGS_ANNOTATION) == _annotation(wanted, SETTINGS_ANNOTATION)


def has_start(found: t.Mapping[str, t.Any], wanted: t.Mapping[str, t.Any]) -> bool:
    """Whether an object of the cluster was made by the attempt that wants one, if that matters to it."""
    start = _annotation(wanted, START_ANNOTATION)
    return start is None or _annotation(found, START_ANNOTATION) == start


def run_taken(
    run_id: str,
    owner: str,
    found: t.Iterable[t.Mapping[str, t.Any]],
    wanted: t.Iterable[t.Mapping[str, t.Any]] = (),
    now: float | None = None,
) -> list[Problem]:
    """Why a play must leave a run's objects alone: they are another owner's, or are in use with other settings; empty if it need not.

    ``found``: objects of the run. ``wanted``: those that the play makes, one of a kind; of a kind that is not among them it only wants to
    remove what there is, for which settings do not count. ``now``: seconds since the epoch.
    """
    by_kind = {item["kind"]: item for item in wanted}
    problems = []
    for item in found:
        theirs, ours = _annotation(item, OWNER_ANNOTATION), by_kind.get(item["kind"])
        if theirs not in (None, owner):
            state = f"belongs to {theirs}"
        elif theirs is None and item["kind"] == "MPIJob" and not is_finished(item):
            # Anybody may have applied a manifest that was rendered.
            state = "has a live MPIJob without an owner, such as one from a manifest"
        elif ours is None:
            continue
        elif not is_finished(item) and not has_settings(item, ours):
            state = "has objects in the cluster that were made with other settings"
        elif not has_start(item, ours):
            state = "is being started by another play"
        else:
            continue
        problems.append(problem("run-taken", None, _created(item), run_id=run_id, state=state, **_aged(item, now)))
    return problems


def namespaces_of(found: t.Iterable[t.Mapping[str, t.Any]], owner: str) -> list[str]:
    """The namespaces in which objects are an owner's, sorted. ``found``: objects of any namespace."""
    own = (item["metadata"] for item in found if _annotation(item, OWNER_ANNOTATION) == owner)
    return sorted({metadata["namespace"] for metadata in own})


def pods_of(name: str, pods: t.Iterable[t.Mapping[str, t.Any]]) -> list[t.Mapping[str, t.Any]]:
    """The pods of a StatefulSet: those that it controls, and those of its names that nothing controls any more.

    Not those of other names, or of something else, which somebody has given its labels.
    """
    return _controlled_by({("StatefulSet", name)}, rf"{re.escape(name)}-\d+", pods)


def pods_of_job(job: str, pods: t.Iterable[t.Mapping[str, t.Any]]) -> list[t.Mapping[str, t.Any]]:
    """The pods of an MPIJob, as pods_of has those of a StatefulSet. A Job of the operator's makes the launcher's."""
    controllers = {("MPIJob", job), ("Job", f"{job}-launcher")}
    return _controlled_by(controllers, rf"{re.escape(job)}-(?:worker-\d+|launcher(?:-\w+)?)", pods)


def _controlled_by(
    controllers: t.Container[tuple[str, str]], names: str, pods: t.Iterable[t.Mapping[str, t.Any]]
) -> list[t.Mapping[str, t.Any]]:
    """The pods that one of the controllers has, and those that none has and whose name is one of the ``names``, a pattern."""
    found = []
    for pod in pods:
        references = pod["metadata"].get("ownerReferences") or ()
        theirs = next(((item["kind"], item["name"]) for item in references if item.get("controller")), None)
        if theirs in controllers or (theirs is None and re.fullmatch(names, pod["metadata"]["name"])):
            found.append(pod)
    return found


def outline(item: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What is needed of an object to judge it, and no values of variables: what it is, whose, and its conditions."""
    metadata = item["metadata"]
    kept = {name: metadata[name] for name in _TELLING if metadata.get(name)}
    annotations = {
        name: value for name, value in (metadata.get("annotations") or {}).items() if name in _OWN_ANNOTATIONS
    }
    conditions = (item.get("status") or {}).get("conditions") or []
    return {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "metadata": {**kept, "annotations": annotations},
        "status": {"conditions": conditions},
    }


def claimed(
    objects: t.Iterable[t.Mapping[str, t.Any]], found: t.Iterable[t.Mapping[str, t.Any]] = ()
) -> list[dict[str, t.Any]]:
    """Objects as the API server takes them only if each is new, or still the one of its kind and name that was ``found``.

    It ignores the uid of an object that it creates, and lets nobody change the uid of one that exists.
    """
    uids = {_identity(item): item["metadata"]["uid"] for item in found}
    return [{**item, "metadata": {**item["metadata"], "uid": uids.get(_identity(item), _NEW)}} for item in objects]


def objects_taken(
    run_id: str,
    owner: str,
    found: t.Iterable[t.Mapping[str, t.Any]],
    wanted: t.Iterable[t.Mapping[str, t.Any]],
    *,
    take_over: bool = False,
    setting: str | None = None,
    now: float | None = None,
) -> list[Problem]:
    """Why a play must not change objects that have the names of those it makes; empty if they are its run's.

    ``found``, ``wanted``: objects of several kinds; each that was found has the kind and name of one that is wanted. ``take_over``: from
    other owners, but from nobody who is no run. ``setting``: a variable that gave names. ``now``: seconds since the epoch.
    """
    by_identity = {_identity(item): item for item in wanted}
    problems: list[Problem] = []
    for item in found:
        name = f"{item.get('kind')} {item['metadata']['name']}"
        ours = by_identity[_identity(item)]
        if _marks(item) != _marks(ours):
            facts = {"object": name, "run_id": run_id, **({"setting": setting} if setting else {})}
            problems.append(problem("kube-name-taken", None, _created(item), **facts))
        elif not take_over and not any(told.id == "run-taken" for told in problems):
            # Whose the first one is says it.
            problems += run_taken(run_id, owner, [item], [ours], now)
    return problems


def _marks(item: t.Mapping[str, t.Any]) -> dict[str, str]:
    """The labels that say of which run an object is."""
    return {name: value for name, value in (item["metadata"].get("labels") or {}).items() if name in OWN_LABELS}


def _identity(item: t.Mapping[str, t.Any]) -> tuple[str, str]:
    return item["kind"], item["metadata"]["name"]


def condition_of(job: t.Mapping[str, t.Any] | None, kind: str) -> t.Mapping[str, t.Any] | None:
    """A condition of an MPIJob that holds, such as ``Running``, ``Succeeded``, ``Failed``."""
    conditions = ((job or {}).get("status") or {}).get("conditions") or ()
    return next((item for item in conditions if item["type"] == kind and item["status"] == "True"), None)


def is_finished(job: t.Mapping[str, t.Any] | None) -> bool:
    """Whether an MPIJob has come to an end."""
    return bool(condition_of(job, "Succeeded") or condition_of(job, "Failed"))


def _annotation(item: t.Mapping[str, t.Any], name: str) -> str | None:
    return (item["metadata"].get("annotations") or {}).get(name)


def _created(item: t.Mapping[str, t.Any]) -> str:
    return f"{item.get('kind')} {item['metadata']['name']}, created {item['metadata'].get('creationTimestamp')}"


def _aged(item: t.Mapping[str, t.Any], now: float | None) -> dict[str, str]:
    """How long ago an object was made, in words, as a fact of a problem."""
    try:
        made = calendar.timegm(time.strptime(item["metadata"]["creationTimestamp"], "%Y-%m-%dT%H:%M:%SZ"))
    except (KeyError, TypeError, ValueError):
        return {}
    return {"age": ago((time.time() if now is None else now) - made)}


def job_selector(job: str, role: str) -> str:
    """The label selector of the pods of an MPIJob with a role, ``launcher`` or ``worker``."""
    return f"{JOB_LABEL}={job},{ROLE_LABEL}={role}"
