# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import collections
import difflib
import importlib.util
import itertools
import json
import pathlib
import re
import typing as t

import yaml
from ansible.errors import AnsibleError
from ansible.utils.vars import load_extra_vars
from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import WORKER_NAME
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.plan import (
    check_launcher,
    check_settings,
    with_sizes,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.sweep import with_sweep
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.installation import RANGES as RANGES_OF_BUILDS
from ansible_collections.gpufabric.nccl.plugins.module_utils._options import (
    Spec,
    check_ranges,
    read_value,
    shown,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.planning import check_values
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.tables import check_documents
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import check_run_id
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.policy import RANGES as RANGES_OF_SSH
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import listing, one_line
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._isolation import check_settings as check_search_settings
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._planning import (
    VariablesAction,
    check_environment,
    refused_fact,
    without_prefix,
)

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

#: What playbooks know, beside the variables of roles.
OF_PLAYBOOKS = (
    *ONLY_EXTRA,
    "compare_after",
    "compare_before",
    "compare_dest",
    "diagnose_run_id",
    "gpufabric_environment",
    "gpufabric_failure_note",
    "gpufabric_nodes_to_come",
    "gpufabric_own_run",
    "isolate_run_id",
    "local_nodes_keep",
)
#: What those are of which a wrong value would be another one there: Ansible takes any text but a few words for false.
_SPECS_OF_PLAYBOOKS: dict[str, Spec] = {
    "diagnose_run_id": {"type": "str"},
    "gpufabric_job": {"type": "str", "choices": ["benchmark", "isolate"]},
    "gpufabric_local_nodes": {"type": "bool"},
    "gpufabric_mpijobs": {"type": "bool"},
    "gpufabric_target": {"type": "str"},
    "gpufabric_worker_pods": {"type": "bool"},
    "isolate_run_id": {"type": "str"},
    "local_nodes_keep": {"type": "bool"},
}
#: What roles set themselves, and is called nearly as a variable of theirs.
_MADE = ("isolate_marks",)
#: How much of a name must be that of a variable to be taken for it, from 0 to 1; ``max_byte`` and ``max_bytes`` are 0.94.
_ALIKE = 0.82

#: Lists of hosts of which tasks ask whether a host is in them: text would be searched for its name, and ``w10`` has ``w1`` in it.
_HOSTS = ("gpufabric_hosts", "key_exchange_hosts")
#: Lists and dictionaries that tasks use as they are, beside those that several roles share: text would be another value there.
NO_TEXT = ("key_exchange_hosts", "report_isolation", "report_results", "report_sweep")
#: Numbers, switches and lists that tasks use as they are: a blank would be 0 or false there, or none that a module takes.
NO_BLANK = (
    "gpufabric_forward_env",
    "gpufabric_hosts",
    "gpufabric_take_over",
    "isolate_fail_on_bad",
    "key_exchange_connect_timeout",
    "key_exchange_hosts",
    "key_exchange_key_lifetime",
    "key_exchange_own",
    "key_exchange_port",
    "key_exchange_user_config",
    "local_nodes_count",
    "mpijob_dns_interval",
    "mpijob_dns_timeout",
    "mpijob_keep",
    "mpijob_operator_timeout",
    "mpijob_replicas",
    "mpijob_ssh_port",
    "mpijob_start_timeout",
    "mpijob_timeout",
    "nccl_tests_jobs",
    "nccl_tests_spread",
    "nccl_tests_spread_timeout",
    "nccl_tests_timeout",
    "preflight_fail",
    "preflight_ignore_errors",
    "preflight_task_timeout",
    "preflight_timeout",
    "worker_pods_keep",
    "worker_pods_replicas",
    "worker_pods_timeout",
)

#: What each host may have of its own, since it is used there.
OWN = (
    "gpufabric_control_interface",
    "gpufabric_control_subnet",
    "gpufabric_data_interface",
    "gpufabric_data_subnet",
    "gpufabric_environment",
    "gpufabric_mpi_prefix",
    "gpufabric_node_env",
    "gpufabric_run_dir",
    "key_exchange_connect_timeout",
    "key_exchange_key_lifetime",
    "key_exchange_own",
    "key_exchange_port",
    "key_exchange_sshd_options",
    "key_exchange_user_config",
    "nccl_tests_cuda_home",
    "nccl_tests_jobs",
    "nccl_tests_nccl_home",
    "nccl_tests_rocm_home",
    "preflight_task_timeout",
)
#: Facts of roles, which hosts of another play have not.
_FACTS = ("gpufabric_data_env", "gpufabric_peers", "nccl_benchmark_group", "report_results")
#: Who starts a benchmark, and whether that is all it does.
_OF_LAUNCHER = ("nccl_benchmark_launcher", "nccl_benchmark_dedicated_launcher")
#: What is used on the controller alone.
_OF_CONTROLLER = ("compare_", "local_nodes_", "mpijob_", "worker_pods_")
#: By role. Their modules would refuse them on each host, when others have begun already.
_RANGES = {"key_exchange": RANGES_OF_SSH, "nccl_tests": RANGES_OF_BUILDS}
_MISSING = object()

_GROUP = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")

_ROLES = pathlib.Path(__file__).parents[2] / "roles"
_PREFIXES = ("compare_", "diagnose_", "gpufabric_", *sorted(f"{path.name}_" for path in _ROLES.iterdir()))
#: Of what roles and playbooks keep or hand on, which nobody sets.
_KEPT = ("gpufabric_", "mpijob_hostfile_", *(f"_{prefix}" for prefix in _PREFIXES))
#: How the connection to a pod calls kubectl, without "ansible_". Ansible removes such facts of its own connections alone.
_OF_KUBECTL = "kubectl_"


def check_facts(variables: t.Mapping[str, t.Mapping[str, t.Any]], options: t.Collection[str]) -> None:
    """Raise GpufabricError if a host gives a variable of ours by its facts: Ansible takes them before the inventory, on the controller too.

    ``variables``: by host, not rendered. ``options``: the names of all variables of roles.
    """
    known = {*options, *OF_PLAYBOOKS}
    for host, own in variables.items():
        for name in own.get("ansible_facts") or ():
            # What is no variable itself may be an interface, of ansible_NAME.
            of_kubectl = name.startswith(_OF_KUBECTL) and f"ansible_{name}" in own
            if of_kubectl or (name in own and (name in known or name.startswith(_KEPT))):
                raise refused_fact(name, host)


def check_ignored(
    known: t.Container[str], hosts: t.Iterable[str], variables: t.Mapping[str, t.Mapping[str, t.Any]]
) -> None:
    """Raise OptionError if the inventory sets a variable that has an effect with ``-e`` only.

    ``known``: variables of the command line and of the play. ``variables``: by host, not rendered.
    """
    for host in hosts:
        own = variables[host]
        for name in ONLY_EXTRA:
            if name not in known and name in own:
                allowed = f"to set it with -e, or where the playbook is imported; in the inventory (here for {host}) it has no effect"
                raise OptionError(name, own[name], allowed)


def check_names(given: t.Iterable[str], options: t.Collection[str]) -> None:
    """Raise GpufabricError for a name that is nearly that of a variable: Ansible ignores it, and a limit, say, would be none.

    ``options``: the names of all variables of roles.
    """
    known = {*options, *OF_PLAYBOOKS, *_MADE}
    for name in given:
        prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), None)
        if prefix is None or name in known:
            continue
        rests = [other[len(prefix) :] for other in sorted(known) if other.startswith(prefix)]
        for alike in difflib.get_close_matches(name[len(prefix) :], rests, 1, _ALIKE):
            raise GpufabricError(
                f"{name}: gpufabric.nccl has no such variable, so that it would have no effect; set {prefix}{alike}, or rename"
                " it if it is your own"
            )


