# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import os
import pathlib

import jinja2
import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.plugins.connection.local import Connection
from ansible.template import Templar
from ansible_collections.gpufabric.nccl.plugins.action import nccl_tests_build
from ansible_collections.gpufabric.nccl.plugins.action.nccl_tests_build import read_archive
from ansible_collections.gpufabric.nccl.plugins.action.nccl_tests_step import ActionModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError

LOOK = {
    "node": {"vendor": "nvidia", "architectures": ["9.0"], "digest": None, "reason": "", "elsewhere": None},
    "missing": [],
}


def large(directory):
    """A file of more bytes than an archive may have, none of which is on the disk."""
    with open(directory / "large", "wb") as file:
        file.truncate((16 << 20) + 1)
    return str(directory / "large")


def test_an_archive_on_the_controller(tmp_path):
    path = tmp_path / "a.tar.gz"
    path.write_bytes(b"\0\xff")
    assert base64.b64decode(read_archive(str(path))) == b"\0\xff"
    for wrong in ("/nosuch.tar.gz", str(tmp_path)):
        with pytest.raises(OptionError, match="archive: .* is not allowed; allowed: an archive on the controller"):
            read_archive(wrong)
    with pytest.raises(OptionError, match="an archive of nccl-tests of at most 16 MiB"):
        read_archive(large(tmp_path))
    # Reading of these would not end.
    os.mkfifo(tmp_path / "pipe")
    for endless in (str(tmp_path / "pipe"), "/dev/zero"):
        with pytest.raises(OptionError, match="a pipe or a device"):
            read_archive(endless)


def test_steps(planned):
    plan = planned(ActionModule, "nccl_tests", {"step": "plan", "looks": {"a": LOOK, "b": LOOK}})
    assert plan["builders"] == ["a"] and plan["architectures"] == ["9.0"] and plan["changed"] is False
    each = planned(ActionModule, "nccl_tests", {"step": "plan", "looks": {"a": LOOK}}, nccl_tests_spread="false")
    assert each["note"] == "nccl-tests is built on each of 1 workers."
    step = {"step": "lacking", "looks": {"a": LOOK, "b": LOOK}, "builder": "a", "built": {"digest": "0" * 16}}
    assert planned(ActionModule, "nccl_tests", step)["lacking"] == ["b"]
    wrong = planned(ActionModule, "nccl_tests", {"step": "plan", "looks": {"a": LOOK}}, nccl_tests_programs=["-j"])
    assert wrong["failed"] and "programs: '-j' is not allowed" in wrong["msg"]


class Clock:
    """Time that only goes on by pauses, and by what a module takes."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def build(monkeypatch):
    """Runs the action over a module that gives one answer after the other, each after so many seconds."""
    clock = Clock()
    monkeypatch.setattr(nccl_tests_build, "time", clock)

    def run(answers, seconds=0.0, **arguments):
        calls = []

        def execute(_self, module_args, **_keywords):
            calls.append((clock.now, module_args))
            clock.now += seconds
            return dict(next(answers))

        monkeypatch.setattr(nccl_tests_build.ActionModule, "_execute_module", execute)
        task, loader, context = Task(), DataLoader(), PlayContext()
        task.args = arguments
        action = nccl_tests_build.ActionModule(task, Connection(context), context, loader, Templar(loader), None)
        return action.run(task_vars={"inventory_hostname": "g1"}), calls

    return run


def running(*done):
    return {"changed": True, "running": {"done": list(done), "line": "Compiling"}}


def test_a_build_is_followed_to_its_end(build):
    end = {"changed": True, "digest": "0", "invocation": {"module_args": {"content": "the archive"}}}
    result, calls = build(iter([running(), running("all_reduce_perf"), end]))
    assert result == {"changed": True, "digest": "0"}
    assert [arguments.get("follow") for _now, arguments in calls] == [None, [], ["all_reduce_perf"]]
    # A node that answers at once is not asked without a pause.
    times = [now for now, _arguments in calls]
    assert [after - before for before, after in zip(times, times[1:])] == [1.0, 1.0]
    _result, slow = build(iter([running(), running(), {"changed": True}]), seconds=20.0)
    assert slow[2][0] - slow[1][0] == 20.0


@pytest.mark.parametrize("seconds", [0.0, 20.0])
def test_a_build_that_never_ends_is_a_problem(build, seconds):
    result, calls = build(iter(running, None), seconds=seconds, timeout=100)
    assert result["failed"] and [problem["id"] for problem in result["problems"]] == ["build-failed"]
    assert result["problems"][0]["host"] == "g1" and "not finished after 1360 s" in result["problems"][0]["evidence"]
    assert calls[-1][0] <= 1400


@pytest.mark.parametrize("archive", [["a.tar.gz"], "a\0.tar.gz"])
def test_an_archive_that_is_no_path_does_not_reach_the_node(build, archive):
    result, calls = build(iter([]), archive=archive)
    assert result["failed"] and "archive: " in result["msg"] and "is not allowed; allowed: a text" in result["msg"]
    assert not calls


def test_no_number_of_jobs_is_left_out_but_a_blank(build):
    for given, expected in (({}, None), ({"jobs": " "}, None), ({"jobs": 0}, 0), ({"jobs": "0"}, 0)):
        _result, calls = build(iter([{"changed": False}]), **given)
        assert calls[0][1].get("jobs") == expected
    bring = yaml.safe_load((pathlib.Path(__file__).parents[4] / "roles/nccl_tests/tasks/bring.yml").read_text())
    (task,) = (task["gpufabric.nccl.nccl_tests_build"] for task in bring if "gpufabric.nccl.nccl_tests_build" in task)
    assert jinja2.Template(task["jobs"]).render(nccl_tests_jobs=0, omit="omitted") == "0"


def test_an_address_with_a_password_does_not_reach_the_node(build):
    result, calls = build(iter([]), git_url="https://user:s3cret@host/x", git_ref="main")
    assert result["failed"] and "git_url: 'https://***@host/x' is not allowed" in result["msg"] and not calls
    assert "s3cret" not in str(result)


def test_the_run_that_connects_the_workers_is_removed_whatever_fails():
    """Until then no task ends the play."""
    tasks = pathlib.Path(__file__).parents[4] / "roles/nccl_tests/tasks"
    connect, send, end, stop = yaml.safe_load((tasks / "spread.yml").read_text())[1]["block"]
    assert connect["ansible.builtin.include_role"]["tasks_from"] == "connect_some"
    assert "gpufabric.nccl.nccl_tests_spread" in send and "gpufabric.nccl.run_cleanup" in end
    assert all(task["ignore_errors"] and task["ignore_unreachable"] for task in (send, end))
    assert "gpufabric.nccl.fail_with_problems" in stop and "gpufabric_lost" in stop["when"]
    teardown = yaml.safe_load((tasks / "teardown.yml").read_text())
    roles = [task for task in teardown if "ansible.builtin.include_role" in task]
    assert [role["vars"] for role in roles] == [{"gpufabric_run_id": "{{ nccl_tests_run_id }}"}]
    assert roles[0]["ansible.builtin.include_role"]["tasks_from"] == "teardown"
