# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""OpenSSH's programs on a node."""

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.node_catalogue import known_cause
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import find_program

#: The packages that hold a program: Debian's and Ubuntu's, RHEL's and its kin's.
_PACKAGES = {
    "ssh": ("openssh-client", "openssh-clients"),
    "sshd": ("openssh-server", "openssh-server"),
    "ssh-keygen": ("openssh-client", "openssh"),
    "ssh-keyscan": ("openssh-client", "openssh-clients"),
}


def find_openssh_program(name: str) -> str:
    """The path of one of OpenSSH's programs. Raises ProblemError, which says how to install it."""
    found = find_program(name)
    if found is None:
        debian, rhel = _PACKAGES[name]
        raise known_cause("openssh-missing", program=name, debian=debian, rhel=rhel)
    return found
