# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Worker pods: the objects that make them, the permissions that takes, and why a pod is not ready or gone.

Pods, events and StatefulSets are dicts as the Kubernetes API gives them (v1, apps/v1).
"""

from __future__ import annotations

import collections
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import diagnose, problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.reader import Source
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.objects import (
    CHANGES,
    OWNER_ANNOTATION,
    job_selector,
    labels,
    network_policy,
    object_name,
    ownership,
    selector,
    shield,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.pod_template import (
    check_pod_settings,
    make_container,
    make_template,
)

Object = t.Mapping[str, t.Any]

CONTAINER = "worker"
#: Whose objects these are, and the prefix of the variables.
ROLE = "worker_pods"
#: The phases of pods that have ended.
ENDED = ("Succeeded", "Failed")

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\Z")
_KEY = r"[A-Za-z0-9][A-Za-z0-9./_-]*"
_VALUE = r"[A-Za-z0-9._-]*"
# A blank one is none to Kubernetes, which has all pods of the namespace then.
_REQUIREMENT = rf"\s*(?:!\s*{_KEY}|{_KEY}(?:\s*(?:==?|!=|<|>)\s*{_VALUE}|\s+(?:not)?in\s*\([A-Za-z0-9._,\s-]*\))?)\s*"
_SELECTOR = re.compile(rf"{_REQUIREMENT}(?:,{_REQUIREMENT})*\Z")
_ORDINAL = re.compile(r"(\d+)")
_LONGEST_REASON = 200
_LONGEST_LOG = 8192
#: How long pods may take to start, by the prefix of the role's variables.
_TIMEOUTS = {"worker_pods_": "worker_pods_timeout", "mpijob_": "mpijob_start_timeout"}

#: What a user must be let do with pods of others, as (group, resource, verbs).
TO_ADOPT = (("", "pods", ("get", "list")), ("", "pods/exec", ("create",)))


def plan_pods(run_id: str, settings: Object, init: str) -> dict[str, t.Any]:
    """How a run gets its pods: ``adopt`` (bool), ``name``, ``container``, ``selector``, ``names``, ``objects`` and ``policy`` to make, ``needs``.

    ``settings``: the role's variables without their prefix. ``init``: the program of the pods' first process, in Python.
    ``needs``: permissions as (group, resource, verbs). Raises OptionError.
    """
    ways = {name: settings[name] for name in ("selector", "names", "mpijob") if settings[name]}
    if len(ways) > 1:
        given = ", ".join(f"worker_pods_{name}" for name in ways)
        raise OptionError(given, list(ways.values()), "one of them, or none to create pods")
    if settings["timeout"] < 1:
        raise OptionError("worker_pods_timeout", settings["timeout"], "1 or more seconds")
    if ways:
        pods = _selector_of(ways)
        return {
            "adopt": True,
            "name": None,
            "container": None,
            "selector": pods,
            "names": ways.get("names", []),
            "objects": [],
            "policy": None,
            "policy_required": False,
            "needs": TO_ADOPT,
        }
    _check_creation(settings)
    objects = [_service(run_id, settings), _stateful_set(run_id, settings, init)]
    shielded, policy_needs = shield(settings["network_policy"])
    needs = [
        *TO_ADOPT,
        ("", "pods", ("delete",)),
        ("", "services", CHANGES),
        ("apps", "statefulsets", CHANGES),
        *policy_needs,
    ]
    return {
        "adopt": False,
        "name": object_name(run_id),
        # What a cluster adds to pods, such as a service mesh its proxy, may come before it.
        "container": CONTAINER,
        "selector": selector(run_id, ROLE),
        "names": [],
        "objects": objects,
        "policy": network_policy(run_id, ROLE, _metadata(run_id, settings), settings["owner"]) if shielded else None,
        "policy_required": bool(policy_needs),
        "needs": needs,
    }


def _selector_of(ways: Object) -> str | None:
    if "mpijob" in ways:
        if not _NAME.match(ways["mpijob"]):
            raise OptionError("worker_pods_mpijob", ways["mpijob"], "the name of an MPIJob")
        return job_selector(ways["mpijob"], "worker")
    if "names" in ways:
        for name in ways["names"]:
            if not _NAME.match(str(name)):
                raise OptionError("worker_pods_names", name, "names of pods")
        counted: collections.Counter[str] = collections.Counter(ways["names"])
        twice = [name for name, number in counted.items() if number > 1]
        if twice:
            raise OptionError("worker_pods_names", twice[0], "each pod once")
    if "selector" in ways and not _SELECTOR.match(ways["selector"]):
        raise OptionError("worker_pods_selector", ways["selector"], "a label selector, such as app=nccl,tier!=test")
    return ways.get("selector")


def _check_creation(settings: Object) -> None:
    if not settings["image"].strip():
        raise OptionError(
            "worker_pods_image",
            settings["image"],
            "an image with Python 3, OpenSSH, Open MPI and nccl-tests;"
            " or worker_pods_selector, worker_pods_names or worker_pods_mpijob to adopt pods that exist",
        )
    check_pod_settings(ROLE, settings, {"replicas": 1, "gpus": 0})


def _metadata(run_id: str, settings: Object) -> dict[str, t.Any]:
    own = {**settings["labels"], **labels(run_id, ROLE)}
    return {"name": object_name(run_id), "namespace": settings["namespace"], "labels": own}


def _service(run_id: str, settings: Object) -> dict[str, t.Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        # Made first and removed last, it claims the run for its owner.
        "metadata": {**_metadata(run_id, settings), "annotations": {OWNER_ANNOTATION: settings["owner"]}},
        # Names are to resolve before all pods are ready: they are for people, the run itself uses addresses.
        "spec": {"clusterIP": "None", "selector": labels(run_id, ROLE), "publishNotReadyAddresses": True},
    }


def _stateful_set(run_id: str, settings: Object, init: str) -> dict[str, t.Any]:
    name = object_name(run_id)
    spec = {
        "serviceName": name,
        "replicas": settings["replicas"],
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels(run_id, ROLE)},
        "template": make_template(labels(run_id, ROLE), settings, _container(settings, init)),
    }
    # A NetworkPolicy that another play wants is not taken from a run that goes on either.
    made_with = [spec, shield(settings["network_policy"])[0]]
    metadata = {**_metadata(run_id, settings), "annotations": ownership(settings["owner"], made_with)}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}


def _container(settings: Object, init: str) -> dict[str, t.Any]:
    container = make_container(CONTAINER, settings, settings["env"])
    container["command"] = settings["command"] or [settings["python_interpreter"], "-c", init]
    return container


def missing_permissions(status: Object, needs: t.Iterable[tuple[str, str, t.Sequence[str]]]) -> list[str]:
    """What a user may not do, in words such as ``create statefulsets.apps``.

    ``status``: of a SelfSubjectRulesReview (authorization.k8s.io/v1). Where the cluster cannot list all rules nothing is said.
    """
    if status.get("incomplete"):
        return []
    # A rule for named objects does not let one list or create.
    rules = [rule for rule in status.get("resourceRules", ()) if not rule.get("resourceNames")]
    missing = []
    for group, resource, verbs in needs:
        refused = [verb for verb in verbs if not any(_allows(rule, group, resource, verb) for rule in rules)]
        if refused:
            missing.append(f"{', '.join(refused)} {resource}{f'.{group}' if group else ''}")
    return missing


def _allows(rule: Object, group: str, resource: str, verb: str) -> bool:
    def has(name: str, *values: str) -> bool:
        return any(value in (rule.get(name) or ()) for value in ("*", *values))

    subresource = f"*/{resource.split('/', 1)[1]}" if "/" in resource else resource
    return has("apiGroups", group) and has("resources", resource, subresource) and has("verbs", verb)


def in_rank_order(pods: t.Iterable[Object]) -> list[Object]:
    """Pods by name, numbers in it by their value: ``worker-2`` before ``worker-10``."""

    def key(pod: Object) -> list[tuple[int, int, str]]:
        parts = _ORDINAL.split(pod["metadata"]["name"])
        return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts]

    return sorted(pods, key=key)


def is_over(pod: Object) -> bool:
    """Whether the pod has ended, or is about to go."""
    return bool(pod["status"].get("phase") in ENDED or pod["metadata"].get("deletionTimestamp"))


def is_ready(pod: Object) -> bool:
    """Whether Kubernetes says so, and the pod is not over: a node that was lost may have left both."""
    conditions = {item["type"]: item["status"] for item in pod["status"].get("conditions") or ()}
    return conditions.get("Ready") == "True" and not is_over(pod)


def is_current(pod: Object, stateful_set: Object | None) -> bool:
    """Whether the pod is as its StatefulSet now wants it, and not to be replaced by one that is."""
    if stateful_set is None:
        return True
    status = stateful_set.get("status") or {}
    observed = status.get("observedGeneration", 0) >= stateful_set["metadata"].get("generation", 0)
    revision = (pod["metadata"].get("labels") or {}).get("controller-revision-hash")
    return observed and revision == status.get("updateRevision")


def joined_pod(pod: Object, container: str | None) -> dict[str, t.Any]:
    """What a run remembers of a pod: ``name``, ``uid``, ``address``, ``node``, ``container``, ``restarts``."""
    name = container or pod["spec"]["containers"][0]["name"]
    return {
        "name": pod["metadata"]["name"],
        "uid": pod["metadata"]["uid"],
        "address": pod["status"].get("podIP"),
        "node": pod["spec"].get("nodeName"),
        "container": name,
        "restarts": _restarts(pod, name),
    }


def _restarts(pod: Object, container: str) -> int:
    return sum(
        status["restartCount"] for status in pod["status"].get("containerStatuses") or () if status["name"] == container
    )


def crashed_containers(pods: t.Iterable[Object]) -> list[dict[str, t.Any]]:
    """The containers that pod_problems tells of by their last log lines, one of a pod.

    Each is ``pod``, ``container`` and whether the lines are those of the ``previous`` start.
    """
    found = []
    for pod in pods:
        status = next(filter(_end_of, _waited_for(pod)), None)
        if status is not None:
            previous = not (status.get("state") or {}).get("terminated")
            found.append({"pod": pod["metadata"]["name"], "container": status["name"], "previous": previous})
    return found


def _end_of(status: Object) -> Object | None:
    """How a container ended, the last time that it did."""
    for state in ("state", "lastState"):
        ended: Object | None = (status.get(state) or {}).get("terminated")
        if ended:
            return ended
    return None


def _waited_for(pod: Object) -> list[Object]:
    """The statuses of the containers that keep a pod from being ready: not those that are, however often they were started."""
    return [item for item in _container_statuses(pod) if not (item.get("ready") or _ended_well(pod, item))]


def _container_statuses(pod: Object) -> list[Object]:
    status = pod["status"]
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _ended_well(pod: Object, status: Object) -> bool:
    """Whether it is an init container that has done its work."""
    ended = (status.get("state") or {}).get("terminated") or {}
    return ended.get("exitCode") == 0 and any(
        item["name"] == status["name"] for item in pod["status"].get("initContainerStatuses") or ()
    )


def pod_problems(
    pods: t.Sequence[Object],
    events: t.Sequence[Object],
    logs: t.Mapping[str, str],
    missing: t.Sequence[str] = (),
    prefix: str = "worker_pods_",
) -> list[Problem]:
    """Why pods are not ready, in Kubernetes' own words.

    ``pods``: all that are wanted and there. ``events``: of their namespace. ``logs``: the last log lines by pod.
    ``missing``: names of objects, such as the StatefulSet, whose pods are not all there. ``prefix``: of the role's variables.
    """
    by_name = collections.defaultdict(list)
    for event in events:
        by_name[event["involvedObject"].get("name")].append(event)
    problems = [_not_created(name, by_name[name], prefix) for name in missing]
    for pod in pods:
        if not is_ready(pod):
            name = pod["metadata"]["name"]
            problems.append(_not_ready(pod, by_name[name], logs.get(name, ""), prefix))
    return problems


def _warnings(events: t.Iterable[Object], uid: str | None = None) -> list[str]:
    """The messages of the warnings among the events of an object's name, the latest last, each once."""
    found = [
        event
        for event in events
        if event.get("type") == "Warning" and (uid is None or event["involvedObject"].get("uid") in (None, "", uid))
    ]
    found.sort(key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "")
    return list(dict.fromkeys(f"{event.get('reason')}: {(event.get('message') or '').strip()}" for event in found))


