# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import pathlib

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.plan import COLLECTIVES
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.bandwidth import bus_factor
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import PLACEMENTS, parse_results
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.baseline import make_baseline
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.ceiling import Topology, ceiling
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.published import published
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.reference_values import references
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.verdict import Judge
from ansible_collections.gpufabric.nccl.plugins.module_utils._units import format_size
from ansible_collections.gpufabric.nccl.tests.benchmark import defaults

DOCS = pathlib.Path(__file__).parents[5] / "docs"
G = 1 << 30


def half(size, busbw, factor=1.875, wrong=0):
    algbw = busbw / factor
    return {"time_us": size / algbw / 1e3, "algbw": algbw, "busbw": busbw, "wrong": wrong}


def document(curve=((8, 0.001), (G, 300.0), (8 * G, 370.0)), hosts=2, gpu="NVIDIA H100 80GB HBM3", wrong=0, **changes):
    """The result of all_reduce with 8 ranks on a host; in-place is 10 GB/s faster but for the smallest size."""
    rows = []
    for size, busbw in curve:
        out, into = half(size, busbw, wrong=wrong), half(size, busbw + 10 if size > 8 else busbw, wrong=wrong)
        rows.append(
            {
                "size": size,
                "count": 1,
                "type": "float",
                "redop": "sum",
                "root": -1,
                "out_of_place": out,
                "in_place": into,
            }
        )
    return {
        "schema": "gpufabric.nccl/result/v1",
        "tool": {"name": "nccl-tests", "version": "2.17.6", "nccl_version": "2.28.7"},
        "collective": "all_reduce",
        "complete": True,
        "ranks": [
            {"rank": rank, "host": f"g{rank // 8}", "device": rank % 8, "name": gpu} for rank in range(8 * hosts)
        ],
        "rows": rows,
        "summary": {"avg_busbw": 226.7, "wrong": wrong, "checked": wrong is not None},
        "points": {},
        "env": {},
        "host_count": hosts,
        "rank_count": 8 * hosts,
        "problems": [],
        "verdict": "pass",
        **changes,
    }


def judged(rule=None, tested=None, **options):
    """The verdict of the document, and the entry of the only rule."""
    thresholds = {"rules": [rule] if rule else [], **options.pop("thresholds", {})}
    result = Judge(thresholds, **options).judge(tested or document())
    wrong, *entries = result["verdicts"]
    assert wrong["rule"] == "no wrong values" and wrong["passed"] is True
    return result, entries[0] if entries else None


@pytest.mark.parametrize("wrong", [0, None])
def test_values_that_only_the_last_line_counts_are_wrong(wrong):
    """Where a row has N/A, or was lost."""
    (line,) = parse_results(["# nThread 1 nGpus 1 minBytes 8\n", "# Out of bounds values : 1 FAILED\n"])
    assert "Out of bounds values: 1 FAILED" in [problem["evidence"] for problem in line["problems"]]
    (entry,) = Judge().judge(document(wrong=wrong, problems=line["problems"], verdict="fail"))["verdicts"]
    assert (entry["rule"], entry["passed"], entry["message"]) == ("no wrong values", False, "values are wrong")


@pytest.fixture
def compiled():
    """JMESPath's function compile, which is not on every node."""
    return pytest.importorskip("jmespath").compile


TOPOLOGY = {"nic_gbps": 400, "rails": 8}


@pytest.mark.parametrize(
    ("rule", "value", "limit", "percent"),
    [
        # The peak is that of the largest size.
        ({"limit": 360}, 370, 360, 2.77778),
        ({"limit": 370}, 370, 370, 0),
        ({"limit": 380}, 370, 380, -2.63158),
        ({"limit": 375, "metric": "in_place.busbw"}, 380, 375, 1.33333),
        ({"limit": 385, "metric": "in_place.busbw"}, 380, 385, -1.2987),
        ({"limit": 190, "metric": "out_of_place.algbw"}, 197.333, 190, 3.85965),
        ({"limit": 200, "metric": "out_of_place.algbw"}, 197.333, 200, -1.33333),
        ({"limit": 290, "size": "1G"}, 300, 290, 3.44828),
        ({"limit": 310, "size": "1G"}, 300, 310, -3.22581),
        ({"limit": 290, "max_bytes": "1G"}, 300, 290, 3.44828),
        ({"limit": 310, "max_bytes": "1G"}, 300, 310, -3.22581),
        ({"limit": 290, "min_bytes": "1G", "over": "each"}, 300, 290, 3.44828),
        ({"limit": 360, "min_bytes": "1G", "over": "each"}, 300, 360, -16.6667),
        # Less is better.
        ({"limit": 20, "size": 8, "metric": "out_of_place.time_us"}, 15, 20, 33.3333),
        ({"limit": 12, "size": 8, "metric": "out_of_place.time_us"}, 15, 12, -20),
        ({"limit": 220, "metric": "avg_busbw"}, 226.7, 220, 3.04545),
        ({"limit": 230, "metric": "avg_busbw"}, 226.7, 230, -1.43478),
        ({"limit": 220, "metric": "avg_busbw", "max_bytes": "8G"}, 226.7, 220, 3.04545),
        ({"ceiling_percent": 90}, 370, 360, 2.77778),
        ({"ceiling_percent": 95}, 370, 380, -2.63158),
        ({"ceiling_percent": 90, "metric": "out_of_place.algbw"}, 197.333, 192, 2.77778),
    ],
)
def test_limits(rule, value, limit, percent):
    result, entry = judged(rule, thresholds={"topology": TOPOLOGY})
    assert (entry["value"], entry["limit"], entry["percent"]) == (value, limit, percent)
    assert entry["passed"] is (percent >= 0)
    assert percent < 0 or entry["missed_sizes"] == []
    assert result["verdict"] == ("pass" if percent >= 0 else "fail")
    assert [problem["id"] for problem in result["problems"]] == ([] if percent >= 0 else ["limit-missed"])


@pytest.mark.parametrize(
    ("cycles", "value"), [((380, 380, 380, 190, 190, 190, 190), 190), ((380, 380, 380, 380, 190, 190), 380)]
)
def test_the_peak_of_a_soak_is_not_its_best_cycle(cycles, value):
    result, entry = judged({"min_bytes": "1G", "limit": 360}, document([(8 * G, busbw) for busbw in cycles]))
    assert (entry["value"], entry["passed"], entry["size"]) == (value, value > 360, 8 * G)
    assert result["verdict"] == ("pass" if value > 360 else "fail")


