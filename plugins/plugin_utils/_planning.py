# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to the collection: it may change in any release.

"""Actions by which a role plans: its variables in, typed by the role's own argument_specs; a plan, or a failure with problems, out."""

from __future__ import annotations

import abc
import json
import pathlib
import typing as t

import yaml
from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import AnswerError
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import (
    Problem,
    ProblemDict,
    ProblemError,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.rendering import problems_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.openmpi import (
    check_environment as check_variable_names,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._options import program_text, read_values, shown
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import (
    clean,
    clean_line,
    clean_values,
    indented,
    listing,
    one_line,
)
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._hiding import hidden

try:
    from ansible.errors import AnsibleValueOmittedError
except ImportError:

    class AnsibleValueOmittedError(Exception):  # type: ignore[no-redef]
        """Not raised by older releases."""


def failed(
    problems: t.Sequence[t.Mapping[str, t.Any]], logs: t.Sequence[str], end: str, is_secret: bool, note: str = ""
) -> dict[str, t.Any]:
    """The result of an action that fails. The problems are shown once, for people to read; ``msg`` only names them.

    Whoever rescues the task gets them by failure_details: Ansible shows a result on the screen, and once more as an error, but for its
    ``invocation``. ``end``: the last line. ``is_secret``: the task has ``no_log``. ``note``: what else to do in the end.
    """
    # A machine may have said it: what follows a line break is not to look like a line of Ansible's.
    end = indented(clean(end).strip())
    end = "\n".join(part for part in (end, clean(note).strip()) if part)
    logs = [clean_line(log) for log in logs]
    told = clean_values({"problems": problems, "logs": logs, "end": end})
    result = {"failed": True, "changed": False, "invocation": {"module_args": told}}
    if not problems and not logs and "\n" not in end:
        return {**result, "msg": end}
    if not is_secret:
        block = problems_text(problems, logs) if problems or logs else ""
        Display().display("\n".join(part for part in (block, end) if part))
    names = listing(dict.fromkeys(str(problem["id"]) for problem in problems))
    return {**result, "msg": f"{names or 'The reason'}: see above."}


def problems_of(error: GpufabricError) -> list[ProblemDict]:
    """The problems that an error carries. An answer that was refused is one of the host that gave it, whosever task refused it."""
    if isinstance(error, AnswerError):
        return [problem("wrong-answer", error.host, str(error)).as_dict()]
    return [item.as_dict() for item in error.problems] if isinstance(error, ProblemError) else []


def refused_fact(name: str, host: str) -> GpufabricError:
    """The error that refuses a variable of ours among the facts of a host."""
    return GpufabricError(
        f"{name}: it is among the facts of {host}, which take precedence over the inventory, and a host is not to decide what"
        f" runs elsewhere. If a set_fact of yours made it, remove its cacheable; else find out what on {host} reports it. If"
        " facts are cached, add --flush-cache to the next command"
    )


def check_environment(name: str, value: t.Any) -> None:
    """Raise OptionError for a value of the keyword ``environment`` that Ansible would ignore, or write in the words of Python: ``True``."""
    if value is None or value == "":
        return
    if not isinstance(value, t.Mapping):
        allowed = f"a dictionary; on the command line in JSON: -e '{json.dumps({name: {'NAME': 'VALUE'}})}'"
        raise OptionError(name, shown(name, value), allowed)
    check_variable_names(name, dict.fromkeys(map(str, value), ""))
    for key, item in value.items():
        program_text(f"{name}.{key}", item)


def as_warnings(problems: t.Iterable[t.Mapping[str, t.Any]]) -> list[str]:
    """Problems as Ansible shows ``warnings`` of a result, each in one line."""
    found = map(Problem.from_dict, problems)
    return [one_line(f"{entry.host}: {entry.in_a_line()}" if entry.host else entry.in_a_line(), 500) for entry in found]


def note_of(action: ActionBase) -> str:
    """What a playbook wants to be said wherever a play fails: its variable ``gpufabric_failure_note``."""
    note = action._task_vars.get("gpufabric_failure_note")
    return str(action._templar.template(note)) if note else ""


def decrypted(value: t.Any) -> t.Any:
    """A value with texts in place of what is vaulted in it, which is no text before ansible-core 2.19."""
    if getattr(value, "__ENCRYPTED__", False):
        return str(value)
    if isinstance(value, dict):
        return {key: decrypted(item) for key, item in value.items()}
    return [decrypted(item) for item in value] if isinstance(value, list) else value


class VariablesAction(ActionBase):
    """An action that reads variables of roles on the controller."""

    TRANSFERS_FILES = False
    _requires_connection = False
    #: The action's own arguments.
    ARGUMENT_SPEC: t.ClassVar[dict[str, dict[str, t.Any]]] = {}

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Run the action."""
        result = super().run(tmp, task_vars)
        self._task_vars = task_vars or {}
        arguments = self.validate_argument_spec(dict(self.ARGUMENT_SPEC))[1]
        try:
            plan = self.act(arguments)
        except GpufabricError as error:
            return {**result, **self.failure(problems_of(error), str(error))}
        return {**result, "changed": False, **plan, **hidden(plan)}

    def failure(self, problems: t.Sequence[t.Mapping[str, t.Any]], message: str) -> dict[str, t.Any]:
        """What the action returns if it fails. ``message``: why, where there are no problems."""
        return failed(problems, [], "" if problems else message, self._task.no_log, note_of(self))

    @abc.abstractmethod
    def act(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """What the action returns. Raises GpufabricError."""

    def require_role(self) -> None:
        """Raise AnsibleActionFail unless the task is one of a role."""
        if self._task._role is None:
            raise AnsibleActionFail(f"{self._task.action} works for a role, and can only be called by a task of it")

    @property
    def role_path(self) -> pathlib.Path:
        """The folder of the task's role."""
        return pathlib.Path(self._task._role._role_path)

    def read_variables(
        self, role: pathlib.Path, prefix: str = "", names: t.Container[str] | None = None
    ) -> dict[str, t.Any]:
        """The value of each variable of a role whose name begins with the prefix, as they are here. Raises GpufabricError.

        ``names``: of those that may be set here; the others have their defaults. None for all.
        """
        text = (role / "meta" / "argument_specs.yml").read_text(encoding="utf-8")
        options = yaml.safe_load(text)["argument_specs"]["main"]["options"]
        specs = {name: spec for name, spec in options.items() if name.startswith(prefix)}
        asked = [name for name in specs if names is None or name in names]
        for name in asked:
            # A play may have gathered them since all hosts were looked at.
            if name in (self._task_vars.get("ansible_facts") or ()):
                raise refused_fact(name, self._task_vars["inventory_hostname"])
        return read_values(specs, {name: self.value_of(name) for name in asked})

    def value_of(self, name: str) -> t.Any:
        """A variable's value; None if it is not set, or is omit. Raises GpufabricError if it names what is not known here."""
        if name not in self._task_vars:
            return None
        try:
            value = decrypted(self._templar.template(self._task_vars[name]))
        except AnsibleValueOmittedError:
            return None
        except AnsibleError as error:
            # Of Ansible's own message nobody would know which variable it is.
            raise GpufabricError(f"{name}: its value cannot be determined: {one_line(str(error), 300)}") from error
        return self._unless_omitted(value)

    def value_of_host(self, host: str, name: str) -> t.Any:
        """A variable's value as ``hostvars`` has it of a host; None if it is not set, or is omit."""
        try:
            return self._unless_omitted(self._task_vars["hostvars"][host].get(name))
        except AnsibleValueOmittedError:
            return None

    def _unless_omitted(self, value: t.Any) -> t.Any:
        # Before ansible-core 2.19 omit is a text of its own.
        return None if isinstance(value, str) and value == self._task_vars.get("omit") else value


class PlanAction(VariablesAction):
    """An action that plans for the role of its task."""

    def act(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """What the action returns. Raises GpufabricError."""
        self.require_role()
        return self.plan(arguments, self.read_variables(self.role_path))

    @abc.abstractmethod
    def plan(self, arguments: dict[str, t.Any], variables: dict[str, t.Any]) -> dict[str, t.Any]:
        """What the action returns, of its arguments and its role's variables. Raises GpufabricError."""


def without_prefix(variables: t.Mapping[str, t.Any], prefix: str) -> dict[str, t.Any]:
    """The variables of a role by their names without its prefix, such as ``nccl_benchmark_``."""
    return {name[len(prefix) :]: value for name, value in variables.items() if name.startswith(prefix)}
