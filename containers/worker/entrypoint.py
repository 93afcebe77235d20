# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a worker container runs first: sshd where asked for, and an init that reaps, forwards signals and ends at once.

arguments
  shell                   stay until told to end; with a terminal, a shell
  COMMAND [ARGUMENT ...]  run a command; its exit status is the container's

environment (the README beside this file says more)
  START_SSHD           true: run sshd (shell only); default false
  SSHD_PORT            default 22 as root, 2222 otherwise; also the port that ssh connects to by default
  SSHD_LISTEN_ADDRESS  default: all addresses
  SSH_AUTH_DIR         directory with authorized_keys and a private key, read-only or not; default ~/.ssh
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import pwd
import re
import signal
import socket
import stat
import subprocess
import sys
import time
import typing as t

NAME = "gpufabric-worker"
SSH_CONFIG_DIR = "/etc/ssh/ssh_config.d"
PRIVILEGE_SEPARATION_DIR = "/run/sshd"
PAM_SERVICE = "/etc/pam.d/sshd"
NSS_WRAPPER = ("/usr/lib/*/libnss_wrapper.so", "/usr/lib64/libnss_wrapper.so", "/usr/lib/libnss_wrapper.so")

AUTHORIZED_KEYS = "authorized_keys"
IDENTITIES = ("id_ed25519", "id_ecdsa", "id_rsa")

#: What a client may send: as the collection's own sshd and ssh do.
ACCEPTED_ENVIRONMENT = ("LD_LIBRARY_PATH", "NCCL_*", "OMPI_MCA_*", "PRTE_MCA_*", "PMIX_MCA_*")
#: What every sshd of the collection keeps to: a copy of plugins/module_utils/_ssh/policy.py, since this program stands alone.
SSHD_POLICY = (
    "PermitRootLogin prohibit-password",
    "PubkeyAuthentication yes",
    "AuthenticationMethods publickey",
    "PasswordAuthentication no",
    "KbdInteractiveAuthentication no",
    "HostbasedAuthentication no",
    "PermitEmptyPasswords no",
    # Ownership is checked where the files are made; file systems of containers, and /tmp, would not pass sshd's own check.
    "StrictModes no",
    "DisableForwarding yes",
    "PermitUserEnvironment no",
    "PermitUserRC no",
    "PrintMotd no",
    "PrintLastLog no",
    "UseDNS no",
    "LoginGraceTime 30",
    # mpirun opens a session to each host at once.
    "MaxStartups 1024",
    "MaxSessions 1024",
    "ClientAliveInterval 30",
    "ClientAliveCountMax 4",
    # What each release of OpenSSH has, its post-quantum ones first (since 9.0), without those that older ones still allow with SHA-1.
    "KexAlgorithms -diffie-hellman-*",
    "Ciphers chacha20-poly1305@openssh.com,aes256-gcm@openssh.com,aes128-gcm@openssh.com,aes256-ctr,aes128-ctr",
    "MACs hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com,hmac-sha2-256,hmac-sha2-512",
    "LogLevel VERBOSE",
)
SSHD_POLICY_9_8 = "PerSourcePenalties no"
#: What is a session's own, or this program's.
_OWN_ENVIRONMENT = re.compile(r"(HOME|USER|LOGNAME|SHELL|MAIL|TERM|PWD|OLDPWD|SHLVL|_|START_SSHD|SSHD?_.*)\Z")

#: Without these, root's sshd starts and then drops every connection; by their bit in the kernel's sets.
CAPABILITIES = {6: "SETGID", 7: "SETUID", 18: "SYS_CHROOT"}

# What a container's processes may be sent from outside, and what tells that one has ended.
FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
)
ENDING = FORWARDED[:4]
HANDLED = (*FORWARDED, signal.SIGCHLD)
#: Seconds between SIGTERM and SIGKILL for what is left when the container ends.
PATIENCE = 0.8


class WorkerError(Exception):
    """What keeps the worker from its work, and what to do about it, in one line."""


