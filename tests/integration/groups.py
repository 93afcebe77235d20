# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Groups of local nodes for the tests, made and removed without a play.

A group has a number, which its names and subnets are made of. A process holds the lock of each number that it uses, so that
tests beside each other never meet, and the kernel gives the lock back however the process ends. What a process left that was
killed is removed by the next one that looks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import subprocess
import sys
import typing as t

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "build" / "collections"))
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.local_nodes import (
    LocalNodes,
    Node,
    Settings,
    plan_nodes,
    state_directory,
)

LOCKS = pathlib.Path("/run/gpufabric-tests")
#: The third part of the groups' subnets; beyond are those of other tests.
NUMBERS = range(100, 250)


class NoNumber(Exception):
    """All numbers are in use."""


@contextlib.contextmanager
def one_at_a_time() -> t.Iterator[None]:
    """Of all tests on this machine: podman 4.3 may give networks that are made at once the same bridge."""
    LOCKS.mkdir(mode=0o755, exist_ok=True)
    with open(LOCKS / "networks", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Group:
    """The number of a group, which is this process's own until it is released, and what is made with it."""

    def __init__(self, number: int, lock: t.IO[str]) -> None:
        self.number = number
        self.run_id = f"test{number}"
        self._lock = lock

    @property
    def variables(self) -> dict[str, str]:
        """What makes the role local_nodes use the names and subnets of this group."""
        return {
            "gpufabric_run_id": self.run_id,
            "local_nodes_control_subnet": f"10.66.{self.number}.0/24",
            "local_nodes_data_subnet": f"192.168.{self.number}.0/24",
        }

    @property
    def networks(self) -> tuple[str, str]:
        """The names of the control and the data network."""
        return f"gpufabric-{self.run_id}-control", f"gpufabric-{self.run_id}-data"

    @property
    def inventory(self) -> str:
        """The path of the inventory."""
        return f"{state_directory(self.run_id, None)}/inventory.yml"

    def start(self, count: int) -> list[Node]:
        """Have that many nodes run, as the role local_nodes does."""
        control, data = self.networks
        settings = Settings(
            run_id=self.run_id,
            state_dir=state_directory(self.run_id, None),
            count=count,
            prefix="g",
            control_network=control,
            data_network=data,
            control_subnet=self.variables["local_nodes_control_subnet"],
            data_subnet=self.variables["local_nodes_data_subnet"],
            cap_add=(),
            group="workers",
            python_interpreter="/usr/bin/python3",
            timeout=120,
        )
        with one_at_a_time():
            for name, subnet, options in (
                (control, settings.control_subnet, []),
                (data, settings.data_subnet, ["--disable-dns", "--internal"]),
            ):
                if _podman("network", "exists", name, check=False).returncode != 0:
                    _podman("network", "create", "--subnet", subnet, *options, name)
            LocalNodes(self.run_id, settings.state_dir).present(settings, check=False)
        return plan_nodes(settings)

    def remove(self) -> None:
        """Remove all that has this number's names, also what a process left that was killed."""
        with one_at_a_time():
            LocalNodes(self.run_id, state_directory(self.run_id, None)).absent(check=False)
            known = _podman("network", "ls", "--format", "{{.Name}}").stdout.split()
            # Also those that a test added.
            own = [name for name in known if name.startswith(f"gpufabric-{self.run_id}-")]
            if own:
                _podman("network", "rm", "--force", *own)

    def release(self, keep: bool = False) -> None:
        """Give the number back. ``keep``: with all that is there, for the next process that asks for it and keeps too."""
        if not keep:
            self.remove()
            self._lock.truncate(0)
        self._lock.close()


def claim(keep: bool = False) -> Group:
    """The first number that no process has, and nothing of it on this machine; with ``keep``, with what another one kept."""
    for number in NUMBERS:
        group = _claimed(number)
        if group is not None:
            if not keep and _is_used(group):
                group.remove()
            # From now on there may be something of it.
            group._lock.write("used")
            group._lock.flush()
            return group
    raise NoNumber(f"all of {NUMBERS.start} to {NUMBERS.stop - 1} are in use; {LOCKS} has a lock of each")


def sweep() -> list[str]:
    """Remove what was left by processes that are gone; the names of the groups that were removed."""
    removed = []
    for number in NUMBERS:
        if (LOCKS / str(number)).exists() and (group := _claimed(number)) is not None:
            if _is_used(group):
                removed.append(group.run_id)
                group.release()
            else:
                group.release(keep=True)
    return removed


def _claimed(number: int) -> Group | None:
    LOCKS.mkdir(mode=0o755, exist_ok=True)
    file = open(LOCKS / str(number), "a")  # noqa: SIM115 - the lock is held as long as it is open
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return Group(number, file)


def _is_used(group: Group) -> bool:
    return os.fstat(group._lock.fileno()).st_size > 0


def _podman(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        ["podman", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
    )
    assert not check or done.returncode == 0, f"podman {' '.join(arguments)}: {done.stderr}"
    return done


if __name__ == "__main__":
    for name in sweep():
        print(f"removed the nodes of {name}")
