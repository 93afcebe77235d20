# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib
import re

import pytest
from conftest import ROOT

FIXTURES = pathlib.Path(__file__).parents[1] / "unit" / "fixtures"
OUTPUT = (FIXTURES / "alltoall_cpu.txt").read_text()


@pytest.fixture
def output(nodes):
    """A file on g1 with the output of a benchmark, in a directory of its own."""
    nodes.shell("g1", f"mkdir /tmp/results; cat >/tmp/results/stdout <<'EOF'\n{OUTPUT}EOF")
    yield "/tmp/results/stdout"
    nodes.shell("g1", "rm -r /tmp/results")


def shape(text):
    """A line of the program's output without what differs from run to run: numbers, hosts, processors."""
    text = re.sub(r"( on +)\S+( device +\d+ \[\S+\] CPU ).*", r"\1HOST\2MODEL", text)
    return re.sub(r" *\d[\d.e-]*(?= |$)", " N", text)


def test_the_fixture_is_what_the_program_prints(nodes):
    """The fixture was printed by this command, with two of the ranks on another host; it is made anew in the same way."""
    program = (ROOT / "plugins" / "plugin_utils" / "_programs" / "cpu_perf.py").read_text()
    nodes.shell("g1", f"cat >/tmp/cpu_perf.py <<'EOF'\n{program}EOF")
    command = "python3 /tmp/cpu_perf.py alltoall -b 64 -e 64K -f 1024"
    try:
        mpirun = "mpirun --allow-run-as-root --oversubscribe -np 4"
        printed = nodes.shell("g1", f"{mpirun} {command}").stdout
    finally:
        nodes.shell("g1", "rm /tmp/cpu_perf.py")
    assert [shape(line) for line in printed.splitlines()] == [shape(line) for line in OUTPUT.splitlines()]


def test_results_are_written_as_predicted(nodes, output):
    (result,) = nodes.predicted([("nccl_result", {"src": output, "dest": "/tmp/results/results.json"})])
    assert result["changed"] and result["verdict"] == "pass" and result["result"]["collective"] == "alltoall"
    assert nodes.shell("g1", "stat -c %a /tmp/results/results.json").stdout == "644\n"


def test_bad_input_is_one_line_and_changes_nothing(nodes, output):
    """Here of one option; each is tried in the module's unit test."""
    before = nodes.state("g1")
    result = nodes.module("nccl_result", {"src": output, "dest": "/nosuch/results.json"})
    assert nodes.state("g1") == before
    allowed = "a path in a folder that exists, of a file or of none yet"
    assert result["failed"] and result["msg"] == f"dest: '/nosuch/results.json' is not allowed; allowed: {allowed}"


def test_every_format_is_read_on_a_node(nodes):
    """Text and JSON, with the Python of the node."""
    names = ["torn-pieces.txt", "2018.txt", "rccl-hipevt-15-columns.txt", "json-1-misspelt.json", "rccl-reporter.json"]
    texts = [(FIXTURES / "nccl_tests" / name).read_text(encoding="utf-8") for name in names]
    for result in nodes.modules([("nccl_result", {"text": text}) for text in texts]):
        assert result["verdict"] == "pass" and result["result"]["complete"] and result["result"]["rows"]


def test_published_values_go_to_the_node_that_judges(nodes):
    """The file with them stays on the controller. Rules may be text, as of -e."""
    given = ({"reference": "oci-h100"}, '{"reference": "mine"}')
    calls = [("nccl_result", {"text": OUTPUT, "thresholds": thresholds}) for thresholds in given]
    judged, refused = nodes.modules(calls)
    rules = [(entry["rule"], entry["passed"]) for entry in judged["verdicts"]]
    # It is for GPUs.
    assert rules == [("no wrong values", True), ("reference oci-h100", None)]
    message = "thresholds.reference: 'mine' is not allowed; allowed: one of nvcre-aws-h100, "
    assert refused["failed"] and refused["msg"].startswith(message)
