# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Between the steps of the role preflight: whom to look at, and what was found by each step."""

from __future__ import annotations

import os
import re
import shlex
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import entries_from, news
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._options import read_value
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.answers import checked_hosts
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.account import user_name

Entry = t.Mapping[str, t.Any]

#: What a client is told where sshd has the reason in its log.
_REFUSALS = ("ssh-auth-refused", "ssh-closed", "ssh-session")
#: What sshd says if the launcher gives up before there is a user.
_LEFT = re.compile(r"Connection (?:closed|reset) by [0-9a-f.:]+ port \d+ \[preauth\]\s*$")

#: What the command line, the environment or ansible.cfg may say of logins.
SETTINGS = ("remote_user", "private_key_file", "ssh_args", "ssh_common_args", "ssh_extra_args", "ssh_executable")
#: ssh itself, by the names that plays give it; the others do not read its configuration.
_SSH_ITSELF = ("ssh", "smart", "ansible.builtin.ssh")
_SSH_CONNECTIONS = (*_SSH_ITSELF, "paramiko", "paramiko_ssh", "ansible.netcommon.libssh")

_DEFAULT_KEY = re.compile(r"~/\.ssh/id_(?:dsa|(?:ecdsa|ed25519)(?:_sk)?|rsa|xmss)\Z")

#: Runs many programs; what each has printed, and nothing of one that failed.
Ask = t.Callable[[t.Sequence[t.Sequence[str]]], t.Sequence[str]]


def ssh_endpoints(
    hosts: t.Iterable[str],
    variables: t.Mapping[str, t.Mapping[str, t.Any]],
    settings: t.Mapping[str, t.Any] | None = None,
    ask: Ask = lambda programs: [""] * len(programs),
) -> list[dict[str, t.Any]]:
    """The endpoints that ``ssh_probe`` takes, of hosts of the inventory.

    ``variables``: by host, as ``hostvars`` holds them. ``settings``: SETTINGS of Ansible, for hosts without variables for them. ``ask``:
    for what ssh's own configuration says of hosts beyond that. Hosts that are reached in another way, or over a jump host, are left out.
    Raises OptionError.
    """
    logins = []
    for name in hosts:
        login = _login(name, variables[name], settings or {})
        if login is not None:
            logins.append(login)
    asked = [login for login in logins if login.program]
    said = dict(zip((login.name for login in asked), ask([login.program for login in asked])))
    found = [_endpoint(login, parse_ssh_settings(said.get(login.name, ""))) for login in logins]
    return [endpoint for endpoint in found if endpoint is not None]


class _Login(t.NamedTuple):
    """How Ansible logs in to a host. ``program``: what shows the rest; empty if nothing does. ``own``: of the endpoint, what is set.

    ``options``: of ssh's arguments. ``checks``: whether its host key is to be known, as far as Ansible says.
    """

    name: str
    program: list[str]
    own: dict[str, t.Any]
    options: dict[str, str]
    checks: bool


def _login(name: str, own: t.Mapping[str, t.Any], settings: t.Mapping[str, t.Any]) -> _Login | None:
    connection = own.get("ansible_connection") or "ssh"
    if connection not in _SSH_CONNECTIONS:
        return None
    kinds = ("ssh_args", "ssh_common_args", "ssh_extra_args")
    arguments = [str(own.get(f"ansible_{kind}", settings.get(kind)) or "") for kind in kinds]
    try:
        first, common, extra = map(shlex.split, arguments)
        options = _ssh_options(shlex.split(" ".join(arguments)))
    except ValueError:
        option = f"ansible_ssh_args, ansible_ssh_common_args and ansible_ssh_extra_args of {name}"
        raise OptionError(option, " ".join(arguments), "arguments of ssh, with quotes in pairs") from None
    port = _first(own, "ansible_ssh_port", "ansible_port")
    given: dict[str, t.Any] = {
        "address": str(_first(own, "ansible_ssh_host", "ansible_host") or name),
        "port": None if port is None else _port(name, port),
        "user": _first(own, "ansible_ssh_user", "ansible_user") or settings.get("remote_user"),
        "key_file": _first(own, "ansible_ssh_private_key_file", "ansible_private_key_file")
        or settings.get("private_key_file"),
    }
    checks = read_value(
        f"ansible_host_key_checking of {name}",
        {"type": "bool", "default": True},
        own.get("ansible_ssh_host_key_checking", own.get("ansible_host_key_checking")),
    )
    program: list[str] = []
    # Of two values ssh takes the first, so this has the order of Ansible's own command.
    if connection in _SSH_ITSELF:
        ssh = str(own.get("ansible_ssh_executable") or settings.get("ssh_executable") or "ssh")
        keywords = {"Port": given["port"], "User": given["user"]}
        set_here = [f"-o{keyword}={value}" for keyword, value in keywords.items() if value]
        program = [ssh, *first, *set_here, *common, *extra, "-G", "--", given["address"]]
    return _Login(name, program, given, options, bool(checks))


