# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to the collection: it may change in any release.

"""A search for the bad machine: between what Ansible's tasks return and the planner, which knows of neither.

A search is a dict. ``launch``: how groups are run. ``document``: what isolation.json holds, that is what is known so far, the
``settings``, the planner's ``state``, and ``sample``, the fastest result of the largest group. ``runs``: what is to be run next, by
launcher its ``nodes``, ``hosts`` and ``points``. ``said``: a line on what came of the last round, or on how the search begins.
"""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import (
    BOOLEAN,
    FINITE,
    NUMBER,
    TEXT,
    AnswerError,
    Each,
    Maybe,
    check_answer,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.isolation_search import (
    SCHEMA,
    last_round,
    new_state,
    observe,
    plan_round,
    verdict,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.plan import (
    check_free,
    check_nodes,
    complete_results,
    plan_benchmark,
    runs_beside,
    single_size,
    uses_gpus,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.plan import (
    check_settings as check_benchmark_settings,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.causes_ssh import ENTRIES as SSH_ENTRIES
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemDict, entries_from
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.rendering import problems_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OPTION_REFUSED, GpufabricError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.checking import check_document
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import add_problems
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.shapes import ResultDocument
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.tables import (
    PAIR_NOTE,
    check_documents,
    counted,
    flatters_pairs,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import listing, one_line, shown_environment
from ansible_collections.gpufabric.nccl.plugins.module_utils._units import parse_size

Entry = t.Mapping[str, t.Any]
Results = t.Mapping[str, Entry]
_Found = t.TypeVar("_Found")

#: What is measured unless the role's variables say. On GPUs it has to show that one of eight NICs is lost: all_reduce over two hosts hides
#: a third of the network, by trees or NVLink's switches, and below 1 GiB latency hides as much (docs/isolation.md has the figures).
_DEFAULTS = {
    True: {"collective": "all_gather", "min_bytes": "1G", "tolerance_percent": 10},
    False: {"collective": "all_reduce", "min_bytes": "64M", "tolerance_percent": 15},
}
#: Of one rank the CPU program can tell nothing: no byte leaves it.
_CPU_RANKS_INSIDE = 2
#: What keeps mpirun from a host, rather than what happens there.
_UNREACHABLE = {entry.id for entry in SSH_ENTRIES} | {"daemon-missing", "daemon-not-started", "not-started"}
_LONGEST_REASON = 200
_NO_ANSWER = "it gave no answer"
_EARLIER = "isolation.json of an earlier search"
#: What is taken from it; the rest of a state follows from the settings.
_SAVED = {"stage": NUMBER, "round": NUMBER}
_TEST = {
    "round": NUMBER,
    "screen": BOOLEAN,
    "nodes": [TEXT],
    "value": Maybe(FINITE),
    "reason": Maybe(TEXT),
    "unreachable": [TEXT],
}
#: Of a number of screens.
_MOST_DIGITS = 9

#: The problem of a node that is not good, by its verdict and where it is slow.
_PROBLEMS = {
    ("bad", "inside"): "node-slow-inside",
    ("bad", "between"): "node-slow-between",
    ("bad", None): "node-slow",
    ("suspect", None): "node-suspect",
    ("unreachable", None): "node-unreachable",
}
#: Of each problem of a path: a word for the heading, and the title of its evidence.
_PATHS = {
    "path-slow": ("slow", "Slow paths between nodes that are good with others"),
    "path-failed": ("failed", "Pairs that always fail, of nodes that run with others"),
    "path-noisy": (
        "too noisy to judge",
        "Too noisy to judge: the values of the same test differ by half of what they lack, or more",
    ),
}


def check(infos: Results, settings: Entry) -> dict[str, t.Any]:
    """Whether those that answered can run the benchmark together: as check_nodes, ``answered``, and ``beside`` as runs_beside.

    Raises GpufabricError.

    ``infos``: what mpi_node_info returned, by host. ``settings``: the role's, as text or numbers.
    """
    told = {host: info.get("problems") for host, info in infos.items() if "node" in info}
    check_free(told)
    nodes = _nodes(infos)
    settings = _with_defaults(settings, nodes)
    _new_state(list(infos), settings, {})
    able = _renamed(check_nodes, nodes, _benchmark_settings(settings)) if nodes else {"node_env": {}}
    return {**able, "answered": list(nodes), "beside": runs_beside(told)}


def check_settings(settings: Entry) -> None:
    """Raise GpufabricError for a value that no search can have, whatever its nodes.

    ``settings``: the role's, None for those that are the benchmark's.
    """
    given = {**settings, "backend": settings["backend"] or "auto", "extra_args": settings["extra_args"] or []}
    check_mark(given["mark"], given["mark_key"])
    chosen = _with_defaults(given, {})
    # Which domains there are depends on the nodes.
    _new_state(["node"], {**chosen, "domains": None}, {})
    _renamed(check_benchmark_settings, _benchmark_settings(chosen))


def search(results: Entry, settings: Entry, before: str) -> dict[str, t.Any]:
    """A search, new or taken up where an earlier one was cut off. Raises GpufabricError.

    ``results``: ``info``, what mpi_node_info returned, by host; ``peers``, the nodes that are connected by ssh; ``lost``, the problems
    of the others, by host. ``before``: the text of an isolation.json, or none.
    """
    names = list(results["info"])
    settings = _with_defaults(settings, _nodes(results["info"]))
    lost = {name: reason for name in names for reason in [_lost(name, results)] if reason}
    refused = [reason for reason in lost.values() if OPTION_REFUSED in reason]
    if refused and len(lost) == len(names):
        # A setting of the search, and no node is to blame.
        raise GpufabricError(refused[0])
    ready = {name: result["node"] for name, result in results["info"].items() if name not in lost}
    launch = _launch(ready, results["peers"], settings)
    told = _told(settings, launch["backend"])
    earlier = _earlier(before)
    saved = earlier.get("state")
    is_same = earlier.get("complete") is False and earlier.get("settings") == told
    resumed = is_same and isinstance(saved, dict) and saved.get("nodes") == names
    sample = None
    if resumed:
        state, sample = _taken_up(saved, names, settings, earlier.get("sample"))
        # Those that answer now are tested.
        state = {**state, "unreachable": lost}
    else:
        state = _new_state(names, settings, lost)
    begun = _search(launch, state, told, sample)
    after = f" Taken up after round {state['round']}, where an earlier search was cut off." if resumed else ""
    said = (
        f"Backend {launch['backend']}: {launch['reason']}.{after} To run now: {_sizes(plan_round(state)) or 'nothing'},"
        f" {settings['collective']} of {_size_text(settings)}.{_pair_note(told, state)}"
    )
    return {**begun, "resumed": resumed, "said": said}


def _taken_up(
    saved: t.Any, names: t.Sequence[str], settings: Entry, sample: t.Any
) -> tuple[dict[str, t.Any], Entry | None]:
    """The state and the sample of a search that was cut off, from a file that anybody may have edited. Raises GpufabricError."""
    try:
        known = check_answer(_EARLIER, "state", saved, {**_SAVED, "unreachable": Each(TEXT, TEXT)})
        fresh = _new_state(names, settings, known["unreachable"])
        tests = saved.get("tests")
        if not isinstance(tests, list) or known["stage"] > len(fresh["stages"]):
            raise GpufabricError("its state is none of a search with these settings")
        tests = [check_answer(_EARLIER, "a test", test, _TEST) for test in tests]
        for test in tests:
            nodes = set(test["nodes"])
            sound = (
                nodes and len(nodes) == len(test["nodes"]) and nodes <= set(names) and set(test["unreachable"]) <= nodes
            )
            if not sound or test["round"] > known["round"] or (test["value"] or 0) < 0:
                raise GpufabricError(f"a test of it is none: {one_line(str(test), _LONGEST_REASON)}")
        if not set(known["unreachable"]) <= set(names):
            raise GpufabricError("a host of it is none of this search")
        if sample is not None:
            check_document(_EARLIER, sample)
            (sample,) = check_documents([sample])
    except GpufabricError as error:
        raise GpufabricError(f"{_EARLIER} cannot be continued: {error}; remove it") from error
    return {**fresh, **known, "tests": tests}, sample


def _pair_note(told: Entry, state: Entry) -> str:
    """What the numbers of two nodes do not show, if there are any."""
    hides = told["backend"] == "nccl" and state["mode"] != "nodes" and flatters_pairs(told["collective"], told["env"])
    return f" {PAIR_NOTE}" if hides else ""


def _search(launch: Entry, state: Entry, settings: Entry, sample: Entry | None) -> dict[str, t.Any]:
    groups = plan_round(state)
    runs = {}
    for group in groups:
        slots = launch["slots"]["inside" if len(group) == 1 else "between"]
        runs[group[0]] = {
            "nodes": group,
            "hosts": [{"name": name, "address": launch["addresses"][name], "slots": slots[name]} for name in group],
            # Another id in each round, so that none is taken for one of before.
            "points": [{**launch["point"], "id": f"round-{state['round'] + 1}"}],
        }
    document = {**verdict(state), "settings": settings, "state": state, "sample": sample}
    return {"launch": launch, "document": document, "runs": runs}


def observed(found: Entry, results: Results) -> dict[str, t.Any]:
    """The search after a round. ``results``: by launcher, what mpi_run returned, or the task before it that failed.

    Raises ProblemError if a launcher refuses the run, which another play has taken meanwhile: that tells nothing of its group.
    """
    check_free({launcher: _all_problems(results[launcher]) for launcher in found["runs"]})
    _check_not_refused([results[launcher] for launcher in found["runs"]])
    seen, sample = [], found["document"]["sample"]
    for launcher, run in found["runs"].items():
        entry, document = _observation(run, results[launcher], launcher, found["launch"]["inventory_names"])
        seen.append(entry)
        if document is not None and (sample is None or _worth(document) > _worth(sample)):
            sample = document
    state = observe(found["document"]["state"], seen)
    after = _search(found["launch"], state, found["document"]["settings"], sample)
    return {**found, **after, "said": _round_text(state)}


def _check_not_refused(results: t.Sequence[Entry]) -> None:
    """Raise GpufabricError where all launchers end with the same words: then it is a setting of the search, and no node is to blame.

    Of one launcher alone, only what it says of an option is such.
    """
    said = {str(result.get("msg") or "") if "points" not in result else "" for result in results}
    (words,) = said if len(said) == 1 else ("",)
    if (
        words
        and not any(result.get("unreachable") for result in results)
        and (len(results) > 1 or OPTION_REFUSED in words)
    ):
        raise GpufabricError(_one_line(words))


def _all_problems(result: Entry) -> list[ProblemDict]:
    """The problems that a task of a launcher failed with, and those of its points."""
    points = result.get("points")
    sources = [result, *(points if isinstance(points, list) else [])]
    return [
        entry for source in sources if isinstance(source, t.Mapping) for entry in entries_from(source.get("problems"))
    ]


def _round_text(state: Entry) -> str:
    groups, counted = last_round(state)
    parts = [f"{len(some)} {word} ({_shown(some)})" for word, some in counted.items() if some]
    return f"Round {state['round']}: {', '.join([_sizes(groups), *(parts or ['all fast'])])}"


def _shown(groups: t.Sequence[t.Sequence[str]]) -> str:
    shown = [", ".join(group[:4]) + (" …" if len(group) > 4 else "") for group in groups[:4]]
    return "; ".join([*shown, *(["…"] if len(groups) > 4 else [])])


def _scored_text(document: Entry) -> str:
    """Which numbers the evidence has."""
    if document["settings"]["backend"] == "cpu":
        return f"Values are bus bandwidth. alone: {_CPU_RANKS_INSIDE} ranks on the node. Groups: one rank on each node."
    return "Values are bus bandwidth. alone: all GPUs of the node; of one GPU it is the algorithm bandwidth (size by time)."


def _paths_told(document: Entry) -> list[tuple[str, list[Entry]]]:
    """The problems that paths between good nodes have, each with its paths. Of one that never ran, nobody knows whether it is slow."""
    ran = {frozenset((pair["a"], pair["b"])) for pair in document["pairs"] if pair["busbw"] is not None}
    slow = [link for link in document["links"] if frozenset(link["nodes"]) in ran]
    failed = [link for link in document["links"] if link not in slow]
    return [("path-slow", slow), ("path-failed", failed), ("path-noisy", document.get("noisy", []))]


def _ends(links: t.Sequence[Entry]) -> str:
    return _shown([link["nodes"] for link in links]).replace(", ", " - ")


def _without_others(document: Entry, adopted: bool | None) -> str:
    """How to run on the good nodes alone. The play of pods refuses a --limit that leaves out some. ``adopted``: see report."""
    if adopted is None:
        return f"Without those that are not good: --limit '{document['limit']}'"
    if adopted:
        good = [entry["node"] for entry in document["nodes"] if entry["verdict"] == "good"]
        return (
            f"Without those that are not good, in place of what chose the pods: -e worker_pods_names={','.join(good)}"
        )
    return "The next play makes other pods: isolate_mark=taint keeps them off the Kubernetes nodes of bad ones, as worker_pods_affinity can."


def _table(document: Entry, problems: t.Sequence[ProblemDict], may_fail: bool, adopted: bool | None) -> str:
    """The answer for a terminal. Arguments as of report."""
    nodes = document["nodes"]
    counts = {
        name: sum(entry["verdict"] == name for entry in nodes) for name in ("good", "bad", "suspect", "unreachable")
    }
    told = [f"{number} {name}" for name, number in counts.items() if number and name != "good"]
    told = [f"{counted(counts['good'], 'node')} good", *told]
    paths = [(links, *_PATHS[name]) for name, links in _paths_told(document) if links]
    told += [f"{counted(len(links), 'path')} {word} ({_ends(links)})" for links, word, _title in paths]
    told += [f"{counted(len(document['together']), 'group')} slow"] if document["together"] else []
    # Files of earlier releases do not have them.
    unsteady = document.get("unsteady", [])
    if unsteady:
        told.append(
            f"{counted(len(unsteady), 'test')} failed and ran when repeated ({_shown([test['nodes'] for test in unsteady])})"
        )
    heading = f"{counted(len(nodes), 'node')}, {counted(document['rounds'], 'round')}, {counted(document['tests'], 'test')}: {', '.join(told)}"
    rows = [("node", "verdict", "where", "evidence")]
    for entry in nodes:
        if entry["verdict"] != "good" or len(nodes) <= 32:
            evidence = entry["evidence"] if entry["verdict"] != "good" else entry["evidence"][:2]
            first, *more = evidence or [""]
            rows.append((entry["node"], entry["verdict"], entry["where"] or "", first))
            rows += [("", "", "", line) for line in more]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[3]]).rstrip() for row in rows]
    parts = [heading, "\n".join(lines)]
    if document["tests"]:
        parts.append(_scored_text(document))
    for links, _word, title in paths:
        parts.append("\n".join([f"{title}:", *(f"  {line}" for link in links for line in link["evidence"])]))
    if document["paths"]:
        parts.append(
            "\n".join(f"{path['links']} of them between {' and '.join(path['between'])}" for path in document["paths"])
        )
    if document["together"]:
        parts.append(
            "\n".join(f"Slow, though no part of them is: {', '.join(group)}" for group in document["together"])
        )
    if unsteady:
        lines = [f"  {line}" for test in unsteady for line in test["evidence"]]
        parts.append("\n".join(["Tests that failed, and ran when they were repeated:", *lines]))
    note = _pair_note(document["settings"], document["state"])
    if note and document["pairs"]:
        parts.append(note.strip())
    if not document["complete"]:
        parts.append("The search is not over; the same command goes on with it.")
    elif problems and not may_fail:
        # The evidence is in the table. A play that fails shows the problems in its last task.
        cures = problems_text([{**entry, "evidence": ""} for entry in problems], [])
        parts.append(cures.rstrip())
    if document["complete"] and 0 < counts["good"] < len(nodes):
        parts.append(_without_others(document, adopted))
    if problems and not may_fail:
        parts.append(
            "What is not good does not fail the play (exit status 0), because isolate_fail_on_bad is false. To have it fail:"
            " -e isolate_fail_on_bad=true"
        )
    return "\n\n".join(parts) + "\n"


def report(document: Entry, may_fail: bool, adopted: bool | None = None) -> dict[str, t.Any]:
    """What was found as the role report takes it, ``results`` with a document that has it as problems, and ``isolation``; the
    ``problems``; and as ``table``, a text. ``may_fail``: whether the play fails if something is not good. ``adopted``: whether
    the play found its nodes as pods, or made them; None for hosts of the inventory.
    """
    problems = [
        problem(_PROBLEMS[entry["verdict"], entry["where"]], entry["node"], "\n".join(entry["evidence"]))
        for entry in document["nodes"]
        if entry["verdict"] != "good"
    ]
    problems += [
        problem(name, None, "\n".join(link["evidence"]), ends=" and ".join(link["nodes"]))
        for name, links in _paths_told(document)
        for link in links
    ]
    problems += [problem("group-slow", nodes=listing(group)) for group in document["together"]]
    problems += [
        problem("test-unsteady", None, "\n".join(test["evidence"]), nodes=listing(test["nodes"]))
        for test in document.get("unsteady", [])
    ]
    entries = [entry.as_dict() for entry in problems]
    sample = document["sample"]
    found = {name: value for name, value in document.items() if name not in ("state", "sample")}
    return {
        "results": [add_problems(sample, problems)] if sample else [],
        "isolation": found if adopted is None else {**found, "limit": ""},
        "problems": entries,
        "table": _table(document, entries, may_fail, adopted),
    }


#: Of the taint or label of a bad node.
_MARK_VALUE = "bad"
_MARK_KEY = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def check_mark(kind: str, key: str) -> None:
    """Raise OptionError if Kubernetes would refuse the key of a mark, which it says only when the search is over."""
    if kind != "none" and not _MARK_KEY.fullmatch(key):
        raise OptionError("isolate_mark_key", key, "a key of Kubernetes, such as gpufabric.nccl/isolate")


def marks(
    document: Entry, pods: t.Sequence[Entry], nodes: t.Sequence[Entry], settings: Entry, uids: t.Mapping[str, str]
) -> dict[str, t.Any]:
    """The mark's ``value``, and which nodes of Kubernetes get the mark, ``present``, or lose it, ``absent``: all of their pods are good now.

    ``pods``, ``nodes``: as Kubernetes has them. ``settings``: ``kind``, taint or label, ``key`` and ``verdicts``, those to be marked.
    ``uids``: of the pods that were searched, by their names, empty if they are not known.
    """
    verdicts = {entry["node"]: entry["verdict"] for entry in document["nodes"]}
    on_node: dict[str, set[str]] = {}
    for pod in pods:
        name, node = pod["metadata"]["name"], (pod.get("spec") or {}).get("nodeName")
        if name in verdicts and node:
            # Of one that has taken the place of another, maybe on another node, nothing was found.
            is_same = uids.get(name) in (None, "", pod["metadata"].get("uid"))
            on_node.setdefault(node, set()).add(verdicts[name] if is_same else "unknown")
    present = [node for node, found in on_node.items() if found & set(settings["verdicts"])]
    marked = {node["metadata"]["name"] for node in nodes if _is_marked(node, settings)}
    absent = [node for node, found in on_node.items() if found == {"good"} and node in marked]
    return {"value": _MARK_VALUE, "present": sorted(present), "absent": sorted(absent)}


def _is_marked(node: Entry, settings: Entry) -> bool:
    # The key with another value is somebody else's.
    if settings["kind"] == "label":
        return (node["metadata"].get("labels") or {}).get(settings["key"]) == _MARK_VALUE
    taints = (node.get("spec") or {}).get("taints") or []
    return {taint.get("value") for taint in taints if taint["key"] == settings["key"]} == {_MARK_VALUE}


def _nodes(infos: Results) -> dict[str, Entry]:
    return {name: result["node"] for name, result in infos.items() if "node" in result}


def _with_defaults(settings: Entry, nodes: Results) -> dict[str, t.Any]:
    """The role's variables, and what those are that are not set; ``sizes_note`` says in words why the size is smaller than usual.

    ``pairs_are_faster``: whether two good nodes have more bandwidth than more of them.
    """
    on_gpus = uses_gpus(settings["backend"], nodes)
    defaults = _DEFAULTS[on_gpus]
    given = {name: value for name, value in settings.items() if value not in (None, "")}
    chosen = {**settings, **defaults, **given, "sizes_note": ""}
    if on_gpus and nodes and not {"min_bytes", "max_bytes"} & set(given):
        usual = defaults["min_bytes"]
        chosen["min_bytes"], chosen["sizes_note"] = _renamed(single_size, nodes, _benchmark_settings(chosen), usual)
    if "max_bytes" in given and "min_bytes" not in given:
        sizes = (str(defaults["min_bytes"]), str(given["max_bytes"]))
        chosen["min_bytes"] = min(sizes, key=lambda size: parse_size("isolate_max_bytes", size))
    faster = on_gpus and flatters_pairs(chosen["collective"], chosen["env"] or {})
    return {**chosen, "max_bytes": settings["max_bytes"] or chosen["min_bytes"], "pairs_are_faster": faster}


def _lost(name: str, results: Entry) -> str | None:
    """Why nothing can be run on a host; None if something can."""
    info = results["info"][name]
    if "node" not in info:
        return _one_line(str(info.get("msg") or _NO_ANSWER))
    if name in (peer["name"] for peer in results["peers"]):
        return None
    causes = [f"{entry['cause']} {entry['evidence']}" for entry in results["lost"].get(name, ())]
    return _one_line(causes[0] if causes else _NO_ANSWER)


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]} …"


