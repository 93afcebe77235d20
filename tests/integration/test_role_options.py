# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of roles that no other test sets: many at once, and of each what would not be so without it."""

from __future__ import annotations

import concurrent.futures
import json
import os
import typing as t
import uuid

import pytest
from background import kill, wait
from groups import one_at_a_time

RUN_DIR = "/opt/options-run"
PORT = 18777
HOSTS = ["g2", "g3"]
MPI_RUN = "gpufabric.nccl.mpi_run"
PREFLIGHT = "gpufabric.nccl.mpi_preflight"

#: Python runs it first in each rank. Each collective has a trouble of its own, which lasts until the rank is ended.
TROUBLE = """\
import time
words = open("/proc/self/cmdline").read().split("\\0")
while "reduce" in words:
    print("still here", flush=True)
    time.sleep(0.5)
if "broadcast" in words:
    time.sleep(3600)
"""

#: In place of the daemon of Open MPI: the first launch waits for it for ever.
SLOW_DAEMON = """\
#!/bin/bash
if mkdir /opt/was-slow 2>/dev/null; then
  sleep 3600
fi
exec /opt/orted "$@"
"""


@pytest.fixture(scope="module")
def trio(make_nodes):
    return make_nodes(3)


def write(nodes, node, path, text):
    nodes.shell(node, f"mkdir -p $(dirname {path}); cat >{path} <<'END'\n{text}END\nchmod 755 {path}")


def result_of(report_dir):
    (document,) = json.loads((report_dir / "results.json").read_text())["results"]
    return document


def launched(played):
    """What came of each point that mpirun was started for."""
    results = [record["result"] for record in played.records if record["action"] == MPI_RUN]
    points = [point for result in results for point in result.get("points") or ()]
    return [point for point in points if point["status"] in ("finished", "failed", "timeout")]


@pytest.mark.slow
def test_a_benchmark_of_some_hosts_in_a_directory_of_its_own(trio, tmp_path):
    variables = {
        "gpufabric_hosts": HOSTS,
        "gpufabric_run_dir": RUN_DIR,
        "gpufabric_environment": {"TEST_OPTION": "went along"},
        "gpufabric_forward_env": ["NCCL_*", "TEST_*"],
        "gpufabric_data_env": {"g2": {"TEST_OF_NODE": "of g2"}},
        "key_exchange_port": PORT,
        "key_exchange_connect_timeout": 7,
        "key_exchange_key_lifetime": 3,
        "key_exchange_sshd_options": {"PermitTTY": "no"},
        "nccl_benchmark_launcher": "g3",
        # As -e NAME=VALUE and surveys give them.
        "nccl_benchmark_check": "no",
        "nccl_benchmark_warmup_iterations": "3",
        "nccl_benchmark_mca": "btl_tcp_links=2",
        "nccl_benchmark_forward_env": '["PATH", "NCCL_*"]',
        "nccl_benchmark_show": "none",
        "nccl_benchmark_output_dir": str(tmp_path / "output"),
        "report_formats": ["json"],
        "report_sweep": {"points": 0},
    }
    played = trio.benchmark(tmp_path / "report", "--diff", **variables)
    assert played.returncode == 0, played.output
    document = result_of(tmp_path / "report")
    assert document["verdict"] == "unchecked"
    # Private keys are on the node that made them, and nowhere else.
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    texts = [played.output.encode(), json.dumps(played.records).encode(), *written]
    assert len(texts) > 3 and not any(b"PRIVATE KEY" in text for text in texts)
    for node in HOSTS:
        holders = trio.shell(node, f"grep -rl 'PRIVATE KEY' {RUN_DIR}").stdout.split()
        assert sorted(holders) == [f"{RUN_DIR}/ssh/id_ed25519", f"{RUN_DIR}/sshd/ssh_host_ed25519_key"]
    # The launcher runs rank 0.
    assert [rank["host"] for rank in sorted(document["ranks"], key=lambda rank: rank["rank"])] == ["g3", "g2"]
    assert {record["host"] for record in played.records if record["action"] == MPI_RUN} == {"g3"}
    assert played.executions("g1") == []
    command = launched(played)[0]["command"]
    assert command[command.index("btl_tcp_links") + 1] == "2"
    assert not document["summary"]["checked"] and document["config"]["warmup_iters"] == 3
    assert "32768" not in played.output and document["rows"][-1]["size"] == 32768
    assert (tmp_path / "output" / "output.tar.gz").is_file()
    assert not (tmp_path / "report" / "output.tar.gz").exists()
    assert json.loads((tmp_path / "report" / "results.json").read_text())["sweep"] == {"points": 0}

    for node in HOSTS:
        trio.shell(node, f"test -d {RUN_DIR} && test ! -e /run/gpufabric")
    ssh = f"ssh -F {RUN_DIR}/ssh/config"
    other = trio.addresses["g2"]
    seen = trio.shell("g3", f"{ssh} -G {other}").stdout.splitlines()
    keys = trio.shell("g2", f"date --date '4 days' +%Y%m%d; cat {RUN_DIR}/sshd/authorized_keys").stdout.splitlines()
    assert len(keys) == 3 and all(key.startswith(f'restrict,expiry-time="{keys[0]}",from="') for key in keys[1:])
    assert f"port {PORT}" in seen and "connecttimeout 7" in seen
    variables_there = trio.shell("g3", f"TEST_OPTION='from here' OTHER=x {ssh} {other} env").stdout.splitlines()
    assert {"TEST_OPTION=from here", "TEST_OF_NODE=of g2"} <= set(variables_there) and "OTHER=x" not in variables_there
    assert "PTY allocation request failed" in trio.shell("g3", f"{ssh} -tt {other} true", check=False).stderr

    played = trio.playbook("gpufabric.nccl.teardown", **variables)
    assert played.returncode == 0, played.output
    for node in HOSTS:
        trio.shell(node, f"test ! -e {RUN_DIR} && ! ss -Hlnt | grep -q :{PORT}")


