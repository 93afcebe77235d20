# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import pathlib
import stat

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import parse_results
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.baseline import baseline_text, make_baseline
from ansible_collections.gpufabric.nccl.plugins.modules import nccl_result

LOG = pathlib.Path(__file__).parents[2] / "fixtures" / "all_reduce_perf.txt"
TEXT = LOG.read_text(encoding="utf-8")
CUT = TEXT[: TEXT.index("# Out of bounds")]


@pytest.fixture
def run(capsys):
    def run_module(**arguments):
        with patch_module_args(arguments), pytest.raises(SystemExit):
            nccl_result.main()
        return json.loads(capsys.readouterr().out)

    return run_module


def test_file_and_text_give_the_same(run):
    result = run(src=str(LOG))
    assert result["results"] == parse_results(TEXT.splitlines())
    assert result["result"] == result["results"][0]
    assert (result["changed"], result["verdict"], result["problems"]) == (False, "pass", [])
    assert run(text=TEXT)["results"] == result["results"]


def test_verdict_is_the_worst_and_problems_are_of_all(run):
    result = run(text=TEXT + CUT, points={"NCCL_ALGO": "Ring"})
    assert result["result"]["verdict"] == "pass"
    assert result["verdict"] == "incomplete"
    assert [problem["id"] for problem in result["problems"]] == ["output-cut"]
    assert [document["points"] for document in result["results"]] == [{"NCCL_ALGO": "Ring"}] * 2


def test_dest_is_written_once(run, tmp_path):
    dest = tmp_path / "results.json"
    predicted = run(src=str(LOG), dest=str(dest), _ansible_check_mode=True, _ansible_diff=True)
    assert not dest.exists()
    written = run(src=str(LOG), dest=str(dest), _ansible_diff=True)
    assert written == {**predicted, "invocation": written["invocation"]}
    assert written["changed"]
    assert written["diff"]["after"] == dest.read_text(encoding="utf-8")
    assert json.loads(dest.read_text(encoding="utf-8")) == {
        "schema": "gpufabric.nccl/results/v1",
        "verdict": "pass",
        "results": written["results"],
    }
    assert stat.S_IMODE(dest.stat().st_mode) == 0o644
    again = run(src=str(LOG), dest=str(dest), _ansible_diff=True)
    assert not again["changed"]
    assert "diff" not in again


def test_bad_verdict_fails_only_where_it_is_asked_for(run, tmp_path):
    dest = tmp_path / "results.json"
    assert "failed" not in run(text=CUT, fail_on=["fail", "unchecked"])
    result = run(text=CUT, fail_on=["incomplete"], dest=str(dest))
    assert result["failed"]
    assert result["msg"] == "the verdict is incomplete: The output ends before the program's summary."
    assert result["result"]["verdict"] == "incomplete"
    assert json.loads(dest.read_text(encoding="utf-8"))["results"] == result["results"]


