# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Causes: NCCL, its transports, and nccl-tests."""

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.entry import (
    CAUSE,
    ECHO,
    EFFECT,
    entry,
    signature,
)

_PEER = r"(?P<address>[^\s<]+)<(?P<port>\d+)>"
#: NCCL 2.24 to 2.26 do not say to whom.
_CONNECT = (
    rf"[Cc]onnect (?:to {_PEER} (?:failed ?: ?|failed with error |returned (?:\d+\()?)"
    r"|returned (?=[\w ]+, exceeded error retry count))"
)
#: What the driver reports at any time. NCCL before 2.20 does not say of which port.
_EVENT = r"NET/IB ?: (?:(?P<port>[^\s:]+:\d+) )?Got (?:non-fatal )?async (?:error )?event ?: "
_COMPLETION = r"Got completion from peer (?P<address>[^\s<]+)(?:<\d+>)? with (?:status=|error )(?:\w+\()?"
#: The collection refuses -g and -t among further arguments, for these variables.
_DEVICES = "nccl_benchmark_gpus_per_rank and nccl_benchmark_threads_per_rank (nccl-tests' -g and -t)"
_RANKS = "nccl_benchmark_ranks_per_node (slots in a hostfile)"
_ONE_GPU = f"Start one rank for each GPU: {_RANKS}, {_DEVICES}, and CUDA_VISIBLE_DEVICES must fit together."
_SLOW = "Run the hosts in pairs and compare them, to find the slow host or link; check the NCCL_* variables."
_PARSER = "the parser of nccl-tests' output"
_LOG = "NCCL's own log (NCCL_DEBUG=INFO)"

