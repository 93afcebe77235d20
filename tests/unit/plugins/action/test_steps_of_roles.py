# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The actions that do the thinking of the roles key_exchange, preflight and nccl_benchmark."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpufabric.nccl.plugins.action.benchmark_results import ActionModule as BenchmarkResults
from ansible_collections.gpufabric.nccl.plugins.action.collect_peers import ActionModule as CollectPeers
from ansible_collections.gpufabric.nccl.plugins.action.isolation_step import ActionModule as IsolationStep
from ansible_collections.gpufabric.nccl.plugins.action.preflight_step import ActionModule as PreflightStep
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.task_results import failure_details
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._planning import AnsibleValueOmittedError


def entry(host, identity="cold", severity="error"):
    return {"id": identity, "severity": severity, "host": host, "cause": "Is.", "cure": "Do.", "evidence": ""}


def sshd(number, **values):
    keys = {"host_public_keys": ["ssh-ed25519 AAAA"], "client_public_key": "ssh-ed25519 AAAB"}
    place = {
        "address": f"10.0.0.{number}",
        "port": 40000,
        "user": "root",
        "run_dir": "/run/x",
        "hostname": f"g{number}",
    }
    return {**place, **keys, "changed": True, **values}


def cpu_node(number):
    """What mpi_node_info returns of a machine without GPUs."""
    return {
        "hostname": f"g{number}",
        "interfaces": [{"name": "eth0", "addresses": [f"10.0.0.{number}/24"]}],
        "data": None,
        "gpus": {"count": 0, "names": [], "unusable": []},
        "mpi": {"mpirun": "/usr/bin/mpirun", "prefix": "/usr", "implementation": "openmpi", "version": "4.1.4"},
        "benchmarks": None,
        "python": {"executable": "/usr/bin/python3", "mpi4py": "3.1.4", "numpy": "1.24.2"},
    }


@pytest.fixture
def collect(planned):
    return lambda **arguments: planned(CollectPeers, "key_exchange", arguments)


@pytest.fixture
def step(planned):
    return lambda name, hostvars=None, **arguments: planned(
        PreflightStep, "preflight", {"step": name, **arguments}, inventory_hostname="a", hostvars=hostvars or {}
    )


@pytest.mark.parametrize("given", [{"NCCL_IB_HCA": "^mlx5_8"}, "NCCL_IB_HCA=^mlx5_8", '{"NCCL_IB_HCA": "^mlx5_8"}'])
def test_the_look_knows_what_all_ranks_get(planned, given):
    task = {"inventory_hostname": "g1", "hostvars": {"g1": {}}}
    result = planned(PreflightStep, "preflight", {"step": "plan"}, **task, preflight_env=given)
    assert result["env"] == {"NCCL_IB_HCA": "^mlx5_8"}


@pytest.mark.parametrize("is_of_play", [True, False], ids=["play", "inventory"])
def test_the_look_knows_by_which_names_a_host_calls_its_interfaces(planned, is_of_play):
    peers = [{"name": name, "address": "10.0.0.1", "run_dir": "/r"} for name in ("g1", "g2")]
    hostvars = {
        "g1": {"gpufabric_control_interface": "eth0", "gpufabric_data_interface": "net1"},
        "g2": {"gpufabric_control_interface": "eno1", "gpufabric_data_interface": "ib0"},
    }
    own = {**hostvars["g1"], **({"gpufabric_data_interface": "net9"} if is_of_play else {})}
    task = {"inventory_hostname": "g1", "hostvars": hostvars, **own}
    first, second = planned(PreflightStep, "preflight", {"step": "plan", "peers": peers}, **task)["targets"]
    assert "data_interface" not in first
    expected = (None, None) if is_of_play else ("eno1", "ib0")
    assert (second.get("control_interface"), second.get("data_interface")) == expected


class Omitted(dict):
    """Variables of a host in hostvars, of which those without a value are omit, as since ansible-core 2.19."""

    def get(self, name, default=None):
        if name in self and self[name] is None:
            raise AnsibleValueOmittedError
        return super().get(name, default)


