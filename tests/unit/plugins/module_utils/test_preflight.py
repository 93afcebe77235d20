# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils import _preflight
from ansible_collections.gpufabric.nccl.plugins.module_utils._probe import MARK

CONFIG = """\
Host 10.0.0.1
    HostName 10.0.0.1
    Port 2201
    SendEnv LD_LIBRARY_PATH NCCL_*
Host 10.0.0.2
    HostName 10.0.0.2
    Include /etc/ssh/ssh_config
"""


def test_an_ssh_config_is_read_by_host():
    hosts = _preflight.parse_ssh_config(CONFIG)
    assert list(hosts) == ["10.0.0.1", "10.0.0.2"]
    assert hosts["10.0.0.1"]["port"] == ["2201"] and "port" not in hosts["10.0.0.2"]


def test_a_variable_is_tried_for_each_pattern():
    environment = {"NCCL_DEBUG": "INFO", "OTHER": "x", "LD_LIBRARY_PATH": "", "OMPI_MCA_a": "one\ntwo"}
    assert _preflight.try_variables(["LD_LIBRARY_PATH", "NCCL_*", "OMPI_MCA_*", "A?"], environment) == {
        "NCCL_DEBUG": "INFO",
        "AX": "/gpufabric-preflight",
    }


def test_variables_that_ssh_keeps_to_itself():
    assert _preflight.not_sent(["NCCL_DEBUG", "PATH", "A"], ["LD_LIBRARY_PATH NCCL_*", "A"]) == ["PATH"]


@pytest.mark.parametrize(
    ("names", "links"),
    [
        (["a"], {"a": []}),
        (["a", "b"], {"a": ["b"], "b": ["a"]}),
        (["a", "b", "c"], {"a": ["b", "c"], "b": ["c", "a"], "c": ["a", "b"]}),
    ],
)
def test_every_host_sends_to_its_neighbours(names, links):
    assert _preflight.plan_links(names) == links


def test_in_a_large_ring_all_are_sent_to_as_often():
    links = _preflight.plan_links([str(number) for number in range(20)])
    targets = [target for others in links.values() for target in others]
    assert all(targets.count(host) == 3 and host not in links[host] for host in links)


@pytest.mark.parametrize("python", [None, "/opt/python/bin/python3", "/opt/it's/$(reboot)"])
def test_the_command_is_harmless_to_any_login_shell(python):
    command = _preflight.remote_command(python)
    assert command.count("'") == 2 and "!" not in command and "\n" not in command and "reboot" not in command
    assert ("/opt/python/bin/python3 " in command) is (python == "/opt/python/bin/python3")


def test_the_probe_runs_with_nothing_but_what_is_sent():
    parameters = {
        "prefix": "/nosuch",
        "daemon": "orted",
        "program": None,
        "control": None,
        "variables": {"UNSET": "x"},
        "run_dir": "/nosuch/run",
        # A port that nobody may listen on.
        "callback": {"address": "127.0.0.1", "port": 1},
        "token": "t",
        "full": True,
        "data_interface": None,
        "timeout": 2,
        "deadline": 60,
    }
    command = _preflight.remote_command(sys.executable)
    done = subprocess.run(
        ["sh", "-c", command], input=_preflight.program_text(parameters), capture_output=True, timeout=60, check=False
    )
    (line,) = [line for line in done.stdout.decode().splitlines() if line.startswith(MARK)] or [done.stderr]
    facts = json.loads(line[len(MARK) :])
    assert facts["daemon"]["exists"] is False and facts["environment"] == {"UNSET": False}
    assert facts["callback"]["status"] == "refused" and "lo" in facts["interfaces"]
    assert facts["disks"] and facts["shm"]["size"] > 0
