# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What the ranks of a point do on this host, from /proc, and what NCCL's RAS answers here. It runs on every host of a point that hangs.

The protocol of RAS is that of src/ras/client.cc in NCCL 2.24 to 2.30 and RCCL: lines of text over TCP. JSON is asked for by ``SET FORMAT``,
which NCCL has since 2.28.7; an older one calls it an unknown command, and answers in text. All ranks of a host listen at one address
(SO_REUSEPORT), so a connection may be that of a rank that does not answer: then another one is tried.
"""

from __future__ import annotations

import collections
import contextlib
import glob
import json
import os
import re
import socket
import sys
import time
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._process import read_environment, read_processes, stamped

#: Before the answer: a login may print more.
MARK = "GPUFABRIC-HANG "
#: Where RAS listens if NCCL_RAS_ADDR does not say it: NCCL_RAS_CLIENT_PORT in src/ras/ras_internal.h.
_RAS_DEFAULT = "localhost:28028"
#: Seconds between two looks at the same processes, and at most, if a host has so little time for them that it takes longer to get
#: this many ticks of the clock; and between two questions to RAS.
_INTERVAL, _LONGEST_INTERVAL, _ENOUGH, _RAS_INTERVAL = 1.0, 4.0, 30, 2.0
#: Seconds that a process of NCCL waits for others before it answers without them, and that it has to take a connection.
_RAS_TIMEOUT, _HANDSHAKE = 2, 1.0
_MOST_RAS = 6 << 20
MOST_RANKS = 4096
MOST_ADDRESSES = 64
_MOST_THREADS, _MOST_PIDS = 256, 64
_MOST_TRIES = 4
_LONGEST = 100
_LONGEST_LINE = 1024
_SYMBOL = re.compile(r"[A-Za-z_][\w.]{0,60}")
#: No names: to look one up may take long.
_RAS_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[0-9.]{7,15}|localhost):([0-9]{1,5})\Z")


class Doing(t.TypedDict):
    """What a process does, with all its threads and those that it started, ``pids``.

    ``state``: the letter of /proc/PID/stat. That of a thread that waits in the kernel, uninterruptibly, at both looks is D.
    ``cpu``: processors that it uses; ``system``: the part of this in the kernel. ``where``: the kernel's functions that it waits in.
    """

    rank: int | None
    pid: int
    pids: list[int]
    name: str
    state: str
    cpu: float
    system: float
    where: str


class Answer(t.TypedDict):
    """What a host tells. ``unknown``: how many processes of a launch could not be looked at. ``ras``: where ranks listen."""

    ranks: list[Doing]
    daemons: list[Doing]
    unknown: int
    addresses: list[str]
    ras: list[str]


class _Sample(t.NamedTuple):
    """A thread at one moment; ticks of the clock."""

    state: str
    user: int
    system: int


def look(point: str, directory: str | None, variable: str, names: t.Sequence[str]) -> Answer:
    """What the processes of a point do; this takes ``_INTERVAL`` seconds, and some more on a host that is overloaded.

    ``point``: the value that they have of one of the variables ``names``. ``directory``: the run's on this host, which they have as
    ``variable``; None if they have none.
    """
    wanted = {f"{name}={point}".encode() for name in names}
    prefix = f"{variable}=".encode()

    def is_meant(environ: bytes) -> bool:
        variables = environ.split(b"\0")
        if wanted.isdisjoint(variables):
            return False
        own = next((os.fsdecode(item[len(prefix) :]) for item in variables if item.startswith(prefix)), None)
        if own is None or directory is None:
            return own is directory
        # A path may lead through a link.
        return own == directory or os.path.realpath(own) == os.path.realpath(directory)

    processes = read_processes()
    meant = stamped(processes, is_meant)
    environments = {pid: _environment(pid) for pid in meant}
    groups: dict[tuple[int | None, int], list[int]] = {}
    for pid in sorted(meant):
        rank = _rank(environments[pid])
        top = pid
        # What a rank has started belongs to it: its program may be the child of a shell. Of processes that end meanwhile, each may seem to
        # be the parent of the other.
        above = {pid}
        while rank is not None:
            parent = processes[top].parent
            if parent not in meant or parent in above or _rank(environments[parent]) != rank:
                break
            top = parent
            above.add(top)
        groups.setdefault((rank, top), []).append(pid)
    unknown = sum(process.parent in meant and pid not in meant for pid, process in processes.items())
    before = {pid: _threads(pid) for pid in meant}
    begin = time.monotonic()
    while True:
        time.sleep(_INTERVAL)
        after = {pid: _threads(pid) for pid in meant}
        seconds = time.monotonic() - begin
        if seconds >= _LONGEST_INTERVAL or not any(0 < sum(_used(before[p], after[p])) < _ENOUGH for p in meant):
            break
    doing = [
        _doing(rank, top, processes[top].command, pids, before, after, seconds)
        for (rank, top), pids in sorted(groups.items(), key=lambda item: (item[0][0] is None, item[0]))
        if any(after[pid] for pid in pids)
    ][:MOST_RANKS]
    return {
        "ranks": [one for one in doing if one["rank"] is not None],
        "daemons": [one for one in doing if one["rank"] is None],
        "unknown": unknown,
        "addresses": _addresses(),
        "ras": _ras_addresses(environments.values()),
    }


def _environment(pid: int) -> dict[str, str]:
    try:
        pairs = (item.partition(b"=") for item in read_environment(pid).split(b"\0"))
        return {os.fsdecode(name): os.fsdecode(value) for name, _equals, value in pairs}
    except OSError:
        return {}


def _rank(environment: t.Mapping[str, str]) -> int | None:
    value = environment.get("OMPI_COMM_WORLD_RANK", "")
    return int(value) if re.match(r"[0-9]{1,7}\Z", value) else None


def _threads(pid: int) -> dict[str, _Sample]:
    """The threads of a process, by their ids; none if it has ended."""
    found = {}
    for path in sorted(glob.glob(f"/proc/{pid}/task/[0-9]*/stat"))[:_MOST_THREADS]:
        # It may end while it is looked at.
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
            fields = text[text.rindex(")") + 1 :].split()
            found[path.split("/")[4]] = _Sample(fields[0], int(fields[11]), int(fields[12]))
    return found


def _used(before: t.Mapping[str, _Sample], after: t.Mapping[str, _Sample]) -> tuple[int, int]:
    """The ticks that the threads of a process have used meanwhile, and those in the kernel."""
    both = [(before[thread], sample) for thread, sample in after.items() if thread in before]
    return (
        sum(sample.user - first.user for first, sample in both),
        sum(sample.system - first.system for first, sample in both),
    )


def _doing(
    rank: int | None,
    top: int,
    command: t.Sequence[str],
    pids: t.Sequence[int],
    before: t.Mapping[int, t.Mapping[str, _Sample]],
    after: t.Mapping[int, t.Mapping[str, _Sample]],
    seconds: float,
) -> Doing:
    """``pids``: of the rank, its first process ``top`` among them."""
    user = system = 0
    states: dict[str, str] = {}
    for pid in pids:
        own = _used(before[pid], after[pid])
        user, system = user + own[0], system + own[1]
        for thread, sample in after[pid].items():
            first = before[pid].get(thread)
            if first is None:
                continue
            if sample.state in "Tt" or (sample.state == first.state == "D" and sample[1:] == first[1:]):
                states.setdefault("T" if sample.state in "Tt" else "D", f"/proc/{pid}/task/{thread}")
            elif thread == str(pid):
                states.setdefault("R" if "R" in (sample.state, first.state) else "S", f"/proc/{pid}")
    state = next((letter for letter in "TDRS" if letter in states), "S")
    ticks = os.sysconf("SC_CLK_TCK")
    used = user + system
    return {
        "rank": rank,
        "pid": top,
        "pids": sorted(pids)[:_MOST_PIDS],
        "name": re.sub(r"[^\w.+-]", "_", os.path.basename(command[0] if command else ""), flags=re.ASCII)[:40],
        "state": state,
        "cpu": round(used / ticks / seconds, 3),
        "system": round(system / used, 3) if used else 0.0,
        "where": _where(states.get(state, f"/proc/{top}")),
    }


def _where(path: str) -> str:
    """The functions of the kernel that a thread is in, as far as this user may know them."""
    for name, line in (("stack", r"^\[<\w+>\] ([A-Za-z_][\w.]*)"), ("wchan", r"^([A-Za-z_][\w.]*)\Z")):
        with contextlib.suppress(OSError):
            with open(f"{path}/{name}", encoding="ascii", errors="replace") as file:
                found = re.findall(line, file.read(1 << 14), re.MULTILINE)
            words = [word for word in found if _SYMBOL.fullmatch(word)][:3]
            if words:
                return ", ".join(words)[:_LONGEST]
    return ""


def _addresses() -> list[str]:
    """This host's own addresses, as NCCL names hosts; of the kernel's tables, since a module for all would be long."""
    found = []
    with contextlib.suppress(OSError):
        with open("/proc/net/fib_trie", encoding="ascii", errors="replace") as file:
            found += re.findall(r"\|-- ([0-9.]+)\s+/32 host LOCAL", file.read(1 << 20))
    with contextlib.suppress(OSError, ValueError):
        with open("/proc/net/if_inet6", encoding="ascii", errors="replace") as file:
            words = [line.split()[0] for line in file.read(1 << 20).splitlines() if line.strip()]
        found += [socket.inet_ntop(socket.AF_INET6, bytes.fromhex(word)) for word in words]
    return [one for one in dict.fromkeys(found) if not one.startswith("127.") and one != "::1"][:MOST_ADDRESSES]


def _ras_addresses(environments: t.Iterable[t.Mapping[str, str]]) -> list[str]:
    """Where the ranks' RAS should listen, if anything listens on that port. The most frequent one comes first."""
    wanted: collections.Counter[str] = collections.Counter()
    for environment in environments:
        if _rank(environment) is not None and environment.get("NCCL_RAS_ENABLE", "1").strip() != "0":
            wanted[environment.get("NCCL_RAS_ADDR") or _RAS_DEFAULT] += 1
    listening = set()
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            with open(f"/proc/net/{name}", encoding="ascii", errors="replace") as file:
                listening |= set(re.findall(r":([0-9A-F]{4}) [0-9A-F]+:0000 0A ", file.read(8 << 20)))
    found = []
    own = {"localhost", "0.0.0.0", "::", "::1", *_addresses()}
    for address, _count in wanted.most_common(_MOST_TRIES):
        match = _RAS_ADDRESS.match(address)
        # A rank may name any address, and nobody else's is to be asked.
        if match and f"{int(match[2]):04X}" in listening:
            host = match[1].strip("[]")
            if host in own or host.startswith("127."):
                found.append(address)
    return found


