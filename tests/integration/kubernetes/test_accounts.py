# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pods that run under a uid without an account that one can log in to: with nss_wrapper, and without.

The pods are made by hand and stand in an inventory written by hand, or are adopted or created by the playbook kubernetes.
"""

from __future__ import annotations

import concurrent.futures
import json
import pathlib
import platform
import typing as t

import pytest
from pod_runs import Runs

NAMES = ("a", "b")
#: What openshift gives: any uid, the group 0.
OF_OPENSHIFT = (1000680000, 0)
#: Of neither the owner nor the group of /etc/passwd.
STRANGER = (12345, 12345)
NSS_WRAPPER = f"/usr/lib/{platform.machine()}-linux-gnu/libnss_wrapper.so"


class Workers:
    """Two pods as hosts of an inventory."""

    def __init__(self, cluster: t.Any, player: t.Any, pods: t.Any, directory: pathlib.Path) -> None:
        self.uid = -1
        self._player = player
        self._pods = pods
        self._directory = directory
        self._inventory = directory / "inventory.json"
        self._kubeconfig = cluster.kubeconfig

    def create(self, identity: tuple[int, int], container: dict[str, t.Any] | None = None, **spec: t.Any) -> None:
        """Have pods that run under a uid and a group, without anything that root may do."""
        self.uid, gid = identity
        context = {"runAsUser": self.uid, "runAsGroup": gid, "allowPrivilegeEscalation": False}
        own = {"securityContext": {**context, "capabilities": {"drop": ["ALL"]}}}
        self._pods.create(*NAMES, container={**own, **(container or {})}, **spec)
        variables = {
            "ansible_connection": "kubernetes.core.kubectl",
            "ansible_kubectl_namespace": self._pods.namespace,
            "ansible_kubectl_kubeconfig": self._kubeconfig,
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_pipelining": True,
            "gpufabric_control_interface": "eth0",
        }
        self._inventory.write_text(json.dumps({"all": {"hosts": {name: {} for name in NAMES}, "vars": variables}}))

    def shell(self, name: str, command: str) -> str:
        """What a shell command prints in a pod, without Ansible."""
        return self._pods.exec(name, "sh", "-c", command).stdout

    def passwd(self) -> list[str]:
        """The text of each pod's /etc/passwd."""
        return [self.shell(name, "cat /etc/passwd") for name in NAMES]

    def accounts(self) -> list[int]:
        """How many runs have an account in each pod."""
        return [
            int(self.shell(name, f"ls /tmp/gpufabric-{self.uid}/*/account/passwd 2>/dev/null | wc -l"))
            for name in NAMES
        ]

    def left(self) -> list[str]:
        """What runs in each pod and lies in its /tmp."""
        listing = "ls -A /tmp; for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$f 2>/dev/null; echo; done"
        return [
            line for name in NAMES for line in self.shell(name, listing).splitlines() if "sshd" in line or "gpu" in line
        ]

    def play(self, playbook: str | list[dict], *arguments: str, **variables: t.Any) -> t.Any:
        """Run a playbook on the pods."""
        return self._player.playbook(playbook, "-i", str(self._inventory), *arguments, **variables)

    def role(self, run_id: str) -> t.Any:
        """Let them reach each other."""
        play = {"hosts": "all", "gather_facts": False, "roles": ["gpufabric.nccl.key_exchange"]}
        return self.play([play], gpufabric_run_id=run_id)

    def mpi_run(self, *argv: str, **options: t.Any) -> t.Any:
        """Run a program on both by mpirun, over the files of the run ``default``."""
        tasks: list[dict[str, t.Any]] = [
            {"gpufabric.nccl.sshd_instance": {"interface": "eth0"}, "register": "sshd"},
            {
                "gpufabric.nccl.ssh_mesh": {
                    "peers": "{{ ansible_play_hosts | map('extract', hostvars, 'sshd') | list }}",
                }
            },
            {
                "gpufabric.nccl.mpi_hostfile": {
                    "hosts": [{"address": f"{{{{ hostvars.{name}.sshd.address }}}}"} for name in NAMES]
                },
                "run_once": True,
            },
            {
                "gpufabric.nccl.mpi_run": {"points": [{"argv": list(argv), **options}], "control_interface": "eth0"},
                "run_once": True,
            },
        ]
        return self.play([{"hosts": "all", "gather_facts": False, "tasks": tasks}])

    def ssh(self, run_id: str, environment: dict[str, str]) -> list[str]:
        """The names of the users that the first pod logs in as, by the run's ssh."""
        directory = f"/tmp/gpufabric-{self.uid}/{run_id}"
        variables = " ".join(f"{name}={value}" for name, value in environment.items())
        addresses = self.shell("a", f"sed -n 's/^Host //p' {directory}/ssh/config").split()
        commands = [f"env {variables} ssh -F {directory}/ssh/config {address} id -un;" for address in addresses]
        return self.shell("a", "".join(commands)).split()


