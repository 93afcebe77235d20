# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What a sweep says: the best setting for each collective and band of sizes, and what each factor does.

Compared are times of the same operation at the same sizes, since small sizes have no bandwidth worth the name. A gain of
10 % is 1.1 times the speed, and of the same number of ranks also 1.1 times the bus bandwidth.
"""

from __future__ import annotations

import collections
import itertools
import math
import statistics
import textwrap
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.sweep import estimate
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.document import rows_with_data
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import PLACEMENTS
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.shapes import ResultDocument
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.baseline import noise_of
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.tables import markdown_table
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.verdict import PROBLEMS as RULE_PROBLEMS
from ansible_collections.gpufabric.nccl.plugins.module_utils._units import format_size, parse_size

#: With fewer repeats of a setting, or of the default, nothing is said of their noise.
LEAST_REPEATS = 3

#: How many coefficients of variation a gain has to exceed. The best of many settings looks better than it is: with 3
#: repeats of 9 settings that are all the same, 2.5 call 1.7 % of the best ones a gain (2.0: 5 %; the sum of the two
#: interquartile ranges: 23 %), and find a true gain of 20 % at a noise of 3 % in 99 % of all cases. By simulation.
NOISE_FACTOR = 2.5

#: The largest sizes of the bands but the last: up to where latency rules, and from where bandwidth does.
BANDS = ("64K", "8M")

#: Microseconds, or seconds of a point: no time is shorter, or longer. A launcher may return any, and their squares are to be numbers.
_SHORTEST, _LONGEST = 1e-9, 1e15

_WIDTH = 100
_FACTORS = ("datatype", "operation", "ranks_per_node")

_Env = t.Tuple[t.Tuple[str, str], ...]


class _Setting(t.NamedTuple):
    """What the repeats of a point have in common, within a collective and a range of sizes."""

    datatype: str
    operation: str | None
    ranks_per_node: int | None
    env: _Env

    def level(self, factor: str) -> t.Any:
        return getattr(self, factor) if factor in self._fields else dict(self.env).get(factor)

    def others(self, factor: str) -> _Setting:
        """All but the factor."""
        if factor in self._fields:
            without: dict[str, t.Any] = {factor: None}
            return self._replace(**without)
        return self._replace(env=tuple(item for item in self.env if item[0] != factor))


class _Group(t.NamedTuple):
    """Points whose sizes are the same."""

    collective: str
    min_bytes: int
    max_bytes: int
    step_factor: int


class _Measured(t.NamedTuple):
    """A setting in a band. ``times``: of each repeat, in microseconds; ``busbw`` in GB/s. Both are means over the band's sizes."""

    setting: _Setting
    times: tuple[float, ...]
    busbw: tuple[float, ...]
    failed: int

    @property
    def time(self) -> float:
        return statistics.median(self.times)

    @property
    def variation(self) -> float | None:
        """The coefficient of variation of the repeats; None of fewer than two."""
        if len(self.times) < 2:
            return None
        return statistics.stdev(self.times) / statistics.mean(self.times)

    def gain(self, default: _Measured) -> float:
        return default.time / self.time - 1


