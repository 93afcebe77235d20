#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sshd_log
short_description: Find out why the private sshd of a run refused a login
version_added: 0.2.0
description:
  - Reads the log of the sshd that M(gpufabric.nccl.sshd_instance) runs, and returns why sshd refused the last connection.
  - Also finds keys that have expired, by the clock of the node, which sshd does not log.
  - The client sees little of this. Only the log shows that an account is locked, that PAM refuses it, or that host keys are missing.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.read_only
  - gpufabric.nccl.run
seealso:
  - module: gpufabric.nccl.mpi_preflight
"""

EXAMPLES = r"""
- name: Find out why the last login was refused
  gpufabric.nccl.sshd_log:
    run_id: nightly
  register: sshd_log
"""

RETURN = r"""
path:
  description: Path of the log.
  returned: success
  type: str
  sample: /run/gpufabric/default/sshd/sshd.log
lines:
  description: The last lines of the log about the last connection, ten at most.
  returned: success
  type: list
  elements: str
  sample: ["Connection from 10.0.0.11 port 51844 on 10.0.0.12 port 48231", "User root not allowed because account is locked"]
problems:
  description:
    - Why the last connection was refused. Empty if it was not refused, if the log does not show why, or if there is no log.
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
    - id: account-locked
      severity: error
      host: gpu-node-2
      cause: The account root is locked, and sshd lets nobody in there without PAM.
      cure: "Run usermod -p '*' on it, or let sshd use PAM: sshd_instance does so by itself where it can."
      evidence: "sshd.log:9: User root not allowed because account is locked"
"""

import datetime

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.node_catalogue import (
    NODE_CATALOGUE,
    known_cause,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.run_module import run_module
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import read_end, read_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RUN_ARGUMENT_SPEC, RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.mesh import expired_since
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.sshd import (
    LONGEST_LOG,
    causes_in,
    last_connection,
)

_LINES = 10


def run(params: dict, check_mode: bool) -> dict:
    """What the module returns. Raises GpufabricError."""
    run_dir = RunDir(params["run_id"], params["run_dir"])
    path = run_dir.sshd_log
    log = last_connection(read_end(path, LONGEST_LOG))
    problems = causes_in(log)
    now = datetime.datetime.now()
    expired = expired_since(read_text(run_dir.authorized_keys) or "", now.date())
    if expired and not problems:
        # sshd says so to nobody.
        found = known_cause("ssh-keys-expired", day=f"{expired:%Y-%m-%d}", now=f"{now:%Y-%m-%d %H:%M}")
        problems = list(found.problems)
    lines = [line for line in log.splitlines() if line.strip()][-_LINES:]
    return {"path": path, "lines": lines, "problems": [problem.as_dict() for problem in problems]}


def main() -> None:
    """Run the module."""
    run_module(
        AnsibleModule(argument_spec=RUN_ARGUMENT_SPEC, supports_check_mode=True), run, NODE_CATALOGUE.problems_in
    )


if __name__ == "__main__":
    main()
