# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The JSON that nccl-tests writes with ``-J``, of any version, and rccl-tests with ``-Z json``.

The documents are read in pieces as they come. Times of single iterations are passed over, and of those of each process only the
mean is kept, so that memory does not grow with their number. A file that ends early gives all that was closed in it. The whole
environment is in such a file, secrets included: only what ``HARMLESS_ENV`` names is ever kept.
"""

from __future__ import annotations

import json
import math
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.bandwidth import Steps
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.document import (
    MOST,
    PLACEMENTS,
    Row,
    Test,
    check_amount,
    collective_of,
    library_version,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.lines import BLOCK

_OF_NCCL = """
    ALGO AVOID_RECORD_STREAMS BUFFSIZE CGA_CLUSTER_SIZE CHECKS_DISABLE CHECK_POINTERS COLLNET_ENABLE COMM_BLOCKING
    COMM_SPLIT_SHARE_RESOURCES CROSS_NIC CTA_POLICY CUMEM_ENABLE CUMEM_HOST_ENABLE DEBUG DEBUG_SUBSYS DMABUF_ENABLE
    GDRCOPY_ENABLE GRAPH_MIXING_SUPPORT GRAPH_REGISTER IB_ADAPTIVE_ROUTING IB_AR_THRESHOLD IB_CUDA_SUPPORT
    IB_DISABLE IB_GID_INDEX IB_HCA IB_MERGE_NICS IB_PCI_RELAXED_ORDERING IB_PKEY IB_QPS_PER_CONNECTION IB_RETRY_CNT
    IB_RETURN_ASYNC_EVENTS IB_ROCE_VERSION_NUM IB_SL IB_SPLIT_DATA_ON_QPS IB_TC IB_TIMEOUT IGNORE_CPU_AFFINITY
    IGNORE_DISABLED_P2P LAUNCH_MODE LL128_BUFFSIZE LL_BUFFSIZE LOCAL_REGISTER MAX_CTAS MAX_NCHANNELS MIN_CTAS
    MIN_NCHANNELS MNNVL_ENABLE NCHANNELS_PER_NET_PEER NET NET_DISABLE_INTRA NET_GDR_C2C NET_GDR_LEVEL NET_GDR_READ
    NET_PLUGIN NET_SHARED_BUFFERS NET_SHARED_COMMS NSOCKS_PERTHREAD NTHREADS NVLS_ENABLE NVLS_NCHANNELS
    NVLSTREE_MAX_CHUNKSIZE OOB_NET_ENABLE P2P_DIRECT_DISABLE P2P_DISABLE P2P_LEVEL P2P_LL_THRESHOLD
    P2P_NET_CHUNKSIZE P2P_NVL_CHUNKSIZE P2P_PCI_CHUNKSIZE P2P_USE_CUDA_MEMCPY PROTO PXN_C2C PXN_DISABLE
    SET_STACK_SIZE SHM_DISABLE SHM_LOCALITY SHM_USE_CUDA_MEMCPY SINGLE_PROC_MEM_REG_ENABLE SINGLE_RING_THRESHOLD
    SOCKET_FAMILY SOCKET_IFNAME SOCKET_NTHREADS TESTS_DEVICE TESTS_MIN_BW TESTS_SPLIT TESTS_SPLIT_MASK
    TREE_THRESHOLD TUNER_PLUGIN WIN_ENABLE WORK_FIFO_BYTES
"""
_OF_OTHERS = """
    CUDA_DEVICE_MAX_CONNECTIONS CUDA_DEVICE_ORDER CUDA_LAUNCH_BLOCKING CUDA_VISIBLE_DEVICES FI_EFA_FORK_SAFE
    FI_EFA_USE_DEVICE_RDMA FI_EFA_USE_HUGE_PAGE FI_PROVIDER GPU_MAX_HW_QUEUES HIP_VISIBLE_DEVICES
    HSA_FORCE_FINE_GRAIN_PCIE HSA_NO_SCRATCH_RECLAIM NVIDIA_VISIBLE_DEVICES OMP_NUM_THREADS
    OMPI_COMM_WORLD_LOCAL_SIZE OMPI_COMM_WORLD_SIZE RCCL_MSCCL_ENABLE RCCL_MSCCLPP_ENABLE ROCR_VISIBLE_DEVICES
    SHARP_COLL_ENABLE_SAT UCX_IB_GID_INDEX UCX_NET_DEVICES UCX_TLS
