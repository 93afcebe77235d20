# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
import uuid

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils import _process
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import (
    DidNotEnd,
    Process,
    ancestors,
    descendants,
    end,
    end_started,
    find_program,
    has_variable,
    identities,
    is_in_this_namespace,
    parse_start,
    parse_stat,
    read_processes,
    run,
    run_detached,
    send_signal,
    stamped,
)

TREE = {pid: Process(pid, parent, 0, ()) for pid, parent in ((1, 0), (10, 1), (11, 10), (12, 11), (20, 1))}


def test_parse_stat_survives_a_strange_name():
    assert parse_stat("42 (a) b (c)) S 7 42 42 0") == ("S", 7)


def test_parse_start_is_of_the_process():
    with open("/proc/self/stat") as file, open("/proc/uptime") as uptime:
        ticks = parse_start(file.read())
        seconds = float(uptime.read().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")
    assert 0 <= seconds < 24 * 3600


def test_descendants_and_ancestors():
    assert descendants(TREE, 10) == {10, 11, 12}
    assert descendants(TREE, 99) == set()
    assert ancestors(TREE, 12) == {12, 11, 10, 1}


def test_has_variable_matches_whole_values_only():
    environ = b"PATH=/bin\0GPUFABRIC_RUN_ID=night\0"
    assert has_variable(environ, "GPUFABRIC_RUN_ID", "night")
    assert has_variable(environ, "GPUFABRIC_RUN_ID", "day", "night")
    assert not has_variable(environ, "GPUFABRIC_RUN_ID", "nigh", "")
    assert not has_variable(environ, "GPUFABRIC_RUN_ID")
    assert not has_variable(environ, "RUN_ID", "night")


def marked(value):
    return lambda environ: has_variable(environ, "GPUFABRIC_TEST", value)


@pytest.fixture
def mark():
    """Of this test's processes only: others run beside it."""
    return uuid.uuid4().hex


@pytest.fixture
def sleeper(mark):
    """A process that ignores TERM and carries a mark, as a stubborn rank does."""
    program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    process = subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, "GPUFABRIC_TEST": mark}, stdout=subprocess.PIPE
    )
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_stamped_finds_it_and_not_others(sleeper, mark):
    assert stamped(read_processes(), marked(mark)) == {sleeper.pid}
    assert stamped(read_processes(), marked(mark[:-1])) == set()


def test_stamped_passes_over_processes_of_containers(mark):
    # As in a pod on a machine that is a node itself: what started it is the machine's, the rest is not.
    argv = ["unshare", "--pid", "--fork", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "sleep", "60"]
    environment = {**os.environ, "GPUFABRIC_TEST": mark}
    with subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE) as unshare:
        try:
            inside = set()
            while not inside and unshare.poll() is None:
                inside = descendants(read_processes(), unshare.pid) - {unshare.pid}
            if unshare.poll() is not None:
                pytest.skip(f"no PID namespace can be made here: {unshare.stderr.read().decode().strip()}")
            assert stamped(read_processes(), marked(mark)) <= {unshare.pid}
            assert is_in_this_namespace(unshare.pid) and not any(map(is_in_this_namespace, inside))
        finally:
            for pid in (*inside, unshare.pid):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its root")
def test_stamped_passes_over_a_container_that_shares_the_pids_of_the_machine(mark, tmp_path):
    """As a pod with ``hostPID`` does, whose run may have the same name and directory."""
    program = "import os, sys, time; os.chroot(sys.argv[1]); print(flush=True); time.sleep(60)"
    argv, environment = [sys.executable, "-c", program, tmp_path], {**os.environ, "GPUFABRIC_TEST": mark}
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"\n"
            assert process.pid in read_processes() and stamped(read_processes(), marked(mark)) == set()
        finally:
            process.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_stamped_passes_over_what_others_start_as_this_user(mark):
    """As su and sudo are, while they wait for a password: their environment is that of whoever has started them, and so is their memory."""
    program = "import os, time; os.setresuid(65534, 0, 0); print(flush=True); time.sleep(60)"
    environment = {**os.environ, "GPUFABRIC_TEST": mark}
    with subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            processes = read_processes()
            assert stamped(processes, marked(mark)) == set()
            assert len(processes[process.pid].command) == 1 < len(processes[os.getpid()].command)
        finally:
            process.kill()


