# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import itertools
import json
import pathlib
import re

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.isolation_search import (
    observe,
    plan_round,
    verdict,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import parse_results
from ansible_collections.gpufabric.nccl.plugins.plugin_utils import _isolation
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report import page
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report.data import make_report
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report.markdown import render_markdown
from ansible_collections.gpufabric.nccl.tests.benchmark.defaults import EARLIER_ISOLATE, FAULTS, found_by_isolate

jsonschema = pytest.importorskip("jsonschema")

SCHEMA = pathlib.Path(__file__).parents[4] / "docs/schemas/isolation-v1.schema.json"
TEXT = (pathlib.Path(__file__).parents[2] / "fixtures" / "all_reduce_perf.txt").read_text(encoding="utf-8")
SETTINGS = {
    "mode": "adaptive",
    "inside": "all",
    "screens": "2",
    "limit": None,
    "inside_limit": None,
    "tolerance_percent": 15,
    "domains": {},
    "backend": "cpu",
    "collective": "all_reduce",
    "min_bytes": "1M",
    "max_bytes": "1M",
    "iterations": 5,
    "warmup_iterations": 1,
    "check": True,
    "extra_args": [],
    "env": {},
    "timeout": 60,
    "startup_timeout": 60,
}


def parsed():
    return parse_results(TEXT.splitlines())


def info(number):
    """What mpi_node_info returns of a node, as far as it counts here."""
    address = {"name": "eth0", "addresses": [f"10.0.0.{number}/24"]}
    return {
        "node": {
            "hostname": f"g{number}",
            "interfaces": [address],
            "data": None,
            "gpus": {"count": 0, "names": [], "unusable": []},
            "benchmarks": None,
            "mpi": {
                "implementation": "openmpi",
                "vendor": "openmpi",
                "version": "4.1.4",
                "prefix": "/usr",
                "mpirun": "/usr/bin/mpirun",
            },
            "python": {"executable": "/usr/bin/python3", "mpi4py": "3.1", "numpy": "1.2"},
        }
    }


def peer(number):
    """A node as key_exchange has it in gpufabric_peers."""
    keys = {
        "port": 1,
        "user": "root",
        "host_public_keys": [],
        "client_public_key": "",
        "run_dir": "/run/x",
        "hostname": "h",
    }
    return {**keys, "name": f"g{number}", "address": f"10.0.0.{number}"}


def steps(count, **failed):
    """What the steps before a search found; ``failed``: the step that failed on a node, and none for one that did not answer."""
    infos = {f"g{number}": info(number) for number in range(1, count + 1)}
    lost = {}
    for name, step in failed.items():
        if step == "info":
            infos[name] = {"msg": "it is\non fire", "unreachable": True}
        elif step == "ssh":
            lost[name] = [{"cause": "it is\non", "evidence": "fire"}]
    peers = [peer(number) for number in range(1, count + 1) if f"g{number}" not in failed]
    return {"info": infos, "peers": peers, "lost": lost}


def begun_on_gpus(settings, gbps=3200.0, memory=80 << 30):
    """A search over four nodes with 8 GPUs each."""
    found = steps(4)
    for name in found["info"]:
        found["info"][name]["node"].update(
            gpus={"count": 8, "names": ["H100"], "memory_bytes": memory, "unusable": []},
            line_rate={"gbps": gbps, "source": "8 RDMA ports"},
            benchmarks={"directory": "/opt", "programs": ["all_gather_perf", "all_reduce_perf"]},
        )
    return _isolation.search(found, {**SETTINGS, "backend": "auto", **settings}, "")


def begun(count=4, before="", settings=None, **failed):
    return _isolation.search(steps(count, **failed), {**SETTINGS, **(settings or {})}, before)


def outcome(**changes):
    point = {"status": "finished", "exit_status": 0, "problems": [], "stdout_path": "/x/1/stdout", "duration": 1.0}
    return {"points": [{**point, "results": parsed(), "unread": None, **changes}]}


def of_bandwidth(value):
    (document,) = copy.deepcopy(parsed())
    for row in document["rows"]:
        row["out_of_place"]["busbw"] = value
    return document


def failure(identity, host):
    problem = {"id": identity, "severity": "error", "host": host, "cause": "No.", "cure": "Yes.", "evidence": ""}
    return outcome(status="failed", exit_status=1, results=[], problems=[problem])


def played(search, special=None):
    """A round in which all groups do the same, but for those of some launchers."""
    results = {launcher: outcome() for launcher in search["runs"]}
    return _isolation.observed(search, {**results, **(special or {})})


def test_a_search_runs_two_ranks_of_the_cpu_program_alone_and_one_on_each_of_several():
    search = begun()
    assert search["said"].endswith(" To run now: 4 nodes alone, all_reduce of 1M.")
    assert search["runs"]["g2"]["hosts"] == [{"name": "g2", "address": "10.0.0.2", "slots": 2}]
    assert search["runs"]["g2"]["points"][0]["id"] == "round-1"
    after = played(search)
    assert after["said"] == "Round 1: 4 nodes alone, all fast"
    assert {(host["name"], host["slots"]) for run in after["runs"].values() for host in run["hosts"]} == {
        (f"g{number}", 1) for number in range(1, 5)
    }


def test_the_value_is_bus_bandwidth_and_of_one_rank_not():
    (document,) = copy.deepcopy(parsed())
    row = max(document["rows"], key=lambda row: row["out_of_place"]["busbw"])
    document["rows"] = [row]
    values = []
    for ranks in (8, 1):
        one = {**document, "rank_count": ranks}
        search = _isolation.observed(begun(1), {"g1": outcome(results=[one])})
        values.append(search["document"]["state"]["tests"][0]["value"])
    # The bus bandwidth of one rank is 0.
    assert values == [row["out_of_place"]["busbw"], row["out_of_place"]["algbw"]] and values[0] > values[1] > 0


@pytest.mark.parametrize(
    ("result", "unreachable", "reason"),
    [
        # The task on the launcher failed: nothing can be run from it.
        ({"msg": "no route to\nhost", "unreachable": True}, ["g1"], "no route to host"),
        (failure("connect-refused", "10.0.0.2"), ["g2"], "g2: No."),
        # None can be reached: the launcher may be the reason.
        (failure("connect-refused", "10.0.0.1"), [], "g1: No."),
        (failure("launcher-lost", None), ["g1"], "No."),
        # It was reached, and failed there.
        (failure("rank-crashed", "10.0.0.2"), [], "g2: No."),
        (
            outcome(results=[{**parsed()[0], "problems": failure("wrong-values", None)["points"][0]["problems"]}]),
            [],
            "No.",
        ),
        (outcome(results=[{**parsed()[0], "rows": []}]), [], "it has no result"),
        (outcome(results=[of_bandwidth(-5.0)]), [], "it has no result"),
        # A launcher that answers with something else.
        (outcome(results=[{**parsed()[0], "config": [1]}]), ["g1"], re.compile("g1 returned a result.config: ")),
        *(
            (answer, ["g1"], re.compile("what g1 returned of the run is not what mpi_run returns: "))
            for answer in (
                {"points": [5]},
                {"points": []},
                {"points": 5},
                {"points": [{"results": []}]},
                outcome(said=5, status="failed", results=[]),
            )
        ),
    ],
)
def test_what_fails_has_its_reason_and_names_who_cannot_be_reached(result, unreachable, reason):
    search = begun(9, settings={"inside": "none", "screens": 1})
    assert search["runs"]["g1"]["nodes"] == ["g1", "g2", "g3"]
    search = played(search, {"g1": result})
    test = search["document"]["state"]["tests"][0]
    assert (test["value"], test["unreachable"]) == (None, unreachable)
    assert re.match(reason, test["reason"]) if isinstance(reason, re.Pattern) else test["reason"] == reason
    assert "1 failed (g1, g2, g3)" in search["said"]


@pytest.mark.parametrize("identity", ["run-taken", "run-in-use"])
@pytest.mark.parametrize("way", ["of a task", "of a point"])
def test_a_run_that_has_become_another_s_ends_the_search(identity, way):
    result = failure(identity, "pod")
    if way == "of a task":
        result = {"failed": True, "msg": "no", "problems": result["points"][0]["problems"]}
    with pytest.raises(ProblemError) as ended:
        played(begun(4), {"g2": result})
    assert [(problem.id, problem.host) for problem in ended.value.problems] == [(identity, "g2")]


REFUSED = {"failed": True, "msg": "output_limit: '2GB' is not allowed; allowed: a number of bytes"}


@pytest.mark.parametrize(("count", "words"), [(4, REFUSED["msg"]), (4, "No space left."), (1, REFUSED["msg"])])
def test_what_all_launchers_refuse_alike_is_no_fault_of_a_node(count, words):
    search = begun(count)
    answer = {"failed": True, "msg": words}
    with pytest.raises(GpufabricError) as ended:
        _isolation.observed(search, dict.fromkeys(search["runs"], answer))
    assert str(ended.value) == words


@pytest.mark.parametrize(
    "answers",
    [[REFUSED, {"msg": "another"}], [REFUSED, outcome()], [{"msg": "no route", "unreachable": True}] * 2, [{}, {}]],
    ids=["not alike", "one ran", "unreachable", "no words"],
)
def test_what_they_do_not_all_refuse_is_one_of_nodes(answers):
    search = begun(2)
    after = _isolation.observed(search, dict(zip(search["runs"], answers)))
    assert after["document"]["state"]["round"] == 1


def test_one_launcher_that_fails_alone_is_a_node_of_which_nothing_else_is_known():
    search = begun(1)
    (launcher,) = search["runs"]
    after = _isolation.observed(search, {launcher: {"failed": True, "msg": "No space left."}})
    assert after["document"]["state"]["tests"][0]["reason"] == "No space left."


def test_where_no_other_can_be_reached_the_launcher_may_be_the_reason():
    problems = [failure("connect-refused", f"10.0.0.{number}")["points"][0]["problems"][0] for number in (2, 3)]
    search = begun(9, settings={"inside": "none"})
    search = played(search, {"g1": outcome(status="failed", results=[], problems=problems)})
    assert search["document"]["state"]["tests"][0]["unreachable"] == []


def test_a_value_that_all_hosts_refuse_is_not_what_is_wrong_with_them():
    """They would all be called unreachable, and could be marked in Kubernetes, and the play would end well."""
    words = "port: 70000 is not allowed; allowed: 0 to 65535"
    told = steps(3, g1="ssh", g2="ssh", g3="ssh")
    told["lost"] = {name: [{"cause": "The host cannot take part:", "evidence": words}] for name in told["lost"]}
    with pytest.raises(GpufabricError) as error:
        _isolation.search(told, SETTINGS, "")
    assert words in str(error.value)
    # What one of them refuses may be of its own.
    told["peers"] = [peer(1)]
    assert set(_isolation.search(told, SETTINGS, "")["runs"]) == {"g1"}


def test_hosts_on_which_a_step_failed_are_told_and_left_out():
    search = begun(6, g2="info", g3="ssh", g5="none")
    assert set(search["runs"]) == {"g1", "g4", "g6"}
    lost = {e["node"]: e["evidence"] for e in search["document"]["nodes"] if e["verdict"] == "unreachable"}
    assert lost == {"g2": ["it is on fire"], "g3": ["it is on fire"], "g5": ["it gave no answer"]}
    # Of a node whose facts are missing nothing is run, even if it is connected.
    told = steps(3, g2="info")
    told["peers"].insert(1, peer(2))
    assert set(_isolation.search(told, SETTINGS, "")["runs"]) == {"g1", "g3"}
    nobody = begun(2, g1="info", g2="info")
    assert nobody["document"]["complete"] and nobody["runs"] == {}
    assert _isolation.report(nobody["document"], False)["results"] == []


def test_a_search_is_taken_up_with_the_same_hosts_and_settings_only():
    first = played(begun())
    text = json.dumps(first["document"])
    again = begun(before=text, settings={"timeout": 99}, g4="info")
    assert again["resumed"] and "Taken up after round 1" in again["said"]
    assert again["document"]["state"]["tests"] == first["document"]["state"]["tests"]
    assert again["document"]["nodes"][3]["verdict"] == "unreachable"
    assert not begun(before=text, settings={"max_bytes": "2M"})["resumed"]
    assert not begun(5, before=text)["resumed"]
    assert not begun(before='{"schema": "other"}')["resumed"]
    search = first
    while search["runs"]:
        search = played(search)
    assert search["document"]["complete"] and not begun(before=json.dumps(search["document"]))["resumed"]
    with pytest.raises(GpufabricError, match=r"^isolation\.json of an earlier search is not JSON: .*; remove it$"):
        begun(before="{")
    with pytest.raises(GpufabricError, match=r"^isolation\.json of an earlier search is not JSON: .*; remove it$"):
        begun(before="[" * 100000)


@pytest.mark.parametrize(("mode", "inside"), [("adaptive", "all"), ("pairs", "all"), ("adaptive", "none")])
def test_a_node_that_has_come_back_is_tested_when_the_search_is_taken_up(mode, inside):
    settings = {"mode": mode, "inside": inside}
    first = played(begun(6, settings=settings, g4="info"))
    assert first["document"]["nodes"][3]["verdict"] == "unreachable"
    search = begun(6, before=json.dumps(first["document"]), settings=settings)
    assert search["resumed"]
    while search["runs"]:
        search = played(search)
    (entry,) = [entry for entry in search["document"]["nodes"] if entry["node"] == "g4"]
    assert entry["verdict"] == "good"
    assert [line.partition(":")[0] for line in entry["evidence"]][:-1] == ["alone"] * (inside == "all")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["unreachable"], None),
        (["unreachable"], {"g9": "x"}),
        (["unreachable"], {"g1": 3}),
        (["stage"], -1),
        (["stage"], 99),
        (["stage"], "1"),
        (["round"], 1.5),
        (["round"], 10**400),
        (["tests"], None),
        (["tests"], {}),
        (["tests", 0], "x"),
        (["tests", 0, "nodes"], []),
        (["tests", 0, "nodes"], ["g9"]),
        (["tests", 0, "nodes"], ["g1", "g1"]),
        (["tests", 0, "nodes"], [["g1"]]),
        (["tests", 0, "round"], 9),
        (["tests", 0, "value"], "fast"),
        (["tests", 0, "value"], float("nan")),
        (["tests", 0, "value"], -1),
        (["tests", 0, "reason"], {}),
        (["tests", 0, "unreachable"], ["g9"]),
    ],
)
def test_a_file_that_somebody_has_edited_is_one_clear_error(path, value):
    document = json.loads(json.dumps(played(begun())["document"]))
    *before, last = path
    place = document["state"]
    for name in before:
        place = place[name]
    place[last] = value
    with pytest.raises(
        GpufabricError, match=r"^isolation\.json of an earlier search cannot be continued: .*; remove it$"
    ):
        begun(before=json.dumps(document))


