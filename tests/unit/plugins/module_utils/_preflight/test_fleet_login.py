# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
import time

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.fleet_login import (
    Endpoint,
    KnownHosts,
    Prober,
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
@revoked a ssh-rsa CCCC
@cert-authority *.ca ssh-ed25519 DDDD
broken
"""


def test_known_hosts_by_name_and_port():
    known = KnownHosts(TEXT)
    assert known.keys_of("A", 22) == [ED, ("@revoked", "ssh-rsa", "CCCC")]
    assert known.keys_of("a", 2222) == [RSA] and known.keys_of("b", 2222) == []
    assert known.keys_of("x.example", 22) == [ED] and known.keys_of("bad.example", 22) == []
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


@pytest.mark.parametrize("stage", ["connect", "authenticate"])
def test_an_sshd_that_has_no_time_is_told_as_that(tmp_path, stage):
    paramiko = pytest.importorskip("paramiko")
    key, over = tmp_path / "key", threading.Event()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)

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

    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        stack.callback(over.set)
        connections = []

        def accept():
            connections.append(stack.enter_context(listener.accept()[0]))
            serve(connections[0])

        threading.Thread(target=accept, daemon=True).start()
        endpoint = Endpoint("a", "127.0.0.1", listener.getsockname()[1], "root", str(key), ())
        (outcome,) = Prober("true", 2.0).probe_all([endpoint], 1)
    assert outcome.finding.problem.id == "ssh-banner-timeout" and outcome.finding.stage == stage
