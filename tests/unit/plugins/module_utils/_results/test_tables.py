# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import pathlib

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import parse_results
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.tables import (
    CPU_NOTE,
    check_documents,
    results_markdown,
    results_table,
    summary_text,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.verdict import Judge
from ansible_collections.gpufabric.nccl.plugins.module_utils._units import format_size

FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures"
NCCL_TEXT = (FIXTURES / "all_reduce_perf.txt").read_text(encoding="utf-8")
NCCL = parse_results(NCCL_TEXT.splitlines())
CPU = parse_results((FIXTURES / "alltoall_cpu.txt").read_text(encoding="utf-8").splitlines())
CUT = parse_results(NCCL_TEXT[: NCCL_TEXT.index("# Out of bounds")].splitlines())

NCCL_TABLE = """\
all_reduce (nccl-tests 2.17.6, NCCL 2.28.7), 16 ranks on 2 hosts, float, sum, PASS

            ---------- out-of-place ----------  ------------ in-place ------------
      size       time    algbw    busbw #wrong       time    algbw    busbw #wrong
                   us     GB/s     GB/s                us     GB/s     GB/s
     1 KiB      31.25     0.03     0.06      0      30.50     0.03     0.06      0
     1 MiB      74.20    14.13    26.50      0      73.80    14.21    26.64      0
     1 GiB     5802.4   185.05   346.97      0     5811.7   184.76   346.42      0

busbw: peak 346.97 GB/s at 1 GiB, average 124.44 GB/s; 0 wrong values
published: 436.95 GB/s at 1 GiB, AWS p5.48xlarge, 2 x 8 H100, EFA (aws-p5); this is 79 % of it
Two hosts: by trees or NVLink's switches, all_reduce needs about 65 % of the network, so a third of
  it can be lost and not show. all_gather shows it, and so does NCCL_ALGO=Ring.

Verdict over 1 test: PASS
"""


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (8, "8 B"), (65536, "64 KiB"), (4194304, "4 MiB"), (1000000, "976.56 KiB"), (2**40, "1 TiB")],
)
def test_format_size(size, text):
    assert format_size(size) == text


def test_table():
    assert results_table(NCCL) == NCCL_TABLE


@pytest.mark.parametrize(
    ("changes", "env", "is_noted"),
    [
        ({}, {}, True),
        ({}, {"NCCL_ALGO": "Tree"}, True),
        ({}, {"NCCL_ALGO": " RING "}, False),
        ({"env": {"NCCL_ALGO": "Ring"}}, {}, False),
        ({"host_count": 3}, {}, False),
        ({"host_count": 1}, {}, False),
        ({"collective": "all_gather"}, {}, False),
        ({"tool": {"name": "cpu", "version": None, "nccl_version": None}}, {}, False),
        ({"summary": {**NCCL[0]["summary"], "peak_busbw": None}}, {}, False),
    ],
)
def test_what_two_hosts_hide_stands_beside_their_number(changes, env, is_noted):
    document = {**NCCL[0], **changes, "points": {"env": env}}
    for text in (results_table([document]), results_markdown([document])):
        assert ("a third of" in text) == is_noted


def test_table_says_what_was_not_measured_with_nccl():
    text = results_table(NCCL + CPU + CUT)
    nccl, cpu, cut, overall = (part for part in text.split("\n\n") if "Verdict" in part or "busbw: " in part)
    assert CPU_NOTE in cpu
    assert CPU_NOTE not in nccl + cut
    assert "N/A" in text
    assert "WARNING output-cut: The output ends" in cut
    assert "average unknown" in cut
    assert overall == "Verdict over 3 tests: INCOMPLETE; 1 of 3 tests by the CPU program, which does not test NCCL\n"
    assert max(map(len, text.splitlines())) <= 100


def test_tests_that_printed_nothing_are_by_no_other_program():
    """A worker that was lost in mid-sweep: all of the run was by the CPU program."""
    lost = {**CPU[0], "tool": {"name": None, "version": None, "nccl_version": None}, "rows": [], "verdict": "fail"}
    told = "Verdict over 3 tests: FAIL, by the CPU program: NCCL was not tested\n"
    assert results_table([*CPU, lost, lost]).endswith(told)
    assert results_table([*NCCL, *CPU, lost]).endswith("1 of 3 tests by the CPU program, which does not test NCCL\n")
    assert results_table([lost]).endswith("Verdict over 1 test: FAIL\n")


