# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import signal

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.ownership import Ownership
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.sshd import EXTRA_KEYWORDS
from ansible_collections.gpufabric.nccl.plugins.modules import sshd_instance

RUN_ID = (
    "is not allowed; allowed: 1 to 63 letters, digits, dots, underscores and dashes, beginning with a letter or digit"
)
PORT = "is not allowed; allowed: 0 (the operating system chooses), or 1 to 65535"
PROGRAM = "is not allowed; allowed: the absolute path of a program"


@pytest.fixture(autouse=True)
def nothing_runs(tmp_path):
    """Ends what is started where the module takes what it should refuse."""
    yield
    for file in tmp_path.rglob("sshd.pid"):
        os.kill(int(file.read_text(encoding="ascii")), signal.SIGTERM)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"port": 70000}, f"port: 70000 {PORT}"),
        ({"port": -1}, f"port: -1 {PORT}"),
        (
            {"interface": "nosuch7"},
            "interface: 'nosuch7' is not allowed; allowed: an interface of this node that has an address:"
            " {interfaces_with_address}",
        ),
        (
            {"address": "g1"},
            "address: 'g1' is not allowed; allowed: a numeric IPv4 or IPv6 address, such as 10.0.0.1, without a zone",
        ),
        (
            {"address": "240.0.0.1"},
            "address: '240.0.0.1' is not allowed; allowed: an address of this node: {addresses}",
        ),
        (
            {"subnet": "10.66.0.0"},
            "subnet: '10.66.0.0' is not allowed; allowed: a subnet with its prefix length, such as 10.0.0.0/24",
        ),
        (
            {"subnet": "240.0.0.0/24"},
            "subnet: '240.0.0.0/24' is not allowed; allowed: a subnet that this node has an address in: {addresses}",
        ),
        ({"run_id": "a/b"}, f"run_id: 'a/b' {RUN_ID}"),
        ({"run_id": ".."}, f"run_id: '..' {RUN_ID}"),
        (
            {"run_dir": "/etc/passwd/run"},
            "run_dir: /etc/passwd/run cannot be made, because /etc/passwd is not a directory that {user} may write;"
            " set run_dir (in playbooks gpufabric_run_dir) to a path below one that is",
        ),
        (
            {"run_dir": "/run/with blank"},
            "run_dir: '/run/with blank' is not allowed; allowed: an absolute path of two parts or more,"
            " such as /scratch/run, of letters, digits and ._+-",
        ),
        (
            # As /tmp is.
            {"run_dir": "{public}"},
            "run_dir: {public} is not a directory that only {user} may write (owner uid {uid}, mode 0777);"
            " remove it or set run_dir (in playbooks gpufabric_run_dir)",
        ),
        (
            {"accept_env": ["LD PATH"]},
            "accept_env: 'LD PATH' is not allowed; allowed: names of environment variables, with * and ? as wildcards",
        ),
        (
            {"host_key_types": []},
            "host_key_types: [] is not allowed; allowed: at least one of ed25519, ecdsa, rsa",
        ),
        ({"sshd_path": "sbin/sshd"}, f"sshd_path: 'sbin/sshd' {PROGRAM}"),
        ({"sshd_path": "/etc/passwd"}, f"sshd_path: '/etc/passwd' {PROGRAM}"),
        (
            {"extra_options": {"permitRootLogin": "yes"}},
            f"extra_options: 'permitRootLogin' is not allowed; allowed: {', '.join(EXTRA_KEYWORDS)}",
        ),
        (
            {"extra_options": {"MaxSessions": {"a": 1}}},
            "extra_options.MaxSessions: {'a': 1} is not allowed; allowed: a text, a number, or yes or no",
        ),
        (
            {"extra_options": {"MaxSessions": None}},
            "extra_options.MaxSessions: None is not allowed; allowed: a text, a number, or yes or no",
        ),
        (
            {"extra_options": {"Banner": "a\nb"}},
            "extra_options.Banner: 'a\\nb' is not allowed; allowed: one line of printable characters",
        ),
        (
            {"environment": {"NCCL_IB_DISABLE": True}},
            "environment.NCCL_IB_DISABLE: True is not allowed; allowed: a text or a number, such as 1 or 0 (variable: gpufabric_node_env)",
        ),
        ({"timeout": 0}, "timeout: 0 is not allowed; allowed: 1 to 3600 seconds"),
        ({"timeout": 10**400}, f"timeout: {10**400} is not allowed; allowed: 1 to 3600 seconds"),
        (
            {"interface": "eth0", "subnet": "10.0.0.0/24"},
            "subnet: '10.0.0.0/24' is not allowed; allowed: to leave it out, since interface is set, too; of"
            " gpufabric_control_interface and gpufabric_control_subnet, roles take one",
        ),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(refuse, options, message):
    # Which address this machine has is no matter.
    where = {} if {"interface", "subnet"} & set(options) else {"address": "127.0.0.1"}
    refuse(sshd_instance, {"run_id": "bad", "run_dir": "{tmp}/run", **where, **options}, message)


def test_truth_values_of_yaml_are_the_words_of_sshd():
    values = {"Compression": True, "TCPKeepAlive": False, "MaxSessions": 4, "Banner": "/etc/issue"}
    assert [sshd_instance.value_of(*item) for item in values.items()] == ["yes", "no", "4", "/etc/issue"]


@pytest.mark.parametrize("state", ["stopped", "absent"])
def test_the_sshd_of_another_owner_is_not_ended(tmp_path, monkeypatch, state):
    # The module's is for its own process.
    monkeypatch.setattr(os, "umask", lambda _mask: 0o022)
    run_dir = RunDir("unit", str(tmp_path / "run"))
    claim = {"owner": "me@here", "controller": "c1", "play": "10-100", "live": ["10-100", "20-200"]}
    Ownership(run_dir, claim).take()
    run_dir.create(run_dir.sshd)
    params = {"run_id": "unit", "run_dir": run_dir.path, "state": state, "sshd_path": None}
    with pytest.raises(ProblemError) as refused:
        sshd_instance.run({**params, "claim": {**claim, "owner": "you@there", "play": "20-200"}}, False)
    assert refused.value.problems[0].id == "run-taken" and os.path.exists(run_dir.sshd)
