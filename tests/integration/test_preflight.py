# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fault matrix of the preflight: each fault is made on a real node, named with its host, and nothing else is."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import shlex
import subprocess
import sys
import typing as t

import pytest
import yaml
from conftest import Nodes, Played
from fault_matrix import FaultMatrix
from outside import limited, processes_of

RUN_DIR = "/run/gpufabric/{run}"
RAW = "ansible.builtin.raw"
#: The firewall's and the mounts' are the node's own; only a shell with all capabilities may change them.
PRIVILEGED = ("podman", "exec", "--privileged", "--user", "root")


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault in words, and as shell commands that make and mend it on a node; ``PORT`` and ``PID`` are its private sshd's.

    ``problem`` is the id that is expected. ``stand_in``: what is not the real thing.
    """

    fault: str
    problem: str
    node: str
    make: str = "true"
    mend: str = "true"
    stage: str = ""
    severity: str = "error"
    stand_in: str = ""


#: Shell: sshd ends. It removes the file with its pid when its port is free.
END = "kill PID; while [ -e RUN/sshd/sshd.pid ]; do sleep 0.1; done"
#: Shell: another sshd on the run's port, or another program, and what ends it.
OTHER_SSHD = (
    f"{END}; ssh-keygen -q -t ed25519 -N '' -f /tmp/other_key;"
    " sed 's,^HostKey .*,HostKey /tmp/other_key,; s,^PidFile .*,PidFile /tmp/other.pid,' RUN/sshd/sshd_config > /tmp/other;"
    " /usr/sbin/sshd -f /tmp/other; until [ -s /tmp/other.pid ]; do sleep 0.1; done"
)
TALKER = (
    f"{END}; python3 -c 'import socket\n"
    's = socket.create_server(("ADDRESS", PORT))\n'
    "while True:\n"
    ' c = s.accept()[0]; c.sendall(b"220 mail.example ESMTP\\r\\n"); c.close()\' > /dev/null 2>&1 &'
    " echo $! > /tmp/talker; until (: < /dev/tcp/ADDRESS/PORT) 2> /dev/null; do sleep 0.1; done"
)
DROP = "iptables -I INPUT -i eth0 -p tcp --dport PORT -j "
TO_LAUNCHER = "iptables -I OUTPUT -d LAUNCHER -p tcp --syn -j DROP"
#: Shell: sshd reads its configuration again. It writes the file with its pid when it listens.
AGAIN = "rm RUN/sshd/sshd.pid; kill -HUP PID; until [ -s RUN/sshd/sshd.pid ]; do sleep 0.1; done"
#: Shell: sshd has logins go through PAM, as it does where the account is locked.
PAM = f"sed -i 's/^UsePAM .*/UsePAM yes/' RUN/sshd/sshd_config; {AGAIN}"
NEW_HOST_KEY = "rm RUN/sshd/ssh_host_ed25519_key*; ssh-keygen -q -t ed25519 -N '' -f RUN/sshd/ssh_host_ed25519_key"
#: Shell: a connection that does not log in is as many as this sshd takes.
CROWD = (
    f"sed -i 's/^MaxStartups .*/MaxStartups 1:100:1/; s/^LoginGraceTime .*/LoginGraceTime 300/' RUN/sshd/sshd_config; {AGAIN};"
    " bash -c 'until exec 3<> /dev/tcp/ADDRESS/PORT; read -r -u 3 line; [[ $line == SSH-* ]]; do sleep 0.1; done;"
    " echo $$ > /tmp/crowd; exec sleep 300' > /dev/null 2>&1 &"
    " until [ -s /tmp/crowd ]; do sleep 0.1; done"
)
LIBRARY = "$(readlink -f /usr/lib/*/libopen-rte.so.40)"
#: Shell: the file of a library of Open MPI gets the name that another version's has.
OLD_LIBRARY = f"cd $(dirname {LIBRARY}); mv libopen-rte.so.40.30.2 libopen-rte.so.40.20.5; ln -sf libopen-rte.so.40.20.5 libopen-rte.so.40"
NEW_LIBRARY = f"cd $(dirname {LIBRARY}); mv libopen-rte.so.40.20.5 libopen-rte.so.40.30.2; ln -sf libopen-rte.so.40.30.2 libopen-rte.so.40"
#: Shell: it takes a moment until the other end of a link knows that it is up.
RENAME = (
    "ip link set FROM down; ip link set FROM name TO; ip link set TO up;"
    " until grep -q up /sys/class/net/TO/operstate; do sleep 0.1; done"
)

#: On the way to a node. All of one list are made at once, on nodes that are different.
WAY: list[Fault] = [
    Fault("sshd does not run", "connect-refused", "g2", END, stage="connect"),
    Fault("the port is dropped by a firewall", "connect-timeout", "g3", f"{DROP} DROP", "iptables -F", "connect"),
    Fault(
        "the port is rejected by a firewall",
        "connect-rejected",
        "g4",
        f"{DROP} REJECT --reject-with icmp-admin-prohibited",
        "iptables -F",
        "connect",
    ),
    Fault("another program has the port of sshd", "ssh-not-ssh", "g5", TALKER, "kill $(cat /tmp/talker)", "connect"),
    Fault("sshd hangs", "ssh-banner-timeout", "g6", "kill -STOP PID", "kill -CONT PID", "connect"),
    Fault(
        "another sshd has the port of the run's",
        "host-key-changed",
        "g7",
        OTHER_SSHD,
        "kill $(cat /tmp/other.pid); rm -f /tmp/other*",
        "host_key",
    ),
    Fault(
        "the launcher's key is not authorized",
        "ssh-auth-refused",
        "g8",
        "cp RUN/sshd/authorized_keys /tmp/keys; : > RUN/sshd/authorized_keys",
        "cp /tmp/keys RUN/sshd/authorized_keys",
        "authenticate",
    ),
]
MORE_WAY: list[Fault] = [
    Fault("sshd listens on another port than the launcher knows", "connect-refused", "g2",
          "sed -i 's/^Port .*/Port 18922/' RUN/sshd/sshd_config; kill -HUP PID;"
          " until (: < /dev/tcp/ADDRESS/18922) 2> /dev/null; do sleep 0.1; done", stage="connect"),
    Fault("MaxStartups is exceeded", "ssh-max-startups", "g3", CROWD, "kill $(cat /tmp/crowd)", "connect"),
    Fault("sshd has a new host key", "host-key-changed", "g4", f"{NEW_HOST_KEY}; {AGAIN}", stage="host_key"),
    Fault("the login shell is nologin", "account-no-shell", "g5", "usermod -s /usr/sbin/nologin root",
          "usermod -s /bin/bash root", "session"),
    Fault("the login shell is /bin/false", "ssh-session", "g6", "usermod -s /bin/false root", "usermod -s /bin/bash root",
          "session"),
    Fault("the shell's profile ends the session", "ssh-session", "g7", "sed -i '1i exit 3' ~/.bashrc",
          "sed -i 1d ~/.bashrc", "session"),
    Fault("there is no Python", "python-missing", "g8",
          "mv $(readlink -f /usr/bin/python3) /root/python; sed -i '1i PATH=/usr/bin:/bin; return' ~/.bashrc",
          "sed -i 1d ~/.bashrc; mv /root/python $(readlink -f /usr/bin/python3)", severity="warning"),
]  # fmt: skip
NAMES: list[Fault] = [
    Fault("a name does not resolve", "name-unresolved", "no-such-host", stage="resolve"),
    Fault("a name resolves to a loopback address", "name-loopback", "looping", stage="resolve"),
]
NAME_SERVER = Fault("the name server does not answer", "name-server-silent", "far.example.com", stage="resolve")

#: In a session on the node, and on the way back.
SESSION: list[Fault] = [
    Fault(
        "mpirun's daemon is not there",
        "daemon-missing",
        "g2",
        "mv /usr/bin/orted /root",
        "mv /root/orted /usr/bin",
        "daemon",
    ),
    Fault(
        "Open MPI is in another directory",
        "mpi-prefix-differs",
        "g3",
        "mkdir -p /opt/openmpi-site/bin; mv /usr/bin/orted /opt/openmpi-site/bin",
        "mv /opt/openmpi-site/bin/orted /usr/bin; rm -r /opt/openmpi-site",
        "daemon",
    ),
    Fault(
        "mpirun's daemon may not be executed",
        "daemon-not-executable",
        "g4",
        "chmod -x /usr/bin/orted",
        "chmod +x /usr/bin/orted",
        "daemon",
    ),
    Fault(
        "mpirun's daemon misses a library",
        "daemon-library-missing",
        "g5",
        "mv /usr/lib/*/libopen-pal.so.40* /root",
        "mv /root/libopen-pal.so.40* $(dirname /usr/lib/*/libopen-rte.so.40)",
        "libraries",
    ),
    Fault("connections to the launcher are dropped", "callback-timeout", "g6", TO_LAUNCHER, "iptables -F", "callback"),
    Fault("the launcher's firewall rejects connections", "callback-rejected", "g7", stage="callback"),
    Fault(
        "AcceptEnv is missing",
        "env-not-accepted",
        "g8",
        f"cp RUN/sshd/sshd_config /tmp/config; sed -i /^AcceptEnv/d RUN/sshd/sshd_config; {AGAIN}",
        f"cp /tmp/config RUN/sshd/sshd_config; {AGAIN}",
        severity="warning",
    ),
]
MORE_SESSION: list[Fault] = [
    Fault(
        "the run's directory for temporary files cannot be written",
        "disk-unwritable",
        "g1",
        "mount -t tmpfs -o ro read-only RUN/tmp",
        "umount RUN/tmp",
        "disk",
    ),
    Fault(
        "connections to the launcher leave by the data interface",
        "callback-wrong-interface",
        "g2",
        "ip route add LAUNCHER/32 dev eth0 src DATA",
        "ip route del LAUNCHER/32",
        severity="warning",
    ),
    Fault(
        "the control interface has another name",
        "control-interface-missing",
        "g3",
        RENAME.replace("FROM", "eth0").replace("TO", "other"),
        RENAME.replace("FROM", "other").replace("TO", "eth0"),
        "control",
    ),
    Fault(
        "the control interface has another address than the host's",
        "control-interface-address",
        "g4",
        "ip address add ADDRESS/32 dev lo; ip address del ADDRESS/24 dev eth0; ip address add 10.66.SUBNET.99/24 dev eth0",
        "ip address del 10.66.SUBNET.99/24 dev eth0; ip address del ADDRESS/32 dev lo; ip address add ADDRESS/24 dev eth0",
        severity="warning",
    ),
    Fault(
        "a link of the data network is broken",
        "data-link",
        "g5",
        "iptables -I INPUT -i net1 -s 192.168.SUBNET.16 -j DROP",
        "iptables -F",
        "data",
    ),
    Fault(
        "a library of another Open MPI 4",
        "mpi-version-differs",
        "g7",
        OLD_LIBRARY,
        NEW_LIBRARY,
        "version",
        stand_in="the same library under another name",
    ),
]
CROWDED = Fault("a limit of processes", "pids-low", "g6", stage="limits")

#: Of the data network and of the node's resources.
RESOURCES: list[Fault] = [
    Fault(
        "the data interface is missing",
        "data-interface-missing",
        "g2",
        RENAME.replace("FROM", "net1").replace("TO", "other"),
        RENAME.replace("FROM", "other").replace("TO", "net1"),
        "data",
    ),
    Fault(
        "the data network is a black hole",
        "data-unreachable",
        "g3",
        "iptables -I INPUT -i net1 -j DROP",
        "iptables -F",
        "data",
    ),
    Fault(
        "the data network loses large packets",
        "data-mtu",
        "g4",
        "iptables -I INPUT -i net1 -m length --length 1000: -j DROP",
        "iptables -F",
        "data",
    ),
    Fault(
        "/dev/shm is full",
        "shm-full",
        "g5",
        "mount -o remount,size=20m /dev/shm; dd if=/dev/zero of=/dev/shm/left-over bs=1M count=10 status=none",
        "rm /dev/shm/left-over; mount -o remount,size=1g /dev/shm",
        "limits",
    ),
    Fault(
        "the disk of the run directory is full",
        "disk-full",
        "g6",
        "mount -t tmpfs -o size=1m full RUN/tmp; dd if=/dev/zero of=RUN/tmp/file bs=4096 status=none || true",
        "umount RUN/tmp",
        "disk",
    ),
    Fault(
        "too little memory may be locked",
        "memlock-low",
        "g7",
        "prlimit --memlock=65536: --pid PID",
        "prlimit --memlock=8388608: --pid PID",
        "limits",
    ),
    Fault(
        "too few files may be open",
        "files-low",
        "g8",
        "prlimit --nofile=256: --pid PID",
        "prlimit --nofile=1024: --pid PID",
        "limits",
    ),
    Fault(
        "programs may have little address space",
        "address-space-low",
        "g8",
        "prlimit --as=536870912: --pid PID",
        "prlimit --as=unlimited: --pid PID",
        "limits",
    ),
]
CLOCK = Fault("a clock is an hour off", "clock-off", "g1", severity="warning", stand_in="a Python that adds an hour")

#: The launcher is told no more than that it is refused; the reason is in sshd's log.
REFUSED: list[Fault] = [
    Fault(
        "authorized_keys belongs to another user, and StrictModes is on",
        "authorized-keys-permissions",
        "g2",
        f"sed -i 's/^StrictModes .*/StrictModes yes/' RUN/sshd/sshd_config; chown nobody RUN/sshd/authorized_keys; {AGAIN}",
        "chown root RUN/sshd/authorized_keys",
    ),
    Fault("the account is locked", "account-locked", "g3", "usermod --lock root", "usermod -p '*' root"),
    Fault(
        "PAM refuses the account",
        "pam-refused",
        "g4",
        f"cp /etc/pam.d/sshd /root/pam; sed -i '1i account required pam_deny.so' /etc/pam.d/sshd; {PAM}",
        "mv /root/pam /etc/pam.d/sshd",
    ),
    Fault("the host keys are deleted while sshd runs", "sshd-no-host-keys", "g5", "rm RUN/sshd/ssh_host_*"),
    Fault(
        "the privilege separation directory is deleted while sshd runs",
        "sshd-run-directory",
        "g6",
        "rm -r /run/sshd",
        "mkdir -m 0755 /run/sshd",
    ),
    Fault(
        "sshd lets other users in only",
        "account-not-allowed",
        "g7",
        f"sed -i 's/^AllowUsers .*/AllowUsers nobody/' RUN/sshd/sshd_config; {AGAIN}",
    ),
    Fault(
        "the clock has gone past the day on which the keys expire",
        "ssh-keys-expired",
        "g8",
        'sed -i -E \'s/expiry-time="[0-9]+"/expiry-time="20260101"/\' RUN/sshd/authorized_keys',
        stand_in="the day in authorized_keys is in the past, and the clock is right",
    ),
]
#: The same, by PAM.
REFUSED_BY_PAM: list[Fault] = [
    Fault(
        "PAM refuses the session",
        "pam-refused",
        "g2",
        f"cp /etc/pam.d/sshd /root/pam; echo 'session required pam_deny.so' >> /etc/pam.d/sshd; {PAM}",
        "mv /root/pam /etc/pam.d/sshd",
    ),
    Fault("the account has expired", "account-expired", "g3", f"chage -E 1 root; {PAM}", "chage -E -1 root"),
    Fault("the password has expired", "account-expired", "g4", f"chage -d 0 root; {PAM}", "chage -d -1 root"),
]


class Mesh:
    """A run over eight nodes, of which the first is the launcher."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.run_dir = RUN_DIR.format(run=nodes.run_id)
        self.hosts = [{"name": name, "address": address} for name, address in nodes.addresses.items()]
        self.restore()

    def restore(self) -> None:
        """Make the run, or mend it."""
        play = {"hosts": "workers", "gather_facts": False, "roles": ["gpufabric.nccl.key_exchange"]}
        played = self.nodes.playbook([play])
        assert played.returncode == 0, played.output
        self.sshds = {name: played.result(name, "gpufabric.nccl.sshd_instance") for name in self.nodes.names}

    def words(self, node: str, command: str) -> str:
        """A shell command for a node, with what its words in capitals stand for."""
        sshd = self.sshds[node]
        words = {"PORT": sshd["port"], "PID": sshd["pid"], "ADDRESS": sshd["address"], "RUN": self.run_dir}
        words["LAUNCHER"] = self.nodes.addresses["g1"]
        words["SUBNET"] = sshd["address"].split(".")[2]
        words["DATA"] = sshd["address"].replace("10.66.", "192.168.")
        for word, value in words.items():
            command = command.replace(word, str(value))
        return command

    def shell(self, node: str, command: str) -> None:
        """Run a shell command in a node, with all capabilities."""
        command = self.words(node, command)
        argv = [*PRIVILEGED, f"gpufabric-{self.nodes.run_id}-{node}", "bash", "-c", command]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (command, done.stdout, done.stderr)

    def call(self, **options: t.Any) -> tuple[str, dict[str, t.Any]]:
        """The module with options."""
        return "mpi_preflight", {
            "run_id": self.nodes.run_id, "control_interface": "eth0", "hosts": self.hosts, **options
        }  # fmt: skip

    def preflight(self, *plays: dict[str, t.Any], **options: t.Any) -> list[dict[str, t.Any]]:
        """What comes of the module on the launcher, once for each of the sets of options."""
        results = self.nodes.modules([self.call(**{**options, **own}) for own in plays or ({},)])
        for result in results:
            assert not result["failed"] and not result["changed"], result
        return results


