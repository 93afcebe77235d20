# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""A closer look at a node from the inside of an ssh session: its resources, its limits, and its data network.

It runs on a peer as _probe does, and after it.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import resource
import socket
import sys
import tempfile
import threading

from ansible_collections.gpufabric.nccl.plugins.module_utils._connect import connect
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.probe import (
    begin,
    find_program,
    run,
    say,
    text_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import typing as t

#: Stands for the control network among the names of data interfaces; it is longer than a name of one can be.
CONTROL = "the control network"

#: By which the user chooses NCCL's RDMA ports, and their addresses by index.
RDMA_VARIABLES = ("NCCL_IB_HCA", "NCCL_IB_GID_INDEX")

#: More than fits into one packet of any network, so that one that loses large packets is found.
_BULK = 256 * 1024
#: Of a thread, in bytes: with the usual 8 MiB each, there are too few where programs may have little address space.
_STACK = 512 * 1024


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


def look_closer(parameters: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Resources and limits of this session, sizes in bytes; None stands for no limit."""
    return {
        "gpus": _gpus(),
        "shm": _space("/dev/shm"),
        "memlock": _limit(resource.RLIMIT_MEMLOCK),
        "open_files": _limit(resource.RLIMIT_NOFILE),
        "address_space": _limit(resource.RLIMIT_AS),
        "processes": _processes_left(),
        # Open MPI's session directory is there; tempfile would look for another place where it is full.
        "disks": [_disk(path) for path in sorted({parameters["run_dir"], os.environ.get("TMPDIR") or "/tmp"})],
        "rdma": _rdma(),
        # The ranks here are started in such a session, too.
        "rdma_env": {name: os.environ.get(name, "") for name in RDMA_VARIABLES},
    }


class Listener:
    """Lets other peers send to this one over a network, as long as the probe runs."""

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
            try:
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()
            except RuntimeError:
                # There is no room for a thread here, which is no fault of the other peer.
                self._answer(connection)

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


def send_to(address: str, port: int, source: str, timeout: float) -> dict[str, t.Any]:
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


def _gpus() -> dict[str, t.Any]:
    devices = len(glob.glob("/proc/driver/nvidia/gpus/*"))
    program = find_program("nvidia-smi")
    if not program:
        return {"count": devices or _amd_gpus(), "error": None}
    # Without persistence mode the driver starts anew for each of them.
    status, text = run([program, "-L"], os.environ, 30.0)
    listed = sum(line.startswith("GPU ") for line in text.splitlines())
    error = None
    if status != 0 or listed < devices:
        said = " ".join(line for line in text.splitlines() if not line.startswith("GPU "))
        error = f"nvidia-smi lists {listed} of {devices} GPUs and exits with {status}: {said[:300]}"
    return {"count": listed, "error": error}


def _amd_gpus() -> int:
    # A node of the topology without SIMD units is a processor.
    nodes = [text_of(path).splitlines() for path in glob.glob("/sys/class/kfd/kfd/topology/nodes/*/properties")]
    return sum(any(line.startswith("simd_count ") and line != "simd_count 0" for line in lines) for lines in nodes)


def _space(path: str) -> dict[str, t.Any] | None:
    try:
        status = os.statvfs(path)
    except OSError:
        return None
    return {
        "path": path,
        "size": status.f_frsize * status.f_blocks,
        "free": status.f_frsize * status.f_bavail,
        "read_only": bool(status.f_flag & os.ST_RDONLY),
    }


def _disk(path: str) -> dict[str, t.Any]:
    # Above a relative one there is none in the end.
    path = os.path.abspath(path)
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    facts = {**(_space(path) or {"path": path, "size": 0, "free": 0}), "error": None}
    try:
        with tempfile.NamedTemporaryFile(dir=path, prefix=".gpufabric-") as file:
            file.write(bytes(4096))
            file.flush()
    except OSError as error:
        facts["error"] = error.strerror or str(error)
    return facts


def _processes_left() -> int | None:
    left = []
    for directory in pids_directories(text_of("/proc/self/cgroup")):
        room = pids_left(text_of(f"{directory}/pids.max"), text_of(f"{directory}/pids.current"))
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


def _rdma() -> list[dict[str, t.Any]]:
    ports = []
    for path in sorted(glob.glob("/sys/class/infiniband/*/ports/*")):
        parts = path.split("/")
        gids = {int(os.path.basename(name)) for name in glob.glob(f"{path}/gids/*") if text_of(name).strip("0:")}
        ports.append(
            {
                "device": parts[4],
                "port": int(parts[6]),
                "state": text_of(f"{path}/state").partition(": ")[2],
                "link_layer": text_of(f"{path}/link_layer"),
                "gids": sorted(gids),
            }
        )
    return ports


def _limit(number: int) -> int | None:
    soft, _hard = resource.getrlimit(number)
    return None if soft == resource.RLIM_INFINITY else soft


def _own_data_address(interfaces: t.Mapping[str, t.Any], interface: str) -> str | None:
    addresses = interfaces.get(interface, {"addresses": []})["addresses"]
    return next((address.partition("/")[0] for address in addresses if ":" not in address), None)


def _listen(address: str, timeout: float) -> dict[str, t.Any]:
    return {"address": address, "port": Listener(address, timeout).port}


def main(parameters: t.Mapping[str, t.Any]) -> None:
    """Say what this peer looks like, send to the peers that the launcher names, and wait until it closes the session."""
    timeout = parameters["timeout"]
    threading.stack_size(_STACK)
    own = begin(parameters)
    # The launcher waits long for what follows, and not for a login that hangs.
    say(own)
    facts = look_closer(parameters)
    names = (parameters["data_interface"] or "").split(",")
    addresses = {name: address for name in names for address in [_own_data_address(own["interfaces"], name)] if address}
    # The ranks' MPI messages go over the network that ssh comes by.
    control = (*os.environ.get("SSH_CONNECTION", "").split(), "", "", "")[2]
    # Something in between may have changed the address.
    here = [address.partition("/")[0] for one in own["interfaces"].values() for address in one["addresses"]]
    listening = {name: _listen(address, timeout) for name, address in addresses.items()}
    facts["data"] = dict(listening)
    facts["control"] = _listen(control, timeout) if control in here and control not in addresses.values() else None
    say(facts)
    if facts["control"]:
        listening[CONTROL] = facts["control"]
    if not listening:
        os._exit(0)
    targets = json.loads(sys.stdin.readline() or "[]")
    results: dict[str, dict[str, t.Any]] = {name: {} for name in listening}

    def send(target: dict[str, t.Any]) -> None:
        name, source = target["interface"], listening[target["interface"]]["address"]
        results[name][target["host"]] = send_to(target["address"], target["port"], source, timeout)

    threads = [threading.Thread(target=send, args=(target,), daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say(results)
    # The others may still send to this one.
    sys.stdin.read()
    os._exit(0)
