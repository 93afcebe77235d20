# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import pathlib
import shutil
import socket
import subprocess

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import Process
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.account import Account
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.sshd import (
    Instance,
    Sshd,
    SshdSettings,
    causes_in,
    check_port_is_free,
    complaint,
    config_values,
    describe,
    find_listener,
    has_limits_of_login,
    in_fips_mode,
    is_locked,
    last_connection,
    missing_privilege_separation_directory,
    parse_version,
    port_was_taken,
    presented_keys,
    refusing_line,
    render_config,
    usable_key_types,
)

RUN_DIR = RunDir("nightly", "/run/gpufabric/nightly")


def settings(**changes):
    return SshdSettings(**{"address": "10.0.0.11", "user": "root", **changes})


def test_config_lets_nobody_in_but_by_key():
    lines = render_config(settings(), RUN_DIR, 48231, (9, 2)).splitlines()
    assert {
        "Port 48231",
        "ListenAddress 10.0.0.11",
        "HostKey /run/gpufabric/nightly/sshd/ssh_host_ed25519_key",
        "AuthorizedKeysFile /run/gpufabric/nightly/sshd/authorized_keys",
        "AllowUsers root",
        "PermitRootLogin prohibit-password",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "UsePAM no",
        "AcceptEnv LD_LIBRARY_PATH",
        "KexAlgorithms -diffie-hellman-*",
    } <= set(lines)
    assert [line for line in lines if line.startswith("ListenAddress")] == ["ListenAddress 10.0.0.11"]


@pytest.mark.parametrize(
    ("user", "allowed"), [("bench@corp.example", "bench?corp.example"), ("CORP\\bench", "CORP\\bench")]
)
def test_a_user_of_a_domain_is_let_in(user, allowed):
    lines = render_config(settings(user=user), RUN_DIR, 48231, (9, 2)).splitlines()
    assert [line for line in lines if line.startswith("AllowUsers")] == [f"AllowUsers {allowed}"]


def test_a_user_whose_name_would_be_another_line_is_refused_before_anything_is_written():
    with pytest.raises(ProblemError, match="another account"):
        settings(user="a\nPermitEmptyPasswords yes")


def test_fips_mode_has_neither_ed25519_nor_chacha20(monkeypatch, tmp_path):
    flag = tmp_path / "fips_enabled"
    monkeypatch.setattr("ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.sshd._FIPS_MODE", str(flag))
    assert usable_key_types(["ed25519", "rsa"], in_fips_mode()) == ("ed25519", "rsa") and "chacha20" in _rendered()
    flag.write_text("0\n")
    assert usable_key_types(["ed25519"], in_fips_mode()) == ("ed25519",)
    flag.write_text("1\n")
    assert usable_key_types(["ed25519", "ecdsa", "rsa"], in_fips_mode()) == ("ecdsa", "rsa")
    assert "chacha20" not in _rendered() and "Ciphers aes256-gcm@openssh.com," in _rendered()


def _rendered():
    return render_config(settings(fips=in_fips_mode()), RUN_DIR, 1, (9, 2))


def test_options_of_the_user_take_the_place_of_others_since_sshd_takes_the_first_of_some_and_the_last_of_others():
    options = {"LogLevel": "DEBUG", "maxstartups": "10:30:60"}
    lines = render_config(settings(extra_options=options), RUN_DIR, 1, (9, 2)).splitlines()
    assert lines[1:3] == ["LogLevel DEBUG", "maxstartups 10:30:60"]
    assert [line for line in lines if line.lower().startswith(("loglevel", "maxstartups"))] == lines[1:3]
    assert "LoginGraceTime 30" in lines


def test_logins_at_once():
    for changes, expected in (
        ({}, "MaxStartups 1024"),
        ({"max_startups": 40}, "MaxStartups 40"),
        ({"max_startups": 40, "extra_options": {"maxstartups": "9"}}, "maxstartups 9"),
    ):
        lines = render_config(settings(**changes), RUN_DIR, 1, (9, 2)).splitlines()
        assert [line for line in lines if line.lower().startswith("maxstartups")] == [expected]


@pytest.mark.parametrize(
    ("shell", "forced"),
    [
        ("/bin/bash", []),
        ("/usr/bin/zsh", []),
        ("/bin/tcsh", []),
        ("/usr/bin/fish", ["/bin/sh -c 'eval \"$SSH_ORIGINAL_COMMAND\"'"]),
    ],
)
def test_commands_go_to_sh_if_the_login_shell_does_not_read_what_mpirun_writes(shell, forced):
    config = render_config(settings(shell=shell), RUN_DIR, 1, (9, 2))
    assert config_values(config, "ForceCommand") == forced


