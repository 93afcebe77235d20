# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Facts from NCCL's and RCCL's own log (``NCCL_DEBUG=INFO``), of one process or of many in one text.

The lines are those of NCCL 2.4 to 2.32; tests/unit/plugins/module_utils/_nccl_log has one of each with its source. Most lines of a
long log are connections, which differ in little but their channel: they are counted by what stands before and behind, and each kind is
read once. Memory is constant: the tables below are bounded, whatever the text holds.
"""

from __future__ import annotations

import collections
import itertools
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.shapes import FleetFacts, HostFacts

#: Bytes that are read at once.
BLOCK = 1 << 18
#: Characters of a line that are kept. NCCL's lines have at most some thousand; what is no text may have no line ends at all.
LONGEST = 1 << 15
#: Hosts, processes, and different values of a fact that are kept. Real ones are far fewer.
MOST_HOSTS = 1 << 14
MOST_PROCESSES = 1 << 12
MOST_VALUES = 1 << 8
#: The fact that a port changed its speed while the program ran; NCCL says so without a warning.
SPEED = "speed"
#: The host of facts that stand in lines without one.
NO_HOST = ""

#: What tells of a failure: warnings, and the way of an error through NCCL's functions. All of a log is searched for them, which is
#: quickest if their last letters are rare in it.
_COMPLAINTS = (b"CCL WARN", b"ailu")
#: Of a log, and characters of one.
MOST_COMPLAINTS = 24
LONGEST_COMPLAINT = 500
_MARK = "] NCCL INFO "
_VIA = " via "
_PER_PEER = " per peer"
# The same in a block of bytes: what stands before the lines of a process; the ends of connections; and the messages that _LINES reads.
_FIRST = re.compile(rb"(([A-Za-z0-9_][A-Za-z0-9_.-]{0,252}):(\d{1,10}):)\d{1,10} \[\d{1,4}\] NCCL ")
_CONNECTIONS = re.compile(rb" via (.*)")
_OTHERS = re.compile(
    rb"\] NCCL INFO ((?:Using |NET/IB :|NET/So|NET/OFI In|Bootst|NVLS m|MNNVL |comm 0|[NR]CCL v|cudaDr|\d{1,5} coll ).*)"
)
# "[1,3]<stdout>:gpu-1:4711:4712 [0", also after labels and time stamps: only its end is certain.
_PROCESS = re.compile(r"([A-Za-z0-9_][\w.-]{0,252}):(\d{1,10}):\d{1,10} \[\d{1,4}\Z", re.ASCII)
_NAME = r"[A-Za-z][\w .+-]{0,62}?"
_TARGET = re.compile(
    rf"(?:NET/({_NAME})/(\d{{1,5}})(?:\(\d{{1,9}}\))?|COLLNET/({_NAME})/\d{{1,5}}|(P2P|SHM)/[\w /\[\]-]{{1,60}}?)"
    r"((?:/GDRDMA(?:\(PCI\))?|/Shared|/flush=[\w.-]{0,20}){0,4})(?: comm 0x[0-9a-f]{1,16} nRanks \d{1,9})?\s*\Z",
    re.ASCII,
)
# " [0]mlx5_0:1/IB", of 2.30 with rail and plane " [0]mlx5_0:1:2:0/IB", of 2.20 to 2.23 merged " [0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB}".
_PORT = re.compile(r"([A-Za-z][\w.-]{0,62}):(\d{1,3})(?::\d{0,5}){0,2}/(IB|RoCE)(?![\w.-])", re.ASCII)
_LISTED = re.compile(r" \[(\d{1,5})\](?:=\{([^{}]{0,2000})\}|([^\s={}]{1,120}))")
_VIRTUAL = re.compile(r"Made virtual device \[(\d{1,5})\] name=([\w.+:-]{1,250}) ", re.ASCII)
# The new speed may be unknown: "N/A".
_SPEED = re.compile(rf"({_NAME}:\d{{1,3}}) speed change detected: (\d{{1,9}}) -> (\d{{1,9}}|N/A) Mbps", re.ASCII)
_INTERFACE = re.compile(r"\[(\d{1,5})\]([A-Za-z][\w.@-]{0,30}):", re.ASCII)
_OUT_OF_BAND = re.compile(r"\s*([A-Za-z][\w.@-]{0,30})(?::|\Z)", re.ASCII)
_BOOTSTRAP = re.compile(r"Using (?:\[0\])?([A-Za-z][\w.@-]{0,30}):\S{1,100}<\d{1,9}>", re.ASCII)
# Every repetition has a bound: the line may be long, and hold nothing but its beginning.
_VERSION = re.compile(
    r"\b([NR])CCL version {0,4}:? {0,4}(\d{1,3}(?:\.\d{1,3}){1,3})([\w.]{0,60})"
    r"(?:\+cuda(\d{1,3}\.\d{1,3})|\+hip(\d[\w.]{0,20})|[-+]\S{0,60})?(?=\s|\Z)",
    re.ASCII,
)
_PLUGIN_VERSION = re.compile(r"NET/OFI Initializing (aws-ofi-nccl \d[\w.+-]{0,40})\s*\Z", re.ASCII)


class _Process:
    """What the log of one process said of its ports, by the index that its connections name them with."""

    def __init__(self) -> None:
        self.listed: dict[int, list[str]] = {}
        self.virtual: dict[int, list[str]] = {}
        self.layers: dict[str, str] = {}

    def ports(self, index: int) -> list[str]:
        """The ports of a device of NET/IB, or of several that NCCL merged; none where the log does not name them."""
        if index not in self.virtual:
            return self.listed.get(index, [])
        # A virtual device is named after its devices, without their ports.
        names = set(self.virtual[index])
        return [port for port in self.layers if port.rpartition(":")[0] in names]


class LogReader:
    """Takes the lines of logs, many at a time; ``facts`` are what they told, by host."""

    def __init__(self) -> None:
        self.facts: FleetFacts = {}
        self._processes: dict[tuple[str, str], _Process] = {}
        self._known: dict[str, tuple[str, str] | None] = {}

    def feed(self, lines: t.Sequence[str]) -> None:
        """Take some lines, each without what ends it."""
        ours = [line for line in lines if _MARK in line]
        if len(ours) < len(lines):
            for line in lines:
                if "CCL version" in line and _MARK not in line:
                    self._bare(line[:LONGEST])
        connections: t.Counter[tuple[str, str]] = collections.Counter()
        for line in ours:
            begin = line.find(_MARK)
            if _VIA in line:
                # Of lines that ran into one another it is not known whose the end is.
                if line.rfind(_MARK) == begin:
                    connections[line[:begin], line[line.rfind(_VIA) + len(_VIA) :]] += 1
                continue
            message = line[begin + len(_MARK) : begin + LONGEST]
            if message[:6] in _LINES or message.endswith(_PER_PEER):
                process = self._process(line[:begin])
                if process is not None:
                    self._message(process, message)
        for (prefix, target), count in connections.items():
            process = self._process(prefix)
            if process is not None:
                self._connection(process, target, count)

    def feed_block(self, block: bytes) -> None:
        """Take a block of whole lines. It is quickest where all are of one process, as in a file of ``NCCL_DEBUG_FILE``."""
        match = _FIRST.match(block)
        prefix = match.group(1) if match else b"\n"
        if not match or 1 + block.count(b"\n" + prefix) != block.count(b"\n"):
            # Each byte is one character: all that is read is ASCII.
            self.feed(block.decode("latin-1").split("\n")[:-1])
            return
        process = (match.group(2).decode("ascii"), match.group(3).decode("ascii"))
        for message in _OTHERS.findall(block):
            self._message(process, message[:LONGEST].decode("latin-1"))
        for target, count in collections.Counter(_CONNECTIONS.findall(block)).items():
            self._connection(process, target.decode("latin-1"), count)

    def _message(self, process: tuple[str, str], message: str) -> None:
        _LINES.get(message[:6], LogReader._channels)(self, process, message)

    def _process(self, prefix: str) -> tuple[str, str] | None:
        """Host and process of a line, by what stands before its message."""
        prefix = prefix[-400:]
        if prefix not in self._known:
            if len(self._known) >= MOST_PROCESSES:
                self._known.clear()
            match = _PROCESS.search(prefix)
            self._known[prefix] = (match.group(1), match.group(2)) if match else None
        return self._known[prefix]

    def _tally(self, host: str, fact: str, value: str, count: int = 1) -> None:
        if host not in self.facts and len(self.facts) >= MOST_HOSTS:
            return
        values = self.facts.setdefault(host, {}).setdefault(fact, {})
        if value in values or len(values) < MOST_VALUES:
            values[value] = values.get(value, 0) + count

    def _devices(self, process: tuple[str, str]) -> _Process:
        if process not in self._processes and len(self._processes) >= MOST_PROCESSES:
            del self._processes[next(iter(self._processes))]
        return self._processes.setdefault(process, _Process())

    def _connection(self, process: tuple[str, str], target: str, count: int) -> None:
        match = _TARGET.match(target[:300])
        if not match:
            return
        host = process[0]
        network, index, collective, way, gdr = match.groups()
        self._tally(host, "way", "NET" if network else "COLLNET" if collective else way, count)
        if not network:
            return
        self._tally(host, "carrier", network, count)
        self._tally(host, "gdr", "yes" if "/GDRDMA" in gdr else "no", count)
        devices = self._devices(process)
        if network.startswith("IB"):
            ports = devices.ports(int(index))
        elif network == "Socket":
            ports = devices.listed.get(-1 - int(index), [])
        else:
            # A plugin's devices have no names in the log.
            ports = [f"{network}/{int(index)}"]
        for port in ports:
            self._tally(host, "used", port, count)
            if port in devices.layers:
                self._tally(host, "used_layer", devices.layers[port], count)
        if not ports:
            self._tally(host, "unnamed", network, count)

    def _network(self, process: tuple[str, str], text: str) -> None:
        match = re.match(rf"Using network ({_NAME})\s*\Z", text, re.ASCII)
        if match:
            self._tally(process[0], "network", match.group(1))

    def _verbs(self, process: tuple[str, str], text: str) -> None:
        """A line of NET/IB: the ports that it may use, or what it made of them."""
        devices = self._devices(process)
        virtual = _VIRTUAL.search(text) if "virtual" in text else None
        if virtual and len(devices.virtual) < MOST_VALUES:
            devices.virtual[int(virtual.group(1))] = virtual.group(2).split("+")
        elif ": Using " in text:
            text, _semicolon, oob = text.partition("; OOB ")
            merged = "={" in text
            for position, listed in enumerate(_LISTED.finditer(text)):
                # Where devices are merged, the single ones are listed under another number than their own.
                index = position if merged else int(listed.group(1))
                for name, number, layer in _PORT.findall(listed.group(2) or listed.group(3)):
                    port = f"{name}:{number}"
                    if port not in devices.layers and len(devices.layers) < MOST_VALUES:
                        devices.layers[port] = layer
                        devices.listed.setdefault(index, []).append(port)
                        self._tally(process[0], "listed_layer", layer)
            if oob:
                interface = _OUT_OF_BAND.match(oob[:200])
                if interface:
                    self._tally(process[0], "bootstrap", interface.group(1))
        elif " speed change detected: " in text:
            changed = _SPEED.search(text)
            if changed:
                self._tally(process[0], SPEED, "{} from {} to {} Mb/s".format(*changed.groups()))
        elif "GPU Direct RDMA Disabled for HCA" in text:
            self._tally(process[0], "gdr_device", "no")
        elif "GPU Direct RDMA Enabled for HCA" in text:
            self._tally(process[0], "gdr_device", "yes")

    def _socket(self, process: tuple[str, str], text: str) -> None:
        if not text.startswith("NET/Socket : Using"):
            return
        devices = self._devices(process)
        for index, name in _INTERFACE.findall(text[:4000]):
            if len(devices.listed) < MOST_VALUES:
                devices.listed[-1 - int(index)] = [name]
            self._tally(process[0], "socket", name)

    def _bootstrap(self, process: tuple[str, str], text: str) -> None:
        match = _BOOTSTRAP.search(text)
        if match:
            self._tally(process[0], "bootstrap", match.group(1))

    def _multicast(self, process: tuple[str, str], text: str) -> None:
        match = re.match(r"NVLS multicast support is (not )?available", text)
        if match:
            self._tally(process[0], "multicast", "no" if match.group(1) else "yes")

    def _multi_node(self, process: tuple[str, str], text: str) -> None:
        match = re.match(r"MNNVL ([01]) cliqueId", text)
        if match:
            self._tally(process[0], "mnnvl", "yes" if match.group(1) == "1" else "no")

    def _communicator(self, process: tuple[str, str], text: str) -> None:
        match = re.match(
            r"comm \S+ rank \d+ nRanks \d+ nNodes (\d{1,6}) localRanks \d+ localRank \d+ MNNVL ([01])\s*\Z", text
        )
        if match:
            self._tally(process[0], "nodes", str(int(match.group(1))))
            self._tally(process[0], "mnnvl", "yes" if match.group(2) == "1" else "no")

    def _channels(self, process: tuple[str, str], text: str) -> None:
        match = re.match(
            r"(\d{1,5}) coll channels, (?:\d{1,5} collnet channels, )?(?:(\d{1,5}) nvls channels, )?\d{1,5} p2p channels,",
            text,
        )
        if match:
            self._tally(process[0], "channels", str(int(match.group(1))))
            if match.group(2) is not None:
                self._tally(process[0], "nvls", "no" if int(match.group(2)) == 0 else "yes")

    def _version(self, process: tuple[str, str], text: str) -> None:
        self._software(process[0], _VERSION.match(text))

    def _bare(self, line: str) -> None:
        """NCCL's version, as it prints it to standard output: without the host."""
        self._software(NO_HOST, _VERSION.search(line))

    def _software(self, host: str, match: t.Any) -> None:
        if match:
            self._tally(host, "library", f"{match.group(1)}CCL")
            self._tally(host, "nccl", match.group(2) + match.group(3)[:20])
            if match.group(4):
                self._tally(host, "cuda", match.group(4))

    def _driver(self, process: tuple[str, str], text: str) -> None:
        match = re.match(r"cudaDriverVersion (\d{4,6})\s*\Z", text)
        if match:
            number = int(match.group(1))
            self._tally(process[0], "driver_cuda", f"{number // 1000}.{number % 1000 // 10}")

    def _plugin_version(self, process: tuple[str, str], text: str) -> None:
        match = _PLUGIN_VERSION.match(text)
        if match:
            self._tally(process[0], "plugin_version", match.group(1))


