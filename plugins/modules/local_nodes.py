#!/usr/bin/python

# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: local_nodes
short_description: Start throwaway nodes on this machine
version_added: 0.1.0
description:
  - Starts all nodes of a run at once, as podman containers over a copy-on-write view of this machine's own root file
    system. They need no image and no registry. Every program of this machine is on every node, and what a node changes
    stays in the node. Root's C(~/.bashrc) is not this machine's, because Bash reads it in each session.
  - Each is like a bare-metal node. It has its own host name, processes, C(/run) and C(/tmp), and an address on two
    networks (C(eth0), where names of nodes resolve, and C(net1)). Its sshd on port 22 accepts root's key.
  - Makes the keys, pins the host keys, and returns when the sshd of every node answers and every name resolves.
  - The module containers.podman.podman_container cannot do this, because it takes no overlay of a root file system (C(/:O)) and
    starts one container a call.
  - Nodes are not a security boundary. Root inside a node can read every file on this machine's root file system.
options:
  state:
    description:
      - V(present) runs exactly the described nodes. If a node is missing, dead or was started with other options, only
        that node is started again. Nodes beyond O(count) are removed.
      - V(absent) removes all nodes of the run and everything that was kept for them. It does not touch the networks.
    type: str
    choices: [present, absent]
    default: present
  run_id:
    description:
      - Name of the run. Two runs with different names and subnets on one machine do not affect each other.
      - 1 to 63 letters, digits, dots, underscores and dashes, beginning with a letter or digit.
    type: str
    default: default
  count:
    description: Number of nodes, 1 to 250.
    type: int
    default: 4
  prefix:
    description:
      - The nodes' host names are this and a number from 1. The names of the containers are C(gpufabric-RUN_ID-NAME).
      - Lowercase letters and digits, beginning with a letter.
    type: str
    default: g
  control_network:
    description:
      - Name of the podman network that becomes C(eth0). It must exist and have DNS.
      - Required if O(state=present).
    type: str
  data_network:
    description:
      - Name of the podman network that becomes C(net1). It must exist.
      - Required if O(state=present).
    type: str
  control_subnet:
    description:
      - IPv4 subnet of O(control_network). Node number V(1) gets its address number V(11), and so on.
      - Required if O(state=present).
    type: str
  data_subnet:
    description:
      - IPv4 subnet of O(data_network). Node number V(1) gets its address number V(11), and so on.
      - Required if O(state=present).
    type: str
  cap_add:
    description: Linux capabilities that the nodes get in addition to podman's default ones, such as V(NET_ADMIN).
    type: list
    elements: str
    default: []
  group:
    description: Group of the nodes in the inventory.
    type: str
    default: workers
  python_interpreter:
    description: Python that runs Ansible's modules on the nodes.
    type: path
    default: /usr/bin/python3
  state_dir:
    description:
      - Directory on this machine for the keys, the C(known_hosts) file and C(inventory.yml). Made with mode 0700.
      - An absolute path of letters, digits and C(._+-).
      - If nodes of the run belong to another directory, they are refused with the problem C(run-taken), unless O(claim) has C(take_over).
      - The default is C(/run/gpufabric-local/RUN_ID).
    type: path
  timeout:
    description: Seconds to wait until every sshd answers and every name resolves.
    type: float
    default: 30
requirements:
  - root
  - podman 4.0 or newer with crun, netavark, aardvark-dns and iptables, from netavark 1.12 on nftables
  - OpenSSH's sshd and ssh-keygen
notes:
  - If a machine mounts cgroups v1 and v2 side by side, crun starts nothing until every v1 controller is mounted. The
    module mounts the missing ones below C(/sys/fs/cgroup), and unmounts them with the last node of all runs.
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.run.claim
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
seealso:
  - name: containers.podman.podman_network
    description: The module that makes the networks, in the collection containers.podman.
    link: https://docs.ansible.com/ansible/latest/collections/containers/podman/podman_network_module.html
author:
  - gpufabric contributors (@gpufabric)
"""

EXAMPLES = r"""
- name: Start 16 nodes on two networks that exist
  gpufabric.nccl.local_nodes:
    count: 16
    control_network: ctl
    control_subnet: 10.66.0.0/24
    data_network: dat
    data_subnet: 192.168.66.0/24

- name: Remove them
  gpufabric.nccl.local_nodes:
    state: absent
"""

RETURN = r"""
nodes:
  description: The nodes, in order.
  returned: O(state=present)
  type: list
  elements: dict
  contains:
    name:
      description: Host name.
      type: str
      sample: g1
    container:
      description: Name of the container.
      type: str
      sample: gpufabric-default-g1
    control_address:
      description: Address of C(eth0).
      type: str
      sample: 10.66.0.11
    data_address:
      description: Address of C(net1).
      type: str
      sample: 192.168.66.11
    port:
      description: Port of its sshd.
      type: int
      sample: 22
started:
  description: Names of the nodes that were started or, in check mode, would be.
  returned: O(state=present)
  type: list
  elements: str
  sample: [g1, g2]
inventory:
  description: Path of an inventory of the nodes on this machine.
  returned: O(state=present)
  type: str
  sample: /run/gpufabric-local/default/inventory.yml
variables:
  description: The variables of the nodes in the inventory, all but their addresses.
  returned: O(state=present)
  type: dict
  sample:
    ansible_user: root
    ansible_port: 22
    ansible_ssh_private_key_file: /run/gpufabric-local/default/client_key
podman:
  description: Path of podman on this machine; V(null) if it is not installed.
  returned: success
  type: str
  sample: /usr/bin/podman
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.run_module import run_module
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.local_nodes import (
    LocalNodes,
    Settings,
    state_directory,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.ownership import CLAIM_ARGUMENT_SPEC


def run(params: dict, check_mode: bool) -> dict:
    """What the module returns. Raises GpufabricError."""
    options = dict(params)
    present = options.pop("state") == "present"
    options["cap_add"] = tuple(options["cap_add"])
    claim = options.pop("claim")
    options["state_dir"] = state_directory(options["run_id"], options["state_dir"])
    nodes = LocalNodes(options["run_id"], options["state_dir"], claim)
    result = nodes.present(Settings(**options), check_mode) if present else nodes.absent(check_mode)
    return {"podman": nodes.podman, **result}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **CLAIM_ARGUMENT_SPEC,
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "run_id": {"type": "str", "default": "default"},
            "count": {"type": "int", "default": 4},
            "prefix": {"type": "str", "default": "g"},
            "control_network": {"type": "str"},
            "data_network": {"type": "str"},
            "control_subnet": {"type": "str"},
            "data_subnet": {"type": "str"},
            "cap_add": {"type": "list", "elements": "str", "default": []},
            "group": {"type": "str", "default": "workers"},
            "python_interpreter": {"type": "path", "default": "/usr/bin/python3"},
            "state_dir": {"type": "path"},
            "timeout": {"type": "float", "default": 30},
        },
        required_if=[
            ("state", "present", ("control_network", "data_network", "control_subnet", "data_subnet")),
        ],
        supports_check_mode=True,
    )
    run_module(module, run)


if __name__ == "__main__":
    main()
