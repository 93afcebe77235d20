# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""scripts/test: what it makes of reports, and that it tells the truth of runs that are cut off."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

SCRIPT = pathlib.Path(__file__).parents[3] / "scripts" / "test"


@pytest.fixture(scope="module")
def script():
    loader = importlib.machinery.SourceFileLoader("scripts_test", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("scripts_test", loader))
    sys.modules["scripts_test"] = module
    loader.exec_module(module)
    return module


def lines(*events):
    return [json.dumps(event) for event in events]


def ended(test, outcome="passed", phases=("setup", "call", "teardown"), text=""):
    return [{"test": test, "phase": phase, "outcome": outcome, "text": text} for phase in phases]


def outcomes(cases):
    return {case.test: case.outcome for case in cases}


def test_a_test_has_passed_only_after_its_teardown(script):
    began = [{"planned": ["a", "b", "c", "d", "e"]}, *({"began": name} for name in "abcd")]
    events = lines(
        *began,
        *ended("a"),
        *ended("b", phases=("setup", "call")),
        *ended("c", "failed", ("call",), "why"),
        *ended("c", phases=("teardown",)),
        *ended("d", phases=("setup", "call")),
        *ended("d", "failed", ("teardown",), "left something"),
    )
    assert outcomes(script.cases_of_events(events)) == {
        "a": "passed",
        "b": "unfinished",
        "c": "failed",
        "d": "failed",
        "e": "not run",
    }


def test_what_is_skipped_stays_skipped_and_a_file_that_cannot_be_read_has_failed(script):
    skipped = [*ended("a", "skipped", ("setup",), "no podman"), *ended("a", phases=("teardown",))]
    unread = ended("test_x.py", "failed", ("collect",), "E   ImportError: no")
    cases = script.cases_of_events(lines({"began": "a"}, *skipped, *unread))
    assert [(case.outcome, case.text) for case in cases] == [
        ("skipped", "no podman"),
        ("failed", "E   ImportError: no"),
    ]


def test_a_case_of_junit_without_a_name_has_not_ended(script):
    text = """<testsuites><testsuite>
      <testcase classname="m" name="good" time="1"/><testcase time="0.1"/>
      <testcase classname="m" name="bad"><failure message="short">long</failure></testcase>
      <testcase classname="m" name="left"><skipped message="no GPU"/></testcase>
      </testsuite></testsuites>"""
    cases = script.cases_of_junit([text])
    assert [case.outcome for case in cases] == ["passed", "unfinished", "failed", "skipped"]
    assert cases[2].text == "long" and cases[3].text == "no GPU"


def test_functions_are_counted_once_and_pass_if_all_of_their_cases_do(script):
    def check(name, **found):
        return script.Outcome(name, [script.Case(test.replace("__", "["), outcome) for test, outcome in found.items()])

    units = check("units", a__1="passed", a__2="passed", b__1="passed", b__2="failed", c="passed", d="skipped")
    nodes = check("units-nodes", a__1="passed", a__2="passed", c="failed", d="passed")
    other = check("kubernetes", a__1="unfinished", b="passed", c="not run")
    found = script.functions([units, nodes, other])
    assert found == {"failed": 2, "unfinished": 1, "not run": 1, "passed": 3, "skipped": 0}
    assert script.functions([script.Outcome("docs", trouble="exit status 1")])["failed"] == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("E   AssertionError: short", "AssertionError: short"),
        ("E   fatal: [g1]: FAILED! =>\nE     x: 1\nE   msg: the reason\nE   \nE   more", "the reason"),
        ("last line", "last line"),
        ("", "no message"),
    ],
)
def test_the_reason_is_one_line(script, text, said):
    assert script.reason(text) == said


@pytest.fixture
def project(tmp_path):
    """A project with this script and a Makefile of its own; runs it, and gives the process."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "test").write_text(SCRIPT.read_text())

    def run(makefile, *arguments):
        text = makefile.replace("    ", "\t")
        (tmp_path / "Makefile").write_text(text)
        argv = [sys.executable, str(tmp_path / "scripts" / "test"), *arguments]
        return subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    return run


EVENTS = """
integration:
    echo '{{"planned": ["t::ends", "t::hangs[1]", "t::waits"]}}' >> $(GPUFABRIC_EVENTS)
    echo '{{"began": "t::ends"}}' >> $(GPUFABRIC_EVENTS)
    echo '{{"test": "t::ends", "phase": "teardown", "outcome": "passed", "text": ""}}' >> $(GPUFABRIC_EVENTS)
    echo '{{"began": "t::hangs[1]"}}' >> $(GPUFABRIC_EVENTS)
    {end}