def test_entry_says_where_the_limit_comes_from_and_by_how_much():
    _result, entry = judged({"name": "network", "ceiling_percent": 95}, thresholds={"topology": TOPOLOGY})
    source = "95 % of 400 GB/s: 400 Gb/s x 8 rails, all_reduce over 16 ranks on 2 hosts"
    assert entry["source"] == source
    assert entry["message"] == f"network: 370 GB/s at 8 GiB, 2.63 % below 380 GB/s ({source})"
    assert (entry["min_bytes"], entry["max_bytes"], entry["size"]) == (8, 8 * G, 8 * G)
    # Where each size is held against it, also up to the largest.
    _result, entry = judged({"limit": 999, "min_bytes": "1G", "over": "each"})
    assert (entry["min_bytes"], entry["max_bytes"], entry["size"]) == (G, 8 * G, G)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            {"limit": 360},
            "peak out-of-place busbw at least 360 GB/s: 370 GB/s at 8 GiB, 2.78 % above 360 GB/s (the rule)",
        ),
        (
            {"limit": 20, "size": 8, "metric": "out_of_place.time_us"},
            "out-of-place time_us at 8 B at most 20 us: 15 us at 8 B, 25 % below 20 us (the rule)",
        ),
        (
            {"limit": 12, "max_bytes": 8, "metric": "in_place.time_us"},
            "each in-place time_us up to 8 B at most 12 us: 15 us at 8 B, 25 % above 12 us (the rule)",
        ),
        (
            {"limit": 300, "min_bytes": "1G", "max_bytes": "8G", "over": "each"},
            "each out-of-place busbw from 1 GiB up to 8 GiB at least 300 GB/s: 300 GB/s at 1 GiB, 0 % above 300 GB/s (the rule)",
        ),
        (
            {"limit": 230, "metric": "avg_busbw"},
            "average bus bandwidth at least 230 GB/s: 226.7 GB/s, 1.43 % below 230 GB/s (the rule)",
        ),
        (
            {"ceiling_percent": 90},
            "peak out-of-place busbw at least 90 % of the ceiling: 370 GB/s at 8 GiB, 2.78 % above 360",
        ),
        (
            {"dip_percent": 5},
            "out-of-place busbw from 1 MiB falls by at most 5 %: no fall, 100 % below the limit of 5 %",
        ),
        (
            {"cliff_factor": 2, "max_bytes": "1G"},
            "out-of-place time_us up to 1 GiB grows by at most 2 times from size to size: 6711 us at 1 GiB, 447 times the 15 us",
        ),
    ],
)
def test_a_rule_without_a_name_says_itself_what_it_asks_for(rule, message):
    _result, entry = judged(rule, thresholds={"topology": TOPOLOGY})
    assert entry["message"][: len(message)] == message
    assert bool(entry.get("missed_sizes")) == (entry["passed"] is False and entry["size"] is not None)


def test_what_was_not_measured_in_one_placement_keeps_and_misses_nothing():
    tested = document()
    for row in tested["rows"]:
        row["in_place"] = None
    result, entry = judged({"limit": 1, "metric": "in_place.busbw"}, tested)
    assert (entry["passed"], result["verdict"]) == (None, "unchecked")
    assert entry["message"].endswith("not checked, the test has no in-place busbw")


def test_each_collective_that_may_run_may_have_a_rule():
    for collective in COLLECTIVES:
        assert judged({"limit": 1, "collective": collective}, document(collective=collective))[1]["passed"] is True


def test_no_bandwidth_at_all_misses_each_limit():
    result, entry = judged({"limit": 1}, of_types([(G, 0.0)]))
    assert (entry["value"], entry["percent"], entry["passed"], result["verdict"]) == (0, -100, False, "fail")


def test_each_size_that_misses_is_named():
    _result, entry = judged({"limit": 375, "min_bytes": "1G", "over": "each"})
    assert entry["missed_sizes"] == [G, 8 * G] and entry["size"] == G
    assert entry["message"].endswith("(the rule), and at 1 more sizes")


@pytest.mark.parametrize(
    ("rule", "tested", "applies"),
    [
        ({"collective": "all_reduce"}, {}, True),
        ({"collective": ["all_gather", "alltoall"]}, {}, False),
        ({"min_hosts": 2, "max_hosts": 4}, {}, True),
        ({"min_hosts": 3}, {}, False),
        ({"max_hosts": 1}, {}, False),
        ({"min_ranks": 16}, {}, True),
        ({"max_ranks": 15}, {}, False),
        ({"gpu": "h100"}, {}, True),
        ({"gpu": "H200"}, {}, False),
        ({"gpu": "B200"}, {"gpu": "NVIDIA GB200"}, False),
        ({"network": "ib"}, {}, True),
        ({"network": "roce"}, {}, False),
    ],
)
def test_rules_are_for_some_tests(rule, tested, applies):
    thresholds = {"topology": {"network": "ib"}}
    result, entry = judged({"limit": 1, **rule}, document(**tested), thresholds=thresholds)
    assert (entry is not None, result["verdict"]) == ((True, "pass") if applies else (False, "unchecked"))


def test_a_rule_for_a_gpu_is_for_those_that_are_named():
    """A file of -J names only the first GPU of a process."""
    path = DOCS.parent / "tests" / "unit" / "fixtures" / "nccl_tests" / "2.19.6-two-gpus-a-process.json"
    (tested,) = parse_results([path.read_text(encoding="utf-8")])
    for gpu, passed in (("Stand-in", [True]), ("H100", [])):
        entries = Judge({"rules": [{"limit": 1e-9, "gpu": gpu}]}).judge(tested)["verdicts"][1:]
        assert [entry["passed"] for entry in entries] == passed
    tested["ranks"] = [{**rank, "name": None} for rank in tested["ranks"]]
    assert Judge({"rules": [{"limit": 1e-9, "gpu": "Stand-in"}]}).judge(tested)["verdict"] == "unchecked"


def test_a_rule_that_is_for_no_test_is_told():
    rules = [{"name": "A", "limit": 1}, {"name": "B", "limit": 1, "collective": "alltoall"}]
    rules += [{"name": "C", "transport": {"gdr": True}, "min_hosts": 99}, {"name": "D", "limit": 1, "min_hosts": 4}]
    judge = Judge({"rules": rules})
    documents = [document(), document(hosts=4)]
    judged, warnings = judge.judge_all(documents)
    assert warnings == [f"{name}: not checked, it is for none of the tests that ran" for name in "BC"]
    told = [[entry["rule"] for entry in one["verdicts"][1:]] for one in judged]
    assert told == [["A", "B", "C"], ["A", "D"]]
    assert [one["verdict"] for one in judged] == ["pass", "pass"]
    assert judge.judge_all([]) == ([], [])


