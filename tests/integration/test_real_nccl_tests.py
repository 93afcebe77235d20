# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real nccl-tests 2.19.6 from sshd to the verdict, over nodes whose GPUs are memory of the host: see tests/stand_in/README.md.

The programs, their arguments, devices, tables and exit statuses are the real ones, and so are the values that they check. CUDA and NCCL
are stand-ins: nothing here says how fast a GPU is.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tarfile
import types
import typing as t
import uuid

import pytest
from background import kill, wait
from conftest import ROOT, Nodes, Played

GPUS = 2
COLLECTIONS = ROOT / "build" / "collections"
RECORD = COLLECTIONS / "ansible_collections" / "gpufabric" / "nccl" / "tests" / "gpu" / "record.py"
#: What a stand-in reads on its host.
SETTINGS = "/etc/gpufabric-stand-in"


COLLECTIVES = [
    *("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall"),
    *("sendrecv", "gather", "scatter", "hypercube", "alltoallv"),
]
TYPES = {
    *("int8", "uint8", "int32", "uint32", "int64", "uint64"),
    *("half", "bfloat16", "f8e4m3", "f8e5m2", "float", "double"),
}
OPERATIONS = {"sum", "prod", "max", "min", "avg", "mulsum"}


class Machines:
    """Nodes with GPUs that are none, and the real programs."""

    def __init__(self, nodes: Nodes, directory: pathlib.Path) -> None:
        self.nodes = nodes
        self._directory = directory
        for node in nodes.names:
            nodes.shell(node, f"ln -s {directory}/bin/nvidia-smi /usr/local/bin/nvidia-smi")
            self.set(node)

    def set(self, node: str, gpus: int = GPUS, **settings: t.Any) -> None:
        """What the stand-ins are on a node."""
        values = {"GPUS": gpus, **settings}
        lines = "".join(f"GPUFABRIC_STAND_IN_{name}={value}\\n" for name, value in values.items())
        self.nodes.shell(node, f"printf '{lines}' >{SETTINGS}")

    @contextlib.contextmanager
    def having(self, node: str, **settings: t.Any) -> t.Iterator[None]:
        """A node that differs from the others."""
        self.set(node, **settings)
        try:
            yield
        finally:
            self.set(node)

    def play(self, playbook: str, report_dir: pathlib.Path, *arguments: str, **variables: t.Any) -> Played:
        """Play a playbook of the collection with the real programs."""
        real = {
            "gpufabric_environment": {"LD_LIBRARY_PATH": f"{self._directory}/lib"},
            "nccl_benchmark_dir": f"{self._directory}/build",
            "report_dir": str(report_dir),
            "report_formats": ["json"],
        }
        return self.nodes.playbook(f"gpufabric.nccl.{playbook}", *arguments, **{**real, **variables})

    def benchmark(self, report_dir: pathlib.Path, *arguments: str, **variables: t.Any) -> Played:
        """The playbook bare_metal with few and small sizes."""
        small = {
            "nccl_benchmark_max_bytes": "64K",
            "nccl_benchmark_step_factor": 64,
            "nccl_benchmark_iterations": 3,
        }
        return self.play("bare_metal", report_dir, *arguments, **{**small, **variables})


@pytest.fixture(scope="module")
def machines(make_nodes: t.Callable[[int], Nodes], nccl_tests: pathlib.Path) -> Machines:
    return Machines(make_nodes(2), nccl_tests)


@pytest.fixture
def mpi(request: pytest.FixtureRequest) -> dict[str, str]:
    """The variables of Open MPI 5, or none: Open MPI 4 is the machine's own."""
    return request.getfixturevalue("openmpi5") if request.param == 5 else {}


def results_of(report_dir: pathlib.Path) -> list[dict[str, t.Any]]:
    return json.loads((report_dir / "results.json").read_text())["results"]