def misspelled(given: t.Iterable[str], options: t.Collection[str]) -> list[str]:
    """A warning for each name whose prefix is nearly one of ours, and that is a variable's but for one letter, or two that are swapped.

    No error, since other projects may use such names. Names that begin with an underscore are those of our plays.
    """
    known = sorted({*options, *OF_PLAYBOOKS})
    return [
        f"{name}: gpufabric.nccl has no such variable, so that it has no effect there; set {meant} if that is meant"
        for name in given
        if not name.startswith((*_PREFIXES, "_"))
        for meant in known
        if _is_slip(name, meant)
    ]


def without_effect(given: t.Iterable[str], options: t.Collection[str]) -> list[str]:
    """A warning for each name that begins as ours do and is none. ``given``: names of the command line, where only users set any."""
    known = {*options, *OF_PLAYBOOKS}
    return [
        f"{name}: gpufabric.nccl has no such variable, so that it has no effect"
        for name in given
        if name.startswith(_PREFIXES) and name not in known
    ]


def _is_slip(name: str, meant: str) -> bool:
    """Whether a letter is missing, too many or another one, or two neighbours are swapped."""
    at = next((at for at, pair in enumerate(zip(name, meant)) if pair[0] != pair[1]), min(len(name), len(meant)))
    name, meant = name[at:], meant[at:]
    return name[1:] in (meant, meant[1:]) or name == meant[1:] or f"{name[1:2]}{name[:1]}{name[2:]}" == meant


