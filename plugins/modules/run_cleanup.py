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
  - Ends every process of a run on this node, the private sshd with its sessions, programs that were started detached, and ranks,
    and makes sure that they are gone.
  - Removes the run's files and keys, the block that M(gpufabric.nccl.ssh_mesh) wrote into C(~/.ssh/config), the account
    that M(gpufabric.nccl.sshd_instance) made for a uid that has none, and sshd's own directory where it was made for the run.
  - Does in one execution what O(gpufabric.nccl.sshd_instance#module:state=absent) of M(gpufabric.nccl.sshd_instance) and the same
    of M(gpufabric.nccl.ssh_mesh) and M(gpufabric.nccl.mpi_run) do, each for what it made.
  - Other runs are not touched, nor what others keep in the run's directory.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.run
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - Shows the names of programs, without their arguments, and paths.
  idempotent:
    support: full
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
  description: Paths that were removed, and paths of files of the system or the user that the run's part was removed from.
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
from ansible_collections.gpufabric.nccl.plugins.module_utils._cleanup import Cleanup
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RUN_ARGUMENT_SPEC, RunDir


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=RUN_ARGUMENT_SPEC, supports_check_mode=True)
    try:
        run_dir = RunDir(module.params["run_id"], module.params["run_dir"])
        cleanup = Cleanup(run_dir)
        leftovers = cleanup.plan()
        if leftovers and not module.check_mode:
            cleanup.apply(leftovers)
    except GpufabricError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=bool(leftovers),
        diff=leftovers.as_diff(),
        ended=list(leftovers.ended),
        removed=list(leftovers.removed),
        run_dir=run_dir.path,
    )


if __name__ == "__main__":
    main()
