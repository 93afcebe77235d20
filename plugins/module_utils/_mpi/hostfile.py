# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Hostfiles of Open MPI: read, resolved to numeric addresses, written."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import WORKER_NAME
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import is_numeric

# Four numbers are an address or a mistake.
_NAME = re.compile(r"(?!\d+(?:\.\d+){3}\Z)[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?\.?\Z")


@dataclasses.dataclass(frozen=True)
class Host:
    """A line of a hostfile: a name or a numeric address, and the ranks that the host takes. ``address``: known before."""

    name: str
    slots: int
    address: str | None = None


def parse_hosts(values: t.Sequence[t.Mapping[str, t.Any]], numeric: bool = True) -> list[Host]:
    """Hosts from the option of the module. ``numeric``: the hostfile has their addresses, and not their names. Raises OptionError."""
    if not values:
        raise OptionError("hosts", list(values), "at least one host with its name or address")
    hosts = []
    for index, value in enumerate(values):
        option = f"hosts[{index}]"
        address = value.get("address")
        name = value.get("name") or address
        if name is None:
            raise OptionError(option, dict(value), "a host with its name, its address, or both")
        if address is not None and not is_numeric(address):
            raise OptionError(f"{option}.address", address, "a numeric address; a name goes into name")
        if address is not None and numeric:
            if not WORKER_NAME.is_allowed(name):
                raise OptionError(f"{option}.name", name, WORKER_NAME.allowed)
        elif not is_numeric(name) and not _NAME.match(name):
            raise OptionError(f"{option}.name", name, "a host name or a numeric address")
        slots = value.get("slots")
        if slots is None or slots < 1:
            raise OptionError(f"{option}.slots", slots, "1 or more")
        hosts.append(Host(name, slots, address))
    doubles = _doubles((f"hosts[{index}]", host) for index, host in enumerate(hosts))
    if doubles:
        raise NodeError(f"hosts: {doubles}")
    return hosts


def parse_hostfile(text: str, path: str, default_slots: int = 1) -> list[Host]:
    """Hosts from the text of a hostfile. A line without slots has ``default_slots``.

    Raises GpufabricError, which names each line that is at fault.
    """
    hosts: list[tuple[str, Host]] = []
    mistakes = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#", 1)[0].strip()
        if not line:
            continue
        try:
            hosts.append((f"line {number}", _parse_line(line, default_slots)))
        except ValueError as error:
            mistakes.append(f"line {number}: {error}")
    doubles = _doubles(hosts)
    if doubles:
        mistakes.append(doubles)
    if not hosts and not mistakes:
        mistakes.append("it names no host")
    if mistakes:
        raise NodeError(f"hostfile {path}: {'; '.join(mistakes)}")
    return [host for _where, host in hosts]


def _parse_line(line: str, default_slots: int) -> Host:
    name, *settings = line.split()
    if "@" in name:
        raise ValueError(f"{name!r} names a user; ssh_config does that, so write {name.split('@', 1)[1]!r}")
    host, colon, slots = name.rpartition(":")
    if colon and not is_numeric(name):
        advice = f"write '{host} slots={slots}'" if slots.isdigit() else "write 'HOST slots=N'"
        raise ValueError(f"{name!r} is MPICH's way to give slots; Open MPI takes it for a name: {advice}")
    if not is_numeric(name) and not _NAME.match(name):
        raise ValueError(f"{name!r} is not a host name or a numeric address")
    count = default_slots
    for setting in settings:
        key, equals, value = setting.partition("=")
        if key in ("max_slots", "max-slots") and value.isdigit():
            continue
        if key not in ("slots", "cpu", "count") or not equals:
            raise ValueError(f"{setting!r} is not a setting of a hostfile; allowed: slots=N, max_slots=N")
        if not value.isdigit() or int(value) < 1:
            raise ValueError(f"slots {value!r} is not 1 or more")
        count = int(value)
    return Host(name, count)


def _doubles(hosts: t.Iterable[tuple[str, Host]]) -> str | None:
    """What is wrong where hosts are there more than once."""
    first: dict[str, str] = {}
    doubles = []
    for where, host in hosts:
        earlier = first.setdefault(host.name, where)
        if earlier != where:
            doubles.append(f"{where}: {host.name} is there already, {earlier}")
    return f"each host once, with all its slots: {'; '.join(doubles)}" if doubles else None


def candidates(name: str, rewrite: str, cluster_domain: str) -> list[str]:
    """The names to try for a host, in order.

    ``rewrite``: whether ``X.svc`` becomes ``X.svc.CLUSTER_DOMAIN``: ``true``, ``false``, or ``auto`` where only that
    resolves. Some clusters' resolvers know the long form alone.
    """
    if rewrite == "false" or not name.endswith(".svc"):
        return [name]
    long = f"{name}.{cluster_domain}"
    return [long] if rewrite == "true" else [name, long]


def is_cluster_domain(text: str) -> bool:
    """Whether it is a domain name."""
    return bool(_NAME.match(text))


def cluster_labels(name: str, cluster_domain: str) -> tuple[str, ...]:
    """The labels of a name without what is the same for all names of a cluster: ``(pod, service, namespace)`` or fewer."""
    name = name.rstrip(".").lower()
    for suffix in (f".{cluster_domain.rstrip('.').lower()}", ".svc"):
        if name.endswith(suffix):
            name = name[: -len(suffix)]
    return tuple(name.split("."))


def match_expected(hosts: t.Iterable[Host], expected: t.Mapping[str, t.Any], cluster_domain: str) -> dict[str, str]:
    """The address that each host's name is expected to have, by the name; hosts without one are not in it.

    ``expected``: addresses by names, which may be shorter or longer than the hosts'. The closest counts.
    Raises OptionError where an address is none, or two are as close.
    """
    # By all labels of a name, and by each beginning of them.
    whole: dict[tuple[str, ...], set[str]] = {}
    beginning: dict[tuple[str, ...], set[str]] = {}
    for name, address in expected.items():
        if not is_numeric(str(address)):
            raise OptionError(f"expected[{name}]", address, "a numeric address")
        labels, numeric = cluster_labels(name, cluster_domain), str(ipaddress.ip_address(str(address)))
        whole.setdefault(labels, set()).add(numeric)
        for count in range(1, len(labels) + 1):
            beginning.setdefault(labels[:count], set()).add(numeric)
    matched = {}
    for host in hosts:
        if is_numeric(host.name):
            continue
        labels = cluster_labels(host.name, cluster_domain)
        shorter = (labels[:count] for count in range(len(labels) - 1, 0, -1))
        nothing: set[str] = set()
        found = beginning.get(labels, nothing) or next((whole[part] for part in shorter if part in whole), nothing)
        if len(found) > 1:
            raise OptionError(
                "expected", ", ".join(sorted(found)), f"one address for {host.name}; write the names in full"
            )
        if found:
            matched[host.name] = next(iter(found))
    return matched


def render_hostfile(hosts: t.Iterable[tuple[str, int]]) -> str:
    """The text of a hostfile from names or addresses and their slots."""
    return "".join(f"{name} slots={slots}\n" for name, slots in hosts)
