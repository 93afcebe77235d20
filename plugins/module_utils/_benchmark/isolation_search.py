# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Which machine, or which path between machines, makes a benchmark slow: what to run next, and what follows from it.

A test is one benchmark over a group of nodes, and its value the bus bandwidth in GB/s; of one node alone it tells of the
inside (GPUs, NVLink, CPU), of several of the network between them. A group is as slow as its slowest node or path, so all
members of a fast group are good, and a slow group has at least one fault. Groups of a round have no node in common, and run
at once.

``plan_round`` says what to run, ``observe`` takes what came of it, ``verdict`` says what is known; all are pure, and the
state is a dict that JSON can hold. Modes:

- ``nodes``: each node alone, one round.
- ``pairs``: every pair, N - 1 rounds of N / 2 (round robin by the circle method).
- ``adaptive``: groups of about the square root of N; what is slow is split in four, each part together with nodes that are
  known to be good, until it is one node or one path. A split in four costs as many tests as two splits in two, and half of
  the rounds. One round of groups, a screen, meets every node; a second, across the first, meets paths between those groups;
  p + 1 of them, p being the first prime from the square root on, meet every pair once (the lines of an affine plane). For one or
  two, there are as many groups as the square root tells, so that a few bad nodes leave one of them fast to compare with.
