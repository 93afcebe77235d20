# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import math
import pathlib

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.hostfile import Host
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.points import (
    Job,
    Limits,
    Plan,
    assemble,
    explain,
    keep,
    overdue_problem,
    parse_files,
    parse_points,
    said_in,
    telling_lines,
    unfinished_problem,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.reaper import Reach


@pytest.mark.parametrize(
    ("points", "timeout", "ranks", "option"),
    [
        ([], 10, None, "points"),
        ([{"argv": []}], 10, None, r"points\[0\].argv"),
        ([{"argv": ["x"], "timeout": 0}], 10, None, r"points\[0\].timeout"),
        ([{"argv": ["x"], "timeout": math.nan}], 10, None, r"points\[0\].timeout"),
        ([{"argv": ["x", "a\0"]}], 10, None, r"points\[0\].argv"),
        ([{"argv": ["\ud800"]}], 10, None, r"points\[0\].argv"),
        ([{"argv": ["x"], "env": {"A": "\ud800"}}], 10, None, r"points\[0\].env"),
        ([{"argv": ["x"]}], math.nan, None, "timeout"),
        ([{"argv": ["x"], "env": {"A B": 1}}], 10, None, r"points\[0\].env"),
        ([{"argv": ["x"], "env": {"A": "1\n2"}}], 10, None, r"points\[0\].env"),
        ([{"argv": ["x"], "env": {"A B": None}}], 10, None, r"points\[0\].env"),
        ([{"argv": ["x"], "ranks_per_node": 0}], 10, None, r"points\[0\].ranks_per_node"),
        ([{"argv": ["x"], "id": "a"}, {"argv": ["y"], "id": "a"}], 10, None, r"points\[1\].id"),
        ([{"argv": ["x"]}], 0, None, "timeout"),
        ([{"argv": ["x"]}], 10, 0, "ranks_per_node"),
    ],
)
def test_parse_points_refuses(points, timeout, ranks, option):
    with pytest.raises(OptionError, match=f"^{option}: "):
        parse_points(points, timeout, ranks)


def test_parse_points_fills_in():
    (point,) = parse_points([{"argv": ["/opt/x/all_reduce_perf"], "env": {"A": 1, "B": None}}], 10, 8)
    assert (point.id, point.name, point.env) == ("all_reduce_perf", "all_reduce_perf", {"A": "1"})
    assert point.unset == ("B",)
    assert (point.timeout, point.ranks_per_node) == (10, 8)
    points = [{"argv": ["x"]}, {"argv": ["x"], "ranks_per_node": 2, "timeout": 5}, {"name": "y", "argv": ["x"]}]
    found = parse_points(points, 10, 8)
    assert [point.id for point in found] == ["x-1", "x-2", "y"]
    assert (found[1].timeout, found[1].ranks_per_node) == (5, 2)


@pytest.mark.parametrize(
    ("values", "option"),
    [
        ({"startup": -1}, "startup_timeout"),
        ({"silence": -1}, "silence_timeout"),
        ({"orphan": -1}, "orphan_timeout"),
        ({"total": 0}, "time_limit"),
        ({"silence": math.nan}, "silence_timeout"),
        ({"total": math.nan}, "time_limit"),
    ],
)
def test_limits_refuse(values, option):
    with pytest.raises(OptionError, match=f"^{option}: "):
        Limits(**values)


def plan(*points, **values):
    """A plan of points with these settings, each handed on by mpirun."""
    parsed = parse_points(points, 30)
    jobs = [
        Job(
            point,
            ("mpirun", "-x", "GPUFABRIC_POINT", "-x", "X", *point.argv),
            {"GPUFABRIC_POINT": str(number), "HOME": "/root", **point.env},
            4,
        )
        for number, point in enumerate(parsed)
    ]
    given = {
        "jobs": tuple(jobs),
        "files": {},
        "hosts": (Host("a", 2), Host("b", 2)),
        "limits": Limits(),
        "reach": Reach((), (), {}),
    }
    return Plan(**{**given, **values})


A, B = {"argv": ["a"], "env": {"X": "1"}}, {"argv": ["b"]}


def test_a_point_is_known_by_what_it_does():
    (one, two), (reordered,) = plan(A, B).fingerprints(), plan({**A, "id": "other", "timeout": 5}).fingerprints()
    # Neither its number nor its name nor its time-out, nor the login's environment.
    assert one == reordered != two
    job = plan(A).jobs[0]
    different = [
        plan({**A, "env": {"X": "2"}}),
        plan(A, hosts=(Host("a", 2),)),
        plan(A, files={"f": "x"}),
        plan(A, jobs=(dataclasses.replace(job, ranks=2),)),
        plan(A, jobs=(dataclasses.replace(job, command=("/opt/mpirun", *job.command[1:])),)),
    ]
    assert len({one, *(other.fingerprints()[0] for other in different)}) == 6
    same = dataclasses.replace(job, environment={**job.environment, "SSH_CLIENT": "1.2.3.4", "GPUFABRIC_POINT": "7"})
    assert plan(A, jobs=(same,)).fingerprints() == [one]


def test_a_run_is_known_by_all_its_points_and_when_it_gives_up():
    same = [plan(A, B), plan(A, B, limits=Limits(orphan=5, total=6)), plan(A, B, reach=Reach(("a",), (), {}))]
    assert len({other.fingerprint() for other in same}) == 1
    different = [
        plan(B, A),
        plan(A),
        plan({**A, "timeout": 31}, B),
        plan({**A, "name": "n"}, B),
        plan(A, B, limits=Limits(startup=5)),
        plan(A, B, limits=Limits(silence=5)),
        plan(A, B, limits=Limits(output=5)),
    ]
    assert len({other.fingerprint() for other in [*same, *different]}) == 8


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        ([("a", "1"), ("b", "2")], {1: "x", 2: "y"}),
        ([("b", "2"), ("new", "9"), ("a", "1")], {1: "y", 3: "x"}),
        # Settings that were changed, and a name that was.
        ([("a", "9"), ("other", "2")], {2: "y"}),
        # Repeats: each once, by its own id where it has one.
        ([("n", "3"), ("c-2", "3"), ("m", "3")], {1: "z", 2: "w"}),
        ([("c-2", "3"), ("n", "3"), ("m", "3"), ("o", "3")], {1: "w", 2: "z"}),
    ],
)
def test_what_has_finished_is_kept(wanted, kept):
    found = {"x": ("a", "1"), "y": ("b", "2"), "z": ("c-1", "3"), "w": ("c-2", "3")}
    assert keep(wanted, found) == kept


