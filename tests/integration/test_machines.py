# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Machines that are set up in ways of their own: names, addresses, login shells."""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import socket
import subprocess
import sys
import typing as t

import pytest
from conftest import Nodes, Played


def privileged(nodes: Nodes, node: str, command: str) -> None:
    """Run a shell command with a node's names and networks, as root of this machine."""
    container = f"gpufabric-{nodes.run_id}-{node}"
    argv = ["podman", "inspect", "--format", "{{.State.Pid}}", container]
    pid = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True, timeout=120).stdout.strip()
    subprocess.run(["nsenter", "-t", pid, "-u", "-n", "bash", "-c", command], check=True, timeout=120)


@contextlib.contextmanager
def changed(nodes: Nodes, make: dict[str, str], mend: dict[str, str]) -> t.Iterator[None]:
    """Nodes on which commands were run, by node."""
    try:
        for node, command in make.items():
            privileged(nodes, node, command)
        yield
    finally:
        for node, command in mend.items():
            privileged(nodes, node, command)


def problems_of(played: Played) -> list[dict[str, t.Any]]:
    (failed,) = [record["result"] for record in played.records if record["status"] == "failed"]
    return failed["problems"]


@pytest.fixture(scope="module")
def machines(make_nodes: t.Callable[[int], Nodes]) -> Nodes:
    return make_nodes(3)


#: Shell: the PCI bus of a node has one device, a data centre GPU. A device is a folder of such files.
GPU_ON_THE_BUS = (
    "mount -t tmpfs bus /sys/bus/pci/devices; cd /sys/bus/pci/devices; mkdir 0000:1b:00.0; cd 0000:1b:00.0;"
    " echo 0x10de > vendor; echo 0x030200 > class; echo 0x2330 > device"
)


@pytest.mark.slow
def test_a_machine_with_gpus_and_no_driver(machines, faults, tmp_path):
    """No node has GPUs that can be used, and the CPU program is not to take their place without a word."""

    def in_node(command: str) -> None:
        argv = [
            "podman",
            "exec",
            "--privileged",
            "--user",
            "root",
            f"gpufabric-{machines.run_id}-g2",
            "bash",
            "-ec",
            command,
        ]
        subprocess.run(argv, check=True, timeout=120)

    in_node(GPU_ON_THE_BUS)
    try:
        played = machines.benchmark(tmp_path)
        search = machines.playbook("gpufabric.nccl.isolate", report_dir=str(tmp_path / "isolate"))
        asked_for = machines.benchmark(tmp_path, nccl_benchmark_backend="cpu")
    finally:
        in_node("umount /sys/bus/pci/devices")
    for told_by, stopped in (("the role nccl_benchmark", played), ("the role isolate", search)):
        assert stopped.returncode == 2 and "0000:1b:00.0 10de:2330" in stopped.output
        fault, stand_in = "GPUs whose driver is not loaded", "a directory in the place of the PCI bus in /sys"
        faults.fault(fault, problems_of(stopped), "gpu-driver", "g2", told_by, stand_in=stand_in)
    assert "gpufabric.nccl.sshd_instance" not in played.output
    assert asked_for.returncode == 0, asked_for.output


@pytest.mark.slow
def test_machines_with_one_host_name(machines, faults, tmp_path):
    one, two = list(machines.names)[:2]
    names = {node: machines.shell(node, "hostname").stdout.strip() for node in (one, two)}
    # nccl-tests prints it without the domain.
    clone = {two: f"hostname {names[one]}.example.com"}
    with changed(machines, clone, {two: f"hostname {names[two]}"}):
        played = machines.benchmark(tmp_path)
        assert played.returncode == 2
        # Before anything is started.
        assert "gpufabric.nccl.sshd_instance" not in played.output and "Start a private sshd" not in played.output
        diagnosed = machines.playbook("gpufabric.nccl.diagnose", preflight_report_dir=str(tmp_path))
        assert diagnosed.returncode == 2
    found = json.loads((tmp_path / "diagnosis.json").read_text())["problems"]
    for host, other in ((one, two), (two, one)):
        beside = [("host-name-shared", other)]
        faults.fault(
            "two machines have one host name",
            problems_of(played),
            "host-name-shared",
            host,
            "the role nccl_benchmark",
            beside=beside,
        )
        faults.fault(
            "two machines have one host name", found, "host-name-shared", host, "the playbook diagnose", beside=beside
        )


