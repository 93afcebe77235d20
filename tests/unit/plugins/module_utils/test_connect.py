# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._connect import (
    connect,
    parse_extended_error,
    read_banner,
)


@pytest.fixture
def listener():
    """Listens on this machine; ``answer(data)`` sends that to the next one who connects and closes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer(data):
            def serve():
                connection = server.accept()[0]
                with connection:
                    connection.sendall(data)

            threading.Thread(target=serve, daemon=True).start()
            return server.getsockname()[1]

        yield answer


BANNERS = [
    (b"SSH-2.0-OpenSSH_9.2p1\r\n", ("ssh", "SSH-2.0-OpenSSH_9.2p1")),
    (b"Welcome\r\nSSH-2.0-x\r\n", ("ssh", "SSH-2.0-x")),
    (b"220 mail.example ESMTP\r\n", ("other", "220 mail.example ESMTP")),
    (b"Exceeded MaxStartups\r\n", ("crowded", "Exceeded MaxStartups")),
    (b"Not allowed at this time\r\n", ("refused", "Not allowed at this time")),
    (b"", ("closed", "")),
]


@pytest.mark.parametrize(("data", "expected"), BANNERS)
def test_what_answers_on_a_port(listener, data, expected):
    attempt = connect("127.0.0.1", listener(data), 5)
    assert attempt.status == "ok"
    with attempt.connection as connection:
        assert read_banner(connection) == expected


def test_a_port_that_says_nothing():
    with socket.create_server(("127.0.0.1", 0)) as server:
        with connect("127.0.0.1", server.getsockname()[1], 0.1).connection as connection:
            assert read_banner(connection) == ("silent", "")


@pytest.mark.parametrize("line", [b"x", b"x\r\n"])
def test_who_sends_a_little_now_and_then_holds_nobody_up(line):
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def trickle():
            with server.accept()[0] as connection, contextlib.suppress(OSError):
                while not ended.wait(0.1):
                    connection.sendall(line)

        threading.Thread(target=trickle, daemon=True).start()
        with connect("127.0.0.1", server.getsockname()[1], 0.5).connection as connection:
            begin = time.monotonic()
            status, _words = read_banner(connection)
            took = time.monotonic() - begin
            ended.set()
            # What comes next has all of the time again.
            assert connection.gettimeout() == 0.5
    # By itself it would be over after 20 lines, or 512 characters of one.
    assert (status, took < 1.5) == ("other" if b"\n" in line else "silent", True)


def test_a_port_that_nobody_listens_on():
    # The port is kept, so that nobody else listens on it meanwhile.
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        # It does not wait for the time to be over.
        attempt = connect("127.0.0.1", kept.getsockname()[1], 3600)
    assert (attempt.status, attempt.by, attempt.connection) == ("refused", None, None)


def extended_error(origin, kind, code, sender):
    return struct.pack("=IBBBBII", 113, origin, kind, code, 0, 0, 0) + sender


IPV4 = struct.pack("=HH", socket.AF_INET, 0) + socket.inet_aton("10.0.0.1") + bytes(8)
IPV6 = struct.pack("=HHI", socket.AF_INET6, 0, 0) + socket.inet_pton(socket.AF_INET6, "fd00::1") + bytes(4)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (extended_error(2, 3, 10, IPV4), "10.0.0.1"),
        (extended_error(3, 1, 1, IPV6), "fd00::1"),
        # Nobody answers to the address.
        (extended_error(2, 3, 1, IPV4), None),
        (extended_error(3, 1, 3, IPV6), None),
        # The kernel itself, which has no route.
        (extended_error(1, 0, 0, IPV4), None),
        (b"", None),
    ],
)
def test_who_rejected_a_connection(data, expected):
    assert parse_extended_error(data) == expected
