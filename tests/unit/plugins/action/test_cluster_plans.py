# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The actions that plan what a cluster is asked to make."""

from __future__ import annotations

import re
import socket
import types

import pytest
import yaml
from ansible.plugins.action import ActionBase
from ansible_collections.gpufabric.nccl.plugins.action.check_permissions import ActionModule as CheckPermissions
from ansible_collections.gpufabric.nccl.plugins.action.mark_nodes import ActionModule as MarkNodes
from ansible_collections.gpufabric.nccl.plugins.action.mpijob_plan import ActionModule as MPIJobPlan
from ansible_collections.gpufabric.nccl.plugins.action.pod_addresses import ActionModule as PodAddresses
from ansible_collections.gpufabric.nccl.plugins.action.worker_pods_plan import ActionModule as WorkerPodsPlan
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.task_results import failure_details
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._cluster import (
    CLUSTER_ARGUMENTS,
    ClusterMixin,
    Unanswered,
    kubectl_config,
)


@pytest.fixture
def pods(planned):
    return lambda **variables: planned(WorkerPodsPlan, "worker_pods", {}, worker_pods_image="worker", **variables)


@pytest.fixture
def job(planned):
    return lambda arguments=None, **variables: planned(
        MPIJobPlan, "mpijob", arguments or {}, mpijob_image="worker", **variables
    )


def template_of(plan):
    return plan["objects"][-1]["spec"]["template"]


def test_text_from_the_command_line_or_a_survey_makes_the_same_pods(pods):
    text = pods(
        worker_pods_networks="sriov",
        worker_pods_replicas="3",
        worker_pods_capabilities="IPC_LOCK,SYS_NICE",
        worker_pods_host_network="no",
        worker_pods_env="NCCL_DEBUG=INFO",
        worker_pods_node_selector='{"gpu": "h200"}',
        worker_pods_tolerations='[{"key": "gpu", "operator": "Exists"}]',
        worker_pods_run_as_user="",
    )
    data = pods(
        worker_pods_networks=["sriov"],
        worker_pods_replicas=3,
        worker_pods_capabilities=["IPC_LOCK", "SYS_NICE"],
        worker_pods_host_network=False,
        worker_pods_env={"NCCL_DEBUG": "INFO"},
        worker_pods_node_selector={"gpu": "h200"},
        worker_pods_tolerations=[{"key": "gpu", "operator": "Exists"}],
    )
    assert text["objects"][-1] == data["objects"][-1] and not text.get("failed")
    assert template_of(text)["metadata"]["annotations"] == {"k8s.v1.cni.cncf.io/networks": "sriov"}
    assert text["objects"][-1]["spec"]["replicas"] == 3


def test_pods_that_exist_are_named_by_text_too(pods):
    assert pods(worker_pods_names="a-0,a-1")["names"] == ["a-0", "a-1"]


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"worker_pods_replicas": "two"}, "worker_pods_replicas: 'two' is not allowed; allowed: a whole number"),
        ({"worker_pods_replicas": 0}, "worker_pods_replicas: 0 is not allowed; allowed: "),
        ({"worker_pods_names": "a-0,a-1,a-0"}, "worker_pods_names: 'a-0' is not allowed; allowed: each pod once"),
        ({"worker_pods_names": "a-0", "worker_pods_mpijob": "j"}, "worker_pods_names, worker_pods_mpijob: "),
        ({"worker_pods_resources": "cpu"}, "worker_pods_resources: 'cpu' is not allowed; allowed: a dictionary"),
    ],
)
def test_a_wrong_variable_of_pods_is_one_line_that_names_it(pods, variables, message):
    result = pods(**variables)
    assert result["failed"] and result["msg"].startswith(message) and "\n" not in result["msg"]


def test_networks_that_a_survey_left_blank_are_as_good_as_none(job):
    networks = ("control_interface", "control_subnet", "data_interface")
    blank = job(mpijob_name="n", **{f"gpufabric_{name}": "" for name in (*networks, "mpi_prefix")})
    assert blank["objects"][-1] == job(mpijob_name="n")["objects"][-1] and not blank.get("failed")


