# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Which ranks the others wait for, from what all hosts of a point that hangs told."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._hang.look import Answer, Doing
from ansible_collections.gpufabric.nccl.plugins.module_utils._hang.ras import Late, Report, late_ranks
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import listing, one_line

#: Processors that a rank uses which does something, and one that does nothing. Of a host that is overloaded, it gets a small part.
_BUSY, _IDLE = 0.03, 0.01
#: The part of its time that a rank which only computes may spend in the kernel, as interrupts do, and one that polls does: those of
#: Open MPI that wait for a message over TCP spend 70 to 90 % there.
_COMPUTING, _POLLING = 0.1, 0.3
_MOST_EVIDENCE = 8
#: The states of processes.
_WORST = "TDRS"


@dataclasses.dataclass(frozen=True)
class Seen:
    """What the pass over the hosts brought. ``frozen``, ``unread``: hosts that gave no answer in time, or none at all, and why.

    ``reports``: RAS's answers to both questions; empty if it was not asked or did not answer.
    """

    answers: t.Mapping[str, Answer]
    frozen: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    unread: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    reports: tuple[Report, ...] = ()


@dataclasses.dataclass(frozen=True)
class Launched:
    """What is known of a launch. ``expected``: how many ranks each host takes, in the order of the hostfile.

    ``placed``: the hosts of the ranks that have started. ``gpus``: of ranks, where the program named them.
    """

    expected: t.Mapping[str, int]
    placed: t.Mapping[int, str]
    gpus: t.Mapping[int, int] = dataclasses.field(default_factory=dict)

    @property
    def ranks(self) -> int:
        """How many there should be."""
        return sum(self.expected.values())

    def missing(self) -> dict[str, list[int]]:
        """The ranks that have not started, by host. Their numbers are empty where nobody knows which are whose."""
        started: dict[str, int] = dict.fromkeys(self.expected, 0)
        for host in self.placed.values():
            started[host] = started.get(host, 0) + 1
        short = [host for host, count in self.expected.items() if started[host] < count]
        absent = [rank for rank in range(self.ranks) if rank not in self.placed]
        if len(short) == 1:
            return {short[0]: absent}
        # mpirun numbers host after host, unless it was told otherwise: then a rank that has started shows it.
        owners = [host for host, count in self.expected.items() for _slot in range(count)]
        known = all(rank < len(owners) and owners[rank] == host for rank, host in self.placed.items())
        found: dict[str, list[int]] = {host: [] for host in short}
        for rank in absent if known else ():
            found[owners[rank]].append(rank)
        return found

    def by_host(self) -> dict[str, list[int]]:
        """The ranks that have started, of each host."""
        found: dict[str, list[int]] = {}
        for rank, host in sorted(self.placed.items()):
            found.setdefault(host, []).append(rank)
        return found


class _Rank(t.NamedTuple):
    rank: int
    host: str
    doing: Doing


def hang_problems(seen: Seen, launched: Launched, otherwise: Problem, quiet: bool = True) -> list[Problem]:
    """Whom the others wait for; empty if nothing shows it. ``otherwise``: what is said if nobody knows more; it is among the evidence.

    What proves a rank to be the reason is told alone: that others are behind or poll follows from it. ``quiet``: whether the program
    has printed nothing for some time. One that goes on may have ranks that are behind, compute or sleep for a moment.
    """
    return _Judgement(seen, launched, otherwise).problems(quiet)


