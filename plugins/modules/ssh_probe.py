#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_probe
short_description: Find the hosts of a fleet that cannot be reached by ssh from here, and why
version_added: 0.2.0
description:
  - Logs in to all hosts at once, step by step. It resolves the name, connects, reads the banner, compares the host key with
    C(known_hosts), authenticates and runs one command.
  - Run it on the controller at the start of a play to find every unreachable host at once instead of one task at a time.
  - It speaks ssh itself, by paramiko, and does not read C(ssh_config). It cannot reach hosts behind a jump host.
  - The module does not fail if a host does. It returns RV(ok) and RV(problems).
author:
  - gpufabric contributors (@gpufabric)
requirements:
  - paramiko >= 3.4.0, on the host that runs the task
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.read_only
options:
  endpoints:
    description: The hosts. The filter P(gpufabric.nccl.ssh_endpoints#filter) makes them from the inventory.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the host in results.
        type: str
        required: true
      address:
        description: Its name or numeric address. By default O(endpoints[].name).
        type: str
      port:
        description: The port of its sshd.
        type: int
        default: 22
      user:
        description: The user to log in as.
        type: str
        default: root
      key_file:
        description:
          - Path of the private key to log in with.
          - By default the agent's keys and C(~/.ssh/id_ed25519), C(~/.ssh/id_ecdsa) and C(~/.ssh/id_rsa).
        type: path
      known_hosts:
        description: Paths of the files with host keys.
        type: list
        elements: path
        default: [~/.ssh/known_hosts, /etc/ssh/ssh_known_hosts]
  host_key_checking:
    description: Whether a host key must be in C(known_hosts).
    type: bool
    default: true
  command:
    description: The command to run on each host.
    type: str
    default: "true"
  timeout:
    description: How long each step may take, in seconds.
    type: float
    default: 5
  forks:
    description: Number of hosts to log in to at the same time.
    type: int
    default: 256
seealso:
  - module: gpufabric.nccl.mpi_preflight
  - plugin: gpufabric.nccl.ssh_endpoints
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Find the hosts that cannot be reached
  hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - name: Log in to all of them
      gpufabric.nccl.ssh_probe:
        endpoints: "{{ groups['workers'] | gpufabric.nccl.ssh_endpoints(hostvars) }}"
      register: probe
      vars:
        ansible_python_interpreter: "{{ ansible_playbook_python }}"

    - name: Show the problems
      gpufabric.nccl.display_text:
        text: "{{ probe.problems | gpufabric.nccl.problems_text }}"
"""

RETURN = r"""
ok:
  description: Whether all hosts could be logged in to.
  returned: success
  type: bool
  sample: false
hosts:
  description: The hosts in their order.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The host.
      type: str
      sample: gpu-node-1
    ok:
      description: Whether it could be logged in to and ran the command.
      type: bool
      sample: false
    stage:
      description: >-
        The step that fails, of C(resolve), C(connect), C(host_key), C(authenticate), C(session); V(null) if none does.
      type: str
      sample: host_key
    problem:
      description: The id of its problem, V(null) if it has none.
      type: str
      sample: host-key-changed
    banner:
      description: The banner of its sshd.
      type: str
      sample: SSH-2.0-OpenSSH_9.2p1
    output:
      description: What the command printed, up to 2000 bytes.
      type: str
      sample: gpu-node-1
    seconds:
      description: How long it took, in seconds.
      type: float
      sample: 0.12
problems:
  description: What is wrong.
  returned: success
  type: list
  elements: dict
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
    - id: connect-refused
      severity: error
      host: gpu-node-1
      cause: Nothing listens on 10.0.0.11 port 22.
      cure: Start sshd there.
      evidence: Connection refused
seconds:
  description: How long it took, in seconds.
  returned: success
  type: float
  sample: 4.2
"""

import sys
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import CATALOGUE, problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.run_module import run_module
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.fleet_login import (
    HAS_PARAMIKO,
    Prober,
    parse_endpoints,
)


def run(params: dict, check_mode: bool) -> dict:
    """Log in to all hosts; what the module returns. Raises GpufabricError."""
    begin = time.monotonic()
    if not HAS_PARAMIKO:
        without = "nobody looks why the controller cannot log in to a host"
        raise ProblemError(problem("library-missing", python=sys.executable, library="paramiko", without=without))
    if not 0 < params["timeout"] <= 60:
        raise OptionError("timeout", params["timeout"], "more than 0 and at most 60 seconds")
    if not 1 <= params["forks"] <= 4096:
        raise OptionError("forks", params["forks"], "1 to 4096")
    endpoints = parse_endpoints(params["endpoints"], params["host_key_checking"])
    outcomes = Prober(params["command"], params["timeout"]).probe_all(endpoints, params["forks"])
    problems = [outcome.finding.problem.as_dict() for outcome in outcomes if outcome.finding is not None]
    return {
        "ok": not problems,
        "hosts": [outcome.as_dict() for outcome in outcomes],
        "problems": problems,
        "seconds": round(time.monotonic() - begin, 2),
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "endpoints": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "address": {"type": "str"},
                    "port": {"type": "int", "default": 22},
                    "user": {"type": "str", "default": "root"},
                    "key_file": {"type": "path", "no_log": False},
                    "known_hosts": {
                        "type": "list",
                        "elements": "path",
                        "default": ["~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts"],
                    },
                },
            },
            "host_key_checking": {"type": "bool", "default": True, "no_log": False},
            "command": {"type": "str", "default": "true"},
            "timeout": {"type": "float", "default": 5},
            "forks": {"type": "int", "default": 256},
        },
        supports_check_mode=True,
    )
    run_module(module, run, CATALOGUE.problems_in)


if __name__ == "__main__":
    main()