@pytest.mark.parametrize("value", ["", " ", "a/b", "..", "My-Team"])
def test_a_namespace_that_can_be_none_is_refused(pods, job, value):
    """With a blank one, Kubernetes looks in all."""
    for plan in (pods, job):
        result = plan(gpufabric_namespace=value)
        assert result["failed"] and result["msg"] == (
            f"gpufabric_namespace: {value!r} is not allowed; allowed: the name of a namespace"
        )


def test_a_directory_is_no_configuration_of_a_cluster(pods, tmp_path):
    result = pods(gpufabric_kubeconfig=str(tmp_path))
    assert result["msg"] == f"gpufabric_kubeconfig: {str(tmp_path)!r} is not allowed; allowed: the path of a file"


#: What it says if the token has expired.
UNKNOWN = """401
Reason: Unauthorized
HTTP response headers: HTTPHeaderDict({'Content-Type': 'application/json'})
HTTP response body: {"kind":"Status","status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}
Original traceback:
  File "kubernetes/dynamic/client.py", line 54, in inner
    resp = func(self, *args, **kwargs)"""


class Asks(ClusterMixin):
    """Gets the same answer from every module."""

    def __init__(self, answer):
        self._answer = {"failed": True, **answer}
        self.prepare(dict.fromkeys(CLUSTER_ARGUMENTS), None)

    def run(self, *_what):
        raise NotImplementedError

    def _execute_module(self, **_call):
        return self._answer


#: What urllib3 says where nothing listens.
AWAY = "HTTPSConnectionPool(host='127.0.0.1', port=9): Max retries exceeded with url: /version (Caused by x)"
#: What the client of Kubernetes says if the program of the kubeconfig that logs in has failed: it goes on without a user.
NOBODY = """403
Reason: Forbidden
HTTP response headers: HTTPHeaderDict({'Content-Type': 'application/json'})
HTTP response body: {"status":"Failure","message":"forbidden: User \\"system:anonymous\\" cannot get path \\"/apis\\"","code":403}
Original traceback:
  File "kubernetes/client/exceptions.py", line 147, in from_response
    raise ForbiddenException(http_resp=http_resp, body=body, data=data)"""


@pytest.mark.parametrize(
    ("answer", "words", "problems"),
    [
        ({"msg": "refused"}, "refused", []),
        ({"exception": "Traceback\n  x\nOSError: no"}, "OSError: no", []),
        # As ansible-core 2.19 has it.
        ({"exception": types.SimpleNamespace(event=types.SimpleNamespace(msg="no disk"))}, "no disk", []),
        # kubernetes.core.k8s ends so, and k8s_info with a message.
        (
            {"exception": f"Traceback\n  x\nMaxRetryError: {AWAY}"},
            "The API server of the cluster",
            ["kube-unreachable"],
        ),
        ({"exception": types.SimpleNamespace(event=types.SimpleNamespace(msg=AWAY))}, "The API", ["kube-unreachable"]),
        # The client of Kubernetes puts the traceback last.
        (
            {"exception": types.SimpleNamespace(event=types.SimpleNamespace(msg=NOBODY))},
            "The cluster does not",
            ["kube-token-expired"],
        ),
        (
            {"exception": types.SimpleNamespace(event=types.SimpleNamespace(msg=UNKNOWN))},
            "The cluster does not know the user",
            ["kube-token-expired"],
        ),
        ({}, "a module of kubernetes.core gave no reason", []),
    ],
)
def test_a_module_that_crashed_has_a_reason(answer, words, problems):
    with pytest.raises(Unanswered, match=words) as told:
        Asks(answer).change()
    assert [entry["id"] for entry in told.value.problems] == problems


def test_paths_are_those_of_who_starts_a_play(monkeypatch, tmp_path):
    """As KUBECONFIG has them, which kubectl reads too; Ansible runs modules in the folder of the playbook."""
    calls = []
    monkeypatch.setattr(
        ActionBase, "_low_level_execute_command", lambda *_command, **options: calls.append(options) or {}
    )
    folder = tmp_path / "my files"
    folder.mkdir()
    monkeypatch.chdir(folder)
    asks = Asks({})
    asks._connection = types.SimpleNamespace(transport="local")
    asks._low_level_execute_command("true")
    assert calls == [{"chdir": f"'{folder}'"}]


def config(*contexts, current=None):
    named = ", ".join(f"{{name: {name}}}" for name in contexts)
    return f"contexts: [{named}]" + (f"\ncurrent-context: {current}" if current else "")


