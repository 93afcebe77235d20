# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fault matrix of sshd_instance and mpi_hostfile: what each says of a fault that is really made on its node."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
import subprocess
import typing as t

import pytest
from conftest import Nodes
from fault_matrix import FaultMatrix

RAW = "ansible.builtin.raw"
RUN = "/run/gpufabric/faults"
HOST_KEY = f"{RUN}/sshd/ssh_host_ed25519_key"
USER = "worker"
USER_KEY = "/tmp/gpufabric-4322/faults/sshd/ssh_host_ed25519_key"

#: A Python that lacks capabilities, as in a container.
WITHOUT = """\
#!/bin/sh
exec setpriv --bounding-set {caps} --inh-caps {caps} /usr/bin/python3 "$@"
"""
#: A name server that knows no names, and adds one to /etc/hosts as soon as somebody has looked for it in vain.
LATE = """\
import os, socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
with open("/opt/late.pid", "w") as file:
    file.write(str(os.getpid()))
while True:
    query, client = server.recvfrom(512)
    if b"late" in query:
        with open("/etc/hosts", "a") as file:
            file.write("ADDRESS late\\n")
    server.sendto(query[:2] + b"\\x81\\x83" + query[4:], client)
"""


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault, as shell commands that make and mend it; ``options``: of the module, ``keywords``: of its task."""

    fault: str
    problem: str
    make: str = "true"
    mend: str = "true"
    options: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    keywords: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)


def without(name: str) -> dict[str, t.Any]:
    return {"vars": {"ansible_python_interpreter": f"/opt/without-{name}"}}


AS_USER = {"become": True, "become_method": "ansible.builtin.su", "become_user": USER}
ANOTHER = {"state": "restarted"}
LOCKED = "usermod --lock root; mv /etc/pam.d/sshd /root/pam-sshd"

#: Nothing of these is to be told: what is missing is made, or made anew.
MENDED: list[tuple[str, str]] = [
    ("an sshd", "true"),
    ("an sshd whose host keys were deleted", f"rm {HOST_KEY} {HOST_KEY}.pub"),
    ("an sshd whose privilege separation directory is missing", "rm -r /run/sshd"),
]

FAULTS: list[Fault] = [
    Fault("sshd is not installed", "openssh-missing", "mv /usr/sbin/sshd /root/", "mv /root/sshd /usr/sbin/"),
    Fault("ssh-keygen is not installed", "openssh-missing", "mv /usr/bin/ssh-keygen /root/", "mv /root/ssh-keygen /usr/bin/",
          {"run_id": "other"}),
    Fault("a file where sshd's privilege separation directory should be", "sshd-run-directory",
          "rm -r /run/sshd; touch /run/sshd", "rm /run/sshd; mkdir -m 0755 /run/sshd", ANOTHER),
    Fault("sshd's privilege separation directory belongs to another user", "sshd-run-directory-owner",
          "chown nobody /run/sshd", "chown root /run/sshd", ANOTHER),
    Fault("a host key that is damaged", "sshd-no-host-keys",
          f"cp -p {HOST_KEY} /root/host_key; echo damaged > {HOST_KEY}", f"cp -p /root/host_key {HOST_KEY}", ANOTHER),
    Fault("a host key that others may read", "ssh-key-permissions",
          f"chmod 0644 {HOST_KEY}", f"chmod 0600 {HOST_KEY}", ANOTHER),
    Fault("a host key that its user may not read", "sshd-no-host-keys",
          f"chmod 0 {USER_KEY}", f"chmod 0600 {USER_KEY}", ANOTHER, AS_USER),
    Fault("no capability SYS_CHROOT", "sshd-chroot", options={**ANOTHER, "timeout": 5}, keywords=without("chroot")),
    Fault("no capabilities SETUID and SETGID", "sshd-set-user", options={**ANOTHER, "timeout": 5}, keywords=without("set-user")),
    Fault("no user for privilege separation", "sshd-user-missing", "cp -p /etc/passwd /root/; sed -i /^sshd:/d /etc/passwd",
          "cp -p /root/passwd /etc/passwd", ANOTHER),
    Fault("the port is another program's", "sshd-port-taken", options={"port": 22}),
    Fault("a port below 1024 as an ordinary user", "sshd-port-forbidden", options={"port": 80}, keywords=AS_USER),
    Fault("an option that sshd does not know", "ssh-config-invalid", options={"extra_options": {"PerSourcePenalties": "no"}}),
    Fault("an option of sshd with a value that it does not know", "ssh-config-invalid",
          options={"extra_options": {"Compression": "maybe"}}),
    Fault("a locked account, and no PAM", "account-locked", LOCKED, "mv /root/pam-sshd /etc/pam.d/sshd; usermod -p '*' root",
          ANOTHER),
    Fault("the node's own firewall drops what it sends to itself", "sshd-silent", options={"run_id": "silent", "port": 18026, "timeout": 2}),
    Fault("TCP wrappers refuse all hosts", "sshd-tcp-wrappers", "echo 'sshd: ALL' >> /etc/hosts.deny",
          "sed -i '/^sshd: ALL$/d' /etc/hosts.deny; [ -s /etc/hosts.deny ] || rm /etc/hosts.deny",
          {"run_id": "wrapped", "timeout": 2}),
    Fault("the disk of the run directory is full", "disk-full", options={"run_dir": "/opt/full/run"}),
    Fault("the run directory cannot be written", "disk-unwritable", options={"run_dir": "/opt/read-only/run"}),
]  # fmt: skip


#: What some of the faults need around them, and what ends it.
SURROUNDINGS = [
    (f"useradd --create-home --uid 4322 {USER}", f"userdel --remove {USER}"),
    (
        "mkdir /opt/full; mount -t tmpfs -o size=64k full /opt/full;"
        " dd if=/dev/zero of=/opt/full/file bs=4096 status=none || true;"
        " ! mkdir /opt/full/run 2> /dev/null || rmdir /opt/full/run",
        "umount /opt/full; rmdir /opt/full",
    ),
    (
        "mkdir /opt/read-only; mount -t tmpfs -o ro read-only /opt/read-only",
        "umount /opt/read-only; rmdir /opt/read-only",
    ),
    ("iptables -I INPUT -p tcp --dport 18026 -j DROP", "iptables -D INPUT -p tcp --dport 18026 -j DROP"),
]


def privileged(nodes: Nodes, command: str) -> None:
    """Run a shell command on the node with all capabilities: the firewall's and the mounts' are its own."""
    argv = ["podman", "exec", "--privileged", "--user", "root", f"gpufabric-{nodes.run_id}-g1", "bash", "-ec", command]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (command, done.stdout, done.stderr)


def sshd(**options: t.Any) -> dict[str, t.Any]:
    return {"gpufabric.nccl.sshd_instance": {"run_id": "faults", **options}, "ignore_errors": True}


@pytest.mark.slow
def test_faults_of_an_sshd(fresh_nodes: Nodes, faults: FaultMatrix) -> None:
    tasks: list[dict[str, t.Any]] = []
    for _run, make in MENDED:
        tasks += [{RAW: make}, sshd(state="restarted")]
    tasks.append({**sshd(), **AS_USER})
    for fault in FAULTS:
        tasks += [{RAW: fault.make}, {**sshd(**fault.options), **fault.keywords}, {RAW: fault.mend}]
    tasks += [sshd(), {**sshd(), **AS_USER}, sshd(state="absent"), {**sshd(state="absent"), **AS_USER}]
    play = {"hosts": "g1", "gather_facts": False, "tasks": tasks}
    with contextlib.ExitStack() as mending:
        mending.callback(fresh_nodes.shell, "g1", "rm -rf /opt/without-* /root/host_key; mkdir -p /run/sshd")
        for name, caps in {"chroot": "-sys_chroot", "set-user": "-setuid,-setgid"}.items():
            text = WITHOUT.format(caps=caps)
            fresh_nodes.shell("g1", f"printf %s '{text}' > /opt/without-{name}; chmod +x /opt/without-{name}")
        for make, mend in SURROUNDINGS:
            mending.callback(privileged, fresh_nodes, mend)
            privileged(fresh_nodes, make)
        played = fresh_nodes.playbook([play])
    results = [record["result"] for record in played.records if record["action"] == "gpufabric.nccl.sshd_instance"]
    assert len(played.records) == len(tasks), played.output
    for run, _make in MENDED:
        result = results.pop(0)
        assert not result["failed"], result["msg"]
        faults.healthy(run, result.get("problems", []), "sshd_instance")
    assert not results.pop(0)["failed"]
    for fault in FAULTS:
        result = results.pop(0)
        assert result["failed"], fault
        faults.fault(fault.fault, result["problems"], fault.problem, "g1", "sshd_instance", where="the node")
        told = [f"{problem['cause']} {problem['cure']}" for problem in result["problems"]]
        # A run directory that is not ours is an error with a cure of its own.
        assert all(text in result["msg"] for text in told) or "set run_dir" in result["msg"], result["msg"]
        assert "\n" not in result["msg"] and "{" not in result["msg"], result["msg"]
    assert not any(result["failed"] for result in results), results


def test_faults_of_names(breakable: Nodes, faults: FaultMatrix) -> None:
    """``mpi_hostfile`` waits for names, so only those that never come right keep it from writing a hostfile."""
    address = breakable.addresses["g1"]
    own = {path: breakable.shell("g1", f"cat {path}").stdout for path in ("/etc/hosts", "/etc/resolv.conf")}
    breakable.shell("g1", f"printf %s {shlex.quote(LATE.replace('ADDRESS', address))} > /opt/late")
    server = "trap '' HUP; setsid -f python3 /opt/late > /dev/null 2>&1"

    def hostfile(*names: str, **options: t.Any) -> tuple[str, dict[str, t.Any]]:
        return "mpi_hostfile", {"run_id": "names", "hosts": [{"name": name} for name in names], **options}

    try:
        healthy, never, _moved, stale, _late, late = breakable.modules(
            [
                hostfile("g1", interface="eth0", timeout=0),
                hostfile("never.example", timeout=0),
                (RAW, "echo 10.99.0.1 moved >> /etc/hosts"),
                hostfile("moved", timeout=0, expected={"moved": address}),
                (RAW, f"echo nameserver 127.0.0.1 > /etc/resolv.conf; {server}"),
                hostfile("late", timeout=60, interval=0.2),
            ]
        )
    finally:
        for path, text in own.items():
            # It is podman's file, which can be written but not replaced.
            breakable.shell("g1", f"printf %s '{text}' > {path}")
        breakable.shell("g1", "[ ! -e /opt/late.pid ] || kill $(cat /opt/late.pid); rm -f /opt/late /opt/late.pid")
        breakable.module("run_cleanup", {"run_id": "names"})
    faults.healthy("a hostfile of names that resolve", healthy["problems"], "mpi_hostfile")
    assert never["failed"] and stale["failed"] and not late["failed"] and not healthy["failed"]
    for fault, result, problem, host, severity in (
        ("a name never resolves", never, "name-unresolved", "never.example", "error"),
        ("a name still has the address of an earlier host", stale, "name-stale", "moved", "error"),
        ("a name resolves late", late, "name-late", "late", "warning"),
    ):
        faults.fault(fault, result["problems"], problem, host, "mpi_hostfile", "the launcher", severity)
