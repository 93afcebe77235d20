# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a launcher returns as a result document."""

from __future__ import annotations

import copy
import json
import pathlib

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import AnswerError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.checking import check_document
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import parse_results

FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures" / "nccl_tests"
DOCUMENTS = [
    document
    for path in sorted(FIXTURES.iterdir())
    if path.is_file() and path.suffix in (".txt", ".json")
    for document in parse_results(path.read_text(errors="replace").splitlines())
]

HALF_LESS = {
    "size": 8,
    "count": 2,
    "type": "float",
    "redop": "sum",
    "root": -1,
    "out_of_place": None,
    "in_place": None,
}


def test_whatever_the_parser_makes_is_a_document():
    assert len(DOCUMENTS) > 20
    for document in DOCUMENTS:
        check_document("g1", document)
        check_document("g1", json.loads(json.dumps(document)))


TABLE = """\
# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#  Rank  0 Group  0 Pid   4000 on g1 device  0 [0000:07:00] X
#       size         count      type   redop    root {columns}
{rows}
# Out of bounds values : {bounds} FAILED
# Avg bus bandwidth    : 1
"""
NEW = "time   algbw   busbw #wrong"


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        ("time   algbw   busbw  error", "8  2  float  sum  -1  1.00  8.00  8.00  nan"),
        ("time   algbw   busbw  error", "8  2  float  sum  -1  1.00  8.00  8.00  inf"),
        ("cputime   algbw   busbw #wrong", "8  2  float  sum  -1  nan  8.00  8.00  0"),
        (NEW, "9999999999999999999  2  float  sum  -1  1.00  8.00  8.00  0"),
        (NEW, "9223372036854775808  9223372036854775808  int8  sum  -1  1.00  8.00  8.00  0"),
        (NEW, "8  2  float  sum  -1  1.00  8.00  8.00  9e+99"),
        (NEW, "8  2  float  sum  -1  1.00  8.00  8.00  9e+18"),
    ],
)
@pytest.mark.parametrize("bounds", [0, 9999999999999999999])
def test_whatever_a_program_prints_its_document_is_one(columns, row, bounds):
    in_place = row.partition("-1")[2]
    text = TABLE.format(columns=f"{columns}   {columns}", rows="\n".join([row + in_place] * 9), bounds=bounds)
    for document in parse_results((text * 2).splitlines(keepends=True)):
        check_document("g1", document)
        assert document["verdict"] != "pass" and document["rank_count"]


LONG = "x" * 66000
DEVICE = '"rank": 0, "hostname": "g1"'
NUMBERS = '"time": 1.0, "alg_bw": 1.0, "bus_bw": 1.0, "nwrong": 0'
STRUCTURED = f"""{{"version": 1, "args": ["all_reduce_perf"], "config": {{"nthreads": 1, "ngpus": 1, "devices": [{{{DEVICE}}}]}},
 "results": [{{"size": 8, "count": 2, "type": "float", "redop": "sum", "root": "-1", "out_of_place": {{{NUMBERS}}},
  "in_place": {{{NUMBERS}}}, "tuning": {{"algo": "Ring"}}}}]}}"""


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ('"nwrong": 0', '"nwrong": 1e300'),
        ('"nwrong": 0', '"nwrong": "9999999999999999999"'),
        ('"Ring"', "1e999"),
        ('"g1"', f'"{LONG}"'),
        ('"g1"', f'"g1", "device_info": "{LONG}"'),
        ('"g1"', f'"g1", "device_hex": [{"1, " * 66000}1]'),
        ("all_reduce_perf", LONG),
    ],
)
def test_whatever_a_program_writes_as_json_its_document_is_one(part, other):
    (document,) = parse_results([STRUCTURED.replace(part, other)])
    check_document("g1", document)
    assert document["rank_count"] == 1


def test_a_version_of_any_length():
    text = TABLE.format(columns=f"{NEW}   {NEW}", rows="8 2 float sum -1" + " 1.00 8.00 8.00 0" * 2, bounds=0)
    for document in parse_results([*text.splitlines(keepends=True), "rccl-tests: Version " + "9" * 100000 + "\n"]):
        check_document("g1", document)


TRANSPORT = {
    **dict.fromkeys(("network", "plugin", "socket_interface", "gdr", "nvls", "mnnvl", "channels")),
    "mixed": True,
    "nics": {"g1": None},
    "connections": {},
    "source": "nccl-debug",
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("transport", {"network": 3}),
        ("transport", {"channels": float("nan")}),
        ("transport", {**TRANSPORT, "differences": [], "channels": 10**400}),
        ("transport", {**TRANSPORT, "differences": [], "nics": {"g1": [["mlx5_0:1"]]}}),
        ("transport", {**TRANSPORT, "differences": [{"fact": "gdr", "host": ["g1"], "value": True, "others": False}]}),
        ("transport", {**TRANSPORT, "differences": [{"fact": {}, "host": "g1", "value": True, "others": False}]}),
        ("software", {"nccl": float("inf")}),
        ("more", [float("nan")]),
        ("more", {1, 2}),
        ("problems", [{"id": float("nan")}]),
    ],
)
def test_what_no_report_can_hold_is_refused(name, value):
    document = {**DOCUMENTS[0], name: value}
    with pytest.raises(AnswerError, match="g1 returned a result that is none"):
        check_document("g1", document)


@pytest.mark.parametrize(
    ("place", "value", "field"),
    [
        (("schema",), "gpufabric.nccl/result/v2", "schema"),
        (("summary", "wrong"), "{{ lookup('pipe', 'id') }}", "summary.wrong"),
        (("summary", "peak_size"), 10**400, "summary.peak_size"),
        (("summary", "avg_busbw"), float("nan"), "summary.avg_busbw"),
        (("host_count",), "2", "host_count"),
        (("rank_count",), -1, "rank_count"),
        (("tool", "name"), ["cpu"], "tool.name"),
        (("rows",), "many", "rows"),
        (("rows", 0), {}, "rows"),
        (("rows", 0, "out_of_place", "time_us"), 10**400, "time_us"),
        (("rows", 0), {"size": 2**63}, "size"),
        (("rows", 0), {**HALF_LESS}, "rows"),
        (("ranks",), [{"rank": 0}], "ranks"),
        (("config",), [1], "config"),
        (("config", "minbytes"), float("nan"), "config"),
        (("env",), {"A": 1}, "env"),
    ],
)
def test_what_is_no_document_is_told_with_its_field(place, value, field):
    document = copy.deepcopy(next(item for item in DOCUMENTS if item["rows"] and item["rows"][0]["out_of_place"]))
    holder = document
    for name in place[:-1]:
        holder = holder[name]
    holder[place[-1]] = value
    with pytest.raises(AnswerError, match=field) as raised:
        check_document("g1", document)
    assert raised.value.host == "g1" and "{{" not in str(raised.value)
