# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import AnswerError
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemDict
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.task_results import problems_by_host
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.mpijob import adopted_peers
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.mesh import named_peers, problems_twice
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._planning import VariablesAction, problems_of

_LEFT_OUT = {"failed": True, "msg": "the task did not run there; include the role for all hosts, without when"}


class ActionModule(VariablesAction):
    """Makes the list of workers from what their steps returned."""

    ARGUMENT_SPEC: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        "sshds": {"type": "dict", "default": {}},
        "meshes": {"type": "dict", "default": {}},
        "skip_failed": {"type": "bool", "default": False},
        "hostfile": {
            "type": "dict",
            "options": {
                "hosts": {"type": "list", "elements": "dict", "required": True},
                "names": {"type": "list", "elements": "str", "required": True},
                "run_dir": {"type": "str", "required": True},
            },
        },
    }

    def act(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """``peers`` and ``lost``. Raises GpufabricError."""
        sshds, hostfile = arguments["sshds"], arguments["hostfile"]
        if hostfile is not None:
            return {"peers": adopted_peers(hostfile["hosts"], hostfile["names"], hostfile["run_dir"]), "lost": {}}
        if not arguments["skip_failed"]:
            return {"peers": named_peers(list(sshds.values()), list(sshds)), "lost": {}}
        # Of one that the play or an include left out there is nothing.
        left_out = {
            name: _LEFT_OUT for name, sshd in sshds.items() if not {"address", "failed", "unreachable"} & {*sshd}
        }
        steps = {"to run a private sshd": {**sshds, **left_out}, "to keep the keys of the others": arguments["meshes"]}
        lost = problems_by_host(steps)
        good = {name: sshd for name, sshd in sshds.items() if "address" in sshd and name not in lost}
        # Addresses are compared once they are known to be some.
        for check in (_refused, problems_twice):
            lost.update(check(good))
            good = {name: sshd for name, sshd in good.items() if name not in lost}
        return {"peers": named_peers(list(good.values()), list(good)) if good else [], "lost": lost}


def _refused(sshds: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, list[ProblemDict]]:
    """Why what a host returned cannot be used, by host."""
    found = {}
    for name, sshd in sshds.items():
        try:
            named_peers([sshd], [name])
        except AnswerError as error:
            found[name] = problems_of(error)
    return found
