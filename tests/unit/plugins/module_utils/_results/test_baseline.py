# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import json
import math
import pathlib
import random
import re
import statistics

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import parse_results
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.baseline import (
    BASELINE_SCHEMA,
    Key,
    Noise,
    _compared,
    baseline_samples,
    baseline_text,
    compare_results,
    make_baseline,
    read_baseline,
    samples_of,
    saved_text,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.verdict import Judge

LOG = pathlib.Path(__file__).parents[3] / "fixtures" / "all_reduce_perf.txt"
(DOCUMENT,) = parse_results(LOG.read_text(encoding="utf-8").splitlines())


def run(factor=1.0, noise=0.0, seed=1, **changes):
    """The fixture, with times that are a multiple of its own."""
    luck = random.Random(seed)
    document = copy.deepcopy({**DOCUMENT, **changes})
    for row in document["rows"]:
        for placement in ("out_of_place", "in_place"):
            times = factor * luck.gauss(1.0, noise)
            row[placement]["time_us"] *= times
            row[placement]["busbw"] /= times
    return document


def test_statistics_of_several_runs():
    baseline = make_baseline([run(factor) for factor in (1.0, 1.1, 0.9, 1.05, 3.0)])
    entry = baseline["measurements"][-1]
    row = DOCUMENT["rows"][-1]
    assert (entry["collective"], entry["ranks"], entry["hosts"], entry["placement"], entry["size"]) == (
        *("all_reduce", DOCUMENT["rank_count"], DOCUMENT["host_count"], "out_of_place"),
        row["size"],
    )
    time = row["out_of_place"]["time_us"]
    found = {**entry["time_us"], "values": len(entry["time_us"]["values"])}
    rounded = {
        name: pytest.approx(time * factor, rel=1e-5)
        for name, factor in {"median": 1.05, "mad": 0.05, "min": 0.9, "max": 3}.items()
    }
    # The run that was disturbed moves neither the median nor the deviation.
    assert found == {"n": 5, **rounded, "values": 5}
    assert [run["tool"] for run in baseline["runs"]] == ["nccl-tests"] * 5
    assert baseline["runs"][0]["hosts"] and baseline["runs"][0]["devices"]


def test_a_placement_that_was_not_measured_is_in_no_baseline():
    """As rccl-tests have it with -O, and a replay in place."""
    half = run()
    for row in half["rows"]:
        row["in_place"] = None
    assert {entry["placement"] for entry in make_baseline([half])["measurements"]} == {"out_of_place"}
    rows = compare_results([half], [run(0.5)])["rows"]
    assert {(row["placement"], row["outcome"]) for row in rows} == {
        ("out_of_place", "noise unknown"),
        ("in_place", "only after"),
    }


def test_a_comparison_is_in_the_order_of_sizes_and_has_signs():
    compared = compare_results([run(1.0)], [run(0.5)])
    sizes = [row["size"] for row in compared["rows"] if row["placement"] == "out_of_place"]
    assert sizes == sorted(sizes) and len(sizes) == len(DOCUMENT["rows"])
    assert compared["table"].count("+100.0") == len(compared["rows"]) == compared["markdown"].count("+100.0")


def test_roots_are_kept_apart_and_a_run_counts_once():
    other = run(2.0)
    for row in other["rows"]:
        row["root"] = 3
    baseline = make_baseline([run(), run(), other])
    assert len(baseline["runs"]) == 2
    assert {(entry["root"], entry["time_us"]["n"]) for entry in baseline["measurements"]} == {(-1, 1), (3, 1)}


def test_text_is_json_with_a_measurement_a_line_and_comes_back():
    baseline = make_baseline([run(), run(1.1)])
    text = baseline_text(baseline)
    assert json.loads(text) == baseline and read_baseline(text) == baseline
    lines = text.splitlines()
    assert sum(line.startswith('    {"tool"') for line in lines) == 2 * len(DOCUMENT["rows"])
    assert lines[1] == f'  "schema": "{BASELINE_SCHEMA}",'
    # Another run changes the measurements, and adds one line.
    more = baseline_text(make_baseline([run(1.2)], baseline)).splitlines()
    assert len(more) == len(lines) + 1
    assert samples_of([run(), run(1.1)]).keys() == baseline_samples(baseline).keys()


def test_baseline_is_of_the_published_schema():
    jsonschema = pytest.importorskip("jsonschema")
    path = pathlib.Path(__file__).parents[5] / "docs" / "schemas" / "baseline-v1.schema.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    baseline = json.loads(baseline_text(make_baseline([run(), run(1.1)])))
    jsonschema.Draft202012Validator(schema).validate(baseline)
    baseline["measurements"][0]["time_us"]["values"][0] = 0
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate(baseline)


def test_a_run_counts_once():
    first = make_baseline([run()])
    assert saved_text(first, []) == "all_reduce 1 run"
    assert make_baseline([run()], first) == first
    both = make_baseline([run(1.1)], first)
    assert [entry["time_us"]["n"] for entry in both["measurements"]] == [2] * 2 * len(DOCUMENT["rows"])


def swept(env, factor=1.0, **changes):
    return run(factor, points={"env": env, "sweep": {"id": "1", "name": "x", "env": env}}, **changes)


def test_settings_of_a_sweep_are_not_mixed():
    tree, default = {"NCCL_ALGO": "Tree"}, {}
    baseline = make_baseline([swept(env, factor) for env in (tree, default) for factor in (1.0, 1.01, 0.99)])
    number = 2 * len(DOCUMENT["rows"])
    assert [entry["time_us"]["n"] for entry in baseline["measurements"]] == [3] * 2 * number
    assert {entry["setting"] for entry in baseline["measurements"]} == {"", "NCCL_ALGO=Tree"}
    assert saved_text(baseline, [DOCUMENT, run(verdict="fail")]) == (
        "all_reduce NCCL_ALGO=Tree 3 runs, all_reduce 3 runs; left out, for they failed or are not complete: 1"
    )
    # What is not swept is as the default, and the other setting is told by its name.
    found = compare_results([swept(tree), run()], [run(1.1)])
    assert {row["setting"]: row["outcome"] for row in found["rows"]} == {
        "": "noise unknown",
        "NCCL_ALGO=Tree": "only before",
    }
    assert "all_reduce NCCL_ALGO=Tree" in found["table"]


BLOCKING = "# Blocking Enabled: wait and barrier after each inner iteration (-m) "


@pytest.mark.parametrize(
    ("printed", "options", "setting"),
    [
        (" agg iters: 1 ", " agg iters: 20 ", "agg_iters=20"),
        (" graph: 0", " graph: 2", "graph=2"),
        ("\n# Using devices", f"\n{BLOCKING}\n# Using devices", "blocking=True"),
        ("Rank  1 Group  0", "Rank  1 Group  1", "groups=2"),
    ],
)
def test_what_was_measured_in_another_way_is_another_measurement(printed, options, setting):
    usual = LOG.read_text(encoding="utf-8")
    assert printed in usual
    (document,) = parse_results(usual.replace(printed, options).splitlines())
    baseline = make_baseline([document], make_baseline([DOCUMENT]))
    assert {entry["setting"]: entry["time_us"]["n"] for entry in baseline["measurements"]} == {"": 1, setting: 1}
    assert saved_text(read_baseline(baseline_text(baseline)), []) == f"all_reduce 1 run, all_reduce {setting} 1 run"
    found = compare_results([DOCUMENT], [document])
    assert {row["setting"]: row["outcome"] for row in found["rows"]} == {"": "only before", setting: "only after"}
    entry = Judge(baseline=make_baseline([DOCUMENT]), baseline_percent=5).judge(document)["verdicts"][1]
    assert entry["passed"] is None and entry["message"].endswith(f"such out-of-place time_us with {setting}")


def test_a_baseline_of_a_former_release_has_runs_without_a_setting():
    baseline = make_baseline([swept({"NCCL_ALGO": "Tree"}), run()])
    for entry in baseline["runs"]:
        del entry["setting"]
    assert saved_text(read_baseline(baseline_text(baseline)), []) == "all_reduce NCCL_ALGO=Tree 1 run, all_reduce 1 run"


def test_runs_with_other_variables_are_not_added():
    before = make_baseline([run(points={"env": {"NCCL_ALGO": "Ring"}})])
    assert (
        make_baseline([run(1.1, points={"env": {"NCCL_ALGO": "Ring"}})], before)["measurements"][0]["busbw"]["n"] == 2
    )
    with pytest.raises(
        GpufabricError, match="runs of all_reduce with NCCL_ALGO=Ring, and this one is with NCCL_ALGO=un"
    ):
        make_baseline([run(1.1)], before)
    # Nor where both are new.
    with pytest.raises(GpufabricError, match="with NCCL_ALGO=Ring, and this one is with NCCL_ALGO=un"):
        make_baseline([run(points={"env": {"NCCL_ALGO": "Ring"}}), run(1.1)])
    # A point of a sweep is another test.
    assert len(make_baseline([swept({"NCCL_ALGO": "Tree"}, 1.1)], before)["runs"]) == 2


def test_rows_that_a_run_repeats_are_one_value():
    document = run()
    document["rows"] += copy.deepcopy(document["rows"])
    assert all(len(values["time_us"]) == 1 for values in samples_of([document]).values())


def test_calls_that_move_nothing_are_no_measurements():
    """Their times are those of calls that return at once: 0.16 to 0.24 us in one output of a healthy machine."""
    before, after = [run(noise=0.02, seed=seed) for seed in range(4)], run(noise=0.02, seed=5)
    for document, time in zip([*before, after], (0.16, 0.17, 0.16, 0.16, 0.24)):
        row = copy.deepcopy(document["rows"][0])
        row.update(size=0, count=0)
        for placement in ("out_of_place", "in_place"):
            row[placement].update(time_us=time, algbw=0.0, busbw=0.0)
        document["rows"].insert(0, row)
    assert {entry["size"] for entry in make_baseline(before)["measurements"]} == {
        row["size"] for row in after["rows"][1:]
    }
    assert set(outcomes(before, [after])) == {"within noise"}


def test_what_failed_is_not_kept():
    assert len(make_baseline([run(), run(1.1, verdict="fail")])["runs"]) == 1
    with pytest.raises(GpufabricError, match="no test can be kept in a baseline"):
        make_baseline([run(verdict="incomplete")])


WHOLE = baseline_text(make_baseline([DOCUMENT]))


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        "[" * 100000,
        "[]",
        WHOLE.replace("/baseline/v1", "/baseline/v2"),
        f'{{"schema": "{BASELINE_SCHEMA}"}}',
        f'{{"schema": "{BASELINE_SCHEMA}", "runs": [], "measurements": [{{}}]}}',
        f'{{"schema": "{BASELINE_SCHEMA}", "runs": [{{"digest": "1"}}], "measurements": []}}',
        WHOLE.replace('"values": [', '"values": ["x", ', 1),
        WHOLE.replace('"values": [', '"values": [-1.0, ', 1),
        re.sub('"digest": "[^"]*"', '"digest": []', WHOLE),
        re.sub(r'"values": \[[^]]*', '"values": [', WHOLE, count=1),
        WHOLE.replace('"values": [', f'"values": [1{"0" * 400}, ', 1),
        re.sub('("digest": .*?"tool": )"[^"]*"', r"\1{}", WHOLE, count=1),
        re.sub(r'("digest": .*?"points": )\{', r'\1{"sweep": "x", ', WHOLE, count=1).replace(", }", "}"),
        re.sub(r'("digest": .*?"points": )\{', r'\1{"env": ["x"], ', WHOLE, count=1).replace(", }", "}"),
        *(
            re.sub(f'("measurements": .*?"{name}": )("[^"]*"|-?[0-9]+)', rf"\1{value}", WHOLE, count=1, flags=re.DOTALL)
            for name, value in (("tool", "null"), ("root", "null"), ("ranks", '"x"'), ("setting", "[]"))
        ),
    ],
)
def test_other_text_is_refused(text):
    with pytest.raises(OptionError, match=r"^path: .*allowed: a document of the schema gpufabric.nccl/baseline/v1"):
        read_baseline(text, "path")


