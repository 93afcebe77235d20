# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""How to start a program with Open MPI: one set of settings for 4.x (ORTE) and 5.x (PRRTE).

SETTINGS says what each version gets, RENAMED and DEAD what becomes of parameters that the user sets, LEFTOVERS what of
variables that an image or a batch system has set. What 5.0 ignores was found out with 5.0.11, where an unknown or obsolete
name is no error.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import ipaddress
import os
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import Hidden, NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import read_text

#: What mpirun hands on to the ranks unless the user says otherwise; ``*`` and ``?`` are wildcards. Ranks on other hosts
#: would run with other settings of the GPUs' and the networks' libraries than those beside mpirun.
FORWARDED_TO_RANKS = (
    *("LD_LIBRARY_PATH", "PATH"),
    *("NCCL_*", "RCCL_*", "CUDA_*", "HSA_*", "FI_*", "UCX_*", "SHARP_*"),
)

_MCA_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_INTERFACE = re.compile(r"[A-Za-z0-9_.:@-]{1,15}\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def check_environment(option: str, values: t.Mapping[str, str]) -> None:
    """Raise OptionError unless these are variables for ranks: names, and values of one line."""
    for name, value in values.items():
        if not _VARIABLE.match(name) or re.search("[\x00\n\ud800-\udfff]", value):
            raise OptionError(option, {name: Hidden()}, "names of environment variables, and values of one line")


def check_mca(option: str, values: t.Mapping[str, str]) -> None:
    """Raise OptionError unless these are MCA parameters: names, and values of one line."""
    for name, value in values.items():
        if not _MCA_NAME.match(name) or re.search("[\x00-\x1f\ud800-\udfff]", value):
            raise OptionError(option, {name: value}, "names of MCA parameters, and values of one line")


class Setting(t.NamedTuple):
    """A setting and how it is told to each version: an option of mpirun or a variable, ``{}`` around a value of the launch.

    Empty where a version has nothing of the kind. It is left out where the launch has no such value.
    """

    name: str
    four: str
    five: str
    why: str
    since: tuple[int, int] = (4, 0)

    def forms(self, release: tuple[int, int] | None) -> tuple[str, ...]:
        """What a release gets; for None, where it is not known, what each version gets."""
        if release is None:
            return tuple(dict.fromkeys(form for form in (self.four, self.five) if form))
        form = self.four if release < (5, 0) else self.five
        return (form,) if form and release >= self.since else ()


#: Options have two dashes: with one, 5.x ignores some of them without a word and takes others for the program.
SETTINGS = (
    Setting(
        "where Open MPI is",
        "--prefix {prefix}",
        "--prefix {prefix}",
        "The other nodes find the daemon and its libraries there; a login by ssh has neither on its paths.",
    ),
    Setting("hosts", "--hostfile {hostfile}", "--hostfile {hostfile}", "It comes before any default hostfile."),
    Setting("ranks", "--np {ranks}", "--np {ranks}", "One for each slot, or for each GPU."),
    Setting("mapping", "--map-by {mapping}", "--map-by {mapping}", "slot, or ppr:N:node for N ranks on each node."),
    Setting("binding", "--bind-to none", "--bind-to none", "NCCL's threads choose their own processors."),
    Setting("root", "--allow-run-as-root", "--allow-run-as-root", "Containers mostly run as root."),
    Setting(
        "root", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT=1", "PRTE_ALLOW_RUN_AS_ROOT is not for mpirun."
    ),
    Setting(
        "root",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
        "The second of the two that are asked for.",
    ),
    Setting("start by ssh", "OMPI_MCA_plm=rsh", "PRTE_MCA_plm=ssh", "Not by a batch system that is there too."),
    Setting(
        "ssh",
        "OMPI_MCA_plm_rsh_agent={agent}",
        "PRTE_MCA_plm_ssh_agent={agent}",
        "The run's own ssh configuration. From 5.0.6 on OMPI_MCA_plm_rsh_agent is ignored.",
    ),
    Setting(
        "control network of the daemons",
        "OMPI_MCA_oob_tcp_if_include={control}",
        "PRTE_MCA_prte_if_include={control}",
        "Without it they try all networks, and hang if one leads nowhere.",
    ),
    Setting(
        "control network of the ranks",
        "--mca btl_tcp_if_include {control}",
        "--mca btl_tcp_if_include {control}",
        "The same for MPI's own messages.",
    ),
    Setting("messages", "--mca pml ob1", "--mca pml ob1", "Not UCX, which would take NCCL's network devices."),
    Setting(
        "transport", "--mca btl self,tcp", "--mca btl self,tcp", "MPI passes small messages only; NCCL moves the data."
    ),
    Setting(
        "collectives of UCC",
        "--mca coll_ucc_enable 0",
        "--mca coll_ucc_enable 0",
        "They would take GPU memory and network devices. Open MPI 4.0 has none.",
        (4, 1),
    ),
    Setting("collectives of HCOLL", "--mca coll_hcoll_enable 0", "--mca coll_hcoll_enable 0", "The same."),
    Setting(
        "explanations",
        "--mca mpi_abort_delay 1",
        "--mca mpi_abort_delay 1",
        "A rank that gives up waits a second, so that mpirun can print its last lines.",
    ),
    Setting(
        "parameter files",
        "--mca mca_base_param_files {no_files}",
        "",
        "Only if one of them contradicts the run. Open MPI 5 always reads them.",
    ),
    Setting("libraries", "LD_LIBRARY_PATH={libraries}", "LD_LIBRARY_PATH={libraries}", "Open MPI's own come first."),
    Setting(
        "relocation",
        "OPAL_PREFIX={relocated}",
        "OPAL_PREFIX={relocated}",
        "HPC-X runs at another place than it was built for.",
    ),
    Setting(
        "data network",
        "NCCL_SOCKET_IFNAME={data}",
        "NCCL_SOCKET_IFNAME={data}",
        "With = before the names: NCCL takes net1 for the beginning of a name, and net10 with it.",
    ),
)

#: Parameters of the runtime that have the same meaning in both, there as orte_NAME and here as prte_NAME.
_RUNTIME = (
    "allocation_required",
    "daemon_cores",
    "default_dash_host",
    "default_hostfile",
    "hostname_cutoff",
    "keep_fqdn_hostnames",
    "launch_agent",
    "leave_session_attached",
    "local_tmpdir_base",
    "max_vm_size",
    "remote_tmpdir_base",
    "report_launch_progress",
    "set_default_slots",
    "show_resolved_nodenames",
    "tmpdir_base",
    "xterm",
)

#: MCA parameters that have another name in the other version, 4.x first.
RENAMED = (
    ("oob_tcp_if_include", "prte_if_include"),
    ("oob_tcp_if_exclude", "prte_if_exclude"),
    ("routed_radix", "rml_base_radix"),
    *((f"orte_{name}", f"prte_{name}") for name in _RUNTIME),
    ("plm_rsh_*", "plm_ssh_*"),
    ("btl_vader_*", "btl_sm_*"),
)

#: MCA parameters without effect: version (0: both), name, why.
DEAD = (
    (0, "orte_abort_timeout", "no version from 4.0 on has it; set a time-out of the run instead"),
    (0, "mca_base_env_list", "it excludes -x, which hands variables on; name them in nccl_benchmark_forward_env"),
    (0, "hwloc_base_binding_policy", "ranks are not bound"),
    (0, "rmaps_base_mapping_policy", "nccl_benchmark_ranks_per_node chooses the mapping"),
    (5, "rmaps_default_mapping_policy", "nccl_benchmark_ranks_per_node chooses the mapping"),
    (5, "hwloc_default_binding_policy", "ranks are not bound"),
    (5, "routed", "Open MPI 5 has no routed framework; its daemons talk to each other over a tree of 64 branches"),
    (5, "routed_*", "Open MPI 5 has no routed framework"),
    (5, "oob_tcp_*", "Open MPI 5 has only the choice of interfaces of it"),
    (5, "orte_*", "Open MPI 5 has another runtime"),
    (5, "btl_openib_*", "Open MPI 5 has no openib"),
    (4, "prte_*", "Open MPI 4 has another runtime"),
    (4, "rml_base_radix", "Open MPI 4 has another runtime"),
)

#: Transports of the parameter btl that have another name, or none, in a version.
TRANSPORTS: dict[int, dict[str, str | None]] = {4: {"sm": "vader"}, 5: {"vader": "sm", "openib": None}}

#: What cannot be set together: a list of interfaces not to use, and the list of those to use that it excludes.
_EXCLUSIVE = {
    "btl_tcp_if_exclude": "btl_tcp_if_include",
    "oob_tcp_if_exclude": "oob_tcp_if_include",
    "prte_if_exclude": "prte_if_include",
}

#: What Open MPI 4 and 5 call the program that logs in.
_AGENTS = ("plm_rsh_agent", "plm_ssh_agent")
_EXCLUDES = "interfaces to use and interfaces not to use exclude each other, and the run says which to use"
_BATCH = "it makes mpirun take its hosts from a batch system and start its daemons there"

#: Variables that are taken out of mpirun's environment: pattern, the value of the launch that they contradict, why.
LEFTOVERS = (
    ("*_MCA_btl_tcp_if_exclude", "control", _EXCLUDES),
    ("*_MCA_oob_tcp_if_exclude", "control", _EXCLUDES),
    ("*_MCA_prte_if_exclude", "control", _EXCLUDES),
    ("*_MCA_plm_rsh_args", "agent", "the run has an ssh configuration of its own"),
    ("*_MCA_plm_ssh_args", "agent", "the run has an ssh configuration of its own"),
    ("*_MCA_*_launch_agent", "prefix", "the daemons are those of the run's Open MPI"),
    ("*_MCA_*_default_hostfile", "hostfile", "the run has a hostfile of its own"),
    ("*_MCA_rmaps_*", "mapping", "the run says how ranks are mapped"),
    ("*_MCA_hwloc_*_binding_policy", "mapping", "ranks are not bound"),
    ("OMPI_MCA_mca_base_env_list", "prefix", "it excludes -x, which hands variables on"),
    ("PRTE_MCA_schizo*", "prefix", "it is what another mpirun has left"),
    ("SLURM_JOBID", "hostfile", _BATCH),
    ("SLURM_JOB_ID", "hostfile", _BATCH),
    ("PBS_ENVIRONMENT", "hostfile", _BATCH),
    ("PBS_JOBID", "hostfile", _BATCH),
    ("LSB_JOBID", "hostfile", _BATCH),
    ("PE_HOSTFILE", "hostfile", _BATCH),
)

#: Where Open MPI and its runtime are; one that leads elsewhere makes mpirun read the files of another.
PREFIX_VARIABLES = ("OPAL_PREFIX", "PRTE_PREFIX", "PMIX_PREFIX")

#: Parameters that must not be in a parameter file: name, the value of the launch that it contradicts, why.
_NOT_IN_FILES = (
    ("btl_tcp_if_exclude", "control", _EXCLUDES),
    ("oob_tcp_if_exclude", "control", _EXCLUDES),
    ("prte_if_exclude", "control", _EXCLUDES),
    ("mca_base_env_list", "prefix", "it excludes -x, which hands variables on"),
    ("orte_launch_agent", "prefix", "the daemons are those of the run's Open MPI"),
    ("prte_launch_agent", "prefix", "the daemons are those of the run's Open MPI"),
)

# Names of interfaces, components, files and jobs; of anything else a value may be secret.
_SHOWN = re.compile(r"(_if_(in|ex)clude|_hostfile|MCA_(pml|btl|plm)|_enable|_PREFIX|_policy|_IFNAME|JOB_?ID)\Z")


@dataclasses.dataclass(frozen=True)
class Launch:
    """One start of a program on many nodes, checked.

    ``control``: names of interfaces or subnets in CIDR notation, separated by commas. ``data_interface``: names of
    interfaces, in the same way. ``version``: of the mpirun, such as 4.1.4; None: not known, it may be any. ``vendor``: as
    find_mpi says. ``node_env``: variables that differ between nodes, as they are on this one; the others have their own.
    ``files``: the texts of Open MPI's parameter files and default hostfiles on this node, by path.
    """

    mpirun: str
    prefix: str
    hostfile: str
    ranks: int
    ranks_per_node: int | None
    agent: tuple[str, ...]
    control: str | None = None
    data_interface: str | None = None
    forward_env: tuple[str, ...] = FORWARDED_TO_RANKS
    mca: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    version: str | None = None
    vendor: str | None = None
    node_env: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    files: t.Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.control is not None:
            for word in self.control.split(","):
                if not _INTERFACE.match(word) and not _is_subnet(word):
                    raise OptionError(
                        "control_interface",
                        self.control,
                        "the name of an interface, or an IPv4 subnet such as 10.0.0.0/24; several with commas between",
                    )
        if self.data_interface is not None and not all(map(_INTERFACE.match, self.data_interface.split(","))):
            raise OptionError(
                "data_interface", self.data_interface, "the name of an interface; several with commas between"
            )
        check_mca("mca", self.mca)
        for name, value in self.node_env.items():
            if not _VARIABLE.match(name) or "\0" in value:
                raise OptionError("node_env", name, "names of environment variables, and text")

    @property
    def release(self) -> tuple[int, int] | None:
        """Its first two numbers; None where the version is not known."""
        return None if self.version is None else parse_release(self.version)


class Conflict(t.NamedTuple):
    """What an image or a batch system has set against the launch. ``value`` None: it is not to be shown."""

    name: str
    value: str | None
    where: str
    done: str
    why: str

    def __str__(self) -> str:
        shown = self.name if self.value is None else f"{self.name}={self.value}"
        return f"{shown} in {self.where} is {self.done}: {self.why}"


def is_foreign(name: str, value: str, prefix: str) -> bool:
    """Whether a variable makes the mpirun of a prefix take itself for one that is installed elsewhere."""
    return name in PREFIX_VARIABLES and os.path.realpath(value) != os.path.realpath(prefix)


def exact_names(interfaces: str) -> str:
    """The value of NCCL_SOCKET_IFNAME for names of interfaces with commas between."""
    return f"={interfaces}"


def parse_release(version: str) -> tuple[int, int]:
    """The first two numbers of a version, such as 4.1.6amzn1. Raises NodeError."""
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None:
        raise NodeError(f"{version!r} is no version of Open MPI")
    return int(match.group(1)), int(match.group(2))


def check_hosts(release: tuple[int, int] | None, names: t.Sequence[str]) -> None:
    """Raise OptionError where this release of Open MPI starts nothing on hosts that the hostfile calls by these names.

    The daemons of Open MPI 4 get all names in a notation of their own, in which a colon separates, and crash.
    """
    six = [name for name in names if ":" in name]
    if six and len(names) > 1 and release is not None and release[0] == 4:
        allowed = "host names and IPv4 addresses; the daemons of Open MPI 4 crash on IPv6 addresses, those of 5 do not"
        raise OptionError("hostfile", six[0], allowed)


def unusable(mpi: t.Mapping[str, t.Any] | None) -> str | None:
    """Why programs cannot be started by the node's MPI, None where they can."""
    if mpi is None:
        return "mpirun is not on this node"
    if mpi["implementation"] != "openmpi":
        others = {"mpich": "MPICH", "intel": "Intel MPI", "mvapich": "MVAPICH"}
        what = others.get(mpi["implementation"])
        said = f"{what} {mpi['version']}".strip() if what else f"says {mpi['version']!r}"
        return f"{mpi['mpirun']} is not Open MPI's but {'of ' if what else ''}{said}"
    if parse_release(mpi["version"])[0] < 4:
        return f"{mpi['mpirun']} is of Open MPI {mpi['version']}"
    return None


def check_implementation(mpi: t.Mapping[str, t.Any] | None) -> t.Mapping[str, str]:
    """The node's MPI, if it is one that this can start programs with. Raises NodeError."""
    reason = unusable(mpi)
    if reason is not None or mpi is None:
        raise NodeError(
            f"{reason}; install Open MPI 4 or 5 (Debian, Ubuntu: apt-get install openmpi-bin;"
            " RHEL and its kin: dnf install openmpi), or set mpi_prefix to the directory that holds its bin/mpirun"
        )
    return mpi


def library_path(prefix: str, inherited: str) -> str:
    """An LD_LIBRARY_PATH that leads to the libraries of an Open MPI, before what is on it already."""
    own = [] if prefix == "/usr" else [os.path.join(prefix, "lib"), os.path.join(prefix, "lib64")]
    return ":".join([*own, *(path for path in inherited.split(":") if path)])


def parameter_files(mpi: t.Mapping[str, str], home: str) -> list[str]:
    """Where an Open MPI looks for parameters and default hosts, as find_mpi found it. Distributions have them in /etc."""
    etc = {"/usr": "/etc/openmpi", "/usr/lib64/openmpi": "/etc/openmpi-x86_64"}.get(
        mpi["prefix"], os.path.join(mpi["prefix"], "etc")
    )
    user = os.path.join(home, ".openmpi", "mca-params.conf")
    if parse_release(mpi["version"])[0] < 5:
        return [os.path.join(etc, name) for name in ("openmpi-mca-params.conf", "openmpi-default-hostfile")] + [user]
    system = [
        os.path.join(etc, name) for name in ("openmpi-mca-params.conf", "prte-mca-params.conf", "prte-default-hostfile")
    ]
    return [*system, user, os.path.join(home, ".prte", "mca-params.conf")]


def read_parameter_files(mpi: t.Mapping[str, str], home: str) -> dict[str, str]:
    """The texts of those that there are, for ``Launch.files``. Raises NodeError."""
    texts = {path: read_text(path) for path in parameter_files(mpi, home)}
    return {path: text for path, text in texts.items() if text is not None}


def conflicts(launch: Launch, inherited: t.Mapping[str, str]) -> list[Conflict]:
    """What contradicts a launch in the environment that it is started from, and in files; ``environment`` and ``argv`` see to it.

    Raises NodeError where a file contradicts it and Open MPI cannot be kept from reading it.
    """
    values, where = _values(launch, {}), "the environment"
    found = []
    settings = {**_variables(launch, {}), **{f"OMPI_MCA_{name}": value for name, value in _parameters(launch).items()}}
    for name in sorted(inherited):
        why = _leftover(name, inherited[name], launch, values)
        if why:
            found.append(Conflict(name, _shown(name, inherited[name]), where, "left out", why))
        elif name in settings and settings[name] != inherited[name] and name != "LD_LIBRARY_PATH":
            found.append(Conflict(name, _shown(name, inherited[name]), where, "overridden", "the run sets it itself"))
    return found + _file_conflicts(launch, values)


def _leftover(name: str, value: str, launch: Launch, values: t.Mapping[str, str | None]) -> str | None:
    """Why a variable is taken out of the environment; None where it stays."""
    if is_foreign(name, value, launch.prefix):
        return f"the run's Open MPI is in {launch.prefix}"
    for pattern, against, why in LEFTOVERS:
        if values[against] is not None and fnmatch.fnmatchcase(name, pattern):
            return why
    return None


def _file_conflicts(launch: Launch, values: t.Mapping[str, str | None]) -> list[Conflict]:
    found = []
    five = launch.release is not None and launch.release >= (5, 0)
    for path, text in launch.files.items():
        lines = [line.partition("#")[0].strip() for line in text.splitlines()]
        if path.endswith("hostfile"):
            if any(lines):
                found.append(Conflict("hosts", None, path, "overridden", "the run has a hostfile of its own"))
            continue
        halves = (line.partition("=") for line in lines if "=" in line)
        parameters = {name.strip(): value.strip() for name, _sign, value in halves}
        for name, against, why in _NOT_IN_FILES:
            if (
                name not in parameters
                or values[against] is None
                or (five and name.startswith(("mca_", "orte_", "oob_")))
            ):
                continue
            if five:
                raise NodeError(
                    f"{path} sets {name}, and Open MPI {launch.version} reads it in any case: {why}; remove that line"
                )
            why = f"{why}; what else the parameter files of Open MPI say is not read either, give what is needed as mca"
            found.append(Conflict(name, _shown(name, parameters[name]), path, "left out", why))
    return found


def _shown(name: str, value: str) -> str | None:
    return value if _SHOWN.search(name) and re.match(r"[ -~]{0,80}\Z", value) else None


def notes(launch: Launch, variables: t.Mapping[str, str] | None = None) -> list[str]:
    """What is not passed on as the user has set it, and why, one text each; and that another agent logs in than that of the run.

    ``variables``: those of the points.
    """
    agent = f"{' '.join(launch.agent)}, which has the keys and ports of the run"
    told = [f"mca: {name} is used in place of {agent}" for name in launch.mca if name in _AGENTS]
    parameters = _parameters(launch)
    for name, value in (variables or {}).items():
        parameter = name.partition("_MCA_")[2]
        if _is_agent(launch, name):
            told.append(f"env: {name} has no effect, for mpirun logs in by {agent}")
        elif name == f"OMPI_MCA_{parameter}" and parameters.get(parameter, value) != value:
            words = f"--mca {parameter} {parameters[parameter]}"
            told.append(f"env: {name} has no effect, for mpirun is told {words}; give it as mca")
    return [*(text for _name, _value, text in _translated(launch) if text), *told]


def _is_agent(launch: Launch, name: str) -> bool:
    """Whether a variable says how mpirun logs in."""
    return name.partition("_MCA_")[2] in _AGENTS and name in _variables(launch, {})


def environment(launch: Launch, inherited: t.Mapping[str, str], point: t.Mapping[str, str]) -> dict[str, str]:
    """The environment to start mpirun in: inherited, but for what contradicts it, plus the launch's settings and the point's."""
    values = _values(launch, {})
    kept = {name: text for name, text in inherited.items() if not _leftover(name, text, launch, values)}
    # A point has variables for its ranks; mpirun's own ways are the launch's.
    own = {name: value for name, value in point.items() if name != "LD_LIBRARY_PATH" and not _is_agent(launch, name)}
    return {**kept, **_variables(launch, {**inherited, **point}), **launch.node_env, **own}


def common_options(launch: Launch) -> list[str]:
    """The options of mpirun that do not depend on where it runs what."""
    return ["--bind-to", "none", "--allow-run-as-root", *_mca_options(launch)]


def pod_environment(launch: Launch) -> dict[str, str]:
    """All settings of a launch as variables, for the launcher of an MPIJob, in which people may call mpirun too.

    4.x gets its default hostfile from the operator, and the order to keep domains. 5.x gets the hostfile here; it must not
    keep domains, for it would not know its own host by its short name. Agent and hostfile are on the launcher alone, so
    daemons start no further daemons.
    """
    return {
        **environment(launch, {}, {}),
        **{f"OMPI_MCA_{name}": value for name, value in _parameters(launch).items()},
        "PRTE_MCA_prte_default_hostfile": launch.hostfile,
        "PRTE_MCA_prte_keep_fqdn_hostnames": "false",
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        # 5.0.11 hangs where the launcher has more hosts to start by itself than it may start at once, 128 by default.
        "PRTE_MCA_plm_ssh_num_concurrent": str(max(128, launch.ranks)),
    }


def argv(
    launch: Launch, variables: t.Mapping[str, str], always: t.Collection[str], program: t.Sequence[str]
) -> list[str]:
    """The command line of mpirun. ``always``: variables that go to the ranks whatever ``forward_env`` says.

    Values go by the environment, so they may be any text. Those of ``node_env`` must not: each node has its own.
    """
    command = [launch.mpirun]
    for words in _forms(launch, "--", _values(launch, {})):
        if words[0] != "--mca":
            command += words
    command += _mca_options(launch)
    for name in sorted(variables):
        forwarded = any(fnmatch.fnmatchcase(name, pattern) for pattern in launch.forward_env)
        own = name in launch.node_env or _names_devices(name, variables[name])
        if name in always or (forwarded and not own):
            command += ["-x", name]
    return [*command, *program]


def _names_devices(name: str, value: str) -> bool:
    """Whether a variable such as CUDA_VISIBLE_DEVICES lists GPUs by UUID: those are of one node."""
    return name.endswith("_VISIBLE_DEVICES") and re.match(r"(?:GPU|MIG)-", value) is not None


def _is_subnet(text: str) -> bool:
    try:
        # Open MPI reads no other.
        return "/" in text and isinstance(ipaddress.ip_network(text, strict=False), ipaddress.IPv4Network)
    except ValueError:
        return False


def _values(launch: Launch, variables: t.Mapping[str, str]) -> dict[str, str | None]:
    """What SETTINGS refer to. ``variables``: of which LD_LIBRARY_PATH is added to."""
    values: dict[str, str | None] = {
        "prefix": launch.prefix,
        "hostfile": launch.hostfile,
        "ranks": str(launch.ranks),
        "mapping": "slot" if launch.ranks_per_node is None else f"ppr:{launch.ranks_per_node}:node",
        "agent": " ".join(launch.agent),
        "control": launch.control,
        "data": None if launch.data_interface is None else exact_names(launch.data_interface),
        "libraries": library_path(launch.prefix, variables.get("LD_LIBRARY_PATH", "")) or None,
        "relocated": launch.prefix if launch.vendor == "hpcx" else None,
    }
    return {**values, "no_files": "none" if _files_contradict(launch, values) else None}


def _files_contradict(launch: Launch, values: t.Mapping[str, str | None]) -> bool:
    return any(conflict.done == "left out" for conflict in _file_conflicts(launch, values))


def _forms(launch: Launch, start: str, values: t.Mapping[str, str | None]) -> t.Iterator[list[str]]:
    """The words of each setting that begins, or for an empty start does not begin, with dashes."""
    for setting in SETTINGS:
        for form in setting.forms(launch.release):
            names = re.findall(r"{(\w+)}", form)
            if form.startswith("--") == bool(start) and all(values[name] is not None for name in names):
                separator = " " if start else "="
                yield [word.format(**values) for word in form.split(separator)]


def _variables(launch: Launch, variables: t.Mapping[str, str]) -> dict[str, str]:
    """The settings that are variables."""
    found = dict(_forms(launch, "", _values(launch, variables)))
    for excluding, excluded in _EXCLUSIVE.items():
        if excluding in (name for name, _value, _text in _translated(launch)):
            for family in ("OMPI", "PRTE"):
                found.pop(f"{family}_MCA_{excluded}", None)
    return found


def _parameters(launch: Launch) -> dict[str, str]:
    """The settings that are MCA parameters of mpirun, and those of the user, which come first."""
    own = {words[1]: words[2] for words in _forms(launch, "--", _values(launch, {})) if words[0] == "--mca"}
    users = {name: value for name, value, _text in _translated(launch) if name}
    for excluding, excluded in _EXCLUSIVE.items():
        if excluding in users:
            own.pop(excluded, None)
    return {**own, **users}


def _mca_options(launch: Launch) -> list[str]:
    options = []
    for name, value in _parameters(launch).items():
        # With --mca, 5.x guesses whose parameter it is.
        runtime = launch.release is not None and launch.release >= (5, 0) and name.startswith(("prte_", "plm_", "rml_"))
        options += ["--prtemca" if runtime else "--mca", name, value]
    return options


def _translated(launch: Launch) -> list[tuple[str, str, str]]:
    """The user's parameters as the version takes them: name, empty where it has none, value, and what there is to say."""
    if launch.release is None:
        return [(name, value, "") for name, value in launch.mca.items()]
    major = min(launch.release[0], 5)
    return [_translate(name, value, major) for name, value in launch.mca.items()]


def _translate(name: str, value: str, major: int) -> tuple[str, str, str]:
    for names in RENAMED:
        old, new = names if major == 5 else names[::-1]
        if fnmatch.fnmatchcase(name, old):
            renamed = name.replace(old.rstrip("*"), new.rstrip("*"), 1)
            return renamed, value, f"mca: {name} is called {renamed} in Open MPI {major}"
    for version, pattern, why in DEAD:
        if version in (0, major) and fnmatch.fnmatchcase(name, pattern):
            return "", "", f"mca: {name} is left out, for {why}"
    if name == "btl":
        return _translate_transports(value, major)
    return name, value, ""


def _translate_transports(value: str, major: int) -> tuple[str, str, str]:
    sign, words = ("^", value[1:].split(",")) if value.startswith("^") else ("", value.split(","))
    known = [TRANSPORTS[major].get(word, word) for word in words]
    changed = sign + ",".join(dict.fromkeys(word for word in known if word is not None))
    if changed == value:
        return "btl", value, ""
    if changed == sign:
        return "", "", f"mca: btl {value} is left out, for Open MPI {major} has no such transport"
    return (
        "btl",
        changed,
        f"mca: btl {value} is {changed} in Open MPI {major}, where shared memory is {'sm' if major == 5 else 'vader'}",
    )