@pytest.mark.parametrize("sample", [3, [], {}, {"host_count": 4, "summary": {}}])
def test_a_sample_that_somebody_has_edited_is_one_clear_error(sample):
    document = {**played(begun())["document"], "sample": sample}
    with pytest.raises(
        GpufabricError, match=r"^isolation\.json of an earlier search cannot be continued: .*; remove it$"
    ):
        begun(before=json.dumps(document))


@pytest.mark.parametrize("state", [None, 3, [], {}, {"nodes": 3}])
def test_a_file_of_no_search_is_none_to_go_on_with(state):
    assert not begun(before=json.dumps({**played(begun())["document"], "state": state}))["resumed"]


def test_what_follows_from_the_settings_is_not_taken_from_a_file():
    document = json.loads(json.dumps(played(begun())["document"]))
    document["state"].update(mode="odd", stages=["x"], limits={}, tolerance_percent="x", domains=3, inside=7)
    assert begun(before=json.dumps(document))["resumed"]


def test_limits_that_are_given_are_those_of_nodes_alone_and_of_groups():
    state = begun(settings={"limit": "40", "inside_limit": "300", "tolerance_percent": "5"})["document"]["state"]
    assert (state["limits"], state["tolerance_percent"]) == ({"inside": 300, "between": 40}, 5)


