# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What tests make in a cluster says whose it is, so that the next run removes what a killed one has left."""

from __future__ import annotations

import contextlib
import datetime
import os
import pathlib
import socket
import typing as t

#: The labels of what tests make for all of a cluster.
OF_TESTS = {"app.kubernetes.io/managed-by": "gpufabric.nccl-tests"}
_OWNER = "gpufabric.nccl/owner"
#: No run takes longer, wherever it is.
_LONGEST = datetime.timedelta(days=1)


def is_of_tests(item: t.Mapping[str, t.Any]) -> bool:
    """Whether tests have made an object."""
    return OF_TESTS.items() <= item["metadata"].get("labels", {}).items()


def owned(pid: int | None = None) -> dict[str, t.Any]:
    """The metadata of what a process of tests makes, by default this one."""
    pid = os.getpid() if pid is None else pid
    return {"labels": OF_TESTS, "annotations": {_OWNER: f"{_machine()} {pid} {_start_time(pid)}"}}


def is_left(item: t.Mapping[str, t.Any]) -> bool:
    """Whether the process that has made an object is gone; of another machine's after a day."""
    machine, pid, start = item["metadata"].get("annotations", {}).get(_OWNER, " 0 ").split(" ")
    if machine == _machine():
        return _start_time(int(pid)) != start
    made = datetime.datetime.strptime(item["metadata"]["creationTimestamp"], "%Y-%m-%dT%H:%M:%S%z")
    return datetime.datetime.now(datetime.timezone.utc) - made > _LONGEST


def sweep(cluster: t.Any) -> None:
    """Remove the namespaces of runs that are gone."""
    (selector,) = (f"--selector={name}={value}" for name, value in OF_TESTS.items())
    for item in cluster.get("namespaces", selector)["items"]:
        if is_left(item) and "deletionTimestamp" not in item["metadata"]:
            remove_namespace(cluster, item["metadata"]["name"])


def remove_namespace(cluster: t.Any, name: str) -> None:
    """Remove a namespace with its pods, without waiting for either."""
    # Another process of the same run may remove the same.
    now = ("--force", "--grace-period=0", "--wait=false", "--ignore-not-found")
    cluster.kubectl("delete", "pods", "--all", *now, namespace=name)
    cluster.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


def _machine() -> str:
    """Where process ids mean the same: a host since its start, and a namespace of it."""
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{socket.gethostname()}/{boot}/{os.readlink('/proc/self/ns/pid')}"


def _start_time(pid: int) -> str:
    """When a process began, in ticks since the machine's start; empty where there is none, or one that has ended."""
    with contextlib.suppress(OSError):
        state, *fields = (pathlib.Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return "" if state == "Z" else fields[18]
    return ""
