# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import (
    BOOLEAN,
    NUMBER,
    PLAIN,
    TEXT,
    Each,
    check_answer,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.plan import check_nodes, plan_benchmark
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.mpijob import adopted_peers
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.mesh import named_peers
from ansible_collections.gpufabric.nccl.tests.unit.benchmark_settings import SETTINGS

SSHD = {
    "address": "10.0.0.1",
    "port": 40001,
    "user": "root",
    "host_public_keys": ["ssh-ed25519 AAAA"],
    "client_public_key": "ssh-ed25519 BBBB",
    "run_dir": "/run/gpufabric/default",
    "hostname": "g1",
}
NODE = {
    "hostname": "g1",
    "interfaces": [{"name": "eth0", "addresses": ["10.0.0.1/24", "fd00::1/64"]}],
    "data": {"interface": "rail0,rail1"},
    "gpus": {"count": 8, "names": ["NVIDIA H100 80GB HBM3"], "unusable": ["0000:1b:00.0 10de:2330"]},
    "mpi": {"mpirun": "/usr/bin/mpirun", "prefix": "/usr", "implementation": "openmpi", "version": "4.1.4"},
    "benchmarks": {"directory": "/opt/nccl-tests", "programs": ["all_reduce_perf"]},
    "python": {"executable": "/usr/bin/python3", "mpi4py": "3.1.4", "numpy": "1.24.2"},
}
TEMPLATE = "{{ lookup('pipe', 'touch /tmp/x') }}"
HOSTILE = [TEMPLATE, "a\nHost *\n", "\x1b[2J", "\u202e", ["x"], {"a": "b"}, True, -1]


def leaves(value, path=()):
    """The paths of all values that are not containers."""
    if isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return [leaf for key, item in items for leaf in leaves(item, (*path, key))]
    return [path]


def changed(answer, path, value):
    """An answer with another value at a path."""
    answer = copy.deepcopy(answer)
    inner = answer
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return answer


def name_of(path):
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)


def check_refusal(error, host, field):
    message = str(error.value)
    assert message.startswith(f"{host} returned {field}: ") and "allowed: " in message
    assert "{{" not in message and message.isprintable() and len(message) < 400


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
@pytest.mark.parametrize("path", leaves(SSHD), ids=name_of)
def test_nothing_else_of_sshd_instance_becomes_a_peer(path, value):
    assert named_peers([SSHD], ["w1"]) == [{"name": "w1", **SSHD}]
    with pytest.raises(NodeError) as error:
        named_peers([SSHD, changed(SSHD, path, value)], ["w1", "w2"])
    check_refusal(error, "w2", f"sshd_instance{name_of(path)}")


@pytest.mark.parametrize("value", ["x", 1, ["x"], True])
@pytest.mark.parametrize("name", [name for name, value in NODE.items() if isinstance(value, dict)])
def test_what_is_to_be_a_dictionary_is_none_else(name, value):
    with pytest.raises(NodeError) as error:
        check_nodes({"w1": NODE, "w2": changed(NODE, (name,), value)}, SETTINGS)
    check_refusal(error, "w2", f"node.{name}")


def test_no_list_or_dictionary_is_longer_than_what_machines_have():
    kinds = {"list": [NUMBER], "dictionary": Each(PLAIN, NUMBER)}
    for name, made in (
        ("list", lambda size: [1] * size),
        ("dictionary", lambda size: {f"{n}": 1 for n in range(size)}),
    ):
        assert check_answer("w1", "x", made(4096), kinds[name]) == made(4096)
        with pytest.raises(NodeError, match=f"w1 returned x: .*allowed: a {name} of at most 4096 items"):
            check_answer("w1", "x", made(4097), kinds[name])


@pytest.mark.parametrize("key", [TEMPLATE, "\x1b[2J", "a\nb"])
def test_no_text_comes_as_a_key(key):
    with pytest.raises(NodeError) as error:
        check_answer("w1", "x", {"a": 1, key: 1}, Each(PLAIN, NUMBER))
    check_refusal(error, "w1", "a key of x")