"""


def test_a_run_that_is_cut_off_says_what_was_not_run(project):
    process = project(EVENTS.format(end="sleep 600"), "--minutes", "0.04", "integration", "docs")
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 1
    assert "Not finished:\n  integration: t::hangs[1]\n" in output
    assert "Not run:\n  integration: t::waits\n  docs: the whole check\n" in output
    assert "the limit of all checks" in output
    assert output.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"


def test_sigterm_ends_what_runs_and_the_summary_is_printed(project, tmp_path):
    process = project(EVENTS.format(end="sleep 600 & echo $$! > sleeper; wait"), "integration")
    deadline = time.monotonic() + 60
    while not (tmp_path / "sleeper").exists() or not (tmp_path / "sleeper").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 1 and "was ended by SIGTERM" in output
    assert output.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"
    status = pathlib.Path(f"/proc/{(tmp_path / 'sleeper').read_text().strip()}/status")
    assert not status.exists() or "State:\tZ" in status.read_text()


def test_a_check_that_ends_well_before_its_tests_has_failed(project):
    output = project(EVENTS.format(end="true"), "integration").communicate(timeout=60)[0]
    assert "exit status 0, before all of its tests had ended" in output
    assert output.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"


def test_a_check_without_its_report_has_failed_and_one_that_has_none_passed(project):
    output = project("units docs:\n    true\n", "units", "docs").communicate(timeout=60)[0]
    assert "units: left no report of its tests" in output
    assert output.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"


def test_a_line_of_the_output_may_say_what_was_skipped(project):
    output = project("docs:\n    @echo 'skipped: no shellcheck'\n", "docs").communicate(timeout=60)[0]
    assert "Skipped:\n  docs: no shellcheck\n" in output
    assert output.splitlines()[-1] == "0 passed, 0 failed, 1 skipped"


def test_a_check_that_begins_late_leaves_its_slow_tests_out_and_says_so(project, tmp_path):
    makefile = "docs:\n    true\nintegration:\n    @echo 'skipped: SLOW is' $(SLOW)\n"
    early = project(makefile, "docs", "integration").communicate(timeout=60)[0]
    assert re.search(r"\n  integration: SLOW is \d+/16\n", early) and "left out" not in early
    # Late for this one is any time after the beginning.
    changed = re.sub(r'(LATEST = {"integration": )[0-9.]+', r"\g<1>0", SCRIPT.read_text())
    (tmp_path / "scripts" / "test").write_text(changed)
    late = project(makefile, "docs", "integration").communicate(timeout=60)[0]
    assert "  integration: SLOW is none\n" in late
    assert re.search(
        r"\n  integration: slow tests, part \d+/16: left out, since the checks before took 0 of 86 minutes\n", late
    )
    # Nothing is left out before a release.
    assert "SLOW is all" in project(makefile, "--slow", "all", "docs", "integration").communicate(timeout=60)[0]


def test_what_is_built_first_is_told_while_it_is_built(project):
    says = "@echo 'test bed: building bin, which takes about 10 min of two cores, once'"
    process = project(f"docs:\n    {says}\n    sleep 600\n", "docs")
    with process:
        said = [next(process.stdout) for _line in range(3)]
        process.terminate()
        process.communicate(timeout=60)
    assert "building bin, which takes about 10 min" in said[-1]


def test_the_summary_has_the_last_that_a_check_said(script):
    log = [
        "50 passed",
        "not recorded any more: x",
        "run scripts/render-fault-matrix",
        "make: *** [Makefile:176: kubernetes] Error 1",
    ]
    trouble = f"exit status 2\n{script.tail(log)}"
    assert script.trouble_line(trouble) == "exit status 2: run scripts/render-fault-matrix"
    assert script.trouble_line("left no report of its tests") == "left no report of its tests"


def test_a_check_with_all_slow_tests_has_more_time(script):
    assert (
        script.limit_of("integration", "all")
        == 3 * script.limit_of("integration", "2/8")
        > script.limit_of("docs", "all")
    )


def test_the_day_may_choose_the_part_of_the_slow_tests(script, monkeypatch):
    monkeypatch.delenv("GPUFABRIC_TURN", raising=False)
    by_commits = script.turn_of_slow_tests()
    monkeypatch.setenv("GPUFABRIC_TURN", str(by_commits + 1))
    assert script.turn_of_slow_tests() == by_commits + 1


def test_of_checks_that_take_turns_each_has_its_own_and_all_are_run_before_a_release(script):
    targets = ["docs", "a/b/c/b", "/x//y"]
    assert [script.checks_of(targets, turn) for turn in range(5)] == [
        ["docs", "a"],
        ["docs", "b", "x"],
        ["docs", "c"],
        ["docs", "b", "y"],
        ["docs", "a"],
    ]
    assert script.checks_of(targets, None) == ["docs", "a", "b", "c", "x", "y"]
