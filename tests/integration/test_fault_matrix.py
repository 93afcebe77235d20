# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fault matrix itself: it takes the right cause of the right host alone, and keeps what each test recorded."""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import pathlib
import types
import typing as t

import conftest
import pytest
from fault_matrix import LOCAL_NODES, PODS, FaultMatrix, begun, passed, read_tests

ROOT = pathlib.Path(__file__).parents[2]
_LOADER = importlib.machinery.SourceFileLoader("render_fault_matrix", str(ROOT / "scripts" / "render-fault-matrix"))
SCRIPT = importlib.util.module_from_spec(importlib.util.spec_from_loader(_LOADER.name, _LOADER))
_LOADER.exec_module(SCRIPT)


def told(identity: str, host: str | None, severity: str = "error") -> dict[str, t.Any]:
    return {"id": identity, "host": host, "severity": severity}


MISSING = told("daemon-missing", "g3")


@pytest.fixture
def matrix(tmp_path: pathlib.Path) -> FaultMatrix:
    return FaultMatrix(tmp_path, LOCAL_NODES)


def outcomes(directory: pathlib.Path) -> list[str]:
    (test,) = read_tests(directory)
    return [record["outcome"] for record in test["records"]]


@pytest.mark.parametrize(
    ("problems", "expected", "outcome"),
    [
        ([MISSING, told("disk-full", "g2")], MISSING, "wrong"),
        ([MISSING, told("callback-timeout", "g1")], MISSING, "wrong"),
        ([MISSING, told("disk-full", "g3", "warning")], MISSING, "wrong"),
        ([MISSING, told("disk-full", None)], MISSING, "wrong"),
        ([MISSING, told("daemon-missing", "g2")], MISSING, "wrong"),
        ([told("daemon-missing", "g3", "warning")], MISSING, "wrong"),
        ([MISSING], told("daemon-missing", "g3", "warning"), "wrong"),
        ([told("daemon-missing", "g2")], MISSING, "wrong"),
        ([told("daemon-missing", None)], MISSING, "wrong"),
        ([told("silence-timeout", "g3")], told("silence-timeout", None), "wrong"),
        (
            [told("silence-timeout", None), told("a", "g1"), told("b", "g2"), told("c", "g3")],
            told("silence-timeout", None),
            "wrong",
        ),
        ([told("unknown", None)], MISSING, "unknown"),
        ([], MISSING, "unknown"),
    ],
)
def test_whatever_else_is_told_fails(matrix, tmp_path, problems, expected, outcome):
    with pytest.raises(AssertionError, match="alone is expected"):
        matrix.fault("fault", problems, expected["id"], expected["host"], "mpi_run", severity=expected["severity"])
    assert outcomes(tmp_path) == [outcome]


def test_the_right_cause_of_the_right_host(matrix, tmp_path):
    matrix.fault("daemon not there", [MISSING], "daemon-missing", "g3", "mpi_run")
    matrix.fault("told twice", [MISSING, MISSING], "daemon-missing", "g3", "mpi_run")
    matrix.fault("nobody's", [told("silence-timeout", None)], "silence-timeout", None, "mpi_run")
    matrix.fault("warning", [told("clock-off", "g1", "warning")], "clock-off", "g1", "mpi_run", severity="warning")
    assert outcomes(tmp_path) == ["right"] * 4


def test_faults_that_are_made_at_the_same_time(matrix):
    problems = [MISSING, told("disk-full", "g2"), told("clock-off", "g1", "warning")]
    made = [("daemon-missing", "g3", "error"), ("disk-full", "g2", "error"), ("clock-off", "g1", "warning")]
    for identity, host, severity in made:
        matrix.fault("fault", problems, identity, host, "mpi_run", severity=severity, beside=made)
    first = made[0][:2]
    with pytest.raises(AssertionError):
        matrix.fault("fault", problems, *first, "mpi_run", beside=made[:2])
    with pytest.raises(AssertionError):
        # A fault that is made beside another one is its own host's alone.
        matrix.fault("fault", [*problems, told("disk-full", "g3")], *first, "mpi_run", beside=made)
    with pytest.raises(AssertionError):
        # That others are told is not that this one is.
        matrix.fault("fault", problems[1:], *first, "mpi_run", beside=made)


