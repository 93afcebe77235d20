# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import pathlib
import re
import typing as t

from ansible.utils.vars import load_extra_vars
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._options import shown
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import listing
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._planning import VariablesAction

#: What playbooks have in their headers (hosts, imports), where no variable of a host is known.
ONLY_EXTRA = (
    "gpufabric_job",
    "gpufabric_local_nodes",
    "gpufabric_mpijobs",
    "gpufabric_target",
    "gpufabric_worker_pods",
    "local_nodes_group",
    "mpijob_state",
    "worker_pods_group",
)

_ROLES = pathlib.Path(__file__).parents[2] / "roles"


def check_ignored(
    known: t.Container[str], hosts: t.Iterable[str], variables: t.Mapping[str, t.Mapping[str, t.Any]]
) -> None:
    """Raise OptionError if the inventory sets a variable that has an effect with ``-e`` only.

    ``known``: variables of the command line and of the play. ``variables``: by host, as ``hostvars`` holds them.
    """
    for host in hosts:
        for name in ONLY_EXTRA:
            if name not in known and name in variables[host]:
                allowed = f"to set it with -e, or where the playbook is imported; in the inventory (here for {host}) it has no effect"
                raise OptionError(name, variables[host][name], allowed)


def check_together(hosts: t.Sequence[str], batch: t.Container[str], serial: t.Sequence[t.Any], strategy: str) -> None:
    """Raise OptionError if there are no hosts, or if a play does not run its tasks on all of them at the same time.

    ``batch``: those that it runs on now. ``serial`` and ``strategy``: its keywords.
    """
    if not hosts:
        raise OptionError("gpufabric_hosts", list(hosts), "at least one host of the play")
    if strategy.endswith(("free", "host_pinned")):
        allowed = "linear, since roles of gpufabric.nccl need what a task returned on all hosts: strategy: ansible.builtin.linear in the play"
        raise OptionError("strategy", strategy, allowed)
    if any(serial) and any(host not in batch for host in hosts):
        given = serial[0] if len(serial) == 1 else list(serial)
        raise OptionError("serial", given, "a play without it: workers are connected and measured together")


def check_own_run(name: str, value: t.Any, given: t.Any) -> None:
    """Raise OptionError if ``gpufabric_run_id`` is not what a playbook or role gives it: ``-e`` and facts take precedence over that.

    ``name`` and ``value``: of the variable that names the run there. ``given``: what tasks find in ``gpufabric_run_id``.
    """
    if str(given) != str(value):
        raise OptionError("gpufabric_run_id", given, f"to leave it out here, since {name} ({value}) names the run")


def check_group(
    name: str, group: str, mark: str, hosts: t.Iterable[str], variables: t.Mapping[str, t.Mapping[str, t.Any]]
) -> None:
    """Raise OptionError if others than those that a role joins to its group are in it: they would take part.

    ``name``: the variable that names the ``group``. ``mark``: a variable that the role gives to those that it joins. ``hosts``: of
    the group now. ``variables``: by host, as ``hostvars`` holds them.
    """
    others = [host for host in hosts if mark not in variables[host]]
    if others:
        raise OptionError(name, group, f"another group, since the inventory has {listing(others)} in this one")


def check_limit(limit: str, group: str, hosts: t.Collection[str]) -> None:
    """Raise OptionError if a limit leaves out those that a role is to join to its group: it names hosts that are there alone.

    ``hosts``: of the inventory. Whether a pattern has those in it is known only when they are there.
    """
    words = [word for word in re.split(r"[:,]", limit) if word.strip() and word[0] not in "!&"]
    if words and all(word in hosts or word == "localhost" for word in words):
        raise OptionError(
            "--limit", limit, f"no --limit, or '{limit}:{group}', since it leaves out those that are to join the group"
        )


class ActionModule(VariablesAction):
    """Checks the variables of several roles at once."""

    ARGUMENT_SPEC: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        "roles": {"type": "list", "elements": "str", "default": []},
        "playbook": {"type": "bool", "default": False},
        "hosts": {"type": "list", "elements": "str"},
        "group": {
            "type": "dict",
            "options": {"name": {"type": "str", "required": True}, "mark": {"type": "str", "required": True}},
        },
        "own_run": {
            "type": "dict",
            "options": {"name": {"type": "str", "required": True}, "value": {"type": "str", "required": True}},
        },
    }

    def act(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """Nothing, if all is well. Raises OptionError."""
        for name in arguments["roles"]:
            if not (_ROLES / name / "meta" / "argument_specs.yml").is_file():
                allowed = sorted(path.name for path in _ROLES.iterdir())
                raise OptionError("roles", name, ", ".join(allowed))
            self._check_shared(self.read_variables(_ROLES / name))
        if arguments["playbook"]:
            known = {**self._task.get_play().get_vars(), **load_extra_vars(self._loader)}
            check_ignored(known, self._task_vars["groups"]["all"], self._task_vars["hostvars"])
        if arguments["own_run"] is not None:
            check_own_run(**arguments["own_run"], given=self.value_of("gpufabric_run_id"))
        if arguments["group"] is not None:
            group = str(self.value_of(arguments["group"]["name"]))
            hosts = self._task_vars["groups"].get(group, [])
            check_group(**arguments["group"], group=group, hosts=hosts, variables=self._task_vars["hostvars"])
            check_limit(self._task_vars.get("ansible_limit") or "", group, self._task_vars["groups"]["all"])
        if arguments["hosts"] is not None:
            play = self._task.get_play()
            check_together(arguments["hosts"], self._task_vars["ansible_play_batch"], play.serial, play.strategy)
        return {}

    def _check_shared(self, values: t.Mapping[str, t.Any]) -> None:
        """Raise OptionError if a variable that roles share is text in place of a list or dictionary: tasks use it as it is."""
        for name, value in values.items():
            if not name.startswith("gpufabric_") or not isinstance(value, (list, dict)):
                continue
            given = self.value_of(name)
            if isinstance(given, str):
                kind = "list" if isinstance(value, list) else "dictionary"
                example = value if shown(name, given) is given else {"NAME": "VALUE"}
                allowed = f"a {kind}; on the command line in JSON: -e '{json.dumps({name: example})}'"
                raise OptionError(name, shown(name, given), allowed)