class Settings(t.NamedTuple):
    """What the environment asks for. ``listen_address`` empty: all addresses; ``auth_dir`` empty: ~/.ssh."""

    start_sshd: bool
    port: int
    listen_address: str
    auth_dir: str


class Keys(t.NamedTuple):
    """The copies of the mounted keys, by path. ``public_key``: of the private key, as ``TYPE KEY``."""

    authorized_keys: str | None
    identity: str | None
    public_key: str


def parse_settings(environment: t.Mapping[str, str], uid: int) -> Settings:
    """What the environment asks for. Raises WorkerError."""
    start = environment.get("START_SSHD", "") or "false"
    if start.lower() not in ("true", "false"):
        raise WorkerError(f"START_SSHD={start} is not allowed; allowed: true, false")
    port = environment.get("SSHD_PORT", "") or ("22" if uid == 0 else "2222")
    if not re.match(r"[0-9]{1,5}\Z", port) or not 1 <= int(port) <= 65535:
        raise WorkerError(f"SSHD_PORT={port} is not allowed; allowed: 1 to 65535")
    address = environment.get("SSHD_LISTEN_ADDRESS", "")
    if address and not is_address(address):
        raise WorkerError(f"SSHD_LISTEN_ADDRESS={address} is not allowed; allowed: a numeric address")
    auth_dir = environment.get("SSH_AUTH_DIR", "")
    if auth_dir and not re.match(r"/[^\x00-\x1f\"]*\Z", auth_dir):
        raise WorkerError(f"SSH_AUTH_DIR={auth_dir} is not allowed; allowed: an absolute path")
    return Settings(start.lower() == "true", int(port), address, auth_dir)


def is_address(text: str) -> bool:
    """Whether a text is a numeric IPv4 or IPv6 address."""
    try:
        socket.getaddrinfo(text, 0, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return False
    return True


def session_environment(environment: t.Mapping[str, str]) -> dict[str, str]:
    """What of the container's environment ssh sessions get, since sshd starts them with none of it.

    Not what describes the services of a Kubernetes namespace: with many of them, it is more than sshd can take.
    """
    services = tuple(
        f"{name[: -len('SERVICE_HOST')]}{kind}"
        for name in environment
        if name.endswith("_SERVICE_HOST")
        for kind in ("SERVICE_", "PORT")
    )
    return {
        name: value
        for name, value in sorted(environment.items())
        if re.match(r"[A-Za-z_][A-Za-z0-9_]*\Z", name)
        and not _OWN_ENVIRONMENT.match(name)
        and not (services and name.startswith(services))
        and not re.search(r"[\x00-\x08\x0a-\x1f\x7f]", value)
    }


def quote(text: str) -> str:
    """One argument in the line of a sshd_config."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def render_sshd_config(
    settings: Settings,
    user: str,
    host_keys: t.Sequence[str],
    authorized_keys: str,
    environment: t.Mapping[str, str],
    use_pam: bool = False,
) -> str:
    """The text of sshd_config."""
    lines = [f"Port {settings.port}"]
    if settings.listen_address:
        lines.append(f"ListenAddress {settings.listen_address}")
    lines += [f"HostKey {path}" for path in host_keys]
    lines += [
        f"AuthorizedKeysFile {authorized_keys}",
        "PidFile none",
        f"AllowUsers {user}",
        f"UsePAM {'yes' if use_pam else 'no'}",
        *SSHD_POLICY,
    ]
    lines += [f"AcceptEnv {name}" for name in ACCEPTED_ENVIRONMENT]
    values = session_environment(environment)
    if values:
        # One line, since sshd takes the first one only.
        lines.append("SetEnv " + " ".join(quote(f"{name}={value}") for name, value in values.items()))
    return "\n".join(lines) + "\n"


def render_ssh_config(user: str, identity: str, known_hosts: str, port: int) -> str:
    """The text of an ssh_config by which ssh reaches the other workers of the job without any option."""
    lines = [
        f"# Written by {NAME}",
        "Host *",
        f"  User {user}",
        f"  IdentityFile {identity}",
        f"  UserKnownHostsFile ~/.ssh/known_hosts {known_hosts}",
    ]
    if port != 22:
        lines.append(f"  Port {port}")
    return "\n".join(lines) + "\n"


def render_own_ssh_config(text: str, home: str) -> str:
    """The text of a file for ``ssh -F``, which reads that alone: what the user's own says comes first, and so applies."""
    header, _newline, rest = text.partition("\n")
    return f'{header}\nInclude "{home}/.ssh/config"\n{rest}Host *\n  Include /etc/ssh/ssh_config\n'


def missing_capabilities(status: str) -> list[str]:
    """What sshd needs and this process lacks, from the text of /proc/self/status."""
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    effective = int(found.group(1), 16) if found else ~0
    return [name for bit, name in sorted(CAPABILITIES.items()) if not effective >> bit & 1]


def is_locked(shadow: str, user: str) -> bool:
    """Whether an account is locked, from the text of /etc/shadow: without PAM, sshd lets nobody in there, key or not."""
    return any(line.startswith(f"{user}:!") for line in shadow.splitlines())


def account_name(uid: int, passwd: str) -> str:
    """A name for a user id that has none; the same in all containers, since ssh logs in under the name it has here."""
    taken = {line.split(":")[0]: line.split(":")[2] for line in passwd.splitlines() if line.count(":") == 6}
    return "worker" if taken.get("worker", str(uid)) == str(uid) else f"worker{uid}"


def ended(number: int) -> str:
    """The status of a process that was waited for, in words."""
    if os.WIFSIGNALED(number):
        return f"was ended by {signal.Signals(os.WTERMSIG(number)).name}"
    return f"ended with exit status {os.WEXITSTATUS(number)}"


def exit_status(number: int) -> int:
    """The exit status that a shell would give for the status of a process that was waited for."""
    return 128 + os.WTERMSIG(number) if os.WIFSIGNALED(number) else os.WEXITSTATUS(number)


def children(parents: t.Mapping[int, int], root: int) -> set[int]:
    """All descendants of a process. ``parents``: the parent of each process."""
    found: set[int] = set()
    new = {root}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new} - found
        found |= new
    return found


