# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import multiprocessing.pool
import typing as t

from ansible import constants as C
from ansible import context
from ansible.errors import AnsibleFilterError
from ansible.plugins.loader import connection_loader
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis import rendering
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight import summary
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import run
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import inert

#: Programs that are run at the same time.
_AT_A_TIME = 16


def problems_markdown(problems: t.Sequence[t.Any], hosts: t.Sequence[t.Any] = ()) -> str:
    """Problems and hosts as Markdown."""
    return inert(rendering.problems_markdown(problems, hosts))


def problems_text(problems: t.Sequence[t.Any], logs: t.Sequence[str] = ()) -> str:
    """Problems as text for a terminal."""
    # Before ansible-core 2.19, what a filter makes of hostvars is not marked as unsafe: set_fact would run a template in it.
    return inert(rendering.problems_text(problems, logs))


def ssh_endpoints(hosts: t.Iterable[str], variables: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """The endpoints of hosts of the inventory."""
    try:
        return summary.ssh_endpoints(hosts, variables, _settings(), _answers)
    except GpufabricError as error:
        raise AnsibleFilterError(f"ssh_endpoints: {error}") from error


def _settings() -> dict[str, t.Any]:
    """How Ansible logs in to hosts that have no variables for it: by its command line, the environment or ansible.cfg."""
    # Only of plugins that are loaded the settings are known.
    connection_loader.get("ssh", class_only=True)
    settings = {
        name: C.config.get_config_value(name, plugin_type="connection", plugin_name="ssh") for name in summary.SETTINGS
    }
    # Its --user has another name there.
    return {**settings, "remote_user": context.CLIARGS.get("remote_user") or settings["remote_user"]}


def _answers(programs: t.Sequence[t.Sequence[str]]) -> list[str]:
    """What each program prints; nothing if it fails: without ssh, or its configuration, the inventory alone counts."""
    with multiprocessing.pool.ThreadPool(min(_AT_A_TIME, len(programs)) or 1) as pool:
        return pool.map(_answer, programs)


def _answer(program: t.Sequence[str]) -> str:
    try:
        done = run(program)
    except NodeError:
        return ""
    return done.stdout if done.returncode == 0 else ""


class FilterModule:
    """Filters of the role preflight."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """By name."""
        return {
            "problems_markdown": problems_markdown,
            "problems_text": problems_text,
            "ssh_endpoints": ssh_endpoints,
        }
