# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import socket
import struct
import threading

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._connect import FAREWELL
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.large_packets import loses_large


@contextlib.contextmanager
def answering(banner, *, small=False, closes=False):
    """The port of a server that sends a banner and then hangs. ``small``: its kernel takes less than a large packet."""
    over = threading.Event()
    with socket.socket() as server:
        if small:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        server.bind(("127.0.0.1", 0))
        server.listen()

        def serve():
            connection, _address = server.accept()
            with connection:
                connection.sendall(banner)
                if not closes:
                    over.wait(30)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            over.set()
            thread.join()


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ({"banner": b"SSH-2.0-busy\r\n"}, False),
        ({"banner": b"SSH-2.0-x\r\n", "small": True}, True),
        ({"banner": b"SSH-2.0-x\r\n", "closes": True}, False),
        ({"banner": b"HTTP/1.1 400\r\n", "closes": True}, False),
    ],
)
def test_what_is_acknowledged_is_not_lost(server, expected):
    with answering(**server) as port:
        assert loses_large("127.0.0.1", port, 1.0) is expected


def test_sshd_is_told_why_the_look_leaves():
    said = bytearray()
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def serve():
            connection, _address = server.accept()
            with connection:
                connection.sendall(b"SSH-2.0-x\r\n")
                while data := connection.recv(1 << 16):
                    said.extend(data)

        thread = threading.Thread(target=serve)
        thread.start()
        assert not loses_large("127.0.0.1", server.getsockname()[1], 5.0)
        thread.join()
    packets = bytes(said).partition(b"\r\n")[2]
    messages = []
    while packets:
        length, padding = struct.unpack_from(">IB", packets)
        assert (4 + length) % 8 == 0 and padding >= 4
        messages.append(packets[5 : 4 + length - padding])
        packets = packets[4 + length :]
    ignored, disconnect = messages
    assert ignored[0] == 2 and len(ignored) > 4096
    reason = FAREWELL.encode()
    assert disconnect == bytes([1]) + struct.pack(">II", 11, len(reason)) + reason + bytes(4)


def test_a_port_where_nothing_listens_loses_nothing():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert not loses_large("127.0.0.1", unused.getsockname()[1], 1.0)
