# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib
import types
import typing as t

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.policy import (
    FORWARDED_ENVIRONMENT,
    SSHD_POLICY,
    SSHD_POLICY_9_8,
)

PROGRAM = pathlib.Path(__file__).parents[3] / "containers/worker/entrypoint.py"
# Not as a module, which would leave compiled files among those of the image.
_NAMES: dict[str, t.Any] = {"__name__": "entrypoint"}
exec(compile(PROGRAM.read_text(encoding="utf-8"), str(PROGRAM), "exec"), _NAMES)
entrypoint = types.SimpleNamespace(**_NAMES)


@pytest.mark.parametrize(
    ("environment", "uid", "expected"),
    [
        ({}, 0, (False, 22, "", "")),
        ({"START_SSHD": "true"}, 1000, (True, 2222, "", "")),
        ({"START_SSHD": "True", "SSHD_PORT": "2200"}, 0, (True, 2200, "", "")),
        ({"START_SSHD": "", "SSHD_PORT": "", "SSHD_LISTEN_ADDRESS": "fe80::1"}, 0, (False, 22, "fe80::1", "")),
        ({"START_SSHD": "false", "SSH_AUTH_DIR": "/etc/job keys"}, 0, (False, 22, "", "/etc/job keys")),
    ],
)
def test_settings(environment, uid, expected):
    assert entrypoint.parse_settings(environment, uid) == expected


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"START_SSHD": "1"}, "START_SSHD=1 is not allowed; allowed: true, false"),
        ({"SSHD_PORT": "0"}, "SSHD_PORT=0 is not allowed; allowed: 1 to 65535"),
        ({"SSHD_PORT": "65536"}, "SSHD_PORT=65536 is not"),
        ({"SSHD_PORT": "22\n"}, "SSHD_PORT=22\n is not"),
        (
            {"SSHD_LISTEN_ADDRESS": "localhost"},
            "SSHD_LISTEN_ADDRESS=localhost is not allowed; allowed: a numeric address",
        ),
        ({"SSHD_LISTEN_ADDRESS": "0.0.0.0\nPermitRootLogin yes"}, "is not allowed"),
        ({"SSH_AUTH_DIR": "keys"}, "SSH_AUTH_DIR=keys is not allowed; allowed: an absolute path"),
        ({"SSH_AUTH_DIR": "/keys\n"}, "is not allowed"),
    ],
)
def test_bad_settings(environment, message):
    with pytest.raises(entrypoint.WorkerError) as caught:
        entrypoint.parse_settings(environment, 0)
    assert message in str(caught.value)


def test_sessions_get_the_containers_environment_but_what_is_their_own():
    environment = {
        "PATH": "/bin", "LD_LIBRARY_PATH": "/a b", "NCCL_DEBUG": "", "MASTER_PORT": "1", "TABBED": "a\tb",
        "HOME": "/root", "USER": "root", "TERM": "xterm", "_": "/bin/x", "START_SSHD": "true", "SSHD_PORT": "22",
        "SSH_CLIENT": "x", "BAD-NAME": "x", "TWO_LINES": "a\nb",
        "KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT_HTTPS": "443", "KUBERNETES_PORT": "tcp://10.0.0.1",
        "KUBERNETES_PORT_443_TCP_ADDR": "10.0.0.1",
    }  # fmt: skip
    assert list(entrypoint.session_environment(environment)) == [
        "LD_LIBRARY_PATH",
        "MASTER_PORT",
        "NCCL_DEBUG",
        "PATH",
        "TABBED",
    ]


def settings(**changes):
    return entrypoint.parse_settings({"START_SSHD": "true", **changes}, 0)


