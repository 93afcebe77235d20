# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.mpijob import (
    adopted_peers,
    job_results,
    job_to_follow,
)


def mpijob_peers(hosts: list[dict[str, t.Any]], names: list[str], run_dir: str) -> list[dict[str, t.Any]]:
    """The workers of a job that is adopted."""
    try:
        return adopted_peers(hosts, names, run_dir)
    except GpufabricError as error:
        raise AnsibleFilterError(str(error)) from error


def mpijob_manifest(objects: list[dict[str, t.Any]]) -> str:
    """Objects as the text of one YAML file."""
    text = yaml.dump_all(_plain(objects), Dumper=_Dumper, explicit_start=True, sort_keys=False, width=120)
    return f"# A benchmark of gpufabric.nccl. Its result is in the log of the launcher's pod.\n{text}"


def _plain(value: t.Any) -> t.Any:
    """Without Ansible's own types of text and number, which YAML does not know."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, str) else value


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as people write them; nothing as a reference to what stands above."""

    def ignore_aliases(self, data: t.Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


class FilterModule:
    """Filters between the steps of the role mpijob."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """By name."""
        return {
            "mpijob_followed": job_to_follow,
            "mpijob_manifest": mpijob_manifest,
            "mpijob_peers": mpijob_peers,
            "mpijob_results": job_results,
        }
