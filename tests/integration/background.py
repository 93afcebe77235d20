# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plays that go on while a test does other things, and waiting for what comes of them."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import pathlib
import signal
import subprocess
import time
import typing as t
import uuid


def wait(
    condition: t.Callable[[], object], seconds: float = 180, left: t.Callable[[], t.Any] = str, pause: float = 0.2
) -> None:
    """Wait for what comes soon. ``left``: what to show where it does not come. ``pause``: seconds between looks, which may be dear."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, left()
        time.sleep(pause)


def kill(token: str) -> None:
    """Kill a playbook with all of its tasks, as a controller that loses its power. ``token``: a word of its command line."""
    _kill_all("cmdline", token)


def end(process: subprocess.Popen[t.Any], variable: str, seconds: float = 60) -> None:
    """End a play and all that it started. ``variable``: ``NAME=VALUE`` of the environment of this play alone.

    It is asked first, since then it ends its run on the nodes too. Processes that it started may have left its session.
    """
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    _kill_all("environ", variable)


def _kill_all(file: str, text: str) -> None:
    """Kill all processes with a text in a file of theirs below /proc."""
    found = True
    # Again, because a process may start another one before its own end.
    while found:
        found = False
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if text.encode() in (path / file).read_bytes():
                    found = True
                    os.kill(int(path.name), signal.SIGKILL)


class Playing:
    """A play of one task that goes on while the test does other things."""

    def __init__(self, node, options, **play):
        self._token = uuid.uuid4().hex
        task = {"gpufabric.nccl.mpi_run": options}
        plays = [{"hosts": "g1", "gather_facts": False, "tasks": [task], **play}]
        self._pool = concurrent.futures.ThreadPoolExecutor()
        self._future = self._pool.submit(node.playbook, plays, token=self._token)

    def signal(self, number, workers=False):
        """Send a signal to the playbook's process, or also to those of its tasks."""
        found = {}
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if self._token in (path / "cmdline").read_text():
                    found[path.name] = (path / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
        for pid, parent in found.items():
            if workers or parent not in found:
                os.kill(int(pid), number)

    def played(self):
        """What came of it."""
        played = self._future.result()
        self._pool.shutdown()
        return played

    def result(self):
        """The task's result."""
        return self.played().result(action="gpufabric.nccl.mpi_run")
