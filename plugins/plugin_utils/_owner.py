# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to the collection: it may change in any release.

"""Who starts a run: the owner, and the play."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import pathlib
import socket
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import Process, read_processes
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.account import user_name

#: Characters of an owner, which marks of runs hold.
_LONGEST = 200


def owner_of_run(given: str | None) -> str:
    """``gpufabric_owner``; if that is blank, USER@HOST of the controller. Raises OptionError."""
    if given and given.strip():
        if not given.isprintable() or len(given) > _LONGEST:
            raise OptionError(
                "gpufabric_owner", given, f"text in one line of at most {_LONGEST} characters, such as USER@HOST"
            )
        return given.strip()
    return f"{user_name()}@{socket.gethostname()}"


def claim_of(given: str | None, take_over: bool) -> dict[str, t.Any]:
    """The ``claim`` of a play, as the modules on the nodes take it. ``given``: as for owner_of_run. Raises OptionError."""
    # A task is worked on in a process of its own.
    parent = multiprocessing.parent_process()
    pid = os.getpid() if parent is None or parent.pid is None else parent.pid
    controller = _controller()
    processes = read_processes() if controller else {}
    play = _name(processes[pid]) if pid in processes else str(pid)
    return {
        "owner": owner_of_run(given),
        "controller": controller,
        "play": play,
        "live": sorted({play, *live_plays(processes)}),
        "take_over": take_over,
    }


def live_plays(processes: t.Mapping[int, Process]) -> set[str]:
    """The plays among the processes of the controller: the programs of Ansible without the processes that each of them forks."""
    found = set()
    for process in processes.values():
        parent = processes.get(process.parent)
        if _is_ansible(process) and (parent is None or parent.command != process.command):
            found.add(_name(process))
    return found


def _is_ansible(process: Process) -> bool:
    return any(os.path.basename(word).startswith("ansible") for word in process.command[:3])


def _name(process: Process) -> str:
    return f"{process.pid}-{process.start}"


def _controller() -> str:
    """This machine or container, until it is started anew; empty where /proc does not tell."""
    try:
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        return hashlib.sha256(f"{boot}{os.readlink('/proc/self/ns/pid')}".encode()).hexdigest()[:16]
    except OSError:
        return ""