def ask_ras(address: str, seconds: float) -> list[str]:
    """The answers of NCCL's RAS to two questions, one after the other; fewer if it does not answer in time."""
    deadline = time.monotonic() + seconds
    answers = []
    for question, limit in enumerate((time.monotonic() + seconds * 0.6, deadline)):
        if question:
            time.sleep(max(0.0, min(_RAS_INTERVAL, deadline - time.monotonic() - 1)))
        for _attempt in range(_MOST_TRIES):
            try:
                answers.append(_ask_once(address, limit))
                break
            except (OSError, ValueError):
                if time.monotonic() + _HANDSHAKE > limit:
                    return answers
        else:
            return answers
    return answers


def _ask_once(address: str, limit: float) -> str:
    """Raises OSError, or ValueError if it is not RAS that answers."""
    host, _colon, port = address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), _HANDSHAKE) as connection:
        if not _asked(connection, "CLIENT PROTOCOL 2", limit).upper().startswith("SERVER PROTOCOL "):
            raise ValueError
        _asked(connection, f"TIMEOUT {_RAS_TIMEOUT}", limit)
        _asked(connection, "SET FORMAT json", limit)
        connection.sendall(b"VERBOSE STATUS\n")
        blocks = []
        size = 0
        while size < _MOST_RAS:
            try:
                block = _received(connection, limit)
            except OSError:
                break
            if not block:
                break
            blocks.append(block)
            size += len(block)
        return b"".join(blocks).decode("utf-8", errors="replace")


