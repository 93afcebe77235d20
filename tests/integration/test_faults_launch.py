# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fault matrix of launches: mpirun and programs that really fail, with Open MPI 4.1 and 5.0, and what is told of them.

What is told is what the role nccl_benchmark tells: what mpi_run found, and what a look at the hosts found after a point failed.
Each fault is made with both versions of Open MPI, most of them in slow runs only.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import itertools
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import typing as t

import pytest
from background import wait
from conftest import ROOT, Nodes, Played, slow
from fault_matrix import FaultMatrix
from outside import limited, processes_of

sys.path.insert(0, str(ROOT / "build" / "collections"))
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.plan import _BOOTSTRAP, complete_results
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import diagnose
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.reader import Facts, Source

CPU_PROGRAM = ROOT / "plugins" / "plugin_utils" / "_programs" / "cpu_perf.py"
#: Each a launcher, a worker that nothing is wrong with, and the worker that has the fault.
TRIOS = (("g1", "g2", "g3"), ("g4", "g5", "g6"), ("g7", "g8", "g9"))
VERSIONS = ("4.1", "5.0")
#: Only a shell with all capabilities may change the firewall and mounts of a node.
PRIVILEGED = ("podman", "exec", "--privileged", "--user", "root")


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault of a host, as shell commands that make and mend it there; words in capitals are filled in by Mesh.words.

    ``program``: what is run, by default one that ends at once. ``options``: of mpi_run. ``look``: of the look after it.
    ``where``: the launcher has the fault instead of the worker. ``host``: False where it is nobody's. ``beside``: warnings of the
    same host, of what could not be ended there. ``cut``: the program's own table ends before its summary. ``versions``: that it is
    made with. ``stand_in``: what is not the real thing.
    """

    what: str
    problem: str
    make: str = "true"
    mend: str = "true"
    program: tuple[str, ...] = ("true",)
    options: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    look: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    where: str = "a worker"
    host: bool = True
    beside: tuple[str, ...] = ()
    cut: bool = False
    versions: tuple[str, ...] = VERSIONS
    stand_in: str = ""


#: An sshd has its port until it has ended, and writes its pid when it listens.
STOP = "pid=PID; kill $pid; while kill -0 $pid 2> /dev/null; do sleep 0.1; done"
STARTED = "until [ -s RUN/sshd/sshd.pid ]; do sleep 0.1; done"
START = f"/usr/sbin/sshd -f RUN/sshd/sshd_config; {STARTED}"
RELOAD = f"pid=PID; rm RUN/sshd/sshd.pid; kill -HUP $pid; {STARTED}"
OTHER_SSHD = (
    f"{STOP}; ssh-keygen -q -t ed25519 -N '' -f /tmp/other_key;"
    " sed 's,^HostKey .*,HostKey /tmp/other_key,; s,^PidFile .*,PidFile /tmp/other.pid,' RUN/sshd/sshd_config > /tmp/other;"
    " /usr/sbin/sshd -f /tmp/other; until [ -s /tmp/other.pid ]; do sleep 0.1; done"
)
#: Two logins at a time and no more, and two that never say who they are.
CROWD = (
    "cp RUN/sshd/sshd_config /tmp/config;"
    " sed -i 's/^MaxStartups .*/MaxStartups 2:100:2/; s/^LoginGraceTime .*/LoginGraceTime 0/' RUN/sshd/sshd_config;"
    f" {RELOAD}; setsid python3 -c 'import signal, socket\n"
    'crowd = [socket.create_connection(("ADDRESS", PORT)) for _ in range(2)]; open("/tmp/crowded", "w"); signal.pause()\''
    " > /dev/null 2>&1 & echo $! > /tmp/crowd; until [ -e /tmp/crowded ]; do sleep 0.1; done"
)
#: The CPU program, as the role starts it, and a collective that takes hours.
CPU_ARGV = ("PYTHON", "-c", _BOOTSTRAP, "RUN/mpi/files/cpu_perf.py")
CPU_FILES = {"cpu_perf.py": CPU_PROGRAM.read_text()}
ENDLESS = ("all_reduce", "-b", "8", "-e", "8", "-n", "100000000", "-w", "1", "-c", "0", "-g", "1")
#: It takes the main thread of the program, between two of its calls of MPI.
SPINS = """
import signal
def spin(*_arguments):
    while True:
        pass
if "all_reduce" in open("/proc/self/cmdline").read():
    signal.signal(signal.SIGALRM, spin)
    signal.alarm(4)
"""
RAS_FILES = {"ras_program.py": (ROOT / "tests" / "integration" / "ras_program.py").read_text()}
#: Of launches that do not end by themselves, and whose cause is there to be seen afterwards too.
HANGS = {"startup_timeout": 8}
#: A program that uses MPI, and ends where that fails; others would wait for it. What Open MPI says of it takes its time to mpirun.
ENDS = """\
import os, time
from mpi4py import MPI
try:
    MPI.COMM_WORLD.Barrier()
except MPI.Exception:
    time.sleep(1)
    os._exit(1)
