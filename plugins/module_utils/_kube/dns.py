# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Why names of pods do not resolve: what mpi_hostfile saw on the launcher, held against what the cluster has.

A pod's name ``POD.SERVICE.NAMESPACE.svc`` has an address where the headless Service has an endpoint that carries the
pod's ``hostname``: the pod says ``hostname: POD`` and ``subdomain: SERVICE``, the Service's selector takes it, and it is
ready or the Service publishes those that are not (Kubernetes, "DNS for Services and Pods").

Services, Endpoints and pods are dicts as the Kubernetes API gives them (v1).
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import ipaddress
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.rendering import problems_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.task_results import answer_of
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.pods import ENDED, is_over, is_ready, pod_problems
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.hostfile import cluster_labels
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.resolution import is_silence
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import listing

Object = t.Mapping[str, t.Any]

_SHOWN = 5
#: Of a resolv.conf, which the launcher's machine wrote; Kubernetes allows 3 name servers and 32 search domains.
_MOST_VALUES = 64


def pod_addresses(pods: t.Iterable[Object]) -> dict[str, str]:
    """The addresses of pods that have not ended, by the names that DNS has for them, as option expected takes them."""
    addresses = {}
    # A copy of a pod, as kubectl debug makes one, has its host name. Else the newest of a name counts.
    for pod in sorted(pods, key=lambda pod: (_hostname(pod) == pod["metadata"]["name"], _age(pod))):
        if pod["status"].get("podIP") and not is_over(pod):
            parts = [_hostname(pod), pod["spec"].get("subdomain"), pod["metadata"]["namespace"]]
            addresses[".".join(parts if parts[1] else parts[:1])] = pod["status"]["podIP"]
    return addresses


def _age(pod: Object) -> str:
    return pod["metadata"].get("creationTimestamp") or ""


def _hostname(pod: Object) -> str:
    return pod["spec"].get("hostname") or pod["metadata"]["name"]


@dataclasses.dataclass(frozen=True)
class _Cluster:
    """What could be looked at, None for what could not; all of one namespace."""

    namespace: str
    domain: str
    services: dict[str, Object] | None
    endpoints: dict[str, Object] | None
    pods: list[Object] | None

    @functools.cached_property
    def _pods(self) -> dict[str, Object]:
        """The pod that has a name now, or had it last, by the name. Not a copy that has the host name of the pod with that name."""
        named = [(name, pod) for pod in self.pods or () for name in (_hostname(pod), pod["metadata"]["name"])]
        named.sort(key=lambda item: (not is_over(item[1]), item[0] == item[1]["metadata"]["name"], _age(item[1])))
        return dict(named)

    def pod(self, hostname: str) -> Object | None:
        """The pod that has a name now, or had it last."""
        return self._pods.get(hostname)

    @functools.cached_property
    def _owners(self) -> dict[str, list[str]]:
        """The pods that have not ended, by their addresses."""
        found = collections.defaultdict(list)
        for pod in self.pods or ():
            if pod["status"].get("phase") not in ENDED:
                found[pod["status"].get("podIP")].append(pod["metadata"]["name"])
        return found

    def owner(self, address: str) -> str:
        """Who has an address now, in words."""
        if self.pods is None:
            return "of a pod that could not be looked at"
        names = self._owners.get(address)
        return f"that of pod {', '.join(names)}" if names else f"that of no pod in namespace {self.namespace}"

    @functools.cached_property
    def _texts(self) -> dict[str, str]:
        return {name: _listing(_endpoint_texts(item)) for name, item in (self.endpoints or {}).items()}

    def endpoint_text(self, service: str) -> str:
        """Some endpoints of a Service."""
        return self._texts.get(service, "none")

    @functools.cached_property
    def _ready(self) -> dict[str, dict[str | None, set[str]]]:
        found: dict[str, dict[str | None, set[str]]] = {}
        for name, item in (self.endpoints or {}).items():
            found[name] = collections.defaultdict(set)
            for entry in _endpoint_entries(item, "addresses"):
                found[name][entry.get("hostname")].add(entry["ip"])
        return found

    @functools.cached_property
    def _ready_of_all(self) -> dict[str, set[str]]:
        return {service: set().union(*own.values()) for service, own in self._ready.items()}

    def is_ready_address(self, service: str, address: str) -> bool:
        """Whether a ready endpoint of a Service has an address."""
        return address in self._ready_of_all.get(service, ())

    def ready_addresses(self, service: str) -> t.Mapping[str | None, set[str]]:
        """The addresses of a Service's ready endpoints, by their host names."""
        return self._ready.get(service, {})


