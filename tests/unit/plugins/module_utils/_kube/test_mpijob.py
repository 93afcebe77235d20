# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib

import pytest
import yaml
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube import mpijob
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.mpijob import (
    adopted_peers,
    job_problems,
    job_results,
    job_to_follow,
    own_log,
    parse_log,
    plan_job,
    progress,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.objects import (
    mark_play,
    run_in_use,
    run_taken,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.policy import (
    FORWARDED_ENVIRONMENT,
    SSH_POLICY,
    SSHD_POLICY,
    SSHD_POLICY_9_8,
)

ROLE = pathlib.Path(__file__).parents[5] / "roles/mpijob"
SENT = " ".join(FORWARDED_ENVIRONMENT)
SSH_FILES = {
    "sshd_config": "\n".join([*SSHD_POLICY, *(f"AcceptEnv {name}" for name in FORWARDED_ENVIRONMENT), ""]),
    "sshd_config-9.8": f"{SSHD_POLICY_9_8}\n",
    "ssh_config": "\n".join([*SSH_POLICY, f"SendEnv {SENT}", ""]),
}
FILES = {"mpijob-pod": "#!/usr/bin/env bash\n", "cpu_perf.py": "pass\n"}
TABLE = """\
# nccl-tests version 2.17.4 nccl-headers=22800 nccl-library=22800
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid    100 on gpufabric-n-worker-0 device  0 [0000:07:00] NVIDIA H100
#  Rank  1 Group  0 Pid    100 on gpufabric-n-worker-1 device  0 [0000:07:00] NVIDIA H100
#
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1     12.3    0.00    0.00       0     12.1    0.00    0.00       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0
"""
MARK = "gpufabric-mpijob: "
#: Of Open MPI 5.0.11.
LOST = [
    "PRTE has lost communication with a remote daemon.",
    "",
    "  HNP daemon   : [prterun-gpufabric-n-launcher-1@0,0] on node gpufabric-n-launcher",
    "  Remote daemon: [prterun-gpufabric-n-launcher-1@0,2] on node gpufabric-n-worker-1",
    "",
    "This is usually due to either a failure of the TCP network",
]


def settings(benchmark=None, **changes):
    defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
    values = {"control_interface": None, "data_interface": None, "mpi_prefix": None, "run_as_user": None}
    values.update({"run_as_group": None, "ssh_port": None, "ttl": None, "namespace": "gpu", "owner": ""})
    values["environment"] = {}
    program = {"dir": None}
    for name, value in defaults.items():
        if name.startswith("mpijob_"):
            values[name[len("mpijob_") :]] = value
        elif name.startswith("nccl_benchmark_"):
            program[name[len("nccl_benchmark_") :]] = value
    values.update({"image": "nccl", "slots": 8, "host_network": False, "rewrite_fqdn": "auto"})
    return {**values, "benchmark": {**program, **(benchmark or {})}, **changes}


def plan(run_id="n", **changes):
    return plan_job(run_id, settings(**changes), FILES)


def job_of(**changes):
    return plan(**changes)["objects"][1]


def template(role, **changes):
    return job_of(**changes)["spec"]["mpiReplicaSpecs"][role]["template"]


def container(role, **changes):
    return template(role, **changes)["spec"]["containers"][0]


def environment(role, **changes):
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in container(role, **changes)["env"]}


def test_the_job_is_what_the_operator_takes():
    job = job_of(replicas=4, slots=8)
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v2beta1", "MPIJob")
    assert job["metadata"] == {
        "name": "gpufabric-n",
        "namespace": "gpu",
        "labels": {"app.kubernetes.io/managed-by": "gpufabric.nccl", "gpufabric.nccl/mpijob": "n"},
    }
    spec = job["spec"]
    assert (spec["slotsPerWorker"], spec["sshAuthMountPath"], spec["mpiImplementation"]) == (8, "/root/.ssh", "OpenMPI")
    assert spec["runPolicy"] == {"cleanPodPolicy": "None", "backoffLimit": 0, "activeDeadlineSeconds": 2050}
    launcher, worker = spec["mpiReplicaSpecs"]["Launcher"], spec["mpiReplicaSpecs"]["Worker"]
    assert (launcher["replicas"], worker["replicas"]) == (1, 4)
    for replica in (launcher, worker):
        # A pod that is made again would have another address and other keys.
        assert replica["restartPolicy"] == "Never"
        pod = replica["template"]
        assert pod["metadata"]["labels"] == job["metadata"]["labels"]
        assert pod["spec"]["automountServiceAccountToken"] is False
        assert "capabilities" not in pod["spec"]["containers"][0].get("securityContext", {})
        assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}} in pod["spec"]["volumes"]
    assert plan(replicas=4, slots=8)["ranks"] == 32


def test_a_job_has_the_name_that_it_is_given_and_the_same_settings():
    named, other = plan(name="gpufabric-n-abcde", owner="me@here"), plan(owner="me@here")
    assert named["workers"] == ["gpufabric-n-abcde-worker-0", "gpufabric-n-abcde-worker-1"]
    config, job = named["objects"]
    # It claims the run, whatever the job is called. One that is rendered claims nothing.
    assert config["metadata"]["name"] == other["objects"][0]["metadata"]["name"] == "gpufabric-n-files"
    assert config["metadata"]["annotations"] == {"gpufabric.nccl/owner": "me@here"}
    (volume,) = (
        item for item in template("Worker", name="a", owner="me@here")["spec"]["volumes"] if "configMap" in item
    )
    assert volume["configMap"]["name"] == "gpufabric-n-files"
    assert plan(name="train")["objects"][0]["metadata"]["name"] == "train-files"
    assert job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["subdomain"] == "gpufabric-n-abcde"
    assert job["metadata"]["annotations"]["gpufabric.nccl/owner"] == "me@here"
    assert job["metadata"]["annotations"] == other["objects"][1]["metadata"]["annotations"]
    with pytest.raises(OptionError, match="mpijob_name"):
        plan(name="x" * 47)


def test_only_pods_of_the_job_may_connect_to_it():
    policy = plan(owner="me@here", name="train")["policy"]
    assert policy["metadata"]["name"] == "train" and policy["metadata"]["annotations"] == {
        "gpufabric.nccl/owner": "me@here"
    }
    for role in ("Launcher", "Worker"):
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= template(role)["metadata"]["labels"].items()
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": policy["spec"]["podSelector"]}]}]
    assert plan(network_policy="false")["policy"] is None
    needed = ["networking.k8s.io", "networkpolicies"]
    assert [
        needed in [list(need[:2]) for need in plan(network_policy=value)["needs"]] for value in ("auto", "true")
    ] == [False, True]


