# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to the collection: it may change in any release.

"""report.md: what results_markdown says of the tests, and what a report knows beyond them."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._results import tables as words
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.sweep_analysis import sweep_markdown
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import clean
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report.data import Report


def render_markdown(report: Report) -> str:
    """The text of the file."""
    sweep = sweep_markdown(report.sweep) if report.sweep else ""
    text = words.results_markdown([test.document for test in report.tests], sweep, report.searched)
    sections = [*_limits(report), *_nodes(report), *_pairs(report)]
    # How to read it stays the last.
    place = text.rindex("## How to read it")
    return clean(text[:place] + "".join(f"{section.rstrip()}\n\n" for section in sections) + text[place:])


def _limits(report: Report) -> t.Iterator[str]:
    lines = [
        [
            {True: "pass", False: "**fail**", None: "unchecked"}[check.passed],
            f"{test.number}. {test.collective}",
            check.told,
            check.value_text,
            check.limit_text,
            "" if check.of_limit is None else f"{check.of_limit:+.1f}",
            check.source,
        ]
        for test in report.tests
        for check in test.checks
    ]
    if lines:
        header = ["verdict", "test", "what", "value", "limit", "by %", "from"]
        yield "## Limits\n\n" + words.markdown_table(header, lines, left=("verdict", "test", "what", "from"))


def _nodes(report: Report) -> t.Iterator[str]:
    if report.nodes:
        lines = [[node.name, node.verdict, node.where, node.evidence] for node in report.nodes]
        header = ["host", "verdict", "where", "evidence"]
        limit = (
            f"\n\nA pattern for `--limit` that leaves out what is not good:\n\n    {report.limit}"
            if report.limit
            else ""
        )
        yield "## Good and bad hosts\n\n" + words.markdown_table(header, lines, left=header) + limit


def _pairs(report: Report) -> t.Iterator[str]:
    pairs = report.pairs
    if pairs:
        lines = [[pairs.hosts[a], pairs.hosts[b], "failed", ""] for a, b in sorted(pairs.failed)]
        lines += [[a, b, words.bandwidth_text(busbw), f"{percent:+.1f}"] for a, b, busbw, percent in pairs.slowest()]
        table = words.markdown_table(
            ["host", "and host", "busbw (GB/s)", "from the median %"], lines, left=("host", "and host")
        )
        yield f"## Pairs of hosts\n\nThe slowest of {len(pairs.busbw) + len(pairs.failed)}:\n\n{table}"
