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
  - Starts an sshd of the run's own, beside the system's, with its own host keys, its own list of authorized keys, its own
    client key pair and a port of its own, bound to one address.
  - The port is asked of the operating system and taken at once. Should another program take it in between, another port is
    asked for. The instance counts as running only when the port presents the instance's own host key.
  - Works as root and as an ordinary user, who can then be logged in to as that user only.
  - Works under a uid that has no entry in C(/etc/passwd), or one with a shell that runs nothing, as containers are run by
    OpenShift and others. The run gives it one, C(gpufabric-UID), in C(/etc/passwd) where the image lets the user write that,
    else by C(libnss_wrapper) where the image has it. With O(state=absent) it goes.
  - Private keys are made on the node and never leave it.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.run
  - gpufabric.nccl.run.address
attributes:
  check_mode:
    support: full
    details:
      - Of an instance that does not exist yet, port and keys are not known in check mode; RV(port) is V(0) and the keys are empty.
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
      - V(started) has it running with these options. An instance that runs with others is restarted; its sessions go on.
      - V(restarted) restarts it in any case.
      - V(stopped) ends it, its sessions and what was started in them, and nothing else. Its keys and its port are kept for the next start.
      - V(absent) also removes its files and keys.
    type: str
    choices: [started, stopped, restarted, absent]
    default: started
  port:
    description:
      - The TCP port. V(0) lets the operating system choose one; an instance that has one keeps it as long as it is free.
    type: int
    default: 0
  accept_env:
    description:
      - Names of the environment variables that a client may send, C(*) and C(?) are wildcards. All others are dropped.
      - Clients must send them too, see the option O(gpufabric.nccl.ssh_mesh#module:send_env) of M(gpufabric.nccl.ssh_mesh).
    type: list
    elements: str
    default: [LD_LIBRARY_PATH, NCCL_*, OMPI_MCA_*, PRTE_MCA_*, PMIX_MCA_*]
  host_key_types:
    description: The kinds of host keys that it has.
    type: list
    elements: str
    choices: [ed25519, ecdsa, rsa]
    default: [ed25519]
  use_pam:
    description:
      - Whether sessions go through PAM.
      - By default they do not, except for root where that account is locked, since sshd without PAM lets nobody into a locked account.
    type: bool
  sshd_path:
    description: Absolute path of sshd, where it is not on the PATH nor in one of the usual places.
    type: path
  environment:
    description:
      - Environment variables of each session and all that is started in it, such as those that differ from node to node.
        They come before what a client sends.
    type: dict
    default: {}
    version_added: 0.2.0
  extra_options:
    description:
      - Further keywords of sshd_config and their values.
      - Keywords that the module sets for safety, such as C(PermitRootLogin), C(Port) and C(AcceptEnv), are refused.
    type: dict
    default: {}
  timeout:
    description: How long it may take until the instance answers, in seconds.
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

- name: Let clients set two variables of their own, in a run of its own
  gpufabric.nccl.sshd_instance:
    run_id: nightly
    subnet: 10.0.0.0/16
    accept_env: [LD_LIBRARY_PATH, "MY_APP_*"]

- name: Let NCCL know of an interface that has another name on each worker
  gpufabric.nccl.sshd_instance:
    environment:
      NCCL_SOCKET_IFNAME: "={{ data_interface }}"

- name: Remove it and all that it left
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
  description: The port that it listens on; V(0) where it is not known yet, in check mode.
  returned: O(state) is V(started) or V(restarted)
  type: int
  sample: 48231
pid:
  description: Process id of the listener; V(null) where it is not known yet, in check mode.
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
    - The environment that ssh, mpirun and all that looks up users need on this node.
    - Empty but for a uid that has an account by libnss_wrapper only. M(gpufabric.nccl.mpi_run) and the sessions of the sshd have it.
  returned: O(state) is V(started) or V(restarted)
  type: dict
  sample: {}
host_public_keys:
  description: Public host keys, each as C(TYPE BASE64).
  returned: O(state) is V(started) or V(restarted)
  type: list
  elements: str
  sample: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample"]
client_public_key:
  description: Public key of the pair that this node logs in to others with.
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
  description:
    - Why it does not run, as far as that is known, each with C(id), C(severity), C(host), C(cause), C(cure) and C(evidence).
    - Each C(id) is described in C(docs/troubleshooting.md).
  returned: failure
  type: list
  elements: dict
  version_added: 0.2.0
  sample:
    - id: sshd-port-taken
      severity: error
      host: gpu-node-1
      cause: Another program has port 2222 of 10.0.0.11 already.
      cure: "Take another; 0 takes a free one (port, key_exchange_port)."
      evidence: ""
"""

import os
import socket

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._account import Account
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import (
    ADDRESS_ARGUMENT_SPEC,
    own_address,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._problem import failure
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RUN_ARGUMENT_SPEC, RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh_mesh import FORWARDED_ENVIRONMENT
from ansible_collections.gpufabric.nccl.plugins.module_utils._sshd import (
    HOST_KEY_TYPES,
    Instance,
    Sshd,
    SshdSettings,
    check_port_is_free,
    default_use_pam,
    describe,
    render_config,
)


def settings_of(params: dict, account: Account) -> SshdSettings:
    """The settings that the options name, on this node. Raises GpufabricError."""
    if params["timeout"] < 1:
        raise OptionError("timeout", params["timeout"], "1 or more seconds")
    return SshdSettings(
        address=own_address(params["address"], params["interface"], params["subnet"]),
        user=account.name,
        port=params["port"],
        accept_env=tuple(params["accept_env"]),
        host_key_types=tuple(params["host_key_types"]),
        use_pam=default_use_pam(account.name) if params["use_pam"] is None else params["use_pam"],
        environment={**{name: str(value) for name, value in params["environment"].items()}, **account.environment},
        extra_options={name: str(value) for name, value in params["extra_options"].items()},
    )


def run_started(sshd: Sshd, settings: SshdSettings, restart: bool, timeout: float, check_mode: bool) -> dict:
    """Have it running; what the module returns. Raises GpufabricError."""
    sshd.run_dir.check()
    sshd.account.check()
    version = sshd.read_version()
    instance = sshd.read()
    port = settings.port or instance.port
    desired = render_config(settings, sshd.run_dir, port, version)
    account_made = sshd.account.found == sshd.account.line
    changed = restart or not account_made or instance.pid is None or instance.config != desired
    diff = {
        "before": sshd.account.found + instance.describe(),
        "after": sshd.account.line + describe(desired, running=True),
    }
    if changed and settings.port and settings.port != instance.port:
        check_port_is_free(settings)
    if changed and not check_mode:
        instance = sshd.start(settings, version, port, timeout)
    elif changed:
        instance = Instance(desired, None)
    return {
        "changed": changed,
        "diff": diff,
        "address": settings.address,
        "port": instance.port,
        "pid": instance.pid,
        "user": settings.user,
        "environment": sshd.account.environment,
        "host_public_keys": sshd.host_public_keys(desired),
        "client_public_key": sshd.client_public_key(),
        "hostname": socket.gethostname(),
        "sshd_version": ".".join(map(str, version)),
    }


def run_ended(sshd: Sshd, remove: bool, check_mode: bool) -> dict:
    """Have it stopped or gone; what the module returns. Raises GpufabricError."""
    instance = sshd.read()
    changed = sshd.has_processes() or (remove and sshd.exists())
    before = sshd.account.found + instance.describe()
    after = "" if remove else sshd.account.found + describe(instance.config, running=False)
    if changed and not check_mode:
        if remove:
            sshd.remove()
        else:
            sshd.stop()
    return {"changed": changed, "diff": {"before": before, "after": after}}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **RUN_ARGUMENT_SPEC,
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
            "extra_options": {"type": "dict", "default": {}},
            "timeout": {"type": "int", "default": 15},
        },
        mutually_exclusive=[("address", "interface", "subnet")],
        supports_check_mode=True,
    )
    params = module.params
    os.umask(0o077)
    try:
        run_dir = RunDir(params["run_id"], params["run_dir"])
        account = Account(run_dir)
        sshd = Sshd(run_dir, account, params["sshd_path"])
        if params["state"] in ("started", "restarted"):
            restart = params["state"] == "restarted"
            result = run_started(sshd, settings_of(params, account), restart, params["timeout"], module.check_mode)
        else:
            result = run_ended(sshd, params["state"] == "absent", module.check_mode)
    except GpufabricError as error:
        module.fail_json(**failure(error))
    module.exit_json(run_dir=run_dir.path, **result)


if __name__ == "__main__":
    main()