def test_a_job_that_goes_on_is_followed():
    mine = {"owner": "me@here"}
    wanted = job_of(**mine)
    there = job_of(name="gpufabric-n-abcde", **mine)
    assert job_to_follow([there], wanted) == "gpufabric-n-abcde"
    assert run_taken("n", "me@here", [there], [wanted]) == []
    assert job_to_follow([job_of(replicas=3, **mine)], wanted) == ""
    done = {**there, "status": {"conditions": [{"type": "Succeeded", "status": "True"}]}}
    assert job_to_follow([done], wanted) == ""
    # One that is over is replaced, if it is one's own.
    done = {**job_of(replicas=3, **mine), "status": done["status"]}
    assert run_taken("n", "me@here", [done], [wanted]) == []
    assert [item.id for item in run_taken("n", "you@there", [done], [wanted])] == ["run-taken"]
    assert [item.id for item in run_taken("n", "me@here", [job_of(replicas=3, **mine)], [wanted])] == ["run-taken"]


def test_a_job_that_another_play_waits_for_is_not_followed():
    first = plan(owner="me@here")["objects"][0]
    mark_play(first, "machine", "12-345")
    assert run_in_use("n", [first], "machine", "12-345", ["12-345"]) == []
    assert run_in_use("n", [first], "machine", "99-1", ["99-1"]) == []
    assert run_in_use("n", [first], "other", "99-1", ["12-345", "99-1"]) == []
    (problem,) = run_in_use("n", [first], "machine", "99-1", ["12-345", "99-1"])
    assert problem.id == "run-in-use"
    assert problem.cause == "The run n belongs to another play of me@here, which is not over."
    # A controller that cannot tell plays apart.
    blank = plan(owner="me@here")["objects"][0]
    mark_play(blank, "", "12")
    assert run_in_use("n", [blank], "", "99", ["12", "99"]) == []


