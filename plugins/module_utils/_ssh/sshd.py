# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""A private sshd of a run: its configuration, its keys, its life."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import re
import shlex
import socket
import stat
import time
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._connect import FAREWELL, connect, read_banner
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.node_catalogue import (
    NODE_CATALOGUE,
    known_cause,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem, ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.reader import Source
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import (
    GpufabricError,
    Hidden,
    NodeError,
    OptionError,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import (
    cut,
    read_text,
    remove,
    remove_empty_directories,
    write_text,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import free_ports
from ansible_collections.gpufabric.nccl.plugins.module_utils._options import check_ranges
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import (
    Process,
    Selector,
    descendants,
    end,
    end_started,
    identities,
    is_in_this_namespace,
    read_processes,
    run,
    stamped,
    start_detached,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import (
    RUN_DIR_VARIABLE,
    RUN_ID_VARIABLE,
    RunDir,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.account import (
    Account,
    allowed_users,
    check_user_name,
    shell_family,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.mesh import (
    AUTHORIZED_KEYS_MODE,
    check_environment_names,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.policy import (
    FORWARDED_ENVIRONMENT,
    RANGES,
    SSHD_POLICY,
    SSHD_POLICY_9_8,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.programs import find_openssh_program
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import NOT_SHOWN, shown_environment

#: Set by sshd in each of its sessions, so that what was started there is found when the sshd is stopped.
SESSION_VARIABLE = "GPUFABRIC_SSHD"
#: What each sshd sets.
_OWN_VARIABLES = (RUN_ID_VARIABLE, RUN_DIR_VARIABLE, SESSION_VARIABLE, "TMPDIR", "LC_MESSAGES")

HOST_KEY_TYPES = ("ed25519", "ecdsa", "rsa")
#: Has a 1 in FIPS mode, in which OpenSSH makes no Ed25519 keys and has no ChaCha20.
_FIPS_MODE = "/proc/sys/crypto/fips_enabled"

#: What a user may set. A list of what is refused would miss aliases and keywords of releases to come.
EXTRA_KEYWORDS = (
    "AllowGroups", "Banner", "ChannelTimeout", "Ciphers", "ClientAliveCountMax", "ClientAliveInterval", "Compression",
    "DebianBanner", "DenyGroups", "FingerprintHash", "HostKeyAlgorithms", "IPQoS", "KexAlgorithms", "LogLevel", "LogVerbose",
    "LoginGraceTime", "MACs", "MaxAuthTries", "MaxSessions", "MaxStartups", "ModuliFile", "PerSourceMaxStartups",
    "PerSourceNetBlockSize", "PerSourcePenalties", "PerSourcePenaltyExemptList", "PermitTTY", "PrintLastLog", "PrintMotd",
    "PubkeyAcceptedAlgorithms", "PubkeyAcceptedKeyTypes", "RekeyLimit", "RequiredRSASize", "RevokedKeys", "Subsystem",
    "SyslogFacility", "TCPKeepAlive", "UnusedConnectionTimeout", "UseDNS", "VersionAddendum",
)  # fmt: skip
_EXTRA_KEYWORDS_LOWER = frozenset(keyword.lower() for keyword in EXTRA_KEYWORDS)
_BROKEN_ALGORITHM = re.compile(
    r"3des|cbc|arcfour|md5|sha1\b|umac-64|ssh-dss|ssh-rsa|rsa1024|\bnone\b|[*?]", re.IGNORECASE
)


def check_environment(option: str, environment: t.Mapping[str, str]) -> None:
    """Raise OptionError for a variable that sshd cannot set for its sessions."""
    for name, value in environment.items():
        if not re.match(r"[A-Za-z_][A-Za-z0-9_]*\Z", name) or name == "TMPDIR" or name.startswith("GPUFABRIC_"):
            raise OptionError(option, name, "names of environment variables, but TMPDIR and GPUFABRIC_*")
        if re.search(r"[\x00-\x1f\x7f\"\\]", value):
            raise OptionError(f"{option}.{name}", Hidden(), "one line without double quotes and backslashes")


def in_fips_mode() -> bool:
    """Whether this node is in FIPS mode."""
    return (read_text(_FIPS_MODE) or "").strip() == "1"


def usable_key_types(kinds: t.Iterable[str], fips: bool) -> tuple[str, ...]:
    """The types of keys, with ECDSA in place of Ed25519 in FIPS mode."""
    return tuple(dict.fromkeys("ecdsa" if fips and kind == "ed25519" else kind for kind in kinds))


@dataclasses.dataclass(frozen=True)
class SshdSettings:
    """What may be set of a private sshd, checked. ``port`` 0: the operating system chooses.

    ``shell``: the user's login shell. ``environment``: what each session has, whatever a client sends.
    """

    address: str
    user: str
    port: int = 0
    accept_env: tuple[str, ...] = FORWARDED_ENVIRONMENT
    host_key_types: tuple[str, ...] = ("ed25519",)
    use_pam: bool = False
    fips: bool = False
    shell: str = "/bin/sh"
    environment: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    max_startups: int | None = None
    extra_options: t.Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        check_user_name(self.user)
        check_ranges(RANGES, {"port": self.port})
        if not self.host_key_types:
            raise OptionError("host_key_types", [], "at least one of ed25519, ecdsa, rsa")
        check_environment_names("accept_env", self.accept_env)
        check_environment("environment", self.environment)
        if self.max_startups is not None and not 1 <= self.max_startups <= 1_000_000:
            raise OptionError("max_startups", self.max_startups, "1 to 1000000")
        for keyword, value in self.extra_options.items():
            if keyword.lower() not in _EXTRA_KEYWORDS_LOWER:
                raise OptionError("extra_options", keyword, ", ".join(EXTRA_KEYWORDS))
            if re.search(r"[\x00-\x1f\x7f]", value) or not value.strip():
                raise OptionError(f"extra_options.{keyword}", value, "one line of printable characters")
            names_algorithms = keyword.lower().endswith(("algorithms", "ciphers", "macs", "keytypes"))
            if names_algorithms and not value.startswith("-") and _BROKEN_ALGORITHM.search(value):
                raise OptionError(
                    f"extra_options.{keyword}",
                    value,
                    "algorithms by name, without CBC, MD5, SHA-1, DSA and 64-bit MACs",
                )


def render_config(settings: SshdSettings, run_dir: RunDir, port: int, version: tuple[int, int]) -> str:
    """The text of sshd_config. ``version`` is OpenSSH's."""
    lines = [f"Port {port}", f"ListenAddress {settings.address}"]
    lines += [f"HostKey {host_key_path(run_dir, kind)}" for kind in settings.host_key_types]
    marks = {**run_dir.marks(), SESSION_VARIABLE: run_dir.run_id, "TMPDIR": run_dir.tmp}
    # What shells print is read. A profile may set LANG, which has less weight.
    session = {**marks, "LC_MESSAGES": "C", **settings.environment}
    lines += [
        f"PidFile {run_dir.sshd}/sshd.pid",
        f"AuthorizedKeysFile {run_dir.authorized_keys}",
        f"AllowUsers {allowed_users(settings.user)}",
        *SSHD_POLICY,
        f"UsePAM {'yes' if settings.use_pam else 'no'}",
        # sshd takes one such line only.
        f"SetEnv {' '.join(_quoted(f'{name}={value}') for name, value in session.items())}",
    ]
    if version >= (9, 8):
        lines.append(SSHD_POLICY_9_8)
    if shell_family(settings.shell) not in ("sh", "csh"):
        # mpirun writes the syntax of sh or of csh. In single quotes, all shells take this line for the same words.
        lines.append("ForceCommand /bin/sh -c 'eval \"$SSH_ORIGINAL_COMMAND\"'")
    if settings.fips:
        lines = [line.replace("chacha20-poly1305@openssh.com,", "") for line in lines]
    lines += [f"AcceptEnv {name}" for name in settings.accept_env]
    # sshd takes the first value of most keywords, and the last of some, such as MaxStartups.
    options = dict(settings.extra_options)
    if settings.max_startups is not None and "maxstartups" not in {keyword.lower() for keyword in options}:
        options["MaxStartups"] = str(settings.max_startups)
    chosen = {keyword.lower() for keyword in options}
    lines = [line for line in lines if line.partition(" ")[0].lower() not in chosen]
    head = [f"# Private sshd of gpufabric.nccl, run {run_dir.run_id}"]
    head += [f"{keyword} {value}" for keyword, value in sorted(options.items())]
    return "\n".join([*head, *lines]) + "\n"


def _quoted(word: str) -> str:
    return word if re.match(r"[A-Za-z0-9_=,.:/@%+^-]+\Z", word) else f'"{word}"'


def host_key_path(run_dir: RunDir, kind: str) -> str:
    """Where the private host key of a kind is."""
    return os.path.join(run_dir.sshd, f"ssh_host_{kind}_key")


#: In sshd's log, address and port at the other side of a connection; and a look of ours that has left.
_CLIENT = re.compile(r"[0-9a-fA-F.:]+(?:%\S+)? port \d+")
_LOOKS = re.compile(rf"^Received disconnect from .*: {FAREWELL}", re.MULTILINE)
#: Bytes of the log that are kept, and read: those of about a thousand logins.
LONGEST_LOG = 1 << 20


def config_values(config: str, keyword: str) -> list[str]:
    """The values of a keyword in the text of an sshd_config, one for each line that has it."""
    return re.findall(rf"^{keyword} (.+)$", config, re.MULTILINE)


def parse_version(text: str) -> tuple[int, int]:
    """OpenSSH's version in what ``sshd -V`` prints (old ones print it along with their usage); (0, 0) where there is none."""
    match = re.search(r"OpenSSH_(?:for_Windows_)?(\d+)\.(\d+)", text)
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def missing_privilege_separation_directory(text: str) -> str | None:
    """The directory that sshd says it misses."""
    match = re.search(r"Missing privilege separation directory: (\S+)", text)
    return match.group(1) if match else None


def port_was_taken(log: str) -> bool:
    """Whether sshd's log says that another program has the port."""
    return re.search(r"Bind to port \d+ .*Address already in use", log) is not None


def complaint(stderr: str, path: str) -> str:
    """What ``sshd -t`` has against the configuration in the file at ``path``."""
    found = re.findall(rf"^{re.escape(path)}:? line \d+: (.+?)\s*$", stderr, re.MULTILINE)
    return (found[-1] if found else _last_line(stderr)).rstrip(".")


def is_locked(shadow: str, user: str) -> bool:
    """Whether an account is locked, from the text of /etc/shadow: without PAM, sshd lets nobody in there, key or not."""
    for line in shadow.splitlines():
        name, _colon, rest = line.partition(":")
        if name == user:
            return rest.startswith("!")
    return False


def presented_keys(keyscan: str) -> set[str]:
    """``TYPE KEY`` of each key in the output of ssh-keyscan."""
    return {" ".join(line.split()[1:3]) for line in keyscan.splitlines() if line and not line.startswith("#")}


def public_key(text: str) -> str:
    """``TYPE KEY`` of a public key file, without its comment."""
    return " ".join(text.split()[:2])


@dataclasses.dataclass(frozen=True)
class Instance:
    """What there is of a run's sshd on a node. ``pid`` None: none runs that answers with the run's host keys."""

    config: str | None
    pid: int | None

    @property
    def port(self) -> int:
        """The port that it has, or had when it last ran; 0 where it never did."""
        ports = config_values(self.config or "", "Port")
        return int(ports[0]) if len(ports) == 1 and ports[0].isdigit() else 0

    def describe(self) -> str:
        """Its state as text, for a diff."""
        return describe(self.config, self.pid is not None)


def describe(config: str | None, running: bool) -> str:
    """The state of an sshd as text, for a diff: without the values of variables that may be secret."""
    if config is None:
        return ""
    shown = re.sub(r"^SetEnv .*", lambda line: _shown_setenv(line.group()), config, flags=re.MULTILINE)
    return f"# {'running' if running else 'not running'}\n{shown}"


def _shown_setenv(line: str) -> str:
    try:
        words = shlex.split(line)[1:]
    except ValueError:
        return f"SetEnv {NOT_SHOWN}"
    variables = dict(word.partition("=")[::2] for word in words)
    shown = shown_environment(variables, _OWN_VARIABLES)
    return " ".join(["SetEnv", *(f"{name}={value}" for name, value in shown.items())])


def is_own_program(pid: int) -> bool:
    """Whether a process is in this container or machine, and is none that any user may have started as another, as far as one can see.

    He chooses the title of such a one, for example of su.
    """
    with contextlib.suppress(OSError):
        if os.stat(f"/proc/{pid}/exe").st_mode & (stat.S_ISUID | stat.S_ISGID):
            return False
    return is_in_this_namespace(pid)


def has_limits_of_login(pid: int) -> bool:
    """Whether a process has the limits (ulimit) of this one, as far as one can see: an sshd hands its own on to all of its sessions."""
    limits = read_text(f"/proc/{pid}/limits")
    return limits is None or limits == read_text("/proc/self/limits")


def find_listener(
    processes: t.Mapping[int, Process],
    config_path: str,
    uid: int,
    is_own: t.Callable[[int], bool] = is_own_program,
) -> int | None:
    """The pid of the sshd that listens by a configuration. ``is_own``: as is_own_program.

    By its command line, which sshd keeps in its title: a pid file may be lost, or name another program's process by now.
    A process that sshd starts for a connection has the same for a moment.
    """
    found = {
        process.pid: process.parent
        for process in processes.values()
        if process.uid == uid
        and "sshd" in process.command[0]
        and config_path in " ".join(process.command).split()
        and is_own(process.pid)
    }
    return next((pid for pid, parent in found.items() if parent not in found), None)


def last_connection(log: str) -> str:
    """sshd's log with the lines before the last connection blank: they have no times, and may say what was mended since.

    So are those of a look at sshd, which is no login and comes after one that failed.
    """
    looks = {_client(look) for look in _LOOKS.findall(log)}
    lines = ["" if _client(line) in looks else line for line in log.splitlines()]
    start = max((number for number, line in enumerate(lines) if line.startswith("Connection from ")), default=0)
    return "\n" * start + "\n".join(lines[start:])


def _client(line: str) -> str | None:
    """Whose connection a line of sshd's log is about."""
    found = _CLIENT.search(line)
    return found.group() if found else None


def causes_in(log: str) -> list[Problem]:
    """Why sshd does not run or refused somebody, from the text of its log, as far as that tells."""
    return NODE_CATALOGUE.diagnose([Source("sshd", log.splitlines(), socket.gethostname(), "sshd.log")], None)


def cause_in(text: str, otherwise: str, **facts: t.Any) -> ProblemError:
    """A failure of this node's sshd by what it says; where that tells nothing, by an id in the catalogue."""
    found = causes_in(text)
    lines = [line for line in text.splitlines() if line.strip()]
    return ProblemError(*found) if found else known_cause(otherwise, "\n".join(lines[-10:]), **facts)


def refusing_line(allow: str, deny: str) -> tuple[str, str] | None:
    """The file of TCP wrappers, and its line, by which sshd may refuse hosts, from the texts of hosts.allow and hosts.deny."""
    for path, text in (("/etc/hosts.allow", allow), ("/etc/hosts.deny", deny)):
        for line in text.replace("\\\n", " ").splitlines():
            daemons, *rest = (part.strip().lower() for part in line.partition("#")[0].split(":"))
            names = {name.partition("@")[0] for name in re.split(r"[\s,]+", daemons)}
            # In a line of either file, the last word may say the opposite of the file's name (hosts_options(5)).
            refuses = rest[-1:] == ["deny"] or (path.endswith("deny") and rest[-1:] != ["allow"])
            if rest and refuses and names & {"sshd", "all"}:
                return path, line.strip()
    return None


def default_use_pam(user: str) -> bool:
    """Whether sessions must go through PAM: only where sshd alone would let nobody into the account. Raises ProblemError."""
    # Nobody but root can read the file, and sshd run by anybody else cannot either.
    if os.geteuid() != 0 or not is_locked(read_text("/etc/shadow") or "", user):
        return False
    if not os.path.exists("/etc/pam.d/sshd"):
        raise known_cause("account-locked", "there is no /etc/pam.d/sshd to log in by", user=user)
    return True


def check_port_is_free(settings: SshdSettings, run_dir: RunDir) -> None:
    """Raise ProblemError where the port that the settings insist on cannot be had."""
    family = socket.AF_INET6 if ":" in settings.address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        # As sshd does: connections of the one before it last a minute longer than it.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((settings.address, settings.port))
        except OSError as error:
            if error.errno == errno.EACCES:
                raise known_cause("sshd-port-forbidden", port=settings.port) from None
            raise port_taken(settings, run_dir) from None


def port_taken(settings: SshdSettings, run_dir: RunDir) -> ProblemError:
    """The error for a port that another program has; the sshd of another run of this user is named."""
    facts: dict[str, t.Any] = {"port": settings.port, "address": settings.address}
    processes = read_processes()
    with contextlib.suppress(FileNotFoundError):
        for path in run_dir.siblings():
            config = os.path.join(path, "sshd", "sshd_config")
            has_port = config_values(read_text(config) or "", "Port") == [str(settings.port)]
            if has_port and find_listener(processes, config, os.geteuid()) is not None:
                facts["run"] = os.path.basename(path)
    return known_cause("sshd-port-taken", **facts)


class Sshd:
    """The private sshd of a run on this node."""

    def __init__(self, run_dir: RunDir, account: Account, program: str | None = None) -> None:
        """``program``: the path of sshd; None where it is to be found."""
        self.run_dir = run_dir
        self.account = account
        self._program = program
        self._config_path = os.path.join(run_dir.sshd, "sshd_config")
        self._log_path = run_dir.sshd_log
        self._marker_path = os.path.join(run_dir.sshd, "made_directory")

    @property
    def program(self) -> str:
        """The path of sshd, absolute since sshd starts itself again for every connection. Raises GpufabricError."""
        if self._program is None:
            self._program = find_openssh_program("sshd")
        elif not os.path.isabs(self._program) or not os.access(self._program, os.X_OK):
            raise OptionError("sshd_path", self._program, "the absolute path of a program")
        return self._program

    def read_version(self) -> tuple[int, int]:
        """OpenSSH's version."""
        result = run([self.program, "-V"])
        return parse_version(result.stdout + result.stderr)

    def read(self) -> Instance:
        """What there is now."""
        config = read_text(self._config_path) if self.run_dir.holds_run() else None
        pid = self.listener()
        if pid is not None and not (self.client_public_key() and self._answers(config or "")):
            pid = None
        return Instance(config, pid)

    def host_public_keys(self, config: str) -> list[str]:
        """``TYPE KEY`` of each host key that the configuration names and that there is."""
        texts = [read_text(f"{path}.pub") for path in config_values(config, "HostKey")]
        return [public_key(text) for text in texts if text is not None]

    def client_public_key(self) -> str:
        """``TYPE KEY`` of this node's client key; empty where there is none."""
        return public_key(read_text(self.run_dir.client_key + ".pub") or "")

    def start(self, settings: SshdSettings, version: tuple[int, int], port: int, timeout: float) -> Instance:
        """Start it with these settings, in place of the one that may run; its sessions go on.

        ``port``: the one to try first, 0 for one that the operating system chooses. Where it was taken meanwhile and
        ``settings.port`` does not insist on it, another is taken. Raises NodeError, and leaves what ran as it was where
        the settings are at fault.
        """
        existed = os.path.exists(self._config_path)
        try:
            self.run_dir.create(self.run_dir.sshd, self.run_dir.ssh, self.run_dir.tmp)
            self.account.create()
            self._make_keys(settings)
            if read_text(self.run_dir.authorized_keys) is None:
                write_text(self.run_dir.authorized_keys, "", AUTHORIZED_KEYS_MODE)
            self._validate(render_config(settings, self.run_dir, port or 65535, version))
            self._end_listener()
            return self._listen(settings, version, port, timeout)
        except GpufabricError:
            if not existed:
                self.remove()
            raise

    def stop(self) -> None:
        """End it, its sessions and what was started in them."""
        end_started(self.listener(), self._is_session())

    def remove(self) -> None:
        """End it and remove its files, the node's client key and the account that was made for it."""
        self.stop()
        self.give_back_directory()
        self.account.remove()
        if self.run_dir.holds_run():
            remove(self.run_dir.client_key)
            remove(self.run_dir.client_key + ".pub")
        self.run_dir.remove_if_empty(self.run_dir.ssh)
        self.run_dir.remove(self.run_dir.sshd, self.run_dir.tmp)

    def cut_log(self) -> None:
        """Keep the log short: sshd itself never cuts it, and each connection adds to it. Raises NodeError."""
        cut(self._log_path, LONGEST_LOG, LONGEST_LOG // 4)

    def exists(self) -> bool:
        """Whether there is anything to remove."""
        places = (self.run_dir.sshd, self.run_dir.client_key, self.run_dir.account)
        return self.account.in_passwd() or (self.run_dir.holds_run() and any(map(os.path.lexists, places)))

    def has_processes(self) -> bool:
        """Whether there is anything to end."""
        return self.listener() is not None or bool(stamped(read_processes(), self._is_session()))

    def _is_session(self) -> Selector:
        return self.run_dir.started_with(SESSION_VARIABLE, self.run_dir.run_id)

    def _make_keys(self, settings: SshdSettings) -> None:
        keygen = find_openssh_program("ssh-keygen")
        (client_type,) = usable_key_types(["ed25519"], settings.fips)
        for kind, path in [(kind, host_key_path(self.run_dir, kind)) for kind in settings.host_key_types] + [
            (client_type, self.run_dir.client_key)
        ]:
            if os.path.exists(path) and os.path.exists(path + ".pub"):
                continue
            remove(path)
            comment = f"gpufabric-{self.run_dir.run_id}"
            result = run(
                [keygen, "-q", "-t", kind, "-N", "", "-C", comment, "-f", path],
                environment=self.account.added_to(os.environ),
            )
            if result.returncode != 0:
                raise NodeError(f"ssh-keygen cannot make an {kind} key: {_last_line(result.stderr or result.stdout)}")

    def _validate(self, config: str) -> None:
        candidate = f"{self._config_path}.candidate"
        write_text(candidate, config)
        try:
            for _attempt in range(2):
                result = run([self.program, "-t", "-f", candidate])
                directory = missing_privilege_separation_directory(result.stderr)
                if directory is None:
                    break
                self._make_directory(directory)
        finally:
            remove(candidate)
        if result.returncode != 0:
            said = result.stderr.replace(candidate, self._config_path)
            # The other lines are the module's own.
            option = complaint(said, self._config_path)
            raise cause_in(said, "ssh-config-invalid", path=self._config_path, option=option)

    def _make_directory(self, path: str) -> None:
        try:
            os.makedirs(path)
            # Whatever the umask is.
            os.chmod(path, 0o755)
        except OSError as error:
            raise known_cause("sshd-run-directory", f"it cannot be made: {error.strerror}", path=path) from error
        write_text(self._marker_path, path)

    def made_directory(self) -> tuple[str | None, str | None]:
        """The directory that was made for sshd, and where another run that needs it still keeps its own note of it.

        None if an sshd runs here that is not of a run: it may need the directory by now, and would let nobody in without it.
        """
        directory = read_text(self._marker_path) if self.run_dir.holds_run() else None
        if directory is None:
            return None, None
        for path in self.run_dir.siblings():
            other = os.path.join(path, "sshd")
            # Beside a directory that was given there may be anything.
            is_run = os.path.exists(os.path.join(path, os.path.basename(self.run_dir.mark)))
            if is_run and os.path.exists(os.path.join(other, "sshd_config")):
                return directory, os.path.join(other, os.path.basename(self._marker_path))
        return (None if self._has_others() else directory), None

    def _has_others(self) -> bool:
        """Whether an sshd of root's runs on this node that is neither the run's nor of a connection to that."""
        processes = read_processes()
        listener = self.listener(processes)
        own = stamped(processes, self._is_session()) | (descendants(processes, listener) if listener else set())
        return any(
            process.uid == 0 and pid not in own and "sshd" in process.command[0] and is_own_program(pid)
            for pid, process in processes.items()
        )

    def give_back_directory(self) -> None:
        """Remove the directory that was made for sshd, or leave that to another run that needs it still."""
        directory, heir = self.made_directory()
        if directory and heir:
            write_text(heir, directory)
        elif directory:
            remove_empty_directories(directory)

    def listener(self, processes: t.Mapping[int, Process] | None = None) -> int | None:
        """The pid of the sshd that runs by the run's configuration; also where that has been removed meanwhile."""
        if os.path.lexists(self._config_path) and not self.run_dir.holds_run():
            return None
        return find_listener(read_processes() if processes is None else processes, self._config_path, os.geteuid())

    def _end_listener(self) -> None:
        processes = read_processes()
        pid = self.listener(processes)
        if pid is not None:
            listener = identities(processes, [pid])
            end(lambda: listener & identities(running := read_processes(), running))

    def _answers(self, config: str) -> bool:
        """Whether the configured port presents the configured host keys, all of them, and not another program's."""
        paths = config_values(config, "HostKey")
        keys = self.host_public_keys(config)
        if not paths or len(keys) < len(paths):
            return False
        keyscan = find_openssh_program("ssh-keyscan")
        addresses, ports = config_values(config, "ListenAddress"), config_values(config, "Port")
        if len(addresses) != 1 or len(ports) != 1:
            return False
        kinds = ",".join(kind for kind in HOST_KEY_TYPES if host_key_path(self.run_dir, kind) in paths)
        result = run([keyscan, "-T", "5", "-t", kinds, "-p", ports[0], addresses[0]])
        return presented_keys(result.stdout) >= set(keys)

    def _listen(self, settings: SshdSettings, version: tuple[int, int], port: int, timeout: float) -> Instance:
        for _attempt in range(5):
            port = port or free_ports(settings.address)[0]
            config = render_config(settings, self.run_dir, port, version)
            write_text(self._config_path, config)
            pid = self._launch(settings, config, port, timeout)
            if pid is not None:
                return Instance(config, pid)
            if settings.port:
                raise port_taken(settings, self.run_dir)
            port = 0
        raise NodeError(f"five ports of {settings.address} in a row were taken by other programs before sshd had them")

    def _launch(self, settings: SshdSettings, config: str, port: int, timeout: float) -> int | None:
        """Start sshd and wait until it answers; its pid, or None where the port is another program's."""
        seen = len(read_text(self._log_path) or "")
        environment = self.account.added_to({"PATH": os.environ.get("PATH", os.defpath)})
        process = start_detached([self.program, "-D", "-f", self._config_path, "-E", self._log_path], environment)
        deadline = time.monotonic() + timeout
        while process.poll() is None and time.monotonic() < deadline:
            if _accepts(settings.address, port) and self._answers(config) and process.poll() is None:
                return process.pid
            time.sleep(0.02)
        log = (read_text(self._log_path) or "")[seen:]
        if process.poll() is None:
            refusing = refusing_line(read_text("/etc/hosts.allow") or "", read_text("/etc/hosts.deny") or "")
            # Before it refuses, libwrap looks for the name of who connects, in the DNS.
            closes = _closes(settings.address, port, 30.0 if refusing else 2.0)
            process.kill()
            process.wait()
            if closes and refusing:
                # libwrap's words go to the system's log.
                raise known_cause(
                    "sshd-tcp-wrappers", "\n".join(log.splitlines()[-10:]), path=refusing[0], line=refusing[1]
                )
            does = {"does": "closes each connection"} if closes else {}
            raise cause_in(log, "sshd-silent", address=settings.address, port=port, seconds=f"{timeout:g}", **does)
        if port_was_taken(log):
            return None
        raise cause_in(log, "sshd-ended", status=process.returncode)


def _accepts(address: str, port: int) -> bool:
    with contextlib.suppress(OSError):
        with socket.create_connection((address, port), timeout=1):
            return True
    return False


def _closes(address: str, port: int, timeout: float) -> bool:
    """Whether what listens there closes a connection without a word, in so many seconds."""
    attempt = connect(address, port, 2.0)
    if attempt.connection is None:
        return False
    with attempt.connection as connection:
        connection.settimeout(timeout)
        return read_banner(connection)[0] == "closed"


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no reason given"])[-1]