"""

from __future__ import annotations

import collections
import itertools
import math
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import listing

SCHEMA = "gpufabric.nccl/isolation/v1"

MODES = ("adaptive", "pairs", "nodes")
#: Whether each node runs alone at first, or in the end those that were found bad, to tell inside from between.
INSIDE = ("all", "bad", "none")

#: A part of the tolerance on both sides of a limit is too near to be told by one test.
_GRAY = 0.2
_PARTS = 4
#: Up to so many screens, it is enough that the second is across the first.
_ACROSS = 2
#: Fewer nodes would be one group, with nothing to compare it with, so that pairs run.
_FEWEST = 4
#: The same where pairs are faster than larger groups: of fewer nodes, some groups are pairs, and those of three look slow beside them.
_FEWEST_UNLIKE = 15
#: The nodes of a group that is like larger ones, where pairs are faster.
_UNLIKE = 3
#: How many good nodes run alone beside the bad ones, so that there is something to compare with.
_CONTROLS = 3
#: How often a node must be found slow before it is called bad, alone more often than not by as many: of many nodes, some are
#: slow once or twice by chance. One that is now this and now that is bad where it is slow most of the time.
_READINGS = 3
_MOST_READINGS = 9
#: How many times what the values of a pair differ by the best of them may lack, so that the pair is too noisy to judge. Two values,
#: as most pairs have, differ less than the noise.
_SPREADS = 2

State = t.Mapping[str, t.Any]
Group = t.FrozenSet[str]


def new_state(
    nodes: t.Sequence[str],
    mode: str = "adaptive",
    inside: str = "all",
    screens: int | None = 2,
    limit: float | None = None,
    inside_limit: float | None = None,
    tolerance_percent: float = 15.0,
    domains: t.Mapping[str, str] | None = None,
    unreachable: t.Mapping[str, str] | None = None,
    pairs_are_faster: bool = False,
) -> dict[str, t.Any]:
    """Nothing is known yet of ``nodes``.

    ``domains``: the rack, leaf switch or NVLink domain of each node, so that a bad path between two of them is told as such.
    ``screens``: of the adaptive mode, None for as many as meet every pair. ``limit`` and ``inside_limit``: the least good bus
    bandwidth of several nodes and of one alone, in GB/s; without one it is the ninth decile of the screens of about as many
    nodes, less ``tolerance_percent``: where a fault is in nearly all groups, only a limit tells it. ``unreachable``: nodes that
    nothing can be run on, and why. ``pairs_are_faster``: whether two good nodes have more bandwidth than more of them. Raises OptionError.
    """
    nodes = list(nodes)
    if not nodes or len(set(nodes)) < len(nodes) or not all(isinstance(node, str) and node for node in nodes):
        raise OptionError("nodes", nodes, "a list of names, each once")
    for option, value, allowed in (("mode", mode, MODES), ("inside", inside, INSIDE)):
        if value not in allowed:
            raise OptionError(option, value, f"one of {', '.join(allowed)}")
    if screens is not None and (isinstance(screens, bool) or not isinstance(screens, int) or screens < 1):
        raise OptionError("screens", screens, "1 or more, or none for all")
    for option, number in (("limit", limit), ("inside_limit", inside_limit)):
        if number is not None and not _is_number(number, 0):
            raise OptionError(option, number, "a number of GB/s above 0")
    # A share such as 0.1, meant as 10 %, would call good nodes slow.
    if not _is_number(tolerance_percent, 0) or not 1 <= tolerance_percent < 100:
        raise OptionError("tolerance_percent", tolerance_percent, "a percentage of 1 or more, and below 100")
    # Racks may have numbers for names.
    named = {node: str(name) for node, name in (domains or {}).items() if _is_name(name)}
    if domains is not None and not set(named) == set(domains) == set(nodes):
        raise OptionError("domains", dict(domains), "the name of a domain for each of the nodes, and no other")
    unreachable = dict(unreachable or {})
    reachable = len(set(nodes) - set(unreachable))
    if mode == "adaptive" and reachable < _fewest(pairs_are_faster, limit):
        mode = "pairs"
    if reachable == 1:
        # The only one that can be reached runs with no other.
        mode = "nodes"
    stages: list[t.Any] = ["inside"] if inside == "all" or mode == "nodes" else []
    every_pair = mode == "pairs"
    if mode == "pairs":
        stages += range(len(nodes) - 1 + len(nodes) % 2)
    elif mode == "adaptive":
        most = _prime_of(len(nodes)) + 1
        every_pair = screens is None or screens >= most
        stages += range(most if screens is None else min(screens, most))
    return {
        "schema": SCHEMA,
        "nodes": nodes,
        "domains": named,
        "mode": mode,
        "inside": inside,
        "limits": {"inside": inside_limit, "between": limit},
        "tolerance_percent": float(tolerance_percent),
        "stages": stages,
        "every_pair": every_pair,
        "pairs_are_faster": pairs_are_faster,
        "unreachable": unreachable,
        "stage": 0,
        "round": 0,
        "tests": [],
    }


def plan_round(state: State) -> list[list[str]]:
    """The groups to run next, all at once; none where nothing is left to run."""
    return _plan(_Knowledge(state))[0]


def observe(state: State, results: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """The state after the round that plan_round planned.

    Each of ``results`` has ``nodes``, ``value`` (GB/s, None where the benchmark failed), in words the ``reason`` for that and, where
    the launch named them, ``unreachable`` nodes. A group without a result counts as failed. Raises GpufabricError for a group
    that was not planned.
    """
    groups, stage, screen = _plan(_Knowledge(state))
    found = {frozenset(result["nodes"]): result for result in results}
    foreign = set(found) - {frozenset(group) for group in groups}
    if foreign:
        raise GpufabricError(f"no such group is in the round: {', '.join(sorted(next(iter(foreign))))}")
    tests = []
    for group in groups:
        result = found.get(frozenset(group), {})
        value = result.get("value")
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0):
            raise OptionError("value", value, "a bandwidth in GB/s, or none")
        if value is not None and not math.isfinite(value):
            value = None
        named = [node for node in result.get("unreachable") or () if node in group]
        tests.append(
            {
                "round": state["round"] + 1,
                "screen": screen,
                "nodes": group,
                "value": value,
                "reason": result.get("reason") if value is None else None,
                "unreachable": named,
            }
        )
    return {**state, "stage": stage, "round": state["round"] + 1, "tests": [*state["tests"], *tests]}


def run(state: State, measure: t.Callable[[t.Sequence[str]], float | None]) -> dict[str, t.Any]:
    """The state in the end, where a function says what each group's value is."""
    result = dict(state)
    groups = plan_round(result)
    while groups:
        result = observe(result, [{"nodes": group, "value": measure(group)} for group in groups])
        groups = plan_round(result)
    return result