def test_a_search_that_finds_all_good_says_no_more():
    search = begun(3)
    while search["runs"]:
        search = played(search)
    table = _isolation.report(search["document"], False)["table"]
    assert table.startswith("3 nodes, 4 rounds, 6 tests: 3 nodes good\n")
    assert not [word for word in ("fail", "To do", "--limit", "not over") if word in table]


def test_the_report_has_what_is_bad_as_problems():
    search = begun(3)
    slow = copy.deepcopy(parsed())
    for row in slow[0]["rows"]:
        row["out_of_place"]["busbw"] /= 10
    while search["runs"]:
        search = played(search, {"g2": outcome(results=slow)} if "g2" in search["runs"] else None)
    report = _isolation.report(search["document"], False)
    jsonschema.validate(json.loads(json.dumps(search["document"])), json.loads(SCHEMA.read_text()))
    (document,) = report["results"]
    assert document["verdict"] == "fail" and document["collective"] == "all_reduce"
    assert [(entry["id"], entry["host"]) for entry in document["problems"]] == [("node-slow-inside", "g2")]
    assert set(report["isolation"]) >= {"nodes", "pairs", "limit"} and "state" not in report["isolation"]
    lines = report["table"].splitlines()
    assert lines[0] == "3 nodes, 4 rounds, 6 tests: 2 nodes good, 1 bad"
    assert lines[2].split() == ["node", "verdict", "where", "evidence"]
    assert lines[5].startswith("g2    bad      inside  alone: ")
    assert "Values are bus bandwidth. alone: 2 ranks on the node. Groups: one rank on each node." in lines
    assert "  g2: The node is slow, or fails, when it runs alone." in lines and "EVIDENCE" not in lines
    assert lines[-3] == "Without those that are not good: --limit 'all:!g2'"
    assert "(exit status 0), because isolate_fail_on_bad is false." in lines[-1]
    none_good = [{**entry, "verdict": "bad"} for entry in search["document"]["nodes"]]
    assert "--limit" not in _isolation.report({**search["document"], "nodes": none_good}, False)["table"]
    # The play of pods refuses a --limit that leaves out some.
    for adopted, way in ((True, "-e worker_pods_names=g1,g3"), (False, "isolate_mark=taint")):
        of_pods = _isolation.report(search["document"], False, adopted)
        assert way in of_pods["table"].splitlines()[-3] and "--limit" not in of_pods["table"]
        assert not make_report(of_pods["results"], isolation=of_pods["isolation"]).limit
    # A play that fails shows the problems itself.
    failing = _isolation.report(search["document"], True)["table"]
    assert "isolate_fail_on_bad" not in failing and "WHAT IS WRONG" not in failing
    reported = make_report(report["results"], isolation=report["isolation"])
    text = render_markdown(reported)
    assert "Verdict of the search over 3 nodes, 4 rounds, 6 tests: **fail**" in text and "Verdict over" not in text
    # The page does not tell the hosts of one test as those of the search.
    sentence, facts = page._verdict(reported)["sentence"], dict(page._facts(reported))
    assert "The search was over 3 nodes, 4 rounds, 6 tests. Only one of its tests follows" in sentence
    assert "Hosts" not in facts and "Ranks" not in facts


