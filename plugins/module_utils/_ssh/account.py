# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The account that OpenSSH works under: the image's, or one that a run makes for a uid that has none.

Neither ssh nor sshd works for a uid without an entry in the password database, which is what OpenShift and others run
containers as. nss_wrapper shows them one in a file of the run's. Only if an image lacks it, and lets the user write /etc/passwd,
the entry goes there.
"""

from __future__ import annotations

import contextlib
import getpass
import glob
import os
import pwd
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.node_catalogue import known_cause
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import locked_file, read_text, write_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import run
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir

PASSWD = "/etc/passwd"

#: The name of an account that the configurations of ssh and sshd can hold as it is, alone or with its domain, as machines that are
#: joined to a directory have it. Both take a backslash for itself before a letter, a digit or an underscore only.
USER_NAME = (
    r"(?:[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}\\)?[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}(?:@[A-Za-z0-9_][A-Za-z0-9._-]{0,252})?"
)
USER_NAME_ALLOWED = "a name of letters, digits, dots, underscores, pluses and dashes, or one with its domain as USER@DOMAIN or DOMAIN\\USER"
_LIBRARY = "libnss_wrapper.so"
_LIBRARY_PATTERNS = (
    "/usr/lib64",
    "/usr/lib/*-linux-*",
    "/usr/lib",
    "/usr/local/lib64",
    "/usr/local/lib",
    "/lib64",
    "/lib",
)
_WRAPPER_VARIABLES = ("LD_PRELOAD", "NSS_WRAPPER_PASSWD", "NSS_WRAPPER_GROUP")
#: What is neither split nor expanded in sshd_config, nor a separator in passwd.
_PLAIN = re.compile(r"/[A-Za-z0-9._/+-]*\Z")
#: Login shells that do not read the syntax of sh, and whose they read.
_OTHER_SHELLS = {"csh": "csh", "tcsh": "csh", **{name: name for name in ("elvish", "fish", "nu", "pwsh", "xonsh")}}


def user_name() -> str:
    """The name of the user of this process; the uid, if it has no account."""
    # OSError: from Python 3.13 on.
    with contextlib.suppress(KeyError, OSError):
        return getpass.getuser()
    return str(os.getuid())


def check_user_name(name: str) -> None:
    """Raise ProblemError for the name of this node's account if ssh cannot be told it."""
    if not re.match(rf"(?:{USER_NAME})\Z", name):
        raise known_cause("account-name", user=repr(name))


def allowed_users(name: str) -> str:
    """A name as AllowUsers of an sshd_config takes it: a ``@`` would begin the host that the user may come from."""
    return name.replace("@", "?")


def own_name(uid: int) -> str:
    """What a uid is called that has no name."""
    return f"gpufabric-{uid}"


def render_line(uid: int, gid: int, run_path: str, home: str, shell: str) -> str:
    """A run's line of passwd. Each run has its own, so that one that ends takes nothing from another."""
    return f"{own_name(uid)}:x:{uid}:{gid}:{_mark(run_path)}:{home}:{shell}\n"


def find_line(passwd: str, uid: int, run_path: str) -> str | None:
    """A run's line in the text of a passwd file."""
    for line in passwd.splitlines(keepends=True):
        if _is_line(line.split(":"), uid, run_path):
            return line
    return None


def with_line(passwd: str, line: str) -> str:
    """The text of a passwd file with a line at its end."""
    return passwd + ("" if passwd.endswith("\n") or not passwd else "\n") + line


def without_line(passwd: str, uid: int, run_path: str) -> str:
    """The text of a passwd file without a run's line."""
    lines = passwd.splitlines(keepends=True)
    return "".join(line for line in lines if not _is_line(line.split(":"), uid, run_path))


def lets_log_in(shell: str) -> bool:
    """Whether a login shell runs commands. Some container engines give an unknown uid an entry with one that does not."""
    return os.path.basename(shell) not in ("nologin", "false")


def shell_family(shell: str) -> str:
    """The shell whose syntax a login shell reads: ``sh``, ``csh``, or its own name."""
    return _OTHER_SHELLS.get(os.path.basename(shell), "sh")


def library_in_ldconfig(text: str) -> str | None:
    """The path of nss_wrapper's library in the output of ``ldconfig -p``."""
    match = re.search(rf"^\s*{re.escape(_LIBRARY)}\S* .*=> (\S+)$", text, re.MULTILINE)
    return match.group(1) if match else None


def _mark(run_path: str) -> str:
    return f"gpufabric.nccl {run_path}"


def _is_line(fields: t.Sequence[str], uid: int, run_path: str) -> bool:
    return len(fields) == 7 and fields[0] == own_name(uid) and fields[4] == _mark(run_path)


