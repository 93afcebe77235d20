# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to the collection: it may change in any release.

"""What a report says, before it has a format: every format takes its numbers from here, so that they are the same."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import shlex
import statistics
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import (
    PLACEMENTS,
    VERDICTS,
    overall_verdict,
    results_object,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.shapes import Placement, ResultDocument
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.baseline import setting_of
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.sweep_analysis import swept
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.tables import counted
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import clean, clean_line, inert, one_line

#: In a setting's name; the rest of what differs are variables.
_JOB = ("type", "redop", "ranks")


#: How many tests the following jobs of a workflow get, and how many limits and problems of a single one. AWX keeps what they get in its
#: database.
MOST_NUMBERS = 20
#: The same of many tests, and how long a name may be.
_FEWEST = 2
_LONGEST_NAME = 80


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One size in one placement. Bytes, microseconds, GB/s of 10^9 bytes; what the output does not tell is None.

    ``cycle``: how many times the same has been measured before in the same test.
    """

    size: int
    type: str
    redop: str
    root: int | None
    placement: str
    cycle: int
    time_us: float | None
    algbw: float | None
    busbw: float | None
    wrong: int | None


@dataclasses.dataclass(frozen=True)
class Check:
    """A value and its limit. ``percent``: by how much it is better than the limit, or worse where negative.

    ``sizes``: the first and last that a limit of bus bandwidth in GB/s is for; None of other limits.
    """

    name: str
    passed: bool | None
    text: str
    value: float | None
    limit: float | None
    unit: str
    source: str
    percent: float | None
    sizes: tuple[int, int] | None

    @property
    def margin(self) -> float:
        """The percentage; of what has none, such as wrong values, the worst or the best there is."""
        if self.percent is not None:
            return self.percent
        return -math.inf if self.passed is False else math.inf

    @property
    def of_limit(self) -> float | None:
        """By how many percent of the limit the value is better, or worse; ``percent`` of a time is that of a speed."""
        if self.unit == "us" and self.value is not None and self.limit:
            return 100 * (1 - self.value / self.limit)
        return self.percent

    @property
    def value_text(self) -> str:
        return _amount(self.value, self.unit)

    @property
    def limit_text(self) -> str:
        return _amount(self.limit, self.unit)

    @property
    def told(self) -> str:
        """What it is about; the numbers of the others are told beside it."""
        return self.text if self.percent is None else self.name


@dataclasses.dataclass(frozen=True, eq=False)
class Test:
    """A result document. ``number`` counts from 1; ``point`` and ``repeat`` are those of a sweep."""

    number: int
    document: ResultDocument
    measurements: tuple[Measurement, ...]
    checks: tuple[Check, ...]

    @property
    def collective(self) -> str:
        return clean(self.document["collective"] or "unnamed collective")

    @property
    def verdict(self) -> str:
        return self.document["verdict"]

    @property
    def problems(self) -> list[t.Mapping[str, t.Any]]:
        """Errors first."""
        return sorted(self.document["problems"], key=lambda entry: entry["severity"] != "error")

    @property
    def sweep_point(self) -> t.Mapping[str, t.Any]:
        return self.document["points"].get("sweep") or {}

    @property
    def point(self) -> str:
        return clean(str(self.sweep_point.get("id") or ""))

    @property
    def repeat(self) -> int | None:
        return self.sweep_point.get("repeat")

    @functools.cached_property
    def env(self) -> dict[str, str]:
        """The variables that the test was run with on purpose."""
        env = self.sweep_point.get("env")
        if env is None:
            env = self.document["points"].get("env") or {}
        return {clean(str(name)): clean(str(value)) for name, value in env.items()}

    @functools.cached_property
    def setting(self) -> dict[str, str]:
        """What tells this test from others of the same collective: the rows' type and operation, ranks, variables."""
        rows = self.document["rows"]
        types = sorted({str(row["type"]) for row in rows})
        redops = sorted({str(row["redop"]) for row in rows} - {"none"})
        return {
            "type": clean("/".join(types[:4])),
            "redop": clean("/".join(redops[:4])),
            "ranks": str(self.document["rank_count"]),
            **self.env,
        }

    @property
    def command(self) -> str:
        argv = self.document["points"].get("argv") or []
        return clean(shlex.join(str(argument) for argument in argv))

    @property
    def operation(self) -> str:
        """``all_reduce float sum, NCCL_ALGO=Ring``."""
        return self._named("")

    @property
    def name(self) -> str:
        """``all_reduce float sum, 16 ranks on 2 hosts, NCCL_ALGO=Ring``."""
        return self._named(
            f"{counted(self.document['rank_count'], 'rank')} on {counted(self.document['host_count'], 'host')}"
        )

    def _named(self, ranks: str) -> str:
        kind = " ".join(filter(None, [self.collective, self.setting["type"], self.setting["redop"]]))
        parts = [
            kind,
            ranks if self.document["ranks"] else "",
            *(f"{name}={value}" for name, value in self.env.items()),
        ]
        return ", ".join(filter(None, parts))