@pytest.mark.slow
def test_a_look_from_another_launcher_for_another_program_without_a_host_that_fails(trio, tmp_path):
    roles = [
        {"name": "gpufabric.nccl.key_exchange", "tasks_from": "connect_some"},
        {"name": "gpufabric.nccl.preflight"},
    ]
    tasks = [{"ansible.builtin.include_role": role} for role in roles]
    variables = {
        "gpufabric_run_id": "look",
        "preflight_level": "full",
        "preflight_launcher": "g2",
        "preflight_program": "/opt/some_perf",
        "preflight_expect": {"gpus": 1},
        "nccl_benchmark_env": {"NCCL_IB_HCA": "=mlx5_9"},
        "preflight_timeout": 2,
        "preflight_fail": False,
    }
    try:
        write(trio, "g2", "/opt/some_perf", "#!/bin/bash\n")
        # Where the run is to be is somebody else's directory.
        trio.shell("g1", "install -d -o nobody /run/gpufabric/look")
        played = trio.playbook([{"hosts": "workers", "gather_facts": False, "tasks": tasks}], **variables)
    finally:
        trio.shell("g2", "rm -f /opt/some_perf")
        trio.shell("g1", "rm -rf /run/gpufabric/look; rmdir --ignore-fail-on-non-empty /run/gpufabric")
        removed = trio.playbook("gpufabric.nccl.teardown", gpufabric_run_id="look")
    assert removed.returncode == 0, removed.output
    assert played.returncode == 0, played.output
    assert {record["host"] for record in played.records if record["action"] == PREFLIGHT} == {"g2"}
    result = played.result("g2", PREFLIGHT)
    found = {(problem["id"], problem["host"]) for problem in result["problems"]}
    everywhere = {(cause, node) for cause in ("gpus-missing", "rdma-device-missing") for node in HOSTS}
    assert found == {("program-missing", "g3"), *everywhere} and "=mlx5_9" in played.output
    assert "/opt/some_perf" in played.output
    facts: dict[str, t.Any] = {}
    for record in played.records:
        if record["action"] == "ansible.builtin.set_fact":
            facts.update(record["result"]["ansible_facts"])
    assert [peer["name"] for peer in facts["gpufabric_peers"]] == HOSTS
    assert (
        list(facts["gpufabric_lost"]) == ["g1"] and "/run/gpufabric/look" in facts["gpufabric_lost"]["g1"][0]["cause"]
    )
    assert len(played.executions("g1")) == 1


