# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A program of MPI that hangs, whose ranks answer at NCCL_RAS_ADDR as those of NCCL do.

    mpirun -np 3 python3 ras_program.py json 2:14:3

Its arguments are a dialect and the ranks that are behind: RANK:COLLECTIVES:GPU. The protocol is that of ``rasClientEventLoop`` in
src/ras/client_support.cc of NCCL, and the dialects are those of its releases: ``text-2.24`` (one count for all collectives), ``text``
(2.26 to 2.30), ``json-2.28`` (without a comma after nvml_dev of a missing rank), ``json`` (2.29 and later). It needs Python 3.8.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import threading
import time
import typing as t

#: What ranks that are not behind have launched.
LAUNCHED = 224
HASH = "cf264af53edbe986"


class Rank(t.NamedTuple):
    rank: int
    node: str
    pid: int
    gpu: int = 0
    behind: int = 0
    silent: bool = False


def json_answer(ranks: t.Sequence[Rank], comma: bool = True) -> str:
    """As ``rasDumpCommsToJSON`` writes it."""

    def known(one: Rank) -> dict[str, t.Any]:
        return {"rank": one.rank, "host": one.node, "pid": one.pid, "cuda_dev": one.gpu, "nvml_dev": one.gpu}

    state = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False}
    others = dict.fromkeys(("Broadcast", "Reduce", "AllGather", "ReduceScatter"), 0)
    answering = [
        dict(**known(one), status=state, collective_counts=dict(**others, AllReduce=LAUNCHED - one.behind))
        for one in ranks
        if not one.silent
    ]
    missing = [
        dict(**known(one), status={"unresponsive": True, "considered_dead": False}) for one in ranks if one.silent
    ]
    communicator = {
        "hash": f"0x{HASH}",
        "secondary_hash": "0xb7e7187447156001:0xb8242ed28a71381e",
        "size": len(ranks),
        "ranks_count": len(answering),
        "missing_ranks_count": len(missing),
        "ranks": answering,
        "missing_ranks": missing,
    }
    document = {
        "nccl_version": "2.30.7",
        "cuda_runtime_version": 13000,
        "cuda_driver_version": 13000,
        "timestamp": "2026-06-19 13:06:53",
        "communicators_count": 1,
        "communicators": [communicator],
        "ras": {"collection_time_sec": 0.001, "timeouts_count": 0},
    }
    text = json.dumps(document, indent=2) + "\n"
    return text if comma else re.sub(r'("nvml_dev": \d+),(\s+"status": .\s+"unresponsive")', r"\1\2", text)