def test_one_rank_for_each_gpu(machines, tmp_path):
    played = machines.benchmark(
        tmp_path, nccl_benchmark_collectives=["all_reduce", "alltoall"], nccl_benchmark_env={"NCCL_DEBUG": "VERSION"}
    )
    assert played.returncode == 0, played.output
    assert "Backend nccl: GPUs and nccl-tests are on all workers. 4 ranks on 2 hosts" in played.output
    documents = results_of(tmp_path)
    assert [document["collective"] for document in documents] == ["all_reduce", "alltoall"]
    for document in documents:
        assert document["verdict"] == "pass" and document["problems"] == []
        assert document["tool"] == {"name": "nccl-tests", "version": "2.19.6", "nccl_version": "2.32.3"}
        assert document["config"]["validation"] == 1 and document["summary"]["out_of_bounds"] == 0
        devices = [(rank["host"], rank["device"], rank["bus_id"], rank["name"]) for rank in document["ranks"]]
        assert devices == [
            (host, device, f"0000:1{device}:00", "Stand-in of a GPU") for host in ("g1", "g2") for device in range(GPUS)
        ]
        # The programs told the times of each process, in a file that was read and removed.
        assert document["stragglers"] is not None and document["json_output"] is None
        assert {"-I", "-J"} <= set(document["points"]["argv"])
        assert all("i_p99" in row["in_place"]["extra"] for row in document["rows"])
        # alltoall overwrites in place what it would be checked against.
        checked = {"all_reduce": 0, "alltoall": None}[document["collective"]]
        assert {(row["out_of_place"]["wrong"], row["in_place"]["wrong"]) for row in document["rows"]} == {(0, checked)}
    assert [row["size"] for row in documents[0]["rows"]] == [8, 512, 32768]


@pytest.mark.slow
def test_sizes_that_nobody_gave(machines, tmp_path):
    """A GPU of the stand-in has 8 GiB; the network may allow less. The play says so, and nothing is run."""
    played = machines.play("bare_metal", tmp_path, "--check", gpufabric_run_id="sizes")
    assert played.returncode == 0, played.output
    told = " ".join(played.output.split())
    assert re.search(
        r"Sizes 8 to (2G|1G|[1-9]+M) \(the default with GPUs; (a GPU has 8 GiB|more would take over 300 s)", told
    )
    given = machines.play("bare_metal", tmp_path, "--check", gpufabric_run_id="sizes", nccl_benchmark_max_bytes="64K")
    assert given.returncode == 0 and "Sizes 8 to 64K." in given.output


@pytest.mark.slow
def test_the_rank_that_comes_late_is_named(machines, tmp_path):
    """It has the shortest time, since it finds the others waiting."""
    run_id = "late"
    with machines.having("g2", FAULT="late"):
        played = machines.benchmark(
            tmp_path,
            gpufabric_run_id=run_id,
            nccl_benchmark_rank_times="barriers",
            nccl_benchmark_ranks_per_node=1,
            report_formats=["json", "junit"],
        )
    assert played.returncode == 0, played.output
    (document,) = results_of(tmp_path)
    (late,) = document["stragglers"]
    assert (late["rank"], late["host"], late["device"]) == (1, "g2", 0) and late["share"] > 0.5
    told = "stragglers: the others wait for rank 1 on g2, GPU 0"
    assert told in played.output and told in (tmp_path / "junit.xml").read_text()
    assert document["problems"] == [] and document["json_output"] is None
    # It has the ranks' environment.
    machines.nodes.shell(
        "g1", f"test -e /run/gpufabric/{run_id}/mpi/run.json -a ! -e /run/gpufabric/{run_id}/mpi/program.json"
    )


