# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each format by its own reader, and all of them against each other."""

from __future__ import annotations

import copy
import csv
import html.parser
import io
import json
import pathlib
import re
import sys
from xml.etree import ElementTree

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark import isolation_search as isolate
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import (
    PLACEMENTS,
    VERDICTS,
    parse_results,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.soak import find_soak
from ansible_collections.gpufabric.nccl.plugins.module_utils._results import tables as text_report
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.baseline import make_baseline
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.sweep_analysis import sweep_results
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.verdict import Judge
from ansible_collections.gpufabric.nccl.plugins.module_utils._units import format_size
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report import charts, page
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report.data import (
    BaselineCurve,
    Check,
    Curve,
    Pairs,
    clean,
    make_report,
)
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report.formats import FORMATS, render

jsonschema = pytest.importorskip("jsonschema")
openmetrics = pytest.importorskip("prometheus_client.openmetrics.parser")
textfile = pytest.importorskip("prometheus_client.parser")
xmlschema = pytest.importorskip("xmlschema")
pytest.importorskip("junitparser")
colors = pytest.importorskip("matplotlib.colors")
figure = pytest.importorskip("matplotlib.figure")

FIXTURES = pathlib.Path(__file__).parents[2] / "fixtures"
TEXT = (FIXTURES / "all_reduce_perf.txt").read_text(encoding="utf-8")
SCHEMAS = pathlib.Path(__file__).parents[4] / "docs" / "schemas"
JUNIT = xmlschema.XMLSchema(str(FIXTURES / "report" / "junit-10.xsd"))


def parsed(text=TEXT):
    return parse_results(text.splitlines())


def rendered(report):
    texts, missing = render(report, list(FORMATS))
    assert missing == "" and set(texts) == set(FORMATS)
    return texts


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def check_schema(name, value):
    jsonschema.Draft202012Validator(json.loads((SCHEMAS / name).read_text())).validate(value)


def samples_of(text):
    """All samples by name and labels; each label set once, as both readers of the text say."""
    families = list(openmetrics.text_string_to_metric_families(text))
    assert {family.type for family in families} == {"gauge"}
    samples = [
        (item.name, tuple(sorted(item.labels.items())), item.value) for family in families for item in family.samples
    ]
    plain = [
        (item.name, tuple(sorted(item.labels.items())), item.value)
        for family in textfile.text_string_to_metric_families(text)
        for item in family.samples
    ]
    # node_exporter and the Pushgateway read the older format.
    assert samples == plain and len({item[:2] for item in samples}) == len(samples)
    return {(name, labels): value for name, labels, value in samples}


class Page(html.parser.HTMLParser):
    """The cells of all tables, the text, and the names of all elements."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.names, self.texts, self.attributes = [], [], [], []
        self.in_cell = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag == "tbody":
            self.tables.append([])
        elif tag == "tr" and self.tables:
            self.tables[-1].append([])
        elif tag == "td":
            self.tables[-1][-1].append("")
            self.in_cell = True

    def handle_endtag(self, tag):
        self.in_cell = self.in_cell and tag != "td"

    def handle_data(self, data):
        self.texts.append(data)
        if self.in_cell:
            self.tables[-1][-1][-1] += data.strip()


@pytest.fixture(scope="module")
def whole(whole_report):
    return rendered(whole_report)


def test_a_test_whose_values_were_not_checked_has_no_wrong_values_either():
    unchecked = parsed()
    unchecked[0]["summary"].update(wrong=None, checked=False)
    page = render(make_report([*parsed(), *unchecked]), ["html"])[0]["html"]
    assert "<dt>Wrong values</dt><dd>0, not checked in 1 of 2 tests</dd>" in page
    (overview,) = [table for table in Page(page).tables if any("not checked" in line for line in table)]
    assert [line[6] for line in overview if line] == ["0", "not checked"]
    # By which the script knows what is to come last.
    assert '<td class="n" data-sort="">not checked</td>' in page


def test_the_same_numbers_everywhere(whole, whole_report):
    documents = json.loads(whole["json"])["results"]
    assert len(documents) == 25
    rows, samples, page = rows_of(whole["csv"]), samples_of(whole["openmetrics"]), Page(whole["html"])
    cells = {tuple(line) for table in page.tables for line in table}
    markdown = set(whole["markdown"].splitlines())
    expected = iter(rows)
    for number, document in enumerate(documents, start=1):
        for row in document["rows"]:
            line = [format_size(row["size"])]
            for placement in ("out_of_place", "in_place"):
                half, item = row[placement], next(expected)
                assert (int(item["test"]), int(item["size"]), item["placement"]) == (number, row["size"], placement)
                assert float(item["time_us"]) == half["time_us"] and float(item["algbw"]) == half["algbw"]
                assert float(item["busbw"]) == half["busbw"] and int(item["wrong"]) == half["wrong"]
                labels = (
                    *(("collective", document["collective"]), ("cycle", "0"), ("placement", placement)),
                    *(("point", document["points"].get("sweep", {}).get("id", "")), ("redop", "sum"), ("root", "-1")),
                    *(("run", "nightly-7"), ("size_bytes", str(row["size"])), ("test", str(number))),
                    *(("tool", "nccl-tests"), ("type", "float")),
                )
                assert samples["gpufabric_nccl_busbw_bytes_per_second", labels] == round(half["busbw"] * 1e9)
                assert samples["gpufabric_nccl_algbw_bytes_per_second", labels] == round(half["algbw"] * 1e9)
                assert samples["gpufabric_nccl_time_seconds", labels] == pytest.approx(half["time_us"] / 1e6, rel=1e-9)
                assert samples["gpufabric_nccl_wrong_values", labels] == half["wrong"]
                time = half["time_us"]
                text = f"{time:.2f}" if time < 1000 else f"{time:.1f}" if time < 10000 else f"{time:.0f}"
                line += [text, f"{half['algbw']:.2f}", f"{half['busbw']:.2f}", str(half["wrong"])]
            assert tuple(line) in cells
            # Points of a sweep are told there together, not in full.
            assert (f"| {' | '.join(line)} |" in markdown) == ("sweep" not in document["points"])
    assert next(expected, None) is None
    cases = JUNIT.decode(whole["junit"])["testsuite"]
    told = [case["system-out"][0] for suite in cases for case in suite["testcase"] if "system-out" in case]
    peaks = sorted(f"{document['summary']['peak_busbw']} GB/s" for document in documents)
    assert sorted(re.search("peak busbw: (.*) at", text)[1] for text in told) == peaks


def test_numbers_of_the_page_are_sorted_by_what_they_show(whole):
    cells = re.findall(r'<td class="n" data-sort="(-?[\d.e+-]+)">([+-]?[\d.]+)(?: (\S+))?</td>', whole["html"])
    assert {unit for _key, _number, unit in cells} >= {"", "MiB", "GB/s"} and len(cells) > 1000
    factors = {unit: 1024**power for power, unit in enumerate(("B", "KiB", "MiB", "GiB"))}
    for key, number, unit in cells:
        assert float(key) == pytest.approx(float(number) * factors.get(unit, 1), rel=0.01, abs=0.06)


@pytest.fixture
def unlike():
    """Three tests of three programs with a verdict each, so that what is of one shows if it is told of another, or of the run."""
    passed, failed, unchecked = (parsed()[0] for _number in range(3))
    failed.update(verdict="fail", lost_rows=3, host_count=1, rank_count=8)
    failed["tool"]["name"], unchecked["tool"]["name"] = "rccl-tests", "cpu"
    problem = {"id": "wrong-values", "severity": "error", "host": None, "cause": "A", "cure": "B", "evidence": ""}
    failed["problems"] = [problem, *({**problem, "id": word, "severity": "warning"} for word in ("x", "y"))]
    failed["summary"].update(avg_busbw=80.5, peak_busbw=90.25, wrong=7)
    unchecked.update(verdict="unchecked")
    unchecked["summary"].update(avg_busbw=None, wrong=None, checked=False)
    return make_report([passed, failed, unchecked])


def test_a_test_is_named_by_its_ranks_and_hosts(unlike):
    whole = "all_reduce float sum, 16 ranks on 2 hosts"
    assert [test.name for test in unlike.tests] == [whole, "all_reduce float sum, 8 ranks on 1 host", whole]


def test_numbers_of_each_test_in_the_csv_and_for_a_workflow(unlike):
    names = ("test", "tool", "verdict", "hosts", "ranks")
    rows = rows_of(render(unlike, ["csv"])[0]["csv"])
    assert list(dict.fromkeys(tuple(row[name] for name in names) for row in rows)) == [
        ("1", "nccl-tests", "pass", "2", "16"),
        ("2", "rccl-tests", "fail", "1", "8"),
        ("3", "cpu", "unchecked", "2", "16"),
    ]
    assert [(entry["verdict"], entry["wrong"]) for entry in unlike.numbers()] == [
        ("pass", 0),
        ("fail", 7),
        ("unchecked", None),
    ]


def test_gauges_of_each_test_and_of_the_run(unlike):
    found = {}
    for (name, labels), value in samples_of(render(unlike, ["openmetrics"])[0]["openmetrics"]).items():
        of = dict(labels)
        key = tuple(of[label] for label in ("test", "tool", "verdict", "severity") if label in of)
        found.setdefault(name.removeprefix("gpufabric_nccl_"), {})[key] = value
    first, second, third = tests = [("1", "nccl-tests"), ("2", "rccl-tests"), ("3", "cpu")]
    assert found["verdict"] == {("nccl-tests,rccl-tests,cpu", verdict): verdict == "fail" for verdict in VERDICTS}
    assert found["test_verdict"] == {
        (*test, verdict): verdict == own
        for test, own in zip(tests, ("pass", "fail", "unchecked"))
        for verdict in VERDICTS
    }
    assert found["hosts"] == {first: 2, second: 1, third: 2}
    assert found["ranks"] == {first: 16, second: 8, third: 16}
    assert found["lost_rows"] == {first: 0, second: 3, third: 0}
    counts = {(*second, "error"): 1, (*second, "warning"): 2}
    assert found["problems"] == {
        (*test, word): counts.get((*test, word), 0) for test in tests for word in ("error", "warning")
    }
    # The program of the third printed none.
    assert found["average_busbw_bytes_per_second"] == {first: 124.442e9, second: 80.5e9}


def test_numbers_of_each_test_in_junit_and_markdown(unlike):
    texts = render(unlike, ["junit", "markdown"])[0]
    (suite,) = ElementTree.fromstring(texts["junit"].encode())
    assert suite.find("properties/property").get("value") == "nccl-tests, rccl-tests, cpu"
    told = [case.find("system-out").text.rstrip("\n") for case in suite.iter("testcase")]
    assert told == [
        "peak busbw: 346.971 GB/s at 1073741824 bytes\naverage busbw: 124.442 GB/s\nwrong values: 0",
        "peak busbw: 90.25 GB/s at 1073741824 bytes\naverage busbw: 80.5 GB/s\nwrong values: 7",
        "peak busbw: 346.971 GB/s at 1073741824 bytes\naverage busbw: not known\nwrong values: not checked",
    ]
    overview = [line.split(" | ") for line in texts["markdown"].splitlines() if re.match(r"\| \d \| all", line)]
    assert [cells[3:] for cells in overview] == [
        ["16", "2", "346.97", "1 GiB", "124.44", "0", "**pass** |"],
        ["8", "1", "90.25", "1 GiB", "80.50", "7", "**fail** |"],
        ["16", "2", "346.97", "1 GiB", "", "not checked", "**unchecked** |"],
    ]


def test_the_columns_of_the_report_in_markdown(whole):
    tables = {
        "## Summary": "# | collective | tool | ranks | hosts | peak busbw (GB/s) | at size | average busbw (GB/s) | wrong | verdict",
        "### Hosts of the sweep": "host | ranks | devices",
        "Hosts:": "host | ranks | devices",
        "Settings:": "setting | value",
        "## Limits": "verdict | test | what | value | limit | by % | from",
        "## Good and bad hosts": "host | verdict | where | evidence",
        "The slowest of 66:": "host | and host | busbw (GB/s) | from the median %",
    }
    texts = (
        "collective",
        "tool",
        "verdict",
        "host",
        "and host",
        "devices",
        "setting",
        "value",
        "test",
        "what",
        "from",
        "where",
        "evidence",
    )
    for heading, columns in tables.items():
        names = columns.split(" | ")
        # The values of limits are numbers.
        left = [name for name in names if name in texts and (name, heading) != ("value", "## Limits")]
        rule = " | ".join(":---" if name in left else "---:" for name in names)
        assert f"\n\n{heading}\n\n| {columns} |\n| {rule} |\n" in whole["markdown"], heading
    assert "leaves out what is not good:\n\n    all:!gpu-5\n" in whole["markdown"]
    good = {"nodes": [{"node": "gpu-1", "verdict": "good"}]}
    assert "leaves out" not in render(make_report(parsed(), isolation=good), ["markdown"])[0]["markdown"]


def test_a_failed_case_of_junit_tells_each_problem_with_its_host(whole):
    (told,) = [text for text in re.findall(r"<failure[^>]*>([^<]*)<", whole["junit"]) if "Cause: " in text]
    assert told.startswith(
        "error wrong-values on g2\nCause: The collective delivered wrong values.\nCure: Run the test on "
    )
    assert "\nSeen: 3 at size 1048576 out-of-place\n\nwarning output-cut\nCause: The output ends" in told


def test_the_page_has_the_peak_the_outcomes_of_a_sweep_and_the_slowest_pairs(whole, whole_report):
    peak = max(test.document["summary"]["peak_busbw"] for test in whole_report.tests)
    assert re.search(rf"<dt>Peak busbw</dt><dd>{peak:.2f} GB/s, all_\w+ at \d GiB[;<]", whole["html"])
    tables = Page(whole["html"]).tables
    outcomes = {
        (line[0], line[3]) for table in tables for line in table if len(line) == 8 and line[0].startswith(("n", "NCCL"))
    }
    # By 30 %, 1 % and -22 % of the bandwidth of large sizes, and hardly of the time of small ones.
    assert {
        *(("nothing set (default)", "the default"), ("NCCL_ALGO=NVLS", "faster"), ("NCCL_ALGO=Tree", "slower")),
        ("NCCL_ALGO=Ring", "within noise"),
    } <= outcomes
    assert not {("NCCL_ALGO=NVLS", "slower"), ("NCCL_ALGO=Tree", "faster")} & outcomes
    (pairs,) = [list(filter(None, table)) for table in tables if any("failed" in line for line in table)]
    assert len(pairs) == 21 and [line[2] for line in pairs[:2]] == ["failed", "11.20"]
    assert "nccl-tests 2.17.6, NCCL 2.28.7, float, sum, busbw: peak" in whole["html"]
    assert "<h3>What each factor does, all others held</h3>" in whole["html"]
    assert re.search(
        r"<p>66 pairs of 12 hosts\. Their median is 47\.\d\d GB/s: red is slower, blue faster\. 1 failed", whole["html"]
    )
    assert whole["html"].count("&middot; test 25. all_reduce</p>") == 2


def test_the_page_has_what_all_tests_share_and_between_what_they_are(unlike):
    text = render(unlike, ["html"])[0]["html"]
    assert "<dt>Hosts</dt><dd>1 to 2</dd>" in text and "<dt>Ranks</dt><dd>8 to 16</dd>" in text
    one = render(make_report(parsed()), ["html"])[0]["html"]
    assert "<dt>Hosts</dt><dd>2</dd>" in one and "<dt>Ranks</dt><dd>16</dd>" in one
    shared = page._shared_settings(unlike)
    # Two of the three are of other programs.
    assert shared["iters"] == "20" and "program" not in shared


@pytest.mark.parametrize(
    ("points", "time", "command"),
    [
        (
            {"argv": ["all_reduce_perf", "-b", "1 K"], "duration_s": 12.3456},
            "12.346",
            "command: all_reduce_perf -b '1 K'",
        ),
        ({}, "0.0", None),
    ],
)
def test_a_case_of_junit_has_its_time_its_command_and_its_transport(points, time, command):
    (document,) = parsed(TEXT + LOG.format(host="g1"))
    document.update(points=points, verdict="fail", problems=[])
    (case,) = ElementTree.fromstring(render(make_report([document]), ["junit"])[0]["junit"].encode()).iter("testcase")
    assert case.get("time") == time and case.find("failure").get("message") == "the verdict is fail"
    lines = case.find("system-out").text.splitlines()
    assert f"transport: {text_report.transport_text(document)}" in lines
    assert [line for line in lines if line.startswith("command")] == [command] * bool(command)


def test_json_follows_its_schema_and_has_what_is_beside_the_tests(whole, swept, isolation):
    value = json.loads(whole["json"])
    check_schema("results-v1.schema.json", value)
    assert value["verdict"] == "fail"
    assert value["sweep"] == json.loads(json.dumps(swept.results)) and value["isolation"] == isolation


RULES = {
    "rules": [
        {"name": "Network", "ceiling_percent": 95, "min_bytes": "1M"},
        {"name": "Peak", "limit": 500},
        {"name": "Latency", "limit": 100, "size": "1K", "metric": "out_of_place.time_us"},
        {"name": "No such size", "limit": 1, "size": "3"},
        {"name": "Average", "limit": 1, "metric": "avg_busbw"},
        {"name": "Dips", "dip_percent": 50},
        {"name": "Cliffs", "cliff_factor": 100},
    ],
    "topology": {"nic_gbps": 400, "rails": 8},
}


def by(entry):
    """What stands under "by %": the share of the limit, as in the message; of a time its percent is that of a speed."""
    if entry["unit"] == "us" and entry["percent"] is not None:
        return f"{100 * (1 - entry['value'] / entry['limit']):+.1f}"
    return "" if entry["percent"] is None else f"{entry['percent']:+.1f}"


def test_rules_are_told_in_every_format_as_they_were_judged():
    jmespath = pytest.importorskip("jmespath")
    assertions = [{"that": "rank_count == `64`", "msg": "64 ranks were bought", "name": "ranks"}]
    (document,) = [
        Judge(RULES, assertions=assertions, compiled=jmespath.compile).judge(document) for document in parsed()
    ]
    report = make_report([document])
    texts = rendered(report)
    check_schema("results-v1.schema.json", json.loads(texts["json"]))
    entries = json.loads(texts["json"])["results"][0]["verdicts"]
    assert [entry["passed"] for entry in entries] == [True, False, False, True, None, True, True, None, False]
    page, samples = Page(texts["html"]), samples_of(texts["openmetrics"])
    labels = {dict(labels)["rule"]: labels for name, labels in samples if name == "gpufabric_nccl_rule_kept"}
    cases = {
        case.get("name").split(": ", 1)[1].removesuffix(" [1]"): case
        for case in ElementTree.fromstring(texts["junit"].encode()).findall("testsuite/testcase")[1:]
    }
    table = [line for line in page.tables[0] if line]
    for line, entry in zip(table, entries, strict=True):
        rule = entry["rule"]
        assert line[0] == {True: "pass", False: "fail", None: "unchecked"}[entry["passed"]]
        assert rule in line[1] or entry["message"] in line[1]
        assert line[6] == entry["source"] and bool(line[3]) == (entry["value"] is not None)
        assert line[5] == by(entry)
        case = cases[rule]
        if entry["passed"] is None:
            assert rule not in labels and case.find("skipped").get("message") == entry["message"]
            continue
        assert samples["gpufabric_nccl_rule_kept", labels[rule]] == int(entry["passed"])
        margin = samples.get(("gpufabric_nccl_rule_margin_ratio", labels[rule]))
        assert margin == (None if entry["percent"] is None else pytest.approx(entry["percent"] / 100))
        assert (case.find("failure") is None) == entry["passed"]
        if not entry["passed"]:
            # By what limit, from where, and by how much: in words for people, too.
            assert case.find("failure").get("message") == entry["message"]
            assert any(entry["message"] in text for text in page.texts)
            assert entry["message"] in texts["markdown"].replace("\\", "")
    limits = texts["markdown"].partition("## Limits")[2].replace("\\", "").strip().splitlines()
    for line, entry in zip(limits[2:], entries):
        _begin, verdict, _test, _what, value, limit, percent, source, *_end = (cell.strip() for cell in line.split("|"))
        assert source == entry["source"] and bool(value) == (entry["value"] is not None)
        assert verdict == {True: "pass", False: "**fail**", None: "unchecked"}[entry["passed"]]
        assert percent == by(entry)
        if percent:
            assert (value, limit) == tuple(f"{entry[name]:.2f} {entry['unit']}" for name in ("value", "limit"))
    missed = entries[1]
    assert (
        missed["message"].startswith("Network: ")
        and f"{abs(missed['percent']):.3g} % below 380 GB/s" in missed["message"]
    )
    # Drawn are limits of bus bandwidth, over the sizes that they are for.
    assert [(check.name, check.limit) for check in report.limits("all_reduce")] == [("Network", 380.0), ("Peak", 500.0)]
    told = text_report.results_table([document])
    for entry in entries[1:]:
        word = {True: "KEPT ", None: "UNCHECKED ", False: "limit-missed: "}[entry["passed"]]
        word = "assertion-failed: " if entry["rule"] == "ranks" else word
        assert (word + entry["message"])[:60].lower() in told.lower()


def test_what_no_rule_could_be_applied_to_is_not_said_to_have_wrong_values():
    (document,) = [Judge({"rules": [{"limit": 1, "size": "3"}]}).judge(document) for document in parsed()]
    texts = rendered(make_report([document]))
    assert 'message="none of the limits that were given could be applied"' in texts["junit"]


def test_what_a_search_found_is_of_the_published_schema():
    state = isolate.run(
        isolate.new_state([f"g{number}" for number in range(9)], domains={f"g{n}": f"rack{n % 2}" for n in range(9)}),
        lambda group: 50.0 if "g3" in group else None if "g5" in group else 100.0,
    )
    found = isolate.verdict(state)
    check_schema("isolation-v1.schema.json", json.loads(json.dumps(found)))
    assert {entry["verdict"] for entry in found["nodes"]} >= {"good", "bad"}
    rendered(make_report(parsed(), isolation=found))


def test_a_result_of_the_cpu_program_is_marked_in_every_format():
    texts = rendered(make_report(parsed((FIXTURES / "alltoall_cpu.txt").read_text(encoding="utf-8"))))
    assert {row["tool"] for row in rows_of(texts["csv"])} == {"cpu"}
    assert "cpu" in json.loads(texts["json"])["results"][0]["tool"].values()
    assert text_report.CPU_NOTE in "".join(Page(texts["html"]).texts) and text_report.CPU_NOTE in texts["markdown"]
    suites = ElementTree.fromstring(texts["junit"]).iter("testsuite")
    assert [suite.get("name") for suite in suites] == ["alltoall by the CPU program, not NCCL"]
    tools = {dict(labels).get("tool") for _name, labels in samples_of(texts["openmetrics"])}
    assert "cpu" in tools and tools <= {"cpu", None}


@pytest.mark.parametrize(
    "name", ["2.17-run-cycles.txt", "rccl-in-place-9-columns.txt", "2.17-cputime.txt", "json-3-replay-nan.json"]
)
def test_other_outputs(name):
    """Repeated sizes, one placement only, times of another kind, values that are no numbers."""
    text = (FIXTURES / "nccl_tests" / name).read_text(encoding="utf-8")
    report = make_report(parse_results(text.splitlines()))
    texts = rendered(report)
    check_schema("results-v1.schema.json", json.loads(texts["json"]))
    rows = rows_of(texts["csv"])
    assert len(rows) == sum(len(test.measurements) for test in report.tests) > 0
    for row in rows:
        check_schema("results-csv-v1.schema.json", row)
    samples_of(texts["openmetrics"])
    JUNIT.validate(texts["junit"])


def test_warnings_of_a_test_that_passed_are_in_every_report():
    said = "g2:1:1 [0] a.cc:1 (f) NCCL WARN NET/IB : mlx5_3:1 GID table changed"
    texts = rendered(make_report(parsed(f"{TEXT}{said}\n")))
    check_schema("results-v1.schema.json", json.loads(texts["json"]))
    assert json.loads(texts["json"])["verdict"] == "pass"
    assert json.loads(texts["json"])["results"][0]["problems"][0]["severity"] == "warning"
    (case,) = ElementTree.fromstring(texts["junit"].encode()).findall("testsuite/testcase")
    assert [child.tag for child in case] == ["system-out"]
    assert "warning rdma-port-flapped on g2\nCause: The RDMA port mlx5_3:1 went down" in case.find("system-out").text
    for name in ("markdown", "html"):
        assert "The RDMA port mlx5_3:1 went down and came back" in texts[name].replace("\\", ""), name
    labels = [dict(labels) for name, labels in samples_of(texts["openmetrics"]) if name == "gpufabric_nccl_problems"]
    assert {item["severity"] for item in labels} == {"error", "warning"}


def test_csv_is_tidy(whole):
    rows = rows_of(whole["csv"])
    for row in rows:
        check_schema("results-csv-v1.schema.json", row)
    swept = [row for row in rows if row["point"]]
    assert {row["env.NCCL_ALGO"] for row in swept} == {"", "Ring", "Tree", "NVLS"}
    assert {row["repeat"] for row in swept} == {"1", "2", "3"}
    assert {(row["run"], row["hosts"], row["ranks"]) for row in rows} == {("nightly-7", "2", "16")}


def test_a_value_that_was_not_checked_is_empty_and_not_0():
    lines = [re.sub(r" 0(?= |$)", " N/A", line) if re.match(r" +\d", line) else line for line in TEXT.splitlines()]
    report = make_report(parse_results(lines))
    texts = rendered(report)
    assert {row["wrong"] for row in rows_of(texts["csv"])} == {""}
    assert not any(name == "gpufabric_nccl_wrong_values" for name, labels in samples_of(texts["openmetrics"]))
    assert report.verdict == "unchecked" and "not checked" in texts["html"]
    assert JUNIT.decode(texts["junit"])["testsuite"][0]["@skipped"] == "1"
    assert 'message="the values were not checked"' in texts["junit"]


def test_tests_that_printed_nothing_are_by_no_other_program():
    """A worker that was lost in mid-sweep: all of the run was by the CPU program."""
    (document,) = parsed()
    cpu = {**document, "tool": {**document["tool"], "name": "cpu"}}
    lost = {**document, "tool": {"name": None, "version": None, "nccl_version": None}, "rows": [], "verdict": "fail"}
    labels = [
        dict(labels)["tool"]
        for name, labels in samples_of(render(make_report([cpu, lost]), ["openmetrics"])[0]["openmetrics"])
        if name == "gpufabric_nccl_verdict"
    ]
    assert labels and set(labels) == {"cpu"}


def test_junit(whole):
    suites = JUNIT.decode(whole["junit"])["testsuite"]
    assert [(suite["@name"], suite["@tests"], suite["@failures"], suite["@errors"]) for suite in suites] == [
        ("all_reduce", "15", "2", "0"),
        ("all_gather", "12", "0", "0"),
    ]
    cases = ElementTree.fromstring(whole["junit"].encode()).findall("testsuite/testcase")
    assert len({(case.get("classname"), case.get("name")) for case in cases}) == 27
    test, limit = [case.find("failure") for case in cases if case.find("failure") is not None]
    assert test.get("message") == "The collective delivered wrong values."
    assert (
        "error wrong-values on g2\nCause: The collective delivered wrong values.\nCure: Run the test on each"
        in test.text
    )
    assert limit.get("message") == "busbw at 1 GiB is below 370 GB/s" and "limit: 370.00 GB/s" in limit.text


def test_junit_tells_the_points_that_were_not_run(swept):
    measured, planned = swept.documents[:-2], swept.points
    text = render(make_report(measured, "gpu-a", sweep=sweep_results(measured, planned)), ["junit"])[0]["junit"]
    JUNIT.validate(text)
    cases = ElementTree.fromstring(text.encode()).findall(
        "testsuite/testcase/skipped[@message='the point was not run']/.."
    )
    assert [case.get("name") for case in cases] == [point["id"] for point in planned[-2:]]
    assert {case.get("classname") for case in cases} == {"gpufabric.nccl.gpu-a.sweep"}


def test_junit_tells_an_output_that_is_cut_as_an_error():
    text = rendered(make_report(parsed(TEXT[: TEXT.index("# Out of bounds")])))["junit"]
    (suite,) = JUNIT.decode(text)["testsuite"]
    assert (suite["@failures"], suite["@errors"]) == ("0", "1")
    assert "Cure: Read the end of the output" in text


def test_markdown_has_limits_sweep_and_hosts(whole, isolation):
    lines = whole["markdown"].splitlines()
    heads = [line for line in lines if line.startswith("## ") and not line[3:4].isdigit()]
    assert heads == [
        *("## Sweep", "## Summary", "## Problems", "## Limits", "## Good and bad hosts", "## Pairs of hosts"),
        "## How to read it",
    ]
    assert "| gpu-2 | gpu-5 | 11.20 | -76.5 |" in lines and "    all:!gpu-5" in lines
    assert "| gpu-5 | bad | between | with gpu-2: 11.2 of 47.6 GB/s |" in lines
    (failed,) = [pair for pair in isolation["pairs"] if pair["busbw"] is None]
    assert f"| {failed['a']} | {failed['b']} | failed |  |" in lines


def test_html_says_all_there_is(whole):
    page = Page(whole["html"])
    text = " ".join(" ".join(page.texts).split())
    for words in (
        *("Fail", "Of 25 tests: 1 failed, 24 passed.", "The collective delivered wrong values.", "Limits", "Sweep"),
        *(
            "NCCL_ALGO=NVLS",
            "Good and bad hosts",
            "The slowest pairs",
            "How to read it",
            "limit 370.00 GB/s",
            "baseline",
        ),
        *(
            "/opt/nccl-tests/build/all_reduce_perf -b 8 -e 8G -f 2 -g 1",
            "8 x NVIDIA H100 80GB HBM3",
            "2.17.6",
            "Written by gpufabric.nccl 0.",
        ),
    ):
        assert words in text
    assert "A pattern for --limit that leaves out what is not good: all:!gpu-5" in text
    # Two collectives, and the pairs, each for a desk and for a phone.
    assert page.names.count("svg") == 6
    assert text.index("Problems and cures") < text.index("Bus bandwidth over size") < text.index("Provenance")


def test_colours_of_the_page_say_what_its_words_say(whole):
    html = whole["html"]
    assert '<section class="banner is-fail" aria-label="Verdict">' in html
    assert '<section class="banner is-pass" aria-label="Verdict">' in rendered(make_report(parsed()))["html"]
    tags = set(re.findall(r'<span class="tag is-([a-z]+)">([^<]*)</span>', html))
    tones = {"good": "pass", "bad": "fail", "unreachable": "fail", "suspect": "incomplete"}
    assert {"pass", "fail", "good", "bad", "error"} <= {word for _tone, word in tags}
    assert [(tone, word) for tone, word in tags if tone != tones.get(word, word)] == []
    cards = re.findall(r'<article class="card problem is-(\w+)">.*?<span class="tag is-(\w+)">', html, re.DOTALL)
    assert cards and all(card == severity for card, severity in cards)
    gains = re.findall(r'title="([+-])[0-9.]+" style="--key: var\(--(\w+)\)"', html)
    assert set(gains) == {("+", "pass"), ("-", "fail")}


def test_the_page_names_the_host_of_a_problem():
    (document,) = parsed()
    cause = {"severity": "error", "cause": "C", "cure": "Do that.", "evidence": "seen so"}
    problems = [{**cause, "id": "port-down", "host": "gpu-5"}, {**cause, "id": "run-failed", "host": None}]
    html = rendered(make_report([{**document, "problems": problems, "verdict": "fail"}]))["html"]
    text = " ".join(" ".join(Page(html).texts).split())
    assert "error port-down on gpu-5 · test 1. all_reduce What to do Do that. Seen seen so" in text
    assert "error run-failed · test 1. all_reduce What to do" in text


def test_what_was_not_checked_is_no_zero_in_the_rows_of_the_page():
    (document,) = parsed()
    row = document["rows"][0]
    row["out_of_place"]["wrong"], row["in_place"]["wrong"] = None, 0
    (cells,) = [
        line
        for table in Page(rendered(make_report([document]))["html"]).tables
        for line in table
        if len(line) == 9 and line[0] == format_size(row["size"])
    ]
    assert (cells[4], cells[8]) == ("N/A", "0")
    measured = [f"{row[half][name]:.2f}" for half in PLACEMENTS for name in ("time_us", "algbw", "busbw")]
    assert cells[1:4] + cells[5:8] == measured


def test_hosts_are_told_with_the_most_ranks_that_they_had():
    (document,) = parsed()
    few = {**document, "ranks": document["ranks"][::4]}
    for documents in ([few, document], [document, few]):
        tables = Page(rendered(make_report(documents))["html"]).tables
        hosts = [line[1:] for table in tables for line in table if len(line) == 4 and " x " in line[1]]
        assert hosts == [["8 x NVIDIA H100 80GB HBM3", "8", "2"]] * 2


def test_what_became_of_hosts_has_its_colour_and_the_worst_come_first():
    verdicts = ("good", "suspect", "unreachable", "good", "bad")
    nodes = [
        {"node": f"g{number}", "verdict": verdict, "where": None, "evidence": ["so"]}
        for number, verdict in enumerate(verdicts)
    ]
    html = rendered(make_report(parsed(), isolation={"nodes": nodes, "pairs": []}))["html"]
    section = html.partition('<section id="hosts">')[2].partition("</section>")[0]
    told = re.findall(r'<span class="tag is-(\w+)">(\w+)</span></td>\s*<td>(\w+)</td>', section)
    assert told == [
        ("fail", "unreachable", "g2"),
        ("fail", "bad", "g4"),
        ("incomplete", "suspect", "g1"),
        ("pass", "good", "g0"),
        ("pass", "good", "g3"),
    ]


def test_a_bar_begins_in_the_middle_and_is_as_long_as_the_gain(whole):
    bars = re.findall(r'title="([+-][0-9.]+)"[^>]*><i style="left: ([0-9.]+)%; width: ([0-9.]+)%"', whole["html"])
    assert {sign[0] for sign, _left, _width in bars} == {"+", "-"}
    for gain, left, width in (map(float, one) for one in bars):
        assert left + (width if gain < 0 else 0) == pytest.approx(50, abs=0.02)
    assert max(float(width) for _gain, _left, width in bars) == pytest.approx(50)


def test_only_the_default_of_a_sweep_is_called_so_and_failed_repeats_are_told(swept):
    setting = {
        **dict.fromkeys(("gain_percent", "noise_percent", "beyond_noise", "time_us", "busbw")),
        "why": "it is not there",
        "env": {"NCCL_ALGO": "Ring"},
        "repeats": 3,
        "failed": 2,
    }
    band = {**swept.results["bands"][0], "settings": [setting]}
    for default, name in ((None, "NCCL_ALGO=Ring"), (setting, "NCCL_ALGO=Ring (default)")):
        (line,) = page._settings({**band, "default": default})["lines"]
        assert (line[0]["text"], line[-1]["text"]) == (name, "3, 2 failed")


def test_a_lone_test_is_open_and_of_several_none(whole):
    lone = rendered(make_report(parsed()))["html"]
    assert lone.count("<details") == lone.count("<details open") == 1 and "<h3>Settings</h3>" in lone
    assert whole["html"].count("<details open") == 0 and "<h3>Settings of all tests</h3>" in whole["html"]


def test_the_halves_of_rows_stand_above_their_columns(whole):
    heads = re.findall(r'<tr class="group">(.*?)</tr>', whole["html"])
    spanned = '<th colspan="4">out-of-place</th><th colspan="4">in-place</th>'
    assert heads and all(head.endswith(spanned) for head in heads)


def test_the_chart_of_a_soak_has_the_largest_sizes_and_keeps_the_cycles(monkeypatch):
    document = soaked()
    drawn = []
    monkeypatch.setattr(
        charts, "soak_charts", lambda _name, series, dips: drawn.append((series, dips)) or {"wide": "", "narrow": ""}
    )
    sizes = [1 << exponent for exponent in range(20, 21 + charts.SERIES)]
    rows = [
        {
            **row,
            "size": size,
            "out_of_place": {
                **row["out_of_place"],
                "busbw": None if (cycle, size) == (2, sizes[-1]) else row["out_of_place"]["busbw"],
            },
            "in_place": None,
        }
        for cycle, row in enumerate(document["rows"])
        for size in sizes
    ]
    render(make_report([{**document, "rows": rows, "soak": find_soak(rows)}]), ["html"])
    ((series, dips),) = drawn
    assert list(series) == [format_size(size) for size in reversed(sizes[1:])]
    assert [cycle for cycle, _value in series[format_size(sizes[-1])]] == [1, 2, 4, 5, 6, 7, 8, 9]
    # The smallest size is not drawn, and neither are its dips.
    assert dips == [(6, 50.0)] * charts.SERIES


def test_html_asks_for_nothing(whole):
    page = Page(whole["html"])
    assert [
        (tag, name, value)
        for tag, name, value in page.attributes
        if name in ("src", "href", "xlink:href", "action", "poster", "data", "srcset")
        and not value.startswith(("#", "data:"))
    ] == []
    assert re.findall(r"url\((?!#)|@import|@font-face", whole["html"]) == []
    ids = [value for tag, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    (policy,) = [value for tag, name, value in page.attributes if name == "content" and "default-src" in value]
    assert "default-src 'none'" in policy


def test_charts_are_not_drawn_as_a_matplotlibrc_says(whole, whole_report):
    """matplotlib reads the user's, and one in the folder that the playbook is run in."""
    with charts.matplotlib.rc_context({"text.usetex": True, "path.sketch": (1, 100, 2), "axes.grid": True}):
        assert rendered(whole_report)["html"] == whole["html"]


#: What NCCL logs of a rank; made after the lines of NCCL 2.22.
LOG = """\
{host}:4000:4100 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>
{host}:4000:4100 [0] NCCL INFO Using network IB
{host}:4000:4100 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA
{host}:4000:4100 [0] NCCL INFO Channel 01/0 : 8[0] -> 0[0] [receive] via NET/IB/1/GDRDMA
{host}:4000:4100 [0] NCCL INFO 16 coll channels, 0 collnet channels, 16 nvls channels, 16 p2p channels, 2 p2p channels per peer
"""


def test_the_transport_is_in_every_format():
    (document,) = parsed(TEXT + "".join(LOG.format(host=host) for host in ("g1", "g2")))
    document["hardware"] = {"nic_gbps": 400.0, "rails": 2, "ports": 2, "nvlink_gbytes": 450.0}
    report = make_report([Judge({"rules": [{"name": "RDMA", "transport": {"nics": 8}}]}).judge(document)])
    texts = rendered(report)
    told = "IB, GDR, 2 NICs a host, 16 channels, NVLS"
    written = json.loads(texts["json"])
    check_schema("results-v1.schema.json", written)
    assert written["results"][0]["verdicts"][1]["hosts"] == ["g1", "g2"]
    assert told in " ".join(Page(texts["html"]).texts) and texts["markdown"].count(told) >= 2
    assert f"Transport: {told}" in text_report.results_table([document]).splitlines()
    assert {row["transport"] for row in csv.DictReader(io.StringIO(texts["csv"]))} == {told}
    (ceiling, *_published) = text_report.expected_lines(document)
    assert "of the ceiling, 100 GB/s: 400 Gb/s x 2 rails" in ceiling and f"- {ceiling}\n" in texts["markdown"]
    assert f"C{ceiling[1:]}" in " ".join(Page(texts["html"]).texts)
    assert ceiling in " ".join(text_report.results_table([document]).split())
    suite = ElementTree.fromstring(texts["junit"].encode()).find("testsuite")
    assert {item.get("name"): item.get("value") for item in suite.findall("properties/property")}["transport"] == told
    samples = {
        (name, dict(labels).get("host")): value for (name, labels), value in samples_of(texts["openmetrics"]).items()
    }
    assert samples["gpufabric_nccl_channels", None] == 16 and samples["gpufabric_nccl_nics", "g2"] == 2
    assert samples["gpufabric_nccl_transport", None] == 1
    (labels,) = [
        dict(labels) for name, labels in samples_of(texts["openmetrics"]) if name == "gpufabric_nccl_transport"
    ]
    assert [labels[name] for name in ("network", "gdr", "nvls", "mnnvl")] == ["IB", "1", "1", ""]


def soaked():
    """A real output with cycles, of which one is a dip, and one rank is late."""
    (document,) = parsed((FIXTURES / "nccl_tests" / "2.17-run-cycles.txt").read_text(encoding="utf-8"))
    row = document["rows"][-1]
    rows = [
        {
            **row,
            "out_of_place": {**row["out_of_place"], "busbw": 50.0 if cycle == 5 else 100.0 + cycle},
            "extra": {"timestamp": f"2026-11-22 21:38:{cycle:02d}"},
        }
        for cycle in range(9)
    ]
    late = {"rank": 1, "host": document["ranks"][1]["host"], "device": 3, "share": 0.31}
    return {**document, "rows": rows, "soak": find_soak(rows), "stragglers": [late]}


def test_a_soak_and_a_straggler_are_in_every_format():
    document = soaked()
    report = make_report([document])
    texts = rendered(report)
    check_schema("results-v1.schema.json", json.loads(texts["json"]))
    host = document["stragglers"][0]["host"]
    late = f"the others wait for rank 1 on {host}, GPU 3 (31 %) of the time"
    span = "over 9 cycles, from 2026-11-22 21:38:00 to 2026-11-22 21:38:08"
    dip = "cycle 6, 2026-11-22 21:38:05: 50 GB/s"
    table = text_report.results_table([document])
    page = " ".join(Page(texts["html"]).texts)
    for text in (table, texts["markdown"], texts["junit"], page):
        assert late in " ".join(text.split()) and span in text
    assert dip in page and dip in texts["junit"] and "over its cycles" in texts["html"]
    assert texts["html"].count("soak-1-wide") > 1
    # A line for each size, not one for each cycle.
    assert sum(line.lstrip().startswith(format_size(document["rows"][0]["size"])) for line in table.splitlines()) == 1
    samples = {name: (dict(labels), value) for (name, labels), value in samples_of(texts["openmetrics"]).items()}
    labels, share = samples["gpufabric_nccl_straggler_share_ratio"]
    assert (labels["host"], labels["rank"], share) == (host, "1", 0.31)
    (entry,) = document["soak"]["sizes"]
    labels, dips = samples["gpufabric_nccl_soak_dips"]
    names = ("size", "type", "redop", "root")
    assert [labels[name] for name in names] == [str(entry[name]) for name in names] and dips == 1
    assert samples["gpufabric_nccl_soak_drift_ratio"][1] == pytest.approx(entry["drift_percent"] / 100) != 0
    JUNIT.validate(texts["junit"])
    # 512 KiB are less than 1 MiB, and -10 % less than -9 %.
    sizes = texts["html"].partition('aria-label="Sizes of test')[2].partition("</table>")[0]
    assert f'data-sort="{entry["size"]}">{format_size(entry["size"])}</td>' in sizes
    assert f'data-sort="{entry["drift_percent"]}">{entry["drift_percent"]:+.1f} %</td>' in sizes


def test_the_rows_of_a_soak_without_a_number_are_shown():
    document = soaked()
    for row in document["rows"]:
        row.update(out_of_place={**row["out_of_place"], "busbw": None}, in_place=None)
    soak = find_soak(document["rows"])
    assert soak["sizes"] == []
    page = Page(render(make_report([{**document, "soak": soak}]), ["html"])[0]["html"])
    labels = [value for _tag, name, value in page.attributes if name == "aria-label"]
    assert any(label.startswith("Rows of test 1.") for label in labels)
    assert not any(label.startswith("Sizes of test") for label in labels)


def test_a_hostile_soak_stays_text(hostile):
    text, document = hostile["collective"], soaked()
    soak = {**document["soak"], "begin": text, "end": text}
    soak["dips"] = [{**dip, "time": text} for dip in soak["dips"]]
    soak["sizes"] = [{**entry, "type": text, "redop": text} for entry in soak["sizes"]]
    late = [{**document["stragglers"][0], "host": text}]
    (checked,) = text_report.check_documents([{**hostile, "soak": soak, "stragglers": late}])
    texts = {**rendered(make_report([checked])), "table": text_report.results_table([checked])}
    JUNIT.validate(texts["junit"])
    assert samples_of(texts["openmetrics"])
    assert Page(texts["html"]).names.count("script") == 1 and "<script>" not in texts["markdown"]
    for name in set(texts) - {"json"}:
        assert not set("\x00\x1b\u202e\ud800\r") & set(texts[name]), name


def test_a_hostile_transport_stays_text(hostile):
    (logged,) = parsed(TEXT + LOG.format(host="g1"))
    text = hostile["collective"]
    document = {**hostile, "transport": {**filled(logged["transport"], text), "nics": {text: [text]}}}
    (checked,) = text_report.check_documents([document])
    texts = {**rendered(make_report([checked])), "table": text_report.results_table([checked])}
    JUNIT.validate(texts["junit"])
    assert samples_of(texts["openmetrics"])
    assert Page(texts["html"]).names.count("script") == 1 and "<script>" not in texts["markdown"]
    for name in set(texts) - {"json"}:
        assert not set("\x00\x1b\u202e\ud800\r") & set(texts[name]), name


def test_hostile_text_stays_text(hostile):
    text_of_host = hostile["collective"]
    pairs = {
        "pairs": [{"a": text_of_host, "b": "b" * 300, "busbw": 3}, {"a": text_of_host, "b": "$\\frac$", "busbw": None}]
    }
    report = make_report([hostile], text_of_host, isolation=pairs, baseline=None)
    texts = rendered(report)
    page = Page(texts["html"])
    assert page.names.count("script") == 1 and page.names.count("style") == 1
    assert f"Run {clean(text_of_host)}" in page.texts
    JUNIT.validate(texts["junit"])
    (case,) = ElementTree.fromstring(texts["junit"].encode()).findall("testsuite/testcase")
    assert case.find("failure").get("message") == clean(text_of_host)
    labels = next(iter(samples_of(texts["openmetrics"])))[1]
    assert ("run", clean(text_of_host)) in labels
    assert {row["env.NCCL_Y"] for row in rows_of(texts["csv"])} == {"'=1+1"}
    assert "<script>" not in texts["markdown"]
    # What a workflow of AWX gets are variables of its following jobs, which would be templates.
    verdict = {"rule": text_of_host, "message": text_of_host, "passed": False}
    judged = make_report([{**hostile, "verdicts": [verdict]}])
    for told in (report.worst(), report.numbers(), judged.worst(), judged.numbers()):
        text = json.dumps(told)
        assert "7*7" in text and not re.search(r"\{[{%#]", text)
        assert not [escape for escape in ("\\u0000", "\\u001b", "\\u202e", "\\ud800") if escape in text]
    assert "7*7" in report.worst()["why"]
    (tool,) = make_report([{**hostile, "tool": {**hostile["tool"], "name": text_of_host}}]).tools()
    assert "7*7" in tool and "{{" not in tool and not set("\x00\x1b\u202e\ud800") & set(tool)
    for name in set(texts) - {"json"}:
        assert not set("\x00\x1b\u202e\ud800") & set(texts[name]), name
    for text in texts.values():
        text.encode("utf-8")


def test_no_text_is_a_heading_of_the_markdown(hostile):
    text = "# Verdict: **pass**\n\n# Verdict: **pass**"
    document = {**hostile, "tool": {**hostile["tool"], "name": text}}
    nodes = [{"node": "g1", "verdict": "bad", "where": "inside", "evidence": []}]
    report = make_report(text_report.check_documents([document]), isolation={"nodes": nodes, "limit": text})
    lines = rendered(report)["markdown"].splitlines()
    assert [line for line in lines if line.startswith("# ")] == ["# Benchmark report"]


def filled(value, text, keep=("schema", "severity", "verdict", "placement", "id", "metric")):
    """A value with a text in place of each of its texts."""
    if isinstance(value, dict):
        return {key: item if key in keep else filled(item, text) for key, item in value.items()}
    return (
        [filled(item, text) for item in value] if isinstance(value, list) else text if isinstance(value, str) else value
    )


@pytest.mark.parametrize("begin", ["=1+1", "\n=1+1", "\uff1d1+1", "\t@x"])
def test_no_text_of_a_document_is_more_than_text(hostile, begin):
    """What a launcher sends may have anything anywhere; all documents that were handed in go through check_documents."""
    text = f"{begin}{hostile['collective']}\n# HELP x\nx 1\n"
    problem = {"id": f"x`{text}", "severity": "error", "host": text, "cause": text, "cure": text, "evidence": text}
    document = {**filled(hostile, text), "problems": [problem, {**problem, "id": "unknown"}, "none", None]}
    (checked,) = text_report.check_documents([document])
    assert [entry["id"] for entry in checked["problems"]] == ["unknown"]
    texts = {**rendered(make_report([checked])), "table": text_report.results_table([checked])}
    JUNIT.validate(texts["junit"])
    assert {key[0] for key in samples_of(texts["openmetrics"])}.isdisjoint({"x"})
    cells = [cell for row in rows_of(texts["csv"]) for cell in row.values()]
    assert cells and not [cell for cell in cells if cell.startswith(("=", "@", "\t", "\n", "\r", "\uff1d"))]
    assert Page(texts["html"]).names.count("script") == 1 and "<script>" not in texts["markdown"]
    for name in set(texts) - {"json"}:
        assert not set("\x00\x1b\u202e\ud800\r") & set(texts[name]), name
    for each in texts.values():
        each.encode("utf-8")


@pytest.mark.parametrize(
    "begin", ["=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "-1+1", "+1e5-2", "-1.5%"]
)
def test_no_cell_of_the_csv_is_a_formula(begin):
    (document,) = parsed()
    text = f"{begin}cmd|' /C calc'!A0"
    document["points"] = {"env": {"NCCL_X": text, "NCCL_Y": "-1.5e+3"}}
    document.update(collective=text, tool={**document["tool"], "name": text})
    for row in rows_of(rendered(make_report([document], text))["csv"]):
        # A spreadsheet shows it without the quote. A number is no formula.
        assert {row["run"], row["tool"], row["collective"], row["env.NCCL_X"]} == {f"'{text}"}
        assert row["env.NCCL_Y"] == "-1.5e+3"


def test_the_same_results_give_the_same_text(whole, whole_report):
    assert rendered(whole_report) == whole


def test_nothing_measured():
    texts = rendered(make_report([]))
    assert json.loads(texts["json"])["verdict"] == "incomplete" and rows_of(texts["csv"]) == []
    assert "Nothing was measured." in texts["html"]
    JUNIT.validate(texts["junit"])


def test_a_missing_library_leaves_its_format_out(monkeypatch, whole_report):
    for name in ("matplotlib", "prometheus_client"):
        monkeypatch.setitem(sys.modules, name, None)
    texts, missing = render(whole_report, list(FORMATS))
    assert set(texts) == {"json", "csv", "markdown", "junit"}
    assert "report.html, results.prom" in missing and missing.endswith("-m pip install matplotlib prometheus-client")


@pytest.mark.parametrize(
    ("library", "text", "file", "said"),
    [
        # Such as one that was built for another numpy, or a value of MPLBACKEND that this version does not know.
        ("matplotlib", "import no_such_core", "report.html", "ModuleNotFoundError: No module named 'no_such_core'"),
        ("matplotlib", "raise ValueError('Key backend')", "report.html", "ValueError: Key backend"),
        (
            "junitparser",
            "raise ImportError('libxml2.so.2: no such file\\nx')",
            "junit.xml",
            "ImportError: libxml2.so.2: no such",
        ),
    ],
)
def test_so_does_one_that_cannot_be_imported(monkeypatch, tmp_path, whole_report, library, text, file, said):
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / f"{library}.py").write_text(f"{text}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    texts, missing = render(whole_report, list(FORMATS))
    assert set(FORMATS) - set(texts) == {name for name, form in FORMATS.items() if form.file == file}
    assert f"{file} ({said}" in missing and missing.endswith(f"-m pip install --upgrade {library}")


def test_so_does_one_that_is_too_old(monkeypatch, whole_report):
    # As of junitparser 1.4, where a case has a name alone.
    monkeypatch.setattr("junitparser.TestCase", lambda name: None)
    texts, missing = render(whole_report, list(FORMATS))
    assert set(FORMATS) - set(texts) == {"junit"}
    assert "junit.xml (TypeError: " in missing and missing.endswith("-m pip install --upgrade junitparser")


def test_a_problem_of_two_hosts_is_told_of_both_with_errors_first(failed):
    warning, error = failed["problems"]
    other = {**failed, "problems": [warning, error, {**error, "host": "g1"}]}
    findings = make_report([failed, other]).findings
    assert [(one.entry["id"], one.entry["host"], len(one.tests)) for one in findings] == [
        ("wrong-values", "g2", 2),
        ("wrong-values", "g1", 1),
        ("output-cut", None, 2),
    ]


def test_the_worst_is_what_misses_its_limit_by_most(failed):
    worse = {**failed, "verdicts": [{**failed["verdicts"][0], "percent": -40.0, "message": "far below"}]}
    report = make_report([*parsed(), failed, worse])
    assert report.worst() == {
        "test": 3,
        "name": "all_reduce float sum, 16 ranks on 2 hosts",
        "point": None,
        "verdict": "fail",
        "host": "g2",
        "why": "far below",
    }
    assert report.counts() == {"fail": 2, "pass": 1}
    wrong = {"rule": "no wrong values", "passed": False, "percent": None, "message": "values are wrong"}
    worst = make_report([failed, worse, {**failed, "verdicts": [worse["verdicts"][0], wrong]}]).worst()
    assert (worst["test"], worst["why"]) == (3, "values are wrong")
    nowhere = [{**failed["problems"][1], "host": None}, {**failed["problems"][1], "host": "g7"}]
    assert make_report([{**failed, "problems": nowhere}]).worst()["host"] == "g7"
    assert make_report(parsed()).worst() is None


def test_tools_for_a_workflow(failed):
    assert make_report([*parsed(), failed]).tools() == ["nccl-tests"]
    assert make_report([]).tools() == []


def test_numbers_for_a_workflow(failed):
    first, second = make_report([*parsed(), failed]).numbers()
    assert first == {
        "test": 1,
        "name": "all_reduce float sum, 16 ranks on 2 hosts",
        "collective": "all_reduce",
        "verdict": "pass",
        "host_count": 2,
        "rank_count": 16,
        "peak_busbw": parsed()[0]["summary"]["peak_busbw"],
        "peak_size": parsed()[0]["summary"]["peak_size"],
        "avg_busbw": parsed()[0]["summary"]["avg_busbw"],
        "wrong": 0,
        "limits_missed": [],
        "causes": [],
    }
    assert first["peak_busbw"] > first["avg_busbw"] > 0
    assert (second["verdict"], second["limits_missed"]) == ("fail", [failed["verdicts"][0]["rule"]])
    assert second["causes"] == [
        {"id": "wrong-values", "severity": "error", "host": "g2"},
        {"id": "output-cut", "severity": "warning", "host": None},
    ]


def test_numbers_of_many_tests_are_those_of_the_worst(failed):
    numbers = make_report([*(parsed() * 30), failed, *parsed()]).numbers()
    assert [one["test"] for one in numbers] == [*range(1, 20), 31]
    assert make_report([]).numbers() == []


def test_numbers_are_few_kilobytes_whatever_went_wrong(failed):
    missed = [{**failed["verdicts"][0], "rule": f"rule {number} {'x' * 200}"} for number in range(30)]
    causes = [{**failed["problems"][0], "host": f"gpu-node-{number}.example.com"} for number in range(30)]
    (one,) = make_report([{**failed, "verdicts": missed, "problems": causes}]).numbers()
    assert len(one["limits_missed"]) == len(one["causes"]) == 20
    many = make_report([{**failed, "verdicts": missed, "problems": causes}] * 30).numbers()
    assert {len(one["causes"]) for one in many} == {2} and len(json.dumps(many)) < 13000


def test_a_curve_goes_from_small_to_large_sizes_whatever_the_order_of_the_tests():
    documents = [copy.deepcopy(parsed())[0] for _part in range(2)]
    for document, rows in zip(documents, (slice(4, None), slice(4))):
        document["rows"] = document["rows"][rows]
    (curve, _in_place) = make_report(documents).curves("all_reduce")
    assert len(curve.sizes) == len(parsed()[0]["rows"]) and list(curve.sizes) == sorted(curve.sizes)


def test_values_of_limits_are_told_as_they_are_written_in_rules():
    entry = {"limit": None, "unit": "", "percent": None, "passed": True}
    verdicts = [
        {**entry, "rule": "NVLink", "metric": "assertion", "source": "x", "message": "NVLink it is", "value": True},
        {**entry, "rule": "RDMA", "metric": "transport", "source": "x", "message": "RDMA: IB", "value": "IB, 8 NICs"},
        {**entry, "rule": "Fast", "metric": "out_of_place.busbw", "source": "x", "message": "Fast: 370", "percent": 2},
    ]
    (test,) = make_report([{**parsed()[0], "verdicts": [{"value": 370.0, **one} for one in verdicts]}]).tests
    assert [check.value_text for check in test.checks] == ["true", "IB, 8 NICs", "370.00"]
    # Only of what has numbers these stand beside the name.
    assert [check.told for check in test.checks] == ["NVLink it is", "RDMA: IB", "Fast"]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [([0], "0"), ([None], "not checked"), ([3, 0], "3"), ([3, None], "3, not checked in 1 of 2 tests")],
)
def test_the_page_says_of_how_many_tests_the_wrong_values_are(wrong, told):
    (document,) = parsed()
    documents = [{**document, "summary": {**document["summary"], "wrong": number}} for number in wrong]
    assert dict(page._facts(make_report(documents)))["Wrong values"] == told


@pytest.mark.parametrize(
    ("having", "number", "told"),
    [(1, 1, "test 1. all_reduce"), (1, 2, "test 1. all_reduce"), (2, 2, "all 2 tests")],
)
def test_the_page_says_which_tests_have_a_problem(having, number, told):
    cause = {"id": "x", "severity": "error", "host": None, "cause": "C", "cure": "D", "evidence": ""}
    (document,) = parsed()
    report = make_report(
        [{**document, "problems": [cause] * (place < having), "verdict": "fail"} for place in range(number)]
    )
    assert [page._problem(finding, number)["tests"] for finding in report.findings] == [told]


def test_the_name_of_a_test_of_several_types_is_the_same_in_each_report():
    (document,) = parsed()
    rows = [
        {**document["rows"][0], "type": kind, "redop": kind} for kind in ("uint8", "int8", "half", "float", "double")
    ]
    (test,) = make_report([{**document, "rows": rows}]).tests
    assert (test.setting["type"], test.setting["redop"]) == ("double/float/half/int8",) * 2


def test_curves_are_medians_of_repeats(swept):
    report = make_report(swept.documents)
    outside = [curve for curve in report.curves("all_reduce") if curve.placement == "out_of_place"]
    assert outside[0].label == "NCCL_ALGO=NVLS" and {curve.label for curve in outside[1:]} == {
        *("default", "NCCL_ALGO=Ring", "NCCL_ALGO=Tree"),
    }
    # The fastest has the first colour, whatever its name.
    assert [curve.peak for curve in outside] == sorted((curve.peak for curve in outside), reverse=True)
    assert outside[-1].label == "NCCL_ALGO=Tree" and outside[1].label != "NCCL_ALGO=Tree"
    values = sorted(
        document["rows"][-1]["out_of_place"]["busbw"]
        for document in swept.documents
        if document["collective"] == "all_reduce" and document["points"]["env"] == {"NCCL_ALGO": "NVLS"}
    )
    assert (outside[0].low[-1], outside[0].busbw[-1], outside[0].high[-1]) == tuple(values)


def test_a_baseline_of_other_ranks_is_not_drawn(baseline):
    (entry, *_others) = baseline["measurements"]
    others = [{**entry, "ranks": 8}, {**entry, "ranks": 16, "hosts": 2, "tool": "nccl-tests"}, {**entry, "busbw": None}]
    report = make_report(parsed(), baseline={"measurements": others})
    assert [item["median"] for item in report.baseline] == [0.06]


def test_a_baseline_of_a_sweep_is_drawn_as_one_line_each_operation(swept):
    report = make_report(swept.documents, baseline=make_baseline(swept.documents))
    # Of four settings that of no variable.
    for collective in ("all_reduce", "all_gather"):
        (curve,) = report.baseline_curves(collective)
        plain = [d for d in swept.documents if d["collective"] == collective and not d["points"]["env"]]
        values = sorted(document["rows"][-1]["out_of_place"]["busbw"] for document in plain)
        assert (curve.low[-1], curve.busbw[-1], curve.high[-1]) == pytest.approx(tuple(values))
        # A logarithmic axis has no place for 0.
        assert list(curve.sizes) == [row["size"] for row in plain[0]["rows"] if row["out_of_place"]["busbw"]]
    # Of one setting only, it is that.
    ring = [d for d in swept.documents if d["points"]["env"] == {"NCCL_ALGO": "Ring"}]
    assert len(make_report(ring, baseline=make_baseline(swept.documents)).baseline_curves("all_reduce")) == 1
    assert len(make_report(ring, baseline=make_baseline(ring)).baseline_curves("all_reduce")) == 1


def test_pairs_of_a_search_are_its_tests_of_two_hosts():
    tests = [
        {"nodes": ["n10", "n9"], "value": 5.0},
        {"nodes": ["n9", "n10"], "value": 4.0},
        {"nodes": ["n9", "n11"], "value": None},
        {"nodes": ["n9", "n10", "n11"], "value": 9.0},
    ]
    pairs = make_report(parsed(), isolation={"tests": tests}).pairs
    assert pairs.hosts == ("n9", "n10", "n11")
    assert dict(pairs.busbw) == {(0, 1): 4.0} and pairs.failed == {(0, 2)}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("isolation", {"pairs": [{"a": "x"}]}),
        ("isolation", {"pairs": ["x"]}),
        ("isolation", {"nodes": ["x"]}),
        ("baseline", {"measurements": [{"collective": "all_reduce", "busbw": {"mean": 1}}]}),
        ("baseline", {"measurements": ["x"]}),
    ],
)
def test_other_input_is_refused(name, value):
    with pytest.raises(OptionError, match=f"^{name}: "):
        make_report(parsed(), **{name: value})


