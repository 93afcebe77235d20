# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime
import os
import shutil
import socket
import subprocess
import time
import types

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.account import Account
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.mesh import (
    MeshFiles,
    check_environment_names,
    expired_since,
    expiry_date,
    expiry_in,
    named_peers,
    names_twice,
    parse_bare_peers,
    parse_peers,
    render_authorized_keys,
    render_known_hosts,
    render_ssh_config,
    usable_identity,
    with_include,
    without_include,
)

RUN_DIR = RunDir("nightly", "/run/gpufabric/nightly")


def peer(number, **changes):
    value = {
        "address": f"10.0.{number // 250}.{number % 250 + 1}",
        "port": 40000 + number,
        "user": "root",
        "host_public_keys": [f"ssh-ed25519 AAAAhost{number}"],
        "client_public_key": f"ssh-ed25519 AAAAclient{number}",
    }
    return {**value, **changes}


def test_known_hosts_pins_address_and_port():
    peers = parse_peers([peer(1), peer(2, port=22, host_public_keys=["ssh-ed25519 AAAA", "ecdsa-sha2-nistp256 BBBB"])])
    assert render_known_hosts(peers).splitlines() == [
        "[10.0.0.2]:40001 ssh-ed25519 AAAAhost1",
        "10.0.0.3 ssh-ed25519 AAAA",
        "10.0.0.3 ecdsa-sha2-nistp256 BBBB",
    ]


def test_authorized_keys_are_restricted_to_their_peer():
    peers = parse_peers([peer(1), peer(2, sources=["10.9.0.0/16", "10.0.0.3"])])
    assert render_authorized_keys(peers).splitlines() == [
        'restrict,from="10.0.0.2" ssh-ed25519 AAAAclient1',
        'restrict,from="10.9.0.0/16,10.0.0.3" ssh-ed25519 AAAAclient2',
    ]


def test_keys_expire_at_the_beginning_of_a_day():
    (line,) = render_authorized_keys(parse_peers([peer(1)]), expiry_date(7, datetime.date(2024, 12, 30))).splitlines()
    assert line == 'restrict,expiry-time="20250107",from="10.0.0.2" ssh-ed25519 AAAAclient1'
    assert expiry_date(0, datetime.date(2024, 12, 30)) is None
    for lifetime in (-1, 3651):
        with pytest.raises(OptionError, match="key_lifetime: "):
            expiry_date(lifetime, datetime.date(2024, 12, 30))


@pytest.mark.parametrize(
    ("days_later", "stays"),
    [
        (0, True),
        # At midnight nothing changes.
        (1, True),
        (4, True),
        (5, False),
        # The clock was put back.
        (-1, False),
    ],
)
def test_the_day_that_is_set_stays_while_half_of_the_lifetime_is_left(days_later, stays):
    begin = datetime.date(2024, 12, 30)
    today = begin + datetime.timedelta(days_later)
    text = render_authorized_keys(parse_peers([peer(1)]), expiry_date(7, begin))
    found = expiry_date(7, today, expiry_in(text))
    assert found == expiry_date(7, begin if stays else today)


def test_a_day_that_is_none_is_none():
    assert expiry_in('restrict,expiry-time="99999999",from="10.0.0.2" ssh-ed25519 AAAA\n') is None
    assert expiry_in("") is expiry_in('restrict,from="10.0.0.2" ssh-ed25519 AAAA\n') is None


def test_ssh_config_has_one_block_a_peer_and_none_for_others():
    text = render_ssh_config(parse_peers([peer(1), peer(2)]), RUN_DIR, ["LD_LIBRARY_PATH", "NCCL_*"], True, 7)
    blocks = text.strip().split("\n\n")
    assert [block.splitlines()[0] for block in blocks] == ["Host 10.0.0.2", "Host 10.0.0.3"]
    assert {line.strip() for line in blocks[1].splitlines()} >= {
        "HostName 10.0.0.3",
        "Port 40002",
        "User root",
        "IdentityFile /run/gpufabric/nightly/ssh/id_ed25519",
        "IdentitiesOnly yes",
        "UserKnownHostsFile /run/gpufabric/nightly/ssh/known_hosts",
        "StrictHostKeyChecking yes",
        "LogLevel ERROR",
        "ConnectTimeout 7",
        "SendEnv LD_LIBRARY_PATH NCCL_*",
    }


def test_ssh_config_without_pinned_keys_when_told_so():
    text = render_ssh_config(parse_peers([peer(1)]), RUN_DIR, [], False, 10)
    assert "StrictHostKeyChecking no" in text and "UserKnownHostsFile /dev/null" in text and "SendEnv" not in text


