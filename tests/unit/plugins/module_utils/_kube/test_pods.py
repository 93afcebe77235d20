# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib

import pytest
import yaml
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.rendering import problems_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.mpijob import TO_SUBMIT
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.pods import (
    crashed_containers,
    in_rank_order,
    is_current,
    is_ready,
    joined_pod,
    lost_pods,
    missing_permissions,
    plan_pods,
    pod_problems,
)

ROLE = pathlib.Path(__file__).parents[5] / "roles/worker_pods"


def settings(**changes):
    defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
    own = {name.split("worker_pods_", 1)[-1]: value for name, value in defaults.items()}
    known = {"namespace": "gpu", "image": "worker", "run_as_user": None, "run_as_group": None, "owner": "me@here"}
    return {**own, **known, **changes}


def plan(**changes):
    return plan_pods("nightly", settings(**changes), "init")


def made(kind, **changes):
    return next(item for item in plan(**changes)["objects"] if item["kind"] == kind)


def pod_spec(**changes):
    return made("StatefulSet", **changes)["spec"]["template"]["spec"]


def container(**changes):
    return pod_spec(**changes)["containers"][0]


def pod(name="p-0", phase="Running", ready="True", containers=(), uid="1", gates=(), **status):
    conditions = [{"type": "Ready", "status": ready}, *status.pop("conditions", ())]
    return {
        "metadata": {"name": name, "uid": uid},
        "spec": {
            "containers": [{"name": "worker"}, {"name": "sidecar"}],
            "nodeName": "n1",
            "schedulingGates": [{"name": gate} for gate in gates],
        },
        "status": {
            "phase": phase,
            "podIP": "10.0.0.1",
            "conditions": conditions,
            "containerStatuses": list(containers),
            **status,
        },
    }


def status(state=None, last=None, name="worker", restarts=0):
    return {"name": name, "state": state or {}, "lastState": last or {}, "restartCount": restarts}


def event(name, reason, message, time="2026-01-01T00:00:00Z", kind="Warning"):
    return {
        "type": kind,
        "reason": reason,
        "message": message,
        "lastTimestamp": time,
        "involvedObject": {"name": name, "uid": "1"},
    }


def test_pods_of_a_run_find_each_other_by_its_service():
    service, stateful_set = made("Service"), made("StatefulSet")
    assert service["spec"]["clusterIP"] == "None"
    assert stateful_set["spec"]["serviceName"] == service["metadata"]["name"] == "gpufabric-nightly"
    assert stateful_set["spec"]["podManagementPolicy"] == "Parallel"
    template = stateful_set["spec"]["template"]["metadata"]["labels"]
    assert template["gpufabric.nccl/run"] == "nightly"
    assert service["spec"]["selector"].items() <= template.items()
    assert stateful_set["spec"]["selector"]["matchLabels"] == service["spec"]["selector"]


def test_the_owner_and_the_settings_are_noted_outside_of_the_pods():
    def noted(**changes):
        return made("StatefulSet", **changes)["metadata"]["annotations"]

    assert noted()["gpufabric.nccl/owner"] == "me@here"
    assert noted(owner="you@there")["gpufabric.nccl/settings"] == noted()["gpufabric.nccl/settings"]
    assert noted(replicas=3)["gpufabric.nccl/settings"] != noted()["gpufabric.nccl/settings"]
    # Pods would be replaced otherwise.
    assert made("StatefulSet", owner="you@there")["spec"] == made("StatefulSet")["spec"]


def test_resources_are_requested_and_limited():
    resources = container(gpus=4, gpu_resource="amd.com/gpu", resources={"rdma/hca": 1})["resources"]
    assert resources == {
        "requests": {"rdma/hca": "1", "amd.com/gpu": "4"},
        "limits": {"rdma/hca": "1", "amd.com/gpu": "4"},
    }
    assert "resources" not in container(gpus=0)


