# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import itertools
import json
import math
import random

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.isolation_search import (
    new_state,
    observe,
    pair_groups,
    plan_round,
    run,
    screen_groups,
    verdict,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, OptionError


def names(number):
    return [f"g{index}" for index in range(1, number + 1)]


def cluster(inside=(), between=(), links=(), noise=0.0, by_chance=0.0, seed=1):
    """What a benchmark over a group would show, in GB/s: 100, or 50 with a fault."""
    luck = random.Random(seed)
    links = [frozenset(link) for link in links]

    def measure(group):
        members = set(group)
        slow = members & set(inside) or (len(group) > 1 and members & set(between))
        slow = slow or any(link <= members for link in links) or luck.random() < by_chance
        return (50.0 if slow else 100.0) * luck.gauss(1.0, noise)

    return measure


def found(state):
    """The nodes that are not good, as (verdict, where), and the slow pairs."""
    answer = verdict(state)
    assert answer["complete"]
    nodes = {e["node"]: (e["verdict"], e["where"]) for e in answer["nodes"] if e["verdict"] != "good"}
    return nodes, [tuple(link["nodes"]) for link in answer["links"]]


@pytest.mark.parametrize("mode", ["adaptive", "pairs"])
@pytest.mark.parametrize("number", range(4, 10))
def test_any_one_or_two_bad_of_few_nodes_are_found(mode, number):
    nodes = names(number)
    for bad in [(), *((node,) for node in nodes), *itertools.combinations(nodes, 2)]:
        state = run(new_state(nodes, mode=mode, inside="bad", limit=80, inside_limit=80), cluster(between=bad))
        assert found(state) == (dict.fromkeys(bad, ("bad", "between")), [])


@pytest.mark.parametrize("number", range(3, 10))
def test_any_one_bad_of_few_nodes_is_found_without_a_limit(number):
    nodes = names(number)
    for bad in nodes:
        assert found(run(new_state(nodes), cluster(between=[bad]))) == ({bad: ("bad", "between")}, [])
        assert found(run(new_state(nodes), cluster(inside=[bad]))) == ({bad: ("bad", "inside")}, [])


@pytest.mark.parametrize(("number", "faults"), [(6, 2), (7, 2), (11, 2), (11, 3), (14, 3), (15, 3), (16, 3)])
def test_fewer_bad_nodes_than_there_are_groups_are_found_without_a_limit(number, faults):
    nodes = names(number)
    for index, bad in enumerate(itertools.combinations(nodes, faults)):
        expected = dict.fromkeys(bad, ("bad", "between"))
        assert found(run(new_state(nodes), cluster(between=bad))) == (expected, [])
        if index % 9 == 0:
            assert found(run(new_state(nodes, screens=None), cluster(between=bad))) == (expected, [])


@pytest.mark.parametrize("number", range(4, 40))
def test_two_screens_have_groups_of_about_the_same_size_that_cross(number):
    nodes = names(number)
    first, second = (screen_groups(nodes, screen, 2) for screen in range(2))
    for groups in (first, second):
        assert sorted(itertools.chain(*groups)) == sorted(nodes)
        assert max(map(len, groups)) - min(map(len, groups)) <= 1
        assert len(groups) == math.ceil(math.sqrt(number))
    assert all(len(set(one) & set(other)) < 2 for one in first for other in second)


@pytest.mark.parametrize(("screens", "every"), [(1, False), (2, False), (3, True), (None, True)])
def test_of_four_nodes_three_screens_have_every_pair(screens, every):
    assert new_state(names(4), screens=screens)["every_pair"] is every


@pytest.mark.parametrize("number", [4, 5])
def test_what_is_slow_among_the_three_that_nodes_slow_alone_leave_is_found_without_a_limit(number):
    nodes = names(number)
    *alone, bad = nodes[2:]
    for link in itertools.combinations([*nodes[:2], bad], 2):
        slow_alone = dict.fromkeys(alone, ("bad", "inside"))
        between = run(new_state(nodes), cluster(inside=alone, between=[bad]))
        assert found(between) == ({**slow_alone, bad: ("bad", "between")}, [])
        assert found(run(new_state(nodes), cluster(inside=alone, links=[link]))) == (slow_alone, [link])


@pytest.mark.parametrize("mode", ["adaptive", "pairs"])
@pytest.mark.parametrize("number", range(4, 10))
def test_any_slow_path_between_two_good_nodes_is_found(mode, number):
    nodes = names(number)
    for link in itertools.combinations(nodes, 2):
        assert found(run(new_state(nodes, mode=mode, screens=None, limit=80), cluster(links=[link]))) == ({}, [link])


def test_two_bad_of_three_cannot_be_told_apart():
    nodes, links = found(run(new_state(names(3), inside="none", limit=80), cluster(between=["g1", "g2"])))
    assert nodes == dict.fromkeys(names(3), ("suspect", None)) and links == []


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 10))])
@pytest.mark.parametrize("number", [16, 61, 232])
def test_faults_are_found_in_noise(number, seed):
    luck = random.Random(seed)
    first, second, third, *ends = luck.sample(names(number), 5)
    measure = cluster([first], [second, third], [ends], noise=0.03, by_chance=0.01, seed=seed)
    nodes, links = found(run(new_state(names(number), screens=None, limit=80), measure))
    assert nodes == {first: ("bad", "inside"), second: ("bad", "between"), third: ("bad", "between")}
    assert [set(link) for link in links] == [set(ends)]


