# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Whether large packets reach an sshd. If they do not, a login hangs after the first lines, as if sshd were too busy."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
import sys
import termios
import time

from ansible_collections.gpufabric.nccl.plugins.module_utils._connect import FAREWELL, connect, read_banner

#: What is sent: some packets of Ethernet, or one that is larger than its usual ones.
_SIZE = 4096
#: Messages (RFC 4253, 11.1 and 11.2): one that sshd takes without a word, and one that tells it why this side leaves.
_IGNORE = 2
_DISCONNECT = 1
_BY_APPLICATION = 11
#: Seconds in which sshd reads that. One that is too busy for it notes nothing of this look.
_PARTING = 1.0


def loses_large(address: str, port: int, seconds: float) -> bool:
    """Whether an sshd that answers with its version is sent large packets that do not arrive within so many seconds.

    The kernel there acknowledges what arrives, however busy sshd is.
    """
    connection = connect(address, port, seconds).connection
    if connection is None:
        return False
    with connection, contextlib.suppress(OSError):
        if read_banner(connection)[0] != "ssh":
            return False
        connection.sendall(b"SSH-2.0-gpufabric\r\n" + _packet(struct.pack(">BI", _IGNORE, _SIZE) + bytes(_SIZE)))
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not _unacknowledged(connection):
                _leave(connection)
                return False
            time.sleep(0.02)
        return True
    return False


def _leave(connection: socket.socket) -> None:
    """Tell sshd why, and wait until it has read that. Raises OSError if it has closed the connection meanwhile."""
    reason = FAREWELL.encode()
    # The last field is the language.
    message = struct.pack(">BII", _DISCONNECT, _BY_APPLICATION, len(reason)) + reason + bytes(4)
    connection.sendall(_packet(message))
    connection.shutdown(socket.SHUT_WR)
    deadline = time.monotonic() + _PARTING
    connection.settimeout(_PARTING)
    while connection.recv(1 << 16) and time.monotonic() < deadline:
        pass


def _packet(message: bytes) -> bytes:
    # All of it with the length of the rest and that of the padding is a multiple of 8.
    padding = 8 + -(5 + len(message)) % 8
    return struct.pack(">IB", 1 + len(message) + padding, padding) + message + bytes(padding)


def _unacknowledged(connection: socket.socket) -> int:
    """How many bytes the other side has not acknowledged. Raises OSError if it has closed the connection meanwhile."""
    error = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise OSError(error, "the connection was closed")
    answer = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4))
    return int.from_bytes(answer, sys.byteorder)
