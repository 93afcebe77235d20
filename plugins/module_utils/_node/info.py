# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What a node has: networks, GPUs, Open MPI, benchmark programs, limits."""

from __future__ import annotations

import collections
import glob
import importlib.metadata
import ipaddress
import os
import re
import resource
import socket
import sys
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import read_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.openmpi import is_foreign
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import (
    InterfaceAddress,
    choose_address,
    parse_subnet,
    read_addresses,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.features import common_features
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.shapes import (
    Benchmarks,
    Gpus,
    Interface,
    LineRate,
    Mpi,
    Network,
    NodeInfo,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import find_program, run
from ansible_collections.gpufabric.nccl.plugins.module_utils._rdma import Port, read_ports

#: Where vendors put Open MPI: AWS, HPC-X, NVIDIA's images, MLNX_OFED, RHEL.
MPI_PREFIXES = (
    "/opt/amazon/openmpi",
    "/opt/amazon/openmpi5",
    "/opt/hpcx/ompi",
    "/usr/local/mpi",
    "/usr/mpi/gcc/openmpi-*",
    "/usr/lib64/openmpi",
    "/opt/openmpi*",
)

#: Where nccl-tests and rccl-tests are usually built or shipped.
BENCHMARK_DIRECTORIES = (
    "/opt/nccl-tests/build",
    "/opt/nccl_tests/build",
    "/opt/rccl-tests/build",
    "/usr/local/nccl-tests/build",
    "/usr/local/bin",
    "/usr/bin",
)


#: Vendors of GPUs, and the beginning of the classes of their PCI devices: display and 3D controllers, accelerators. Many servers
#: have an old display adapter of AMD on the board, which is of class 0x0300.
GPU_CLASSES = {
    "0x10de": ("0x03", "0x12"),
    "0x1002": ("0x0302", "0x0380", "0x1200"),
}


#: What one NVLink of each generation carries in one direction, in GB/s.
_NVLINK_RATES = (20.0, 25.0, 50.0, 100.0)


def parse_mpirun_version(text: str) -> tuple[str, str]:
    """Implementation and version, from what ``mpirun --version`` prints.

    Open MPI 4.x prints ``mpirun (Open MPI) 4.1.4``, 5.x the same with its own number, HPC-X's may begin with
    ``Open MPI v``. MPICH and MVAPICH have one program, HYDRA, which tells how it was built. Of any ``other``, the version
    is its first line.
    """
    match = re.search(r"\(?Open MPI\)? v?(\d+\.\d+\S*)", text)
    if match:
        return "openmpi", match.group(1)
    match = re.search(r"Version (\S+)", text.partition("Intel(R) MPI Library")[2].partition("\n")[0])
    if match:
        return "intel", match.group(1)
    if "hydra" in text.lower() or "mvapich" in text.lower():
        numbers = re.search(r"Version: *(\S+)", text)
        return "mvapich" if "mvapich" in text.lower() else "mpich", numbers.group(1) if numbers else ""
    return "other", (text.strip().splitlines() or [""])[0][:80]


def vendor_of(mpirun: str, version: str) -> str | None:
    """Who has built an Open MPI, by the path and version of its mpirun: ``hpcx`` or ``amazon``, as far as it matters."""
    if "hpcx" in mpirun.lower() or "hpc-x" in version.lower():
        return "hpcx"
    return "amazon" if "amzn" in version or mpirun.startswith("/opt/amazon/") else None


def parse_gpu_names(text: str) -> list[str]:
    """Names of NVIDIA GPUs, from ``nvidia-smi --query-gpu=name --format=csv,noheader``."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def parse_gpu_memory(text: str) -> int | None:
    """Bytes of the GPU with the least memory, from ``nvidia-smi --query-gpu=name,memory.total --format=csv,noheader,nounits``.

    None unless it tells that of all, in MiB.
    """
    cells = [line.rpartition(",")[2].strip() for line in text.splitlines() if line.strip()]
    sizes = [int(cell) << 20 for cell in cells if re.match(r"[1-9]\d{0,8}\Z", cell)]
    return min(sizes) if sizes and len(sizes) == len(cells) else None


def amd_gpu_name(properties: str) -> str | None:
    """The architecture of a node of the KFD topology, such as gfx942, from the text of its properties; None if it is no GPU.

    Empty if the kernel does not say it. A CPU has no SIMD units.
    """
    found = dict(re.findall(r"^(simd_count|gfx_target_version) (\d+)$", properties, re.MULTILINE))
    if not int(found.get("simd_count", 0)):
        return None
    version = int(found.get("gfx_target_version", 0))
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}" if version else ""


def group_interfaces(addresses: t.Iterable[InterfaceAddress]) -> dict[str, list[str]]:
    """Addresses in CIDR notation by interface."""
    grouped: dict[str, list[str]] = {}
    for item in addresses:
        grouped.setdefault(item.interface, []).append(f"{item.address}/{item.prefix_length}")
    return grouped


def interfaces_in(interfaces: t.Iterable[t.Mapping[str, t.Any]], subnet: str) -> list[str]:
    """The names of the interfaces that have an address in a subnet, in their order.

    ``interfaces``: as mpi_node_info returns them. ``subnet``: in CIDR notation. Raises OptionError.
    """
    network = parse_subnet("data_subnet", subnet)
    return [
        str(item["name"])
        for item in interfaces
        if any(ipaddress.ip_interface(address).ip in network for address in item["addresses"])
    ]


def read_node(
    control_interface: str | None,
    data_interface: str | None,
    data_subnet: str | None,
    mpi_prefix: str | None,
    benchmark_dir: str | None,
) -> NodeInfo:
    """All that ``mpi_node_info`` returns. Raises GpufabricError."""
    addresses = read_addresses()
    interfaces: list[Interface] = [
        {"name": name, "mtu": _read_number(f"/sys/class/net/{name}/mtu"), "addresses": items}
        for name, items in group_interfaces(addresses).items()
    ]
    ports = read_ports()
    return {
        "hostname": socket.gethostname(),
        "interfaces": interfaces,
        "control": _network("control_interface", control_interface, addresses, True),
        "data": _data_network(data_interface, data_subnet, interfaces, addresses),
        "gpus": read_gpus(),
        "line_rate": read_line_rate(data_interface or control_interface, ports),
        "mpi": find_mpi(mpi_prefix),
        "benchmarks": find_benchmarks(benchmark_dir),
        "python": {"executable": sys.executable, "mpi4py": _version_of("mpi4py"), "numpy": _version_of("numpy")},
        "cpus": len(os.sched_getaffinity(0)),
        "shm_bytes": _size_of("/dev/shm"),
        "memlock_bytes": _limit(resource.RLIMIT_MEMLOCK),
        "rdma_devices": sorted(os.path.basename(path) for path in glob.glob("/sys/class/infiniband/*")),
        "rdma_ports": ports,
    }


def find_mpi(prefix: str | None) -> Mpi | None:
    """The node's mpirun, as ``mpi_node_info`` returns it; None where there is none. Raises GpufabricError."""
    mpirun: str | None
    if prefix is not None:
        given = mpirun = os.path.join(prefix, "bin", "mpirun")
        if not os.access(given, os.X_OK):
            raise OptionError("mpi_prefix", prefix, "a directory with bin/mpirun in it")
    else:
        found = [path for pattern in MPI_PREFIXES for path in sorted(glob.glob(f"{pattern}/bin/mpirun"))]
        mpirun = find_program("mpirun") or next(iter(found), None)
    if mpirun is None:
        return None
    prefix = _prefix_of(mpirun) if prefix is None else prefix
    # It may be linked to libraries that only LD_LIBRARY_PATH leads to.
    libraries = [os.path.join(prefix, "lib"), os.path.join(prefix, "lib64"), os.environ.get("LD_LIBRARY_PATH", "")]
    inherited = {name: value for name, value in os.environ.items() if not is_foreign(name, value, prefix)}
    environment = {**inherited, "LD_LIBRARY_PATH": ":".join(path for path in libraries if path)}
    result = run([mpirun, "--version"], environment=environment)
    if result.returncode != 0:
        raise NodeError(f"{mpirun} does not run: {(result.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    implementation, version = parse_mpirun_version(result.stdout)
    vendor = vendor_of(os.path.realpath(mpirun), version) if implementation == "openmpi" else None
    return {
        "mpirun": mpirun,
        "prefix": prefix,
        "implementation": implementation,
        "version": version,
        "vendor": vendor,
    }


def _prefix_of(mpirun: str) -> str:
    """The directory that Open MPI is in. The mpirun on the PATH may be a link to it, with no daemon beside."""
    for path in (mpirun, os.path.realpath(mpirun)):
        if any(os.path.exists(os.path.join(os.path.dirname(path), daemon)) for daemon in ("orted", "prted")):
            return os.path.dirname(os.path.dirname(path))
    return os.path.dirname(os.path.dirname(mpirun))


def _data_network(
    names: str | None, subnet: str | None, interfaces: list[Interface], addresses: list[InterfaceAddress]
) -> Network | None:
    """NCCL's network; several interfaces are named with commas between, and have no address in common."""
    if subnet is not None and names is not None:
        allowed = f"to leave it out, since data_interface is set, too {_variable_of('data_subnet')}"
        raise OptionError("data_subnet", subnet, allowed)
    if subnet is not None:
        found = interfaces_in(interfaces, subnet)
        if not found:
            has = ", ".join(f"{address} ({one['name']})" for one in interfaces for address in one["addresses"])
            raise OptionError("data_subnet", subnet, f"a subnet that this node has an address in: {has}")
        names = ",".join(found)
    networks = [_network("data_interface", name, addresses, False) for name in names.split(",")] if names else [None]
    return networks[0] if len(networks) == 1 else {"interface": names, "address": None, "subnet": subnet}


def _network(
    option: str, interface: str | None, addresses: list[InterfaceAddress], needs_address: bool
) -> Network | None:
    if interface is None:
        return None
    there = os.listdir("/sys/class/net")
    if interface not in there or not os.path.isdir(f"/sys/class/net/{interface}"):
        names = sorted(name for name in there if name != "lo") or ["none"]
        raise OptionError(option, interface, f"an interface of this node: {', '.join(names)} {_variable_of(option)}")
    own = [item for item in addresses if item.interface == interface and item.is_ipv4]
    if not own and not needs_address:
        return {"interface": interface, "address": None, "subnet": None}
    if not own:
        other = "in its place, with Open MPI 5, a subnet of IPv6 (variable: gpufabric_control_subnet)"
        raise OptionError(option, interface, f"an interface with an IPv4 address {_variable_of(option)}; {other}")
    address = choose_address(own, interface=interface)
    subnet = next(str(item.network) for item in own if item.address == address)
    return {"interface": interface, "address": address, "subnet": subnet}


def _variable_of(option: str) -> str:
    return f"(variable: gpufabric_{option})"


def read_gpus(kfd: str = "/sys/class/kfd/kfd/topology/nodes", pci: str = "/sys/bus/pci/devices") -> Gpus:
    """``vendor``, ``count`` and ``names`` of the node's GPUs; without any, those that are ``unusable``.

    ``kfd``: where the kernel lists those of AMD. ``pci``: where it lists all PCI devices.
    """
    if os.path.isdir("/proc/driver/nvidia/gpus") or find_program("nvidia-smi"):
        program = find_program("nvidia-smi")
        names, memory = _ask_nvidia_smi(program) if program else ([], None)
        count = len(names) or len(glob.glob("/proc/driver/nvidia/gpus/*"))
        if count:
            return {
                "vendor": "nvidia",
                "count": count,
                "names": sorted(set(names)),
                "memory_bytes": memory,
                "nvlink_gbytes": _read_nvlink(program),
                "unusable": [],
            }
    found = {path: amd_gpu_name(_text_of(path)) for path in glob.glob(f"{glob.escape(kfd)}/*/properties")}
    amd = [name for name in found.values() if name is not None]
    sizes = [_amd_memory(os.path.dirname(path)) for path, name in found.items() if name is not None]
    return {
        "vendor": "amd" if amd else "none",
        "count": len(amd),
        "names": sorted({name for name in amd if name}),
        "memory_bytes": min(sizes, default=0) or None,
        "nvlink_gbytes": None,
        # A pod has those that it asked for, and sees the others of its node.
        "unusable": [] if amd or "KUBERNETES_SERVICE_HOST" in os.environ else find_pci_gpus(pci),
    }


def _ask_nvidia_smi(program: str) -> tuple[list[str], int | None]:
    """The names of the GPUs, and the memory of the one that has least."""
    both = run([program, "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"])
    memory = parse_gpu_memory(both.stdout) if both.returncode == 0 else None
    if memory is not None:
        return [line.rpartition(",")[0].strip() for line in both.stdout.splitlines() if line.strip()], memory
    result = run([program, "--query-gpu=name", "--format=csv,noheader"])
    return (parse_gpu_names(result.stdout) if result.returncode == 0 else []), None


def _amd_memory(node: str) -> int:
    """Bytes of the memory of a GPU of the KFD topology, 0 if the kernel does not say: its heaps of kind 1 and 2, that is on the board."""
    size = 0
    for path in glob.glob(f"{glob.escape(node)}/mem_banks/*/properties"):
        found = dict(re.findall(r"^(heap_type|size_in_bytes) (\d{1,18})$", _text_of(path), re.MULTILINE))
        size += int(found.get("size_in_bytes", 0)) if found.get("heap_type") in ("1", "2") else 0
    return size


def parse_nvlink(text: str) -> float | None:
    """What the NVLinks of most GPUs carry in one direction, in GB/s, from ``nvidia-smi nvlink -s``; None if there are none.

    nvidia-smi tells the rate of the signal, of which a GPU has 1/17 or 1/33 less for data: 26.562 GB/s are 25.
    """
    sums: list[float] = []
    for line in text.splitlines():
        if re.match(r"GPU \d", line):
            sums.append(0.0)
            continue
        link = re.match(r"\s*Link \d{1,3}: (\d{1,4}(?:\.\d{1,6})?) GB/s\s*\Z", line, re.ASCII)
        if link and sums:
            speed = float(link.group(1))
            sums[-1] += next((rate for rate in _NVLINK_RATES if rate <= speed < rate * 1.07), speed)
    most = collections.Counter(round(total, 3) for total in sums if total).most_common(1)
    return most[0][0] if most else None


def _read_nvlink(program: str | None) -> float | None:
    try:
        done = run([program, "nvlink", "-s"]) if program else None
    except NodeError:
        return None
    return parse_nvlink(done.stdout) if done is not None and done.returncode == 0 else None


def find_pci_gpus(pci: str) -> list[str]:
    """The address, vendor and device of each GPU on the PCI bus, whether it has a driver or not. ``pci``: as of read_gpus."""
    found = []
    for path in sorted(glob.glob(f"{glob.escape(pci)}/*")):
        vendor = _text_of(f"{path}/vendor").strip()
        if vendor in GPU_CLASSES and _text_of(f"{path}/class").startswith(GPU_CLASSES[vendor]):
            device = _text_of(f"{path}/device").strip()
            found.append(f"{os.path.basename(path)} {vendor[2:]}:{device[2:]}")
    return found


def read_line_rate(interfaces: str | None, ports: t.Iterable[Port], net: str = "/sys/class/net") -> LineRate | None:
    """How fast a node can send: over all its active RDMA ports, else over the interfaces that are named, else over its fastest one.

    ``interfaces``: names with commas between. ``net``: where the kernel lists them. None if nothing tells it.
    """
    rates = [port["gbps"] for port in ports if port["active"] and port["gbps"]]
    if rates:
        return {"gbps": round(sum(rates), 3), "source": f"{len(rates)} RDMA ports" if len(rates) > 1 else "1 RDMA port"}
    names = interfaces.split(",") if interfaces else os.listdir(net) if os.path.isdir(net) else []
    speeds = {name: _speed_of(f"{net}/{name}/speed") for name in names if name != "lo"}
    found = {name: speed for name, speed in speeds.items() if speed}
    if not found or (interfaces and len(found) < len(speeds)):
        return None
    if not interfaces:
        fastest = max(sorted(found), key=found.__getitem__)
        found = {fastest: found[fastest]}
    return {"gbps": sum(found.values()) / 1000, "source": ", ".join(found)}


def _speed_of(path: str) -> int | None:
    """Mb/s of an interface; None if it is down or does not say."""
    text = _text_of(path).strip()
    return int(text) if re.match(r"[1-9]\d{0,8}\Z", text) else None


def find_benchmarks(directory: str | None) -> Benchmarks | None:
    """The programs of nccl-tests in a directory, else in the first of the usual places that has some. Raises OptionError."""
    if directory is not None and not os.path.isdir(directory):
        raise OptionError("benchmark_dir", directory, "a directory of this node (variable: nccl_benchmark_dir)")
    on_path = find_program("all_reduce_perf_mpi") or find_program("all_reduce_perf")
    places = (directory,) if directory else (*([os.path.dirname(on_path)] if on_path else []), *BENCHMARK_DIRECTORIES)
    for place in places:
        paths = [path for name in ("*_perf", "*_perf_mpi") for path in glob.glob(f"{glob.escape(place)}/{name}")]
        programs = sorted(os.path.basename(path) for path in paths if os.access(path, os.X_OK))
        if programs:
            found = common_features(os.path.join(place, name) for name in programs)
            return {"directory": place, "programs": programs, "features": found}
    return None


def _version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _text_of(path: str) -> str:
    """The text of a file of the kernel; empty where it cannot be read, such as that of a GPU which a pod may not use."""
    try:
        return read_text(path) or ""
    except NodeError:
        return ""


def _read_number(path: str) -> int | None:
    text = (read_text(path) or "").strip()
    return int(text) if text.isdigit() else None


def _size_of(path: str) -> int | None:
    if not os.path.isdir(path):
        return None
    status = os.statvfs(path)
    return status.f_frsize * status.f_blocks


def _limit(number: int) -> int | None:
    soft, _hard = resource.getrlimit(number)
    return None if soft == resource.RLIM_INFINITY else soft
