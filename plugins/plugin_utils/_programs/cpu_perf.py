# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run one collective over MPI in the memory of processors, with nccl-tests' options, output and exit status.

    mpirun -np 4 python3 cpu_perf.py all_reduce -b 8 -e 4M -f 2

It stands in for nccl-tests on machines without GPUs. The collectives, their times and their checks are real, but
they are MPI's, not NCCL's: banner, test name and JSON document say so. It may be started from its text
(``python3 -c`` and exec), so it knows nothing of its own file. Needs Python 3.8, numpy and mpi4py.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import socket
import sys
import threading
import time
import typing as t

NUMPY_ERROR = ""
try:
    import numpy as np
# RuntimeError: on a processor that numpy was not built for. load_mpi() says what to do; the options and the text need no numpy.
except (ImportError, RuntimeError) as error:
    np, NUMPY_ERROR = None, str(error)

PROGRAM = "gpufabric-cpu"
VERSION = "0.1.0"
PACKAGES = (
    "install python3-mpi4py and python3-numpy (Debian, Ubuntu), python3-mpi4py-openmpi and python3-numpy"
    " (RHEL, Fedora), or mpi4py and numpy (PyPI)"
)

# nccl-tests' exit status (testResult_t in src/common.h).
INTERNAL_ERROR, TIMEOUT, INVALID_USAGE, WRONG_VALUES = 1, 4, 6, 7

# nccl-tests' name of a type: numpy's name, MPI's name. MPI has no half: it is moved as 16 bits and reduced by HALF_OPS.
TYPES = {
    "int8": ("int8", "INT8_T"),
    "uint8": ("uint8", "UINT8_T"),
    "int32": ("int32", "INT32_T"),
    "uint32": ("uint32", "UINT32_T"),
    "int64": ("int64", "INT64_T"),
    "uint64": ("uint64", "UINT64_T"),
    "half": ("float16", "UINT16_T"),
    "float": ("float32", "FLOAT"),
    "double": ("float64", "DOUBLE"),
}

# MPI has no average: it is a sum, divided afterwards by those who receive it.
OPS = {"sum": "SUM", "prod": "PROD", "max": "MAX", "min": "MIN", "avg": "SUM"}
HALF_OPS = {"SUM": "add", "PROD": "multiply", "MAX": "maximum", "MIN": "minimum"}

MAX_COUNT = 2**31 - 1  # elements of one MPI call

# Environment that describes the run. The rest stays out of the JSON document, for it may hold secrets.
ENV_KEPT = re.compile(r"(NCCL|OMPI)_")
ENV_DROPPED = re.compile(r"URI|TRANSPORTS|ARGV|COMMAND|KEY|TOKEN|SECRET|PASS", re.IGNORECASE)

TIME_FORMAT = "%Y-%m-%d %H:%M:%S"


class UsageError(Exception):
    """The program cannot do what its options ask for. ``str(error)`` is the one line that the user reads."""


class Collective(t.NamedTuple):
    """What nccl-tests defines for a collective."""

    send_blocks: bool  # the send buffer holds one block for each rank, not one in all
    recv_blocks: bool  # the receive buffer does
    takes_op: bool
    takes_root: bool
    in_place_defined: bool  # whether an in-place run has a result to check
    bus_factor: t.Callable[[int], float]  # busbw / algbw for n ranks, as in nccl-tests' doc/PERFORMANCE.md


def _all_but_own(ranks: int) -> float:
    return (ranks - 1) / ranks


def _all(ranks: int) -> float:
    return 1.0


COLLECTIVES = {
    "all_reduce": Collective(False, False, True, False, True, lambda ranks: 2 * (ranks - 1) / ranks),
    "all_gather": Collective(False, True, False, False, True, _all_but_own),
    "reduce_scatter": Collective(True, False, True, False, True, _all_but_own),
    "broadcast": Collective(False, False, False, True, True, _all),
    "reduce": Collective(False, False, True, True, True, _all),
    "alltoall": Collective(True, True, False, False, False, _all_but_own),
    # nccl-tests runs sendrecv once for each operation and prints it, although nothing is reduced.
    "sendrecv": Collective(False, False, True, False, False, _all),
    "gather": Collective(False, True, False, True, True, _all_but_own),
    "scatter": Collective(True, False, False, True, True, _all_but_own),
}


# Options


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> t.NoReturn:
        raise UsageError(message)


def parse_size(text: str) -> int:
    """Bytes of a size such as ``8``, ``4M`` or ``1.5g``; K, M and G are 1024-based, as in nccl-tests."""
    match = re.fullmatch(r"(\d+(?:\.\d*)?)\s*([KMG]?)", text.strip(), re.IGNORECASE)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; allowed: bytes, or a number with K, M or G")
    size = float(match[1]) * 1024 ** " KMG".index(match[2].upper() or " ")
    if size >= 2**63:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is too large; allowed: less than 2^63 bytes")
    return int(size)