"""
#: Settings of NCCL and of what it runs on, of which none holds a secret.
HARMLESS_ENV = frozenset([*(f"NCCL_{name}" for name in _OF_NCCL.split()), *_OF_OTHERS.split()])

_CONFIG_KEYS = {
    "nthreads": "nthreads",
    "ngpus": "ngpus",
    "minimum_bytes": "minbytes",
    "maximum_bytes": "maxbytes",
    "warmup_iters": "warmup_iters",
    "iterations": "iters",
    "aggregated_iterations": "agg_iters",
    "validation": "validation",
    "graph": "graph",
}
_MEASURES = {"min_us": "i_min", "max_us": "i_max", "p99_us": "i_p99", "cv_pct": "i_cv%", "hip_event_time": "hipevt"}
#: Names of collectives in rows, as the names of their programs.
_COLLECTIVES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "alltoall",
    "alltoallv": "alltoallv",
    "sendrecv": "sendrecv",
    "allreducewithbias": "all_reduce_bias",
}
#: What stands for a value that is no number: -J writes "nan" and inf, -Z json nan and inf.
_NO_NUMBER = re.compile(r"-?(?:nan|inf|infinity)(?:\(.*\))?", re.IGNORECASE)
#: Of 64 bits; JSON has integers of any length.
_LARGEST = 1 << 63
#: -J writes six decimals.
_STEPS = Steps(0.5e-6, 0.5e-6, 0.5e-6)
_PASSED_OVER = "times_us"
_OF_PROCESSES = "per_process_max_times_us"
#: What is read at once: many numbers in a row, and the whole list of a process.
_NUMBERS = re.compile(r"\s*(?:-?\d[\d.eE+-]{0,40}\s*,\s*){8,4096}")
_LIST = re.compile(r"\s*\[([-\d.eE+,\s]{1,16384})\]\s*,")
_DOCUMENT = re.compile(
    r"(?:\ufeff)?\s*(?:\[\s*)?\{\s*\"(?:version|start_time|args|env|nccl_version|config|results|out_of_bounds"
    r"|average_bus_bandwid(?:th|ith)|errors|end_time|numCycle)\"\s*:"
)
_FOREIGN = {
    "nccl-tests structured output": "the JSON that pull request 318 of nccl-tests proposed",
    "gpufabric.nccl/": "a result document of this collection, which has been read already",
}
_TOKEN = re.compile(r'\s*(?:([{}\[\]:,])|("(?:[^"\\]|\\.)*")|([^\s{}\[\]:,"]+))')
_FLAT_OBJECT = re.compile(r"\{[^{}\[\]]{1,4000}\}")
_BEGIN = '{"version":'
_LONGEST_TOKEN = 1 << 16
#: Characters of a text that are kept; names, paths and variables have fewer.
_LONGEST_TEXT = 1 << 12
_DEEPEST = 12


def is_document(head: str) -> bool:
    """Whether a text that begins like this is such a file, not a log."""
    return _DOCUMENT.match(head) is not None


def foreign_name(head: str) -> str | None:
    """The name of another JSON that a text holds."""
    return next((name for mark, name in _FOREIGN.items() if f'"{mark}' in head), None)


def read_json(chunks: t.Iterable[str]) -> list[Test]:
    """The tests of a file: one or more documents of ``-J``, or the objects of ``-Z json``."""
    reader = _Reader()
    for block in _blocks(chunks):
        reader.feed(block)
    return reader.finish()


def _blocks(chunks: t.Iterable[str]) -> t.Iterator[str]:
    """The same text in larger parts: what is no whole token yet is looked at again with each of them."""
    parts: list[str] = []
    length = 0
    for chunk in chunks:
        parts.append(chunk)
        length += len(chunk)
        if length >= BLOCK:
            yield "".join(parts)
            parts, length = [], 0
    yield "".join(parts)


class ReporterRows:
    """The objects of ``-Z json``: one of each half of a row."""

    def __init__(self) -> None:
        self.tests: list[Test] = []
        self._rows = 0
        self._begun: list[t.Any] | None = None
        self._name: str | None = None

    def read_line(self, text: str) -> None:
        """Take a line that holds one object, or is to hold one."""
        match = _FLAT_OBJECT.search(text)
        try:
            value = json.loads(_as_json(match.group(0)), parse_constant=str) if match else None
        except ValueError:
            value = None
        if isinstance(value, dict):
            self.read(value)
        else:
            self._test(None).lose(text)

    def read(self, value: t.Mapping[str, t.Any]) -> None:
        """Take one object."""
        name = value.get("name")
        test = self._test(name if isinstance(name, str) else None)
        half = _half(value, {"time": "time_us", "algBw": "algbw", "busBw": "busbw"}, value.get("wrong"))
        size, place = value.get("size"), value.get("inPlace")
        if half is None or not _is_count(size) or place not in (0, 1, "0", "1") or not _has_words(value):
            test.lose(json.dumps(value)[:200])
            return
        row: Row = {
            "size": size,
            # The format tells neither.
            "count": None,
            "type": value["type"],
            "redop": value["redop"] or "none",
            "root": None,
            "out_of_place": None,
            "in_place": None,
        }
        identity = [value.get(key) for key in ("numCycle", "name", "size", "type", "redop")]
        in_place = int(place)
        if in_place and self._begun == identity and test.rows and test.rows[-1]["in_place"] is None:
            test.rows[-1]["in_place"] = half
            self._begun = None
            return
        row["in_place" if in_place else "out_of_place"] = half
        self._rows += 1
        check_amount("rows and ranks", self._rows)
        test.rows.append(row)
        self._begun = None if in_place else identity

    def _test(self, name: str | None) -> Test:
        if not self.tests or (name is not None and self._name is not None and name != self._name):
            check_amount("tests", len(self.tests) + 1)
            test = Test(ended=True)
            test.tool["name"] = "rccl-tests"
            test.collective = _collective(name)
            self.tests.append(test)
        self._name = name or self._name
        return self.tests[-1]

    def finish(self, cut: bool = False) -> list[Test]:
        """The tests; ``cut`` says that the end of the file is missing."""
        if self.tests and cut:
            self.tests[-1].ended = False
        return self.tests


class _Mean:
    """Stands for a list of numbers of which only the mean is wanted."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0

    def append(self, value: t.Any) -> None:
        """Take what is in the list. Anything but a number leaves no mean."""
        self.count += 1
        self.total += value if _is_number(value) else math.nan

    def add(self, numbers: t.Sequence[float]) -> None:
        """Take several numbers."""
        self.count += len(numbers)
        self.total += sum(numbers)

    def value(self) -> float | None:
        """The mean; None of an empty list."""
        mean = self.total / self.count if self.count else math.nan
        return mean if math.isfinite(mean) else None


