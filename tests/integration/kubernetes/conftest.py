# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real cluster for the tests: KUBECONFIG's, else kind's, else the test bed from Debian packages (tests/testbed)."""

from __future__ import annotations

import collections.abc as c
import contextlib
import dataclasses
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import time
import typing as t
import uuid

import pytest

ROOT = pathlib.Path(__file__).parents[3]
TESTBED = ROOT / "tests" / "testbed"
WORKER = ROOT / "containers" / "worker"
#: The name of the worker image in kind's cluster.
IMAGE = "localhost/gpufabric-worker:test"


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

    def wait_ready(self, *names: str, timeout: int = 120) -> None:
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


def _kubectl() -> str:
    found = shutil.which("kubectl")
    assert found, "kubectl is not on PATH"
    return found


@contextlib.contextmanager
def _given() -> c.Iterator[Cluster]:
    """The cluster of KUBECONFIG."""
    image = os.environ.get("GPUFABRIC_WORKER_IMAGE")
    assert image, "KUBECONFIG is set: set GPUFABRIC_WORKER_IMAGE too, to the name of the worker image in that cluster"
    yield Cluster(os.environ["KUBECONFIG"], image, _kubectl())


@contextlib.contextmanager
def _kind(directory: pathlib.Path) -> c.Iterator[Cluster]:
    """A cluster of kind, with the worker image built here."""
    name = f"gpufabric-{uuid.uuid4().hex[:8]}"
    kubeconfig, archive = directory / "kubeconfig", directory / "worker.tar"
    environment = dict(os.environ)
    if not shutil.which("docker"):
        environment["KIND_EXPERIMENTAL_PROVIDER"] = "podman"
    try:
        _run(WORKER / "build", archive, IMAGE, timeout=1200)
        create = ("kind", "create", "cluster", "--name", name, "--kubeconfig", kubeconfig, "--wait=180s")
        _run(*create, env=environment, timeout=600)
        _run("kind", "load", "image-archive", archive, "--name", name, env=environment)
        yield Cluster(str(kubeconfig), IMAGE, _kubectl())
    finally:
        _run("kind", "delete", "cluster", "--name", name, "--kubeconfig", kubeconfig, env=environment, check=False)


@contextlib.contextmanager
def _testbed() -> c.Iterator[Cluster]:
    """The cluster from Debian packages, beside any that a developer runs."""
    environment = {"GPUFABRIC_TESTBED": "8", **os.environ}
    exports = 'printf "%s\n" "$KUBECONFIG" "$GPUFABRIC_WORKER_IMAGE" "$(command -v kubectl)"'
    command = f'exports=$("$0") && eval "$exports" && {exports}'
    try:
        # Ten times what the first build takes here.
        up = _run("bash", "-c", command, TESTBED / "kube-up", env=environment, timeout=3600)
        yield Cluster(*up.stdout.splitlines())
    finally:
        _run(TESTBED / "kube-down", env=environment)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> c.Iterator[Cluster]:
    """A cluster; one that the tests start ends with them, however they end."""
    if os.environ.get("KUBECONFIG"):
        source = _given()
    elif shutil.which("kind") and (shutil.which("docker") or shutil.which("podman")):
        source = _kind(tmp_path_factory.mktemp("kind"))
    else:
        source = _testbed()
    with source as found:
        yield found


@pytest.fixture(scope="session")
def cluster_player(cluster: Cluster, player: t.Any) -> t.Any:
    """Runs playbooks that reach the cluster: the Player of the tests around these."""
    return player.within(cluster.environment)


@pytest.fixture
def namespace(cluster: Cluster) -> c.Iterator[str]:
    """A namespace of the test's own."""
    name = f"gpufabric-test-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", name)
    # No pod can be created before its namespace has its service account.
    deadline = time.monotonic() + 30
    while cluster.kubectl("get", "serviceaccount", "default", namespace=name, check=False).returncode != 0:
        assert time.monotonic() < deadline, f"namespace {name} got no service account"
        time.sleep(0.1)
    yield name
    cluster.kubectl("delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false", namespace=name)
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def pods(cluster: Cluster, namespace: str) -> Pods:
    """Makes pods by hand."""
    return Pods(cluster, namespace)
