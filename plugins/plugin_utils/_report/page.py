# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to the collection: it may change in any release.

"""report.html: one page that needs nothing else."""

from __future__ import annotations

import base64
import collections
import hashlib
import json
import pathlib
import typing as t

import jinja2
import yaml
from ansible.release import __version__ as ansible_version
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import PLACEMENTS
from ansible_collections.gpufabric.nccl.plugins.module_utils._results import sweep_analysis as sweeps
from ansible_collections.gpufabric.nccl.plugins.module_utils._results import tables as words
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import clean, listing
from ansible_collections.gpufabric.nccl.plugins.module_utils._units import format_size
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report import charts
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report.data import (
    Check,
    Curve,
    Finding,
    Pairs,
    Report,
    Test,
    setting_value,
)
from markupsafe import Markup

_COLLECTION = pathlib.Path(__file__).parents[3]
_TEMPLATES = _COLLECTION / "roles" / "report" / "templates"

_SIGNS = {"pass": "✓", "fail": "✕", "incomplete": "…", "unchecked": "?"}
_SHAPE_SIGNS = ("●", "■", "▲", "◆", "▼", "✚")
_VERDICT_PHRASES = {"pass": "passed", "fail": "failed", "incomplete": "incomplete", "unchecked": "not checked"}

Cell = t.Dict[str, t.Any]
Table = t.Dict[str, t.Any]