class _Reader:
    """Takes a file in chunks, and builds of each document what is wanted of it."""

    def __init__(self) -> None:
        self.tests: list[Test] = []
        self._reporter = ReporterRows()
        self._rest = ""
        #: Whether the text is to be passed over up to the next document, and whether it ever was.
        self._lost_track = False
        self._cut = False
        #: Containers that are open, each with the key that it has in the one around it.
        self._open: list[tuple[t.Any, str | None]] = []
        self._key: str | None = None
        self._next = "value"
        self._rows: list[t.Any] = []
        self._lost = 0
        #: Of all documents.
        self._values = self._items = 0

    def feed(self, chunk: str) -> None:
        """Take the next chunk."""
        text = self._rest + chunk
        position = before = 0
        while True:
            if self._lost_track:
                position = text.find(_BEGIN, before)
                if position < 0:
                    self._rest = text[max(before, len(text) - len(_BEGIN)) :]
                    return
                self._lost_track = False
            end = self._numbers(text, position)
            if end is not None:
                before, position = position, end
                continue
            match = _TOKEN.match(text, position)
            # What touches the end may go on in the next chunk.
            if match is None or (match.end() == len(text) and match.group(1) is None):
                break
            if not self._token(match):
                self._give_up()
                # A string that was torn may have swallowed the begin of the next document.
                continue
            before, position = position, match.end()
        self._rest = text[position:]
        if len(self._rest) > _LONGEST_TOKEN:
            self._rest = ""
            self._give_up()

    def finish(self) -> list[Test]:
        """The tests of the file."""
        # A number that ends the file may lack digits; what else is left is of no use.
        if self._open or self._rest.strip():
            self._give_up()
        return self.tests + self._reporter.finish(cut=self._cut)

    def _numbers(self, text: str, position: int) -> int | None:
        """Take a part of a long list of numbers of which at most the mean is wanted; where it ends, or None if there is none."""
        top, key = self._open[-1] if self._open and self._next == "value" else (None, None)
        if isinstance(top, list) and key == _OF_PROCESSES:
            match = _LIST.match(text, position)
            words = match.group(1).split(",") if match else []
        elif isinstance(top, _Mean) or (isinstance(top, list) and key == _PASSED_OVER):
            match = _NUMBERS.match(text, position)
            words = match.group().split(",")[:-1] if match else []
        else:
            return None
        try:
            numbers = list(map(float, words))
        except ValueError:
            return None
        if match is None:
            return None
        if isinstance(top, _Mean):
            top.add(numbers)
        elif key == _OF_PROCESSES:
            mean = _Mean()
            mean.add(numbers)
            self._count()
            top.append(mean)
        return match.end()

    def _token(self, match: t.Any) -> bool:
        """Take one token; false where it cannot stand where it does."""
        mark, string, word = match.groups()
        top = self._open[-1][0] if self._open else None
        if mark in ("}", "]"):
            # A comma before the end is not JSON, but files that ended early have it.
            if top is None or isinstance(top, dict) != (mark == "}") or self._next == ":" or self._key is not None:
                return False
            value, self._key = self._open.pop()
            self._close(value)
            self._next = ","
            return True
        if mark == ",":
            expected = self._next == "," or top is None
            self._next = "key" if isinstance(top, dict) else "value"
            return expected
        if mark == ":":
            expected = self._next == ":"
            self._next = "value"
            return expected
        if mark in ("{", "["):
            # One document may follow the other.
            if (self._next != "value" and top is not None) or len(self._open) >= _DEEPEST:
                return False
            is_of_process = mark == "[" and isinstance(top, list) and self._open[-1][1] == _OF_PROCESSES
            self._open.append((_Mean() if is_of_process else {} if mark == "{" else [], self._key))
            self._key = None
            self._next = "key" if mark == "{" else "value"
            return True
        if top is None or self._next not in ("key", "value"):
            return False
        if self._next == "key":
            self._key = None if string is None else _string(string)
            self._next = ":"
            return string is not None
        value = _word(word) if string is None else _string(string)
        if value is _BAD:
            return False
        self._put(value)
        self._next = ","
        return True

    def _count(self) -> None:
        self._values += 1
        check_amount("values", self._values)

    def _put(self, value: t.Any) -> None:
        container = self._open[-1][0]
        if isinstance(container, dict):
            self._count()
            container[self._key] = value
            self._key = None
        elif isinstance(container, _Mean):
            container.append(value)
        elif not any(key == _PASSED_OVER for item, key in self._open):
            self._count()
            container.append(value)

    def _close(self, value: t.Any) -> None:
        if not self._open or (len(self._open) == 1 and isinstance(self._open[0][0], list)):
            # A document, or an element of a list of them.
            self._key = None
            if isinstance(value, dict):
                self._document(value)
        elif isinstance(value, dict) and self._open[-1][1] == "results":
            self._count()
            self._rows.append(value)
        else:
            self._put(value)

    def _give_up(self) -> None:
        """Take what is closed of a document whose end is missing or is not JSON."""
        self._lost_track = self._cut = True
        while self._open:
            value, self._key = self._open.pop()
            if not self._open or (len(self._open) == 1 and isinstance(self._open[0][0], list)):
                if isinstance(value, dict) and value:
                    self._document(value, whole=False)
            elif isinstance(value, dict) and self._open[-1][1] == "results":
                self._lost += bool(value)
            elif self._key == "config" or (isinstance(value, list) and self._key is not None):
                # These are worth something without their end; of an object the rest is not known.
                self._put(value)
        self._key, self._next = None, "value"

    def _document(self, value: dict[str, t.Any], whole: bool = True) -> None:
        if "numCycle" in value or "busBw" in value:
            self._reporter.read(value if whole else {})
        elif "version" in value or "config" in value or "results" in value or self._rows:
            check_amount("tests", len(self.tests) + 1)
            test = _test_of(value, self._rows, self._lost)
            # What follows its end_time may say that it failed.
            test.ended = whole and test.ended
            self._items += len(test.ranks) + len(test.rows)
            check_amount("rows and ranks", self._items)
            self.tests.append(test)
        self._rows, self._lost = [], 0


