# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""A benchmark as a Kubeflow MPIJob: its objects, what its launcher printed, and what became of it.

What the operator adds to the objects is in its source: github.com/kubeflow/mpi-operator,
pkg/controller/mpi_job_controller.go. Jobs, pods and events are dicts as the Kubernetes API gives them.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark import (
    check_settings,
    complete_results,
    program_arguments,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube import (
    ROLE_LABEL,
    check_pod_settings,
    labels,
    object_name,
    pod_annotations,
    pod_resources,
    security_context,
    selector,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi_run import telling_lines
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests import parse_results, placement_problems
from ansible_collections.gpufabric.nccl.plugins.module_utils._node import BENCHMARK_DIRECTORIES, MPI_PREFIXES
from ansible_collections.gpufabric.nccl.plugins.module_utils._openmpi import Launch, common_options, pod_environment
from ansible_collections.gpufabric.nccl.plugins.module_utils._problem import Problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh_mesh import (
    FORWARDED_ENVIRONMENT,
    check_environment_names,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._worker_pods import is_ready, pod_problems

Object = t.Mapping[str, t.Any]

API_VERSION = "kubeflow.org/v2beta1"

#: What a user must be let do, as (group, resource, verbs).
TO_SUBMIT = (
    ("kubeflow.org", "mpijobs", ("get", "list", "create", "patch", "delete")),
    ("", "configmaps", ("get", "list", "create", "patch", "delete")),
    ("", "pods", ("get", "list")),
    ("", "pods/log", ("get",)),
)

LOG_NAME = "launcher.log"

_FILES = "/gpufabric"
_PROGRAM = f"{_FILES}/mpijob-pod"
_RUN = "/run/gpufabric"
_MARK = "gpufabric-mpijob: "
_PYTHON = "/usr/bin/python3"
# coreutils' timeout, and what the shell makes of its last resort, SIGKILL.
_TIMED_OUT = (124, 137)
_END = re.compile(r"\S+ (\d{1,3}) (\d{1,9})\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def plan_job(run_id: str, settings: Object, files: t.Mapping[str, str]) -> dict[str, t.Any]:
    """A run's MPIJob: its ``objects``, ``name``, ``namespace``, ``selector``, ``workers``, ``ranks``, ``points``, ``needs``.

    ``settings``: the role's variables without their prefix, those of the role nccl_benchmark below ``benchmark``.
    ``files``: the texts that the pods need, by name: ``mpijob-pod`` and ``cpu_perf.py``. Raises OptionError.
    """
    _check(settings)
    name = object_name(run_id)
    benchmark = settings["benchmark"]
    backend = choose_backend(benchmark["backend"], int(settings["gpus"]))
    texts = {"mpijob-pod": files["mpijob-pod"]}
    if backend == "cpu":
        texts["cpu_perf.py"] = files["cpu_perf.py"]
    metadata = {"namespace": settings["namespace"], "labels": {**settings["labels"], **labels(run_id)}}
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        # The operator has one of its own that is called NAME-config.
        "metadata": {"name": f"{name}-files", **metadata},
        "data": texts,
    }
    job = {
        "apiVersion": API_VERSION,
        "kind": "MPIJob",
        "metadata": {"name": name, **metadata},
        "spec": _job_spec(name, run_id, backend, settings),
    }
    workers = [f"{name}-worker-{index}" for index in range(int(settings["replicas"]))]
    return {
        "name": name,
        "namespace": settings["namespace"],
        "selector": selector(run_id),
        "backend": backend,
        "objects": [config, job],
        "workers": workers,
        # A pod on the network of its node has the node's name.
        "host_names": len(workers) if settings["host_network"] else workers,
        "ranks": len(workers) * int(settings["slots"]),
        "points": [_point(collective, backend, benchmark) for collective in benchmark["collectives"]],
        "needs": [list(need) for need in TO_SUBMIT],
    }


def choose_backend(wanted: str, gpus: int) -> str:
    """``nccl`` or ``cpu``; ``auto`` goes by whether workers have GPUs. Raises OptionError."""
    if wanted == "nccl" and not gpus:
        raise OptionError("mpijob_gpus", gpus, "1 or more with nccl_benchmark_backend nccl")
    if wanted == "auto":
        return "nccl" if gpus else "cpu"
    return wanted


def _check(settings: Object) -> None:
    check_settings(settings["benchmark"])
    if not settings["image"]:
        raise OptionError(
            "mpijob_image", settings["image"], "an image with bash, OpenSSH, Open MPI and nccl-tests, for all pods"
        )
    least = {"replicas": 1, "slots": 1, "gpus": 0, "timeout": 1, "start_timeout": 1}
    check_pod_settings("mpijob", settings, least)
    if settings["ssh_port"] is not None and not 1 <= int(settings["ssh_port"]) <= 65535:
        raise OptionError("mpijob_ssh_port", settings["ssh_port"], "1 to 65535")
    for name in settings["benchmark"]["env"]:
        if not _VARIABLE.match(name):
            raise OptionError("nccl_benchmark_env", name, "names of environment variables")
    check_environment_names("nccl_benchmark_forward_env", settings["benchmark"]["forward_env"])


def _job_spec(name: str, run_id: str, backend: str, settings: Object) -> dict[str, t.Any]:
    launch = Launch(
        mpirun="mpirun",
        prefix="/usr",
        hostfile=f"{_RUN}/hostfile",
        ranks=int(settings["replicas"]) * int(settings["slots"]),
        ranks_per_node=None,
        agent=("ssh", "-F", f"{_RUN}/ssh/config"),
        control=settings["control_interface"],
        data_interface=settings["data_interface"],
        # Ranks that wait would keep the others off the CPUs where pods share these.
        mca={
            **({"mpi_yield_when_idle": "1"} if backend == "cpu" else {}),
            **{key: str(value) for key, value in settings["benchmark"]["mca"].items()},
        },
    )
    policy: dict[str, t.Any] = {
        "cleanPodPolicy": settings["clean_pod_policy"],
        "backoffLimit": 0,
        # A job whose controller is gone ends by itself, but not before the role has had its say.
        "activeDeadlineSeconds": int(settings["timeout"]) + 300,
    }
    if settings["ttl"] is not None:
        policy["ttlSecondsAfterFinished"] = int(settings["ttl"])
    launcher = _template(name, run_id, settings, _launcher_container(backend, settings, launch), {})
    worker = _template(name, run_id, settings, _worker_container(settings), pod_annotations(settings))
    placing = {key: settings[key] for key in ("node_selector", "affinity") if settings[key]}
    worker["spec"].update({{"node_selector": "nodeSelector"}.get(key, key): value for key, value in placing.items()})
    return {
        "slotsPerWorker": int(settings["slots"]),
        "sshAuthMountPath": settings["ssh_auth_mount_path"],
        "mpiImplementation": "OpenMPI",
        "launcherCreationPolicy": settings["launcher_creation_policy"],
        "runPolicy": policy,
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": launcher},
            "Worker": {"replicas": int(settings["replicas"]), "restartPolicy": "Never", "template": worker},
        },
    }


def _template(
    name: str, run_id: str, settings: Object, container: dict[str, t.Any], annotations: Object
) -> dict[str, t.Any]:
    # Names that the operator does not take for volumes of its own.
    volumes = [
        {"name": "gpufabric-files", "configMap": {"name": f"{name}-files", "defaultMode": 0o555}},
        {"name": "gpufabric-run", "emptyDir": {"medium": "Memory"}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": settings["shm_size"]}},
    ]
    container["volumeMounts"] = [
        {"name": "gpufabric-files", "mountPath": _FILES, "readOnly": True},
        {"name": "gpufabric-run", "mountPath": _RUN},
        {"name": "shm", "mountPath": "/dev/shm"},
    ]
    spec: dict[str, t.Any] = {
        # The operator sets it too, to the name of its Service, which is the job's or the job's with -worker.
        "subdomain": name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "containers": [container],
        "volumes": volumes,
    }
    for key, value in (
        ("imagePullSecrets", [{"name": secret} for secret in settings["image_pull_secrets"]]),
        ("tolerations", settings["tolerations"]),
    ):
        if value:
            spec[key] = value
    if settings["host_network"]:
        spec.update({"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"})
    metadata: dict[str, t.Any] = {"labels": {**settings["labels"], **labels(run_id)}}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"metadata": metadata, "spec": _merged(spec, settings["pod_spec"])}


def _merged(ours: t.Any, theirs: t.Any) -> t.Any:
    """Dicts key by key, lists one after the other, else theirs."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return {
            key: _merged(ours[key], theirs[key]) if key in ours and key in theirs else {**ours, **theirs}[key]
            for key in {**ours, **theirs}
        }
    if isinstance(ours, list) and isinstance(theirs, list):
        return ours + theirs
    return theirs


def _container(name: str, settings: Object, env: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    container: dict[str, t.Any] = {
        "name": name,
        "image": settings["image"],
        "imagePullPolicy": settings["image_pull_policy"],
        # Kubernetes replaces $(NAME) in values.
        "env": [{"name": key, "value": _literal(value)} for key, value in env.items()],
    }
    return container


def _launcher_container(backend: str, settings: Object, launch: Launch) -> dict[str, t.Any]:
    benchmark = settings["benchmark"]
    own = {
        "MPI_HOSTFILE": "/etc/mpi/hostfile",
        "MPI_DNS_WAIT_SECONDS": settings["dns_timeout"],
        "MPI_DNS_WAIT_INTERVAL": settings["dns_interval"],
        "REWRITE_MPI_HOSTFILE_FQDN": str(settings["rewrite_fqdn"]).lower(),
        "GPUFABRIC_CLUSTER_DOMAIN": settings["cluster_domain"],
        "GPUFABRIC_WORKERS": settings["replicas"],
        "GPUFABRIC_SSH_AUTH": settings["ssh_auth_mount_path"],
        "GPUFABRIC_SSH_PORT": _ssh_port(settings) or "",
        "GPUFABRIC_SSH_WAIT_SECONDS": settings["dns_timeout"],
        "GPUFABRIC_PINNED": str(_own_sshd(settings)).lower(),
        "GPUFABRIC_SEND_ENV": " ".join(FORWARDED_ENVIRONMENT),
        "GPUFABRIC_FORWARD_ENV": " ".join([*benchmark["forward_env"], *benchmark["env"]]),
        "GPUFABRIC_MPI_PREFIX": settings["mpi_prefix"] or "",
        "GPUFABRIC_MPI_PREFIXES": " ".join(MPI_PREFIXES),
        "GPUFABRIC_BENCHMARK_DIR": benchmark["dir"] or "",
        "GPUFABRIC_BENCHMARK_DIRS": " ".join(BENCHMARK_DIRECTORIES),
        "GPUFABRIC_BACKEND": backend,
        "GPUFABRIC_PYTHON": settings["python_interpreter"],
        "GPUFABRIC_COLLECTIVES": " ".join(benchmark["collectives"]),
        "GPUFABRIC_POINT_TIMEOUT": benchmark["timeout"],
    }
    container = _container(
        "launcher", settings, {**own, **pod_environment(launch), **settings["env"], **benchmark["env"]}
    )
    container["securityContext"] = security_context({**settings, "capabilities": []})
    arguments = [*common_options(launch), "--", *program_arguments(benchmark)]
    container["command"] = ["bash", _PROGRAM, "launcher", *map(_literal, arguments)]
    return container


def _worker_container(settings: Object) -> dict[str, t.Any]:
    own = {
        # As the entry point of containers/worker takes it.
        "START_SSHD": "true",
        "SSHD_PORT": _ssh_port(settings) or "",
        "SSH_AUTH_DIR": settings["ssh_auth_mount_path"],
        "GPUFABRIC_SSH_AUTH": settings["ssh_auth_mount_path"],
        "GPUFABRIC_SSH_PORT": _ssh_port(settings) or "",
        "GPUFABRIC_SEND_ENV": " ".join(FORWARDED_ENVIRONMENT),
    }
    container = _container("worker", settings, {**own, **settings["env"], **settings["benchmark"]["env"]})
    if _own_sshd(settings):
        container["command"] = ["bash", _PROGRAM, "worker"]
    elif settings["command"]:
        container["command"] = list(settings["command"])
    elif settings["worker_mode"] == "image":
        container["args"] = ["shell"]
    port = _ssh_port(settings)
    if port:
        # Ready is who takes part: names resolve from then on.
        container["readinessProbe"] = {"tcpSocket": {"port": port}, "periodSeconds": 2}
    resources = pod_resources(settings)
    if resources["limits"]:
        container["resources"] = resources
    container["securityContext"] = security_context(settings)
    return container


def _ssh_port(settings: Object) -> int | None:
    """None: the one that the image's ssh configuration says."""
    if settings["ssh_port"] is not None:
        return int(settings["ssh_port"])
    return 2222 if _own_sshd(settings) or (settings["worker_mode"] == "image" and not settings["command"]) else None


def _own_sshd(settings: Object) -> bool:
    """Whether the workers' sshd is the role's: its host key is then the job's own."""
    return settings["worker_mode"] == "script" and not settings["command"]


def _literal(value: t.Any) -> str:
    return str(value).replace("$(", "$$(")


def _point(collective: str, backend: str, benchmark: Object) -> dict[str, t.Any]:
    program = [f"{_FILES}/cpu_perf.py", collective] if backend == "cpu" else [f"{collective}_perf"]
    return {"name": collective, "argv": [*program, *program_arguments(benchmark)], "env": dict(benchmark["env"])}


def adopted_peers(
    hosts: t.Sequence[t.Mapping[str, t.Any]], names: t.Collection[str], run_dir: str
) -> list[dict[str, t.Any]]:
    """The workers of a job that is adopted, as the role nccl_benchmark takes its peers.

    ``hosts``: of the job's hostfile, as mpi_hostfile returned them. ``names``: of its worker pods. Raises OptionError.
    """
    peers = []
    for host in hosts:
        # A pod's name in the DNS begins with that of the pod.
        name = host["name"].partition(".")[0]
        if name not in names:
            raise OptionError("hostfile", host["name"], f"the job's workers: {', '.join(names)}")
        peers.append({"name": name, "address": host["address"], "slots": host["slots"], "run_dir": run_dir})
    return peers


@dataclasses.dataclass
class Printed:
    """What a launcher printed. ``failure``: the stage that failed and its text; ``points``: by collective."""

    stage: str = ""
    failure: tuple[str, str] | None = None
    said: list[str] = dataclasses.field(default_factory=list)
    points: dict[str, dict[str, t.Any]] = dataclasses.field(default_factory=dict)


def parse_log(text: str) -> Printed:
    """Cut a launcher's log into its stages and points.

    A point has ``lines``, and from its end on ``exit_status`` and ``seconds``.
    """
    printed = Printed()
    point: dict[str, t.Any] | None = None
    for line in text.splitlines():
        if not line.startswith(_MARK):
            if point is not None:
                point["lines"].append(line)
            continue
        word, _space, rest = line[len(_MARK) :].partition(" ")
        if word == "stage":
            printed.stage = rest
        elif word == "failed":
            stage, _space, reason = rest.partition(" ")
            printed.failure = (stage, reason)
        elif word == "begin":
            point = printed.points[rest] = {"lines": [], "exit_status": None, "seconds": None}
        elif word == "end":
            match = _END.match(rest)
            if match and point is not None:
                point.update(exit_status=int(match.group(1)), seconds=float(match.group(2)))
            point = None
        else:
            printed.said.append(line[len(_MARK) :])
    return printed


def condition_of(job: Object | None, kind: str) -> Object | None:
    """A condition of an MPIJob that holds, such as ``Running``, ``Succeeded``, ``Failed``."""
    conditions = ((job or {}).get("status") or {}).get("conditions") or ()
    return next((item for item in conditions if item["type"] == kind and item["status"] == "True"), None)


def is_finished(job: Object | None) -> bool:
    """Whether a job has come to an end."""
    return bool(condition_of(job, "Succeeded") or condition_of(job, "Failed"))


def is_idle(job: Object | None) -> bool:
    """Whether no operator has taken note of a job."""
    return not ((job or {}).get("status") or {}).get("conditions")


def with_role(pods: t.Iterable[Object], role: str) -> list[Object]:
    """The pods of a job with a role: ``launcher`` or ``worker``."""
    return [pod for pod in pods if (pod["metadata"].get("labels") or {}).get(ROLE_LABEL) == role]


def last_launcher(pods: t.Iterable[Object]) -> Object | None:
    """The launcher pod that was made last."""
    found = sorted(with_role(pods, "launcher"), key=lambda pod: pod["metadata"].get("creationTimestamp") or "")
    return found[-1] if found else None


def progress(job: Object | None, pods: t.Sequence[Object], workers: int) -> str:
    """How far a job is, in words."""
    if is_idle(job):
        return "the MPI Operator has not taken note of the job yet"
    ready = sum(is_ready(pod) for pod in with_role(pods, "worker"))
    launcher = last_launcher(pods)
    phase = "not there yet" if launcher is None else launcher["status"].get("phase", "Pending").lower()
    return f"{ready} of {workers} workers ready, launcher {phase}"


def job_results(plan: Object, observed: Object) -> list[dict[str, t.Any]]:
    """A result document for each collective, also where nothing was run.

    ``plan``: of plan_job. ``observed``: what mpijob_finished returned.
    """
    printed = parse_log(observed["launcher_log"])
    general = job_problems(plan, observed, printed)
    outcomes = [_outcome(plan, printed.points.get(point["name"]), general) for point in plan["points"]]
    return complete_results(plan, {"points": outcomes})


def _outcome(plan: Object, point: Object | None, general: t.Sequence[Problem]) -> dict[str, t.Any]:
    """What became of a point, as mpi_run returns it."""
    problems = list(general)
    results: list[dict[str, t.Any]] = []
    unread = None
    status, exit_status, seconds = "failed", None, None
    if point is None:
        if not problems:
            problems.append(_unrun())
    else:
        exit_status, seconds = point["exit_status"], point["seconds"]
        try:
            results = parse_results(point["lines"])
        except GpufabricError as error:
            unread = str(error)
        if exit_status == 0:
            status = "finished"
            problems = [
                problem
                for document in results
                for problem in placement_problems(document, plan["host_names"], plan["ranks"])
            ]
            if unread is not None:
                problems.append(_unread(unread))
        elif exit_status is not None or not problems:
            problems.insert(0, _run_problem(point))
    return {
        "status": status,
        "exit_status": exit_status,
        "duration": seconds,
        "stdout_path": LOG_NAME,
        "problems": [problem.as_dict() for problem in problems],
        "results": results,
        "unread": unread,
    }


def _run_problem(point: Object) -> Problem:
    said = "\n".join(telling_lines("\n".join(point["lines"])))
    if point["exit_status"] in _TIMED_OUT:
        cause = f"The program did not end within {point['seconds']:.0f} s and was ended."
        cure = "Give it more time (nccl_benchmark_timeout), or find out what it waits for in its output."
        return Problem("run-timeout", "error", cause, cure, evidence=said)
    if point["exit_status"] is None:
        cause = "The launcher ended, or was ended, while the program ran."
    else:
        cause = f"mpirun ended with exit status {point['exit_status']}."
    return Problem("run-failed", "error", cause, f"Read what it printed, in {LOG_NAME}.", evidence=said)


def _unread(reason: str) -> Problem:
    cause = "The program ended well, but no result can be read from what it printed."
    cure = f"Read it, in {LOG_NAME}; see whether it is an nccl-tests program."
    return Problem("output-unread", "error", cause, cure, evidence=reason)


def _unrun() -> Problem:
    cause = "The launcher's log does not say that the program was started."
    return Problem("run-missing", "error", cause, f"Read the log, {LOG_NAME}; see whether it is whole.")


def job_problems(plan: Object, observed: Object, printed: Printed) -> list[Problem]:
    """Why a job did not do what it was to do, the first cause first; empty where it did.

    ``observed``: ``job``, ``pods``, ``events``, ``logs`` (last lines by pod), ``launcher_log``, ``waited`` (seconds),
    ``given_up`` (bool): the time was over.
    """
    job, pods = observed["job"], observed["pods"]
    if condition_of(job, "Succeeded"):
        return []
    if job is None:
        cure = "Find out who or what did so, and run again."
        return [Problem("mpijob-deleted", "error", "The MPIJob was deleted while it ran.", cure)]
    if is_idle(job):
        return [
            Problem(
                "operator-idle",
                "error",
                f"No MPI Operator has taken note of the MPIJob within {observed['waited']:.0f} s.",
                "See whether one runs and watches this namespace: kubectl get pods --all-namespaces,"
                " kubectl describe mpijob; it must know kubeflow.org/v2beta1.",
            )
        ]
    problems = _pod_problems(plan, observed)
    launcher = last_launcher(pods)
    if printed.failure is not None:
        problems.append(_stage_problem(plan, observed, printed))
    elif launcher is not None and launcher["status"].get("phase") == "Failed" and not printed.points:
        problems.append(_launcher_problem(launcher, observed["launcher_log"]))
    if observed["given_up"]:
        where = f", at its stage {printed.stage}" if printed.stage else ""
        cause = f"The MPIJob did not end within {observed['waited']:.0f} s{where}."
        cure = "Give it more time (mpijob_start_timeout, mpijob_timeout), or mend what is said of its pods."
        said = progress(job, pods, len(plan["workers"]))
        problems.append(Problem("mpijob-timeout", "error", cause, cure, evidence=said))
    failed = condition_of(job, "Failed")
    if failed and ((not problems and not printed.points) or failed.get("reason") == "MPIJobEvicted"):
        said = f"{failed.get('reason')}: {failed.get('message') or ''}".rstrip(": ")
        problems.append(
            Problem(
                "mpijob-failed",
                "error",
                "The operator says that the MPIJob failed.",
                "Mend what it names.",
                evidence=said,
            )
        )
    suspended = condition_of(job, "Suspended")
    if suspended:
        cure = "Let the queue that holds it (such as Kueue) admit it, or resume it: spec.runPolicy.suspend."
        problems.insert(0, Problem("mpijob-suspended", "error", "The MPIJob is suspended.", cure))
    return problems


def _pod_problems(plan: Object, observed: Object) -> list[Problem]:
    """Of pods that are not as they should be; a launcher that has run is told of elsewhere."""
    pods = [
        pod
        for pod in observed["pods"]
        if pod["metadata"]["name"] in plan["workers"] or pod["status"].get("phase") == "Pending"
    ]
    # After its end an operator may remove workers.
    absent = not is_finished(observed["job"]) and len(with_role(pods, "worker")) < len(plan["workers"])
    found = pod_problems(pods, observed["events"], observed["logs"], [plan["name"]] if absent else [])
    # The settings have the same names in both roles.
    return [dataclasses.replace(problem, cure=problem.cure.replace("worker_pods_", "mpijob_")) for problem in found]


def _launcher_problem(pod: Object, log: str) -> Problem:
    ended = next(
        (
            status["state"]["terminated"]
            for status in pod["status"].get("containerStatuses") or ()
            if "terminated" in (status.get("state") or {})
        ),
        {},
    )
    what = (
        f"exit status {ended['exitCode']}" if "exitCode" in ended else pod["status"].get("reason") or "no exit status"
    )
    reason = ended.get("reason")
    cause = f"The launcher ended with {what}{f' ({reason})' if reason not in (None, 'Error') else ''}, before any program was run."
    said = "\n".join(telling_lines(log)) or ended.get("message") or ""
    return Problem(
        "launcher-failed",
        "error",
        cause,
        f"Mend what its log tells, in {LOG_NAME}.",
        host=pod["metadata"]["name"],
        evidence=said,
    )


def _stage_problem(plan: Object, observed: Object, printed: Printed) -> Problem:
    stage, text = printed.failure or ("", "")
    said = "\n".join(telling_lines(observed["launcher_log"]))
    names = [name.partition(".")[0] for name in text.split()] if stage in ("names", "ssh") else []
    listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    host = names[0] if len(names) == 1 else None
    if stage == "names":
        cause = f"In time, the launcher could not resolve the names of {len(names)} of {len(plan['workers'])} workers: {listed}."
        cure = (
            f"See whether these pods are ready, and whether the Service {plan['name']} (or {plan['name']}-worker) has endpoints:"
            " kubectl get endpoints; give it more time (mpijob_dns_timeout), or set mpijob_rewrite_fqdn and mpijob_cluster_domain."
        )
        # Hostfile, resolv.conf and hosts, as the launcher has printed them.
        return Problem(
            "names-unresolved", "error", cause, cure, host=host, evidence=_after(observed["launcher_log"], "--- ")
        )
    if stage == "ssh":
        cause = f"The launcher cannot log in to {len(names)} of {len(plan['workers'])} workers: {listed}."
        cure = "See the log of these pods for what their sshd says; compare mpijob_ssh_port and mpijob_worker_mode with the image."
        evidence = "\n".join(line for line in printed.said if line.startswith("worker ") and " at " in line)
        return Problem("ssh-failed", "error", cause, cure, host=host, evidence=evidence)
    if stage == "hosts":
        cure = "The ranks do not run where they should: see that mpirun takes its hostfile and its agent, and that no two pods have one name."
        return Problem("hosts-differ", "error", f"Of the hosts, {text}.", cure, evidence=said)
    if stage == "mpirun":
        cause = f"mpirun cannot start a program on the workers: {text}."
        return Problem(
            "mpirun-failed", "error", cause, "Mend what it says; all pods need the same Open MPI.", evidence=said
        )
    return Problem(f"launcher-{stage}", "error", f"The launcher ended: {text}.", "Mend what it names.", evidence=said)


def _after(text: str, mark: str, most: int = 40) -> str:
    lines = text.splitlines()
    first = next((index for index, line in enumerate(lines) if line.startswith(mark)), len(lines))
    return "\n".join(line for line in lines[first : first + most] if not line.startswith(_MARK))
