# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""All that a run has on a node, and its end."""

from __future__ import annotations

import dataclasses
import os
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._node.ownership import Ownership
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import (
    Identity,
    Process,
    ancestors,
    descendants,
    end,
    identities,
    read_processes,
    stamped,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RUN_ID_VARIABLE, RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.account import PASSWD, Account
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.mesh import Change, MeshFiles
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.sshd import Sshd


def program_name(command: t.Sequence[str]) -> str:
    """What to call a process; of its command line the program only, since arguments may hold secrets.

    sshd writes what it does into the first word: ``sshd: user@notty``.
    """
    words = command[0].split()
    return os.path.basename(words[0].rstrip(":")) if words else "?"


def belonging(processes: t.Mapping[int, Process], roots: t.Iterable[int], own: int, uid: int) -> set[int]:
    """These processes and all that hang on them, but for the one that asks, what it descends from, and other users'."""
    found = descendants(processes, *roots) - ancestors(processes, own)
    return {pid for pid in found if uid in (0, processes[pid].uid)}


@dataclasses.dataclass(frozen=True)
class Leftovers:
    """What there is of a run on this node. ``line``: in /etc/passwd. ``removed``: paths."""

    processes: frozenset[Identity]
    ended: tuple[str, ...]
    removed: tuple[str, ...]
    line: str
    changes: tuple[Change, ...]

    def __bool__(self) -> bool:
        return bool(self.ended or self.removed)

    def as_diff(self) -> list[dict[str, str]]:
        """In the form of a module's diff: the list of all, and the text of each file that was written."""
        lines = [f"process {name}" for name in self.ended] + [f"path {path}" for path in self.removed]
        whole = [{"before": "".join(f"{line}\n" for line in lines), "after": ""}] if lines else []
        passwd = (
            [{"before": self.line, "after": "", "before_header": PASSWD, "after_header": PASSWD}] if self.line else []
        )
        return whole + passwd + [change.as_diff() for change in self.changes]


class Cleanup:
    """Ends a run on this node."""

    def __init__(self, run_dir: RunDir) -> None:
        self._run_dir = run_dir
        self._account = Account(run_dir)
        self._mesh = MeshFiles(run_dir, self._account)
        self._sshd = Sshd(run_dir, self._account)

    def plan(self) -> Leftovers:
        """What there is to end and to remove. Raises NodeError where the directory is not safely this user's own."""
        processes = read_processes()
        pids = self._pids(processes)
        removed = self._run_dir.remaining()
        inside = os.path.realpath(self._run_dir.path) + os.sep
        changes = [
            change for change in self._mesh.plan({}, False) if not os.path.realpath(change.path).startswith(inside)
        ]
        removed += [change.path for change in changes]
        directory, heir = self._sshd.made_directory()
        if directory and not heir:
            removed.append(directory)
        line = self._account.found if self._account.in_passwd() else ""
        if line:
            removed.append(PASSWD)
        ended = sorted(program_name(processes[pid].command) for pid in pids)
        return Leftovers(frozenset(identities(processes, pids)), tuple(ended), tuple(removed), line, tuple(changes))

    def apply(self, leftovers: Leftovers) -> None:
        """End and remove it all. Raises NodeError where something stays."""

        def select() -> set[Identity]:
            # What began meanwhile, too; and what has lost the environment or its parent since.
            processes = read_processes()
            known = leftovers.processes & identities(processes, processes)
            return identities(processes, self._pids(processes)) | known

        end(select)
        self._mesh.apply(leftovers.changes)
        self._sshd.give_back_directory()
        self._run_dir.remove()
        self._account.remove()

    def _pids(self, processes: t.Mapping[int, Process]) -> set[int]:
        roots = stamped(processes, self._run_dir.started_with(RUN_ID_VARIABLE, self._run_dir.run_id))
        listener = self._sshd.listener()
        return belonging(processes, roots | ({listener} if listener else set()), os.getpid(), os.geteuid())


def remove_replaced(ownership: Ownership, run_dir: RunDir, check_mode: bool) -> bool:
    """End and remove another's run that is to be taken over; whether there is one. Raises GpufabricError."""
    replaces = ownership.check()
    if replaces and not check_mode:
        cleanup = Cleanup(run_dir)
        cleanup.apply(cleanup.plan())
    return replaces
