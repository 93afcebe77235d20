# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook mpijob on a real cluster, with real pods, sshd and mpirun; the MPI Operator alone is played (mpi_operator.py)."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time

import pytest
from mpi_operator import CRD, CRD_NAME, PlayedOperator

JOB_KINDS = "mpijobs,configmaps,secrets,services,jobs,pods"


class Definition:
    """The definition of MPIJobs, which all of a cluster has or has not, while other tests run beside this one."""

    def __init__(self, cluster, path):
        if cluster.kubectl("get", "crd", CRD_NAME, check=False).returncode == 0 and not path.exists():
            pytest.skip("the cluster knows MPIJobs of its own: an operator may be there already")
        self._cluster = cluster
        self._path = path

    @contextlib.contextmanager
    def there(self):
        with self._locked(fcntl.LOCK_SH):
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
    def _locked(self, how):
        with self._path.open("w") as file:
            fcntl.flock(file, how)
            yield


@pytest.fixture(scope="session")
def definition(cluster, tmp_path_factory):
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    definition = Definition(cluster, tmp_path_factory.getbasetemp().parent / f"mpijobs-{run}")
    yield definition
    definition.leave()


@pytest.fixture
def mpijobs(definition):
    """A cluster that knows MPIJobs; nothing acts on them yet."""
    with definition.there():
        yield


@pytest.fixture
def operator(cluster, namespace, mpijobs):
    """The operator, played."""
    with PlayedOperator(cluster, namespace) as played:
        yield played


class Runs:
    """Runs the playbook with small settings."""

    def __init__(self, player, cluster, namespace, directory):
        self._player = player
        self._cluster = cluster
        self.namespace = namespace
        self.directory = directory

    def __call__(self, **variables):
        return self._player.playbook(
            "gpufabric.nccl.mpijob",
            **{
                "gpufabric_run_id": "t1",
                "gpufabric_namespace": self.namespace,
                "mpijob_image": self._cluster.image,
                "mpijob_shm_size": "64Mi",
                "mpijob_gpus": 0,
                "mpijob_dns_interval": 1,
                "nccl_benchmark_backend": "cpu",
                "nccl_benchmark_max_bytes": "64K",
                "nccl_benchmark_iterations": 3,
                "report_dir": str(self.directory),
                **variables,
            },
        )

    def results(self):
        return json.loads((self.directory / "results.json").read_text())["results"]

    def problems(self):
        return [problem for result in self.results() for problem in result["problems"]]

    def labelled(self, run_id="t1"):
        """What carries the run's label, as ``KIND/NAME``."""
        done = self._cluster.kubectl(
            "get", JOB_KINDS, f"--selector=gpufabric.nccl/run={run_id}", "--output=name", namespace=self.namespace
        )
        return sorted(done.stdout.split())


@pytest.fixture
def run(cluster_player, cluster, namespace, tmp_path):
    return Runs(cluster_player, cluster, namespace, tmp_path / "report")


def test_without_the_operator_says_so(run, definition):
    with definition.missing():
        played = run()
    assert played.returncode != 0
    assert "The MPI Operator is not in this cluster" in played.output


def test_submitted_job_gives_a_result_and_leaves_nothing(run, operator):
    played = run(mpijob_replicas=3, mpijob_slots=2, nccl_benchmark_collectives=["all_reduce", "broadcast"])
    assert played.returncode == 0, played.output
    results = run.results()
    assert [result["collective"] for result in results] == ["all_reduce", "broadcast"]
    for result in results:
        assert result["verdict"] == "pass"
        assert (result["host_count"], result["rank_count"]) == (3, 6)
        assert {rank["host"] for rank in result["ranks"]} == {f"gpufabric-t1-worker-{index}" for index in range(3)}
    assert "3 of 3 workers ready" in played.output
    assert "busbw" in played.output
    assert run.labelled() == []
    assert "3 hosts take part" in (run.directory / "launcher.log").read_text()


def test_names_that_appear_late_are_waited_for(run, cluster, namespace, mpijobs):
    # The Service is there ten seconds after all workers are ready and the launcher runs.
    with PlayedOperator(cluster, namespace, service_suffix="-worker", service_delay=20):
        played = run()
    assert played.returncode == 0, played.output
    assert run.results()[0]["verdict"] == "pass"


def test_names_that_never_appear_are_named_with_what_the_launcher_saw(run, cluster, namespace, mpijobs):
    with PlayedOperator(cluster, namespace, service_delay=600):
        played = run(mpijob_dns_timeout=2)
    assert played.returncode != 0
    problem = run.problems()[0]
    assert problem["id"] == "names-unresolved"
    assert "2 of 2 workers: gpufabric-t1-worker-0, gpufabric-t1-worker-1" in problem["cause"]
    assert "nameserver" in problem["evidence"] and "slots=1" in problem["evidence"]
    assert problem["cause"] in " ".join(played.output.split())
    assert run.labelled() == []


