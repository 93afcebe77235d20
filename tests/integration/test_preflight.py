# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fault matrix of the preflight: each fault is made on a real node, named with its host, and nothing else is."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shlex
import subprocess
import typing as t

import pytest
import yaml
from conftest import Nodes

RUN_DIR = "/run/gpufabric/{run}"
#: The firewall's and the mounts' are the node's own; only a shell with all capabilities may change them.
PRIVILEGED = ("podman", "exec", "--privileged", "--user", "root")


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault, as shell commands that make and mend it on a node; ``PORT`` and ``PID`` are its private sshd's.

    ``problem`` is the id that is expected, on ``host`` where that is another than the node.
    """

    problem: str
    node: str
    make: str
    mend: str
    stage: str
    host: str | None = None


#: Shell: another sshd on the run's port, or another program, and what ends it.
OTHER_SSHD = (
    "kill PID; ssh-keygen -q -t ed25519 -N '' -f /tmp/other_key;"
    " sed 's,^HostKey .*,HostKey /tmp/other_key,; s,^PidFile .*,PidFile /tmp/other.pid,' RUN/sshd/sshd_config > /tmp/other;"
    " until /usr/sbin/sshd -f /tmp/other; do sleep 0.1; done; until [ -s /tmp/other.pid ]; do sleep 0.1; done"
)
TALKER = (
    "kill PID; python3 -c 'import socket\n"
    's = socket.create_server(("ADDRESS", PORT))\n'
    "while True:\n"
    ' c = s.accept()[0]; c.sendall(b"220 mail.example ESMTP\\r\\n"); c.close()\' > /dev/null 2>&1 &'
    " echo $! > /tmp/talker; until (: < /dev/tcp/ADDRESS/PORT) 2> /dev/null; do sleep 0.1; done"
)
DROP = "iptables -I INPUT -i eth0 -p tcp --dport PORT -j "
TO_LAUNCHER = "iptables -I OUTPUT -d LAUNCHER -p tcp --syn -j DROP"

#: On the way to a node. All of one list are made at once, on nodes that are different.
WAY: list[Fault] = [
    Fault("connect-refused", "g2", "kill PID", "", "connect"),
    Fault("connect-timeout", "g3", f"{DROP} DROP", "iptables -F", "connect"),
    Fault("connect-rejected", "g4", f"{DROP} REJECT --reject-with icmp-admin-prohibited", "iptables -F", "connect"),
    Fault("ssh-not-ssh", "g5", TALKER, "kill $(cat /tmp/talker)", "connect"),
    Fault("ssh-banner-timeout", "g6", "kill -STOP PID", "kill -CONT PID", "connect"),
    Fault("host-key-changed", "g7", OTHER_SSHD, "kill $(cat /tmp/other.pid); rm -f /tmp/other*", "host_key"),
    Fault(
        "ssh-auth-refused",
        "g8",
        "cp RUN/sshd/authorized_keys /tmp/keys; : > RUN/sshd/authorized_keys",
        "cp /tmp/keys RUN/sshd/authorized_keys",
        "authenticate",
    ),
]

#: In a session on the node, and on the way back.
SESSION: list[Fault] = [
    Fault("daemon-missing", "g2", "mv /usr/bin/orted /root", "mv /root/orted /usr/bin", "daemon"),
    Fault(
        "mpi-prefix-differs",
        "g3",
        "mkdir -p /opt/openmpi-site/bin; mv /usr/bin/orted /opt/openmpi-site/bin",
        "mv /opt/openmpi-site/bin/orted /usr/bin; rm -r /opt/openmpi-site",
        "daemon",
    ),
    Fault("daemon-not-executable", "g4", "chmod -x /usr/bin/orted", "chmod +x /usr/bin/orted", "daemon"),
    Fault(
        "daemon-library-missing",
        "g5",
        "mv /usr/lib/*/libopen-pal.so.40* /root",
        "mv /root/libopen-pal.so.40* $(dirname /usr/lib/*/libopen-rte.so.40)",
        "libraries",
    ),
    Fault("callback-timeout", "g6", TO_LAUNCHER, "iptables -F", "callback"),
    Fault(
        "callback-rejected",
        "g7",
        "true",
        "true",
        "callback",
    ),
    Fault(
        "env-not-accepted",
        "g8",
        "cp RUN/sshd/sshd_config /tmp/config; sed -i /^AcceptEnv/d RUN/sshd/sshd_config; kill -HUP PID;"
        " until (: < /dev/tcp/ADDRESS/PORT) 2> /dev/null; do sleep 0.1; done",
        "cp /tmp/config RUN/sshd/sshd_config; kill -HUP PID",
        "",
    ),
]

#: Of the data network and of the node's resources.
RESOURCES: list[Fault] = [
    Fault(
        "data-interface-missing",
        "g2",
        "ip link set net1 down; ip link set net1 name other; ip link set other up",
        "ip link set other down; ip link set other name net1; ip link set net1 up",
        "data",
    ),
    Fault("data-unreachable", "g3", "iptables -I INPUT -i net1 -j DROP", "iptables -F", "data"),
    Fault("data-mtu", "g4", "iptables -I INPUT -i net1 -m length --length 1000: -j DROP", "iptables -F", "data"),
    Fault(
        "shm-full",
        "g5",
        "mount -o remount,size=20m /dev/shm; dd if=/dev/zero of=/dev/shm/left-over bs=1M count=10 status=none",
        "rm /dev/shm/left-over; mount -o remount,size=1g /dev/shm",
        "limits",
    ),
    Fault(
        "disk-full",
        "g6",
        "mount -t tmpfs -o size=1m full RUN/tmp; dd if=/dev/zero of=RUN/tmp/file bs=4096 status=none || true",
        "umount RUN/tmp",
        "disk",
    ),
    Fault("memlock-low", "g7", "prlimit --memlock=65536: --pid PID", "prlimit --memlock=8388608: --pid PID", "limits"),
    Fault("files-low", "g8", "prlimit --nofile=256: --pid PID", "prlimit --nofile=1024: --pid PID", ""),
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

    def shell(self, node: str, command: str) -> None:
        """Run a shell command in a node, with all capabilities."""
        sshd = self.sshds[node]
        words = {"PORT": sshd["port"], "PID": sshd["pid"], "ADDRESS": sshd["address"], "RUN": self.run_dir}
        words["LAUNCHER"] = self.nodes.addresses["g1"]
        for word, value in words.items():
            command = command.replace(word, str(value))
        argv = [*PRIVILEGED, f"gpufabric-{self.nodes.run_id}-{node}", "bash", "-c", command]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (command, done.stdout, done.stderr)

    def preflight(self, *plays: dict[str, t.Any], **options: t.Any) -> list[dict[str, t.Any]]:
        """What comes of the module on the launcher, once for each of the sets of options."""
        common = {"run_id": self.nodes.run_id, "control_interface": "eth0", "timeout": 2, "hosts": self.hosts}
        calls = [("mpi_preflight", {**common, **options, **own}) for own in plays or ({},)]
        results = self.nodes.modules(calls)
        for result in results:
            assert not result["failed"] and not result["changed"], result
        return results


def named(result: dict[str, t.Any]) -> set[tuple[str, str]]:
    """The problems of a result, each as id and host."""
    return {(problem["id"], problem["host"]) for problem in result["problems"]}


@pytest.fixture(scope="module")
def mesh(make_nodes: t.Callable[[int], Nodes]) -> Mesh:
    return Mesh(make_nodes(8))


@contextlib.contextmanager
def made(mesh: Mesh, faults: list[Fault]) -> t.Iterator[None]:
    done = []
    try:
        for fault in faults:
            mesh.shell(fault.node, fault.make)
            done.append(fault)
        yield
    finally:
        with contextlib.ExitStack() as mending:
            for fault in done:
                mending.callback(mesh.shell, fault.node, fault.mend or "true")


def check(result: dict[str, t.Any], faults: list[Fault]) -> None:
    """All faults are named, each with its host and stage, and nothing else is."""
    assert named(result) == {(fault.problem, fault.host or fault.node) for fault in faults}, result["problems"]
    stages = {host["name"]: host["stage"] for host in result["hosts"]}
    assert {**stages, **{fault.node: fault.stage or None for fault in faults}} == stages
    assert [name for name, stage in stages.items() if stage] == [fault.node for fault in faults if fault.stage]
    for problem in result["problems"]:
        assert problem["cause"] and problem["cure"] and "{" not in problem["cause"] + problem["cure"]
    assert result["ok"] is (not any(fault.stage for fault in faults))


def test_nothing_is_said_of_healthy_hosts(mesh):
    full = {"level": "full", "data_interface": "net1"}
    for result in mesh.preflight({}, full, {"control_interface": None, "hosts": None}):
        assert result["problems"] == [] and result["ok"] and len(result["hosts"]) == 8
        assert all(host["ok"] and host["stage"] is None for host in result["hosts"])
    facts = mesh.preflight(full)[0]["hosts"][1]["facts"]
    assert facts["hostname"] == "g2" and facts["callback"]["source"] == mesh.nodes.addresses["g2"]
    assert all(facts["environment"].values()) and abs(facts["callback"]["offset"]) < 1


def test_faults_on_the_way(mesh):
    hosts = [*mesh.hosts, {"name": "no-such-host"}, {"name": "looping"}]
    mesh.shell("g1", "echo 127.0.1.1 looping >> /etc/hosts")
    expected = [
        *WAY,
        Fault("name-unresolved", "no-such-host", "", "", "resolve"),
        Fault("name-loopback", "looping", "", "", "resolve"),
    ]
    try:
        with made(mesh, WAY):
            (result,) = mesh.preflight(hosts=hosts)
    finally:
        mesh.restore()
    check(result, expected)
    assert named(mesh.preflight()[0]) == set()


KEY_FAULTS = [
    ("ssh-key-missing", "mv RUN/ssh/id_ed25519 /root/key", "mv /root/key RUN/ssh/id_ed25519"),
    ("ssh-key-permissions", "chmod 0644 RUN/ssh/id_ed25519", "chmod 0600 RUN/ssh/id_ed25519"),
]


@pytest.mark.parametrize(("problem", "make", "mend"), KEY_FAULTS, ids=[fault[0] for fault in KEY_FAULTS])
def test_a_fault_of_the_launcher_is_named_once(mesh, problem, make, mend):
    mesh.shell("g1", make)
    try:
        (result,) = mesh.preflight()
    finally:
        mesh.shell("g1", mend)
    assert [(one["id"], one["host"]) for one in result["problems"]] == [(problem, "g1")]
    assert {host["stage"] for host in result["hosts"]} == {"authenticate"}


def test_faults_in_the_session(mesh):
    reject = f"-s {mesh.nodes.addresses['g7']} -p tcp --syn -j REJECT --reject-with icmp-host-prohibited"
    mesh.shell("g1", f"iptables -I INPUT {reject}")
    try:
        with made(mesh, SESSION):
            (result,) = mesh.preflight()
    finally:
        mesh.shell("g1", f"iptables -D INPUT {reject}")
    check(result, SESSION)
    rejected = next(one for one in result["problems"] if one["id"] == "callback-rejected")
    assert mesh.nodes.addresses["g1"] in rejected["cause"]
    assert named(mesh.preflight()[0]) == set()


def test_a_variable_that_is_lost_on_the_way_is_the_cause_of_missing_libraries(mesh):
    hide = "mkdir -p /opt/hidden; mv /usr/lib/*/libopen-rte.so.40* /opt/hidden"
    show = "mv /opt/hidden/* $(dirname /usr/lib/*/libopen-pal.so.40)"
    accept = "sed -i s/^AcceptEnv.LD_LIBRARY_PATH/AcceptEnv\\ NOTHING/ RUN/sshd/sshd_config; kill -HUP PID"
    for node in ("g1", "g2", "g3"):
        mesh.shell(node, hide)
    mesh.shell("g2", accept)
    environment = {"LD_LIBRARY_PATH": "/opt/hidden"}
    call = {"run_id": mesh.nodes.run_id, "control_interface": "eth0", "hosts": mesh.hosts[:3]}
    try:
        result = mesh.nodes.module("mpi_preflight", call, environment=environment)
        mesh.shell("g1", "sed -i 's/SendEnv .*/SendEnv NCCL_*/' RUN/ssh/config")
        unsent = mesh.nodes.module("mpi_preflight", {**call, "hosts": mesh.hosts[2:3]}, environment=environment)
    finally:
        for node in ("g1", "g2", "g3"):
            mesh.shell(node, show)
        mesh.shell("g2", "sed -i s/^AcceptEnv.NOTHING/AcceptEnv\\ LD_LIBRARY_PATH/ RUN/sshd/sshd_config; kill -HUP PID")
        mesh.restore()
    assert named(result) == {("env-not-accepted", "g2")}
    (problem,) = result["problems"]
    assert problem["severity"] == "error" and "libopen-rte.so.40" in problem["evidence"]
    assert [host["stage"] for host in result["hosts"]] == [None, "environment", None]
    assert named(unsent) == {("env-not-sent", "g3")} and unsent["hosts"][0]["stage"] == "environment"


def pid_outside(mesh: Mesh, node: str, pid: int) -> str:
    """The pid that a process of a node has on this machine."""
    container = f"gpufabric-{mesh.nodes.run_id}-{node}"
    argv = ["podman", "inspect", "--format", "{{.State.Pid}}", container]
    first = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    space = os.readlink(f"/proc/{first}/ns/pid")
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        # It may end while it is looked at.
        with contextlib.suppress(OSError):
            inside = re.search(r"^NSpid:.*\s(\d+)$", (path / "status").read_text(), re.MULTILINE)
            if inside and inside.group(1) == str(pid) and os.readlink(path / "ns/pid") == space:
                return path.name
    raise AssertionError(f"{pid} does not run on {node}")


@contextlib.contextmanager
def crowded_group(mesh: Mesh, node: str) -> t.Iterator[None]:
    """The node's private sshd in a control group of this machine that takes few more processes."""
    base = pathlib.Path("/sys/fs/cgroup")
    group = (base / "pids" if (base / "pids").is_dir() else base) / f"gpufabric-{mesh.nodes.run_id}"
    pid = pid_outside(mesh, node, mesh.sshds[node]["pid"])
    group.mkdir()
    try:
        (group / "pids.max").write_text("100")
        (group / "cgroup.procs").write_text(pid)
        yield
    finally:
        (group.parent / "cgroup.procs").write_text(pid)
        group.rmdir()


