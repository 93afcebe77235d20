# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which ranks are named, from what the hosts told."""

from __future__ import annotations

import time

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._hang.judge import Launched, Seen, hang_problems
from ansible_collections.gpufabric.nccl.plugins.module_utils._hang.ras import Communicator, Place, Report

SILENT = problem("silence-timeout", seconds="300")
POLLS = {"state": "R", "cpu": 0.9, "system": 0.4}
SLEEPS = {"state": "S", "cpu": 0.0, "system": 0.0, "where": "hrtimer_nanosleep"}
COMPUTES = {"state": "R", "cpu": 1.0, "system": 0.0}
STOPPED = {"state": "T", "cpu": 0.0, "system": 0.0, "where": "do_signal_stop"}
#: Two ranks on each of four hosts.
HOSTS = ("g1", "g2", "g3", "g4")
ALL = Launched(dict.fromkeys(HOSTS, 2), {rank: HOSTS[rank // 2] for rank in range(8)})


def doing(rank, **values):
    return {
        "rank": rank,
        "pid": 4000 + (rank or 0),
        "pids": [4000 + (rank or 0)],
        "name": "all_reduce_perf",
        "state": "R",
        "cpu": 0.9,
        "system": 0.4,
        "where": "",
        **values,
    }


def answer(host, ranks, daemons=({},), unknown=0):
    """``ranks``: what each does."""
    return {
        "ranks": [doing(rank, **values) for rank, values in ranks.items()],
        "daemons": [doing(None, pid=100, name="orted", **{**SLEEPS, **values}) for values in daemons],
        "unknown": unknown,
        "addresses": [f"10.0.0.{HOSTS.index(host) + 1}"],
        "ras": [],
    }


def seen(usual=None, without=(), hosts=HOSTS, odd=None, **more):
    """What the hosts tell of ranks that all do the usual, but for those in ``odd``, and those that are not there."""
    answers = {
        host: answer(
            host,
            {
                rank: (odd or {}).get(rank, usual or POLLS)
                for rank in (HOSTS.index(host) * 2, HOSTS.index(host) * 2 + 1)
                if rank not in without
            },
        )
        for host in hosts
    }
    return Seen(answers, **more)


def report(behind=None, silent=(), launched=224, size=8):
    """RAS's answer on one GPU each."""
    counts = {rank: launched - (behind or {}).get(rank, 0) for rank in range(size) if rank not in silent}
    groups = {}
    for count in counts.values():
        groups[count] = groups.get(count, 0) + 1
    places = {rank: Place(f"10.0.0.{rank // 2 + 1}", 4000 + rank, rank % 2) for rank in range(size)}
    return Report(
        "2.30.7", {"a": Communicator(size, {"AllReduce": counts}, {"AllReduce": groups}, places, set(silent))}
    )


def told(found, launched=ALL):
    problems = hang_problems(found, launched, SILENT)
    assert all(problem.severity == "error" and problem.evidence.startswith(SILENT.cause) for problem in problems)
    return [(problem.id, problem.host, problem.cause) for problem in problems]


def test_a_rank_that_is_stopped():
    ((identity, host, cause),) = told(seen(odd={5: STOPPED}))
    assert (identity, host) == ("rank-stopped", "g3")
    assert cause == "Rank 5 is stopped, and the others wait."
    (problem_,) = hang_problems(seen(odd={5: STOPPED}), ALL, SILENT)
    assert "rank 5: process 4005 (all_reduce_perf): stopped, in do_signal_stop; 0% of a processor" in problem_.evidence


def test_how_far_it_is_behind_is_said_with_it_and_the_others_are_not_named():
    reports = (report({5: 14}, [7]),) * 2
    ((identity, host, cause),) = told(seen(odd={5: STOPPED}, reports=reports))
    assert (identity, host) == ("rank-stopped", "g3")
    assert cause == "Rank 5 (GPU 1) is stopped, 14 collectives behind the others, and the others wait."


def test_ranks_of_several_hosts():
    found = told(seen(odd={2: STOPPED, 3: STOPPED, 5: {"state": "D", "cpu": 0.0, "where": "nfs_wait"}}))
    assert [entry[:2] for entry in found] == [("rank-stopped", "g2"), ("rank-in-kernel", "g3")]
    assert found[0][2].startswith("Rank 2, rank 3 are stopped,")


def test_a_daemon_that_is_stopped():
    found = seen()
    answers = {**found.answers, "g4": answer("g4", {6: POLLS, 7: POLLS}, [{"state": "T"}])}
    ((identity, host, cause),) = told(Seen(answers))
    assert (identity, host) == ("rank-stopped", "g4") and cause.startswith("orted, a process of mpirun, is stopped")


def test_a_host_that_is_frozen():
    ((identity, host, cause),) = told(
        seen(hosts=HOSTS[:3], frozen={"g4": "Connection timed out during banner exchange"})
    )
    assert (identity, host) == ("host-frozen", "g4")
    assert cause == (
        "The host no longer answers the run's ssh: Connection timed out during banner exchange; it has rank 6, rank 7."
    )


@pytest.mark.parametrize(
    "found",
    [
        # It is the way to them.
        seen(hosts=HOSTS[:1], frozen=dict.fromkeys(HOSTS[1:], "no answer within 8 s")),
        # Nothing is known of it.
        seen(hosts=HOSTS[:3], unread={"g4": "Connection refused"}),
        Seen({}, frozen={"g1": "no answer"}),
        seen(),
        seen(SLEEPS),
        seen(COMPUTES),
    ],
)
def test_nobody_is_named_without_a_reason(found):
    assert told(found) == []


def test_a_rank_that_has_ended():
    ((identity, host, cause),) = told(seen(without=[7]))
    assert (identity, host) == ("rank-gone", "g4") and cause.startswith("Rank 7 is gone")


def test_a_process_that_may_not_be_looked_at_may_be_the_rank():
    found = seen()
    assert told(Seen({**found.answers, "g4": answer("g4", {6: POLLS}, unknown=1)})) == []


def test_all_ranks_have_ended():
    assert told(seen(without=range(8))) == []


def test_a_rank_that_never_started():
    launched = Launched(ALL.expected, {rank: host for rank, host in ALL.placed.items() if rank != 7})
    ((identity, host, cause),) = told(seen(odd={7: SLEEPS}), launched)
    assert (identity, host) == ("rank-not-started", "g4")
    assert cause.startswith("Rank 7 never started.")


def test_ranks_of_two_hosts_that_never_started():
    launched = Launched(ALL.expected, {rank: host for rank, host in ALL.placed.items() if rank in (0, 1, 2, 4, 5, 6)})
    found = told(seen(without=[3, 7]), launched)
    assert [(identity, host, cause[:6]) for identity, host, cause in found] == [
        ("rank-not-started", "g2", "Rank 3"),
        ("rank-not-started", "g4", "Rank 7"),
    ]


def test_numbers_that_do_not_follow_the_hosts_are_not_guessed():
    """Ranks that go round the hosts."""
    launched = Launched(ALL.expected, {rank: HOSTS[rank % 4] for rank in range(6)})
    answers = {host: answer(host, {rank: POLLS for rank in range(6) if HOSTS[rank % 4] == host}) for host in HOSTS}
    assert [(identity, host, cause[:12]) for identity, host, cause in told(Seen(answers), launched)] == [
        ("rank-not-started", "g3", "A rank never"),
        ("rank-not-started", "g4", "A rank never"),
    ]


def test_a_launch_that_did_not_get_as_far_is_no_rank_s():
    assert told(Seen({host: answer(host, {}) for host in HOSTS}), Launched(ALL.expected, {})) == []


def test_a_rank_that_computes_while_the_others_poll_or_sleep():
    for usual in (POLLS, SLEEPS):
        ((identity, host, cause),) = told(seen(usual, odd={6: COMPUTES}))
        assert (identity, host) == ("rank-spinning", "g4") and cause.startswith("Rank 6 is computing")


def test_a_rank_that_sleeps_while_the_others_poll():
    ((identity, host, cause),) = told(seen(COMPUTES, odd={6: SLEEPS}))
    assert (identity, host) == ("rank-asleep", "g4") and cause.startswith("Rank 6 is asleep")


@pytest.mark.parametrize(
    "found",
    [
        # Half of them; one that is between both; a host that is not known.
        seen(odd=dict.fromkeys(range(4), COMPUTES)),
        seen(odd={6: COMPUTES, 7: {**POLLS, "system": 0.2}}),
        seen(odd={5: COMPUTES}, hosts=HOSTS[:3], unread={"g4": "Connection refused"}),
    ],
)
def test_what_is_not_odd(found):
    assert told(found) == []


def test_a_rank_that_ras_tells_to_be_behind():
    reports = (report({5: 14}),) * 2
    ((identity, host, cause),) = told(seen(COMPUTES, odd={5: SLEEPS}, reports=reports))
    assert (identity, host) == ("rank-behind", "g3")
    assert cause == "Rank 5 (GPU 1) is 14 collectives behind the others, and they wait."
    (problem_,) = hang_problems(seen(COMPUTES, odd={5: SLEEPS}, reports=reports), ALL, SILENT)
    assert "rank 5: process 4005 (all_reduce_perf): sleeping, in hrtimer_nanosleep" in problem_.evidence


def test_a_program_that_prints_may_have_ranks_that_are_behind_for_a_moment():
    found = seen(odd={6: COMPUTES}, reports=(report({5: 14}),) * 2)
    assert hang_problems(found, ALL, SILENT, quiet=False) == []
    assert [one.id for one in hang_problems(seen(odd={6: STOPPED}), ALL, SILENT, quiet=False)] == ["rank-stopped"]


def test_one_answer_of_ras_proves_nothing():
    assert told(seen(reports=(report({5: 14}),))) == []
    assert told(seen(reports=(report({5: 14}), report({5: 14}, launched=225)))) == []


def test_a_rank_that_gives_ras_no_answer():
    ((identity, host, cause),) = told(seen(reports=(report(silent=[5]),) * 2))
    assert (identity, host) == ("rank-silent", "g3") and cause.startswith(
        "The processes of NCCL get no answer from rank 5 (GPU 1),"
    )


def test_what_ras_says_of_a_host_that_is_frozen_follows_from_that():
    found = seen(hosts=HOSTS[:3], frozen={"g4": "no answer within 8 s"}, reports=(report(silent=[6, 7]),) * 2)
    assert [entry[:2] for entry in told(found)] == [("host-frozen", "g4")]


def test_an_address_that_all_hosts_have():
    """As that of a bridge for containers: the number of the process says whose it is."""
    reports = (report({5: 14}),) * 2
    for found in reports:
        found.communicators["a"].places[5] = Place("172.17.0.1", 4005, 1)
    found = seen(reports=reports)
    for one in found.answers.values():
        one["addresses"].append("172.17.0.1")
    assert [entry[:2] for entry in told(found)] == [("rank-behind", "g3")]


def test_the_job_of_somebody_else_is_not_ours():
    """Its process has the number of none of ours."""
    other = report({5: 14})
    places = other.communicators["a"].places
    places[5] = places[5].__class__("10.0.0.3", 99, 1)
    assert told(seen(reports=(other, other))) == []


def test_a_part_of_the_job_is_numbered_as_the_whole():
    """A communicator of the second half."""
    part = report({1: 14}, size=4)
    communicator = part.communicators["a"]
    for rank in range(4):
        communicator.places[rank] = Place(f"10.0.0.{rank // 2 + 3}", 4004 + rank, rank % 2)
    ((identity, host, cause),) = told(seen(reports=(part, part)))
    assert (identity, host) == ("rank-behind", "g3") and cause.startswith("Rank 5 (GPU 1) is 14 collectives behind")


def test_gpus_that_the_program_named():
    launched = Launched(ALL.expected, ALL.placed, {5: 3})
    ((_identity, _host, cause),) = told(seen(odd={5: STOPPED}), launched)
    assert cause.startswith("Rank 5 (GPU 3) is")


def test_many_ranks_are_listed_in_part():
    launched = Launched({"g1": 100, "g2": 2}, {**dict.fromkeys(range(100), "g1"), 100: "g2", 101: "g2"})
    answers = {"g1": answer("g1", dict.fromkeys(range(100), STOPPED)), "g2": answer("g2", {100: POLLS, 101: POLLS})}
    (found,) = hang_problems(Seen(answers), launched, SILENT)
    assert "and 92 more" in found.cause and len(found.evidence.splitlines()) == 10


def test_time_grows_with_the_ranks_and_no_faster():
    seconds = []
    for count in (250, 1000):
        hosts = [f"n{index}" for index in range(count)]
        launched = Launched(
            dict.fromkeys(hosts, 8), {rank: hosts[rank // 8] for rank in range(8 * count) if rank % 8 != 5}
        )
        ranks = [{rank: STOPPED if rank % 8 == 3 else POLLS for rank in range(8 * n, 8 * n + 8)} for n in range(count)]
        answers = {host: {**answer("g1", own), "addresses": []} for host, own in zip(hosts, ranks)}
        late = (report(dict.fromkeys(range(0, 8 * count, 8), 1), size=8 * count),) * 2
        begin = time.process_time()
        assert len(hang_problems(Seen(answers, reports=late), launched, SILENT)) == count
        seconds.append(time.process_time() - begin)
    assert seconds[1] < 10 * seconds[0] + 0.5
