# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The end of a run on a node, and the accounts that runs make for uids that have none."""

from __future__ import annotations

import contextlib
import json

import pytest
from background import wait

LIBRARY = "/usr/lib/*-linux-*/libnss_wrapper.so*"
#: Marks the processes of the program that is started.
MARK = "GPUFABRIC_RUN_ID=ending"


def connect(nodes, run_id, **variables):
    """Let all nodes reach all."""
    play = {"hosts": "all", "gather_facts": False, "roles": ["gpufabric.nccl.key_exchange"]}
    played = nodes.playbook([play], gpufabric_run_id=run_id, **variables)
    assert played.returncode == 0, played.output


def address_of(nodes, node, run_id):
    """Where a node's private sshd of a run is."""
    config = nodes.shell(node, f"cat /run/gpufabric/{run_id}/sshd/sshd_config").stdout.splitlines()
    return tuple(next(line.split()[1] for line in config if line.startswith(key)) for key in ("ListenAddress", "Port "))


def processes(nodes, node, mark=MARK):
    """The programs on a node that carry a mark."""
    grep = f"for f in $(grep -lz {mark} /proc/[0-9]*/environ); do cat ${{f%environ}}comm; done"
    return nodes.shell(node, grep, check=False).stdout.split()


def test_a_run_is_ended_and_nothing_is_left_of_it(fresh_nodes):
    nodes = fresh_nodes
    nodes.shell("g1", "mkdir -m 0700 ~/.ssh; printf 'Host elsewhere\\n    Port 23\\n' > ~/.ssh/config")
    connect(nodes, "other")
    before = {node: nodes.state(node) for node in nodes.names}
    connect(nodes, "ending", key_exchange_user_config=True)
    nodes.shell("g1", f"printf '%s slots=1\\n' {' '.join(nodes.addresses.values())} > /tmp/hosts-of-run")
    points = [{"argv": ["true"]}, {"argv": ["sleep", "600"]}]
    options = {"run_id": "ending", "hostfile": "/tmp/hosts-of-run", "points": points}
    started = nodes.module("mpi_run", {**options, "state": "started"})
    assert not started["failed"], started
    wait(lambda: all("sleep" in processes(nodes, node) for node in nodes.names))
    nodes.shell("g1", "rm /tmp/hosts-of-run")
    runner = json.loads(nodes.shell("g1", "cat /run/gpufabric/ending/mpi/run.json").stdout)["pid"]
    program = nodes.shell("g1", f"tr '\\0' '\\n' < /proc/{runner}/cmdline | head -n 1").stdout.strip()

    found = {}
    logins = "pgrep -P $(cat /run/gpufabric/ending/sshd/sshd.pid)"
    for node in nodes.names:
        (found[node],) = nodes.predicted([("run_cleanup", {"run_id": "ending"})], hosts=node)
        assert nodes.shell("g1", f"test -e /proc/{runner}", check=False).returncode != 0
        if node == "g1":
            # Without mpirun, what it started on g2 ends by itself, and so do its logins there.
            wait(lambda: not processes(nodes, "g2") and nodes.shell("g2", logins, check=False).returncode == 1)
    assert nodes.shell("g1", "cat ~/.ssh/config").stdout == "Host elsewhere\n    Port 23\n"
    # Also what starts the points, which would go on with the next one.
    assert {"mpirun", "sleep", "ssh", "sshd", program.rpartition("/")[2]} <= set(found["g1"]["ended"])
    assert "sshd" in found["g2"]["ended"]
    assert found["g1"]["removed"] == ["/run/gpufabric/ending", "/root/.ssh/config"]
    assert found["g1"]["run_dir"] == "/run/gpufabric/ending"
    # Neither arguments of programs nor keys.
    diff = json.dumps([found[node]["diff"] for node in nodes.names])
    assert "600" not in diff and "KEY" not in diff
    assert {node: processes(nodes, node) for node in nodes.names} == {node: [] for node in nodes.names}
    assert {node: nodes.state(node) for node in nodes.names} == before

    # The other run goes on.
    ssh = f"ssh -F /run/gpufabric/other/ssh/config {address_of(nodes, 'g2', 'other')[0]} hostname"
    assert nodes.shell("g1", ssh).stdout == "g2\n"
    (other,) = nodes.predicted([("run_cleanup", {"run_id": "other"})])
    assert other["changed"]