def test_stamped_passes_over_the_caller():
    with open("/proc/self/environ", "rb") as file:
        name, _equals, value = file.read().split(b"\0")[0].decode().partition("=")
    assert os.getpid() not in stamped(read_processes(), lambda environ: has_variable(environ, name, value))


def test_end_kills_what_ignores_term(sleeper):
    mine = identities(read_processes(), [sleeper.pid])
    end(lambda: mine & identities(now := read_processes(), now), grace=0.1)
    assert sleeper.wait() == -signal.SIGKILL


@pytest.mark.parametrize("pidfd", [True, False])
def test_a_signal_does_not_reach_another_process_with_the_pid(sleeper, monkeypatch, pidfd):
    if not pidfd:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    ((pid, start),) = identities(read_processes(), [sleeper.pid])
    send_signal((pid, start - 1), signal.SIGKILL)
    with pytest.raises(subprocess.TimeoutExpired):
        sleeper.wait(0.1)
    send_signal((pid, start), signal.SIGKILL)
    assert sleeper.wait() == -signal.SIGKILL
    send_signal((pid, start), signal.SIGKILL)


def test_end_started_leaves_a_process_that_takes_a_pid_meanwhile(sleeper, mark, monkeypatch):
    # The tree is of one that began before this one: as if that had ended at TERM, and this one had got its pid.
    processes = read_processes()
    old = dataclasses.replace(processes[sleeper.pid], start=processes[sleeper.pid].start - 1)
    answers = iter([{**processes, sleeper.pid: old}])
    monkeypatch.setattr(_process, "read_processes", lambda: next(answers, processes))
    end_started(sleeper.pid, marked(mark + "-another"), grace=0.1)
    assert sleeper.poll() is None


def test_little_is_kept_of_a_long_command():
    """Of thousands of processes that another user has forked, which cost him little."""
    program, pipe = "print(flush=True); input()", subprocess.PIPE
    argv = [sys.executable, "-c", program, *["ab"] * 40000]
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe) as process:
        # While it begins, the kernel may not show its command yet.
        process.stdout.readline()
        command = read_processes()[process.pid].command
        process.communicate(b"\n")
    assert command[1:4] == ("-c", program, "ab") and sys.getsizeof(command) + sum(map(sys.getsizeof, command)) < 1 << 15


def test_a_process_that_has_ended_is_none(sleeper):
    sleeper.kill()
    while sleeper.pid in read_processes():
        pass
    assert os.path.isdir(f"/proc/{sleeper.pid}")  # It waits to be reaped.


def test_run_reports_what_cannot_be_run():
    with pytest.raises(NodeError, match="cannot run /nosuch"):
        run(["/nosuch"])
    with pytest.raises(NodeError, match="did not end within 0.1 s"):
        run([sys.executable, "-c", "import time; time.sleep(60)"], timeout=0.1)


def test_run_gives_both_outputs_and_takes_text():
    program = "import sys; print(sys.stdin.read()[::-1], end=''); print('e' * 200000, file=sys.stderr); sys.exit(3)"
    done = run([sys.executable, "-c", program], text="abc")
    assert (done.returncode, done.stdout, len(done.stderr)) == (3, "cba", 200001)
    # A program that reads nothing.
    assert run(["true"], text="x" * 60000).returncode == 0


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_run_ends_what_prints_without_end(stream):
    with pytest.raises(NodeError, match="was ended because it printed more than 1 MiB"):
        run([sys.executable, "-c", f"import sys\nwhile True: sys.{stream}.write('y' * 9999)"], timeout=60, most=1 << 20)


