# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import pathlib

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import (
    add_problems,
    overall_verdict,
    parse_file,
    parse_results,
    parse_row,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.placement import listed_placement_problems

FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures"
NCCL = (FIXTURES / "all_reduce_perf.txt").read_text(encoding="utf-8")
CPU = (FIXTURES / "alltoall_cpu.txt").read_text(encoding="utf-8")
HEADER = "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong"
LAST_ROW = next(line for line in NCCL.splitlines() if "1073741824  " in line)


def parse(text):
    return parse_results(text.splitlines(keepends=True))


def parse_one(text):
    (document,) = parse(text)
    return document


def ids(document):
    return [problem["id"] for problem in document["problems"]]


def alone(host, pid=4000, ranks=1):
    """What a program without MPI prints before its table."""
    lines = ["# Collective test starting: all_reduce_perf", "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor)"]
    lines += [
        f"#  Rank {rank:2} Group  0 Pid {pid:6} on {host} device {rank:2} [0000:07:00] NVIDIA H100"
        for rank in range(ranks)
    ]
    return "\n".join([*lines, HEADER]) + "\n"


LOG = "g1:4000:4100 [0] NCCL INFO x"
ALONE_ROW = "   8   2   float   sum   -1   3.45   0.00   0.00   0   0.13   0.06   0.00   0\n"
ALONE_END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0\n"


def test_whole_document():
    document = parse_one(NCCL)
    assert list(document) == [
        "schema", "tool", "collective", "complete", "config", "ranks", "rows", "lost_rows", "summary", "json_output",
        "points", "env", "host_count", "rank_count", "problems", "verdict",
    ]  # fmt: skip
    assert document["schema"] == "gpufabric.nccl/result/v1"
    assert document["tool"] == {"name": "nccl-tests", "version": "2.17.6", "nccl_version": "2.28.7"}
    assert document["collective"] == "all_reduce"
    assert document["config"] == {
        "nthreads": 1, "ngpus": 1, "minbytes": 1024, "maxbytes": 1073741824, "step": "1024(factor)",
        "warmup_iters": 5, "iters": 20, "agg_iters": 1, "validation": 1, "graph": 0,
    }  # fmt: skip
    assert document["ranks"][9] == {
        "rank": 9, "group": 0, "pid": 4101, "host": "g2", "device": 1, "bus_id": "0000:11:00", "name": "NVIDIA H100 80GB HBM3",
    }  # fmt: skip
    assert document["rows"][1] == {
        "size": 1048576, "count": 262144, "type": "float", "redop": "sum", "root": -1,
        "out_of_place": {"time_us": 74.2, "algbw": 14.13, "busbw": 26.5, "wrong": 0},
        "in_place": {"time_us": 73.8, "algbw": 14.21, "busbw": 26.64, "wrong": 0},
    }  # fmt: skip
    assert document["summary"] == {
        "avg_busbw": 124.442, "peak_busbw": 346.97, "peak_size": 1073741824, "wrong": 0, "checked": True, "out_of_bounds": 0,
    }  # fmt: skip
    assert (document["host_count"], document["rank_count"]) == (2, 16)
    assert (document["complete"], document["problems"], document["verdict"]) == (True, [], "pass")


def test_cpu_program_is_never_nccl():
    document = parse_one(CPU)
    assert document["tool"] == {"name": "cpu", "version": "0.1.0", "nccl_version": None}
    assert document["collective"] == "alltoall"
    assert document["rows"][0]["out_of_place"]["wrong"] == 0
    assert document["rows"][0]["in_place"]["wrong"] is None
    assert document["verdict"] == "pass"


def test_lines_are_read_as_they_come():
    assert parse_results(iter(NCCL.splitlines())) == [parse_one(NCCL)]


@pytest.mark.parametrize(
    "text", [NCCL.replace("\n", "\r\n"), "".join(f"[1,0]<stdout>:{x}\n" for x in NCCL.splitlines())]
)
def test_same_with_line_ends_and_tags(text):
    assert parse_one(text) == parse_one(NCCL)


def test_log_of_nccl_between_the_lines():
    noise = (
        "g1:4000:4100 [0] NCCL INFO Channel 00/0 : 0[10] -> 8[10] [send] via NET/IB/0\nNCCL version 2.28.7+cuda13.0\n"
    )
    assert parse_one(NCCL.replace("\n", f"\n{noise}")) == parse_one(NCCL)


def test_several_tests_in_one_text():
    first, second, third = parse(NCCL + "some other output\n" + CPU + NCCL)
    assert (first, second, third) == (parse_one(NCCL), parse_one(CPU), parse_one(NCCL))


def test_test_that_ended_before_its_table_is_one_of_its_own():
    broken = NCCL[: NCCL.index(HEADER)]
    first, second = parse(broken + CPU)
    assert (first["rows"], first["verdict"], ids(first)) == ([], "incomplete", ["output-cut"])
    assert second == parse_one(CPU)


def test_values_that_were_not_checked_are_not_zero():
    text = "\n".join(line.replace("      0  ", "    N/A  ") if "float" in line else line for line in NCCL.splitlines())
    text = text.replace("     0\n", "   N/A\n")
    document = parse_one(text)
    assert document["summary"]["wrong"] is None
    assert document["summary"]["checked"] is False
    assert (document["complete"], document["verdict"]) == (True, "unchecked")


def test_wrong_values_fail():
    row = LAST_ROW[: LAST_ROW.rindex("0")] + "1.31072e+08"
    document = parse_one(NCCL.replace(LAST_ROW, row).replace("0 OK", "1 FAILED"))
    assert document["summary"]["wrong"] == 131072000
    assert document["summary"]["out_of_bounds"] == 1
    assert (ids(document), document["verdict"]) == (["wrong-values"], "fail")
    assert "131072000 at size 1073741824 in-place" in document["problems"][0]["evidence"]


def test_out_of_bounds_alone_fails():
    assert parse_one(NCCL.replace("0 OK", "2 FAILED"))["verdict"] == "fail"


def test_average_below_the_users_minimum_fails():
    document = parse_one(NCCL.replace("124.442 ", "124.442 FAILED"))
    assert (ids(document), document["verdict"]) == (["average-below-minimum"], "fail")


@pytest.mark.parametrize("line", ["# Out of bounds values : 0 OK\n", "# Avg bus bandwidth    : 124.442 \n"])
def test_both_summary_lines_are_needed(line):
    assert line in NCCL
    document = parse_one(NCCL.replace(line, ""))
    assert (document["complete"], document["verdict"], ids(document)) == (False, "incomplete", ["output-cut"])
    assert len(document["rows"]) == 3


@pytest.mark.parametrize(
    "torn",
    [
        LAST_ROW[:-20],
        LAST_ROW + "3x:4000:4100 [0] NCCL INFO x",
        LAST_ROW.replace("346.97", "nan"),
        LAST_ROW.replace("268435456", "9" * 5000),
    ],
)
def test_torn_row_is_counted_and_never_guessed(torn):
    document = parse_one(NCCL.replace(LAST_ROW, torn))
    assert [row["size"] for row in document["rows"]] == [1024, 1048576]
    assert ids(document) == ["rows-lost", "average-differs"]
    assert document["problems"][0]["cause"].endswith(": 1.")
    assert document["problems"][0]["evidence"].startswith("1073741824")
    assert (document["complete"], document["verdict"]) == (False, "incomplete")


def test_line_that_looks_like_a_row_above_the_table():
    assert parse_one(NCCL.replace(HEADER, f"loaded 3 8 float tensors\n{HEADER}")) == parse_one(NCCL)


def test_missing_row_shows_in_the_average():
    document = parse_one(NCCL.replace(LAST_ROW + "\n", ""))
    assert (ids(document), document["verdict"]) == (["average-differs"], "incomplete")


@pytest.mark.parametrize(("printed", "verdict"), [("124.447", "pass"), ("124.46", "incomplete")])
def test_average_may_differ_by_rounding_only(printed, verdict):
    assert parse_one(NCCL.replace("124.442", printed))["verdict"] == verdict


def test_gap_in_the_list_of_ranks():
    document = parse_one("\n".join(line for line in NCCL.splitlines() if "Rank  3 " not in line))
    assert (ids(document), document["rank_count"], document["verdict"]) == (["ranks-lost"], 15, "pass")


def test_rank_that_is_listed_late_begins_no_test():
    line = next(line for line in NCCL.splitlines(keepends=True) if "Rank  3 " in line)
    document = parse_one(NCCL.replace(line, "").replace(LAST_ROW, line + LAST_ROW))
    assert (document["rank_count"], document["verdict"]) == (16, "pass")


@pytest.mark.parametrize(
    "columns",
    [
        "size count redop type root time algbw busbw #wrong time algbw busbw #wrong",
        "size count type redop root busbw algbw time #wrong time algbw busbw #wrong",
    ],
)
def test_other_layouts_are_refused_by_name(columns):
    with pytest.raises(GpufabricError, match=f"the table has 13 columns .{columns}., which are not those") as error:
        parse(NCCL.replace(HEADER, f"#  {columns}"))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "\n\n", "mpirun: command not found\n", "8 2 float sum -1 3 4 5\n"])
