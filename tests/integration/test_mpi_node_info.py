# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import shlex


def test_a_node_is_described_as_it_is(nodes):
    interfaces = {"control_interface": "eth0", "data_interface": "net1"}
    number = nodes.addresses["g1"].split(".")[2]
    found, checked, auto, rail, both = nodes.modules(
        [
            ("mpi_node_info", interfaces),
            ("mpi_node_info", {**interfaces, "mpi_prefix": "/usr"}),
            ("mpi_node_info", {}),
            ("mpi_node_info", {"data_subnet": f"192.168.{number}.0/24"}),
            ("mpi_node_info", {"data_interface": "eth0,net1"}),
        ]
    )
    node = found["node"]
    control = nodes.addresses["g1"]
    assert node["hostname"] == "g1"
    assert node["control"] == {"interface": "eth0", "address": control, "subnet": f"10.66.{number}.0/24"}
    assert node["data"] == {
        "interface": "net1",
        "address": f"192.168.{number}.11",
        "subnet": f"192.168.{number}.0/24",
    }
    assert rail["node"]["data"] == node["data"]
    assert both["node"]["data"] == {"interface": "eth0,net1", "address": None, "subnet": None}
    addresses = {one["name"]: one["addresses"] for one in node["interfaces"]}
    assert f"{control}/24" in addresses["eth0"] and "127.0.0.1/8" in addresses["lo"]
    mtu = int(nodes.shell("g1", "cat /sys/class/net/eth0/mtu").stdout)
    assert next(one["mtu"] for one in node["interfaces"] if one["name"] == "eth0") == mtu
    mpirun = node["mpi"]["mpirun"]
    assert node["mpi"]["implementation"] == "openmpi" and f"{node['mpi']['prefix']}/bin/mpirun" == mpirun
    assert f"(Open MPI) {node['mpi']['version']}\n" in nodes.shell("g1", f"{mpirun} --version").stdout
    python = node["python"]["executable"]
    for package in ("numpy", "mpi4py"):
        version = nodes.shell("g1", f"{python} -c 'import {package}; print({package}.__version__)'").stdout.strip()
        assert node["python"][package] == version
    assert node["cpus"] == int(nodes.shell("g1", "nproc").stdout)
    assert node["shm_bytes"] == 1 << 30
    assert not found["changed"] and checked["node"] == node
    # Both are as fast.
    rate = {**node["line_rate"], "source": "eth0"}
    assert node["line_rate"]["source"] == "net1"
    assert auto["node"] == {**node, "control": None, "data": None, "line_rate": rate}


def test_gpus_are_the_ones_that_nvidia_smi_lists(nodes):
    program = "command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name --format=csv,noheader"
    names = nodes.shell("g1", program, check=False).stdout.splitlines()
    gpus = nodes.module("mpi_node_info", {})["node"]["gpus"]
    unusable = gpus.pop("unusable")
    if not names:
        assert (gpus.pop("memory_bytes"), gpus.pop("nvlink_gbytes")) == (None, None)
    found = {name: gpus[name] for name in ("vendor", "count", "names")}
    assert found == {"vendor": "nvidia" if names else "none", "count": len(names), "names": sorted(set(names))}
    assert not (names and unusable)


def test_gpus_of_a_node_that_lists_some(breakable):
    """By a stand-in of nvidia-smi, which knows the one question that it is asked."""
    path = "/usr/local/bin/nvidia-smi"
    listing = "[ \"$*\" = '--query-gpu=name --format=csv,noheader' ] && printf 'GPU B\\nGPU A\\nGPU B\\n'"
    program = shlex.quote(f"#!/bin/sh\n{listing}\n")
    breakable.shell("g1", f"test ! -e {path} && printf %s {program} > {path} && chmod +x {path}")
    try:
        gpus = breakable.module("mpi_node_info", {})["node"]["gpus"]
    finally:
        breakable.shell("g1", f"rm {path}")
    known = {"vendor": "nvidia", "count": 3, "names": ["GPU A", "GPU B"], "unusable": []}
    assert gpus == {**known, "memory_bytes": None, "nvlink_gbytes": None}


def test_bad_input_is_one_line(nodes):
    """Here of one option; each is tried in the module's unit test."""
    result = nodes.module("mpi_node_info", {"control_interface": "eth7"})
    allowed = "an interface of this node: eth0, net1 (variable: gpufabric_control_interface)"
    assert result["failed"] and result["msg"] == f"control_interface: 'eth7' is not allowed; allowed: {allowed}"


def test_mpirun_may_be_missing_broken_or_of_another_kind(breakable):
    prefix = "/tmp/mpi/bin"
    make = f"mkdir -p {prefix}; printf '#!/bin/sh\\n%s\\n' \"$1\" > {prefix}/mpirun; chmod +x {prefix}/mpirun"
    launch = {"run_id": "nompi", "points": [{"argv": ["true"]}], "hostfile": "/tmp/mpi/hostfile"}
    mpirun = breakable.shell("g1", "readlink -f /usr/bin/mpirun").stdout.strip()
    breakable.shell("g1", f"set -- 'echo HYDRA build details; exit 0'; {make}; echo localhost > /tmp/mpi/hostfile")
    breakable.shell("g1", f"mv {mpirun} {mpirun}.away; mv /usr/bin/mpirun /usr/bin/mpirun.away")
    before = breakable.state("g1")
    try:
        missing, other, refused = breakable.modules(
            [("mpi_node_info", {}), ("mpi_node_info", {"mpi_prefix": "/tmp/mpi"}), ("mpi_run", launch)]
        )
        assert breakable.state("g1") == before
        breakable.shell("g1", f"set -- 'echo libmpi.so.40: cannot open >&2; exit 127'; {make}")
        broken = breakable.module("mpi_node_info", {"mpi_prefix": "/tmp/mpi"})
    finally:
        breakable.shell("g1", f"mv /usr/bin/mpirun.away /usr/bin/mpirun; mv {mpirun}.away {mpirun}; rm -r /tmp/mpi")
    assert missing["node"]["mpi"] is None
    assert (other["node"]["mpi"]["implementation"], other["node"]["mpi"]["version"]) == ("mpich", "")
    assert broken["failed"] and broken["msg"] == f"{prefix}/mpirun does not run: libmpi.so.40: cannot open"
    assert refused["failed"] and refused["msg"] == (
        "mpirun is not on this node; install Open MPI 4 or 5 (Debian, Ubuntu: apt-get install openmpi-bin;"
        " RHEL and its kin: dnf install openmpi), or set mpi_prefix to the directory that holds its bin/mpirun"
    )