@pytest.fixture(scope="module")
def mesh(make_nodes: t.Callable[[int], Nodes]) -> Mesh:
    return Mesh(make_nodes(8))


@contextlib.contextmanager
def made(mesh: Mesh, faults: list[Fault]) -> t.Iterator[None]:
    with contextlib.ExitStack() as mending:
        for fault in faults:
            mending.callback(mesh.shell, fault.node, fault.mend)
            mesh.shell(fault.node, fault.make)
        yield


def record(matrix: FaultMatrix, problems: list[dict[str, t.Any]], faults: list[Fault], told_by: str) -> None:
    """All faults, which were made at the same time, are named, and nothing else is."""
    beside = [(fault.problem, fault.node, fault.severity) for fault in faults]
    for fault in faults:
        matrix.fault(
            fault.fault,
            problems,
            fault.problem,
            fault.node,
            told_by,
            "the launcher" if fault.node == "g1" else "a worker",
            fault.severity,
            beside,
            stand_in=fault.stand_in,
        )


def check(result: dict[str, t.Any], faults: list[Fault], matrix: FaultMatrix) -> None:
    """All faults are named, each with its host and stage, and nothing else is."""
    record(matrix, result["problems"], faults, "mpi_preflight")
    stages = {host["name"]: host["stage"] for host in result["hosts"]}
    assert {**stages, **{fault.node: fault.stage or None for fault in faults}} == stages
    assert {name for name, stage in stages.items() if stage} == {fault.node for fault in faults if fault.stage}
    for problem in result["problems"]:
        assert problem["cause"] and problem["cure"] and "{" not in problem["cause"] + problem["cure"]
    assert result["ok"] is (not any(fault.stage for fault in faults))