def parse_parent(text: str) -> int:
    """The parent in the text of /proc/PID/stat, in which a program's name may hold blanks and parentheses."""
    return int(text.rpartition(")")[2].split()[1])


def say(text: str) -> None:
    """One line for the container's log."""
    print(f"{NAME}: {text}", file=sys.stderr, flush=True)


def reason(error: OSError) -> str:
    """Why the operating system refused."""
    return os.strerror(error.errno) if error.errno else str(error)


def read(path: str) -> str:
    """The text of a file; empty where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def write(path: str, data: bytes) -> None:
    """Write a file that only this user may read, at once and never through a link: sshd may be reading the one before."""
    temporary = f"{path}.{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    os.replace(temporary, path)


def find_program(name: str, package: str, other_than: str = "") -> str:
    """The absolute path of a program, which sshd needs to start itself again, in no directory ``other_than``. Raises WorkerError."""
    for directory in (*os.environ.get("PATH", os.defpath).split(":"), "/usr/sbin", "/usr/local/sbin", "/sbin"):
        path = os.path.join(directory, name)
        if directory != other_than and os.path.isabs(path) and os.access(path, os.X_OK):
            return path
    raise WorkerError(f"{name} is not in this image: install {package} (the Containerfile does)")


def call(argv: t.Sequence[str], complaint: str) -> str:
    """The output of a program. Raises WorkerError with what it writes where it fails, as one line."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it gives no reason"]
        raise WorkerError(f"{complaint}: {' | '.join(line.strip() for line in lines)}")
    return done.stdout.decode(errors="replace")


def make_private_directory(uid: int) -> str:
    """The directory for keys and configuration, which only this user can enter. Raises WorkerError."""
    path = f"/run/{NAME}" if uid == 0 else f"/tmp/{NAME}-{uid}"
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != uid:
            raise WorkerError(f"{path} is not a directory of the user {uid}: somebody else made it")
        os.chmod(path, 0o700)
    except OSError as error:
        raise WorkerError(
            f"cannot make {path}: {reason(error)}; mount an emptyDir at {os.path.dirname(path)}"
        ) from error
    return path


