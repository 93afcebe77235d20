# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.openmpi import PREFIX_VARIABLES
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import read_addresses as addresses_of_libc
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.probe import (
    arrived,
    foreign_python_home,
    is_foreign,
    loader_of,
    look,
    parse_addresses,
    parse_libraries,
    read_addresses,
    read_libraries,
    run,
)

LDD = """\
\tlinux-vdso.so.1 (0x00007ffc1)
\tlibopen-rte.so.40 => /opt/ompi/lib/libopen-rte.so.40 (0x00007f2)
\tlibucp.so.0 => not found
\tlibc.so.6 => /lib/libc.so.6 (0x00007f1)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f3)
"""
OLD = "/usr/bin/orted: /lib/libc.so.6: version `GLIBC_2.38' not found (required by /usr/bin/orted)\n"
MUSL = "Error loading shared library libmpi.so.40: No such file or directory (needed by /opt/perf)\n"


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (LDD, ["libucp.so.0"]),
        (OLD + LDD, ["GLIBC_2.38", "libucp.so.0"]),
        (MUSL, ["libmpi.so.40"]),
        ("\tnot a dynamic executable\n", []),
    ],
)
def test_what_the_loader_misses(text, missing):
    assert parse_libraries(text)[0] == missing


@pytest.mark.parametrize(("status", "misled"), [(1, ["OPAL_PREFIX=/opt/hpcx/ompi"]), (0, None)])
def test_a_variable_that_leads_to_another_open_mpi_is_seen_if_it_does_harm(tmp_path, monkeypatch, status, misled):
    (tmp_path / "bin").mkdir()
    for name in ("mpirun", "orted"):
        path = tmp_path / "bin" / name
        path.write_text(f'#!/bin/sh\necho "mpirun (Open MPI) 4.1.4"\n[ -z "$OPAL_PREFIX" ] || exit {status}\n')
        path.chmod(0o755)
    monkeypatch.setenv("OPAL_PREFIX", "/opt/hpcx/ompi")
    parameters = {
        "libraries": [],
        "program": None,
        "variables": {},
        "control": None,
        "data_interface": None,
        "daemon": "orted",
        "prefix": str(tmp_path),
        "places": [],
        "foreign": PREFIX_VARIABLES,
    }
    daemon = look(parameters)["daemon"]
    assert daemon["version"] == "mpirun (Open MPI) 4.1.4\n"
    assert daemon.get("misled") == misled
    monkeypatch.setenv("OPAL_PREFIX", str(tmp_path))
    assert "misled" not in look(parameters)["daemon"]


def test_what_the_loader_finds():
    assert parse_libraries(LDD)[1] == {
        "libopen-rte.so.40": "/opt/ompi/lib/libopen-rte.so.40",
        "libc.so.6": "/lib/libc.so.6",
    }


@pytest.mark.skipif(not shutil.which("ldd"), reason="there is no ldd")
def test_the_loader_itself_says_what_ldd_says(tmp_path):
    broken = tmp_path / "program"
    broken.write_bytes(pathlib.Path("/bin/sh").read_bytes().replace(b"libc.so.6\0", b"libq.so.6\0"))
    broken.chmod(0o755)
    for program, missing in ((os.path.realpath("/bin/sh"), []), (str(broken), ["libq.so.6"])):
        said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True)
        found = read_libraries(program, os.environ)
        assert found == parse_libraries(said.stdout + said.stderr) and found[0] == missing
    assert read_libraries(os.path.realpath("/bin/sh"), os.environ)[1]["libc.so.6"].startswith("/")


