# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import types
import uuid

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils import _run_dir
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import read_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.run_files import Run
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.cleanup import Cleanup, remove_replaced
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.ownership import Ownership
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import Process
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import (
    RunDir,
    _is_private_group,
    default_run_dir,
    foreign_on_way,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh import sshd as _sshd
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.account import Account
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.mesh import MeshFiles
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.sshd import Sshd, SshdSettings


def test_default_is_by_user():
    assert default_run_dir("nightly", 0) == "/run/gpufabric/nightly"
    assert default_run_dir("nightly", 1000) == "/tmp/gpufabric-1000/nightly"


@pytest.mark.parametrize("run_id", ["", "a/b", "../x", ".", "-x", "a b", "a\n", "ä", "x" * 64])
def test_refuses_run_id(run_id):
    with pytest.raises(OptionError, match="run_id: "):
        RunDir(run_id, None)


@pytest.mark.parametrize(
    "path",
    ["relative", "rel/ative", "/", "//", "//var", "/var", "/a/..", "/a/a b", "/a/a\nb", "/a/a%h", "/a/$HOME", "/a/a;b"],
)
def test_refuses_run_dir(path):
    with pytest.raises(OptionError, match="run_dir: "):
        RunDir("default", path)


def test_create_is_private_and_remove_if_empty_takes_it_back(tmp_path):
    run_dir = RunDir("default", str(tmp_path / "runs" / "one"))
    run_dir.create(run_dir.sshd)
    assert (tmp_path / "runs" / "one").stat().st_mode & 0o777 == 0o700
    run_dir.remove_if_empty(run_dir.sshd)
    assert not (tmp_path / "runs" / "one").exists()


def test_remove_if_empty_keeps_empty_directories_that_no_run_has_made(tmp_path):
    (tmp_path / "mine" / "ssh").mkdir(parents=True, mode=0o700)
    run_dir = RunDir("default", str(tmp_path / "mine"))
    run_dir.remove_if_empty(run_dir.ssh)
    assert (tmp_path / "mine" / "ssh").is_dir()


def test_remove_if_empty_keeps_what_is_not_empty(tmp_path):
    run_dir = RunDir("default", str(tmp_path / "one"))
    run_dir.create(run_dir.sshd)
    (tmp_path / "one" / "kept").write_text("")
    run_dir.remove_if_empty(run_dir.sshd)
    assert os.listdir(tmp_path / "one") == ["kept"]


def test_two_slashes_at_the_beginning_are_one():
    assert RunDir("default", "//srv//run/").path == "/srv/run"


@pytest.fixture
def home(tmp_path):
    """A directory of the user's, with places that a run would have."""
    path = tmp_path / "alice"
    for name in ("sshd", "ssh", "mpi", "account", "tmp", "thesis"):
        (path / name).mkdir(parents=True)
        (path / name / "precious").write_text("")
    (path / "mpi" / "run.json").write_text('{"over": null, "pid": 1, "start": 0, "plan": "", "total": 1}')
    (path / "ssh" / "config").write_text("Host *")
    (path / "ssh" / "id_ed25519").write_text("a key")
    (path / "sshd" / "sshd_config").write_text("Port 22")
    (path / "sshd" / "made_directory").write_text(str(tmp_path / "made"))
    (tmp_path / "made").mkdir()
    return path


def everything_in(path):
    return sorted(str(file) for file in path.rglob("*"))


WAYS_TO_END = {
    "RunDir.remove": lambda run_dir: run_dir.remove(),
    "RunDir.remove_if_empty": lambda run_dir: run_dir.remove_if_empty(run_dir.ssh),
    "run_cleanup": lambda run_dir: Cleanup(run_dir).apply(Cleanup(run_dir).plan()),
    "Sshd.remove": lambda run_dir: Sshd(run_dir, Account(run_dir)).remove(),
    "Account.remove": lambda run_dir: Account(run_dir).remove(),
    "ssh_mesh": lambda run_dir: MeshFiles(run_dir, Account(run_dir)).apply(
        MeshFiles(run_dir, Account(run_dir)).plan({}, False)
    ),
    "Run.remove": lambda run_dir: Run(run_dir).remove(),
    "Run.stop": lambda run_dir: Run(run_dir).stop(),
}


@pytest.mark.parametrize("marked_by", [None, "another", "not json", "nested"])
@pytest.mark.parametrize("end", WAYS_TO_END.values(), ids=WAYS_TO_END)
def test_what_no_run_made_stays(home, end, marked_by):
    mark = {"another": '{"run_id": "another"}', "not json": "[", "nested": "[" * 100000}.get(marked_by)
    if mark:
        (home / ".gpufabric").write_text(mark)
    before = everything_in(home.parent)
    # A name that no process of this machine has, as these are ended.
    run_dir = RunDir(f"unit-{uuid.uuid4().hex}", str(home))
    end(run_dir)
    assert everything_in(home.parent) == before
    assert not Cleanup(run_dir).plan()
    assert not Run(run_dir).exists() and not Run(run_dir).has_to_stop()
    assert not Sshd(run_dir, Account(run_dir)).exists()


def test_a_start_that_fails_keeps_what_no_run_made(home):
    before = everything_in(home)
    run_dir = RunDir(f"unit-{uuid.uuid4().hex}", str(home))
    with pytest.raises(NodeError, match="run_dir: .*alice has sshd, ssh, mpi, account, tmp already, which no run made"):
        Sshd(run_dir, Account(run_dir)).start(SshdSettings("127.0.0.1", "root"), (9, 2), 0, 1)
    assert everything_in(home) == before


def test_a_directory_with_other_things_is_given_back_as_it_was(home):
    for name in ("sshd", "ssh", "mpi", "account", "tmp"):
        shutil.rmtree(home / name)
    before = everything_in(home)
    run_dir = RunDir("default", str(home))
    run_dir.create(run_dir.sshd, run_dir.tmp)
    run_dir.create(run_dir.mpi)
    run_dir.remove(run_dir.mpi)
    assert run_dir.holds_run()
    run_dir.remove()
    assert everything_in(home) == before


def test_only_directories_of_the_user_are_searched_for_other_runs(tmp_path):
    run_dir = RunDir("one", str(tmp_path / "one"))
    RunDir("two", str(tmp_path / "two")).create()
    run_dir.create()
    (tmp_path / "of-others").mkdir()
    (tmp_path / "of-others").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "two")
    (tmp_path / "file").write_text("")
    assert run_dir.siblings() == [str(tmp_path / "two")]


