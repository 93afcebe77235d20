# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import fcntl
import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import types

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build import building, receiver
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.building import (
    builder_of,
    follow,
    identity_of,
    start,
    stop,
    telling_lines,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.installation import (
    Installation,
    Mark,
    parse_mark,
    program_names,
)
from ansible_collections.gpufabric.nccl.plugins.modules import nccl_tests_build

PROGRAM = b"#!/bin/sh\nexit 0\n"


@pytest.fixture
def installation(tmp_path, monkeypatch):
    # Directories of tests lie below one that is of another user, or that everybody may write.
    monkeypatch.setattr(
        "ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.installation.foreign_on_way",
        lambda *_arguments: [],
    )
    return Installation(str(tmp_path / "opt" / "nccl-tests"))


def mark(*names, recipe=None):
    checksum = hashlib.sha256(PROGRAM).hexdigest()
    return Mark(recipe or {"source": {"sha256": "a"}}, dict.fromkeys(names, checksum), "gpu-1")


def ready(installation, *names):
    directory = os.path.join(installation.work, "ready")
    os.makedirs(directory)
    for name in names:
        path = os.path.join(directory, name)
        with open(path, "wb") as file:
            file.write(PROGRAM)
        os.chmod(path, 0o755)
    return directory


@pytest.mark.parametrize("path", ["/opt", "opt/nccl-tests", "/opt/a b", "/", "/opt/x/.."])
def test_directories_that_are_refused(path):
    with pytest.raises(OptionError, match=r"directory: .* is not allowed"):
        Installation(path)


def test_what_is_installed(installation):
    assert installation.read() is None and installation.remaining() == []
    installation.create()
    assert installation.read() is None
    installation.install(ready(installation, "all_reduce_perf"), mark("all_reduce_perf"))
    assert installation.read() == mark("all_reduce_perf")
    assert sorted(os.listdir(installation.path)) == [".gpufabric-nccl-tests", "build"]
    # Another one takes its place as a whole.
    installation.install(ready(installation, "alltoall_perf"), mark("alltoall_perf"))
    assert os.listdir(installation.build) == ["alltoall_perf"]
    # Somebody has changed it.
    with open(os.path.join(installation.build, "alltoall_perf"), "ab") as file:
        file.write(b"#")
    assert installation.read() is None
    assert installation.remaining() == [installation.path]
    installation.remove()
    assert not os.path.exists(installation.path)


def test_a_directory_that_was_there_before_stays(installation):
    os.makedirs(installation.path)
    receive(installation, mark("all_reduce_perf"), "all_reduce_perf")
    installation.expect({"source": {"sha256": "b"}})
    assert sorted(installation.remaining()) == sorted([installation.build, installation.lock, installation.mark])
    # It is not what the programs are.
    assert installation.keeps_directory() and "keep" not in mark("all_reduce_perf").as_text()
    installation.remove()
    assert os.listdir(installation.path) == []


def test_what_another_node_says_of_its_directory_is_not_true_of_this_one(installation):
    one = mark("all_reduce_perf")
    receive(installation, dataclasses.replace(one, keep_directory=True), "all_reduce_perf")
    assert installation.read() == one and not installation.keeps_directory()
    installation.remove()
    assert not os.path.exists(installation.path)


def test_an_installation_that_fails_keeps_what_there_was(installation):
    before = mark("all_reduce_perf")
    receive(installation, before, "all_reduce_perf")
    with pytest.raises(NodeError, match="cannot install the programs"):
        installation.install(os.path.join(installation.work, "nosuch"), mark("alltoall_perf"))
    assert installation.read() == before


def test_what_others_have_is_not_touched(installation):
    os.makedirs(installation.build)
    with pytest.raises(NodeError, match="is there already, and this collection has not made it"):
        installation.create()
    installation.remove()
    assert installation.remaining() == [] and os.path.isdir(installation.build)


def test_what_others_put_there_stays(installation):
    installation.create()
    theirs = os.path.join(installation.path, "notes")
    with open(theirs, "w", encoding="utf-8"):
        pass
    assert installation.remaining() == [installation.mark]
    installation.remove()
    assert os.listdir(installation.path) == ["notes"]


@pytest.mark.parametrize("call", ["os.listdir", "os.open", "shutil.rmtree"])
def test_another_node_that_shares_the_directory_removes_it_meanwhile(installation, monkeypatch, call):
    """Before what is there is listed, before the lock is looked at, and before the programs are removed."""
    installation.create()
    installation.install(ready(installation, "all_reduce_perf"), mark("all_reduce_perf"))
    installation.claim().close()
    module, name = {"os": os, "shutil": shutil}[call.partition(".")[0]], call.partition(".")[2]
    own, rmtree = getattr(module, name), shutil.rmtree

    def late(path, *arguments, **keywords):
        if call != "os.open" or path == installation.lock:
            monkeypatch.undo()
            rmtree(installation.path)
        return own(path, *arguments, **keywords)

    monkeypatch.setattr(module, name, late)
    nccl_tests_build.remove(installation, False)
    assert not os.path.exists(installation.path)


def test_of_a_link_the_link_is_removed(installation, tmp_path):
    installation.create()
    (tmp_path / "programs").mkdir()
    os.symlink(tmp_path / "programs", installation.build)
    installation.remove()
    assert os.listdir(tmp_path / "opt") == [] and (tmp_path / "programs").is_dir()


def test_a_directory_that_everybody_may_write_is_refused(installation):
    installation.create()
    os.chmod(installation.path, 0o777)
    with pytest.raises(NodeError, match="everybody may write it"):
        installation.check()


@pytest.mark.parametrize(("mode", "taken"), [(0o2775, False), (0o3775, False), (0o1777, False), (0o3755, True)])
@pytest.mark.parametrize("is_made", [False, True])
def test_a_directory_that_others_may_put_programs_into_is_refused(monkeypatch, mode, taken, is_made):
    """The sticky bit keeps what is there already; in a directory above it, it is enough."""
    if os.geteuid() != 0:
        pytest.skip("takes root, to have a directory of another group")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    # Not tmp_path, which lies below a directory that everybody may write.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as base:
        team = f"{base}/team"
        os.mkdir(team)
        os.chown(team, 0, 100)
        os.chmod(team, mode)
        made = Installation(f"{team}/nccl-tests" if is_made else team)
        if taken or (is_made and mode & 0o1000):
            made.create()
            assert made.is_marked()
        else:
            with pytest.raises(NodeError, match="may be written by (gid 100|everybody), who"):
                made.create()


def test_a_mark_that_is_a_link_is_none(installation, tmp_path):
    """Before it is known whose the directory is, nothing is opened that a link in it leads to."""
    os.makedirs(installation.path)
    (tmp_path / "mark").write_text(mark("all_reduce_perf").as_text())
    os.symlink(tmp_path / "mark", installation.mark)
    assert not installation.is_marked() and installation.remaining() == []


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema": "other"}', '{"schema": "gpufabric.nccl/nccl-tests/v1"}'])
def test_what_is_no_mark(text):
    assert parse_mark(text) is None


def test_marks():
    one = mark("all_reduce_perf")
    assert parse_mark(one.as_text()) == one
    # Where it was built says nothing of what it is.
    assert Mark(one.recipe, one.programs, "gpu-2").digest == one.digest
    assert mark("all_reduce_perf", recipe={"source": {"sha256": "b"}}).digest != one.digest
    text = one.as_text().replace("all_reduce_perf", "../../bin/sh")
    assert parse_mark(text).programs == {}


def test_names_of_programs():
    assert program_names(["alltoall", "all_reduce_perf", "all_reduce"]) == ["all_reduce_perf", "alltoall_perf"]
    for name in ("", "../x", "-j", "a b"):
        with pytest.raises(OptionError, match="programs: "):
            program_names([name])


def test_only_one_build_at_a_time(installation):
    installation.create()
    assert not installation.is_building()
    with installation.claim():
        assert installation.is_building() and installation.claim() is None
    assert not installation.is_building()


def test_only_who_may_build_may_hold_the_lock(installation):
    installation.create()
    os.close(os.open(installation.lock, os.O_CREAT | os.O_WRONLY))
    os.chmod(installation.lock, 0o644)
    for _file in ("of an earlier release", "new"):
        assert not installation.is_building()
        installation.claim().close()
        assert os.stat(installation.lock).st_mode & 0o007 == 0
        os.unlink(installation.lock)


def test_only_the_same_build_is_followed(installation):
    def order(source):
        return types.SimpleNamespace(recipe=lambda: {"source": source})

    installation.create()
    installation.expect({"source": "a"})
    with installation.claim():
        start(installation, order("a"))
        with pytest.raises(NodeError, match="a build with other settings goes on"):
            start(installation, order("b"))
    assert installation.read_recipe() == {"source": "a"} and not os.path.exists(installation.log)


def test_a_build_that_died_is_told(installation):
    installation.create()
    with open(installation.log, "w", encoding="utf-8") as file:
        file.write("make\nnvcc all_reduce.cu\n")
    with pytest.raises(ProblemError) as caught:
        follow(installation, 0)
    (problem,) = caught.value.problems
    assert problem.id == "build-failed" and installation.log in problem.cure and "all_reduce.cu" in problem.evidence


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("make -C src\nCompiling a.cu\ncommon.h:12: fatal error: mpi.h: No such file\nmake: *** [x] Error 1\nbye\n", 2),
        ("make -C src\none\ntwo\n", 2),
        ("make -C src\n" + "x.cu: error: no\n" * 50, 6),
    ],
)
def test_why_a_build_failed(log, expected):
    lines = telling_lines(log).splitlines()
    assert len(lines) == expected and "make -C src" not in lines