@pytest.mark.slow
def test_a_soak(machines, tmp_path):
    """The program runs its sizes seven times, and each row has its time."""
    played = machines.benchmark(
        tmp_path,
        nccl_benchmark_cycles=7,
        nccl_benchmark_min_bytes="1M",
        nccl_benchmark_max_bytes="1M",
        nccl_benchmark_ranks_per_node=1,
        report_formats=["json", "html", "junit", "openmetrics"],
    )
    assert played.returncode == 0, played.output
    (document,) = results_of(tmp_path)
    soak = document["soak"]
    assert soak["cycles"] == 7 and soak["begin"] <= soak["end"] and soak["begin"].count("-") == 2
    (entry,) = soak["sizes"]
    assert entry["cycles"] == 7 == len(document["rows"]) and 0 < entry["min"] <= entry["median"] <= entry["max"]
    assert entry["drift_percent"] is not None and document["verdict"] == "pass"
    assert {problem["id"] for problem in document["problems"]} <= {"soak-dip", "soak-drift"}
    assert document["stragglers"] is not None
    assert (
        "all_reduce: cycle 6 done, peak " in played.output and "bus bandwidth over 7 cycles, from 20" in played.output
    )
    assert "over its cycles" in (tmp_path / "report.html").read_text()
    assert "gpufabric_nccl_soak_drift_ratio" in (tmp_path / "results.prom").read_text()


@pytest.mark.slow
def test_what_nccl_talked_over(machines, tmp_path):
    """Each rank writes NCCL's own log to a file on its host, and each host summarises its files."""
    run_id = "transport"
    demand = {"rules": [{"name": "RDMA", "transport": {"network": "IB", "nics": 8}}]}
    with machines.having("g1", RDMA_PORTS=8), machines.having("g2", RDMA_PORTS=7):
        played = machines.benchmark(
            tmp_path,
            gpufabric_run_id=run_id,
            nccl_benchmark_collectives=["all_reduce", "all_gather"],
            nccl_benchmark_output_dir=str(tmp_path),
            nccl_benchmark_transport=True,
            report_thresholds=demand,
        )
    assert played.returncode == 2, played.output
    logs = "cat /run/gpufabric/transport/mpi/nccl/*/*.log 2>/dev/null; true"
    for document in results_of(tmp_path):
        transport = document["transport"]
        ports = {"g1": [f"mlx5_{port}:1" for port in range(8)], "g2": [f"mlx5_{port}:1" for port in range(7)]}
        assert (transport["network"], transport["gdr"], transport["nics"]) == ("IB", True, ports)
        assert transport["channels"] == 2 and transport["mixed"]
        assert (document["software"]["nccl"], document["software"]["cuda"]) == ("2.32.3", "13.0")
        assert document["hardware"]["nvlink_gbytes"] == 450
        found = {problem["id"]: problem["host"] for problem in document["problems"]}
        assert set(found) == {"transport-differs", "transport-missed"} and found["transport-missed"] == "g2"
        assert transport["log"]["files"] == 4 and transport["log"]["bytes"] > 1000
    assert "Transport: IB, GDR, 2 channels, not the same everywhere" in played.output
    with tarfile.open(tmp_path / "output.tar.gz") as archive:
        names = [name for name in archive.getnames() if name.endswith("stdout")]
        assert len(names) == 2 and not any(b"NCCL INFO" in archive.extractfile(name).read() for name in names)
    kept = [machines.nodes.shell(node, logs).stdout for node in ("g1", "g2")]
    assert [text.count("Using network IB") for text in kept] == [GPUS, GPUS]
    assert machines.nodes.playbook("gpufabric.nccl.teardown", gpufabric_run_id=run_id).returncode == 0
    assert [machines.nodes.shell(node, logs).stdout for node in ("g1", "g2")] == ["", ""]


@pytest.mark.slow
def test_a_log_that_is_not_wanted_is_not_written(machines, tmp_path):
    off = machines.benchmark(tmp_path / "off", nccl_benchmark_transport=False)
    own = machines.benchmark(tmp_path / "own", nccl_benchmark_env={"NCCL_DEBUG": "INFO"})
    assert (off.returncode, own.returncode) == (0, 0), off.output + own.output
    ((first,), (second,)) = (results_of(tmp_path / name) for name in ("off", "own"))
    assert first["transport"] is None
    # By the lines in its output.
    assert second["transport"]["network"] == "Socket" and "log" not in second["transport"]


