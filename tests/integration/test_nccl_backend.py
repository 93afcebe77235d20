# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The backend nccl from end to end, on nodes with stand-ins for the GPUs and for the programs of nccl-tests.

The stand-in of a program is the CPU program: it takes nccl-tests' arguments, and what it prints says that it is none of them.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import pathlib
import typing as t

import pytest
from conftest import ROOT, Nodes, Played

BUILD = "/opt/nccl-tests/build"
CALLS = "/tmp/calls"
COLLECTIVES = ["all_reduce", "alltoall"]

#: What the collection asks of it: the names of the GPUs, and the list of them.
NVIDIA_SMI = """\
#!/bin/bash
for ((gpu = 0; gpu < $(cat /opt/gpus); gpu++)); do
  case $* in
    "--query-gpu=name --format=csv,noheader") echo "Stand-in of a GPU" ;;
    -L) echo "GPU $gpu: Stand-in of a GPU (UUID: GPU-$gpu)" ;;
    *) exit 6 ;;
  esac
done
"""

#: Notes how it was called, for the rank that it is.
PROGRAM = """\
#!/bin/bash
name=${0##*/}
echo "$name $OMPI_COMM_WORLD_RANK $OMPI_COMM_WORLD_LOCAL_RANK ${CUDA_VISIBLE_DEVICES:--} ${FI_PROVIDER:--} ${OFI_NCCL_PROTOCOL:--} $0 $*" >>/tmp/calls
exec /usr/bin/python3 /opt/cpu_perf.py "${name%_perf}" "$@"
"""

#: The same for a process with two GPUs: nccl-tests says so and lists each of them as a rank.
WITH_TWO_GPUS = """\
#!/bin/bash
name=${0##*/}
echo "$name $OMPI_COMM_WORLD_RANK $OMPI_COMM_WORLD_LOCAL_RANK ${CUDA_VISIBLE_DEVICES:--} ${FI_PROVIDER:--} ${OFI_NCCL_PROTOCOL:--} $0 $*" >>/tmp/calls
/usr/bin/python3 /opt/cpu_perf.py "${name%_perf_mpi}" "${@/#2/1}" | awk '
  /nThread 1 nGpus 1/ { sub("nGpus 1", "nGpus 2") }
  /^# +Rank/ { rank = $3; $3 = 2 * rank; print; $3 = 2 * rank + 1 }
  { print; fflush() }'
exit "${PIPESTATUS[0]}"
"""


class Call(t.NamedTuple):
    """How a rank of a program was started."""

    program: str
    rank: int
    local_rank: int
    devices: str
    provider: str
    protocol: str
    path: str
    arguments: list[str]


@dataclasses.dataclass
class Machines:
    """Nodes with as many stand-ins of GPUs as ``gpus`` says, and the same programs."""

    nodes: Nodes
    gpus: dict[str, int]

    def write(self, node: str, path: str, text: str) -> None:
        """Write a file that can be run."""
        self.nodes.shell(node, f"mkdir -p $(dirname {path}); cat >{path} <<'END'\n{text}END\nchmod 755 {path}")

    def calls(self) -> dict[str, list[Call]]:
        """The calls of the programs on each node in the last benchmark."""
        found = {}
        for node in self.nodes.names:
            lines = self.nodes.shell(node, f"cat {CALLS}", check=False).stdout.splitlines()
            rows = [line.split() for line in lines]
            found[node] = sorted(Call(row[0], int(row[1]), int(row[2]), *row[3:7], row[7:]) for row in rows)
        return found

    def benchmark(self, report_dir: pathlib.Path, **variables: t.Any) -> Played:
        """Run the playbook bare_metal with few sizes."""
        for node in self.nodes.names:
            self.nodes.shell(node, f"rm -f {CALLS}")
        return self.nodes.benchmark(
            report_dir, **{"nccl_benchmark_max_bytes": "1K", "report_formats": ["json"], **variables}
        )


@pytest.fixture(scope="module")
def machines(make_nodes: t.Callable[[int], Nodes]) -> Machines:
    machines = Machines(make_nodes(2), {"g1": 2, "g2": 2})
    cpu_program = (ROOT / "plugins/plugin_utils/_programs/cpu_perf.py").read_text()
    for node, count in machines.gpus.items():
        machines.write(node, "/opt/gpus", f"{count}\n")
        machines.write(node, "/usr/bin/nvidia-smi", NVIDIA_SMI)
        machines.write(node, "/opt/cpu_perf.py", cpu_program)
        for collective in COLLECTIVES:
            machines.write(node, f"{BUILD}/{collective}_perf", PROGRAM)
    return machines