@pytest.mark.parametrize("user", ["root", "bench@corp.example", "CORP\\bench"])
def test_ssh_logs_in_as_the_user_that_the_worker_names(tmp_path, user):
    """Also of a domain, with the name as ssh itself reads it."""
    ssh = shutil.which("ssh")
    if ssh is None:
        pytest.skip("there is no ssh")
    (named,) = named_peers([{**peer(1, user=user), "run_dir": "/run/x", "hostname": "g1"}], ["g1"])
    config = tmp_path / "config"
    config.write_text(render_ssh_config(parse_peers([named]), RUN_DIR, [], True, 7))
    argv = [ssh, "-F", str(config), "-G", "10.0.0.2"]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    assert f"user {user}" in said and "port 40001" in said


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"address": "gpu-1"}, "peers[0].address"),
        ({"address": "10.0.0.1\nHost *"}, "peers[0].address"),
        ({"port": 0}, "peers[0].port"),
        ({"port": "70000"}, "peers[0].port"),
        ({"port": "\u00b2"}, "peers[0].port"),
        ({"port": True}, "peers[0].port"),
        ({"user": "-oProxyCommand=x"}, "peers[0].user"),
        ({"user": "root\n"}, "peers[0].user"),
        ({"host_public_keys": []}, "peers[0].host_public_keys"),
        ({"host_public_keys": ["ssh-ed25519 AAAA comment"]}, "peers[0].host_public_keys"),
        ({"client_public_key": 'ssh-ed25519 AAAA\nfrom="*" ssh-ed25519 BBBB'}, "peers[0].client_public_key"),
        ({"client_public_key": ""}, "peers[0].client_public_key"),
        ({"sources": ['*",command="x']}, "peers[0].sources"),
    ],
)
def test_refuses_what_would_end_up_in_a_configuration(changes, option):
    with pytest.raises(OptionError) as error:
        parse_peers([peer(1, **changes)])
    assert str(error.value).startswith(f"{option}: ")


def test_refuses_no_peer_a_missing_key_and_a_double_address():
    with pytest.raises(OptionError, match="peers: "):
        parse_peers([])
    with pytest.raises(OptionError, match="port is missing"):
        parse_peers([{"address": "10.0.0.1"}])
    with pytest.raises(OptionError, match=r"peers\[1\].address: '10.0.0.2'"):
        parse_peers([peer(1), peer(1)])


def test_incomplete_peers_are_taken_in_check_mode_only():
    fresh = peer(1, port=0, host_public_keys=[], client_public_key="")
    with pytest.raises(OptionError):
        parse_peers([fresh])
    assert render_authorized_keys(parse_peers([fresh], complete=False)) == ""


@pytest.mark.parametrize("name", ["A B", "A=1", "1A", "", "A\n", "-A"])
def test_refuses_environment_names(name):
    with pytest.raises(OptionError, match="send_env: "):
        check_environment_names("send_env", ["LD_LIBRARY_PATH", name])


def test_include_comes_first_and_leaves_no_trace():
    own = "Host *\n    User me\n"
    included = with_include(own, RUN_DIR, "g1")
    assert included.splitlines()[1] == "Include /run/gpufabric/nightly/ssh/config"
    assert with_include(included, RUN_DIR, "g1") == included
    assert without_include(included, RUN_DIR, "g1") == own


def test_include_of_another_run_stays():
    other = RunDir("other", "/run/gpufabric/other")
    both = with_include(with_include("", other, "g1"), RUN_DIR, "g1")
    assert without_include(both, RUN_DIR, "g1") == with_include("", other, "g1")


def test_include_stays_while_another_machine_with_the_home_needs_it():
    own, elsewhere = "Host *\n", RunDir("nightly", "/scratch/nightly")
    g1 = with_include(own, RUN_DIR, "g1")
    both = with_include(with_include(g1, RUN_DIR, "g2"), elsewhere, "g3")
    assert [line for line in both.splitlines() if not line.startswith("# ")] == [
        "Include /run/gpufabric/nightly/ssh/config",
        "Include /scratch/nightly/ssh/config",
        "Host *",
    ]
    left = without_include(without_include(both, RUN_DIR, "g2"), elsewhere, "g3")
    assert left == g1 and without_include(left, RUN_DIR, "g1") == own
    # A run of the name that goes on in another directory.
    assert without_include(g1, elsewhere, "g1") == g1
    # A machine whose run has moved has one place.
    assert with_include(g1, elsewhere, "g1") == with_include(own, elsewhere, "g1")


