# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._probe import parse_ldd, pids_directories, pids_left

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
    assert parse_ldd(text)[0] == missing


def test_what_the_loader_finds():
    assert parse_ldd(LDD)[1] == {
        "libopen-rte.so.40": "/opt/ompi/lib/libopen-rte.so.40",
        "libc.so.6": "/lib/libc.so.6",
    }


@pytest.mark.parametrize(("maximum", "current", "left"), [("100\n", "40\n", 60), ("max", "40", None), ("", "", None)])
def test_how_many_processes_a_control_group_takes(maximum, current, left):
    assert pids_left(maximum, current) == left


def test_where_a_limit_on_processes_may_be():
    assert pids_directories("0::/a/b\n") == ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]
    assert pids_directories("8:pids:/a\n7:memory:/x\n") == ["/sys/fs/cgroup/pids/a", "/sys/fs/cgroup/pids"]