def documents_of(report_dir: pathlib.Path) -> list[dict[str, t.Any]]:
    return json.loads((report_dir / "results.json").read_text())["results"]


def problems_of(played: Played) -> list[tuple[str, str]]:
    """Cause and host of each problem of the task that failed the play."""
    (failed,) = [record for record in played.records if record["status"] == "failed"]
    return [(problem["id"], problem["host"]) for problem in failed["result"]["problems"]]


def test_programs_over_all_gpus(machines, tmp_path):
    variables = {
        "nccl_benchmark_collectives": COLLECTIVES,
        "nccl_benchmark_env": {"CUDA_VISIBLE_DEVICES": "0,1"},
        "nccl_benchmark_iterations": 4,
        "nccl_benchmark_extra_args": ["-z 1"],
        "gpufabric_environment": {"OFI_NCCL_PROTOCOL": "RDMA", "OMPI_MCA_btl_base_verbose": "0"},
        "preflight_level": "full",
    }
    played = machines.benchmark(tmp_path, **variables)
    assert played.returncode == 0, played.output
    assert "Backend nccl: GPUs and nccl-tests are on all workers. 4 ranks on 2 hosts" in played.output

    arguments = ["-b", "8", "-e", "1K", "-f", "8", "-g", "1", "-n", "4", "-w", "1", "-c", "1", "-z", "1"]
    calls = machines.calls()
    for node, count in machines.gpus.items():
        for collective in COLLECTIVES:
            own = [call for call in calls[node] if call.program == f"{collective}_perf"]
            # By its local rank, a program of nccl-tests takes a GPU.
            assert [call.local_rank for call in own] == list(range(count)), own
            paths = {(call.path, call.devices, call.protocol, *call.arguments) for call in own}
            assert paths == {(f"{BUILD}/{collective}_perf", "0,1", "RDMA", *arguments)}
    ranks = sorted(call.rank for own in calls.values() for call in own)
    assert ranks == sorted([*range(4)] * len(COLLECTIVES))

    documents = documents_of(tmp_path)
    assert [document["collective"] for document in documents] == COLLECTIVES
    for document in documents:
        assert document["verdict"] == "pass" and document["problems"] == []
        assert collections.Counter(rank["host"] for rank in document["ranks"]) == machines.gpus
        # Results of the stand-in are not taken for those of nccl-tests.
        assert document["tool"]["name"] == "cpu" and document["tool"]["nccl_version"] is None
    facts = {host["name"]: host["facts"] for host in played.result("g1", "gpufabric.nccl.mpi_preflight")["hosts"]}
    for node, count in machines.gpus.items():
        assert facts[node]["program"]["path"] == f"{BUILD}/all_reduce_perf" and facts[node]["program"]["executable"]
        assert facts[node]["gpus"] == {"count": count, "error": None}


def test_a_worker_that_lacks_something_is_named_before_anything_is_changed(machines, tmp_path):
    commands = (
        "mv /usr/bin/nvidia-smi {build}/alltoall_perf /opt",
        "mv /opt/nvidia-smi /usr/bin; mv /opt/alltoall_perf {build}",
    )
    lose, restore = (command.format(build=BUILD) for command in commands)
    machines.nodes.shell("g2", lose)
    try:
        played = machines.benchmark(tmp_path, gpufabric_run_id="lacking", nccl_benchmark_collectives=COLLECTIVES)
    finally:
        machines.nodes.shell("g2", restore)
    assert played.returncode == 2
    assert problems_of(played) == [("gpus-missing", "g2"), ("benchmark-missing", "g2")]
    assert "The host has no alltoall_perf" in played.output and "no all_reduce_perf" not in played.output
    assert [task for task in played.changed() if not task.startswith("localhost")] == []


