# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import json
import os
import subprocess

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi import progress
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.progress import (
    Journal,
    Look,
    Narrator,
    is_alive,
    labels,
    look_command,
    parse_events,
    parse_look,
    parse_part,
    poll_interval,
    read_command,
    render_time,
)

STAT = "42 (python3) {} 1 42 42 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 777 0"
RUN = '{"pid": 42, "start": 777}'


@pytest.mark.parametrize(
    ("stat", "alive"),
    [
        (STAT.format("S"), True),
        (STAT.format("Z"), False),
        (STAT.format("S").replace("777", "778"), False),
        ("", False),
        (None, False),
    ],
)
def test_a_runner_is_alive_where_it_is_the_same_process_and_has_not_ended(stat, alive):
    assert is_alive(stat, 777) is alive


def answer(*lines):
    return "\r\n".join(["a banner", "gpufabric.nccl", *lines, "gpufabric.nccl", ""])


@pytest.mark.parametrize(
    ("lines", "look"),
    [
        ([STAT.format("S"), RUN, '{"a": 1}', '{"b', ""], Look(True, True, '{"a": 1}\n{"b\n')),
        ([STAT.format("S"), RUN, '{"a": 1}'], Look(True, True, '{"a": 1}')),
        (["", RUN, ""], Look(True, False, "")),
        # Nothing is there, or another run has taken its place.
        (["", "", ""], Look(False)),
        ([STAT.format("S"), RUN.replace("42", "43"), ""], Look(False)),
        # A launcher may answer anything.
        ([STAT.format("S"), "[1]", ""], Look(False)),
        ([STAT.format("S"), "{}", ""], Look(False)),
        ([STAT.format("S"), "[" * 100000, ""], Look(False)),
    ],
)
def test_parse_look(lines, look):
    assert parse_look(answer(*lines), 42, 777) == look


@pytest.mark.parametrize("text", ["", "no such pod", answer("", RUN).rsplit("gpufabric", 1)[0]])
def test_parse_look_takes_no_part_of_an_answer(text):
    assert parse_look(text, 42, 777) is None


def test_only_events_are_events():
    assert parse_events(["7", "null", "[1]", "[" * 100000, '{"a": 1}', '{"b']) == [{"a": 1}]


def shell(command):
    return subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, text=True, check=True).stdout


def test_a_look_brings_what_is_new_and_leaves_a_note(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"pid": os.getpid(), "start": 1}) + "\n")
    (tmp_path / "events.jsonl").write_text('{"a": 1}\n{"b": 2}\n{"c')
    journal = Journal()
    command = look_command(str(tmp_path), os.getpid(), 0)
    assert journal.feed(parse_look(shell(command), os.getpid(), 1).events) == [{"a": 1}, {"b": 2}]
    assert (tmp_path / "polled").exists() and journal.offset == 21
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write('": 3}\n{"d": 4}\n')
    command = look_command(str(tmp_path), os.getpid(), journal.offset)
    assert journal.feed(parse_look(shell(command), os.getpid(), 1).events) == [{"c": 3}, {"d": 4}]
    (tmp_path / "polled").unlink()
    (tmp_path / "run.json").unlink()
    assert parse_look(shell(command), os.getpid(), 1) == Look(False) and not (tmp_path / "polled").exists()


def test_an_event_that_does_not_end_is_given_up(monkeypatch):
    monkeypatch.setattr(progress, "LONGEST_EVENT", 100)
    journal = Journal()
    assert journal.feed('{"a": 1}\n{"b": "' + "x" * 90) == [{"a": 1}]
    assert journal.feed("x" * 20) == [] and journal.offset == 9 + 7 + 90 + 20
    assert journal.feed('x"}\n{"c": 3}\n') == [{"c": 3}]


def test_what_a_killed_runner_wrote_in_part_is_passed_over():
    assert Journal().feed('{"a": 1}\n{"b": \n{"c": 3}\n') == [{"a": 1}, {"c": 3}]


@pytest.mark.parametrize("size", [0, 10, 48 << 16, (48 << 16) + 1])
def test_a_file_comes_in_parts(tmp_path, size):
    content = os.urandom(size)
    (tmp_path / "file").write_bytes(content)
    found, more = b"", True
    while more:
        part, more = parse_part(shell(read_command(str(tmp_path / "file"), len(found))))
        found += part
    assert found == content


@pytest.mark.parametrize("text", ["", answer("=="), answer(base64.b64encode(b"x" * 20).decode()[:-3])])
def test_parse_part_takes_no_part_of_a_part(text):
    assert parse_part(text) is None


def test_poll_interval_grows_with_the_run_but_not_while_rows_come():
    times = [0.0]
    while times[-1] < 3600:
        times.append(times[-1] + poll_interval(times[-1], times[-1]))
    assert times[1] < 0.2
    assert sum(moment < 20 for moment in times) < 25
    assert len(times) < 300 and max(b - a for a, b in zip(times, times[1:])) == pytest.approx(15)
    assert poll_interval(3600, 0) == 2 and poll_interval(0, 0) < 0.2


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.1, "1 s"), (89, "89 s"), (90, "2 min"), (3600, "60 min"), (9000, "2.5 h")]
)
def test_render_time(seconds, text):
    assert render_time(seconds) == text


