# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

PEERS = "{{ ansible_play_hosts | map('extract', hostvars, 'sshd') | list }}"
START = {"gpufabric.nccl.sshd_instance": {"run_id": "mesh", "interface": "eth0"}, "register": "sshd"}
MESH = {"run_id": "mesh", "peers": PEERS}
CONFIG = "/run/gpufabric/mesh/ssh/config"
ABSENT = [
    {"gpufabric.nccl.ssh_mesh": {"run_id": "mesh", "state": "absent"}},
    {"gpufabric.nccl.sshd_instance": {"run_id": "mesh", "state": "absent"}},
]


def play(nodes, *tasks, hosts="all"):
    """Run tasks; they succeed."""
    played = nodes.playbook([{"hosts": hosts, "gather_facts": False, "tasks": list(tasks)}], "--diff")
    assert played.returncode == 0, played.output
    return played


def mesh_tasks(**options):
    """Tasks that check, run and run again; ``predicted`` reads what came of them."""
    call = {"gpufabric.nccl.ssh_mesh": {**MESH, **options}}
    return [{**call, "name": name, "check_mode": name == "check"} for name in ("check", "run", "again")]


def predicted(played, node):
    """What the run changed on a node, after making sure that the check said so and that nothing was left to change."""
    results = {record["task"]: record["result"] for record in played.records if record["host"] == node}
    assert results["check"]["changed"] and results["run"]["changed"] and not results["again"]["changed"]
    assert results["check"]["diff"] == results["run"]["diff"] and results["again"]["diff"] == []
    return results["run"]


@pytest.fixture(scope="module")
def mesh(nodes):
    """All nodes reach all; what the play was."""
    for node in ("g1", "g2"):
        # Nodes see this machine's, and a test removes it.
        nodes.shell(node, "rm -rf ~/.ssh")
    before = {node: nodes.state(node) for node in nodes.names}
    yield play(nodes, START, *mesh_tasks())
    play(nodes, *ABSENT)
    assert {node: nodes.state(node) for node in nodes.names} == before


def test_every_node_reaches_every_other(nodes, mesh):
    addresses = " ".join(nodes.addresses.values())
    for node in nodes.names:
        command = f"for address in {addresses}; do ssh -F {CONFIG} $address hostname || exit 1; done"
        assert nodes.shell(node, command).stdout.split() == nodes.names


def test_every_node_has_keys_of_its_own(nodes, mesh):
    directory = CONFIG.partition("/ssh/")[0]
    public = f"cat {directory}/ssh/id_ed25519.pub {directory}/sshd/ssh_host_ed25519_key.pub"
    keys = {line.split()[1] for node in nodes.names for line in nodes.shell(node, public).stdout.splitlines()}
    assert len(keys) == 2 * len(nodes.names)


def test_check_mode_predicts_and_a_second_run_changes_nothing(nodes, mesh):
    for node in nodes.names:
        run = predicted(mesh, node)
        paths = {run[name] for name in ("ssh_config", "known_hosts", "authorized_keys")}
        assert {part["after_header"] for part in run["diff"]} == paths
        for part in run["diff"]:
            assert nodes.shell(node, f"cat {part['after_header']}").stdout == part["after"]
            assert all(address in part["after"] for address in nodes.addresses.values())


def test_an_expired_key_is_refused_until_the_next_call(nodes, mesh):
    login = f"ssh -F {CONFIG} {nodes.addresses['g2']} hostname"
    keys = mesh.result("g2", "gpufabric.nccl.ssh_mesh")["authorized_keys"]
    nodes.shell("g2", f'sed -i \'s/expiry-time="[0-9]*"/expiry-time="20200101"/\' {keys}')
    refused = nodes.shell("g1", login, check=False)
    repaired = play(nodes, START, {"gpufabric.nccl.ssh_mesh": MESH})
    assert refused.returncode == 255 and "Permission denied" in refused.stderr
    assert repaired.changed() == ["g2: gpufabric.nccl.ssh_mesh"]
    assert nodes.shell("g1", login).stdout == "g2\n"


def test_only_listed_variables_arrive(nodes, mesh):
    set_here = "LD_LIBRARY_PATH=/opt/libraries NCCL_DEBUG=INFO UNLISTED=here"
    ssh = f"{set_here} ssh -v -o LogLevel=DEBUG -o SendEnv=UNLISTED -F {CONFIG} {nodes.addresses['g2']}"
    done = nodes.shell("g1", f"{ssh} env")
    arrived = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert arrived["LD_LIBRARY_PATH"] == "/opt/libraries" and arrived["NCCL_DEBUG"] == "INFO"
    # What daemons leave there goes with the run.
    assert arrived["TMPDIR"] == f"{CONFIG.partition('/ssh/')[0]}/tmp"
    # It was sent, and sshd dropped it.
    assert "setting env UNLISTED" in done.stderr and "UNLISTED" not in arrived
    unsent = nodes.shell("g1", ssh.replace("-o SendEnv=UNLISTED", "") + " true")
    assert "setting env NCCL_DEBUG" in unsent.stderr and "UNLISTED" not in unsent.stderr


