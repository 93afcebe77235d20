# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Runs of the same name on this node that are not the one that is meant: those of other users, and in other directories."""

from __future__ import annotations

import contextlib
import json
import os
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.cleanup import program_name
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import (
    Process,
    is_in_this_namespace,
    read_processes,
    run_apart,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.account import passwd_entry

#: Where the configuration of a run's sshd is, in its command.
_CONFIG = re.compile(r" -f (/\S+)/sshd/sshd_config ")
#: Seconds that a look at other users' runs may take.
_PATIENCE = 15.0


def find_users(run_dir: RunDir) -> list[str]:
    """The other users who have a run of this name here, in its default directory; none if that takes too long: they can hold up who looks."""
    text = run_apart(lambda: json.dumps(users_with(run_dir.run_id, run_dir.uid, read_processes())).encode(), _PATIENCE)
    return [str(name) for name in json.loads(text or b"[]")]


def users_with(run_id: str, uid: int, processes: t.Mapping[int, Process]) -> list[str]:
    """The other users whose sshd of a run of this name is here, in its default directory. ``uid``: who asks."""
    found = {
        process.uid
        for process in processes.values()
        if process.uid != uid
        and program_name(process.command) == "sshd"
        and _has_run(process, run_id)
        and is_in_this_namespace(process.pid)
    }
    entries = {other: passwd_entry(other) for other in sorted(found)}
    return [entry.pw_name if entry else f"uid {other}" for other, entry in entries.items()]


def _has_run(process: Process, run_id: str) -> bool:
    """Whether it is an sshd of a run, as far as one can see: by its command, of which there is only a name if it is not root's, or by its files.

    Of a user's own directory, since anybody may call a process as he likes.
    """
    directory = RunDir(run_id, None, process.uid).sshd
    return f" -f {directory}/sshd_config " in " ".join(process.command) or os.path.isdir(directory)


def elsewhere(run_dir: RunDir, processes: t.Mapping[int, Process]) -> list[str]:
    """The other directories of a run of this name and user whose sshd is here."""
    found = []
    for process in processes.values():
        match = _CONFIG.search(" ".join(process.command))
        if match and (process.uid, program_name(process.command)) == (run_dir.uid, "sshd"):
            with contextlib.suppress(GpufabricError):
                other = RunDir(run_dir.run_id, match.group(1))
                if other.path != run_dir.path and other.read_mark().get("run_id") == run_dir.run_id:
                    found.append(other.path)
    return sorted(set(found))