@pytest.mark.parametrize(
    ("name", "texts"),
    [("2.18-replay-in-place-only", ["in-place"]), ("2.19.6-root", ["out-of-place", "in-place"])],
)
def test_the_legend_tells_which_placement_is_drawn(name, texts):
    (document,) = parsed((FIXTURES / "nccl_tests" / f"{name}.txt").read_text(encoding="utf-8"))
    (drawn,) = page._bandwidth(make_report([document]))
    assert [entry["text"] for entry in drawn["legend"]] == texts


def test_the_legend_counts_the_settings_that_have_no_colour():
    labels = [f"NCCL_ALGO={number}" for number in range(charts.SERIES + 2)]
    curves = [Curve(label, "out_of_place", (8,), (1.0,), (1.0,), (1.0,)) for label in labels]
    legend = list(page._legend(curves, charts.series_of(labels), [], False))
    told = [*labels[: charts.SERIES], "2 settings that are slower at their peak"]
    assert [entry["text"] for entry in legend] == told
    assert legend[0]["variable"] == "--series-1" and len({entry["variable"] for entry in legend}) == len(legend)


def chart_of(curves, limits=(), baseline=(), ticks=12):
    """The axes of a chart of bandwidth."""
    axes = figure.Figure().add_subplot()
    charts._draw_bandwidth(axes, curves, charts.series_of(curve.label for curve in curves), limits, baseline, ticks)
    return axes


