# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the controller's Python lacks is told once, with the command that installs it. See also test_report.py."""

from __future__ import annotations

import json
import sys

import pytest
from conftest import slow


@pytest.fixture
def without(tmp_path):
    """The environment variables that hide a library from all Pythons of the controller."""

    def hide(library):
        (tmp_path / "sitecustomize.py").write_text(f"import sys\n\nsys.modules['{library}'] = None\n")
        return {"PYTHONPATH": str(tmp_path)}

    return hide


@pytest.mark.parametrize(
    ("playbook", "image"), [("kubernetes", "worker_pods_image"), slow("mpijob", "mpijob_image")], ids=["pods", "job"]
)
def test_a_cluster_needs_the_kubernetes_library(player, without, tmp_path, playbook, image):
    variables = {image: "worker:1", "report_dir": str(tmp_path / "report")}
    played = player.within(without("kubernetes")).playbook(f"gpufabric.nccl.{playbook}", **variables)
    told = " ".join(played.output.split())
    assert played.returncode != 0 and "Traceback" not in played.output and "CRITICAL" not in played.output
    assert " lacks the library kubernetes." in told, told
    assert (
        f"Install it: {sys.executable} -m pip install --upgrade kubernetes." in told and told.count("pip install") == 1
    ), told


@pytest.mark.slow
def test_a_diagnosis_goes_on_without_paramiko(nodes, without, tmp_path):
    play = {
        "hosts": "g1",
        "gather_facts": False,
        "vars": {"gpufabric_hosts": ["g1"]},
        "tasks": [{"ansible.builtin.include_role": {"name": "gpufabric.nccl.preflight", "tasks_from": "reach"}}],
    }
    lacking = nodes.within(without("paramiko"))
    refused = lacking.playbook([play])
    told = " ".join(refused.output.split())
    assert refused.returncode == 2 and f"{sys.executable} -m pip install --upgrade paramiko" in told, told
    played = lacking.playbook("gpufabric.nccl.diagnose", preflight_report_dir=str(tmp_path / "report"))
    assert played.returncode == 0 and "Traceback" not in played.output, played.output
    document = json.loads((tmp_path / "report" / "diagnosis.json").read_text())
    (warning,) = [entry for entry in document["problems"] if entry["id"] == "library-missing"]
    assert document["ok"] and (warning["severity"], warning["host"]) == ("warning", None)
    assert {host["name"]: host["ok"] for host in document["hosts"]} == dict.fromkeys(nodes.names, True)
    assert f"{sys.executable} -m pip install --upgrade paramiko" in " ".join(played.output.split())
