# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import difflib
import shlex
import subprocess

import pytest
from background import wait
from conftest import slow


def sshd(run_id, **options):
    """A call of the module."""
    return "sshd_instance", {"run_id": run_id, **options}


def differences(result):
    """The lines of a diff that are new and those that are gone."""
    before, after = (result["diff"][side].splitlines() for side in ("before", "after"))
    return [line for line in difflib.ndiff(before, after) if line[0] in "+-"]


def presented(address, port):
    """The host key that a port presents, as ``TYPE KEY``; empty where no sshd answers."""
    argv = ["ssh-keyscan", "-t", "ed25519", "-p", str(port), address]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return " ".join(done.stdout.split()[1:])


def running(nodes, command):
    """The pids of a command on g1."""
    return nodes.shell("g1", f"pgrep -xf {shlex.quote(command)}", check=False).stdout.split()


def ssh_to_itself(nodes, *results):
    """Let g1 log in to its own private sshds; the ssh command of each."""
    calls = [("ssh_mesh", {"run_id": result["run_dir"].rsplit("/", 1)[1], "peers": [result]}) for result in results]
    meshes = nodes.modules(calls)
    return [f"ssh -F {mesh['ssh_config']} {result['address']}" for mesh, result in zip(meshes, results)]


def test_check_mode_predicts_and_a_second_run_changes_nothing(nodes):
    started, accepted, moved, stopped, again, _absent = nodes.predicted(
        [
            sshd("predict"),
            sshd("predict", accept_env=["NCCL_*", "MY_*"]),
            sshd("predict", accept_env=["NCCL_*", "MY_*"], extra_options={"MaxAuthTries": 3}, port=18022),
            sshd("predict", state="stopped"),
            sshd("predict"),
            sshd("predict", state="absent"),
        ]
    )
    assert started["address"] == nodes.addresses["g1"] and started["user"] == "root" and started["hostname"] == "g1"
    assert started["run_dir"] == "/run/gpufabric/predict"
    # Each change is named, and nothing else is touched.
    dropped = [f"- AcceptEnv {name}" for name in ("LD_LIBRARY_PATH", "OMPI_MCA_*", "PRTE_MCA_*", "PMIX_MCA_*")]
    assert sorted(differences(accepted)) == sorted([*dropped, "+ AcceptEnv MY_*"])
    assert accepted["port"] == started["port"]
    assert sorted(differences(moved)) == ["+ MaxAuthTries 3", "+ Port 18022", f"- Port {started['port']}"]
    assert moved["port"] == 18022
    assert differences(stopped) == ["- # running", "+ # not running"]
    # What was stopped comes back as it was, where the options leave that open.
    assert again["port"] == 18022
    runs = [started, accepted, moved, again]
    assert len({run["pid"] for run in runs}) == len(runs)
    assert len({(*run["host_public_keys"], run["client_public_key"]) for run in runs}) == 1


def test_a_second_run_returns_the_same_and_restarted_restarts(nodes):
    first, second, restarted, _absent = nodes.modules(
        [sshd("again"), sshd("again"), sshd("again", state="restarted"), sshd("again", state="absent")]
    )
    assert {**second, "changed": True, "diff": None} == {**first, "diff": None} and not second["changed"]
    assert restarted["changed"] and restarted["pid"] != first["pid"]
    kept = ("address", "port", "host_public_keys", "client_public_key")
    assert [restarted[key] for key in kept] == [first[key] for key in kept]


THIEF = r"""#!/bin/sh
# Between the choice of the port and sshd's bind, another sshd takes it, once.
if [ "$1" = -D ] && [ ! -e /tmp/thief.pid ]; then
    port=$(sed -n 's/^Port //p' "$3")
    ssh-keygen -q -t ed25519 -N '' -f /tmp/thief_key
    /usr/sbin/sshd -f /dev/null -h /tmp/thief_key -p "$port" -o PidFile=/tmp/thief.pid
    until [ -s /tmp/thief.pid ]; do sleep 0.02; done
    echo "$port" > /tmp/thief.port
fi
exec /usr/sbin/sshd "$@"
"""
#: Shell: it ends, and is gone.
END_THIEF = "pid=$(cat /tmp/thief.pid); kill $pid; tail --pid=$pid -s 0.1 -f /dev/null"


