# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Programs of other runs on this node: what is measured beside them is measured with less of the machine."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.node_catalogue import NODE_CATALOGUE
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.ownership import age_of
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import (
    is_in_this_namespace,
    read_environment,
    read_processes,
    run_apart,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import (
    DAEMON_VARIABLES,
    POINT_VARIABLE,
    RUN_DIR_VARIABLE,
    RunDir,
)

#: A run by its name, its directory if that is given, and the user that its programs run as.
Named = t.Tuple[str, t.Optional[str], int]

#: How many runs are told, and how long the name of an owner may be.
_MOST = 8
_LONGEST_OWNER = 200
#: Bytes of environments that are read, which are some KiB each unless somebody has them long. This only warns.
_MOST_READ = 256 << 20
#: Seconds that all of it may take.
_PATIENCE = 15.0


def run_in(environ: bytes) -> tuple[str, str | None] | None:
    """The name and directory of the run that a program of a point belongs to, by its environment as /proc has it; None of any other process."""
    for name in (POINT_VARIABLE, *DAEMON_VARIABLES):
        run_id, separator, _number = (_value(environ, name) or "").rpartition("/")
        if separator:
            return run_id, _value(environ, RUN_DIR_VARIABLE)
    return None


def _value(environ: bytes, name: str) -> str | None:
    # Of thousands of processes, whose environments are as long as a user likes.
    _before, there, rest = (b"\0" + environ).partition(f"\0{name}=".encode())
    return os.fsdecode(rest.partition(b"\0")[0]) if there else None


def find_others(own: RunDir) -> list[Problem]:
    """A warning for each other run that has programs on this node, as far as this user may look at them.

    None if that takes too long: any user may have a program that waits, or a path in its environment, of which nobody can read.
    """
    text = run_apart(lambda: json.dumps([found.as_dict() for found in look(own)]).encode(), _PATIENCE)
    return [Problem.from_dict(entry) for entry in json.loads(text or b"[]")]


def look(own: RunDir) -> list[Problem]:
    """The same as find_others, which may take for ever."""
    found: dict[Named, int] = {}
    left = _MOST_READ
    for process in read_processes().values():
        with contextlib.suppress(OSError):
            environ = read_environment(process.pid) if left > 0 else b""
            left -= len(environ)
            run = run_in(environ)
            # Containers are nodes of their own.
            if run is not None and is_in_this_namespace(process.pid):
                found[(*run, process.uid)] = found.get((*run, process.uid), 0) + 1
    warnings = [_warning(own, named, number) for named, number in sorted(found.items(), key=str)]
    return [warning for warning in warnings if warning is not None][:_MOST]


def _warning(own: RunDir, named: Named, number: int) -> Problem | None:
    """None if the run is the own one, or its name is none that a run can have."""
    run_id, path, uid = named
    try:
        run_dir = RunDir(run_id, path, uid)
        if (run_dir.run_id, os.path.realpath(run_dir.path)) == (own.run_id, os.path.realpath(own.path)):
            return None
        mark = run_dir.read_mark()
    except (GpufabricError, OSError):
        return None
    facts = {"run_id": run_id, **age_of(mark, time.time())}
    owner = mark.get("owner")
    if isinstance(owner, str) and owner.isprintable() and len(owner) <= _LONGEST_OWNER:
        facts["owner"] = owner
    evidence = f"{number} processes in {run_dir.path}"
    return NODE_CATALOGUE.problem("run-beside", socket.gethostname(), evidence, **facts)
