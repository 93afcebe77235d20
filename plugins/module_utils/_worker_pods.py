# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Worker pods: the objects that make them, the permissions that takes, and why a pod is not ready or gone.

Pods, events and StatefulSets are dicts as the Kubernetes API gives them (v1, apps/v1).
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube import (
    check_pod_settings,
    job_selector,
    labels,
    object_name,
    pod_annotations,
    pod_resources,
    security_context,
    selector,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._problem import Problem

Object = t.Mapping[str, t.Any]

CONTAINER = "worker"

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\Z")
_CAPABILITY = re.compile(r"[A-Z][A-Z_]+\Z")
_ORDINAL = re.compile(r"(\d+)")

#: What the ways in need, as (group, resource, verbs).
_TO_ADOPT = (("", "pods", ("get", "list")), ("", "pods/exec", ("create",)))
_CHANGES = ("get", "list", "create", "patch", "delete")


def plan_pods(run_id: str, settings: Object, init: str) -> dict[str, t.Any]:
    """How a run gets its pods: ``adopt`` (bool), ``name``, ``selector``, ``names``, ``objects`` to make, ``needs``.

    ``settings``: the role's variables without their prefix. ``init``: the program of the pods' first process, in Python.
    ``needs``: permissions as (group, resource, verbs). Raises OptionError.
    """
    ways = {name: settings[name] for name in ("selector", "names", "mpijob") if settings[name]}
    if len(ways) > 1:
        given = ", ".join(f"worker_pods_{name}" for name in ways)
        raise OptionError(given, list(ways.values()), "one of them, or none to create pods")
    if int(settings["timeout"]) < 1:
        raise OptionError("worker_pods_timeout", settings["timeout"], "1 or more seconds")
    if ways:
        pods = _selector_of(ways)
        return {
            "adopt": True,
            "name": None,
            "selector": pods,
            "names": ways.get("names", []),
            "objects": [],
            "needs": _TO_ADOPT,
        }
    _check_creation(settings)
    objects = [_service(run_id, settings), _stateful_set(run_id, settings, init)]
    needs = [
        *_TO_ADOPT,
        ("", "pods", ("delete",)),
        ("", "services", _CHANGES),
        ("apps", "statefulsets", _CHANGES),
    ]
    if settings["network_policy"]:
        # First: there is to be no moment without it.
        objects.insert(0, _network_policy(run_id, settings))
        needs.append(("networking.k8s.io", "networkpolicies", _CHANGES))
    return {
        "adopt": False,
        "name": object_name(run_id),
        "selector": selector(run_id),
        "names": [],
        "objects": objects,
        "needs": needs,
    }


def _selector_of(ways: Object) -> str | None:
    if "mpijob" in ways:
        return job_selector(ways["mpijob"], "worker")
    if "names" in ways:
        for name in ways["names"]:
            if not _NAME.match(str(name)):
                raise OptionError("worker_pods_names", name, "names of pods")
    return ways.get("selector")


def _check_creation(settings: Object) -> None:
    if not settings["image"]:
        raise OptionError(
            "worker_pods_image",
            settings["image"],
            "an image with Python 3, OpenSSH, Open MPI and nccl-tests;"
            " or worker_pods_selector, worker_pods_names or worker_pods_mpijob to adopt pods that exist",
        )
    check_pod_settings("worker_pods", settings, {"replicas": 1, "gpus": 0})
    for name in settings["capabilities"]:
        if not _CAPABILITY.match(str(name)):
            raise OptionError("worker_pods_capabilities", name, "names such as IPC_LOCK, SYS_CHROOT, NET_RAW")
    for name in ("run_as_user", "run_as_group"):
        if settings[name] is not None and int(settings[name]) < 0:
            raise OptionError(f"worker_pods_{name}", settings[name], "0 or more")
    own = set(labels("any"))
    for name in settings["labels"]:
        if name in own:
            raise OptionError("worker_pods_labels", name, f"labels other than {', '.join(sorted(own))}")


def _metadata(run_id: str, settings: Object) -> dict[str, t.Any]:
    own = {**settings["labels"], **labels(run_id)}
    return {"name": object_name(run_id), "namespace": settings["namespace"], "labels": own}


def _service(run_id: str, settings: Object) -> dict[str, t.Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(run_id, settings),
        # Names are to resolve before all pods are ready: they are for people, the run itself uses addresses.
        "spec": {"clusterIP": "None", "selector": labels(run_id), "publishNotReadyAddresses": True},
    }


def _network_policy(run_id: str, settings: Object) -> dict[str, t.Any]:
    peers = [{"podSelector": {"matchLabels": labels(run_id)}}]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(run_id, settings),
        "spec": {
            "podSelector": {"matchLabels": labels(run_id)},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": peers}],
        },
    }