def test_the_block_of_an_earlier_release_goes():
    block = "# BEGIN gpufabric.nccl run nightly\nInclude /x\n# END gpufabric.nccl run nightly\n"
    assert without_include(f"{block}Host *\n", RUN_DIR, "g1") == "Host *\n"


@pytest.mark.parametrize("first", ["g1", "g2"])
def test_machines_with_one_home_change_its_configuration(tmp_path, monkeypatch, first):
    """Each plans before the other has written, as two that work at once."""
    home = tmp_path / "home"
    meshes = {}
    for node in ("g1", "g2"):
        run_dir = RunDir("nightly", str(tmp_path / node / "run"))
        files = MeshFiles(run_dir, types.SimpleNamespace(home=str(home)))
        meshes[node] = (files, {run_dir.ssh_config: f"of {node}"})
    order = [first, *({"g1", "g2"} - {first})]

    def on(node):
        monkeypatch.setattr(socket, "gethostname", lambda: node)

    changes = {}
    for node, (files, texts) in meshes.items():
        on(node)
        changes[node] = files.plan(texts, user_config=True)
    for node in order:
        on(node)
        meshes[node][0].apply(changes[node])
    config = home / ".ssh" / "config"
    assert config.read_text().count("Include ") == 2 and config.stat().st_mode & 0o777 == 0o600
    for left, node in zip((1, 0), order):
        on(node)
        files = meshes[node][0]
        files.apply(files.plan({}, user_config=False))
        assert (config.read_text().count("Include ") if config.exists() else 0) == left
        assert not os.path.exists(files.run_dir.ssh)
    assert not config.exists() or config.read_text() == ""


def test_what_else_is_in_a_configuration_stays_byte_for_byte(tmp_path):
    config = tmp_path / "home" / ".ssh" / "config"
    config.parent.mkdir(parents=True)
    before = b"# Z\xfcrich\r\nHost a\r\n"
    config.write_bytes(before)
    run_dir = RunDir("nightly", str(tmp_path / "run"))
    files = MeshFiles(run_dir, types.SimpleNamespace(home=str(tmp_path / "home")))
    changes = files.plan({run_dir.ssh_config: "x"}, user_config=True)
    assert "Z\ufffdrich" in changes[-1].as_diff()["before"]
    files.apply(changes)
    assert config.read_bytes().endswith(before) and b"Include" in config.read_bytes()
    files.apply(files.plan({}, user_config=False))
    assert config.read_bytes() == before


def test_a_home_that_cannot_be_entered_is_left_alone(tmp_path):
    """Nothing that a run needs is there: without this its sshd could not be ended."""
    home = tmp_path / "home"
    home.write_text("entered by nobody, root included")
    run_dir = RunDir("nightly", str(tmp_path / "run"))
    files = MeshFiles(run_dir, types.SimpleNamespace(home=str(home)))
    texts = {run_dir.ssh_config: "x"}
    files.apply(files.plan(texts, user_config=False))
    files.apply(files.plan({}, user_config=False))
    assert not os.path.exists(run_dir.ssh)
    with pytest.raises(NodeError, match=r"cannot read .*/\.ssh/config"):
        files.plan(texts, user_config=True)


def test_named_peers_refuses_a_host_without_sshd():
    result = {**peer(1), "run_dir": "/run/gpufabric/default", "hostname": "g1", "changed": True, "pid": 1}
    assert named_peers([result], ["g1"])[0]["name"] == "g1"
    with pytest.raises(OptionError, match="gpufabric_hosts: 'g2'"):
        named_peers([result, {"skipped": True}], ["g1", "g2"])
    with pytest.raises(OptionError, match="gpufabric_hosts: "):
        named_peers([], [])


def test_two_thousand_peers(tmp_path, record_property):
    """The texts and the files of 2,000 peers; the time is reported, not judged."""
    begin = time.perf_counter()
    run_dir = RunDir("many", str(tmp_path / "many"))
    peers = parse_peers([peer(number) for number in range(2000)])
    files = MeshFiles(run_dir, Account(run_dir))
    texts = {
        run_dir.ssh_config: render_ssh_config(peers, run_dir, ["LD_LIBRARY_PATH"], True, 10),
        run_dir.known_hosts: render_known_hosts(peers),
        run_dir.authorized_keys: render_authorized_keys(peers),
    }
    files.apply(files.plan(texts, user_config=False))
    record_property("seconds", time.perf_counter() - begin)
    assert (tmp_path / "many" / "ssh" / "known_hosts").read_text().count("\n") == 2000
    assert files.plan(texts, user_config=False) == []