def test_a_rule_that_could_be_checked_in_no_test_is_told():
    rules = [
        {"name": "A", "limit": 1},
        {"name": "B", "limit": 1, "size": "4G"},
        {"name": "C", "limit": 1, "size": "2G"},
    ]
    rules += [{"name": "D", "transport": {"gdr": True}}]
    documents = [document(), document([(G, 300.0), (2 * G, 310.0)])]
    judged, warnings = Judge({"rules": rules}).judge_all(documents)
    assert warnings == [
        "B: not checked, the test has no out-of-place busbw at 4 GiB",
        "D: not checked, NCCL's own log is not there",
    ]
    assert [one["verdict"] for one in judged] == ["pass", "pass"]


def test_published_values_of_other_clusters_are_told_once():
    judge = Judge({"reference": references()[0].name})
    judged, warnings = judge.judge_all([document(collective="scatter")])
    assert len(warnings) == 1 and len(judged[0]["verdicts"]) == 2


def test_a_rule_for_a_network_needs_to_know_the_network():
    with pytest.raises(
        OptionError, match=r"^thresholds.rules\[1\].network: 'ib' is not allowed; allowed: .*topology.network"
    ):
        Judge({"rules": [{"limit": 1}, {"limit": 1, "network": "ib"}]})


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"limit": 1, "size": "4G"}, "the test has no out-of-place busbw at 4 GiB"),
        ({"ceiling_percent": 90}, "thresholds.topology.nic_gbps is not given"),
        (
            {"limit": 1, "metric": "avg_busbw", "min_bytes": "1G"},
            "the average is not over sizes from 1 GiB alone",
        ),
    ],
)
def test_what_cannot_be_told_is_not_passed(rule, reason):
    result, entry = judged(rule)
    assert entry["passed"] is None and entry["message"].endswith(f"not checked, {reason}")
    assert result["verdict"] == "unchecked"


def without_number(size, name, cell="nan", **changes):
    """A document as the parser makes it if a cell of the out-of-place half is no number."""
    tested = document(**changes)
    for row in tested["rows"]:
        if row["size"] == size:
            row["out_of_place"].update({name: None, "no_numbers": {name: cell}})
    return tested


@pytest.mark.parametrize(
    ("rule", "passed", "words"),
    [
        # What is not known cannot be kept, but what is missed beside it is missed.
        ({"limit": 1, "over": "each", "min_bytes": "1G"}, None, "not checked, the out-of-place busbw is nan at 1 GiB"),
        ({"limit": 400, "over": "each", "min_bytes": "1G"}, False, "370 GB/s at 8 GiB"),
        ({"limit": 1, "size": "1G"}, None, "not checked, the out-of-place busbw is nan at 1 GiB"),
        # The best of the others is known, and so are other columns and sizes.
        ({"limit": 360, "min_bytes": "1G"}, True, "370 GB/s at 8 GiB"),
        ({"limit": 1, "over": "each", "min_bytes": "1G", "metric": "in_place.busbw"}, True, "310 GB/s at 1 GiB"),
        ({"limit": 1, "over": "each", "size": "8G"}, True, "370 GB/s at 8 GiB"),
    ],
)
def test_a_size_whose_number_is_none_does_not_keep_a_limit(rule, passed, words):
    _result, entry = judged(rule, without_number(G, "busbw"))
    assert (entry["passed"], words in entry["message"]) == (passed, True), entry


def test_a_greatest_difference_that_is_no_number_is_not_none_wrong():
    (wrong,) = Judge({}).judge(without_number(8, "error"))["verdicts"]
    assert (wrong["passed"], wrong["message"]) == (None, "values were not checked")


def test_wrong_values_fail_and_unchecked_is_not_0():
    judge = Judge({"rules": [{"limit": 1}]})
    problem = {"id": "wrong-values", "severity": "error"}
    result = judge.judge(document(wrong=3, problems=[problem], verdict="fail"))
    assert (result["verdict"], result["verdicts"][0]["passed"], result["verdicts"][0]["value"]) == ("fail", False, 3)
    result = judge.judge(document(wrong=None, verdict="unchecked"))
    assert (result["verdict"], result["verdicts"][0]["passed"], result["verdicts"][0]["value"]) == (
        "unchecked",
        None,
        None,
    )
    # A limit that is missed fails even so, and what is not whole is not passed.
    assert Judge({"rules": [{"limit": 999}]}).judge(document(wrong=None))["verdict"] == "fail"
    assert judge.judge(document(complete=False, verdict="incomplete"))["verdict"] == "incomplete"


GROWING = ((1 << 20, 10.0), (2 << 20, 20.0), (4 << 20, 30.0), (8 << 20, 40.0))


@pytest.mark.parametrize(
    ("curve", "value", "passed"),
    [
        (GROWING, 0, True),
        ((*GROWING, (16 << 20, 38.5)), 3.75, True),
        # Against the best so far, not the one before.
        ((*GROWING, (16 << 20, 38.5), (32 << 20, 35.8)), 10.5, False),
        # Where protocols change, small sizes may do what they want.
        (((1 << 10, 5.0), (1 << 11, 1.0), *GROWING), 0, True),
    ],
)
def test_dip(curve, value, passed):
    result, entry = judged({"dip_percent": 5}, document(curve))
    assert (entry["value"], entry["passed"], result["verdict"]) == (value, passed, "pass" if passed else "fail")
    if not passed:
        assert result["problems"][0]["id"] == "bandwidth-dip"
        assert entry["message"].endswith(
            ": a fall of 10.5 % to 35.8 GB/s at 32 MiB from 40 GB/s at 8 MiB, 110 % above the limit of 5 % (the rule)"
        )
        assert result["problems"][0]["evidence"] == "missed at 32 MiB"


def test_a_dip_is_held_against_the_limit_itself():
    dip = document((*GROWING, (16 << 20, 38.5), (32 << 20, 35.8)))
    assert [judged({"dip_percent": limit}, dip)[1]["passed"] for limit in (10.4, 10.6)] == [False, True]


def test_what_is_exactly_at_a_limit_keeps_it():
    """Also where the last bit of a quotient is off."""
    assert judged({"dip_percent": 5}, document((*GROWING, (16 << 20, 38.0))))[1]["passed"] is True
    before, now = document([(8, 0.001)]), document([(8, 0.001)])
    for placement in PLACEMENTS:
        before["rows"][0][placement]["time_us"], now["rows"][0][placement]["time_us"] = 100.0, 115.0
    entry = Judge(baseline=make_baseline([before]), baseline_percent=15).judge(now)["verdicts"][1]
    assert (entry["limit"], entry["value"], entry["passed"], entry["percent"]) == (115.0, 115.0, True, 0.0)
    assert ": 115 us at 8 B, 0 % below 115 us (" in entry["message"]