def _endpoint(login: _Login, said: t.Mapping[str, t.Sequence[str]]) -> dict[str, t.Any] | None:
    """A host's endpoint; None if it is behind another. ``said``: by ssh, of what it would do."""

    def word(keyword: str) -> str:
        return login.options.get(keyword) or said.get(keyword, [""])[0]

    if any(word(keyword).lower() not in ("", "none") for keyword in ("proxyjump", "proxycommand")):
        return None
    # ssh passes over those that do not exist. Without one, ssh_probe tries those that ssh has by default, too.
    keys = [path for path in said.get("identityfile", ()) if not _DEFAULT_KEY.match(path)]
    keys = [path for path in keys if os.path.exists(os.path.expanduser(path))]
    endpoint: dict[str, t.Any] = {
        "name": login.name,
        "address": word("hostname") or login.own["address"],
        "port": int(login.own["port"] or said.get("port", ["22"])[0]),
        "user": str(login.own["user"] or said.get("user", [""])[0] or user_name()),
        "key_file": login.own["key_file"] or next(iter(keys), None),
    }
    known, everyones = (said.get(f"{whose}knownhostsfile", [""])[0].split() for whose in ("user", "global"))
    if not login.checks or word("stricthostkeychecking").lower() in ("no", "off", "false", "accept-new"):
        endpoint["known_hosts"] = []
    elif "userknownhostsfile" in login.options:
        endpoint["known_hosts"] = login.options["userknownhostsfile"].split()
    elif "hostkeyalias" in said:
        # Under its alias the key is not looked up.
        endpoint["known_hosts"] = []
    elif known and not all(path.endswith(("/.ssh/known_hosts", "/.ssh/known_hosts2")) or "%" in path for path in known):
        endpoint["known_hosts"] = [*known, *everyones]
    return endpoint


def parse_ssh_settings(text: str) -> dict[str, list[str]]:
    """The values of each keyword, in lower case, in what ``ssh -G`` prints."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        keyword, blank, value = line.partition(" ")
        if blank:
            found.setdefault(keyword.lower(), []).append(value)
    return found


def _first(variables: t.Mapping[str, t.Any], *names: str) -> t.Any:
    return next((variables.get(name) for name in names if variables.get(name)), None)


def _port(host: str, value: t.Any) -> int:
    if not re.match(r"[0-9]{1,5}\Z", str(value)) or not 1 <= int(value) <= 65535:
        raise OptionError(f"ansible_port of {host}", value, "1 to 65535")
    return int(value)


def _ssh_options(arguments: t.Iterable[str]) -> dict[str, str]:
    """By keyword in lower case, what ssh's arguments set with ``-o`` and ``-J``."""
    options: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        if word.startswith("-o"):
            setting = word[2:] or next(words, "")
            keyword, _separator, value = re.sub(r"\s*=\s*|\s+", "=", setting.strip(), count=1).partition("=")
            options.setdefault(keyword.lower(), value)
        elif word.startswith("-J"):
            options["proxyjump"] = word[2:] or next(words, "")
    return options


#: The variables by which a host may call its networks otherwise than the others do.
INTERFACES = ("gpufabric_control_interface", "gpufabric_control_subnet", "gpufabric_data_interface")


def own_interfaces(variables: t.Mapping[str, t.Any]) -> dict[str, str]:
    """What a host's variables say of its networks, as a host of ``mpi_preflight`` has it."""
    control, subnet, data = (variables.get(name) or "" for name in INTERFACES)
    return {"control_interface": control or subnet, "data_interface": data}


def preflight_hosts(
    peers: t.Iterable[Entry], variables: t.Mapping[str, t.Mapping[str, t.Any]], usual: t.Mapping[str, t.Any] | None
) -> list[dict[str, t.Any]]:
    """The hosts that ``mpi_preflight`` takes, of the peers of a run; ``variables`` as ``hostvars`` holds them.

    ``usual``: the variables of INTERFACES by which the networks of a host are the usual ones; None if all have these, whatever their
    own variables say.
    """
    hosts = []
    for peer in peers:
        python = variables[peer["name"]].get("ansible_python_interpreter")
        host = {"name": peer["name"], "address": peer["address"], "run_dir": peer["run_dir"]}
        own = own_interfaces(variables[peer["name"]])
        if usual is not None and own != own_interfaces(usual):
            # A subnet of one address names no network.
            is_one = own["control_interface"].endswith(("/32", "/128"))
            host.update(own, control_interface="" if is_one else own["control_interface"])
        # It may also be the way to find one, such as auto.
        hosts.append({**host, "python": python} if str(python).startswith("/") else host)
    return hosts


