# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import shutil

import pytest
import yaml
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._node import local_nodes
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.local_nodes import (
    Cgroups,
    Container,
    LocalNodes,
    Settings,
    call,
    describe,
    error_line,
    firewall_cure,
    in_parallel,
    inventory_text,
    known_hosts_text,
    limit_options,
    mac_address,
    missing_controllers,
    node_options,
    node_spec,
    observed,
    parse_containers,
    parse_podman_version,
    plan_changes,
    plan_nodes,
    state_directory,
)

SETTINGS = Settings(
    run_id="r1",
    state_dir="/run/gpufabric-local/r1",
    count=2,
    prefix="g",
    control_network="ctl",
    data_network="dat",
    control_subnet="10.66.0.0/24",
    data_subnet="192.168.66.0/24",
    cap_add=("NET_ADMIN",),
    group="workers",
    python_interpreter="/usr/bin/python3",
    timeout=30,
)


def test_nodes_have_fixed_names_and_addresses():
    assert [dataclasses.astuple(node) for node in plan_nodes(SETTINGS)] == [
        ("g1", "gpufabric-r1-g1", "10.66.0.11", "192.168.66.11"),
        ("g2", "gpufabric-r1-g2", "10.66.0.12", "192.168.66.12"),
    ]


def test_as_many_nodes_as_a_subnet_holds():
    full = dataclasses.replace(SETTINGS, count=244)
    assert plan_nodes(full)[-1].control_address == "10.66.0.254"
    with pytest.raises(OptionError, match=r"control_subnet.*257 addresses or more, for 245 nodes"):
        plan_nodes(dataclasses.replace(SETTINGS, count=245))
    with pytest.raises(OptionError, match=r"data_subnet.*257 addresses"):
        plan_nodes(dataclasses.replace(SETTINGS, count=245, control_subnet="10.66.0.0/23"))
    wide = dataclasses.replace(SETTINGS, count=250, control_subnet="10.66.0.0/23", data_subnet="10.68.0.0/23")
    assert plan_nodes(wide)[-1].control_address == "10.66.1.4"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("count", 0),
        ("count", 251),
        ("prefix", ""),
        ("prefix", "G"),
        ("prefix", "a-b"),
        ("prefix", "g\n"),
        ("control_network", "-x"),
        ("data_network", "a:b"),
        ("control_subnet", "10.66.0.0"),
        ("control_subnet", "fd00::/64"),
        ("data_subnet", "10.66.0.128/25"),
        ("cap_add", ("--privileged",)),
        ("group", "a-b"),
        ("group", "all"),
        ("timeout", float("nan")),
    ],
)
def test_values_that_are_not_allowed(option, value):
    with pytest.raises(OptionError, match=f"^{option}: "):
        plan_nodes(dataclasses.replace(SETTINGS, **{option: value}))


def test_containers_of_two_runs_never_share_a_name():
    one = dataclasses.replace(SETTINGS, run_id="a", prefix="b")
    other = dataclasses.replace(SETTINGS, run_id="a-b", prefix="g")
    assert not {node.container for node in plan_nodes(one)} & {node.container for node in plan_nodes(other)}


def test_state_directory():
    assert state_directory("r1", None) == "/run/gpufabric-local/r1"
    assert state_directory("r1", "/var/tmp/x/") == state_directory("r1", "//var/tmp/x") == "/var/tmp/x"
    for run_id, path in (("../x", None), ("r1", "relative"), ("r1", "/a b"), ("r1", "/a%b"), ("r1", "/"), ("r1", "//")):
        with pytest.raises(OptionError):
            state_directory(run_id, path)