@pytest.mark.slow
@pytest.mark.parametrize("mpi", [4, 5], indirect=True)
@pytest.mark.parametrize(("gpus", "threads"), [(8, 1), (4, 2)])
def test_one_process_for_all_gpus_of_a_node(machines, tmp_path, mpi, gpus, threads):
    """As NVIDIA starts it: ppr:1:node and -g 8."""
    with machines.having("g1", gpus=8), machines.having("g2", gpus=8):
        played = machines.benchmark(
            tmp_path,
            nccl_benchmark_ranks_per_node=1,
            nccl_benchmark_gpus_per_rank=gpus,
            nccl_benchmark_threads_per_rank=threads,
            **mpi,
        )
    assert played.returncode == 0, played.output
    (document,) = results_of(tmp_path)
    assert document["verdict"] == "pass" and document["problems"] == []
    assert (document["config"]["ngpus"], document["config"]["nthreads"]) == (gpus, threads)
    assert collections.Counter(rank["host"] for rank in document["ranks"]) == {"g1": 8, "g2": 8}
    assert len({rank["pid"] for rank in document["ranks"]}) == 2


@pytest.mark.slow
@pytest.mark.parametrize("mpi", [4, 5], indirect=True)
def test_values_that_are_not_checked_are_not_taken_for_right(machines, tmp_path, mpi):
    with machines.having("g2", FAULT="wrong-values"):
        played = machines.benchmark(tmp_path, nccl_benchmark_check=False, **mpi)
    assert played.returncode == 0, played.output
    (document,) = results_of(tmp_path)
    assert (document["verdict"], document["config"]["validation"]) == ("unchecked", 0)
    assert {row[place]["wrong"] for row in document["rows"] for place in ("out_of_place", "in_place")} == {None}


@pytest.mark.slow
def test_wrong_values_are_counted(machines, tmp_path):
    with machines.having("g2", FAULT="wrong-values"):
        played = machines.benchmark(tmp_path)
    assert played.returncode == 2, played.output
    (document,) = results_of(tmp_path)
    assert document["verdict"] == "fail"
    # One value of each of the node's ranks.
    assert {row[place]["wrong"] for row in document["rows"] for place in ("out_of_place", "in_place")} == {GPUS}
    assert "wrong-values" in [problem["id"] for problem in document["problems"]]


@pytest.mark.slow
def test_the_network_that_nccl_uses(machines, tmp_path):
    """NCCL's own data goes over the interface that is chosen for it."""
    run_id = "data"
    played = machines.benchmark(
        tmp_path,
        gpufabric_run_id=run_id,
        gpufabric_data_interface="net1",
        nccl_benchmark_env={"NCCL_DEBUG": "INFO"},
        nccl_benchmark_output_dir=str(tmp_path),
    )
    assert played.returncode == 0, played.output
    with tarfile.open(tmp_path / "output.tar.gz") as archive:
        names = [name for name in archive.getnames() if name.endswith("stdout")]
        text = "".join(archive.extractfile(name).read().decode() for name in names)
    assert (
        re.findall(r"^(g\d):\S+ \[\d\] NCCL INFO Bootstrap : Using (\w+)", text, re.MULTILINE).count(("g2", "net1"))
        == 2
    )
    assert "Using eth0" not in text


def finished(machines: Machines, run_id: str) -> dict[str, str]:
    """What the points have printed that are over, by their directory."""
    command = f"cd /run/gpufabric/{run_id}/mpi/points && for over in */exit.json; do [ -e $over ] && sha256sum ${{over%/*}}/stdout; done"
    lines = machines.nodes.shell("g1", command, check=False).stdout.splitlines()
    return {line.split()[1]: line.split()[0] for line in lines}


