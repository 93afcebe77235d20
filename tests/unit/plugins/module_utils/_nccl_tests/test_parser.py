# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import io
import json
import os
import pathlib
import re
import threading

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.reader import Facts
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.result_catalogue import RESULT_CATALOGUE
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests import complaints, text_output
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.document import MOST
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.document import Test as OneTest
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import (
    GrowingOutput,
    add_problems,
    overall_verdict,
    parse_file,
    parse_results,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.placement import listed_placement_problems
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.torn import before_hosts, host_behind_digits

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
# Of NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY=1, as src/alltoallv.cu of nccl-tests 2.19.6 prints it.
SUMMARY = (
    "# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: mode=generated nranks=2 total_bytes=1024 spread=0.500 time_usec=8.75\n"
    "#   rank=0 send_bytes=512 recv_bytes=512 alg_bw=0.06 bus_bw=0.03\n"
    "#   rank=1 send_bytes=512 recv_bytes=512 alg_bw=0.06 bus_bw=0.03\n"
)
ALONE_ROW = "   8   2   float   sum   -1   3.45   0.00   0.00   0   0.13   0.06   0.00   0\n"
ALONE_END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0\n"


def test_each_row_is_looked_at_once_however_alike_they_are():
    class Row(dict):
        looks = 0

        def __repr__(self):
            Row.looks += 1
            return super().__repr__()

    test = OneTest()
    test.rows = [Row(size=8) for _row in range(50)]
    assert all(test.has_row(Row(size=8)) for _asked in range(50))
    assert Row.looks == 100


class Names(set):
    """Hosts, and how many of them were looked at one by one."""

    looks = 0

    def __iter__(self):
        for name in set.__iter__(self):
            self.looks += 1
            yield name


def test_the_host_behind_a_torn_row_is_found_without_a_look_at_each():
    names = Names(f"g{number}" for number in range(1000))
    assert list(before_hosts("0.00g7", names)) == [("0.00", "g7")]
    assert host_behind_digits("0.00g7", names) == "g7" and host_behind_digits("xg7", names) is None
    assert host_behind_digits("0" * 100000 + "g7", names) is None
    # The program prints a row up to its root before it measures.
    assert host_behind_digits("-1g7", names) == "g7" and host_behind_digits("-g7", names) is None
    assert names.looks == 0


def test_each_torn_cell_is_looked_at_without_a_look_at_each_host():
    names = Names(f"g{number}" for number in range(1000))
    reader = text_output.TextReader()
    for line in alone("g1").splitlines():
        reader.read(line)
    reader.tests[0].hosts = lambda: names
    reader.read(
        "   8   2   float   sum   -1   3.45   0.00   0.00   0   0.13   0.06   0.00   0g7:4000:4100 [0] NCCL INFO x"
    )
    assert [row["size"] for row in reader.tests[0].rows] == [8]
    assert names.looks == 0


REDUCED = "# Reducing maxBytes to 600000000 due to memory limitation"


def test_sizes_that_the_program_left_out_are_told():
    whole = parse_one(NCCL)
    assert "sizes-reduced" not in ids(whole)
    lines = NCCL.splitlines(keepends=True)
    header = next(index for index, line in enumerate(lines) if "busbw" in line)
    # The last row is that of the size which did not fit; the average is that of the others.
    text = "".join(
        [*lines[:header], f"#\n{REDUCED}\n#\n", *(line for line in lines[header:] if line != LAST_ROW + "\n")]
    )
    rows = whole["rows"][:-1]
    halves = [row[place]["busbw"] for row in rows for place in ("out_of_place", "in_place")]
    text = text.replace("# Avg bus bandwidth    : 124.442", f"# Avg bus bandwidth    : {sum(halves) / len(halves):.3f}")
    document = parse_one(text)
    assert [(item["id"], item["severity"], item["evidence"]) for item in document["problems"]] == [
        ("sizes-reduced", "warning", REDUCED[2:])
    ]
    assert "wanted up to 1 GiB, measured up to 1 MiB" in document["problems"][0]["cause"]


def test_sizes_that_are_missing_in_a_file_of_json_are_told():
    document = json.loads((FIXTURES / "nccl_tests" / "2.19.6-unchecked.json").read_text(encoding="utf-8"))
    assert "sizes-reduced" not in ids(parse_one(json.dumps(document)))
    document["config"]["maximum_bytes"] *= 8
    (problem,) = (item for item in parse_one(json.dumps(document))["problems"] if item["id"] == "sizes-reduced")
    assert problem["evidence"] == "3 of 4 sizes"
    document["config"].update(minimum_bytes=1024, maximum_bytes=65536, step_bytes=32256)
    assert "sizes-reduced" not in ids(parse_one(json.dumps(document)))
    document["config"]["maximum_bytes"] += 32256
    (problem,) = (item for item in parse_one(json.dumps(document))["problems"] if item["id"] == "sizes-reduced")
    assert problem["evidence"] == "3 of 4 sizes"


def test_a_file_of_json_without_rows_passes_nothing():
    document = json.loads((FIXTURES / "nccl_tests" / "2.19.6-wrong.json").read_text(encoding="utf-8"))
    document.update(results=[], out_of_bounds={"count": 0, "okay": "true"})
    document["average_bus_bandwidth"] = {"bandwidth": 0.0, "okay": "unchecked"}
    found = parse_one(json.dumps(document))
    assert (found["rows"], found["summary"]["checked"], found["verdict"]) == ([], False, "fail")
    assert ids(found) == ["nothing-measured"]


@pytest.mark.parametrize("average", ["-nan", "0"])
def test_where_no_size_has_room_that_is_the_cause(average):
    lines = [line for line in NCCL.splitlines() if "float" not in line]
    text = re.sub(r"(Avg bus bandwidth +:).*", rf"\1 {average}", "\n".join(lines))
    assert re.search(r"Avg bus bandwidth +: " + average, text)
    (problem,) = parse_one(text)["problems"]
    assert (problem["id"], problem["severity"], problem["evidence"]) == ("nothing-measured", "error", "")
    reduced = text.replace("# Using devices", f"{REDUCED}\n# Using devices")
    (problem,) = parse_one(reduced)["problems"]
    assert problem["id"] == "nothing-measured" and problem["evidence"] == REDUCED[2:]
    assert "the smallest one asked for is " in problem["cause"] and problem["cause"].endswith(" room for 572.2 MiB.")
    # Another average is of rows that somebody left out.
    assert "nothing-measured" not in ids(parse_one(text.replace(f": {average}", ": 120.5")))


def test_where_no_size_has_room_the_smallest_is_told_only_if_it_is_known():
    lines = [line for line in NCCL.splitlines() if "float" not in line]
    text = re.sub(r"(Avg bus bandwidth +:).*", r"\1 0", "\n".join(lines)).replace("minBytes", "leastBytes")
    (problem,) = parse_one(text.replace("# Using devices", f"{REDUCED}\n# Using devices"))["problems"]
    assert (problem["id"], problem["evidence"]) == ("nothing-measured", REDUCED[2:])
    assert "the smallest one" not in problem["cause"] and "None" not in problem["cause"]


def test_sizes_are_not_told_as_left_out_where_their_rows_are_lost():
    document = json.loads((FIXTURES / "nccl_tests" / "2.19.6-unchecked.json").read_text(encoding="utf-8"))
    document["results"][1]["out_of_place"]["bus_bw"] = "damaged"
    found = parse_one(json.dumps(document))
    assert found["lost_rows"] == 1
    assert "sizes-reduced" not in ids(found)


@pytest.mark.parametrize(("unit", "time_us"), [("us", 3.45), ("ms", 3450.0)])
def test_times_are_in_the_unit_below_the_header(unit, time_us):
    units = f"#        (B)    (elements)    ({unit})  (GB/s)  (GB/s)            ({unit})  (GB/s)  (GB/s)\n"
    (row,) = parse_one(alone("g1") + units + ALONE_ROW + ALONE_END)["rows"]
    assert row["out_of_place"]["time_us"] == time_us


def test_errors_that_the_summary_reports_are_told():
    document = parse_one(alone("g1") + ALONE_ROW + "# error: unhandled system error\n" + ALONE_END)
    (problem,) = document["problems"]
    assert (problem["id"], problem["severity"]) == ("errors-reported", "warning")
    assert problem["evidence"] == "unhandled system error"


def test_rows_below_a_header_that_is_cut_are_lost():
    text = alone("g1").replace(HEADER, HEADER[: HEADER.index("#wrong")])
    document = parse_one(text + ALONE_ROW + ALONE_ROW.replace("   8   2", "  16   4") + ALONE_END)
    assert (document["rows"], document["lost_rows"], document["verdict"]) == ([], 2, "incomplete")


def test_a_torn_row_of_a_type_that_is_not_known_is_lost():
    """One that is whole is read, whatever types there will be."""
    row = ALONE_ROW.replace("float", "fp4_e2m1")
    assert [row["type"] for row in parse_one(alone("g1") + row + ALONE_END)["rows"]] == ["fp4_e2m1"]
    torn = row[: row.index("3.45")] + "\n"
    document = parse_one(alone("g1") + torn + ALONE_END)
    assert (document["rows"], document["lost_rows"], document["verdict"]) == ([], 1, "incomplete")


def test_more_tests_than_a_text_may_have(monkeypatch):
    monkeypatch.setitem(MOST, "tests", 3)
    assert len(parse_results((NCCL * 3).splitlines(keepends=True))) == 3
    with pytest.raises(GpufabricError, match="more than 3 tests"):
        parse_results((NCCL * 4).splitlines(keepends=True))
    # Of a program that runs it is told at its end.
    growing = GrowingOutput()
    for _number in range(2):
        growing.feed((NCCL * 4).encode())
    with pytest.raises(GpufabricError, match="more than 3 tests"):
        growing.documents(None)


def test_whole_document():
    document = parse_one(NCCL)
    assert list(document) == [
        "schema", "tool", "collective", "complete", "config", "ranks", "rows", "lost_rows", "summary", "json_output",
        "points", "env", "host_count", "rank_count", "transport", "software", "hardware", "stragglers", "soak", "problems", "verdict",
    ]  # fmt: skip
    assert document["schema"] == "gpufabric.nccl/result/v1"
    assert document["tool"] == {"name": "nccl-tests", "version": "2.17.6", "nccl_version": "2.28.7"}
    assert document["collective"] == "all_reduce"
    assert document["config"] == {
        "nthreads": 1, "ngpus": 1, "minbytes": 1024, "maxbytes": 1073741824, "step": "1024(factor)",
        "warmup_iters": 5, "iters": 20, "agg_iters": 1, "validation": 1, "graph": 0, "blocking": False,
    }  # fmt: skip
    assert document["ranks"][9] == {
        "rank": 9, "group": 0, "pid": 4101, "host": "g2", "device": 1, "bus_id": "0000:11:00", "name": "NVIDIA H100 80GB HBM3",
    }  # fmt: skip
    assert document["rows"][1] == {
        "size": 1048576, "count": 262144, "type": "float", "redop": "sum", "root": -1,
        "out_of_place": {"time_us": 74.2, "algbw": 14.1318, "busbw": 26.497, "wrong": 0},
        "in_place": {"time_us": 73.8, "algbw": 14.2083, "busbw": 26.6407, "wrong": 0},
    }  # fmt: skip
    assert document["summary"] == {
        "avg_busbw": 124.442, "peak_busbw": 346.971, "peak_size": 1073741824, "wrong": 0, "checked": True, "out_of_bounds": 0,
    }  # fmt: skip
    assert (document["host_count"], document["rank_count"]) == (2, 16)
    assert (document["complete"], document["problems"], document["verdict"]) == (True, [], "pass")


FLAPPED = "{host}:4000:4100 [0] transport/net_ib/common.cc:179 (ncclIbAsyncThreadMain) NCCL WARN NET/IB : {port} Got non-fatal async event: port active(9)\n"


def test_complaints_of_nccl_are_warnings_and_a_run_that_passed_stays_passed():
    lines = NCCL.splitlines(keepends=True)
    # Before the test begins, in the middle of it twice, behind a row, and with the tag of mpirun.
    lines.insert(0, FLAPPED.format(host="g2", port="mlx5_1:1"))
    row = lines.index(LAST_ROW + "\n")
    lines[row] = lines[row].rstrip("\n") + FLAPPED.format(host="g2", port="mlx5_2:1")
    lines[row:row] = [FLAPPED.format(host="g1", port="mlx5_3:1")] * 3
    lines.append("[1,3]<stdout>:" + FLAPPED.format(host="g4", port="mlx5_4:1"))
    document = parse_one("".join(lines))
    assert [(entry["id"], entry["severity"], entry["host"]) for entry in document["problems"]] == [
        ("rdma-port-flapped", "warning", host) for host in ("g2", "g1", "g4")
    ]
    assert [line.partition(" NET/IB : ")[2][:8] for line in document["problems"][0]["evidence"].splitlines()] == [
        "mlx5_1:1",
        "mlx5_2:1",
    ]
    assert document["problems"][1]["evidence"] == FLAPPED.format(host="g1", port="mlx5_3:1").strip()
    assert {**document, "problems": []} == parse_one(NCCL)
    named = parse_results(iter(lines), Facts(names={"g1": "node-1"}))[0]["problems"]
    assert [entry["host"] for entry in named] == ["g2", "node-1", "g4"]
    # diagnose() is to read those of a run that failed.
    assert parse_results(iter(lines), None) == [parse_one(NCCL)]


def test_a_complaint_in_the_middle_of_a_row_is_one_of_the_host_behind_it():
    begin = LAST_ROW[: LAST_ROW.index(" -1 ") + 3]
    document = parse_one(
        NCCL.replace(LAST_ROW, begin + FLAPPED.format(host="g2", port="mlx5_2:1") + LAST_ROW[len(begin) :])
    )
    assert [entry["host"] for entry in document["problems"]] == ["g2"]
    assert {**document, "problems": []} == parse_one(NCCL)


def test_complaints_belong_to_the_test_in_which_they_came(tmp_path):
    complaint = "g1:1:1 [0] misc/x.cc:1 (f) NCCL WARN The gizmo is off\n"
    log = tmp_path / "log"
    log.write_text(NCCL + CPU.rstrip("\n") + "\n" + complaint * 2, encoding="utf-8")
    first, second = parse_file(str(log))
    assert (ids(first), ids(second), second["verdict"]) == ([], ["nccl-complaint"], "pass")
    assert second["problems"][0]["evidence"] == complaint.strip()


def test_complaints_of_a_thousand_hosts_are_kept_once_each():
    lines = NCCL + "".join(FLAPPED.format(host=f"n{number % 1000}", port="mlx5_0:1") for number in range(3000))
    assert len({entry["host"] for entry in parse_one(lines)["problems"]}) == 1000


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
    document = parse_one(NCCL.replace("\n", f"\n{noise}"))
    assert document["transport"] and document["transport"]["network"] == "IB"
    assert {**document, "transport": None, "software": None} == parse_one(NCCL)


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


def test_wrong_values_of_a_row_fail_whatever_the_summary_says():
    document = parse_one(NCCL.replace(LAST_ROW, LAST_ROW[: LAST_ROW.rindex("0")] + "7"))
    assert (ids(document), document["summary"]["out_of_bounds"], document["verdict"]) == (["wrong-values"], 0, "fail")


def test_average_below_the_users_minimum_fails():
    document = parse_one(NCCL.replace("124.442 ", "124.442 FAILED"))
    assert (ids(document), document["verdict"]) == (["average-below-minimum"], "fail")
    assert document["problems"][0]["evidence"] == "Avg bus bandwidth: 124.442 FAILED"
    document = parse_one(NCCL.replace("124.442 ", "nan FAILED"))
    assert ids(document) == ["no-number", "average-below-minimum"]
    assert document["problems"][1]["evidence"] == "Avg bus bandwidth: no number FAILED"


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


def test_a_torn_object_of_the_reporter_is_counted_as_lost():
    lines = (FIXTURES / "nccl_tests" / "rccl-reporter.json").read_text(encoding="utf-8").splitlines(keepends=True)
    document = parse_one("".join(["rccl-tests is run\n", *lines]))
    assert (document["complete"], document["lost_rows"]) == (True, 0)
    document = parse_one("".join(["rccl-tests is run\n", *lines[:-2], lines[-2][:40] + "\n", lines[-1]]))
    assert (ids(document), document["complete"], document["lost_rows"]) == (["rows-lost"], False, 1)


@pytest.mark.parametrize(
    ("line", "identity"),
    [("...", "rows-elided"), (LAST_ROW[:-20], "rows-lost"), ("  ".join(LAST_ROW.split()[:9]), "rows-lost")],
)
def test_what_is_lost_beside_a_right_average_makes_a_test_not_whole(line, identity):
    document = parse_one(NCCL.replace(LAST_ROW, f"{line}\n{LAST_ROW}"))
    assert (ids(document), document["complete"], document["verdict"]) == ([identity], False, "incomplete")


def out_of_place_only(text):
    """The rows end where the in-place half begins."""
    return re.sub(r"^( +\d+ +\d+ +float .{49}).*$", lambda match: match.group(1).rstrip(), text, flags=re.MULTILINE)


def test_rows_without_the_in_place_half_are_whole_only_if_the_average_is_theirs():
    halves = out_of_place_only(NCCL)
    assert [len(line.split()) for line in halves.splitlines() if " float " in line] == [9, 9, 9]
    mean = sum(row["out_of_place"]["busbw"] for row in parse_one(NCCL)["rows"]) / 3
    for printed, verdict, lost in (
        ("124.442", "incomplete", 3),
        (f"{mean:g}", "pass", 0),
        (f"{mean + 0.02:g}", "incomplete", 3),
    ):
        document = parse_one(halves.replace("124.442", printed))
        assert (document["verdict"], document["lost_rows"]) == (verdict, lost)
        assert len(document["rows"]) == 3 - lost
    assert all(row["in_place"] is None for row in parse_one(halves.replace("124.442", f"{mean:g}"))["rows"])
    # Without a header they may be in place; beside a whole row they are cut.
    assert parse_one(halves.replace("124.442", f"{mean:g}").replace(HEADER, ""))["verdict"] == "incomplete"
    beside = halves.replace("124.442", f"{mean:g}").replace("# Out of bounds", f"{LAST_ROW}\n# Out of bounds")
    assert (parse_one(beside)["lost_rows"], parse_one(beside)["verdict"]) == (3, "incomplete")


def test_rows_without_a_header_need_one_that_fits_no_other_columns():
    """The bandwidths of 1 KiB have too few digits to prove anything, even beside their own average."""
    lines = NCCL.replace(HEADER, "").replace("124.442", "0.06").splitlines()
    document = parse_one("\n".join(line for line in lines if line.split()[:1] not in (["1048576"], ["1073741824"])))
    assert (document["rows"], document["lost_rows"], document["verdict"]) == ([], 1, "incomplete")


def test_a_size_that_lacks_digits_behind_other_text_is_lost():
    document = parse_one(NCCL.replace(LAST_ROW, f"g1:{LAST_ROW.lstrip()[3:]}"))
    assert ([row["size"] for row in document["rows"]], document["lost_rows"]) == ([1024, 1048576], 1)


def test_line_that_looks_like_a_row_above_the_table():
    assert parse_one(NCCL.replace(HEADER, f"loaded 3 8 float tensors\n{HEADER}")) == parse_one(NCCL)


@pytest.mark.parametrize(
    "before",
    [
        "g2:1:1 [0] NCCL INFO ",
        "g2:1:1 [0] NCCL INFO Channel 00/32 :    0   1",
        "#" * 40_000,
        LAST_ROW + " " * 40_000,
        "\u2588" * 400_000,
        "x" * (2 << 20),
    ],
)
def test_nobody_takes_a_row_away_by_what_he_prints_before_it(tmp_path, before):
    """Another rank may have printed a row in its place, and a summary that fits."""
    size, count, *_others = LAST_ROW.split()
    faster = f"  {size} {count} float sum -1 2901.2 370.10 693.94 0 2905.9 369.52 692.84 0"
    text = NCCL.replace(LAST_ROW, faster).replace("Avg bus bandwidth    : 124.442", "Avg bus bandwidth    : 239.992")
    assert parse_one(text)["verdict"] == "pass"
    path = tmp_path / "output.txt"
    before = before.replace(LAST_ROW, faster)
    path.write_text(f"{text}{before}{LAST_ROW}\n", encoding="utf-8")
    (document,) = parse_file(path)
    assert document["verdict"] == "incomplete"


@pytest.mark.parametrize(
    "before",
    [
        "g2:1:1 [0] NCCL INFO ",
        " Rank  1 Group  0 Pid 1 on g2 device  0 [0000:01:00] ",
        "# Out of bounds values : 0 OK ",
        "#" * 40_000,
        "x" * (2 << 20),
    ],
)
def test_nobody_takes_the_summary_away_by_what_he_prints_before_it(tmp_path, before):
    """Another rank may have printed one that passed, in its place."""
    passed = "# Out of bounds values : 0 OK"
    text = NCCL.replace(passed, f"{passed}\n{before}# Out of bounds values : 3 FAILED")
    path = tmp_path / "output.txt"
    path.write_text(text, encoding="utf-8")
    with path.open(encoding="utf-8") as lines:
        for (document,) in (parse_file(path), parse_results(lines)):
            assert document["verdict"] == "fail" and "wrong-values" in ids(document)


def test_a_second_header_that_hides_columns_loses_rows():
    """Any rank may print one, whose last columns have other names."""
    wrong = LAST_ROW[: LAST_ROW.rindex("0")] + "3"
    text = NCCL.replace(LAST_ROW, wrong)
    assert parse_one(text)["summary"]["wrong"] == 3
    lines = text.splitlines(keepends=True)
    first_row = next(index for index, line in enumerate(lines) if "     float " in line)
    forged = "# size count type busbw\n# out-of-place\n# size count type redop root time algbw busbw #wrong a b c d\n"
    document = parse_one("".join([*lines[:first_row], forged, *lines[first_row:]]))
    assert "rows-lost" in ids(document) and not document["complete"]
    # That of another process is the same.
    assert parse_one(NCCL.replace(HEADER, f"{HEADER}\n{HEADER}")) == parse_one(NCCL)


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
    (row,) = document["rows"]
    # The ranks are not known, so busbw is as printed.
    assert row["out_of_place"] == {"time_us": 5802.4, "algbw": 185.051, "busbw": 346.97, "wrong": 0}
    assert ids(document) == ["output-cut"]
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
        (lambda row: row[:44] + LOG + "\n" + row[44:], 3),
        (lambda row: row[:45] + "\n" + LOG + "\n" + row[45:], 3),
        (lambda row: row[:-40] + LOG + "\n" + LOG + "\n" + row[-40:], 3),
        # With what alltoallv prints in its rows on request.
        (lambda row: row[:52] + SUMMARY + row[52:-32] + SUMMARY + row[-32:], 3),
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


def test_the_end_of_a_torn_row_that_may_lack_digits_is_lost():
    row = LAST_ROW[:52] + LOG + "\n" + LAST_ROW[52 : LAST_ROW.rindex("0")] + "13"
    document = parse_one(NCCL[: NCCL.index(LAST_ROW)] + row)
    assert (len(document["rows"]), document["lost_rows"]) == (2, 1)
    assert len(parse_one(NCCL[: NCCL.index(LAST_ROW)] + row + "\n")["rows"]) == 3


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


def test_all_programs_without_mpi_are_told_together():
    hosts = ["g1", "g2", "g3", "g4"]
    document = parse_one("".join(map(alone, hosts)) + ALONE_ROW * 4 + ALONE_END * 4)
    assert "separate runs: 4, on g1, g2, g3, g4." in document["problems"][0]["cause"]


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


@pytest.mark.parametrize("line", ["8 2 float sum", LAST_ROW[:-4], LAST_ROW + " 7"])
def test_what_is_no_row(line):
    document = parse_one(f"{HEADER}\n{line}\n")
    assert document["rows"] == []


def test_numbers_of_any_width():
    (row,) = parse_one(f"{HEADER}\n" + LAST_ROW.replace("5802.4", "1.2e+07") + "\n")["rows"]
    assert row["out_of_place"]["time_us"] == 1.2e7


NAN_ROWS = {
    "busbw": (LAST_ROW.replace("346.97", "   nan"), {"algbw": 185.05, "busbw": None}, {"busbw": "nan"}),
    "negative": (LAST_ROW.replace("346.97", "  -nan"), {"busbw": None}, {"busbw": "-nan"}),
    "no time": (
        LAST_ROW.replace("5802.4", "  0.00").replace("185.05", "   inf").replace("346.97", "   inf"),
        {"time_us": 0.0, "algbw": None, "busbw": None},
        {"algbw": "inf", "busbw": "inf"},
    ),
    "time": (LAST_ROW.replace("5802.4", "   inf"), {"time_us": None, "algbw": 185.05}, {"time_us": "inf"}),
}


@pytest.mark.parametrize("name", NAN_ROWS)
def test_a_cell_that_is_no_number_is_an_error_of_its_row(name):
    """Neither is the row lost, nor does it pass."""
    text, values, printed = NAN_ROWS[name]
    assert text != LAST_ROW
    document = parse_one(NCCL.replace(LAST_ROW, text))
    half = document["rows"][-1]["out_of_place"]
    assert half == {**half, **values, "wrong": 0, "no_numbers": printed}
    assert document["rows"][-1]["in_place"]["busbw"] == pytest.approx(346.42, abs=0.005)
    assert (document["lost_rows"], document["complete"], document["verdict"]) == (0, True, "fail")
    (problem,) = [entry for entry in document["problems"] if entry["id"] == "no-number"]
    shown = ", ".join(f"{column} {cell} at size 1073741824 out-of-place" for column, cell in printed.items())
    assert problem["evidence"] == shown
    assert document["summary"]["peak_busbw"] == pytest.approx(346.42, abs=0.005) or name == "time"
    # The average follows from its cells.
    averaged = parse_one(NCCL.replace(LAST_ROW, text).replace("124.442 ", "nan "))
    assert [item["evidence"] for item in averaged["problems"] if item["id"] == "no-number"] == [shown]
    json.dumps(document, allow_nan=False)


def test_an_average_that_is_no_number_is_an_error():
    document = parse_one(NCCL.replace("124.442 ", "inf "))
    assert (document["summary"]["avg_busbw"], ids(document), document["verdict"]) == (None, ["no-number"], "fail")


@pytest.mark.parametrize("cell", ["nan", "-nan", "inf", "NaN", '"nan"'])
def test_reporter_objects_with_what_is_no_number(cell):
    """As ``-Z json`` of rccl-tests prints them, which is not JSON."""
    line = (
        '{"numCycle":0, "name":"AllReduce", "size":1048576, "type":"float", "redop":"sum", "inPlace":0, "time":100.0,'
        ' "algBw":10.48576, "busBw":BUSBW, "wrong":"0"}\n'
    )
    # As a file, and in a log.
    for before in ("", "NCCL version 2.22.3\n"):
        document = parse_one(before + line.replace("BUSBW", cell))
        half = document["rows"][0]["out_of_place"]
        assert (half["algbw"], half["busbw"], half["no_numbers"]) == (10.48576, None, {"busbw": cell.strip('"')})
        assert (document["lost_rows"], ids(document), document["verdict"]) == (0, ["no-number"], "fail")
        json.dumps(document, allow_nan=False)


@pytest.mark.parametrize("word", ["info", "nanny", "inf.", "NaN", "infg1:4000:4100"])
def test_words_that_begin_like_no_number_tear_the_row(word):
    document = parse_one(NCCL.replace(LAST_ROW, LAST_ROW.replace("346.97", word)))
    assert (len(document["rows"]), document["lost_rows"], document["verdict"]) == (2, 1, "incomplete")


OLD = (FIXTURES / "nccl_tests" / "2.10-all_reduce.txt").read_text(encoding="utf-8")


def test_the_begin_of_a_word_is_no_cell_at_the_end_of_a_row():
    document = parse_one(OLD.replace("1e-07", "info: n1 retries", 1))
    assert (len(document["rows"]), document["lost_rows"]) == (1, 1)


@pytest.mark.parametrize("name", ["json-3.json", "rccl-reporter.json"])
@pytest.mark.parametrize(
    ("wrong", "verdict"), [("0", "pass"), ("0.5", "incomplete"), ("1e-3", "incomplete"), ("3.0", "fail")]
)
def test_a_part_of_a_wrong_value_is_not_none_wrong(name, wrong, verdict):
    """In the table, a row with such a number is lost."""
    text = (FIXTURES / "nccl_tests" / name).read_text(encoding="utf-8")
    text = re.sub(r'"(n?wrong)": *(?:"0"|0(?:\.0+)?(?=[,}\s]))', rf'"\1": {wrong}', text)
    assert f'wrong": {wrong}' in text and parse_one(text)["verdict"] == verdict


def test_greatest_difference_that_is_no_number_is_not_none_wrong():
    document = parse_one(OLD.replace("2e-07", "  nan", 1))
    half = document["rows"][0]["out_of_place"]
    assert (half["error"], half["wrong"], half["no_numbers"]) == (None, None, {"error": "nan"})
    assert document["verdict"] == "fail"


def small(size, time, algbw, busbw):
    half = f"{time:>7}  {algbw:>6}  {busbw:>6}  {0:>6}"
    return f"{size:12}  {size // 4:12}     float     sum      -1  {half}  {half}"


def table_of(rows, ranks=16, average="0.00"):
    head = NCCL[: NCCL.index("#  Rank  0")]
    listed = "".join(
        f"#  Rank {rank:2} Group  0 Pid {4000 + rank:6} on g{rank // 8 + 1} device {rank % 8:2} [0000:07:00] NVIDIA H100\n"
        for rank in range(ranks)
    )
    end = f"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {average}\n"
    return head + listed + f"{HEADER}\n" + "".join(f"{row}\n" for row in rows) + end


def test_bandwidths_of_small_sizes_are_worked_out_from_the_times():
    document = parse_one(
        table_of([small(8, "30.45", "0.00", "0.00"), small(4096, "31.20", "0.13", "0.25")], average="0.123323")
    )
    assert [(row["in_place"]["algbw"], row["in_place"]["busbw"]) for row in document["rows"]] == [
        (0.000262726, 0.000492611), (0.131282, 0.246154),
    ]  # fmt: skip
    # The program's average is of numbers that were not rounded: now it is met by six digits.
    mean = sum(row["in_place"]["busbw"] for row in document["rows"]) / 2
    assert mean == pytest.approx(document["summary"]["avg_busbw"], rel=1e-4)
    assert (document["problems"], document["verdict"]) == ([], "pass")


@pytest.mark.parametrize(
    ("collective", "algbw", "busbw"),
    [
        ("all_reduce", 1.0, 1.5),
        ("all_gather", 1.0, 0.75),
        ("broadcast", 1.0, 1.0),
        ("hypercube", 0.75, 0.75),
        # What these count is not in the output.
        ("alltoallv", 0.5, 0.38),
        ("own_program", 2.0, 7.0),
    ],
)
def test_bandwidth_is_that_of_the_collective(collective, algbw, busbw):
    row = small(1 << 20, "1048.58", f"{algbw:.2f}", f"{busbw:.2f}")
    document = parse_one(table_of([row], ranks=4, average=f"{busbw}").replace("all_reduce_perf", f"{collective}_perf"))
    half = document["rows"][0]["in_place"]
    assert (half["algbw"], half["busbw"]) == (pytest.approx(algbw, rel=1e-4), pytest.approx(busbw, rel=1e-4))
    assert (document["problems"], "computed" in half) == ([], False)


@pytest.mark.parametrize(
    ("collective", "algorithm", "bus"),
    [
        ("all_reduce", 1, 1.5),
        *((name, 1, 0.75) for name in ("all_gather", "reduce_scatter", "alltoall", "gather", "scatter")),
        *((name, 1, 1) for name in ("broadcast", "reduce", "sendrecv")),
        ("hypercube", 0.75, 0.75),
    ],
)
def test_each_collective_has_its_own_factor(collective, algorithm, bus):
    """Of 4 ranks, as doc/PERFORMANCE.md of nccl-tests has it: 1 MiB in 1051 us is 0.997693 GB/s."""
    algbw, busbw = algorithm * 0.997693, bus * 0.997693
    row = small(1 << 20, "1051.00", f"{algbw:.2f}", f"{busbw:.2f}")
    document = parse_one(
        table_of([row], ranks=4, average=f"{busbw:g}").replace("all_reduce_perf", f"{collective}_perf")
    )
    half = document["rows"][0]["out_of_place"]
    assert (half["algbw"], half["busbw"]) == (pytest.approx(algbw, rel=2e-6), pytest.approx(busbw, rel=2e-6))
    assert document["problems"] == []


def test_a_bandwidth_that_is_not_that_of_its_time_is_a_warning():
    """The list of ranks lacks its end, so the factor is another one."""
    document = parse_one(table_of([small(1 << 20, "1048.58", "1.00", "1.88")], ranks=4, average="1.875"))
    half = document["rows"][0]["out_of_place"]
    assert (half["busbw"], half["computed"]) == (1.88, {"busbw": pytest.approx(1.5, rel=1e-4)})
    assert (ids(document), document["verdict"]) == (["bandwidth-differs"], "pass")
    assert document["problems"][0]["evidence"].startswith(
        "busbw 1.88 at size 1048576 out-of-place, worked out 1.49999, "
    )


def test_groups_of_ranks_have_bandwidths_of_their_own():
    """With NCCL_TESTS_SPLIT the ranks of a group take part in a collective."""
    text = table_of([small(1 << 20, "1048.58", "1.00", "1.00")], ranks=4, average="1")
    split = "\n".join(
        line.replace("Group  0", f"Group  {int(line.split()[2]) % 2}") if "Rank " in line else line
        for line in text.split("\n")
    )
    document = parse_one(split)
    assert (document["rows"][0]["in_place"]["busbw"], document["problems"]) == (pytest.approx(1.0, rel=1e-5), [])


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


def test_evidence_of_a_placement_is_what_was_listed_and_what_was_meant():
    both = listed_placement_problems(parse_one(NCCL), ["g1", "g3"], 16)
    fewer = listed_placement_problems(parse_one(NCCL), 2, 8)
    none = listed_placement_problems(parse_one(HEADER), 2, 16)
    assert [problem.evidence for problem in (*both, *fewer, *none)] == [
        "ranks listed: 8 on g1, 8 on g2; expected: 16 on g1, g3",
        "ranks listed: 8 on g1, 8 on g2; expected: 8",
        "ranks listed: none; expected: 16",
    ]


def test_problem_is_added_once():
    document = parse_one(NCCL)
    problems = listed_placement_problems(document, 4, 16)
    worse = add_problems(document, problems)
    assert (ids(worse), worse["verdict"]) == (["hosts-differ"], "fail")
    assert add_problems(worse, problems) == worse
    assert document["problems"] == []


def test_what_follows_from_an_added_problem_is_left_out():
    torn = {**parse_one(NCCL), "complete": False}
    torn["problems"] = [
        RESULT_CATALOGUE.problem(name).as_dict() for name in ("rows-lost", "output-cut", "wrong-values")
    ]
    added = add_problems(torn, [RESULT_CATALOGUE.problem("mpi-missing")])
    assert ids(added) == ["wrong-values", "mpi-missing"]
    assert ids(add_problems(torn, [RESULT_CATALOGUE.problem("hosts-differ")])) == [*ids(torn), "hosts-differ"]


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


def logged(host, network, channels=2):
    lines = (
        f"Using network {network}",
        f"Channel 00/0 : 1[0] -> 0[0] [receive] via NET/{network}/0",
        f"{channels} coll channels, 0 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer",
    )
    return "".join(f"{host}:4711:4712 [0] NCCL INFO {line}\n" for line in lines)


def test_transport_of_each_test(tmp_path):
    first, second = NCCL + logged("g1", "Socket"), NCCL + logged("g1", "AWS Libfabric")
    (tmp_path / "log").write_text(first + second)
    for documents in (parse_results(io.StringIO(first + second)), parse_file(str(tmp_path / "log"))):
        assert [document["transport"]["network"] for document in documents] == ["Socket", "AWS Libfabric"]


def test_hosts_that_differ_are_a_warning():
    document = parse_one(NCCL + logged("g1", "Socket") + logged("g2", "Socket") + logged("g3", "Socket", channels=4))
    (found,) = document["problems"]
    assert (found["id"], found["severity"], found["host"]) == ("transport-differs", "warning", "g3")
    assert found["evidence"] == "g3: channels 4, others 2"
    assert document["verdict"] == "pass"


def test_a_port_that_got_slower_is_a_warning():
    line = "g2:4711:4712 [0] NCCL INFO NET/IB : mlx5_3:1 speed change detected: 400000 -> 200000 Mbps\n"
    document = parse_one(NCCL + logged("g1", "IB") + logged("g2", "IB") + line)
    (found,) = document["problems"]
    assert (found["id"], found["severity"], found["host"]) == ("rdma-port-speed", "warning", "g2")
    assert found["evidence"] == "mlx5_3:1 from 400000 to 200000 Mb/s" and document["verdict"] == "pass"


def test_a_number_before_a_host_is_not_its_name():
    host = parse_one(NCCL)["ranks"][0]["host"]
    document = parse_one(NCCL + logged(host, "Socket") + f"0.00{logged(host, 'Socket')}")
    assert list(document["transport"]["nics"]) == [host]


BANNER = "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor)\n"
RANK = "#  Rank  0 Group  0 Pid   4000 on g1 device  0 [0000:07:00] X\n"
ROW = "8 2 float sum -1 1.00 8.00 8.00 0 1.00 8.00 8.00 0\n"
END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0\n"
REPORTED = '{{"numCycle": 0, "name": "{0}", "size": 8, "type": "float", "redop": "sum", "inPlace": 0, "time": 1, "algBw": 1, "busBw": 1}}\n'


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(BANNER + RANK * 21, id="ranks"),
        pytest.param(BANNER + RANK + f"{HEADER}\n" + ROW * 21, id="rows"),
        pytest.param(BANNER + RANK + f"{HEADER}\n" + "8 2 float sum -1 1.00 8.00 8.00 0\n" * 21, id="halves of rows"),
        pytest.param(BANNER + END * 11, id="summaries"),
        pytest.param(BANNER + "# Bitwise mismatches: 0 OK\n" * 21, id="comparisons"),
        pytest.param('{"version": 1, "nccl_version": 22000}' * 21, id="documents"),
        pytest.param("".join(map(REPORTED.format, range(21))), id="objects"),
        pytest.param('{"version": 1, "config": {"x": [' + "1, " * 20 + "1]}}", id="values"),
        pytest.param('{"version": 1, "results": [' + "{}, " * 20 + "{}]}", id="rows without anything"),
        pytest.param(
            '{"version": 1, ' + "".join(f'"k{number}": 1, ' for number in range(21)) + '"end_time": 1}', id="keys"
        ),
    ],
)
def test_a_text_holds_so_much_and_no_more(monkeypatch, text):
    for name in MOST:
        monkeypatch.setitem(MOST, name, 20)
    with pytest.raises(GpufabricError, match="the text has more than 20 (?:tests|rows and ranks|values)"):
        parse(text)


