# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Whether what a launcher returned is a result document: tables, reports and verdicts calculate with its numbers."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import (
    BOOLEAN,
    BYTES,
    FINITE,
    INTEGER,
    NUMBER,
    SIMPLE,
    TEXT,
    Each,
    Maybe,
    Optional,
    check_answer,
    refuse,
)

_HALF = {
    "time_us": Maybe(FINITE),
    "algbw": Maybe(FINITE),
    "busbw": Maybe(FINITE),
    "wrong": Maybe(NUMBER),
    "cpu_time_us": Optional(FINITE),
    "error": Optional(FINITE),
    "extra": Optional(Each(TEXT, Maybe(FINITE))),
    "computed": Optional(Each(TEXT, FINITE)),
    "no_numbers": Optional(Each(TEXT, TEXT)),
}
_ROW = {
    "size": BYTES,
    "count": Maybe(BYTES),
    "type": TEXT,
    "redop": TEXT,
    "root": Maybe(INTEGER),
    "out_of_place": Maybe(_HALF),
    "in_place": Maybe(_HALF),
}
_RANK = {
    "rank": NUMBER,
    "group": Maybe(INTEGER),
    "pid": Maybe(INTEGER),
    "host": TEXT,
    "device": Maybe(INTEGER),
    "bus_id": Maybe(TEXT),
    "name": Maybe(TEXT),
}
_DOCUMENT = {
    "schema": TEXT,
    "tool": {"name": Maybe(TEXT), "version": Maybe(TEXT), "nccl_version": Maybe(TEXT)},
    "collective": Maybe(TEXT),
    "complete": BOOLEAN,
    "lost_rows": NUMBER,
    "config": Each(TEXT, Maybe(SIMPLE)),
    "env": Each(TEXT, TEXT),
    "summary": {
        "avg_busbw": Maybe(FINITE),
        "peak_busbw": Maybe(FINITE),
        "peak_size": Maybe(NUMBER),
        "wrong": Maybe(NUMBER),
        "checked": BOOLEAN,
        "out_of_bounds": Maybe(NUMBER),
    },
    "json_output": Maybe(TEXT),
    "host_count": NUMBER,
    "rank_count": NUMBER,
}


def check_document(host: str, document: t.Any) -> None:
    """Raise AnswerError, with the host that returned it and the field, if a document's values are not of their kinds."""
    check_answer(host, "a result", document, _DOCUMENT)
    # A fleet may have more ranks, and a table more rows, than any other answer has items.
    for name, shape in (("rows", _ROW), ("ranks", _RANK)):
        items = document.get(name)
        check_answer(host, f"{name} of a result", [] if isinstance(items, list) else items, [shape])
        for item in items:
            check_answer(host, f"{name} of a result", item, shape)
    for row in document["rows"]:
        if row["out_of_place"] is None and row["in_place"] is None:
            raise refuse(host, "rows of a result", row, "rows with numbers, out of place or in place")
