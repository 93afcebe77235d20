# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of pods: those that come late are waited for, those that do not come are explained."""

from __future__ import annotations

import concurrent.futures

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.rendering import problems_text
from background import wait

APP = {"app": "nccl"}
#: An address that a pod had once, for all that anybody knows.
EARLIER = "10.88.250.250"
HOSTFILE = "gpufabric.nccl.mpi_hostfile"
FAIL = "gpufabric.nccl.explain_hostfile"


class Launcher:
    """A pod that looks names up, and the plays that let it."""

    def __init__(self, cluster, player, pods, tmp_path):
        self.cluster, self.player, self.pods = cluster, player, pods
        self.inventory = tmp_path / "inventory.ini"
        host = "ansible_connection=kubernetes.core.kubectl ansible_python_interpreter=/usr/bin/python3"
        host += f" ansible_pipelining=true ansible_kubectl_namespace={pods.namespace}"
        self.inventory.write_text(f"launcher {host}\nplain {host}\n")

    def play(self, *tasks, player=None):
        """Tasks, one after the other, also where one fails."""
        blocks = [{"block": [task], "rescue": [{"ansible.builtin.meta": "noop"}]} for task in tasks]
        play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": blocks}
        variables = {"gpufabric_namespace": self.pods.namespace, "gpufabric_run_id": "dns"}
        return (player or self.player).playbook([play], "-i", str(self.inventory), **variables)

    def endpoints(self, service, **addresses):
        """Endpoints that nobody keeps up to date, of a Service without selector; addresses by hostname."""
        namespace = self.pods.namespace
        entries = [
            {"ip": ip, "hostname": hostname.replace("_", "-")} for hostname, ips in addresses.items() for ip in ips
        ]
        headless = {"kind": "Service", "metadata": {"name": service}, "spec": {"clusterIP": "None"}}
        by_hand = {"kind": "Endpoints", "metadata": {"name": service}, "subsets": [{"addresses": entries}]}
        self.cluster.create(*({"apiVersion": "v1", **item} for item in (headless, by_hand)), namespace=namespace)

    def wait_for_record(self, name, address):
        """Wait until a name resolves to an address."""
        wait(lambda: address in self.pods.exec("launcher", "getent", "ahosts", name, check=False).stdout)

    def sent(self):
        """How many packets it has sent by UDP: nobody does there but who looks names up."""
        lines = self.pods.exec("launcher", "cat", "/proc/net/snmp").stdout.splitlines()
        names, numbers = (line.split() for line in lines if line.startswith("Udp:"))
        return int(numbers[names.index("OutDatagrams")])

    def once_it_has_looked(self, action):
        """Do something when the module looks once more, for the questions of one look are fewer."""
        before = self.sent()
        wait(lambda: self.sent() > before + 100, 600)
        action()


@pytest.fixture
def launcher(cluster, cluster_player, pods, tmp_path):
    """A launcher."""
    pods.create("launcher", wait=False)
    return Launcher(cluster, cluster_player, pods, tmp_path)


def hostfile(*names, launcher="launcher", **variables):
    """The role's task file that writes a hostfile, for hosts by their names."""
    hosts = [{"name": name} for name in names]
    defaults = {"hostfile_launcher": launcher, "hostfile_hosts": hosts, "dns_timeout": 0, "dns_interval": 0.5}
    return {
        "ansible.builtin.include_role": {"name": "gpufabric.nccl.mpijob", "tasks_from": "hostfile"},
        "vars": {f"mpijob_{name}": value for name, value in {**defaults, **variables}.items()},
    }


def module(launcher="launcher", **options):
    """The module itself, which knows nothing of the cluster. All names that it is given come: a busy name server may take long."""
    return {HOSTFILE: {"run_id": "dns", "timeout": 180, **options}, "delegate_to": launcher}


def results(played, action):
    return [record["result"] for record in played.records if record["action"] == action]


def text_of(failure):
    """What a person reads of it."""
    return f"{problems_text(failure['problems'], failure['logs'])}\n{failure['end']}\n"


def workers(pods, service, *names, wait=False, **spec):
    """Worker pods with names of their own in a Service, which may not be there."""
    for name in names:
        pods.create(name, labels=APP, wait=False, hostname=name, subdomain=service, **spec)
    if wait:
        pods.wait_ready(*names)


def address_of(cluster, pods, name):
    return cluster.get("pod", name, namespace=pods.namespace)["status"]["podIP"]