@pytest.mark.parametrize(("growth", "passed"), [(1.4, True), (3.0, False)])
def test_cliff(growth, passed):
    curve = [(8, 8 / 10e3), (16, 16 / 11e3), (32, 32 / (11e3 * growth)), (1 << 20, 1e-6)]
    result, entry = judged({"cliff_factor": 2}, document([(size, 1.875 * algbw) for size, algbw in curve]))
    assert (entry["value"], entry["size"], entry["passed"]) == (growth, 32, passed)
    assert [problem["id"] for problem in result["problems"]] == ([] if passed else ["latency-cliff"])
    side = "30 % below" if passed else "50 % above"
    assert f" us at 32 B, {growth:g} times the " in entry["message"]
    assert entry["message"].endswith(f" us at 16 B, {side} the limit of 2 times (the rule)")


def test_from_no_bytes_to_some_is_no_cliff():
    """all_gather of two hosts with four ranks each, as it was printed: 8 and 16 bytes are rounded down to none."""
    rows = [(0, 0.06), (0, 0.06), (32, 14.18), (64, 14.3), (128, 14.16)]
    tested = document([(size, 1.0) for size, _time in rows], collective="all_gather")
    for row, (_size, time) in zip(tested["rows"], rows):
        row["out_of_place"]["time_us"] = time
    result, entry = judged({"cliff_factor": 3}, tested)
    assert (result["verdict"], entry["passed"], entry["size"]) == ("pass", True, 64)


def of_types(*curves, name="busbw", apart="type"):
    """A document with a curve for each of several types: sizes with values, of which one may have several."""
    tested = document([(size, 1.0) for curve in curves for size, _value in curve])
    values = [(kind, value) for kind, curve in enumerate(curves) for _size, value in curve]
    for row, (kind, value) in zip(tested["rows"], values):
        row[apart] = f"{apart}{kind}"
        row["out_of_place"][name] = value
    return tested


@pytest.mark.parametrize("apart", ["type", "redop"])
@pytest.mark.parametrize(
    ("rule", "name", "curves", "value"),
    [
        # A slower type is no dip, and one of its own is seen.
        ("dip_percent", "busbw", ([(1 << 20, 100.0), (2 << 20, 110.0)], [(1 << 20, 50.0), (2 << 20, 55.0)]), 0),
        ("dip_percent", "busbw", ([(1 << 20, 50.0), (2 << 20, 40.0)], [(1 << 20, 30.0), (2 << 20, 45.0)]), 20),
        # Nor is a size that ran twice.
        ("dip_percent", "busbw", ([(1 << 20, 50.0), (1 << 20, 40.0), (2 << 20, 51.0), (2 << 20, 60.0)],), 0),
        # The worst of the times that a size ran counts.
        ("dip_percent", "busbw", ([(1 << 20, 50.0), (1 << 20, 50.0), (2 << 20, 60.0), (2 << 20, 20.0)],), 60),
        # The cliff is between two rows that are no neighbours.
        ("cliff_factor", "time_us", ([(8, 10.0), (16, 500.0)], [(8, 10.0), (16, 11.0)]), 50),
        ("cliff_factor", "time_us", ([(8, 10.0), (16, 11.0)], [(8, 10.0), (16, 500.0)]), 50),
        ("cliff_factor", "time_us", ([(8, 10.0), (8, 10.0), (16, 11.0), (16, 30.0)],), 3),
    ],
)
def test_dips_and_cliffs_are_those_of_one_type_and_operation(rule, name, curves, value, apart):
    _result, entry = judged({rule: 5}, of_types(*curves, name=name, apart=apart))
    assert entry["value"] == value


def test_there_is_no_dip_below_a_bandwidth_of_0():
    """nccl-tests print two decimals, and a time of 0 tells no more."""
    _result, entry = judged({"dip_percent": 5}, of_types([(1 << 20, 0.0), (2 << 20, 0.0)], name="busbw"))
    assert (entry["passed"], "no bandwidth was measured" in entry["message"]) == (None, True)
    _result, entry = judged(
        {"dip_percent": 5}, of_types([(1 << 20, 0.0), (2 << 20, 4.0), (4 << 20, 1.0)], name="busbw")
    )
    assert (entry["passed"], entry["value"]) == (False, 75)


@pytest.mark.parametrize(
    ("that", "passed", "told"),
    [
        ("&rows", False, "too few (it gives "),
        ("ceil(`1e400`)", False, "too few (cannot convert float infinity to integer)"),
        ("to_number('1e400')", False, "too few (it gives Infinity, neither true nor false)"),
        ("rank_count == `16`", True, ""),
        ("rank_count == `8`", False, "too few"),
        ("max(rows[].in_place.busbw) > `375`", True, ""),
        ("length(rows)", False, "too few (it gives 3, neither true nor false)"),
        ("no_such", False, "too few (it gives null, neither true nor false)"),
        ("max(no_such) > `1`", False, "too few (In function max()"),
    ],
)
def test_assertions(that, passed, told, compiled):
    assertions = [{"that": that, "msg": "too few", "name": "ranks"}]
    result = Judge(assertions=assertions, compiled=compiled).judge(document())
    entry = result["verdicts"][1]
    json.dumps(entry, allow_nan=False)
    assert (entry["passed"], result["verdict"]) == (passed, "pass" if passed else "fail")
    assert entry["message"].startswith("ranks" if passed else told)


def test_an_assertion_without_words_tells_its_expression(compiled):
    (_wrong, entry) = Judge(assertions=[{"that": "rank_count == `8`"}], compiled=compiled).judge(document())["verdicts"]
    assert (entry["rule"], entry["message"]) == ("rank_count == `8`", "the assertion does not hold: rank_count == `8`")


def runs(*factors):
    return [document([(size, busbw * factor) for size, busbw in ((8, 0.001), (G, 300.0))]) for factor in factors]


@pytest.mark.parametrize(
    ("factors", "percent", "slower", "passed"),
    [
        ((1.0, 1.01, 0.99, 1.005, 0.995), None, 0.97, True),
        ((1.0, 1.01, 0.99, 1.005, 0.995), None, 0.7, False),
        # One run that was disturbed does not widen what is noise.
        ((1.0, 1.01, 0.99, 1.005, 0.3), None, 0.7, False),
        # More noise, more tolerance.
        ((1.0, 1.2, 0.8, 1.1, 0.9), None, 0.7, True),
        # Of two runs the noise is not known.
        ((1.0, 1.01), None, 0.1, None),
        ((1.0, 1.01), 5, 0.97, True),
        ((1.0, 1.01), 5, 0.9, False),
    ],
)
def test_baseline(factors, percent, slower, passed):
    baseline = make_baseline(runs(*factors))
    result = Judge(baseline=baseline, baseline_percent=percent).judge(runs(slower)[0])
    entries = result["verdicts"][1:]
    assert [entry["metric"] for entry in entries] == ["out_of_place.time_us", "in_place.time_us"]
    assert [entry["passed"] for entry in entries] == [passed, passed]
    assert result["verdict"] == {True: "pass", False: "fail", None: "unchecked"}[passed]


