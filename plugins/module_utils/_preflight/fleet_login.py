# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Logs in to the sshds of a whole fleet at once, and names the obstacle of each login that fails."""

from __future__ import annotations

import base64
import concurrent.futures
import contextlib
import dataclasses
import fnmatch
import functools
import hmac
import logging
import multiprocessing
import os
import socket
import stat
import threading
import time
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._connect import connect, read_banner
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import open_file
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.resolution import Resolver
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import is_numeric
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.checks import (
    Finding,
    packets_lost,
    reaching,
    said_by_ssh,
    unresolved,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.large_packets import loses_large
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import raise_file_limit

try:
    import paramiko
except ImportError:
    paramiko = None

#: Before 3.2 it reads no key whose type it is not told.
HAS_PARAMIKO = hasattr(getattr(paramiko, "PKey", None), "from_path")

#: A login takes some five milliseconds of a processor, of which a process uses one.
_HOSTS_PER_PROCESS = 40

#: The connections of a process at a time, which cost nothing: hosts that are down must not keep others waiting.
_CONNECTIONS = 1000

#: The exchanges of keys of a process at a time; more would only wait for its one processor, until time is up. What follows is
#: mostly spent waiting, and a login that hangs must not keep others from beginning.
_EXCHANGES = threading.BoundedSemaphore(16)

#: The signature algorithms of an RSA key, newest first; the type of the key itself is ssh-rsa in all of them.
_RSA = ("rsa-sha2-512", "rsa-sha2-256", "ssh-rsa")

#: Bytes of a command's output that are kept, and all that a host may send: what paramiko takes at once may be GiB.
_MOST_OUTPUT, _MOST_RECEIVED = 2000, 8 << 20

#: What ssh tries in the home directory where no key is named.
_DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """An sshd to log in to. ``address``: a name or a numeric address. Empty ``known_hosts``: any host key is accepted."""

    name: str
    address: str
    port: int
    user: str
    key_file: str | None
    known_hosts: tuple[str, ...]


@dataclasses.dataclass
class Outcome:
    """The outcome of one login. ``seconds``: how long it took."""

    name: str
    finding: Finding | None = None
    banner: str = ""
    output: str = ""
    seconds: float = 0.0

    def as_dict(self) -> dict[str, t.Any]:
        """The entry of ``hosts``."""
        return {
            "name": self.name,
            "ok": self.finding is None,
            "stage": self.finding and self.finding.stage,
            "problem": self.finding and self.finding.problem.id,
            "banner": self.banner,
            "output": self.output,
            "seconds": round(self.seconds, 3),
        }


def parse_endpoints(values: t.Sequence[t.Mapping[str, t.Any]], checking: bool) -> list[Endpoint]:
    """Endpoints from the option of the module. Raises OptionError."""
    endpoints = []
    names: set[str] = set()
    for index, value in enumerate(values):
        option = f"endpoints[{index}]"
        if value["name"] in names:
            raise OptionError(f"{option}.name", value["name"], "each host once")
        names.add(value["name"])
        if not 1 <= value["port"] <= 65535:
            raise OptionError(f"{option}.port", value["port"], "1 to 65535")
        known = tuple(value["known_hosts"]) if checking else ()
        endpoints.append(
            Endpoint(
                value["name"],
                value["address"] or value["name"],
                value["port"],
                value["user"],
                value["key_file"],
                known,
            )
        )
    return endpoints


class KnownHosts:
    """Host keys by host, of known_hosts files (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT)."""

    def __init__(self, text: str) -> None:
        self._plain: dict[str, list[tuple[str, str, str]]] = {}
        self._hashed: list[tuple[bytes, bytes, tuple[str, str, str]]] = []
        self._patterns: list[tuple[str, tuple[str, str, str]]] = []
        for line in text.splitlines():
            fields = line.split()
            marker = fields.pop(0) if fields and fields[0].startswith("@") else ""
            if len(fields) < 3 or fields[0].startswith("#"):
                continue
            names, kind, key = fields[:3]
            entry = (marker, kind, key)
            if names.startswith("|1|"):
                with contextlib.suppress(ValueError):
                    salt, digest = map(base64.b64decode, names[3:].split("|"))
                    self._hashed.append((salt, digest, entry))
            elif any(character in names for character in "*?!"):
                self._patterns.append((names, entry))
            else:
                for name in names.split(","):
                    self._plain.setdefault(name.lower(), []).append(entry)

    def keys_of(self, host: str, port: int) -> list[tuple[str, str, str]]:
        """Marker (``@revoked``, ``@cert-authority`` or nothing), type and key of each entry of a host."""
        name = (host if port == 22 else f"[{host}]:{port}").lower()
        encoded = name.encode()
        # HMAC-SHA1 is the format's choice, not ours. There may be as many as there are hosts to ask for.
        hashed = (entry for salt, digest, entry in self._hashed if hmac.digest(salt, encoded, "sha1") == digest)
        patterns = (entry for names, entry in self._patterns if _matches(names, name))
        return [*self._plain.get(name, ()), *hashed, *patterns]


def _matches(names: str, name: str) -> bool:
    # In brackets is a host with its port.
    patterns = [pattern.lower().replace("[", "[[]") for pattern in names.split(",")]
    if any(fnmatch.fnmatchcase(name, pattern[1:]) for pattern in patterns if pattern.startswith("!")):
        return False
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def check_host_key(known: t.Sequence[tuple[str, str, str]], kind: str, key: str) -> str | None:
    """The id of the problem with a host key, by the entries of its host; None if there is none."""
    if ("@revoked", kind, key) in known:
        return "host-key-changed"
    # Whether an authority signed a key is not to be seen from the key.
    if ("", kind, key) in known or any(marker == "@cert-authority" for marker, _kind, _key in known):
        return None
    of_kind = any(marker == "" and other == kind for marker, other, _key in known)
    return "host-key-changed" if of_kind else "host-key-unknown"


def prefer(kinds: t.Iterable[str], available: t.Sequence[str]) -> tuple[str, ...]:
    """The available host key algorithms. Those with a known key come first, so that the server presents that key."""
    wanted = [name for kind in kinds for name in (_RSA if kind == "ssh-rsa" else (kind,)) if name in available]
    return (*wanted, *(name for name in available if name not in wanted))


@functools.lru_cache(maxsize=None)
def _known_hosts(paths: tuple[str, ...]) -> KnownHosts:
    texts = []
    for path in paths:
        with contextlib.suppress(OSError), open_file(os.path.expanduser(path)) as file:
            texts.append(file.read().decode("utf-8", errors="replace"))
    return KnownHosts("\n".join(texts))


@functools.lru_cache(maxsize=None)
def _load_key(path: str) -> tuple[t.Any, str, str]:
    """A private key or None, the id of the problem with it, and the evidence."""
    try:
        with open_file(path) as file:
            status = os.fstat(file.fileno())
        if status.st_uid == os.geteuid() and status.st_mode & 0o077:
            return None, "ssh-key-permissions", f"mode {stat.S_IMODE(status.st_mode):04o}"
        return paramiko.PKey.from_path(path), "", ""
    except FileNotFoundError as error:
        return None, "ssh-key-missing", str(error.strerror)
    except Exception as error:
        # Of a key on a device, that the library cannot use it.
        return None, "ssh-key-unreadable", str(error)[:200]


def _default_keys() -> list[t.Any]:
    keys: list[t.Any] = []
    # An agent may refuse, or be gone; ssh goes on without its keys, too.
    with contextlib.suppress(Exception):
        keys += paramiko.Agent().get_keys()
    paths = [os.path.expanduser(f"~/.ssh/{name}") for name in _DEFAULT_KEYS]
    return keys + [key for key, problem_id, _text in map(_load_key, filter(os.path.exists, paths)) if not problem_id]


class Prober:
    """Logs in to endpoints."""

    def __init__(self, command: str, timeout: float) -> None:
        """``timeout``: seconds for each step."""
        self._command = command
        self._timeout = timeout

    def probe_all(self, endpoints: t.Sequence[Endpoint], forks: int) -> list[Outcome]:
        """The outcome of each endpoint in their order, ``forks`` at a time. Raises NodeError."""
        raise_file_limit()
        processes = min(os.cpu_count() or 1, 1 + len(endpoints) // _HOSTS_PER_PROCESS)
        if processes == 1:
            return self._probe_some(endpoints, forks)
        # Those next to each other may be a rack that is down: each process gets some of everywhere.
        parts = [endpoints[start::processes] for start in range(processes)]
        # Not a Pool: that waits for ever for a process that was killed, as one may be where memory is short.
        try:
            with concurrent.futures.ProcessPoolExecutor(processes, multiprocessing.get_context("fork")) as pool:
                found = list(pool.map(self._probe_some, parts, [max(1, forks // processes)] * processes))
        except concurrent.futures.BrokenExecutor as error:
            raise NodeError("a process that logs in to the hosts was killed; is there enough memory?") from error
        by_name = {outcome.name: outcome for part in found for outcome in part}
        return [by_name[endpoint.name] for endpoint in endpoints]

    def _probe_some(self, endpoints: t.Sequence[Endpoint], forks: int) -> list[Outcome]:
        # What goes wrong is said by the outcome.
        logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)
        names = {endpoint.address for endpoint in endpoints if not is_numeric(endpoint.address)}
        answer = Resolver(self._timeout, self._timeout).resolve({name: [name] for name in names}, {}) if names else None
        logins = threading.BoundedSemaphore(forks)
        with concurrent.futures.ThreadPoolExecutor(max_workers=min(_CONNECTIONS, len(endpoints)) or 1) as pool:
            return list(pool.map(lambda endpoint: self._probe(endpoint, answer, logins), endpoints))

    def _probe(self, endpoint: Endpoint, answer: t.Any, logins: threading.BoundedSemaphore) -> Outcome:
        begin = time.monotonic()
        outcome = Outcome(endpoint.name)
        address = endpoint.address
        if not is_numeric(address):
            if address not in answer.found:
                text = answer.errors.get(address, "")
                outcome.finding = unresolved(address, text, endpoint.name)
                return outcome
            addresses = answer.found[address][1]
            address = next((item for item in addresses if ":" not in item), addresses[0])
        facts = {
            "address": address,
            "port": endpoint.port,
            "user": endpoint.user,
            "seconds": f"{self._timeout:g}",
            "path": endpoint.key_file,
        }
        attempt = connect(address, endpoint.port, self._timeout)
        outcome.finding = reaching(attempt, None, endpoint.name, facts)
        if attempt.connection is not None:
            with attempt.connection, logins:
                outcome.finding = self._log_in(attempt.connection, endpoint, outcome, facts)
            hangs = outcome.finding is not None and outcome.finding.problem.id == "ssh-banner-timeout"
            if hangs and outcome.banner and loses_large(address, endpoint.port, self._timeout):
                outcome.finding = packets_lost(endpoint.name, facts)
        outcome.seconds = time.monotonic() - begin
        return outcome

    def _log_in(
        self, connection: t.Any, endpoint: Endpoint, outcome: Outcome, facts: dict[str, t.Any]
    ) -> Finding | None:
        def found(stage: str, kind: str, evidence: str) -> Finding:
            return Finding(stage, problem(kind, endpoint.name, evidence[:300], **facts, status=None))

        replayed = _Replayed(connection)
        banner = read_banner(t.cast(socket.socket, replayed))
        obstacle = reaching(None, banner, endpoint.name, facts)
        if obstacle is not None:
            return obstacle
        outcome.banner = banner[1]
        replayed.rewind()
        return self._speak(replayed, endpoint, outcome, found)

    def _speak(
        self,
        connection: t.Any,
        endpoint: Endpoint,
        outcome: Outcome,
        found: t.Callable[[str, str, str], Finding],
    ) -> Finding | None:
        known = _known_hosts(endpoint.known_hosts).keys_of(endpoint.address, endpoint.port)
        transport = paramiko.Transport(connection)
        transport.banner_timeout = transport.auth_timeout = transport.handshake_timeout = self._timeout
        try:
            options = transport.get_security_options()
            options.key_types = prefer((kind for _marker, kind, _key in known), options.key_types)
            with _EXCHANGES:
                begin = time.monotonic()
                try:
                    transport.start_client(timeout=self._timeout)
                    host_key = transport.get_remote_server_key()
                except paramiko.ssh_exception.IncompatiblePeer as error:
                    return found("host_key", "ssh-no-common-algorithm", str(error))
                except Exception as error:
                    # Whatever paramiko met in what came from there, of any kind; so it is below.
                    return found("connect", self._ended(begin, "ssh-closed"), str(error))
            kind = check_host_key(known, host_key.get_name(), host_key.get_base64()) if endpoint.known_hosts else None
            if kind is not None:
                return found("host_key", kind, f"{host_key.get_name()} {host_key.fingerprint}")
            refused = self._authenticate(transport, endpoint, found)
            return refused or self._run(transport, outcome, found)
        finally:
            transport.close()

    def _authenticate(
        self, transport: t.Any, endpoint: Endpoint, found: t.Callable[[str, str, str], Finding]
    ) -> Finding | None:
        if endpoint.key_file is None:
            keys = _default_keys()
        else:
            key, kind, evidence = _load_key(os.path.expanduser(endpoint.key_file))
            if key is None:
                return found("authenticate", kind, evidence)
            keys = [key]
        said, kind = "there is no key to offer", "ssh-auth-refused"
        for number, key in enumerate(keys, 1):
            begin = time.monotonic()
            try:
                transport.auth_publickey(endpoint.user, key)
            except Exception as error:
                said, kind = str(error), self._ended(begin, "ssh-auth-refused")
            if transport.is_authenticated():
                return None
            if number < len(keys) and not transport.is_active():
                if number > 1:
                    said, kind = f"sshd ended the login after {number} of {len(keys)} keys", "ssh-too-many-keys"
                break
        return found("authenticate", kind, said)

    def _ended(self, begin: float, otherwise: str) -> str:
        """The id of the problem of a failed step; paramiko raises the same errors for its timeout and for what sshd does."""
        return "ssh-banner-timeout" if time.monotonic() - begin >= self._timeout else otherwise

    def _run(self, transport: t.Any, outcome: Outcome, found: t.Callable[[str, str, str], Finding]) -> Finding | None:
        begin = time.monotonic()
        try:
            channel = transport.open_session(timeout=self._timeout)
            channel.settimeout(self._timeout)
            channel.set_combine_stderr(True)
            self._start_command(transport, channel)
            outcome.output = self._output_of(channel)
            ended = channel.status_event.wait(self._timeout)
        except Exception as error:
            is_late = time.monotonic() - begin >= self._timeout
            return found("session", "ssh-session", f"no answer in {self._timeout:g} s" if is_late else str(error))
        if not ended:
            return found("session", "ssh-session", f"{self._command} did not end in {self._timeout:g} s")
        if channel.recv_exit_status() == 0:
            return None
        status = channel.recv_exit_status()
        told = said_by_ssh(outcome.output, outcome.name, outcome.name)
        return told[0] if told else found("session", "ssh-session", f"exit status {status}: {outcome.output}")

    def _start_command(self, transport: t.Any, channel: t.Any) -> None:
        # paramiko would wait for ever for a host that answers no more.
        limit = threading.Timer(self._timeout, transport.close)
        limit.daemon = True
        limit.start()
        try:
            channel.exec_command(self._command)
        finally:
            limit.cancel()

    def _output_of(self, channel: t.Any) -> str:
        """The beginning of what a command prints. Raises OSError if its end does not come in time, however little comes at a time."""
        deadline = time.monotonic() + self._timeout
        output = b""
        while len(output) < _MOST_OUTPUT:
            left = deadline - time.monotonic()
            if left <= 0:
                raise socket.timeout
            channel.settimeout(left)
            data = channel.recv(_MOST_OUTPUT - len(output))
            if not data:
                break
            output += data
        return output.decode(errors="replace").strip()


class _Replayed:
    """A connection whose first bytes can be read twice: for the banner, and again by paramiko."""

    def __init__(self, connection: t.Any) -> None:
        self._connection = connection
        self._left = _MOST_RECEIVED
        #: None: what comes is kept no more.
        self._seen: bytes | None = b""
        self._again = b""

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self._connection, name)

    def recv(self, size: int) -> bytes:
        """As of a socket. Raises OSError also if too much has come."""
        if self._again:
            data, self._again = self._again[:size], self._again[size:]
            return data
        if not self._left:
            raise OSError(f"it sent more than {_MOST_RECEIVED >> 20} MiB")
        data = self._connection.recv(min(size, self._left, 1 << 16))
        self._left -= len(data)
        if self._seen is not None:
            self._seen += data
        return data

    def rewind(self) -> None:
        """Read from the start again, and keep nothing from now on."""
        self._again, self._seen = self._seen or b"", None