def test_variables_of_the_pods_reach_all_ranks():
    secret = {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    env = {"FI_PROVIDER": "efa", "TOKEN": secret, "OMPI_MCA_x": "1"}
    forwarded = environment("Launcher", env=env)["GPUFABRIC_FORWARD_ENV"].split()
    assert {"FI_PROVIDER", "TOKEN"} <= set(forwarded) and "OMPI_MCA_x" not in forwarded
    for role in ("Launcher", "Worker"):
        assert environment(role, env=env)["FI_PROVIDER"] == "efa"
        assert environment(role, env=env)["TOKEN"] == secret["valueFrom"]
    with pytest.raises(OptionError, match="mpijob_env"):
        plan(env={"A": {"value": "1"}})


def test_the_environment_of_all_programs_reaches_the_pods_and_all_ranks():
    """As where Ansible runs in pods: of several values that of the benchmark counts, then this one, then that of the pods."""
    changes = {
        "env": {"A": "pods", "B": "pods"},
        "environment": {"A": "all", "C": "all", "NUMBER": 4, "OMPI_MCA_x": "1"},
        "benchmark": {"env": {"C": "program"}},
    }
    for role in ("Launcher", "Worker"):
        found = environment(role, **changes)
        assert [found[name] for name in ("A", "B", "C", "NUMBER", "OMPI_MCA_x")] == ["all", "pods", "program", "4", "1"]
    forwarded = environment("Launcher", **changes)["GPUFABRIC_FORWARD_ENV"].split()
    assert {"A", "B", "C", "NUMBER"} <= set(forwarded) and "OMPI_MCA_x" not in forwarded


def test_pods_look_for_their_control_network_and_their_address():
    assert environment("Launcher")["GPUFABRIC_FIND_CONTROL"] == "true"
    assert environment("Launcher", host_network=True)["GPUFABRIC_FIND_CONTROL"] == "false"
    assert environment("Worker")["GPUFABRIC_POD_IP"] == {"fieldRef": {"fieldPath": "status.podIP"}}


def test_a_variable_without_a_value_is_not_set():
    changes = {"env": {"A": "1", "B": None, "C": "1"}, "benchmark": {"env": {"C": None, "NCCL_ALGO": None, "D": 0}}}
    for role in ("Launcher", "Worker"):
        found = environment(role, **changes)
        assert (found["A"], found["D"]) == ("1", "0") and not {"B", "C", "NCCL_ALGO"} & set(found)
    forwarded = environment("Launcher", **changes)["GPUFABRIC_FORWARD_ENV"].split()
    assert {"A", "D"} <= set(forwarded) and not {"B", "C", "NCCL_ALGO"} & set(forwarded)


def test_names_of_volumes_and_maps_are_not_the_operators():
    objects = plan()["objects"]
    assert objects[0]["metadata"]["name"] not in ("gpufabric-n-config", "gpufabric-n-ssh")
    for role in ("Launcher", "Worker"):
        names = {volume["name"] for volume in template(role)["spec"]["volumes"]}
        mounts = {mount["name"] for mount in container(role)["volumeMounts"]}
        assert names == mounts and not names & {"ssh-auth", "mpi-job-config"}


def test_resources_and_networks_are_the_workers_alone():
    changes = {
        "resources": {"openshift.io/mellanoxnics": 2},
        "networks": ["a", "b"],
        "gpus": 8,
        "capabilities": ["IPC_LOCK"],
    }
    wanted = {"nvidia.com/gpu": "8", "openshift.io/mellanoxnics": "2"}
    assert container("Worker", **changes)["resources"] == {"requests": wanted, "limits": wanted}
    assert container("Worker", **changes)["securityContext"]["capabilities"] == {"add": ["IPC_LOCK"]}
    assert template("Worker", **changes)["metadata"]["annotations"] == {"k8s.v1.cni.cncf.io/networks": "a,b"}
    assert "resources" not in container("Launcher", **changes)
    assert "annotations" not in template("Launcher", **changes)["metadata"]
    assert container("Launcher", **changes)["securityContext"] == {"allowPrivilegeEscalation": False}


def test_the_launcher_has_each_setting_of_the_runtime_by_both_names():
    variables = environment("Launcher", control_interface="eth0", data_interface="net1")
    for four, five in (
        ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"),
        ("OMPI_MCA_oob_tcp_if_include", "PRTE_MCA_prte_if_include"),
        ("OMPI_MCA_plm_rsh_no_tree_spawn", "PRTE_MCA_plm_ssh_no_tree_spawn"),
    ):
        assert variables[four] == variables[five]
    assert variables["PRTE_MCA_prte_default_hostfile"] and variables["PRTE_MCA_prte_keep_fqdn_hostnames"] == "false"
    assert variables["OMPI_MCA_btl_tcp_if_include"] == "eth0"
    assert (variables["OMPI_MCA_pml"], variables["OMPI_MCA_btl"]) == ("ob1", "self,tcp")
    assert variables["OMPI_MCA_coll_ucc_enable"] == variables["OMPI_MCA_coll_hcoll_enable"] == "0"
    assert variables["OMPI_ALLOW_RUN_AS_ROOT"] == variables["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] == "1"
    assert variables["NCCL_SOCKET_IFNAME"] == "=net1"


def test_the_launcher_says_what_the_articles_call_by_these_names():
    variables = environment("Launcher", dns_timeout=90, rewrite_fqdn=True)
    assert variables["MPI_HOSTFILE"] == "/etc/mpi/hostfile"
    assert (variables["MPI_DNS_WAIT_SECONDS"], variables["MPI_DNS_WAIT_INTERVAL"]) == ("90", "3")
    assert variables["REWRITE_MPI_HOSTFILE_FQDN"] == "true"
    assert environment("Launcher")["MPI_DNS_WAIT_SECONDS"] == "120"


def test_keys_and_times_are_where_the_job_says():
    changes = {"ssh_auth_mount_path": "/keys", "dns_timeout": 90, "benchmark": {"timeout": 77}}
    assert job_of(**changes)["spec"]["sshAuthMountPath"] == "/keys"
    launcher, worker = environment("Launcher", **changes), environment("Worker", **changes)
    assert launcher["GPUFABRIC_SSH_AUTH"] == worker["GPUFABRIC_SSH_AUTH"] == worker["SSH_AUTH_DIR"] == "/keys"
    assert (launcher["GPUFABRIC_SSH_WAIT_SECONDS"], launcher["GPUFABRIC_POINT_TIMEOUT"]) == ("90", "77")


@pytest.mark.parametrize(
    ("changes", "launcher", "worker"),
    [
        # Pods, names, logins, the proof of hosts, one collective.
        ({}, 600 + 120 + 120 + 300 + 610 + 300, 600),
        ({"benchmark": {"collectives": ["all_reduce", "all_gather"], "timeout": 100}}, 1140 + 2 * 110 + 300, 600),
        ({"start_timeout": 30, "dns_timeout": 10}, 30 + 20 + 300 + 610 + 300, 30),
        # As long as the play waits, and some more.
        ({"timeout": 60}, 60 + 300, 600),
        ({"benchmark": {"timeout": 9000}}, 3600 + 300, 600),
    ],
)
def test_a_job_without_its_controller_ends_by_itself(changes, launcher, worker):
    spec = job_of(**changes)["spec"]
    assert spec["runPolicy"]["activeDeadlineSeconds"] == launcher
    assert "activeDeadlineSeconds" not in spec["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    assert spec["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["activeDeadlineSeconds"] == launcher + worker


def test_the_user_says_when_pods_end():
    pod_spec = {"activeDeadlineSeconds": 77}
    assert template("Worker", pod_spec=pod_spec)["spec"]["activeDeadlineSeconds"] == 77


@pytest.mark.parametrize(
    ("benchmark", "gpus", "arguments"),
    [
        ({"cycles": 1}, 8, ["-c", "1"]),
        # That the image's programs print times of day is not known.
        ({"cycles": 7}, 8, ["-c", "1", "-N", "7"]),
        ({"cycles": 7, "extra_args": ["-S 1"]}, 8, ["-c", "1", "-N", "7", "-S", "1"]),
        ({"cycles": 7, "check": False}, 0, ["-c", "0", "-N", "7", "-S", "1"]),
    ],
)
def test_a_soak(benchmark, gpus, arguments):
    command = container("Launcher", benchmark=benchmark, gpus=gpus)["command"]
    assert command[command.index("-c") :] == arguments
    (point,) = plan(benchmark=benchmark, gpus=gpus)["points"]
    assert point["argv"][point["argv"].index("-c") :] == arguments


def test_a_soak_has_one_number_of_cycles():
    with pytest.raises(OptionError, match="nccl_benchmark_cycles: 7 .* 1 with -N in nccl_benchmark_extra_args"):
        plan(benchmark={"cycles": 7, "extra_args": ["-N 3"]})
    with pytest.raises(OptionError, match="nccl_benchmark_cycles: 0 .* 1 or more"):
        plan(benchmark={"cycles": 0})


def test_options_of_mpirun_have_two_dashes_and_come_before_the_programs():
    command = container("Launcher", benchmark={"extra_args": ["-o", "$(x)"], "mca": {"btl_base_verbose": 1}})["command"]
    assert command[:3] == ["bash", "/gpufabric/mpijob-pod", "launcher"]
    options, arguments = command[3 : command.index("--")], command[command.index("--") + 1 :]
    assert all(word.startswith("--") for word in options if word.startswith("-"))
    assert options[:2] == ["--bind-to", "none"]
    assert options[-2:] == ["btl_base_verbose", "1"]
    # Kubernetes would put a variable there.
    assert arguments[:2] == ["-b", "8"] and arguments[-2:] == ["-o", "$$(x)"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"command": ["bash", "/gpufabric/mpijob-pod", "worker"]}),
        ({"worker_mode": "image"}, {"args": ["shell"]}),
        ({"worker_mode": "operator"}, {}),
        ({"command": ["/start"]}, {"command": ["/start"]}),
    ],
)
def test_what_a_worker_runs(changes, expected):
    made = container("Worker", **changes)
    assert {key: made[key] for key in ("command", "args") if key in made} == expected
    # Of an sshd that is not the role's the host key is not known, and the port only where it can be set.
    assert ("readinessProbe" in made) == (changes in ({}, {"worker_mode": "image"}))
    assert environment("Launcher", **changes)["GPUFABRIC_PINNED"] == str(changes == {}).lower()


