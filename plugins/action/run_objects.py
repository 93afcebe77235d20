# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem, ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.task_results import answer_of
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.objects import (
    POLICY,
    RUN_KINDS,
    TO_SHIELD,
    claimed,
    namespaces_of,
    object_name,
    objects_taken,
    outline,
    pods_of,
    removal_command,
    run_in_use,
    run_taken,
    selector,
    with_start_of,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.pods import missing_permissions
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import clean, one_line
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._cluster import ClusterRoleAction, Unanswered
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._owner import claim_of, owner_of_run

Object = t.Mapping[str, t.Any]

#: Seconds. A short time to wait for pods is meant for those that start.
_LEAST_WAIT = 300
#: Seconds between two looks.
_PAUSE = 2


class ActionModule(ClusterRoleAction):
    """Judges, makes or removes the objects of a run.

    Between two of its questions other plays may do the same: what has changed meanwhile is left alone.
    """

    ARGUMENT_SPEC: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        "state": {"type": "str", "choices": ["free", "present", "absent"], "required": True},
        "objects": {"type": "list", "elements": "dict", "default": []},
        "policy": {"type": "dict"},
        "policy_required": {"type": "bool", "default": False},
        "names": {"type": "list", "elements": "dict", "default": []},
        "named_by": {"type": "str"},
        "joins": {"type": "bool", "default": False},
        "found": {"type": "list", "elements": "dict"},
        "timeout": {"type": "int"},
    }

    def act_on_cluster(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """What the state returns. Raises GpufabricError, Unanswered."""
        self._arguments = arguments
        self._objects: list[Object] = arguments["objects"]
        self._role = self._task._role.get_name(include_role_fqcn=False)
        self._run_id = self.shared["run_id"]
        self._selector = selector(self._run_id, self._role)
        self._owner = owner_of_run(self.shared["owner"])
        self._take_over = self.shared["take_over"]
        return {"free": self._free, "present": self._present, "absent": self._absent}[arguments["state"]]()

    def _free(self) -> dict[str, t.Any]:
        """The run's objects, none of which is another's, or in use with other settings."""
        names = self._arguments["names"]
        _stop_if(
            objects_taken(
                self._run_id,
                self._owner,
                self._named(names),
                names,
                take_over=True,
                setting=self._arguments["named_by"],
            )
        )
        found = self._found()
        deadline = time.monotonic() + (self._arguments["timeout"] or 0)
        # What makes pods and is about to go takes those with it that a new one would make.
        while self._arguments["timeout"] and any(map(self._is_going, found)):
            if time.monotonic() > deadline:
                raise ProblemError(self._leftovers("what makes pods is marked to go, and is still there"))
            self.show(f"waiting until the objects of an earlier run {self._run_id} are gone")
            time.sleep(_PAUSE)
            found = self._found()
        if not self._take_over:
            staying = [item for item in found if not self._is_going(item)]
            _stop_if(run_taken(self._run_id, self._owner, staying, self._objects))
            claim = claim_of(self.shared["owner"], take_over=False)
            _stop_if(run_in_use(self._run_id, staying, claim["controller"], claim["play"], claim["live"]))
        return {"found": [outline(item) for item in found]}

    def _makes_pods(self, item: Object) -> bool:
        return (item["apiVersion"], item["kind"]) == RUN_KINDS[self._role][0]

    def _is_going(self, item: Object) -> bool:
        return self._makes_pods(item) and bool(item["metadata"].get("deletionTimestamp"))

    def _present(self) -> dict[str, t.Any]:
        """The objects are made, or changed where the run has them. Of plays that do so at the same moment, one makes them."""
        policy = self._arguments["policy"]
        # The first claims the run, the last makes pods: there is to be no moment in which they have no NetworkPolicy.
        wanted = [*self._objects[:1], *([policy] if policy else []), *self._objects[1:]]
        # Whoever may make one, but not find or remove it, would leave it behind.
        if self._can_do_without and missing_permissions(self.rules(self.shared["namespace"]), [TO_SHIELD]):
            wanted = self._without_policy()
        try:
            answer = self.change(resource_definition=claimed(wanted), apply=True)
        except Unanswered as error:
            return self._remake(self._without_policy() if self._is_refused(error) else wanted)
        return {"changed": answer["changed"], "created": True, "made": _outlines(answer)}

    def _remake(self, wanted: t.Sequence[Object]) -> dict[str, t.Any]:
        """What _present does if not all could be made."""
        found = self._named(wanted)
        if self._arguments["joins"] and not self._take_over:
            wanted = with_start_of(found, wanted)
        taken = objects_taken(
            self._run_id, self._owner, found, wanted, take_over=self._take_over, setting=self._arguments["named_by"]
        )
        is_new = self._take_over or not any(item["kind"] == wanted[-1]["kind"] for item in found)
        try:
            _stop_if(taken)
            # Fields that only the owner before had are to go; one's own objects are not even to look changed.
            answer = self.change(resource_definition=claimed(wanted, found), apply=self._take_over)
            made = _outlines(answer)
            # Without apply, nothing is returned for an object that another play has made a moment before.
            if len(made) < len(wanted):
                raise ProblemError(problem("run-taken", run_id=self._run_id, state="is being started by another play"))
            return {"changed": answer["changed"], "created": is_new, "made": made}
        except Unanswered as error:
            if len(wanted) > len(self._objects) and self._is_refused(error):
                # It comes to light only now where the object before it was there.
                return self._remake(self._without_policy())
            failure = self.failure(error.problems, str(error))
        except ProblemError as error:
            failure = self.failure([item.as_dict() for item in error.problems], "")
            if any(item.id == "run-taken" for item in error.problems):
                return failure
        # Some of them may have been made.
        return {**failure, "created": is_new or bool(taken), "made": [outline(item) for item in wanted]}

    def _named(self, wanted: t.Iterable[Object]) -> list[Object]:
        """What has the kinds and names of objects. Raises Unanswered."""
        found = [self._of_kind(item["apiVersion"], item["kind"], name=item["metadata"]["name"]) for item in wanted]
        return [item for items in found for item in items]

    def _found(self) -> list[Object]:
        """The run's objects. Raises Unanswered."""
        labels = self._selector.split(",")
        found = [self._of_kind(version, kind, label_selectors=labels) for version, kind in RUN_KINDS[self._role]]
        return self._named_as_the_run(item for items in found for item in items)

    def _named_as_the_run(self, found: t.Iterable[Object]) -> list[Object]:
        """Without what somebody has given the run's labels, as by copying a manifest. A job can have any name."""
        name = object_name(self._run_id)
        return [item for item in found if self._role != "worker_pods" or item["metadata"]["name"] == name]

    def _of_kind(self, version: str, kind: str, **which: t.Any) -> list[Object]:
        """Objects of a kind. Raises Unanswered."""
        try:
            return self.ask(kind, api_version=version, **which)
        except Unanswered as error:
            # Whoever may not ask for NetworkPolicies has made none.
            if (version, kind) == POLICY and "kube-forbidden" in {item["id"] for item in error.problems}:
                return []
            raise

    def _absent(self) -> dict[str, t.Any]:
        """What was found is removed, and nothing that has taken its place. Does not fail where something is left, but says so."""
        found = self._arguments["found"]
        try:
            if found is not None:
                return {"changed": self._remove(found), "problems": []}
            found = self._found()
            # What this play has made is its own, if it took the run over too. In check mode it has made nothing.
            made = [] if self._task.check_mode else self._objects
            if made:
                # Somebody may have applied a manifest with the run's label meanwhile.
                names = {(item["kind"], item["metadata"]["name"]) for item in made}
                found = [
                    item
                    for item in found
                    if not self._makes_pods(item) or (item["kind"], item["metadata"]["name"]) in names
                ]
            if made or not self._take_over:
                taken = run_taken(self._run_id, self._owner, found, made)
                if taken:
                    return {"problems": [taken[0].as_dict()]}
            changed = self._remove(filter(self._makes_pods, found))
            if any(map(self._makes_pods, self._found())) and not self._task.check_mode:
                # Another play of the owner goes on with what is left.
                return {"changed": changed, "problems": []}
            rest = [self._remove_pods(), self._remove(item for item in found if not self._makes_pods(item))]
            is_nothing = not (found or self._objects or any(rest))
            warnings = self._warnings() if is_nothing else []
            return {"changed": changed or any(rest), "problems": [], **({"warnings": warnings} if warnings else {})}
        except Unanswered as error:
            # Other causes are in the words of the cluster; who is not known any more, is to log in first.
            unknown = [entry for entry in error.problems if entry["id"] == "kube-token-expired"]
            return {"problems": [*unknown, self._leftovers(answer_of(error.message)).as_dict()]}

    def _warnings(self) -> list[str]:
        """Where a run of this name and owner is, if nothing of it is in the namespace."""
        self.show(f"Nothing of the run {self._run_id} is in namespace {self.shared['namespace']}.")
        version, kind = RUN_KINDS[self._role][0]
        try:
            found = self.ask(kind, api_version=version, label_selectors=self._selector.split(","), namespace=None)
        except Unanswered:
            # Few may look into all namespaces.
            return []
        return [
            f"the run {self._run_id} in namespace {namespace} stays as it is: to remove it, give teardown -e gpufabric_namespace={namespace}"
            for namespace in namespaces_of(self._named_as_the_run(found), self._owner)
        ]

    def _remove(self, found: t.Iterable[Object]) -> bool:
        """Whether something was removed, the claim last. Raises Unanswered."""
        kinds = [kind for _version, kind in RUN_KINDS[self._role]]
        in_order = sorted(found, key=lambda item: kinds.index(item["kind"]))
        removed = [self._remove_one(item, wait=self._makes_pods(item)) for item in in_order]
        return any(removed)

    def _remove_pods(self) -> bool:
        """Whether there were pods, such as one that was made a moment before its StatefulSet was gone. Raises Unanswered."""
        if self._role != "worker_pods":
            # Those of a job are its operator's.
            return False
        pods = pods_of(object_name(self._run_id), self.ask("Pod", label_selectors=self._selector.split(",")))
        # All are told to go before one is waited for.
        removed = [self._remove_one(item, wait) for wait in (False, True) for item in pods]
        return any(removed)

    def _remove_one(self, item: Object, wait: bool) -> bool:
        """Whether an object was removed. One that has taken its place stays. Raises Unanswered."""
        # What makes pods is gone when they are: one that is only marked to go makes no new ones.
        propagation = "Foreground" if wait else "Background"
        try:
            answer = self.change(
                state="absent",
                api_version=item["apiVersion"],
                kind=item["kind"],
                name=item["metadata"]["name"],
                delete_options={"propagationPolicy": propagation, "preconditions": {"uid": item["metadata"]["uid"]}},
                wait=wait,
                wait_timeout=max(self._arguments["timeout"] or 0, _LEAST_WAIT),
            )
        except Unanswered as error:
            if "the UID in the precondition" in error.message:
                return False
            raise
        return bool(answer["changed"])

    @property
    def _can_do_without(self) -> bool:
        """Whether there is to be a NetworkPolicy only if the account may make and remove one."""
        return bool(self._arguments["policy"]) and not self._arguments["policy_required"]

    def _is_refused(self, error: Unanswered) -> bool:
        """Whether the account may not make the NetworkPolicy that it can go on without."""
        if not self._can_do_without:
            return False
        return "kube-forbidden" in {item["id"] for item in error.problems} and "networkpolicies" in error.message

    def _without_policy(self) -> list[Object]:
        self.show(
            "No NetworkPolicy keeps other pods from those of this run: the account may not make and remove one in namespace"
            f" {self.shared['namespace']}."
        )
        return list(self._objects)

    def _leftovers(self, said: str) -> Problem:
        command = removal_command(self._run_id, self._role, self._cluster)
        return problem("kube-leftovers", None, clean(said), reason=one_line(said).rstrip("."), command=command)


def _outlines(answer: Object) -> list[dict[str, t.Any]]:
    """Of the objects that kubernetes.core.k8s returned."""
    result = answer["result"]
    # Of one object there is no list.
    items = [item["result"] for item in result["results"]] if "results" in result else [result]
    return [outline(item) for item in items if (item or {}).get("metadata")]


def _stop_if(problems: t.Sequence[Problem]) -> None:
    """Raise ProblemError: whose the first object is says it."""
    if problems:
        raise ProblemError(problems[0])
