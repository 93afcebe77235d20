# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils import _preflight_report as report


def entry(host, cause="It is cold.", cure="Heat it.", severity="error", evidence="", identity="cold"):
    return {"id": identity, "severity": severity, "host": host, "cause": cause, "cure": cure, "evidence": evidence}


VARIABLES = {
    "a": {
        "ansible_host": "10.0.0.1",
        "ansible_port": "2222",
        "ansible_user": "u",
        "ansible_ssh_private_key_file": "/k",
    },
    "b": {"ansible_ssh_common_args": "-o UserKnownHostsFile=/h -o 'StrictHostKeyChecking yes'", "ansible_user": "u"},
    "c": {"ansible_ssh_extra_args": "-o StrictHostKeyChecking=no", "ansible_ssh_user": "v", "ansible_user": "u"},
    "pod": {"ansible_connection": "kubernetes.core.kubectl"},
    "behind": {"ansible_ssh_common_args": "-o ProxyJump=bastion"},
    "jump": {"ansible_ssh_common_args": "-J bastion"},
}


def test_endpoints_of_the_inventory():
    assert report.ssh_endpoints(VARIABLES, VARIABLES) == [
        {"name": "a", "address": "10.0.0.1", "port": 2222, "user": "u", "key_file": "/k"},
        {"name": "b", "address": "b", "port": 22, "user": "u", "key_file": None, "known_hosts": ["/h"]},
        {"name": "c", "address": "c", "port": 22, "user": "v", "key_file": None, "known_hosts": []},
    ]


def test_hosts_bring_the_python_that_is_known():
    peers = [{"name": name, "address": "10.0.0.1", "run_dir": "/r", "port": 1} for name in ("a", "b")]
    variables = {"a": {"ansible_python_interpreter": "/usr/bin/python3"}, "b": {"ansible_python_interpreter": "auto"}}
    own = {"address": "10.0.0.1", "run_dir": "/r"}
    assert report.preflight_hosts(peers, variables) == [
        {"name": "a", **own, "python": "/usr/bin/python3"},
        {"name": "b", **own},
    ]


def test_hosts_with_the_same_problem_are_named_together():
    text = report.problems_text(
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
    assert report.problems_text([]) == "No problem was found."


def test_many_hosts_are_counted():
    (line,) = [line for line in report.problems_text([entry(f"g{n}") for n in range(20)]).splitlines() if "g0" in line]
    assert line == "  g0, g1, g2, g3, g4, g5, g6, g7 and 12 more: It is cold."


def test_failures_of_a_step():
    results = {
        "a": {"failed": True, "msg": "no sshd"},
        "b": {"unreachable": True, "msg": "timed out"},
        "c": {"unreachable": True, "msg": "timed out"},
        "d": {"changed": True},
    }
    found = report.step_problems(results, "to run", [entry("c")])
    assert [(one["id"], one["host"]) for one in found] == [
        ("step-failed", "a"),
        ("host-unreachable", "b"),
        ("cold", "c"),
    ]
    assert "no sshd" in found[0]["cause"] and found[1]["evidence"] == "timed out"
    rows = report.diagnosed_hosts(results, [{"name": "d", "address": "x", "stage": None, "facts": {}}], found)
    assert [(row["name"], row["ok"], row["problems"]) for row in rows] == [
        ("a", False, ["step-failed"]),
        ("b", False, ["host-unreachable"]),
        ("c", False, ["cold"]),
        ("d", True, []),
    ]


def test_a_document():
    text = report.problems_markdown(
        [entry("g2", evidence="line")], [{"name": "g2", "address": None, "stage": "connect", "problems": ["cold"]}]
    )
    assert "### g2: It is cold." in text and "To do: Heat it." in text and "    g2: line" in text
    assert "| g2 |  | connect | cold |" in text
    assert "No problem was found." in report.problems_markdown([])