@dataclasses.dataclass(frozen=True)
class Finding:
    """A problem, and the tests that have it."""

    entry: t.Mapping[str, t.Any]
    tests: tuple[Test, ...]


@dataclasses.dataclass(frozen=True)
class Curve:
    """Bus bandwidth in GB/s over sizes in bytes: the median of the repeats of a setting, and their least and greatest."""

    label: str
    placement: Placement
    sizes: tuple[int, ...]
    busbw: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def peak(self) -> float:
        return max(self.busbw)


@dataclasses.dataclass(frozen=True)
class BaselineCurve:
    """Median, least and greatest bus bandwidth in GB/s of one operation in a baseline, over sizes in bytes."""

    sizes: tuple[int, ...]
    busbw: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Bus bandwidth in GB/s between two hosts, by their places in ``hosts``."""

    hosts: tuple[str, ...]
    busbw: t.Mapping[tuple[int, int], float]
    failed: frozenset[tuple[int, int]]

    @property
    def median(self) -> float | None:
        return statistics.median(self.busbw.values()) if self.busbw else None

    def slowest(self, most: int = 20) -> list[tuple[str, str, float, float]]:
        """Two hosts, their bandwidth, and by how many percent it is from the median."""
        ordered = sorted(self.busbw.items(), key=lambda item: (item[1], item[0]))[:most]
        median = self.median or 0.0
        return [
            (self.hosts[a], self.hosts[b], busbw, 100 * (busbw / median - 1) if median else 0.0)
            for (a, b), busbw in ordered
        ]


@dataclasses.dataclass(frozen=True)
class Node:
    """What the search for bad machines found of a host: good, bad, suspect or unreachable."""

    name: str
    verdict: str
    where: str
    evidence: str


@dataclasses.dataclass(frozen=True)
class Report:
    """All that a report says. ``limit``: a pattern that leaves out the hosts that are not good."""

    run_id: str
    verdict: str
    tests: tuple[Test, ...]
    sweep: t.Mapping[str, t.Any]
    pairs: Pairs | None
    nodes: tuple[Node, ...]
    limit: str
    baseline: tuple[t.Mapping[str, t.Any], ...]
    extra: t.Mapping[str, t.Any]

    @property
    def collectives(self) -> list[str]:
        return list(dict.fromkeys(test.collective for test in self.tests))

    @functools.cached_property
    def findings(self) -> list[Finding]:
        """The problems, errors first; what several tests have is told once, with the evidence of the first."""
        tests: dict[tuple[t.Any, ...], list[Test]] = {}
        entries: dict[tuple[t.Any, ...], t.Mapping[str, t.Any]] = {}
        for test in self.tests:
            for entry in test.document["problems"]:
                key = (entry["id"], entry["severity"], entry["host"], entry["cause"], entry["cure"])
                entries.setdefault(key, entry)
                tests.setdefault(key, []).append(test)
        found = [Finding(entry, tuple(dict.fromkeys(tests[key]))) for key, entry in entries.items()]
        return sorted(found, key=lambda finding: finding.entry["severity"] != "error")

    @property
    def searched(self) -> str:
        """``3 nodes, 6 rounds, 8 tests`` of what the role isolate found; empty for any other report."""
        found = self.extra.get("isolation", {})
        numbers = [len(self.nodes), found.get("rounds"), found.get("tests")]
        if not all(isinstance(number, int) for number in numbers):
            return ""
        return ", ".join(counted(number, noun) for number, noun in zip(numbers, ("node", "round", "test")))

    def counts(self) -> dict[str, int]:
        """How many tests have each verdict, the worst first."""
        numbers = {verdict: sum(test.verdict == verdict for test in self.tests) for verdict in reversed(VERDICTS)}
        return {verdict: number for verdict, number in numbers.items() if number}

    def tools(self) -> list[str]:
        """The names of the programs that ran, each once."""
        names = (test.document["tool"]["name"] for test in self.tests)
        return list(dict.fromkeys(inert(clean(name)) for name in names if name))

    def worst(self) -> dict[str, t.Any] | None:
        """The test to look at first: the worst verdict, and of several the one that misses a limit by most."""
        if self.verdict == "pass" or not self.tests:
            return None
        test = min((test for test in self.tests if test.verdict == self.verdict), key=_least_margin)
        missed = sorted((check for check in test.checks if check.passed is False), key=lambda check: check.margin)
        why = missed[0].text if missed else test.problems[0]["cause"] if test.problems else ""
        host = next((entry["host"] for entry in test.problems if entry["host"]), None)
        return {
            "test": test.number,
            "name": inert(test.name),
            "point": inert(test.point) or None,
            "verdict": test.verdict,
            "host": host and inert(clean(host)),
            "why": inert(clean(why)),
        }

    def numbers(self) -> list[dict[str, t.Any]]:
        """What a workflow needs of the tests, at most MOST_NUMBERS of them: those with the worst verdicts. Bandwidths are in GB/s."""
        worst_first = sorted(self.tests, key=lambda test: (-VERDICTS.index(test.verdict), _least_margin(test)))
        chosen = sorted(worst_first[:MOST_NUMBERS], key=lambda test: test.number)
        most = max(_FEWEST, MOST_NUMBERS // max(len(chosen), 1))
        return [_numbers(test, most) for test in chosen]

    def as_json(self) -> dict[str, t.Any]:
        """The object of results.json."""
        return {**results_object([test.document for test in self.tests]), **self.extra}

    def curves(self, collective: str) -> list[Curve]:
        """One for each setting and placement, the fastest setting first; without what is no bandwidth."""
        groups: dict[tuple[tuple[str, str], ...], list[Test]] = {}
        for test in self.tests:
            if test.collective == collective:
                groups.setdefault(tuple(test.setting.items()), []).append(test)
        settings = [dict(key) for key in groups]
        names = dict.fromkeys(name for setting in settings for name in setting)
        varying = [name for name in names if len({setting.get(name) for setting in settings}) > 1]
        curves = []
        for setting, tests in zip(settings, groups.values()):
            label = _setting_label(setting, varying)
            for placement in PLACEMENTS:
                curve = _curve(label, placement, tests)
                if curve:
                    curves.append(curve)
        peaks = {label: max(c.peak for c in curves if c.label == label) for label in {c.label for c in curves}}
        return sorted(curves, key=lambda curve: (-peaks[curve.label], curve.label, curve.placement != "out_of_place"))

    def baseline_curves(self, collective: str) -> list[BaselineCurve]:
        """Those of what was measured out-of-place. Of a sweep, only that of no variable, which all settings are compared with."""
        curves: dict[tuple[t.Any, ...], list[t.Mapping[str, t.Any]]] = {}
        for entry in self.baseline:
            if (entry["collective"], entry["placement"]) == (collective, "out_of_place") and entry["median"] > 0:
                curves.setdefault(entry["operation"], []).append(entry)
        settings = {setting for setting, *_others in curves}
        return [
            BaselineCurve(
                *(
                    tuple(entry[name] for entry in sorted(entries, key=lambda entry: entry["size"]))
                    for name in ("size", "median", "low", "high")
                )
            )
            for (setting, *_others), entries in curves.items()
            if setting == "" or len(settings) == 1
        ]

    def limits(self, collective: str) -> list[Check]:
        """Those that can be drawn over sizes, each once."""
        found: dict[tuple[t.Any, ...], Check] = {}
        for test in self.tests:
            for check in test.checks:
                if test.collective == collective and check.sizes and check.limit is not None:
                    found.setdefault((check.sizes, check.limit), check)
        return list(found.values())


def _amount(value: t.Any, unit: str) -> str:
    text = f"{value:.2f}" if isinstance(value, float) else "" if value is None else clean(str(value))
    # As in the expressions of assertions.
    text = text.lower() if isinstance(value, bool) else text
    return f"{text} {unit}".strip() if text else ""


def setting_value(value: t.Any) -> str:
    """One line of a setting: an argument list as for a shell."""
    if isinstance(value, (list, tuple)):
        return clean(shlex.join(str(item) for item in value))
    return clean(str(value))


def make_report(
    documents: t.Sequence[ResultDocument],
    run_id: str = "default",
    sweep: t.Mapping[str, t.Any] | None = None,
    isolation: t.Mapping[str, t.Any] | None = None,
    baseline: t.Mapping[str, t.Any] | None = None,
) -> Report:
    """The report of result documents.

    ``sweep``: what sweep_results found; by default, of the documents that are points of a sweep.
    ``isolation``: with ``pairs``, a list of ``a``, ``b`` (hosts) and ``busbw`` (GB/s,
    or None where the pair failed), or with ``tests`` of two ``nodes`` and their ``value``; with ``nodes``, a list of ``node``,
    ``verdict``, ``where`` and ``evidence``; with ``limit``. ``baseline``: with ``measurements``, as a file of baselines has them,
    of which ``collective``, ``size``, ``placement`` and ``busbw`` (GB/s; a number, or with ``median``, ``min`` and ``max``) are
    needed. Raises OptionError.
    """
    tests = tuple(
        Test(number, document, tuple(_measurements(document)), tuple(_checks(document)))
        for number, document in enumerate(documents, start=1)
    )
    sweep = sweep or swept(documents)
    extra = {name: value for name, value in (("sweep", sweep), ("isolation", isolation)) if value}
    return Report(
        run_id=clean(run_id),
        verdict=overall_verdict(documents),
        tests=tests,
        sweep=sweep or {},
        pairs=_pairs(isolation or {}),
        nodes=tuple(_nodes(isolation or {})),
        limit=clean_line(str((isolation or {}).get("limit") or "")),
        baseline=tuple(_baseline_entries(baseline or {}, tests)),
        extra=extra,
    )


def _measurements(document: ResultDocument) -> t.Iterator[Measurement]:
    seen: dict[tuple[t.Any, ...], int] = {}
    for row in document["rows"]:
        for placement in PLACEMENTS:
            half = row[placement]
            if half is None:
                continue
            key = (row["size"], row["type"], row["redop"], row["root"], placement)
            cycle = seen.get(key, 0)
            seen[key] = cycle + 1
            yield Measurement(
                size=row["size"],
                type=clean(str(row["type"])),
                redop=clean(str(row["redop"])),
                root=row["root"],
                placement=placement,
                cycle=cycle,
                time_us=half["time_us"],
                algbw=half["algbw"],
                busbw=half["busbw"],
                wrong=half["wrong"],
            )


def _numbers(test: Test, most: int) -> dict[str, t.Any]:
    summary = test.document["summary"]
    problems = {(entry["id"], entry["severity"], entry["host"]): None for entry in test.problems}
    return {
        "test": test.number,
        "name": inert(one_line(test.name, _LONGEST_NAME)),
        "collective": inert(test.collective),
        "verdict": test.verdict,
        "host_count": test.document["host_count"],
        "rank_count": test.document["rank_count"],
        "peak_busbw": summary["peak_busbw"],
        "peak_size": summary["peak_size"],
        "avg_busbw": summary["avg_busbw"],
        "wrong": summary["wrong"],
        "limits_missed": [inert(one_line(check.name, _LONGEST_NAME)) for check in test.checks if check.passed is False][
            :most
        ],
        "causes": [
            {"id": identity, "severity": severity, "host": host and inert(clean(host))}
            for identity, severity, host in problems
        ][:most],
    }


def _least_margin(test: Test) -> float:
    return min((check.margin for check in test.checks), default=0.0)


def _setting_label(setting: t.Mapping[str, str], varying: t.Sequence[str]) -> str:
    words = []
    for name in varying:
        value = setting.get(name)
        if value:
            words.append(f"{value} ranks" if name == "ranks" else value if name in _JOB else f"{name}={value}")
    return " ".join(words) or ("default" if varying else "")


def _curve(label: str, placement: Placement, tests: t.Sequence[Test]) -> Curve | None:
    values: dict[int, list[float]] = {}
    for test in tests:
        for item in test.measurements:
            # A logarithmic axis has no place for 0.
            if item.placement == placement and item.size > 0 and item.busbw and item.busbw > 0:
                values.setdefault(item.size, []).append(item.busbw)
    if not values:
        return None
    sizes = sorted(values)
    return Curve(
        label,
        placement,
        tuple(sizes),
        tuple(statistics.median(values[size]) for size in sizes),
        tuple(min(values[size]) for size in sizes),
        tuple(max(values[size]) for size in sizes),
    )


def _nodes(isolation: t.Mapping[str, t.Any]) -> t.Iterator[Node]:
    for entry in isolation.get("nodes") or []:
        if not isinstance(entry, t.Mapping) or not {"node", "verdict"} <= set(entry):
            raise OptionError("isolation", entry, "nodes with node and verdict")
        evidence = "; ".join(str(line) for line in entry.get("evidence") or [])
        yield Node(
            *(clean(str(text)) for text in (entry["node"], entry["verdict"], entry.get("where") or "", evidence))
        )


def _pair_values(isolation: t.Mapping[str, t.Any]) -> t.Iterator[tuple[str, str, float | None]]:
    """Of ``pairs``, or of the ``tests`` that were of two nodes."""
    for entry in isolation.get("pairs") or []:
        try:
            yield clean(str(entry["a"])), clean(str(entry["b"])), _number(entry.get("busbw"))
        except (KeyError, TypeError, ValueError) as error:
            raise OptionError("isolation", entry, "pairs with a, b and busbw") from error
    tests = isolation.get("tests")
    for entry in tests if isinstance(tests, list) else []:
        if len(entry["nodes"]) == 2:
            first, second = entry["nodes"]
            yield clean(str(first)), clean(str(second)), _number(entry["value"])


def _number(value: t.Any) -> float | None:
    return None if value is None else float(value)


def _pairs(isolation: t.Mapping[str, t.Any]) -> Pairs | None:
    busbw: dict[tuple[str, str], list[float]] = {}
    failed = set()
    for a, b, value in _pair_values(isolation):
        if value is None:
            failed.add((a, b))
        else:
            busbw.setdefault((a, b), []).append(value)
    hosts = sorted({host for pair in [*busbw, *failed] for host in pair}, key=natural)
    if not hosts:
        return None
    places = {host: place for place, host in enumerate(hosts)}
    # A pair is named in either order; of several runs the slowest tells.
    least: dict[tuple[int, int], float] = {}
    for (a, b), values in busbw.items():
        key = _in_order(places[a], places[b])
        least[key] = min([*values, *([least[key]] if key in least else [])])
    lost = {_in_order(places[a], places[b]) for a, b in failed}
    return Pairs(tuple(hosts), least, frozenset(lost - set(least)))


def _in_order(a: int, b: int) -> tuple[int, int]:
    return min(a, b), max(a, b)


def natural(text: str) -> list[t.Any]:
    """A key that sorts node-10 after node-9."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"([0-9]+)", text) if part]


