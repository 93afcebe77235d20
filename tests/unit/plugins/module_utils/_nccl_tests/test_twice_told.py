# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import pathlib

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests import twice_told
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import parse_file
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.twice_told import with_json

FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures" / "nccl_tests"
REAL = sorted(path.stem for path in FIXTURES.glob("2.19.6-*.json"))


def both(name):
    return parse_file(str(FIXTURES / f"{name}.txt"))[0], str(FIXTURES / f"{name}.json")


@pytest.mark.parametrize("name", REAL)
def test_real_outputs_tell_the_same_twice(name):
    document, path = both(name)
    found = with_json(document, path)
    assert found["problems"] == document["problems"] and found["verdict"] == document["verdict"]
    assert found["json_output"] == "out.json" and (found["stragglers"] is not None) == (name == "2.19.6-per-iteration")


def set_half(name, value):
    return lambda told: told["results"][1]["in_place"].update({name: value})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (set_half("time", 1.0), "time_us "),
        (set_half("bus_bw", 9.0), "busbw "),
        (set_half("nwrong", 3.0), "#wrong 0 at size 8192 in-place, 3 in the JSON"),
        (set_half("nwrong", None), "#wrong 0 at size 8192 in-place, None in the JSON"),
        (lambda told: told["results"].pop(), "3 rows in the table, 2 in the JSON"),
        (lambda told: told["results"][0].update(size=1025), "size 1024 in the table, 1025 in the JSON"),
        (lambda told: told["results"][0].update(out_of_place=None), "no values at size 1024 out-of-place in the JSON"),
        (set_half("time", float("nan")), "at size 8192 in-place, None in the JSON"),
    ],
)
def test_what_differs_is_a_warning(tmp_path, change, words):
    document, path = both("2.19.6-per-iteration")
    told = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    change(told)
    changed = tmp_path / "out.json"
    changed.write_text(json.dumps(told), encoding="utf-8")
    found = with_json(document, str(changed))
    (problem,) = found["problems"]
    assert (problem["id"], problem["severity"]) == ("json-differs", "warning") and words in problem["evidence"]
    assert found["rows"] == document["rows"] and found["verdict"] == "pass"


@pytest.mark.parametrize(
    ("name", "key", "printed", "exact", "alike"),
    [
        # Two decimals.
        ("busbw", "bus_bw", 0.05, 0.055, True),
        ("busbw", "bus_bw", 0.05, 0.057, False),
        # Four digits or more, and from 10 s on two.
        ("time_us", "time", 2536.0, 2538.0, True),
        ("time_us", "time", 2536.0, 2540.0, False),
        ("time_us", "time", 1.2e7, 1.249e7, True),
        ("time_us", "time", 1.2e7, 1.3e7, False),
    ],
)
def test_the_two_may_differ_by_what_the_table_is_rounded(tmp_path, name, key, printed, exact, alike):
    document, path = both("2.19.6-per-iteration")
    document["rows"][1]["in_place"][name] = printed
    told = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    set_half(key, exact)(told)
    changed = tmp_path / "out.json"
    changed.write_text(json.dumps(told), encoding="utf-8")
    found = with_json(document, str(changed))["problems"]
    assert [problem["id"] for problem in found] == ([] if alike else ["json-differs"])


def test_a_number_in_one_of_the_two_only_differs():
    document, path = both("2.19.6-per-iteration")
    told = parse_file(path)[0]["rows"][1]["in_place"]["busbw"]
    document["rows"][1]["in_place"]["busbw"] = None
    (problem,) = with_json(document, path)["problems"]
    assert (problem["id"], problem["evidence"]) == (
        "json-differs",
        f"busbw None at size 8192 in-place, {told} in the JSON",
    )


def test_a_half_that_neither_has_is_no_difference(tmp_path):
    """As where a trace is replayed."""
    document, path = both("2.19.6-per-iteration")
    told = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    for row, entry in zip(document["rows"], told["results"]):
        row["out_of_place"] = entry["out_of_place"] = None
    told["average_bus_bandwidth"]["bandwidth"] = sum(entry["in_place"]["bus_bw"] for entry in told["results"]) / 3
    changed = tmp_path / "out.json"
    changed.write_text(json.dumps(told), encoding="utf-8")
    assert with_json(document, str(changed))["problems"] == document["problems"]


@pytest.mark.parametrize(
    ("printed", "exact", "alike"), [("1.23457e+06", 1234567.0, True), ("1.23457e+06", 1234577.0, False)]
)
def test_many_wrong_values_are_rounded_in_the_table(tmp_path, printed, exact, alike):
    text = (FIXTURES / "2.19.6-wrong.txt").read_text(encoding="utf-8")
    table = tmp_path / "out.txt"
    table.write_text(text.replace("0.09    0.13       1", f"0.09    0.13 {printed}"), encoding="utf-8")
    told = json.loads((FIXTURES / "2.19.6-wrong.json").read_text(encoding="utf-8"))
    told["results"][2]["in_place"]["nwrong"] = exact
    changed = tmp_path / "out.json"
    changed.write_text(json.dumps(told), encoding="utf-8")
    (document,) = parse_file(str(table))
    assert document["summary"]["wrong"] == 1234575
    found = [problem["id"] for problem in with_json(document, str(changed))["problems"]]
    assert ("json-differs" in found) is not alike


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "No such file"),
        ("", "neither its first lines"),
        ("{" * 100000, "neither its first lines"),
        ('{"version":3,"args":[', "its end is missing"),
        ("\0\xff", "neither its first lines"),
        (2, "it holds 2 tests in place of one"),
    ],
)
def test_json_that_cannot_be_read_is_a_warning(tmp_path, text, words):
    document, path = both("2.19.6-per-iteration")
    if text is not None:
        whole = pathlib.Path(path).read_text(encoding="utf-8")
        (tmp_path / "out.json").write_text(whole * text if isinstance(text, int) else text, encoding="utf-8")
    found = with_json(document, str(tmp_path / "out.json"))
    (problem,) = found["problems"]
    assert (problem["id"], problem["severity"], found["verdict"]) == ("json-unread", "warning", "pass")
    assert words in problem["evidence"]
    assert found["stragglers"] is None and found["rows"] == document["rows"]


def test_json_of_a_program_that_failed_may_lack_its_end(tmp_path):
    document, _path = both("2.19.6-per-iteration")
    failed = {**document, "verdict": "fail"}
    (tmp_path / "out.json").write_text('{"version":3,"args":[', encoding="utf-8")
    assert with_json(failed, str(tmp_path / "out.json")) == failed


def test_json_that_is_too_large_is_not_read(monkeypatch):
    document, path = both("2.19.6-per-iteration")
    monkeypatch.setattr(twice_told, "_MOST", 1000)
    (problem,) = with_json(document, path)["problems"]
    assert problem["id"] == "json-unread" and "more than 1000 B" in problem["evidence"]
