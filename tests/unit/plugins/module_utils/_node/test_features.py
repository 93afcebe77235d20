# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import pathlib
import struct
import sys

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.features import FEATURES, common_features

ALL = b"\0".join(word.rstrip(b"\0") for words in FEATURES.values() for word in words) + b"\0"


def program(constants, name=b".rodata", size=None):
    """An ELF file with a section of constants."""
    names = b"\0" + name + b"\0.shstrtab\0"
    start = 64
    table = start + len(constants) + len(names)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 0, table, 0, 64, 0, 0, 64, 3, 2)
    sections = [
        struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        struct.pack("<IIQQQQIIQQ", 1, 1, 2, 0, start, len(constants) if size is None else size, 0, 0, 1, 0),
        struct.pack("<IIQQQQIIQQ", 2 + len(name), 3, 0, 0, start + len(constants), len(names), 0, 0, 1, 0),
    ]
    return header + constants + names + b"".join(sections)


@pytest.mark.parametrize(
    ("content", "features"),
    [
        (program(ALL), list(FEATURES)),
        # As of 2.17, which had -I and no times of processes yet, and of 2.13.
        (program(b"output_file\0# Writing JSON output to \0per_iter_timing\0run_cycles\0"), ["json", "cycles"]),
        (program(b"run_cyclesX\0"), []),
        (program(b""), []),
        # The words stand elsewhere in the file.
        (program(ALL, name=b".data"), []),
        (program(ALL, size=1 << 40), []),
        (program(ALL)[:-70], []),
        (program(ALL)[:40], []),
        (program(ALL)[:40] + b"\xff" * 8 + program(ALL)[48:], []),
        (b"#!/bin/sh\n" + ALL, []),
        (b"", []),
    ],
)
def test_features_of_a_program(tmp_path, content, features):
    path = tmp_path / "all_reduce_perf"
    path.write_bytes(content)
    assert common_features([str(path)]) == features


def test_features_are_those_of_all_programs(tmp_path):
    for name, constants in (("a", ALL), ("b", b"run_cycles\0report_timestamps\0")):
        (tmp_path / name).write_bytes(program(constants))
    assert common_features([str(tmp_path / "a"), str(tmp_path / "b")]) == ["cycles", "timestamps"]
    assert common_features([str(tmp_path / "a"), str(tmp_path / "none")]) == []
    assert common_features([str(tmp_path / "a"), str(tmp_path)]) == []
    # Nobody writes to it.
    os.mkfifo(tmp_path / "fifo")
    assert common_features([str(tmp_path / "fifo")]) == []
    # Any program of this machine is read, and is none of nccl-tests.
    assert common_features([str(pathlib.Path(sys.executable).resolve())]) == []
