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

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.result_catalogue import RESULT_CATALOGUE
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.placement import placement_problems
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RUN_DIR_VARIABLE
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import listing

#: Where NCCL's logs are in a run's directory.
LOGS = "mpi/nccl"
_WORD = "gpufabric-rank"
#: To the error output, so that nothing is added to what the program prints. SSH_CONNECTION ends with the address and port that
#: the host was reached at; on the launcher it is empty.
_STARTER = f'echo "{_WORD} $OMPI_COMM_WORLD_RANK $OMPI_COMM_WORLD_SIZE $(uname -n) $SSH_CONNECTION" >&2; exec "$0" "$@"'
#: NCCL_DEBUG_FILE names a file in the run's directory on the launcher, which another host may have elsewhere: its sshd says where. The
#: directory of the file, which NCCL does not make, is made.
_LOG_STARTER = (
    f'[ -z "${RUN_DIR_VARIABLE}" ] || NCCL_DEBUG_FILE=${RUN_DIR_VARIABLE}/{LOGS}/${{NCCL_DEBUG_FILE##*/{LOGS}/}}; export NCCL_DEBUG_FILE; '
    '(umask 077; mkdir -p "${NCCL_DEBUG_FILE%/*}") 2>/dev/null; ' + _STARTER
)
_MARK = re.compile(rf"{_WORD} (\d{{1,9}}) (\d{{1,9}}) (\S+)(?: \S+ \d+ (\S+) \d+)?[ \t]*(?:\r?\n|\Z)")
#: Ranks whose marks are kept: no run has more, and what prints marks without end would fill the memory.
MOST_RANKS = 1 << 18
#: Characters of an unfinished line that are kept.
_LONGEST = 4096


def started(program: t.Sequence[str], logs: bool = False) -> list[str]:
    """The argv by which a rank says where it is, and then becomes the program. ``logs``: to the file NCCL_DEBUG_FILE."""
    return ["/bin/sh", "-c", _LOG_STARTER if logs else _STARTER, *program]


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
            if len(self.found) >= MOST_RANKS:
                return
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
    known = frozenset(hosts)

    def find(mark: Mark) -> str | None:
        if mark.address in known:
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
            others[_name_of(mark)] += 1
    return dict(known), dict(others)


def missing_hosts(marks: t.Iterable[Mark], hosts: t.Sequence[str], launcher: Launcher) -> list[str]:
    """The hosts of the hostfile that no rank is on, where that can be said."""
    known, others = ranks_by_host(marks, hosts, launcher)
    return [] if others else [host for host in hosts if host not in known]


def started_placement_problems(
    marks: t.Sequence[Mark], hosts: t.Sequence[str], ranks: int, launcher: Launcher
) -> list[Problem]:
    """What is wrong with where the ranks started; empty if all did, on all hosts of the hostfile."""
    sizes = {mark.size for mark in marks}
    if ranks > 1 and sizes == {1}:
        names = listing(dict.fromkeys(mark.host for mark in marks))
        evidence = f"ranks started: {len(marks)}, each as the only one of its run; expected: {ranks}"
        return [RESULT_CATALOGUE.problem("mpi-missing", evidence=evidence, runs=len(marks), hosts=names, ranks=ranks)]
    find = host_finder(hosts, launcher)
    placed = {mark.rank: find(mark) or _name_of(mark) for mark in marks}
    on_launcher = [placed[mark.rank] for mark in marks if mark.address is None and mark.host == launcher.name]
    # A host that cannot be said to be one of the hostfile may be any of it.
    expected = hosts if set(placed.values()) <= set(hosts) else len(hosts)
    return placement_problems(
        placed,
        ranks,
        expected,
        "started",
        size=max(sizes, default=None),
        titles=dict.fromkeys(on_launcher, f"the launcher, {launcher.name}"),
    )


def _name_of(mark: Mark) -> str:
    """What to call the host of a rank, if no host of the hostfile can be said to be it."""
    return mark.host if mark.address is None else f"{mark.host} ({mark.address})"


def _short(name: str) -> str:
    # An address has no domain.
    return name if ":" in name or re.match(r"[\d.]+\Z", name) else name.split(".")[0].lower()
