# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host tells of real processes, and which answers of hosts are taken."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
import uuid

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils import _process
from ansible_collections.gpufabric.nccl.plugins.module_utils._hang import look

SPIN = "while True: pass"
#: A rank whose program is the child of a shell.
SHELL = ("sh", "-c", "sleep 600; true")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(look, "_INTERVAL", 0.3)
    monkeypatch.setattr(look, "_ENOUGH", 5)


@pytest.fixture
def point():
    return f"unit-{uuid.uuid4().hex}/1"


@pytest.fixture
def start(point):
    started = []

    def starting(rank, *argv, directory="/run/unit", **environment):
        variables = {"GPUFABRIC_POINT": point, "PATH": os.environ["PATH"], **environment}
        variables.update({"OMPI_COMM_WORLD_RANK": str(rank)} if rank is not None else {})
        variables.update({"GPUFABRIC_RUN_DIR": directory} if directory else {})
        process = subprocess.Popen(argv, env=variables, start_new_session=True)
        started.append(process)
        return process

    yield starting
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def seen(point, directory="/run/unit"):
    found = look.look(point, directory, "GPUFABRIC_RUN_DIR", ["GPUFABRIC_POINT", "OMPI_MCA_gpufabric_point"])
    assert look.parse_answer(f"motd\n{look.MARK}{json.dumps(found)}\n") == found
    return found


def test_states_of_ranks(point, start):
    spins = start(0, sys.executable, "-c", SPIN)
    sleeps = start(1, "sleep", "600")
    stopped = start(2, "sleep", "600")
    shell = start(3, *SHELL)
    daemon = start(None, "sleep", "600", OMPI_MCA_gpufabric_point=point)
    time.sleep(0.3)
    os.kill(stopped.pid, signal.SIGSTOP)
    found = seen(point)
    by_rank = {one["rank"]: one for one in found["ranks"]}
    assert {rank: (one["pid"], one["state"]) for rank, one in by_rank.items()} == {
        0: (spins.pid, "R"),
        1: (sleeps.pid, "S"),
        2: (stopped.pid, "T"),
        3: (shell.pid, "S"),
    }
    assert by_rank[0]["cpu"] > 0.1 and by_rank[0]["system"] < 0.2 and by_rank[1]["cpu"] == 0
    assert by_rank[1]["name"] == "sleep" and by_rank[3]["name"] == "sh"
    assert [one["pid"] for one in found["daemons"]] == [daemon.pid]
    assert found["unknown"] == 0 and found["ras"] == []
    os.kill(stopped.pid, signal.SIGCONT)


def test_a_program_below_a_shell_that_is_stopped(point, start):
    shell = start(0, *SHELL)
    time.sleep(0.3)
    child = int(pathlib.Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text())
    os.kill(child, signal.SIGSTOP)
    (rank,) = seen(point)["ranks"]
    assert (rank["pid"], rank["pids"], rank["state"]) == (shell.pid, sorted([shell.pid, child]), "T")


def test_whose_processes_it_looks_at(point, start, tmp_path):
    link = tmp_path / "link"
    link.symlink_to("/run")
    start(0, "sleep", "600")
    start(1, "sleep", "600", directory="/run/other")
    start(2, "sleep", "600", directory=None)
    start(3, "sleep", "600", GPUFABRIC_POINT=f"{point}0")
    time.sleep(0.3)
    assert [one["rank"] for one in seen(point)["ranks"]] == [0]
    assert [one["rank"] for one in seen(point, f"{link}/unit")["ranks"]] == [0]
    assert [one["rank"] for one in seen(point, None)["ranks"]] == [2]


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({"NCCL_RAS_ADDR": "127.0.0.1:{port}"}, True),
        ({"NCCL_RAS_ADDR": "127.0.0.1:{port}", "NCCL_RAS_ENABLE": "0"}, False),
        ({"NCCL_RAS_ADDR": "127.0.0.1:{port}\n"}, False),
        ({"NCCL_RAS_ADDR": "/tmp/socket:{port}"}, False),
        ({"NCCL_RAS_ADDR": "127.0.0.1:1"}, False),
        ({}, False),
    ],
)
def test_where_ras_listens(point, start, environment, found):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        values = {name: value.format(port=listener.getsockname()[1]) for name, value in environment.items()}
        start(0, "sleep", "600", **values)
        time.sleep(0.3)
        assert seen(point)["ras"] == ([values["NCCL_RAS_ADDR"]] if found else [])


GOOD = {
    "ranks": [
        {"rank": 0, "pid": 7, "pids": [7, 8], "name": "sleep", "state": "S", "cpu": 0.0, "system": 0.0, "where": "a, b"}
    ],
    "daemons": [],
    "unknown": 0,
    "addresses": ["10.0.0.1", "fe80::1"],
    "ras": ["127.0.0.1:28028", "[::1]:28028"],
}


