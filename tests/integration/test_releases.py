# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whole runs on nodes that are not as this machine is: of other Debian releases, and with another Python alone."""

from __future__ import annotations

import json
import pathlib
import socket
import subprocess
import typing as t

import pytest
from background import wait
from conftest import Nodes, installed

pytestmark = pytest.mark.slow

PYTHONS = "/usr/bin/python3* /usr/local/bin/python3*"
INTERPRETER = "import sys; print(*sys.version_info[:2], sep='.')"


def greets(address: str) -> bool:
    """Whether an sshd answers."""
    try:
        with socket.create_connection((address, 22), timeout=1) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def replace_root(nodes: Nodes, node: str, root: str) -> None:
    """Start a node again as it was started, over another root directory."""
    name = f"gpufabric-{nodes.run_id}-{node}"
    inspect = ["podman", "inspect", "--format", "{{json .Config.CreateCommand}}", name]
    argv = json.loads(subprocess.run(inspect, stdout=subprocess.PIPE, text=True, check=True).stdout)
    assert argv.count("--rootfs") == 1
    argv[argv.index("--rootfs") + 1] = f"{root}:O"
    subprocess.run(["podman", "rm", "--force", "--time=0", name], stdout=subprocess.DEVNULL, check=True)
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
    wait(lambda: greets(nodes.addresses[node]), 30)


def run_whole(nodes: Nodes, report_dir: pathlib.Path, **variables: t.Any) -> None:
    """A benchmark with the closer look before it, and the teardown after it."""
    played = nodes.benchmark(report_dir, preflight_level="full", report_formats=["json"], **variables)
    assert played.returncode == 0, played.output
    (document,) = json.loads((report_dir / "results.json").read_text())["results"]
    assert document["verdict"] == "pass" and sorted(rank["host"] for rank in document["ranks"]) == nodes.names
    preflight = played.result("g1", "gpufabric.nccl.mpi_preflight")
    assert [host["name"] for host in preflight["hosts"] if host["facts"]] == nodes.names, preflight
    assert preflight["problems"] == []
    assert nodes.playbook("gpufabric.nccl.teardown", **variables).returncode == 0
    for node in nodes.names:
        nodes.shell(node, f"test ! -e /run/gpufabric/{nodes.run_id} && ! pgrep 'orted|prted|mpirun|ssh-agent'")


#: Version of its Python and of its Open MPI. Forky is not released yet, so its Open MPI is what it is that day.
RELEASES = {"bullseye": ("3.9", "4.1.0"), "trixie": ("3.13", "5.0.7"), "forky": ("3.14", "")}


@pytest.mark.parametrize("release", RELEASES)
def test_nodes_of_another_release(fresh_nodes, tmp_path, release):
    python, openmpi = RELEASES[release]
    root = installed("release-root", release)
    for node in fresh_nodes.names:
        replace_root(fresh_nodes, node, root)
        looks = f'. /etc/os-release; echo $VERSION_CODENAME; python3 -c "{INTERPRETER}"; mpirun --version'
        seen = fresh_nodes.shell(node, looks).stdout.split()
        assert seen[:2] == [release, python] and any(word.startswith(openmpi) for word in seen[2:])
    run_whole(fresh_nodes, tmp_path)


def test_nodes_of_two_releases_have_two_versions_of_open_mpi(fresh_nodes, tmp_path):
    replace_root(fresh_nodes, "g2", installed("release-root", "trixie"))
    played = fresh_nodes.benchmark(tmp_path)
    assert played.returncode == 2
    (failed,) = [record["result"] for record in played.records if record["status"] == "failed"]
    assert [(problem["id"], problem["host"]) for problem in failed["problems"]] == [("mpi-version-differs", "g2")]
    assert "4.1.4" in failed["msg"] and "5.0.7" in failed["msg"]
    # It is told before anything is changed; the look before the launch would tell it, too.
    assert [task for task in played.changed() if not task.startswith("localhost")] == []


@pytest.mark.parametrize("version", ["3.8", "3.10", "3.12"])
def test_nodes_with_one_python_alone(fresh_nodes, tmp_path, version):
    """The oldest, and those that no release of Debian has."""
    python = f"{installed('node-python', version)}/bin/python"
    for node in fresh_nodes.names:
        fresh_nodes.shell(node, f"mkdir /opt/away; mv $(ls -d {PYTHONS} 2>/dev/null) /opt/away; ! type -P python3")
        assert fresh_nodes.shell(node, f'{python} -c "{INTERPRETER}"').stdout == f"{version}\n"
    run_whole(fresh_nodes, tmp_path, ansible_python_interpreter=python)
