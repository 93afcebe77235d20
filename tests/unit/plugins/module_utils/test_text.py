# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import (
    clean,
    clean_values,
    indented,
    inert,
    one_line,
    shown_environment,
)


@pytest.mark.parametrize(
    "hostile",
    [
        "\x1b[2J",
        "\x1b]0;title\x07",
        "\x1b]52;c;aGk=\x07",
        "\rok: [w1]",
        "\x9b2J",
        "\x85",
        "\x00",
        "\x7f",
        "\u202e",
        "\u2066",
        "\ud800",
    ],
    ids=repr,
)
def test_clean_leaves_nothing_that_controls_a_terminal(hostile):
    text = clean(f"a{hostile}b")
    assert text.isprintable() and text[0] == "a" and text[-1] == "b" and "\ufffd" in text


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "a\tb", "a\x0bb", "a\x85b", "a\u2028b"])
def test_one_line_is_one_line(text):
    assert one_line(text).isprintable() and len(one_line(text)) == 3


def test_one_line_keeps_the_columns_of_a_table_and_is_not_endless():
    assert one_line("   8  1.00") == "   8  1.00"
    assert one_line("x" * 1000) == "x" * 300 + "…" and one_line("x" * 1000, 1000) == "x" * 1000


def test_clean_keeps_lines_tabs_and_letters():
    assert clean("größe 大\tx\ny\r\nz") == "größe 大\tx\ny\nz"


def test_clean_values_goes_into_lists_and_dictionaries():
    assert clean_values({"a\x1b": ["b\x1b", 1, None, True]}) == {"a\ufffd": ["b\ufffd", 1, None, True]}


def test_lines_after_the_first_are_indented_once():
    text = indented("a\nok: [g2]\n\n b\n  c\n")
    assert text == "a\n  ok: [g2]\n\n   b\n  c\n  " and indented(text) == text and indented("a") == "a"


def test_inert_is_no_template():
    assert inert("{{ a }} {% b %} {# c #} {d}") == "{ { a }} { % b %} { # c #} {d}"
    assert inert("{{{%") == "{ { { %"


def test_values_of_variables_that_may_be_tokens_are_not_shown():
    variables = {"NCCL_ALGO": "Ring", "WANDB_API_KEY": "s3cr3t", "MY_LEVEL": "3", "UCX_TLS": None, "HF_TOKEN": "t"}
    shown = shown_environment(variables, {"MY_LEVEL": "3"})
    assert shown == {**variables, "WANDB_API_KEY": "(not shown)", "HF_TOKEN": "(not shown)"}
