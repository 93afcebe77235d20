# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to the collection: it may change in any release.

"""Who starts a run."""

from __future__ import annotations

import getpass
import os
import socket

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError


def owner_of_run(given: str | None) -> str:
    """``gpufabric_owner``; if that is blank, USER@HOST of the controller. Raises OptionError."""
    if given and given.strip():
        if not given.isprintable():
            raise OptionError("gpufabric_owner", given, "text in one line, such as USER@HOST")
        return given.strip()
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A user id without an account.
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
