# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Whether results are as they should be: rules in, and what each says of each test out.

Every entry of a document's ``verdicts`` says which value was held against which limit, where the limit comes from, and by how
much it was kept or missed. Bandwidths are in GB/s, times in microseconds, sizes in bytes.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import math
import statistics
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import SIMPLE
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.result_catalogue import RESULT_CATALOGUE
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.summary import (
    LABELS,
    describe_transport,
    host_values,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.document import rows_with_data
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.hardware import LARGEST, is_amount
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import PLACEMENTS, add_problems
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.shapes import (
    UNKNOWN_HARDWARE,
    Hardware,
    ResultDocument,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.soak import cycle_key
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.baseline import (
    FLOOR_PERCENT,
    LEAST_RUNS,
    Noise,
    baseline_samples,
    devices_of,
    key_of,
    other_devices,
    runs_text,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.ceiling import Topology, ceiling, groups_of
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.published import is_gpu
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.reference_values import (
    MEASURED,
    Reference,
    references,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import listing, one_line
from ansible_collections.gpufabric.nccl.plugins.module_utils._units import format_size, parse_size

COLLECTIVES = (
    *("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "alltoallv", "sendrecv"),
    *("gather", "scatter", "hypercube", "all_reduce_bias"),
)
METRICS = (*(f"{placement}.{name}" for placement in PLACEMENTS for name in ("busbw", "algbw", "time_us")), "avg_busbw")
OVER = ("peak", "each")
_PROBLEM_OF = {
    "dip": "bandwidth-dip",
    "cliff": "latency-cliff",
    "assertion": "assertion-failed",
    "transport": "transport-missed",
}
_LIMIT_MISSED = "limit-missed"
#: The problems that rules make; any other is one of the run itself.
PROBLEMS = (_LIMIT_MISSED, *_PROBLEM_OF.values())
#: Of these a rule has one.
LIMITS = ("limit", "ceiling_percent", "baseline_percent", "dip_percent", "cliff_factor")
#: Percentages outside of which a limit could not be missed, and what is allowed: a share such as 0.9 is meant as 90 %.
_PERCENT = {
    "ceiling_percent": (1, math.inf, "a percentage of 1 or more, such as 90"),
    "dip_percent": (0, 100, "a percentage above 0 and below 100"),
}
BOUNDS = ("min_ranks", "max_ranks", "min_hosts", "max_hosts")
RULE_KEYS = (
    "name",
    "collective",
    *BOUNDS,
    "gpu",
    "network",
    "metric",
    "size",
    "min_bytes",
    "max_bytes",
    "over",
    *LIMITS,
    "transport",
)
#: What a rule may demand of the transport, and of which type it is.
TRANSPORT_KEYS: dict[str, type] = {
    "network": str,
    "gdr": bool,
    "nics": int,
    "channels": int,
    "nvls": bool,
    "mnnvl": bool,
}
#: What a test on one host has none of.
_BETWEEN_HOSTS = ("network", "gdr", "nics")
TOPOLOGY_KEYS = ("nic_gbps", "rails", "gpus", "nvlink_gbytes", "nvlink_hosts", "in_network_reduction", "network")
THRESHOLD_KEYS = ("rules", "topology", "reference", "reference_tolerance_percent")

#: Why a rule is not checked that is for no test.
_FOR_NONE = "it is for none of the tests that ran"
#: Where bandwidth should grow, and where latency rules.
_DIP_FROM = 1 << 20
_CLIFF_TO = 64 << 10

#: A row with one of its values; no row if the value is of all.
_Found = t.Tuple[t.Optional[t.Mapping[str, t.Any]], float]


class Expression(t.Protocol):
    """A compiled expression of JMESPath."""

    def search(self, value: t.Any) -> t.Any:
        """What it gives of a document."""


@dataclasses.dataclass(frozen=True)
class Rule:
    """One that has been checked. ``kind`` is the name of its limit, and ``limit`` the number. ``source``: of a reference."""

    name: str
    kind: str
    limit: float
    metric: str
    collectives: tuple[str, ...] = ()
    bounds: t.Mapping[str, int] = dataclasses.field(default_factory=dict)
    gpu: str = ""
    network: str = ""
    min_bytes: int | None = None
    max_bytes: int | None = None
    over: str = "peak"
    source: str = ""
    transport: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)

    @property
    def is_time(self) -> bool:
        """Whether less is better."""
        return self.metric.endswith("time_us")

    def applies(self, document: ResultDocument, network: str) -> bool:
        """Whether the rule is one for the test."""
        counts = {"ranks": document["rank_count"], "hosts": document["host_count"]}
        for name, bound in self.bounds.items():
            side, what = name.split("_")
            if counts[what] < bound if side == "min" else counts[what] > bound:
                return False
        if self.collectives and document["collective"] not in self.collectives:
            return False
        if self.network and self.network != network:
            return False
        return not self.gpu or is_gpu(self.gpu, [rank["name"] for rank in document["ranks"]])

    def meets(self, size: int) -> bool:
        """Whether a size is in the rule's band."""
        return (self.min_bytes is None or size >= self.min_bytes) and (self.max_bytes is None or size <= self.max_bytes)


@dataclasses.dataclass(frozen=True)
class _Assertion:
    name: str
    that: str
    message: str
    expression: Expression


class Judge:
    """Holds result documents against rules, a baseline and assertions, all of which it has checked first."""

    def __init__(
        self,
        thresholds: t.Mapping[str, t.Any] | None = None,
        baseline: t.Mapping[str, t.Any] | None = None,
        baseline_percent: float | None = None,
        assertions: t.Sequence[t.Mapping[str, t.Any]] = (),
        compiled: t.Callable[[str], Expression] | None = None,
        published: t.Sequence[Reference] | None = None,
    ) -> None:
        """``baseline``: a checked one; where no rule is about it, each size is held against it by its time.

        ``baseline_percent``: the least tolerance, and the only one where the noise is not known. ``compiled``: JMESPath's
        function compile, None where the library is not there. ``published``: what ``thresholds.reference`` may name, None for what the
        controller has. Raises OptionError and GpufabricError.
        """
        thresholds = {name: value for name, value in (thresholds or {}).items() if value is not None}
        unknown = [name for name in thresholds if name not in THRESHOLD_KEYS]
        if unknown:
            raise OptionError(f"thresholds.{unknown[0]}", thresholds[unknown[0]], f"one of {', '.join(THRESHOLD_KEYS)}")
        self._topology = _topology(thresholds.get("topology") or {})
        self._rules = _rules(thresholds.get("rules") or [])
        for index, rule in enumerate(self._rules):
            if rule.network and not self._topology.network:
                raise OptionError(
                    f"thresholds.rules[{index}].network",
                    rule.network,
                    "a network only where thresholds.topology.network says which one the machines have",
                )
        name, percent = thresholds.get("reference"), thresholds.get("reference_tolerance_percent", 10)
        if name is not None:
            self._rules += _reference_rules(name, percent, references() if published is None else published)
        self._baseline = baseline_samples(baseline) if baseline is not None else None
        self._least_percent = baseline_percent
        if self._baseline is not None:
            if baseline_percent is not None:
                _number("baseline.tolerance_percent", baseline_percent, least=0)
            self._noise = Noise(self._baseline)
            self._devices = devices_of((baseline or {}).get("runs", ()))
            if not any(rule.kind == "baseline_percent" for rule in self._rules):
                self._rules += [
                    Rule(
                        f"{words} time against the baseline",
                        "baseline_percent",
                        0.0,
                        f"{placement}.time_us",
                        over="each",
                    )
                    for placement, words in PLACEMENTS.items()
                ]
        elif any(rule.kind == "baseline_percent" for rule in self._rules):
            raise OptionError(
                "thresholds", "a rule with baseline_percent", "one only where baseline is given to compare with"
            )
        if assertions and compiled is None:
            raise GpufabricError(
                "assertions need the Python library jmespath on the host that the task runs on; type: pip install jmespath"
            )
        self._assertions = [_assertion(index, entry, compiled) for index, entry in enumerate(assertions) if compiled]
        names = _distinct([rule.name for rule in self._rules] + [assertion.name for assertion in self._assertions])
        self._rules = [dataclasses.replace(rule, name=next(names)) for rule in self._rules]
        self._assertions = [dataclasses.replace(assertion, name=next(names)) for assertion in self._assertions]

    def judge_all(self, documents: t.Sequence[ResultDocument]) -> tuple[list[ResultDocument], list[str]]:
        """The documents as ``judge`` has them, and a warning of each rule that is for none of them, or could be checked in none.

        A rule that is for none is also in the ``verdicts`` of the first document, as not checked.
        """
        judged = [self.judge(document) for document in documents]
        unused = [_entry(rule, reason=_FOR_NONE) for rule in self._unused(documents)] if judged else []
        if unused:
            judged[0] = {**judged[0], "verdicts": [*judged[0]["verdicts"], *unused]}
        entries = [entry for document in judged for entry in document["verdicts"]]
        checked = {entry["rule"] for entry in entries if entry["passed"] is not None}
        # Of a reference most sizes are not measured.
        told = {rule.name for rule in self._rules if not rule.source} - checked
        told |= {entry["rule"] for entry in unused}
        warnings: dict[str, str] = {}
        for entry in entries:
            if entry["rule"] in told:
                warnings.setdefault(entry["rule"], entry["message"])
        return judged, list(warnings.values())

    def _unused(self, documents: t.Sequence[ResultDocument]) -> list[Rule]:
        """The rules that are for none of the documents. Of a reference, which has a rule for each size of cluster, at most one."""
        network = self._topology.network
        unused = [rule for rule in self._rules if not any(rule.applies(document, network) for document in documents)]
        published = [rule for rule in unused if rule.source]
        whole = len(published) == sum(bool(rule.source) for rule in self._rules)
        return [rule for rule in unused if not rule.source] + (published[:1] if whole else [])

    def judge(self, document: ResultDocument) -> ResultDocument:
        """The document with ``verdicts``, a problem for each that is not kept, and the verdict that follows.

        A test that no rule, assertion or baseline could be applied to is ``unchecked`` at best.
        """
        entries = [_wrong_values(document)]
        for rule in self._rules:
            if rule.applies(document, self._topology.network):
                entries.append(self._apply(rule, document))
        entries += [_assert(document, assertion) for assertion in self._assertions]
        # Of a document that was judged before, what was missed then is no problem of these rules.
        before = [problem.as_dict() for problem in _problems(document.get("verdicts", ()))]
        document = {
            **document,
            "hardware": self._hardware(document),
            "problems": [entry for entry in document["problems"] if entry not in before],
        }
        result = add_problems(document, _problems(entries))
        result["verdicts"] = entries
        if result["verdict"] == "pass" and all(entry["passed"] is None for entry in entries[1:]):
            result["verdict"] = "unchecked"
        return result

    def _hardware(self, document: ResultDocument) -> Hardware | None:
        """The hardware of a document, with what was typed in in place of what was found."""
        typed = {
            name: value
            for name, value in dataclasses.asdict(self._topology).items()
            if name != "network" and value is not None
        }
        found = document.get("hardware")
        if not typed:
            return found
        hardware: dict[str, t.Any] = {**(found or UNKNOWN_HARDWARE), **typed}
        return t.cast(Hardware, {**hardware, "typed": sorted(typed)})

    def _apply(self, rule: Rule, document: ResultDocument) -> dict[str, t.Any]:
        if rule.kind == "transport":
            return _demanded(rule, document)
        if rule.kind == "dip_percent":
            return _dip(rule, document)
        if rule.kind == "cliff_factor":
            return _cliff(rule, document)
        groups = groups_of(document)
        if groups > 1 and (rule.kind == "ceiling_percent" or rule.source):
            return _entry(rule, reason=f"the ranks ran in {groups} groups beside each other (NCCL_TESTS_SPLIT)")
        if rule.kind == "baseline_percent":
            before, now = other_devices(self._devices, document)
            if before:
                return _entry(rule, reason=f"the baseline is of {before}, and this test of {now}")
        if rule.metric == "avg_busbw":
            average = document["summary"]["avg_busbw"]
            if not all(rule.meets(row["size"]) for row in document["rows"]):
                return _entry(rule, reason=f"the average is not over sizes{_band(rule)} alone")
            found: list[_Found] = [] if average is None else [(None, average)]
        else:
            found = [(row, value) for row, value in _values(document, rule.metric) if rule.meets(row["size"])]
        if not found:
            none = f"the test has no {_told_metric(rule.metric)}{_band(rule)}"
            return _entry(rule, reason=_no_number(rule, document) or none)
        sizes = [row["size"] for row, _value in found if row is not None]
        if rule.over == "peak" or rule.kind == "baseline_percent":
            found = _of_cycles(found)
        if rule.over == "peak":
            found = [max(found, key=lambda item: item[1])]
        held, reason, without = [], "", []
        for row, value in found:
            limit, source = self._limit(rule, document, row)
            if limit is None:
                reason = reason or source
                without += [row["size"]] if row is not None else []
                continue
            # By the same factor, a time is above its limit as much as a bandwidth is below it.
            percent = 100 * ((limit / value if rule.is_time else value / limit) - 1) if value > 0 else -100.0
            # What is exactly at its limit may be off by the last bit of a quotient.
            percent = round(percent, 9)
            held.append((percent, row, value, limit, source))
        if not held:
            return _entry(rule, reason=reason)
        percent, row, value, limit, source = min(held, key=lambda item: item[0])
        size = None if row is None else row["size"]
        missed = [row["size"] for percent, row, _value, _limit, _source in held if percent < 0 and row is not None]
        unknown = _no_number(rule, document)
        if without and not unknown:
            unknown = f"{reason} at {listing(map(format_size, without))}; sizes that keep it: {len(held)}"
        if rule.over == "each" and unknown and not missed:
            return _entry(rule, reason=unknown)
        entry = _entry(rule, value, limit, source, percent, size=size, missed=missed)
        if sizes and rule.kind != "baseline_percent":
            # The limit is the same for all of these sizes.
            entry.update(min_bytes=sizes[0], max_bytes=sizes[-1])
        return entry

    def _limit(
        self, rule: Rule, document: ResultDocument, row: t.Mapping[str, t.Any] | None
    ) -> tuple[float | None, str]:
        """The limit and where it comes from, or None and why there is none."""
        if rule.kind == "limit":
            return rule.limit, rule.source or "the rule"
        if rule.kind == "ceiling_percent":
            algorithm, bus, source = ceiling(
                self._topology.completed(document),
                document["collective"],
                document["rank_count"],
                document["host_count"],
            )
            full = algorithm if rule.metric.endswith("algbw") else bus
            if full is None:
                return None, source
            return full * rule.limit / 100, f"{rule.limit:g} % of {full:.4g} GB/s: {source}"
        return self._baseline_limit(rule, document, row)

    def _baseline_limit(
        self, rule: Rule, document: ResultDocument, row: t.Mapping[str, t.Any] | None
    ) -> tuple[float | None, str]:
        placement, measure = rule.metric.split(".")
        key = key_of(document, row or {}, placement)
        values = (self._baseline or {}).get(key, {}).get(measure)
        if not values:
            told = f" with {key.setting}" if key.setting else ""
            return None, f"the baseline has no such {_told_metric(rule.metric)}{told}"
        least = max(rule.limit, self._least_percent or 0)
        noise = self._noise.percent(key, measure, (len(values), 1), least or FLOOR_PERCENT)
        if noise is None and not least:
            return None, (
                f"the baseline has {len(values)} of {LEAST_RUNS} runs that tell its noise; add runs to it, or give"
                " baseline.tolerance_percent"
            )
        tolerance = least if noise is None else noise
        median = statistics.median(values)
        factor = 1 + tolerance / 100
        kind = "tolerance" if noise is None or tolerance == least else "noise"
        source = f"the median of {runs_text(len(values))} in the baseline, {_told(median)}, and {_told_percent(tolerance)} % {kind}"
        return (median * factor if rule.is_time else median / factor), source


def _values(document: ResultDocument, metric: str) -> list[tuple[t.Mapping[str, t.Any], float]]:
    """The rows that have it, with its value, by size."""
    placement, name = metric.split(".")
    found = [
        (row, row[placement][name])
        for row in rows_with_data(document)
        if row[placement] is not None and row[placement].get(name) is not None and math.isfinite(row[placement][name])
    ]
    return sorted(found, key=lambda item: item[0]["size"])


def _of_cycles(found: t.Sequence[_Found]) -> list[_Found]:
    """The values with one for each size of an operation, the median of its cycles, as in a baseline: the best one tells nothing of the others."""
    groups: dict[tuple[t.Any, ...] | None, list[_Found]] = {}
    for row, value in found:
        groups.setdefault(None if row is None else cycle_key(row), []).append((row, value))
    return [(items[0][0], statistics.median(value for _row, value in items)) for items in groups.values()]


def _no_number(rule: Rule, document: ResultDocument) -> str:
    """What was printed in place of a number that the rule is for, in words; empty if they are all numbers."""
    if rule.metric == "avg_busbw":
        return ""
    placement, name = rule.metric.split(".")
    rows: list[t.Mapping[str, t.Any]] = [*document["rows"]]
    for row in rows:
        cell = ((row[placement] or {}).get("no_numbers") or {}).get(name)
        if cell and rule.meets(row["size"]):
            return f"the {_told_metric(rule.metric)} is {cell} at {format_size(row['size'])}"
    return ""


def _curves(rule: Rule, document: ResultDocument) -> list[list[tuple[int, list[float]]]]:
    """The rule's values by size, of each operation apart; those that have two sizes or more."""
    curves: dict[tuple[t.Any, ...], dict[int, list[float]]] = {}
    for row, value in _values(document, rule.metric):
        if rule.meets(row["size"]):
            curve = curves.setdefault((row["type"], row["redop"], row["root"]), {})
            curve.setdefault(row["size"], []).append(value)
    return [list(curve.items()) for curve in curves.values() if len(curve) > 1]


def _dip(rule: Rule, document: ResultDocument) -> dict[str, t.Any]:
    """Whether bandwidth falls though sizes grow."""
    curves = _curves(rule, document)
    if not curves:
        return _entry(rule, reason=f"the test has fewer than two sizes{_band(rule)}")
    found = []
    for (first, values), *larger in curves:
        best = (first, max(values))
        for size, values in larger:
            if best[1] > 0:
                found.append((100 * (1 - min(values) / best[1]), size, min(values), best))
            best = max(best, (size, max(values)), key=lambda item: item[1])
    if not found:
        return _entry(rule, reason=f"no bandwidth was measured{_band(rule)}")
    fall, size, value, (best_size, best_value) = max(found)
    if fall <= 0:
        return _shape(rule, 0.0, size, "%", "no fall")
    words = f"a fall of {fall:.3g} % to {value:.4g} GB/s at {format_size(size)}"
    return _shape(rule, fall, size, "%", f"{words} from {best_value:.4g} GB/s at {format_size(best_size)}")


def _cliff(rule: Rule, document: ResultDocument) -> dict[str, t.Any]:
    """Whether a time is much more than that of the next smaller size."""
    steps = [
        (
            max(times) / usual,
            size,
            f"{_told(max(times))} us at {format_size(size)}, {max(times) / usual:.3g} times the {_told(usual)} us at"
            f" {format_size(smaller)}",
        )
        for curve in _curves(rule, document)
        for (smaller, before), (size, times) in zip(curve, curve[1:])
        # Of a size that ran several times.
        for usual in [statistics.median(before)]
        if usual > 0
    ]
    if not steps:
        return _entry(rule, reason=f"the test has fewer than two sizes{_band(rule)}")
    factor, size, words = max(steps)
    return _shape(rule, factor, size, "times", words)


def _shape(rule: Rule, value: float, size: int, unit: str, words: str) -> dict[str, t.Any]:
    percent = round(100 * (rule.limit - value) / rule.limit, 9)
    passed = percent >= 0
    side = f"{_told_percent(percent)} % {'below' if passed else 'above'}"
    told = f"{words}, {side} the limit of {rule.limit:g} {unit} (the rule)"
    return {
        "rule": rule.name,
        "metric": "dip" if rule.kind == "dip_percent" else "cliff",
        "value": _rounded(value),
        "limit": rule.limit,
        "unit": unit,
        "source": "the rule",
        "percent": _rounded(percent),
        "size": size,
        "missed_sizes": [] if passed else [size],
        "passed": passed,
        "message": f"{rule.name}: {told}",
    }


def _transport_missed(rule: Rule, document: ResultDocument) -> tuple[dict[str, list[str]], list[str]]:
    """The hosts that use something else than the rule demands, by what they use instead, and the facts that are not known of all."""
    transport = document.get("transport")
    missed: dict[str, list[str]] = {}
    unknown = []
    lacking = transport is not None and len(transport["nics"]) < document["host_count"]
    for fact, wanted in rule.transport.items():
        if transport is None or (fact in _BETWEEN_HOSTS and document["host_count"] == 1):
            unknown.append(fact)
            continue
        values = host_values(transport, fact)
        for host, value in values.items():
            if value is not None and not _is_met(value, wanted):
                words = f"{_transport_word(fact, value)} instead of {_transport_word(fact, wanted)}"
                missed.setdefault(words, []).append(host)
        if lacking or None in values.values() or not values:
            unknown.append(fact)
    return missed, unknown


def _why_unknown(document: ResultDocument, facts: t.Iterable[str]) -> str:
    transport = document.get("transport")
    if transport is None:
        return "NCCL's own log is not there"
    if document["host_count"] == 1:
        return "all ranks are on one host"
    if len(transport["nics"]) < document["host_count"]:
        return f"NCCL's log is of {len(transport['nics'])} of {document['host_count']} hosts"
    return f"NCCL's log does not tell {listing(LABELS[fact] for fact in facts)}"


def _demanded(rule: Rule, document: ResultDocument) -> dict[str, t.Any]:
    """Whether the ranks talked over what the rule demands, and which hosts did not."""
    transport = document.get("transport")
    missed, unknown = _transport_missed(rule, document)
    passed: bool | None
    if missed:
        count = max(len(transport["nics"]) if transport else 0, document["host_count"])
        told = [
            f"{words} on {'all hosts' if len(hosts) == count else listing(hosts)}" for words, hosts in missed.items()
        ]
        passed, words = False, "; ".join(told)
    elif unknown or transport is None:
        passed, words = None, f"not checked, {_why_unknown(document, unknown)}"
    else:
        passed, words = True, describe_transport(transport)
    return {
        "rule": rule.name,
        "metric": "transport",
        "value": describe_transport(transport) if transport else None,
        "limit": None,
        "unit": "",
        "source": "the rule",
        "percent": None,
        "hosts": list(dict.fromkeys(host for hosts in missed.values() for host in hosts)),
        "passed": passed,
        "message": f"{rule.name}: {words}",
    }


def _is_met(value: t.Any, wanted: t.Any) -> bool:
    if isinstance(wanted, tuple):
        return str(value).lower() in [name.lower() for name in wanted]
    if isinstance(wanted, bool):
        return value is wanted
    return isinstance(value, int) and value >= wanted


def _transport_word(fact: str, value: t.Any) -> str:
    """``7 NICs``, ``no NVLS``, ``Socket``."""
    if fact == "network":
        return " or ".join(value) if isinstance(value, tuple) else str(value)
    if isinstance(value, bool):
        return LABELS[fact] if value else f"no {LABELS[fact]}"
    return f"{value} {LABELS[fact]}"


def _assert(document: ResultDocument, assertion: _Assertion) -> dict[str, t.Any]:
    message = assertion.message
    try:
        value = assertion.expression.search(document)
    except (ArithmeticError, RecursionError, ValueError) as error:
        # Most of jmespath's errors are ValueErrors, as of a function that is given null.
        value, message = None, f"{message} ({one_line(str(error))})"
    else:
        if not isinstance(value, bool):
            # Most often a name that the document does not have. A part of an expression is no JSON.
            message += f" (it gives {json.dumps(value, default=str)[:200]}, neither true nor false)"
    return {
        "rule": assertion.name,
        "metric": "assertion",
        "value": value if SIMPLE.is_allowed(value) else None,
        "limit": None,
        "unit": "",
        "source": f"the assertion {assertion.that}",
        "percent": None,
        "passed": value is True,
        "message": assertion.name if value is True else message,
    }


def _wrong_values(document: ResultDocument) -> dict[str, t.Any]:
    summary = document["summary"]
    failed = any(problem["id"] == "wrong-values" for problem in document["problems"])
    halves = [row[placement] for row in document["rows"] for placement in PLACEMENTS]
    unknown = any(half is not None and "error" in half.get("no_numbers", {}) for half in halves)
    checked = (summary["checked"] or summary["wrong"] is not None) and not unknown
    passed = False if failed or summary["wrong"] else True if checked else None
    words = {False: "values are wrong", True: "no value is wrong", None: "values were not checked"}
    return {
        "rule": "no wrong values",
        "metric": "wrong",
        "value": summary["wrong"],
        "limit": 0,
        "unit": "",
        "source": "always",
        "percent": None,
        "passed": passed,
        "message": words[passed],
    }


def _entry(
    rule: Rule,
    value: float | None = None,
    limit: float | None = None,
    source: str = "",
    percent: float | None = None,
    size: int | None = None,
    missed: t.Sequence[int] = (),
    reason: str = "",
) -> dict[str, t.Any]:
    unit = "us" if rule.is_time else "GB/s"
    passed = None if value is None or percent is None else percent >= 0
    entry: dict[str, t.Any] = {
        "rule": rule.name,
        "metric": rule.metric,
        "value": _rounded(value),
        "limit": _rounded(limit),
        "unit": unit,
        "source": source,
        "percent": _rounded(percent),
        "size": size,
        "missed_sizes": list(missed),
        "passed": passed,
    }
    if passed is None or value is None or limit is None or percent is None:
        return {**entry, "message": f"{rule.name}: not checked, {reason}"}
    where = f" at {format_size(size)}" if size is not None else ""
    better = ("below" if rule.is_time else "above") if passed else ("above" if rule.is_time else "below")
    more = f", and at {len(missed) - 1} more sizes" if len(missed) > 1 else ""
    # ``percent`` of a time is a factor's, so that it can be compared with that of a bandwidth.
    told = _told_percent(round(100 * (value / limit - 1), 9) if limit else percent)
    words = f"{_told(value)} {unit}{where}, {told} % {better} {_told(limit)} {unit} ({source}){more}"
    return {**entry, "message": f"{rule.name}: {words}"}


def _problems(entries: t.Sequence[t.Mapping[str, t.Any]]) -> list[Problem]:
    """Of all that is not kept, but for the first entry: wrong values are a problem of the document itself."""
    return [_problem(entry) for entry in entries[1:] if entry["passed"] is False]


def _problem(entry: t.Mapping[str, t.Any]) -> Problem:
    is_assertion = entry["metric"] == "assertion"
    message = entry["message"].rstrip(".")
    return RESULT_CATALOGUE.problem(
        _PROBLEM_OF.get(entry["metric"], _LIMIT_MISSED),
        entry["hosts"][0] if len(entry.get("hosts", ())) == 1 else None,
        evidence=entry["source"] if is_assertion else _missed_text(entry.get("missed_sizes", ())),
        message=message[:1].upper() + message[1:],
    )


def _missed_text(sizes: t.Sequence[int]) -> str:
    """Where a limit is missed; nothing of one that is about no size."""
    more = f" and {len(sizes) - 8} more sizes" if len(sizes) > 8 else ""
    return f"missed at {', '.join(map(format_size, sizes[:8]))}{more}" if sizes else ""


def _band(rule: Rule) -> str:
    low, high = rule.min_bytes, rule.max_bytes
    if low is not None and low == high:
        return f" at {format_size(low)}"
    low_words = f" from {format_size(low)}" if low is not None else ""
    return low_words + (f" up to {format_size(high)}" if high is not None else "")


def _told(value: float) -> str:
    """A bandwidth, or a time: of large sizes these have more digits than ``:.4g`` shows without an exponent."""
    return f"{value:,.0f}" if abs(value) >= 9999.5 else f"{value:.4g}"


def _told_percent(percent: float) -> str:
    return f"{abs(percent):,.0f}" if abs(percent) >= 100 else f"{abs(percent):.3g}"


def _told_metric(metric: str) -> str:
    if metric == "avg_busbw":
        return "average bus bandwidth"
    return next(
        f"{words} {metric[len(place) + 1 :]}" for place, words in PLACEMENTS.items() if metric.startswith(f"{place}.")
    )


def _rules(entries: t.Any) -> list[Rule]:
    if not isinstance(entries, (list, tuple)):
        raise OptionError("thresholds.rules", entries, "a list of rules")
    return [_rule(f"thresholds.rules[{index}]", entry) for index, entry in enumerate(entries)]


def _rule(option: str, entry: t.Any) -> Rule:
    if not isinstance(entry, t.Mapping):
        raise OptionError(option, entry, f"a dict with any of the keys {', '.join(RULE_KEYS)}")
    given = {name: value for name, value in entry.items() if value is not None}
    for name, value in given.items():
        if name not in RULE_KEYS:
            raise OptionError(f"{option}.{name}", value, f"one of the keys {', '.join(RULE_KEYS)}")
    kinds = [name for name in (*LIMITS, "transport") if name in given]
    if len(kinds) != 1:
        raise OptionError(option, ", ".join(kinds) or "no limit", f"one of {', '.join(LIMITS)} and transport")
    kind = kinds[0]
    if kind == "transport":
        return _transport_rule(option, given)
    limit = _number(f"{option}.{kind}", given[kind], least=0)
    if limit == 0 and kind != "baseline_percent":
        raise OptionError(f"{option}.{kind}", given[kind], "a number above 0")
    least, end, allowed = _PERCENT.get(kind, (0, math.inf, ""))
    if not least <= limit < end:
        raise OptionError(f"{option}.{kind}", given[kind], allowed)
    default = "out_of_place.time_us" if kind == "cliff_factor" else "out_of_place.busbw"
    metric = _one_of(f"{option}.metric", given.get("metric", default), METRICS)
    _check_metric(option, kind, metric)
    low, high = _sizes(option, given)
    if kind == "dip_percent" and low is None:
        low = _DIP_FROM
    if kind == "cliff_factor" and high is None:
        high = _CLIFF_TO
    # Of times the best one says nothing, and a baseline has a value for each size.
    usual = "each" if metric.endswith("time_us") or kind == "baseline_percent" or "size" in given else "peak"
    rule = Rule(
        name=str(given.get("name", "")),
        kind=kind,
        limit=limit,
        metric=metric,
        **_scope(option, given),
        min_bytes=low,
        max_bytes=high,
        over=_one_of(f"{option}.over", given.get("over", usual), OVER),
    )
    if rule.over == "peak" and rule.is_time:
        raise OptionError(f"{option}.over", rule.over, "each, where metric is a time")
    return rule if rule.name else dataclasses.replace(rule, name=_name(rule))


def _scope(option: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The tests that a rule is for, as the fields of Rule."""
    collectives = given.get("collective", ())
    if not isinstance(collectives, (str, list, tuple)):
        raise OptionError(f"{option}.collective", collectives, f"one or more of {', '.join(COLLECTIVES)}")
    collectives = (collectives,) if isinstance(collectives, str) else tuple(collectives)
    for name in collectives:
        _one_of(f"{option}.collective", name, COLLECTIVES)
    return {
        "collectives": collectives,
        "bounds": {name: int(_number(f"{option}.{name}", given[name], least=1)) for name in BOUNDS if name in given},
        "gpu": str(given.get("gpu", "")),
        "network": str(given.get("network", "")),
    }


def _transport_rule(option: str, given: t.Mapping[str, t.Any]) -> Rule:
    for name in ("metric", "size", "min_bytes", "max_bytes", "over"):
        if name in given:
            raise OptionError(
                f"{option}.{name}", given[name], "nothing in a rule with transport, which is about no size"
            )
    demands = given["transport"]
    keys = ", ".join(TRANSPORT_KEYS)
    if not isinstance(demands, t.Mapping) or not set(demands) <= set(TRANSPORT_KEYS):
        raise OptionError(f"{option}.transport", demands, f"a dict with any of the keys {keys}")
    wanted: dict[str, t.Any] = {}
    for name, value in demands.items():
        if value is None:
            continue
        if name == "network":
            names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, (list, tuple)) else ()
            if not names or not all(isinstance(one, str) and one.strip() for one in names):
                raise OptionError(
                    f"{option}.transport.network", value, "a name such as IB, RoCE or Socket, or a list of such"
                )
            wanted[name] = names
        elif TRANSPORT_KEYS[name] is bool:
            if not isinstance(value, bool):
                raise OptionError(f"{option}.transport.{name}", value, "true or false")
            wanted[name] = value
        else:
            wanted[name] = int(_number(f"{option}.transport.{name}", value, least=1))
    if not wanted:
        raise OptionError(f"{option}.transport", demands, f"a dict with any of the keys {keys}")
    told = ", ".join(_transport_word(name, value) for name, value in wanted.items())
    return Rule(
        name=str(given.get("name") or f"transport {told}"),
        kind="transport",
        limit=0.0,
        metric="transport",
        transport=wanted,
        **_scope(option, given),
    )


def _check_metric(option: str, kind: str, metric: str) -> None:
    allowed = {
        "ceiling_percent": ("busbw", "algbw"),
        "baseline_percent": ("time_us", ".busbw"),
        "dip_percent": (".busbw", ".algbw"),
        "cliff_factor": ("time_us",),
    }
    if kind in allowed and not metric.endswith(allowed[kind]):
        names = ", ".join(name for name in METRICS if name.endswith(allowed[kind]))
        raise OptionError(f"{option}.metric", metric, f"one of {names}, with {kind}")


def _sizes(option: str, given: t.Mapping[str, t.Any]) -> tuple[int | None, int | None]:
    if "size" in given:
        if "min_bytes" in given or "max_bytes" in given:
            raise OptionError(f"{option}.size", given["size"], "a size, or min_bytes and max_bytes, but not both")
        size = parse_size(f"{option}.size", given["size"])
        return size, size
    low, high = (
        parse_size(f"{option}.{name}", given[name]) if name in given else None for name in ("min_bytes", "max_bytes")
    )
    if low is not None and high is not None and low > high:
        raise OptionError(
            f"{option}.min_bytes", given["min_bytes"], f"at most {given['max_bytes']}, which is max_bytes"
        )
    return low, high


def _name(rule: Rule) -> str:
    what = f"{_told_metric(rule.metric)}{_band(rule)}"
    if rule.kind == "dip_percent":
        return f"{what} falls by at most {rule.limit:g} %"
    if rule.kind == "cliff_factor":
        return f"{what} grows by at most {rule.limit:g} times from size to size"
    bound = "at most" if rule.is_time else "at least"
    if rule.metric != "avg_busbw" and (rule.min_bytes is None or rule.min_bytes != rule.max_bytes):
        what = f"{rule.over} {what}"
    limits = {
        "limit": f"{rule.limit:g} {'us' if rule.is_time else 'GB/s'}",
        "ceiling_percent": f"{rule.limit:g} % of the ceiling",
        "baseline_percent": "that of the baseline",
    }
    return f"{what} {bound} {limits[rule.kind]}"


def _distinct(names: t.Iterable[str]) -> t.Iterator[str]:
    """The names, the second of a kind as ``name (2)``: each is one series in Prometheus, and one case in JUnit."""
    names = list(names)
    taken = set(names)
    seen: collections.Counter[str] = collections.Counter()
    for name in names:
        told = name
        while seen[name] and told in taken:
            seen[name] += 1
            told = f"{name} ({seen[name]})"
        seen[name] = seen[name] or 1
        taken.add(told)
        yield told


def _reference_rules(name: t.Any, tolerance: t.Any, published: t.Sequence[Reference]) -> list[Rule]:
    _one_of("thresholds.reference", name, list(dict.fromkeys(reference.name for reference in published)))
    percent = _number("thresholds.reference_tolerance_percent", tolerance, least=0)
    if percent >= 100:
        raise OptionError("thresholds.reference_tolerance_percent", tolerance, "a number below 100")
    rules = []
    for reference in published:
        if reference.name != name:
            continue
        source = reference.source
        # What others accept machines by has its tolerance in it.
        less = percent if source.kind == MEASURED else 0.0
        ranks = reference.hosts * reference.gpus_per_host
        told = f"{source.where}: {reference.system}, {reference.value:g} GB/s {source.kind}, {source.definition}"
        rules.append(
            Rule(
                name=f"reference {name}",
                kind="limit",
                limit=reference.value * (1 - less / 100),
                metric=source.measure,
                collectives=(reference.collective,),
                bounds={
                    "min_hosts": reference.hosts,
                    "max_hosts": reference.hosts,
                    "min_ranks": ranks,
                    "max_ranks": ranks,
                },
                gpu=reference.gpu,
                min_bytes=reference.min_bytes,
                max_bytes=reference.max_bytes,
                source=told + (f", less {less:g} %" if less else ""),
            )
        )
    return rules


def _topology(entry: t.Any) -> Topology:
    if not isinstance(entry, t.Mapping):
        raise OptionError("thresholds.topology", entry, f"a dict with any of the keys {', '.join(TOPOLOGY_KEYS)}")
    given = {name: value for name, value in entry.items() if value is not None}
    for name, value in given.items():
        option = f"thresholds.topology.{name}"
        if name not in TOPOLOGY_KEYS:
            raise OptionError(option, value, f"one of the keys {', '.join(TOPOLOGY_KEYS)}")
        if name == "in_network_reduction":
            if not isinstance(value, bool):
                raise OptionError(option, value, "true or false")
        elif name == "network":
            given[name] = str(value)
        else:
            is_count = name in ("nvlink_hosts", "gpus")
            number = _number(option, value, least=1 if is_count else 0)
            if not is_amount(number):
                raise OptionError(option, value, f"a number above 0 and below {LARGEST:g}")
            given[name] = int(number) if is_count else number
    return Topology(**given)


def _assertion(index: int, entry: t.Any, compiled: t.Callable[[str], Expression]) -> _Assertion:
    option = f"assertions[{index}]"
    if not isinstance(entry, t.Mapping) or not set(entry) <= {"name", "that", "msg"}:
        raise OptionError(option, entry, "a dict with that (an expression of JMESPath), msg and name")
    that = entry.get("that")
    if not isinstance(that, str) or not that.strip():
        raise OptionError(f"{option}.that", that, "an expression of JMESPath")
    try:
        expression = compiled(that)
    except (RecursionError, ValueError) as error:
        raise OptionError(
            f"{option}.that", that, f"an expression of JMESPath ({str(error).partition(chr(10))[0]})"
        ) from error
    message = str(entry.get("msg") or f"the assertion does not hold: {that}")
    return _Assertion(str(entry.get("name") or that), that, message, expression)


def _number(option: str, value: t.Any, least: float) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (OverflowError, TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number < least:
        raise OptionError(option, value, f"a number, {least:g} or more")
    return number


def _one_of(option: str, value: t.Any, allowed: t.Sequence[str]) -> str:
    if value not in allowed:
        raise OptionError(option, value, f"one of {', '.join(allowed)}")
    return value


def _rounded(value: float | None) -> float | None:
    # What is worked out of numbers at the limits of floats may have none, and JSON has no infinity.
    return float(f"{value:.6g}") if value is not None and math.isfinite(value) else None
