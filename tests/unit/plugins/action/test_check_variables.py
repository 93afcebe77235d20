# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib
import re
import types

import pytest
import yaml
from ansible_collections.gpufabric.nccl.plugins.action import check_variables
from ansible_collections.gpufabric.nccl.plugins.action.check_variables import (
    OF_PLAYBOOKS,
    ONLY_EXTRA,
    OWN,
    ActionModule,
    check_facts,
    check_group,
    check_ignored,
    check_limit,
    check_names,
    check_results,
    check_slices,
    check_together,
    misspelled,
    option_names,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, OptionError

try:
    from ansible.template import trust_as_template
except ImportError:
    # Before ansible-core 2.19 all texts are.
    trust_as_template = str

PLAYBOOKS = pathlib.Path(__file__).parents[4] / "playbooks"
ROLE_FOLDERS = PLAYBOOKS.parent / "roles"

ROLES = ("nccl_benchmark", "key_exchange", "preflight", "report")


@pytest.fixture
def check(planned):
    def run(roles=ROLES, own_run=None, **variables):
        arguments = {"roles": list(roles), **({"own_run": own_run} if own_run else {})}
        return planned(ActionModule, "key_exchange", arguments, **variables)

    return run


def test_variables_of_all_roles_may_be_text(check):
    text = {
        "nccl_benchmark_collectives": "all_reduce,alltoall",
        "key_exchange_port": "2200",
        "preflight_expect": '{"gpus": 8}',
        "report_formats": "json\nhtml",
        "gpufabric_hosts": ["g1"],
    }
    assert check(**text) == {"changed": False}


@pytest.mark.parametrize("group", ["", " ", "gpu workers", "!workers", "a:&b", "a,b", "workers\n"])
def test_a_group_that_plays_would_not_find_is_refused(group):
    with pytest.raises(OptionError, match="worker_pods_group: .* is not allowed; allowed: the name of a group"):
        check_group("worker_pods_group", group, "ansible_kubectl_pod", [], {})


def test_others_in_the_group_of_the_pods_are_refused():
    pod = {"ansible_kubectl_pod": "a-0"}
    check_group("worker_pods_group", "workers", "ansible_kubectl_pod", ["a-0"], {"a-0": pod})
    with pytest.raises(OptionError) as error:
        check_group(
            "worker_pods_group",
            "workers",
            "ansible_kubectl_pod",
            ["a-0", "gpu-1", "gpu-2"],
            {"a-0": pod, "gpu-1": {}, "gpu-2": {}},
        )
    assert str(error.value) == (
        "worker_pods_group: 'workers' is not allowed;"
        " allowed: another group, since the inventory has gpu-1, gpu-2 in this one"
    )


@pytest.mark.parametrize("limit", ["localhost", "localhost,gpu-1", "gpu-1:!gpu-2"])
def test_a_limit_to_hosts_that_are_there_leaves_out_the_pods(planned, limit):
    with pytest.raises(
        OptionError, match=f"^--limit: '{limit}' is not allowed; allowed: no --limit, or '{limit}:workers'"
    ):
        check_limit(limit, "workers", ["gpu-1", "gpu-2"])
    arguments = {"group": {"name": "worker_pods_group", "mark": "ansible_kubectl_pod"}}
    inventory = {"groups": {"all": ["gpu-1", "gpu-2"]}, "hostvars": RawVariables({"gpu-1": {}, "gpu-2": {}})}
    more = {**inventory, "worker_pods_group": "workers"}
    result = planned(ActionModule, "worker_pods", arguments, ansible_limit=limit, **more)
    assert result["failed"] and result["msg"].startswith("--limit: ")
    assert not planned(ActionModule, "worker_pods", arguments, **more).get("failed")


@pytest.mark.parametrize(
    "limit", ["localhost:workers", "all:!gpu-1", "!gpu-1", "localhost,gpufabric-*", "localhost:gpufabric-a-0", "@hosts"]
)
def test_a_limit_that_may_have_the_pods_in_it(limit):
    check_limit(limit, "workers", ["gpu-1", "gpu-2"])


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"key_exchange_port": "ssh"}, "key_exchange_port: 'ssh' is not allowed; allowed: a whole number"),
        ({"preflight_level": "deep"}, "preflight_level: 'deep' is not allowed; allowed: none, quick, full"),
        ({"report_formats": "json,pdf"}, "report_formats: 'pdf' is not allowed; allowed: json, csv, "),
        ({"gpufabric_hosts": "g1,g2"}, "gpufabric_hosts: 'g1,g2' is not allowed; allowed: a list; on the command line in JSON: -e"),
        ({"gpufabric_node_env": "A=1"}, "gpufabric_node_env: (not shown) is not allowed; allowed: a dictionary; on the command line"),
        ({"roles": ["keyexchange"]}, "roles: 'keyexchange' is not allowed; allowed: isolate, key_exchange, "),
    ],
)  # fmt: skip
def test_a_wrong_variable_is_one_line_that_names_it(check, variables, message):
    result = check(**variables)
    assert result["failed"] and result["msg"].startswith(message) and "\n" not in result["msg"]


