# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What OpenSSH needs of a node: its programs and an account."""

from __future__ import annotations

import os
import pwd

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import find_program

#: The packages that hold a program: Debian's and Ubuntu's, RHEL's and its kin's.
_PACKAGES = {
    "ssh": ("openssh-client", "openssh-clients"),
    "sshd": ("openssh-server", "openssh-server"),
    "ssh-keygen": ("openssh-client", "openssh"),
    "ssh-keyscan": ("openssh-client", "openssh-clients"),
}


def find_openssh_program(name: str) -> str:
    """The path of one of OpenSSH's programs. Raises NodeError, which says how to install it."""
    found = find_program(name)
    if found is None:
        debian, rhel = _PACKAGES[name]
        raise NodeError(
            f"{name} is not on this node; install it (Debian, Ubuntu: apt-get install {debian};"
            f" RHEL and its kin: dnf install {rhel}), in an image: RUN apt-get update &&"
            " apt-get install -y --no-install-recommends openssh-server openssh-client"
        )
    return found


def current_user() -> pwd.struct_passwd:
    """The account that this runs under. Raises NodeError where the uid has none."""
    uid = os.geteuid()
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        raise NodeError(
            f"uid {uid} has no entry in /etc/passwd, and neither ssh nor sshd works without one;"
            f" add one in the image, such as 'gpufabric:x:{uid}:0::/tmp:/bin/sh'"
        ) from None