def test_few_tests_are_needed_where_few_nodes_are_bad():
    nodes = names(1024)
    state = run(new_state(nodes, inside="bad", screens=1), cluster(between=["g7", "g500", "g1000"]))
    assert found(state)[0].keys() == {"g7", "g500", "g1000"}
    answer = verdict(state)
    assert (answer["tests"] < 90, answer["rounds"] < 8, answer["limit"]) == (True, True, "all:!g7:!g500:!g1000")


@pytest.mark.parametrize("number", [2, 3, 8, 9, 16])
def test_rounds_are_disjoint_and_cover_every_pair_once(number):
    nodes = names(number)
    pairs = [pair_groups(nodes, index) for index in range(number - 1 + number % 2)]
    # 5 and less squared is 25: screens 0 to 5 have all.
    screens = [screen_groups(nodes, index, 6) for index in range(6)]
    for rounds in (pairs, screens):
        for groups in rounds:
            members = [node for group in groups for node in group]
            assert len(members) == len(set(members))
    met = [frozenset(pair) for groups in pairs for pair in groups]
    assert sorted(map(sorted, met)) == sorted(map(sorted, itertools.combinations(nodes, 2)))
    together = {frozenset(pair) for groups in screens for group in groups for pair in itertools.combinations(group, 2)}
    assert together == set(met)


def test_every_round_is_disjoint_and_state_is_json():
    state = new_state(names(40), screens=None)
    measure = cluster(["g3"], ["g20", "g21"], [("g1", "g39")], noise=0.03, by_chance=0.05)
    groups = plan_round(state)
    while groups:
        members = [node for group in groups for node in group]
        assert len(members) == len(set(members))
        state = json.loads(json.dumps(observe(state, [{"nodes": g, "value": measure(g)} for g in groups])))
        groups = plan_round(state)
    assert set(found(state)[0]) == {"g3", "g20", "g21"}


def test_a_node_that_fails_alone_is_bad_and_left_out():
    state = new_state(names(5))
    groups = plan_round(state)
    while groups:
        results = [
            {"nodes": g, "value": 100.0} if "g2" not in g else {"nodes": g, "reason": "no memory"} for g in groups
        ]
        state = observe(state, results)
        groups = plan_round(state)
    assert found(state) == ({"g2": ("bad", "inside")}, [])
    assert not any("g2" in test["nodes"] for test in state["tests"] if len(test["nodes"]) > 1)
    assert verdict(state)["nodes"][1]["evidence"] == ["alone: failed, failed, failed (limit 85 GB/s); no memory"]


