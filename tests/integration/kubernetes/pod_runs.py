# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs of the playbook kubernetes, and what they leave."""

from __future__ import annotations

import concurrent.futures
import json
import pathlib
import typing as t
import uuid

from background import wait

#: Finds all that a run made in a cluster.
OURS = "app.kubernetes.io/managed-by=gpufabric.nccl"
#: States of pods in which nothing has come of them yet.
STARTING = ("", "ContainerCreating")
#: What a run may have made in a namespace.
KINDS = "pods,services,statefulsets,networkpolicies,configmaps,secrets"
#: What remains in a pod: the directories of runs, and the processes that carry a run's name.
REMAINS = (
    "ls /run/gpufabric /tmp/gpufabric-* 2>/dev/null;"
    " for f in /proc/[0-9]*/environ; do tr '\\0' '\\n' <$f 2>/dev/null | grep GPUFABRIC_; done; true"
)


def attempts(
    player: t.Any,
    directory: pathlib.Path,
    role: str,
    settings: t.Mapping[str, t.Any],
    cases: t.Mapping[str, t.Mapping[str, t.Any]],
    *arguments: str,
) -> t.Any:
    """Play a role of the controller once for several cases, each as a host with variables of its own."""
    local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    inventory = directory / f"{uuid.uuid4().hex}.json"
    inventory.write_text(json.dumps({"all": {"hosts": cases, "vars": {**local, **settings}}}))
    play = {"hosts": "all", "gather_facts": False, "roles": [role]}
    return player.playbook([play], "-i", str(inventory), *arguments)


class Runs:
    """Runs of the playbook kubernetes in one namespace, small ones."""

    def __init__(self, cluster: t.Any, player: t.Any, namespace: str, directory: pathlib.Path) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.directory = directory
        self._player = player

    def within(self, environment: dict[str, str]) -> Runs:
        """The same with other environment variables."""
        player = self._player.within({**self.cluster.environment, **environment})
        return Runs(self.cluster, player, self.namespace, self.directory)

    def play(self, *arguments: str, **variables: t.Any) -> t.Any:
        """Create pods, or with a variable that names some adopt them, and run."""
        return self._player.playbook("gpufabric.nccl.kubernetes", *arguments, **{**self._small(), **variables})

    def attempts(self, cases: t.Mapping[str, t.Mapping[str, t.Any]], *arguments: str) -> t.Any:
        """Try to get pods in several ways at once, by the role that the playbook begins with. Each way is a host, with its variables."""
        return attempts(self._player, self.directory, "gpufabric.nccl.worker_pods", self._small(), cases, *arguments)

    def teardown(self, *arguments: str, **variables: t.Any) -> t.Any:
        """Remove the pods of a run."""
        own = {"gpufabric_namespace": self.namespace, "gpufabric_worker_pods": True}
        return self._player.playbook("gpufabric.nccl.teardown", *arguments, **{**own, **variables})

    def _small(self) -> dict[str, t.Any]:
        return {
            "gpufabric_namespace": self.namespace,
            "worker_pods_gpus": 0,
            "worker_pods_image": self.cluster.image,
            "worker_pods_shm_size": "64Mi",
            "worker_pods_timeout": 300,
            "nccl_benchmark_max_bytes": "4K",
            "nccl_benchmark_iterations": 2,
            "report_dir": str(self.directory / "report"),
        }

    def results(self) -> list[dict[str, t.Any]]:
        """The result documents of the last run."""
        return json.loads((self.directory / "report/results.json").read_text())["results"]

    def result(self) -> dict[str, t.Any]:
        """The first of them."""
        return self.results()[0]

    def ours(self, selector: str = OURS) -> list[str]:
        """The objects that runs have made here."""
        return self.cluster.kubectl(
            "get", KINDS, "--selector", selector, "--output=name", namespace=self.namespace
        ).stdout.split()

    def states(self) -> dict[str, str]:
        """What has come of each pod: why it is not scheduled, what its container waits for, or does; empty at first."""
        found = {}
        for pod in self.cluster.get("pods", namespace=self.namespace)["items"]:
            status = pod["status"]
            conditions = [item for item in status.get("conditions", ()) if item["status"] == "False"]
            refused = "".join(item["reason"] for item in conditions if item["type"] == "PodScheduled")
            state = next((item["state"] for item in status.get("containerStatuses", ())), {})
            does = state.get("waiting", {}).get("reason") or next(iter(state), "")
            found[pod["metadata"]["name"]] = refused or status.get("reason") or does
        return found

    def has_ended(self, pod: str) -> bool:
        """Whether a container of a pod has ended, started anew or not."""
        status = self.cluster.get("pod", pod, namespace=self.namespace)["status"]
        return any("terminated" in item[key] for item in status["containerStatuses"] for key in ("state", "lastState"))

    def warned(self, kind: str, name: str) -> bool:
        """Whether there is a warning about an object."""
        which = f"--field-selector=type=Warning,involvedObject.kind={kind},involvedObject.name={name}"
        return self.cluster.get("events", which, namespace=self.namespace)["items"] != []

    def shell(self, pod: str, command: str, check: bool = True) -> str:
        """What a shell command in a pod prints, without Ansible."""
        return self.cluster.kubectl(
            "exec", pod, "--", "sh", "-c", command, namespace=self.namespace, check=check
        ).stdout

    def has(self, pod: str, command: str) -> bool:
        """Whether a shell command in a pod succeeds."""
        done = self.cluster.kubectl("exec", pod, "--", "sh", "-c", command, namespace=self.namespace, check=False)
        return done.returncode == 0

    def wait_for_output(
        self, launcher: str, point: int, playing: concurrent.futures.Future, then: str = "true"
    ) -> None:
        """Until the program of a point has printed something; fails where the play is over before. ``then``: a shell command to run
        at once there, sooner than a test could.
        """
        output = f"/run/gpufabric/default/mpi/points/{point}/stdout"
        look = f"for n in $(seq 50); do if test -s {output}; then {then}; exit 0; fi; sleep 0.05; done; exit 1"
        wait(lambda: self.has(launcher, look) or playing.done(), 600, pause=1)
        assert not playing.done(), playing.result().output