@pytest.mark.parametrize(
    ("busbw", "sizes"),
    [
        ((59.0, 101.0), (1048576, 2097152)),
        ((1.3, 80.0), (8, 8388608)),
        ((6.5, 18.0), (10485760, 20971520)),
        ((0.01, 372.0), (8, 8589934592)),
        ((340.0, 341.0), (1000000, 1040000)),
        ((340.0,), (10000000,)),
    ],
)
def test_both_axes_of_a_chart_have_enough_numbers_to_read_it_by(busbw, sizes):
    axes = chart_of([Curve("", "out_of_place", sizes, busbw, busbw, busbw)])
    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        assert len([place for place in axis.get_majorticklocs() if low <= place <= high]) >= len(sizes)


def test_hosts_of_one_domain_are_told_apart_beside_the_chart_of_pairs():
    long = ["gpu-001.rack7.example.com", "gpu-011.rack7.example.com", "gpu-012.rack17.example.com"]
    assert charts._tick_names(long[:2]) == ["gpu-001", "gpu-011"]
    assert charts._tick_names(long) == ["gpu-001.rack7", "gpu-011.rack7", "gpu-012.rack17"]
    short = ["g1.example.com", "g2.example.com"]
    assert charts._tick_names(short) == short
    ends = ["gpufabric-worker-pod.1", "gpufabric-worker-pod.21"]
    assert charts._tick_names(ends) == ["gpufabri…ker-pod.1", "gpufabri…er-pod.21"]