@pytest.mark.slow
def test_a_machine_that_is_in_the_inventory_twice(machines, faults, tmp_path):
    one, two = list(machines.names)[:2]
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(json.dumps({"workers": {"hosts": {"again": {"ansible_host": machines.addresses[two]}}}}))
    more = ["-i", str(inventory)]
    target = {"gpufabric_target": f"{one},{two},again"}
    played = machines.benchmark(tmp_path, *more, **target)
    assert played.returncode == 2
    diagnosed = machines.playbook("gpufabric.nccl.diagnose", *more, preflight_report_dir=str(tmp_path), **target)
    assert diagnosed.returncode == 2
    found = json.loads((tmp_path / "diagnosis.json").read_text())["problems"]
    for host, other in ((two, "again"), ("again", two)):
        faults.fault(
            "a machine has two names in the inventory",
            problems_of(played),
            "host-twice",
            host,
            "the role nccl_benchmark",
            beside=[("host-twice", other)],
        )
    faults.fault("a machine has two names in the inventory", found, "host-twice", "again", "the playbook diagnose")


def test_obstacles_that_only_mpirun_would_meet(machines, faults, tmp_path):
    """A firewall as of a cloud, which lets in ssh alone, and a login shell that does not read what mpirun writes."""
    _one, two, three = machines.names
    only = "-i eth0 -p tcp -m multiport ! --dports 22,2223 -m conntrack --ctstate NEW"
    make, mend = ({two: f"iptables --wait {verb} INPUT {only} -j DROP"} for verb in ("-A", "-D"))
    machines.shell(three, "usermod -s $(command -v tcsh) root")
    try:
        with changed(machines, make, mend):
            played = machines.benchmark(tmp_path, key_exchange_port=2223, preflight_level="full", preflight_timeout=2)
    finally:
        machines.shell(three, "usermod -s /bin/bash root")
    assert played.returncode == 2
    found, teller = problems_of(played), "mpi_preflight"
    shell, firewall = ("login-shell", three), ("control-unreachable", two)
    faults.fault("a firewall lets in ssh alone on the control network", found, *firewall, teller, beside=[shell])
    faults.fault("the login shell is tcsh, and the launcher's is bash", found, *shell, teller, beside=[firewall])


@pytest.mark.slow
def test_machines_that_are_set_up_in_ways_of_their_own(machines, faults, tmp_path):
    """Names in place of addresses, IPv6 beside IPv4, a long host name, a data interface such as of a VLAN, and fish for all, which does
    not read what mpirun writes, with settings of its own.
    """
    (library,) = pathlib.Path("/usr/lib").glob("*-linux-gnu/libnss_wrapper.so")
    one, _two, three = machines.names
    names = {node: f"{node}.fabric.example" for node in machines.names}
    (tmp_path / "hosts").write_text("".join(f"{machines.addresses[node]} {name}\n" for node, name in names.items()))
    inventory = str(tmp_path / "inventory.yml")
    hosts = {node: {"ansible_host": name} for node, name in names.items()}
    pathlib.Path(inventory).write_text(json.dumps({"all": {"hosts": hosts}}))
    known = f"-o HostKeyAlias={{{{ {machines.addresses} [inventory_hostname] }}}}"
    within = machines.within({"LD_PRELOAD": str(library), "NSS_WRAPPER_HOSTS": str(tmp_path / "hosts")})
    long = "very-long-name-of-a-machine-in-the-second-row-of-a-data-centre"
    rename = "ip link set {0} down; ip link set {0} name {1}; ip link set {1} up; "
    make = {
        node: f"{rename.format('net1', 'data-1.100')} ip -6 address add fd00:66::1{number}/64 dev eth0"
        for number, node in enumerate(machines.names)
    }
    make[three] += f"; hostname {long}"
    mend = {
        node: f"ip -6 address del fd00:66::1{number}/64 dev eth0; {rename.format('data-1.100', 'net1')} hostname {node}"
        for number, node in enumerate(machines.names)
    }
    # A run directory is that of a machine by its name, which is another one here.
    assert machines.playbook("gpufabric.nccl.teardown").returncode == 0
    config = "set -x LANG de_DE.UTF-8; set -x LC_ALL de_DE.UTF-8; umask 077; echo Guten Tag"
    try:
        for node in machines.names:
            machines.shell(node, "usermod -s $(command -v fish) root")
            machines.shell(node, f"mkdir -p /root/.config/fish; echo '{config}' > /root/.config/fish/config.fish")
        with changed(machines, make, mend):
            played = within.benchmark(
                tmp_path,
                "-i",
                inventory,
                ansible_ssh_extra_args=known,
                gpufabric_data_interface="data-1.100",
                preflight_level="full",
            )
            removed = within.playbook("gpufabric.nccl.teardown", "-i", inventory, ansible_ssh_extra_args=known)
    finally:
        for node in machines.names:
            machines.shell(node, "usermod -s /bin/bash root; rm -rf /root/.config/fish")
    assert (played.returncode, removed.returncode) == (0, 0), played.output + removed.output
    assert ", PASS" in played.output
    looked = played.result(action="gpufabric.nccl.mpi_preflight")
    faults.healthy("three machines with fish, names, IPv6 and VLANs", looked["problems"], "mpi_preflight")
    facts = {host["name"]: host["facts"] for host in looked["hosts"]}
    assert facts[three]["hostname"] == long and len(facts[three]["interfaces"]["eth0"]["addresses"]) == 2
    assert "data-1.100" in facts[one]["interfaces"] and facts[one]["shell"] == "/bin/sh"
    # This machine does not know the names otherwise.
    with pytest.raises(socket.gaierror):
        socket.gethostbyname(names[one])


