# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is read of each format that nccl-tests and rccl-tests have printed.

nccl-tests 2.19.6 itself printed the files of REAL, on the stand-ins for CUDA and NCCL (tests/stand_in): two hosts with two GPUs each.
Paths and the environment in them are shortened. The other files are made up, and so are their numbers.
"""

from __future__ import annotations

import itertools
import pathlib

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import parse_file, parse_results

FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures" / "nccl_tests"


def printed(bandwidth):
    """A bandwidth as it was printed: the one that is worked out from the time may have more digits."""
    return pytest.approx(bandwidth, abs=0.0055, rel=0.05 if bandwidth >= 1e6 else 1e-6)


def half(time, algbw, busbw, wrong=0, **more):
    return {"time_us": time, "algbw": printed(algbw), "busbw": printed(busbw), "wrong": wrong, **more}


def row(size, count, redop, root, out_of_place, in_place, kind="float", **more):
    return {
        "size": size, "count": count, "type": kind, "redop": redop, "root": root,
        "out_of_place": out_of_place, "in_place": in_place, **more,
    }  # fmt: skip


def read(name):
    path = FIXTURES / name
    documents = parse_file(str(path))
    with path.open(encoding="utf-8", newline="\n") as lines:
        assert parse_results(lines) == documents
    return documents


def read_one(name):
    (document,) = read(name)
    return document


#: The three rows that many of the files have.
PLAIN = [
    row(1048576, 262144, "sum", -1, half(100.0, 10.49, 15.73), half(101.0, 10.38, 15.57)),
    row(4194304, 1048576, "sum", -1, half(200.0, 20.97, 31.46), half(202.0, 20.76, 31.15)),
    row(16777216, 4194304, "sum", -1, half(600.0, 27.96, 41.94), half(601.0, 27.92, 41.87)),
]
RCCL = row(1048576, 262144, "sum", -1, half(100.0, 10.49, 10.49), half(100.0, 10.49, 10.49))
JSON = [
    row(1048576, 262144, "sum", -1, half(100.0, 10.48576, 15.72864), half(101.0, 10.381941, 15.572911)),
    row(4194304, 1048576, "sum", -1, half(200.0, 20.97152, 31.45728), half(202.0, 20.763881, 31.145822)),
]
REPORTER = [
    row(1048576, None, "sum", None, half(100.0, 10.48576, 10.48576), half(101.0, 10.381941, 10.381941)),
    row(4194304, None, "sum", None, half(200.0, 20.97152, 20.97152, None), half(202.0, 20.763881, 20.763881, None)),
]
TUNING = {
    "impl": "COLL", "algo": "RING", "proto": "LL128", "kernelVariant": "none", "sync": "0", "#channels": "24",
    "#warps": "16", "netChunkSize": "131072",
}  # fmt: skip

#: File: tool, its version, NCCL's, collective, ranks, hosts, rows, printed average, verdict.
WHOLE = {
    "2018.txt": (
        "nccl-tests", None, None, None, 2, 1,
        [
            row(1048576, 262144, "sum", -1, half(131.0, 8.0, 8.0, error=0.0), half(128.0, 8.19, 8.19, error=0.0)),
            row(2097152, 524288, "sum", -1, half(225.0, 9.32, 9.32, error=0.0), half(220.0, 9.53, 9.53, error=0.0)),
        ],
        8.76, "pass",
    ),
    "2.10-all_reduce.txt": (
        "nccl-tests", None, None, "all_reduce", 4, 2,
        [
            row(1024, 256, "sum", -1, half(20.48, 0.05, 0.08, error=2e-07), half(21.33, 0.05, 0.07, error=1e-07)),
            row(67108864, 16777216, "sum", -1, half(1000.0, 67.11, 100.66, error=5e-07), half(1010.0, 66.44, 99.67, error=5e-07)),
        ],
        50.12, "pass",
    ),
    "2.10-all_gather.txt": (
        "nccl-tests", None, None, None, 4, 2,
        [
            row(1024, 64, "none", -1, half(20.48, 0.05, 0.04, None), half(21.33, 0.05, 0.04, None)),
            row(67108864, 4194304, "none", -1, half(1000.0, 67.11, 50.33, None), half(1010.0, 66.44, 49.83, None)),
        ],
        25.06, "unchecked",
    ),
    "2.10-broadcast.txt": (
        "nccl-tests", None, None, None, 4, 2,
        [
            row(1024, 256, "none", 0, half(20.48, 0.05, 0.05, error=0.0), half(21.33, 0.05, 0.05, error=0.0)),
            row(67108864, 16777216, "none", 0, half(1000.0, 67.11, 67.11, error=0.0), half(1010.0, 66.44, 66.44, error=0.0)),
        ],
        33.4125, "pass",
    ),
    "2.10-reduce-failed.txt": (
        "nccl-tests", None, None, None, 4, 2,
        [row(1024, 256, "sum", 3, half(20.48, 0.05, 0.05, None, error=1.0), half(21.33, 0.05, 0.05, error=0.0))],
        0.05, "fail",
    ),
    "2.10-alltoall.txt": (
        "nccl-tests", None, None, None, 4, 2,
        [row(1024, 64, "none", -1, half(20.48, 0.05, 0.04, error=0.0), half(21.33, 0.05, 0.04, None))],
        0.04, "pass",
    ),
    "2.13.0-alltoall-blank-redop.txt": (
        "nccl-tests", None, None, None, 4, 2,
        [row(1048576, 65536, "none", -1, half(100.0, 10.49, 7.86), half(101.0, 10.38, 7.79, None))],
        7.825, "pass",
    ),
    "plain.txt": ("nccl-tests", "2.17.6", "2.28.7", "all_reduce", 4, 2, PLAIN, 29.62, "pass"),
    "2.17-timestamps.txt": (
        "nccl-tests", "2.17.6", "2.28.7", "all_reduce", 4, 2,
        [{**line, "extra": {"timestamp": "2025-11-02 10:11:12"}} for line in PLAIN],
        29.62, "pass",
    ),
    "2.17-minimum-failed.txt": ("nccl-tests", "2.17.6", "2.28.7", "all_reduce", 4, 2, PLAIN, 29.62, "fail"),
    "2.17-cputime.txt": (
        "nccl-tests", "2.17.6", "2.28.7", "all_reduce", 4, 2,
        [
            row(1048576, 262144, "sum", -1, half(None, 10.49, 15.73, cpu_time_us=5.0), half(None, 10.38, 15.57, cpu_time_us=5.1)),
            row(4194304, 1048576, "sum", -1, half(None, 20.97, 31.46, cpu_time_us=5.2), half(None, 20.76, 31.15, cpu_time_us=5.3)),
            row(16777216, 4194304, "sum", -1, half(None, 27.96, 41.94, cpu_time_us=6.0), half(None, 27.92, 41.87, cpu_time_us=6.1)),
        ],
        29.62, "pass",
    ),
    "2.17-run-cycles.txt": ("nccl-tests", "2.17.6", "2.28.7", "all_reduce", 4, 2, PLAIN * 3, 29.62, "pass"),
    "2.17-all-types.txt": (
        "nccl-tests", "2.17.6", "2.28.7", "all_reduce", 4, 2,
        [
            row(1048576, 1048576, redop, -1, half(100.0, 10.49, 15.73), half(100.0, 10.49, 15.73), kind)
            for kind, redop in [
                ("int8", "sum"), ("uint32", "prod"), ("half", "max"), ("bfloat16", "min"),
                ("f8e4m3", "avg"), ("f8e5m2", "mulsum"), ("fp4", "sum"),
            ]
        ],
        15.73, "pass",
    ),
    "2.18-numbers-of-any-width.txt": (
        "nccl-tests", "2.18.2", "2.28.7", "reduce", 1, 1,
        [
            row(
                17179869184, 4294967296, "avg", 0,
                half(1.2e7, 1.43, 1.43, 131072000), half(0.13, 132152839.88, 132152839.88), "double",
            )
        ],
        66076400.0, "fail",
    ),
    "2.18-replay-in-place-only.txt": (
        "nccl-tests", "2.18.2", "2.28.7", "all_reduce", 4, 2,
        [row(1048576, 262144, "sum", -1, None, half(100.0, 10.49, 15.73))],
        15.73, "pass",
    ),
    "2.20-tuning.txt": (
        "nccl-tests", "2.20.0", "2.30.7", "all_reduce", 4, 2, [{**line, "extra": TUNING} for line in PLAIN], 29.62, "pass",
    ),
    "2.20-bitwise-failed.txt": (
        "nccl-tests", "2.20.0", "2.30.7", "all_reduce", 4, 2,
        [
            {
                **line,
                "out_of_place": {**line["out_of_place"], "extra": {"#bitdiff": 0.0}},
                "in_place": {**line["in_place"], "extra": {"#bitdiff": 17.0}},
            }
            for line in PLAIN
        ],
        29.62, "fail",
    ),
    "rccl-2023.txt": (
        "rccl-tests", "develop:448c4c7", "2.27.7-develop:29e1567", None, 2, 1, [RCCL], 10.49, "pass",
    ),
    "rccl-algo-timestamps.txt": (
        "rccl-tests", "2.17.9-develop:f220897", "2.28.3", "all_reduce", 2, 1,
        [{**RCCL, "extra": {"algo": "RING", "proto": "SIMPLE", "nchannels": "32", "timestamp": "2026-01-02 03:04:05"}}],
        10.49, "pass",
    ),
    "rccl-in-place-9-columns.txt": (
        "rccl-tests", "2.17.9-develop:f220897", "2.28.3", "all_reduce", 2, 1, [{**RCCL, "out_of_place": None}], 10.49, "pass",
    ),
    "rccl-hipevt-15-columns.txt": (
        "rccl-tests", "2.17.9-develop:f220897", "2.28.3", "all_reduce", 2, 1,
        [
            {
                **RCCL,
                "out_of_place": half(100.0, 10.49, 10.49, extra={"hipevt": 98.5}),
                "in_place": half(100.0, 10.49, 10.49, extra={"hipevt": None}),
            }
        ],
        10.49, "pass",
    ),
    "rccl-reporter.json": ("rccl-tests", None, None, "all_reduce", 0, 0, REPORTER, None, "pass"),
    "rccl-reporter-lines.json": ("rccl-tests", None, None, "all_reduce", 0, 0, REPORTER, None, "pass"),
    "json-1-misspelt.json": ("nccl-tests", None, "2.23.4", "all_reduce", 4, 2, JSON, 23.476163, "pass"),
    "json-2-pretty.json": ("nccl-tests", None, "2.23.4", "all_reduce", 4, 2, JSON, 23.476163, "pass"),
    "json-3.json": ("nccl-tests", None, "2.23.4", "all_reduce", 4, 2, JSON, 23.476163, "pass"),
    "torn-pieces.txt": ("nccl-tests", "2.17.6", "2.28.7", "all_reduce", 4, 2, PLAIN, 29.62, "pass"),
    "torn-glued.txt": ("nccl-tests", "2.17.6", "2.28.7", "all_reduce", 4, 2, PLAIN, 29.62, "pass"),
    "torn-tag-inside.txt": ("nccl-tests", "2.17.6", "2.28.7", "all_reduce", 4, 2, PLAIN, 29.62, "pass"),
    "torn-version.txt": ("nccl-tests", "2.17.6", "2.28.7", "all_reduce", 4, 2, PLAIN, 29.62, "pass"),
    "elided-ranks.txt": ("nccl-tests", "2.17.6", "2.28.7", "all_reduce", 0, 0, PLAIN, 29.62, "pass"),
}  # fmt: skip

#: File: rows, how many are lost, printed average, ids of the problems.
NOT_WHOLE = {
    "died-in-row.txt": (PLAIN[:2], 1, None, ["rows-lost", "output-cut"]),
    "elided.txt": ([PLAIN[0], PLAIN[2]], 0, 29.62, ["rows-elided", "average-differs"]),
    "json-3-cut-in-row.json.0": (JSON[:1], 1, None, ["rows-lost", "output-cut"]),
    "json-3-cut-in-devices.json": ([], 0, None, ["output-cut"]),
    "json-3-replay-nan.json": (
        [
            {**JSON[0], "out_of_place": None},
            {**JSON[1], "in_place": {**JSON[1]["in_place"], "busbw": None, "no_numbers": {"busbw": "nan"}}},
        ],
        0, 23.476163, ["no-number", "average-below-minimum"],
    ),
    "rccl-reporter-cut.json": ([REPORTER[0], {**REPORTER[1], "in_place": None}], 1, None, ["rows-lost", "output-cut"]),
}  # fmt: skip

TWICE = ["json-3-two-documents.json", "json-4-tuning.json"]

#: What nccl-tests 2.19.6 printed, and the JSON that it wrote of the same run: collective, type, operation, root, rows, verdict, wrong
#: values of each row.
REAL = {
    "2.19.6-cputime-timestamps-memory": ("all_reduce", "float", "sum", -1, 3, "pass", 0),
    "2.19.6-cycles": ("all_reduce", "float", "sum", -1, 6, "pass", 0),
    "2.19.6-per-iteration": ("all_reduce", "float", "sum", -1, 3, "pass", 0),
    "2.19.6-root": ("broadcast", "float", "none", 2, 3, "pass", 0),
    "2.19.6-two-gpus-a-process": ("reduce_scatter", "half", "avg", -1, 3, "pass", 0),
    "2.19.6-unchecked": ("sendrecv", "float", "sum", -1, 3, "unchecked", None),
    "2.19.6-wrong": ("all_reduce", "float", "sum", -1, 3, "fail", 1),
}


def test_every_file_is_tested():
    assert sorted(path.name for path in FIXTURES.iterdir()) == sorted(
        [*WHOLE, *NOT_WHOLE, *TWICE, *(f"{name}.{kind}" for name in REAL for kind in ("txt", "json"))]
    )


@pytest.mark.parametrize("kind", ["txt", "json"])
@pytest.mark.parametrize("name", REAL)
def test_real_output(name, kind):
    collective, datatype, redop, root, rows, verdict, wrong = REAL[name]
    document = read_one(f"{name}.{kind}")
    assert document["tool"]["nccl_version"] == "2.32.3"
    assert (document["collective"], document["complete"], document["lost_rows"]) == (collective, True, 0)
    assert document["verdict"] == verdict
    assert [(rank["rank"], rank["host"]) for rank in document["ranks"]] == [(0, "n1"), (1, "n1"), (2, "n2"), (3, "n2")]
    assert {(row["type"], row["redop"], row["root"]) for row in document["rows"]} == {(datatype, redop, root)}
    assert {row[place]["wrong"] for row in document["rows"] for place in ("out_of_place", "in_place")} == {wrong}
    assert [row["size"] for row in document["rows"]] == [1024, 8192, 65536] * (rows // 3)


def numbers(values):
    """Numbers of an object, with those in the object ``extra`` of it."""
    nested = values.get("extra", {})
    return {key: value for key, value in {**values, **nested}.items() if isinstance(value, (int, float))}


@pytest.mark.parametrize("name", REAL)
def test_real_json_says_what_the_text_says(name):
    text, json = read_one(f"{name}.txt"), read_one(f"{name}.json")
    assert text["json_output"] == "out.json" and text["tool"]["version"] == "2.19.6"
    assert text["config"] == json["config"] and text["summary"]["wrong"] == json["summary"]["wrong"]
    assert text["summary"]["avg_busbw"] == pytest.approx(json["summary"]["avg_busbw"], abs=1e-6)
    for printed, written in zip(text["rows"], json["rows"]):
        assert numbers(printed) == numbers(written)
        for place in ("out_of_place", "in_place"):
            # The table has two decimal places, and fewer of large numbers.
            assert numbers(printed[place]) == pytest.approx(numbers(written[place]), rel=1e-3, abs=0.006)


@pytest.mark.parametrize("name", WHOLE)
def test_whole_output(name):
    tool, version, nccl, collective, ranks, hosts, rows, average, verdict = WHOLE[name]
    document = read_one(name)
    assert document["rows"] == rows
    assert document["tool"] == {"name": tool, "version": version, "nccl_version": nccl}
    assert (document["collective"], document["rank_count"], document["host_count"]) == (collective, ranks, hosts)
    assert (document["summary"]["avg_busbw"], document["lost_rows"]) == (average, 0)
    assert (document["complete"], document["verdict"]) == (True, verdict)


@pytest.mark.parametrize("name", NOT_WHOLE)
def test_output_that_is_not_whole(name):
    rows, lost, average, problems = NOT_WHOLE[name]
    document = read_one(name)
    assert document["rows"] == rows
    assert (document["lost_rows"], document["summary"]["avg_busbw"]) == (lost, average)
    assert [problem["id"] for problem in document["problems"]] == problems
    # A number that is none is an error, but its row is there.
    assert document["complete"] is ("no-number" in problems)
    assert document["verdict"] == ("fail" if "average-below-minimum" in problems else "incomplete")


def test_why_a_run_died_is_told():
    evidence = read_one("died-in-row.txt")["problems"][-1]["evidence"]
    assert evidence.startswith("the last whole row is of 4194304 bytes; Test CUDA failure common.cu:389 'an illegal")


@pytest.mark.parametrize("name", ["2.10-reduce-failed.txt", "2.20-bitwise-failed.txt"])
def test_values_that_differ_are_told(name):
    (problem,) = read_one(name)["problems"]
    assert problem["severity"] == "error"
    assert problem["id"] == ("bitwise-mismatch" if "bitwise" in name else "wrong-values")


def test_name_of_the_json_file_is_that_in_the_output():
    assert read_one("2.17-minimum-failed.txt")["json_output"] == "out.json.0"
    assert read_one("plain.txt")["json_output"] is None


def test_environment_is_reduced_to_harmless_names():
    document = read_one("json-3.json")
    assert document["env"] == {"NCCL_ALGO": "Ring", "NCCL_IB_HCA": "mlx5_0,mlx5_1"}
    assert "do-not-keep" not in repr(document)


def test_config_and_ranks_of_json():
    document = read_one("json-3.json")
    assert document["config"] == {
        "nthreads": 1, "ngpus": 1, "minbytes": 1048576, "maxbytes": 4194304, "step": "4(factor)",
        "warmup_iters": 5, "iters": 20, "agg_iters": 1, "validation": 1, "graph": 0, "blocking": False,
    }  # fmt: skip
    assert document["ranks"][3] == {
        "rank": 3, "group": 0, "pid": 4003, "host": "n2", "device": 1, "bus_id": "0000:11:00", "name": "NVIDIA H100",
    }  # fmt: skip


def test_json_says_whether_the_program_waited_for_each_operation():
    text = (FIXTURES / "json-3.json").read_text(encoding="utf-8")
    waited, unknown = '"blocking_collectives":"true"', '"blocking":"true"'
    for words, blocking in ((waited, True), (unknown, None)):
        (document,) = parse_results([text.replace('"blocking_collectives":"false"', words)])
        assert document["config"]["blocking"] is blocking


def test_json_lists_one_gpu_of_each_process():
    ranks = read_one("json-3-replay-nan.json")["ranks"]
    assert [(rank["rank"], rank["host"], rank["pid"], rank["device"]) for rank in ranks] == [
        (0, "n1", 4000, 0), (1, "n1", 4000, None), (2, "n2", 4002, 0), (3, "n2", 4002, None),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["2.19.6-unchecked.json", "json-2-pretty.json", "json-4-tuning.json"])
def test_whatever_is_missing_at_the_end_of_json_it_is_not_complete(name):
    """Behind its end_time, json-4-tuning.json tells that values differ from run to run."""
    text = (FIXTURES / name).read_text(encoding="utf-8")
    for end in range(text.index('"out_of_bounds"'), len(text.rstrip("}\n")) + 1):
        (document,) = parse_results([text[:end]])
        assert (document["complete"], document["verdict"]) == (False, "incomplete"), text[end - 20 : end]


def test_document_after_one_that_was_cut():
    cut, whole = read("json-3-two-documents.json")
    assert (cut["rows"], cut["lost_rows"], cut["verdict"]) == ([], 1, "incomplete")
    assert (whole["rows"], whole["verdict"]) == (JSON, "pass")


def test_json_with_single_iterations_and_tuning():
    document = read_one("json-4-tuning.json")
    first, second = document["rows"]
    assert first["in_place"]["extra"] == {"i_min": 95.0, "i_max": 120.0, "i_p99": 119.0, "i_cv%": 3.1}
    assert first["extra"] == {"implementation": "Coll", "algo": "RING", "proto": "LL128", "#channels": 24}
    assert (first["in_place"]["wrong"], second["in_place"]["wrong"]) == (0, None)
    assert [problem["id"] for problem in document["problems"]] == ["bitwise-mismatch"]


PREFIXES = [
    "[1,0]<stdout>:",
    "[1,0]<stdout>: ",
    "   [1,0]<stdout>:",
    "[prterun-n1-12345@1,0]<stdout>: ",
    "[prterun-n1-12345@1,0][n1:4000]<stdout>: ",
    "0: ",
    " 0: ",
    "2026-01-02T03:04:05.123456789Z ",
    "[pod/job-launcher-x7k2/launcher] ",
    "(head, rank=0, pid=3808) ",
    "(head, rank=0, pid=3808) [1,0]<stdout>:",
    "[0] ",
    "    ",
    "run(), common.cu:1174, ",
    "launcher-1  | ",
]


@pytest.mark.parametrize("name", ["plain.txt", "2.10-all_reduce.txt", "torn-pieces.txt", "rccl-in-place-9-columns.txt"])
def test_label_of_a_launcher_on_every_line(name):
    lines = (FIXTURES / name).read_text(encoding="utf-8").splitlines()
    for prefix, end in itertools.product(PREFIXES, ["\n", "\r\n"]):
        text = "".join(f"{prefix}{line}{end}" for line in lines)
        assert parse_results(text.splitlines(keepends=True)) == read(name), (prefix, end)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# ", "  "),
        ("# ", ""),
        ("\n", "\x1b[0m\n\x1b[32m"),
        ("#\n", "#\nn1:4000:4100 [0] NCCL INFO NCCL_ALGO set by environment to Ring\n"),
        ("\n", "\n\n"),
    ],
)
def test_same_in_other_clothes(old, new):
    text = (FIXTURES / "plain.txt").read_text(encoding="utf-8").replace(old, new)
    assert parse_results(text.splitlines(keepends=True)) == read("plain.txt")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("name", ["plain.txt", "json-3.json"])
def test_file_as_windows_writes_it(tmp_path, name, encoding):
    path = tmp_path / name
    with path.open("w", encoding=encoding, newline="\r\n") as file:
        file.write((FIXTURES / name).read_text(encoding="utf-8"))
    assert parse_file(str(path)) == read(name)


@pytest.mark.parametrize("name", ["rccl-reporter.json", "rccl-reporter-lines.json"])
def test_halves_of_different_sizes_are_not_joined(name):
    """rccl-tests writes each half as an object of its own, -O one of the two only, and a line may be lost."""
    lines = (FIXTURES / name).read_text(encoding="utf-8").splitlines(keepends=True)
    halves = [line for line in lines if '"inPlace"' in line]
    kept = [line for line in lines if line not in halves[1:3]]
    (document,) = parse_results(kept)
    assert document["rows"] == [{**REPORTER[0], "in_place": None}, {**REPORTER[1], "out_of_place": None}]
    (document,) = parse_results(line for line in lines if line not in halves[::2])
    assert document["rows"] == [{**one, "out_of_place": None} for one in REPORTER]


@pytest.mark.parametrize("damage", ['"busBw": ,', '"busBw": 1.0.0,', '"busBw" 1.0,'])
def test_a_line_of_json_that_is_none_is_lost_in_the_middle_of_a_log(damage):
    first, *lines = (FIXTURES / "rccl-reporter-lines.json").read_text(encoding="utf-8").splitlines(keepends=True)
    torn = first.replace('"busBw":10.485760,', damage)
    assert torn != first
    (document,) = parse_results(["$ cat out.json\n", torn, *lines])
    assert (document["lost_rows"], document["verdict"]) == (1, "incomplete")
    assert document["rows"] == [{**REPORTER[0], "out_of_place": None}, *REPORTER[1:]]


def test_number_that_is_cut_in_the_middle_of_a_file_is_lost():
    text = (FIXTURES / "rccl-reporter.json").read_text(encoding="utf-8")
    cut = text[: text.rindex("20.763881") + 4] + "\n[1,0]\n"
    (document,) = parse_results(cut.splitlines(keepends=True))
    assert document["rows"] == [REPORTER[0], {**REPORTER[1], "in_place": None}]
    assert (document["lost_rows"], document["verdict"]) == (1, "incomplete")


def test_json_in_the_middle_of_a_log():
    text = "$ cat out.json\n" + (FIXTURES / "json-3.json").read_text(encoding="utf-8") + "\n$ exit\n"
    assert parse_results(text.splitlines(keepends=True)) == read("json-3.json")


@pytest.mark.parametrize("name", ["json-3.json", "json-2-pretty.json", "rccl-reporter.json"])
def test_json_does_not_stand_for_the_table_that_follows_it(tmp_path, name):
    """In a launch, any rank may have printed it, before the first one began."""
    path = tmp_path / "output.txt"
    forged = (FIXTURES / name).read_text(encoding="utf-8")
    count = len(parse_results(forged.splitlines(keepends=True)))
    path.write_text(forged + "\n" + (FIXTURES / "plain.txt").read_text(encoding="utf-8"))
    with path.open() as lines:
        for documents in (parse_file(path), parse_results(lines)):
            assert len(documents) == count + 1
            assert documents[-1]["verdict"] == "incomplete" and documents[-1]["lost_rows"]


def test_neither_does_it_behind_the_first_line():
    table = (FIXTURES / "plain.txt").read_text(encoding="utf-8")
    text = "Hello\n" + (FIXTURES / "json-3.json").read_text(encoding="utf-8") + "\n"
    assert parse_results((text + table).splitlines(keepends=True)) == [*read("json-3.json"), *read("plain.txt")]


def test_all_files_in_one_text_are_as_many_tests():
    names = [
        "2018.txt",
        "2.10-all_reduce.txt",
        "plain.txt",
        "rccl-2023.txt",
        "2.19.6-per-iteration.txt",
        "2.10-alltoall.txt",
    ]
    text = "".join((FIXTURES / name).read_text(encoding="utf-8") for name in names)
    documents = parse_results(text.splitlines(keepends=True))
    assert documents == [read_one(name) for name in names]


def test_text_may_have_a_line_without_end(tmp_path):
    plain = (FIXTURES / "plain.txt").read_bytes()
    path = tmp_path / "log"
    path.write_bytes(b"x" * (3 << 20) + b"\n" + plain + b"\0" * (3 << 20))
    assert parse_file(str(path)) == read("plain.txt")


OSU = "# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n1                       1.47\n"
MSCCLPP = "#       size         count     time   algbw   busbw  #wrong\n     1048576        262144    10.00  104.86  104.86       0\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OSU, "holds no output of nccl-tests, but the output of the OSU micro-benchmarks"),
        ("#bytes     #iterations    BW peak[MB/sec]\n 65536  5000  24000\n", "but the output of perftest"),
        ("#bytes #repetitions  t_min[usec]  t_max[usec]\n", "but the output of the Intel MPI benchmarks"),
        ("size(B)    count(elems)    type    time(us)    algbw(GB/s)    busbw(GB/s)\n", "nccom-test of AWS Neuron"),
        ("data_size(Bytes):  |   aveg_time(us):  |  alg_bandwidth(GB/s):  | check_result:\n", "hccl_test of Ascend"),
        (
            MSCCLPP,
            "the table has 6 columns .size count time algbw busbw #wrong., which are not those of any nccl-tests",
        ),
        ('{"identifier": "nccl-tests structured output", "version": "2.26.6", "benchm', "pull request 318"),
        ('{"schema": "gpufabric.nccl/results/v1", "results": []}', "result document of this collection"),
    ],
)
def test_what_looks_alike_is_refused_by_name(text, message):
    with pytest.raises(GpufabricError, match=message) as error:
        parse_results(text.splitlines(keepends=True))
    assert "\n" not in str(error.value)


def test_other_program_beside_nccl_tests_does_not_matter():
    text = OSU + (FIXTURES / "plain.txt").read_text(encoding="utf-8")
    assert parse_results(text.splitlines(keepends=True)) == read("plain.txt")