def ensure_account(uid: int, gid: int, private: str) -> tuple[str, str]:
    """The name and the home directory of this user, whom ssh and sshd must find by the id.

    If it has no entry, or one that a container engine made up and nobody can log in by, nss_wrapper shows one to this process and
    those it starts. Raises WorkerError.
    """
    with contextlib.suppress(KeyError):
        entry = pwd.getpwuid(uid)
        if uid == 0 or os.path.basename(entry.pw_shell) not in ("nologin", "false"):
            return entry.pw_name, entry.pw_dir
    passwd = read("/etc/passwd")
    user = account_name(uid, passwd)
    line = f"{user}:x:{uid}:{gid}:{NAME}:{private}:/bin/sh\n"
    libraries = [path for pattern in NSS_WRAPPER for path in glob.glob(pattern)]
    if not libraries:
        raise WorkerError(
            f"the user id {uid} has no entry in /etc/passwd, and ssh and sshd need one: install libnss-wrapper in the image"
            " (the Containerfile does)"
        )
    path = os.path.join(private, "passwd")
    write(path, f"{line}{passwd}".encode(errors="surrogateescape"))
    os.environ.update(
        LD_PRELOAD=":".join(filter(None, (os.environ.get("LD_PRELOAD"), libraries[0]))),
        NSS_WRAPPER_PASSWD=path,
        NSS_WRAPPER_GROUP="/etc/group",
    )
    return user, private


def copy_key(source: str, private: str) -> str | None:
    """A copy with the permissions that ssh and sshd insist on, which a Secret's mount has not and cannot be given.

    None where there is no such file. Raises WorkerError.
    """
    destination = os.path.join(private, os.path.basename(source))
    try:
        with open(source, "rb") as file:
            write(destination, file.read())
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise WorkerError(
            f"cannot read {source} as user {os.geteuid()}: set fsGroup in the pod's securityContext,"
            " or the Secret's defaultMode to 0444"
        ) from error
    except OSError as error:
        raise WorkerError(f"cannot copy {source} to {private}: {reason(error)}") from error
    return destination


def copy_keys(auth_dir: str, private: str) -> Keys:
    """Copies of the keys that are mounted. Raises WorkerError."""
    authorized_keys = copy_key(os.path.join(auth_dir, AUTHORIZED_KEYS), private)
    identities = (copy_key(os.path.join(auth_dir, name), private) for name in IDENTITIES)
    identity = next(filter(None, identities), None)
    public_key = ""
    if identity:
        keygen = find_program("ssh-keygen", "openssh-client")
        complaint = f"the private key {auth_dir}/{os.path.basename(identity)} cannot be used"
        public_key = " ".join(call([keygen, "-y", "-P", "", "-f", identity], complaint).split()[:2])
    return Keys(authorized_keys, identity, public_key)


def configure_ssh(identity: str, public_key: str, port: int, user: str, home: str, private: str) -> None:
    """Let ssh find the user, the key, the port and the job's own host key by itself. Raises WorkerError."""
    known_hosts, own = os.path.join(private, "known_hosts"), os.path.join(private, "ssh_config")
    # Whoever has the job's key is of the job: its sshd shows that key, and ssh believes no other one unasked.
    write(known_hosts, f"* {public_key}\n".encode())
    text = render_ssh_config(user, identity, known_hosts, port)
    write(own, text.encode())
    path = os.path.join(SSH_CONFIG_DIR, f"{NAME}.conf")
    if os.access(SSH_CONFIG_DIR, os.W_OK):
        write(path, text.encode())
        # ssh of any user reads it.
        os.chmod(path, 0o644)
        return
    # A home may be mounted, and its configuration be for all connections of the user: it is read, not written.
    write(own, render_own_ssh_config(text, home).encode())
    directory = os.path.join(private, "bin")
    os.makedirs(directory, mode=0o700, exist_ok=True)
    wrapper = os.path.join(directory, "ssh")
    write(wrapper, f'#!/bin/sh\nexec {find_program("ssh", "openssh-client", directory)} -F {own} "$@"\n'.encode())
    os.chmod(wrapper, 0o700)
    if not os.access(wrapper, os.X_OK):
        say(f"{directory} is on a file system without programs: ssh needs -F {own}")
    elif directory not in os.environ.get("PATH", "").split(":"):
        os.environ["PATH"] = f"{directory}:{os.environ.get('PATH', os.defpath)}"


