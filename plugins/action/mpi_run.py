# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import signal
import threading
import time
import typing as t

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi_run import (
    Look,
    events,
    look_command,
    parse_look,
    poll_interval,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RUN_ID_VARIABLE

#: How kubectl says that a pod does not exist, which no time mends: another of its name would not run this run.
_POD_IS_GONE = "Error from server (NotFound): pods"


class ActionModule(ActionBase):
    """Starts a run on the launcher by the module, and then follows it with calls that read two small files."""

    TRANSFERS_FILES = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Run the action."""
        result = super().run(tmp, task_vars)
        self._task_vars = task_vars or {}
        self._launcher = self._task.delegate_to or self._task_vars.get("inventory_hostname", "the launcher")
        state = self._task.args.get("state", "finished")
        if state in ("finished", "started"):
            result.update(self._start(waits=state == "finished"))
        else:
            result.update(self._execute_module(task_vars=self._task_vars))
        self._remove_tmp_path(self._connection._shell.tmpdir)
        return result

    def _start(self, waits: bool) -> dict[str, t.Any]:
        """Start the run; what the module returned, with what came of the points where it waits for that."""
        # The module's and so that of the runner that it forks: by it all that belongs to a run is found.
        mark = {RUN_ID_VARIABLE: str(self._task.args.get("run_id", "default"))}
        self._task.environment = [*(self._task.environment or []), mark]
        with _interruptible():
            try:
                result = self._execute_module(task_vars=self._task_vars)
                if waits and "runner" in result:
                    outcome = self._follow(result, **result.pop("runner"))
                    result.update(outcome, failed="msg" in outcome)
            except Exception:
                raise
            except BaseException:
                # The user has had enough, or the task's own time is over.
                self._show("interrupted, the run is being ended")
                self._stop()
                raise
        return result

    def _follow(self, begun: dict[str, t.Any], pid: int, directory: str) -> dict[str, t.Any]:
        """What came of the points, when they are over."""
        names = [point["name"] for point in begun["points"]]
        command = look_command(directory, pid)
        begin = time.monotonic()
        shown = 0
        if begun["followed"]:
            self._show("this run is going on already and is followed")
        while True:
            time.sleep(poll_interval(time.monotonic() - begin))
            look = self._look(command)
            if look.progress is None:
                raise AnsibleActionFail(
                    f"{directory} is no longer on {self._launcher}: the launcher was replaced, or the run was removed"
                )
            lines = events(names, look.progress)
            for line in lines[shown:]:
                self._show(line)
            shown = len(lines)
            if look.outcome is not None:
                return look.outcome
            if not look.alive:
                # Nobody writes the outcome now but this.
                stopped = self._stop()
                if stopped.get("failed"):
                    raise AnsibleActionFail(f"the run on {self._launcher} has died: {stopped.get('msg')}")

    def _look(self, command: str) -> Look:
        """How far the run is. Raises AnsibleActionFail where the launcher gives no answer for too long."""
        grace = float(self._task.args.get("poll_grace", 60))
        deadline = time.monotonic() + grace
        told = False
        while True:
            look, said = self._ask(command)
            if look is not None:
                return look
            if _POD_IS_GONE in said:
                raise AnsibleActionFail(f"the launcher {self._launcher} is gone, and the run with it: {said}")
            if time.monotonic() > deadline:
                raise AnsibleActionFail(
                    f"the launcher {self._launcher} has not answered for {grace:g} s: {said}; where it still runs, the run"
                    " goes on, and the same task follows it"
                )
            if not told:
                self._show(f"no answer, asked again for {grace:g} s, the run goes on meanwhile: {said}")
                told = True
            time.sleep(min(3.0, grace / 10))

    def _ask(self, command: str) -> tuple[Look | None, str]:
        """What the launcher answers, or what the connection says where it does not."""
        try:
            answer = self._low_level_execute_command(command)
        except AnsibleConnectionFailure as error:
            return None, str(error)
        said = (answer["stderr"] or answer["stdout"]).strip() or f"exit status {answer['rc']}"
        return parse_look(answer["stdout"]), said

    def _stop(self) -> dict[str, t.Any]:
        arguments = {name: self._task.args[name] for name in ("run_id", "run_dir") if name in self._task.args}
        return self._execute_module(module_args={**arguments, "state": "stopped"}, task_vars=self._task_vars)

    def _show(self, line: str) -> None:
        if not self._task.no_log:
            Display().display(f"{self._launcher}: {line}")


@contextlib.contextmanager
def _interruptible() -> t.Iterator[None]:
    """Have SIGINT and SIGTERM, which end a worker at once, raise KeyboardInterrupt, so that there is time to end the run."""

    def interrupt(_number: int, _frame: t.Any) -> None:
        for number in before:
            # Both come where a play is interrupted. Not SIG_IGN, which the programs of connections would inherit.
            signal.signal(number, lambda _number, _frame: None)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