"""
BARRIER = ("PYTHON", "-c", ENDS)
FULL = (
    "for folder in RUN/tmp TMP; do mount -t tmpfs -o size=1m,nr_inodes=8 full $folder;"
    " dd if=/dev/zero of=$folder/file bs=4096 status=none; for n in 1 2 3 4 5 6 7 8; do : > $folder/$n; done; done; true"
)
#: As soon as what the launch and the look have started there is gone.
EMPTIED = "for folder in RUN/tmp TMP; do until umount $folder; do sleep 0.1; done; done"

#: Of a host that cannot be logged in to any more: what may run there cannot be ended.
LEFT_THERE = ("processes-left",)

#: Three at a time are made, each in a trio of its own.
BATCHES: dict[str, tuple[Fault, ...]] = {
    "way": (
        Fault("sshd ended after the preflight", "connect-refused", STOP, START, beside=LEFT_THERE),
        Fault(
            "port of sshd dropped by a firewall",
            "connect-timeout",
            "iptables -I INPUT -i eth0 -p tcp --dport PORT -j DROP",
            "iptables -F",
            options=HANGS,
            beside=LEFT_THERE,
        ),
        Fault(
            "host key changed",
            "host-key-changed",
            OTHER_SSHD,
            f"{STOP.replace('PID', '$(cat /tmp/other.pid)')}; rm -f /tmp/other*; {START}",
            beside=LEFT_THERE,
        ),
    ),
    "login": (
        Fault(
            "key not accepted any more",
            "ssh-auth-refused",
            "cp RUN/sshd/authorized_keys /tmp/keys; : > RUN/sshd/authorized_keys",
            "cp /tmp/keys RUN/sshd/authorized_keys",
            beside=LEFT_THERE,
        ),
        Fault(
            "too many logins at once (MaxStartups)",
            "ssh-max-startups",
            CROWD,
            f"kill $(cat /tmp/crowd); rm /tmp/crowd*; cp /tmp/config RUN/sshd/sshd_config; {RELOAD}",
            beside=LEFT_THERE,
        ),
        Fault(
            "account without a shell",
            "account-no-shell",
            "usermod -s /usr/sbin/nologin root",
            "usermod -s /bin/bash root",
            beside=LEFT_THERE,
        ),
    ),
    "daemon": (
        Fault("daemon not there", "daemon-missing", "mv BIN/DAEMON /root", "mv /root/DAEMON BIN"),
        Fault(
            "Open MPI in another place",
            "mpi-prefix-differs",
            "mkdir -p /opt/openmpi-site/bin; mv BIN/DAEMON /opt/openmpi-site/bin",
            "mv /opt/openmpi-site/bin/DAEMON BIN; rm -r /opt/openmpi-site",
        ),
        Fault("daemon without execute bit", "daemon-not-executable", "chmod -x BIN/DAEMON", "chmod +x BIN/DAEMON"),
    ),
    "libraries": (
        Fault(
            "library of the daemon not there",
            "daemon-library-missing",
            "mv LIBRARY /root/kept",
            "mv /root/kept LIBRARY",
        ),
        Fault(
            "callback dropped by the launcher's firewall",
            "callback-timeout",
            "ON-LAUNCHER iptables -I INPUT -s ADDRESS -p tcp --syn -j DROP",
            "ON-LAUNCHER iptables -F",
            options=HANGS,
        ),
        Fault(
            "control interface not there",
            "control-interface-missing",
            "ip link set net1 down; ip link set net1 name other; ip link set other up",
            "ip link set other down; ip link set other name net1; ip link set net1 up",
            options={"control_interface": "net1"},
            look={"data_interface": None},
        ),
    ),
    "hangs": (
        Fault(
            "rank that hangs", "silence-timeout", program=("sleep", "600"), options={"silence_timeout": 2}, host=False
        ),
        Fault(
            "rank that is stopped (SIGSTOP)",
            "rank-stopped",
            program=("bash", "-c", "[ $OMPI_COMM_WORLD_RANK = 2 ] && kill -STOP $$; exec sleep 600"),
            options={"silence_timeout": 2},
        ),
        Fault(
            "data network dropped by a firewall",
            "data-unreachable",
            "iptables -I INPUT -i net1 -j DROP",
            "iptables -F",
            program=BARRIER,
            options={"mca": {"btl_tcp_if_include": "net1"}, "silence_timeout": 3},
        ),
    ),
    "networks": (
        Fault(
            "interface of MPI's messages not there",
            "btl-interface-missing",
            "ip link set net1 down; ip link set net1 name other; ip link set other up",
            "ip link set other down; ip link set other name net1; ip link set net1 up",
            program=BARRIER,
            options={"mca": {"btl_tcp_if_include": "net1"}},
            look={"data_interface": None},
        ),
        Fault(
            "route back to the launcher that leads nowhere",
            "callback-unreachable",
            "ip link add nowhere type veth peer name end; ip link set end up; ip link set nowhere up; ip route add DATA/32 dev nowhere",
            "ip link del nowhere",
            options={"control_interface": "net1"},
            look={"data_interface": None},
        ),
        Fault(
            "another version of Open MPI",
            "mpi-version-differs",
            "cp LIBRARY /root/kept; sed -i --follow-symlinks 's/VERSION/OTHER/g' LIBRARY",
            "cp /root/kept LIBRARY",
            # Open MPI 4.1.4 works with one that has another number; 5.0 calls the host unknown, and hangs.
            options={"startup_timeout": 20},
            beside=("startup-timeout",),
            versions=("5.0",),
            host=False,
            stand_in="its files, with another number written into them",
        ),
    ),
    "room": (
        Fault(
            "/dev/shm full",
            "shm-full",
            "mount -o remount,size=20m /dev/shm; dd if=/dev/zero of=/dev/shm/left-over bs=1M status=none || true",
            "rm /dev/shm/left-over; mount -o remount,size=1g /dev/shm",
            # dd writes a message in pieces, between which mpirun may print another rank's; a program that fails has it whole.
            program=(
                "bash",
                "-c",
                'said=$(dd if=/dev/zero of=/dev/shm/rank bs=1M count=2 2>&1) && rm /dev/shm/rank || { echo "$said" >&2; exit 1; }',
            ),
        ),
        Fault("directory for temporary files full", "disk-full", FULL, EMPTIED, program=BARRIER),
        Fault(
            "directory for temporary files full",
            "disk-full",
            FULL,
            EMPTIED,
            program=BARRIER,
            where="the launcher",
        ),
    ),
    "ranks": (
        Fault(
            "rank that computes without end",
            "rank-spinning",
            f"mkdir -p /opt/trouble; echo {shlex.quote(SPINS)} > /opt/trouble/sitecustomize.py",
            "rm -r /opt/trouble",
            program=("env", "PYTHONPATH=/opt/trouble", *CPU_ARGV, *ENDLESS),
            options={"silence_timeout": 6, "files": CPU_FILES, "mca": {"mpi_yield_when_idle": "1"}},
            cut=True,
        ),
        Fault(
            "rank that never starts",
            "rank-not-started",
            "mv /usr/bin/uname /root; printf '#!/bin/sh\\nexec sleep 600\\n' > /usr/bin/uname; chmod +x /usr/bin/uname",
            "mv /root/uname /usr/bin",
            program=("sleep", "600"),
            options=HANGS,
        ),
        Fault(
            "rank that NCCL's RAS tells to be behind",
            "rank-behind",
            program=("PYTHON", "-c", _BOOTSTRAP, "RUN/mpi/files/ras_program.py", "json", "2:14:3"),
            options={"silence_timeout": 4, "files": RAS_FILES},
            stand_in="the ranks answer as those of NCCL do",
        ),
    ),
}
#: Settings of the user that do not fit: the id that is told, and whether the program has to use MPI.
SETTINGS: dict[str, tuple[str, dict[str, str]]] = {
    "program to log in with not there": ("launch-agent-missing", {"plm_rsh_agent": "/nonexistent"}),
    "transport that this Open MPI does not have": ("mca-component-missing", {"btl": "self,nosuch"}),
    "messages by a component that needs a network that is not there": ("mca-component-missing", {"pml": "cm"}),
    "interface of MPI's messages that no host has": ("btl-interface-missing", {"btl_tcp_if_include": "nosuch0"}),
    "no transport between hosts": ("mpi-unreachable", {"btl": "self"}),
}


class Mesh:
    """Trios of nodes that reach each other."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.run_dir = f"/run/gpufabric/{nodes.run_id}"
        self.five: dict[str, str] = {}
        self.connect()

    def connect(self) -> None:
        """Have them reach each other, or mend that."""
        hostfiles = {trio[0]: [{"name": self.nodes.addresses[name], "slots": 2} for name in trio] for trio in TRIOS}
        write = {
            "gpufabric.nccl.mpi_hostfile": {
                "run_id": self.nodes.run_id,
                "hosts": "{{ hostfiles[inventory_hostname] }}",
            },
            "when": "inventory_hostname in hostfiles",
        }
        roles = ["gpufabric.nccl.key_exchange"]
        play = {"hosts": "workers", "gather_facts": False, "roles": roles, "tasks": [write]}
        played = self.nodes.playbook([play], hostfiles=hostfiles)
        assert played.returncode == 0, played.output
        self.ports = {n: played.result(n, "gpufabric.nccl.sshd_instance")["port"] for n in self.nodes.names}

    def restart(self) -> None:
        """Start the nodes that were killed, and have all reach each other again."""
        self.nodes.restart()
        self.connect()

    def filled(self, argv: t.Iterable[str], version: str) -> list[str]:
        """The argv with the interpreter that has an mpi4py for the version, and the run's directory."""
        python = self.five["ansible_python_interpreter"] if version == "5.0" else "/usr/bin/python3"
        words = [re.sub(r"\bPYTHON\b", python, word) for word in argv]
        return [f"{self.run_dir}/{word[4:]}" if word.startswith("RUN/") else word for word in words]

    def shell(self, node: str, command: str, version: str = "4.1") -> str:
        """What a shell command on a node prints, with all capabilities."""
        trio = next(trio for trio in TRIOS if node in trio)
        five = version == "5.0"
        prefix = self.five["gpufabric_mpi_prefix"] if five else "/usr"
        folder = f"{prefix}/lib/openmpi" if five else "$(dirname /usr/lib/*/libopen-pal.so.40)"
        words = {
            "PORT": self.ports[node],
            "PID": f"$(cat {self.run_dir}/sshd/sshd.pid)",
            "ADDRESS": self.nodes.addresses[node],
            "RUN": self.run_dir,
            "BIN": f"{prefix}/bin",
            "DAEMON": "prted" if five else "orted",
            "LIBRARY": f"{folder}/{'libprrte.so.3' if five else 'libopen-rte.so.40'}",
            # The launcher's address on the data network.
            "DATA": self.nodes.addresses[trio[0]].replace("10.66.", "192.168."),
            # Of PRRTE, as it is in Open MPI 5.0.11.
            "VERSION": "3\\.0\\.14",
            "OTHER": "3.0.13",
            # A launcher needs its own for Ansible's modules.
            "TMP": "/tmp" if node != trio[0] else "",
        }
        on = trio[0] if command.startswith("ON-LAUNCHER ") else node
        command = command.replace("ON-LAUNCHER ", "")
        for word, value in words.items():
            command = command.replace(word, str(value))
        argv = [*PRIVILEGED, f"gpufabric-{self.nodes.run_id}-{on}", "bash", "-c", command]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def launch(
        self,
        calls: t.Mapping[str, t.Mapping[str, t.Any]],
        version: str,
        look_after: pathlib.Path | None = None,
        **keywords: t.Any,
    ) -> dict[str, list[list[dict[str, t.Any]]]]:
        """What is told of each point, by launcher; ``calls``: options of mpi_run, and ``look``, of mpi_preflight after it.

        A point may have a ``look`` of its own. ``look_after``: a file of this machine that the look waits for. ``keywords``: of
        the play.
        """
        prefix = {"mpi_prefix": self.five["gpufabric_mpi_prefix"]} if version == "5.0" else {}
        common = {"run_id": self.nodes.run_id, "control_interface": "eth0", **prefix}
        launches, looks, plans = {}, {}, {}
        for trio in TRIOS:
            if trio[0] not in calls:
                continue
            options = dict(calls[trio[0]])
            hosts = [{"name": name, "address": self.nodes.addresses[name]} for name in trio]
            look = {**common, "hosts": hosts, "level": "full", "data_interface": "net1", **options.pop("look", {})}
            own = [point.get("look", {}) for point in options["points"]]
            options["points"] = [
                {name: value for name, value in point.items() if name != "look"} for point in options["points"]
            ]
            launches[trio[0]] = {
                "ranks_per_node": 1,
                "show": "none",
                "timeout": 300,
                **common,
                **options,
            }
            look["control_interface"] = launches[trio[0]]["control_interface"]
            kinds = [{}, *(kind for kind in own if kind)]
            looks[trio[0]] = [
                {name: value for name, value in {**look, **kind}.items() if value is not None} for kind in kinds
            ]
            points = [{"env": {}, **point} for point in options["points"]]
            plans[trio[0]] = {"points": points, "hosts": hosts, "looks": [kinds.index(kind) for kind in own]}
        waiting = {"ansible.builtin.wait_for": {"path": str(look_after)}, "delegate_to": "localhost"}
        play = {
            "hosts": list(launches),
            "gather_facts": False,
            **keywords,
            "vars": {"launches": launches, "looks": looks, "plans": plans},
            "tasks": [
                {
                    "gpufabric.nccl.mpi_run": "{{ launches[inventory_hostname] }}",
                    "register": "ran",
                    "failed_when": "ran.points is not defined",
                },
                *([waiting] if look_after else []),
                {
                    "gpufabric.nccl.mpi_preflight": "{{ item }}",
                    "loop": "{{ looks[inventory_hostname] }}",
                    "when": "not ran.complete",
                },
            ],
        }
        played = self.nodes.playbook([play])
        assert played.returncode == 0, played.output
        self.played = played
        return {launcher: self._told(played, launcher, plans[launcher]) for launcher in launches}

    def _told(self, played: Played, launcher: str, plan: t.Mapping[str, t.Any]) -> list[list[dict[str, t.Any]]]:
        ran = played.result(launcher, "gpufabric.nccl.mpi_run")
        nothing = {"problems": [], "hosts": []}
        looked = [] if ran["complete"] else played.result(launcher, "gpufabric.nccl.mpi_preflight")["results"]
        told = []
        for number, kind in enumerate(plan["looks"]):
            look = looked[kind] if looked else nothing
            told.append(complete_results(plan, ran, look["problems"], look["hosts"])[number]["problems"])
        return told


