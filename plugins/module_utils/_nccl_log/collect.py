# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Summarises the logs of NCCL where they lie. It runs on every host of a run; what it prints is all that leaves the host."""

from __future__ import annotations

import glob
import json
import os
import re
import stat
import sys
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.reader import (
    LONGEST_COMPLAINT,
    MOST_COMPLAINTS,
    MOST_VALUES,
    add_facts,
    read_log,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.shapes import FleetFacts
from ansible_collections.gpufabric.nccl.plugins.module_utils._rdma import read_ports

#: Before the answer: a login may print more.
MARK = "GPUFABRIC-NCCL-LOG "
SUFFIX = ".log"
_MOST_FILES = 4096
#: Hosts that the logs of one machine may name, and characters of a value.
_MOST_NAMES = 64
_LONGEST = 300
#: All that a name or a value of the log has. Line breaks and markup would get into reports.
_WORD = re.compile(rf"[\w .:/+@()-]{{0,{_LONGEST}}}\Z", re.ASCII)
#: Of NVIDIA's driver, with closed and with open source, such as "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19".
_NVIDIA = re.compile(r"Module(?: for \w+)? +(\d{2,5}(?:\.\d{1,5}){1,3})\b", re.ASCII)
_AMD = re.compile(r"\d{1,5}(?:\.\d{1,5}){1,3}\Z", re.ASCII)
_CHANNELS = re.compile(r"[0-9]{1,5}\Z")
#: Every reader of JSON takes smaller ones as they are.
_TOO_MANY = 1 << 53


class Answer(t.TypedDict):
    """What a host tells: ``rdma`` are the ports of its RDMA devices that are active, ``bytes`` all that its logs have.

    ``complaints``: the first lines of its logs that may tell of a failure.
    """

    facts: FleetFacts
    complaints: list[str]
    files: int
    bytes: int
    rdma: list[str]


def collect(directory: str, root: str = "/") -> Answer:
    """The facts of all logs in a directory. A file that cannot be read tells nothing. ``root``: of the host's files."""
    found: FleetFacts = {}
    complaints: list[str] = []
    files = size = 0
    for path in sorted(glob.glob(os.path.join(glob.escape(directory), f"*{SUFFIX}")))[:_MOST_FILES]:
        try:
            status = os.lstat(path)
            if not stat.S_ISREG(status.st_mode):
                continue
            log = read_log(path)
        except OSError:
            continue
        add_facts(found, log.facts)
        complaints += log.complaints[: MOST_COMPLAINTS - len(complaints)]
        files += 1
        size += status.st_size
    driver = gpu_driver(root)
    if driver is not None:
        for host in found.values():
            host["driver"] = {driver: 1}
    return {"facts": found, "complaints": complaints, "files": files, "bytes": size, "rdma": active_ports(root)}


def active_ports(root: str = "/") -> list[str]:
    """The ports of RDMA devices that are active, as NCCL names them: ``mlx5_0:1``."""
    return [port["name"] for port in read_ports(root) if port["active"] and _is_word(port["name"])][:MOST_VALUES]


def gpu_driver(root: str = "/") -> str | None:
    """The version of the GPU driver: of NVIDIA's kernel module, else that of amdgpu; None if neither tells it. ``root``: as of collect."""
    found = _NVIDIA.search(_first_line(os.path.join(root, "proc/driver/nvidia/version")))
    if found:
        return found.group(1)
    version = _first_line(os.path.join(root, "sys/module/amdgpu/version"))
    return version if _AMD.match(version) else None


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.readline(_LONGEST).strip()
    except OSError:
        return ""


def parse_answer(text: str) -> Answer | None:
    """What ``main`` printed on a host; None where it is something else."""
    line = next((line for line in text.splitlines() if line.startswith(MARK)), "")
    try:
        value = json.loads(line[len(MARK) :], parse_int=_parsed_count)
        return value if _is_answer(value) else None
    except (ValueError, RecursionError):
        return None


def _is_answer(value: t.Any) -> bool:
    if not isinstance(value, dict) or set(value) != {"facts", "complaints", "files", "bytes", "rdma"}:
        return False
    facts, complaints, ports = value["facts"], value["complaints"], value["rdma"]
    return (
        all(_is_count(value[name]) for name in ("files", "bytes"))
        and isinstance(complaints, list)
        and len(complaints) <= MOST_COMPLAINTS
        and all(isinstance(line, str) and len(line) <= LONGEST_COMPLAINT and "\n" not in line for line in complaints)
        and isinstance(ports, list)
        and len(ports) <= MOST_VALUES
        and all(map(_is_word, ports))
        and isinstance(facts, dict)
        and len(facts) <= _MOST_NAMES
        and all(_is_host(name, host) for name, host in facts.items())
    )


def _is_host(name: t.Any, host: t.Any) -> bool:
    return (
        _is_word(name)
        and isinstance(host, dict)
        and len(host) <= _MOST_NAMES
        and all(
            _is_word(fact)
            and isinstance(values, dict)
            and len(values) <= MOST_VALUES
            and all(_is_word(word) and _is_count(count) and count > 0 for word, count in values.items())
            for fact, values in host.items()
        )
        and all(_CHANNELS.match(value) for value in host.get("channels", ()))
    )


def _is_count(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _TOO_MANY


def _parsed_count(digits: str) -> int:
    """A whole number of an answer. Of a million digits it would take hours on an old Python."""
    if len(digits) > len(str(_TOO_MANY)):
        raise ValueError("the number is too long")
    return int(digits)


def _is_word(value: t.Any) -> bool:
    return isinstance(value, str) and _WORD.match(value) is not None


def main(parameters: t.Mapping[str, t.Any]) -> None:
    """Print the answer for ``directory``: that of the launcher; ``variable`` names the run's own on this host, which has ``logs`` in it."""
    directory, own = parameters["directory"], os.environ.get(parameters["variable"])
    if own:
        directory = os.path.join(own, parameters["logs"], os.path.basename(directory))
    sys.stdout.write(f"\n{MARK}{json.dumps(collect(directory))}\n")
    sys.stdout.flush()
