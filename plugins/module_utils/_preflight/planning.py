# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""From the options of mpi_preflight to the checks that they ask for."""

from __future__ import annotations

import os
import socket
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import read_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.hostfile import parse_hostfile
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.openmpi import (
    Launch,
    check_implementation,
    environment,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import parse_address, read_addresses
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.info import find_mpi
from ansible_collections.gpufabric.nccl.plugins.module_utils._options import environment_texts
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.checks import Expected, Settings
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.sessions import (
    Peer,
    Preflight,
    choose_callback_address,
    parse_ssh_config,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.account import Account
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.mesh import (
    agent,
    check_environment_names,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.programs import find_openssh_program


def read_config(run_dir: RunDir) -> str:
    """The text of the run's ssh configuration. Raises GpufabricError."""
    config = read_text(run_dir.ssh_config) or ""
    if not parse_ssh_config(config):
        raise OptionError("run_dir", run_dir.path, "the directory of a run with ssh/config, as ssh_mesh writes it")
    return config


def choose_peers(hosts: list[dict[str, t.Any]] | None, run_dir: RunDir, config: str) -> list[Peer]:
    """The hosts to check. Raises GpufabricError."""
    if hosts is None:
        hostfile = read_text(run_dir.hostfile)
        if hostfile is None:
            return [Peer(address, address) for address in parse_ssh_config(config)]
        return [Peer(host.name) for host in parse_hostfile(hostfile, run_dir.hostfile)]
    if not hosts:
        raise OptionError("hosts", hosts, "at least one host with its name")
    names: set[str] = set()
    for index, host in enumerate(hosts):
        if host["name"] in names:
            raise OptionError(f"hosts[{index}].name", host["name"], "each host once")
        names.add(host["name"])
        if host["address"] is not None:
            host["address"] = parse_address(f"hosts[{index}].address", host["address"])
    return [Peer(**host) for host in hosts]


def check_values(values: t.Mapping[str, t.Any], prefix: str = "") -> dict[str, str | None]:
    """The environment of the program as texts, if all values can be meant. Raises OptionError. ``prefix``: of their names."""
    timeout, expect = values[f"{prefix}timeout"], values[f"{prefix}expect"]
    if not 0 < timeout <= 60:
        raise OptionError(f"{prefix}timeout", timeout, "more than 0 and at most 60 seconds")
    for name, value in expect.items():
        # Below a number that is none is nothing.
        if value is not None and not value >= 0:
            raise OptionError(f"{prefix}expect.{name}", value, "0 or more")
    return environment_texts(f"{prefix}env", values[f"{prefix}env"] or {})


def plan(params: dict[str, t.Any], run_dir: RunDir, config: str, peers: list[Peer]) -> Preflight:
    """The checks that the options ask for. Raises GpufabricError."""
    check_environment_names("environment", params["environment"])
    given = check_values(params)
    mpi = check_implementation(find_mpi(params["mpi_prefix"]))
    ssh = agent(find_openssh_program("ssh"), run_dir)
    addresses = read_addresses()
    own = {item.address for item in addresses}
    itself = next((peer for peer in peers if peer.address in own), None)
    control = params["control_interface"]
    if control and itself and itself.control_interface:
        control = itself.control_interface
    launch = Launch(mpi["mpirun"], mpi["prefix"], "", 1, None, tuple(ssh), control, params["data_interface"])
    callback = choose_callback_address(control, addresses, next((peer.address for peer in peers if peer.address), None))
    # Ranks have nothing of the launcher's that is not to be set.
    inherited = {name: value for name, value in os.environ.items() if given.get(name, value) is not None}
    # The program's libraries are found by the path that its ranks have.
    libraries = {name: value for name, value in given.items() if name == "LD_LIBRARY_PATH" and value is not None}
    variables = Account(run_dir).added_to(environment(launch, inherited, libraries))
    is_four = mpi["version"].startswith("4.")
    settings = Settings(
        launcher=itself.name if itself else socket.gethostname(),
        prefix=mpi["prefix"],
        daemon="orted" if is_four else "prted",
        run_dir=run_dir.path,
        full=params["level"] == "full",
        # The daemons of Open MPI 4 get OPAL_PREFIX from mpirun, if it has one itself, as that of HPC-X.
        gives_prefix=not is_four or mpi["vendor"] == "hpcx" or "OPAL_PREFIX" in variables,
        program=params["program"],
        control=params["control_interface"],
        data_interface=params["data_interface"],
        environment=tuple(params["environment"]),
        rank_env={name: value for name, value in given.items() if value is not None},
        launcher_env=inherited,
        timeout=params["timeout"],
        expected=Expected(**params["expect"]),
    )
    return Preflight(settings, ssh, config, variables, callback)
