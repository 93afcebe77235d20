#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sshd_instance
short_description: Run a private sshd for mpirun on a node
version_added: 0.1.0
description:
  - Starts an sshd for the run, beside the system's. It has its own host keys, authorized keys, client key pair and port, and is bound to
    one address.
  - The operating system chooses the port, and sshd takes it at once. If another program takes it in between, the module asks for
    another. The instance counts as running only when the port presents the instance's own host key.
  - Works as root and as an ordinary user, also one of a domain (C(USER@DOMAIN), C(DOMAIN\USER)). Under an ordinary user, only that
    user can log in.
  - Works in containers of OpenShift and others, whose UID has no entry in C(/etc/passwd), or one with a shell that runs nothing. The run
    shows programs an entry C(gpufabric-UID) by C(libnss_wrapper). If the image lacks that, and the user may write C(/etc/passwd), it adds
    the entry there.
    O(state=absent) removes it.
  - Makes private keys on the node, which never leave it.
  - If the login shell of the user reads the syntax of neither sh nor csh, such as fish, sessions give their commands to C(/bin/sh).
    All sessions have C(LC_MESSAGES=C), since what shells print is read.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.run
  - gpufabric.nccl.run.claim
  - gpufabric.nccl.run.address
attributes:
  check_mode:
    support: full
    details:
      - If the instance does not exist yet, its port and keys are unknown in check mode; RV(port) is V(0) and the keys are empty.
  diff_mode:
    support: full
    details:
      - Shows the configuration. C(Port 0) stands for a port that the operating system chooses.
  idempotent:
    support: partial
    details:
      - Not with O(state=restarted).