class Told:
    """Keeps what is told, and in the end fails with all that was not as expected."""

    def __init__(self, faults: FaultMatrix) -> None:
        self._faults = faults
        self._failures: list[str] = []

    def fault(self, *arguments: t.Any, **options: t.Any) -> None:
        with self._catching():
            self._faults.fault(*arguments, **options)

    def healthy(self, *arguments: t.Any) -> None:
        with self._catching():
            self._faults.healthy(*arguments)

    @contextlib.contextmanager
    def _catching(self) -> t.Iterator[None]:
        try:
            yield
        except AssertionError as error:
            self._failures.append(str(error))

    def check(self) -> None:
        assert not self._failures, "\n\n".join(self._failures)


@pytest.fixture(scope="module")
def mesh(make_nodes: t.Callable[[int], Nodes]) -> Mesh:
    return Mesh(make_nodes(9))


@pytest.fixture
def told(faults: FaultMatrix) -> Told:
    """Keeps what is told."""
    return Told(faults)


@pytest.fixture
def version(request: pytest.FixtureRequest, mesh: Mesh) -> str:
    """A version of Open MPI, which is installed."""
    if request.param == "5.0":
        mesh.five = request.getfixturevalue("openmpi5")
    return request.param


#: Runs a test with each version of Open MPI.
each_version = pytest.mark.parametrize("version", VERSIONS, indirect=True)


