# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What a node looks like from the inside of an ssh session, where mpirun's daemon will live.

It runs on a peer from the standard input of Python, with the few modules that it imports and nothing else of the collection.
What it costs there is mostly the start of Python and of its modules. So it does without subprocess, json, re, typing and
ctypes, which take as long to import as all that it does.
"""

from __future__ import annotations

import _thread
import errno
import os
import pwd
import select
import socket
import struct
import sys
import time

from ansible_collections.gpufabric.nccl.plugins.module_utils._connect import connect, read_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    import typing as t

#: Begins each line that is meant for the launcher; a login shell may print whatever it likes before. A literal follows.
MARK = "GPUFABRIC-PROBE "

#: Of linux/netlink.h and linux/rtnetlink.h: a header, and what follows it in a message about an address.
_HEADER = struct.Struct("=IHHII")
_ADDRESS = struct.Struct("=BBBBI")
_ERROR, _DONE, _NEW_ADDRESS, _GET_ADDRESS, _REQUEST_ALL = 2, 3, 20, 22, 0x301
_REMOTE, _LOCAL, _LABEL = 1, 2, 3

#: Of an ELF file (elf(5)): its first bytes with 64 bits in this machine's byte order, and its entry that names the loader.
_ELF = b"\x7fELF\x02" + (b"\x01" if sys.byteorder == "little" else b"\x02")
_INTERPRETER = 3


def run(argv: list[str], environment: t.Mapping[str, str], seconds: float = 10.0) -> tuple[int, str]:
    """Exit status (127: it cannot be started; less than 0: it was killed) and output of a short program."""
    reader, writer = os.pipe()
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, writer, 1),
        (os.POSIX_SPAWN_DUP2, writer, 2),
    ]
    try:
        # The probe has no module: its source goes to Python's standard input.
        pid = os.posix_spawn(argv[0], argv, environment, file_actions=actions)  # pylint: disable=ansible-bad-function
    except OSError as error:
        os.close(reader)
        return 127, error.strerror or str(error)
    finally:
        os.close(writer)
    deadline = time.monotonic() + seconds
    output = b""
    while select.select([reader], [], [], max(deadline - time.monotonic(), 0))[0]:
        block = os.read(reader, 1 << 16)
        if not block:
            break
        output += block
    else:
        os.kill(pid, 9)
    os.close(reader)
    status = os.waitpid(pid, 0)[1]
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1, output.decode(errors="replace")


def find_program(name: str) -> str | None:
    """The path of a program; also where only root's PATH leads, since a container's may be short."""
    directories = f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin".split(":")
    paths = (os.path.join(directory, name) for directory in directories)
    return next((path for path in paths if os.access(path, os.X_OK) and not os.path.isdir(path)), None)


def text_of(path: str) -> str:
    """The text of a file, or nothing: an entry of /sys may be there and give an error when it is read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def parse_libraries(text: str) -> tuple[list[str], dict[str, str]]:
    """What the loader misses, and the files of the libraries that it finds by their names, from what it lists."""
    missing = set()
    found = {}
    for line in text.splitlines():
        name, arrow, path = (*line.split(), "", "", "")[:3]
        if arrow == "=>" and line.endswith("=> not found"):
            missing.add(name)
        elif arrow == "=>" and path.startswith("/"):
            found[name] = path
        elif "version " in line and line.partition("' ")[2].startswith("not found"):
            # A library is there, but older than the program needs it.
            missing.add(line.partition("' ")[0].partition("version ")[2].strip("`'"))
        elif line.startswith("Error loading shared library "):
            # In musl's own words.
            missing.add(line.split()[4].rstrip(":"))
    return sorted(missing), found


def loader_of(path: str) -> str | None:
    """The loader that a program names; None where it needs none, is for another machine, or cannot be read."""
    try:
        with open(path, "rb") as file:
            head = file.read(64)
            if not head.startswith(_ELF):
                return None
            (offset,) = struct.unpack_from("=Q", head, 32)
            size, count = struct.unpack_from("=HH", head, 54)
            file.seek(offset)
            table = file.read(size * count)
            for start in range(0, size * count, size):
                kind, _flags, offset, _virtual, _physical, length = struct.unpack_from("=IIQQQQ", table, start)
                if kind == _INTERPRETER:
                    file.seek(offset)
                    return os.fsdecode(file.read(length).rstrip(b"\0"))
    except (OSError, struct.error):
        pass
    return None


