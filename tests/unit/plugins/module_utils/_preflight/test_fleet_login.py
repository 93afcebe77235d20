# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import contextlib
import os
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight import fleet_login
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.fleet_login import (
    Endpoint,
    KnownHosts,
    Prober,
    _default_keys,
    _load_key,
    check_host_key,
    parse_endpoints,
    prefer,
)

ED = ("", "ssh-ed25519", "AAAA")
RSA = ("", "ssh-rsa", "BBBB")
TEXT = """\
# comment
a,b ssh-ed25519 AAAA comment
[a]:2222 ssh-rsa BBBB
*.example,!bad.example ssh-ed25519 AAAA
[10.0.0.*]:2222 ssh-ed25519 AAAA
@revoked a ssh-rsa CCCC
@cert-authority *.ca ssh-ed25519 DDDD
broken
"""


def test_known_hosts_by_name_and_port():
    known = KnownHosts(TEXT)
    assert known.keys_of("A", 22) == [ED, ("@revoked", "ssh-rsa", "CCCC")]
    assert known.keys_of("a", 2222) == [RSA] and known.keys_of("b", 2222) == []
    assert known.keys_of("x.example", 22) == [ED] and known.keys_of("bad.example", 22) == []
    assert known.keys_of("10.0.0.7", 2222) == [ED] and known.keys_of("10.0.0.7", 22) == []
    assert known.keys_of("x.ca", 22) == [("@cert-authority", "ssh-ed25519", "DDDD")]


def test_a_command_that_prints_a_little_now_and_then_holds_nobody_up():
    ours, theirs = socket.socketpair()
    ended = threading.Event()

    def trickle():
        with theirs, contextlib.suppress(OSError):
            while not ended.wait(0.1):
                theirs.sendall(b"x")

    threading.Thread(target=trickle, daemon=True).start()
    begin = time.monotonic()
    with ours, pytest.raises(socket.timeout):
        Prober("true", 0.5)._output_of(ours)
    ended.set()
    assert time.monotonic() - begin < 1.5


def test_hashed_names(tmp_path):
    path = tmp_path / "known_hosts"
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    path.write_text(f"a {key.with_suffix('.pub').read_text()}")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(path)], check=True, capture_output=True)
    assert path.read_text().startswith("|1|")
    known = KnownHosts(path.read_text())
    assert len(known.keys_of("a", 22)) == 1 and known.keys_of("b", 22) == []


@pytest.mark.parametrize(
    ("known", "key", "problem"),
    [
        ([ED], ED, None),
        ([ED, RSA], RSA, None),
        ([ED], ("", "ssh-ed25519", "ZZZZ"), "host-key-changed"),
        ([ED], RSA, "host-key-unknown"),
        ([], ED, "host-key-unknown"),
        ([ED, ("@revoked", "ssh-ed25519", "AAAA")], ED, "host-key-changed"),
        ([("@cert-authority", "ssh-rsa", "X")], ED, None),
    ],
)
def test_what_is_wrong_with_a_host_key(known, key, problem):
    assert check_host_key(known, *key[1:]) == problem


def test_the_server_is_asked_for_a_key_that_is_known():
    available = ("ssh-ed25519", "rsa-sha2-512", "rsa-sha2-256")
    assert prefer(["ssh-rsa"], available) == ("rsa-sha2-512", "rsa-sha2-256", "ssh-ed25519")
    assert prefer([], available) == available


def test_endpoints_are_checked():
    value = {"name": "a", "address": None, "port": 22, "user": "u", "key_file": None, "known_hosts": ["/h"]}
    (endpoint,) = parse_endpoints([value], True)
    assert endpoint.address == "a" and endpoint.known_hosts == ("/h",)
    assert parse_endpoints([value], False)[0].known_hosts == ()
    with pytest.raises(OptionError, match=r"endpoints\[1\].name: 'a' is not allowed; allowed: each host once"):
        parse_endpoints([value, value], True)
    with pytest.raises(OptionError, match=r"endpoints\[0\].port: 0 is not allowed"):
        parse_endpoints([{**value, "port": 0}], True)


