# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._options import Spec, read_values
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._planning import VariablesAction, without_prefix

_BASELINE: dict[str, Spec] = {
    "path": {"type": "path"},
    "document": {"type": "dict"},
    "mode": {"choices": ["compare", "save"], "default": "compare"},
    "add": {"type": "bool"},
    "tolerance_percent": {"type": "float"},
}


def baseline_of(given: t.Any) -> dict[str, t.Any]:
    """The keys that ``report_baseline`` has, its path absolute; empty if there is none. Raises OptionError."""
    if isinstance(given, str):
        text = given.strip()
        try:
            given = json.loads(text) if text.startswith("{") else {"path": text} if text else {}
        except ValueError as error:
            raise OptionError("report_baseline", text, f"text that is JSON if it begins like it ({error})") from None
    if not given:
        return {}
    if not isinstance(given, t.Mapping):
        raise OptionError(
            "report_baseline", given, f"a path, or a dictionary with any of the keys {', '.join(_BASELINE)}"
        )
    for name, value in given.items():
        if name not in _BASELINE:
            raise OptionError(f"report_baseline.{name}", value, f"one of the keys {', '.join(_BASELINE)}")
    found = read_values(
        {f"report_baseline.{name}": spec for name, spec in _BASELINE.items()},
        {f"report_baseline.{name}": value for name, value in given.items()},
    )
    baseline = {name: value for name, value in without_prefix(found, "report_baseline.").items() if value is not None}
    if baseline.get("path"):
        baseline["path"] = os.path.realpath(baseline["path"])
    elif baseline["mode"] == "save":
        raise OptionError("report_baseline.path", baseline.get("path"), "the path of a file, since mode is save")
    elif "document" not in baseline:
        raise OptionError("report_baseline.path", given.get("path"), "the path of a file to compare with")
    return baseline


class ActionModule(VariablesAction):
    """Reads the variables of the role report, before anything is done for which there is to be a report."""

    def act(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """What the report does. Raises OptionError."""
        self.require_role()
        variables = without_prefix(self.read_variables(self.role_path, "report_"), "report_")
        baseline = baseline_of(variables["baseline"])
        saves = baseline.get("mode") == "save"
        compared = {} if saves else {name: baseline[name] for name in baseline if name not in ("mode", "add")}
        return {
            "thresholds": variables["thresholds"],
            "assertions": variables["assertions"],
            "baseline": compared,
            "saved": {name: baseline[name] for name in ("path", "add") if name in baseline} if saves else {},
            "is_judged": bool(variables["thresholds"] or variables["assertions"] or compared),
            "formats": variables["formats"],
            "fail_on": variables["fail_on"],
        }
