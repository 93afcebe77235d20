# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.shapes import ResultDocument
from ansible_collections.gpufabric.nccl.plugins.module_utils._results import baseline, sweep_analysis, tables
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import clean, clean_values, inert


def results_table(documents: t.Any, named_only: t.Sequence[str] = ()) -> str:
    """The documents as text for a terminal."""
    documents = _checked("results_table", documents)
    sweep = sweep_analysis.swept(documents)
    return inert(clean(tables.results_table(documents, sweep_analysis.sweep_table(sweep) if sweep else "", named_only)))


def results_markdown(documents: t.Any) -> str:
    """The documents as a report in Markdown."""
    documents = _checked("results_markdown", documents)
    sweep = sweep_analysis.swept(documents)
    return inert(clean(tables.results_markdown(documents, sweep_analysis.sweep_markdown(sweep) if sweep else "")))


def compare_results(before: t.Any, after: t.Any) -> dict[str, t.Any]:
    """Two lists of documents, measurement by measurement."""
    found = baseline.compare_results(_checked("compare_results", before), _checked("compare_results", after))
    return t.cast("dict[str, t.Any]", clean_values(found, inert))


def _checked(name: str, documents: t.Any) -> list[ResultDocument]:
    try:
        return tables.check_documents(documents)
    except GpufabricError as error:
        raise AnsibleFilterError(f"{name}: {error}") from error


class FilterModule:
    """Filters over lists of result documents."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """The filters by name."""
        return {
            "compare_results": compare_results,
            "results_markdown": results_markdown,
            "results_table": results_table,
        }