def test_an_interface_that_is_omitted_is_none(planned):
    peers = [{"name": name, "address": "10.0.0.1", "run_dir": "/r"} for name in ("g1", "g2")]
    hostvars = {
        "g1": Omitted(gpufabric_control_interface="eth0", gpufabric_data_interface=None),
        "g2": Omitted(gpufabric_control_interface="eth0", gpufabric_data_interface="ib0"),
    }
    task = {"inventory_hostname": "g1", "hostvars": hostvars, "gpufabric_control_interface": "eth0"}
    first, second = planned(PreflightStep, "preflight", {"step": "plan", "peers": peers}, **task)["targets"]
    assert "data_interface" not in first and second["data_interface"] == "ib0"


def test_peers_are_what_all_workers_returned(collect):
    result = collect(sshds={"a": sshd(1), "b": sshd(2)})
    assert [peer["name"] for peer in result["peers"]] == ["a", "b"] and result["lost"] == {}
    assert "changed" not in result["peers"][0]


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({}, "gpufabric_hosts: 'b' is not allowed"),
        (sshd(2, user="x;y"), "b returned sshd_instance.user: 'x;y'"),
        (sshd(1), "10.0.0.1"),
    ],
)
def test_a_worker_without_an_sshd_of_its_own_ends_the_run(collect, broken, words):
    result = collect(sshds={"a": sshd(1), "b": broken})
    assert result["failed"] and words in result["msg"] + str(failure_details(result)["problems"])


def test_workers_that_fail_are_left_out_with_their_problems(collect):
    sshds = {"a": sshd(1), "b": {"failed": True, "msg": "no"}, "c": sshd(3), "d": sshd(4), "e": sshd(4)}
    first = collect(sshds=sshds, skip_failed=True)
    assert [peer["name"] for peer in first["peers"]] == ["a", "c", "d"]
    second = collect(sshds=sshds, meshes={"a": {}, "c": {"unreachable": True, "msg": "gone"}}, skip_failed=True)
    assert [peer["name"] for peer in second["peers"]] == ["a", "d"]
    assert {name: [item["id"] for item in found] for name, found in second["lost"].items()} == {
        "b": ["step-failed"], "c": ["host-unreachable"], "e": ["host-twice"]
    }  # fmt: skip


@pytest.mark.parametrize("nothing", [{}, {"skipped": True, "changed": False}])
def test_a_worker_that_the_play_left_out_is_lost_and_not_forgotten(collect, nothing):
    """A diagnosis would find no problem on a host that it did not look at."""
    found = collect(sshds={"a": sshd(1), "b": nothing}, skip_failed=True)
    assert [peer["name"] for peer in found["peers"]] == ["a"] and list(found["lost"]) == ["b"]
    assert found["lost"]["b"][0]["cause"] == (
        "The host cannot take part: it failed to run a private sshd: the task did not run there; include the role for all hosts, without when."
    )


@pytest.mark.parametrize("broken", [sshd(2, user="x;y"), sshd(2, address=["x"]), sshd(2, port="{{ 1 }}")])
def test_a_worker_whose_answer_is_refused_is_left_out_too(collect, broken):
    found = collect(sshds={"a": sshd(1), "b": broken, "c": sshd(3)}, skip_failed=True)
    assert [peer["name"] for peer in found["peers"]] == ["a", "c"]
    assert [(item["id"], item["host"]) for item in found["lost"]["b"]] == [("wrong-answer", "b")]


def test_the_launcher_looks_at_peers_with_their_python(step):
    peers = [{"name": "a", "address": "10.0.0.1", "run_dir": "/r", "port": 1}]
    result = step("plan", {"a": {"ansible_python_interpreter": "/usr/bin/python3"}}, peers=peers)
    assert result["targets"] == [{"name": "a", "address": "10.0.0.1", "run_dir": "/r", "python": "/usr/bin/python3"}]


@pytest.mark.parametrize(("dedicated", "names"), [("yes", ["b"]), (False, ["a", "b"]), (None, ["a", "b"])])
def test_a_launcher_that_runs_no_ranks_is_looked_at_by_nobody(planned, dedicated, names):
    peers = [{"name": name, "address": f"10.0.0.{number}", "run_dir": "/r"} for number, name in enumerate("ab", 1)]
    arguments = {"step": "plan", "peers": peers, "launcher": "a"}
    given = {} if dedicated is None else {"preflight_dedicated_launcher": dedicated}
    task = {"inventory_hostname": "a", "hostvars": {"a": {}, "b": {}}}
    result = planned(PreflightStep, "preflight", arguments, **task, **given)
    assert [target["name"] for target in result["targets"]] == names