def test_backends():
    cpu = {"backend": "cpu"}
    assert plan(benchmark=cpu, gpus=0)["objects"][0]["data"] == {**FILES, **SSH_FILES}
    assert plan()["objects"][0]["data"] == {"mpijob-pod": FILES["mpijob-pod"], **SSH_FILES}
    assert (plan()["backend"], plan(gpus=0)["backend"]) == ("nccl", "cpu")
    assert environment("Launcher", benchmark=cpu)["OMPI_MCA_mpi_yield_when_idle"] == "1"
    with pytest.raises(OptionError, match="mpijob_gpus"):
        plan(gpus=0, benchmark={"backend": "nccl"})


@pytest.mark.parametrize(
    ("changes", "slots"),
    [
        ({}, 8),
        ({"benchmark": {"gpus_per_rank": 8}}, 1),
        ({"benchmark": {"gpus_per_rank": 2, "threads_per_rank": 2}}, 2),
        ({"slots": 2, "benchmark": {"gpus_per_rank": 3}}, 2),
        ({"gpus": 0}, 1),
        ({"benchmark": {"ranks_per_node": 4}}, 4),
        ({"benchmark": {"ranks_per_node": 4, "gpus_per_rank": 2}}, 4),
        ({"gpus": 0, "benchmark": {"ranks_per_node": 3}}, 3),
        ({"slots": 4, "benchmark": {"ranks_per_node": 4}}, 4),
    ],
)
def test_a_worker_has_as_many_ranks_as_its_gpus_are_enough_for(changes, slots):
    job = plan(**{"slots": None, **changes})
    assert job["objects"][1]["spec"]["slotsPerWorker"] == slots
    assert job["ranks"] == slots * 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"benchmark": {"gpus_per_rank": 8}},
            "mpijob_slots: 8 is not allowed; allowed: 1 to 1: mpijob_gpus is 8,"
            " nccl_benchmark_gpus_per_rank x nccl_benchmark_threads_per_rank is 8",
        ),
        (
            {"slots": None, "benchmark": {"gpus_per_rank": 3}},
            "nccl_benchmark_gpus_per_rank x nccl_benchmark_threads_per_rank: 3 is not allowed; allowed: what leaves none of 8 out",
        ),
        ({"slots": 9}, "mpijob_slots: 9 is not allowed; allowed: 1 to 8: mpijob_gpus is 8, .* is 1"),
        (
            {"slots": None, "benchmark": {"gpus_per_rank": 4, "threads_per_rank": 4}},
            "nccl_benchmark_gpus_per_rank x nccl_benchmark_threads_per_rank: 16 is not allowed; allowed: 1 to 8",
        ),
        ({"slots": 0}, "mpijob_slots: 0 is not allowed; allowed: 1 or more"),
        (
            {"slots": None, "benchmark": {"ranks_per_node": 5, "gpus_per_rank": 2}},
            "nccl_benchmark_ranks_per_node: 5 is not allowed; allowed: 1 to 4: mpijob_gpus is 8, .* is 2",
        ),
        (
            {"slots": 8, "benchmark": {"ranks_per_node": 4}},
            "nccl_benchmark_ranks_per_node: 4 is not allowed; allowed: 8, which is mpijob_slots, or either of the two",
        ),
        (
            {"gpus": 0, "slots": 2, "benchmark": {"ranks_per_node": 4}},
            "nccl_benchmark_ranks_per_node: 4 is not allowed; allowed: 2, which is mpijob_slots, or either of the two",
        ),
        # The CPU program uses none.
        ({"gpus": 0, "benchmark": {"gpus_per_rank": 8}}, "nccl_benchmark_gpus_per_rank: 8 .* 1 with the cpu backend"),
        (
            {"gpus": 0, "benchmark": {"collectives": ["hypercube"]}},
            "nccl_benchmark_collectives: .* with the cpu backend",
        ),
    ],
)
def test_ranks_of_a_job_use_no_more_gpus_than_its_workers_have(changes, message):
    with pytest.raises(OptionError, match=message):
        plan(**changes)


def test_more_of_the_pods_is_merged():
    extra = {"priorityClassName": "high", "volumes": [{"name": "data"}], "terminationGracePeriodSeconds": 9}
    spec = template("Worker", pod_spec=extra)["spec"]
    assert (spec["priorityClassName"], spec["terminationGracePeriodSeconds"]) == ("high", 9)
    assert {"gpufabric-files", "data"} <= {volume["name"] for volume in spec["volumes"]}


def test_a_container_of_the_pod_spec_is_in_the_pods_of_its_name():
    mounts = [{"name": "data", "mountPath": "/data"}]
    own = {name: {"name": name, "volumeMounts": mounts} for name in ("worker", "launcher")}
    for role, name, other in (("Worker", "worker", "launcher"), ("Launcher", "launcher", "worker")):
        containers = template(role, pod_spec={"containers": [own[name], {"name": "sidecar"}]})["spec"]["containers"]
        assert [item["name"] for item in containers] == [name, "sidecar"]
        assert mounts[0] in containers[0]["volumeMounts"] and containers[0]["image"] == "nccl"
        # The API takes no container without an image.
        (alone,) = template(role, pod_spec={"containers": [own[other]]})["spec"]["containers"]
        assert alone["name"] == name and mounts[0] not in alone["volumeMounts"]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"image": ""}, "mpijob_image"),
        ({"env": {"NCCL_IB_DISABLE": True}}, "mpijob_env"),
        ({"replicas": 0}, "mpijob_replicas"),
        ({"ssh_port": 70000}, "mpijob_ssh_port"),
        ({"shm_size": "much"}, "mpijob_shm_size"),
        ({"resources": {"a/b": "x y"}}, "a/b"),
        ({"control_interface": "eth0; rm"}, "control_interface"),
        ({"benchmark": {"collectives": ["none"]}}, "nccl_benchmark_collectives"),
        ({"benchmark": {"env": {"A B": "1"}}}, "nccl_benchmark_env"),
        ({"dns_timeout": -1}, "mpijob_dns_timeout: -1 .* 0 or more"),
        ({"dns_interval": -1}, "mpijob_dns_interval"),
        ({"operator_timeout": 0}, "mpijob_operator_timeout: 0 .* 1 or more"),
        ({"start_timeout": 1 << 40}, "mpijob_start_timeout: .* at most 1000000000"),
        ({"ttl": 59}, "mpijob_ttl: 59 is not allowed; allowed: 60 or more"),
        ({"cluster_domain": " "}, "mpijob_cluster_domain: ' '"),
        ({"ssh_auth_mount_path": "ssh"}, "mpijob_ssh_auth_mount_path: 'ssh'"),
    ],
)
def test_wrong_settings_are_named(changes, named):
    with pytest.raises(OptionError, match=named):
        plan(**changes)