class _Bad:
    """What stands for a word that JSON does not have."""


_BAD = _Bad()


def _word(word: str) -> t.Any:
    known = {"true": True, "false": False, "null": None}
    if word in known:
        return known[word]
    if word == "N/A":
        return None
    if _is_no_number(word):
        return word
    if re.match(r"-?(?:0|[1-9]\d{0,18})\Z", word):
        return int(word)
    if re.match(r"-?(?:0|[1-9]\d{0,18})(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?\Z", word):
        return float(word)
    return _BAD


def _as_json(text: str) -> str:
    """An object of ``-Z json`` with its values as JSON has them."""
    text = re.sub(r":\s*N/A\b", ": null", text)
    return re.sub(r":\s*(-?(?:nan|inf))\b", r': "\1"', text)


def _string(token: str) -> str:
    try:
        return json.loads(token, strict=False)[:_LONGEST_TEXT]
    except ValueError:
        return token[1:-1][:_LONGEST_TEXT]


def _test_of(value: t.Mapping[str, t.Any], rows: t.Sequence[t.Mapping[str, t.Any]], lost: int) -> Test:
    """What a document of ``-J`` tells. ``rows`` are the objects of its results, of which ``lost`` were not closed."""
    args = [item for item in _list(value.get("args")) if isinstance(item, str)]
    config = _dict(value.get("config"))
    test = Test(ended=bool(value.get("end_time")))
    number = value.get("nccl_version")
    test.tool["nccl_version"] = library_version(number) if _is_count(number) else None
    names = [row.get("experiment_name") for row in rows]
    test.collective = (
        collective_of(args[0])
        if args and args[0]
        else _collective(names[0] if names and isinstance(names[0], str) else None)
    )
    for key, name in _CONFIG_KEYS.items():
        test.config[name] = config[key] if _is_count(config.get(key)) else None
    for key, unit in (("step_factor", "factor"), ("step_bytes", "bytes")):
        if _is_count(config.get(key)):
            test.config["step"] = f"{config[key]}({unit})"
    if "blocking_collectives" in config:
        test.config["blocking"] = config["blocking_collectives"] in ("true", True)
    test.env = _harmless(_list(value.get("env")))
    test.ranks = list(
        _ranks(_list(config.get("devices")), (test.config["nthreads"] or 1) * (test.config["ngpus"] or 1))
    )
    for item in rows:
        row = _row(item)
        if row is None:
            test.lose(f"size {item.get('size')}")
        else:
            test.rows.append(row)
            # Nobody waits in a call that moves nothing.
            test.process_times += _process_times(item) if row["size"] else ()
            test.note_steps(row, dict.fromkeys(PLACEMENTS, _STEPS))
    for _index in range(lost):
        test.lose("a row that is not closed")
    bounds = _dict(value.get("out_of_bounds"))
    if _is_count(bounds.get("count")):
        test.bounds.append((bounds["count"], bounds.get("okay") in ("true", True)))
    bitwise = _dict(value.get("bitwise_mismatches"))
    if _is_count(bitwise.get("count")):
        test.bitwise.append(bitwise["count"])
    # Both were misspelt up to nccl-tests 2.17.8.
    average = _dict(value.get("average_bus_bandwidth", value.get("average_bus_bandwidith")))
    number = average.get("bandwidth", average.get("bandwidith"))
    if _is_number(number) or _is_no_number(number):
        printed = float(number) if _is_number(number) else None
        test.averages.append((printed, average.get("okay") not in ("false", False)))
    test.errors = [item[:200] for item in _list(value.get("errors"))[:20] if isinstance(item, str) and item]
    if not (test.bounds and test.averages):
        test.ended = False
    return test