def test_defaults_give_no_more_than_is_needed():
    spec = pod_spec()
    assert spec["automountServiceAccountToken"] is False
    assert spec["containers"][0]["securityContext"] == {"allowPrivilegeEscalation": False}
    assert spec["volumes"] == [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}]
    assert "hostNetwork" not in spec
    assert "annotations" not in made("StatefulSet")["spec"]["template"]["metadata"]
    assert [item["kind"] for item in plan()["objects"]] == ["Service", "StatefulSet"]


def test_ordinary_user_gets_what_the_restricted_standard_asks_for():
    context = container(run_as_user=1000, capabilities=["IPC_LOCK"])["securityContext"]
    assert context == {
        "runAsUser": 1000,
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "seccompProfile": {"type": "RuntimeDefault"},
        "capabilities": {"add": ["IPC_LOCK"], "drop": ["ALL"]},
    }
    assert container(run_as_user=0, run_as_group=0)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "runAsUser": 0,
        "runAsGroup": 0,
    }


def test_networks_host_network_and_further_fields():
    networked = made("StatefulSet", networks=["a", "ns/b"], annotations={"x": "y"})["spec"]["template"]["metadata"]
    assert networked["annotations"] == {"x": "y", "k8s.v1.cni.cncf.io/networks": "a,ns/b"}
    assert pod_spec(host_network=True)["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert pod_spec(pod_spec={"priorityClassName": "high"})["priorityClassName"] == "high"


def test_only_pods_of_the_run_may_connect_to_it():
    policy = plan()["policy"]
    own = {
        "podSelector": {
            "matchLabels": {"app.kubernetes.io/managed-by": "gpufabric.nccl", "gpufabric.nccl/run": "nightly"}
        }
    }
    # On all ports; what the pods connect to, such as the DNS, is not limited.
    assert policy["spec"] == {**own, "policyTypes": ["Ingress"], "ingress": [{"from": [own]}]}
    assert (
        own["podSelector"]["matchLabels"].items()
        <= made("StatefulSet")["spec"]["template"]["metadata"]["labels"].items()
    )
    assert policy["metadata"]["annotations"] == {"gpufabric.nccl/owner": "me@here"}


@pytest.mark.parametrize(
    ("wanted", "there", "needed"),
    [("auto", True, False), ("True", True, True), (True, True, True), ("false", False, False)],
)
def test_a_network_policy_is_needed_only_if_it_is_asked_for(wanted, there, needed):
    planned = plan(network_policy=wanted)
    assert (planned["policy"] is not None) is there
    assert (("networking.k8s.io", "networkpolicies") in [need[:2] for need in planned["needs"]]) is needed
    assert plan(names=["a"], image="", network_policy=wanted)["policy"] is None


@pytest.mark.parametrize(
    ("changes", "selector", "names"),
    [
        ({"selector": "app=x"}, "app=x", []),
        ({"names": ["a", "b"]}, None, ["a", "b"]),
        ({"mpijob": "train"}, "training.kubeflow.org/job-name=train,training.kubeflow.org/job-role=worker", []),
    ],
)
def test_adopted_pods_are_neither_made_nor_changed(changes, selector, names):
    adopted = plan(**changes, image="")
    assert adopted["adopt"] and adopted["objects"] == []
    assert (adopted["selector"], adopted["names"], adopted["container"]) == (selector, names, None)
    assert {verb for _group, _resource, verbs in adopted["needs"] for verb in verbs} == {"get", "list", "create"}
    assert [resource for _group, resource, verbs in adopted["needs"] if "create" in verbs] == ["pods/exec"]


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"image": ""}, "worker_pods_image"),
        ({"replicas": 0}, "worker_pods_replicas"),
        ({"gpus": -1}, "worker_pods_gpus"),
        ({"shm_size": "lots"}, "worker_pods_shm_size"),
        ({"resources": {"memory": "1 G"}}, "worker_pods_resources[memory]"),
        ({"capabilities": ["ipc_lock"]}, "worker_pods_capabilities"),
        ({"run_as_user": -1}, "worker_pods_run_as_user"),
        ({"labels": {"gpufabric.nccl/run": "x"}}, "worker_pods_labels"),
        ({"timeout": 0}, "worker_pods_timeout"),
        ({"names": ["Bad Name"]}, "worker_pods_names"),
        # Kubernetes would have all pods of the namespace.
        ({"selector": " "}, "worker_pods_selector"),
        ({"selector": "app=x,,"}, "worker_pods_selector"),
        ({"mpijob": "a,b"}, "worker_pods_mpijob"),
        ({"selector": "app=x", "mpijob": "y"}, "worker_pods_selector, worker_pods_mpijob"),
    ],
)
def test_wrong_settings_are_named(changes, option):
    with pytest.raises(OptionError) as error:
        plan(**changes)
    assert str(error.value).startswith(f"{option}: ")


