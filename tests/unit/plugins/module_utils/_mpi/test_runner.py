# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import time
import uuid

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi import runner
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.hostfile import Host
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.points import Job, Limits, Plan, parse_points
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.progress import Journal, look_command, parse_look
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.rank_lines import started
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.reaper import Reach, Reaped
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.run_files import Run
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.runner import (
    go_through,
    launch_environment,
    marks_of,
    too_full,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import read_processes, stamped
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir

SLEEP = "import time; time.sleep(600)"
#: What a rank of a launch of one has from mpirun.
RANK = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}
TABLE = """\
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 1 iters: 1 agg iters: 1 validation: 1 graph: 0
#  Rank  0 Group  0 Pid   1 on {host} device  0 [0000:00:00] cpu
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    12.00    0.00    0.00       0    12.00    0.00    0.00       0
          16             4     float     sum      -1    12.00    0.00    0.00       0    12.00    0.00    0.00       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0
"""
#: Of a program without MPI that was started twice, and of two ranks where one was asked for.
SEPARATE = "\n".join([*TABLE.splitlines()[:3] * 2, *TABLE.splitlines()[3:]])
ELSEWHERE = TABLE.replace("on {host}", "on {host} device  0 [0000:00:00] cpu\n#  Rank  1 Group  0 Pid   2 on g2")
#: After which nccl-tests 2.19.6 ends with 0.
USAGE = "/opt/nccl-tests/build/all_reduce_perf: unrecognized option '--memroy'\ninvalid option '?'\nUSAGE: all_reduce_perf \n"
#: After which mpirun of Open MPI 5 ends with 0.
LOST = "PRTE has lost communication with a remote daemon.\n\n  Remote daemon: [prterun-g1-77@0,1] on node g3\n"


@pytest.fixture
def run(tmp_path):
    run = Run(RunDir(f"unit-{uuid.uuid4().hex}", str(tmp_path / "run")))
    yield run
    run.remove()


def plan(run, *programs, timeout=600, ranks=1, **limits):
    """Points that run Python programs as mpirun does, on this node alone."""
    points = parse_points(
        [{"id": f"p{index}", "argv": [sys.executable, "-c", text]} for index, text in enumerate(programs)], timeout
    )
    jobs = [
        Job(
            point,
            tuple(started(point.argv)),
            launch_environment(run.run_dir, number, {**os.environ, **RANK, **marks_of(run.run_dir, number, point)}),
            ranks,
        )
        for number, point in enumerate(points, 1)
    ]
    return Plan(tuple(jobs), {"script": "text"}, (Host("127.0.0.1", 1),), Limits(**limits), Reach((), (), {}))


def wait(condition):
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Follower:
    """What the controller sees."""

    def __init__(self, run):
        self.runner = run.runner()
        self.journal = Journal()
        self.events = []
        self.alive = False

    def look(self):
        command = look_command(self.runner["directory"], self.runner["pid"], self.journal.offset)
        text = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, text=True, check=True).stdout
        look = parse_look(text, self.runner["pid"], self.runner["start"])
        self.alive = look.alive
        self.events += self.journal.feed(look.events)
        return self

    def kinds(self):
        return [event["event"] for event in self.look().events]

    def until_over(self):
        wait(lambda: "over" in self.kinds())
        return self

    def claim(self):
        os.unlink(f"{self.runner['directory']}/unclaimed")


def begin(run, planned, resume=True, archive=False):
    return run.start(planned, go_through, resume, archive)


def finish(run, *programs, resume=True, archive=False, **options):
    """Run points to their end; what came of them."""
    begin(run, plan(run, *programs, **options), resume, archive)
    Follower(run).until_over().claim()
    return run.result()


def logs_of(run, name):
    """Where NCCL's logs of a launch are."""
    return pathlib.Path(run.run_dir.path) / "mpi" / "nccl" / name


