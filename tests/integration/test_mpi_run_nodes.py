# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs of several points over several nodes: live rows, time-outs, what is left of them, and runs that are cut off."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import tarfile

import pytest
from background import Playing, wait

#: As nccl-tests prints it, with as many rows as asked for. The first argument: of flood, of death, or nothing.
TABLE = r"""
import os, socket, sys, time
from mpi4py import MPI
world = MPI.COMM_WORLD
what, rows = sys.argv[1], int(sys.argv[2])
hosts = world.gather(socket.gethostname())
if world.rank == 0:
    print("# Collective test starting: all_reduce_perf")
    print("# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 1 iters: 1 validation: 1 graph: 0")
    for rank, host in enumerate(hosts):
        print(f"#  Rank {rank:2} Group  0 Pid {rank:6} on {host:>10} device  0 [0000:00:00] none")
    print("#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong")
    print("#  (B)  (elements)  (us)  (GB/s)  (GB/s)  (us)  (GB/s)  (GB/s)", flush=True)
    line = f"{hosts[0]}:1:1 [0] NCCL INFO Channel 00/16 : 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20\n"
    for row in range(rows):
        if what == "flood":
            for _ in range(40):
                sys.stdout.write(line * 10000)
        size = 8 << row
        print(f"  {size}  {size // 4}  float  sum  -1  {10.0:.2f}  1.00  1.50  0  {10.0:.2f}  1.00  1.50  0", flush=True)
        time.sleep(0.1)
    if what == "die":
        os._exit(3)
    print("# Out of bounds values : 0 OK")
    print("# Avg bus bandwidth    : 1.5", flush=True)
world.Barrier()
"""
#: Rank 1 stops itself; ranks 0 do not.
HANGS = 'touch /tmp/was-here; [ "$OMPI_COMM_WORLD_RANK" = 1 ] && kill -STOP $$; sleep 600; true'
#: Also what has left its session, and takes no notice of a friendly word.
DEAF = "touch /tmp/was-here; trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 600; sleep 600' & while :; do sleep 600; done"


@pytest.fixture(scope="module")
def launch(make_nodes):
    """Three nodes that reach each other, and may be broken and mended; the options of a run over them."""
    nodes = make_nodes(3)
    connect(nodes)
    hostfile = {
        "run_id": nodes.run_id,
        "hosts": [{"name": address, "slots": 2} for address in nodes.addresses.values()],
    }
    assert not nodes.module("mpi_hostfile", hostfile)["failed"]
    nodes.options = {"run_id": nodes.run_id, "control_interface": "eth0", "ranks_per_node": 1}
    return nodes


@pytest.fixture(autouse=True)
def notes(launch):
    """Where ranks leave their notes, and what they wait for: of one test alone."""
    yield
    for node in launch.names:
        launch.shell(node, "rm -f /tmp/was-here /tmp/go-on /tmp/hush /tmp/times-run")


def connect(nodes):
    play = {"hosts": "workers", "gather_facts": False, "roles": ["gpufabric.nccl.key_exchange"]}
    played = nodes.playbook([play])
    assert played.returncode == 0, played.output


def left(nodes):
    """The processes of points and of Open MPI that are left, by node."""
    look = "grep -la GPUFABRIC_POINT= /proc/[0-9]*/environ; pgrep -x 'orted|mpirun|sleep'"
    return {node: nodes.shell(node, look, check=False).stdout for node in nodes.names}


EVENTS = "/run/gpufabric/{}/mpi/events.jsonl"


def journal(nodes):
    lines = nodes.shell("g1", f"cat {EVENTS.format(nodes.run_id)}").stdout.splitlines()
    return [json.loads(line) for line in lines if line]


def script(argv):
    return ["python3", "-c", TABLE, *map(str, argv)]


def wait_for_ranks(nodes):
    """Wait until a rank has left its note on each node."""
    look = "test -e /tmp/was-here"
    wait(lambda: all(nodes.shell(node, look, check=False).returncode == 0 for node in nodes.names))


NOTHING = {"g1": "", "g2": "", "g3": ""}


