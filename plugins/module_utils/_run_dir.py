# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""One run, one directory: where a run keeps what it leaves on a node."""

from __future__ import annotations

import contextlib
import grp
import json
import os
import pwd
import re
import shutil
import socket
import stat
import struct
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import (
    read_foreign,
    read_text,
    remove,
    remove_empty_directories,
    write_text,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import Selector, has_variable

#: Stamped into the environment of everything that a run starts, so that it can be found and ended. The directory tells two runs of
#: one name apart; without it, the process belongs to the run in the default one.
RUN_ID_VARIABLE = "GPUFABRIC_RUN_ID"
RUN_DIR_VARIABLE = "GPUFABRIC_RUN_DIR"

#: Set in every process of a point, on every node, so that it can be found and ended.
POINT_VARIABLE = "GPUFABRIC_POINT"
#: The same for Open MPI's daemons: sshd lets MCA parameters in, mpirun hands them on, and unknown ones do nothing.
DAEMON_VARIABLES = ("OMPI_MCA_gpufabric_point", "PRTE_MCA_gpufabric_point")

#: Of every module that touches the run.
RUN_ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    "run_id": {"type": "str", "default": "default"},
    "run_dir": {"type": "path"},
}

#: Of an access control list: the entries of users that it names, of the group and of groups that it names, and the permission. The mode
#: of a file has in the place of the group's permissions the most that any of these may have.
_ACL_USER, _ACL_OWN_GROUP, _ACL_GROUP, _ACL_WRITE = 2, 4, 8, 2
#: Bytes of a mark.
_LONGEST_MARK = 1 << 16
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
# Open MPI splits the ssh agent's command line at blanks, and ssh_config knows %, ~, $ and quotes. Nothing of one part only, such as
# /tmp or /scratch: others use it too.
_RUN_DIR = re.compile(r"/[A-Za-z0-9._+-]+(?:/[A-Za-z0-9._+-]+)+\Z")


def default_run_dir(run_id: str, uid: int) -> str:
    """Where a run of this user lives.

    Not in ``$XDG_RUNTIME_DIR``: logind removes that when the user's last session ends, and a run outlives
    the Ansible session that started it.
    """
    return f"/run/gpufabric/{run_id}" if uid == 0 else f"/tmp/gpufabric-{uid}/{run_id}"


def check_run_id(option: str, run_id: str) -> None:
    """Raise OptionError for what names no run: it is part of paths and of variables."""
    if not _RUN_ID.match(run_id):
        raise OptionError(
            option,
            run_id,
            "1 to 63 letters, digits, dots, underscores and dashes, beginning with a letter or digit",
        )


