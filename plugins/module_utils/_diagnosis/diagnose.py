# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The catalogue of all causes, and how the problems of a run combine with those that checks of its hosts find."""

from __future__ import annotations

import collections
import dataclasses
import ipaddress
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis import (
    causes_build,
    causes_gpu,
    causes_hangs,
    causes_kubernetes,
    causes_launch,
    causes_nccl,
    causes_runs,
    causes_ssh,
    causes_system,
    causes_workers,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.catalogue import Catalogue
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.entry import ECHO, EFFECT, Entry, entry
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem

#: The entries of each chapter of the documentation.
DOMAINS: dict[str, tuple[Entry, ...]] = {
    "What the workers have": causes_workers.ENTRIES,
    "Building nccl-tests": causes_build.ENTRIES,
    "Runs and their owners": causes_runs.ENTRIES,
    "Names and ssh": causes_ssh.ENTRIES,
    "mpirun and the program": causes_launch.ENTRIES,
    "Runs that hang": causes_hangs.ENTRIES,
    "NCCL and nccl-tests": causes_nccl.ENTRIES,
    "GPUs": causes_gpu.ENTRIES,
    "Memory, limits, files, networks": causes_system.ENTRIES,
    "Kubernetes": causes_kubernetes.ENTRIES,
    "Anything else": (
        entry(
            "unknown",
            "The run failed, for a reason that the collection does not know.",
            "Read the evidence and the whole output; run it again with NCCL_DEBUG=INFO, and run the playbook diagnose, or mpi_preflight.",
            precedence=ECHO + 90,
        ),
    ),
}
CATALOGUE = Catalogue(*DOMAINS.values())
problem = CATALOGUE.problem
diagnose = CATALOGUE.diagnose

#: Causes with which a program may end with 0: nccl-tests does so after the usage that it prints for an option that it does not know.
ENDS_WELL = ("test-argument",)
#: What mpirun of Open MPI 5.0.11 says of a daemon that it has lost. It ends with 0 then.
LOST_DAEMON = "lost communication with a remote daemon"
#: Causes that only a check of the host can name, and what mpirun, or a look at a run that hangs, reports instead of each.
_CHECK_EXPLAINS = {
    "address-space-low": "host-memory",
    "mpi-prefix-differs": "daemon-missing",
    # Which ranks crash is chance.
    "mpi-version-differs": "rank-crashed",
    "env-not-accepted": "daemon-library-missing",
    "env-not-sent": "daemon-library-missing",
    "ssh-max-startups": "ssh-closed",
    "connect-timeout": "host-frozen",
    "connect-unreachable": "host-frozen",
    "callback-refused": "callback-timeout",
    "callback-rejected": "callback-timeout",
    "callback-unreachable": "callback-timeout",
}
#: What a run says of a host while it hangs, and what a check of that host reports afterwards of the same.
_RUN_EXPLAINS = {"host-frozen": "ssh-banner-timeout"}
#: The interface that Open MPI does not find, in its message.
_INTERFACE = re.compile(r"\bValue: +(\S+)")

#: The interfaces of a host by name; each has its ``addresses`` with the lengths of their prefixes.
Interfaces = t.Mapping[str, t.Mapping[str, t.Any]]


def combine_with_checks(
    problems: t.Sequence[Problem],
    checked: t.Iterable[Problem],
    interfaces: t.Mapping[str, Interfaces] | None = None,
) -> list[Problem]:
    """The problems of a run that failed, with the errors that checks of its hosts found; the first causes come first.

    A check knows which host is at fault; mpirun often names another host or none. Problems that only say that the launch
    failed are left out if a check says why. ``interfaces``: those that the checks found, by host.
    """
    problems = _place_missing_interfaces(problems, interfaces or {})
    known_before = {(_RUN_EXPLAINS.get(item.id), item.host) for item in problems}
    errors = [item for item in checked if item.severity == "error" and (item.id, item.host) not in known_before]
    hosts = collections.defaultdict(set)
    for item in errors:
        hosts[item.id].add(item.host)
    # Whichever host mpirun named.
    explained = {_CHECK_EXPLAINS[identity] for identity in hosts if identity in _CHECK_EXPLAINS} - set(hosts)
    kept = [
        item
        for item in problems
        if not errors
        or (
            _precedence(item) < ECHO
            and item.id not in explained
            and (item.id not in hosts or item.host in hosts[item.id])
        )
    ]
    # If only one host shows consequences, a cause that names no host is the cause on that host.
    followers = {item.host for item in errors if _precedence(item) >= EFFECT}
    if len(followers) == 1 and any(_may_have_host(item) and _precedence(item) < EFFECT for item in kept):
        (host,) = followers
        kept = [dataclasses.replace(item, host=host) if _may_have_host(item) else item for item in kept]
        errors = [item for item in errors if _precedence(item) < EFFECT]
    known = {(item.id, item.host) for item in kept}
    kept += [item for item in errors if (item.id, item.host) not in known]
    return sorted(kept, key=_precedence) if errors or followers else kept


def _may_have_host(item: Problem) -> bool:
    """Whether an error that names no host may turn out to be that of one."""
    return item.severity == "error" and item.host is None and not _entry(item).shared


def _place_missing_interfaces(
    problems: t.Sequence[Problem], interfaces: t.Mapping[str, Interfaces]
) -> t.Sequence[Problem]:
    """The problems, with one for each host that lacks the interface that MPI does not find: Open MPI names only the first host.

    If no host has the interface, the setting is wrong, and the problem belongs to no host.
    """
    identity = "btl-interface-missing"
    placed: dict[tuple[str, str | None], Problem] = {}
    for item in problems:
        value = _INTERFACE.search(item.evidence) if item.id == identity else None
        lacking: list[str | None] = [host for host, own in interfaces.items() if value and not _has(own, value[1])]
        if value and lacking and len(lacking) == len(interfaces):
            found = [problem(identity, None, item.evidence, item.severity, value=value[1], where="any host")]
        else:
            found = [dataclasses.replace(item, host=host) for host in lacking] or [item]
        for one in found:
            placed.setdefault((one.id, one.host), one)
    return list(placed.values())


def _has(interfaces: Interfaces, wanted: str) -> bool:
    """Whether a host has an interface with an address, by its name or by the network that it is in."""
    if wanted in interfaces:
        return bool(interfaces[wanted]["addresses"])
    try:
        network = ipaddress.ip_network(wanted, strict=False)
    except ValueError:
        return False
    return any(ipaddress.ip_interface(item).ip in network for own in interfaces.values() for item in own["addresses"])


def _precedence(item: Problem) -> int:
    return _entry(item).precedence


def _entry(item: Problem) -> Entry:
    # Another machine may name a problem that is not in the catalogue.
    return CATALOGUE.entries.get(item.id, CATALOGUE.entries["unknown"])
