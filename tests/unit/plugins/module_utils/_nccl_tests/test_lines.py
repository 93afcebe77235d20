# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import io

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests import lines
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.lines import is_candidate, lines_of

OF_NCCL = "g0:4000:4100 [0] NCCL INFO Channel 00/32 :    0   1"
TORN = "        1024           25g0:4000:4100 [0] NCCL INFO Connected"
LINES = [
    OF_NCCL,
    "# nThread 1",
    TORN,
    OF_NCCL,
    "g0:1:1 [0] NCCL INFO NCCL version 2.28.7",
    "é",
    OF_NCCL,
    "",
    "  8  2  float",
]


@pytest.mark.parametrize("size", [1, 7, 33, 100, 1 << 18])
def test_lines_of_a_file_do_not_depend_on_its_blocks(monkeypatch, size):
    monkeypatch.setattr(lines, "BLOCK", size)
    found = list(lines_of(io.BytesIO("\n".join(LINES).encode())))
    assert [line for line, _whole in found] == [line for line in LINES if is_candidate(line)]
    assert [whole for _line, whole in found] == [True] * (len(found) - 1) + [False]


def test_only_lines_of_nccl_that_hold_nothing_else_are_no_candidates():
    assert [line for line in LINES if not is_candidate(line)] == [OF_NCCL] * 3


@pytest.mark.parametrize(
    "name",
    [
        *("int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16"),
        *("char", "int", "uint", "fp8_e4m3", "fp8_e5m2", "f8e4m3", "f8e5m2"),
    ],
)
def test_a_row_behind_a_line_of_nccl_is_seen_whatever_its_type(name):
    hidden = f"g2:1:1 [0] NCCL INFO      1024     256  {name}  sum"
    assert list(lines_of(io.BytesIO(f"{hidden}\n".encode()))) == [(hidden, True)]
