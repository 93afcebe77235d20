# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The processes of a node: found by what they descend from or carry in their environment, never by name."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import resource
import select
import shutil
import signal
import subprocess
import threading
import time
import traceback
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import read_text

#: Bytes that are read of a process's environment and command. A program has at most 6 MiB of both when it is started, but any user may
#: have the kernel show all of a process's memory as these (prctl, PR_SET_MM_MAP). Commands are kept, of all processes.
LONGEST_ENVIRONMENT, _LONGEST_COMMAND = 6 << 20, 1 << 13
#: Words of a command that are told apart; each takes more memory than its text.
_MOST_WORDS = 100

#: Seconds that a program has to be gone when it was killed.
_LAST_WAIT = 1.0

#: The pid of a process and its start, which name it; a pid alone may be another's by now.
Identity = t.Tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Process:
    """A process that runs; one that has ended and waits to be reaped is none."""

    pid: int
    parent: int
    uid: int
    command: tuple[str, ...]
    #: Clock ticks since boot.
    start: int = 0


def parse_stat(stat: str) -> tuple[str, int]:
    """State letter and parent's pid, from the text of /proc/PID/stat; the name in it may hold blanks and brackets."""
    fields = stat[stat.rindex(")") + 1 :].split()
    return fields[0], int(fields[1])


def parse_start(stat: str) -> int:
    """When a process began, in clock ticks since boot, from the text of /proc/PID/stat: with the pid, it names one process."""
    return int(stat[stat.rindex(")") + 1 :].split()[19])


def descendants(processes: t.Mapping[int, Process], *pids: int) -> set[int]:
    """The processes and all that they started and that still hang on them."""
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    waiting = [pid for pid in pids if pid in processes]
    while waiting:
        current = waiting.pop()
        found.add(current)
        waiting.extend(child for child in children.get(current, ()) if child not in found)
    return found


def kill_descendants() -> None:
    """Kill all that this process has started. Where there is no /proc, they stay."""
    with contextlib.suppress(OSError):
        for pid in descendants(read_processes(), os.getpid()) - {os.getpid()}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def ancestors(processes: t.Mapping[int, Process], pid: int) -> set[int]:
    """The process and all that it descends from."""
    found: set[int] = set()
    while pid in processes and pid not in found:
        found.add(pid)
        pid = processes[pid].parent
    return found


def has_variable(environ: bytes, name: str, *values: str) -> bool:
    """Whether an environment, in the form of /proc/PID/environ, holds ``name`` with one of the values."""
    return not {f"{name}={value}".encode() for value in values}.isdisjoint(environ.split(b"\0"))


def read_processes() -> dict[int, Process]:
    """All running processes of the node, by pid.

    The command of those of other users, but root, is the kernel's name for them, of up to 15 characters: they can hold up whoever reads more.
    """
    trusted = {0, os.getuid(), os.geteuid()}
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        # It may end while it is looked at.
        with contextlib.suppress(OSError):
            path = f"/proc/{entry}"
            with open(f"{path}/stat", encoding="utf-8", errors="replace") as file:
                status = file.read()
            state, parent = parse_stat(status)
            if state in "ZX":
                continue
            command: tuple[str, ...] = (status[status.index("(") + 1 : status.rindex(")")],)
            if _real_user(int(entry)) in trusted:
                with open(f"{path}/cmdline", encoding="utf-8", errors="replace") as file:
                    command = tuple(file.read(_LONGEST_COMMAND).rstrip("\0").split("\0", _MOST_WORDS))
            found[int(entry)] = Process(int(entry), parent, os.stat(path).st_uid, command, parse_start(status))
    return found


def read_environment(pid: int) -> bytes:
    """The environment of a process, in the form of /proc/PID/environ. Raises OSError."""
    with open(f"/proc/{pid}/environ", "rb") as file:
        return file.read(LONGEST_ENVIRONMENT)


def identities(processes: t.Mapping[int, Process], pids: t.Iterable[int]) -> set[Identity]:
    """The identities of these processes."""
    return {(pid, processes[pid].start) for pid in pids}


def send_signal(identity: Identity, number: int) -> None:
    """Send a signal to a process, unless it has ended; never to another one that has got its pid."""
    pid, start = identity
    with contextlib.suppress(ProcessLookupError, FileNotFoundError), contextlib.ExitStack() as stack:
        descriptor = None
        # Python 3.9 and Linux 5.3.
        with contextlib.suppress(AttributeError, OSError):
            descriptor = os.pidfd_open(pid)  # type: ignore[attr-defined]
            stack.callback(os.close, descriptor)
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            if parse_start(file.read()) != start:
                return
        if descriptor is not None:
            try:
                signal.pidfd_send_signal(descriptor, number)  # type: ignore[attr-defined]
                return
            except ProcessLookupError:
                return
            except OSError:
                # A filter of system calls.
                pass
        os.kill(pid, number)