def test_nothing_is_said_of_healthy_hosts(mesh, faults):
    full = {"level": "full", "data_interface": "net1"}
    runs = {
        "a quick look at eight nodes": {},
        "a full look at eight nodes": full,
        "a look at the eight nodes of the run's ssh configuration": {"control_interface": None, "hosts": None},
    }
    results = mesh.preflight(*runs.values())
    for run, result in zip(runs, results):
        faults.healthy(run, result["problems"], "mpi_preflight")
        assert result["problems"] == [] and result["ok"] and len(result["hosts"]) == 8
        assert all(host["ok"] and host["stage"] is None for host in result["hosts"])
    facts = results[1]["hosts"][1]["facts"]
    assert facts["hostname"] == "g2" and facts["callback"]["source"] == mesh.nodes.addresses["g2"]
    callback = facts["callback"]
    assert all(facts["environment"].values()) and abs(callback["offset"]) <= callback["seconds"] / 2


@pytest.mark.slow
def test_rdma_devices_are_those_that_the_ranks_of_each_host_have(mesh):
    """No node has one, so that whichever is asked for is missing. g2 has its own, as gpufabric_node_env makes it."""
    config = "RUN/sshd/sshd_config"
    own = "NCCL_IB_HCA=mlx5_2"
    make, mend = (f"sed -i 's/^SetEnv {words}/' {config}; {AGAIN}" for words in (f"/SetEnv {own} ", f"{own} /SetEnv "))
    change = Fault("", "", "g2", make, mend)
    calls = [{}, {"env": {"NCCL_IB_HCA": "^mlx5_8"}}, {"env": {"NCCL_IB_HCA": None}}]
    with made(mesh, [change]):
        results = mesh.nodes.modules(
            [mesh.call(level="full", hosts=mesh.hosts[:2], **call) for call in calls],
            environment={"NCCL_IB_HCA": "mlx5_1"},
        )
    told = [[(one["id"], one["host"], one["cause"]) for one in result["problems"]] for result in results]
    assert [[(identity, host) for identity, host, _cause in found] for found in told] == [
        [("rdma-device-missing", "g1"), ("rdma-device-missing", "g2")],
        [("rdma-device-missing", "g1"), ("rdma-device-missing", "g2")],
        [("rdma-device-missing", "g2")],
    ]
    role = {"hosts": "workers", "gather_facts": False, "roles": ["gpufabric.nccl.preflight"]}
    peers = [{**mesh.sshds[name], "name": name} for name in ("g1", "g2")]
    variables = {"preflight_env": "NCCL_IB_HCA=mlx5_4", "preflight_level": "full", "preflight_fail": False}
    played = mesh.nodes.playbook([role], gpufabric_peers=peers, **variables)
    assert played.returncode == 0, played.output
    result = played.result("g1", "gpufabric.nccl.mpi_preflight")
    assert {one["host"] for one in result["problems"]} == {"g1", "g2"} and "names: mlx5_4" in played.output
    devices = [["mlx5_1", "mlx5_2"], ["^mlx5_8", "^mlx5_8"], ["mlx5_2"]]
    for found, wanted in zip(told, devices):
        assert all(device in cause for (_identity, _host, cause), device in zip(found, wanted)), told