@pytest.mark.slow
def test_a_sweep_whose_controller_is_lost_goes_on(machines, tmp_path):
    """One setting of two makes every collective slow."""
    run_id, token = "sweep", uuid.uuid4().hex
    sweep = {"collectives": ["all_reduce"], "env": {"GPUFABRIC_STAND_IN_FAULT": ["none", "slow"]}, "repeats": 3}
    variables = {"gpufabric_run_id": run_id, "nccl_benchmark_sweep": sweep, "nccl_benchmark_min_bytes": "64K"}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        play = pool.submit(machines.benchmark, tmp_path, token=token, **variables)
        wait(lambda: len(finished(machines, run_id)) >= 1 or play.done(), 300)
        kill(token)
        assert play.result().returncode == -signal.SIGKILL, play.result().output
    done = finished(machines, run_id)
    assert 1 <= len(done) < 9

    played = machines.benchmark(tmp_path, **variables)
    assert played.returncode == 0, played.output
    over = finished(machines, run_id)
    # What was over has not run again.
    assert len(over) == 9 and done.items() <= over.items()
    written = json.loads((tmp_path / "results.json").read_text())
    assert [result["verdict"] for result in written["results"]] == ["pass"] * 9
    (band,) = written["sweep"]["bands"]
    # Without a fault it is as fast as without the setting.
    assert [entry["env"].get("GPUFABRIC_STAND_IN_FAULT") == "slow" for entry in band["settings"]] == [
        False,
        False,
        True,
    ]
    assert machines.nodes.playbook("gpufabric.nccl.teardown", gpufabric_run_id=run_id).returncode == 0


@pytest.mark.slow
def test_a_slow_gpu_is_isolated(make_nodes, nccl_tests, tmp_path):
    machines = Machines(make_nodes(4), nccl_tests)
    machines.set("g3", FAULT="slow")
    machines.set("g4", gpus=GPUS + 1)
    played = machines.play(
        "isolate",
        tmp_path,
        isolate_allow_uneven_gpus=True,
        isolate_backend="nccl",
        isolate_min_bytes="512K",
        isolate_iterations=2,
        isolate_warmup_iterations=1,
        isolate_screens=1,
        # A slow node reaches 0.008 GB/s in a group of four, and 0.005 alone.
        isolate_limit=0.01,
        isolate_inside_limit=0.007,
    )
    machines.nodes.remove()
    assert played.returncode == 0, played.output
    found = json.loads((tmp_path / "isolation.json").read_text())
    assert found["complete"] and not found["links"]
    assert {node["node"]: (node["verdict"], node["where"]) for node in found["nodes"]} == {
        **dict.fromkeys(("g1", "g2", "g4"), ("good", None)),
        "g3": ("bad", "inside"),
    }
    assert json.loads((tmp_path / "results.json").read_text())["results"][0]["tool"]["version"] == "2.19.6"


@pytest.mark.parametrize("mpi", [4, 5], indirect=True)
@pytest.mark.slow
def test_all_collectives_types_and_operations(machines, tmp_path, mpi):
    played = machines.benchmark(
        tmp_path,
        nccl_benchmark_collectives=COLLECTIVES,
        nccl_benchmark_min_bytes="1K",
        nccl_benchmark_max_bytes="1K",
        nccl_benchmark_extra_args=["-d", "all", "-o", "all"],
        **mpi,
    )
    assert played.returncode == 0, played.output
    documents = results_of(tmp_path)
    assert [document["collective"] for document in documents] == COLLECTIVES
    for document in documents:
        assert (document["verdict"], document["problems"]) == ("pass", []), document["collective"]
        assert {row["type"] for row in document["rows"]} == TYPES, document["collective"]
        operations = OPERATIONS if re.search("reduce|sendrecv", document["collective"]) else {"none"}
        assert {row["redop"] for row in document["rows"]} == operations, document["collective"]