def test_the_limit_of_a_baseline_is_that_of_one_size():
    """Each size has a limit of its own: a report is to draw none from the first size to the last."""
    rule = {"baseline_percent": 5, "metric": "out_of_place.busbw"}
    _result, entry = judged(rule, runs(1)[0], baseline=make_baseline(runs(1, 1.01, 0.99)))
    assert entry["passed"] is True and "min_bytes" not in entry and "max_bytes" not in entry


@pytest.mark.parametrize(("cycles", "verdict"), [((370, 380, 360, 340), "pass"), ((350, 380, 350, 350), "fail")])
def test_a_soak_is_held_against_a_baseline_of_soaks_by_its_median(cycles, verdict):
    """The baseline has the medians of its runs, which scatter less than single cycles."""
    before = [document([(8 * G, busbw) for busbw in (370 + more, 385, 355)]) for more in (0, 0.1, -0.1)]
    result = Judge(baseline=make_baseline(before)).judge(document([(8 * G, busbw) for busbw in cycles]))
    assert result["verdict"] == verdict


def test_baseline_of_other_machines_says_nothing():
    result = Judge(baseline=make_baseline(runs(1, 1.01, 0.99))).judge(document(hosts=3))
    assert result["verdict"] == "unchecked"
    assert result["verdicts"][1]["message"].endswith("not checked, the baseline has no such out-of-place time_us")


