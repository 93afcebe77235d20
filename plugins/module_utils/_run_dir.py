# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""One run, one directory: where a run keeps what it leaves on a node."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import remove_empty_directories

#: Stamped into the environment of everything that a run starts, so that it can be found and ended.
RUN_ID_VARIABLE = "GPUFABRIC_RUN_ID"

#: Of every module that touches the run.
RUN_ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    "run_id": {"type": "str", "default": "default"},
    "run_dir": {"type": "path"},
}

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
# Open MPI splits the ssh agent's command line at blanks, and ssh_config knows %, ~, $ and quotes.
_RUN_DIR = re.compile(r"/[A-Za-z0-9._/+-]+\Z")


def default_run_dir(run_id: str, uid: int) -> str:
    """Where a run of this user lives.

    Not in ``$XDG_RUNTIME_DIR``: logind removes that when the user's last session ends, and a run outlives
    the Ansible session that started it.
    """
    return f"/run/gpufabric/{run_id}" if uid == 0 else f"/tmp/gpufabric-{uid}/{run_id}"


class RunDir:
    """The directory of one run on one node, and the places in it."""

    def __init__(self, run_id: str, path: str | None, uid: int | None = None) -> None:
        """``path`` None: the default of the run id and the user. Raises OptionError."""
        if not _RUN_ID.match(run_id):
            raise OptionError(
                "run_id",
                run_id,
                "1 to 63 letters, digits, dots, underscores and dashes, beginning with a letter or digit",
            )
        self.run_id = run_id
        self.uid = os.geteuid() if uid is None else uid
        self.is_default = path is None
        self.path = default_run_dir(run_id, self.uid) if path is None else os.path.normpath(path)
        if not _RUN_DIR.match(self.path):
            raise OptionError("run_dir", path, "an absolute path of letters, digits and ._+- below /")
        self.sshd = os.path.join(self.path, "sshd")
        self.ssh = os.path.join(self.path, "ssh")
        self.mpi = os.path.join(self.path, "mpi")
        self.account = os.path.join(self.path, "account")
        #: TMPDIR of the run: an mpirun or a daemon of its that is ended may leave its session directory there.
        self.tmp = os.path.join(self.path, "tmp")
        #: All that a run keeps here; the user may have chosen a directory that holds other things too.
        self.places = (self.sshd, self.ssh, self.mpi, self.account, self.tmp)
        self.client_key = os.path.join(self.ssh, "id_ed25519")
        #: A copy of somebody else's private key, where the run logs in with that.
        self.identity = os.path.join(self.ssh, "identity")
        self.ssh_config = os.path.join(self.ssh, "config")
        self.known_hosts = os.path.join(self.ssh, "known_hosts")
        self.authorized_keys = os.path.join(self.sshd, "authorized_keys")
        self.hostfile = os.path.join(self.mpi, "hostfile")
        self.files = os.path.join(self.mpi, "files")
        self.points = os.path.join(self.mpi, "points")

    def check(self) -> None:
        """Raise NodeError where the directory cannot be made, or is not safely this user's own."""
        existing = self.path
        while not os.path.lexists(existing):
            existing = os.path.dirname(existing)
        if existing == self.path:
            self._check_owned(self.path)
        elif not os.path.isdir(existing) or not os.access(existing, os.W_OK | os.X_OK):
            raise NodeError(
                f"run_dir: {self.path} cannot be made, because {existing} is not a directory that {_user(self.uid)} may write;"
                " set run_dir to a path below one that is",
                has_cure=True,
            )
        elif self.is_default and os.path.dirname(self.path) == existing:
            self._check_owned(existing)

    def create(self, *subdirectories: str) -> None:
        """Make the directory and the named ones in it, mode 0700. Raises NodeError."""
        self.check()
        for path in (os.path.dirname(self.path), self.path, *subdirectories):
            try:
                os.makedirs(path, mode=0o700, exist_ok=True)
            except OSError as error:
                raise NodeError(f"run_dir: cannot make {path}: {error.strerror}") from error
        self.check()

    def remaining(self) -> list[str]:
        """The paths of what there is of the run: of the directory where nothing else is in it, else of its places.

        Raises NodeError where the directory is not safely this user's own.
        """
        if os.path.lexists(self.path):
            self._check_owned(self.path)
        try:
            names = {os.path.join(self.path, name) for name in os.listdir(self.path)}
        except FileNotFoundError:
            return []
        except OSError as error:
            raise NodeError(f"cannot read {self.path}: {error.strerror}") from error
        return [self.path] if names <= set(self.places) else [path for path in self.places if path in names]

    def remove(self) -> None:
        """Remove all that there is of the run, and the directory where nothing else is in it. Raises NodeError."""
        if os.path.lexists(self.path):
            self._check_owned(self.path)
        for path in self.places:
            try:
                with contextlib.suppress(FileNotFoundError):
                    shutil.rmtree(path)
            except OSError as error:
                raise NodeError(f"cannot remove {path}: {error.strerror}") from error
        self.remove_if_empty()

    def remove_if_empty(self, *subdirectories: str) -> None:
        """Remove the named directories, the run's own and the default's parent, each if nothing is in it."""
        remove_empty_directories(*subdirectories, self.path)
        if self.is_default:
            remove_empty_directories(os.path.dirname(self.path))

    def _check_owned(self, path: str) -> None:
        # /tmp is anybody's: a directory or link that another user laid there must not be trusted.
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != self.uid or status.st_mode & 0o022:
            raise NodeError(
                f"run_dir: {path} is not a directory that only {_user(self.uid)} may write"
                f" (owner uid {status.st_uid}, mode {stat.S_IMODE(status.st_mode):04o}); remove it or set run_dir",
                has_cure=True,
            )


def _user(uid: int) -> str:
    return "root" if uid == 0 else f"uid {uid}"