def sweep_results(
    documents: t.Sequence[ResultDocument],
    points: t.Sequence[t.Mapping[str, t.Any]] = (),
    default: t.Mapping[str, t.Any] | None = None,
    bands: t.Sequence[str | int] = BANDS,
) -> dict[str, t.Any]:
    """What the result documents of a sweep say together.

    ``documents``: each with the point as ``points.sweep``, as sweep_points made it; others are counted as ``foreign``.
    Of several with one id the last counts. Those that are not whole, or failed for another reason than a missed limit, are
    not used, but counted; a setting that failed in any repeat is neither the best nor advised. ``points``: as planned, to
    tell which are missing, not only how many.
    ``default``: the variables of the setting that gains are over, by default none. ``bands``: the largest sizes of the
    bands but the last.

    Returned are ``counts``, ``excluded``, ``missing``, how long these may take as ``remaining``, ``bands``, ``effects``,
    ``overall`` and the rule by which a gain is beyond ``noise``. Each of ``bands`` has its settings, ``default`` and ``best``,
    the fastest, with ``gain_percent``, ``noise_percent`` and ``beyond_noise``: None where it is not known, for the reason in
    ``why``. Where the fastest that was run often enough gains beyond the noise, ``advice`` is the setting with the fewest
    variables of those that do so too and are as fast but for the noise, with its ``lines`` for an environment and
    ``nccl_conf`` for /etc/nccl.conf; else it is empty. Each of ``effects`` is the change of speed from the level
    ``reference`` to another, over all pairs of settings that differ in nothing else. ``overall`` is an advice for all jobs:
    beyond the noise faster in a band, in none slower, and measured in all. Raises OptionError.
    """
    edges = sorted(parse_size("bands", edge) for edge in bands)
    wanted = tuple(sorted((str(name), str(value)) for name, value in (default or {}).items()))
    latest = {document["points"]["sweep"]["id"]: document for document in documents if _is_swept(document)}
    used = [document for document in latest.values() if _is_measured(document)]
    excluded = [document for document in latest.values() if not _is_measured(document)]
    missing = [point["id"] for point in points if point["id"] not in latest]
    totals = [document["points"]["sweep"].get("total", 0) for document in latest.values()]
    seconds = {name: document["points"].get("duration_s") for name, document in latest.items()}
    durations = {name: value for name, value in seconds.items() if value is not None and 0 <= value < _LONGEST}
    cells = list(_cells(used, excluded, edges))
    found = [entry for cell in cells for entry in _band_entries(*cell, wanted)]
    if default and not any(entry["default"] for entry in found):
        raise OptionError("default", dict(default), "the variables of a setting that was measured")
    return {
        "counts": {
            "documents": len(documents),
            "used": len(used),
            **{verdict: sum(item["verdict"] == verdict for item in excluded) for verdict in ("fail", "incomplete")},
            "missing": len(missing) if points else max(0, max(totals, default=0) - len(latest)),
            "repeated": sum(map(_is_swept, documents)) - len(latest),
            "foreign": len(documents) - sum(map(_is_swept, documents)),
        },
        "excluded": [
            {"id": item["points"]["sweep"]["id"], "name": item["points"]["sweep"]["name"], "verdict": item["verdict"]}
            for item in excluded
        ],
        "missing": missing,
        "remaining": estimate(points, durations),
        "noise": (
            f"a gain is beyond the noise if the logarithm of its factor exceeds {NOISE_FACTOR} times the coefficient of variation of the"
            f" repeats, the largest of the default's, the setting's and that of all settings together, with"
            f" {LEAST_REPEATS} repeats or more of both"
        ),
        "bands": found,
        "effects": [effect for cell in cells for effect in _effects(*cell, wanted)],
        "overall": _overall(found),
    }


def _is_measured(document: ResultDocument) -> bool:
    """Whether its times count. One that misses a limit was measured well: it is what the others are compared with."""
    if document["verdict"] != "fail":
        return document["verdict"] != "incomplete"
    errors = {entry["id"] for entry in document.get("problems", ()) if entry["severity"] == "error"}
    return bool(errors) and errors <= set(RULE_PROBLEMS) and document["complete"]


def _is_swept(document: ResultDocument) -> bool:
    return "sweep" in document["points"]


