# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""A node's network interfaces, the choice of one address among them, and free TCP ports."""

from __future__ import annotations

import ctypes
import dataclasses
import errno
import ipaddress
import random
import re
import socket
import struct
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import read_text

#: The three ways to say which of a node's addresses is meant; at most one of them.
ADDRESS_ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    "address": {"type": "str"},
    "interface": {"type": "str"},
    "subnet": {"type": "str"},
}


@dataclasses.dataclass(frozen=True)
class InterfaceAddress:
    """One address of one interface."""

    interface: str
    address: str
    prefix_length: int

    @property
    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        """The subnet that the address is in."""
        return ipaddress.ip_network(f"{self.address}/{self.prefix_length}", strict=False)

    @property
    def is_loopback(self) -> bool:
        """Whether no other machine can reach it."""
        return ipaddress.ip_address(self.address).is_loopback

    @property
    def is_ipv4(self) -> bool:
        """Whether it is an IPv4 address."""
        return ":" not in self.address


def is_numeric(value: t.Any) -> bool:
    """Whether it is the text of an IP address without a zone: ``ipaddress`` takes any text after a ``%``, also line breaks."""
    try:
        return isinstance(value, str) and "%" not in value and bool(ipaddress.ip_address(value))
    except ValueError:
        return False


def parse_address(option: str, value: t.Any) -> str:
    """A numeric IP address in its usual spelling. Raises OptionError."""
    if not is_numeric(value):
        raise OptionError(option, value, "a numeric IPv4 or IPv6 address, such as 10.0.0.1, without a zone")
    return str(ipaddress.ip_address(value))


def parse_source(option: str, value: t.Any) -> str:
    """An address, or a subnet whose host bits are zero, as OpenSSH takes them in ``from=``. Raises OptionError."""
    text = str(value)
    try:
        if not is_numeric(text.partition("/")[0]):
            raise ValueError
        ipaddress.ip_network(text)
    except ValueError:
        raise OptionError(option, value, "a list of addresses and subnets, such as 10.0.0.0/24") from None
    return text


def parse_subnet(option: str, value: str | None) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """A subnet in CIDR notation. Raises OptionError, also for None, which YAML makes of a variable with nothing behind it."""
    try:
        if value is None or "/" not in value or "%" in value:
            raise ValueError
        return ipaddress.ip_network(value, strict=False)
    except ValueError:
        raise OptionError(option, value, "a subnet with its prefix length, such as 10.0.0.0/24") from None


def choose_address(
    addresses: t.Sequence[InterfaceAddress],
    address: str | None = None,
    interface: str | None = None,
    subnet: str | None = None,
    default_interface: str | None = None,
) -> str:
    """The one address that the options name, of those that the node has.

    Without any option: the IPv4 address of the default route's interface, or the only one that is not loopback.
    Raises OptionError where there are two options or one names nothing of this node, NodeError where the choice is not clear.
    """
    given = {"address": address, "interface": interface, "subnet": subnet}
    first, *others = [name for name, value in given.items() if value is not None] or [""]
    if others:
        allowed = (
            f"to leave it out, since {first} is set, too; of gpufabric_control_interface and gpufabric_control_subnet, roles take"
            " one"
        )
        raise OptionError(others[0], given[others[0]], allowed)
    if address is not None:
        wanted = parse_address("address", address)
        if wanted not in {item.address for item in addresses}:
            raise OptionError("address", address, f"an address of this node: {_listing(addresses)}")
        return wanted
    if interface is not None:
        names = sorted({item.interface for item in addresses})
        if interface not in names:
            raise OptionError(
                "interface", interface, f"an interface of this node that has an address: {', '.join(names)}"
            )
        return _only([item for item in addresses if item.interface == interface], f"interface: {interface}", addresses)
    if subnet is not None:
        network = parse_subnet("subnet", subnet)
        inside = [item for item in addresses if ipaddress.ip_address(item.address) in network]
        if not inside:
            raise OptionError("subnet", subnet, f"a subnet that this node has an address in: {_listing(addresses)}")
        return _only(inside, f"subnet: {subnet}", addresses)
    reachable = [item for item in addresses if not item.is_loopback and item.is_ipv4]
    on_default_route = [item for item in reachable if item.interface == default_interface]
    return _only(on_default_route or reachable, "address, interface and subnet are not set", addresses)