@pytest.fixture
def configured(monkeypatch, tmp_path):
    """Files of the folder, two of which and a missing one are KUBECONFIG."""
    for name in ("K8S_AUTH_HOST", "K8S_AUTH_KUBECONFIG", "K8S_AUTH_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "missing:config:more")

    def configured(**files):
        for name, text in files.items():
            (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())

    return configured


@pytest.fixture
def asked(planned, monkeypatch):
    """What modules are asked with, and the failure if none was."""
    calls = []

    def execute(_self, module_args, **_call):
        calls.append({name: module_args[name] for name in ("kubeconfig", "context") if name in module_args})
        return {"result": {"status": {}}}

    monkeypatch.setattr(CheckPermissions, "_execute_module", execute)

    def asked(**given):
        result = planned(CheckPermissions, "isolate", {"needs": []}, **given)
        return calls.pop() if calls else failure_details(result)["problems"]

    return asked


OWN = config("own", current="own")


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"config": config("gpus", current="gpus")}, {"context": "gpus"}),
        # The modules would take the last one.
        ({"config": config("gpus", current="gpus"), "more": OWN}, {"context": "gpus"}),
        ({"config": "clusters: []", "more": config("gpus", current="gpus")}, {"context": "gpus"}),
        # Of several files, one may have what another names.
        ({"config": "current-context: gpus", "more": config("gpus")}, {"context": "gpus"}),
        ({"config": "current-context: ''"}, {}),
        ({"more": config("gpus", current="gpus")}, {"context": "gpus"}),
        ({}, {}),
    ],
)
def test_the_cluster_is_the_one_that_kubectl_asks(configured, asked, monkeypatch, files, found):
    """By kubectl the tasks of pods run. Modules of kubernetes.core choose otherwise, among files and in a pipeline's pod."""
    configured(**files)
    assert asked() == found
    # What is said counts more.
    configured(own=OWN, more=OWN)
    for given in ({"gpufabric_kubeconfig": "own"}, {"gpufabric_kube_context": "own"}):
        assert list(asked(**given).values()) == list(given.values())
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", "own")
    assert asked() == {"kubeconfig": "own"}
    # A credential of AWX needs no file.
    monkeypatch.setenv("K8S_AUTH_HOST", "https://api")
    assert asked(gpufabric_kubeconfig="missing") == {"kubeconfig": "missing"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("contexts: [\ntoken: {\n", "config is not YAML, see line 3"),
        (b"\x80", "config is not YAML"),
        ("", "config is empty"),
        ("https://api", "config is no kubeconfig"),
        (config("a", "b", current="gpus"), "{paths} has no context gpus, but a, b"),
        (config(current="gpus"), "{paths} has no context gpus"),
        ("contexts: [null, gpus]\ncurrent-context: gpus", "{paths} has no context gpus"),
        ("contexts: 8\ncurrent-context: gpus", "{paths} has no context gpus"),
    ],
)
def test_a_broken_kubeconfig_is_named_with_its_path(configured, asked, text, reason):
    """kubectl fails too, and does not go on with another cluster."""
    configured(config=text)
    for paths, given in (("missing:config:more", {}), ("config", {"gpufabric_kubeconfig": "config"})):
        (problem,) = asked(**given)
        told = reason.format(paths=paths)
        assert (problem["id"], problem["cause"]) == (
            "kube-config",
            f"The configuration for the cluster is not usable: {told}.",
        )


def test_a_kubeconfig_that_lacks_what_is_asked_for_is_named(configured, asked, monkeypatch, tmp_path):
    configured(config=OWN, more=config("gpus"))
    for given, told in (
        ({"gpufabric_kubeconfig": "missing"}, "missing does not exist"),
        ({"gpufabric_kubeconfig": "more"}, "more has no current-context"),
        ({"gpufabric_kubeconfig": "config", "gpufabric_kube_context": "x"}, "config has no context x, but own"),
        ({"gpufabric_kube_context": "x"}, "missing:config:more has no context x, but own, gpus"),
    ):
        assert asked(**given)[0]["cause"].endswith(f": {told}.")
    (tmp_path / "folder").mkdir()
    monkeypatch.setenv("KUBECONFIG", "folder")
    assert asked()[0]["cause"].endswith(": folder: Is a directory.")


