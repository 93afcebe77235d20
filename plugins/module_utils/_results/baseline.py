# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What is usual: the statistics of several runs, kept in a file, and how far others are from them, noise considered.

A measurement is one operation at one size, out-of-place or in-place. Times are in microseconds, bandwidths in GB/s.
"""

from __future__ import annotations

import collections
import hashlib
import itertools
import json
import math
import re
import statistics
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.document import rows_with_data
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import PLACEMENTS
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.shapes import ResultDocument
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.ceiling import groups_of
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.tables import markdown_table, transport_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import listing, markdown_plain
from ansible_collections.gpufabric.nccl.plugins.module_utils._units import format_size

BASELINE_SCHEMA = "gpufabric.nccl/baseline/v1"

#: Characters that a file of it may have: those of thousands of runs.
LONGEST_TEXT = 256 << 20

#: With fewer runs nothing is said of the noise.
LEAST_RUNS = 3

#: How many standard deviations of a difference are noise. Of 60 measurements of a run (30 sizes, both placements) that are no
#: different from those of 5 earlier ones, 3 % of all comparisons call any one slower or faster (of 3 earlier ones, 6 %), and
#: one that is 20 % faster, at a noise of 3 %, is told in 87 % of all cases (69 %). By simulation.
NOISE_FACTOR = 4.0

#: Differences below it are noise in any case, in percent: times are printed with few digits.
FLOOR_PERCENT = 2.0

#: The largest sizes of the bands, but for the last, over which the noise is told: where latency rules, and bandwidth does.
_BANDS = (64 * 1024, 8 * 1024 * 1024)

MEASURES = ("time_us", "busbw")

#: The standard deviation of normal values over the median of the distances between two of them.
_OF_DISTANCES = 1.0483

#: A size is noisier than those near it where its own deviation is so many times theirs; less tells nothing of a few runs.
_NOISIER = 2.5

#: The noise is told from that many runs at most, the last ones: of all pairs there are too many, and more runs tell little more.
_RUNS_OF_NOISE = 30

#: What makes another number of the same operation, and how it usually is: operations that are one group, launches of a graph, whether the
#: program waits for each operation, and groups of ranks beside each other.
_METHOD: dict[str, t.Any] = {"agg_iters": 1, "graph": 0, "blocking": False, "groups": 1}

_RUN_KEYS = {"digest", "tool", "collective"}
#: The fields of a Key that are texts; the others are whole numbers.
_TEXTS = {"tool", "collective", "type", "redop", "setting", "placement"}

#: What is this noisy tells nothing, and the number is one that can be written: a factor of 22,026.
_MOST_NOISE = 10.0

#: What a value must be below; JSON has whole numbers that are larger than any other number.
_LARGEST = 1e300

_UNNAMED = "unnamed"
_MAKER = "NVIDIA "

NOTHING_KEPT = "no test can be kept in a baseline: each of them failed or is not complete"

Baseline = t.Mapping[str, t.Any]


class Key(t.NamedTuple):
    """What has to be the same for two measurements to be compared."""

    tool: str
    collective: str
    type: str
    redop: str
    root: int
    ranks: int
    hosts: int
    setting: str
    placement: str
    size: int

    @property
    def curve(self) -> tuple[t.Any, ...]:
        """All sizes of a band in which the noise is about the same."""
        return (*self[:-1], sum(self.size > edge for edge in _BANDS))


#: The names of GPUs, by tool, collective, setting, number of ranks and of hosts.
Devices = t.Dict[t.Tuple[t.Any, ...], t.Set[str]]

#: Of each key the values of each run, by the names of MEASURES.
Samples = t.Dict[Key, t.Dict[str, t.List[float]]]


def key_of(document: ResultDocument, row: t.Mapping[str, t.Any], placement: str) -> Key:
    """What a half of a row measured."""
    return Key(
        document["tool"]["name"] or "",
        document["collective"] or "",
        row["type"] or "",
        row["redop"] or "none",
        -1 if row["root"] is None else row["root"],
        document["rank_count"],
        document["host_count"],
        setting_of(document),
        placement,
        row["size"],
    )


def setting_of(document: ResultDocument) -> str:
    """The variables by which the points of a sweep differ, such as ``NCCL_ALGO=Ring``, and how the program measured, such as
    ``agg_iters=20``; nothing of most tests.

    Variables of a whole run are no part of it: whether another setting is slower is to be told, not to go unchecked.
    """
    measured = {**document.get("config", {}), "groups": groups_of(document)}
    method = [
        f"{name}={measured[name]}" for name, usual in _METHOD.items() if measured.get(name, usual) not in (usual, None)
    ]
    return " ".join(filter(None, [_swept_text(document), *method]))


def _swept_text(document: t.Mapping[str, t.Any]) -> str:
    env = (document["points"].get("sweep") or {}).get("env") or {}
    return " ".join(f"{name}={env[name]}" for name in sorted(env))


def _setting_of_run(run: t.Mapping[str, t.Any]) -> str:
    """That of the document it was made of. Releases before 0.2 noted none."""
    setting = run.get("setting")
    return _swept_text(run) if setting is None else str(setting)


def samples_of(documents: t.Iterable[ResultDocument]) -> Samples:
    """The measurements of result documents; a size that a run repeats counts once, by its median."""
    samples: Samples = {}
    for document in documents:
        rows: dict[Key, dict[str, list[float]]] = {}
        for row in rows_with_data(document):
            for placement in PLACEMENTS:
                half: t.Mapping[str, t.Any] | None = row[placement]
                if half is None:
                    continue
                key = key_of(document, row, placement)
                for measure in MEASURES:
                    value = half.get(measure)
                    if value is not None and math.isfinite(value) and value > 0:
                        rows.setdefault(key, {}).setdefault(measure, []).append(value)
        for key, measures in rows.items():
            for measure, values in measures.items():
                samples.setdefault(key, {}).setdefault(measure, []).append(statistics.median(values))
    return samples


def is_kept(document: ResultDocument) -> bool:
    """Whether a baseline is to hold the test: it neither failed nor is incomplete."""
    return document["verdict"] in ("pass", "unchecked")


def devices_of(runs: t.Iterable[t.Mapping[str, t.Any]]) -> Devices:
    """The GPUs that the runs of a baseline were on; nothing of the CPU program, whose numbers are those of the control network."""
    found: Devices = {}
    for run in runs:
        _note_devices(found, run)
    return found


def _note_devices(found: Devices, run: t.Mapping[str, t.Any]) -> None:
    counts, hosts = run.get("devices"), run.get("hosts")
    if run["tool"] != "cpu" and isinstance(counts, t.Mapping) and isinstance(hosts, list):
        ranks = sum(number for number in counts.values() if isinstance(number, int))
        found.setdefault((*_test_of(run), ranks, len(hosts)), set()).update(set(counts) - {_UNNAMED})


def other_devices(devices: Devices, document: ResultDocument) -> tuple[str, str]:
    """The GPUs of a baseline's runs of a test, and those of the test, if none is the same; empty texts if one is, or that is not known."""
    test = (document["tool"]["name"], document["collective"], setting_of(document))
    before = devices.get((*test, document["rank_count"], document["host_count"]), set())
    now = {rank["name"] for rank in document["ranks"] if rank["name"]}
    if not before or not now or set(map(_model, before)) & set(map(_model, now)):
        return "", ""
    return listing(sorted(before)), listing(sorted(now))


