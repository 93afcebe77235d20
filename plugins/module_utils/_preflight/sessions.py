# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Checks all peers of a launch from the launcher, and the launcher from all peers, before mpirun runs."""

from __future__ import annotations

import ast
import collections
import concurrent.futures
import contextlib
import dataclasses
import fnmatch
import functools
import ipaddress
import json
import os
import re
import secrets
import select
import socket
import socketserver
import subprocess
import threading
import time
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils import _net, _process, _remote_python
from ansible_collections.gpufabric.nccl.plugins.module_utils._connect import Attempt, connect, read_banner, read_line
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.openmpi import PREFIX_VARIABLES, library_path
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.resolution import Resolver, source_address
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import is_numeric
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.info import MPI_PREFIXES
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight import probe as probe_script
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight import probe_full
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.answers import (
    checked_facts,
    checked_links,
    complete,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.checks import (
    STAGES,
    Finding,
    Seen,
    Settings,
    check_addresses,
    check_links,
    check_names,
    check_rdma,
    findings_of,
    own_networks,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.large_packets import loses_large
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.probe_full import CONTROL

#: How many logins are under way at a time: each takes time of a processor, and sshd and ssh give each only so long.
_LOGINS = 128
#: How long, in seconds, a login and a look may take beside their connections, a closer look, and the end of a session.
_LOGIN, _CLOSER_LOOK, _CLOSING = 20.0, 60.0, 5.0
#: How many bytes that are no answer a peer may print, and how many of them of the standard error are kept.
_MOST_NOISE, _MOST_ERRORS = 1 << 20, 1 << 16
_MARK = probe_script.MARK.encode()
#: What a probe prints its facts in. On other expressions, such as long sums, the parser of Python up to 3.10 crashes.
_WORD = re.compile(
    r"""((?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:e[+-]\d+)?|None|True|False)(?=[\s,:}\])]|\Z))|[\s,:{}\[\]()]+"""
)
#: The same crash comes of values one after the other, such as [1 -1 -1] and (1)(1)(1). Each value is a 0 here.
_WITHOUT_COMMA = re.compile(r"[0}\])]\s*[0{\[(]")


@dataclasses.dataclass(frozen=True)
class Peer:
    """A host to check. ``python``: the interpreter to try first. ``run_dir``: the directory of the run on the host.

    ``control_interface``, ``data_interface``: the host's own, empty for none; by default those of the settings.
    """

    name: str
    address: str | None = None
    python: str | None = None
    run_dir: str | None = None
    control_interface: str | None = None
    data_interface: str | None = None


def parse_ssh_config(text: str) -> dict[str, dict[str, list[str]]]:
    """The values of each keyword (in lower case) by host, from the text of a run's ssh_config with one name to a Host line."""
    hosts: dict[str, dict[str, list[str]]] = {}
    keywords: dict[str, list[str]] = {}
    for line in text.splitlines():
        keyword, _blank, value = line.strip().partition(" ")
        if keyword.lower() == "host":
            keywords = hosts.setdefault(value.strip(), {})
        elif keyword and not keyword.startswith("#"):
            keywords.setdefault(keyword.lower(), []).append(value.strip())
    return hosts


def try_variables(patterns: t.Sequence[str], environment: t.Mapping[str, str]) -> dict[str, str]:
    """A variable for each pattern, to test whether such variables reach a peer: one that is set, else a stand-in."""
    chosen: dict[str, str] = {}
    for pattern in patterns:
        matching = {name: value for name, value in environment.items() if fnmatch.fnmatchcase(name, pattern)}
        stand_in = pattern.replace("*", "GPUFABRIC_PREFLIGHT").replace("?", "X")
        chosen.update(matching or {stand_in: "/gpufabric-preflight"})
    # sshd takes values of one line.
    return {name: value for name, value in chosen.items() if value and "\n" not in value}


def not_sent(variables: t.Iterable[str], send_env: t.Sequence[str]) -> list[str]:
    """The variables that ssh does not send, by the SendEnv lines of its configuration."""
    patterns = [pattern for line in send_env for pattern in line.split()]
    return sorted(name for name in variables if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns))


def remote_command(python: str | None) -> str:
    """The command for any login shell of a peer: it runs the probe with a Python that is new enough."""
    return _remote_python.python_command(python, f"{probe_script.MARK}None")


@functools.lru_cache(maxsize=None)
def _sources(full: bool) -> list[tuple[str, str]]:
    return _remote_python.sources_of((probe_full if full else probe_script).__name__)


def program_text(parameters: t.Mapping[str, t.Any]) -> bytes:
    """The probe with its parameters, as the peer's Python reads it from its standard input."""
    return _remote_python.program_text(_sources(parameters["full"]), parameters)


def listening(facts: t.Mapping[str, t.Any]) -> dict[str, dict[str, t.Any]]:
    """Where a peer waits for what others send: address and port, by data interface and for the control network."""
    control = facts.get("control")
    return {**facts.get("data", {}), **({CONTROL: control} if control else {})}


def plan_links(data: t.Sequence[str], reach: int = 3) -> dict[str, list[str]]:
    """The hosts that each host sends to: its next ``reach`` neighbours in a ring. Each host receives from as many."""
    count = len(data)
    return {
        host: [data[(index + step) % count] for step in range(1, min(reach, count - 1) + 1)]
        for index, host in enumerate(data)
    }


def connect_first(address: str, port: int, timeout: float) -> Attempt:
    """The first connection to a peer, tried twice if nothing answers.

    A machine that was rebuilt has another hardware address, which the kernel takes some seconds to find out.
    """
    attempt = connect(address, port, timeout)
    return connect(address, port, timeout) if attempt.status in ("timeout", "unreachable") else attempt


def usual_program(programs: t.Iterable[dict[str, t.Any] | None]) -> dict[str, t.Any] | None:
    """The program that most peers have, of what each tells of it; None if it is on none."""
    there = [one for one in programs if one and one["exists"]]
    counts = collections.Counter(one["sha256"] for one in there)
    return max(there, key=lambda one: counts[one["sha256"]]) if there else None


class _CallBack(socketserver.ThreadingTCPServer):
    """Answers peers that connect to the launcher with its time."""

    # All call at once.
    request_queue_size = 1024
    daemon_threads = True
    allow_reuse_address = False

    def __init__(self, address: str, token: str) -> None:
        if ":" in address:
            self.address_family = socket.AF_INET6
        self.token = token
        super().__init__((address, 0), _Answer)
        # It looks that often whether it is to end.
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()


class _Answer(socketserver.BaseRequestHandler):
    server: _CallBack

    def handle(self) -> None:
        self.request.settimeout(10)
        with contextlib.suppress(OSError):
            if read_line(self.request).decode(errors="replace").strip() == self.server.token:
                self.request.sendall(f"{self.server.token} {time.time()!r}\n".encode())


class Session:
    """An ssh session with the probe at its other end."""

    def __init__(self, argv: t.Sequence[str], environment: t.Mapping[str, str], source: bytes) -> None:
        pipe = subprocess.PIPE
        # The module's run_command gives no pipes to talk over.
        try:
            self._process = subprocess.Popen(  # pylint: disable=ansible-bad-function
                argv, env=dict(environment), stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0
            )
        except OSError as error:
            raise NodeError(f"cannot run {argv[0]}: {error.strerror}") from error
        # They are pipes, which Popen's types do not tell.
        self._stdin, self._stdout, self._stderr = t.cast(
            "tuple[t.IO[bytes], ...]", (self._process.stdin, self._process.stdout, self._process.stderr)
        )
        # Of a session that never reads, the pipe is full at some time.
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stderr.fileno(), False)
        self._begun = time.monotonic()
        self._input = source
        self._answers: list[dict[str, t.Any] | None] = []
        #: The beginning of a line, and how much else has come that was no answer.
        self._rest = b""
        self._noise = 0
        self._ended = False
        self._other_output = ""
        self._errors = b""
        self._errors_ended = False

    def write(self, data: bytes) -> None:
        """Queue text for the probe; it is sent when the probe reads."""
        self._input += data

    def wait(self, seconds: float) -> bool:
        """Send queued text until there is something to read or the session ends; False when the time is up or it is too noisy."""
        deadline = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._stdout, select.POLLIN)
        if self._input:
            poll.register(self._stdin, select.POLLOUT)
        if not self._errors_ended:
            poll.register(self._stderr, select.POLLIN)
        while True:
            left = deadline - time.monotonic()
            ready = {number for number, _event in poll.poll(max(left, 0) * 1000)}
            if self._stderr.fileno() in ready and not self._read_errors():
                poll.unregister(self._stderr)
            if self._stdout.fileno() in ready:
                return True
            if self._stdin.fileno() in ready:
                try:
                    self._input = self._input[os.write(self._stdin.fileno(), self._input) :]
                except OSError:
                    # The session is over; reading from it says so.
                    self._input = b""
                if not self._input:
                    poll.unregister(self._stdin)
            if left <= 0 or self.is_noisy():
                return False

    def is_noisy(self) -> bool:
        """Whether it prints so much that is no answer that there may be no end."""
        return self._noise > _MOST_NOISE

    def read(self, seconds: float) -> tuple[bool, t.Any]:
        """Whether the probe answered in time, and its answer; None from a peer without Python."""
        deadline = time.monotonic() + seconds
        while True:
            if self._answers:
                return True, self._answers.pop(0)
            if self._ended:
                return False, None
            left = deadline - time.monotonic()
            if left > 0 and not self.is_noisy() and self.wait(left):
                self._take(os.read(self._stdout.fileno(), 1 << 16))
                continue
            if not self.is_noisy():
                self._other_output += f"no answer in {time.monotonic() - self._begun:.0f} s"
            self._process.kill()
            return False, None

    def close(self) -> tuple[int | None, str]:
        """End the session; return ssh's exit status and what ssh and the peer's shell printed instead of an answer.

        The status is None if ssh had to be ended.
        """
        self._stdin.close()
        try:
            status = self._process.wait(_CLOSING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        while not self._errors_ended and not self.is_noisy() and self._read_errors():
            pass
        self._stdout.close()
        self._stderr.close()
        return status if status >= 0 else None, f"{self._errors.decode(errors='replace')}{self._other_output}".strip()

    def _take(self, data: bytes) -> None:
        """Take what has come from the peer; nothing: its end."""
        self._ended = not data
        self._noise += len(data)
        lines = (self._rest + data).split(b"\n")
        self._rest = b"" if self._ended else lines.pop()
        if not any(line.startswith(_MARK) for line in lines):
            # Much, perhaps.
            lines = lines[-1000:]
        others = []
        for line in lines:
            text = line.decode(errors="replace")
            is_answer, answer = _answer_in(text)
            if is_answer:
                self._answers.append(answer)
                self._noise = 0
            else:
                others.append(f"{text}\n")
        self._other_output = f"{self._other_output}{''.join(others)}"[-2000:]

    def _read_errors(self) -> bool:
        """Keep the end of what ssh and the peer print to their standard error; whether there may be more."""
        try:
            data = os.read(self._stderr.fileno(), 1 << 16)
        except BlockingIOError:
            return False
        self._errors_ended = not data
        self._noise += len(data)
        self._errors = (self._errors + data)[-_MOST_ERRORS:]
        return bool(data)


def _answer_in(line: str) -> tuple[bool, dict[str, t.Any] | None]:
    """Whether a line is an answer of the probe, and the answer; None of a peer without Python."""
    if line.startswith(probe_script.MARK) and _is_plain(line, len(probe_script.MARK)):
        # TypeError: a dictionary whose key is a list.
        with contextlib.suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            answer = ast.literal_eval(line[len(probe_script.MARK) :])
            return answer is None or isinstance(answer, dict), answer
    return False, None


def _is_plain(text: str, position: int) -> bool:
    """Whether all of a text from a position on is such as a probe prints its facts in."""
    words = []
    while position < len(text):
        match = _WORD.match(text, position)
        if match is None:
            return False
        words.append("0" if match[1] else match[0])
        position = match.end()
    return _WITHOUT_COMMA.search("".join(words)) is None


class Preflight:
    """Checks all peers at once."""

    def __init__(
        self,
        settings: Settings,
        agent: t.Sequence[str],
        config: str,
        environment: t.Mapping[str, str],
        callback_address: str,
    ) -> None:
        """``agent``: the argv of ssh. ``config``: the text of its configuration."""
        self.settings = settings
        self._agent = agent
        self._config = parse_ssh_config(config)
        self._variables = try_variables(settings.environment, environment)
        self._environment = {**environment, **self._variables}
        self._address = callback_address
        self._token = secrets.token_hex(16)
        # A login takes time of a processor; those that wait for a dead host take none, and are not counted.
        self._logins = threading.BoundedSemaphore(_LOGINS)

    def run(self, peers: t.Sequence[Peer]) -> dict[str, Seen]:
        """What was seen of each peer, by its name, in their order."""
        # A session takes four.
        _process.raise_file_limit()
        seen = {
            peer.name: Seen(peer.name, peer.address, control=peer.control_interface, data=peer.data_interface)
            for peer in peers
        }
        with _CallBack(self._address, self._token) as server:
            port = server.server_address[1]
            with concurrent.futures.ThreadPoolExecutor(max_workers=len(peers) + 1) as pool:
                # The launcher looks at itself as at the others, and calls nobody.
                own = pool.submit(lambda: complete(probe_script.look(self._parameters(peers[0], 0))))
                sessions = dict(zip(seen, pool.map(lambda peer: self._look_at(peer, seen[peer.name], port), peers)))
                reference = own.result()
                if self.settings.full:
                    self._send_around(seen, sessions, pool)
                list(pool.map(lambda name: self._close(seen[name], sessions[name]), seen))
            server.shutdown()
        if not (reference["program"] or {}).get("exists"):
            # A launcher that is no worker itself may lack it.
            reference["program"] = usual_program(one.facts["program"] for one in seen.values() if one.facts)
        for one in seen.values():
            one.reference = reference
            one.not_sent = not_sent(self._variables, self._config.get(one.address or "", {}).get("sendenv", []))
        return seen

    def _resolve(self, seen: Seen) -> None:
        """Find the address of a peer that has none yet."""
        if is_numeric(seen.name):
            seen.address = seen.name
            return
        answer = Resolver(self.settings.timeout, 0.5).resolve({seen.name: [seen.name]}, {})
        if seen.name not in answer.found:
            seen.unresolved = answer.errors.get(seen.name, "")
            return
        found = answer.found[seen.name][1]
        usable = [item for item in found if not ipaddress.ip_address(item).is_loopback]
        # The address that the run's ssh knows; a host may have others, for other networks.
        known = [item for item in usable if item in self._config]
        seen.address = next(iter(known or usable), None)
        seen.loopback = [] if usable else found

    def _parameters(self, peer: Peer, port: int) -> dict[str, t.Any]:
        settings = self.settings
        return {
            "prefix": settings.prefix,
            "daemon": settings.daemon,
            "libraries": library_path(settings.prefix, "").split(":"),
            "places": MPI_PREFIXES,
            "foreign": PREFIX_VARIABLES,
            "program": settings.program,
            "control": settings.control if peer.control_interface is None else peer.control_interface or None,
            "variables": self._variables,
            "run_dir": peer.run_dir or settings.run_dir,
            "callback": {"address": self._address, "port": port},
            "token": self._token,
            "full": settings.full,
            "data_interface": settings.data_interface if peer.data_interface is None else peer.data_interface,
            "timeout": settings.timeout,
            "deadline": settings.deadline,
        }

    def _look_at(self, peer: Peer, seen: Seen, port: int) -> Session | None:
        if seen.address is None:
            self._resolve(seen)
        if seen.address is None:
            return None
        keywords = self._config.get(seen.address, {})
        # An adopted host's port may be said elsewhere, and a proxy is not to be gone around.
        seen.port = int(keywords["port"][0]) if "port" in keywords else self._port_of(seen.address)
        seen.user = next(iter(keywords.get("user", [])), None)
        if seen.port is not None:
            attempt = connect_first(seen.address, seen.port, self.settings.timeout)
            seen.attempt = attempt._replace(connection=None)
            if attempt.connection is None:
                return None
            with attempt.connection as connection:
                seen.banner = read_banner(connection)
            if seen.banner[0] != "ssh":
                return None
        command = remote_command(peer.python)
        # In its default, the run's, ssh does not say that a key is missing.
        options = ["-T", "-o", "LogLevel=INFO", "-o", f"ConnectTimeout={max(1, round(self.settings.timeout))}"]
        source = program_text(self._parameters(peer, port))
        argv = [*self._agent, *options, seen.address, command]
        begin = time.monotonic()
        with self._logins:
            session = Session(argv, self._environment, source)
            # A login that hangs takes no time of a processor either.
            session.wait(self.settings.timeout)
        seen.answered, facts = session.read(_LOGIN + self.settings.timeout)
        if not seen.answered and seen.port is not None and time.monotonic() - begin >= self.settings.timeout:
            seen.loses_large = loses_large(seen.address, seen.port, self.settings.timeout)
        if facts and self.settings.full:
            seen.answered, more = session.read(_CLOSER_LOOK)
            facts = {**facts, **(more or {})}
        if seen.answered and facts is not None:
            try:
                seen.facts = complete(checked_facts(seen.name, facts, self.settings.full))
            except NodeError as error:
                seen.wrong = str(error)
        return session

    def _port_of(self, address: str) -> int | None:
        result = _process.run([*self._agent, "-G", address])
        values = dict(line.split(" ", 1) for line in result.stdout.splitlines() if " " in line)
        if "proxycommand" in values or "proxyjump" in values:
            return None
        return int(values["port"]) if values.get("port", "").isdigit() else None

    def _send_around(
        self,
        seen: t.Mapping[str, Seen],
        sessions: t.Mapping[str, Session | None],
        pool: concurrent.futures.Executor,
    ) -> None:
        names = {name: own_networks(one, self.settings) for name, one in seen.items()}
        places = {
            name: {network: own[names[name][network]] for network in names[name] if names[name][network] in own}
            for name, one in seen.items()
            for own in [listening(one.facts) if one.facts else {}]
            if own
        }
        targets: dict[str, list[dict[str, t.Any]]] = {name: [] for name in places}
        # A ring for each network: a peer that lacks one must not leave its neighbours there with fewer witnesses.
        for network in dict.fromkeys(network for there in places.values() for network in there):
            for name, others in plan_links([name for name in places if network in places[name]]).items():
                # All have called the launcher back already.
                there = [other for other in others if (network, other) != (CONTROL, self.settings.launcher)]
                own = names[name][network]
                targets[name] += [{"host": other, "interface": own, **places[other][network]} for other in there]

        def exchange(item: tuple[str, list[dict[str, t.Any]]]) -> None:
            name, own = item
            session = sessions[name]
            if session is None:
                # One that has told its facts has a session.
                return
            session.write(f"{json.dumps(own)}\n".encode())
            try:
                links = checked_links(name, session.read(_CLOSER_LOOK)[1] or {})
                seen[name].links = {network: links[own] for network, own in names[name].items() if own in links}
            except NodeError as error:
                seen[name].wrong = str(error)

        list(pool.map(exchange, targets.items()))

    def _close(self, seen: Seen, session: Session | None) -> None:
        if session is not None:
            seen.noisy = session.is_noisy()
            seen.status, seen.output = session.close()


def judge(seen: t.Mapping[str, Seen], settings: Settings) -> tuple[list[dict[str, t.Any]], list[Problem]]:
    """The hosts and the problems, as ``mpi_preflight`` returns them."""
    of_several = (
        check_names(seen),
        check_addresses(seen, settings),
        check_links(seen, settings),
        check_rdma(seen, settings),
    )
    hosts, problems = [], []
    for name, one in seen.items():
        findings: list[Finding] = findings_of(one, settings) + [
            item for found in of_several for item in found.get(name, [])
        ]
        findings.sort(key=lambda finding: STAGES.index(finding.stage))
        failed = [finding.stage for finding in findings if finding.problem.severity == "error"]
        hosts.append(
            {
                "name": name,
                "address": one.address,
                "ok": not failed,
                "stage": failed[0] if failed else None,
                "problems": [finding.problem.id for finding in findings],
                "facts": one.facts,
            }
        )
        problems += [finding.problem for finding in findings]
    return hosts, _once(problems)


def _once(problems: t.Iterable[Problem]) -> list[Problem]:
    # What is wrong with the launcher is met at each peer.
    return list(dict.fromkeys(problems))


def choose_callback_address(
    control: str | None, addresses: t.Sequence[_net.InterfaceAddress], first: str | None
) -> str:
    """The launcher's address on the control network, given as an interface or a subnet, else the one towards a peer.

    Raises GpufabricError.
    """
    if control is not None and "/" in control:
        return _net.choose_address(addresses, subnet=control)
    if control is not None:
        return _net.choose_address(addresses, interface=control)
    from_here = first and source_address(first)
    if not from_here:
        raise NodeError("this node has no route to any of the hosts; set control_interface")
    return from_here