def _checks(document: ResultDocument) -> t.Iterator[Check]:
    for entry in document.get("verdicts") or []:
        rule = clean(str(entry.get("rule") or ""))
        low, high = entry.get("min_bytes", entry.get("size")), entry.get("max_bytes", entry.get("size"))
        drawn = str(entry.get("metric", "")).endswith("busbw") and None not in (low, high)
        yield Check(
            name=rule,
            passed=entry.get("passed"),
            text=clean(str(entry.get("message") or rule)),
            value=entry.get("value"),
            limit=entry.get("limit"),
            unit=clean(str(entry.get("unit") or "")),
            source=clean(str(entry.get("source") or "")),
            percent=entry.get("percent"),
            sizes=(int(low), int(high)) if drawn else None,
        )


def _baseline_entries(baseline: t.Mapping[str, t.Any], tests: t.Sequence[Test]) -> t.Iterator[dict[str, t.Any]]:
    """Those of the operations that were measured, with as many ranks and hosts, and of the same points of a sweep."""
    measured = {
        (
            *(test.document["tool"]["name"], test.document["collective"], item.type, item.redop),
            *(test.document["rank_count"], test.document["host_count"], setting_of(test.document)),
        )
        for test in tests
        for item in test.measurements
    }
    for entry in baseline.get("measurements") or []:
        try:
            statistic = entry.get("busbw")
            if statistic is None or not _is_measured(entry, measured):
                continue
            numbers = statistic if isinstance(statistic, t.Mapping) else {"median": statistic}
            median = float(numbers["median"])
            yield {
                "collective": clean(entry["collective"]),
                "operation": (str(entry.get("setting", "")), *(entry.get(name) for name in (*_OPERATION, "root"))),
                "size": int(entry["size"]),
                "placement": entry["placement"],
                "median": median,
                "low": float(numbers.get("min", median)),
                "high": float(numbers.get("max", median)),
            }
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise OptionError("baseline", entry, "measurements with collective, size, placement and busbw") from error


_OPERATION = ("tool", "collective", "type", "redop", "ranks", "hosts", "setting")


def _is_measured(entry: t.Mapping[str, t.Any], measured: t.Collection[tuple[t.Any, ...]]) -> bool:
    """Whether a measurement of a baseline is of an operation that was measured. One that lacks a key is of any such."""
    if all(name in entry for name in _OPERATION):
        return tuple(entry[name] for name in _OPERATION) in measured
    return any(all(entry.get(name, value) == value for name, value in zip(_OPERATION, values)) for values in measured)