def test_a_variable_whose_value_names_what_is_not_known_is_named(check, playbook):
    unknown = trust_as_template("{% if nosuch %}{% endif %}")
    result = check(gpufabric_data_interface=unknown)
    assert result["failed"] and result["msg"].startswith("gpufabric_data_interface: its value cannot be determined: ")
    assert "'nosuch' is undefined" in result["msg"] and "\n" not in result["msg"]
    # With -e, what it names may be known later, or on workers alone.
    assert playbook("gpufabric_data_interface", unknown) == {"changed": False}


def test_a_variable_that_the_inventory_sets_in_vain_is_named():
    variables = {"g1": {}, "g2": {"gpufabric_target": "gpus"}}
    with pytest.raises(
        OptionError, match=r"^gpufabric_target: 'gpus' is not allowed; .* \(here for g2\) it has no effect"
    ):
        check_ignored({}, variables, variables)
    check_ignored({"gpufabric_target": "all"}, variables, variables)
    check_ignored({}, ["g1"], variables)


class RawVariables(dict):
    """Variables by host, as ``hostvars`` holds them, none of which is to be rendered: that of all facts of a fleet takes minutes."""

    raw_get = dict.get
    __getitem__ = None


@pytest.mark.parametrize(
    "name",
    [
        "gpufabric_environment",
        "report_dir",
        "gpufabric_target",
        "gpufabric_claim",
        "_report_folder",
        "mpijob_hostfile_hosts",
    ],
)
@pytest.mark.parametrize("arguments", [{"playbook": True}, {}])
def test_a_host_does_not_set_variables_by_its_facts(planned, monkeypatch, name, arguments):
    """Ansible takes them before those of the inventory, and what is set so may run on the controller.

    Where only leftovers are removed, too: a play goes on to that when the first check has stopped a job.
    """
    monkeypatch.setattr(check_variables, "load_extra_vars", lambda loader: {})
    monkeypatch.setattr("ansible.playbook.task.Task.get_play", lambda task: types.SimpleNamespace(get_vars=dict))
    # The name of an interface has an "ansible_" before it, which is left out in ansible_facts alone.
    for of_host, refused in (({"ansible_facts": {name: 1}}, False), ({"ansible_facts": {name: 1}, name: 1}, True)):
        variables = RawVariables({"g1": {"ansible_facts": {}}, "g2": of_host})
        inventory = {"groups": {"all": ["g1", "g2"]}, "hostvars": variables}
        result = planned(ActionModule, "key_exchange", dict(arguments), **inventory)
        assert result.get("msg", "").startswith(f"{name}: it is among the facts of g2, which ") is refused, result


def test_a_pod_does_not_set_by_its_facts_how_the_controller_calls_kubectl():
    """Ansible removes such facts of its own connections alone."""
    # A fact of a user's own has no "ansible_" before it.
    facts = {"kube_ipvs0": 1, "kubectl_version": "1.30"}
    check_facts({"w-0": {"ansible_facts": facts, "ansible_kubectl_pod": "w-0", "kubectl_version": "1.30"}}, ())
    with pytest.raises(GpufabricError, match=r"^kubectl_extra_args: it is among the facts of w-0, which "):
        check_facts(
            {"w-0": {"ansible_facts": {"kubectl_extra_args": "--v=9"}, "ansible_kubectl_extra_args": "--v=9"}}, ()
        )


OPTIONS = {
    name
    for path in ROLE_FOLDERS.glob("*/meta/argument_specs.yml")
    for name in option_names(path.read_text(encoding="utf-8"))
}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("report_threshold", "report_thresholds"),
        ("nccl_benchmark_max_byte", "nccl_benchmark_max_bytes"),
        ("preflight_expected", "preflight_expect"),
        ("worker_pods_gpu", "worker_pods_gpus"),
        ("gpufabric_run_ids", "gpufabric_run_id"),
        ("compare_befor", "compare_before"),
    ],
)
def test_a_name_that_is_nearly_that_of_a_variable_is_refused(planned, monkeypatch, name, meant):
    message = f"{name}: gpufabric.nccl has no such variable, so that it would have no effect; set {meant}, or rename"
    monkeypatch.setattr(check_variables, "load_extra_vars", lambda loader: {})
    monkeypatch.setattr("ansible.playbook.task.Task.get_play", lambda task: types.SimpleNamespace(get_vars=dict))
    variables = RawVariables({"g1": {"ansible_host": "x"}, "g2": {name: 1}})
    inventory = {"groups": {"all": ["g1", "g2"]}, "hostvars": variables}
    result = planned(ActionModule, "key_exchange", {"playbook": True}, **inventory)
    assert result["failed"] and result["msg"].startswith(message)
    monkeypatch.setattr(check_variables, "load_extra_vars", lambda loader: {name: 1})
    result = planned(ActionModule, "key_exchange", {"playbook": True}, groups={"all": []}, hostvars={})
    assert result["failed"] and result["msg"].startswith(message)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("gpufabrik_run_id", "gpufabric_run_id"),
        ("nccl_benchmrk_max_bytes", "nccl_benchmark_max_bytes"),
        ("preflgiht_expect", "preflight_expect"),
        ("wworker_pods_gpus", "worker_pods_gpus"),
        ("rport_thresholds", "report_thresholds"),
        ("report-thresholds", "report_thresholds"),
    ],
)
def test_a_name_whose_prefix_is_nearly_ours_is_a_warning(planned, monkeypatch, name, meant):
    message = (
        f"{name}: gpufabric.nccl has no such variable, so that it has no effect there; set {meant} if that is meant"
    )
    monkeypatch.setattr(check_variables, "load_extra_vars", lambda loader: {name: 1})
    monkeypatch.setattr("ansible.playbook.task.Task.get_play", lambda task: types.SimpleNamespace(get_vars=dict))
    result = planned(ActionModule, "key_exchange", {"playbook": True}, groups={"all": []}, hostvars={})
    assert result == {"changed": False, "warnings": [message]}