@pytest.mark.parametrize("refused", ["listdir", "lstat"])
def test_what_lies_beside_a_run_and_may_not_be_looked_at_is_none(tmp_path, monkeypatch, refused):
    run_dir = RunDir("one", str(tmp_path / "one"))
    run_dir.create()
    (tmp_path / "two").mkdir()

    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(os, refused, refuse)
    assert run_dir.siblings() == []


def test_sshds_directory_is_left_to_another_sshd_of_the_node(tmp_path, monkeypatch):
    run_dir = RunDir("one", str(tmp_path / "one"))
    run_dir.create(run_dir.sshd)
    sshd = Sshd(run_dir, Account(run_dir))
    made = tmp_path / "made"
    made.mkdir()
    (tmp_path / "one" / "sshd" / "made_directory").write_text(str(made))
    path = tmp_path / "one" / "sshd" / "sshd_config"
    path.write_text("")
    commands = {
        # There are none of these.
        400000000: (os.geteuid(), 1, f"sshd: /usr/sbin/sshd -D -f {path} [listener] 0 of 32-32 startups"),
        400000001: (0, 400000000, "sshd: root [priv]"),
        400000002: (1000, 1, "sshd: alice@notty"),
        400000003: (0, 1, "/usr/sbin/nscd"),
    }
    processes = {pid: Process(pid, parent, uid, (word,)) for pid, (uid, parent, word) in commands.items()}
    monkeypatch.setattr(_sshd, "read_processes", lambda: processes)
    monkeypatch.setattr(_sshd, "stamped", lambda _processes, _is_meant: set())
    assert sshd.made_directory() == (str(made), None)
    # One that the machine has started meanwhile finds the directory there, and lets nobody in without it.
    processes[400000004] = Process(400000004, 1, 0, ("sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups",))
    assert sshd.made_directory() == (None, None)
    sshd.give_back_directory()
    assert made.is_dir()
    del processes[400000004]
    sshd.give_back_directory()
    assert not made.exists()