ENTRIES = (
    entry(
        "nccl-interface-missing",
        "NCCL finds no network interface that it may use.",
        "Correct NCCL_SOCKET_IFNAME (gpufabric_data_interface) and NCCL_OOB_NET_IFNAME, or unset them. A container needs an"
        " interface with an address.",
        signature("no socket interface found"),
        signature("no interface found", r"NET/Socket ?: no interface found"),
        signature("No IP interface found", r"NET/IB ?: No IP interface found"),
        signature("verify NCCL_OOB_NET_IFNAME"),
        signature("No usable listening interface found"),
        signature("No interface found in the same subnet as remote address"),
        signature("Socket creation failed", r"Socket creation failed ?: ?Address family not supported"),
    ),
    entry(
        "nccl-no-route",
        "NCCL has no route to [{address}|another rank], or a firewall rejects the connection.",
        "Let the nodes reach each other on all ports of gpufabric_data_interface; check routes and NCCL_SOCKET_IFNAME.",
        signature("No route to host", _CONNECT + r"No route to host"),
        signature("Network is unreachable", _CONNECT + r"Network is unreachable"),
    ),
    entry(
        "nccl-connect-timeout",
        "NCCL gets no answer from [{address}|another rank]: the data network drops packets.",
        "Let the nodes reach each other on all ports of gpufabric_data_interface; the playbook diagnose, or"
        " mpi_preflight with level full, shows which nodes do not.",
        signature("Connection timed out", _CONNECT + r"Connection timed out"),
        signature("timed out", rf"[Cc]onnect to {_PEER} timed out"),
        # NCCL before 2.24 does not say to whom.
        signature("Connect: exceeded timeouts", r"Connect: exceeded timeouts \("),
        source="NCCL, src/misc/socket.cc",
    ),
    entry(
        "nccl-refused",
        "[{address}|Another rank] refuses NCCL's connection: the rank there has ended, or never listened.",
        "Read what that rank printed before.",
        signature("Connection refused", _CONNECT + r"Connection refused"),
        # NCCL before 2.24, which counts those that are refused.
        signature("Connect: exceeded retries", r"Connect: exceeded retries \("),
        precedence=ECHO,
        source="NCCL, src/misc/socket.cc",
    ),
    entry(
        "nccl-version-differs",
        "The ranks run different versions of NCCL.",
        'Install the same NCCL on all hosts. Compare "NCCL version" of each rank, and LD_LIBRARY_PATH.',
        signature("Mismatched NCCL version detected"),
        signature("Mismatched NCCL git versions detected"),
        signature("NCCL version mismatch with remote peer"),
        signature("Message truncated", r"Message truncated ?: received [\d,]+ bytes instead of"),
        source="NCCL, src/init.cc, src/bootstrap.cc and src/ras/ras.cc; 2.32.3's library",
        shared=True,
    ),
    entry(
        "nccl-program-version",
        "The program was compiled with another version of NCCL[, {there},] than it runs with[, {here}].",
        "Build the program with the NCCL that it runs with, or let LD_LIBRARY_PATH lead to the one that it was built with.",
        signature(
            "running with NCCL library version",
            r"compiled with (?:NCCL|too old) version (?:of NCCL\. It was compiled with NCCL version )?(?P<there>[\d.]+\d), but is"
            r" running with NCCL library version (?P<here>[\d.]+\d)",
        ),
        source="NCCL, src/dev_runtime.cc and src/devcomm",
        shared=True,
    ),
    entry(
        "nccl-sizes-differ",
        "The ranks do not agree on the size of a transfer.",
        "Set NCCL_ALGO, NCCL_PROTO and the other NCCL_* variables to the same values on all hosts, also in /etc/nccl.conf and"
        " ~/.nccl.conf.",
        signature("message truncated", r"peer \S+ message truncated ?: receiving \d+ bytes instead of"),
        source="NCCL, src/transport/net_socket.cc",
        shared=True,
    ),
    entry(
        "nccl-algorithm-missing",
        "NCCL has no algorithm and protocol for the collective that its settings allow[: {function}].",
        "Correct or unset NCCL_ALGO, NCCL_PROTO and NCCL_SYM_KERNEL_ID.",
        signature("No algorithm/protocol available", r"No algorithm/protocol available for function (?P<function>\w+)"),
        signature(
            "No algorithm/protocol nor",
            r"No algorithm/protocol nor symKernelId available for function (?P<function>\w+)",
        ),
        signature("no algorithm/protocol available"),
        source="NCCL, src/enqueue.cc; since 2.31 src/tuning/tuning.cc",
        shared=True,
    ),
    entry(
        "nccl-setting-refused",
        "NCCL cannot use the value of a setting: [{setting}|see the evidence].",
        "Correct or unset the variable. It may be set in /etc/nccl.conf or ~/.nccl.conf, too.",
        signature("is being ignored because", r"(?P<setting>NCCL_\w+=\S+) is being ignored because"),
        signature("is out of range", r"(?P<setting>NCCL_\w+=\S+) is out of range"),
        signature("unknown value", r"(?P<setting>NCCL_\w+): unknown value"),
        signature("Could not force merge", r"valid (?P<setting>NCCL_NET_FORCE_MERGE) string"),
        signature("is greater than the maximum allowed", r"(?P<setting>NCCL_\w+) is greater than the maximum allowed"),
        signature("the total number of sockets is greater", r"setting (?P<setting>NCCL_NSOCKS_PERTHREAD) to"),
        signature("OOO RQ is force enabled but", r"(?P<setting>OOO RQ is force enabled) but"),
        signature("All entries except the first must have a prefix", r"must have a prefix: (?P<setting>\S+)"),
        signature("token", r"Unrecognized (?:element|prefix) token (?P<setting>\S+) when parsing"),
        signature(
            "Resiliency is enabled on a",
            r"(?P<setting>Resiliency is enabled) on a \w+ communicator .* with a single device",
        ),
        signature("set by environment is ignored", r"(?P<setting>NCCL_\w+) set by environment is ignored due to"),
        signature("is too big", r"(?P<setting>NCCL_\w+) value \d+ is too big"),
        signature("is too small", r"(?P<setting>NCCL_\w+=\d+)' is too small"),
        signature("Only matched", r"TOPO/NET ?: (?P<setting>Only matched \d+ devices, \d+ requested from \S+)"),
        signature("which has too many devices", r"Specified fused (?P<setting>NIC \S+) which has too many devices"),
        signature("expected 0, 1, or 2", r"Invalid (?P<setting>NCCL_\w+=\S+); expected 0, 1, or 2"),
        signature(
            "but NCCL internal DMA-BUF",
            r"(?P<setting>NCCL_GDRCOPY_USE_INTERNAL_DMABUF=1) but NCCL internal DMA-BUF mmap",
        ),
        signature("has been set to", r"(?P<setting>NCCL_NVLS_ENABLE) has been set to .* not compatible with"),
        source="NCCL, src/init.cc, src/graph, src/transport",
        severity="warning",
        shared=True,
    ),
    entry(
        "nccl-topology-file",
        "NCCL cannot use a topology or graph file[: its version is {version}, and {needed} is needed].",
        "Unset NCCL_TOPO_FILE and NCCL_GRAPH_FILE, or take the files that belong to this NCCL and to this type of machine. A file"
        " in /var/run/nvidia-topologyd is used, too.",
        signature(
            "has wrong version", r"XML (?:Topology|Graph) has wrong version (?P<version>\S+), (?P<needed>\S+) needed"
        ),
        signature("Could not open XML", r"Could not open XML (?:graph|topology) file"),
        signature("XML", r"XML (?:Parse|Mismatch)\b.*:"),
        signature("XML", r"XML (?:Import|Export) Channel ?: \w+ \d+ not found"),
        source="NCCL, src/graph/xml.cc and src/graph/search.cc",
    ),
    entry(
        "nccl-no-transport",
        "NCCL has no way to send from [rank {one} to rank {other}|one rank to another].",
        "Unset NCCL_P2P_DISABLE, NCCL_SHM_DISABLE, NCCL_IB_DISABLE and NCCL_NET_DISABLE_INTRA. In a container, check /dev/shm and"
        " that all containers of a host share it. NCCL_DEBUG=INFO shows which networks NCCL found.",
        signature("No transport found for rank", r"No transport found for rank (?P<one>\d+)\S* -> rank (?P<other>\d+)"),
        source="NCCL, src/transport.cc",
        shared=True,
    ),
    entry(
        "nccl-mixed-links",
        "NCCL is to connect RDMA devices of different kinds, InfiniBand and RoCE[: {device} on this host is not {link}].",
        "Name the devices of one kind in NCCL_IB_HCA; ibv_devinfo shows the link layer of each.",
        signature(
            "device is incompatible with the local",
            r"Remote (?P<link>\w+) device is incompatible with the local \[\d+\](?P<device>[^\s:]+)",
        ),
        signature("incompatible devices", r"Attempted to (?:connect|merge) incompatible devices"),
        signature("merge net devices with different link_layer"),
        source="NCCL, src/transport/net_ib/connect.cc and init.cc",
        shared=True,
    ),
    entry(
        "nic-count-differs",
        "The hosts do not have the same number of NICs that NCCL can use[: {least} to {most}].",
        "Compare ibv_devinfo and NCCL_IB_HCA on all hosts, and repair the hosts that have fewer: with NCCL_DEBUG=INFO, NCCL says"
        " how many each rank has. NCCL_IGNORE_NET_MISMATCH=1 and NCCL_IGNORE_COLLNET_MISMATCH=1 run the test with what is there.",
        signature(
            "device counts across ranks",
            r"Detected mixed local (?:Net|CollNet) device counts across ranks \(min (?P<least>\d+), max (?P<most>\d+)\)",
        ),
        signature("has a different number of devices", r"Local mergedDev\S* .*different number of devices"),
        source="NCCL, src/init.cc, since 2.30, and src/transport/net_ib.cc of 2.21",
        shared=True,
    ),
    entry(
        "collnet-unavailable",
        "NCCL was told to reduce in the network (CollNet, SHARP), cannot do so, and uses point-to-point transfers.",
        "Check that the SHARP plugin loads and that SHARP's aggregation manager runs; or set NCCL_COLLNET_ENABLE=0.",
        signature("Cannot initialize CollNet, using point-to-point network instead"),
        source="NCCL, src/transport.cc",
        severity="warning",
        shared=True,
    ),
    entry(
        "nccl-device-api",
        "The hosts lack what the device implementation of the test needs[: {what}].",
        "Leave -D out of nccl_benchmark_extra_args. Symmetric memory needs NVLink or peer access between the GPUs, multicast"
        " needs NVSwitches, and GIN needs an RDMA device that it supports.",
        signature(
            "requested for team but none available",
            r"(?P<what>Multicast) support requested for team but none available",
        ),
        signature("User requested GIN", r"User requested (?P<what>GIN)\b.* but (?:not all ranks|the communicator)"),
        signature("not supported", r"WARN (?P<what>GIN|RMA) not supported"),
        signature("capable devices found", r"No (?P<what>GIN|RMA)-capable devices found"),
        signature("Unable to use GIN", r"Unable to use (?P<what>GIN): "),
        signature("does not support symmetric memory", r"does not support (?P<what>symmetric memory)"),
        signature("Multimem pointer requested", r"(?P<what>Multimem) pointer requested but"),
        source="NCCL, src/dev_runtime.cc, src/gin and src/rma",
        shared=True,
    ),
    entry(
        "nccl-ranks-differ",
        "The ranks do not agree on how many ranks there are.",
        "End what is left of earlier runs (the playbook teardown), and check that one mpirun starts all ranks.",
        signature("Bootstrap Root", r"Bootstrap Root ?: mismatch in"),
        signature("has already checked in"),
        source="NCCL, src/bootstrap.cc",
    ),
    entry(
        "nccl-comm-id",
        "NCCL cannot read NCCL_COMM_ID.",
        "Unset NCCL_COMM_ID: nccl-tests does not need it.",
        signature("Invalid NCCL_COMM_ID"),
        signature("No valid", r"Net ?: No valid \S+ pair found"),
        signature("getting address info", r"Net ?: error encountered when getting address info"),
        source="NCCL, src/bootstrap.cc and src/misc/socket.cc",
    ),
    entry(
        "nccl-net-missing",
        "NCCL cannot use the network that its settings name.",
        "Correct or unset NCCL_NET and NCCL_NET_PLUGIN; check that the plugin's library loads and fits this NCCL.",
        signature("Failed to initialize any NET plugin"),
        signature("Error: network", r"Error: network (?P<name>\S+) not found"),
        source="NCCL, src/plugin/net.cc; before 2.27 src/net.cc",
    ),
    entry(
        "ofi-no-provider",
        "The plugin aws-ofi-nccl finds no network that it can use, so NCCL goes on with its own.",
        "Check that the container has the EFA devices (vpc.amazonaws.com/efa) and that fi_info -p efa lists them.",
        signature("No eligible providers were found"),
        signature("Only EFA provider is supported"),
        signature("Failed to initialize sendrecv protocol"),
        signature("ny optimal provider"),
        source="aws-ofi-nccl, src/nccl_ofi_net.cpp and src/nccl_ofi_rdma.cpp",
        # NCCL goes on with its own networks; if it may not, it says so (nccl-net-missing).
        severity="warning",
    ),
    entry(
        "duplicate-gpu",
        "[Ranks {rank} and {other}|Ranks of one host] use the same GPU.",
        _ONE_GPU,
        signature(
            "Duplicate GPU detected",
            r"Duplicate GPU detected ?: rank (?P<rank>\d+) and rank (?P<other>\d+) both on",
        ),
    ),
    entry(
        # Ranks of all hosts say so, and do not name the GPU.
        "gpu-shared",
        "Ranks of one host use the same GPU; NCCL does not say which.",
        _ONE_GPU,
        signature("are using the same GPU", r"Multiple Ranks are using the same GPU"),
        source="NCCL, src/init.cc, since 2.30",
        shared=True,
    ),
    entry(
        "ib-retry-exceeded",
        "[{address}|The peer] does not answer over RDMA (status 12), although sockets reach it.",
        "Run ib_write_bw between the two. On RoCE compare NCCL_IB_GID_INDEX with show_gids on both hosts, and check"
        " VLAN, MTU and PFC; on InfiniBand check the link and the subnet manager. Raise NCCL_IB_TIMEOUT if the fabric"
        " is only busy.",
        signature("Got completion from peer", _COMPLETION + r"12\b"),
        signature("Got completion from peer", _COMPLETION + r"13\b"),
        source="NCCL, src/transport/net_ib",
    ),
    entry(
        "ib-access-error",
        "The RDMA device refused a transfer[ with {address}][ (status {status})].",
        "Set NCCL_NET_GDR_LEVEL=LOC. If that works, GPUDirect RDMA is at fault (nvidia_peermem, ACS, IOMMU). Check"
        " that all hosts have the same NCCL, and that NCCL_IB_HCA names no device of another network.",
        signature("Got completion from peer", _COMPLETION + r"(?P<status>1|2|4|6|7|8|9|10|11)\b"),
        source="NCCL, src/transport/net_ib",
    ),
    entry(
        "ib-flushed",
        "The RDMA device dropped transfers, because their connection had failed before (status 5).",
        "Read what this host and its peers printed before.",
        signature("Got completion from peer", _COMPLETION + r"5\b"),
        precedence=ECHO,
        source="NCCL, src/transport/net_ib",
    ),
    entry(
        "ib-device-error",
        "The RDMA device[ {device}] reports an error.",
        "Read the kernel's log (dmesg) and check the device's firmware. Exclude the device with NCCL_IB_HCA=^DEVICE"
        " until it is repaired.",
        signature("async fatal event", r"NET/IB ?: (?P<device>[^\s:]+):\d+ async fatal event"),
        signature("Unable to query", r"NET/IB ?: Unable to query (?:device (?P<device>\S+)|port_num)"),
        source="NCCL, src/transport/net_ib",
    ),
    entry(
        "rdma-port-down",
        "The RDMA port[ {port}] is not active[: its state is {state}].",
        "Check its cable, transceiver and switch port. Exclude it with NCCL_IB_HCA=^DEVICE until it is repaired.",
        signature("port error", _EVENT + "port error"),
        precedence=CAUSE + 20,
        found_by="mpi_preflight",
        source="NCCL, src/transport/net_ib, and libibverbs, ibv_event_type_str",
        follows=("rdma-port-flapped",),
    ),
    entry(
        "rdma-port-flapped",
        "The RDMA port[ {port}] went down and came back, or got other addresses, while the program ran.",
        "Read the kernel's log (dmesg, \"Link down\") and the port's counter of lost links on the host and on the switch, and replace the"
        " cable or transceiver. On RoCE, check that nothing (NetworkManager, DHCP, a CNI) configures the interface during a run.",
        signature("async", _EVENT + "(?:port active|GID table change)"),
        signature(
            "GID table changed",
            r"NET/IB ?: (?:(?P<port>[^\s:]+:\d+) GID table changed|\w+: GID table changed on (?P<same_port>[^\s:]+:\d+))",
        ),
        precedence=CAUSE + 20,
        source="NCCL, src/transport/net_ib, 2.32.3's library, and libibverbs, ibv_event_type_str",
    ),
    entry(
        "ib-subnet-changed",
        "The subnet manager changed the InfiniBand network[ at port {port}] while the program ran[: {event}].",
        "Read the log of the subnet manager (opensm, UFM) at that time: it was restarted, or a link came or went.",
        signature("async", _EVENT + r"(?P<event>LID change|P_Key change|SM change|client rereg\w+)"),
        precedence=EFFECT,
        source="NCCL, src/transport/net_ib, and libibverbs, ibv_event_type_str",
    ),
    entry(
        "rdma-device-failed",
        "A transfer over an RDMA device of this host failed, and NCCL went on with the other ones[: device number {device}].",
        "Check the link of the device: NCCL_DEBUG=INFO prints its name beside its number, dmesg and the counters of its port say what"
        " happened. The results are those of fewer devices; NCCL_IB_RESILIENCY_PORT_FAILOVER=0 ends the run instead.",
        signature("marked as failed", r"NET/IB ?: Device (?P<device>\d+) marked as failed"),
        source="NCCL, src/transport/net_ib/p2p_resiliency.cc, since 2.30",
        follows=("rdma-devices-failed",),
    ),
    entry(
        "rdma-devices-failed",
        "[{count} of {all}|Several] RDMA devices of a connection failed; NCCL can do without one of them only.",
        "Check the links of the host's RDMA devices: ibv_devinfo, dmesg, and the counters of their ports.",
        signature(
            "No support for more than a single failed device",
            r"Detected (?P<count>\d+) failed devices out of (?P<all>\d+) devices",
        ),
        signature("is not on a functional device", r"Cannot replace QP with qpIndex=.* is not on a functional device"),
        signature("Could not find a replacement QP for the failed QP"),
        signature("Could not find a functional device to post the probe"),
        signature("Maximum number of probing attempts"),
        source="NCCL, src/transport/net_ib/p2p_resiliency.cc, since 2.30",
    ),
    entry(
        "ib-gid-unreachable",
        "NCCL cannot set up the RDMA connection[: {reason}], because the GIDs of the two ends do not reach each other.",
        "Compare NCCL_IB_GID_INDEX with show_gids on both hosts (RoCE), and let their addresses reach each other."
        " Name the devices of one network in NCCL_IB_HCA.",
        signature(
            "Call to ibv_modify_qp failed",
            r"Call to ibv_modify_qp failed with (?:error )?(?:\d+ )?(?P<reason>Connection timed out|Invalid argument|No data available"
            r"|Network is unreachable|No route to host)",
        ),
        source="NCCL, src/misc/ibvwrap.cc",
    ),
    entry(
        "ib-device-refused",
        "NCCL cannot open the RDMA device.",
        "In Kubernetes, request the resource of the RDMA device plugin (worker_pods_resources, mpijob_resources), or run the pod"
        " privileged: a hostPath of /dev/infiniband alone is refused by the cgroup of devices. For podman and docker pass"
        " --device=/dev/infiniband. On a host, check the modes of /dev/infiniband/uverbs*.",
        signature("Call to ibv_open_device failed"),
        signature("Unable to open device", r"NET/IB ?: Unable to open device"),
        source="NCCL, src/misc/ibvwrap.cc and src/transport/net_ib",
    ),
    entry(
        "rdma-device-missing",
        "The host has no RDMA device that NCCL_IB_HCA names[: {devices}].",
        "Correct NCCL_IB_HCA, or find out why the device is missing: ibv_devinfo, the driver, the device plugin.",
        found_by="mpi_preflight",
    ),
    entry(
        "rdma-gid-missing",
        "The GID index[ {index}] (NCCL_IB_GID_INDEX) is empty[ on {port}].",
        "Set NCCL_IB_GID_INDEX to an index that show_gids lists, or unset it: NCCL 2.21 and later choose one"
        " themselves.",
        found_by="mpi_preflight",
    ),
    entry(
        "gdr-unavailable",
        "The RDMA device cannot register the GPU's memory.",
        "Load nvidia_peermem on the host, or use a driver with DMA-BUF. NCCL_NET_GDR_LEVEL=LOC works without, but"
        " slower.",
        signature(
            "Call to ibv_reg",
            r"Call to ibv_reg_\w+ failed with error (?:Bad address|Operation not supported|Invalid argument)",
        ),
        source="NCCL, src/misc/ibvwrap.cc",
    ),
    entry(
        "nvls-failed",
        "NCCL cannot set up NVLink SHARP.",
        "Check that the fabric manager runs and the partition is complete; or set NCCL_NVLS_ENABLE=0.",
        signature("NVLink SHARP", r"Failed to bind NVLink SHARP"),
        signature("Cuda failure", r"transport/nvls\S+ (?:\(\w+\) )?NCCL WARN Cuda failure"),
        source="NCCL, src/transport/nvls.cc",
    ),
    entry(
        "imex-channel",
        "NVLink connects the hosts (MNNVL), but this host has no IMEX channel through which its GPUs may share memory.",
        "Create the channel on the host: NVreg_CreateImexChannel0=1 for the driver, or mkdir -p /dev/nvidia-caps-imex-channels and mknod"
        " /dev/nvidia-caps-imex-channels/channel0 c MAJOR 0 with the number of nvidia-caps-imex-channels in /proc/devices. Give it to"
        " containers: in Kubernetes by a ComputeDomain of NVIDIA's DRA driver, elsewhere by --device=/dev/nvidia-caps-imex-channels/channel0."
        " NCCL_MNNVL_ENABLE=0 runs the test over the network instead.",
        signature("Check the IMEX channel configuration"),
        source="NCCL, src/mnnvl.cc, since 2.27",
    ),
    entry(
        "imex-domain",
        "NVLink connects the hosts (MNNVL), but IMEX does not let this host use the memory of the others.",
        "Check that nvidia-imex runs on all hosts of the NVLink domain with the same list of nodes, and that all are READY:"
        " nvidia-imex-ctl -N. NCCL_MNNVL_ENABLE=0 runs the test over the network instead.",
        signature("Check the IMEX configuration"),
        source="NCCL, src/mnnvl.cc, since 2.27",
    ),
    entry(
        "rccl-iommu",
        "The kernel of the host runs without iommu=pt, which makes RCCL slow, and may make it hang.",
        "Add iommu=pt to the command line of the kernel, and restart the host.",
        signature("from kernel command line", r'Missing "iommu=pt" from kernel command line'),
        source="RCCL, src/init.cc",
        severity="warning",
    ),
    entry(
        "rccl-fine-grain",
        "HSA_FORCE_FINE_GRAIN_PCIE=1 is not set, which makes RCCL slow between GPUs that PCIe connects.",
        "Set HSA_FORCE_FINE_GRAIN_PCIE=1 in nccl_benchmark_env.",
        signature(
            "from environment which can lead to low RCCL", r'Missing "HSA_FORCE_FINE_GRAIN_PCIE=1" from environment'
        ),
        source="RCCL, src/init.cc",
        severity="warning",
        shared=True,
    ),
    entry(
        "numa-balancing",
        "The kernel of the host moves memory between NUMA nodes (NUMA balancing), which makes the times of RCCL vary.",
        "Run sysctl kernel.numa_balancing=0 on the host, and keep it in /etc/sysctl.d.",
        signature("NUMA auto balancing enabled"),
        source="RCCL, src/init.cc",
        severity="warning",
    ),
    entry(
        "nccl-accept-failed",
        "A rank of this host gave up its connection to NCCL's service thread[: {reason}].",
        "Read what the ranks of this host printed before.",
        signature("Accept failed", r"NCCL WARN .*Accept failed:? (?P<reason>(?!Too many open files).+)"),
        signature(
            "exceeded error retry count",
            r"TryAccept: exceeded error retry count (?:after \d+ attempts|\(\d+\)), (?P<reason>(?!Too many open files).+)",
        ),
        precedence=ECHO + 10,
        source="NCCL, src/proxy.cc and src/misc/socket.cc",
    ),
    entry(
        "nccl-complaint",
        "NCCL printed warnings that the collection does not know. The run passed.",
        "Read the warnings; NCCL_DEBUG=INFO prints what NCCL does before each of them.",
        precedence=ECHO,
        severity="warning",
        found_by="the lines with NCCL WARN in the output of a run that passed",
    ),
    entry(
        "nccl-remote-error",
        "A rank[ on {name}] ended while other ranks were connected to it.",
        "Read what that rank, or its host, printed before.",
        signature("Connection closed by remote peer", r"Connection closed by remote peer (?P<host>[^\s<]+)<"),
        signature("Call to recv from", r"Call to recv from (?P<host>[^\s<]+)<\d+> failed ?:"),
        signature("Call to send to", r"Call to send to (?P<host>[^\s<]+)<\d+> failed ?:"),
        signature("remote process exited or there was a network error"),
        signature("ncclRemoteError"),
        precedence=ECHO + 10,
        statuses=(3,),
    ),
    entry(
        "nccl-system-error",
        "A system call failed in NCCL, and the output does not say which one.",
        "Run it again with NCCL_DEBUG=WARN.",
        signature("unhandled system error"),
        signature("ncclSystemError"),
        precedence=ECHO + 20,
        statuses=(3,),
    ),
    entry(
        "nccl-cuda-error",
        "A CUDA call failed in NCCL, and the output does not say which one. Often another program has the GPU's"
        " memory.",
        "Run nvidia-smi on the host to find other programs, and run the test again with NCCL_DEBUG=WARN. Check that"
        " NCCL fits the driver and the GPU.",
        signature("unhandled cuda error"),
        signature("ncclUnhandledCudaError"),
        precedence=ECHO + 20,
        statuses=(3,),
    ),
    entry(
        "nccl-invalid-usage",
        "NCCL got a call or a setting that it does not allow.",
        "Run it again with NCCL_DEBUG=WARN, and check the NCCL_* variables.",
        signature("failure", r"NCCL failure .*'invalid (?:usage|argument)"),
        signature("ncclInvalidUsage"),
        signature("ncclInvalidArgument"),
        precedence=ECHO + 20,
        statuses=(3,),
        source="NCCL, src/init.cc (ncclGetErrorString), and nccl-tests, src/common.h",
    ),
    entry(
        "nccl-internal-error",
        "NCCL failed internally and gives no reason. Often a rank on another host has ended.",
        "Run it again with NCCL_DEBUG=INFO; compare NCCL's version and NCCL_SOCKET_IFNAME on all hosts.",
        signature("internal error - please report this issue to the NCCL developers"),
        signature("failure", r"NCCL failure .*'internal error"),
        signature("ncclInternalError"),
        precedence=ECHO + 30,
        statuses=(3,),
    ),
    entry(
        "test-timeout",
        "nccl-tests waited [{seconds} s|too long] for a collective (-T).",
        "Find the rank that does not take part: run the hosts in pairs, with NCCL_DEBUG=INFO.",
        # Whoever says so has waited for another one.
        signature("Test timeout", r"Test timeout \((?P<seconds>\d+)s\)"),
        # The rank that says so closes its connections, of which the others complain then.
        precedence=ECHO + 5,
        statuses=(4,),
        source="nccl-tests, src/common.cu",
        shared=True,
    ),
    entry(
        "test-argument",
        "The program does not accept [{option}|one of its arguments].",
        "Correct nccl_benchmark_extra_args and the sizes (K, M and G are known); --help shows what this version"
        " accepts.",
        signature("invalid size specified for", r"invalid size specified for '(?P<option>\w+)'"),
        signature("invalid step size specified", r"(?P<option>invalid step size) specified"),
        signature("invalid sizes for", r"invalid sizes for '(?P<option>minbytes' and 'maxbytes)'"),
        signature(
            "requires enabling symmetric memory", r"(?P<option>device implementation \(-D > 0\)) requires enabling"
        ),
        signature(
            "is not supported by this test", r"(?P<option>[Dd]evice implementation \d+) is not supported by this test"
        ),
        signature("unrecognized option", r"(?:_perf|_perf_mpi)\S*: unrecognized option '?(?P<option>[^\s']+)"),
        signature("invalid option", r"_perf\S*: invalid option -- '?(?P<option>\w)"),
        signature("requires an argument", r"_perf\S*: option '?(?P<option>\S+?)'? requires an argument"),
        signature("invalid option '?'", r"^invalid option '\?'"),
        signature("gpufabric-cpu: argument", r"gpufabric-cpu: argument (?P<option>[^:]+):"),
        signature("gpufabric-cpu: unrecognized arguments", r"gpufabric-cpu: unrecognized arguments: (?P<option>\S+)"),
        signature("gpufabric-cpu: -", r"gpufabric-cpu: (?P<option>--?[a-z][\w-]*)[ :]"),
        precedence=CAUSE - 10,
        statuses=(255, 6, 2),
    ),
    entry(
        "gpus-missing",
        "The host has too few GPUs[: {count}][, {expected} are needed].",
        f"Correct {_RANKS}, {_DEVICES}. In a container, check worker_pods_gpus and NVIDIA_VISIBLE_DEVICES; nvidia-smi -L"
        " lists the GPUs.",
        signature(
            "Invalid number of GPUs",
            r"Invalid number of GPUs: (?P<expected>\d+) requested but only (?P<count>\d+) were found",
        ),
        signature("invalid device ordinal"),
        statuses=(2, 5),
        found_by="mpi_preflight",
    ),
    entry(
        "wrong-values",
        "The collective delivered wrong values.",
        "Run the test on each host alone, then on pairs, to find the machine or link that corrupts data. Check its"
        " GPUs for ECC and Xid errors.",
        # One rank counts those of all.
        signature("Out of bounds values", r"Out of bounds values : [1-9]\d* FAILED"),
        statuses=(1, 7),
        shared=True,
    ),
    entry(
        "average-below-minimum",
        "The average bus bandwidth is below 0.9 times NCCL_TESTS_MIN_BW.",
        "Compare the rows with those of an earlier run to see which sizes are slow.",
        signature("Avg bus bandwidth", r"Avg bus bandwidth\s+: \S+ FAILED"),
        precedence=EFFECT,
        statuses=(1, 7),
        source="nccl-tests, src/util.cu",
    ),
    *(
        entry(identity, cause, cure, precedence=EFFECT, found_by="nccl_result, by its thresholds and assertions")
        for identity, cause, cure in (
            ("limit-missed", "[{message}|A value is beyond its limit].", _SLOW),
            (
                "bandwidth-dip",
                "[{message}|The bandwidth of a size is lower than that of smaller and larger sizes].",
                _SLOW,
            ),
            (
                "transport-missed",
                "[{message}|The ranks did not talk over the transport that a rule demands].",
                "Check the RDMA ports of these hosts, nvidia_peermem or DMA-BUF, the plugin, and the NCCL_* variables; read NCCL's"
                " own log.",
            ),
            ("latency-cliff", "[{message}|The time jumps from one size to the next].", _SLOW),
            (
                "assertion-failed",
                "[{message}|An assertion does not hold].",
                "Check the value that the assertion names.",
            ),
        )
    ),
    entry(
        "bitwise-mismatch",
        "The collective did not deliver the same bits each time.",
        "Set NCCL_ALGO and NCCL_PROTO: floating point sums may depend on the algorithm that NCCL chose. If the bits"
        " still differ, find the machine or link that corrupts data.",
        found_by=_PARSER,
    ),
    entry(
        "mpi-missing",
        "The program was built without MPI, or with another MPI than mpirun's[; separate runs: {runs}, on {hosts}][; expected: one run"
        " of {ranks} ranks].",
        "Build nccl-tests with MPI=1 and MPI_HOME set to the Open MPI that mpirun is of, and use the mpirun that"
        " belongs to it (gpufabric_mpi_prefix).",
        found_by=_PARSER,
    ),
    entry(
        "separate-runs",
        "[{count} tests|Tests] with the same settings ran alone, each on one [of {hosts} hosts|host].",
        "Build nccl-tests with MPI=1 if mpirun started these tests as one: the program was built without MPI.",
        severity="warning",
        follows=("mpi-missing",),
        found_by=_PARSER,
    ),
    entry(
        "tables-many",
        "The output has [{count} tables|several tables] in place of one. Nobody knows which is that of all ranks.",
        "Read the output to see who printed the others: in one launch, rank 0 alone prints a table. A wrapper on a worker may start the"
        " program once more, or a worker may not be the one that it should be.",
        found_by="nccl_benchmark, mpijob",
    ),
    entry(
        "hosts-differ",
        "[{present} of {wanted} hosts took part|The hosts that took part are not those that were expected][: all {count} ranks ran on"
        " {only}][; missing: {missing}][; not expected: {unexpected}].",
        "Check that mpirun gets the hostfile, that each host is in it with its slots, and that no two hosts have the"
        " same name. The numbers are not those of the expected hosts.",
        found_by=_PARSER,
    ),
    entry(
        "ranks-differ",
        "[{count} ranks took part, {ranks} were expected|The number of ranks that took part is not the expected one].",
        f"Compare the slots of the hostfile and the number of processes, {_RANKS}, with {_DEVICES}.",
        found_by=_PARSER,
    ),
    entry(
        "ranks-unknown",
        "The output shows none of [the {ranks} expected|the] ranks.",
        "Read the output and the error output of the run: it ended before the program listed its devices.",
        precedence=ECHO,
        found_by=_PARSER,
    ),
    entry(
        "ranks-lost",
        "The list of ranks has gaps[: {count} are listed, the highest is {highest}].",
        "Read the program's own output, not an excerpt: the counts of hosts and ranks are too low.",
        severity="warning",
        follows=("mpi-missing",),
        found_by=_PARSER,
    ),
    entry(
        "errors-reported",
        "The program's summary reports an error of NCCL.",
        "Run it again with NCCL_DEBUG=WARN.",
        severity="warning",
        found_by=_PARSER,
    ),
    entry(
        "rows-lost",
        "Some rows of the table are torn, and the result leaves them out[: {count}].",
        "Keep NCCL's log out of the program's output: set NCCL_DEBUG_FILE, or NCCL_DEBUG to VERSION or WARN. If the"
        " output ends early, its last row is torn, too.",
        severity="warning",
        precedence=EFFECT,
        follows=("mpi-missing",),
        found_by=_PARSER,
    ),
    entry(
        "rows-elided",
        "The table was abridged: dots replace some of its rows.",
        "Read the program's own output, not an excerpt of it.",
        severity="warning",
        found_by=_PARSER,
    ),
    entry(
        "nothing-measured",
        "The program ended well and measured no size[: the smallest one asked for is {wanted}, and the GPUs have room for {room}].",
        "Lower the smallest size (nccl_benchmark_min_bytes, isolate_min_bytes), or leave the values unchecked (nccl_benchmark_check: false,"
        " isolate_check: false), since the check needs a third buffer of that size.",
        source="nccl-tests, src/common.cu: the average is 0 / 0 then, and the exit status 0",
        found_by=_PARSER,
    ),
    entry(
        "sizes-reduced",
        "The largest sizes were not measured: the GPUs have no room for them[; wanted up to {wanted}, measured up to {largest}].",
        "Ask for smaller sizes (nccl_benchmark_max_bytes), or for no check of the values (nccl_benchmark_check false), which needs a"
        " third buffer of the size.",
        severity="warning",
        source="nccl-tests, src/common.cu",
        found_by=_PARSER,
    ),
    entry(
        "output-cut",
        "The output ends before the program's summary.",
        "Read the end of the output and the error output: the program failed, or was ended, before it was done.",
        severity="warning",
        precedence=EFFECT,
        follows=("mpi-missing", "mpijob-deleted"),
        found_by=_PARSER,
    ),
    entry(
        "average-differs",
        "The printed average is not the mean of the rows, so rows are missing or changed.",
        "Read the program's own output, not an excerpt of it.",
        severity="warning",
        found_by=_PARSER,
    ),
    entry(
        "no-number",
        "The output has nan or inf in place of numbers.",
        "Run the test again with more iterations (nccl_benchmark_iterations, -n) and larger sizes: bandwidths are nan or inf if a time is 0. If the error is"
        " nan, the collective delivered values that are no numbers.",
        source="nccl-tests, src/util.cu and src/common.cu",
        found_by=_PARSER,
    ),
    entry(
        "bandwidth-differs",
        "Printed bandwidths are not those of the size, the time and the ranks beside them.",
        "Check that the list of ranks is complete, that the output was not edited, and that the program is an unchanged build of"
        " nccl-tests.",
        severity="warning",
        source="nccl-tests, doc/PERFORMANCE.md",
        found_by=_PARSER,
    ),
    entry(
        "soak-dip",
        "The bandwidth dipped [{count} times|several times] while the test ran again and again[, by up to {percent} %].",
        "Find out what happened on the hosts and in the network at these moments: other jobs, throttling (nvidia-smi -q -d PERFORMANCE), a port"
        " that flapped (dmesg).",
        severity="warning",
        found_by=_PARSER,
    ),
    entry(
        "soak-drift",
        "The bandwidth went down [by {percent} % ]while the test ran again and again.",
        "Compare temperatures and clocks of the GPUs at the beginning and at the end (nvidia-smi -q -d TEMPERATURE,CLOCK), and the error"
        " counters of the NICs.",
        severity="warning",
        found_by=_PARSER,
    ),
    entry(
        "json-differs",
        "The program's table and its JSON do not tell the same.",
        "Keep both outputs (nccl_benchmark_output_dir, and -J in nccl_benchmark_extra_args) and report this to the authors of the"
        " program. The result here is the table's.",
        severity="warning",
        found_by=_PARSER,
    ),
    entry(
        "json-unread",
        "The JSON that the program wrote cannot be read, so that nothing is known of single ranks.",
        "Read the evidence. Set nccl_benchmark_rank_times to none to do without.",
        severity="warning",
        found_by=_PARSER,
    ),
    entry(
        "transport-differs",
        "[{hosts} used|Some hosts used] another transport than the other hosts.",
        "Compare the RDMA ports, the drivers and the NCCL_* variables of these hosts with those of the others: all are as slow"
        " as the slowest.",
        severity="warning",
        found_by=_LOG,
    ),
    entry(
        "rdma-port-speed",
        "RDMA ports of the host changed their speed while the program ran[: {changes}].",
        "Check the cable, the transceiver and the switch port, and the kernel's log (dmesg) for the time of the run. Measure again when the"
        " port has its full speed: /sys/class/infiniband/DEVICE/ports/PORT/rate.",
        severity="warning",
        source="NCCL, src/transport/net_ib/common.cc, since 2.30",
        found_by=_LOG,
    ),
    entry(
        "nccl-socket-fallback",
        "NCCL used sockets between the hosts, although [{hosts} have|hosts have] active RDMA ports.",
        "Check NCCL_IB_HCA, libibverbs and the network plugin of these hosts, and that a container has /dev/infiniband, which needs the"
        " RDMA resource or a privileged pod. If sockets are meant, set NCCL_NET=Socket in nccl_benchmark_env.",
        found_by=_LOG,
    ),
    entry(
        "nccl-log-unread",
        "NCCL's own log on [{hosts}|some hosts] could not be read, so that their transport is not known.",
        "Read the evidence: the launcher reaches the hosts by the run's ssh, and they need Python 3.8. Set"
        " nccl_benchmark_transport to false to do without.",
        severity="warning",
        found_by=_LOG,
    ),
    entry(
        "software-differs",
        "[{hosts} ran|Some hosts ran] another NCCL, plugin or driver than the other hosts.",
        "Install the same versions on all hosts; check the images and LD_LIBRARY_PATH.",
        severity="warning",
        found_by=_LOG,
    ),
    entry(
        "output-unread",
        "The program ended well, but its output holds no result that can be read.",
        "Read the output[, in {path}], and check that the program is one of nccl-tests.",
        found_by=_PARSER,
    ),
)