def test_a_name_of_the_command_line_that_begins_like_ours_is_a_warning(planned, monkeypatch):
    given = {"gpufabric_ssh_port": 2222, "key_exchange_port": 2222, "gpufabric_target": "all", "port": 1}
    monkeypatch.setattr(check_variables, "load_extra_vars", lambda loader: given)
    monkeypatch.setattr("ansible.playbook.task.Task.get_play", lambda task: types.SimpleNamespace(get_vars=dict))
    result = planned(ActionModule, "key_exchange", {"playbook": True}, groups={"all": []}, hostvars={})
    message = "gpufabric_ssh_port: gpufabric.nccl has no such variable, so that it has no effect"
    assert result == {"changed": False, "warnings": [message]}


def test_names_of_other_projects_are_no_warning():
    names = [
        "nccl_version",
        "nccl_test_path",
        "fabric_run_id",
        "gpu_fabric_id",
        "ansible_host",
        "reporting",
        "run_id",
        "x",
        "",
    ]
    assert misspelled(names, OPTIONS) == []


@pytest.mark.parametrize("name", ["gpufabric_hosts", "key_exchange_hosts"])
def test_text_in_place_of_hosts_is_refused_wherever_it_is_set(planned, name):
    """In the text ``w10`` there is ``w1``, too."""
    expected = (
        f"{name}: 'w10' is not allowed; allowed: a list; on the command line in JSON: -e '{{\"{name}\": [\"w10\"]}}'"
    )
    assert planned(ActionModule, "key_exchange", {}, **{name: "w10"})["msg"] == expected
    for blank in ("", " ", None):
        told = planned(ActionModule, "key_exchange", {}, **{name: blank})["msg"]
        assert told == f"{name}: {blank!r} is not allowed; allowed: a value, or to leave the variable out"
    assert planned(ActionModule, "key_exchange", {}, **{name: ["w10"]}) == {"changed": False}


def test_names_that_others_may_have_are_none_of_ours():
    check_names(
        ["report_path", "report_title", "isolate_search", "nccl_benchmark_results", "ansible_host", "max_byte"], OPTIONS
    )
    page = (PLAYBOOKS.parent / "docs" / "playbooks.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)`", page, re.M)) <= {*OPTIONS, *OF_PLAYBOOKS}


def test_what_roles_and_playbooks_set_is_not_taken_for_a_slip():
    """A play checks the names that all hosts have, also those that a play before it has made."""
    files = [
        path
        for place in (PLAYBOOKS, ROLE_FOLDERS)
        for path in place.rglob("*.yml")
        if path.name != "argument_specs.yml"
    ]
    names = {
        name
        for path in files
        for name in re.findall(r"^ *(?:- )?(?:register: )?([a-z_]\w+)(?::|$)", path.read_text(), re.M)
    }
    assert {"isolate_marks", "nccl_benchmark_results", "key_exchange_sshd", "_compare_before"} <= names
    check_names(sorted(names), OPTIONS)
    assert misspelled(sorted(names), OPTIONS) == []


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"nccl_benchmark_iterations": "-1"}, "nccl_benchmark_iterations: -1 is not allowed; allowed: 1 or more"),
        ({"nccl_benchmark_collectives": "allreduce"}, "nccl_benchmark_collectives: 'allreduce' is not allowed"),
        ({"worker_pods_replicas": " "}, "worker_pods_replicas: ' ' is not allowed; allowed: a value, or to leave"),
        ({"key_exchange_hosts": "g1,g2"}, "key_exchange_hosts: 'g1,g2' is not allowed; allowed: a list"),
        ({"key_exchange_port": "70000"}, "key_exchange_port: 70000 is not allowed; allowed: 0 (the operating system"),
        ({"nccl_tests_timeout": "-5000"}, "nccl_tests_timeout: -5000 is not allowed; allowed: 1 to 86400"),
        ({"nccl_benchmark_iterations": "", "nccl_benchmark_max_bytes": "{{ of_a_worker }}", "other": "x"}, None),
    ],
)
def test_answers_are_checked_by_the_first_task_of_a_playbook(planned, monkeypatch, extra, message):
    monkeypatch.setattr(check_variables, "load_extra_vars", lambda loader: extra)
    monkeypatch.setattr(check_variables, "check_ignored", lambda *arguments: None)
    monkeypatch.setattr("ansible.playbook.task.Task.get_play", lambda task: types.SimpleNamespace(get_vars=dict))
    result = planned(ActionModule, "key_exchange", {"playbook": True}, groups={"all": []}, hostvars={}, **extra)
    assert result == {"changed": False} if message is None else result["msg"].startswith(message), result


