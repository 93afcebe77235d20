# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What a program says that ran its sizes again and again (option -N of nccl-tests): drift, dips, and when they were.

Bandwidths are bus bandwidths in GB/s, out of place if there are such. Everything takes a time that is linear in the rows.
"""

from __future__ import annotations

import math
import re
import statistics
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import (
    BYTES,
    FINITE,
    INTEGER,
    NUMBER,
    TEXT,
    Maybe,
    check_answer,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.result_catalogue import RESULT_CATALOGUE
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.shapes import Dip, Soak, SoakSize
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import listing
from ansible_collections.gpufabric.nccl.plugins.module_utils._units import format_size

#: Bandwidths of smaller sizes are noise.
_FROM = 1 << 20
#: Of fewer cycles nothing is said but their numbers. A dip is so many percent below the median, and so many deviations.
_DIP_PERCENT, _DEVIATIONS = 10.0, 6.0
#: The last third against the first one: so many percent, and so many deviations of that difference.
_DRIFT_PERCENT, _DRIFT_DEVIATIONS = 5.0, 4.0
_LEAST_CYCLES = 6
#: What is kept; the rows have the rest.
_MOST_SIZES, _MOST_DIPS = 1000, 50
#: As the option -S prints it.
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\Z")

_OF_SIZE = {
    "size": BYTES,
    "type": TEXT,
    "redop": TEXT,
    "root": Maybe(INTEGER),
    "cycles": NUMBER,
    "median": FINITE,
    "min": FINITE,
    "max": FINITE,
    "drift_percent": Maybe(FINITE),
    "dips": NUMBER,
}
_OF_DIP = {"cycle": NUMBER, "time": Maybe(TEXT), "size": BYTES, "busbw": FINITE, "percent": FINITE}
#: The shape of a soak.
SOAK = {"cycles": NUMBER, "begin": Maybe(TEXT), "end": Maybe(TEXT), "sizes": [_OF_SIZE], "dips": [_OF_DIP]}

_Reading = t.Tuple[int, float, t.Optional[str]]


def find_soak(rows: t.Sequence[t.Mapping[str, t.Any]]) -> Soak | None:
    """The soak that rows are of; None if no size was run twice."""
    groups = _by_size(rows)
    cycles = max(map(len, groups.values()), default=0)
    if cycles < 2:
        return None
    sizes: list[SoakSize] = []
    dips: list[Dip] = []
    for (size, kind, redop, root), members in list(groups.items())[:_MOST_SIZES]:
        readings = [reading for number, row in enumerate(members, 1) for reading in _reading(number, row)]
        if not readings:
            continue
        values = [value for _cycle, value, _moment in readings]
        found = list(_dips(size, readings))
        dips += found
        sizes.append(
            {
                "size": size,
                "type": kind,
                "redop": redop,
                "root": root,
                "cycles": len(values),
                "median": _rounded(statistics.median(values)),
                "min": min(values),
                "max": max(values),
                "drift_percent": _drift(values),
                "dips": len(found),
            }
        )
    moments = [moment for row in (rows[0], rows[-1]) for moment in [_moment(row)]]
    dips.sort(key=lambda dip: (-dip["percent"], dip["cycle"]))
    kept = sorted(dips[:_MOST_DIPS], key=lambda dip: (dip["cycle"], dip["size"]))
    return {"cycles": cycles, "begin": moments[0], "end": moments[1], "sizes": sizes, "dips": kept}


def cycle_key(row: t.Mapping[str, t.Any]) -> tuple[t.Any, ...]:
    """What a row has in common with those of the same measurement in other cycles: size in bytes, type, operation, root."""
    return row["size"], row["type"], row["redop"], row["root"]


def _by_size(rows: t.Sequence[t.Mapping[str, t.Any]]) -> dict[tuple[t.Any, ...], list[t.Mapping[str, t.Any]]]:
    groups: dict[tuple[t.Any, ...], list[t.Mapping[str, t.Any]]] = {}
    # Sizes are rounded down to whole parts for all ranks, often to 0, so that neighbours of one cycle may be alike: only the first counts.
    varied = len({row["size"] for row in rows}) > 1
    before = None
    for row in rows:
        key = cycle_key(row)
        if row["size"] and not (varied and key == before):
            groups.setdefault(key, []).append(row)
        before = key
    return groups


def _reading(cycle: int, row: t.Mapping[str, t.Any]) -> t.Iterator[_Reading]:
    value = (row["out_of_place"] or row["in_place"] or {}).get("busbw")
    if value is not None and math.isfinite(value):
        yield cycle, value, _moment(row)


def _moment(row: t.Mapping[str, t.Any]) -> str | None:
    moment = row.get("extra", {}).get("timestamp")
    return moment if isinstance(moment, str) and _MOMENT.match(moment) else None


def _deviation(values: t.Sequence[float], median: float) -> float:
    return 1.4826 * statistics.median(abs(value - median) for value in values)


def _dips(size: int, readings: t.Sequence[_Reading]) -> t.Iterator[Dip]:
    values = [value for _cycle, value, _moment in readings]
    median = statistics.median(values)
    if size < _FROM or len(values) < _LEAST_CYCLES or median <= 0:
        return
    limit = min(median * (1 - _DIP_PERCENT / 100), median - _DEVIATIONS * _deviation(values, median))
    for cycle, value, moment in readings:
        if value < limit:
            percent = _rounded(100 * (1 - value / median))
            yield {"cycle": cycle, "time": moment, "size": size, "busbw": value, "percent": percent}


def _thirds(values: t.Sequence[float]) -> tuple[float, float]:
    third = len(values) // 3
    return statistics.median(values[:third]), statistics.median(values[-third:])


def _drift(values: t.Sequence[float]) -> float | None:
    """By how many percent the median of the last third is above that of the first one; None of too few cycles."""
    if len(values) < _LEAST_CYCLES:
        return None
    first, last = _thirds(values)
    return _rounded(100 * (last / first - 1)) if first > 0 else None


def soak_problems(soak: Soak | None, rows: t.Sequence[t.Mapping[str, t.Any]]) -> t.Iterator[Problem]:
    """Warnings of dips and of a bandwidth that goes down."""
    if soak is None:
        return
    if soak["dips"]:
        worst = max(soak["dips"], key=lambda dip: dip["percent"])
        count = sum(entry["dips"] for entry in soak["sizes"])
        evidence = listing([describe_dip(dip) for dip in soak["dips"]], 5)
        yield RESULT_CATALOGUE.problem("soak-dip", evidence=evidence, count=count, percent=f"{worst['percent']:.3g}")
    groups = _by_size(rows)
    fallen = [entry for entry in soak["sizes"] if _falls(entry, groups[cycle_key(entry)])]
    if fallen:
        told = [f"{entry['drift_percent']:.3g} % at {format_size(entry['size'])}" for entry in fallen]
        least = min(entry["drift_percent"] or 0.0 for entry in fallen)
        yield RESULT_CATALOGUE.problem("soak-drift", evidence=listing(told, 5), percent=f"{-least:.3g}")


def _falls(entry: SoakSize, rows: t.Sequence[t.Mapping[str, t.Any]]) -> bool:
    """Whether the drift of a size, of which these are the rows, is more than its noise."""
    drift = entry["drift_percent"]
    if drift is None or drift > -_DRIFT_PERCENT or entry["size"] < _FROM:
        return False
    values = [value for row in rows for _cycle, value, _moment in _reading(0, row)]
    # Of neighbours: what goes down slowly does not scatter by that.
    steps = [abs(second - first) for first, second in zip(values, values[1:])]
    scatter = 1.4826 * statistics.median(steps) / math.sqrt(2)
    noise = 1.2533 * scatter * math.sqrt(2 / (len(values) // 3))
    return -drift / 100 * entry["median"] > _DRIFT_DEVIATIONS * noise


def describe_dip(dip: Dip) -> str:
    """``cycle 12, 2026-11-22 21:38:00: 290.1 GB/s at 1 GiB, 22 % below``."""
    moment = f", {dip['time']}" if dip["time"] else ""
    return f"cycle {dip['cycle']}{moment}: {dip['busbw']:.4g} GB/s at {format_size(dip['size'])}, {dip['percent']:.3g} % below"


def checked_soak(value: t.Any) -> Soak | None:
    """The soak of a document that was handed in. Raises AnswerError where it is something else."""
    return check_answer("a document", "soak", value, Maybe(SOAK))


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
