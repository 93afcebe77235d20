#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_mesh
short_description: Let the nodes of a run reach each other by ssh, with pinned host keys
version_added: 0.1.0
description:
  - Writes the run's C(ssh_config), C(known_hosts) and C(authorized_keys) on a node, from the list of all nodes.
  - Pins the host keys. They came over the connection that Ansible has with each node, so nothing is trusted on first use.
  - Writes nothing outside the run's directory unless O(user_config=true).
  - With O(claim), it fails if another play has taken the run over since M(gpufabric.nccl.sshd_instance) started it.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.run
  - gpufabric.nccl.run.claim
attributes:
  check_mode:
    support: full
    details:
      - In check mode peers may lack ports and keys, as they do before M(gpufabric.nccl.sshd_instance) has run.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description:
      - V(present) writes the files. V(absent) removes them and the block in the user's own configuration.
    type: str
    choices: [present, absent]
    default: present
  peers:
    description:
      - All nodes of the run, this one included, each as M(gpufabric.nccl.sshd_instance) returns it.
      - A peer has an C(address) (numeric), the C(port) of its sshd, the C(user) to log in as, its C(host_public_keys) (a list) and
        its C(client_public_key), keys as C(TYPE BASE64). Further fields are ignored.
      - It may have C(sources), a list of the addresses and subnets that it may log in from, for networks that translate addresses. The
        default is its C(address) only.
      - With O(identity_file), a peer has an C(address), and may have a C(port) and a C(user). By default, ssh takes them from
        C(/etc/ssh/ssh_config) on the node, or uses its own defaults.
      - Required with O(state=present).
    type: list
    elements: dict
  identity_file:
    description:
      - Path of a private key on the node that replaces the run's own, for peers whose sshd is not the run's, such as the pods of an
        adopted job. The module then writes no C(authorized_keys).
      - If others can read the key, which ssh refuses, the module uses a copy in the run's directory.
      - Needs O(strict_host_keys=false), because the host keys are unknown.
    type: path
    version_added: 0.2.0
  send_env:
    description:
      - Names of the environment variables that ssh sends; C(*) and C(?) are wildcards.
      - The other side must accept them too; see the option O(gpufabric.nccl.sshd_instance#module:accept_env) of M(gpufabric.nccl.sshd_instance).
    type: list
    elements: str
    default: [LD_LIBRARY_PATH, NCCL_*, OMPI_MCA_*, PRTE_MCA_*, PMIX_MCA_*]
  strict_host_keys:
    description:
      - Whether a host key must be the pinned one. It may be V(false) only for adopted pods, whose host keys are unknown.
    type: bool
    default: true
  user_config:
    description:
      - Whether C(~/.ssh/config) includes the run's configuration, in a marked block at its top, so that a plain C(ssh ADDRESS) works.
      - If machines share the home, the block stays until the last of them has removed its part.
    type: bool
    default: false
  connect_timeout:
    description: How long ssh tries to connect to a node, in seconds.
    type: int
    default: 10
  key_lifetime:
    description:
      - How many days the keys of the peers let them log in to this node; V(0) for as long as the run's files exist.
      - They expire at midnight of the node's own clock. When less than half of the days are left, a call sets the date anew.
      - A call renews the keys of the node that it runs on only. After they have expired, logins fail with C(Permission denied).
    type: int
    default: 7
    version_added: 0.2.0
requirements:
  - OpenSSH 7.8 or newer on the node, server and client programs
seealso:
  - module: gpufabric.nccl.sshd_instance
  - module: gpufabric.nccl.collect_peers
"""

EXAMPLES = r"""
- name: Start a private sshd everywhere
  gpufabric.nccl.sshd_instance:
    interface: eth0
  register: sshd

- name: Let all nodes reach each other
  gpufabric.nccl.ssh_mesh:
    peers: "{{ ansible_play_hosts | map('extract', hostvars, 'sshd') | list }}"
  register: mesh

- name: Log in to the workers of an adopted job, with its key
  gpufabric.nccl.ssh_mesh:
    peers:
      - address: 10.0.0.11
      - address: 10.0.0.12
    identity_file: /root/.ssh/id_rsa
    strict_host_keys: false

- name: Remove the files
  gpufabric.nccl.ssh_mesh:
    state: absent
"""

RETURN = r"""
ssh_config:
  description: Path of the configuration for ssh.
  returned: success
  type: str
  sample: /run/gpufabric/default/ssh/config
known_hosts:
  description: Path of the pinned host keys.
  returned: success
  type: str
  sample: /run/gpufabric/default/ssh/known_hosts
authorized_keys:
  description: Path of the keys that may log in.
  returned: success
  type: str
  sample: /run/gpufabric/default/sshd/authorized_keys
agent:
  description: The command with which mpirun starts remote shells.
  returned: O(state=present)
  type: list
  elements: str
  sample: [/usr/bin/ssh, -F, /run/gpufabric/default/ssh/config]
"""

import datetime
import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.node_catalogue import NODE_CATALOGUE
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.run_module import run_module
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import read_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.ownership import CLAIM_ARGUMENT_SPEC, Ownership
from ansible_collections.gpufabric.nccl.plugins.module_utils._options import check_ranges
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RUN_ARGUMENT_SPEC, RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.account import Account
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.mesh import (
    MeshFiles,
    agent,
    check_environment_names,
    expiry_date,
    expiry_in,
    parse_bare_peers,
    parse_peers,
    render_authorized_keys,
    render_known_hosts,
    render_ssh_config,
    usable_identity,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.policy import FORWARDED_ENVIRONMENT, RANGES
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.programs import find_openssh_program


def desired_texts(params: dict, run_dir: RunDir, check_mode: bool) -> dict[str, str]:
    """What each of the run's files is to hold, by path. Raises OptionError."""
    check_environment_names("send_env", params["send_env"])
    check_ranges(RANGES, params)
    current = expiry_in(read_text(run_dir.authorized_keys) or "") if run_dir.holds_run() else None
    expires = expiry_date(params["key_lifetime"], datetime.date.today(), current)
    if params["identity_file"] is not None:
        return _texts_for_bare_peers(params, run_dir)
    peers = parse_peers(params["peers"] or [], complete=not check_mode)
    return {
        run_dir.ssh_config: render_ssh_config(
            peers, run_dir, params["send_env"], params["strict_host_keys"], params["connect_timeout"]
        ),
        run_dir.known_hosts: render_known_hosts(peers),
        run_dir.authorized_keys: render_authorized_keys(peers, expires),
    }


def _texts_for_bare_peers(params: dict, run_dir: RunDir) -> dict[str, str]:
    if params["strict_host_keys"]:
        raise OptionError("strict_host_keys", True, "false with identity_file, since the host keys are not known")
    identity, copy = usable_identity(params["identity_file"], run_dir)
    config = render_ssh_config(
        parse_bare_peers(params["peers"] or []), run_dir, params["send_env"], False, params["connect_timeout"], identity
    )
    return {run_dir.ssh_config: config, **({} if copy is None else {run_dir.identity: copy})}


def run(params: dict, check_mode: bool) -> dict:
    """Write or remove the run's files of ssh; what the module returns. Raises GpufabricError."""
    os.umask(0o077)
    run_dir = RunDir(params["run_id"], params["run_dir"])
    files = MeshFiles(run_dir, Account(run_dir))
    result, texts = {}, {}
    if not check_mode:
        # Between the start of the sshd and this, another play may have taken the run over.
        lost = Ownership(run_dir, params["claim"]).loss()
        if lost is not None:
            raise ProblemError(lost)
    if params["state"] == "present":
        texts = desired_texts(params, run_dir, check_mode)
        run_dir.check()
        result["agent"] = agent(find_openssh_program("ssh"), run_dir)
    changes = files.plan(texts, params["user_config"])
    if not check_mode:
        files.apply(changes)
    return {
        "changed": bool(changes),
        "diff": [change.as_diff() for change in changes],
        "ssh_config": run_dir.ssh_config,
        "known_hosts": run_dir.known_hosts,
        "authorized_keys": run_dir.authorized_keys,
        **result,
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **RUN_ARGUMENT_SPEC,
            **CLAIM_ARGUMENT_SPEC,
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "peers": {"type": "list", "elements": "dict"},
            "identity_file": {"type": "path"},
            "send_env": {"type": "list", "elements": "str", "default": list(FORWARDED_ENVIRONMENT)},
            "strict_host_keys": {"type": "bool", "default": True, "no_log": False},
            "user_config": {"type": "bool", "default": False},
            "connect_timeout": {"type": "int", "default": 10},
            "key_lifetime": {"type": "int", "default": 7, "no_log": False},
        },
        required_if=[("state", "present", ["peers"])],
        supports_check_mode=True,
    )
    run_module(module, run, NODE_CATALOGUE.problems_in)


if __name__ == "__main__":
    main()
