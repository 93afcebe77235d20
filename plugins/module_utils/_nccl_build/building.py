# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.
"""A build of nccl-tests on a node. It takes minutes, so it goes on by itself, and calls follow it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import socket
import subprocess
import time
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.node_catalogue import known_cause
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.run_module import failure
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import read_text, write_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.openmpi import library_path
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.installation import (
    Installation,
    Mark,
    file_checksum,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.source import (
    Source,
    clone,
    download,
    source_directory,
    unpack,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.toolchain import (
    Toolchain,
    link_homes,
    make_arguments,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.probe import read_libraries
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import (
    end_started,
    has_variable,
    parse_start,
    run_detached,
)

#: In the environment of what a build starts: the directory of the installation.
VARIABLE = "GPUFABRIC_NCCL_TESTS"

#: Seconds until a build that was told to end has ended.
_PATIENCE = 5.0

#: Lines of the log that say why a build failed, of compilers, the linker, make and ptxas.
_REASON = re.compile(r"\berror\b|\*\*\*|: No such file|cannot find|[Uu]ndefined reference|unsupported|Killed", re.ASCII)


@dataclasses.dataclass(frozen=True)
class Order:
    """What is to be built. ``programs``: their names; none: all. ``mpi_prefix``: of the Open MPI that runs them."""

    source: Source
    toolchain: Toolchain
    programs: t.Sequence[str]
    architectures: t.Sequence[str]
    mpi_prefix: str
    jobs: int
    timeout: float

    def recipe(self) -> dict[str, t.Any]:
        """What the programs depend on. With the same recipe they are not built again."""
        return {
            "source": self.source.identity(),
            "programs": list(self.programs),
            "vendor": self.toolchain.vendor,
            "architectures": list(self.architectures),
            "versions": dict(self.toolchain.versions),
        }


def missing_libraries(paths: t.Iterable[str], mpi_prefix: str, environment: t.Mapping[str, str]) -> list[str]:
    """The libraries that the loader does not find for some of the programs, if mpirun starts them."""
    variables = {**environment, "LD_LIBRARY_PATH": library_path(mpi_prefix, environment.get("LD_LIBRARY_PATH", ""))}
    return sorted({name for path in paths for name in read_libraries(path, variables)[0]})


def start(installation: Installation, order: Order) -> None:
    """Begin a build, unless one goes on already. Raises NodeError."""
    installation.create()
    if installation.is_building():
        if installation.read_recipe() != order.recipe():
            raise NodeError(
                f"a build with other settings goes on in {installation.path}; wait for its end, end it by the role's teardown,"
                " or set nccl_tests_dir to another directory",
                has_cure=True,
            )
        return
    installation.expect(order.recipe())
    installation.clear(installation.outcome)
    write_text(installation.log, "")
    run_detached(lambda begun: _work(installation, order, begun), installation.log)


def _work(installation: Installation, order: Order, begun: t.Callable[[], None]) -> None:
    lock = installation.claim()
    if lock is None:
        # Another call was faster; it is followed.
        begun()
        return
    with lock:
        lock.truncate(0)
        lock.write(identity_of(os.getpid()))
        lock.flush()
        begun()
        try:
            _build(installation, order)
            outcome: dict[str, t.Any] = {}
        except GpufabricError as error:
            outcome = failure(error)
        except OSError as error:
            outcome = {"msg": f"the build failed: {error}", "problems": []}
        # The log says why one failed.
        installation.clear(installation.work)
        write_text(installation.outcome, json.dumps(outcome))
        lock.truncate(0)


def _build(installation: Installation, order: Order) -> None:
    installation.clear(installation.work)
    source, links, objects, ready = (
        os.path.join(installation.work, name) for name in ("source", "links", "objects", "ready")
    )
    for path in (source, links, objects, ready):
        os.makedirs(path)
    if order.source.git_url and order.source.commit:
        clone(order.source.git_url, order.source.commit, source)
    else:
        data = order.source.data
        unpack(data if data is not None else download(order.source.url or "", order.source.checksum or ""), source)
    top = source_directory(source)
    _check_programs(top, order.programs)
    link_homes(order.toolchain, links)
    arguments = make_arguments(order.toolchain, links, objects, order.architectures, order.programs, order.jobs)
    _make([order.toolchain.make, "-C", os.path.join(top, "src"), *arguments], installation, order)
    built = [entry.name for entry in os.scandir(objects) if entry.is_file() and entry.name.endswith("_perf")]
    for name in built:
        path = os.path.join(ready, name)
        shutil.copyfile(os.path.join(objects, name), path)
        os.chmod(path, 0o755)
    paths = [os.path.join(ready, name) for name in sorted(built)]
    if not paths:
        raise known_cause("build-failed", "make has built no program", log=installation.log)
    checksums = {os.path.basename(path): file_checksum(path) for path in paths}
    installation.install(ready, Mark(order.recipe(), checksums, socket.gethostname()))


def _check_programs(top: str, programs: t.Sequence[str]) -> None:
    known = sorted(
        name[:-3]
        for name in os.listdir(os.path.join(top, "src"))
        if name.endswith(".cu") and name not in ("common.cu", "util.cu")
    )
    for program in programs:
        if program[: -len("_perf")] not in known:
            raise NodeError(
                f"the source has no {program}; allowed in nccl_tests_programs: {', '.join(known)}", has_cure=True
            )


def _make(argv: t.Sequence[str], installation: Installation, order: Order) -> None:
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")
    }
    path = os.pathsep.join([os.path.dirname(order.toolchain.compiler), environment.get("PATH", os.defpath)])
    environment.update(LC_ALL="C", PATH=path, **{VARIABLE: installation.path})
    with open(installation.log, "ab") as log:
        log.write(f"{' '.join(argv)}\n".encode())
        log.flush()
        # The module's run_command has no limit of time, and keeps what a build prints in memory.
        process = subprocess.Popen(  # pylint: disable=ansible-bad-function
            argv, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            status = process.wait(order.timeout)
        except subprocess.TimeoutExpired:
            end(installation, process.pid)
            process.wait()
            raise known_cause("build-failed", f"not finished after {order.timeout:g} s", log=installation.log) from None
    if status != 0:
        text = read_text(installation.log) or ""
        raise known_cause("build-failed", telling_lines(text), log=installation.log)


def telling_lines(log: str, most: int = 6) -> str:
    """The lines of make's output that say why it failed; without any, the last ones."""
    lines = [line.strip()[:300] for line in log.splitlines()[1:] if line.strip()]
    return "\n".join([line for line in lines if _REASON.search(line)][:most] or lines[-most:])