def wait_for_the_last(nodes):
    """Wait until nothing is left: a daemon goes after mpirun, which has told it to."""
    wait(lambda: left(nodes) == NOTHING, 60, lambda: left(nodes))


@pytest.mark.slow
def test_points_of_all_kinds(launch, tmp_path):
    points = [
        {"name": "table", "argv": script(["", 8]), "env": {"NCCL_ALGO": "Ring"}},
        {"name": "flood", "argv": script(["flood", 5])},
        {"name": "dies", "argv": script(["die", 5])},
        {"name": "hangs", "argv": ["bash", "-c", HANGS], "timeout": 60},
        {"name": "deaf", "argv": ["bash", "-c", DEAF], "timeout": 6},
        {"name": "two", "argv": script(["", 2]), "ranks_per_node": 2, "env": {"NCCL_ALGO": "Tree"}},
        {"name": "plain", "argv": ["hostname"]},
        {"name": "unset", "argv": ["bash", "-c", "echo ALGO=${NCCL_ALGO-unset}"], "env": {"NCCL_ALGO": None}},
    ]
    options = {**launch.options, "points": points, "silence_timeout": 10, "fetch_dest": str(tmp_path / "output")}
    task = {"gpufabric.nccl.mpi_run": options}
    played = launch.playbook(
        [{"hosts": "g1", "gather_facts": False, "environment": {"NCCL_ALGO": "Tree"}, "tasks": [task]}]
    )
    result = played.result(action="gpufabric.nccl.mpi_run")
    table, flood, dies, hangs, deaf, two, plain, _unset = result["points"]
    wait_for_the_last(launch)

    statuses = [point["status"] for point in result["points"]]
    assert statuses == ["finished", "finished", "failed", "timeout", "timeout", *["finished"] * 3], result["msg"]
    assert [len(point["results"][0]["rows"]) for point in (table, flood, dies, two)] == [8, 5, 5, 2]
    assert [point["results"][0]["verdict"] for point in (table, flood, dies, two)] == [
        "pass",
        "pass",
        "incomplete",
        "pass",
    ]
    assert two["results"][0]["rank_count"] == 6 and two["results"][0]["host_count"] == 3
    assert dies["exit_status"] == 3 and any("exit" in line.lower() for line in dies["said"])
    assert [hangs["problems"][0]["id"], deaf["problems"][0]["id"]] == ["rank-stopped", "timeout"]
    assert hangs["problems"][0]["host"] == launch.addresses["g2"]
    assert plain["results"] == [] and plain["unread"]
    assert {entry["error"] for entry in result["reaped"]} == {None}
    for node in launch.names:
        launch.shell(node, "test -e /tmp/was-here")

    # What is told comes while it runs, and in order.
    lines = [line.strip() for line in played.output.splitlines() if line.startswith("g1: ")]
    begin = [index for index, line in enumerate(lines) if line.startswith("g1: point")]
    assert lines[begin[0]] == "g1: point 1 of 8, table NCCL_ALGO=Ring: started (1 rank a node)"
    assert lines[begin[1]].startswith("g1: point 1 of 8, table NCCL_ALGO=Ring: finished after ")
    assert lines[begin[1]].endswith(", peak 1.5 GB/s") and begin[1] == begin[0] + 10
    assert lines[begin[0] + 2].split() == ["g1:", "8", "10.00", "1.00", "1.50", "0"]
    assert "started (2 ranks a node), about" in played.output
    events = journal(launch)
    assert len([event for event in events if event["event"] == "rows" and event["point"] == 2]) > 1

    # Hundreds of megabytes are compressed where they are, and come here that way.
    assert flood["stdout_path"].endswith("/2/stdout.gz")
    size = int(launch.shell("g1", f"gzip -cd {flood['stdout_path']} | wc -c").stdout)
    assert size > 150e6
    archive = tmp_path / "output" / "output.tar.gz"
    assert table["output"] == {"archive": str(archive), "stdout": "points/1/stdout", "stderr": "points/1/stderr"}
    assert archive.stat().st_size < size / 20
    with tarfile.open(archive) as packed:
        assert {point["output"]["stdout"] for point in result["points"]} <= set(packed.getnames())
        assert sorted(packed.extractfile("points/7/stdout").read().decode().split()) == launch.names
        # A null takes away what the launcher has, on its own rank too, which has mpirun's environment.
        assert packed.extractfile("points/8/stdout").read().decode().split() == ["ALGO=unset"] * 3

    # What is larger than the limit stays where it is.
    large = {"points": [{"argv": ["seq", "10000"]}], "fetch_dest": str(tmp_path / "none"), "fetch_limit": "1K"}
    task = {"gpufabric.nccl.mpi_run": {**launch.options, **large}}
    played = launch.playbook([{"hosts": "g1", "gather_facts": False, "tasks": [task]}])
    words = " ".join(played.output.split())
    assert "stays on g1, in " in words and "is larger than fetch_limit, 1K" in words, played.output
    kept = played.result()
    assert kept["complete"] and "output" not in kept["points"][0] and list((tmp_path / "none").iterdir()) == []