@pytest.mark.parametrize(
    ("severity", "beside", "allowed"),
    [
        ("warning", ("processes-left", "g3", "warning"), True),
        ("error", ("processes-left", "g3", "warning"), False),
        ("warning", ("processes-left", "g3", "error"), False),
        # Without one it is the severity of the fault.
        ("error", ("processes-left", "g3"), True),
        ("warning", ("processes-left", "g3"), False),
    ],
)
def test_what_is_told_beside_a_fault_has_its_severity(matrix, tmp_path, severity, beside, allowed):
    problems = [MISSING, told("processes-left", "g3", severity)]
    with contextlib.nullcontext() if allowed else pytest.raises(AssertionError, match="alone is expected"):
        matrix.fault("fault", problems, "daemon-missing", "g3", "mpi_run", beside=[beside])
    assert outcomes(tmp_path) == ["right" if allowed else "wrong"]


def test_of_a_healthy_run_nothing_is_told(matrix, tmp_path):
    matrix.healthy("run", [], "mpi_run")
    with pytest.raises(AssertionError):
        matrix.healthy("run", [told("clock-off", "g1", "warning")], "mpi_run")
    assert outcomes(tmp_path) == ["quiet", "false alarm"]


def test_the_summary_of_a_run_counts_its_own_tests_alone(tmp_path, monkeypatch, request):
    monkeypatch.setattr(conftest, "FAULTS", tmp_path)
    matrix = FaultMatrix(tmp_path, LOCAL_NODES)
    matrix.healthy("run", [], "mpi_run")
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "test_x.py::test_left_out (call)")
    matrix.healthy("earlier", [], "mpi_run")
    report = pytest.TestReport(request.node.nodeid, ("", 0, ""), {}, "passed", None, "call")
    left_out = types.SimpleNamespace(nodeid="test_x.py::test_left_out")
    lines: list[str] = []
    stats = {"passed": [report], "deselected": [left_out]}
    conftest.pytest_terminal_summary(types.SimpleNamespace(stats=stats, write_line=lines.append))
    assert len(lines) == 1 and "; 1 healthy runs: 0 false alarms" in lines[0]


def test_a_test_has_the_records_of_its_last_run(matrix, tmp_path, request):
    source = pathlib.Path(__file__)
    matrix.healthy("earlier", [], "mpi_run")
    assert not read_tests(tmp_path)[0]["passed"]
    begun(tmp_path, request.node.nodeid)
    matrix.healthy("run", [], "mpi_run")
    passed(tmp_path, request.node.nodeid, source)
    passed(tmp_path, "test_x.py::test_without_faults", source)
    tests = {test["test"]: test for test in read_tests(tmp_path)}
    assert [record["what"] for record in tests[request.node.nodeid]["records"]] == ["run"]
    assert tests["test_x.py::test_without_faults"]["records"] == []
    assert all(test["passed"] for test in tests.values())


def record(what: str, test: str = "test_a", **changes: t.Any) -> dict[str, t.Any]:
    values = {"bed": LOCAL_NODES, "where": "a worker", "told_by": "mpi_run, Open MPI 4.1", "expected": "disk-full"}
    more = {"host": "g3", "severity": "error", "symptom": False, "stand_in": ""}
    return {"test": test, "what": what, **values, **more, **changes}


