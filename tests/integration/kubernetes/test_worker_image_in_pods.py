# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The worker image in pods, with the Secret, the Service and the mounts that the MPI Operator makes for a job.

The operator itself is not there: these are the objects of its published source (pkg/controller/mpi_job_controller.go).
"""

from __future__ import annotations

import base64
import pathlib
import subprocess
import typing as t

import pytest
from background import wait

JOB = "job"
#: As OpenShift chooses them.
USER_ID = 1000730000


def operator_secret(directory: pathlib.Path) -> dict[str, t.Any]:
    """The Secret of a job: a key pair, the private half in PEM."""
    key = directory / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-b", "521", "-m", "PEM", "-N", "", "-f", key], check=True)
    data = {"ssh-privatekey": key.read_bytes(), "ssh-publickey": key.with_suffix(".pub").read_bytes()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{JOB}-ssh"},
        "type": "kubernetes.io/ssh-auth",
        "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
    }


class Job:
    """Pods of one job in a namespace."""

    def __init__(self, cluster: t.Any, namespace: str) -> None:
        self._cluster = cluster
        self.namespace = namespace

    def create(
        self, name: str, *arguments: str, restart: str = "Never", mount: str = "/root/.ssh", env: dict | None = None,
        port: int = 22, items: t.Sequence[str] = ("id_rsa", "id_rsa.pub", "authorized_keys"), context: dict | None = None,
        pod: dict | None = None, volumes: dict | None = None,
    ) -> None:  # fmt: skip
        """Create a pod; ``context`` and ``pod``: the container's and the pod's securityContext."""
        keys = {"id_rsa": "ssh-privatekey", "id_rsa.pub": "ssh-publickey", "authorized_keys": "ssh-publickey"}
        secret: dict[str, t.Any] = {
            "secretName": f"{JOB}-ssh",
            "items": [{"key": keys[item], "path": item} for item in items],
        }
        if mount == "/root/.ssh":
            secret["defaultMode"] = 0o600
        is_worker = arguments == ("shell",)
        self._cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "labels": {"job": JOB}},
                "spec": {
                    "hostname": name,
                    "subdomain": JOB,
                    "restartPolicy": restart,
                    "automountServiceAccountToken": False,
                    "securityContext": pod or {},
                    "containers": [
                        {
                            "name": "main",
                            "image": self._cluster.image,
                            "imagePullPolicy": "IfNotPresent",
                            "args": list(arguments),
                            "env": [
                                {"name": key, "value": value}
                                for key, value in {**({"START_SSHD": "true"} if is_worker else {}), **(env or {})}.items()
                            ],
                            "securityContext": context or {},
                            "volumeMounts": [
                                {"name": "ssh-auth", "mountPath": mount},
                                *({"name": key, "mountPath": path} for key, path in (volumes or {}).items()),
                            ],
                            **({"readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1}} if is_worker else {}),
                        }
                    ],
                    "volumes": [
                        {"name": "ssh-auth", "secret": secret},
                        *({"name": key, "emptyDir": {}} for key in volumes or {}),
                    ],
                },
            },
            namespace=self.namespace,
        )  # fmt: skip

    def kubectl(self, *argv: str, check: bool = True) -> str:
        return self._cluster.kubectl(*argv, namespace=self.namespace, check=check).stdout

    def wait_ready(self, *names: str) -> None:
        pods = [f"pod/{name}" for name in names]
        done = self._cluster.kubectl(
            "wait", "--for=condition=Ready", "--timeout=240s", *pods, namespace=self.namespace, check=False
        )
        logs = [self.kubectl("logs", name, check=False) for name in names] if done.returncode else []
        assert done.returncode == 0, (done.stderr, logs, self.kubectl("get", "pods", "--output=wide"))

    def status(self, name: str) -> dict[str, t.Any]:
        """The status of a pod's container, once there is one."""
        statuses = self._cluster.get("pod", name, namespace=self.namespace)["status"].get("containerStatuses")
        return statuses[0] if statuses else {"state": {}, "lastState": {}, "restartCount": 0}

    def finish(self, name: str) -> tuple[int, str]:
        """Exit status and log of a pod that ends by itself."""
        wait(lambda: "terminated" in self.status(name)["state"], left=lambda: self.kubectl("describe", "pod", name))
        return self.status(name)["state"]["terminated"]["exitCode"], self.kubectl("logs", name)


