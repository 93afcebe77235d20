# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Result documents as text for people: a table for a terminal, a report in Markdown."""

from __future__ import annotations

import collections
import shlex
import textwrap
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import (
    BOOLEAN,
    BYTES,
    FINITE,
    NUMBER,
    SIMPLE,
    TEXT,
    AnswerError,
    Each,
    Kind,
    Maybe,
    Optional,
    check_answer,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import entries_from
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.summary import (
    checked_transport,
    describe_transport,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.checking import check_document
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.hardware import checked_hardware
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import (
    PLACEMENTS,
    RESULT_SCHEMA,
    VERDICTS,
    overall_verdict,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.shapes import ResultDocument
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.soak import checked_soak, describe_dip
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.stragglers import (
    checked_stragglers,
    describe_stragglers,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.ceiling import groups_of, share_of_ceiling
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.published import published
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import (
    clean,
    clean_line,
    clean_values,
    listing,
    markdown_plain,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._units import format_size

_DOCUMENT_KEYS = (
    *("tool", "collective", "complete", "config", "ranks", "rows", "lost_rows", "summary", "points", "env"),
    *("host_count", "rank_count", "problems", "verdict"),
)
_VARIABLES = Each(TEXT, Maybe(SIMPLE))
#: The shape of ``points``, as far as texts are made of it.
POINTS = {
    "argv": Optional([TEXT]),
    "env": Optional(_VARIABLES),
    "duration_s": Optional(Maybe(FINITE)),
    "sweep": Optional(
        {
            **dict.fromkeys(("id", "name", "collective"), TEXT),
            "options": dict.fromkeys(("min_bytes", "max_bytes", "step_factor", "datatype", "operation"), Maybe(SIMPLE)),
            "env": _VARIABLES,
            "ranks_per_node": Maybe(NUMBER),
            "total": Optional(NUMBER),
        }
    ),
}
_SIZES = Kind(lambda value: isinstance(value, list) and all(map(BYTES.is_allowed, value)), "a list of sizes in bytes")
_HOSTS = Kind(lambda value: isinstance(value, list) and all(map(TEXT.is_allowed, value)), "a list of hosts")
#: The shape of ``verdicts``. Large fleets and long soaks have more hosts and sizes than any other list has items.
_VERDICTS = [
    {
        **dict.fromkeys(("rule", "metric", "unit", "source", "message"), TEXT),
        "value": Maybe(SIMPLE),
        **dict.fromkeys(("limit", "percent"), Maybe(FINITE)),
        "passed": Maybe(BOOLEAN),
        **dict.fromkeys(("size", "min_bytes", "max_bytes"), Optional(Maybe(BYTES))),
        "missed_sizes": Optional(_SIZES),
        "hosts": Optional(_HOSTS),
    }
]
#: Parts of a document that are texts of several lines, or are copied only.
_MANY_LINES = ("config", "env", "problems", "verdicts")
_WIDTH = 100
_MEASURES = ("time", "algbw", "busbw", "#wrong")
_UNITS_OF_MEASURES = ("us", "GB/s", "GB/s", "")

CPU_NOTE = "By the CPU program over the control network: says nothing about NCCL, GPUs or the data network."

ONE_OF_SEARCH = "Only one of its tests follows, the fastest of the largest group; it has the verdict of the search."

PAIR_NOTE = (
    "Two hosts: by trees or NVLink's switches, all_reduce needs about 65 % of the network, so a third of it can be lost and not show."
    " all_gather shows it, and so does NCCL_ALGO=Ring."
)

VERDICT_MEANINGS = {
    "pass": "every value that the program checked is right, the output is whole, and no limit is missed",
    "unchecked": "the output is whole, but no value was checked (-c 0), or none of the limits that were given could be applied",
    "incomplete": "the output is not whole; the rows that are there are kept",
    "fail": "wrong values, a limit or an assertion that is not kept, or a run that was not the one that was meant",
}


def check_documents(documents: t.Any) -> list[ResultDocument]:
    """The list of result documents that was handed in, with texts that may be shown. Raises GpufabricError where it is something else.

    A launcher that sends what it likes gets no further: all tables, reports and baselines are of what this returns.
    """
    if not isinstance(documents, (list, tuple)):
        raise GpufabricError(f"a list of result documents is needed, not {type(documents).__name__}")
    for document in documents:
        if not isinstance(document, dict) or document.get("schema") != RESULT_SCHEMA:
            raise GpufabricError(f"a list of result documents is needed; an item is not of the schema {RESULT_SCHEMA}")
        missing = [name for name in _DOCUMENT_KEYS if name not in document]
        if missing:
            raise GpufabricError(f"a list of result documents is needed; an item lacks {', '.join(missing)}")
        if document["verdict"] not in VERDICTS:
            raise GpufabricError("a list of result documents is needed; the verdict of an item is none")
        try:
            check_document("an item", {"json_output": None, **document})
            check_answer("an item", "points", document["points"], POINTS)
            check_answer("an item", "verdicts", document.get("verdicts", []), _VERDICTS)
        except AnswerError as error:
            raise GpufabricError(f"a list of result documents is needed; {error}") from error
    return [_checked(_with_clean_texts(document)) for document in documents]


def _with_clean_texts(document: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """With texts that may be shown. Names, types and versions are in one line: in a table, a further line may look like anything."""
    cleaned = {
        clean(str(name)): clean_values(value) if name in _MANY_LINES else clean_values(value, clean_line)
        for name, value in document.items()
    }
    points = document["points"]
    if "argv" in points:
        # An argument may be a script.
        cleaned["points"] = {**cleaned["points"], "argv": clean_values(points["argv"])}
    return cleaned


def _checked(document: dict[str, t.Any]) -> t.Any:
    """With what not all releases wrote. Raises GpufabricError."""
    if "host_names" in document:
        names = document["host_names"]
        names = {str(key): str(value) for key, value in names.items()} if isinstance(names, dict) else {}
        document = {**document, "host_names": names}
    return {
        **document,
        "transport": checked_transport(document.get("transport")),
        "software": document.get("software"),
        "hardware": checked_hardware(document.get("hardware")),
        "soak": checked_soak(document.get("soak")),
        "stragglers": checked_stragglers(document.get("stragglers")),
        "problems": entries_from(document["problems"]),
    }


def results_table(documents: t.Sequence[ResultDocument], sweep: str = "", named_only: t.Container[str] = ()) -> str:
    """Each test as a heading, an aligned table, its summary and its problems; then the verdict over all.

    ``sweep``: what the points of a sweep say together. Of these themselves only those that have problems are named.
    ``named_only``: verdicts of tests whose problems are named by their ids, since they are shown in full elsewhere.
    100 columns wide at most, but for the names that are longer.
    """
    points = [document for document in documents if _is_swept(document)]
    parts = ["\n".join(_terminal_lines(document, named_only)) for document in documents if not _is_swept(document)]
    parts += ["\n".join(_problem_lines(document, named_only)) for document in points if document["problems"]]
    if any(map(_is_cpu, points)):
        parts.append(CPU_NOTE)
    if sweep:
        parts.append(sweep.rstrip())
    parts.append(
        f"Verdict over {counted(len(documents), 'test')}: {overall_verdict(documents).upper()}{_by_cpu(documents)}"
    )
    return "\n\n".join(parts) + "\n"


def results_markdown(documents: t.Sequence[ResultDocument], sweep: str = "", searched: str = "") -> str:
    """A report in Markdown: all tests at a glance, what is wrong, and each test in full.

    ``sweep``: section on what the points of a sweep say together. Of these themselves only the hosts are told in full.
    ``searched``: what a search for bad machines ran. The only document is then one of its tests, with the verdict of the search.
    """
    over = f"of the search over {searched}" if searched else f"over {counted(len(documents), 'test')}"
    parts = ["# Benchmark report", f"Verdict {over}: **{overall_verdict(documents)}**{_by_cpu(documents)}"]
    if searched and documents:
        parts.append(ONE_OF_SEARCH)
    if any(_is_cpu(document) for document in documents):
        parts.append(f"> **Not NCCL.** {CPU_NOTE} This goes for the tests whose tool is `cpu`.")
    points = [document for document in documents if _is_swept(document)]
    if sweep:
        parts.append(sweep.rstrip())
        # All points ran on the same machines; one that failed may not list them.
        whole = max(points, key=lambda document: len(document["ranks"]), default=None)
        parts += ["### Hosts of the sweep", _hosts_table(whole)] if whole and whole["ranks"] else []
    parts.append("## Summary")
    parts.append(_markdown_overview(documents))
    parts.append("## Problems")
    entries = [
        (_number_and_name(index, document), entry)
        for index, document in _numbered(documents)
        for entry in document["problems"]
    ]
    parts += [_markdown_problem(name, entry) for name, entry in entries] or ["None was found."]
    for index, document in _numbered(documents):
        if not _is_swept(document):
            parts += _markdown_test(index, document)
    if points:
        parts.append("Rows and settings of each point of the sweep are in `results.json`.")
    parts.append(_how_to_read())
    return "\n\n".join(parts) + "\n"


def _terminal_lines(document: ResultDocument, named_only: t.Container[str]) -> t.Iterator[str]:
    common, varying = row_settings(document["rows"])
    parts = [
        f"{_name(document)} ({tool_text(document)})",
        _participants(document),
        *common,
        document["verdict"].upper(),
    ]
    yield ", ".join(parts)
    transport = transport_text(document)
    if transport:
        yield from textwrap.wrap(f"Transport: {transport}", _WIDTH, subsequent_indent="  ")
    soak = document.get("soak")
    if soak and soak["sizes"]:
        yield from ["", *_aligned_soak(document, varying), ""]
    elif document["rows"]:
        yield from ["", *_aligned_rows(document["rows"], varying), ""]
    yield summary_text(document)
    for line in (*expected_lines(document), _pair_note(document), stragglers_text(document)):
        yield from textwrap.wrap(line, _WIDTH, subsequent_indent="  ")
    if _is_cpu(document):
        yield CPU_NOTE
    yield from _entry_lines(document, named_only)


def _problem_lines(document: ResultDocument, named_only: t.Container[str]) -> t.Iterator[str]:
    """A point of a sweep of which there is more to say than its row in a table."""
    yield f"{_name(document)}, {document['verdict'].upper()}"
    yield from _entry_lines(document, named_only)


def _entry_lines(document: ResultDocument, named_only: t.Container[str]) -> t.Iterator[str]:
    for judged in document.get("verdicts", [])[1:]:
        # What is missed is a problem below; the first entry is about wrong values, which the summary tells.
        if judged["passed"] is not False:
            word = "KEPT" if judged["passed"] else "UNCHECKED"
            yield from textwrap.wrap(f"{word} {judged['message']}", _WIDTH, subsequent_indent="  ")
    for entry in document["problems"]:
        host = clean_line(entry["host"] or "")
        where = f"{entry['severity'].upper()} {entry['id']}" + (f" on {host}" if host else "")
        if document["verdict"] in named_only:
            yield f"{where}: see below"
            continue
        yield from textwrap.wrap(f"{where}: {entry['cause']}", _WIDTH, subsequent_indent="  ")
        yield from textwrap.wrap(f"Cure: {entry['cure']}", _WIDTH, initial_indent="  ", subsequent_indent="    ")
        if entry["evidence"]:
            yield from textwrap.wrap(
                f"Seen: {entry['evidence']}", _WIDTH, initial_indent="  ", subsequent_indent="    "
            )


SOAK_COLUMNS = ("cycles", "median", "min", "max", "drift", "dips")


def soak_cells(entry: t.Mapping[str, t.Any], varying: t.Sequence[str]) -> list[str]:
    """A size of a soak: its size, what varies, and the columns of SOAK_COLUMNS."""
    drift = "-" if entry["drift_percent"] is None else f"{entry['drift_percent']:+.1f} %"
    numbers = [f"{entry[name]:.2f}" for name in ("median", "min", "max")]
    lead = [format_size(entry["size"]), *(str(entry[name]) for name in varying)]
    return [*lead, str(entry["cycles"]), *numbers, drift, str(entry["dips"])]


def _aligned_soak(document: ResultDocument, varying: t.Sequence[str]) -> t.Iterator[str]:
    """One line for each size: there are as many rows of it as cycles."""
    soak = document.get("soak")
    if soak is None:
        return
    header = ["size", *varying, *SOAK_COLUMNS]
    units = ["", *("" for _name in varying), "", "GB/s", "GB/s", "GB/s", "", ""]
    table = [header, units, *(soak_cells(entry, varying) for entry in soak["sizes"])]
    widths = [max(10 if column == 0 else 8, *(len(line[column]) for line in table)) for column in range(len(header))]
    yield soak_text(document)
    for line in table:
        yield " ".join(cell.rjust(width) for cell, width in zip(line, widths)).rstrip()


def soak_text(document: ResultDocument) -> str:
    """How often and from when to when a soak ran; empty for any other test."""
    soak = document.get("soak")
    if soak is None:
        return ""
    span = f", from {soak['begin']} to {soak['end']}" if soak["begin"] and soak["end"] else ""
    return f"bus bandwidth over {soak['cycles']} cycles{span}"


def dips_text(document: ResultDocument, most: int = 5) -> str:
    """The dips of a soak in words, those that come first; empty without any."""
    soak = document.get("soak")
    return listing(map(describe_dip, soak["dips"]), most) if soak and soak["dips"] else ""


def _aligned_rows(rows: t.Sequence[t.Mapping[str, t.Any]], varying: t.Sequence[str]) -> t.Iterator[str]:
    names = ["size", *varying, *_MEASURES * 2]
    units = ["", *("" for name in varying), *_UNITS_OF_MEASURES * 2]
    table = [names, units, *(_cells(row, varying) for row in rows)]
    least = [10, *(5 for name in varying), *(9, 8, 8, 6) * 2]
    widths = [max(width, *(len(line[column]) for line in table)) for column, width in enumerate(least)]
    lead = len(names) - 2 * len(_MEASURES)
    # The two halves stand apart, each below its name.
    bounds = [(0, lead), (lead, lead + 4), (lead + 4, lead + 8)]
    spans = [sum(widths[first:end]) + end - first - 1 for first, end in bounds]
    titles = ["", *(f" {name} " for name in PLACEMENTS.values())]
    yield "  ".join(title.center(span, "-" if title else " ") for title, span in zip(titles, spans))
    for line in table:
        cells = [cell.rjust(width) for cell, width in zip(line, widths)]
        yield "  ".join(" ".join(cells[first:end]) for first, end in bounds).rstrip()


def _cells(row: t.Mapping[str, t.Any], varying: t.Sequence[str]) -> list[str]:
    cells = [format_size(row["size"]), *(str(row[name]) for name in varying)]
    for placement in PLACEMENTS:
        half = row[placement]
        if half is None:
            # Not measured.
            cells += ["-"] * len(_MEASURES)
            continue
        wrong = "N/A" if half["wrong"] is None else str(half["wrong"])
        bandwidths = [bandwidth_text(half[name]) or "-" for name in ("algbw", "busbw")]
        cells += [time_text(half["time_us"]), *bandwidths, wrong]
    return cells


def time_text(microseconds: float | None) -> str:
    """Five digits or so, as nccl-tests prints times; nothing where the output tells none."""
    if microseconds is None:
        return "-"
    decimals = 2 if microseconds < 1000 else 1 if microseconds < 10000 else 0
    return f"{microseconds:.{decimals}f}"


def row_settings(rows: t.Sequence[t.Mapping[str, t.Any]]) -> tuple[list[str], list[str]]:
    """What all rows have in common, in words, and the names of the columns in which they differ."""
    common, varying = [], []
    for name in ("type", "redop", "root"):
        values = {row[name] for row in rows}
        if len(values) > 1:
            varying.append(name)
        elif values and not values <= {"none", -1, None}:
            value = values.pop()
            common.append(f"root {value}" if name == "root" else str(value))
    return common, varying


def summary_text(document: ResultDocument) -> str:
    """Peak, average and wrong values of a document."""
    summary = document["summary"]
    wrong = "no value was checked" if summary["wrong"] is None else counted(summary["wrong"], "wrong value")
    peak = "unknown"
    if summary["peak_busbw"] is not None and summary["peak_size"] is not None:
        peak = f"{summary['peak_busbw']:.2f} GB/s at {format_size(summary['peak_size'])}"
        largest = largest_text(document)
        peak += f", {largest}" if largest else ""
    average = "unknown" if summary["avg_busbw"] is None else f"{summary['avg_busbw']:.2f} GB/s"
    return f"busbw: peak {peak}, average {average}; {wrong}"


def largest_text(document: ResultDocument) -> str:
    """``0.33 GB/s at 64 MiB, the largest size``; empty if the peak is there, or nothing is known of it."""
    summary = document["summary"]
    size = max((row["size"] for row in document["rows"]), default=0)
    if summary["peak_size"] is None or size <= summary["peak_size"]:
        return ""
    halves = [row[placement] for row in document["rows"] if row["size"] == size for placement in PLACEMENTS]
    known = [half["busbw"] for half in halves if half is not None and half["busbw"] is not None]
    soak = document.get("soak")
    if soak:
        known = [entry["median"] for entry in soak["sizes"] if entry["size"] == size]
    return f"{max(known):.2f} GB/s at {format_size(size)}, the largest size" if known else ""


def flatters_pairs(collective: str | None, env: t.Mapping[str, t.Any]) -> bool:
    """Whether the number of two hosts may be good though a part of their network is lost. ``env``: what NCCL was given."""
    return collective == "all_reduce" and str(env.get("NCCL_ALGO") or "").strip().lower() != "ring"


def notes_beside_peak(document: ResultDocument) -> list[str]:
    """What to read together with the peak, a text each: what others measured, what the number does not show, who is late."""
    return [*expected_lines(document), *filter(None, [_pair_note(document), stragglers_text(document)])]


def stragglers_text(document: ResultDocument) -> str:
    """The ranks that the others wait for; empty if there are none, or their times are not known."""
    words = describe_stragglers(document.get("stragglers") or [])
    return f"stragglers: {words} of the time" if words else ""


def _pair_note(document: ResultDocument) -> str:
    """What the number of two hosts does not show; empty for any other."""
    env = {**document["env"], **document["points"].get("env", {})}
    if document["host_count"] != 2 or _is_cpu(document) or document["summary"]["peak_busbw"] is None:
        return ""
    return PAIR_NOTE if document["tool"]["name"] and flatters_pairs(document["collective"], env) else ""


def expected_lines(document: ResultDocument) -> list[str]:
    """How much of what the hardware allows was reached, and what others measured on such machines, a line each: no limits.

    Each published value ends with its name, by which docs/expected.md has the source and the definition.
    """
    summary, hardware = document["summary"], document.get("hardware")
    peak = summary["peak_busbw"]
    if _is_cpu(document) or summary["peak_size"] is None or not peak or groups_of(document) > 1:
        return []
    ceiling = share_of_ceiling(document)
    names = [rank["name"] for rank in document["ranks"]]
    host_gbps = (hardware["nic_gbps"] or 0) * (hardware["rails"] or 0) if hardware else 0
    found = published(
        document["collective"], names, document["host_count"] or 0, summary["peak_size"], host_gbps=host_gbps
    )
    return [f"ceiling: {ceiling}"] * bool(ceiling) + [
        f"published: {reference.value:.2f} GB/s at {format_size(reference.max_bytes)}, {reference.system} ({reference.name});"
        f" this is {100 * peak / reference.value:.0f} % of it"
        for reference in found
    ]


def _name(document: ResultDocument) -> str:
    if _is_swept(document):
        return document["points"]["sweep"]["name"]
    return document["collective"] or "unnamed collective"


def _is_swept(document: ResultDocument) -> bool:
    return "sweep" in document["points"]


def tool_text(document: ResultDocument) -> str:
    """The program with its versions."""
    tool = document["tool"]
    words = [tool["name"] or "unknown tool", tool["version"]]
    return " ".join(word for word in words if word) + (f", NCCL {tool['nccl_version']}" if tool["nccl_version"] else "")


def transport_text(document: ResultDocument) -> str:
    """What the ranks talked over, in a few words; empty without a log of NCCL."""
    transport = document.get("transport")
    return describe_transport(transport) if transport else ""


def _participants(document: ResultDocument) -> str:
    if not document["ranks"]:
        return "ranks not listed"
    return f"{counted(document['rank_count'], 'rank')} on {counted(document['host_count'], 'host')}"


def counted(number: int, noun: str) -> str:
    """``1 host``, ``2 hosts``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _is_cpu(document: ResultDocument) -> bool:
    return document["tool"]["name"] == "cpu"


def _by_cpu(documents: t.Sequence[ResultDocument]) -> str:
    """What follows a verdict, so that nobody takes it for one on NCCL."""
    count = sum(map(_is_cpu, documents))
    if not count:
        return ""
    # One that printed nothing, since a host was lost, names no program.
    if count < sum(bool(document["tool"]["name"]) for document in documents):
        return f"; {count} of {len(documents)} tests by the CPU program, which does not test NCCL"
    return ", by the CPU program: NCCL was not tested"


def _numbered(documents: t.Iterable[ResultDocument]) -> t.Iterator[tuple[int, ResultDocument]]:
    return enumerate(documents, start=1)


def _number_and_name(index: int, document: ResultDocument) -> str:
    return f"{index}. {_name(document)}"


def _markdown_overview(documents: t.Sequence[ResultDocument]) -> str:
    header = [
        "#",
        "collective",
        "tool",
        "ranks",
        "hosts",
        "peak busbw (GB/s)",
        "at size",
        "average busbw (GB/s)",
        "wrong",
        *(["transport"] if any(map(transport_text, documents)) else []),
        "verdict",
    ]
    lines = []
    for index, document in _numbered(documents):
        summary = document["summary"]
        lines.append(
            [
                str(index),
                _name(document),
                tool_text(document),
                str(document["rank_count"]),
                str(document["host_count"]),
                bandwidth_text(summary["peak_busbw"]),
                "" if summary["peak_size"] is None else format_size(summary["peak_size"]),
                bandwidth_text(summary["avg_busbw"]),
                "not checked" if summary["wrong"] is None else str(summary["wrong"]),
                *([transport_text(document)] if "transport" in header else []),
                f"**{document['verdict']}**",
            ]
        )
    return markdown_table(header, lines, left=("collective", "tool", "transport", "verdict"))


def _markdown_problem(name: str, entry: t.Mapping[str, t.Any]) -> str:
    host = f" on {markdown_plain(entry['host'])}" if entry["host"] else ""
    lines = [f"- Cause: {markdown_plain(entry['cause'])}", f"- Cure: {markdown_plain(entry['cure'])}"]
    if entry["evidence"]:
        lines.append(f"- Seen: {markdown_plain(entry['evidence'])}")
    return f"### {markdown_plain(name)}: {entry['severity']} `{entry['id']}`{host}\n\n" + "\n".join(lines)


def _markdown_test(index: int, document: ResultDocument) -> t.Iterator[str]:
    yield f"## {markdown_plain(_number_and_name(index, document))}"
    common, varying = row_settings(document["rows"])
    transport = transport_text(document)
    described = ", ".join([tool_text(document), _participants(document), *common])
    described += f". Transport: {transport}" if transport else ""
    # A text that begins a line may begin a heading.
    yield f"Program: {markdown_plain(described)}. Verdict: **{document['verdict']}**."
    yield f"{summary_text(document)}." + (f" {CPU_NOTE}" if _is_cpu(document) else "")
    notes = notes_beside_peak(document)
    if notes:
        yield "\n".join(f"- {markdown_plain(line)}" for line in notes)
    soak = document.get("soak")
    if soak and soak["sizes"]:
        yield f"Soak: {markdown_plain(soak_text(document))}."
        lines = [soak_cells(entry, varying) for entry in soak["sizes"]]
        yield markdown_table(["size", *varying, *SOAK_COLUMNS], lines)
        yield "The rows of each cycle are in `results.json`."
    elif document["rows"]:
        header = ["size", *varying]
        for name in PLACEMENTS.values():
            header += [f"{name} time (us)", "algbw (GB/s)", "busbw (GB/s)", "#wrong"]
        yield markdown_table(header, [_cells(row, varying) for row in document["rows"]])
    if document["ranks"]:
        yield "Hosts:"
        yield _hosts_table(document)
    lines = _setting_lines({**document["config"], **document["points"], **document["env"]})
    if lines:
        yield "Settings:"
        yield markdown_table(["setting", "value"], lines, left=("setting", "value"))


def _setting_lines(settings: t.Mapping[str, t.Any]) -> list[list[str]]:
    lines = []
    for name, value in settings.items():
        if isinstance(value, t.Mapping):
            lines += _setting_lines(value)
        elif isinstance(value, (list, tuple)):
            lines.append([name, " ".join(shlex.quote(str(item)) for item in value)])
        elif value is not None:
            lines.append([name, str(value)])
    return lines


def host_text(document: ResultDocument, host: str) -> str:
    """``gpu-1 (g1)`` of a rank's host g1 whose name in the inventory is gpu-1; ``g1`` if both are the same."""
    name = document.get("host_names", {}).get(host.split(".")[0])
    return f"{name} ({host})" if name else host


def _hosts_table(document: ResultDocument) -> str:
    return markdown_table(["host", "ranks", "devices"], _host_lines(document), left=("host", "devices"))


def _host_lines(document: ResultDocument) -> list[list[str]]:
    hosts: dict[str, list[t.Mapping[str, t.Any]]] = {}
    for rank in document["ranks"]:
        hosts.setdefault(rank["host"], []).append(rank)
    lines = []
    for host, members in hosts.items():
        devices = collections.Counter(rank["name"] or "unnamed" for rank in members)
        listing = ", ".join(f"{count} x {name}" for name, count in devices.items())
        lines.append([host_text(document, host), str(len(members)), listing])
    return lines


def markdown_table(header: t.Sequence[str], lines: t.Iterable[t.Sequence[str]], left: t.Container[str] = ()) -> str:
    """A table in Markdown; the columns in ``left`` are aligned to the left."""
    rule = [":---" if name in left else "---:" for name in header]
    return "\n".join("| " + " | ".join(markdown_plain(cell) for cell in line) + " |" for line in [header, rule, *lines])


def bandwidth_text(value: float | None) -> str:
    """Two decimals, as nccl-tests prints them; empty where it is not known."""
    return "" if value is None else f"{value:.2f}"


def _how_to_read() -> str:
    verdicts = "\n".join(f"- **{name}**: {meaning}." for name, meaning in VERDICT_MEANINGS.items())
    return f"""\
## How to read it

- size: the bytes of the operation; 1 KiB is 1024 bytes. GB/s are 10^9 bytes a second.
- algbw: size divided by time. busbw: algbw times a factor of the collective and the number of ranks, so that it can be
  compared with the speed of the slowest link on the way, whatever the number of ranks. Of one rank it means nothing.
- Small sizes show latency: read their time. Large sizes show bandwidth: read their busbw. The average is over all sizes and
  both placements, so it can be compared only between runs of the same sizes.
- out-of-place: the result goes to a buffer of its own; in-place: it replaces the input.
- #wrong: values that differ from the expected; N/A means that they were not checked, which is not 0.

Verdicts:

{verdicts}"""