def end(installation: Installation, pid: int | None = None) -> None:
    """End a build that goes on, with all that it started."""
    end_started(pid, lambda environ: has_variable(environ, VARIABLE, installation.path))


def identity_of(pid: int) -> str:
    """What names a process among those of all machines, and of all times, that may share a directory. Raises ValueError if it has ended."""
    start = parse_start(read_text(f"/proc/{pid}/stat") or "")
    boot = (read_text("/proc/sys/kernel/random/boot_id") or "").strip()
    return f"{pid} {start} {os.readlink('/proc/self/ns/pid')} {boot}"


def builder_of(installation: Installation) -> int | None:
    """The process that its lock names, if it runs on this node and is this user's."""
    text = (read_text(installation.lock) or "").strip()
    # No pid at all, or one of a process that has ended.
    with contextlib.suppress(OSError, ValueError):
        pid = int(text.partition(" ")[0])
        if identity_of(pid) == text and os.stat(f"/proc/{pid}").st_uid == os.geteuid():
            return pid
    return None


def stop(installation: Installation) -> None:
    """End a build that goes on. Raises NodeError if it is on another node, which shares the directory."""
    if installation.is_building():
        end(installation, builder_of(installation))
        lock = installation.claim(_PATIENCE)
        if lock is None:
            raise NodeError(
                f"a build of another node, or of another user, goes on in {installation.path}; wait for its end, or end it there",
                has_cure=True,
            )
        lock.close()


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a build is. ``outcome``: of one that is over, empty if it succeeded."""

    done: tuple[str, ...] = ()
    line: str = ""
    outcome: t.Mapping[str, t.Any] | None = None


def follow(installation: Installation, seconds: float, done: t.Sequence[str] = ()) -> Progress:
    """How far a build is, when it is over, has another program done than those of ``done``, or after ``seconds``. Raises NodeError."""
    deadline = time.monotonic() + seconds
    while True:
        is_building = installation.is_building()
        text = read_text(installation.outcome)
        if text is not None:
            with contextlib.suppress(ValueError, RecursionError):
                return Progress(outcome=json.loads(text))
        if not is_building:
            raise known_cause("build-failed", (read_text(installation.log) or "")[-500:], log=installation.log)
        progress = read_progress(installation)
        if set(progress.done) - set(done) or time.monotonic() > deadline:
            return progress
        time.sleep(0.2)


def read_progress(installation: Installation) -> Progress:
    """The programs that a build has linked so far, and the last line of its log."""
    names: list[str] = []
    # The build that ends meanwhile removes it.
    with contextlib.suppress(FileNotFoundError):
        names = os.listdir(os.path.join(installation.work, "objects"))
    lines = (read_text(installation.log) or "").splitlines()[1:]
    done = sorted(name for name in names if name.endswith("_perf"))
    return Progress(tuple(done), " ".join((lines or ["reading the source"])[-1].split())[:200])
