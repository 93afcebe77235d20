# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to the collection: it may change in any release.

"""junit.xml: a suite for each collective, a case for each test and for each of its limits."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._results.tables import (
    dips_text,
    soak_text,
    stragglers_text,
    transport_text,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import clean
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report.data import Check, Report, Test

try:
    import junitparser
except ImportError:
    # Then this format is left out, see formats.py.
    junitparser = None


_VALUES = "the values were not checked"
_RULES = "none of the limits that were given could be applied"


def render_junit(report: Report) -> str:
    """The text of the file. It holds no times of the day, so that the same results give the same text."""
    document = junitparser.JUnitXml(name=f"gpufabric.nccl {report.run_id}")
    for collective in report.collectives:
        tests = [test for test in report.tests if test.collective == collective]
        tools = dict.fromkeys(test.document["tool"]["name"] or "unknown" for test in tests)
        # A case that passed is not to be taken for one of NCCL.
        suite = junitparser.TestSuite(f"{collective} by the CPU program, not NCCL" if "cpu" in tools else collective)
        suite.add_property("tool", ", ".join(tools))
        transports = list(dict.fromkeys(filter(None, (transport_text(test.document) for test in tests))))
        if transports:
            suite.add_property("transport", clean("; ".join(transports)))
        for test in tests:
            suite.add_testcase(_test_case(report, test))
            for check in test.checks:
                suite.add_testcase(_check_case(report, test, check))
        document.add_testsuite(suite)
    missing = report.sweep.get("missing")
    if missing:
        suite = junitparser.TestSuite("points of the sweep that were not run")
        for point in missing:
            case = junitparser.TestCase(clean(str(point)), f"gpufabric.nccl.{report.run_id}.sweep", 0.0)
            case.result = [junitparser.Skipped("the point was not run", "not-run")]
            suite.add_testcase(case)
        document.add_testsuite(suite)
    text = document.tostring()
    # Bytes with a declaration in some versions of the library.
    body = text.decode("utf-8") if isinstance(text, bytes) else text
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + body[body.index("<testsuites") :].rstrip() + "\n"


def _test_case(report: Report, test: Test) -> t.Any:
    case = _case(report, test, test.name)
    case.time = round(float(test.document["points"].get("duration_s") or 0), 3)
    first = clean(test.problems[0]["cause"]) if test.problems else f"the verdict is {test.verdict}"
    if test.verdict == "fail":
        case.result = [_filled(junitparser.Failure(first, "fail"), _told(test))]
    elif test.verdict == "incomplete":
        case.result = [_filled(junitparser.Error(first, "incomplete"), _told(test))]
    elif test.verdict == "unchecked":
        case.result = [
            junitparser.Skipped(_VALUES if test.document["summary"]["wrong"] is None else _RULES, "unchecked")
        ]
    summary = test.document["summary"]
    transport = clean(transport_text(test.document))
    stragglers = clean(stragglers_text(test.document))
    soak = clean("; dips: ".join(filter(None, (soak_text(test.document), dips_text(test.document)))))
    at = "" if summary["peak_size"] is None else f" at {summary['peak_size']} bytes"
    case.system_out = (
        f"peak busbw: {_bandwidth(summary['peak_busbw'])}{at}\n"
        f"average busbw: {_bandwidth(summary['avg_busbw'])}\n"
        f"wrong values: {'not checked' if summary['wrong'] is None else summary['wrong']}\n"
        + (f"transport: {transport}\n" if transport else "")
        + (f"{stragglers}\n" if stragglers else "")
        + (f"soak: {soak}\n" if soak else "")
        + (f"command: {test.command}\n" if test.command else "")
        # A case that passed has no other place for its warnings.
        + (f"\n{_told(test)}\n" if test.problems and test.verdict in ("pass", "unchecked") else "")
    )
    return case


def _bandwidth(value: float | None) -> str:
    return "not known" if value is None else f"{value} GB/s"


def _check_case(report: Report, test: Test, check: Check) -> t.Any:
    case = _case(report, test, f"{test.name}: {check.name}")
    case.time = 0.0
    if check.passed is None:
        case.result = [junitparser.Skipped(check.text, "not-judged")]
    elif not check.passed:
        told = f"{check.text}\nvalue: {check.value_text}\nlimit: {check.limit_text}\nfrom: {check.source}"
        case.result = [_filled(junitparser.Failure(check.text, "limit"), told)]
    return case


def _case(report: Report, test: Test, name: str) -> t.Any:
    # Two tests of one collective may be alike, and viewers merge cases of the same name.
    point = test.point or test.number
    return junitparser.TestCase(f"{name} [{point}]", f"gpufabric.nccl.{report.run_id}.{test.collective}")


def _filled(result: t.Any, text: str) -> t.Any:
    result.text = text
    return result


def _told(test: Test) -> str:
    parts = []
    for entry in test.problems:
        host = f" on {entry['host']}" if entry["host"] else ""
        lines = [f"{entry['severity']} {entry['id']}{host}", f"Cause: {entry['cause']}", f"Cure: {entry['cure']}"]
        if entry["evidence"]:
            lines.append(f"Seen: {entry['evidence']}")
        parts.append("\n".join(lines))
    return clean("\n\n".join(parts))
