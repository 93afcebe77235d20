# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Several plays and several owners with one run on the same nodes."""

from __future__ import annotations

import concurrent.futures
import json
import shlex
import uuid

import pytest
from background import kill, wait

#: Ranks that go on until they are ended.
ENDLESS = {
    "nccl_benchmark_iterations": 10**9,
    "nccl_benchmark_min_bytes": 8,
    "nccl_benchmark_max_bytes": 8,
    # Other plays are tried meanwhile.
    "nccl_benchmark_orphan_timeout": 3600,
}
YOU = {"gpufabric_owner": "you@there"}


def mark(nodes, node="g1"):
    return json.loads(nodes.shell(node, f"cat /run/gpufabric/{nodes.run_id}/.gpufabric").stdout)


def lives(nodes):
    """The processes of the run on each node: ranks, and the listening sshd."""
    look = f"grep -lz GPUFABRIC_POINT= /proc/[0-9]*/environ; cat /run/gpufabric/{nodes.run_id}/sshd/sshd.pid"
    return {node: nodes.shell(node, look, check=False).stdout for node in nodes.names}


def settled(nodes):
    """The same, when no more are being started."""
    seen = [lives(nodes)]
    wait(lambda: seen.append(lives(nodes)) or seen[-1] == seen[-2], seconds=60)
    return seen[-1]


def refused(played, identity, words, hosts=("g1", "g2")):
    """Check that a play was refused before it changed anything, and says so once."""
    assert played.returncode != 0, played.output
    assert " ".join(played.output.split()).count(words) == 1, played.output
    # The folder is on the controller.
    own = ("localhost: ", "g1: gpufabric.nccl.report : Make the folder of the results")
    assert [task for task in played.changed() if not task.startswith(own)] == []
    found = [problem for record in played.records for problem in record["result"].get("problems") or ()]
    assert {(problem["id"], problem["host"]) for problem in found} >= {(identity, host) for host in hosts}, found


def role(name, entry="main", **variables):
    return {"ansible.builtin.include_role": {"name": f"gpufabric.nccl.{name}", "tasks_from": entry}, "vars": variables}


def play(*tasks):
    return [{"hosts": "all", "gather_facts": False, "any_errors_fatal": True, "tasks": list(tasks)}]


#: Keeps a play in the middle until the test lets it go on.
WAITING = {"ansible.builtin.wait_for": {"path": "/run/go-on", "timeout": 300}}
TEARDOWN = role("key_exchange", "teardown")


@pytest.mark.slow
def test_what_a_play_has_lost_to_another_it_neither_goes_on_with_nor_removes(fresh_nodes, told):
    nodes, me = fresh_nodes, {"gpufabric_owner": "me@here"}
    before = {node: nodes.state(node) for node in nodes.names}
    own = role("key_exchange", "teardown", key_exchange_own=True)
    tasks = [
        role("nccl_benchmark", "look"),
        role("key_exchange"),
        WAITING,
        {"block": [{**role("nccl_benchmark"), "run_once": True}], "always": [own]},
    ]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        first = pool.submit(nodes.playbook, play(*tasks), **me)
        try:
            wait(
                lambda: (
                    nodes.shell("g2", f"test -e /run/gpufabric/{nodes.run_id}/ssh/config", check=False).returncode == 0
                ),
                left=told,
            )
            running = settled(nodes)
            # Other plays remove nothing of it by themselves.
            for who in (me, YOU):
                played = nodes.playbook(play(own), **who)
                assert played.returncode == 0 and played.changed() == [], played.output
            torn = nodes.playbook(play(role("nccl_benchmark", "teardown")), **YOU)
            assert torn.returncode != 0 and "run-taken" in torn.output, torn.output
            assert lives(nodes) == running and mark(nodes)["owner"] == "me@here"
            taken = nodes.playbook(play(role("key_exchange")), **YOU, gpufabric_take_over=True)
            assert taken.returncode == 0, taken.output
            running, mine = settled(nodes), mark(nodes)
            assert mine["owner"] == "you@there"
        finally:
            for node in nodes.names:
                nodes.shell(node, "touch /run/go-on")
        ended = first.result()
    assert ended.returncode != 0 and "belongs to you@there" in " ".join(ended.output.split()), ended.output
    assert [record["task"].rpartition(" : ")[2] for record in ended.records if record["status"] == "failed"] == [
        "Write the hostfile on the launcher"
    ]
    assert lives(nodes) == running and mark(nodes) == mine
    # Whoever asks for the end of his run gets it.
    ended = nodes.playbook(play(TEARDOWN, {"ansible.builtin.file": {"path": "/run/go-on", "state": "absent"}}), **YOU)
    assert ended.returncode == 0, ended.output
    assert {node: nodes.state(node) for node in nodes.names} == before


