# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Real nodes for the tests: containers of this machine's own file system, reached by ssh, as bare metal is."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import itertools
import json
import os
import pathlib
import re
import shlex
import signal
import stat
import subprocess
import typing as t

import events
import groups
import pytest
import yaml
from background import end
from fault_matrix import LOCAL_NODES, FaultMatrix, begun, counts, passed, read_tests

ROOT = pathlib.Path(__file__).parents[2]
FAULTS = ROOT / "build" / "faults"

#: Tasks with these actions run on the controller and cost a worker nothing.
CONTROLLER_ACTIONS = {
    "ansible.builtin.add_host",
    "ansible.builtin.assert",
    "ansible.builtin.fail",
    "ansible.builtin.import_tasks",
    "ansible.builtin.include_role",
    "ansible.builtin.include_tasks",
    "ansible.builtin.set_fact",
    "ansible.builtin.set_stats",
    # Of roles that are included: Ansible's own look at their variables.
    "ansible.builtin.validate_argument_spec",
    "gpufabric.nccl.benchmark_plan",
    "gpufabric.nccl.benchmark_results",
    "gpufabric.nccl.check_variables",
    "gpufabric.nccl.collect_peers",
    "gpufabric.nccl.display_text",
    "gpufabric.nccl.fail_with_problems",
    "gpufabric.nccl.isolation_step",
    "gpufabric.nccl.mpijob_plan",
    "gpufabric.nccl.nccl_tests_step",
    "gpufabric.nccl.preflight_step",
    "gpufabric.nccl.report_folder",
    "gpufabric.nccl.report_plan",
    "gpufabric.nccl.run_claim",
    "gpufabric.nccl.worker_pods_plan",
}

#: Files whose tests take longest: begun last, they would be waited for alone.
LONGEST = ("test_faults_launch.py", "test_isolate.py", "test_playbooks.py", "test_preflight.py", "test_sweep.py")

#: The exit status of a script of the repository if an index, a mirror or this machine does not have what it is to install.
NOT_TO_BE_HAD = 75

#: Whether nodes are left for the next run of tests that is to keep them too.
KEEP = bool(os.environ.get("KEEP"))

#: What Ansible's own logins leave on a node.
_OF_ANSIBLE = re.compile(r"/\.ansible[/ ]|/var/log/(wtmp|lastlog) ")


@dataclasses.dataclass
class Played:
    """What came of an ansible-playbook command. ``records``: as the callback ``record`` writes them; ``started``: the host and name of each
    task that cost the controller a process.
    """

    returncode: int
    output: str
    records: list[dict[str, t.Any]]
    started: list[tuple[str, str]] = dataclasses.field(default_factory=list)

    def result(self, host: str | None = None, action: str | None = None) -> dict[str, t.Any]:
        """The last result of a host and an action."""
        found = [
            record["result"]
            for record in self.records
            if host in (None, record["host"]) and action in (None, record["action"])
        ]
        assert found, self.output
        return found[-1]

    def executions(self, host: str) -> list[str]:
        """The tasks that ran something on a host."""
        return [
            record["task"]
            for record in self.records
            if record["host"] == host and record["action"] not in CONTROLLER_ACTIONS
        ]

    def tasks(self, host: str) -> list[str]:
        """The tasks that cost the controller a process for a host, whether anything ran there or not."""
        return [task for started, task in self.started if started == host]

    def changed(self) -> list[str]:
        """The tasks that changed something, each as ``HOST: TASK``."""
        return [f"{record['host']}: {record['task']}" for record in self.records if record["result"].get("changed")]