#: What reads a line, by the six characters that its message begins with. It must be found at the price of a look into a dictionary.
_LINES: dict[str, t.Callable[[LogReader, tuple[str, str], str], None]] = {
    "Using ": LogReader._network,
    "NET/IB": LogReader._verbs,
    "NET/So": LogReader._socket,
    "NET/OF": LogReader._plugin_version,
    "Bootst": LogReader._bootstrap,
    "NVLS m": LogReader._multicast,
    "MNNVL ": LogReader._multi_node,
    "comm 0": LogReader._communicator,
    "NCCL v": LogReader._version,
    "RCCL v": LogReader._version,
    "cudaDr": LogReader._driver,
}


class Log(t.NamedTuple):
    """What a file told: facts, and the first of its lines that may tell of a failure."""

    facts: FleetFacts
    complaints: list[str]


def read_log(path: str) -> Log:
    """Read a file in blocks; it is never held as a whole. Raises OSError."""
    reader = LogReader()
    complaints: list[str] = []
    carry = b""
    with open(path, "rb") as file:
        while True:
            block = file.read(BLOCK)
            if not block:
                # A last line without its end may be cut: half a name, half a number.
                return Log(reader.facts, complaints)
            block = carry + block
            end = block.rfind(b"\n") + 1
            carry = block[end:][:LONGEST]
            reader.feed_block(block[:end])
            if len(complaints) < MOST_COMPLAINTS and any(mark in block for mark in _COMPLAINTS):
                complaints += _complaints(block[:end], MOST_COMPLAINTS - len(complaints))


def _complaints(block: bytes, most: int) -> list[str]:
    lines = (line for line in block.split(b"\n") if any(mark in line for mark in _COMPLAINTS))
    return [line[:LONGEST_COMPLAINT].decode("utf-8", "replace") for line in itertools.islice(lines, most)]


def add_facts(total: FleetFacts, more: t.Mapping[str, HostFacts]) -> None:
    """Add the counts of some hosts to those of others."""
    for host, facts in more.items():
        for fact, values in facts.items():
            sums = total.setdefault(host, {}).setdefault(fact, {})
            for value, count in values.items():
                sums[value] = sums.get(value, 0) + count
