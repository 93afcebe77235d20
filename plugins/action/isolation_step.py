# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.plan import check_limits, running_ranks
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.mesh import check_environment_names
from ansible_collections.gpufabric.nccl.plugins.plugin_utils import _isolation
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._planning import (
    PlanAction,
    as_warnings,
    without_prefix,
)

#: The variables of the role that decide what a search measures, and how long it waits.
_SETTINGS = (
    "mode",
    "inside",
    "screens",
    "limit",
    "inside_limit",
    "tolerance_percent",
    "domains",
    "allow_uneven_gpus",
    "backend",
    "collective",
    "min_bytes",
    "max_bytes",
    "iterations",
    "warmup_iterations",
    "check",
    "extra_args",
    "env",
    "mca",
    "timeout",
    "startup_timeout",
)
#: Of the variables that all roles share, and of the benchmark's: over another network, or with other programs, it is another search.
_SHARED = ("control_interface", "control_subnet", "data_interface", "data_subnet", "mpi_prefix")
_PROGRAMS = ("dir",)

#: What the role nccl_benchmark says where the search does not.
_OF_BENCHMARK = ("backend", "allow_uneven_gpus", "check", "extra_args", "env", "forward_env", "mca")
#: What only the role nccl_benchmark says.
_LAUNCHER = ("launcher", "dedicated_launcher")
_LIMITS = ("silence_timeout", "orphan_timeout", "output_limit")


def _times(settings: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {name: settings[name] for name in ("timeout", "startup_timeout")}


class ActionModule(PlanAction):
    """Takes the next step of a search for the role isolate."""

    ARGUMENT_SPEC: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        "step": {"type": "str", "choices": ["check", "begin", "observe", "report"], "required": True},
        "infos": {"type": "dict", "default": {}},
        "peers": {"type": "list", "elements": "dict", "default": []},
        "lost": {"type": "dict", "default": {}},
        "earlier": {"type": "str", "default": ""},
        "environment": {"type": "str", "default": ""},
        "search": {"type": "dict", "default": {}},
        "runs": {"type": "dict", "default": {}},
        "adopted": {"type": "bool"},
    }

    def plan(self, arguments: dict[str, t.Any], variables: dict[str, t.Any]) -> dict[str, t.Any]:
        """What the step returns. Raises GpufabricError."""
        own = self._completed(without_prefix(variables, "isolate_"))
        shared = without_prefix(variables, "gpufabric_")
        settings = {
            **{name: own[name] for name in _SETTINGS},
            **{name: shared[name] for name in _SHARED},
            **self._benchmark(_PROGRAMS),
        }
        step, search = arguments["step"], arguments["search"]
        # Each group is started from one of its own nodes.
        infos = running_ranks(arguments["infos"], self._benchmark(_LAUNCHER))
        if step == "check":
            check_limits(self._limits())
            role = "nccl_benchmark" if variables["isolate_forward_env"] is None else "isolate"
            check_environment_names(f"{role}_forward_env", own["forward_env"])
            _isolation.check_mark(own["mark"], own["mark_key"])
            checked = _isolation.check(infos, settings)
            return {**checked, "warnings": as_warnings(checked["beside"])}
        if step == "begin":
            found = {"info": infos, "peers": arguments["peers"], "lost": arguments["lost"]}
            settings["environment"] = arguments["environment"]
            begun = _isolation.search(found, settings, arguments["earlier"])
            mca = {**begun["launch"].get("mca", {}), **(own["mca"] or {})}
            return {
                **begun,
                "launch": {
                    **begun["launch"],
                    "mca": mca,
                    "forward_env": own["forward_env"],
                    **self._limits(),
                    **_times(settings),
                },
            }
        if step == "observe":
            return _isolation.observed(search, arguments["runs"])
        return _isolation.report(search["document"], boolean(own["fail_on_bad"]), arguments["adopted"])

    def _completed(self, own: dict[str, t.Any]) -> dict[str, t.Any]:
        """The role's variables, with the benchmark's in place of those that have no value. Raises OptionError."""
        missing = [name for name in _OF_BENCHMARK if own[name] is None]
        return {**own, **self._benchmark(missing)} if missing else own

    def _limits(self) -> dict[str, t.Any]:
        """The limits of a launch, of which the role has no variables of its own. Raises OptionError."""
        return self._benchmark(_LIMITS)

    def _benchmark(self, names: t.Iterable[str]) -> dict[str, t.Any]:
        """Variables of the role nccl_benchmark, without its prefix. Raises OptionError."""
        prefix = "nccl_benchmark_"
        asked = [f"{prefix}{name}" for name in names]
        read = self.read_variables(self.role_path.parent / "nccl_benchmark", prefix, asked)
        return without_prefix({name: read[name] for name in asked}, prefix)