def test_peers_of_a_job_that_is_adopted_have_the_slots_of_its_hostfile():
    hosts = [{"name": f"j-worker-{index}.j.gpu.svc", "address": f"10.0.0.{index}", "slots": 4} for index in (1, 0)]
    peers = adopted_peers(hosts, ["j-worker-0", "j-worker-1"], "/run/x")
    assert [(peer["name"], peer["address"], peer["slots"]) for peer in peers] == [
        ("j-worker-1", "10.0.0.1", 4),
        ("j-worker-0", "10.0.0.0", 4),
    ]
    with pytest.raises(OptionError, match="j-worker-1.j.gpu.svc"):
        adopted_peers(hosts, ["j-worker-0"], "/run/x")


def log(*lines):
    return "\n".join(lines) + "\n"


def test_a_log_is_cut_into_points():
    printed = parse_log(
        log(
            f"{MARK}stage names",
            f"{MARK}worker w-0 is 10.0.0.1, 8 slots",
            f"{MARK}begin all_reduce",
            "row",
            f"{MARK}end all_reduce 3 12",
            "between",
            f"{MARK}begin broadcast",
            "half a row",
        )
    )
    assert printed.stage == "names"
    assert printed.points["all_reduce"] == {"lines": ["row"], "exit_status": 3, "seconds": 12.0, "notes": set()}
    assert printed.points["broadcast"] == {
        "lines": ["half a row"],
        "exit_status": None,
        "seconds": None,
        "notes": set(),
    }
    assert printed.said == ["worker w-0 is 10.0.0.1, 8 slots"]


def test_only_lines_with_the_token_of_the_launcher_are_its_own():
    token = "gpufabric-mpijob[0e3b2a4c-5d6f-4a8b-9c0d-1e2f3a4b5c6d]: "
    lines = [
        "ERROR: ld.so: object x cannot be preloaded",
        f"{token}stage hosts",
        # What a worker printed while mpirun ran hostname on it.
        f"{MARK}worker w-1 is 10.0.0.9, 8 slots",
        f"{token}begin all_reduce",
        f"{MARK}end all_reduce 0 4",
        "gpufabric-mpijob[00000000-0000-0000-0000-000000000000]: end all_reduce 0 4",
        f"{MARK}begin broadcast",
        "out",
        f"{token}end all_reduce 3 12",
    ]
    printed = parse_log(own_log("\n".join(lines)))
    assert printed.stage == "hosts" and printed.addresses == {} and list(printed.points) == ["all_reduce"]
    point = printed.points["all_reduce"]
    assert (point["exit_status"], point["lines"][-1]) == (3, "out") and f"> {MARK}end all_reduce 0 4" in point["lines"]
    # An earlier release has no token.
    assert own_log("\n".join(lines[2:])) == "\n".join(lines[2:])


def test_a_log_without_end_is_cut_and_says_so(monkeypatch):
    monkeypatch.setattr(mpijob, "_MOST_LOG", 2 << 20)
    text = "a" * (1 << 20) + "b" * (1 << 20) + "c" * (1 << 20)
    kept = own_log(text)
    assert kept.startswith("a" * (1 << 20)) and kept.endswith("c" * (1 << 20)) and "b" not in kept.strip("abc")[:9]
    assert "left out: it has 3 MiB, of which the first and the last 1 MiB are shown" in kept
    assert own_log("a" * (2 << 20)) == "a" * (2 << 20)


def test_output_that_was_cut_or_too_long():
    text = log(f"{MARK}begin all_reduce", TABLE, f"{MARK}cut all_reduce", "more", f"{MARK}end all_reduce 0 4")
    (document,) = results(observed("Succeeded", pods=WORKERS, launcher_log=text))
    assert [(one["id"], one["severity"]) for one in document["problems"]] == [("log-cut", "warning")]
    text = log(f"{MARK}begin all_reduce", TABLE, f"{MARK}too-long all_reduce", f"{MARK}end all_reduce 1 4")
    (document,) = results(failed_log(text), benchmark={"output_limit": "3M"})
    (problem,) = document["problems"]
    assert (problem["id"], document["verdict"]) == ("output-too-long", "fail") and "more than 3 MiB" in problem["cause"]


def test_two_tables_are_no_result():
    text = log(f"{MARK}begin all_reduce", TABLE, TABLE, f"{MARK}end all_reduce 0 4")
    (document,) = results(observed("Succeeded", pods=WORKERS, launcher_log=text))
    assert ([one["id"] for one in document["problems"]], document["verdict"]) == (["tables-many"], "fail")


@pytest.mark.parametrize(("limit", "bytes_"), [("2G", 2 << 30), ("3M", 3 << 20), ("0", 0)])
def test_the_launcher_knows_how_much_may_be_printed(limit, bytes_):
    found = environment("Launcher", benchmark={"output_limit": limit})["GPUFABRIC_OUTPUT_LIMIT"]
    assert found == str(bytes_)


@pytest.mark.parametrize("text", [f"{MARK}end x", f"{MARK}end x 1 2", f"{MARK}end all_reduce 1 ", f"{MARK}begin", MARK])
def test_a_torn_log_is_no_error(text):
    assert parse_log(text).points.keys() <= {""}


def pod(name, role, phase="Running", ready=True, **status):
    return {
        "metadata": {"name": name, "uid": name, "labels": {"training.kubeflow.org/job-role": role}},
        "spec": {"containers": [{"name": role}]},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}], **status},
    }


def ended(code, reason="Error"):
    terminated = {"exitCode": code, "reason": reason}
    return {"containerStatuses": [{"name": "launcher", "restartCount": 0, "state": {"terminated": terminated}}]}


WORKERS = [pod(f"gpufabric-n-worker-{index}", "worker") for index in range(2)]
LAUNCHER = "gpufabric-n-launcher-x"