@pytest.mark.parametrize("mode", ["adaptive", "pairs"])
@pytest.mark.parametrize("number", range(7, 20))
def test_no_fault_hides_another(number, mode):
    luck = random.Random(number)
    for screens, bad_nodes in itertools.product((1, 2, None), (0, 1, 2)):
        from_the_start, later, *bad = luck.sample(names(number), 2 + bad_nodes)
        state = new_state(
            names(number), mode=mode, screens=screens, inside="none", limit=80, unreachable={from_the_start: "no route"}
        )
        groups = plan_round(state)
        while groups:
            lost = [{"nodes": g, "unreachable": [later], "reason": "refused"} for g in groups if later in g]
            others = [g for g in groups if later not in g]
            slow = cluster(between=bad)
            state = observe(state, [*lost, *({"nodes": group, "value": slow(group)} for group in others)])
            groups = plan_round(state)
            assert state["round"] < 5 * number
        unreachable = dict.fromkeys((from_the_start, later), ("unreachable", None))
        assert found(state) == ({**unreachable, **dict.fromkeys(bad, ("bad", None))}, []), (number, bad, later)
        told = {entry["node"]: entry["evidence"] for entry in verdict(state)["nodes"]}
        assert (told[from_the_start], told[later]) == (["no route"], ["refused"])
        tested = [node for test in state["tests"] for node in test["nodes"]]
        assert (tested.count(from_the_start), tested.count(later)) == (0, 1)


def test_what_is_slow_once_by_chance_is_good():
    slow_once = iter([["g4"], ["g4", "g5", "g6"]])
    pending = [next(slow_once), next(slow_once)]

    def measure(group):
        if group in pending:
            pending.remove(group)
            return 40.0
        return 100.0

    state = run(new_state(names(9)), measure)
    assert found(state) == ({}, []) and pending == []


@pytest.mark.parametrize("first", ["rack0", 0])
def test_a_bad_path_between_two_racks_is_told_as_one(first):
    nodes = names(16)
    racks = {node: f"rack{index % 4}" if index % 4 else first for index, node in enumerate(nodes)}
    links = [pair for pair in itertools.combinations(nodes, 2) if {racks[node] for node in pair} == {"rack1", "rack2"}]
    answer = verdict(run(new_state(nodes, screens=None, domains=racks), cluster(links=links)))
    (path,) = answer["paths"]
    assert path["between"] == ["rack1", "rack2"] and path["links"] > 4
    assert {frozenset(link["nodes"]) for link in answer["links"]} <= {frozenset(link) for link in links}
    # Where a node has several slow paths, it may as well be the node.
    suspects = {entry["node"] for entry in answer["nodes"] if entry["verdict"] == "suspect"}
    assert suspects and {racks[node] for node in suspects} <= {"rack1", "rack2"}


@pytest.mark.parametrize(("number", "racks"), [(8, 2), (12, 2), (12, 3), (16, 2), (16, 4), (32, 4)])
def test_a_bad_path_between_two_racks_is_no_fault_of_a_node(number, racks):
    nodes = names(number)
    domains = {node: f"rack{index * racks // number}" for index, node in enumerate(nodes)}
    links = [pair for pair in itertools.combinations(nodes, 2) if {domains[n] for n in pair} == {"rack0", "rack1"}]
    answer = verdict(run(new_state(nodes, domains=domains, limit=80), cluster(links=links)))
    assert [entry["node"] for entry in answer["nodes"] if entry["verdict"] == "bad"] == []
    assert [path["between"] for path in answer["paths"]] == [["rack0", "rack1"]]


