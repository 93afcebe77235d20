# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The examples for users' own CI: their scenario of molecule, as their jobs call it."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess

import pytest
import yaml
from groups import one_at_a_time

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "docs/examples/ci"


def test_the_job_of_github_can_read_what_it_uploads(tmp_path):
    """The scenario runs as root, and output.tar.gz is its owner's alone: the upload fails at a file that it cannot read."""
    steps = yaml.safe_load((EXAMPLES / "github.yml").read_text())["jobs"]["molecule"]["steps"]
    handing_over, upload = [step for step in steps if step.get("if") == "always()"]
    assert upload["uses"].startswith("actions/upload-artifact@")
    archive = tmp_path / "results/output.tar.gz"
    archive.parent.mkdir()
    archive.touch(0o600)
    bin_path = tmp_path / "bin"
    bin_path.mkdir()
    for name, text in (("sudo", 'exec "$@"'), ("id", "echo 65534")):
        (bin_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (bin_path / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{bin_path}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-e", "-c", handing_over["run"]], cwd=tmp_path, env=environment, check=True)
    assert archive.stat().st_uid == 65534


@pytest.mark.slow
def test_the_scenario_for_the_ci_of_users(group, tmp_path):
    """It runs as it is, but for the names and subnets of its nodes, which are this test's own."""
    assert "molecule test" in yaml.safe_load((EXAMPLES / "gitlab.yml").read_text())["nodes"]["script"]
    steps = yaml.safe_load((EXAMPLES / "github.yml").read_text())["jobs"]["molecule"]["steps"]
    assert [step["run"] for step in steps if step.get("run", "").endswith(" molecule test")]
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    own = "".join(f"{name}: {json.dumps(value)}\n        " for name, value in group.variables.items()).rstrip(" ")
    for path in tmp_path.rglob("*.yml"):
        text = path.read_text().replace("gpufabric_run_id: molecule\n", own)
        path.write_text(text.replace("gpufabric-local/molecule/", f"gpufabric-local/{group.run_id}/"))
    environment = {name: value for name, value in os.environ.items() if name != "ANSIBLE_CONFIG"}
    environment["ANSIBLE_COLLECTIONS_PATH"] = f"{ROOT / 'build/collections'}:{ROOT / '.venv/collections'}"
    environment["ANSIBLE_HOME"] = str(tmp_path / "home")
    with one_at_a_time():
        done = subprocess.run(
            ["molecule", "test"],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((tmp_path / "results/results.json").read_text())
    assert (results["verdict"], [one["host_count"] for one in results["results"]]) == ("pass", [2])
    assert (tmp_path / "results/junit.xml").exists()
    assert not pathlib.Path(f"/run/gpufabric-local/{group.run_id}").exists()