def render_html(report: Report) -> str:
    """The page."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    # What is in these files is the collection's own.
    style, script = (Markup((_TEMPLATES / name).read_text(encoding="utf-8")) for name in ("report.css", "report.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    shared = _shared_settings(report)
    page = environment.get_template("report.html.j2").render(
        style=style,
        script=script,
        script_hash=f"sha256-{digest}",
        made_by=_made_by(),
        run_id=report.run_id,
        verdict=_verdict(report),
        facts=_facts(report),
        cpu_note=words.CPU_NOTE if any(test.document["tool"]["name"] == "cpu" for test in report.tests) else "",
        problems=[_problem(finding, len(report.tests)) for finding in report.findings],
        checks=_checks(report),
        bandwidth=list(_bandwidth(report)),
        sweep=_sweep(report.sweep) if report.sweep else None,
        nodes=_nodes(report),
        limit=report.limit,
        pairs=_pairs(report.pairs) if report.pairs else None,
        tests=_tests(report),
        details=[_details(test, shared) for test in report.tests],
        hosts=_hosts(report),
        settings=_settings_table(shared),
        meanings=_table(
            [("verdict", ""), ("meaning", "w")],
            [[_tag(name), _cell(meaning)] for name, meaning in words.VERDICT_MEANINGS.items()],
        ),
    )
    # Charts and cells hold what came from machines.
    return clean(page)


def _made_by() -> str:
    """The collection and Ansible with their versions, by what an installed collection has or what it is built from."""
    manifest = _COLLECTION / "MANIFEST.json"
    if manifest.exists():
        version = json.loads(manifest.read_text(encoding="utf-8"))["collection_info"]["version"]
    else:
        version = yaml.safe_load((_COLLECTION / "galaxy.yml").read_text(encoding="utf-8"))["version"]
    return f"gpufabric.nccl {version} and ansible-core {ansible_version}"


def _verdict(report: Report) -> dict[str, str]:
    number = len(report.tests)
    if not number:
        sentence = "Nothing was measured."
    elif number == 1:
        worst = report.worst()
        sentence = _capital(worst["why"] if worst and worst["why"] else f"{words.VERDICT_MEANINGS[report.verdict]}.")
    else:
        counts = ", ".join(f"{count} {_VERDICT_PHRASES[name]}" for name, count in report.counts().items())
        sentence = f"Of {number} tests: {counts}."
        worst = report.worst()
        if worst:
            why = f": {worst['why']}" if worst["why"] else ""
            sentence += f" Look first at test {worst['test']}, {worst['name']}{why}"
    if report.searched:
        sentence = f"{sentence.rstrip('.')}. The search was over {report.searched}."
        sentence += f" {words.ONE_OF_SEARCH}" if number else ""
    return {
        "name": report.verdict,
        "word": _capital(report.verdict),
        "sign": _SIGNS[report.verdict],
        "sentence": sentence,
    }


def _facts(report: Report) -> list[tuple[str, str]]:
    peaks = [(test.document["summary"]["peak_busbw"], test) for test in report.tests]
    measured = [(peak, test) for peak, test in peaks if peak is not None]
    facts = []
    if measured:
        peak, best = max(measured, key=lambda item: item[0])
        size = format_size(best.document["summary"]["peak_size"] or 0)
        largest = words.largest_text(best.document)
        facts.append(
            ("Peak busbw", "; ".join([f"{_gbps(peak)} GB/s, {best.collective} at {size}", *filter(None, [largest])]))
        )
    wrong = [test.document["summary"]["wrong"] for test in report.tests]
    known = [number for number in wrong if number is not None]
    unchecked = f", not checked in {len(wrong) - len(known)} of {len(wrong)} tests" if len(known) < len(wrong) else ""
    facts.append(("Wrong values", f"{sum(known)}{unchecked}" if known else "not checked"))
    if not report.searched:
        facts.append(("Hosts", _range(test.document["host_count"] for test in report.tests if test.document["ranks"])))
        facts.append(("Ranks", _range(test.document["rank_count"] for test in report.tests if test.document["ranks"])))
    tools = list(dict.fromkeys(words.tool_text(test.document) for test in report.tests))
    facts.append(("Program", "; ".join(tools)))
    transports = list(dict.fromkeys(filter(None, (words.transport_text(test.document) for test in report.tests))))
    facts.append(("Transport", "; ".join(transports)))
    return [(name, value) for name, value in facts if value]


def _range(numbers: t.Iterable[int]) -> str:
    values = sorted(set(numbers))
    return "" if not values else str(values[0]) if len(values) == 1 else f"{values[0]} to {values[-1]}"


def _problem(finding: Finding, number: int) -> dict[str, str]:
    tests = finding.tests
    if len(tests) == number > 1:
        where = f"all {number} tests"
    else:
        names = listing([f"{test.number}. {test.collective}" for test in tests], 6)
        where = f"{'test' if len(tests) == 1 else 'tests'} {names}"
    return {**finding.entry, "tests": where}


def _checks(report: Report) -> Table | None:
    lines = [
        [
            _tag({True: "pass", False: "fail", None: "unchecked"}[check.passed]),
            _cell(check.told),
            _cell(f"{test.number}. {test.collective}", test.number),
            _cell(check.value_text, check.value),
            _cell(check.limit_text, check.limit),
            _cell(_signed(check.of_limit), check.of_limit),
            _cell(check.source),
        ]
        for test in report.tests
        for check in test.checks
    ]
    columns = [
        ("verdict", ""),
        ("what", "w"),
        ("test", ""),
        ("value", "n"),
        ("limit", "n"),
        ("by %", "n"),
        ("from", "w"),
    ]
    return _table(columns, lines) if lines else None


def _bandwidth(report: Report) -> t.Iterator[dict[str, t.Any]]:
    of_collectives = {collective: report.curves(collective) for collective in report.collectives}
    # One colour for a setting in all charts, where there are enough.
    common = charts.series_of(curve.label for curves in of_collectives.values() for curve in curves)
    for number, (collective, curves) in enumerate(of_collectives.items(), start=1):
        if not curves:
            continue
        limits = report.limits(collective)
        baseline = report.baseline_curves(collective)
        places = common if min(common.values()) >= 0 else charts.series_of(curve.label for curve in curves)
        pictures = charts.bandwidth_charts(f"chart-{number}", curves, places, limits, baseline)
        yield {
            "collective": collective,
            "pictures": {name: Markup(svg) for name, svg in pictures.items()},
            "legend": list(_legend(curves, places, limits, bool(baseline))),
        }


def _legend(
    curves: t.Sequence[Curve], places: t.Mapping[str, int], limits: t.Sequence[Check], has_baseline: bool
) -> t.Iterator[dict[str, str]]:
    labels = list(dict.fromkeys(curve.label for curve in curves))
    shown = [label for label in labels if places[label] >= 0]
    for label in shown:
        place = places[label]
        # One setting has no label, and its first curve is the one that is not dashed.
        text = label or PLACEMENTS[curves[0].placement]
        yield {"variable": f"--series-{place + 1}", "kind": "", "sign": _SHAPE_SIGNS[place], "text": text}
    if charts.shows_in_place(curves):
        variable = f"--series-{places[shown[0]] + 1}" if len(shown) == 1 else "--text-soft"
        text = "in-place" if len(shown) == 1 else "in-place, in the colour of its setting"
        yield {"variable": variable, "kind": "dash", "sign": "", "text": text}
    if len(labels) > len(shown):
        text = f"{len(labels) - len(shown)} settings that are slower at their peak"
        yield {"variable": "--quiet", "kind": "bar", "sign": "", "text": text}
    if has_baseline:
        yield {"variable": "--baseline", "kind": "dot", "sign": "", "text": "baseline: median, least to greatest"}
    if limits:
        text = "; ".join(dict.fromkeys(f"limit {check.limit_text}: {check.name}" for check in limits[:4]))
        yield {"variable": "--limit", "kind": "bar", "sign": "", "text": text}


def _sweep(found: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    bands = [
        {
            "name": f"{sweeps.job_text(band, found['bands'])}, {sweeps.sizes_text(band)}",
            "table": _settings(band),
        }
        for band in found["bands"]
    ]
    effects = [
        [
            _cell(effect["collective"]),
            _cell(sweeps.sizes_text(effect), effect["min_bytes"]),
            _cell(effect["factor"]),
            _cell(sweeps.level_text(effect["level"])),
            _cell(sweeps.level_text(effect["reference"])),
            _cell(_signed(effect["median_percent"]), effect["median_percent"]),
            _cell(str(effect["pairs"]), effect["pairs"]),
        ]
        for effect in found["effects"]
    ]
    columns = [
        *(("collective", ""), ("sizes", ""), ("factor", ""), ("level", ""), ("over", "")),
        *(("speed %", "n"), ("pairs", "n")),
    ]
    return {
        "counted": sweeps.counts_text(found["counts"]),
        "overall": sweeps.overall_text(found["overall"]),
        "lines": "\n".join(found["overall"]["lines"]),
        "noise": sweeps.as_sentence(found["noise"]),
        "bands": bands,
        "effects": _table(columns, effects) if effects else None,
    }


def _settings(band: t.Mapping[str, t.Any]) -> Table:
    """The settings of a band, the fastest first, with bars on one scale."""
    span = max([1.0, *(abs(entry["gain_percent"] or 0) for entry in band["settings"])])
    lines = []
    for entry in band["settings"]:
        gain = entry["gain_percent"]
        is_default = band["default"] is not None and entry["env"] == band["default"]["env"]
        name = sweeps.env_text(entry["env"]) + (" (default)" if is_default else "")
        lines.append(
            [
                _cell(name),
                _cell(_signed(gain), gain),
                _bar(gain, span, entry),
                _cell("the default" if is_default else _outcome(entry)),
                _cell(sweeps.number_text(entry["noise_percent"], 1), entry["noise_percent"]),
                _cell(sweeps.number_text(entry["time_us"]), entry["time_us"]),
                _cell(_gbps(entry["busbw"]), entry["busbw"]),
                _cell(
                    str(entry["repeats"]) + (f", {entry['failed']} failed" if entry["failed"] else ""), entry["repeats"]
                ),
            ]
        )
    columns = [
        *(("setting", "w"), ("gain %", "n"), ("gain", ""), ("outcome", ""), ("noise %", "n")),
        *(("time us", "n"), ("busbw GB/s", "n"), ("repeats", "n")),
    ]
    return _table(columns, lines)


def _outcome(entry: t.Mapping[str, t.Any]) -> str:
    if entry["beyond_noise"] is None:
        return f"not known: {entry['why']}"
    if entry["beyond_noise"]:
        return "faster"
    return "slower" if sweeps.is_slower(entry) else "within noise"


def _bar(gain: float | None, span: float, entry: t.Mapping[str, t.Any]) -> Cell:
    if gain is None:
        return _cell("")
    half = 50 * abs(gain) / span
    return {
        **_cell(_signed(gain), gain),
        "gain": {
            "value": gain,
            "left": round(50 - half if gain < 0 else 50, 2),
            "width": round(half, 2),
            "beyond": _outcome(entry) in ("faster", "slower"),
        },
    }


def _nodes(report: Report) -> Table | None:
    tones = {"good": "pass", "bad": "fail", "unreachable": "fail"}
    lines = [
        [
            {**_cell(node.verdict), "tag": tones.get(node.verdict, "incomplete")},
            _cell(node.name),
            _cell(node.where),
            _cell(node.evidence),
        ]
        for node in sorted(report.nodes, key=lambda node: tones.get(node.verdict, "incomplete"))
    ]
    return _table([("verdict", ""), ("host", ""), ("where", ""), ("evidence", "w")], lines) if lines else None


def _pairs(pairs: Pairs) -> dict[str, t.Any]:
    lead = f"{len(pairs.busbw) + len(pairs.failed)} pairs of {len(pairs.hosts)} hosts."
    if pairs.median is not None:
        lead += f" Their median is {_gbps(pairs.median)} GB/s: red is slower, blue faster."
    if pairs.failed:
        lead += f" {len(pairs.failed)} failed, marked by a cross."
    lines = [
        *(
            [_cell(pairs.hosts[a]), _cell(pairs.hosts[b]), _cell("failed", -1), _cell("")]
            for a, b in sorted(pairs.failed)
        ),
        *(
            [_cell(a), _cell(b), _cell(_gbps(busbw), busbw), _cell(_signed(percent), percent)]
            for a, b, busbw, percent in pairs.slowest()
        ),
    ]
    columns = [("host", ""), ("and host", ""), ("busbw GB/s", "n"), ("from the median %", "n")]
    return {
        "lead": lead,
        "pictures": {name: Markup(svg) for name, svg in charts.pair_charts("pairs", pairs).items()},
        "slowest": _table(columns, lines),
    }


def _tests(report: Report) -> Table:
    lines = []
    for test in report.tests:
        summary = test.document["summary"]
        size = summary["peak_size"]
        lines.append(
            [
                _cell(str(test.number), test.number),
                _tag(test.verdict),
                _cell(test.operation),
                _cell(_gbps(summary["peak_busbw"]), summary["peak_busbw"]),
                _cell("" if size is None else format_size(size), size),
                _cell(_gbps(summary["avg_busbw"]), summary["avg_busbw"]),
                _cell("not checked" if summary["wrong"] is None else str(summary["wrong"]), summary["wrong"]),
                _cell(str(test.document["host_count"]), test.document["host_count"]),
                _cell(str(test.document["rank_count"]), test.document["rank_count"]),
            ]
        )
    columns = [
        *(("#", "n"), ("verdict", ""), ("test", "w"), ("peak busbw GB/s", "n"), ("at size", "n")),
        *(("average GB/s", "n"), ("wrong", "n"), ("hosts", "n"), ("ranks", "n")),
    ]
    return _table(columns, lines)


def _details(test: Test, shared: t.Mapping[str, str]) -> dict[str, t.Any]:
    """All of a test: its rows as they were printed, and what it was run with that others were not."""
    document = test.document
    common, varying = words.row_settings(document["rows"])
    own = {name: value for name, value in _settings_of(test).items() if name not in shared}
    soak = document.get("soak")
    is_soak = bool(soak and soak["sizes"])
    return {
        "name": f"{test.number}. {test.name}",
        "summary": ", ".join([words.tool_text(document), *common, words.summary_text(document)]) + ".",
        "expected": words.notes_beside_peak(document),
        "soak": _soak(test, varying) if is_soak else None,
        # Of a soak there are too many: results.json has them.
        "rows": _rows(document, varying) if document["rows"] and not is_soak else None,
        "command": test.command,
        "settings": _settings_table(own),
    }


def _soak(test: Test, varying: t.Sequence[str]) -> dict[str, t.Any]:
    """What a test that ran its sizes several times says: a table of the sizes, and a chart of the largest ones over the cycles."""
    soak = t.cast("t.Mapping[str, t.Any]", test.document.get("soak"))
    columns = [("size", "n"), *((name, "") for name in varying), *((name, "n") for name in words.SOAK_COLUMNS)]
    lines = []
    for entry in soak["sizes"]:
        line = [_cell(cell) for cell in words.soak_cells(entry, varying)]
        # By its text, 1 MiB would come before 512 KiB, and -9 % before -10 %.
        for place, name in ((0, "size"), (-2, "drift_percent")):
            line[place] = _cell(line[place]["text"], entry[name])
        lines.append(line)
    largest = sorted(soak["sizes"], key=lambda entry: entry["size"])[-charts.SERIES :][::-1]
    series: dict[tuple[t.Any, ...], list[tuple[int, float]]] = {_soak_key(entry): [] for entry in largest}
    count: collections.Counter[tuple[t.Any, ...]] = collections.Counter()
    for row in test.document["rows"]:
        key = _soak_key(row)
        count[key] += 1
        half = row["out_of_place"] or row["in_place"]
        value = half["busbw"] if half else None
        if key in series and value is not None:
            series[key].append((count[key], value))
    labels = [" ".join([format_size(entry["size"]), *(str(entry[name]) for name in varying)]) for entry in largest]
    drawn = {label: points for label, points in zip(labels, series.values()) if points}
    shown = {key[0] for key in series}
    dips = [(dip["cycle"], dip["busbw"]) for dip in soak["dips"] if dip["size"] in shown]
    pictures = charts.soak_charts(f"soak-{test.number}", drawn, dips) if drawn else {}
    legend = [
        {"variable": f"--series-{place + 1}", "kind": "bar", "sign": "", "text": label}
        for place, label in enumerate(drawn)
    ]
    return {
        "text": _capital(words.soak_text(test.document)) + ".",
        "dips": words.dips_text(test.document, 20),
        "table": _table(columns, lines),
        "pictures": {name: Markup(svg) for name, svg in pictures.items()},
        "legend": legend,
    }


def _soak_key(entry: t.Mapping[str, t.Any]) -> tuple[t.Any, ...]:
    return entry["size"], entry["type"], entry["redop"], entry["root"]


def _rows(document: t.Mapping[str, t.Any], varying: t.Sequence[str]) -> Table:
    lines = []
    for row in document["rows"]:
        line = [_cell(format_size(row["size"]), row["size"]), *(_cell(str(row[name])) for name in varying)]
        for placement in PLACEMENTS:
            half = row[placement]
            if half is None:
                line += [_cell("-", None)] * 4
                continue
            line += [
                _cell(words.time_text(half["time_us"]), half["time_us"]),
                _cell(_gbps(half["algbw"]), half["algbw"]),
                _cell(_gbps(half["busbw"]), half["busbw"]),
                _cell("N/A" if half["wrong"] is None else str(half["wrong"]), half["wrong"]),
            ]
        lines.append(line)
    measures = [("time us", "n"), ("algbw GB/s", "n"), ("busbw GB/s", "n"), ("wrong", "n")]
    groups = [{"name": "", "span": 1 + len(varying)}, *({"name": name, "span": 4} for name in PLACEMENTS.values())]
    table = _table([("size", "n"), *((name, "") for name in varying), *measures * 2], lines)
    return {**table, "groups": groups}


def _hosts(report: Report) -> Table:
    hosts: dict[str, dict[str, t.Any]] = {}
    for test in report.tests:
        members: dict[str, list[t.Mapping[str, t.Any]]] = {}
        for rank in test.document["ranks"]:
            members.setdefault(words.host_text(test.document, rank["host"]), []).append(rank)
        for host, ranks in members.items():
            entry = hosts.setdefault(host, {"tests": 0, "ranks": 0, "devices": collections.Counter()})
            entry["tests"] += 1
            if len(ranks) > entry["ranks"]:
                entry["ranks"] = len(ranks)
                entry["devices"] = collections.Counter(rank["name"] or "unnamed" for rank in ranks)
    lines = [
        [
            _cell(host),
            _cell(", ".join(f"{count} x {name}" for name, count in entry["devices"].items())),
            _cell(str(entry["ranks"]), entry["ranks"]),
            _cell(str(entry["tests"]), entry["tests"]),
        ]
        for host, entry in hosts.items()
    ]
    return _table([("host", ""), ("devices", "w"), ("ranks", "n"), ("tests", "n")], lines)


def _shared_settings(report: Report) -> dict[str, str]:
    """The settings that are the same in all tests."""
    settings = [_settings_of(test) for test in report.tests] or [{}]
    return {name: value for name, value in settings[0].items() if all(other.get(name) == value for other in settings)}


def _settings_of(test: Test) -> dict[str, str]:
    document = test.document
    tool = document["tool"]
    return dict(
        _flat(
            {
                "program": tool["name"],
                "program version": tool["version"],
                "NCCL version": tool["nccl_version"],
                "transport": words.transport_text(document) or None,
                "point of the sweep": test.point or None,
                **document["config"],
                **{name: value for name, value in document["points"].items() if name not in ("argv", "sweep")},
                **document["env"],
            }
        )
    )


def _settings_table(settings: t.Mapping[str, str]) -> Table | None:
    lines = [[_cell(name), _cell(value)] for name, value in settings.items()]
    return _table([("setting", ""), ("value", "w")], lines) if lines else None


def _flat(settings: t.Mapping[str, t.Any]) -> t.Iterator[tuple[str, str]]:
    for name, value in settings.items():
        if isinstance(value, t.Mapping):
            yield from _flat(value)
        elif value is not None:
            yield str(name), setting_value(value)


def _table(columns: t.Sequence[tuple[str, str]], lines: t.Sequence[t.Sequence[Cell]]) -> Table:
    """``columns``: names, each with ``n`` of numbers and ``w`` of long text."""
    described = [{"name": name, "numeric": kind == "n", "wide": kind == "w"} for name, kind in columns]
    return {"columns": described, "lines": lines, "groups": None}


def _cell(text: str, *sort: float | int | str | None) -> Cell:
    """``sort``: by what the column is sorted where that is not the text; None sorts last."""
    key = ["" if value is None else value for value in sort]
    return {"text": text, "sort": key[0] if key else None, "tag": None, "gain": None}


def _tag(verdict: str) -> Cell:
    return {**_cell(verdict), "tag": verdict}


def _gbps(value: float | None) -> str:
    return words.bandwidth_text(value)


def _signed(percent: float | None) -> str:
    return "" if percent is None else f"{percent:+.1f}"


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"