def _stateful_set(run_id: str, settings: Object, init: str) -> dict[str, t.Any]:
    name = object_name(run_id)
    metadata = _metadata(run_id, settings)
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata,
        "spec": {
            "serviceName": name,
            "replicas": int(settings["replicas"]),
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels(run_id)},
            "template": {
                "metadata": {"labels": metadata["labels"], "annotations": pod_annotations(settings)},
                "spec": {**_pod_spec(settings, init), **settings["pod_spec"]},
            },
        },
    }


def _pod_spec(settings: Object, init: str) -> dict[str, t.Any]:
    container = {
        "name": CONTAINER,
        "image": settings["image"],
        "imagePullPolicy": settings["image_pull_policy"],
        "command": settings["command"] or [settings["python_interpreter"], "-c", init],
        "env": [{"name": name, "value": str(value)} for name, value in settings["env"].items()],
        "resources": pod_resources(settings),
        "securityContext": security_context(settings),
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    spec: dict[str, t.Any] = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 5,
        "containers": [container],
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": settings["shm_size"]}}],
        "nodeSelector": settings["node_selector"],
        "tolerations": settings["tolerations"],
        "affinity": settings["affinity"],
        "imagePullSecrets": [{"name": name} for name in settings["image_pull_secrets"]],
    }
    if settings["host_network"]:
        # Cluster names resolve there only so.
        spec.update({"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"})
    return spec


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


def is_ready(pod: Object) -> bool:
    """Whether Kubernetes says so, and the pod is not about to go."""
    conditions = {item["type"]: item["status"] for item in pod["status"].get("conditions") or ()}
    return conditions.get("Ready") == "True" and not pod["metadata"].get("deletionTimestamp")


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
    """Containers whose last log lines tell something: ``pod``, ``container`` and whether of the ``previous`` start."""
    found = []
    for pod in pods:
        for status in _container_statuses(pod):
            if "terminated" in (status.get("state") or {}):
                found.append({"pod": pod["metadata"]["name"], "container": status["name"], "previous": False})
            elif "terminated" in (status.get("lastState") or {}):
                found.append({"pod": pod["metadata"]["name"], "container": status["name"], "previous": True})
    return found


def _container_statuses(pod: Object) -> list[Object]:
    status = pod["status"]
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def pod_problems(
    pods: t.Sequence[Object], events: t.Sequence[Object], logs: t.Mapping[str, str], missing: t.Sequence[str] = ()
) -> list[Problem]:
    """Why pods are not ready, in Kubernetes' own words.

    ``pods``: all that are wanted and there. ``events``: of their namespace. ``logs``: the last log lines by pod.
    ``missing``: names of objects, such as the StatefulSet, whose pods are not all there.
    """
    problems = [_not_created(name, events) for name in missing]
    for pod in pods:
        if not is_ready(pod):
            problems.append(_not_ready(pod, events, logs.get(pod["metadata"]["name"], "")))
    return problems


def _warnings(events: t.Iterable[Object], name: str, uid: str | None = None) -> list[str]:
    """The messages of an object's warnings, the latest last, each once."""
    found = [
        event
        for event in events
        if event.get("type") == "Warning"
        and event["involvedObject"].get("name") == name
        and (uid is None or event["involvedObject"].get("uid") in (None, "", uid))
    ]
    found.sort(key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "")
    return list(dict.fromkeys(f"{event.get('reason')}: {(event.get('message') or '').strip()}" for event in found))