@pytest.mark.parametrize("own_session", [False, True])
def test_run_leaves_what_no_signal_ends(monkeypatch, own_session):
    """As nvidia-smi, if the kernel waits for a GPU that is gone."""
    with monkeypatch.context() as change:
        held = []
        change.setattr(subprocess.Popen, "kill", lambda process: held.append(process.pid))
        change.setattr(os, "killpg", lambda pid, _number: held.append(pid))
        with pytest.raises(DidNotEnd, match="sleep did not end within 0.1 s"):
            run(["sleep", "30"], timeout=0.1, own_session=own_session)
    (pid,) = held
    assert os.waitpid(pid, os.WNOHANG) == (0, 0)
    os.kill(pid, signal.SIGKILL)
    assert os.waitpid(pid, 0)[0] == pid


def test_run_ends_what_the_program_has_started(tmp_path):
    script = f"sleep 600 & echo $! >{tmp_path}/pid; wait"
    with pytest.raises(DidNotEnd):
        run(["sh", "-c", script], timeout=1.0, own_session=True)
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 10
    while pid in read_processes():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_find_program_knows_roots_directories(monkeypatch):
    monkeypatch.setenv("PATH", "/nosuch")
    assert find_program("no-such-program") is None
    assert find_program("ldconfig") is not None


def test_run_detached_holds_nothing_of_its_starter(tmp_path):
    pid_file = tmp_path / "pid"
    program = f"""
import os, sys, time
from {run_detached.__module__} import run_detached
held = open({str(tmp_path / "held")!r}, "w")
def work(begun):
    with open({str(pid_file)!r}, "w") as file:
        file.write(f"{{os.getpid()}} {{os.getsid(0)}} {{os.getppid()}}")
    begun()
    time.sleep(60)
run_detached(work, {str(tmp_path / "log")!r})
print(os.getpid())
"""
    # Its output ends, although what it has started goes on.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    argv = [sys.executable, "-c", program]
    done = subprocess.run(
        argv, env=environment, stdin=subprocess.PIPE, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    pid, session, parent = map(int, pid_file.read_text().split())
    try:
        assert pid in read_processes()
        assert session not in (pid, os.getsid(0)) and parent != int(done.stdout)
        held = {entry: os.readlink(f"/proc/{pid}/fd/{entry}") for entry in os.listdir(f"/proc/{pid}/fd")}
        assert held == {"0": os.devnull, "1": os.devnull, "2": str(tmp_path / "log")}
    finally:
        os.kill(pid, signal.SIGKILL)


def test_run_detached_says_why_it_fails(tmp_path):
    with pytest.raises(NodeError, match="by itself: ZeroDivisionError"):
        run_detached(lambda begun: 1 / 0, str(tmp_path / "log"))


#: Has the kernel show 64 GiB of memory as its environment, as any user may.
ENDLESS = """
import ctypes, mmap, sys, time
fields = open("/proc/self/stat").read().rpartition(")")[2].split()
stat = {number: int(value) for number, value in enumerate(fields[1:], 4)}
size = 64 << 30
memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
libc = ctypes.CDLL(None, use_errno=True)
libc.sbrk.restype = ctypes.c_void_p
begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
names = [26, 27, 45, 46, 47, None, 28, 48, 49]
values = [libc.sbrk(0) if name is None else stat[name] for name in names] + [begin, begin + size, 0]
settings = (ctypes.c_uint64 * 13)(*values, 0xFFFFFFFF << 32)
sys.exit(3) if libc.prctl(35, 14, settings, ctypes.c_ulong(104), 0) else print("set", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("program", [ENDLESS])
def test_no_more_of_an_environment_is_read_than_a_program_can_have(program):
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        if process.stdout.readline() != b"set\n":
            pytest.skip("the kernel does not let a process do so")
        assert len(_process.read_environment(process.pid)) == _process.LONGEST_ENVIRONMENT
        assert process.pid in _process.read_processes()
    finally:
        process.kill()
        process.communicate()