def _endpoint_texts(endpoints: Object | None) -> list[str]:
    """Endpoints, each with its name and whether it is ready."""
    texts = []
    for key, suffix in (("addresses", ""), ("notReadyAddresses", " not ready")):
        for entry in _endpoint_entries(endpoints, key):
            texts.append(f"{entry['ip']} ({entry.get('hostname') or 'without hostname'}){suffix}")
    return texts


def _endpoint_entries(endpoints: Object | None, key: str) -> list[Object]:
    subsets = (endpoints or {}).get("subsets") or ()
    return [entry for subset in subsets for entry in subset.get(key) or ()]


@dataclasses.dataclass(frozen=True)
class ResolvConf:
    """What of a resolv.conf matters here."""

    nameservers: tuple[str, ...]
    search: tuple[str, ...]

    def completions(self, name: str) -> list[str]:
        """The names that a resolver may ask for when it is given one."""
        return [name, *(f"{name}.{domain}" for domain in self.search)]

    def __str__(self) -> str:
        servers, search = (", ".join(item) or "none" for item in (self.nameservers, self.search))
        return f"resolv.conf of the launcher: nameserver {servers}; search {search}"


def parse_resolv_conf(text: str) -> ResolvConf:
    """Name servers and search domains; of several search lines the last counts (resolv.conf(5))."""
    nameservers: list[str] = []
    search: tuple[str, ...] = ()
    for line in text.splitlines():
        key, *values = line.split("#", 1)[0].split(";", 1)[0].split() or [""]
        if key == "nameserver" and values:
            nameservers.append(values[0])
            del nameservers[_MOST_VALUES:]
        elif key in ("search", "domain"):
            search = tuple(value.rstrip(".").lower() for value in values[:_MOST_VALUES])
    return ResolvConf(tuple(nameservers), search)