def outcomes(before, after):
    result = compare_results(before, after)
    assert sum(result["counts"].values()) == len(result["rows"])
    return {outcome: count for outcome, count in result["counts"].items() if count}


def test_what_differs_by_noise_is_within_it():
    number = 2 * len(DOCUMENT["rows"])
    before = [run(noise=0.02, seed=seed) for seed in range(5)]
    assert outcomes(before, [run(noise=0.02, seed=9)]) == {"within noise": number}
    assert outcomes(before, [run(1.5, noise=0.02, seed=9)]) == {"slower": number}
    assert outcomes(before, [run(0.66, noise=0.02, seed=9)]) == {"faster": number}
    # It may be known from the other side.
    assert outcomes([run(noise=0.02, seed=9)], before) == {"within noise": number}
    assert outcomes([run()], [run(1.01)]) == {"noise unknown": number}


def test_much_noise_is_no_difference_either():
    """A factor of two deviations is more than twice that of one: one run in twenty with 60 measurements is called different, at most."""
    keys = [
        Key("nccl-tests", "all_reduce", "float", "sum", -1, 16, 2, "", placement, 8 << size)
        for placement in ("in_place", "out_of_place")
        for size in range(30)
    ]
    luck = random.Random(1)
    told = 0
    for _run in range(60):
        before, after = (
            {key: {"time_us": [luck.lognormvariate(4, 0.2) for _value in range(number)]} for key in keys}
            for number in (5, 1)
        )
        noise = Noise(before, after)
        told += any(_compared(key, before[key], after[key], noise)["outcome"] != "within noise" for key in keys)
    assert told <= 3


