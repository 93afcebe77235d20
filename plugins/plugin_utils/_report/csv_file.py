# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to the collection: it may change in any release.

"""results.csv: a row for each measurement."""

from __future__ import annotations

import csv
import io
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._results.tables import transport_text
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report.data import Report

#: The columns that are always there; those of the variables of the tests follow, as ``env.NAME``.
COLUMNS = (
    *(
        "run",
        "test",
        "tool",
        "collective",
        "point",
        "repeat",
        "ranks_per_node",
        "hosts",
        "ranks",
        "verdict",
        "transport",
    ),
    *("size", "type", "redop", "root", "placement", "cycle", "time_us", "algbw", "busbw", "wrong"),
)

#: What a cell may begin with that a spreadsheet takes for a formula; some do so for the wide forms of East Asia.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?\Z")


def render_csv(report: Report) -> str:
    """The measurements with a header; what is not known, or was not checked, is empty."""
    variables = sorted({name for test in report.tests for name in test.env})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, *(f"env.{name}" for name in variables)])
    for test in report.tests:
        document = test.document
        lead = [
            *(report.run_id, test.number, document["tool"]["name"], test.collective, test.point, test.repeat),
            *(test.sweep_point.get("ranks_per_node"), document["host_count"], document["rank_count"], test.verdict),
            transport_text(document),
        ]
        env = [test.env.get(name) for name in variables]
        for item in test.measurements:
            numbers = [
                *(item.size, item.type, item.redop, item.root, item.placement, item.cycle),
                *(item.time_us, item.algbw, item.busbw, item.wrong),
            ]
            writer.writerow([_cell(value) for value in (*lead, *numbers, *env)])
    return text.getvalue()


def _cell(value: t.Any) -> t.Any:
    # A spreadsheet takes such text for a formula, and runs it.
    if isinstance(value, str) and value.startswith(_FORMULA) and not _NUMBER.match(value):
        return f"'{value}"
    return "" if value is None else value