def observed(*conditions, pods=(), launcher_log="", **changes):
    job = {
        "metadata": {"name": "gpufabric-n", "uid": "1"},
        "status": {"conditions": [{"type": kind, "status": "True", "reason": "R"} for kind in conditions]},
    }
    state = {"job": job, "pods": list(pods), "events": [], "logs": {}, "launcher_log": launcher_log, "given_up": False}
    return {**state, "waited": 61.0, **changes}


def problems(seen, **changes):
    return job_problems(plan(slots=1, **changes), seen, parse_log(seen["launcher_log"]))


def failed_log(text):
    done = pod(LAUNCHER, "launcher", "Failed", False, **ended(1))
    return observed("Created", "Failed", pods=[*WORKERS, done], launcher_log=text)


def test_a_job_that_nobody_takes_note_of():
    (problem,) = problems(observed(given_up=True))
    assert problem.id == "operator-idle" and "61 s" in problem.cause


@pytest.mark.parametrize(
    ("reason", "message", "identity", "words"),
    [
        (
            "ErrResourceExists",
            'Resource "gpufabric-n" of Kind "" already exists and is not managed by MPIJob',
            "kube-name-taken",
            "An object of the name gpufabric-n exists already",
        ),
        (
            "ErrResourceExists",
            'Resource "gpufabric-n-ssh" of Kind "Secret" already exists and is not managed by MPIJob',
            "kube-name-taken",
            "Secret gpufabric-n-ssh exists already",
        ),
        (
            "MPIJobFailed",
            'worker pod created failed: pods "x" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1',
            "pod-quota",
            "exceeded quota: few",
        ),
        ("ValidationError", "Found validation errors: metadata.name: too long", "mpijob-failed", "name: too long"),
    ],
)
def test_an_operator_that_may_make_nothing_is_not_idle(reason, message, identity, words):
    event = {"type": "Warning", "reason": reason, "message": message, "lastTimestamp": "2026-01-01T00:00:01Z"}
    event["involvedObject"] = {"kind": "MPIJob", "name": "gpufabric-n", "uid": "1"}
    earlier = {**event, "message": "of an earlier job of that name", "involvedObject": {"uid": "0"}}
    (problem,) = problems(observed(events=[event, earlier], given_up=True))
    assert problem.id == identity and words in problem.cause
    (problem,) = problems(observed(events=[earlier], given_up=True))
    assert problem.id == "operator-idle"


def test_an_operator_that_has_made_pods_is_not_idle():
    event = {"type": "Warning", "reason": "MPIJobFailed", "message": "worker pod created failed: exceeded quota: few"}
    event["involvedObject"] = {"kind": "MPIJob", "name": "gpufabric-n", "uid": "1"}
    seen = observed(events=[event], pods=WORKERS[:1], given_up=True)
    assert [item.id for item in problems(seen)] == ["pod-quota"]
    assert progress(seen["job"], WORKERS[:1], 2) == "1 of 2 workers ready, launcher not there yet"


def test_a_job_that_is_gone():
    (problem,) = problems(observed(job=None))
    assert problem.id == "mpijob-deleted"


@pytest.mark.parametrize(
    ("text", "identity", "words"),
    [
        (
            f"{MARK}failed names gpufabric-n-worker-1.n.gpu.svc",
            "names-unresolved",
            "1 of 2 workers",
        ),
        (f"{MARK}failed ssh gpufabric-n-worker-1", "ssh-failed", "1 of 2 workers"),
        (f"{MARK}failed hosts 1 of 2 took part: a; missing: b", "hosts-differ", "The hosts that took part"),
        (f"{MARK}failed mpirun exit status 255", "mpirun-failed", "255"),
        (f"{MARK}failed keys the operator's key is not there", "launcher-keys", "operator's key"),
        ("bash: no such file", "launcher-failed", "exit status 1"),
    ],
)
def test_what_a_launcher_says_is_told(text, identity, words):
    (problem,) = problems(failed_log(text))
    assert problem.id == identity and words in problem.cause
    if identity in ("names-unresolved", "ssh-failed"):
        assert problem.host == "gpufabric-n-worker-1"


def test_a_stage_that_no_launcher_has_is_no_error_of_ours():
    assert problems(failed_log(f"{MARK}failed sleep x"))[0].id == "launcher-failed"


@pytest.mark.parametrize(("more", "identity"), [({}, "pod-failed"), (ended(137, "OOMKilled"), "oom-killed")])
def test_a_launcher_that_ended_and_is_still_said_to_be_ready(more, identity):
    seen = observed("Created", "Failed", pods=[*WORKERS, pod(LAUNCHER, "launcher", "Failed", **more)])
    assert [problem.id for problem in problems(seen)] == [identity]