def batches() -> t.Iterator[t.Any]:
    """Each batch and version. Those that are not slow have names and texts of their version alone."""
    for batch in BATCHES:
        for version in VERSIONS:
            marks = () if (batch, version) in (("daemon", "4.1"), ("libraries", "5.0")) else pytest.mark.slow
            yield pytest.param(batch, version, id=f"{batch}-{version}", marks=marks)


@pytest.mark.parametrize(("batch", "version"), list(batches()), indirect=["version"])
def test_faults_of_hosts(mesh, told, batch, version):
    told_by = f"mpi_run, Open MPI {version}"
    faults = {trio[0]: fault for trio, fault in zip(TRIOS, BATCHES[batch]) if version in fault.versions}
    node = {
        trio[0]: trio[0] if faults[trio[0]].where == "the launcher" else trio[2] for trio in TRIOS if trio[0] in faults
    }
    calls = {
        launcher: {
            "points": [{"name": "program", "argv": mesh.filled(fault.program, version)}],
            **fault.options,
            "look": fault.look,
        }
        for launcher, fault in faults.items()
    }
    with contextlib.ExitStack() as mending:
        for launcher, fault in faults.items():
            mending.callback(mesh.shell, node[launcher], fault.mend, version)
            mesh.shell(node[launcher], fault.make, version)
        problems = mesh.launch(calls, version)
    for launcher, fault in faults.items():
        host = node[launcher] if fault.host else None
        cut = [("output-cut", None, "warning")] if fault.cut else []
        told.fault(
            fault.what,
            problems[launcher][0],
            fault.problem,
            host,
            told_by,
            fault.where,
            beside=[*((identity, host, "warning") for identity in fault.beside), *cut],
            stand_in=fault.stand_in,
        )
    told.check()