def of_pairs(settings=(), /, **values):
    """The document of a search over three nodes in pairs, and all that its tests gave, in GB/s; those not named give 1.0."""
    search = begun(3, settings={"inside": "none", **dict(settings)})
    left = {name: list(numbers) for name, numbers in values.items()}
    state = search["document"]["state"]
    while plan_round(state):
        groups = plan_round(state)
        told = [(left.get("_".join(group)) or [1.0]) for group in groups]
        state = observe(state, [{"nodes": g, "value": v.pop(0)} for g, v in zip(groups, told)])
    return {**search["document"], **verdict(state), "state": state}


def test_a_slow_path_counts_beside_good_nodes_and_one_too_noisy_to_judge_is_not_accused():
    slow = of_pairs(g2_g3=[0.5, 0.51])
    jsonschema.validate(json.loads(json.dumps(slow)), json.loads(SCHEMA.read_text()))
    told = _isolation.report(slow, False)
    assert told["table"].splitlines()[0].endswith(": 3 nodes good, 1 path slow (g2 - g3)")
    assert [entry["id"] for entry in told["problems"]] == ["path-slow"]
    # What a trial on three busy machines gave: limit 0.73 GB/s.
    trial = {"g1_g2": [0.8638], "g1_g3": [0.8638], "g2_g3": [0.591, 0.4627]}
    noisy = of_pairs(**trial)
    jsonschema.validate(json.loads(json.dumps(noisy)), json.loads(SCHEMA.read_text()))
    told = _isolation.report(noisy, False)
    assert told["table"].splitlines()[0].endswith(": 3 nodes good, 1 path too noisy to judge (g2 - g3)")
    assert [(entry["id"], entry["severity"]) for entry in told["problems"]] == [("path-noisy", "warning")]
    assert noisy["links"] == [] and noisy["complete"] and noisy["limit"] == "all"
    # Whoever gives a limit wants to know what is below it.
    limited = of_pairs({"limit": 0.7342}, **trial)
    assert [link["nodes"] for link in limited["links"]] == [["g2", "g3"]] and limited["noisy"] == []
    # Files of earlier releases do not have it.
    del noisy["noisy"]
    assert ": 3 nodes good\n" in _isolation.report(noisy, False)["table"]