def parse_hosts_file(text: str) -> dict[str, list[str]]:
    """The addresses of each name in a hosts file."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        address, *names = line.split("#", 1)[0].split() or [""]
        for name in names:
            found.setdefault(name.lower(), []).append(address)
    return found


@dataclasses.dataclass(frozen=True)
class _Seen:
    """What the launcher saw: why names did not resolve, and its files, None for what it has not returned."""

    errors: Object
    config: ResolvConf | None
    hosts: dict[str, list[str]]


def _seen_by(failure: Object) -> _Seen:
    files = failure.get("evidence") or {}
    text = files.get("/etc/resolv.conf")
    config = parse_resolv_conf(text) if text is not None else None
    return _Seen(failure.get("lookup_errors") or {}, config, parse_hosts_file(files.get("/etc/hosts") or ""))


def find_dns_problems(failure: Object, lookups: Object, namespace: str, cluster_domain: str) -> list[Problem]:
    """Why each name did not resolve, or resolved to something else, from the cause that is nearest to the cluster.

    ``failure``: what mpi_hostfile returned: ``unresolved``, ``stale``, ``lookup_errors``, ``evidence``. ``lookups``: what
    k8s_info returned for ``Service``, ``Endpoints`` and ``Pod``, by kind; a lookup that failed is told as a warning.
    """
    problems: dict[Problem, None] = {}
    found = {kind: _objects(lookups.get(kind)) for kind in ("Service", "Endpoints", "Pod")}
    services, endpoints = (
        None if found[kind] is None else {item["metadata"]["name"]: item for item in found[kind] or ()}
        for kind in ("Service", "Endpoints")
    )
    cluster = _Cluster(namespace, cluster_domain.rstrip("."), services, endpoints, found["Pod"])
    seen = _seen_by(failure)
    for entry in failure.get("stale") or ():
        problems[_stale_problem(cluster, entry, seen)] = None
    for name in failure.get("unresolved") or ():
        problems.update(dict.fromkeys(_unresolved_problems(cluster, name, seen)))
    for kind, objects in found.items():
        if objects is None:
            said = (lookups.get(kind) or {}).get("msg") or "they were not asked for"
            what = kind if kind.endswith("s") else f"{kind}s"
            facts = {"kinds": what, "namespace": namespace}
            problems[problem("dns-not-looked-at", None, answer_of(str(said)), **facts)] = None
    return list(problems)


def _objects(lookup: t.Any) -> list[Object] | None:
    if lookup is None or lookup.get("failed") or "resources" not in lookup or lookup.get("api_found") is False:
        return None
    return lookup["resources"]


def _unresolved_problems(cluster: _Cluster, name: str, seen: _Seen) -> t.Iterator[Problem]:
    labels = cluster_labels(name, cluster.domain)
    pod = cluster.pod(labels[0])
    if len(labels) == 1:
        yield _bare_name(cluster, name, pod)
        return
    service = labels[1]
    if len(labels) > 3 or (len(labels) == 3 and labels[2] != cluster.namespace):
        other = ".".join(labels[2:])
        yield problem("dns-other-namespace", name, other=other, namespace=cluster.namespace)
        return
    refused = _service_problem(cluster, service)
    if refused:
        yield refused
        return
    problems = list(_pod_problems(cluster, name, service, labels[0], pod))
    if problems:
        yield from problems
        return
    found = (cluster.services or {}).get(service)
    if found is not None and found["spec"].get("clusterIP") != "None":
        # Some DNS servers have names for the pods of such Services too, so anything else that is wrong comes first.
        yield _not_headless(found)
        return
    yield _resolver_problem(cluster, name, f"{labels[0]}.{service}.{cluster.namespace}", seen)


def _bare_name(cluster: _Cluster, name: str, pod: Object | None) -> Problem:
    subdomain = pod["spec"].get("subdomain") if pod else None
    full = {"full": f"{name}.{subdomain}.{cluster.namespace}.svc"} if subdomain else {}
    return problem("dns-bare-name", name, **full)


def _service_problem(cluster: _Cluster, name: str) -> Problem | None:
    """What is wrong with the Service, which concerns all names in it."""
    if cluster.services is None:
        return None
    service = cluster.services.get(name)
    if service is None:
        there = f"Services there: {_listing(cluster.services)}"
        return problem("dns-no-service", None, there, service=name, namespace=cluster.namespace)
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return _not_headless(service)
    if cluster.pods is None and cluster.endpoints is not None and cluster.endpoint_text(name) == "none":
        return problem("dns-no-endpoints", None, f"selector: {_pairs(spec.get('selector') or {})}", service=name)
    return None


def _not_headless(service: Object) -> Problem:
    spec = service["spec"]
    seen = f"type {spec.get('type') or 'ClusterIP'}, clusterIP {spec.get('clusterIP') or 'not set'}"
    return problem("dns-service-not-headless", None, seen, service=service["metadata"]["name"])


def _pod_problems(
    cluster: _Cluster, name: str, service_name: str, hostname: str, pod: Object | None
) -> t.Iterator[Problem]:
    """What is wrong with a pod, or with the Service as far as this pod is concerned. ``hostname``: the name's first part."""

    endpoints = f"endpoints of {service_name}: {cluster.endpoint_text(service_name)}"
    named = cluster.ready_addresses(service_name).get(hostname, set())
    if cluster.pods is None:
        if cluster.endpoints is not None and not named:
            yield problem("dns-no-endpoint", name, endpoints, service=service_name)
        return
    if pod is None:
        names = _listing(item["metadata"]["name"] for item in cluster.pods)
        yield problem("dns-no-pod", name, f"pods there: {names}", namespace=cluster.namespace)
        return
    service = (cluster.services or {}).get(service_name)
    wrong = list(_pod_settings(name, service_name, service, hostname, pod))
    if wrong:
        yield from wrong
        return
    status = pod["status"]
    if is_over(pod):
        state = "being deleted" if pod["metadata"].get("deletionTimestamp") else status["phase"]
        yield problem("dns-pod-ended", name, _condition_text(pod), state=state)
        return
    published = service and service["spec"].get("publishNotReadyAddresses")
    if not status.get("podIP") or (not is_ready(pod) and not published):
        address = "" if status.get("podIP") else "no address yet; "
        yield problem("dns-pod-not-ready", name, f"{address}{_condition_text(pod)}")
        return
    if cluster.endpoints is not None and status["podIP"] not in named:
        bare = "; the Service has no selector" if service and not service["spec"].get("selector") else ""
        cause = "dns-stale-endpoint" if named else "dns-no-endpoint"
        yield problem(cause, name, f"pod: {status['podIP']}; {endpoints}{bare}", service=service_name)


def _pod_settings(
    name: str, service_name: str, service: Object | None, hostname: str, pod: Object
) -> t.Iterator[Problem]:
    subdomain = pod["spec"].get("subdomain")
    if subdomain != service_name:
        yield problem("dns-pod-subdomain", name, subdomain=subdomain or "not set", service=service_name)
    if pod["spec"].get("hostname") != hostname:
        seen = f"hostname: {pod['spec'].get('hostname') or 'not set'}, pod: {pod['metadata']['name']}"
        yield problem("dns-pod-hostname", name, seen)
    if service and service["spec"].get("selector"):
        labels = pod["metadata"].get("labels") or {}
        wanted = service["spec"]["selector"]
        differing = [key for key in wanted if labels.get(key) != wanted[key]]
        if differing:
            differences = ", ".join(f"{key} is {labels.get(key, 'not set')}, wanted {wanted[key]}" for key in differing)
            seen = f"selector: {_pairs(wanted)}; pod: {_pairs(labels)}"
            yield problem("dns-selector", name, seen, service=service_name, differences=differences)