def test_slower_and_faster_are_the_same_factor():
    before = [run(noise=0.04, seed=seed) for seed in range(6)]
    noise = Noise(samples_of(before))
    key = next(iter(samples_of(before)))
    limit = noise.percent(key, "time_us", (6, 1))
    median = statistics.median(samples_of(before)[key]["time_us"])
    for sign in (1, -1):
        for share, outcome in ((0.9, "within noise"), (1.1, "slower" if sign == 1 else "faster")):
            document = run()
            document["rows"][0]["out_of_place"]["time_us"] = median * (1 + share * limit / 100) ** sign
            rows = compare_results(before, [document])["rows"]
            (found,) = [r["outcome"] for r in rows if (r["size"], r["placement"]) == (key.size, key.placement)]
            assert (sign, share, found) == (sign, share, outcome)


@pytest.mark.parametrize("factor", [1e-17, 1e17, 1e300])
def test_absurd_times_are_compared_too(factor):
    assert set(outcomes([run(seed=seed, noise=0.01) for seed in range(3)], [run(factor)])) == {
        "slower" if factor > 1 else "faster"
    }


def test_what_only_one_side_has_is_told():
    short = run()
    del short["rows"][2:]
    assert outcomes([run()], [short])["only before"] == 2 * (len(DOCUMENT["rows"]) - 2)
    assert outcomes([run()], [run(collective="all_gather")]) == {
        "only before": 2 * len(DOCUMENT["rows"]),
        "only after": 2 * len(DOCUMENT["rows"]),
    }
    # Numbers of the CPU program are never held against NCCL's.
    cpu = run(tool={"name": "cpu", "version": None, "nccl_version": None})
    assert set(outcomes([run()], [cpu])) == {"only before", "only after"}
    assert compare_results([], [])["summary"] == "Nothing was measured on either side."


