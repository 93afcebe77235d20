# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import (
    PLAIN,
    TEXT,
    AnswerError,
    Each,
    Kind,
    Optional,
    check_answer,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.task_results import problems_from_result
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.dns import dns_report
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._cluster import CLUSTER_ARGUMENTS, ClusterAction
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._planning import failed, problems_of

_ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    **CLUSTER_ARGUMENTS,
    "result": {"type": "dict", "required": True},
    "host": {"type": "str"},
    "cluster_domain": {"type": "str", "default": "cluster.local"},
}

#: The hostfile and the hosts file of a large cluster have some hundred KiB.
_LONGEST_FILE = 1 << 20
_MOST_ERRORS = 1 << 13
_FILE = Kind(
    lambda value: isinstance(value, str) and len(value) <= _LONGEST_FILE, "the text of a file of at most 1 MiB"
)
#: Each host may have been tried by two names.
_ERRORS = Kind(
    lambda value: (
        isinstance(value, dict)
        and len(value) <= _MOST_ERRORS
        and all(PLAIN.is_allowed(name) and TEXT.is_allowed(error) for name, error in value.items())
    ),
    f"a text for each of at most {_MOST_ERRORS} names",
)
#: What is used of the answer of mpi_hostfile if names do not resolve.
_FAILURE = {
    # It has all names.
    "msg": _FILE,
    "unresolved": [PLAIN],
    "stale": Optional([{"name": PLAIN, "addresses": [PLAIN], "expected": PLAIN}]),
    "lookup_errors": Optional(_ERRORS),
    "evidence": Optional(Each(PLAIN, _FILE)),
}


class ActionModule(ClusterAction):
    """Fails with the reason why there is no hostfile."""

    _VALID_ARGS = frozenset(_ARGUMENT_SPEC)

    def act(self, task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        """The failure."""
        arguments = self.validate_argument_spec(_ARGUMENT_SPEC)[1]
        result = arguments["result"]
        if "unresolved" not in result:
            problems = problems_from_result(result, arguments["host"])
            return failed(problems, [], str(result.get("msg", "mpi_hostfile gave no result")), self._task.no_log)
        try:
            failure = check_answer(arguments["host"] or "the launcher", "mpi_hostfile", result, _FAILURE)
        except AnswerError as error:
            return failed(problems_of(error), [], "", self._task.no_log)
        self.prepare(arguments, task_vars)
        # What may not be looked at is reported as such.
        lookups = {
            kind: self.execute("kubernetes.core.k8s_info", api_version="v1", kind=kind)
            for kind in ("Service", "Endpoints", "Pod")
        }
        report = dns_report(failure, lookups, arguments["namespace"], arguments["cluster_domain"])
        return failed(report["problems"], [], report["seen"], self._task.no_log)
