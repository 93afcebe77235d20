# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import itertools
import math
import random

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.sweep import sweep_points
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import RESULT_SCHEMA
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.sweep_analysis import (
    is_slower,
    sweep_markdown,
    sweep_results,
    sweep_table,
)

SWEEP = {
    "collectives": ["all_reduce"],
    "sizes": {"min": "1K", "max": "16M", "factor": 4},
    "env": {"NCCL_ALGO": [None, "Ring", "Tree"], "NCCL_PROTO": [None, "LL"]},
    "repeats": 5,
}

TABLE = """\
6 of 6 tests used.

collective  sizes              default us  best us  busbw GB/s  gain %  noise %  beyond noise  best
all_reduce  1 KiB to 64 KiB         22.03    14.69        1.30    50.0      0.0  yes           NCCL_ALGO=Ring
all_reduce  256 KiB to 16 MiB      256.15   170.76       12.56    50.0      0.0  yes           NCCL_ALGO=Ring

Change of speed by one factor, all others held; see the noise above
collective  sizes              factor     level  over     median %  mean %  pairs
all_reduce  1 KiB to 64 KiB    NCCL_ALGO  Ring   not set     +50.0   +50.0      1
all_reduce  256 KiB to 16 MiB  NCCL_ALGO  Ring   not set     +50.0   +50.0      1

A gain is beyond the noise if the logarithm of its factor exceeds 2.5 times the coefficient of
variation of the repeats, the largest of the default's, the setting's and that of all settings
together, with 3 repeats or more of both.

For all jobs, 50.0 % faster on average, in the environment or /etc/nccl.conf (NCCL_* only):
  NCCL_ALGO=Ring
"""


def document(point, seconds_of, verdict="pass"):
    """The result of a point, whose times a function of the point and the size says, in microseconds."""
    rows = []
    size = point["options"]["min_bytes"]
    while size <= point["options"]["max_bytes"]:
        time = seconds_of(point, size)
        half = {"time_us": time, "algbw": size / time / 1e3, "busbw": size / time / 1e3, "wrong": 0}
        rows.append({"size": size, "out_of_place": half, "in_place": half})
        size *= point["options"]["step_factor"]
    return {
        "schema": RESULT_SCHEMA,
        "collective": point["collective"],
        "points": {"sweep": point},
        "rows": rows,
        "verdict": verdict,
    }


def machine(gains, noise=0.0, seed=0):
    """A machine on which variables make an operation faster: ``gains`` by (variable, value), where a size is."""
    rng = random.Random(seed)
    factors = {}

    def time(point, size):
        # What disturbs a run disturbs all of its sizes.
        factor = factors.setdefault(point["id"], max(0.1, rng.gauss(1, noise)))
        for item in point["env"].items():
            gain = gains.get(item, 0.0)
            factor /= 1 + (gain(size) if callable(gain) else gain)
        return (20 + size / 1e4) * factor

    return time


def run(sweep, time):
    return [document(point, time) for point in sweep_points(sweep)]


def test_best_setting_of_each_band():
    gains = {
        ("NCCL_ALGO", "Tree"): lambda size: 0.5 if size <= 65536 else -0.5,
        ("NCCL_ALGO", "Ring"): lambda size: 0.25 if size > 65536 else 0.0,
    }
    results = sweep_results(run(SWEEP, machine(gains, noise=0.01)))
    bands = results["bands"]
    assert [(band["min_bytes"], band["max_bytes"], band["sizes"]) for band in bands] == [
        (2**10, 2**16, 4),
        (2**18, 2**22, 3),
        (2**24, 2**24, 1),
    ]
    assert [band["best"]["env"]["NCCL_ALGO"] for band in bands] == ["Tree", "Ring", "Ring"]
    assert [band["best"]["beyond_noise"] for band in bands] == [True] * 3
    assert [band["best"]["gain_percent"] for band in bands] == pytest.approx([50, 25, 25], abs=4)
    # LL does nothing, so it is not advised along with what does.
    assert [band["advice"]["lines"] for band in bands] == [["NCCL_ALGO=Tree"], ["NCCL_ALGO=Ring"], ["NCCL_ALGO=Ring"]]
    assert results["overall"]["lines"] == ["NCCL_ALGO=Ring"]
    assert results["overall"]["gain_percent"] == pytest.approx(100 * (1.25 ** (2 / 3) - 1), abs=3)
    assert (results["counts"]["used"], results["excluded"], results["missing"]) == (30, [], [])


