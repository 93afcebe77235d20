# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sweeps from the playbook to the report."""

from __future__ import annotations

import collections
import concurrent.futures
import json
import shlex
import signal
import uuid

import pytest
import yaml
from background import kill, wait
from conftest import ROOT, slow, whole_job

#: What users begin with, of another type of data and without the last protocol.
EXAMPLE = yaml.safe_load((ROOT / "docs/examples/sweep.yml").read_text())["nccl_benchmark_sweep"]
VARIABLES = {**EXAMPLE["env"], "NCCL_PROTO": EXAMPLE["env"]["NCCL_PROTO"][:2]}
SWEEP = {**EXAMPLE, "datatypes": ["double"], "env": VARIABLES}
POINTS = 30
#: The CPU program has no use for NCCL's variables. In ranks that Python runs this in first, a clock goes as if one setting
#: were a thousand times as fast as all others, which no noise hides.
FASTER = """\
import os, time
if "OMPI_COMM_WORLD_RANK" in os.environ and [os.environ.get(f"NCCL_{name}") for name in ("ALGO", "PROTO")] != ["Ring", "LL"]:
    clock = time.perf_counter
    time.perf_counter = lambda: 1000 * clock()
"""
FASTEST = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}
SMALL = {"nccl_benchmark_min_bytes": "1K", "report_formats": ["json", "markdown"]}
RUN_ID = "sweep"
DIRECTORY = f"/run/gpufabric/{RUN_ID}/mpi/points"


@pytest.fixture(scope="module")
def nodes(make_nodes):
    """Two: a sweep has many launches, and each costs every node."""
    return make_nodes(2)


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
    command = f"cd {DIRECTORY} && for over in */exit.json; do sha256sum ${{over%/*}}/stdout; done"
    lines = nodes.shell("g1", command, check=False).stdout.splitlines()
    return {line.split()[1]: line.split()[0] for line in lines}


@pytest.fixture
def faster(nodes):
    """The environment of ranks of which one setting is the fastest."""
    for node in nodes.names:
        nodes.shell(node, f"mkdir /tmp/faster; printf %s {shlex.quote(FASTER)} > /tmp/faster/sitecustomize.py")
    yield {"PYTHONPATH": "/tmp/faster"}
    for node in nodes.names:
        nodes.shell(node, "rm -r /tmp/faster")


def of_mpi_run(played):
    return played.result(action="gpufabric.nccl.mpi_run")


@pytest.mark.parametrize("version", [slow(4), pytest.param(5, marks=whole_job)])
def test_a_sweep(nodes, run, tmp_path, request, faster, version):
    openmpi = request.getfixturevalue("openmpi5") if version == 5 else {}
    # What the launcher has of a variable that is swept is not the setting of any point.
    environment = {"NCCL_ALGO": "Tree", "NCCL_NTHREADS": "64"}
    variables = {
        "nccl_benchmark_sweep": SWEEP,
        "nccl_benchmark_env": faster,
        "gpufabric_environment": environment,
        **openmpi,
    }
    checked = run(tmp_path, "--check", **variables)
    assert checked.returncode == 0, checked.output
    assert f"The sweep has {POINTS} points" in checked.output
    ids = [point["id"] for point in of_mpi_run(checked)["points"]]
    assert len(set(ids)) == POINTS and all(checked.output.count(f"{name}  ") == 1 for name in ids)

    token = uuid.uuid4().hex
    with concurrent.futures.ThreadPoolExecutor() as pool:
        play = pool.submit(run, tmp_path, token=token, **variables)
        wait(lambda: len(finished(nodes)) >= 3 or play.done())
        kill(token)
        assert play.result().returncode == -signal.SIGKILL, play.result().output
    assert not (tmp_path / "results.json").exists()
    done = finished(nodes)
    assert 3 <= len(done) < POINTS

    played = run(tmp_path, **variables)
    assert played.returncode == 0, played.output
    # Nothing was run twice.
    after = finished(nodes)
    assert len(after) == POINTS and {name: after[name] for name in done} == done
    outcomes = of_mpi_run(played)["points"]
    assert [point["id"] for point in outcomes] == ids
    commands = [point["command"] for point in outcomes]
    # There is no Tree for all_gather, so one of three values is left of it.
    assert [sum(name in command for command in commands) for name in ("NCCL_ALGO", "NCCL_PROTO")] == [18, 15]
    assert {command.count("NCCL_NTHREADS") for command in commands} == {1}
    # No task is done for each point.
    tasks = collections.Counter(record["task"] for record in played.records if record["host"] == "g1")
    assert max(tasks.values()) <= 3, tasks

    written = json.loads((tmp_path / "results.json").read_text())
    assert written["verdict"] == "pass"
    assert [item["points"]["sweep"]["id"] for item in written["results"]] == ids
    for document, command in zip(written["results"], commands):
        point = document["points"]["sweep"]
        assert document["collective"] == point["collective"] and point["total"] == POINTS
        assert {row["type"] for row in document["rows"]} == {point["options"]["datatype"]} == {"double"}
        assert [row["size"] for row in document["rows"]] == [2**10, 2**13, 2**16]
        assert document["points"]["env"] == {**point["env"], **dict.fromkeys(faster, "(not shown)")}
        assert set(point["env"]) == {"NCCL_ALGO", "NCCL_PROTO"} & set(command)
        assert document["host_count"] == 2
    sweep = written["sweep"]
    assert (sweep["counts"]["used"], sweep["counts"]["missing"], sweep["excluded"]) == (POINTS, 0, [])
    assert [(band["collective"], len(band["settings"])) for band in sweep["bands"]] == [
        ("all_reduce", 6),
        ("all_gather", 4),
    ]
    for band in sweep["bands"]:
        assert {entry["repeats"] for entry in band["settings"]} == {3}
        assert band["best"] == band["settings"][0] and band["default"]["env"] == {}
        assert band["best"]["env"] == FASTEST and band["best"]["beyond_noise"] is True
        assert band["advice"]["lines"] == band["advice"]["nccl_conf"] == ["NCCL_ALGO=Ring", "NCCL_PROTO=LL"]
    assert {effect["factor"] for effect in sweep["effects"]} == set(FASTEST)

    report = (tmp_path / "report.md").read_text()
    assert f"## Sweep\n\n{POINTS} of {POINTS} tests used.\n\n### Best settings\n" in report
    for text in (report, played.output):
        assert "For all jobs" in text and "all_gather" in text and "1 KiB to 64 KiB" in text


