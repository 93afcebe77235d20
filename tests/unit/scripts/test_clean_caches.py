# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""scripts/clean-caches, in a directory that stands for the root."""

from __future__ import annotations

import fcntl
import os
import pathlib
import shlex
import subprocess

import pytest

SCRIPT = pathlib.Path(__file__).parents[3] / "scripts" / "clean-caches"
LOCKS = [
    "run/gpufabric-tests/networks",
    "var/cache/gpufabric-nccl-tests/lock",
    "var/cache/gpufabric-openmpi/5.0.7.lock",
]
BUILT = ["var/cache/gpufabric-nccl-tests/2.17/all_reduce_perf", "var/cache/gpufabric-openmpi/5.0.7/bin/mpirun"]


@pytest.fixture
def root(tmp_path):
    for name in [*LOCKS, *BUILT, "var/cache/other/file"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def clean(root, path=None):
    environment = {**os.environ, **({"PATH": f"{path}:{os.environ['PATH']}"} if path else {})}
    argv = [str(SCRIPT), str(root)]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=environment, timeout=100)


def there(root, names):
    return [name for name in names if (root / name).exists()]


def test_all_goes_but_the_locks(root):
    done = clean(root)
    assert (done.returncode, done.stderr) == (0, "")
    assert there(root, BUILT) == [] and there(root, LOCKS) == LOCKS and (root / "var/cache/other/file").exists()
    assert clean(root).returncode == 0


@pytest.mark.parametrize("lock", [*LOCKS, "run/gpufabric-tests/cluster-8"])
def test_nothing_goes_while_a_lock_is_held(root, lock):
    with (root / lock).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = clean(root)
    assert done.returncode == 1 and str(root / lock) in done.stderr
    assert there(root, BUILT) == BUILT


def test_the_locks_are_held_until_all_is_removed(root, tmp_path):
    """Looked at by the rm that removes."""
    programs = tmp_path / "programs"
    programs.mkdir()
    wanted = [*LOCKS, "run/gpufabric-tests/cluster-1"]
    looks = "\n".join(
        f"flock --nonblock {shlex.quote(str(root / lock))} true && echo {lock} is free" for lock in wanted
    )
    (programs / "rm").write_text(f'#!/bin/sh\n{looks}\nexec /bin/rm "$@"\n')
    (programs / "rm").chmod(0o755)
    done = clean(root, programs)
    assert (done.returncode, done.stdout) == (0, "") and there(root, BUILT) == []