#: A Python whose clock is an hour ahead.
FAST_CLOCK = """\
#!/bin/sh
for code; do :; done
exec /usr/bin/python3 -IS -c "import sys, time; now = time.time; time.time = lambda: now() + 3600; exec(sys.argv[1])" "$code"
"""


def test_faults_of_the_data_network_and_of_resources(mesh):
    mesh.shell("g1", f"printf %s {shlex.quote(FAST_CLOCK)} > /opt/fast-clock; chmod +x /opt/fast-clock")
    fast = [{**mesh.hosts[0], "python": "/opt/fast-clock"}, *mesh.hosts[1:]]
    options = {"level": "full", "data_interface": "net1", "expect": {"memlock_bytes": 1 << 20}}
    with made(mesh, RESOURCES), crowded_group(mesh, "g8"):
        found, quick = mesh.preflight({"hosts": fast, **options}, {})
    expected = [
        Fault("clock-off", "g1", "", "", ""),
        *RESOURCES[:-1],
        dataclasses.replace(RESOURCES[-1], stage="limits"),
        Fault("pids-low", "g8", "", "", "limits"),
    ]
    assert named(found) == {(fault.problem, fault.node) for fault in expected}, found["problems"]
    stages = {host["name"]: host["stage"] for host in found["hosts"]}
    assert stages == {"g1": None, **{fault.node: fault.stage for fault in expected[1:]}}
    assert "+3600" in next(one["cause"] for one in found["problems"] if one["id"] == "clock-off")
    assert quick["problems"] == []
    (mended, more) = mesh.preflight(options, {"level": "full", "expect": {"gpus": 8, "shm_bytes": 2 << 30}})
    assert mended["problems"] == []
    assert {one["id"] for one in more["problems"]} == {"gpus-missing", "shm-small"} and len(more["problems"]) == 16


