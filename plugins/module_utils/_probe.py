# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What a node looks like from the inside of an ssh session, where mpirun's daemon will live.

It runs on a peer from the standard input of Python, with the few modules that it imports and nothing else of the collection.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import re
import resource
import socket
import sys
import tempfile
import threading
import time
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import read_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import read_addresses
from ansible_collections.gpufabric.nccl.plugins.module_utils._node import MPI_PREFIXES, find_mpi, read_gpus
from ansible_collections.gpufabric.nccl.plugins.module_utils._openmpi import library_path
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import find_program, run
from ansible_collections.gpufabric.nccl.plugins.module_utils._reach import connect, read_line

#: Begins each line that is meant for the launcher; a login shell may print whatever it likes before.
MARK = "GPUFABRIC-PROBE "

#: More than fits into one packet of any network, so that one that loses large packets is found.
_BULK = 256 * 1024

Facts = t.Dict[str, t.Any]


def parse_ldd(text: str) -> tuple[list[str], dict[str, str]]:
    """What the loader misses, and the files of the libraries that it finds by their names, from the output of ldd."""
    missing = re.findall(r"^\s*(\S+) => not found", text, re.MULTILINE)
    # A library is there, but older than the program needs it; musl has its own words for one that is not.
    missing += re.findall(r"version [`']([^']+)' not found", text)
    missing += re.findall(r"Error loading shared library ([^:\s]+)", text)
    found = dict(re.findall(r"^\s*(\S+) => (/\S+)", text, re.MULTILINE))
    return sorted(set(missing)), found


def pids_left(maximum: str, current: str) -> int | None:
    """How many more processes a control group takes, from the texts of pids.max and pids.current; None for no limit."""
    if not maximum.strip().isdigit() or not current.strip().isdigit():
        return None
    return int(maximum) - int(current)


def pids_directories(cgroups: str) -> list[str]:
    """Directories that may hold a process's pids.max, from the text of its /proc/PID/cgroup; with those above them."""
    found = []
    for line in cgroups.splitlines():
        _number, controllers, path = line.split(":", 2)
        if controllers not in ("", "pids"):
            continue
        base = "/sys/fs/cgroup/pids" if controllers else "/sys/fs/cgroup"
        while path:
            found.append(base + path.rstrip("/"))
            path = "" if path == "/" else os.path.dirname(path)
    return found


def look(parameters: t.Mapping[str, t.Any]) -> Facts:
    """What there is of what a launch needs. ``parameters``: as the launcher's settings say."""
    inherited = os.environ.get("LD_LIBRARY_PATH", "")
    environment = {**os.environ, "LD_LIBRARY_PATH": library_path(parameters["prefix"], inherited)}
    program = parameters["program"]
    return {
        "hostname": socket.gethostname(),
        "python": sys.executable,
        "environment": _arrived(parameters["variables"]),
        "daemon": _daemon(parameters["prefix"], parameters["daemon"], environment),
        "program": None if program is None else _program(program, environment),
        "interfaces": _interfaces((parameters["control"], parameters["data_interface"])),
    }


def look_closer(parameters: t.Mapping[str, t.Any]) -> Facts:
    """Resources and limits of this session, sizes in bytes; None stands for no limit."""
    return {
        "gpus": _gpus(),
        "shm": _space("/dev/shm"),
        "memlock": _limit(resource.RLIMIT_MEMLOCK),
        "open_files": _limit(resource.RLIMIT_NOFILE),
        "processes": _processes_left(),
        # Open MPI's session directory is there; tempfile would look for another place where it is full.
        "disks": [_disk(path) for path in sorted({parameters["run_dir"], os.environ.get("TMPDIR", "/tmp")})],
        "rdma": _rdma(),
    }


def _arrived(variables: t.Mapping[str, str]) -> dict[str, bool]:
    # A shell's own start files may put paths before those of a variable.
    return {
        name: set(value.split(":")) <= set(os.environ.get(name, "").split(":")) for name, value in variables.items()
    }