def test_options_that_weaken_nothing_are_taken():
    options = {"loglevel": "DEBUG", "Ciphers": "aes256-ctr", "MACs": "-hmac-sha1", "Subsystem": "sftp internal-sftp"}
    assert settings(extra_options=options).extra_options == options


def test_sessions_have_an_environment_of_their_own():
    found = {"NCCL_SOCKET_IFNAME": "=net1,net2", "TEXT": "two words; $x # 'y'"}
    (line,) = [
        line for line in render_config(settings(environment=found), RUN_DIR, 1, (9, 2)).splitlines() if "SetEnv" in line
    ]
    assert line.endswith(
        """TMPDIR=/run/gpufabric/nightly/tmp LC_MESSAGES=C NCCL_SOCKET_IFNAME==net1,net2 "TEXT=two words; $x # 'y'\""""
    )


@pytest.mark.parametrize(
    ("name", "value", "option"),
    [
        ("A B", "x", "environment"),
        ("TMPDIR", "/tmp", "environment"),
        ("GPUFABRIC_SSHD", "x", "environment"),
        ("A", "x\nPort 1", "environment.A"),
        ("A", 'x" B="y', "environment.A"),
        ("A", "x\\", "environment.A"),
    ],
)
def test_refuses_an_environment_that_sshd_would_read_differently(name, value, option):
    with pytest.raises(OptionError, match=f"^{option}: "):
        settings(environment={name: value})


@pytest.mark.parametrize(("version", "expected"), [((9, 7), False), ((9, 8), True), ((10, 0), True)])
def test_penalties_are_off_where_sshd_knows_them(version, expected):
    assert ("PerSourcePenalties no" in render_config(settings(), RUN_DIR, 1, version)) is expected


def test_find_listener_takes_this_runs_and_no_other():
    path = "/run/gpufabric/nightly/sshd/sshd_config"
    commands = {
        10: ("/usr/sbin/sshd", "-D", "-f", "/etc/ssh/sshd_config"),
        20: (f"sshd: /usr/sbin/sshd -D -f {path}2 [listener] 0 of 1024-1024 startups",),
        30: ("vi", path),
        40: (f"sshd: /usr/sbin/sshd -D -f {path} -E x [listener] 0 of 1024-1024 startups",),
        41: ("/usr/sbin/sshd", "-D", "-f", path, "-R"),
        50: ("",),
    }
    processes = {pid: Process(pid, 40 if pid == 41 else 1, 0, command) for pid, command in commands.items()}
    assert find_listener(processes, path, 0, is_own=lambda pid: True) == 40
    assert find_listener(processes, path, 1000, is_own=lambda pid: True) is None
    # That of a run of the same name in a container on this machine.
    assert find_listener(processes, path, 0, is_own=lambda pid: pid not in (40, 41)) is None
    processes.pop(40)
    assert find_listener(processes, path, 0, is_own=lambda pid: True) == 41


@pytest.mark.parametrize("made_by_a_run", [True, False])
def test_the_sshd_of_a_directory_that_no_run_has_made_is_somebody_elses(tmp_path, made_by_a_run):
    """It would be ended with the run."""
    run_dir = RunDir("default", str(tmp_path / "mine"))
    if made_by_a_run:
        run_dir.create(run_dir.sshd)
    os.makedirs(run_dir.sshd, mode=0o700, exist_ok=True)
    config = pathlib.Path(run_dir.sshd, "sshd_config")
    config.touch()
    with subprocess.Popen(["sleep", "60"]) as other:
        process = Process(other.pid, 1, os.geteuid(), ("/usr/sbin/sshd", "-D", "-f", str(config)))
        found = Sshd(run_dir, Account(run_dir)).listener({other.pid: process})
        other.kill()
    assert found == (other.pid if made_by_a_run else None)


def test_a_program_with_the_title_of_sshd_is_not_taken_for_it(tmp_path):
    found = {}
    for mode in (0o755, 0o4755):
        program = shutil.copy("/bin/sleep", tmp_path / f"{mode:o}")
        program.chmod(mode)
        with subprocess.Popen([program, "60"]) as other:
            process = Process(other.pid, 1, os.geteuid(), ("sshd", "-f", str(tmp_path)))
            found[mode] = find_listener({other.pid: process}, str(tmp_path), os.geteuid()) == other.pid
            other.kill()
    # As anybody may start su, which works as root.
    assert found == {0o755: True, 0o4755: False}


def test_limits_that_were_changed_since_an_sshd_was_started_are_seen():
    found = []
    for command in ("exec sleep 60", "ulimit -S -n 77; exec sleep 60"):
        with subprocess.Popen(["/bin/sh", "-c", f"{command} >&-"], stdout=subprocess.PIPE) as other:
            # Ends where the limit is set.
            other.stdout.read()
            found.append(has_limits_of_login(other.pid))
            other.kill()
    assert found == [True, False]
    assert has_limits_of_login(other.pid)