@pytest.mark.slow
def test_a_run_that_lost_everything_but_its_files_is_taken_up(launch):
    count = "/tmp/times-run"
    note = f'[ "$OMPI_COMM_WORLD_RANK" = 0 ] && echo %s >> {count};'
    second = f"{note % 2} touch /tmp/was-here; test -e /tmp/go-on || sleep 600; true"
    points = [
        {"argv": ["bash", "-c", program], "id": str(number)}
        for number, program in enumerate([note % 1 + "true", second], 1)
    ]
    options = {**launch.options, "points": [*points, {"argv": ["true"]}]}
    playing = Playing(launch, options)
    wait_for_ranks(launch)
    playing.signal(signal.SIGKILL, workers=True)
    playing.played()
    pid = json.loads(launch.shell("g1", f"cat /run/gpufabric/{launch.run_id}/mpi/run.json").stdout)["pid"]
    launch.shell("g1", f"kill -9 {pid}")
    for node in launch.names:
        launch.shell(node, "rm /tmp/was-here; touch /tmp/go-on")
    result = launch.module("mpi_run", options)
    assert result["complete"] and not result["followed"], result
    assert [point["resumed"] for point in result["points"]] == [True, False, False]
    assert launch.shell("g1", f"cat {count}").stdout.split() == ["1", "2", "2"]
    wait_for_the_last(launch)
    # It has come to its end, so this is another run, which has not the time for all.
    again = launch.module("mpi_run", {**options, "time_limit": 0.1})
    assert again["limited"] and not again["complete"] and not again["failed"]
    assert [point["status"] for point in again["points"]] == ["finished", "not_run", "not_run"]
    # One that a limit has ended is taken up, unless that is not wanted.
    anew, taken_up = launch.modules(
        [("mpi_run", {**options, "resume": False, "time_limit": 0.1}), ("mpi_run", options)]
    )
    assert anew["limited"] and not anew["points"][0]["resumed"], anew
    assert [point["resumed"] for point in taken_up["points"]] == [True, False, False], taken_up


