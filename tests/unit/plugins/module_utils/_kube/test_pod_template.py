# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib

import pytest
import yaml
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.mpijob import plan_job
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.pod_template import merged
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.pods import plan_pods

ROOT = pathlib.Path(__file__).parents[5]
ROLES = ROOT / "roles"
UNSET = ("slots", "run_as_user", "run_as_group", "ssh_port", "ttl", "control_interface", "data_interface", "mpi_prefix")


def defaults_of(role):
    values = yaml.safe_load((ROLES / role / "defaults/main.yml").read_text())
    # Templates are all of numbers.
    own = {
        name[len(role) + 1 :]: 300 if "{{" in str(value) else value
        for name, value in values.items()
        if name.startswith(role)
    }
    return {**dict.fromkeys(UNSET), **own, "namespace": "gpu", "image": "worker", "owner": "me@here"}


def of_stateful_set(**changes):
    objects = plan_pods("nightly", {**defaults_of("worker_pods"), **changes}, "init")["objects"]
    return objects[-1]["spec"]["template"]


def of_job(**changes):
    benchmark = {name[len("nccl_benchmark_") :]: value for name, value in _benchmark_defaults().items()}
    settings = {**defaults_of("mpijob"), "environment": {}, "benchmark": {**benchmark, "dir": None}, **changes}
    job = plan_job("nightly", settings, {"mpijob-pod": "", "cpu_perf.py": ""})["objects"][1]
    return job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]


def _benchmark_defaults():
    values = yaml.safe_load((ROLES / "mpijob/defaults/main.yml").read_text())
    return {name: value for name, value in values.items() if name.startswith("nccl_benchmark_")}