def _asked(connection: socket.socket, command: str, limit: float) -> str:
    """The line that answers a command. Raises OSError, and ValueError if there is none."""
    connection.sendall(f"{command}\n".encode())
    # For all of it: it may come byte by byte.
    limit = min(limit, time.monotonic() + _HANDSHAKE)
    line = b""
    while not line.endswith(b"\n"):
        block = _received(connection, limit)
        line += block
        if not block or len(line) > _LONGEST_LINE:
            raise ValueError
    return line.decode("utf-8", errors="replace")


def _received(connection: socket.socket, limit: float) -> bytes:
    """What comes next; nothing at the end. Raises OSError if nothing comes in time."""
    left = limit - time.monotonic()
    if left <= 0:
        raise socket.timeout
    connection.settimeout(left)
    return connection.recv(1 << 16)


def parse_answer(text: str) -> Answer | None:
    """What ``main`` printed of the processes of a host; None where it is something else."""
    line = _line_of(text)
    # Lists in lists without end would take much memory.
    if line.count("[") + line.count("{") > 4 * MOST_RANKS + 8:
        return None
    try:
        value = json.loads(line, parse_int=_parsed_count)
    except (ValueError, RecursionError):
        return None
    return t.cast(Answer, value) if _is_answer(value) else None


def parse_ras(text: str) -> list[str]:
    """What ``main`` printed of RAS's answers."""
    line = _line_of(text)
    found: list[str] = []
    end = 1
    try:
        # Text by text, so that nothing else is made of it.
        while len(found) < 2 and line.startswith('"', end):
            value, end = json.JSONDecoder().raw_decode(line, end)
            found.append(value)
            if line.startswith(", ", end):
                end += 2
    except ValueError:
        return []
    return found if line.startswith("[") and (len(found) == 2 or line.startswith("]", end)) else []


