# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import pathlib
import random
import types

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.sweep import sweep_points
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import parse_results
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.sweep_analysis import sweep_results
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report.data import make_report

FIXTURES = pathlib.Path(__file__).parents[2] / "fixtures"
TEXT = (FIXTURES / "all_reduce_perf.txt").read_text(encoding="utf-8")

#: Names, evidence and values that mean something to one format or the other, and characters that none may hold.
HOSTILE = "<script>alert(1)</script> ]]> & \"quoted\" 'too' | `x` {{ 7*7 }} $\\frac$ \x1b[31mred\x00 \u202eback \ud800"


def parsed(text=TEXT):
    return parse_results(text.splitlines())


def measured(point, speed, noise):
    """A document of a point, its times from a start-up time and a bandwidth."""
    (document,) = copy.deepcopy(parsed())
    template = document["rows"][0]
    document["rows"] = []
    for exponent in range(3, 34, 2):
        row = copy.deepcopy(template)
        row["size"], row["count"] = 2**exponent, 2**exponent // 4
        for half, slower in (("out_of_place", 1.0), ("in_place", 1.04)):
            time = round((28 + 2**exponent / (speed * 1e3)) * slower * noise.uniform(0.98, 1.02), 2)
            algbw = round(2**exponent / time / 1e3, 2)
            row[half].update(time_us=time, algbw=algbw, busbw=round(algbw * 1.875, 2))
        document["rows"].append(row)
    halves = [(row[half]["busbw"], row["size"]) for row in document["rows"] for half in ("out_of_place", "in_place")]
    peak, size = max(halves)
    document["summary"].update(
        peak_busbw=peak, peak_size=size, avg_busbw=round(sum(value for value, size in halves) / len(halves), 3)
    )
    document["collective"] = point["collective"]
    document["points"] = {
        "argv": [f"/opt/nccl-tests/build/{point['collective']}_perf", "-b", "8", "-e", "8G", "-f", "2", "-g", "1"],
        "env": dict(point["env"]),
        "duration_s": 12.5,
        "sweep": point,
    }
    return document


@pytest.fixture(scope="session")
def swept():
    """A sweep of 24 points, as results of a run."""
    noise = random.Random(1)
    points = sweep_points(
        {
            "collectives": ["all_reduce", "all_gather"],
            "sizes": {"min": "8", "max": "8G", "factor": 4},
            "env": {"NCCL_ALGO": ["Ring", "Tree", "NVLS"]},
            "repeats": 3,
        }
    )
    speeds = {None: 180, "Ring": 182, "Tree": 140, "NVLS": 235}
    documents = [measured(point, speeds[point["env"].get("NCCL_ALGO")], noise) for point in points]
    assert len(documents) == 24
    return types.SimpleNamespace(points=points, documents=documents, results=sweep_results(documents, points))


@pytest.fixture(scope="session")
def isolation():
    """Each two of twelve hosts; one link is slow, one pair has failed."""
    noise = random.Random(2)
    hosts = [f"gpu-{number}" for number in range(1, 13)]
    pairs = [
        {"a": a, "b": b, "busbw": round(noise.uniform(46.5, 48.5), 2)}
        for place, a in enumerate(hosts)
        for b in hosts[place + 1 :]
    ]
    pairs[13]["busbw"] = 11.2
    pairs[40]["busbw"] = None
    nodes = [{"node": host, "verdict": "good", "where": None, "evidence": ["fast"]} for host in hosts]
    nodes[4].update(verdict="bad", where="between", evidence=["with gpu-2: 11.2 of 47.6 GB/s"])
    return {"pairs": pairs, "nodes": nodes, "limit": "all:!gpu-5"}


@pytest.fixture(scope="session")
def failed():
    """A test that fails, with problems, a limit that is missed and one that is kept."""
    (document,) = copy.deepcopy(parsed())
    document.update(
        verdict="fail",
        problems=[
            {
                "id": "output-cut",
                "severity": "warning",
                "host": None,
                "cause": "The output ends before the program's summary.",
                "cure": "Read the end of the output and the error output.",
                "evidence": "the last whole row is of 8 bytes",
            },
            {
                "id": "wrong-values",
                "severity": "error",
                "host": "g2",
                "cause": "The collective delivered wrong values.",
                "cure": "Run the test on each host alone, then on pairs, to find the machine or link that corrupts data.",
                "evidence": "3 at size 1048576 out-of-place",
            },
        ],
        verdicts=[
            {
                "rule": "busbw from 16 MiB",
                "message": "busbw at 1 GiB is below 370 GB/s",
                "passed": False,
                "value": 346.97,
                "limit": 370.0,
                "unit": "GB/s",
                "source": "0.95 of the ceiling of 8 x 400 Gb/s",
                "percent": -6.2,
                "metric": "out_of_place.busbw",
                "min_bytes": 16777216,
                "max_bytes": 1073741824,
            },
            {
                "rule": "time at 1 KiB",
                "message": "time at 1 KiB is at most 40 us",
                "passed": True,
                "value": 31.25,
                "limit": 40.0,
                "unit": "us",
                "source": "given",
                "percent": 21.9,
                "metric": "out_of_place.time_us",
                "size": 1024,
            },
        ],
    )
    return document


@pytest.fixture(scope="session")
def hostile():
    """A document in which every text that comes from a machine is hostile."""
    (document,) = copy.deepcopy(parsed())
    for rank in document["ranks"]:
        rank["host"], rank["name"] = HOSTILE, HOSTILE
    document["problems"] = [
        {"id": "x", "severity": "error", "host": HOSTILE, "cause": HOSTILE, "cure": HOSTILE, "evidence": HOSTILE}
    ]
    document["points"] = {"argv": ["perf", HOSTILE], "env": {"NCCL_X": HOSTILE, "NCCL_Y": "=1+1"}}
    document["tool"] = {**document["tool"], "version": HOSTILE}
    document.update(collective=HOSTILE, verdict="fail")
    return document


@pytest.fixture(scope="session")
def baseline():
    return {
        "measurements": [
            {
                "collective": "all_reduce",
                "size": size,
                "placement": "out_of_place",
                "busbw": {"median": median, "min": 0.96 * median, "max": 1.03 * median},
            }
            for size, median in ((1024, 0.06), (1048576, 27.1), (16777216, 180.0), (1073741824, 372.0))
        ]
    }


@pytest.fixture(scope="session")
def whole_report(swept, failed, isolation, baseline):
    """A report with everything in it."""
    documents = [*swept.documents, failed]
    return make_report(documents, "nightly-7", swept.results, isolation, baseline)