def last_round(state: State) -> tuple[list[list[str]], dict[str, list[list[str]]]]:
    """The groups of the round before, and those of them that were ``slow``, that ``failed``, and that were ``to be tried again``."""
    known = _Knowledge(state)
    groups: list[list[str]] = []
    counted: dict[str, list[list[str]]] = {"slow": [], "failed": [], "to be tried again": []}
    for test in state["tests"]:
        if test["round"] != state["round"]:
            continue
        groups.append(test["nodes"])
        if test["value"] is None:
            counted["failed"].append(test["nodes"])
        elif test["value"] < known.limit_of(len(test["nodes"])):
            counted["slow"].append(test["nodes"])
        elif known.outcomes[frozenset(test["nodes"])] is None:
            counted["to be tried again"].append(test["nodes"])
    return groups, counted


def verdict(state: State) -> dict[str, t.Any]:
    """What is known.

    ``nodes``: of each its ``verdict`` (good, bad, suspect, unreachable), ``where`` a bad one is slow (``inside`` it,
    ``between`` it and all others, None where that is not known) and the ``evidence`` in words. ``links``: pairs that are slow
    though both ends are good with others. Of several slow paths within a group that have an end in common, some may be told
    only when the others are repaired. ``noisy``: such pairs whose values differ so much that they may be fast, so nothing is said of
    them. ``paths``: pairs of domains with several such links, where a switch or cable is bad.
    ``pairs``: what each test of two nodes showed, in GB/s. ``together``: groups that are slow though no part of them is. ``unsteady``:
    groups whose test failed, and ran when it was repeated, though no node of them is bad.
    ``limit``: a pattern for ``ansible --limit`` that leaves out what is not good. ``complete``: whether nothing is left to run.
    """
    known = _Knowledge(state)
    nodes = [_node_entry(known, node) for node in state["nodes"]]
    pairs = sorted(map(known.ordered, known.bad_links), key=lambda pair: [known.position[node] for node in pair])
    links = [pair for pair in pairs if frozenset(pair) not in known.noisy]
    bad = [entry["node"] for entry in nodes if entry["verdict"] != "good"]
    return {
        "schema": SCHEMA,
        "complete": not _plan(known)[0],
        "rounds": state["round"],
        "tests": len(state["tests"]),
        "nodes": nodes,
        "links": [_link_entry(known, link) for link in links],
        "noisy": [_link_entry(known, pair) for pair in pairs if pair not in links],
        "paths": _paths(links, state["domains"]),
        "pairs": [
            {"a": test["nodes"][0], "b": test["nodes"][1], "busbw": test["value"]}
            for test in state["tests"]
            if len(test["nodes"]) == 2
        ],
        "together": [known.ordered(group) for group in known.together()],
        "unsteady": [_link_entry(known, known.ordered(group)) for group in known.unsteady()],
        "limit": ":".join(["all", *(f"!{node}" for node in bad)]),
    }