def _told(warnings: t.Sequence[str], host: str, ids: t.Collection[str], otherwise: str, **facts: t.Any) -> Problem:
    """The one of some causes that the latest of Kubernetes' warnings which names any tells, else another."""
    for said in reversed(warnings):
        # A webhook may say it in several lines.
        for item in diagnose([Source("kubernetes", [" ".join(said.split())], host)], None):
            if item.id in ids:
                # Once more, with the facts.
                return problem(item.id, host, said, **{**facts, "reason": _reason(said)})
    said = warnings[-1] if warnings else ""
    return problem(otherwise, host, said, **facts, **({"reason": _reason(said)} if said else {}))


def _reason(said: str) -> str:
    """Kubernetes' words without those on what it was about to do."""
    return _short(said.rpartition(" failed error: ")[2])


def _short(said: str) -> str:
    """Kubernetes' words for a sentence: the rest is evidence."""
    line = " ".join(said.split()).rstrip(".")
    return line if len(line) <= _LONGEST_REASON else f"{line[: _LONGEST_REASON - 1]}…"


def _not_created(name: str, events: t.Sequence[Object], prefix: str) -> Problem:
    known = ("pod-quota", "pod-scc", "pod-refused", "kube-webhook")
    return _told(_warnings(events), name, known, "pod-not-created", prefix=prefix)


