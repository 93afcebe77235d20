# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube import dns
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.dns import (
    dns_report,
    find_dns_problems,
    parse_hosts_file,
    parse_resolv_conf,
    pod_addresses,
)

NAME = "w-0.job.ns.svc"
CLUSTER = "nameserver 10.96.0.10\nsearch ns.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"


def make_pod(name="w-0", address="10.0.0.1", ready=True, **metadata):
    conditions = [{"type": "Ready", "status": "True" if ready else "False", "message": "" if ready else "probe failed"}]
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {"app": "nccl"}, **metadata},
        "spec": {"hostname": name, "subdomain": "job", "containers": [{"name": "worker"}]},
        "status": {"phase": "Running", "podIP": address, "conditions": conditions},
    }


def make_service(name="job", selector="nccl", **spec):
    selected = {"selector": {"app": selector}} if selector else {}
    return {"metadata": {"name": name}, "spec": {"clusterIP": "None", **selected, **spec}}


def make_endpoints(address="10.0.0.1", hostname="w-0", key="addresses"):
    return {"metadata": {"name": "job"}, "subsets": [{key: [{"ip": address, "hostname": hostname}]}]}


def find(services=(), endpoints=(), pods=(), names=(NAME,), stale=(), resolv=CLUSTER, error="not known", hosts=""):
    """The problems of names; None for objects that may not be looked at."""
    lookups = {
        kind: {"failed": True, "msg": f"{kind} is forbidden"} if items is None else {"resources": list(items)}
        for kind, items in (("Service", services), ("Endpoints", endpoints), ("Pod", pods))
    }
    failure = {
        "msg": "names",
        "unresolved": list(names),
        "stale": list(stale),
        "lookup_errors": dict.fromkeys(names, error),
        "evidence": {"/etc/resolv.conf": resolv, "/etc/hosts": hosts},
    }
    return find_dns_problems(failure, lookups, "ns", "cluster.local")


def changed(item, path, value):
    """A copy with one value changed; None takes it out."""
    item = copy.deepcopy(item)
    *parents, last = path.split(".")
    inner = item
    for key in parents:
        inner = inner[key]
    inner.pop(last, None) if value is None else inner.update({last: value})
    return item