def _cells(
    used: t.Sequence[ResultDocument], excluded: t.Sequence[ResultDocument], edges: t.Sequence[int]
) -> t.Iterator[tuple[_Group, list[int], list[_Measured]]]:
    """Each collective and band, with the sizes that all of its runs have, and the settings."""
    runs: dict[_Group, dict[_Setting, list[ResultDocument]]] = {}
    for document in used:
        group, setting = _place(document["points"]["sweep"])
        runs.setdefault(group, {}).setdefault(setting, []).append(document)
    failed = collections.Counter(_place(document["points"]["sweep"]) for document in excluded)
    for group, settings in runs.items():
        tables = {setting: [_by_size(document) for document in repeats] for setting, repeats in settings.items()}
        # Programs leave out sizes for which there is no memory.
        common = set.intersection(*(set(table) for repeats in tables.values() for table in repeats))
        for low, high in zip([0, *edges], [*edges, math.inf]):
            sizes = sorted(size for size in common if low < size <= high)
            if sizes:
                yield (
                    group,
                    sizes,
                    [
                        _Measured(
                            setting,
                            tuple(_mean([table[size][0] for size in sizes]) for table in repeats),
                            tuple(statistics.mean(table[size][1] for size in sizes) for table in repeats),
                            failed[group, setting],
                        )
                        for setting, repeats in tables.items()
                    ],
                )


def _place(point: t.Mapping[str, t.Any]) -> tuple[_Group, _Setting]:
    options = point["options"]
    env = tuple(sorted(point["env"].items()))
    return (
        _Group(point["collective"], options["min_bytes"], options["max_bytes"], options["step_factor"]),
        _Setting(options["datatype"], options["operation"], point["ranks_per_node"], env),
    )


def _mean(values: t.Sequence[float]) -> float:
    """The geometric mean: a size counts as much as any other, however long it takes."""
    return math.exp(statistics.mean(math.log(value) for value in values))


def _by_size(document: ResultDocument) -> dict[int, tuple[float, float]]:
    """The time and the bus bandwidth of each size; the medians of one that the program ran several times (nccl_benchmark_cycles)."""
    found: dict[int, list[tuple[float, float]]] = {}
    for row in rows_with_data(document):
        time = _time(row)
        if time:
            found.setdefault(row["size"], []).append((time, _busbw(row)))
    return {
        size: (statistics.median(row[0] for row in rows), statistics.median(row[1] for row in rows))
        for size, rows in found.items()
    }


def _time(row: t.Mapping[str, t.Any]) -> float:
    """Of the placements that were measured; 0 if there is none, one was too short to be printed or is no time, or its bandwidth is no number."""
    times = [half["time_us"] or 0.0 if half["busbw"] is not None else 0.0 for half in _halves(row)]
    return _mean(times) if times and min(times) > _SHORTEST and max(times) < _LONGEST else 0.0


def _busbw(row: t.Mapping[str, t.Any]) -> float:
    return statistics.mean(half["busbw"] for half in _halves(row))


def _halves(row: t.Mapping[str, t.Any]) -> list[t.Mapping[str, t.Any]]:
    return [row[placement] for placement in PLACEMENTS if row[placement] is not None]


def _band_entries(
    group: _Group, sizes: t.Sequence[int], measured: t.Sequence[_Measured], wanted: _Env
) -> t.Iterator[dict[str, t.Any]]:
    """One for each datatype, operation and number of ranks, which are given by the job and not to be chosen."""
    jobs: dict[tuple[t.Any, ...], list[_Measured]] = {}
    for item in measured:
        jobs.setdefault(item.setting[:3], []).append(item)
    for job, items in jobs.items():
        default = next((item for item in items if item.setting.env == wanted), None)
        pooled = _pooled(items)
        entries = sorted((_entry(item, default, pooled) for item in items), key=lambda entry: entry["time_us"])
        sound = [entry for entry in entries if not entry["failed"]]
        best = sound[0] if sound else None
        # Only the fastest is tried against the noise: of many that are tried, one exceeds it by chance.
        lead = next((entry for entry in sound if entry["beyond_noise"] is not None), None)
        advised = None
        if lead and lead["beyond_noise"]:
            equals = [entry for entry in sound if entry["beyond_noise"] and _is_as_fast(entry, lead)]
            advised = min(equals, key=lambda entry: (len(entry["env"]), entry["time_us"]))
        yield {
            "collective": group.collective,
            **dict(zip(_FACTORS, job)),
            "min_bytes": sizes[0],
            "max_bytes": sizes[-1],
            "sizes": len(sizes),
            "default": next((entry for entry in entries if default and entry["env"] == dict(wanted)), None),
            "best": best,
            "advice": _advice(advised["env"] if advised else {}, advised["gain_percent"] if advised else None),
            "settings": entries,
        }


