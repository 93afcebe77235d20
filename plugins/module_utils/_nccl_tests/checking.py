# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Whether what a launcher returned is a result document: tables, reports and verdicts calculate with its numbers."""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import (
    BOOLEAN,
    BYTES,
    FINITE,
    INTEGER,
    NUMBER,
    SIMPLE,
    TEXT,
    AnswerError,
    Each,
    Kind,
    Maybe,
    Optional,
    check_answer,
    refuse,
    text,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.summary import checked_transport
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.document import RESULT_SCHEMA
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.soak import SOAK
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import inert

#: Of counts of 64 bits, over all rows.
_SUM = Kind(
    lambda value: isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 127,
    "a whole number below 2^127",
)
_HALF = {
    "time_us": Maybe(FINITE),
    "algbw": Maybe(FINITE),
    "busbw": Maybe(FINITE),
    "wrong": Maybe(NUMBER),
    "cpu_time_us": Optional(Maybe(FINITE)),
    "error": Optional(Maybe(FINITE)),
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
    "schema": text(re.escape(RESULT_SCHEMA), RESULT_SCHEMA),
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
        "wrong": Maybe(_SUM),
        "checked": BOOLEAN,
        "out_of_bounds": Maybe(_SUM),
    },
    "json_output": Maybe(TEXT),
    "stragglers": Optional(
        Maybe([{"rank": NUMBER, "host": TEXT, "device": Maybe(INTEGER), "share": FINITE}]),
    ),
    "soak": Optional(Maybe(SOAK)),
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
    try:
        checked_transport(document.get("transport"))
        # Whatever else it holds is copied into files of JSON.
        json.dumps(document, allow_nan=False)
    except (GpufabricError, TypeError, ValueError, RecursionError) as error:
        raise AnswerError(host, f"{host} returned a result that is none: {inert(str(error))}") from error
