# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to the collection: it may change in any release.

"""Results that nobody is shown, with -v or in the events of AWX: those that hold values of variables which may be secret, and long ones."""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._text import shown_environment

#: What Ansible hides a result by, from all callbacks. Whoever registers the result has all of it.
HIDDEN = {"_ansible_no_log": True}

#: Characters of the longest result that is shown, as JSON. AWX keeps all of them in its database, and results grow with hosts, sizes
#: and points.
LONGEST = 10_000

_ENVIRONMENT = re.compile(r"(?:.*_)?env(?:ironment)?\Z")


def hidden(result: t.Mapping[str, t.Any]) -> dict[str, bool]:
    """What to add to an action's result: HIDDEN or nothing. Failures tell problems, and are for people to read."""
    return dict(HIDDEN) if not result.get("failed") and (_holds_values(result) or is_long(result)) else {}


def without_values(arguments: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The arguments of a module as callbacks may have them: of variables that may be secret, only the names."""
    return {
        name: shown_environment(value) if _ENVIRONMENT.match(str(name)) and isinstance(value, t.Mapping) else value
        for name, value in arguments.items()
    }


def is_long(result: t.Mapping[str, t.Any]) -> bool:
    """Whether a result is too long to be shown."""
    return len(json.dumps(result, default=str)) > LONGEST


def _holds_values(value: t.Any) -> bool:
    if isinstance(value, t.Mapping):
        return (
            value.get("kind") == "Secret"
            or any(_ENVIRONMENT.match(str(name)) and _has_values(item) for name, item in value.items())
            or any(map(_holds_values, value.values()))
        )
    return isinstance(value, (list, tuple)) and any(map(_holds_values, value))


def _has_values(environment: t.Any) -> bool:
    """Whether not all of an environment may be shown. It is a dict or, in a container of Kubernetes, a list of ``name`` and ``value``."""
    if isinstance(environment, (list, tuple)):
        entries = [entry for entry in environment if isinstance(entry, t.Mapping)]
        environment = {
            str(entry.get("name")): entry.get("value") for entry in entries if entry.get("value") is not None
        }
    return isinstance(environment, t.Mapping) and shown_environment(environment) != environment