def _model(name: str) -> str:
    """NVIDIA's drivers before 470 named no maker."""
    return name[len(_MAKER) :] if name.startswith(_MAKER) else name


def make_baseline(documents: t.Sequence[ResultDocument], before: Baseline | None = None) -> dict[str, t.Any]:
    """The baseline of the documents, and of the runs of an earlier one.

    Documents that failed or are not whole are left out, and runs that are in it already. Raises GpufabricError where none is
    left that could be kept, and where runs with different variables, or on different GPUs, would be taken for the same.
    """
    kept = [document for document in documents if is_kept(document)]
    if not kept:
        raise GpufabricError(NOTHING_KEPT)
    runs = list(before["runs"]) if before else []
    known = {run["digest"] for run in runs}
    alike: dict[tuple[str, str, str], list[t.Mapping[str, t.Any]]] = collections.defaultdict(list)
    for run in runs:
        alike[_test_of(run)].append(run)
    devices = devices_of(runs)
    fresh = []
    for document in kept:
        run = _run_of(document)
        if run["digest"] not in known:
            others = alike[_test_of(run)]
            _check_env(run, others)
            _check_devices(document, devices)
            _note_devices(devices, run)
            if not others:
                others.append(run)
            known.add(run["digest"])
            runs.append(run)
            fresh.append(document)
    samples = baseline_samples(before) if before else {}
    for key, measures in samples_of(fresh).items():
        for measure, values in measures.items():
            samples.setdefault(key, {}).setdefault(measure, []).extend(values)
    return _baseline(runs, samples)