@pytest.mark.slow
def test_times_after_which_a_collective_is_ended(trio, tmp_path):
    """The first launch does not start on g2, then a program is silent, and one talks for ever."""
    for node in trio.names:
        write(trio, node, "/opt/trouble/sitecustomize.py", TROUBLE)
    trio.shell("g2", "mv /usr/bin/orted /opt; rm -rf /opt/was-slow")
    write(trio, "g2", "/usr/bin/orted", SLOW_DAEMON)
    try:
        played = trio.benchmark(
            tmp_path,
            gpufabric_run_id="times",
            nccl_benchmark_collectives=["all_reduce", "broadcast", "reduce"],
            nccl_benchmark_env={"PYTHONPATH": "/opt/trouble"},
            nccl_benchmark_startup_timeout=20,
            nccl_benchmark_silence_timeout=6,
            nccl_benchmark_timeout=30,
            nccl_benchmark_explain=False,
            report_formats=["json"],
            report_fail_on=[],
        )
    finally:
        trio.shell("g2", "mv /opt/orted /usr/bin")
    # The verdict does not count, as report_fail_on says.
    assert played.returncode == 0, played.output
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["verdict"] == "fail"
    causes = [[problem["id"] for problem in one["problems"]] for one in results["results"]]
    assert causes == [["startup-timeout"], ["silence-timeout"], ["timeout"]]
    texts = [one["problems"][0]["cause"] for one in results["results"]]
    for text, seconds in zip(texts, (20, 6, 30)):
        assert f"{seconds} s" in text
    # Nothing is looked for once they have failed.
    assert len([record for record in played.records if record["action"] == PREFLIGHT]) == 1


@pytest.mark.slow
def test_a_launcher_that_runs_no_ranks(trio):
    """Rank 0 is on another host, which needs the CPU program."""
    peers = "{{ gpufabric_peers | rejectattr('name', 'equalto', 'g1') | list }}"
    role = "ansible.builtin.include_role"
    tasks = [
        {role: {"name": "gpufabric.nccl.key_exchange"}},
        {"ansible.builtin.set_fact": {"gpufabric_peers": peers}},
        {role: {"name": "gpufabric.nccl.nccl_benchmark"}, "vars": {"gpufabric_hosts": HOSTS}},
    ]
    played = trio.playbook(
        [{"hosts": "all", "gather_facts": False, "any_errors_fatal": True, "tasks": tasks}],
        gpufabric_run_id="apart",
        nccl_benchmark_backend="cpu",
        nccl_benchmark_launcher="g1",
        nccl_benchmark_dedicated_launcher=True,
        nccl_benchmark_max_bytes="1K",
    )
    assert played.returncode == 0, played.output
    assert "g1" not in {rank["host"] for rank in launched(played)[0]["results"][0]["ranks"]}
    brought = [record["host"] for record in played.records if record["task"].endswith("runs no ranks")]
    assert brought == ["g2"], played.output
    assert trio.shell("g2", "stat -c %a /run/gpufabric/apart/mpi/files/cpu_perf.py").stdout == "600\n"
    assert trio.playbook("gpufabric.nccl.teardown", gpufabric_run_id="apart").returncode == 0
    assert "apart" not in trio.shell("g2", "ls /run/gpufabric", check=False).stdout