def test_hosts_with_one_address_are_one_machine(step):
    same = {"ansible_host": "10.0.0.1"}
    twice = step("plan", {"a": same, "b": same, "c": {"ansible_host": "10.0.0.2"}}, hosts=["a", "b", "c"])["twice"]
    assert list(twice) == ["b"]


def test_only_workers_of_the_run_are_asked_for_their_log(step):
    look = {"problems": [entry("b", "ssh-closed"), entry("evil", "ssh-closed"), entry("a")]}
    assert step("logs", peers=[{"name": "a"}, {"name": "b"}], look=look)["refusing"] == ["b"]


def test_the_logs_of_a_fleet_are_not_read_one_after_the_other(step):
    names = [f"g{number}" for number in range(20)]
    look = {"problems": [entry(name, "ssh-auth-refused") for name in names]}
    assert step("logs", peers=[{"name": name} for name in names], look=look)["refusing"] == names[:8]


def test_a_launcher_that_gives_nonsense_names_nobody(step):
    assert step("logs", peers=[{"name": "a"}], look={"problems": 5})["refusing"] == []


def test_a_diagnosis_has_the_problems_of_all_steps(step):
    result = step(
        "diagnosis",
        hosts=["a", "b", "c", "d"],
        lost={"b": [entry("b", "host-unreachable")]},
        reach={"problems": [entry("b", "connect-timeout")]},
        launcher="a",
        look={"failed": True, "msg": "no ssh"},
        result={"problems": [entry("c", severity="warning")], "hosts": []},
        cleanups={"d": {"failed": True, "msg": "stays"}, "c": {}},
    )
    assert [(item["host"], item["id"]) for item in result["problems"]] == [
        ("b", "connect-timeout"), ("a", "step-failed"), ("c", "cold"), ("d", "step-failed")
    ]  # fmt: skip
    assert {host["name"]: host["ok"] for host in result["hosts"]} == {"a": False, "b": False, "c": True, "d": False}
    assert not result["ok"]


def test_a_diagnosis_warns_of_what_the_controller_lacks(step):
    lacking = problem("library-missing", python="/usr/bin/python3", library="paramiko").as_dict()
    found = step("diagnosis", hosts=["a"], reach={"ok": False, "hosts": [], "problems": [lacking]})
    assert found["ok"] and found["problems"] == [{**lacking, "severity": "warning"}]
    assert lacking["cure"] == "Install it: /usr/bin/python3 -m pip install --upgrade paramiko."


def test_a_diagnosis_without_a_launcher_is_one_too(step):
    assert step("diagnosis", hosts=["a"])["ok"]


@pytest.mark.parametrize(
    ("mca", "forward_env"),
    [({"btl_tcp_links": "2"}, ["PATH", "NCCL_*"]), ("btl_tcp_links=2", "PATH,NCCL_*"), ({}, []), ("", "[]")],
)
def test_a_search_is_launched_with_variables_that_may_be_text(planned, mca, forward_env):
    infos = {name: {"unreachable": True, "msg": "gone"} for name in ("g1", "g2")}
    begun = planned(
        IsolationStep, "isolate", {"step": "begin", "infos": infos}, isolate_mca=mca, isolate_forward_env=forward_env
    )
    assert begun["launch"]["mca"] == ({"btl_tcp_links": "2"} if mca else {})
    assert begun["launch"]["forward_env"] == (["PATH", "NCCL_*"] if mca else [])
    # A round later they are the same.
    seen = planned(IsolationStep, "isolate", {"step": "observe", "search": begun, "runs": {}})
    assert seen["launch"] == begun["launch"]


@pytest.mark.parametrize(("launcher", "left"), [("g2", ["g1", "g3"]), ("", ["g2", "g3"]), ("head", ["g1", "g2", "g3"])])
def test_a_search_leaves_out_a_launcher_that_runs_no_ranks(planned, launcher, left):
    infos = {f"g{number}": {"node": cpu_node(number)} for number in (1, 2, 3)}
    given = {"nccl_benchmark_launcher": launcher, "nccl_benchmark_dedicated_launcher": "true"}
    checked = planned(IsolationStep, "isolate", {"step": "check", "infos": infos}, **given)
    assert checked["answered"] == left
    silent = {name: {"unreachable": True, "msg": "gone"} for name in infos}
    begun = planned(IsolationStep, "isolate", {"step": "begin", "infos": silent}, **given)
    assert list(begun["document"]["state"]["nodes"]) == left
    given["nccl_benchmark_dedicated_launcher"] = "false"
    assert planned(IsolationStep, "isolate", {"step": "check", "infos": infos}, **given)["answered"] == list(infos)


