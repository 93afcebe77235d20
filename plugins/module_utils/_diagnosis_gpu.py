# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Causes: GPUs, their driver and CUDA."""

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis_entry import CAUSE, ECHO, EFFECT, entry, sign

_XID = r"Xid \(PCI:(?P<device>[^)]+)\): (?:%s)\b"
_OUT = "Take the host out of the hostfile, and have the GPU looked at: nvidia-smi -q, dmesg, dcgmi diag."

ENTRIES = (
    entry(
        "gpu-none",
        "CUDA finds no GPU.",
        "See whether nvidia-smi works on the host. In a container: worker_pods_gpus, NVIDIA_VISIBLE_DEVICES; under Slurm: --gpus.",
        sign("no CUDA-capable device is detected"),
        sign("no ROCm-capable device is detected"),
        sign("No CUDA GPUs are available"),
        statuses=(2,),
    ),
    entry(
        "gpu-driver",
        "GPUs are there, but their driver does not answer.",
        "Look at nvidia-smi and dmesg of the host; load the driver anew (modprobe nvidia), or restart the host.",
        sign("communicate with the NVIDIA driver"),
        sign("NVML: Driver Not Loaded"),
        sign("No such device", r"NVRM: .*No such device"),
        found_by="mpi_preflight",
    ),
    entry(
        "gpu-driver-old",
        "The GPU driver is older than the CUDA that the program, or NCCL, was built with.",
        "Update the driver, or build with the CUDA that nvidia-smi shows; CUDA's compat libraries help on data centre GPUs.",
        sign("driver version is insufficient for CUDA runtime version"),
        sign("PTX was compiled with an unsupported toolchain"),
    ),
    entry(
        "gpu-driver-mismatch",
        "The libraries of the GPU driver are of another version than its kernel module.",
        "Restart the host after an update of the driver. In an image, take libcuda out: the container's runtime brings the host's.",
        sign("Driver/library version mismatch"),
        sign("system has unsupported display driver"),
        sign("unsupported display driver / cuda driver combination"),
    ),
    entry(
        "gpu-driver-stub",
        "The loader takes CUDA's stub of libcuda instead of the driver's.",
        "Take the directory stubs out of LD_LIBRARY_PATH, and see that the driver's libcuda.so.1 is there (ldconfig -p).",
        sign("CUDA driver is a stub library"),
    ),
    entry(
        "gpu-architecture",
        "The program, or NCCL, was not built for this kind of GPU.",
        "Build it for the GPU's compute capability (NVCC_GENCODE), or take a newer NCCL.",
        sign("no kernel image is available for execution on the device"),
        sign("device kernel image is invalid"),
    ),
    entry(
        "fabric-manager",
        "The NVSwitch fabric is not set up: CUDA says that the system is not yet initialized.",
        "Start nvidia-fabricmanager on the host; its version must be the driver's to the last digit.",
        sign("system not yet initialized"),
        statuses=(2,),
    ),
    entry(
        "gpu-memory",
        "The GPU's memory is used up, by this program or another.",
        "Look at nvidia-smi for other programs, and end them; or take smaller sizes (nccl_benchmark_max_bytes).",
        sign("out of memory", r"(?i:\bcuda|\bhip)\b.*out of memory"),
        sign("Failed to CUDA", r"Failed to CUDA \w+ \d+ .*bytes"),
        primacy=CAUSE + 10,
        statuses=(2, 3),
    ),
    entry(
        "gpu-busy",
        "The GPU is taken by another program, or may not be shared (compute mode).",
        "Look at nvidia-smi for other programs, and end them; nvidia-smi -c 0 lets several programs use it.",
        sign("all CUDA-capable devices are busy or unavailable"),
        sign("exclusive-thread device already in use"),
    ),
    entry(
        "gpu-ecc",
        "The GPU[ {device}] has a fault of its memory that cannot be corrected.",
        _OUT,
        sign("uncorrectable ECC error"),
        sign("Xid", _XID % "48|63|64|94|95"),
        primacy=CAUSE - 10,
    ),
    entry(
        "gpu-lost",
        "The GPU[ {device}] has gone from the bus.",
        "Restart the host; if it comes again, look at its power, its heat and its slot, and have it replaced.",
        sign("GPU is lost"),
        sign("fallen off the bus"),
        sign("Xid", _XID % "79"),
        primacy=CAUSE - 10,
    ),
    entry(
        "gpu-nvlink",
        "NVLink of the GPU[ {device}] has an error.",
        _OUT + " nvidia-smi nvlink -e shows the link.",
        sign("NVLink error", r"uncorrectable NVLink error|NVLink error (?:was )?detected"),
        sign("Xid", _XID % "74|14[459]"),
        primacy=CAUSE - 10,
    ),
    entry(
        "gpu-firmware",
        "The GPU[ {device}] does not answer its driver (GSP).",
        "Restart the host, and update the driver if it comes again.",
        sign("Xid", _XID % "119|120"),
    ),
    entry(
        "gpu-illegal-access",
        "A program on the GPU[ {device}] touched memory that is not its own.",
        "Update nccl-tests and NCCL, or take options out that few use (nccl_benchmark_extra_args); on one host only, suspect the GPU.",
        sign("an illegal memory access was encountered"),
        sign("unspecified launch failure"),
        sign("Xid", _XID % "13|31"),
        primacy=CAUSE + 20,
        statuses=(2,),
    ),
    entry(
        "gpu-p2p-unsupported",
        "Two GPUs cannot reach each other's memory directly.",
        "Set NCCL_P2P_DISABLE=1, or look at IOMMU and ACS of the host: nvidia-smi topo -p2p r.",
        sign("peer access is not supported between these two devices"),
    ),
    entry(
        "gpu-xid",
        "The driver reports an error of the GPU[ {device}][: Xid {xid}].",
        "Look it up in NVIDIA's list of Xid errors, and at what the kernel's log has around it.",
        sign(
            "Xid",
            r"Xid \(PCI:(?P<device>[^)]+)\): (?P<xid>(?!(?:13|31|45|48|63|64|74|79|94|95|119|120|14[459])\b)\d+)",
        ),
        primacy=EFFECT,
    ),
    entry(
        "gpu-unknown-error",
        "CUDA failed and does not say why.",
        "Look at dmesg of the host; restart it if nvidia-smi fails, too.",
        sign("unknown error", r"(?:Test CUDA failure|Cuda failure|CUDA error).*unknown error"),
        sign("initialization error", r"(?:Test CUDA failure|Cuda failure|CUDA error).*initialization error"),
        primacy=ECHO,
        statuses=(2,),
    ),
    entry(
        "gpu-container-runtime",
        "The container cannot be given its GPUs[: {reason}].",
        "Install the NVIDIA Container Toolkit on the host and set it up for its container runtime; see whether nvidia-smi works there.",
        sign("could not select device driver", r"(?P<reason>could not select device driver.*)"),
        sign("nvidia-container-cli", r"nvidia-container-cli: (?P<reason>.+)"),
    ),
    entry(
        "gpu-container-lost",
        "The container had its GPUs and lost them: systemd took the devices away when it was reloaded.",
        "Start the container anew; on the host let the runtime manage cgroups by cgroupfs, or use CDI.",
        sign("Failed to initialize NVML: Unknown Error"),
    ),
)