def check_port(settings: Settings, uid: int) -> None:
    """Raises WorkerError where the port cannot be had."""
    address = settings.listen_address or "0.0.0.0"
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address, settings.port))
            listener.listen()
        except PermissionError:
            raise WorkerError(
                f"port {settings.port} is not permitted to the user {uid}: set SSHD_PORT to one above 1023, or runAsUser to 0"
            ) from None
        except OSError as error:
            raise WorkerError(
                f"port {settings.port} of {address} cannot be had: {reason(error)}; set SSHD_PORT to a free one"
            ) from None


def prepare_sshd(settings: Settings, keys: Keys, user: str, private: str, auth_dir: str, uid: int) -> list[str]:
    """The command of an sshd that will work. Raises WorkerError."""
    sshd = find_program("sshd", "openssh-server")
    if keys.authorized_keys is None:
        try:
            names = sorted(name for name in os.listdir(auth_dir) if not name.startswith(".."))
        except OSError as error:
            names = [reason(error)]
        raise WorkerError(
            f"no {AUTHORIZED_KEYS} in {auth_dir} ({', '.join(names) or 'it is empty'}): mount the Secret there,"
            f" with an item whose path is {AUTHORIZED_KEYS}, or set SSH_AUTH_DIR"
        )
    use_pam = False
    if uid == 0:
        missing = missing_capabilities(read("/proc/self/status"))
        if missing:
            raise WorkerError(
                f"sshd cannot serve without {' and '.join(missing)}: add it to the container's securityContext.capabilities.add"
            )
        use_pam = is_locked(read("/etc/shadow"), user)
        if use_pam and not os.path.exists(PAM_SERVICE):
            raise WorkerError(
                f"the account {user} is locked and there is no {PAM_SERVICE}, so sshd lets nobody in:"
                f" run usermod -p '*' {user} in the image"
            )
    try:
        os.makedirs(PRIVILEGE_SEPARATION_DIR, mode=0o755, exist_ok=True)
    except OSError as error:
        # Not every sshd needs it without root; one that does says so below.
        if uid == 0:
            raise WorkerError(f"cannot make {PRIVILEGE_SEPARATION_DIR}, which sshd needs: {reason(error)}") from error
    host_key = os.path.join(private, "ssh_host_ed25519_key")
    if not os.path.exists(host_key):
        keygen = find_program("ssh-keygen", "openssh-client")
        argv = [keygen, "-q", "-t", "ed25519", "-N", "", "-C", socket.gethostname(), "-f", host_key]
        call(argv, "cannot make a host key")
    host_keys = [host_key] + ([keys.identity] if keys.identity else [])
    config = os.path.join(private, "sshd_config")
    text = render_sshd_config(settings, user, host_keys, keys.authorized_keys, os.environ, use_pam)
    write(config, f"{text}{SSHD_POLICY_9_8}\n".encode(errors="surrogateescape"))
    if subprocess.run([sshd, "-t", "-f", config], stderr=subprocess.DEVNULL, check=False).returncode:
        # Older ones do not know that line.
        write(config, text.encode(errors="surrogateescape"))
    call([sshd, "-t", "-f", config], "sshd refuses its configuration")
    check_port(settings, uid)
    return [sshd, "-D", "-e", "-f", config]


