# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Causes: mpirun, its daemons, the program and MPI's own transport."""

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis_entry import CAUSE, ECHO, EFFECT, entry, sign

_SAME_MPI = "Install the same Open MPI in the same place on all, and set gpufabric_mpi_prefix to it."
_FIREWALL = "Let the workers connect to the launcher on all ports above 1023, or name the interface: gpufabric_control_interface."
#: Open MPI 4 names no signal where the rank had not called MPI_Init: what it returns is 128 and the signal.
_A_RANK = r"process(?:es)? returned a non-zero exit code"
#: What mpirun says of the rank that ended first, where a program handed on that another was ended by a signal.
_EXITED = r"Process name: +\[\S+,(?P<rank>\d+)\] +Exit code: +(?:%s)\b"
_DAEMON = r"(?:\S*/)?(?P<daemon>orted|prted)"

ENTRIES = (
    entry(
        "launch-agent-missing",
        "mpirun does not find [{path}|ssh], which it is to log in with.",
        "Install the client of OpenSSH on the launcher, or correct plm_rsh_agent (Open MPI 4), plm_ssh_agent (Open MPI 5).",
        sign(
            "was set to a path",
            r"was set to a path that could not be found: plm_\w+_agent: (?P<path>\S+)",
            lines=5,
        ),
        sign("not found", r"sh: (?:line \d+: |\d+: )?(?P<path>ssh|rsh): (?:command )?not found"),
    ),
    entry(
        "run-as-root",
        "mpirun does not run as root unless it is told to.",
        "Use mpi_run, which does so, or set OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1.",
        sign("has detected an attempt to run as root"),
        statuses=(1, 213),
    ),
    entry(
        "mpirun-option",
        "mpirun does not know [the option {option}|an option that it was given].",
        "Correct nccl_benchmark_mca or the command; Open MPI 5 wants options of more than one letter with two dashes.",
        sign(
            "rror: unknown option", r"(?:mpirun|mpiexec|orterun|prterun)\S*: Error: unknown option \"(?P<option>[^\"]+)"
        ),
        sign(
            "unrecognized option was included",
            r"unrecognized option was included on the \S+ command line: Option: (?P<option>\S+)",
            lines=4,
        ),
        sign("deprecated command line option", r"unclear how to update.*?Deprecated option: +(?P<option>\S+)", lines=6),
    ),
    entry(
        "mca-conflict",
        "Two settings of Open MPI contradict each other[: {first} and {second}].",
        "Take one out: the image or the login may set OMPI_MCA_* or PRTE_MCA_*, or a file openmpi-mca-params.conf.",
        sign(
            "mutually-exclusive MCA variables",
            r"1st MCA variable: (?P<first>\S+) .*?2nd MCA variable: (?P<second>\S+)",
            lines=10,
        ),
        sign("Both TCP interface include and exclude lists"),
        sign("detected multiple instances of an MCA param"),
        sign("attempted to pass environment variables to Open MPI", r".* with both the \"-x\" method", lines=2),
        sign("can only take a single negation operator"),
    ),
    entry(
        "mca-component-missing",
        "Open MPI has no component [{component} of {framework}|that was asked for].",
        "Correct nccl_benchmark_mca: vader and openib are of Open MPI 4, sm is of Open MPI 5.",
        sign(
            "A requested component was not found",
            r"Host: +(?P<host>\S+) +Framework: +(?P<framework>\S+) +Component: +(?P<component>\S+)",
            lines=12,
        ),
        sign("No components were able to be opened in the", r"Host: +(?P<host>\S+) +Framework: +\S+", lines=8),
    ),
    entry(
        "hostfile-unreadable",
        "mpirun cannot read its hostfile[, {path}].",
        "Let mpi_hostfile write it, and see that the user who runs mpirun may read it.",
        sign("unable to open the hostfile", r"unable to open the hostfile: (?P<path>\S+)", lines=3),
        sign("detected a parse error in the hostfile", r"error in the hostfile: (?P<path>\S+)", lines=3),
        sign("detected a bad parameter in the hostfile", r"parameter in the hostfile: (?P<path>\S+)", lines=3),
    ),
    entry(
        "not-enough-slots",
        "There are fewer slots than the [{slots}|number of] ranks that were asked for.",
        "Give the hosts more slots (gpufabric_slots), or ask for fewer ranks; a pod's or a batch system's limits count, too.",
        sign("There are not enough slots available", r"not enough slots.*? satisfy the (?P<slots>\d+)", lines=3),
        sign("nodes which are allocated for this job are already filled"),
        statuses=(1,),
    ),
    entry(
        "too-many-per-node",
        "More ranks were asked for on a node than it, or the mapping, has room for[: {ranks}].",
        "Correct the number of ranks on a node; it must not be more than the slots that the hostfile gives it.",
        sign("requested a conflicting number of processes", r".*number of procs: +(?P<ranks>\d+)", lines=6),
        sign("more processes than the ppr for", r".*Number of procs: +(?P<ranks>\d+)", lines=6),
        sign("resulted in too many processes", r"Node: +(?P<host>\S+) +Num procs: +(?P<ranks>\d+)", lines=7),
        statuses=(1,),
    ),
    entry(
        "map-failed",
        "mpirun cannot place the ranks as it was told to[: {policy}].",
        "Correct the mapping (--map-by, --bind-to) in nccl_benchmark_mca or the command.",
        sign(
            "Your job failed to map",
            r"failed to map.*?(?:Mapping policy: +(?P<policy>\S+)|#nodes assigned|$)",
            lines=10,
        ),
        sign("appropriate target could not", r"request was made to bind to (?P<policy>[^,]+),", lines=2),
        sign("policy is not recognized", r"Policy: +(?P<policy>\S+)", lines=4),
        primacy=CAUSE + 10,
    ),
    entry(
        "host-not-allocated",
        "A host was asked for that is not in the hostfile or the batch system's allocation[: {name}].",
        "Write it in the hostfile as it is named there; the address instead of the name is another host to mpirun.",
        sign("the requested hosts are not included in the current allocation"),
    ),
    entry(
        "daemon-missing",
        "[{daemon}|mpirun's daemon] is not [in {prefix}/bin|found on the host].",
        _SAME_MPI,
        sign("not found", rf"\w*sh: (?:line )?(?:\d+: )?{_DAEMON}: (?i:command )?not found"),
        sign("not found:", rf"command not found: {_DAEMON}"),
        sign("Command not found", rf"^{_DAEMON}: Command not found"),
        sign(
            "No such file or directory",
            rf"(?:\w*sh|env): (?:line )?(?:\d+: )?\W?{_DAEMON}\W?: (?:cannot execute: )?No such file",
        ),
        sign("was not able to find the executable", r"find the executable \"(?P<daemon>orted|prted)\"", lines=2),
        statuses=(127, 255),
    ),
    entry(
        "mpi-prefix-differs",
        "[{daemon}|mpirun's daemon] is not [in {prefix}/bin but in {other}|where it is on the launcher].",
        _SAME_MPI,
        found_by="mpi_preflight",
    ),
    entry(
        "daemon-not-executable",
        "[{daemon}|mpirun's daemon] may not be executed.",
        "Set its mode (chmod +x), and see that the file system is not mounted with noexec.",
        sign("Permission denied", rf"\w*sh: (?:line )?(?:\d+: )?{_DAEMON}: Permission denied"),
        statuses=(126, 255),
    ),
    entry(
        "daemon-library-missing",
        "[{daemon}|mpirun's daemon] does not start: the loader does not find [{libraries}|its libraries].",
        "Install the library there, or have LD_LIBRARY_PATH lead to it where nobody is at a terminal: gpufabric_mpi_prefix sets"
        " that for Open MPI's own.",
        sign(
            "error while loading shared libraries",
            rf"{_DAEMON}: error while loading shared libraries: (?P<libraries>\S+?): cannot open",
        ),
        statuses=(127, 255),
    ),
    entry(
        "daemon-library-wrong",
        "[{daemon}|mpirun's daemon] was built for other versions of its libraries[: {reason}].",
        _SAME_MPI,
        sign("symbol lookup error", rf"{_DAEMON}: symbol lookup error: (?P<reason>.+)"),
        sign("not found (required by", rf"{_DAEMON}: \S+: (?P<reason>version .+ not found)"),
        statuses=(127, 255),
    ),
    entry(
        "mpi-version-differs",
        "Open MPI, or its daemon, is another version there than on the launcher[: {there}, not {here}].",
        _SAME_MPI,
        sign(
            "detected a mismatch in versions between two processes",
            r"(?:Open MPI|PRTE) version: +(?P<here>\S+) +Peer host: +(?P<host>\S+) .*?Peer (?:Open MPI|PRTE) version: +(?P<there>\S+)",
            lines=20,
        ),
        sign("rror: unknown option", r"(?:orted|prted): Error: unknown option"),
        sign(
            "Data unpack",
            r"(?:ORTE|PRTE)_ERROR_LOG: Data unpack .* in file \S*(?:ess|grpcomm|nidmap|odls|plm|regx)_?\w*\.c",
        ),
        statuses=(1, 243, 255),
    ),
    entry(
        "callback-refused",
        "The launcher[, {address} port {port},] refuses connections back from the host.",
        _FIREWALL,
        found_by="mpi_preflight",
    ),
    entry(
        "callback-rejected",
        "A firewall[ ({by})] rejects connections from the host back to the launcher[, {address} port {port}].",
        _FIREWALL,
        found_by="mpi_preflight",
    ),
    entry(
        "callback-timeout",
        "The host cannot connect back to the launcher[: {address} port {port} does not answer].",
        _FIREWALL,
        sign(
            "unexpectedly failed after launch and before",
            r"daemon has unexpectedly failed after launch and before communicating back",
            lines=2,
        ),
        sign(
            "unable to complete a TCP connection",
            r"unable to complete a TCP connection to another process: +Local host: +(?P<host>\S+) +Remote host: +(?P<address>\S+)",
            lines=4,
        ),
        sign(
            "unable to establish a communication connection",
            r"establish a communication connection to the specified daemon .*?target node: +(?P<host>\S+)",
            lines=6,
        ),
    ),
    entry(
        "callback-unreachable",
        "The host has no route back to the launcher[, {address}].",
        "Look at its routes, and at gpufabric_control_interface.",
        found_by="mpi_preflight",
    ),
    entry(
        "callback-wrong-interface",
        "The host connects back from [{own}, which is not on {interface}|another interface than the control network's].",
        "Look at its routes: the launcher's address should be reached over gpufabric_control_interface.",
        severity="warning",
        found_by="mpi_preflight",
    ),
    entry(
        "callback-not-ours",
        "Something between, such as a proxy or NAT, answers in the launcher's place[, at {address} port {port}].",
        "Take an interface that leads to the launcher without it: gpufabric_control_interface.",
        found_by="mpi_preflight",
    ),
    entry(
        "control-interface-missing",
        "[{interface}|The control interface] is not there, or has no address[; there are {others}].",
        "Correct gpufabric_control_interface (or gpufabric_control_subnet, where names differ).",
        sign("None of the TCP networks specified to be included", r".*Value given: +(?P<interface>\S+)", lines=5),
        sign("No network interfaces were found for out-of-band"),
        sign("networks to be excluded for TCP out-of-band"),
        statuses=(213,),
    ),
    entry(
        "control-interface-address",
        "[{address}|The address], by which the host is reached, is not on [{interface} ({own})|the control interface].",
        "Correct gpufabric_control_interface, or the address in the inventory.",
        severity="warning",
        found_by="mpi_preflight",
    ),
    entry(
        "btl-interface-missing",
        "Open MPI is to use [{value}|an interface] for its messages, and the host has none such.",
        "Correct btl_tcp_if_include: gpufabric_control_interface, or a subnet where names differ.",
        sign(
            "An invalid value was given for btl_tcp_if",
            r"Local host: +(?P<host>\S+) +Value: +(?P<value>\S+) +Message: +(?:Unknown interface name|Did not find interface)",
            lines=8,
        ),
    ),
    entry(
        "btl-network-invalid",
        "[{value}|What Open MPI is to use for its messages] is neither an interface nor a network.",
        "Write btl_tcp_if_include as ADDRESS/BITS with all four numbers, such as 192.168.1.0/24, or as names of interfaces.",
        sign(
            "An invalid value was given for btl_tcp_if",
            r"Local host: +(?P<host>\S+) +Value: +(?P<value>\S+) +Message: +Invalid specification",
            lines=8,
        ),
        sign("malformed IPv4 address or netmask", r".*Value provided: +(?P<value>\S+)", lines=5),
    ),
    entry(
        "mpi-connect-failed",
        "A rank cannot connect to [{address}|another rank][: {reason}].",
        "See that nothing drops connections between the workers on gpufabric_control_interface; name it, so that MPI uses no other.",
        sign(
            "Open MPI failed to TCP connect to a peer",
            r"Local host: +(?P<host>\S+) .*?connect\(\) to (?P<address>\S+?) failed +Error: +(?P<reason>(?!Connection refused).+?) \(",
            lines=14,
        ),
        sign(
            "connect() to",
            r"\[(?P<host>[^\]\[]+)\]\[\[\d.*?connect\(\) to (?P<address>\S+?) failed: (?P<reason>(?!Connection refused).+?) \(",
        ),
    ),
    entry(
        "mpi-unexpected-address",
        "A rank was reached from [{address}, which is not an address that its peer has told|an address that nobody has told].",
        "Name the one interface that all have: gpufabric_control_interface; look at routes and NAT between the hosts.",
        sign(
            "detected an inbound MPI TCP connection request",
            r"Local host: +(?P<host>\S+) .*?Source IP of socket: +(?P<address>\S+)",
            lines=16,
        ),
    ),
    entry(
        "mpi-unreachable",
        "Ranks[ on this host and {peer}] have no way to send messages to each other.",
        "Use btl self,tcp and an interface that all have: gpufabric_control_interface; look at OMPI_MCA_* of the image.",
        sign(
            "processes are unable to reach each other",
            r"\) is on host: (?P<host>\S+) .*?\) is on host: (?P<peer>\S+)",
            lines=12,
        ),
        sign("process is unreachable", r"at least one MPI process is unreachable"),
        primacy=ECHO + 5,
    ),
    entry(
        "mpich-init-failed",
        "The program's MPI is MPICH or of its family, and cannot start.",
        "Start it by the mpirun of the MPI it was linked with: build nccl-tests with MPI_HOME set to the Open MPI that is used.",
        sign("atal error in", r"Fatal error in (?:internal_|P)?MPI_Init"),
    ),
    entry(
        "srun-without-pmi",
        "srun started a program whose Open MPI has no support for Slurm's PMI.",
        "Start it by mpirun, or by srun --mpi=pmix with an Open MPI that was built for that.",
        sign("The application appears to have been direct launched using"),
    ),
    entry(
        "batch-launch-failed",
        "The batch system's launcher could not start there[: {reason}].",
        "Try again without the host; if it stays, its administrator has to look at it.",
        sign("launch failed on", r"^launch failed on (?P<host>\S+): (?P<reason>.+)"),
    ),
    entry(
        "program-missing",
        "[{program}|The program] is not on the host.",
        "Copy it there, or correct nccl_benchmark_dir. A name such as none or numa is the value of an option that was given with"
        " one dash instead of two.",
        sign(
            "unable to find the specified executable",
            r"Node: +(?P<host>\S+) +Executable: +(?P<program>\S+)",
            lines=16,
        ),
        sign("exec: ", r"^\S+: (?:line )?\d+: exec: (?P<program>\S+): (?:cannot execute: )?(?:not found|No such file)"),
        sign(
            "No such file or directory",
            r"^(?P<program>/\S+): line \d+: (?P=program): (?:cannot execute: )?No such file",
        ),
        sign("executable file not found in", r"exec: \\?\"(?P<program>[^\"\\]+)\\?\": executable file not found"),
        statuses=(127, 134),
    ),
    entry(
        "program-inaccessible",
        "[{program}|The program] is not on the host, or may not be executed: mpirun does not tell which.",
        "Copy it there, or set its mode (chmod +x); correct nccl_benchmark_dir.",
        sign(
            "launch the specified application as it could not",
            r"executable: +Executable: +(?P<program>\S+) +Node: +(?P<host>\S+)",
            lines=8,
        ),
        statuses=(132, 183),
    ),
    entry(
        "program-not-executable",
        "[{program}|The program] may not be executed.",
        "Set its mode (chmod +x), and see that the file system is not mounted with noexec.",
        sign("exec: ", r"^\S+: (?:line )?\d+: exec: (?P<program>\S+): (?:cannot execute: )?Permission denied"),
        sign(
            "Permission denied",
            r"^(?P<program>/\S+): line \d+: (?P=program): (?:cannot execute: )?Permission denied",
        ),
        sign(
            'via the "execve" system call',
            r"Local host: +(?P<host>\S+) .*?Application name: +(?P<program>\S+) +Error: +Permission denied",
            lines=12,
        ),
        statuses=(126,),
    ),
    entry(
        "program-wrong-machine",
        "[{program}|The program] is not for this kind of machine.",
        "Build it for the processor of the host; a shell script needs #! in its first line.",
        sign("Exec format error", r"^\S+: (?:line )?\d+: (?:exec: )?(?P<program>\S+): (?:.*: )?Exec format error"),
        sign(
            'via the "execve" system call',
            r"Local host: +(?P<host>\S+) .*?Application name: +(?P<program>\S+) +Error: +Exec format error",
            lines=12,
        ),
        statuses=(126,),
    ),
    entry(
        "working-directory-missing",
        "The directory to start in[, {path},] is not on the host.",
        "Create it there, or set another (--wdir).",
        sign(
            "change to the specified working directory",
            r"Working directory: +(?P<path>\S+) +Node: +(?P<host>\S+)",
            lines=6,
        ),
    ),
    entry(
        "program-library-missing",
        "[{program}|The program] does not start: the loader does not find [{libraries}|its libraries].",
        "Install the library on the host, or hand on an LD_LIBRARY_PATH that leads to it (gpufabric_forward_env). libnccl,"
        " libcudart: of the CUDA that nccl-tests was built with; libcuda: the driver, which the container's runtime puts there.",
        sign(
            "error while loading shared libraries",
            r"(?:^|\s)(?P<program>(?!(?:\S*/)?(?:orted|prted):)\S+): error while loading shared libraries: (?P<libraries>\S+?): cannot open",
        ),
        sign("cannot open shared object file", r"(?:ImportError|OSError): (?P<libraries>\S+?): cannot open shared"),
        statuses=(127,),
    ),
    entry(
        "program-library-wrong",
        "[{program}|The program] was built for other versions of its libraries[: {reason}].",
        "Build it anew where it runs, or take the libraries that it was built with.",
        sign(
            "symbol lookup error",
            r"(?:^|\s)(?P<program>(?!(?:\S*/)?(?:orted|prted):)\S+): symbol lookup error: (?P<reason>.+)",
        ),
        sign(
            "not found (required by",
            r"(?:^|\s)(?P<program>(?!(?:\S*/)?(?:orted|prted):)\S+): \S+: (?P<reason>version .+ not found)",
        ),
        statuses=(127, 1),
    ),
    entry(
        "python-module-missing",
        "[{python}|Python] has no module [{module}|that the program needs].",
        "Install it for the interpreter that runs the program, on all hosts; for the cpu backend: apt-get install python3-mpi4py"
        " python3-numpy (Debian, Ubuntu), dnf install python3-mpi4py-openmpi python3-numpy (RHEL and its kin). Or set"
        " ansible_python_interpreter to one that has it.",
        sign("No module named", r"gpufabric-cpu: (?P<host>\S+): No module named '?(?P<module>[\w.]+)"),
        sign("No module named", r"(?:Error|python\S*): No module named '?(?P<module>[\w.]+)"),
    ),
    entry(
        "program-without-mpi",
        "[{program}|The program] was built without MPI: each rank would be a job of its own.",
        "Build nccl-tests with MPI=1 and MPI_HOME set to the Open MPI that mpirun is of.",
        found_by="mpi_preflight",
    ),
    entry(
        "program-differs",
        "[{program}|The program] is another build than elsewhere[: {there}, and {here} on the launcher].",
        "Copy the same to all.",
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
        "[Rank {rank}|A rank] was killed (signal 9): by the kernel for want of memory, or by somebody.",
        'Look for "Out of memory" in the kernel\'s log (dmesg) of the host, and raise the memory limit of its pod or job.',
        sign(
            "noticed that process rank",
            r"process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) exited on +signal 9\b",
            lines=2,
        ),
        sign("Killed", r"srun: error: (?P<host>\S+): tasks? (?P<rank>\d+)\S*: Killed"),
        sign("terminated normally, but", _A_RANK, lines=2, status=137),
        sign("exited with non-zero status", _EXITED % "137", lines=5),
        primacy=EFFECT,
        statuses=(137,),
    ),
    entry(
        "rank-crashed",
        "[Rank {rank}|A rank] crashed[ (signal {signal})].",
        "Run it on that host alone with NCCL_DEBUG=INFO; see whether the libraries (NCCL, CUDA, UCX, Open MPI) are those that it"
        " was built with.",
        sign(
            "noticed that process rank",
            r"process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) exited on +signal (?P<signal>4|6|8|11)\b",
            lines=2,
        ),
        sign(
            "Process received signal",
            r"^\[(?P<host>[^:\]]+):\d+\] \*\*\* Process received signal .*?Signal: [^(]+\((?P<signal>4|6|8|11)\)",
            lines=3,
        ),
        sign("Caught signal", r"\[(?P<host>[^:\]\s]+):\d+[^\]]*\] Caught signal (?P<signal>4|6|8|11)\b"),
        sign("Segmentation fault", r"srun: error: (?P<host>\S+): tasks? (?P<rank>\d+)\S*: Segmentation fault"),
        sign("terminated normally, but", _A_RANK, lines=2, status=139),
        sign("terminated normally, but", _A_RANK, lines=2, status=134),
        sign("exited with non-zero status", _EXITED % "132|134|136|139", lines=5),
        primacy=EFFECT,
        statuses=(139, 134),
    ),
    entry(
        "rank-bus-error",
        "[Rank {rank}|A rank] touched memory that is not there (signal 7), as a rule because /dev/shm was full.",
        "Give /dev/shm more room: worker_pods_shm_size, mpijob_shm_size, --shm-size.",
        sign(
            "noticed that process rank",
            r"process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) exited on +signal 7\b",
            lines=2,
        ),
        sign(
            "Process received signal",
            r"^\[(?P<host>[^:\]]+):\d+\] \*\*\* Process received signal .*?Signal: [^(]+\(7\)",
            lines=3,
        ),
        sign("Caught signal", r"\[(?P<host>[^:\]\s]+):\d+[^\]]*\] Caught signal 7\b"),
        sign("terminated normally, but", _A_RANK, lines=2, status=135),
        sign("exited with non-zero status", _EXITED % "135", lines=5),
        primacy=EFFECT,
        statuses=(135,),
    ),
    entry(
        "rank-ended",
        "[Rank {rank}|A rank] was told to end[ (signal {signal})]: by a batch system, a pod's end, or somebody.",
        "Find out who did so: the batch system's time limit, kubectl get events, the host's log.",
        sign(
            "noticed that process rank",
            r"process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) exited on +signal (?P<signal>1|2|15)\b",
            lines=2,
        ),
        sign("terminated normally, but", _A_RANK, lines=2, status=143),
        sign("exited with non-zero status", _EXITED % "129|130|143", lines=5),
        primacy=EFFECT,
        statuses=(143, 130),
    ),
    entry(
        "daemon-killed",
        "What mpirun had started there was killed (signal 9), in containers as a rule for want of memory.",
        "Look for OOMKilled (kubectl describe pod), and raise the memory limit: worker_pods_resources, mpijob_resources.",
        sign("command terminated with exit code", r"command terminated with exit code 137\b"),
        sign("A daemon", r"A daemon (?:\(pid \d+\) )?died unexpectedly on signal 9\b"),
        primacy=EFFECT,
        statuses=(137,),
    ),
    entry(
        "mpi-error",
        "MPI failed[ in {call}].",
        "Look at what was printed before it; try mpirun with a program that only says hello.",
        sign("An error occurred in", r"\*\*\* An error occurred in (?P<call>MPI_\w+)"),
        sign(
            "It looks like",
            r"It looks like (?P<call>MPI_INIT|MPI_Init|orte_init|opal_init|prte_init) failed for some reason",
        ),
        primacy=ECHO + 35,
    ),
    entry(
        "python-exception",
        "A program in Python ended by an exception[: {reason}].",
        "Look at the traceback in the error output.",
        sign(
            "Traceback (most recent call last)",
            r"Traceback(?:.*\s(?P<reason>(?:[a-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception)\b(?:: .{1,120})?))?",
            lines=30,
        ),
        primacy=ECHO + 70,
        statuses=(1,),
    ),
    entry(
        "lost-connection",
        "mpirun lost the daemon there: the host, its network, or the daemon ended.",
        "See whether the host is up and what its log says; look for OOMKilled and restarts.",
        sign("lost communication with a remote daemon", r"Remote daemon ?: \S+ on node (?P<host>\S+)", lines=5),
        # It names a host that a message was for, not the one that is lost.
        sign("does not know how to route a message"),
        primacy=ECHO + 8,
    ),
    entry(
        "mpi-peer-gone",
        "A rank there went away while others were talking to it.",
        "Look at what that host printed before.",
        sign("peer process has unexpectedly disconnected", r"Peer host: +(?P<host>\S+)", lines=18),
        sign("mca_btl_tcp_frag_recv", r"mca_btl_tcp_frag_recv: readv failed: Connection reset"),
        primacy=ECHO + 20,
    ),
    entry(
        "mpi-aborted",
        "[Rank {rank}|A rank] ended the job itself (MPI_Abort).",
        "Look at what it printed before.",
        sign("MPI_ABORT was invoked on rank", r"MPI_ABORT was invoked on rank (?P<rank>\d+)"),
        primacy=ECHO + 30,
    ),
    entry(
        "daemon-not-started",
        "mpirun could not start its daemon on a host, and nothing says why.",
        "Run mpi_preflight, which looks at each step from the name to the way back.",
        sign("was unable to reliably start one or more daemons"),
        sign(
            "A daemon failed to report back after being spawned",
            r"failed to report back .*?Remote host: +(?P<host>\S+)",
            lines=10,
        ),
        sign("A daemon", r"A daemon (?:\(pid \d+\) )?died unexpectedly (?:with status|on signal (?!9\b))"),
        primacy=ECHO + 40,
        statuses=(1, 255),
    ),
    entry(
        "step-failed",
        "The host is not fit[ {step}][: {text}].",
        "Do what the message says.",
        primacy=EFFECT,
        found_by="the role preflight",
    ),
    entry(
        "not-run",
        "The run ended[ at {current},] before it came to this point.",
        "Run it again: what has finished is kept.",
        primacy=ECHO,
        found_by="mpi_run",
    ),
    entry(
        "stopped",
        "It was stopped before its end.",
        "Run it again: what has finished is kept.",
        primacy=ECHO,
        found_by="mpi_run",
    ),
    entry(
        "not-started",
        "mpirun itself could not be run[: {reason}].",
        "See that Open MPI is installed on the launcher; see gpufabric_mpi_prefix.",
        found_by="mpi_run",
    ),
    entry(
        "startup-timeout",
        "[Only {started} of {ranks} ranks had started after {seconds} s|Not all ranks had started in time][: none on {missing}].",
        "See that the hosts that are missing can be reached by the run's ssh and by the control network; where they need longer to"
        " start, raise startup_timeout.",
        primacy=ECHO,
        found_by="mpi_run",
    ),
    entry(
        "silence-timeout",
        "It printed nothing for [{seconds} s|long] and was ended.",
        "Find out what it waits for: a rank that hangs, a link that lost data. NCCL_DEBUG=INFO says what was done last. Where a step"
        " may take so long, raise silence_timeout.",
        primacy=ECHO,
        found_by="mpi_run",
    ),
    entry(
        "limit-reached",
        "The run's time[, {seconds} s,] was over before this point could be started.",
        "Run it again, which takes up here, or raise limit_time.",
        severity="warning",
        primacy=ECHO,
        found_by="mpi_run",
    ),
    entry(
        "orphaned",
        "Nobody asked for the run for [{seconds} s|long], so it ended itself.",
        "Run it again: what has finished is kept. Where nobody is to ask, raise orphan_timeout, or set it to 0.",
        primacy=ECHO,
        found_by="mpi_run",
    ),
    entry(
        "processes-left",
        "Nobody can say that no process of the run is left on the host[: {reason}].",
        "See to that host; when it can be reached again, run_cleanup or the playbook gpufabric.nccl.teardown ends what is left.",
        severity="warning",
        primacy=EFFECT,
        found_by="mpi_run",
    ),
    entry(
        "launcher-lost",
        "The launcher does not answer any more[: {reason}].",
        "See to the launcher, then run it again: what has finished is kept where the launcher still has it.",
        primacy=EFFECT,
        found_by="mpi_run",
    ),
    entry(
        "runner-lost",
        "The process that waited for the program on the launcher is gone[: {said}].",
        "Find out what ended it, such as the kernel for want of memory, or a restart; then run it again: what has finished is kept.",
        primacy=EFFECT,
        found_by="mpi_run",
    ),
    entry(
        "timeout",
        "It did not end [within {seconds} s|in time] and was ended[; no rank had started on {missing}].",
        "Give it more time (nccl_benchmark_timeout), or find out what it waits for: run it with NCCL_DEBUG=INFO, and mpi_preflight.",
        sign("The user-provided time limit for job execution", r"Timeout: (?P<seconds>\d+) seconds", lines=4),
        sign("DUE TO TIME LIMIT", r"(?:JOB|STEP) \S+ ON (?P<node>\S+) CANCELLED AT \S+ DUE TO TIME LIMIT"),
        primacy=ECHO + 50,
        statuses=(124, 110, 241),
        found_by="mpi_run",
    ),
)
