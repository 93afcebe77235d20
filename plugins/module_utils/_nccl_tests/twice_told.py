# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The JSON that a program wrote beside its table: what it tells more, and whether both tell the same."""

from __future__ import annotations

import itertools
import math
import os
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.result_catalogue import RESULT_CATALOGUE
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.document import PLACEMENTS, add_problems
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import parse_file
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.shapes import ResultDocument
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import listing
from ansible_collections.gpufabric.nccl.plugins.module_utils._units import format_size

#: A file of 30,000 ranks with 20 iterations and 30 sizes has so many bytes.
_MOST = 512 << 20
#: The table has two decimals, and seven characters for a time: from 10 s on two digits.
_DECIMALS, _DIGITS, _FEW_DIGITS, _FEW_FROM = 0.006, 1e-3, 0.06, 9e6
_NUMBERS = ("time_us", "cpu_time_us", "algbw", "busbw")


def with_json(document: ResultDocument, path: str) -> ResultDocument:
    """The result of a table with what the JSON in a file tells more, and a warning if the two differ or it cannot be read."""
    try:
        size = os.stat(path).st_size
        if size > _MOST:
            raise GpufabricError(f"it has {format_size(size)}, more than {format_size(_MOST)}")
        documents = parse_file(path, None)
        if len(documents) != 1:
            raise GpufabricError(f"it holds {len(documents)} tests in place of one")
        if any(entry["id"] == "output-cut" for entry in documents[0]["problems"]):
            # When a rank fails, mpirun may end rank 0 before it has written the end.
            if document["verdict"] in ("fail", "incomplete"):
                return document
            raise GpufabricError("its end is missing")
    except (GpufabricError, OSError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        unread = RESULT_CATALOGUE.problem("json-unread", evidence=str(error)[:300])
        return add_problems(document, [unread])
    told = documents[0]
    found = list(itertools.islice(differences(document, told), 9))
    problems = [RESULT_CATALOGUE.problem("json-differs", evidence=listing(found)[:500])] if found else []
    return add_problems({**document, "stragglers": told["stragglers"]}, problems)


def differences(table: ResultDocument, told: ResultDocument) -> t.Iterator[str]:
    """In words, where the results of a table and of JSON differ by more than the table is rounded."""
    if len(table["rows"]) != len(told["rows"]):
        yield f"{len(table['rows'])} rows in the table, {len(told['rows'])} in the JSON"
        return
    for ours, theirs in zip(table["rows"], told["rows"]):
        for name in ("size", "count", "type", "redop", "root"):
            if ours[name] != theirs[name]:
                yield f"{name} {ours[name]} in the table, {theirs[name]} in the JSON"
                return
        for placement, words in PLACEMENTS.items():
            one, other = ours[placement], theirs[placement]
            where = f"at size {ours['size']} {words}"
            if (one is None) != (other is None):
                yield f"no values {where} in {'the table' if one is None else 'the JSON'}"
            elif one is not None and other is not None:
                if _six_digits(one["wrong"]) != _six_digits(other["wrong"]):
                    yield f"#wrong {one['wrong']} {where}, {other['wrong']} in the JSON"
                for name in _NUMBERS:
                    pair = one.get(name), other.get(name)
                    if not _are_same(*pair):
                        yield f"{name} {pair[0]} {where}, {pair[1]} in the JSON"


def _six_digits(count: int | None) -> str:
    """A number of wrong values as the table prints it."""
    return "N/A" if count is None else f"{count:g}"


def _are_same(printed: t.Any, exact: t.Any) -> bool:
    if printed is None or exact is None:
        return printed is exact
    digits = _FEW_DIGITS if printed >= _FEW_FROM else _DIGITS
    return math.isclose(printed, exact, rel_tol=digits, abs_tol=_DECIMALS)