SERVICE, ENDPOINTS, POD = make_service(), make_endpoints(), make_pod()
#: Everything is as it should be, but for what is given: (id, what is different, words of the cause, cure or evidence).
CAUSES = [
    (
        "dns-no-service",
        {"services": [make_service("other")]},
        "The Service job does not exist in namespace ns; Services there: other",
    ),
    ("dns-service-not-headless", {"services": [make_service(clusterIP="10.96.0.7")]}, "clusterIP 10.96.0.7"),
    (
        "dns-service-not-headless",
        {"services": [make_service(selector=None, clusterIP=None, type="ExternalName")], "endpoints": []},
        "type ExternalName, clusterIP not set",
    ),
    (
        "dns-pod-not-ready",
        {"services": [make_service(clusterIP="10.96.0.7")], "pods": [make_pod(ready=False)]},
        "probe failed",
    ),
    (
        "dns-selector",
        {"services": [make_service(selector="other")], "endpoints": []},
        "does not match the pod: app is nccl, wanted other",
    ),
    ("dns-selector", {"pods": [changed(POD, "metadata.labels", None)]}, "app is not set, wanted nccl"),
    ("dns-pod-not-ready", {"pods": [make_pod(ready=False)]}, "probe failed; publishNotReadyAddresses: true"),
    ("dns-pod-not-ready", {"pods": [make_pod(ready=False, address=None)]}, "is not ready"),
    ("dns-pod-ended", {"pods": [changed(POD, "status.phase", "Failed")]}, "(Failed)"),
    ("dns-pod-ended", {"pods": [make_pod(deletionTimestamp="2026-01-01T00:00:00Z")]}, "(being deleted)"),
    (
        "dns-pod-subdomain",
        {"pods": [changed(POD, "spec.subdomain", None)]},
        "subdomain is not set; Service's name, job",
    ),
    ("dns-pod-subdomain", {"pods": [changed(POD, "spec.subdomain", "bob")]}, "subdomain is bob"),
    ("dns-pod-hostname", {"pods": [changed(POD, "spec.hostname", None)]}, "hostname: not set, pod: w-0"),
    ("dns-no-pod", {"pods": [make_pod("w-1")]}, "Namespace ns has no such pod; pods there: w-1"),
    ("dns-no-endpoint", {"endpoints": []}, "not among the ready endpoints; endpoints of job: none"),
    (
        "dns-no-endpoint",
        {"services": [make_service(selector=None)], "endpoints": []},
        "the Service has no selector",
    ),
    ("dns-no-endpoint", {"endpoints": [make_endpoints(hostname=None)]}, "10.0.0.1 (without hostname)"),
    (
        "dns-stale-endpoint",
        {"endpoints": [make_endpoints("10.0.0.9")]},
        "pod: 10.0.0.1; endpoints of job: 10.0.0.9 (w-0)",
    ),
    (
        "dns-other-namespace",
        {"names": ["w-0.job.other.svc"]},
        "belongs to namespace other, but the pods are in namespace ns",
    ),
    ("dns-bare-name", {"names": ["w-0"]}, "Write w-0.job.ns.svc in the hostfile"),
    ("dns-no-nameserver", {"resolv": "search x\n"}, "has no name server"),
    (
        "dns-search-domain",
        {"resolv": "nameserver 10.96.0.10\n"},
        "rewrite_fqdn; or write w-0.job.ns.svc.cluster.local in",
    ),
    ("dns-search-domain", {"names": ["w-0.job"], "resolv": "nameserver 10.96.0.10\n"}, "or write w-0.job.ns.svc in"),
    (
        "dns-own-nameserver",
        {"resolv": "nameserver 127.0.0.53\nsearch cluster.local\n"},
        "ClusterFirstWithHostNet; nameserver 127.0.0.53",
    ),
    ("dns-server-silent", {"error": "Temporary failure in name resolution"}, "k8s-app=kube-dns"),
    ("dns-server-silent", {"error": "no answer in time"}, "port 53"),
    ("dns-cached", {}, "keep an earlier answer; nameserver 10.96.0.10; search ns.svc.cluster.local"),
]


@pytest.mark.parametrize(("identity", "different", "words"), CAUSES, ids=range(len(CAUSES)))
def test_each_cause_is_told_apart(identity, different, words):
    given = {"services": [SERVICE], "endpoints": [ENDPOINTS], "pods": [POD], **different}
    (problem,) = find(**given)
    assert problem.id == identity and problem.severity == "error"
    text = f"{problem.cause} {problem.cure} {problem.evidence}"
    assert [part for part in words.split("; ") if part not in text] == [], text


def test_a_pod_that_is_not_ready_is_no_cause_where_the_service_publishes_it():
    published = make_service(publishNotReadyAddresses=True)
    (problem,) = find([published], [ENDPOINTS], [make_pod(ready=False)])
    assert problem.id == "dns-cached"
    (problem,) = find([published], [ENDPOINTS], [make_pod(ready=False, address=None)])
    assert problem.id == "dns-pod-not-ready" and problem.evidence.startswith("no address yet; phase Running")


def test_all_settings_of_a_pod_that_are_wrong_are_told_at_once():
    pod = changed(changed(POD, "spec.subdomain", None), "spec.hostname", None)
    assert [item.id for item in find([SERVICE], [], [pod])] == ["dns-pod-subdomain", "dns-pod-hostname"]


def test_what_concerns_all_names_is_told_once():
    names = [f"w-{number}.job.ns.svc" for number in range(32)]
    (problem,) = find([], [], [make_pod(name.split(".")[0]) for name in names], names)
    assert problem.id == "dns-no-service" and problem.host is None