def prepare(settings: Settings, uid: int) -> list[str] | None:
    """Account, keys and configuration; the command of sshd where it is wanted. Raises WorkerError."""
    private = make_private_directory(uid)
    user, home = ensure_account(uid, os.getegid(), private)
    auth_dir = settings.auth_dir or os.path.join(home, ".ssh")
    keys = copy_keys(auth_dir, private)
    if keys.identity:
        configure_ssh(keys.identity, keys.public_key, settings.port, user, home, private)
    return prepare_sshd(settings, keys, user, private, auth_dir, uid) if settings.start_sshd else None


def become_subreaper() -> None:
    """Get the orphans below this process also where it is not process 1, as with a shared process namespace."""
    import ctypes

    pr_set_child_subreaper = 36
    ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def spawn(argv: t.Sequence[str]) -> int:
    """Start a program as exec would: with no signal blocked, and none ignored that Python ignores; its pid."""
    return os.posix_spawnp(argv[0], argv, os.environ, setsigmask=(), setsigdef=(signal.SIGPIPE, signal.SIGXFSZ))


def reap() -> dict[int, int]:
    """Wait for all that have ended: their statuses by pid."""
    statuses = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return statuses
        if pid == 0:
            return statuses
        statuses[pid] = status


def descendants() -> set[int]:
    """All processes below this one."""
    texts = {int(name): read(f"/proc/{name}/stat") for name in os.listdir("/proc") if name.isdigit()}
    return children({pid: parse_parent(text) for pid, text in texts.items() if text}, os.getpid())


def send(pid: int, number: int) -> None:
    """Send a signal to a process that may be gone, or have become another user's."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def end_descendants() -> None:
    """End all below this process: those that SIGTERM does not end in time by SIGKILL."""
    deadline = time.monotonic() + PATIENCE
    reap()
    for pid in descendants():
        send(pid, signal.SIGTERM)
    while time.monotonic() < deadline + PATIENCE:
        reap()
        left = descendants()
        if not left:
            return
        if time.monotonic() > deadline:
            for pid in left:
                send(pid, signal.SIGKILL)
        signal.sigtimedwait((signal.SIGCHLD,), 0.05)


def supervise(command: t.Sequence[str] | None, sshd: t.Sequence[str] | None) -> int:
    """Run what is given until the command ends, or without one, until a signal asks for it; the exit status."""
    server = spawn(sshd) if sshd else None
    try:
        main = spawn(command) if command else None
    except OSError as error:
        say(f"cannot run {command[0] if command else ''}: {reason(error)}")
        return 127 if error.errno == errno.ENOENT else 126
    while True:
        number = signal.sigwait(HANDLED)
        if number == signal.SIGCHLD:
            statuses = reap()
            if main in statuses:
                return exit_status(statuses[main])
            if server in statuses:
                say(f"sshd {ended(statuses[server])}, so this container ends")
                return 1
        elif main is not None:
            send(main, number)
        elif number in ENDING:
            say(f"ends by {signal.Signals(number).name}")
            return 128 + number


def main(arguments: t.Sequence[str]) -> int:
    """The program; its exit status."""
    # From the start: process 1 never gets a signal that it neither blocks nor handles.
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    if not arguments or arguments[0] in ("-h", "--help"):
        print((__doc__ or "").partition("\n\n")[2], end="")
        return 0 if arguments else 2
    is_shell = arguments[0] == "shell"
    uid = os.geteuid()
    sshd = None
    try:
        settings = parse_settings(os.environ, uid)
        if not is_shell:
            settings = settings._replace(start_sshd=False)
    except WorkerError as error:
        say(str(error))
        return 1
    try:
        sshd = prepare(settings, uid)
    except WorkerError as error:
        say(str(error))
        # A command may need neither keys nor an account.
        if settings.start_sshd:
            return 1
    if os.getpid() != 1:
        become_subreaper()
    if sshd:
        say(f"starts sshd on port {settings.port}")
    command: t.Sequence[str] | None = arguments
    if is_shell:
        shells = ("/bin/bash", "/bin/sh")
        command = [next(path for path in shells if os.path.exists(path))] if os.isatty(0) else None
    try:
        return supervise(command, sshd)
    finally:
        end_descendants()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