def test_a_port_that_is_taken_meanwhile_is_another_programs(nodes):
    before = nodes.state("g1")
    nodes.shell("g1", f"printf %s {shlex.quote(THIEF)} > /tmp/thief.sh; chmod +x /tmp/thief.sh")
    try:
        found, again = nodes.modules([sshd("taken", sshd_path="/tmp/thief.sh")] * 2)
        stolen = int(nodes.shell("g1", "cat /tmp/thief.port").stdout)
        assert found["changed"] and found["port"] != stolen
        assert presented(found["address"], found["port"]) == found["host_public_keys"][0]
        assert presented(found["address"], stolen) not in ("", found["host_public_keys"][0])
        assert not again["changed"] and (again["port"], again["pid"]) == (found["port"], found["pid"])
        # A port that the user insists on is not exchanged for another.
        nodes.shell("g1", f"{END_THIEF}; rm -f /tmp/thief.pid /tmp/thief_key*")
        fixed = sshd("fixed", sshd_path="/tmp/thief.sh", port=18023)
        refused, _absent = nodes.modules([fixed, sshd("taken", state="absent")])
        assert refused["failed"] and refused["msg"].startswith("Another program already uses port 18023 of 10.66.")
    finally:
        nodes.shell("g1", f"{END_THIEF}; rm -f /tmp/thief*")
    assert nodes.state("g1") == before


def test_a_fixed_port_of_another_program_changes_nothing(nodes):
    address = nodes.addresses["g1"]
    server = f"python3 -m http.server 18024 --bind {address}"
    before = nodes.state("g1")
    nodes.shell("g1", f"setsid -f {server} >/dev/null 2>&1")
    try:
        wait(lambda: "18024" in nodes.shell("g1", "ss -Hlnt").stdout)
        other, running_one, moved, unmoved, system, _absent = nodes.modules(
            [
                sshd("busy", port=18024),
                sshd("busy2"),
                sshd("busy2", port=18024),
                sshd("busy2"),
                sshd("busy", port=22),
                sshd("busy2", state="absent"),
            ]
        )
        for result, port in ((other, 18024), (moved, 18024), (system, 22)):
            assert result["failed"] and "\n" not in result["msg"]
            assert result["msg"].startswith(f"Another program already uses port {port} of {address}. Set another port")
        assert not unmoved["changed"] and unmoved["pid"] == running_one["pid"]
    finally:
        nodes.shell("g1", f"pkill -xf {shlex.quote(server)}")
        wait(lambda: not running(nodes, server))
    assert nodes.state("g1") == before


def test_a_fixed_port_of_the_runs_own_sshd_whose_directory_was_removed(nodes):
    before = nodes.state("g1")
    fixed = sshd("swept", port=18025)
    (first,) = nodes.modules([fixed])
    # As systemd-tmpfiles does with what is old.
    nodes.shell("g1", "rm -r /run/gpufabric/swept")
    second, third, _absent = nodes.modules([fixed, fixed, sshd("swept", state="absent")])
    assert first["port"] == second["port"] == 18025 and second["pid"] != first["pid"]
    # It answers with its own keys.
    assert not third["changed"] and third["pid"] == second["pid"]
    assert nodes.state("g1") == before