def test_without_kubeconfig_the_file_is_that_of_the_home(configured, monkeypatch, tmp_path):
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert kubectl_config({}) == {}
    (tmp_path / ".kube").mkdir()
    configured(**{".kube/config": config("gpus", current="gpus")})
    assert kubectl_config({}) == {"context": "gpus"}


@pytest.mark.parametrize(("apis", "problems"), [({"MPIJob": {}}, ["kube-forbidden"]), ({}, ["operator-missing"])])
def test_there_is_no_job_without_its_operator(planned, monkeypatch, apis, problems):
    def execute(_self, module_name, **_call):
        if module_name == "kubernetes.core.k8s_cluster_info":
            return {"apis": {"kubeflow.org/v2beta1": apis}}
        return {"result": {"status": {"resourceRules": []}}}

    monkeypatch.setattr(CheckPermissions, "_execute_module", execute)
    needs = [["kubeflow.org", "mpijobs", ["create"]]]
    result = planned(CheckPermissions, "mpijob", {"needs": needs, "operator": True})
    assert [entry["id"] for entry in failure_details(result)["problems"]] == problems


@pytest.mark.parametrize(
    ("name", "value"),
    [("volumes", None), ("containers", [5]), ("containers", [{"name": []}]), ("initContainers", [{"image": "i"}])],
)
def test_lists_of_a_pod_spec_have_items_with_names(pods, job, name, value):
    """They are merged with the collection's own by these."""
    for role, plan in (("worker_pods", pods), ("mpijob", job)):
        result = plan(**{f"{role}_pod_spec": {name: value}})
        assert result["failed"] and result["msg"] == (
            f"{role}_pod_spec.{name}: (not shown) is not allowed; allowed: a list of dictionaries, each with a name"
        )


@pytest.mark.parametrize("context", [{"capabilities": []}, {"capabilities": {"add": 5}}, {"capabilities": 5}, None, 5])
def test_what_else_a_pod_spec_has_is_for_the_cluster_to_judge(pods, context):
    own = {"name": "worker", "securityContext": context, "env": [{"name": []}]}
    plan = pods(worker_pods_pod_spec={"containers": [own]})
    assert template_of(plan)["spec"]["containers"][0]["env"][-1] == {"name": []}


def test_text_makes_the_same_job(job):
    text = job(
        mpijob_networks="sriov",
        mpijob_slots="2",
        nccl_benchmark_collectives="all_reduce,all_gather",
        nccl_benchmark_backend="cpu",
        nccl_benchmark_check="true",
        mpijob_gpus="8",
        mpijob_name="n",
    )
    data = job(
        mpijob_networks=["sriov"],
        mpijob_slots=2,
        nccl_benchmark_collectives=["all_reduce", "all_gather"],
        nccl_benchmark_backend="cpu",
        mpijob_gpus=0,
        mpijob_name="n",
    )
    # Of two plays that start at once, only one may take the claim for its own.
    starts = [plan["objects"][0]["metadata"]["annotations"].pop("gpufabric.nccl/start") for plan in (text, data)]
    assert starts[0] != starts[1]
    assert text["objects"] == data["objects"] and text["settings"]["gpus"] == 0
    assert [point["name"] for point in text["points"]] == ["all_reduce", "all_gather"]


def test_a_job_that_is_submitted_has_a_name_and_an_owner_of_its_own(job):
    first, second = (job(gpufabric_owner="me@here", mpijob_slots=1) for _play in range(2))
    assert first["name"] != second["name"] and re.fullmatch(r"gpufabric-default-[a-z0-9]{5}", first["name"])
    annotations = [plan["objects"][-1]["metadata"]["annotations"] for plan in (first, second)]
    assert annotations[0] == annotations[1] and annotations[0]["gpufabric.nccl/owner"] == "me@here"
    # A manifest is the same whoever writes it.
    rendered = job(mpijob_state="rendered", mpijob_slots=1)
    assert rendered["name"] == "gpufabric-default" and "annotations" not in rendered["objects"][-1]["metadata"]


def test_a_job_that_goes_on_is_followed_by_its_own_name(job):
    settings = {"gpufabric_owner": "me@here", "mpijob_slots": 1}
    there = job(**settings)
    again = job({"found": [there["objects"][-1]]}, **settings)
    assert again["followed"] == again["name"] == there["name"] and again["objects"][-1] == there["objects"][-1]
    other = job({"found": [there["objects"][-1]]}, **settings, mpijob_replicas=7)
    assert other["followed"] == "" and other["name"] != there["name"]


