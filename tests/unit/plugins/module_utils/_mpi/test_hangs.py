# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pass over the hosts of a point that hangs, and what a run sets for it."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark import launch as launch_module
from ansible_collections.gpufabric.nccl.plugins.module_utils._hang import look
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi import hangs
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.hostfile import Host
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.openmpi import Launch
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.points import Limits, Plan, parse_points
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.reaper import Reach
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.account import Account

#: In place of ssh: runs the command of the "host" here.
SSH = """
import os, subprocess, sys, time
host, command = sys.argv[-2:]
if host == "frozen":
    time.sleep(600)
if host == "late":
    sys.exit("ssh: connect to host late port 22: Connection timed out")
if host == "closed":
    sys.exit("ssh: connect to host closed port 22: Connection refused")
if host == "liar":
    print('GPUFABRIC-HANG {"ranks": 3}')
else:
    environment = {**os.environ, "GPUFABRIC_RUN_DIR": "/run/unit"}
    subprocess.run(["/bin/sh", "-c", command], stdin=sys.stdin, env=environment)
"""
#: A rank that listens where NCCL's RAS does, and never answers.
LISTENS = "import os, socket, time; host, port = os.environ['NCCL_RAS_ADDR'].split(':'); s = socket.create_server((host, int(port))); time.sleep(600)"


@pytest.fixture
def reach(tmp_path):
    (tmp_path / "ssh.py").write_text(SSH)
    return lambda *hosts: Reach(hosts, (sys.executable, str(tmp_path / "ssh.py")), {})


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    # The script for other hosts is the file itself.
    monkeypatch.setattr(look, "_INTERVAL", 0.2)
    monkeypatch.setattr(hangs, "_HOST_DEADLINE", 4.0)
    monkeypatch.setattr(hangs, "_RAS_DEADLINE", 2.0)


@pytest.fixture
def rank():
    """A rank of a point on this machine: the point's name, and the process."""
    name = f"unit-{uuid.uuid4().hex}/1"
    address = hangs.ras_address()
    variables = {
        "GPUFABRIC_POINT": name,
        "GPUFABRIC_RUN_DIR": "/run/unit",
        "OMPI_COMM_WORLD_RANK": "3",
        "NCCL_RAS_ADDR": address,
    }
    process = subprocess.Popen([sys.executable, "-c", LISTENS], env=variables, start_new_session=True)
    host, port = address.split(":")
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection((host, int(port)), 1).close()
            break
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    yield name, process
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_one_pass_over_all_hosts(reach, rank):
    name, process = rank
    hosts = reach("other", "frozen", "late", "closed", "liar")
    seen = hangs.look_at_hang(
        hangs.Watched(name, "/run/unit", "here"), hosts, hangs.looking_sources(), {"PATH": os.environ["PATH"]}
    )
    assert set(seen.answers) == {"here", "other"} and seen.reports == ()
    for answer in seen.answers.values():
        (found,) = answer["ranks"]
        assert (found["rank"], found["pid"], found["state"]) == (3, process.pid, "S")
    assert seen.frozen == {
        "frozen": "no answer within 4 s",
        "late": "ssh: connect to host late port 22: Connection timed out",
    }
    assert seen.unread == {
        "closed": "ssh: connect to host closed port 22: Connection refused",
        "liar": "it gave no answer",
    }


def test_what_other_hosts_get_is_small():
    sources = hangs.looking_sources()
    assert {name.rsplit(".", 1)[1] for name, _text in sources} == {"look", "_process", "_files", "_errors", "_text"}
    assert len(json.dumps(sources)) < 64 << 10


def jobs(tmp_path, monkeypatch, env, node_env=None, environ=None):
    monkeypatch.setattr(os, "environ", {**os.environ, **(environ or {})})
    run_dir = RunDir("unit", str(tmp_path / "run"))
    launch = Launch("/usr/bin/mpirun", "/usr", "/tmp/hosts", 0, None, ("/usr/bin/ssh",), node_env=node_env or {})
    points = parse_points([{"argv": ["true"], "env": env}], 60)
    return [
        launch_module.plan_job(
            1, points[0], launch, [Host("g1", 1)], run_dir, Account(run_dir), None, f"127.0.0.1:{port}"
        )
        for port in (20001, 20002)
    ]


def test_each_run_has_a_port_of_its_own_that_does_not_count(tmp_path, monkeypatch):
    monkeypatch.delenv("NCCL_RAS_ADDR", raising=False)
    first, second = jobs(tmp_path, monkeypatch, {})
    assert first.environment["NCCL_RAS_ADDR"] == first.ras == "127.0.0.1:20001"
    assert first.command[first.command.index("NCCL_RAS_ADDR") - 1] == "-x"
    plans = [Plan((job,), {}, (Host("g1", 1),), Limits(), Reach((), (), {})) for job in (first, second)]
    assert plans[0].fingerprints() == plans[1].fingerprints()
    others = [dataclasses.replace(plan, jobs=(dataclasses.replace(plan.jobs[0], ras=""),)) for plan in plans]
    assert others[0].fingerprints() != others[1].fingerprints()


@pytest.mark.parametrize("source", ["env", "unset", "node_env", "environ"])
@pytest.mark.parametrize(("name", "value"), [("NCCL_RAS_ADDR", "10.0.0.1:9"), ("NCCL_RAS_ENABLE", "0")])
def test_what_the_user_sets_stays(tmp_path, monkeypatch, source, name, value):
    given = (
        {"env": {name: value}}
        if source == "env"
        else {"env": {name: None}}
        if source == "unset"
        else {"env": {}, source: {name: value}}
    )
    job, _second = jobs(tmp_path, monkeypatch, **given)
    assert job.ras == "" and not job.environment.get("NCCL_RAS_ADDR", "").startswith("127.0.0.1")
    if source != "unset":
        assert job.environment[name] == value