def test_table_may_leave_the_words_of_problems_to_the_end_of_a_play():
    (document,) = CUT
    problem = document["problems"][0]
    whole, brief = (" ".join(results_table(CUT, "", verdicts).split()) for verdicts in ((), [document["verdict"]]))
    assert problem["cause"] in whole and problem["cause"] not in brief
    assert f"{problem['severity'].upper()} {problem['id']}: see below" in brief


def test_table_shows_settings_in_which_rows_differ():
    text = results_table(parse_results(NCCL_TEXT.replace("float     sum", "double    sum", 1).splitlines()))
    assert "hosts, sum, PASS" in text
    assert "     1 KiB double " in text
    assert "     1 MiB  float " in text
    document = copy.deepcopy(NCCL[0])
    for row in document["rows"]:
        row["root"] = 0
    assert ", float, sum, root 0, PASS" in results_table([document])


def test_table_shows_what_was_not_measured_as_such():
    document = copy.deepcopy(NCCL[0])
    document["rows"][0]["in_place"] = None
    document["rows"][1]["out_of_place"]["time_us"] = None
    for row in document["rows"]:
        row["root"] = None
    lines = results_table([document]).splitlines()
    assert lines[5].split() == ["1", "KiB", "31.25", "0.03", "0.06", "0", "-", "-", "-", "-"]
    assert lines[6].split()[:4] == ["1", "MiB", "-", "14.13"]
    assert "root" not in results_markdown([document])


def test_hosts_are_shown_by_their_names_in_the_inventory_too():
    document = copy.deepcopy(NCCL[0])
    own = list(dict.fromkeys(rank["host"] for rank in document["ranks"]))
    (checked,) = check_documents([{**document, "host_names": {own[0].split(".")[0]: "gpu-1"}}])
    text = results_markdown([checked])
    assert f"| gpu-1 ({own[0]}) |" in text.replace("\\", "") and f"| {own[1]} |" in text.replace("\\", "")
    # From a file that anybody may have edited.
    (edited,) = check_documents([{**document, "host_names": ["odd"]}])
    assert "gpu-1" not in results_markdown([edited])


def test_the_largest_size_stands_beside_a_peak_that_is_elsewhere():
    document = copy.deepcopy(NCCL[0])
    assert "the largest size" not in summary_text(document)
    document["summary"].update(peak_busbw=400.0, peak_size=1 << 20)
    told = (
        "busbw: peak 400.00 GB/s at 1 MiB, 346.97 GB/s at 1 GiB, the largest size, average 124.44 GB/s; 0 wrong values"
    )
    assert summary_text(document) == told
    assert told in results_table([document]) and told in results_markdown([document])
    # Of a soak it is that of the medians, as the peak is.
    document["soak"] = {"sizes": [{"size": 1 << 20, "median": 400.0}, {"size": 1 << 30, "median": 180.0}]}
    assert "peak 400.00 GB/s at 1 MiB, 180.00 GB/s at 1 GiB, the largest size" in summary_text(document)
    del document["soak"]
    # What failed there has no number.
    for placement in ("in_place", "out_of_place"):
        document["rows"][-1][placement]["busbw"] = None
    assert "the largest size" not in summary_text(document)


def test_table_of_a_test_without_rows():
    documents = parse_results(NCCL_TEXT[: NCCL_TEXT.index("#       size")].splitlines())
    text = results_table(documents)
    assert "out-of-place" not in text
    assert "busbw: peak unknown, average unknown; no value was checked" in text
    overview = "| 1 | all_reduce | nccl-tests 2.17.6, NCCL 2.28.7 | 16 | 2 |  |  |  | not checked | **incomplete** |"
    assert overview in results_markdown(documents)


def test_markdown():
    lines = results_markdown(
        [*NCCL, *CUT, {**CPU[0], "points": {"argv": ["a b", "-c"], "env": {"NCCL_ALGO": "Ring"}}}]
    ).splitlines()
    told = "Verdict over 3 tests: **incomplete**; 1 of 3 tests by the CPU program, which does not test NCCL"
    assert lines[:3] == ["# Benchmark report", "", told]
    cpu_alone = "Verdict over 1 test: **pass**, by the CPU program: NCCL was not tested"
    assert results_markdown(CPU).splitlines()[2] == cpu_alone
    assert f"> **Not NCCL.** {CPU_NOTE} This goes for the tests whose tool is `cpu`." in lines
    nccl = "| 1 | all_reduce | nccl-tests 2.17.6, NCCL 2.28.7 | 16 | 2 | 346.97 | 1 GiB | 124.44 | 0 | **pass** |"
    assert nccl in lines
    assert "| 1 GiB | 5802.4 | 185.05 | 346.97 | 0 | 5811.7 | 184.76 | 346.42 | 0 |" in lines
    assert "| g2 | 8 | 8 x NVIDIA H100 80GB HBM3 |" in lines
    assert "| argv | 'a b' -c |" in lines
    assert "| NCCL_ALGO | Ring |" in lines
    assert "### 2. all_reduce: warning `output-cut`" in lines
    assert (
        "- Cure: Read the end of the output and the error output: the program failed, or was ended, before it was done."
        in lines
    )