@pytest.mark.parametrize(
    ("before", "now", "tool", "told"),
    [
        ("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "nccl-tests", True),
        # Drivers before 470 named no maker.
        ("A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", "nccl-tests", False),
        ("NVIDIA A100-SXM4-80GB", None, "nccl-tests", False),
        (None, "NVIDIA A100-SXM4-80GB", "nccl-tests", False),
        # Its numbers are those of the control network.
        ("CPU AMD EPYC", "CPU Intel Xeon", "cpu", False),
    ],
)
def test_a_baseline_of_other_gpus_says_nothing(before, now, tool, told):
    tool = {"name": tool, "version": None, "nccl_version": None}
    baseline = make_baseline([document(gpu=before, tool=tool)])
    # On other machines with as many hosts and ranks, what is slow for the one may be fast for the other.
    result = Judge(baseline=baseline, baseline_percent=5).judge(document(gpu=now, tool=tool))
    assert result["verdict"] == ("unchecked" if told else "pass")
    words = f"not checked, the baseline is of {before}, and this test of {now}"
    assert result["verdicts"][1]["message"].endswith(words) is told
    if told:
        with pytest.raises(GpufabricError, match=f"runs of all_reduce on {before}, and this one is on {now}: keep"):
            make_baseline([document(gpu=now, tool=tool)], baseline)
        with pytest.raises(GpufabricError, match=f"runs of all_reduce on {before}, and this one is on {now}: keep"):
            make_baseline([document(gpu=name, tool=tool) for name in (before, now)])
        # Of another number of ranks it is another test.
        baseline = make_baseline([document(gpu=now, tool=tool, hosts=3)], baseline)
        assert Judge(baseline=baseline, baseline_percent=5).judge(document(gpu=before, tool=tool))["verdict"] == "pass"
    else:
        assert len(make_baseline([document(((8, 0.002),), gpu=now, tool=tool)], baseline)["runs"]) == 2


def test_sizes_that_the_baseline_lacks_are_told_and_are_no_pass():
    baseline = make_baseline(runs(1, 1.01, 0.99))
    more = document([(8, 0.001), (G, 300.0), (2 * G, 30.0)])
    result = Judge(baseline=baseline).judge(more)
    assert [entry["passed"] for entry in result["verdicts"][1:]] == [None, None]
    assert result["verdicts"][1]["message"].endswith(
        "not checked, the baseline has no such out-of-place time_us at 2 GiB; sizes that keep it: 2"
    )
    assert result["verdict"] == "unchecked"
    # What is missed is missed.
    slow = document([(8, 0.001), (G, 100.0), (2 * G, 30.0)])
    assert Judge(baseline=baseline).judge(slow)["verdict"] == "fail"


def test_rule_may_name_what_is_held_against_the_baseline():
    rule = {"baseline_percent": 1, "metric": "out_of_place.busbw", "size": "1G", "name": "usual"}
    baseline = make_baseline(runs(1.0, 1.001, 0.999))
    for factor, passed in ((0.995, True), (0.9, False)):
        entries = Judge({"rules": [rule]}, baseline=baseline).judge(runs(factor)[0])["verdicts"][1:]
        assert [(entry["rule"], entry["passed"]) for entry in entries] == [("usual", passed)]
        assert entries[0]["source"] == "the median of 3 runs in the baseline, 300, and 1 % tolerance"
        assert entries[0]["limit"] == pytest.approx(300 / 1.01, rel=1e-5)
    rule = {**rule, "metric": "out_of_place.time_us"}
    entry = Judge({"rules": [rule]}, baseline=baseline).judge(runs(1.0)[0])["verdicts"][1]
    assert entry["limit"] == pytest.approx(half(G, 300.0)["time_us"] * 1.01, rel=1e-5)


def test_times_of_large_sizes_are_told_without_an_exponent():
    before = [document([(8 * G, busbw)]) for busbw in (370.0, 374.0, 366.0)]
    entry = Judge(baseline=make_baseline(before)).judge(document([(8 * G, 5.0)]))["verdicts"][1]
    assert entry["value"] == pytest.approx(3221225.47, rel=1e-5)
    assert entry["message"].startswith("out-of-place time against the baseline: 3,221,225 us at 8 GiB, ")
    assert "in the baseline, 43,530, and " in entry["message"] and "e+0" not in entry["message"]


@pytest.mark.parametrize(
    ("collective", "ranks", "hosts", "changes", "bus"),
    [
        # B = 400 GB/s a host.
        ("all_reduce", 16, 2, {}, 400),
        ("all_reduce", 16, 2, {"in_network_reduction": True}, 750),
        ("all_gather", 96, 12, {}, 400),
        ("reduce_scatter", 16, 2, {}, 400),
        ("broadcast", 16, 2, {}, 400),
        ("reduce", 16, 2, {}, 400),
        ("gather", 16, 2, {}, 750),
        ("scatter", 16, 2, {}, 750),
        # What the network or the switches reduce is all_reduce's alone.
        ("all_gather", 16, 2, {"in_network_reduction": True}, 400),
        ("all_gather", 8, 1, {"in_network_reduction": True}, 450),
        # One or two of the 8 GPUs of each host.
        ("all_reduce", 2, 2, {"gpus": 8}, 50),
        ("all_gather", 4, 2, {"gpus": 8}, 100),
        ("alltoall", 2, 2, {"gpus": 8}, 50),
        ("all_reduce", 16, 2, {"gpus": 8}, 400),
        # A single NIC is shared by all of them.
        ("all_reduce", 2, 2, {"gpus": 8, "rails": 1}, 50),
        # 79.11 was measured on such machines.
        ("alltoall", 16, 2, {}, 93.75),
        # 47 and 48 were.
        ("sendrecv", 16, 2, {}, 50),
        ("all_reduce", 8, 1, {}, 450),
        ("alltoall", 8, 1, {}, 450),
        # 480 was measured.
        ("all_reduce", 8, 1, {"in_network_reduction": True}, 700),
        ("all_reduce", 72, 18, {"nvlink_hosts": 18, "nvlink_gbytes": 900}, 900),
        ("hypercube", 16, 2, {}, None),
        ("all_reduce", 1, 1, {}, None),
        (None, 16, 2, {}, None),
    ],
)
def test_ceiling(collective, ranks, hosts, changes, bus):
    topology = Topology(**{"nic_gbps": 400, "rails": 8, "nvlink_gbytes": 450, **changes})
    found = ceiling(topology, collective, ranks, hosts)[1]
    assert found == (None if bus is None else pytest.approx(bus))


def test_references_are_for_their_machines_only():
    size = 16 * G
    thresholds = {"reference": "nvcre-aws-h100"}
    for busbw, hosts, verdict in ((450.0, 2, "pass"), (430.0, 2, "fail"), (430.0, 3, "unchecked")):
        result = Judge(thresholds).judge(document([(size, busbw)], hosts=hosts))
        assert result["verdict"] == verdict
    source = Judge(thresholds).judge(document([(size, 450.0)]))["verdicts"][1]["source"]
    assert "487.87 GB/s measured" in source and source.endswith("less 10 %")
    # Those that accept machines have their tolerance in them.
    entry = Judge({"reference": "oci-h100"}).judge(document([(G, 431.0)]))["verdicts"][1]
    assert (entry["limit"], entry["value"], entry["passed"]) == (440, 441, True)
    # Another number of GPUs on a host is another machine.
    assert Judge({"reference": "oci-h100"}).judge(document([(G, 431.0)], rank_count=8))["verdict"] == "unchecked"
    # They look at the first size, and not at the best one.
    entry = Judge({"reference": "oci-h100"}).judge(document([(8, 1.0), (G, 400.0), (size, 450.0)]))["verdicts"][1]
    assert (entry["size"], entry["value"], entry["passed"]) == (G, 410, False)
    # An average over other sizes is another thing.
    for curve, passed in (([(2 * G, 300.0)], True), ([(8, 0.001), (2 * G, 300.0)], None)):
        tested = document(curve, collective="all_gather")
        assert Judge({"reference": "google-a3"}).judge(tested)["verdicts"][1]["passed"] is passed


def test_rules_of_one_name_are_told_apart():
    assertions = [{"that": "`true`", "name": "fast"}]
    rules = [{"limit": 1, "name": "fast"}, {"limit": 2, "name": "fast"}]
    judge = Judge({"rules": rules}, assertions=assertions, compiled=lambda that: type("True", (), {"search": bool})())
    assert [entry["rule"] for entry in judge.judge(document())["verdicts"][1:]] == ["fast", "fast (2)", "fast (3)"]
    rules = [{"limit": 1, "name": name} for name in ("fast", "fast", "fast (2)", "fast (2)")]
    entries = Judge({"rules": rules}).judge(document())["verdicts"][1:]
    assert [entry["rule"] for entry in entries] == ["fast", "fast (3)", "fast (2)", "fast (2) (2)"]


def test_what_was_judged_before_is_judged_anew():
    first = Judge({"rules": [{"limit": 999}]}).judge(document(problems=[]))
    assert first["verdict"] == "fail" and len(first["problems"]) == 1
    again = Judge({"rules": [{"limit": 1}]}).judge(first)
    assert again == Judge({"rules": [{"limit": 1}]}).judge(document()) and again["verdict"] == "pass"


@pytest.mark.parametrize(
    ("collective", "gpu", "ranks", "hosts", "size", "names"),
    [
        (
            "all_reduce",
            "NVIDIA H100 80GB HBM3",
            16,
            2,
            16 * G,
            ["nvcre-aws-h100 16G", "nvcre-gcp-h100 16G", "aws-p5 16G"],
        ),
        ("all_reduce", "NVIDIA H100 80GB HBM3", 16, 2, G, ["aws-p5 1G"]),
        (
            "all_reduce",
            "NVIDIA H100 80GB HBM3",
            80,
            10,
            8 * G,
            ["coreweave-h100 8G", "oci-h100-nodes 16G", "aws-p5 8G"],
        ),
        ("all_reduce", "NVIDIA H100 80GB HBM3", 8, 1, G, ["hgx-h100 16G"]),
        ("alltoall", "NVIDIA GB300", 32, 8, 4 * G, ["nvcre-aws-gb300 16G", "nvcre-aws-gb300-roce 16G"]),
        # Another size, another number of GPUs on a host, another GPU, ranks that are not listed, a GPU that only acceptance limits are known of.
        ("alltoall", "NVIDIA GB300", 32, 8, G, []),
        ("all_reduce", "NVIDIA H100 80GB HBM3", 8, 2, G, []),
        ("all_reduce", "NVIDIA L40S", 16, 2, G, []),
        ("all_reduce", None, 16, 2, G, []),
        ("all_reduce", "NVIDIA H100 80GB HBM3", 0, 0, G, []),
        ("all_reduce", "NVIDIA B200", 16, 2, G, []),
    ],
)
def test_what_was_measured_on_such_machines(collective, gpu, ranks, hosts, size, names):
    found = published(collective, [gpu] * ranks, hosts, size)
    assert [f"{one.name} {format_size(one.max_bytes)[:-4]}G" for one in found] == names


def transport(**changes):
    """Of four hosts with 8 NICs, one of which is like ``changes``: the fact, and the value of g3."""
    found = {
        "network": "IB", "plugin": None, "gdr": True, "mixed": bool(changes), "channels": 16, "nvls": True, "mnnvl": None,
        "nics": {f"g{host}": [f"mlx5_{port}:1" for port in range(changes.get("nics", 8) if host == 3 else 8)] for host in range(4)},
        "socket_interface": "eth0", "connections": {"NET": 512}, "source": "nccl-debug", "differences": [],
    }  # fmt: skip
    for fact, value in changes.items():
        others = 8 if fact == "nics" else found[fact]
        found["differences"].append({"fact": fact, "host": "g3", "value": value, "others": others})
        if fact != "nics":
            found[fact] = False if value is False else None
    return found


@pytest.mark.parametrize(
    ("demand", "found", "passed", "told"),
    [
        ({"network": "IB", "gdr": True, "nics": 8}, transport(), True, "IB, GDR, 8 NICs a host, 16 channels, NVLS"),
        ({"network": ["RoCE", "ib"]}, transport(), True, "IB, GDR"),
        ({"network": "RoCE"}, transport(), False, "IB instead of RoCE on all hosts"),
        ({"network": "IB"}, transport(network="Socket"), False, "Socket instead of IB on g3"),
        ({"gdr": True}, transport(gdr=False), False, "no GPUDirect RDMA instead of GPUDirect RDMA on g3"),
        ({"nics": 8}, transport(nics=7), False, "7 NICs instead of 8 NICs on g3"),
        ({"nics": 4}, transport(nics=7), True, "IB"),
        (
            {"channels": 32, "nvls": False},
            transport(),
            False,
            "16 channels instead of 32 channels on all hosts; NVLS instead of no NVLS",
        ),
        ({"mnnvl": True}, transport(), None, "not checked, NCCL's log does not tell multi-node NVLink"),
        ({"gdr": True}, None, None, "not checked, NCCL's own log is not there"),
    ],
)
def test_transport_is_demanded(demand, found, passed, told):
    result, entry = judged({"name": "T", "transport": demand}, document(hosts=4, transport=found))
    assert (entry["passed"], entry["message"][: len(told) + 3]) == (passed, f"T: {told}")
    assert result["verdict"] == {True: "pass", False: "fail", None: "unchecked"}[passed]
    missed = [problem for problem in result["problems"] if problem["id"] == "transport-missed"]
    assert [problem["host"] for problem in missed] == ([] if passed is not False else ["g3" if "g3" in told else None])


def test_a_log_that_lacks_a_host_proves_nothing_of_it():
    lacking = transport()
    del lacking["nics"]["g2"]
    _result, entry = judged({"transport": {"network": "IB"}}, document(hosts=4, transport=lacking))
    assert (entry["passed"], entry["message"]) == (
        None,
        "transport IB: not checked, NCCL's log is of 3 of 4 hosts",
    )
    _result, entry = judged({"transport": {"network": "RoCE"}}, document(hosts=4, transport=lacking))
    assert entry["passed"] is False and entry["message"].endswith("on g0, g1, g3")


def test_one_host_has_no_network():
    alone = {**transport(), "nics": {"g0": []}}
    _result, entry = judged({"transport": {"network": "IB", "nvls": True}}, document(hosts=1, transport=alone))
    assert (entry["passed"], entry["rule"]) == (None, "transport IB, NVLS")
    assert entry["message"].endswith("all ranks are on one host")
    # Of what ranks of one host have, it is told; of a network, not even a wrong one.
    verdicts = [
        judged({"transport": {name: value}}, document(hosts=1, transport=alone))[1]["passed"]
        for name, value in (("nvls", True), ("nvls", False), ("network", "RoCE"), ("gdr", False), ("nics", 1))
    ]
    assert verdicts == [True, False, None, None, None]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({}, "thresholds.rules[0]: 'no limit' is not allowed; allowed: one of limit, "),
        ({"limit": 1, "dip_percent": 1}, "thresholds.rules[0]: 'limit, dip_percent' "),
        ({"limit": -1}, "thresholds.rules[0].limit: -1 "),
        ({"limit": 0}, "thresholds.rules[0].limit: 0 is not allowed; allowed: a number above 0"),
        ({"limit": True}, "thresholds.rules[0].limit: True "),
        ({"limit": "fast"}, "thresholds.rules[0].limit: 'fast' "),
        ({"limit": 1, "collective": "allreduce"}, "thresholds.rules[0].collective: 'allreduce' "),
        ({"limit": 1, "collective": 5}, "thresholds.rules[0].collective: 5 "),
        ({"limit": 1, "max_hosts": 10**400}, "thresholds.rules[0].max_hosts: 1000"),
        ({"limit": 1, "size": 10**400}, "thresholds.rules[0].size: 1000"),
        ({"limit": 1, "size": "9" * 5000}, "thresholds.rules[0].size: '999"),
        ({"limit": 1, "size": "8589934592G"}, "thresholds.rules[0].size: '8589934592G' "),
        ({"limit": 1, "metric": "busbw"}, "thresholds.rules[0].metric: 'busbw' "),
        ({"limit": 1, "size": "1T"}, "thresholds.rules[0].size: '1T' "),
        ({"limit": 1, "size": "1G", "max_bytes": "2G"}, "thresholds.rules[0].size: '1G' "),
        ({"limit": 1, "min_bytes": "2G", "max_bytes": "1G"}, "thresholds.rules[0].min_bytes: '2G' "),
        ({"limit": 1, "over": "mean"}, "thresholds.rules[0].over: 'mean' "),
        ({"limit": 1, "metric": "in_place.time_us", "over": "peak"}, "thresholds.rules[0].over: 'peak' "),
        ({"limit": 1, "min_hosts": 0}, "thresholds.rules[0].min_hosts: 0 "),
        ({"limit": 1, "hosts": 2}, "thresholds.rules[0].hosts: 2 "),
        ({"dip_percent": 1, "metric": "in_place.time_us"}, "thresholds.rules[0].metric: 'in_place.time_us' "),
        ({"baseline_percent": 1}, "thresholds: "),
        (
            {"ceiling_percent": 0.9},
            "thresholds.rules[0].ceiling_percent: 0.9 is not allowed; allowed: a percentage of 1 ",
        ),
        ({"dip_percent": 100}, "thresholds.rules[0].dip_percent: 100 "),
        ({"transport": {}}, "thresholds.rules[0].transport: {} "),
        ({"transport": "IB"}, "thresholds.rules[0].transport: 'IB' "),
        ({"transport": {"nic": 8}}, "thresholds.rules[0].transport: {'nic': 8} "),
        ({"transport": {"nics": 0}}, "thresholds.rules[0].transport.nics: 0 "),
        ({"transport": {"gdr": "yes"}}, "thresholds.rules[0].transport.gdr: 'yes' "),
        ({"transport": {"network": []}}, "thresholds.rules[0].transport.network: [] "),
        ({"transport": {"gdr": True}, "limit": 1}, "thresholds.rules[0]: 'limit, transport' "),
        *(
            ({"transport": {"gdr": True}, name: value}, f"thresholds.rules[0].{name}: ")
            for name, value in (
                ("size", 8),
                ("min_bytes", 8),
                ("max_bytes", 8),
                ("over", "each"),
                ("metric", "avg_busbw"),
            )
        ),
    ],
)
def test_rules_are_checked(rule, message):
    with pytest.raises(OptionError) as caught:
        Judge({"rules": [rule]})
    assert str(caught.value).startswith(message) and len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"thresholds": {"rule": []}}, "thresholds.rule: "),
        ({"thresholds": {"rules": {"limit": 1}}}, "thresholds.rules: "),
        ({"thresholds": {"rules": ["fast"]}}, "thresholds.rules[0]: 'fast' "),
        ({"thresholds": {"topology": "eight rails"}}, "thresholds.topology: 'eight rails' "),
        ({"thresholds": {"topology": {"nics": 8}}}, "thresholds.topology.nics: 8 "),
        ({"thresholds": {"topology": {"rails": 0}}}, "thresholds.topology.rails: 0 "),
        ({"thresholds": {"topology": {"gpus": 0}}}, "thresholds.topology.gpus: 0 "),
        ({"thresholds": {"topology": {"nic_gbps": 1e9}}}, "thresholds.topology.nic_gbps: 1000000000.0 "),
        ({"thresholds": {"topology": {"in_network_reduction": "x"}}}, "thresholds.topology.in_network_reduction: 'x' "),
        ({"thresholds": {"reference": "mine"}}, "thresholds.reference: 'mine' "),
        ({"baseline": make_baseline([document()]), "baseline_percent": -1}, "baseline.tolerance_percent: -1 "),
        *(
            (
                {"thresholds": {"reference": "oci-h100", "reference_tolerance_percent": value}},
                f"thresholds.reference_tolerance_percent: {value} ",
            )
            for value in (100, -1)
        ),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(OptionError) as caught:
        Judge(**options)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"assertions": [{"msg": "x"}]}, "assertions[0].that: None "),
        ({"assertions": [{"that": True}]}, "assertions[0].that: True "),
        ({"assertions": [{"that": "a ==", "msg": "x"}]}, "assertions[0].that: 'a ==' "),
        ({"assertions": [{"that": "a", "message": "x"}]}, "assertions[0]: "),
        ({"assertions": [{"that": "!" * 5000 + "a"}]}, "assertions[0].that: '!!!"),
    ],
)
def test_assertions_are_checked(options, message, compiled):
    with pytest.raises(OptionError) as caught:
        Judge(compiled=compiled, **options)
    assert str(caught.value).startswith(message)


