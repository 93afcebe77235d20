# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""A point that hangs: one pass over all its hosts before it is ended, and two questions to NCCL's RAS on one of them."""

from __future__ import annotations

import dataclasses
import re
import time
import typing as t
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from ansible_collections.gpufabric.nccl.plugins.module_utils import _remote_python
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._hang import look
from ansible_collections.gpufabric.nccl.plugins.module_utils._hang.judge import Seen
from ansible_collections.gpufabric.nccl.plugins.module_utils._hang.ras import Report, parse_report
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.reaper import Reach
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import free_ports
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import DidNotEnd, run
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import (
    DAEMON_VARIABLES,
    POINT_VARIABLE,
    RUN_DIR_VARIABLE,
)

#: Where RAS listens. If a user sets one of these, it is his.
RAS_ADDRESS = "NCCL_RAS_ADDR"
USERS_OWN = (RAS_ADDRESS, "NCCL_RAS_ENABLE")
#: Below the ports that Linux hands out by itself (net.ipv4.ip_local_port_range): NCCL's own connections have those.
_PORTS = range(20000, 32768)

_CONNECT_TIMEOUT = 5
#: Seconds that a host has to answer, after which no further host and no RAS is asked, and that RAS has for both of its answers.
_HOST_DEADLINE, _LAST_BEGIN, _RAS_DEADLINE = 7.0, 5.0, 7.0
#: Bytes of an answer of a host, and of RAS's two.
_MOST_ANSWER, _MOST_RAS_ANSWERS = 8 << 20, 32 << 20
_AT_ONCE = 128
_NO_ANSWER = re.compile(r"timed? ?out", re.IGNORECASE)


def ras_address() -> str:
    """An address for RAS that no other run on this node has; each host has a loopback of its own."""
    try:
        return f"127.0.0.1:{free_ports('127.0.0.1', 1, _PORTS)[0]}"
    except NodeError:
        # NCCL's own one may do as well.
        return ""


def looking_sources() -> tuple[tuple[str, str], ...]:
    """What runs on the other hosts. To be called while the module's own files are there."""
    return tuple(_remote_python.sources_of(look.__name__))


@dataclasses.dataclass(frozen=True)
class Watched:
    """The point that is looked at. ``name``: the value of its variables. ``directory``: of the run on this node.

    ``own``: this node's name among the hosts; None if it has no ranks.
    """

    name: str
    directory: str
    own: str | None


class _Unanswered(t.NamedTuple):
    reason: str
    frozen: bool


def look_at_hang(
    watched: Watched, reach: Reach, sources: t.Sequence[tuple[str, str]], environment: t.Mapping[str, str]
) -> Seen:
    """What all hosts tell of a point, all at once, within 12 seconds."""
    return _Pass(watched, reach, sources, environment).work()


class _Pass:
    def __init__(
        self,
        watched: Watched,
        reach: Reach,
        sources: t.Sequence[tuple[str, str]],
        environment: t.Mapping[str, str],
    ) -> None:
        self._watched = watched
        self._reach = reach
        self._sources = sources
        self._environment = {**environment, **reach.environment}
        self._command = _remote_python.python_command(None, f"{look.MARK}null")
        self._begin = time.monotonic()
        self._names = (POINT_VARIABLE, *DAEMON_VARIABLES)

    def work(self) -> Seen:
        """Ask all hosts."""
        answers: dict[str, look.Answer] = {}
        unanswered: dict[str, _Unanswered] = {}
        reports: tuple[Report, ...] = ()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            looks: dict[Future[t.Any], str] = {pool.submit(self._look, host): host for host in self._reach.hosts}
            if self._watched.own is not None:
                looks[pool.submit(self._look_here)] = self._watched.own
            questions: set[Future[t.Any]] = set()
            waiting: set[Future[t.Any]] = set(looks)
            # As soon as a host has answered, its RAS is asked: others may give no answer for long.
            candidates: list[tuple[str, str]] = []
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    if future in questions:
                        questions.remove(future)
                        reports = reports or future.result()
                        continue
                    host, found = looks[future], future.result()
                    if isinstance(found, _Unanswered):
                        unanswered[host] = found
                        continue
                    answers[host] = found
                    candidates += [(host, address) for address in found["ras"]]
                is_late = time.monotonic() - self._begin > _LAST_BEGIN
                if candidates and not questions and not reports and not is_late:
                    questions.add(pool.submit(self._ask_ras, *candidates.pop(0)))
                    waiting |= questions
        frozen = {host: found.reason for host, found in unanswered.items() if found.frozen}
        unread = {host: found.reason for host, found in unanswered.items() if not found.frozen}
        return Seen(answers, frozen, unread, reports)

    def _look_here(self) -> look.Answer | _Unanswered:
        try:
            return look.look(self._watched.name, self._watched.directory, RUN_DIR_VARIABLE, self._names)
        except Exception as error:
            return _Unanswered(f"{type(error).__name__}: {error}"[:300], False)

    def _look(self, host: str) -> look.Answer | _Unanswered:
        if time.monotonic() - self._begin > _LAST_BEGIN:
            return _Unanswered("not asked for want of time", False)
        parameters = {"point": self._watched.name, "variable": RUN_DIR_VARIABLE, "names": self._names}
        try:
            stdout, stderr = self._run(host, parameters, _HOST_DEADLINE, _MOST_ANSWER)
        except DidNotEnd:
            return _Unanswered(f"no answer within {_HOST_DEADLINE:g} s", True)
        except NodeError as error:
            return _Unanswered(str(error), False)
        answer = look.parse_answer(stdout)
        if answer is not None:
            return answer
        said = stderr.strip().splitlines()
        reason = said[-1][:300] if said else "it gave no answer"
        return _Unanswered(reason, _NO_ANSWER.search(reason) is not None)

    def _ask_ras(self, host: str, address: str) -> tuple[Report, ...]:
        try:
            if host == self._watched.own:
                texts = look.ask_ras(address, _RAS_DEADLINE)
            else:
                stdout, _stderr = self._run(
                    host, {"ask": address, "seconds": _RAS_DEADLINE}, _RAS_DEADLINE + 1, _MOST_RAS_ANSWERS
                )
                texts = look.parse_ras(stdout)
        except Exception:
            # What /proc tells stays.
            return ()
        reports = [parse_report(text) for text in texts]
        return tuple(report for report in reports if report is not None) if None not in reports else ()

    def _run(self, host: str, parameters: t.Mapping[str, t.Any], timeout: float, most: int) -> tuple[str, str]:
        options = ["-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_TIMEOUT}"]
        done = run(
            [*self._reach.agent, *options, host, self._command],
            timeout=timeout,
            environment=self._environment,
            most=most,
            own_session=True,
            data=_remote_python.program_text(self._sources, parameters),
        )
        return done.stdout, done.stderr
