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
  - Finds TCP ports of one address of the node that nothing listens on, by binding to port 0 as the operating system offers it.
  - A port is free when the module ends, not for ever. Start the listener at once; M(gpufabric.nccl.sshd_instance) does both in one step.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.read_only
options:
  count:
    description: How many ports, all different. 1 to 1000.
    type: int
    default: 1
  address:
    description:
      - The numeric address of this node that the ports are to be free on.
      - Without O(address) and O(interface), ports are free on all of the node's IPv4 addresses.
    type: str
  interface:
    description: The interface whose address is meant, such as V(eth0).
    type: str
  range:
    description: Only ports from this range, such as V(20000-20999), tried in random order.
    type: str
  exclude:
    description: Ports that are not to be returned.
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
  description: The address that they are free on; V(0.0.0.0) for all.
  returned: success
  type: str
  sample: 10.0.0.11
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import (
    choose_address,
    free_ports,
    parse_port_range,
    read_addresses,
)


def find(count: int, address: str | None, interface: str | None, within: str | None, exclude: list[int]) -> dict:
    """What the module returns. Raises GpufabricError."""
    if not 1 <= count <= 1000:
        raise OptionError("count", count, "1 to 1000")
    for port in exclude:
        if not 1 <= port <= 65535:
            raise OptionError("exclude", port, "ports from 1 to 65535")
    ports_within = parse_port_range(within) if within is not None else None
    if address not in (None, "0.0.0.0") or interface is not None:
        chosen = choose_address(read_addresses(), address=address, interface=interface)
    else:
        chosen = "0.0.0.0"
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
    params = module.params
    try:
        result = find(params["count"], params["address"], params["interface"], params["range"], params["exclude"])
    except GpufabricError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
