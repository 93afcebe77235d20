# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.
"""Where a node keeps nccl-tests that was built or brought there: one directory with a mark, which says what it is."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
import time
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import (
    read_foreign,
    remove,
    remove_empty_directories,
    write_text,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._options import Range
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import foreign_on_way, nearest_existing

SCHEMA = "gpufabric.nccl/nccl-tests/v1"
MARK = ".gpufabric-nccl-tests"

#: Numbers of nccl_tests_build, nccl_tests_spread (its timeout) and the role nccl_tests.
RANGES = {
    "jobs": Range(1, 1024, "1 to 1024"),
    "timeout": Range(1, 86400, "1 to 86400 seconds"),
    "spread_timeout": Range(1, 86400, "1 to 86400 seconds"),
}

#: Bytes of a mark.
_LONGEST_MARK = 1 << 20
#: Two parts or more: nobody wants /opt or /usr replaced.
_DIRECTORY = re.compile(r"/[A-Za-z0-9._+-]+(?:/[A-Za-z0-9._+-]+)+\Z")
_PROGRAM = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")


@dataclasses.dataclass(frozen=True)
class Mark:
    """What the programs are: ``recipe`` says what they were built from and how, ``programs`` has the SHA-256 of each.

    ``keep_directory``: the directory, then empty, was there before, and stays.
    """

    recipe: t.Mapping[str, t.Any]
    programs: t.Mapping[str, str]
    built_on: str = ""
    keep_directory: bool = False

    @property
    def digest(self) -> str:
        """What recipe and programs are known by: nodes with the same digest have the same programs."""
        text = json.dumps([self.recipe, self.programs], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def as_text(self) -> str:
        """The file of the mark."""
        content: dict[str, t.Any] = {"schema": SCHEMA, "recipe": self.recipe, "programs": self.programs}
        content["built_on"] = self.built_on
        if self.keep_directory:
            content["keep_directory"] = True
        return json.dumps(content, indent=1, sort_keys=True) + "\n"


def parse_mark(text: str) -> Mark | None:
    """The mark in a file; an empty one while nothing is built; None if it is no mark."""
    with contextlib.suppress(ValueError, LookupError, AttributeError, TypeError, RecursionError):
        content = json.loads(text)
        if content["schema"] == SCHEMA:
            programs = {name: value for name, value in content["programs"].items() if _PROGRAM.match(name)}
            return Mark(
                content["recipe"], programs, str(content.get("built_on", "")), content.get("keep_directory") is True
            )
    return None


def program_names(names: t.Iterable[str]) -> list[str]:
    """The names of programs, given as collectives (all_reduce) or as programs (all_reduce_perf). Raises OptionError."""
    found = []
    for name in names:
        if not _PROGRAM.match(name):
            raise OptionError("programs", name, "the name of a collective such as all_reduce, or of its program")
        found.append(name if name.endswith("_perf") else f"{name}_perf")
    return sorted(set(found))


class Installation:
    """The directory and its places."""

    def __init__(self, path: str) -> None:
        """Raises OptionError."""
        self.path = "/" + os.path.normpath(path).lstrip("/")
        if not os.path.isabs(path) or not _DIRECTORY.match(self.path):
            raise OptionError(
                "directory",
                path,
                "an absolute path of two parts or more, such as /opt/nccl-tests, of letters, digits and ._+-",
            )
        #: The programs. The benchmark looks in /opt/nccl-tests/build by itself.
        self.build = os.path.join(self.path, "build")
        #: Source, objects and links of a build that goes on, or that failed.
        self.work = os.path.join(self.path, "work")
        self.log = os.path.join(self.path, "build.log")
        #: How a build ended, JSON.
        self.outcome = os.path.join(self.path, ".outcome")
        #: Held while a build goes on; names its process.
        self.lock = os.path.join(self.path, ".lock")
        self.mark = os.path.join(self.path, MARK)

    @property
    def places(self) -> tuple[str, ...]:
        """All that is ever made in the directory."""
        return (self.build, self.work, self.log, self.outcome, self.lock, self.mark)

    def check(self) -> None:
        """Raise NodeError where the directory cannot be made, is another's, or is not this user's alone to change."""
        existing = nearest_existing(self.path)
        if existing != self.path and (not os.path.isdir(existing) or not os.access(existing, os.W_OK | os.X_OK)):
            raise NodeError(
                f"{self.path} cannot be made, because {existing} is not a directory that this user may write;"
                " set nccl_tests_dir to a path below one that is",
                has_cure=True,
            )
        self.check_way()
        if self.is_foreign():
            raise NodeError(
                f"{self.path} is there already, and this collection has not made it; remove it, or set nccl_tests_dir to"
                " another directory",
                has_cure=True,
            )

    def check_way(self) -> None:
        """Raise NodeError where others can put something in place of the directory, or of one on the way to it."""
        for path, whose in foreign_on_way(nearest_existing(self.path), os.geteuid(), self.path):
            raise NodeError(
                f"{path}, on the way to {self.path}, {whose} can put other programs there; set nccl_tests_dir to a path below"
                " directories of root and of this user that nobody else may write",
                has_cure=True,
            )
        if os.path.lexists(self.path):
            status = os.lstat(self.path)
            if not stat.S_ISDIR(status.st_mode) or status.st_mode & stat.S_IWOTH:
                raise NodeError(
                    f"{self.path} is no directory, or everybody may write it; remove it or set nccl_tests_dir",
                    has_cure=True,
                )

    def is_foreign(self) -> bool:
        """Whether there is a directory with something in it that has no mark."""
        return os.path.isdir(self.path) and bool(os.listdir(self.path)) and not self.is_marked()

    def is_marked(self) -> bool:
        """Whether the directory is one of this collection."""
        return self._read_mark() is not None

    def create(self) -> None:
        """Make the directory, with a mark that says that nothing is built yet. Raises NodeError."""
        self.check()
        keep = False
        try:
            os.makedirs(os.path.dirname(self.path), 0o755, exist_ok=True)
            try:
                os.mkdir(self.path, 0o755)
            except FileExistsError:
                keep = True
        except OSError as error:
            raise NodeError(f"cannot make {self.path}: {error.strerror}") from error
        # Another user may have made it meanwhile; or another node, which shares it and writes the mark now.
        self.check_way()
        if not self.is_marked():
            self._write(Mark({}, {}, keep_directory=keep))

    def read(self) -> Mark | None:
        """What is installed; None if nothing is, or not as its mark says."""
        mark = self._read_mark()
        if mark is None or not mark.programs:
            return None
        for name, checksum in mark.programs.items():
            path = os.path.join(self.build, name)
            if not os.access(path, os.X_OK) or file_checksum(path) != checksum:
                return None
        return mark

    def read_recipe(self) -> t.Mapping[str, t.Any]:
        """The recipe of what is installed, or of the build that goes on; empty if there is none."""
        mark = self._read_mark()
        return mark.recipe if mark else {}

    def _read_mark(self) -> Mark | None:
        # Before anybody has looked whose the directory is.
        return parse_mark(read_foreign(self.mark, _LONGEST_MARK))

    def expect(self, recipe: t.Mapping[str, t.Any]) -> None:
        """Say that nothing is installed, and what is being built. Raises NodeError."""
        self._write(Mark(recipe, {}, keep_directory=self.keeps_directory()))

    def keeps_directory(self) -> bool:
        """Whether the directory is not this collection's to remove."""
        mark = self._read_mark()
        return mark is not None and mark.keep_directory

    def _write(self, mark: Mark) -> None:
        write_text(self.mark, mark.as_text(), 0o644)

    def install(self, directory: str, mark: Mark) -> None:
        """Put programs that lie in a directory beside ``build`` in its place, and say so in the mark. Raises NodeError."""
        old = os.path.join(self.path, "work", "old")
        before = self._read_mark()
        try:
            os.makedirs(self.work, exist_ok=True)
            # Between these two nothing is installed, and the mark is that of no program.
            self.expect(mark.recipe)
            if os.path.lexists(self.build):
                os.rename(self.build, old)
            os.rename(directory, self.build)
            # What another node says of its directory is not true of this one.
            self._write(dataclasses.replace(mark, keep_directory=self.keeps_directory()))
        except (OSError, NodeError) as error:
            # What was there goes on to be installed.
            if os.path.lexists(old) and not os.path.lexists(self.build):
                os.rename(old, self.build)
                if before is not None:
                    self._write(before)
            reason = error.strerror if isinstance(error, OSError) else error
            raise NodeError(f"cannot install the programs in {self.build}: {reason}") from error
        self.clear(self.work)

    def clear(self, *paths: str) -> None:
        """Remove files and directories of the installation. Raises NodeError."""
        for path in paths:
            try:
                while os.path.isdir(path) and not os.path.islink(path):
                    # Another node that shares the directory may be removing the same.
                    with contextlib.suppress(FileNotFoundError):
                        shutil.rmtree(path)
                remove(path)
            except OSError as error:
                raise NodeError(f"cannot remove {path}: {error.strerror}") from error

    def remaining(self) -> list[str]:
        """The paths of what there is, of a directory with a mark; the directory itself if it is removed with them.

        Raises NodeError where the mark is another user's.
        """
        if not self.is_marked():
            return []
        try:
            self.check_way()
            there = [path for path in self.places if os.path.lexists(path)]
            return [self.path] if len(os.listdir(self.path)) == len(there) and not self.keeps_directory() else there
        except (NodeError, FileNotFoundError):
            if os.path.lexists(self.path):
                raise
            # Another node that shares the directory was faster.
            return []

    def remove(self) -> None:
        """Remove all of it, the mark last: what has none is not touched. Raises NodeError."""
        if self.is_marked():
            keep = self.keeps_directory()
            self.clear(*self.places)
            if not keep:
                remove_empty_directories(self.path)

    def claim(self, seconds: float = 2.0) -> t.IO[str] | None:
        """The file of the lock, which is held until it is closed; None if another one has it for so long. Raises NodeError.

        Whoever asks whether a build goes on has it for a moment.
        """
        deadline = time.monotonic() + seconds
        while True:
            file = self._lock(fcntl.LOCK_EX)
            if file is not None or time.monotonic() > deadline:
                return file
            time.sleep(0.05)

    def is_building(self) -> bool:
        """Whether a build goes on."""
        try:
            # Shared with others that ask: only a build has it alone. It is not made, for the directory may be going.
            file = self._lock(fcntl.LOCK_SH, "r+")
        except NodeError:
            if os.path.exists(self.lock):
                raise
            return False
        if file is None:
            return True
        file.close()
        return False

    def _lock(self, how: int, mode: str = "a+") -> t.IO[str] | None:
        try:
            # Whoever may open it may hold the lock.
            file = open(self.lock, mode, encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o660))  # noqa: SIM115
            with contextlib.suppress(PermissionError):
                # One that an earlier release has made.
                os.fchmod(file.fileno(), stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o770)
        except OSError as error:
            raise NodeError(f"cannot write {self.lock}: {error.strerror}") from error
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except OSError:
            file.close()
            return None
        return file


def file_checksum(path: str) -> str:
    """The SHA-256 of a file; empty where it cannot be read."""
    found = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                found.update(block)
    except OSError:
        return ""
    return found.hexdigest()