@pytest.mark.slow
def test_the_example_runs_as_it_is(nodes, run, tmp_path):
    """On a machine without GPUs, as its first lines say."""
    example = f"@{ROOT}/docs/examples/sweep.yml"
    settings = {"gpufabric_run_id": RUN_ID, "nccl_benchmark_iterations": 3, "report_dir": str(tmp_path)}
    played = nodes.playbook("gpufabric.nccl.bare_metal", "-e", example, **settings)
    assert played.returncode == 0, played.output
    written = json.loads((tmp_path / "results.json").read_text())
    assert written["verdict"] == "pass" and len(written["results"]) == 45
    assert (written["sweep"]["counts"]["used"], written["sweep"]["counts"]["missing"]) == (45, 0)
    sizes = {item["collective"]: {row["size"] for row in item["rows"]} for item in written["results"]}
    wanted = {8**n for n in range(1, 9)}
    # all_gather shares the size out in parts of 16 bytes, as in nccl-tests: of 8 bytes nothing is left.
    assert sizes == {"all_reduce": wanted, "all_gather": wanted - {8} | {0}}


@pytest.mark.slow
def test_a_sweep_stops_in_good_order_when_its_time_is_over(nodes, run, tmp_path):
    sweep = {"ranks_per_node": [1, 2], "repeats": 2}
    variables = {"nccl_benchmark_sweep": sweep, "nccl_benchmark_backend": "cpu"}
    played = run(tmp_path, nccl_benchmark_time_limit=1, **variables)
    assert played.returncode == 0, played.output
    written = json.loads((tmp_path / "results.json").read_text())
    documents = written["results"]
    ran = len(documents)
    assert 1 <= ran < 4 and written["verdict"] == "pass"
    assert written["sweep"]["counts"]["missing"] == len(written["sweep"]["missing"]) == 4 - ran
    assert f"{ran} of 4 tests used, {4 - ran} not run." in (tmp_path / "report.md").read_text()
    assert f"{4 - ran} of 4 points were not run" in played.output
    # Without a limit the same goes on.
    played = run(tmp_path, **variables)
    assert played.returncode == 0, played.output
    written = json.loads((tmp_path / "results.json").read_text())
    assert sorted(item["rank_count"] for item in written["results"]) == [2, 2, 4, 4]
    assert [item["rows"] for item in written["results"][:ran]] == [item["rows"] for item in documents]
    assert {entry["ranks_per_node"] for entry in written["sweep"]["bands"]} == {1, 2}


@pytest.mark.slow
def test_a_benchmark_after_a_sweep_in_one_playbook_has_no_sweep(nodes, tmp_path):
    settings = {**SMALL, "nccl_benchmark_max_bytes": "1K", "gpufabric_run_id": RUN_ID}
    sweep = {"nccl_benchmark_sweep": {"ranks_per_node": [1]}}
    plays = [
        {
            "ansible.builtin.import_playbook": "gpufabric.nccl.bare_metal",
            "vars": {"report_dir": str(tmp_path / name), **more},
        }
        for name, more in (("first", sweep), ("second", {}))
    ]
    played = nodes.playbook(plays, **settings)
    assert played.returncode == 0, played.output
    assert ["sweep" in json.loads((tmp_path / name / "results.json").read_text()) for name in ("first", "second")] == [
        True,
        False,
    ]


@pytest.mark.slow
def test_points_that_a_worker_ran_with_other_variables_of_its_own_are_not_kept(run, tmp_path):
    limited = {
        "nccl_benchmark_sweep": {"collectives": ["all_reduce", "broadcast", "all_gather"], "repeats": 2},
        "nccl_benchmark_backend": "cpu",
        "nccl_benchmark_time_limit": 1,
    }
    run(tmp_path, **limited)
    # The launcher, g1, has nothing of it.
    limited["gpufabric_node_env"] = "{{ {'NCCL_TEST': '1'} if inventory_hostname == 'g2' else {} }}"
    for kept in (False, True):
        points = run(tmp_path, **limited).result("g1", "gpufabric.nccl.mpi_run")["points"]
        assert points[0]["status"] == "finished" and points[0]["resumed"] == kept
