# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why mpirun ends with "exit 255": each cause first as it is met by hand, then on the same nodes with the collection."""

from __future__ import annotations

import json
import pathlib
import re
import shlex
import subprocess

import pytest
import yaml

#: Where ssh between the nodes is set up by hand.
BY_HAND = "/opt/by-hand"


def write(nodes, node, path, text, mode="0644"):
    nodes.shell(node, f"printf %s {shlex.quote(text)} > {path} && chmod {mode} {path}")


@pytest.fixture
def naive_nodes(fresh_nodes):
    """Two nodes that reach each other by ssh as it is set up by hand: keys, an sshd of one's own, ~/.ssh/config."""
    nodes = fresh_nodes
    config = "Host *\n  Port 2222\n  StrictHostKeyChecking no\n  LogLevel ERROR\n"
    keys = ""
    for node in nodes.names:
        nodes.shell(node, f"mkdir -p -m 700 ~/.ssh {BY_HAND}; ssh-keygen -q -t ed25519 -N '' -f {BY_HAND}/host_key")
        nodes.shell(node, "ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519")
        keys += nodes.shell(node, "cat ~/.ssh/id_ed25519.pub").stdout
    for node in nodes.names:
        write(nodes, node, "~/.ssh/config", config, "0600")
        write(nodes, node, f"{BY_HAND}/authorized_keys", keys, "0600")
        options = f"-o AuthorizedKeysFile={BY_HAND}/authorized_keys -o PidFile={BY_HAND}/pid -o UsePAM=no"
        sshd = f"/usr/sbin/sshd -h {BY_HAND}/host_key -p 2222 -o PasswordAuthentication=no {options}"
        # It goes to the background before it listens, and writes its pid after that.
        nodes.shell(node, f"{sshd}; until [ -s {BY_HAND}/pid ]; do sleep 0.1; done")
    assert nodes.shell("g1", f"ssh {nodes.addresses['g2']} hostname").stdout == "g2\n"
    return nodes


def mpirun_by_hand(nodes, hosts, settings=""):
    """What came of a plain mpirun on g1 over these hosts; ``settings``: commands of the shell before it."""
    write(nodes, "g1", f"{BY_HAND}/hostfile", "".join(f"{host} slots=1\n" for host in hosts))
    mpirun = f"timeout 60 mpirun --allow-run-as-root --hostfile {BY_HAND}/hostfile hostname"
    return nodes.shell("g1", f"{settings} {mpirun}", check=False)


def mpirun_by_collection(nodes, hosts, **play):
    """The host names that a program printed which mpirun started over these hosts; ``play``: its keywords."""
    hostfile = {"hosts": [{"name": host, "slots": 1} for host in hosts]}
    launch = {"points": [{"argv": ["hostname"]}], "control_interface": "eth0"}
    tasks = [
        {f"gpufabric.nccl.{name}": {"run_id": nodes.run_id, **options}, "run_once": True}
        for name, options in (("mpi_hostfile", hostfile), ("mpi_run", launch))
    ]
    roles = ["gpufabric.nccl.key_exchange"]
    played = nodes.playbook([{"hosts": "workers", "gather_facts": False, "roles": roles, "tasks": tasks, **play}])
    assert played.returncode == 0, played.output
    (point,) = played.result("g1", "gpufabric.nccl.mpi_run")["points"]
    return sorted(nodes.shell("g1", f"cat {point['stdout_path']}").stdout.split())


def hosts_of_benchmark(nodes, report_dir, **variables):
    """The hosts that took part in the playbook's benchmark."""
    played = nodes.benchmark(report_dir, **variables)
    assert played.returncode == 0, played.output
    (document,) = json.loads((report_dir / "results.json").read_text())["results"]
    return sorted(rank["host"] for rank in document["ranks"])


@pytest.mark.slow
def test_a_host_name_that_does_not_resolve(naive_nodes):
    nodes = naive_nodes
    names = {f"worker-{number}.job.team.svc": nodes.addresses[node] for number, node in enumerate(nodes.names)}
    nodes.shell("g1", "".join(f"echo {address} {name} >> /etc/hosts;" for name, address in names.items()))

    # Open MPI 4 cuts a name at its first dot, and ends with the first ssh that fails: of either node.
    done = mpirun_by_hand(nodes, names)
    assert done.returncode == 255
    assert re.search(r"ssh: Could not resolve hostname worker-[01]: ", done.stderr)

    assert mpirun_by_collection(nodes, names) == ["g1", "g2"]


@pytest.mark.slow
def test_libraries_that_only_ld_library_path_leads_to(naive_nodes, tmp_path):
    nodes = naive_nodes
    for node in nodes.names:
        nodes.shell(node, "mkdir -p /opt/hidden/lib; mv /usr/lib/*/libopen-rte.so.40* /opt/hidden/lib")

    done = mpirun_by_hand(nodes, nodes.addresses.values(), "LD_LIBRARY_PATH=/opt/hidden/lib")
    assert done.returncode != 0
    assert "orted: error while loading shared libraries: libopen-rte.so.40: " in done.stderr

    environment = {"LD_LIBRARY_PATH": "/opt/hidden/lib"}
    assert hosts_of_benchmark(nodes, tmp_path, gpufabric_environment=environment) == ["g1", "g2"]