def _row(item: t.Mapping[str, t.Any]) -> Row | None:
    """A row; None where one of its numbers is none."""
    root = item.get("root")
    match = re.match(r"\s*(-?\d{1,9})\s*\Z", root) if isinstance(root, str) else None
    if not _is_count(item.get("size")) or not _is_count(item.get("count")) or match is None or not _has_words(item):
        return None
    row: Row = {
        "size": item["size"],
        "count": item["count"],
        "type": item["type"],
        "redop": item["redop"] or "none",
        "root": int(match.group(1)),
    }
    for placement in PLACEMENTS:
        cells: t.Any = item.get(placement)
        half = None
        if isinstance(cells, dict):
            half = _half(cells, {"time": "time_us", "alg_bw": "algbw", "bus_bw": "busbw"}, cells.get("nwrong"))
        # In a replay of a trace the out-of-place half is null, and that is all that may be missing.
        if half is None and not (placement == "out_of_place" and cells is None and placement in item):
            return None
        row[placement] = half
        if half is not None:
            measures = {**_dict(item.get(f"{placement}_per_iter")), "hip_event_time": cells.get("hip_event_time")}
            extra: dict[str, float | None] = {}
            for key, name in _MEASURES.items():
                _put_number(extra, name, measures.get(key), half)
            if extra:
                half["extra"] = extra
    tuning = {
        key: value
        for key, value in _dict(item.get("tuning")).items()
        if _is_number(value) or (isinstance(value, str) and not _is_no_number(value))
    }
    if tuning:
        row["extra"] = tuning
    return row


