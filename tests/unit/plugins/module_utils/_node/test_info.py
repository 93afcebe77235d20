# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import glob
import itertools
import os

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.info import (
    amd_gpu_name,
    find_pci_gpus,
    interfaces_in,
    parse_gpu_memory,
    parse_gpu_names,
    parse_mpirun_version,
    parse_nvlink,
    read_gpus,
    read_line_rate,
    vendor_of,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("mpirun (Open MPI) 4.1.4\n\nReport bugs to", ("openmpi", "4.1.4")),
        ("mpirun (Open MPI) 5.0.11\n", ("openmpi", "5.0.11")),
        ("mpirun (Open MPI) 4.1.6amzn1\n", ("openmpi", "4.1.6amzn1")),
        ("Open MPI v4.1.7rc1 (HPC-X)\n", ("openmpi", "4.1.7rc1")),
        ("HYDRA build details:\n    Version:                                 4.0.2\n", ("mpich", "4.0.2")),
        ("HYDRA build details:\n  Version:  3.0.4\n  Configure options: '--with-mvapich2'", ("mvapich", "3.0.4")),
        ("HYDRA build details", ("mpich", "")),
        (
            "Intel(R) MPI Library for Linux* OS, Version 2021.11 Build 20231005 (id: 74c4a23)\nCopyright 2003",
            ("intel", "2021.11"),
        ),
        ("mpirun (IBM Spectrum MPI) 10.4.0\n", ("other", "mpirun (IBM Spectrum MPI) 10.4.0")),
        ("", ("other", "")),
    ],
)
def test_parse_mpirun_version(text, found):
    assert parse_mpirun_version(text) == found


@pytest.mark.parametrize(
    ("mpirun", "version", "vendor"),
    [
        ("/usr/bin/mpirun", "4.1.4", None),
        ("/opt/amazon/openmpi/bin/mpirun", "4.1.6", "amazon"),
        ("/opt/mine/bin/mpirun", "4.1.6amzn1", "amazon"),
        ("/opt/hpcx-v2.18/ompi/bin/mpirun", "4.1.7rc1", "hpcx"),
    ],
)
def test_vendor_of(mpirun, version, vendor):
    assert vendor_of(mpirun, version) == vendor


INTERFACES = [
    {"name": "lo", "mtu": 65536, "addresses": ["127.0.0.1/8", "::1/128"]},
    {"name": "eth0", "mtu": 1500, "addresses": ["10.0.0.11/24", "fd00::11/64"]},
    {"name": "rail0", "mtu": 9000, "addresses": ["192.168.0.11/24"]},
    {"name": "rail1", "mtu": 9000, "addresses": ["192.168.1.11/24"]},
]


@pytest.mark.parametrize(
    ("subnet", "names"),
    [
        ("10.0.0.0/24", ["eth0"]),
        ("192.168.0.0/16", ["rail0", "rail1"]),
        ("192.168.1.5/24", ["rail1"]),
        ("fd00::/64", ["eth0"]),
        ("172.16.0.0/12", []),
    ],
)
def test_interfaces_in(subnet, names):
    assert interfaces_in(INTERFACES, subnet) == names


@pytest.mark.parametrize("subnet", ["net1", "10.0.0.1", "10.0.0.0/33"])
def test_interfaces_in_refuses(subnet):
    with pytest.raises(OptionError, match="^data_subnet: "):
        interfaces_in(INTERFACES, subnet)


def test_gpus_as_their_programs_and_the_kernel_tell():
    assert parse_gpu_names("NVIDIA H100\n NVIDIA H100 \n\n") == ["NVIDIA H100", "NVIDIA H100"]
    assert amd_gpu_name("cpu_cores_count 0\nsimd_count 304\n") == ""
    assert amd_gpu_name("cpu_cores_count 8\nsimd_count 0\ngfx_target_version 0\n") is None
    for version, name in ((90402, "gfx942"), (90010, "gfx90a"), (90008, "gfx908"), (110000, "gfx1100")):
        assert amd_gpu_name(f"simd_count 304\ngfx_target_version {version}\n") == name


