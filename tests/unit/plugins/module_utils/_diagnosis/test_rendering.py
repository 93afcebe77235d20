# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.rendering import (
    problems_markdown,
    problems_text,
)


def entry(host, cause="It is cold.", cure="Heat it.", severity="error", evidence="", identity="cold"):
    return {"id": identity, "severity": severity, "host": host, "cause": cause, "cure": cure, "evidence": evidence}


def test_hosts_with_the_same_problem_are_named_together():
    text = problems_text(
        [
            entry("g2", evidence="one\ntwo"),
            entry("g4", severity="warning", cure="Wait.", identity="slow", cause="It is slow."),
            entry("g3", cause="It is colder."),
        ],
        ["/var/log/x"],
    )
    assert text.splitlines() == [
        "WHAT IS WRONG",
        "  g2, g3: It is cold (and the like on 1 more).",
        "    To do: Heat it.",
        "WHAT MAY BE WRONG",
        "  g4: It is slow.",
        "    To do: Wait.",
        "EVIDENCE",
        "  g2, cold: one",
        "    two",
        "LOGS",
        "  /var/log/x",
    ]
    assert problems_text([]) == "No problem was found."


def test_many_hosts_are_counted():
    (line,) = [line for line in problems_text([entry(f"g{n}") for n in range(20)]).splitlines() if "g0" in line]
    assert line == "  g0, g1, g2, g3, g4, g5, g6, g7 and 12 more: It is cold."


def test_a_document():
    text = problems_markdown(
        [entry("g2", evidence="line")], [{"name": "g2", "address": None, "stage": "connect", "problems": ["cold"]}]
    )
    assert "### g2: It is cold." in text and "To do: Heat it." in text and "    g2: line" in text
    assert "| g2 |  | connect | cold |" in text
    assert "No problem was found." in problems_markdown([])


def test_several_causes_of_the_same_host_are_all_told():
    causes = [{**entry("a"), "cause": cause} for cause in ("No Services.", "No Endpoints.")]
    assert "  a: No Services. No Endpoints." in problems_text(causes).splitlines()


def test_text_of_machines_is_neither_a_line_of_its_own_nor_a_control_sequence():
    hostile = entry("g2\x1b[2J", cause="It is\nok: [g2]", cure="b\rfake", evidence=" \x1b]52;c;aGk=\x07")
    lines = problems_text([hostile, entry("g3", evidence=" \n ")]).splitlines()
    assert all(line.isprintable() for line in lines) and lines[1] == "  g2\ufffd[2J: It is ok: [g2]."


def test_text_of_machines_is_no_markup():
    hostile = entry("g|2", cause="<img src=x onerror=alert(1)> [a](b)", cure="`x`", evidence="\x1b[2J")
    text = problems_markdown([hostile], [{"name": "g|2", "address": "<b>", "stage": "a|b", "problems": ["x|y"]}])
    assert "<" not in text and "[a]" not in text.replace("\\[a\\]", "") and "\x1b" not in text
    assert r"| g\|2 | &lt;b> | a\|b | x\|y |" in text and r"To do: \`x\`." in text
