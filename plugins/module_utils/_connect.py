# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""TCP connections whose failures are told apart: nobody listens, a firewall says no, or nothing comes back at all.

It is sent to each peer that is looked at: what it imports, socket imports anyway.
"""

from __future__ import annotations

import collections
import contextlib
import errno
import socket
import struct
import time

#: Not in the socket module: linux/in.h, linux/in6.h. With it the kernel keeps the ICMP message that ended a connection.
_RECVERR = {socket.AF_INET: (socket.IPPROTO_IP, 11), socket.AF_INET6: (socket.IPPROTO_IPV6, 25)}
_MSG_ERRQUEUE = 0x2000
#: ``struct sock_extended_err`` (linux/errqueue.h): errno, origin, type, code, pad, info, data; the sender's address follows.
_EXTENDED_ERROR = struct.Struct("=IBBBBII")
#: Origin, type and code of the ICMP messages by which a firewall, or a host's own, says no. Those of a router that knows no
#: way, and of this node's kernel where nobody answers to an address, are others (RFC 1122, RFC 1812, RFC 4443).
_REJECTIONS = {(2, 3, code) for code in (2, 3, 9, 10, 13)} | {(3, 1, code) for code in (1, 4, 5, 6)}

#: What a look at an sshd gives as its reason to leave. sshd writes it in its log, where it is not taken for a login.
FAREWELL = "gpufabric has looked whether large packets arrive"


class Attempt(collections.namedtuple("Attempt", ("status", "text", "by", "connection"), defaults=("", None, None))):
    """What came of a connection. ``status``: ``ok``, ``refused``, ``rejected``, ``timeout`` or ``unreachable``.

    ``by``: the address that a rejection came from, where one is known. ``text``: the system's own words.
    """

    __slots__ = ()


def connect(address: str, port: int, timeout: float, source: str | None = None) -> Attempt:
    """Connect to a numeric address within ``timeout`` seconds, from one of this node's own where ``source`` is given.

    The caller closes the connection.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(OSError):
            connection.setsockopt(*_RECVERR[family], 1)
        connection.settimeout(timeout)
        if source is not None:
            connection.bind((source, 0))
        connection.connect((address, port))
        return Attempt("ok", connection=connection)
    except socket.timeout:
        attempt = Attempt("timeout", f"no answer in {timeout:g} s")
    except OSError as error:
        text = error.strerror or str(error)
        by = _rejected_by(connection)
        if by is not None:
            attempt = Attempt("rejected", text, by)
        elif error.errno in (errno.ECONNREFUSED, errno.ECONNRESET):
            attempt = Attempt("refused", text)
        elif error.errno == errno.ETIMEDOUT:
            attempt = Attempt("timeout", text)
        else:
            attempt = Attempt("unreachable", text)
    connection.close()
    return attempt


def _rejected_by(connection: socket.socket) -> str | None:
    """Who sent the ICMP message that a connection failed with; None where there was none."""
    # With a time limit Python waits for what will never come.
    connection.setblocking(False)
    try:
        _data, messages, _flags, _address = connection.recvmsg(0, 512, _MSG_ERRQUEUE)
    except OSError:
        return None
    for _level, _kind, data in messages:
        sender = parse_extended_error(data)
        if sender is not None:
            return sender
    return None


def parse_extended_error(data: bytes) -> str | None:
    """Who sent the ICMP message in a ``sock_extended_err``; None where it is not one by which somebody rejects a connection."""
    if len(data) < _EXTENDED_ERROR.size + 16:
        return None
    _errno, origin, kind, code, *_rest = _EXTENDED_ERROR.unpack_from(data)
    if (origin, kind, code) not in _REJECTIONS:
        return None
    sender = data[_EXTENDED_ERROR.size :]
    (family,) = struct.unpack_from("=H", sender)
    if family == socket.AF_INET:
        return socket.inet_ntop(family, sender[4:8])
    return socket.inet_ntop(family, sender[8:24]) if family == socket.AF_INET6 and len(sender) >= 24 else None


def read_line(connection: socket.socket, limit: int = 512, deadline: float | None = None) -> bytes:
    """The next line, or what there is of it when the other side closes it. Raises OSError, also when time is up.

    ``deadline``: of the monotonic clock; by default, the line as a whole may take as long as the time limit of the connection says.
    """
    seconds = connection.gettimeout()
    if deadline is None and seconds is not None:
        deadline = time.monotonic() + seconds
    line = b""
    try:
        while not line.endswith(b"\n") and len(line) < limit:
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise socket.timeout("timed out")
                connection.settimeout(left)
            byte = connection.recv(1)
            if not byte:
                break
            line += byte
    finally:
        connection.settimeout(seconds)
    return line


def read_banner(connection: socket.socket) -> tuple[str, str]:
    """What answers on a port, and its words: ``ssh``, ``other``, ``crowded``, ``refused``, ``closed`` or ``silent``.

    All lines together may take as long as the time limit of the connection says. A server may send other lines before its version
    (RFC 4253, 4.2). Crowded is an sshd with as many connections that have
    not logged in as it takes (MaxStartups), which says so from 9.2 to 9.7. From 9.8 on it refuses these and addresses that it
    penalises in the same words.
    """
    seen: list[str] = []
    seconds = connection.gettimeout()
    deadline = None if seconds is None else time.monotonic() + seconds
    try:
        for _line in range(20):
            line = read_line(connection, deadline=deadline).decode(errors="replace").strip()
            if line.startswith("SSH-"):
                return "ssh", line
            if line.startswith("Exceeded MaxStartups"):
                return "crowded", line
            if line.startswith("Not allowed at this time"):
                return "refused", line
            if not line:
                break
            seen.append(line)
        status = "closed"
    except socket.timeout:
        status = "silent"
    except OSError as error:
        return "closed", error.strerror or str(error)
    return ("other", " | ".join(seen)[:200]) if seen else (status, "")