def read_libraries(path: str, environment: t.Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """The same as parse_libraries of a program, as ldd finds them out, which is a script that takes several times as long."""
    loader = loader_of(path)
    if loader is None:
        return [], {}
    if not os.path.exists(loader):
        return [loader], {}
    name = os.path.basename(loader)
    if name.startswith("ld-musl-"):
        return parse_libraries(run([loader, "--list", path], environment)[1])
    # Another loader may not know the variable, and would run the program.
    if not name.startswith(("ld-linux", "ld64.so.", "ld.so.")):
        return [], {}
    # With --list, glibc's ends at the first library that is missing.
    return parse_libraries(run([loader, path], {**environment, "LD_TRACE_LOADED_OBJECTS": "1"})[1])


def is_foreign(path: str, environment: t.Mapping[str, str]) -> bool:
    """Whether the kernel takes a program for none of this machine's: it is another machine's, or damaged, or empty."""
    own, its = _kind_of("/proc/self/exe"), _kind_of(path)
    if its is None or its == own:
        return False
    # An emulator may run it.
    return run([path, "--version"], environment) == (127, os.strerror(errno.ENOEXEC))


def _kind_of(path: str) -> bytes | None:
    """What machine a program says that it is for, empty if it is cut off; None if it is a script or cannot be read."""
    try:
        with open(path, "rb") as file:
            start = file.read(20)
    except OSError:
        return None
    # The class, the order of bytes and the machine in the header of ELF, elf(5).
    return start[4:6] + start[18:20] if start.startswith(b"\x7fELF") or not start else None


def parse_addresses(message: bytes) -> tuple[list[tuple[int, str, str, int]], bool]:
    """Index and label of the interface, address and length of its prefix; and whether the kernel has said all (rtnetlink(7)).

    Link-local addresses of IPv6 are left out, since they name no peer without a zone.
    """
    found: list[tuple[int, str, str, int]] = []
    start = 0
    while start < len(message):
        length, kind, _flags, _number, _pid = _HEADER.unpack_from(message, start)
        if kind in (_DONE, _ERROR):
            return found, True
        if kind == _NEW_ADDRESS:
            place = start + _HEADER.size
            family, prefix_length, _flags, _scope, index = _ADDRESS.unpack_from(message, place)
            place += _ADDRESS.size
            values = {}
            while place < start + length:
                size, name = struct.unpack_from("=HH", message, place)
                values[name] = message[place + 4 : place + size]
                place += (size + 3) & ~3
            raw = values.get(_LOCAL) or values.get(_REMOTE) or b""
            link_local = family == socket.AF_INET6 and raw[:1] == b"\xfe" and raw[1] >> 6 == 2
            if raw and not link_local and family in (socket.AF_INET, socket.AF_INET6):
                label = values.get(_LABEL, b"").rstrip(b"\0").decode()
                found.append((index, label, socket.inet_ntop(family, raw), prefix_length))
        start += (length + 3) & ~3
    return found, False


def read_addresses() -> list[tuple[str, str]]:
    """Interface, and address with prefix length, of all that are up; without ctypes the kernel is asked, not the C library."""
    found: list[tuple[int, str, str, int]] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        ask = _HEADER.size + _ADDRESS.size
        kernel.send(_HEADER.pack(ask, _GET_ADDRESS, _REQUEST_ALL, 1, 0) + _ADDRESS.pack(0, 0, 0, 0, 0))
        done = False
        while not done:
            part, done = parse_addresses(kernel.recv(1 << 17))
            found += part
    names = dict(socket.if_nameindex())
    up = {index for index, name in names.items() if int(text_of(f"/sys/class/net/{name}/flags") or "1", 16) & 1}
    return [(label or names[index], f"{address}/{length}") for index, label, address, length in found if index in up]


def look(parameters: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What there is of what a launch needs. ``parameters``: as the launcher's settings say."""
    inherited = os.environ.get("LD_LIBRARY_PATH", "")
    path = ":".join(part for part in (*parameters["libraries"], *inherited.split(":")) if part)
    environment = {**os.environ, "LD_LIBRARY_PATH": path}
    program = parameters["program"]
    return {
        "hostname": socket.gethostname(),
        "shell": _login_shell(),
        "python": sys.executable,
        "environment": arrived(parameters["variables"], os.environ),
        "python_home": foreign_python_home(os.environ, sys.base_prefix),
        "daemon": _daemon(parameters, environment),
        "program": None if program is None else _program(program, environment),
        "interfaces": _interfaces((parameters["control"], *(parameters["data_interface"] or "").split(","))),
    }


def foreign_python_home(environment: t.Mapping[str, str], prefix: str) -> str | None:
    """PYTHONHOME, if it is set to anything but the interpreter's own ``prefix``; this program was started without a look at it."""
    home = environment.get("PYTHONHOME", "")
    homes = {os.path.realpath(path) for path in home.split(":") if path}
    return home if homes - {os.path.realpath(prefix)} else None


def _login_shell() -> str | None:
    # The private sshd gives what it is asked to run to sh where the login shell would not read it.
    if "SSH_ORIGINAL_COMMAND" in os.environ:
        return "/bin/sh"
    try:
        return pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:
        return None


def arrived(variables: t.Mapping[str, str], environment: t.Mapping[str, str]) -> dict[str, bool]:
    """Whether variables that were sent are in an environment.

    A shell's own start files may put paths before those of a variable, and sshd may set another value than was sent.
    """
    return {
        name: name in environment
        and (not name.endswith("PATH") or set(value.split(":")) <= set(environment[name].split(":")))
        for name, value in variables.items()
    }


def _daemon(parameters: t.Mapping[str, t.Any], environment: t.Mapping[str, str]) -> dict[str, t.Any]:
    name, prefix = parameters["daemon"], parameters["prefix"]
    path = os.path.join(prefix, "bin", name)
    facts = {"path": path, "exists": os.path.exists(path), "executable": os.access(path, os.X_OK)}
    if facts["exists"]:
        facts["foreign"] = is_foreign(path, environment)
        # Of one that does not start, its loader is no cause.
        facts["missing"], found = ([], {}) if facts["foreign"] else read_libraries(path, environment)
        # The version of the library that the daemon really starts with: libopen-rte in 4.x, libprrte in 5.x.
        own = next((found[soname] for soname in sorted(found) if soname.startswith(("libopen-rte", "libprrte"))), None)
        facts["runtime"] = own and os.path.basename(os.path.realpath(own))
    else:
        import glob

        on_path = find_program(name)
        others = [place for pattern in parameters["places"] for place in sorted(glob.glob(f"{pattern}/bin/{name}"))]
        facts["elsewhere"] = [*([on_path] if on_path else []), *others]
    # What points to another Open MPI keeps this one's mpirun from running.
    foreign = [
        variable
        for variable in parameters["foreign"]
        if os.path.realpath(os.environ.get(variable, prefix)) != os.path.realpath(prefix)
    ]
    own_environment = {variable: value for variable, value in environment.items() if variable not in foreign}
    ask = [os.path.join(prefix, "bin", "mpirun"), "--version"]
    status, text = run(ask, own_environment)
    # A worker needs no mpirun, and what keeps one from running keeps the daemon, too.
    facts["version"] = text if status == 0 else None
    # Another installation of the same release may do as well.
    if foreign and status == 0 and run(ask, environment)[0] != 0:
        facts["misled"] = [f"{variable}={os.environ[variable]}" for variable in foreign]
    return facts


def _program(path: str, environment: t.Mapping[str, str]) -> dict[str, t.Any]:
    facts = {"path": path, "exists": os.path.exists(path), "executable": os.access(path, os.X_OK)}
    if not facts["exists"]:
        return facts
    import hashlib

    facts["missing"], found = read_libraries(path, environment)
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
    except OSError:
        pass
    facts["sha256"] = digest.hexdigest()
    for key, start in (("mpi", "libmpi.so"), ("nccl", ("libnccl.so", "librccl.so"))):
        own = next((found[soname] for soname in sorted(found) if soname.startswith(start)), None)
        facts[key] = own and os.path.realpath(own)
    return facts


def _interfaces(wanted: t.Sequence[str | None]) -> dict[str, dict[str, t.Any]]:
    """Those with an address, and the wanted ones; a node of a cluster has one more for each of its pods."""
    addresses: dict[str, list[str]] = {name: [] for name in wanted if name and os.path.isdir(f"/sys/class/net/{name}")}
    for name, address in read_addresses():
        addresses.setdefault(name, []).append(address)
    mtus = {name: text_of(f"/sys/class/net/{name}/mtu") for name in addresses}
    return {
        name: {"mtu": int(mtus[name]) if mtus[name] else None, "addresses": addresses[name]}
        for name in sorted(addresses)
    }


def call_back(address: str, port: int, token: str, timeout: float) -> dict[str, t.Any]:
    """Connect to the launcher as a daemon will. ``offset``: seconds that this clock is ahead of the launcher's, give or
    take half of ``seconds``, the time that question and answer took.
    """
    attempt = connect(address, port, timeout)
    facts = {"status": attempt.status, "text": attempt.text, "by": attempt.by}
    if attempt.connection is None:
        return facts
    with attempt.connection as connection:
        facts["source"] = connection.getsockname()[0]
        asked, connected = time.time(), True
        try:
            connection.sendall(f"{token}\n".encode())
            answer = read_line(connection).decode(errors="replace").split()
        except OSError as error:
            answer, connected = str(error).split(), False
        answered = time.time()
    if len(answer) != 2 or answer[0] != token:
        status = "not-ours" if connected and answer else "timeout"
        return {**facts, "status": status, "text": " ".join(answer)[:100]}
    return {**facts, "seconds": answered - asked, "offset": (asked + answered) / 2 - float(answer[1])}


def say(facts: t.Mapping[str, t.Any]) -> None:
    """Tell the launcher."""
    sys.stdout.write(f"\n{MARK}{facts!a}\n")
    sys.stdout.flush()


def begin(parameters: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What this peer looks like, and what came of its call to the launcher."""

    def end() -> None:
        # A machine that hangs must not leave the probe behind when the launcher is gone.
        time.sleep(parameters["deadline"])
        os._exit(1)

    _thread.start_new_thread(end, ())
    callback = parameters["callback"]
    facts = look(parameters)
    answer = call_back(callback["address"], callback["port"], parameters["token"], parameters["timeout"])
    return {**facts, "callback": {**callback, **answer}}


def main(parameters: t.Mapping[str, t.Any]) -> None:
    """Say what this peer looks like."""
    say(begin(parameters))
    os._exit(0)