def test_text_without_any_test(text):
    with pytest.raises(GpufabricError, match="no output of nccl-tests"):
        parse(text)


def test_rows_alone_are_a_test_that_is_not_whole():
    document = parse_one("$ tail log\n" + LAST_ROW + "\n")
    assert (document["rows"], ids(document)) == ([parse_row(LAST_ROW)], ["output-cut"])
    with pytest.raises(GpufabricError, match="no output"):
        parse(LAST_ROW.replace("346.97", "346").replace("185.05", "18.5"))


def test_average_that_is_cut_is_none():
    text = NCCL[: NCCL.index("124.442") + 2]
    document = parse_one(text)
    assert (document["summary"]["avg_busbw"], ids(document)) == (None, ["output-cut"])


def test_last_row_that_may_lack_digits_is_lost():
    row = LAST_ROW[: LAST_ROW.rindex("0")] + "13"
    document = parse_one(NCCL[: NCCL.index(LAST_ROW)] + row)
    assert (len(document["rows"]), document["lost_rows"]) == (2, 1)
    assert len(parse_one(NCCL[: NCCL.index(LAST_ROW)] + row + "\n")["rows"]) == 3


@pytest.mark.parametrize(
    ("torn", "rows"),
    [
        # At a column, with NCCL's log between, behind a number or on a line of its own.
        (lambda row: row[:45] + LOG + "\n" + row[45:], 3),
        (lambda row: row + LOG, 3),
        (lambda row: row[:45] + "\n" + LOG + "\n" + row[45:], 3),
        (lambda row: row[:-40] + LOG + "\n" + LOG + "\n" + row[-40:], 3),
        # Inside a number, with a number lost, or with one of another row.
        (lambda row: row[:58] + LOG + "\n" + row[58:], 2),
        (lambda row: row[:45] + LOG + "\n" + row[-64:], 2),
        (lambda row: row[:45] + LOG + "\n" + row[45:].replace("185.05", "99.05"), 2),
        (lambda row: row[:45] + LOG + "\n", 2),
        # No work takes no time.
        (lambda row: row[:45] + LOG + "\n" + row[45:].replace("5802.4", "  0.00"), 2),
    ],
)
def test_row_is_put_together_only_where_it_fits(torn, rows):
    assert LAST_ROW[45:].startswith("  ")
    assert LAST_ROW[57:59].isdigit() or "." in LAST_ROW[56:60]
    document = parse_one(NCCL.replace(LAST_ROW, torn(LAST_ROW)))
    assert document["rows"] == parse_one(NCCL)["rows"][:rows]
    assert document["lost_rows"] == 3 - rows


