# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight import summary as steps


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
    "d": {"ansible_host_key_checking": "false", "ansible_user": "u"},
    "e": {"ansible_ssh_common_args": "-o StrictHostKeyChecking=No", "ansible_user": "u"},
    "pod": {"ansible_connection": "kubernetes.core.kubectl"},
    "behind": {"ansible_ssh_common_args": "-o ProxyJump=bastion"},
    "jump": {"ansible_ssh_common_args": "-J bastion"},
}


def test_endpoints_of_the_inventory():
    assert steps.ssh_endpoints(VARIABLES, VARIABLES) == [
        {"name": "a", "address": "10.0.0.1", "port": 2222, "user": "u", "key_file": "/k"},
        {"name": "b", "address": "b", "port": 22, "user": "u", "key_file": None, "known_hosts": ["/h"]},
        {"name": "c", "address": "c", "port": 22, "user": "v", "key_file": None, "known_hosts": []},
        {"name": "d", "address": "d", "port": 22, "user": "u", "key_file": None, "known_hosts": []},
        {"name": "e", "address": "e", "port": 22, "user": "u", "key_file": None, "known_hosts": []},
    ]


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        *(
            ({"ansible_port": port}, f"ansible_port of g1: {port!r} is not allowed; allowed: 1 to 65535")
            for port in ("ssh", "\u00b2", -1, 65536, [22], 22.5)
        ),
        (
            {"ansible_ssh_common_args": "-o 'User=u"},
            'ansible_ssh_args, ansible_ssh_common_args and ansible_ssh_extra_args of g1: " -o \'User=u " is not allowed;'
            " allowed: arguments of ssh, with quotes in pairs",
        ),
    ],
)
def test_odd_values_of_the_inventory_are_told_by_their_variables(variables, message):
    with pytest.raises(OptionError) as error:
        steps.ssh_endpoints(["g1"], {"g1": variables})
    assert str(error.value) == message


def test_hosts_bring_the_python_that_is_known():
    peers = [{"name": name, "address": "10.0.0.1", "run_dir": "/r", "port": 1} for name in ("a", "b")]
    variables = {"a": {"ansible_python_interpreter": "/usr/bin/python3"}, "b": {"ansible_python_interpreter": "auto"}}
    own = {"address": "10.0.0.1", "run_dir": "/r"}
    assert steps.preflight_hosts(peers, variables, None) == [
        {"name": "a", **own, "python": "/usr/bin/python3"},
        {"name": "b", **own},
    ]


def test_hosts_bring_the_names_of_their_own_interfaces():
    usual = {"gpufabric_control_interface": "eth0", "gpufabric_data_interface": "net1"}
    variables = {
        "a": usual,
        "b": {"gpufabric_control_interface": "eno1", "gpufabric_data_interface": "ib0"},
        "c": {"gpufabric_control_subnet": "10.0.0.3/32", "gpufabric_data_interface": "net1"},
        "d": {},
    }
    peers = [{"name": name, "address": "10.0.0.1", "run_dir": "/r"} for name in variables]
    names = ("control_interface", "data_interface")
    found = [tuple(host.get(name) for name in names) for host in steps.preflight_hosts(peers, variables, usual)]
    assert found == [(None, None), ("eno1", "ib0"), ("", "net1"), ("", "")]
    # Those of the play are those of all.
    assert all("data_interface" not in host for host in steps.preflight_hosts(peers, variables, None))


def test_reasons_of_refusals():
    problems = [entry("g2", identity="ssh-closed"), entry("g3", identity="ssh-auth-refused"), entry("g4")]
    row = {"address": "10.0.0.2", "ok": False, "stage": "connect", "facts": None}
    hosts = [{**row, "name": one["host"], "problems": [one["id"]]} for one in problems]
    look = {"ok": False, "problems": problems, "hosts": hosts}
    assert steps.refusing_hosts(look) == ["g2", "g3"] and steps.refusing_hosts({"skipped": True}) == []
    logs = {"g2": {"problems": [entry("node-2", identity="pam-refused")]}, "g3": {"unreachable": True}, "g4": {}}
    found = steps.explained_refusals(look, logs)
    assert [(one["id"], one["host"]) for one in found["problems"]] == [
        ("pam-refused", "g2"),
        ("ssh-auth-refused", "g3"),
        ("cold", "g4"),
    ]
    evidence = problems[1]["evidence"]
    assert [one["evidence"] for one in found["problems"]][1] == evidence
    logs["g3"] = {"problems": [], "lines": ["Connection from", "Failed publickey"]}
    assert (
        steps.explained_refusals(look, logs)["problems"][1]["evidence"]
        == f"{evidence}\nConnection from\nFailed publickey".strip()
    )
    assert [host["problems"] for host in found["hosts"]] == [["pam-refused"], ["ssh-auth-refused"], ["cold"]]
    assert steps.explained_refusals({"skipped": True}, {}) == {"ok": True, "hosts": [], "problems": []}
    assert not steps.explained_refusals({"failed": True, "msg": "no ssh"}, {})["ok"]