def test_sshd_config():
    environment = {"PATH": "/bin", "LD_LIBRARY_PATH": 'a "b"\\c'}
    given = settings(SSHD_PORT="2200", SSHD_LISTEN_ADDRESS="10.0.0.1")
    lines = entrypoint.render_sshd_config(given, "root", ["/k/host", "/k/job"], "/k/auth", environment).splitlines()
    assert lines[:6] == [
        "Port 2200",
        "ListenAddress 10.0.0.1",
        "HostKey /k/host",
        "HostKey /k/job",
        "AuthorizedKeysFile /k/auth",
        "PidFile none",
    ]
    assert {"AllowUsers root", "PermitRootLogin prohibit-password", "PasswordAuthentication no", "UsePAM no"} < set(
        lines
    )
    assert lines[-1] == r'SetEnv "LD_LIBRARY_PATH=a \"b\"\\c" "PATH=/bin"'


def test_sshd_config_without_address_and_environment():
    text = entrypoint.render_sshd_config(settings(), "root", ["/k"], "/a", {})
    assert "ListenAddress" not in text and "SetEnv" not in text


def test_a_locked_account_goes_through_pam():
    assert (
        "UsePAM yes" in entrypoint.render_sshd_config(settings(), "root", ["/k"], "/a", {}, use_pam=True).splitlines()
    )


def test_what_it_keeps_to_is_what_the_collection_does():
    assert entrypoint.ACCEPTED_ENVIRONMENT == FORWARDED_ENVIRONMENT
    assert (entrypoint.SSHD_POLICY, entrypoint.SSHD_POLICY_9_8) == (SSHD_POLICY, SSHD_POLICY_9_8)


@pytest.mark.parametrize(("port", "lines"), [(22, []), (2222, ["  Port 2222"])])
def test_ssh_config(port, lines):
    assert entrypoint.render_ssh_config("worker", "/k/id", "/k/hosts", port).splitlines() == [
        "# Written by gpufabric-worker",
        "Host *",
        "  User worker",
        "  IdentityFile /k/id",
        "  UserKnownHostsFile ~/.ssh/known_hosts /k/hosts",
        *lines,
    ]


def test_own_ssh_config_reads_that_of_the_user_first():
    text = entrypoint.render_own_ssh_config("# Written\nHost *\n  User worker\n", "/home/a b")
    assert text.splitlines() == [
        "# Written",
        'Include "/home/a b/.ssh/config"',
        "Host *",
        "  User worker",
        "Host *",
        "  Include /etc/ssh/ssh_config",
    ]


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("Name:\tx\nCapEff:\t00000000800405fb\n", []),
        ("CapEff:\t000000008000053b\n", ["SETGID", "SETUID", "SYS_CHROOT"]),
        ("CapEff:\t00000000800005fb\n", ["SYS_CHROOT"]),
        ("", []),
    ],
)
def test_missing_capabilities(text, missing):
    assert entrypoint.missing_capabilities(text) == missing


@pytest.mark.parametrize(
    ("shadow", "locked"),
    [("root:*:1:::::\n", False), ("a:!:1\nroot:!$y:1:\n", True), ("rooty:!:1\n", False), ("", False)],
)
def test_locked_accounts(shadow, locked):
    assert entrypoint.is_locked(shadow, "root") is locked


@pytest.mark.parametrize(
    ("passwd", "name"),
    [
        ("root:x:0:0::/root:/bin/sh\n", "worker"),
        ("worker:x:1000:1000::/:/bin/sh\n", "worker7"),
        ("worker:x:7:0::/tmp:/bin/sh\n", "worker"),
        ("", "worker"),
    ],
)
def test_name_of_an_account(passwd, name):
    assert entrypoint.account_name(7, passwd) == name


@pytest.mark.parametrize(
    ("status", "text", "code"), [(0x0300, "ended with exit status 3", 3), (9, "was ended by SIGKILL", 137)]
)
def test_statuses(status, text, code):
    assert entrypoint.ended(status) == text
    assert entrypoint.exit_status(status) == code


def test_descendants():
    assert entrypoint.children({2: 1, 3: 2, 4: 3, 5: 9, 9: 8, 1: 0}, 1) == {2, 3, 4}


def test_parent_of_a_process_with_a_name_that_misleads():
    assert entrypoint.parse_parent("12 (a) S 9 (b) S 7 12 12 0") == 7