@pytest.mark.parametrize(
    ("value", "begins"),
    [("500M", "500M"), (None, "2G")],
)
def test_a_search_has_the_limits_of_a_benchmark(planned, value, begins):
    infos = {name: {"unreachable": True, "msg": "gone"} for name in ("g1", "g2")}
    given = {
        "nccl_benchmark_output_limit": value,
        "nccl_benchmark_orphan_timeout": "",
        "nccl_benchmark_silence_timeout": 0,
    }
    given = {name: item for name, item in given.items() if item is not None}
    launch = planned(IsolationStep, "isolate", {"step": "begin", "infos": infos}, **given)["launch"]
    limits = ("output_limit", "orphan_timeout", "silence_timeout")
    assert [launch[name] for name in limits] == [begins, 90, 0]
    # Those of the role itself, as text of a survey.
    given = {"isolate_timeout": "77", "isolate_startup_timeout": ""}
    launch = planned(IsolationStep, "isolate", {"step": "begin", "infos": infos}, **given)["launch"]
    assert (launch["timeout"], launch["startup_timeout"]) == (77, 60)


@pytest.mark.parametrize(
    ("changed", "resumed"),
    [
        ({}, True),
        ({"isolate_timeout": 77}, True),
        ({"gpufabric_data_interface": "ib0"}, False),
        ({"gpufabric_control_subnet": "10.0.0.0/8"}, False),
        ({"isolate_mca": {"btl": "tcp,self"}}, False),
        ({"nccl_benchmark_dir": "/opt/other"}, False),
        ({"environment": "of other variables"}, False),
    ],
)
def test_a_search_over_another_network_or_with_other_programs_is_another_search(planned, changed, resumed):
    infos = {f"g{place}": {"node": cpu_node(place)} for place in (1, 2)}
    peers = [{"name": f"g{place}", "address": f"10.0.0.{place}", "run_dir": "/r"} for place in (1, 2)]
    arguments = {"step": "begin", "infos": infos, "peers": peers}
    given = {"isolate_mca": {}, "isolate_forward_env": []}
    begun = planned(IsolationStep, "isolate", arguments, **given)
    earlier = json.dumps(begun["document"])
    arguments.update(earlier=earlier, environment=changed.pop("environment", ""))
    again = planned(IsolationStep, "isolate", arguments, **{**given, **changed})
    assert again["resumed"] is resumed


@pytest.mark.parametrize("role", ["isolate", "nccl_benchmark"])
def test_what_is_no_name_of_a_variable_would_not_be_forwarded_in_a_search(planned, role):
    infos = {f"g{place}": {"node": cpu_node(place)} for place in (1, 2)}
    arguments = {"step": "check", "infos": infos}
    assert not planned(IsolationStep, "isolate", arguments, **{f"{role}_forward_env": "A,B_*"}).get("failed")
    result = planned(IsolationStep, "isolate", arguments, **{f"{role}_forward_env": "A B"})
    assert result["msg"].startswith(
        f"{role}_forward_env: 'A B' is not allowed; allowed: names of environment variables"
    )


def test_what_a_survey_left_blank_for_a_search_is_that_of_the_benchmark(planned):
    infos = {f"g{place}": {"node": cpu_node(place)} for place in (1, 2)}
    peers = [{"name": f"g{place}", "address": f"10.0.0.{place}", "run_dir": "/r"} for place in (1, 2)]
    blank = dict.fromkeys(("isolate_backend", "isolate_allow_uneven_gpus", "isolate_check", "isolate_mca"))
    given = {
        **blank,
        **dict.fromkeys(("isolate_extra_args", "isolate_env", "isolate_forward_env"), ""),
        "nccl_benchmark_extra_args": ["-d half"],
        "nccl_benchmark_env": {"NCCL_ALGO": "Ring"},
    }
    begun = planned(IsolationStep, "isolate", {"step": "begin", "infos": infos, "peers": peers}, **given)
    point, launch = begun["launch"]["point"], begun["launch"]
    assert point["argv"][-2:] == ["-d", "half"] and point["env"]["NCCL_ALGO"] == "Ring"
    assert (launch["backend"], launch["mca"], launch["forward_env"][0]) == (
        "cpu",
        {"mpi_yield_when_idle": "1"},
        "LD_LIBRARY_PATH",
    )


