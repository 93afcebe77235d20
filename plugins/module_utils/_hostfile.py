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

#: What is said of a lookup that the name server has not answered when the time is up.
NO_ANSWER = "no answer in time"


@dataclasses.dataclass(frozen=True)
class Host:
    """A line of a hostfile: a name or a numeric address, and the ranks that the host takes. ``address``: known before."""

    name: str
    slots: int
    address: str | None = None


@dataclasses.dataclass(frozen=True)
class ControlNetwork:
    """The network that hosts reach each other by: a subnet, or where ``reached`` is given also what lies behind it.

    Behind an interface may be much more than its own subnet: pods often have a subnet for each node, or for each pod.
    ``reached``: whether this node reaches an address that way.
    """

    subnet: Network
    text: str
    reached: t.Callable[[str], bool] | None = None

    def among(self, addresses: t.Iterable[str]) -> list[str]:
        """The addresses that are in it."""
        addresses = list(addresses)
        inside = [item for item in addresses if ipaddress.ip_address(item) in self.subnet]
        if not inside and self.reached is not None:
            inside = [item for item in addresses if self.reached(item)]
        return inside


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
    known = []
    for name, address in expected.items():
        if not is_numeric(str(address)):
            raise OptionError(f"expected[{name}]", address, "a numeric address")
        known.append((cluster_labels(name, cluster_domain), str(ipaddress.ip_address(str(address)))))
    matched = {}
    for host in hosts:
        if is_numeric(host.name):
            continue
        labels = cluster_labels(host.name, cluster_domain)
        closest, found = 0, set()
        for other, address in known:
            common = min(len(labels), len(other))
            if labels[:common] == other[:common] and common >= closest:
                found = {address} if common > closest else found | {address}
                closest = common
        if len(found) > 1:
            raise OptionError(
                "expected", ", ".join(sorted(found)), f"one address for {host.name}; write the names in full"
            )
        if found:
            matched[host.name] = found.pop()
    return matched


def choose(name: str, addresses: t.Iterable[str], control: ControlNetwork | None) -> str:
    """The one address of a host that others reach it by, of those that its name resolves to. Raises NodeError.

    Loopback is none of them: many systems give their own name 127.0.1.1 in /etc/hosts.
    """
    found = sorted(set(addresses), key=ipaddress.ip_address if len({":" in item for item in addresses}) == 1 else str)
    usable = [item for item in found if not ipaddress.ip_address(item).is_loopback]
    if not usable:
        raise NodeError(
            f"{name} resolves to loopback only ({', '.join(found)}); correct /etc/hosts on this node, or give the host's address"
        )
    if control is not None:
        inside = control.among(usable)
        if not inside:
            raise NodeError(f"{name} has no address in {control.text}: {', '.join(usable)}")
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


@dataclasses.dataclass
class Resolution:
    """What came of looking names up, by host.

    ``found``: the name that resolves and its addresses. ``stale``: the same where the expected address is not among
    them. ``errors``: by each name that was tried last and has no address, why not. ``waited``: seconds. ``late``: after how
    many seconds those resolved that did not at once.
    """

    found: dict[str, tuple[str, list[str]]] = dataclasses.field(default_factory=dict)
    stale: dict[str, tuple[str, list[str]]] = dataclasses.field(default_factory=dict)
    errors: dict[str, str] = dataclasses.field(default_factory=dict)
    waited: float = 0.0
    late: dict[str, float] = dataclasses.field(default_factory=dict)


