# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""How to start a program with Open MPI: one set of settings for 4.x (ORTE) and 5.x (PRRTE)."""

from __future__ import annotations

import dataclasses
import fnmatch
import os
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError

#: What mpirun hands on to the ranks unless the user says otherwise; ``*`` and ``?`` are wildcards.
FORWARDED_TO_RANKS = ("LD_LIBRARY_PATH", "PATH", "NCCL_*")

#: NCCL moves the data; MPI starts processes and passes small messages, over plain TCP.
_MPI_PARAMETERS = {
    "pml": "ob1",
    "btl": "self,tcp",
    "coll_ucc_enable": "0",
    "coll_hcoll_enable": "0",
}

_MCA_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_INTERFACES = re.compile(r"[A-Za-z0-9_.:/@-]+\Z")


@dataclasses.dataclass(frozen=True)
class Launch:
    """One start of a program on many nodes, checked. ``control``: an interface's name or a subnet in CIDR notation."""

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

    def __post_init__(self) -> None:
        for option, value in (("control_interface", self.control), ("data_interface", self.data_interface)):
            if value is not None and not _INTERFACES.match(value):
                raise OptionError(option, value, "the name of an interface, or a subnet")
        for name, value in self.mca.items():
            if not _MCA_NAME.match(name) or re.search(r"[\x00-\x1f]", value):
                raise OptionError("mca", {name: value}, "names of MCA parameters, and values of one line")


def check_implementation(mpi: t.Mapping[str, str] | None) -> t.Mapping[str, str]:
    """The node's MPI, if it is one that this can start programs with. Raises NodeError."""
    if mpi is None:
        raise NodeError(
            "mpirun is not on this node; install Open MPI (Debian, Ubuntu: apt-get install openmpi-bin;"
            " RHEL and its kin: dnf install openmpi), or set mpi_prefix to the directory that holds bin/mpirun"
        )
    if mpi["implementation"] != "openmpi":
        raise NodeError(
            f"{mpi['mpirun']} is not Open MPI's but says {mpi['version']!r}; set mpi_prefix to an Open MPI 4 or 5"
        )
    if int(mpi["version"].split(".")[0]) < 4:
        raise NodeError(f"{mpi['mpirun']} is of Open MPI {mpi['version']}; set mpi_prefix to an Open MPI 4 or 5")
    return mpi


def library_path(prefix: str, inherited: str) -> str:
    """An LD_LIBRARY_PATH that leads to the libraries of an Open MPI, before what is on it already."""
    own = [] if prefix == "/usr" else [os.path.join(prefix, "lib"), os.path.join(prefix, "lib64")]
    return ":".join([*own, *(path for path in inherited.split(":") if path)])


def environment(launch: Launch, inherited: t.Mapping[str, str], point: t.Mapping[str, str]) -> dict[str, str]:
    """The environment to start mpirun in: inherited, plus the launch's settings, plus the point's own.

    Each setting of the runtime goes by both names, since 4.x knows only OMPI_MCA_* and 5.0.6 and later only PRTE_MCA_*
    for it, and neither says so when it ignores one.
    """
    agent = " ".join(launch.agent)
    settings = {
        "LD_LIBRARY_PATH": library_path(launch.prefix, {**inherited, **point}.get("LD_LIBRARY_PATH", "")),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_plm_rsh_agent": agent,
        "PRTE_MCA_plm_ssh_agent": agent,
    }
    if launch.control is not None:
        settings["OMPI_MCA_oob_tcp_if_include"] = launch.control
        settings["PRTE_MCA_prte_if_include"] = launch.control
    if launch.data_interface is not None:
        settings["NCCL_SOCKET_IFNAME"] = launch.data_interface
    if not settings["LD_LIBRARY_PATH"]:
        del settings["LD_LIBRARY_PATH"]
    return {**inherited, **settings, **{name: value for name, value in point.items() if name != "LD_LIBRARY_PATH"}}


def common_options(launch: Launch) -> list[str]:
    """The options of mpirun that do not depend on where it runs what."""
    options = ["--bind-to", "none", "--allow-run-as-root"]
    for name, value in _parameters(launch).items():
        options += ["--mca", name, value]
    return options


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
    }


def _parameters(launch: Launch) -> dict[str, str]:
    control = {} if launch.control is None else {"btl_tcp_if_include": launch.control}
    return {**_MPI_PARAMETERS, **control, **launch.mca}


def argv(
    launch: Launch, variables: t.Mapping[str, str], always: t.Collection[str], program: t.Sequence[str]
) -> list[str]:
    """The command line of mpirun. ``always``: variables that go to the ranks whatever ``forward_env`` says.

    Options have two dashes: with one, 5.x ignores some of them without a word and takes others for the program.
    """
    mapping = "slot" if launch.ranks_per_node is None else f"ppr:{launch.ranks_per_node}:node"
    command = [launch.mpirun, "--prefix", launch.prefix, "--hostfile", launch.hostfile, "--np", str(launch.ranks)]
    command += ["--map-by", mapping, *common_options(launch)]
    for name in sorted(variables):
        if name in always or any(fnmatch.fnmatchcase(name, pattern) for pattern in launch.forward_env):
            command += ["-x", name]
    return [*command, *program]
