# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs on pods that outlive what is between them and the controller, and runs with Open MPI 5."""

from __future__ import annotations

import concurrent.futures
import subprocess

import pytest

#: Of 8 points.
SWEEP = {
    "collectives": ["all_reduce", "all_gather"],
    "datatypes": ["float", "double"],
    "ranks_per_node": [1, 2],
    "repeats": 1,
}


@pytest.mark.slow
def test_a_run_goes_on_while_the_api_server_is_restarted(runs, relay, pods):
    runs = runs.within(relay.environment)
    pods.create("a", "b")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        playing = pool.submit(runs.play, worker_pods_names=["a", "b"], nccl_benchmark_sweep=SWEEP)
        runs.wait_for_output("a", 2, playing)
        # More than one poll finds nobody there.
        relay.go_away_from(playing, "the run goes on meanwhile", 6)
        played = playing.result()
    assert played.returncode == 0, played.output
    # None was run twice.
    assert played.output.count(": started") == 8
    assert [(result["verdict"], result["host_count"]) for result in runs.results()] == [("pass", 2)] * 8


@pytest.mark.slow
def test_a_launcher_whose_kubelet_hangs_while_the_program_runs_does_not_hold_the_play_up(runs, cluster, tmp_path):
    program, hangs = tmp_path / "bin/kubectl", tmp_path / "hangs"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\n[ -e {hangs} ] && case " $* " in *" exec "*) exec sleep 600;; esac\nexec {cluster.kubectl_path} "$@"\n'
    )
    program.chmod(0o755)
    playing_runs = runs.within({"PATH": f"{program.parent}:{cluster.environment['PATH']}"})
    with concurrent.futures.ThreadPoolExecutor() as pool:
        playing = pool.submit(playing_runs.play, nccl_benchmark_max_bytes="1M", nccl_benchmark_iterations=1000000)
        runs.wait_for_output("gpufabric-default-0", 1, playing)
        hangs.touch()
        played = playing.result()
    assert played.returncode != 0 and runs.ours() == [], played.output
    (problem,) = runs.result()["problems"]
    assert problem["id"] == "launcher-lost" and "gpufabric-default-0 has not answered" in problem["cause"]


@pytest.mark.slow
def test_openmpi5_on_pods(runs, pods, openmpi5):
    """The same playbook; the pods get the other Open MPI beside that of their image."""
    names = ["a", "b", "c"]
    pods.create(*names)
    prefix = openmpi5["gpufabric_mpi_prefix"]
    for name in names:
        with subprocess.Popen(["tar", "-c", "-C", prefix, "."], stdout=subprocess.PIPE) as tar:
            where = ["--kubeconfig", runs.cluster.kubeconfig, "--namespace", runs.namespace]
            unpack = ["sh", "-c", f"mkdir -p {prefix} && tar -x -C {prefix}"]
            subprocess.run(
                [runs.cluster.kubectl_path, *where, "exec", "-i", name, "--", *unpack],
                stdin=tar.stdout,
                check=True,
                timeout=300,
            )
    played = runs.play(
        worker_pods_names=names,
        gpufabric_mpi_prefix=prefix,
        worker_pods_python_interpreter=openmpi5["ansible_python_interpreter"],
        nccl_benchmark_sweep=SWEEP,
    )
    assert played.returncode == 0, played.output
    results = runs.results()
    assert [(result["verdict"], result["host_count"]) for result in results] == [("pass", 3)] * 8
    assert sorted({result["rank_count"] for result in results}) == [3, 6]
