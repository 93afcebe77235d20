# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records what nccl-tests, NCCL and nvidia-smi print on a machine with GPUs, and whether the collection reads it right: make gpu.

usage: record.py DIRECTORY. It gets NAME.out and NAME.err of each command, files that commands write, report/ of the playbook bare_metal
on this machine, and index.json with versions, exit statuses and seconds. The exit status is 1 if the collection did not read something as
it should have.

GPUFABRIC_NCCL_TESTS: a directory with the programs in build/ and the libraries that they need in lib/; by default they are built.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import diagnose
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.reader import Facts, Source
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.toolchain import read_architectures
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.reader import read_log
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.summary import describe_transport, transport_of
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import parse_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 90
#: Of a play.
PLAY_SECONDS = 600
OPTIONS = (
    *("-C 1", "-S 1", "-I 1", "-M 1", "-c 0", "-N 3", "-m 2", "-G 1", "-R 1", "-R 2", "-z 1", "-a 3", "-y 1", "-u 1", "-T 30"),
)  # fmt: skip
#: What the look of the collection asks nvidia-smi, and what else tells how a number was made.
QUERIES = {
    "names": ("--query-gpu=name", "--format=csv,noheader"),
    "capabilities": ("--query-gpu=compute_cap", "--format=csv,noheader"),
    "state": (
        "--query-gpu=index,name,uuid,pci.bus_id,driver_version,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,"
        "clocks.sm,clocks.max.sm,power.limit,temperature.gpu,ecc.errors.uncorrected.volatile.total,compute_mode,mig.mode.current",
        "--format=csv",
    ),
    "list": ("-L",),
    "all": ("-q", "-x"),
    "topology": ("topo", "-m"),
    "nvlink": ("nvlink", "-s"),
}
#: What NCCL's RAS is asked, by the name of its answer.
RAS = {"status": "STATUS\n", "verbose": "VERBOSE STATUS\n", "json": "SET FORMAT json\nVERBOSE STATUS\n"}
_RAS_ADDRESS = ("127.0.0.1", 28028)


@dataclasses.dataclass(frozen=True)
class Recording:
    """A command. ``wanted``: what the collection is to make of its output, ``result`` or ``cause``, or nothing."""

    name: str
    argv: tuple[str, ...]
    wanted: str = ""
    env: t.Mapping[str, str] = dataclasses.field(default_factory=dict)


def of_programs(
    programs: t.Sequence[pathlib.Path], all_reduce: str, gpus: int, out: pathlib.Path
) -> t.Iterator[Recording]:
    """All programs, all options that change an output, and failures that can be made."""
    small = ("-b", "8", "-e", "1M", "-f", "8", "-n", "5", "-w", "1", "-g", "1")
    for path in programs:
        sizes = ("-b", "8", "-e", "16M", "-f", "2", "-n", "5", "-w", "1", "-g", str(gpus))
        yield Recording(path.name, (str(path), *sizes), "result")
        yield Recording(f"{path.name}-json", (str(path), *small, "-J", str(out / f"{path.name}.json")), "result")
    types = ("-b", "1M", "-e", "1M", "-n", "3", "-g", "1", "-d", "all", "-o", "all")
    yield Recording("all-types", (all_reduce, *types), "result")
    for option in OPTIONS:
        name = "option" + option.replace(" ", "")
        yield Recording(name, (all_reduce, *small, *option.split()), "result")
        json_file = str(out / f"{name}.json")
        yield Recording(f"{name}-json", (all_reduce, *small, *option.split(), "-J", json_file), "result")
    log = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,GRAPH", "NCCL_DEBUG_FILE": str(out / "nccl-log.%h.%p")}
    yield Recording("log-in-a-file", (all_reduce, *small), "result", log)
    yield Recording("log-in-the-output", (all_reduce, *small), "result", {"NCCL_DEBUG": "INFO"})
    yield Recording("log-of-all", (all_reduce, *small), "", {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "ALL"})
    yield Recording("too-many-gpus", (all_reduce, "-g", str(gpus + 1)), "cause")
    yield Recording("no-gpu", (all_reduce, "-g", "1"), "cause", {"CUDA_VISIBLE_DEVICES": ""})
    # Lowered by the program: a warning of its result.
    yield Recording("too-large", (all_reduce, "-b", "1M", "-e", "4096G", "-f", "65536", "-n", "1", "-g", "1"))
    yield Recording("bad-argument", (all_reduce, "-b", "nonsense"))
    yield Recording("bad-interface", (all_reduce, *small), "", {"NCCL_SOCKET_IFNAME": "nosuch0", "NCCL_DEBUG": "WARN"})
    yield Recording("one-gpu-twice", ("mpirun", "--oversubscribe", "--allow-run-as-root", "-n", "2", "-x", "NCCL_TESTS_DEVICE",
                                      all_reduce, *small), "", {"NCCL_TESTS_DEVICE": "0", "NCCL_DEBUG": "WARN"})  # fmt: skip