def _line_of(text: str) -> str:
    """What ``main`` printed behind its mark; empty if there is none."""
    line = next((line for line in text.split("\n") if line.startswith(MARK)), "")
    return line[len(MARK) :]


def _parsed_count(digits: str) -> int:
    """A whole number of an answer. Of a million digits it would take hours on an old Python."""
    if len(digits) > 16:
        raise ValueError("the number is too long")
    return int(digits)


def _is_answer(value: t.Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == {"ranks", "daemons", "unknown", "addresses", "ras"}
        and all(isinstance(value[name], list) for name in ("ranks", "daemons", "addresses", "ras"))
        and all(len(value[name]) <= MOST_RANKS for name in ("ranks", "daemons"))
        and all(_is_doing(one) and one["rank"] is not None for one in value["ranks"])
        and all(_is_doing(one) and one["rank"] is None for one in value["daemons"])
        and _is_count(value["unknown"])
        and len(value["addresses"]) <= MOST_ADDRESSES
        and all(isinstance(one, str) and re.match(r"[0-9A-Fa-f.:]{2,45}\Z", one) for one in value["addresses"])
        and len(value["ras"]) <= _MOST_TRIES
        and all(isinstance(one, str) and _RAS_ADDRESS.match(one) for one in value["ras"])
    )


def _is_doing(value: t.Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == {"rank", "pid", "pids", "name", "state", "cpu", "system", "where"}
        and (value["rank"] is None or _is_count(value["rank"]))
        and _is_count(value["pid"])
        and isinstance(value["pids"], list)
        and len(value["pids"]) <= _MOST_PIDS
        and all(map(_is_count, value["pids"]))
        and isinstance(value["state"], str)
        and re.match(r"[TDRS]\Z", value["state"]) is not None
        and all(isinstance(value[name], (int, float)) and 0 <= value[name] < 1e6 for name in ("cpu", "system"))
        and isinstance(value["name"], str)
        and re.match(r"[\w.+-]{0,40}\Z", value["name"], re.ASCII) is not None
        and isinstance(value["where"], str)
        and re.match(rf"[\w., ]{{0,{_LONGEST}}}\Z", value["where"], re.ASCII) is not None
    )


def _is_count(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def main(parameters: t.Mapping[str, t.Any]) -> None:
    """Print what this host tells; with ``ask``, an address, what RAS answers there within ``seconds``."""
    if "ask" in parameters:
        value: t.Any = ask_ras(parameters["ask"], parameters["seconds"])
    else:
        variable = parameters["variable"]
        value = look(parameters["point"], os.environ.get(variable), variable, parameters["names"])
    sys.stdout.write(f"\n{MARK}{json.dumps(value)}\n")
    sys.stdout.flush()
