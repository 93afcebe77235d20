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
      - Directory of the run on the node, with everything that the run leaves there. Created with mode 0700. No
        other node may use the same directory.
      - An absolute path of two parts or more, of letters, digits and C(._+-). Each directory on the way to it must be of root or
        of this user. None may be writable by a group of other users or by everybody, unless it has the sticky bit.
      - It may hold other files too. It must not have directories of the names that a run uses (C(sshd), C(ssh), C(mpi), C(account),
        C(tmp)), unless this run made them. The file C(.gpufabric) in it names the run. Without it, nothing there is ever removed.
      - The default is C(/run/gpufabric/RUN_ID) for root and C(/tmp/gpufabric-UID/RUN_ID) for any other user.
    type: path
"""

    # Of modules that start or remove a run.
    CLAIM = r"""
options:
  claim:
    description:
      - Who starts or removes the run, as M(gpufabric.nccl.run_claim) says it. The roles of the collection set it.
      - The run is then refused to another owner while it is in use, with the problem C(run-taken), and to a second play of the same owner
        while the first one is running, with C(run-in-use). An owner may always remove his own run.
      - Of a play on another controller, it is known that it is running while it waits for a program, and one minute after that.
      - A run is in use while its play is running, if that runs on the same controller, while it has processes on the node, and ten
        minutes after it has last written something there.
      - Without it, nobody is refused.
    type: dict
    version_added: 0.2.0
    suboptions:
      owner:
        description: The owner, such as C(USER@HOST).
        type: str
        required: true
      controller:
        description: The controller; empty if plays cannot be told apart there.
        type: str
        required: true
      play:
        description: The play on that controller.
        type: str
        required: true
      live:
        description: All plays that are running on that controller.
        type: list
        elements: str
        required: true
      take_over:
        description: Whether a run that would be refused is ended, removed and started anew.
        type: bool
        default: false
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
