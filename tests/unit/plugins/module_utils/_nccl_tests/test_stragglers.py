# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import json
import math
import pathlib
import random

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import parse_results
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.stragglers import (
    MOST,
    checked_stragglers,
    describe_stragglers,
    find_stragglers,
)

FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures" / "nccl_tests"


def ranks(count, each=8):
    return [{"rank": rank, "host": f"g{rank // each + 1}", "device": rank % each} for rank in range(count)]


def rows(count, late=None, part=0.7, number=12, noise=0.0, seed=1):
    """Times of processes in us over so many halves of rows, of which some are shorter."""
    luck = random.Random(seed)
    late = late or {}
    return [
        [(10 << row) * (part if rank in late else 1.0) * luck.gauss(1, noise) for rank in range(count)]
        for row in range(number)
    ]


def test_the_rank_with_the_shortest_time_is_the_one_that_is_waited_for():
    (one,) = find_stragglers(rows(16, {11}), ranks(16))
    assert one == {"rank": 11, "host": "g2", "device": 3, "share": 0.3}
    assert describe_stragglers([one]) == "the others wait for rank 11 on g2, GPU 3 (30 %)"
    assert find_stragglers(rows(16, {11}), ranks(16)[::-1]) == [one]
    # The longest time is that of one which came early.
    assert find_stragglers(rows(16, {11}, part=1.3), ranks(16)) == []


@pytest.mark.parametrize("count", [2, 3, 4, 16, 1000])
def test_noise_is_no_straggler(count):
    for seed in range(20):
        assert find_stragglers(rows(count, noise=0.05, seed=seed), ranks(count)) == []


def test_where_all_ranks_differ_none_is_a_straggler():
    assert find_stragglers([[1000.0 + 10 * rank for rank in range(16)]] * 12, ranks(16)) == []


@pytest.mark.parametrize("count", [2, 3, 4, 16, 1000])
def test_a_late_rank_stands_out_of_noise(count):
    for seed in range(5):
        found = find_stragglers(rows(count, {1}, noise=0.02, seed=seed), ranks(count))
        assert [one["rank"] for one in found] == [1] and found[0]["share"] == pytest.approx(0.3, abs=0.05)


def test_what_is_late_at_a_few_sizes_is_not_named():
    found = rows(8, {2}, number=10)[:4] + rows(8, number=10)[:6]
    assert find_stragglers(found, ranks(8)) == []
    assert find_stragglers(rows(8, {2}, part=0.96), ranks(8)) == []
    # In seven of twelve halves it may be chance.
    assert find_stragglers(rows(2, {1})[:7] + rows(2)[:5], ranks(2)) == []


def test_nobody_is_late_where_the_times_of_some_processes_are_missing():
    """Two of four would be taken for two processes with two GPUs each."""
    told = json.loads((FIXTURES / "2.19.6-per-iteration.json").read_text(encoding="utf-8"))
    halves = [row[f"{place}_per_iter"] for row in told["results"] for place in ("out_of_place", "in_place")]
    for half in halves:
        half["per_process_max_times_us"] = [[500.0], [1000.0], [1000.0], [1000.0]]
    (whole,) = parse_results([json.dumps(told)])
    assert [one["rank"] for one in whole["stragglers"]] == [0]
    for missing in ([], ["x"], [None]):
        for half in halves:
            half["per_process_max_times_us"] = [missing, [500.0], [1000.0], missing]
        (document,) = parse_results([json.dumps(told)])
        assert document["stragglers"] is None


def test_the_worst_comes_first_and_there_are_not_too_many():
    times = [[1000.0 - (10 * rank if rank >= 90 else 0) for rank in range(100)] for _row in range(5)]
    found = find_stragglers(times, ranks(100))
    assert [one["rank"] for one in found] == list(range(99, 99 - MOST, -1))
    assert describe_stragglers(found).endswith(f"and {MOST - 3} more")


def test_a_process_with_several_gpus_is_its_first_rank():
    (one,) = find_stragglers(rows(4, {2}), ranks(16))
    assert one == {"rank": 8, "host": "g2", "device": None, "share": 0.3}
    assert describe_stragglers([one]) == "the others wait for rank 8 on g2 (30 %)"


@pytest.mark.parametrize(
    ("times", "listed"),
    [
        ([], ranks(4)),
        (rows(1), ranks(1)),
        ([[1.0, 2.0], [1.0, 2.0, 3.0]], ranks(2)),
        # More processes than ranks, or a list of ranks with gaps: whose times they are is not known.
        (rows(4), ranks(2)),
        (rows(4), ranks(6)),
        (rows(2), []),
        (rows(3), [*ranks(2), {"rank": 7, "host": "g1", "device": 0}]),
        (rows(2), [*ranks(1), *ranks(1)]),
    ],
)
def test_times_that_are_nobodys_say_nothing(times, listed):
    assert find_stragglers(times, listed) is None