def _benchmark_settings(settings: Entry) -> dict[str, t.Any]:
    """As the role nccl_benchmark has them."""
    return {
        **settings,
        "collectives": [settings["collective"]],
        "launcher": None,
        "dedicated_launcher": False,
        "ranks_per_node": None,
        "step_factor": 2,
    }


def _size_text(settings: Entry) -> str:
    low, high = str(settings["min_bytes"]), str(settings["max_bytes"])
    note = f" ({settings['sizes_note']})" if settings["sizes_note"] else ""
    return (low if low == high else f"{low} to {high}") + note


def _renamed(function: t.Callable[..., _Found], *arguments: t.Any) -> _Found:
    """What a function of the benchmark returns; what it says of a setting is of this role's variable."""
    try:
        return function(*arguments)
    except OptionError as error:
        raise GpufabricError(
            str(error).replace(error.option, error.option.replace("nccl_benchmark_", "isolate_"), 1)
        ) from error


def _new_state(names: t.Sequence[str], settings: Entry, lost: t.Mapping[str, str]) -> dict[str, t.Any]:
    """Raises GpufabricError with the name of the role's variable."""
    screens = str(settings["screens"])
    try:
        if not (screens == "all" or (screens.isdecimal() and len(screens) <= _MOST_DIGITS)):
            raise OptionError("screens", settings["screens"], "1 or more, or all")
        return new_state(
            names,
            mode=settings["mode"],
            inside=settings["inside"],
            screens=None if screens == "all" else int(screens),
            limit=_number("limit", settings["limit"]),
            inside_limit=_number("inside_limit", settings["inside_limit"]),
            tolerance_percent=_number("tolerance_percent", settings["tolerance_percent"]),
            domains=settings["domains"] or None,
            unreachable=lost,
            pairs_are_faster=settings["pairs_are_faster"],
        )
    except OptionError as error:
        option = "gpufabric_hosts" if error.option == "nodes" else f"isolate_{error.option}"
        raise GpufabricError(option + str(error)[len(error.option) :]) from error