def test_a_run_that_is_named_twice_is_one_run():
    """Of the same file three times nothing is known of the noise."""
    assert set(outcomes([run()] * 3, [run(1.5)])) == {"noise unknown"}
    assert {row["before"]["n"] for row in compare_results([run(), run(1.1), run()], [run()])["rows"]} == {2}


def test_what_was_measured_without_its_time_is_on_both_sides():
    """With -C the programs print the time of the CPU in its place."""
    (before,) = parse_results((LOG.parent / "nccl_tests" / "2.17-cputime.txt").read_text().splitlines())
    baseline = make_baseline([before])
    assert read_baseline(baseline_text(baseline)) == baseline and not any(
        "time_us" in entry for entry in baseline["measurements"]
    )
    found = compare_results([before], [before])
    assert found["summary"] == f"{len(found['rows'])} measurements: {len(found['rows'])} without a time."
    assert {row["outcome"] for row in found["rows"]} == {"without a time"}
    timed = run(rows=run()["rows"][:1])
    untimed = copy.deepcopy(timed)
    untimed["rows"][0]["in_place"]["time_us"] = None
    for sides in (([timed], [untimed]), ([untimed], [timed])):
        assert outcomes(*sides) == {"noise unknown": 1, "without a time": 1}


def test_what_failed_or_is_not_complete_is_told():
    wrong, cut = run(verdict="fail"), run(verdict="incomplete")
    told = " Tests that failed are compared, too: 0 of 1 before, 2 of 3 after. Tests that are not complete are left out: 0 of 1 before, 1 of 3 after."
    found = compare_results([run()], [wrong, run(1.1, verdict="fail"), cut])
    assert found["summary"].endswith(told) and told in found["table"] and told in found["markdown"]
    assert {row["after"]["n"] for row in found["rows"]} == {2}
    assert "Tests that" not in compare_results([run()], [run(verdict="unchecked")])["summary"]


