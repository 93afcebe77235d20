# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.gpufabric.nccl.plugins.module_utils import _report
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests import results_object


def results_table(documents: t.Any) -> str:
    """The documents as text for a terminal."""
    return _report.results_table(_checked("results_table", documents))


def results_markdown(documents: t.Any) -> str:
    """The documents as a report in Markdown."""
    return _report.results_markdown(_checked("results_markdown", documents))


def results_json(documents: t.Any) -> str:
    """The documents as the JSON text of one file."""
    return json.dumps(results_object(_checked("results_json", documents)), indent=2) + "\n"


def _checked(name: str, documents: t.Any) -> list[dict[str, t.Any]]:
    try:
        return _report.check_documents(documents)
    except GpufabricError as error:
        raise AnsibleFilterError(f"{name}: {error}") from error


class FilterModule:
    """Filters over lists of result documents."""

    def filters(self) -> dict[str, t.Callable[..., str]]:
        """The filters by name."""
        return {
            "results_json": results_json,
            "results_markdown": results_markdown,
            "results_table": results_table,
        }