def _libraries(path: str, environment: t.Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    ldd = find_program("ldd")
    if ldd is None:
        return [], {}
    result = run([ldd, path], environment=environment)
    return parse_ldd(result.stdout + result.stderr)


def _daemon(prefix: str, name: str, environment: t.Mapping[str, str]) -> Facts:
    path = os.path.join(prefix, "bin", name)
    facts: Facts = {"path": path, "exists": os.path.exists(path), "executable": os.access(path, os.X_OK)}
    if not facts["exists"]:
        on_path = find_program(name)
        others = [place for pattern in MPI_PREFIXES for place in sorted(glob.glob(f"{pattern}/bin/{name}"))]
        facts["elsewhere"] = [*([on_path] if on_path else []), *others]
        return facts
    facts["missing"], found = _libraries(path, environment)
    # The version of the library that the daemon really starts with: libopen-rte in 4.x, libprrte in 5.x.
    own = next((found[soname] for soname in sorted(found) if soname.startswith(("libopen-rte", "libprrte"))), None)
    facts["runtime"] = own and os.path.basename(os.path.realpath(own))
    try:
        facts["version"] = (find_mpi(prefix) or {}).get("version")
    except GpufabricError:
        # A worker needs no mpirun, and what keeps one from running keeps the daemon, too.
        facts["version"] = None
    return facts


def _program(path: str, environment: t.Mapping[str, str]) -> Facts:
    facts: Facts = {"path": path, "exists": os.path.exists(path), "executable": os.access(path, os.X_OK)}
    if not facts["exists"]:
        return facts
    facts["missing"], found = _libraries(path, environment)
    digest = hashlib.sha256()
    with contextlib.suppress(OSError):
        with open(path, "rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
    facts["sha256"] = digest.hexdigest()
    for key, start in (("mpi", "libmpi.so"), ("nccl", ("libnccl.so", "librccl.so"))):
        own = next((found[soname] for soname in sorted(found) if soname.startswith(start)), None)
        facts[key] = own and os.path.realpath(own)
    return facts


def _interfaces(wanted: t.Sequence[str | None]) -> dict[str, Facts]:
    """Those with an address, and the wanted ones; a node of a cluster has one more for each of its pods."""
    addresses: dict[str, list[str]] = {name: [] for name in wanted if name and os.path.isdir(f"/sys/class/net/{name}")}
    for item in read_addresses():
        addresses.setdefault(item.interface, []).append(f"{item.address}/{item.prefix_length}")
    return {
        name: {"mtu": _number(f"/sys/class/net/{name}/mtu"), "addresses": addresses[name]} for name in sorted(addresses)
    }


def call_back(address: str, port: int, token: str, timeout: float) -> Facts:
    """Connect to the launcher as a daemon will. ``offset``: seconds that this clock is ahead of the launcher's, give or
    take half of ``seconds``, the time that question and answer took.
    """
    attempt = connect(address, port, timeout)
    facts: Facts = {"status": attempt.status, "text": attempt.text, "by": attempt.by}
    if attempt.connection is None:
        return facts
    with attempt.connection as connection:
        facts["source"] = connection.getsockname()[0]
        asked, connected = time.time(), True
        try:
            connection.sendall(f"{token}\n".encode())
            answer = read_line(connection).decode(errors="replace").split()
        except OSError as error:
            answer, connected = str(error).split(), False
        answered = time.time()
    if len(answer) != 2 or answer[0] != token:
        status = "not-ours" if connected and answer else "timeout"
        return {**facts, "status": status, "text": " ".join(answer)[:100]}
    return {**facts, "seconds": answered - asked, "offset": (asked + answered) / 2 - float(answer[1])}


class Listener:
    """Lets other peers send to this one over the data network, as long as the probe runs."""

    def __init__(self, address: str, timeout: float) -> None:
        self._timeout = timeout
        self._socket = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        self._socket.bind((address, 0))
        self._socket.listen(128)
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _address = self._socket.accept()
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(self._timeout)
        with connection, contextlib.suppress(OSError):
            connection.sendall(connection.recv(1))
            left = _BULK
            while left:
                block = connection.recv(left)
                if not block:
                    return
                left -= len(block)
            connection.sendall(b"!")


def send_to(address: str, port: int, source: str, timeout: float) -> Facts:
    """Whether a little and then much arrives at another peer: status as of an Attempt, or ``silent`` or ``large-lost``."""
    attempt = connect(address, port, timeout, source)
    if attempt.connection is None:
        return {"status": attempt.status, "text": attempt.text, "by": attempt.by}
    with attempt.connection as connection:
        status = "silent"
        with contextlib.suppress(OSError):
            connection.sendall(b"?")
            if connection.recv(1) == b"?":
                status = "large-lost"
                connection.sendall(bytes(_BULK))
                if connection.recv(1) == b"!":
                    status = "ok"
    return {"status": status, "text": "", "by": None}


def _gpus() -> Facts:
    devices = len(glob.glob("/proc/driver/nvidia/gpus/*"))
    program = find_program("nvidia-smi")
    if not program and not devices:
        return {"count": read_gpus()["count"], "error": None}
    if not program:
        return {"count": devices, "error": None}
    result = run([program, "-L"])
    listed = len(re.findall(r"^GPU \d+:", result.stdout, re.MULTILINE))
    said = (result.stderr.strip() or result.stdout.strip()).splitlines()
    error = None
    if result.returncode != 0 or listed < devices:
        error = (
            f"nvidia-smi lists {listed} of {devices} GPUs and exits with {result.returncode}: {' '.join(said)[:300]}"
        )
    return {"count": listed, "error": error}


def _space(path: str) -> Facts | None:
    try:
        status = os.statvfs(path)
    except OSError:
        return None
    return {"path": path, "size": status.f_frsize * status.f_blocks, "free": status.f_frsize * status.f_bavail}


def _disk(path: str) -> Facts:
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    facts: Facts = {**(_space(path) or {"path": path, "size": 0, "free": 0}), "error": None}
    try:
        with tempfile.NamedTemporaryFile(dir=path, prefix=".gpufabric-") as file:
            file.write(bytes(4096))
            file.flush()
    except OSError as error:
        facts["error"] = error.strerror or str(error)
    return facts


def _processes_left() -> int | None:
    left = []
    for directory in pids_directories(read_text("/proc/self/cgroup") or ""):
        room = pids_left(_text(f"{directory}/pids.max"), _text(f"{directory}/pids.current"))
        if room is not None:
            left.append(room)
    # The kernel lets root go beyond its own limit.
    limit = _limit(resource.RLIMIT_NPROC) if os.geteuid() else None
    if limit is not None:
        own = [path for path in glob.glob("/proc/[0-9]*/task") if _owner(path) == os.geteuid()]
        left.append(limit - sum(_count(path) for path in own))
    return min(left) if left else None


def _owner(path: str) -> int | None:
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


def _count(path: str) -> int:
    try:
        return len(os.listdir(path))
    except OSError:
        return 0


def _rdma() -> list[Facts]:
    ports = []
    for path in sorted(glob.glob("/sys/class/infiniband/*/ports/*")):
        parts = path.split("/")
        gids = {
            int(os.path.basename(name)): _text(name) for name in glob.glob(f"{path}/gids/*") if _text(name).strip("0:")
        }
        ports.append(
            {
                "device": parts[4],
                "port": int(parts[6]),
                "state": _text(f"{path}/state").partition(": ")[2],
                "link_layer": _text(f"{path}/link_layer"),
                "gids": sorted(gids),
            }
        )
    return ports


def _text(path: str) -> str:
    # An entry of /sys may be there and give an error when it is read.
    with contextlib.suppress(GpufabricError, OSError):
        return (read_text(path) or "").strip()
    return ""


def _number(path: str) -> int | None:
    text = _text(path)
    return int(text) if text.isdigit() else None


def _limit(number: int) -> int | None:
    soft, _hard = resource.getrlimit(number)
    return None if soft == resource.RLIM_INFINITY else soft


def _own_data_address(interfaces: t.Mapping[str, Facts], interface: str) -> str | None:
    addresses = interfaces.get(interface, {"addresses": []})["addresses"]
    return next((address.partition("/")[0] for address in addresses if ":" not in address), None)


def _say(facts: Facts) -> None:
    sys.stdout.write(f"\n{MARK}{json.dumps(facts)}\n")
    sys.stdout.flush()


def main(parameters: t.Mapping[str, t.Any]) -> None:
    """Say what this peer looks like; then, in full, send to the peers that the launcher names, until it closes the session."""
    timeout = parameters["timeout"]
    # A machine that hangs must not leave the probe behind when the launcher is gone.
    threading.Timer(parameters["deadline"], lambda: os._exit(1)).start()
    callback = parameters["callback"]
    facts = look(parameters)
    facts["callback"] = {**callback, **call_back(callback["address"], callback["port"], parameters["token"], timeout)}
    if not parameters["full"]:
        _say(facts)
        os._exit(0)
    facts.update(look_closer(parameters))
    interface = parameters["data_interface"]
    address = interface and _own_data_address(facts["interfaces"], interface)
    if not address:
        _say(facts)
        os._exit(0)
    facts["data"] = {"address": address, "port": Listener(address, timeout).port}
    _say(facts)
    targets = json.loads(sys.stdin.readline() or "[]")
    results: Facts = {}

    def send(target: Facts) -> None:
        results[target["host"]] = send_to(target["address"], target["port"], address, timeout)

    threads = [threading.Thread(target=send, args=(target,), daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _say(results)
    # The others may still send to this one.
    sys.stdin.read()
    os._exit(0)
