# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Peers and launchers that answer with anything."""

from __future__ import annotations

import copy
import json
import random

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.plan import complete_results
from ansible_collections.gpufabric.nccl.plugins.module_utils._connect import Attempt
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.rendering import (
    problems_markdown,
    problems_text,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight import summary
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.answers import (
    checked_facts,
    checked_hosts,
    checked_links,
    complete,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.checks import Seen, Settings
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.sessions import judge

MIB = 1 << 20
SETTINGS = Settings("g1", "/usr", "orted", "/run/x", full=True, control="eth0", data_interface="net1", program="/opt/p")
#: What the probe says of a healthy host.
ANSWER = {
    "hostname": "node-2",
    "shell": "/bin/bash",
    "python": "/usr/bin/python3",
    "environment": {"LD_LIBRARY_PATH": True},
    "daemon": {
        "path": "/usr/bin/orted",
        "exists": True,
        "executable": True,
        "missing": [],
        "runtime": "libopen-rte.so.40.30.2",
        "version": "mpirun (Open MPI) 4.1.4\n\nReport bugs",
    },
    "program": {
        "path": "/opt/p",
        "exists": True,
        "executable": True,
        "missing": [],
        "sha256": "a",
        "mpi": "/usr/lib/libmpi.so.40",
        "nccl": None,
    },
    "interfaces": {
        "eth0": {"mtu": 1500, "addresses": ["10.0.0.2/24"]},
        "net1": {"mtu": 9000, "addresses": ["192.168.0.2/24"]},
    },
    "callback": {
        "address": "10.0.0.1",
        "port": 5,
        "status": "ok",
        "text": "",
        "by": None,
        "source": "10.0.0.2",
        "seconds": 0.01,
        "offset": 0.1,
    },
    "gpus": {"count": 2, "error": None},
    "shm": {"path": "/dev/shm", "size": 1024 * MIB, "free": 1000 * MIB, "read_only": False},
    "memlock": None,
    "open_files": 4096,
    "address_space": None,
    "processes": -3,
    "disks": [{"path": "/run", "size": 1024 * MIB, "free": 1000 * MIB, "error": None}],
    "rdma": [{"device": "mlx5_0", "port": 1, "state": "ACTIVE", "link_layer": "Ethernet", "gids": [0, 3]}],
    "rdma_env": {"NCCL_IB_HCA": "^mlx5_8", "NCCL_IB_GID_INDEX": "3"},
    "data": {"net1": {"address": "192.168.0.2", "port": 6}},
    "control": {"address": "10.0.0.2", "port": 7},
}
LINKS = {"net1": {"g1": {"status": "ok", "text": "", "by": None}}, "the control network": {}}
#: A point that failed, for which the hosts were looked at.
PLAN = {"hosts": [{"name": "g2", "address": "10.0.0.2"}], "points": [{"name": "all_reduce", "argv": ["x"], "env": {}}]}
RUN = {
    "points": [
        {"status": "failed", "problems": [problem("btl-interface-missing", "10.0.0.2", "Value: eth9").as_dict()]}
    ]
}


def nested(depth):
    value = []
    for _level in range(depth):
        value = [value]
    return value


#: What takes the place of a value.
JUNK = [
    *(None, True, False, 0, -1, 1 << 70, 16**5000, 1.5, float("nan"), float("inf"), "", "ok", "x" * 100_000, b"bytes"),
    *(
        "{{ lookup('pipe', 'id') }}",
        "\x1b[2J\u202e\n",
        [],
        {},
        (),
        [[]],
        [None],
        {"a": 1},
        {1: 2},
        {None: None},
        {("a",): {}},
    ),
    *(
        list(range(10_000)),
        {str(number): number for number in range(10_000)},
        nested(5000),
        {"exists": True},
        {"status": "ok"},
    ),
]


def paths(value, path=()):
    """The keys that lead to each value in a value."""
    found = [path]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += paths(inner, (*path, key))
    return found


def spoilt(value, generator):
    """A value with one of its parts replaced, left out, or joined by another one."""
    value = {"all": copy.deepcopy(value)}
    *keys, last = generator.choice(paths(value)[1:])
    inner = value
    for key in keys:
        inner = inner[key]
    way = generator.random()
    if way < 0.7:
        inner[last] = generator.choice(JUNK)
    elif way < 0.85 or not isinstance(inner, dict):
        del inner[last]
    else:
        inner[generator.choice(["{{ x }}", "extra", 7, None, ("a", "b")])] = generator.choice(JUNK)
    return value.get("all")


def judged(answer, links):
    """What is found of two peers, the second of which answers so."""
    healthy = complete(checked_facts("g1", ANSWER, True))
    seen = {"g1": Seen("g1", "10.0.0.1", attempt=Attempt("ok"), answered=True, facts=healthy, reference=healthy)}
    other = seen["g2"] = Seen("g2", "10.0.0.2", attempt=Attempt("ok"), answered=True, reference=healthy)
    try:
        other.facts = complete(checked_facts("g2", answer, True))
        other.links = checked_links("g2", links)
    except NodeError as error:
        other.wrong = str(error)
    return judge(seen, SETTINGS)


def test_a_healthy_host_passes():
    hosts, _problems = judged(ANSWER, LINKS)
    assert hosts[1]["facts"]["daemon"]["version"] == "4.1.4"
    assert set(hosts[1]["facts"]) == set(ANSWER)
    assert checked_hosts("g1", json.loads(json.dumps(hosts))) == hosts
    quick = {name: ANSWER[name] for name in list(ANSWER)[: list(ANSWER).index("gpus")]}
    assert checked_facts("g1", {**quick, "program": None}, False)["program"] is None
    with pytest.raises(NodeError, match=r"g1 returned facts: .* allowed: a dictionary with gpus"):
        checked_facts("g1", quick, True)


@pytest.mark.parametrize("number", range(40))
def test_a_peer_may_answer_with_anything(number):
    generator = random.Random(number)
    refused = 0
    for _try in range(50):
        answer, links = ANSWER, LINKS
        if generator.random() < 0.8:
            answer = spoilt(answer, generator)
        else:
            links = spoilt(links, generator)
        hosts, problems = judged(answer, links)
        wrong = [item for item in problems if item.id == "wrong-answer"]
        refused += len(wrong)
        assert [item.host for item in wrong] in ([], ["g2"])
        assert all(item.evidence.startswith("g2 returned ") and len(item.evidence) < 1000 for item in wrong)
        entries = [item.as_dict() for item in problems]
        assert "g2" in problems_text(entries) + problems_markdown(entries, hosts) or not entries
        # What the module returns goes to the controller as JSON.
        assert summary.diagnosed_hosts(["g1", "g2"], json.loads(json.dumps(hosts)), entries)[1]["name"] == "g2"
    assert refused


@pytest.mark.parametrize("number", range(40))
def test_a_launcher_may_return_anything(number):
    generator = random.Random(number)
    hosts, problems = judged({**ANSWER, "gpus": {"count": 0, "error": "no driver"}}, LINKS)
    look = {"ok": False, "hosts": hosts, "problems": [item.as_dict() for item in problems], "seconds": 1.0}
    refused = 0
    for _try in range(50):
        answer = spoilt(look, generator)
        # Ansible takes no result that is not a dictionary.
        found = summary.explained_refusals(
            answer if isinstance(answer, dict) else {}, {"g2": {"problems": generator.choice(JUNK)}}, "g1"
        )
        refused += [entry["host"] for entry in found["problems"] if entry["id"] == "wrong-answer"] == ["g1"]
        rows = summary.diagnosed_hosts(["g1", "g2"], found["hosts"], found["problems"])
        problems_text(found["problems"])
        problems_markdown(found["problems"], rows)
        summary.lost_problems({"g2": found["problems"]})
        complete_results(PLAN, RUN, found["problems"], found["hosts"])
    assert refused