@pytest.mark.parametrize(
    ("replaced", "collective"),
    [("all_reduce_perf_mpi", "all_reduce"), ("/opt/bin/sendrecv_perf", "sendrecv"), ("own_program", "own_program")],
)
def test_name_of_the_collective(replaced, collective):
    assert parse_one(NCCL.replace("all_reduce_perf", replaced))["collective"] == collective


@pytest.mark.parametrize(
    ("text", "collective"), [(NCCL, "all_reduce"), (NCCL.replace("346.97", "185.05"), None), (CPU, None)]
)
def test_unnamed_collective_is_told_by_its_bus_bandwidth_or_not_at_all(text, collective):
    unnamed = "\n".join(line for line in text.splitlines() if "Collective test" not in line)
    assert parse_one(unnamed)["collective"] == collective


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("nccl-library=21605", "2.16.5"),
        ("nccl-library=2804", "2.8.4"),
        ("", None),
    ],
)
def test_version_of_the_library(line, version):
    assert parse_one(NCCL.replace("nccl-library=22807", line))["tool"]["nccl_version"] == version


@pytest.mark.parametrize(
    "text",
    [
        # Line by line, one program after the other, and with the rows of the first before the second's first line.
        "".join(line * 2 for line in (alone("g1") + ALONE_ROW + ALONE_END).splitlines(keepends=True)),
        alone("g1") + alone("g2") + ALONE_ROW * 2 + ALONE_END * 2,
        alone("g1", ranks=8) + ALONE_ROW + alone("g2", ranks=8) + ALONE_END * 2,
    ],
)
def test_program_without_mpi(text):
    document = parse(text)[-1]
    assert "mpi-missing" in ids(document)
    assert "separate runs: 2, on g" in document["problems"][0]["cause"]
    assert (document["complete"], document["verdict"]) == (False, "fail")
    # The bandwidth of separate programs is never that of the fabric.
    assert document["summary"]["peak_busbw"] is None
    assert document["summary"]["avg_busbw"] is None