#: What rank 2, on the worker, does while the others wait. Of one that ends before they have begun, mpirun does not say which it was.
ALONE = 'if [ "$OMPI_COMM_WORLD_RANK" = 2 ]; then sleep 1; {}; fi; exec sleep 600'
FOLDER = "/opt/faults"
#: Copies of a real program, one for each fault; on the worker ``make`` then breaks them.
COPIES = (
    f"mkdir -p {FOLDER}; cd {FOLDER}; for name in gone plain unlinked foreign; do cp /usr/bin/cp $name; done;"
    " [ -e waits ] || mkfifo waits"
)
BREAK = (
    f"cd {FOLDER}; rm gone; chmod -x plain; printf '\\267' | dd of=foreign bs=1 seek=18 conv=notrunc status=none;"
    " sed -i 's/libselinux\\.so\\.1/libnccl.so.2\\x00\\x00\\x00/' unlinked"
)
#: Arguments with which the copies wait, as ranks wait for those that do not come.
WAITS = (f"{FOLDER}/waits", "/dev/null")
SHRINKS = (
    "import mmap, os; f = open('/tmp/shrinks', 'w+b'); f.truncate(1 << 20); m = mmap.mmap(f.fileno(), 1 << 20);"
    " f.truncate(0); m[0]"
)


@dataclasses.dataclass(frozen=True)
class Broken:
    """A fault of a program itself: the id that is told, and what rank 2, or each rank, runs.

    ``own``: whether it is the worker's. ``program``: what the look has to look at, as that of the role does: mpirun does not
    always name the rank. ``stand_in``: what is not the real thing.
    """

    problem: str
    argv: tuple[str, ...]
    own: bool = True
    program: str | None = None
    stand_in: str = ""


def alone(text: str) -> tuple[str, ...]:
    return ("bash", "-c", ALONE.format(text))


def in_python(text: str) -> tuple[str, ...]:
    return alone(f"exec PYTHON -c {shlex.quote(text)}")


def copied(name: str) -> tuple[str, ...]:
    return (f"{FOLDER}/{name}", *WAITS)


PROGRAMS: dict[str, Broken] = {
    "program not there": Broken("program-missing", copied("gone"), program=f"{FOLDER}/gone"),
    "program without execute bit": Broken("program-not-executable", copied("plain"), program=f"{FOLDER}/plain"),
    "program whose libnccl.so.2 is not there": Broken(
        "program-library-missing", copied("unlinked"), program=f"{FOLDER}/unlinked"
    ),
    # A look would tell of a program for another processor that it differs, and no more.
    "program for another processor": Broken("program-wrong-machine", alone(f"exec {FOLDER}/foreign")),
    "rank killed (signal 9)": Broken("rank-killed", alone("kill -9 $$")),
    "rank told to end (signal 15)": Broken("rank-ended", alone("kill -15 $$")),
    "rank that touches memory that is not its own (signal 11)": Broken(
        "rank-crashed", in_python("import ctypes; ctypes.string_at(0)")
    ),
    "rank that calls abort (signal 6)": Broken("rank-crashed", in_python("import os; os.abort()")),
    "file that shrinks below the memory of a rank (signal 7)": Broken("rank-bus-error", in_python(SHRINKS)),
    "rank that calls MPI_Abort": Broken(
        "mpi-aborted",
        ("PYTHON", "-c", "from mpi4py import MPI; w = MPI.COMM_WORLD; w.rank == 2 and w.Abort(3); w.Barrier()"),
    ),
    "exception of a Python program": Broken("python-exception", in_python("import json; json.loads('{')")),
    "Python module not there": Broken("python-module-missing", in_python("import nosuchmodule")),
    "rank that ends with exit status 3 and no word": Broken("unknown", alone("exit 3")),
    "more files open than the limit": Broken(
        "files-low", alone("ulimit -n 8; exec PYTHON -c 'k = [open(\"/dev/null\") for n in range(9)]'")
    ),
    "more memory than the limit": Broken("host-memory", alone("ulimit -v 200000; exec PYTHON -c 'bytearray(1 << 30)'")),
    "program that prints nothing": Broken("output-unread", ("true",), own=False),
}