def _number(option: str, value: t.Any) -> t.Any:
    """What is given with -e is text; before ansible-core 2.19 so is what is not given, an empty one."""
    if value == "":
        return None
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError as error:
        raise OptionError(option, value, "a number") from error


def _launch(ready: dict[str, Entry], peers: t.Sequence[Entry], settings: Entry) -> dict[str, t.Any]:
    """How groups of these nodes are run."""
    if not ready:
        return {
            "backend": None,
            "reason": "no node can be reached",
            "point": {},
            "slots": {},
            "addresses": {},
            "inventory_names": {},
        }
    connected = [peer for peer in peers if peer["name"] in ready]
    plan = _renamed(plan_benchmark, ready, connected, _benchmark_settings(settings))
    between = {host["name"]: host["slots"] for host in plan["hosts"]}
    inside = dict.fromkeys(between, _CPU_RANKS_INSIDE) if plan["backend"] == "cpu" else between
    return {
        **{name: plan[name] for name in ("backend", "reason", "control", "data", "mca", "inventory_names")},
        "point": plan["points"][0],
        "slots": {"inside": inside, "between": between},
        "addresses": {host["name"]: host["address"] for host in plan["hosts"]},
    }


def _told(settings: Entry, backend: str | None) -> dict[str, t.Any]:
    """The settings that decide what is measured, as JSON holds them. Time-outs do not."""
    chosen = {name: value for name, value in settings.items() if not name.endswith(("timeout", "_note", "_faster"))}
    env = shown_environment(settings["env"] or {})
    return json.loads(json.dumps({**chosen, "env": env, "backend": backend}, sort_keys=True, default=str))


