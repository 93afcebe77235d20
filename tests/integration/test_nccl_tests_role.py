# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role nccl_tests: the real source, built by the real nvcc on one node, brought to the others, and run over stand-ins for GPUs."""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import pathlib
import tarfile
import types
import typing as t

import pytest
from background import wait
from conftest import ROOT, Nodes, Played, whole_job

SOURCE = ROOT / "tests/stand_in/nccl-tests-2.19.6"


class Builders:
    """Nodes with stand-ins for GPUs, and what a build needs outside of where it is looked for."""

    def __init__(
        self, nodes: Nodes, stand_in: pathlib.Path, archive: pathlib.Path, openmpi: t.Mapping[str, str]
    ) -> None:
        toolkit = stand_in.parent / "toolkit/nvidia"
        self.nodes = nodes
        self.libraries = stand_in / "lib"
        self.variables = {
            "nccl_tests_archive": str(archive),
            "nccl_tests_checksum": hashlib.sha256(archive.read_bytes()).hexdigest(),
            "nccl_tests_programs": ["all_reduce"],
            "nccl_tests_run_id": "bringing",
            "nccl_tests_cuda_home": str(toolkit / "cu13"),
            "nccl_tests_nccl_home": str(toolkit / "nccl"),
            "gpufabric_mpi_prefix": openmpi["gpufabric_mpi_prefix"],
            "gpufabric_environment": {"LD_LIBRARY_PATH": f"{stand_in}/lib"},
        }
        for node in nodes.names:
            nodes.shell(node, f"ln -s {stand_in}/bin/nvidia-smi /usr/local/bin/nvidia-smi")

    def play(self, *arguments: str, **variables: t.Any) -> Played:
        """Run the playbook nccl_tests."""
        return self.nodes.playbook("gpufabric.nccl.nccl_tests", *arguments, **{**self.variables, **variables})


