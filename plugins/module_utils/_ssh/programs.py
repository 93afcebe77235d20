# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""OpenSSH's programs on a node."""

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.node_catalogue import known_cause
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import find_program, run

#: The packages that hold a program: Debian's and Ubuntu's, RHEL's and its kin's.
_PACKAGES = {
    "ssh": ("openssh-client", "openssh-clients"),
    "sshd": ("openssh-server", "openssh-server"),
    "ssh-keygen": ("openssh-client", "openssh"),
    "ssh-keyscan": ("openssh-client", "openssh-clients"),
}

#: Key exchanges that cost least, the first post-quantum (OpenSSH 9.9 and later). NTRU Prime, which earlier ones prefer, takes some
#: 40 ms of a processor on both sides of each connection.
_QUICK = ("mlkem768x25519-sha256,curve25519-sha256", "curve25519-sha256")


def find_openssh_program(name: str) -> str:
    """The path of one of OpenSSH's programs. Raises ProblemError, which says how to install it."""
    found = find_program(name)
    if found is None:
        debian, rhel = _PACKAGES[name]
        raise known_cause("openssh-missing", program=name, debian=debian, rhel=rhel)
    return found


def quick_exchange(ssh: str) -> list[str]:
    """Options by which ssh prefers a quick key exchange, for what need not stay secret for decades; none if this ssh takes none.

    What a server does not allow is not used.
    """
    for names in _QUICK:
        options = ["-o", f"KexAlgorithms=^{names}"]
        try:
            if run([ssh, "-F", "/dev/null", *options, "-G", "localhost"]).returncode == 0:
                return options
        except NodeError:
            break
    return []