@pytest.mark.slow
def test_runs_of_one_name_in_two_directories_do_not_meet(fresh_nodes):
    nodes = fresh_nodes
    directories = ["/run/gpufabric/twin", "/var/tmp/twin"]
    nodes.shell("g1", f"printf '%s slots=1\\n' {' '.join(nodes.addresses.values())} > /tmp/hosts-of-run")
    for number, directory in enumerate(directories):
        connect(nodes, "twin", **({"gpufabric_run_dir": directory} if number else {}))
        options = {"run_id": "twin", "hostfile": "/tmp/hosts-of-run", "points": [{"argv": ["sleep", f"60{number}"]}]}
        started = nodes.module("mpi_run", {**options, "run_dir": directory, "state": "started"})
        assert not started["failed"], started

    def sleepers(directory):
        look = (
            f"grep -lz GPUFABRIC_RUN_DIR={directory} $(grep -lz {MARK.replace('ending', 'twin')} /proc/[0-9]*/environ)"
        )
        grep = f"for f in $({look}); do cat ${{f%environ}}comm; done"
        return {node: nodes.shell(node, grep, check=False).stdout.split().count("sleep") for node in nodes.names}

    wait(lambda: all(set(sleepers(directory).values()) == {1} for directory in directories))
    # The end of the points reaches the other node, and so does that of the run.
    stopped = nodes.module("mpi_run", {"run_id": "twin", "run_dir": directories[1], "state": "stopped"})
    assert stopped["changed"], stopped
    assert set(sleepers(directories[1]).values()) == {0} and set(sleepers(directories[0]).values()) == {1}
    for node in nodes.names:
        ended = nodes.module("run_cleanup", {"run_id": "twin", "run_dir": directories[1]}, hosts=node)
        assert ended["removed"] == [directories[1]] and "sleep" not in ended["ended"], ended
    assert set(sleepers(directories[0]).values()) == {1}
    for node in nodes.names:
        assert "sshd" in nodes.module("run_cleanup", {"run_id": "twin"}, hosts=node)["ended"]
    assert set(sleepers(directories[0]).values()) == {0}


@pytest.mark.slow
def test_what_others_keep_in_the_directory_stays(nodes):
    before = nodes.state("g1")
    nodes.shell("g1", "mkdir -m 0700 /tmp/shared; touch /tmp/shared/of-others")
    kept = {"run_id": "kept", "run_dir": "/tmp/shared"}
    _started, cleaned = nodes.predicted([("sshd_instance", kept), ("run_cleanup", kept)])
    assert cleaned["removed"][:2] == ["/tmp/shared/sshd", "/tmp/shared/ssh"]
    assert nodes.shell("g1", "ls -A /tmp/shared").stdout == "of-others\n"
    # With directories that no run made, a start fails, and nothing takes them away.
    nodes.shell("g1", "mkdir /tmp/shared/tmp /tmp/shared/mpi; touch /tmp/shared/tmp/precious /tmp/shared/mpi/run.json")
    ends = [
        ("mpi_run", {**kept, "state": "absent"}),
        ("sshd_instance", {**kept, "state": "absent"}),
        ("run_cleanup", kept),
    ]
    refused, *ended = nodes.modules([("sshd_instance", kept), *ends])
    assert refused["msg"].startswith("run_dir: /tmp/shared has mpi, tmp already, which no run made"), refused
    assert [result["changed"] for result in ended] == [False] * len(ends)
    assert nodes.shell("g1", "find /tmp/shared -type f").stdout.count("\n") == 3
    nodes.shell("g1", "rm -r /tmp/shared")
    assert nodes.state("g1") == before


def test_a_directory_of_somebody_else_is_left_alone(nodes):
    before = nodes.state("g1")
    nodes.shell("g1", "mkdir -p /tmp/strange/sshd; chown -R 12345 /tmp/strange")
    calls = [("run_cleanup", {"run_dir": "/tmp/strange"})]
    results = nodes.modules(calls, "--check") + nodes.modules(calls)
    assert len({result["msg"] for result in results}) == 1
    assert "is not a directory that only root may write" in results[0]["msg"]
    assert nodes.shell("g1", "ls /tmp/strange").stdout == "sshd\n"
    nodes.shell("g1", "rm -r /tmp/strange")
    assert nodes.state("g1") == before


def as_uid(nodes, user):
    """Keywords of a play that works in the nodes as a user without an account, whom no sshd would let in."""
    return {
        "vars": {
            "ansible_connection": "containers.podman.podman",
            "ansible_host": f"gpufabric-{nodes.run_id}-{{{{ inventory_hostname }}}}",
            "ansible_user": user,
            # There is no home directory for it; the connection cannot do without.
            "ansible_remote_tmp": "/var/tmp/.ansible/tmp",
        }
    }


def log_in(nodes, result, user):
    """Log in from g1 to its own private sshd, by plain ssh: what id says there, and the names that it has for the uid."""
    variables = " ".join(f"{name}={value}" for name, value in result["environment"].items())
    ssh = f"env {variables} ssh -F {result['run_dir']}/ssh/config {result['address']} 'id -u; id -un; echo $LD_PRELOAD'"
    return nodes.shell("g1", ssh, user=user).stdout.split()


def mesh(run_id, result):
    return "ssh_mesh", {"run_id": run_id, "peers": [result]}