def test_sshds_directory_is_left_to_no_run_of_another(tmp_path, monkeypatch):
    monkeypatch.setattr(_sshd, "read_processes", dict)
    run_dir = RunDir("one", str(tmp_path / "one"))
    run_dir.create(run_dir.sshd)
    sshd = Sshd(run_dir, Account(run_dir))
    (tmp_path / "one" / "sshd" / "made_directory").write_text("/run/sshd")
    other = tmp_path / "other" / "sshd"
    other.mkdir(parents=True)
    (other / "sshd_config").write_text("")
    # Somebody's directory, which no run has marked.
    assert sshd.made_directory() == ("/run/sshd", None)
    (other.parent / ".gpufabric").write_text("{}")
    assert sshd.made_directory() == ("/run/sshd", str(other / "made_directory"))
    other.parent.chmod(0o777)
    assert sshd.made_directory() == ("/run/sshd", None)


@pytest.mark.parametrize("is_default", [False, True], ids=["given", "default"])
def test_two_machines_do_not_share_a_directory(is_default, tmp_path, monkeypatch):
    path = str(tmp_path / "home" / "runs")
    if is_default:
        monkeypatch.setattr(_run_dir, "default_run_dir", lambda run_id, uid: path)
    first = RunDir("one", path)
    assert first.is_default is is_default
    first.create(first.sshd)
    first.create()
    name = socket.gethostname()
    monkeypatch.setattr(socket, "gethostname", lambda: "g2")
    second = RunDir("one", first.path)
    claim = {"owner": "alice@here", "controller": "c", "play": "p", "live": ["p"]}
    for way in (second.check, second.create, Ownership(second, claim).take):
        with pytest.raises(NodeError, match=f"run_dir: {first.path} is the run directory of {name}, too: set run_dir "):
            way()
    assert sorted(os.listdir(second.path)) == [".gpufabric", "sshd"]
    # The end of the run is the end of it on either.
    second.remove()
    Ownership(second, claim).take()
    assert second.read_mark()["node"] == "g2"


def test_of_two_machines_that_start_at_once_one_has_the_directory(tmp_path, monkeypatch):
    claim = {"owner": "alice@here", "controller": "c", "play": "p", "live": ["p"]}
    first, second = (RunDir("one", str(tmp_path / "runs")) for _machine in range(2))
    Ownership(first, claim).take()
    name = socket.gethostname()
    monkeypatch.setattr(socket, "gethostname", lambda: "g2")
    # It was made before the first machine marked it.
    monkeypatch.setattr(second, "create", lambda: None)
    with pytest.raises(NodeError, match=f"is the run directory of {name}, too"):
        Ownership(second, claim).take()
    assert first.read_mark()["node"] == name