class RunDir:
    """The directory of one run on one node, and the places in it."""

    def __init__(self, run_id: str, path: str | None, uid: int | None = None) -> None:
        """``path`` None: the default of the run id and the user. Raises OptionError."""
        check_run_id("run_id", run_id)
        self.run_id = run_id
        self.uid = os.geteuid() if uid is None else uid
        default = default_run_dir(run_id, self.uid)
        # normpath keeps two slashes at the beginning.
        self.path = default if path is None else "/" + os.path.normpath(path).lstrip("/")
        self.is_default = self.path == default
        if not _RUN_DIR.match(self.path) or (path is not None and not os.path.isabs(path)):
            raise OptionError(
                "run_dir",
                path,
                "an absolute path of two parts or more, such as /scratch/run, of letters, digits and ._+-",
            )
        self.sshd = os.path.join(self.path, "sshd")
        self.ssh = os.path.join(self.path, "ssh")
        self.mpi = os.path.join(self.path, "mpi")
        self.account = os.path.join(self.path, "account")
        #: TMPDIR of the run: an mpirun or a daemon of its that is ended may leave its session directory there.
        self.tmp = os.path.join(self.path, "tmp")
        #: All that a run keeps here; the user may have chosen a directory that holds other things too.
        self.places = (self.sshd, self.ssh, self.mpi, self.account, self.tmp)
        #: There while the places in a directory that the user has chosen are the run's.
        self.mark = os.path.join(self.path, ".gpufabric")
        self.client_key = os.path.join(self.ssh, "id_ed25519")
        #: A copy of somebody else's private key, where the run logs in with that.
        self.identity = os.path.join(self.ssh, "identity")
        self.ssh_config = os.path.join(self.ssh, "config")
        self.known_hosts = os.path.join(self.ssh, "known_hosts")
        self.authorized_keys = os.path.join(self.sshd, "authorized_keys")
        self.sshd_log = os.path.join(self.sshd, "sshd.log")
        self.hostfile = os.path.join(self.mpi, "hostfile")
        self.files = os.path.join(self.mpi, "files")
        self.points = os.path.join(self.mpi, "points")

    def check(self) -> None:
        """Raise NodeError where the directory cannot be made, or is not safely this user's and this run's own."""
        existing = nearest_existing(self.path)
        if existing != self.path and (not os.path.isdir(existing) or not os.access(existing, os.W_OK | os.X_OK)):
            raise NodeError(
                f"run_dir: {self.path} cannot be made, because {existing} is not a directory that {_user(self.uid)} may write;"
                " set run_dir (in playbooks gpufabric_run_dir) to a path below one that is",
                has_cure=True,
            )
        self._check_way(existing)
        self._check_places()

    def create(self, *subdirectories: str) -> None:
        """Make the directory and the named ones in it, mode 0700. Raises NodeError."""
        self.check()
        parent = os.path.dirname(self.path)
        self._make(os.makedirs, os.path.dirname(parent))
        # Another user may make one of these meanwhile.
        self._make(os.mkdir, parent)
        self._make(os.mkdir, self.path)
        self._check_way(self.path)
        if not os.path.exists(self.mark):
            self._check_places()
            try:
                write_text(self.mark, self._mark_text({}), new=True)
            except NodeError:
                # Without a mark, nobody would remove it.
                remove_empty_directories(self.path)
                raise
            # Another machine that shares the directory may have been faster.
            self._check_places()
        for path in subdirectories:
            self._make(os.makedirs, path)

    def marks(self) -> dict[str, str]:
        """The variables that all processes of the run on this node have."""
        return {RUN_ID_VARIABLE: self.run_id, RUN_DIR_VARIABLE: self.path}

    def started_with(self, name: str, *values: str) -> Selector:
        """Whether a process of the run in this directory carries ``name`` with one of the values in its environment."""
        return lambda environ: has_variable(environ, name, *values) and self._is_named_by(environ)

    def read_mark(self) -> dict[str, t.Any]:
        """What the mark says: ``run_id``, ``node``, and ``owner``, ``controller``, ``play`` and ``started`` if they are known.

        Raises NodeError if the directory is not safely this user's own: another user may have written the mark.
        """
        self._check_owner()
        # RecursionError: JSON that is nested deeply, which no run wrote.
        with contextlib.suppress(ValueError, RecursionError, NodeError):
            mark = json.loads(read_foreign(self.mark, _LONGEST_MARK))
            if isinstance(mark, dict):
                return mark
        return {}

    def write_mark(self, values: t.Mapping[str, t.Any]) -> None:
        """Write the mark of the run, with these values beside its name and this node's. Raises NodeError."""
        write_text(self.mark, self._mark_text(values))

    def holds_run(self) -> bool:
        """Whether what is in the directory's places is the run's: no other makes anything in the default one.

        Raises NodeError as read_mark does.
        """
        return self.read_mark().get("run_id") == self.run_id or (self.is_default and os.path.lexists(self.path))

    def siblings(self) -> list[str]:
        """Directories beside this one where other runs of this user may be, but for those that another user may write."""
        parent = os.path.dirname(self.path)
        found = []
        try:
            names = sorted(os.listdir(parent))
        except OSError:
            # It may be for others to list.
            names = []
        for name in names:
            path = os.path.join(parent, name)
            # Another run may end meanwhile, and nobody but its user may look at a file system of FUSE.
            with contextlib.suppress(OSError):
                if path != self.path and self._is_owned(os.lstat(path)):
                    found.append(path)
        return found

    def remaining(self) -> list[str]:
        """The paths of what there is of the run: of the directory where nothing else is in it, else of its places.

        Raises NodeError where the directory is not safely this user's own.
        """
        if not self.holds_run():
            return []
        try:
            names = {os.path.join(self.path, name) for name in os.listdir(self.path)}
        except FileNotFoundError:
            return []
        except OSError as error:
            raise NodeError(f"cannot read {self.path}: {error.strerror}") from error
        whole = names <= {*self.places, self.mark}
        return [self.path] if whole else [path for path in self.places if path in names]

    def remove(self, *places: str) -> None:
        """Remove these places of the run, all if none is named, and the directory where nothing else is in it. Raises NodeError."""
        if not self.holds_run():
            return
        for path in places or self.places:
            try:
                with contextlib.suppress(FileNotFoundError):
                    shutil.rmtree(path)
            except OSError as error:
                # Of a link, Python has a message only.
                raise NodeError(f"cannot remove {path}: {error.strerror or error}") from error
        self.remove_if_empty()

    def remove_if_empty(self, *subdirectories: str) -> None:
        """Remove the named directories, the run's own and the default's parent, each if the run has nothing in it any more."""
        if not self.holds_run():
            return
        remove_empty_directories(*subdirectories)
        if not any(map(os.path.lexists, self.places)):
            remove(self.mark)
            remove_empty_directories(self.path)
        if self.is_default:
            remove_empty_directories(os.path.dirname(self.path))

    def _mark_text(self, values: t.Mapping[str, t.Any]) -> str:
        return json.dumps({"run_id": self.run_id, "node": socket.gethostname(), **values}) + "\n"

    def _make(self, make: t.Callable[[str, int], None], path: str) -> None:
        try:
            make(path, 0o700)
        except FileExistsError:
            pass
        except OSError as error:
            raise NodeError(f"run_dir: cannot make {path}: {error.strerror}") from error

    def _is_named_by(self, environ: bytes) -> bool:
        start = f"{RUN_DIR_VARIABLE}=".encode()
        path = next((os.fsdecode(word[len(start) :]) for word in environ.split(b"\0") if word.startswith(start)), None)
        if path is None:
            return self.is_default
        # A path may lead through a link.
        return path == self.path or os.path.realpath(os.path.expanduser(path)) == os.path.realpath(self.path)

    def _check_places(self) -> None:
        mark = self.read_mark()
        node, other = mark.get("node"), mark.get("run_id")
        if isinstance(node, str) and node != socket.gethostname():
            # They would have the same keys, and write into each other's files.
            raise NodeError(
                f"run_dir: {self.path} is the run directory of {node}, too: set run_dir (in playbooks gpufabric_run_dir) to a path that"
                " each machine has for itself, on no shared file system. If no machine is called so any more, remove the directory",
                has_cure=True,
            )
        if self.is_default or other == self.run_id:
            for path in self.places:
                # What the run writes and removes there would be in a directory that is none of its own.
                if os.path.islink(path) or (os.path.lexists(path) and not os.path.isdir(path)):
                    raise NodeError(f"run_dir: {path} is a link, or no directory; remove it", has_cure=True)
            return
        there = [os.path.basename(path) for path in self.places if os.path.lexists(path)]
        if other or there:
            what = f"belongs to the run {other}" if other else f"has {', '.join(there)} already, which no run made"
            raise NodeError(
                f"run_dir: {self.path} {what}; set run_dir (in playbooks gpufabric_run_dir) to a directory of its own",
                has_cure=True,
            )

    def _check_way(self, existing: str) -> None:
        """Raise NodeError where another user can put something else in place of the directory, as far as it exists."""
        for path, whose in foreign_on_way(existing, self.uid):
            if path != self.path:
                raise NodeError(
                    f"run_dir: {path}, on the way to {self.path}, {whose} can put another directory there;"
                    f" set run_dir (in playbooks gpufabric_run_dir) to a path below directories of root and of {_user(self.uid)} that"
                    " nobody else may write",
                    has_cure=True,
                )
        self._check_owner()

    def _check_owner(self) -> None:
        for path in (*([os.path.dirname(self.path)] if self.is_default else []), self.path):
            if os.path.lexists(path):
                self._check_owned(path)

    def _is_owned(self, status: os.stat_result) -> bool:
        return stat.S_ISDIR(status.st_mode) and status.st_uid == self.uid and not status.st_mode & 0o022

    def _check_owned(self, path: str) -> None:
        # /tmp is anybody's: a directory or link that another user laid there must not be trusted.
        status = _status(path)
        if not self._is_owned(status):
            raise NodeError(
                f"run_dir: {path} is not a directory that only {_user(self.uid)} may write"
                f" (owner uid {status.st_uid}, mode {stat.S_IMODE(status.st_mode):04o});"
                " remove it or set run_dir (in playbooks gpufabric_run_dir)",
                has_cure=True,
            )