def lines_of(axes, style):
    """The lines of a chart with a variable of the page's style: their points, whether they are dashed, and their marks."""
    return [
        (list(zip(line.get_xdata(), line.get_ydata())), line.is_dashed(), line.get_marker())
        for line in axes.lines
        if line.get_color() == charts._colour(style)
    ]


def bounds_at(band, size):
    heights = [height for place, height in band.get_paths()[0].vertices if place == size]
    return min(heights), max(heights)


def a_limit(value, sizes):
    return Check("busbw", None, "busbw", None, value, "GB/s", "given", None, sizes)


def test_a_chart_has_each_value_where_it_belongs():
    """Both axes are logarithmic; a setting is a line of its colour and shape, in-place is dashed, a band is around repeats."""
    sizes, slow, fast = (8, 1024, 1048576), (0.01, 2.0, 100.0), (0.02, 3.0, 300.0)
    curves = [
        Curve("A", "out_of_place", sizes, fast, slow, (0.03, 4.0, 400.0)),
        Curve("A", "in_place", sizes, slow, slow, slow),
        Curve("B", "out_of_place", sizes, slow, slow, slow),
    ]
    limits = [a_limit(50.0, (0, 1024)), a_limit(70.0, (1024, 1048576)), a_limit(90.0, (1024, 1024))]
    baseline = [BaselineCurve(sizes, (0.5, 5.0, 50.0), (0.4, 4.0, 40.0), (0.6, 6.0, 60.0))]
    axes = chart_of(curves, limits, baseline)
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_ylabel()) == ("log", "log", "busbw (GB/s)")
    first, second = (list(zip(sizes, values)) for values in (fast, slow))
    assert sorted(lines_of(axes, "--series-1")) == sorted([(first, False, "o"), (second, True, "None")])
    assert lines_of(axes, "--series-2") == [(second, False, "s")]
    assert [points for points, *_others in lines_of(axes, "--limit")] == [
        [(8, 50.0), (1024, 50.0)],
        [(1024, 70.0), (1048576, 70.0)],
        [(1024 / 1.4, 90.0), (1024 * 1.4, 90.0)],
    ]
    assert [points for points, *_others in lines_of(axes, "--baseline")] == [list(zip(sizes, (0.5, 5.0, 50.0)))]
    bands = {
        (charts._COLOURS[colors.to_hex(band.get_facecolor()[0])], *(f"{value:g}" for value in bounds_at(band, 1048576)))
        for band in axes.collections
    }
    assert bands == {("--series-1", "100", "400"), ("--baseline", "40", "60")}
    # The fastest lies above the others.
    assert axes.lines[0].get_color() == charts._colour("--series-2")
    told = {axis: axis.get_major_formatter() for axis in (axes.xaxis, axes.yaxis)}
    assert (told[axes.xaxis](1048576.0, 0), told[axes.yaxis](0.01, 0)) == ("1 MiB", "0.01")
    assert list(axes.get_xticks()) == [2**exponent for exponent in range(4, 21, 2)]


