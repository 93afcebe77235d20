# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import shutil
import subprocess

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.programs import quick_exchange

#: Each is an ssh that refuses what it does not know, as a whole.
NEW = 'case "$*" in *-G*) exit 0;; esac; exit 255'
OLD = 'case "$*" in *mlkem*) exit 255;; *-G*) exit 0;; esac; exit 255'
OLDEST = "exit 255"


@pytest.mark.parametrize(
    ("ssh", "options"),
    [
        (NEW, ["-o", "KexAlgorithms=^mlkem768x25519-sha256,curve25519-sha256"]),
        (OLD, ["-o", "KexAlgorithms=^curve25519-sha256"]),
        (OLDEST, []),
    ],
)
def test_the_quickest_exchange_that_this_ssh_knows(tmp_path, ssh, options):
    path = tmp_path / "ssh"
    path.write_text(f"#!/bin/sh\n{ssh}\n")
    path.chmod(0o755)
    assert quick_exchange(str(path)) == options


def test_no_ssh_no_options(tmp_path):
    assert quick_exchange(str(tmp_path / "none")) == []


def test_what_a_server_may_demand_is_still_offered():
    ssh = shutil.which("ssh")
    if ssh is None:
        pytest.skip("there is no ssh")
    offered = [
        next(
            line.split()[1].split(",")
            for line in subprocess.run(
                [ssh, "-F", "/dev/null", *options, "-G", "localhost"], capture_output=True, text=True, check=True
            ).stdout.splitlines()
            if line.startswith("kexalgorithms ")
        )
        for options in ([], quick_exchange(ssh))
    ]
    assert set(offered[0]) == set(offered[1]) and "25519" in offered[1][0]