def _earlier(text: str) -> dict[str, t.Any]:
    try:
        found = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise GpufabricError(f"{_EARLIER} is not JSON: {error}; remove it") from error
    return found if isinstance(found, dict) and found.get("schema") == SCHEMA else {}


def _observation(
    run: Entry, result: Entry, launcher: str, inventory_names: t.Mapping[str, str]
) -> tuple[dict[str, t.Any], ResultDocument | None]:
    """What the planner is told of a group, and the result document where there is one."""
    entry: dict[str, t.Any] = {"nodes": run["nodes"], "value": None, "reason": None, "unreachable": []}
    if "points" not in result:
        reason = str(result.get("msg") or f"{launcher} gave no answer")
        return {**entry, "reason": _one_line(reason), "unreachable": [launcher]}, None
    plan = {"points": run["points"], "hosts": run["hosts"], "launcher": launcher, "inventory_names": inventory_names}
    try:
        (document,) = complete_results(plan, result)
    except AnswerError as error:
        return {**entry, "reason": _one_line(str(error)), "unreachable": [launcher]}, None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        reason = f"what {launcher} returned of the run is not what mpi_run returns: {type(error).__name__}: {error}"
        return {**entry, "reason": _one_line(reason), "unreachable": [launcher]}, None
    errors = [problem for problem in document["problems"] if problem["severity"] == "error"]
    best = max((_value(row, document["rank_count"]) or 0.0 for row in document["rows"]), default=0.0)
    # A launcher may return anything.
    if document["verdict"] in ("pass", "unchecked") and best > 0:
        return {**entry, "value": best}, document
    # A host that all others cannot reach is one thing; where none can be reached, the launcher may be the reason.
    named = {problem["host"] for problem in errors if problem["id"] in _UNREACHABLE} & set(run["nodes"])
    if launcher in named or len(named) >= len(run["nodes"]) - 1:
        named = set()
    if any(problem["id"] == "launcher-lost" for problem in errors):
        named = {launcher}
    reasons = [f"{problem['host'] + ': ' if problem['host'] else ''}{problem['cause']}" for problem in errors]
    reason = _one_line(reasons[0] if reasons else "it has no result")
    return {**entry, "reason": reason, "unreachable": sorted(named)}, document


def _value(row: Entry, ranks: int) -> float | None:
    """Bus bandwidth in GB/s; of one rank algbw, since its bus bandwidth is 0 whatever it does."""
    return (row["out_of_place"] or row["in_place"])["busbw" if ranks > 1 else "algbw"]


def _worth(document: Entry) -> tuple[int, float]:
    return document["host_count"], document["summary"]["peak_busbw"] or 0.0


def _sizes(groups: t.Sequence[t.Sequence[str]]) -> str:
    """``3 groups of 4 nodes, 1 of 3``."""
    counts: dict[int, int] = {}
    for group in groups:
        counts[len(group)] = counts.get(len(group), 0) + 1
    parts = []
    for size, number in sorted(counts.items(), reverse=True):
        if size == 1:
            parts.append(f"{counted(number, 'node')} alone")
        else:
            parts.append(f"{counted(number, 'pair')}" if size == 2 else f"{counted(number, 'group')} of {size} nodes")
    return ", ".join(parts)