def test_options_of_a_container():
    options = node_options(SETTINGS, plan_nodes(SETTINGS)[0])
    assert "--network=ctl:interface_name=eth0,ip=10.66.0.11,mac=02:42:0a:42:00:0b,alias=g1" in options
    assert "--network=dat:interface_name=net1,ip=192.168.66.11,mac=02:42:c0:a8:42:0b" in options
    assert "--volume=/run/gpufabric-local/r1/nodes/g1:/etc/local-node:ro" in options
    assert {"--hostname=g1", "--name=gpufabric-r1-g1", "--label=gpufabric.run=r1", "--cap-add=NET_ADMIN"} <= {*options}
    assert "--label=gpufabric.state-dir=/run/gpufabric-local/r1" in options


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has local nodes")
def test_all_programs_that_are_missing_are_named_at_once_with_their_packages(tmp_path, monkeypatch):
    """Before anything is made."""
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "ssh-keygen").symlink_to("/bin/true")
    monkeypatch.setattr(local_nodes, "find_program", lambda name: shutil.which(name, path=str(tmp_path / "programs")))
    settings = dataclasses.replace(SETTINGS, state_dir=str(tmp_path / "state"))
    with pytest.raises(NodeError) as raised:
        LocalNodes("r1", settings.state_dir).present(settings, check=False)
    assert str(raised.value) == (
        "podman, sshd are not installed on this machine, whose programs its nodes use; on Debian and Ubuntu type:"
        " apt-get install podman crun netavark aardvark-dns iptables nftables openssh-server"
    )
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("reason", "cure"),
    [
        # Of podman 5.4 with netavark 1.14, Debian 13.
        (
            "podman run: netavark: nftables error: unable to execute nft: No such file or directory (os error 2)",
            "; on Debian and Ubuntu type: apt-get install nftables",
        ),
        ("podman run: netavark: unable to execute other: No such file or directory (os error 2)", ""),
        ("podman run: no space left on device", ""),
    ],
)
def test_the_package_of_a_firewall_program_that_netavark_lacks(reason, cure):
    assert firewall_cure(reason) == cure


def test_mac_address_is_local_and_unicast():
    first = int(mac_address("10.66.0.11").split(":")[0], 16)
    assert first & 0b11 == 0b10


@pytest.mark.parametrize(
    ("nofile", "nproc", "expected"),
    [
        (-1, -1, ["--ulimit=nofile=1024:4096", "--ulimit=nproc=4096:8192"]),
        (20000, 8192, ["--ulimit=nofile=1024:4096", "--ulimit=nproc=4096:8192"]),
        (2048, 100, ["--ulimit=nofile=1024:2048", "--ulimit=nproc=100:100"]),
    ],
)
def test_limits_never_exceed_the_machines(nofile, nproc, expected):
    assert limit_options({"nofile": nofile, "nproc": nproc}) == expected


def test_a_spec_changes_with_options_and_keys_only():
    spec = node_spec(["a"], "host", "client")
    assert spec == node_spec(["a"], "host", "client")
    assert (
        len({spec, node_spec(["b"], "host", "client"), node_spec(["a"], "x", "client"), node_spec(["a"], "host", "x")})
        == 4
    )
    assert node_spec(["a"], None, "client") is None
    assert node_spec(["a"], "host", None) is None


def _container(name: str, spec: str = "s", state: str = "running") -> Container:
    return Container(f"gpufabric-r1-{name}", "r1", spec, state, f"id-of-{name}", 7, "/run/gpufabric-local/r1")


def _names(containers: tuple[str, ...]) -> str:
    return " ".join(name.rsplit("-", 1)[1] for name in containers)


@pytest.mark.parametrize(
    ("existing", "keep", "remove", "start"),
    [
        ([], "", "", "g1 g2"),
        ([_container("g1"), _container("g2")], "g1 g2", "", ""),
        ([_container("g2")], "g2", "", "g1"),
        ([_container("g1", state="exited"), _container("g2")], "g2", "g1", "g1"),
        ([_container("g1", spec="old"), _container("g2")], "g2", "g1", "g1"),
        ([_container("g1"), _container("g2"), _container("g3")], "g1 g2", "g3", ""),
    ],
    ids=["none", "all", "missing", "dead", "other options", "too many"],
)
def test_plan(existing, keep, remove, start):
    plan = plan_changes({"gpufabric-r1-g1": "s", "gpufabric-r1-g2": "s"}, existing)
    assert (_names(plan.keep), _names(plan.remove), _names(plan.start)) == (keep, remove, start)


def test_a_node_whose_keys_are_gone_is_started_again():
    plan = plan_changes({"gpufabric-r1-g1": None}, [_container("g1", spec="")])
    assert (_names(plan.remove), _names(plan.start)) == ("g1", "g1")