ADMIN = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
READER = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
NEEDS = [("", "pods", ("get", "list")), ("", "pods/exec", ("create",)), ("apps", "statefulsets", ("create", "delete"))]


@pytest.mark.parametrize(
    ("rules", "missing"),
    [
        ([ADMIN], []),
        ([], ["get, list pods", "create pods/exec", "create, delete statefulsets.apps"]),
        ([READER], ["create pods/exec", "create, delete statefulsets.apps"]),
        (
            [READER, {"apiGroups": [""], "resources": ["*/exec"], "verbs": ["create"]}],
            ["create, delete statefulsets.apps"],
        ),
        (
            [{**ADMIN, "resourceNames": ["one"]}],
            ["get, list pods", "create pods/exec", "create, delete statefulsets.apps"],
        ),
        (
            [READER, {"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": ["create"]}],
            ["create pods/exec", "delete statefulsets.apps"],
        ),
    ],
)
def test_missing_permissions(rules, missing):
    assert missing_permissions({"resourceRules": rules, "incomplete": False}, NEEDS) == missing


def test_rules_that_are_not_all_known_say_nothing():
    assert missing_permissions({"resourceRules": [], "incomplete": True}, NEEDS) == []


def test_rank_order_is_that_of_the_numbers():
    names = ["w-10", "w-2", "w-0", "a-1"]
    assert [item["metadata"]["name"] for item in in_rank_order([pod(name) for name in names])] == [
        "a-1",
        "w-0",
        "w-2",
        "w-10",
    ]


@pytest.mark.parametrize(
    "selector", ["app=x", "a/b==c, d != e", "!gone", "there", "k=", "tier in (a, b),x notin (c)", "n>3", " app = x "]
)
def test_selectors_are_those_of_kubernetes(selector):
    assert plan(selector=selector)["selector"] == selector


def test_ready_is_not_one_that_goes_or_has_gone():
    leaving = pod()
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert is_ready(pod()) and not is_ready(pod(ready="False")) and not is_ready(leaving)
    assert not is_ready(pod(phase="Failed"))


def test_pod_of_an_old_template_is_not_current():
    own = pod()
    own["metadata"]["labels"] = {"controller-revision-hash": "b"}
    wanted = {"metadata": {"generation": 2}, "status": {"observedGeneration": 2, "updateRevision": "b"}}
    assert is_current(own, wanted) and is_current(own, None)
    assert not is_current(own, {**wanted, "status": {"observedGeneration": 1, "updateRevision": "b"}})
    assert not is_current(own, {**wanted, "status": {"observedGeneration": 2, "updateRevision": "c"}})


SCHEDULING = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