@pytest.mark.slow
def test_a_run_in_an_adopted_job_is_left_alone(fresh_nodes, told):
    """The steps of the playbook mpijob in a job's pods, on nodes: g1 is the launcher."""
    nodes, me, directory = fresh_nodes, {"gpufabric_owner": "me@here"}, f"/run/gpufabric/{fresh_nodes.run_id}"
    nodes.shell("g1", "mkdir -p /etc/mpi /opt/keys; echo g2 slots=2 > /etc/mpi/hostfile; echo key > /opt/keys/id_rsa")
    before = {node: nodes.state(node) for node in nodes.names}

    def adopt(*tasks, first=()):
        group = "mpijob_{{ 'launcher' if inventory_hostname == 'g1' else 'worker' }}"
        connect = role("mpijob", "connect", mpijob_ssh_auth_mount_path="/opt/keys")
        steps = {"block": [*first, connect, *tasks], "always": [role("mpijob", "disconnect")]}
        grouped = play({"ansible.builtin.group_by": {"key": group}, "changed_when": False})
        return [*grouped, {**play(steps)[0], "hosts": "mpijob_worker"}]

    def files():
        found = nodes.shell("g1", f"cd {directory} && sha256sum .gpufabric mpi/hostfile ssh/config", check=False)
        return found.stdout if found.returncode == 0 else ""

    with concurrent.futures.ThreadPoolExecutor() as pool:
        first = pool.submit(nodes.playbook, adopt(WAITING), **me)
        try:
            wait(files, left=told)
            made = files()
            for who, identity in ((me, "run-in-use"), (YOU, "run-taken")):
                second = nodes.playbook(adopt(), **who)
                assert second.returncode != 0 and f"{identity}: see above." in second.output, second.output
                assert second.changed() == []
            # One that fails before it asks for the run.
            failing = nodes.playbook(adopt(first=[{"ansible.builtin.fail": {"msg": "early"}}]), **me)
            assert failing.returncode != 0 and "early" in failing.output and failing.changed() == [], failing.output
            assert files() == made
            # The worker, which has rank 0, is the run's too.
            theirs = [{**play(role("key_exchange"))[0], "hosts": "g2"}]
            refused = nodes.playbook(theirs, **YOU)
            assert refused.returncode != 0 and "run-taken" in refused.output, refused.output
            taken = nodes.playbook(theirs, **YOU, gpufabric_take_over=True)
            assert taken.returncode == 0, taken.output
        finally:
            nodes.shell("g2", "touch /run/go-on")
        ended = first.result()
    assert ended.returncode == 0, ended.output
    assert not files() and nodes.state("g1") == before["g1"]
    assert mark(nodes, "g2")["owner"] == "you@there" and lives(nodes)["g2"].strip().isdecimal()
    nodes.shell("g2", "rm /run/go-on")
    assert nodes.playbook(play(TEARDOWN), **YOU).returncode == 0
    assert {node: nodes.state(node) for node in nodes.names} == before


