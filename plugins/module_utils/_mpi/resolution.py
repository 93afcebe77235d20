# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The addresses of a hostfile's names, waited for, and of several the one on the control network."""

from __future__ import annotations

import dataclasses
import ipaddress
import math
import queue
import socket
import threading
import time
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.node_catalogue import NODE_CATALOGUE
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem, ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.hostfile import Host, candidates
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import is_numeric

Network = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]

#: What is said of a lookup that the name server has not answered when the time is up.
NO_ANSWER = "no answer in time"
#: How many names a line of a wait shows.
_MOST_SHOWN = 4


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


def is_silence(error: str) -> bool:
    """Whether a lookup ended without any answer of a name server, by its error."""
    return error == NO_ANSWER or "Temporary failure" in error


@dataclasses.dataclass
class Resolution:
    """What came of looking names up, by host.

    ``found``: the name that resolves and its addresses. ``stale``: the same where the expected address is not among
    them. ``errors``: by each name that was tried last and has no address, why not. ``waited``: seconds, those of earlier
    calls too. ``late``: after how many seconds those resolved that did not at once. ``has_time``: whether there is time left.
    """

    found: dict[str, tuple[str, list[str]]] = dataclasses.field(default_factory=dict)
    stale: dict[str, tuple[str, list[str]]] = dataclasses.field(default_factory=dict)
    errors: dict[str, str] = dataclasses.field(default_factory=dict)
    waited: float = 0.0
    late: dict[str, float] = dataclasses.field(default_factory=dict)
    has_time: bool = False

    @classmethod
    def from_dict(cls, value: t.Mapping[str, t.Any]) -> Resolution:
        """The same from what ``dataclasses.asdict`` made of one. Raises LookupError, TypeError and ValueError where it is none."""
        found, stale = (
            {str(host): (str(name), [str(address) for address in addresses]) for host, (name, addresses) in of.items()}
            for of in (dict(value["found"]), dict(value["stale"]))
        )
        errors = {str(name): str(error) for name, error in dict(value["errors"]).items()}
        late = {str(host): float(seconds) for host, seconds in dict(value["late"]).items()}
        return cls(found, stale, errors, float(value["waited"]), late)


class Resolver:
    """Resolves names by the node's own resolver, all at once, again and again until all do or time is up."""

    def __init__(
        self,
        timeout: float,
        interval: float,
        lookup: t.Callable[[str], list[str]] | None = None,
        part: float = math.inf,
        earlier: Resolution | None = None,
    ) -> None:
        """Times in seconds. ``lookup``: the addresses of a name; raises OSError where it does not resolve.

        A wait may be made in parts. ``part``: how long this one may be. ``earlier``: what came of those before.
        """
        self.timeout = timeout
        self.interval = interval
        self.part = part
        self.earlier = earlier
        self._lookup = lookup or lookup_addresses

    def resolve(self, wanted: t.Mapping[str, t.Sequence[str]], expected: t.Mapping[str, str]) -> Resolution:
        """For each host the first of its names that resolves, and to the expected address where there is one.

        ``wanted``: the names to try, by host.
        """
        result = self.earlier or Resolution()
        # An operator may have written the hostfile anew meanwhile.
        result.found = {host: found for host, found in result.found.items() if host in wanted}
        again = self.earlier is not None
        if again:
            time.sleep(self.interval)
        begin = time.monotonic() - result.waited
        end = result.waited + self.part
        while True:
            open_names = [name for host, names in wanted.items() if host not in result.found for name in names]
            remaining = self.timeout - (time.monotonic() - begin)
            answers, errors = self._lookup_all(open_names, max(remaining, 1.0))
            before, result.stale = result.stale, {}
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
                elif host in before and is_silence(errors[before[host][0]]):
                    # No name server answered that again.
                    result.stale[host] = before[host]
            # As above: what it has answered before is more than that.
            result.errors = {
                name: result.errors.get(name, error) if is_silence(error) else error for name, error in errors.items()
            }
            result.has_time = result.waited + self.interval <= self.timeout
            is_over = result.waited + self.interval > end
            if len(result.found) == len(wanted) or is_over or not result.has_time:
                return result
            again = True
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


def wait_line(waiting: t.Mapping[str, str], waited: float) -> str:
    """What is shown of a wait. ``waiting``: why each name does not resolve; ``waited``: seconds."""
    shown = [f"{name} ({reason})" for name, reason in list(waiting.items())[:_MOST_SHOWN]]
    more = f" and {len(waiting) - len(shown)} more" if len(waiting) > len(shown) else ""
    return f"after {waited:.0f} s waiting for names: {', '.join(shown)}{more}"


class UnresolvedNames(ProblemError):
    """Names that did not resolve in time, or to the address of another host: ``names`` and ``stale``."""

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
        self.answer = answer
        super().__init__(
            *(unresolved_problem(name, self.errors.get(name, ""), name) for name in self.names),
            *map(_stale_problem, self.stale),
        )
        self.args = (self._text(timeout),)
        self.details = {"unresolved": self.names, "stale": self.stale, "lookup_errors": self.errors}

    def waiting(self) -> dict[str, str]:
        """Why each open host does not resolve, or to which wrong address it does."""
        reasons = {name: self.errors.get(name, NO_ANSWER) for name in self.names}
        return {**reasons, **{str(item["name"]): _stale_text(item) for item in self.stale}}

    def _text(self, timeout: float) -> str:
        texts = []
        if self.names:
            texts.append(f"names that do not resolve on this node after {timeout:g} s: {', '.join(self.names)}")
        if self.stale:
            pairs = (f"{item['name']} is {_stale_text(item)}" for item in self.stale)
            texts.append(
                f"names that still resolve to the address of another host after {timeout:g} s: {', '.join(pairs)}; such"
                " records are of earlier hosts or pods of the same name: delete the old job fully, give each job a name"
                " of its own, wait longer than the DNS cache keeps records, or set use_expected"
            )
        return "; ".join(texts)


def unresolved_problem(name: str, reason: str, host: str) -> Problem:
    """A name without an address: ``reason`` tells whether there is none, or nobody who would know."""
    return NODE_CATALOGUE.problem(
        "name-server-silent" if is_silence(reason) else "name-unresolved", host, reason, name=name
    )


def late_problem(name: str, seconds: float) -> Problem:
    """A name that resolved only after so many seconds."""
    return NODE_CATALOGUE.problem("name-late", name, name=name, seconds=f"{seconds:.1f}")


def _stale_text(item: t.Mapping[str, t.Any]) -> str:
    return f"{', '.join(item['addresses'])} and not {item['expected']}"


def _stale_problem(item: t.Mapping[str, t.Any]) -> Problem:
    facts = {**item, "addresses": ", ".join(item["addresses"])}
    return NODE_CATALOGUE.problem("name-stale", item["name"], facts["addresses"], **facts)