options:
  state:
    description:
      - V(started) makes sure that it runs with these options. If it runs with others, it is restarted; its sessions continue. It is
        also restarted if the limits (C(ulimit)) of a login have changed since it was started, because its sessions inherit its own.
      - V(restarted) always restarts it.
      - V(stopped) ends it, its sessions and the programs that were started in them. Its keys and its port are kept for the next start.
      - V(absent) also removes its files and keys.
    type: str
    choices: [started, stopped, restarted, absent]
    default: started
  port:
    description:
      - The TCP port. With V(0), the operating system chooses one. An instance that already has a port keeps it as long as it is free.
    type: int
    default: 0
  accept_env:
    description:
      - Names of the environment variables that a client may send; C(*) and C(?) are wildcards. sshd drops all others.
      - Clients must send them too; see the option O(gpufabric.nccl.ssh_mesh#module:send_env) of M(gpufabric.nccl.ssh_mesh).
    type: list
    elements: str
    default: [LD_LIBRARY_PATH, NCCL_*, OMPI_MCA_*, PRTE_MCA_*, PMIX_MCA_*]
  host_key_types:
    description: Types of its host keys. In FIPS mode, V(ecdsa) takes the place of V(ed25519).
    type: list
    elements: str
    choices: [ed25519, ecdsa, rsa]
    default: [ed25519]
  use_pam:
    description:
      - Whether sshd uses PAM.
      - By default it does so only for root with a locked account, because without PAM sshd refuses every login to a locked account.
    type: bool
  sshd_path:
    description: Absolute path of sshd, if it is neither on the PATH nor in one of the usual directories.
    type: path
  environment:
    description:
      - Environment variables of each session and of the programs in it, such as those that differ from node to node.
        They override those that a client sends. V(null) is for one that is not set.
    type: dict
    default: {}
    version_added: 0.2.0
  max_startups:
    description:
      - How many connections may log in at the same time. By default 1024.
      - The role P(gpufabric.nccl.key_exchange#role) allows four for each worker, and at least 32.
    type: int
    version_added: 0.2.0
  extra_options:
    description:
      - Further keywords of sshd_config and their values.
      - Allowed are keywords that weaken nothing, such as C(LogLevel), C(MaxStartups), C(ClientAliveInterval), C(Banner), C(Subsystem),
        C(Ciphers) and C(RekeyLimit). The error for any other keyword lists all of them.
      - Algorithms that are broken, such as those with CBC or SHA-1, are refused.
    type: dict
    default: {}
  timeout:
    description: How long it may take until the instance answers, in seconds, V(1) to V(3600).
    type: int
    default: 15
requirements:
  - OpenSSH 7.8 or newer on the node, server and client programs
seealso:
  - module: gpufabric.nccl.ssh_mesh
"""

EXAMPLES = r"""
- name: Start a private sshd on the control network of every worker
  gpufabric.nccl.sshd_instance:
    interface: eth0
  register: sshd

- name: Let clients set further variables, in a run with another name
  gpufabric.nccl.sshd_instance:
    run_id: nightly
    subnet: 10.0.0.0/16
    accept_env: [LD_LIBRARY_PATH, "MY_APP_*"]

- name: Set NCCL's interface, whose name differs between workers
  gpufabric.nccl.sshd_instance:
    environment:
      NCCL_SOCKET_IFNAME: "={{ data_interface }}"

- name: Remove it and its files
  gpufabric.nccl.sshd_instance:
    state: absent
"""

RETURN = r"""
address:
  description: The address that it listens on.
  returned: O(state) is V(started) or V(restarted)
  type: str
  sample: 10.0.0.11
port:
  description: The port that it listens on; V(0) if it is not known yet, in check mode.
  returned: O(state) is V(started) or V(restarted)
  type: int
  sample: 48231
pid:
  description: Process id of the listener; V(null) if it is not known yet, in check mode.
  returned: O(state) is V(started) or V(restarted)
  type: int
  sample: 4711
user:
  description: The user that can log in.
  returned: O(state) is V(started) or V(restarted)
  type: str
  sample: root
environment:
  description:
    - The environment that ssh, mpirun and other programs that look up users need on this node.
    - Empty unless the UID has its account by libnss_wrapper. M(gpufabric.nccl.mpi_run) and the sessions of the sshd set it.
  returned: O(state) is V(started) or V(restarted)
  type: dict
  sample: {LD_PRELOAD: libnss_wrapper.so, NSS_WRAPPER_PASSWD: /tmp/gpufabric-1000/default/account/passwd, NSS_WRAPPER_GROUP: /etc/group}
host_public_keys:
  description: Public host keys, each as C(TYPE BASE64).
  returned: O(state) is V(started) or V(restarted)
  type: list
  elements: str
  sample: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample"]
client_public_key:
  description: Public key of the pair with which this node logs in to others.
  returned: O(state) is V(started) or V(restarted)
  type: str
  sample: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample
run_dir:
  description: Directory of the run on this node.
  returned: success
  type: str
  sample: /run/gpufabric/default
hostname:
  description: Host name of the node.
  returned: O(state) is V(started) or V(restarted)
  type: str
  sample: gpu-node-1
sshd_version:
  description: Version of OpenSSH.
  returned: O(state) is V(started) or V(restarted)
  type: str
  sample: "9.2"
problems:
  description: Why it does not run, if the cause is known.
  returned: failure
  type: list
  elements: dict
  version_added: 0.2.0
  contains:
    id:
      description: The cause, as L(troubleshooting,https://github.com/gpufabric/gpufabric.nccl/blob/main/docs/troubleshooting.md) describes it.
      type: str
      sample: connect-refused
    severity: {description: V(error) or V(warning)., type: str, sample: error}
    host: {description: The host or pod that has the problem; V(null) if no single one has it., type: str, sample: gpu-2}
    cause: {description: What is wrong., type: str, sample: Nothing listens on 10.0.0.12 port 22.}
    cure: {description: What to do., type: str, sample: Start sshd there.}
    evidence: {description: The output or value that shows it; may be empty., type: str, sample: Connection refused}
  sample:
    - id: sshd-port-taken
      severity: error
      host: gpu-node-1
      cause: Another program has port 2222 of 10.0.0.11 already.
      cure: "Take another; 0 takes a free one (port, key_exchange_port)."
      evidence: ""
"""

import os

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.node_catalogue import NODE_CATALOGUE
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.run_module import QuietModule, run_module
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import ADDRESS_ARGUMENT_SPEC, own_address
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.cleanup import remove_replaced
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.ownership import CLAIM_ARGUMENT_SPEC, Ownership
from ansible_collections.gpufabric.nccl.plugins.module_utils._options import environment_texts
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RUN_ARGUMENT_SPEC, RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.account import Account
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.policy import FORWARDED_ENVIRONMENT
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.sshd import (
    HOST_KEY_TYPES,
    Sshd,
    SshdSettings,
    default_use_pam,
    in_fips_mode,
    usable_key_types,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.sshd_states import have_ended, have_running


def value_of(keyword: str, value: object) -> str:
    """The value of a keyword of sshd_config; YAML makes a truth value of ``yes``. Raises OptionError."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise OptionError(f"extra_options.{keyword}", value, "a text, a number, or yes or no")


def settings_of(params: dict, account: Account) -> SshdSettings:
    """The settings that the options name, on this node. Raises GpufabricError."""
    if not 1 <= params["timeout"] <= 3600:
        raise OptionError("timeout", params["timeout"], "1 to 3600 seconds")
    environment = environment_texts("environment", params["environment"], "gpufabric_node_env")
    fips = in_fips_mode()
    return SshdSettings(
        address=own_address(params["address"], params["interface"], params["subnet"]),
        user=account.name,
        shell=account.shell,
        port=params["port"],
        accept_env=tuple(params["accept_env"]),
        host_key_types=usable_key_types(params["host_key_types"], fips),
        fips=fips,
        use_pam=default_use_pam(account.name) if params["use_pam"] is None else params["use_pam"],
        environment={
            **{name: value for name, value in environment.items() if value is not None},
            **account.environment,
        },
        max_startups=params["max_startups"],
        extra_options={name: value_of(name, value) for name, value in params["extra_options"].items()},
    )


def run(params: dict, check_mode: bool) -> dict:
    """Bring the sshd to its state; what the module returns. Raises GpufabricError."""
    os.umask(0o077)
    run_dir = RunDir(params["run_id"], params["run_dir"])
    ownership = Ownership(run_dir, params["claim"])
    if params["state"] in ("stopped", "absent"):
        ownership.check(removes=True)
        sshd = Sshd(run_dir, Account(run_dir), params["sshd_path"])
        return {"run_dir": run_dir.path, **have_ended(sshd, params["state"] == "absent", check_mode)}
    settings_of(params, Account(run_dir))
    replaced = remove_replaced(ownership, run_dir, check_mode)
    # What was replaced may have made the account.
    account = Account(run_dir)
    sshd = Sshd(run_dir, account, params["sshd_path"])
    restart = params["state"] == "restarted"
    settings = settings_of(params, account)
    result = have_running(sshd, settings, restart or replaced, params["timeout"], check_mode, ownership.take)
    return {"run_dir": run_dir.path, **result}


def main() -> None:
    """Run the module."""
    module = QuietModule(
        argument_spec={
            **RUN_ARGUMENT_SPEC,
            **CLAIM_ARGUMENT_SPEC,
            **ADDRESS_ARGUMENT_SPEC,
            "state": {"type": "str", "choices": ["started", "stopped", "restarted", "absent"], "default": "started"},
            "port": {"type": "int", "default": 0},
            "accept_env": {
                "type": "list",
                "elements": "str",
                "default": list(FORWARDED_ENVIRONMENT),
            },
            "host_key_types": {
                "type": "list",
                "elements": "str",
                "choices": list(HOST_KEY_TYPES),
                "default": ["ed25519"],
            },
            "use_pam": {"type": "bool"},
            "sshd_path": {"type": "path"},
            "environment": {"type": "dict", "default": {}},
            "max_startups": {"type": "int"},
            "extra_options": {"type": "dict", "default": {}},
            "timeout": {"type": "int", "default": 15},
        },
        supports_check_mode=True,
    )
    run_module(module, run, NODE_CATALOGUE.problems_in)


if __name__ == "__main__":
    main()