def test_a_port_is_free_though_connections_to_it_have_just_ended():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as connection:
            with pytest.raises(ProblemError):
                check_port_is_free(settings(address="127.0.0.1", port=port), RUN_DIR)
            # The side that ends it first keeps the port for a minute.
            listener.accept()[0].close()
            connection.recv(1)
    check_port_is_free(settings(address="127.0.0.1", port=port), RUN_DIR)


def test_config_reads_back():
    config = render_config(settings(host_key_types=("ed25519", "rsa")), RUN_DIR, 48231, (9, 2))
    assert Instance(config, None).port == 48231
    assert len(config_values(config, "HostKey")) == 2
    assert Instance(None, None).port == 0
    # A configuration that somebody spoiled.
    assert Instance("Port x\n", None).port == Instance("Port 1\nPort 2\n", None).port == 0


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"port": -1}, "port"),
        ({"port": 65536}, "port"),
        ({"host_key_types": ()}, "host_key_types"),
        ({"accept_env": ("A B",)}, "accept_env"),
        ({"extra_options": {"permitrootlogin": "yes"}}, "extra_options"),
        ({"extra_options": {"AcceptEnv": "*"}}, "extra_options"),
        *(
            ({"extra_options": {keyword: "yes"}}, "extra_options")
            for keyword in (
                *(
                    "Bad Keyword",
                    "SkeyAuthentication",
                    "AuthenticationMethods",
                    "DisableForwarding",
                    "PermitUserRC",
                    "Match",
                ),
                *(
                    "PermitUserEnvironment",
                    "GSSAPIAuthentication",
                    "KerberosAuthentication",
                    "AuthorizedPrincipalsFile",
                ),
                *(
                    "AllowTcpForwarding",
                    "PermitTunnel",
                    "Include",
                    "TrustedUserCAKeys",
                    "StrictModes",
                    "dsaauthentication",
                ),
            )
        ),
        ({"max_startups": 0}, "max_startups"),
        ({"extra_options": {"Ciphers": "3des-cbc"}}, "extra_options.Ciphers"),
        ({"extra_options": {"macs": "+hmac-sha1"}}, "extra_options.macs"),
        ({"extra_options": {"KexAlgorithms": "diffie-hellman-group1-sha1"}}, "extra_options.KexAlgorithms"),
        ({"extra_options": {"PubkeyAcceptedAlgorithms": "ssh-*"}}, "extra_options.PubkeyAcceptedAlgorithms"),
        ({"extra_options": {"HostKeyAlgorithms": "*"}}, "extra_options.HostKeyAlgorithms"),
        ({"extra_options": {"Banner": "x\nPermitRootLogin yes"}}, "extra_options.Banner"),
        ({"extra_options": {"Banner": ""}}, "extra_options.Banner"),
    ],
)
def test_refuses(changes, option):
    with pytest.raises(OptionError) as error:
        settings(**changes)
    assert str(error.value).startswith(f"{option}: ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("OpenSSH_9.2p1 Debian-2+deb12u5, OpenSSL 3.0.15 3 Sep 2024", (9, 2)),
        ("unknown option -- V\nOpenSSH_8.0p1, OpenSSL 1.1.1k  FIPS 25 Mar 2021\nusage: sshd", (8, 0)),
        ("OpenSSH_10.0p2 Debian-7, OpenSSL 3.5.1", (10, 0)),
        ("dropbear", (0, 0)),
    ],
)
def test_parse_version(text, expected):
    assert parse_version(text) == expected


LOG = """\
Connection from 10.0.0.1 port 1 on 10.0.0.2 port 2 rdomain ""
User root not allowed because account is locked
Connection from 10.0.0.1 port 3 on 10.0.0.2 port 2 rdomain ""
fatal: Access denied for user root by PAM account configuration [preauth]
"""


def test_what_was_mended_since_is_not_told():
    assert [problem.id for problem in causes_in(last_connection(LOG))] == ["pam-refused"]
    assert [problem.id for problem in causes_in(LOG)] == ["account-locked", "pam-refused"]
    assert causes_in(last_connection(LOG))[0].evidence == (
        "sshd.log:4: fatal: Access denied for user root by PAM account configuration [preauth]"
    )
    # A client that only looked, and an sshd that ends before it has said who comes.
    looked = "kex_exchange_identification: Connection closed by remote host\nConnection closed by 10.0.0.1 port 1\n"
    assert causes_in(last_connection(looked)) == []
    (missing,) = causes_in(last_connection(f"{looked}Missing privilege separation directory: /run/sshd\n"))
    assert missing.id == "sshd-run-directory" and "/run/sshd" in missing.cause


