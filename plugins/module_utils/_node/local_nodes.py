# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Try-out nodes: containers over this machine's own root, each with its name, two networks and an sshd on port 22."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import hashlib
import ipaddress
import json
import math
import os
import re
import resource
import socket
import stat
import time
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.node_catalogue import NODE_CATALOGUE
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import (
    locked,
    read_text,
    remove,
    remove_empty_directories,
    write_text,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import parse_subnet
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.ownership import Claim, Use, owner_mark, refusal
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import find_program, run
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir, foreign_on_way, nearest_existing
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.sshd import in_fips_mode, usable_key_types

MAXIMUM_COUNT = 250
CONTROL_INTERFACE = "eth0"
DATA_INTERFACE = "net1"
SSH_PORT = 22

#: What a machine's runs keep in common: their state directories and the record of mounted controllers.
BASE_DIR = "/run/gpufabric-local"
RUN_LABEL = "gpufabric.run"
SPEC_LABEL = "gpufabric.spec"
STATE_DIR_LABEL = "gpufabric.state-dir"

#: Where a node sees its own directory of the state directory.
NODE_DIR = "/etc/local-node"
NODE_FILES = ("sshd_config", "authorized_keys", "ssh_host_ed25519_key", "ssh_host_ed25519_key.pub")

# The addresses below stay free for the gateway and for what else the network serves.
_FIRST_HOST = 10
_CGROUP_ROOT = "/sys/fs/cgroup"
#: Seconds until another run must have started or removed its nodes. Every user of this machine may hold that lock.
_PATIENCE = 600.0
# Soft and hard: what sshd and mpirun need; crun does not start a container above this machine's own hard limit.
_LIMITS = {"nofile": (1024, 4096), "nproc": (4096, 8192)}
_CONTAINER_OPTIONS = (
    # crun makes no cgroup: nodes need none, and some machines do not let it.
    "--cgroups=disabled",
    # SELinux would keep a container from the files of this machine's root.
    "--security-opt=label=disable",
)
# This machine's own root, and a layer over it for what is written.
_THIS_ROOT = ("--rootfs", "/:O")
# Seconds in which podman's DNS learns of a node, also on a busy machine.
_NAMES_PATIENCE = 5
# The packages of Debian and Ubuntu that have the programs; netavark calls iptables, and nft from Debian 13 on.
_PACKAGES = {
    "podman": ("podman", "crun", "netavark", "aardvark-dns", "iptables", "nftables"),
    "ssh-keygen": ("openssh-client",),
    "sshd": ("openssh-server",),
}

# What netavark calls, of which podman does not look whether it is there; by its package.
_FIREWALL_PACKAGES = {"nft": "nftables", "iptables": "iptables"}

_PREFIX = re.compile(r"[a-z][a-z0-9]{0,29}\Z")
# It becomes part of ssh's arguments and of podman's, which know blanks, %, quotes, colons and commas.
_STATE_DIR = re.compile(r"/[A-Za-z0-9._/+-]+\Z")
_NETWORK = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_CAPABILITY = re.compile(r"[A-Z][A-Z_]*\Z")
_GROUP = re.compile(r"(?!(?:all|ungrouped)\Z)[A-Za-z_][A-Za-z0-9_]*\Z")

# As distributions ship it, but keys only, and without PAM, whose limits and audit need capabilities a node lacks.
SSHD_CONFIG = f"""\
Port {SSH_PORT}
HostKey {NODE_DIR}/ssh_host_ed25519_key
AuthorizedKeysFile {NODE_DIR}/authorized_keys
PidFile /run/sshd.pid
AllowUsers root
PermitRootLogin prohibit-password
AuthenticationMethods publickey
PasswordAuthentication no
UsePAM no
PrintMotd no
AcceptEnv LANG LC_*
Subsystem sftp internal-sftp
"""

# The shell stays process 1, because it reaps every orphan, which sshd does not in all its versions; and sshd stays
# in its foreground, because in its background all that a session starts would ignore SIGINT. Without PAM, sshd
# refuses an account whose password is locked. The node ends when its sshd ends. Bash reads ~/.bashrc in each ssh
# session, and in each rank that is a shell: this machine's may start programs there that take long, or that leave
# locks behind where they are killed (pyenv does both).
_INIT = """\
mkdir -p -m 0755 /run/sshd
echo "# Of a local node." > ~root/.bashrc
case $(getent shadow root) in "root:!"*) usermod -p "*" root ;; esac
"$0" "$@"
exit
"""


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the user asks for."""

    run_id: str
    state_dir: str
    count: int
    prefix: str
    control_network: str
    data_network: str
    control_subnet: str
    data_subnet: str
    cap_add: tuple[str, ...]
    group: str
    python_interpreter: str
    timeout: float


@dataclasses.dataclass(frozen=True)
class Node:
    """One node: its host name, its container and its address on each network."""

    name: str
    container: str
    control_address: str
    data_address: str


@dataclasses.dataclass(frozen=True)
class Container:
    """One container that podman knows, of any run. ``pid``: of its first process, 0 where podman knows none. ``state_dir``: empty for one
    that an earlier release started.
    """

    name: str
    run_id: str
    spec: str
    state: str
    identifier: str
    pid: int
    state_dir: str


@dataclasses.dataclass(frozen=True)
class Plan:
    """Names of containers: those that stay, those to remove and those to start (again)."""

    keep: tuple[str, ...]
    remove: tuple[str, ...]
    start: tuple[str, ...]


def state_directory(run_id: str, path: str | None) -> str:
    """Where the keys and the inventory of a run are kept. Raises OptionError on a bad run id or path."""
    RunDir(run_id, None)
    state_dir = os.path.normpath(path or _default_directory(run_id))
    if state_dir.startswith("//"):
        # normpath keeps two slashes at the beginning.
        state_dir = state_dir[1:]
    if not _STATE_DIR.match(state_dir):
        raise OptionError("state_dir", path, "an absolute path of letters, digits and ._+- below /")
    return state_dir


def _default_directory(run_id: str) -> str:
    return f"{BASE_DIR}/{run_id}"


def plan_nodes(settings: Settings) -> list[Node]:
    """The nodes that the settings describe, in order. Raises OptionError."""
    if not 1 <= settings.count <= MAXIMUM_COUNT:
        raise OptionError("count", settings.count, f"1 to {MAXIMUM_COUNT}")
    if not _PREFIX.match(settings.prefix):
        raise OptionError("prefix", settings.prefix, "1 to 30 lowercase letters and digits, beginning with a letter")
    for option, network in (("control_network", settings.control_network), ("data_network", settings.data_network)):
        if not _NETWORK.match(network):
            raise OptionError(option, network, "the name of a podman network")
    if not _GROUP.match(settings.group):
        raise OptionError(
            "group",
            settings.group,
            "letters, digits and underscores, not beginning with a digit; not all and not ungrouped",
        )
    if not 0 < settings.timeout <= 3600:
        raise OptionError("timeout", settings.timeout, "more than 0 and at most 3600 seconds")
    for capability in settings.cap_add:
        if not _CAPABILITY.match(capability):
            raise OptionError("cap_add", capability, "names of Linux capabilities, such as NET_ADMIN")
    control = _node_addresses("control_subnet", settings.control_subnet, settings.count)
    data = _node_addresses("data_subnet", settings.data_subnet, settings.count)
    if parse_subnet("data_subnet", settings.data_subnet).overlaps(
        parse_subnet("control_subnet", settings.control_subnet)
    ):
        raise OptionError("data_subnet", settings.data_subnet, f"a subnet apart from {settings.control_subnet}")
    names = [f"{settings.prefix}{number}" for number in range(1, settings.count + 1)]
    return [
        Node(name, _container_prefix(settings.run_id) + name, control_address, data_address)
        for name, control_address, data_address in zip(names, control, data)
    ]


def _node_addresses(option: str, value: str, count: int) -> list[str]:
    subnet = parse_subnet(option, value)
    most = subnet.num_addresses - _FIRST_HOST - 2
    if not isinstance(subnet, ipaddress.IPv4Network) or count > most:
        raise OptionError(
            option, value, f"an IPv4 subnet of {count + _FIRST_HOST + 2} addresses or more, for {count} nodes"
        )
    return [str(subnet.network_address + _FIRST_HOST + number) for number in range(1, count + 1)]


def _container_prefix(run_id: str) -> str:
    # A node's name holds no dash: containers of two runs have different names, whatever the runs are called.
    return f"gpufabric-{run_id}-"


def node_options(settings: Settings, node: Node) -> list[str]:
    """The options of ``podman run`` that make a container this node."""
    options = [
        # A node is a machine of its own: it gets neither what this one runs nor what lies in its /tmp.
        "--tmpfs=/run:rw,exec,mode=0755,notmpcopyup",
        "--tmpfs=/tmp:rw,exec,mode=1777,notmpcopyup",
        "--shm-size=1g",
        *_CONTAINER_OPTIONS,
        f"--name={node.container}",
        f"--hostname={node.name}",
        f"--label={RUN_LABEL}={settings.run_id}",
        f"--label={STATE_DIR_LABEL}={settings.state_dir}",
        f"--volume={node_directory(settings.state_dir, node.name)}:{NODE_DIR}:ro",
        f"--network={settings.control_network}:interface_name={CONTROL_INTERFACE}"
        f",ip={node.control_address},mac={mac_address(node.control_address)},alias={node.name}",
        f"--network={settings.data_network}:interface_name={DATA_INTERFACE}"
        f",ip={node.data_address},mac={mac_address(node.data_address)}",
    ]
    return options + [f"--cap-add={capability}" for capability in settings.cap_add]


def missing_programs(names: t.Sequence[str]) -> str:
    """What to say of programs that this machine, and so its nodes, lacks."""
    packages = " ".join(package for name in names for package in _PACKAGES[name])
    are = "is" if len(names) == 1 else "are"
    return (
        f"{', '.join(names)} {are} not installed on this machine, whose programs its nodes use;"
        f" on Debian and Ubuntu type: apt-get install {packages}"
    )


def firewall_cure(reason: str) -> str:
    """What to add to a reason of podman: the package, if netavark (1.12 or newer) lacks its firewall program; else nothing."""
    missing = re.search(r"unable to execute (\w+): No such file", reason)
    package = _FIREWALL_PACKAGES.get(missing[1]) if missing else None
    return f"; on Debian and Ubuntu type: apt-get install {package}" if package else ""


def mac_address(address: str) -> str:
    """A locally administered MAC address, always the same for an IPv4 address.

    With a new one, a node that is started again would be out of reach until its neighbours forget the old one.
    """
    return "02:42:" + ipaddress.IPv4Address(address).packed.hex(":")


def limit_options(hard_limits: t.Mapping[str, int]) -> list[str]:
    """The ``--ulimit`` options, none above this machine's own hard limit (-1: unlimited)."""
    options = []
    for name, wanted in sorted(_LIMITS.items()):
        hard = hard_limits[name]
        soft, most = wanted if hard < 0 else (min(wanted[0], hard), min(wanted[1], hard))
        options.append(f"--ulimit={name}={soft}:{most}")
    return options


def this_machines_limits() -> list[str]:
    """The ``--ulimit`` options of a container on this machine."""
    hard = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
    return limit_options({name: resource.getrlimit(number)[1] for name, number in hard.items()})


def node_spec(options: t.Sequence[str], host_key: str | None, client_key: str | None) -> str | None:
    """What a running container must carry as its label to be this node; None while a key is still to be made."""
    if host_key is None or client_key is None:
        return None
    text = json.dumps([list(options), host_key, client_key, SSHD_CONFIG, _INIT])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def parse_containers(text: str) -> list[Container]:
    """The containers in the output of ``podman ps --all --format json``."""
    return [
        Container(
            name=entry["Names"][0],
            run_id=(entry.get("Labels") or {}).get(RUN_LABEL, ""),
            spec=(entry.get("Labels") or {}).get(SPEC_LABEL, ""),
            state=entry["State"],
            identifier=entry["Id"],
            pid=entry.get("Pid") or 0,
            state_dir=(entry.get("Labels") or {}).get(STATE_DIR_LABEL, ""),
        )
        for entry in json.loads(text or "[]")
    ]


def observed(container: Container, mounts: str | None) -> Container:
    """The container as it is, where podman was not told of its end: what would have told it was killed too.

    ``mounts``: the text of /proc/PID/mountinfo; None where that process is gone. Podman mounts files of a container,
    such as /etc/hosts, from a directory with its identifier: by that its process is told from a later one of that id.
    """
    if container.state != "running" or (mounts is not None and container.identifier in mounts):
        return container
    return dataclasses.replace(container, state="ended, unknown to podman")


def plan_changes(wanted: t.Mapping[str, str | None], existing: t.Sequence[Container]) -> Plan:
    """What to do so that exactly the wanted containers run.

    ``wanted``: the spec of each container by its name. ``existing``: the run's own containers, dead ones included.
    """
    keep = {one.name for one in existing if one.state == "running" and one.spec == wanted.get(one.name)}
    return Plan(
        keep=tuple(name for name in wanted if name in keep),
        remove=tuple(one.name for one in existing if one.name not in keep),
        start=tuple(name for name in wanted if name not in keep),
    )


def describe(plan: Plan, existing: t.Sequence[Container], run_id: str) -> dict[str, str]:
    """The diff: one line a node, before and after."""
    names = len(_container_prefix(run_id))
    before = {one.name[names:]: one.state for one in existing}
    after = {name[names:]: "running" for name in plan.keep + plan.start}
    for name in plan.remove:
        if before[name[names:]] == "running" and name in plan.start:
            before[name[names:]] = "running with other options"
    return {"before": _lines(before), "after": _lines(after)}


def _lines(states: t.Mapping[str, str]) -> str:
    ordered = sorted(states, key=lambda name: (len(name), name))
    return "".join(f"{name}: {states[name]}\n" for name in ordered)


def node_directory(state_dir: str, name: str) -> str:
    """The directory of one node on the controller."""
    return os.path.join(state_dir, "nodes", name)


def client_key_path(state_dir: str) -> str:
    """The private key with which Ansible logs in to the nodes."""
    return os.path.join(state_dir, "client_key")


def known_hosts_path(state_dir: str) -> str:
    """Where the nodes' host keys are pinned."""
    return os.path.join(state_dir, "known_hosts")


def inventory_path(state_dir: str) -> str:
    """The inventory of the nodes, for playbooks that come later."""
    return os.path.join(state_dir, "inventory.yml")


def known_hosts_text(nodes: t.Sequence[Node], host_keys: t.Mapping[str, str]) -> str:
    """One line a node; ``host_keys`` are their public keys by name."""
    return "".join(
        f"{node.name},{node.control_address} {' '.join(host_keys[node.name].split()[:2])}\n" for node in nodes
    )


def group_variables(settings: Settings) -> dict[str, t.Any]:
    """How Ansible reaches any of the nodes, and what they are to the collection's roles."""
    return {
        "ansible_user": "root",
        "ansible_port": SSH_PORT,
        "ansible_ssh_private_key_file": client_key_path(settings.state_dir),
        # Without the user's own ssh configuration, which may send every host through a proxy.
        "ansible_ssh_common_args": f"-F /dev/null -o IdentitiesOnly=yes -o StrictHostKeyChecking=yes"
        f" -o UserKnownHostsFile={known_hosts_path(settings.state_dir)} -o GlobalKnownHostsFile=/dev/null",
        "ansible_pipelining": True,
        "ansible_python_interpreter": settings.python_interpreter,
        # Hosts of the group that have it not are no nodes.
        "local_nodes_joined": True,
        "gpufabric_run_id": settings.run_id,
        "gpufabric_control_interface": CONTROL_INTERFACE,
        "gpufabric_data_interface": DATA_INTERFACE,
    }


def inventory_text(settings: Settings, nodes: t.Sequence[Node]) -> str:
    """The inventory as YAML; every value is written as JSON, which YAML reads as it is meant."""
    # These are also for localhost, where reports are written and nodes are removed.
    shared = {"gpufabric_run_id": settings.run_id, "local_nodes_state_dir": settings.state_dir}
    lines = ["---", "all:", "  vars:"]
    lines += [f"    {name}: {json.dumps(value)}" for name, value in shared.items()]
    lines += [f"{settings.group}:", "  hosts:"]
    lines += [f"    {node.name}: {json.dumps({'ansible_host': node.control_address})}" for node in nodes]
    lines += ["  vars:"]
    lines += [f"    {name}: {json.dumps(value)}" for name, value in group_variables(settings).items()]
    return "\n".join(lines) + "\n"


def missing_controllers(cgroups: str, mounts: str) -> list[str]:
    """The cgroup v1 controllers that must be mounted before crun starts a container.

    Where a machine mounts v1 and v2 side by side, crun refuses as long as a v1 controller is mounted nowhere.
    ``cgroups`` and ``mounts``: texts of /proc/cgroups and /proc/mounts.
    """
    entries = [line.split() for line in mounts.splitlines()]
    below = [entry for entry in entries if entry[1].startswith(f"{_CGROUP_ROOT}/")]
    is_hybrid = any(entry[1:3] == [_CGROUP_ROOT, "tmpfs"] for entry in entries)
    if not is_hybrid or not any(entry[2] == "cgroup2" for entry in below):
        return []
    mounted = {option for entry in below if entry[2] == "cgroup" for option in entry[3].split(",")}
    known = [line.split() for line in cgroups.splitlines() if not line.startswith("#")]
    return [name for name, _hierarchy, _count, enabled in known if enabled == "1" and name not in mounted]


def parse_podman_version(text: str) -> tuple[int, ...]:
    """The version in the output of ``podman --version``; (0,) where there is none."""
    found = re.search(r"(\d+)\.(\d+)", text)
    return tuple(int(number) for number in found.groups()) if found else (0,)


def error_line(text: str) -> str:
    """The line of a program's error output that says what went wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("Error:")]
    return (errors or lines or ["it gives no reason"])[-1].replace("Error: ", "", 1)


def call(argv: t.Sequence[str], timeout: float = 120, attempts: int = 1) -> str:
    """The output of a program. Raises NodeError with its reason where it fails, is missing or does not end.

    ``attempts``: how often to call it, with a second between, where it may fail once and then succeed.
    """
    done = run(argv, timeout, {**os.environ, "LC_ALL": "C"})
    if done.returncode == 0:
        return done.stdout
    if attempts == 1:
        raise NodeError(f"{os.path.basename(argv[0])} {argv[1]}: {error_line(done.stderr)}")
    time.sleep(1)
    return call(argv, timeout, attempts - 1)


class Cgroups:
    """The cgroup v1 controllers that nodes of all runs need on this machine, mounted while there are any nodes."""

    record = os.path.join(BASE_DIR, ".cgroups")

    @staticmethod
    def locked() -> contextlib.AbstractContextManager[None]:
        """Keep one run from unmounting what another one has just mounted and is about to use."""
        return locked(_CGROUP_ROOT, _PATIENCE)

    def mount(self) -> None:
        """Mount those that are missing, and record them. Raises NodeError."""
        missing = missing_controllers(read_text("/proc/cgroups") or "", read_text("/proc/mounts") or "")
        if not missing:
            return
        make_directory(BASE_DIR)
        recorded = (read_text(self.record) or "").split()
        write_text(self.record, "\n".join(sorted({*recorded, *missing})) + "\n")
        for controller in missing:
            path = os.path.join(_CGROUP_ROOT, controller)
            try:
                os.makedirs(path, exist_ok=True)
            except OSError as error:
                raise NodeError(f"cannot make {path}, which a container needs: {error.strerror}") from error
            call(["mount", "-t", "cgroup", "-o", controller, "cgroup", path])

    def unmount(self) -> None:
        """Unmount those recorded, and remove the record. Raises NodeError."""
        for controller in (read_text(self.record) or "").split():
            path = os.path.join(_CGROUP_ROOT, controller)
            if os.path.ismount(path):
                call(["umount", path])
            remove_empty_directories(path)
        remove(self.record)


class LocalNodes:
    """The nodes of one run on this machine, and the files that are kept for them."""

    def __init__(self, run_id: str, state_dir: str, claim: t.Mapping[str, t.Any] | None = None) -> None:
        """``claim``: who asks, None if nobody says; the nodes are not refused to him then. Raises NodeError where the user is not root."""
        if os.geteuid() != 0:
            raise NodeError(
                "local nodes need root, because they share this machine's root file system: run ansible-playbook as root"
            )
        self.run_id = run_id
        self.state_dir = state_dir
        self.cgroups = Cgroups()
        self.podman = find_program("podman")
        self._claim = None if claim is None else Claim(**claim)
        #: There while the files in a directory that the user has chosen are the run's.
        self._mark = os.path.join(state_dir, ".gpufabric-nodes")

    def present(self, settings: Settings, check: bool) -> dict[str, t.Any]:
        """Have exactly the nodes of the settings. Raises OptionError, NodeError."""
        nodes = plan_nodes(settings)
        self._check_directory()
        podman, sshd = self._programs()
        existing = self._containers(podman)
        self._check_owner(existing)
        plan = plan_changes(self._specs(settings, nodes), existing)
        files_change = self._write_files(settings, nodes, check=True)
        if not check:
            make_directory(self.state_dir)
            # Against two plays that start at once.
            with locked(self.state_dir):
                self._check_owner(existing)
                self._write_mark()
            self._make_keys(nodes)
            self._write_files(settings, nodes, check=False)
            with self.cgroups.locked():
                if plan.start:
                    self.cgroups.mount()
                self._remove_containers(podman, plan.remove)
                self._start(podman, sshd, settings, [node for node in nodes if node.container in plan.start])
            self._remove_node_files({node.name for node in nodes})
            # Also of those that ran already: a call that succeeds leaves nodes that can be reached.
            in_parallel(lambda node: wait_for_sshd(node.name, node.control_address, settings.timeout), nodes)
            self._wait_for_names(podman, settings, nodes)
        return {
            "changed": bool(plan.remove or plan.start or files_change),
            "nodes": [{**dataclasses.asdict(node), "port": SSH_PORT} for node in nodes],
            "started": [node.name for node in nodes if node.container in plan.start],
            "inventory": inventory_path(self.state_dir),
            "variables": group_variables(settings),
            "diff": describe(plan, existing, self.run_id),
        }

    def absent(self, check: bool) -> dict[str, t.Any]:
        """Have no node of the run, and nothing that was kept for them. Raises NodeError."""
        self._check_way()
        existing = self._containers(self.podman) if self.podman else []
        self._check_owner(existing, removes=True)
        plan = plan_changes({}, existing)
        is_own = self._holds_nodes()
        files = self._files() if is_own else []
        directories = self._node_directories() if is_own else []
        if not check:
            with self.cgroups.locked():
                if self.podman:
                    self._remove_containers(self.podman, plan.remove)
                if not self.podman or not self._containers(self.podman, of_all_runs=True):
                    self.cgroups.unmount()
            if is_own:
                self._remove_node_files(set())
                for path in [*files, self._mark]:
                    remove(path)
                remove_empty_directories(os.path.join(self.state_dir, "nodes"), self.state_dir, BASE_DIR)
        return {
            "changed": bool(existing or files or directories),
            "diff": describe(plan, existing, self.run_id),
        }

    def _holds_nodes(self) -> bool:
        """Whether what is in the state directory is the run's: no other makes anything in the default one."""
        is_default = self.state_dir == _default_directory(self.run_id)
        return is_default or self._read_mark().get("run_id") == self.run_id

    def _read_mark(self) -> dict[str, t.Any]:
        """``run_id``, and ``owner``, ``controller``, ``play`` and ``started`` if they are known."""
        text = read_text(self._mark) or ""
        try:
            mark = json.loads(text)
        except (ValueError, RecursionError):
            # As releases before 0.2 wrote it.
            return {"run_id": text.strip()}
        return mark if isinstance(mark, dict) else {"run_id": text.strip()}

    def _write_mark(self) -> None:
        mark: dict[str, t.Any] = {"run_id": self.run_id}
        if self._claim is not None:
            mark.update(owner_mark(self._claim, self._read_mark()))
        write_text(self._mark, json.dumps(mark) + "\n")

    def _check_owner(self, existing: t.Sequence[Container], removes: bool = False) -> None:
        """Raise ProblemError where the nodes are those of another owner or play, and are not to be taken over."""
        if self._claim is None or self._claim.take_over:
            return
        others = sorted({one.state_dir for one in existing} - {"", self.state_dir})
        if others:
            # Whose they are is written there.
            state = f"has nodes of another state directory, {', '.join(others)}"
            raise ProblemError(
                NODE_CATALOGUE.problem("run-taken", socket.gethostname(), state=state, run_id=self.run_id)
            )
        found = refusal(
            self._read_mark(), self._claim, lambda: self._use(existing), socket.gethostname(), removes, time.time()
        )
        if found is not None:
            raise ProblemError(found)

    def _use(self, existing: t.Sequence[Container]) -> Use:
        with contextlib.suppress(OSError):
            return Use(bool(existing), time.time() - os.stat(self._mark).st_mtime)
        return Use(bool(existing), math.inf)

    def _check_way(self) -> None:
        """Raise NodeError where others than root can put something else in place of the state directory, as far as it exists."""
        for path, whose in foreign_on_way(nearest_existing(self.state_dir), 0):
            raise NodeError(
                f"state_dir: {path}, on the way to {self.state_dir}, {whose} can put another directory there;"
                " set state_dir to a path below directories of root only"
            )

    def _check_directory(self) -> None:
        """Raise NodeError where the state directory is not safely root's and this run's own."""
        self._check_way()
        if not self._holds_nodes():
            there = [*self._files(), *filter(os.path.lexists, [os.path.join(self.state_dir, "nodes"), self._mark])]
            if there:
                raise NodeError(
                    f"state_dir: {self.state_dir} has {', '.join(map(os.path.basename, there))} already, which nodes of the run"
                    f" {self.run_id} did not make; set state_dir to a directory of its own"
                )

    def _programs(self) -> tuple[str, str]:
        """podman and sshd. Raises NodeError, which names every program that is missing."""
        podman, sshd = self.podman, find_program("sshd")
        found = {"podman": podman, "ssh-keygen": find_program("ssh-keygen"), "sshd": sshd}
        missing = [name for name, path in found.items() if not path]
        if missing or not podman or not sshd:
            raise NodeError(missing_programs(missing), has_cure=True)
        version = parse_podman_version(call([podman, "--version"]))
        if version < (4, 0):
            raise NodeError(
                f"podman is {'.'.join(map(str, version))}; nodes need 4.0 or newer, to choose the interfaces' names"
            )
        return podman, sshd

    def _containers(self, podman: str, of_all_runs: bool = False) -> list[Container]:
        label = RUN_LABEL if of_all_runs else f"{RUN_LABEL}={self.run_id}"
        known = parse_containers(call([podman, "ps", "--all", "--filter", f"label={label}", "--format", "json"]))
        return [observed(one, _mounts(one.pid)) for one in known]

    def _remove_containers(self, podman: str, names: t.Sequence[str]) -> None:
        if names:
            # crun fails at times where processes of a container are still ending.
            call([podman, "rm", "--force", "--ignore", "--time=0", *names], attempts=5)

    def _public_key(self, private_key: str) -> str | None:
        """A key that can be used: its public half, where both halves are there."""
        return read_text(f"{private_key}.pub") if os.path.exists(private_key) else None

    def _host_key_path(self, name: str) -> str:
        return os.path.join(node_directory(self.state_dir, name), "ssh_host_ed25519_key")

    def _specs(self, settings: Settings, nodes: t.Sequence[Node]) -> dict[str, str | None]:
        client_key = self._public_key(client_key_path(self.state_dir))
        return {
            node.container: node_spec(
                node_options(settings, node), self._public_key(self._host_key_path(node.name)), client_key
            )
            for node in nodes
        }

    def _make_keys(self, nodes: t.Sequence[Node]) -> None:
        keys = {client_key_path(self.state_dir): f"gpufabric {self.run_id}"}
        keys.update((self._host_key_path(node.name), node.name) for node in nodes)
        for path in keys:
            make_directory(os.path.dirname(path))
        missing = [path for path in keys if self._public_key(path) is None]
        for path in missing:
            remove(path)
        (kind,) = usable_key_types(["ed25519"], in_fips_mode())
        in_parallel(
            lambda path: call(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", keys[path], "-f", path]), missing
        )

    def _write_files(self, settings: Settings, nodes: t.Sequence[Node], check: bool) -> bool:
        """Write the files that are not as they should be; whether there are any. Text that needs a key waits for it."""
        texts = {inventory_path(self.state_dir): inventory_text(settings, nodes)}
        host_keys = {node.name: self._public_key(self._host_key_path(node.name)) for node in nodes}
        known = {name: key for name, key in host_keys.items() if key is not None}
        client_key = self._public_key(client_key_path(self.state_dir))
        if client_key is None or len(known) < len(nodes):
            return True
        texts[known_hosts_path(self.state_dir)] = known_hosts_text(nodes, known)
        for node in nodes:
            directory = node_directory(self.state_dir, node.name)
            texts[os.path.join(directory, "sshd_config")] = SSHD_CONFIG
            texts[os.path.join(directory, "authorized_keys")] = client_key
        stale = {path: text for path, text in texts.items() if read_text(path) != text}
        if not check:
            for path, text in stale.items():
                write_text(path, text)
        return bool(stale)

    def _start(self, podman: str, sshd: str, settings: Settings, nodes: t.Sequence[Node]) -> None:
        limits = this_machines_limits()
        specs = self._specs(settings, nodes)
        command = [*_THIS_ROOT, "/bin/sh", "-c", _INIT, sshd, "-D", "-e", "-f", f"{NODE_DIR}/sshd_config"]

        def start(node: Node) -> None:
            options = node_options(settings, node) + limits + [f"--label={SPEC_LABEL}={specs[node.container]}"]
            try:
                call([podman, "run", "--detach", "--rm", *options, *command])
            except NodeError as error:
                raise NodeError(f"{node.name}: {error}{firewall_cure(str(error))}") from error

        in_parallel(start, nodes)

    def _wait_for_names(self, podman: str, settings: Settings, nodes: t.Sequence[Node]) -> None:
        """Podman starts nodes without DNS too, with a warning only. Raises NodeError."""
        argv = [podman, "exec", nodes[0].container, "getent", "hosts", *(node.name for node in nodes)]
        deadline = time.monotonic() + settings.timeout
        restart = time.monotonic() + _NAMES_PATIENCE
        while True:
            try:
                call(argv)
                return
            except NodeError as error:
                if time.monotonic() > deadline:
                    raise NodeError(
                        f"names of nodes do not resolve on the network {settings.control_network} after"
                        f" {settings.timeout:g} s; it needs podman's DNS, on Debian and Ubuntu: apt-get install {' '.join(_PACKAGES['podman'])}"
                    ) from error
            if time.monotonic() > restart:
                self._restart_names(podman, settings)
                restart = time.monotonic() + _NAMES_PATIENCE
            time.sleep(0.1)

    def _restart_names(self, podman: str, settings: Settings) -> None:
        """Have podman start its DNS anew, which it does for a container only: one that has nothing else to do. Raises NodeError.

        The DNS of older versions (aardvark-dns 1.4) ends where two containers start or end within milliseconds.
        """
        options = [
            *_CONTAINER_OPTIONS,
            f"--name={_container_prefix(self.run_id)}names",
            f"--label={RUN_LABEL}={self.run_id}",
            f"--label={STATE_DIR_LABEL}={self.state_dir}",
            f"--network={settings.control_network}",
            *this_machines_limits(),
        ]
        # A second, so that its own start and end are apart.
        call([podman, "run", "--rm", *options, *_THIS_ROOT, "sleep", "1"])

    def _remove_node_files(self, kept: set[str]) -> None:
        """Remove the directories of all nodes but those kept."""
        for name in set(self._node_directories()) - kept:
            directory = node_directory(self.state_dir, name)
            for file in NODE_FILES:
                remove(os.path.join(directory, file))
            remove_empty_directories(directory)

    def _node_directories(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            with os.scandir(os.path.join(self.state_dir, "nodes")) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        return []

    def _files(self) -> list[str]:
        """The files of the run that are there, all but the nodes' own."""
        client_key = client_key_path(self.state_dir)
        paths = [
            client_key,
            f"{client_key}.pub",
            known_hosts_path(self.state_dir),
            inventory_path(self.state_dir),
        ]
        return [path for path in paths if os.path.lexists(path)]


def _mounts(pid: int) -> str | None:
    """What a process sees mounted; None where there is none of that id, or it has ended."""
    try:
        with open(f"/proc/{pid}/mountinfo", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def make_directory(path: str) -> None:
    """Make a directory that only root can enter. Raises NodeError where it is, or was made by, somebody else's."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        status = os.lstat(path)
    except OSError as error:
        raise NodeError(f"cannot make {path}: {error.strerror}") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != 0 or status.st_mode & 0o022:
        raise NodeError(f"{path} is not a directory that only root may write; remove it or set state_dir")


def in_parallel(function: t.Callable[[t.Any], t.Any], items: t.Sequence[t.Any]) -> None:
    """Call the function with each item, twice the processors at a time. Raises the first failure, and counts them."""
    failures: list[GpufabricError] = []
    with concurrent.futures.ThreadPoolExecutor(max_workers=2 * (os.cpu_count() or 1)) as pool:
        for future in [pool.submit(function, item) for item in items]:
            try:
                future.result()
            except GpufabricError as error:
                failures.append(error)
    if len(failures) > 1:
        raise NodeError(f"{failures[0]} ({len(failures)} of {len(items)} failed)") from failures[0]
    if failures:
        raise failures[0]


def wait_for_sshd(name: str, address: str, timeout: float) -> None:
    """Until sshd greets at the address. Raises NodeError."""
    deadline = time.monotonic() + timeout
    while True:
        with contextlib.suppress(OSError), socket.create_connection((address, SSH_PORT), timeout=1) as connection:
            if connection.recv(4) == b"SSH-":
                return
        if time.monotonic() > deadline:
            raise NodeError(f"{name}: its sshd does not answer at {address} port {SSH_PORT} within {timeout:g} s")
        time.sleep(0.05)
