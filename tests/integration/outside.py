# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes as this machine sees them: their processes, and control groups that these are in."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import subprocess
import typing as t

from background import wait
from conftest import Nodes

#: The file of a control group that holds its limit, by the controller: of cgroups v1 and v2.
LIMITS = {
    "memory": ("memory.limit_in_bytes", "memory.max"),
    "pids": ("pids.max", "pids.max"),
}


def processes_of(nodes: Nodes, node: str) -> dict[int, str]:
    """The pids on this machine of a node's processes, by those that they have on the node."""
    argv = ["podman", "inspect", "--format", "{{.State.Pid}}", f"gpufabric-{nodes.run_id}-{node}"]
    first = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    space = os.readlink(f"/proc/{first}/ns/pid")
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        # It may end while it is looked at.
        with contextlib.suppress(OSError):
            inside = re.search(r"^NSpid:.*\s(\d+)$", (path / "status").read_text(), re.MULTILINE)
            if inside and os.readlink(path / "ns/pid") == space:
                found[int(inside.group(1))] = path.name
    return found


@contextlib.contextmanager
def limited(pid: str, name: str, controller: str, value: str) -> t.Iterator[None]:
    """A process, and those that it starts, in a control group of this machine with a limit."""
    base = pathlib.Path("/sys/fs/cgroup")
    first = (base / controller).is_dir()
    groups = base / controller if first else base
    (before, *_others) = (
        line.split(":", 2)[2]
        for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        if f":{controller}:" in line or line.startswith("0::")
    )
    group = groups / name
    # Tests that were killed leave theirs.
    group.mkdir(exist_ok=True)
    try:
        (group / LIMITS[controller][0 if first else 1]).write_text(value)
        (group / "cgroup.procs").write_text(pid)
        yield
    finally:
        # It may have ended.
        with contextlib.suppress(ProcessLookupError):
            (groups / before.lstrip("/") / "cgroup.procs").write_text(pid)
        wait(lambda: not (group / "cgroup.procs").read_text().strip())
        group.rmdir()