def _process_times(item: t.Mapping[str, t.Any]) -> t.Iterator[list[float]]:
    """The mean time of each process in us, out of place and in place, where the row has them."""
    for placement in PLACEMENTS:
        found = _list(_dict(item.get(f"{placement}_per_iter")).get(_OF_PROCESSES))
        means = [item.value() for item in found if isinstance(item, _Mean)]
        times = [mean for mean in means if mean is not None and mean > 0]
        if len(times) > 1 and len(times) == len(found):
            yield times


def _has_words(item: t.Mapping[str, t.Any]) -> bool:
    words = [item.get("type"), item.get("redop")]
    return all(isinstance(word, str) and re.match(r"\w{0,60}\Z", word) for word in words) and bool(words[0])


def _half(cells: t.Mapping[str, t.Any], names: t.Mapping[str, str], wrong: t.Any) -> dict[str, t.Any] | None:
    half: dict[str, t.Any] = {}
    for key, name in names.items():
        value: t.Any = cells.get(key)
        if key == "time" and value is None and "cpu_time" in cells:
            half["time_us"], value, name = None, cells["cpu_time"], "cpu_time_us"
        if not _put_number(half, name, value, half) or (half[name] or 0.0) < 0:
            return None
    if isinstance(wrong, str) and re.match(r"\d{1,19}\Z", wrong):
        wrong = int(wrong)
    if wrong in (None, "N/A"):
        half["wrong"] = None
    elif _is_number(wrong) and 0 <= wrong < _LARGEST and wrong == int(wrong):
        half["wrong"] = int(wrong)
    else:
        return None
    return half


def _put_number(numbers: dict[str, t.Any], name: str, value: t.Any, half: dict[str, t.Any]) -> bool:
    """Add a value to numbers: None for nan and inf, which ``half`` notes. False if it is neither, and nothing was added."""
    if _is_no_number(value):
        numbers[name] = None
        half.setdefault("no_numbers", {})[name] = value
    elif _is_number(value):
        numbers[name] = float(value)
    return name in numbers


def _ranks(devices: t.Sequence[t.Any], per_process: int) -> t.Iterator[dict[str, t.Any]]:
    """The ranks. Of a process with several GPUs the file lists the first one only; the others are on the same host."""
    listed = []
    for device in devices:
        device = _dict(device)
        if not _is_count(device.get("rank")) or not isinstance(device.get("hostname"), str) or not device["hostname"]:
            continue
        listed.append(
            {
                "rank": device["rank"],
                "group": device["group"] if _is_count(device.get("group")) else None,
                "pid": device["pid"] if _is_count(device.get("pid")) else None,
                "host": device["hostname"],
                "device": device["device"] if _is_count(device.get("device")) else None,
                "bus_id": _text(device.get("device_hex")),
                "name": _text(device.get("device_info")),
            }
        )
    firsts = (
        1 < per_process <= 1024
        and len(listed) * per_process <= MOST["rows and ranks"]
        and [rank["rank"] for rank in listed] == [n * per_process for n in range(len(listed))]
    )
    for rank in listed:
        yield rank
        if firsts:
            for further in range(1, per_process):
                yield {**rank, "rank": rank["rank"] + further, "device": None, "bus_id": "", "name": ""}


def _harmless(env: t.Iterable[t.Any]) -> dict[str, str]:
    pairs = [item.split("=", 1) for item in env if isinstance(item, str) and "=" in item]
    return {name: value[:200] for name, value in pairs if name in HARMLESS_ENV}


def _collective(name: str | None) -> str | None:
    """``all_reduce`` of ``AllReduce``."""
    return None if name is None else _COLLECTIVES.get(name.lower().replace("_", ""), name.lower()[:60])


def _dict(value: t.Any) -> dict[str, t.Any]:
    return value if isinstance(value, dict) else {}


def _text(value: t.Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _list(value: t.Any) -> list[t.Any]:
    return value if isinstance(value, list) else []


def _is_count(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST


def _is_number(value: t.Any) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < _LARGEST
    return isinstance(value, float) and math.isfinite(value)


def _is_no_number(value: t.Any) -> bool:
    return isinstance(value, str) and _NO_NUMBER.fullmatch(value) is not None