@pytest.mark.parametrize("racks", [2, 3, 9, {"g9": "alone"}])
def test_a_bad_node_is_told_from_the_path_to_another_rack(racks):
    nodes = names(9)
    given = racks if isinstance(racks, dict) else {node: index * racks // 9 for index, node in enumerate(nodes)}
    domains = {**dict.fromkeys(nodes, "rack"), **given}
    for bad in nodes:
        state = run(new_state(nodes, domains=domains), cluster(between=[bad]))
        assert found(state) == ({bad: ("bad", "between")}, [])


@pytest.mark.parametrize("number", [2, 4])
@pytest.mark.parametrize("inside", [900.0, 9.0])
def test_what_nodes_reach_alone_is_no_measure_of_groups(number, inside):
    """NVLink is many times as fast as the network between hosts."""
    state = run(new_state(names(number), screens=1), lambda group: inside if len(group) == 1 else 100.0)
    assert found(state) == ({}, [])


def test_a_path_over_which_every_test_fails_is_slow_and_not_noisy():
    state = new_state(names(4), mode="pairs", inside="none")
    groups = plan_round(state)
    while groups:
        state = observe(state, [{"nodes": g, "value": None if g == ["g1", "g2"] else 100.0} for g in groups])
        groups = plan_round(state)
    assert found(state) == ({}, [("g1", "g2")]) and verdict(state)["noisy"] == []


def test_a_group_of_good_nodes_that_was_slow_once_is_tried_again():
    def state(*slow):
        fast = [(list(pair), 100.0) for pair in itertools.combinations(names(3), 2)]
        tests = [
            {"round": 1, "screen": True, "nodes": nodes, "value": value, "reason": None, "unreachable": []}
            for nodes, value in [*fast, *((names(3), value) for value in slow)]
        ]
        fresh = new_state(names(4), inside="none", limit=80, unreachable={"g4": "no route"})
        return {**fresh, "mode": "adaptive", "tests": tests, "stage": len(fresh["stages"])}

    once, again = state(50.0), state(50.0, 50.0)
    assert verdict(once)["together"] == [] and plan_round(once) == [names(3)]
    assert verdict(again)["together"] == [names(3)] and plan_round(again) == []


@pytest.mark.parametrize("bad", [(), ("g11",)])
def test_a_test_that_failed_and_ran_when_it_was_repeated_is_told(bad):
    tries = {}

    def measure(group):
        tries[frozenset(group)] = number = tries.get(frozenset(group), 0) + 1
        # Of a node that prints wrong values now and then.
        fails = number == 1 and (("g6" in group and len(group) == 4 and "g5" in group) or group == ["g2"])
        return None if fails else cluster(between=bad)(group)

    state = run(new_state(names(16)), measure)
    assert found(state) == (dict.fromkeys(bad, ("bad", "between")), [])
    answer = verdict(state)
    assert [one["nodes"] for one in answer["unsteady"]] == [["g2"], ["g5", "g6", "g7", "g8"]]
    assert answer["unsteady"][1]["evidence"] == ["g5, g6, g7, g8: failed, 100 GB/s, 100 GB/s (limit 85 GB/s)"]
    # What a bad node or path explains is told of that.
    always = run(new_state(names(16)), lambda group: None if "g6" in group and len(group) > 1 else 100.0)
    assert verdict(always)["unsteady"] == []
    # Nor is it told before it has run.
    state = observe(
        new_state(names(4), inside="none"),
        [{"nodes": names(2), "value": None}, {"nodes": names(4)[2:], "value": 100.0}],
    )
    assert verdict(state)["unsteady"] == []


def test_groups_that_have_a_slow_path_are_no_charge_of_another_node():
    links, groups = [["g1", "g2"], ["g3", "g4"]], [["g1", "g2", "g5"], ["g3", "g4", "g5"]]
    measured = [
        *((nodes, 100.0) for nodes in (["g1", "g3"], ["g2", "g4"])),
        *((nodes, 50.0) for nodes in [*links, *groups] * 2),
    ]
    tests = [
        {"round": 1, "screen": True, "nodes": nodes, "value": value, "reason": None, "unreachable": []}
        for nodes, value in measured
    ]
    answer = verdict({**new_state(names(5), inside="none", limit=80), "tests": tests})
    assert {entry["node"]: entry["verdict"] for entry in answer["nodes"]}["g5"] == "suspect"
    assert [link["nodes"] for link in answer["links"]] == links


def test_evidence_names_the_tests():
    nodes = verdict(run(new_state(names(9)), cluster(between=["g5"])))["nodes"]
    bad = nodes[4]
    assert bad["evidence"][0] == "alone: 100 GB/s (limit 85 GB/s)"
    assert bad["evidence"][1] == "with good nodes, g4, g5, g6: 50 GB/s, 50 GB/s (limit 85 GB/s)"
    assert nodes[0]["evidence"][1] == "fast, g1, g2, g3: 100 GB/s (limit 85 GB/s)"


@pytest.mark.parametrize("screens", [1, 2, None])
@pytest.mark.parametrize("bad", [0, 1])
@pytest.mark.parametrize("number", [5, 7, 10, 11, 14, 17, 18, 26])
def test_nodes_of_larger_groups_are_not_slow_because_good_pairs_are_faster(number, bad, screens):
    """By trees, all_reduce over two hosts needs less of the network: beside a pair, a good group of three looks slow."""
    nodes = names(number)
    for faulty in nodes if bad else [None]:
        slower = cluster(between=[faulty])
        state = new_state(nodes, inside="none", screens=screens, tolerance_percent=10, pairs_are_faster=True)
        state = run(state, lambda group, slower=slower: slower(group) * (1.5 if len(group) == 2 else 1.0))
        assert found(state)[0] == ({faulty: ("bad", None)} if faulty else {})


@pytest.mark.parametrize("in_pairs", [0.75, 1.0])
@pytest.mark.parametrize(("number", "bad"), [(16, 2), (16, 3), (20, 2), (25, 3), (32, 4), (64, 6)])
def test_bad_nodes_are_not_good_because_a_pair_with_one_is_as_fast_as_larger_groups(number, bad, in_pairs):
    """Two hosts that need less of the network hide a part of the fault, or all of it."""
    nodes = names(number)
    for seed in range(3):
        faulty = random.Random(seed).sample(nodes, bad)

        def measure(group, faulty=frozenset(faulty)):
            if len(group) == 2:
                return 128.0 if faulty.isdisjoint(group) else 128.0 * in_pairs
            return 100.0 if faulty.isdisjoint(group) else 70.0

        state = run(new_state(nodes, inside="none", tolerance_percent=10, pairs_are_faster=True), measure)
        assert found(state) == (dict.fromkeys(faulty, ("bad", None)), [])
        assert verdict(state)["together"] == [] and state["round"] < 12


def test_a_slow_path_is_found_where_pairs_are_compared_with_pairs_as_these_are_faster():
    nodes = names(15)
    state = new_state(nodes, inside="none", pairs_are_faster=True)
    groups = plan_round(state)
    # With 14 nodes, pairs follow.
    lost = {"nodes": groups[-1], "value": None, "reason": "no route to host", "unreachable": groups[-1][-1:]}
    state = observe(state, [*({"nodes": group, "value": 100.0} for group in groups[:-1]), lost])

    def measure(group):
        return 100.0 if len(group) > 2 else 90.0 if set(group) == set(nodes[:2]) else 150.0

    unreachable, links = found(run(state, measure))
    assert unreachable.keys() == {groups[-1][-1]}
    assert [set(link) for link in links] == [set(nodes[:2])]


def slow_by_a_nic(bad):
    """As all_reduce by trees: two nodes are faster than more, and faster than good ones even with a bad one."""
    return lambda group: (135.0 if len(group) == 2 else 100.0) * (0.82 if bad in group else 1.0)


@pytest.mark.parametrize("screens", [1, 2, None])
@pytest.mark.parametrize("number", [18, 26])
def test_a_pair_that_is_left_of_a_group_hides_no_bad_node_where_pairs_are_faster(number, screens):
    nodes = names(number)
    searches = 0
    for bad, other, *gone in screen_groups(nodes, 0, screens or 3):
        away = dict.fromkeys(gone, "no route to host")
        state = new_state(nodes, "adaptive", "none", screens, None, None, 10, None, away, True)
        # Fewer nodes run in pairs.
        if state["mode"] == "adaptive":
            searches += 1
            unlike, links = found(run(state, slow_by_a_nic(bad)))
            assert unlike.keys() == {bad, *away} and other not in unlike and links == []
    assert searches >= 5


@pytest.mark.parametrize("number", [6, 7, 8, 12, 16])
def test_a_limit_finds_a_bad_node_that_pairs_hide(number):
    nodes = names(number)
    for bad in nodes:
        state = run(new_state(nodes, inside="none", limit=92, pairs_are_faster=True), slow_by_a_nic(bad))
        assert found(state) == ({bad: ("bad", None)}, []) and verdict(state)["together"] == []


def test_where_nothing_is_measured_no_group_is_run_again():
    state = run(new_state(names(16), inside="none"), lambda group: 0.0)
    assert found(state) == ({}, [])
    assert len(state["tests"]) == 8


@pytest.mark.parametrize("number", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("inside", ["all", "bad", "none"])
def test_nodes_alone_are_one_round_however_few_they_are(number, inside):
    state = new_state(names(number), mode="nodes", inside=inside, inside_limit=80)
    assert plan_round(state) == [[node] for node in names(number)]
    state = run(state, cluster())
    assert found(state) == ({}, []) and state["round"] == 1 and not state["every_pair"]


@pytest.mark.parametrize("mode", ["adaptive", "pairs", "nodes"])
@pytest.mark.parametrize("inside", ["all", "bad", "none"])
def test_a_node_that_is_the_only_one_is_told_by_how_fast_it_is_alone(mode, inside):
    state = new_state(["g1"], mode=mode, inside=inside, inside_limit=80)
    assert found(run(state, cluster())) == ({}, [])
    assert found(run(state, cluster(inside=["g1"]))) == ({"g1": ("bad", "inside")}, [])
    left = new_state(["g1", "g2"], mode=mode, inside=inside, inside_limit=80, unreachable={"g2": "is gone"})
    assert found(run(left, cluster())) == ({"g2": ("unreachable", None)}, [])
    assert found(run(left, cluster(inside=["g1"])))[0]["g1"] == ("bad", "inside")


@pytest.mark.parametrize("number", range(2, 10))
def test_pairs_that_are_all_fast_are_run_once_each(number):
    state = run(new_state(names(number), mode="pairs", inside="none"), cluster())
    assert [test["nodes"] for test in state["tests"] if len(test["nodes"]) != 2] == []
    assert len(state["tests"]) == number * (number - 1) // 2 and state["every_pair"]
    assert state["round"] == number - 1 + number % 2


def test_answer_before_the_end_is_suspicion():
    answer = verdict(new_state(names(3)))
    assert not answer["complete"] and answer["nodes"][0] == {
        "node": "g1",
        "verdict": "suspect",
        "where": None,
        "evidence": ["not tested"],
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": ["a", "a"]}, "nodes: "),
        ({"mode": "all"}, "mode: 'all' is not allowed; allowed: one of adaptive, pairs, nodes"),
        ({"inside": "no"}, "inside: "),
        ({"screens": 0}, "screens: 0 "),
        ({"limit": -1}, "limit: -1 "),
        ({"tolerance_percent": 100}, "tolerance_percent: 100 "),
        ({"tolerance_percent": 0.15}, "tolerance_percent: 0.15 "),
        ({"domains": {"a": "r"}}, "domains: "),
        ({"domains": {"a": "r", "b": ["s"]}}, "domains: "),
        ({"domains": {"a": "r", "b": None}}, "domains: "),
        ({"domains": {"a": "r", "b": "s", "c": []}}, "domains: "),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(OptionError) as caught:
        new_state(**{"nodes": ["a", "b"], **options})
    assert str(caught.value).startswith(message)


def test_foreign_results_are_refused():
    with pytest.raises(GpufabricError, match="no such group is in the round: a, b"):
        observe(new_state(["a", "b"]), [{"nodes": ["a", "b"], "value": 1.0}])


@pytest.mark.parametrize("value", [-1.0, True, "9", [9.0]])
def test_what_is_no_bandwidth_is_refused(value):
    state = new_state(["a", "b"])
    with pytest.raises(OptionError, match="value: .* is not allowed; allowed: a bandwidth in GB/s"):
        observe(state, [{"nodes": group, "value": value} for group in plan_round(state)])


def test_pairs_are_all_run_before_any_is_doubted():
    state = run(new_state(names(6), mode="pairs", inside="none"), cluster(between=["g2"]))
    rounds = [[test["screen"] for test in state["tests"] if test["round"] == number] for number in range(1, 6)]
    assert rounds == [[True] * 3] * 5
    pairs = verdict(state)["pairs"]
    assert {(pair["a"], pair["b"], pair["busbw"]) for pair in pairs if "g1" in pair.values()} == {
        *(("g1", node, 50.0 if node == "g2" else 100.0) for node in names(6)[1:]),
    }


def test_slow_with_one_other_only_may_be_the_path():
    def state(*groups):
        tests = [
            {"round": 1, "screen": True, "nodes": g, "value": v, "reason": None, "unreachable": []} for g, v in groups
        ]
        return {**new_state(names(4), mode="pairs", inside="none", limit=80), "tests": tests, "stage": 3}

    fast = [(["g2", "g3"], 100.0), (["g3", "g4"], 100.0)]
    slow = [(["g1", "g2"], 50.0)] * 3
    told = [
        {entry["node"]: entry["verdict"] for entry in verdict(state(*fast, *slow, *more))["nodes"]}["g1"]
        for more in ([], [(["g1", "g3"], 50.0)], [(["g1", "g3"], 100.0)])
    ]
    assert told == ["suspect", "bad", "good"]