def rewritten(path: str, write: str) -> Fault:
    """A change of a file of the launcher. It is podman's file, which can be written but not replaced."""
    return Fault("", "", "g1", f"cp {path} /tmp/kept; {write} {path}", f"cat /tmp/kept > {path}; rm /tmp/kept")


@pytest.mark.slow
def test_faults_on_the_way(mesh, faults):
    hosts = [*mesh.hosts, *({"name": fault.node} for fault in NAMES)]
    try:
        with made(mesh, [rewritten("/etc/hosts", "echo 127.0.1.1 looping >>"), *WAY]):
            (result,) = mesh.preflight(hosts=hosts)
        mesh.restore()
        with made(mesh, [rewritten("/etc/resolv.conf", "echo nameserver 192.0.2.1 >"), *MORE_WAY]):
            (more,) = mesh.preflight(hosts=[*mesh.hosts, {"name": NAME_SERVER.node}])
    finally:
        mesh.restore()
    check(result, [*WAY, *NAMES], faults)
    check(more, [*MORE_WAY, NAME_SERVER], faults)
    faults.healthy("eight nodes that were unreachable", mesh.preflight()[0]["problems"], "mpi_preflight")


NOISY = Fault("the shell's profile prints without end", "session-noisy", "g2", "sed -i '1i yes' ~/.bashrc", "sed -i 1d ~/.bashrc",
              "session")  # fmt: skip


LARGE = Fault("the control network loses large packets", "ssh-packets-lost", "g3",
              "iptables -I INPUT -i eth0 -s LAUNCHER -p tcp --dport PORT -m length --length 1000: -j DROP", "iptables -F", "connect")  # fmt: skip


@pytest.mark.slow
def test_sessions_that_print_without_end_or_hang(mesh, faults):
    with made(mesh, [NOISY, LARGE]):
        (result,) = mesh.preflight()
    check(result, [NOISY, LARGE], faults)


TAKEN = Fault("a machine without this sshd has the address of the worker", "connect-refused", "g2", stage="connect")