def test_what_failed_and_ran_when_it_was_repeated_is_told_though_all_nodes_are_good():
    once = of_pairs(g1_g2=[None, 1.0, 1.0])
    jsonschema.validate(json.loads(json.dumps(once)), json.loads(SCHEMA.read_text()))
    told = _isolation.report(once, False)
    assert told["table"].splitlines()[0].endswith(": 3 nodes good, 1 test failed and ran when repeated (g1, g2)")
    assert "\n  g1, g2: failed, 1 GB/s, 1 GB/s (limit " in told["table"]
    assert [(entry["id"], entry["severity"]) for entry in told["problems"]] == [("test-unsteady", "warning")]
    assert "g1, g2" in told["problems"][0]["cause"] and once["limit"] == "all"
    # Files of earlier releases do not have it.
    del once["unsteady"]
    assert ": 3 nodes good\n" in _isolation.report(once, False)["table"]


def test_a_pair_that_never_ran_is_not_told_as_a_slow_path():
    failed = of_pairs(g1_g2=[None] * 9)
    jsonschema.validate(json.loads(json.dumps(failed)), json.loads(SCHEMA.read_text()))
    assert [link["nodes"] for link in failed["links"]] == [["g1", "g2"]]
    found = _isolation.report(failed, False)
    (told,) = found["problems"]
    assert (told["id"], told["severity"]) == ("path-failed", "error")
    assert "1 path failed (g1 - g2)" in found["table"] and "failing path: g1, g2: failed" in found["table"]
    assert "slow" not in found["table"]
    assert told["cause"] == "The benchmark fails over g1 and g2, although both nodes run with others."
    # One value says something of the path.
    (told,) = _isolation.report(of_pairs(g1_g2=[None, 0.1, None]), False)["problems"]
    assert told["id"] == "path-slow"


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ([1], "1 node alone"),
        ([1, 1], "2 nodes alone"),
        ([2], "1 pair"),
        ([2, 3, 2], "1 group of 3 nodes, 2 pairs"),
        ([4, 4, 3], "2 groups of 4 nodes, 1 group of 3 nodes"),
    ],
)
def test_the_groups_of_a_round_in_words(sizes, words):
    assert _isolation._sizes([["g"] * size for size in sizes]) == words


