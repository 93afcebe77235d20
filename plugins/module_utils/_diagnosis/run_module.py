# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""How every module of the collection begins and ends."""

from __future__ import annotations

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem, ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, NodeError

#: Finds the problems that a text shows, such as Catalogue.problems_in.
Reader = t.Callable[[str], t.Sequence[Problem]]


class QuietModule(AnsibleModule):
    """Keeps its arguments out of the node's system log, which is for others too: values of variables may be tokens.

    The argument ``no_log`` of AnsibleModule does not: what the task says of it takes its place before the log is written.
    """

    def _log_invocation(self) -> None:
        """Write nothing."""


def failure(error: GpufabricError, read: Reader | None = None) -> dict[str, t.Any]:
    """What a module fails with: ``msg``, ``problems``, and what the error adds to them.

    ``read``: used if the error carries no problems itself; their cures are in ``msg`` too, unless it has one.
    """
    msg = str(error)
    problems: t.Sequence[Problem] = error.problems if isinstance(error, ProblemError) else ()
    if isinstance(error, NodeError) and not problems and read is not None:
        problems = read(msg)
        if not error.has_cure:
            msg = ". ".join([msg, *(f"{problem.cause} {problem.cure}" for problem in problems)])
    return {"msg": msg, "problems": [problem.as_dict() for problem in problems], **error.details}


def run_module(
    module: AnsibleModule,
    function: t.Callable[[dict[str, t.Any], bool], t.Mapping[str, t.Any]],
    read: Reader | None = None,
) -> None:
    """Exit with what the function returns of the module's parameters and check mode, or fail with what it raises."""
    try:
        result = function(module.params, module.check_mode)
    except GpufabricError as error:
        module.fail_json(**failure(error, read))
    module.exit_json(**{"changed": False, **result})
