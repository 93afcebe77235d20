# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""MPIJobs for the tests: their definition, and runs of the playbook mpijob."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import tempfile

import pytest
from background import wait
from leftovers import is_of_tests
from mpi_operator import CRD, CRD_NAME
from pod_runs import attempts

#: What a play says when it has looked at its job, one of these.
LOOKED = ("has not taken note of the job yet", "workers ready")
JOB_KINDS = "mpijobs,networkpolicies,configmaps,secrets,services,jobs,pods"


class Definition:
    """The definition of MPIJobs, which all of a cluster has or has not, while other tests run beside this one."""

    def __init__(self, cluster):
        found = cluster.kubectl("get", "crd", CRD_NAME, "--ignore-not-found", "--output=json").stdout
        # One that a killed run has left is used, and removed in the end.
        if found.strip() and not is_of_tests(json.loads(found)):
            pytest.skip("the cluster knows MPIJobs of its own: an operator may be there already")
        self._cluster = cluster
        # All tests of this machine agree by it, also those of two runs on one cluster.
        key = hashlib.sha256(cluster.server.encode()).hexdigest()[:16]
        self._path = pathlib.Path(tempfile.gettempdir()) / f"gpufabric-mpijobs-{os.getuid()}-{key}"

    @contextlib.contextmanager
    def there(self):
        with self._locked(fcntl.LOCK_SH):
            # kubectl apply looks and then creates, which fails for the second of two.
            with self._locked(fcntl.LOCK_EX, ".apply"):
                self._cluster.kubectl("apply", "--filename=-", stdin=json.dumps(CRD))
            self._cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", f"crd/{CRD_NAME}")
            yield

    @contextlib.contextmanager
    def missing(self):
        with self._locked(fcntl.LOCK_EX):
            self._cluster.kubectl("delete", "crd", CRD_NAME, "--ignore-not-found")
            yield

    def leave(self):
        """Remove it, unless others still use it and so will do that."""
        with contextlib.suppress(BlockingIOError), self._locked(fcntl.LOCK_EX | fcntl.LOCK_NB):
            self._cluster.kubectl("delete", "crd", CRD_NAME, "--ignore-not-found")

    @contextlib.contextmanager
    def _locked(self, how, suffix=""):
        with self._path.with_suffix(suffix).open("w") as file:
            fcntl.flock(file, how)
            yield


#: Of the workers of a job that is none of ours.
_SSHD = "mkdir -p /run/sshd; ssh-keygen -A; exec /usr/sbin/sshd -De -o StrictModes=no -o AuthorizedKeysFile=$KEYS/authorized_keys"


def _job_of_others(image, keys):
    """An MPIJob as people write them: nothing in it is of this collection."""

    def template(name, command):
        container = {"name": name, "image": image, "imagePullPolicy": "IfNotPresent", "command": command}
        container["env"] = [{"name": "KEYS", "value": keys}]
        if name == "worker":
            container["readinessProbe"] = {"tcpSocket": {"port": 22}, "periodSeconds": 1}
        return {"template": {"spec": {"terminationGracePeriodSeconds": 0, "containers": [container]}}}

    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "train"},
        "spec": {
            "slotsPerWorker": 2,
            "sshAuthMountPath": keys,
            "runPolicy": {"cleanPodPolicy": "Running"},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, **template("launcher", ["sleep", "infinity"])},
                "Worker": {"replicas": 2, **template("worker", ["sh", "-c", _SSHD])},
            },
        },
    }


def start_job_of_others(cluster, pods, keys):
    """Create the MPIJob ``train`` of two workers, which an operator of the test's makes pods of; once it runs, the launcher's pod.

    ``keys``: where the operator mounts its keys.
    """
    cluster.create(_job_of_others(cluster.image, keys), namespace=pods.namespace)

    def status():
        return cluster.get("mpijob", "train", namespace=pods.namespace).get("status", {})

    wait(lambda: "Running" in [condition["type"] for condition in status().get("conditions", ())], left=status)
    pods.wait_ready("train-worker-0", "train-worker-1")
    found = cluster.get("pods", "--selector=training.kubeflow.org/job-role=launcher", namespace=pods.namespace)["items"]
    return found[0]["metadata"]["name"]


class JobRuns:
    """Runs the playbook with small settings."""

    def __init__(self, player, cluster, namespace, directory):
        self._player = player
        self._cluster = cluster
        self.namespace = namespace
        self.directory = directory

    def __call__(self, *arguments, **variables):
        return self._player.playbook("gpufabric.nccl.mpijob", *arguments, **{**self._small(), **variables})

    def attempts(self, cases):
        """Submit several jobs at once, by the playbook's role. Each is a host, with its variables; the play, and problems by host."""
        self.directory.mkdir(exist_ok=True)
        played = attempts(self._player, self.directory, "gpufabric.nccl.mpijob", self._small(), cases)
        results = {
            record["host"]: record["result"]["ansible_facts"]["mpijob_results"]
            for record in played.records
            if "mpijob_results" in record["result"].get("ansible_facts", {})
        }
        assert results.keys() == cases.keys(), played.output
        return played, {
            name: [problem for result in own for problem in result["problems"]] for name, own in results.items()
        }

    def _small(self):
        return {
            "gpufabric_run_id": "t1",
            "gpufabric_namespace": self.namespace,
            # Fault records name the pods.
            "mpijob_name": "gpufabric-{{ gpufabric_run_id }}",
            "mpijob_image": self._cluster.image,
            "mpijob_shm_size": "64Mi",
            "mpijob_gpus": 0,
            "mpijob_dns_interval": 1,
            "mpijob_operator_timeout": 300,
            "nccl_benchmark_backend": "cpu",
            "nccl_benchmark_max_bytes": "64K",
            "nccl_benchmark_iterations": 3,
            "report_dir": str(self.directory),
        }

    def through(self, relay):
        """The same, which asks by a way that can be cut: a play that has looked once waits there, and gives up later."""
        player = self._player.within({**self._cluster.environment, **relay.environment})
        return JobRuns(player, self._cluster, self.namespace, self.directory)

    def results(self):
        return json.loads((self.directory / "results.json").read_text())["results"]

    def problems(self):
        return [problem for result in self.results() for problem in result["problems"]]

    def labelled(self, run_id="t1"):
        """What carries the run's label, as ``KIND/NAME``."""
        done = self._cluster.kubectl(
            "get", JOB_KINDS, f"--selector=gpufabric.nccl/mpijob={run_id}", "--output=name", namespace=self.namespace
        )
        return sorted(done.stdout.split())

    def wait_gone(self):
        """Wait until nothing carries the run's label: an operator may make a pod while its job is removed, which then goes too."""
        wait(lambda: self.labelled() == [], left=self.labelled)