def logging_plan(run, *programs, log, **limits):
    """As plan; the first point has NCCL's log in a directory, and all are launched alike."""
    planned = plan(run, *programs, **limits)
    file = {"NCCL_DEBUG_FILE": f"{log}/1.log"}
    first, *others = planned.jobs
    jobs = (
        dataclasses.replace(
            first,
            command=(*started(first.point.argv, True), "NCCL_DEBUG_FILE"),
            environment={**first.environment, **file},
            log=str(log),
            configuration="all",
        ),
        *(dataclasses.replace(job, configuration="all") for job in others),
    )
    return dataclasses.replace(planned, jobs=jobs)


def points_of(run, number=1):
    return stamped(read_processes(), run.run_dir.started_with("GPUFABRIC_POINT", f"{run.run_dir.run_id}/{number}"))


def test_a_run_goes_by_itself(run):
    assert begin(run, plan(run, "print('out')", "raise SystemExit(3)")) is False
    follower = Follower(run).until_over()
    assert os.getsid(0) != follower.runner["pid"]
    assert follower.kinds() == ["started", "ended", "started", "ended", "over"]
    with open(os.path.join(run.run_dir.files, "script")) as file:
        assert file.read() == "text"
    result = run.result()
    assert [point["status"] for point in result["points"]] == ["finished", "failed"]
    assert [point["exit_status"] for point in result["points"]] == [0, 3]
    assert not result["complete"] and not result["limited"] and "exit status 3" in result["msg"]
    first = result["points"][0]
    assert pathlib.Path(first["stdout_path"]).read_text() == "out\n"
    assert first["results"] == [] and "no output of nccl-tests" in first["unread"] and not first["resumed"]
    run.remove()
    assert not os.path.exists(run.run_dir.path)


def test_rows_come_while_the_program_runs(run):
    *first, end, average = TABLE.format(host=os.uname().nodename).splitlines()
    go = os.path.join(run.run_dir.path, "go")
    program = f"""
import os, time
print({chr(10).join(first)!r}, flush=True)
while not os.path.exists({go!r}):
    time.sleep(0.05)
print({end!r}); print({average!r})
"""
    begin(run, plan(run, program))
    follower = Follower(run)
    wait(lambda: "rows" in follower.kinds())
    assert "ended" not in follower.kinds()
    open(go, "w").close()
    follower.until_over()
    assert [len(event["rows"]) for event in follower.events if event["event"] == "rows"] == [2]
    (point,) = run.result()["points"]
    assert point["status"] == "finished" and point["unread"] is None
    assert point["results"][0]["verdict"] == "pass" and len(point["results"][0]["rows"]) == 2
    os.unlink(go)