def elf(interpreter):
    """A file for this machine with one entry, which names a loader (elf(5))."""
    order = 1 if sys.byteorder == "little" else 2
    header = struct.pack("=4sBB10xHHIQQQIHHHHHH", b"\x7fELF", 2, order, 3, 0, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return header + struct.pack("=IIQQQQQQ", 3, 4, 120, 0, 0, len(interpreter), 0, 1) + interpreter


@pytest.mark.parametrize(
    ("content", "loader", "missing"),
    [
        (elf(b"/nosuch/ld.so\0"), "/nosuch/ld.so", ["/nosuch/ld.so"]),
        (elf(b"/nosuch/ld.so\0")[:80], None, []),
        (b"#!/bin/sh\n", None, []),
        (b"", None, []),
    ],
)
def test_the_loader_that_a_program_names(tmp_path, content, loader, missing):
    path = tmp_path / "program"
    path.write_bytes(content)
    assert loader_of(str(path)) == loader
    # It is not run.
    assert read_libraries(str(path), os.environ) == (missing, {})


def of_machine(number):
    with open("/proc/self/exe", "rb") as file:
        start = file.read(64)
    return start[:18] + struct.pack("=H", number) + start[20:]


@pytest.mark.parametrize(
    ("content", "foreign"),
    [
        # EM_VPP500: nobody has one, nor an emulator.
        (of_machine(17), True),
        (b"\x7fELFdamaged", True),
        (b"", True),
        (b"#!/bin/sh\n", False),
        # A shell takes it for a script.
        (b"exit 0\n", False),
    ],
)
def test_a_program_of_another_machine_is_known(tmp_path, content, foreign):
    path = tmp_path / "program"
    path.write_bytes(content)
    path.chmod(0o755)
    assert is_foreign(str(path), os.environ) == foreign


@pytest.mark.parametrize("path", ["/bin/sh", "/proc/self/exe", "/nosuch", "/"])
def test_a_program_of_this_machine_is_none_of_another(path):
    assert not is_foreign(path, os.environ)


def test_the_kernel_names_the_addresses_that_the_c_library_does():
    expected = [(item.interface, f"{item.address}/{item.prefix_length}") for item in addresses_of_libc()]
    assert sorted(read_addresses()) == sorted(expected)


def message(kind, family=0, index=0, prefix_length=0, **attributes):
    body = b"" if kind == 3 else struct.pack("=BBBBI", family, prefix_length, 0, 0, index)
    for number, value in ((1, "remote"), (2, "local"), (3, "label")):
        if value in attributes:
            data = attributes[value]
            body += struct.pack("=HH", 4 + len(data), number) + data + bytes(-len(data) % 4)
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 1, 0) + body


def test_what_the_kernel_says_of_addresses():
    ipv4 = message(
        20, socket.AF_INET, 2, 24, remote=bytes([10, 0, 0, 2]), local=bytes([10, 0, 0, 1]), label=b"eth0:1\0"
    )
    ipv6 = message(20, socket.AF_INET6, 3, 64, remote=socket.inet_pton(socket.AF_INET6, "fd00::1"))
    link_local = message(20, socket.AF_INET6, 3, 64, remote=socket.inet_pton(socket.AF_INET6, "fe80::1"))
    found = [(2, "eth0:1", "10.0.0.1", 24), (3, "", "fd00::1", 64)]
    assert parse_addresses(ipv4 + link_local + ipv6) == (found, False)
    assert parse_addresses(ipv4 + message(3)) == (found[:1], True)


@pytest.mark.parametrize(
    ("argv", "environment", "expected"),
    [
        (["/bin/sh", "-c", "echo $A; echo b >&2; exit 3"], {"A": "a"}, (3, "a\nb\n")),
        (["/bin/sh", "-c", "cat; kill -9 $$"], {}, (-1, "")),
        (["/nosuch"], {}, (127, "No such file or directory")),
    ],
)
def test_a_program_is_run(argv, environment, expected):
    assert run(argv, {"PATH": os.environ["PATH"], **environment}) == expected


def test_a_program_that_hangs_is_ended():
    assert run(["/bin/sh", "-c", "echo a; exec sleep 3600"], os.environ, 2) == (-1, "a\n")


@pytest.mark.parametrize(
    ("home", "foreign"),
    [(None, False), ("", False), ("/usr", False), ("/usr:/usr/", False), ("/opt/garbage", True), ("/usr:/opt", True)],
)
def test_a_python_home_of_another_interpreter_is_seen(home, foreign):
    environment = {} if home is None else {"PYTHONHOME": home}
    assert foreign_python_home(environment, "/usr") == (home if foreign else None)


@pytest.mark.parametrize(
    ("name", "value", "environment", "found"),
    [
        ("NCCL_DEBUG", "INFO", {"NCCL_DEBUG": "INFO"}, True),
        ("NCCL_DEBUG", "INFO", {}, False),
        # Of gpufabric_node_env: what sshd sets comes before what was sent.
        ("NCCL_IB_HCA", "mlx5_1", {"NCCL_IB_HCA": "mlx5_2"}, True),
        ("LD_LIBRARY_PATH", "/a:/b", {"LD_LIBRARY_PATH": "/own:/a:/b"}, True),
        ("LD_LIBRARY_PATH", "/a:/b", {"LD_LIBRARY_PATH": "/own:/a"}, False),
    ],
)
def test_which_variables_have_arrived(name, value, environment, found):
    assert arrived({name: value}, environment) == {name: found}