def _at_least(minimum: int) -> t.Callable[[str], int]:
    def number(text: str) -> int:
        if not re.fullmatch(r"\d+", text) or int(text) < minimum:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {minimum}")
        return int(text)

    return number


def _one(text: str) -> int:
    if text != "1":
        raise argparse.ArgumentTypeError(f"{text!r} is not possible, on CPUs a process is one device: start more ranks")
    return 1


def _root(text: str) -> int:
    return -1 if text == "all" else _at_least(0)(text)


def _names(known: t.Iterable[str]) -> t.Callable[[str], list[str]]:
    def names(text: str) -> list[str]:
        if text != "all" and text not in known:
            raise argparse.ArgumentTypeError(f"{text!r} is not supported; allowed: {', '.join(known)}, all")
        return list(known) if text == "all" else [text]

    return names


def build_parser() -> argparse.ArgumentParser:
    """The collective, then nccl-tests' options with its defaults (2.17)."""
    parser = _Parser(
        prog="cpu_perf.py", description="nccl-tests' benchmark of one collective, on CPUs over MPI.", add_help=False
    )
    add = parser.add_argument
    add("collective", choices=list(COLLECTIVES))
    add("-t", "--nthreads", type=_one, default=1, help="1: a process is one device")
    add("-g", "--ngpus", type=_one, default=1, help="1: a process is one device")
    add("-b", "--minbytes", type=parse_size, default=32 << 20, help="smallest size (32M)")
    add("-e", "--maxbytes", type=parse_size, default=32 << 20, help="largest size (32M)")
    add("-i", "--stepbytes", type=parse_size, default=1 << 20, help="step between sizes (1M)")
    add("-f", "--stepfactor", type=_at_least(1), default=1, help="factor between sizes; 1: use the step (1)")
    add("-n", "--iters", type=_at_least(1), default=20, help="timed iterations (20)")
    add("-m", "--agg_iters", type=_at_least(1), default=1, help="operations of an iteration (1)")
    add("-w", "--warmup_iters", type=_at_least(0), default=1, help="iterations before the first row (1)")
    add("-N", "--run_cycles", type=_at_least(0), default=1, help="times that the rows are run; 0: without end (1)")
    add("-c", "--check", type=_at_least(0), default=1, help="checked iterations of a row; 0: none (1)")
    add("-o", "--op", type=_names(OPS), default=["sum"], help=", ".join(OPS) + " or all (sum)")
    add("-d", "--datatype", type=_names(TYPES), default=["float"], help=", ".join(TYPES) + " or all (float)")
    add("-r", "--root", type=_root, default=0, help="rank of the root, or all (0)")
    add("-z", "--blocking", type=_at_least(0), default=0, help="1: barrier after each operation (0)")
    add("-T", "--timeout", type=_at_least(0), default=0, help="seconds that half a row may take; 0: no limit (0)")
    add("-C", "--report_cputime", type=_at_least(0), default=0, help="1: print the time of rank 0 alone (0)")
    add("-S", "--report_timestamps", type=_at_least(0), default=0, help="1: print when a row was done (0)")
    add(
        "-a",
        "--average",
        type=int,
        choices=range(4),
        default=1,
        help="time over the ranks; 0: of rank 0, 1: average, 2: min, 3: max (1)",
    )
    add("-J", "--output_file", metavar="FILE", help="also write a JSON document")
    add("-h", "--help", action="store_true")
    gpu = parser.add_argument_group("accepted for nccl-tests' sake, without meaning on CPUs")
    for short, name in GPU_OPTIONS.items():
        gpu.add_argument(short, f"--{name}", type=int, default=0, metavar="N")
    # Of the tests of the collection: this rank flips a bit of what it received before it is checked.
    add("--corrupt-rank", type=_at_least(0), default=-1, help=argparse.SUPPRESS)
    return parser


GPU_OPTIONS = {
    "-p": "parallel_init",
    "-y": "stream_null",
    "-G": "cudagraph",
    "-R": "local_register",
    "-x": "cta_policy",
    "-D": "device_implementation",
    "-V": "device_cta_count",
    "-M": "memory",
    "-u": "unalign",
}


