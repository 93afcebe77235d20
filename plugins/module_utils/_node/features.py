# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What the programs of nccl-tests can do, by their own words: they print their version only when they run, on a GPU.

Their options and messages are constants in a section of the file, which is small beside the code for GPUs. Nothing is run.
"""

from __future__ import annotations

import contextlib
import os
import struct
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._files import open_file

#: Names of features, and the constants of a program that has them: long options, keys of JSON, messages (src/common.cu, src/util.cu).
FEATURES: dict[str, tuple[bytes, ...]] = {
    # -J.
    "json": (b"output_file\0", b"Writing JSON output to "),
    # -I, and its times of each process in the JSON.
    "rank_times": (b"per_iter_timing\0", b"per_process_max_times_us\0"),
    # -z 3: a barrier before each iteration.
    "barriers": (b"time excludes barrier",),
    # -N and -S.
    "cycles": (b"run_cycles\0",),
    "timestamps": (b"report_timestamps\0",),
}
#: With NCCL in it, a program has some MB of constants.
_MOST_CONSTANTS = 64 << 20
_MOST_SECTIONS = 4096
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_MAGIC = b"\x7fELF\x02\x01"


def common_features(paths: t.Iterable[str]) -> list[str]:
    """The features that all of these programs have; none of a file that is no program, such as a script."""
    left = set(FEATURES)
    for path in paths:
        constants = b""
        # What cannot be read has none.
        with contextlib.suppress(OSError, ArithmeticError, ValueError, struct.error):
            constants = read_constants(path)
        left = {name for name in left if all(word in constants for word in FEATURES[name])}
        if not left:
            break
    return [name for name in FEATURES if name in left]


def read_constants(path: str) -> bytes:
    """The section .rodata of an ELF file of 64 bits. Raises OSError, OverflowError, ValueError and struct.error."""
    with open_file(path) as file:
        header = _HEADER.unpack(file.read(_HEADER.size))
        offset, size, count, names = header[6], header[11], header[12], header[13]
        if not header[0].startswith(_MAGIC) or size != _SECTION.size or not names < count <= _MOST_SECTIONS:
            raise ValueError(f"{path} is no ELF file of 64 bits, little-endian, with sections")
        file.seek(offset)
        table = file.read(size * count)
        sections = [_SECTION.unpack_from(table, size * number) for number in range(count)]
        texts = _part(file, sections[names])
        found = [entry for entry in sections if texts[entry[0] : entry[0] + 8] == b".rodata\0"]
        return b"".join(_part(file, entry) for entry in found[:1])


def _part(file: t.BinaryIO, section: t.Sequence[int]) -> bytes:
    offset, size = section[4], section[5]
    if size > _MOST_CONSTANTS or offset + size > os.fstat(file.fileno()).st_size:
        raise ValueError("a section is too large")
    file.seek(offset)
    return file.read(size)