@pytest.mark.parametrize(
    ("program", "options", "status", "problem"),
    [
        (SLEEP, {"timeout": 0.5}, "timeout", "timeout"),
        (SLEEP, {"ranks": 2, "startup": 0.5}, "timeout", "startup-timeout"),
        (SLEEP, {"silence": 0.5}, "timeout", "silence-timeout"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", {"silence": 0.5}, "timeout", "rank-stopped"),
        (SLEEP, {"orphan": 0.5}, "stopped", "orphaned"),
        ("while True: print('y' * 99)", {"output": 1 << 20}, "failed", "output-too-long"),
        # Longer than what is read for causes at once.
        ("import sys\nwhile True: sys.stderr.write('y' * 9999)", {"output": 5 << 20}, "failed", "output-too-long"),
        ("print(1)", {"ranks": 2}, "failed", "mpi-missing"),
        (f"print({SEPARATE!r})", {}, "failed", "mpi-missing"),
        (f"print({ELSEWHERE!r})", {}, "failed", "ranks-differ"),
        (f"import sys; sys.stderr.write({LOST!r})", {}, "failed", "lost-connection"),
        # Its table is whole, and the lines that say more are lost in what others print.
        (f"import sys; print({TABLE!r}); sys.stderr.write({LOST[:50]!r})", {}, "failed", "unknown"),
        (f"print({USAGE!r})", {}, "failed", "test-argument"),
        ("import sys; sys.exit('root@10.0.0.2: Permission denied (publickey).')", {}, "failed", "ssh-auth-refused"),
        ("raise SystemExit(7)", {}, "failed", "unknown"),
    ],
)
def test_what_goes_wrong_has_a_name_and_leaves_nothing(run, program, options, status, problem):
    begin(run, plan(run, program, **options))
    follower = Follower(run)
    # Not by a poll, which keeps it from being an orphan.
    events = pathlib.Path(run.run_dir.mpi, "events.jsonl")
    wait(lambda: events.exists() and '"event": "over"' in events.read_text())
    (point,) = run.result()["points"]
    assert (point["status"], point["problems"][0]["id"]) == (status, problem)
    assert point["problems"][0]["cause"] in run.result()["msg"]
    assert points_of(run) == set()
    wait(lambda: not follower.look().alive)


def test_a_flood_keeps_no_limit_waiting(run, monkeypatch):
    """To read all of it would take minutes, in which nobody is told anything."""
    monkeypatch.setattr(runner, "_LONGEST_LOOK", 0.05)
    monkeypatch.setattr(runner, "_MOST_DIAGNOSED", 1 << 16)
    flood = "import sys, time; sys.stdout.write('y\\n' * (8 << 20)); print({!r}, flush=True); time.sleep(600)"
    begin(run, plan(run, flood.format(TABLE), output=1 << 20))
    follower = Follower(run)
    wait(lambda: not follower.look().alive)
    (point,) = run.result()["points"]
    assert [problem["id"] for problem in point["problems"]] == ["output-too-long"]
    # What comes after the limit is not read.
    assert point["results"] == [] and points_of(run) == set()


def test_who_follows_a_run_says_anew_how_long_it_goes_on_without_him(run):
    begin(run, plan(run, SLEEP, orphan=3600))
    assert run.orphan_limit() == 3600
    assert run.start(plan(run, SLEEP, orphan=0.5), go_through)
    events = pathlib.Path(run.run_dir.mpi, "events.jsonl")
    wait(lambda: events.exists() and '"event": "over"' in events.read_text())
    (problem,) = run.result()["points"][0]["problems"]
    assert problem["id"] == "orphaned" and "0.5 s" in problem["cause"]


def test_a_point_does_not_fill_the_file_system(run, monkeypatch):
    monkeypatch.setattr(runner, "_space", lambda path: (10 << 20, 1 << 30))
    (point,) = finish(run, "print('y' * (2 << 20), flush=True); import time; time.sleep(600)")["points"]
    assert (point["status"], point["exit_status"]) == ("failed", None)
    (found,) = point["problems"]
    assert (found["id"], found["host"]) == ("disk-full", "127.0.0.1")
    assert found["cause"] == f"The file system of {run.run_dir.path} is full: 10 MiB are free, 51.2 MiB are needed."
    assert found["evidence"] == "the point was ended when it had printed 2 MiB"
    # It is not of a point that prints little.
    assert finish(run, "print(1)")["points"][0]["status"] == "finished"


@pytest.mark.parametrize(
    ("free", "size", "printed", "full"),
    [
        (1 << 30, 1 << 40, 9 << 30, False),
        (60 << 20, 1 << 40, 9 << 30, True),
        (60 << 20, 1 << 40, 1 << 20, False),
        # A small one, such as /run of a container.
        (60 << 20, 64 << 20, 2 << 20, False),
        (3 << 20, 64 << 20, 2 << 20, True),
        (0, 64 << 20, 2 << 20, True),
        # That of a file system without a size, such as some of a network.
        (0, 0, 2 << 20, False),
    ],
)
def test_what_is_too_full(free, size, printed, full):
    assert too_full(free, size, printed) is full


@pytest.mark.parametrize("exit_status", [0, 3])
def test_what_nccl_complained_of_is_told_though_the_point_passed(run, exit_status):
    host = os.uname().nodename
    flapped = f"{host}:1:1 [0] transport/net_ib/common.cc:153 (f) NCCL WARN NET/IB : mlx5_3:1 GID table changed"
    removed = (
        f"{host}:1:1 [0] x.cc:1 NCCL WARN unlink shared memory /dev/shm/nccl-1 failed, error: No such file or directory"
    )
    program = f"""
import sys
print({TABLE.format(host=host)!r} + {flapped!r})
print({removed!r}, file=sys.stderr, flush=True)
sys.exit({exit_status})
"""
    (point,) = finish(run, program)["points"]
    told = [(entry["id"], entry["host"], entry["severity"]) for entry in point["results"][0]["problems"]]
    if exit_status:
        assert point["status"] == "failed" and told == []
        assert [entry["id"] for entry in point["problems"]] == ["rdma-port-flapped"]
    else:
        assert (point["status"], point["problems"], point["results"][0]["verdict"]) == ("finished", [], "pass")
        # As the hostfile calls it.
        assert told == [("rdma-port-flapped", "127.0.0.1", "warning"), ("shm-removed", "127.0.0.1", "warning")]


def test_a_program_that_is_not_there_is_a_point_that_failed(run):
    planned = plan(run, "", "")
    nowhere = [Job(job.point, ("/nosuch",), job.environment, 1) for job in planned.jobs[:1]]
    begin(run, Plan((*nowhere, planned.jobs[1]), {}, planned.hosts, planned.limits, planned.reach))
    Follower(run).until_over()
    assert [point["status"] for point in run.result()["points"]] == ["failed", "finished"]
    assert "mpirun itself could not start: /nosuch: No such file or directory" in run.result()["msg"]


def test_the_same_run_is_followed_and_another_is_refused(run):
    assert begin(run, plan(run, SLEEP)) is False
    runner = run.runner()
    assert begin(run, plan(run, SLEEP)) is True
    with pytest.raises(ProblemError, match="still going on with other points or settings"):
        begin(run, plan(run, "print(1)"))
    assert run.runner() == runner and Follower(run).look().alive


def test_a_run_that_is_over_is_told_of_until_somebody_has_got_it(run):
    planned = plan(run, "print(1)")
    assert begin(run, planned) is False
    Follower(run).until_over()
    assert begin(run, planned, archive=True) is True
    assert os.path.exists(os.path.join(run.run_dir.mpi, "output.tar.gz"))
    Follower(run).until_over().claim()
    # One that has come to its end is run again as a whole.
    assert begin(run, planned) is False
    Follower(run).until_over()
    assert not run.result()["points"][0]["resumed"]


#: Prints a result, and logs as NCCL does where it is told to.
LOGGED = f"""
import os
print({TABLE.format(host=os.uname().nodename)!r}, end="")
if "NCCL_DEBUG_FILE" in os.environ:
    with open(os.environ["NCCL_DEBUG_FILE"], "w") as file:
        file.write("{os.uname().nodename.split(".")[0]}:1:2 [0] NCCL INFO Using network AWS Libfabric\\n")
"""


def test_points_that_are_launched_alike_have_one_log(run, tmp_path):
    wait_for_it = f"import os, time\nwhile not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.05)\n{LOGGED}"
    begin(run, logging_plan(run, LOGGED, wait_for_it, log=logs_of(run, "first")))
    follower = Follower(run)
    wait(lambda: follower.kinds().count("started") == 2)
    assert (logs_of(run, "first") / "1.log").exists()
    # The next runner has not read the log itself.
    os.kill(follower.runner["pid"], signal.SIGKILL)
    wait(lambda: not follower.look().alive)
    (tmp_path / "go").touch()
    begin(run, logging_plan(run, LOGGED, wait_for_it, log=logs_of(run, "second")))
    Follower(run).until_over()
    first, second = run.result()["points"]
    assert (first["resumed"], second["resumed"]) == (True, False) and not logs_of(run, "second").exists()
    for point in (first, second):
        (document,) = point["results"]
        assert document["transport"]["network"] == "AWS Libfabric" and document["transport"]["log"]["files"] == 1


REAL = pathlib.Path(__file__).parents[3] / "fixtures" / "nccl_tests" / "2.19.6-per-iteration"


@pytest.mark.parametrize(
    ("written", "told", "stragglers", "problems"),
    [
        ("program.json", "program.json", [], []),
        # It was there already, so that the program took another name.
        ("program.json.0", "program.json.0", None, []),
        ("program.json", "other.json", None, []),
        (None, "program.json", None, ["json-unread"]),
    ],
)
def test_json_that_a_program_writes_is_read_and_removed(run, written, told, stragglers, problems):
    """It holds the environment of the ranks, secrets included."""
    table = pathlib.Path(f"{REAL}.txt").read_text(encoding="utf-8").replace(" out.json", f" {run.run_dir.mpi}/{told}")
    left = pathlib.Path(run.run_dir.mpi, "program.json.7")
    program = f"print({table!r})\nopen({str(left)!r}, 'w').close()"
    if written:
        program += (
            f"\nopen({str(pathlib.Path(run.run_dir.mpi) / written)!r}, 'w').write(open({f'{REAL}.json'!r}).read())"
        )
    begin(run, plan(run, program, ranks=1))
    Follower(run).until_over()
    (point,) = run.result()["points"]
    (document,) = point["results"]
    assert [entry["id"] for entry in document["problems"]] == problems
    assert document["stragglers"] == stragglers
    assert (document["json_output"] is None) == (told == "program.json")
    assert not list(pathlib.Path(run.run_dir.mpi).glob("program.json*"))


@pytest.mark.parametrize("is_named", [True, False])
def test_json_that_a_user_asked_for_is_read_and_stays(run, tmp_path, is_named):
    """Only a file that the command names: a program may print any path."""
    path = tmp_path / "mine.json"
    path.write_text(pathlib.Path(f"{REAL}.json").read_text(encoding="utf-8"), encoding="utf-8")
    table = pathlib.Path(f"{REAL}.txt").read_text(encoding="utf-8").replace(" out.json", f" {path}")
    wanted = plan(run, f"print({table!r})")
    (job,) = wanted.jobs
    if is_named:
        wanted = dataclasses.replace(wanted, jobs=(dataclasses.replace(job, command=(*job.command, "-J", str(path))),))
    begin(run, wanted)
    Follower(run).until_over()
    (point,) = run.result()["points"]
    (document,) = point["results"]
    assert document["json_output"] == str(path) and path.exists() and document["problems"] == []
    assert document["stragglers"] == ([] if is_named else None)


def test_a_pass_over_the_logs_that_fails_costs_no_result(run, tmp_path, monkeypatch):
    def fail(*_arguments):
        raise ValueError("no number")

    # The runner is a child of this process.
    monkeypatch.setattr(runner, "collect_logs", fail)
    begin(run, logging_plan(run, LOGGED, log=logs_of(run, "first")))
    Follower(run).until_over()
    (point,) = run.result()["points"]
    (document,) = point["results"]
    assert point["status"] == "finished"
    (problem,) = document["problems"]
    assert (problem["id"], problem["evidence"]) == ("nccl-log-unread", "ValueError: no number")


def test_the_log_counts_as_output(run, tmp_path):
    program = "import os, time; open(os.environ['NCCL_DEBUG_FILE'], 'w').write('x' * 1000); time.sleep(600)"
    begin(run, logging_plan(run, program, log=logs_of(run, "first"), output=900))
    Follower(run).until_over()
    (point,) = run.result()["points"]
    assert [problem["id"] for problem in point["problems"]] == ["output-too-long"]


@pytest.mark.parametrize("lost", [False, True])
def test_what_was_cut_off_is_taken_up(run, lost, tmp_path):
    count = tmp_path / "count"
    note = f"open({str(count)!r}, 'a').write('%s')"
    first, second = (
        note % 1,
        f"{note % 2}; import os, time; time.sleep(0 if os.path.exists({str(tmp_path / 'go')!r}) else 600)",
    )
    begin(run, plan(run, first, second, note % 3))
    follower = Follower(run)
    wait(lambda: count.exists() and count.read_text() == "12")
    if lost:
        os.kill(follower.runner["pid"], signal.SIGKILL)
        wait(lambda: not follower.look().alive)
        assert "over" not in follower.kinds()
        # As where it was killed while it wrote.
        with open(os.path.join(run.run_dir.mpi, "events.jsonl"), "a") as file:
            file.write('{"event": "en')
    assert run.has_to_stop()
    stopped = run.stop()
    assert not os.path.exists(os.path.join(run.run_dir.mpi, "polled"))
    assert points_of(run, 2) == set() and not run.has_to_stop() and run.stop() == stopped
    assert [point["status"] for point in stopped["points"]] == ["finished", "stopped", "not_run"]
    problem = stopped["points"][1]["problems"][0]
    assert problem["id"] == ("runner-lost" if lost else "stopped") and problem["cause"] in stopped["msg"]
    assert "1 points were not run" in stopped["msg"]
    assert follower.look().events[-1]["event"] == "over"

    (tmp_path / "go").touch()
    # In another order and with one more.
    assert begin(run, plan(run, note % 4, second, first, note % 3)) is False
    Follower(run).until_over()
    result = run.result()
    assert result["complete"] and [point["resumed"] for point in result["points"]] == [False, False, True, False]
    assert count.read_text() == "12423"
    assert result["points"][2]["stdout_path"].endswith("/points/3/stdout")


def test_what_was_killed_while_it_began_keeps_what_had_finished(run):
    begin(run, plan(run, "print('once')", SLEEP))
    follower = Follower(run)
    wait(lambda: follower.kinds().count("started") == 2)
    run.stop()
    os.unlink(os.path.join(run.run_dir.mpi, "run.json"))
    os.rename(run.run_dir.points, f"{run.run_dir.points}.4711")
    result = finish(run, "print('new')", "print('once')")
    assert [point["resumed"] for point in result["points"]] == [False, True]
    assert os.listdir(run.run_dir.mpi).count("points.4711") == 0


def test_nothing_is_kept_where_that_is_not_wanted(run):
    begin(run, plan(run, "print(1)", SLEEP))
    follower = Follower(run)
    wait(lambda: follower.kinds().count("started") == 2)
    run.stop()
    assert not finish(run, "print(1)", resume=False)["points"][0]["resumed"]


def test_a_run_whose_time_is_over_stops_in_good_order_and_goes_on_later(run):
    programs = ["import time; time.sleep(0.6)", "print(2)", "print(3)"]
    result = finish(run, *programs, total=0.5)
    assert result["limited"] and not result["complete"] and "msg" not in result
    assert [point["status"] for point in result["points"]] == ["finished", "not_run", "not_run"]
    assert result["points"][1]["problems"][0]["id"] == "limit-reached"
    result = finish(run, *programs, total=30)
    assert result["complete"] and [point["resumed"] for point in result["points"]] == [True, False, False]


def test_long_output_is_compressed_and_all_of_it_is_packed(run):
    flood = "import sys; [print('x' * 99) for _ in range(20000)]; print('errors', file=sys.stderr)"
    result = finish(run, flood, "print('short')", archive=True)
    long, short = result["points"]
    assert (
        result["complete"]
        and long["stdout_path"].endswith("/1/stdout.gz")
        and short["stdout_path"].endswith("/2/stdout")
    )
    with gzip.open(long["stdout_path"], "rt") as file:
        assert file.read() == ("x" * 99 + "\n") * 20000
    assert not os.path.exists(long["stdout_path"][:-3])
    with tarfile.open(os.path.join(run.run_dir.mpi, "output.tar.gz")) as archive:
        names = set(archive.getnames())
        assert archive.extractfile("points/2/stdout").read() == b"short\n"
    assert {"points/1/stdout.gz", "points/1/stderr", "points/2/command.json", "points/2/exit.json"} <= names


def test_what_left_its_session_is_ended_too(run, tmp_path):
    go = tmp_path / "go"
    # Silence counts from the start of the last rank, which is not before both processes have been seen.
    program = f"""
import os, subprocess, sys, time
subprocess.Popen(["sleep", "600"], start_new_session=True)
while not os.path.exists({str(go)!r}):
    time.sleep(0.05)
print("gpufabric-rank 1 2 here", file=sys.stderr, flush=True)
time.sleep(600)
"""
    begin(run, plan(run, program, ranks=2, silence=0.5))
    wait(lambda: len(points_of(run)) >= 2)
    go.touch()
    Follower(run).until_over()
    assert run.result()["points"][0]["problems"][0]["id"] == "silence-timeout"
    assert points_of(run) == set()


def test_no_end_is_waited_for_of_what_goes_on_printing(run, tmp_path, monkeypatch):
    """Each block that is read has been followed by another."""
    output = {"stdout_path": str(tmp_path / "stdout"), "stderr_path": str(tmp_path / "stderr")}
    for path in output.values():
        pathlib.Path(path).write_bytes(b"[ {")
    blocks = []

    def feed(_marks, block):
        blocks.append(block)
        assert len(blocks) < 9, "it does not end"
        with open(output["stderr_path"], "ab") as file:
            file.write(b"x" * len(block))

    monkeypatch.setattr(runner.Marks, "feed", feed)
    watch = runner._Watch(run, 1, plan(run, "").jobs[0], output)
    assert watch.drain() is True
    assert watch.taken() == {output["stdout_path"]: 3, output["stderr_path"]: 3}
    with open(output["stdout_path"], "ab") as file:
        file.write(b"x" * 5)
    watch.drain()
    watch.finish(None)
    assert watch.taken() == {output["stdout_path"]: 8, output["stderr_path"]: 6}


@pytest.mark.parametrize("environment", [None, {}], ids=["marked", "hidden"])
def test_a_child_that_goes_on_printing_does_not_hold_the_run_up(run, tmp_path, environment):
    child = "import os\nwhile True: os.write(1, b'y' * 99); os.write(2, b'y' * 99)"
    program = f"""
import subprocess, sys
print({TABLE.format(host=os.uname().nodename)!r}, flush=True)
child = subprocess.Popen([sys.executable, "-c", {child!r}], start_new_session=True, env={environment!r})
open({str(tmp_path / "pid")!r}, "w").write(str(child.pid))
"""
    try:
        points = finish(run, program, "print(1)")["points"]
        assert [point["status"] for point in points] == ["finished", "finished"], points
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_a_child_that_was_seen_to_go_on_printing_is_ended(run, monkeypatch):
    drain = runner._Watch.drain
    monkeypatch.setattr(runner._Watch, "drain", lambda watch: drain(watch) or True)
    program = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session=True)"
    result = finish(run, program)
    assert points_of(run) == set()
    assert result["points"][0]["status"] == "finished", result