def nearest_existing(path: str) -> str:
    """The path, or the nearest directory above it that there is."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def foreign_on_way(path: str, uid: int, filled: str = "") -> t.Iterator[tuple[str, str]]:
    """The directories on the way to a path in which others than root and a user can replace what is there, and who, in words.

    Everybody can do so in one that everybody may write, and whom a group or an access control list lets write it in others, but for
    those with the sticky bit, such as /tmp. Not in a pod: volumes come so there, and only the pod's users see them. ``filled``: one in
    which others are not to put anything either, which that bit does not keep them from.
    """
    is_pod = "KUBERNETES_SERVICE_HOST" in os.environ
    trusted = {0, uid, *_users_without_a_number()}
    for directory in dict.fromkeys([*_way_to(path), *_way_to(os.path.realpath(path))]):
        status = _status(directory)
        if status.st_uid not in trusted:
            yield directory, f"belongs to uid {status.st_uid}, who"
        elif not stat.S_ISDIR(status.st_mode) or (status.st_mode & stat.S_ISVTX and directory != filled) or is_pod:
            continue
        elif status.st_mode & stat.S_IWOTH:
            yield directory, "may be written by everybody, who"
        elif status.st_mode & stat.S_IWGRP:
            for whom in _writers_beside_owner(directory, status.st_gid, trusted):
                yield directory, f"may be written by {whom}, who"


def _writers_beside_owner(directory: str, gid: int, trusted: t.Container[int]) -> t.Iterator[str]:
    """The group of a directory, and users and groups that its access control list names, if they may write it; not those that are trusted."""
    try:
        entries = os.getxattr(directory, "system.posix_acl_access")[4:]
    except OSError:
        # It has no list.
        entries = struct.pack("<HHI", _ACL_OWN_GROUP, _ACL_WRITE, gid)
    for tag, permissions, number in struct.iter_unpack("<HHI", entries):
        if not permissions & _ACL_WRITE:
            continue
        if tag == _ACL_USER and number not in trusted:
            yield f"uid {number}"
        group = {_ACL_OWN_GROUP: gid, _ACL_GROUP: number}.get(tag)
        if group is not None and not _is_private_group(group, trusted):
            yield f"gid {group}"


def _is_private_group(gid: int, uids: t.Container[int]) -> bool:
    """Whether no other users are in a group, such as one that each user has for himself. Root's is as good as root."""
    if gid == 0:
        return True
    try:
        group = grp.getgrgid(gid)
        owner = pwd.getpwnam(group.gr_name)
    except KeyError:
        return False
    # By its name: who has it as the first group of several users cannot be asked of all directories of users.
    return owner.pw_gid == gid and owner.pw_uid in uids and not set(group.gr_mem) - {group.gr_name}


def _users_without_a_number() -> list[int]:
    """The uid of all users whom this user namespace does not know, the machine's root among them; none outside of one."""
    # A container that an ordinary user has started may see / and /tmp of the machine.
    if "4294967295" in (read_text("/proc/self/uid_map") or "4294967295").split():
        return []
    return [int(read_text("/proc/sys/kernel/overflowuid") or 65534)]


def _way_to(path: str) -> list[str]:
    """The directories from the root on that lead to a path, and the path itself."""
    return [path] if path == "/" else [*_way_to(os.path.dirname(path)), path]


def _status(path: str) -> os.stat_result:
    try:
        return os.lstat(path)
    except OSError as error:
        raise NodeError(f"run_dir: cannot look at {path}: {error.strerror}") from error


def _user(uid: int) -> str:
    return "root" if uid == 0 else f"uid {uid}"