FILE = "is not allowed; allowed: a file on this host that can be read"
FOLDER = "is not allowed; allowed: a path in a folder that exists, of a file or of none yet"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"src": "{tmp}/none.log"}, f"src: '{{tmp}}/none.log' {FILE} (No such file or directory)"),
        ({"src": "{tmp}"}, f"src: '{{tmp}}' {FILE} (Is a directory)"),
        ({"text": CUT, "dest": "{tmp}/none/a.json"}, f"dest: '{{tmp}}/none/a.json' {FOLDER}"),
        (
            {"text": CUT, "dest": "{tmp}/none/a.json", "_ansible_check_mode": True},
            f"dest: '{{tmp}}/none/a.json' {FOLDER}",
        ),
        ({"text": CUT, "dest": "{tmp}"}, f"dest: '{{tmp}}' {FOLDER}"),
        ({"src": "a\0b"}, f"src: 'a\\x00b' {FILE} (not a name that a file can have)"),
        (
            {"text": CUT, "baseline": {"path": "a\0b"}},
            f"baseline.path: 'a\\x00b' {FILE} (not a name that a file can have)",
        ),
        ({"text": CUT, "dest": "/a\0b"}, f"dest: '/a\\x00b' {FOLDER}"),
        *(
            (
                {"text": CUT, "points": points},
                f"points: {shown} is not allowed; allowed: with argv, env, duration_s and sweep as in a document",
            )
            for points, shown in (({"sweep": "x"}, "{{'sweep': 'x'}}"), ({"env": 5}, "{{'env': 5}}"))
        ),
        ({}, "one of the following is required: src, text, results"),
        ({"src": "/a", "text": "b"}, "parameters are mutually exclusive: src|text|results"),
        (
            {"text": "no benchmark"},
            "the text holds no output of nccl-tests: neither its first lines nor the header of its table were found",
        ),
    ],
)
def test_errors_name_option_and_value(run, tmp_path, arguments, message):
    filled = {
        name: value.format(tmp=tmp_path) if isinstance(value, str) else value for name, value in arguments.items()
    }
    result = run(**filled)
    assert result["failed"]
    assert result["msg"] == message.format(tmp=tmp_path)


def test_nothing_is_judged_unless_asked_for(run):
    result = run(src=str(LOG))
    assert "verdicts" not in result and "verdicts" not in result["result"] and "baseline" not in result


def test_rules_of_all_options_are_held_against_each_test(run):
    pytest.importorskip("jmespath")
    result = run(
        text=TEXT + CUT,
        thresholds={"rules": [{"limit": "1e9", "min_bytes": "8", "name": "fast"}], "topology": {"network": "ib"}},
        assertions=[{"that": "complete", "msg": "the output is cut"}],
        fail_on=["fail"],
    )
    assert result["failed"] and "Fast: " in result["msg"] and "The output is cut" in result["msg"]
    told = [(entry["test"], entry["rule"], entry["passed"]) for entry in result["verdicts"]]
    assert told == [
        *((1, "no wrong values", True), (1, "fast", False), (1, "complete", True)),
        *((2, "no wrong values", True), (2, "fast", False), (2, "complete", False)),
    ]
    assert [document["verdict"] for document in result["results"]] == ["fail", "fail"]


def test_results_are_held_against_a_baseline(run, tmp_path):
    path = tmp_path / "baseline.json"
    baseline = make_baseline(run(src=str(LOG))["results"])
    path.write_text(baseline_text(baseline))
    for source in ({"path": str(path)}, {"document": baseline}):
        result = run(src=str(LOG), baseline=source)
        assert (result["verdict"], result["baseline"], result["changed"]) == ("unchecked", baseline, False)
        assert run(src=str(LOG), baseline={**source, "tolerance_percent": 5})["verdict"] == "pass"
    slow = CUT.replace("5802.4", "9999.9")
    assert slow != CUT
    result = run(text=slow, baseline={"path": str(path), "tolerance_percent": 5})
    (missed,) = [entry for entry in result["verdicts"] if entry["passed"] is False]
    assert (missed["metric"], missed["value"], result["verdict"]) == ("out_of_place.time_us", 9999.9, "fail")


def test_documents_are_judged_as_the_text_is(run, tmp_path):
    rules = {"rules": [{"limit": 1, "name": "alive"}, {"limit": "1e9", "name": "fast"}]}
    documents = run(text=TEXT, points={"env": {"NCCL_ALGO": "Ring"}}, thresholds=rules)["results"]
    for source in (documents, run(text=TEXT, points={"env": {"NCCL_ALGO": "Ring"}})["results"]):
        result = run(results=source, thresholds=rules, dest=str(tmp_path / "results.json"))
        assert (result["results"], result["verdict"]) == (documents, "fail")