@pytest.mark.slow
@each_version
def test_programs_that_fail(mesh, told, version):
    calls = {}
    for index, trio in enumerate(TRIOS):
        points = [
            {
                "name": name,
                "argv": mesh.filled(broken.argv, version),
                **({"look": {"program": broken.program}} if broken.program else {}),
            }
            for name, broken in list(PROGRAMS.items())[index :: len(TRIOS)]
        ]
        calls[trio[0]] = {"points": points}
    try:
        for trio in TRIOS:
            for node in trio:
                mesh.shell(node, COPIES, version)
            mesh.shell(trio[2], BREAK, version)
        problems = mesh.launch(calls, version)
    finally:
        for trio in TRIOS:
            for node in trio:
                mesh.shell(node, f"rm -rf {FOLDER}", version)
    for trio in TRIOS:
        for point, found in zip(calls[trio[0]]["points"], problems[trio[0]]):
            broken = PROGRAMS[point["name"]]
            told.fault(
                point["name"],
                found,
                broken.problem,
                trio[2] if broken.own else None,
                f"mpi_run, Open MPI {version}",
                "a worker" if broken.own else "all hosts",
                stand_in=broken.stand_in,
            )
    told.check()


def freeze(mesh: Mesh, node: str, stopped: bool) -> None:
    """Stop all processes of a node, or have them go on: its kernel still takes connections, as that of a host that is overloaded."""
    for pid in processes_of(mesh.nodes, node).values():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGSTOP if stopped else signal.SIGCONT)


def kill(mesh: Mesh, node: str) -> None:
    """End a node at once, and for good; wait until its networks are gone too, up to then its kernel refuses connections."""
    name = f"gpufabric-{mesh.nodes.run_id}-{node}"
    subprocess.run(["podman", "kill", name], check=True, capture_output=True, timeout=60)
    exists = ["podman", "container", "exists", name]
    wait(lambda: subprocess.run(exists, check=False, capture_output=True, timeout=60).returncode == 1)


@pytest.mark.slow
@each_version
def test_settings_that_do_not_fit(mesh, told, version):
    """Wherever Open MPI says so first, no host is to blame for what all have."""
    names = list(SETTINGS)
    argv = mesh.filled(BARRIER, version)
    for index in range(0, len(names), len(TRIOS)):
        calls = {
            trio[0]: {"points": [{"name": name, "argv": argv}], "mca": SETTINGS[name][1]}
            for trio, name in zip(TRIOS, names[index:])
        }
        problems = mesh.launch(calls, version)
        for launcher, call in calls.items():
            name = call["points"][0]["name"]
            told.fault(
                name, problems[launcher][0], SETTINGS[name][0], None, f"mpi_run, Open MPI {version}", "all hosts"
            )
    told.check()


#: Of an image or a batch system. By itself, each keeps mpirun from running or has it take what there is none of.
LEFT = {
    "OMPI_MCA_btl": "openib",
    "OMPI_MCA_pml": "cm",
    "OMPI_MCA_plm_rsh_agent": "/nonexistent",
    "PRTE_MCA_plm_ssh_agent": "/nonexistent",
    "OMPI_MCA_btl_tcp_if_include": "nosuch0",
    "OMPI_MCA_oob_tcp_if_include": "nosuch0",
    "PRTE_MCA_prte_if_include": "nosuch0",
}
PARAMETERS = (
    "btl = openib\npml = cm\nplm_rsh_agent = /nonexistent\nbtl_tcp_if_include = nosuch0\noob_tcp_if_include = nosuch0\n"
)
#: What sounds like a failure and is none. What NCCL warns of is told of a run that passed, too.
CHATTER = """\
echo 'g1:4000:4100 [0] NCCL INFO Channel 00/0 : 0[10] -> 8[10] [send] via NET/IB/0 failed error timed out'
echo '[g1:4000] 3 more processes have sent help message help-mpi-btl-openib.txt / ib port not selected' >&2
echo 'WARNING: There was an error initializing an OpenFabrics device.' >&2
exec "$@"
"""


def cpu_points(mesh: Mesh, version: str) -> list[dict[str, t.Any]]:
    argv = mesh.filled(CPU_ARGV, version)
    sizes = ["-b", "8", "-e", "64", "-f", "2", "-g", "1", "-n", "2", "-w", "1", "-c", "1"]
    points = [{"name": name, "argv": [*argv, name, *sizes]} for name in ("all_reduce", "alltoall")]
    chatter = {"name": "chatter", "argv": ["bash", "-c", CHATTER, "bash", *argv, "all_gather", *sizes]}
    return [*points, {**points[0], "name": "two ranks", "ranks_per_node": 2}, chatter]


