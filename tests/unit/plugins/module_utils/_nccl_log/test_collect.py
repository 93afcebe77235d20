# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a host summarises its logs, and what is taken of its answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils import _remote_python
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log import collect
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.summary import software_of

LINE = "g1:{pid}:9 [0] NCCL INFO Using network IB\n"
WARNING = "g1:2:9 [0] net_ib.cc:99 NCCL WARN NET/IB : mlx5_0:1 async fatal event\n"
FAILURE = "g1:2:9 [0] NCCL INFO misc/socket.cc:1 -> 2 Failure\n"
ANSWER = {
    "facts": {"g1": {"network": {"IB": 2}}},
    "complaints": [WARNING.rstrip("\n"), FAILURE.rstrip("\n")],
    "files": 2,
    "bytes": 76 + len(WARNING + FAILURE),
    "rdma": [],
}


@pytest.fixture
def logs(tmp_path):
    directory = tmp_path / "a directory"
    directory.mkdir()
    for pid in (1, 2):
        (directory / f"g1.{pid}.log").write_text(LINE.format(pid=pid) + (WARNING + FAILURE) * (pid == 2))
    (directory / "other.txt").write_text(LINE.format(pid=3))
    (directory / "g1.4.log").symlink_to(directory / "g1.1.log")
    os.mkfifo(directory / "g1.5.log")
    return directory


def test_logs_of_a_host(logs, tmp_path):
    assert collect.collect(str(logs), str(tmp_path)) == ANSWER
    nothing = {"facts": {}, "complaints": [], "files": 0, "bytes": 0, "rdma": []}
    assert collect.collect(str(tmp_path / "none"), str(tmp_path)) == nothing


def test_a_log_full_of_warnings_tells_the_first_of_them(logs):
    (logs / "g1.3.log").write_text(
        "".join(f"g1:3:9 [0] a.cc:1 NCCL WARN number {n} {'x' * 5000}\n" for n in range(200))
    )
    found = collect.collect(str(logs))["complaints"]
    assert len(found) == collect.MOST_COMPLAINTS and max(map(len, found)) == collect.LONGEST_COMPLAINT
    assert [line.split()[6] for line in found[2:]] == [str(n) for n in range(collect.MOST_COMPLAINTS - 2)]
    assert collect.parse_answer(f"{collect.MARK}{json.dumps(collect.collect(str(logs)))}") is not None


def test_active_ports(tmp_path):
    for device, state in (("mlx5_0", "4: ACTIVE"), ("mlx5_1", "1: DOWN"), ("mlx5_2", "4: ACTIVE")):
        port = tmp_path / "sys/class/infiniband" / device / "ports/1"
        port.mkdir(parents=True)
        (port / "state").write_text(f"{state}\n")
    assert collect.active_ports(str(tmp_path)) == ["mlx5_0:1", "mlx5_2:1"]


@pytest.mark.parametrize(
    ("nvidia", "amd", "driver"),
    [
        # README of NVIDIA's driver 535, and of its open kernel modules 550.
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC\n",
            None,
            "535.104.05",
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (x)\n",
            "6.8.5\n",
            "550.54.15",
        ),
        (None, "6.8.5\n", "6.8.5"),
        ("NVRM version: none\n", "a\x1b[31m\n", None),
        ("9" * 100_000, "1." * 50_000, None),
        (None, None, None),
    ],
)
def test_version_of_the_gpu_driver(tmp_path, logs, nvidia, amd, driver):
    for path, text in (("proc/driver/nvidia/version", nvidia), ("sys/module/amdgpu/version", amd)):
        if text is not None:
            (tmp_path / path).parent.mkdir(parents=True)
            (tmp_path / path).write_text(text)
    assert collect.gpu_driver(str(tmp_path)) == driver
    answer = collect.collect(str(logs), str(tmp_path))
    assert answer["facts"]["g1"].get("driver") == (driver and {driver: 1})
    assert collect.parse_answer(f"{collect.MARK}{json.dumps(answer)}") == answer