def test_tests_that_ran_replace_their_records_and_those_that_are_no_more_lose_them():
    kept = [
        record("changed"),
        record("gone"),
        record("kept", "test_b"),
        record("old", "test_c"),
        record("pods", bed=PODS),
    ]
    run = {"test_a": [{**record("changed", expected="shm-full"), "outcome": "right"}, record("new")], "test_d": []}
    records = SCRIPT.merged(kept, run, {"test_a", "test_b", "test_d"})
    assert [one["what"] for one in records] == ["kept", "new", "changed"]
    told = SCRIPT.changes(kept, records, LOCAL_NODES)
    assert [(line.partition(":")[0], line.partition('"what": "')[2].partition('"')[0]) for line in told] == [
        *(("not in the records", what) for what in ("new", "changed")),
        *(("not recorded any more", what) for what in ("changed", "gone", "old")),
    ]
    assert SCRIPT.changes(records, records, LOCAL_NODES) == []
    # A test of which nothing is kept and that ran without a record says nothing new.
    assert SCRIPT.merged(records, {"test_d": []}, {"test_a", "test_b", "test_d"}) == records


@pytest.mark.parametrize("change", [{"expected": "shm-full"}, {"host": "g2"}, {"host": None}, {"severity": "warning"}])
def test_a_row_with_another_cause_or_host_is_another_row(change):
    before = [record("fault")]
    now = SCRIPT.merged(before, {"test_a": [record("fault", **change)]}, {"test_a"})
    assert len(SCRIPT.changes(before, now, LOCAL_NODES)) == 2 and SCRIPT.changes(before, now, PODS) == []


def test_the_page_counts_a_fault_once_and_sets_symptoms_and_stand_ins_apart():
    five = {"told_by": "mpi_run, Open MPI 5.0"}
    text = SCRIPT.page(
        [
            record("full"),
            record("full", "test_b", **five),
            record("other host"),
            record("other host", **five, host="g6"),
            record("elsewhere", **five, host=None, severity="warning"),
            record("hangs", expected="silence-timeout", symptom=True, host=None),
            record("argument", expected="test-argument", stand_in="echo prints it"),
            {"bed": LOCAL_NODES, "test": "test_a", "what": "healthy", "told_by": "diagnose", "expected": ""},
        ]
    )
    assert "The collection reports the cause of 5 faults, 2 causes in all. Of 1 more it reports only a symptom." in text
    assert "The tests make 1 of the faults with two versions of Open MPI; these count once." in text
    causes, symptoms, stand_ins = text.partition("| :--- | :--- | :--- | :--- | :--- |")[2].split("\n\n")[:5:2]
    assert causes.strip().splitlines() == [
        "| full | a worker | mpi_run, Open MPI 4.1 and 5.0 | `disk-full` | g3 |",
        "| other host | a worker | mpi_run, Open MPI 4.1 | `disk-full` | g3 |",
        "| other host | a worker | mpi_run, Open MPI 5.0 | `disk-full` | g6 |",
        "| elsewhere | a worker | mpi_run, Open MPI 5.0 | `disk-full` (warning) | none |",
        "| argument | a worker | mpi_run, Open MPI 4.1 | `test-argument` | g3 |",
    ]
    assert symptoms.splitlines()[2:] == ["| hangs | a worker | mpi_run, Open MPI 4.1 | `silence-timeout` | none |"]
    assert stand_ins == "- argument: echo prints it."
    assert "1 kinds of runs have no fault" in text and "| healthy | diagnose |" in text


def test_records_of_a_test_that_failed_or_changed_since_are_not_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(SCRIPT, "ROOT", tmp_path)
    directory = tmp_path / "build" / "faults"
    matrix = FaultMatrix(directory, LOCAL_NODES)
    for name in ("test_passed", "test_failed", "test_changed"):
        (tmp_path / f"{name}.py").write_text(name)
        monkeypatch.setenv("PYTEST_CURRENT_TEST", f"{name}.py::{name} (call)")
        matrix.healthy(name, [], "diagnose")
        if name != "test_failed":
            passed(directory, f"{name}.py::{name}", tmp_path / f"{name}.py")
    (tmp_path / "test_changed.py").write_text("changed")
    assert list(SCRIPT.read_run()) == ["test_passed.py::test_passed"]