def test_a_collection_that_is_missing_is_named_with_the_command_that_installs_it(planned):
    assert planned(ActionModule, "local_nodes", {"collections": ["gpufabric.nccl"]}) == {"changed": False}
    for name in ("gpufabric.nosuch", "nosuch.podman"):
        result = planned(ActionModule, "local_nodes", {"collections": [f"{name}:>=1.2"]})
        assert result["failed"] and result["msg"] == (
            f"the collection {name} is missing; type: ansible-galaxy collection install '{name}:>=1.2'"
        )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{bad}", "Expecting property name"),
        ("[1]", "it has no results"),
        ("7", "it has no results"),
        ("{}", "it has no results"),
        ('{"results": null}', "a list of result documents is needed, not NoneType"),
        ('{"results": "x"}', "a list of result documents is needed, not str"),
        ('{"results": [null]}', "an item is not of the schema gpufabric.nccl/result/v1"),
        ('{"results": [{}]}', "an item is not of the schema"),
        ("[" * 100000, "maximum recursion depth"),
        ("\udcff", "can't decode byte 0xff"),
        (None, "it is no file"),
    ],
)
def test_a_file_that_holds_no_results_is_named(planned, tmp_path, text, reason):
    path = tmp_path / "a.json"
    if text is not None:
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
    message = planned(ActionModule, "report", {"results": {"compare_before": [], "compare_after": [str(path)]}})["msg"]
    assert message.startswith(
        f"compare_after: '{path}' is not allowed; allowed: the paths of files results.json, as the role report writes them ("
    )
    assert reason in message and "\n" not in message


def test_a_file_with_results_is_allowed(tmp_path):
    (tmp_path / "a.json").write_text('{"results": []}')
    check_results("compare_before", str(tmp_path / "a.json"))


@pytest.mark.parametrize("prefix", ["awx", "tower"])
def test_a_slice_of_a_job_is_refused(prefix):
    names = (f"{prefix}_workflow_job_name", f"{prefix}_job_template_name")
    # As a job alone, one of a workflow, and one of a slice have them.
    check_slices({names[1]: "NCCL bare_metal"})
    check_slices(dict(zip(names, ("NCCL benchmark", "NCCL bare_metal"))))
    with pytest.raises(OptionError) as error:
        check_slices(dict(zip(names, ("NCCL bare_metal", "NCCL bare_metal"))))
    assert str(error.value).startswith(
        f"{prefix}_workflow_job_name: 'NCCL bare_metal' is not allowed; allowed: a job template without slices (Job Slicing 1)"
    )


def test_the_variables_of_the_headers_of_playbooks_are_checked_in_each():
    found = set()
    for path in sorted(PLAYBOOKS.glob("*.yml")):
        plays = yaml.safe_load(path.read_text())
        headers = [str(play.get(key, "")) for play in plays for key in ("hosts", "import_playbook")]
        files = re.findall(r"import_tasks: .*", path.read_text())
        names = set(re.findall(r"\b(?:gpufabric|local_nodes|mpijob|worker_pods)_\w+", "\n".join(headers + files)))
        found |= names - {"mpijob_worker"}
        # An imported playbook checks them.
        assert "import_playbook" in plays[0] or "import_tasks: tasks/begin.yml" in path.read_text() or not names, path
    checks = yaml.safe_load((PLAYBOOKS / "tasks" / "begin.yml").read_text())
    assert any(task.get("gpufabric.nccl.check_variables", {}).get("playbook") is True for task in checks)
    # The group of local nodes is the target of the playbook that it imports.
    # What teardown removes from the controller is asked for there, where variables of the workers are not known.
    assert found | {"local_nodes_group", "gpufabric_local_nodes", "gpufabric_mpijobs"} == set(ONLY_EXTRA)


@pytest.mark.parametrize("name", ["g{1}", "g1\x07", "\u2028"])
def test_a_name_of_a_host_that_cannot_be_shown_is_refused_before_anything_is_changed(name):
    check_together(["p5 node 1", "g1"], ["p5 node 1", "g1"], ["p5 node 1", "g1"], [], "linear")
    with pytest.raises(OptionError, match="gpufabric_hosts: .* printable characters without braces"):
        check_together(["g1", name], ["g1", name], ["g1", name], [], "linear")


@pytest.mark.parametrize(
    ("hosts", "batch", "serial", "strategy", "message"),
    [
        (["g1", "g2"], ["g1", "g2"], [], "linear", None),
        (["g1", "g2"], ["g1", "g2"], ["100%"], "debug", None),
        # A host that failed before has a message of its own.
        (["g1", "g2"], ["g1"], [], "ansible.builtin.linear", None),
        ([], ["g1"], [], "linear", "gpufabric_hosts: [] is not allowed"),
        (["g1", "gone"], ["g1"], [], "linear", "gpufabric_hosts: 'gone' is not allowed; allowed: hosts of the play"),
        (
            ["g1", "g2", "g1"],
            ["g1", "g2"],
            [],
            "linear",
            "gpufabric_hosts: 'g1' is not allowed; allowed: each host once",
        ),
        (["g1", "g2"], ["g1"], [1], "linear", "serial: 1 is not allowed"),
        (["g1", "g2"], ["g1"], [1, "50%"], "linear", "serial: [1, '50%'] is not allowed"),
        (["g1"], ["g1"], [], "free", "strategy: 'free' is not allowed"),
        (["g1"], ["g1"], [], "ansible.builtin.host_pinned", "strategy: 'ansible.builtin.host_pinned' is not allowed"),
    ],
)
def test_hosts_that_are_needed_together(hosts, batch, serial, strategy, message):
    if message is None:
        check_together(hosts, ["g1", "g2"], batch, serial, strategy)
        return
    with pytest.raises(OptionError) as failure:
        check_together(hosts, ["g1", "g2"], batch, serial, strategy)
    assert str(failure.value).startswith(message)


