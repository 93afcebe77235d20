# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import concurrent.futures
import fcntl
import os
import subprocess
import uuid

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.cleanup import remove_replaced
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.ownership import Claim, Ownership, Use, loss, refusal
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir

MARK = {"run_id": "default", "owner": "me@here", "controller": "c1", "play": "10-100", "started": 1000}
IDLE, FRESH, BUSY, FOLLOWED = Use(False, 3600), Use(False, 60), Use(True, 3600), Use(True, 3, unasked=3)
ME, YOU = "me@here", "you@there"


def claim(owner, controller="c1", play=None, live=()):
    play = play or {ME: "20-200", YOU: "40-400"}[owner]
    return {"owner": owner, "controller": controller, "play": play, "live": [play, *live]}


@pytest.mark.parametrize(
    ("who", "use", "start", "removal"),
    [
        # The same play goes on, whatever runs.
        (claim(ME, play="10-100"), BUSY, None, None),
        # The owner's play is over, also where it was killed and what it started runs on.
        (claim(ME), BUSY, None, None),
        (claim(ME, controller="c2"), BUSY, None, None),
        # A second play of the owner's; he may end his own.
        (claim(ME, live=["10-100"]), IDLE, "run-in-use", None),
        # A play of the same number on another controller.
        (claim(ME, controller="c2", live=["10-100"]), IDLE, None, None),
        # A program that the other controller waits for; without one, or where plays cannot be told apart, nobody knows.
        (claim(ME, controller="c2"), FOLLOWED, "run-in-use", None),
        (claim(ME, controller="c2"), Use(True, 3, unasked=61), None, None),
        (claim(ME, controller=""), FOLLOWED, None, None),
        (claim(ME), FOLLOWED, None, None),
        (claim(YOU), IDLE, None, None),
        (claim(YOU, live=["10-100"]), IDLE, "run-taken", "run-taken"),
        (claim(YOU, controller="c2"), BUSY, "run-taken", "run-taken"),
        (claim(YOU, controller="c2"), FRESH, "run-taken", "run-taken"),
        # Where plays cannot be told apart.
        (claim(ME, controller="", play="10-100"), BUSY, None, None),
    ],
)
def test_whom_a_run_is_refused(who, use, start, removal):
    found = [refusal(MARK, Claim(**who), lambda: use, "g1", removes, 1185) for removes in (False, True)]
    assert [item and item.id for item in found] == [start, removal]
    for item in found:
        assert item is None or (
            f"The run default belongs to {'another play of ' if start == 'run-in-use' else ''}{ME}" in item.cause
            and (" on another controller, which" in item.cause) == (start == "run-in-use" and who["controller"] == "c2")
        )
        assert item is None or ("started 3 minutes ago" in item.cause and "gpufabric_run_id" in item.cure)


@pytest.mark.parametrize(
    "mark",
    [{}, {"run_id": "default"}, {"owner": 7}, {"owner": None, "play": []}, {"owner": {"a": 1}, "controller": "c1"}],
)
def test_a_mark_without_an_owner_refuses_nobody(mark):
    assert refusal(mark, Claim(**claim(YOU)), lambda: BUSY, "g1") is None


@pytest.mark.parametrize("started", [None, "soon", True, [], -1e300])
def test_a_mark_may_hold_any_time(started):
    found = refusal({**MARK, "started": started}, Claim(**claim(YOU)), lambda: BUSY, "g1", now=5)
    assert found is not None and found.id == "run-taken"


@pytest.mark.parametrize(
    ("who", "mark", "found"),
    [
        (claim(ME, play="10-100"), MARK, None),
        # Whether that one is over is not asked.
        (claim(ME), MARK, "run-in-use"),
        (claim(ME, controller="c2", play="10-100"), MARK, "run-in-use"),
        (claim(YOU), MARK, "run-taken"),
        (claim(YOU, play="10-100"), MARK, "run-taken"),
        (claim(YOU), {"run_id": "default"}, None),
        (claim(YOU), {"owner": 7, "controller": "c1"}, None),
        # Where plays cannot be told apart.
        (claim(ME, controller=""), {**MARK, "controller": ""}, None),
        (claim(YOU, controller=""), {**MARK, "controller": ""}, "run-taken"),
    ],
)
def test_who_has_the_run_that_a_play_had_taken(who, mark, found):
    lost = loss(mark, Claim(**who), "g1", 1185)
    assert (lost and lost.id) == found
    assert lost is None or (f"{ME}, started 3 minutes ago" in lost.cause and lost.host == "g1")


