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

from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import (
    ADDRESS,
    HOST_NAME,
    NUMBER,
    RUN_DIRECTORY,
    check_answer,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.plan import (
    CPU_FEATURES,
    check_cpu_settings,
    check_settings,
    complete_results,
    cycle_arguments,
    devices_per_rank,
    program_arguments,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.sizes import LARGEST, SMALLEST
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import (
    ENDS_WELL,
    LOST_DAEMON,
    diagnose,
    problem,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.reader import Facts, Source
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.objects import (
    CHANGES,
    OWNER_ANNOTATION,
    ROLE_LABEL,
    condition_of,
    has_settings,
    is_finished,
    labels,
    network_policy,
    object_name,
    ownership,
    selector,
    shield,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.pod_template import (
    check_pod_settings,
    literal,
    make_container,
    make_template,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.pods import is_ready, pod_problems
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.hostfile import is_cluster_domain
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.openmpi import Launch, common_options, pod_environment
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.points import telling_lines
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import parse_results
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.placement import listed_placement_problems
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.shapes import ResultDocument
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.info import BENCHMARK_DIRECTORIES, MPI_PREFIXES
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.policy import (
    FORWARDED_ENVIRONMENT,
    SSH_POLICY,
    SSHD_POLICY,
    SSHD_POLICY_9_8,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import listing
from ansible_collections.gpufabric.nccl.plugins.module_utils._units import format_size, parse_size, size_word

Object = t.Mapping[str, t.Any]

API_VERSION = "kubeflow.org/v2beta1"
#: Whose objects these are, and the prefix of the variables.
ROLE = "mpijob"

#: What a user must be let do, as (group, resource, verbs).
TO_SUBMIT = (
    ("kubeflow.org", "mpijobs", CHANGES),
    ("", "configmaps", CHANGES),
    ("", "pods", ("get", "list")),
    ("", "pods/log", ("get",)),
)

LOG_NAME = "launcher.log"

_FILES = "/gpufabric"
_PROGRAM = f"{_FILES}/mpijob-pod"
_RUN = "/run/gpufabric"
_MOUNTS = (
    {"name": "gpufabric-files", "mountPath": _FILES, "readOnly": True},
    {"name": "gpufabric-run", "mountPath": _RUN},
)
_MARK = "gpufabric-mpijob: "
#: As the launcher begins its lines, the first of all. Those with another token were printed by a worker.
_OWN_MARK = re.compile(r"^gpufabric-mpijob(\[[0-9a-f-]{16,64}\])?: ", re.MULTILINE)
#: Characters of a launcher's log that are kept. The launcher itself shows 6 MiB of what the collectives print.
_MOST_LOG = 64 << 20
_LEFT_OUT = "\n… the middle of the log is left out: it has {size}, of which the first and the last {part} are shown …\n"
_PYTHON = "/usr/bin/python3"
# As in mpijob-pod: seconds that the proof of hosts may take, and mpirun to end.
_TO_PROVE_HOSTS = 300
_TO_KILL = 10
# coreutils' timeout, and what the shell makes of its last resort, SIGKILL.
_TIMED_OUT = (124, 137)
_END = re.compile(r"\S+ (\d{1,3}) (\d{1,9})\Z")
_WORKER = re.compile(r"worker (\S+) is (\S+), \d+ slots\Z")
# Of the operator: an object has the name of one that it would make.
_TAKEN = re.compile(r'Resource "([^"]+)" of Kind "([^"]*)" already exists and is not managed by MPIJob')
_REFUSAL = re.compile(r"worker (\S+) at (\S+): (.*)\Z")
# The operator makes names of pods and Services of it, labels of at most 63 characters.
_JOB_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,44}[a-z0-9])?\Z")


def plan_job(run_id: str, settings: Object, files: t.Mapping[str, str]) -> dict[str, t.Any]:
    """A run's MPIJob: its ``objects`` and ``policy``, ``name``, ``namespace``, ``selector``, ``workers``, ``ranks``, ``points``, ``needs``.

    ``settings``: the role's variables without their prefix, those of the role nccl_benchmark below ``benchmark``. ``environment``: what
    the playbooks call gpufabric_environment, as it was checked. ``name``: of the
    job, by default the run's; ``owner``: is noted in the job, unless it is empty, and the ConfigMap, which has the run's name then,
    claims the run for it.
    ``files``: the texts that the pods need, by name: ``mpijob-pod`` and ``cpu_perf.py``. Raises OptionError.
    """
    settings = _with_sizes(settings)
    _check(settings)
    name = settings["name"] or object_name(run_id)
    benchmark = settings["benchmark"]
    backend = choose_backend(benchmark["backend"], settings["gpus"])
    # Of the programs in the image it is not known when they print times of day.
    benchmark = {
        **benchmark,
        "own_arguments": cycle_arguments(benchmark, CPU_FEATURES if backend == "cpu" else {"cycles"}),
    }
    settings = {**settings, "slots": _slots(backend, settings), "benchmark": benchmark}
    texts = {"mpijob-pod": files["mpijob-pod"], **_ssh_files()}
    if backend == "cpu":
        texts["cpu_perf.py"] = files["cpu_perf.py"]
    metadata = {"namespace": settings["namespace"], "labels": {**settings["labels"], **labels(run_id, ROLE)}}
    own = {OWNER_ANNOTATION: settings["owner"]} if settings["owner"] else {}
    # The operator has one of its own that is called NAME-config.
    config_name = f"{object_name(run_id) if own else name}-files"
    settings = {**settings, "files": config_name}
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": config_name, **metadata, **({"annotations": own} if own else {})},
        "data": texts,
    }
    job: dict[str, t.Any] = {
        "apiVersion": API_VERSION,
        "kind": "MPIJob",
        "metadata": {"name": name, **metadata},
        "spec": _job_spec(name, run_id, backend, settings),
    }
    if settings["owner"]:
        # Whatever its name is.
        same = [texts, _job_spec(object_name(run_id), run_id, backend, settings)]
        job["metadata"]["annotations"] = ownership(settings["owner"], same)
    workers = [f"{name}-worker-{index}" for index in range(settings["replicas"])]
    shielded, policy_needs = shield(settings["network_policy"])
    return {
        "name": name,
        "namespace": settings["namespace"],
        "selector": selector(run_id, ROLE),
        "backend": backend,
        "output_limit": format_size(parse_size("nccl_benchmark_output_limit", benchmark["output_limit"])),
        "objects": [config, job],
        "policy": network_policy(run_id, ROLE, {"name": name, **metadata}, settings["owner"]) if shielded else None,
        "policy_required": bool(policy_needs),
        "workers": workers,
        # A pod on the network of its node has the node's name.
        "host_names": len(workers) if settings["host_network"] else workers,
        "ranks": len(workers) * settings["slots"],
        "points": [_point(collective, backend, benchmark) for collective in benchmark["collectives"]],
        "needs": [list(need) for need in (*TO_SUBMIT, *policy_needs)],
    }


def _with_sizes(settings: Object) -> Object:
    """With the default of the largest size. Nobody knows the GPUs yet: nccl-tests itself takes a smaller one if their memory is too small."""
    benchmark = settings["benchmark"]
    if benchmark.get("max_bytes") not in (None, ""):
        return settings
    largest = LARGEST if choose_backend(benchmark["backend"], settings["gpus"]) == "nccl" else SMALLEST
    return {**settings, "benchmark": {**benchmark, "max_bytes": size_word(largest)}}


def choose_backend(wanted: str, gpus: int) -> str:
    """``nccl`` or ``cpu``; ``auto`` goes by whether workers have GPUs. Raises OptionError."""
    if wanted == "nccl" and not gpus:
        raise OptionError("mpijob_gpus", gpus, "1 or more with nccl_benchmark_backend nccl")
    if wanted == "auto":
        return "nccl" if gpus else "cpu"
    return wanted


def _slots(backend: str, settings: Object) -> int:
    """The ranks of a worker, by default as many as its GPUs are enough for. Raises OptionError if they are not."""
    slots, ranks = settings["slots"], settings["benchmark"].get("ranks_per_node")
    if slots and ranks and slots != ranks:
        allowed = f"{slots}, which is mpijob_slots, or either of the two alone"
        raise OptionError("nccl_benchmark_ranks_per_node", ranks, allowed)
    option = "mpijob_slots" if slots else "nccl_benchmark_ranks_per_node"
    slots = slots or ranks
    if backend == "cpu":
        check_cpu_settings(settings["benchmark"])
        return slots or 1
    gpus, each = settings["gpus"], devices_per_rank(settings["benchmark"])
    product = "nccl_benchmark_gpus_per_rank x nccl_benchmark_threads_per_rank"
    if each > gpus:
        raise OptionError(product, each, f"1 to {gpus}, which is mpijob_gpus")
    if not slots and gpus % each:
        raise OptionError(
            product, each, f"what leaves none of {gpus} out, which is mpijob_gpus, or mpijob_slots beside it"
        )
    slots = slots or gpus // each
    if slots * each > gpus:
        raise OptionError(option, slots, f"1 to {gpus // each}: mpijob_gpus is {gpus}, {product} is {each}")
    return slots


def _check(settings: Object) -> None:
    check_settings(settings["benchmark"])
    if not settings["image"].strip():
        raise OptionError(
            "mpijob_image", settings["image"], "an image with bash, OpenSSH, Open MPI and nccl-tests, for all pods"
        )
    least = {
        "replicas": 1,
        "gpus": 0,
        "timeout": 1,
        "start_timeout": 1,
        "operator_timeout": 1,
        "dns_timeout": 0,
        "dns_interval": 0,
    }
    # With a job that has succeeded its launcher's log would go, before a play has read it.
    optional = {name: smallest for name, smallest in (("slots", 1), ("ttl", 60)) if settings[name] is not None}
    check_pod_settings(ROLE, settings, {**least, **optional})
    if settings["name"] and not _JOB_NAME.match(settings["name"]):
        raise OptionError(
            "mpijob_name", settings["name"], "at most 46 lower-case letters, digits and dashes, a letter first"
        )
    if settings["ssh_port"] is not None and not 1 <= settings["ssh_port"] <= 65535:
        raise OptionError("mpijob_ssh_port", settings["ssh_port"], "1 to 65535")
    if not settings["ssh_auth_mount_path"].startswith("/"):
        raise OptionError("mpijob_ssh_auth_mount_path", settings["ssh_auth_mount_path"], "an absolute path")
    if settings["cluster_domain"] and not is_cluster_domain(settings["cluster_domain"]):
        raise OptionError("mpijob_cluster_domain", settings["cluster_domain"], "a domain name, such as cluster.local")


def _job_spec(name: str, run_id: str, backend: str, settings: Object) -> dict[str, t.Any]:
    launch = Launch(
        mpirun="mpirun",
        prefix="/usr",
        hostfile=f"{_RUN}/hostfile",
        ranks=settings["replicas"] * settings["slots"],
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
        "activeDeadlineSeconds": _longest(settings),
    }
    if settings["ttl"] is not None:
        policy["ttlSecondsAfterFinished"] = settings["ttl"]
    launcher = _template(name, run_id, settings, _launcher_container(backend, settings, launch), works=False)
    worker = _template(name, run_id, settings, _worker_container(settings), works=True)
    # Workers would keep their GPUs until somebody removes the job. They begin earlier than the launcher, at most as long as pods may take.
    worker["spec"].setdefault("activeDeadlineSeconds", _longest(settings) + settings["start_timeout"])
    return {
        "slotsPerWorker": settings["slots"],
        "sshAuthMountPath": settings["ssh_auth_mount_path"],
        "mpiImplementation": "OpenMPI",
        "launcherCreationPolicy": settings["launcher_creation_policy"],
        "runPolicy": policy,
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": launcher},
            "Worker": {"replicas": settings["replicas"], "restartPolicy": "Never", "template": worker},
        },
    }


def _longest(settings: Object) -> int:
    """Seconds after which the launcher ends, also if its controller is gone: what its stages may take in all, as mpijob-pod limits them."""
    names_and_ssh = 2 * settings["dns_timeout"]
    points = len(settings["benchmark"]["collectives"]) * (settings["benchmark"]["timeout"] + _TO_KILL)
    stages = settings["start_timeout"] + names_and_ssh + _TO_PROVE_HOSTS + points
    # The role has its say before.
    return int(min(settings["timeout"], stages)) + 300


def _ssh_files() -> dict[str, str]:
    """What the pods' sshd and ssh keep to; ``mpijob-pod`` adds what is known in the pod alone."""
    sent = [f"AcceptEnv {name}" for name in FORWARDED_ENVIRONMENT]
    return {
        "sshd_config": "".join(f"{line}\n" for line in [*SSHD_POLICY, *sent]),
        "sshd_config-9.8": f"{SSHD_POLICY_9_8}\n",
        "ssh_config": "".join(f"{line}\n" for line in [*SSH_POLICY, f"SendEnv {' '.join(FORWARDED_ENVIRONMENT)}"]),
    }


def _template(
    name: str, run_id: str, settings: Object, container: dict[str, t.Any], *, works: bool
) -> dict[str, t.Any]:
    # Names that the operator does not take for volumes of its own.
    volumes = [
        {"name": "gpufabric-files", "configMap": {"name": settings["files"], "defaultMode": 0o555}},
        {"name": "gpufabric-run", "emptyDir": {"medium": "Memory"}},
    ]
    # The operator sets the subdomain too, to the name of its Service, which is the job's or the job's with -worker.
    spec = {"subdomain": name, "enableServiceLinks": False}
    settings = {**settings, "pod_spec": _pod_spec_of(container["name"], settings["pod_spec"])}
    return make_template(labels(run_id, ROLE), settings, container, volumes, spec, works=works)


def _pod_spec_of(container: str, pod_spec: Object) -> Object:
    """The user's fields for the pods of a container, without the container of the other pods."""
    if not isinstance(pod_spec.get("containers"), list):
        return pod_spec
    others = {"launcher", "worker"} - {container}
    return {**pod_spec, "containers": [item for item in pod_spec["containers"] if item.get("name") not in others]}


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
        "GPUFABRIC_FORWARD_ENV": " ".join(
            [*benchmark["forward_env"], *_forwarded(_pod_variables(settings), benchmark["env"])]
        ),
        # The networks of nodes have names of their own, which the launcher cannot know.
        "GPUFABRIC_FIND_CONTROL": str(not settings["host_network"]).lower(),
        "GPUFABRIC_MPI_PREFIX": settings["mpi_prefix"] or "",
        "GPUFABRIC_MPI_PREFIXES": " ".join(MPI_PREFIXES),
        "GPUFABRIC_BENCHMARK_DIR": benchmark["dir"] or "",
        "GPUFABRIC_BENCHMARK_DIRS": " ".join(BENCHMARK_DIRECTORIES),
        "GPUFABRIC_BACKEND": backend,
        "GPUFABRIC_PYTHON": settings["python_interpreter"],
        "GPUFABRIC_COLLECTIVES": " ".join(benchmark["collectives"]),
        "GPUFABRIC_POINT_TIMEOUT": benchmark["timeout"],
        "GPUFABRIC_OUTPUT_LIMIT": parse_size("nccl_benchmark_output_limit", benchmark["output_limit"]),
    }
    variables = {**own, **pod_environment(launch), **_pod_variables(settings), **benchmark["env"]}
    container = make_container("launcher", settings, variables, _MOUNTS, works=False)
    arguments = [*common_options(launch), "--", *program_arguments(benchmark)]
    container["command"] = ["bash", _PROGRAM, "launcher", *map(literal, arguments)]
    return container


def _pod_variables(settings: Object) -> dict[str, t.Any]:
    """What users set for all programs of the pods. In pods that Ansible runs in, the environment of the play comes before theirs, too."""
    return {**settings["env"], **settings["environment"]}


def _forwarded(env: Object, of_benchmark: Object) -> list[str]:
    """The variables that the ranks of all workers get from the launcher. Of the pods' Open MPI hands on its own by itself."""
    of_pods = {name: value for name, value in env.items() if not re.match(r"(?:OMPI|PRTE|PMIX|PMI)_", name)}
    return [name for name, value in {**of_pods, **of_benchmark}.items() if value is not None]


def _worker_container(settings: Object) -> dict[str, t.Any]:
    own = {
        # As the entry point of containers/worker takes it.
        "START_SSHD": "true",
        "SSHD_PORT": _ssh_port(settings) or "",
        "SSH_AUTH_DIR": settings["ssh_auth_mount_path"],
        "GPUFABRIC_SSH_AUTH": settings["ssh_auth_mount_path"],
        "GPUFABRIC_SSH_PORT": _ssh_port(settings) or "",
        # The address that its sshd listens on.
        "GPUFABRIC_POD_IP": {"valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    }
    variables = {**own, **_pod_variables(settings), **settings["benchmark"]["env"]}
    container = make_container("worker", settings, variables, _MOUNTS)
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
    return container


def _ssh_port(settings: Object) -> int | None:
    """None: the one that the image's ssh configuration says."""
    if settings["ssh_port"] is not None:
        return settings["ssh_port"]
    return 2222 if _own_sshd(settings) or (settings["worker_mode"] == "image" and not settings["command"]) else None


def _own_sshd(settings: Object) -> bool:
    """Whether the workers' sshd is the role's: its host key is then the job's own."""
    return settings["worker_mode"] == "script" and not settings["command"]


def _point(collective: str, backend: str, benchmark: Object) -> dict[str, t.Any]:
    program = [f"{_FILES}/cpu_perf.py", collective] if backend == "cpu" else [f"{collective}_perf"]
    return {"name": collective, "argv": [*program, *program_arguments(benchmark)], "env": dict(benchmark["env"])}


#: What mpi_hostfile returns of a host.
_HOSTFILE_LINE = {"name": HOST_NAME, "address": ADDRESS, "slots": NUMBER}


def adopted_peers(
    hosts: t.Sequence[t.Mapping[str, t.Any]], names: t.Collection[str], run_dir: str
) -> list[dict[str, t.Any]]:
    """The workers of a job that is adopted, as the role nccl_benchmark takes its peers.

    ``hosts``: of the job's hostfile, as mpi_hostfile returned them. ``names``: of its worker pods. Raises GpufabricError.
    """
    directory = check_answer("the launcher", "run_dir", run_dir, RUN_DIRECTORY)
    peers = []
    for host in check_answer("the launcher", "hosts", hosts, [_HOSTFILE_LINE]):
        # A pod's name in the DNS begins with that of the pod.
        name = host["name"].partition(".")[0]
        if name not in names:
            raise OptionError("hostfile", host["name"], f"the job's workers: {', '.join(names)}")
        peers.append({"name": name, "address": host["address"], "slots": host["slots"], "run_dir": directory})
    return peers


@dataclasses.dataclass
class Printed:
    """What a launcher printed. ``failure``: the stage that failed and its text; ``points``: by collective; ``addresses``: the
    workers by their addresses.
    """

    stage: str = ""
    failure: tuple[str, str] | None = None
    said: list[str] = dataclasses.field(default_factory=list)
    addresses: dict[str, str] = dataclasses.field(default_factory=dict)
    points: dict[str, dict[str, t.Any]] = dataclasses.field(default_factory=dict)


def own_log(text: str) -> str:
    """The log of a launcher as parse_log takes it: its begin and its end, if it is very long, and marks of the launcher alone.

    Workers, whose output is in it, may print lines like those of the launcher.
    """
    size = len(text)
    if size > _MOST_LOG:
        part = _MOST_LOG // 2
        text = text[:part] + _LEFT_OUT.format(size=format_size(size), part=format_size(part)) + text[-part:]
    first = _OWN_MARK.search(text)
    if first is None or first[1] is None:
        # Of a launcher that an earlier release has started.
        return text
    word = _MARK.rstrip(": ")
    lines = []
    for line in text.splitlines():
        if line.startswith(first[0]):
            line = _MARK + line[len(first[0]) :]
        elif line.startswith(word):
            line = f"> {line}"
        lines.append(line)
    return "\n".join(lines)


def parse_log(text: str) -> Printed:
    """Cut a launcher's log, as own_log returns it, into its stages and points.

    A point has ``lines``, and from its end on ``exit_status`` and ``seconds``; ``notes``: ``cut``, if the middle of its output is not
    there, and ``too-long``, if it was ended since it printed too much.
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
            point = printed.points[rest] = {"lines": [], "exit_status": None, "seconds": None, "notes": set()}
        elif word in ("cut", "too-long"):
            if point is not None:
                point["notes"].add(word)
        elif word == "end":
            match = _END.match(rest)
            if match and point is not None:
                point.update(exit_status=int(match.group(1)), seconds=float(match.group(2)))
            point = None
        else:
            said = line[len(_MARK) :]
            match = _WORKER.match(said)
            if match:
                printed.addresses[match.group(2)] = match.group(1)
            printed.said.append(said)
    return printed


def job_to_follow(found: t.Iterable[Object], wanted: Object) -> str:
    """The name of a job of the run that goes on and is what is wanted, such as one whose play was interrupted; else an empty text."""
    return next(
        (item["metadata"]["name"] for item in found if not is_finished(item) and has_settings(item, wanted)), ""
    )


def is_idle(job: Object | None, pods: t.Sequence[Object]) -> bool:
    """Whether no operator has taken note of a job. It writes conditions only when it has made all that it makes at first."""
    return not pods and not ((job or {}).get("status") or {}).get("conditions")


def with_role(pods: t.Iterable[Object], role: str) -> list[Object]:
    """The pods of a job with a role: ``launcher`` or ``worker``."""
    return [pod for pod in pods if (pod["metadata"].get("labels") or {}).get(ROLE_LABEL) == role]


def last_launcher(pods: t.Iterable[Object]) -> Object | None:
    """The launcher pod that was made last."""
    found = sorted(with_role(pods, "launcher"), key=lambda pod: pod["metadata"].get("creationTimestamp") or "")
    return found[-1] if found else None


def without_earlier_launchers(pods: t.Sequence[Object]) -> list[Object]:
    """The pods of a job without the launchers that another one has replaced: with restartPolicy Never, those that failed stay."""
    last = last_launcher(pods)
    return [pod for pod in pods if pod is last or not with_role([pod], "launcher")]


def progress(job: Object | None, pods: t.Sequence[Object], workers: int) -> str:
    """How far a job is, in words."""
    if is_idle(job, pods):
        return "the MPI Operator has not taken note of the job yet"
    ready = sum(is_ready(pod) for pod in with_role(pods, "worker"))
    launcher = last_launcher(pods)
    phase = "not there yet" if launcher is None else launcher["status"].get("phase", "Pending").lower()
    return f"{ready} of {workers} workers ready, launcher {phase}"


def job_results(plan: Object, observed: Object) -> list[ResultDocument]:
    """A result document for each collective, also where nothing was run.

    ``plan``: of plan_job. ``observed``: what mpijob_finished returned.
    """
    printed = parse_log(observed["launcher_log"])
    general = job_problems(plan, observed, printed)
    outcomes = [_outcome(plan, printed, point["name"], general) for point in plan["points"]]
    return complete_results(plan, {"points": outcomes})


def _outcome(plan: Object, printed: Printed, name: str, general: t.Sequence[Problem]) -> dict[str, t.Any]:
    """What became of a point, as mpi_run returns it."""
    point = printed.points.get(name)
    problems = list(general)
    results: list[ResultDocument] = []
    unread = None
    status, exit_status, seconds = "failed", None, None
    if point is None:
        if not problems:
            problems.append(problem("run-missing", path=LOG_NAME))
    else:
        exit_status, seconds = point["exit_status"], point["seconds"]
        passed = exit_status == 0 and not any(LOST_DAEMON in line for line in point["lines"])
        try:
            # Names of workers are those of their hosts.
            results = parse_results(point["lines"], Facts() if passed else None)
        except GpufabricError as error:
            unread = str(error)
        if passed:
            status = "finished"
            problems = [
                found
                for document in results
                for found in listed_placement_problems(document, plan["host_names"], plan["ranks"])
            ]
            if "cut" in point["notes"]:
                problems.append(problem("log-cut", path=LOG_NAME))
            if unread is not None:
                said = _diagnosed(plan, point["lines"], printed.addresses)
                refused = [found for found in said if found.id in ENDS_WELL]
                problems += refused or [problem("output-unread", evidence=unread)]
        elif exit_status is not None or not problems:
            problems = [*_run_problems(plan, point, printed.addresses), *problems]
    return {
        "status": status,
        "exit_status": exit_status,
        "duration": seconds,
        "stdout_path": LOG_NAME,
        "problems": [found.as_dict() for found in problems],
        "results": results,
        "unread": unread,
    }


def _run_problems(plan: Object, point: Object, addresses: t.Mapping[str, str]) -> list[Problem]:
    said = "\n".join(telling_lines("\n".join(point["lines"])))
    if "too-long" in point["notes"]:
        return [problem("output-too-long", evidence=said, limit=plan["output_limit"])]
    if point["exit_status"] in _TIMED_OUT:
        return [problem("run-timeout", evidence=said, seconds=f"{point['seconds']:.0f}")]
    # One of 0, after a daemon was lost, is that of no run that passed.
    status = {"status": point["exit_status"]} if point["exit_status"] else {}
    found = _diagnosed(plan, point["lines"], addresses, point["exit_status"] or None)
    if any(item.severity == "error" for item in found):
        return found
    return [problem("run-failed", evidence=said, path=LOG_NAME, **status), *found]


def _diagnosed(
    plan: Object, lines: t.Sequence[str], addresses: t.Mapping[str, str], exit_status: int | None = None
) -> list[Problem]:
    """The causes in what a launcher printed, empty where it tells none. ``addresses``: the workers by their addresses."""
    names = {**{name: name for name in plan["workers"]}, **addresses}
    found = diagnose([Source("launcher", lines, name=LOG_NAME)], exit_status, Facts(names))
    return [item for item in found if item.id != "unknown"]


def job_problems(plan: Object, observed: Object, printed: Printed) -> list[Problem]:
    """Why a job did not do what it was to do, the first cause first; empty where it did.

    ``observed``: ``job``, ``pods``, ``events``, ``logs`` (last lines by pod), ``launcher_log``, ``waited`` (seconds),
    ``given_up`` (bool): the time was over, ``lost_launcher`` (``name``, ``node``): the launcher's pod that was there and is not any more.
    """
    job, pods, seconds = observed["job"], observed["pods"], f"{observed['waited']:.0f}"
    if condition_of(job, "Succeeded"):
        return []
    if job is None:
        return [problem("mpijob-deleted")]
    if condition_of(job, "Suspended") or (job.get("spec") or {}).get("runPolicy", {}).get("suspend"):
        # It has no pods meanwhile.
        return [problem("mpijob-suspended")]
    if is_idle(job, pods):
        return _refused(plan, job, observed["events"]) or [problem("operator-idle", seconds=seconds)]
    problems = _pod_problems(plan, observed)
    launcher = last_launcher(pods)
    if printed.failure is not None:
        blamed = {item.host for item in problems}
        # Names of pods that are not ready do not resolve, and these are told already.
        problems += [] if blamed and blamed >= _unresolved(printed) else _stage_problems(plan, observed, printed)
    elif _is_cut(printed) and _launcher_was_deleted(observed):
        lost = observed["lost_launcher"]
        problems.append(problem("pod-lost", lost["name"], f"node {lost['node']}"))
    elif launcher is not None and launcher["status"].get("phase") == "Failed" and _is_cut(printed):
        found = _launcher_problem(plan, launcher, observed["launcher_log"])
        # What a program printed says more than an exit status.
        problems += [found] if not printed.points or found.id != "launcher-failed" else []
    if observed["given_up"] and not problems:
        said = progress(job, pods, len(plan["workers"]))
        stage = {"stage": printed.stage} if printed.stage else {}
        problems.append(problem("mpijob-timeout", evidence=said, seconds=seconds, **stage))
    failed = condition_of(job, "Failed")
    if failed and ((not problems and not printed.points) or failed.get("reason") == "MPIJobEvicted"):
        said = f"{failed.get('reason')}: {failed.get('message') or ''}".rstrip(": ")
        problems.append(problem("mpijob-failed", evidence=said, reason=said.rstrip(".")))
    return problems


def _refused(plan: Object, job: Object, events: t.Sequence[Object]) -> list[Problem]:
    """What has kept the operator from making anything. It says so in events of the job, and tries again."""
    own = [event for event in events if event["involvedObject"].get("uid") == job["metadata"]["uid"]]
    if not own:
        return []
    last = max(own, key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "")
    reason, message = last.get("reason"), last.get("message") or ""
    taken = _TAKEN.match(message)
    if taken:
        name, kind = taken.groups()
        what = f"{kind or 'An object of the name'} {name}"
        return [problem("kube-name-taken", None, message, object=what, setting="mpijob_name")]
    if reason == "MPIJobFailed":
        return pod_problems([], own, {}, [plan["name"]], "mpijob_")
    said = f"{reason}: {message}"
    return [problem("mpijob-failed", evidence=said, reason=said.rstrip("."))]


def _launcher_was_deleted(observed: Object) -> bool:
    """Whether the launcher's pod was deleted before the job failed. Its Job deletes it only when the job's time is over."""
    failed = condition_of(observed["job"], "Failed") or {}
    return bool(observed.get("lost_launcher")) and str(failed.get("reason")).startswith("BackoffLimitExceeded")


def _is_cut(printed: Printed) -> bool:
    """Whether the launcher ended before its first point, or in the midst of one."""
    return not printed.points or any(point["exit_status"] is None for point in printed.points.values())


def _pod_problems(plan: Object, observed: Object) -> list[Problem]:
    """Of pods that are not as they should be; a launcher that has run is told of elsewhere."""
    # After its end an operator may remove workers, if the job says so.
    is_cleaned = is_finished(observed["job"]) and _clean_pod_policy(observed["job"]) in ("Running", "All")
    pods = [
        pod
        for pod in observed["pods"]
        if (pod["metadata"]["name"] in plan["workers"] or pod["status"].get("phase") == "Pending")
        and not (is_cleaned and pod["metadata"].get("deletionTimestamp"))
    ]
    absent = not is_finished(observed["job"]) and len(with_role(pods, "worker")) < len(plan["workers"])
    missing = [plan["name"]] if absent else []
    events, told = observed["events"], {item["involvedObject"].get("name") for item in observed["events"]}
    # A Job makes the launcher's pod, and the cluster tells it why it may not.
    awaited = last_launcher(observed["pods"]) is None and not is_finished(observed["job"])
    launcher = f"{plan['name']}-launcher"
    missing += [launcher] if awaited and launcher in told else []
    found = pod_problems(pods, events, observed["logs"], missing, "mpijob_")
    if not found and awaited and plan["name"] in told:
        # Nor may the operator make that Job.
        return pod_problems([], events, {}, [plan["name"]], "mpijob_")
    return found


def _clean_pod_policy(job: Object) -> str:
    return ((job.get("spec") or {}).get("runPolicy") or {}).get("cleanPodPolicy") or ""


def _launcher_problem(plan: Object, pod: Object, log: str) -> Problem:
    name = pod["metadata"]["name"]
    ended: Object = next(
        (
            status["state"]["terminated"]
            for status in pod["status"].get("containerStatuses") or ()
            if "terminated" in (status.get("state") or {})
        ),
        {},
    )
    known = ended.get("reason") in ("OOMKilled", "StartError", "ContainerCannotRun")
    if not ended or known or pod["status"].get("reason"):
        return pod_problems([pod], [], {name: log}, prefix="mpijob_")[0]
    reason = ended.get("reason")
    outcome = f"exit status {ended['exitCode']}" + (f" ({reason})" if reason not in (None, "Error") else "")
    said = "\n".join(telling_lines(log)) or ended.get("message") or ""
    return problem("launcher-failed", name, said, outcome=outcome)


def _worker_problems(plan: Object, said: str) -> list[Problem]:
    """What ssh, or a shell, said to the launcher of a worker."""
    match = _REFUSAL.match(said)
    if match is None:
        return []
    worker, address, reason = match.groups()
    found = _diagnosed(plan, [reason], {address: worker}) or [problem("ssh-failed", evidence=reason)]
    return [dataclasses.replace(item, host=worker) for item in found]


def _pods_of(text: str) -> list[str]:
    """The pods that names in the DNS are of."""
    return [name.partition(".")[0] for name in text.split()]


def _unresolved(printed: Printed) -> set[str]:
    """The workers whose names did not resolve; one that is nobody's where the launcher failed with something else."""
    stage, text = printed.failure or ("", "")
    return set(_pods_of(text)) if stage == "names" else {""}


def _stage_problems(plan: Object, observed: Object, printed: Printed) -> list[Problem]:
    stage, text = printed.failure or ("", "")
    said = "\n".join(telling_lines(observed["launcher_log"]))
    names = _pods_of(text) if stage in ("names", "ssh") else []
    listed = listing(names, 5)
    some = f"{len(names)} of {len(plan['workers'])}"
    host = names[0] if len(names) == 1 else None
    if stage == "names":
        # Hostfile, resolv.conf and hosts, as the launcher has printed them.
        evidence = f"{listed}\n{_after(observed['launcher_log'], '--- ')}"
        return [problem("names-unresolved", host, evidence, some=some, service=plan["name"])]
    lines = [line for line in observed["launcher_log"].splitlines() if not line.startswith(_MARK)]
    by_worker = [found for line in printed.said for found in _worker_problems(plan, line)]
    if stage == "ssh":
        return by_worker or [problem("ssh-failed", host, listed, some=some)]
    if stage == "hosts":
        return [problem("hosts-differ", evidence=f"{text}\n{said}".rstrip())]
    if stage == "mpirun":
        return (
            by_worker
            or _diagnosed(plan, lines, printed.addresses)
            or [problem("mpirun-failed", evidence=said, reason=text)]
        )
    if stage not in ("account", "keys", "hostfile"):
        # The beginning of the log is lost, and a worker has printed that.
        return [problem("launcher-failed", evidence=said)]
    return [problem(f"launcher-{stage}", evidence=said, reason=text)]


def _after(text: str, mark: str, most: int = 40) -> str:
    lines = text.splitlines()
    first = next((index for index, line in enumerate(lines) if line.startswith(mark)), len(lines))
    return "\n".join(line for line in lines[first : first + most] if not line.startswith(_MARK))
