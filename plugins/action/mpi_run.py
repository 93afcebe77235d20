# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import gzip
import multiprocessing
import os
import signal
import tempfile
import threading
import time
import traceback
import typing as t
import zlib

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase
from ansible.utils.display import Display
from ansible.utils.path import unfrackpath
from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import NUMBER, PATH, Kind, check_answer, refuse
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.launch import ARGUMENT_SPEC
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemDict, entries_from
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.points import assemble
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.progress import (
    Event,
    Journal,
    Look,
    Narrator,
    look_command,
    parse_look,
    parse_part,
    poll_interval,
    read_command,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.ownership import REFUSALS
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import kill_descendants
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RUN_DIR_VARIABLE, RUN_ID_VARIABLE
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import clean, clean_line, indented, inert
from ansible_collections.gpufabric.nccl.plugins.module_utils._units import parse_size
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._hiding import HIDDEN, is_long, without_values
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._node_answers import NodeAction, plain
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._programs.texts import cpu_program

#: How kubectl says that a pod does not exist, or has ended, which no time mends: another of its name would not run this run.
_POD_IS_GONE = ("Error from server (NotFound): pods", "cannot exec into a container in a completed pod")
#: Seconds that may be taken by one call on the launcher, unless poll_grace is shorter, by the end of a run, and by the module.
_LONGEST_CALL = 20.0
_LONGEST_END = 120.0
_LONGEST_MODULE = 300.0
#: How often a module is run that does not come to its answer.
_TRIES = 3
#: Seconds that a point may take beside its own time: to end what it has left on all hosts, to read NCCL's logs, to compress its output.
_AFTER_POINT = 600.0
#: How many times as large as fetch_limit the output may be before it was compressed.
_MOST_COMPRESSED = 64

_Answer = t.TypeVar("_Answer")


#: How the module names the process that goes through the points.
_RUNNER = {"pid": NUMBER, "start": NUMBER, "directory": PATH}
_POINT = Kind(
    lambda value: isinstance(value, t.Mapping) and isinstance(value.get("status"), str), "a point with its status"
)


class _LauncherLost(Exception):
    """Nobody can say what becomes of the run. ``problem``: why, where more is known than that."""

    def __init__(self, why: str, problem: ProblemDict | None = None) -> None:
        super().__init__(why)
        self.problem = problem


class _TookTooLong(_LauncherLost):
    """A call on the launcher that does not end."""


class ActionModule(NodeAction):
    """Starts a run on the launcher by the module, and then follows it with calls that bring what is new."""

    _is_interrupted = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Run the action."""
        result = super().run(tmp, task_vars)
        self._task_vars = task_vars or {}
        self._launcher = self._task.delegate_to or self._task_vars.get("inventory_hostname", "the launcher")
        # By what the module says of them; it checks the others itself, on the launcher.
        self._options = self.validate_argument_spec(ARGUMENT_SPEC)[1]
        self._grace = self._options["poll_grace"]
        try:
            self._fetch_limit = parse_size("fetch_limit", self._options["fetch_limit"])
        except GpufabricError as error:
            return {**result, "failed": True, "msg": str(error)}
        if self._options["cpu_program"]:
            self._task.args = {**self._task.args, "files": {**self._options["files"], **cpu_program()}}
        state = self._options["state"]
        if state in ("finished", "started"):
            result.update(self._start(waits=state == "finished"))
        else:
            result.update(self._run_module())
        if isinstance(result.get("invocation"), dict):
            result["invocation"] = told_invocation(result["invocation"])
        with contextlib.suppress(AnsibleConnectionFailure, _TookTooLong), _at_most(_LONGEST_CALL):
            self._remove_tmp_path(self._connection._shell.tmpdir)
        return {**self.shown(result), **(hidden_points(result) if self._task._role is not None else {})}

    def _run_module(self) -> dict[str, t.Any]:
        """What the module returned. Raises AnsibleConnectionFailure if the launcher has frozen, which ssh and kubectl wait for without end."""
        try:
            with _at_most(_LONGEST_MODULE):
                return self._execute_module(task_vars=self._task_vars)
        except _TookTooLong as error:
            raise AnsibleConnectionFailure(str(error)) from None

    def _start(self, waits: bool) -> dict[str, t.Any]:
        """Start the run; what the module returned, with what came of the points where it waits for that."""
        # The module's and so that of the runner that it forks: by it all that belongs to a run is found.
        mark = {RUN_ID_VARIABLE: self._options["run_id"]}
        if self._task.args.get("run_dir"):
            mark[RUN_DIR_VARIABLE] = self._task.args["run_dir"]
        self._task.environment = [*(self._task.environment or []), mark]
        with self._interruptible():
            try:
                result = self._run_module()
                if waits and "runner" in result:
                    outcome = self._follow_checked(result)
                    if not (outcome["complete"] or outcome["limited"]):
                        # Whoever ended it from elsewhere did not fail.
                        outcome.setdefault("msg", "the run was stopped, or removed, before its end")
                    result.update(outcome, failed="msg" in outcome)
                elif "points" in result:
                    result.update(self._checked_points(result.pop("points")))
            except Exception:
                raise
            except BaseException:
                # The user has had enough, or the task's own time is over.
                self._show("interrupted, the run is being ended")
                try:
                    self._stop()
                except (AnsibleConnectionFailure, _TookTooLong) as error:
                    self._show(f"the run could not be ended, it goes on where the launcher still runs: {error}")
                raise
        return result

    def _follow_checked(self, begun: dict[str, t.Any]) -> dict[str, t.Any]:
        """As _follow. A launcher may answer with anything."""
        destination = self._options.get("fetch_dest")
        if destination is not None:
            # If the output of this run cannot be fetched, that of an earlier one would be taken for it.
            with contextlib.suppress(OSError):
                os.unlink(_archive_in(destination))
        try:
            runner = check_answer(self._launcher, "runner", begun.pop("runner"), _RUNNER)
            # Texts of events were cleaned as they came, when what is escaped in JSON was not yet to be seen.
            found = plain(self._follow(begun, **runner))
            found["points"] = _read_points(self._launcher, found["points"])
            # The last lines that programs printed are in it.
            return {**found, "msg": indented(str(found["msg"]))} if "msg" in found else found
        except (ArithmeticError, AttributeError, GpufabricError, LookupError, TypeError, ValueError) as error:
            Display().vvv(indented(clean(traceback.format_exc())))
            begun.pop("points", None)
            return self._unread(error)

    def _checked_points(self, points: t.Any) -> dict[str, t.Any]:
        """The points of an answer without a run that can be followed, or a failure."""
        try:
            return {"points": _read_points(self._launcher, points)}
        except GpufabricError as error:
            return {**self._unread(error), "failed": True}

    def _unread(self, error: Exception) -> dict[str, t.Any]:
        text = inert(clean(" ".join(str(error).split())))[:200]
        told = text if isinstance(error, GpufabricError) else f"{type(error).__name__}: {text}"
        return {
            "msg": f"what {self._launcher} says of the run cannot be read: {told}",
            "complete": False,
            "limited": False,
        }

    def _follow(self, begun: t.Mapping[str, t.Any], pid: int, start: int, directory: str) -> dict[str, t.Any]:
        """What came of the points, when they are over."""
        points = begun["points"]
        if len(points) != len(self._options["points"]):
            raise ValueError(f"{len(points)} points in place of {len(self._options['points'])}")
        narrator = Narrator(points, self._options["show"], Display().verbosity > 0)
        journal = Journal()
        outcomes: dict[int, t.Mapping[str, t.Any]] = {}
        begin = news = time.monotonic()
        longest = self._longest()
        if self._options["show"] != "none":
            for note in begun["notes"]:
                self._show(note)
            if begun["followed"]:
                self._show("this run was started before and is followed")
        try:
            look = Look(True)
            while True:
                now = time.monotonic()
                if now - begin > longest:
                    raise _LauncherLost(
                        f"the run on {self._launcher} is not over after {longest:g} s, which its points may take at most"
                    )
                self._wait(0 if look.has_more else poll_interval(now - begin, now - news))
                look = self._look(directory, pid, start, journal.offset)
                over = self._take(journal.feed(look.events), narrator, outcomes, len(points))
                if over is not None:
                    return self._finish(assemble(points, outcomes, over), directory)
                if look.events:
                    news = time.monotonic()
                elif not look.alive:
                    # Nobody writes what came of it now but this.
                    stopped = self._stop()
                    if stopped.get("failed"):
                        self._check_owner(stopped)
                        raise _LauncherLost(f"the run on {self._launcher} has died: {stopped.get('msg')}")
                    if "points" not in stopped:
                        raise self._gone(directory)
                    names = ("points", "complete", "limited", "reaped", "msg")
                    return self._finish({name: stopped[name] for name in names if name in stopped}, directory)
        except (_LauncherLost, AnsibleConnectionFailure) as error:
            return _without_launcher(points, outcomes, str(error), getattr(error, "problem", None))

    @contextlib.contextmanager
    def _interruptible(self) -> t.Iterator[None]:
        """Have SIGINT and SIGTERM, which end a worker at once, raise KeyboardInterrupt, so that there is time to end the run."""

        def interrupt(_number: int, _frame: t.Any) -> None:
            for number in before:
                # Both come where a play is interrupted. Not SIG_IGN, which the programs of connections would inherit.
                signal.signal(number, lambda _number, _frame: None)
            # Python passes over what is raised while it removes an object, so _check_wanted raises it again.
            self._is_interrupted = True
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

    def _wait(self, seconds: float) -> None:
        """Wait so long. Raises KeyboardInterrupt."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._check_wanted()
            time.sleep(min(1.0, left))

    def _check_wanted(self) -> None:
        """Raise KeyboardInterrupt if nobody wants the run any more."""
        # This may be what is left of a playbook that was killed: AWX kills no process but the playbook's own.
        parent = multiprocessing.parent_process()
        if self._is_interrupted or (parent is not None and os.getppid() != parent.pid):
            raise KeyboardInterrupt

    def _longest(self) -> float:
        """Seconds until the launcher must have ended the run."""
        given = (point["timeout"] for point in self._options["points"])
        return sum((self._options["timeout"] if own is None else own) + _AFTER_POINT for own in given)

    def _take(
        self, events: t.Iterable[Event], narrator: Narrator, outcomes: dict[int, t.Mapping[str, t.Any]], count: int
    ) -> Event | None:
        """Show events and keep what came of the ``count`` points, each of which ends once; the last event of a run."""
        for event in events:
            if event["event"] == "over":
                return event
            number = event["point"]
            if not isinstance(number, int) or not 0 < number <= count or number in outcomes:
                continue
            for line in narrator.tell(event):
                self._show(line)
            if event["event"] == "ended":
                outcomes[number] = event["outcome"]
        return None

    def _look(self, directory: str, pid: int, start: int, offset: int) -> Look:
        """How far the run is. Raises _LauncherLost."""
        look = self._ask(look_command(directory, pid, offset), lambda text: parse_look(text, pid, start))
        if not look.there:
            raise self._gone(directory)
        return look

    def _check_owner(self, stopped: t.Mapping[str, t.Any]) -> None:
        """Raise _LauncherLost if the module refused to end the run, because another play has taken it."""
        for entry in entries_from(stopped.get("problems")):
            if entry["id"] in REFUSALS:
                raise _LauncherLost(entry["cause"], {**entry, "host": self._launcher})

    def _gone(self, directory: str) -> _LauncherLost:
        if self._options["claim"] is not None:
            self._check_owner(self._stop())
        return _LauncherLost(
            f"{directory} is no longer on {self._launcher}: the launcher was replaced, or the run was removed"
        )

    def _ask(self, command: str, parse: t.Callable[[str], _Answer | None]) -> _Answer:
        """What the launcher answers. Raises _LauncherLost where it gives no answer for too long."""
        deadline = time.monotonic() + self._grace
        told = False
        while True:
            self._check_wanted()
            answer, said = self._ask_once(command, parse)
            if answer is not None:
                if told:
                    self._show("answers again")
                return answer
            # It gets into messages and warnings of Ansible.
            said = clean_line(said)
            if any(words in said for words in _POD_IS_GONE):
                why = f"the launcher {self._launcher} is gone, and the run with it: {said}"
                raise _LauncherLost(why, problem("launcher-lost", reason=why, pod=self._launcher).as_dict())
            if time.monotonic() > deadline:
                raise _LauncherLost(
                    f"the launcher {self._launcher} has not answered for {self._grace:g} s: {said}; where it still runs, the run"
                    " goes on, and the same task follows it"
                )
            if not told:
                self._show(f"no answer, asked again for {self._grace:g} s, the run goes on meanwhile: {said}")
                told = True
            time.sleep(min(3.0, self._grace / 10))

    def _ask_once(self, command: str, parse: t.Callable[[str], _Answer | None]) -> tuple[_Answer | None, str]:
        """What the launcher answers, or what the connection says where it does not."""
        seconds = min(_LONGEST_CALL, max(5.0, self._grace / 3))
        try:
            with _at_most(seconds):
                answer = self._low_level_execute_command(command)
        except AnsibleConnectionFailure as error:
            return None, str(error)
        except _TookTooLong as error:
            self._reconnect()
            return None, str(error)
        said = (answer["stderr"] or answer["stdout"]).strip() or f"exit status {answer['rc']}"
        return parse(answer["stdout"]), said

    def _reconnect(self) -> None:
        """Have the next call make a connection of its own: a shared one may hang while a new one would not."""
        if type(self._connection).reset is not ConnectionBase.reset:
            with contextlib.suppress(AnsibleConnectionFailure, _TookTooLong), _at_most(5.0):
                self._connection.reset()

    def _finish(self, result: dict[str, t.Any], directory: str) -> dict[str, t.Any]:
        """The result, with the output on the controller where that is wanted; the launcher gets to know that it is here."""
        # Nobody waits for it any more: the next play of its owner, on whatever controller, need not wait for a minute.
        done = [os.path.join(directory, name) for name in ("unclaimed", "polled")]
        destination = self._options["fetch_dest"]
        if destination is not None:
            source = os.path.join(directory, "output.tar.gz")
            target = _archive_in(destination)
            try:
                self._fetch(source, target)
                done.append(source)
                result["points"] = [
                    {**point, "output": _in_archive(point, directory, target)} for point in result["points"]
                ]
            except (OSError, EOFError, zlib.error, _LauncherLost) as error:
                result.setdefault("warnings", []).append(
                    f"the output of the run stays on {self._launcher}, in {directory}: {error}"
                )
        # Where this is lost, the next call tells the same once more.
        self._ask_once(f"rm -f {' '.join(map(self._connection._shell.quote, done))}", lambda text: text)
        return result

    def _fetch(self, source: str, target: str) -> None:
        """Bring a compressed file here, part by part, so that no call is long. Raises OSError, EOFError, zlib.error and _LauncherLost."""
        os.makedirs(os.path.dirname(target), exist_ok=True)
        # For this user alone, since programs may print tokens; under no name that others could have put a link at.
        descriptor, part = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".gpufabric-")
        try:
            with open(descriptor, "wb") as file:
                more = True
                while more:
                    block, more = self._ask(read_command(source, file.tell()), parse_part)
                    file.write(block)
                    if file.tell() > self._fetch_limit:
                        raise OSError(f"{source} is larger than fetch_limit, {self._options['fetch_limit']}")
            if not os.path.getsize(part):
                raise FileNotFoundError(f"there is no {source} on {self._launcher}")
            with gzip.open(part) as file:
                # It ends with a checksum.
                while file.read(1 << 20):
                    if file.tell() > _MOST_COMPRESSED * self._fetch_limit:
                        raise OSError(f"what is in {source} is too large")
            os.replace(part, target)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part)

    def _stop(self) -> dict[str, t.Any]:
        arguments = {name: self._task.args[name] for name in ("run_id", "run_dir", "claim") if name in self._task.args}
        stopped: dict[str, t.Any] = {}
        with _at_most(_LONGEST_END):
            for attempt in range(_TRIES):
                time.sleep(attempt)
                stopped = self._execute_module(module_args={**arguments, "state": "stopped"}, task_vars=self._task_vars)
                # Whoever takes the run over ends all that works in it at that moment, this module too.
                if stopped.get("_ansible_parsed", True):
                    break
        return stopped

    def _show(self, line: str) -> None:
        self.show(self._launcher, line)