def point(name, env=None, ranks_per_node=2):
    return {"name": name, "env": env or {}, "ranks": 8, "ranks_per_node": ranks_per_node, "command": ["mpirun", "a b"]}


def test_labels_name_what_differs():
    common = {"NCCL_DEBUG": "INFO"}
    values = [{**common, "NCCL_X": "1"}, {**common, "NCCL_X": "2"}, {**common, "TOKEN": "s3cr3t"}]
    points = [point("a", values[0]), point("a NCCL_X=2", values[1]), point("b", common), point("c", values[2])]
    assert labels(points) == ["a NCCL_X=1", "a NCCL_X=2", "b", "c TOKEN=(not shown)"]


ROW = {
    "size": 8,
    "out_of_place": {"time_us": 12.34, "algbw": 0.01, "busbw": 0.02, "wrong": 0},
    "in_place": {"time_us": 15.0, "algbw": 0.03, "busbw": 0.04, "wrong": None},
}
PEAK = {"summary": {"peak_busbw": 12.345}}


def ended(number, status="finished", duration=2.1, **more):
    values = {"status": status, "duration": duration, "exit_status": 0, "problems": [], "results": [], "resumed": False}
    return {"event": "ended", "point": number, "outcome": {**values, **more}}


def started(number):
    return {"event": "started", "point": number}


EVENTS = [
    ended(1, resumed=True, results=[PEAK], duration=10.0),
    started(2),
    {"event": "rows", "point": 2, "rows": [ROW]},
    {"event": "rows", "point": 2, "rows": [{**ROW, "size": 16}, {**ROW, "size": 32}]},
    ended(2, results=[PEAK]),
    started(3),
    ended(3, "timeout", problems=[{"cause": "Because."}]),
    started(4),
    ended(4, "failed", exit_status=3),
    ended(5, "not_run", duration=None),
    {"event": "over", "reason": "limited"},
]
POINTS = [point("a"), point("b", {"NCCL_ALGO": "Ring"}), point("c", ranks_per_node=None), point("d"), point("e")]


def told(show="rows", verbose=False):
    narrator = Narrator(POINTS, show, verbose)
    return [line for event in EVENTS for line in narrator.tell(event)]


def test_the_story_of_a_run():
    lines = told()
    header, row = lines[2], lines[3]
    assert lines == [
        "point 1 of 5, a: finished in an earlier run, not run again, peak 12.3 GB/s",
        "point 2 of 5, b NCCL_ALGO=Ring: started (2 ranks a node), about 40 s left",
        header,
        row,
        row.replace(" 8 ", "16 "),
        row.replace(" 8 ", "32 "),
        "point 2 of 5, b NCCL_ALGO=Ring: finished after 2.1 s, peak 12.3 GB/s",
        "point 3 of 5, c: started (8 ranks), about 18 s left",
        "point 3 of 5, c: timed out after 2.1 s: Because.",
        "point 4 of 5, d: started (2 ranks a node), about 4 s left",
        "point 4 of 5, d: failed after 2.1 s: exit status 3",
    ]
    assert header.split("  ")[-1].strip() == "#wrong" and len(header) == len(row)
    assert row.split() == ["8", "12.34", "0.01", "0.02", "0"]
    assert [line for line in lines if line.startswith("point")] == told("points")
    assert told("none") == []


def test_cycles_are_told_as_they_end():
    def row(size, busbw):
        return {**ROW, "size": size, "out_of_place": {**ROW["out_of_place"], "busbw": busbw}}

    rows = [
        row(8, 1.0),
        row(16, 2.0),
        row(8, 5.0),
        row(16, 3.0),
        row(8, None),
        {**row(16, 1.0), "out_of_place": None},
        row(8, 1.0),
    ]
    for show in ("rows", "points"):
        narrator = Narrator(POINTS, show, False)
        lines = [line for one in rows for line in narrator.tell({"event": "rows", "point": 2, "rows": [one]})]
        name = "point 2 of 5, b NCCL_ALGO=Ring:"
        assert [line for line in lines if line.startswith("point")] == [
            f"{name} cycle 1 done, peak 2.0 GB/s",
            f"{name} cycle 2 done, peak 5.0 GB/s",
            f"{name} cycle 3 done, peak 0.0 GB/s",
        ]
        assert len(lines) == (3 + 1 + 7 if show == "rows" else 3)
        # The next point begins anew.
        assert not any("cycle" in line for line in narrator.tell({"event": "rows", "point": 3, "rows": [row(8, 1.0)]}))


def test_no_time_is_told_before_the_pace_is_known():
    assert Narrator(POINTS, "rows", False).tell(started(1)) == ["point 1 of 5, a: started (2 ranks a node)"]


def test_more_is_told_where_more_is_asked_for():
    lines = told(verbose=True)
    assert lines[2] == "mpirun 'a b'"
    row = lines[5]
    assert row.split() == ["8", "12.34", "0.01", "0.02", "0", "15.00", "0.03", "0.04", "N/A"]
    assert len(lines[3]) == len(lines[4]) == len(row)