def test_rules_alone_are_checked(run, tmp_path):
    dest = tmp_path / "results.json"
    result = run(results=[], dest=str(dest), thresholds={"rules": [{"limit": 1}]}, fail_on=["incomplete"])
    assert "failed" not in result and (result["changed"], result["results"], result["result"]) == (False, [], None)
    assert not dest.exists()
    assert run(results=[], thresholds={"rules": [{}]})["msg"].startswith("thresholds.rules[0]: 'no limit' ")
    assert run(results=[{"schema": "gpufabric.nccl/result/v1"}])["msg"].endswith(
        "an item lacks tool, collective, complete, "
        "config, ranks, rows, lost_rows, summary, points, env, host_count, rank_count, problems, verdict"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dest": "/dev/null"}, "dest: '/dev/null' is not allowed; allowed: a path in a folder that exists, of a file"),
        ({"baseline": {"path": "/nosuch"}}, "baseline.path: '/nosuch' is not allowed; allowed: a file on this host"),
        ({"baseline": {"path": str(LOG)}}, "baseline.path: 'text that is no JSON' "),
        ({"baseline": {"document": {}}}, "baseline.document: None "),
        ({"thresholds": {"rules": [{"limit": 1, "size": "big"}]}}, "thresholds.rules[0].size: 'big' "),
        (
            {"thresholds": {"rules": [{"limit": -1}]}},
            "thresholds.rules[0].limit: -1.0 is not allowed; allowed: a number, 0 or more",
        ),
        (
            {"baseline": {"path": "/tmp/none.json"}},
            "baseline.path: '/tmp/none.json' is not allowed; allowed: a file on this host, such as nccl_baseline makes",
        ),
    ],
)
def test_bad_rules_are_one_line(run, options, message):
    result = run(src=str(LOG), **options)
    assert result["failed"] and result["msg"].startswith(message) and "\n" not in result["msg"]


def test_rules_of_no_sense_are_refused(run):
    """An option that rules do not have, and an expression that is not finished."""
    result = run(src=str(LOG), thresholds={"rules": [{"limit": 1, "hosts": 2}]})
    assert result["failed"] and "module: thresholds.rules.hosts. Supported parameters include: " in result["msg"]
    pytest.importorskip("jmespath")
    result = run(src=str(LOG), assertions=[{"that": "rank_count =="}])
    assert result["failed"] and result["msg"].startswith(
        "assertions[0].that: 'rank_count ==' is not allowed; allowed: an expression of JMESPath"
    )


@pytest.mark.parametrize("that", ["maxx(rank_count)", "complete || summary.[{a: b[?maxx(@) > `3`]}]"])
def test_a_function_that_there_is_not_is_found_before_there_are_results(that, run):
    pytest.importorskip("jmespath")
    result = run(results=[], assertions=[{"that": that}])
    assert result["msg"].endswith("is not allowed; allowed: an expression of JMESPath (Unknown function: maxx())")


def test_functions_of_assertions_are_those_of_jmespath(run):
    pytest.importorskip("jmespath")
    that = "complete && length(summary.*[?type(@) == 'string'][]) == `0` && sum([`1`, rank_count])[0:] == null"
    assert "msg" not in run(results=[], assertions=[{"that": that}])


def test_assertions_without_their_library_are_an_error(run, monkeypatch):
    monkeypatch.setattr(nccl_result, "jmespath", None)
    assert run(src=str(LOG))["verdict"] == "pass"
    result = run(src=str(LOG), assertions=[{"that": "complete"}])
    assert (
        result["msg"]
        == "assertions need the Python library jmespath on the host that the task runs on; type: pip install jmespath"
    )


@pytest.mark.parametrize("option", ["src", "baseline.path"])
def test_a_pipe_is_not_waited_for(run, tmp_path, option):
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    result = run(src=pipe) if option == "src" else run(src=str(LOG), baseline={"path": pipe})
    assert result["msg"] == f"{option}: '{pipe}' {FILE} (not a file, but a pipe or a device)"