@pytest.mark.parametrize("steps", [(True,), (None, True), (True, None, None), (None,), ()])
def test_a_role_that_is_included_once_for_all_hosts_is_refused(planned, monkeypatch, steps):
    """Its tasks would run on the first host, and Ansible takes what they return for that of all: one machine under several names."""
    monkeypatch.setattr(check_variables, "load_extra_vars", lambda loader: {})
    monkeypatch.setattr(
        "ansible.playbook.task.Task.get_play",
        lambda task: types.SimpleNamespace(get_vars=dict, serial=[], strategy="linear"),
    )
    parent = None
    for step in steps:
        parent = types.SimpleNamespace(_get_parent_attribute={"run_once": step}.get, _parent=parent, get_vars=dict)
    included = property(lambda task: parent, lambda task, value: None)
    monkeypatch.setattr("ansible.playbook.task.Task._parent", included, raising=False)
    facts = {
        "hostvars": Hostvars(g1={}, g2={}),
        "inventory_hostname": "g1",
        "ansible_play_hosts_all": ["g1", "g2"],
        "ansible_play_batch": ["g1", "g2"],
    }
    result = planned(ActionModule, "key_exchange", {"hosts": ["g1", "g2"]}, **facts)
    if any(steps):
        assert result["failed"] and result["msg"] == (
            "run_once: True is not allowed; allowed: to include the role without it, since its tasks are for each host;"
            " what is for all they do once by themselves"
        )
    else:
        assert result == {"changed": False}


class Hostvars(dict):
    """The variables by host, as they are; and rendered, of which the tests have one template."""

    def __repr__(self):
        return "hostvars"

    def raw_get(self, host):
        return super().__getitem__(host)

    def __getitem__(self, host):
        rack = self.raw_get(host).get("rack")
        return {name: rack if value == "{{ rack }}" else value for name, value in self.raw_get(host).items()}


@pytest.fixture
def together(planned, monkeypatch):
    def run(extra=(), play=(), also="g1", told=(), roles=(), **variables):
        monkeypatch.setattr(check_variables, "load_extra_vars", lambda loader: dict(extra))
        keywords = types.SimpleNamespace(get_vars=lambda: dict(play), serial=[], strategy="linear")
        monkeypatch.setattr("ansible.playbook.task.Task.get_play", lambda task: keywords)
        hosts = list(variables)
        inventory = Hostvars({also: {}, **variables})
        facts = {
            "groups": {"all": list(inventory)},
            "hostvars": inventory,
            "inventory_hostname": also,
            "ansible_play_hosts_all": hosts,
            "ansible_play_batch": hosts,
        }
        # What a task is told is what its host has, if nothing takes precedence.
        return planned(
            ActionModule,
            "key_exchange",
            {"hosts": hosts, "roles": list(roles)},
            **{**inventory.raw_get(also), **facts, **dict(told)},
        )

    return run


@pytest.mark.parametrize(
    ("role", "name", "value"),
    [
        ("key_exchange", "key_exchange_connect_timeout", 0),
        ("key_exchange", "key_exchange_key_lifetime", -1),
        ("nccl_tests", "nccl_tests_jobs", 0),
        ("nccl_tests", "nccl_tests_spread_timeout", 90000),
    ],
)
def test_a_number_out_of_its_range_is_refused_by_the_name_of_its_variable(planned, role, name, value):
    told = planned(ActionModule, role, {"roles": [role]}, gpufabric_hosts=["g1"], **{name: value})
    assert told["msg"].startswith(f"{name}: {value} is not allowed; allowed: ")


@pytest.mark.parametrize(
    ("hosts", "given", "message"),
    [
        (
            ["g1"],
            {"nccl_benchmark_dedicated_launcher": "yes"},
            "nccl_benchmark_dedicated_launcher: True is not allowed; ",
        ),
        (["g1", "g2"], {"nccl_benchmark_launcher": "g3"}, "nccl_benchmark_launcher: 'g3' is not allowed; "),
        (["g1", "g2"], {"nccl_benchmark_dedicated_launcher": "yes", "nccl_benchmark_launcher": "g2"}, None),
        (["g1"], {"nccl_benchmark_dedicated_launcher": "no", "nccl_benchmark_launcher": ""}, None),
    ],
)
def test_a_launcher_that_has_nobody_to_start_is_refused_before_there_is_a_folder(together, hosts, given, message):
    result = together(told=given, roles=["nccl_benchmark"], **dict.fromkeys(hosts, given))
    assert result.get("msg", "").startswith(message) if message else result == {"changed": False}, result
    # A list of hosts may be that of another role.
    assert together(told=given, roles=["preflight"], **dict.fromkeys(hosts, given)) == {"changed": False}