@pytest.mark.parametrize(
    ("given", "events", "identity", "told"),
    [
        (
            pod(
                phase="Pending",
                ready="False",
                conditions=[{**SCHEDULING, "message": "0/9 nodes: 9 Insufficient nvidia.com/gpu."}],
            ),
            [],
            "pod-unschedulable",
            "worker_pods_resources, worker_pods_gpus;",
        ),
        (
            pod(
                phase="Pending",
                ready="False",
                conditions=[{**SCHEDULING, "message": "1 node(s) had taint {gpu: }, that the pod didn't tolerate"}],
            ),
            [],
            "pod-unschedulable",
            "worker_pods_tolerations",
        ),
        (
            pod(
                phase="Pending",
                ready="False",
                conditions=[{**SCHEDULING, "reason": "SchedulingGated", "message": "Scheduling is blocked"}],
                gates=["example.com/admission"],
            ),
            [],
            "pod-starting",
            "held back by its scheduling gates: example.com/admission.",
        ),
        (
            pod(
                phase="Pending",
                ready="False",
                containers=[status({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off"}})],
            ),
            [
                event("p-0", "Failed", "Failed to pull image x: not found"),
                event("p-0", "BackOff", "Back-off", "2026-01-02T00:00:00Z"),
                event("p-0", "Failed", "Error: ImagePullBackOff", "2026-01-02T00:00:00Z"),
            ],
            "pod-image",
            "Failed to pull image x: not found",
        ),
        (
            pod(
                ready="False",
                containers=[
                    status(
                        {"waiting": {"reason": "CrashLoopBackOff"}}, {"terminated": {"exitCode": 3, "reason": "Error"}}
                    )
                ],
            ),
            [],
            "pod-crash",
            "exit status 3.",
        ),
        (
            pod(
                ready="False",
                containers=[
                    status({"terminated": {"exitCode": 128, "reason": "StartError", "message": "no such program"}})
                ],
            ),
            [],
            "pod-start",
            "no such program",
        ),
        (
            pod(ready="False", containers=[status({"terminated": {"exitCode": 137, "reason": "OOMKilled"}})]),
            [],
            "oom-killed",
            "memory limit",
        ),
        (
            pod(phase="Pending", ready="False", containers=[status({"waiting": {"reason": "ContainerCreating"}})]),
            [event("p-0", "FailedMount", 'MountVolume.SetUp failed for volume "x" : no such secret')],
            "pod-volume",
            "no such secret",
        ),
        (
            pod(phase="Pending", ready="False", containers=[status({"waiting": {"reason": "ContainerCreating"}})]),
            [
                event("p-0", "FailedMount", 'MountVolume.SetUp failed for volume "x" : no such secret'),
                event("p-0", "FailedMount", "Unable to attach or mount volumes: timed out", "2026-01-01T00:02:00Z"),
            ],
            "pod-volume",
            "no such secret",
        ),
        (
            pod(
                phase="Pending",
                ready="False",
                containers=[status({"waiting": {"reason": "RunContainerError", "message": "no python3"}})],
            ),
            [],
            "pod-start",
            "no python3",
        ),
        (
            pod(phase="Failed", ready="False", reason="Evicted", message="low on disk"),
            [],
            "pod-evicted",
            "Evicted: low on disk",
        ),
        (pod(ready="False"), [event("p-0", "Unhealthy", "probe failed")], "pod-not-ready", "probe failed"),
    ],
)
def test_reason_why_a_pod_is_not_ready(given, events, identity, told):
    problems = pod_problems([pod("other"), given], events, {"p-0": "last words"})
    assert [(problem.id, problem.host) for problem in problems] == [(identity, "p-0")]
    assert told in problems_text([item.as_dict() for item in problems])


DONE = status({"terminated": {"exitCode": 0, "reason": "Completed"}}, name="setup")


@pytest.mark.parametrize(
    ("phase", "init", "worker", "identity", "told"),
    [
        (
            "Pending",
            DONE,
            status({"waiting": {"reason": "ErrImagePull", "message": "no such image"}}),
            "pod-image",
            "no such image",
        ),
        (
            "Pending",
            DONE,
            status({"waiting": {"reason": "CreateContainerConfigError", "message": "no secret"}}),
            "pod-config",
            "no secret",
        ),
        ("Running", DONE, status({"running": {}}), "pod-not-ready", "is not ready"),
        (
            "Pending",
            status({"terminated": {"exitCode": 4, "reason": "Error"}}, name="setup"),
            status({"waiting": {"reason": "PodInitializing"}}),
            "pod-crash",
            "container setup of the pod ended: exit status 4",
        ),
        (
            "Pending",
            status({"running": {"startedAt": "2026-01-01T11:57:00Z"}}, name="setup"),
            status({"waiting": {"reason": "PodInitializing"}}),
            "pod-starting",
            "its init container setup still runs, since 2026-01-01T11:57:00Z",
        ),
    ],
)
def test_an_init_container_that_is_done_is_no_crash(phase, init, worker, identity, told):
    given = pod(phase=phase, ready="False", containers=[worker], initContainerStatuses=[init])
    (problem,) = pod_problems([given], [], {})
    assert problem.id == identity and told in f"{problem.cause} {problem.evidence}"
    if identity == "pod-starting":
        assert "kubectl logs -c setup" in problem.cure
    if identity == "pod-crash":
        assert "(kubectl logs POD --container setup)" in problem.cure
    assert [item["container"] for item in crashed_containers([given])] == (["setup"] if identity == "pod-crash" else [])


@pytest.mark.parametrize(("restarts", "option"), [(0, ")"), (1, " --previous)")])
def test_the_command_that_reads_the_log_of_a_crash_works_as_it_stands(restarts, option):
    ended = {"terminated": {"exitCode": 3, "reason": "Error"}}
    state = [{"waiting": {"reason": "CrashLoopBackOff"}}, ended] if restarts else [ended]
    (problem,) = pod_problems([pod(ready="False", containers=[status(*state, restarts=restarts)])], [], {})
    assert f"(kubectl logs POD --container worker{option}" in problem.cure


@pytest.mark.parametrize(
    ("said", "tolerations"),
    [
        ("0/1 nodes are available: 1 node(s) were unschedulable.", False),
        ("0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/unschedulable: }.", False),
        ("0/2 nodes are available: 1 node(s) had taint {gpu: }, 1 node(s) were unschedulable.", True),
    ],
)
def test_a_cordoned_node_is_to_be_uncordoned(said, tolerations):
    given = pod(phase="Pending", ready="False", conditions=[{**SCHEDULING, "message": said}])
    (problem,) = pod_problems([given], [], {})
    assert "kubectl uncordon NODE" in problem.cure and "pod_spec" not in problem.cure
    assert ("worker_pods_tolerations" in problem.cure) == tolerations


def test_log_of_a_crash_is_shown():
    crashed = pod(ready="False", containers=[status(last={"terminated": {"exitCode": 1}})])
    assert crashed_containers([pod(), crashed]) == [{"pod": "p-0", "container": "worker", "previous": True}]
    assert pod_problems([crashed], [], {"p-0": "last words\n"})[0].evidence == "last words"


def test_log_is_of_the_container_that_is_told():
    ended = {"terminated": {"exitCode": 1}}
    crashed = pod(ready="False", containers=[status(last=ended, name="sidecar"), status(ended)])
    assert [item["container"] for item in crashed_containers([crashed])] == ["sidecar"]
    assert "container sidecar" in pod_problems([crashed], [], {})[0].cause


@pytest.mark.parametrize(
    ("worker", "identity"),
    [
        ({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}, "pod-image"),
        ({"running": {}}, "pod-not-ready"),
    ],
)
def test_a_container_that_is_ready_again_is_not_to_blame(worker, identity):
    beside = {**status({"running": {}}, {"terminated": {"exitCode": 1}}, "sidecar", restarts=1), "ready": True}
    given = pod(ready="False", containers=[beside, {**status(worker), "ready": False}])
    assert [item.id for item in pod_problems([given], [], {})] == [identity]
    assert crashed_containers([given]) == []


def test_the_role_of_the_examples_has_all_rights_and_no_others():
    documents = yaml.safe_load((ROLE.parents[1] / "docs/examples/kubernetes/rbac.yml").read_text())["items"]
    (role,) = (item for item in documents if item["kind"] == "Role")
    needs = [*plan(network_policy=True)["needs"], *TO_SUBMIT]
    assert missing_permissions({"resourceRules": role["rules"]}, needs) == []
    # What is only looked at when something is wrong.
    looks = [("", name, ("get", "list")) for name in ("events", "endpoints")]
    given = {(name, verb) for rule in role["rules"] for name in rule["resources"] for verb in rule["verbs"]}
    assert given == {(resource, verb) for _group, resource, verbs in [*needs, *looks] for verb in verbs}


SCC = (
    'unable to validate against any security context constraint: [provider "anyuid": Forbidden: not usable by user or'
    " serviceaccount, spec.containers[0].securityContext.runAsUser: Invalid value: 0: must be in the ranges:"
    " [1000650000, 1000659999]]"
)


def test_quota_is_told_for_pods_that_are_not_made():
    events = [
        event("set", "FailedCreate", 'pods "set-1" is forbidden: exceeded quota: small'),
        event("set", "SuccessfulCreate", "fine", "2026-01-02T00:00:00Z", kind="Normal"),
    ]
    problem = pod_problems([pod()], events, {}, ["set"])[0]
    assert problem.id == "pod-quota" and "exceeded quota: small" in problem.cause
    events = [event("set", "FailedCreate", 'pods "set-1" is forbidden: violates PodSecurity "restricted:latest"')]
    assert [item.id for item in pod_problems([], events, {}, ["set"])] == ["pod-refused"]
    said = f'pods "set-0" is forbidden: violates PodSecurity "restricted:latest": {"x" * 50}, runAsNonRoot != true'
    events = [
        event("set", "FailedCreate", f"create Pod {'set' * 20}-0 in StatefulSet {'set' * 20} failed error: {said}")
    ]
    assert "runAsNonRoot != true." in pod_problems([], events, {}, ["set"])[0].cause
    # As Kyverno says it, in several lines.
    said = 'admission webhook "validate.kyverno.svc-fail" denied the request: \n\nresource Pod/gpu/set-0 was blocked\n'
    events = [event("set", "FailedCreate", f"create Pod set-0 in StatefulSet set failed error: {said}")]
    (problem,) = pod_problems([], events, {}, ["set"])
    assert problem.id == "pod-refused" and "resource Pod/gpu/set-0 was blocked" in problem.cause
    events = [event("set", "FailedCreate", f'pods "set-1" is forbidden: {SCC}')]
    (problem,) = pod_problems([], events, {}, ["set"], "mpijob_")
    assert problem.id == "pod-scc" and 'provider "anyuid"' in problem.cause
    assert "oc adm policy add-scc-to-user" in problem.cure and "mpijob_run_as_user" in problem.cure
    said = (
        'failed calling webhook "rules.example.com": Post "https://rules.default.svc:443/": connect: connection refused'
    )
    events = [event("set", "FailedCreate", f"create Pod set-0 in StatefulSet set failed error: {said}")]
    (problem,) = pod_problems([], events, {}, ["set"])
    assert problem.id == "kube-webhook" and '"rules.example.com"' in problem.cause
    assert [item.id for item in pod_problems([], [], {}, ["set"])] == ["pod-not-created"]


def test_same_reason_is_told_once_for_many_pods():
    condition = {**SCHEDULING, "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."}
    many = [pod(f"p-{number}", phase="Pending", ready="False", conditions=[condition]) for number in range(32)]
    text = problems_text([item.as_dict() for item in pod_problems(many, [], {}, prefix="mpijob_")])
    assert "p-7 and 24 more: No node takes the pod: 0/1 nodes" in text and text.count("To do:") == 1
    assert "mpijob_gpus" in text and "worker_pods" not in text


JOINED = joined_pod(pod(containers=[status(restarts=1)]), None)


def test_joined_pod():
    assert JOINED == {
        "name": "p-0",
        "uid": "1",
        "address": "10.0.0.1",
        "node": "n1",
        "container": "worker",
        "restarts": 1,
    }
    assert joined_pod(pod(), "sidecar")["container"] == "sidecar"


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ([pod(containers=[status(restarts=1)])], None),
        ([], ("pod-lost", "was deleted")),
        ([pod(uid="2")], ("pod-lost", "another one (uid 2) now has its name")),
        ([pod(phase="Failed", reason="Evicted", message="low on memory")], ("pod-evicted", "Evicted: low on memory")),
        ([pod(containers=[status(restarts=1, last={"terminated": {"reason": "OOMKilled", "exitCode": 137}})])], None),
        (
            [pod(containers=[status(restarts=2, last={"terminated": {"exitCode": 3}})])],
            ("pod-restarted", "exit status 3"),
        ),
        ([pod(phase="Succeeded")], ("pod-failed", "Succeeded")),
        (
            [pod(containers=[status(restarts=2, last={"terminated": {"reason": "OOMKilled", "exitCode": 137}})])],
            ("oom-killed", "the container worker"),
        ),
        # Not started anew yet.
        (
            [pod(containers=[status({"terminated": {"exitCode": 3}}, restarts=1)])],
            ("pod-restarted", "exit status 3"),
        ),
        (
            [
                pod(
                    containers=[
                        status({"waiting": {"reason": "CrashLoopBackOff"}}, {"terminated": {"exitCode": 3}}, restarts=1)
                    ]
                )
            ],
            ("pod-restarted", "exit status 3"),
        ),
        (
            [pod(phase="Failed", containers=[status({"terminated": {"exitCode": 3}}, restarts=1)])],
            ("pod-failed", "Failed"),
        ),
    ],
)
def test_lost_pods(now, told):
    problems = lost_pods([JOINED], now)
    assert [problem.host for problem in problems] == ([] if told is None else ["p-0"])
    assert told is None or (problems[0].id == told[0] and told[1] in problems[0].cause)


@pytest.mark.parametrize("now", [[], [pod(uid="2")]])
def test_a_pod_that_was_evicted_and_replaced_is_told_by_its_event(now):
    said = "The node was low on resource: ephemeral-storage."
    events = [event("p-0", "Evicted", said), event("p-0", "FailedMount", "later", "2026-01-02T00:00:00Z")]
    (problem,) = lost_pods([JOINED], now, events)
    assert (problem.id, problem.host) == ("pod-evicted", "p-0") and "ephemeral-storage" in problem.cause
    of_another = {**events[0], "involvedObject": {"name": "p-0", "uid": "0"}}
    assert [item.id for item in lost_pods([JOINED], now, [of_another])] == ["pod-lost"]


def test_a_variable_without_a_value_is_not_set():
    assert container(env={"A": 1, "B": None})["env"] == [{"name": "A", "value": "1"}]


def test_a_restart_of_which_nothing_else_is_known_has_no_exit_status():
    joined = joined_pod(pod(), "worker")
    (problem,) = lost_pods([joined], [pod(containers=[status({"running": {}}, restarts=1)])])
    assert problem.id == "pod-restarted" and "None" not in problem.cause


def test_of_a_log_with_long_lines_the_end_is_shown():
    (problem,) = pod_problems(
        [pod(ready="False", containers=[status({"terminated": {"exitCode": 1, "reason": "Error"}})])],
        [],
        {"p-0": "x" * 10**6 + "the end"},
    )
    assert problem.id == "pod-crash" and problem.evidence.endswith("the end") and len(problem.evidence) < 10**4
