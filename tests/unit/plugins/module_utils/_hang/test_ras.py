# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What NCCL's RAS says, in all of its dialects, and what is made of text that it does not write."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import pathlib
import random
import re
import threading
import time

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._hang.look import ask_ras
from ansible_collections.gpufabric.nccl.plugins.module_utils._hang.ras import Late, Place, late_ranks, parse_report

_PATH = pathlib.Path(__file__).parents[4] / "integration" / "ras_program.py"
_SPEC = importlib.util.spec_from_file_location("ras_program", _PATH)
ras = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(ras)

DIALECTS = list(ras.ANSWERS)


def job(behind=None, silent=(), count=16):
    """Eight ranks a host. ``behind``: collectives, by rank."""
    return [
        ras.Rank(rank, f"10.0.0.{1 + rank // 8}", 4000 + rank, rank % 8, (behind or {}).get(rank, 0), rank in silent)
        for rank in range(count)
    ]


def told(dialect, first, second=None):
    reports = [parse_report(ras.ANSWERS[dialect](ranks)) for ranks in (first, second or first)]
    assert None not in reports
    return late_ranks(*reports)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_rank_that_is_behind(dialect):
    assert told(dialect, job({11: 14})) == [Late(11, Place("10.0.0.2", 4011, 3), 14, 16)]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_ranks_that_are_behind_with_different_distances(dialect):
    late = told(dialect, job({1: 3, 2: 3, 11: 14}))
    assert [(one.rank, one.behind) for one in late] == [(1, 3), (2, 3), (11, 14)]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_rank_that_gives_no_answer(dialect):
    (late,) = told(dialect, job(silent=[11]))
    assert (late.rank, late.behind) == (11, None)
    # The oldest text has only the number.
    assert late.place == (Place() if dialect == "text-2.24" else Place("10.0.0.2", 4011, 3))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        # Nobody is behind; one that catches up; one that goes on; most are behind.
        (job(), job()),
        (job({11: 14}), job()),
        (job({11: 14}), job({11: 13})),
        (job(dict.fromkeys(range(15), 1)), job(dict.fromkeys(range(15), 1))),
        (job(silent=[11]), job()),
        (job(), job(silent=[11])),
    ],
)
def test_who_is_not_named(dialect, first, second):
    assert told(dialect, first, second) == []


@pytest.mark.parametrize("dialect", ["json", "text"])
def test_a_communicator_that_launches_more_is_no_hang(dialect):
    answers = [ras.ANSWERS[dialect](job({11: 14})) for _question in range(2)]
    # 224 and 210 operations, and one more each.
    answers[1] = re.sub(r"\b(224|210)\b", lambda match: str(int(match[1]) + 1), answers[1])
    assert late_ranks(*map(parse_report, answers)) == []


def test_half_of_two_ranks():
    assert [one.rank for one in told("text", job({1: 14}, count=2))] == [1]


def test_the_sample_of_the_manual():
    """From docs/userguide/source/troubleshooting/ras.rst of NCCL 2.30.7: NCCL 2.24's text, and states that differ beside it."""
    text = """\
  Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
      #  in group  per comm  per node  per comm  in group
      0         1         4         8        32        32   RUNNING  MISMATCH

Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different status
  26 ranks have status UNKNOWN
  4 ranks have status RUNNING
  Rank 1 -- GPU 1 managed by process 483076 on node 172.16.64.210
  Communicator ranks have different collective operation counts
  26 ranks have launched up to operation 6650
  6 ranks have launched up to operation 6649
  Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210
  Rank 2 -- GPU 2 managed by process 483074 on node 172.16.64.210
"""
    report = parse_report(text)
    late = late_ranks(report, report)
    assert [(one.rank, one.behind, one.size) for one in late] == [(0, 1, 32), (2, 1, 32)]
    assert late[1].place == Place("172.16.64.210", 483074, 2)


def test_rccl_differs_in_its_first_lines():
    report = parse_report(ras.text_answer(job({11: 14}), library="RCCL"))
    assert report.version == "2.30.4" and [one.rank for one in late_ranks(report, report)] == [11]


def test_the_other_gpu_numbers_are_passed_over():
    text = ras.text_answer(job({11: 14})).replace("GPU 3 managed", "GPU 3 (NVML 5) managed")
    (late,) = late_ranks(parse_report(text), parse_report(text))
    assert late.place == Place("10.0.0.2", 4011, 3)