def test_what_has_no_colour_or_is_one_line_too_many_is_drawn_quietly_or_not_at_all():
    def curve(label, placement):
        return Curve(label, placement, (8, 16), (1.0, 2.0), (1.0, 2.0), (1.0, 2.0))

    both = [curve(f"{n}", placement) for n in range(charts.SERIES + 2) for placement in PLACEMENTS]
    axes = chart_of(both)
    quiet = [points for points, *_others in lines_of(axes, "--quiet")]
    assert len(axes.lines) == charts.SERIES + 2 and len(quiet) == 2
    # In-place alone is drawn as out-of-place otherwise is.
    axes = chart_of([curve("", "in_place")])
    assert lines_of(axes, "--series-1") == [([(8, 1.0), (16, 2.0)], False, "o")]
    assert not charts.shows_in_place([curve("", "in_place")])
    # Four settings have one line each, three have two.
    assert [len(chart_of(both[: 2 * number]).lines) for number in (3, 4)] == [6, 4]


def test_what_is_of_one_size_is_seen():
    """A line through one point is none, nor is a band around it."""
    single = [Curve(f"{n}", where, (1024,), (n + 2.0,), (1.0,), (9.0,)) for n in range(7) for where in PLACEMENTS]
    across = [1024 / 1.4, 1024 * 1.4]
    for curves in (single[:2], single):
        axes = chart_of(curves, baseline=[BaselineCurve((1024,), (2.0,), (1.0,), (3.0,))])
        widths = [sorted({place for place, _height in band.get_paths()[0].vertices}) for band in axes.collections]
        assert len(widths) > 1 and all(width == pytest.approx(across) for width in widths)
        for line in axes.lines:
            assert line.get_marker() != "None" or list(line.get_xdata()) == pytest.approx(across)


