# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Causes: memory, limits, file systems, networks and Python libraries of a host."""

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.entry import CAUSE, EFFECT, entry, signature

_AGAIN = r"Resource temporarily unavailable"
_UNWRITABLE = r"(?:Permission denied|Operation not permitted|Read-only file system)"
#: Open MPI 4 says so of an RDMA device that it does not know, with any error, and goes on without the device.
_SKIPPED = "error obtaining device attributes"
_NETWORK = "Check the switch port, VLAN, address and firewall; the playbook diagnose, or mpi_preflight with level full, shows which hosts reach each other."
_OPEN = (
    "Let the workers reach each other on all TCP ports above 1023, in the firewall of the host and in security groups or"
    " network policies; the playbook diagnose, or mpi_preflight with level full, shows which hosts reach each other."
)
# A test of much data fails by both.
_MTU = (
    "Set the same MTU on the interfaces of all hosts, and at least that MTU on all switches between them. If it is the same, the"
    " network loses packets: look at ip -s link on both hosts, and at their cables and switch ports."
)

ENTRIES = (
    entry(
        "oom-killed",
        "The kernel killed [{program}|a program] because memory ran out, or a memory limit was reached.",
        "Raise the memory limit (worker_pods_resources, mpijob_resources, --mem), or set smaller sizes"
        " (nccl_benchmark_max_bytes).",
        signature("ut of memory: Kill", r"[Oo]ut of memory: Kill(?:ed)? process \d+ \((?P<program>[^)]+)\)"),
        signature("OOMKilled"),
        signature("kill event", r"Detected \d+ oom[_-]kill event"),
        signature("Out Of Memory", r"srun: error: (?P<host>\S+): tasks? (?P<rank>\d+)\S*: Out Of Memory"),
        precedence=CAUSE - 20,
        statuses=(137,),
    ),
    entry(
        "host-memory",
        "The host or the container has run out of memory.",
        "Raise the memory limit, or end other programs, or set smaller sizes (nccl_benchmark_max_bytes).",
        signature("std::bad_alloc"),
        signature("Cannot allocate memory", rf"^(?!.*{_SKIPPED}).*Cannot allocate memory"),
        signature("Failed to malloc", r"NCCL WARN Failed to malloc \d+ bytes"),
        signature("returned null", r"[cm]alloc\([^)]*\) returned null"),
        signature("MemoryError", r"^(?:[\w.]+\.\w*)?MemoryError\b"),
        signature("MemoryError", r"gpufabric-cpu: (?P<host>\S+?)(?: rank (?P<rank>\d+))?: MemoryError\b"),
        signature(
            "bytes of memory, ", r"gpufabric-cpu: the buffers of \d+ ranks on (?P<host>\S+) need \d+ bytes of memory, "
        ),
        precedence=EFFECT,
        # Of memory that cannot be locked, programs say the same.
        follows=("memlock-low",),
    ),
    entry(
        "shm-full",
        "/dev/shm is full[: {free} are free].",
        "Make it larger (worker_pods_shm_size, mpijob_shm_size, --shm-size, --ipc=host; on a machine mount -o remount,size=16G /dev/shm),"
        " and remove what earlier runs left in it.",
        signature("failed to extend", r"failed to extend /dev/shm/(?!.*(?:Permission denied))"),
        signature(
            "Error while creating shared memory segment", rf"creating shared memory segment(?!.*error: {_UNWRITABLE})"
        ),
        signature("failed to open shared memory segment"),
        signature(
            "there is not enough space for", r"not enough space for /dev/shm/.*?Local host: +(?P<host>\S+)", lines=8
        ),
        signature("No space left on device", r"/dev/shm\b.*No space left on device"),
        signature("Call to posix_fallocate failed", r"posix_fallocate failed ?: No space left"),
        precedence=CAUSE - 5,
    ),
    entry(
        "shm-removed",
        "Somebody removed NCCL's files in /dev/shm while the program ran. Often it is systemd, when the user logs out (RemoveIPC).",
        "Set RemoveIPC=no in /etc/systemd/logind.conf and restart systemd-logind; keep other cleaners away from /dev/shm.",
        signature("unlink shared memory", r"unlink shared memory /dev/shm/\S+ failed, error: No such file"),
        source="NCCL, src/misc/shmutils.cc, and its documentation, troubleshooting",
        precedence=EFFECT,
    ),
    entry(
        "shm-small",
        "/dev/shm has [only {size}|little room][, and the GPUs of the host need {wanted}].",
        "Make it larger: worker_pods_shm_size, mpijob_shm_size, --shm-size; on a machine mount -o remount,size=16G /dev/shm.",
        severity="warning",
        found_by="mpi_preflight",
    ),
    entry(
        "shm-read-only",
        "/dev/shm is mounted read-only; NCCL and Open MPI keep memory there that processes share.",
        "Mount it so that it can be written: mount -o remount,rw /dev/shm.",
        found_by="mpi_preflight",
    ),
    entry(
        "disk-full",
        "The file system of [{path}|the run directory, or /tmp,] is full[: {free} are free][, {wanted} are needed].",
        "Make room in it, or set another directory: run_dir (in playbooks gpufabric_run_dir), TMPDIR.",
        signature(
            "there is not enough space for",
            r"not enough space for (?P<path>(?!/dev/shm)\S+) .*?Local host: +(?P<host>\S+)",
            lines=8,
        ),
        signature(
            "mkdir was unable to create the desired directory",
            r"Directory: +(?P<path>\S+) +Error: +No space left",
            lines=5,
        ),
        signature("No space left on device", rf"^(?!.*(?:/dev/shm|fallocate|{_SKIPPED})).*No space left on device"),
        signature("Disk quota exceeded"),
        precedence=CAUSE + 5,
    ),
    entry(
        "temporary-directory-missing",
        "The user can write to no directory for temporary files, such as /tmp.",
        "In a pod whose root file system is read-only, mount an emptyDir at /tmp (worker_pods_pod_spec, mpijob_pod_spec)."
        " Elsewhere correct the mode of /tmp, or set TMPDIR (gpufabric_environment).",
        signature("No usable temporary directory found"),
        source="Python, Lib/tempfile.py",
    ),
    entry(
        "disk-unwritable",
        "The user cannot write to [{path}|the run directory, or to /tmp].",
        "Set the owner and mode of the directory, or set another one: run_dir (in playbooks gpufabric_run_dir), TMPDIR.",
        signature(
            "mkdir was unable to create the desired directory",
            r"Directory: +(?P<path>\S+) +Error: +(?!No space)\w",
            lines=5,
        ),
        signature("shared memory", rf"shared memory (?:segment|file) (?P<path>/dev/shm)\b.*\berror:? {_UNWRITABLE}"),
        signature("Read-only file system"),
        signature("cannot be made, because", r"^run_dir: (?P<path>\S+) cannot be made, because"),
        found_by="mpi_preflight",
    ),
    entry(
        "tmpdir-long",
        "The path of the directory for temporary files[, {path},] is too long for a socket.",
        "Set TMPDIR to a short path, such as /tmp.",
        signature("The call to pmix_init_server", r"session_dir: +(?P<path>\S+)", lines=5),
        source="Open MPI 4.1, help-orterun.txt",
    ),
    entry(
        "memlock-low",
        "Programs may lock too little memory for RDMA[: the limit is {limit}][, {wanted} are needed].",
        "Set the limit to unlimited: ulimit -l, /etc/security/limits.conf, LimitMEMLOCK of sshd and of the container"
        " runtime, --ulimit memlock=-1.",
        signature(
            "Call to ibv",
            r"Call to ibv_(?:create_qp|create_cq|reg_mr|reg_mr_iova2|reg_dmabuf_mr|create_ah|alloc_pd) failed"
            r"(?: with error (?:Cannot allocate memory|Unknown error -12)|\s*$)",
        ),
        signature(
            "allocate some locked memory", r"Local host: +(?P<host>\S+) .*Memlock limit: +(?P<limit>\S+)", lines=12
        ),
        # As UCX writes it.
        signature("set max locked memory", r"set max locked memory .*\(current: (?P<limit>\d+ kbytes)\)"),
    ),
    entry(
        "pids-low",
        "A limit on processes and threads is reached[: {left} more may start, {wanted} are needed].",
        "Raise the limit: podman's --pids-limit, the kubelet's podPidsLimit, ulimit -u, TasksMax of the service.",
        signature("Resource temporarily unavailable", rf"fork: (?:retry: )?{_AGAIN}"),
        signature("Resource temporarily unavailable", rf"(?i:fork|clone|pthread_create|thread creation)\b.*{_AGAIN}"),
        signature("Cannot fork"),
        signature("start new thread", r"can't start new thread"),
        signature("exceeded on number of processes", r"can be started Node: (?P<host>\S+)", lines=3),
        signature("system limit on number of children a process can have"),
        # What PRRTE 3 says of a fork that fails, and of a pipe, for which it has other words before.
        signature("odls_default_module.c", r"PRTE ERROR: Unknown error in file \S*odls_default_module\.c"),
        found_by="mpi_preflight",
        follows=("files-low",),
    ),
    entry(
        "files-low",
        "A limit on open files is too low[: {limit}, {wanted} are needed].",
        "Raise the limit: ulimit -n, /etc/security/limits.conf, LimitNOFILE of the container runtime, --ulimit nofile.",
        signature("Too many open files"),
        signature("system limit exceeded on number of pipes", r"can be open Node: (?P<host>\S+)", lines=2),
        signature("system limit exceeded on number of network connections"),
        signature("SYS_LIMITS_PIPES"),
        found_by="mpi_preflight",
    ),
    entry(
        "address-space-low",
        "Each program may have too little address space[: {limit}].",
        "Set the limit to unlimited: take ulimit -v out of ~/.bashrc and of the files that it reads, and as out of"
        " /etc/security/limits.conf; LimitAS of the service.",
        found_by="mpi_preflight",
    ),
    entry(
        "clock-off",
        "The clock of the host is [{seconds} s|far] off the launcher's.",
        "Let chrony or another NTP client set the clock: certificates, tokens and the order of logs depend on it.",
        severity="warning",
        found_by="mpi_preflight",
    ),
    entry(
        "data-interface-missing",
        "The host has no data interface[ {interface}][; it has {others}].",
        "Correct gpufabric_data_interface, or give the host, or the pod (worker_pods_networks), that interface.",
        found_by="mpi_preflight",
    ),
    entry(
        "data-interface-address",
        "[{interface}|The data interface] has no IPv4 address.",
        "Give the interface an IPv4 address. NCCL over RoCE and sockets needs one; InfiniBand alone does not.",
        severity="warning",
        found_by="mpi_preflight",
    ),
    entry(
        "control-unreachable",
        "No other worker reaches this one over [{interface}|the control network][ (tried: {peers})], where MPI sends its"
        " messages. ssh does reach it.",
        _OPEN,
        found_by="mpi_preflight",
    ),
    entry(
        "control-link",
        "This host and [{peer}|another one] do not reach each other over [{interface}|the control network], where MPI"
        " sends its messages, but other hosts reach both.",
        _OPEN,
        found_by="mpi_preflight",
    ),
    entry(
        "control-mtu",
        "Small packets pass over [{interface}|the control network], but large ones, or many of them, do not[ (MTU {mtu})].",
        _MTU,
        found_by="mpi_preflight",
    ),
    entry(
        "data-unreachable",
        "No other host reaches this one over [{interface}|the data interface][ (tried: {peers})].",
        _NETWORK,
        found_by="mpi_preflight",
    ),
    entry(
        "data-link",
        "This host and [{peer}|another one] do not reach each other over [{interface}|the data interface], but other"
        " hosts reach both.",
        _NETWORK,
        found_by="mpi_preflight",
    ),
    entry(
        "data-mtu",
        "Small packets pass over [{interface}|the data interface], but large ones, or many of them, do not[ (MTU {mtu})].",
        _MTU,
        found_by="mpi_preflight",
    ),
    entry(
        "library-missing",
        "[{python}|Python][ on {machine}] lacks the library [{library}|that a module needs][; without it, {without}].",
        "Install it: [{python} -m pip install --upgrade {library}|pip install, for the interpreter that runs the module].",
        signature(
            "Failed to import the required Python library",
            r"Failed to import the required Python library \((?P<library>[\w.-]+)\) on (?P<machine>\S+)'s Python (?P<python>\S+?)\.(?: |$)",
        ),
        found_by="ssh_probe",
    ),
)
