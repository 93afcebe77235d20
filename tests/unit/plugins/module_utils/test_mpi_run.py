# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
import uuid

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._hostfile import Host
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi_run import (
    Job,
    Look,
    Progress,
    Run,
    events,
    explain,
    fingerprint,
    look_command,
    parse_files,
    parse_look,
    parse_points,
    poll_interval,
    telling_lines,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import read_processes, stamped
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir


@pytest.mark.parametrize(
    ("points", "timeout", "option"),
    [
        ([], 10, "points"),
        ([{"argv": []}], 10, r"points\[0\].argv"),
        ([{"argv": ["x"], "timeout": 0}], 10, r"points\[0\].timeout"),
        ([{"argv": ["x"], "env": {"A B": 1}}], 10, r"points\[0\].env"),
        ([{"argv": ["x"], "env": {"A": "1\n2"}}], 10, r"points\[0\].env"),
        ([{"argv": ["x"]}], 0, "timeout"),
    ],
)
def test_parse_points_refuses(points, timeout, option):
    with pytest.raises(OptionError, match=f"^{option}: "):
        parse_points(points, timeout)


def test_parse_points_fills_in():
    (point,) = parse_points([{"argv": ["/opt/x/all_reduce_perf"], "env": {"A": 1}}], 10)
    assert (point.name, point.env, point.timeout) == ("all_reduce_perf", {"A": "1"}, 10)


STAT = "42 (python3) {} 1 42 42 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 777 0"
PROGRESS = Progress(plan="x", pid=42, start=777, total=3)


@pytest.mark.parametrize(
    ("stat", "alive"),
    [
        (STAT.format("S"), True),
        (STAT.format("Z"), False),
        (STAT.format("S").replace("777", "778"), False),
        (None, False),
    ],
)
def test_a_runner_is_alive_where_it_is_the_same_process_and_has_not_ended(stat, alive):
    assert PROGRESS.is_alive(stat) is alive


def answer(*lines):
    return "\r\n".join(["a banner", "gpufabric.nccl", *lines, "gpufabric.nccl", ""])


def test_parse_look():
    progress = dataclasses.replace(PROGRESS, ended=(("finished", 1.5),))
    text = json.dumps(dataclasses.asdict(progress))
    assert parse_look(answer(STAT.format("S"), text)) == Look(progress, True, None)
    # It has just ended, or died.
    assert parse_look(answer(text)) == Look(progress, False, None)
    over = dataclasses.replace(progress, over=True)
    text = json.dumps(dataclasses.asdict(over))
    assert parse_look(answer(text, '{"points": []}')) == Look(over, False, {"points": []})
    assert parse_look(answer()) == Look(None)


@pytest.mark.parametrize("text", ["", "no such pod", answer("{}").rsplit("gpufabric", 1)[0]])
def test_parse_look_takes_no_part_of_an_answer(text):
    assert parse_look(text) is None


def test_poll_interval_grows_with_the_run():
    times = [0.0]
    while times[-1] < 3600:
        times.append(times[-1] + poll_interval(times[-1]))
    assert times[1] < 0.2
    assert sum(moment < 20 for moment in times) < 25
    assert len(times) < 300 and max(b - a for a, b in zip(times, times[1:])) == pytest.approx(15)


def test_events_only_grow():
    names = ["a", "b", "c"]
    steps = [
        (),
        (("finished", 1),),
        (("finished", 1), ("timeout", 2)),
        (("finished", 1), ("timeout", 2), ("failed", 3)),
    ]
    told = [events(names, dataclasses.replace(PROGRESS, ended=ended)) for ended in steps]
    for before, after in zip(told, told[1:]):
        assert after[: len(before)] == before
    assert told[0] == ["point 1 of 3, a: started"]
    assert told[-1] == [
        "point 1 of 3, a: started",
        "point 1 of 3, a: finished after 1.0 s",
        "point 2 of 3, b: started",
        "point 2 of 3, b: timed out after 2.0 s",
        "point 3 of 3, c: started",
        "point 3 of 3, c: failed after 3.0 s",
    ]
    stopped = dataclasses.replace(PROGRESS, ended=steps[1], over=True)
    assert len(events(names, stopped)) == 2


def jobs(*programs, timeout=30, **environment):
    """Points that run Python programs, without mpirun."""
    argvs = [[sys.executable, "-c", program] for program in programs]
    points = parse_points([{"argv": argv} for argv in argvs], timeout)
    return [Job(point, point.argv, {**os.environ, **environment}) for point in points]


HOSTS = [Host("a", 1)]


def test_fingerprint_is_of_what_is_run_and_not_of_the_login():
    job = jobs("x", NCCL_X="1")[0]
    job = dataclasses.replace(job, command=("mpirun", "-x", "NCCL_X"))
    same = dataclasses.replace(job, environment={**job.environment, "SSH_CLIENT": "1.2.3.4"})
    assert fingerprint([job], {}, HOSTS) == fingerprint([same], {}, HOSTS)
    other = dataclasses.replace(job, environment={**job.environment, "NCCL_X": "2"})
    longer = dataclasses.replace(job, point=dataclasses.replace(job.point, timeout=31))
    different = [
        ([other], {}, HOSTS),
        ([longer], {}, HOSTS),
        ([job, job], {}, HOSTS),
        ([job], {"f": "x"}, HOSTS),
        ([job], {}, [Host("a", 2)]),
    ]
    assert len({fingerprint(*values) for values in [([job], {}, HOSTS), *different]}) == 6


@pytest.fixture
def run(tmp_path):
    run = Run(RunDir(f"unit-{uuid.uuid4().hex}", str(tmp_path / "run")))
    yield run
    run.remove()


def marked(run, program):
    """A point whose process carries the mark, as mpirun does."""
    return jobs(program, GPUFABRIC_POINT=run.stamp(1))


def wait(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("program", "timeout", "status", "exit_status"),
    [
        ("print('x')", 30, "finished", 0),
        ("raise SystemExit(7)", 30, "failed", 7),
        ("import time; time.sleep(60)", 0.3, "timeout", None),
    ],
)
def test_a_point_runs_to_its_end_or_its_time_out(run, program, timeout, status, exit_status):
    (job,) = jobs(program, timeout=timeout)
    run.prepare([job], {"script": "text"})
    with open(os.path.join(run.run_dir.files, "script")) as file:
        assert file.read() == "text"
    outcome = run.run_point(1, job)
    assert (outcome["status"], outcome["exit_status"]) == (status, exit_status)


def look(run):
    shell = look_command(**{**run.runner(), "pid": run.runner()["pid"] or 0})
    return parse_look(subprocess.run(["sh", "-c", shell], stdout=subprocess.PIPE, text=True, check=True).stdout)


def test_a_run_goes_by_itself(run):
    assert run.start(jobs("print(1)", "raise SystemExit(3)"), {}, HOSTS, 1, claim=True) is False
    assert os.getsid(run.runner()["pid"]) != os.getsid(0)
    wait(lambda: look(run).outcome)
    outcome = look(run).outcome
    assert [point["status"] for point in outcome["points"]] == ["finished", "failed"]
    assert outcome["complete"] is False and "exit status 3" in outcome["msg"]
    run.remove()
    assert not os.path.exists(run.run_dir.path)


def test_the_same_run_is_followed_and_another_is_refused(run):
    same = marked(run, "import time; time.sleep(60)")
    assert run.start(same, {}, HOSTS, 1, claim=True) is False
    runner = run.runner()
    assert run.start(same, {}, HOSTS, 1, claim=True) is True
    with pytest.raises(NodeError, match="still going on with other points or settings"):
        run.start(jobs("print(1)"), {}, HOSTS, 1, claim=True)
    assert run.runner() == runner and look(run).alive


def test_a_run_that_is_over_is_run_again_unless_nobody_has_asked_yet(run):
    def start(claim):
        followed = run.start(jobs("print(1)"), {}, HOSTS, 1, claim)
        wait(lambda: look(run).outcome)
        return followed

    assert [start(claim) for claim in (True, True, False, True, True)] == [False, False, False, True, False]


@pytest.mark.parametrize("lost", [False, True])
def test_stop_ends_all_and_says_what_came_of_it(run, lost):
    sleep = "import time; time.sleep(60)"
    three = [*jobs("print(1)"), *marked(run, sleep), *jobs("print(3)")]
    run.start(three, {}, HOSTS, 1, claim=True)
    wait(lambda: look(run).progress.ended)
    wait(lambda: stamped(read_processes(), "GPUFABRIC_POINT", run.stamp(1)))
    if lost:
        os.kill(run.runner()["pid"], signal.SIGKILL)
        wait(lambda: not look(run).alive)
        assert look(run).outcome is None
    assert run.has_to_stop()
    outcome = run.stop()
    assert [point["status"] for point in outcome["points"]] == ["finished", "stopped", "not_run"]
    problem = outcome["points"][1]["problems"][0]
    assert problem["id"] == ("runner-lost" if lost else "stopped") and problem["cause"] in outcome["msg"]
    assert "1 points were not run" in outcome["msg"]
    assert look(run) == Look(dataclasses.replace(look(run).progress, over=True), False, outcome)
    assert stamped(read_processes(), "GPUFABRIC_POINT", run.stamp(1)) == set()
    assert not run.has_to_stop() and run.stop() == outcome


def test_a_runner_that_fails_leaves_its_reason(run):
    bad = [dataclasses.replace(job, environment={"A": None}) for job in jobs("print(1)")]
    run.start(bad, {}, HOSTS, 1, claim=True)
    wait(lambda: not look(run).alive)
    (point,) = run.stop()["points"]
    assert point["status"] == "stopped" and "TypeError" in point["problems"][0]["cause"]


def test_a_program_that_is_not_there_fails_the_run(run):
    run.start([dataclasses.replace(job, command=("/nosuch",)) for job in jobs("")], {}, HOSTS, 1, claim=True)
    wait(lambda: look(run).outcome)
    assert look(run).outcome == {"msg": "cannot run /nosuch: No such file or directory"}


def test_explain_quotes_the_end_of_the_errors(tmp_path):
    (tmp_path / "stderr").write_text("first\n\n" + "x\n" * 30 + "the last\n")
    outcome = {
        "name": "all_reduce",
        "status": "failed",
        "exit_status": 255,
        "duration": 1,
        "problems": [],
        "stdout_path": str(tmp_path / "stdout"),
        "stderr_path": str(tmp_path / "stderr"),
    }
    text = explain([outcome], 3)
    assert text.startswith("1 of 3 points did not finish: all_reduce ended with exit status 255")
    assert "the last" in text and "first" not in text


def test_telling_lines_leave_blank_ones_out():
    assert telling_lines("a\n\nb\n \nc\n", 2) == ["b", "c"]


def test_telling_lines_come_before_what_open_mpi_frames():
    frame = "-" * 74
    text = f"ssh: refused\n{frame}\nadvice 1\n\nadvice 2\n{frame}\n{frame}\nadvice 3\n{frame}\n[g1] the end\n"
    assert telling_lines(text, 3) == ["ssh: refused", "[g1] the end", "advice 1"]
    assert telling_lines(text, 1) == ["[g1] the end"]
    assert telling_lines(f"{frame}\nno such program\n{frame}\n") == ["no such program"]


@pytest.mark.parametrize("files", [{"../x": ""}, {".hidden": ""}, {"a/b": ""}, {"a": 1}])
def test_parse_files_refuses(files):
    with pytest.raises(OptionError, match="^files: "):
        parse_files(files)