def test_the_chart_of_pairs_has_each_value_where_its_hosts_are():
    pairs = Pairs(
        ("g1", "g2", "g3", "g4"), {(0, 1): 40.0, (0, 2): 50.0, (1, 3): 10.0, (2, 3): 60.0}, frozenset({(0, 3)})
    )
    axes = figure.Figure().add_subplot()
    charts._draw_pairs(axes, pairs, 40)
    (image,) = axes.images
    grid = [[None if value is None else float(value) for value in row] for row in image.get_array().tolist()]
    none = None
    assert grid == [
        [none, 40.0, 50.0, none],
        [40.0, none, none, 10.0],
        [50.0, none, none, 60.0],
        [none, 10.0, 60.0, none],
    ]
    # The median is in the middle of the colours, slow is red, fast is blue.
    assert (image.norm.vmin, image.norm.vmax) == (10.0, 80.0)
    slow, middle, fast = (image.cmap(image.norm(value)) for value in (10.0, 45.0, 80.0))
    assert slow[0] > 2 * slow[2] and fast[2] > 2 * fast[0] and min(middle) > 0.8
    (cross,) = axes.lines
    assert sorted(zip(cross.get_xdata(), cross.get_ydata())) == [(0, 3), (3, 0)]
    names = [
        [(place, label.get_text()) for place, label in zip(axis.get_ticklocs(), axis.get_ticklabels())]
        for axis in (axes.xaxis, axes.yaxis)
    ]
    assert names == [list(enumerate(pairs.hosts))] * 2
    values = {text.get_position(): text.get_text() for text in axes.texts}
    assert values[0, 1] == values[1, 0] == "40" and values[3, 1] == "10" and len(values) == 8
    # A small spread is no alarm.
    axes = figure.Figure().add_subplot()
    charts._draw_pairs(axes, Pairs(("g1", "g2", "g3"), {(0, 1): 100.0, (0, 2): 99.0}, frozenset()), 12)
    assert axes.images[0].norm.vmax - axes.images[0].norm.vmin > 19 and len(axes.texts) == 0