def test_programs_side_by_side_have_their_complaints_together(monkeypatch):
    monkeypatch.setattr(complaints, "_MOST", 10)
    looked = []
    add = complaints.Complaints.follow
    monkeypatch.setattr(
        complaints.Complaints,
        "follow",
        lambda self, others: looked.append(len(others._lines)) or add(self, others),
    )
    said = [f"g{number}:1:1 [0] x.cc:1 (f) NCCL WARN gizmo {number}\n" for number in range(40)]
    (found,) = parse("".join(alone("g1").replace(HEADER, line) for line in said))
    assert "nccl-complaint" in ids(found)
    # Each is looked at once, however many programs there are.
    assert sum(looked) <= len(said)


def test_times_that_are_passed_over_are_no_flood(monkeypatch):
    monkeypatch.setitem(MOST, "values", 20)
    times = '{"size": 8, "out_of_place_per_iter": {"times_us": [' + "1, " * 40 + "1]}}"
    assert parse_one('{"version": 1, "results": [' + times + "]}")["rows"] == []


@pytest.mark.parametrize(("devices", "ranks"), [(2, 8), (6, 6)])
def test_few_devices_are_no_flood_of_ranks(monkeypatch, devices, ranks):
    monkeypatch.setitem(MOST, "rows and ranks", 20)
    listed = ", ".join(f'{{"rank": {4 * number}, "hostname": "g1"}}' for number in range(devices))
    found = parse_one(f'{{"version": 1, "config": {{"nthreads": 4, "ngpus": 1, "devices": [{listed}]}}}}')
    assert found["rank_count"] == ranks


def test_sizes_that_never_end_are_not_counted():
    # In a thread: without an end it must not hold up all tests.
    text = NCCL.replace("minBytes 1024 ", "minBytes -1024 ")
    assert text != NCCL
    found = []
    reading = threading.Thread(target=lambda: found.append(parse_one(text)), daemon=True)
    reading.start()
    reading.join(30)
    assert found and found[0]["rows"]