def test_gpus_of_amd_are_those_that_the_kernel_lists(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    if OWN:
        pytest.skip("this machine has GPUs of NVIDIA")
    for number, version in enumerate((0, 90402, 90402, 90010)):
        path = tmp_path / "nodes" / str(number) / "properties"
        path.parent.mkdir(parents=True)
        path.write_text(f"simd_count {304 if version else 0}\ngfx_target_version {version}\n", encoding="utf-8")
    # The kernel lists those that the cgroup of a pod does not allow too, and lets nobody there read them.
    (tmp_path / "nodes" / "4" / "properties").mkdir(parents=True)
    pci = pci_devices(tmp_path / "pci", "0x1002 0x120000 0x74a1")
    names = ["gfx90a", "gfx942"]
    found = {"vendor": "amd", "count": 3, "names": names, "memory_bytes": None, "nvlink_gbytes": None, "unusable": []}
    assert read_gpus(str(tmp_path / "nodes"), pci) == found
    # The memory of host and device of each, which the kernel lists in banks; 1 and 2 are on the board.
    for number, (kind, size) in itertools.product((1, 2, 3), ((1, 192 << 30), (2, 1 << 30), (0, 7))):
        path = tmp_path / "nodes" / str(number) / "mem_banks" / str(kind) / "properties"
        path.parent.mkdir(parents=True)
        path.write_text(f"heap_type {kind}\nsize_in_bytes {size // number}\nflags 0\n", encoding="utf-8")
    memory = (192 << 30) // 3 + (1 << 30) // 3
    assert read_gpus(str(tmp_path / "nodes"), pci) == {**found, "memory_bytes": memory}
    unusable = ["0000:00:00.0 1002:74a1"]
    assert read_gpus(str(tmp_path / "none"), pci) == {
        "vendor": "none",
        "count": 0,
        "names": [],
        "memory_bytes": None,
        "nvlink_gbytes": None,
        "unusable": unusable,
    }
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert read_gpus(str(tmp_path / "none"), pci)["unusable"] == []


def pci_devices(path, *devices):
    """A folder as /sys/bus/pci/devices. ``devices``: vendor, class and device of each."""
    for number, device in enumerate(devices):
        folder = path / f"0000:{number:02x}:00.0"
        folder.mkdir(parents=True)
        for name, value in zip(("vendor", "class", "device"), device.split()):
            (folder / name).write_text(f"{value}\n", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("device", "found"),
    [
        ("0x10de 0x030200 0x2330", True),
        ("0x10de 0x030000 0x2684", True),
        ("0x10de 0x120000 0x2901", True),
        ("0x1002 0x030200 0x738c", True),
        ("0x1002 0x038000 0x740f", True),
        ("0x1002 0x120000 0x74a1", True),
        # ATI's display adapter on the board of a server, and another's.
        ("0x1002 0x030000 0x515e", False),
        ("0x1a03 0x030000 0x2000", False),
        # A GPU's sound, an NVSwitch, a device that is no longer there.
        ("0x10de 0x040300 0x228e", False),
        ("0x10de 0x068000 0x22a3", False),
        ("0x10de", False),
        ("", False),
    ],
)
def test_gpus_on_the_pci_bus_are_found_without_a_driver(tmp_path, device, found):
    vendor, _class, number = (*device.split(), "", "", "")[:3]
    listed = [f"0000:01:00.0 {vendor[2:]}:{number[2:]}"] if found else []
    assert find_pci_gpus(pci_devices(tmp_path, "0x8086 0x020000 0x1593", device)) == listed


H100, L4 = "NVIDIA H100 80GB HBM3", "NVIDIA L4"
#: Of the kernel, on a machine that has GPUs.
OWN = len(glob.glob("/proc/driver/nvidia/gpus/*"))


@pytest.mark.parametrize(
    ("answer", "gpus"),
    [
        (
            f"printf '{H100}\\n%.0s' 1 2 3 4 5 6 7 8",
            {
                "vendor": "nvidia",
                "count": 8,
                "names": [H100],
                "memory_bytes": None,
                "nvlink_gbytes": 450.0,
                "unusable": [],
            },
        ),
        (
            f"printf '{L4}\\n{H100}\\n{L4}\\n'",
            {
                "vendor": "nvidia",
                "count": 3,
                "names": [H100, L4],
                "memory_bytes": None,
                "nvlink_gbytes": 450.0,
                "unusable": [],
            },
        ),
        # The driver does not run.
        (
            "echo 'NVIDIA-SMI has failed'; exit 9",
            {
                "vendor": "nvidia" if OWN else "none",
                "count": OWN,
                "names": [],
                "memory_bytes": None,
                "nvlink_gbytes": 450.0 if OWN else None,
                "unusable": [] if OWN else ["0000:00:00.0 10de:2330"],
            },
        ),
    ],
)
def test_gpus_are_those_that_nvidia_smi_lists(tmp_path, monkeypatch, answer, gpus):
    program = tmp_path / "nvidia-smi"
    asked = "--query-gpu=name --format=csv,noheader"
    links = f"printf 'GPU 0: {H100} (UUID: GPU-1)\\n'; printf '\\t Link 0: 26.562 GB/s\\n%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18"
    program.write_text(
        f'#!/bin/sh\n[ "$*" != "nvlink -s" ] || {{ {links}; exit; }}\n[ "$*" = "{asked}" ] || exit 2\n{answer}\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert read_gpus(str(tmp_path / "kfd"), pci_devices(tmp_path / "pci", "0x10de 0x030200 0x2330")) == gpus


def nvlinks(*gpus):
    """As nvidia-smi lists the links (a real one of an H100, with drivers of 2023); of each GPU the rates, None of one that is inactive."""
    return "".join(
        f"GPU {number}: NVIDIA H100 80GB HBM3 (UUID: GPU-6968dfc2-d444-d92c-c36b-{number:012})\n"
        + "".join(
            f"\t Link {link}: {'<inactive>' if rate is None else f'{rate} GB/s'}\n" for link, rate in enumerate(rates)
        )
        for number, rates in enumerate(gpus)
    )


@pytest.mark.parametrize(
    ("text", "gbytes"),
    [
        (nvlinks([26.562] * 18, [26.562] * 18), 450.0),
        (nvlinks([25] * 12), 300.0),
        (nvlinks([25.781] * 6), 150.0),
        (nvlinks([53.125] * 18), 900.0),
        # A link of one GPU is down; most have all.
        (nvlinks([26.562] * 18, [26.562] * 17 + [None], [26.562] * 18), 450.0),
        (nvlinks([26.562, None, 26.562]), 50.0),
        (nvlinks([33.5]), 33.5),
        (nvlinks([None, None]), None),
        ("NVML: Unable to retrieve NVLink information as all links are inActive\n", None),
        ("Link 0: 25 GB/s\nGPU 0: x\n Link 0: " + 5000 * "9" + " GB/s\n", None),
        ("", None),
    ],
)
def test_rates_of_nvlink(text, gbytes):
    assert parse_nvlink(text) == gbytes


def test_the_memory_of_the_smallest_gpu(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    asked = "--query-gpu=name,memory.total --format=csv,noheader,nounits"
    program.write_text(
        f'#!/bin/sh\n[ "$*" = "{asked}" ] || exit 2\nprintf "A, B, 81559\\nA, B, 40960\\n"\n', encoding="utf-8"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = read_gpus(str(tmp_path / "kfd"), str(tmp_path / "pci"))
    assert (found["count"], found["names"], found["memory_bytes"]) == (2, ["A, B"], 40960 << 20)


@pytest.mark.parametrize("text", ["", "A", "A, [N/A]", "A, 81559\nA, [N/A]", "A, 0", "A, -1", f"A, {'9' * 5000}"])
def test_memory_that_not_all_gpus_tell_is_not_known(text):
    assert parse_gpu_memory(text) is None


def interfaces(path, speeds):
    """A folder as /sys/class/net."""
    for name, speed in speeds:
        folder = path / name
        folder.mkdir(parents=True)
        (folder / "speed").write_text(f"{speed}\n", encoding="utf-8")
    return str(path)


NDR, HDR, DOWN = (
    {"name": "x:1", "active": active, "gbps": gbps} for active, gbps in ((1, 400.0), (1, 200.0), (0, 400.0))
)
SDR, UNKNOWN = ({"name": "x:1", "active": True, "gbps": gbps} for gbps in (2.5, None))


@pytest.mark.parametrize(
    ("ports", "speeds", "named", "rate"),
    [
        ([NDR] * 8, [("eth0", "25000")], "eth0", (3200, "8 RDMA ports")),
        ([NDR, DOWN, HDR], [], None, (600, "2 RDMA ports")),
        ([SDR], [], None, (2.5, "1 RDMA port")),
        ([UNKNOWN], [("eth0", "25000")], None, (25, "eth0")),
        ([], [("lo", "99999"), ("eth0", "1000"), ("eth1", "100000")], None, (100, "eth1")),
        ([], [("eth0", "1000"), ("eth1", "100000")], "eth0", (1, "eth0")),
        ([], [("eth0", "100000"), ("eth1", "100000")], "eth0,eth1", (200, "eth0, eth1")),
        # Of one of two that carry the data nothing is known.
        ([], [("eth0", "100000"), ("eth1", "-1")], "eth0,eth1", None),
        ([], [("eth0", "-1")], "eth0", None),
        ([], [("eth0", "")], None, None),
        ([], [], None, None),
    ],
)
def test_line_rate(tmp_path, ports, speeds, named, rate):
    found = read_line_rate(named, ports, interfaces(tmp_path, speeds))
    assert found == (rate and {"gbps": rate[0], "source": rate[1]})