class Recorder:
    """Runs commands, and keeps what they print."""

    def __init__(self, out: pathlib.Path, libraries: str) -> None:
        self.entries: list[dict[str, t.Any]] = []
        self.bad = 0
        self._out = out
        self._libraries = libraries

    def _environment(self, more: t.Mapping[str, str]) -> dict[str, str]:
        paths = [self._libraries, os.environ.get("LD_LIBRARY_PATH", "")]
        return {**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, paths)), **more}

    def begin(self, recording: Recording) -> subprocess.Popen[bytes]:
        """Start a command in a session of its own, which is ended as a whole."""
        with open(self._out / f"{recording.name}.out", "wb") as out, open(
            self._out / f"{recording.name}.err", "wb"
        ) as err:
            return subprocess.Popen(
                recording.argv, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=self._environment(recording.env), start_new_session=True
            )  # fmt: skip

    def record(self, recording: Recording, seconds: float = SECONDS) -> None:
        """Run a command to its end, or for so many seconds."""
        begun = time.monotonic()
        try:
            process = self.begin(recording)
        except OSError as error:
            self.note(recording, None, 0.0, f"not started: {error.strerror}")
            return
        try:
            status: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        end(process)
        self.note(recording, status, time.monotonic() - begun, self._read(recording, status))

    def note(self, recording: Recording, status: int | None, seconds: float, told: str) -> None:
        """Keep what became of a command, and show it."""
        argv = [os.path.basename(recording.argv[0]), *recording.argv[1:]]
        self.entries.append({"name": recording.name, "argv": argv, "env": dict(recording.env), "status": status,
                             "seconds": round(seconds, 2), "read_as": told})  # fmt: skip
        print(f"{recording.name:32} {'ended' if status is None else status:>6} {seconds:6.1f} s  {told}", flush=True)

    def _read(self, recording: Recording, status: int | None) -> str:
        """What the collection makes of the output; it counts if that is not what is wanted."""
        if recording.argv[0] in ("nvidia-smi", "ansible-playbook"):
            return ""
        out, err = (self._out / f"{recording.name}.{end}" for end in ("out", "err"))
        if status == 0 and recording.wanted != "cause":
            told = read_results(out) if recording.wanted else ""
            is_right = not recording.wanted or told.startswith(("pass", "unchecked"))
        else:
            sources = [Source(path.suffix[1:], path.read_text(errors="replace").splitlines()) for path in (err, out)]
            told = ", ".join(problem.id for problem in diagnose(sources, status, Facts()))
            # An option that this build or this GPU does not have is told by the program.
            is_right = recording.wanted != "cause" or (status != 0 and told not in ("", "unknown"))
        self.bad += not is_right
        return told if is_right else f"WRONG: {told}"


