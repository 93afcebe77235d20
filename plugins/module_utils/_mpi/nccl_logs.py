# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""NCCL's own log of a launch: what the ranks get to write it, and the one pass over the hosts that summarises it there."""

from __future__ import annotations

import dataclasses
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor

from ansible_collections.gpufabric.nccl.plugins.module_utils import _remote_python
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.result_catalogue import RESULT_CATALOGUE
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.rank_lines import LOGS
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.reaper import Reach
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log import collect
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.reader import NO_HOST, add_facts
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.shapes import FleetFacts
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.summary import host_values
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.document import add_problems
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.logged import with_log
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.shapes import ResultDocument
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import run
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RUN_DIR_VARIABLE
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import listing

#: If a user sets one of these, NCCL's log is his.
USERS_OWN = ("NCCL_DEBUG", "NCCL_DEBUG_FILE")
#: What comes of a summary.
_PROBLEMS = ("transport-differs", "software-differs", "nccl-socket-fallback", "nccl-log-unread")

_SUBSYSTEMS = "INIT,BOOTSTRAP,ENV,NET,GRAPH"
_CONNECT_TIMEOUT = 5
#: Seconds until a host has to have read its logs: some GB.
_DEADLINE = 60.0
_MOST_OUTPUT = 4 << 20
_AT_ONCE = 64


def log_variables(directory: str) -> dict[str, str]:
    """The variables by which each rank writes a log of its own, never to the standard output.

    Without a directory it prints its warnings, which NCCL keeps to itself otherwise.
    """
    if not directory:
        return {"NCCL_DEBUG": "WARN"}
    return {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": _SUBSYSTEMS,
        "NCCL_DEBUG_FILE": f"{directory}/%h.%p{collect.SUFFIX}",
    }


def collecting_sources() -> tuple[tuple[str, str], ...]:
    """What runs on the other hosts. To be called while the module's own files are there."""
    return tuple(_remote_python.sources_of(collect.__name__))


@dataclasses.dataclass(frozen=True)
class Logged:
    """What the logs of a launch told. ``rdma``: the active RDMA ports of hosts that told theirs. ``unread``: hosts, and why.

    ``complaints``: lines that may tell of a failure, of all hosts; each names its own.
    """

    facts: FleetFacts
    complaints: t.Sequence[str]
    rdma: t.Mapping[str, t.Sequence[str]]
    unread: t.Mapping[str, str]
    files: int
    bytes: int
    seconds: float
    wants_sockets: bool

    def added_to(self, document: ResultDocument) -> ResultDocument:
        """A document with the transport, the software, and what is wrong with them.

        The document stays whatever the hosts answered: no answer about the log may cost the results.
        """
        try:
            return self._added_to(document)
        except Exception as error:
            return add_problems(document, [_unread([], _reason(error))])

    def _added_to(self, document: ResultDocument) -> ResultDocument:
        if not self.facts:
            return add_problems(document, self._unread_problems())
        document = with_log(document, self.facts)
        transport = document["transport"]
        if transport:
            transport["log"] = {"files": self.files, "bytes": self.bytes, "seconds": self.seconds}
        return add_problems(document, self._problems(document))

    def _unread_problems(self) -> list[Problem]:
        hosts = list(self.unread)
        return [_unread(hosts, self.unread[hosts[0]].rstrip("."))] if hosts else []

    def _problems(self, document: ResultDocument) -> t.Iterator[Problem]:
        yield from self._unread_problems()
        transport = document["transport"]
        if not transport or self.wants_sockets or not transport["connections"].get("NET"):
            return
        networks = host_values(transport, "network")
        hosts = [host for host, ports in self.rdma.items() if ports and networks.get(host) == "Socket"]
        if hosts:
            ports = listing(self.rdma[hosts[0]])
            host = hosts[0] if len(hosts) == 1 else None
            evidence = f"active on {hosts[0]}: {ports}"
            yield RESULT_CATALOGUE.problem("nccl-socket-fallback", host, evidence, hosts=listing(hosts))


def _unread(hosts: t.Sequence[str], reason: str) -> Problem:
    """``hosts``: those whose logs could not be read; empty if nobody knows."""
    host = hosts[0] if len(hosts) == 1 else None
    return RESULT_CATALOGUE.problem("nccl-log-unread", host, reason, hosts=listing(hosts) if hosts else None)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def unread_logs(hosts: t.Iterable[str], error: Exception) -> Logged:
    """What there is of the logs if the pass over these hosts failed itself."""
    return Logged({}, [], {}, dict.fromkeys(hosts, _reason(error)), 0, 0, 0.0, False)


def copied(told: ResultDocument, document: ResultDocument) -> ResultDocument:
    """A document with the transport of another one that was launched alike. Where its own output tells one, that stays."""
    if not told.get("transport") or document.get("transport"):
        return document
    problems = [Problem.from_dict(entry) for entry in told["problems"] if entry["id"] in _PROBLEMS]
    return add_problems({**document, "transport": told["transport"], "software": told["software"]}, problems)


def collect_logs(
    directory: str,
    own: bool,
    reach: Reach,
    sources: t.Sequence[tuple[str, str]],
    environment: t.Mapping[str, str],
    wants_sockets: bool,
) -> Logged:
    """Have every host summarise its logs, all at once. ``own``: whether this node has ranks."""
    begin = time.monotonic()
    source = _remote_python.program_text(
        sources, {"directory": directory, "variable": RUN_DIR_VARIABLE, "logs": LOGS}
    ).decode()
    command = _remote_python.python_command(None, f"{collect.MARK}null")

    def ask(host: str) -> collect.Answer | str:
        options = ["-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_TIMEOUT}"]
        try:
            done = run(
                [*reach.agent, *options, host, command],
                timeout=_DEADLINE,
                environment={**environment, **reach.environment},
                text=source,
                most=_MOST_OUTPUT,
                own_session=True,
            )
        except NodeError as error:
            return str(error)
        answer = collect.parse_answer(done.stdout)
        if answer is not None:
            return answer
        said = done.stderr.strip().splitlines()
        return said[-1][:300] if said else "it gave no answer"

    facts: FleetFacts = {}
    complaints: list[str] = []
    rdma: dict[str, t.Sequence[str]] = {}
    unread: dict[str, str] = {}
    files = size = 0
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = pool.map(ask, reach.hosts)
        mine: list[collect.Answer | str] = [collect.collect(directory)] if own else []
        for host, answer in [*zip([""], mine), *zip(reach.hosts, answers)]:
            if isinstance(answer, str):
                unread[host] = answer
                continue
            add_facts(facts, answer["facts"])
            complaints += answer["complaints"]
            rdma.update(dict.fromkeys(set(answer["facts"]) - {NO_HOST}, answer["rdma"]))
            files, size = files + answer["files"], size + answer["bytes"]
    return Logged(facts, complaints, rdma, unread, files, size, round(time.monotonic() - begin, 3), wants_sockets)


def chooses_sockets(environment: t.Mapping[str, str]) -> bool:
    """Whether the user himself has NCCL use sockets."""
    return environment.get("NCCL_NET", "").lower() == "socket" or environment.get("NCCL_IB_DISABLE", "0") not in (
        "",
        "0",
    )