def test_times_and_bandwidths():
    band = sweep_results(run({"sizes": {"min": "16M", "max": "16M"}, "repeats": 3}, machine({})))["bands"][0]
    time = 20 + 2**24 / 1e4
    assert band["best"]["time_us"] == pytest.approx(time)
    assert band["best"]["busbw"] == pytest.approx(2**24 / time / 1e3)
    assert (band["best"]["env"], band["best"]["gain_percent"], band["best"]["beyond_noise"]) == ({}, 0, False)
    assert (band["default"], band["advice"]["lines"]) == (band["best"], [])


def test_of_a_size_that_ran_in_several_cycles_the_median_counts():
    documents = run({"sizes": {"min": "16M", "max": "16M"}, "repeats": 3}, machine({}))
    for tested in documents:
        (row,) = tested["rows"]
        slow = {**row["out_of_place"], "time_us": 10 * row["out_of_place"]["time_us"], "busbw": 0.1}
        tested["rows"] += [row, {**row, "out_of_place": slow, "in_place": slow}]
    best = sweep_results(documents)["bands"][0]["best"]
    time = 20 + 2**24 / 1e4
    assert (best["time_us"], best["busbw"]) == (pytest.approx(time), pytest.approx(2**24 / time / 1e3))


@pytest.mark.parametrize("noise", [0.05, 0.5])
def test_no_gain_is_claimed_where_there_is_none(noise):
    """The best of 6 settings that are all the same looks 5 % better and more, and is so rarely called beyond the noise."""
    claimed, looked = 0, []
    for seed in range(100):
        for band in sweep_results(run({**SWEEP, "repeats": 3}, machine({}, noise, seed)), bands=["16M"])["bands"]:
            claimed += band["best"]["beyond_noise"]
            looked.append(band["best"]["gain_percent"])
            assert bool(band["advice"]["lines"]) == band["best"]["beyond_noise"]
    assert sum(looked) / len(looked) > 2
    assert claimed <= 5


def test_a_gain_is_found_in_noise_that_is_smaller():
    found = 0
    for seed in range(50):
        results = sweep_results(run(SWEEP, machine({("NCCL_PROTO", "LL"): 0.4}, 0.05, seed)), bands=["16M"])
        found += results["overall"]["lines"] == ["NCCL_PROTO=LL"]
    assert found >= 45


def test_a_gain_within_the_noise_is_told_but_not_advised():
    times = {"": [100, 110, 90], "Ring": [95, 104, 86]}

    def time(point, size):
        return times[point["env"].get("NCCL_ALGO", "")][point["repeat"] - 1]

    sweep = {"sizes": {"min": "1M", "max": "1M"}, "env": {"NCCL_ALGO": [None, "Ring"]}}
    results = sweep_results(run(sweep, time))
    best = results["bands"][0]["best"]
    assert (best["env"], best["beyond_noise"]) == ({"NCCL_ALGO": "Ring"}, False)
    assert best["gain_percent"] == pytest.approx(100 * (100 / 95 - 1))
    # The factor of 2.5 times 10 %, the variation of the default.
    assert best["noise_percent"] == pytest.approx(100 * math.expm1(0.25))
    assert results["bands"][0]["advice"]["lines"] == results["overall"]["lines"] == []


def test_advice_for_all_jobs_is_no_setting_whose_gains_are_within_its_noise():
    # Tree is faster on average, but beyond its noise in no band; Ring is so in the first one.
    times = {"": ([100] * 3, [100] * 3), "Ring": ([77] * 3, [100] * 3), "Tree": ([65, 78, 91], [64, 77, 90])}

    def time(point, size):
        return times[point["env"].get("NCCL_ALGO", "")][size > 2**16][point["repeat"] - 1]

    sweep = {"sizes": {"min": "64K", "max": "128K"}, "env": {"NCCL_ALGO": [None, "Ring", "Tree"]}}
    results = sweep_results(run(sweep, time), bands=["64K"])
    assert [band["advice"]["lines"] for band in results["bands"]] == [["NCCL_ALGO=Ring"], []]
    assert results["overall"]["lines"] == ["NCCL_ALGO=Ring"]


