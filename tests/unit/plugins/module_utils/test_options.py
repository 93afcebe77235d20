# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._options import read_value, read_values

LIST, NUMBERS = {"type": "list", "elements": "str"}, {"type": "list", "elements": "int"}
DICTS = {"type": "list", "elements": "dict"}
#: (type, what may be given, what it means).
SAME = [
    (LIST, (["a", "b"], ("a", "b"), "a,b", "a, b", "a\nb", "a,\nb\n", '["a", "b"]', ' ["a","b"]\n'), ["a", "b"]),
    (LIST, ("sriov", ["sriov"], '["sriov"]'), ["sriov"]),
    (LIST, ([8], 8, "8", "[8]"), ["8"]),
    (LIST, ([], "[]"), []),
    (NUMBERS, ([1, 2], ["1", "2"], "1,2", "[1, 2]", "1\n2"), [1, 2]),
    (NUMBERS, (4, "4"), [4]),
    (DICTS, ([{"key": "x"}], {"key": "x"}, '[{"key": "x"}]', '{"key": "x"}'), [{"key": "x"}]),
    ({"type": "dict"}, ({"A": "1", "B": "2"}, '{"A": "1", "B": "2"}', "A=1,B=2", "A=1\nB=2", "A = 1, B = 2"), {"A": "1", "B": "2"}),
    ({"type": "dict"}, ({"A": "x=y"}, "A=x=y"), {"A": "x=y"}),
    ({"type": "bool"}, (True, "true", "True", "yes", "on", "1", 1), True),
    ({"type": "bool"}, (False, "false", "no", "off", "0", 0), False),
    ({"type": "int"}, (8, "8", " 8 ", 8.0, "8.0"), 8),
    ({"type": "float"}, (1.5, "1.5"), 1.5),
    ({"type": "str"}, ("", ""), ""),
    ({"type": "str"}, (8, "8"), "8"),
    ({"type": "str", "choices": ["auto", "cpu"]}, ("cpu",), "cpu"),
    ({"type": "str", "choices": ["auto", "true", "false"]}, ("true", True), "true"),
    ({"type": "int", "default": 4}, (None, "", " "), 4),
    ({"type": "list", "default": ["a"]}, (None, ""), ["a"]),
    ({"type": "int"}, (None, ""), None),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "given", "meant"), SAME, ids=range(len(SAME)))
def test_values_mean_the_same_however_they_are_given(spec, given, meant):
    read = [read_value("x", spec, value) for value in given]
    assert read == [meant] * len(given) and [type(value) for value in read] == [type(meant)] * len(given)


@pytest.mark.parametrize(
    ("spec", "value", "message"),
    [
        (LIST, {"a": 1}, "x: {'a': 1} is not allowed; allowed: a list; as text with commas, with lines, or in JSON"),
        (LIST, '["a"', "x: '[\"a\"' is not allowed; allowed: text that is JSON if it begins like it (Expecting ','"),
        (NUMBERS, "1,two", "x[1]: 'two' is not allowed; allowed: a whole number"),
        (NUMBERS, "1.5", "x: '1.5' is not allowed; allowed: a whole number"),
        ({"type": "dict"}, "A", "x: 'A' is not allowed; allowed: a dictionary; as text NAME=VALUE with commas, with lines"),
        ({"type": "dict"}, "A=1,B", "x: 'A=1,B' is not allowed; allowed: a dictionary"),
        ({"type": "dict"}, "[1]", "x: [1] is not allowed; allowed: a dictionary"),
        ({"type": "bool"}, "maybe", "x: 'maybe' is not allowed; allowed: true or false"),
        ({"type": "int"}, "8G", "x: '8G' is not allowed; allowed: a whole number"),
        ({"type": "int"}, True, "x: True is not allowed; allowed: a whole number"),
        ({"type": "int"}, "nan", "x: 'nan' is not allowed; allowed: a whole number"),
        ({"type": "float"}, "inf", "x: 'inf' is not allowed; allowed: a number"),
        ({"type": "str"}, "\ud800", "x: '\\ud800' is not allowed; allowed: a text without NUL and halves of characters"),
        (LIST, ["a", "b\0"], "x[1]: 'b\\x00' is not allowed; allowed: a text without NUL and halves of characters"),
        ({"type": "int"}, "9" * 5000, "x: '999"),
        ({"type": "int"}, 10**19, "x: 10000000000000000000 is not allowed; allowed: a whole number of at most 64 bits"),
        ({"type": "str"}, ["a"], "x: ['a'] is not allowed; allowed: a text"),
        ({"type": "str", "choices": ["auto", "cpu"]}, "gpu", "x: 'gpu' is not allowed; allowed: auto, cpu"),
        ({**LIST, "choices": ["a", "b"]}, "a,c", "x: 'c' is not allowed; allowed: a, b"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_by_name(spec, value, message):
    with pytest.raises(OptionError) as error:
        read_value("x", spec, value)
    assert str(error.value).startswith(message)


def test_json_that_is_nested_without_end_is_refused():
    with pytest.raises(OptionError, match="allowed: text that is JSON if it begins like it"):
        read_value("x", LIST, "[" * 100000)


def test_all_variables_are_read_at_once():
    specs = {"a": {"type": "int", "default": 1}, "b": LIST, "c": {"type": "str"}}
    assert read_values(specs, {"a": "2", "b": "x,y", "other": 1}) == {"a": 2, "b": ["x", "y"], "c": None}
