# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cluster that the other tests here rely on does what they rely on."""

from __future__ import annotations

import pytest
from background import wait
from changes import has_changed

if not has_changed("tests/testbed"):
    pytestmark = pytest.mark.slow


@pytest.fixture
def two_pods(pods):
    """Two ready pods with names of their own behind a headless Service."""
    pods.headless_service("ring", {"app": "ring"})
    for name in ("ring-0", "ring-1"):
        pods.create(name, labels={"app": "ring"}, wait=False, hostname=name, subdomain="ring")
    pods.wait_ready("ring-0", "ring-1")
    return pods


def resolve(pods, pod, name):
    """The addresses of a name in a pod; none if it does not resolve."""
    done = pods.exec(pod, "getent", "ahostsv4", name, check=False)
    return sorted({line.split()[0] for line in done.stdout.splitlines()})


def test_pods_have_two_networks(cluster, two_pods):
    addresses = {}
    for name in ("ring-0", "ring-1"):
        lines = two_pods.exec(name, "ip", "-4", "-oneline", "address", "show").stdout.splitlines()
        addresses[name] = {line.split()[1]: line.split()[3].partition("/")[0] for line in lines}
        pod = cluster.get("pod", name, namespace=two_pods.namespace)
        assert addresses[name]["eth0"] == pod["status"]["podIP"]
    assert addresses["ring-0"].keys() >= {"eth0", "net1"}
    # Nobody listens there: only what is reached can refuse.
    connect = "import errno, socket, sys; assert socket.socket().connect_ex((sys.argv[1], 9)) == errno.ECONNREFUSED"
    for interface in ("eth0", "net1"):
        two_pods.exec("ring-0", "timeout", "30", "python3", "-c", connect, addresses["ring-1"][interface])


def test_names_of_a_headless_service_resolve(cluster, two_pods):
    first, second = (
        cluster.get("pod", name, namespace=two_pods.namespace)["status"]["podIP"] for name in ("ring-0", "ring-1")
    )
    namespace = two_pods.namespace
    expected = {
        "ring": sorted([first, second]),
        **{
            f"ring-1.ring{suffix}": [second]
            for suffix in ("", f".{namespace}", f".{namespace}.svc", f".{namespace}.svc.cluster.local")
        },
    }

    def resolved() -> dict[str, list[str]]:
        return {name: resolve(two_pods, "ring-0", name) for name in expected}

    # They come after the pods are ready, one after the other.
    wait(lambda: resolved() == expected, left=resolved)


def test_a_name_that_nobody_has_is_refused_at_once(two_pods):
    for name in ("ring-9.ring", "ring-1.ring.svc", "nobody.example"):
        # 2 is getent's, 124 that of the time which a server that does not answer takes.
        assert two_pods.exec("ring-0", "timeout", "9", "getent", "hosts", name, check=False).returncode == 2


def test_only_a_service_that_asks_for_it_names_pods_that_are_not_ready(pods):
    never = {"readinessProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1}}
    pods.headless_service("ready", {"app": "late"})
    pods.headless_service("early", {"app": "late"}, publishNotReadyAddresses=True)
    pods.create("late-0", labels={"app": "late"}, wait=False, container=never, hostname="late-0", subdomain="early")
    pods.create("asks")
    wait(lambda: len(resolve(pods, "asks", "late-0.early")) == 1)
    assert resolve(pods, "asks", "ready") == []


def test_rights_are_enforced(cluster, namespace):
    cluster.kubectl("create", "serviceaccount", "nobody", namespace=namespace)
    who = f"--as=system:serviceaccount:{namespace}:nobody"
    refused = cluster.kubectl("get", "pods", who, namespace=namespace, check=False)
    assert refused.returncode != 0 and "Forbidden" in refused.stderr
    cluster.kubectl("create", "role", "sees", "--verb=list", "--resource=pods", namespace=namespace)
    cluster.kubectl(
        "create", "rolebinding", "sees", "--role=sees", f"--serviceaccount={namespace}:nobody", namespace=namespace
    )
    # The API server takes note of a new role a moment later.
    wait(lambda: cluster.kubectl("get", "pods", who, namespace=namespace, check=False).returncode == 0)


def test_32_pods_are_ready_at_once(pods):
    names = [f"many-{number}" for number in range(32)]
    made = pods.create(*names)
    assert len({pod["status"]["podIP"] for pod in made}) == len(names)