def check_slices(extra: t.Mapping[str, t.Any]) -> None:
    """Raise OptionError if AWX runs the job in slices: each would be a benchmark of some of the hosts, at the same time and of the same name.

    ``extra``: the variables of the command line. AWX says nothing of slices to a job, but they are a workflow with the name of the job
    template.
    """
    for prefix in ("awx", "tower"):
        name = extra.get(f"{prefix}_workflow_job_name")
        if name is not None and name == extra.get(f"{prefix}_job_template_name"):
            allowed = (
                "a job template without slices (Job Slicing 1), since workers are connected and measured together; if it has none, a workflow"
                " that is not called like the job template"
            )
            raise OptionError(f"{prefix}_workflow_job_name", name, allowed)


def check_together(
    hosts: t.Sequence[str],
    everyone: t.Container[str],
    batch: t.Container[str],
    serial: t.Sequence[t.Any],
    strategy: str,
) -> None:
    """Raise OptionError if there are no hosts, if one is there twice, or if a play does not run its tasks on all of them at the same time.

    ``everyone``: the hosts of the play. ``batch``: those that it runs on now. ``serial`` and ``strategy``: its keywords.
    """
    if not hosts:
        raise OptionError("gpufabric_hosts", list(hosts), "at least one host of the play")
    twice = [host for host, number in collections.Counter(hosts).items() if number > 1]
    if twice:
        raise OptionError("gpufabric_hosts", twice[0], "each host once")
    for host in hosts:
        if not WORKER_NAME.is_allowed(host):
            raise OptionError("gpufabric_hosts", host, f"hosts whose names in the inventory are {WORKER_NAME.allowed}")
        if host not in everyone:
            raise OptionError(
                "gpufabric_hosts", host, "hosts of the play, which the inventory, gpufabric_target and --limit decide"
            )
    if strategy.endswith(("free", "host_pinned")):
        allowed = "linear, since roles of gpufabric.nccl need what a task returned on all hosts: strategy: ansible.builtin.linear in the play"
        raise OptionError("strategy", strategy, allowed)
    if any(serial) and any(host not in batch for host in hosts):
        given = serial[0] if len(serial) == 1 else list(serial)
        raise OptionError("serial", given, "a play without it: workers are connected and measured together")


def check_for_each(parent: t.Any) -> None:
    """Raise OptionError if a role is included with ``run_once``: its tasks would run on one host, whose answer Ansible takes for that of all.

    ``parent``: the block of a role's task; what it is included by comes above it.
    """
    while parent is not None:
        # Its property has no value of the play's, since blocks are finalized.
        if parent._get_parent_attribute("run_once") is True:
            allowed = "to include the role without it, since its tasks are for each host; what is for all they do once by themselves"
            raise OptionError("run_once", True, allowed)
        parent = parent._parent


def check_alike(name: str, values: t.Mapping[str, t.Any]) -> None:
    """Raise OptionError for a variable of the whole run that hosts have differently: the value of one would be taken, and the others ignored.

    ``values``: by host, ``_MISSING`` of one that does not have it.
    """
    first, *others = values
    for host in others:
        if values[host] == values[first]:
            continue
        has, other = (first, host) if values[host] is _MISSING else (host, first)
        rest = f"{other} has none" if values[other] is _MISSING else f"{other} has another"
        allowed = (
            f"the same value for all hosts of the play, since it is for the whole run; it is for {has}, and {rest}"
        )
        raise OptionError(name, shown(name, values[has]), allowed)