@pytest.mark.parametrize("repeats", [1, 2])
def test_too_few_repeats_say_nothing_of_noise(repeats):
    results = sweep_results(run({**SWEEP, "repeats": repeats}, machine({("NCCL_ALGO", "Ring"): 9.0})))
    for band in results["bands"]:
        assert band["best"]["gain_percent"] == pytest.approx(900)
        assert (band["best"]["beyond_noise"], band["best"]["noise_percent"]) == (None, None)
        assert band["best"]["why"] == f"{repeats} of 3 repeats of the default"
        assert band["advice"]["lines"] == band["advice"]["nccl_conf"] == []
    assert results["overall"]["lines"] == []


def test_without_the_default_there_is_no_gain():
    sweep = {**SWEEP, "env": {"NCCL_ALGO": ["Ring", "Tree"]}, "default": False}
    documents = run(sweep, machine({("NCCL_ALGO", "Ring"): 1.0}))
    band = sweep_results(documents)["bands"][0]
    assert (band["default"], band["best"]["env"]) == (None, {"NCCL_ALGO": "Ring"})
    assert (band["best"]["gain_percent"], band["best"]["beyond_noise"]) == (None, None)
    assert band["best"]["why"] == "the default was not measured"
    named = sweep_results(documents, default={"NCCL_ALGO": "Tree"})
    assert named["bands"][0]["best"]["gain_percent"] == pytest.approx(100)
    assert named["overall"]["lines"] == ["NCCL_ALGO=Ring"]
    with pytest.raises(OptionError, match="^default: "):
        sweep_results(documents, default={"NCCL_ALGO": "tree"})


@pytest.mark.parametrize("values", [("Ring", "LL"), ("8", 4)])
def test_the_default_may_be_typed_in_any_order_and_as_numbers(values):
    names = ("NCCL_PROTO", "NCCL_ALGO")
    sweep = {**SWEEP, "env": {"NCCL_ALGO": [None, str(values[1])], "NCCL_PROTO": [None, values[0]]}}
    results = sweep_results(run(sweep, machine({("NCCL_ALGO", str(values[1])): 1.0})), default=dict(zip(names, values)))
    band = results["bands"][0]
    assert band["default"]["env"] == {"NCCL_ALGO": str(values[1]), "NCCL_PROTO": values[0]}
    gains = {len(entry["env"]): entry["gain_percent"] for entry in band["settings"] if "NCCL_ALGO" not in entry["env"]}
    assert gains == {0: pytest.approx(-50), 1: pytest.approx(-50)}


def test_noise_of_all_settings_counts_each_by_its_repeats():
    times = {"": [100, 100, 100], "Ring": [95, 100, 105, 100, 100], "Tree": [90, 110]}
    points = [
        point
        for point in sweep_points({**SWEEP, "env": {"NCCL_ALGO": [None, "Ring", "Tree"]}})
        if point["repeat"] <= len(times[point["env"].get("NCCL_ALGO", "")])
    ]
    documents = [
        document(point, lambda point, size: times[point["env"].get("NCCL_ALGO", "")][point["repeat"] - 1])
        for point in points
    ]
    ring = next(
        entry for entry in sweep_results(documents)["bands"][0]["settings"] if entry["env"] == {"NCCL_ALGO": "Ring"}
    )
    # The squares of the distances from the means are 0, 50 and 200, with 2 + 4 + 1 degrees of freedom; the means are 100.
    assert ring["noise_percent"] == pytest.approx(100 * math.expm1(0.025 * (250 / 7) ** 0.5))


def test_what_ran_too_rarely_in_one_band_is_no_advice_for_all_jobs():
    sweep = {**SWEEP, "collectives": ["all_reduce", "all_gather"], "env": {"NCCL_ALGO": [None, "Ring", "Tree"]}}
    time = machine({("NCCL_ALGO", "Ring"): 1.0, ("NCCL_ALGO", "Tree"): 0.5})
    documents = [
        document(point, time)
        for point in sweep_points(sweep)
        if point["repeat"] <= 2 or point["collective"] == "all_reduce" or point["env"] != {"NCCL_ALGO": "Ring"}
    ]
    results = sweep_results(documents)
    assert [band["advice"]["lines"] for band in results["bands"]] == [["NCCL_ALGO=Ring"]] * 3 + [["NCCL_ALGO=Tree"]] * 3
    assert [band["best"]["why"] for band in results["bands"]] == [""] * 3 + ["2 of 3 repeats"] * 3
    assert results["overall"]["lines"] == ["NCCL_ALGO=Tree"]