@pytest.mark.parametrize(
    ("kind", "problem", "cause"),
    [
        ("startup", "startup-timeout", "Only 2 of 4 ranks had started after 20 s: none on b."),
        ("silence", "silence-timeout", "The program printed nothing for 20 s and was ended."),
        ("point", "timeout", "The program did not end within 20 s and was ended; no rank had started on b."),
    ],
)
def test_overdue_points_say_so(kind, problem, cause):
    found = overdue_problem(kind, 20.0, 4, 2, ["b"])
    assert (found.id, found.cause) == (problem, cause) and found.cure


def test_the_last_rank_that_starts_while_a_point_is_ended_is_not_counted():
    found = overdue_problem("startup", 20.0, 4, 4, [])
    assert found.cause == "Not all ranks had started in time."


def test_unfinished_points_say_why():
    reasons = ["stopped", "orphaned", "limited", "lost"]
    assert [unfinished_problem(reason, None, ["a", "MemoryError"], 5).id for reason in reasons] == [
        *("stopped", "orphaned", "limit-reached", "runner-lost"),
    ]
    assert unfinished_problem("lost", None, ["a", "MemoryError"]).cause.endswith("is gone: MemoryError.")
    later = unfinished_problem("stopped", "point 2")
    assert later.id == "not-run" and "ended at point 2" in later.cause


def outcome(name, status="failed", **more):
    values = {"status": status, "exit_status": 255, "problems": [], "said": [], "stdout_path": "/run/1/stdout"}
    return {"name": name, **values, **more}


def test_explain_quotes_what_they_said():
    points = [
        outcome("a", said=["x", "the last"]),
        outcome("b", "timeout", exit_status=None, problems=[{"host": "g2", "cause": "It was slow.", "cure": "Wait."}]),
        outcome("c", "not_run"),
    ]
    assert explain(points, 5) == (
        "3 of 5 points did not finish: a ended with exit status 255 (see /run/1 on this node):\nx\nthe last\n"
        "b: g2: It was slow. Wait. (see /run/1 on this node) and printed nothing\n1 points were not run"
    )
    many = explain([outcome(str(number)) for number in range(100)], 100)
    assert many.count("exit status") == 10 and many.endswith("90 more points failed")


def test_assemble():
    points = [{"name": "a", "status": "started"}, {"name": "b", "status": "started"}]
    both = {1: {"status": "finished", "stdout_path": "1/stdout"}, 2: {"status": "finished"}}
    over = {"reason": "ended", "msg": "", "reaped": [], "paths": {"1": {"stdout_path": "1/stdout.gz"}}}
    found = assemble(points, both, over)
    assert found["complete"] and not found["limited"] and "msg" not in found
    assert found["points"][0] == {"name": "a", "status": "finished", "stdout_path": "1/stdout.gz"}
    limited = assemble(points, {1: both[1]}, {"reason": "limited"})
    assert limited["limited"] and not limited["complete"] and "msg" not in limited
    assert assemble(points, {}, {"msg": "why"})["msg"] == "why"


def test_what_a_point_said_is_the_end_of_its_errors_without_marks(tmp_path):
    output = {"stdout_path": str(tmp_path / "stdout"), "stderr_path": str(tmp_path / "stderr")}
    assert said_in(output) == []
    (tmp_path / "stdout").write_text("printed\n")
    (tmp_path / "stderr").write_text("gpufabric-rank 0 1 g1 \n")
    assert said_in(output) == ["printed"]
    (tmp_path / "stderr").write_text("first\n\n" + "x\n" * 100000 + "gpufabric-rank 0 1 g1 \nthe last\n")
    assert said_in(output) == ["x"] * 19 + ["the last"]
    # What a program printed must not control the terminal of who reads the message.
    pathlib.Path(output["stderr_path"]).write_bytes(b"\x1b]0;title\x07 \xff\x00 ended\n")
    assert said_in(output) == ["\ufffd]0;title\ufffd \ufffd\ufffd ended"]


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
