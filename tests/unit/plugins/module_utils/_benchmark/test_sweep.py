# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import itertools
import random
import re

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.sweep import (
    REDUCING,
    estimate,
    points_table,
    sweep_points,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError

LEVELS = {
    "collectives": ["all_reduce", "all_gather", "reduce"],
    "datatypes": ["float", "half"],
    "operations": ["sum", "max", "avg"],
    "sizes": [{"max": "64K"}, {"min": "8M", "max": "64M", "factor": 4}],
    "ranks_per_node": [None, 8],
}
VARIABLES = {
    "NCCL_ALGO": [None, "Ring", "Tree"],
    "NCCL_PROTO": [None, "LL", "Simple"],
    "NCCL_NTHREADS": [256, 512],
}
SMALL = {
    "collectives": ["all_reduce", "all_gather"],
    "sizes": [{"max": "64K"}, {"min": "128K", "max": "1M"}],
    "env": {"NCCL_ALGO": [None, "Ring", "Tree"], "NCCL_PROTO": [None, "LL"]},
}


def random_sweep(rng):
    sweep = {name: rng.sample(values, rng.randint(1, len(values))) for name, values in LEVELS.items()}
    names = rng.sample(sorted(VARIABLES), rng.randint(0, len(VARIABLES)))
    sweep["env"] = {name: rng.sample(VARIABLES[name], rng.randint(1, len(VARIABLES[name]))) for name in names}
    return {**sweep, "repeats": rng.randint(1, 3), "default": rng.random() < 0.5}


def shuffled(rng, sweep):
    """The same sweep, its lists and variables in another order."""

    def shuffle(value):
        return rng.sample(value, len(value)) if isinstance(value, list) else value

    env = {name: shuffle(values) for name, values in rng.sample(sorted(sweep["env"].items()), len(sweep["env"]))}
    return {**{name: shuffle(value) for name, value in sweep.items()}, "env": env}


def levels_of(point, variables):
    fixed = {"collective": point["collective"], "ranks": point["ranks_per_node"], **point["options"]}
    return set(fixed.items()) | {(name, point["env"].get(name)) for name in variables}


@pytest.mark.parametrize("seed", range(20))
def test_every_combination_comes_once(seed):
    sweep = random_sweep(random.Random(seed))
    # Counted here in another way: by what a person would multiply.
    jobs = (
        sum(len(sweep["operations"]) if name in REDUCING else 1 for name in sweep["collectives"])
        * len(sweep["datatypes"])
        * len(sweep["sizes"])
        * len(sweep["ranks_per_node"])
    )
    envs = 1
    for values in sweep["env"].values():
        envs *= len(values)
    has_default = all(None in values for values in sweep["env"].values())
    points = sweep_points(sweep)
    assert len(points) == jobs * (envs + (sweep["default"] and not has_default)) * sweep["repeats"]
    assert len({point["id"] for point in points}) == len(points)
    assert {point["repeat"] for point in points} == set(range(1, sweep["repeats"] + 1))
    assert len({point["setting"] for point in points}) * sweep["repeats"] == len(points)
    wanted = {
        (name, datatype, operation if name in REDUCING else None, ranks)
        for name, datatype, operation, ranks in itertools.product(
            sweep["collectives"], sweep["datatypes"], sweep["operations"], sweep["ranks_per_node"]
        )
    }
    assert wanted == {
        (p["collective"], p["options"]["datatype"], p["options"]["operation"], p["ranks_per_node"]) for p in points
    }


@pytest.fixture(scope="module")
def added():
    """The points of a sweep that has all of every other's, by id."""
    env = {**{name: [None, *values] for name, values in VARIABLES.items()}, "NCCL_DEBUG": [None, "WARN"]}
    return {point["id"]: point for point in sweep_points({**LEVELS, "env": env, "repeats": 3})}


@pytest.mark.parametrize("seed", range(20))
def test_ids_stay_when_lists_are_reordered_or_added_to(seed, added):
    rng = random.Random(seed)
    sweep = random_sweep(rng)
    by_id = {point["id"]: point for point in sweep_points(sweep)}
    other = {point["id"]: point for point in sweep_points(shuffled(rng, sweep))}
    assert {key: {**point, "name": ""} for key, point in by_id.items()} == {
        key: {**point, "name": ""} for key, point in other.items()
    }
    assert set(by_id) < set(added)
    for key, point in by_id.items():
        same = [name for name in point if name != "name"]
        assert [point[name] for name in same] == [added[key][name] for name in same]


def test_ids_are_these():
    # Those who keep results rely on them.
    sweep = {"sizes": {"max": "64K"}, "env": {"NCCL_ALGO": "Ring"}, "repeats": 1}
    assert [point["id"] for point in sweep_points(sweep)] == [
        "all_reduce-8-64K-24efc301ca88-1",
        "all_reduce-8-64K-ab2602c1808d-1",
    ]


def test_ids_are_fit_for_file_names_and_the_same_for_the_same_size_in_other_words():
    first = sweep_points({"sizes": {"min": 1024, "max": 65536}, "env": {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1"}})
    second = sweep_points({"sizes": [{"min": "1K", "max": "64k"}], "env": {"NCCL_IB_HCA": ["=mlx5_0:1,mlx5_1:1"]}})
    assert first == second
    assert all(re.fullmatch(r"all_reduce-1K-64K-[0-9a-f]{12}-[1-3]", point["id"]) for point in first)


@pytest.mark.parametrize("seed", range(20))
def test_a_sweep_that_is_cut_off_is_useful(seed):
    sweep = {**random_sweep(random.Random(seed)), "repeats": 3, "default": True}
    points = sweep_points(sweep)
    count = len(points) // 3
    assert [point["repeat"] for point in points] == [1] * count + [2] * count + [3] * count
    every = set().union(*(levels_of(point, sweep["env"]) for point in points))
    seen, needed = set(), 0
    while seen != every:
        seen |= levels_of(points[needed], sweep["env"])
        needed += 1
    # No more than there are levels, and the largest factor takes as many as it has.
    assert needed <= len(every)
    rest = [len(point["env"]) for point in points[needed:count]]
    assert rest == sorted(rest)


def test_the_first_points_have_every_level():
    # As few as the values of the longest list.
    first = sweep_points(SMALL)[:3]
    assert {point["collective"] for point in first} == {"all_reduce", "all_gather"}
    assert {point["options"]["max_bytes"] for point in first} == {2**16, 2**20}
    assert {point["env"].get("NCCL_ALGO") for point in first} == {None, "Ring", "Tree"}
    assert {point["env"].get("NCCL_PROTO") for point in first} == {None, "LL"}


def test_later_repeats_are_not_in_the_order_of_the_first():
    points = sweep_points(SMALL)
    orders = [[point["setting"] for point in points if point["repeat"] == repeat] for repeat in (1, 2, 3)]
    assert orders[0] != orders[1] != orders[2] != orders[0]
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(orders[2])


def test_names_say_what_differs():
    sweep = {"ranks_per_node": [None, 8], "env": {"NCCL_ALGO": [None, "Tree"]}, "repeats": 1}
    assert {point["name"] for point in sweep_points(sweep)} == {
        "all_reduce all ranks per node",
        "all_reduce all ranks per node NCCL_ALGO=Tree",
        "all_reduce 8 ranks per node",
        "all_reduce 8 ranks per node NCCL_ALGO=Tree",
    }


@pytest.mark.parametrize(
    ("conditions", "left"),
    [
        ({}, "rD rR rT gD gR gT"),
        ({"exclude": [{"NCCL_ALGO": "Tree", "collective": "all_gather"}]}, "rD rR rT gD gR"),
        ({"exclude": {"NCCL_ALGO": ["Tree", "Ring"], "collective": ["all_gather"]}}, "rD rR rT gD"),
        ({"exclude": [{"NCCL_ALGO": "Tree"}, {"collective": "all_gather"}]}, "rD rR"),
        (
            {"only": [{"NCCL_ALGO": "Tree", "collective": "all_reduce"}, {"NCCL_ALGO": [None, "Ring"]}]},
            "rD rR rT gD gR",
        ),
        ({"only": [{"collective": "all_gather"}], "exclude": [{"NCCL_ALGO": "Ring"}]}, "gD gT"),
        ({"only": {"operation": None}}, "gD gR gT"),
        # The default stays where anything is left that is compared with it.
        ({"exclude": [{"NCCL_ALGO": None}]}, "rD rR rT gD gR gT"),
        ({"exclude": [{"NCCL_ALGO": None}], "default": False}, "rR rT gR gT"),
        ({"exclude": [{"max_bytes": "64K", "collective": "all_reduce"}]}, "gD gR gT"),
    ],
)
def test_conditions(conditions, left):
    sweep = {
        "collectives": ["all_reduce", "all_gather"],
        "sizes": {"max": 65536},
        "env": {"NCCL_ALGO": [None, "Ring", "Tree"]},
        "repeats": 1,
    }
    found = {
        {"all_reduce": "r", "all_gather": "g"}[p["collective"]] + p["env"].get("NCCL_ALGO", "Default")[0]
        for p in sweep_points({**sweep, **conditions})
    }
    assert found == set(left.split())


@pytest.mark.parametrize(
    ("sweep", "option"),
    [
        ("text", ""),
        ({"collective": ["all_reduce"]}, ".collective"),
        ({"collectives": ["all_redcue"]}, ".collectives"),
        ({"collectives": []}, ".collectives"),
        ({"datatypes": ["flaot"]}, ".datatypes"),
        ({"operations": ["all"]}, ".operations"),
        ({"sizes": []}, ".sizes"),
        ({"sizes": "64K"}, ".sizes"),
        ({"sizes": {"largest": "64K"}}, ".sizes"),
        ({"sizes": {"min": "1M", "max": "64K"}}, ".sizes.min"),
        ({"sizes": {"min": 0}}, ".sizes.min"),
        ({"sizes": {"max": "64KiB"}}, ".sizes.max"),
        ({"sizes": {"factor": 1}}, ".sizes.factor"),
        ({"ranks_per_node": [0]}, ".ranks_per_node"),
        ({"ranks_per_node": [True]}, ".ranks_per_node"),
        ({"repeats": 0}, ".repeats"),
        ({"repeats": "x"}, ".repeats"),
        ({"repeats": 1_000_000_000}, ".repeats"),
        ({"default": "maybe"}, ".default"),
        ({"env": ["NCCL_ALGO"]}, ".env"),
        ({"env": {"nccl algo": ["Ring"]}}, ".env"),
        ({"env": {"NCCL_ALGO": []}}, ".env.NCCL_ALGO"),
        ({"env": {"NCCL_IB_DISABLE": [True]}}, ".env.NCCL_IB_DISABLE"),
        ({"env": {"NCCL_ALGO": [""]}}, ".env.NCCL_ALGO"),
        ({"env": {"NCCL_ALGO": ["a\nb"]}}, ".env.NCCL_ALGO"),
        ({"env": {"NCCL_ALGO": ["\ud800"]}}, ".env.NCCL_ALGO"),
        ({"env": {"NCCL_ALGO": [["a"]]}}, ".env.NCCL_ALGO"),
        ({"env": {f"X{number}": list(range(10)) for number in range(6)}}, ""),
        ({"exclude": ["Tree"]}, ".exclude[0]"),
        ({"exclude": [{}]}, ".exclude[0]"),
        ({"exclude": [{"collective": "all_reduce"}, {"NCCL_PROTO": "LL"}]}, ".exclude[1].NCCL_PROTO"),
        ({"env": {"NCCL_ALGO": ["Tree"]}, "only": {"NCCL_ALGO": "tree"}}, ".only[0].NCCL_ALGO"),
        ({"only": {"max_bytes": "1X"}}, ".only[0].max_bytes"),
        ({"exclude": {"collective": "all_reduce"}}, ".exclude"),
    ],
)
def test_refuses(sweep, option):
    with pytest.raises(OptionError) as error:
        sweep_points(sweep, "nccl_benchmark_sweep")
    assert str(error.value).startswith(f"nccl_benchmark_sweep{option}: ")


def test_nothing_is_known_of_the_time_before_a_point_is_over():
    points = sweep_points(SMALL)
    assert estimate(points, {}) == {
        "points": 72,
        "left": 72,
        "guessed": 72,
        "seconds": None,
        "uncertainty_s": None,
    }


def test_time_is_told_by_collective_and_size():
    points = sweep_points(SMALL)
    seconds = {("all_reduce", 65536): 1.0, ("all_reduce", 2**20): 10.0, ("all_gather", 65536): 3.0}
    kinds = [(point["collective"], point["options"]["max_bytes"]) for point in points]
    done = {
        point["id"]: seconds[kind] + 0.001 * (index % 2)
        for index, (point, kind) in enumerate(zip(points[:36], kinds))
        if kind in seconds
    }
    found = estimate(points, done)
    left = [kind for point, kind in zip(points, kinds) if point["id"] not in done]
    # all_gather at the larger sizes goes by all_reduce there, alone, so that nobody knows how good a guess that is.
    expected = sum(seconds.get(kind, 10.0) for kind in left)
    assert found["seconds"] == pytest.approx(expected, rel=0.01)
    assert (found["left"], found["guessed"]) == (72 - len(done), left.count(("all_gather", 2**20)))
    assert found["uncertainty_s"] is None
    assert estimate(points, {point["id"]: 1.0 for point in points}) == {
        "points": 72,
        "left": 0,
        "guessed": 0,
        "seconds": 0.0,
        "uncertainty_s": 0.0,
    }


def test_one_point_says_nothing_of_the_uncertainty():
    points = sweep_points(SMALL)
    found = estimate(points, {points[0]["id"]: 2.0})
    assert (found["seconds"], found["uncertainty_s"]) == (142.0, None)


def test_the_total_is_within_the_uncertainty_nearly_always():
    rng = random.Random(4)
    points = sweep_points(SMALL)
    within, widths = 0, []
    for _trial in range(300):
        pace = {"all_reduce": rng.uniform(1, 20), "all_gather": rng.uniform(1, 20)}
        truth = {
            p["id"]: pace[p["collective"]] * (1 + 3 * (p["options"]["max_bytes"] > 65536)) * rng.gauss(1, 0.1)
            for p in points
        }
        found = estimate(points, {point["id"]: truth[point["id"]] for point in points[:20]})
        total = sum(truth[point["id"]] for point in points[20:])
        within += abs(found["seconds"] - total) <= found["uncertainty_s"]
        widths.append(found["uncertainty_s"] / total)
    assert within >= 0.9 * 300
    assert max(widths) < 0.25


def test_table_of_points_is_cut_and_says_so():
    points = sweep_points(SMALL)
    lines = points_table(points, most=3).splitlines()
    assert [line.split(None, 1) for line in lines[:3]] == [[point["id"], point["name"]] for point in points[:3]]
    assert len({line.index(" all_") for line in lines[:3]}) == 1
    assert lines[3:] == ["and 69 more"]
    assert len(points_table(points, most=72).splitlines()) == 72