@pytest.mark.slow
def test_a_worker_that_runs_no_ranks_launches_those_of_the_others(trio, tmp_path):
    """It lacks what ranks need."""
    variables = {"gpufabric_run_id": "dedicated", "nccl_benchmark_dedicated_launcher": True}
    numpy = trio.shell("g1", "python3 -c 'import numpy; print(numpy.__path__[0])'").stdout.strip()
    trio.shell("g1", f"mv {numpy} /root/numpy")
    try:
        alone = trio.benchmark(tmp_path / "alone", gpufabric_hosts=["g1"], **variables)
        checked = trio.benchmark(tmp_path / "report", "--check", **variables)
        played = trio.benchmark(tmp_path / "report", preflight_level="full", **variables)
        as_worker = trio.benchmark(tmp_path / "more", preflight_dedicated_launcher=False, **variables)
    finally:
        trio.shell("g1", f"mv /root/numpy {numpy}")
    assert alone.returncode == 2 and not (tmp_path / "alone").exists()
    assert alone.result()["msg"].startswith("nccl_benchmark_dedicated_launcher: True is not allowed; "), alone.output
    assert checked.returncode == 0 and "2 ranks on 2 hosts, started from g1" in checked.output, checked.output
    assert played.returncode == 0, played.output
    document = result_of(tmp_path / "report")
    assert (document["verdict"], document["host_count"], document["rank_count"]) == ("pass", 2, 2)
    assert {rank["host"] for rank in document["ranks"]} == {"g2", "g3"}
    assert {record["host"] for record in played.records if record["action"] == MPI_RUN} == {"g1", "g2"}
    for run, names in ((played, ["g2", "g3"]), (as_worker, ["g1", "g2", "g3"])):
        (look,) = [record["result"] for record in run.records if record["action"] == PREFLIGHT]
        assert [host["name"] for host in look["hosts"]] == names
    assert trio.playbook("gpufabric.nccl.teardown", gpufabric_run_id="dedicated").returncode == 0


@pytest.mark.slow
def test_a_benchmark_whose_controller_is_lost_ends_itself(trio, tmp_path):
    for node in trio.names:
        write(trio, node, "/opt/trouble/sitecustomize.py", TROUBLE)
    token = uuid.uuid4().hex
    variables = {
        "gpufabric_run_id": "orphan",
        "nccl_benchmark_collectives": ["reduce"],
        "nccl_benchmark_env": {"PYTHONPATH": "/opt/trouble"},
        "nccl_benchmark_orphan_timeout": 5,
        "preflight_level": "none",
        "token": token,
    }

    def ranks():
        return trio.shell("g3", "pgrep -f /cpu_perf.py", check=False).stdout

    with concurrent.futures.ThreadPoolExecutor() as pool:
        playing = pool.submit(trio.benchmark, tmp_path, **variables)
        wait(ranks)
        kill(token)
        assert playing.result().returncode != 0
    wait(lambda: not ranks(), 120, ranks)
    assert trio.playbook("gpufabric.nccl.teardown", gpufabric_run_id="orphan").returncode == 0