def test_another_transport_is_told():
    known = {
        "network": "IB",
        "plugin": None,
        "gdr": True,
        "mixed": False,
        "nics": {},
        "channels": 2,
        "nvls": None,
        "mnnvl": None,
    }
    known = {**known, "socket_interface": None, "connections": {}, "differences": [], "source": "nccl-debug"}
    found = compare_results([run(transport=known)], [run(transport={**known, "network": "Socket", "gdr": False})])
    assert found["transport"] == {"before": ["IB, GDR, 2 channels"], "after": ["Socket, no GDR, 2 channels"]}
    told = "Transport before: IB, GDR, 2 channels. Transport after: Socket, no GDR, 2 channels."
    assert found["summary"].endswith(told) and told in found["markdown"]
    assert found["markdown"].startswith("# Comparison\n\n6 measurements: ")
    ib = "IB, GDR, 2 channels"
    for before, after, words in ((None, known, ("unknown", ib)), (known, None, (ib, "unknown"))):
        found = compare_results([run(transport=before)], [run(transport=after)])
        assert found["summary"].endswith(f" Transport before: {words[0]}. Transport after: {words[1]}.")
    assert "Transport" not in compare_results([run()], [run()])["summary"]
    assert "Transport" not in compare_results([run(transport=known)], [run(transport=known)])["summary"]


def test_other_gpus_are_told():
    before, after, unknown = (run() for _side in range(3))
    for document, name in ((before, "NVIDIA A100-SXM4-80GB"), (after, "NVIDIA H100 80GB HBM3"), (unknown, None)):
        document["ranks"] = [{**rank, "name": name} for rank in document["ranks"]]
    found = compare_results([before], [after])
    told = "GPUs before: A100-SXM4-80GB. GPUs after: H100 80GB HBM3."
    assert found["summary"].endswith(told) and told in found["markdown"]
    for others in ([before], [unknown]):
        assert "GPUs" not in compare_results([before], others)["summary"]


