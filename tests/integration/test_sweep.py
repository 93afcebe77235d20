# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sweeps from the playbook to the report."""

from __future__ import annotations

import concurrent.futures
import json
import signal
import uuid

import pytest
from background import kill, wait

SWEEP = {
    "collectives": ["all_reduce", "all_gather"],
    "datatypes": ["float", "double"],
    "env": {"NCCL_ALGO": [None, "Ring"]},
    "repeats": 3,
}
SMALL = {"nccl_benchmark_min_bytes": "1K", "nccl_benchmark_max_bytes": "64K", "nccl_benchmark_step_factor": 8}
RUN_ID = "sweep"
POINTS = f"/run/gpufabric/{RUN_ID}/mpi/points"


@pytest.fixture
def run(nodes):
    """Runs a sweep over the nodes; what it leaves there is removed."""

    def benchmark(report_dir, *arguments, **variables):
        settings = {**SMALL, "gpufabric_run_id": RUN_ID, **variables}
        return nodes.benchmark(report_dir, *arguments, **settings)

    yield benchmark
    played = nodes.playbook("gpufabric.nccl.teardown", gpufabric_run_id=RUN_ID)
    assert played.returncode == 0, played.output


def finished(nodes):
    """What the points have printed that are over, by their directory."""
    command = f"cd {POINTS} && for over in */exit.json; do sha256sum ${{over%/*}}/stdout; done"
    lines = nodes.shell("g1", command, check=False).stdout.splitlines()
    return {line.split()[1]: line.split()[0] for line in lines}


def of_mpi_run(played):
    return played.result(action="gpufabric.nccl.mpi_run")


@pytest.mark.parametrize("version", [4, 5])
def test_a_sweep(nodes, run, tmp_path, request, version):
    openmpi = request.getfixturevalue("openmpi5") if version == 5 else {}
    # What the launcher has of a variable that is swept is not the setting of any point.
    environment = {"NCCL_ALGO": "Tree", "NCCL_NTHREADS": "64"}
    variables = {"nccl_benchmark_sweep": SWEEP, "gpufabric_environment": environment, **openmpi}
    checked = run(tmp_path, "--check", **variables)
    assert checked.returncode == 0, checked.output
    assert "The sweep has 24 points" in checked.output
    ids = [point["id"] for point in of_mpi_run(checked)["points"]]
    assert len(set(ids)) == 24 and all(checked.output.count(f"{name}  ") == 1 for name in ids)

    token = uuid.uuid4().hex
    with concurrent.futures.ThreadPoolExecutor() as pool:
        play = pool.submit(run, tmp_path, token=token, **variables)
        wait(lambda: len(finished(nodes)) >= 3 or play.done())
        kill(token)
        assert play.result().returncode == -signal.SIGKILL, play.result().output
    assert not (tmp_path / "results.json").exists()
    done = finished(nodes)
    assert 3 <= len(done) < 24

    played = run(tmp_path, **variables)
    assert played.returncode == 0, played.output
    # Nothing was run twice.
    after = finished(nodes)
    assert len(after) == 24 and {name: after[name] for name in done} == done
    outcomes = of_mpi_run(played)["points"]
    assert [point["id"] for point in outcomes] == ids
    of_algorithm = [point["command"].count("NCCL_ALGO") for point in outcomes]
    assert sum(of_algorithm) == 12 and {point["command"].count("NCCL_NTHREADS") for point in outcomes} == {1}
    # One task, whatever the number of points.
    assert len([record for record in played.records if record["host"] == "g1"]) < 24

    written = json.loads((tmp_path / "results.json").read_text())
    assert written["verdict"] == "pass"
    assert [item["points"]["sweep"]["id"] for item in written["results"]] == ids
    for document, number in zip(written["results"], of_algorithm):
        point = document["points"]["sweep"]
        assert document["collective"] == point["collective"] and point["total"] == 24
        assert {row["type"] for row in document["rows"]} == {point["options"]["datatype"]}
        assert [row["size"] for row in document["rows"]] == [2**10, 2**13, 2**16]
        assert document["points"]["env"] == point["env"] == ({"NCCL_ALGO": "Ring"} if number else {})
        assert document["host_count"] == 4
    sweep = written["sweep"]
    assert (sweep["counts"]["used"], sweep["counts"]["missing"], sweep["excluded"]) == (24, 0, [])
    assert len(sweep["bands"]) == 4
    for band in sweep["bands"]:
        assert [entry["repeats"] for entry in band["settings"]] == [3, 3]
        assert band["best"] == band["settings"][0] and band["default"]["env"] == {}
        assert band["best"]["beyond_noise"] in (True, False)
        # The CPU program has no use for the variable: what is advised is what was beyond the noise by chance.
        lines = ["NCCL_ALGO=Ring"] if band["best"]["beyond_noise"] else []
        assert band["advice"]["lines"] == band["advice"]["nccl_conf"] == lines
    assert {effect["factor"] for effect in sweep["effects"]} == {"datatype", "NCCL_ALGO"}

    report = (tmp_path / "report.md").read_text()
    assert "## Sweep\n\n24 of 24 tests used.\n\n### Best settings\n" in report
    for text in (report, played.output):
        assert "For all jobs" in text and "all_gather double" in text and "1 KiB to 64 KiB" in text


def test_a_sweep_stops_in_good_order_when_its_time_is_over(nodes, run, tmp_path):
    sweep = {"ranks_per_node": [1, 2], "repeats": 2}
    variables = {"nccl_benchmark_sweep": sweep, "nccl_benchmark_backend": "cpu"}
    played = run(tmp_path, nccl_benchmark_limit_time=1, **variables)
    assert played.returncode == 0, played.output
    written = json.loads((tmp_path / "results.json").read_text())
    documents = written["results"]
    ran = len(documents)
    assert 1 <= ran < 4 and written["verdict"] == "pass"
    assert written["sweep"]["counts"]["missing"] == 4 - ran
    assert f"{ran} of 4 tests used, {4 - ran} not run." in (tmp_path / "report.md").read_text()
    assert f"{4 - ran} of 4 points were not run" in played.output
    # Without a limit the same goes on.
    played = run(tmp_path, **variables)
    assert played.returncode == 0, played.output
    written = json.loads((tmp_path / "results.json").read_text())
    assert sorted(item["rank_count"] for item in written["results"]) == [4, 4, 8, 8]
    assert [item["rows"] for item in written["results"][:ran]] == [item["rows"] for item in documents]
    assert {entry["ranks_per_node"] for entry in written["sweep"]["bands"]} == {1, 2}

    # A null takes away what the launcher has, on its own ranks too, which have mpirun's environment.
    program = ["bash", "-c", "echo ALGO=${NCCL_ALGO-unset}"]
    options = {"run_id": RUN_ID, "control_interface": "eth0", "points": [{"argv": program, "env": {"NCCL_ALGO": None}}]}
    result = nodes.module("mpi_run", options, environment={"NCCL_ALGO": "Tree"})
    assert result["complete"], result
    printed = nodes.shell("g1", f"cat {result['points'][0]['stdout_path']}").stdout
    assert printed.count("ALGO=unset\n") == printed.count("ALGO=") == 8
