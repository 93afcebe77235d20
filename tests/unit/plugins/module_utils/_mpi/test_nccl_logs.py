# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NCCL's own log of a launch: who writes one, the pass over the hosts, and what follows from it."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark import launch as launch_module
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.hostfile import Host
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.nccl_logs import (
    Logged,
    chooses_sockets,
    collect_logs,
    collecting_sources,
    copied,
    log_variables,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.openmpi import Launch
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.points import Limits, Plan, parse_points
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.rank_lines import started
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.reaper import Reach
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log import collect
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.account import Account

#: In place of ssh: runs the command of the "host" here, and has the directory of each.
SSH = """
import subprocess, sys
host, command = sys.argv[-2:]
if host == "silent":
    sys.exit("ssh: connect to host silent: No route to host")
text = sys.stdin.read()
if host == "liar":
    print('GPUFABRIC-NCCL-LOG {"facts": {"g1": 3}}')
else:
    subprocess.run(["/bin/sh", "-c", command], input=text, text=True)
"""


def facts(network, host="g1"):
    found = {
        "network": {network: 1},
        "carrier": {network: 4},
        "way": {"NET": 4},
        "gdr": {"no": 4},
        "unnamed": {network: 4},
    }
    return {host: found}


def logged(network="Socket", rdma=("mlx5_0:1",), **changes):
    values = Logged(
        {**facts(network), **facts(network, "g2")}, [], {"g1": [], "g2": list(rdma)}, {}, 2, 100, 0.5, False
    )
    return dataclasses.replace(values, **changes)


def added(found):
    document = {"ranks": [], "problems": [], "complete": True, "summary": {"checked": True}, "verdict": "pass"}
    return found.added_to(document)


def test_sockets_on_a_host_with_rdma_are_an_error():
    document = added(logged())
    (problem,) = document["problems"]
    assert (problem["id"], problem["severity"], problem["host"]) == ("nccl-socket-fallback", "error", "g2")
    assert problem["evidence"] == "active on g2: mlx5_0:1" and document["verdict"] == "fail"
    assert document["transport"]["log"] == {"files": 2, "bytes": 100, "seconds": 0.5}


@pytest.mark.parametrize("found", [logged("IB"), logged(rdma=()), logged(wants_sockets=True)])
def test_what_is_no_fallback(found):
    document = added(found)
    assert document["problems"] == [] and document["transport"]["network"]


def test_no_log_no_transport():
    assert "transport" not in added(logged(facts={}))


def test_hosts_that_do_not_answer_are_a_warning():
    (problem,) = added(logged("IB", unread={"g3": "No route to host"}))["problems"]
    assert (problem["id"], problem["severity"], problem["host"]) == ("nccl-log-unread", "warning", "g3")


def test_a_log_that_nobody_could_read_is_a_warning():
    (problem,) = added(logged(facts={}, unread={"g1": "No route to host."}))["problems"]
    assert (problem["id"], problem["host"], problem["evidence"]) == ("nccl-log-unread", "g1", "No route to host")


def test_an_answer_that_cannot_be_summarised_costs_no_result():
    (problem,) = added(logged(facts={"g1": {"channels": {"many": 1}}}))["problems"]
    assert (problem["id"], problem["severity"], problem["host"]) == ("nccl-log-unread", "warning", None)
    assert problem["evidence"].startswith("ValueError: ") and "some hosts" in problem["cause"]


def test_one_pass_over_all_hosts(tmp_path):
    (tmp_path / "ssh.py").write_text(SSH)
    directory = tmp_path / "logs"
    directory.mkdir()
    warning = "g1:1:9 [0] init.cc:1 NCCL WARN Cuda failure 'out of memory'"
    (directory / "g1.1.log").write_text(f"g1:1:9 [0] NCCL INFO Using network IB\n{warning}\n")
    reach = Reach(("other", "silent", "liar"), (sys.executable, str(tmp_path / "ssh.py")), {})
    found = collect_logs(str(directory), True, reach, collecting_sources(), {"PATH": "/usr/bin:/bin"}, False)
    # This node's, and what the other one tells of the same files.
    assert found.facts == {"g1": {"network": {"IB": 2}}} and found.files == 2
    assert found.complaints == [warning, warning]
    assert found.unread == {
        "silent": "ssh: connect to host silent: No route to host",
        "liar": "it gave no answer",
    }


@pytest.mark.parametrize(
    ("environment", "chosen"),
    [
        ({}, False),
        ({"NCCL_NET": "socket"}, True),
        ({"NCCL_NET": "IB"}, False),
        ({"NCCL_IB_DISABLE": "1"}, True),
        ({"NCCL_IB_DISABLE": "0"}, False),
    ],
)
def test_sockets_may_be_meant(environment, chosen):
    assert chooses_sockets(environment) is chosen


def logs_of(monkeypatch, *points, **variables):
    for name in ("NCCL_DEBUG", "NCCL_DEBUG_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    launch = Launch("mpirun", "/usr", "hostfile", 2, None, (), None, None, (), {}, "4.1.4")
    found = launch_module.plan_logs(parse_points(points, 10), launch, RunDir("unit", "/run/unit"))
    return ["log" if path and path.startswith("/run/unit/mpi/nccl/") else path for path in found]


def test_one_log_for_each_way_of_a_launch(monkeypatch):
    ring = {"argv": ["a"], "env": {"NCCL_ALGO": "Ring"}}
    points = ({"argv": ["a"]}, {"argv": ["b"]}, ring, ring, {"argv": ["a"], "ranks_per_node": 1})
    assert logs_of(monkeypatch, *points) == ["log", "", "log", "", "log"]


def test_the_log_of_the_user_stays_his(monkeypatch):
    assert logs_of(monkeypatch, {"argv": ["a"], "env": {"NCCL_DEBUG": "WARN"}}, {"argv": ["a"]}) == [None, "log"]
    assert logs_of(monkeypatch, {"argv": ["a"]}, NCCL_DEBUG_FILE="/tmp/x") == [None]


def test_ranks_get_the_variables_and_the_point_stays_the_same(monkeypatch):
    for name in ("NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS"):
        monkeypatch.delenv(name, raising=False)
    launch = Launch("mpirun", "/usr", "hostfile", 2, None, (), None, None, (), {}, "4.1.4")
    (point,) = parse_points([{"argv": ["a"], "env": {"NCCL_DEBUG_SUBSYS": "ALL"}}], 10)
    hosts, run_dir = [Host("g1", 2)], RunDir("unit", "/run/unit")
    jobs = [
        launch_module.plan_job(1, point, launch, hosts, run_dir, Account(run_dir), log)
        for log in ("/run/unit/mpi/nccl/1", "/run/unit/mpi/nccl/2")
    ]
    command = jobs[0].command
    handed_on = {command[index + 1] for index, word in enumerate(command) if word == "-x"}
    assert {"NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS"} <= handed_on
    assert jobs[0].environment["NCCL_DEBUG_FILE"] == "/run/unit/mpi/nccl/1/%h.%p.log"
    assert jobs[0].environment["NCCL_DEBUG_SUBSYS"] == "ALL"
    (warns, nothing) = (
        launch_module.plan_job(1, point, launch, hosts, run_dir, Account(run_dir), log).environment
        for log in ("", None)
    )
    assert (warns["NCCL_DEBUG"], "NCCL_DEBUG_FILE" in warns, "NCCL_DEBUG" in nothing) == ("WARN", False, False)
    first, second = (Plan((job,), {}, tuple(hosts), Limits(), Reach((), (), {})) for job in jobs)
    assert first.fingerprint() == second.fingerprint() and first.jobs != second.jobs


def test_a_rank_makes_the_directory(tmp_path):
    variables = log_variables(str(tmp_path / "mpi" / "nccl" / "1"))
    assert variables["NCCL_DEBUG"] == "INFO"
    environment = {"PATH": "/usr/bin:/bin", **variables}
    subprocess.run(started(["true"], True), env=environment, check=True, stderr=subprocess.DEVNULL)
    assert (tmp_path / "mpi" / "nccl" / "1").stat().st_mode & 0o777 == 0o700


def test_a_host_whose_run_is_elsewhere_has_the_logs_there(tmp_path, monkeypatch, capsys):
    launcher, own = tmp_path / "launcher" / "mpi/nccl/1", tmp_path / "own"
    environment = {"PATH": "/usr/bin:/bin", "GPUFABRIC_RUN_DIR": str(own), **log_variables(str(launcher))}
    program = ["/bin/sh", "-c", 'echo "g1:1:1 [0] NCCL INFO Using network IB" >"$NCCL_DEBUG_FILE"']
    subprocess.run(started(program, True), env=environment, check=True, stderr=subprocess.DEVNULL)
    assert not launcher.exists() and [path.name for path in (own / "mpi/nccl/1").iterdir()] == ["%h.%p.log"]
    monkeypatch.setenv("GPUFABRIC_RUN_DIR", str(own))
    collect.main({"directory": str(launcher), "variable": "GPUFABRIC_RUN_DIR", "logs": "mpi/nccl"})
    answer = collect.parse_answer(capsys.readouterr().out)
    assert answer["files"] == 1 and answer["facts"]["g1"]["network"] == {"IB": 1}


def test_points_that_are_launched_alike_have_the_same_transport():
    told = added(logged())
    other = copied(told, {**added(logged(facts={})), "transport": None, "software": None})
    assert (other["transport"], other["verdict"]) == (told["transport"], "fail")
    assert [problem["id"] for problem in other["problems"]] == ["nccl-socket-fallback"]
    own = {**told, "transport": {"network": "IB"}, "problems": []}
    assert copied(told, own) == own and copied({**told, "transport": None}, other) == other