@pytest.mark.parametrize(
    ("identity", "lines", "told"),
    [
        ("ssh-session", ["Connection from 10.0.0.1 port 5"], "ssh-login-stuck"),
        ("ssh-session", ["Connection from 10.0.0.1 port 5", "Accepted publickey for root"], "ssh-session"),
        (
            "ssh-session",
            ["Connection from 10.0.0.1 port 5", "Connection closed by 10.0.0.1 port 5 [preauth]"],
            "ssh-login-stuck",
        ),
        (
            "ssh-session",
            [
                "Connection from 10.0.0.1 port 5",
                "Connection closed by authenticating user root 10.0.0.1 port 5 [preauth]",
            ],
            "ssh-session",
        ),
        ("ssh-session", ["something else"], "ssh-session"),
        ("ssh-session", [], "ssh-session"),
        ("ssh-session", "Connection from 10.0.0.1 port 5", "ssh-session"),
        # It was not silent.
        ("ssh-closed", ["Connection from 10.0.0.1 port 5"], "ssh-closed"),
        (
            "ssh-closed",
            ["Connection from 10.0.0.1 port 5", "fatal: Timeout before authentication for 10.0.0.1 port 5"],
            "ssh-login-stuck",
        ),
    ],
)
def test_a_login_that_sshd_says_nothing_of_has_not_worked(identity, lines, told):
    row = {"name": "g2", "address": "10.0.0.2", "ok": False, "stage": "session", "facts": None, "problems": [identity]}
    look = {"ok": False, "problems": [entry("g2", identity=identity)], "hosts": [row]}
    found = steps.explained_refusals(look, {"g2": {"problems": [], "lines": lines}})
    assert [(one["id"], one["host"]) for one in found["problems"]] == [(told, "g2")]
    assert [host["problems"] for host in found["hosts"]] == [[told]]


def test_problems_of_lost_hosts():
    lost = {
        "a": [entry("a"), entry(None, identity="kube-unreachable")],
        "b": [entry("b", identity="host-unreachable")],
        "c": [entry("c", identity="host-unreachable"), entry(None, identity="kube-unreachable")],
    }
    found = steps.lost_problems(lost, [entry("a", identity="other"), entry("c", identity="connect-timeout")])
    assert [(one["id"], one["host"]) for one in found] == [
        ("cold", "a"),
        # What no host is the reason of is told once.
        ("kube-unreachable", None),
        ("host-unreachable", "b"),
        # Why Ansible cannot reach it is known.
        ("connect-timeout", "c"),
    ]
    assert steps.lost_problems({}) == []


class Counted(dict):
    compared = 0

    def __eq__(self, other):
        Counted.compared += 1
        return super().__eq__(other)


def test_problems_of_one_host_are_not_compared_with_one_another():
    told = [Counted({**entry("a"), "evidence": str(number)}) for number in range(300)]
    assert len(steps.lost_problems({"a": told, "b": told[:1]})) == 300
    assert Counted.compared < 1000


def test_hosts_that_were_not_looked_at_are_in_a_diagnosis():
    found = [entry("a", identity="step-failed"), entry("b", identity="host-unreachable"), entry("c")]
    rows = steps.diagnosed_hosts("abcd", [{"name": "d", "address": "x", "stage": None, "facts": {}}], found)
    assert [(row["name"], row["ok"], row["problems"]) for row in rows] == [
        ("a", False, ["step-failed"]),
        ("b", False, ["host-unreachable"]),
        ("c", False, ["cold"]),
        ("d", True, []),
    ]
