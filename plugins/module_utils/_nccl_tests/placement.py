# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Whether the expected ranks took part in a run, on the expected hosts."""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.result_catalogue import RESULT_CATALOGUE
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import listing


def placement_problems(
    placed: t.Mapping[int, str],
    ranks: int,
    hosts: int | t.Sequence[str],
    shown: str,
    *,
    size: int | None = None,
    titles: t.Mapping[str, str] | None = None,
) -> list[Problem]:
    """What is wrong with the placement of a run's ranks; empty if nothing is.

    ``placed``: the host of each rank that took part. ``ranks`` and ``hosts`` are expected; ``hosts`` is their number, or their
    names as ``placed`` has them. ``shown``: how the ranks are known, "started" or "listed", for the evidence. ``size``: of
    the run, as its ranks have it. ``titles``: what the texts call a host, if not by its name.
    """
    counts = collections.Counter(placed.values())
    expected = f"{ranks}" if isinstance(hosts, int) else f"{ranks} on {listing(hosts)}"
    where = listing(f"{count} on {host}" for host, count in counts.items()) or "none"
    evidence = f"ranks {shown}: {where}; expected: {expected}"
    if not placed:
        return [RESULT_CATALOGUE.problem("ranks-unknown", evidence=evidence, ranks=ranks)]
    problems = []
    count = size if size is not None and len(placed) == ranks else len(placed)
    if count != ranks:
        problems.append(RESULT_CATALOGUE.problem("ranks-differ", evidence=evidence, count=count, ranks=ranks))
    names = None if isinstance(hosts, int) else list(dict.fromkeys(hosts))
    wanted = hosts if isinstance(hosts, int) else len(names or ())
    missing = [name for name in names or () if name not in counts]
    unexpected = [name for name in counts if name not in (names or counts)]
    if len(counts) != wanted or missing or unexpected:
        facts: dict[str, t.Any] = {"present": len(counts) - len(unexpected), "wanted": wanted}
        if len(counts) == 1 and wanted > 1:
            (only,) = counts
            facts.update(count=len(placed), only=(titles or {}).get(only, only))
        if missing:
            facts["missing"] = listing(missing)
        if unexpected or len(counts) > wanted:
            facts["unexpected"] = listing(unexpected or counts)
        host = missing[0] if len(missing) == 1 else None
        problems.append(RESULT_CATALOGUE.problem("hosts-differ", host, evidence, **facts))
    return problems


def listed_placement_problems(
    document: t.Mapping[str, t.Any], hosts: int | t.Sequence[str], ranks: int
) -> list[Problem]:
    """The same by the ranks that the output of nccl-tests lists. ``hosts``: their number, or names; a domain is ignored.

    ``ranks``: how many processes were started. nccl-tests gives each of their GPUs (``-t`` threads, each with ``-g`` GPUs) a rank.
    """
    config = document["config"]
    ranks *= (config.get("nthreads") or 1) * (config.get("ngpus") or 1)
    separate_runs = [entry for entry in document["problems"] if entry["id"] == "mpi-missing"]
    if separate_runs:
        return [Problem.from_dict(entry) for entry in separate_runs]
    placed = {rank["rank"]: _short(rank["host"]) for rank in document["ranks"]}
    if 0 < len(placed) < ranks and process_count(document["ranks"]) == 1:
        host = next(iter(placed.values()))
        evidence = f"ranks listed: {len(placed)} of one process"
        return [RESULT_CATALOGUE.problem("mpi-missing", None, evidence, runs=1, hosts=host, ranks=ranks)]
    expected = hosts if isinstance(hosts, int) else [_short(name) for name in hosts]
    return placement_problems(placed, ranks, expected, "listed")


def process_count(ranks: t.Iterable[t.Mapping[str, t.Any]]) -> int:
    """How many processes the listed ranks are of: each has one rank or, with threads, several."""
    return len({(rank["host"], rank["pid"]) for rank in ranks})


def _short(host: str) -> str:
    """A host's name as nccl-tests prints it: without its domain."""
    return host.split(".")[0].lower()