def test_of_two_machines_that_mark_a_directory_at_once_one_has_it(tmp_path, monkeypatch):
    claim = {"owner": "alice@here", "controller": "c", "play": "p", "live": ["p"]}
    first, second = (RunDir("one", str(tmp_path / "runs")) for _machine in range(2))
    write = _run_dir.write_text

    def write_after_the_first(*arguments, **options):
        monkeypatch.setattr(_run_dir, "write_text", write)
        monkeypatch.setattr(socket, "gethostname", lambda: "g1")
        Ownership(first, claim).take()
        monkeypatch.setattr(socket, "gethostname", lambda: "g2")
        write(*arguments, **options)

    monkeypatch.setattr(socket, "gethostname", lambda: "g2")
    monkeypatch.setattr(_run_dir, "write_text", write_after_the_first)
    with pytest.raises(NodeError, match="is the run directory of g1, too"):
        Ownership(second, claim).take()
    assert first.read_mark()["node"] == "g1"
    assert os.listdir(first.path) == [".gpufabric"]


def test_two_runs_do_not_share_a_directory(tmp_path):
    RunDir("one", str(tmp_path / "runs")).create()
    with pytest.raises(
        NodeError,
        match=r"runs belongs to the run one; set run_dir \(in playbooks gpufabric_run_dir\) to a directory of its own",
    ):
        RunDir("two", str(tmp_path / "runs")).create()


def test_the_default_is_the_runs_without_a_mark(tmp_path, monkeypatch):
    # Nobody else makes anything there, and /tmp may be swept.
    monkeypatch.setattr(_run_dir, "default_run_dir", lambda run_id, uid: str(tmp_path / "gpufabric" / run_id))
    run_dir = RunDir("default", None)
    run_dir.create(run_dir.sshd)
    os.unlink(run_dir.mark)
    run_dir.create(run_dir.ssh)
    os.unlink(run_dir.mark)
    run_dir.remove()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("place", ["sshd", "ssh", "mpi", "account", "tmp"])
@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_place_that_leads_elsewhere_is_not_written_to(tmp_path, place, kind):
    run_dir = RunDir("nightly", str(tmp_path / "run"))
    run_dir.create()
    other = tmp_path / "other"
    (other / "points").mkdir(parents=True)
    path = pathlib.Path(run_dir.path, place)
    if kind == "link":
        path.symlink_to(other)
    else:
        path.write_text("kept")
    for start in (run_dir.check, lambda: run_dir.create(run_dir.mpi)):
        with pytest.raises(NodeError, match=f"/run/{place} is a link, or no directory; remove it"):
            start()
    with pytest.raises(NodeError, match=f"cannot remove .*/run/{place}: .*[Ll]ink|Not a directory"):
        run_dir.remove(str(path))
    assert os.listdir(other) == ["points"] and os.path.lexists(path)


@pytest.fixture
def victim(monkeypatch):
    """A user with a default directory of its own, in a directory like /tmp; what it yields acts as another user there."""
    if os.geteuid() != 0:
        pytest.skip("takes root, to be two users")
    # Not tmp_path, which lies below a directory that only root may enter.
    base = pathlib.Path(tempfile.mkdtemp())
    base.chmod(0o1777)
    monkeypatch.setattr(_run_dir, "default_run_dir", lambda run_id, uid: f"{base}/gpufabric-{uid}/{run_id}")

    @contextlib.contextmanager
    def attacker():
        before, mask = os.geteuid(), os.umask(0)
        os.seteuid(0)
        os.seteuid(54322)
        try:
            yield base
        finally:
            os.seteuid(0)
            os.seteuid(before)
            os.umask(mask)

    os.seteuid(54321)
    try:
        yield attacker
    finally:
        os.seteuid(0)
        shutil.rmtree(base)


@pytest.mark.parametrize("before", ["parent", "run"])
def test_the_default_made_by_another_user_meanwhile_is_refused(victim, monkeypatch, before):
    run_dir = RunDir("default", None)
    mkdir = os.mkdir

    def racing(path, mode=0o777):
        if path == {"parent": os.path.dirname(run_dir.path), "run": run_dir.path}[before]:
            with victim():
                if before == "run":
                    # The attacker cannot: the parent is the victim's, with mode 0700.
                    with pytest.raises(PermissionError):
                        mkdir(path, 0o777)
                else:
                    mkdir(path, 0o777)
        return mkdir(path, mode)

    monkeypatch.setattr(os, "mkdir", racing)
    if before == "run":
        run_dir.create(run_dir.sshd)
        return
    with pytest.raises(NodeError, match="gpufabric-54321.* (belongs to uid 54322|is not a directory that only)"):
        run_dir.create(run_dir.sshd)
    assert not os.path.exists(run_dir.sshd)