def test_a_manifest_is_text_that_kubectl_takes(job):
    plan = job(mpijob_state="rendered", mpijob_slots=1)
    assert list(yaml.safe_load_all(plan["manifest"])) == [plan["policy"], *plan["objects"]]
    open_to_all = job(mpijob_state="rendered", mpijob_slots=1, mpijob_network_policy="false")
    assert list(yaml.safe_load_all(open_to_all["manifest"])) == open_to_all["objects"]
    # Programs are readable, and nothing is an alias.
    assert "|" in plan["manifest"] and "&id" not in plan["manifest"]


def test_a_manifest_has_numbers_of_any_type_of_ansible(job):
    class Number(int):
        """As ansible-core 2.19 reads the values of -e."""

    spec = {"volumes": [{"name": "v", "configMap": {"name": "c", "defaultMode": Number(0o755), "optional": True}}]}
    documents = list(yaml.safe_load_all(job(mpijob_pod_spec=spec)["manifest"]))
    template = documents[-1]["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    assert spec["volumes"][0] in template["spec"]["volumes"]


def test_the_owner_is_the_user_and_the_host_unless_it_is_given(pods):
    def owner(**variables):
        return pods(**variables)["objects"][-1]["metadata"]["annotations"]["gpufabric.nccl/owner"]

    assert owner().endswith(f"@{socket.gethostname()}")
    assert owner(gpufabric_owner="ci") == "ci"
    result = pods(gpufabric_owner="a\nb")
    assert result["failed"] and result["msg"].startswith("gpufabric_owner: ")


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"nccl_benchmark_sweep": {"repeats": 2}},
            "nccl_benchmark_sweep: an MPIJob that is submitted or rendered runs",
        ),
        ({"nccl_benchmark_rank_times": "barriers"}, "nccl_benchmark_rank_times: 'barriers' has no effect on an MPIJob"),
        (
            {"nccl_benchmark_silence_timeout": "60"},
            "nccl_benchmark_silence_timeout: 60 has no effect on an MPIJob that is submitted or rendered; set nccl_benchmark_timeout, ",
        ),
        (
            {"nccl_benchmark_startup_timeout": 30},
            "nccl_benchmark_startup_timeout: 30 has no effect on an MPIJob that is submitted or rendered; set nccl_benchmark_timeout, ",
        ),
        (
            {"gpufabric_data_subnet": "192.168.0.0/16"},
            "gpufabric_data_subnet: '192.168.0.0/16' has no effect on an MPIJob that is submitted or rendered; set"
            " gpufabric_data_interface, or NCCL_SOCKET_IFNAME in nccl_benchmark_env, ",
        ),
        (
            {"gpufabric_node_env": {"TOKEN": "hunter2"}},
            "gpufabric_node_env: (not shown) has no effect on an MPIJob that is submitted or rendered; set nccl_benchmark_env",
        ),
        ({"gpufabric_node_env": "TOKEN=hunter2"}, "gpufabric_node_env: (not shown) has no effect on an MPIJob"),
        ({"gpufabric_environment": "TOKEN=hunter2"}, "gpufabric_environment: (not shown) is not allowed; allowed: a "),
        ({"gpufabric_environment": {"A": ["hunter2"]}}, "gpufabric_environment.A: (not shown) is not allowed; "),
        ({"gpufabric_environment": {"NCCL_IB_DISABLE": True}}, "gpufabric_environment.NCCL_IB_DISABLE: True is not "),
        ({"gpufabric_environment": {"A B": "hunter2"}}, "gpufabric_environment: {'A B': (not shown)} is not allowed; "),
        ({"mpijob_replicas": "-1"}, "mpijob_replicas: -1 is not allowed; allowed: "),
        ({"nccl_benchmark_iterations": "0"}, "nccl_benchmark_iterations: 0 is not allowed; allowed: 1 or more"),
        ({"mpijob_worker_mode": "bash"}, "mpijob_worker_mode: 'bash' is not allowed; allowed: script, "),
    ],
)
def test_a_wrong_variable_of_a_job_is_one_line_that_names_it(job, variables, message):
    result = job(**variables)
    assert result["failed"] and result["msg"].startswith(message) and "\n" not in result["msg"]