def test_workers_that_the_operator_removes_at_the_end_are_no_cause():
    going = [
        {**item, "metadata": {**item["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}} for item in WORKERS
    ]
    done = pod(LAUNCHER, "launcher", "Failed", False, **ended(1))
    text = f"{MARK}failed names {' '.join(item['metadata']['name'] for item in WORKERS)}"
    seen = observed("Created", "Failed", pods=[*going, done], launcher_log=text)
    assert {item.id for item in problems(seen)} == {"pod-deleted"}
    seen["job"]["spec"] = {"runPolicy": {"cleanPodPolicy": "Running"}}
    assert [item.id for item in problems(seen)] == ["names-unresolved"]


def test_a_launcher_that_was_evicted_has_no_log_any_more():
    evicted = pod(LAUNCHER, "launcher", "Failed", False, reason="Evicted", message="low on memory", **ended(137))
    (problem,) = problems(observed("Created", "Failed", pods=[*WORKERS, evicted]))
    assert (problem.id, problem.host) == ("pod-evicted", LAUNCHER) and "low on memory" in problem.cause


def test_a_launcher_that_was_deleted_is_told():
    seen = observed("Created", "Failed", pods=WORKERS, lost_launcher={"name": LAUNCHER, "node": "n1"})
    # Its Job deletes it when its time is over.
    assert [item.id for item in problems(seen)] == ["mpijob-failed"]
    seen["job"]["status"]["conditions"][-1]["reason"] = "BackoffLimitExceeded"
    (problem,) = problems(seen)
    assert (problem.id, problem.host) == ("pod-lost", LAUNCHER) and "n1" in problem.evidence


def test_what_ssh_and_mpirun_say_is_told_of_the_worker():
    refused = (
        f"{MARK}worker gpufabric-n-worker-1 at 10.0.0.2: ssh: connect to host 10.0.0.2 port 2222: Connection refused"
    )
    (problem,) = problems(failed_log(log(refused, f"{MARK}failed ssh gpufabric-n-worker-1")))
    assert (problem.id, problem.host) == ("connect-refused", "gpufabric-n-worker-1")
    lines = (
        f"{MARK}worker gpufabric-n-worker-1 is 10.0.0.2, 1 slots",
        "10.0.0.2: bash: line 1: /usr/bin/orted: No such file or directory",
        "ssh: connect to host 10.0.0.2 port 2222: Connection refused",
        f"{MARK}failed mpirun exit status 255",
    )
    found = problems(failed_log(log(*lines)))
    assert ("connect-refused", "gpufabric-n-worker-1") in [(item.id, item.host) for item in found]
    missing = f"{MARK}worker gpufabric-n-worker-1 at 10.0.0.2: bash: line 1: /usr/bin/orted: No such file or directory"
    (problem,) = problems(failed_log(log(missing, f"{MARK}failed mpirun exit status 1")))
    assert (problem.id, problem.host) == ("daemon-missing", "gpufabric-n-worker-1")


def test_a_job_that_is_suspended_is_not_idle():
    (problem,) = problems(observed(job={"metadata": {"name": "x"}, "spec": {"runPolicy": {"suspend": True}}}))
    assert problem.id == "mpijob-suspended"


def test_names_are_told_with_what_the_launcher_saw():
    text = log("--- /etc/resolv.conf ---", "nameserver 10.96.0.10", f"{MARK}failed names a.b")
    (problem,) = problems(failed_log(text))
    assert "nameserver 10.96.0.10" in problem.evidence and MARK not in problem.evidence


def test_pods_come_before_the_time_that_is_over_and_name_the_roles_settings():
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    statuses = [{"name": "worker", "restartCount": 0, "state": waiting}]
    pulled = pod("gpufabric-n-worker-1", "worker", "Pending", False, containerStatuses=statuses)
    seen = observed("Created", pods=[WORKERS[0], pulled], given_up=True)
    (first,) = problems(seen)
    assert (first.host, first.id) == ("gpufabric-n-worker-1", "pod-image")
    named = problems({**seen, "launcher_log": f"{MARK}failed names gpufabric-n-worker-1.n.gpu.svc"})
    assert [item.id for item in named] == ["pod-image"]
    seen = observed("Created", pods=WORKERS, given_up=True)
    assert [item.id for item in problems(seen)] == ["mpijob-timeout"]
    assert "mpijob_image" in first.cure and "worker_pods" not in first.cure


def test_a_worker_that_is_not_there_is_told_in_the_operators_words():
    event = {"type": "Warning", "reason": "MPIJobFailed", "message": "exceeded quota: q"}
    event["involvedObject"] = {"kind": "MPIJob", "name": "gpufabric-n"}
    first = problems(observed("Created", pods=[WORKERS[0]], events=[event], given_up=True))[0]
    assert "quota" in first.cause


def test_a_launcher_that_is_not_let_be_made_is_told_in_the_words_of_its_job():
    said = 'Error creating: pods "x" is forbidden: failed quota: q: must specify limits.cpu for: launcher'
    event = {"type": "Warning", "reason": "FailedCreate", "message": said}
    event["involvedObject"] = {"kind": "Job", "name": "gpufabric-n-launcher"}
    (problem,) = problems(observed("Created", pods=WORKERS, events=[event], given_up=True))
    assert (problem.id, problem.host) == ("pod-refused", "gpufabric-n-launcher")
    assert "must specify limits.cpu" in problem.cause and "mpijob_pod_spec" in problem.cure
    # Its Job itself, by the words of the operator.
    said = 'launcher pod created failed: admission webhook "validate.kyverno.svc-fail" denied the request: \n\nresource Job'
    of_job = {**event, "message": said, "involvedObject": {"kind": "MPIJob", "name": "gpufabric-n"}}
    (problem,) = problems(observed("Created", pods=WORKERS, events=[of_job], given_up=True))
    assert (problem.id, problem.host) == ("pod-refused", "gpufabric-n")
    later = observed("Created", pods=[*WORKERS, pod(LAUNCHER, "launcher")], events=[event, of_job], given_up=True)
    assert [item.id for item in problems(later)] == ["mpijob-timeout"]


def test_progress():
    seen = observed("Created")
    assert "not taken note" in progress(observed()["job"], [], 2)
    assert progress(seen["job"], WORKERS[:1], 2) == "1 of 2 workers ready, launcher not there yet"
    assert progress(seen["job"], [*WORKERS, pod(LAUNCHER, "launcher")], 2) == "2 of 2 workers ready, launcher running"


def results(seen, **changes):
    return job_results(plan(slots=1, **changes), seen)


def test_results_of_a_job_that_did_it():
    text = log(f"{MARK}begin all_reduce", TABLE, f"{MARK}end all_reduce 0 4")
    (document,) = results(observed("Succeeded", pods=WORKERS, launcher_log=text))
    assert (document["verdict"], document["host_count"], document["problems"]) == ("pass", 2, [])
    assert document["points"]["duration_s"] == 4.0


def test_a_process_for_all_gpus_of_a_worker_has_as_many_ranks():
    each = {"slots": None, "gpus": 2, "benchmark": {"gpus_per_rank": 2}}
    line = (
        "#  Rank  {rank} Group  0 Pid    100 on gpufabric-n-worker-{worker} device  {device} [0000:07:00] NVIDIA H100\n"
    )
    listed = [line.format(rank=rank, worker=rank // 2, device=rank % 2) for rank in range(4)]
    lines = [text for text in TABLE.splitlines(keepends=True) if "  Rank  " not in text]
    begin = next(number for number, text in enumerate(lines) if "Using devices" in text) + 1

    def document(ranks):
        table = "".join([*lines[:begin], *listed[:ranks], *lines[begin:]]).replace("nGpus 1", "nGpus 2")
        text = log(f"{MARK}begin all_reduce", table, f"{MARK}end all_reduce 0 4")
        return job_results(plan(**each), observed("Succeeded", pods=WORKERS, launcher_log=text))[0]

    assert (document(4)["verdict"], document(4)["problems"]) == ("pass", [])
    assert "ranks-differ" in {problem["id"] for problem in document(3)["problems"]}


def test_hosts_that_took_no_part_are_an_error():
    text = log(f"{MARK}begin all_reduce", TABLE.replace("worker-1", "worker-0"), f"{MARK}end all_reduce 0 4")
    (document,) = results(observed("Succeeded", pods=WORKERS, launcher_log=text))
    assert document["verdict"] == "fail"
    assert [problem["id"] for problem in document["problems"]] == ["hosts-differ"]
    assert "gpufabric-n-worker-1" in document["problems"][0]["cause"]


def test_a_point_that_failed_is_told_with_its_last_lines_and_the_others_stand():
    text = log(
        f"{MARK}begin all_reduce",
        TABLE,
        f"{MARK}end all_reduce 0 4",
        f"{MARK}begin broadcast",
        "failure: nobody knows it",
        f"{MARK}end broadcast 3 1",
    )
    seen = failed_log(text)
    good, bad = results(seen, benchmark={"collectives": ["all_reduce", "broadcast"]})
    assert good["verdict"] == "pass"
    (problem,) = bad["problems"]
    assert bad["collective"] == "broadcast" and problem["id"] == "run-failed" and "3" in problem["cause"]
    assert problem["evidence"] == "failure: nobody knows it"


def test_what_nccl_complained_of_is_a_warning_of_a_job_that_did_it():
    said = "gpufabric-n-worker-1:1:1 [0] init.cc:1 NCCL WARN NUMA auto balancing enabled which can lead to variability"
    done = log(f"{MARK}begin all_reduce", said, TABLE, f"{MARK}end all_reduce 0 4")
    (document,) = results(observed("Succeeded", pods=WORKERS, launcher_log=done))
    told = [(entry["id"], entry["host"], entry["severity"]) for entry in document["problems"]]
    assert (document["verdict"], told) == ("pass", [("numa-balancing", "gpufabric-n-worker-1", "warning")])
    # It does not explain why another one failed.
    (document,) = results(failed_log(done.replace("end all_reduce 0", "end all_reduce 3")))
    told = [(entry["id"], entry["severity"]) for entry in document["problems"]]
    assert told == [("run-failed", "error"), ("numa-balancing", "warning")]


@pytest.mark.parametrize(
    ("printed", "lost", "identity", "host"),
    [
        (TABLE, LOST, "lost-connection", "gpufabric-n-worker-1"),
        (TABLE.partition("# Out")[0], LOST, "lost-connection", "gpufabric-n-worker-1"),
        ("# nccl-tests", LOST, "lost-connection", "gpufabric-n-worker-1"),
        # The lines that say more are lost in what others print.
        (TABLE, LOST[0], "run-failed", None),
    ],
)
def test_a_job_that_lost_a_worker_has_failed_though_mpirun_of_open_mpi_5_ends_with_0(printed, lost, identity, host):
    lost = lost if isinstance(lost, list) else [lost]
    text = log(f"{MARK}begin all_reduce", printed, *lost, f"{MARK}end all_reduce 0 4")
    (document,) = results(observed("Succeeded", pods=WORKERS, launcher_log=text))
    told = [(entry["id"], entry["host"]) for entry in document["problems"] if entry["severity"] == "error"]
    assert (document["verdict"], told) == ("fail", [(identity, host)])


def test_a_worker_that_open_mpi_calls_by_its_address_is_named():
    lost = ["ORTE has lost communication with a remote daemon.", "", "  Remote daemon: [[36522,0],2] on node 10.0.0.2"]
    known = f"{MARK}worker gpufabric-n-worker-1 is 10.0.0.2, 1 slots"
    (document,) = results(failed_log(log(known, f"{MARK}begin all_reduce", *lost, f"{MARK}end all_reduce 1 4")))
    assert [(told["id"], told["host"]) for told in document["problems"]] == [
        ("lost-connection", "gpufabric-n-worker-1")
    ]


@pytest.mark.parametrize(
    ("lines", "identity"),
    [
        (["slow", f"{MARK}end all_reduce 124 600"], "run-timeout"),
        (["hello", f"{MARK}end all_reduce 0 1"], "output-unread"),
        (["/x/all_reduce_perf: invalid option -- 'q'", f"{MARK}end all_reduce 0 1"], "test-argument"),
        (["cut"], "run-failed"),
    ],
)
def test_other_ends_of_a_point(lines, identity):
    (document,) = results(failed_log(log(f"{MARK}begin all_reduce", *lines)))
    assert document["verdict"] == "fail"
    assert [problem["id"] for problem in document["problems"]] == [identity]


@pytest.mark.parametrize(
    ("more", "identity"),
    [
        ({"reason": "Evicted", "message": "The node was low on resource: memory."}, "pod-evicted"),
        (ended(137, "OOMKilled"), "oom-killed"),
        (
            {"reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown."},
            "pod-failed",
        ),
        # As newer kubelets have it.
        ({"reason": "Evicted", "message": "The node was low on resource: memory.", **ended(137)}, "pod-evicted"),
        ({"reason": "Terminated", "message": "Pod was terminated.", **ended(143)}, "pod-failed"),
    ],
)
def test_a_launcher_that_was_ended_while_a_point_ran_is_told_in_kubernetes_words(more, identity):
    text = log(
        f"{MARK}begin all_reduce",
        TABLE,
        f"{MARK}end all_reduce 0 4",
        f"{MARK}begin broadcast",
        TABLE.partition("# Out")[0],
    )
    ended_launcher = pod(LAUNCHER, "launcher", "Failed", False, **more)
    seen = observed("Created", "Failed", pods=[*WORKERS, ended_launcher], launcher_log=text)
    good, cut = results(seen, benchmark={"collectives": ["all_reduce", "broadcast"]})
    assert good["verdict"] == "pass" and cut["verdict"] == "fail"
    errors = [(entry["id"], entry["host"]) for entry in cut["problems"] if entry["severity"] == "error"]
    assert errors == [(identity, LAUNCHER)]


def test_nothing_that_was_run_is_told_for_each_collective():
    documents = results(observed(given_up=True), benchmark={"collectives": ["all_reduce", "broadcast"]})
    assert [document["collective"] for document in documents] == ["all_reduce", "broadcast"]
    for document in documents:
        assert [problem["id"] for problem in document["problems"]] == ["operator-idle"]
        assert document["verdict"] == "fail"