@pytest.mark.slow
def test_two_machines_with_one_address_of_the_data_network(machines, faults, tmp_path):
    one, two, three = machines.names
    address = {node: machines.addresses[node].replace("10.66.", "192.168.") for node in (two, three)}
    swap = "ip address del {0}/24 dev net1; ip address add {1}/24 dev net1"
    make = {three: swap.format(address[three], address[two])}
    with changed(machines, make, {three: swap.format(address[two], address[three])}):
        diagnosed = machines.playbook("gpufabric.nccl.diagnose", preflight_report_dir=str(tmp_path))
    assert diagnosed.returncode == 2
    found = json.loads((tmp_path / "diagnosis.json").read_text())["problems"]
    for host, other in ((two, three), (three, two)):
        faults.fault(
            "two machines have one address on the data network",
            found,
            "address-shared",
            host,
            "the playbook diagnose",
            beside=[("address-shared", other)],
        )
    # The first of the hosts has links that fail, and nothing wrong with it.
    assert one not in {problem["host"] for problem in found}


@pytest.mark.slow
def test_tags_limits_and_plays_that_run_hosts_one_by_one(player, tmp_path):
    """What of a playbook is left out is either not needed, or an error."""
    inventory = tmp_path / "hosts.yml"
    hosts = {"gpu-1": {"ansible_connection": "local"}, "gpu-2": {"ansible_connection": "local"}}
    inventory.write_text(json.dumps({"all": {"hosts": hosts}}))
    for playbook in ("bare_metal", "teardown"):
        played = player.playbook(f"gpufabric.nccl.{playbook}", "-i", str(inventory), "--tags", "fast")
        assert played.returncode == 2 and played.result()["msg"].startswith("--tags fast is not allowed: "), (
            played.output
        )
    # These are checks of the controller, which is left out.
    arguments = ["-i", str(inventory), "--limit", "gpu-1"]
    played = player.playbook("gpufabric.nccl.teardown", *arguments, gpufabric_worker_pods=True)
    assert played.returncode == 2 and played.result()["msg"].startswith("--limit gpu-1 is not allowed with ")
    # Without a host, nothing would be done, and that well.
    for playbook in ("bare_metal", "diagnose", "teardown"):
        played = player.playbook(f"gpufabric.nccl.{playbook}", *arguments, gpufabric_target="gpu-2")
        assert played.returncode == 2 and played.result()["msg"].startswith("--limit gpu-1 is not allowed;"), (
            played.output
        )
    played = player.playbook("gpufabric.nccl.teardown", "-i", str(inventory), gpufabric_target="gpu-3")
    assert played.returncode == 2 and played.result()["msg"].startswith("gpufabric_target: gpu-3 is not allowed;"), (
        played.output
    )
    played = player.playbook("gpufabric.nccl.teardown")
    assert played.returncode == 2 and "The inventory has no hosts: give one with -i" in played.output
    for keyword, value in (("serial", 1), ("strategy", "free")):
        play = {"hosts": "all", "gather_facts": False, keyword: value, "roles": ["gpufabric.nccl.key_exchange"]}
        played = player.playbook([play], "-i", str(inventory))
        # Without a strategy of its own, one host may be behind another.
        said = [record["result"].get("msg", "") for record in played.records if record["status"] == "failed"]
        assert played.returncode == 2 and said, played.output
        assert all(message.startswith(f"{keyword}: {value!r} is not allowed; ") for message in said), played.output
    inventory.write_text(json.dumps({"all": {"hosts": hosts, "vars": {"gpufabric_target": "gpu-1"}}}))
    played = player.playbook("gpufabric.nccl.bare_metal", *arguments)
    assert played.returncode == 2 and "gpufabric_target: 'gpu-1' is not allowed" in played.result()["msg"]