def subnet_of(addresses: t.Sequence[InterfaceAddress], interface: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """The subnet that one of this node's interfaces is in. Raises GpufabricError."""
    own = choose_address(addresses, interface=interface)
    return next(item.network for item in addresses if item.address == own)


def _only(candidates: t.Sequence[InterfaceAddress], what: str, addresses: t.Sequence[InterfaceAddress]) -> str:
    # A control plane over IPv6 needs an Open MPI built for it, so an IPv6 address is used only where it is the only kind.
    chosen = [item for item in candidates if item.is_ipv4] or list(candidates)
    if len(chosen) == 1:
        return chosen[0].address
    wrong, cure = "no address fits", ""
    if chosen:
        wrong = "more than one address fits"
        cure = (
            ". If one interface has several, leave one on it; or, with Open MPI 5, set the subnet of this host to ADDRESS/32, of the address that"
            " it sends from (ip route get), and leave the interface unset"
        )
    raise NodeError(
        f"{what}: {wrong}; name one by address, interface or subnet (roles: gpufabric_control_interface or"
        f" gpufabric_control_subnet). This node has {_listing(addresses)}{cure}"
    )


def _listing(addresses: t.Iterable[InterfaceAddress]) -> str:
    return ", ".join(f"{item.address} ({item.interface})" for item in addresses if not item.is_loopback) or "none"


def parse_port_range(value: str) -> range:
    """``"20000-20999"`` as a range of ports, both ends included. Raises OptionError."""
    first, dash, last = value.partition("-")
    if dash and all(re.match(r"\s*[0-9]{1,5}\s*\Z", end) for end in (first, last)):
        ports = range(int(first), int(last) + 1)
        if ports and ports[0] >= 1 and ports[-1] <= 65535:
            return ports
    raise OptionError("range", value, "FIRST-LAST, both from 1 to 65535, such as 20000-20999")


def free_ports(
    address: str, count: int = 1, within: t.Sequence[int] | None = None, exclude: t.Container[int] = ()
) -> list[int]:
    """Free TCP ports of an address, different from each other, as the operating system hands them out.

    Free means free now: start the listener at once, and ask again where the port was taken meanwhile.
    Raises NodeError where there are not enough.
    """
    candidates = iter([0] * (count + 1000)) if within is None else iter(random.sample(list(within), len(within)))
    held: list[socket.socket] = []
    ports: list[int] = []
    try:
        for candidate in candidates:
            if len(ports) == count:
                break
            if candidate in exclude:
                continue
            # Held open until all are found, so that none is handed out twice.
            try:
                listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
                held.append(listener)
                listener.bind((address, candidate))
            except OSError as error:
                if error.errno in (errno.EADDRINUSE, errno.EACCES):
                    continue
                raise NodeError(f"cannot bind to {address} port {candidate}: {error.strerror}") from error
            port = listener.getsockname()[1]
            if port not in exclude:
                ports.append(port)
    finally:
        for listener in held:
            listener.close()
    if len(ports) < count:
        where = "" if within is None else f" between {min(within)} and {max(within)}"
        raise NodeError(
            f"{address} has {len(ports)} free TCP ports{where} outside the excluded ones; {count} are wanted"
        )
    return ports


def read_addresses() -> list[InterfaceAddress]:
    """All addresses of all interfaces that are up, from the C library, since a pod may have no ``ip`` program."""
    libc = ctypes.CDLL(None, use_errno=True)
    first = ctypes.POINTER(_IfAddrs)()
    if libc.getifaddrs(ctypes.byref(first)) != 0:
        raise NodeError("cannot list this node's network interfaces")
    found = []
    try:
        pointer = first
        while pointer:
            entry = pointer.contents
            if entry.ifa_addr and entry.ifa_flags & _IFF_UP:
                address = _address_of(entry.ifa_addr)
                mask = _address_of(entry.ifa_netmask) if entry.ifa_netmask else None
                if address is not None and mask is not None:
                    prefix_length = bin(int(ipaddress.ip_address(mask))).count("1")
                    found.append(InterfaceAddress(entry.ifa_name.decode(), address, prefix_length))
            pointer = entry.ifa_next
    finally:
        libc.freeifaddrs(first)
    # Link-local IPv6 addresses name no peer without a zone.
    return [item for item in found if not ipaddress.ip_address(item.address).is_link_local or item.is_ipv4]


def default_route_interface(routes: str) -> str | None:
    """The interface of the IPv4 default route with the lowest metric, from the text of /proc/net/route."""
    defaults = []
    for line in routes.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[1] == "00000000" and fields[7] == "00000000":
            defaults.append((int(fields[6]), fields[0]))
    return min(defaults)[1] if defaults else None


def own_address(address: str | None, interface: str | None, subnet: str | None) -> str:
    """The address of this node that the options mean, as choose_address says. Raises GpufabricError."""
    routes = read_text("/proc/net/route") or ""
    return choose_address(read_addresses(), address, interface, subnet, default_route_interface(routes))


_IFF_UP = 1


class _IfAddrs(ctypes.Structure):
    """``struct ifaddrs`` of getifaddrs(3), as far as it is read."""


_IfAddrs._fields_ = [
    ("ifa_next", ctypes.POINTER(_IfAddrs)),
    ("ifa_name", ctypes.c_char_p),
    ("ifa_flags", ctypes.c_uint),
    ("ifa_addr", ctypes.c_void_p),
    ("ifa_netmask", ctypes.c_void_p),
]


def _address_of(pointer: int) -> str | None:
    """The address in a ``struct sockaddr``; None for a family that is not IP."""
    (family,) = struct.unpack("=H", ctypes.string_at(pointer, 2))
    if family == socket.AF_INET:
        return socket.inet_ntop(family, ctypes.string_at(pointer + 4, 4))
    if family == socket.AF_INET6:
        return socket.inet_ntop(family, ctypes.string_at(pointer + 8, 16))
    return None