def is_in_this_namespace(pid: int) -> bool:
    """Whether a process is in this PID namespace and file system, as far as one can see: those of a container here are another node's.

    Containers may share the PID namespace of their machine (``hostPID``).
    """
    try:
        is_here = os.readlink(f"/proc/{pid}/ns/pid") == os.readlink("/proc/self/ns/pid")
        return is_here and os.path.samefile(f"/proc/{pid}/root", "/")
    except OSError:
        return True


#: Whether a process is meant, by its environment in the form of /proc/PID/environ.
Selector = t.Callable[[bytes], bool]


def stamped(processes: t.Mapping[int, Process], is_meant: Selector) -> set[int]:
    """This user's processes that are known by their environment.

    Not those of programs that anybody may start as this user, such as su: theirs is of whoever did. But for the caller and its
    ancestors, and for those of containers on this machine: these are nodes of their own, whose runs may have the same name.
    """
    user = os.geteuid()
    own = ancestors(processes, os.getpid())
    found = set()
    for pid, process in processes.items():
        if process.uid != user or pid in own or not is_in_this_namespace(pid):
            continue
        with contextlib.suppress(OSError):
            if _real_user(pid) == user and is_meant(read_environment(pid)):
                found.add(pid)
    return found


def _real_user(pid: int) -> int | None:
    """The id of the user who has started a process. Raises OSError."""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("Uid:")), None)


def end(select: t.Callable[[], set[Identity]], grace: float = 3.0) -> None:
    """End the selected processes: TERM, then KILL after ``grace`` seconds, until none is selected any more.

    ``select`` is asked anew each time, since a process that ends may have started others. Raises NodeError.
    """
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, 10.0)):
        deadline = time.monotonic() + seconds
        signalled: set[Identity] = set()
        while True:
            found = select()
            if not found:
                return
            for identity in found - signalled:
                send_signal(identity, number)
            signalled |= found
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
    raise NodeError(f"processes that do not end: {', '.join(str(pid) for pid, _start in sorted(select()))}")


def end_started(pid: int | None, is_meant: Selector, grace: float = 3.0) -> None:
    """End a process and all that hangs on it, and all that is known by its environment.

    ``pid`` None: the latter only.

    What left the tree to run on its own still has the environment, and what lost the environment is still in the tree.
    """
    before = read_processes()
    tree = identities(before, descendants(before, pid)) if pid is not None else set()

    def select() -> set[Identity]:
        processes = read_processes()
        return (tree & identities(processes, processes)) | identities(processes, stamped(processes, is_meant))

    end(select, grace)


def find_program(name: str) -> str | None:
    """The path of a program; also where only root's PATH leads, since a container's may be short."""
    return shutil.which(
        name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin:/usr/sbin:/sbin"])
    )


def raise_file_limit() -> None:
    """Let this process have as many files open as it may."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def start_detached(argv: t.Sequence[str], environment: t.Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a program that goes on when the caller and the connection that brought it are gone."""
    # The module's run_command waits for the end of what it starts.
    return subprocess.Popen(  # pylint: disable=ansible-bad-function
        argv,
        env=dict(environment),
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def run_detached(work: t.Callable[[t.Callable[[], None]], None], log: str) -> None:
    """Run a function in a process that goes on when the caller and the connection that brought it are gone.

    ``work`` gets a function to call as soon as all is well; this waits for that. ``log``: the file that a process which
    fails leaves its reason in. It is forked, not started from a file: the code of a module goes when the module ends, and
    is all in memory here. Raises NodeError where it fails before all is well.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        # Never back into the caller's code: that is the parent's.
        try:
            os.setsid()
            # No child of the caller's, so that nobody has to wait for it.
            if os.fork() == 0:
                _work_detached(work, log, writer)
        finally:
            os._exit(1)
    os.close(writer)
    with open(reader, "rb") as file:
        began = file.read()
    os.waitpid(child, 0)
    if not began:
        reason = (read_text(log) or "").splitlines()
        raise NodeError(
            f"no process can be started that goes on by itself: {reason[-1] if reason else 'no reason given'}"
        )


def _work_detached(work: t.Callable[[t.Callable[[], None]], None], log: str, writer: int) -> None:
    def begun() -> None:
        os.write(writer, b"1")
        os.close(writer)

    status = 1
    try:
        # A connection ends when nobody holds its pipes any more.
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(0, 1)
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
        _let_go(writer)
        work(begun)
        status = 0
    except Exception:
        # Nobody is there to raise it to.
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)


def _let_go(kept: int) -> None:
    """Close what is open but for the standard streams and ``kept``, and leave the directory."""
    for entry in os.listdir("/proc/self/fd"):
        if int(entry) not in (0, 1, 2, kept):
            with contextlib.suppress(OSError):
                os.close(int(entry))
    os.chdir("/")


def run_apart(work: t.Callable[[], bytes], seconds: float, most: int = 1 << 20) -> bytes:
    """What a function returns that looks at what other users have shaped; nothing if it fails, takes longer or returns more.

    Their file systems and processes may hold whoever looks at them for ever, even against KILL. So that is a process of its own, which
    holds nothing that others wait for.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            for stream in (0, 1, 2):
                os.dup2(os.open(os.devnull, os.O_RDWR), stream)
            _let_go(writer)
            data = work()
            while data:
                data = data[os.write(writer, data) :]
        finally:
            os._exit(0)
    os.close(writer)
    try:
        data = _read_all([reader], time.monotonic() + seconds, most)[0]
    except (TimeoutError, OverflowError):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, os.WNOHANG)
        return b""
    finally:
        os.close(reader)
    os.waitpid(child, 0)
    return data