def test_the_chart_of_a_soak_has_each_cycle(monkeypatch):
    drawn = {}
    monkeypatch.setattr(charts, "_drawn", lambda name, form, draw: drawn.update({name: draw}) or "")
    charts.soak_charts("soak", {"1 GiB": [(1, 300.0), (2, 290.0), (4, 295.0)], "1 MiB": [(1, 50.0)]}, [(2, 290.0)])
    for draw in drawn.values():
        axes = figure.Figure().add_subplot()
        draw(axes)
        assert [lines_of(axes, f"--series-{number}")[0][0] for number in (1, 2)] == [
            [(1, 300.0), (2, 290.0), (4, 295.0)],
            [(1, 50.0)],
        ]
        assert lines_of(axes, "--limit") == [([(2, 290.0)], False, "x")]
        assert (axes.get_ylim()[0], axes.get_ylabel(), axes.get_xlabel()) == (0, "busbw (GB/s)", "cycle")
    assert list(drawn) == ["soak-wide", "soak-narrow"]


def test_a_setting_has_one_colour_in_all_charts_if_there_are_enough(swept):
    def legends(documents):
        report = make_report(documents)
        legends = [{entry["text"]: entry["variable"] for entry in item["legend"]} for item in page._bandwidth(report)]
        for collective, legend in zip(report.collectives, legends):
            # The fastest first, then what is no setting.
            labels = list(dict.fromkeys(curve.label for curve in report.curves(collective)))
            assert len(labels) == 4 and list(legend) == labels
        return legends

    def renamed(names):
        """The same sweep, but what all_gather was run with has other names."""
        documents = copy.deepcopy(swept.documents)
        for document in documents:
            sweep = document["points"]["sweep"]
            if document["collective"] == "all_gather" and sweep["env"]:
                sweep["env"] = names(sweep["env"]["NCCL_ALGO"])
        return documents

    other = {"NVLS": "Tree", "Tree": "NVLS", "Ring": "Ring"}
    first, second = legends(renamed(lambda value: {"NCCL_ALGO": other[value]}))
    assert first == second and list(first) != list(second)
    first, second = legends(renamed(lambda value: {"NCCL_PROTO": value}))
    assert sorted(first.values()) == sorted(second.values()) and "--quiet" not in first.values()