def test_peers_of_others_are_reached_as_this_nodes_configuration_says():
    peers = parse_bare_peers(
        [{"address": "10.0.0.1", "slots": 8}, {"address": "10.0.0.2", "port": 2222, "user": "mpi"}]
    )
    text = render_ssh_config(peers, RUN_DIR, [], False, 10, "/etc/keys/id_rsa")
    first, second = ([line.strip() for line in block.splitlines()] for block in text.strip().split("\n\n"))
    assert first[-1] == "Include /etc/ssh/ssh_config"
    assert not [line for line in first if line.startswith(("Port", "User "))]
    assert {"Port 2222", "User mpi"} <= set(second) and "Include /etc/ssh/ssh_config" not in second
    for block in (first, second):
        assert {"IdentityFile /etc/keys/id_rsa", "StrictHostKeyChecking no"} <= set(block)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({}, "peers[1].address"),
        ({"address": "a"}, "peers[1].address"),
        ({"address": "10.0.0.1"}, "peers[1].address"),
        ({"address": "10.0.0.2", "port": 0}, "peers[1].port"),
        ({"address": "10.0.0.2", "user": "a b"}, "peers[1].user"),
    ],
)
def test_wrong_peers_of_others_are_named(value, named):
    with pytest.raises(OptionError) as failure:
        parse_bare_peers([{"address": "10.0.0.1"}, value])
    assert failure.value.option == named


@pytest.mark.parametrize(("mode", "copied"), [(0o600, False), (0o400, False), (0o644, True), (0o440, True)])
def test_a_key_that_ssh_would_refuse_is_copied(tmp_path, mode, copied):
    path = tmp_path / "id_rsa"
    path.write_text("secret")
    path.chmod(mode)
    assert usable_identity(str(path), RUN_DIR) == ((RUN_DIR.identity, "secret") if copied else (str(path), None))


def test_a_key_that_is_no_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OptionError, match="not a file"):
        usable_identity(str(tmp_path / "pipe"), RUN_DIR)


def test_a_key_is_not_shown(tmp_path):
    run_dir = RunDir("nightly", str(tmp_path / "run"))
    files = MeshFiles(run_dir, Account(run_dir))
    changes = files.plan({run_dir.identity: "secret", run_dir.ssh_config: "x"}, False)
    assert "secret" not in str([change.as_diff() for change in changes])
    files.apply(changes)
    assert (tmp_path / "run/ssh/identity").read_text() == "secret"
    assert (tmp_path / "run/ssh/identity").stat().st_mode & 0o777 == 0o600
    files.apply(files.plan({}, False))
    assert not (tmp_path / "run").exists()


def test_keys_are_not_removed_from_tmp_when_they_are_old(tmp_path):
    run_dir = RunDir("nightly", str(tmp_path / "run"))
    files = MeshFiles(run_dir, Account(run_dir))
    files.apply(files.plan({run_dir.authorized_keys: "x", run_dir.ssh_config: "x"}, False))
    assert (tmp_path / "run/sshd/authorized_keys").stat().st_mode & 0o7777 == 0o1600
    assert (tmp_path / "run/ssh/config").stat().st_mode & 0o7777 == 0o600


def test_a_machine_that_has_two_names_is_named_with_both():
    results = [{**peer(number), "run_dir": RUN_DIR.path, "hostname": "h"} for number in (1, 2, 1)]
    with pytest.raises(ProblemError, match=r"several names: a, c\.") as error:
        named_peers(results, ["a", "b", "c"])
    assert [(item.id, item.host) for item in error.value.problems] == [("host-twice", "c")]
    assert list(names_twice(dict(zip("abc", results)))) == ["c"]
    assert names_twice({"a": results[0], "b": {"failed": True}, "c": {"failed": True}}) == {}


@pytest.mark.parametrize(
    ("lifetimes", "expired"),
    [((7, 7), None), ((-1, 7), None), ((-1, -3), "2026-08-01"), ((-1, None), None), ((), None)],
)
def test_keys_have_expired_if_none_holds_any_more(lifetimes, expired):
    today = datetime.date(2026, 8, 2)
    texts = [
        render_authorized_keys(parse_peers([peer(1)]), days and today + datetime.timedelta(days=days))
        for days in lifetimes
    ]
    found = expired_since("".join(texts), today)
    assert (found and str(found)) == expired