class _Judgement:
    def __init__(self, seen: Seen, launched: Launched, otherwise: Problem) -> None:
        self._seen = seen
        self._launched = launched
        self._head = otherwise.cause
        self._ranks = [one for host, answer in seen.answers.items() for one in _ranks_of(host, answer)]
        self._started = launched.by_host()
        self._doing: dict[tuple[str | None, int | None], Doing] = {
            (one.host, pid): one.doing for one in self._ranks for pid in one.doing["pids"]
        }
        self._late = self._named_late()
        self._gpus = {late.rank: late.place.gpu for late, _host in self._late}
        self._behind_by_rank = {late.rank: late.behind for late, _host in self._late if late.behind}

    def problems(self, quiet: bool) -> list[Problem]:
        frozen = self._frozen()
        proven = [*self._held("T", "rank-stopped"), *self._held("D", "rank-in-kernel"), *frozen, *self._ended()]
        # Which ranks a frozen host has started is not known.
        proven += [] if frozen else self._not_started()
        if proven or not quiet:
            return proven
        for find in (self._behind, self._silent, self._spinning, self._asleep):
            found = find()
            if found:
                return found
        return []

    def _problem(
        self, identity: str, host: str | None, labels: t.Sequence[str], evidence: t.Sequence[str], **facts: t.Any
    ) -> Problem:
        shown = [*evidence[:_MOST_EVIDENCE]] + (["…"] if len(evidence) > _MOST_EVIDENCE else [])
        who = listing(labels) if labels else None
        are = "is" if len(labels) < 2 else "are"
        made = problem(identity, host, "\n".join([self._head, *shown]), who=who, are=are, **facts)
        # At the begin of a sentence.
        return dataclasses.replace(made, cause=re.sub(r"\Arank ", "Rank ", made.cause))

    def _label(self, rank: int, gpu: int | None = None) -> str:
        gpu = self._launched.gpus.get(rank) if gpu is None else gpu
        return f"rank {rank}" + (f" (GPU {gpu})" if gpu is not None else "")

    def _labels(self, ranks: t.Iterable[int]) -> list[str]:
        return [self._label(rank, self._gpus.get(rank)) for rank in ranks]

    def _by_host(self, found: t.Iterable[_Rank]) -> dict[str, list[_Rank]]:
        hosts: dict[str, list[_Rank]] = {}
        for one in found:
            hosts.setdefault(one.host, []).append(one)
        return hosts

    def _held(self, state: str, identity: str) -> list[Problem]:
        """The ranks, or daemons of mpirun, that cannot go on."""
        found = []
        hosts = self._by_host(one for one in self._ranks if one.doing["state"] == state)
        for host, answer in self._seen.answers.items():
            ranks = hosts.get(host, [])
            daemons = [one for one in answer["daemons"] if one["state"] == state]
            labels = self._labels(sorted({one.rank for one in ranks})) or [
                f"{one['name']}, a process of mpirun," for one in daemons
            ]
            if labels:
                evidence = [_words(one.doing) for one in ranks] or [_words(one) for one in daemons]
                found.append(self._problem(identity, host, labels, evidence, behind=self._distance(ranks)))
        return found

    def _distance(self, ranks: t.Sequence[_Rank]) -> str | None:
        """How far one rank is behind, if RAS says it."""
        distances = {self._behind_by_rank[one.rank] for one in ranks if one.rank in self._behind_by_rank}
        return f", {_collectives(distances.pop())} behind the others" if len(distances) == 1 else None

    def _frozen(self) -> list[Problem]:
        """Hosts without an answer, unless most have none: then it is the way to them."""
        frozen = self._seen.frozen
        if not self._seen.answers or len(frozen) > len(self._seen.answers) + len(self._seen.unread):
            return []
        found = []
        for host, reason in frozen.items():
            if host in self._started:
                labels = self._labels(self._started[host])
                found.append(self._problem("host-frozen", host, labels, [], reason=one_line(reason)))
        return found

    def _ended(self) -> list[Problem]:
        found = []
        for host, answer in self._seen.answers.items():
            if answer["unknown"] or not (answer["ranks"] or answer["daemons"]):
                # A process that nobody may look at may be the rank.
                continue
            there = {one["rank"] for one in answer["ranks"]}
            gone = [rank for rank in self._started.get(host, ()) if rank not in there]
            if gone:
                found.append(
                    self._problem("rank-gone", host, self._labels(gone), [f"no process of {self._label(gone[0])}"])
                )
        # If all have ended, it is mpirun that hangs.
        return found if any(self._ranks) else []

    def _not_started(self) -> list[Problem]:
        missing = self._launched.missing()
        if len(missing) * 2 > len(self._launched.expected):
            return []
        unmarked = self._by_host(one for one in self._ranks if one.rank not in self._launched.placed)
        found = []
        for host, ranks in missing.items():
            processes = unmarked.get(host, [])
            evidence = [_words(one.doing) for one in processes] or [
                "no process of it" if host in self._seen.answers else ""
            ]
            found.append(
                self._problem("rank-not-started", host, self._labels(ranks), [line for line in evidence if line])
            )
        return found

    def _named_late(self) -> list[tuple[Late, str | None]]:
        """The ranks that RAS names, with their hosts; none if what it says is not of this launch."""
        if len(self._seen.reports) < 2:
            return []
        hosts: dict[str, list[str]] = {}
        for name, answer in self._seen.answers.items():
            for address in answer["addresses"]:
                hosts.setdefault(address, []).append(name)
        found: list[tuple[Late, str | None]] = []
        for late in late_ranks(*self._seen.reports[:2]):
            # Bridges of containers have one address on many hosts.
            there = hosts.get(late.place.node or "", [])
            owners = [name for name in there if (name, late.place.pid) in self._doing]
            host: str | None = owners[0] if len(owners) == 1 else None
            if there:
                if not owners:
                    # The job of somebody else.
                    return []
                # Communicators may be parts of the whole: it is numbered as MPI does.
                if host is not None and late.size is not None and late.size < self._launched.ranks:
                    late = late._replace(rank=self._doing[host, late.place.pid]["rank"] or 0)
            elif late.size is None or late.size == self._launched.ranks:
                host = self._launched.placed.get(late.rank)
            found.append((late, host))
        return found

    def _behind(self) -> list[Problem]:
        hosts: dict[str | None, dict[int, list[Late]]] = {}
        for late, host in self._late:
            if late.behind is not None:
                hosts.setdefault(host, {}).setdefault(late.behind, []).append(late)
        found = []
        for host, distances in hosts.items():
            for behind, ranks in sorted(distances.items(), reverse=True):
                labels = list(dict.fromkeys(self._label(late.rank, late.place.gpu) for late in ranks))
                verb = "is" if len(labels) == 1 else "are"
                found.append(
                    self._problem(
                        "rank-behind",
                        host,
                        labels,
                        self._evidence(ranks, host),
                        late=f"{verb} {_collectives(behind)} behind the others",
                    )
                )
        return found

    def _silent(self) -> list[Problem]:
        hosts: dict[str | None, list[Late]] = {}
        for late, host in self._late:
            if late.behind is None:
                hosts.setdefault(host, []).append(late)
        if sum(map(len, hosts.values())) * 2 > self._launched.ranks:
            return []
        return [
            self._problem(
                "rank-silent",
                host,
                list(dict.fromkeys(self._label(late.rank, late.place.gpu) for late in ranks)),
                self._evidence(ranks, host),
            )
            for host, ranks in hosts.items()
        ]

    def _evidence(self, ranks: t.Iterable[Late], host: str | None) -> list[str]:
        """What the processes of ranks do, that RAS names."""
        lines = []
        for late in ranks:
            doing = self._doing.get((host, late.place.pid))
            where = f", at {late.place.node}" if host is None and late.place.node else ""
            lines.append(_words(doing) if doing else f"rank {late.rank}: RAS names no process that was found{where}")
        return lines

    def _spinning(self) -> list[Problem]:
        return self._odd("rank-spinning", _computes, lambda one: _sleeps(one) or one["system"] >= _POLLING)

    def _asleep(self) -> list[Problem]:
        return self._odd("rank-asleep", _sleeps, lambda one: one["cpu"] >= _BUSY)

    def _odd(
        self, identity: str, is_odd: t.Callable[[Doing], bool], is_usual: t.Callable[[Doing], bool]
    ) -> list[Problem]:
        """The few ranks that do something else than all the others; none if not every rank is known."""
        if {one.rank for one in self._ranks} != set(range(self._launched.ranks)):
            return []
        odd = [one for one in self._ranks if is_odd(one.doing)]
        usual = [one for one in self._ranks if is_usual(one.doing)]
        if not odd or len(odd) * 2 >= len(self._ranks) or len(odd) + len(usual) < len(self._ranks):
            return []
        return [
            self._problem(
                identity,
                host,
                self._labels(sorted({one.rank for one in ranks})),
                [*(_words(one.doing) for one in ranks), f"others: {_words(usual[0].doing)}"],
            )
            for host, ranks in self._by_host(odd).items()
        ]


