# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Reading and writing files on a node."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import stat
import tempfile
import time
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError

#: What ``/dev/null`` is on Linux, under whatever name; containers hide files by it.
_NULL = os.makedev(1, 3)
#: Seconds until others must have changed a file: thousands of machines may share a home.
_PATIENCE = 600.0
#: The name of a file that stands for its directory while that is locked.
_LOCK = ".gpufabric-lock"


def open_file(path: str, more_flags: int = 0) -> t.BinaryIO:
    """Open a file to read its bytes. Raises OSError, also for pipes, sockets and devices: reading of them may never end."""
    if not _is_name(path):
        raise OSError(errno.EINVAL, "not a name that a file can have", path)
    # To open a pipe would wait until somebody writes to it.
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | more_flags))  # noqa: SIM115  # the caller's
    status = os.fstat(file.fileno())
    if stat.S_ISREG(status.st_mode) or (stat.S_ISCHR(status.st_mode) and status.st_rdev == _NULL):
        return file
    file.close()
    raise OSError(errno.EINVAL, "not a file, but a pipe or a device", path)


def _is_name(path: str) -> bool:
    """Whether the system takes it for a path: with a NUL, or what is no text, Python refuses it."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeError:
        return False


class Beginning(io.RawIOBase):
    """The first ``size`` bytes of a file, which may go on growing."""

    def __init__(self, file: t.BinaryIO, size: int) -> None:
        self._file = file
        self._left = size

    def readable(self) -> bool:
        """It is for reading."""
        return True

    def readinto(self, buffer: t.Any) -> int:
        """Read so many bytes; how many there were."""
        block = self._file.read(min(len(buffer), self._left))
        self._left -= len(block)
        buffer[: len(block)] = block
        return len(block)


def read_text(path: str, option: str | None = None, most: int | None = None) -> str | None:
    """The text of a file, or None where there is none. ``option``: the one that names the file. See also read_foreign.

    If it exists but cannot be read, or has more than ``most`` characters, raises OptionError, or NodeError without an option.
    """
    try:
        with io.TextIOWrapper(open_file(path), encoding="utf-8", errors="replace") as file:
            text = file.read(None if most is None else most + 1)
            if most is not None and len(text) > most:
                raise OSError(errno.EFBIG, f"it has more than {most} characters")
            return text
    except FileNotFoundError:
        return None
    except OSError as error:
        if option is not None:
            raise OptionError(option, path, f"a file on this host that can be read ({error.strerror})") from error
        raise NodeError(f"cannot read {path}: {error.strerror}") from error


def read_exact(path: str) -> str | None:
    """The text of a file of which write_text makes the same bytes, whatever they are; None where there is none. Raises NodeError."""
    try:
        with open_file(path) as file:
            return file.read().decode("utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NodeError(f"cannot read {path}: {error.strerror}") from error


def read_foreign(path: str, most: int) -> str:
    """The first ``most`` bytes of a file in another user's directory as text; empty where there is none, or a link.

    To open what the link of a stranger leads to may do more than to read: a watchdog's device restarts the machine. Raises NodeError.
    """
    try:
        with open_file(path, os.O_NOFOLLOW) as file:
            return file.read(most).decode("utf-8", errors="replace")
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            return ""
        raise NodeError(f"cannot read {path}: {error.strerror}") from error


def read_end(path: str, size: int) -> str:
    """The last ``size`` bytes of a file as text; empty where there is none. Raises NodeError where it cannot be read."""
    try:
        with open_file(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - size))
            return file.read(size).decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise NodeError(f"cannot read {path}: {error.strerror}") from error


def cut(path: str, longest: int, kept: int) -> None:
    """Leave of a log that has more than ``longest`` bytes its last whole lines, at most ``kept`` bytes.

    In place, for a program that appends to it goes on to do so. Raises NodeError.
    """
    try:
        if os.stat(path).st_size <= longest:
            return
        end = read_end(path, kept).partition("\n")[2]
        with open(path, "ab") as file:
            file.truncate(0)
            file.write(end.encode("utf-8", errors="replace"))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise NodeError(f"cannot write {path}: {error.strerror}") from error


def write_text(
    path: str, text: str, mode: int = 0o600, like: os.stat_result | None = None, *, new: bool = False
) -> None:
    """Write a file so that a reader sees the old text or the new one, never a part.

    ``like``: of the file that it replaces, whose mode it gets, and as far as this user may, its owner and group. ``new``: one that is
    there stays, also if another program or machine makes it at the same moment. Raises NodeError where the folder cannot be written.
    """
    try:
        descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".gpufabric-")
    except OSError as error:
        raise NodeError(f"cannot write {path}: {error.strerror}") from error
    try:
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            # Not by name: the owner of the folder may have put a link there.
            if like is not None:
                for owner, group in ((-1, like.st_gid), (like.st_uid, -1)):
                    with contextlib.suppress(PermissionError):
                        os.fchown(file.fileno(), owner, group)
            os.fchmod(file.fileno(), mode if like is None else stat.S_IMODE(like.st_mode))
        if new:
            _add_name(temporary, path)
        else:
            os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise NodeError(f"cannot write {path}: {error.strerror}") from error


def _add_name(temporary: str, path: str) -> None:
    """Give a file its name, unless there is one of this name."""
    try:
        # The one way in which only one of several machines succeeds on all file systems.
        os.link(temporary, path, follow_symlinks=False)
    except FileExistsError:
        pass
    except OSError:
        # A file system may have no links, such as those of object stores.
        if not os.path.lexists(path):
            os.replace(temporary, path)
            return
    os.unlink(temporary)


@contextlib.contextmanager
def locked(directory: str, seconds: float | None = None) -> t.Iterator[None]:
    """Hold the lock of a directory, which leaves nothing behind; wait for it, at most so many seconds.

    Whoever may open something may hold its lock. If others may open the directory but not write to it, a file in it that only this user
    may open is locked in its place. Without a lock on file systems that have none for directories, such as NFS. Raises NodeError.
    """
    private = os.path.join(directory, _LOCK)
    descriptor = _open_private(private, directory, seconds) if _is_seen_by_others(directory) else -1
    if descriptor >= 0:
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                os.unlink(private)
            os.close(descriptor)
        return
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:
        # It may be written but not listed.
        yield
        return
    except OSError as error:
        raise NodeError(f"cannot read {directory}: {error.strerror}") from error
    try:
        _lock(descriptor, directory, seconds)
        yield
    finally:
        os.close(descriptor)


def _is_seen_by_others(directory: str) -> bool:
    """Whether others may open a directory of this user, but not write to it."""
    try:
        status = os.stat(directory)
    except OSError:
        return False
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022 and bool(status.st_mode & 0o044)


def _open_private(path: str, directory: str, seconds: float | None) -> int:
    """A new file that is locked; -1 if none can be made there. Raises NodeError."""
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError as error:
            raise NodeError(f"cannot read {directory}: {error.strerror}") from error
        except OSError:
            return -1
        try:
            _lock(descriptor, directory, seconds)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:
            # Another has removed it meanwhile.
            pass
        except NodeError:
            os.close(descriptor)
            raise
        os.close(descriptor)


@contextlib.contextmanager
def locked_file(path: str) -> t.Iterator[None]:
    """Hold the lock of a file that write_text replaces; of none where there is none. NFS has it too. Raises NodeError.

    Whoever may read the file may hold its lock, too: it is waited for, but not for ever.
    """
    descriptor = -1
    try:
        while True:
            try:
                # NFS locks only what may be written.
                descriptor = os.open(path, os.O_RDWR if os.access(path, os.W_OK) else os.O_RDONLY)
                _lock(descriptor, path, _PATIENCE)
                if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                    break
            except FileNotFoundError:
                break
            except OSError as error:
                raise NodeError(f"cannot write {path}: {error.strerror}") from error
            # Another has replaced it meanwhile.
            os.close(descriptor)
            descriptor = -1
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _lock(descriptor: int, directory: str, seconds: float | None) -> None:
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if deadline is None else fcntl.LOCK_NB))
            return
        except BlockingIOError:
            if deadline is not None and time.monotonic() > deadline:
                raise NodeError(f"{directory} is locked by another program for {seconds:g} s already") from None
            time.sleep(0.05)
        except OSError:
            return


def is_file_or_nothing(path: str) -> bool:
    """Whether a file can take the place of what is there. It would also take that of a pipe or of ``/dev/null``."""
    return os.path.isfile(path) or not os.path.exists(path)


def check_destination(option: str, path: str) -> None:
    """Raise OptionError if no file can be written there: ``path`` is the value of ``option``."""
    if not _is_name(path) or not is_file_or_nothing(path) or not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise OptionError(option, path, "a path in a folder that exists, of a file or of none yet")


def replace_text(option: str, path: str, text: str, *, check_mode: bool) -> dict[str, t.Any]:
    """Write a file; ``changed`` and ``diff`` of a module, empty if it holds the text already.

    A new one is for everybody to read; one that is there keeps its mode, owner and group.

    ``option``, ``path`` as in check_destination. Raises GpufabricError.
    """
    check_destination(option, path)
    before = read_text(path, option)
    if before == text:
        return {}
    if not check_mode:
        like = os.stat(path) if os.path.exists(path) else None
        write_text(os.path.abspath(path), text, mode=0o644, like=like)
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