@pytest.mark.parametrize("version", [slow("4.1"), "5.0"], indirect=True)
def test_healthy_runs(mesh, told, version):
    told_by = f"mpi_run, Open MPI {version}"
    files = CPU_FILES
    points = cpu_points(mesh, version)
    for node in TRIOS[2]:
        mesh.nodes.shell(node, f"cat > /opt/cpu_perf.py <<'END'\n{files['cpu_perf.py']}END")
    argv = [word.replace(f"{mesh.run_dir}/mpi/files", "/opt") for word in points[0]["argv"]]
    alone = {"name": "alone", "argv": ["env", "-i", "PATH=/usr/bin:/bin", "HOME=/root", *argv]}
    calls = {trio[0]: {"points": points, "files": files} for trio in TRIOS[:2]}
    calls[TRIOS[2][0]] = {"points": [*points[:1], alone], "files": files}
    for node in TRIOS[1]:
        mesh.shell(
            node, f"mkdir -p /root/.openmpi; printf %s {shlex.quote(PARAMETERS)} > /root/.openmpi/mca-params.conf"
        )
    try:
        problems = mesh.launch(calls, version)
        contradicted = mesh.launch({TRIOS[0][0]: {"points": points[:1], "files": files}}, version, environment=LEFT)
    finally:
        for node in TRIOS[1]:
            mesh.shell(node, "rm -r /root/.openmpi")
    one, two = (problems[trio[0]] for trio in TRIOS[:2])
    told.healthy(
        "collectives one after the other, also with two ranks on each node", [*one[0], *one[1], *one[2]], told_by
    )
    told.healthy("program that prints warnings which are no failure", one[3], told_by)
    told.healthy("contradicting parameters in a file of Open MPI", [entry for found in two for entry in found], told_by)
    told.healthy("contradicting OMPI_MCA_* in the environment", contradicted[TRIOS[0][0]][0], told_by)
    found = problems[TRIOS[2][0]][1]
    told.fault("program that runs without MPI", found, "mpi-missing", None, told_by, "all hosts")
    told.check()


@pytest.mark.slow
def test_two_versions_of_open_mpi_4(mesh, told, openmpi4):
    """Ranks crash on the hosts that have the launcher's, or nothing is started."""
    told_by = "mpi_run, Open MPI 4.1"
    prefixes = {"4.1 of the system": "/usr", "4.1.8": openmpi4["gpufabric_mpi_prefix"]}
    (point, *_others) = cpu_points(mesh, "4.1")
    point["argv"][0] = openmpi4["ansible_python_interpreter"]
    options = {
        "points": [point],
        "files": {"cpu_perf.py": CPU_PROGRAM.read_text()},
        "mpi_prefix": "/opt/mpi",
        "look": {"mpi_prefix": "/opt/mpi"},
    }
    faults = {}
    try:
        for trio, (most, worker) in zip(TRIOS, (tuple(prefixes), tuple(prefixes)[::-1], ("4.1.8", "4.1.8"))):
            for node in trio:
                mesh.shell(node, f"ln -sfn {prefixes[worker if node == trio[2] else most]} /opt/mpi")
            faults[trio[0]] = (f"Open MPI {worker}, and the others have {most}", trio[2])
        problems = mesh.launch(dict.fromkeys(faults, options), "4.1")
    finally:
        for node in itertools.chain(*TRIOS):
            mesh.shell(node, "rm -f /opt/mpi")
    told.healthy("three nodes with Open MPI 4.1.8", problems[TRIOS[2][0]][0], told_by)
    for launcher in (TRIOS[0][0], TRIOS[1][0]):
        what, worker = faults[launcher]
        told.fault(what, problems[launcher][0], "mpi-version-differs", worker, told_by)
    told.check()


@dataclasses.dataclass(frozen=True)
class ByHand:
    """What is wrong with a command that a person types: the id that is told. ``host``: whom mpirun of each version names."""

    problem: str
    command: str
    host: t.Mapping[str, str | None] = dataclasses.field(default_factory=lambda: dict.fromkeys(VERSIONS))


BY_HAND = {
    "mpirun as root": ByHand(
        "run-as-root", "env -u OMPI_ALLOW_RUN_AS_ROOT -u OMPI_ALLOW_RUN_AS_ROOT_CONFIRM MPIRUN -n 1 true"
    ),
    "more ranks than slots": ByHand("not-enough-slots", "MPIRUN --allow-run-as-root --host localhost:2 -n 4 true"),
    "more ranks on a node than the mapping has": ByHand(
        "too-many-per-node", "MPIRUN --allow-run-as-root --host localhost:8 --map-by ppr:1:node -n 4 true"
    ),
    "option that mpirun does not know": ByHand("mpirun-option", "MPIRUN --allow-run-as-root --nosuch 1 true"),
    "hostfile not there": ByHand("hostfile-unreadable", "MPIRUN --allow-run-as-root --hostfile /nosuch -n 1 true"),
    "program not there": ByHand(
        "program-inaccessible", "MPIRUN --allow-run-as-root -n 1 /nosuch", {"4.1": "g1", "5.0": "g1"}
    ),
    # Open MPI 5.0 ends with 1 and says nothing at all.
    "directory to start in not there": ByHand(
        "working-directory-missing", "MPIRUN --allow-run-as-root --wdir /nosuch -n 1 true", {"4.1": "g1"}
    ),
}


