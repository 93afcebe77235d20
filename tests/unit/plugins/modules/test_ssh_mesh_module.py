# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.ownership import Ownership
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.account import USER_NAME_ALLOWED
from ansible_collections.gpufabric.nccl.plugins.modules import ssh_mesh

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG7IVmFHXHTbvoHfMy49RxBRRWlqy8QPTnj4I6J"
PEER = {"address": "10.66.0.1", "port": 2200, "user": "root", "host_public_keys": [KEY], "client_public_key": KEY}
PUBLIC_KEY = "is not allowed; allowed: a public key as 'TYPE BASE64'"
SOURCES = "is not allowed; allowed: a list of addresses and subnets, such as 10.0.0.0/24"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"peers": []}, "peers: [] is not allowed; allowed: at least one peer, as sshd_instance returns it"),
        (
            {"peers": [{"address": "10.66.0.1"}]},
            "peers[0]: ['address'] is not allowed; allowed: a peer as sshd_instance returns it; port is missing",
        ),
        (
            {"peers": [PEER, {**PEER, "address": "g2"}]},
            "peers[1].address: 'g2' is not allowed; allowed: a numeric IPv4 or IPv6 address, such as 10.0.0.1, without a zone",
        ),
        (
            {"peers": [PEER, PEER]},
            "peers[1].address: '10.66.0.1' is not allowed; allowed: each address once; peers[0] has it too",
        ),
        ({"peers": [{**PEER, "port": 0}]}, "peers[0].port: 0 is not allowed; allowed: 1 to 65535"),
        ({"peers": [{**PEER, "port": 65536}]}, "peers[0].port: 65536 is not allowed; allowed: 1 to 65535"),
        (
            {"peers": [{**PEER, "user": "a b"}]},
            f"peers[0].user: 'a b' is not allowed; allowed: {USER_NAME_ALLOWED}",
        ),
        (
            {"peers": [{**PEER, "host_public_keys": []}]},
            "peers[0].host_public_keys: [] is not allowed; allowed: a list of at least one public key",
        ),
        (
            {"peers": [{**PEER, "host_public_keys": [f"{KEY}\nx"]}]},
            f"peers[0].host_public_keys: '{KEY}\\nx' {PUBLIC_KEY}",
        ),
        ({"peers": [{**PEER, "client_public_key": 5}]}, f"peers[0].client_public_key: 5 {PUBLIC_KEY}"),
        ({"peers": [{**PEER, "client_public_key": ""}]}, f"peers[0].client_public_key: '' {PUBLIC_KEY}"),
        ({"peers": [{**PEER, "sources": ["10.0.0.1/8"]}]}, f"peers[0].sources: '10.0.0.1/8' {SOURCES}"),
        ({"peers": [{**PEER, "sources": "10.0.0.1"}]}, f"peers[0].sources: '10.0.0.1' {SOURCES}"),
        (
            {"send_env": ["A=B"]},
            "send_env: 'A=B' is not allowed; allowed: names of environment variables, with * and ? as wildcards",
        ),
        (
            {"key_lifetime": -1},
            "key_lifetime: -1 is not allowed; allowed: 1 to 3650 days, or 0 for keys that do not expire",
        ),
        ({"connect_timeout": 0}, "connect_timeout: 0 is not allowed; allowed: 1 to 3600 seconds"),
        (
            {"run_id": "a/b"},
            "run_id: 'a/b' is not allowed; allowed: 1 to 63 letters, digits, dots, underscores and dashes,"
            " beginning with a letter or digit",
        ),
        (
            {"run_dir": "/etc/passwd/run"},
            "run_dir: /etc/passwd/run cannot be made, because /etc/passwd is not a directory that {user} may write;"
            " set run_dir (in playbooks gpufabric_run_dir) to a path below one that is",
        ),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(refuse, options, message):
    refuse(ssh_mesh, {"run_id": "bad", "run_dir": "{tmp}/run", "peers": [PEER], **options}, message)


def test_nothing_is_written_into_a_run_that_another_play_has_taken_over(tmp_path, monkeypatch):
    monkeypatch.setattr(ssh_mesh, "find_openssh_program", lambda name: f"/usr/bin/{name}")
    run_dir = RunDir("unit", str(tmp_path / "run"))
    mine, theirs = (
        {"owner": owner, "controller": "c1", "play": play, "live": ["10-100", "20-200"], "take_over": False}
        for owner, play in (("me@here", "10-100"), ("you@there", "20-200"))
    )
    Ownership(run_dir, theirs).take()
    params = {
        "run_id": "unit",
        "run_dir": run_dir.path,
        "state": "present",
        "peers": [PEER],
        "identity_file": None,
        "send_env": [],
        "strict_host_keys": True,
        "user_config": False,
        "connect_timeout": 10,
        "key_lifetime": 7,
    }
    with pytest.raises(ProblemError) as error:
        ssh_mesh.run({**params, "claim": mine}, False)
    assert error.value.problems[0].id == "run-taken" and not os.path.exists(run_dir.authorized_keys)
    assert ssh_mesh.run({**params, "claim": theirs}, False)["changed"] and os.path.exists(run_dir.authorized_keys)