def test_hosts_whose_driver_differs_are_named():
    facts = {
        host: {"nccl": {"2.30.7": 1}, "driver": {version: 1}} for host, version in zip("abc", ("1.2", "1.2", "1.3"))
    }
    software = software_of(facts)
    assert software["driver"] is None
    (difference,) = software["differences"]
    assert (difference["fact"], difference["host"], difference["value"]) == ("driver", "c", "1.3")
    assert software_of({"a": facts["a"]})["driver"] == "1.2"


def test_it_runs_without_the_collection(logs):
    """As on another host: the sources come by standard input."""
    parameters = {"directory": str(logs), "variable": "GPUFABRIC_RUN_DIR", "logs": "mpi/nccl"}
    program = _remote_python.program_text(_remote_python.sources_of(collect.__name__), parameters)
    # What a pipe takes before anybody reads.
    assert len(program) < 1 << 16
    command = _remote_python.python_command(sys.executable, "")
    done = subprocess.run(
        ["/bin/sh", "-c", command], input=program, stdout=subprocess.PIPE, env={"PATH": "/usr/bin"}, check=True
    )
    answer = collect.parse_answer("Welcome to g1!" + done.stdout.decode())
    assert answer is not None and answer["facts"] == ANSWER["facts"]


@pytest.mark.parametrize(
    "changes",
    [
        {"facts": None},
        {"files": -1},
        {"bytes": True},
        {"rdma": ["x" * 500]},
        {"rdma": ["mlx5_0:1"] * 500},
        {"facts": {"g1": {"network": {"IB": "1"}}}},
        {"facts": {"g1": {"channels": {"many": 1}}}},
        {"facts": {"g1": {"channels": {"\u00b2": 1}}}},
        {"facts": {"g1": {"channels": {"123456": 1}}}},
        {"facts": {"g1": {"way": {"NET": 1 << 53}}}},
        {"facts": {"g1": {"way": {"NET": int("9" * 4300)}}}},
        {"facts": {"g1": {"carrier": {"IB\n<testcase>": 1}}}},
        {"facts": {"g1": {"carrier": {"IB\n": 1}}}},
        {"facts": {"g1": {"carrier": {"[IB](x)": 1}}}},
        {"facts": {"g1": {"used": {"mlx5_\u00b2:1": 1}}}},
        {"facts": {"g1\u2028": {}}},
        {"facts": {"g1": {"way\n": {"NET": 1}}}},
        {"files": 1 << 53},
        {"rdma": ["mlx5_0\n:1"]},
        {"facts": {"g1": {"network": {"x" * 500: 1}}}},
        {"facts": {f"g{number}": {} for number in range(100)}},
        {"complaints": None},
        {"complaints": ["a\nb"]},
        {"complaints": ["x" * 5000]},
        {"complaints": ["x"] * 5000},
        {"more": 1},
    ],
)
def test_answers_that_are_none(changes):
    assert collect.parse_answer(f"{collect.MARK}{json.dumps(ANSWER)}\n") == ANSWER
    assert collect.parse_answer(f"{collect.MARK}{json.dumps({**ANSWER, **changes})}\n") is None


def test_values_that_logs_have_are_taken():
    words = (
        "AWS Libfabric",
        "IBext_v8",
        "aws-ofi-nccl 1.9.1-aws",
        "2.18.3",
        "12.2",
        "bond0.5@eth0",
        "AWS Libfabric/3",
        "mlx5_0:1",
    )
    facts = {"": {"nccl": dict.fromkeys(words, 1)}, "g1.example": {"channels": {"16": (1 << 53) - 1}}}
    found = collect.parse_answer(f"{collect.MARK}{json.dumps({**ANSWER, 'facts': facts, 'rdma': ['mlx5_0:1']})}")
    assert found is not None and found["facts"] == facts


@pytest.mark.parametrize("text", ["", "hello", collect.MARK, f"{collect.MARK}null", f"{collect.MARK}{'[' * 100000}"])
def test_texts_that_are_none(text):
    assert collect.parse_answer(text) is None