@pytest.mark.slow
@pytest.mark.parametrize("mpi", [4, 5], indirect=True)
@pytest.mark.parametrize(
    ("arguments", "keys"),
    [
        (["-I", "1", "-N", "2", "-m", "2"], {"i_min", "i_max", "i_p99", "i_cv%"}),
        (["-G", "2", "-S", "1"], {"timestamp"}),
        (["-C", "1", "-z", "1", "-R", "1"], set()),
    ],
)
def test_options_that_change_the_output_in_text_and_json(machines, tmp_path, mpi, arguments, keys):
    """The JSON of nccl-tests says the same as its table."""
    json_file = f"/opt/{uuid.uuid4().hex}.json"
    played = machines.benchmark(
        tmp_path, nccl_benchmark_extra_args=[*arguments, "-J", json_file], nccl_benchmark_ranks_per_node=1, **mpi
    )
    assert played.returncode == 0, played.output
    (document,) = results_of(tmp_path)
    assert document["verdict"] == "pass" and document["json_output"] == json_file
    (read,) = machines.nodes.module("nccl_result", {"src": json_file})["results"]
    for result in (document, read):
        extra = {key for row in result["rows"] for part in (row, row["out_of_place"]) for key in part.get("extra", {})}
        # Times of day are in the table alone.
        wanted = keys if result is document else keys - {"timestamp"}
        assert wanted <= extra and result["complete"] and result["problems"] == []
    sizes, json_sizes = ([row["size"] for row in result["rows"]] for result in (document, read))
    assert sizes == json_sizes and len(sizes) == (6 if "-N" in arguments else 3)


class Fault(t.NamedTuple):
    """A fault of the second node, or of the variables of the play, and what is told of it.

    ``where``: in words. ``variant``: tells the test from that of another fault with the same cause.
    """

    words: str
    cause: str
    settings: dict[str, t.Any]
    variables: t.Mapping[str, t.Any] = types.MappingProxyType({})
    host: str | None = "g2"
    where: str = "a worker"
    variant: str = ""


#: NCCL says why of some in its log alone.
FAULTS = (
    Fault("GPU memory that another program has", "gpu-memory", {"FAULT": "out-of-memory"}),
    Fault("a GPU driver older than CUDA", "gpu-driver-old", {"FAULT": "driver-old"}),
    Fault("a GPU whose memory fails (ECC)", "gpu-ecc", {"FAULT": "ecc"}),
    Fault("a GPU that is lost in a collective", "gpu-launch-failed", {"FAULT": "device-lost"}),
    Fault("another version of NCCL", "nccl-version-differs", {"FAULT": "version-differs"}, {}, None),
    Fault("a GPU that is away for CUDA, and not for nvidia-smi", "gpus-missing", {"CUDA_GPUS": 1}),
    Fault("wrong values", "wrong-values", {"FAULT": "wrong-values"}, {}, None),
    Fault(
        "a rank that takes no part", "silence-timeout", {"FAULT": "hang"}, {"nccl_benchmark_silence_timeout": 8}, None
    ),
    Fault(
        "a rank that takes no part, with a limit of nccl-tests",
        "test-timeout",
        {"FAULT": "hang"},
        {"nccl_benchmark_extra_args": ["-T", "3"]},
        None,
    ),
    Fault(
        "argument that nccl-tests refuses",
        "test-argument",
        {},
        {"nccl_benchmark_extra_args": ["-b", "x"]},
        None,
        "all hosts",
    ),
    # It ends with 0.
    Fault(
        "option that nccl-tests does not have",
        "test-argument",
        {},
        {"nccl_benchmark_extra_args": ["--memroy", "1"]},
        None,
        "all hosts",
        "-unknown",
    ),
)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, id=f"openmpi5-{fault.cause}{fault.variant}", marks=[pytest.mark.slow] if index else [])
        for index, fault in enumerate(FAULTS)
    ],
)
def test_faults(machines, tmp_path, faults, openmpi5, fault):
    with machines.having("g2", **fault.settings):
        played = machines.benchmark(tmp_path, **fault.variables, **openmpi5)
    assert played.returncode == 2, played.output
    (document,) = results_of(tmp_path)
    assert document["verdict"] == "fail"
    faults.fault(
        fault.words,
        document["problems"],
        fault.cause,
        fault.host,
        "nccl_benchmark",
        fault.where,
        beside=[("output-cut", None, "warning")],
        stand_in="stand-ins for CUDA and NCCL",
    )