def test_runs_do_not_meet_and_nothing_is_left(nodes):
    before = nodes.state("g1")
    one, two = nodes.modules([sshd("one"), sshd("two")])
    assert one["port"] != two["port"] and one["host_public_keys"] != two["host_public_keys"]
    for number, ssh in enumerate(ssh_to_itself(nodes, one, two), 1):
        # What was started in a session and left behind, and a session that lasts.
        nodes.shell("g1", f"{ssh} 'setsid -f sleep {number}001 >/dev/null 2>&1'")
        nodes.shell("g1", f"setsid -f {ssh} sleep {number}002 </dev/null >/dev/null 2>&1")
    wait(lambda: all(running(nodes, f"sleep {seconds}") for seconds in (1001, 1002, 2001, 2002)))
    daemon, session = [running(nodes, f"sleep {seconds}") for seconds in (2001, 2002)]

    stopped, unharmed, taken = nodes.modules(
        [sshd("one", state="stopped"), sshd("two"), sshd("three", port=two["port"])]
    )
    assert [(problem["id"], problem["cause"]) for problem in taken["problems"]] == [
        ("sshd-port-taken", f"The sshd of the run two already uses port {two['port']} of {two['address']}.")
    ]
    assert stopped["changed"] and not unharmed["changed"] and unharmed["pid"] == two["pid"]
    assert not running(nodes, "sleep 1001") and not running(nodes, "sleep 1002")
    assert (running(nodes, "sleep 2001"), running(nodes, "sleep 2002")) == (daemon, session)
    # The client ends when it sees that its session has.
    wait(lambda: not running(nodes, "ssh -F /run/gpufabric/one/.*"))
    assert not [line for line in nodes.state("g1") if line.startswith("process") and "gpufabric/one" in line]
    assert presented(one["address"], one["port"]) == ""
    assert presented(two["address"], two["port"]) == two["host_public_keys"][0]

    nodes.modules(
        [(name, {"run_id": run, "state": "absent"}) for run in ("one", "two") for name in ("ssh_mesh", "sshd_instance")]
    )
    wait(lambda: not running(nodes, "ssh -F .*"))
    assert nodes.state("g1") == before


def test_a_killed_listener_is_repaired(nodes):
    (first,) = nodes.modules([sshd("killed")])
    nodes.shell("g1", f"kill -9 {first['pid']}")
    repaired, again, _absent = nodes.modules([sshd("killed"), sshd("killed"), sshd("killed", state="absent")], "--diff")
    assert repaired["changed"] and differences(repaired) == ["- # not running", "+ # running"]
    assert repaired["pid"] != first["pid"] and not again["changed"]
    kept = ("port", "host_public_keys", "client_public_key")
    assert [repaired[key] for key in kept] == [first[key] for key in kept]
    assert presented(first["address"], first["port"]) == ""


@pytest.mark.slow
def test_limits_that_a_login_has_got_meanwhile_are_those_of_the_sessions(nodes):
    # As of a login before somebody raised them: a process may lower its own at any time.
    (started,) = nodes.modules([sshd("limits")])
    nodes.shell("g1", f"prlimit --pid {started['pid']} --nofile=64:")
    again, same = nodes.modules([sshd("limits"), sshd("limits")])
    assert again["changed"] and again["pid"] != started["pid"] and again["port"] == started["port"]
    assert differences(again) == ["- # with former limits (ulimit)"]
    assert not same["changed"]
    nodes.modules([sshd("limits", state="absent")])


@pytest.mark.slow
def test_a_long_log_is_cut_while_sshd_goes_on_writing_it(nodes):
    started = nodes.module(*sshd("long"))
    log = f"{started['run_dir']}/sshd/sshd.log"
    (login,) = ssh_to_itself(nodes, started)
    nodes.shell("g1", f"yes 'of a scanner' | head -c 3000000 >> {log}; {login} true; tail -n 1 {log} > /tmp/last")
    assert not nodes.module(*sshd("long"))["changed"]
    nodes.shell("g1", f'grep -qxF "$(cat /tmp/last)" {log}; : > /tmp/last; {login} true')
    assert int(nodes.shell("g1", f"stat -c %s {log}").stdout) < 1 << 20
    assert "Accepted publickey" in nodes.shell("g1", f"tail -n 20 {log}").stdout
    assert nodes.module(*sshd("long", state="absent"))["changed"]


