# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How fast the table of nccl-tests is found in a long log of NCCL_DEBUG=INFO, and what memory that takes, against two other ways.

Both are written anew after the sources of the programs that they are named after, and do what these do to get at the rows:
CloudAI (workloads/nccl_test/performance_report_generation_strategy.py) and SuperBench (micro_benchmarks/cuda_nccl_bw_performance.py).
They read less: neither tells apart several tests, puts torn rows together, nor compares the rows with the printed average.

Ratios of one run say something; the rates depend on the machine. usage: make bench-parser [MEGABYTES=2000]
"""

from __future__ import annotations

import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import parse_file

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


def by_lines(path: pathlib.Path) -> int:
    """As CloudAI: each line is stripped and tried with a regular expression, and a second time for the devices."""
    with path.open(encoding="utf-8") as lines:
        rows = sum(len(re.split(r"\s+", line)) == 13 for line in map(str.strip, lines) if re.match(r"^\d", line))
        lines.seek(0)
        ranks = sum("Rank" in line and "device" in line and "NVIDIA" in line for line in lines)
    assert ranks == TABLE.count("#  Rank")
    return rows


def by_marks(path: pathlib.Path) -> int:
    """As SuperBench: the whole output is held and split, and what is between two marks is taken apart."""
    content = path.read_text(encoding="utf-8").splitlines()
    begin = end = 0
    for number, line in enumerate(content):
        if "out-of-place" in line:
            begin = number + 1
        if "Out of bounds values" in line:
            end = number
    cells = (re.sub(r" +", " ", line.strip(" ")).split(" ") for line in content[begin:end])
    return sum(re.match(r"\d+", line[0]) is not None for line in cells)


PARSERS = {"the collection": by_collection, "CloudAI's way": by_lines, "SuperBench's way": by_marks}


def measure(name: str, path: pathlib.Path) -> None:
    """Print megabytes a second of one core, the best of three times, and the highest memory of this process in MiB."""
    best = 0.0
    for _number in range(3):
        begin = time.process_time()
        rows = PARSERS[name](path)
        assert rows == TABLE.count("float  "), f"{name} reads {rows} rows"
        best = max(best, path.stat().st_size / MEGABYTE / (time.process_time() - begin))
    print(best, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def measured(name: str, path: pathlib.Path) -> tuple[float, float]:
    """The same of a process of its own, so that none has the memory of another."""
    argv = [sys.executable, __file__, name, str(path)]
    rate, memory = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    return float(rate), float(memory)


def main() -> None:
    """Print a table."""
    megabytes = int(os.environ.get("MEGABYTES") or 2000)
    print(f"{'':18}{'log MB':>8}{'MB/s':>8}{'MiB':>8}   the collection is")
    with tempfile.TemporaryDirectory() as directory:
        log = pathlib.Path(directory, "log")
        # One of the ways holds all of it.
        for size, names in ((min(megabytes, 200), list(PARSERS)), (megabytes, ["the collection"])):
            write_log(log, size)
            own = 0.0
            for name in names:
                rate, memory = measured(name, log)
                own = own or rate
                ratio = f"{own / rate:8.1f} times as fast" if name != "the collection" else ""
                print(f"{name:18}{size:8}{rate:8.0f}{memory:8.0f}{ratio}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        measure(sys.argv[1], pathlib.Path(sys.argv[2]))
    else:
        main()