@pytest.mark.slow
def test_another_machine_has_the_address_of_a_worker(mesh, faults):
    """Both answer who has it, and the launcher heard the other one last."""
    address = mesh.nodes.addresses[TAKEN.node]
    mac = mesh.nodes.shell("g3", "cat /sys/class/net/eth0/address").stdout.strip()
    other = Fault("", "", "g3", f"ip address add {address}/32 dev lo", f"ip address del {address}/32 dev lo")
    launcher = Fault("", "", "g1", f"ip neigh replace {address} lladdr {mac} dev eth0 nud permanent",
                     f"ip neigh del {address} dev eth0")  # fmt: skip
    with made(mesh, [other, launcher]):
        (result,) = mesh.preflight()
    check(result, [TAKEN], faults)
    assert "ip neigh" in result["problems"][0]["cure"]


KEY = "RUN/ssh/id_ed25519"
KEY_FAULTS = [
    Fault("the private key is missing", "ssh-key-missing", "g1", f"mv {KEY} /root/key", f"mv /root/key {KEY}"),
    Fault("others may read the private key", "ssh-key-permissions", "g1", f"chmod 0644 {KEY}", f"chmod 0600 {KEY}"),
    Fault("the private key is damaged", "ssh-key-unreadable", "g1", f"cp -p {KEY} /root/key; echo x > {KEY}",
          f"mv /root/key {KEY}"),
]  # fmt: skip


@pytest.mark.slow
def test_a_fault_of_the_launcher_is_named_once(mesh, faults):
    calls: list[tuple[str, t.Any]] = []
    for fault in KEY_FAULTS:
        calls += [(RAW, mesh.words("g1", fault.make)), mesh.call(), (RAW, mesh.words("g1", fault.mend))]
    results = mesh.nodes.modules(calls)
    for fault, result in zip(KEY_FAULTS, results[1::3]):
        record(faults, result["problems"], [fault], "mpi_preflight")
        assert {host["stage"] for host in result["hosts"]} == {"authenticate"}


@pytest.mark.slow
def test_faults_in_the_session(mesh, faults):
    reject = f"-s {mesh.nodes.addresses['g7']} -p tcp --syn -j REJECT --reject-with icmp-host-prohibited"
    firewall = Fault("", "", "g1", f"iptables -I INPUT {reject}", f"iptables -D INPUT {reject}")
    with made(mesh, [firewall, *SESSION]):
        (result,) = mesh.preflight()
    check(result, SESSION, faults)
    rejected = next(one for one in result["problems"] if one["id"] == "callback-rejected")
    assert mesh.nodes.addresses["g1"] in rejected["cause"]
    options = {"level": "full", "data_interface": "net1"}
    sshd = processes_of(mesh.nodes, CROWDED.node)[mesh.sshds[CROWDED.node]["pid"]]
    with made(mesh, MORE_SESSION), limited(sshd, f"gpufabric-{mesh.nodes.run_id}", "pids", "100"):
        (more,) = mesh.preflight(options)
    check(more, [*MORE_SESSION, CROWDED], faults)
    faults.healthy(
        "eight nodes that had faults of their sessions", mesh.preflight(options)[0]["problems"], "mpi_preflight"
    )


@pytest.mark.slow
def test_two_open_mpis(mesh, faults, openmpi4, openmpi5):
    """Open MPI 4 and 5 have daemons of different names; /opt/mpi0 and the others are one of them."""
    prefixes = {"4": "/usr", "4.1.8": openmpi4["gpufabric_mpi_prefix"], "5": openmpi5["gpufabric_mpi_prefix"]}
    pairs = [("4", "5"), ("5", "4"), ("4", "4.1.8"), ("4.1.8", "4"), ("5", "5")]
    calls = []
    for number, (launcher, worker) in enumerate(pairs):
        for node in ("g1", "g2", "g3"):
            mesh.shell(node, f"ln -sfn {prefixes[worker if node == 'g2' else launcher]} /opt/mpi{number}")
        calls.append({"mpi_prefix": f"/opt/mpi{number}"})
    try:
        *results, healthy = mesh.preflight(*calls, hosts=mesh.hosts[:3])
    finally:
        for node in ("g1", "g2", "g3"):
            mesh.shell(node, "rm /opt/mpi?")
    for (launcher, worker), result in zip(pairs, results):
        fault = f"Open MPI {worker}, and the launcher has {launcher}"
        faults.fault(fault, result["problems"], "mpi-version-differs", "g2", "mpi_preflight")
        assert [host["stage"] for host in result["hosts"]] == [None, "version", None]
    faults.healthy("three nodes with Open MPI 5", healthy["problems"], "mpi_preflight")


@pytest.mark.slow
def test_a_variable_that_is_lost_on_the_way_is_the_cause_of_missing_libraries(mesh, faults):
    hide = "mkdir -p /opt/hidden; mv /usr/lib/*/libopen-rte.so.40* /opt/hidden"
    show = "mv /opt/hidden/* $(dirname /usr/lib/*/libopen-pal.so.40)"
    config = f"{mesh.run_dir}/ssh/config"
    unsend = f"sed -i 's/SendEnv .*/SendEnv NCCL_*/' {config}"
    changes = [
        *(Fault("", "", node, hide, show) for node in ("g1", "g2", "g3")),
        Fault("", "", "g2", f"sed -i s/^AcceptEnv.LD_LIBRARY_PATH/AcceptEnv\\ NOTHING/ RUN/sshd/sshd_config; {AGAIN}",
              f"sed -i s/^AcceptEnv.NOTHING/AcceptEnv\\ LD_LIBRARY_PATH/ RUN/sshd/sshd_config; {AGAIN}"),
        # It is changed only after the first call.
        Fault("", "", "g1", f"cp -p {config} /tmp/ssh-config", f"mv /tmp/ssh-config {config}"),
    ]  # fmt: skip
    with made(mesh, changes):
        result, _unsend, unsent = mesh.nodes.modules(
            [mesh.call(hosts=mesh.hosts[:3]), (RAW, unsend), mesh.call(hosts=mesh.hosts[2:3])],
            environment={"LD_LIBRARY_PATH": "/opt/hidden"},
        )
    fault = "AcceptEnv lacks LD_LIBRARY_PATH, which leads to Open MPI's libraries"
    faults.fault(fault, result["problems"], "env-not-accepted", "g2", "mpi_preflight")
    fault = "SendEnv lacks LD_LIBRARY_PATH, which leads to Open MPI's libraries"
    faults.fault(fault, unsent["problems"], "env-not-sent", "g3", "mpi_preflight", "the launcher")
    (problem,) = result["problems"]
    assert problem["severity"] == "error" and "libopen-rte.so.40" in problem["evidence"]
    assert [host["stage"] for host in result["hosts"]] == [None, "environment", None]
    assert unsent["hosts"][0]["stage"] == "environment"


