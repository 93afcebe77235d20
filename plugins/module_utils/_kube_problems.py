# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What is wrong, where a cluster refuses or does not answer: from the results of tasks that ask it, or that ran in its pods."""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis import Source, diagnose

Entry = t.Mapping[str, t.Any]

#: Where a task's result has what the cluster, or kubectl, said.
_TEXTS = ("msg", "module_stderr", "stderr", "module_stdout", "stdout")
#: Of the way to the cluster, whichever pod was to be reached.
_OF_NO_HOST = (
    "kube-certificate",
    "kube-config",
    "kube-namespace",
    "kube-token-expired",
    "kube-unreachable",
    "kubectl-missing",
)


def answer_of(text: str) -> str:
    """What the API server said, from the text of a client's exception, which has headers and a traceback beside it."""
    body = re.search(r"^HTTP response body: (\{.*\})$", text, re.MULTILINE)
    if body:
        try:
            return str(json.loads(body.group(1))["message"])
        except (ValueError, KeyError):
            pass
    return text.partition("Original traceback")[0].strip()


def told_problems(result: Entry, host: str | None = None) -> list[dict[str, t.Any]]:
    """The problems that a failed task's result holds, or that its texts tell; empty where these tell none.

    ``host``: whose result it is, by the name that the inventory has for it; None: nobody's in particular.
    """
    if result.get("problems"):
        return [entry if host is None else {**entry, "host": host} for entry in result["problems"]]
    # As JSON inside of a text has them.
    lines = [line.replace('\\"', '"') for name in _TEXTS for line in str(result.get(name) or "").splitlines()]
    found = [item.as_dict() for item in diagnose([Source("kubernetes", lines, host)], None)]
    return [{**entry, "host": None} if entry["id"] in _OF_NO_HOST else entry for entry in found]