@pytest.mark.slow
def test_processes_that_use_several_gpus(machines, tmp_path):
    tried = "/opt/several"
    for node in machines.nodes.names:
        machines.write(node, f"{tried}/all_reduce_perf_mpi", WITH_TWO_GPUS)
        # Built without MPI, as images of NVIDIA have it beside the other.
        machines.write(node, f"{tried}/all_reduce_perf", "#!/bin/bash\nexit 3\n")
    played = machines.benchmark(
        tmp_path,
        nccl_benchmark_dir=tried,
        nccl_benchmark_ranks_per_node=1,
        nccl_benchmark_gpus_per_rank=2,
        nccl_benchmark_threads_per_rank=1,
        gpufabric_environment={"FI_PROVIDER": "tcp", "CUDA_VISIBLE_DEVICES": "GPU-1f"},
    )
    assert played.returncode == 0, played.output
    assert "2 ranks on 2 hosts" in played.output
    for (call,) in machines.calls().values():
        assert call.program == "all_reduce_perf_mpi" and call.arguments[6:9] == ["-g", "2", "-n"]
        # What is set for the play is the same for all ranks, but for what names the GPUs of one node.
        assert call.provider == "tcp"
    assert machines.calls()["g2"][0].devices == "-"
    (document,) = documents_of(tmp_path)
    assert document["verdict"] == "pass"
    # The bus bandwidth that the stand-in prints is that of its two processes.
    assert {problem["id"] for problem in document["problems"]} <= {"bandwidth-differs"}
    assert collections.Counter(rank["host"] for rank in document["ranks"]) == {"g1": 2, "g2": 2}


@pytest.mark.slow
def test_uneven_gpus(machines, tmp_path):
    machines.write("g2", "/opt/gpus", "3\n")
    try:
        refused = machines.benchmark(tmp_path / "refused")
        played = machines.benchmark(tmp_path / "allowed", nccl_benchmark_allow_uneven_gpus=True)
    finally:
        machines.write("g2", "/opt/gpus", "2\n")
    assert refused.returncode == 2
    assert problems_of(refused) == [("gpus-differ", "g1")]
    assert played.returncode == 0, played.output
    (document,) = documents_of(tmp_path / "allowed")
    assert collections.Counter(rank["host"] for rank in document["ranks"]) == {"g1": 2, "g2": 3}


@pytest.mark.slow
def test_a_directory_of_programs_and_ranks_of_each_node(machines, tmp_path):
    chosen = "/opt/built/bin"
    for node in machines.nodes.names:
        machines.write(node, f"{chosen}/reduce_perf", PROGRAM)
    variables = {
        "nccl_benchmark_backend": "nccl",
        "nccl_benchmark_collectives": ["reduce"],
        "nccl_benchmark_dir": chosen,
    }
    played = machines.benchmark(tmp_path / "two", nccl_benchmark_ranks_per_node=2, **variables)
    assert played.returncode == 0, played.output
    assert "Backend nccl: as nccl_benchmark_backend says. 4 ranks on 2 hosts" in played.output
    calls = machines.calls()
    assert {node: [call.local_rank for call in own] for node, own in calls.items()} == {"g1": [0, 1], "g2": [0, 1]}
    (document,) = documents_of(tmp_path / "two")
    assert document["collective"] == "reduce" and document["rank_count"] == 4

    refused = machines.benchmark(tmp_path / "three", nccl_benchmark_ranks_per_node=3, **variables)
    assert refused.returncode == 2
    assert (
        "nccl_benchmark_ranks_per_node: 3 is not allowed; allowed: 1 to 2, the number of GPUs of g1" in refused.output
    )

    machines.nodes.shell("g2", f"mv {chosen} /opt/away")
    try:
        missing = machines.benchmark(tmp_path / "missing", **variables)
    finally:
        machines.nodes.shell("g2", f"mv /opt/away {chosen}")
    assert missing.returncode == 2
    (failed,) = [record for record in missing.records if record["status"] == "failed"]
    (problem,) = failed["result"]["problems"]
    assert problem["host"] == "g2" and "a directory of this node" in problem["cause"]
    assert machines.calls() == {"g1": [], "g2": []}


@pytest.mark.slow
def test_programs_that_are_not_the_same(machines, tmp_path):
    other = "/opt/nccl_tests/build"
    machines.nodes.shell("g2", f"echo >>{BUILD}/all_reduce_perf")
    try:
        played = machines.benchmark(tmp_path / "build")
        machines.nodes.shell("g2", f"mkdir -p {other}; mv {BUILD}/* {other}")
        elsewhere = machines.benchmark(tmp_path / "elsewhere")
    finally:
        machines.nodes.shell("g2", f"mv {other}/* {BUILD}; rmdir {other}")
        machines.write("g2", f"{BUILD}/all_reduce_perf", PROGRAM)
    assert played.returncode == 0, played.output
    warned = played.result("g1", "gpufabric.nccl.mpi_preflight")["problems"]
    found = [(problem["id"], problem["host"], problem["severity"]) for problem in warned]
    assert found == [("program-differs", "g2", "warning")]
    assert "is another build than on the launcher" in played.output
    # Each worker has its programs, but mpirun starts the same path on all.
    assert elsewhere.returncode == 2
    assert problems_of(elsewhere) == [("program-missing", "g2")]
