# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Problems as text: the block at the end of a play, and the page of a diagnosis."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._text import clean, listing, markdown_plain

#: Hosts that a text names; it counts the rest.
_NAMED_HOSTS = 8

Entry = t.Mapping[str, t.Any]


def _grouped(problems: t.Iterable[Entry], severity: str) -> list[list[Entry]]:
    """The problems of a severity, grouped by id and cure."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in problems:
        if entry["severity"] == severity:
            groups.setdefault((entry["id"], entry["cure"]), []).append(entry)
    return list(groups.values())


def _hosts_of(group: t.Sequence[Entry]) -> str:
    names = list(dict.fromkeys(_line(str(entry["host"] or "the run")) for entry in group))
    return listing(names, _NAMED_HOSTS)


def _cause_of(group: t.Sequence[Entry]) -> str:
    causes = list(dict.fromkeys(_line(entry["cause"]).rstrip(".") for entry in group))
    if len({entry["host"] for entry in group}) == 1:
        return ". ".join(causes) + "."
    return causes[0] + (f" (and the like on {len(causes) - 1} more)" if len(causes) > 1 else "") + "."


def _sentence(text: str) -> str:
    text = _line(text)
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _line(text: str) -> str:
    # A machine may have printed it: what follows a line break would look like a line of Ansible's own.
    return " ".join(text.split())


def _cells(host: Entry) -> list[str]:
    return [str(host["name"]), host["address"] or "", host["stage"] or "none", ", ".join(host["problems"])]


def problems_text(problems: t.Sequence[Entry], logs: t.Sequence[str] = ()) -> str:
    """Hosts, causes and cures, then the evidence, then the paths of logs."""
    lines = []
    for severity, title in (("error", "WHAT IS WRONG"), ("warning", "WHAT MAY BE WRONG")):
        groups = _grouped(problems, severity)
        if groups:
            lines += [title]
        for group in groups:
            lines += [f"  {_hosts_of(group)}: {_cause_of(group)}", f"    To do: {_sentence(group[0]['cure'])}"]
    evidence = [entry for entry in problems if entry["evidence"].strip()]
    if evidence:
        lines.append("EVIDENCE")
    for entry in evidence:
        first, *rest = entry["evidence"].strip().splitlines()
        lines.append(f"  {_line(entry['host'] or 'the run')}, {entry['id']}: {first}")
        lines += [f"    {line}" for line in rest]
    if not problems:
        lines.append("No problem was found.")
    if logs:
        lines += ["LOGS", *(f"  {log}" for log in logs)]
    return clean("\n".join(lines))


def problems_markdown(problems: t.Sequence[Entry], hosts: t.Sequence[Entry] = ()) -> str:
    """The same as Markdown. ``hosts``: as ``mpi_preflight`` returns them, for a table."""
    lines = ["# Diagnosis", ""]
    if not problems:
        lines += ["No problem was found.", ""]
    for severity, title in (("error", "What is wrong"), ("warning", "What may be wrong")):
        groups = _grouped(problems, severity)
        if groups:
            lines += [f"## {title}", ""]
        for group in groups:
            heading = markdown_plain(f"{_hosts_of(group)}: {_cause_of(group)}")
            lines += [f"### {heading}", "", f"To do: {markdown_plain(_sentence(group[0]['cure']))}", ""]
            lines += [f"Problem `{group[0]['id']}`.", ""]
            evidence = [f"{entry['host']}: {entry['evidence']}" for entry in group if entry["evidence"]]
            if evidence:
                lines += [f"    {line}" for text in evidence for line in clean(text).strip().splitlines()]
                lines.append("")
    if hosts:
        lines += ["## Hosts", "", "| host | address | first stage that fails | problems |", "| --- | --- | --- | --- |"]
        lines += [f"| {' | '.join(map(markdown_plain, _cells(host)))} |" for host in hosts]
        lines.append("")
    return "\n".join(lines)
