# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Hosts of a run that are one machine, or have one host name: Open MPI and NCCL take them for one host, and so does who reads results."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import listing


def shared_names(hostnames: t.Mapping[str, str], addresses: t.Mapping[str, t.Collection[str]]) -> list[Problem]:
    """The problems of hosts that share a host name, in the order of the inventory. nccl-tests prints it without its domain.

    ``hostnames`` and ``addresses``: what each host calls itself, and its addresses on all interfaces, by inventory name. Hosts
    that also have the same addresses are one machine.
    """
    groups: dict[str, list[str]] = {}
    for host, name in hostnames.items():
        groups.setdefault(name.split(".")[0].lower(), []).append(host)
    found = []
    for short, hosts in groups.items():
        machines: dict[tuple[str, frozenset[str]], list[str]] = {}
        for host in hosts:
            machines.setdefault((hostnames[host], frozenset(addresses[host])), []).append(host)
        for (name, own), same in machines.items():
            if len(same) > 1:
                evidence = f"host name {name}, addresses {', '.join(sorted(own))}"
                found += [problem("host-twice", host, evidence, hosts=listing(same)) for host in same]
        if len(machines) > 1:
            differ = len({name for name, _own in machines}) > 1
            for host in hosts:
                evidence = f"{hostnames[host]}, of which only {short} counts" if differ else ""
                found.append(problem("host-name-shared", host, evidence, name=short if differ else hostnames[host]))
    return found
