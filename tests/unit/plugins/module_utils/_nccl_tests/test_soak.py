# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math
import pathlib
import random
import time

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import parse_file, parse_results
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.soak import (
    checked_soak,
    describe_dip,
    find_soak,
    soak_problems,
)

FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures" / "nccl_tests"
G, M = 1 << 30, 1 << 20


def rows(values, size=G, start=0, place="out_of_place"):
    """Rows of a size, one a minute, with these bandwidths."""
    return [
        {
            "size": size,
            "count": 1,
            "type": "float",
            "redop": "sum",
            "root": -1,
            "out_of_place": None,
            "in_place": None,
            place: {"time_us": 1.0, "algbw": 1.0, "busbw": value, "wrong": 0},
            "extra": {"timestamp": f"2026-11-22 {(start + number) // 60:02d}:{(start + number) % 60:02d}:00"},
        }
        for number, value in enumerate(values)
    ]


def noisy(count, noise=0.01, seed=1, shape=lambda share: 1.0):
    luck = random.Random(seed)
    return [370 * shape(number / count) * luck.gauss(1, noise) for number in range(count)]


def ids(found):
    return [problem.id for problem in soak_problems(find_soak(found), found)]


def test_the_peak_of_a_soak_is_that_of_the_medians():
    """A rule about the peak takes it, too: the best of many cycles says nothing of the others."""
    (document,) = parse_file(str(FIXTURES / "2.19.6-cycles.json"))
    medians = {entry["size"]: entry["median"] for entry in document["soak"]["sizes"]}
    best = max(half["busbw"] for row in document["rows"] for half in (row["out_of_place"], row["in_place"]))
    summary = document["summary"]
    assert (summary["peak_size"], summary["peak_busbw"]) == (65536, medians[65536]) and medians[65536] < best


def test_sizes_that_ran_once_are_no_soak():
    assert find_soak([]) is None and find_soak(rows([370.0])) is None
    assert find_soak(rows([370.0]) + rows([360.0], size=M)) is None
    # Datatypes of one size are no cycles.
    other = [{**row, "type": "half"} for row in rows([370.0])]
    assert find_soak(rows([370.0]) + other) is None


def test_sizes_that_were_rounded_to_the_same_are_no_cycles():
    """all_gather_perf -b 8 -f 2 of 4 ranks begins with sizes of 0 bytes; a step of few bytes gives one size several times."""
    cycle = [row for size in (0, 0, 0, 64, 128, 128, 128, 192) for row in rows([370.0], size)]
    assert find_soak(cycle) is None and find_soak(cycle[:3]) is None
    soak = find_soak(cycle * 3)
    assert soak["cycles"] == 3
    assert [(entry["size"], entry["cycles"]) for entry in soak["sizes"]] == [(64, 3), (128, 3), (192, 3)]


def test_a_dip_has_its_moment():
    values = noisy(100)
    values[41] = 280.0
    found = rows(values)
    soak = find_soak(found)
    assert (soak["cycles"], soak["begin"], soak["end"]) == (100, "2026-11-22 00:00:00", "2026-11-22 01:39:00")
    (dip,) = soak["dips"]
    assert dip == {
        "cycle": 42,
        "time": "2026-11-22 00:41:00",
        "size": G,
        "busbw": 280.0,
        "percent": pytest.approx(24.3, abs=0.5),
    }
    (entry,) = soak["sizes"]
    assert (entry["cycles"], entry["min"], entry["dips"]) == (100, 280.0, 1) and abs(entry["drift_percent"]) < 1
    assert describe_dip(dip).startswith("cycle 42, 2026-11-22 00:41:00: 280 GB/s at 1 GiB, 24.")
    (problem,) = soak_problems(soak, found)
    assert (problem.id, problem.severity) == (
        "soak-dip",
        "warning",
    ) and "cycle 42, 2026-11-22 00:41:00" in problem.evidence


def test_a_dip_in_an_output_is_among_its_problems():
    text = (FIXTURES / "2.17-run-cycles.txt").read_text(encoding="utf-8")
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("     1048576"))
    cycle = lines[first : first + 3]
    slow = [line.replace("600.00   27.96   41.94", "900.00   18.64   27.96") for line in cycle]
    (document,) = parse_results([*lines[:first], *cycle * 5, *slow, *lines[first:]])
    assert "soak-dip" in [entry["id"] for entry in document["problems"]]


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.05])
@pytest.mark.parametrize("count", [2, 3, 5, 6, 30, 300])
def test_noise_is_neither_dip_nor_drift(count, noise):
    for seed in range(20):
        assert ids(rows(noisy(count, noise, seed))) == []


@pytest.mark.parametrize(
    ("shape", "drift", "found"),
    [
        (lambda share: 1 - 0.1 * share, -6.7, ["soak-drift"]),
        (lambda share: 1.0 if share < 0.5 else 0.93, -7.0, ["soak-drift"]),
        (lambda share: 1 + 0.1 * share, 6.7, []),
        (lambda share: 1 - 0.05 * share, -3.3, []),
    ],
)
def test_drift(shape, drift, found):
    soaked = rows(noisy(120, 0.005, shape=shape))
    assert find_soak(soaked)["sizes"][0]["drift_percent"] == pytest.approx(drift, abs=0.8)
    assert ids(soaked) == found