@pytest.mark.parametrize("template", [of_stateful_set, of_job])
class TestBothKinds:
    """What holds for the pods of a StatefulSet and of an MPIJob alike."""

    def test_a_volume_more_leaves_those_of_our_own(self, template):
        spec = template(pod_spec={"volumes": [{"name": "data", "emptyDir": {}}]})["spec"]
        assert {"shm", "data"} <= {volume["name"] for volume in spec["volumes"]}
        mounted = {mount["name"] for mount in spec["containers"][0]["volumeMounts"]}
        assert mounted <= {volume["name"] for volume in spec["volumes"]}

    @pytest.mark.parametrize(
        ("theirs", "expected"),
        [
            ({}, False),
            ({"allowPrivilegeEscalation": True}, True),
            # Kubernetes refuses both together.
            ({"privileged": True}, None),
            ({"capabilities": {"add": ["CAP_SYS_ADMIN"]}}, None),
            ({"capabilities": {"add": ["CAP_SYS_ADMIN"]}, "allowPrivilegeEscalation": True}, True),
        ],
    )
    def test_privileges_do_not_escalate_unless_asked_for(self, template, theirs, expected):
        (container,) = template(pod_spec={"containers": [{"name": "worker", "securityContext": theirs}]})["spec"][
            "containers"
        ]
        assert container["securityContext"].get("allowPrivilegeEscalation") is expected
        assert theirs.items() <= container["securityContext"].items()

    def test_a_volume_of_our_name_takes_its_place(self, template):
        own = {"name": "shm", "hostPath": {"path": "/dev/shm"}}
        volumes = template(pod_spec={"volumes": [own]})["spec"]["volumes"]
        assert [volume for volume in volumes if volume["name"] == "shm"] == [own]

    def test_a_variable_may_come_from_a_secret(self, template):
        reference = {"valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}
        found = template(env={"TOKEN": reference, "A": 1})["spec"]["containers"][0]["env"]
        assert {"name": "TOKEN", **reference} in found and {"name": "A", "value": "1"} in found

    def test_our_container_gets_more_and_others_stand_beside_it(self, template):
        mine = template()["spec"]["containers"][0]
        more = [{"name": mine["name"], "volumeMounts": [{"name": "data", "mountPath": "/data"}]}, {"name": "sidecar"}]
        ours, other = template(pod_spec={"containers": more})["spec"]["containers"]
        assert other == {"name": "sidecar"} and ours["image"] == mine["image"]
        assert ours["volumeMounts"] == [*mine["volumeMounts"], {"name": "data", "mountPath": "/data"}]

    def test_placing_is_merged_too(self, template):
        affinity = {"nodeAffinity": {"x": 1}}
        spec = template(node_selector={"gpu": "h200"}, pod_spec={"nodeSelector": {"zone": "a"}, "affinity": affinity})[
            "spec"
        ]
        assert spec["nodeSelector"] == {"gpu": "h200", "zone": "a"} and spec["affinity"] == affinity

    def test_variables_come_as_they_were_given(self, template):
        env = {item["name"]: item.get("value") for item in template(env={"A": "$(B)"})["spec"]["containers"][0]["env"]}
        assert env["A"] == "$$(B)"

    @pytest.mark.parametrize(
        ("changes", "named"),
        [
            ({"capabilities": ["ipc lock"]}, "capabilities: 'ipc lock'"),
            ({"run_as_user": -1}, "run_as_user: -1"),
            ({"labels": {"gpufabric.nccl/run": "x"}}, "labels: 'gpufabric.nccl/run'"),
            ({"shm_size": "much"}, "shm_size: 'much'"),
            ({"shm_size": "16ki"}, "shm_size: '16ki'"),
            ({"replicas": 10_001}, "replicas: 10001 .* at most 10000"),
            ({"run_as_group": 1 << 31}, "run_as_group: 2147483648 .* 0 to 2147483647"),
            ({"node_selector": {"gpu": True}}, r"node_selector\[gpu\]: True .* a text, in quotes"),
            ({"labels": {"team": 5}}, r"labels\[team\]: 5 "),
            ({"annotations": {"note": None}}, r"annotations\[note\]: None "),
            ({"env": {"A B": "x"}}, "env: 'A B' "),
            ({"image": " "}, "image: ' '"),
            ({"affinity": {(1, 2): 1}}, r"affinity: \(not shown\) .* what JSON can hold"),
            ({"env": {"A": 10**5000}}, "env: "),
            ({"resources": {"cpu": 10**5000}}, "resources: "),
        ],
    )
    def test_wrong_settings_are_named(self, template, changes, named):
        with pytest.raises(OptionError, match=named):
            template(**changes)


@pytest.mark.parametrize("template", [of_stateful_set, of_job])
def test_keys_may_be_what_yaml_makes_of_texts(template):
    spec = template(node_selector={"a": "b"}, pod_spec={"nodeSelector": {True: "x", 2: "y"}})["spec"]
    assert spec["nodeSelector"] == {"a": "b", True: "x", 2: "y"}


@pytest.mark.parametrize("size", ["65536Ki", "16Gi", "1.5G", "500m", "1e9", "8"])
def test_quantities_are_those_of_kubernetes(size):
    (volume,) = of_stateful_set(shm_size=size, resources={"memory": size})["spec"]["volumes"]
    assert volume["emptyDir"]["sizeLimit"] == size


def test_items_without_a_name_come_one_after_the_other():
    assert merged([1, {"a": 1}], [{"a": 1}, 2]) == [1, {"a": 1}, {"a": 1}, 2]
    assert merged({"a": {"b": 1}, "c": 2}, {"a": {"d": 3}, "c": None}) == {"a": {"b": 1, "d": 3}, "c": None}


@pytest.mark.parametrize("user", [0, 1000])
def test_the_scc_for_openshift_allows_what_pods_ask_for(user):
    scc = yaml.safe_load((ROOT / "docs/examples/kubernetes/openshift-scc.yml").read_text())
    context = of_stateful_set(run_as_user=user, capabilities=["IPC_LOCK"])["spec"]["containers"][0]["securityContext"]
    assert set(context["capabilities"]["add"]) <= set(scc["allowedCapabilities"])
    # As OpenShift calls the profile (apiserver-library-go, pkg/securitycontextconstraints/seccomp/strategy.go).
    asked = {"RuntimeDefault": "runtime/default"}.get(context.get("seccompProfile", {}).get("type"))
    assert asked is None or asked in scc.get("seccompProfiles", [])
