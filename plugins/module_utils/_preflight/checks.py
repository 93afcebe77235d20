# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What prevents a launch: pure functions from the facts of its peers to problems."""

from __future__ import annotations

import collections
import dataclasses
import heapq
import ipaddress
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._connect import Attempt
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import diagnose, problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.reader import Facts as RunFacts
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.reader import Source
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.resolution import unresolved_problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.identity import shared_names
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.probe_full import CONTROL, RDMA_VARIABLES
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.account import shell_family
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import listing

#: In the order in which a launch needs them.
STAGES = (
    *("resolve", "connect", "host_key", "authenticate", "session", "environment", "daemon", "libraries", "version"),
    *("program", "control", "callback", "data", "gpus", "limits", "disk", "clock", "rdma"),
)

_MIB = 1 << 20
#: A NCCL rank takes some tens of MiB of shared memory.
_SHM_PER_GPU = 64 * _MIB
#: Below this, what is in /dev/shm is left over from something and the next program fails.
_SHM_LEAST = 16 * _MIB
#: NCCL registers its buffers with the RDMA devices; kernels and container engines start at 64 KiB or 8 MiB.
_MEMLOCK_FOR_RDMA = 64 * _MIB
#: With less, a rank in Python cannot load its libraries, or has no room for buffers.
_ADDRESS_SPACE_LEAST = 1024 * _MIB