@pytest.mark.slow
def test_names_that_come_late_are_waited_for(cluster, pods, launcher):
    workers(pods, "late", "late-0", "late-1")
    pods.wait_ready("launcher", "late-0", "late-1")
    names = [f"late-{number}.late.{pods.namespace}.svc" for number in range(2)]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        late = pool.submit(launcher.once_it_has_looked, lambda: pods.headless_service("late", APP))
        played = launcher.play(hostfile(*names, dns_timeout=180))
        late.result()
    assert played.returncode == 0, played.output
    (result,) = results(played, HOSTFILE)
    assert [host["address"] for host in result["hosts"]] == [address_of(cluster, pods, f"late-{n}") for n in range(2)]
    assert [problem["id"] for problem in result["problems"]] == ["name-late"] * 2
    text = pods.exec("launcher", "cat", result["path"]).stdout
    assert text == "".join(f"{host['address']} slots=1\n" for host in result["hosts"])


@pytest.mark.slow
def test_a_record_of_an_earlier_pod_is_waited_out(cluster, pods, launcher):
    workers(pods, "again", "again-0")
    launcher.endpoints("again", again_0=[EARLIER])
    pods.wait_ready("launcher", "again-0")
    address = address_of(cluster, pods, "again-0")
    fixed = f'[{{"op": "replace", "path": "/subsets/0/addresses/0/ip", "value": "{address}"}}]'

    def correct():
        cluster.kubectl("patch", "endpoints", "again", "--type=json", "--patch", fixed, namespace=pods.namespace)

    name = f"again-0.again.{pods.namespace}.svc"
    launcher.wait_for_record(name, EARLIER)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        late = pool.submit(launcher.once_it_has_looked, correct)
        played = launcher.play(hostfile(name, dns_timeout=180))
        late.result()
    assert played.returncode == 0, played.output
    (result,) = results(played, HOSTFILE)
    assert result["hosts"] == [{"name": name, "address": address, "slots": 1}]
    assert [problem["id"] for problem in result["problems"]] == ["name-late"]


#: What the message must tell, by the Service's name.
EXPLAINED = {
    "missing": "The Service missing does not exist in namespace",
    "astray": "astray-0.astray: The selector of the Service astray does not match the pod: app is nccl, wanted typo.",
    "unready": "unready-0.unready: The pod is not ready. DNS has ready pods only.",
    "gone": "gone-0.gone: Namespace",
    "nowhere": "nowhere-0.nowhere: The pod's subdomain is not set. It must be the Service's name, nowhere.",
    "stale": "stale-0.stale: The endpoints of the Service stale still have the address of an earlier pod of the same name.",
}


#: The same for programs, and what is wrong in words.
MATRIX = {
    "missing": ("dns-no-service", "no headless Service"),
    "astray": ("dns-selector", "selector of the Service that takes no worker"),
    "unready": ("dns-pod-not-ready", "worker that is not ready"),
    "gone": ("dns-no-pod", "name of a pod that is not there"),
    "nowhere": ("dns-pod-subdomain", "pod without subdomain"),
    "stale": ("dns-stale-endpoint", "endpoint of an earlier pod"),
}