@pytest.mark.parametrize(
    ("own", "names"),
    [
        ({"datatypes": ["float", "half"]}, ["all_reduce float", "all_reduce half"]),
        ({"ranks_per_node": [1, 8]}, ["all_reduce 1 ranks per node", "all_reduce 8 ranks per node"]),
        ({"ranks_per_node": [8]}, ["all_reduce"]),
    ],
)
def test_jobs_are_told_apart_in_the_tables(own, names):
    results = sweep_results(run({"repeats": 1, "sizes": {"min": "1K", "max": "1K"}, **own}, machine({})))
    told = [line.partition("  ")[0] for line in sweep_table(results).splitlines() if line.endswith("nothing set")]
    assert told == names
    assert [f"| {name} | 1 KiB |" in sweep_markdown(results) for name in names] == [True] * len(names)


@pytest.mark.parametrize(
    ("problem", "complete", "used"),
    [("limit-missed", True, 15), ("limit-missed", False, 10), ("hosts-differ", True, 10)],
)
def test_what_misses_a_limit_was_measured_all_the_same(problem, complete, used):
    points = sweep_points({**SWEEP, "env": {"NCCL_ALGO": [None, "Ring", "Tree"]}})
    documents = [document(point, machine({("NCCL_ALGO", "Tree"): 0.5}), "pass") for point in points]
    for slow in documents:
        if slow["points"]["sweep"]["env"].get("NCCL_ALGO") == "Tree":
            slow.update(verdict="fail", complete=complete, problems=[{"id": problem, "severity": "error"}])
    assert sweep_results(documents, points)["counts"]["used"] == used


def test_failed_points_are_counted_and_not_used():
    sweep = {**SWEEP, "env": {"NCCL_ALGO": [None, "Ring", "Tree"]}}
    points = sweep_points(sweep)
    time = machine({("NCCL_ALGO", "Tree"): 2.0, ("NCCL_ALGO", "Ring"): 1.0})
    # Tree is the fastest, and wrong in one of its repeats.
    verdicts = {("Tree", 2): "fail", (None, 1): "incomplete", (None, 2): "unchecked"}
    documents = []
    for point in points:
        verdict = verdicts.get((point["env"].get("NCCL_ALGO"), point["repeat"]), "pass")
        wild = verdict in ("fail", "incomplete")
        documents.append(document(point, (lambda point, size: 0.01) if wild else time, verdict))
    results = sweep_results(documents, points)
    assert results["counts"] == {
        "documents": 15,
        "used": 13,
        "fail": 1,
        "incomplete": 1,
        "missing": 0,
        "repeated": 0,
        "foreign": 0,
    }
    assert sorted(item["verdict"] for item in results["excluded"]) == ["fail", "incomplete"]
    band = results["bands"][0]
    assert band["settings"][0]["env"] == {"NCCL_ALGO": "Tree"}
    assert (band["settings"][0]["failed"], band["settings"][0]["repeats"]) == (1, 4)
    assert band["settings"][0]["gain_percent"] == pytest.approx(200)
    assert (band["best"]["env"], band["best"]["gain_percent"]) == ({"NCCL_ALGO": "Ring"}, pytest.approx(100))
    assert (band["default"]["repeats"], band["default"]["failed"]) == (4, 1)
    assert results["overall"]["lines"] == ["NCCL_ALGO=Ring"]


def test_missing_points_are_told_and_the_rest_is_read():
    points = sweep_points(SWEEP)
    documents = run(SWEEP, machine({("NCCL_ALGO", "Ring"): 0.5}))
    gone = [point["id"] for point in points if point["env"] == {"NCCL_ALGO": "Ring"} and point["repeat"] > 2]
    kept = [item for item in documents if item["points"]["sweep"]["id"] not in gone]
    results = sweep_results(kept, points)
    assert (sorted(results["missing"]), results["counts"]["missing"]) == (sorted(gone), 3)
    entry = next(item for item in results["bands"][0]["settings"] if item["env"] == {"NCCL_ALGO": "Ring"})
    assert (entry["beyond_noise"], entry["why"]) == (None, "2 of 3 repeats")
    # What is measured often enough is advised, if it sets more.
    assert results["bands"][0]["advice"]["env"] == {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}
    empty = sweep_results([], points)
    assert (empty["counts"]["missing"], empty["bands"], empty["overall"]["lines"]) == (30, [], [])