def test_marks_go_to_nodes_with_a_bad_pod_and_from_those_whose_pods_are_good():
    verdicts = {"a": "bad", "b": "good", "c": "good", "d": "suspect", "e": "good", "f": "bad"}
    document = {"nodes": [{"node": name, "verdict": verdict} for name, verdict in verdicts.items()]}
    places = {"a": "n1", "b": "n1", "c": "n2", "d": "n3", "e": None, "f": None, "other": "n4"}
    pods = [
        {"metadata": {"name": name, "uid": name}, "spec": {"nodeName": node} if node else {}}
        for name, node in places.items()
    ]

    def node(name, labels=None, taints=None):
        return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}}

    nodes = [
        node("n1", {"k": "bad"}, [{"key": "k", "value": "bad"}]),
        node("n2", {"k": "bad", "others": "x"}, [{"key": "k", "value": "bad"}, {"key": "others", "value": "x"}]),
        node("n3", {"k": "bad"}),
        node("n4", {"k": "bad"}),
    ]
    shared = [{"key": "k", "value": value, "effect": effect} for value, effect in (("bad", "A"), ("mine", "B"))]

    def marks(kind, key="k", verdicts=("bad",), uids=()):
        settings = {"kind": kind, "key": key, "verdicts": list(verdicts)}
        return _isolation.marks(document, pods, nodes, settings, dict(uids))

    assert marks("label") == marks("taint") == {"value": "bad", "present": ["n1"], "absent": ["n2"]}
    # A key that others use is not removed.
    for kind in ("label", "taint"):
        assert marks(kind, key="others") == {"value": "bad", "present": ["n1"], "absent": []}
    nodes[1] = node("n2", None, shared)
    assert marks("taint")["absent"] == []
    assert marks("taint", verdicts=["bad", "suspect"])["present"] == ["n1", "n3"]
    # A pod that was made anew meanwhile, maybe on another node, gives its node no mark and takes none away.
    assert marks("label", uids={"a": "earlier", "b": "b", "c": ""}) == {"value": "bad", "present": [], "absent": []}
    assert marks("label", uids={"a": "a", "b": "earlier"})["present"] == ["n1"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"screens": "some"}, "isolate_screens: 'some' is not allowed; allowed: 1 or more, or all"),
        ({"limit": "-1"}, "isolate_limit: -1.0 is not allowed; allowed: a number of GB/s above 0"),
        ({"domains": {"g1": "rack1"}}, "isolate_domains: {'g1': 'rack1'} is not allowed"),
        ({"tolerance_percent": "many"}, "isolate_tolerance_percent: 'many' is not allowed; allowed: a number"),
        ({"min_bytes": "x"}, "isolate_min_bytes: 'x' is not allowed"),
        ({"min_bytes": "0", "max_bytes": "1G"}, "isolate_min_bytes: '0' is not allowed; allowed: 1 or more"),
        ({"iterations": "0"}, "isolate_iterations: '0' is not allowed; allowed: 1 or more"),
        ({"env": {"A B": "secret"}}, "isolate_env: {'A B': (not shown)} is not allowed; allowed: names of"),
        ({"mca": {"btl tcp": "x"}}, "isolate_mca: {'btl tcp': 'x'} is not allowed; allowed: names of MCA parameters"),
    ],
)
def test_settings_are_called_as_the_role_has_them(settings, message):
    with pytest.raises(GpufabricError) as caught:
        _isolation.check(steps(2)["info"], {**SETTINGS, **settings})
    assert str(caught.value).startswith(message)
    if "domains" not in settings:
        with pytest.raises(GpufabricError) as caught:
            _isolation.check_settings({**SETTINGS, "mark": "none", "mark_key": "a", **settings})
        assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("fault", "before", "now"),
    [
        ("none", 0, 0),
        ("half of one of 8 NICs", 0, 0),
        ("one of 8 NICs", 0, 20),
        ("two of 8 NICs", 12, 20),
        ("one of 16 GPUs at half of its speed", 20, 20),
    ],
)
def test_what_the_defaults_see_of_published_curves(fault, before, now):
    """The table of docs/isolation.md: in how many of 20 searches over 16 hosts, at a noise of 1 %, the host is named alone."""
    searches = (EARLIER_ISOLATE, _isolation._DEFAULTS[True])
    assert [found_by_isolate(one, *FAULTS[fault], 20) for one in searches] == [before, now]
    page = (SCHEMA.parents[1] / "isolation.md").read_text(encoding="utf-8")
    assert f"| {fault} | {before} | {now} |" in page