def sent(one, *names, data=None):
    """Parameters and stream of a receiver."""
    stream = gzip.compress(b"".join([PROGRAM] * len(names)) if data is None else data)
    parameters = {"mark": one.as_text(), "sizes": [(name, len(PROGRAM)) for name in names], "libraries": []}
    return parameters, io.BytesIO(stream)


def receive(installation, one, *names, data=None):
    parameters, stream = sent(one, *names, data=data)
    return receiver.receive({**parameters, "directory": installation.path}, stream)


def test_programs_that_are_received(installation):
    one = mark("all_reduce_perf", "alltoall_perf")
    names = sorted(one.programs)
    assert receive(installation, one, *names) == {"changed": True, "missing": [], "reason": ""}
    assert installation.read() == one
    assert os.stat(os.path.join(installation.build, names[0])).st_mode & 0o777 == 0o755
    # The same again.
    assert receive(installation, one, *names)["changed"] is False


def test_programs_that_do_not_come_whole(installation):
    one = mark("all_reduce_perf")
    with pytest.raises(NodeError, match="all_reduce_perf did not come whole"):
        receive(installation, one, "all_reduce_perf", data=b"x" * len(PROGRAM))
    assert not os.path.exists(installation.path)


@pytest.mark.parametrize("end", ["stream", "interrupt"])
def test_a_transfer_that_breaks_off_leaves_what_there_was(installation, end):
    one = mark("all_reduce_perf", "alltoall_perf")
    parameters, stream = sent(one, *sorted(one.programs))
    whole = stream.getvalue()

    class Stream(io.BytesIO):
        """Ends before all has come, or is interrupted there."""

        def read(self, size=-1):
            block = super().read(size)
            if not block and end == "interrupt":
                raise KeyboardInterrupt
            return block

    def break_off():
        with pytest.raises((EOFError, KeyboardInterrupt)):
            receiver.receive({**parameters, "directory": installation.path}, Stream(whole[: len(whole) - 12]))

    break_off()
    assert not os.path.exists(installation.path)
    before = mark("alltoall_perf")
    receive(installation, before, "alltoall_perf")
    break_off()
    assert installation.read() == before and not os.path.exists(installation.work)


