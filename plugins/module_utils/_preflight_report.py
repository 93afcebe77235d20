# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What a person and a program read of problems: the block at the end of a play, and the files of a diagnosis."""

from __future__ import annotations

import getpass
import re
import shlex
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis import problem

#: More are counted.
_NAMED_HOSTS = 8

Entry = t.Mapping[str, t.Any]

#: ssh itself, by the names that plays give it.
_SSH_CONNECTIONS = ("ssh", "smart", "ansible.builtin.ssh", "paramiko", "paramiko_ssh", "ansible.netcommon.libssh")


def ssh_endpoints(hosts: t.Iterable[str], variables: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """The endpoints that ``ssh_probe`` takes, of hosts of the inventory.

    ``variables``: by host, as ``hostvars`` holds them. Hosts that are reached in another way, or over a jump host, are
    left out.
    """
    endpoints = []
    for name in hosts:
        own = variables[name]
        arguments = " ".join(str(own.get(f"ansible_ssh_{kind}_args") or "") for kind in ("common", "extra"))
        options = _ssh_options(arguments)
        direct = not {"proxyjump", "proxycommand"} & set(options)
        if (own.get("ansible_connection") or "ssh") not in _SSH_CONNECTIONS or not direct:
            continue
        endpoint: dict[str, t.Any] = {
            "name": name,
            "address": str(_first(own, "ansible_ssh_host", "ansible_host") or name),
            "port": int(_first(own, "ansible_ssh_port", "ansible_port") or 22),
            "user": str(_first(own, "ansible_ssh_user", "ansible_user") or getpass.getuser()),
            "key_file": _first(own, "ansible_ssh_private_key_file", "ansible_private_key_file"),
        }
        if options.get("stricthostkeychecking") in ("no", "off", "accept-new"):
            endpoint["known_hosts"] = []
        elif "userknownhostsfile" in options:
            endpoint["known_hosts"] = options["userknownhostsfile"].split()
        endpoints.append(endpoint)
    return endpoints


def _first(variables: t.Mapping[str, t.Any], *names: str) -> t.Any:
    return next((variables.get(name) for name in names if variables.get(name)), None)


def _ssh_options(arguments: str) -> dict[str, str]:
    """By keyword in lower case, what ssh's arguments set with ``-o`` and ``-J``."""
    options: dict[str, str] = {}
    words = iter(shlex.split(arguments))
    for word in words:
        if word.startswith("-o"):
            setting = word[2:] or next(words, "")
            keyword, _separator, value = re.sub(r"\s*=\s*|\s+", "=", setting.strip(), count=1).partition("=")
            options.setdefault(keyword.lower(), value)
        elif word.startswith("-J"):
            options["proxyjump"] = word[2:] or next(words, "")
    return options


def preflight_hosts(
    peers: t.Iterable[Entry], variables: t.Mapping[str, t.Mapping[str, t.Any]]
) -> list[dict[str, t.Any]]:
    """The hosts that ``mpi_preflight`` takes, of the peers of a run; ``variables`` as ``hostvars`` holds them."""
    hosts = []
    for peer in peers:
        python = variables[peer["name"]].get("ansible_python_interpreter")
        host = {"name": peer["name"], "address": peer["address"], "run_dir": peer["run_dir"]}
        # It may also be the way to find one, such as auto.
        hosts.append({**host, "python": python} if str(python).startswith("/") else host)
    return hosts


def step_problems(results: t.Mapping[str, Entry], step: str, known: t.Sequence[Entry] = ()) -> list[Entry]:
    """A problem for each host whose result of a task says that it failed, or that the host cannot be reached.

    ``known``: problems that may say why it cannot.
    """
    found: list[Entry] = []
    for host, result in results.items():
        text = str(result.get("msg", "")).strip()
        if result.get("unreachable"):
            reasons = [entry for entry in known if entry["host"] == host]
            found += reasons or [problem("host-unreachable", host, text).as_dict()]
        elif result.get("failed"):
            found.append(problem("step-failed", host, "", step=step, text=text).as_dict())
    return found


def diagnosed_hosts(
    names: t.Iterable[str], hosts: t.Iterable[Entry], problems: t.Sequence[Entry]
) -> list[dict[str, t.Any]]:
    """All hosts in the form of ``mpi_preflight``, also those that it could not be run on, with all of their problems."""
    looked_at = {host["name"]: host for host in hosts}
    rows = []
    for name in names:
        own = [entry for entry in problems if entry["host"] == name]
        row = looked_at.get(name, {"name": name, "address": None, "stage": "reach", "facts": None})
        ids = list(dict.fromkeys(entry["id"] for entry in own))
        rows.append({**row, "ok": all(entry["severity"] != "error" for entry in own), "problems": ids})
    return rows


def _grouped(problems: t.Iterable[Entry], severity: str) -> list[list[Entry]]:
    """Problems of a severity, those of the same kind and with the same cure together."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in problems:
        if entry["severity"] == severity:
            groups.setdefault((entry["id"], entry["cure"]), []).append(entry)
    return list(groups.values())


def _hosts_of(group: t.Sequence[Entry]) -> str:
    names = list(dict.fromkeys(str(entry["host"] or "the run") for entry in group))
    named = ", ".join(names[:_NAMED_HOSTS])
    return named if len(names) <= _NAMED_HOSTS else f"{named} and {len(names) - _NAMED_HOSTS} more"


def _cause_of(group: t.Sequence[Entry]) -> str:
    causes = list(dict.fromkeys(entry["cause"].rstrip(".") for entry in group))
    return causes[0] + (f" (and the like on {len(causes) - 1} more)" if len(causes) > 1 else "") + "."


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def problems_text(problems: t.Sequence[Entry], logs: t.Sequence[str] = ()) -> str:
    """Which host, what is wrong, what to do; then the evidence; then where to read on."""
    lines = []
    for severity, title in (("error", "WHAT IS WRONG"), ("warning", "WHAT MAY BE WRONG")):
        groups = _grouped(problems, severity)
        if groups:
            lines += [title]
        for group in groups:
            lines += [f"  {_hosts_of(group)}: {_cause_of(group)}", f"    To do: {_sentence(group[0]['cure'])}"]
    evidence = [entry for entry in problems if entry["evidence"]]
    if evidence:
        lines.append("EVIDENCE")
    for entry in evidence:
        first, *rest = entry["evidence"].strip().splitlines()
        lines.append(f"  {entry['host'] or 'the run'}, {entry['id']}: {first}")
        lines += [f"    {line}" for line in rest]
    if not problems:
        lines.append("No problem was found.")
    if logs:
        lines += ["LOGS", *(f"  {log}" for log in logs)]
    return "\n".join(lines)


def problems_markdown(problems: t.Sequence[Entry], hosts: t.Sequence[Entry] = ()) -> str:
    """The same as a document. ``hosts``: as ``mpi_preflight`` returns them, for a table."""
    lines = ["# Diagnosis", ""]
    if not problems:
        lines += ["No problem was found.", ""]
    for severity, title in (("error", "What is wrong"), ("warning", "What may be wrong")):
        groups = _grouped(problems, severity)
        if groups:
            lines += [f"## {title}", ""]
        for group in groups:
            lines += [f"### {_hosts_of(group)}: {_cause_of(group)}", "", f"To do: {_sentence(group[0]['cure'])}", ""]
            lines += [f"Problem `{group[0]['id']}`.", ""]
            evidence = [f"{entry['host']}: {entry['evidence']}" for entry in group if entry["evidence"]]
            if evidence:
                lines += [f"    {line}" for text in evidence for line in text.strip().splitlines()]
                lines.append("")
    if hosts:
        lines += ["## Hosts", "", "| host | address | first stage that fails | problems |", "| --- | --- | --- | --- |"]
        lines += [
            f"| {host['name']} | {host['address'] or ''} | {host['stage'] or 'none'} | {', '.join(host['problems'])} |"
            for host in hosts
        ]
        lines.append("")
    return "\n".join(lines)