def refusing_hosts(look: Entry) -> list[str]:
    """The hosts whose sshd refuses the launcher without a reason, from a result of ``mpi_preflight``."""
    return [entry["host"] for entry in _refusals(look)]


def _refusals(look: Entry) -> list[Entry]:
    return [entry for entry in entries_from(look.get("problems")) if entry["host"] and entry["id"] in _REFUSALS]


def explained_refusals(look: Entry, logs: t.Mapping[str, Entry], launcher: str = "the launcher") -> dict[str, t.Any]:
    """``ok``, ``hosts`` and ``problems`` of a result of ``mpi_preflight``, with the reasons that sshd has in its log in place of
    what the launcher was told, or with the last lines of the log if they show no reason. ``logs``: by host, results of
    ``sshd_log``; those that were skipped or failed say nothing. ``launcher``: its name; if its result is not one of
    ``mpi_preflight``, that is the only problem.
    """
    reasons: dict[str | None, list[Entry]] = {
        entry["host"]: _reasons_in(logs.get(entry["host"], {}), entry) for entry in _refusals(look)
    }
    problems: list[Entry] = []
    for entry in entries_from(look.get("problems")):
        log = logs.get(entry["host"] or "", {}) if entry["id"] in _REFUSALS else {}
        lines = log.get("lines")
        # The log may be removed before anybody reads this.
        evidence = "\n".join([entry["evidence"], *map(str, lines if isinstance(lines, list) else [])]).strip()
        problems += (reasons.get(entry["host"]) if log else None) or [{**entry, "evidence": evidence}]
    hosts = []
    try:
        looked_at = checked_hosts(launcher, look.get("hosts", []))
    except NodeError as error:
        return {"ok": False, "hosts": [], "problems": [problem("wrong-answer", launcher, str(error)).as_dict()]}
    of_host = _by_host(problems)
    for host in looked_at:
        own = [entry["id"] for entry in of_host.get(host["name"], ())]
        hosts.append({**host, "problems": own} if reasons.get(host["name"]) else host)
    return {"ok": bool(look.get("ok", look.get("skipped"))), "hosts": hosts, "problems": problems}


def _reasons_in(log: Entry, entry: Entry) -> list[Entry]:
    """What the log of a host's sshd shows to be behind what the launcher was told; nothing if it shows no reason."""
    found: list[Entry] = [{**one, "host": entry["host"]} for one in entries_from(log.get("problems"))]
    lines = log.get("lines")
    said = [str(line) for line in lines] if isinstance(lines, list) else []
    if not found and _is_stuck(entry["id"], said):
        evidence = "\n".join([entry["evidence"], *said])
        found.append(problem("ssh-login-stuck", entry["host"], evidence).as_dict())
    return found


def _is_stuck(identity: str, said: t.Sequence[str]) -> bool:
    """Whether a login got no further than its connection. ``identity``: what the launcher was told; ``said``: the lines of sshd about it."""
    if not said or not said[0].startswith("Connection from "):
        return False
    if identity == "ssh-session":
        # Of a login that works, sshd says more.
        return all(_LEFT.match(line) for line in said[1:])
    return identity == "ssh-closed" and any("Timeout before authentication" in line for line in said)


def _by_host(problems: t.Iterable[Entry]) -> dict[str | None, list[Entry]]:
    found: dict[str | None, list[Entry]] = {}
    for entry in problems:
        found.setdefault(entry["host"], []).append(entry)
    return found


def lost_problems(lost: t.Mapping[str, t.Sequence[Entry]], reasons: t.Sequence[Entry] = ()) -> list[Entry]:
    """The problems of lost hosts, each once.

    ``lost``: the problems by host. ``reasons``: problems of hosts that may say why Ansible cannot reach them.
    """
    found: list[Entry] = []
    of_host = _by_host(reasons)
    for host, problems in lost.items():
        why = of_host.get(host)
        for one in problems:
            shown = why if why and one["id"] == "host-unreachable" else [one]
            found += shown
    return news(found)


def diagnosed_hosts(
    names: t.Iterable[str], hosts: t.Iterable[Entry], problems: t.Sequence[Entry]
) -> list[dict[str, t.Any]]:
    """All hosts in the form of ``mpi_preflight``, also those that it could not be run on, with all of their problems."""
    looked_at = {host["name"]: host for host in hosts}
    of_host = _by_host(problems)
    rows = []
    for name in names:
        own = of_host.get(name, [])
        row = looked_at.get(name, {"name": name, "address": None, "stage": "reach", "facts": None})
        ids = list(dict.fromkeys(entry["id"] for entry in own))
        rows.append({**row, "ok": all(entry["severity"] != "error" for entry in own), "problems": ids})
    return rows
