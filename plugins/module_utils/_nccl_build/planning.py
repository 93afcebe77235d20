# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.
"""Which machines build nccl-tests, for which GPUs, and which ones get it from them."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import (
    PATH,
    PLAIN,
    TEXT,
    Maybe,
    check_answer,
    refuse,
    text,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import (
    Problem,
    ProblemError,
    entries_from,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.installation import program_names
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.source import check_address
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.toolchain import VENDORS

_DIGEST = text(r"[0-9a-f]{16}", "16 hexadecimal digits")
#: What nccl_tests_info says of a node, as far as it is used.
_LOOK = {
    "vendor": Maybe(text("|".join(VENDORS), " or ".join(VENDORS))),
    "architectures": [text(r"[0-9]{1,2}\.[0-9]|gfx[0-9a-z:+-]{3,40}", "an architecture")],
    "digest": Maybe(_DIGEST),
    "reason": TEXT,
    "elsewhere": Maybe({"directory": PATH, "programs": [PLAIN]}),
}


class Plan(t.NamedTuple):
    """``builders``: none if nothing has to be done, for the reason ``note``."""

    builders: list[str]
    vendor: str | None
    architectures: list[str]
    note: str


def make_plan(looks: t.Mapping[str, t.Any], variables: t.Mapping[str, t.Any]) -> Plan:
    """Who builds what. ``looks``: what nccl_tests_info returned, by host. ``variables``: of the role, without its prefix.

    Raises GpufabricError.
    """
    nodes = {host: _checked(host, look) for host, look in looks.items()}
    for host, look in looks.items():
        if not isinstance(look.get("missing"), list):
            raise refuse(host, "missing", look.get("missing"), "a list of what is missing")
    for option in ("url", "git_url"):
        check_address(f"nccl_tests_{option}", variables[option] or "", "nccl_tests_archive")
    build_on, wanted = variables["build_on"], program_names(variables["programs"])
    if build_on is not None and build_on not in nodes:
        raise OptionError("nccl_tests_build_on", build_on, f"one of the workers: {', '.join(nodes)}")
    if build_on is not None and not variables["spread"]:
        raise OptionError(
            "nccl_tests_build_on",
            build_on,
            "to leave it out if nccl_tests_spread is false: each worker builds for itself",
        )
    refused = [f"{host}: {node['reason']}" for host, node in nodes.items() if node["reason"]]
    if refused:
        raise NodeError("\n".join(refused), has_cure=True)
    if not variables["force"] and all(node["digest"] is None for node in nodes.values()):
        directories = {_has(node["elsewhere"], wanted) for node in nodes.values()}
        if len(directories) == 1 and None not in directories:
            return Plan(
                [],
                None,
                [],
                f"All workers have nccl-tests in {directories.pop()} already. To build it anyway, set nccl_tests_force.",
            )
    vendor, architectures = _gpus(nodes, variables)
    if not variables["spread"]:
        return Plan(list(nodes), vendor, architectures, f"nccl-tests is built on each of {len(nodes)} workers.")
    able = [host for host in nodes if not looks[host]["missing"]]
    digests = {node["digest"] for node in nodes.values()}
    if not able and not variables["force"] and len(digests) == 1 and None not in digests:
        note = (
            "All workers have the same programs, and none of them has what a build needs. Without a compiler it is not known whether these"
            " are the source, the settings and the versions that are wanted now."
        )
        return Plan([], vendor, architectures, note)
    builder = build_on or next(iter(able), None)
    if builder is None or looks[builder]["missing"]:
        # One host is enough, so the others' are not shown.
        host = builder or next(iter(nodes))
        raise ProblemError(
            *(Problem.from_dict({**entry, "host": host}) for entry in entries_from(looks[host]["missing"]))
        )
    return Plan([builder], vendor, architectures, f"nccl-tests is built on {builder} for {len(nodes)} workers.")


def _checked(host: str, look: t.Any) -> t.Any:
    node = check_answer(host, "node", look.get("node"), _LOOK)
    foreign = [item for item in node["architectures"] if item.startswith("gfx") != (node["vendor"] == "amd")]
    if foreign:
        raise refuse(host, "node.architectures", foreign, f"architectures of {node['vendor'] or 'no vendor'}")
    return node


def _has(programs: t.Any, wanted: t.Sequence[str]) -> str | None:
    """The directory of a node's own programs, if all that are wanted are among them. NVIDIA's images have those with MPI under names
    that end in _mpi."""
    if programs is None:
        return None
    names = {name[: -len("_mpi")] if name.endswith("_mpi") else name for name in programs["programs"]}
    return programs["directory"] if set(wanted) <= names else None


def _gpus(nodes: t.Mapping[str, t.Any], variables: t.Mapping[str, t.Any]) -> tuple[str | None, list[str]]:
    """The vendor of all GPUs, None if there are none, and their architectures. Raises NodeError."""
    vendors = {node["vendor"]: host for host, node in nodes.items() if node["vendor"] is not None}
    if len(vendors) > 1:
        listed = " and ".join(f"{host} has GPUs of {vendor}" for vendor, host in sorted(vendors.items()))
        raise NodeError(
            f"{listed}: one build is for one vendor; set gpufabric_target to the hosts of one of them", has_cure=True
        )
    vendor = next(iter(vendors), None)
    given = list(variables["architectures"])
    found = {item for node in nodes.values() for item in node["architectures"]}
    return vendor, given or sorted(found, key=lambda item: float(item) if item[0] != "g" else item)


def lacking(looks: t.Mapping[str, t.Any], builder: str, digest: str | None) -> list[str]:
    """The hosts that do not have what the builder has. ``digest``: of the builder; None in check mode, where it is not built."""
    nodes = {host: _checked(host, look) for host, look in looks.items()}
    if digest is not None:
        check_answer(builder, "digest", digest, _DIGEST)
    return [host for host, node in nodes.items() if host != builder and (digest is None or node["digest"] != digest)]