def test_diff_lists_nodes():
    existing = [_container("g10"), _container("g2", state="exited"), _container("g1", spec="old")]
    plan = plan_changes({"gpufabric-r1-g1": "s", "gpufabric-r1-g2": "s"}, existing)
    assert describe(plan, existing, "r1") == {
        "before": "g1: running with other options\ng2: exited\ng10: running\n",
        "after": "g1: running\ng2: running\n",
    }


def test_parse_containers():
    entries = [
        {
            "Names": ["gpufabric-r1-g1"],
            "Labels": {"gpufabric.run": "r1", "gpufabric.spec": "s", "gpufabric.state-dir": "/run/gpufabric-local/r1"},
            "State": "running",
            "Id": "id-of-g1",
            "Pid": 7,
        },
        {"Names": ["other"], "Labels": None, "State": "exited", "Id": "1f"},
    ]
    assert parse_containers(json.dumps(entries)) == [
        _container("g1"),
        Container("other", "", "", "exited", "1f", 0, ""),
    ]
    assert parse_containers("[]") == parse_containers("") == []


@pytest.mark.parametrize(
    ("state", "mounts", "seen"),
    [
        ("running", "1 0 0:1 /containers/id-of-g1/userdata/hosts /etc/hosts", "running"),
        ("running", "1 0 0:1 /containers/id-of-g2/userdata/hosts /etc/hosts", "ended, unknown to podman"),
        ("running", None, "ended, unknown to podman"),
        ("exited", None, "exited"),
    ],
)
def test_a_container_whose_process_is_gone_does_not_run(state, mounts, seen):
    assert observed(_container("g1", state=state), mounts) == _container("g1", state=seen)


def test_known_hosts_pin_the_key_without_its_comment():
    nodes = plan_nodes(SETTINGS)
    assert known_hosts_text(nodes, {"g1": "ssh-ed25519 AAAA g1\n", "g2": "ssh-ed25519 BBBB\n"}) == (
        "g1,10.66.0.11 ssh-ed25519 AAAA\ng2,10.66.0.12 ssh-ed25519 BBBB\n"
    )


def test_inventory_is_yaml():
    inventory = yaml.safe_load(inventory_text(SETTINGS, plan_nodes(SETTINGS)))
    assert inventory["all"]["vars"] == {"gpufabric_run_id": "r1", "local_nodes_state_dir": SETTINGS.state_dir}
    assert inventory["workers"]["hosts"] == {"g1": {"ansible_host": "10.66.0.11"}, "g2": {"ansible_host": "10.66.0.12"}}
    variables = inventory["workers"]["vars"]
    assert variables["ansible_pipelining"] is True
    assert variables["ansible_ssh_private_key_file"] == "/run/gpufabric-local/r1/client_key"
    assert "StrictHostKeyChecking=yes" in variables["ansible_ssh_common_args"]
    assert "UserKnownHostsFile=/run/gpufabric-local/r1/known_hosts" in variables["ansible_ssh_common_args"]


def test_a_run_whose_name_looks_like_a_number_stays_text():
    settings = dataclasses.replace(SETTINGS, run_id="12")
    assert yaml.safe_load(inventory_text(settings, []))["all"]["vars"]["gpufabric_run_id"] == "12"


CGROUPS = """\
#subsys_name	hierarchy	num_cgroups	enabled
cpu	1	1	1
cpuacct	1	1	1
net_cls	0	1	1
hugetlb	0	1	1
rdma	0	1	0
"""
TMPFS = "tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0\n"
V1 = "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n"
V2_BESIDE = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n"
V2_ALONE = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n"
HUGETLB = "cgroup /sys/fs/cgroup/hugetlb cgroup rw,relatime,hugetlb 0 0\n"


@pytest.mark.parametrize(
    ("mounts", "missing"),
    [
        (TMPFS + V1 + V2_BESIDE, ["net_cls", "hugetlb"]),
        (TMPFS + V1 + V2_BESIDE + HUGETLB, ["net_cls"]),
        (TMPFS + V1, []),
        (V2_ALONE, []),
        ("", []),
    ],
    ids=["hybrid", "hybrid, one mounted", "v1 alone", "v2 alone", "none"],
)
def test_missing_controllers(mounts, missing):
    assert missing_controllers(CGROUPS, mounts) == missing


