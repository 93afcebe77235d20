# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Causes: memory, limits, file systems and networks of a host."""

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis_entry import CAUSE, EFFECT, entry, sign

_AGAIN = r"Resource temporarily unavailable"
_NETWORK = "Look at its switch port, VLAN, address and firewall; mpi_preflight with level full shows who reaches whom."

ENTRIES = (
    entry(
        "oom-killed",
        "The kernel killed [{program}|a program] because memory, or its limit, was used up.",
        "Raise the memory limit (worker_pods_resources, mpijob_resources, --mem), or take smaller sizes (nccl_benchmark_max_bytes).",
        sign("ut of memory: Kill", r"[Oo]ut of memory: Kill(?:ed)? process \d+ \((?P<program>[^)]+)\)"),
        sign("OOMKilled"),
        sign("kill event", r"Detected \d+ oom[_-]kill event"),
        sign("Out Of Memory", r"srun: error: (?P<host>\S+): tasks? (?P<rank>\d+)\S*: Out Of Memory"),
        primacy=CAUSE - 20,
        statuses=(137,),
    ),
    entry(
        "host-memory",
        "Memory of the host, or of the container, is used up.",
        "Raise the memory limit, or end other programs; take smaller sizes (nccl_benchmark_max_bytes).",
        sign("std::bad_alloc"),
        sign("Cannot allocate memory"),
        sign("MemoryError", r"^(?:[\w.]+\.\w*)?MemoryError\b"),
        primacy=EFFECT,
    ),
    entry(
        "shm-full",
        "/dev/shm is full[: {free} bytes are free].",
        "Give it more room (worker_pods_shm_size, mpijob_shm_size, --shm-size, --ipc=host), and remove what earlier runs left there.",
        sign("failed to extend", r"failed to extend /dev/shm/(?!.*(?:Permission denied))"),
        sign("Error while creating shared memory segment"),
        sign("failed to open shared memory segment"),
        sign("there is not enough space for", r"not enough space for /dev/shm/.*?Local host: +(?P<host>\S+)", lines=8),
        sign("No space left on device", r"/dev/shm\b.*No space left on device"),
        sign("Call to posix_fallocate failed", r"posix_fallocate failed ?: No space left"),
        primacy=CAUSE - 5,
    ),
    entry(
        "shm-small",
        "/dev/shm has [{size}|few] bytes, which is little for its GPUs[: {wanted} are wanted].",
        "Give it more room: worker_pods_shm_size, mpijob_shm_size, --shm-size.",
        severity="warning",
        found_by="mpi_preflight",
    ),
    entry(
        "disk-full",
        "The file system of [{path}|the run directory, or /tmp,] is full[: {free} bytes are free].",
        "Make room there, or take another directory: run_dir, TMPDIR.",
        sign(
            "there is not enough space for",
            r"not enough space for (?P<path>(?!/dev/shm)\S+) .*?Local host: +(?P<host>\S+)",
            lines=8,
        ),
        sign(
            "mkdir was unable to create the desired directory",
            r"Directory: +(?P<path>\S+) +Error: +No space left",
            lines=5,
        ),
        sign("No space left on device", r"^(?!.*(?:/dev/shm|fallocate)).*No space left on device"),
        sign("Disk quota exceeded"),
        primacy=CAUSE + 5,
    ),
    entry(
        "disk-unwritable",
        "[{path}|The run directory, or /tmp,] cannot be written.",
        "Set its owner and mode, or take another directory: run_dir, TMPDIR.",
        sign(
            "mkdir was unable to create the desired directory",
            r"Directory: +(?P<path>\S+) +Error: +(?!No space)\w",
            lines=5,
        ),
        sign("Read-only file system"),
        sign("cannot be made, because", r"^run_dir: (?P<path>\S+) cannot be made, because"),
        found_by="mpi_preflight",
    ),
    entry(
        "tmpdir-long",
        "The path of the directory for temporary files[, {path},] is too long for a socket.",
        "Set TMPDIR to a short one, such as /tmp.",
        sign("The call to pmix_init_server", r"session_dir: +(?P<path>\S+)", lines=5),
    ),
    entry(
        "memlock-low",
        "Too little memory may be locked[: {limit}], and RDMA needs it.",
        "Set it to unlimited: ulimit -l, /etc/security/limits.conf, LimitMEMLOCK of sshd and of the container runtime,"
        " --ulimit memlock=-1.",
        sign(
            "Call to ibv",
            r"Call to ibv_(?:create_qp|create_cq|reg_mr|reg_mr_iova2|reg_dmabuf_mr|create_ah|alloc_pd) failed"
            r"(?: with error (?:Cannot allocate memory|Unknown error -12)|\s*$)",
        ),
        sign("allocate some locked memory", r"Local host: +(?P<host>\S+) .*Memlock limit: +(?P<limit>\S+)", lines=12),
    ),
    entry(
        "pids-low",
        "No more processes or threads may be started[: {left} are left, {wanted} are wanted].",
        "Raise the limit: podman's --pids-limit, the kubelet's podPidsLimit, ulimit -u, TasksMax of the service.",
        sign("Resource temporarily unavailable", rf"fork: (?:retry: )?{_AGAIN}"),
        sign("Resource temporarily unavailable", rf"(?i:fork|clone|pthread_create|thread creation)\b.*{_AGAIN}"),
        sign("Cannot fork"),
        sign("start new thread", r"can't start new thread"),
        sign("on number of processes that can be started", r"can be started Node: (?P<host>\S+)", lines=2),
        found_by="mpi_preflight",
    ),
    entry(
        "files-low",
        "Too few files may be open at once[: {limit}, {wanted} are wanted].",
        "Raise the limit: ulimit -n, /etc/security/limits.conf, LimitNOFILE of the container runtime, --ulimit nofile.",
        sign("Too many open files"),
        sign("system limit exceeded on number of pipes", r"can be open Node: (?P<host>\S+)", lines=2),
        sign("system limit exceeded on number of network connections"),
        found_by="mpi_preflight",
    ),
    entry(
        "clock-off",
        "Its clock is [{seconds} s|far] off the launcher's.",
        "Let chrony or another NTP client set it: certificates, tokens and the order of logs depend on it.",
        severity="warning",
        found_by="mpi_preflight",
    ),
    entry(
        "data-interface-missing",
        "[{interface}|The data interface] is not there[; there are {others}].",
        "Correct gpufabric_data_interface, or give the host, or pod (worker_pods_networks), that interface.",
        found_by="mpi_preflight",
    ),
    entry(
        "data-interface-address",
        "[{interface}|The data interface] has no IPv4 address.",
        "Give it one; NCCL over RoCE and sockets needs it, InfiniBand alone does not.",
        severity="warning",
        found_by="mpi_preflight",
    ),
    entry(
        "data-unreachable",
        "Nobody reaches it over [{interface}|the data interface][ (tried: {peers})].",
        _NETWORK,
        found_by="mpi_preflight",
    ),
    entry(
        "data-link",
        "It and [{peer}|another host] do not reach each other over [{interface}|the data interface], and others do.",
        _NETWORK,
        found_by="mpi_preflight",
    ),
    entry(
        "data-mtu",
        "Small packets pass over [{interface}|the data interface] and large ones do not[ (MTU {mtu})].",
        "Set the same MTU on the interfaces of all hosts, and at least that on all switches between.",
        found_by="mpi_preflight",
    ),
)