@pytest.mark.parametrize("place", ["told", "g2"])
def test_a_variable_that_is_misspelled_in_a_play_of_the_users_own_is_refused(together, place):
    """A limit of a name that there is not would be none."""
    wrong = {"report_treshold": {"min_peak": 300}, "report_title": "mine"}
    told = together(**{"g1": {}, "g2": {}, place: wrong})
    assert told["msg"].startswith("report_treshold: gpufabric.nccl has no such variable,"), told
    assert "set report_thresholds" in told["msg"]


def test_a_variable_that_only_a_role_of_the_play_is_given_is_refused_if_it_is_misspelled(planned):
    told = planned(ActionModule, "report", {"roles": ["report"]}, report_treshold={"min_peak": 300})
    assert told["msg"].startswith("report_treshold: gpufabric.nccl has no such variable,"), told
    tasks = yaml.safe_load((ROLE_FOLDERS / "report" / "tasks" / "main.yml").read_text())
    assert tasks[0]["gpufabric.nccl.check_variables"] == {"roles": ["report"]}


RULES = {"rules": [{"metric": "busbw", "min": 300}]}


@pytest.mark.parametrize(
    ("first", "second", "third", "message"),
    [
        ({}, {"report_thresholds": RULES}, {}, f"report_thresholds: {RULES} is not allowed;"),
        ({}, {}, {"report_thresholds": {}}, "report_thresholds: {} is not allowed;"),
        ({"report_dir": "a"}, {"report_dir": "a"}, {}, "report_dir: 'a' is not allowed;"),
        (
            {"isolate_run_id": "a"},
            {"isolate_run_id": "b"},
            {"isolate_run_id": "a"},
            "isolate_run_id: 'b' is not allowed;",
        ),
        ({}, {"nccl_benchmark_env": {"A": "hunter2"}}, {}, "nccl_benchmark_env: (not shown) is not allowed;"),
        (
            {"report_dir": "{{ rack }}", "rack": "r1"},
            {"report_dir": "{{ rack }}", "rack": "r1"},
            {"report_dir": "{{ rack }}", "rack": "r2"},
            "report_dir: 'r2' is not allowed;",
        ),
    ],
)
def test_a_variable_of_the_whole_run_that_only_some_hosts_have_is_refused(together, first, second, third, message):
    """The tasks that run once take it from the first host: a limit of bandwidth that the second one has would hold nothing."""
    told = together(g1=first, g2=second, g3=third)
    assert told["failed"] and told["msg"].startswith(message) and "\n" not in told["msg"]
    assert "hunter2" not in told["msg"]
    # Whatever takes precedence over the inventory is the same for all.
    name = message.partition(":")[0]
    assert together({name: "x"}, g1=first, g2=second, g3=third) == {"changed": False}
    assert together({}, {name: "x"}, g1=first, g2=second, g3=third) == {"changed": False}


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"preflight_expect": {"gpu": 8}},
            "preflight_expect.gpu: 8 is not allowed; allowed: one of the keys gpus, shm_bytes, ",
        ),
        (
            {"preflight_expect": {"gpus": "many"}},
            "preflight_expect.gpus: 'many' is not allowed; allowed: a whole number",
        ),
        (
            {"preflight_expect": {"clock_skew": -1}},
            "preflight_expect.clock_skew: -1.0 is not allowed; allowed: 0 or more",
        ),
        (
            {"preflight_timeout": 0},
            "preflight_timeout: 0.0 is not allowed; allowed: more than 0 and at most 60 seconds",
        ),
        ({"preflight_env": {"NCCL_X": True}}, "preflight_env.NCCL_X: True is not allowed; allowed: a text or a number"),
        (
            {"preflight_env": {"NCCL_X": ["hunter2"]}},
            "preflight_env.NCCL_X: (not shown) is not allowed; allowed: a text or",
        ),
        (
            {"report_thresholds": {"rule": []}},
            "report_thresholds.rule: [] is not allowed; allowed: one of the keys rules, ",
        ),
    ],
)
def test_what_a_launch_check_cannot_use_is_refused_before_there_is_a_run(check, variables, message):
    """The module on the launcher refuses it in names of its own, when all workers have a run already."""
    result = check(**variables)
    assert result["failed"] and result["msg"].startswith(message) and "\n" not in result["msg"]
    assert check(preflight_expect={"gpus": "8", "clock_skew": None}, preflight_env={"A": 1, "B": None}) == {
        "changed": False
    }


def test_the_hosts_that_have_a_variable_differently_are_named(together):
    variables = {"g1": {}, "g2": {"nccl_benchmark_iterations": 5}}
    expected = (
        "nccl_benchmark_iterations: 5 is not allowed; allowed: the same value for all hosts of the play, since it is for the whole run;"
        " it is for g2, and g1 has none"
    )
    assert together(**variables)["msg"] == expected
    variables = {"g1": {"nccl_benchmark_iterations": 5}, "g2": {}}
    assert together(**variables)["msg"] == expected.replace("for g2, and g1", "for g1, and g2")
    # The host that tasks run on once may be no worker.
    variables = {"g2": {"nccl_benchmark_iterations": 5}, "g3": {"nccl_benchmark_iterations": 5}}
    assert together(**variables)["msg"] == expected
    variables = {"g1": {"nccl_benchmark_iterations": 4}, "g2": {"nccl_benchmark_iterations": 5}}
    assert together(**variables)["msg"] == expected.replace("has none", "has another")