@pytest.mark.slow
def test_host_keys_of_several_types_are_presented_and_pinned(nodes):
    before = nodes.state("g1")
    kinds = {"rsa": "ssh-rsa", "ecdsa": "ecdsa-sha2-nistp256", "ed25519": "ssh-ed25519"}
    try:
        (found,) = nodes.modules([sshd("types", host_key_types=list(kinds))])
        assert [key.split()[0] for key in found["host_public_keys"]] == list(kinds.values())
        address, port = found["address"], str(found["port"])
        scan = subprocess.run(
            ["ssh-keyscan", "-t", ",".join(kinds), "-p", port, address], capture_output=True, text=True, check=False
        )
        lines = [line.split() for line in scan.stdout.splitlines() if not line.startswith("#")]
        assert sorted(" ".join(words[1:]) for words in lines) == sorted(found["host_public_keys"])
        (ssh,) = ssh_to_itself(nodes, found)
        for algorithm in ("rsa-sha2-512", "ecdsa-sha2-nistp256", "ssh-ed25519"):
            assert nodes.shell("g1", f"{ssh} -o HostKeyAlgorithms={algorithm} hostname").stdout == "g1\n"
    finally:
        nodes.modules([(name, {"run_id": "types", "state": "absent"}) for name in ("ssh_mesh", "sshd_instance")])
    assert nodes.state("g1") == before


def raw(command):
    """A call that runs a shell command on the node, over the connection that Ansible has with it."""
    return "ansible.builtin.raw", command


def test_run_sshd_is_made_and_stays_while_the_nodes_own_sshd_needs_it(breakable):
    try:
        _gone, started, made, absent, kept = breakable.modules(
            [
                raw("rm -r /run/sshd"),
                sshd("made"),
                raw("stat -c '%a %U' /run/sshd"),
                ("run_cleanup", {"run_id": "made"}),
                raw("ssh-keyscan -t ed25519 $(hostname)"),
            ]
        )
    finally:
        breakable.shell("g1", "mkdir -p /run/sshd")
    assert started["changed"] and made["stdout"].split() == ["755", "root"]
    assert absent["removed"] == ["/run/gpufabric/made"] and " ssh-ed25519 " in kept["stdout"]


def test_run_sshd_that_cannot_be_made_is_named(breakable):
    before = breakable.state("g1")
    try:
        _gone, refused = breakable.modules([raw("rm -r /run/sshd; touch /run/sshd"), sshd("unmade")])
    finally:
        breakable.shell("g1", "rm /run/sshd; mkdir /run/sshd")
    assert refused["failed"] and refused["msg"].startswith("sshd needs the directory /run/sshd, which does not exist.")
    assert refused["msg"].endswith("(it cannot be made: File exists)") and "\n" not in refused["msg"]
    assert breakable.state("g1") == before


@pytest.mark.parametrize(
    ("program", "package"),
    [
        ("/usr/sbin/sshd", "openssh-server"),
        slow("/usr/bin/ssh-keygen", "openssh-client"),
    ],
)
def test_missing_programs_are_named_with_their_packages(breakable, program, package):
    before = breakable.state("g1")
    try:
        _gone, refused = breakable.modules([raw(f"mv {program} {program}.away"), sshd("missing")])
    finally:
        breakable.shell("g1", f"mv {program}.away {program}")
    name = program.rsplit("/", 1)[1]
    rhel = {"sshd": "openssh-server", "ssh-keygen": "openssh"}[name]
    assert refused["failed"] and refused["msg"] == (
        f"This node does not have {name}. Install OpenSSH (Debian, Ubuntu: apt-get install {package};"
        f" RHEL and its kin: dnf install {rhel}). In an image: RUN apt-get update &&"
        " apt-get install -y --no-install-recommends openssh-server openssh-client."
    )
    # To move a program of the node's away and back is to write it.
    assert {line for line in breakable.state("g1") - before if "/usr/" not in line} == set()