@pytest.fixture
def runs(cluster: t.Any, cluster_player: t.Any, namespace: str, tmp_path: pathlib.Path) -> Runs:
    return Runs(cluster, cluster_player, namespace, tmp_path)


@pytest.fixture
def workers(cluster: t.Any, cluster_player: t.Any, pods: t.Any, tmp_path: pathlib.Path) -> Workers:
    return Workers(cluster, cluster_player, pods, tmp_path)


def benchmark(workers: Workers, tmp_path: pathlib.Path, *arguments: str) -> t.Any:
    """Run the playbook bare_metal, with small sizes."""
    small = {"nccl_benchmark_max_bytes": "4K", "nccl_benchmark_iterations": 2, "report_dir": str(tmp_path / "report")}
    return workers.play("gpufabric.nccl.bare_metal", *arguments, **small)


def passes_with_both(workers: Workers, tmp_path: pathlib.Path) -> dict[str, t.Any]:
    """Run the whole job on both pods, twice; what sshd_instance returned on the first."""
    played = benchmark(workers, tmp_path)
    assert played.returncode == 0, played.output
    (result,) = json.loads((tmp_path / "report/results.json").read_text())["results"]
    assert result["verdict"] == "pass"
    assert sorted(rank["host"] for rank in result["ranks"]) == list(NAMES)
    again = workers.role("default")
    assert again.returncode == 0 and again.changed() == [], again.output
    return again.result("a", "gpufabric.nccl.sshd_instance")


def teardown(workers: Workers, **variables: t.Any) -> None:
    """Remove what a run left, at the cost of one execution in each pod; a second time there is nothing to remove."""
    played = workers.play("gpufabric.nccl.teardown", **variables)
    assert played.returncode == 0, played.output
    assert [len(played.executions(name)) for name in NAMES] == [1, 1]
    assert len(played.changed()) == len(NAMES)
    again = workers.play("gpufabric.nccl.teardown", **variables)
    assert again.returncode == 0 and again.changed() == [], again.output


@pytest.mark.parametrize(
    "identity",
    [pytest.param(OF_OPENSHIFT, id="openshift"), pytest.param(STRANGER, id="stranger", marks=pytest.mark.slow)],
)
@pytest.mark.slow
def test_account_is_given_by_nss_wrapper(workers, tmp_path, identity):
    workers.create(identity)
    before = workers.passwd()
    checked = benchmark(workers, tmp_path, "--check")
    assert checked.returncode == 0, checked.output
    assert workers.passwd() == before and workers.left() == []

    sshd = passes_with_both(workers, tmp_path)
    user = f"gpufabric-{workers.uid}"
    assert sshd["user"] == user and sshd["environment"]["LD_PRELOAD"] == NSS_WRAPPER
    assert workers.passwd() == before
    # It is there in the sessions, too, and a library of the user's own does not take its place.
    assert workers.ssh("default", sshd["environment"]) == [sshd["user"]] * 2
    own = "libc.so.6"
    played = workers.mpi_run("sh", "-c", "id -un; hostname; echo $LD_PRELOAD", env={"LD_PRELOAD": own})
    assert played.returncode == 0, played.output
    (point,) = played.result("a", "gpufabric.nccl.mpi_run")["points"]
    printed = workers.shell("a", f"cat {point['stdout_path']}").split()
    assert sorted(printed) == sorted([*NAMES, *[user, f"{NSS_WRAPPER}:{own}"] * 2])
    teardown(workers)
    assert workers.passwd() == before and workers.left() == []


@pytest.fixture
def without_any(workers: Workers, cluster: t.Any, namespace: str) -> Workers:
    """Pods without the library: in its place is a file that nobody may read."""
    hidden = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hidden"}, "data": {"library": ""}}
    cluster.create(hidden, namespace=namespace)
    volume = {"name": "hidden", "configMap": {"name": "hidden", "defaultMode": 0}}
    mount = {"name": "hidden", "mountPath": NSS_WRAPPER, "subPath": "library"}
    workers.create(STRANGER, container={"volumeMounts": [mount]}, volumes=[volume])
    return workers