@pytest.fixture
def run_dir(tmp_path):
    return RunDir(f"unit.{uuid.uuid4().hex}", str(tmp_path / "run"))


def test_who_takes_a_run_marks_it_and_the_next_one_is_refused(run_dir):
    Ownership(run_dir, claim(ME)).take()
    mark = run_dir.read_mark()
    assert {name: mark[name] for name in ("run_id", "owner", "controller", "play")} == {
        "run_id": run_dir.run_id,
        "owner": ME,
        "controller": "c1",
        "play": "20-200",
    }
    run_dir.write_mark({**mark, "started": 7})
    Ownership(run_dir, claim(ME)).take()
    assert run_dir.read_mark()["started"] == 7
    for asks in (Ownership(run_dir, claim(YOU)), Ownership(run_dir, claim(ME, play="30-300", live=["20-200"]))):
        with pytest.raises(ProblemError):
            asks.check()
        with pytest.raises(ProblemError):
            asks.take()
    assert run_dir.read_mark()["play"] == "20-200"
    # The same owner, while another controller waits for a program of his.
    os.makedirs(run_dir.mpi)
    polled = os.path.join(run_dir.mpi, "polled")
    with open(polled, "w", encoding="utf-8"):
        pass
    elsewhere = Ownership(run_dir, claim(ME, controller="c2"))
    told = elsewhere.refusal()
    assert told.id == "run-in-use" and "on another controller, which asked for its program 0 seconds ago" in told.cause
    assert elsewhere.refusal(removes=True) is None
    os.utime(polled, (1, 1))
    assert elsewhere.refusal() is None
    # An hour later, nothing runs and the play is over.
    os.utime(run_dir.mark, (1, 1))
    Ownership(run_dir, claim(YOU)).take()
    assert run_dir.read_mark()["owner"] == YOU


def test_of_two_plays_that_start_at_once_the_second_waits_for_the_mark_of_the_first(run_dir):
    run_dir.create()
    descriptor = os.open(run_dir.path, os.O_RDONLY)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            second = pool.submit(Ownership(run_dir, claim(YOU)).take)
            assert not concurrent.futures.wait([second], timeout=0.5).done
            run_dir.write_mark({"owner": ME, "controller": "c1", "play": "20-200"})
        finally:
            os.close(descriptor)
        with pytest.raises(ProblemError):
            second.result()
    assert run_dir.read_mark()["owner"] == ME


def test_a_run_with_processes_is_in_use_until_it_is_taken_over(run_dir):
    Ownership(run_dir, claim(ME)).take()
    os.utime(run_dir.mark, (1, 1))
    marks = run_dir.marks()
    process = subprocess.Popen(["sleep", "60"], env={**os.environ, **marks})
    other = subprocess.Popen(["sleep", "60"], env={**os.environ, **marks, "GPUFABRIC_RUN_DIR": "/elsewhere"})
    try:
        assert Ownership(run_dir, claim(YOU)).refusal().id == "run-taken"
        with pytest.raises(ProblemError):
            remove_replaced(Ownership(run_dir, claim(YOU)), run_dir, False)
        taking = Ownership(run_dir, {**claim(YOU), "take_over": True})
        assert remove_replaced(taking, run_dir, True) and process.poll() is None
        assert remove_replaced(taking, run_dir, False)
        assert process.wait(10) == -15 and not os.path.exists(run_dir.path)
        taking.take()
        assert run_dir.read_mark()["owner"] == YOU
        # Its own run is not replaced.
        assert not remove_replaced(taking, run_dir, False)
        assert other.poll() is None
    finally:
        for item in (process, other):
            item.kill()
            item.wait()


def test_nobody_is_refused_who_does_not_say_who_asks(run_dir):
    Ownership(run_dir, claim(ME)).take()
    nobody = Ownership(run_dir, None)
    assert not nobody.check() and not remove_replaced(nobody, run_dir, False)
    nobody.take()
    assert run_dir.read_mark()["owner"] == ME
