# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import gzip
import json
import os
import shlex
import signal
import subprocess
import time
import types

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.gpufabric.nccl.plugins.action import mpi_run
from ansible_collections.gpufabric.nccl.plugins.action.mpi_run import (
    ActionModule,
    _at_most,
    _TookTooLong,
    _without_launcher,
    hidden_points,
    told_invocation,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.progress import Look
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._hiding import HIDDEN, LONGEST


def test_what_hangs_is_ended_with_all_that_it_started():
    before = signal.getsignal(signal.SIGUSR1)
    process = subprocess.Popen(["sleep", "60"])
    with pytest.raises(_TookTooLong, match=r"no answer within 0.2 s"), _at_most(0.2):
        process.wait()
    assert process.wait(10) == -signal.SIGKILL
    assert signal.getsignal(signal.SIGUSR1) == before


def test_what_ends_in_time_is_left_alone():
    with _at_most(60):
        done = subprocess.run(["true"], check=False)
    assert done.returncode == 0


class Removed:
    """Does something while Python removes it, of which Python passes over what is raised."""

    def __init__(self, act):
        self.act = act

    def __del__(self):
        self.act()
        time.sleep(0.1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_end_of_a_limit_is_told_again_to_who_has_not_heard_it():
    def work():
        Removed(lambda: time.sleep(0.4))
        time.sleep(30)

    with pytest.raises(_TookTooLong), _at_most(0.2):
        work()


def test_a_launcher_that_freezes_before_a_run_begins_is_told_as_unreachable(monkeypatch):
    monkeypatch.setattr(mpi_run, "_LONGEST_MODULE", 0.2)

    def hang(**_arguments):
        subprocess.run(["sleep", "60"], check=False)
        return {}

    made = action(_task_vars={}, _execute_module=hang)
    with pytest.raises(AnsibleConnectionFailure, match=r"no answer within 0.2 s"):
        made._run_module()


def test_what_has_finished_is_known_without_the_launcher():
    points = [{"name": name, "status": "started", "problems": []} for name in "abcd"]
    found = _without_launcher(points, {1: {"status": "finished"}, 2: {"status": "failed"}}, "the launcher is gone")
    assert [point["status"] for point in found["points"]] == ["finished", "failed", "stopped", "not_run"]
    assert found["msg"] == "the launcher is gone" and not found["complete"]
    problem = found["points"][2]["problems"][0]
    assert (problem["id"], problem["cause"]) == (
        "launcher-lost",
        "The launcher no longer answers: the launcher is gone.",
    )


OPTIONS = {"show": "rows", "fetch_limit": "1K", "points": [{"timeout": None}], "timeout": 100.0}
RUNNER = {"pid": 7, "start": 8, "directory": "/run/x/mpi"}


def action(**attributes):
    """An action that follows a run on the launcher g1."""
    made = ActionModule.__new__(ActionModule)
    for name, value in {"_launcher": "g1", "_options": OPTIONS, **attributes}.items():
        setattr(made, name, value)
    return made


def test_arguments_are_told_without_texts_of_files_and_values_that_may_be_secret():
    given = {
        "files": {"cpu_perf.py": "x" * 40000},
        "points": [{"argv": ["a"], "env": {"TOKEN": "s3cr3t", "NCCL_ALGO": "Ring"}}, "junk"],
        "node_env": {"PASSWORD": "s3cr3t"},
        "timeout": 5,
    }
    told = told_invocation({"module_args": given})["module_args"]
    assert told["files"] == {"cpu_perf.py": "(40000 characters)"} and told["timeout"] == 5
    assert told["points"] == "(2 points)" and "s3cr3t" not in str(told) and len(str(told)) < 500
    assert told_invocation({"module_args": ""}) == {"module_args": ""}


def test_many_results_are_shown_to_nobody_and_few_and_reasons_are():
    row = {"size": 8, "out_of_place": {"time_us": 1.5}}
    few, many = ({"points": [{"results": [{"rows": [row] * count}]}]} for count in (14, LONGEST))
    assert (
        hidden_points(many) == hidden_points({**many, "failed": True, "msg": "1 of 1 points did not finish"}) == HIDDEN
    )
    assert hidden_points(few) == hidden_points({"failed": True, "msg": "x" * 2 * LONGEST}) == {}


def test_a_task_that_is_left_of_a_killed_playbook_ends_its_run(monkeypatch):
    begun = {"points": [{"name": "a"}], "notes": [], "followed": False, "runner": RUNNER}
    calls = []
    following = action(
        _task=types.SimpleNamespace(args={}, environment=None),
        _options={**OPTIONS, "run_id": "x"},
        _task_vars={},
        _execute_module=lambda **_keywords: begun,
        _ask_once=lambda *_arguments: calls.append("asked"),
        _stop=lambda: calls.append("stopped"),
        _show=calls.append,
    )
    monkeypatch.setattr(mpi_run.multiprocessing, "parent_process", lambda: types.SimpleNamespace(pid=os.getppid() + 1))
    with pytest.raises(KeyboardInterrupt):
        following._start(waits=True)
    assert calls == ["interrupted, the run is being ended", "stopped"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_at_any_moment_ends_the_run(number):
    begun = {"points": [{"name": "a"}], "notes": [], "followed": False, "runner": RUNNER}
    calls = []

    def start(**_keywords):
        Removed(lambda: os.kill(os.getpid(), number))
        return begun

    def look(*_arguments):
        pytest.fail("the run is followed")

    following = action(
        _task=types.SimpleNamespace(args={}, environment=None),
        _options={**OPTIONS, "run_id": "x"},
        _task_vars={},
        _execute_module=start,
        _ask_once=look,
        _stop=lambda: calls.append("stopped"),
        _show=calls.append,
    )
    with pytest.raises(KeyboardInterrupt):
        following._start(waits=True)
    assert calls == ["interrupted, the run is being ended", "stopped"]


@pytest.mark.parametrize(
    "begun",
    [
        {"runner": "{{ 1 }}", "points": []},
        {"runner": {**RUNNER, "pid": "7; id"}, "points": []},
        {"runner": {**RUNNER, "directory": "{{ 1 }}\n"}, "points": []},
        {"runner": RUNNER},
        {"runner": RUNNER, "points": ["text"], "notes": [], "followed": False},
        {"runner": RUNNER, "points": 5, "notes": 5, "followed": True},
        {"runner": RUNNER, "points": [], "notes": [], "followed": True},
    ],
)
def test_a_launcher_that_answers_with_nonsense_is_no_traceback(begun):
    outcome = action()._follow_checked(begun)
    assert outcome["msg"].isprintable() and "g1" in outcome["msg"] and "{{" not in outcome["msg"]
    assert "points" not in begun and "points" not in outcome


@pytest.mark.parametrize("points", [5, {"a": 1}, [1], [{"name": "all_reduce"}], [{"status": ["failed"]}]])
def test_points_without_a_run_are_some_or_the_launcher_is_told(monkeypatch, points):
    monkeypatch.setattr(ActionModule, "_run_module", lambda _self: {"changed": True, "points": points})
    task = types.SimpleNamespace(args={}, environment=[])
    result = action(_options={**OPTIONS, "run_id": "x"}, _task=task)._start(waits=True)
    assert result["failed"] and "g1 returned points" in result["msg"] and "points" not in result


def test_what_is_no_problem_of_a_point_is_left_out(monkeypatch):
    wrong = [5, {"id": 5}, ["x"]]
    monkeypatch.setattr(ActionModule, "_run_module", lambda _self: {"points": [point(problems=wrong)]})
    task = types.SimpleNamespace(args={}, environment=[])
    assert action(_options={**OPTIONS, "run_id": "x"}, _task=task)._start(waits=True)["points"] == [point()]
    ended = {"status": "finished", "duration": 1.0, "resumed": False, "results": [], "problems": wrong}
    over = told(event="over", reason="ended", reaped=[], paths={})
    monkeypatch.setattr(ActionModule, "_finish", lambda _self, result, _directory: result)
    outcome = Launcher(told(event="ended", point=1, outcome=ended) + over).follow(monkeypatch, show="none")
    assert outcome["points"][0]["problems"] == []


@pytest.mark.parametrize("whole", [1025, 1 << 30])
def test_what_is_larger_than_the_limit_is_not_fetched(tmp_path, whole):
    asked = []

    def ask(command, parse):
        asked.append(command)
        return bytes(512), len(asked) * 512 < whole

    fetching = action(_ask=ask, _fetch_limit=1024)
    with pytest.raises(OSError, match="larger than fetch_limit, 1K"):
        fetching._fetch("/run/x/mpi/output.tar.gz", str(tmp_path / "output.tar.gz"))
    assert len(asked) == 3 and list(tmp_path.iterdir()) == []


def test_what_grows_too_much_is_not_kept(tmp_path):
    bomb = gzip.compress(bytes(64 << 20))
    fetching = action(_ask=lambda command, parse: (bomb, False), _fetch_limit=len(bomb))
    with pytest.raises(OSError, match="is too large"):
        fetching._fetch("/run/x/mpi/output.tar.gz", str(tmp_path / "output.tar.gz"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("broken", [b"\xff" * 50, b""], ids=["no blocks", "cut off"])
def test_a_broken_archive_loses_no_result(tmp_path, broken):
    fetching = action(
        _ask=lambda command, parse: (gzip.compress(b"")[:10] + broken, False),
        _ask_once=lambda command, parse: (None, ""),
        _connection=types.SimpleNamespace(_shell=types.SimpleNamespace(quote=shlex.quote)),
        _fetch_limit=1024,
        _options={"fetch_dest": str(tmp_path)},
    )
    result = fetching._finish({"points": []}, "/run/x/mpi")
    assert "the output of the run stays on g1" in result["warnings"][0] and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("status", [1, 255])
def test_why_an_output_cannot_be_fetched_is_one_line_and_so_is_why_a_launcher_is_lost(tmp_path, status):
    """Also where the launcher prints lines such as Ansible's to each call that is to fetch it."""
    forged = "\nPLAY RECAP ****\nok: [g2]"

    def execute(_command):
        if status == 255:
            raise AnsibleConnectionFailure(f"Failed to connect: {forged}")
        return {"rc": 1, "stdout": "", "stderr": f"cat: {forged}"}

    shown = []
    fetching = action(
        _low_level_execute_command=execute,
        _connection=types.SimpleNamespace(_shell=types.SimpleNamespace(quote=shlex.quote)),
        _fetch_limit=1024,
        _grace=0.0,
        _options={"fetch_dest": str(tmp_path)},
        _show=shown.append,
    )
    (warning,) = fetching._finish({"points": []}, "/run/x/mpi")["warnings"]
    assert "stays on g1, in /run/x/mpi: the launcher g1 has not answered" in warning and "RECAP" in warning
    assert warning.isprintable()
    with pytest.raises(mpi_run._LauncherLost) as lost:
        fetching._look("/run/x/mpi", 7, 8, 0)
    assert str(lost.value).isprintable()


def test_output_of_an_earlier_run_is_not_left_for_that_of_one_that_is_lost(monkeypatch, tmp_path):
    archive = tmp_path / "output.tar.gz"
    archive.touch()
    Launcher("").follow(monkeypatch, points=[{"timeout": 1.0}])
    assert archive.exists()
    outcome = Launcher("").follow(monkeypatch, points=[{"timeout": 1.0}], fetch_dest=str(tmp_path))
    assert "g1 is not over" in outcome["msg"] and not archive.exists()


def test_when_a_run_is_over_nobody_seems_to_wait_for_it_any_more(tmp_path):
    """Another controller of the owner, such as the container of the next job, would be refused for a minute."""
    for name in ("polled", "unclaimed", "run.json"):
        (tmp_path / name).touch()
    ending = action(
        _ask_once=lambda command, parse: (subprocess.run(["sh", "-c", command], check=True), ""),
        _connection=types.SimpleNamespace(_shell=types.SimpleNamespace(quote=shlex.quote)),
        _options={"fetch_dest": None},
    )
    ending._finish({"points": []}, str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_texts_of_events_control_no_terminal():
    over = {
        "event": "over",
        "reason": "ended",
        "msg": "\x1b]0;owned\x07\x1b[2Jend\nok: [g2]",
        "reaped": [],
        "paths": {},
    }
    answers = iter([Look(True, events=json.dumps(over) + "\n")])
    following = action(
        _options={**OPTIONS, "show": "none"},
        _ask=lambda command, parse: next(answers),
        _finish=lambda outcome, directory: outcome,
    )
    point = {"name": "a", "status": "started", "problems": []}
    outcome = following._follow_checked({"points": [point], "notes": [], "followed": False, "runner": RUNNER})
    assert "end" in outcome["msg"] and "\x1b" not in outcome["msg"] and "\x07" not in outcome["msg"]
    assert outcome["msg"].splitlines()[1:] == ["  ok: [g2]"]


@pytest.mark.parametrize("is_there", [False, True], ids=["its files are gone", "its process is gone"])
@pytest.mark.parametrize("identity", ["run-taken", "run-in-use"])
def test_who_has_taken_the_run_meanwhile_is_told(identity, is_there):
    taken = {"id": identity, "severity": "error", "host": "pod", "cause": "Is you's.", "cure": "Do.", "evidence": ""}
    begun = {"points": [{"name": "a"}, {"name": "b"}], "notes": [], "followed": False, "runner": RUNNER}
    following = action(
        _options={**OPTIONS, "points": OPTIONS["points"] * 2, "show": "none", "claim": {"owner": "me"}},
        _ask=lambda command, parse: Look(is_there),
        _stop=lambda: {"failed": True, "msg": "no", "problems": [taken]},
    )
    outcome = following._follow_checked(begun)
    assert [point["status"] for point in outcome["points"]] == ["stopped", "not_run"]
    assert outcome["points"][0]["problems"] == [{**taken, "host": "g1"}] and outcome["msg"] == "Is you's."


def test_a_module_that_was_ended_by_who_takes_the_run_is_run_again(monkeypatch):
    taken = {"id": "run-taken", "severity": "error", "host": "g1", "cause": "Is you's.", "cure": "Do.", "evidence": ""}
    junk = {"failed": True, "msg": "No start of json char found", "_ansible_parsed": False}
    answers = iter([junk, junk, {"failed": True, "msg": "no", "problems": [taken], "_ansible_parsed": True}])
    monkeypatch.setattr(mpi_run.time, "sleep", lambda _seconds: None)
    asked = []

    def execute(module_args, **_more):
        asked.append(module_args)
        return next(answers)

    following = action(
        _options={**OPTIONS, "show": "none", "claim": {"owner": "me"}},
        _task=types.SimpleNamespace(args={"run_id": "n", "claim": {"owner": "me"}, "points": []}),
        _task_vars={},
        _ask=lambda command, parse: Look(True),
        _execute_module=execute,
    )
    outcome = following._follow_checked({"points": [point()], "notes": [], "followed": False, "runner": RUNNER})
    assert [item["id"] for item in outcome["points"][0]["problems"]] == ["run-taken"]
    # Without it, the module would end the run of who has taken it.
    assert asked == [{"run_id": "n", "claim": {"owner": "me"}, "state": "stopped"}] * 3


def test_who_does_not_say_who_asks_is_told_that_the_run_is_gone():
    begun = {"points": [{"name": "a"}], "notes": [], "followed": False, "runner": RUNNER}
    following = action(_options={**OPTIONS, "show": "none", "claim": None}, _ask=lambda command, parse: Look(False))
    (problem,) = following._follow_checked(begun)["points"][0]["problems"]
    assert problem["id"] == "launcher-lost" and "is no longer on g1" in problem["cause"]


@pytest.mark.parametrize(
    "said",
    [
        'Error from server (NotFound): pods "g1" not found',
        "error: cannot exec into a container in a completed pod; current phase is Succeeded",
    ],
)
def test_a_launcher_whose_pod_is_over_is_not_waited_for_and_not_to_be_brought_back(said):
    begun = {"points": [point()], "notes": [], "followed": False, "runner": RUNNER}
    options = {**OPTIONS, "show": "none", "claim": None}
    following = action(_options=options, _grace=1.0, _ask_once=lambda command, parse: (None, said), _show=print)
    (problem,) = following._follow_checked(begun)["points"][0]["problems"]
    assert "the launcher g1 is gone" in problem["cause"]
    assert problem["id"] == "launcher-lost" and "kubectl get events" in problem["cure"]
    assert "Bring the launcher back" not in problem["cure"]


def point(**facts):
    """A point of a run that has begun."""
    return {"name": "all_reduce", "ranks": 2, "ranks_per_node": None, "status": "started", "problems": [], **facts}


def told(**event):
    return json.dumps(event) + "\n"


class Launcher:
    """Answers to each poll with the same events, in no time of this machine."""

    def __init__(self, events):
        self.now = 0.0
        self.events = events
        self.shown = []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds

    def look(self, _directory, _pid, _start, _offset):
        self.now += 1.0
        return Look(True, True, self.events)

    def follow(self, monkeypatch, **options):
        monkeypatch.setattr(mpi_run, "time", self)
        following = action(_look=self.look, _options={**OPTIONS, **options}, _show=self.shown.append)
        points = [point() for _point in options.get("points", OPTIONS["points"])]
        return following._follow_checked({"runner": RUNNER, "points": points, "notes": [], "followed": False})


@pytest.mark.parametrize(
    "events", ["", told(event="started", point=1), told(event="rows", point=1, rows=[]) + " " * (1 << 18) + "\n"]
)
def test_a_launcher_that_never_comes_to_an_end_is_left(monkeypatch, events):
    launcher = Launcher(events)
    outcome = launcher.follow(monkeypatch, points=[{"timeout": None}, {"timeout": 50.0}])
    # The time of both points, and what each may take besides.
    assert "g1 is not over after 1350 s" in outcome["msg"] and 1350 < launcher.now < 1400
    assert [point["status"] for point in outcome["points"]] == ["stopped", "not_run"]


def test_events_of_no_point_are_passed_over(monkeypatch):
    ended = {"status": "failed", "duration": 1.0, "resumed": False, "results": [], "problems": [], "exit_status": 1}
    numbers = [0, 2, -1, "1", None, [1], 1.5, 10**30]
    wrong = "".join(
        told(event=kind, point=number, outcome=ended) for kind in ("started", "ended") for number in numbers
    )
    again = told(event="ended", point=1, outcome=ended) * 3
    over = told(event="over", reason="ended", msg="a point failed", reaped=[], paths={})
    launcher = Launcher(wrong + again + over)
    monkeypatch.setattr(ActionModule, "_finish", lambda _self, result, _directory: result)
    outcome = launcher.follow(monkeypatch)
    assert outcome["msg"] == "a point failed" and len(outcome["points"]) == 1
    assert launcher.shown == ["point 1 of 1, all_reduce: failed after 1.0 s: exit status 1"]