def names_the_way(message: str) -> bool:
    return "uid 12345 has no entry in /etc/passwd" in message and "apt-get install libnss-wrapper" in message


@pytest.mark.slow
def test_one_error_says_what_to_install(without_any, tmp_path):
    before = without_any.passwd()
    for arguments in (("--check",), ()):
        played = benchmark(without_any, tmp_path, *arguments)
        assert played.returncode == 2
        failed = [record for record in played.records if record["status"] == "failed"]
        assert {record["host"] for record in failed} <= set(NAMES) and failed
        for record in failed:
            message = record["result"]["msg"]
            assert names_the_way(message) and "\n" not in message
    assert without_any.passwd() == before and without_any.left() == []


@pytest.mark.slow
def test_playbook_kubernetes_ends_with_that_error(runs, without_any):
    played = runs.play(worker_pods_names=list(NAMES))
    assert played.returncode != 0
    assert names_the_way(played.result("localhost", "gpufabric.nccl.fail_with_problems")["msg"])
    assert without_any.left() == []


@pytest.mark.slow
def test_playbook_kubernetes_takes_the_account_from_adopted_pods(runs, workers):
    workers.create(OF_OPENSHIFT)
    kept = runs.play(worker_pods_names=list(NAMES), worker_pods_keep=True)
    assert kept.returncode == 0, kept.output
    assert workers.accounts() == [1, 1]
    played = runs.play(worker_pods_names=list(NAMES))
    assert played.returncode == 0, played.output
    assert runs.result()["verdict"] == "pass"
    assert workers.accounts() == [0, 0] and workers.left() == []


@pytest.mark.parametrize(
    "identity",
    [
        pytest.param((1000, 1000), id="user", marks=pytest.mark.slow),
        pytest.param(OF_OPENSHIFT, id="openshift"),
        pytest.param(STRANGER, id="stranger", marks=pytest.mark.slow),
    ],
)
def test_created_pods_work_as_any_user(runs, identity):
    user, group = identity
    played = runs.play(worker_pods_run_as_user=user, worker_pods_run_as_group=group)
    assert played.returncode == 0, played.output
    result = runs.result()
    assert (result["verdict"], result["host_count"]) == ("pass", 2)
    assert runs.ours() == []


@pytest.mark.slow
def test_runs_at_once_have_an_account_each(workers):
    workers.create(OF_OPENSHIFT)
    results = {}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for run_id, played in zip(("blue", "green"), pool.map(workers.role, ("blue", "green"))):
            assert played.returncode == 0, played.output
            results[run_id] = played.result("a", "gpufabric.nccl.sshd_instance")
    assert workers.accounts() == [2, 2]
    teardown(workers, gpufabric_run_id="blue")
    # The other one still has its own.
    assert workers.accounts() == [1, 1]
    assert workers.ssh("green", results["green"]["environment"]) == [f"gpufabric-{workers.uid}"] * 2
    teardown(workers, gpufabric_run_id="green")
    assert workers.accounts() == [0, 0] and workers.left() == []


@pytest.mark.slow
@pytest.mark.parametrize("user", ["gpufabric-1000680000", "tester"])
def test_an_account_of_the_image_is_used_where_one_can_log_in(cluster, namespace, workers, tmp_path, user):
    # Some container engines give the uid an entry themselves, with a shell that runs nothing.
    shell = "/bin/sh" if user == "tester" else "/sbin/nologin"
    passwd = f"root:x:0:0:root:/root:/bin/bash\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\ntester:x:{OF_OPENSHIFT[0]}:0:a user:/tmp:{shell}\n"
    cluster.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "passwd"}, "data": {"passwd": passwd}},
        namespace=namespace,
    )
    mount = {"name": "passwd", "mountPath": "/etc/passwd", "subPath": "passwd"}
    workers.create(
        OF_OPENSHIFT, container={"volumeMounts": [mount]}, volumes=[{"name": "passwd", "configMap": {"name": "passwd"}}]
    )
    assert passes_with_both(workers, tmp_path)["user"] == user
    assert workers.accounts() == ([0, 0] if user == "tester" else [1, 1])
    teardown(workers)
    assert workers.passwd() == [passwd] * 2 and workers.left() == []