def test_programs_that_differ(mesh):
    program = "/opt/perf/all_reduce_perf"
    for node in mesh.nodes.names:
        # A stand-in that is linked to MPI: a program of Open MPI's own.
        mesh.shell(node, f"mkdir -p /opt/perf; cp $(readlink -f /usr/bin/ompi_info) {program}")
    for node, command in {
        "g2": f"rm {program}",
        "g3": f"chmod -x {program}",
        "g4": f"printf x >> {program}",
        "g5": "mv /usr/lib/*/libmpi.so.40* /root",
    }.items():
        mesh.shell(node, command)
    try:
        (result,) = mesh.preflight(program=program)
    finally:
        mesh.shell("g5", "mv /root/libmpi.so.40* $(dirname /usr/lib/*/libopen-rte.so.40)")
    expected = {"g2": "program-missing", "g3": "program-not-executable", "g4": "program-differs"}
    expected["g5"] = "program-library-missing"
    assert named(result) == {(problem, node) for node, problem in expected.items()}


def test_the_role_stops_with_what_a_person_needs(mesh):
    role = {
        "hosts": "workers",
        "gather_facts": False,
        "roles": ["gpufabric.nccl.key_exchange", "gpufabric.nccl.preflight"],
    }
    mesh.shell("g3", "mv /usr/bin/orted /root")
    mesh.shell("g4", "mv /usr/bin/orted /root")
    try:
        stopped = mesh.nodes.playbook([role])
        going_on = mesh.nodes.playbook([role], preflight_fail=False)
    finally:
        mesh.shell("g3", "mv /root/orted /usr/bin")
        mesh.shell("g4", "mv /root/orted /usr/bin")
    assert stopped.returncode == 2 and going_on.returncode == 0
    message = stopped.result(action="ansible.builtin.fail")["msg"]
    lines = message.splitlines()
    assert lines[0] == "WHAT IS WRONG" and lines[1].startswith("  g3, g4: ") and "orted" in lines[1]
    assert (
        lines[2].startswith("    To do: ")
        and "EVIDENCE" in lines
        and lines[-1].endswith("/sshd/sshd.log on each worker")
    )
    assert lines[1] in going_on.output
    healthy = mesh.nodes.playbook([role])
    assert healthy.returncode == 0 and "WHAT" not in healthy.output
    # One module execution on the launcher, and none on the others.
    task = "gpufabric.nccl.preflight : Look | Go the way of a launch"
    assert [name for name in mesh.nodes.names if task in healthy.executions(name)] == ["g1"]


