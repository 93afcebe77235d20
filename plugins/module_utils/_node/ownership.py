# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Whose a run on a node is, and whether a play may start it or remove it."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import socket
import time
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.node_catalogue import NODE_CATALOGUE
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem, ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import locked
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import read_processes, stamped
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RUN_ID_VARIABLE, RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import ago

#: Of modules that start or remove a run.
CLAIM_ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    "claim": {
        "type": "dict",
        "options": {
            "owner": {"type": "str", "required": True},
            "controller": {"type": "str", "required": True},
            "play": {"type": "str", "required": True},
            "live": {"type": "list", "elements": "str", "required": True},
            "take_over": {"type": "bool", "default": False},
        },
    }
}

#: Why a module leaves a run alone: it is in use by another play of its owner, or is another owner's.
REFUSALS = ("run-in-use", "run-taken")

#: Seconds after which a run that shows no sign of life is over: between two tasks of a play over many hosts nothing runs on one.
_QUIET = 600
#: Seconds after which nobody waits for a program's end any more: whoever does asks every few seconds.
_UNASKED = 60
#: Seconds since the epoch that are no moment.
_NO_MOMENT = 1e11


@dataclasses.dataclass(frozen=True)
class Claim:
    """Who asks. ``play``: the play, one of those that are ``live`` on the ``controller``; the latter is empty if plays cannot be
    told apart there.
    """

    owner: str
    controller: str
    play: str
    live: t.Sequence[str]
    take_over: bool = False


@dataclasses.dataclass(frozen=True)
class Use:
    """Signs of life of a run on this node. ``quiet``: seconds since anything was written; ``unasked``: since a controller asked for it."""

    has_processes: bool
    quiet: float
    unasked: float = math.inf


def refusal(
    mark: t.Mapping[str, t.Any],
    claim: Claim,
    use: t.Callable[[], Use],
    host: str,
    removes: bool = False,
    now: float = 0,
) -> Problem | None:
    """Why the run must be left alone; None if it need not.

    ``mark``: what the run's directory holds of its owner. ``removes``: the play wants the run's end only; that of his own is for
    each owner to decide. ``now``: seconds since the epoch.
    """
    theirs = mark.get("owner")
    here = bool(claim.controller) and mark.get("controller") == claim.controller
    if not isinstance(theirs, str) or (here and mark.get("play") == claim.play):
        return None
    goes_on = here and mark.get("play") in claim.live
    facts = {"run_id": str(mark.get("run_id")), **age_of(mark, now)}
    if theirs == claim.owner:
        # Of another controller, only a program that it waits for tells that its play is not over. That it took the run a moment ago does
        # not: the jobs of a workflow follow each other in seconds, each in a container of its own.
        elsewhere = bool(claim.controller and mark.get("controller")) and not here
        unasked = use().unasked if elsewhere and not removes else math.inf
        if removes or not (goes_on or unasked < _UNASKED):
            return None
        state = f"belongs to another play of {theirs}"
        state += (
            f" on another controller, which asked for its program {ago(unasked)}"
            if elsewhere
            else ", which is not over"
        )
        return NODE_CATALOGUE.problem("run-in-use", host, state=state, **facts)
    if goes_on or _is_live(use()):
        return NODE_CATALOGUE.problem("run-taken", host, state=f"belongs to {theirs}", **facts)
    return None


def loss(mark: t.Mapping[str, t.Any], claim: Claim, host: str, now: float = 0) -> Problem | None:
    """Who has the run that a play had taken; None if it is still the play's, or the mark names nobody.

    Where plays cannot be told apart, it is the owner's. ``mark`` and ``now``: as of refusal.
    """
    theirs = mark.get("owner")
    is_plays = not claim.controller or (mark.get("controller"), mark.get("play")) == (claim.controller, claim.play)
    if not isinstance(theirs, str) or (is_plays and theirs == claim.owner):
        return None
    is_owners = theirs == claim.owner
    state = f"belongs to {'another play of ' if is_owners else ''}{theirs}"
    facts = {"run_id": str(mark.get("run_id")), **age_of(mark, now)}
    return NODE_CATALOGUE.problem("run-in-use" if is_owners else "run-taken", host, state=state, **facts)


def owner_mark(claim: Claim, before: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What a mark is to hold of the claim; ``before``: what it holds now."""
    is_own = (before.get("controller"), before.get("play")) == (claim.controller, claim.play)
    started = before.get("started") if is_own else None
    own = {"owner": claim.owner, "controller": claim.controller, "play": claim.play}
    return {**own, "started": started or int(time.time())}


def _is_live(use: Use) -> bool:
    return use.has_processes or use.quiet < _QUIET


def age_of(mark: t.Mapping[str, t.Any], now: float) -> dict[str, str]:
    """``age``: how long ago a run was started, as its mark says; nothing if that is no moment."""
    started = mark.get("started")
    if not isinstance(started, (int, float)) or isinstance(started, bool) or not 0 <= started < _NO_MOMENT:
        return {}
    return {"age": ago(now - started)}


class Ownership:
    """The owner of a run on this node, as the mark in its directory says."""

    def __init__(self, run_dir: RunDir, claim: t.Mapping[str, t.Any] | None) -> None:
        """``claim``: None if nobody says who asks; the run is not refused to him then."""
        self._run_dir = run_dir
        self._claim = None if claim is None else Claim(**claim)

    def refusal(self, removes: bool = False) -> Problem | None:
        """Why the run must be left alone, whether it is to be taken over or not."""
        if self._claim is None:
            return None
        return refusal(self._run_dir.read_mark(), self._claim, self._use, socket.gethostname(), removes, time.time())

    def loss(self) -> Problem | None:
        """Who has the run that this play had taken; None if it is still the play's, or nobody's."""
        if self._claim is None:
            return None
        return loss(self._run_dir.read_mark(), self._claim, socket.gethostname(), time.time())

    def check(self, removes: bool = False) -> bool:
        """Whether another's run is to be taken over. Raises ProblemError if the run must be left alone."""
        found = self.refusal(removes)
        if found is not None and not (self._claim and self._claim.take_over):
            raise ProblemError(found)
        return found is not None

    def take(self) -> None:
        """Mark the run as the claim's. Raises ProblemError if another play was faster, and NodeError."""
        if self._claim is None:
            return
        self._run_dir.create()
        # Against two plays that start at once.
        with locked(self._run_dir.path):
            self.check()
            # Another machine that shares the directory may have marked it meanwhile.
            self._run_dir.check()
            self._run_dir.write_mark(owner_mark(self._claim, self._run_dir.read_mark()))

    def _use(self) -> Use:
        asked = _written(os.path.join(self._run_dir.mpi, "polled"))
        written = max(asked, *map(_written, (self._run_dir.mark, self._run_dir.sshd_log)))
        is_of_run = self._run_dir.started_with(RUN_ID_VARIABLE, self._run_dir.run_id)
        now = time.time()
        return Use(bool(stamped(read_processes(), is_of_run)), now - written, now - asked)


def _written(path: str) -> float:
    """When a file was written, in seconds since the epoch; 0 if there is none."""
    with contextlib.suppress(FileNotFoundError):
        return os.stat(path).st_mtime
    return 0.0
