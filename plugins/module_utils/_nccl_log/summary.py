# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The transport and the software of a run, from the facts of its hosts; who differs; and both in a few words."""

from __future__ import annotations

import collections
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.reader import NO_HOST
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.shapes import (
    Difference,
    FleetFacts,
    HostFacts,
    Software,
    Transport,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import listing

WAYS = ("P2P", "SHM", "NET", "COLLNET")
SOURCE = "nccl-debug"

#: The facts that are compared between hosts, as people call them.
LABELS = {
    "network": "network",
    "gdr": "GPUDirect RDMA",
    "nics": "NICs",
    "channels": "channels",
    "nvls": "NVLS",
    "mnnvl": "multi-node NVLink",
    "nccl": "NCCL",
    "cuda": "CUDA of NCCL",
    "driver": "GPU driver",
    "driver_cuda": "CUDA of the driver",
    "plugin_version": "network plugin",
}
#: What a host has of a fact that its own ranks do not agree on.
MIXED = "mixed"


def network_of(host: HostFacts) -> str | None:
    """The network of a host: that of its connections, or the one that NCCL chose; None if unknown."""
    names = host.get("carrier") or host.get("network") or {}
    found = set()
    for name in names:
        # NCCL calls both IB; the ports tell which of the two they are. Plugins for verbs are named IBext.
        layers = host.get("used_layer") or host.get("listed_layer") or {}
        found.add("+".join(sorted(layers)) if name.startswith("IB") and layers else name)
    return _only(found)


def plugin_of(host: HostFacts) -> str | None:
    """The network plugin of a host; None if NCCL's own code is used, or nothing is known."""
    names = host.get("carrier") or host.get("network") or {}
    return _only(set(names) - {"IB", "Socket"})


def gdr_of(host: HostFacts) -> bool | None:
    """Whether all connections over the network use GPUDirect RDMA."""
    if host.get("gdr"):
        return "no" not in host["gdr"]
    # That a device could use it does not prove that it is used.
    return False if set(host.get("gdr_device", {})) == {"no"} else None


def nics_of(host: HostFacts) -> list[str] | None:
    """The ports that a host's connections go over, in order of their names; None if the log does not name them all."""
    if "unnamed" in host or "way" not in host:
        return None
    return sorted(host.get("used", {}), key=_by_number)


def transport_of(fleet: FleetFacts) -> Transport | None:
    """The transport of a run; None if there is no log of it."""
    hosts = {name: facts for name, facts in sorted(fleet.items()) if name != NO_HOST}
    if not hosts:
        return None
    facts = {name: _transport_facts(host) for name, host in hosts.items()}
    differences = _differences(facts)
    plugins = {plugin_of(host) for host in hosts.values()}
    interfaces = {_interface(host) for host in hosts.values()}
    ways: collections.Counter[str] = collections.Counter()
    for host in hosts.values():
        ways.update(host.get("way", {}))
    known = any("way" in host for host in hosts.values())
    lone = not ways["NET"] and all(set(host.get("nodes", {})) == {"1"} for host in hosts.values())
    return {
        "network": _agreed(facts, "network"),
        "plugin": plugins.pop() if len(plugins) == 1 else None,
        "gdr": _all(facts, "gdr"),
        "mixed": bool(differences) or any(MIXED in values.values() for values in facts.values()),
        "nics": {name: nics_of(host) for name, host in hosts.items()},
        "channels": _agreed(facts, "channels"),
        "nvls": _all(facts, "nvls"),
        "mnnvl": _all(facts, "mnnvl"),
        "socket_interface": interfaces.pop() if len(interfaces) == 1 else None,
        "connections": {way: ways[way] for way in WAYS} if known else {"NET": 0} if lone else {},
        "differences": differences,
        "source": SOURCE,
    }


def software_of(fleet: FleetFacts) -> Software | None:
    """The software of a run; None if there is no log of it."""
    if not fleet:
        return None
    facts = {
        name: {
            fact: _only(set(host.get(fact, {}))) for fact in ("nccl", "cuda", "driver", "driver_cuda", "plugin_version")
        }
        for name, host in sorted(fleet.items())
    }
    return {
        "nccl": _agreed(facts, "nccl"),
        "cuda": _agreed(facts, "cuda"),
        "driver": _agreed(facts, "driver"),
        "driver_cuda": _agreed(facts, "driver_cuda"),
        "plugin_version": _agreed(facts, "plugin_version"),
        "differences": _differences({name: host for name, host in facts.items() if name != NO_HOST}),
    }


def describe_transport(transport: t.Mapping[str, t.Any]) -> str:
    """``IB, GDR, 8 NICs a host, 16 channels, NVLS``: what is known, for the head of a table; empty if nothing is."""
    counts = {len(ports) for ports in transport["nics"].values() if ports is not None}
    words = []
    if transport["connections"].get("NET") == 0 and (len(transport["nics"]) == 1 or transport["mnnvl"]):
        words.append("no network connections")
    elif transport["network"]:
        plugin = transport["plugin"]
        words.append(transport["network"] + (f" by {plugin}" if plugin and plugin != transport["network"] else ""))
        if transport["gdr"] is not None:
            words.append("GDR" if transport["gdr"] else "no GDR")
        if len(counts) == 1 and None not in transport["nics"].values() and transport["network"] != "Socket":
            count = counts.pop()
            words.append(f"{count} NIC{'' if count == 1 else 's'} a host")
        elif transport["network"] == "Socket" and transport["socket_interface"]:
            words.append(transport["socket_interface"])
    if transport["channels"] is not None:
        words.append(f"{transport['channels']} channel{'' if transport['channels'] == 1 else 's'}")
    words += ["NVLS"] if transport["nvls"] else []
    words += ["MNNVL"] if transport["mnnvl"] else []
    if transport["mixed"]:
        words.append("not the same everywhere")
    return ", ".join(words)


def host_values(transport: t.Mapping[str, t.Any], fact: str) -> dict[str, t.Any]:
    """The value of a fact by host, as far as the transport tells; None where it is not known."""
    if fact == "nics":
        return {host: None if ports is None else len(ports) for host, ports in transport["nics"].items()}
    own = {entry["host"]: entry["value"] for entry in transport["differences"] if entry["fact"] == fact}
    # The others have the same value; that some of them do not tell theirs is not kept.
    others = next((entry["others"] for entry in transport["differences"] if entry["fact"] == fact), transport[fact])
    return {host: own.get(host, others) for host in transport["nics"]}


def describe_differences(differences: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """``g2: 7 NICs, others 8``: who differs, and in what."""
    return listing(
        f"{entry['host']}: {LABELS.get(entry['fact'], entry['fact'])} {_word(entry['value'])}, others {_word(entry['others'])}"
        for entry in differences
    )


def checked_transport(value: t.Any) -> Transport | None:
    """The transport of a document that was handed in. Raises GpufabricError where it is something else."""
    if value is None:
        return None
    optional = (type(None),)
    wanted: dict[str, tuple[type, ...]] = {
        **dict.fromkeys(("network", "plugin", "socket_interface"), (str, *optional)),
        **dict.fromkeys(("gdr", "nvls", "mnnvl"), (bool, *optional)),
        "mixed": (bool,),
        "nics": (dict,),
        "channels": (int, *optional),
        "connections": (dict,),
        "differences": (list,),
        "source": (str,),
    }
    sound = (
        isinstance(value, dict)
        and all(isinstance(value.get(name, ...), kinds) for name, kinds in wanted.items())
        and (value["channels"] is None or 0 <= value["channels"] < 1 << 63)
        and all(ports is None or isinstance(ports, list) for ports in value["nics"].values())
        and all(
            isinstance(entry, dict)
            and {"fact", "host", "value", "others"} <= set(entry)
            and isinstance(entry["fact"], str)
            and isinstance(entry["host"], str)
            for entry in value["differences"]
        )
    )
    if not sound:
        raise GpufabricError(
            "a list of result documents is needed; the transport of an item is not one that nccl_result made"
        )
    return t.cast(Transport, value)


def _transport_facts(host: HostFacts) -> dict[str, t.Any]:
    """The facts of one host that are compared; None for what is not known."""
    ports = nics_of(host)
    channels = _only(set(host.get("channels", {})))
    return {
        "network": network_of(host),
        "gdr": gdr_of(host),
        "nics": None if ports is None else len(ports),
        "channels": int(channels) if channels is not None and channels != MIXED else channels,
        "nvls": _yes(host.get("nvls") or host.get("multicast") or {}),
        "mnnvl": _yes(host.get("mnnvl", {})),
    }


def _interface(host: HostFacts) -> str | None:
    """The interface of NCCL's sockets: for the data if they go over sockets, else those that set up the run."""
    found = set(host.get("used" if "Socket" in host.get("carrier", {}) else "bootstrap", {}) or host.get("socket", {}))
    return found.pop() if len(found) == 1 else None


def _only(values: t.Collection[str]) -> str | None:
    """The one value there is; MIXED if there are several."""
    return None if not values else MIXED if len(values) > 1 else next(iter(values))


def _yes(values: t.Mapping[str, int]) -> t.Any:
    return {None: None, "yes": True, "no": False}.get(_only(values), MIXED)


def _agreed(facts: t.Mapping[str, t.Mapping[str, t.Any]], fact: str) -> t.Any:
    """What all hosts have that tell it; None if two differ."""
    found = {host[fact] for host in facts.values()} - {None}
    return None if len(found) != 1 or MIXED in found else found.pop()


def _all(facts: t.Mapping[str, t.Mapping[str, t.Any]], fact: str) -> bool | None:
    """Whether all hosts have it that tell; None if none does."""
    found = {host[fact] for host in facts.values()} - {None}
    return None if not found else found == {True}


def _differences(facts: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[Difference]:
    """The hosts whose value is not that of most; a host of which it is not known does not differ."""
    found: list[Difference] = []
    for fact in LABELS:
        known = {name: host[fact] for name, host in facts.items() if host.get(fact) is not None}
        if len(set(known.values())) < 2:
            continue
        most = collections.Counter(known.values()).most_common(1)[0][0]
        for name, value in known.items():
            if value != most:
                found.append({"fact": fact, "host": name, "value": value, "others": most})
    return found


def _word(value: t.Any) -> str:
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _by_number(port: str) -> list[t.Any]:
    """mlx5_2 before mlx5_10."""
    words = port.replace(":", "_").replace("/", "_").split("_")
    numbers = [int(word) if re.match(r"[0-9]{1,9}\Z", word) else None for word in words]
    return [(number is None, number or 0, word) for number, word in zip(numbers, words)]