@pytest.mark.parametrize(
    ("text", "version"), [("podman version 4.3.1\n", (4, 3)), ("podman version 5.4.2-rhel", (5, 4)), ("?", (0,))]
)
def test_podman_version(text, version):
    assert parse_podman_version(text) == version


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("failed to connect to syslog\nError: network not found\nhint\n", "network not found"),
        ("first\nlast\n", "last"),
        ("", "it gives no reason"),
    ],
)
def test_error_line(text, line):
    assert error_line(text) == line


def test_call_tells_why_a_program_failed():
    assert call(["/bin/sh", "-c", "echo out"]) == "out\n"
    with pytest.raises(NodeError, match=r"^sh -c: broken$"):
        call(["/bin/sh", "-c", "echo Error: broken >&2; exit 3"])
    with pytest.raises(NodeError, match="cannot run no-such-program"):
        call(["no-such-program"])
    with pytest.raises(NodeError, match=r"did not end within 0\.1 s"):
        call(["/bin/sh", "-c", "sleep 5"], timeout=0.1)


def test_call_again_where_a_program_failed(tmp_path):
    argv = ["/bin/sh", "-c", 'echo >> "$1"; [ $(wc -l < "$1") = "$2" ] && echo out', "sh", str(tmp_path / "calls")]
    assert call([*argv, "3"], attempts=3) == "out\n"
    with pytest.raises(NodeError):
        call([*argv, "6"], attempts=2)


def test_failures_in_parallel_are_counted():
    done = []

    def work(item: int) -> None:
        done.append(item)
        if item % 2:
            raise NodeError(f"g{item}: no")

    with pytest.raises(NodeError, match=r"^g1: no \(2 of 4 failed\)$"):
        in_parallel(work, [1, 2, 3, 4])
    assert sorted(done) == [1, 2, 3, 4]
    with pytest.raises(NodeError, match=r"^g1: no$"):
        in_parallel(work, [1, 2])


CLAIM = {"owner": "me@here", "controller": "c", "play": "1-1", "live": ["1-1"]}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has local nodes")
@pytest.mark.parametrize(
    ("changes", "running", "problem", "removal"),
    [
        ({}, True, None, None),
        # A later play of the same owner, and one while the first goes on.
        ({"play": "2-2", "live": ["2-2"]}, True, None, None),
        ({"play": "2-2", "live": ["1-1", "2-2"]}, True, "run-in-use", None),
        ({"owner": "you@there", "controller": "d"}, True, "run-taken", "run-taken"),
        ({"owner": "you@there", "controller": "d", "take_over": True}, True, None, None),
        # Nodes that are gone, such as by a restart of the machine, and whose mark is old.
        ({"owner": "you@there", "controller": "d"}, False, None, None),
    ],
)
def test_nodes_of_another_owner_are_left_alone(tmp_path, changes, running, problem, removal):
    # Those of earlier releases have no directory.
    container = [Container("gpufabric-one-g1", "one", "", "running", "1", 1, "")] if running else []
    first = LocalNodes("one", str(tmp_path), CLAIM)
    first._write_mark()
    os.utime(tmp_path / ".gpufabric-nodes", (0, 0))
    second = LocalNodes("one", str(tmp_path), {**CLAIM, **changes})
    for removes, expected in ((False, problem), (True, removal)):
        try:
            second._check_owner(container, removes)
            found = None
        except ProblemError as error:
            found = error.problems[0].id
        assert found == expected
    assert LocalNodes("one", str(tmp_path))._holds_nodes()
    assert not LocalNodes("two", str(tmp_path))._holds_nodes()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has local nodes")
