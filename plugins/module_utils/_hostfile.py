# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Hostfiles of Open MPI: read, resolved to numeric addresses, written."""

from __future__ import annotations

import dataclasses
import ipaddress
import queue
import re
import socket
import threading
import time
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError

# Four numbers are an address or a mistake.
_NAME = re.compile(r"(?!\d+(?:\.\d+){3}\Z)[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?\.?\Z")

Network = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]


@dataclasses.dataclass(frozen=True)
class Host:
    """A line of a hostfile: a name or a numeric address, and the ranks that the host takes. ``address``: known before."""

    name: str
    slots: int
    address: str | None = None


def is_numeric(name: str) -> bool:
    """Whether a host is given by its IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def parse_hosts(values: t.Sequence[t.Mapping[str, t.Any]]) -> list[Host]:
    """Hosts from the option of the module. Raises OptionError."""
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
        if not is_numeric(name) and not _NAME.match(name):
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


def choose(name: str, addresses: t.Iterable[str], preferred: Network | None) -> str:
    """The one address of a host that others reach it by, of those that its name resolves to. Raises NodeError.

    Loopback is none of them: many systems give their own name 127.0.1.1 in /etc/hosts.
    """
    found = sorted(set(addresses), key=ipaddress.ip_address if len({":" in item for item in addresses}) == 1 else str)
    usable = [item for item in found if not ipaddress.ip_address(item).is_loopback]
    if not usable:
        raise NodeError(
            f"{name} resolves to loopback only ({', '.join(found)}); correct /etc/hosts on this node, or give the host's address"
        )
    if preferred is not None:
        inside = [item for item in usable if ipaddress.ip_address(item) in preferred]
        if not inside:
            raise NodeError(f"{name} has no address in {preferred}: {', '.join(usable)}")
        usable = inside
    usable = [item for item in usable if ":" not in item] or usable
    if len(usable) > 1:
        raise NodeError(
            f"{name} has more than one address: {', '.join(usable)}; set subnet or interface, or the host's address"
        )
    return usable[0]


def render_hostfile(hosts: t.Iterable[tuple[str, int]]) -> str:
    """The text of a hostfile from names or addresses and their slots."""
    return "".join(f"{name} slots={slots}\n" for name, slots in hosts)


class Resolver:
    """Resolves names by the node's own resolver, all at once, again and again until all do or time is up."""

    def __init__(self, timeout: float, interval: float, lookup: t.Callable[[str], list[str]] | None = None) -> None:
        """Times in seconds. ``lookup``: the addresses of a name, none where it does not resolve."""
        self.timeout = timeout
        self.interval = interval
        self._lookup = lookup or lookup_addresses

    def resolve(self, wanted: t.Mapping[str, t.Sequence[str]]) -> tuple[dict[str, tuple[str, list[str]]], float]:
        """For each host the first of its names that resolves, with its addresses; and the seconds waited.

        ``wanted``: the names to try, by host. A host of which none resolves within the time is not in the answer.
        """
        begin = time.monotonic()
        found: dict[str, tuple[str, list[str]]] = {}
        while True:
            open_names = [name for host, names in wanted.items() if host not in found for name in names]
            remaining = self.timeout - (time.monotonic() - begin)
            answers = self._lookup_all(open_names, max(remaining, 1.0))
            for host, names in wanted.items():
                for name in names:
                    if host not in found and answers.get(name):
                        found[host] = (name, answers[name])
            waited = time.monotonic() - begin
            if len(found) == len(wanted) or waited + self.interval > self.timeout:
                return found, waited
            time.sleep(self.interval)

    def _lookup_all(self, names: t.Sequence[str], timeout: float) -> dict[str, list[str]]:
        # A name server that does not answer holds a lookup up for half a minute, and it cannot be interrupted:
        # daemon threads are left behind when the time is up.
        todo: queue.Queue[str] = queue.Queue()
        done: queue.Queue[tuple[str, list[str]]] = queue.Queue()
        for name in names:
            todo.put(name)

        def work() -> None:
            while True:
                try:
                    name = todo.get_nowait()
                except queue.Empty:
                    return
                done.put((name, self._lookup(name)))

        for _thread in range(min(64, len(names))):
            threading.Thread(target=work, daemon=True).start()
        answers: dict[str, list[str]] = {}
        deadline = time.monotonic() + timeout
        while len(answers) < len(names):
            try:
                name, addresses = done.get(timeout=max(deadline - time.monotonic(), 0.01))
            except queue.Empty:
                break
            answers[name] = addresses
        return answers


def lookup_addresses(name: str) -> list[str]:
    """All addresses of a name, as ``getent ahosts`` finds them; none where it does not resolve."""
    try:
        return sorted({item[4][0] for item in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)})
    except OSError:
        return []


def resolve_hosts(
    hosts: t.Sequence[Host], resolver: Resolver, rewrite: str, cluster_domain: str, preferred: Network | None
) -> tuple[list[tuple[Host, str, str]], float]:
    """For each host its name as it resolves and its numeric address; and the seconds waited.

    Raises NodeError where a name does not resolve in time, has no usable address, or has the address of another.
    """
    if not cluster_domain or not _NAME.match(cluster_domain):
        raise OptionError("cluster_domain", cluster_domain, "a domain name, such as cluster.local")
    wanted = {
        host.name: candidates(host.name, rewrite, cluster_domain)
        for host in hosts
        if host.address is None and not is_numeric(host.name)
    }
    found, waited = resolver.resolve(wanted) if wanted else ({}, 0.0)
    missing = [host for host in wanted if host not in found]
    if missing:
        raise UnresolvedNames(missing, resolver.timeout)
    resolved = []
    by_address: dict[str, str] = {}
    for host in hosts:
        name, addresses = found.get(host.name, (host.name, [host.name]))
        address = host.address or (choose(name, addresses, preferred) if host.name in found else host.name)
        other = by_address.setdefault(address, host.name)
        if other != host.name:
            raise NodeError(
                f"{other} and {host.name} have the same address {address}; each host once, with all its slots"
            )
        resolved.append((host, name, address))
    return resolved, waited


class UnresolvedNames(NodeError):
    """Names that did not resolve in time."""

    def __init__(self, names: t.Sequence[str], timeout: float) -> None:
        super().__init__(f"names that do not resolve on this node after {timeout:g} s: {', '.join(names)}")
        self.names = list(names)