def test_the_pod_that_has_a_name_now_counts():
    ended = changed(make_pod("w-0-old", creationTimestamp="2"), "spec.hostname", "w-0")
    ended["status"]["phase"] = "Failed"
    (problem,) = find([SERVICE], [ENDPOINTS], [POD, ended])
    assert problem.id == "dns-cached"


def test_a_copy_of_a_pod_is_not_taken_for_it():
    copied = changed(make_pod("copied", "10.0.0.2", ready=False, creationTimestamp="2"), "spec.hostname", "w-0")
    (problem,) = find([SERVICE], [ENDPOINTS], [POD, copied])
    assert problem.id == "dns-cached"


@pytest.mark.parametrize(
    ("given", "identities"),
    [
        ({"pods": None}, ["dns-cached"]),
        ({"pods": None, "endpoints": []}, ["dns-no-endpoints"]),
        ({"pods": None, "services": None, "endpoints": []}, ["dns-no-endpoint"]),
        ({"endpoints": None}, ["dns-cached"]),
        ({"endpoints": None, "services": [make_service(selector="other")]}, ["dns-selector"]),
        ({"services": None, "endpoints": [make_endpoints("10.0.0.9")]}, ["dns-stale-endpoint"]),
        ({"services": None, "endpoints": None, "pods": None}, ["dns-cached"]),
    ],
)
def test_what_may_not_be_looked_at_is_said(given, identities):
    problems = find(**{"services": [SERVICE], "endpoints": [ENDPOINTS], "pods": [POD], **given})
    assert [item.id for item in problems if item.severity == "error"] == identities
    warnings = [item.evidence for item in problems if item.severity == "warning"]
    hidden = {"services": "Service", "endpoints": "Endpoints", "pods": "Pod"}
    assert warnings == [f"{kind} is forbidden" for key, kind in hidden.items() if given.get(key, ()) is None]


def test_kinds_that_were_not_asked_for_are_not_looked_at():
    failure = {"msg": "", "unresolved": [NAME]}
    problems = find_dns_problems(failure, {"Pod": {"api_found": False, "resources": []}}, "ns", "cluster.local")
    assert [item.id for item in problems] == ["dns-cached", *["dns-not-looked-at"] * 3]


OLD = make_pod("w-9", "10.0.0.9")
STALE = [
    ("dns-stale-record", {}, "10.0.0.9 is that of no pod in namespace ns; endpoints of job: 10.0.0.1 (w-0)"),
    ("dns-stale-record", {"pods": [POD, OLD]}, "10.0.0.9 is that of pod w-9"),
    ("dns-stale-record", {"pods": None, "endpoints": None}, "of a pod that could not be looked at"),
    ("dns-stale-endpoint", {"endpoints": [make_endpoints("10.0.0.9")]}, "endpoints of job: 10.0.0.9 (w-0)"),
    (
        "dns-stale-endpoint",
        {"endpoints": [make_endpoints("10.0.0.9")], "services": [make_service(selector=None)]},
        "the Service has no selector; Correct or delete the Endpoints",
    ),
    ("dns-hosts-file", {"hosts": f"127.0.0.1 localhost\n10.0.0.9 {NAME}\n"}, "hostAliases"),
    ("dns-pod-replaced", {"pods": [make_pod(address="10.0.0.9")]}, "was replaced after"),
]


@pytest.mark.parametrize(("identity", "different", "words"), STALE, ids=range(len(STALE)))
def test_a_name_that_is_of_another_pod(identity, different, words):
    given = {"services": [SERVICE], "endpoints": [ENDPOINTS], "pods": [POD], **different}
    stale = [{"name": NAME, "addresses": ["10.0.0.9"], "expected": "10.0.0.1"}]
    problem = find(**given, names=(), stale=stale)[0]
    assert problem.id == identity and problem.host == NAME
    assert problem.evidence.startswith(f"{NAME} is 10.0.0.9, the pod has 10.0.0.1")
    text = f"{problem.cause} {problem.cure} {problem.evidence}"
    assert [part for part in words.split("; ") if part not in text] == [], text