#: A Python whose clock is an hour ahead.
FAST_CLOCK = """\
#!/bin/sh
for code; do :; done
exec /usr/bin/python3 -IS -c "import sys, time; now = time.time; time.time = lambda: now() + 3600; exec(sys.argv[1])" "$code"
"""


@pytest.mark.slow
def test_faults_of_the_data_network_and_of_resources(mesh, faults):
    mesh.shell("g1", f"printf %s {shlex.quote(FAST_CLOCK)} > /opt/fast-clock; chmod +x /opt/fast-clock")
    fast = [{**mesh.hosts[0], "python": "/opt/fast-clock"}, *mesh.hosts[1:]]
    options = {"level": "full", "data_interface": "net1", "expect": {"memlock_bytes": 1 << 20}}
    with made(mesh, RESOURCES):
        found, quick = mesh.preflight({"hosts": fast, **options}, {})
    check(found, [CLOCK, *RESOURCES], faults)
    callback = found["hosts"][0]["facts"]["callback"]
    assert abs(callback["offset"] - 3600) <= callback["seconds"] / 2
    told = next(one["cause"] for one in found["problems"] if one["id"] == "clock-off")
    assert f"{callback['offset']:+.1f}" in told
    assert quick["problems"] == []
    (mended, more) = mesh.preflight(options, {"level": "full", "expect": {"gpus": 8, "shm_bytes": 2 << 30}})
    faults.healthy("eight nodes that lacked resources", mended["problems"], "mpi_preflight")
    severities = {"gpus-missing": "error", "shm-small": "warning"}
    beside = [(identity, name, severity) for identity, severity in severities.items() for name in mesh.nodes.names]
    faults.fault(
        "there are fewer GPUs than are expected",
        more["problems"],
        "gpus-missing",
        "g2",
        "mpi_preflight",
        "each of all hosts",
        beside=beside,
        stand_in="the nodes have no GPUs, and the option expects 8",
    )
    assert sorted((one["id"], one["host"], one["severity"]) for one in more["problems"]) == sorted(beside)


@pytest.mark.slow
def test_programs_that_differ(mesh, faults):
    program = "/opt/perf/all_reduce_perf"
    stand_in = "ompi_info in the place of nccl-tests"
    broken = [
        Fault("the benchmark is not there", "program-missing", "g2", f"rm {program}", stand_in=stand_in),
        Fault("the benchmark may not be executed", "program-not-executable", "g3", f"chmod -x {program}", stand_in=stand_in),
        Fault("the benchmark is another build", "program-differs", "g4", f"printf x >> {program}", severity="warning",
              stand_in=stand_in),
        Fault("the benchmark misses a library", "program-library-missing", "g5", "mv /usr/lib/*/libmpi.so.40* /root",
              "mv /root/libmpi.so.40* $(dirname /usr/lib/*/libopen-rte.so.40)", stand_in=stand_in),
    ]  # fmt: skip
    # It is linked to MPI.
    copy = f"mkdir -p /opt/perf; cp $(readlink -f /usr/bin/ompi_info) {program}"
    copies = [Fault("", "", node, copy, "rm -r /opt/perf") for node in mesh.nodes.names]
    # As nccl_benchmark_env leads the ranks to libraries.
    elsewhere = {"env": {"LD_LIBRARY_PATH": "/root"}}
    with made(mesh, [*copies, *broken]):
        result, found_there = mesh.preflight({}, elsewhere, program=program)
    record(faults, result["problems"], broken, "mpi_preflight")
    told = {one["id"]: one["host"] for one in found_there["problems"]}
    assert told["program-missing"] == "g2" and "program-library-missing" not in told


@pytest.mark.slow
@pytest.mark.parametrize("refused", [REFUSED, REFUSED_BY_PAM], ids=["sshd", "pam"])
def test_the_reason_of_a_refusal_is_read_in_the_log_of_sshd(mesh, faults, refused):
    shells = {fault.node: mesh.words(fault.node, fault.make) for fault in refused}
    peers = [{**sshd, "name": name} for name, sshd in mesh.sshds.items()]
    # The connection that the role needs is there before login is impossible.
    make = {"ansible.builtin.raw": "{{ shells[inventory_hostname] | default('true') }}"}
    look = {"ansible.builtin.include_role": {"name": "gpufabric.nccl.preflight"}}
    play = {"hosts": "workers", "gather_facts": False, "tasks": [make, look]}
    try:
        played = mesh.nodes.playbook([play], shells=shells, gpufabric_peers=peers, preflight_fail=False)
    finally:
        for fault in refused:
            mesh.shell(fault.node, fault.mend)
        mesh.restore()
    told = played.result(action="ansible.builtin.set_fact")["ansible_facts"]["preflight_result"]
    record(faults, told["problems"], refused, "the role preflight")
    named = {fault.node: [fault.problem] for fault in refused}
    assert {host["name"]: host["problems"] for host in told["hosts"]} == {
        name: named.get(name, []) for name in mesh.nodes.names
    }
    # The log of no other host is read. That an account has expired, PAM tells the launcher.
    logs = played.result(action="gpufabric.nccl.sshd_log")["results"]
    assert {log["item"] for log in logs} == {fault.node for fault in refused if fault.problem != "account-expired"}
    assert played.returncode == 0 and ("not allowed because account is locked" in played.output) is (refused is REFUSED)


