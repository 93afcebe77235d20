# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import resource
import tarfile

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi import progress, run_files
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.progress import Journal
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.run_files import Run, outcome_of
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir

TOKEN = "s3cret-t0ken"


@pytest.fixture
def cut_off(tmp_path):
    """A run whose runner was killed in its first point."""
    run_dir = RunDir("default", str(tmp_path / "run"))
    run_dir.create(run_dir.mpi, run_dir.tmp, run_dir.points, f"{run_dir.points}/1")
    entry = {
        "id": "a",
        "name": "all_reduce",
        "command": ["mpirun", "all_reduce_perf"],
        "env": {"MY_TOKEN": TOKEN},
        "ranks": 2,
        "ranks_per_node": None,
        "fingerprint": "f",
    }
    texts = {
        "plan.json": json.dumps({"points": [entry], "reach": {"hosts": [], "agent": [], "environment": {}}}),
        # No process has this number.
        "run.json": json.dumps({"plan": "p", "pid": 2**22 + 1, "start": 1, "total": 1, "over": None}),
        "unclaimed": "",
        "archive-wanted": "",
        "points/1/stdout": "# nccl-tests\n",
        "points/1/stderr": "",
    }
    for name, text in texts.items():
        (tmp_path / "run" / "mpi" / name).write_text(text)
    return Run(run_dir)


def test_what_is_fetched_of_a_run_that_was_cut_off_has_no_values_of_variables(cut_off, tmp_path):
    (point,) = cut_off.stop()["points"]
    assert point["status"] == "stopped"
    with tarfile.open(tmp_path / "run" / "mpi" / "output.tar.gz") as archive:
        texts = {entry.name: archive.extractfile(entry).read().decode() for entry in archive if entry.isfile()}
    assert texts["points/1/stdout"] == "# nccl-tests\n"
    assert json.loads(texts["points/1/exit.json"])["command"] == ["mpirun", "all_reduce_perf"]
    assert TOKEN not in "".join(texts.values())


def test_results_that_are_too_long_for_the_controller_leave_the_reason(cut_off, tmp_path, monkeypatch):
    """Those of a soak of hours: without it, the controller took the run for one that somebody has stopped."""
    for module in (progress, run_files):
        monkeypatch.setattr(module, "LONGEST_EVENT", 4096)
    entry = {"id": "a", "name": "all_reduce", "command": ["mpirun"], "fingerprint": "f"}
    outcome = outcome_of("finished", cut_off.output(1), [], exit_status=0, results=[{"rows": [{"size": 8}] * 200}])
    cut_off.end_point(1, entry, outcome)
    assert Journal().feed((tmp_path / "run" / "mpi" / "events.jsonl").read_text())[0]["outcome"] == outcome
    outcome["results"][0]["rows"] *= 2
    (tmp_path / "run" / "mpi" / "events.jsonl").unlink()
    cut_off.end_point(1, entry, outcome)
    (told,) = Journal().feed((tmp_path / "run" / "mpi" / "events.jsonl").read_text())
    assert told["outcome"]["status"] == "finished" and told["outcome"]["results"] == []
    assert "more than the 4 KiB that reach the controller; let it run fewer cycles" in told["outcome"]["unread"]
    kept = json.loads((tmp_path / "run" / "mpi" / "points" / "1" / "exit.json").read_text())
    assert kept["unread"] == told["outcome"]["unread"]


def test_a_run_that_nothing_can_be_written_of_is_removed_all_the_same(cut_off):
    """As on a file system that is full, which may be why the runner is gone: the limit of this process refuses each byte."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(NodeError, match=f"cannot write to {cut_off.run_dir.mpi}: File too large"):
            cut_off.stop()
        cut_off.remove()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not os.path.exists(cut_off.run_dir.path)
