# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Where the ranks of a launch run, by a line that each of them prints before its program begins."""

from __future__ import annotations

import collections
import dataclasses
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._problem import Problem

_WORD = "gpufabric-rank"
#: To the error output, so that nothing is added to what the program prints. SSH_CONNECTION ends with the address and port that
#: the host was reached at; on the launcher it is empty.
_STARTER = f'echo "{_WORD} $OMPI_COMM_WORLD_RANK $OMPI_COMM_WORLD_SIZE $(uname -n) $SSH_CONNECTION" >&2; exec "$0" "$@"'
_MARK = re.compile(rf"{_WORD} (\d{{1,9}}) (\d{{1,9}}) (\S+)(?: \S+ \d+ (\S+) \d+)?[ \t]*(?:\r?\n|\Z)")
#: Characters of an unfinished line that are kept.
_LONGEST = 4096


def started(program: t.Sequence[str]) -> list[str]:
    """The argv by which a rank says where it is, and then becomes the program."""
    return ["/bin/sh", "-c", _STARTER, *program]


def without_marks(text: str) -> str:
    """An error output without the lines of the ranks."""
    return _MARK.sub("", text)


@dataclasses.dataclass(frozen=True)
class Mark:
    """What a rank says of itself. ``host``: as uname has it. ``address``: None on the launcher."""

    rank: int
    size: int
    host: str
    address: str | None


class Marks:
    """Reads the marks in an error output that grows."""

    def __init__(self) -> None:
        self.found: dict[int, Mark] = {}
        self._carry = ""

    def feed(self, block: bytes) -> None:
        """Take what was printed since the last time."""
        lines, end, carry = (self._carry + block.decode("latin-1")).rpartition("\n")
        self._carry = carry[-_LONGEST:]
        for match in _MARK.finditer(lines + end):
            rank, size, host, address = match.groups()
            self.found.setdefault(int(rank), Mark(int(rank), int(size), host, address))


@dataclasses.dataclass(frozen=True)
class Launcher:
    """The node that mpirun runs on, by its name and all its addresses."""

    name: str
    addresses: frozenset[str]

    def is_host(self, host: str) -> bool:
        """Whether a host of the hostfile is this node."""
        return host == "localhost" or host in self.addresses or _short(host) == _short(self.name)


def host_finder(hosts: t.Sequence[str], launcher: Launcher) -> t.Callable[[Mark], str | None]:
    """What says which host of the hostfile a rank is on; None where that cannot be said."""
    own = next((host for host in hosts if launcher.is_host(host)), None)
    names = {_short(host): host for host in reversed(hosts)}

    def find(mark: Mark) -> str | None:
        if mark.address in hosts:
            return mark.address
        if mark.address is None and mark.host == launcher.name:
            return own
        return names.get(_short(mark.host))

    return find


def ranks_by_host(
    marks: t.Iterable[Mark], hosts: t.Sequence[str], launcher: Launcher
) -> tuple[dict[str, int], dict[str, int]]:
    """How many ranks each host of the hostfile has, and each other one that no host of it can be said to be."""
    find = host_finder(hosts, launcher)
    known: collections.Counter[str] = collections.Counter()
    others: collections.Counter[str] = collections.Counter()
    for mark in marks:
        host = find(mark)
        if host is not None:
            known[host] += 1
        else:
            others[mark.host if mark.address is None else f"{mark.host} ({mark.address})"] += 1
    return dict(known), dict(others)


def missing_hosts(marks: t.Iterable[Mark], hosts: t.Sequence[str], launcher: Launcher) -> list[str]:
    """The hosts of the hostfile that no rank is on, where that can be said."""
    known, others = ranks_by_host(marks, hosts, launcher)
    return [] if others else [host for host in hosts if host not in known]


def placement_problems(
    marks: t.Sequence[Mark], hosts: t.Sequence[str], ranks: int, launcher: Launcher
) -> list[Problem]:
    """Whether all ranks took part, on all hosts of the hostfile. Empty where they did."""
    known, others = ranks_by_host(marks, hosts, launcher)
    seen = {**known, **others}
    placed = ", ".join(f"{count} on {host}" for host, count in list(seen.items())[:8])
    evidence = f"ranks started: {placed or 'none'}; expected: {ranks} on {', '.join(hosts[:8])}"
    if not marks:
        return [problem("ranks-unknown", evidence=evidence, ranks=ranks)]
    if ranks > 1 and {mark.size for mark in marks} == {1}:
        return [problem("mpi-missing", evidence=evidence, count=len(marks), ranks=ranks)]
    problems = []
    sizes = {mark.size for mark in marks}
    if len(marks) != ranks or sizes != {ranks}:
        count = len(marks) if len(marks) != ranks else max(sizes)
        problems.append(problem("ranks-differ", evidence=evidence, count=count, ranks=ranks))
    if len(seen) < len(hosts):
        missing = [] if others else [host for host in hosts if host not in known]
        only = next(iter(seen))
        if len(seen) == 1 and all(mark.address is None and mark.host == launcher.name for mark in marks):
            what = f"All {len(marks)} ranks ran on the launcher, {launcher.name}; {len(hosts)} hosts were expected"
        elif len(seen) == 1:
            what = f"All {len(marks)} ranks ran on {only}; {len(hosts)} hosts were expected"
        elif len(missing) == 1:
            what = f"Host {missing[0]} took no part"
        else:
            what = f"{len(seen)} of {len(hosts)} hosts took part"
            what += f"; not {', '.join(missing[:8])}" if missing else f": {', '.join(list(seen)[:8])}"
        problems.append(problem("hosts-differ", missing[0] if len(missing) == 1 else None, evidence, what=what))
    return problems


def _short(name: str) -> str:
    # An address has no domain.
    return name if ":" in name or re.match(r"[\d.]+\Z", name) else name.split(".")[0].lower()