def parse_options(arguments: t.Sequence[str], ranks: int) -> argparse.Namespace:
    """The options of a run of this many ranks; raises UsageError."""
    if "-h" in arguments or "--help" in arguments:
        return argparse.Namespace(help=True)
    options = build_parser().parse_args(arguments)
    if options.minbytes > options.maxbytes:
        raise UsageError(f"-b {options.minbytes} is more than -e {options.maxbytes}")
    if options.stepfactor > 1 and options.minbytes == 0:
        raise UsageError("-b 0 grows by no factor; use -i instead of -f")
    if options.stepfactor == 1 and options.stepbytes == 0:
        raise UsageError("-i 0 reaches no other size; allowed: at least 1")
    if options.root >= ranks:
        raise UsageError(f"-r {options.root}: there are only ranks 0 to {ranks - 1}")
    if options.corrupt_rank >= ranks:
        raise UsageError(f"--corrupt-rank {options.corrupt_rank}: there are only ranks 0 to {ranks - 1}")
    for name in options.datatype:
        if options.maxbytes // item_size(name) > MAX_COUNT:
            raise UsageError(
                f"-e {options.maxbytes} is too large for type {name}: MPI moves at most {MAX_COUNT} elements,"
                f" {MAX_COUNT * item_size(name)} bytes, at once"
            )
    return options


# The plan


class Counts(t.NamedTuple):
    """Elements of one operation."""

    block: int  # what the operation is given, and the count that is printed
    send: int
    recv: int


class Case(t.NamedTuple):
    """One row of the table but for its size."""

    type: str
    op: str  # "none" where the collective has none
    root: int  # -1 where the collective has none


def item_size(type_name: str) -> int:
    """Bytes of an element."""
    return {"half": 2, "float": 4, "double": 8}.get(type_name) or int(type_name.lstrip("uint")) // 8


def sizes(minimum: int, maximum: int, step: int, factor: int) -> t.Iterator[int]:
    """Sizes in bytes from minimum to maximum, by factor, or by step where factor is 1."""
    size = minimum
    while size <= maximum:
        yield size
        size = size * factor if factor > 1 else size + step


def counts(collective: Collective, size: int, itemsize: int, ranks: int) -> Counts:
    """Elements for a size in bytes.

    Blocks are rounded down to 16 bytes, as in nccl-tests (GetCollByteCount of each src/*.cu), so they may be empty.
    """
    block = size // itemsize
    if collective.send_blocks or collective.recv_blocks:
        aligned = 16 // itemsize
        block = block // ranks // aligned * aligned
    return Counts(
        block, block * (ranks if collective.send_blocks else 1), block * (ranks if collective.recv_blocks else 1)
    )


def cases(collective: Collective, types: t.Sequence[str], ops: t.Sequence[str], root: int, ranks: int) -> list[Case]:
    """Types, then operations, then roots (-1: all of them), in nccl-tests' order."""
    roots = range(ranks) if root == -1 else [root]
    return [
        Case(type_name, op, at)
        for type_name in types
        for op in (ops if collective.takes_op else ["none"])
        for at in (roots if collective.takes_root else [-1])
    ]


# Values
#
# Rank r sends row r of a table that repeats every PERIOD elements. All values, sums and products are whole numbers
# below 128, so they are exact in every type whatever the number of ranks and the order of the operations.

PERIOD = 1021  # a prime: a block that arrives at another place is seen
ADDENDS = 32  # ranks that add more than 0 to one element, each at most 3
FACTORS = 4  # ranks that multiply one element by more than 1, each by at most 3


class Part(t.NamedTuple):
    """A part of a buffer: count elements from start hold row, which repeats, from its element offset on."""

    start: int
    count: int
    row: np.ndarray
    offset: int


def input_table(op: str, ranks: int, seed: int) -> np.ndarray:
    """The values that the ranks send: int64[ranks, PERIOD], others for another seed."""
    rank = np.arange(ranks)[:, None]
    index = np.arange(PERIOD)[None, :]
    small = (rank * (index % 7) + index + seed) % 3  # not the same sum or product at every element
    if op in ("sum", "avg"):
        return np.where((rank - index) % ranks < ADDENDS, 1 + small, 0)
    if op == "prod":
        return np.where((rank - index) % ranks < FACTORS, 1 + small, 1)
    return (31 * rank + 7 * index + seed) % 113 + 1


