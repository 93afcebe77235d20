# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import secrets
import string
import typing as t

import yaml
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.mpijob import ROLE, job_to_follow, plan_job
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.objects import (
    mark_play,
    mark_start,
    object_name,
    removal_command,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._options import shown
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._cluster import cluster_of
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._owner import claim_of
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._planning import (
    PlanAction,
    check_environment,
    without_prefix,
)
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._programs.texts import cpu_program

_OF_THE_POINT = "set nccl_benchmark_timeout, which limits each collective"
#: Variables of the role nccl_benchmark that count where Ansible runs on the workers alone: the values that, like the default, say no more
#: than what a job does without them, and what to do instead of any other.
_IGNORED: dict[str, tuple[tuple[t.Any, ...], str]] = {
    "gpufabric_data_subnet": (
        ("",),
        "set gpufabric_data_interface, or NCCL_SOCKET_IFNAME in nccl_benchmark_env, which takes several names and beginnings of names",
    ),
    "gpufabric_node_env": ((), "set nccl_benchmark_env or mpijob_env, which are the same for all pods"),
    "nccl_benchmark_rank_times": (("none",), "leave it out"),
    "nccl_benchmark_silence_timeout": ((0,), _OF_THE_POINT),
    "nccl_benchmark_startup_timeout": ((), _OF_THE_POINT),
}

_LETTERS = string.ascii_lowercase + string.digits


class ActionModule(PlanAction):
    """Plans the job for the role mpijob."""

    ARGUMENT_SPEC: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        "name": {"type": "str", "default": ""},
        "found": {"type": "list", "elements": "dict", "default": []},
    }

    def plan(self, arguments: dict[str, t.Any], variables: dict[str, t.Any]) -> dict[str, t.Any]:
        """The plan. Raises GpufabricError."""
        benchmark = without_prefix(variables, "nccl_benchmark_")
        if benchmark["sweep"]:
            raise GpufabricError(
                "nccl_benchmark_sweep: an MPIJob that is submitted or rendered runs each collective once. Adopt a running one"
                " (mpijob_state adopted), or use the playbook gpufabric.nccl.kubernetes."
            )
        self._check_not_ignored()
        run_id = variables["gpufabric_run_id"]
        own = without_prefix(variables, "mpijob_")
        name, owner = arguments["name"] or own["name"], ""
        claim = claim_of(variables["gpufabric_owner"], take_over=False)
        if own["state"] == "submitted":
            # The cluster's DNS may still have addresses of the pods of an earlier job of the same name.
            name = name or f"{object_name(run_id)}-{''.join(secrets.choice(_LETTERS) for _letter in range(5))}"
            owner = claim["owner"]
        settings = {
            **own,
            "name": name,
            "owner": owner,
            "namespace": variables["gpufabric_namespace"],
            # A survey of AWX gives empty texts for what was left blank.
            "control_interface": variables["gpufabric_control_interface"]
            or variables["gpufabric_control_subnet"]
            or None,
            "data_interface": variables["gpufabric_data_interface"] or None,
            "mpi_prefix": variables["gpufabric_mpi_prefix"] or None,
            "environment": self._environment(),
            "benchmark": benchmark,
        }
        if benchmark["backend"] == "cpu":
            # Its ranks use none, and other jobs may want them.
            settings["gpus"] = 0
        script = self.role_path / "files" / "mpijob-pod"
        files = {script.name: script.read_text(encoding="utf-8"), **cpu_program()}
        plan = plan_job(run_id, settings, files)
        followed = job_to_follow(arguments["found"], plan["objects"][-1])
        if followed:
            settings["name"] = followed
            plan = plan_job(run_id, settings, files)
        first = plan["objects"][0]
        if owner:
            mark_start(first)
            mark_play(first, claim["controller"], claim["play"])
        objects = [item for item in (plan["policy"], *plan["objects"]) if item]
        return {
            **plan,
            "settings": settings,
            "followed": followed,
            "mark": {name: first[name] for name in ("apiVersion", "kind", "metadata")},
            "manifest": manifest_of(objects),
            "removal": removal_command(run_id, ROLE, cluster_of(variables)),
        }

    def _environment(self) -> dict[str, t.Any]:
        """What all programs of the pods are to have: no task runs there, whose environment it would be. Raises GpufabricError."""
        name = "gpufabric_environment"
        value = self.value_of(name)
        check_environment(name, value)
        return dict(value or {})

    def _check_not_ignored(self) -> None:
        """Raise GpufabricError if a variable of the benchmark would have no effect, and the numbers would be other ones than were meant."""
        role = self.role_path.parent / "nccl_benchmark"
        given, defaults = self.read_variables(role, names=_IGNORED), self.read_variables(role, names=())
        for name, (harmless, instead) in _IGNORED.items():
            if given[name] not in (defaults[name], *harmless):
                raise GpufabricError(
                    f"{name}: {shown(name, given[name])!r} has no effect on an MPIJob that is submitted or rendered;"
                    f" {instead}, or adopt a running one (mpijob_state adopted)"
                )


def manifest_of(objects: list[dict[str, t.Any]]) -> str:
    """Objects as the text of one YAML file."""
    # Without Ansible's own types of text and number, which YAML does not know.
    plain = json.loads(json.dumps(objects, default=str))
    text = yaml.dump_all(plain, Dumper=_Dumper, explicit_start=True, sort_keys=False, width=120)
    return f"# A benchmark of gpufabric.nccl. Its result is in the log of the launcher's pod.\n{text}"


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as people write them; nothing as a reference to what stands above."""

    def ignore_aliases(self, data: t.Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)