@pytest.mark.parametrize(("keys", "field"), [(["ssh-ed25519 AAAA"] * 9, ""), (["ssh-ed25519 " + "A" * 9000], "[0]")])
def test_a_worker_cannot_fill_the_others_with_keys(keys, field):
    with pytest.raises(NodeError) as error:
        named_peers([{**SSHD, "host_public_keys": keys}], ["w1"])
    check_refusal(error, "w1", f"sshd_instance.host_public_keys{field}")


def test_the_name_of_a_key_is_told_like_a_value():
    with pytest.raises(NodeError) as error:
        check_answer("w1", "facts", {f"{TEMPLATE}\x1b[2J" * 999: 1}, Each(TEXT, BOOLEAN))
    message = str(error.value)
    assert message.startswith("w1 returned facts.{ {") and "{{" not in message
    assert message.isprintable() and len(message) < 400


@pytest.mark.parametrize("value", ["10.0.0.1/33", "10.0.0.1/999", "fd00::1/129", "10.0.0.1/\u0662", "10.0.0.1/"])
def test_an_address_has_a_prefix_that_there_is(value):
    with pytest.raises(NodeError) as error:
        check_nodes({"w1": NODE, "w2": changed(NODE, ("interfaces", 0, "addresses", 0), value)}, SETTINGS)
    check_refusal(error, "w2", "node.interfaces[0].addresses[0]")


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
@pytest.mark.parametrize("path", leaves(NODE), ids=name_of)
def test_nothing_else_of_mpi_node_info_is_planned_with(path, value):
    peers = [{"name": "w1", "address": "10.0.0.1", "run_dir": "/run/x"}]
    assert plan_benchmark({"w1": NODE}, peers, SETTINGS)["hosts"] == [{"name": "w1", "address": "10.0.0.1", "slots": 8}]
    for plan in (
        lambda node: check_nodes({"w1": node}, SETTINGS),
        lambda node: plan_benchmark({"w1": node}, peers, SETTINGS),
    ):
        with pytest.raises(NodeError) as error:
            plan(changed(NODE, path, value))
        check_refusal(error, "w1", f"node{name_of(path)}")


@pytest.mark.parametrize("answer", [TEMPLATE, [], {}, {"address": "10.0.0.1"}])
def test_an_answer_of_another_shape_is_no_traceback(answer):
    with pytest.raises(NodeError, match="w1 returned node: "):
        check_nodes({"w1": answer}, SETTINGS)
    if isinstance(answer, dict) and answer:
        with pytest.raises(NodeError, match="w1 returned sshd_instance: .* allowed: a dictionary with port, user"):
            named_peers([answer], ["w1"])


def test_what_is_not_asked_for_goes_no_further():
    assert named_peers([{**SSHD, "msg": TEMPLATE}], ["w1"]) == [{"name": "w1", **SSHD}]


def test_check_mode_has_peers_without_ports_and_keys():
    fresh = {**SSHD, "port": 0, "host_public_keys": [], "client_public_key": ""}
    assert named_peers([fresh], ["w1"])[0]["port"] == 0


@pytest.mark.parametrize("value", [TEMPLATE, "a\n"])
def test_workers_of_an_adopted_job(value):
    host = {"name": "job-worker-0.job", "address": "10.0.0.1", "slots": 8}
    assert adopted_peers([host], ["job-worker-0"], "/run/x")[0]["address"] == "10.0.0.1"
    for key in host:
        with pytest.raises(NodeError, match=rf"the launcher returned hosts\[0\].{key}: "):
            adopted_peers([{**host, key: value}], ["job-worker-0"], "/run/x")
    with pytest.raises(NodeError, match="the launcher returned run_dir: "):
        adopted_peers([host], ["job-worker-0"], value)
