# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What goes away and comes back between the controller and the API server."""

from __future__ import annotations

import concurrent.futures
import contextlib
import pathlib
import select
import socket
import threading
import typing as t
import urllib.parse

import yaml
from background import wait


class Relay:
    """Stands between clients and the API server, and goes away and comes back as that does when it is restarted."""

    def __init__(self, kubeconfig: pathlib.Path, own: pathlib.Path) -> None:
        """``own``: where to write the kubeconfig of those who are to use it."""
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        url = urllib.parse.urlsplit(cluster["server"])
        self._target = (url.hostname or "", url.port or 443)
        self._open: list[socket.socket] = []
        self._listener: socket.socket | None = None
        self._port = 0
        self.up()
        cluster.update({"server": f"https://127.0.0.1:{self._port}", "tls-server-name": url.hostname})
        own.write_text(yaml.safe_dump(config))
        self.kubeconfig = own
        self._log = own.with_suffix(".log")
        #: Of the plays that ask through this.
        self.environment = {"KUBECONFIG": str(own), "ANSIBLE_LOG_PATH": str(self._log)}

    def up(self) -> None:
        """Take connections."""
        listener = socket.create_server(("127.0.0.1", self._port))
        self._port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def down(self) -> None:
        """Cut all connections and refuse new ones."""
        if self._listener is None:
            return
        # Closing alone does not wake who waits for the next connection.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._listener = None
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def has_heard(self, *texts: str) -> bool:
        """Whether the plays that ask through this have said one of some texts."""
        said = self._log.read_text(errors="replace") if self._log.exists() else ""
        return any(text in said for text in texts)

    def go_away_from(self, playing: concurrent.futures.Future[t.Any], notice: str, seconds: float) -> None:
        """Be away until a play says that it has noticed, and some seconds more, in which it goes on."""
        assert not playing.done(), playing.result().output
        self.down()
        wait(lambda: self.has_heard(notice) or playing.done())
        with contextlib.suppress(concurrent.futures.TimeoutError):
            playing.result(seconds)
        assert not playing.done(), playing.result().output
        self.up()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _address = listener.accept()
                server = socket.create_connection(self._target)
                self._open += [client, server]
                threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()

    @staticmethod
    def _pass_on(client: socket.socket, server: socket.socket) -> None:
        other = {client: server, server: client}
        with contextlib.suppress(OSError), client, server:
            while True:
                for source in select.select([client, server], [], [])[0]:
                    data = source.recv(65536)
                    if not data:
                        return
                    other[source].sendall(data)