def test_the_role_stops_with_what_a_person_needs(mesh):
    role = {"hosts": "workers", "gather_facts": False, "roles": ["gpufabric.nccl.preflight"]}
    peers = [{**sshd, "name": name} for name, sshd in mesh.sshds.items()]
    hidden = [Fault("", "", node, "mv /usr/bin/orted /root", "mv /root/orted /usr/bin") for node in ("g3", "g4")]
    with made(mesh, hidden):
        stopped = mesh.nodes.playbook([role], gpufabric_peers=peers)
        going_on = mesh.nodes.playbook([role], gpufabric_peers=peers, preflight_fail=False)
    assert stopped.returncode == 2 and going_on.returncode == 0
    message = stopped.result(action="gpufabric.nccl.fail_with_problems")["msg"]
    lines = message.splitlines()
    assert lines[0] == "WHAT IS WRONG" and lines[1].startswith("  g3, g4: ") and "orted" in lines[1]
    assert (
        lines[2].startswith("    To do: ")
        and "EVIDENCE" in lines
        and lines[-1].endswith("/sshd/sshd.log on each worker")
    )
    assert lines[1] in going_on.output
    healthy = mesh.nodes.playbook([role], gpufabric_peers=peers)
    assert healthy.returncode == 0 and "WHAT" not in healthy.output
    # One module execution on the launcher, and none on the others.
    task = "gpufabric.nccl.preflight : Check the launch path from the launcher"
    assert [name for name in mesh.nodes.names if task in healthy.executions(name)] == ["g1"]


@pytest.mark.slow
def test_a_diagnosis_of_hosts_of_which_some_cannot_be_reached(mesh, faults, tmp_path):
    def diagnose(name: str, **variables: t.Any) -> tuple[Played, dict[str, t.Any], str]:
        played = mesh.nodes.playbook("gpufabric.nccl.diagnose", preflight_report_dir=str(tmp_path / name), **variables)
        folder = tmp_path / name
        assert (folder / "diagnosis.json").exists(), played.output
        return (
            played,
            json.loads((folder / "diagnosis.json").read_text()),
            (folder / "diagnosis.md").read_text(),
        )

    before = {node: mesh.nodes.state(node) for node in ("g3", "g5")}
    # Ansible's own connection goes on otherwise.
    cut = "pkill -P $(pgrep -P 1 -f local-node/sshd_config)"
    reject = "iptables -I INPUT -p tcp --dport 22 -j REJECT --reject-with icmp-admin-prohibited"
    broken = [
        Fault("Ansible's port is rejected by a firewall", "connect-rejected", "g2", f"{reject}; {cut} || true", "iptables -F"),
        Fault("mpirun's daemon is not there", "daemon-missing", "g4", "mv /usr/bin/orted /root", "mv /root/orted /usr/bin"),
        # Ansible's own connection stays, and nothing comes over it any more.
        Fault("Ansible's port is dropped by a firewall, with a connection open", "connect-timeout", "g6",
              "iptables -I INPUT -p tcp --dport 22 -j DROP", "iptables -F"),
        Fault("sshd is not installed", "openssh-missing", "g7", "mv /usr/sbin/sshd /root", "mv /root/sshd /usr/sbin"),
    ]  # fmt: skip
    # No other host is to be given up because this machine is busy.
    limit = "{{ 5 if inventory_hostname == 'g6' else 300 }}"
    with made(mesh, broken):
        played, document, text = diagnose("broken", preflight_task_timeout=limit)
    assert played.returncode == 2 and not document["ok"] and document["schema"] == "gpufabric.nccl/diagnosis/v1"
    record(faults, document["problems"], broken, "diagnose")
    assert {host["name"]: host["ok"] for host in document["hosts"]} == {
        name: name not in {fault.node for fault in broken} for name in mesh.nodes.names
    }
    assert "### g2: " in text and "### g4: " in text and "| g3 | " in text
    # The other ports are closed between these nodes: the run's sshd has the one that is open.
    closed = "iptables -I INPUT -i eth0 -p tcp --syn -m multiport ! --dports 22,18766 -j REJECT --reject-with icmp-admin-prohibited"
    with made(mesh, [Fault("", "", "g3", closed, "iptables -F")]):
        played, document, _text = diagnose("closed", key_exchange_port=18766, key_exchange_connect_timeout=7)
    words = "a firewall lets in ssh alone on the control network"
    faults.fault(words, document["problems"], "control-unreachable", "g3", "diagnose")
    assert played.result("g3", "gpufabric.nccl.ssh_mesh")["invocation"]["module_args"]["connect_timeout"] == 7
    played, document, text = diagnose("healthy")
    faults.healthy("eight nodes", document["problems"], "diagnose")
    assert played.returncode == 0 and document["ok"] and "No problem was found." in text
    assert all(host["ok"] and host["facts"]["shm"]["size"] == 1 << 30 for host in document["hosts"])
    # A look from the launcher is one more there.
    assert {len(played.executions(node)) for node in mesh.nodes.names[1:]} == {3}
    assert {node: mesh.nodes.state(node) for node in before} == before


def test_a_diagnosis_without_a_place_for_it_starts_nothing(player, tmp_path):
    inventory = tmp_path / "hosts.yml"
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory.write_text(json.dumps({"all": {"hosts": {"gpu-1": here}}}))
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "diagnosis.md").write_text("# Of somebody else\n")
    for folder in (inventory / "below-a-file", taken):
        variables = {"preflight_report_dir": str(folder), "gpufabric_run_dir": str(tmp_path / "run")}
        played = player.playbook("gpufabric.nccl.diagnose", "-i", str(inventory), **variables)
        assert played.returncode == 2 and played.result()["msg"].startswith("preflight_report_dir: "), played.output
        assert played.executions("gpu-1") == [], played.output