def test_what_says_no_more_than_the_default_is_allowed_for_a_job(job):
    said = {
        "gpufabric_data_subnet": "",
        "gpufabric_node_env": {},
        "nccl_benchmark_rank_times": "iterations",
        # It waits for all of nccl_benchmark_timeout.
        "nccl_benchmark_silence_timeout": 0,
        "nccl_benchmark_startup_timeout": 120,
        "nccl_benchmark_transport": True,
    }
    assert not job(nccl_benchmark_cycles=2, **said).get("failed")
    assert not job(nccl_benchmark_silence_timeout=300, gpufabric_environment="").get("failed")


def test_the_environment_of_all_programs_is_in_the_pods_of_a_job_and_shown_to_nobody(job):
    plan = job(gpufabric_environment={"NCCL_NET": "Socket", "TOKEN": "hunter2"}, mpijob_state="rendered")
    replicas = plan["objects"][-1]["spec"]["mpiReplicaSpecs"]
    for replica in replicas.values():
        variables = {item["name"]: item.get("value") for item in replica["template"]["spec"]["containers"][0]["env"]}
        assert (variables["NCCL_NET"], variables["TOKEN"]) == ("Socket", "hunter2")
    assert plan["_ansible_no_log"]


def test_nodes_get_and_lose_marks(planned, configured, monkeypatch):
    configured()
    pods = [{"metadata": {"name": name}, "spec": {"nodeName": f"n-{name}"}} for name in ("p-0", "p-1")]
    taints = [{"key": "k", "value": "bad", "effect": "NoExecute"}]
    nodes = [
        {"metadata": {"name": "n-p-0"}},
        {"metadata": {"name": "n-p-1", "labels": {"k": "bad"}}, "spec": {"taints": taints}},
    ]
    search = {"document": {"nodes": [{"node": "p-0", "verdict": "bad"}, {"node": "p-1", "verdict": "good"}]}}
    answers = {"Pod": {"resources": pods}, "Node": {"resources": nodes}}
    calls = []

    def execute(_self, module_name, module_args, **_call):
        if module_name.endswith("k8s_info"):
            return answers[module_args["kind"]]
        calls.append({"module": module_name.rsplit(".", 1)[1], **module_args})
        return {"changed": True}

    monkeypatch.setattr(MarkNodes, "_execute_module", execute)
    own = {"isolate_mark_key": "k", "isolate_mark_effect": "NoSchedule"}
    result = planned(MarkNodes, "isolate", {"search": search}, isolate_mark="taint", **own)
    assert (result["present"], result["absent"], result["changed"]) == (["n-p-0"], ["n-p-1"], True)
    taint = {"key": "k", "value": "bad"}
    assert calls == [
        {"module": "k8s_taint", "name": "n-p-0", "state": "present", "taints": [{**taint, "effect": "NoSchedule"}]},
        # An earlier search may have set another effect.
        {"module": "k8s_taint", "name": "n-p-1", "state": "absent", "taints": [taint]},
    ]
    calls.clear()
    assert planned(MarkNodes, "isolate", {"search": search}, isolate_mark="label", **own)["changed"]
    assert [(call["name"], call["definition"]["metadata"]["labels"]) for call in calls] == [
        ("n-p-0", {"k": "bad"}),
        ("n-p-1", {"k": None}),
    ]
    answers["Node"] = {
        "failed": True,
        "msg": 'nodes is forbidden: User "u" cannot list resource "nodes" at the cluster scope',
    }
    refused = planned(MarkNodes, "isolate", {"search": search}, isolate_mark="label", **own)
    assert [entry["id"] for entry in failure_details(refused)["problems"]] == ["kube-forbidden"]


def test_addresses_of_pods_are_asked_for_and_not_missed(planned, monkeypatch):
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {}, "status": {"podIP": "10.0.0.1"}}
    for answer, addresses in (({"resources": [pod]}, {"p": "10.0.0.1"}), ({"failed": True, "msg": AWAY}, {})):
        monkeypatch.setattr(PodAddresses, "_execute_module", lambda _self, answer=answer, **_call: answer)
        assert planned(PodAddresses, "mpijob", {})["addresses"] == addresses