def test_an_mpirun_that_cannot_be_ended_does_not_hold_the_run_up(run, monkeypatch):
    """One that is held in the kernel stays after KILL."""
    monkeypatch.setattr(runner, "_LAST_WAIT", 0.1)
    with monkeypatch.context() as patch:
        patch.setattr(Run, "end_here", lambda *_pid: [Reaped("h", error="processes that do not end: 7")])
        begin(run, plan(run, SLEEP, timeout=0.1))
        Follower(run).until_over()
        (point,) = run.result()["points"]
    assert [found["id"] for found in point["problems"]][-1] == "processes-left", point


def test_a_runner_that_fails_leaves_its_reason(run):
    planned = plan(run, "print(1)")
    bad = Job(planned.jobs[0].point, planned.jobs[0].command, {"A": None}, 1)
    begin(run, Plan((bad,), {}, planned.hosts, planned.limits, planned.reach))
    follower = Follower(run)
    wait(lambda: not follower.look().alive)
    (point,) = run.stop()["points"]
    assert point["status"] == "stopped" and "TypeError" in point["problems"][0]["cause"]


def test_a_launch_finds_its_daemons_and_keeps_its_files_in_the_run(run):
    found = launch_environment(run.run_dir, 2, {"SSH_CONNECTION": "1 2 3 4", "TMPDIR": "/tmp", "A": "1"})
    assert found == {
        "A": "1",
        "TMPDIR": run.run_dir.tmp,
        "GPUFABRIC_RUN_ID": run.run_dir.run_id,
        "GPUFABRIC_RUN_DIR": run.run_dir.path,
        "OMPI_MCA_gpufabric_point": f"{run.run_dir.run_id}/2",
        "PRTE_MCA_gpufabric_point": f"{run.run_dir.run_id}/2",
    }