def test_a_diagnosis_of_hosts_of_which_some_cannot_be_reached(mesh, tmp_path):
    def diagnose(name: str, **variables: t.Any) -> tuple[int, dict[str, t.Any], str]:
        played = mesh.nodes.playbook("gpufabric.nccl.diagnose", preflight_report_dir=str(tmp_path / name), **variables)
        folder = tmp_path / name
        assert (folder / "diagnosis.json").exists(), played.output
        return (
            played.returncode,
            json.loads((folder / "diagnosis.json").read_text()),
            (folder / "diagnosis.md").read_text(),
        )

    before = {node: mesh.nodes.state(node) for node in ("g3", "g5")}
    # Ansible's own connection goes on otherwise.
    cut = "pkill -P $(pgrep -P 1 -f local-node/sshd_config)"
    mesh.shell(
        "g2", f"iptables -I INPUT -p tcp --dport 22 -j REJECT --reject-with icmp-admin-prohibited; {cut} || true"
    )
    mesh.shell("g4", "mv /usr/bin/orted /root")
    try:
        returncode, document, text = diagnose("broken")
    finally:
        mesh.shell("g2", "iptables -F")
        mesh.shell("g4", "mv /root/orted /usr/bin")
    assert returncode == 2 and not document["ok"] and document["schema"] == "gpufabric.nccl/diagnosis/v1"
    assert named(document) == {("connect-rejected", "g2"), ("daemon-missing", "g4")}
    assert {host["name"]: host["ok"] for host in document["hosts"]} == {
        name: name not in ("g2", "g4") for name in mesh.nodes.names
    }
    assert "### g2: " in text and "### g4: " in text and "| g3 | " in text
    returncode, document, text = diagnose("healthy")
    assert returncode == 0 and document["ok"] and document["problems"] == [] and "No problem was found." in text
    assert all(host["ok"] and host["facts"]["shm"]["size"] == 1 << 30 for host in document["hosts"])
    assert {node: mesh.nodes.state(node) for node in before} == before