class Player:
    """Runs playbooks and modules from the working tree."""

    def __init__(self, directory: pathlib.Path, seconds: float = 600) -> None:
        """``seconds``: a play that takes longer is ended, and the test fails."""
        self._directory = directory
        self._seconds = seconds
        self._environment: t.Mapping[str, str] = {}
        self._numbers = itertools.count()

    def within(self, environment: t.Mapping[str, str], seconds: float | None = None) -> Player:
        """The same with other environment variables, and another limit of time if it is given."""
        player = copy.copy(self)
        player._environment = environment
        player._seconds = self._seconds if seconds is None else seconds
        return player

    def playbook(self, playbook: str | list[dict], *arguments: str, **variables: t.Any) -> Played:
        """Run a playbook, by its name or as data."""
        number = next(self._numbers)
        if not isinstance(playbook, str):
            path = self._directory / f"{number}.yml"
            path.write_text(yaml.safe_dump(playbook, sort_keys=False))
            playbook = str(path)
        record = self._directory / f"{number}.jsonl"
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_CALLBACK_PLUGINS": str(pathlib.Path(__file__).parent / "callback_plugins"),
            "ANSIBLE_CALLBACKS_ENABLED": "record",
            "ANSIBLE_NOCOLOR": "1",
            "GPUFABRIC_RECORD": str(record),
            **self._environment,
        }
        process = subprocess.Popen(
            ["ansible-playbook", playbook, *arguments, "-e", json.dumps(variables)],
            cwd=self._directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            output, _nothing = process.communicate(timeout=self._seconds)
        except BaseException as error:
            end(process, f"GPUFABRIC_RECORD={record}")
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            play = f"{playbook} {shlex.join(arguments)}: {yaml.safe_dump(variables)}"
            pytest.fail(f"a play has not ended after {self._seconds:g} s: {play}\n{process.communicate()[0]}")
        # Ansible only warns of it, and a test that nothing was done would pass without what was lost.
        lost = re.search(r"(?:Callback dispatch|Failure using method) .{0,200}\brecord\b", " ".join(output.split()))
        assert lost is None, output
        lines = record.read_text().splitlines() if record.exists() else []
        entries = [json.loads(line) for line in lines]
        started = [(entry["started"], entry["task"]) for entry in entries if "started" in entry]
        return Played(process.returncode, output, [entry for entry in entries if "result" in entry], started)


class Nodes:
    """Nodes that run. ``addresses``: on the control network, by name."""

    def __init__(self, player: Player, group: groups.Group, nodes: t.Sequence[groups.Node], keep: bool = False) -> None:
        self._player = player
        self._group: groups.Group | None = group
        self._keep = keep
        self.run_id = group.run_id
        self.names = [node.name for node in nodes]
        self.addresses = {node.name: node.control_address for node in nodes}
        self.inventory = group.inventory

    def remove(self) -> None:
        """Remove the nodes, if that has not been done, or leave them where they are to be kept."""
        if self._group is not None:
            self._group.release(self._keep)
            self._group = None

    def restart(self) -> None:
        """Start the nodes that have ended, as they were at first."""
        assert self._group is not None, "the nodes are removed"
        self._group.start(len(self.names))

    def within(self, environment: t.Mapping[str, str]) -> Nodes:
        """The same, for plays with other environment variables."""
        nodes = copy.copy(self)
        nodes._player = self._player.within(environment)
        return nodes

    def shell(
        self, node: str, command: str, check: bool = True, user: str = "root"
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command in a node, without Ansible."""
        argv = ["podman", "exec", "--user", user, f"gpufabric-{self.run_id}-{node}", "bash", "-c", command]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
        assert not check or done.returncode == 0, f"{shlex.join(argv)}: {done.stdout}{done.stderr}"
        return done

    def playbook(self, playbook: str | list[dict], *arguments: str, **variables: t.Any) -> Played:
        """Run a playbook on the nodes."""
        return self._player.playbook(playbook, "-i", self.inventory, *arguments, **variables)

    def benchmark(self, report_dir: pathlib.Path, *arguments: str, **variables: t.Any) -> Played:
        """Run the playbook bare_metal over the nodes, with few and small sizes.

        Its results go to a directory of this machine, as JSON alone: a report with its figures takes seconds to draw.
        """
        small = {
            "nccl_benchmark_max_bytes": "64K",
            "nccl_benchmark_step_factor": 8,
            "nccl_benchmark_iterations": 3,
            "report_dir": str(report_dir),
            "report_formats": ["json"],
        }
        return self.playbook("gpufabric.nccl.bare_metal", *arguments, **{**small, **variables})

    def modules(
        self, calls: list[tuple[str, dict]], *options: str, hosts: str = "g1", **keywords: t.Any
    ) -> list[dict[str, t.Any]]:
        """Run modules on one node, one after the other, also where one fails; the result of each.

        A name with a dot is a module of another collection. ``keywords``: of the play, such as become.
        """
        return self._tasks([_task(name, arguments) for name, arguments in calls], *options, hosts=hosts, **keywords)

    def module(
        self, name: str, arguments: dict, *options: str, hosts: str = "g1", **keywords: t.Any
    ) -> dict[str, t.Any]:
        """Run one module on one node; its result."""
        return self.modules([(name, arguments)], *options, hosts=hosts, **keywords)[0]

    def predicted(self, calls: list[tuple[str, dict]], hosts: str = "g1", **keywords: t.Any) -> list[dict[str, t.Any]]:
        """Run each call in check mode and twice for real; the result of each first real run.

        Fails unless the check says what the run after it does, and the second run changes nothing.
        """
        modes = (True, False, False)
        tasks = [{**_task(name, arguments), "check_mode": mode} for name, arguments in calls for mode in modes]
        results = self._tasks(tasks, "--diff", hosts=hosts, **keywords)
        real = []
        for index, call in enumerate(calls):
            check, run, again = results[index * len(modes) : (index + 1) * len(modes)]
            assert not run["failed"], (call, run)
            assert check["changed"] == run["changed"], (call, check, run)
            assert check["diff"] == run["diff"], (call, check, run)
            assert not again["failed"] and not again["changed"], (call, check, run, again)
            real.append(run)
        return real

    def state(self, node: str) -> set[str]:
        """What runs on a node, listens there and was written there, but for Ansible's own connection."""
        looks = (
            "ps -e -o pid=,ppid=,state=,args=",
            "ss -Hlntu",
            r"find /run /tmp /dev/shm -xdev -printf '%p %M %s\n'",
            "cat /proc/self/mountinfo",
        )
        seen = self.shell(node, "; echo =====; ".join(looks)).stdout.split("=====\n")
        processes, listeners, files, mounts = (text.splitlines() for text in seen)
        rows = [line.split(None, 3) for line in processes]
        parents = {pid: parent for pid, parent, _state, _command in rows}
        system = next(
            pid for pid, parent, _state, command in rows if parent == "1" and "/etc/local-node/sshd_config" in command
        )

        def counts(pid: str) -> bool:
            parent = parents.get(pid, "0")
            return pid in ("1", system) or (parent not in ("0", system) and counts(parent))

        # The root file system is this machine's: only what the node wrote over it is the node's own.
        written = next(found[1] for found in map(re.compile(r" / / .*upperdir=([^ ,]+)").search, mounts) if found)
        for path in pathlib.Path(written).rglob("*"):
            name, status = f"/{path.relative_to(written)}", path.lstat()
            # To look into a directory may be enough for the node to have a copy of it.
            if not stat.S_ISDIR(status.st_mode) or not os.path.isdir(name):
                files.append(f"{name} {stat.filemode(status.st_mode)} {status.st_size}")
        return {
            # One that has ended and waits for its parent to know does not run.
            *(f"process {pid} {command}" for pid, _parent, state, command in rows if counts(pid) and state != "Z"),
            *(f"listener {' '.join(line.split())}" for line in listeners),
            *(f"file {line}" for line in files if not _OF_ANSIBLE.search(line)),
        }

    def _tasks(self, tasks: list[dict], *options: str, hosts: str, **keywords: t.Any) -> list[dict[str, t.Any]]:
        played = self.playbook([{"hosts": hosts, "gather_facts": False, **keywords, "tasks": tasks}], *options)
        assert len(played.records) == len(tasks), played.output
        return [record["result"] for record in played.records]


def _task(name: str, arguments: dict | str) -> dict[str, t.Any]:
    return {name if "." in name else f"gpufabric.nccl.{name}": arguments, "ignore_errors": True}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slow",
        default="all",
        metavar="all|none|I/N",
        help="which tests that are marked slow to run: I/N is the I-th of N parts",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Whoever ends a run by SIGTERM, such as CI at its limit, wants it to remove what it made, as Ctrl-C does."""

    def interrupt(number: int, _frame: t.Any) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    slow_part(config)
    events.register(config)


def pytest_unconfigure() -> None:
    """Remove what workers left that did not get to it."""
    if "PYTEST_XDIST_WORKER" not in os.environ and not KEEP:
        groups.sweep()


def slow_part(config: pytest.Config) -> tuple[int, int]:
    """Which part of the slow tests is to be run, the first is 0, and of how many parts."""
    value = config.getoption("--slow")
    if value in ("all", "none"):
        return (0, 1) if value == "all" else (0, 0)
    found = re.fullmatch(r"([0-9]+)/([0-9]+)", value)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise pytest.UsageError(f"--slow: '{value}' is not allowed; allowed: all, none, or 1/6 to 6/6 and the like")
    return int(found[1]) - 1, int(found[2])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the slow tests that are not to be run. Parts are neighbours, which share nodes, and all in all everything.

    Of what rotates, each part has one: a case of a test, or a test of those whose marks have one name.
    """
    part, parts = slow_part(config)
    rotating: dict[str, list[pytest.Item]] = {}
    for item in items:
        mark = item.get_closest_marker("rotating")
        if mark:
            rotating.setdefault("".join(mark.args) or item.nodeid.partition("[")[0], []).append(item)
    slow = [item for item in items if item.get_closest_marker("slow")]
    chosen = slow[part * len(slow) // parts : (part + 1) * len(slow) // parts] if parts else []
    for cases in rotating.values():
        chosen += (cases if parts == 1 else [cases[part % len(cases)]]) if parts else []
    left_out = set(slow).union(*rotating.values()) - set(chosen)
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.fixture(scope="session")
def faults() -> FaultMatrix:
    """Keeps what is told of faults that are made on local nodes."""
    return FaultMatrix(FAULTS, LOCAL_NODES)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin the test's records of faults anew."""
    begun(FAULTS, item.nodeid)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> t.Iterator[None]:
    """Know of a test that passed that it recorded all its faults."""
    outcome = yield
    report = outcome.get_result()
    if report.when == "call" and report.passed:
        passed(FAULTS, item.nodeid, item.path)


def pytest_terminal_summary(terminalreporter: t.Any) -> None:
    """Say what became of the faults of this run. Records of earlier runs, or of other tests, may lie beside them."""
    reports = itertools.chain(*terminalreporter.stats.values())
    ran = {report.nodeid for report in reports if isinstance(report, pytest.TestReport)}
    records = [record for test in read_tests(FAULTS) if test["test"] in ran for record in test["records"]]
    if records:
        terminalreporter.write_line(f"fault matrix: {counts(records)}")


@pytest.fixture(scope="session")
def player(tmp_path_factory: pytest.TempPathFactory) -> Player:
    """Runs playbooks."""
    return Player(tmp_path_factory.mktemp("plays"))


@pytest.fixture
def told(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[[], str]:
    """What the plays of this test have shown so far, also while they go on."""
    log = tmp_path / "ansible.log"
    log.touch()
    monkeypatch.setenv("ANSIBLE_LOG_PATH", str(log))
    return log.read_text


@pytest.fixture(scope="session")
def make_nodes(player: Player) -> t.Iterator[t.Callable[[int], Nodes]]:
    """Starts nodes; all that the tests did not remove are removed at the end, however the tests end."""
    if not KEEP:
        groups.sweep()
    made: list[Nodes] = []

    def start(count: int) -> Nodes:
        group = groups.claim(KEEP)
        made.append(Nodes(player, group, group.start(count), KEEP))
        return made[-1]

    yield start
    with contextlib.ExitStack() as stack:
        for nodes in made:
            stack.callback(nodes.remove)


@pytest.fixture
def group() -> t.Iterator[groups.Group]:
    """Names and subnets for nodes that the test makes by itself; what it leaves is removed."""
    group = groups.claim()
    yield group
    group.release()


@pytest.fixture(scope="session")
def nodes(make_nodes: t.Callable[[int], Nodes]) -> Nodes:
    """Four nodes for tests that leave them as they were."""
    return make_nodes(4)


@pytest.fixture(scope="session")
def breakable(make_nodes: t.Callable[[int], Nodes]) -> Nodes:
    """One node that tests break, each in its own way, and mend."""
    return make_nodes(1)


@pytest.fixture
def fresh_nodes(make_nodes: t.Callable[[int], Nodes]) -> t.Iterator[Nodes]:
    """Two nodes of the test's own, which it may break."""
    nodes = make_nodes(2)
    yield nodes
    nodes.remove()


#: Tests that each do a whole job, for minutes: CI has time for one of them.
whole_job = pytest.mark.rotating("whole jobs")


def slow(*values: t.Any) -> t.Any:
    """Parameters with which a test is slow."""
    return pytest.param(*values, marks=pytest.mark.slow)


def installed(script: str, *arguments: str) -> str:
    """What a script of the repository installs, by the path that it prints; skips the test if what it installs is not to be had."""
    argv = [str(ROOT / "scripts" / script), *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=840, check=False)
    if done.returncode == NOT_TO_BE_HAD:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        pytest.skip(f"{script} {' '.join(arguments)}: {reason}")
    assert done.returncode == 0, f"{shlex.join(argv)}: {done.returncode}\n{done.stderr}"
    return done.stdout.strip()


def installed_openmpi(version: str) -> dict[str, str]:
    """The variables that make a run one with a version of Open MPI, and with the mpi4py that is for it."""
    prefix = installed("openmpi", version)
    return {"gpufabric_mpi_prefix": prefix, "ansible_python_interpreter": f"{prefix}/bin/python"}


@pytest.fixture(scope="session")
def openmpi4() -> dict[str, str]:
    """The last Open MPI 4, where Debian's is an earlier one."""
    return installed_openmpi("4.1.8")


@pytest.fixture(scope="session")
def openmpi5() -> dict[str, str]:
    """Open MPI 5."""
    return installed_openmpi("5.0.11")


@pytest.fixture(scope="session")
def nccl_tests() -> pathlib.Path:
    """The directory of the real nccl-tests, and of what they run on without a GPU: see tests/stand_in."""
    return pathlib.Path(installed("nccl-tests"))


def ansible_core(release: str) -> dict[str, str]:
    """The environment variables that make plays those of a release of ansible-core: see scripts/ansible-core."""
    return {"PATH": f"{installed('ansible-core', release)}/bin:{os.environ['PATH']}"}
