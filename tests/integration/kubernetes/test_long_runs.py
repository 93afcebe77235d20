# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs on pods that outlive what is between them and the controller, and runs with Open MPI 5."""

from __future__ import annotations

import concurrent.futures
import contextlib
import pathlib
import select
import socket
import subprocess
import threading
import typing as t
import urllib.parse

import pytest
import yaml
from pod_runs import Runs, wait_until

#: Of 24 points.
SWEEP = {
    "collectives": ["all_reduce", "all_gather"],
    "datatypes": ["float", "double"],
    "ranks_per_node": [1, 2],
    "repeats": 3,
}


class Relay:
    """Stands between clients and the API server, and goes away and comes back as that does when it is restarted."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._open: list[socket.socket] = []
        self._listener: socket.socket | None = None
        self.port = 0
        self.up()

    def up(self) -> None:
        """Take connections."""
        listener = socket.create_server(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def down(self) -> None:
        """Cut all connections and refuse new ones."""
        assert self._listener is not None
        # Closing alone does not wake who waits for the next connection.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._open.clear()

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


@pytest.fixture
def relayed(runs: Runs, tmp_path: pathlib.Path) -> t.Iterator[tuple[Runs, Relay]]:
    """Runs that reach the API server through a relay."""
    config = yaml.safe_load(pathlib.Path(runs.cluster.kubeconfig).read_text())
    url = urllib.parse.urlsplit(config["clusters"][0]["cluster"]["server"])
    relay = Relay(url.hostname or "", url.port or 443)
    config["clusters"][0]["cluster"].update(
        {"server": f"https://127.0.0.1:{relay.port}", "tls-server-name": url.hostname}
    )
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    yield runs.within({"KUBECONFIG": str(path)}), relay
    relay.down()


def test_a_run_goes_on_while_the_api_server_is_restarted(relayed, pods):
    runs, relay = relayed
    pods.create("a", "b")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        playing = pool.submit(runs.play, worker_pods_names=["a", "b"], nccl_benchmark_sweep=SWEEP)
        wait_until(lambda: runs.has("a", "test -s /run/gpufabric/default/mpi/points/2/stdout") or playing.done())
        assert not playing.done(), playing.result().output
        relay.down()
        # More than one poll finds nobody there.
        with contextlib.suppress(concurrent.futures.TimeoutError):
            playing.result(8)
        assert not playing.done(), playing.result().output
        relay.up()
        played = playing.result()
    assert played.returncode == 0, played.output
    assert "the run goes on meanwhile" in played.output
    # None was run twice.
    assert played.output.count(": started") == 24
    assert [(result["verdict"], result["host_count"]) for result in runs.results()] == [("pass", 2)] * 24


def test_openmpi5_on_pods(runs, pods, openmpi5):
    """The same playbook; the pods get the other Open MPI beside that of their image."""
    names = ["a", "b", "c"]
    pods.create(*names)
    prefix = openmpi5["gpufabric_mpi_prefix"]
    for name in names:
        with subprocess.Popen(["tar", "-c", "-C", prefix, "."], stdout=subprocess.PIPE) as tar:
            unpack = f"mkdir -p {prefix} && tar -x -C {prefix}"
            subprocess.run(
                [
                    runs.cluster.kubectl_path,
                    "exec",
                    "-i",
                    name,
                    "--namespace",
                    runs.namespace,
                    "--",
                    "sh",
                    "-c",
                    unpack,
                ],
                env=runs.cluster.environment,
                stdin=tar.stdout,
                check=True,
                timeout=300,
            )
    played = runs.play(
        worker_pods_names=names,
        gpufabric_mpi_prefix=prefix,
        worker_pods_python_interpreter=openmpi5["ansible_python_interpreter"],
        nccl_benchmark_sweep=SWEEP,
    )
    assert played.returncode == 0, played.output
    results = runs.results()
    assert [(result["verdict"], result["host_count"]) for result in results] == [("pass", 3)] * 24
    assert sorted({result["rank_count"] for result in results}) == [3, 6]
