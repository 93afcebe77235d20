#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: free_port
short_description: Ask the operating system for free TCP ports
version_added: 0.1.0
description:
  - Finds TCP ports that are free on an address of the node. Without O(range), the operating system chooses them.
  - A port is free when the module ends, but another program may take it later. Start the listener at once;
    M(gpufabric.nccl.sshd_instance) does both in one step.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.read_only
options:
  count:
    description: Number of ports, 1 to 1000. All are different.
    type: int
    default: 1
  address:
    description:
      - The numeric address of this node on which the ports must be free.
      - Without O(address) and O(interface), the ports are free on all of the node's IPv4 addresses.
    type: str
  interface:
    description: The interface with that address, such as V(eth0).
    type: str
  range:
    description: Range of the ports, such as V(20000-20999). They are tried in random order.
    type: str
  exclude:
    description: Ports that must not be returned.
    type: list
    elements: int
    default: []
seealso:
  - module: gpufabric.nccl.sshd_instance
"""

EXAMPLES = r"""
- name: Find a port on the control interface
  gpufabric.nccl.free_port:
    interface: eth0
  register: free

- name: Show it
  ansible.builtin.debug:
    msg: "{{ free.address }}:{{ free.port }}"

- name: Find four ports that the firewall lets through
  gpufabric.nccl.free_port:
    count: 4
    range: 20000-20999
    exclude: [20022]
"""

RETURN = r"""
port:
  description: The first of RV(ports).
  returned: success
  type: int
  sample: 48231
ports:
  description: The free ports.
  returned: success
  type: list
  elements: int
  sample: [48231]
address:
  description: The address on which they are free; V(0.0.0.0) for all.
  returned: success
  type: str
  sample: 10.0.0.11
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.run_module import run_module
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import (
    choose_address,
    free_ports,
    parse_port_range,
    read_addresses,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import raise_file_limit


def find(params: dict, check_mode: bool) -> dict:
    """What the module returns. Raises GpufabricError."""
    count, address, interface, exclude = (params[name] for name in ("count", "address", "interface", "exclude"))
    if not 1 <= count <= 1000:
        raise OptionError("count", count, "1 to 1000")
    for port in exclude:
        if not 1 <= port <= 65535:
            raise OptionError("exclude", port, "ports from 1 to 65535")
    ports_within = parse_port_range(params["range"]) if params["range"] is not None else None
    if address not in (None, "0.0.0.0") or interface is not None:
        chosen = choose_address(read_addresses(), address=address, interface=interface)
    else:
        chosen = "0.0.0.0"
    # They are all held at once.
    raise_file_limit()
    ports = free_ports(chosen, count, ports_within, set(exclude))
    return {"port": ports[0], "ports": ports, "address": chosen}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "count": {"type": "int", "default": 1},
            "address": {"type": "str"},
            "interface": {"type": "str"},
            "range": {"type": "str"},
            "exclude": {"type": "list", "elements": "int", "default": []},
        },
        mutually_exclusive=[("address", "interface")],
        supports_check_mode=True,
    )
    run_module(module, find)


if __name__ == "__main__":
    main()