def test_a_library_that_is_missing_leaves_nothing(installation, monkeypatch):
    monkeypatch.setattr(receiver, "read_libraries", lambda _path, _environment: (["libnccl.so.2"], {}))
    answer = receive(installation, mark("all_reduce_perf"), "all_reduce_perf")
    assert answer == {"changed": False, "missing": ["libnccl.so.2"], "reason": ""}
    assert not os.path.exists(installation.path)


def test_a_library_that_is_missing_leaves_what_there_was(installation, monkeypatch):
    before = mark("alltoall_perf")
    receive(installation, before, "alltoall_perf")
    monkeypatch.setattr(receiver, "read_libraries", lambda _path, _environment: (["libnccl.so.2"], {}))
    assert receive(installation, mark("all_reduce_perf"), "all_reduce_perf")["missing"]
    assert installation.read() == before and not os.path.exists(installation.work)


def test_the_lock_of_a_directory_that_was_removed_meanwhile_is_none(installation, monkeypatch):
    installation.create()
    gone = installation.claim()
    os.unlink(installation.lock)
    locks, claim = iter([gone]), installation.claim
    monkeypatch.setattr(installation, "claim", lambda seconds: next(locks, None) or claim(seconds))
    with receiver._claimed(installation) as lock:
        assert lock is not gone and os.path.samestat(os.fstat(lock.fileno()), os.stat(installation.lock))


