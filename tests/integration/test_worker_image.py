# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The entrypoint of the worker image as process 1 of containers over this machine's own root, with real ssh.

What is not slow shows that it serves, says what is wrong and ends. The rest changes only with containers/worker, and is not slow either
where that has changed.
"""

from __future__ import annotations

import itertools
import os
import pathlib
import subprocess
import typing as t

import pytest
from background import wait
from changes import has_changed

DIRECTORY = pathlib.Path(__file__).parents[2] / "containers/worker"
PROGRAM = "/opt/gpufabric-worker.py"
USER_ID = 12345

CHANGED = has_changed("containers/worker")

#: As an ordinary user in group 0, under which OpenShift runs containers; the commands before run as root.
AS_USER = f"exec setpriv --reuid={USER_ID} --regid=0 --clear-groups"
#: Waits for somebody to listen on port 22.
TAKEN = "until ss -Hlnt 'sport = 22' | grep -q .; do sleep 0.1; done"


def slow_test(function: t.Callable[..., None]) -> t.Callable[..., None]:
    """A test that is slow, unless the image has changed."""
    return function if CHANGED else pytest.mark.slow(function)


def slow(*values: t.Any) -> t.Any:
    """Parameters with which a test is slow, unless the image has changed."""
    return pytest.param(*values, marks=() if CHANGED else pytest.mark.slow)


def call(*argv: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False)


class Worker:
    """A container whose first process is the entrypoint."""

    def __init__(self, name: str, address: str, key: pathlib.Path) -> None:
        self.name = name
        self.address = address
        self._key = key

    def log(self) -> str:
        """All that the container wrote."""
        done = call("podman", "logs", self.name)
        return done.stdout + done.stderr

    def wait(self) -> int:
        """The exit status of the container, once it has ended."""
        return int(call("podman", "wait", "--interval=50ms", self.name).stdout)

    def wait_for(self, text: str) -> None:
        wait(lambda: text in self.log(), left=self.log)

    def find(self, begin: str) -> int:
        """The process whose command begins so, once there is one: what was started may still be called as its starter."""

        def found() -> list[int]:
            return [pid for pid, (_parent, _state, command) in self.processes().items() if command.startswith(begin)]

        wait(found, left=lambda: str(self.processes()))
        return found()[0]

    def shell(self, command: str, *options: str) -> str:
        """Run a command in the container."""
        done = call("podman", "exec", *options, self.name, "sh", "-c", command)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def processes(self) -> dict[int, tuple[int, str, str]]:
        """Parent, state and command of each process."""
        rows = [line.split(None, 3) for line in self.shell("ps -e -o pid=,ppid=,state=,args=").splitlines()]
        return {int(pid): (int(parent), state, command) for pid, parent, state, command in rows}

    def ssh(
        self, *command: str, port: int = 22, user: str = "root", **options: str
    ) -> subprocess.CompletedProcess[str]:
        """Log in from this machine."""
        given = {"StrictHostKeyChecking": "no", "UserKnownHostsFile": "/dev/null", "BatchMode": "yes", **options}
        arguments = [f"-o{name}={value}" for name, value in given.items()]
        keys = ["-F/dev/null", "-oIdentitiesOnly=yes", f"-i{self._key}", "-oLogLevel=ERROR"]
        return call("ssh", *keys, *arguments, f"-p{port}", f"{user}@{self.address}", *command)


@pytest.fixture
def secret(tmp_path: pathlib.Path) -> pathlib.Path:
    """A directory as a Secret of the MPI Operator is mounted: links to files below ..data, readable by all."""
    data = tmp_path / "secret" / "..2026_01_01"
    data.mkdir(parents=True)
    call("ssh-keygen", "-q", "-t", "ecdsa", "-b", "521", "-m", "PEM", "-N", "", "-f", str(data / "id_rsa"))
    (data / "authorized_keys").write_text((data / "id_rsa.pub").read_text())
    (data.parent / "..data").symlink_to(data.name)
    for file in data.iterdir():
        file.chmod(0o644)
        (data.parent / file.name).symlink_to(f"..data/{file.name}")
    data.parent.chmod(0o1777)
    return data.parent


@pytest.fixture
def key(secret: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """The private key of the Secret, for ssh of this machine."""
    path = tmp_path / "key"
    path.write_bytes((secret / "id_rsa").read_bytes())
    path.chmod(0o600)
    return path


@pytest.fixture
def start(nodes: t.Any, secret: pathlib.Path, key: pathlib.Path) -> t.Iterator[t.Callable[..., Worker]]:
    """Starts workers beside the nodes, which have the networks; all are removed at the end."""
    network = f"gpufabric-{nodes.run_id}-control"
    subnet = nodes.addresses[nodes.names[0]].rpartition(".")[0]
    numbers = itertools.count(200)
    started = []

    def run(
        *arguments: str,
        before: str = "exec",
        options: t.Sequence[str] = (),
        mount: str = "/root/.ssh",
        detach: bool = True,
        **environment: str,
    ) -> Worker:
        number = next(numbers)
        # An address always has the same MAC address, so that this machine need not forget that of an earlier test.
        worker = Worker(f"gpufabric-{nodes.run_id}-image-{number}", f"{subnet}.{number}", key)
        started.append(worker.name)
        variables = {"START_SSHD": "true", **environment}
        done = call(
            "podman", "run", "--detach", f"--name={worker.name}", f"--hostname=worker-{number}", "--cgroups=disabled",
            "--security-opt=label=disable", "--tmpfs=/run:rw,exec,mode=0755,notmpcopyup",
            "--tmpfs=/tmp:rw,exec,mode=1777,notmpcopyup", "--ulimit=nofile=1024:4096", "--ulimit=nproc=4096:8192",
            f"--network={network}:ip={worker.address},mac=02:42:0a:42:00:{number:02x}", f"--volume={DIRECTORY}/entrypoint.py:{PROGRAM}:ro",
            *([f"--volume={secret}:{mount}:ro"] if mount else []),
            *(f"--env={name}={value}" for name, value in variables.items()), *options,
            "--rootfs", "/:O", "/bin/sh", "-c", f'{before} "$0" "$@"', "/usr/bin/python3", "-I", PROGRAM, *arguments,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return worker

    yield run
    for name in started:
        # crun fails at times where processes of a container are still ending.
        wait(lambda name=name: call("podman", "rm", "--force", "--ignore", "--time=0", name).returncode == 0)


def test_key_of_a_read_only_secret_lets_in_and_the_environment_is_there(start, secret):
    value = '/opt/a b/lib:/opt/"quoted"\\lib'
    worker = start(
        "shell", LD_LIBRARY_PATH=value, PATH="/opt/mpi/bin:/usr/sbin:/usr/bin", MY_OWN="yes", A_SERVICE_HOST="1.1.1.1"
    )
    worker.wait_for("Server listening")

    done = worker.ssh("echo $LD_LIBRARY_PATH; echo $PATH; echo $MY_OWN; echo $A_SERVICE_HOST; echo $NCCL_DEBUG; id -un")
    library_path, path, *others = done.stdout.splitlines()
    # This machine's own .bashrc may have put something before.
    assert library_path == value and path.endswith("/opt/mpi/bin:/usr/sbin:/usr/bin"), done
    assert others == ["yes", "", "", "root"], done
    sent = worker.ssh("echo $NCCL_DEBUG", SetEnv="NCCL_DEBUG=INFO")
    assert sent.stdout == "INFO\n"
    assert {file.stat().st_mode & 0o777 for file in secret.iterdir() if file.is_file()} == {0o644}
    modes = worker.shell("stat -c '%a %n' /run/gpufabric-worker /run/gpufabric-worker/*").split("\n")
    assert "700 /run/gpufabric-worker" in modes and "600 /run/gpufabric-worker/id_rsa" in modes


@slow_test
def test_workers_reach_each_other_without_an_option_and_only_with_the_key_of_the_job(start, tmp_path):
    first, second = start("shell"), start("shell")
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    call("ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", str(stranger / "id_rsa"))
    authorized = (tmp_path / "secret/authorized_keys").read_text()
    (stranger / "authorized_keys").write_text(authorized)
    third = start("shell", mount="", options=[f"--volume={stranger}:/root/.ssh:ro"])
    for worker in (first, second, third):
        worker.wait_for("Server listening")

    assert first.shell(f"ssh -o BatchMode=yes {second.address} hostname") == "worker-201\n"
    # It lets the key in, but cannot show that it is of the job.
    refused = first.shell(f"ssh -o BatchMode=yes {third.address} hostname 2>&1; echo $?")
    assert "Host key verification failed" in refused and refused.endswith("255\n")
    # As the usual recipes do it.
    assert first.shell(f"ssh -o StrictHostKeyChecking=no {third.address} hostname 2>/dev/null") == "worker-202\n"


@slow_test
def test_nobody_else_gets_in(start, tmp_path):
    worker = start("shell")
    worker.wait_for("Server listening")
    other = tmp_path / "other"
    call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other))
    refused = worker.ssh("true", PreferredAuthentications="password,keyboard-interactive")
    assert refused.returncode == 255 and "Permission denied (publickey)" in refused.stderr
    with_other = Worker(worker.name, worker.address, other).ssh("true")
    assert with_other.returncode == 255 and "Permission denied (publickey)" in with_other.stderr
    assert worker.ssh("true").returncode == 0


@slow_test
def test_host_keys_are_each_containers_own(start):
    workers = [start("shell"), start("shell")]
    keys = set()
    for worker in workers:
        worker.wait_for("Server listening")
        keys.add(call("ssh-keyscan", "-t", "ed25519", worker.address).stdout.split()[-1])
    assert len(keys) == 2


@slow_test
def test_orphans_are_reaped(start):
    worker = start("shell")
    worker.wait_for("Server listening")
    assert worker.ssh("(sleep 0.3 & sleep 1000 >/dev/null 2>&1 &) >/dev/null 2>&1").returncode == 0
    orphan = worker.find("sleep 1000")
    assert worker.processes()[orphan][0] == 1
    worker.shell(f"kill {orphan}")
    # Both of them, and what else has just ended.
    wait(lambda: not any("sleep" in row[2] or row[1].startswith("Z") for row in worker.processes().values()))


@pytest.mark.parametrize(("number", "status"), [("TERM", 143), slow("INT", 130)])
def test_a_signal_ends_all_at_once(start, number, status):
    worker = start("shell")
    worker.wait_for("Server listening")
    # One that has a session, one that is an orphan, one that does not listen to SIGTERM.
    worker.ssh("sleep 1000 >/dev/null 2>&1 </dev/null &")
    worker.ssh("(trap '' TERM; sleep 1001 >/dev/null 2>&1 </dev/null) >/dev/null 2>&1 </dev/null &")
    session = subprocess.Popen(
        ["podman", "exec", worker.name, "ssh", "-oBatchMode=yes", "localhost", "sleep", "1002"],
        stdin=subprocess.DEVNULL,
    )
    for program in ("sleep 1000", "sleep 1001", "sleep 1002"):
        worker.find(program)
    call("podman", "kill", f"--signal={number}", worker.name)
    assert worker.wait() == status, worker.log()
    session.wait(timeout=120)
    assert f"ends by SIG{number}" in worker.log()


@slow_test
def test_the_end_of_sshd_ends_the_container(start):
    worker = start("shell")
    worker.wait_for("Server listening")
    worker.shell("kill -KILL $(pgrep -o -x sshd)")
    assert worker.wait() == 1
    assert "sshd was ended by SIGKILL, so this container ends" in worker.log()


@slow_test
def test_shell_without_sshd_only_waits(start):
    worker = start("shell", START_SSHD="false")
    # The kernel drops a signal that process 1 has not yet provided for, which it does before it copies the keys.
    wait(lambda: "id_rsa" in worker.shell("ls /run/gpufabric-worker || true"))
    assert not any("sshd" in command for _parent, _state, command in worker.processes().values())
    call("podman", "kill", "--signal=TERM", worker.name)
    assert worker.wait() == 143


@slow_test
def test_shell_with_a_terminal_is_a_shell(start):
    worker = start("shell", options=["--tty", "--interactive"])
    worker.wait_for("Server listening")
    assert worker.ssh("hostname").returncode == 0
    attach = subprocess.run(
        ["podman", "attach", "--sig-proxy=false", worker.name],
        input="echo $((40 + 2)); exit 5\n", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert worker.wait() == 5
    assert "42" in attach.stdout + worker.log()


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["sh", "-c", "exit 7"], 7),
        slow(["sh", "-c", "kill -KILL $$"], 137),
        slow(["no-such-program"], 127),
        slow(["/etc/passwd"], 126),
        slow(["sh", "-c", "sleep 1000 & exit 0"], 0),
    ],
)
@slow_test
def test_exit_status_of_a_command(start, command, status):
    worker = start(*command)
    assert worker.wait() == status
    assert "sshd" not in worker.log()


@slow_test
def test_a_command_decides_how_it_ends(start):
    script = (
        "trap 'echo asked; sleep 0.5; exit 3' TERM; trap 'echo nudged' USR1; echo ready; while :; do sleep 0.1; done"
    )
    worker = start("bash", "-c", script)
    worker.wait_for("ready")
    call("podman", "kill", "--signal=USR1", worker.name)
    worker.wait_for("nudged")
    call("podman", "kill", "--signal=TERM", worker.name)
    assert worker.wait() == 3
    assert "asked" in worker.log()


@slow_test
def test_a_command_has_default_signals(start):
    worker = start("grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status")
    assert worker.wait() == 0
    # But for those that the C library keeps to itself.
    assert [int(line.split()[1], 16) & ~0x180000000 for line in worker.log().splitlines()] == [0, 0], worker.log()


@slow_test
def test_a_launchers_command_reaches_workers(start):
    worker = start("shell")
    worker.wait_for("Server listening")
    launcher = start("ssh", "-o", "BatchMode=yes", worker.address, "hostname")
    assert launcher.wait() == 0, launcher.log()
    assert launcher.log() == "worker-200\n"


def test_as_an_ordinary_user_without_an_entry(start):
    as_user = {"before": AS_USER, "mount": "/etc/job-keys", "SSH_AUTH_DIR": "/etc/job-keys"}
    worker = start("shell", **as_user)
    worker.wait_for("Server listening on 0.0.0.0 port 2222")
    done = worker.ssh("id -u; id -un; echo ~", port=2222, user="worker")
    home = f"/tmp/gpufabric-worker-{USER_ID}"
    assert done.stdout.splitlines() == [str(USER_ID), "worker", home], done
    # As the README says for those who come by kubectl exec; the keys that sshd reads are there all the time.
    beside = f"/usr/bin/python3 -I {PROGRAM} ssh -oBatchMode=yes -p2222 {worker.address} id -un"
    assert worker.shell(beside, f"--user={USER_ID}:0") == "worker\n"
    launcher = start("ssh", "-oBatchMode=yes", worker.address, "id -u", **as_user)
    assert launcher.wait() == 0, launcher.log()
    assert launcher.log() == f"{USER_ID}\n"
    call("podman", "kill", "--signal=TERM", worker.name)
    assert worker.wait() == 143


def test_the_home_of_a_user_stays_as_it_is(start, tmp_path):
    """Without root, and with homes that are mounted: one with a configuration of ssh, which applies, and an empty one."""
    keys = {"mount": "/etc/job-keys", "SSH_AUTH_DIR": "/etc/job-keys"}
    before = f"echo me:x:{USER_ID}:0::/home/me:/bin/sh >>/etc/passwd; {AS_USER}"
    homes = tmp_path / "given", tmp_path / "empty"
    for home in homes:
        home.mkdir()
    server = start("shell", before=before, options=[f"--volume={homes[1]}:/home/me"], **keys)
    server.wait_for("Server listening")
    given = homes[0] / ".ssh/config"
    given.parent.mkdir(mode=0o700)
    given.write_text(f"Host friend\n  HostName {server.address}\nHost elsewhere\n  Port 1\n")
    for path in (homes[0], homes[1], given.parent, given):
        os.chown(path, USER_ID, 0)
    commands = f"ssh -oBatchMode=yes friend id -un && ssh -G elsewhere true | grep -x 'port .*' && ssh -oBatchMode=yes {server.address} hostname"
    launcher = start("sh", "-c", commands, before=before, options=[f"--volume={homes[0]}:/home/me"], **keys)
    assert launcher.wait() == 0, launcher.log()
    assert launcher.log() == "me\nport 1\nworker-200\n"
    assert list(homes[1].iterdir()) == []
    assert [path.name for path in homes[0].rglob("*")] == [".ssh", "config"]
    assert given.read_text().startswith("Host friend\n")


@slow_test
def test_entry_that_a_container_engine_made_up_is_not_used(start):
    line = f"{USER_ID}:x:{USER_ID}:0:user:/:/sbin/nologin"
    as_user = {"before": f"echo {line} >>/etc/passwd; {AS_USER}"}
    keys = {"mount": "/etc/job-keys", "SSH_AUTH_DIR": "/etc/job-keys"}
    worker = start("shell", **as_user, **keys)
    worker.wait_for("Server listening on 0.0.0.0 port 2222")
    launcher = start("ssh", "-oBatchMode=yes", worker.address, "id -un", **as_user, **keys)
    assert launcher.wait() == 0, launcher.log()
    assert launcher.log() == "worker\n"


@slow_test
def test_not_as_process_1(start):
    worker = start("shell", before='sh -c \'sleep 1000 & "$0" "$@"; echo status $?\'')
    worker.wait_for("Server listening")
    own = worker.find(f"/usr/bin/python3 -I {PROGRAM} shell")
    worker.ssh("sleep 1001 >/dev/null 2>&1 </dev/null &")
    orphan = worker.find("sleep 1001")
    assert worker.processes()[orphan][0] == own
    worker.shell(f"kill -TERM {own}")
    worker.wait_for("status 143")


@pytest.mark.parametrize(
    ("settings", "status", "line"),
    [
        ({"mount": ""}, 1, "no authorized_keys in /root/.ssh"),
        slow({"mount": "/keys", "SSH_AUTH_DIR": "/none"}, 1, "no authorized_keys in /none (No such file or directory)"),
        slow({"SSHD_PORT": "ssh"}, 1, "SSHD_PORT=ssh is not allowed; allowed: 1 to 65535"),
        slow({"START_SSHD": "yes"}, 1, "START_SSHD=yes is not allowed; allowed: true, false"),
        slow({"SSHD_LISTEN_ADDRESS": "10.255.0.1"}, 1, "port 22 of 10.255.0.1 cannot be had: Cannot assign requested address"),
        slow(
            {"before": f"python3 -m http.server 22 >/dev/null 2>&1 & {TAKEN}; exec"},
            1,
            "port 22 of 0.0.0.0 cannot be had: Address already in use; set SSHD_PORT to a free one",
        ),
        slow({"before": "rm /usr/sbin/sshd; exec"}, 1, "sshd is not in this image: install openssh-server"),
        slow({"before": "rm /usr/bin/ssh-keygen; exec"}, 1, "ssh-keygen is not in this image: install openssh-client"),
        slow({"before": "usermod -L root; rm /etc/pam.d/sshd; exec"}, 1, "the account root is locked and there is no /etc/pam.d/sshd"),
        slow({"options": ["--cap-drop=SYS_CHROOT"]}, 1, "sshd cannot serve without SYS_CHROOT"),
        slow({"before": "userdel -f sshd; exec"}, 1, "sshd refuses its configuration: Privilege separation user sshd does not"),
        slow(
            {"before": f"rm -f /usr/lib/*/libnss_wrapper.so; {AS_USER}"},
            1,
            f"the user id {USER_ID} has no entry in /etc/passwd",
        ),
        slow(
            {"before": f"{AS_USER}", "mount": "/keys", "SSH_AUTH_DIR": "/keys", "SSHD_PORT": "22"},
            1,
            f"port 22 is not permitted to the user {USER_ID}: set SSHD_PORT to one above 1023",
        ),
        slow(
            {"before": f"cp -rL /root/.ssh /keys; chmod 600 /keys/*; {AS_USER}", "SSH_AUTH_DIR": "/keys"},
            1,
            f"cannot read /keys/authorized_keys as user {USER_ID}: set fsGroup",
        ),
        slow(
            {"before": "mkdir /keys; echo no key >/keys/id_rsa; cp /root/.ssh/authorized_keys /keys; exec", "SSH_AUTH_DIR": "/keys"},
            1,
            "the private key /keys/id_rsa cannot be used",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_keeps_sshd_from_serving_ends_the_container_with_one_line(start, settings, status, line):
    worker = start("shell", **settings)
    assert worker.wait() == status, worker.log()
    lines = worker.log().splitlines()
    assert len(lines) == 1 and lines[0].startswith(f"gpufabric-worker: {line}"), lines