TORN_ROW = f"           8             2     float     sum      -1{LOG}\n{ALONE_ROW[29:]}"


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (alone("g1") + TORN_ROW + ALONE_END, 1),
        # The end may be that of the other program's row, or the begin may be missing.
        ("".join(line * 2 for line in alone("g1").splitlines(keepends=True)) + TORN_ROW + ALONE_END, 0),
        (alone("g1") + TORN_ROW + ALONE_ROW[29:] + ALONE_END, 0),
    ],
)
def test_torn_row_is_put_together_of_one_program_only(text, rows):
    assert ALONE_ROW[29:].split() == ["3.45", "0.00", "0.00", "0", "0.13", "0.06", "0.00", "0"]
    document = parse_one(text)
    assert (len(document["rows"]), document["lost_rows"]) == (rows, 1 - rows)


def test_programs_without_mpi_that_printed_in_turn():
    documents = parse((alone("g1") + ALONE_ROW + ALONE_END) + (alone("g2") + ALONE_ROW + ALONE_END))
    assert [ids(document) for document in documents] == [["separate-runs"]] * 2
    repeated = parse((alone("g1") + ALONE_ROW + ALONE_END) * 2)
    assert [ids(document) for document in repeated] == [[], []]


def test_retry_after_a_failed_start_is_no_program_without_mpi():
    first, second = parse(NCCL[: NCCL.index(HEADER)] + NCCL)
    assert (first["verdict"], second) == ("incomplete", parse_one(NCCL))


@pytest.mark.parametrize("line", ["", "8 2 float sum", HEADER, LAST_ROW[:-4], LAST_ROW + " 7"])
def test_what_is_no_row(line):
    assert parse_row(line) is None


def test_row_by_itself():
    assert parse_row(f"[1,0]<stdout>:{LAST_ROW}\n") == parse_one(NCCL)["rows"][-1]
    assert parse_row(LAST_ROW.replace("5802.4", "1.2e+07"))["out_of_place"]["time_us"] == 1.2e7


@pytest.mark.parametrize("hosts", [2, ["g1", "g2"], ["G1.example.com", "g2.example.com"]])
def test_expected_hosts_and_ranks_took_part(hosts):
    assert listed_placement_problems(parse_one(NCCL), hosts, 16) == []


@pytest.mark.parametrize(("threads", "gpus", "processes"), [(1, 8, 2), (2, 4, 2), (2, 2, 4)])
def test_a_process_with_several_gpus_has_as_many_ranks(threads, gpus, processes):
    text = NCCL.replace("nThread 1 nGpus 1", f"nThread {threads} nGpus {gpus}")
    assert text != NCCL
    assert listed_placement_problems(parse_one(text), ["g1", "g2"], processes) == []
    (problem,) = listed_placement_problems(parse_one(text), ["g1", "g2"], processes + 1)
    assert problem.id == "ranks-differ"