def _not_created(name: str, events: t.Sequence[Object]) -> Problem:
    warnings = _warnings(events, name)
    said = warnings[-1] if warnings else ""
    if "exceeded quota" in said:
        cause = "The quota of the namespace does not let all pods be created."
        cure = "Ask for fewer pods or less for each, or have the quota raised: kubectl describe quota."
    elif "violates PodSecurity" in said or "forbidden" in said:
        cause = "The cluster's rules do not allow such pods."
        cure = "Change what they name: worker_pods_run_as_user, worker_pods_capabilities, worker_pods_host_network."
    elif said:
        cause, cure = "Kubernetes cannot create all pods.", f"See kubectl describe {name}."
    else:
        cause = "Not all pods are there, and Kubernetes gives no reason."
        cure = f"See whether the controller manager works: kubectl describe statefulset {name}."
    return Problem("pod-not-created", "error", cause, cure, host=name, evidence=said)


_NOT_STARTED = (
    "pod-start",
    "The container cannot be started.",
    "See whether the image has the program: worker_pods_python_interpreter, or worker_pods_command.",
)
#: The reasons for which a container waits: the problem's id, cause and cure. What is not here is told in Kubernetes' words.
_WAITING: dict[str, tuple[str, str, str]] = {
    **dict.fromkeys(
        ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"),
        (
            "pod-image",
            "The image cannot be pulled.",
            "Correct worker_pods_image, or set worker_pods_image_pull_secrets; see whether the node reaches the registry.",
        ),
    ),
    "ErrImageNeverPull": (
        "pod-image",
        "The image is not on the node and is not to be pulled.",
        "Load it on the node, or set worker_pods_image_pull_policy to IfNotPresent.",
    ),
    "InvalidImageName": ("pod-image", "That is no name of an image.", "Correct worker_pods_image."),
    "CreateContainerConfigError": (
        "pod-config",
        "The container names something that is not there, or breaks a rule.",
        "Correct what is named: a Secret, a ConfigMap, a user (worker_pods_run_as_user).",
    ),
    **dict.fromkeys(("CreateContainerError", "RunContainerError"), _NOT_STARTED),
}


def _not_ready(pod: Object, events: t.Sequence[Object], log: str) -> Problem:
    name = pod["metadata"]["name"]
    warnings = _warnings(events, name, pod["metadata"].get("uid"))

    def problem(identity: str, cause: str, cure: str, evidence: str) -> Problem:
        return Problem(identity, "error", cause, cure, host=name, evidence=evidence)

    status = pod["status"]
    if pod["metadata"].get("deletionTimestamp"):
        cure = f"Wait until it is gone; one that stays is looked into by kubectl describe pod {name}."
        return problem("pod-deleted", "It is being deleted.", cure, "")
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            said = condition.get("message") or condition.get("reason") or ""
            return problem("pod-unschedulable", "No node takes it.", _scheduling_cure(said), said)
    for item in _container_statuses(pod):
        state, last = item.get("state") or {}, item.get("lastState") or {}
        ended = state.get("terminated") or last.get("terminated")
        waiting = state.get("waiting") or {}
        if ended and ended.get("reason") in ("StartError", "ContainerCannotRun"):
            return problem(*_NOT_STARTED, ended.get("message") or "")
        if ended:
            what = f"Its container {item['name']} ended with exit status {ended.get('exitCode')}"
            reason = ended.get("reason")
            what += f" ({reason})" if reason not in (None, "Error") else ""
            cure = (
                "It needs more memory: worker_pods_resources." if reason == "OOMKilled" else "Mend what its log tells."
            )
            evidence = log.strip() or ended.get("message") or (warnings[-1] if warnings else "")
            return problem("pod-crash", f"{what}.", cure, evidence)
        if waiting.get("reason") in _WAITING:
            said = waiting.get("message") or ""
            pulling = [text for text in warnings if not text.startswith("BackOff:")]
            evidence = pulling[-1] if pulling and waiting["reason"] == "ImagePullBackOff" else said
            return problem(*_WAITING[waiting["reason"]], f"{waiting['reason']}: {evidence}")
    if status.get("phase") == "Failed":
        said = f"{status.get('reason') or 'Failed'}: {status.get('message') or ''}".rstrip(": ")
        return problem("pod-failed", "It ended.", f"See kubectl describe pod {name}.", said)
    if status.get("phase") == "Running":
        cure = "See why its readiness probe fails, in its log."
        return problem("pod-not-ready", "It runs and is not ready.", cure, warnings[-1] if warnings else "")
    cause = "It is still being started." if not warnings else "It cannot be started."
    cure = "Give it more time (worker_pods_timeout), or see kubectl describe pod."
    return problem("pod-starting", cause, cure, warnings[-1] if warnings else "")