#: What a container waits for: the problem's id. What is not here is told in Kubernetes' words.
_WAITING = {
    "ErrImagePull": "pod-image",
    "ImagePullBackOff": "pod-image",
    "RegistryUnavailable": "pod-image",
    "ErrImageNeverPull": "pod-image-absent",
    "InvalidImageName": "pod-image-name",
    "CreateContainerConfigError": "pod-config",
    "CreateContainerError": "pod-start",
    "RunContainerError": "pod-start",
}


def _not_ready(pod: Object, events: t.Sequence[Object], log: str, prefix: str) -> Problem:
    name, status = pod["metadata"]["name"], pod["status"]
    warnings = _warnings(events, pod["metadata"].get("uid"))
    last = warnings[-1] if warnings else ""
    if pod["metadata"].get("deletionTimestamp"):
        return problem("pod-deleted", name)
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
            if gates:
                # The scheduler waits for whoever has put them there, such as a queue for jobs.
                reason = f"it is held back by its scheduling gates: {', '.join(gates)}"
                return problem("pod-starting", name, reason=reason, timeout=_TIMEOUTS.get(prefix))
            said = condition.get("message") or condition.get("reason") or ""
            settings = _scheduling_settings(said, prefix)
            return problem("pod-unschedulable", name, said, reason=_short(said), settings=settings)
    if status.get("phase") == "Failed" and status.get("reason"):
        # Its containers have ended because of it.
        return _ended(pod, prefix)
    statuses = _waited_for(pod)
    for item in statuses:
        ended = _end_of(item)
        if ended:
            return _container_ended(name, item, ended, log, last, prefix)
    for item in statuses:
        waiting = (item.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _WAITING:
            said = waiting.get("message") or ""
            pulling = [text for text in warnings if text.startswith("Failed: Failed to pull image")]
            if pulling and waiting["reason"] == "ImagePullBackOff":
                said = pulling[-1]
            facts: dict[str, str | None] = {"reason": _short(said)} if said else {}
            return problem(_WAITING[waiting["reason"]], name, f"{waiting['reason']}: {said}", prefix=prefix, **facts)
    if status.get("phase") in ENDED:
        return _ended(pod, prefix)
    if status.get("phase") == "Running":
        return problem("pod-not-ready", name, last, **({"reason": _short(last)} if last else {}))
    facts = {"prefix": prefix, "timeout": _TIMEOUTS.get(prefix)}
    waited_for = _running_init_container(pod)
    if waited_for is not None:
        since = waited_for["state"]["running"].get("startedAt")
        reason = f"its init container {waited_for['name']} still runs" + (f", since {since}" if since else "")
        return problem("pod-starting", name, last, reason=reason, container=waited_for["name"], **facts)
    # Of a volume that is missing kubelet says after two minutes only that it has waited for it.
    return _told(warnings, name, ("pod-volume", "pod-network"), "pod-starting", **facts)


def _running_init_container(pod: Object) -> Object | None:
    """The init container that the others wait for. Those that are always restarted run beside the others."""
    beside = {item["name"] for item in pod["spec"].get("initContainers") or () if item.get("restartPolicy") == "Always"}
    statuses = pod["status"].get("initContainerStatuses") or ()
    return next(
        (item for item in statuses if "running" in (item.get("state") or {}) and item["name"] not in beside), None
    )


def _container_ended(name: str, status: Object, ended: Object, log: str, warning: str, prefix: str) -> Problem:
    container = status["name"]
    said = ended.get("message") or ""
    if ended.get("reason") in ("StartError", "ContainerCannotRun"):
        return problem("pod-start", name, said, prefix=prefix, **({"reason": _short(said)} if said else {}))
    # A line of a log may have 16 KiB.
    evidence = log.strip()[-_LONGEST_LOG:] or said or warning
    if ended.get("reason") == "OOMKilled":
        return problem("oom-killed", name, evidence or "OOMKilled", program=f"the container {container}")
    # Of one that has not started anew there is no previous log.
    log_of = f"POD --container {container}{'' if (status.get('state') or {}).get('terminated') else ' --previous'}"
    return problem("pod-crash", name, evidence, container=container, reason=_exit_of(ended), log=log_of)


def _exit_of(ended: Object) -> str:
    """How a container ended."""
    reason = ended.get("reason")
    return f"exit status {ended.get('exitCode')}" + (f" ({reason})" if reason not in (None, "Error") else "")


def _is_evicted(status: Object) -> bool:
    return status.get("phase") == "Failed" and status.get("reason") in ("Evicted", "Preempting", "NodeLost")


def _ended(pod: Object, prefix: str) -> Problem:
    """What became of a pod that has ended."""
    status = pod["status"]
    said = ": ".join(filter(None, (status.get("reason"), status.get("message")))) or status.get("phase") or ""
    identity = "pod-evicted" if _is_evicted(status) else "pod-failed"
    return problem(identity, pod["metadata"]["name"], said, prefix=prefix, reason=_short(said))


def _scheduling_settings(said: str, prefix: str) -> str:
    """The variables that what the scheduler says is about."""
    names = []
    short = re.findall(r"Insufficient ([\w./-]*\w)", said)
    if short:
        names.append("resources")
    if any("/" in item for item in short):
        names.append("gpus")
    if "node selector" in said or "affinity" in said or "node(s) didn't match" in said:
        names += ["node_selector", "affinity"]
    cordoned = "{node.kubernetes.io/unschedulable: }"
    if "taint" in said.replace(f"taint {cordoned}", ""):
        names.append("tolerations")
    found = [f"{prefix}{name}" for name in names]
    if "unschedulable" in said:
        found.append("kubectl uncordon NODE for one that is cordoned")
    return ", ".join(found or [f"{prefix}pod_spec"])


def lost_pods(joined: t.Iterable[Object], pods: t.Iterable[Object], events: t.Sequence[Object] = ()) -> list[Problem]:
    """What became of the pods of a run that are not any more as they were when they joined it.

    ``joined``: as joined_pod gave them. ``events``: of their namespace.
    """
    current = {pod["metadata"]["name"]: pod for pod in pods}
    found = (_loss(entry, current.get(entry["name"]), events) for entry in joined)
    return [item for item in found if item is not None]


def _loss(entry: Object, pod: Object | None, events: t.Sequence[Object]) -> Problem | None:
    name, node = entry["name"], f"node {entry['node']}"
    heir = pod["metadata"]["uid"] if pod is not None and pod["metadata"]["uid"] != entry["uid"] else None
    if pod is None or heir is not None or pod["metadata"].get("deletionTimestamp"):
        own = (event for event in events if event["involvedObject"].get("uid") == entry["uid"])
        # What is evicted is replaced by its StatefulSet at once.
        said = next((event.get("message") or "" for event in own if event.get("reason") == "Evicted"), None)
        if said is not None:
            return problem("pod-evicted", name, f"{said}\n{node}", reason=_short(said), prefix="worker_pods_")
        return problem("pod-lost", name, node, uid=heir)
    if _is_evicted(pod["status"]):
        return _ended(pod, "worker_pods_")
    for status in pod["status"].get("containerStatuses") or ():
        state = status.get("state") or {}
        anew = status["restartCount"] != entry["restarts"]
        # It may have ended and not be started anew yet, the later the more often it was.
        if status["name"] != entry["container"] or not (anew or "terminated" in state or "waiting" in state):
            continue
        ended = _end_of(status) or {}
        if ended.get("reason") == "OOMKilled":
            return problem("oom-killed", name, f"OOMKilled, {node}", program=f"the container {status['name']}")
        if anew or pod["status"].get("phase") == "Running":
            return problem("pod-restarted", name, node, reason=_exit_of(ended) if ended else None)
    return _ended(pod, "worker_pods_") if pod["status"].get("phase") in ENDED else None
