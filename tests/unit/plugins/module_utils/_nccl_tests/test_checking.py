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


@pytest.mark.parametrize(
    ("place", "value", "field"),
    [
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
