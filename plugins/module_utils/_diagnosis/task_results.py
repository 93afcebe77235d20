# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Problems from the results of tasks that failed because a cluster or one of its pods refused them or did not answer."""

from __future__ import annotations

import contextlib
import json
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import CATALOGUE, diagnose, problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.entry import EFFECT
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemDict, entries_from, news
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.reader import Source
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import one_line

Entry = t.Mapping[str, t.Any]

#: The keys of a task's result that hold messages of the cluster or of kubectl.
_TEXTS = ("msg", "module_stderr", "stderr", "module_stdout", "stdout")
#: Causes on the way to the cluster: they belong to no pod.
_OF_NO_HOST = (
    "kube-certificate",
    "kube-config",
    "kube-namespace",
    "kube-token-expired",
    "kube-unreachable",
    "kube-webhook",
    "kubectl-missing",
)

#: What an API server says to whoever it does not know, what the Python client says of that, and what kubectl does.
_UNKNOWN = "Unauthorized"
_REASON_UNKNOWN = re.compile(rf"^Reason: {_UNKNOWN}$", re.MULTILINE)
_UNKNOWN_USER = f"You must be logged in to the server ({_UNKNOWN})"

_STRAY_LINES = 5

#: What a rank says of the one at the other end.
_OF_OTHER_ENDS = ("mpi-connect-failed",)


def answer_of(text: str) -> str:
    """The message of the API server in the text of a client's exception, without its headers and traceback."""
    body = re.search(r"^(?:HTTP response body|Failed to [\w ]+ object): (\{.*\})$", text, re.MULTILINE)
    message = text.partition("Original traceback")[0].strip()
    if body:
        with contextlib.suppress(ValueError, KeyError, RecursionError):
            message = str(json.loads(body.group(1))["message"])
    # One word, which nobody would know the cluster's from a program's by: in kubectl's words.
    return _UNKNOWN_USER if message == _UNKNOWN or _REASON_UNKNOWN.search(text) else message


def failure_details(result: Entry) -> dict[str, t.Any]:
    """A failed task's result with the ``problems``, ``logs`` and ``end`` that an action of the collection failed with: it keeps them in
    its invocation, and so from the screen.
    """
    invocation = result.get("invocation")
    arguments = invocation.get("module_args") if isinstance(invocation, t.Mapping) else None
    # A machine may have returned anything.
    told = arguments if isinstance(arguments, t.Mapping) else {}
    found = {**{name: told[name] for name in ("problems", "logs", "end") if name in told}, **result}
    logs, end = found.pop("logs", None), found.pop("end", None)
    if isinstance(logs, (list, tuple)):
        found["logs"] = [log for log in logs if isinstance(log, str)]
    if isinstance(end, str):
        found["end"] = end
    return found


def problems_from_result(result: Entry, host: str | None = None) -> list[ProblemDict]:
    """The problems that a failed task's result holds, or else those that its texts show; possibly none.

    ``host``: the inventory name of the host that the result belongs to; None if it belongs to no single host.
    """
    told = entries_from(failure_details(result).get("problems"))
    if told:
        return [entry if host is None else {**entry, "host": host} for entry in told]
    # As JSON inside of a text has them.
    lines = [line.replace('\\"', '"') for name in _TEXTS for line in str(result.get(name) or "").splitlines()]
    found = [item.as_dict() for item in diagnose([Source("kubernetes", lines, host)], None)]
    return [{**entry, "host": None} if entry["id"] in _OF_NO_HOST else entry for entry in found]


def problems_by_host(results: t.Mapping[str, t.Mapping[str, Entry]]) -> dict[str, list[ProblemDict]]:
    """The problems of each host on which a task failed, or that the task could not reach. Other hosts are left out.

    ``results``: what each task returned, by what it was to do ("to run a private sshd") and by host.
    """
    found: dict[str, list[ProblemDict]] = {}
    for step, by_host in results.items():
        for host, result in by_host.items():
            own = found.setdefault(host, [])
            own += news(_step_problems(result, host, step), own)
    return {host: problems for host, problems in found.items() if problems}


def _step_problems(result: Entry, host: str, step: str) -> list[ProblemDict]:
    text = str(result.get("msg", "")).strip()
    # A connection that was open already hangs when a firewall cuts it off, or the host freezes.
    if result.get("unreachable") or result.get("timedout"):
        return [problem("host-unreachable", host, text).as_dict()]
    if result.get("failed"):
        return problems_from_result(result, host) or [problem("step-failed", host, "", step=step, text=text).as_dict()]
    return []


def problems_from_play(
    results: t.Mapping[str, Entry], lost: t.Sequence[ProblemDict] | None = None
) -> list[ProblemDict]:
    """Why a play failed: the problems of hosts that were lost meanwhile, and what it failed with on the others.

    ``results``: of the task that failed, by host; empty if none did. ``lost``: None if it was a task of each host for itself, so that what
    a host returned is its own problem, whichever host it names.
    """
    gone = {entry["host"] for entry in lost or ()}
    found = list(lost or ())
    for host, each in results.items():
        result = failure_details(each)
        if not result or (host in gone and not result.get("problems")):
            continue
        text = str(result.get("msg", "")).strip().rstrip(".")
        otherwise = problem("step-failed", host, _stray_text(result), step="to run the job", text=text).as_dict()
        if result.get("unreachable") or result.get("timedout"):
            own = _step_problems(result, host, "")
        else:
            names_others = lost is not None and result.get("problems")
            own = problems_from_result(result, None if names_others else host) or [otherwise]
        # What hosts that are gone have said, what others say of a connection to them, or follows from that, is no news.
        found += [entry for entry in own if not lost or (entry["host"] not in gone and _is_cause(entry))]
    return news(found)


def _stray_text(result: Entry) -> str:
    """The first lines of what a module printed in place of a result."""
    text = str(result.get("module_stderr") or result.get("module_stdout") or "")
    return "\n".join(one_line(line.strip()) for line in text.strip().splitlines()[:_STRAY_LINES])


def _is_cause(entry: ProblemDict) -> bool:
    known = CATALOGUE.entries.get(entry["id"])
    return known is not None and known.precedence < EFFECT and known.id not in _OF_OTHER_ENDS