def test_a_run_directory_whose_parent_has_become_anothers_is_refused(victim):
    run_dir = RunDir("default", None)
    run_dir.create(run_dir.sshd)
    os.seteuid(0)
    os.chown(os.path.dirname(run_dir.path), 54322, 54322)
    os.chmod(os.path.dirname(run_dir.path), 0o777)
    os.seteuid(54321)
    with pytest.raises(NodeError, match="gpufabric-54321, on the way .* belongs to uid 54322"):
        run_dir.check()


@pytest.mark.parametrize("place", ["parent", "run"])
def test_what_another_user_says_of_the_run_is_not_believed(victim, place):
    run_dir = RunDir("default", None)
    run_dir.create(run_dir.mpi)
    run_dir.write_mark({"owner": "mallory@elsewhere"})
    os.seteuid(0)
    os.chown({"parent": os.path.dirname(run_dir.path), "run": run_dir.path}[place], 54322, 54322)
    for path in (os.path.dirname(run_dir.path), run_dir.path):
        os.chmod(path, 0o755)
    os.chmod(run_dir.mark, 0o644)
    os.seteuid(54321)
    claim = {"owner": "alice@here", "controller": "c", "play": "p", "live": ["p"]}
    looks = {
        "holds_run": run_dir.holds_run,
        "read_mark": run_dir.read_mark,
        "refusal": Ownership(run_dir, claim).refusal,
        "take_over": lambda: remove_replaced(
            Ownership(run_dir, {**claim, "take_over": True}), run_dir, check_mode=False
        ),
        "Run.exists": Run(run_dir).exists,
        "Sshd.read": Sshd(run_dir, Account(run_dir)).read,
    }
    for name, look in looks.items():
        with pytest.raises(NodeError, match="is not a directory that only uid 54321 may write .owner uid 54322"):
            print(name, look())


def test_a_directory_below_another_users_is_refused(victim):
    with victim() as base:
        os.mkdir(base / "shared", 0o777)
        os.symlink(base, base / "link")
    for path in ("shared/me/run", "link/me/run"):
        with pytest.raises(NodeError, match=r"run_dir: .*/(shared|link), on the way to .* belongs to uid 54322"):
            RunDir("default", str(base / path)).create()
    assert os.listdir(base / "shared") == []


@pytest.mark.parametrize(
    ("group", "mode", "is_pod", "taken"),
    [
        # Such as the directory of a project.
        (100, 0o2775, False, False),
        (100, 0o2775, True, True),
        (100, 0o1775, False, True),
        (100, 0o755, False, True),
        (0, 0o775, False, True),
    ],
)
def test_a_directory_below_one_that_a_group_may_write_is_refused(victim, monkeypatch, group, mode, is_pod, taken):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    if is_pod:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    os.seteuid(0)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as base:
        os.chmod(base, 0o755)
        project = f"{base}/project"
        os.mkdir(project)
        os.chown(project, 54321 if taken and group else 0, group)
        os.chmod(project, mode)
        with contextlib.nullcontext() if taken else pytest.raises(NodeError, match="may be written by gid 100, who"):
            os.seteuid(54321)
            try:
                RunDir("default", f"{project}/run").check()
            finally:
                os.seteuid(0)
    os.seteuid(54321)


#: Who may do what, as Linux keeps it: the owner, named users, the group, named groups, the most of all these, and others.
_OWNER, _USER, _GROUP, _NAMED_GROUP, _MASK, _OTHER = 1, 2, 4, 8, 16, 32


