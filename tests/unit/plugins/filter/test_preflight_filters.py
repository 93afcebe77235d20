# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

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