def _is_of_host(value: t.Any, own: t.Mapping[str, t.Mapping[str, t.Any]]) -> bool:
    """Whether a value is a template with a variable in it that hosts have differently. To render it for each of them takes time.

    ``own``: the variables by host.
    """
    first, *others = own.values()
    waiting, seen = [value], {""}
    while waiting:
        text = str(waiting.pop())
        if "{{" not in text and "{%" not in text:
            continue
        for name in set(re.findall(r"\w+", text)) - seen:
            seen.add(name)
            mine = first.get(name, _MISSING)
            if any(variables.get(name, _MISSING) != mine for variables in others):
                return True
            waiting.append(mine)
    return False


def check_results(name: str, path: str) -> None:
    """Raise OptionError if a file does not hold results. ``name``: the variable that has the path."""
    file = pathlib.Path(path)
    try:
        # A pipe may never end.
        if not file.is_file():
            raise GpufabricError("it is no file")
        check_documents(json.loads(file.read_text(encoding="utf-8"))["results"])
    except (OSError, ValueError, RecursionError, KeyError, TypeError, GpufabricError) as error:
        reason = "it has no results" if isinstance(error, (KeyError, TypeError)) else one_line(str(error), 200)
        allowed = f"the paths of files results.json, as the role report writes them ({reason})"
        raise OptionError(name, path, allowed) from error


def check_collections(wanted: t.Iterable[str]) -> None:
    """Raise GpufabricError for the first collection that is not installed, such as ``containers.podman:>=1.10.0``."""
    for requirement in wanted:
        name = requirement.partition(":")[0]
        try:
            found = importlib.util.find_spec(f"ansible_collections.{name}")
        except ModuleNotFoundError:
            # Its namespace.
            found = None
        if found is None:
            raise GpufabricError(
                f"the collection {name} is missing; type: ansible-galaxy collection install '{requirement}'"
            )


def check_own_run(name: str, value: t.Any, given: t.Any) -> None:
    """Raise OptionError if ``gpufabric_run_id`` is not what a playbook or role gives it: ``-e`` and facts take precedence over that.

    ``name`` and ``value``: of the variable that names the run there. ``given``: what tasks find in ``gpufabric_run_id``.
    """
    if str(given) != str(value):
        raise OptionError("gpufabric_run_id", given, f"to leave it out here, since {name} ({value}) names the run")


def check_group(
    name: str, group: str, mark: str, hosts: t.Iterable[str], variables: t.Mapping[str, t.Mapping[str, t.Any]]
) -> None:
    """Raise OptionError if others than those that a role joins to its group are in it: they would take part. Or if plays would not find it.

    ``name``: the variable that names the ``group``. ``mark``: a variable that the role gives to those that it joins. ``hosts``: of
    the group now. ``variables``: by host, not rendered.
    """
    # As a pattern of hosts, "gpu workers" is two groups, and a play that finds none is skipped.
    if not _GROUP.match(group):
        raise OptionError(name, group, "the name of a group: letters, digits, underscores, dots and dashes")
    others = [host for host in hosts if mark not in variables[host]]
    if others:
        raise OptionError(name, group, f"another group, since the inventory has {listing(others)} in this one")


def _specs() -> dict[pathlib.Path, str]:
    """The text of the argument_specs of each role, by its folder."""
    return {
        role: (role / "meta" / "argument_specs.yml").read_text(encoding="utf-8") for role in sorted(_ROLES.iterdir())
    }


def option_names(text: str) -> list[str]:
    """The names of the options of all entry points in the text of argument_specs."""
    return re.findall(r"^ {6}(\w+):", text, re.MULTILINE)


def _spec_of(name: str, specs: t.Mapping[pathlib.Path, str]) -> Spec:
    """The option of a name in the first role that has it. ``specs``: the text of argument_specs by role."""
    texts = [text for text in specs.values() if names_in(text, [name])]
    entries = yaml.safe_load(texts[0])["argument_specs"].values() if texts else []
    return next(
        (entry["options"][name] for entry in entries if name in entry.get("options", ())),
        _SPECS_OF_PLAYBOOKS.get(name, {}),
    )