def _scheduling_cure(said: str) -> str:
    cures = []
    if "Insufficient" in said:
        resources = sorted(set(re.findall(r"Insufficient ([\w./-]+)", said)))
        cures.append(f"free or add {', '.join(item.rstrip('.') for item in resources)}, or ask for less of it")
    if "node selector" in said or "node affinity" in said or "node(s) didn't match" in said:
        cures.append("correct worker_pods_node_selector or worker_pods_affinity")
    if "taint" in said:
        cures.append("set worker_pods_tolerations")
    text = "; ".join(cures) or "see kubectl describe pod"
    return f"{text[0].upper()}{text[1:]}."


def lost_pods(joined: t.Iterable[Object], pods: t.Iterable[Object]) -> list[Problem]:
    """What became of the pods of a run that are not any more as they were when they joined it.

    ``joined``: as joined_pod gave them.
    """
    current = {pod["metadata"]["name"]: pod for pod in pods}
    problems = []
    for entry in joined:
        pod = current.get(entry["name"])
        cause = _loss(entry, pod)
        if cause:
            cure = "Find out who or what did so (kubectl get events), and run again."
            problems.append(
                Problem("pod-lost", "error", cause, cure, host=entry["name"], evidence=f"node {entry['node']}")
            )
    return problems


def _loss(entry: Object, pod: Object | None) -> str | None:
    if pod is None or (pod["metadata"].get("deletionTimestamp") and pod["metadata"]["uid"] == entry["uid"]):
        return "The pod was deleted during the run."
    if pod["metadata"]["uid"] != entry["uid"]:
        return "The pod was deleted during the run, and another one has its name now."
    if pod["status"].get("phase") in ("Failed", "Succeeded"):
        said = ": ".join(filter(None, (pod["status"].get("reason"), pod["status"].get("message"))))
        return f"The pod ended during the run ({said or pod['status']['phase']})."
    for status in pod["status"].get("containerStatuses") or ():
        if status["name"] == entry["container"] and status["restartCount"] != entry["restarts"]:
            ended = (status.get("lastState") or {}).get("terminated") or {}
            reason = ended.get("reason") or "unknown reason"
            return f"Its container ended during the run and was started anew ({reason}, exit status {ended.get('exitCode')})."
    return None


def problems_text(problems: t.Sequence[Problem]) -> str:
    """Problems for people, one paragraph for those that are the same on several hosts."""
    same: dict[tuple[str, str, str], list[str]] = {}
    for problem in problems:
        evidence = problem.evidence.replace(problem.host or "\0", "…")
        same.setdefault((problem.cause, problem.cure, evidence), []).append(problem.host or "")
    texts = []
    for (cause, cure, evidence), hosts in same.items():
        who = ", ".join(hosts[:3]) + (f" and {len(hosts) - 3} more" if len(hosts) > 3 else "")
        shown = evidence.replace("…", hosts[0]) if len(hosts) == 1 else evidence
        said = "".join(f"\n    {line}" for line in shown.splitlines()[-20:])
        texts.append(f"{who}: {cause} {cure}{said}")
    return "\n".join(texts)
