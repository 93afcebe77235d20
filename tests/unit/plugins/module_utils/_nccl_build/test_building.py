# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds by the real make, in processes that go on by themselves, of a source that takes no compiler."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.building import (
    VARIABLE,
    Order,
    follow,
    read_progress,
    start,
    stop,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.installation import Installation
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.source import Source
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.toolchain import Pair, Toolchain
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import has_variable, read_processes, stamped

#: What writes a program, in place of a compiler.
MAKES = "build: $(BUILDDIR)/all_reduce_perf\n$(BUILDDIR)/all_reduce_perf:\n\techo >$@\n"

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Begins a build by a Makefile, whatever else make would be told to do."""
    monkeypatch.setattr(
        "ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.installation.foreign_on_way",
        lambda *_arguments: [],
    )
    monkeypatch.setenv("MAKEFLAGS", "--dry-run")
    installation = Installation(str(tmp_path / "opt" / "nccl-tests"))
    there = Pair(str(tmp_path), str(tmp_path))

    def begin(makefile, *programs, make=None):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for name, text in (("src/Makefile", makefile), ("src/all_reduce.cu", "")):
                member = tarfile.TarInfo(name)
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
        source = Source(data=packed.getvalue(), checksum=hashlib.sha256(packed.getvalue()).hexdigest())
        tools = Toolchain(
            "nvidia", "/none", "/none/nvcc", "c++", make or shutil.which("make"), "/none", there, there, {}
        )
        start(installation, Order(source, tools, programs, [], "/usr", 1, 600))
        return installation

    yield begin
    if os.path.exists(installation.lock):
        stop(installation)


def outcome_of(installation):
    progress = follow(installation, 60)
    while progress.outcome is None:
        progress = follow(installation, 60, progress.done)
    return progress.outcome


def test_progress_of_a_build_that_ends_meanwhile(tmp_path, monkeypatch):
    """It removes its directory at any moment, also between two looks at it."""
    monkeypatch.setattr(os.path, "isdir", lambda _path: True)
    assert read_progress(Installation(str(tmp_path / "nccl-tests"))).done == ()


@pytest.mark.parametrize("programs", [[], ["all_reduce_perf"]])
def test_what_is_built_is_installed(build, programs):
    installation = build(MAKES, *programs)
    assert outcome_of(installation) == {}
    mark = installation.read()
    assert list(mark.programs) == ["all_reduce_perf"] and mark.recipe["programs"] == programs
    assert not os.path.exists(installation.work) and not installation.is_building()


@pytest.mark.parametrize(
    ("makefile", "programs", "evidence"),
    [
        ("build:\n\t@echo 'x.cu: error: no such thing' >&2; false\n", [], "x.cu: error: no such thing"),
        ("build:\n", [], "make has built no program"),
    ],
)
def test_a_build_that_fails_says_why(build, makefile, programs, evidence):
    installation = build(makefile, *programs)
    (problem,) = outcome_of(installation)["problems"]
    assert problem["id"] == "build-failed" and evidence in problem["evidence"]
    assert installation.read() is None and not os.path.exists(installation.work)
    # The next one has an outcome of its own.
    assert outcome_of(build(MAKES)) == {} and installation.read() is not None


@pytest.mark.parametrize(
    ("programs", "make", "told"),
    [
        (["all_reduse_perf"], None, "the source has no all_reduse_perf; allowed in nccl_tests_programs: all_reduce"),
        ([], "/nosuch/make", "the build failed: [Errno 2] No such file or directory: '/nosuch/make'"),
    ],
)
def test_a_build_that_cannot_begin_says_why(build, programs, make, told):
    outcome = outcome_of(build(MAKES, *programs, make=make))
    assert outcome["msg"] == told and not outcome.get("problems")


def test_a_build_is_ended_with_all_that_it_started(build):
    # One has left the tree of processes.
    installation = build("build:\n\t(setsid sleep 600 &); touch $(BUILDDIR)/x_perf; sleep 600\n")
    assert follow(installation, 60).done == ("x_perf",) and installation.is_building()

    def of_build():
        return stamped(read_processes(), lambda environ: has_variable(environ, VARIABLE, installation.path))

    assert len(of_build()) >= 3
    stop(installation)
    assert not of_build() and not installation.is_building()
