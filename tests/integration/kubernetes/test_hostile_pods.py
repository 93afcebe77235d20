# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plays over pods one of which answers every module as it likes: nothing that it says is run on the controller."""

from __future__ import annotations

import pathlib
import shlex

import pytest
from hostile import Hostility
from job_runs import JobRuns, start_job_of_others

pytestmark = pytest.mark.slow

REAL = "/usr/bin/python3"
PYTHON = "/tmp/python"
HONEST = f'#!/bin/sh\nexec {REAL} "$@"\n'


@pytest.fixture
def hostility(tmp_path: pathlib.Path) -> Hostility:
    return Hostility(tmp_path / "was-run")


def equip(pods, **pythons: str) -> None:
    """Put into each pod a program in the place of its Python."""
    for name, text in pythons.items():
        script = f"printf %s {shlex.quote(text)} >{PYTHON} && chmod 0755 {PYTHON}"
        pods.exec(name, "sh", "-c", script)


@pytest.mark.parametrize("whole", [True, False])
def test_an_adopted_pod(runs, pods, hostility, whole):
    pods.create("good", "hostile")
    equip(pods, good=HONEST, hostile=hostility.python(REAL, "", hostility.answers("good") if whole else None))
    played = runs.play(worker_pods_names=["good", "hostile"], worker_pods_python_interpreter=PYTHON)
    hostility.check(played, "  hostile: The host answers, but not with ", "hostile returned node")


@pytest.mark.parametrize("role", ["launcher", "worker"])
def test_a_pod_of_an_adopted_job(cluster_player, cluster, operator, pods, hostility, tmp_path, role):
    run = JobRuns(cluster_player, cluster, pods.namespace, tmp_path / "report")
    launcher = start_job_of_others(cluster, pods, "/root/.ssh")
    hostile = launcher if role == "launcher" else "train-worker-1"
    # The launcher's Python answers for the run, the worker's says what the worker has.
    text = hostility.python(REAL, "mpi_run" if role == "launcher" else "", hostility.answers("train-worker-0"))
    equip(pods, **{**dict.fromkeys((launcher, "train-worker-0", "train-worker-1"), HONEST), hostile: text})
    played = run(mpijob_state="adopted", mpijob_name="train", mpijob_python_interpreter=PYTHON)
    hostility.check(played, f"  {hostile}: The host answers, but not with " if role == "worker" else "cannot be read")


def test_the_program_of_a_job_that_is_submitted(cluster_player, cluster, operator, namespace, hostility, tmp_path):
    """All that the controller reads of such a job is the launcher's log."""
    run = JobRuns(cluster_player, cluster, namespace, tmp_path / "report")
    text = hostility.text
    lines = [
        text,
        f"gpufabric-mpijob: worker {text}",
        f'{{"results": ["{text}"], "hostname": "{text}"}}',
        f"#  Rank  0 Group  0 Pid      1 on {text} device  0 [0x01] {text}",
        f"{text}: NCCL WARN {text}",
        f"[{text}:1:2] *** Process received signal ***",
    ]
    script = "#!/bin/sh\nprintf '%s\\n' " + shlex.join(lines) + "\n"
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hostile"}, "data": {"python": script}}
    cluster.create(made, namespace=namespace)
    mount = {"volumeMounts": [{"name": "hostile", "mountPath": "/hostile"}]}
    played = run(
        mpijob_python_interpreter="/hostile/python",
        mpijob_pod_spec={
            "volumes": [{"name": "hostile", "configMap": {"name": "hostile", "defaultMode": 0o755}}],
            "containers": [{"name": "worker", **mount}, {"name": "launcher", **mount}],
        },
    )
    assert (run.directory / "launcher.log").exists(), played.output
    assert "touch" in (run.directory / "launcher.log").read_text()
    hostility.check(played)
    report = (run.directory / "report.md").read_text()
    assert "\x1b" not in report and not hostility.mark.exists()
