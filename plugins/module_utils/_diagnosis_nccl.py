# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Causes: NCCL, its transports, and nccl-tests."""

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis_entry import CAUSE, ECHO, EFFECT, entry, sign

_PEER = r"(?P<address>[^\s<]+)<(?P<port>\d+)>"
_CONNECT = rf"[Cc]onnect to {_PEER} (?:failed ?: ?|returned (?:\d+\()?)"
_COMPLETION = r"Got completion from peer (?P<address>[^\s<]+)(?:<\d+>)? with (?:status=|error )(?:\w+\()?"
_SLOW = (
    "Run the hosts in pairs and compare, to find the one, or the link, that is slow; look at NCCL_* of the environment."
)
_PARSER = "the parser of nccl-tests' output"

ENTRIES = (
    entry(
        "nccl-interface-missing",
        "NCCL finds no network interface that it may use.",
        "Correct NCCL_SOCKET_IFNAME (gpufabric_data_interface), or unset it; a container needs an interface with an address.",
        sign("no socket interface found"),
        sign("No usable listening interface found"),
        sign("No interface found in the same subnet as remote address"),
        sign("Socket creation failed", r"Socket creation failed ?: ?Address family not supported"),
    ),
    entry(
        "nccl-no-route",
        "NCCL has no way to [{address}|another rank], or a firewall says so.",
        "Let the nodes reach each other on all ports of gpufabric_data_interface; look at routes, and at NCCL_SOCKET_IFNAME.",
        sign("No route to host", _CONNECT + r"No route to host"),
        sign("Network is unreachable", _CONNECT + r"Network is unreachable"),
    ),
    entry(
        "nccl-connect-timeout",
        "NCCL's connection to [{address}|another rank] is not answered: packets are dropped on the data network.",
        "Let the nodes reach each other on all ports of gpufabric_data_interface; mpi_preflight with level full shows which do not.",
        sign("Connection timed out", _CONNECT + r"Connection timed out"),
        sign("timed out", rf"[Cc]onnect to {_PEER} timed out"),
    ),
    entry(
        "nccl-refused",
        "NCCL's connection to [{address}|another rank] is refused: the rank there has ended, or never listened there.",
        "Look at what that rank printed before.",
        sign("Connection refused", _CONNECT + r"Connection refused"),
        primacy=ECHO,
    ),
    entry(
        "nccl-version-differs",
        "The ranks run different versions of NCCL.",
        'Install the same on all; look at "NCCL version" of each rank, and at LD_LIBRARY_PATH.',
        sign("Message truncated", r"Message truncated ?: received [\d,]+ bytes instead of"),
    ),
    entry(
        "nccl-ranks-differ",
        "The ranks do not agree on how many they are.",
        "End what is left of earlier runs (the playbook teardown), and see that all ranks are started by one mpirun.",
        sign("Bootstrap Root", r"Bootstrap Root ?: mismatch in"),
        sign("has already checked in"),
    ),
    entry(
        "nccl-comm-id",
        "NCCL cannot read NCCL_COMM_ID.",
        "Unset it: nccl-tests does not need it.",
        sign("Invalid NCCL_COMM_ID"),
    ),
    entry(
        "nccl-net-missing",
        "NCCL cannot use the network that it was told to use.",
        "Correct or unset NCCL_NET and NCCL_NET_PLUGIN; see that the plugin's library can be loaded and fits this NCCL.",
        sign("Failed to initialize any NET plugin"),
        sign("Error: network", r"Error: network (?P<name>\S+) not found"),
    ),
    entry(
        "ofi-no-provider",
        "The plugin aws-ofi-nccl finds no network that it can use.",
        "See that the container has the EFA devices (vpc.amazonaws.com/efa) and that fi_info -p efa lists them.",
        sign("No eligible providers were found"),
        sign("Only EFA provider is supported"),
        sign("Failed to initialize sendrecv protocol"),
    ),
    entry(
        "duplicate-gpu",
        "[Ranks {rank} and {other}|Ranks of one host] use the same GPU.",
        "Start one rank for each GPU: slots in the hostfile, nccl-tests' -g and -t, and CUDA_VISIBLE_DEVICES must fit.",
        sign(
            "Duplicate GPU detected",
            r"Duplicate GPU detected ?: rank (?P<rank>\d+) and rank (?P<other>\d+) both on",
        ),
    ),
    entry(
        "ib-retry-exceeded",
        "[{address}|The peer] does not answer over RDMA (status 12), although sockets reach it.",
        "Try ib_write_bw between the two. On RoCE compare NCCL_IB_GID_INDEX with show_gids on both, and look at VLAN, MTU and PFC;"
        " on InfiniBand at the link and the subnet manager. NCCL_IB_TIMEOUT gives a busy fabric more time.",
        sign("Got completion from peer", _COMPLETION + r"12\b"),
        sign("Got completion from peer", _COMPLETION + r"13\b"),
    ),
    entry(
        "ib-access-error",
        "An RDMA transfer[ with {address}] was refused[ (status {status})].",
        "Try NCCL_NET_GDR_LEVEL=LOC: if that works, GPUDirect RDMA is at fault (nvidia_peermem, ACS, IOMMU); see that all have the"
        " same NCCL, and that NCCL_IB_HCA takes no device that leads elsewhere.",
        sign("Got completion from peer", _COMPLETION + r"(?P<status>1|2|4|6|7|8|9|10|11)\b"),
    ),
    entry(
        "ib-flushed",
        "RDMA transfers were thrown away, since their connection had failed before (status 5).",
        "Look at what was printed before, on this host and its peers.",
        sign("Got completion from peer", _COMPLETION + r"5\b"),
        primacy=ECHO,
    ),
    entry(
        "ib-device-error",
        "The RDMA device[ {device}] reports an error.",
        "Look at the kernel's log (dmesg) and at the device's firmware; take it out by NCCL_IB_HCA=^DEVICE until it is mended.",
        sign("async fatal event", r"NET/IB ?: (?P<device>[^\s:]+):\d+ async fatal event"),
    ),
    entry(
        "rdma-port-down",
        "The RDMA port[ {port}] is [{state}|down].",
        "Look at its cable, transceiver and switch port; take it out by NCCL_IB_HCA=^DEVICE until it is mended.",
        sign("port error", r"NET/IB ?: (?P<port>[^\s:]+:\d+) Got (?:non-fatal )?async event ?: port error"),
        primacy=CAUSE + 20,
        found_by="mpi_preflight",
    ),
    entry(
        "ib-gid-unreachable",
        "The RDMA connection cannot be set up[: {reason}], because the GIDs of the two ends do not reach each other.",
        "On RoCE compare NCCL_IB_GID_INDEX with show_gids on both hosts, and let them reach each other's addresses; name the devices"
        " that belong together in NCCL_IB_HCA.",
        sign(
            "Call to ibv_modify_qp failed",
            r"Call to ibv_modify_qp failed with (?:error )?(?:\d+ )?(?P<reason>Connection timed out|Invalid argument|No data available"
            r"|Network is unreachable|No route to host)",
        ),
    ),
    entry(
        "ib-device-refused",
        "The RDMA device cannot be opened.",
        "Give the container /dev/infiniband, or the resource of its device plugin (worker_pods_resources).",
        sign("Call to ibv_open_device failed"),
        sign("Unable to open device", r"NET/IB ?: Unable to open device"),
    ),
    entry(
        "rdma-device-missing",
        "[{devices}|A device] of NCCL_IB_HCA is not on the host.",
        "Correct NCCL_IB_HCA, or see why the device is missing: ibv_devinfo, the driver, the device plugin.",
        found_by="mpi_preflight",
    ),
    entry(
        "rdma-gid-missing",
        "The GID index[ {index}] (NCCL_IB_GID_INDEX) is empty[ on {port}].",
        "Choose another from show_gids, or unset it: NCCL 2.21 and later choose by themselves.",
        found_by="mpi_preflight",
    ),
    entry(
        "gdr-unavailable",
        "The memory of the GPU cannot be registered with the RDMA device.",
        "Load nvidia_peermem on the host, or use a driver with DMA-BUF; NCCL_NET_GDR_LEVEL=LOC goes without, and is slower.",
        sign(
            "Call to ibv_reg",
            r"Call to ibv_reg_\w+ failed with error (?:Bad address|Operation not supported|Invalid argument)",
        ),
    ),
    entry(
        "nvls-failed",
        "NVLink SHARP cannot be set up.",
        "See that the fabric manager runs and the partition is whole; NCCL_NVLS_ENABLE=0 goes without.",
        sign("NVLink SHARP", r"Failed to bind NVLink SHARP"),
        sign("Cuda failure", r"transport/nvls\S+ NCCL WARN Cuda failure"),
    ),
    entry(
        "nccl-remote-error",
        "A rank there went away while others were talking to it.",
        "Look at what that rank, or its host, printed before.",
        sign("Connection closed by remote peer", r"Connection closed by remote peer (?P<host>[^\s<]+)<"),
        sign("Call to recv from", r"Call to recv from (?P<host>[^\s<]+)<\d+> failed ?:"),
        sign("Call to send to", r"Call to send to (?P<host>[^\s<]+)<\d+> failed ?:"),
        sign("remote process exited or there was a network error"),
        sign("ncclRemoteError"),
        primacy=ECHO + 10,
        statuses=(3,),
    ),
    entry(
        "nccl-system-error",
        "A call to the system failed in NCCL, and nothing says which.",
        "Run it again with NCCL_DEBUG=WARN, which says more.",
        sign("unhandled system error"),
        sign("ncclSystemError"),
        primacy=ECHO + 20,
        statuses=(3,),
    ),
    entry(
        "nccl-cuda-error",
        "A call to CUDA failed in NCCL, and nothing says which: often another program has the GPU's memory.",
        "Look at nvidia-smi of the host for other programs, and run it again with NCCL_DEBUG=WARN, which says more. NCCL must fit the"
        " driver and the GPU.",
        sign("unhandled cuda error"),
        sign("ncclUnhandledCudaError"),
        primacy=ECHO + 20,
        statuses=(3,),
    ),
    entry(
        "nccl-invalid-usage",
        "NCCL was called, or set, in a way that it does not allow.",
        "Run it again with NCCL_DEBUG=WARN, which says more; look at NCCL_* of the environment.",
        sign("failure", r"NCCL failure .*'invalid (?:usage|argument)"),
        sign("ncclInvalidUsage"),
        sign("ncclInvalidArgument"),
        primacy=ECHO + 20,
        statuses=(3,),
    ),
    entry(
        "nccl-internal-error",
        "NCCL failed inside, and nothing says why; often a rank on another host ended.",
        "Run it again with NCCL_DEBUG=INFO; compare NCCL's version and NCCL_SOCKET_IFNAME of all hosts.",
        sign("internal error - please report this issue to the NCCL developers"),
        sign("failure", r"NCCL failure .*'internal error"),
        sign("ncclInternalError"),
        primacy=ECHO + 30,
        statuses=(3,),
    ),
    entry(
        "test-timeout",
        "nccl-tests waited [{seconds} s|too long] for a collective (-T).",
        "Find the rank that does not take part: run the hosts in pairs, with NCCL_DEBUG=INFO.",
        sign("Test timeout", r"(?P<host>[\w.-]+): Test timeout \((?P<seconds>\d+)s\)"),
        primacy=ECHO + 50,
        statuses=(4,),
    ),
    entry(
        "test-argument",
        "The program does not take [{option}|one of its arguments].",
        "Correct nccl_benchmark_extra_args and the sizes (K, M and G are known); --help shows what this version takes.",
        sign("invalid size specified for", r"invalid size specified for '(?P<option>\w+)'"),
        sign("invalid step size specified", r"(?P<option>invalid step size) specified"),
        sign("unrecognized option", r"(?:_perf|_perf_mpi)\S*: unrecognized option '?(?P<option>[^\s']+)"),
        sign("invalid option", r"_perf\S*: invalid option -- '?(?P<option>\w)"),
        sign("requires an argument", r"_perf\S*: option '?(?P<option>\S+?)'? requires an argument"),
        sign("invalid option '?'", r"^invalid option '\?'"),
        sign("error: ", r"_perf\S*: error: (?:argument )?(?P<option>[^:]+)"),
        primacy=CAUSE - 10,
        statuses=(255, 6, 2),
    ),
    entry(
        "gpus-missing",
        "There are fewer GPUs[ ({count})] on the host than [{expected}|are asked for].",
        "Correct slots, -g and -t; in a container look at worker_pods_gpus and NVIDIA_VISIBLE_DEVICES; nvidia-smi -L lists what there is.",
        sign(
            "Invalid number of GPUs",
            r"Invalid number of GPUs: (?P<expected>\d+) requested but only (?P<count>\d+) were found",
        ),
        sign("invalid device ordinal"),
        statuses=(2, 5),
        found_by="mpi_preflight",
    ),
    entry(
        "wrong-values",
        "The collective delivered wrong values.",
        "Run the test on each host alone, then on pairs, to find the machine or link that corrupts data; look for ECC and Xid errors"
        " of its GPUs.",
        sign("Out of bounds values", r"Out of bounds values : [1-9]\d* FAILED"),
        statuses=(1, 7),
    ),
    entry(
        "average-below-minimum",
        "The average bus bandwidth is below 0.9 times NCCL_TESTS_MIN_BW.",
        "Compare the rows with those of an earlier run to see which sizes are slow.",
        sign("Avg bus bandwidth", r"Avg bus bandwidth\s+: \S+ FAILED"),
        primacy=EFFECT,
        statuses=(1, 7),
    ),
    *(
        entry(identity, cause, cure, primacy=EFFECT, found_by="nccl_result, by its thresholds and assertions")
        for identity, cause, cure in (
            ("limit-missed", "A value is beyond its limit.", _SLOW),
            ("bandwidth-dip", "The bandwidth falls at a size, and is better at smaller and larger ones.", _SLOW),
            ("latency-cliff", "The time jumps from one size to the next.", _SLOW),
            ("assertion-failed", "An assertion does not hold.", "Look at the value that it is about."),
        )
    ),
    entry(
        "bitwise-mismatch",
        "The collective did not deliver the same bits each time.",
        "Floating point sums may depend on the algorithm that NCCL chose: set NCCL_ALGO and NCCL_PROTO. Otherwise look for the machine"
        " or link that corrupts data.",
        found_by=_PARSER,
    ),
    entry(
        "mpi-missing",
        "[The program was started {count} times on its own, not as {ranks} ranks of one run|The program was built without MPI, or with"
        " another MPI than mpirun's].",
        "Build nccl-tests with MPI=1 and MPI_HOME set to the Open MPI that mpirun is of; use the mpirun that belongs to it (gpufabric_mpi_prefix).",
        found_by=_PARSER,
    ),
    entry(
        "separate-runs",
        "Tests with the same settings ran alone, each on one host.",
        "If mpirun started them as one test, the program was built without MPI: build nccl-tests with MPI=1.",
        severity="warning",
        found_by=_PARSER,
    ),
    entry(
        "hosts-differ",
        "[{what}|Other hosts took part than were meant to].",
        "See that mpirun was given the hostfile, that each host is in it with its slots, and that no two have the same host name. The"
        " numbers are not those of the hosts that were meant.",
        found_by=_PARSER,
    ),
    entry(
        "ranks-differ",
        "[{count} ranks took part, {ranks} were expected|Another number of ranks took part than was expected].",
        "Compare the slots of the hostfile and the number of processes with the program's options -t and -g.",
        found_by=_PARSER,
    ),
    entry(
        "ranks-unknown",
        "[None of the {ranks} ranks was seen to start|The output lists no rank].",
        "Read the output and the error output of the run: it ended before the program listed its devices.",
        primacy=ECHO,
        found_by=_PARSER,
    ),
    entry(
        "ranks-lost",
        "The list of ranks has gaps.",
        "The counts of hosts and ranks are too low. Read the program's own output, not an excerpt.",
        severity="warning",
        found_by=_PARSER,
    ),
    entry(
        "errors-reported",
        "The program's summary reports an error of NCCL.",
        "Run it again with NCCL_DEBUG=WARN, which says more.",
        severity="warning",
        found_by=_PARSER,
    ),
    entry(
        "rows-lost",
        "Rows of the table are torn and were left out.",
        "Keep NCCL's log out of the program's output: set NCCL_DEBUG_FILE, or NCCL_DEBUG to VERSION or WARN. Where the output ends"
        " early, its last row is torn too.",
        severity="warning",
        found_by=_PARSER,
    ),
    entry(
        "rows-elided",
        "Somebody left rows out of the table and put dots in their place.",
        "Read the program's own output, not an excerpt of it.",
        severity="warning",
        found_by=_PARSER,
    ),
    entry(
        "output-cut",
        "The output ends before the program's summary.",
        "Read the end of the output and the error output: the program was ended, or failed, before it was done.",
        severity="warning",
        found_by=_PARSER,
    ),
    entry(
        "average-differs",
        "The printed average is not the mean of the rows, so rows are missing or altered.",
        "Read the program's own output, not an excerpt of it.",
        severity="warning",
        found_by=_PARSER,
    ),
    entry(
        "output-unread",
        "The program ended well, but no result can be read from what it printed.",
        "Read it[, in {path}]; see whether it is an nccl-tests program.",
        found_by=_PARSER,
    ),
)