@pytest.mark.parametrize(
    ("text", "hosts", "ranks", "identity", "cause"),
    [
        (NCCL.replace(" g2 ", " g1 "), 2, 16, "hosts-differ", "1 of 2 hosts took part: all 16 ranks ran on g1."),
        (NCCL, 4, 16, "hosts-differ", "2 of 4 hosts took part."),
        (NCCL, ["g1", "g2", "g3"], 16, "hosts-differ", "2 of 3 hosts took part; missing: g3."),
        (NCCL, ["g1", "g3"], 16, "hosts-differ", "1 of 2 hosts took part; missing: g3; not expected: g2."),
        (NCCL, 1, 16, "hosts-differ", "2 of 1 hosts took part; not expected: g1, g2."),
        (NCCL, 2, 8, "ranks-differ", "16 ranks took part, 8 were expected."),
        (alone("g1"), 4, 4, "mpi-missing", "; separate runs: 1, on g1; expected: one run of 4 ranks."),
        (alone("g1", ranks=8), 2, 16, "mpi-missing", "; separate runs: 1, on g1; expected: one run of 16 ranks."),
        (HEADER, 2, 16, "ranks-unknown", "The output shows none of the 16 expected ranks."),
        (alone("g1") + alone("g2"), 2, 2, "mpi-missing", "; separate runs: 2, on g1, g2."),
    ],
)
def test_placement_that_was_not_meant(text, hosts, ranks, identity, cause):
    (problem,) = listed_placement_problems(parse_one(text), hosts, ranks)
    assert (problem.id, problem.severity) == (identity, "error")
    assert problem.cause.endswith(cause)


def test_problem_is_added_once():
    document = parse_one(NCCL)
    problems = listed_placement_problems(document, 4, 16)
    worse = add_problems(document, problems)
    assert (ids(worse), worse["verdict"]) == (["hosts-differ"], "fail")
    assert add_problems(worse, problems) == worse
    assert document["problems"] == []


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [([], "incomplete"), (["pass"], "pass"), (["pass", "unchecked"], "unchecked"), (["fail", "incomplete"], "fail")],
)
def test_overall_verdict(verdicts, worst):
    assert overall_verdict([{"verdict": verdict} for verdict in verdicts]) == worst


CORPUS = os.environ.get("GPUFABRIC_CORPUS")
#: Logs of the corpus that hold no output that nccl-tests ever had.
REFUSED = {"069-nccl-tests-pr318-json-truncated.log"}


@pytest.mark.skipif(CORPUS is None, reason="GPUFABRIC_CORPUS does not name a folder with logs in nccl/*.log")
def test_corpus(capsys):
    """Every log is read, with the rows and averages that index.jsonl tells; only those of REFUSED are refused, in one line.

    A folder of one's own needs no index.jsonl: its logs are only read.
    """
    logs = sorted(pathlib.Path(CORPUS, "nccl").iterdir())
    index = pathlib.Path(CORPUS, "index.jsonl")
    entries = [json.loads(line) for line in index.read_text(encoding="utf-8").splitlines()] if index.is_file() else []
    known = {pathlib.PurePath(entry["file"]).name: entry for entry in entries if entry["kind"] == "nccl"}
    assert logs
    right, wrong, refused = [], [], []
    for log in logs:
        entry = known.get(log.name, {})
        expected = entry.get("n_complete_rows", entry.get("n_data_rows"))
        try:
            documents = parse_file(str(log))
        except GpufabricError as error:
            (refused if log.name in REFUSED and "\n" not in str(error) else wrong).append(f"{log.name}: {error}")
            continue
        json.dumps(documents, allow_nan=False)
        with log.open(encoding="utf-8", errors="replace", newline="\n") as lines:
            assert parse_results(lines) == documents
        rows = sum(len(document["rows"]) for document in documents)
        averages = [document["summary"]["avg_busbw"] for document in documents]
        averages = [average for average in averages if average is not None]
        printed = entry.get("avg_busbw") or []
        printed = [float(average) for average in (printed if isinstance(printed, list) else [printed])]
        lost = sum(document["lost_rows"] for document in documents)
        same = not known or (
            bool(entry) and rows == expected and averages == printed and lost == entry["n_data_rows"] - expected
        )
        (right if same else wrong).append(
            f"{log.name}: {rows} of {expected} rows, {lost} lost, {averages} of {printed}"
        )
    with capsys.disabled():
        print(f"\ncorpus: {len(right)} read right, {len(wrong)} wrong, {len(refused)} refused")
        print("".join(f"  {line}\n" for line in [*wrong, *refused]), end="")
    assert not wrong
    assert sorted(set(known) - {log.name for log in logs}) == []
