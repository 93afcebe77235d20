# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.task_results import problems_by_host
from ansible_collections.gpufabric.nccl.plugins.module_utils._options import read_value
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight import summary
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.mesh import problems_twice
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._planning import VariablesAction

Arguments = t.Mapping[str, t.Any]

_DEDICATED = "preflight_dedicated_launcher"
#: Hosts whose log is read. Where more refuse the launcher, they have one reason.
_MOST_LOGS = 8


class ActionModule(VariablesAction):
    """Takes the next step of the role preflight."""

    ARGUMENT_SPEC: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        "step": {"type": "str", "choices": ["plan", "logs", "result", "diagnosis"], "required": True},
        "hosts": {"type": "list", "elements": "str", "default": []},
        "peers": {"type": "list", "elements": "dict", "default": []},
        "look": {"type": "dict", "default": {}},
        "logs": {"type": "dict", "default": {}},
        "lost": {"type": "dict", "default": {}},
        "reach": {"type": "dict", "default": {}},
        "launcher": {"type": "str"},
        "result": {"type": "dict", "default": {}},
        "cleanups": {"type": "dict", "default": {}},
    }

    def act(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """What the step returns. Raises OptionError."""
        self.require_role()
        return {"plan": self._plan, "logs": _logs, "result": _result, "diagnosis": _diagnosis}[arguments["step"]](
            arguments
        )

    def _plan(self, arguments: Arguments) -> dict[str, t.Any]:
        endpoints = summary.ssh_endpoints(arguments["hosts"], self._task_vars["hostvars"])
        places = {place["name"]: place for place in endpoints}
        peers = arguments["peers"]
        if read_value(_DEDICATED, {"type": "bool"}, self.value_of(_DEDICATED)):
            # What ranks need it may lack, and nobody logs in to it.
            peers = [peer for peer in peers if peer["name"] != arguments["launcher"]]
        names = ("ansible_python_interpreter", *summary.INTERFACES)
        variables = {peer["name"]: {name: self.value_of_host(peer["name"], name) for name in names} for peer in peers}
        return {
            "targets": summary.preflight_hosts(peers, variables, self._usual_interfaces()),
            "twice": problems_twice(places),
            "env": read_value("preflight_env", {"type": "dict", "default": {}}, self.value_of("preflight_env")),
        }

    def _usual_interfaces(self) -> dict[str, t.Any] | None:
        """The interfaces of this host, if it has them from its own variables, as the others have theirs; None where the play sets them."""
        own = self._task_vars["inventory_hostname"]
        values = {name: self.value_of(name) for name in summary.INTERFACES}
        is_own = all((self.value_of_host(own, name) or "") == (value or "") for name, value in values.items())
        return values if is_own else None


def _logs(arguments: Arguments) -> dict[str, t.Any]:
    """The launcher names the hosts, so only workers of the run may be logged in to, and only some: each takes a task of its own."""
    refusing = set(summary.refusing_hosts(arguments["look"]))
    return {"refusing": [peer["name"] for peer in arguments["peers"] if peer["name"] in refusing][:_MOST_LOGS]}


def _result(arguments: Arguments) -> dict[str, t.Any]:
    return summary.explained_refusals(arguments["look"], arguments["logs"], arguments["launcher"] or "the launcher")


def _diagnosis(arguments: Arguments) -> dict[str, t.Any]:
    launch = {arguments["launcher"]: arguments["look"]} if arguments["launcher"] else {}
    reach = arguments["reach"].get("problems", [])
    found = [
        # What the controller lacks to look at hosts: of these nothing is wrong.
        *({**entry, "severity": "warning"} for entry in reach if entry["host"] is None),
        *summary.lost_problems(arguments["lost"], reach),
        *summary.lost_problems(problems_by_host({"to start programs on the others": launch})),
        *arguments["result"].get("problems", []),
        *summary.lost_problems(problems_by_host({"to be cleaned up": arguments["cleanups"]})),
    ]
    return {
        "ok": all(entry["severity"] != "error" for entry in found),
        "problems": found,
        "hosts": summary.diagnosed_hosts(arguments["hosts"], arguments["result"].get("hosts", []), found),
    }
