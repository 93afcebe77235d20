# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a client that is not OpenSSH finds at a private sshd."""

from __future__ import annotations

import contextlib
import io
import socket

import paramiko
import pytest


@pytest.fixture(scope="module")
def instance(breakable):
    """A private sshd on g1, whose root has a password; what the module returned, and ``key``, its own client key."""
    before = breakable.state("g1")
    old = breakable.shell("g1", "getent shadow root").stdout.split(":")[1]
    absent = {"run_id": "client", "state": "absent"}
    try:
        breakable.shell("g1", 'usermod --password "$(openssl passwd -6 right)" root')
        given = {"run_id": "client", "interface": "eth0", "accept_env": ["LISTED_*"]}
        result = breakable.module("sshd_instance", given)
        key = breakable.shell("g1", "cat /run/gpufabric/client/ssh/id_ed25519").stdout
        yield {**result, "key": paramiko.Ed25519Key.from_private_key(io.StringIO(key))}
    finally:
        breakable.shell("g1", f"usermod --password '{old}' root")
        breakable.modules([("ssh_mesh", absent), ("sshd_instance", absent)])
    # To set a password is to write the files of the accounts.
    assert {line for line in breakable.state("g1") ^ before if " /etc/" not in line} == set()


def admit(breakable, instance, *sources):
    """Let this key in from these addresses too."""
    sources = [instance["address"], *sources]
    peer = {key: instance[key] for key in ("address", "port", "user", "host_public_keys", "client_public_key")}
    result = breakable.module("ssh_mesh", {"run_id": "client", "peers": [{**peer, "sources": sources}]})
    assert not result["failed"], result


@contextlib.contextmanager
def connection(instance):
    """A connection that nobody has logged in by yet."""
    transport = paramiko.Transport((instance["address"], instance["port"]))
    try:
        transport.start_client(timeout=10)
        yield transport
    finally:
        transport.close()


def own_address(instance):
    """The address that the node sees this machine by."""
    with socket.create_connection((instance["address"], instance["port"])) as probe:
        return probe.getsockname()[0]


@pytest.fixture
def session(breakable, instance):
    """A connection that is logged in."""
    admit(breakable, instance, own_address(instance))
    with connection(instance) as transport:
        transport.auth_publickey("root", instance["key"])
        yield transport


def run(channel, command):
    """What a command prints."""
    channel.exec_command(command)
    return channel.makefile().read().decode()


def test_the_host_key_is_the_pinned_one(instance):
    with connection(instance) as transport:
        key = transport.get_remote_server_key()
    assert f"{key.get_name()} {key.get_base64()}" == instance["host_public_keys"][0]


def test_passwords_are_refused(instance):
    for method in ("auth_password", "auth_interactive_dumb", "auth_none"):
        arguments = {"auth_password": ["right"], "auth_interactive_dumb": [lambda *_request: ["right"]]}.get(method, [])
        with connection(instance) as transport:
            with pytest.raises(paramiko.BadAuthenticationType) as refused:
                getattr(transport, method)("root", *arguments)
        assert refused.value.allowed_types == ["publickey"]


def test_only_the_nodes_own_key_for_the_nodes_own_user(breakable, instance):
    admit(breakable, instance, own_address(instance))
    for user, key in (("root", paramiko.ECDSAKey.generate()), ("nobody", instance["key"])):
        with connection(instance) as transport, pytest.raises(paramiko.AuthenticationException):
            transport.auth_publickey(user, key)
    with connection(instance) as transport:
        assert transport.auth_publickey("root", instance["key"]) == []


def test_the_right_key_from_another_address_is_refused(breakable, instance):
    admit(breakable, instance)
    with connection(instance) as transport, pytest.raises(paramiko.AuthenticationException):
        transport.auth_publickey("root", instance["key"])


def test_only_listed_variables_are_accepted(session):
    channel = session.open_session()
    for name in ("LISTED_ONE", "UNLISTED", "LD_LIBRARY_PATH"):
        channel.set_environment_variable(name, "set")
    variables = dict(line.split("=", 1) for line in run(channel, "env").splitlines())
    assert variables["LISTED_ONE"] == "set"
    assert "UNLISTED" not in variables and "LD_LIBRARY_PATH" not in variables
    # By these, what a session started is found and ended.
    assert variables["GPUFABRIC_RUN_ID"] == variables["GPUFABRIC_SSHD"] == "client"
    assert variables["GPUFABRIC_RUN_DIR"] == "/run/gpufabric/client"


def test_nothing_but_commands(session):
    assert run(session.open_session(), "id -un") == "root\n"
    here = ("127.0.0.1", 22)
    with pytest.raises(paramiko.ChannelException, match="prohibited"):
        session.open_channel("direct-tcpip", dest_addr=here, src_addr=here)
    with pytest.raises(paramiko.SSHException):
        session.request_port_forward("127.0.0.1", 0)
    for refused in ("get_pty", "request_x11"):
        with pytest.raises(paramiko.SSHException):
            getattr(session.open_session(), refused)()
    with pytest.raises(paramiko.SSHException):
        session.open_session().invoke_subsystem("sftp")
    agent = session.open_session()
    agent.request_forward_agent(lambda _channel: None)
    assert run(agent, "echo ${SSH_AUTH_SOCK:-none}") == "none\n"
