# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import subprocess
import time
import uuid

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._node import other_runs
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.other_runs import find_others, look, run_in
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir


@pytest.mark.parametrize(
    ("environ", "run"),
    [
        (b"A=1\0GPUFABRIC_POINT=night/2\0GPUFABRIC_RUN_DIR=/opt/x\0", ("night", "/opt/x")),
        (b"OMPI_MCA_gpufabric_point=night/1\0", ("night", None)),
        (b"PRTE_MCA_gpufabric_point=night/1\0", ("night", None)),
        # Its sshd and its runner measure nothing.
        (b"GPUFABRIC_RUN_ID=night\0GPUFABRIC_SSHD=night\0", None),
        (b"GPUFABRIC_POINT=night\0junk\0=\0\xff=\xfe\0", None),
        (b"", None),
    ],
)
def test_what_belongs_to_a_point_of_a_run(environ, run):
    assert run_in(environ) == run


def test_programs_of_another_run_are_found_with_its_owner(tmp_path):
    own, other = (RunDir(f"unit-{uuid.uuid4().hex}", str(tmp_path / name)) for name in ("own", "other"))
    other.create()
    other.write_mark({"owner": "you@there", "started": int(time.time()) - 185})
    environments = [
        {"GPUFABRIC_POINT": f"{other.run_id}/1", "GPUFABRIC_RUN_DIR": other.path},
        {"OMPI_MCA_gpufabric_point": f"{other.run_id}/1", "GPUFABRIC_RUN_DIR": other.path},
        {"GPUFABRIC_POINT": f"{own.run_id}/1", "GPUFABRIC_RUN_DIR": own.path},
        # Anybody may set a variable.
        {"GPUFABRIC_POINT": "../../etc/1"},
    ]
    processes = [subprocess.Popen(["sleep", "60"], env={**os.environ, **more}) for more in environments]
    try:
        mine = [found for found in find_others(own) if other.run_id in found.cause]
        theirs = [found for found in find_others(other) if other.run_id in found.cause]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert theirs == []
    (found,) = mine
    assert (found.id, found.severity) == ("run-beside", "warning")
    assert found.cause.startswith(
        f"Programs of another run, {other.run_id}, of you@there, started 3 minutes ago, are on"
    )
    assert f"gpufabric_run_id={other.run_id}; if it is another owner's, with -e gpufabric_take_over=true" in found.cure
    assert found.evidence == f"2 processes in {other.path}"


def endless(mark):
    os.truncate(mark, 1 << 42)


def link(mark):
    """As one to the device of a watchdog, which is set off by whoever opens it."""
    os.rename(mark, f"{mark}-aside")
    os.symlink(f"{mark}-aside", mark)


@pytest.mark.parametrize(
    ("started", "change"),
    [
        (float("nan"), None),
        (float("inf"), None),
        (10**400, None),
        (-1, None),
        (0, endless),
        (0, link),
    ],
)
def test_a_mark_that_a_stranger_wrote_tells_nothing_and_is_no_error(tmp_path, started, change):
    own, other = (RunDir(f"unit-{uuid.uuid4().hex}", str(tmp_path / name)) for name in ("own", "other"))
    other.create()
    other.write_mark({"started": started, "owner": "you@there" if change else "x" * 201})
    if change:
        change(other.mark)
    environment = {"GPUFABRIC_POINT": f"{other.run_id}/1", "GPUFABRIC_RUN_DIR": other.path}
    process = subprocess.Popen(["sleep", "60"], env={**os.environ, **environment})
    try:
        (found,) = [found for found in find_others(own) if other.run_id in found.cause]
    finally:
        process.kill()
        process.wait()
    assert found.cause.startswith(f"Programs of another run, {other.run_id}, are on")


def test_environments_are_read_as_far_as_it_takes_no_time(tmp_path, monkeypatch):
    own, other = (RunDir(f"unit-{uuid.uuid4().hex}", str(tmp_path / name)) for name in ("own", "other"))
    other.create()
    read = []
    environ = f"GPUFABRIC_POINT={other.run_id}/1\0GPUFABRIC_RUN_DIR={other.path}\0{'x' * 1000}".encode()
    monkeypatch.setattr(other_runs, "read_environment", lambda pid: read.append(pid) or environ)
    monkeypatch.setattr(other_runs, "_MOST_READ", 3 * len(environ))
    assert [found.evidence for found in look(own)][:1] and len(read) == 3


def test_a_process_of_which_nobody_can_read_holds_nobody(tmp_path, monkeypatch):
    """As one that is being started from a file system that does not answer, or whose run is said to be there."""
    monkeypatch.setattr(other_runs, "read_environment", lambda pid: time.sleep(60))
    monkeypatch.setattr(other_runs, "_PATIENCE", 0.2)
    begin = time.monotonic()
    assert find_others(RunDir("unit", str(tmp_path / "own"))) == [] and time.monotonic() - begin < 10