def test_a_build_is_not_overtaken(installation):
    installation.create()
    with installation.claim() as lock:
        lock.write("1 2 3 4")
        lock.flush()
        with pytest.raises(NodeError, match="a build goes on"):
            receive(installation, mark("all_reduce_perf"), "all_reduce_perf")


@pytest.fixture
def sleeper():
    """A process that has nothing to do with a build."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def test_whoever_asks_for_a_build_is_none(installation):
    installation.create()
    installation.claim().close()
    with open(installation.lock, encoding="utf-8") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        assert not installation.is_building()
    with installation.claim() as building:
        assert installation.is_building()
        # Two that build are not.
        assert building is not None and installation.claim() is None


@pytest.mark.parametrize("change", [(0, "1"), (1, "7"), (2, "pid:[1]"), (3, "another-boot")])
def test_a_process_that_the_lock_does_not_name_whole_is_not_ended(installation, sleeper, change, monkeypatch):
    monkeypatch.setattr(building, "_PATIENCE", 0.1)
    installation.create()
    words = identity_of(sleeper.pid).split()
    index, word = change
    for text in (str(sleeper.pid), " ".join([*words[:index], word, *words[index + 1 :]])):
        with installation.claim() as lock:
            lock.truncate(0)
            lock.write(text)
            lock.flush()
            with pytest.raises(NodeError, match="a build of another node, or of another user, goes on"):
                stop(installation)
        assert builder_of(installation) is None and sleeper.poll() is None


def test_the_process_that_the_lock_names_is_ended(installation):
    installation.create()
    holds = "import fcntl, sys, time; fcntl.flock(sys.stdin, fcntl.LOCK_EX); print(flush=True); time.sleep(600)"
    with open(installation.lock, "a+", encoding="utf-8") as lock:
        process = subprocess.Popen([sys.executable, "-c", holds], stdin=lock, stdout=subprocess.PIPE)
    process.stdout.readline()
    with open(installation.lock, "a", encoding="utf-8") as lock:
        lock.write(identity_of(process.pid))
    # Its parent, which this test is, has to take note of its end.
    threading.Thread(target=process.wait, daemon=True).start()
    stop(installation)
    assert process.wait(10) < 0 and not installation.is_building()
    process.stdout.close()


def test_a_directory_that_another_user_makes_meanwhile_is_refused(tmp_path, monkeypatch):
    place = "ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.installation"
    installation = Installation(str(tmp_path / "opt" / "nccl-tests"))
    looks = iter([[], [(installation.path, "belongs to uid 5, who")]])
    monkeypatch.setattr(f"{place}.foreign_on_way", lambda *_arguments: next(looks))
    with pytest.raises(NodeError, match="belongs to uid 5"):
        installation.create()
    assert os.listdir(installation.path) == []


def test_what_another_user_has_marked_is_not_removed(installation, monkeypatch):
    installation.create()
    place = "ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.installation"
    monkeypatch.setattr(f"{place}.foreign_on_way", lambda *_arguments: [(installation.path, "belongs to uid 5, who")])
    with pytest.raises(NodeError, match="belongs to uid 5"):
        installation.remaining()


def test_another_users_process_is_not_ended(installation, monkeypatch):
    installation.create()
    with open(installation.lock, "w", encoding="utf-8") as lock:
        lock.write(identity_of(os.getpid()))
    assert builder_of(installation) == os.getpid()
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert builder_of(installation) is None