class Resolver:
    """Resolves names by the node's own resolver, all at once, again and again until all do or time is up."""

    def __init__(self, timeout: float, interval: float, lookup: t.Callable[[str], list[str]] | None = None) -> None:
        """Times in seconds. ``lookup``: the addresses of a name; raises OSError where it does not resolve."""
        self.timeout = timeout
        self.interval = interval
        self._lookup = lookup or lookup_addresses

    def resolve(self, wanted: t.Mapping[str, t.Sequence[str]], expected: t.Mapping[str, str]) -> Resolution:
        """For each host the first of its names that resolves, and to the expected address where there is one.

        ``wanted``: the names to try, by host.
        """
        begin = time.monotonic()
        result = Resolution()
        while True:
            open_names = [name for host, names in wanted.items() if host not in result.found for name in names]
            remaining = self.timeout - (time.monotonic() - begin)
            answers, errors = self._lookup_all(open_names, max(remaining, 1.0))
            before, result.stale = result.stale, {}
            again = result.waited > 0
            result.waited = time.monotonic() - begin
            for host, names in wanted.items():
                if host in result.found:
                    continue
                resolved = [(name, answers[name]) for name in names if name in answers]
                right = [entry for entry in resolved if expected.get(host, entry[1][0]) in entry[1]]
                if right:
                    result.found[host] = right[0]
                    if again:
                        result.late[host] = result.waited
                elif resolved:
                    result.stale[host] = resolved[0]
                elif host in before and all(errors[name] == NO_ANSWER for name in names):
                    # Time was up before a name server answered again.
                    result.stale[host] = before[host]
            # As above: what it has answered before is more than that.
            result.errors = {
                name: result.errors.get(name, error) if error == NO_ANSWER else error for name, error in errors.items()
            }
            if len(result.found) == len(wanted) or result.waited + self.interval > self.timeout:
                return result
            time.sleep(self.interval)

    def _lookup_all(self, names: t.Sequence[str], timeout: float) -> tuple[dict[str, list[str]], dict[str, str]]:
        """The addresses of names, and of the others why they have none."""
        # A name server that does not answer holds a lookup up for half a minute, and it cannot be interrupted:
        # daemon threads are left behind when the time is up.
        todo: queue.Queue[str] = queue.Queue()
        done: queue.Queue[tuple[str, list[str], str]] = queue.Queue()
        for name in names:
            todo.put(name)

        def work() -> None:
            while True:
                try:
                    name = todo.get_nowait()
                except queue.Empty:
                    return
                try:
                    done.put((name, self._lookup(name), ""))
                except OSError as error:
                    done.put((name, [], error.strerror or str(error)))
                except UnicodeError as error:
                    # A label that is too long.
                    done.put((name, [], str(error)))

        for _thread in range(min(64, len(names))):
            threading.Thread(target=work, daemon=True).start()
        addresses: dict[str, list[str]] = {}
        errors = dict.fromkeys(names, NO_ANSWER)
        deadline = time.monotonic() + timeout
        for _name in names:
            try:
                name, found, error = done.get(timeout=max(deadline - time.monotonic(), 0.01))
            except queue.Empty:
                break
            if found:
                addresses[name] = found
                del errors[name]
            else:
                errors[name] = error
        return addresses, errors


def lookup_addresses(name: str) -> list[str]:
    """All addresses of a name, as ``getent ahosts`` finds them. Raises OSError where it does not resolve."""
    return sorted({item[4][0] for item in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)})


def source_address(address: str) -> str | None:
    """The address of its own that this node reaches another by; None where it has no route there. Sends nothing."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            return probe.getsockname()[0]
    except OSError:
        return None


def resolve_hosts(
    hosts: t.Sequence[Host],
    resolver: Resolver,
    rewrite: str,
    cluster_domain: str,
    control: ControlNetwork | None,
    expected: t.Mapping[str, str],
) -> tuple[list[tuple[Host, str, str]], Resolution]:
    """For each host its name as it resolves and its numeric address; and what came of looking the names up.

    ``expected``: the address that a name must have, by host. Raises UnresolvedNames where a name does not resolve in
    time, or not to that; NodeError where one has no usable address, or has the address of another.
    """
    wanted = {
        host.name: candidates(host.name, rewrite, cluster_domain)
        for host in hosts
        if host.address is None and not is_numeric(host.name)
    }
    answer = resolver.resolve(wanted, expected) if wanted else Resolution()
    if len(answer.found) < len(wanted):
        raise UnresolvedNames(list(wanted), answer, expected, resolver.timeout)
    resolved = []
    by_address: dict[str, str] = {}
    for host in hosts:
        name, addresses = answer.found.get(host.name, (host.name, [host.name]))
        if host.address is not None:
            address = host.address
        elif host.name not in answer.found:
            address = host.name
        else:
            address = choose(name, [expected[host.name]] if host.name in expected else addresses, control)
        other = by_address.setdefault(address, host.name)
        if other != host.name:
            raise NodeError(
                f"{other} and {host.name} have the same address {address}; each host once, with all its slots"
            )
        resolved.append((host, name, address))
    return resolved, answer


class UnresolvedNames(NodeError):
    """Names that did not resolve in time (``names``), or to the address of another host (``stale``)."""

    def __init__(
        self, hosts: t.Sequence[str], answer: Resolution, expected: t.Mapping[str, str], timeout: float
    ) -> None:
        self.names = [host for host in hosts if host not in answer.found and host not in answer.stale]
        self.stale = [
            {"name": host, "addresses": answer.stale[host][1], "expected": expected[host]}
            for host in hosts
            if host in answer.stale
        ]
        self.errors = answer.errors
        texts = []
        if self.names:
            texts.append(f"names that do not resolve on this node after {timeout:g} s: {', '.join(self.names)}")
        if self.stale:
            pairs = (
                f"{item['name']} is {', '.join(item['addresses'])} and not {item['expected']}" for item in self.stale
            )
            texts.append(
                f"names that still resolve to the address of another host after {timeout:g} s: {', '.join(pairs)}; such"
                " records are of earlier hosts or pods of the same name: delete the old job fully, give each job a name"
                " of its own, wait longer than the DNS cache keeps records, or set use_expected"
            )
        super().__init__("; ".join(texts))