def _ranks_of(host: str, answer: Answer) -> list[_Rank]:
    """The ranks of a host. What one has started apart from itself belongs to it."""
    found: dict[int, Doing] = {}
    for one in answer["ranks"]:
        if one["rank"] is None:
            continue
        first = found.setdefault(one["rank"], one)
        if first is not one:
            main, other = sorted((first, one), key=lambda doing: _WORST.index(doing["state"]))
            found[one["rank"]] = t.cast(
                Doing, {**main, "cpu": main["cpu"] + other["cpu"], "pids": main["pids"] + other["pids"]}
            )
    return [_Rank(rank, host, doing) for rank, doing in found.items()]


def _computes(doing: Doing) -> bool:
    return doing["cpu"] >= _BUSY and doing["system"] <= _COMPUTING


def _sleeps(doing: Doing) -> bool:
    return doing["state"] == "S" and doing["cpu"] <= _IDLE


_STATES = {"T": "stopped", "D": "in the kernel, not to be interrupted", "R": "running", "S": "sleeping"}


def _words(doing: Doing) -> str:
    """What a process does, in a line."""
    who = f"rank {doing['rank']}: " if doing["rank"] is not None else ""
    where = f", in {doing['where']}" if doing["where"] and doing["state"] != "R" else ""
    used = f"{doing['cpu']:.0%} of a processor"
    share = f", {doing['system']:.0%} of it in the kernel" if doing["cpu"] >= _BUSY else ""
    return f"{who}process {doing['pid']} ({doing['name']}): {_STATES[doing['state']]}{where}; {used}{share}"


def _collectives(count: int) -> str:
    return f"{count} collective{'' if count == 1 else 's'}"
