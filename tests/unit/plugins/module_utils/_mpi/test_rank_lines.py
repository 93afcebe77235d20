# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi import rank_lines
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.rank_lines import (
    Launcher,
    Mark,
    Marks,
    missing_hosts,
    started,
    started_placement_problems,
    without_marks,
)

LAUNCHER = Launcher("g1.cluster", frozenset({"10.0.0.1", "127.0.0.1"}))
HOSTS = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]


def marks(*places, size=3):
    """Marks of ranks at HOST or HOST@ADDRESS."""
    pairs = [place.partition("@") for place in places]
    return [Mark(rank, size, host, address or None) for rank, (host, _at, address) in enumerate(pairs)]


EVERYWHERE = ("g1.cluster", "g2@10.0.0.2", "g3@10.0.0.3")


def test_a_rank_says_where_it_is_and_becomes_the_program():
    program = "import os, sys; print(sys.argv[1:], os.getpid())"
    environment = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "16", "PATH": os.environ["PATH"]}
    arguments = ["a b", "'\"", "$PATH;x", ""]
    command = started([sys.executable, "-c", program, *arguments])
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    )
    out, err = process.communicate()
    assert out == f"{arguments} {process.pid}\n"
    found = Marks()
    found.feed(err.encode())
    assert found.found == {3: Mark(3, 16, os.uname().nodename, None)}


def test_marks_are_read_as_they_come_and_taken_out():
    text = "a\ngpufabric-rank 0 2 g1 \r\n[1,1]<stderr>: gpufabric-rank 1 2 g2 10.0.0.1 4711 fd00::2 22\nb\n"
    found = Marks()
    for character in text:
        found.feed(character.encode())
    assert found.found == {0: Mark(0, 2, "g1", None), 1: Mark(1, 2, "g2", "fd00::2")}
    assert without_marks(text) == "a\n[1,1]<stderr>: b\n"


def test_marks_without_end_are_not_all_kept(monkeypatch):
    monkeypatch.setattr(rank_lines, "MOST_RANKS", 10)
    found = Marks()
    for start in (0, 8):
        found.feed("".join(f"gpufabric-rank {start + number} 2 g1\n" for number in range(8)).encode())
    assert list(found.found) == list(range(10))


@pytest.mark.parametrize(
    ("hosts", "found"),
    [
        (HOSTS, marks(*EVERYWHERE)),
        # By names, by a mix, and where an address is translated so that nobody can say which host it is.
        (["g1", "g2.job.svc", "g3"], marks(*EVERYWHERE)),
        (["g1", "10.0.0.2", "g3"], marks(*EVERYWHERE)),
        (HOSTS, marks("g1.cluster", "pod-2@172.16.0.2", "pod-3@172.16.0.3")),
        # A launcher that is apart, and hosts that are all called alike.
        (["10.0.0.2", "10.0.0.3", "10.0.0.4"], marks("x@10.0.0.2", "x@10.0.0.3", "x@10.0.0.4")),
    ],
)
def test_all_took_part(hosts, found):
    assert started_placement_problems(found, hosts, 3, LAUNCHER) == []


@pytest.mark.parametrize(
    ("found", "problem", "host", "cause"),
    [
        (
            marks("g1.cluster", "g1.cluster", "g1.cluster"),
            "hosts-differ",
            None,
            "1 of 3 hosts took part: all 3 ranks ran on the launcher, g1.cluster; missing: 10.0.0.2, 10.0.0.3.",
        ),
        (marks(*["g2@10.0.0.2"] * 3), "hosts-differ", None, "1 of 3 hosts took part: all 3 ranks ran on 10.0.0.2;"),
        (
            marks("g1.cluster", "g1.cluster", "g3@10.0.0.3"),
            "hosts-differ",
            "10.0.0.2",
            "2 of 3 hosts took part; missing: 10.0.0.2.",
        ),
        (
            marks("g1.cluster", "g1.cluster", "z@10.9.9.9"),
            "hosts-differ",
            None,
            "2 of 3 hosts took part.",
        ),
        (marks(*EVERYWHERE, size=1), "mpi-missing", None, "The program was built without MPI, or"),
        (marks(*EVERYWHERE, size=2), "ranks-differ", None, "2 ranks took part, 3 were expected."),
        (marks(*EVERYWHERE, "g3@10.0.0.3"), "ranks-differ", None, "4 ranks took part, 3 were expected."),
        ([], "ranks-unknown", None, "The output shows none of the 3 expected ranks."),
    ],
)
def test_who_took_no_part(found, problem, host, cause):
    (first,) = started_placement_problems(found, HOSTS, 3, LAUNCHER)
    assert (first.id, first.host) == (problem, host) and first.cause.startswith(cause)


def test_missing_hosts_are_named_where_that_can_be_said():
    assert missing_hosts(marks("g1.cluster"), HOSTS, LAUNCHER) == HOSTS[1:]
    assert missing_hosts(marks("g1.cluster", "x@1.2.3.4"), HOSTS, LAUNCHER) == []