@pytest.mark.parametrize(("noise", "found"), [(0.9, ["soak-drift"]), (1.1, [])])
def test_a_drift_is_one_that_is_four_deviations_of_its_noise(noise, found):
    """Of each third of 6 the deviation is 1.52 times the noise here, and the median falls by 6 % of 97."""
    soaked = rows([level + noise * (-1) ** number for level in (100, 97, 94) for number in range(6)])
    assert find_soak(soaked)["sizes"][0]["drift_percent"] == -6.0
    assert ids(soaked) == found


def test_of_fewer_than_six_cycles_there_is_no_drift():
    drifts = [find_soak(rows([400.0] * 3 + [300.0] * (count - 3)))["sizes"][0]["drift_percent"] for count in (5, 6)]
    assert drifts == [None, -25.0]
    # One cycle that was disturbed is none.
    assert find_soak(rows([800.0] + [400.0] * 8))["sizes"][0]["drift_percent"] == 0


def test_a_drift_is_told_with_the_most_that_a_size_lost():
    curves = [
        rows([400 * (1 - share * number / 120) for number in range(120)], size)
        for size, share in ((G, 0.1), (2 * G, 0.3))
    ]
    found = [row for cycle in zip(*curves) for row in cycle]
    (problem,) = soak_problems(find_soak(found), found)
    # From the middle of the first third, 19.5 of 120, to that of the last, 99.5.
    assert "by 21 %" in problem.cause and problem.evidence == "-6.78 % at 1 GiB, -21 % at 2 GiB"


def test_of_many_dips_the_deepest_are_kept_in_their_order():
    values = [400.0] * 400
    values[10:70] = range(240, 300)
    soak = find_soak(rows(values[::-1]))
    assert soak["sizes"][0]["dips"] == 60
    assert [dip["busbw"] for dip in soak["dips"]] == list(range(289, 239, -1))


def test_small_sizes_are_noise():
    values = [0.5, 0.5, 0.5, 0.1, 0.5, 0.5, 0.2, 0.2, 0.2]
    assert ids(rows(values, size=1024)) == [] and ids(rows(values, size=M)) == ["soak-dip", "soak-drift"]
    assert find_soak(rows(values, size=1024))["sizes"][0]["drift_percent"] == -60


def test_sizes_are_told_apart_and_what_is_missing_is_left_out():
    found = [
        row
        for pair in zip(rows([1.0] * 7, size=8), rows([370.0, None, 371.0, math.inf, 372.0, 370.0, 371.0]))
        for row in pair
    ]
    soak = find_soak(found[:-1])
    assert [(entry["size"], entry["cycles"]) for entry in soak["sizes"]] == [(8, 7), (G, 4)]
    assert soak["cycles"] == 7 and soak["sizes"][1]["drift_percent"] is None
    assert find_soak(rows([1.0] * 3, place="in_place"))["sizes"][0]["median"] == 1.0
    assert find_soak(rows([None, None]))["sizes"] == []
    assert find_soak(rows([0.0] * 9))["sizes"][0]["drift_percent"] is None


def test_times_that_are_none_are_not_told():
    found = rows([370.0] * 8 + [200.0])
    for row, extra in zip(
        found, [{}, {"timestamp": 5}, {"timestamp": "yesterday"}, *[{"timestamp": "2026-11-22 x"}] * 6]
    ):
        row["extra"] = extra
    del found[0]["extra"]
    soak = find_soak(found)
    assert (soak["begin"], soak["end"]) == (None, None)
    assert soak["dips"][0]["time"] is None and describe_dip(soak["dips"][0]).startswith("cycle 9: 200 GB/s")


def test_a_soak_of_days_is_bounded_and_read_in_linear_time():
    values = [370.0 if number % 100 else 100.0 for number in range(100_000)]
    found = [row for cycle in zip(rows(values), rows(values, size=2 * G)) for row in cycle]
    found += [row for _cycle in range(2) for size in range(2000) for row in rows([1.0], size=size)]
    begin = time.process_time()
    soak = find_soak(found)
    assert soak["sizes"][0]["dips"] == 1000 and len(soak["dips"]) == 50 and len(soak["sizes"]) == 1000
    assert len(list(soak_problems(soak, found))) == 1
    # It takes about a second; quadratic, it would be an hour.
    assert time.process_time() - begin < 60


def test_real_outputs_with_cycles():
    (document,) = parse_file(str(FIXTURES / "2.17-run-cycles.txt"))
    assert document["soak"]["cycles"] == 3 and document["verdict"] == "pass"
    (document,) = parse_file(str(FIXTURES / "2.19.6-cycles.json"))
    assert document["soak"]["cycles"] == 2 and len(document["soak"]["sizes"]) == 3


@pytest.mark.parametrize(
    "value",
    [
        [],
        "x",
        {"cycles": 2},
        {"cycles": 2, "begin": None, "end": None, "sizes": [{}], "dips": []},
        {"cycles": 2, "begin": None, "end": None, "sizes": [], "dips": [{"cycle": "1"}]},
        {"cycles": -2, "begin": None, "end": None, "sizes": [], "dips": []},
    ],
)
def test_a_soak_that_is_none_is_refused(value):
    with pytest.raises(GpufabricError, match="soak"):
        checked_soak(value)
    soak = find_soak(rows(noisy(10)))
    assert checked_soak(soak) == soak and checked_soak(None) is None