@pytest.mark.parametrize(
    ("settings", "is_noted"),
    [
        ({}, False),
        ({"collective": "all_reduce"}, True),
        ({"collective": "all_reduce", "env": {"NCCL_ALGO": "Ring"}}, False),
        ({"collective": "all_reduce", "mode": "nodes"}, False),
        ({"collective": "all_reduce", "backend": "cpu"}, False),
    ],
)
def test_what_two_nodes_hide_is_said_with_their_numbers(settings, is_noted):
    search = begun_on_gpus({"collective": None, **settings})
    assert ("a third of it can be lost" in search["said"]) == is_noted
    pair = {**search["document"], "pairs": [{"a": "g1", "b": "g2", "busbw": 440.0}]}
    assert ("a third of it can be lost" in _isolation.report(pair, True)["table"]) == is_noted
    assert "a third of it can be lost" not in _isolation.report({**pair, "pairs": []}, True)["table"]


@pytest.mark.parametrize(
    ("settings", "mode"),
    [
        ({}, "adaptive"),
        ({"collective": "all_reduce"}, "pairs"),
        ({"collective": "all_reduce", "limit": 300}, "adaptive"),
        ({"collective": "all_reduce", "env": {"NCCL_ALGO": "Ring"}}, "adaptive"),
        ({"collective": "all_reduce", "backend": "cpu"}, "adaptive"),
    ],
)
def test_few_nodes_run_in_pairs_where_good_pairs_are_faster_than_groups(settings, mode):
    document = begun_on_gpus({"collective": None, **settings})["document"]
    assert document["state"]["mode"] == mode and "pairs_are_faster" not in document["settings"]