def screen_groups(nodes: t.Sequence[str], screen: int, screens: int, least: int = 1) -> list[list[str]]:
    """The groups of a screen, disjoint, each of about the square root of N nodes. ``screens``: how many there are in all.
    ``least``: the nodes that each group has at least, of one screen or two, if there are as many.

    Of two, the first has neighbours, and the second those that are as far apart as there are groups. For more, nodes stand in rows
    of p. Each screen has lines of another slope, and screen p the rows: there are fewer of these, and faults may be in all. Two
    nodes of one row meet in the row, and all others in the one line whose slope joins them.
    """
    width = _width(len(nodes), screens)
    if screens <= _ACROSS:
        width = min(width, max(1, len(nodes) // least))
        return [list(nodes[start::width]) for start in range(width)] if screen else _parted(nodes, width)
    groups: dict[int, list[str]] = {}
    for position, node in enumerate(nodes):
        row, column = divmod(position, width)
        groups.setdefault(row if screen == width else (column + screen * row) % width, []).append(node)
    return [groups[key] for key in sorted(groups)]


def pair_groups(nodes: t.Sequence[str], number: int) -> list[list[str]]:
    """A round of a round robin by the circle method, from 0: every pair meets once in N - 1 rounds (N where N is odd)."""
    circle: list[str | None] = [*nodes, *([None] if len(nodes) % 2 else [])]
    turn = number % max(1, len(circle) - 1)
    circle = [circle[0], *circle[len(circle) - turn :], *circle[1 : len(circle) - turn]]
    half = len(circle) // 2
    pairs = zip(circle[:half], reversed(circle[half:]))
    return [[first, second] for first, second in pairs if first is not None and second is not None]


class _Knowledge:
    """What the tests of a state tell."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.position = {node: number for number, node in enumerate(state["nodes"])}
        self.values: dict[Group, list[float | None]] = {}
        #: Why nodes cannot be reached.
        self.unreachable: dict[str, str] = dict(state["unreachable"])
        #: Why groups failed, the last time.
        self.reasons: dict[Group, str] = {}
        for test in state["tests"]:
            group = frozenset(test["nodes"])
            self.values.setdefault(group, []).append(test["value"])
            if test["reason"]:
                self.reasons[group] = test["reason"]
            for node in test["unreachable"]:
                self.unreachable.setdefault(node, test["reason"] or "the launch named it")
        self._limits: dict[int, float] = {}
        # Those that look for a reason are mostly slow, and would pull the limit down.
        self._ranked: list[tuple[int, float]] = [
            (len(test["nodes"]), test["value"])
            for test in state["tests"]
            if test["screen"] and test["value"] is not None
        ]
        self.outcomes = {group: self._outcome(group) for group in self.values}
        alone = {next(iter(group)): group for group in self.values if len(group) == 1}
        self.alone = {node: self.outcomes[group] for node, group in alone.items()}
        self.slow_inside = {node for node, outcome in self.alone.items() if outcome is False}
        #: Nodes that are not to be in any group any more.
        self.out = set(self.unreachable) | self.slow_inside
        passed = [group for group, outcome in self.outcomes.items() if outcome and len(group) > 1]
        self.good = set().union(*passed) - self.out
        self._meetings: dict[str, set[int]] = {}
        #: The first fast group of each node.
        self.fast: dict[str, Group] = {}
        for number, group in enumerate(passed):
            for node in group:
                self._meetings.setdefault(node, set()).add(number)
                self.fast.setdefault(node, group)
        self.failed = [
            group
            for group, outcome in self.outcomes.items()
            if outcome is False and len(group) > 1 and not group & self.out
        ]
        #: Pairs that are slow again and again though both are good with others.
        self.bad_links = [
            group for group in self.failed if len(group) == 2 and group <= self.good and len(self.values[group]) > 1
        ]
        #: The other ends of those of a node.
        self.far_ends: dict[str, set[str]] = {}
        for link in self.bad_links:
            for node in link:
                self.far_ends.setdefault(node, set()).update(link - {node})
        self.noisy = {group for group in self.bad_links if self._is_noisy(group)}
        #: For each node that alone can be to blame for slow groups: the other members of each.
        self.charges: dict[str, list[Group]] = {}
        for group in self.failed:
            rest = group - self.good
            if len(rest) == 1 and not self._has_link(group):
                self.charges.setdefault(next(iter(rest)), []).append(group - rest)
        self.bad = {
            node
            for node, others in self.charges.items()
            if not self.avoided(node) and sum(len(self.values[group | {node}]) for group in others) >= _READINGS
        }

    def avoided(self, node: str) -> Group:
        """Who was in each slow group of a node, and all of each other domain that was: the path there may be slow in its place."""
        charges, domains = self.charges[node], self.state["domains"]
        partners = frozenset.intersection(*charges)
        # Alone in its domain, a bad node would look like a bad path.
        if sum(name == domains.get(node) for name in domains.values()) < 2:
            return partners
        met = frozenset.intersection(*(frozenset(domains[other] for other in group) for group in charges))
        return partners | {other for other, name in domains.items() if name in met - {domains[node]}}

    def ordered(self, group: t.Iterable[str]) -> list[str]:
        """In the order of the nodes."""
        return sorted(group, key=self.position.__getitem__)

    def limit_of(self, size: int) -> float:
        """The least good value of that many nodes, in GB/s."""
        if size not in self._limits:
            given = self.state["limits"]["inside" if size == 1 else "between"]
            self._limits[size] = float(given) if given is not None else self._derived_limit(size)
        return self._limits[size]

    def _derived_limit(self, size: int) -> float:
        alike = [number for number, value in self._ranked if (number == 1) == (size == 1)]
        if size > 2 and self.state["pairs_are_faster"]:
            alike = [number for number in alike if number > 2] or alike
        near = [number for number in alike if size / 1.5 <= number <= size * 1.5]
        sizes = set(near if len(near) >= _CONTROLS else alike)
        values = sorted(value for number, value in self._ranked if number in sizes)
        if not values:
            return 0.0
        return values[math.ceil(0.9 * (len(values) - 1))] * (1 - self.state["tolerance_percent"] / 100)

    def _outcome(self, group: Group) -> bool | None:
        """Whether it is fast; None where it has to be tried again."""
        values, limit = self.values[group], self.limit_of(len(group))
        votes = sum(1 if value is not None and value >= limit else -1 for value in values)
        if len(values) == 1 and values[0] is not None:
            gray = limit * self.state["tolerance_percent"] / 100 * _GRAY
            if limit and abs(values[0] - limit) <= gray:
                return None
        if len(group) == 1 and -_READINGS < votes < 0 and len(values) < _MOST_READINGS:
            return None
        return None if votes == 0 else votes > 0

    def _is_noisy(self, group: Group) -> bool:
        """Whether a slow group's values differ by half of what the best of them lacks, or more. A limit that was given holds all the same."""
        values = [value for value in self.values[group] if value is not None]
        if self.state["limits"]["between"] is not None or len(values) < len(self.values[group]):
            return False
        return max(values) + _SPREADS * (max(values) - min(values)) >= self.limit_of(len(group))

    def _has_link(self, group: Group) -> bool:
        """Whether the path between two of a group is slow."""
        return any(not self.far_ends[node].isdisjoint(group) for node in group if node in self.far_ends)

    def have_met(self, first: str, second: str) -> bool:
        """Whether both were in one fast group, so that the path between them is good."""
        return not self._meetings.get(first, set()).isdisjoint(self._meetings.get(second, set()))

    def unions(self, group: Group) -> list[Group]:
        """Halves of a group in which each pair of it is together, but for those whose paths are known to be good."""
        parts = _parted(self.ordered(group), _PARTS)
        unions = [frozenset(first + second) for first, second in itertools.combinations(parts, 2)]
        return [union for union in unions if not all(self.have_met(*pair) for pair in itertools.combinations(union, 2))]

    def together(self) -> list[Group]:
        """Slow groups of good nodes of which every part is fast."""
        return [
            group
            for group in self._not_explained()
            if len(group) > 2
            and group <= self.good
            and len(self.values[group]) > 1
            and all(self.outcomes.get(union) for union in self.unions(group))
        ]

    def unsteady(self) -> list[Group]:
        """Groups that failed and ran later, in the order of their tests. What fails now and then is in them, and no other test shows it."""
        named = self.bad | self.out
        return [
            group
            for group, values in self.values.items()
            if None in values and self.outcomes[group] and group.isdisjoint(named)
        ]

    def _not_explained(self) -> list[Group]:
        left = [group for group in self.failed if not group & self.bad and not self._has_link(group)]
        # What is in a slow group is to be looked for in the smallest that has it.
        left.sort(key=lambda group: (len(group), self.ordered(group)))
        least: list[Group] = []
        smallest: dict[str, list[Group]] = {}
        for group in left:
            # None is smaller than a pair.
            if len(group) == 2 or not any(smaller < group for node in group for smaller in smallest.get(node, ())):
                least.append(group)
                smallest.setdefault(min(group), []).append(group)
        return least

    def open_questions(self) -> list[Group]:
        """Slow groups for which no reason is known yet."""
        settled = set(self.together())
        return [group for group in self._not_explained() if group not in settled]

    def path_word(self, pair: Group) -> str:
        """What is wrong with a path between good nodes."""
        if pair in self.noisy:
            return "too noisy to judge"
        return "slow path" if any(value is not None for value in self.values[pair]) else "failing path"

    def told(self, group: Group) -> str:
        """A test in words."""
        values = ["failed" if value is None else f"{value:.4g} GB/s" for value in self.values[group]]
        limit = self.limit_of(len(group))
        reason = f"; {self.reasons[group]}" if group in self.reasons else ""
        return f"{listing(self.ordered(group), 6)}: {', '.join(values)} (limit {limit:.4g} GB/s){reason}"


class _Round:
    """Groups that have no node in common."""

    def __init__(self, known: _Knowledge) -> None:
        self._known = known
        self.groups: list[list[str]] = []
        self.used: set[str] = set()

    def add(self, group: t.Iterable[str], again: bool = False) -> bool:
        """Take a group where its nodes are free; one that was tried before only if it is to be tried again."""
        chosen = frozenset(group)
        if chosen & self.used or (not again and chosen in self._known.values):
            return False
        self.groups.append(self._known.ordered(chosen))
        self.used |= chosen
        return True

    def partners(self) -> list[str]:
        """Good nodes that are free; others at each round, so that no path to one of them is in all tests."""
        free = self._known.ordered(self._known.good - self._known.bad - self.used)
        turn = self._known.state["round"] * 7 % len(free) if free else 0
        return free[turn:] + free[:turn]


def _plan(known: _Knowledge) -> tuple[list[list[str]], int, bool]:
    """The groups of the next round, the stage after it, and whether nothing but its nodes' order chose the groups."""
    state = known.state
    stage, stages = state["stage"], state["stages"]
    planned = _Round(known)
    # One that runs alone is tried again before it is let into a group.
    for node, outcome in known.alone.items():
        if not outcome and node not in known.out:
            planned.add([node], again=True)
    if planned.groups:
        return planned.groups, stage, False
    if "inside" in stages[:stage]:
        # One that could not be reached before, when a search is taken up.
        alone = [[node] for node in state["nodes"] if node not in known.out and node not in known.alone]
        if alone:
            return alone, stage, True
    if state["mode"] != "pairs" or stage == len(stages):
        _plan_answers(known, planned)
        if planned.groups:
            return planned.groups, stage, False
    left = [node for node in state["nodes"] if node not in known.out]
    if (
        state["mode"] == "adaptive"
        and len(left) < _fewest(state["pairs_are_faster"], state["limits"]["between"])
        and stages[stage : stage + 1] != ["inside"]
    ):
        # The others are slow alone.
        for turn in range(len(left)):
            pairs = [pair for pair in pair_groups(left, turn) if frozenset(pair) not in known.values]
            if pairs:
                return pairs, stage, True
        stage = len(stages)
    while stage < len(stages):
        groups = _stage_groups(known, stages[stage])
        stage += 1
        if groups:
            return groups, stage, True
    if state["mode"] != "nodes":
        _plan_rest(known, planned)
        if planned.groups:
            return planned.groups, stage, False
    if state["inside"] == "bad":
        untried = [node for node in known.ordered(known.bad) if node not in known.alone]
        if untried:
            controls = [] if state["limits"]["inside"] is not None else planned.partners()[:_CONTROLS]
            return [[node] for node in [*untried, *controls]], stage, True
    return [], stage, False


def _stage_groups(known: _Knowledge, stage: str | int) -> list[list[str]]:
    domains = known.state["domains"]
    nodes = sorted(known.state["nodes"], key=lambda node: domains.get(node, ""))
    if stage == "inside":
        return [[node] for node in nodes if node not in known.out]
    if known.state["mode"] == "pairs":
        pairs = pair_groups(nodes, int(stage))
        return [pair for pair in pairs if not known.out & set(pair)]
    left_out = known.out | known.bad
    least = _least(known.state)
    lines = screen_groups(nodes, int(stage), _screens(known.state), least if known.state["pairs_are_faster"] else 1)
    groups = [[node for node in group if node not in left_out] for group in lines]
    groups = sorted((group for group in groups if group), key=len, reverse=True)
    while len(groups) > 1 and len(groups[-1]) < least:
        last = groups.pop()
        groups[-1] += last
        groups.sort(key=len, reverse=True)
    return [group for group in groups if len(group) > 1]


def _plan_answers(known: _Knowledge, planned: _Round) -> None:
    """Groups that tell why others are slow."""
    useless = known.bad | known.out
    parts: list[tuple[list[str], Group]] = []
    for group, outcome in known.outcomes.items():
        if outcome is None and len(group) > 1 and not group & useless:
            planned.add(group, again=True)
    if known.state["every_pair"]:
        # A fault that was found may have hidden another in the same group, which is the only one where two nodes meet.
        for test in known.state["tests"]:
            rest = frozenset(test["nodes"]) - useless
            if test["screen"] and 1 < len(rest) < len(test["nodes"]):
                if len(rest) >= _least(known.state):
                    planned.add(rest)
                elif not any(rest < group and not group & useless for group in known.values):
                    parts.append((known.ordered(rest), frozenset()))
    alike: set[str] = set()
    asked = known.open_questions()
    for group in asked:
        suspects = known.ordered(group - known.good)
        if not suspects:
            _plan_links(known, planned, group)
        elif len(suspects) == 1:
            avoided = known.avoided(suspects[0])
            if avoided:
                parts.append((suspects, avoided))
            else:
                planned.add(group, again=True)
        elif known.good - known.bad:
            parts += [(part, frozenset()) for part in _parted(suspects, _PARTS)]
        else:
            alike.update(suspects)
    for pair in itertools.combinations(known.ordered(alike), 2):
        planned.add(pair)
    _plan_parts(known, planned, parts)


def _plan_rest(known: _Knowledge, planned: _Round) -> None:
    """Nodes that were only in groups with a fault, or with one that could not be reached, together with good ones."""
    rest = known.ordered(set(known.state["nodes"]) - known.good - known.bad - known.out)
    if not known.good - known.bad:
        for pair in itertools.combinations(rest, 2):
            planned.add(pair)
        return
    doubted = [node for node in rest if any(node in group for group in known.failed)]
    others = [node for node in rest if node not in doubted]
    most = _width(len(known.state["nodes"]), _screens(known.state)) - 1
    parts = [[node] for node in doubted] + [others[start : start + most] for start in range(0, len(others), most)]
    _plan_parts(known, planned, [(part, frozenset()) for part in parts])


def _plan_parts(known: _Knowledge, planned: _Round, parts: t.Sequence[tuple[list[str], Group]]) -> None:
    """Each part together with good nodes, so that the groups are as large as the others.

    A pair that is faster than larger groups would hide what is slow in them, so parts that would be one wait for a later round.
    """
    taken: set[str] = set(planned.used)
    wanted = []
    for part, avoided in parts:
        if not taken & set(part):
            taken |= set(part)
            wanted.append((part, avoided))
    before = len(planned.groups)
    _add_parts(known, planned, wanted, taken, _least(known.state))
    if len(planned.groups) == before:
        _add_parts(known, planned, wanted, taken, 2)


def _add_parts(
    known: _Knowledge,
    planned: _Round,
    wanted: t.Sequence[tuple[list[str], Group]],
    taken: t.Collection[str],
    least: int,
) -> None:
    """``taken``: nodes that are no partners. ``least``: the nodes that a group must have."""
    free = [node for node in planned.partners() if node not in taken]
    size = _width(len(known.state["nodes"]), _screens(known.state)) if known.state["mode"] == "adaptive" else 2
    for number, (part, avoided) in enumerate(wanted):
        fewest = max(1, least - len(part))
        share = max(fewest, len(free) // (len(wanted) - number))
        usable = [node for node in free if node not in avoided]
        for most in range(min(share, max(fewest, size - len(part))), fewest - 1, -1):
            partners = usable[:most]
            if len(partners) == most and planned.add([*part, *partners]):
                free = [node for node in free if node not in partners]
                break
        else:
            if len(part) >= least:
                planned.add(part)


def _plan_links(known: _Knowledge, planned: _Round, group: Group) -> None:
    """All of the group are good with others: first whether it is slow again, then which part of it."""
    if len(known.values[group]) == 1:
        planned.add(group, again=True)
        return
    for union in known.unions(group):
        planned.add(union)


def _node_entry(known: _Knowledge, node: str) -> dict[str, t.Any]:
    evidence: list[str] = []
    result: dict[str, t.Any] = {"node": node, "verdict": "suspect", "where": None, "evidence": evidence}
    alone = frozenset([node])
    inside = known.alone.get(node)
    if alone in known.values:
        evidence.append(f"alone: {known.told(alone).split(': ', 1)[1]}")
    slow_pairs = [frozenset((node, other)) for other in known.ordered(known.far_ends.get(node, ()))]
    links = [pair for pair in slow_pairs if pair not in known.noisy]
    if node in known.unreachable:
        result["verdict"] = "unreachable"
        evidence.append(known.unreachable[node])
    elif node in known.slow_inside:
        result.update(verdict="bad", where="inside")
    elif node in known.bad:
        result.update(verdict="bad", where={True: "between", False: "inside", None: None}[inside])
        evidence += [f"with good nodes, {known.told(others | {node})}" for others in known.charges[node]]
    elif node in known.good:
        evidence += [f"{known.path_word(pair)}: {known.told(pair)}" for pair in slow_pairs]
        if len(links) < 2 and inside is not False:
            result["verdict"] = "good"
    elif known.state["mode"] == "nodes":
        result["verdict"] = "good" if inside else "suspect"
    else:
        slow = [group for group in known.failed if node in group]
        evidence += [f"slow, with others that may be the reason: {known.told(group)}" for group in slow[:3]]
    if not evidence and node not in known.good:
        evidence.append("not tested")
    if node in known.good:
        evidence.append(f"fast, {known.told(known.fast[node])}")
    return result


def _link_entry(known: _Knowledge, group: t.Sequence[str]) -> dict[str, t.Any]:
    return {"nodes": list(group), "evidence": [known.told(frozenset(group))]}


def _paths(links: t.Sequence[t.Sequence[str]], domains: t.Mapping[str, str]) -> list[dict[str, t.Any]]:
    """The pairs of domains that several links join."""
    joined = [tuple(sorted(domains[node] for node in link)) for link in links] if domains else []
    counts = collections.Counter(joined)
    return [{"between": list(pair), "links": count} for pair, count in counts.items() if count > 1]


def _parted(items: t.Sequence[str], number: int) -> list[list[str]]:
    """As many parts, of the same size but for one; fewer where there are fewer items."""
    number = min(number, len(items))
    bounds = [len(items) * index // number for index in range(number + 1)]
    return [list(items[low:high]) for low, high in zip(bounds, bounds[1:])]


def _fewest(pairs_are_faster: bool, limit: float | None) -> int:
    """How many nodes can be told by groups. Where there is a limit, groups are not compared with pairs."""
    return _FEWEST_UNLIKE if pairs_are_faster and limit is None else _FEWEST


def _least(state: State) -> int:
    """The nodes that a group has at least, where there are as many. A pair that is faster than larger groups would hide what is slow in them."""
    return _UNLIKE if state["mode"] == "adaptive" and state["pairs_are_faster"] else 2


def _screens(state: State) -> int:
    return sum(stage != "inside" for stage in state["stages"])


def _width(number: int, screens: int) -> int:
    """The nodes of a group, of so many nodes."""
    return _prime_of(number) if screens > _ACROSS else _root_of(number)


def _root_of(number: int) -> int:
    """The square root, rounded up; 2 at least."""
    return max(2, math.isqrt(max(0, number - 1)) + 1)


def _prime_of(number: int) -> int:
    """The first prime from the square root on."""
    prime = _root_of(number)
    while any(prime % divisor == 0 for divisor in range(2, math.isqrt(prime) + 1)):
        prime += 1
    return prime


def _is_name(value: t.Any) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool) and value != ""


def _is_number(value: t.Any, above: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > above