def test_markdown_of_a_problem_has_its_host():
    problem = {"id": "ecc", "severity": "error", "host": "g|1", "cause": "C.", "cure": "D.", "evidence": ""}
    text = results_markdown([{**NCCL[0], "problems": [problem]}])
    assert "### 1. all_reduce: error `ecc` on g\\|1\n\n- Cause: C.\n- Cure: D.\n\n" in text


def test_markdown_of_nothing_wrong():
    text = results_markdown(NCCL)
    assert "## Problems\n\nNone was found.\n" in text
    assert "Not NCCL" not in text


def test_names_from_machines_are_no_further_lines_of_a_table():
    document = copy.deepcopy(NCCL[0])
    forged = "x\n\nVerdict over 1 test: FAIL"
    document["tool"]["version"] = document["rows"][0]["type"] = document["ranks"][0]["name"] = forged
    document["problems"] = [
        {"id": "a", "severity": "error", "host": forged, "cause": forged, "cure": "", "evidence": ""}
    ]
    document["points"] = {"argv": ["sh", "-c", forged], "env": {"NCCL_ALGO": forged, forged: "1"}}
    (checked,) = check_documents([document])
    assert checked["points"]["argv"] == ["sh", "-c", forged] and set(checked["points"]["env"]) == {
        "NCCL_ALGO",
        forged.replace("\n", " "),
    }
    for named_only in ([], ["pass"]):
        lines = results_table(check_documents([document]), named_only=named_only).splitlines()
        assert [line for line in lines if line.startswith("Verdict")] == ["Verdict over 1 test: PASS"]


@pytest.mark.parametrize("verdicts", [None, 5, [5], [{}], "passed", "percent", "missed_sizes", "min_bytes", "message"])
def test_verdicts_that_are_none_are_refused(verdicts):
    judged = Judge({"rules": [{"limit": 1}]}).judge(NCCL[0])
    if isinstance(verdicts, str):
        judged["verdicts"][1][verdicts] = "5"
        verdicts = judged["verdicts"] if verdicts != "message" else [{**judged["verdicts"][1], "message": None}]
    with pytest.raises(GpufabricError, match="verdicts"):
        check_documents([{**judged, "verdicts": verdicts}])


def test_what_was_typed_in_of_the_hardware_is_part_of_a_document():
    topology = {"nic_gbps": 400, "gpus": 16, "rails": 8}
    rules = [{"ceiling_percent": 1}]
    documents = check_documents([Judge({"topology": topology, "rules": rules}).judge(NCCL[0])])
    assert documents[0]["verdicts"][1]["source"].endswith("x 4 rails, all_reduce over 16 ranks on 2 hosts")
    # The same ceiling.
    assert "200 GB/s: 400 Gb/s x 4 rails, all_reduce" in results_table(documents)


def test_names_from_machines_cannot_break_the_markdown():
    text = results_markdown(parse_results(NCCL_TEXT.replace(" g2 ", " g|<b>[x](y)` ").splitlines()))
    assert "| g\\|&lt;b>\\[x\\](y)\\` | 8 |" in text


@pytest.mark.parametrize(
    "documents", [None, "text", NCCL[0], [{**NCCL[0], "schema": "other/v1"}], [{**NCCL[0], "verdict": "great"}], [1]]
)
def test_only_documents_are_taken(documents):
    with pytest.raises(GpufabricError, match="a list of result documents is needed"):
        check_documents(documents)


@pytest.mark.parametrize(
    ("name", "value"), [("soak", {"cycles": "many"}), ("stragglers", [{"rank": 1}]), ("soak", [1]), ("stragglers", "x")]
)
def test_a_soak_or_stragglers_that_are_none_are_refused(name, value):
    with pytest.raises(GpufabricError, match=name):
        check_documents([{**NCCL[0], name: value}])
    # Documents of earlier releases have neither.
    earlier = {key: item for key, item in NCCL[0].items() if key not in ("soak", "stragglers")}
    (checked,) = check_documents([earlier])
    assert checked["soak"] is None and checked["stragglers"] is None
    assert results_table([earlier]) == NCCL_TABLE