def text_answer(ranks: t.Sequence[Rank], old: bool = False, library: str = "NCCL") -> str:
    """As ``rasClientRunInit`` and ``rasClientRunComms`` write it, with VERBOSE. ``old``: NCCL 2.24."""
    nodes = len({one.node for one in ranks})
    answering = [one for one in ranks if not one.silent]
    missing = [one for one in ranks if one.silent]
    groups: dict[int, list[Rank]] = {}
    for one in answering:
        groups.setdefault(LAUNCHED - one.behind, []).append(one)
    errors = [name for name, there in (("INCOMPLETE", missing), ("MISMATCH", len(groups) > 1)) if there]

    def place(one: Rank) -> str:
        return f"GPU {one.gpu} managed by process {one.pid} on node {one.node}"

    first = {
        "NCCL": "NCCL version 2.30.7 compiled with CUDA 13.0\nCUDA runtime version 13000, driver version 13000\n\n",
        "RCCL": "RCCL version 2.30.4 compiled with ROCm 10.0.0.0-1\nHIP runtime version 100000000, amdgpu driver version 100000000\n\n",
    }[library]
    text = first + (
        "Job summary\n===========\n\n  Nodes  Processes         GPUs  Processes     GPUs\n(total)   per node  per process    (total)  (total)\n"
        f"{nodes:7d}  {len(ranks) // nodes:9d}  {1:11d}  {len(ranks):9d}  {len(ranks):7d}\n"
        "\nCommunicators... (0.00s)\n=============\n\n"
        "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n    #  in group  per comm  per node  per comm  in group\n"
        f"{0:5d}  {1:8d}  {nodes:8d}  {len(ranks) // nodes:8d}  {len(ranks):8d}  {len(ranks):8d}   RUNNING  {','.join(errors) or 'OK':>6s}\n"
        "\nErrors\n======\n\n"
    )
    if missing:
        plural = "s" if len(missing) > 1 else ""
        text += f"INCOMPLETE\n  Missing communicator data from {len(missing)} job process{'es' if plural else ''}\n"
        text += "".join(f"  Process {one.pid} on node {one.node} managing GPU {one.gpu}\n" for one in missing) + "\n"
        text += f"#0-0 ({HASH}) INCOMPLETE\n  Missing communicator data from {len(missing)} rank{plural}\n"
        if old:
            text += f"  The missing rank{plural}: {','.join(str(one.rank) for one in missing)}\n\n"
        else:
            text += "".join(f"  Rank {one.rank} -- {place(one)}\n" for one in missing) + "\n"
    text += "Warnings\n========\n\n"
    if len(groups) > 1:
        kind = "collective" if old else "AllReduce"
        text += f"#0-0 ({HASH}) MISMATCH\n  Communicator ranks have different {kind} operation counts\n"
        for count, members in sorted(groups.items(), key=lambda item: (-len(item[1]), -item[0])):
            if len(members) > 1:
                text += f"  {len(members)} ranks have launched up to operation {count}\n"
                if len(members) * 2 < len(ranks):
                    text += "".join(f"  Rank {one.rank} -- {place(one)}\n" for one in members)
            else:
                text += f"  Rank {members[0].rank} has launched up to operation {count} -- {place(members[0])}\n"
        text += "\n"
    return text


ANSWERS: dict[str, t.Callable[[t.Sequence[Rank]], str]] = {
    "json": json_answer,
    "json-2.28": lambda ranks: json_answer(ranks, comma=False),
    "text": text_answer,
    "text-2.24": lambda ranks: text_answer(ranks, old=True),
}


def serve(listener: socket.socket, dialect: str, ranks: t.Callable[[], t.Sequence[Rank]], questions: list[str]) -> None:
    """Answer one client after the other. ``questions``: all that is asked."""
    while True:
        connection, _address = listener.accept()
        is_json = False
        with connection, connection.makefile("rwb") as file:
            for line in file:
                command = line.decode().rstrip("\r\n")
                questions.append(command)
                words = command.lower()
                if words.startswith("client protocol "):
                    file.write(b"SERVER PROTOCOL 2\n")
                elif words.startswith("timeout ") or (words.startswith("set format ") and dialect.startswith("json")):
                    is_json = is_json or words == "set format json"
                    file.write(b"OK\n")
                elif words in ("status", "verbose status"):
                    answer = ANSWERS[dialect if is_json or dialect.startswith("text") else "text"](ranks())
                    file.write(answer.encode())
                    break
                else:
                    file.write(f"ERROR: Unknown command {command}\n".encode())
                file.flush()


def listen(address: str) -> socket.socket:
    """A socket as ``rasClientInitSocket`` makes it: all processes of a host have one at the same address."""
    host, _colon, port = address.rpartition(":")
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind((host, int(port)))
    listener.listen(16)
    return listener


def main() -> None:
    from mpi4py import MPI

    dialect, *late = sys.argv[1:]
    behind = {int(rank): (int(count), int(gpu)) for rank, count, gpu in (word.split(":") for word in late)}
    comm = MPI.COMM_WORLD
    rank = comm.Get_rank()
    # The address that others see, as NCCL has that of its bootstrap.
    node = (os.environ.get("SSH_CONNECTION") or "").split(" ")[2:3] or [socket.gethostbyname(socket.gethostname())]
    count, gpu = behind.get(rank, (0, 0))
    ranks = comm.allgather(Rank(rank, node[0], os.getpid(), gpu, count))
    threading.Thread(
        target=serve, args=(listen(os.environ["NCCL_RAS_ADDR"]), dialect, lambda: ranks, []), daemon=True
    ).start()
    print(json.dumps(ranks), flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