def changed(path, value):
    answer = copy.deepcopy(GOOD)
    *before, last = path
    inner = answer
    for name in before:
        inner = inner[name]
    inner[last] = value
    return answer


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {},
        {**GOOD, "more": 1},
        changed(["ranks"], {}),
        changed(["ranks"], GOOD["ranks"] * 5000),
        changed(["ranks", 0], None),
        changed(["ranks", 0, "rank"], None),
        changed(["ranks", 0, "rank"], True),
        changed(["ranks", 0, "rank"], -1),
        changed(["ranks", 0, "pid"], "7"),
        changed(["ranks", 0, "pids"], [None]),
        changed(["ranks", 0, "pids"], [1] * 65),
        changed(["ranks", 0, "state"], "TT"),
        changed(["ranks", 0, "state"], 3),
        changed(["ranks", 0, "cpu"], float("nan")),
        changed(["ranks", 0, "cpu"], 1e9),
        changed(["ranks", 0, "name"], "a\x1b[31m"),
        changed(["ranks", 0, "where"], "x" * 101),
        changed(["ranks", 0, "where"], "{{ lookup('pipe', 'id') }}"),
        changed(["daemons"], GOOD["ranks"]),
        changed(["unknown"], -1),
        changed(["addresses"], ["10.0.0.1\n"]),
        changed(["addresses"], ["10.0.0.1"] * 65),
        changed(["ras"], ["elsewhere"]),
        changed(["ras"], [{}]),
    ],
)
def test_answers_that_are_not_taken(answer):
    assert look.parse_answer(f"{look.MARK}{json.dumps(GOOD)}") == GOOD
    assert look.parse_answer(f"{look.MARK}{json.dumps(answer)}") is None


@pytest.mark.parametrize("text", ["", look.MARK, f"{look.MARK}{'[' * 100000}", f"{look.MARK}{'9' * 100000}", "null"])
def test_texts_that_are_no_answer(text):
    assert look.parse_answer(text) is None and look.parse_ras(text) == []


def test_answers_of_ras_are_texts():
    assert look.parse_ras(f'{look.MARK}["a", "b", "c"]') == ["a", "b"]
    assert look.parse_ras(f'{look.MARK}["a", 1]') == [] and look.parse_ras(f'{look.MARK}{{"a": 1}}') == []


def test_a_rank_that_names_an_address_of_another_host_is_not_asked(point, start):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        for rank, host in enumerate(("192.0.2.1", "host.example.org", "[2001:db8::1]", "localhost")):
            start(rank, "sleep", "600", NCCL_RAS_ADDR=f"{host}:{port}")
        time.sleep(0.3)
        assert seen(point)["ras"] == [f"localhost:{port}"]


def serve(*answers):
    """A server at an address that answers each line that it gets with the next of the texts, byte by byte."""
    listener = socket.create_server(("127.0.0.1", 0))

    def work():
        with contextlib.suppress(OSError):
            while True:
                connection, _address = listener.accept()
                with connection, contextlib.suppress(OSError), connection.makefile("rb") as file:
                    for answer in answers:
                        file.readline()
                        for byte in answer:
                            connection.sendall(bytes([byte]))
                            time.sleep(0.05)

    threading.Thread(target=work, daemon=True).start()
    return listener, f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("answers", [(b"S" * 2000,), (b"SERVER PROTOCOL 2\n", b"OK" * 2000)])
def test_a_server_that_answers_byte_by_byte_is_not_waited_for(answers, monkeypatch):
    monkeypatch.setattr(look, "_HANDSHAKE", 1.2)
    listener, address = serve(*answers)
    with listener:
        begin = time.monotonic()
        assert look.ask_ras(address, 1.5) == []
        assert time.monotonic() - begin < 30


def test_a_server_that_is_no_ras_is_not_asked():
    listener, address = serve(b"NO\n", b"a\n", b"b\n", b"{}")
    with listener:
        assert look.ask_ras(address, 1.5) == []


def test_parents_that_seem_to_be_each_others_end_the_search_for_the_first(monkeypatch, point):
    # Above the kernel's largest: of processes that are there, threads would be found.
    first, second = (1 << 22) + 1, (1 << 22) + 2
    circle = {
        pid: _process.Process(pid, parent, os.getuid(), ("x",)) for pid, parent in ((first, second), (second, first))
    }
    monkeypatch.setattr(look, "read_processes", lambda: circle)
    monkeypatch.setattr(look, "stamped", lambda processes, _is_meant: set(processes))
    monkeypatch.setattr(look, "_environment", lambda _pid: {"OMPI_COMM_WORLD_RANK": "0"})
    monkeypatch.setattr(look, "_INTERVAL", 0)
    assert seen(point)["ranks"] == []


def test_lists_in_lists_are_not_read():
    many = "[" + "[]," * 100000 + "[]]"
    answer = json.dumps(GOOD).replace('"daemons": []', f'"daemons": {many}')
    tracemalloc.start()
    try:
        assert look.parse_answer(look.MARK + answer) is None and look.parse_ras(look.MARK + many) == []
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