@pytest.mark.slow
def test_gpus_that_differ_in_number(machines, tmp_path, faults):
    with machines.having("g2", gpus=GPUS + 1):
        refused = machines.benchmark(tmp_path / "refused")
        allowed = machines.benchmark(tmp_path / "allowed", nccl_benchmark_allow_uneven_gpus=True)
    assert refused.returncode == 2, refused.output
    (failed,) = [record for record in refused.records if record["status"] == "failed"]
    faults.fault(
        "GPUs that differ in number",
        failed["result"]["problems"],
        "gpus-differ",
        "g1",
        "nccl_benchmark",
        stand_in="stand-ins for CUDA and NCCL",
    )
    assert allowed.returncode == 0, allowed.output
    (document,) = results_of(tmp_path / "allowed")
    assert (document["verdict"], document["problems"]) == ("pass", [])
    assert collections.Counter(rank["host"] for rank in document["ranks"]) == {"g1": GPUS, "g2": GPUS + 1}


@pytest.mark.slow
def test_what_make_gpu_records(nccl_tests, tmp_path):
    """All that it does on a machine with GPUs but RAS, which the stand-ins do not have, with one of the programs.

    The playbook runs on this machine, and leaves nothing there.
    """
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "all_reduce_perf").symlink_to(nccl_tests / "build" / "all_reduce_perf")
    (tmp_path / "lib").symlink_to(nccl_tests / "lib")
    environment = {
        **os.environ,
        "PATH": f"{nccl_tests}/bin:{os.environ['PATH']}",
        "PYTHONPATH": str(COLLECTIONS),
        "GPUFABRIC_NCCL_TESTS": str(tmp_path),
        "GPUFABRIC_STAND_IN_GPUS": "2",
        "GPUFABRIC_STAND_IN_MEMORY_MIB": "4096",
    }
    command = [sys.executable, RECORD, tmp_path / "out"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    index = json.loads((tmp_path / "out" / "index.json").read_text())
    read = {entry["name"]: entry["read_as"] for entry in index["recordings"]}
    assert (index["gpus"], read["all_reduce_perf"], read["all-types"]) == (2, "pass", "pass")
    causes = {"too-many-gpus": "gpus-missing", "one-gpu-twice": "duplicate-gpu", "bad-argument": "test-argument"}
    assert {name: read[name] for name in causes} == causes
    assert "Reducing maxBytes" in (tmp_path / "out" / "too-large.out").read_text()
    assert read["killed"].startswith("incomplete") and "no-memory-left" in read
    assert index["playbook"].startswith("pass, Socket")
    assert (index["versions"]["nccl_tests"], index["versions"]["nccl"]) == ("2.19.6", "2.32.3")
    assert index["versions"]["mpirun"].startswith("mpirun (Open MPI) 4")
    assert not pathlib.Path("/run/gpufabric/gpu-recording").exists()


def test_make_gpu_without_a_gpu(tmp_path):
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho NVIDIA-SMI has failed\nexit 9\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(COLLECTIONS)}
    command = [sys.executable, RECORD, tmp_path / "out"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "make gpu: nvidia-smi lists no GPU here (NVIDIA-SMI has failed): nothing is recorded\n"
    assert not (tmp_path / "out").exists()
