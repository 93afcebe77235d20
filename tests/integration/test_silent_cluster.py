# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster whose API server takes connections and never answers, as a load balancer does whose backend is gone."""

from __future__ import annotations

import os
import pathlib
import socket
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).parents[2]

#: Ansible, with another limit: its argument.
PROGRAM = """
import sys
from ansible.plugins.loader import init_plugin_loader
init_plugin_loader([])
from ansible_collections.gpufabric.nccl.plugins.plugin_utils import _cluster
_cluster._LONGEST = int(sys.argv.pop(1))
from ansible.cli.adhoc import AdHocCLI
AdHocCLI.cli_executor(sys.argv)
"""


def test_a_question_that_nobody_answers_ends(tmp_path: pathlib.Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        config = {
            "clusters": [{"name": "silent", "cluster": {"server": address}}],
            "users": [{"name": "user", "user": {"token": "none"}}],
            "contexts": [{"name": "silent", "context": {"cluster": "silent", "user": "user"}}],
            "current-context": "silent",
        }
        kubeconfig.write_text(yaml.safe_dump(config))
        arguments = f"kubeconfig={kubeconfig} namespace=x label_selector=a=b"
        play = subprocess.run(
            [sys.executable, "-c", PROGRAM, "10", "localhost", "-m", "gpufabric.nccl.pods_ready", "-a", arguments],
            cwd=tmp_path,
            env={
                **os.environ,
                "ANSIBLE_COLLECTIONS_PATH": f"{ROOT / 'build/collections'}:{ROOT / '.venv/collections'}",
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert play.returncode == 2, play.stdout + play.stderr
    assert "The API server of the cluster does not answer: no answer in 10 s." in play.stdout
