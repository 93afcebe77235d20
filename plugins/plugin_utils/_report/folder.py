# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to the collection: it may change in any release.

"""A folder of reports on the controller: which of its files are of runs, and which are somebody's own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import (
    locked,
    read_text,
    remove,
    remove_empty_directories,
    write_text,
)
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report.formats import FORMATS

#: Lists the files of runs in the folder, ``{"files": [NAME, ...], "made": true}``; ``made`` if a run made the folder itself.
MARK = ".gpufabric-report"
#: Seconds until another play must have changed the folder.
_PATIENCE = 60.0

#: Files that say themselves that a run wrote them. A folder that has one may lack the mark: releases before 0.2 wrote none, and
#: what collects the files of a CI job may leave out hidden ones.
_TELLING = ("results.json", "diagnosis.json", "isolation.json")
_UNMARKED = (*(form.file for form in FORMATS.values()), *_TELLING, "diagnosis.md", "output.tar.gz", "launcher.log")
_OF_A_RUN = re.compile(r'\s*\{\s*"schema":\s*"gpufabric\.nccl/')


class ReportFolder:
    """The folder, and what its mark says."""

    def __init__(self, option: str, path: str) -> None:
        """``option``: the one that names the folder, for errors. Raises NodeError if the mark cannot be read."""
        self._option = option
        self._path = path
        self._mark = os.path.join(path, MARK)
        self._marked, self._made = self._read_mark()

    def exists(self) -> bool:
        """Whether there is such a folder."""
        return os.path.isdir(self._path)

    def of_runs(self, names: t.Iterable[str]) -> list[str]:
        """Those of the files that are there and that a run wrote. Raises NodeError."""
        there = self._there(names)
        known = self._known()
        return [name for name in there if name in known]

    def check(self, names: t.Iterable[str]) -> None:
        """Raise GpufabricError if one of the files is there and no run wrote it."""
        names = list(names)
        of_runs = self.of_runs(names)
        others = [name for name in self._there(names) if name not in of_runs]
        if others:
            raise GpufabricError(
                f"{self._option}: {self._path} has {', '.join(others)} already, which no run wrote;"
                f" move {'it' if len(others) == 1 else 'them'}, or set {self._option} to another folder"
            )

    def claim(self, names: t.Iterable[str]) -> None:
        """Make the folder and mark these files as a run's, before they are written. Raises GpufabricError as check does."""
        names = list(names)
        self.check(names)
        while True:
            made = self._make()
            try:
                with self._locked():
                    if self.exists():
                        self.check(names)
                        self._write_mark({*self._known(), *names}, made or self._made)
                        return
            except NodeError:
                if self.exists():
                    raise
            # The teardown of another run has removed it meanwhile.

    def remove(self, names: t.Iterable[str]) -> list[str]:
        """Remove those of the files that a run wrote; their names. Raises NodeError."""
        if not self.exists():
            return []
        with self._locked():
            removed = self.of_runs(names)
            known = self._known()
            # Releases before 0.2 made the folder, too.
            made = self._made or self._marked is None
            for name in removed:
                remove(os.path.join(self._path, name))
            if removed:
                self._write_mark(known - {*removed}, made)
        return removed

    def give_back(self) -> None:
        """Remove the mark if it lists nothing that is there, and the folder if a run made it and nothing is in it. Raises NodeError."""
        if not self.exists():
            return
        with self._locked():
            if self._marked is None or self._there(self._marked):
                return
            remove(self._mark)
            made, self._marked, self._made = self._made, None, False
        # The lock may be in it.
        if made:
            remove_empty_directories(self._path)

    def _make(self) -> bool:
        """Make the folder; False if it is there. Raises NodeError."""
        try:
            os.makedirs(self._path, mode=0o755)
        except OSError as error:
            # Of a folder that is there, such as a team's, the mode stays.
            if self.exists():
                return False
            raise NodeError(f"{self._option}: cannot make {self._path}: {error.strerror}") from error
        except ValueError as error:
            # A NUL, or half a character.
            raise OptionError(self._option, self._path, "the path of a folder") from error
        return True

    @contextlib.contextmanager
    def _locked(self) -> t.Iterator[None]:
        """Keep other plays from the folder, and read its mark anew. Raises NodeError."""
        with locked(self._path, _PATIENCE):
            self._marked, self._made = self._read_mark()
            yield

    def _known(self) -> set[str]:
        """The names in the mark; without one, all that a run may have written where it says so."""
        if self._marked is None:
            return set(_UNMARKED if any(map(self._tells, _TELLING)) else ())
        return set(self._marked)

    def _there(self, names: t.Iterable[str]) -> list[str]:
        return [name for name in names if os.path.lexists(os.path.join(self._path, name))]

    def _tells(self, name: str) -> bool:
        path = os.path.join(self._path, name)
        return os.path.isfile(path) and _OF_A_RUN.match(read_text(path) or "") is not None

    def _read_mark(self) -> tuple[frozenset[str] | None, bool]:
        """The names, None without a mark; and whether a run made the folder."""
        text = read_text(self._mark) if self.exists() else None
        try:
            mark = json.loads(text or "")
            return frozenset(name for name in mark["files"] if isinstance(name, str)), mark.get("made") is True
        except (ValueError, KeyError, TypeError, RecursionError):
            return None, False

    def _write_mark(self, names: t.Collection[str], made: bool) -> None:
        if (names, made) != (self._marked, self._made):
            mark = {"files": sorted(names), **({"made": True} if made else {})}
            write_text(self._mark, json.dumps(mark) + "\n", mode=0o644)
            self._marked, self._made = frozenset(names), made