def test_a_target_that_only_the_inventory_names(player, tmp_path):
    inventory = tmp_path / "hosts.yml"
    hosts = {"gpu-1": {"ansible_connection": "local"}, "web-1": {"ansible_connection": "local"}}
    inventory.write_text(json.dumps({"gpus": {"hosts": hosts, "vars": {"gpufabric_target": "gpu-1"}}}))
    played = player.playbook("gpufabric.nccl.teardown", "-i", str(inventory))
    assert played.returncode == 2 and [record["status"] for record in played.records] == ["ok", "ok", "failed"]
    assert played.result()["msg"].startswith("gpufabric_target: 'gpu-1' is not allowed; allowed: to set it with -e,")


def test_hosts_that_do_not_exist_are_refused(player, tmp_path):
    """Nothing would be removed from them, or measured on them, and nobody would know."""
    inventory = tmp_path / "hosts.yml"
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory.write_text(json.dumps({"all": {"hosts": {"gpu-1": here, "gpu-2": here}}}))
    removal = {"nccl_tests_state": "absent", "nccl_tests_dir": str(tmp_path / "programs"), "nccl_tests_run_id": "none"}
    diagnosis = {"preflight_report_dir": str(tmp_path / "diagnosis")}
    for playbook, variables in (
        *(("teardown", {}), ("isolate", {"report_dir": str(tmp_path)}), ("nccl_tests", removal)),
        ("diagnose", diagnosis),
    ):
        wrong = {"gpufabric_hosts": ["gpu-1", "gpu-3"], **variables}
        played = player.playbook(f"gpufabric.nccl.{playbook}", "-i", str(inventory), **wrong)
        assert played.returncode == 2, played.output
        assert re.match(r"gpufabric_hosts: .gpu-3. is not allowed; allowed: hosts of the ", played.result()["msg"])
    assert not (tmp_path / "diagnosis").exists()
    # From some of the hosts nccl-tests may be removed.
    arguments = ["-i", str(inventory), "--limit", "gpu-1"]
    played = player.playbook("gpufabric.nccl.nccl_tests", *arguments, gpufabric_hosts=["gpu-1", "gpu-2"], **removal)
    assert played.returncode == 0, played.output


#: Of sessions of the run's own sshd: those of Ansible are as they were.
PROFILES = {
    "python-module-broken": (
        "numpy that PYTHONPATH leads to cannot be loaded",
        "export PYTHONPATH=/opt/broken",
        "broken by hand",
    ),
    "ssh-session": ("the shell's profile starts another shell", "exec tcsh", "no answer in "),
}


@pytest.mark.slow
def test_profiles_that_break_what_mpirun_starts(fresh_nodes, tmp_path, faults):
    broken = "/opt/broken/numpy"
    fresh_nodes.shell("g2", f"mkdir -p {broken}; echo 'raise ImportError(\"broken by hand\")' >{broken}/__init__.py")
    fresh_nodes.shell("g2", "cp -p ~/.bashrc /root/profile")
    for identity, (what, line, evidence) in PROFILES.items():
        profile = f"(echo 'if [ -n \"$GPUFABRIC_SSHD\" ]; then {line}; fi'; cat /root/profile) >~/.bashrc"
        fresh_nodes.shell("g2", profile)
        played = fresh_nodes.benchmark(tmp_path / identity, preflight_timeout=10)
        assert played.returncode == 2, played.output
        problems = played.result(action="gpufabric.nccl.fail_with_problems")["problems"]
        faults.fault(what, problems, identity, "g2", "mpi_run" if "python" in identity else "mpi_preflight", "a worker")
        assert evidence in problems[0]["evidence"] and "exit status" not in problems[0]["cause"], problems