def pid_of(nodes, node):
    return subprocess.run(
        ["podman", "inspect", "--format", "{{.State.Pid}}", f"gpufabric-{nodes.run_id}-{node}"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.strip()


@contextlib.contextmanager
def cut(nodes, node):
    """A node that gives no answer to the others."""
    rule = ["INPUT", "-s", nodes.addresses["g1"], "-j", "DROP"]
    iptables = ["nsenter", "-t", pid_of(nodes, node), "-n", "iptables"]
    subprocess.run([*iptables, "-I", *rule], check=True)
    try:
        yield
    finally:
        subprocess.run([*iptables, "-D", *rule], check=True)


def test_hosts_that_cannot_be_reached_are_named(launch):
    sleeper = {"name": "sleeper", "argv": ["bash", "-c", "touch /tmp/was-here; sleep 600; true"]}
    with cut(launch, "g3"):
        result = launch.module("mpi_run", {**launch.options, "points": [sleeper], "startup_timeout": 3})
    (point,) = result["points"]
    assert [problem["id"] for problem in point["problems"]] == ["startup-timeout", "processes-left"]
    assert "0 of 3 ranks had started after 3 s" in point["problems"][0]["cause"]
    assert point["problems"][1]["host"] == launch.addresses["g3"]
    wait_for_the_last(launch)


@pytest.mark.slow
def test_a_rank_that_hangs_on_a_host_whose_sshd_is_gone_is_told(launch):
    # The ranks talk until the sshd is gone, however long it takes to start them all.
    talk = "touch /tmp/was-here; until [ -e /tmp/hush ]; do echo; sleep 1; done; sleep 600; true"
    points = [{"name": "talker", "argv": ["bash", "-c", talk]}]
    playing = Playing(launch, {**launch.options, "points": points, "silence_timeout": 10})
    wait_for_ranks(launch)
    sshd = f"$(cat /run/gpufabric/{launch.run_id}/sshd/sshd.pid)"
    try:
        launch.shell("g2", f"kill -9 {sshd}; until pkill -STOP -x sleep; do sleep 0.1; done")
        for node in launch.names:
            launch.shell(node, "touch /tmp/hush")
        (point,) = playing.result()["points"]
        assert [problem["id"] for problem in point["problems"]] == ["silence-timeout", "processes-left"]
        assert point["problems"][1]["host"] == launch.addresses["g2"] and "refused" in point["problems"][1]["cause"]
        wait_for_the_last(launch)
    finally:
        connect(launch)


def test_a_run_that_nobody_asks_for_ends_itself(launch):
    points = [{"argv": ["sleep", "600"]}, {"argv": ["true"]}]
    options = {**launch.options, "points": points, "orphan_timeout": 2}
    assert not launch.module("mpi_run", {**options, "state": "started"})["failed"]
    wait(lambda: launch.shell("g1", f"grep -q '\"over\"' {EVENTS.format(launch.run_id)}", check=False).returncode == 0)
    events = journal(launch)
    assert events[-1]["reason"] == "orphaned"
    outcomes = [event["outcome"] for event in events if event["event"] == "ended"]
    assert [outcome["status"] for outcome in outcomes] == ["stopped", "not_run"]
    wait_for_the_last(launch)


def frozen(nodes, node, stopped):
    """Stop all processes of a node, or have them go on: its kernel still takes connections, as that of a host that is overloaded."""
    space = os.readlink(f"/proc/{pid_of(nodes, node)}/ns/pid")
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(path / "ns" / "pid") == space:
                os.kill(int(path.name), signal.SIGSTOP if stopped else signal.SIGCONT)


@pytest.mark.slow
def test_a_launcher_that_freezes_does_not_hold_the_play_up(launch, told):
    points = [{"argv": ["true"]}, {"name": "sleeper", "argv": ["bash", "-c", "touch /tmp/was-here; sleep 600; true"]}]
    playing = Playing(launch, {**launch.options, "points": points, "poll_grace": 12})
    wait_for_ranks(launch)
    wait(lambda: "g1: point 2 of 2, sleeper: started" in told())
    unanswered = "g1: no answer, asked again for 12 s, the run goes on meanwhile: no answer within 5 s"
    try:
        frozen(launch, "g1", True)
        wait(lambda: unanswered in told())
        frozen(launch, "g1", False)
        wait(lambda: "g1: answers again" in told())
        frozen(launch, "g1", True)
        played = playing.played()
    finally:
        frozen(launch, "g1", False)
    result = played.result(action="gpufabric.nccl.mpi_run")
    # A machine that is busy may be slow to answer once more.
    pauses, answers = played.output.count(unanswered), played.output.count("g1: answers again")
    assert pauses == answers + 1 and pauses >= 2
    assert result["failed"] and "the launcher g1 has not answered for 12 s" in result["msg"]
    assert [point["status"] for point in result["points"]] == ["finished", "stopped"]
    assert result["points"][1]["problems"][0]["id"] == "launcher-lost"
    stopped = launch.module("mpi_run", {"run_id": launch.run_id, "state": "stopped"})
    assert stopped["changed"] and [point["status"] for point in stopped["points"]] == ["finished", "stopped"]
    wait_for_the_last(launch)