def test_a_rank_whose_process_is_not_known():
    text = re.sub("GPU 3 managed by .*", "[process information not found]", ras.text_answer(job({11: 14})))
    assert late_ranks(parse_report(text), parse_report(text)) == [Late(11, Place(), 14, 16)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ERROR: Unknown command VERBOSE STATUS\n",
        "{",
        "[" * 100000,
        "{" * 100000,
        '{"communicators": {}}',
        '{"communicators": [' + "9" * 5000 + "]}",
        '{"communicators": 1e999}',
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "x" * (7 << 20),
        "NCCL version 2.30.7 compiled with CUDA 13.0\n" + "\n" * (7 << 20),
    ],
)
def test_what_is_no_answer(text):
    assert parse_report(text) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"rank": 11', '"rank": "11"'),
        ('"rank": 11', '"rank": -1'),
        ('"rank": 11', '"rank": true'),
        ('"AllReduce": 210', '"AllReduce": null'),
        ('"AllReduce": 210', '"AllReduce": 1.5'),
        ('"init_state": 0', '"init_state": 7'),
        ('"ranks": [', '"ranks": 3, "others": ['),
        ('"hash": "0x', '"hash": 3, "other": "0x'),
    ],
)
def test_values_of_json_that_it_does_not_have_name_nobody(old, new):
    text = ras.json_answer(job({11: 14}))
    assert old in text
    report = parse_report(text.replace(old, new))
    assert late_ranks(report, report) == []


def test_no_text_of_a_machine_gets_through():
    """Only addresses are taken for hosts: what is shown is made of numbers."""
    evil = "10.0.0.2\x1b[31m"
    for dialect in DIALECTS:
        text = ras.ANSWERS[dialect](job({11: 14})).replace(
            "10.0.0.2", json.dumps(evil)[1:-1] if "json" in dialect else evil
        )
        report = parse_report(text)
        assert all(late.place.node is None for late in late_ranks(report, report))


def test_torn_and_shuffled_text_names_nobody_else():
    """Of lines in any order or cut anywhere, no rank comes that no line names."""
    chance = random.Random(7)
    text = ras.text_answer(job({11: 14, 3: 2}, silent=[5]))
    for _case in range(200):
        lines = text.splitlines(keepends=True)
        chance.shuffle(lines)
        for broken in ("".join(lines), text[: chance.randrange(len(text))], text[chance.randrange(len(text)) :]):
            report = parse_report(broken)
            if report is not None:
                assert {late.rank for late in late_ranks(report, report)} <= {3, 5, 11}


def test_a_large_answer_is_read_in_linear_time():
    seconds = []
    for count in (2000, 8000):
        text = ras.json_answer(job({11: 14}, count=count))
        begin = time.process_time()
        assert [one.rank for one in late_ranks(*[parse_report(text)] * 2)] == [11]
        seconds.append(time.process_time() - begin)
    assert seconds[1] < 16 * seconds[0] + 0.5


@dataclasses.dataclass
class Server:
    address: str
    questions: list


def serving(dialect, ranks):
    listener = ras.listen("127.0.0.1:0")
    questions = []
    threading.Thread(target=ras.serve, args=(listener, dialect, ranks, questions), daemon=True).start()
    return Server(f"127.0.0.1:{listener.getsockname()[1]}", questions)


@pytest.mark.parametrize("dialect", ["json", "text-2.24"])
def test_it_is_asked_twice(dialect, monkeypatch):
    monkeypatch.setattr("ansible_collections.gpufabric.nccl.plugins.module_utils._hang.look._RAS_INTERVAL", 0.1)
    server = serving(dialect, lambda: job({11: 14}))
    answers = ask_ras(server.address, 8)
    assert answers == [ras.ANSWERS[dialect](job({11: 14}))] * 2
    assert server.questions == ["CLIENT PROTOCOL 2", "TIMEOUT 2", "SET FORMAT json", "VERBOSE STATUS"] * 2


def test_a_process_that_takes_connections_and_is_stopped_is_passed_over(monkeypatch):
    """All ranks of a host have a socket at the address, and the kernel picks one."""
    monkeypatch.setattr("ansible_collections.gpufabric.nccl.plugins.module_utils._hang.look._RAS_INTERVAL", 0.1)
    monkeypatch.setattr("ansible_collections.gpufabric.nccl.plugins.module_utils._hang.look._HANDSHAKE", 0.1)
    monkeypatch.setattr("ansible_collections.gpufabric.nccl.plugins.module_utils._hang.look._MOST_TRIES", 40)
    server = serving("json", job)
    stopped = ras.listen(server.address)
    assert len(ask_ras(server.address, 8)) == 2
    stopped.close()


def test_what_never_answers_is_given_up(monkeypatch):
    monkeypatch.setattr("ansible_collections.gpufabric.nccl.plugins.module_utils._hang.look._HANDSHAKE", 0.05)
    stopped = ras.listen("127.0.0.1:0")
    address = f"127.0.0.1:{stopped.getsockname()[1]}"
    assert ask_ras(address, 1) == []
    stopped.close()
    assert ask_ras(address, 1) == []