@pytest.mark.parametrize(
    ("named", "mask", "told"),
    [
        ([(_USER, 7, 54322)], 7, "may be written by uid 54322, who"),
        ([(_USER, 7, 54321), (_USER, 7, 54322)], 7, "may be written by uid 54322, who"),
        ([(_NAMED_GROUP, 7, 100)], 7, "may be written by gid 100, who"),
        ([(_USER, 7, 54321), (_NAMED_GROUP, 5, 100)], 7, None),
        ([(_USER, 7, 54322)], 5, None),
    ],
)
def test_a_directory_below_one_that_a_list_lets_others_write_is_refused(monkeypatch, named, mask, told):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    nobody = 0xFFFFFFFF
    entries = [(_OWNER, 7, nobody), *named, (_GROUP, 5, nobody), (_MASK, mask, nobody), (_OTHER, 5, nobody)]
    entries.sort(key=lambda entry: entry[0])
    with tempfile.TemporaryDirectory(dir="/var/tmp") as base:
        os.chmod(base, 0o755)
        # It may not write, though the mode has the most that anybody named may do in the place of its permissions.
        os.chown(base, 0, 100)
        acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
        try:
            os.setxattr(base, "system.posix_acl_access", acl)
        except OSError as error:
            pytest.skip(f"/var/tmp: {error.strerror}")
        assert stat.S_IMODE(os.stat(base).st_mode) == (0o775 if mask == 7 else 0o755)
        whose = list(foreign_on_way(base, 54321))
        assert whose == ([(base, told)] if told else [])


@pytest.mark.parametrize(
    ("name", "gid", "members", "private"),
    [
        ("ada", 54321, [], True),
        ("ada", 54321, ["ada"], True),
        ("ada", 54321, ["bob"], False),
        ("lab", 54321, [], False),
    ],
)
def test_a_group_of_ones_own_is_no_other_user(monkeypatch, name, gid, members, private):
    account = types.SimpleNamespace(pw_uid=1000, pw_gid=54321)
    group = types.SimpleNamespace(gr_name=name, gr_mem=members)

    def find(wanted):
        if wanted != "ada":
            raise KeyError(wanted)
        return account

    monkeypatch.setattr("pwd.getpwnam", find)
    monkeypatch.setattr("grp.getgrgid", lambda _gid: group)
    assert _is_private_group(gid, {0, 1000}) is private
    assert not _is_private_group(gid, {0, 1001})


@pytest.mark.parametrize(
    ("mode", "is_pod", "taken"),
    # The group of the first is root's, as is that of the other directories here.
    [(0o777, False, False), (0o777, True, True), (0o1777, False, True), (0o775, False, True)],
)
def test_a_directory_below_one_that_everybody_may_write_is_refused(tmp_path, monkeypatch, mode, is_pod, taken):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    if is_pod:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    shared = tmp_path / "scratch"
    shared.mkdir()
    shared.chmod(mode)
    run_dir = RunDir("default", str(shared / "run"))
    with (
        contextlib.nullcontext() if taken else pytest.raises(NodeError, match="scratch, .* may be written by everybody")
    ):
        run_dir.create(run_dir.sshd)
    assert os.path.exists(run_dir.sshd) is taken


@pytest.mark.parametrize(
    ("uid_map", "taken"),
    [("0 0 4294967295", False), ("1000 1000 1", True), (None, False)],
    ids=["host", "container", "no proc"],
)
def test_the_machines_root_has_no_number_in_a_users_container(victim, monkeypatch, uid_map, taken):
    os.seteuid(0)
    with victim() as base:
        pass
    os.mkdir(base / "outside")
    os.chown(base / "outside", 65534, 65534)
    os.chmod(base / "outside", 0o1777)
    os.seteuid(54321)
    texts = {"/proc/self/uid_map": uid_map, "/proc/sys/kernel/overflowuid": "65534\n"}
    monkeypatch.setattr(_run_dir, "read_text", lambda path: texts[path] if path in texts else read_text(path))
    run_dir = RunDir("default", str(base / "outside" / "me" / "run"))
    with contextlib.nullcontext() if taken else pytest.raises(NodeError, match="belongs to uid 65534"):
        run_dir.create(run_dir.sshd)


