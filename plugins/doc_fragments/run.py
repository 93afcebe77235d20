# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to the collection: it may change in any release.

from __future__ import annotations


class ModuleDocFragment:
    # Of modules that touch the run.
    DOCUMENTATION = r"""
options:
  run_id:
    description:
      - Name of the run. Two runs with different names on the same machines have their own directories, ports and keys.
      - 1 to 63 letters, digits, dots, underscores and dashes, beginning with a letter or digit.
    type: str
    default: default
  run_dir:
    description:
      - Directory of the run on the node, with everything that the run leaves there. Created with mode 0700.
      - An absolute path of two parts or more, of letters, digits and C(._+-). Each directory on the way to it must be of root or
        of this user.
      - It may hold other files too. It must not have directories of the names that a run uses (C(sshd), C(ssh), C(mpi), C(account),
        C(tmp)), unless this run made them. The file C(.gpufabric) in it names the run. Without it, nothing there is ever removed.
      - The default is C(/run/gpufabric/RUN_ID) for root and C(/tmp/gpufabric-UID/RUN_ID) for any other user.
    type: path
"""

    # Of modules that choose one of the node's addresses.
    ADDRESS = r"""
options:
  address:
    description:
      - A numeric address of this node.
      - At most one of O(address), O(interface) and O(subnet) may be set. The default is the IPv4 address of the
        interface of the default route or, without a default route, the only one that is not loopback.
    type: str
  interface:
    description:
      - Name of the interface with the address, such as V(eth0). It must have exactly one IPv4 address.
    type: str
  subnet:
    description:
      - The subnet of the address, such as V(10.0.0.0/24), for nodes whose interface names differ.
    type: str
"""