class DidNotEnd(NodeError):
    """A program that took too long and was ended."""


def run(
    argv: t.Sequence[str],
    timeout: float = 30.0,
    environment: t.Mapping[str, str] | None = None,
    text: str = "",
    most: int = 64 << 20,
    own_session: bool = False,
    data: bytes = b"",
) -> subprocess.CompletedProcess[str]:
    """Run a short program to its end, output as text.

    ``text``: what it reads, of less than 64 KiB; ``data``: the same in bytes, of any length. ``most``: how many bytes it may print.
    ``own_session``: it gets one; if it is ended before it ends itself, so is what it has started there.
    Raises NodeError where it hangs, prints more or cannot be started.
    """
    try:
        # The module's run_command has no limits of time and output.
        process = subprocess.Popen(  # pylint: disable=ansible-bad-function
            argv,
            env=environment,
            stdin=subprocess.PIPE if text or data else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=own_session,
            bufsize=0,
        )
    except OSError as error:
        raise NodeError(f"cannot run {argv[0]}: {error.strerror}") from error
    with contextlib.ExitStack() as pipes:
        for pipe in (process.stdout, process.stderr, process.stdin):
            if pipe:
                pipes.callback(pipe.close)
        try:
            if process.stdin and data:
                # It may print before it has read everything.
                threading.Thread(target=_feed, args=(process.stdin, data), daemon=True).start()
            elif process.stdin:
                with contextlib.suppress(BrokenPipeError), process.stdin:
                    process.stdin.write(text.encode())
            deadline = time.monotonic() + timeout
            outputs = [pipe.fileno() for pipe in (process.stdout, process.stderr) if pipe]
            output = _read_all(outputs, deadline, most)
            process.wait(max(deadline - time.monotonic(), 0))
        except (TimeoutError, subprocess.TimeoutExpired):
            raise DidNotEnd(f"{argv[0]} did not end within {timeout:g} s") from None
        except OverflowError:
            raise NodeError(f"{argv[0]} was ended because it printed more than {most >> 20} MiB") from None
        finally:
            if process.poll() is None:
                if own_session:
                    os.killpg(process.pid, signal.SIGKILL)
                else:
                    process.kill()
                # One that is held in the kernel does not end, such as nvidia-smi if a GPU is gone.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_LAST_WAIT)
    stdout, stderr = (data.decode("utf-8", errors="replace") for data in output)
    return subprocess.CompletedProcess(argv, process.returncode, stdout, stderr)


def _feed(pipe: t.IO[bytes], data: bytes) -> None:
    """Write all of it, and close the pipe; a program that has ended does not want it."""
    view = memoryview(data)
    with contextlib.suppress(OSError, ValueError), pipe:
        while view:
            view = view[pipe.write(view) :]


def _read_all(descriptors: t.Sequence[int], deadline: float, most: int) -> list[bytes]:
    """All that comes of each of these until its end. Raises TimeoutError, or OverflowError where it is more than ``most`` bytes."""
    found: dict[int, list[bytes]] = {descriptor: [] for descriptor in descriptors}
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    open_ones = len(descriptors)
    size = 0
    while open_ones:
        left = deadline - time.monotonic()
        ready = poll.poll(left * 1000) if left > 0 else []
        if not ready:
            raise TimeoutError
        for descriptor, _event in ready:
            data = os.read(descriptor, 1 << 16)
            found[descriptor].append(data)
            size += len(data)
            if not data:
                poll.unregister(descriptor)
                open_ones -= 1
        if size > most:
            raise OverflowError
    return [b"".join(parts) for parts in found.values()]