@pytest.mark.parametrize("name", [*OWN, "gpufabric_peers", "worker_pods_timeout", "ansible_host", "iterations"])
def test_what_each_host_may_have_of_its_own(together, name):
    switches = ("key_exchange_own", "key_exchange_user_config")
    one, other = ({"Ciphers": "a"}, {}) if name.endswith("options") else ("1", "0" if name in switches else "2")
    assert together(g1={}, g2={name: one}, g3={name: other}) == {"changed": False}


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("key_exchange_port", "ssh", "a whole number"),
        ("key_exchange_port", 70000, "0 (the operating system chooses), or 1 to 65535"),
        ("key_exchange_user_config", "maybe", "true or false"),
        ("key_exchange_sshd_options", ["a"], "a dictionary; as text NAME=VALUE with commas, with lines, or in JSON"),
        ("nccl_tests_jobs", [4], "a whole number"),
        ("preflight_task_timeout", "1 m", "a whole number"),
    ],
)
def test_what_one_host_has_of_its_own_is_checked_before_another_begins(together, name, value, allowed):
    told = together(g1={}, g2={name: value})
    assert told["failed"] and told["msg"] == f"{name}: {value!r} is not allowed; allowed: {allowed}"
    assert together(g1={}, g2={name: "{{ rack }}"}) == {"changed": False}
    assert together({name: 1}, g1={}, g2={name: value}) == {"changed": False}


def test_templates_that_are_the_same_for_all_hosts(together):
    alike = {
        "report_dir": "{{ lookup('pipe', 'date') }}",
        "nccl_benchmark_env": {"A": "{{ other }}"},
        "other": "{{ last }}",
    }
    assert together(g1={**alike, "rack": 1}, g2={**alike, "rack": 2}) == {"changed": False}
    # What it names may be known later.
    later = {"report_dir": "{{ rack }}"}
    assert together(g1=later, g2={**later, "rack": None}) == {"changed": False}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # Inventories in INI have texts for groups, and numbers for hosts.
        ({"nccl_benchmark_iterations": 20}, {"nccl_benchmark_iterations": "20"}),
        ({"nccl_benchmark_check": True}, {"nccl_benchmark_check": "yes"}),
        ({"nccl_benchmark_collectives": "all_reduce,alltoall"}, {"nccl_benchmark_collectives": ["all_reduce", "alltoall"]}),
        ({"nccl_benchmark_env": {"A": "b"}}, {"nccl_benchmark_env": "A=b"}),
        ({"isolate_run_id": 7}, {"isolate_run_id": "7"}),
        ({"report_dir": "{{ rack }}", "rack": "r1"}, {"report_dir": "r1"}),
        ({"nccl_benchmark_iterations": "{{ rack }}", "rack": 5}, {"nccl_benchmark_iterations": "5"}),
    ],
)  # fmt: skip
def test_what_is_the_same_for_all_hosts_may_be_written_in_several_ways(together, first, second):
    assert together(g1=first, g2=second) == {"changed": False}
    assert together(g1=second, g2=first) == {"changed": False}


def test_what_the_files_of_a_play_set_is_the_same_for_all_hosts(together):
    hosts = {"g1": {"report_dir": "a"}, "g2": {"report_dir": "b"}}
    assert together(**hosts)["msg"].startswith("report_dir: 'b' is not allowed;")
    assert together(told={"report_dir": "c"}, **hosts) == {"changed": False}


def test_the_variables_of_single_hosts_exist():
    assert {*OWN} <= {*OPTIONS, *OF_PLAYBOOKS}


def test_no_other_variable_names_the_run_of_a_playbook(check):
    own = {"name": "diagnose_run_id", "value": "diagnose"}
    assert check(roles=[], own_run=own, gpufabric_run_id="diagnose") == {"changed": False}
    result = check(roles=[], own_run=own, gpufabric_run_id="nightly")
    assert result["failed"] and result["msg"] == (
        "gpufabric_run_id: 'nightly' is not allowed; allowed: to leave it out here, since diagnose_run_id (diagnose) names the run"
    )


@pytest.mark.parametrize("run_id", ["a b", "../x", "", ".x", "a" * 64, "a\nb"])
def test_what_names_no_run_is_refused_before_any_host_does(check, run_id):
    """A search would call all hosts unreachable, and end well."""
    allowed = "is not allowed; allowed: 1 to 63 letters, digits, dots, underscores and dashes, beginning with a letter or digit"
    own = {"name": "isolate_run_id", "value": run_id}
    assert check(roles=[], own_run=own, gpufabric_run_id=run_id)["msg"] == f"isolate_run_id: {run_id!r} {allowed}"
    assert check(roles=[], gpufabric_run_id=run_id)["msg"] == f"gpufabric_run_id: {run_id!r} {allowed}"
    assert check(roles=[], gpufabric_run_id=7) == {"changed": False}


