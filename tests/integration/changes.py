# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the last commit and the working tree have changed."""

from __future__ import annotations

import pathlib
import subprocess


def has_changed(folder: str) -> bool:
    """Whether they changed something but documentation in a folder of the repository; also where git does not tell."""
    root = pathlib.Path(__file__).parents[2]
    # Git refuses another user's repository, which a checkout is to tests that run as root.
    git = ["git", "-c", f"safe.directory={root}", "-C", str(root)]
    paths = ["--", folder, ":(exclude)*.md"]
    commands = (["diff", "--quiet", "HEAD~1", *paths], ["ls-files", "--others", "--exclude-standard", *paths])
    done = [subprocess.run([*git, *command], capture_output=True, check=False) for command in commands]
    return any(one.returncode != 0 or one.stdout for one in done)
