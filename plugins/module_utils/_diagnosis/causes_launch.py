# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Causes: mpirun, its daemons, the program and MPI's own transport."""

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.entry import (
    CAUSE,
    ECHO,
    EFFECT,
    entry,
    signature,
)

_SAME_MPI = "Install the same Open MPI in the same place on all hosts, and set gpufabric_mpi_prefix to it."
_FIREWALL = (
    "Let the workers connect to the launcher on all ports above 1023, in firewalls and network policies, or set"
    " gpufabric_control_interface."
)
#: Open MPI 4 names no signal where the rank had not called MPI_Init: what it returns is 128 and the signal.
_A_RANK = r"process(?:es)? returned a non-zero exit code"
#: What mpirun says of the rank that ended first, where a program handed on that another was ended by a signal.
_EXITED = r"Process name: +\[\S+,(?P<rank>\d+)\] +Exit code: +(?:%s)\b"
#: Where a search may begin anywhere, what stands before the name is left out: it would be tried at every place of a line.
_DAEMON_NAME = r"(?P<daemon>orted|prted)"
_DAEMON = rf"(?:\S*/)?{_DAEMON_NAME}"

ENTRIES = (
    entry(
        "launch-agent-missing",
        "mpirun does not find [{path}|ssh], which it uses to log in.",
        "Install the OpenSSH client on the launcher, or correct plm_rsh_agent (Open MPI 4) or plm_ssh_agent (Open"
        " MPI 5).",
        signature(
            "was set to a path",
            r"was set to a path that could not be found: plm_\w+_agent: (?P<path>\S+)",
            lines=5,
        ),
        signature("not found", r"sh: (?:line \d+: |\d+: )?(?P<path>ssh|rsh): (?:command )?not found"),
    ),
    entry(
        "run-as-root",
        "mpirun refuses to run as root by default.",
        "Use mpi_run, which allows it, or set OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1.",
        signature("has detected an attempt to run as root"),
        statuses=(1, 213),
    ),
    entry(
        "mpirun-option",
        "mpirun does not know [the option {option}|one of its options].",
        "Correct nccl_benchmark_mca or the command. Open MPI 5 needs two dashes before options of more than one"
        " letter.",
        signature(
            "rror: unknown option", r"(?:mpirun|mpiexec|orterun|prterun)\S*: Error: unknown option \"(?P<option>[^\"]+)"
        ),
        signature(
            "unrecognized option was included",
            r"unrecognized option was included on the \S+ command line: Option: (?P<option>\S+)",
            lines=4,
        ),
        signature(
            "deprecated command line option", r"unclear how to update.*?Deprecated option: +(?P<option>\S+)", lines=6
        ),
    ),
    entry(
        "mca-conflict",
        "Two settings of Open MPI contradict each other[: {first} and {second}].",
        "Remove one of them. The image or the login may set OMPI_MCA_* or PRTE_MCA_*, or a file"
        " openmpi-mca-params.conf.",
        signature(
            "mutually-exclusive MCA variables",
            r"1st MCA variable: (?P<first>\S+) .*?2nd MCA variable: (?P<second>\S+)",
            lines=10,
        ),
        signature("Both TCP interface include and exclude lists"),
        signature("detected multiple instances of an MCA param"),
        signature("MCA parameter has been listed multiple times"),
        signature("MCA parameter was listed more than once"),
        signature("attempted to pass environment variables to Open MPI", r" with both the \"-x\" method", lines=2),
        signature("can only take a single negation operator"),
    ),
    entry(
        "mca-component-missing",
        "Open MPI does not have [the component {component} of {framework}|a component that its settings name][;"
        " {name} reports it first].",
        "Correct nccl_benchmark_mca: vader and openib belong to Open MPI 4, sm belongs to Open MPI 5. If other hosts"
        " have the component, install its libraries on the host that reports it.",
        signature(
            "A requested component was not found",
            r"Host: +(?P<host>\S+) +Framework: +(?P<framework>\S+) +Component: +(?P<component>\S+)",
            lines=12,
        ),
        signature("No components were able to be opened in the", r"Host: +(?P<host>\S+) +Framework: +\S+", lines=8),
        shared=True,
    ),
    entry(
        "hostfile-unreadable",
        "mpirun cannot read its hostfile[, {path}].",
        "Write the hostfile with mpi_hostfile, and let the user who runs mpirun read it.",
        signature("unable to open the hostfile", r"unable to open the hostfile: (?P<path>\S+)", lines=3),
        signature("detected a parse error in the hostfile", r"error in the hostfile: (?P<path>\S+)", lines=3),
        signature("detected a bad parameter in the hostfile", r"parameter in the hostfile: (?P<path>\S+)", lines=3),
    ),
    entry(
        "not-enough-slots",
        "The hosts have fewer slots than the [{slots}|number of] ranks.",
        "Set nccl_benchmark_ranks_per_node to at most the slots of a host, or raise the slots: mpi_hostfile's option"
        " hosts, mpijob_slots. A batch system may allow fewer slots than the hostfile has.",
        signature("There are not enough slots available", r"not enough slots.*? satisfy the (?P<slots>\d+)", lines=3),
        signature("nodes which are allocated for this job are already filled"),
        statuses=(1,),
    ),
    entry(
        "too-many-per-node",
        "A node has room for fewer ranks than the settings put on it[: {ranks}].",
        "Set the number of ranks on a node (nccl_benchmark_ranks_per_node) to at most the slots that the hostfile"
        " gives it.",
        signature("requested a conflicting number of processes", r"number of procs: +(?P<ranks>\d+)", lines=6),
        signature("more processes than the ppr for", r"Number of procs: +(?P<ranks>\d+)", lines=6),
        signature("resulted in too many processes", r"Node: +(?P<host>\S+) +Num procs: +(?P<ranks>\d+)", lines=7),
        statuses=(1,),
    ),
    entry(
        "map-failed",
        "mpirun cannot place the ranks as its options ask[: {policy}].",
        "Correct the mapping (--map-by, --bind-to) in nccl_benchmark_mca or the command.",
        signature(
            "Your job failed to map",
            r"failed to map.*?(?:Mapping policy: +(?P<policy>\S+)|#nodes assigned|$)",
            lines=10,
        ),
        signature("appropriate target could not", r"request was made to bind to (?P<policy>[^,]+),", lines=2),
        signature("policy is not recognized", r"Policy: +(?P<policy>\S+)", lines=4),
        signature("directive is not recognized", r"Directive: +(?P<policy>\S+)", lines=4),
        precedence=CAUSE + 10,
    ),
    entry(
        "host-not-allocated",
        "The command names a host that is neither in the hostfile nor in the batch system's allocation[: {name}].",
        "Write the host as the hostfile names it. For mpirun, a name and its address are two hosts.",
        signature("not included in the current", r"requested hosts (?:are|is) not included in the current"),
        source="Open MPI 4.1, help-orte-rmaps-base.txt, and PRRTE 3.0, help-hostfile.txt and help-dash-host.txt",
    ),
    entry(
        "daemon-missing",
        "The host has no [{daemon}|daemon of mpirun][ in {prefix}/bin].",
        _SAME_MPI,
        signature("not found", rf"sh: (?:line )?(?:\d+: )?{_DAEMON}: (?i:command )?not found"),
        signature("not found:", rf"command not found: {_DAEMON}"),
        signature("Command not found", rf"^{_DAEMON}: Command not found"),
        signature(
            "No such file or directory",
            rf"(?:sh|env): (?:line )?(?:\d+: )?\W?{_DAEMON}\W?: (?:cannot execute: )?No such file",
        ),
        signature("was not able to find the executable", r"find the executable \"(?P<daemon>orted|prted)\"", lines=2),
        statuses=(127, 255),
    ),
    entry(
        "mpi-prefix-differs",
        "[{daemon}|mpirun's daemon] is not [in {prefix}/bin but in {other}|where it is on the launcher].",
        _SAME_MPI,
        found_by="mpi_preflight",
    ),
    entry(
        "mpi-prefix-variable",
        "The host's sessions set [{variables}|OPAL_PREFIX], by which [the Open MPI in {prefix}|mpirun's daemon] does not run.",
        "Take it out of ~/.bashrc, /etc/environment and the modules that are loaded on the host; the init script of HPC-X sets it. Or set"
        " gpufabric_mpi_prefix to that Open MPI, if all hosts have it.",
        found_by="mpi_preflight",
    ),
    entry(
        "daemon-not-executable",
        "The user may not execute [{daemon}|mpirun's daemon].",
        "Set its mode (chmod +x), and check that the file system is not mounted with noexec.",
        signature("Permission denied", rf"sh: (?:line )?(?:\d+: )?{_DAEMON}: Permission denied"),
        statuses=(126, 255),
    ),
    entry(
        "daemon-wrong-machine",
        "[{daemon}|mpirun's daemon] was built for another kind of machine, or its file is damaged.",
        "Install Open MPI again on the host, for its processor. Machines of different kinds cannot share one directory of it.",
        signature(
            "Exec format error",
            rf"sh: (?:line )?(?:\d+: )?{_DAEMON}: (?:cannot execute binary file: )?Exec format error",
        ),
        # Without the reason in some releases of bash.
        signature("cannot execute binary file", rf"sh: (?:line )?(?:\d+: )?{_DAEMON}: cannot execute binary file"),
        statuses=(126, 255),
    ),
    entry(
        "daemon-library-missing",
        "[{daemon}|mpirun's daemon] does not start: the loader does not find [{libraries}|its libraries].",
        "Install the library on the host, or let LD_LIBRARY_PATH of a non-interactive login name its directory. For"
        " Open MPI's own libraries, set gpufabric_mpi_prefix.",
        signature(
            "error while loading shared libraries",
            rf"{_DAEMON_NAME}: error while loading shared libraries: (?P<libraries>\S+?): cannot open",
        ),
        statuses=(127, 255),
    ),
    entry(
        "daemon-library-wrong",
        "[{daemon}|mpirun's daemon] was built for other versions of its libraries[: {reason}].",
        _SAME_MPI,
        signature("symbol lookup error", rf"{_DAEMON_NAME}: symbol lookup error: (?P<reason>.+)"),
        signature("not found (required by", rf"{_DAEMON_NAME}: \S+: (?P<reason>version .+ not found)"),
        statuses=(127, 255),
    ),
    entry(
        "mpi-version-differs",
        "The host and the launcher have different versions of Open MPI[: {there}, not {here}].",
        _SAME_MPI,
        signature(
            "detected a mismatch in versions between two processes",
            r"(?:Open MPI|PRTE) version: +(?P<here>\S+) +Peer host: +(?P<host>\S+) .*?Peer (?:Open MPI|PRTE) version: +(?P<there>\S+)",
            lines=20,
        ),
        signature("rror: unknown option", r"(?:orted|prted): Error: unknown option"),
        signature(
            "Data unpack",
            r"(?:ORTE|PRTE)_ERROR_LOG: Data unpack .* in file \S*(?:ess|grpcomm|nidmap|odls|plm|regx)_?\w*\.c",
        ),
        statuses=(1, 243, 255),
    ),
    entry(
        "callback-refused",
        "The launcher[, {address} port {port},] refuses connections from the host.",
        _FIREWALL,
        found_by="mpi_preflight",
    ),
    entry(
        "callback-rejected",
        "A firewall[ ({by})] rejects connections from the host to the launcher[, {address} port {port}].",
        _FIREWALL,
        found_by="mpi_preflight",
    ),
    entry(
        "callback-timeout",
        "The host cannot connect to the launcher[: {address} port {port} does not answer].",
        _FIREWALL,
        signature(
            "unexpectedly failed after launch and before",
            r"daemon has unexpectedly failed after launch and before communicating back",
            lines=2,
        ),
        signature(
            "unable to complete a TCP connection",
            r"unable to complete a TCP connection to another process: +Local host: +(?P<host>\S+) +Remote host: +(?P<address>\S+)",
            lines=4,
        ),
        signature(
            "unable to establish a communication connection",
            r"establish a communication connection to the specified daemon .*?target node: +(?P<host>\S+)",
            lines=6,
        ),
    ),
    entry(
        "callback-unreachable",
        "The host has no route to the launcher[, {address}].",
        "Check the routes of the host, and gpufabric_control_interface.",
        found_by="mpi_preflight",
    ),
    entry(
        "callback-wrong-interface",
        "The host connects to the launcher from [{own}, which is not on {interface}|another interface than the"
        " control network's].",
        "Check the routes of the host: they should lead to the launcher over gpufabric_control_interface.",
        severity="warning",
        found_by="mpi_preflight",
    ),
    entry(
        "callback-not-ours",
        "Something between, such as a proxy or NAT, answers instead of the launcher[, at {address} port {port}].",
        "Set gpufabric_control_interface to an interface that leads to the launcher directly.",
        found_by="mpi_preflight",
    ),
    entry(
        "control-interface-missing",
        "The host has no address on [{interface}|the control interface][; it has {others}].",
        "Correct gpufabric_control_interface, or set gpufabric_control_subnet if the names differ between hosts.",
        signature("None of the TCP networks specified to be included", r"Value given: +(?P<interface>\S+)", lines=5),
        signature("No network interfaces were found for out-of-band"),
        signature("networks to be excluded for TCP out-of-band"),
        statuses=(213,),
        follows=("mca-conflict",),
    ),
    entry(
        "control-interface-address",
        "The address of the host[, {address},] is not on [{interface} ({own})|the control interface].",
        "Correct gpufabric_control_interface, or the address in the inventory.",
        severity="warning",
        found_by="mpi_preflight",
    ),
    entry(
        "control-addresses",
        "[{interface}|The control interface] has several addresses[: {own}], by which ranks of Open MPI 4 do not find each other.",
        "Leave one address[, {address},] on it, put the others on an interface of their own, or use Open MPI 5.",
        found_by="mpi_preflight",
    ),
    entry(
        "btl-interface-missing",
        "A setting of Open MPI names [{value}|an interface] for messages, which is not on [{where}|the host].",
        "Correct btl_tcp_if_include: set gpufabric_control_interface, or gpufabric_control_subnet if the names"
        " differ between hosts.",
        signature(
            "An invalid value was given for btl_tcp_if",
            r"Local host: +(?P<host>\S+) +Value: +(?P<value>\S+) +Message: +(?:Unknown interface name|Did not find interface)",
            lines=8,
        ),
    ),
    entry(
        "btl-network-invalid",
        "[{value}|The setting for MPI messages] is neither an interface nor a network.",
        "Write btl_tcp_if_include as ADDRESS/BITS with all four numbers, such as 192.168.1.0/24, or as names of"
        " interfaces.",
        signature(
            "An invalid value was given for btl_tcp_if",
            r"Local host: +(?P<host>\S+) +Value: +(?P<value>\S+) +Message: +Invalid specification",
            lines=8,
        ),
        signature("malformed IPv4 address or netmask", r"Value provided: +(?P<value>\S+)", lines=5),
        shared=True,
    ),
    entry(
        "mpi-connect-failed",
        "A rank cannot connect to [{address}|another rank][: {reason}].",
        "Let the workers connect to each other on gpufabric_control_interface. Set it, so that MPI uses no other"
        " interface.",
        signature(
            "Open MPI failed to TCP connect to a peer",
            r"Local host: +(?P<host>\S+) .*?connect\(\) to (?P<address>\S+?) failed +Error: +(?P<reason>(?!Connection refused).+?) \(",
            lines=14,
        ),
        signature(
            "connect() to",
            r"\[(?P<host>[^\]\[]+)\]\[\[\d.*?connect\(\) to (?P<address>\S+?) failed: (?P<reason>(?!Connection refused).+?) \(",
        ),
    ),
    entry(
        "mpi-unexpected-address",
        "A rank got a connection from [{address}, which is not an address of its peer|an address that is not one of"
        " its peer's].",
        "Set gpufabric_control_interface to the one interface that all hosts have; check routes and NAT between the"
        " hosts.",
        signature(
            "detected an inbound MPI TCP connection request",
            r"Local host: +(?P<host>\S+) .*?Source IP of socket: +(?P<address>\S+)",
            lines=16,
        ),
        source="Open MPI 4.1 and 5.0, help-mpi-btl-tcp.txt",
    ),
    entry(
        "mpi-unreachable",
        "Ranks[ on {name} and {peer}] have no transport to send messages to each other.",
        "Set btl to self,tcp, and gpufabric_control_interface to an interface that all hosts have; check OMPI_MCA_*"
        " of the image.",
        signature(
            "processes are unable to reach each other",
            r"\) is on host: (?P<host>\S+) .*?\) is on host: (?P<peer>\S+)",
            lines=12,
        ),
        signature("process is unreachable", r"at least one MPI process is unreachable"),
        precedence=ECHO + 5,
        shared=True,
    ),
    entry(
        "mpich-init-failed",
        "The program is linked to MPICH, or one of its family, and cannot start.",
        "Start it with the mpirun of that MPI, or build nccl-tests with MPI_HOME set to the Open MPI that you use.",
        signature("atal error in", r"Fatal error in (?:internal_|P)?MPI_Init"),
    ),
    entry(
        "srun-without-pmi",
        "srun started a program whose Open MPI has no support for Slurm's PMI.",
        "Start the program with mpirun, or with srun --mpi=pmix and an Open MPI that was built for it.",
        signature("The application appears to have been direct launched using"),
        source="Open MPI 4.1, help-ess-base.txt",
    ),
    entry(
        "batch-launch-failed",
        "The batch system cannot start the program on the host[: {reason}].",
        "Run again without the host. If it happens again, ask the administrator of the batch system.",
        signature("launch failed on", r"^launch failed on (?P<host>\S+): (?P<reason>.+)"),
    ),
    entry(
        "program-missing",
        "The host does not have [{program}|the program].",
        "Copy the program to the host, or correct nccl_benchmark_dir. If the name looks like a value (none, numa),"
        " give its option two dashes instead of one.",
        signature(
            "unable to find the specified executable",
            r"Node: +(?P<host>\S+) +Executable: +(?P<program>\S+)",
            lines=16,
        ),
        signature(
            "exec: ", r"^\S+: (?:line )?\d+: exec: (?P<program>\S+): (?:cannot execute: )?(?:not found|No such file)"
        ),
        signature(
            "No such file or directory",
            r"^(?P<program>/\S+): line \d+: (?P=program): (?:cannot execute: )?No such file",
        ),
        # With another status, a shell says so of a file that it is to read or write.
        signature(
            "No such file or directory",
            rf"^\w*sh: line \d+: (?!{_DAEMON}:)(?P<program>/[^\s:]+): (?:cannot execute: )?No such file",
            status=127,
        ),
        signature("executable file not found in", r"exec: \\?\"(?P<program>[^\"\\]+)\\?\": executable file not found"),
        statuses=(127, 134),
    ),
    entry(
        "program-inaccessible",
        "The host does not have [{program}|the program], or the user may not execute it.",
        "Copy the program to the host, or set its mode (chmod +x); correct nccl_benchmark_dir.",
        signature(
            # From 5.0.0 to 5.0.9 it "lacked permissions to execute", also one that does not exist.
            "launch the specified application as it",
            r"executable: +Executable: +(?P<program>\S+) +Node: +(?P<host>\S+)",
            lines=8,
        ),
        statuses=(132, 183),
    ),
    entry(
        "program-not-executable",
        "The user may not execute [{program}|the program].",
        "Set its mode (chmod +x), and check that the file system is not mounted with noexec.",
        signature("exec: ", r"^\S+: (?:line )?\d+: exec: (?P<program>\S+): (?:cannot execute: )?Permission denied"),
        signature(
            "Permission denied",
            r"^(?P<program>/\S+): line \d+: (?P=program): (?:cannot execute: )?Permission denied",
        ),
        signature(
            'via the "execve" system call',
            r"Local host: +(?P<host>\S+) .*?Application name: +(?P<program>\S+) +Error: +Permission denied",
            lines=12,
        ),
        statuses=(126,),
    ),
    entry(
        "program-wrong-machine",
        "[{program}|The program] was built for another kind of machine.",
        "Build it for the processor of the host. A shell script needs #! in its first line.",
        signature(
            "Exec format error",
            r"^\S+: (?:line )?\d+: (?:exec: )?(?P<program>(?!(?:\S*/)?(?:orted|prted): )\S+): (?:.*: )?Exec format error",
        ),
        signature(
            'via the "execve" system call',
            r"Local host: +(?P<host>\S+) .*?Application name: +(?P<program>\S+) +Error: +Exec format error",
            lines=12,
        ),
        statuses=(126,),
    ),
    entry(
        "working-directory-missing",
        "The host does not have the working directory[ {path}].",
        "Create it on the host, or set another one (--wdir).",
        signature(
            "the specified working directory",
            r"Working directory: +(?P<path>\S+) +Node: +(?P<host>\S+)",
            lines=6,
        ),
    ),
    entry(
        "program-library-missing",
        "[{program}|The program] does not start: the loader does not find [{libraries}|its libraries].",
        "Install the library on the host, or forward an LD_LIBRARY_PATH that names its directory"
        " (gpufabric_forward_env). libnccl and libcudart belong to the CUDA that nccl-tests was built with; libcuda"
        " belongs to the driver, and the container runtime brings it.",
        signature(
            "error while loading shared libraries",
            r"(?:^|\s)(?P<program>(?!(?:\S*/)?(?:orted|prted):)\S+): error while loading shared libraries: (?P<libraries>\S+?): cannot open",
        ),
        signature(
            "cannot open shared object file", r"(?:ImportError|OSError): (?P<libraries>\S+?): cannot open shared"
        ),
        statuses=(127,),
    ),
    entry(
        "program-library-wrong",
        "[{program}|The program] was built for other versions of its libraries[: {reason}].",
        "Build it again on the system where it runs, or use the libraries that it was built with.",
        signature(
            "symbol lookup error",
            r"(?:^|\s)(?P<program>(?!(?:\S*/)?(?:orted|prted):)\S+): symbol lookup error: (?P<reason>.+)",
        ),
        signature(
            "not found (required by",
            r"(?:^|\s)(?P<program>(?!(?:\S*/)?(?:orted|prted):)\S+): \S+: (?P<reason>version .+ not found)",
        ),
        statuses=(127, 1),
    ),
    entry(
        "python-home",
        "Python does not find its own library.",
        "Take PYTHONHOME out of ~/.bashrc, /etc/environment and the modules that are loaded on the host; without"
        " it, install Python again.",
        signature("Failed to import encodings module"),
        signature("No module named 'encodings'"),
        signature("Fatal Python error: init_fs_encoding"),
    ),
    entry(
        "python-module-missing",
        "[{python}|Python] lacks [the module {module}|a module that the program needs].",
        "Install the module for the interpreter that runs the program, on all hosts. For the cpu backend: apt-get"
        " install python3-mpi4py python3-numpy (Debian, Ubuntu), dnf install python3-mpi4py-openmpi python3-numpy"
        " (RHEL and its kin), where Python finds it only with PYTHONPATH of gpufabric_environment set to"
        " /usr/lib64/python3.9/site-packages/openmpi (with the version of your Python). Or set ansible_python_interpreter to"
        " an interpreter that has it.",
        signature(
            "No module named",
            r"gpufabric-cpu: (?P<host>\S+): \w+ cannot be imported: No module named '?(?P<module>[\w.]+)'?; for (?P<python>\S+) install",
        ),
        signature("No module named", r"(?:Error|python\S*): No module named '?(?P<module>[\w.]+)"),
        follows=("python-home",),
    ),
    entry(
        "python-module-broken",
        "[{python}|Python] finds the module [{module}|that the program needs], and cannot load it[: {reason}].",
        "Import it by hand on the host. PYTHONPATH may lead to a copy for another Python; take it out of ~/.bashrc, /etc/environment and"
        " the modules that are loaded. If a library is missing, forward an LD_LIBRARY_PATH that names its directory (gpufabric_forward_env)."
        " Otherwise install the module again.",
        signature(
            "cannot be imported",
            r"gpufabric-cpu: (?P<host>\S+): (?P<module>\w+) cannot be imported: (?!No module named '?(?P=module)'?;)(?P<reason>.+?);"
            r" for (?P<python>\S+) install",
        ),
        follows=("python-home",),
    ),
    entry(
        "program-without-mpi",
        "[{program}|The program] was built without MPI: each rank would be a job of its own.",
        "Build nccl-tests with MPI=1 and MPI_HOME set to the Open MPI that mpirun is of.",
        found_by="mpi_preflight",
    ),
    entry(
        "program-differs",
        "[{program}|The program] is another build than on the launcher.",
        "Copy the same program to all hosts.",
        severity="warning",
        found_by="mpi_preflight",
    ),
    entry(
        "program-mpi-differs",
        "[{program}|The program] is linked to [{library}, which is not of the Open MPI in {prefix}|another MPI than mpirun's].",
        "Build it with MPI_HOME set to the Open MPI that mpirun is of.",
        severity="warning",
        found_by="mpi_preflight",
    ),
    entry(
        "rank-killed",
        "Signal 9 killed [rank {rank}|a rank]. Most often the kernel sends it because memory ran out.",
        'Look for "Out of memory" in the kernel\'s log (dmesg) of the host, and raise the memory limit of its pod'
        " or job.",
        signature(
            "noticed that process rank",
            r"process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) exited on +signal 9\b",
            lines=2,
        ),
        signature("Killed", r"srun: error: (?P<host>\S+): tasks? (?P<rank>\d+)\S*: Killed"),
        signature("terminated normally, but", _A_RANK, lines=2, status=137),
        signature("exited with non-zero status", _EXITED % "137", lines=5),
        precedence=EFFECT,
        statuses=(137,),
    ),
    entry(
        "rank-crashed",
        "[Rank {rank}|A rank] crashed[ (signal {signal})].",
        "Run the program on that host alone with NCCL_DEBUG=INFO; check that the libraries (NCCL, CUDA, UCX, Open"
        " MPI) are those that it was built with.",
        signature(
            "noticed that process rank",
            r"process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) exited on +signal (?P<signal>4|6|8|11)\b",
            lines=2,
        ),
        signature(
            "Process received signal",
            r"^\[(?P<host>[^:\]]+):\d+\] \*\*\* Process received signal .*?Signal: [^(]+\((?P<signal>4|6|8|11)\)",
            lines=3,
        ),
        signature("Caught signal", r"\[(?P<host>[^:\[\]\s]+):\d+[^\[\]]*\] Caught signal (?P<signal>4|6|8|11)\b"),
        signature("Segmentation fault", r"srun: error: (?P<host>\S+): tasks? (?P<rank>\d+)\S*: Segmentation fault"),
        signature("terminated normally, but", _A_RANK, lines=2, status=139),
        signature("terminated normally, but", _A_RANK, lines=2, status=134),
        signature("exited with non-zero status", _EXITED % "132|134|136|139", lines=5),
        precedence=EFFECT,
        statuses=(139, 134),
    ),
    entry(
        "rank-bus-error",
        "[Rank {rank}|A rank] accessed memory that does not exist (signal 7), most often because /dev/shm was full.",
        "Make /dev/shm larger: worker_pods_shm_size, mpijob_shm_size, --shm-size; on a machine mount -o remount,size=16G /dev/shm.",
        signature(
            "noticed that process rank",
            r"process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) exited on +signal 7\b",
            lines=2,
        ),
        signature(
            "Process received signal",
            r"^\[(?P<host>[^:\]]+):\d+\] \*\*\* Process received signal .*?Signal: [^(]+\(7\)",
            lines=3,
        ),
        signature("Caught signal", r"\[(?P<host>[^:\[\]\s]+):\d+[^\[\]]*\] Caught signal 7\b"),
        signature("terminated normally, but", _A_RANK, lines=2, status=135),
        signature("exited with non-zero status", _EXITED % "135", lines=5),
        precedence=EFFECT,
        statuses=(135,),
    ),
    entry(
        "rank-ended",
        "[Rank {rank}|A rank] got a signal to end[ ({signal})]: from a batch system, the end of a pod, or a user.",
        "Find out who sent it: check the batch system's time limit, kubectl get events, the host's log.",
        signature(
            "noticed that process rank",
            r"process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) exited on +signal (?P<signal>1|2|15)\b",
            lines=2,
        ),
        signature("terminated normally, but", _A_RANK, lines=2, status=143),
        signature("exited with non-zero status", _EXITED % "129|130|143", lines=5),
        precedence=EFFECT,
        statuses=(143, 130),
    ),
    entry(
        "daemon-killed",
        "Signal 9 killed what mpirun had started on the host. In containers, most often memory ran out.",
        "Look for OOMKilled (kubectl describe pod), and raise the memory limit: worker_pods_resources,"
        " mpijob_resources.",
        signature("command terminated with exit code", r"command terminated with exit code 137\b"),
        signature("A daemon", r"A daemon (?:\(pid \d+\) )?died unexpectedly on signal 9\b"),
        precedence=EFFECT,
        statuses=(137,),
    ),
    entry(
        "mpi-error",
        "MPI failed[ in {call}].",
        "Read what was printed before it; run mpirun with a program that only prints a line.",
        signature("An error occurred in", r"\*\*\* An error occurred in (?P<call>MPI_\w+)"),
        signature(
            "It looks like",
            r"It looks like (?P<call>MPI_INIT|MPI_Init|orte_init|opal_init|prte_init) failed for some reason",
        ),
        precedence=ECHO + 35,
    ),
    entry(
        "python-exception",
        "A Python program ended with an exception[: {reason}].",
        "Read the traceback in the error output.",
        signature(
            "Traceback (most recent call last)",
            r"Traceback(?:.*\s(?P<reason>(?:[a-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception)\b(?:: .{1,120})?))?",
            lines=30,
        ),
        precedence=ECHO + 70,
        statuses=(1,),
        follows=("python-too-old",),
    ),
    entry(
        "python-too-old",
        "The Python of the host is older than 3.8.",
        "Set ansible_python_interpreter to one of 3.8 or later. It may be beside the other one: dnf install python3.11 (RHEL 8 and its kin)"
        " makes /usr/bin/python3.11.",
        signature("future feature annotations is not defined"),
        signature(
            "File",
            r'^\s*File "(?:<stdin>|\S+_payload\.zip/\S+)", line \d+\s.*\bSyntaxError: invalid syntax',
            lines=4,
            kinds=("kubernetes", "any"),
        ),
        signature("has no attribute", r"module 'typing' has no attribute '(?:TypedDict|Literal|Protocol|Final)'"),
    ),
    entry(
        "login-shell",
        "The login shell of the host[, {shell},] does not read the commands of mpirun[, which are for {launcher}].",
        "Give the account one login shell of the kind of bash on all hosts: usermod -s /bin/bash[ {user}| ACCOUNT]. If all have tcsh, the"
        " launcher needs it as well; fish works with the sshd of key_exchange alone.",
        signature("Unsupported use of '='", r"fish: Unsupported use of '='"),
        signature("Command not found", r"^(?:(?:PRTE|OPAL)_PREFIX|PATH|LD_LIBRARY_PATH)=\S*: Command not found"),
        signature("Command not found", r"^export: Command not found"),
        signature("modifier in $", r"^Bad : modifier in \$"),
        signature("Undefined variable", r"^(?:LD_LIBRARY_PATH|DYLD_LIBRARY_PATH): Undefined variable"),
    ),
    entry(
        "lost-connection",
        "mpirun lost its daemon on the host: the host, its network or the daemon failed.",
        "Check that the host is up, and read its log; look for OOMKilled and restarts.",
        signature("lost communication with a remote daemon", r"Remote daemon ?: \S+ on node (?P<host>\S+)", lines=5),
        # It names a host that a message was for, not the one that is lost.
        signature("does not know how to route a message"),
        precedence=ECHO + 8,
    ),
    entry(
        "mpi-peer-gone",
        "A rank[ on {name}] ended while other ranks were connected to it.",
        "Read what that host printed before.",
        signature("peer process has unexpectedly disconnected", r"Peer host: +(?P<host>\S+)", lines=18),
        signature("mca_btl_tcp_frag_recv", r"mca_btl_tcp_frag_recv: readv failed: Connection reset"),
        precedence=ECHO + 20,
    ),
    entry(
        "mpi-aborted",
        "[Rank {rank}|A rank] ended the job itself (MPI_Abort).",
        "Read what it printed before.",
        signature("MPI_ABORT was invoked on rank", r"MPI_ABORT was invoked on rank (?P<rank>\d+)"),
        # What made it do so says more.
        precedence=ECHO + 75,
    ),
    entry(
        "rank-without-finalize",
        "[Rank {rank}|A rank] ended without MPI_Finalize, and mpirun ended the others.",
        "Read what it printed before it ended.",
        signature(
            "has exited due to process rank",
            r"due to process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) exiting improperly",
            lines=2,
        ),
        precedence=ECHO + 80,
    ),
    entry(
        "daemon-not-started",
        "mpirun could not start its daemon on a host, and gives no reason.",
        "Run the playbook diagnose, or mpi_preflight, which checks each step of the launch path, from the name to the"
        " connection to the launcher.",
        signature("was unable to reliably start one or more daemons"),
        signature(
            "A daemon failed to report back after being spawned",
            r"failed to report back .*?Remote host: +(?P<host>\S+)",
            lines=10,
        ),
        signature("A daemon", r"A daemon (?:\(pid \d+\) )?died unexpectedly (?:with status|on signal (?!9\b))"),
        precedence=ECHO + 40,
        statuses=(1, 255),
    ),
    entry(
        "become-refused",
        "The host does not let Ansible become another user[: {reason}].",
        "Give the password with --ask-become-pass, or in ansible_become_password. Otherwise allow it in /etc/sudoers: all commands, not some."
        " Where this has requiretty, add -e ansible_pipelining=false. Who logs in as the user that runs the benchmark needs no become.",
        *(
            signature(literal, rf"(?P<reason>{pattern})", kinds=("kubernetes", "any"))
            for literal, pattern in (
                ("password", r"(?:Incorrect|Missing) (?:sudo|su|doas|pbrun|pfexec|dzdo|ksu|sesu|become) password"),
                ("must have a tty", r"sudo: sorry, you must have a tty to run sudo"),
                ("is not in the sudoers file", r"(?<!\S)\S{1,64} is not in the sudoers file"),
                ("is not allowed to execute", r"user \S{1,64} is not allowed to execute"),
                ("a password is required", r"sudo: a password is required"),
                ("unknown user", r"sudo: unknown user:? [^\s:]{1,64}"),
                ("must be owned by uid 0", r"sudo: \S{1,200} must be owned by uid 0 and have the setuid bit set"),
                ("not found", r"\bsudo: (?:command )?not found"),
            )
        ),
    ),
    entry(
        "step-failed",
        "The host cannot take part[: it failed {step}][: {text}].",
        "Follow the message.",
        precedence=EFFECT,
        found_by="the role preflight",
    ),
    entry(
        "not-run",
        "The run ended[ at {current},] before it reached this point.",
        "Run it again: it keeps what has finished.",
        precedence=ECHO,
        found_by="mpi_run",
    ),
    entry(
        "stopped",
        "The run was stopped before its end.",
        "Run it again: it keeps what has finished.",
        precedence=ECHO,
        found_by="mpi_run",
    ),
    entry(
        "not-started",
        "mpirun itself could not start[: {reason}].",
        "Install Open MPI on the launcher, or correct gpufabric_mpi_prefix.",
        found_by="mpi_run",
    ),
    entry(
        "startup-timeout",
        "[Only {started} of {ranks} ranks had started after {seconds} s|Not all ranks had started in time][: none on {missing}].",
        "Check that the run's ssh and the control network reach the missing hosts. If the hosts need longer to"
        " start, raise startup_timeout (in playbooks nccl_benchmark_startup_timeout, isolate_startup_timeout).",
        precedence=ECHO,
        found_by="mpi_run",
    ),
    entry(
        "silence-timeout",
        "The program printed nothing for [{seconds} s|too long] and was ended.",
        "Find out what it waits for: a rank that hangs, a link that lost data. NCCL_DEBUG=INFO shows its last steps."
        " If a step may take so long, raise silence_timeout (in playbooks nccl_benchmark_silence_timeout).",
        precedence=ECHO,
        found_by="mpi_run",
    ),
    entry(
        "output-too-long",
        "The program printed more than [{limit}|it may] and was ended.",
        "See in its output what repeats: a rank in a loop of errors, or NCCL_DEBUG=TRACE. If so much output is wanted, raise"
        " output_limit (in playbooks nccl_benchmark_output_limit).",
        precedence=ECHO,
        found_by="mpi_run",
    ),
    entry(
        "limit-reached",
        "The time of the run[, {seconds} s,] was over before this point could start.",
        "Run it again, which continues here, or raise time_limit (in playbooks nccl_benchmark_time_limit).",
        severity="warning",
        precedence=ECHO,
        found_by="mpi_run",
    ),
    entry(
        "orphaned",
        "The run ended itself, because no play asked for it for [{seconds} s|a long time].",
        "Run it again: it keeps what has finished. If no play waits for the run, raise orphan_timeout (in playbooks"
        " nccl_benchmark_orphan_timeout), or set it to 0.",
        precedence=ECHO,
        found_by="mpi_run",
    ),
    entry(
        "processes-left",
        "The host may still have processes of the run[: {reason}].",
        "Bring the host back; then run_cleanup or the playbook gpufabric.nccl.teardown ends what is left.",
        severity="warning",
        precedence=EFFECT,
        found_by="mpi_run, worker_pods",
    ),
    entry(
        "launcher-lost",
        "The launcher no longer answers[: {reason}].",
        "[Find out what deleted or ended the pod {pod} (kubectl get events), and run again|Bring the launcher back, then run it again: it"
        " keeps what has finished if the launcher still has it].",
        precedence=EFFECT,
        found_by="mpi_run",
    ),
    entry(
        "runner-lost",
        "The process on the launcher that waited for the program is gone[: {said}].",
        "Find out what ended it, such as a lack of memory or a restart. Then run it again: it keeps what has finished.",
        precedence=EFFECT,
        found_by="mpi_run",
    ),
    entry(
        "timeout",
        "The program did not end [within {seconds} s|in time] and was ended[; no rank had started on {missing}].",
        "Raise nccl_benchmark_timeout, or find out what the program waits for: run it with NCCL_DEBUG=INFO, and run"
        " the playbook diagnose, or mpi_preflight.",
        signature("The user-provided time limit for job execution", r"Timeout: (?P<seconds>\d+) seconds", lines=4),
        signature("DUE TO TIME LIMIT", r"(?:JOB|STEP) \S+ ON (?P<node>\S+) CANCELLED AT \S+ DUE TO TIME LIMIT"),
        precedence=ECHO + 50,
        statuses=(124, 110, 241),
        found_by="mpi_run",
    ),
)
