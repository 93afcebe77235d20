# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fault matrix of launches: mpirun and programs that really fail, with Open MPI 4.1 and 5.0, and what is told of them.

What is told is what the role nccl_benchmark tells: what mpi_run found, and what a look at the hosts found after a point failed.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
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
from conftest import ROOT, Nodes, Played
from fault_matrix import FaultMatrix
from outside import limited, processes_of

sys.path.insert(0, str(ROOT / "build" / "collections"))
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark import _BOOTSTRAP, complete_results
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis import Facts, Source, diagnose

CPU_PROGRAM = ROOT / "roles" / "nccl_benchmark" / "files" / "cpu_perf.py"
#: Each a launcher, a worker that nothing is wrong with, and the worker that has the fault.
TRIOS = (("g1", "g2", "g3"), ("g4", "g5", "g6"), ("g7", "g8", "g9"))
VERSIONS = ("4.1", "5.0")
#: Only a shell with all capabilities may change the firewall and mounts of a node.
PRIVILEGED = ("podman", "exec", "--privileged", "--user", "root")


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault of a host, as shell commands that make and mend it there; words in capitals are filled in by Mesh.words.

    ``program``: what is run, by default one that ends at once. ``options``: of mpi_run. ``look``: of the look after it.
    ``where``: the launcher has the fault instead of the worker. ``host``: False where it is nobody's. ``versions``: that it is
    made with.
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
    versions: tuple[str, ...] = VERSIONS


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
#: Of launches that do not end by themselves, and whose cause is there to be seen afterwards too.
HANGS = {"startup_timeout": 8}
#: Long enough to load mpi4py in, before which Open MPI says nothing of a network that it does not find.
SILENCE = 10
BARRIER = ("PYTHON", "-c", "from mpi4py import MPI; MPI.COMM_WORLD.Barrier()")
FULL = (
    "for folder in RUN/tmp TMP; do mount -t tmpfs -o size=1m,nr_inodes=8 full $folder;"
    " dd if=/dev/zero of=$folder/file bs=4096 status=none; for n in 1 2 3 4 5 6 7 8; do : > $folder/$n; done; done; true"
)
#: As soon as what the launch and the look have started there is gone.
EMPTIED = "for folder in RUN/tmp TMP; do until umount $folder; do sleep 0.1; done; done"