def test_all_points_of_the_default_failed():
    documents = run(SWEEP, machine({("NCCL_ALGO", "Ring"): 0.5}))
    for item in documents:
        if not item["points"]["sweep"]["env"]:
            item.update(verdict="fail", rows=[])
    band = sweep_results(documents)["bands"][0]
    assert (band["default"], band["best"]["beyond_noise"], band["advice"]["lines"]) == (None, None, [])


def test_a_later_document_replaces_an_earlier_one_and_others_are_let_be():
    points = sweep_points({"repeats": 3, "sizes": {"max": "1K"}})
    earlier = document(points[0], lambda point, size: 1.0, "incomplete")
    foreign = {**earlier, "points": {"argv": []}}
    counts = sweep_results([earlier, foreign, *(document(point, machine({})) for point in points)])["counts"]
    assert (counts["used"], counts["incomplete"], counts["repeated"], counts["foreign"]) == (3, 0, 1, 1)


def test_a_placement_that_was_not_measured_is_left_out():
    time = machine({("NCCL_ALGO", "Ring"): 0.5})
    documents = run({**SWEEP, "repeats": 3}, time)
    expected = sweep_results(documents)
    for document in documents:
        document["rows"] = [{**row, "in_place": None} for row in document["rows"]]
    assert sweep_results(documents) == expected
    for document in documents:
        document["rows"] = [
            {**row, "out_of_place": {**row["out_of_place"], "time_us": None}} for row in document["rows"]
        ]
    assert sweep_results(documents)["bands"] == []


def test_only_sizes_that_all_runs_have_are_compared():
    documents = run({**SWEEP, "env": {"NCCL_ALGO": [None, "Ring"]}}, machine({("NCCL_ALGO", "Ring"): 0.5}))
    short = next(item for item in documents if item["points"]["sweep"]["env"])
    short["rows"] = short["rows"][:-1]
    # Too short to be printed.
    documents[0]["rows"][0] = {**documents[0]["rows"][0], "in_place": {"time_us": 0.0, "busbw": 0.0}}
    bands = sweep_results(documents)["bands"]
    assert [(band["min_bytes"], band["max_bytes"]) for band in bands] == [(4096, 2**16), (2**18, 2**22)]
    assert [band["best"]["gain_percent"] for band in bands] == pytest.approx([50, 50])


def test_effect_of_each_factor_with_the_others_held():
    sweep = {**SWEEP, "ranks_per_node": [1, 8], "datatypes": ["float", "half"], "repeats": 1}
    gains = {("NCCL_ALGO", "Ring"): 0.5, ("NCCL_ALGO", "Tree"): -0.5, ("NCCL_PROTO", "LL"): 0.1}
    inner = machine(gains)

    def time(point, size):
        slow = 2 if point["ranks_per_node"] == 8 else 1
        return inner(point, size) * slow * (0.8 if point["options"]["datatype"] == "half" else 1)

    effects = sweep_results(run(sweep, time), bands=["16M"])["effects"]
    found = {(item["factor"], item["reference"], item["level"]): item for item in effects}
    expected = {
        ("datatype", "float", "half"): (25, 12),
        ("ranks_per_node", 1, 8): (-50, 12),
        ("NCCL_ALGO", None, "Ring"): (50, 8),
        ("NCCL_ALGO", None, "Tree"): (-50, 8),
        ("NCCL_PROTO", None, "LL"): (10, 12),
    }
    assert set(found) == set(expected)
    for key, (change, pairs) in expected.items():
        assert found[key]["median_percent"] == pytest.approx(change)
        assert found[key]["mean_percent"] == pytest.approx(change)
        assert found[key]["pairs"] == pairs


def test_effect_without_a_partner_for_the_default_is_from_another_level():
    sweep = {**SWEEP, "env": {"NCCL_ALGO": ["Ring", "Tree"], "NCCL_PROTO": ["LL", "Simple"]}, "repeats": 1}
    effects = sweep_results(run(sweep, machine({("NCCL_ALGO", "Tree"): 1.0})), bands=["16M"])["effects"]
    algo = [item for item in effects if item["factor"] == "NCCL_ALGO"]
    assert len(algo) == 1
    change = {("Ring", "Tree"): 100, ("Tree", "Ring"): -50}[algo[0]["reference"], algo[0]["level"]]
    assert (algo[0]["median_percent"], algo[0]["pairs"]) == (pytest.approx(change), 2)