@pytest.fixture(scope="module")
def builders(
    make_nodes: t.Callable[[int], Nodes],
    nccl_tests: pathlib.Path,
    openmpi4: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Builders:
    archive = tmp_path_factory.mktemp("source") / "nccl-tests.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(SOURCE, "nccl-tests-2.19.6")
    return Builders(make_nodes(3), nccl_tests, archive, openmpi4)


#: A directory that no test but its own uses.
ELSEWHERE = "/opt/gpufabric-elsewhere/nccl-tests"
INSTALLED = "/opt/nccl-tests"


@pytest.fixture(scope="module")
def brought(builders: Builders) -> Played:
    """The play that brought one program from the first node to the others. It was built before, by scripts/nccl-tests."""
    arguments = {name[len("nccl_tests_") :]: value for name, value in builders.variables.items()}
    names = ("archive", "checksum", "programs", "cuda_home", "nccl_home")
    options = {**{name: arguments[name] for name in names}, "mpi_prefix": builders.variables["gpufabric_mpi_prefix"]}
    planned = builders.nodes.module("nccl_tests_build", options, "--check")
    program = builders.libraries.parent / "build/all_reduce_perf"
    checksum = hashlib.sha256(program.read_bytes()).hexdigest()
    mark = {
        "schema": "gpufabric.nccl/nccl-tests/v1",
        "recipe": planned["recipe"],
        "programs": {"all_reduce_perf": checksum},
        "built_on": "g1",
    }
    builders.nodes.shell("g1", f"mkdir -p {INSTALLED}/build; cp {program} {INSTALLED}/build")
    builders.nodes.shell("g1", f"cat >{INSTALLED}/.gpufabric-nccl-tests <<'END'\n{json.dumps(mark)}\nEND")
    # They need no compiler.
    for node in ("g2", "g3"):
        builders.nodes.shell(node, "mkdir /opt/away; mv /usr/bin/make /usr/bin/*g++* /usr/bin/*c++* /opt/away")
    try:
        played = builders.play()
    finally:
        for node in ("g2", "g3"):
            builders.nodes.shell(node, "mv /opt/away/* /usr/bin; rmdir /opt/away")
    assert played.returncode == 0, played.output
    assert [len(played.result(node, "gpufabric.nccl.nccl_tests_info")["missing"]) for node in ("g1", "g2")] == [0, 2]
    return played


def problems_of(played: Played) -> list[tuple[str, str]]:
    """Cause and host of each problem of the task that failed the play, which is the last one."""
    failed = [record for record in played.records if record["status"] == "failed"][-1]
    return [(problem["id"], problem["host"]) for problem in failed["result"]["problems"]]


def mark_of(builders: Builders, node: str) -> dict[str, t.Any]:
    return json.loads(builders.nodes.shell(node, f"cat {INSTALLED}/.gpufabric-nccl-tests").stdout)


@whole_job
def test_programs_are_brought_to_the_others_and_run(builders, brought, tmp_path):
    assert "nccl-tests is built on g1 for 3 workers." in brought.output
    # The look; two to connect and one to remove that again. The first one has the build, which is there, and the sending as well.
    assert [len(brought.executions(node)) for node in builders.nodes.names] == [6, 4, 4], brought.executions("g2")
    assert brought.result("g1", "gpufabric.nccl.nccl_tests_spread")["hosts"] == ["g2", "g3"]
    mark = mark_of(builders, "g1")
    assert mark["recipe"]["architectures"] == ["9.0"] and mark["recipe"]["programs"] == ["all_reduce_perf"]
    assert mark["recipe"]["source"] == {"sha256": builders.variables["nccl_tests_checksum"]}
    for node in ("g2", "g3"):
        assert mark_of(builders, node) == mark
        left = builders.nodes.shell(node, f"ls -A {INSTALLED}; ls /run/gpufabric/bringing", check=False).stdout
        assert left.split() == [".gpufabric-nccl-tests", ".lock", "build"]

    again = builders.play()
    assert again.returncode == 0 and again.changed() == [], again.output
    assert [len(again.executions(node)) for node in builders.nodes.names] == [2, 1, 1]
    check_benchmark(builders, tmp_path, builders.nodes.names)


def check_benchmark(builders: Builders, report_dir: pathlib.Path, nodes: t.Sequence[str], **variables: t.Any) -> None:
    """Run what is installed on nodes, over the stand-ins for CUDA and NCCL, and fail unless all is well."""
    played = builders.nodes.benchmark(
        report_dir,
        gpufabric_run_id="built",
        gpufabric_target=",".join(nodes),
        gpufabric_environment=builders.variables["gpufabric_environment"],
        nccl_benchmark_step_factor=64,
        **variables,
    )
    assert played.returncode == 0, played.output
    ranks = f"{len(nodes)} ranks on {len(nodes)} hosts"
    assert f"Backend nccl: GPUs and nccl-tests are on all workers. {ranks}" in played.output
    (document,) = json.loads((report_dir / "results.json").read_text())["results"]
    assert document["verdict"] == "pass" and document["tool"]["version"] == "2.19.6" and document["problems"] == []


@pytest.mark.slow
def test_a_build_of_the_real_source(builders, tmp_path):
    """By nvcc, on a worker of its own."""
    variables = {
        "nccl_tests_dir": ELSEWHERE,
        "nccl_tests_spread": False,
        "nccl_tests_force": True,
        "gpufabric_target": "g2",
    }
    played = builders.play(**variables)
    assert played.returncode == 0, played.output
    assert "\ng2: " in played.output, "a build shows how far it is"
    again = builders.play(**variables)
    assert again.returncode == 0 and again.changed() == [], again.output
    left = builders.nodes.shell("g2", f"ls -A {ELSEWHERE} {ELSEWHERE}/build").stdout
    assert {"all_reduce_perf", "build.log"} <= set(left.split()) and "work" not in left
    check_benchmark(builders, tmp_path, ["g2"], nccl_benchmark_dir=f"{ELSEWHERE}/build")
    removed = builders.play(nccl_tests_state="absent", **variables)
    assert removed.returncode == 0 and removed.result("g2")["removed"] == [ELSEWHERE], removed.output


@pytest.mark.slow
def test_a_worker_that_lacks_a_library_keeps_nothing_and_gets_it_later(builders, brought):
    lost = f"{builders.libraries}/libnccl.so.2"
    removed = builders.play(gpufabric_target="g3", nccl_tests_state="absent")
    assert removed.returncode == 0 and len(removed.changed()) == 1, removed.output
    assert builders.nodes.shell("g3", f"ls -d {INSTALLED}", check=False).returncode != 0
    builders.nodes.shell("g3", f"mv {lost} {lost}.away")
    try:
        refused = builders.play()
    finally:
        builders.nodes.shell("g3", f"mv {lost}.away {lost}")
    assert refused.returncode == 2 and problems_of(refused) == [("program-library-missing", "g3")], refused.output
    assert "the loader does not find libnccl.so.2" in refused.output
    left = builders.nodes.shell("g3", f"ls -d {INSTALLED} /run/gpufabric/bringing", check=False)
    assert left.stdout == ""

    played = builders.play()
    assert played.returncode == 0, played.output
    assert played.result("g1", "gpufabric.nccl.nccl_tests_spread")["hosts"] == ["g3"]
    assert len(played.executions("g2")) == 1
    assert mark_of(builders, "g3") == mark_of(builders, "g1")


@pytest.mark.slow
def test_a_worker_that_cannot_be_connected_leaves_no_run(builders, brought):
    """The others get the programs."""
    run_dir = "/run/gpufabric/bringing"
    removed = builders.play(gpufabric_target="g2,g3", nccl_tests_state="absent")
    assert removed.returncode == 0, removed.output
    builders.nodes.shell("g3", f"mkdir -p {run_dir}; touch {run_dir}/theirs; chmod 777 {run_dir}")
    try:
        failed = builders.play()
    finally:
        builders.nodes.shell("g3", f"rm -r {run_dir}")
    assert failed.returncode == 2 and run_dir in failed.output, failed.output
    assert {host for _cause, host in problems_of(failed)} == {"g3"}, failed.output
    assert failed.result("g1", "gpufabric.nccl.nccl_tests_spread")["hosts"] == ["g2"]
    for node in ("g1", "g2"):
        assert builders.nodes.shell(node, f"ls -d {run_dir}", check=False).stdout == ""
        assert builders.nodes.shell(node, "pgrep -f [b]ringing/sshd", check=False).stdout == ""

    played = builders.play()
    assert played.returncode == 0, played.output
    assert played.result("g1", "gpufabric.nccl.nccl_tests_spread")["hosts"] == ["g3"]


@pytest.mark.slow
def test_a_build_that_goes_on_is_ended_by_the_teardown(builders):
    variables = {
        "nccl_tests_dir": ELSEWHERE,
        "nccl_tests_spread": False,
        "nccl_tests_force": True,
        "gpufabric_target": "g2",
    }
    with concurrent.futures.ThreadPoolExecutor() as pool:
        play = pool.submit(builders.play, **variables)
        is_compiling = f"pgrep -f [B]UILDDIR={ELSEWHERE}/work/objects"
        wait(lambda: builders.nodes.shell("g2", is_compiling, check=False).returncode == 0 or play.done(), 300)
        assert not play.done(), play.result().output
        removed = builders.play(nccl_tests_state="absent", **variables)
        played = play.result()
    assert removed.returncode == 0 and removed.result("g2")["removed"] == [ELSEWHERE], removed.output
    assert played.returncode == 2, played.output
    left = builders.nodes.shell("g2", f"ls -d {ELSEWHERE}; pgrep -f [/]{ELSEWHERE[1:]}/work", check=False).stdout
    assert left.strip() == ""


@pytest.mark.slow
def test_check_mode_says_what_would_be_done_and_does_nothing(builders):
    states = {node: builders.nodes.state(node) for node in builders.nodes.names}
    played = builders.play("--check", nccl_tests_dir=ELSEWHERE, nccl_tests_force=True)
    assert played.returncode == 0, played.output
    assert "nccl-tests is built on g1 for 3 workers." in played.output
    changed = [line.split(": ", 1)[1] for line in played.changed()]
    assert "Build nccl-tests" in str(changed) and "Send the programs" in str(changed), changed
    for node, state in states.items():
        assert {line for line in builders.nodes.state(node) if line.startswith("file ") and "/opt/" in line} == {
            line for line in state if line.startswith("file ") and "/opt/" in line
        }
        assert builders.nodes.shell(node, "ls /run/gpufabric/bringing", check=False).returncode != 0


class Missing(t.NamedTuple):
    """What a node lacks: hidden by a command, or looked for where it is not."""

    words: str
    cure: str
    command: str = "true"
    restore: str = "true"
    variables: t.Mapping[str, t.Any] = types.MappingProxyType({})


MISSING = (
    Missing(
        "no make",
        "apt-get install make; RHEL and its kin: dnf install make",
        "mv /usr/bin/make /opt",
        "mv /opt/make /usr/bin",
    ),
    Missing(
        "no CUDA compiler (nvcc) in /opt/none",
        "apt-get install cuda-nvcc-MAJOR-MINOR; RHEL and its kin: dnf install cuda-nvcc-MAJOR-MINOR",
        variables={"nccl_tests_cuda_home": "/opt/none"},
    ),
    Missing(
        "no NCCL for the build (nccl.h, libnccl.so) in /opt/none",
        "apt-get install libnccl-dev; RHEL and its kin: dnf install libnccl-devel",
        variables={"nccl_tests_nccl_home": "/opt/none"},
    ),
    Missing(
        "no Open MPI for the build (mpi.h, libmpi.so)",
        "apt-get install libopenmpi-dev; RHEL and its kin: dnf install openmpi-devel",
        "mv {mpi}/include/mpi.h /opt",
        "mv /opt/mpi.h {mpi}/include",
    ),
)


@pytest.mark.parametrize("missing", MISSING, ids=lambda missing: missing.words)
def test_what_is_missing_is_named_with_its_packages(builders, missing):
    """The only worker that may build lacks it; nothing has been changed."""
    prefix = builders.variables["gpufabric_mpi_prefix"]
    builders.nodes.shell("g2", missing.command.format(mpi=prefix))
    try:
        played = builders.play(
            nccl_tests_dir=ELSEWHERE, nccl_tests_build_on="g2", nccl_tests_force=True, **missing.variables
        )
    finally:
        builders.nodes.shell("g2", missing.restore.format(mpi=prefix))
    assert played.returncode == 2, played.output
    # The plan names a problem once, and the play shows it.
    output = " ".join(played.output.split())
    assert f"g2: The host has {missing.words}" in output and missing.cure in output, played.output
    assert output.count("The host has no") == 1 and played.changed() == []


@pytest.mark.slow
def test_what_is_refused(builders):
    """A directory of others, another checksum, a program that there is none of, and an option of the wrong kind."""
    builders.nodes.shell("g1", f"mkdir -p {ELSEWHERE}; touch {ELSEWHERE}/theirs")
    try:
        foreign = builders.play(nccl_tests_dir=ELSEWHERE, nccl_tests_force=True)
        kept = builders.play(nccl_tests_dir=ELSEWHERE, nccl_tests_state="absent")
    finally:
        builders.nodes.shell("g1", f"test -e {ELSEWHERE}/theirs && rm -r {ELSEWHERE}")
    assert (
        foreign.returncode == 2
        and f"{ELSEWHERE} is there already, and this collection has not made it" in foreign.output
    )
    assert kept.returncode == 0 and kept.changed() == [], kept.output

    wrong = builders.play(nccl_tests_dir=ELSEWHERE, nccl_tests_force=True, nccl_tests_checksum="0" * 64)
    assert wrong.returncode == 2 and problems_of(wrong) == [("build-source-differs", "g1")], wrong.output
    unknown = builders.play(nccl_tests_dir=ELSEWHERE, nccl_tests_force=True, nccl_tests_programs=["all_reduse"])
    builders.play(nccl_tests_dir=ELSEWHERE, nccl_tests_state="absent")
    assert unknown.returncode == 2 and "the source has no all_reduse_perf" in unknown.output, unknown.output
    old = builders.play(nccl_tests_dir=ELSEWHERE, nccl_tests_force=True, nccl_tests_architectures=["7.0"])
    assert old.returncode == 2 and problems_of(old) == [("build-architecture", "g1")], old.output
    other = builders.play(gpufabric_run_id="other")
    assert other.returncode == 2 and other.changed() == [], other.output
    assert "gpufabric_run_id: 'other' is not allowed; allowed: to leave it out here" in " ".join(other.output.split())
    state = builders.play(nccl_tests_state="removed")
    assert "nccl_tests_state: 'removed' is not allowed; allowed: present, absent" in state.output
    kind = builders.play(nccl_tests_timeout="long")
    assert kind.returncode == 2 and "nccl_tests_timeout: 'long' is not allowed; allowed: a whole number" in kind.output
