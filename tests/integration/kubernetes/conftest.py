# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real cluster for the tests, which scripts/with-cluster finds or starts."""

from __future__ import annotations

import collections.abc as c
import dataclasses
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import typing as t
import uuid

import pytest
from background import wait
from fault_matrix import PODS, FaultMatrix
from job_runs import Definition
from leftovers import owned, remove_namespace, sweep
from mpi_operator import PlayedOperator
from pod_runs import Runs
from relay import Relay


def _run(*argv: str | pathlib.Path, check: bool = True, **keywords: t.Any) -> subprocess.CompletedProcess[str]:
    """Run a program; fails with its output."""
    command = [str(argument) for argument in argv]
    keywords = {"stdin": subprocess.DEVNULL, "timeout": 300, **keywords}
    if "input" in keywords:
        del keywords["stdin"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, **keywords)
    assert not check or done.returncode == 0, f"{shlex.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


@dataclasses.dataclass(frozen=True)
class Cluster:
    """A cluster that runs. ``image``: the worker image, which needs no pull (imagePullPolicy IfNotPresent)."""

    kubeconfig: str
    image: str
    kubectl_path: str

    @property
    def environment(self) -> dict[str, str]:
        """What ansible-playbook needs to reach the cluster, with this cluster's kubectl as the first one."""
        directory = str(pathlib.Path(self.kubectl_path).parent)
        return {"KUBECONFIG": self.kubeconfig, "PATH": f"{directory}:{os.environ['PATH']}"}

    @property
    def server(self) -> str:
        """The URL of its API server."""
        return self.kubectl("config", "view", "--minify", "--output=jsonpath={.clusters[0].cluster.server}").stdout

    def kubectl(
        self, *argv: str, namespace: str | None = None, check: bool = True, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl."""
        where = ["--namespace", namespace] if namespace else []
        given = {} if stdin is None else {"input": stdin}
        return _run(self.kubectl_path, "--kubeconfig", self.kubeconfig, *where, *argv, check=check, **given)

    def get(self, *argv: str, namespace: str | None = None) -> dict[str, t.Any]:
        """What ``kubectl get`` finds, as data."""
        return json.loads(self.kubectl("get", *argv, "--output=json", namespace=namespace).stdout)

    def create(self, *manifests: dict[str, t.Any], namespace: str | None = None) -> None:
        """Create objects."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        self.kubectl("create", "--filename=-", namespace=namespace, stdin=text)

    def token(self, account: str, namespace: str) -> str:
        """A token of a service account. Secrets with one come later than the account, or not at all."""
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        done = self.kubectl("create", "--raw", path, "--filename=-", stdin=json.dumps(request))
        return json.loads(done.stdout)["status"]["token"]


class Pods:
    """Pods made by hand in one namespace, as users make them."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self.namespace = namespace

    def create(
        self,
        *names: str,
        labels: dict[str, str] | None = None,
        wait: bool = True,
        container: dict[str, t.Any] | None = None,
        **spec: t.Any,
    ) -> list[dict[str, t.Any]]:
        """Create worker pods that sleep; as Kubernetes has them, once all are ready.

        ``spec``, ``container``: more of each pod's spec, and of its one container.
        """
        self._cluster.create(
            *(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": name, "labels": labels or {}},
                    "spec": {
                        "terminationGracePeriodSeconds": 0,
                        "containers": [
                            {
                                "name": "worker",
                                "image": self._cluster.image,
                                "imagePullPolicy": "IfNotPresent",
                                "command": ["sleep", "infinity"],
                                **(container or {}),
                            }
                        ],
                        **spec,
                    },
                }
                for name in names
            ),
            namespace=self.namespace,
        )
        if wait:
            self.wait_ready(*names)
        found = self._cluster.get("pods", namespace=self.namespace)["items"]
        by_name = {pod["metadata"]["name"]: pod for pod in found}
        return [by_name[name] for name in names]

    def wait_ready(self, *names: str, timeout: int = 240) -> None:
        """Wait until pods are ready; fails with what Kubernetes says about them."""
        done = self._cluster.kubectl(
            "wait",
            "--for=condition=Ready",
            f"--timeout={timeout}s",
            *(f"pod/{name}" for name in names),
            namespace=self.namespace,
            check=False,
        )
        if done.returncode != 0:
            described = self._cluster.kubectl("describe", "pods", *names, namespace=self.namespace, check=False)
            pytest.fail(f"{done.stderr}\n{described.stdout}")

    def headless_service(self, name: str, selector: dict[str, str], **spec: t.Any) -> None:
        """Create a headless Service; pods with ``hostname`` and ``subdomain=name`` get names of their own."""
        self._cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": name},
                "spec": {"clusterIP": "None", "selector": selector, **spec},
            },
            namespace=self.namespace,
        )

    def exec(self, name: str, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command in a pod, without Ansible."""
        return self._cluster.kubectl("exec", name, "--", *argv, namespace=self.namespace, check=check)


@pytest.fixture(scope="session")
def faults() -> FaultMatrix:
    """Keeps what is told of faults that are made in pods and in the cluster."""
    return FaultMatrix(pathlib.Path(__file__).parents[3] / "build" / "faults", PODS)


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The cluster of KUBECONFIG, as scripts/with-cluster gives it."""
    given = [os.environ.get("KUBECONFIG"), os.environ.get("GPUFABRIC_WORKER_IMAGE"), shutil.which("kubectl")]
    assert all(given), "these tests need a cluster: scripts/with-cluster pytest tests/integration/kubernetes"
    cluster = Cluster(*given)
    sweep(cluster)
    return cluster


@pytest.fixture(scope="session")
def cluster_player(cluster: Cluster, player: t.Any) -> t.Any:
    """Runs playbooks that reach the cluster: the Player of the tests around these."""
    # Four tests beside each other, of which some play two plays, keep two cores busy.
    return player.within(cluster.environment, seconds=1200)


@pytest.fixture
def namespace(cluster: Cluster) -> c.Iterator[str]:
    """A namespace of the test's own."""
    name = f"gpufabric-test-{uuid.uuid4().hex[:8]}"
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **owned()}})

    def made() -> subprocess.CompletedProcess[str]:
        return cluster.kubectl("run", "first", "--image=any", "--dry-run=server", namespace=name, check=False)

    # No pod can be created before its namespace has its service account, and that its token, as earlier versions want.
    wait(lambda: made().returncode == 0, left=lambda: made().stderr)
    yield name
    remove_namespace(cluster, name)


@pytest.fixture
def pods(cluster: Cluster, namespace: str) -> Pods:
    """Makes pods by hand."""
    return Pods(cluster, namespace)


@pytest.fixture
def runs(cluster: t.Any, cluster_player: t.Any, namespace: str, tmp_path: pathlib.Path) -> Runs:
    """Runs in a namespace of the test's own."""
    return Runs(cluster, cluster_player, namespace, tmp_path)


@pytest.fixture
def relay(cluster: Cluster, tmp_path: pathlib.Path) -> c.Iterator[Relay]:
    """A way to the API server that can be cut."""
    relay = Relay(pathlib.Path(cluster.kubeconfig), tmp_path / "relayed")
    yield relay
    relay.down()


@pytest.fixture(scope="session")
def definition(cluster):
    definition = Definition(cluster)
    yield definition
    definition.leave()


@pytest.fixture
def mpijobs(definition):
    """A cluster that knows MPIJobs; nothing acts on them yet."""
    with definition.there():
        yield


@pytest.fixture
def operator(cluster, namespace, mpijobs):
    """The operator, played."""
    with PlayedOperator(cluster, namespace) as played:
        yield played
