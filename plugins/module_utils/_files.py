# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Reading and writing files on a node."""

from __future__ import annotations

import contextlib
import os
import tempfile
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError


def read_text(path: str) -> str | None:
    """The text of a file, or None where there is none.

    Raises NodeError where it exists but cannot be read.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NodeError(f"cannot read {path}: {error.strerror}") from error


def write_text(path: str, text: str, mode: int = 0o600) -> None:
    """Write a file so that a reader sees the old text or the new one, never a part.

    Raises NodeError where the folder cannot be written.
    """
    try:
        descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".gpufabric-")
    except OSError as error:
        raise NodeError(f"cannot write {path}: {error.strerror}") from error
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            # Not by name: the owner of the folder may have put a link there.
            os.fchmod(file.fileno(), mode)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise NodeError(f"cannot write {path}: {error.strerror}") from error


def check_destination(option: str, path: str) -> None:
    """Raise OptionError if no file can be written there: ``path`` is the value of ``option``."""
    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise OptionError(option, path, "a path in a folder that exists")


def replace_text(option: str, path: str, text: str, *, check_mode: bool) -> dict[str, t.Any]:
    """Write a file that is for everybody to read; ``changed`` and ``diff`` of a module, empty if it holds the text already.

    ``option``, ``path`` as in check_destination. Raises GpufabricError.
    """
    check_destination(option, path)
    before = read_text(path)
    if before == text:
        return {}
    if not check_mode:
        write_text(os.path.abspath(path), text, mode=0o644)
    diff = {"before": before or "", "after": text, "before_header": path, "after_header": path}
    return {"changed": True, "diff": diff}


def remove(path: str) -> bool:
    """Remove a file; False where there was none."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise NodeError(f"cannot remove {path}: {error.strerror}") from error
    return True


def remove_empty_directories(*paths: str) -> None:
    """Remove each of these folders that is there and empty, in the given order."""
    for path in paths:
        with contextlib.suppress(OSError):
            os.rmdir(path)