@contextlib.contextmanager
def listening(serve):
    """The port of a server that gives its first connection to ``serve``."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        connections = []

        def accept():
            connections.append(stack.enter_context(listener.accept()[0]))
            serve(connections[0])

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]


@pytest.fixture
def key_file(tmp_path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    return str(tmp_path / "key")


@pytest.mark.parametrize("stage", ["connect", "authenticate"])
def test_an_sshd_that_has_no_time_is_told_as_that(key_file, stage):
    paramiko = pytest.importorskip("paramiko")
    over = threading.Event()

    class Slow(paramiko.ServerInterface):
        def check_auth_publickey(self, username, key):
            over.wait(30)
            return paramiko.AUTH_FAILED

    def serve(connection):
        if stage == "connect":
            connection.sendall(b"SSH-2.0-slow\r\n")
            return
        server = paramiko.Transport(connection)
        server.add_server_key(paramiko.ECDSAKey.generate())
        server.start_server(event=threading.Event(), server=Slow())

    with listening(serve) as port:
        endpoint = Endpoint("a", "127.0.0.1", port, "root", key_file, ())
        (outcome,) = Prober("true", 2.0).probe_all([endpoint], 1)
        over.set()
    assert outcome.finding.problem.id == "ssh-banner-timeout" and outcome.finding.stage == stage


@pytest.mark.parametrize(
    ("stage", "kind", "evidence"),
    [("authenticate", "ssh-auth-refused", "codec"), ("session", "ssh-session", "no answer in 0.5 s")],
)
def test_an_sshd_that_answers_nonsense_or_nothing_harms_nobody(key_file, stage, kind, evidence):
    paramiko = pytest.importorskip("paramiko")
    over = threading.Event()

    class Welcoming(paramiko.ServerInterface):
        def check_auth_publickey(self, username, key):
            return paramiko.AUTH_SUCCESSFUL

        def check_channel_request(self, kind, number):
            return paramiko.OPEN_SUCCEEDED

        def check_channel_exec_request(self, channel, command):
            return over.wait(30)

    class Odd(paramiko.Transport):
        def _send_message(self, message):
            if stage == "authenticate" and message.asbytes()[:1] == b"\x34":
                # Not that the login was successful, but that it was not, with the names of methods in no text.
                message = paramiko.Message()
                message.add_byte(b"\x33")
                message.add_string(b"\xff")
            super()._send_message(message)

    def serve(connection):
        server = Odd(connection)
        server.add_server_key(paramiko.ECDSAKey.generate())
        server.start_server(event=threading.Event(), server=Welcoming())

    with listening(serve) as port:
        endpoint = Endpoint("a", "127.0.0.1", port, "root", key_file, ())
        (outcome,) = Prober("true", 0.5).probe_all([endpoint], 1)
        over.set()
    assert outcome.finding.problem.id == kind and outcome.finding.stage == stage
    assert evidence in outcome.finding.problem.evidence


def test_more_keys_than_an_sshd_lets_try(key_file, monkeypatch):
    paramiko = pytest.importorskip("paramiko")

    def serve(connection):
        server = paramiko.Transport(connection)
        server.add_server_key(paramiko.ECDSAKey.generate())
        server.start_server(event=threading.Event(), server=paramiko.ServerInterface())

    monkeypatch.setattr(fleet_login, "_default_keys", lambda: [_load_key(key_file)[0]] * 20)
    with listening(serve) as port:
        (outcome,) = Prober("true", 5.0).probe_all([Endpoint("a", "127.0.0.1", port, "root", None, ())], 1)
    assert outcome.finding.problem.id == "ssh-too-many-keys" and " of 20 keys" in outcome.finding.problem.evidence


def test_a_host_that_sends_without_end_takes_little_memory(monkeypatch):
    monkeypatch.setattr(fleet_login, "_MOST_RECEIVED", 1 << 20)
    sent = []

    class Endless:
        def recv(self, size):
            sent.append(size)
            return bytes(size)

    connection = fleet_login._Replayed(Endless())
    while sum(sent) < 1 << 20:
        connection.recv(1 << 32)
    with pytest.raises(OSError, match="more than 1 MiB"):
        connection.recv(1 << 32)
    assert max(sent) <= 1 << 16 and sum(sent) == 1 << 20


def test_a_process_that_is_killed_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(fleet_login, "_HOSTS_PER_PROCESS", 1)
    monkeypatch.setattr(fleet_login.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(Prober, "_probe_some", lambda *_arguments: os.kill(os.getpid(), signal.SIGKILL))
    endpoints = [Endpoint(name, "127.0.0.1", 1, "root", None, ()) for name in "ab"]
    with pytest.raises(NodeError, match="was killed"):
        Prober("true", 1.0).probe_all(endpoints, 2)


def test_keys_that_cannot_be_used(tmp_path, monkeypatch):
    pytest.importorskip("paramiko")

    def text(*parts):
        return b"".join(struct.pack(">I", len(part)) + part for part in parts)

    # The private half is in a device.
    public = text(b"sk-ssh-ed25519@openssh.com", bytes(32), b"ssh:")
    private = bytes(8) + public + b"\1" + text(b"handle", b"", b"me") + b"\1\2\3"
    data = b"openssh-key-v1\0" + text(b"none", b"none", b"") + struct.pack(">I", 1) + text(public, private)
    path = tmp_path / "id_ed25519_sk"
    marks = [f"-----{word} OPENSSH PRIVATE KEY-----\n" for word in ("BEGIN", "END")]
    path.write_text(f"{marks[0]}{base64.encodebytes(data).decode()}{marks[1]}")
    path.chmod(0o600)
    assert _load_key(str(path))[:2] == (None, "ssh-key-unreadable")
    # An agent that hangs up.
    agent = str(tmp_path / "agent")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(agent)
        listener.listen()

        def hang_up():
            listener.accept()[0].close()

        threading.Thread(target=hang_up, daemon=True).start()
        monkeypatch.setenv("SSH_AUTH_SOCK", agent)
        monkeypatch.setenv("HOME", str(tmp_path))
        assert _default_keys() == []