def test_a_name_of_a_gpu_is_a_text_in_markdown():
    after = run()
    after["ranks"] = [{**rank, "name": "[H100](http://example.net) <img src=x>"} for rank in after["ranks"]]
    found = compare_results([run()], [after])
    assert "GPUs after: [H100](http://example.net) <img src=x>." in found["table"]
    assert r"GPUs after: \[H100\](http://example.net) &lt;img src=x>." in found["markdown"]


def test_table_and_markdown():
    before = [run(noise=0.001, seed=seed) for seed in range(3)]
    after = run()
    after["rows"][-1]["in_place"]["time_us"] *= 2
    result = compare_results(before, [after])
    number = len(result["rows"])
    assert result["summary"] == f"{number} measurements: 1 slower, {number - 1} within noise."
    (slower,) = [line for line in result["table"].splitlines() if "slower" in line and "within" not in line]
    assert slower.split()[:5] == ["all_reduce", str(after["rank_count"]), str(after["host_count"]), "float", "sum"]
    assert slower.split()[-3:] == ["-50.0", "2.0", "slower"]
    names = [
        "collective",
        "ranks",
        "hosts",
        "type",
        "placement",
        "size",
        "before us",
        "after us",
        "change %",
        "noise %",
        "outcome",
    ]
    assert re.split(" {2,}", result["table"].splitlines()[0]) == names
    assert result["markdown"].count(f"| {' | '.join(names)} |\n") == 2
    assert "\n\nTimes are medians over the runs. The change is that of the speed" in result["markdown"]
    assert result["markdown"].index("## Beyond the noise\n\n| collective") < result["markdown"].index(
        "## All measurements"
    )
    beyond, everything = result["markdown"].split("## All measurements")
    assert beyond.count("\n| all_reduce") == 1 and everything.count("\n| all_reduce") == number


def test_noise_is_told_from_the_last_runs():
    before = [run(noise=0.05 if seed < 30 else 0.001, seed=seed) for seed in range(60)]
    samples = samples_of(before)
    noise = Noise(samples)
    assert all(noise.percent(key, "time_us", (60, 1), floor=0) < 1 for key in samples)


def test_noise_is_that_of_near_sizes_unless_one_is_much_noisier():
    def key(size):
        return Key("nccl-tests", "all_reduce", "float", "sum", -1, 16, 2, "", "in_place", size)

    quiet = {key(size): {"time_us": [99.0, 100.0, 101.0]} for size in (8, 16, 32, 64, 512, 1024, 2048, 4096)}
    samples = {
        **quiet,
        key(128): {"time_us": [98.5, 100.0, 101.5]},
        key(256): {"time_us": [60.0, 100.0, 140.0]},
        key(1 << 20): {"time_us": [80.0, 100.0, 120.0]},
        key(1 << 30): {"time_us": [100.0, 100.0]},
    }
    noise = Noise(samples)
    # The factor of 4 x 1.0483 x 1 % x sqrt(pi / 2 / 3 + 1), which is 5.176 %: by the median distance, 1 of 100.
    near = [noise.percent(key(size), "time_us", (3, 1)) for size in (8, 128, 8192)]
    assert near == [pytest.approx(100 * math.expm1(0.05176), abs=0.001)] * 3
    assert noise.percent(key(256), "time_us", (3, 1)) == pytest.approx(100 * math.expm1(40 * 0.05176), abs=1)
    assert noise.percent(key(1 << 20), "time_us", (3, 1)) == pytest.approx(100 * math.expm1(20 * 0.05176), abs=1)
    assert noise.percent(key(1 << 30), "time_us", (2, 1)) is None
    # The median of two is their mean.
    assert noise.percent(key(8), "time_us", (2, 1)) == pytest.approx(100 * math.expm1(0.041932 * 1.5**0.5), abs=0.001)
    assert noise.percent(key(8), "time_us", (3, 1), floor=7) == 7