def _condition_text(pod: Object) -> str:
    """Why a pod is not ready, in Kubernetes' words."""
    texts = [
        f"{condition['type']}: {condition.get('message') or condition.get('reason')}"
        for condition in pod["status"].get("conditions") or ()
        if condition["status"] != "True" and (condition.get("message") or condition.get("reason"))
    ]
    texts += [f"{entry.cause} {entry.evidence}".strip() for entry in pod_problems([pod], [], {})]
    return "; ".join([f"phase {pod['status'].get('phase')}", *dict.fromkeys(texts)])


def _resolver_problem(cluster: _Cluster, name: str, short: str, seen: _Seen) -> Problem:
    """Why the launcher does not find what the cluster has. ``short``: the name up to its namespace."""
    full = f"{short}.svc.{cluster.domain}"
    errors, config = seen.errors, seen.config
    # As mpi_hostfile tries them.
    names = (name, f"{name}.{cluster.domain}", f"{name}.{cluster.domain}.")
    tried = [item for item in names if item in errors] or [name]
    said = "; ".join(f"{item}: {errors[item]}" for item in tried if item in errors)
    evidence = "\n".join(item for item in (said, str(config or "")) if item)

    if config is not None:
        if not config.nameservers:
            return problem("dns-no-nameserver", name, evidence)
        if full not in {item.rstrip(".") for entry in tried for item in config.completions(entry)}:
            # What does not end so is not completed by mpi_hostfile.
            written = full if name.endswith(".svc") else f"{short}.svc"
            return problem("dns-search-domain", name, evidence, full=written)
        local = [item for item in config.nameservers if _is_loopback(item)]
        if len(local) == len(config.nameservers):
            return problem("dns-own-nameserver", name, evidence)
    if any(is_silence(errors.get(item, "")) for item in tried):
        return problem("dns-server-silent", name, evidence)
    return problem("dns-cached", name, evidence)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _stale_problem(cluster: _Cluster, entry: Object, seen: _Seen) -> Problem:
    """Why a name resolves to the address of another."""
    name, addresses, expected = entry["name"], entry["addresses"], entry["expected"]
    labels = cluster_labels(name, cluster.domain)
    pod = cluster.pod(labels[0])
    service = labels[1] if len(labels) > 1 else None
    shown = _listing(addresses)
    owners = "; ".join(f"{item} is {cluster.owner(item)}" for item in addresses[:_SHOWN])
    evidence = f"{name} is {shown}, the pod has {expected}; {owners}"

    written = [item for key in (name, name.rstrip("."), labels[0]) for item in seen.hosts.get(key.lower(), ())]
    if set(addresses) & set(written):
        return problem("dns-hosts-file", name, evidence)
    if pod is not None and pod["status"].get("podIP") in addresses and not is_over(pod):
        return problem("dns-pod-replaced", name, evidence)
    if cluster.endpoints:
        evidence += f"; endpoints of {service}: {cluster.endpoint_text(service or '')}"
    if any(cluster.is_ready_address(service or "", item) for item in addresses):
        has_selector = ((cluster.services or {}).get(service or "") or {}).get("spec", {}).get("selector")
        bare = "" if has_selector else "; the Service has no selector"
        return problem("dns-stale-endpoint", name, evidence + bare, service=service)
    return problem("dns-stale-record", name, evidence)


def _pairs(labels: Object) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items()) or "none"


def _listing(items: t.Iterable[str]) -> str:
    return listing(items, _SHOWN) or "none"


def dns_report(failure: Object, lookups: Object, namespace: str, cluster_domain: str) -> dict[str, t.Any]:
    """``problems``, as entries of a result document, ``seen``: what they were found from, and ``text``: both, for people."""
    entries = [item.as_dict() for item in find_dns_problems(failure, lookups, namespace, cluster_domain)]
    seen = [failure["msg"]]
    names = [*(failure.get("unresolved") or ()), *(entry["name"] for entry in failure.get("stale") or ())]
    services = dict.fromkeys(
        labels[1] for labels in (cluster_labels(name, cluster_domain) for name in names) if labels[1:]
    )
    endpoints = _objects(lookups.get("Endpoints"))
    if endpoints is not None:
        by_name = {item["metadata"]["name"]: item for item in endpoints}
        seen.append(f"--- Endpoints in namespace {namespace} ---")
        seen += [f"{name}: {_listing(_endpoint_texts(by_name.get(name)))}" for name in services] or ["none"]
    for path, text in (failure.get("evidence") or {}).items():
        # The launcher's words: no line of them is to look like one of Ansible's.
        seen += [f"--- {path} ---", *(f"  {line}" for line in text.splitlines())]
    return {"problems": entries, "seen": "\n".join(seen), "text": "\n".join([problems_text(entries), *seen])}