def read_results(path: pathlib.Path) -> str:
    """The verdicts and problems of the tests in a file, in words."""
    try:
        documents = parse_file(str(path))
    except GpufabricError as error:
        return str(error)
    return "; ".join(
        " ".join([document["verdict"], *(item["id"] for item in document["problems"])]) for document in documents
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of a session that begin started; its number is no one else's until the process is waited for."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def ask_ras(question: str) -> bytes:
    """What RAS of a run on this machine answers. Raises OSError."""
    with socket.create_connection(_RAS_ADDRESS, 5) as connection:
        connection.settimeout(20)
        connection.sendall(b"CLIENT PROTOCOL 2\n" + question.encode())
        parts = []
        while True:
            part = connection.recv(65536)
            if not part:
                return b"".join(parts)
            parts.append(part)


def record_while_running(recorder: Recorder, out: pathlib.Path, all_reduce: str) -> None:
    """RAS and nvidia-smi while a program runs, which is killed then."""
    # Without a warm-up, which is of the largest size; the program takes as much memory as there is.
    large = ("-e", "4096G", "-w", "0", "-g", "1")
    recording = Recording("killed", (all_reduce, "-b", "64M", "-n", "200000", *large), "", {"NCCL_RAS_ENABLE": "1"})
    process = recorder.begin(recording)
    begun = time.monotonic()
    try:
        time.sleep(8)
        for name, question in RAS.items():
            try:
                (out / f"ras-{name}.out").write_bytes(ask_ras(question))
                told = "answered"
            except OSError as error:
                told = f"no answer: {error}"
            print(f"ras-{name:28} {'':6} {'':8}  {told}", flush=True)
        recorder.record(Recording("nvidia-smi-while-running", ("nvidia-smi",)))
        recorder.record(Recording("no-memory-left", (all_reduce, "-b", "1M", "-f", "65536", "-n", "1", *large)))
    finally:
        end(process)
    recorder.note(recording, process.returncode, time.monotonic() - begun, read_results(out / "killed.out"))


def record_playbook(recorder: Recorder, out: pathlib.Path, build: pathlib.Path, libraries: str) -> str:
    """The whole way, from the private sshd to the verdict, on this machine alone; in words, what came of it."""
    needed = ("ansible-playbook", "mpirun", "sshd", "ssh", "ssh-keygen")
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin"])
    lacking = [name for name in needed if not shutil.which(name, path=path)]
    if lacking:
        return f"left out, since the machine has no {', '.join(lacking)}"
    variables = {
        "gpufabric_run_id": "gpu-recording",
        "gpufabric_environment": {"LD_LIBRARY_PATH": libraries},
        "nccl_benchmark_backend": "nccl",
        "nccl_benchmark_dir": str(build),
        "nccl_benchmark_transport": True,
        "nccl_benchmark_max_bytes": "16M",
        "nccl_benchmark_iterations": 5,
        "report_dir": str(out / "report"),
    }
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = {"all": {"hosts": {socket.gethostname(): host}}}
    (out / "inventory.json").write_text(json.dumps(inventory))
    arguments = ("-i", str(out / "inventory.json"), "-e", json.dumps(variables))
    environment = {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
    for name in ("bare_metal", "teardown"):
        argv = ("ansible-playbook", f"gpufabric.nccl.{name}", *arguments)
        recorder.record(Recording(f"playbook-{name}", argv, "", environment), PLAY_SECONDS)
    try:
        written = json.loads((out / "report" / "results.json").read_text())
    except (OSError, ValueError) as error:
        recorder.bad += 1
        return f"WRONG: no results: {error}"
    (document,) = written["results"]
    transport = document["transport"]
    is_right = document["verdict"] == "pass" and {entry["status"] for entry in recorder.entries[-2:]} == {0}
    recorder.bad += not is_right
    words = [document["verdict"], *(item["id"] for item in document["problems"])]
    told = ", ".join([*words, describe_transport(transport) if transport else "no transport"])
    return told if is_right else f"WRONG: {told}"


def read_versions(out: pathlib.Path) -> dict[str, str]:
    """What made the recordings, as far as it says so."""
    found = {"system": platform.platform()}
    with contextlib.suppress(GpufabricError):
        tool = parse_file(str(out / "all_reduce_perf.out"))[0]["tool"]
        found.update({"nccl_tests": tool["version"] or "", "nccl": tool["nccl_version"] or ""})
    for name, argv in {
        "driver": ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "mpirun": ("mpirun", "--version"),
        "ansible": ("ansible-playbook", "--version"),
    }.items():
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        found[name] = done.stdout.partition("\n")[0] if done.returncode == 0 else ""
    return found


def count_gpus() -> tuple[int, str]:
    """How many GPUs nvidia-smi lists, and why it is none."""
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return 0, str(error)
    count = sum(line.startswith("GPU ") for line in done.stdout.splitlines())
    return count, (done.stdout + done.stderr).strip()[:200] or f"exit status {done.returncode}"


def programs_and_libraries() -> tuple[list[pathlib.Path], str]:
    """The programs, and where the loader finds CUDA and NCCL. Raises SystemExit."""
    given = os.environ.get("GPUFABRIC_NCCL_TESTS")
    if given:
        place, libraries = pathlib.Path(given), str(pathlib.Path(given) / "lib")
    else:
        # For the GPUs that there are.
        _vendor, capabilities = read_architectures()
        argv = [ROOT / "scripts" / "nccl-tests", *(capabilities or ["9.0"])]
        done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(
                "make gpu: nccl-tests cannot be built, see above; GPUFABRIC_NCCL_TESTS may name a directory that has it"
            )
        place = pathlib.Path(done.stdout.strip())
        nvidia = place.parent / "toolkit" / "nvidia"
        libraries = f"{nvidia}/cu13/lib:{nvidia}/nccl/lib"
    programs = sorted((place / "build").glob("*_perf"))
    if not any(path.name == "all_reduce_perf" for path in programs):
        raise SystemExit(
            f"GPUFABRIC_NCCL_TESTS: {given!r} is not allowed; allowed: a directory with build/all_reduce_perf"
        )
    return programs, libraries


def main() -> int:
    """Record all of it."""
    gpus, reason = count_gpus()
    if not gpus:
        print(f"make gpu: nvidia-smi lists no GPU here ({reason}): nothing is recorded")
        return 0
    programs, libraries = programs_and_libraries()
    out = pathlib.Path(sys.argv[1]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(out, libraries)
    all_reduce = str(programs[0].parent / "all_reduce_perf")
    print(
        f"{gpus} GPUs; recordings in {out}; each command is ended after {SECONDS} s\n\n{'what':32} status  seconds  read as"
    )
    for name, arguments in QUERIES.items():
        recorder.record(Recording(f"nvidia-smi-{name}", ("nvidia-smi", *arguments)))
    for recording in of_programs(programs, all_reduce, gpus, out):
        recorder.record(recording)
    for path in sorted(out.glob("*.json")):
        if path.name not in ("index.json", "inventory.json"):
            told = read_results(path)
            recorder.bad += not told.startswith(("pass", "unchecked", "incomplete"))
            print(f"{path.name:32} {'':6} {'':8}  {told}")
    for path in sorted(out.glob("nccl-log.*")):
        transport = transport_of(read_log(str(path)).facts)
        print(f"{path.name[:32]:32} {'':6} {'':8}  {describe_transport(transport) if transport else 'no transport'}")
    record_while_running(recorder, out, all_reduce)
    played = record_playbook(recorder, out, programs[0].parent, libraries)
    print(f"{'playbook':32} {'':6} {'':8}  {played}")
    index = {
        "date": datetime.date.today().isoformat(),
        "versions": read_versions(out),
        "gpus": gpus,
        "playbook": played,
        "recordings": recorder.entries,
    }
    (out / "index.json").write_text(json.dumps(index, indent=1) + "\n")
    print(f"\n{len(recorder.entries)} commands recorded in {out}; read otherwise than they should be: {recorder.bad}")
    return 1 if recorder.bad else 0


if __name__ == "__main__":
    sys.exit(main())