def test_a_wrong_host_key_is_refused(nodes, mesh):
    own = mesh.result("g2", "gpufabric.nccl.sshd_instance")
    login = f"ssh -F {CONFIG} {own['address']} hostname"
    impostor = (
        # It removes the file with its pid when its port is free, and the other writes its own when it listens.
        f"kill {own['pid']}; while [ -e {own['run_dir']}/sshd/sshd.pid ]; do sleep 0.1; done;"
        " ssh-keygen -q -t ed25519 -N '' -f /tmp/other_key;"
        f" sed 's,^HostKey .*,HostKey /tmp/other_key,; s,^PidFile .*,PidFile /tmp/other.pid,' {own['run_dir']}/sshd/sshd_config > /tmp/other_config;"
        " /usr/sbin/sshd -f /tmp/other_config; until [ -s /tmp/other.pid ]; do sleep 0.1; done"
    )
    end = "kill $(cat /tmp/other.pid); while [ -e /tmp/other.pid ]; do sleep 0.1; done; rm /tmp/other_key* /tmp/other_config"
    nodes.shell("g2", impostor)
    try:
        refused = nodes.shell("g1", login, check=False)
    finally:
        nodes.shell("g2", end)
    assert refused.returncode == 255 and refused.stdout == ""
    assert (
        "REMOTE HOST IDENTIFICATION HAS CHANGED" in refused.stderr and "Host key verification failed" in refused.stderr
    )
    # Only the node whose sshd is gone is repaired, and all reach it as before.
    repaired = play(nodes, START, {"gpufabric.nccl.ssh_mesh": MESH})
    assert repaired.changed() == ["g2: gpufabric.nccl.sshd_instance"]
    assert nodes.shell("g1", login).stdout == "g2\n"


@pytest.mark.slow
def test_the_users_own_configuration_is_given_back(nodes, mesh):
    target = nodes.addresses["g4"]
    nodes.shell("g1", "rm -rf ~/.ssh")
    own = (
        r"mkdir ~/.ssh; chmod 0755 ~/.ssh; printf 'Host own\n    Port 2022\n' > ~/.ssh/config; chmod 0640 ~/.ssh/config"
    )
    nodes.shell("g2", f"rm -rf ~/.ssh; {own}")
    look = "find ~/.ssh -printf '%p %M %U %s\\n' 2>/dev/null; cat ~/.ssh/config 2>/dev/null; true"
    before = {node: nodes.shell(node, look).stdout for node in ("g1", "g2")}
    assert before["g1"] == "" and "-rw-r----- 0 23" in before["g2"]
    try:
        played = play(nodes, START, *mesh_tasks(user_config=True))
        for node in ("g1", "g2"):
            run = predicted(played, node)
            assert [part["after_header"] for part in run["diff"]] == ["/root/.ssh/config"]
            assert nodes.shell(node, f"ssh {target} hostname").stdout == "g4\n"
        assert nodes.shell("g2", "ssh -G own").stdout.count("port 2022\n") == 1
        assert "-rw-r-----" in nodes.shell("g2", look).stdout
        # The same call without it takes it out.
        play(nodes, START, {"gpufabric.nccl.ssh_mesh": MESH})
        assert {node: nodes.shell(node, look).stdout for node in ("g1", "g2")} == before
        # And so does absent.
        play(nodes, START, mesh_tasks(user_config=True)[1], ABSENT[0], hosts="g1:g2")
        assert {node: nodes.shell(node, look).stdout for node in ("g1", "g2")} == before
        play(nodes, START, {"gpufabric.nccl.ssh_mesh": MESH})
    finally:
        nodes.shell("g2", "rm -r ~/.ssh")


def test_bad_input_is_one_line_and_changes_nothing(nodes):
    """Here of one option; each is tried in the module's unit test."""
    before = nodes.state("g3")
    result = nodes.module("ssh_mesh", {"run_id": "bad", "peers": [{"address": "10.66.0.1"}]}, hosts="g3")
    assert nodes.state("g3") == before
    assert result["failed"] and result["msg"] == (
        "peers[0]: ['address'] is not allowed; allowed: a peer as sshd_instance returns it; port is missing"
    )