def test_numbers_at_the_limits_of_floats_make_no_infinity():
    tested = document()
    for row in tested["rows"]:
        row["out_of_place"].update(busbw=1e308, time_us=5e-324)
    rules = [{"limit": 1}, {"limit": 1, "metric": "out_of_place.time_us"}]
    assert "Infinity" not in json.dumps(Judge({"rules": rules}).judge(tested)["verdicts"])


@pytest.fixture
def example(compiled):
    """Judges by the example of the documentation."""
    text = (DOCS / "examples" / "acceptance.yml").read_text(encoding="utf-8")
    rules = pytest.importorskip("yaml").safe_load(text)
    return Judge(rules["report_thresholds"], assertions=rules["report_assertions"], compiled=compiled)


def test_the_example_can_be_applied(example):
    curve = [(8, 0.001), *((1 << exponent, 5.0 * exponent) for exponent in range(20, 34))]
    told = {
        entry["rule"]: entry["passed"] for entry in example.judge(document(curve, collective="all_gather"))["verdicts"]
    }
    assert told == {
        "no wrong values": True,
        "Network, all_gather": False,
        "Latency": True,
        "No dips": True,
        "No cliffs": None,
        "NCCL": True,
    }


@pytest.mark.parametrize("hosts", [2, 3, 4, 8, 16, 125])
@pytest.mark.parametrize(
    ("collective", "healthy"),
    # Shares of the ceiling that were published: OCI H100 (4 hosts); AWS H100.
    [("all_reduce", 391.10 / 400), ("all_gather", 338.57 / 400), ("alltoall", 79.11 / 93.75)],
)
def test_the_example_accepts_healthy_machines_of_any_number_and_no_lost_quarter(example, hosts, collective, healthy):
    most = ceiling(Topology(nic_gbps=400, rails=8), collective, 8 * hosts, hosts)[1]

    def judge(share):
        return example.judge(document([(8 * G, most * share - 10)], hosts=hosts, collective=collective))["verdict"]

    assert judge(healthy + 10 / most) == "pass"
    # Of two hosts, all_reduce does not show it: there is no such rule.
    assert judge(healthy * 0.75) == ("pass" if (collective, hosts) == ("all_reduce", 2) else "fail")