def _read_points(launcher: str, points: t.Any) -> list[dict[str, t.Any]]:
    """Points that a launcher returned, each with a status, and with no problems but such as are some. Raises AnswerError."""
    if not isinstance(points, list):
        raise refuse(launcher, "points", points, "a list of points")
    checked = [check_answer(launcher, f"points[{number}]", point, _POINT) for number, point in enumerate(points)]
    return [
        {**point, "problems": entries_from(point["problems"])} if "problems" in point else point for point in checked
    ]


def hidden_points(result: t.Mapping[str, t.Any]) -> dict[str, bool]:
    """What to add to the result of a role's task, so that long ones are not shown: the role writes them to a report, also those of a run
    that failed. Without points there is only a reason.
    """
    return dict(HIDDEN) if "points" in result and is_long(result) else {}


def told_invocation(invocation: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The arguments as a result may show them, with much verbosity or in the events of AWX.

    Of files their length, of points their number, since the result has them, and no values that may be secret.
    """
    arguments = invocation.get("module_args")
    if not isinstance(arguments, dict):
        return dict(invocation)
    told = without_values(arguments)
    if isinstance(told.get("files"), dict):
        told["files"] = {name: f"({len(str(text))} characters)" for name, text in told["files"].items()}
    if isinstance(told.get("points"), list):
        told["points"] = f"({len(told['points'])} points)"
    return {**invocation, "module_args": told}


def _without_launcher(
    points: t.Sequence[t.Mapping[str, t.Any]],
    outcomes: t.Mapping[int, t.Mapping[str, t.Any]],
    why: str,
    cause: ProblemDict | None = None,
) -> dict[str, t.Any]:
    """What is known of the points where the launcher does not answer any more. ``cause``: if something else is the reason."""
    lost = cause or problem("launcher-lost", reason=why).as_dict()
    known = dict(outcomes)
    status = "stopped"
    for number in range(1, len(points) + 1):
        if number not in known:
            known[number] = {"status": status, "problems": [lost], "unread": "the point did not finish"}
            status = "not_run"
    return assemble(points, known, {"msg": why})


def _archive_in(destination: str) -> str:
    return os.path.join(unfrackpath(destination, follow=False), "output.tar.gz")


def _in_archive(point: t.Mapping[str, t.Any], directory: str, archive: str) -> dict[str, str]:
    paths = {name: os.path.relpath(point[f"{name}_path"], directory) for name in ("stdout", "stderr")}
    return {"archive": archive, **paths}


@contextlib.contextmanager
def _at_most(seconds: float) -> t.Iterator[None]:
    """Raise _TookTooLong where something that may hang for ever does, and end the programs that it has started.

    Not by SIGALRM, which is the task's own time-out.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting = True
    over = threading.Event()

    def expire(_number: int, _frame: t.Any) -> None:
        if waiting:
            raise _TookTooLong(f"no answer within {seconds:g} s")

    def insist() -> None:
        # Python passes over what is raised while it removes an object.
        pause = seconds
        while not over.wait(pause):
            signal.pthread_kill(main, signal.SIGUSR1)
            pause = 1.0

    main = t.cast(int, threading.main_thread().ident)
    before = signal.signal(signal.SIGUSR1, expire)
    timer = threading.Thread(target=insist, daemon=True)
    timer.start()
    try:
        yield
    except _TookTooLong:
        waiting = False
        kill_descendants()
        raise
    finally:
        waiting = False
        over.set()
        timer.join()
        signal.signal(signal.SIGUSR1, before)