#: Three at a time are made, each in a trio of its own.
BATCHES: dict[str, tuple[Fault, ...]] = {
    "way": (
        Fault("sshd ended after the preflight", "connect-refused", STOP, START),
        Fault(
            "port of sshd dropped by a firewall",
            "connect-timeout",
            "iptables -I INPUT -i eth0 -p tcp --dport PORT -j DROP",
            "iptables -F",
            options=HANGS,
        ),
        Fault(
            "host key changed",
            "host-key-changed",
            OTHER_SSHD,
            f"{STOP.replace('PID', '$(cat /tmp/other.pid)')}; rm -f /tmp/other*; {START}",
        ),
    ),
    "login": (
        Fault(
            "key not accepted any more",
            "ssh-auth-refused",
            "cp RUN/sshd/authorized_keys /tmp/keys; : > RUN/sshd/authorized_keys",
            "cp /tmp/keys RUN/sshd/authorized_keys",
        ),
        Fault(
            "too many logins at once (MaxStartups)",
            "ssh-max-startups",
            CROWD,
            f"kill $(cat /tmp/crowd); rm /tmp/crowd*; cp /tmp/config RUN/sshd/sshd_config; {RELOAD}",
        ),
        Fault(
            "account without a shell",
            "account-no-shell",
            "usermod -s /usr/sbin/nologin root",
            "usermod -s /bin/bash root",
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
            "silence-timeout",
            program=("bash", "-c", "[ $OMPI_COMM_WORLD_RANK = 2 ] && kill -STOP $$; exec sleep 600"),
            options={"silence_timeout": 2},
            host=False,
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
            options={"mca": {"btl_tcp_if_include": "net1"}, "silence_timeout": SILENCE},
            look={"data_interface": None},
        ),
        Fault(
            "control interface that leads nowhere",
            "callback-unreachable",
            "ON-ALL ip link add nowhere type veth peer name end; ip link set end up; ip addr add 10.99.0.NUMBER/24 dev nowhere; ip link set nowhere up",
            "ON-ALL ip link del nowhere",
            options={"control_interface": "nowhere"},
        ),
        Fault(
            "another version of Open MPI (its files, with another number in them)",
            "mpi-version-differs",
            "cp LIBRARY /root/kept; sed -i --follow-symlinks 's/VERSION/OTHER/g' LIBRARY",
            "cp /root/kept LIBRARY",
            # Open MPI 4.1.4 works with one that has another number; 5.0 calls the host unknown, and hangs.
            options={"startup_timeout": 20},
            versions=("5.0",),
            host=False,
        ),
    ),
    "room": (
        Fault(
            "/dev/shm full",
            "shm-full",
            "mount -o remount,size=20m /dev/shm; dd if=/dev/zero of=/dev/shm/left-over bs=1M status=none || true",
            "rm /dev/shm/left-over; mount -o remount,size=1g /dev/shm",
            program=("bash", "-c", "dd if=/dev/zero of=/dev/shm/rank bs=1M count=2 && rm /dev/shm/rank"),
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
        for trio in TRIOS:
            hosts = [{"name": nodes.addresses[name], "slots": 2} for name in trio]
            written = nodes.module("mpi_hostfile", {"run_id": nodes.run_id, "hosts": hosts}, hosts=trio[0])
            assert not written["failed"], written

    def connect(self) -> None:
        """Have them reach each other, or mend that."""
        play = {"hosts": "workers", "gather_facts": False, "roles": ["gpufabric.nccl.key_exchange"]}
        played = self.nodes.playbook([play])
        assert played.returncode == 0, played.output
        self.ports = {n: played.result(n, "gpufabric.nccl.sshd_instance")["port"] for n in self.nodes.names}

    def filled(self, argv: t.Iterable[str], version: str) -> list[str]:
        """The argv with the interpreter that has an mpi4py for the version."""
        python = self.five["ansible_python_interpreter"] if version == "5.0" else "/usr/bin/python3"
        return [word.replace("PYTHON", python) for word in argv]

    def shell(self, node: str, command: str, version: str = "4.1") -> str:
        """What a shell command on a node prints, with all capabilities."""
        trio = next(trio for trio in TRIOS if node in trio)
        if command.startswith("ON-ALL "):
            return "".join(self.shell(name, command[len("ON-ALL ") :], version) for name in trio)
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
            "NUMBER": node[1:],
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

        ``look_after``: a file of this machine that the look waits for. ``keywords``: of the play.
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
            launches[trio[0]] = {
                "ranks_per_node": 1,
                "show": "none",
                "timeout": 300,
                **common,
                **options,
            }
            looks[trio[0]] = {name: value for name, value in look.items() if value is not None}
            looks[trio[0]]["control_interface"] = launches[trio[0]]["control_interface"]
            points = [{"env": {}, **point} for point in options["points"]]
            plans[trio[0]] = {"points": points, "hosts": hosts}
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
                    "gpufabric.nccl.mpi_preflight": "{{ looks[inventory_hostname] }}",
                    "register": "looked",
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
        found = [] if ran["complete"] else played.result(launcher, "gpufabric.nccl.mpi_preflight")["problems"]
        return [document["problems"] for document in complete_results(plan, ran, found)]


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


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest, mesh: Mesh) -> str:
    if request.param == "5.0":
        mesh.five = request.getfixturevalue("openmpi5")
    return request.param


@pytest.mark.parametrize("batch", BATCHES)
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
        told.fault(fault.what, problems[launcher][0], fault.problem, host, told_by, fault.where)
    told.check()


#: What rank 2, on the worker, does while the others wait. Of one that ends before they have begun, mpirun may not say which it was.
ALONE = 'if [ "$OMPI_COMM_WORLD_RANK" = 2 ]; then sleep 1; {}; fi; exec sleep 600'
#: How mpirun of either version names rank 2.
NAMED = re.compile(r"(?<!gpufabric-)rank 2\b|,1\],2\]|@1,2\]")
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
#: As nccl-tests prints it, for -b x.
REFUSED = "echo \"invalid size specified for 'minbytes'\" >&2; exit 255"
SHRINKS = (
    "import mmap, os; f = open('/tmp/shrinks', 'w+b'); f.truncate(1 << 20); m = mmap.mmap(f.fileno(), 1 << 20);"
    " f.truncate(0); m[0]"
)


def in_python(text: str) -> str:
    return ALONE.format(f"exec PYTHON -c {shlex.quote(text)}")


#: Faults of a program itself: the id that is told, whether of the worker, and what rank 2, or each rank, runs.
PROGRAMS: dict[str, tuple[str, bool, list[str]]] = {
    "program not there": ("program-missing", True, [f"{FOLDER}/gone", *WAITS]),
    "program without execute bit": ("program-not-executable", True, [f"{FOLDER}/plain", *WAITS]),
    "program whose libnccl.so.2 is not there": ("program-library-missing", True, [f"{FOLDER}/unlinked", *WAITS]),
    "program for another processor": ("program-wrong-machine", True, [f"{FOLDER}/foreign", *WAITS]),
    "argument that nccl-tests refuses (a stand-in prints its message)": (
        "test-argument",
        False,
        ["bash", "-c", REFUSED],
    ),
    "rank killed (signal 9)": ("rank-killed", True, ["bash", "-c", ALONE.format("kill -9 $$")]),
    "rank told to end (signal 15)": ("rank-ended", True, ["bash", "-c", ALONE.format("kill -15 $$")]),
    "rank that touches memory that is not its own (signal 11)": (
        "rank-crashed",
        True,
        ["bash", "-c", in_python("import ctypes; ctypes.string_at(0)")],
    ),
    "rank that calls abort (signal 6)": ("rank-crashed", True, ["bash", "-c", in_python("import os; os.abort()")]),
    "file that shrinks below the memory of a rank (signal 7)": (
        "rank-bus-error",
        True,
        ["bash", "-c", in_python(SHRINKS)],
    ),
    "rank that calls MPI_Abort": (
        "mpi-aborted",
        True,
        ["PYTHON", "-c", "from mpi4py import MPI; w = MPI.COMM_WORLD; w.rank == 2 and w.Abort(3); w.Barrier()"],
    ),
    "exception of a Python program": (
        "python-exception",
        True,
        ["bash", "-c", in_python("import json; json.loads('{')")],
    ),
    "Python module not there": ("python-module-missing", True, ["bash", "-c", in_python("import nosuchmodule")]),
    "rank that ends with exit status 3 and no word": ("unknown", True, ["bash", "-c", ALONE.format("exit 3")]),
    "more files open than the limit": (
        "files-low",
        True,
        ["bash", "-c", ALONE.format("ulimit -n 8; exec PYTHON -c 'k = [open(\"/dev/null\") for n in range(9)]'")],
    ),
    "more memory than the limit": (
        "host-memory",
        True,
        ["bash", "-c", ALONE.format("ulimit -v 200000; exec PYTHON -c 'bytearray(1 << 30)'")],
    ),
    "program that prints nothing": ("output-unread", False, ["true"]),
}


def test_programs_that_fail(mesh, told, version):
    for trio in TRIOS:
        for node in trio:
            mesh.shell(node, COPIES, version)
        mesh.shell(trio[2], BREAK, version)
    names = list(PROGRAMS)
    calls = {}
    for index, trio in enumerate(TRIOS):
        points = [
            {"name": name, "argv": mesh.filled(PROGRAMS[name][2], version)} for name in names[index :: len(TRIOS)]
        ]
        calls[trio[0]] = {"points": points}
    problems = mesh.launch(calls, version)
    for trio in TRIOS:
        for number, (point, found) in enumerate(zip(calls[trio[0]]["points"], problems[trio[0]]), 1):
            identity, own, _argv = PROGRAMS[point["name"]]
            host = trio[2] if own else None
            said = mesh.shell(trio[0], f"cat RUN/mpi/points/{number}/stderr")
            unnamed = identity.startswith("program-") or not NAMED.search(said)
            if unnamed and all(entry["host"] is None for entry in found):
                # mpirun does not always say which rank it was; of a program, the role's look at it does.
                host = None
            told.fault(
                point["name"], found, identity, host, f"mpi_run, Open MPI {version}", "a worker" if own else "all hosts"
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


def test_settings_that_do_not_fit(mesh, told, version):
    names = list(SETTINGS)
    argv = mesh.filled(BARRIER, version)
    for index in range(0, len(names), len(TRIOS)):
        calls = {
            trio[0]: {"points": [{"name": name, "argv": argv}], "mca": SETTINGS[name][1], "silence_timeout": SILENCE}
            for trio, name in zip(TRIOS, names[index:])
        }
        problems = mesh.launch(calls, version)
        for launcher, call in calls.items():
            name = call["points"][0]["name"]
            ids = {problem["id"] for problem in problems[launcher][0]}
            host = problems[launcher][0][0]["host"] if problems[launcher][0] else None
            print(version, name, ids, host)
            told.fault(
                name, problems[launcher][0], SETTINGS[name][0], host, f"mpi_run, Open MPI {version}", "all hosts"
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
#: What sounds like a failure and is none.
CHATTER = """\
echo 'g1:4000:4100 [0] NCCL INFO Channel 00/0 : 0[10] -> 8[10] [send] via NET/IB/0 failed error timed out'
echo 'g1:4000:4100 [0] NCCL WARN NET/IB : Unable to open device mlx5_7' >&2
echo '[g1:4000] 3 more processes have sent help message help-mpi-btl-openib.txt / ib port not selected' >&2
echo 'WARNING: There was an error initializing an OpenFabrics device.' >&2
exec "$@"
"""


def cpu_points(mesh: Mesh, version: str) -> list[dict[str, t.Any]]:
    program = f"{mesh.run_dir}/mpi/files/cpu_perf.py"
    argv = [*mesh.filled(["PYTHON", "-c", _BOOTSTRAP], version), program]
    sizes = ["-b", "8", "-e", "64", "-f", "2", "-g", "1", "-n", "2", "-w", "1", "-c", "1"]
    points = [{"name": name, "argv": [*argv, name, *sizes]} for name in ("all_reduce", "alltoall")]
    chatter = {"name": "chatter", "argv": ["bash", "-c", CHATTER, "bash", *argv, "all_gather", *sizes]}
    return [*points, {**points[0], "name": "two ranks", "ranks_per_node": 2}, chatter]


def test_healthy_runs(mesh, told, version):
    told_by = f"mpi_run, Open MPI {version}"
    files = {"cpu_perf.py": CPU_PROGRAM.read_text()}
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
    told.fault("program that runs without MPI", problems[TRIOS[2][0]][1], "mpi-missing", None, told_by, "all hosts")
    told.check()


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
    for trio, (most, worker) in zip(TRIOS, (tuple(prefixes), tuple(prefixes)[::-1], ("4.1.8", "4.1.8"))):
        for node in trio:
            mesh.shell(node, f"ln -sfn {prefixes[worker if node == trio[2] else most]} /opt/mpi")
        faults[trio[0]] = (f"Open MPI {worker}, and the others have {most}", trio[2])
    problems = mesh.launch(dict.fromkeys(faults, options), "4.1")
    told.healthy("three nodes with Open MPI 4.1.8", problems[TRIOS[2][0]][0], told_by)
    for launcher in (TRIOS[0][0], TRIOS[1][0]):
        what, worker = faults[launcher]
        told.fault(what, problems[launcher][0], "mpi-version-differs", worker, told_by)
    told.check()


#: What is wrong with a command that a person types: the id that is told.
BY_HAND = {
    "mpirun as root": (
        "run-as-root",
        "env -u OMPI_ALLOW_RUN_AS_ROOT -u OMPI_ALLOW_RUN_AS_ROOT_CONFIRM MPIRUN -n 1 true",
    ),
    "more ranks than slots": ("not-enough-slots", "MPIRUN --allow-run-as-root --host localhost:2 -n 4 true"),
    "more ranks on a node than the mapping has": (
        "too-many-per-node",
        "MPIRUN --allow-run-as-root --host localhost:8 --map-by ppr:1:node -n 4 true",
    ),
    "option that mpirun does not know": ("mpirun-option", "MPIRUN --allow-run-as-root --nosuch 1 true"),
    "hostfile not there": ("hostfile-unreadable", "MPIRUN --allow-run-as-root --hostfile /nosuch -n 1 true"),
    "program not there": ("program-inaccessible", "MPIRUN --allow-run-as-root -n 1 /nosuch"),
    "directory to start in not there": (
        "working-directory-missing",
        "MPIRUN --allow-run-as-root --wdir /nosuch -n 1 true",
    ),
}


def test_commands_by_hand(mesh, told, version):
    mpirun = f"{mesh.five['gpufabric_mpi_prefix'] if version == '5.0' else '/usr'}/bin/mpirun"
    for name, (identity, command) in BY_HAND.items():
        if version == "5.0" and identity == "working-directory-missing":
            # It ends with 1 and says nothing at all.
            continue
        done = mesh.nodes.shell("g1", command.replace("MPIRUN", mpirun), check=False)
        assert done.returncode != 0, command
        sources = [
            Source("launcher", text.splitlines(), name=key)
            for key, text in (("stderr", done.stderr), ("stdout", done.stdout))
        ]
        problems = [problem.as_dict() for problem in diagnose(sources, done.returncode, Facts(names={"g1": "g1"}))]
        host = problems[0]["host"] if problems else None
        assert host in (None, "g1", "localhost")
        told.fault(name, problems, identity, host, f"the catalogue, of mpirun {version} by hand", "the launcher")
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
    )
    told.fault("limit of processes reached", problems[pids[0]][0], "pids-low", pids[2], told_by)
    told.check()


def lost_meanwhile(mesh: Mesh, told: Told, version: str, actions: t.Mapping[str, str], directory: pathlib.Path) -> None:
    """Have nodes paused or killed, by launcher, while a program runs on them. ``directory``: an empty one."""
    workers = {trio[0]: trio[2] for trio in TRIOS if trio[0] in actions}
    acted = directory / "acted"

    def runs(launcher: str) -> bool:
        # What an earlier run printed is there no more when this one touches its file.
        touched = mesh.nodes.shell(workers[launcher], "test -e /tmp/was-here", check=False)
        printed = f"{mesh.run_dir}/mpi/points/1/stderr"
        all_ranks = mesh.nodes.shell(launcher, f"[ $(grep -c gpufabric-rank {printed}) = 3 ]", check=False)
        return touched.returncode == all_ranks.returncode == 0

    def act() -> None:
        for launcher, action in actions.items():
            wait(lambda launcher=launcher: runs(launcher))
            if action == "kill":
                kill(mesh, workers[launcher])
            else:
                freeze(mesh, workers[launcher], True)
            mesh.nodes.shell(launcher, "touch /tmp/acted")
        acted.touch()

    with concurrent.futures.ThreadPoolExecutor() as pool:
        acting = pool.submit(act)
        options = {"points": [{"name": "program", "argv": list(NOTED)}], "silence_timeout": 8}
        problems = mesh.launch(dict.fromkeys(actions, options), version, look_after=acted)
        acting.result()
    acted.unlink()
    for launcher, action in actions.items():
        worker = workers[launcher]
        what, identity = {
            "freeze": ("node that freezes while the program runs", "ssh-banner-timeout"),
            "kill": ("node that is lost while the program runs", "connect-timeout"),
        }[action]
        if action == "kill" and any(entry["id"] == "connect-unreachable" for entry in problems[launcher][0]):
            # Where the neighbours have forgotten its address already.
            identity = "connect-unreachable"
        told.fault(what, problems[launcher][0], identity, worker, f"mpi_run, Open MPI {version}")
        if action == "freeze":
            freeze(mesh, worker, False)
    for trio in TRIOS:
        for node in trio:
            mesh.nodes.shell(node, "rm -f /tmp/was-here /tmp/acted", check=False)


def test_nodes_that_are_lost_meanwhile(mesh, told, openmpi5, tmp_path):
    """The last test: the nodes that are killed do not come back."""
    mesh.five = openmpi5
    lost_meanwhile(mesh, told, "4.1", {TRIOS[0][0]: "freeze", TRIOS[1][0]: "kill"}, tmp_path)
    lost_meanwhile(mesh, told, "5.0", {TRIOS[0][0]: "freeze", TRIOS[2][0]: "kill"}, tmp_path)
    told.check()