#: Of the ceiling, as was published: OCI H100 (4 hosts); AWS H100.
SHARES = {"all_reduce": 391.10 / 400, "all_gather": 338.57 / 400, "alltoall": 79.11 / 93.75}


@pytest.mark.parametrize(
    ("ranks", "hosts"), [(2, 1), (8, 1), (2, 2), (4, 4), (16, 2), (24, 3), (64, 8), (128, 16), (1000, 125)]
)
@pytest.mark.parametrize("collective", SHARES)
def test_the_example_accepts_healthy_machines_from_2_to_1000_ranks(example, ranks, hosts, collective):
    """Whole curves, with rules about latency, dips and cliffs, too; and no machine that lost a NIC where its number shows that."""

    def judge(share):
        curve = defaults.curve(collective, hosts, share)
        if ranks < hosts * defaults.GPUS and hosts > 1:
            # A GPU alone on its host has one NIC.
            most = ceiling(Topology(nic_gbps=400, rails=1), collective, ranks, hosts)[1] * SHARES[collective]
            moved = [(size, size * bus_factor(collective, ranks) / 1e9) for size, _value in curve]
            curve = [(size, volume / (30e-6 + volume / most)) for size, volume in moved]
        result = example.judge(defaults.document(collective, hosts, ranks, curve))
        return result["verdict"], [entry["message"] for entry in result["verdicts"] if entry["passed"] is False]

    verdict, missed = judge(1.0)
    assert verdict == "pass", missed
    if ranks == hosts * defaults.GPUS and hosts > 1 and (collective, hosts) != ("all_reduce", 2):
        assert judge(7 / 8)[0] == "fail"


def test_the_faults_that_the_example_sees():
    """The tables of docs/verdicts.md."""
    page = (DOCS / "verdicts.md").read_text(encoding="utf-8")
    for name, fault in defaults.FAULTS.items():
        shown = [defaults.missed_limits(one, hosts, *fault) for hosts in (2, 16) for one in defaults.judges()]
        assert f"| {name} | {' | '.join(shown)} |" in page
        peaks = [
            defaults.peak_text(hosts, *fault, size) for hosts in (2, 16) for size in (defaults.EARLIER_LARGEST, 8 * G)
        ]
        assert f"| {name} | {' | '.join(peaks)} |" in page


def test_assertions_need_a_library():
    with pytest.raises(GpufabricError, match="assertions need the Python library jmespath"):
        Judge(assertions=[{"that": "a"}])