#: A session that hangs, and the look at sshd that follows before the session is ended.
HANGS = """\
Connection from 10.0.0.1 port 5 on 10.0.0.2 port 2 rdomain ""
Accepted publickey for root from 10.0.0.1 port 5 ssh2: ED25519 SHA256:x
Connection from 10.0.0.1 port 7 on 10.0.0.2 port 2 rdomain ""
Received disconnect from 10.0.0.1 port 7:11: gpufabric has looked whether large packets arrive [preauth]
Disconnected from 10.0.0.1 port 7 [preauth]
Connection closed by 10.0.0.1 port 5
"""


def test_a_look_at_sshd_is_no_login():
    lines = HANGS.splitlines()
    assert last_connection(HANGS).splitlines() == [*lines[:2], "", "", "", lines[5]]
    # Of a client that gives another reason nothing is known.
    other = HANGS.replace("gpufabric has", "somebody has")
    assert last_connection(other).splitlines() == ["", "", *other.splitlines()[2:]]


def test_what_sshd_says():
    assert (
        missing_privilege_separation_directory("Missing privilege separation directory: /run/sshd\r\n") == "/run/sshd"
    )
    assert missing_privilege_separation_directory("fine") is None
    assert port_was_taken("error: Bind to port 22 on 0.0.0.0 failed: Address already in use.")
    assert not port_was_taken("error: Bind to port 22 on 0.0.0.0 failed: Permission denied.")


@pytest.mark.parametrize(
    ("stderr", "expected"),
    [
        (
            "/c: line 2: Bad configuration option: X\r\n/c: terminating, 1 bad configuration options\r\n",
            "Bad configuration option: X",
        ),
        ('/c line 2: unsupported option "maybe".\r\n', 'unsupported option "maybe"'),
        (
            "Unable to load host key: /k\nsshd: no hostkeys available -- exiting.\n",
            "sshd: no hostkeys available -- exiting",
        ),
        ("", "no reason given"),
    ],
)
def test_complaint(stderr, expected):
    assert complaint(stderr, "/c") == expected


def test_presented_keys():
    scan = "# 127.0.0.1:4022 SSH-2.0-OpenSSH_9.2p1\n[127.0.0.1]:4022 ssh-ed25519 AAAA\n"
    assert presented_keys(scan) == {"ssh-ed25519 AAAA"}
    assert presented_keys("") == set()


@pytest.mark.parametrize(
    ("field", "expected"), [("!", True), ("!$6$hash", True), ("*", False), ("$6$hash", False), ("", False)]
)
def test_is_locked(field, expected):
    assert is_locked(f"daemon:!:1::::::\nroot:{field}:19000:0:99999:7:::\n", "root") is expected


def test_describe_shows_whether_it_runs():
    assert describe(None, False) == ""
    assert describe("Port 1\n", True) != describe("Port 1\n", False)


def test_describe_shows_no_values_that_may_be_secret():
    text = """Port 1\nSetEnv GPUFABRIC_SSHD=n NCCL_DEBUG=INFO MY_TOKEN=s3cret "MY_TEXT=with blanks and 'more'"\nUsePAM no\n"""
    shown = "SetEnv GPUFABRIC_SSHD=n NCCL_DEBUG=INFO MY_TOKEN=(not shown) MY_TEXT=(not shown)"
    assert describe(text, True) == f"# running\nPort 1\n{shown}\nUsePAM no\n"
    assert "s3cret" not in describe('SetEnv A="s3cret\n', True)


@pytest.mark.parametrize(
    ("allow", "deny", "found"),
    [
        ("", "", None),
        ("# sshd: ALL: deny\nsshd: 10.0.0.0/8\n", "# all of them\n#ALL: ALL\nvsftpd: ALL\n", None),
        ("", "ALL: ALL\n", ("/etc/hosts.deny", "ALL: ALL")),
        (
            "",
            "vsftpd, sshd : ALL EXCEPT LOCAL # but us\n",
            ("/etc/hosts.deny", "vsftpd, sshd : ALL EXCEPT LOCAL # but us"),
        ),
        ("", "vsftpd \\\n sshd@10.0.0.1: ALL", ("/etc/hosts.deny", "vsftpd   sshd@10.0.0.1: ALL")),
        ("sshd: ALL: DENY\n", "", ("/etc/hosts.allow", "sshd: ALL: DENY")),
        ("", "sshd: 10.0.0.0/8: allow\nnot a line\n", None),
    ],
)
def test_a_line_of_tcp_wrappers_that_refuses(allow, deny, found):
    assert refusing_line(allow, deny) == found