@pytest.fixture
def job(cluster: t.Any, namespace: str, tmp_path: pathlib.Path) -> Job:
    """A job with its Secret and its Service, without pods yet."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": JOB},
        "spec": {"clusterIP": "None", "selector": {"job": JOB}},
    }
    cluster.create(operator_secret(tmp_path), service, namespace=namespace)
    return Job(cluster, namespace)


def names(job: Job, count: int) -> list[str]:
    return [f"{JOB}-worker-{index}.{JOB}.{job.namespace}.svc" for index in range(count)]


def after_names(job: Job, count: int, command: str) -> list[str]:
    """A launcher's command that waits for the workers' names first."""
    waits = "".join(f"until getent hosts {name} >/dev/null; do sleep 0.2; done; " for name in names(job, count))
    return ["bash", "-c", waits + command]


def test_launcher_runs_mpi_on_workers_with_the_operators_secret(job):
    environment = {"LD_LIBRARY_PATH": "/opt/lib of workers", "NCCL_DEBUG": "WARN"}
    for index in range(2):
        job.create(f"{JOB}-worker-{index}", "shell", env=environment)
    job.wait_ready(f"{JOB}-worker-0", f"{JOB}-worker-1")

    # As the articles do it, and without any option.
    first, second = names(job, 2)
    show = "'hostname; echo $LD_LIBRARY_PATH; echo $NCCL_DEBUG'"
    script = f"ssh -o StrictHostKeyChecking=no {first} {show} && ssh -o BatchMode=yes {second} {show}"
    job.create("by-ssh", *after_names(job, 2, script))
    assert job.finish("by-ssh") == (
        0,
        "".join(f"{JOB}-worker-{index}\n/opt/lib of workers\nWARN\n" for index in range(2)),
    )

    mpi = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    }
    mpirun = f"mpirun --mca oob_tcp_if_include eth0 --host {first},{second} -np 2 hostname"
    job.create("by-mpirun", *after_names(job, 2, mpirun), env=mpi)
    status, log = job.finish("by-mpirun")
    assert status == 0, log
    # mpirun gives the agents that it starts a process group, and so do they themselves: it warns where they were first.
    told = [line for line in log.splitlines() if "Warning: setpgid(" not in line]
    assert sorted(told) == [f"{JOB}-worker-0", f"{JOB}-worker-1"], log


@pytest.mark.parametrize(
    "read_only",
    [
        pytest.param(False, id="root file system of the image"),
        pytest.param(True, id="read-only root file system", marks=pytest.mark.slow),
    ],
)
def test_arbitrary_user_id_without_entry(job, read_only):
    arbitrary = {
        "mount": "/etc/job-keys",
        "env": {"SSH_AUTH_DIR": "/etc/job-keys"},
        "pod": {"runAsUser": USER_ID, "runAsGroup": 0, "fsGroup": USER_ID},
        "context": {
            "runAsNonRoot": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": read_only,
        },
        "volumes": {"tmp": "/tmp"} if read_only else {},
    }
    job.create(f"{JOB}-worker-0", "shell", port=2222, **arbitrary)
    job.wait_ready(f"{JOB}-worker-0")
    job.create("launcher", *after_names(job, 1, f"ssh -o BatchMode=yes {names(job, 1)[0]} 'hostname; id -u; id -un'"), **arbitrary)  # fmt: skip
    assert job.finish("launcher") == (0, f"{JOB}-worker-0\n{USER_ID}\nworker\n")


@pytest.mark.slow
def test_a_worker_that_is_deleted_ends_at_once(job):
    job.create(f"{JOB}-worker-0", "shell")
    job.wait_ready(f"{JOB}-worker-0")
    # kubectl fails where it is not gone in time: Kubernetes would wait longer for one that does not listen.
    job.kubectl("delete", "pod", f"{JOB}-worker-0", "--grace-period=600", "--timeout=120s")


@pytest.mark.slow
def test_a_worker_that_cannot_serve_fails_and_says_why(job):
    job.create(f"{JOB}-worker-0", "shell", items=["id_rsa"])
    status, log = job.finish(f"{JOB}-worker-0")
    assert status == 1
    assert log == (
        "gpufabric-worker: no authorized_keys in /root/.ssh (id_rsa): mount the Secret there,"
        " with an item whose path is authorized_keys, or set SSH_AUTH_DIR\n"
    )
    assert job.kubectl("get", "pod", f"{JOB}-worker-0", "--output=jsonpath={.status.phase}") == "Failed"


@pytest.mark.slow
def test_a_worker_whose_sshd_dies_is_started_again(job):
    job.create(f"{JOB}-worker-0", "shell", restart="OnFailure")
    job.wait_ready(f"{JOB}-worker-0")
    job.kubectl("exec", f"{JOB}-worker-0", "--", "pkill", "-KILL", "-o", "-x", "sshd")

    def is_back() -> bool:
        status = job.status(f"{JOB}-worker-0")
        return status["restartCount"] > 0 and status["ready"]

    wait(is_back, left=lambda: job.kubectl("describe", "pod", f"{JOB}-worker-0"))
    assert job.status(f"{JOB}-worker-0")["lastState"]["terminated"]["exitCode"] == 1
    log = job.kubectl("logs", "--previous", f"{JOB}-worker-0")
    assert log.endswith("gpufabric-worker: sshd was ended by SIGKILL, so this container ends\n"), log


def test_nothing_in_the_image_is_for_all_user_ids_to_write(job):
    find = "find / -xdev ! -type l -perm /022"
    # As the user that it may be run by, who also tries it.
    writable = f"{find} ! -perm -1000; find / -xdev ! -type l -writable ! -perm -1000 2>/dev/null"
    identity = {"runAsUser": USER_ID, "runAsGroup": 0}
    job.create("modes", "sh", "-c", f"ls /etc/ssh; {find} ! -perm -1000")
    job.create("tried", "sh", "-c", f"umask 077; {writable}; true", pod=identity, mount="/etc/job-keys")
    status, log = job.finish("modes")
    assert status == 0 and "ssh_host_" not in log, log
    assert [line for line in log.splitlines() if line.startswith("/")] == []
    status, log = job.finish("tried")
    # What the entrypoint has made is in /tmp, and the user's own.
    found = [
        line
        for line in log.splitlines()
        if line.startswith("/") and not line.startswith(f"/tmp/gpufabric-worker-{USER_ID}")
    ]
    assert status == 0 and found == [], log