@pytest.mark.slow
def test_a_fleet_is_logged_in_to_from_the_controller(mesh, faults, tmp_path, monkeypatch):
    nodes = mesh.nodes
    inventory = yaml.safe_load(pathlib.Path(nodes.inventory).read_text())["workers"]["vars"]
    known_hosts = shlex.split(inventory["ansible_ssh_common_args"])
    known_hosts = next(word.partition("=")[2] for word in known_hosts if word.startswith("UserKnownHostsFile="))
    lines = pathlib.Path(known_hosts).read_text().splitlines()
    wrong, hashed, own = tmp_path / "wrong", tmp_path / "hashed", tmp_path / "own"
    wrong.write_text(f"{nodes.addresses['g1']} {' '.join(lines[1].split()[1:])}\n")
    hashed.write_text("\n".join(lines) + "\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(hashed)], check=True, capture_output=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(own)], check=True, capture_output=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "x", "-f", f"{own}2"], check=True, capture_output=True)
    open_key = tmp_path / "open"
    open_key.write_text(own.read_text())
    open_key.chmod(0o644)
    good = {
        "address": nodes.addresses["g1"],
        "key_file": inventory["ansible_ssh_private_key_file"],
        "known_hosts": [known_hosts],
    }
    system = "$(pgrep -P 1 -f local-node/sshd_config)"
    broken = [
        Fault("", "", "g2", "iptables -I INPUT -p tcp --syn --dport 22 -j DROP", "iptables -F"),
        Fault("", "", "g3", "usermod -s /usr/sbin/nologin root", "usermod -s /bin/bash root"),
        Fault("", "", "g4", "iptables -I INPUT -p tcp --syn --dport 22 -j REJECT --reject-with icmp-admin-prohibited",
              "iptables -F"),
        Fault("", "", "g5", "usermod -s /bin/false root", "usermod -s /bin/bash root"),
        Fault("", "", "g6", f"kill -STOP {system}", f"kill -CONT {system}"),
        Fault("", "", "g7", "iptables -I INPUT -p tcp --dport 22 -m length --length 1000: -j DROP", "iptables -F"),
    ]  # fmt: skip
    table: dict[str, tuple[dict[str, t.Any], str | None]] = {
        "a host": ({}, None),
        "a host with a hashed known_hosts": ({"known_hosts": [str(hashed)]}, None),
        "a host whose key is not checked": ({"known_hosts": []}, None),
        "nothing listens on the port": ({"port": 23}, "connect-refused"),
        "the port is dropped by a firewall": ({"address": nodes.addresses["g2"]}, "connect-timeout"),
        "the port is rejected by a firewall": ({"address": nodes.addresses["g4"]}, "connect-rejected"),
        "the login shell is nologin": ({"address": nodes.addresses["g3"]}, "account-no-shell"),
        "the login shell is /bin/false": ({"address": nodes.addresses["g5"]}, "ssh-session"),
        "sshd hangs": ({"address": nodes.addresses["g6"]}, "ssh-banner-timeout"),
        "the network loses large packets": ({"address": nodes.addresses["g7"]}, "ssh-packets-lost"),
        "a name does not resolve": ({"address": "no-such-host.invalid"}, "name-unresolved"),
        "the host key is another": ({"known_hosts": [str(wrong)]}, "host-key-changed"),
        "no host key is known": ({"known_hosts": [str(tmp_path / "none")]}, "host-key-unknown"),
        "the private key is missing": ({"key_file": str(tmp_path / "none")}, "ssh-key-missing"),
        "others may read the private key": ({"key_file": str(open_key)}, "ssh-key-permissions"),
        "the private key has a passphrase": ({"key_file": f"{own}2"}, "ssh-key-unreadable"),
        "the key is not authorized": ({"key_file": str(own)}, "ssh-auth-refused"),
        "the user is not let in": ({"user": "nobody"}, "ssh-auth-refused"),
    }
    endpoints = [{"name": name, **good, **options} for name, (options, _problem) in table.items()]
    probe = {"gpufabric.nccl.ssh_probe": {"endpoints": endpoints, "command": "hostname"}}
    local = {"ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    unchecked = {"endpoints": [{**good, "name": "g1", "known_hosts": [str(wrong)]}], "host_key_checking": False}
    tasks = [probe, {"gpufabric.nccl.ssh_probe": unchecked}]
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": local, "tasks": tasks}
    with made(mesh, broken):
        played = nodes.playbook([play])
    result, trusting = (record["result"] for record in played.records)
    assert trusting["ok"] and trusting["problems"] == []
    beside = [(problem, name) for name, (_options, problem) in table.items() if problem]
    for name, (_options, problem) in table.items():
        if problem:
            faults.fault(name, result["problems"], problem, name, "ssh_probe", "a host", beside=beside)
        else:
            faults.healthy(name, [one for one in result["problems"] if one["host"] == name], "ssh_probe")
    assert {host["name"]: host["problem"] for host in result["hosts"]} == {
        name: problem for name, (_options, problem) in table.items()
    }
    assert result["hosts"][0]["output"] == "g1" and not result["ok"] and not result["changed"]
    reach = {"ansible.builtin.include_role": {"name": "gpufabric.nccl.preflight", "tasks_from": "reach"}}
    reached = nodes.playbook([{"hosts": "workers", "gather_facts": False, "tasks": [reach]}])
    faults.healthy("eight hosts", reached.result(action="gpufabric.nccl.ssh_probe")["problems"], "ssh_probe")
    assert reached.returncode == 0
    # As AWX has it.
    monkeypatch.setenv("ANSIBLE_HOST_KEY_CHECKING", "False")
    play = {"hosts": "workers", "gather_facts": False, "tasks": [reach]}
    unknown = nodes.playbook([play], ansible_ssh_common_args=f"-o UserKnownHostsFile={tmp_path}/none")
    assert unknown.result(action="gpufabric.nccl.ssh_probe")["problems"] == [] and unknown.returncode == 0


def test_bad_input_is_one_line(mesh):
    calls = [
        ({"hosts": []}, "hosts: [] is not allowed; allowed: at least one host with its name"),
        ({"hosts": [{"name": "a"}, {"name": "a"}]}, "hosts[1].name: 'a' is not allowed; allowed: each host once"),
        ({"hosts": [{"name": "a", "address": "b"}]}, "hosts[0].address: 'b' is not allowed; allowed: a numeric"),
        ({"timeout": 0}, "timeout: 0.0 is not allowed; allowed: more than 0"),
        ({"environment": ["A=B"]}, "environment: 'A=B' is not allowed; allowed: names of environment variables"),
        ({"control_interface": "eth7"}, "interface: 'eth7' is not allowed; allowed: an interface of this node"),
        ({"mpi_prefix": "/nosuch"}, "mpi_prefix: '/nosuch' is not allowed; allowed: a directory with bin/mpirun in it"),
        (
            {"run_id": "never-made"},
            "run_dir: '/run/gpufabric/never-made' is not allowed; allowed: the directory of a run",
        ),
    ]
    results = mesh.nodes.modules([("mpi_preflight", {"run_id": mesh.nodes.run_id, **own}) for own, _text in calls])
    for result, (_own, text) in zip(results, calls):
        assert result["failed"] and result["msg"].startswith(text) and "\n" not in result["msg"], result["msg"]
