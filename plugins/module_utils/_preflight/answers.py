# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The gate for what a probe answers, and for what the launcher returns of all peers: either may be run by a hostile host."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import (
    ADDRESS,
    ADDRESS_WITH_PREFIX,
    BOOLEAN,
    FINITE,
    HOST_NAME,
    INTEGER,
    INTERFACE,
    NUMBER,
    PLAIN,
    PORT,
    TEXT,
    Each,
    Kind,
    Maybe,
    Optional,
    check_answer,
    text,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import CATALOGUE
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.info import parse_mpirun_version
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.probe_full import RDMA_VARIABLES

Facts = t.Dict[str, t.Any]

_FILE: dict[str, t.Any] = {"path": TEXT, "exists": BOOLEAN, "executable": BOOLEAN}
_PROGRAM: dict[str, t.Any] = {
    **_FILE,
    "missing": [TEXT],
    "sha256": TEXT,
    "mpi": Maybe(TEXT),
    "nccl": Maybe(TEXT),
}
#: As the launcher looks at itself.
_LOOK: dict[str, t.Any] = {
    "hostname": HOST_NAME,
    "shell": Maybe(TEXT),
    "python": Maybe(TEXT),
    "environment": Each(TEXT, BOOLEAN),
    "python_home": Optional(Maybe(TEXT)),
    "daemon": {
        **_FILE,
        "foreign": Optional(BOOLEAN),
        "missing": Optional([TEXT]),
        "runtime": Optional(Maybe(TEXT)),
        "elsewhere": Optional([TEXT]),
        "misled": Optional([TEXT]),
        "version": Maybe(TEXT),
    },
    "interfaces": Each(INTERFACE, {"mtu": Maybe(NUMBER), "addresses": [ADDRESS_WITH_PREFIX]}),
}
_CALLBACK_STATUSES = sorted(
    {"ok", *(name[len("callback-") :] for name in CATALOGUE.entries if name.startswith("callback-"))}
)
_CALLED: dict[str, t.Any] = {
    "address": ADDRESS,
    "port": PORT,
    "status": text("|".join(_CALLBACK_STATUSES), ", ".join(_CALLBACK_STATUSES)),
    "text": TEXT,
    "by": Maybe(TEXT),
    "source": Optional(ADDRESS),
}
#: By whether the launcher was reached.
_CALLBACK = {False: _CALLED, True: {**_CALLED, "source": ADDRESS, "seconds": FINITE, "offset": FINITE}}
_LISTENER = {"address": ADDRESS, "port": PORT}
_SPACE = {"path": TEXT, "size": NUMBER, "free": NUMBER, "read_only": Optional(BOOLEAN)}
#: What the closer look adds.
_CLOSER: dict[str, t.Any] = {
    "gpus": {"count": NUMBER, "error": Maybe(TEXT)},
    "shm": Maybe(_SPACE),
    "memlock": Maybe(NUMBER),
    "open_files": Maybe(NUMBER),
    "address_space": Maybe(NUMBER),
    "processes": Maybe(INTEGER),
    "disks": [{**_SPACE, "error": Maybe(TEXT)}],
    "rdma": [{"device": TEXT, "port": NUMBER, "state": TEXT, "link_layer": TEXT, "gids": [NUMBER]}],
    "rdma_env": dict.fromkeys(RDMA_VARIABLES, PLAIN),
    "data": Each(INTERFACE, _LISTENER),
    "control": Maybe(_LISTENER),
}
_LINK = {"status": PLAIN, "text": Optional(TEXT), "by": Optional(Maybe(TEXT))}
_ANYTHING = Kind(lambda value: True, "anything")
_HOST: dict[str, t.Any] = {
    "name": PLAIN,
    "address": Maybe(ADDRESS),
    "ok": BOOLEAN,
    "stage": Maybe(PLAIN),
    "problems": [PLAIN],
}


def _flag(value: t.Any, name: str) -> bool:
    return isinstance(value, t.Mapping) and value.get(name) is True


def checked_facts(host: str, value: t.Any, is_full: bool, field: str = "facts") -> Facts:
    """The facts of a peer, with nothing but what a probe returns. Raises NodeError with the host and the field.

    ``is_full``: with those of the closer look.
    """
    given = value if isinstance(value, t.Mapping) else {}
    program, callback = given.get("program"), given.get("callback")
    called = isinstance(callback, t.Mapping) and callback.get("status") == "ok"
    shape = {
        **_LOOK,
        "program": Maybe(_PROGRAM if _flag(program, "exists") else _FILE),
        "callback": _CALLBACK[called],
        **(_CLOSER if is_full else {}),
    }
    facts: Facts = check_answer(host, field, value, shape)
    return facts


def complete(facts: Facts) -> Facts:
    """The facts of a probe, completed on the launcher with what the probe has no modules for."""
    said = facts["daemon"]["version"]
    version = parse_mpirun_version(said)[1] if said else None
    return {**facts, "daemon": {**facts["daemon"], "version": version}}


def checked_links(host: str, value: t.Any) -> Facts:
    """How sending to others went, by network and host. Raises NodeError with the host and the field."""
    links: Facts = check_answer(host, "links", value, Each(PLAIN, Each(PLAIN, _LINK)))
    return links


def checked_hosts(launcher: str, value: t.Any) -> list[dict[str, t.Any]]:
    """The ``hosts`` that mpi_preflight returned on the launcher. Raises NodeError with the launcher and the field."""
    hosts: list[dict[str, t.Any]] = check_answer(launcher, "hosts", value, [{**_HOST, "facts": _ANYTHING}])
    for number, host in enumerate(hosts):
        facts = host["facts"]
        if facts is not None:
            is_full = isinstance(facts, t.Mapping) and "gpus" in facts
            host["facts"] = checked_facts(launcher, facts, is_full, f"hosts[{number}].facts")
    return hosts