@pytest.mark.parametrize("name", ["diagnose", "isolate"])
def test_playbooks_with_a_run_of_their_own_check_its_name(name):
    plays = yaml.safe_load((PLAYBOOKS / f"{name}.yml").read_text())
    variables = next(play["vars"] for play in plays if "gpufabric_own_run" in play.get("vars", {}))
    assert variables["gpufabric_run_id"] == "{{ gpufabric_own_run.value }}"
    assert variables["gpufabric_own_run"]["name"] == f"{name}_run_id"
    checks = yaml.safe_load((PLAYBOOKS / "tasks" / "begin.yml").read_text())
    owns = [task.get("gpufabric.nccl.check_variables", {}).get("own_run") for task in checks]
    assert "{{ gpufabric_own_run | default(omit) }}" in owns


@pytest.mark.parametrize("role", ["key_exchange", "nccl_benchmark"])
def test_a_removal_checks_its_hosts_first(role):
    first = yaml.safe_load((ROLE_FOLDERS / role / "tasks" / "teardown.yml").read_text())[0]
    assert "gpufabric.nccl.check_variables" in first


@pytest.mark.parametrize("entry", ["bring", "teardown"])
def test_the_role_with_a_run_of_its_own_checks_its_name_first(entry):
    tasks = PLAYBOOKS.parent / "roles" / "nccl_tests" / "tasks"
    assert yaml.safe_load((tasks / f"{entry}.yml").read_text())[0]["ansible.builtin.import_tasks"] == "check.yml"
    (check,) = yaml.safe_load((tasks / "check.yml").read_text())
    # As the tasks do that use the run.
    assert check["vars"]["gpufabric_run_id"] == check["gpufabric.nccl.check_variables"]["own_run"]["value"]


def test_the_state_of_nccl_tests_is_checked(check):
    assert check(roles=["nccl_tests"], nccl_tests_state="absent") == {"changed": False}
    result = check(roles=["nccl_tests"], nccl_tests_state="removed")
    assert result["msg"] == "nccl_tests_state: 'removed' is not allowed; allowed: present, absent"


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("gpufabric_worker_pods", "ja", "true or false"),
        ("local_nodes_keep", ["x"], "true or false"),
        ("gpufabric_target", ["g1", "g2"], "a text"),
        ("gpufabric_job", "begin", "benchmark, isolate"),
        ("diagnose_run_id", {"a": 1}, "a text"),
        ("gpufabric_environment", "TOKEN=hunter2", "a dictionary; on the command line in JSON: -e "),
        ("gpufabric_environment", [{"A": "1"}], "a dictionary; "),
        # NCCL reads a number, of which True is 0.
        ("gpufabric_environment", {"NCCL_IB_DISABLE": True}, "a text or a number, such as 1 or 0"),
        ("gpufabric_environment", {"A": None}, "a text or a number"),
        ("gpufabric_environment", {"A": ["hunter2"]}, "a text or a number"),
        # The shell that starts the modules would take it for a program.
        ("gpufabric_environment", {"A B": "hunter2"}, "names of environment variables"),
    ],
)
def test_a_wrong_value_of_a_variable_of_the_playbooks_is_refused(playbook, name, value, allowed):
    result = playbook(name, value)
    assert (
        result["failed"]
        and re.match(rf"{name}(\.\w+)?: ", result["msg"])
        and f" is not allowed; allowed: {allowed}" in result["msg"]
    )
    assert "hunter2" not in result["msg"]


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("isolate_min_bytes", "many", "a number of bytes"),
        ("isolate_screens", "0", "1 or more"),
        ("isolate_iterations", "0", "1 or more"),
        ("isolate_env", {"A B": "1"}, "names of environment variables"),
    ],
)
def test_what_no_search_can_have_is_refused_before_pods_are_made(playbook, name, value, allowed):
    result = playbook(name, value)
    assert result["failed"] and result["msg"].startswith(f"{name}: ") and f"allowed: {allowed}" in result["msg"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("isolate_domains", {"g1": "rack1"}),
        ("isolate_limit", "20.5"),
        ("isolate_max_bytes", "1K"),
        ("isolate_screens", "all"),
        ("gpufabric_worker_pods", "Yes"),
        ("gpufabric_worker_pods", ""),
        ("gpufabric_job", "isolate"),
        ("gpufabric_environment", {"A": "1", "OMP_NUM_THREADS": 4, "TEXT": "two\nlines"}),
        ("gpufabric_environment", ""),
        ("gpufabric_environment", None),
    ],
)
def test_values_that_variables_of_the_playbooks_may_have(playbook, name, value):
    assert playbook(name, value) == {"changed": False}


@pytest.mark.parametrize("place", ["gpufabric_environment", "nccl_benchmark_env"])
def test_a_vaulted_text_is_a_text(playbook, vaulted, monkeypatch, place):
    monkeypatch.setattr("ansible.template.Templar.template", lambda templar, value: value)
    assert playbook(place, {"TOKEN": vaulted, "OTHER": "1"}) == {"changed": False}
    assert playbook(place, {"TOKEN": [vaulted]})["failed"]


@pytest.fixture
def playbook(planned, monkeypatch):
    def run(name, value):
        monkeypatch.setattr(check_variables, "load_extra_vars", lambda loader: {name: value})
        monkeypatch.setattr("ansible.playbook.task.Task.get_play", lambda task: types.SimpleNamespace(get_vars=dict))
        return planned(
            ActionModule, "key_exchange", {"playbook": True}, groups={"all": []}, hostvars={}, **{name: value}
        )

    return run
