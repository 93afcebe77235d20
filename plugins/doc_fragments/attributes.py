# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to the collection: it may change in any release.

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
  idempotent:
    description:
      - When run twice in a row outside check mode, with the same arguments, the second invocation indicates no change.
      - This assumes that the system controlled/queried by the module has not changed in a relevant way.
  platform:
    description: Target OS/families that can be operated against.
    platforms: linux
    support: full
  action_group:
    description:
      - Use C(group/gpufabric.nccl.all) in C(module_defaults) to set defaults for this module.
      - The modules with C(run_id) and C(run_dir) are in C(group/gpufabric.nccl.run) too, those with C(kubeconfig),
        C(context) and C(namespace) in C(group/gpufabric.nccl.cluster).
    support: full
    membership:
      - gpufabric.nccl.all
"""

    # Of modules that write nothing.
    READ_ONLY = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - This action does not modify state.
  diff_mode:
    support: N/A
    details:
      - This action does not modify state.
  idempotent:
    support: N/A
    details:
      - This action does not modify state.
"""

    # Of modules with a half that runs on the controller.
    ACTION = r"""
options: {}
attributes:
  action:
    description: Indicates this has a corresponding action plugin so some parts of the options can be executed on the controller.
    support: full
"""