def test_program_that_fails_is_told_with_its_words(run, operator):
    played = run(nccl_benchmark_extra_args=["--no-such-option"])
    assert played.returncode != 0
    (problem,) = run.problems()
    assert problem["id"] == "run-failed" and "no-such-option" in problem["evidence"]
    assert "no-such-option" in (run.directory / "launcher.log").read_text()
    assert "no-such-option" in played.output


@pytest.mark.parametrize(
    ("settings", "identity", "words"),
    [
        (
            {"mpijob_image": "localhost/no-such-image:1", "mpijob_image_pull_policy": "Never"},
            "pod-image",
            "mpijob_image_pull_policy",
        ),
        ({"mpijob_gpus": 4, "nccl_benchmark_backend": "nccl"}, "pod-unschedulable", "nvidia.com/gpu"),
        ({"mpijob_command": ["sh", "-c", "echo cannot work >&2; exit 7"]}, "pod-crash", "cannot work"),
    ],
)
def test_worker_that_never_starts_is_named_with_the_reason(run, operator, settings, identity, words):
    played = run(mpijob_start_timeout=12, **settings)
    assert played.returncode != 0
    problem = run.problems()[0]
    assert (problem["id"], problem["host"]) == (identity, "gpufabric-t1-worker-0")
    assert words in problem["cause"] + problem["cure"] + problem["evidence"]
    assert "timed out" not in problem["cause"]
    assert run.labelled() == []


def test_operator_that_does_nothing_is_named(run, mpijobs):
    played = run(mpijob_operator_timeout=3)
    assert played.returncode != 0
    assert [problem["id"] for problem in run.problems()] == ["operator-idle"]
    assert run.labelled() == []


def test_under_a_user_id_without_a_name_and_with_keys_elsewhere(run, operator):
    played = run(
        mpijob_run_as_user=123456,
        mpijob_run_as_group=0,
        mpijob_ssh_auth_mount_path="/etc/mpi-keys",
        mpijob_state="submitted",
    )
    assert played.returncode == 0, played.output
    assert run.results()[0]["host_count"] == 2


def test_kept_job_is_removed_by_the_command_that_is_shown_or_replaced_by_the_next_run(run, cluster, operator):
    assert run(mpijob_keep=True).returncode == 0
    assert "mpijob.kubeflow.org/gpufabric-t1" in run.labelled()
    played = run(mpijob_keep=True)
    assert played.returncode == 0, played.output
    command = re.search(r"kubectl (.*--selector \S+)", played.output).group(1)
    cluster.kubectl(*command.split(), "--cascade=foreground")
    assert run.labelled() == []


def test_teardown_removes_its_own_run_alone(run, cluster, operator, cluster_player):
    for run_id in ("t1", "t2"):
        assert run(gpufabric_run_id=run_id, mpijob_keep=True).returncode == 0
    role = {"name": "gpufabric.nccl.mpijob", "tasks_from": "teardown"}
    play = {"hosts": "localhost", "gather_facts": False, "tasks": [{"ansible.builtin.include_role": role}]}
    played = cluster_player.playbook([play], gpufabric_run_id="t1", gpufabric_namespace=run.namespace)
    assert played.returncode == 0, played.output
    assert run.labelled() == [] and run.labelled("t2")


def test_rendered_manifest_is_valid_and_stays_the_same(run, cluster, tmp_path, mpijobs):
    path = tmp_path / "job.yaml"
    settings = {
        "mpijob_state": "rendered",
        "mpijob_manifest": str(path),
        "mpijob_networks": ["sriov"],
        "mpijob_capabilities": ["IPC_LOCK"],
        "nccl_benchmark_env": {"NCCL_DEBUG": "INFO", "ODD": "$(HOME) 'and' \"quotes\""},
    }
    played = run(**settings)
    assert played.returncode == 0, played.output
    text = path.read_text()
    done = cluster.kubectl("apply", "--dry-run=server", f"--filename={path}", namespace=run.namespace)
    assert "mpijob.kubeflow.org/gpufabric-t1 created" in done.stdout
    again = run(**settings)
    assert path.read_text() == text and not again.changed()
    swept = run(**settings, nccl_benchmark_sweep={"collectives": ["all_reduce"]})
    assert swept.returncode != 0 and "nccl_benchmark_sweep: an MPIJob that is submitted" in swept.output
    # No cluster was asked: not even one that is there.
    assert not [record for record in again.records if record["action"].startswith("kubernetes.")]
    assert run.labelled() == []