def test_nodes_of_another_state_directory_are_left_alone(tmp_path):
    containers = [
        Container(f"gpufabric-one-g{number}", "one", "", "running", "1", 1, str(tmp_path / "a")) for number in (1, 2)
    ]
    LocalNodes("one", str(tmp_path / "a"), CLAIM)._check_owner(containers)
    # Whose they are is not in this one.
    for removes in (False, True):
        with pytest.raises(ProblemError) as refused:
            LocalNodes("one", str(tmp_path / "b"), CLAIM)._check_owner(containers, removes)
        (problem,) = refused.value.problems
        assert problem.id == "run-taken"
        assert f"The run one has nodes of another state directory, {tmp_path}/a." in problem.cause
    for claim in (None, {**CLAIM, "take_over": True}):
        LocalNodes("one", str(tmp_path / "b"), claim)._check_owner(containers)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has local nodes")
def test_the_mark_of_an_earlier_release_is_understood(tmp_path):
    (tmp_path / ".gpufabric-nodes").write_text("one\n")
    assert LocalNodes("one", str(tmp_path))._holds_nodes() and not LocalNodes("1", str(tmp_path))._holds_nodes()
    (tmp_path / ".gpufabric-nodes").write_text("1\n")
    assert LocalNodes("1", str(tmp_path))._holds_nodes()
    LocalNodes("1", str(tmp_path), CLAIM)._check_owner([])
    (tmp_path / ".gpufabric-nodes").write_text("[" * 100000)
    assert not LocalNodes("1", str(tmp_path))._holds_nodes()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has local nodes")
def test_nothing_is_removed_below_a_directory_of_another_user(tmp_path, monkeypatch):
    """He could have put a link there: files of nodes are called as those of /etc/ssh."""
    (tmp_path / "state").mkdir()
    nodes = LocalNodes("one", str(tmp_path / "state"))
    nodes._write_mark()
    (tmp_path / "state" / "nodes").symlink_to(tmp_path / "etc")
    key = tmp_path / "etc" / "ssh" / "ssh_host_ed25519_key"
    key.parent.mkdir(parents=True)
    key.touch()
    os.chown(tmp_path, 12345, -1)
    monkeypatch.setattr(nodes, "podman", None)
    monkeypatch.setattr(nodes.cgroups, "locked", contextlib.nullcontext)
    monkeypatch.setattr(nodes.cgroups, "unmount", lambda: None)
    with pytest.raises(NodeError, match="belongs to uid 12345, who can put another directory there"):
        nodes.absent(False)
    assert key.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has local nodes")
def test_in_fips_mode_nodes_have_the_keys_that_there_are(tmp_path, monkeypatch):
    flag = tmp_path / "fips_enabled"
    flag.write_text("1\n")
    monkeypatch.setattr("ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.sshd._FIPS_MODE", str(flag))
    LocalNodes("one", str(tmp_path))._make_keys(plan_nodes(SETTINGS))
    assert {path.read_text().split()[0] for path in tmp_path.rglob("*.pub")} == {"ecdsa-sha2-nistp256"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has local nodes")
def test_a_directory_that_cannot_be_made_is_named(tmp_path, monkeypatch):
    (tmp_path / "nodes").write_text("")
    with pytest.raises(NodeError, match=f"^cannot make {tmp_path}/nodes/g1: "):
        LocalNodes("one", str(tmp_path))._make_keys(plan_nodes(SETTINGS))
    # As a machine may have /sys/fs/cgroup read-only.
    monkeypatch.setattr(local_nodes, "_CGROUP_ROOT", f"{tmp_path}/nodes")
    monkeypatch.setattr(local_nodes, "BASE_DIR", str(tmp_path / "base"))
    monkeypatch.setattr(Cgroups, "record", str(tmp_path / "base" / ".cgroups"))
    monkeypatch.setattr(local_nodes, "missing_controllers", lambda cgroups, mounts: ["misc"])
    with pytest.raises(NodeError, match=f"^cannot make {tmp_path}/nodes/misc, "):
        Cgroups().mount()


def test_nobody_who_holds_the_lock_of_all_nodes_holds_a_play_up_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(local_nodes, "_CGROUP_ROOT", str(tmp_path))
    monkeypatch.setattr(local_nodes, "_PATIENCE", 0.2)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        with pytest.raises(NodeError, match="is locked by another program"), Cgroups.locked():
            pass
    finally:
        os.close(descriptor)
