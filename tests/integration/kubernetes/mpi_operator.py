# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plays the MPI Operator where it cannot be installed: real pods, real names and a real API, made by this controller.

What it makes and what it says is taken from the operator's published source, github.com/kubeflow/mpi-operator:
pkg/controller/mpi_job_controller.go (newConfigMap, updateDiscoverHostsInConfigMap, newJobService, newSSHAuthSecret,
newWorker, newLauncherJob, newLauncherPodTemplate, setupSSHOnPod, updateMPIJobStatus, updateMPIJobFailedStatus,
cleanup by cleanPodPolicy), pkg/controller/mpi_job_controller_status.go (conditions) and, for the schema,
manifests/base/kubeflow.org_mpijobs.yaml, of which the pod templates are left open here. Not played: suspension,
gang scheduling, Intel MPI and MPICH.
"""

from __future__ import annotations

import base64
import concurrent.futures
import copy
import datetime
import json
import pathlib
import subprocess
import tempfile
import threading
import time
import typing as t

from leftovers import OF_TESTS

CRD_NAME = "mpijobs.kubeflow.org"
#: What the operator looks at.
_KINDS = "mpijobs,services,configmaps,secrets,jobs,pods"
_GROUP = "training.kubeflow.org"
_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_INTEGER = {"type": "integer", "format": "int32"}
_REPLICA = {
    "type": "object",
    "properties": {
        "replicas": _INTEGER,
        "restartPolicy": {"type": "string", "enum": ["Never", "OnFailure"]},
        "template": _OPEN,
    },
}
_SPEC = {
    "type": "object",
    "required": ["mpiReplicaSpecs"],
    "properties": {
        "launcherCreationPolicy": {
            "type": "string",
            "enum": ["AtStartup", "WaitForWorkersReady"],
            "default": "AtStartup",
        },
        "mpiImplementation": {"type": "string", "enum": ["OpenMPI", "Intel", "MPICH"], "default": "OpenMPI"},
        "mpiReplicaSpecs": {"type": "object", "additionalProperties": _REPLICA},
        "runLauncherAsWorker": {"type": "boolean", "default": False},
        "runPolicy": {
            "type": "object",
            "properties": {
                "activeDeadlineSeconds": {"type": "integer", "format": "int64", "minimum": 0},
                "backoffLimit": {**_INTEGER, "minimum": 0},
                "cleanPodPolicy": {"type": "string", "enum": ["None", "Running", "All"]},
                "suspend": {"type": "boolean", "default": False},
                "ttlSecondsAfterFinished": {**_INTEGER, "minimum": 0},
            },
        },
        "slotsPerWorker": {**_INTEGER, "default": 1},
        "sshAuthMountPath": {"type": "string", "default": "/root/.ssh"},
    },
}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": CRD_NAME, "labels": OF_TESTS},
    "spec": {
        "group": "kubeflow.org",
        "names": {"kind": "MPIJob", "listKind": "MPIJobList", "plural": "mpijobs", "singular": "mpijob"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v2beta1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC, "status": _OPEN}}},
            }
        ],
    },
}

#: pkg/controller/mpi_job_controller.go, ompiEnvVars: names of Open MPI 4 alone.
OPENMPI_ENVIRONMENT = {
    "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
    "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
    "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
}


class _OfAnotherJob(Exception):
    """An object has the name of one that is to be made."""


class _Refused(Exception):
    """The cluster does not let an object be made."""


class PlayedOperator:
    """Acts on the MPIJobs of one namespace until it is stopped.

    ``service_suffix``: what the Service is called beyond the job's name, ``-worker`` in versions before 0.5.
    ``service_delay``: seconds after which the Service is made, for names that appear late.
    """

    def __init__(self, cluster: t.Any, namespace: str, service_suffix: str = "", service_delay: float = 0) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._service_suffix = service_suffix
        self._service_delay = service_delay
        self._first_seen: dict[str, float] = {}
        self._seen: dict[tuple[str, str], dict[str, t.Any]] = {}
        self._warned: set[tuple[str, str]] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.errors: list[str] = []

    def __enter__(self) -> PlayedOperator:
        self._thread.start()
        return self

    def __exit__(self, *_what: object) -> None:
        self._stop.set()
        self._thread.join(30)
        assert not self.errors, self.errors

    def _run(self) -> None:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            while not self._stop.wait(0.5):
                self._look()
                list(pool.map(self._act_on, self._list("MPIJob")))

    def _look(self) -> None:
        """See all there is by one question: each is a process."""
        done = self._kubectl("get", _KINDS, "--output=json", check=False)
        items = json.loads(done.stdout)["items"] if done.returncode == 0 else []
        self._seen = {(item["kind"], item["metadata"]["name"]): item for item in items}

    def _act_on(self, job: dict[str, t.Any]) -> None:
        if "deletionTimestamp" in job["metadata"]:
            return
        try:
            self._reconcile(job)
        except _OfAnotherJob as error:
            # Of an earlier one of that name it will go with that; the operator refuses it, and tries again.
            self._warn(job, str(error), "ErrResourceExists")
        except _Refused as error:
            self._warn(job, str(error))
        except Exception as error:  # what a thread raises is lost otherwise
            # With a job goes what was made for it, at times before the job.
            self._look()
            now = (self._find("MPIJob", job["metadata"]["name"]) or {}).get("metadata", {})
            if now.get("uid") == job["metadata"]["uid"] and "deletionTimestamp" not in now:
                self.errors.append(repr(error))

    def _reconcile(self, job: dict[str, t.Any]) -> None:
        name, spec = job["metadata"]["name"], job["spec"]
        status = copy.deepcopy(job.get("status") or {})
        if not status.get("conditions"):
            # Written when all went well, the first time too.
            self._condition(status, "Created", "MPIJobCreated", f"MPIJob {self._namespace}/{name} is created.")
        finished = any(
            item["type"] in ("Succeeded", "Failed") and item["status"] == "True" for item in status["conditions"]
        )
        replicas = spec["mpiReplicaSpecs"]["Worker"]["replicas"]
        if finished:
            if spec["runPolicy"].get("cleanPodPolicy") in ("All", "Running"):
                workers = [f"{name}-worker-{index}" for index in range(replicas)]
                left = [worker for worker in workers if ("Pod", worker) in self._seen]
                if left:
                    self._kubectl("delete", "pod", *left, "--ignore-not-found", "--wait=false")
            return
        began = self._first_seen.setdefault(job["metadata"]["uid"], time.monotonic())
        if time.monotonic() - began >= self._service_delay:
            self._ensure(job, self._service(job))
        self._ensure(job, self._config_map(job, replicas))
        if self._find("Secret", f"{name}-ssh", job) is None:
            self._ensure(job, self._secret(job))
        workers = []
        for index in range(replicas):
            found = self._find("Pod", f"{name}-worker-{index}", job)
            if found is None:
                self._ensure(job, self._worker(job, index))
            else:
                workers.append(found)
        running = [pod for pod in workers if pod["status"].get("phase") == "Running"]
        self._discover_hosts(job, running)
        ready = sum(
            item["type"] == "Ready" and item["status"] == "True"
            for pod in workers
            for item in pod["status"].get("conditions", ())
        )
        launcher = self._find("Job", f"{name}-launcher", job)
        at_once = spec.get("launcherCreationPolicy") != "WaitForWorkersReady"
        if launcher is None and (at_once or ready == replicas):
            self._ensure(job, self._launcher(job))
        self._report(job, status, launcher, running, replicas)

    def _report(
        self, job: dict[str, t.Any], status: dict[str, t.Any], launcher: t.Any, running: list[t.Any], replicas: int
    ) -> None:
        name = job["metadata"]["name"]
        status["replicaStatuses"] = {"Launcher": {}, "Worker": {"active": len(running)}}
        conditions = {item["type"]: item for item in ((launcher or {}).get("status") or {}).get("conditions", ())}
        pods = [
            pod for pod in self._list("Pod") if pod["metadata"].get("labels", {}).get("job-name") == f"{name}-launcher"
        ]
        if conditions.get("Complete", {}).get("status") == "True":
            status["replicaStatuses"]["Launcher"] = {"succeeded": 1}
            status["completionTime"] = launcher["status"]["completionTime"]
            self._condition(
                status, "Succeeded", "MPIJobSucceeded", f"MPIJob {self._namespace}/{name} successfully completed."
            )
        elif conditions.get("Failed", {}).get("status") == "True":
            failed = conditions["Failed"]
            status["replicaStatuses"]["Launcher"] = {"failed": launcher["status"].get("failed", 0)}
            reason, message = failed["reason"], failed.get("message", "")
            last = [pod for pod in pods if pod["status"].get("phase") == "Failed"]
            if reason == "BackoffLimitExceeded" and last:
                reason += "/" + last[-1]["status"].get("reason", "")
                message += ": " + last[-1]["status"].get("message", "")
            status["completionTime"] = _now()
            self._condition(status, "Failed", reason, message)
        elif sum(pod["status"].get("phase") == "Running" for pod in pods) >= 1 and len(running) == replicas:
            status["replicaStatuses"]["Launcher"] = {"active": 1}
            self._condition(status, "Running", "MPIJobRunning", f"MPIJob {self._namespace}/{name} is running.")
        self._write(job, status)

    def _write(self, job: dict[str, t.Any], status: dict[str, t.Any]) -> None:
        """Say what is known of a job, where that is new."""
        if status == job.get("status"):
            return
        job["status"] = copy.deepcopy(status)
        path = f"/apis/kubeflow.org/v2beta1/namespaces/{self._namespace}/mpijobs/{job['metadata']['name']}/status"
        done = self._kubectl("replace", "--raw", path, "--filename=-", stdin=json.dumps(job), check=False)
        if done.returncode == 0:
            job["metadata"] = json.loads(done.stdout)["metadata"]

    @staticmethod
    def _condition(status: dict[str, t.Any], kind: str, reason: str, message: str) -> None:
        old = next((item for item in status.get("conditions", ()) if item["type"] == kind), None)
        if old and (old["status"], old["reason"]) == ("True", reason):
            return
        others = [item for item in status.get("conditions", ()) if item["type"] != kind]
        if kind in ("Succeeded", "Failed"):
            others = [{**item, "status": "False"} if item["type"] == "Running" else item for item in others]
        new = {"type": kind, "status": "True", "reason": reason, "message": message}
        status["conditions"] = [*others, {**new, "lastUpdateTime": _now(), "lastTransitionTime": _now()}]

    def _service(self, job: dict[str, t.Any]) -> dict[str, t.Any]:
        name = job["metadata"]["name"]
        selector = {f"{_GROUP}/operator-name": "mpi-operator", f"{_GROUP}/job-name": name}
        if self._service_suffix:
            selector[f"{_GROUP}/job-role"] = "worker"
        spec = {"clusterIP": "None", "selector": selector}
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self._metadata(job, self._service_suffix),
            "spec": spec,
        }

    def _config_map(self, job: dict[str, t.Any], replicas: int) -> dict[str, t.Any]:
        slots = job["spec"].get("slotsPerWorker", 1)
        lines = [f"{self._host(job, index)} slots={slots}\n" for index in range(replicas)]
        data = {"hostfile": "".join(lines)}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": self._metadata(job, "-config"), "data": data}

    def _discover_hosts(self, job: dict[str, t.Any], running: list[dict[str, t.Any]]) -> None:
        service = job["metadata"]["name"] + self._service_suffix
        names = sorted(pod["metadata"]["name"] for pod in running)
        text = "#!/bin/sh\n" + "".join(f"echo {name}.{service}.{self._namespace}.svc\n" for name in names)
        found = self._find("ConfigMap", f"{job['metadata']['name']}-config", job)
        if found is not None and found["data"].get("discover_hosts.sh") != text:
            patch = json.dumps({"data": {"discover_hosts.sh": text}})
            self._kubectl("patch", "configmap", found["metadata"]["name"], "--type=merge", f"--patch={patch}")

    def _host(self, job: dict[str, t.Any], index: int) -> str:
        name = job["metadata"]["name"]
        return f"{name}-worker-{index}.{name}{self._service_suffix}.{self._namespace}.svc"

    def _secret(self, job: dict[str, t.Any]) -> dict[str, t.Any]:
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "key"
            command = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "521", "-m", "PEM", "-N", "", "-C", "", "-f", str(path)]
            subprocess.run(command, check=True)
            texts = {"ssh-privatekey": path.read_bytes(), "ssh-publickey": path.with_suffix(".pub").read_bytes()}
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": self._metadata(job, "-ssh"),
            "type": "kubernetes.io/ssh-auth",
            "data": {key: base64.b64encode(value).decode() for key, value in texts.items()},
        }

    def _worker(self, job: dict[str, t.Any], index: int) -> dict[str, t.Any]:
        replica = copy.deepcopy(job["spec"]["mpiReplicaSpecs"]["Worker"])
        name = f"{job['metadata']['name']}-worker-{index}"
        template = self._template(job, replica, "worker")
        template["metadata"]["labels"][f"{_GROUP}/replica-index"] = str(index)
        template["spec"]["hostname"] = name
        container = template["spec"]["containers"][0]
        if not container.get("command") and not container.get("args"):
            container["command"] = ["/usr/sbin/sshd", "-De"]
        container.setdefault("env", []).append({"name": "K_MPI_JOB_ROLE", "value": "worker"})
        metadata = {**self._metadata(job, f"-worker-{index}"), **template["metadata"]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}

    def _launcher(self, job: dict[str, t.Any]) -> dict[str, t.Any]:
        template = self._template(job, copy.deepcopy(job["spec"]["mpiReplicaSpecs"]["Launcher"]), "launcher")
        spec = template["spec"]
        spec["hostname"] = f"{job['metadata']['name']}-launcher"
        container = spec["containers"][0]
        environment = {
            "K_MPI_JOB_ROLE": "launcher",
            **OPENMPI_ENVIRONMENT,
            "OMPI_MCA_orte_set_default_slots": str(job["spec"].get("slotsPerWorker", 1)),
            "NVIDIA_VISIBLE_DEVICES": "",
            "NVIDIA_DRIVER_CAPABILITIES": "",
        }
        container.setdefault("env", []).extend({"name": key, "value": value} for key, value in environment.items())
        items = [
            {"key": "hostfile", "path": "hostfile", "mode": 0o444},
            {"key": "discover_hosts.sh", "path": "discover_hosts.sh", "mode": 0o555},
        ]
        source = {"name": f"{job['metadata']['name']}-config", "items": items}
        spec.setdefault("volumes", []).append({"name": "mpi-job-config", "configMap": source})
        container.setdefault("volumeMounts", []).append({"name": "mpi-job-config", "mountPath": "/etc/mpi"})
        policy = job["spec"].get("runPolicy") or {}
        kept = ("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit")
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": self._metadata(job, "-launcher"),
            "spec": {**{key: policy[key] for key in kept if key in policy}, "template": template},
        }

    def _template(self, job: dict[str, t.Any], replica: dict[str, t.Any], role: str) -> dict[str, t.Any]:
        """The pod template with what launcher and workers have in common."""
        name = job["metadata"]["name"]
        template = {"metadata": {}, **replica["template"]}
        own = {"operator-name": "mpi-operator", "job-name": name, "job-role": role}
        labels = {**template["metadata"].get("labels", {}), **{f"{_GROUP}/{key}": value for key, value in own.items()}}
        template["metadata"] = {**template["metadata"], "labels": labels}
        spec = template["spec"]
        spec["subdomain"] = name + self._service_suffix
        spec["restartPolicy"] = replica.get("restartPolicy", "Never")
        path = job["spec"].get("sshAuthMountPath", "/root/.ssh")
        secret: dict[str, t.Any] = {
            "secretName": f"{name}-ssh",
            "items": [
                {"key": "ssh-privatekey", "path": "id_rsa"},
                {"key": "ssh-publickey", "path": "id_rsa.pub"},
                {"key": "ssh-publickey", "path": "authorized_keys"},
            ],
        }
        if path == "/root/.ssh":
            secret["defaultMode"] = 0o600
        spec.setdefault("volumes", []).append({"name": "ssh-auth", "secret": secret})
        spec["containers"][0].setdefault("volumeMounts", []).append({"name": "ssh-auth", "mountPath": path})
        return template

    def _metadata(self, job: dict[str, t.Any], suffix: str) -> dict[str, t.Any]:
        name = job["metadata"]["name"]
        owner = {
            "apiVersion": "kubeflow.org/v2beta1",
            "kind": "MPIJob",
            "name": name,
            "uid": job["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        return {"name": name + suffix, "labels": {"app": name}, "ownerReferences": [owner]}

    def _ensure(self, job: dict[str, t.Any], manifest: dict[str, t.Any]) -> None:
        kind = manifest["kind"]
        if self._find(kind, manifest["metadata"]["name"], job) is not None:
            return
        done = self._kubectl("create", "--filename=-", stdin=json.dumps(manifest), check=False)
        if done.returncode != 0:
            what = {"Pod": "worker pod", "Job": "launcher pod"}.get(kind, kind)
            raise _Refused(f"{what} created failed: {done.stderr.strip()}")

    def _warn(self, job: dict[str, t.Any], message: str, reason: str = "MPIJobFailed") -> None:
        """As the operator does with what keeps it from going on. Kubernetes counts what is said again."""
        if (job["metadata"]["uid"], message) in self._warned:
            return
        self._warned.add((job["metadata"]["uid"], message))
        reference = {"kind": "MPIJob", "namespace": self._namespace}
        reference.update({key: job["metadata"][key] for key in ("name", "uid")})
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{job['metadata']['name']}."},
            "involvedObject": reference,
            "type": "Warning",
            "reason": reason,
            "message": message,
            "lastTimestamp": _now(),
        }
        self._kubectl("create", "--filename=-", stdin=json.dumps(event))

    def _find(self, kind: str, name: str, job: dict[str, t.Any] | None = None) -> dict[str, t.Any] | None:
        """An object. Raises _OfAnotherJob where it has another owner than ``job``."""
        found = self._seen.get((kind, name))
        if found is not None and job is not None:
            owners = [owner["uid"] for owner in found["metadata"].get("ownerReferences", ())]
            if owners != [job["metadata"]["uid"]]:
                # What the operator keeps of objects does not name their kind.
                raise _OfAnotherJob(f'Resource "{name}" of Kind "" already exists and is not managed by MPIJob')
        return found

    def _list(self, kind: str) -> list[dict[str, t.Any]]:
        return [item for (found, _name), item in self._seen.items() if found == kind]

    def _kubectl(self, *argv: str, **keywords: t.Any) -> t.Any:
        return self._cluster.kubectl(*argv, namespace=self._namespace, **keywords)


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