class Account:
    """The account of this process as OpenSSH is to see it in a run.

    ``name``: whom to log in as. ``shell``: what runs its commands. ``home``: where ssh looks for its user's own configuration. ``line``: the line of passwd
    that the run needs, empty where the image has an account; ``found``: the one that there is. ``environment``: what
    programs need to see the account.
    """

    def __init__(self, run_dir: RunDir) -> None:
        self._uid = os.geteuid()
        self._run_dir = run_dir
        self._wrapper_passwd = os.path.join(run_dir.account, "passwd")
        self._writable = False
        self._library: str | None = None
        self.line = self.found = ""
        self.environment: dict[str, str] = {}
        entry = passwd_entry(self._uid)
        if entry and entry.pw_name != own_name(self._uid) and (self._uid == 0 or lets_log_in(entry.pw_shell)):
            self.name, self.home, self.shell = entry.pw_name, entry.pw_dir, entry.pw_shell
            # An image may use nss_wrapper itself.
            self.environment = _inherited_wrapper(os.environ)
            return
        self.name = own_name(self._uid)
        in_passwd = find_line(read_text(PASSWD) or "", self._uid, run_dir.path)
        in_wrapper = find_line(read_text(self._wrapper_passwd) or "", self._uid, run_dir.path)
        self.found = in_passwd or in_wrapper or ""
        home = _home(os.environ) or os.path.join(run_dir.account, "home")
        shell = "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"
        self.line = self.found or render_line(self._uid, os.getegid(), run_dir.path, home, shell)
        self.home = entry.pw_dir if entry else self.line.split(":")[5]
        self.shell = self.line.rstrip("\n").split(":")[6]
        # What was begun one way goes on that way.
        self._library = None if in_passwd else find_library()
        self._writable = not self._library and (in_passwd is not None or os.access(PASSWD, os.W_OK))
        if self._library:
            values = (self._library, self._wrapper_passwd, "/etc/group")
            self.environment = dict(zip(_WRAPPER_VARIABLES, values))

    def check(self) -> None:
        """Raise NodeError where there is no account and no way to one."""
        if self.line and not self._writable and not self._library:
            raise NodeError(
                f"uid {self._uid} has no entry in {PASSWD} to log in by, and neither ssh nor sshd works without one; install"
                f" nss_wrapper in the image, which has {_LIBRARY} (Debian, Ubuntu: apt-get install libnss-wrapper; RHEL and its"
                " kin: dnf install nss_wrapper)"
            )

    def create(self) -> None:
        """Have the run's line where it belongs. Raises NodeError."""
        self.check()
        if self.line == self.found:
            return
        self._run_dir.create(self._run_dir.account, os.path.join(self._run_dir.account, "home"))
        if self._writable:
            _rewrite(
                lambda text: text if find_line(text, self._uid, self._run_dir.path) else with_line(text, self.line)
            )
        else:
            write_text(self._wrapper_passwd, with_line(read_text(PASSWD) or "", self.line))
        self.found = self.line

    def remove(self) -> None:
        """Take the run's line away, not those of other runs. Raises NodeError."""
        if find_line(read_text(PASSWD) or "", self._uid, self._run_dir.path):
            _rewrite(lambda text: without_line(text, self._uid, self._run_dir.path))
        self._run_dir.remove(self._run_dir.account)
        self.found = ""

    def in_passwd(self) -> bool:
        """Whether the run's line is in /etc/passwd."""
        return find_line(read_text(PASSWD) or "", self._uid, self._run_dir.path) is not None

    def added_to(self, environment: t.Mapping[str, str]) -> dict[str, str]:
        """An environment with what programs need to see the account; other libraries to preload stay."""
        libraries = [self.environment.get("LD_PRELOAD"), environment.get("LD_PRELOAD")]
        preload = ":".join(dict.fromkeys(library for library in libraries if library))
        return {**environment, **self.environment, **({"LD_PRELOAD": preload} if preload else {})}


def find_library() -> str | None:
    """The path of nss_wrapper's library, in the usual directories or where the loader finds it."""
    for pattern in _LIBRARY_PATTERNS:
        for path in sorted(glob.glob(os.path.join(pattern, _LIBRARY))):
            if os.access(path, os.R_OK) and _PLAIN.match(path):
                return path
    for ldconfig in ("/sbin/ldconfig", "/usr/sbin/ldconfig"):
        if os.access(ldconfig, os.X_OK):
            listed = library_in_ldconfig(run([ldconfig, "-p"]).stdout)
            if listed and os.access(listed, os.R_OK) and _PLAIN.match(listed):
                return listed
    return None


def passwd_entry(uid: int) -> pwd.struct_passwd | None:
    """The entry of a user in the list of accounts, wherever the node has it; None if it has none."""
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        return None


def _home(environment: t.Mapping[str, str]) -> str | None:
    home = environment.get("HOME", "")
    usable = home != "/" and _PLAIN.match(home) and os.path.isdir(home) and os.access(home, os.W_OK | os.X_OK)
    return home if usable else None


def _inherited_wrapper(environment: t.Mapping[str, str]) -> dict[str, str]:
    if "NSS_WRAPPER_PASSWD" not in environment:
        return {}
    values = {name: environment.get(name, "") for name in _WRAPPER_VARIABLES}
    return {name: value for name, value in values.items() if re.match(r"[A-Za-z0-9._/+:-]+\Z", value)}


def _rewrite(change: t.Callable[[str], str]) -> None:
    """Change /etc/passwd where it is: its directory cannot be written, so it cannot be replaced. Raises NodeError.

    Others read it meanwhile, so what stays the same at its beginning is not touched, and it gets shorter last.
    """
    try:
        with locked_file(PASSWD), open(PASSWD, "r+b", buffering=0) as file:
            before = file.read()
            after = change(before.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
            same = next(
                (n for n, pair in enumerate(zip(before, after)) if pair[0] != pair[1]), min(len(before), len(after))
            )
            if after != before:
                os.pwrite(file.fileno(), after[same:], same)
                file.truncate(len(after))
    except OSError as error:
        raise NodeError(f"cannot write {PASSWD}: {error.strerror}") from error
