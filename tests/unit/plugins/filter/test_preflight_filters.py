# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import shutil

import pytest
from ansible import context
from ansible.errors import AnsibleFilterError
from ansible_collections.gpufabric.nccl.plugins.filter.preflight import FilterModule, ssh_endpoints


@pytest.mark.parametrize("name", ["problems_markdown", "problems_text"])
def test_a_text_of_a_machine_is_no_template(name):
    """Before ansible-core 2.19, set_fact may run one in what a filter makes of hostvars."""
    text = "{{ lookup('pipe', 'id') }}"
    problem = {"id": text, "severity": "error", "host": text, "cause": text, "cure": "D.", "evidence": text}
    made = FilterModule().filters()[name]([problem])
    assert "lookup(" in made and "{{" not in made


def test_odd_values_of_the_inventory_are_no_error_of_python():
    with pytest.raises(AnsibleFilterError, match="^ssh_endpoints: ansible_port of g1: 'ssh' is not allowed"):
        ssh_endpoints(["g1"], {"g1": {"ansible_port": "ssh"}})


def test_hosts_without_variables_are_logged_in_to_as_ansible_does(monkeypatch):
    """By its command line, the environment and ansible.cfg."""
    monkeypatch.setenv("ANSIBLE_PRIVATE_KEY_FILE", "/fleet.pem")
    monkeypatch.setenv("ANSIBLE_SSH_ARGS", "-o StrictHostKeyChecking=no")
    monkeypatch.setenv("ANSIBLE_REMOTE_USER", "ubuntu")
    plain = {"address": "g1", "port": 22, "known_hosts": [], "name": "g1"}
    assert ssh_endpoints(["g1"], {"g1": {}}) == [{**plain, "user": "ubuntu", "key_file": "/fleet.pem"}]
    own = {
        "ansible_user": "ada",
        "ansible_ssh_private_key_file": "/own.pem",
        "ansible_ssh_args": "-o UserKnownHostsFile=/h",
    }
    assert ssh_endpoints(["g1"], {"g1": own}) == [
        {**plain, "user": "ada", "key_file": "/own.pem", "known_hosts": ["/h"]}
    ]
    monkeypatch.setattr(context, "CLIARGS", {"remote_user": "cloud", "ssh_common_args": "-J bastion"})
    assert ssh_endpoints(["g1"], {"g1": {}}) == []
    (endpoint,) = ssh_endpoints(["g1"], {"g1": {"ansible_ssh_common_args": ""}})
    assert endpoint["user"] == "cloud"


CONFIG = """\
Host g1
    HostName 10.0.0.1
    Port 2222
    User ada
    IdentityFile {tmp}/fleet
    UserKnownHostsFile {tmp}/hosts
    GlobalKnownHostsFile /dev/null
Host open
    HostName 10.0.0.2
    StrictHostKeyChecking no
Host jump
    ProxyJump bastion
Host command
    ProxyCommand nc %h %p
Host near
    ProxyJump none
Host *
    HostName 10.0.0.9
"""


@pytest.mark.skipif(shutil.which("ssh") is None, reason="there is no ssh")
def test_what_the_inventory_leaves_open_is_as_the_configuration_of_ssh_says(tmp_path, monkeypatch):
    """Also behind an ansible_host that is an alias there. What is reached through another host is not connected to."""
    monkeypatch.setattr(context, "CLIARGS", {})
    (tmp_path / "config").write_text(CONFIG.format(tmp=tmp_path))
    (tmp_path / "fleet").write_text("a key")
    common = {"ansible_ssh_common_args": f"-F {tmp_path}/config"}
    variables = {
        "g1": common,
        "alias": {**common, "ansible_host": "g1", "ansible_user": "root", "ansible_port": 22},
        "open": {**common, "ansible_user": "root"},
        "jump": common,
        "command": common,
        "near": {**common, "ansible_user": "root"},
        # It does not read the configuration.
        "library": {**common, "ansible_connection": "paramiko", "ansible_user": "root"},
        # Nothing is known, so it is as it was.
        "broken": {"ansible_ssh_common_args": f"-F {tmp_path}/none", "ansible_user": "root"},
    }
    own = {"key_file": f"{tmp_path}/fleet", "known_hosts": [f"{tmp_path}/hosts", "/dev/null"]}
    plain = {"user": "root", "port": 22, "key_file": None}
    assert ssh_endpoints(variables, variables) == [
        {"name": "g1", "address": "10.0.0.1", "port": 2222, "user": "ada", **own},
        {"name": "alias", "address": "10.0.0.1", "port": 22, "user": "root", **own},
        {"name": "open", "address": "10.0.0.2", **plain, "known_hosts": []},
        {"name": "near", "address": "10.0.0.9", **plain},
        {"name": "library", "address": "library", **plain},
        {"name": "broken", "address": "broken", **plain},
    ]


def test_without_ssh_the_inventory_alone_counts(monkeypatch):
    monkeypatch.setattr(context, "CLIARGS", {})
    own = {"ansible_ssh_executable": "/nonexistent/ssh", "ansible_user": "ada"}
    assert ssh_endpoints(["g1"], {"g1": own}) == [
        {"name": "g1", "address": "g1", "port": 22, "user": "ada", "key_file": None}
    ]