def _pooled(items: t.Iterable[_Measured]) -> float | None:
    """The coefficient of variation of all settings together, each counting by its number of repeats less one."""
    squares = [(len(item.times) - 1, item.variation**2) for item in items if item.variation is not None]
    freedom = sum(number for number, square in squares)
    return math.sqrt(sum(number * square for number, square in squares) / freedom) if freedom else None


def _entry(item: _Measured, default: _Measured | None, pooled: float | None) -> dict[str, t.Any]:
    gain, noise, beyond, why = None, None, None, ""
    if default is None:
        why = "the default was not measured"
    else:
        gain = item.gain(default)
        fewest = min(len(item.times), len(default.times))
        if fewest < LEAST_REPEATS:
            why = f"{fewest} of {LEAST_REPEATS} repeats" + (" of the default" if len(default.times) == fewest else "")
        else:
            noise = noise_of(NOISE_FACTOR * max(value or 0.0 for value in (pooled, item.variation, default.variation)))
            beyond = gain > noise
    return {
        "env": dict(item.setting.env),
        "time_us": item.time,
        "busbw": statistics.median(item.busbw),
        "repeats": len(item.times),
        "failed": item.failed,
        "variation_percent": _percent(item.variation),
        "gain_percent": _percent(gain),
        "noise_percent": _percent(noise),
        "beyond_noise": beyond,
        "why": why,
    }


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _advice(env: t.Mapping[str, str], gain: float | None) -> dict[str, t.Any]:
    lines = [f"{name}={value}" for name, value in env.items()]
    return {
        "env": dict(env),
        "gain_percent": gain,
        "lines": lines,
        # The file holds NCCL's own variables only.
        "nccl_conf": [line for line in lines if line.startswith("NCCL_")],
    }


def _effects(
    group: _Group, sizes: t.Sequence[int], measured: t.Sequence[_Measured], wanted: _Env
) -> t.Iterator[dict[str, t.Any]]:
    times = {item.setting: item.time for item in measured}
    names = [*_FACTORS, *dict.fromkeys(name for setting in times for name, value in setting.env)]
    for factor in names:
        levels = list(dict.fromkeys(setting.level(factor) for setting in times))
        usual = dict(wanted).get(factor) if factor not in _FACTORS else levels[0]
        by_level: dict[t.Any, dict[_Setting, float]] = {level: {} for level in levels}
        for setting, time in times.items():
            by_level[setting.level(factor)][setting.others(factor)] = time
        # Where the usual level has no partner that differs in nothing else, the first that has one.
        for reference in dict.fromkeys([usual, *levels]):
            changes = {
                level: [
                    100 * (by_level[reference][others] / time - 1)
                    for others, time in by_level[level].items()
                    if others in by_level[reference]
                ]
                for level in levels
                if level != reference and reference in by_level
            }
            if any(changes.values()):
                for level, values in changes.items():
                    if values:
                        yield {
                            "collective": group.collective,
                            "min_bytes": sizes[0],
                            "max_bytes": sizes[-1],
                            "factor": factor,
                            "reference": reference,
                            "level": level,
                            "median_percent": statistics.median(values),
                            "mean_percent": statistics.mean(values),
                            "pairs": len(values),
                        }
                break