def edited(change):
    """The documents of the real JSON after a change."""
    value = json.loads((FIXTURES / "2.19.6-per-iteration.json").read_text(encoding="utf-8"))
    change(value)
    return parse_results([json.dumps(value)])


def of_processes(value):
    for row in value["results"]:
        for placement in ("out_of_place", "in_place"):
            yield row[f"{placement}_per_iter"]["per_process_max_times_us"]


def test_real_json_with_one_process_that_is_late():
    def late(value):
        for times in of_processes(value):
            times[:] = [
                [(50.0 if process == 2 else 100.0 + process) + iteration for iteration in range(200)]
                for process in range(4)
            ]

    (document,) = edited(late)
    assert document["stragglers"] == [{"rank": 2, "host": "n2", "device": 0, "share": pytest.approx(0.2487, abs=0.01)}]
    # Times on a stand-in are all over the place.
    (document,) = edited(lambda value: None)
    assert document["stragglers"] == [] and document["complete"]


@pytest.mark.parametrize(
    ("program", "named"),
    [
        *[(name, [2]) for name in ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "hypercube")],
        *[(name, None) for name in ("broadcast", "reduce", "gather", "scatter", "sendrecv")],
    ],
)
def test_a_rank_that_may_be_done_before_the_others_have_begun_is_not_late(program, named):
    """The root of a broadcast has sent all it has, and is done, while others receive; so its time is the shortest each time."""

    def first(value):
        value["args"][0] = f"/opt/nccl-tests/{program}_perf"
        for times in of_processes(value):
            times[:] = [[50.0 if process == 2 else 100.0] * 200 for process in range(4)]

    (document,) = edited(first)
    found = document["stragglers"]
    assert document["collective"] == program
    assert (None if found is None else [one["rank"] for one in found]) == named


def test_calls_that_move_nothing_say_nothing_of_who_is_late():
    """With 128 ranks, all_gather has eight sizes of 0 bytes: nobody waits in them."""

    def late(value):
        for times in of_processes(value):
            times[:] = [[50.0 if process == 2 else 100.0] * 200 for process in range(4)]
        nothing = copy.deepcopy(value["results"][:2])
        for row in nothing:
            row.update(size=0, count=0)
        value["results"][:0] = nothing
        for times in of_processes({"results": nothing}):
            times[:] = [[0.2] * 200 for _process in range(4)]

    (document,) = edited(late)
    assert [row["size"] for row in document["rows"][:3]].count(0) == 2
    assert [one["rank"] for one in document["stragglers"]] == [2]


@pytest.mark.parametrize(
    "damage",
    [
        [],
        "x",
        {"a": [1]},
        [1.0, 2.0],
        [[1.0], ["x"], [1.0], [1.0]],
        [[1.0], [None], [1.0], [1.0]],
        [[1.0], [], [1.0], [1.0]],
        [[1.0], [[2.0]], [1.0], [1.0]],
        [[1.0], [{"a": 1}], [1.0], [1.0]],
        [[1.0], [0.0], [1.0], [1.0]],
        [[1.0], [-1.0], [1.0], [1.0]],
        [[1.0], [math.inf], [1.0], [1.0]],
        [[1.0], [math.nan], [1.0], [1.0]],
        [[1.0], [True], [1.0], [1.0]],
        [[1.0] * 50, [1e308] * 50, [1.0] * 50, [1.0] * 50],
    ],
    ids=str,
)
def test_times_that_are_none_cost_nothing_else(damage):
    def spoil(value):
        for row in value["results"]:
            for placement in ("out_of_place", "in_place"):
                row[f"{placement}_per_iter"]["per_process_max_times_us"] = damage

    (document,) = edited(spoil)
    assert document["stragglers"] is None
    assert len(document["rows"]) == 3 and document["rows"][0]["in_place"]["extra"]["i_min"] == 253.522992


def test_long_lists_are_read_as_short_ones():
    """However the text is cut into parts, and whether numbers are read one by one or at once."""
    value = json.loads((FIXTURES / "2.19.6-per-iteration.json").read_text(encoding="utf-8"))
    for times in of_processes(value):
        times[:] = [[float(process + 1)] * (3 if process % 2 else 3000) for process in range(4)]
    text = json.dumps(value)
    found = {json.dumps(parse_results([text[: len(text) // 3], text[len(text) // 3 :]])[0])}
    found |= {json.dumps(parse_results([json.dumps(value, indent=indent)])[0]) for indent in (0, 2)}
    for size in (1000, 4097, 16411):
        found.add(json.dumps(parse_results([text[start : start + size] for start in range(0, len(text), size)])[0]))
    assert len(found) == 1


@pytest.mark.parametrize(
    "value", ["x", [1], [{"rank": 1}], [{"rank": "1", "host": "g", "device": 0, "share": 0.1}], {"rank": 1}]
)
def test_stragglers_that_are_none_are_refused(value):
    with pytest.raises(GpufabricError, match="stragglers of a result"):
        checked_stragglers(value)
    assert checked_stragglers(None) is None and checked_stragglers([]) == []