def saved_text(baseline: Baseline, documents: t.Sequence[ResultDocument]) -> str:
    """What a baseline has after the documents were added, in words: ``all_reduce 3 runs``."""
    counts = collections.Counter(
        " ".join(filter(None, [run["collective"] or "unnamed collective", _setting_of_run(run)]))
        for run in baseline["runs"]
    )
    text = ", ".join(f"{name} {runs_text(number)}" for name, number in counts.items())
    left_out = sum(not is_kept(document) for document in documents)
    return text + (f"; left out, for they failed or are not complete: {left_out}" if left_out else "")


def runs_text(number: int) -> str:
    """``1 run``, ``2 runs``."""
    return "1 run" if number == 1 else f"{number} runs"


def check_baseline(baseline: t.Any, option: str = "baseline") -> dict[str, t.Any]:
    """The baseline that was handed in. Raises OptionError where it is something else."""
    allowed = f"a document of the schema {BASELINE_SCHEMA}"
    if not isinstance(baseline, t.Mapping) or baseline.get("schema") != BASELINE_SCHEMA:
        found = baseline.get("schema") if isinstance(baseline, t.Mapping) else type(baseline).__name__
        raise OptionError(option, found, allowed)
    try:
        whole = (
            all(map(_is_run, baseline["runs"]))
            and all(
                isinstance(value, str if name in _TEXTS else int)
                for key in baseline_samples(baseline)
                for name, value in zip(Key._fields, key)
            )
            and all(
                values and all(isinstance(value, (int, float)) and 0 < value < _LARGEST for value in values)
                for measures in baseline_samples(baseline).values()
                for values in measures.values()
            )
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise OptionError(option, f"one without {error}", allowed) from error
    if not whole:
        raise OptionError(option, "one with runs or values that are none", allowed)
    return dict(baseline)


def _is_run(run: t.Any) -> bool:
    """Raises KeyError, TypeError and AttributeError."""
    points = run["points"]
    return (
        run.keys() >= _RUN_KEYS
        and isinstance(run["digest"], str)
        and all(run[name] is None or isinstance(run[name], str) for name in ("tool", "collective"))
        and all(
            isinstance(place, t.Mapping) and isinstance(place.get("env") or {}, t.Mapping)
            for place in (points, points.get("sweep") or {})
        )
    )


def read_baseline(text: str, option: str = "baseline") -> dict[str, t.Any]:
    """The baseline of a file. Raises OptionError."""
    try:
        return check_baseline(json.loads(text), option)
    except (ValueError, RecursionError) as error:
        raise OptionError(option, "text that is no JSON", f"a document of the schema {BASELINE_SCHEMA}") from error


def looks_like_baseline(text: str) -> bool:
    """Whether a text was a baseline, whatever has become of it."""
    return re.search(r'"schema":\s*"gpufabric\.nccl/baseline/', text) is not None


def baseline_text(baseline: Baseline) -> str:
    """As JSON with one run and one measurement a line, in a fixed order, so that two versions can be compared line by line."""
    lists = [
        f'  "{name}": [\n'
        + ",\n".join(f"    {json.dumps(item)}" for item in baseline[name])
        + ("\n  ]" if baseline[name] else "  ]")
        for name in ("runs", "measurements")
    ]
    return "{\n" + ",\n".join([f'  "schema": {json.dumps(baseline["schema"])}', *lists]) + "\n}\n"


def baseline_samples(baseline: Baseline) -> Samples:
    """The values of all runs in a baseline."""
    return {
        Key(*(entry[name] for name in Key._fields)): {
            measure: list(entry[measure]["values"]) for measure in MEASURES if measure in entry
        }
        for entry in baseline["measurements"]
    }


class Noise:
    """How far measurements of the same thing are apart, told from the runs on one side or on both."""

    def __init__(self, *sides: Samples) -> None:
        self._sides = sides
        curves: dict[tuple[str, t.Any], list[float]] = collections.defaultdict(list)
        for samples in sides:
            for key, measures in samples.items():
                for measure, values in measures.items():
                    if len(values) >= LEAST_RUNS:
                        curves[measure, key.curve] += _distances(values)
        self._curves = {curve: _deviation(distances) for curve, distances in curves.items()}

    def percent(self, key: Key, measure: str, numbers: t.Iterable[int], floor: float = FLOOR_PERCENT) -> float | None:
        """How much two medians of so many runs each may differ, in percent; None where there are too few to tell."""
        deviation = self._curves.get((measure, key.curve))
        if deviation is None:
            return None
        own = [
            _deviation(_distances(side[key][measure]))
            for side in self._sides
            if len(side.get(key, {}).get(measure, ())) >= LEAST_RUNS
        ]
        deviation = max([deviation, *(value for value in own if value > _NOISIER * deviation)])
        # The variance of a median of more than two is that of the mean times pi / 2.
        variance = sum((math.pi / 2 if number > 2 else 1) / number for number in numbers)
        return max(floor, 100 * noise_of(NOISE_FACTOR * deviation * math.sqrt(variance)))


def noise_of(deviations: float) -> float:
    """How far apart two values are that differ by so many deviations, less 1 as a factor: 4 of 20 % are 1.23, not 0.8."""
    return math.expm1(min(deviations, _MOST_NOISE))


def compare_results(before: t.Sequence[ResultDocument], after: t.Sequence[ResultDocument]) -> dict[str, t.Any]:
    """Two lists of result documents, measurement by measurement.

    Each of ``rows`` has what is compared, ``before`` and ``after`` (``n``, and the median of ``time_us`` and ``busbw``),
    ``change_percent`` (of the speed at the same size: 10 is 1.1 times as fast), ``noise_percent`` (None where it is not
    known) and ``outcome``: one of OUTCOMES. ``counts`` of the outcomes, ``transport`` of both sides, a text for each that there
    is, ``summary`` in words, ``table`` and ``markdown`` for people.
    """
    sides = [samples_of(_whole_runs(side)) for side in (before, after)]
    noise = Noise(*sides)
    keys = sorted(set(sides[0]) | set(sides[1]))
    rows = [_compared(key, sides[0].get(key), sides[1].get(key), noise) for key in keys]
    counts = collections.Counter(row["outcome"] for row in rows)
    result: dict[str, t.Any] = {"rows": rows, "counts": {outcome: counts[outcome] for outcome in OUTCOMES}}
    told = [list(dict.fromkeys(filter(None, map(transport_text, side)))) for side in (before, after)]
    result["transport"] = dict(zip(("before", "after"), told))
    result["summary"] = (
        _summary(result["counts"], len(rows)) + _unsound(before, after) + _gpus(before, after) + _transports(*told)
    )
    result["table"] = _table(result)
    result["markdown"] = _markdown(result)
    return result


def _whole_runs(documents: t.Iterable[ResultDocument]) -> t.Iterable[ResultDocument]:
    """Those that are whole, and of one that is there twice, as if a file was named again, one: two of it would have no noise."""
    return {
        _run_of(document)["digest"]: document for document in documents if document["verdict"] != "incomplete"
    }.values()


OUTCOMES = ("slower", "faster", "within noise", "noise unknown", "without a time", "only before", "only after")


def _compared(
    key: Key, before: dict[str, list[float]] | None, after: dict[str, list[float]] | None, noise: Noise
) -> dict[str, t.Any]:
    row: dict[str, t.Any] = {
        **key._asdict(),
        "before": _medians(before),
        "after": _medians(after),
        "change_percent": None,
        "noise_percent": None,
    }
    if not before or not after:
        row["outcome"] = "only before" if before else "only after"
        return row
    old, new = before.get("time_us"), after.get("time_us")
    if not old or not new:
        row["outcome"] = "without a time"
        return row
    before_us, after_us = statistics.median(old), statistics.median(new)
    change = 100 * (before_us / after_us - 1)
    limit = noise.percent(key, "time_us", (len(old), len(new)))
    # As much faster as slower is the same factor, not the same percentage.
    distance = max(change, 100 * (after_us / before_us - 1))
    if limit is None:
        outcome = "noise unknown"
    elif distance <= limit:
        outcome = "within noise"
    else:
        outcome = "faster" if change > 0 else "slower"
    row.update(change_percent=_rounded(change), noise_percent=_rounded(limit), outcome=outcome)
    return row


def _medians(measures: dict[str, list[float]] | None) -> dict[str, t.Any] | None:
    if not measures:
        return None
    return {
        "n": max(len(values) for values in measures.values()),
        **{measure: _rounded(statistics.median(measures[measure])) for measure in MEASURES if measure in measures},
    }


def _summary(counts: t.Mapping[str, int], number: int) -> str:
    parts = [f"{count} {outcome}" for outcome, count in counts.items() if count]
    text = f"{number} measurements: {', '.join(parts)}." if parts else "Nothing was measured on either side."
    if counts["noise unknown"]:
        text += f" The noise is known from {LEAST_RUNS} runs of the same test, on one of the two sides."
    return text


def _unsound(*sides: t.Sequence[ResultDocument]) -> str:
    """How many tests have a bad verdict, which no speed tells; empty if none has."""
    text = ""
    for verdict, words in (("fail", "failed are compared, too"), ("incomplete", "are not complete are left out")):
        counts = [sum(document["verdict"] == verdict for document in side) for side in sides]
        if any(counts):
            told = (f"{count} of {len(side)} {word}" for count, side, word in zip(counts, sides, ("before", "after")))
            text += f" Tests that {words}: {', '.join(told)}."
    return text


def _gpus(*sides: t.Sequence[ResultDocument]) -> str:
    """The GPUs of both sides where they are known and differ."""
    models = [
        sorted({_model(rank["name"]) for document in side for rank in document["ranks"] if rank["name"]})
        for side in sides
    ]
    if not all(models) or models[0] == models[1]:
        return ""
    return f" GPUs before: {listing(models[0])}. GPUs after: {listing(models[1])}."


def _transports(before: t.Sequence[str], after: t.Sequence[str]) -> str:
    """What else is to be known of a difference: that the two sides talked over something else."""
    if not (before or after) or before == after:
        return ""
    texts = ["; ".join(side) or "unknown" for side in (before, after)]
    return f" Transport before: {texts[0]}. Transport after: {texts[1]}."


_HEADER = ("collective", "ranks", "hosts", "type", "placement", "size", "before us", "after us", "change %", "noise %")


def _cells(row: t.Mapping[str, t.Any]) -> list[str]:
    texts = [
        "" if value is None else f"{value:+.1f}" if name == "change_percent" else f"{value:.1f}"
        for name, value in ((name, row[name]) for name in ("change_percent", "noise_percent"))
    ]
    times = [
        "" if side is None or "time_us" not in side else f"{side['time_us']:.2f}"
        for side in (row["before"], row["after"])
    ]
    operation = row["type"] if row["redop"] == "none" else f"{row['type']} {row['redop']}"
    collective = f"{row['collective']} {row['setting']}".rstrip()
    names = [collective, str(row["ranks"]), str(row["hosts"]), operation]
    return [*names, PLACEMENTS[row["placement"]], format_size(row["size"]), *times, *texts, row["outcome"]]


def _table(result: t.Mapping[str, t.Any]) -> str:
    lines = [[*_HEADER, "outcome"], *(_cells(row) for row in result["rows"])]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    left = {0, 3, 4, 10}
    texts = [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([*texts, "", result["summary"]]) + "\n"


def _markdown(result: t.Mapping[str, t.Any]) -> str:
    parts = ["# Comparison", markdown_plain(result["summary"])]
    told = [row for row in result["rows"] if row["outcome"] in ("slower", "faster")]
    header = [*_HEADER, "outcome"]
    left = ("collective", "type", "placement", "outcome")
    if told:
        parts += ["## Beyond the noise", markdown_table(header, map(_cells, told), left)]
    parts += ["## All measurements", markdown_table(header, map(_cells, result["rows"]), left)]
    parts.append(
        "Times are medians over the runs. The change is that of the speed at the same size. The noise is how much the medians"
        f" of as many runs of the same thing differ: {NOISE_FACTOR:g} standard deviations as a factor, estimated from the runs' median absolute"
        f" deviation at that size and at those near it, and at least {FLOOR_PERCENT:g} %."
    )
    return "\n\n".join(parts) + "\n"


def _distances(values: t.Sequence[float]) -> list[float]:
    """Between any two of the last ones, over their median."""
    values = values[-_RUNS_OF_NOISE:]
    median = statistics.median(values)
    return [abs(first - second) / median for first, second in itertools.combinations(values, 2)]


def _deviation(distances: t.Sequence[float]) -> float:
    """The standard deviation over the median: by the median distance, so that a run that was disturbed counts little."""
    return _OF_DISTANCES * statistics.median(distances)


def _mad(values: t.Sequence[float]) -> float:
    median = statistics.median(values)
    return statistics.median(abs(value - median) for value in values)


def _run_of(document: ResultDocument) -> dict[str, t.Any]:
    """Where measurements come from."""
    tool = document["tool"]
    told = [document["collective"], setting_of(document), document["ranks"], document["rows"]]
    content = json.dumps(told, sort_keys=True)
    return {
        "digest": hashlib.sha256(content.encode()).hexdigest()[:16],
        "tool": tool["name"],
        "version": tool["version"],
        "nccl_version": tool["nccl_version"],
        "collective": document["collective"],
        "setting": setting_of(document),
        "hosts": list(dict.fromkeys(rank["host"] for rank in document["ranks"])),
        "devices": dict(collections.Counter(rank["name"] or _UNNAMED for rank in document["ranks"])),
        "points": document["points"],
        "env": document["env"],
    }


def _baseline(runs: t.Sequence[t.Mapping[str, t.Any]], samples: Samples) -> dict[str, t.Any]:
    measurements = [
        {
            **key._asdict(),
            **{measure: _statistics(samples[key][measure]) for measure in MEASURES if measure in samples[key]},
        }
        for key in sorted(samples)
    ]
    return {"schema": BASELINE_SCHEMA, "runs": list(runs), "measurements": measurements}


def _test_of(run: t.Mapping[str, t.Any]) -> tuple[str, str, str]:
    """What runs of the same test have in common: tool, collective and setting."""
    return run["tool"], run["collective"], _setting_of_run(run)


def _check_env(run: t.Mapping[str, t.Any], others: t.Iterable[t.Mapping[str, t.Any]]) -> None:
    """``others``: of the same test. Raises GpufabricError where one of them had other variables."""
    for other in others:
        envs = [item["points"].get("env") or {} for item in (other, run)]
        if envs[0] != envs[1]:
            names = sorted(name for name in {*envs[0], *envs[1]} if envs[0].get(name) != envs[1].get(name))
            before, after = (", ".join(f"{name}={env.get(name, 'unset')}" for name in names) for env in envs)
            raise GpufabricError(
                f"the baseline has runs of {run['collective']} with {before}, and this one is with {after}:"
                " keep them in a file of their own"
            )


def _check_devices(document: ResultDocument, devices: Devices) -> None:
    """Raises GpufabricError where the runs of the same test were on other GPUs."""
    before, now = other_devices(devices, document)
    if before:
        raise GpufabricError(
            f"the baseline has runs of {document['collective']} on {before}, and this one is on {now}: keep them in a file of their own"
        )


def _statistics(values: t.Sequence[float]) -> dict[str, t.Any]:
    kept = [float(f"{value:.6g}") for value in values]
    return {
        "n": len(kept),
        "median": _rounded(statistics.median(kept)),
        "mad": _rounded(_mad(kept)),
        "min": min(kept),
        "max": max(kept),
        "values": kept,
    }


def _rounded(value: float | None) -> float | None:
    """To six digits, more than any program prints."""
    return None if value is None else float(f"{value:.6g}")
