# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How fast the table of nccl-tests is found in a long log of NCCL_DEBUG=INFO, against parsers that try each line.

Ratios of one run say something; the rates depend on the machine. usage: make bench-parser [MEGABYTES=2000]
"""

from __future__ import annotations

import os
import pathlib
import re
import resource
import sys
import tempfile
import time
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests import parse_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = (ROOT / "tests" / "unit" / "fixtures" / "all_reduce_perf.txt").read_text(encoding="utf-8")
MEGABYTE = 1_000_000


def debug_text() -> str:
    """What 16 ranks print while they connect: mostly channels, and some lines with many blanks."""
    lines = []
    for channel in range(32):
        lines.append(f"g0:4000:4100 [0] NCCL INFO Channel {channel:02}/32 :    0   1   2   3   4   5   6   7")
        for rank in range(16):
            who = f"g{rank // 8}:{4000 + rank}:{4100 + rank} [{rank % 8}] NCCL INFO"
            after = (rank + 1) % 16
            lines += [
                f"{who} Channel {channel:02}/0 : {rank}[{rank % 8}] -> {after}[{after % 8}] [send] via NET/IB/{rank % 8}/GDRDMA",
                f"{who} NET/IB: NCCL Dev {rank % 8} IbDev 0 Port 1 qpn {1000 + channel} mtu 5 GID 3 (0/FD00) fifoRkey=0x1 fifoLkey=0x1",
                f"{who} Connected to proxy localRank {rank % 8} -> connection 0x7f{channel:02}1e8000e90",
            ]
    return "\n".join(lines) + "\n"


def write_log(path: pathlib.Path, megabytes: int) -> None:
    """A log with one table in its middle."""
    text = debug_text()
    times = max(2, megabytes * MEGABYTE // len(text))
    with path.open("w", encoding="utf-8") as log:
        for number in range(times):
            if number == times // 2:
                log.write(TABLE)
            log.write(text)


def by_collection(path: pathlib.Path) -> int:
    """Rows that the collection reads."""
    (document,) = parse_file(str(path))
    assert document["complete"]
    return len(document["rows"])


def line_by_line(path: pathlib.Path) -> int:
    """The same in the style of CloudAI: a file is read line by line, and each is stripped and tried with a regular expression."""
    rows = 0
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            line = line.strip()
            if re.match(r"^\d", line):
                rows += len(re.split(r"\s+", line)) == 13
            else:
                re.search(r"Avg bus bandwidth\s+:\s+(\d+\.\d+)", line)
    return rows


def whole_text(path: pathlib.Path) -> int:
    """The same in the style of SuperBench: the text is held, split into lines, and searched for the marks of the table."""
    content = path.read_text(encoding="utf-8", errors="replace").splitlines()
    size_index = out_index = -1
    rows = 0
    for line in content:
        if "out-of-place" in line:
            out_index = line.index("out-of-place")
        if re.search(r"\bsize\b.*\bbusbw\b", line):
            size_index = line.index("size")
        elif size_index >= 0 and out_index >= 0 and len(re.sub(r"\s+", " ", line).strip().split(" ")) == 13:
            rows += bool(re.match(r"^\s*\d+\s", line))
    return rows


def rate(read: t.Callable[[pathlib.Path], int], path: pathlib.Path, times: int) -> float:
    """Megabytes a second of one core, the best of several times."""
    size = path.stat().st_size / MEGABYTE
    best = 0.0
    for _number in range(times):
        begin = time.process_time()
        rows = read(path)
        assert rows == TABLE.count("float  "), f"{read.__name__} read {rows} rows"
        best = max(best, size / (time.process_time() - begin))
    return best


def main() -> None:
    """Print the rates, and how many times faster the collection is."""
    megabytes = int(os.environ.get("MEGABYTES") or 2000)
    with tempfile.TemporaryDirectory() as directory:
        log = pathlib.Path(directory, "log")
        write_log(log, megabytes)
        own = rate(by_collection, log, 3)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"log                           {log.stat().st_size / MEGABYTE:8.0f} MB")
        print(f"the collection                {own:8.0f} MB/s   highest memory {memory:.0f} MiB")
        for name, read in (
            ("each line, CloudAI's style", line_by_line),
            ("whole text, SuperBench's style", whole_text),
        ):
            # They are slow, and the second holds all of it: less of the same says as much.
            write_log(log, min(megabytes, 100))
            other = rate(read, log, 1)
            print(f"{name:30}{other:8.0f} MB/s   the collection is {own / other:.1f} times as fast")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
