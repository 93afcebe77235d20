# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The files that let every node of a run reach every other by ssh, with pinned host keys, and nobody else."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import re
import socket
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import (
    ADDRESS,
    HOST_NAME,
    NUMBER,
    RUN_DIRECTORY,
    Kind,
    check_answer,
    refuse,
    text,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.node_catalogue import NODE_CATALOGUE
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import (
    Problem,
    ProblemDict,
    ProblemError,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import (
    locked_file,
    open_file,
    read_exact,
    read_text,
    remove,
    remove_empty_directories,
    write_text,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import parse_address, parse_source
from ansible_collections.gpufabric.nccl.plugins.module_utils._options import check_ranges
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.account import USER_NAME, USER_NAME_ALLOWED, Account
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.policy import RANGES, SSH_POLICY
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import listing

SYSTEM_SSH_CONFIG = "/etc/ssh/ssh_config"

_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_*?][A-Za-z0-9_*?]*\Z")
_PUBLIC_KEY = re.compile(r"(ssh|ecdsa|sk)-[A-Za-z0-9@.-]{1,64} [A-Za-z0-9+/]{1,8192}={0,3}\Z")
#: Every worker gets those of all others.
_MOST_HOST_KEYS = 8

_USER = text(USER_NAME, USER_NAME_ALLOWED)

#: What one node must know of another, of what sshd_instance returns.
_PEER = {
    "address": ADDRESS,
    "port": Kind(lambda value: NUMBER.is_allowed(value) and value <= 65535, "0 to 65535"),
    "user": _USER,
    "host_public_keys": [text(_PUBLIC_KEY.pattern, "a public key as 'TYPE BASE64'")],
    "client_public_key": text(f"(?:{_PUBLIC_KEY.pattern})?", "a public key as 'TYPE BASE64'"),
    "run_dir": RUN_DIRECTORY,
    "hostname": HOST_NAME,
}


class PeerDict(t.TypedDict):
    """A worker of the fact ``gpufabric_peers``: its name in the inventory, and what sshd_instance returned there."""

    name: str
    address: str
    port: int
    user: str
    host_public_keys: list[str]
    client_public_key: str
    run_dir: str
    hostname: str


def check_environment_names(option: str, names: t.Iterable[str]) -> None:
    """Raise OptionError unless all are names of variables, or patterns with ``*`` and ``?``."""
    for name in names:
        if not _ENVIRONMENT_NAME.match(name):
            raise OptionError(option, name, "names of environment variables, with * and ? as wildcards")


@dataclasses.dataclass(frozen=True)
class Peer:
    """A node as the others see it. ``sources``: the addresses that it may come from.

    ``port`` and ``user`` None: as this node's own configuration of ssh says, and as who runs ssh.
    """

    address: str
    port: int | None
    user: str | None
    host_public_keys: tuple[str, ...]
    client_public_key: str
    sources: tuple[str, ...]


def parse_bare_peers(values: t.Sequence[t.Mapping[str, t.Any]]) -> list[Peer]:
    """Peers whose sshd is not the run's: each has an ``address``, and may have ``port`` and ``user``. Raises OptionError."""
    if not values:
        raise OptionError("peers", list(values), "at least one peer, with its address")
    peers = []
    for index, value in enumerate(values):
        option = f"peers[{index}]"
        address = parse_address(f"{option}.address", str(value.get("address")))
        port = None if value.get("port") is None else _parse_port(option, value["port"], 1)
        user = None if value.get("user") is None else _parse_user(option, value["user"])
        peers.append(Peer(address, port, user, (), "", (address,)))
    _check_unique(peers)
    return peers


def parse_peers(values: t.Sequence[t.Mapping[str, t.Any]], complete: bool = True) -> list[Peer]:
    """Peers from the option of the module, as ``sshd_instance`` returns them.

    ``complete`` False: ports and keys may be missing still, as they are while checking on nodes that have none.
    Keys beyond those of a Peer are ignored. Raises OptionError.
    """
    if not values:
        raise OptionError("peers", list(values), "at least one peer, as sshd_instance returns it")
    peers = [_parse_peer(f"peers[{index}]", value, complete) for index, value in enumerate(values)]
    _check_unique(peers)
    return peers


def _check_unique(peers: t.Sequence[Peer]) -> None:
    seen: dict[str, int] = {}
    for index, peer in enumerate(peers):
        first = seen.setdefault(peer.address, index)
        if first != index:
            raise OptionError(f"peers[{index}].address", peer.address, f"each address once; peers[{first}] has it too")


def _parse_port(option: str, value: t.Any, least: int) -> int:
    port = int(value) if re.match(r"[0-9]{1,5}\Z", str(value)) else -1
    if not least <= port <= 65535:
        raise OptionError(f"{option}.port", value, "1 to 65535")
    return port


def _parse_user(option: str, value: t.Any) -> str:
    if not _USER.is_allowed(str(value)):
        raise OptionError(f"{option}.user", value, _USER.allowed)
    return str(value)


def _parse_peer(option: str, value: t.Mapping[str, t.Any], complete: bool) -> Peer:
    for name in ("address", "port", "user", "host_public_keys", "client_public_key"):
        if name not in value:
            raise OptionError(option, sorted(value), f"a peer as sshd_instance returns it; {name} is missing")
    address = parse_address(f"{option}.address", str(value["address"]))
    port = _parse_port(option, value["port"], 1 if complete else 0)
    user = _parse_user(option, value["user"])
    host_keys = value["host_public_keys"]
    if not isinstance(host_keys, list) or (complete and not host_keys):
        raise OptionError(f"{option}.host_public_keys", host_keys, "a list of at least one public key")
    keys = [("host_public_keys", key) for key in host_keys] + [("client_public_key", value["client_public_key"])]
    for name, key in keys:
        if not _PUBLIC_KEY.match(str(key)) and (complete or key):
            raise OptionError(f"{option}.{name}", key, "a public key as 'TYPE BASE64'")
    sources = value.get("sources") or [address]
    if not isinstance(sources, list):
        raise OptionError(f"{option}.sources", sources, "a list of addresses and subnets, such as 10.0.0.0/24")
    checked_sources = tuple(parse_source(f"{option}.sources", source) for source in sources)
    return Peer(address, port, user, tuple(host_keys), value["client_public_key"], checked_sources)


def named_peers(results: t.Sequence[t.Mapping[str, t.Any]], names: t.Sequence[str]) -> list[PeerDict]:
    """The peers of a run from what sshd_instance returned on each, with their names in the inventory.

    Nothing else of what the workers return becomes a fact, so all of it is checked here. In check mode ports and keys may be
    missing. Raises GpufabricError if there are no peers, or if one has no result or returned something else, and ProblemError
    if two are one machine.
    """
    if not names:
        raise OptionError("gpufabric_hosts", list(names), "at least one host of the play")
    peers = [_named_peer(name, result) for name, result in zip(names, results)]
    twice = names_twice({peer["name"]: {"address": peer["address"]} for peer in peers})
    if twice:
        raise ProblemError(*twice.values())
    return peers


def _named_peer(name: str, result: t.Mapping[str, t.Any]) -> PeerDict:
    if "address" not in result:
        raise OptionError("gpufabric_hosts", name, "hosts of the play that have a private sshd; this one has none")
    peer = check_answer(name, "sshd_instance", result, _PEER)
    keys = peer["host_public_keys"]
    if len(keys) > _MOST_HOST_KEYS:
        raise refuse(name, "sshd_instance.host_public_keys", keys, f"at most {_MOST_HOST_KEYS} public keys")
    return t.cast(PeerDict, {"name": name, **peer})


def problems_twice(places: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, list[ProblemDict]]:
    """The same as entries of ``problems``, by name."""
    return {name: [problem.as_dict()] for name, problem in names_twice(places).items()}


def names_twice(places: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, Problem]:
    """A problem for each host that has the ``address``, and the ``port`` if any, of one before it, by name.

    Hosts without an address are left out.
    """
    names: dict[tuple[str, t.Any], list[str]] = {}
    for name, place in places.items():
        if "address" in place:
            names.setdefault((place["address"], place.get("port")), []).append(name)
    return {
        name: NODE_CATALOGUE.problem("host-twice", name, f"address {address}", hosts=listing(same))
        for (address, _port), same in names.items()
        for name in same[1:]
    }


def render_known_hosts(peers: t.Iterable[Peer]) -> str:
    """The text of known_hosts. A port of 22 stands without brackets there (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT)."""
    return "".join(
        f"{peer.address if peer.port == 22 else f'[{peer.address}]:{peer.port}'} {key}\n"
        for peer in peers
        for key in peer.host_public_keys
    )


def expiry_date(lifetime: int, today: datetime.date, current: datetime.date | None = None) -> datetime.date | None:
    """The day at whose beginning keys expire that are to hold for some days; None if they hold for ever. Raises OptionError.

    ``current``: the day that is set. It stays while half of the lifetime is left, so that calls on two days change nothing.
    """
    check_ranges(RANGES, {"key_lifetime": lifetime})
    if not lifetime:
        return None
    least, most = (today + datetime.timedelta(days=days + 1) for days in (lifetime // 2, lifetime))
    return current if current is not None and least <= current <= most else most


def render_authorized_keys(peers: t.Iterable[Peer], expires: datetime.date | None = None) -> str:
    """The text of authorized_keys: each peer's key, from that peer's addresses only, for commands only.

    ``expires``: a day of this node's own clock and time zone, as its sshd reads it; UTC is known since OpenSSH 9.1 only.
    """
    expiry = "" if expires is None else f',expiry-time="{expires:%Y%m%d}"'
    return "".join(
        f'restrict{expiry},from="{",".join(peer.sources)}" {peer.client_public_key}\n'
        for peer in peers
        if peer.client_public_key
    )


def expiry_in(authorized_keys: str) -> datetime.date | None:
    """The day at whose beginning the last key of an authorized_keys expires; None if one holds for ever, or there is none."""
    days = re.findall(r'^restrict(?:,expiry-time="(\d{8})")?', authorized_keys, re.MULTILINE)
    if not days or "" in days:
        return None
    # Whoever may write the file may write a day that is none.
    with contextlib.suppress(ValueError):
        return datetime.datetime.strptime(max(days), "%Y%m%d").date()
    return None


def expired_since(authorized_keys: str, today: datetime.date) -> datetime.date | None:
    """The day at whose beginning the keys of an authorized_keys expired; None if one holds still."""
    last = expiry_in(authorized_keys)
    return last if last is not None and last <= today else None


def render_ssh_config(
    peers: t.Iterable[Peer],
    run_dir: RunDir,
    send_env: t.Sequence[str],
    strict_host_keys: bool,
    connect_timeout: int,
    identity: str | None = None,
) -> str:
    """The text of ssh_config: one block a peer and none for anything else, so that it can be included from another.

    ``identity``: path of the private key, by default the run's own.
    """
    common = [
        f"IdentityFile {identity or run_dir.client_key}",
        f"UserKnownHostsFile {run_dir.known_hosts if strict_host_keys else '/dev/null'}",
        f"StrictHostKeyChecking {'yes' if strict_host_keys else 'no'}",
        f"ConnectTimeout {connect_timeout}",
        *SSH_POLICY,
    ]
    if send_env:
        common.append(f"SendEnv {' '.join(send_env)}")
    return "".join(
        f"Host {peer.address}\n{_indented([*_own_lines(peer), *common, *_inherited(peer)])}\n" for peer in peers
    )


def _own_lines(peer: Peer) -> list[str]:
    port = [] if peer.port is None else [f"Port {peer.port}"]
    user = [] if peer.user is None else [f"User {peer.user}"]
    return [f"HostName {peer.address}", *port, *user]


def _inherited(peer: Peer) -> list[str]:
    # Of two values ssh takes the first, so this adds what is not said above, such as the port.
    return [f"Include {SYSTEM_SSH_CONFIG}"] if peer.port is None else []


def _indented(lines: t.Iterable[str]) -> str:
    return "".join(f"    {line}\n" for line in lines)


def agent(ssh: str, run_dir: RunDir) -> list[str]:
    """The argv that mpirun is to start remote shells with."""
    return [ssh, "-F", run_dir.ssh_config]


def with_include(config: str, run_dir: RunDir, node: str) -> str:
    """The text of a user's ssh_config that includes the run's, in a marked block.

    The block comes first: an Include below a Host line would belong to that host (ssh_config(5)). ``node``: the name of this machine.
    Machines may share a home, so the block names those that need it.
    """
    return _with_block(config, run_dir, node, is_needed=True)


def without_include(config: str, run_dir: RunDir, node: str) -> str:
    """The text of a user's ssh_config without the run's block, or with the block of the other machines that need it."""
    return _with_block(config, run_dir, node, is_needed=False)


def _with_block(config: str, run_dir: RunDir, node: str, *, is_needed: bool) -> str:
    needed, others = _split_include(config, run_dir)
    # To need another directory's file is to no longer need this one's. A run of this name in another directory may go on.
    for path, nodes in needed.items():
        if is_needed or path == run_dir.ssh_config:
            nodes.discard(node)
    if is_needed:
        needed.setdefault(run_dir.ssh_config, set()).add(node)
    return _block(needed, run_dir) + others


def _block(needed: t.Mapping[str, t.AbstractSet[str]], run_dir: RunDir) -> str:
    lines = []
    for path in sorted(path for path, nodes in needed.items() if nodes):
        lines += [f"Include {path}", *(f"# on {node}" for node in sorted(needed[path]))]
    begin, end = _markers(run_dir)
    return "".join(f"{line}\n" for line in (begin, *lines, end)) if lines else ""


def _split_include(config: str, run_dir: RunDir) -> tuple[dict[str, set[str]], str]:
    """The nodes that need each file that the run's block includes, and the text without the block."""
    begin, end = map(re.escape, _markers(run_dir))
    block = re.compile(rf"^{begin}\n((?:.*\n)*?){end}\n?", flags=re.MULTILINE)
    needed: dict[str, set[str]] = {}
    path = ""
    for line in "".join(block.findall(config)).splitlines():
        word, _blank, rest = line.partition(" ")
        if word == "Include":
            path = rest
        elif line.startswith("# on ") and path:
            needed.setdefault(path, set()).add(line[len("# on ") :])
    return needed, block.sub("", config)


def _markers(run_dir: RunDir) -> tuple[str, str]:
    return f"# BEGIN gpufabric.nccl run {run_dir.run_id}", f"# END gpufabric.nccl run {run_dir.run_id}"


@dataclasses.dataclass(frozen=True)
class Change:
    """A file that is to hold another text; None stands for no file."""

    path: str
    before: str | None
    after: str | None
    secret: bool = False

    def as_diff(self) -> dict[str, str]:
        """In the form of a module's diff, without what is secret."""
        return {
            "before": self._shown(self.before),
            "after": self._shown(self.after),
            "before_header": self.path if self.before is not None else "(none)",
            "after_header": self.path if self.after is not None else "(none)",
        }

    def _shown(self, text: str | None) -> str:
        if self.secret and text:
            return "(a private key)\n"
        return (text or "").encode(errors="surrogateescape").decode(errors="replace")


def usable_identity(path: str, run_dir: RunDir) -> tuple[str, str | None]:
    """Path of a private key that ssh accepts, and the text of the copy to make there where it must be one.

    ssh refuses a key of the user's own that others may read (ssh(1), FILES), as keys from a Secret often are.
    Raises OptionError.
    """
    try:
        with open_file(path) as file:
            status = os.fstat(file.fileno())
            text = file.read().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError("identity_file", path, f"a private key that can be read on this node ({error})") from error
    if not re.match(r"[A-Za-z0-9._/+-]+\Z", path) or (status.st_uid == os.geteuid() and status.st_mode & 0o077):
        return run_dir.identity, text
    return path, None


#: The mode of authorized_keys. Files with the sticky bit are not removed when they are old (XDG Base Directory Specification,
#: systemd-tmpfiles): in place of a directory of /tmp that was, anybody could make one with keys of his own, while sshd listens on.
AUTHORIZED_KEYS_MODE = 0o1600


class MeshFiles:
    """The mesh's files on this node."""

    def __init__(self, run_dir: RunDir, account: Account) -> None:
        self.run_dir = run_dir
        # ssh takes the home directory from the password database, not from $HOME.
        self._user_config = os.path.realpath(os.path.join(account.home, ".ssh", "config"))
        self._marker = os.path.join(run_dir.ssh, "made_user_config")
        self._is_included = False

    def plan(self, texts: t.Mapping[str, str], user_config: bool) -> list[Change]:
        """What must change for the run's files to hold these texts, by path; one that has none is to go."""
        run_dir = self.run_dir
        paths: tuple[str, ...] = (run_dir.ssh_config, run_dir.known_hosts, run_dir.authorized_keys, run_dir.identity)
        if not texts and not run_dir.holds_run():
            paths = ()
        changes = [Change(path, read_text(path), texts.get(path), path == run_dir.identity) for path in paths]
        self._is_included = bool(texts) and user_config
        try:
            before = read_exact(self._user_config)
        except NodeError:
            # A home that nobody can get into, such as one of NFS without its ticket, keeps no run from its start or its end.
            if self._is_included:
                raise
            before = None
        changes.append(Change(self._user_config, before, self._user_text(before)))
        return [change for change in changes if change.before != change.after]

    def apply(self, changes: t.Iterable[Change]) -> None:
        """Make the changes. Raises NodeError."""
        removed = []
        for change in changes:
            if change.path == self._user_config:
                if self._change_user_config():
                    removed.append(change.path)
            elif change.after is None:
                remove(change.path)
                removed.append(change.path)
            else:
                self.run_dir.create(os.path.dirname(change.path))
                is_authorized_keys = change.path == self.run_dir.authorized_keys
                write_text(change.path, change.after, AUTHORIZED_KEYS_MODE if is_authorized_keys else 0o600)
        if removed:
            self._clean_up(self._user_config in removed)

    def _user_text(self, before: str | None) -> str | None:
        """What the user's configuration is to hold."""
        node = socket.gethostname()
        if self._is_included:
            return with_include(before or "", self.run_dir, node)
        after = None if before is None else without_include(before, self.run_dir, node)
        return None if after == "" and "file" in (read_text(self._marker) or "") else after

    def _change_user_config(self) -> bool:
        """Bring the user's configuration to what it is to hold; whether it was removed.

        Other runs change it at the same time, and so do other machines that have the same home.
        """
        if self._is_included:
            self._make_user_config()
        with locked_file(self._user_config):
            before = read_exact(self._user_config)
            after = self._user_text(before)
            if after is None:
                remove(self._user_config)
                return True
            if after != before:
                write_text(self._user_config, after, like=os.stat(self._user_config) if before is not None else None)
        return False

    def _make_user_config(self) -> None:
        directory = os.path.dirname(self._user_config)
        places = (("directory", directory), ("file", self._user_config))
        made = [name for name, path in places if not os.path.exists(path)]
        if made:
            try:
                os.makedirs(directory, mode=0o700, exist_ok=True)
            except OSError as error:
                raise NodeError(f"user_config: cannot make {directory}: {error.strerror}") from error
            write_text(self._marker, " ".join(made))
            try:
                # Not in place of one that another machine has made meanwhile.
                os.close(os.open(self._user_config, os.O_CREAT | os.O_WRONLY, 0o600))
            except OSError as error:
                raise NodeError(f"user_config: cannot make {self._user_config}: {error.strerror}") from error

    def _clean_up(self, user_config: bool) -> None:
        if user_config and "directory" in (read_text(self._marker) or ""):
            remove_empty_directories(os.path.dirname(self._user_config))
        if not self._is_included:
            remove(self._marker)
        self.run_dir.remove_if_empty(self.run_dir.ssh, self.run_dir.sshd)