@pytest.mark.slow
def test_names_that_do_not_come_are_explained(cluster, cluster_player, pods, faults, launcher):
    namespace = pods.namespace
    launcher.endpoints("stale", stale_0=[EARLIER])
    never = {"readinessProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1}}
    for service in ("missing", "astray", "stale"):
        workers(pods, service, f"{service}-0")
    pods.create("unready-0", labels=APP, wait=False, container=never, hostname="unready-0", subdomain="unready")
    pods.create("nowhere-0", labels=APP, wait=False, hostname="nowhere-0")
    for service in ("unready", "gone", "nowhere"):
        pods.headless_service(service, APP)
    pods.headless_service("astray", {"app": "typo"})
    # Who may look at pods alone is told so.
    cluster.kubectl("create", "role", "looks", "--verb=get,list", "--resource=pods", namespace=namespace)
    binding = ["looks", "--role=looks", f"--serviceaccount={namespace}:default"]
    cluster.kubectl("create", "rolebinding", *binding, namespace=namespace)
    limited = {"K8S_AUTH_IMPERSONATE_USER": f"system:serviceaccount:{namespace}:default"}
    pods.wait_ready("launcher", "missing-0", "astray-0", "stale-0", "nowhere-0")
    launcher.wait_for_record("stale-0.stale", EARLIER)

    services = (f"{service}-0.{service}" for service in EXPLAINED)
    # A busy name server does not answer each question at once.
    played = launcher.play(hostfile(*services, dns_timeout=45), hostfile("nowhere-0"))
    explained, bare = results(played, FAIL)
    text, problems = text_of(explained), explained["problems"]
    assert [words for words in EXPLAINED.values() if words not in text] == [], text
    # What concerns all names is told of none.
    hosts = {service: None if service == "missing" else f"{service}-0.{service}" for service in MATRIX}
    beside = {(identity, hosts[service]) for service, (identity, _words) in MATRIX.items()}
    for service, (identity, words) in MATRIX.items():
        faults.fault(words, problems, identity, hosts[service], "mpi_hostfile", "the cluster", beside=beside)
    first = next(line for line in text.splitlines() if "do not resolve" in line)
    assert "missing-0.missing, astray-0.astray, unready-0.unready, gone-0.gone, nowhere-0.nowhere;" in first, text
    assert f"stale-0.stale is {EARLIER} and not {address_of(cluster, pods, 'stale-0')};" in first
    # Lines after the first one are indented, so that none looks like one of Ansible's.
    assert f"\n  stale: {EARLIER} (stale-0)\n" in text and "give each job a name of its own" in text
    faults.fault("bare name of a pod", bare["problems"], "dns-bare-name", "nowhere-0", "mpi_hostfile", "the cluster")
    for path in ("/etc/resolv.conf", "/etc/hosts"):
        lines = pods.exec("launcher", "cat", path).stdout.rstrip().splitlines()
        assert "\n".join([f"--- {path} ---", *(f"  {line}" for line in lines)]) in text

    # The addresses are known, so no DNS is needed.
    names = [f"{service}-0.{service}" for service in ("missing", "astray", "stale")]
    player = cluster_player.within({**cluster.environment, **limited})
    played = launcher.play(hostfile(*names, hostfile_use_expected=True), hostfile("astray-0.astray"), player=player)
    known, _failed = results(played, HOSTFILE)
    assert [host["address"] for host in known["hosts"]] == [
        address_of(cluster, pods, name.split(".")[0]) for name in names
    ]
    (text,) = map(text_of, results(played, FAIL))
    for kind in ("Services", "Endpoints"):
        assert f"The user may not read the {kind} of namespace {namespace}" in text, text
    assert "forbidden" in text


@pytest.mark.slow
def test_names_that_only_resolve_in_full(cluster, pods, launcher):
    config = {"nameservers": [cluster_nameserver(pods)]}
    pods.create("plain", wait=False, dnsPolicy="None", dnsConfig=config)
    pods.headless_service("full", APP)
    workers(pods, "full", "full-0", wait=True)
    pods.wait_ready("plain")
    name, address = f"full-0.full.{pods.namespace}.svc", address_of(cluster, pods, "full-0")
    played = launcher.play(
        hostfile(name, launcher="plain", dns_timeout=180),
        hostfile(name, launcher="plain", rewrite_fqdn="true", dns_timeout=180),
        hostfile(name, launcher="plain", rewrite_fqdn="false"),
    )
    auto, full, failed = results(played, HOSTFILE)
    for result in (auto, full):
        assert result["hosts"] == [{"name": f"{name}.cluster.local", "address": address, "slots": 1}]
    assert failed["unresolved"] == [name]
    (text,) = map(text_of, results(played, FAIL))
    words = f"Set rewrite_fqdn (for an MPIJob mpijob_rewrite_fqdn) to auto or true, or write {name}.cluster.local in"
    assert words in " ".join(text.split())
    assert f"nameserver {config['nameservers'][0]}; search none" in text


def cluster_nameserver(pods):
    pods.wait_ready("launcher")
    lines = pods.exec("launcher", "cat", "/etc/resolv.conf").stdout.splitlines()
    return next(line.split()[1] for line in lines if line.startswith("nameserver "))


@pytest.mark.slow
def test_of_two_networks_the_control_network_is_taken(cluster, pods, launcher):
    pods.create("both-0")
    control = address_of(cluster, pods, "both-0")
    (data,) = (
        line.split()[3].partition("/")[0]
        for line in pods.exec("both-0", "ip", "-4", "-oneline", "address", "show", "net1").stdout.splitlines()
    )
    assert {control, data} <= set(pods.exec("both-0", "hostname", "-I").stdout.split())
    launcher.endpoints("both", both_0=[control, data], data_0=[data])
    pods.wait_ready("launcher")
    launcher.wait_for_record("both-0.both", control)
    both, only = {"hosts": [{"name": "both-0.both"}]}, {"hosts": [{"name": "data-0.both"}]}
    played = launcher.play(
        module(**both, interface="eth0"),
        module(**both, subnet=f"{control}/16"),
        module(**both),
        module(**both, expected={"both-0": control}),
        module(**only, interface="eth0"),
    )
    by_interface, by_subnet, guessed, known, refused = results(played, HOSTFILE)
    for result in (by_interface, by_subnet, known):
        assert [host["address"] for host in result.get("hosts", ())] == [control], result
    assert guessed["msg"].startswith("both-0.both has more than one address: ")
    assert refused["msg"].startswith("data-0.both has no address in ") and refused["msg"].endswith(f"by eth0: {data}")
