# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib

import pytest

FIXTURES = pathlib.Path(__file__).parents[1] / "unit" / "fixtures"
OUTPUT = (FIXTURES / "alltoall_cpu.txt").read_text()


@pytest.fixture
def output(nodes):
    """A file on g1 with the output of a benchmark, in a directory of its own."""
    nodes.shell("g1", f"mkdir /tmp/results; cat >/tmp/results/stdout <<'EOF'\n{OUTPUT}EOF")
    yield "/tmp/results/stdout"
    nodes.shell("g1", "rm -r /tmp/results")


def test_results_are_written_as_predicted(nodes, output):
    (result,) = nodes.predicted([("nccl_result", {"src": output, "dest": "/tmp/results/results.json"})])
    assert result["changed"] and result["verdict"] == "pass" and result["result"]["collective"] == "alltoall"
    assert nodes.shell("g1", "stat -c %a /tmp/results/results.json").stdout == "644\n"


def test_bad_input_is_one_line_and_changes_nothing(nodes, output):
    cases = [
        ({"src": "/nosuch"}, "src: '/nosuch' is not allowed; allowed: "),
        ({"src": output, "dest": "/nosuch/results.json"}, "dest: '/nosuch/results.json' is not allowed; allowed: "),
        ({"text": "no benchmark"}, "the text holds no output of nccl-tests"),
    ]
    before = nodes.state("g1")
    results = nodes.modules([("nccl_result", options) for options, _message in cases])
    for result, (_options, message) in zip(results, cases):
        assert result["failed"] and result["msg"].startswith(message) and "\n" not in result["msg"]
    assert nodes.state("g1") == before


def test_every_format_is_read_on_a_node(nodes):
    """Text and JSON, with the Python of the node."""
    names = ["torn-pieces.txt", "2018.txt", "rccl-hipevt-15-columns.txt", "json-1-misspelt.json", "rccl-reporter.json"]
    texts = [(FIXTURES / "nccl_tests" / name).read_text(encoding="utf-8") for name in names]
    for result in nodes.modules([("nccl_result", {"text": text}) for text in texts]):
        assert result["verdict"] == "pass" and result["result"]["complete"] and result["result"]["rows"]
