# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many tests and rounds finding the bad machine takes, and how often the answer is right, by simulation.

Prints the table of docs/isolation.md. A fault halves the bandwidth; each test is off by 3 % (standard deviation), and one in a
hundred is slow by chance. Right is an answer that names all faults, where they are, and nothing else.
usage: make bench-isolation [TRIALS=20]
"""

from __future__ import annotations

import dataclasses
import random
import statistics
import sys
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.isolation_search import new_state, run, verdict

GOOD = 100.0
SLOW = 0.5
NOISE = 0.03
BY_CHANCE = 0.01


@dataclasses.dataclass
class Cluster:
    """Nodes some of which are slow inside or on the network, and pairs whose path is slow."""

    nodes: list[str]
    inside: set[str]
    between: set[str]
    links: set[frozenset[str]]
    luck: random.Random
    noise: float = NOISE
    by_chance: float = BY_CHANCE

    @classmethod
    def of(cls, size: int, inside: int, between: int, links: int, seed: int) -> Cluster:
        """One with faults at random, none of them at two places at once."""
        luck = random.Random(seed)
        nodes = [f"n{number}" for number in range(size)]
        chosen = luck.sample(nodes, inside + between + 2 * links)
        ends = chosen[inside + between :]
        return cls(
            nodes,
            set(chosen[:inside]),
            set(chosen[inside : inside + between]),
            {frozenset(pair) for pair in zip(ends[::2], ends[1::2])},
            luck,
        )

    def measure(self, group: t.Sequence[str]) -> float:
        """The bandwidth that a benchmark over these nodes would show."""
        members = set(group)
        slow = members & self.inside or (len(group) > 1 and members & self.between)
        slow = slow or any(link <= members for link in self.links) or self.luck.random() < self.by_chance
        return GOOD * (SLOW if slow else 1.0) * max(0.0, self.luck.gauss(1.0, self.noise))

    def is_told(self, found: t.Mapping[str, t.Any]) -> bool:
        """Whether an answer is right."""
        bad = {entry["node"]: entry["where"] for entry in found["nodes"] if entry["verdict"] != "good"}
        wanted = {**dict.fromkeys(self.inside, "inside"), **dict.fromkeys(self.between, "between")}
        return bad == wanted and {frozenset(link["nodes"]) for link in found["links"]} == self.links


def row(size: int, faults: tuple[int, int, int], trials: int, **settings: t.Any) -> str:
    """A line of the table: medians over the trials, and the largest number of rounds."""
    answers = []
    for seed in range(trials):
        cluster = Cluster.of(size, *faults, seed)
        found = verdict(run(new_state(cluster.nodes, **settings), cluster.measure))
        answers.append((found["tests"], found["rounds"], cluster.is_told(found)))
    tests, rounds, right = zip(*answers)
    return (
        f"{statistics.median(tests):,.0f} | {statistics.median(rounds):.0f} ({max(rounds)}) | {sum(right)} of {trials}"
    )


def main(trials: int) -> None:
    """Print the tables."""
    print("| nodes | faults | tests | rounds (most) | right | every pair: tests | rounds |")
    print("| ---: | :--- | ---: | ---: | ---: | ---: | ---: |")
    cases = {
        "none": ((0, 0, 0), {}),
        "1 network": ((0, 1, 0), {}),
        "1 inside": ((1, 0, 0), {}),
        "3 network": ((0, 3, 0), {}),
        "2 inside, 3 network": ((2, 3, 0), {}),
        "16 network": ((0, 16, 0), {"limit": 80}),
        "1 path, `screens` all": ((0, 0, 1), {"screens": None}),
    }
    for size in (16, 64, 232, 1024, 4096):
        for name, (faults, settings) in cases.items():
            if sum(faults) * 4 > size or (sum(faults) > 3 if size == 16 else name == "3 network"):
                continue
            # Thousands of groups a trial.
            most = max(1, trials // 10) if settings.get("screens", 2) is None and size > 1000 else trials
            pairs = f"{size * (size - 1) // 2:,} | {size - 1:,}"
            print(f"| {size:,} | {name} | {row(size, faults, most, **settings)} | {pairs} |", flush=True)
    print()
    print("| 232 nodes, faults | tests | rounds (most) | right | published: tests | rounds |")
    print("| :--- | ---: | ---: | ---: | ---: | ---: |")
    published = {0: "28 | 3", 1: "22 | 7", 3: "57 | 7", 5: "55 | 7"}
    for number, theirs in published.items():
        ours = row(232, (0, number, 0), trials, inside="bad", screens=1)
        print(f"| {number} network | {ours} | {theirs} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