@pytest.mark.slow
def test_a_search_with_settings_of_its_own(trio, tmp_path):
    spy = 'import json, os, sys\nif "OMPI_COMM_WORLD_RANK" in os.environ:\n    json.dump(dict(os.environ), open("/tmp/seen", "w"))\n'
    for node in trio.names:
        write(trio, node, "/opt/spy/sitecustomize.py", spy)
    variables = {
        "gpufabric_hosts": HOSTS,
        "gpufabric_run_dir": RUN_DIR,
        "gpufabric_environment": {"TEST_OPTION": "went along", "OTHER": "too"},
        "gpufabric_forward_env": ["NCCL_*", "TEST_*"],
        "key_exchange_port": PORT,
        "key_exchange_connect_timeout": 7,
        "nccl_benchmark_silence_timeout": 88,
        "nccl_benchmark_output_limit": "900M",
        "isolate_inside": "none",
        "isolate_screens": 1,
        "isolate_collective": "broadcast",
        "isolate_min_bytes": "1K",
        "isolate_max_bytes": "4K",
        "isolate_iterations": 3,
        "isolate_warmup_iterations": 2,
        "isolate_limit": 0.000000001,
        "isolate_check": False,
        "isolate_extra_args": ["-z", "1"],
        "isolate_env": {"PYTHONPATH": "/opt/spy", "NCCL_ALGO": "Ring"},
        # As -e NAME=VALUE and surveys give them.
        "isolate_forward_env": "TEST_*,PATH",
        "isolate_mca": "btl_tcp_links=2",
        "report_dir": str(tmp_path),
    }
    played = trio.playbook("gpufabric.nccl.isolate", **variables)
    assert played.returncode == 0, played.output
    # What is handed to other jobs is no task of a worker's.
    assert [task for task in played.executions("g1") if not task.endswith("jobs of a workflow that follow")] == []
    points = launched(played)
    assert len(points) == 1, [played.output, [record["task"] for record in played.records]]
    words = " ".join(points[0]["command"])
    assert " broadcast -b 1K -e 4K -f 2 -g 1 -n 3 -w 2 -c 0 -z 1" in words and "btl_tcp_links 2" in words
    assert RUN_DIR in words
    assert {played.result(node, "gpufabric.nccl.sshd_instance")["port"] for node in HOSTS} == {PORT}
    assert played.result("g3", "gpufabric.nccl.ssh_mesh")["invocation"]["module_args"]["connect_timeout"] == 7
    arguments = played.result(action=MPI_RUN)["invocation"]["module_args"]
    assert (arguments["silence_timeout"], arguments["output_limit"]) == (88, "900M")
    for node in HOSTS:
        seen = json.loads(trio.shell(node, "cat /tmp/seen; rm /tmp/seen").stdout)
        wanted = {"NCCL_ALGO": "Ring", "TEST_OPTION": "went along", "OTHER": "too", "OMPI_MCA_btl_tcp_links": "2"}
        assert {name: seen.get(name) for name in wanted} == wanted
        trio.shell(node, f"test ! -e {RUN_DIR}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "cause"), [("isolate_startup_timeout", "startup-timeout"), ("isolate_timeout", "timeout")]
)
def test_times_after_which_a_test_of_a_search_is_ended(trio, tmp_path, option, cause):
    for node in HOSTS:
        write(trio, node, "/opt/trouble/sitecustomize.py", TROUBLE)
    if cause == "startup-timeout":
        trio.shell("g3", "mv /usr/bin/orted /opt; rm -rf /opt/was-slow")
        write(trio, "g3", "/usr/bin/orted", SLOW_DAEMON)
    try:
        played = trio.playbook(
            "gpufabric.nccl.isolate",
            gpufabric_hosts=HOSTS,
            isolate_inside="none",
            isolate_screens=1,
            isolate_collective="reduce",
            isolate_min_bytes="1K",
            isolate_env={"PYTHONPATH": "/opt/trouble"},
            report_dir=str(tmp_path),
            **{option: 15},
        )
    finally:
        if cause == "startup-timeout":
            trio.shell("g3", "mv /opt/orted /usr/bin")
    assert played.returncode == 0, played.output
    problems = launched(played)[0]["problems"]
    assert problems[0]["id"] == cause and "15 s" in problems[0]["cause"], problems


@pytest.mark.slow
def test_nodes_of_another_group_with_a_capability(player, group):
    variables = {
        **group.variables,
        "local_nodes_count": 1,
        "local_nodes_prefix": "m",
        "local_nodes_cap_add": ["NET_ADMIN"],
        "local_nodes_group": "machines",
        # By default it is called by its other name.
        "local_nodes_python_interpreter": os.path.realpath("/usr/bin/python3"),
    }
    role = {"ansible.builtin.include_role": {"name": "gpufabric.nccl.local_nodes"}}
    remove = {"ansible.builtin.include_role": {"name": "gpufabric.nccl.local_nodes", "tasks_from": "teardown"}}
    local = {"hosts": "localhost", "connection": "local", "gather_facts": False}
    # What a node must be allowed to do.
    look = {"ansible.builtin.command": "ip link set dev net1 mtu 1400"}
    info = {"gpufabric.nccl.mpi_node_info": {}}
    later = {"hosts": "machines", "gather_facts": False, "tasks": [look, info]}
    with one_at_a_time():
        try:
            played = player.playbook([{**local, "tasks": [role]}, later], **variables)
        finally:
            removed = player.playbook([{**local, "tasks": [remove]}], **variables)
    assert played.returncode == 0, played.output
    assert removed.returncode == 0, removed.output
    node = played.result("m1", "gpufabric.nccl.mpi_node_info")["node"]
    assert node["python"]["executable"] == variables["local_nodes_python_interpreter"]
    assert {one["name"]: one["mtu"] for one in node["interfaces"]}["net1"] == 1400