def names_in(text: str, names: t.Collection[str]) -> list[str]:
    """Those of the names that are options in the text of argument_specs."""
    return [name for name in names if re.search(rf"^ +{re.escape(name)}:", text, re.MULTILINE)]


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
        "collections": {"type": "list", "elements": "str", "default": []},
        "results": {"type": "dict", "default": {}},
        "own_run": {
            "type": "dict",
            "options": {"name": {"type": "str", "required": True}, "value": {"type": "str", "required": True}},
        },
    }

    def act(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """Nothing, or warnings, if all is well. Raises OptionError."""
        warnings: list[str] = []
        specs = _specs()
        options = {name for text in specs.values() for name in option_names(text)}
        # Each look at a host's variables takes time, and more so if its facts are rendered.
        variables = {host: self._raw(host) for host in self._task_vars["groups"]["all"]}
        # Of all hosts, and in each call: hosts may have joined, or told facts, since the last one.
        check_facts(variables, options)
        for name in _HOSTS:
            if self._is_told(name):
                self._check_shared({name: read_value(name, {"type": "list"}, self.value_of(name)) or []})
        for name in arguments["roles"]:
            if not (_ROLES / name / "meta" / "argument_specs.yml").is_file():
                allowed = sorted(path.name for path in _ROLES.iterdir())
                raise OptionError("roles", name, ", ".join(allowed))
            values = self.read_variables(_ROLES / name)
            self._check_shared(values)
            check_ranges(_RANGES.get(name, {}), values, f"{name}_")
            if name == "preflight":
                # In time for the runs that the workers have when the launcher looks at them.
                check_values(values, "preflight_")
        if arguments["roles"] or arguments["hosts"] is not None:
            # In a play of the user's own nothing else has looked at them, and what a role of it is given is known to its tasks alone.
            check_names(sorted({*self._task_vars}.union(*variables.values())), options)
        check_collections(arguments["collections"])
        for name, paths in arguments["results"].items():
            for path in paths:
                check_results(name, path)
        if arguments["playbook"]:
            extra = load_extra_vars(self._loader)
            check_slices(extra)
            self._check_answers(extra, specs)
            self._check_own()
            known = {**self._task.get_play().get_vars(), **extra}
            names = dict.fromkeys([*known, *(name for own in variables.values() for name in own)])
            check_names(names, options)
            warnings = [*misspelled(names, options), *without_effect(extra, options)]
            check_ignored(known, variables, variables)
        if arguments["own_run"] is not None:
            check_run_id(arguments["own_run"]["name"], arguments["own_run"]["value"])
            check_own_run(**arguments["own_run"], given=self.value_of("gpufabric_run_id"))
        elif self._is_told("gpufabric_run_id") and self.value_of("gpufabric_run_id") is not None:
            # Nodes refuse it, too, and a search or a diagnosis would take that for what is wrong with them.
            check_run_id("gpufabric_run_id", str(self.value_of("gpufabric_run_id")))
        if arguments["group"] is not None:
            group = str(self.value_of(arguments["group"]["name"]))
            hosts = self._task_vars["groups"].get(group, [])
            check_group(**arguments["group"], group=group, hosts=hosts, variables=variables)
            check_limit(self._task_vars.get("ansible_limit") or "", group, self._task_vars["groups"]["all"])
        if arguments["hosts"] is not None:
            play = self._task.get_play()
            check_for_each(self._task._parent)
            everyone, batch = (set(self._task_vars[f"ansible_play_{name}"]) for name in ("hosts_all", "batch"))
            check_together(arguments["hosts"], everyone, batch, play.serial, play.strategy)
            if "nccl_benchmark" in arguments["roles"]:
                # Only then the hosts are those of a benchmark, and not all that a role connects.
                values = self.read_variables(_ROLES / "nccl_benchmark", names=_OF_LAUNCHER)
                check_launcher(arguments["hosts"], without_prefix(values, "nccl_benchmark_"))
            # Tasks that run once take variables from this host, which may be none of them.
            together = dict.fromkeys([self._task_vars["inventory_hostname"], *arguments["hosts"]])
            # The controller is in no group if the inventory does not name it.
            self._check_alike({host: variables.get(host) or self._raw(host) for host in together}, specs)
        return {"warnings": warnings} if warnings else {}

    def _check_answers(self, extra: t.Collection[str], specs: t.Mapping[pathlib.Path, str]) -> None:
        """Raise OptionError if a variable of the command line, or an answer of a survey, is no value of its type in some role."""
        for role, text in specs.items():
            # To parse them all takes half a second.
            named = names_in(text, extra)
            names = [name for name in named if self._is_told(name)]
            if not names:
                continue
            values = self.read_variables(role, names=names)
            self._check_shared({name: values[name] for name in names if name in values})
            check_ranges(_RANGES.get(role.name, {}), values, f"{role.name}_")
            if role.name == "preflight":
                check_values(values, "preflight_")
            if role.name == "nccl_benchmark":
                # In time for pods, which are created before the benchmark is planned.
                check_settings(with_sweep(with_sizes({}, without_prefix(values, "nccl_benchmark_"))))
            if role.name == "isolate":
                check_search_settings(without_prefix(values, "isolate_"))

    def _raw(self, host: str) -> dict[str, t.Any]:
        """The variables of a host, not rendered."""
        return t.cast("dict[str, t.Any]", self._task_vars["hostvars"].raw_get(host))

    def _check_alike(self, own: t.Mapping[str, t.Mapping[str, t.Any]], specs: t.Mapping[pathlib.Path, str]) -> None:
        """Raise OptionError for a variable of the whole run that the inventory gives to some of the hosts, or to each another one.

        ``own``: the variables by host, not rendered. The first is the host that tasks run on once.
        """
        task = self._task
        # What takes precedence over the inventory.
        set_for_all = {*load_extra_vars(self._loader), *task.get_play().get_vars(), *task.get_vars()}
        if task._role is not None:
            set_for_all |= {*task._role.get_vars(), *task._role.get_role_params()}
        options = {*OF_PLAYBOOKS, *(name for text in specs.values() for name in option_names(text))}
        given = {name for variables in own.values() for name in options.intersection(variables)}
        first = next(iter(own))
        mine = own[first]
        # As files of the play do.
        set_for_all |= {name for name in given & {*mine} if self._task_vars.get(name, mine[name]) != mine[name]}
        for role, text in specs.items():
            # They are read on each host in a task of its own, when the other hosts have begun already.
            names = [name for name in OWN if name in given and name.startswith(f"{role.name}_")]
            kinds = yaml.safe_load(text)["argument_specs"]["main"]["options"] if names else {}
            for name, variables in itertools.product(names, own.values()):
                if name not in set_for_all and "{{" not in str(variables.get(name)):
                    value = read_value(name, kinds[name], variables.get(name))
                    check_ranges(_RANGES.get(role.name, {}), {name: value}, f"{role.name}_")
        for name in sorted(given):
            if name in set_for_all or name in (*OWN, *ONLY_EXTRA, *_FACTS) or name.startswith(_OF_CONTROLLER):
                continue
            values = {host: variables.get(name, _MISSING) for host, variables in own.items()}
            if any(value != values[first] for value in values.values()) or _is_of_host(values[first], own):
                spec = _spec_of(name, specs)
                check_alike(name, {host: self._of_host(host, name, spec, value) for host, value in values.items()})

    def _of_host(self, host: str, name: str, spec: Spec, value: t.Any) -> t.Any:
        """The value of a variable of a host, as its type says, though it may be a template; as it is, if that names what is not known yet."""
        if value is _MISSING:
            return value
        try:
            return read_value(name, spec, self._task_vars["hostvars"][host][name])
        except (AnsibleError, KeyError, OptionError):
            return value

    def _check_own(self) -> None:
        """Raise OptionError if a variable of playbooks is no value of its type."""
        for name, spec in _SPECS_OF_PLAYBOOKS.items():
            if self._is_told(name):
                read_value(name, spec, self.value_of(name))
        if self._is_told("gpufabric_environment"):
            check_environment("gpufabric_environment", self.value_of("gpufabric_environment"))

    def _is_told(self, name: str) -> bool:
        """Whether a variable has a value here: a template may name what is known later, or on workers alone."""
        try:
            self.value_of(name)
        except GpufabricError:
            return False
        return True

    def _check_shared(self, values: t.Mapping[str, t.Any]) -> None:
        """Raise OptionError for a value that tasks use as it is, and that is none of its type."""
        for name, value in values.items():
            given = self.value_of(name)
            # YAML makes null of a name with nothing behind it.
            is_blank = not given.strip() if isinstance(given, str) else self._task_vars.get(name, "") is None
            if name in NO_BLANK and is_blank:
                raise OptionError(name, given, "a value, or to leave the variable out")
            if not isinstance(given, str):
                continue
            if isinstance(value, (list, dict)) and (name.startswith("gpufabric_") or name in NO_TEXT):
                kind = "list" if isinstance(value, list) else "dictionary"
                example = value if shown(name, given) is given else {"NAME": "VALUE"}
                allowed = f"a {kind}; on the command line in JSON: -e '{json.dumps({name: example})}'"
                raise OptionError(name, shown(name, given), allowed)