def test_a_user_who_may_not_make_jobs_is_told_which_permissions_are_missing(run, cluster, namespace, mpijobs, tmp_path):
    cluster.kubectl("create", "serviceaccount", "looker", namespace=namespace)
    cluster.kubectl(
        "create",
        "role",
        "looks",
        "--verb=get,list",
        "--resource=pods,pods/log,mpijobs.kubeflow.org,configmaps",
        namespace=namespace,
    )
    cluster.kubectl(
        "create", "rolebinding", "looks", "--role=looks", f"--serviceaccount={namespace}:looker", namespace=namespace
    )
    played = run(gpufabric_kubeconfig=str(_kubeconfig_of(cluster, namespace, "looker", tmp_path)))
    assert played.returncode != 0
    assert "create, patch, delete mpijobs.kubeflow.org" in " ".join(played.output.split())
    assert "create, patch, delete configmaps" in " ".join(played.output.split())


def _kubeconfig_of(cluster, namespace, account, directory):
    """A kubeconfig of a service account."""
    config = json.loads(cluster.kubectl("config", "view", "--raw", "--flatten", "--minify", "--output=json").stdout)
    done = cluster.kubectl("create", "token", account, namespace=namespace, check=False)
    if done.returncode == 0:
        token = done.stdout.strip()
    else:
        owner = '(index .metadata.annotations "kubernetes.io/service-account.name")'
        query = f'{{{{range .items}}}}{{{{if eq {owner} "{account}"}}}}{{{{.data.token | base64decode}}}}{{{{end}}}}{{{{end}}}}'
        token = cluster.kubectl("get", "secrets", f"--output=go-template={query}", namespace=namespace).stdout
    config["users"][0]["user"] = {"token": token}
    path = directory / "kubeconfig.json"
    path.write_text(json.dumps(config))
    return path


SSHD = "mkdir -p /run/sshd; ssh-keygen -A; exec /usr/sbin/sshd -De -o StrictModes=no -o AuthorizedKeysFile=$KEYS/authorized_keys"


def _job_of_others(image, keys):
    """An MPIJob as people write them: nothing in it is of this collection."""

    def template(name, command):
        container = {"name": name, "image": image, "imagePullPolicy": "IfNotPresent", "command": command}
        container["env"] = [{"name": "KEYS", "value": keys}]
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
                "Worker": {"replicas": 2, **template("worker", ["sh", "-c", SSHD])},
            },
        },
    }


# The operator mounts keys below /root/.ssh with the mode that ssh asks for, and elsewhere with one that it refuses.
@pytest.mark.parametrize("keys", ["/root/.ssh", "/etc/mpi-keys"])
def test_adopted_job_is_used_as_it_is(run, cluster, operator, keys):
    cluster.create(_job_of_others(cluster.image, keys), namespace=run.namespace)
    deadline = time.monotonic() + 60
    while True:
        status = cluster.get("mpijob", "train", namespace=run.namespace).get("status", {})
        if "Running" in [condition["type"] for condition in status.get("conditions", ())]:
            break
        assert time.monotonic() < deadline, status
        time.sleep(0.5)
    before = _state(cluster, run.namespace)
    played = run(
        mpijob_state="adopted",
        mpijob_name="train",
        mpijob_ssh_auth_mount_path=keys,
        nccl_benchmark_collectives=["all_reduce", "broadcast"],
    )
    assert played.returncode == 0, played.output
    for result in run.results():
        assert (result["verdict"], result["host_count"], result["rank_count"]) == ("pass", 2, 4)
    assert _state(cluster, run.namespace) == before
    assert played.executions("train-worker-1") == [
        "gpufabric.nccl.nccl_benchmark : Look | Ask every worker what it has"
    ]
    for pod in ("train-worker-0", before["launcher"]):
        done = cluster.kubectl("exec", pod, "--", "ls", "/run", namespace=run.namespace)
        assert "gpufabric" not in done.stdout


def _state(cluster, namespace):
    """What there is of the job, without what time changes."""
    objects = cluster.get(JOB_KINDS, namespace=namespace)["items"]
    launcher = [item["metadata"]["name"] for item in objects if item["metadata"]["name"].startswith("train-launcher-")]
    return {
        "launcher": launcher[0],
        "objects": sorted((item["kind"], item["metadata"]["name"], json.dumps(item.get("spec"))) for item in objects),
        "restarts": [
            status["restartCount"] for item in objects for status in item.get("status", {}).get("containerStatuses", ())
        ],
    }
