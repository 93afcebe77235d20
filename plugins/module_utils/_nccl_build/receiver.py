# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.
"""Takes programs from another node, on the node that gets them: it runs from the standard input of Python, over the run's ssh."""

from __future__ import annotations

import gzip
import json
import os
import sys
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import read_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.installation import (
    Installation,
    Mark,
    file_checksum,
    parse_mark,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.probe import read_libraries

#: Begins the line that is meant for the sender; a login shell may print whatever it likes before.
ANSWER = "GPUFABRIC-RECEIVED "
#: Seconds until another node that shares the directory has received all.
_PATIENCE = 120.0


def main(parameters: t.Mapping[str, t.Any]) -> None:
    """Take the programs from the standard input, and print what came of it."""
    try:
        answer = receive(parameters, sys.stdin.buffer)
    except GpufabricError as error:
        answer = {"changed": False, "missing": [], "reason": str(error)}
    except (OSError, EOFError) as error:
        answer = {"changed": False, "missing": [], "reason": f"the programs did not come whole: {error}"}
    sys.stdout.write(f"\n{ANSWER}{json.dumps(answer)}\n")
    sys.stdout.flush()


def receive(parameters: t.Mapping[str, t.Any], stream: t.IO[bytes]) -> dict[str, t.Any]:
    """Install what comes. ``parameters``: ``directory``, ``mark`` (its text), ``sizes`` of the programs in bytes, by their names and in
    their order, ``libraries`` (directories to look in first).

    Returns whether it has ``changed`` something, the libraries that are ``missing``, and else why not. Raises NodeError.
    """
    os.umask(0o022)
    installation = Installation(parameters["directory"])
    installation.check()
    mark = parse_mark(parameters["mark"])
    if mark is None:
        raise NodeError("the mark is not one of this release")
    if _is_installed(installation, mark):
        return _outcome(False, _missing(installation.build, mark, parameters["libraries"]))
    with _claimed(installation):
        if _is_installed(installation, mark):
            # Another node that shares the directory was faster.
            return _outcome(False, _missing(installation.build, mark, parameters["libraries"]))
        is_fresh = not installation.read_recipe() and not os.path.lexists(installation.build)
        try:
            missing = _take(installation, mark, parameters, stream)
        except BaseException:
            _undo(installation, is_fresh)
            raise
        if missing:
            _undo(installation, is_fresh)
    return _outcome(not missing, missing)


def _outcome(changed: bool, missing: list[str]) -> dict[str, t.Any]:
    return {"changed": changed, "missing": missing, "reason": ""}


def _is_installed(installation: Installation, mark: Mark) -> bool:
    found = installation.read()
    return found is not None and found.digest == mark.digest


def _claimed(installation: Installation) -> t.IO[str]:
    """The lock of the directory, which is made if it is not there. Raises NodeError."""
    while True:
        installation.create()
        # A build names its process there; another node that receives is done soon.
        seconds = 2.0 if read_text(installation.lock) else _PATIENCE
        lock = installation.claim(seconds)
        if lock is None:
            raise NodeError(f"a build goes on in {installation.path}")
        if os.fstat(lock.fileno()).st_nlink:
            return lock
        # Who had it has removed the directory.
        lock.close()


def _take(installation: Installation, mark: Mark, parameters: t.Mapping[str, t.Any], stream: t.IO[bytes]) -> list[str]:
    """Install what comes, unless libraries are missing, which it returns. Raises NodeError, OSError and EOFError."""
    ready = os.path.join(installation.work, "ready")
    installation.clear(installation.work)
    os.makedirs(ready)
    with gzip.GzipFile(fileobj=stream) as programs:
        for name, size in parameters["sizes"]:
            path = os.path.join(ready, name)
            with open(path, "xb") as file:
                os.fchmod(file.fileno(), 0o755)
                file.write(programs.read(size))
            if file_checksum(path) != mark.programs.get(name):
                raise NodeError(f"{name} did not come whole")
    missing = _missing(ready, mark, parameters["libraries"])
    if not missing:
        installation.install(ready, mark)
    return missing


def _undo(installation: Installation, is_fresh: bool) -> None:
    """Remove what came in part. ``is_fresh``: there was nothing in the directory before."""
    if is_fresh:
        installation.remove()
    else:
        installation.clear(installation.work)


def _missing(directory: str, mark: Mark, libraries: t.Sequence[str]) -> list[str]:
    """The libraries that the programs do not find here, if mpirun starts them."""
    path = os.pathsep.join([*libraries, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
    environment = {**os.environ, "LD_LIBRARY_PATH": path}
    return sorted(
        {item for name in mark.programs for item in read_libraries(os.path.join(directory, name), environment)[0]}
    )