def reduced_row(op: str, table: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The values that the operation makes of a table, computed without MPI: dtype[PERIOD]."""
    if op == "avg":
        row = table.sum(axis=0).astype(dtype)
        divide(row, len(table))
        return row
    return getattr(table, op)(axis=0).astype(dtype)


def divide(values: np.ndarray, ranks: int) -> None:
    """Divide in place; whole numbers are rounded down."""
    if values.dtype.kind == "f":
        np.true_divide(values, values.dtype.type(ranks), out=values)
    else:
        # More ranks than the type can hold make 0 of every sum, and so does the largest number that it can hold.
        np.floor_divide(values, values.dtype.type(min(ranks, np.iinfo(values.dtype).max)), out=values)


def expected_parts(
    name: str, case: Case, block: int, rank: int, in_place: bool, table: np.ndarray, dtype: np.dtype
) -> list[Part]:
    """What the receive buffer of rank must hold afterwards; nothing where the rank receives nothing."""
    ranks = len(table)
    if name in ("reduce", "gather") and rank != case.root:
        return []
    if name in ("all_reduce", "reduce"):
        return [Part(0, block, reduced_row(case.op, table, dtype), 0)]
    if name == "reduce_scatter":
        return [Part(0, block, reduced_row(case.op, table, dtype), rank * block)]
    if name in ("all_gather", "gather"):
        return [Part(sender * block, block, table[sender], 0) for sender in range(ranks)]
    if name == "alltoall":
        return [Part(sender * block, block, table[sender], rank * block) for sender in range(ranks)]
    if name == "sendrecv":
        return [Part(0, block, table[rank - 1], 0)]
    if name == "scatter":
        return [Part(rank * block if in_place else 0, block, table[case.root], rank * block)]
    return [Part(0, block, table[case.root], 0)]  # broadcast


def _pieces(buffer: np.ndarray, part: Part) -> t.Iterator[tuple[np.ndarray, np.ndarray]]:
    """Views of the part with the values that belong there, in pieces so that no second buffer is needed."""
    step = PERIOD * 256
    values = np.resize(np.roll(part.row, -part.offset).astype(buffer.dtype), min(step, part.count))
    for start in range(0, part.count, step):
        piece = buffer[part.start + start : part.start + min(start + step, part.count)]
        yield piece, values[: piece.size]


def fill(buffer: np.ndarray, part: Part) -> None:
    """Write the values of the part into the buffer."""
    for piece, values in _pieces(buffer, part):
        piece[:] = values


def count_wrong(buffer: np.ndarray, part: Part) -> int:
    """Elements of the buffer that differ from the part."""
    return sum(int(np.count_nonzero(piece != values)) for piece, values in _pieces(buffer, part))


# Text


def fit(value: float, width: int) -> str:
    """A number in this many columns: two decimals, one, none, then an exponent (getFloatStr in src/util.cu)."""
    digits = len(str(int(value))) if value >= 1 else 0
    for decimals, limit in ((2, width - 2), (1, width - 1), (0, width + 1)):
        if digits < limit:
            return f"{value:{width}.{decimals}f}"
    return f"{value:{width}.{1 if width >= 7 else 0}e}"


def banner(name: str, options: argparse.Namespace, libraries: str) -> str:
    """What nccl-tests prints before the devices."""
    step = f"{options.stepfactor}(factor)" if options.stepfactor > 1 else f"{options.stepbytes}(bytes)"
    ignored = [short for short, option in GPU_OPTIONS.items() if getattr(options, option)]
    lines = [
        f"# {PROGRAM} version {VERSION} {libraries}",
        f"# Collective test starting: {name}",
        f"# nThread 1 nGpus 1 minBytes {options.minbytes} maxBytes {options.maxbytes} step: {step}"
        f" warmup iters: {options.warmup_iters} iters: {options.iters} agg iters: {options.agg_iters}"
        f" validation: {options.check} graph: 0",
    ]
    if options.blocking == 1:
        lines.append("# Blocking Enabled: wait for completion and barrier after each collective ")
    if ignored:
        lines.append(f"# Options without meaning on CPUs, ignored: {' '.join(ignored)}")
    return "\n".join([*lines, "#", "# Using devices"])


def device_line(device: dict[str, t.Any]) -> str:
    """A rank, as in nccl-tests since 2.14."""
    return (
        "#  Rank {rank:2d} Group {group:2d} Pid {pid:6d} on {hostname:>10} device {device:2d} [{device_hex}] {device_info}"
    ).format(**device)


def header(options: argparse.Namespace) -> str:
    """The names of the columns."""
    clock = "cputime" if options.report_cputime else "time"
    stamp, stamp_format = (f"{'timestamp':>19}", TIME_FORMAT.rjust(19)) if options.report_timestamps else ("", "")
    first = "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}"
    both = first + "  {:>7}  {:>6}  {:>6}  {:>6}" * 2 + " {}"
    return "\n".join(
        [
            "#",
            first.format("", "", "", "", "") + "           out-of-place                       in-place          ",
            both.format("size", "count", "type", "redop", "root", *[clock, "algbw", "busbw", "#wrong"] * 2, stamp),
            both.format("(B)", "(elements)", "", "", "", *["(us)", "(GB/s)", "(GB/s)", ""] * 2, stamp_format),
        ]
    )


def row(result: dict[str, t.Any], stamp: str) -> str:
    """A row of the table, from its entry in the JSON document."""
    text = "{size:12d}  {count:12d}  {type:>8}  {redop:>6}  {root}".format(**result)
    for half in (result["out_of_place"], result["in_place"]):
        wrong = "N/A" if half["nwrong"] is None else f"{half['nwrong']:g}"
        clock = half.get("time", half.get("cpu_time"))
        text += f"  {fit(clock, 7)}  {fit(half['alg_bw'], 6)}  {fit(half['bus_bw'], 6)}  {wrong:>6}"
    return text + (f"{stamp:>21}" if stamp else "")


def footer(name: str, out_of_bounds: int, average: float) -> str:
    """What nccl-tests prints after the table."""
    return "\n".join(
        [
            f"# Out of bounds values : {out_of_bounds} {'FAILED' if out_of_bounds else 'OK'}",
            f"# Avg bus bandwidth    : {average:g} ",
            "#",
            f"# Collective test concluded: {name}",
            "#",
        ]
    )


def _boolean(value: t.Any) -> str:
    return "true" if value else "false"


def config_document(options: argparse.Namespace, devices: list[dict[str, t.Any]]) -> dict[str, t.Any]:
    """``config`` of nccl-tests' JSON document, version 3; truth values are strings there."""
    step = {"step_factor": options.stepfactor} if options.stepfactor > 1 else {"step_bytes": options.stepbytes}
    return {
        "nthreads": 1,
        "ngpus": 1,
        "minimum_bytes": options.minbytes,
        "maximum_bytes": options.maxbytes,
        **step,
        "warmup_iters": options.warmup_iters,
        "iterations": options.iters,
        "aggregated_iterations": options.agg_iters,
        "validation": options.check,
        "graph": 0,
        "blocking_collectives": _boolean(options.blocking),
        "per_iter_timing": "false",
        "per_iter_skip": 0,
        "parallel_init": "false",
        "devices": devices,
    }


def kept_environment(environment: t.Mapping[str, str]) -> list[str]:
    """``NAME=value`` of the variables that describe the run and hold no secret."""
    return [f"{k}={v}" for k, v in sorted(environment.items()) if ENV_KEPT.match(k) and not ENV_DROPPED.search(k)]


# The machine


def cpu_name() -> str:
    """What the kernel calls the processor, or its architecture where it has no name."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.machine()


def available_memory() -> int | None:
    """Bytes that the processes of this machine or container may still take; None where the kernel does not say."""
    limits = []
    with contextlib.suppress(OSError), open("/proc/meminfo", encoding="utf-8") as lines:
        limits += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as limit:
            limits.append(int(limit.read()))  # "max": no limit
    return min(limits, default=None)


def memory_problem(host: str, needed: int, ranks: int, available: int | None) -> str | None:
    """Why the buffers do not fit into the memory of this host, or None."""
    if available is None or needed <= available:
        return None
    return (
        f"the buffers of {ranks} ranks on {host} need {needed} bytes of memory, {available} bytes are available:"
        " lower -e or the ranks of the node"
    )


@contextlib.contextmanager
def time_limit(seconds: int) -> t.Iterator[None]:
    """End this process, and with it the job, where the work takes longer; 0 is no limit."""

    def expire() -> None:
        # MPI may be stuck, so it is not asked: mpirun ends the other ranks when one is gone.
        print(f"{host_name()}: Test timeout ({seconds}s)", flush=True)
        os._exit(TIMEOUT)

    timer = threading.Timer(seconds, expire)
    timer.daemon = True
    if seconds:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def host_name() -> str:
    """This machine's name without its domain, as nccl-tests prints it."""
    return socket.gethostname().partition(".")[0]


def open_new(path: str) -> t.TextIO | None:
    """A new file at path, or at path.0, path.1 … where it exists; says which, as nccl-tests does."""
    number = -1
    while True:
        candidate = path if number < 0 else f"{path}.{number}"
        try:
            file = open(candidate, "x", encoding="utf-8")  # noqa: SIM115 the caller closes it
        except FileExistsError:
            number += 1
        except OSError:
            print(f"# skipping json output; {candidate} not accessible", flush=True)
            return None
        else:
            print(f"# Writing JSON output to {candidate}", flush=True)
            return file


# MPI


def load_mpi() -> t.Any:
    """mpi4py's MPI, initialised; ends this process with one line where it cannot be had."""
    if np is None:
        reason = _not_imported("numpy", NUMPY_ERROR)
    else:
        try:
            from mpi4py import MPI

            # Of Open MPI 4 and Open MPI 5.
            started = os.environ.get("OMPI_COMM_WORLD_SIZE") or os.environ.get("OMPI_WORLD_SIZE")
            if not started or int(started) == MPI.COMM_WORLD.size:
                return MPI
            reason = (
                f"mpirun started {started} ranks, mpi4py sees {MPI.COMM_WORLD.size}: it belongs to another MPI"
                f" ({_mpi_version(MPI)})"
            )
        except (ImportError, RuntimeError) as error:
            reason = _not_imported("mpi4py", str(error))
    print(f"{PROGRAM}: {host_name()}: {reason}; for {sys.executable} {PACKAGES}", file=sys.stderr, flush=True)
    os._exit(INTERNAL_ERROR)  # not sys.exit(): MPI_Finalize would wait for ranks that wait for this one


def _not_imported(module: str, error: str) -> str:
    # numpy gives advice before it says what went wrong.
    return f"{module} cannot be imported: {(error.strip() or 'no reason given').splitlines()[-1]}"


def _mpi_version(mpi: t.Any) -> str:
    vendor, version = mpi.get_vendor()
    return f"{vendor} {'.'.join(map(str, version))}"


def abort_on_exception(mpi: t.Any) -> None:
    """Let no rank wait for one that died of an exception."""

    def hook(kind: t.Any, error: t.Any, trace: t.Any) -> None:
        if issubclass(kind, (MemoryError, OSError, mpi.Exception)):
            # Of memory that ran out, Python says no more than that.
            reason = str(error) or kind.__name__
            print(f"{PROGRAM}: {host_name()} rank {mpi.COMM_WORLD.rank}: {reason}", file=sys.stderr, flush=True)
        else:
            sys.__excepthook__(kind, error, trace)
        mpi.COMM_WORLD.Abort(INTERNAL_ERROR)

    sys.excepthook = hook


class Operation:
    """One collective of one size on the buffers of this rank.

    ``run`` is the operation of the collective's name, and what is timed.
    """

    def __init__(self, bench: Benchmark, case: Case, size: int, in_place: bool) -> None:
        collective = COLLECTIVES[bench.name]
        dtype = np.dtype(TYPES[case.type][0])
        self.comm, self.rank, self.ranks = bench.comm, bench.comm.rank, bench.comm.size
        self.name, self.case, self.in_place = bench.name, case, in_place
        self.at_root = self.rank == case.root
        self.counts = counts(collective, size, dtype.itemsize, self.ranks)
        self.bytes = max(self.counts.send, self.counts.recv) * dtype.itemsize
        received = max(self.counts.send, self.counts.recv) if in_place else self.counts.recv
        self.sent = bench.send[: self.counts.send * dtype.itemsize].view(dtype)
        self.received = bench.recv[: received * dtype.itemsize].view(dtype)
        self.result = self.received[: self.counts.block]
        own = self.received[self.rank * self.counts.block :][: self.counts.block]

        # MPI's view of the same memory.
        mpi_type = getattr(bench.mpi, TYPES[case.type][1])
        self.here = bench.mpi.IN_PLACE
        self.send, self.recv, self.own = ([part, mpi_type] for part in (self.sent, self.received, own))
        self.source = self.here if in_place else self.send
        self.reduction = bench.reduction(case) if collective.takes_op else None
        self.run: t.Callable[[], None] = getattr(self, "_" + bench.name)

    def prepare(self, seed: int) -> np.ndarray:
        """Write what this rank sends and clear what it receives; gives the values of all ranks."""
        table = input_table(self.case.op, self.ranks, seed)
        self.received.fill(0)
        if self.in_place:
            start = self.rank * self.counts.block if self.counts.recv > self.counts.send else 0
            fill(self.received, Part(start, self.counts.send, table[self.rank], 0))
        else:
            fill(self.sent, Part(0, self.counts.send, table[self.rank], 0))
        return table

    def count_wrong(self, table: np.ndarray, corrupt: bool) -> int:
        """Elements that this rank received wrong; corrupt flips a bit first."""
        parts = expected_parts(
            self.name, self.case, self.counts.block, self.rank, self.in_place, table, self.received.dtype
        )
        for part in parts[:1] if corrupt else []:
            self.received[part.start :][:1].view("uint8")[:1] ^= 1
        return sum(count_wrong(self.received, part) for part in parts)

    def _average(self) -> None:
        if self.case.op == "avg":
            divide(self.result, self.ranks)

    def _all_reduce(self) -> None:
        self.comm.Allreduce(self.source, self.recv, self.reduction)
        self._average()

    def _all_gather(self) -> None:
        self.comm.Allgather(self.source, self.recv)

    def _reduce_scatter(self) -> None:
        self.comm.Reduce_scatter_block(self.source, self.recv, self.reduction)
        self._average()

    def _broadcast(self) -> None:
        if self.at_root and not self.in_place:  # MPI's broadcast knows one buffer only
            self.received[:] = self.sent
        self.comm.Bcast(self.recv, self.case.root)

    def _reduce(self) -> None:
        if self.at_root:
            self.comm.Reduce(self.source, self.recv, self.reduction, self.case.root)
            self._average()
        else:
            self.comm.Reduce(self.recv if self.in_place else self.send, None, self.reduction, self.case.root)

    def _alltoall(self) -> None:
        self.comm.Alltoall(self.source, self.recv)

    def _sendrecv(self) -> None:
        following, previous = (self.rank + 1) % self.ranks, (self.rank - 1) % self.ranks
        if self.in_place:
            self.comm.Sendrecv_replace(self.recv, following, source=previous)
        else:
            self.comm.Sendrecv(self.send, following, recvbuf=self.recv, source=previous)

    def _gather(self) -> None:
        if self.at_root:
            self.comm.Gather(self.source, self.recv, self.case.root)
        else:
            self.comm.Gather(self.own if self.in_place else self.send, None, self.case.root)

    def _scatter(self) -> None:
        if self.at_root and self.in_place:
            self.comm.Scatter(self.recv, self.here, self.case.root)
        elif self.at_root:
            self.comm.Scatter(self.send, self.recv, self.case.root)
        else:
            self.comm.Scatter(None, self.own if self.in_place else self.recv, self.case.root)


class Benchmark:
    """The run of one command line on this rank; rank 0 prints."""

    def __init__(self, mpi: t.Any, options: argparse.Namespace) -> None:
        self.mpi, self.options, self.comm = mpi, options, mpi.COMM_WORLD
        self.name: str = options.collective
        self.collective = COLLECTIVES[self.name]
        self.test_name = f"{self.name}_cpu"
        self.seed = 0
        self.out_of_bounds = 0
        self.half_ops: dict[str, t.Any] = {}

    def device(self) -> dict[str, t.Any]:
        """This rank, as in ``config.devices`` of the JSON document; ``device`` counts the ranks of a host."""
        hosts = self.comm.allgather(host_name())
        return {
            "rank": self.comm.rank,
            "group": 0,
            "pid": os.getpid(),
            "hostname": hosts[self.comm.rank],
            "device": hosts[: self.comm.rank].count(hosts[self.comm.rank]),
            "device_hex": "0000:00:00",
            "device_info": f"CPU {cpu_name()}",
        }

    def allocate(self, host: str) -> None:
        """The buffers of the largest size, used for all; raises UsageError on all ranks where a host has no room."""
        largest = counts(self.collective, self.options.maxbytes, 1, self.comm.size)
        total = max(largest.send, largest.recv)
        hosts = self.comm.allgather(host)
        needed = hosts.count(host) * (largest.send + total)
        problems = self.comm.allgather(memory_problem(host, needed, hosts.count(host), available_memory()))
        for problem in filter(None, problems):
            raise UsageError(problem)
        self.send = np.empty(largest.send, np.uint8)
        self.recv = np.empty(total, np.uint8)

    def reduction(self, case: Case) -> t.Any:
        """MPI's operation for the case."""
        name = OPS[case.op]
        if case.type != "half":
            return getattr(self.mpi, name)
        if name not in self.half_ops:
            reduce = getattr(np, HALF_OPS[name])

            def half_op(source: t.Any, target: t.Any, datatype: t.Any) -> None:
                values = np.frombuffer(target, np.float16)
                # The timed in-place iterations feed on their own results and may grow without bound.
                with np.errstate(all="ignore"):
                    reduce(np.frombuffer(source, np.float16), values, out=values)

            self.half_ops[name] = self.mpi.Op.Create(half_op, commute=True)
        return self.half_ops[name]

    def warm_up(self, case: Case) -> None:
        """Untimed iterations of all powers of 2 between the smallest and the largest size."""
        if self.options.warmup_iters == 0:
            return
        for size in sizes(max(1, self.options.minbytes), self.options.maxbytes, 0, 2):
            operation = Operation(self, case, size, in_place=False)
            operation.prepare(0)
            for _iteration in range(self.options.warmup_iters):
                operation.run()

    def seconds(self, operation: Operation) -> tuple[float, float]:
        """Time of one operation: over the ranks as ``-a`` says, and on this rank."""
        operation.prepare(0)
        operation.run()
        self.comm.Barrier()
        start = time.perf_counter()
        for _iteration in range(self.options.iters * self.options.agg_iters):
            operation.run()
            if self.options.blocking == 1:
                self.comm.Barrier()
        own = (time.perf_counter() - start) / (self.options.iters * self.options.agg_iters)
        if self.options.average == 0:
            return self.comm.bcast(own), own
        over_ranks = self.comm.allreduce(own, {1: self.mpi.SUM, 2: self.mpi.MIN, 3: self.mpi.MAX}[self.options.average])
        return (over_ranks / self.comm.size if self.options.average == 1 else over_ranks), own

    def wrong(self, operation: Operation) -> int | None:
        """Wrong elements on all ranks; None where nothing is checked."""
        if not self.options.check or (operation.in_place and not self.collective.in_place_defined):
            return None
        total = 0
        for _iteration in range(self.options.check):
            self.seed += 1
            table = operation.prepare(self.seed)
            operation.run()
            own = operation.count_wrong(table, self.options.corrupt_rank == self.comm.rank)
            self.out_of_bounds += own > 0
            total = self.comm.allreduce(own)
            if total:
                break
        return total

    def half_row(self, operation: Operation) -> dict[str, t.Any]:
        """``out_of_place`` or ``in_place`` of a result: microseconds, GB/s, wrong elements."""
        with time_limit(self.options.timeout):
            seconds, own = self.seconds(operation)
            wrong = self.wrong(operation)
        bandwidth = operation.bytes / 1e9 / seconds
        clock = {"cpu_time": own * 1e6} if self.options.report_cputime else {"time": seconds * 1e6}
        return {
            **clock,
            "alg_bw": bandwidth,
            "bus_bw": bandwidth * self.collective.bus_factor(self.comm.size),
            "nwrong": None if wrong is None else float(wrong),
        }

    def result(self, case: Case, size: int) -> dict[str, t.Any]:
        """An entry of ``results`` of the JSON document, which is a row of the table."""
        out_of_place = Operation(self, case, size, in_place=False)
        return {
            "size": out_of_place.bytes,
            "count": out_of_place.counts.block,
            "type": case.type,
            "redop": case.op,
            "root": f"{case.root:6d}",
            "out_of_place": self.half_row(out_of_place),
            "in_place": self.half_row(Operation(self, case, size, in_place=True)),
            "actual_iterations": self.options.iters,
            "experiment_name": "",
        }

    def results(self) -> t.Iterator[dict[str, t.Any]]:
        """All rows, in order."""
        options = self.options
        for case in cases(self.collective, options.datatype, options.op, options.root, self.comm.size):
            self.warm_up(case)
            cycle = 0
            while options.run_cycles == 0 or cycle < options.run_cycles:
                for size in sizes(options.minbytes, options.maxbytes, options.stepbytes, options.stepfactor):
                    yield self.result(case, size)
                cycle += 1

    def execute(self, arguments: t.Sequence[str]) -> int:
        """Run, print and write; gives the exit status. Raises UsageError on all ranks."""
        device = self.device()
        self.allocate(device["hostname"])
        devices = self.comm.gather(device)
        if self.comm.rank != 0:
            for _result in self.results():
                pass
            return WRONG_VALUES if self.comm.allreduce(self.out_of_bounds) else 0

        options = self.options
        output = open_new(options.output_file) if options.output_file else None
        document: dict[str, t.Any] = {
            "version": 3,
            "start_time": time.strftime(TIME_FORMAT),
            "args": [self.test_name, *arguments],
            "env": kept_environment(os.environ),
            "nccl_version": 0,
            "config": config_document(options, devices),
            "results": [],
        }
        say(banner(self.test_name, options, f"mpi={_mpi_version(self.mpi)} mpi4py={sys.modules['mpi4py'].__version__}"))
        say(*map(device_line, devices), header(options))
        for result in self.results():
            document["results"].append(result)
            say(row(result, time.strftime(TIME_FORMAT) if options.report_timestamps else ""))
        out_of_bounds = self.comm.allreduce(self.out_of_bounds)
        halves = [result[half]["bus_bw"] for result in document["results"] for half in ("out_of_place", "in_place")]
        average = sum(halves) / len(halves)
        say(footer(self.test_name, out_of_bounds, average))
        if output:
            document["out_of_bounds"] = {"count": out_of_bounds, "okay": _boolean(out_of_bounds == 0)}
            document["average_bus_bandwidth"] = {"bandwidth": average, "okay": "unchecked"}
            document["errors"] = [""]
            document["end_time"] = time.strftime(TIME_FORMAT)
            with output:
                json.dump(document, output)
        return WRONG_VALUES if out_of_bounds else 0


def say(*lines: str) -> None:
    """Print at once, for rows are read while the benchmark runs."""
    print(*lines, sep="\n", flush=True)


def main(arguments: t.Sequence[str]) -> int:
    """The program: the collective, then its options. Gives nccl-tests' exit status."""
    mpi = load_mpi()
    abort_on_exception(mpi)
    try:
        options = parse_options(arguments, mpi.COMM_WORLD.size)
        if not options.help:
            return Benchmark(mpi, options).execute(arguments)
    except UsageError as error:
        if mpi.COMM_WORLD.rank == 0:
            print(f"{PROGRAM}: {error}", file=sys.stderr, flush=True)
        return INVALID_USAGE
    if mpi.COMM_WORLD.rank == 0:
        say(build_parser().format_help())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