@pytest.mark.slow
def test_a_search_ends_where_the_run_becomes_another_s(fresh_nodes, tmp_path, told):
    nodes, run = fresh_nodes, {"gpufabric_run_id": "searching"}
    endless = {"isolate_iterations": 10**9, "isolate_min_bytes": 8, "isolate_mode": "pairs", "isolate_inside": "none"}
    before = {node: nodes.state(node) for node in nodes.names}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        search = pool.submit(
            nodes.playbook,
            play(role("isolate", **run)),
            gpufabric_owner="me@here",
            report_dir=str(tmp_path),
            **endless,
        )
        wait(lambda: all("environ" in text for text in lives(nodes).values()), left=told)
        taken = nodes.playbook(play(role("key_exchange", **run)), **YOU, gpufabric_take_over=True)
        assert taken.returncode == 0, taken.output
        ended = search.result()
    assert ended.returncode == 2 and "run-taken" in ended.output, ended.output
    # What came of the group is no result.
    found = json.loads((tmp_path / "isolation.json").read_text())
    assert (found["rounds"], found["tests"], found["complete"]) == (0, 0, False)
    owner = json.loads(nodes.shell("g1", "cat /run/gpufabric/searching/.gpufabric").stdout)["owner"]
    assert owner == "you@there" and all("environ" not in text for text in lives(nodes).values())
    assert nodes.playbook(play(role("key_exchange", "teardown", **run)), **YOU).returncode == 0
    assert {node: nodes.state(node) for node in nodes.names} == before


@pytest.mark.slow
def test_a_run_in_use_is_left_alone_until_its_play_is_over(fresh_nodes, tmp_path, told):
    nodes, me = fresh_nodes, "me@here"
    before = {node: nodes.state(node) for node in nodes.names}
    token, directory = uuid.uuid4().hex, f"/run/gpufabric/{nodes.run_id}"
    endless = {**ENDLESS, "gpufabric_owner": me}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        first = pool.submit(nodes.benchmark, tmp_path / "first", **endless, token=token)
        try:
            wait(lambda: all("environ" in text for text in lives(nodes).values()), left=told)
            running, started = settled(nodes), mark(nodes)
            assert started["owner"] == me
            second = nodes.benchmark(tmp_path / "second", gpufabric_owner=me)
            refused(second, "run-in-use", f"The run {nodes.run_id} belongs to another play of {me}")
            # The same, as another controller of the owner sees it: the first one's asks for the program's end.
            text = {node: nodes.shell(node, f"cat {directory}/.gpufabric").stdout for node in nodes.names}
            for node in nodes.names:
                nodes.shell(
                    node, f"""sed -i 's/"controller": "[^"]*"/"controller": "another"/' {directory}/.gpufabric"""
                )
            third = nodes.benchmark(tmp_path / "third", gpufabric_owner=me)
            for node in nodes.names:
                nodes.shell(node, f"printf %s {shlex.quote(text[node])} > {directory}/.gpufabric")
            told_by_launcher = f"The run {nodes.run_id} belongs to another play of {me} on another controller"
            refused(third, "run-in-use", told_by_launcher, hosts=["g1"])
            refused(nodes.benchmark(tmp_path / "yours", **YOU), "run-taken", f"The run {nodes.run_id} belongs to {me}")
            torn = nodes.playbook("gpufabric.nccl.teardown", **YOU)
            assert torn.returncode != 0 and "run-taken" in torn.output and torn.changed() == [], torn.output
            assert lives(nodes) == running and mark(nodes) == started
        finally:
            kill(token)
        assert first.result().returncode != 0
    # The controller is gone, the ranks are not: another owner is refused still, and the same one goes on with the run.
    refused(nodes.benchmark(tmp_path / "yours", **YOU), "run-taken", f"The run {nodes.run_id} belongs to {me}")
    assert lives(nodes) == running
    with concurrent.futures.ThreadPoolExecutor() as pool:
        again = pool.submit(nodes.benchmark, tmp_path / "first", **endless)
        wait(lambda: "this run was started before and is followed" in told(), left=told)
        assert mark(nodes)["play"] != started["play"]
        nodes.shell("g1", "pkill -x mpirun")
        assert "run-in-use" not in again.result().output

    taken = nodes.benchmark(tmp_path / "yours", **YOU, gpufabric_take_over=True)
    assert taken.returncode == 0, taken.output
    assert mark(nodes)["owner"] == mark(nodes, "g2")["owner"] == "you@there"
    # An earlier play that is over holds nobody up.
    repeated = nodes.benchmark(tmp_path / "yours", **YOU)
    assert repeated.returncode == 0, repeated.output
    assert [len(repeated.executions(node)) for node in nodes.names[1:]] == [3]
    ended = nodes.playbook("gpufabric.nccl.teardown", **YOU)
    assert ended.returncode == 0, ended.output
    assert {node: nodes.state(node) for node in nodes.names} == before