def test_a_directory_below_links_of_ones_own_is_taken(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "scratch").symlink_to(tmp_path / "disk")
    run_dir = RunDir("default", str(tmp_path / "scratch" / "run"))
    run_dir.create(run_dir.sshd)
    assert (tmp_path / "disk" / "run" / "sshd").is_dir()


def test_a_directory_below_a_link_to_where_everybody_may_write_is_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    (tmp_path / "public" / "disk").mkdir(parents=True)
    (tmp_path / "public").chmod(0o777)
    (tmp_path / "scratch").symlink_to(tmp_path / "public" / "disk")
    run_dir = RunDir("default", str(tmp_path / "scratch" / "run"))
    with pytest.raises(NodeError, match="public, .* may be written by everybody"):
        run_dir.create(run_dir.sshd)
    assert not os.path.exists(run_dir.path)


def test_check_refuses_a_directory_that_others_may_write(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one").chmod(0o777)
    with pytest.raises(NodeError, match="mode 0777"):
        RunDir("default", str(tmp_path / "one")).check()


def test_check_refuses_a_link(tmp_path):
    (tmp_path / "target").mkdir()
    (tmp_path / "one").symlink_to(tmp_path / "target")
    with pytest.raises(NodeError, match="is not a directory that only"):
        RunDir("default", str(tmp_path / "one")).check()


def test_check_refuses_a_place_below_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NodeError, match="run_dir: .*file is not a directory"):
        RunDir("default", str(tmp_path / "file" / "one")).check()


def test_remaining_is_what_remove_takes(tmp_path):
    run_dir = RunDir("default", str(tmp_path / "one"))
    assert run_dir.remaining() == []
    run_dir.create(run_dir.sshd, run_dir.account)
    assert run_dir.remaining() == [run_dir.path]
    (tmp_path / "one" / "of-others").write_text("")
    assert run_dir.remaining() == [run_dir.sshd, run_dir.account]
    run_dir.remove()
    assert os.listdir(tmp_path / "one") == ["of-others"] and run_dir.remaining() == []


@pytest.mark.parametrize("method", ["remaining", "remove"])
def test_what_is_not_safely_the_runs_is_not_removed(tmp_path, method):
    (tmp_path / "target" / "sshd").mkdir(parents=True)
    (tmp_path / "one").symlink_to(tmp_path / "target")
    with pytest.raises(NodeError, match="is not a directory that only"):
        getattr(RunDir("default", str(tmp_path / "one")), method)()
    assert (tmp_path / "target" / "sshd").exists()


def test_a_run_of_the_same_name_in_another_directory_is_not_ended(tmp_path):
    run_id = f"unit.{uuid.uuid4().hex}"
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    directories = {
        "mine": str(tmp_path / "mine"),
        "by a link": str(tmp_path / "link"),
        "other": str(tmp_path / "mine2"),
        "default": None,
    }
    processes = {
        name: subprocess.Popen(
            ["sleep", "60"],
            env={**os.environ, "GPUFABRIC_RUN_ID": run_id, **({"GPUFABRIC_RUN_DIR": path} if path else {})},
        )
        for name, path in directories.items()
    }
    try:
        for path, ended in ((directories["mine"], {"mine", "by a link"}), (None, {"default"})):
            cleanup = Cleanup(RunDir(run_id, path))
            leftovers = cleanup.plan()
            assert leftovers.ended == ("sleep",) * len(ended)
            cleanup.apply(leftovers)
            assert {processes[name].wait(10) for name in ended} == {-signal.SIGTERM}
        assert processes["other"].poll() is None
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
