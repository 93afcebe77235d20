# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Causes: GPUs, their driver and CUDA."""

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.entry import (
    CAUSE,
    ECHO,
    EFFECT,
    entry,
    signature,
)

_XID = r"Xid \(PCI:(?P<device>[^)]+)\): (?:%s)\b"
# The hostfile of a run is made anew each time.
_OUT = (
    "Leave the host out of the run (of an inventory by --limit 'all:!NAME'), and have the GPU checked: nvidia-smi -q, dmesg, dcgmi diag"
    " -r 3."
)

ENTRIES = (
    entry(
        "gpu-none",
        "CUDA finds no GPU.",
        "Run nvidia-smi on the host. In a container, set worker_pods_gpus or NVIDIA_VISIBLE_DEVICES; under Slurm,"
        " pass --gpus.",
        signature("no CUDA-capable device is detected"),
        signature("no ROCm-capable device is detected"),
        signature("No CUDA GPUs are available"),
        statuses=(2,),
    ),
    entry(
        "gpu-driver",
        "The host has GPUs, but their driver does not answer.",
        "Run nvidia-smi (AMD: rocm-smi) and dmesg on the host. Load the driver (modprobe nvidia, modprobe amdgpu), or restart the"
        " host. To run the benchmark without GPUs, set nccl_benchmark_backend: cpu.",
        signature("communicate with the NVIDIA driver"),
        signature("NVML: Driver Not Loaded"),
        signature("nvmlInit", r"nvmlInit\w*\(\) failed: Driver Not Loaded"),
        signature("No such device", r"NVRM: .*No such device"),
        found_by="mpi_preflight, nccl_benchmark, isolate",
        source="NVIDIA's driver, nvidia-smi and NVML (nvmlErrorString)",
    ),
    entry(
        "gpu-driver-old",
        "The host has no GPU driver, or one that is older than the CUDA version that the program or NCCL was built with.",
        "Run nvidia-smi on the host. Update the driver, or build the program with the CUDA version that nvidia-smi shows. On data centre GPUs,"
        " CUDA's compat libraries help, too.",
        signature("driver version is insufficient for CUDA runtime version"),
        signature("PTX was compiled with an unsupported toolchain"),
        signature("CUDA some PFN functions not found in the library"),
        signature("NCCL cannot be captured in a graph", r"captured in a graph .*installed CUDA driver <"),
        source="the CUDA Runtime API's documentation, cudaError, and NCCL, src/misc/cudawrap.cc",
    ),
    entry(
        "gpu-nvml-missing",
        "NCCL does not find the driver's library for management, libnvidia-ml.so.1.",
        "In a container, set NVIDIA_DRIVER_CAPABILITIES=compute,utility. On a host, install the driver's libraries; ldconfig -p lists"
        " them.",
        signature("Failed to open libnvidia-ml"),
        source="NCCL, src/os/linux.cc",
    ),
    entry(
        "gpu-not-permitted",
        "CUDA does not permit an operation: error 800, mostly when GPUs are to share memory between processes or hosts.",
        "On machines with NVLink between hosts (GB200, GB300), give the container an IMEX channel"
        " (/dev/nvidia-caps-imex-channels) or set NCCL_MNNVL_ENABLE=0. Elsewhere run the container privileged, or with"
        " CAP_SYS_PTRACE and one PID namespace for all ranks of the host; or set NCCL_CUMEM_ENABLE=0.",
        signature("operation not permitted", r"(?:Cuda failure|CUDA failure|CUDA error)\b.*\boperation not permitted"),
        source="the CUDA Runtime API's documentation, cudaErrorNotPermitted",
        follows=("imex-channel", "imex-domain"),
    ),
    entry(
        "gpu-driver-mismatch",
        "The libraries of the GPU driver and its kernel module have different versions.",
        "Restart the host after an update of the driver. Remove libcuda from the image: the container runtime brings"
        " the host's.",
        signature("Driver/library version mismatch"),
        signature("system has unsupported display driver"),
        signature("unsupported display driver / cuda driver combination"),
        # The image's libcuda (cuda-compat) on a GPU, or a driver, that it does not support.
        signature("forward compatibility was attempted on non supported HW"),
        source="the CUDA Runtime API's documentation, cudaError, and NVML (nvmlErrorString)",
    ),
    entry(
        "gpu-driver-stub",
        "The loader takes CUDA's stub of libcuda instead of the driver's library.",
        "Remove the directory stubs from LD_LIBRARY_PATH, and check that the driver's libcuda.so.1 is there"
        " (ldconfig -p).",
        signature("CUDA driver is a stub library"),
    ),
    entry(
        "gpu-architecture",
        "The program or NCCL was not built for this kind of GPU.",
        "Build it for the GPU's compute capability (NVCC_GENCODE), or use a newer NCCL.",
        signature("no kernel image is available for execution on the device"),
        signature("device kernel image is invalid"),
        source="the CUDA Runtime API's documentation, cudaError",
    ),
    entry(
        "fabric-manager",
        "The NVSwitch fabric is not set up: CUDA says that the system is not yet initialized.",
        "Start nvidia-fabricmanager on the host. Its version must be exactly that of the driver.",
        signature("system not yet initialized"),
        statuses=(2,),
    ),
    entry(
        "gpu-memory",
        "This program or another one has used up the GPU's memory.",
        "Run nvidia-smi to find other programs, and end them; or set smaller sizes (nccl_benchmark_max_bytes).",
        signature("out of memory", r"(?i:\bcuda|\bhip)\b.*out of memory"),
        signature("Failed to CUDA", r"Failed to CUDA \w+(?: async)? \d+ .*bytes"),
        precedence=CAUSE + 10,
        statuses=(2, 3),
        # Memory of the host that CUDA is to pin is short, not the GPU's.
        follows=("shm-full", "gpu-host-memory"),
    ),
    entry(
        "gpu-host-memory",
        "CUDA cannot allocate memory of the host that GPUs can access[: {bytes} bytes].",
        "Raise the memory limit of the container (worker_pods_resources, mpijob_resources, --memory) and set ulimit -l unlimited;"
        " end other programs.",
        signature("Failed to CUDA host alloc", r"Failed to CUDA host alloc (?P<bytes>\d+) bytes"),
        source="NCCL, src/include/alloc.h",
        follows=("shm-full",),
    ),
    entry(
        "gpu-busy",
        "Another program uses the GPU, or the compute mode does not let programs share it.",
        "Run nvidia-smi to find other programs, and end them; nvidia-smi -c 0 lets several programs use the GPU.",
        signature("all CUDA-capable devices are busy or unavailable"),
        signature("exclusive-thread device already in use"),
        source="the CUDA Runtime API's documentation, cudaError",
    ),
    entry(
        "gpu-ecc",
        "The memory of the GPU[ {device}] has an error that cannot be corrected.",
        _OUT,
        signature("uncorrectable ECC error"),
        signature("Xid", _XID % "48|63|64|94|95"),
        precedence=CAUSE - 10,
    ),
    entry(
        "gpu-lost",
        "The GPU[ {device}] has fallen off the bus.",
        "Restart the host. If it happens again, check the GPU's power, temperature and slot, and have it replaced.",
        signature("GPU is lost"),
        signature("fallen off the bus"),
        signature("Xid", _XID % "79"),
        precedence=CAUSE - 10,
        source="NVML (nvmlErrorString), and NVIDIA's documentation of Xid errors",
    ),
    entry(
        "gpu-nvlink",
        "NVLink of the GPU[ {device}] reports an error.",
        _OUT + " nvidia-smi nvlink -e shows the link.",
        signature("NVLink error", r"uncorrectable NVLink error|NVLink error (?:was )?detected"),
        signature("Xid", _XID % "74|14[459]"),
        precedence=CAUSE - 10,
        source="the CUDA Runtime API's documentation, cudaError, and NVIDIA's documentation of Xid errors",
    ),
    entry(
        "nvlink-p2p-disabled",
        "NVLink connects [GPUs {one} and {other}|two GPUs] of the host, but they cannot access each other's memory.",
        _OUT
        + " nvidia-smi topo -p2p r and nvidia-smi nvlink -s show the links; on NVSwitches check the fabric manager.",
        signature(
            "P2P is disabled between NVLINK connected GPUs",
            r"P2P is disabled between NVLINK connected GPUs (?P<one>\d+) and (?P<other>\d+)",
        ),
        precedence=CAUSE - 5,
        source="NCCL, src/graph/paths.cc",
    ),
    entry(
        "gpu-firmware",
        "The firmware (GSP) of the GPU[ {device}] does not answer the driver.",
        "Restart the host. If it happens again, update the driver.",
        signature("Xid", _XID % "119|120"),
        source="NVIDIA's documentation of Xid errors",
    ),
    entry(
        "gpu-illegal-access",
        "A program on the GPU[ {device}] accessed memory that is not its own.",
        "Update nccl-tests and NCCL, or remove unusual options from nccl_benchmark_extra_args. If it happens on one"
        " host only, suspect its GPU.",
        signature("an illegal memory access was encountered"),
        signature("Xid", _XID % "13|31"),
        precedence=CAUSE + 20,
        statuses=(2,),
    ),
    entry(
        "gpu-launch-failed",
        "A kernel ended on the GPU with an error that CUDA does not explain: the GPU has failed, or the program accessed memory that"
        " is not its own.",
        "Read dmesg on the host: lines with Xid give the reason, 79 is a GPU that is lost. If there are none, update nccl-tests and"
        " NCCL, and run the test on this host alone.",
        signature("unspecified launch failure"),
        precedence=CAUSE + 20,
        statuses=(2,),
        source="the CUDA Runtime API's documentation, cudaErrorLaunchFailure",
        follows=("gpu-ecc", "gpu-firmware", "gpu-illegal-access", "gpu-lost", "gpu-nvlink", "gpu-xid"),
    ),
    entry(
        "gpu-p2p-unsupported",
        "Two GPUs cannot access each other's memory directly.",
        "Set NCCL_P2P_DISABLE=1, or check IOMMU and ACS of the host: nvidia-smi topo -p2p r.",
        signature("peer access is not supported between these two devices"),
        signature("failed to peer with device", r"failed to peer with device \d+"),
        source="the CUDA Runtime API's documentation, cudaError",
    ),
    entry(
        "gpu-xid",
        "The driver reports an error of the GPU[ {device}][: Xid {xid}].",
        "Look the number up in NVIDIA's list of Xid errors, and read the lines around it in the kernel's log.",
        signature(
            "Xid",
            r"Xid \(PCI:(?P<device>[^)]+)\): (?P<xid>(?!(?:13|31|45|48|63|64|74|79|94|95|119|120|14[459])\b)\d+)",
        ),
        precedence=EFFECT,
        source="NVIDIA's documentation of Xid errors",
    ),
    entry(
        "gpu-unknown-error",
        "CUDA failed and gives no reason.",
        "Read dmesg on the host. If nvidia-smi fails, too, restart the host.",
        signature("unknown error", r"(?:Test CUDA failure|Cuda failure|CUDA error).*unknown error"),
        signature("initialization error", r"(?:Test CUDA failure|Cuda failure|CUDA error).*initialization error"),
        precedence=ECHO,
        statuses=(2,),
        source="the CUDA Runtime API's documentation, cudaError",
    ),
    entry(
        "gpu-container-runtime",
        "The container runtime cannot give the container its GPUs[: {reason}].",
        "Install the NVIDIA Container Toolkit on the host and configure it for the container runtime; then run"
        " nvidia-smi in a container.",
        signature("could not select device driver", r"(?P<reason>could not select device driver.*)"),
        signature("nvidia-container-cli", r"nvidia-container-cli: (?P<reason>.+)"),
        source="Docker, daemon/devices.go, and libnvidia-container, nvidia-container-cli",
    ),
    entry(
        "gpu-container-lost",
        "The container has lost its GPUs: systemd took the devices away when it was reloaded.",
        "Restart the container. On the host, configure the container runtime to manage cgroups by cgroupfs, or use"
        " CDI.",
        signature("Failed to initialize NVML: Unknown Error"),
        source="the NVIDIA Container Toolkit's documentation, Troubleshooting",
    ),
)