@pytest.mark.parametrize("user", ["worker", "bench@corp.example"])
def test_an_ordinary_user_needs_no_privilege(breakable, user):
    """Also one of a domain, as machines that are joined to a directory call him; DOMAIN\\USER is none that Ansible's su becomes."""
    breakable.shell("g1", f"useradd --badname --create-home --home-dir /home/worker --uid 4321 {shlex.quote(user)}")
    become = {"become": True, "become_method": "ansible.builtin.su", "become_user": user}
    try:
        before = breakable.state("g1")
        started, again, port, directory = breakable.modules(
            [sshd("plain"), sshd("plain"), sshd("other", port=80), sshd("other", run_dir="/root/other")], **become
        )
        assert started["run_dir"] == "/tmp/gpufabric-4321/plain" and started["user"] == user and not again["changed"]
        assert breakable.shell("g1", f"stat -c %u /proc/{started['pid']}").stdout == "4321\n"
        assert port["msg"].startswith("sshd may not listen on port 80: ports below 1024 need root")
        assert directory["msg"].startswith("run_dir: /root/other cannot be made") and "uid 4321" in directory["msg"]
        (mesh,) = breakable.modules([("ssh_mesh", {"run_id": "plain", "peers": [started]})], **become)
        ssh = f"ssh -F {mesh['ssh_config']} {started['address']}"
        assert breakable.shell("g1", f"{ssh} id -un", user="4321").stdout == f"{user}\n"
        as_root = breakable.shell("g1", f"{ssh} -l root id -un", check=False, user="4321")
        assert as_root.returncode == 255 and "Permission denied" in as_root.stderr
        absent = [(name, {"run_id": "plain", "state": "absent"}) for name in ("ssh_mesh", "sshd_instance")]
        assert all(result["changed"] for result in breakable.modules(absent, **become))
        assert breakable.state("g1") == before
    finally:
        breakable.shell("g1", f"userdel --remove {shlex.quote(user)}")


def test_a_locked_root_can_be_logged_in_to(breakable):
    try:
        _locked, started, without = breakable.modules(
            [raw("usermod --lock root"), sshd("locked"), sshd("without", use_pam=False)], "--diff"
        )
        assert "+ UsePAM yes" in differences(started) and "+ UsePAM no" in differences(without)
        ssh, refused = ssh_to_itself(breakable, started, without)
        assert breakable.shell("g1", f"{ssh} id -un").stdout == "root\n"
        # PAM alone lets it in.
        assert breakable.shell("g1", f"{refused} id -un", check=False).returncode == 255
        log = breakable.module("sshd_log", {"run_id": "without"})
        assert [problem["id"] for problem in log["problems"]] == ["account-locked"], log
    finally:
        breakable.shell("g1", "usermod --password '*' root")
        runs = [{"run_id": run, "state": "absent"} for run in ("locked", "without")]
        breakable.modules([(name, run) for run in runs for name in ("ssh_mesh", "sshd_instance")])


def test_bad_input_is_one_line_and_changes_nothing(nodes):
    """Here of what only sshd itself knows, and of one option of all that are tried in the module's unit test."""
    before = nodes.state("g1")
    unknown, unsupported, port = nodes.modules(
        [
            sshd("bad", extra_options={"PerSourcePenalties": "no"}),
            sshd("bad", extra_options={"Compression": "maybe"}),
            sshd("bad", port=70000),
        ]
    )
    assert nodes.state("g1") == before
    for result, words in ((unknown, "PerSourcePenalties"), (unsupported, 'unsupported option "maybe"')):
        assert result["failed"] and "\n" not in result["msg"]
        assert result["msg"].startswith(
            "/run/gpufabric/bad/sshd/sshd_config has a setting that this OpenSSH does not know: " + words + ". Remove"
        )
    assert port["failed"] and port["msg"] == (
        "port: 70000 is not allowed; allowed: 0 (the operating system chooses), or 1 to 65535"
    )