@pytest.mark.slow
@each_version
def test_commands_by_hand(mesh, told, version):
    mpirun = f"{mesh.five['gpufabric_mpi_prefix'] if version == '5.0' else '/usr'}/bin/mpirun"
    for name, fault in BY_HAND.items():
        if version not in fault.host:
            continue
        done = mesh.nodes.shell("g1", fault.command.replace("MPIRUN", mpirun), check=False)
        assert done.returncode != 0, fault
        sources = [
            Source("launcher", text.splitlines(), name=key)
            for key, text in (("stderr", done.stderr), ("stdout", done.stdout))
        ]
        problems = [problem.as_dict() for problem in diagnose(sources, done.returncode, Facts(names={"g1": "g1"}))]
        told_by = f"the catalogue, of mpirun {version} by hand"
        told.fault(name, problems, fault.problem, fault.host[version], told_by, "the launcher")
    told.check()


#: It is silent only after the test has done what it does.
NOTED = (
    "bash",
    "-c",
    "touch /tmp/was-here; while [ $OMPI_COMM_WORLD_RANK = 0 ] && [ ! -e /tmp/acted ]; do echo waits; sleep 0.5; done;"
    " exec sleep 600",
)
#: Takes memory until there is none.
HUNGRY = (
    "PYTHON",
    "-c",
    "import os\nkept = []\nwhile os.environ['OMPI_COMM_WORLD_RANK'] == '2':\n    kept.append(b'x' * (1 << 24))",
)


@pytest.mark.slow
@each_version
def test_limits_of_a_host(mesh, told, version):
    """The kernel ends a rank, and lets no more processes be started."""
    memory, pids = TRIOS[0], TRIOS[1]
    with contextlib.ExitStack() as limits:
        for (*_others, node), controller, value in ((memory, "memory", str(128 << 20)), (pids, "pids", "3")):
            sshd = processes_of(mesh.nodes, node)[int(mesh.shell(node, "cat RUN/sshd/sshd.pid"))]
            limits.enter_context(limited(sshd, f"gpufabric-{mesh.nodes.run_id}-{node}", controller, value))
        problems = mesh.launch(
            {
                memory[0]: {"points": [{"name": "hungry", "argv": mesh.filled(HUNGRY, version)}]},
                pids[0]: {"points": [{"name": "program", "argv": ["true"]}]},
            },
            version,
        )
    told_by = f"mpi_run, Open MPI {version}"
    told.fault(
        "memory limit of the host's container (the kernel kills the rank)",
        problems[memory[0]][0],
        "rank-killed",
        memory[2],
        told_by,
        symptom=True,
    )
    # What is left there cannot be ended, for that takes a process, too.
    left = [("processes-left", pids[2], "warning")]
    told.fault("limit of processes reached", problems[pids[0]][0], "pids-low", pids[2], told_by, beside=left)
    told.check()


@pytest.mark.slow
@each_version
def test_nodes_that_are_lost_meanwhile(mesh, told, version, tmp_path):
    """A node is paused and another one killed, while a program runs on them."""
    frozen, killed = TRIOS[0], TRIOS[1]
    acted = tmp_path / "acted"

    def runs(launcher: str, worker: str) -> bool:
        # What an earlier run printed is there no more when this one touches its file.
        touched = mesh.nodes.shell(worker, "test -e /tmp/was-here", check=False)
        printed = f"{mesh.run_dir}/mpi/points/1/stderr"
        all_ranks = mesh.nodes.shell(launcher, f"[ $(grep -c gpufabric-rank {printed}) = 3 ]", check=False)
        return touched.returncode == all_ranks.returncode == 0

    def act() -> None:
        for launcher, _healthy, worker in (frozen, killed):
            wait(lambda launcher=launcher, worker=worker: runs(launcher, worker))
        freeze(mesh, frozen[2], True)
        kill(mesh, killed[2])
        # Until they have forgotten its address, neighbours wait for an answer; then their kernels know that there is none.
        mesh.shell(killed[0], "ip neigh flush dev eth0")
        for launcher in (frozen[0], killed[0]):
            mesh.nodes.shell(launcher, "touch /tmp/acted")
        acted.touch()

    calls = {
        trio[0]: {"points": [{"name": "program", "argv": list(NOTED)}], "silence_timeout": 8}
        for trio in (frozen, killed)
    }
    try:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            acting = pool.submit(act)
            problems = mesh.launch(calls, version, look_after=acted)
            acting.result()
    finally:
        freeze(mesh, frozen[2], False)
        mesh.restart()
        for node in itertools.chain(frozen, killed):
            mesh.nodes.shell(node, "rm -f /tmp/was-here /tmp/acted")
    for what, identity, (launcher, _healthy, worker) in (
        ("node that freezes while the program runs", "host-frozen", frozen),
        ("node that is lost while the program runs", "connect-unreachable", killed),
    ):
        # What is left there cannot be ended.
        left = [("processes-left", worker, "warning")]
        told_by = f"mpi_run, Open MPI {version}"
        told.fault(what, problems[launcher][0], identity, worker, told_by, beside=left)
    told.check()