def test_the_bar_of_a_gain_goes_from_the_middle_to_its_side():
    bars = [page._bar(gain, 20.0, {"beyond_noise": True})["gain"] for gain in (10.0, -10.0, 20.0)]
    assert [(one["left"], one["width"]) for one in bars] == [(50, 25), (25, 25), (50, 50)]


def test_the_page_has_the_settings_of_each_test():
    """The command has a place of its own."""
    (document,) = parsed()
    document["points"] = {"argv": ["all_reduce_perf"], "env": {"NCCL_ALGO": "Ring"}, "duration_s": 1.5}
    (test,) = make_report([document]).tests
    details = page._details(test, {})
    settings = {name["text"]: value["text"] for name, value in details["settings"]["lines"]}
    wanted = {"NCCL_ALGO": "Ring", "duration_s": "1.5", "NCCL version": "2.28.7", "iters": "20"}
    assert {name: settings.get(name) for name in wanted} == wanted and "argv" not in settings
    assert details["command"] == "all_reduce_perf"
    assert (test.operation, test.name) == (
        "all_reduce float sum, NCCL_ALGO=Ring",
        "all_reduce float sum, 16 ranks on 2 hosts, NCCL_ALGO=Ring",
    )
    unnamed = make_report([{**document, "collective": None, "ranks": []}])
    assert unnamed.tests[0].name == "unnamed collective float sum, NCCL_ALGO=Ring"