def test_the_report_names_hosts_once_for_each_cause_and_shows_what_it_was_found_from():
    names = [f"w-{number}.job.ns.svc" for number in range(8)]
    failure = {"msg": "names that do not resolve", "unresolved": names, "evidence": {"/etc/resolv.conf": CLUSTER}}
    lookups = {
        "Service": {"resources": [SERVICE]},
        "Endpoints": {"resources": [make_endpoints(key="notReadyAddresses")]},
        "Pod": {"resources": [make_pod(name.split(".")[0], ready=False) for name in names]},
    }
    report = dns_report(failure, lookups, "ns", "cluster.local")
    assert [entry["host"] for entry in report["problems"]] == names
    assert report["text"].count("The pod is not ready") == 1
    assert "w-6.job.ns.svc, w-7.job.ns.svc: The pod is not ready" in report["text"]
    assert report["text"].endswith(report["seen"])
    assert report["seen"] == (
        "names that do not resolve\n--- Endpoints in namespace ns ---\njob: 10.0.0.1 (w-0) not ready\n--- /etc/resolv.conf ---\n"
        + "\n".join(f"  {line}" for line in CLUSTER.splitlines())
    )


def test_pod_addresses():
    pods = [
        make_pod("w-0", "10.0.0.2", creationTimestamp="2"),
        make_pod("w-0", "10.0.0.1", creationTimestamp="1"),
        make_pod("w-1", "10.0.0.3", deletionTimestamp="1"),
        make_pod("w-2", None),
        changed(make_pod("w-3", "10.0.0.4"), "spec.subdomain", None),
        changed(make_pod("w-4", "10.0.0.5"), "status.phase", "Succeeded"),
        # As kubectl debug --copy-to makes it.
        changed(make_pod("w-0-copy", "10.0.0.6", creationTimestamp="3"), "spec.hostname", "w-0"),
        changed(make_pod("launcher-x7k2p", "10.0.0.7", creationTimestamp="1"), "spec.hostname", "launcher"),
        changed(make_pod("launcher-a8m3q", "10.0.0.8", creationTimestamp="2"), "spec.hostname", "launcher"),
    ]
    assert pod_addresses(pods) == {"w-0.job.ns": "10.0.0.2", "w-3": "10.0.0.4", "launcher.job.ns": "10.0.0.8"}


def test_parse_resolv_conf():
    text = (
        "# made\nsearch a.b\nnameserver 10.0.0.1 # first\nsearch C.d. e.f\n\nnameserver 10.0.0.2\noptions ndots:5\n;x\n"
    )
    config = parse_resolv_conf(text)
    assert config.nameservers == ("10.0.0.1", "10.0.0.2") and config.search == ("c.d", "e.f")
    assert config.completions("x") == ["x", "x.c.d", "x.e.f"]


def test_parse_hosts_file():
    assert parse_hosts_file("# x\n10.0.0.1 A b # c\n\n10.0.0.2 b\n") == {
        "a": ["10.0.0.1"],
        "b": ["10.0.0.1", "10.0.0.2"],
    }


def test_large_files_of_a_launcher_are_read_once_and_not_shown_for_each_name(monkeypatch):
    read = []
    monkeypatch.setattr(dns, "parse_hosts_file", lambda text: read.append(text) or {})
    files = {"/etc/resolv.conf": "nameserver 10.0.0.1\nsearch " + "a.b " * 200_000, "/etc/hosts": "127.0.0.1 localhost"}
    stale = [
        {"name": f"p-{index}.s.ns.svc", "addresses": ["10.9.9.9"] * 4000, "expected": "10.0.0.1"}
        for index in range(100)
    ]
    names = [f"q-{index}.s.ns.svc" for index in range(100)]
    problems = find_dns_problems({"stale": stale, "unresolved": names, "evidence": files}, {}, "ns", "cluster.local")
    assert len(problems) > 200 and len(read) == 1
    assert sum(len(problem.evidence) for problem in problems) < 200_000
