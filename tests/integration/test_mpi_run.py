# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

POINT = {"argv": ["true"]}
BAD_INPUT = [
    ({"points": []}, "points: [] is not allowed; allowed: at least one point"),
    ({"points": [POINT, {"argv": []}]}, "points[1].argv: [] is not allowed; allowed: a program and its arguments"),
    ({"points": [{**POINT, "timeout": 0}]}, "points[0].timeout: 0.0 is not allowed; allowed: more than 0 seconds"),
    ({"points": [{**POINT, "env": {"A B": 1}}]}, "points[0].env: {'A B': '1'} is not allowed; allowed: names of"),
    ({"timeout": -1}, "timeout: -1.0 is not allowed; allowed: more than 0 seconds"),
    ({"hostfile": "/nosuch"}, "hostfile: '/nosuch' is not allowed; allowed: a hostfile on this node"),
    ({"ranks_per_node": 0}, "ranks_per_node: 0 is not allowed; allowed: 1 or more"),
    ({"mpi_prefix": "/nosuch"}, "mpi_prefix: '/nosuch' is not allowed; allowed: a directory with bin/mpirun in it"),
    ({"control_interface": "eth0 net1"}, "control_interface: 'eth0 net1' is not allowed; allowed: the name of an"),
    ({"mca": {"a b": 1}}, "mca: {'a b': '1'} is not allowed; allowed: names of MCA parameters"),
    ({"run_id": "a/b"}, "run_id: 'a/b' is not allowed; allowed: 1 to 63 letters"),
    ({"run_dir": "/etc/passwd/run"}, "run_dir: /etc/passwd/run cannot be made, because /etc/passwd is not a directory"),
]


def test_bad_input_is_one_line_and_changes_nothing(nodes):
    nodes.shell("g1", "echo 127.0.0.1 > /tmp/hostfile")
    before = nodes.state("g1")
    given = {"run_id": "bad", "points": [POINT], "hostfile": "/tmp/hostfile"}
    results = nodes.modules([("mpi_run", {**given, **options}) for options, _message in BAD_INPUT])
    for result, (options, message) in zip(results, BAD_INPUT):
        assert result["failed"], options
        assert result["msg"].startswith(message) and "\n" not in result["msg"]
    assert nodes.state("g1") == before
    nodes.shell("g1", "rm /tmp/hostfile")
