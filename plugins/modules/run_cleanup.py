#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_cleanup
short_description: End a run on a node and remove all that it left
version_added: 0.2.0
description:
  - Ends every process of a run on this node and makes sure that they are gone. These are the private sshd with its sessions, programs
    that were started detached, and ranks.
  - Removes the run's files and keys, the block that M(gpufabric.nccl.ssh_mesh) wrote into C(~/.ssh/config), the account
    that M(gpufabric.nccl.sshd_instance) made for a UID without one, and sshd's own directory if it was made for the run.
  - Does in one execution what C(state=absent) of M(gpufabric.nccl.sshd_instance), M(gpufabric.nccl.ssh_mesh) and
    M(gpufabric.nccl.mpi_run) do together.
  - Refuses to end a run that another owner is using, if O(claim) says who asks.
  - Does not touch other runs, nor files of other owners in the run's directory.
  - Warns if it finds nothing of the run, and another user of the node has a run of that name, or it is in another directory.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.run
  - gpufabric.nccl.run.claim
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - Shows the names of programs, without their arguments, and paths.
  idempotent:
    support: full
options:
  own:
    description:
      - Whether this is the end of what the play itself has started. A run that another play has taken, of whichever owner, is then left
        alone, and the module changes nothing.
      - By default an owner ends his run whichever play of his has started it, and another owner is refused.
      - Used with O(claim).
    type: bool
    default: false
seealso:
  - module: gpufabric.nccl.sshd_instance
  - module: gpufabric.nccl.ssh_mesh
  - module: gpufabric.nccl.mpi_run
"""

EXAMPLES = r"""
- name: End the run and remove all that it left
  gpufabric.nccl.run_cleanup:

- name: End another run
  gpufabric.nccl.run_cleanup:
    run_id: nightly
"""

RETURN = r"""
ended:
  description: Names of the programs whose processes were ended, one for each process, without their arguments.
  returned: success
  type: list
  elements: str
  sample: [mpirun, ssh, sshd]
removed:
  description: Paths that were removed, and paths of system or user files from which the run's part was removed.
  returned: success
  type: list
  elements: str
  sample: [/run/gpufabric/default]
run_dir:
  description: Directory of the run on this node.
  returned: success
  type: str
  sample: /run/gpufabric/default
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.node_catalogue import NODE_CATALOGUE
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.run_module import run_module
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.cleanup import Cleanup
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.namesakes import elsewhere, find_users
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.ownership import CLAIM_ARGUMENT_SPEC, Ownership
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import read_processes
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RUN_ARGUMENT_SPEC, RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import listing


def run(params: dict, check_mode: bool) -> dict:
    """Remove what the run left; what the module returns. Raises GpufabricError."""
    run_dir = RunDir(params["run_id"], params["run_dir"])
    ownership = Ownership(run_dir, params["claim"])
    if params["own"] and ownership.loss() is not None:
        return {"changed": False, "ended": [], "removed": [], "run_dir": run_dir.path}
    ownership.check(removes=True)
    cleanup = Cleanup(run_dir)
    leftovers = cleanup.plan()
    if leftovers and not check_mode:
        cleanup.apply(leftovers)
    warnings = [] if leftovers else _warnings(run_dir)
    return {
        "changed": bool(leftovers),
        "diff": leftovers.as_diff(),
        "ended": list(leftovers.ended),
        "removed": list(leftovers.removed),
        "run_dir": run_dir.path,
        **({"warnings": warnings} if warnings else {}),
    }


def _warnings(run_dir: RunDir) -> list:
    """What is here of runs of the same name that are not meant. No text has the host, so that each is shown once."""
    users = find_users(run_dir) if run_dir.is_default else []
    warnings = [
        f"the run {run_dir.run_id} in {path} stays as it is: to end that one, give teardown its gpufabric_run_dir"
        for path in elsewhere(run_dir, read_processes())
    ]
    if users:
        warnings.append(
            f"the run {run_dir.run_id} of {listing(users)} stays as it is: only that user can end it, so give teardown the"
            " ansible_user, or the become, of the run"
        )
    return warnings


def main() -> None:
    """Run the module."""
    spec = {**RUN_ARGUMENT_SPEC, **CLAIM_ARGUMENT_SPEC, "own": {"type": "bool", "default": False}}
    run_module(AnsibleModule(argument_spec=spec, supports_check_mode=True), run, NODE_CATALOGUE.problems_in)


if __name__ == "__main__":
    main()