def _overall(found: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    sound = [
        {tuple(entry["env"].items()): entry for entry in band["settings"] if not entry["failed"]} for band in found
    ]
    gains = {}
    for env in sound[0] if sound else ():
        entries = [band[env] for band in sound if env in band]
        known = len(entries) == len(sound) and all(entry["beyond_noise"] is not None for entry in entries)
        gaining = any(entry["beyond_noise"] and band["advice"]["lines"] for entry, band in zip(entries, found))
        if known and gaining and not any(map(is_slower, entries)):
            gains[env] = 100 * (_mean([1 + entry["gain_percent"] / 100 for entry in entries]) - 1)
    if not gains:
        return _advice({}, None)
    lead = max(gains, key=lambda env: gains[env])
    equals = [env for env in gains if all(_is_as_fast(band[env], band[lead]) for band in sound)]
    best = min(equals, key=lambda env: (len(env), -gains[env]))
    return _advice(dict(best), gains[best])


def _is_as_fast(entry: t.Mapping[str, t.Any], lead: t.Mapping[str, t.Any]) -> bool:
    """Whether it is, but for the noise."""
    return entry["time_us"] <= lead["time_us"] * (1 + lead["noise_percent"] / 100)


def is_slower(entry: t.Mapping[str, t.Any]) -> bool:
    """Whether it is beyond the noise."""
    return (100 + entry["noise_percent"]) * (1 + entry["gain_percent"] / 100) < 100


def swept(documents: t.Sequence[ResultDocument]) -> dict[str, t.Any] | None:
    """What the documents of a sweep among these say together; None where there are none."""
    found = [document for document in documents if _is_swept(document)]
    return sweep_results(found) if found else None


def sweep_table(results: t.Mapping[str, t.Any]) -> str:
    """What sweep_results found, as text for a terminal."""
    parts = [counts_text(results["counts"])]
    header, lines = _best_lines(results["bands"])
    if lines:
        parts.append("\n".join(_aligned(header, lines)))
    header, lines = _effect_lines(results["effects"])
    if lines:
        parts.append(f"{_EFFECTS}; see the noise above\n" + "\n".join(_aligned(header, lines)))
    parts.append("\n".join(textwrap.wrap(as_sentence(results["noise"]), _WIDTH)))
    parts.append("\n".join([overall_text(results["overall"]), *(f"  {line}" for line in results["overall"]["lines"])]))
    return "\n\n".join(parts) + "\n"


def sweep_markdown(results: t.Mapping[str, t.Any]) -> str:
    """What sweep_results found, as sections of a report in Markdown."""
    parts = ["## Sweep", counts_text(results["counts"])]
    header, lines = _best_lines(results["bands"])
    if lines:
        parts += ["### Best settings", markdown_table(header, lines, left=_TEXTS), as_sentence(results["noise"])]
    header, lines = _effect_lines(results["effects"])
    if lines:
        parts += [f"### {_EFFECTS}", "Compare them with the noise above.", markdown_table(header, lines, left=_TEXTS)]
    parts += ["### Settings for all jobs", overall_text(results["overall"])]
    if results["overall"]["lines"]:
        parts.append("\n".join(f"    {line}" for line in results["overall"]["lines"]))
    if results["excluded"]:
        lines = [[item["name"], item["verdict"], item["id"]] for item in results["excluded"]]
        header = ["point", "verdict", "id"]
        parts += ["### Points that are not used", markdown_table(header, lines, left=header)]
    return "\n\n".join(parts) + "\n"


_EFFECTS = "Change of speed by one factor, all others held"
_TEXTS = ("collective", "sizes", "best", "beyond noise", "advice", "factor", "level", "over")


def counts_text(counts: t.Mapping[str, int]) -> str:
    """How many points were used, and what became of the others."""
    words = [f"{counts['used']} of {counts['documents'] + counts['missing']} tests used"]
    words += [
        f"{counts[name]} {text}"
        for name, text in (
            ("fail", "failed"),
            ("incomplete", "incomplete"),
            ("missing", "not run"),
            ("repeated", "replaced by a later one"),
            ("foreign", "of no sweep"),
        )
        if counts[name]
    ]
    return ", ".join(words) + "."


def _best_lines(found: t.Sequence[t.Mapping[str, t.Any]]) -> tuple[list[str], list[list[str]]]:
    header = ["collective", "sizes", "default us", "best us", "busbw GB/s", "gain %", "noise %", "beyond noise", "best"]
    lines = []
    for band in found:
        best = band["best"]
        if best is None:
            continue
        beyond = {True: "yes", False: "no", None: f"not known: {best['why']}"}[best["beyond_noise"]]
        advice = band["advice"]
        text = env_text(best["env"])
        if advice["lines"] and advice["env"] != best["env"]:
            text += f"; as good: {env_text(advice['env'])}"
        lines.append(
            [
                job_text(band, found),
                sizes_text(band),
                number_text(band["default"] and band["default"]["time_us"]),
                number_text(best["time_us"]),
                number_text(best["busbw"]),
                number_text(best["gain_percent"], 1),
                number_text(best["noise_percent"], 1),
                beyond,
                text,
            ]
        )
    return header, lines


def _effect_lines(effects: t.Sequence[t.Mapping[str, t.Any]]) -> tuple[list[str], list[list[str]]]:
    header = ["collective", "sizes", "factor", "level", "over", "median %", "mean %", "pairs"]
    lines = [
        [
            effect["collective"],
            sizes_text(effect),
            effect["factor"],
            level_text(effect["level"]),
            level_text(effect["reference"]),
            f"{effect['median_percent']:+.1f}",
            f"{effect['mean_percent']:+.1f}",
            str(effect["pairs"]),
        ]
        for effect in effects
    ]
    return header, lines


def overall_text(overall: t.Mapping[str, t.Any]) -> str:
    """The advice for all jobs, in words."""
    if not overall["lines"]:
        return "For all jobs: no setting is beyond the noise faster than the default in a band and slower in none."
    return f"For all jobs, {overall['gain_percent']:.1f} % faster on average, in the environment or /etc/nccl.conf (NCCL_* only):"


def job_text(band: t.Mapping[str, t.Any], found: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """The collective, and what else tells it from the others."""
    words = [band["collective"]]
    for name in _FACTORS:
        if band[name] is not None and len({other[name] for other in found} - {None}) > 1:
            words.append(f"{band[name]} ranks per node" if name == "ranks_per_node" else str(band[name]))
    return " ".join(words)


def sizes_text(entry: t.Mapping[str, t.Any]) -> str:
    """The sizes of a band."""
    smallest, largest = format_size(entry["min_bytes"]), format_size(entry["max_bytes"])
    return smallest if smallest == largest else f"{smallest} to {largest}"


def env_text(env: t.Mapping[str, str]) -> str:
    """A setting's variables."""
    return " ".join(f"{name}={value}" for name, value in env.items()) or "nothing set"


def level_text(level: t.Any) -> str:
    """A level of a factor."""
    return "not set" if level is None else str(level)


def number_text(value: float | None, decimals: int = 2) -> str:
    """Empty where it is not known."""
    return "" if value is None else f"{value:.{decimals}f}"


def as_sentence(text: str) -> str:
    """With a capital and a full stop."""
    return f"{text[0].upper()}{text[1:]}."


def _aligned(header: t.Sequence[str], lines: t.Sequence[t.Sequence[str]]) -> t.Iterator[str]:
    widths = [max(map(len, column)) for column in itertools.zip_longest(header, *lines, fillvalue="")]
    for line in [header, *lines]:
        cells = [
            cell.ljust(width) if name in _TEXTS else cell.rjust(width)
            for name, cell, width in zip(header, line, widths)
        ]
        yield "  ".join(cells).rstrip()