Facts = t.Dict[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Expected:
    """What each host must have at least. Sizes are in bytes; None: it depends on what else the host has."""

    gpus: int | None = None
    shm_bytes: int | None = None
    memlock_bytes: int | None = None
    processes: int = 256
    open_files: int = 1024
    disk_bytes: int = 64 * _MIB
    clock_skew: float = 5.0


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to check, and how. Times are in seconds.

    ``control``: an interface or a subnet. ``environment``: names of variables that must reach the peers, or patterns.
    ``gives_prefix``: mpirun tells its daemons where they are, or they need not know it. ``launcher``: what to call the launcher
    in problems that are its own. ``rank_env``: variables that mpirun hands to all ranks; ``launcher_env``: those that ranks get on
    hosts that have none of their own.
    """

    launcher: str
    prefix: str
    daemon: str
    run_dir: str
    full: bool = False
    gives_prefix: bool = False
    program: str | None = None
    control: str | None = None
    data_interface: str | None = None
    environment: tuple[str, ...] = ()
    rank_env: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    launcher_env: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    timeout: float = 5.0
    expected: Expected = Expected()

    @property
    def deadline(self) -> float:
        """Seconds after which a session is given up; the limits of its steps are far below."""
        return 5 * self.timeout + 60

    @property
    def data_interfaces(self) -> list[str]:
        """The names of NCCL's interfaces."""
        return self.data_interface.split(",") if self.data_interface else []


@dataclasses.dataclass
class Seen:
    """What the checks saw of one peer. Everything behind its first obstacle is None.

    ``loses_large``: large packets do not reach its sshd. ``wrong``: what of its answer is none. ``control``, ``data``: its own interfaces,
    as of a Peer.
    """

    name: str
    address: str | None = None
    unresolved: str | None = None
    loopback: list[str] = dataclasses.field(default_factory=list)
    port: int | None = None
    user: str | None = None
    attempt: Attempt | None = None
    banner: tuple[str, str] | None = None
    answered: bool = False
    noisy: bool = False
    loses_large: bool = False
    wrong: str = ""
    facts: Facts | None = None
    status: int | None = None
    output: str = ""
    links: Facts = dataclasses.field(default_factory=dict)
    reference: Facts = dataclasses.field(default_factory=dict)
    not_sent: list[str] = dataclasses.field(default_factory=list)
    control: str | None = None
    data: str | None = None


@dataclasses.dataclass(frozen=True)
class Finding:
    """A problem and the stage of the launch that it prevents."""

    stage: str
    problem: Problem


#: The stage that a cause found in ssh's messages prevents; all other causes prevent the session.
_STAGES_OF_SSH = {
    "resolve": ("name-",),
    "connect": ("connect-", "ssh-banner-", "ssh-closed", "ssh-max-startups", "ssh-not-ssh", "ssh-penalty"),
    "host_key": ("host-key-", "ssh-no-common-algorithm"),
    "authenticate": ("pam-", "ssh-auth-", "ssh-key-", "ssh-too-many-keys"),
}
#: Causes on the launcher, which logs in.
_OF_THE_CLIENT = ("ssh-key-", "ssh-config-", "uid-without-account")


#: Causes by what a connection delivers instead of the version of an SSH server.
_NO_SSH = {
    "closed": "ssh-closed",
    "crowded": "ssh-max-startups",
    "refused": "ssh-closed",
    "silent": "ssh-banner-timeout",
    "other": "ssh-not-ssh",
}


def reaching(attempt: Attempt | None, banner: tuple[str, str] | None, host: str, facts: Facts) -> Finding | None:
    """What prevents ssh before it starts, from an attempt to connect and the first bytes. ``facts``: for the texts."""
    if attempt is not None and attempt.status != "ok":
        return Finding(
            "connect",
            problem(f"connect-{attempt.status}", host, attempt.text, **{**facts, "by": attempt.by}),
        )
    if banner is not None and banner[0] != "ssh":
        return Finding("connect", problem(_NO_SSH[banner[0]], host, banner[1], **facts))
    return None


def packets_lost(host: str, facts: Facts) -> Finding:
    """The finding for a login that hangs as large packets do not arrive."""
    return Finding("connect", problem("ssh-packets-lost", host, "", **facts))


def unresolved(name: str, reason: str, host: str) -> Finding:
    """The finding for a name without an address. ``reason``: the resolver's words, which show whether it got an answer."""
    return Finding("resolve", unresolved_problem(name, reason, host))


def said_by_ssh(text: str, host: str, launcher: str, address: str = "") -> list[Finding]:
    """The findings in the messages of ssh, or of a session that failed. ``address``: what ssh calls the host."""
    found = []
    for item in diagnose([Source("ssh", text.splitlines(), host)], None, RunFacts(names={address: host})):
        stage = next((stage for stage, ids in _STAGES_OF_SSH.items() if item.id.startswith(ids)), "session")
        owner = launcher if item.id.startswith(_OF_THE_CLIENT) else host
        found.append(Finding(stage, dataclasses.replace(item, host=owner)))
    return found


def findings_of(seen: Seen, settings: Settings) -> list[Finding]:
    """The findings of a peer by itself. An obstacle on the way to the peer hides what lies behind it."""
    obstacles = _obstacles(seen, settings)
    if obstacles:
        return obstacles
    if seen.facts is None:
        return [Finding("session", problem("python-missing", seen.name, seen.output))]
    return [
        Finding(stage, found)
        for stage, check in _CHECKS
        if settings.full or stage in STAGES[: STAGES.index("callback") + 1]
        for found in check(seen, seen.facts, settings)
    ]


def _obstacles(seen: Seen, settings: Settings) -> list[Finding]:
    if seen.loopback:
        text = ", ".join(seen.loopback)
        return [Finding("resolve", problem("name-loopback", seen.name, text, name=seen.name, addresses=text))]
    if seen.address is None:
        return [unresolved(seen.name, seen.unresolved or "", seen.name)]
    facts: dict[str, t.Any] = {
        "address": seen.address,
        "port": seen.port or 22,
        "user": seen.user or "this user",
        "seconds": f"{settings.timeout:g}",
        "status": seen.status,
    }
    obstacle = reaching(seen.attempt, seen.banner, seen.name, facts)
    if obstacle is None and seen.noisy:
        obstacle = Finding("session", problem("session-noisy", seen.name, seen.output[-300:]))
    if obstacle is None and seen.loses_large:
        obstacle = packets_lost(seen.name, facts)
    if obstacle is None and seen.wrong:
        obstacle = Finding("session", problem("wrong-answer", seen.name, seen.wrong))
    if obstacle is not None or seen.answered:
        return [obstacle] if obstacle is not None else []
    return said_by_ssh(seen.output, seen.name, settings.launcher, seen.address) or [
        Finding("session", problem("ssh-session", seen.name, seen.output[-1000:], **facts))
    ]


def _lost_variables(seen: Seen, facts: Facts) -> tuple[list[str], list[str]]:
    """The variables that ssh did not send, and those that sshd did not accept."""
    lost = [name for name, arrived in facts["environment"].items() if not arrived]
    return [name for name in lost if name in seen.not_sent], [name for name in lost if name not in seen.not_sent]


def _lost_libraries(seen: Seen, facts: Facts) -> list[str]:
    """Libraries that the daemon misses because LD_LIBRARY_PATH was lost: the launcher, which has it, finds them."""
    if facts["environment"].get("LD_LIBRARY_PATH", True):
        return []
    return sorted(set(facts["daemon"].get("missing", [])) - set(seen.reference["daemon"].get("missing", [])))


def _check_environment(seen: Seen, facts: Facts, settings: Settings) -> t.Iterator[Problem]:
    libraries = _lost_libraries(seen, facts)
    for kind, names in zip(("env-not-sent", "env-not-accepted"), _lost_variables(seen, facts)):
        if names:
            guilty = libraries and "LD_LIBRARY_PATH" in names
            evidence = f"{facts['daemon']['path']} misses {', '.join(libraries)}" if guilty else ""
            severity = "error" if guilty else None
            yield problem(kind, seen.name, evidence, severity, variables=", ".join(names))


def _check_python(seen: Seen, facts: Facts, settings: Settings) -> t.Iterator[Problem]:
    """Programs in Python would not start; others do not mind."""
    if facts.get("python_home"):
        yield problem("python-home", seen.name, f"PYTHONHOME={facts['python_home']}", "warning")


def _check_daemon(seen: Seen, facts: Facts, settings: Settings) -> t.Iterator[Problem]:
    daemon = facts["daemon"]
    elsewhere = daemon.get("elsewhere", [])
    if not daemon["exists"] and _other_version(seen, facts):
        # Open MPI 4 and 5 have daemons of different names.
        return
    names = {"daemon": settings.daemon, "prefix": settings.prefix}
    if elsewhere:
        yield problem("mpi-prefix-differs", seen.name, ", ".join(elsewhere), **names, other=elsewhere[0])
    elif not daemon["exists"]:
        yield problem("daemon-missing", seen.name, daemon["path"], **names)
    elif not daemon["executable"]:
        yield problem("daemon-not-executable", seen.name, daemon["path"], daemon=daemon["path"])
    elif daemon.get("foreign"):
        yield problem("daemon-wrong-machine", seen.name, daemon["path"], daemon=daemon["path"])
    elif daemon.get("misled") and seen.name != settings.launcher and not settings.gives_prefix:
        variables = ", ".join(daemon["misled"])
        yield problem("mpi-prefix-variable", seen.name, variables, variables=variables, prefix=settings.prefix)


def _check_shell(seen: Seen, facts: Facts, settings: Settings) -> t.Iterator[Problem]:
    """mpirun starts its daemon in the syntax of the launcher's login shell, or in that of sh if it does not know the shell."""
    there, here = facts["shell"], seen.reference["shell"]
    if there and here and seen.name != settings.launcher:
        spoken = "csh" if shell_family(here) == "csh" else "sh"
        if shell_family(there) != spoken:
            account = {"user": seen.user} if seen.user else {}
            yield problem("login-shell", seen.name, "", shell=there, launcher=here, **account)


def _check_libraries(seen: Seen, facts: Facts, settings: Settings) -> t.Iterator[Problem]:
    daemon = facts["daemon"]
    if daemon.get("missing") and not _lost_libraries(seen, facts):
        libraries = ", ".join(daemon["missing"])
        yield problem("daemon-library-missing", seen.name, daemon["path"], daemon=daemon["path"], libraries=libraries)


def _other_version(seen: Seen, facts: Facts) -> tuple[str, str] | None:
    """The versions of the host and of the launcher, if they differ."""
    there, here = facts["daemon"], seen.reference["daemon"]
    for key in ("version", "runtime"):
        if there.get(key) and here.get(key) and there[key] != here[key]:
            return there[key], here[key]
    return None


def _check_version(seen: Seen, facts: Facts, settings: Settings) -> t.Iterator[Problem]:
    versions = _other_version(seen, facts)
    if versions:
        there, here = facts["daemon"], seen.reference["daemon"]
        evidence = f"{there['path']}: {there.get('runtime')}; on the launcher {here.get('runtime')}"
        yield problem("mpi-version-differs", seen.name, evidence, there=versions[0], here=versions[1])


def _check_program(seen: Seen, facts: Facts, settings: Settings) -> t.Iterator[Problem]:
    program, reference = facts["program"], seen.reference.get("program") or {}
    if program is None:
        return
    path = program["path"]
    if not program["exists"]:
        yield problem("program-missing", seen.name, path, program=path)
    elif not program["executable"]:
        yield problem("program-not-executable", seen.name, path, program=path)
    elif program["missing"]:
        libraries = ", ".join(program["missing"])
        yield problem("program-library-missing", seen.name, path, program=path, libraries=libraries)
    else:
        if program["mpi"] is None and program["nccl"] is not None:
            yield problem("program-without-mpi", seen.name, path, program=path)
        for key, kind in (
            ("sha256", "program-differs"),
            ("mpi", "program-mpi-differs"),
            ("nccl", "nccl-version-differs"),
        ):
            there, here = program[key], reference.get(key)
            # One difference explains the others.
            if there and here and there != here:
                evidence = f"{there}; on the launcher {here}"
                names = {"program": path, "library": there, "prefix": settings.prefix}
                yield problem(kind, seen.name, evidence, **names, there=there, here=here)
                return


def _addresses(interface: Facts) -> list[str]:
    return [address.partition("/")[0] for address in interface["addresses"]]


def _check_control(seen: Seen, facts: Facts, settings: Settings) -> t.Iterator[Problem]:
    own = {name: _addresses(entry) for name, entry in facts["interfaces"].items()}
    control = control_of(seen, settings)
    if control is not None:
        others = "; ".join(f"{name}: {', '.join(items) or 'no address'}" for name, items in own.items() if name != "lo")
        if "/" in control:
            network = ipaddress.ip_network(control, strict=False)
            found = [item for items in own.values() for item in items if ipaddress.ip_address(item) in network]
        else:
            found = own.get(control, [])
        if not found:
            yield problem("control-interface-missing", seen.name, others, interface=control, others=others)
            return
        if seen.address not in found:
            text = ", ".join(found)
            names = {"interface": control, "address": seen.address, "own": text}
            yield problem("control-interface-address", seen.name, others, **names)
            return
    # Ranks of Open MPI 4 tell each other one address of an interface, and may connect from another, which their peers refuse.
    if settings.daemon == "orted":
        for interface, items in own.items():
            several = [item for item in items if ":" not in item]
            if interface != "lo" and seen.address in several and len(several) > 1:
                text = ", ".join(several)
                yield problem("control-addresses", seen.name, text, interface=interface, own=text, address=seen.address)


def _check_callback(seen: Seen, facts: Facts, settings: Settings) -> t.Iterator[Problem]:
    callback = facts["callback"]
    where = {"address": callback["address"], "port": callback["port"], "launcher": settings.launcher}
    if callback["status"] != "ok":
        yield problem(
            f"callback-{callback['status']}",
            seen.name,
            callback["text"],
            **where,
            by=callback.get("by"),
            seconds=f"{settings.timeout:g}",
        )
        return
    control = control_of(seen, settings)
    if control is not None and "/" not in control:
        entry = facts["interfaces"].get(control)
        source = callback["source"]
        if entry is not None and entry["addresses"] and source not in _addresses(entry):
            yield problem("callback-wrong-interface", seen.name, source, interface=control, own=source)


def _check_data(seen: Seen, facts: Facts, settings: Settings) -> t.Iterator[Problem]:
    others = ", ".join(name for name in facts["interfaces"] if name != "lo")
    for interface in data_of(seen, settings):
        if interface not in facts["interfaces"]:
            yield problem("data-interface-missing", seen.name, others, interface=interface, others=others)
        elif interface not in facts["data"]:
            yield problem("data-interface-address", seen.name, "", interface=interface)


def _check_gpus(seen: Seen, facts: Facts, settings: Settings) -> t.Iterator[Problem]:
    gpus, expected = facts["gpus"], settings.expected.gpus
    if gpus["error"]:
        yield problem("gpu-driver", seen.name, gpus["error"])
    elif expected is not None and gpus["count"] < expected:
        yield problem("gpus-missing", seen.name, "", count=gpus["count"], expected=expected)


def _check_limits(seen: Seen, facts: Facts, settings: Settings) -> t.Iterator[Problem]:
    expected, shm = settings.expected, facts["shm"] or {"size": 0, "free": 0}
    wanted = _SHM_PER_GPU * facts["gpus"]["count"] if expected.shm_bytes is None else expected.shm_bytes
    sizes = {"size": mebibytes(shm["size"]), "free": mebibytes(shm["free"]), "wanted": mebibytes(wanted)}
    if shm.get("read_only"):
        yield problem("shm-read-only", seen.name, "")
    elif shm["size"] > _SHM_LEAST > shm["free"]:
        yield problem("shm-full", seen.name, f"{sizes['free']} of {sizes['size']} free", **sizes)
    elif shm["size"] < wanted:
        yield problem("shm-small", seen.name, f"/dev/shm has {sizes['size']}", **sizes)
    memlock = expected.memlock_bytes
    if memlock is None and facts["rdma"]:
        memlock = _MEMLOCK_FOR_RDMA
    if memlock is not None and facts["memlock"] is not None and facts["memlock"] < memlock:
        limit = f"{facts['memlock'] // 1024} KiB"
        yield problem("memlock-low", seen.name, f"ulimit -l: {limit}", limit=limit, wanted=mebibytes(memlock))
    if facts["processes"] is not None and facts["processes"] < expected.processes:
        yield problem("pids-low", seen.name, "", left=facts["processes"], wanted=expected.processes)
    if facts["open_files"] is not None and facts["open_files"] < expected.open_files:
        yield problem("files-low", seen.name, "", limit=facts["open_files"], wanted=expected.open_files)
    if facts["address_space"] is not None and facts["address_space"] < _ADDRESS_SPACE_LEAST:
        limit = mebibytes(facts["address_space"])
        yield problem("address-space-low", seen.name, f"ulimit -v: {facts['address_space'] // 1024}", limit=limit)


def _check_disks(seen: Seen, facts: Facts, settings: Settings) -> t.Iterator[Problem]:
    wanted = settings.expected.disk_bytes
    for disk in facts["disks"]:
        if disk["free"] < wanted:
            free = mebibytes(disk["free"])
            yield problem(
                "disk-full", seen.name, f"{free} free", path=disk["path"], free=free, wanted=mebibytes(wanted)
            )
        elif disk["error"]:
            yield problem("disk-unwritable", seen.name, disk["error"], path=disk["path"])


def _check_clock(seen: Seen, facts: Facts, settings: Settings) -> t.Iterator[Problem]:
    callback = facts["callback"]
    # The answer may have taken all of its time on either way.
    if callback["status"] == "ok" and abs(callback["offset"]) - callback["seconds"] / 2 > settings.expected.clock_skew:
        yield problem("clock-off", seen.name, "", seconds=f"{callback['offset']:+.1f}")


_CHECKS: tuple[tuple[str, t.Callable[[Seen, Facts, Settings], t.Iterator[Problem]]], ...] = (
    ("environment", _check_environment),
    ("environment", _check_python),
    ("daemon", _check_daemon),
    ("daemon", _check_shell),
    ("libraries", _check_libraries),
    ("version", _check_version),
    ("program", _check_program),
    ("control", _check_control),
    ("callback", _check_callback),
    ("data", _check_data),
    ("gpus", _check_gpus),
    ("limits", _check_limits),
    ("disk", _check_disks),
    ("clock", _check_clock),
)


def mebibytes(size: int) -> str:
    """A size in bytes as text, rounded down to MiB."""
    return f"{size // _MIB} MiB"


def check_names(seen: t.Mapping[str, Seen]) -> dict[str, list[Finding]]:
    """The findings of peers that Open MPI takes for one host, by peer."""
    facts = {name: one.facts for name, one in seen.items() if one.facts}
    addresses = {
        name: [address for interface in own["interfaces"].values() for address in interface["addresses"]]
        for name, own in facts.items()
    }
    found: dict[str, list[Finding]] = {}
    for item in shared_names({name: own["hostname"] for name, own in facts.items()}, addresses):
        found.setdefault(str(item.host), []).append(Finding("daemon", item))
    return found


def control_of(seen: Seen, settings: Settings) -> str | None:
    """The interface or subnet of a peer's control network."""
    return settings.control if seen.control is None else seen.control or None


def data_of(seen: Seen, settings: Settings) -> list[str]:
    """The names of a peer's data interfaces."""
    return settings.data_interfaces if seen.data is None else [name for name in seen.data.split(",") if name]


def own_networks(seen: Seen, settings: Settings) -> dict[str, str]:
    """What a peer calls each network that it has a part of: those of the settings, in their order."""
    return {CONTROL: CONTROL, **dict(zip(settings.data_interfaces, data_of(seen, settings)))}


def _networks(settings: Settings) -> list[str]:
    """What ``Seen.links`` calls the control network and each data network."""
    return [CONTROL, *settings.data_interfaces]


def _interface_of(seen: Seen, network: str, settings: Settings) -> str | None:
    """The interface or subnet by which a peer is in a network."""
    return control_of(seen, settings) if network == CONTROL else own_networks(seen, settings).get(network)


def _stage_of(network: str) -> str:
    return "control" if network == CONTROL else "data"


def _shared_addresses(network: str, seen: t.Mapping[str, Seen], settings: Settings) -> dict[str, list[str]]:
    """The peers that have one address on a network, by that address."""
    holders: dict[str, dict[str, str]] = {}
    for name, one in seen.items():
        if one.facts is None:
            continue
        interface = _interface_of(one, network, settings)
        for address in _addresses(one.facts["interfaces"].get(interface, {"addresses": []})):
            # Peers with one host name have a problem of their own.
            holders.setdefault(address, {}).setdefault(one.facts["hostname"], name)
    return {address: list(names.values()) for address, names in holders.items() if len(names) > 1}


def check_addresses(seen: t.Mapping[str, Seen], settings: Settings) -> dict[str, list[Finding]]:
    """The findings of peers that have one address on the control network or a data network, by peer."""
    found: dict[str, list[Finding]] = {}
    for network in _networks(settings):
        stage = _stage_of(network)
        for address, names in _shared_addresses(network, seen, settings).items():
            for name in names:
                interface = _interface_of(seen[name], network, settings)
                facts = {"address": address, "interface": interface, "hosts": listing(names)}
                found.setdefault(name, []).append(Finding(stage, problem("address-shared", name, "", **facts)))
    return found


def check_links(seen: t.Mapping[str, Seen], settings: Settings) -> dict[str, list[Finding]]:
    """The findings of links between peers over the control network and each data network, by the peer that is to blame.

    A peer that fails with two or more others is to blame for that; what is left lies between two. Where peers share an address,
    any link may fail for that, and none is to blame.
    """
    found: dict[str, list[Finding]] = {}
    for network in _networks(settings):
        if _shared_addresses(network, seen, settings):
            continue
        for name, finding in _check_links_of(network, seen, settings):
            found.setdefault(name, []).append(finding)
    return found


def _check_links_of(network: str, seen: t.Mapping[str, Seen], settings: Settings) -> t.Iterator[tuple[str, Finding]]:
    kind = _stage_of(network)
    bad: dict[frozenset[str], list[tuple[str, str, str]]] = {}
    for name, one in seen.items():
        for other, result in one.links.get(network, {}).items():
            if result["status"] != "ok":
                bad.setdefault(frozenset((name, other)), []).append((name, other, result["status"]))
    place = {name: number for number, name in enumerate(seen)}
    left: dict[str, dict[frozenset[str], None]] = {}
    for pair in bad:
        for name in pair & place.keys():
            left.setdefault(name, {})[pair] = None
    # The first in the order of the peers, where several fail with as many. Of a count that has changed since, the new one comes later.
    waiting = [(-len(pairs), place[name], name) for name, pairs in left.items()]
    heapq.heapify(waiting)
    while waiting:
        count, number, worst = heapq.heappop(waiting)
        own = list(left[worst])
        if len(own) < -count:
            if own:
                heapq.heappush(waiting, (-len(own), number, worst))
            continue
        for pair in own:
            for name in pair & left.keys():
                del left[name][pair]
        attempts = [attempt for pair in own for attempt in bad[pair]]
        partners = {name for pair in own for name in pair - {worst}}
        others = ", ".join(sorted(partners & place.keys(), key=place.__getitem__))
        evidence = "; ".join(f"{name} to {other}: {status}" for name, other, status in attempts)
        interface = _interface_of(seen[worst], network, settings)
        facts: Facts = {"interface": interface, "peer": others, "peers": others}
        if all(status == "large-lost" for _name, _other, status in attempts):
            own_interface = (seen[worst].facts or {}).get("interfaces", {}).get(interface, {})
            item = problem(f"{kind}-mtu", worst, evidence, **facts, mtu=own_interface.get("mtu"))
        else:
            item = problem(f"{kind}-{'link' if len(own) == 1 else 'unreachable'}", worst, evidence, **facts)
        yield worst, Finding(kind, item)


def names_port(value: str, device: str, port: int) -> bool:
    """Whether a value of NCCL_IB_HCA selects a port: ``[^][=]DEVICE[:PORT],...``; without ``=``, names are prefixes."""
    exclude, exact, names = re.findall(r"\A(\^?)(=?)(.*)", value)[0]

    def meant(name: str) -> bool:
        wanted, _colon, number = name.partition(":")
        return (device == wanted if exact else device.startswith(wanted)) and number in ("", str(port))

    return any(meant(name.strip()) for name in names.split(",") if name.strip()) != bool(exclude)


def _of_ranks(name: str, facts: Facts, settings: Settings) -> str:
    """The value of one of RDMA_VARIABLES for the ranks of a host; empty if they have none."""
    if name in settings.rank_env:
        return settings.rank_env[name]
    own: str = facts["rdma_env"][name]
    return own or settings.launcher_env.get(name, "")


def check_rdma(seen: t.Mapping[str, Seen], settings: Settings) -> dict[str, list[Finding]]:
    """The findings of the RDMA ports in use: those that NCCL_IB_HCA selects, else those active on most peers."""
    ports = {name: one.facts["rdma"] for name, one in seen.items() if one.facts and "rdma" in one.facts}
    active = collections.Counter(
        (port["device"], port["port"]) for own in ports.values() for port in own if port["state"] == "ACTIVE"
    )
    found: dict[str, list[Finding]] = {}
    for name, own in ports.items():
        devices, index = (_of_ranks(variable, seen[name].facts or {}, settings) for variable in RDMA_VARIABLES)
        used = [
            port
            for port in own
            if (
                names_port(devices, port["device"], port["port"])
                if devices
                else active[port["device"], port["port"]] * 2 > len(ports)
            )
        ]
        problems = []
        if devices and not used:
            problems.append(problem("rdma-device-missing", name, "", devices=devices))
        for port in used:
            text = f"{port['device']}:{port['port']}"
            if port["state"] != "ACTIVE":
                problems.append(problem("rdma-port-down", name, "", port=text, state=port["state"]))
            # On InfiniBand NCCL takes no heed of the index (ncclIbGetGidIndex).
            elif port["link_layer"] != "InfiniBand" and re.match(r"[0-9]+\Z", index) and int(index) not in port["gids"]:
                problems.append(problem("rdma-gid-missing", name, "", port=text, index=index))
        found[name] = [Finding("rdma", item) for item in problems]
    return found