@contextlib.contextmanager
def writable_passwd(nodes):
    """Gives where the text of g1's /etc/passwd comes from, which its group may write; afterwards it is as it was, and so is g1."""
    before = nodes.state("g1")
    nodes.shell("g1", "cp -a /etc/passwd /tmp/passwd.before; chmod 0664 /etc/passwd")
    try:
        yield lambda: nodes.shell("g1", "cat /etc/passwd").stdout
        assert nodes.shell("g1", "cmp /etc/passwd /tmp/passwd.before", check=False).returncode == 0
    finally:
        nodes.shell("g1", "cat /tmp/passwd.before > /etc/passwd; chmod 0644 /etc/passwd; rm /tmp/passwd.before")
    after = nodes.state("g1")
    # What was changed of it has made it the node's own.
    assert {line for line in after ^ before if not line.startswith("file /etc/passwd -rw-r--r--")} == set()


@pytest.fixture
def without_library(breakable):
    """A node without nss_wrapper."""
    away = "mkdir /opt/away; dirname $(ls LIBRARY | head -1) > /opt/away/from; mv LIBRARY /opt/away".replace(
        "LIBRARY", LIBRARY
    )
    breakable.shell("g1", away)
    yield breakable
    breakable.shell("g1", "folder=$(cat /opt/away/from); rm /opt/away/from; mv /opt/away/* $folder; rmdir /opt/away")


@pytest.mark.slow
def test_uid_gets_a_line_in_passwd_where_the_group_may_write_it_and_the_library_is_missing(without_library):
    nodes = without_library
    user, as_user = "12345:0", as_uid(nodes, "12345:0")
    with writable_passwd(nodes) as passwd:
        image = passwd()
        try:
            blue, green = nodes.predicted(
                [("sshd_instance", {"run_id": "blue"}), ("sshd_instance", {"run_id": "green"})], **as_user
            )
            assert blue["user"] == "gpufabric-12345" and blue["environment"] == {}
            both = passwd()
            assert both.startswith(image)
            added = both[len(image) :].splitlines()
            assert [line.split(":")[4] for line in added] == [
                f"gpufabric.nccl /tmp/gpufabric-12345/{run_id}" for run_id in ("blue", "green")
            ]
            assert f"{added[0]}\n" in blue["diff"]["after"] and added[0] not in blue["diff"]["before"]
            nodes.predicted([mesh("blue", blue), mesh("green", green)], **as_user)
            assert log_in(nodes, blue, user)[:2] == ["12345", "gpufabric-12345"]
            (ended,) = nodes.predicted([("run_cleanup", {"run_id": "blue"})], **as_user)
            assert ended["removed"] == ["/tmp/gpufabric-12345/blue", "/etc/passwd"]
            # What ends takes nothing from another run.
            assert passwd() == f"{image}{added[1]}\n"
            assert log_in(nodes, green, user)[:2] == ["12345", "gpufabric-12345"]
            (absent,) = nodes.predicted([("sshd_instance", {"run_id": "green", "state": "absent"})], **as_user)
            assert absent["changed"] and passwd() == image
        finally:
            nodes.modules([("run_cleanup", {"run_id": run_id}) for run_id in ("blue", "green")], **as_user)


@pytest.mark.slow
def test_uid_gets_an_account_by_nss_wrapper_even_where_passwd_is_writable(nodes):
    user, as_user = "12345:0", as_uid(nodes, "12345:0")
    with writable_passwd(nodes) as passwd:
        image = passwd()
        try:
            (started,) = nodes.predicted([("sshd_instance", {"run_id": "wrapped"})], **as_user)
            assert started["user"] == "gpufabric-12345"
            assert started["environment"]["NSS_WRAPPER_PASSWD"] == f"{started['run_dir']}/account/passwd"
            nodes.predicted([mesh("wrapped", started)], **as_user)
            library = started["environment"]["LD_PRELOAD"]
            assert log_in(nodes, started, user) == ["12345", "gpufabric-12345", library]
            assert passwd() == image
            (ended,) = nodes.predicted([("run_cleanup", {"run_id": "wrapped"})], **as_user)
            assert ended["removed"] == ["/tmp/gpufabric-12345/wrapped"]
        finally:
            nodes.module("run_cleanup", {"run_id": "wrapped"}, **as_user)


def test_one_error_says_what_to_install(without_library):
    before = without_library.state("g1")
    as_user = as_uid(without_library, "12345:0")
    call = [("sshd_instance", {"run_id": "neither"})]
    results = without_library.modules(call, "--check", **as_user) + without_library.modules(call, **as_user)
    assert without_library.state("g1") == before
    assert len({result["msg"] for result in results}) == 1
    message = results[0]["msg"]
    assert "uid 12345 has no entry in /etc/passwd" in message and "\n" not in message
    assert "libnss_wrapper" in message