def test_setting_for_all_jobs_was_measured_in_all_and_harms_none():
    # Tree is not run for all_gather, where it would fail; LL harms large sizes.
    sweep = {
        **SWEEP,
        "collectives": ["all_reduce", "all_gather"],
        "exclude": [{"NCCL_ALGO": "Tree", "collective": "all_gather"}],
    }
    gains = {
        ("NCCL_ALGO", "Tree"): 1.0,
        ("NCCL_ALGO", "Ring"): 0.2,
        ("NCCL_PROTO", "LL"): lambda size: 3.0 if size <= 65536 else -0.3,
    }
    results = sweep_results(run(sweep, machine(gains)))
    assert results["bands"][0]["advice"]["lines"] == ["NCCL_ALGO=Tree", "NCCL_PROTO=LL"]
    assert results["overall"]["lines"] == ["NCCL_ALGO=Ring"]


def test_file_of_nccl_gets_its_own_variables_only():
    sweep = {**SWEEP, "env": {"NCCL_ALGO": "Ring", "UCX_TLS": "rc"}}
    results = sweep_results(run(sweep, machine({("NCCL_ALGO", "Ring"): 0.5})))
    assert results["overall"]["lines"] == ["NCCL_ALGO=Ring", "UCX_TLS=rc"]
    assert results["overall"]["nccl_conf"] == ["NCCL_ALGO=Ring"]


@pytest.mark.parametrize(("short", "long"), [(5e-324, 1e300), (1e-8, 1e14), (1e-8, 1e300)])
def test_times_of_a_launcher_may_be_anything(short, long):
    documents = run(SWEEP, lambda point, size: short if (size > 65536) == bool(point["env"]) else long)
    points = [document["points"]["sweep"] for document in documents]
    for seconds in ([1.0], [-1.0, 1e-308, 1 << 63], [1.7e308]):
        for document, duration in zip(documents[:-1], itertools.cycle(seconds)):
            document["points"]["duration_s"] = duration
        results = sweep_results(documents, points)
        assert sweep_table(results) and sweep_markdown(results)


def test_table():
    sweep = {**SWEEP, "env": {"NCCL_ALGO": [None, "Ring"]}, "repeats": 3}
    results = sweep_results(run(sweep, machine({("NCCL_ALGO", "Ring"): 0.5})), bands=["64K"])
    assert sweep_table(results) == TABLE
    advice = "For all jobs, 50.0 % faster on average, in the environment or /etc/nccl.conf (NCCL_* only):\n\n    NCCL_ALGO=Ring\n"
    assert sweep_markdown(results).endswith(f"### Settings for all jobs\n\n{advice}")


def test_slower_is_what_is_so_by_the_same_factor():
    assert is_slower({"noise_percent": 25.0, "gain_percent": -20.1})
    assert not is_slower({"noise_percent": 25.0, "gain_percent": -19.9})


def test_markdown():
    sweep = {**SWEEP, "env": {"NCCL_ALGO": [None, "Ring|<b>"]}, "repeats": 2}
    documents = run(sweep, machine({("NCCL_ALGO", "Ring|<b>"): 0.5}))
    documents[0]["verdict"] = "fail"
    text = sweep_markdown(sweep_results(documents))
    assert text.startswith("## Sweep\n\n3 of 4 tests used, 1 failed.\n\n### Best settings\n\n| collective | sizes |")
    assert "| not known: 1 of 3 repeats of the default | NCCL_ALGO=Ring\\|&lt;b> |" in text
    point = documents[0]["points"]["sweep"]
    header = "### Points that are not used\n\n| point | verdict | id |\n| :--- | :--- | :--- |\n"
    assert f"{header}| all_reduce #1 | fail | {point['id']} |\n" in text
    # What is beyond the noise is said below the gains, and with what the changes are to be compared above these.
    assert " |\n\nA gain is beyond the noise if the logarithm of its factor exceeds" in text
    assert "### Change of speed by one factor, all others held\n\nCompare them with the noise above.\n\n| coll" in text
    assert "no setting is beyond the noise faster" in text
