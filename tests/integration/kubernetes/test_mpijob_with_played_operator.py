# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook mpijob on a real cluster, with real pods, sshd and mpirun; the MPI Operator alone is played (mpi_operator.py)."""

from __future__ import annotations

import concurrent.futures
import json
import re

import pytest
import yaml
from background import wait
from job_runs import JOB_KINDS, LOOKED, JobRuns, start_job_of_others
from mpi_operator import PlayedOperator
from pod_runs import STARTING


@pytest.fixture
def run(cluster_player, cluster, namespace, tmp_path):
    return JobRuns(cluster_player, cluster, namespace, tmp_path / "report")


def problems_of(played):
    """What the one task says that failed."""
    (failed,) = [record for record in played.records if record["status"] == "failed"]
    return failed["result"]["problems"]


def test_without_the_operator_says_so(run, definition, faults):
    with definition.missing():
        played = run()
    assert played.returncode != 0
    assert "The cluster has no MPI Operator" in played.output
    problems = problems_of(played)
    faults.fault("MPI Operator missing", problems, "operator-missing", None, "mpijob", "the cluster")


def test_submitted_job_gives_a_result_and_leaves_nothing(run, operator, faults):
    played = run(
        mpijob_name="",
        mpijob_replicas=3,
        mpijob_slots=2,
        nccl_benchmark_collectives=["all_reduce", "broadcast"],
        nccl_benchmark_cycles=2,
    )
    assert played.returncode == 0, played.output
    results = run.results()
    assert [result["collective"] for result in results] == ["all_reduce", "broadcast"]
    for result in results:
        assert result["verdict"] == "pass"
        assert result["soak"]["cycles"] == 2 and result["soak"]["begin"] is not None
        assert (result["host_count"], result["rank_count"]) == (3, 6)
        hosts = sorted({rank["host"] for rank in result["ranks"]})
        (name,) = {host.rpartition("-worker-")[0] for host in hosts}
        assert re.fullmatch("gpufabric-t1-[a-z0-9]{5}", name)
        assert hosts == [f"{name}-worker-{index}" for index in range(3)]
    assert "3 of 3 workers ready" in played.output
    assert "busbw" in played.output
    run.wait_gone()
    log = (run.directory / "launcher.log").read_text()
    assert "3 hosts take part" in log and "control network of ranks daemons: eth0" in log
    assert log.count("DNS OK gpufabric-t1-") == 3
    faults.healthy("playbook mpijob", run.problems(), "mpijob")


@pytest.mark.slow
def test_a_job_goes_on_while_the_api_server_is_restarted(run, cluster, namespace, operator, relay):
    def launcher_runs():
        pods = ["--selector=training.kubeflow.org/job-role=launcher", "--output=jsonpath={.items[*].status.phase}"]
        return cluster.kubectl("get", "pods", *pods, namespace=namespace).stdout == "Running"

    with concurrent.futures.ThreadPoolExecutor() as pool:
        playing = pool.submit(run.through(relay), gpufabric_kubeconfig=str(relay.kubeconfig))
        wait(lambda: launcher_runs() or playing.done(), 600, pause=1)
        # More than one look finds nobody there.
        relay.go_away_from(playing, "the API server does not answer, asked again for 120 s", 6)
        played = playing.result()
    assert played.returncode == 0, played.output
    assert run.results()[0]["verdict"] == "pass"
    run.wait_gone()


@pytest.mark.slow
def test_names_that_appear_late_are_waited_for(run, cluster, namespace, mpijobs):
    # The Service is there ten seconds after all workers are ready and the launcher runs.
    with PlayedOperator(cluster, namespace, service_suffix="-worker", service_delay=20):
        played = run()
    assert played.returncode == 0, played.output
    assert run.results()[0]["verdict"] == "pass"