@pytest.mark.parametrize(
    ("gbps", "memory", "size", "words"),
    [
        (3200.0, 80 << 30, "1G", "all_gather of 1G."),
        (
            4.0,
            80 << 30,
            "512M",
            "all_gather of 512M (more would take over 150 s, half of the time limit, if hosts send half of 4 Gb/s).",
        ),
        (3200.0, 4 << 30, "512M", "all_gather of 512M (a GPU has 4 GiB, and a test needs 3 buffers)."),
    ],
)
def test_the_size_is_smaller_if_memory_or_time_are(gbps, memory, size, words):
    search = begun_on_gpus(
        {"collective": None, "min_bytes": None, "max_bytes": None, "iterations": 20, "timeout": 300}, gbps, memory
    )
    assert search["said"].endswith(words)
    told = search["document"]["settings"]
    assert (told["min_bytes"], told["max_bytes"]) == (size, size) and "sizes_note" not in told
    # A size that is given is not changed.
    search = begun_on_gpus({"collective": None, "min_bytes": None, "max_bytes": "4G"}, gbps, memory)
    assert search["said"].endswith("all_gather of 1G to 4G.")
    # The usual one is none if it is above the largest.
    search = begun_on_gpus({"collective": None, "min_bytes": None, "max_bytes": "1K"}, gbps, memory)
    assert search["said"].endswith("all_gather of 1K.")


def test_a_group_that_is_slow_though_no_part_of_it_is_counts():
    search = begun(4, settings={"inside": "none", "limit": 0.8, "screens": "1", "mode": "adaptive"})
    state = {**search["document"]["state"], "stage": 1}
    tests = [(["g1", "g2", "g3", "g4"], 0.5)] * 2 + [
        (list(pair), 1.0) for pair in itertools.combinations(state["nodes"], 2)
    ]
    told = {"round": 1, "screen": True, "reason": None, "unreachable": []}
    state["tests"] = [{**told, "nodes": nodes, "value": value} for nodes, value in tests]
    report = _isolation.report({**search["document"], **verdict(state), "state": state}, True)
    assert report["table"].splitlines()[0].endswith(": 4 nodes good, 1 group slow")
    assert [(entry["id"], entry["severity"]) for entry in report["problems"]] == [("group-slow", "error")]
    assert report["problems"][0]["cause"].startswith("g1, g2, g3, g4 are slow together")