@pytest.mark.slow
def test_a_system_sshd_has_port_22(fresh_nodes):
    nodes = fresh_nodes
    listener = "pgrep -P 1 -x sshd"
    before = nodes.shell("g2", listener).stdout

    done = nodes.shell("g2", "timeout 20 /usr/sbin/sshd -D -e -p 22", check=False)
    assert done.returncode == 255
    assert "Bind to port 22 on 0.0.0.0 failed: Address already in use" in done.stderr

    # The running sshd has read its configuration when it started.
    nodes.shell("g2", "echo AcceptEnv LD_LIBRARY_PATH >> /etc/ssh/sshd_config")
    inventory = yaml.safe_load(pathlib.Path(nodes.inventory).read_text())["workers"]["vars"]
    key = inventory["ansible_ssh_private_key_file"]
    with pathlib.Path(nodes.inventory).with_name("nodes").joinpath("g2/sshd_config").open("a") as config:
        config.write("AcceptEnv LD_LIBRARY_PATH\n")
    assert nodes.shell("g2", "grep LD_LIBRARY_PATH /etc/local-node/sshd_config").stdout
    sent = {"LD_LIBRARY_PATH": "/opt/lib", "LC_TEST": "sent"}
    argv = ["ssh", *shlex.split(inventory["ansible_ssh_common_args"]), "-i", key, "-o", f"SendEnv={' '.join(sent)}"]
    argv += [f"root@{nodes.addresses['g2']}", "printenv LC_TEST LD_LIBRARY_PATH"]
    done = subprocess.run(
        argv, env=sent, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (1, "sent\n"), done.stderr

    assert mpirun_by_collection(nodes, nodes.addresses.values()) == ["g1", "g2"]
    ssh = f"LD_LIBRARY_PATH=/opt/lib ssh -F /run/gpufabric/{nodes.run_id}/ssh/config {nodes.addresses['g2']}"
    assert nodes.shell("g1", f"{ssh} printenv LD_LIBRARY_PATH").stdout == "/opt/lib\n"
    assert nodes.shell("g2", listener).stdout.startswith(before)


#: sshd, but at its first start as a daemon another program is quicker to have its port.
SLOW_SSHD = """\
#!/bin/bash
if [ "$1" = -D ] && mkdir /opt/rival; then
  port=$(sed -n 's/^Port //p' "$3")
  address=$(sed -n 's/^ListenAddress //p' "$3")
  setsid python3 -m http.server --directory /opt/rival --bind "$address" "$port" > /opt/rival/log 2>&1 &
  until (: < "/dev/tcp/$address/$port") 2> /dev/null; do sleep 0.05; done
  echo "$port" > /opt/rival/port
fi
exec /usr/sbin/sshd "$@"
"""


@pytest.mark.slow
def test_a_port_that_is_taken_between_choosing_and_binding(fresh_nodes):
    nodes = fresh_nodes
    choose = 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'
    script = f"""
        port=$(python3 -c {shlex.quote(choose)})
        setsid python3 -m http.server --directory /opt "$port" > /dev/null 2>&1 &
        until (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null; do sleep 0.05; done
        timeout 20 /usr/sbin/sshd -4 -D -e -p "$port"
    """
    done = nodes.shell("g1", script, check=False)
    assert done.returncode == 255
    assert "Address already in use" in done.stderr

    for node in nodes.names:
        write(nodes, node, "/opt/slow-sshd", SLOW_SSHD, "0755")
    defaults = {"gpufabric.nccl.sshd_instance": {"sshd_path": "/opt/slow-sshd", "timeout": 120}}
    assert mpirun_by_collection(nodes, nodes.addresses.values(), module_defaults=defaults) == ["g1", "g2"]
    for node in nodes.names:
        taken = nodes.shell(node, "cat /opt/rival/port").stdout
        own = nodes.shell(node, f"sed -n 's/^Port //p' /run/gpufabric/{nodes.run_id}/sshd/sshd_config").stdout
        assert taken and own and taken != own
        # The rival is left in peace.
        page = f"import urllib.request; urllib.request.urlopen('http://{nodes.addresses[node]}:{taken.strip()}/port')"
        nodes.shell(node, f"python3 -c {shlex.quote(page)}")


@pytest.mark.slow
def test_a_daemon_that_is_not_on_the_remote_path(naive_nodes, tmp_path):
    nodes = naive_nodes
    for node in nodes.names:
        nodes.shell(node, "mkdir -p /opt/site/openmpi/bin; mv /usr/bin/orted /usr/bin/orterun /opt/site/openmpi/bin")
        nodes.shell(node, "rm /usr/bin/mpirun*; ln -s orterun /opt/site/openmpi/bin/mpirun")

    done = mpirun_by_hand(nodes, nodes.addresses.values(), "PATH=/opt/site/openmpi/bin:$PATH")
    assert done.returncode != 0
    assert "orted: command not found" in done.stderr

    assert hosts_of_benchmark(nodes, tmp_path, gpufabric_mpi_prefix="/opt/site/openmpi") == ["g1", "g2"]