@pytest.mark.slow
def test_an_address_of_an_earlier_worker_is_given_up(run, cluster, namespace, mpijobs):
    """At first the names of the workers have the addresses that those of an earlier job of this name had."""
    name, workers = "gpufabric-t1", [f"gpufabric-t1-worker-{index}" for index in range(2)]
    earlier = ["10.88.250.250", "10.88.250.251"]

    def endpoints(addresses):
        entries = [{"ip": ip, "hostname": worker} for worker, ip in zip(workers, addresses)]
        return {"subsets": [{"addresses": entries}]}

    def launcher_says():
        which = ["--selector=training.kubeflow.org/job-role=launcher", "--tail=-1"]
        return cluster.kubectl("logs", *which, namespace=namespace, check=False).stdout

    def addresses_of_workers():
        items = cluster.get("pods", namespace=namespace)["items"]
        found = {pod["metadata"]["name"]: pod["status"].get("podIP") for pod in items}
        return [found.get(worker) for worker in workers]

    service = {"kind": "Service", "metadata": {"name": name}, "spec": {"clusterIP": "None"}}
    by_hand = {"kind": "Endpoints", "metadata": {"name": name}, **endpoints(earlier)}
    cluster.create(*({"apiVersion": "v1", **item} for item in (service, by_hand)), namespace=namespace)
    # The operator would make a Service of the same name.
    with PlayedOperator(cluster, namespace, service_delay=3600), concurrent.futures.ThreadPoolExecutor() as pool:
        playing = pool.submit(run, mpijob_dns_timeout=300)
        wait(lambda: all(f" {ip}\n" in launcher_says() for ip in earlier) or playing.done(), 600, left=launcher_says)
        wait(lambda: all(addresses_of_workers()) or playing.done(), left=addresses_of_workers)
        if not playing.done():
            patch = json.dumps(endpoints(addresses_of_workers()))
            cluster.kubectl("patch", "endpoints", name, "--type=merge", f"--patch={patch}", namespace=namespace)
        played = playing.result()
    assert played.returncode == 0, played.output
    assert (run.results()[0]["verdict"], run.results()[0]["host_count"]) == ("pass", 2)
    log = (run.directory / "launcher.log").read_text()
    assert [f", no longer {ip}\n" in log for ip in earlier] == [True, True], log
    run.wait_gone()


@pytest.mark.slow
def test_names_that_never_appear_are_named_with_what_the_launcher_saw(run, cluster, namespace, mpijobs, faults):
    with PlayedOperator(cluster, namespace, service_delay=600):
        played = run(mpijob_dns_timeout=2)
    assert played.returncode != 0
    problem = run.problems()[0]
    words = "names of the workers that never resolve, without a Service"
    faults.fault(words, run.problems(), "names-unresolved", None, "mpijob", "the launcher")
    assert "2 of 2 workers" in problem["cause"]
    assert "gpufabric-t1-worker-0, gpufabric-t1-worker-1" in problem["evidence"]
    assert "nameserver" in problem["evidence"] and "slots=1" in problem["evidence"]
    assert problem["cause"] in " ".join(played.output.split())
    run.wait_gone()


@pytest.mark.slow
def test_a_job_that_goes_on_is_followed_by_its_owner_and_left_alone_by_others(run, cluster, mpijobs, faults):
    # Nobody acts on this job, so it goes on.
    kept = {"mpijob_keep": True, "mpijob_operator_timeout": 1, "mpijob_name": ""}
    run(**kept)
    (job,) = (name for name in run.labelled() if name.startswith("mpijob"))
    refused = {
        "another owner": run(**kept, gpufabric_owner="you@there"),
        "other settings": run(**kept, mpijob_replicas=3),
    }
    for words, played in refused.items():
        assert played.returncode != 0, words
        (problem,) = problems_of(played)
        assert problem["id"] == "run-taken", words
    faults.fault(
        "name of a run that another owner has",
        problems_of(refused["another owner"]),
        "run-taken",
        None,
        "mpijob",
        "the cluster",
    )
    assert [name for name in run.labelled() if name.startswith("mpijob")] == [job]
    followed = run(**kept)
    assert "This play follows the MPIJob" in followed.output
    assert [name for name in run.labelled() if name.startswith("mpijob")] == [job]
    # The end of a play that replaces it is its own job's.
    run(**{**kept, "mpijob_keep": False}, gpufabric_owner="you@there", gpufabric_take_over=True)
    run.wait_gone()