def test_a_fleet_is_logged_in_to_from_the_controller(mesh, tmp_path):
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
    mesh.shell("g2", "iptables -I INPUT -p tcp --syn --dport 22 -j DROP")
    mesh.shell("g3", "usermod -s /usr/sbin/nologin root")
    table: dict[str, tuple[dict[str, t.Any], str | None]] = {
        "good": ({}, None),
        "hashed": ({"known_hosts": [str(hashed)]}, None),
        "any key": ({"known_hosts": []}, None),
        "closed port": ({"port": 23}, "connect-refused"),
        "dropped": ({"address": nodes.addresses["g2"]}, "connect-timeout"),
        "no shell": ({"address": nodes.addresses["g3"]}, "ssh-shell"),
        "no name": ({"address": "no-such-host.invalid"}, "name-unresolved"),
        "changed": ({"known_hosts": [str(wrong)]}, "host-key-changed"),
        "unknown": ({"known_hosts": [str(tmp_path / "none")]}, "host-key-unknown"),
        "no key": ({"key_file": str(tmp_path / "none")}, "ssh-key-missing"),
        "open key": ({"key_file": str(open_key)}, "ssh-key-permissions"),
        "locked key": ({"key_file": f"{own}2"}, "ssh-key-unreadable"),
        "other key": ({"key_file": str(own)}, "ssh-auth-refused"),
        "other user": ({"user": "nobody"}, "ssh-auth-refused"),
    }
    endpoints = [{"name": name, **good, **options} for name, (options, _problem) in table.items()]
    probe = {"gpufabric.nccl.ssh_probe": {"endpoints": endpoints, "timeout": 2, "command": "hostname"}}
    local = {"ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": local, "tasks": [probe]}
    try:
        played = nodes.playbook([play])
    finally:
        mesh.shell("g2", "iptables -F")
        mesh.shell("g3", "usermod -s /bin/bash root")
    result = played.result()
    assert {host["name"]: host["problem"] for host in result["hosts"]} == {
        name: problem for name, (_options, problem) in table.items()
    }
    assert named(result) == {(problem, name) for name, (_options, problem) in table.items() if problem}
    assert result["hosts"][0]["output"] == "g1" and not result["ok"] and not result["changed"]
    reach = {"ansible.builtin.include_role": {"name": "gpufabric.nccl.preflight", "tasks_from": "reach"}}
    reached = nodes.playbook([{"hosts": "workers", "gather_facts": False, "tasks": [reach]}])
    assert reached.returncode == 0 and reached.result(action="gpufabric.nccl.ssh_probe")["ok"]


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
