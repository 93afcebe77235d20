# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import CATALOGUE, problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.entry import EFFECT
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.task_results import (
    problems_by_host,
    problems_from_result,
)


def catalogue_problem(
    identity: str, facts: dict[str, t.Any] | None = None, host: str | None = None, evidence: str = ""
) -> dict[str, t.Any]:
    """A problem of the catalogue."""
    if identity not in CATALOGUE.entries:
        raise AnsibleFilterError(f"{identity}: is not in docs/troubleshooting.md")
    return problem(identity, host, evidence, **(facts or {})).as_dict()


def play_problems(results: dict[str, t.Any], lost: list[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Why a play failed, from what it failed with on hosts."""
    gone = {entry["host"] for entry in lost}
    found = list(lost)
    for host, result in results.items():
        if not result or (host in gone and not result.get("problems")):
            continue
        text = str(result.get("msg", "")).strip().rstrip(".")
        otherwise = problem("step-failed", host, step="to run the job", text=text).as_dict()
        told = (
            problems_from_result(result)
            if result.get("problems")
            else problems_from_result(result, host) or [otherwise]
        )
        # What is told of pods that are gone, or follows from that, is no news.
        news = [entry for entry in told if not lost or (entry["host"] not in gone and _is_cause(entry))]
        found += [entry for entry in news if entry not in found]
    return found


def _is_cause(entry: dict[str, t.Any]) -> bool:
    return entry["id"] in CATALOGUE.entries and CATALOGUE.entries[entry["id"]].precedence < EFFECT


class FilterModule:
    """Filters that make problems."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """By name."""
        return {
            "problem": catalogue_problem,
            "problems_by_host": problems_by_host,
            "result_problems": problems_from_result,
            "play_problems": play_problems,
        }