# What the launcher says is also told of names that never appear.
@pytest.mark.slow
def test_program_that_fails_is_told_with_its_words(run, operator):
    played = run(nccl_benchmark_extra_args=["--no-such-option"])
    assert played.returncode != 0
    (problem,) = run.problems()
    assert problem["id"] == "test-argument" and "no-such-option" in problem["evidence"]
    assert "no-such-option" in (run.directory / "launcher.log").read_text()
    assert "run again with mpijob_keep=true" in played.output
    assert "no-such-option" in played.output


#: What is wrong, by the words that say so.
STARTS = {
    "mpijob_image_pull_policy": "image that is not on the node, with pull policy Never",
    "nvidia.com/gpu": "GPUs that no node has",
    "cannot work": "program of the workers that ends",
    "sshd cannot serve without SYS_CHROOT": "no capability SYS_CHROOT in the workers of a job",
}
NO_CHROOT = {"name": "worker", "securityContext": {"capabilities": {"drop": ["SYS_CHROOT"]}}}


@pytest.mark.parametrize(
    ("settings", "identity", "words"),
    [
        # What the pods of worker_pods are told of by the same catalogue.
        pytest.param(
            {"mpijob_image": "localhost/no-such-image:1", "mpijob_image_pull_policy": "Never"},
            "pod-image-absent",
            "mpijob_image_pull_policy",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"mpijob_gpus": 8, "nccl_benchmark_backend": "nccl"},
            "pod-unschedulable",
            "nvidia.com/gpu",
            marks=pytest.mark.slow,
        ),
        # What Kubernetes says of pods is read in test_faults as well.
        pytest.param(
            {"mpijob_command": ["sh", "-c", "echo cannot work >&2; exit 7"]},
            "pod-crash",
            "cannot work",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"mpijob_pod_spec": {"containers": [NO_CHROOT]}},
            "pod-crash",
            "sshd cannot serve without SYS_CHROOT",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_worker_that_never_starts_is_named_with_the_reason(
    run, runs, operator, relay, faults, settings, identity, words
):
    def workers():
        return [state for name, state in runs.states().items() if "-worker-" in name]

    with concurrent.futures.ThreadPoolExecutor() as pool:
        playing = pool.submit(run.through(relay), mpijob_start_timeout=25, **settings)
        wait(lambda: relay.has_heard(*LOOKED) or playing.done(), 600)
        relay.down()
        wait(lambda: len(workers()) == 2 and not {*STARTING, "running"} & set(workers()), left=workers)
        relay.up()
        played = playing.result()
    assert played.returncode != 0
    host, other = (f"gpufabric-t1-worker-{index}" for index in range(2))
    problem = next(problem for problem in run.problems() if problem["host"] == host)
    assert words in problem["cause"] + problem["cure"] + problem["evidence"]
    assert "timed out" not in problem["cause"]
    faults.fault(STARTS[words], run.problems(), identity, host, "mpijob", beside=[(identity, other)])
    run.wait_gone()


@pytest.mark.slow
def test_what_keeps_the_operator_from_making_anything_is_told(run, cluster, operator):
    cluster.kubectl("create", "service", "clusterip", "theirs", "--tcp=80", namespace=run.namespace)
    played = run(mpijob_name="theirs", mpijob_operator_timeout=20)
    assert played.returncode != 0
    (problem,) = run.problems()
    assert problem["id"] == "kube-name-taken" and "mpijob_name" in problem["cure"], played.output
    assert cluster.get("service", "theirs", namespace=run.namespace)["spec"]["ports"][0]["port"] == 80
    cluster.kubectl("create", "quota", "none", "--hard=pods=0", namespace=run.namespace)
    played = run(mpijob_operator_timeout=20)
    assert [problem["id"] for problem in run.problems()] == ["pod-quota"], played.output


@pytest.mark.slow
def test_operator_that_does_nothing_is_named(run, mpijobs, faults):
    played = run(mpijob_operator_timeout=3)
    assert played.returncode != 0
    faults.fault("MPI Operator that takes no note", run.problems(), "operator-idle", None, "mpijob", "the cluster")
    assert run.labelled() == []


@pytest.mark.slow
def test_under_a_user_id_without_a_name_and_with_keys_elsewhere(run, operator):
    played = run(
        mpijob_run_as_user=123456,
        mpijob_run_as_group=0,
        mpijob_ssh_auth_mount_path="/etc/mpi-keys",
        mpijob_state="submitted",
    )
    assert played.returncode == 0, played.output
    assert run.results()[0]["host_count"] == 2


# Of a kept job without pods the test below shows the same.
@pytest.mark.slow
def test_kept_job_is_removed_by_the_command_that_is_shown_or_replaced_by_the_next_run(run, cluster, operator):
    assert run(mpijob_keep=True).returncode == 0
    assert "mpijob.kubeflow.org/gpufabric-t1" in run.labelled()
    played = run(mpijob_keep=True)
    assert played.returncode == 0, played.output
    command = re.search(r"kubectl (.*--selector \S+)", played.output).group(1)
    cluster.kubectl(*command.split(), "--cascade=foreground")
    run.wait_gone()


@pytest.mark.slow
def test_kept_jobs_are_removed_by_teardown_each_alone_and_by_the_command_that_is_shown(
    run, cluster, mpijobs, cluster_player
):
    # Nobody acts on these jobs: what is kept has no pods.
    kept = {"mpijob_keep": True, "mpijob_operator_timeout": 1}
    played, _problems = run.attempts({name: {"gpufabric_run_id": name, **kept} for name in ("t1", "t2")})
    commands = re.findall(r"kubectl (.*--selector \S+)", played.output)
    assert run.labelled("t1")
    assert "networkpolicy.networking.k8s.io/gpufabric-t2" in run.labelled("t2")
    own = {"gpufabric_run_id": "t1", "gpufabric_namespace": run.namespace}
    played = cluster_player.playbook("gpufabric.nccl.teardown", gpufabric_mpijobs=True, **own)
    assert played.returncode == 0, played.output
    run.wait_gone()
    assert run.labelled("t2")
    (command,) = {command for command in commands if command.endswith("=t2")}
    cluster.kubectl(*command.split())
    assert run.labelled("t2") == []


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
    assert "networkpolicy.networking.k8s.io/gpufabric-t1 created" in done.stdout
    assert (
        run(**{**settings, "mpijob_manifest": str(tmp_path / "open.yaml")}, mpijob_network_policy=False).returncode == 0
    )
    kinds = [item["kind"] for item in yaml.safe_load_all((tmp_path / "open.yaml").read_text())]
    assert kinds == ["ConfigMap", "MPIJob"]
    again = run(**settings)
    assert path.read_text() == text and not again.changed()
    swept = run(**settings, nccl_benchmark_sweep={"collectives": ["all_reduce"]})
    assert swept.returncode != 0 and "nccl_benchmark_sweep: an MPIJob that is submitted" in swept.output
    # What no play wrote stays.
    (tmp_path / "notes").write_text("mine")
    for other in ("notes", "nosuch/job.yaml"):
        refused = run(**{**settings, "mpijob_manifest": str(tmp_path / other)})
        assert refused.returncode != 0 and not refused.changed(), refused.output
        assert f"mpijob_manifest: '{tmp_path}/{other}' is not allowed; allowed: a path in a folder, of no file yet" in (
            " ".join(refused.output.split())
        )
    assert (tmp_path / "notes").read_text() == "mine"
    # No cluster was asked: not even one that is there.
    assert not [record for record in again.records if record["action"].startswith("kubernetes.")]
    assert run.labelled() == []


def test_a_user_who_may_not_make_jobs_is_told_which_permissions_are_missing(
    run, cluster, namespace, mpijobs, tmp_path, faults
):
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
    problems = problems_of(played)
    faults.fault("account that may not create MPIJobs", problems, "kube-forbidden", None, "mpijob", "the controller")


def _kubeconfig_of(cluster, namespace, account, directory):
    """A kubeconfig of a service account."""
    config = json.loads(cluster.kubectl("config", "view", "--raw", "--flatten", "--minify", "--output=json").stdout)
    config["users"][0]["user"] = {"token": cluster.token(account, namespace)}
    path = directory / "kubeconfig.json"
    path.write_text(json.dumps(config))
    return path


# The operator mounts keys below /root/.ssh with the mode that ssh asks for, and elsewhere with one that it refuses.
@pytest.mark.parametrize("keys", ["/root/.ssh", pytest.param("/etc/mpi-keys", marks=pytest.mark.slow)])
def test_adopted_job_is_used_as_it_is(run, cluster, operator, pods, keys):
    start_job_of_others(cluster, pods, keys)
    for role in ("launcher", "worker"):
        # Somebody has copied a manifest.
        labels = {"training.kubeflow.org/job-name": "train", "training.kubeflow.org/job-role": role}
        pods.create(f"a-{role}", labels=labels)
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
    assert (run.directory / "output.tar.gz").is_file()
    assert _state(cluster, run.namespace) == before
    assert played.executions("train-worker-1") == [
        "gpufabric.nccl.nccl_benchmark : List the GPUs, networks and programs of every worker",
        "gpufabric.nccl.mpijob : Connect | Claim the workers, on which ranks write NCCL's logs",
        "gpufabric.nccl.mpijob : Disconnect | Remove the leftovers of the run from the workers",
    ]
    assert not played.executions("a-worker") and not played.executions("a-launcher")
    for pod in ("train-worker-0", before["launcher"]):
        done = cluster.kubectl("exec", pod, "--", "ls", "/run", namespace=run.namespace)
        assert "gpufabric" not in done.stdout


@pytest.mark.slow
def test_a_run_that_fails_leaves_nothing_in_the_workers_of_an_adopted_job(run, cluster, operator, pods):
    launcher = start_job_of_others(cluster, pods, "/root/.ssh")

    def has(pod, command):
        return (
            cluster.kubectl("exec", pod, "--", "sh", "-c", command, namespace=run.namespace, check=False).returncode
            == 0
        )

    with concurrent.futures.ThreadPoolExecutor() as pool:
        playing = pool.submit(run, mpijob_state="adopted", mpijob_name="train", nccl_benchmark_iterations=1000000)
        try:
            wait(lambda: has(launcher, "test -s /run/gpufabric/t1/mpi/points/1/stdout") or playing.done(), 600, pause=1)
        finally:
            cluster.kubectl("delete", "pod", launcher, "--wait=false", namespace=run.namespace)
        played = playing.result()
    assert played.returncode != 0 and [item["id"] for item in run.problems()] == ["launcher-lost"], played.output
    for pod in ("train-worker-0", "train-worker-1"):
        assert has(pod, "! test -e /run/gpufabric"), played.output


@pytest.mark.slow
def test_the_run_of_another_in_an_adopted_job_is_left_alone(run, cluster, operator, pods):
    launcher = start_job_of_others(cluster, pods, "/root/.ssh")
    mark = json.dumps({"run_id": "t1", "owner": "you@there", "controller": "other", "play": "1-1", "started": 1})
    # A program of that run that goes on, and its hostfile.
    make = f"mkdir -pm 0700 /run/gpufabric/t1/mpi; echo theirs >/run/gpufabric/t1/mpi/hostfile; echo '{mark}' >/run/gpufabric/t1/.gpufabric"
    start = "GPUFABRIC_RUN_ID=t1 setsid sleep 600 >/dev/null 2>&1 &"
    look = "grep -lz GPUFABRIC_RUN_ID=t1 /proc/[0-9]*/environ; cat /run/gpufabric/t1/mpi/hostfile /run/gpufabric/t1/.gpufabric"

    def shell(command):
        return cluster.kubectl("exec", launcher, "--", "sh", "-c", command, namespace=run.namespace).stdout

    shell(f"{make}; {start}")
    before = shell(look)
    assert before.startswith("/proc/")
    for variables in ({}, {"nccl_benchmark_backend": "nccl"}):
        played = run(mpijob_state="adopted", mpijob_name="train", gpufabric_owner="me@here", **variables)
        assert played.returncode != 0 and shell(look) == before, played.output
        # One that fails before it asks for the run leaves it alone, too.
        assert variables or "run-taken: see above." in played.output, played.output


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