def test_a_limit_of_no_sense_is_refused_before_a_search(planned):
    refused = planned(IsolationStep, "isolate", {"step": "check"}, nccl_benchmark_output_limit="2GB")
    assert refused["msg"].startswith("nccl_benchmark_output_limit: '2GB' is not allowed; allowed: a number of bytes")


@pytest.mark.parametrize("key", ["", "bad key", "-x", "a/b/c", "x" * 64, "Team/x", "a\n"])
def test_a_key_of_a_mark_that_kubernetes_refuses_is_refused_before_a_search(planned, key):
    arguments = {"step": "check", "infos": {"g1": {"unreachable": True, "msg": "gone"}}}
    refused = planned(IsolationStep, "isolate", arguments, isolate_mark="taint", isolate_mark_key=key)
    assert refused["msg"].startswith(f"isolate_mark_key: {key!r} is not allowed; allowed: a key of Kubernetes")
    # Without a mark nobody needs it.
    assert "failed" not in planned(IsolationStep, "isolate", arguments, isolate_mark_key=key)
    for good in ("x", "X_1.a-b", "gpufabric.nccl/isolate", "a/" + "x" * 63):
        assert "failed" not in planned(IsolationStep, "isolate", arguments, isolate_mark="label", isolate_mark_key=good)


PLAN = {"points": [{"name": "all_reduce", "argv": ["p"], "env": {}}], "launcher": "g1"}
OUTCOME = {"status": "failed", "exit_status": 1, "stdout_path": "/r/points/1/stdout", "problems": [], "said": ["oh"]}


def test_a_point_that_printed_nothing_has_a_result_too(planned):
    look = {"problems": [entry("g2", "daemon-missing")], "hosts": []}
    for found, identity in (({}, "run-failed"), (look, "daemon-missing")):
        arguments = {"plan": PLAN, "run": {"points": [OUTCOME]}, "look": found}
        (document,) = planned(BenchmarkResults, "nccl_benchmark", arguments)["results"]
        assert (document["collective"], document["verdict"]) == ("all_reduce", "fail")
        assert [problem["id"] for problem in document["problems"]] == [identity]


@pytest.mark.parametrize("run", [{}, {"points": [5]}, {"points": []}, {"points": [OUTCOME, OUTCOME]}])
def test_a_launcher_that_gives_nonsense_is_named(planned, run):
    result = planned(BenchmarkResults, "nccl_benchmark", {"plan": PLAN, "run": run})
    assert result["failed"] and result["msg"].startswith("what g1 returned of the run is not what mpi_run returns")


@pytest.mark.parametrize("document", ["{{ x }}", {"summary": {"wrong": "{{ x }}"}}])
def test_a_launcher_whose_result_is_none_is_named(planned, document):
    run = {"points": [{**OUTCOME, "results": [document]}]}
    result = planned(BenchmarkResults, "nccl_benchmark", {"plan": PLAN, "run": run})
    (problem,) = failure_details(result)["problems"]
    assert result["failed"] and (problem["id"], problem["host"]) == ("wrong-answer", "g1")
    assert "{{" not in str(result)


def test_the_workers_of_a_job_are_those_of_its_hostfile(collect):
    hosts = [{"name": "j-worker-0.j.ns", "address": "10.0.0.1", "slots": 2}]
    result = collect(hostfile={"hosts": hosts, "names": ["j-worker-0"], "run_dir": "/run/x"})
    assert result["peers"] == [{"name": "j-worker-0", "address": "10.0.0.1", "slots": 2, "run_dir": "/run/x"}]
    result = collect(hostfile={"hosts": hosts, "names": ["j-worker-1"], "run_dir": "/run/x"})
    assert result["failed"] and result["msg"].startswith("hostfile: 'j-worker-0.j.ns' is not allowed")
