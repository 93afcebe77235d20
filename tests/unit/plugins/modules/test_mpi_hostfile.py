# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir
from ansible_collections.gpufabric.nccl.plugins.modules import mpi_hostfile

HOST = {"name": "g2"}
FILE = "is not allowed; allowed: the path of a hostfile on this node"
READABLE = "is not allowed; allowed: a file on this host that can be read"
DEST = "is not allowed; allowed: a path in a directory that exists and can be written"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hosts": []}, "hosts: [] is not allowed; allowed: at least one host with its name or address"),
        (
            {"hosts": [{"slots": 1}]},
            "hosts[0]: {'slots': 1, 'name': None, 'address': None} is not allowed;"
            " allowed: a host with its name, its address, or both",
        ),
        ({"hosts": [{**HOST, "slots": 0}]}, "hosts[0].slots: 0 is not allowed; allowed: 1 or more"),
        (
            {"hosts": [{**HOST, "address": "g2"}]},
            "hosts[0].address: 'g2' is not allowed; allowed: a numeric address; a name goes into name",
        ),
        (
            {"hosts": [{"name": "a b"}]},
            "hosts[0].name: 'a b' is not allowed; allowed: a host name or a numeric address",
        ),
        (
            {"hosts": [{"name": "a b", "address": "10.0.0.1"}], "numeric": False},
            "hosts[0].name: 'a b' is not allowed; allowed: a host name or a numeric address",
        ),
        (
            {"hosts": [HOST, HOST]},
            "hosts: each host once, with all its slots: hosts[1]: g2 is there already, hosts[0]",
        ),
        ({"hosts": None, "src": "/nosuch"}, f"src: '/nosuch' {FILE}"),
        ({"hosts": None, "src": "/etc"}, f"src: '/etc' {READABLE} (Is a directory)"),
        ({"dest": "/dev/null"}, f"dest: '/dev/null' {DEST}"),
        ({"timeout": -1}, "timeout: -1.0 is not allowed; allowed: 0 or more seconds"),
        ({"timeout": "nan"}, "timeout: nan is not allowed; allowed: 0 or more seconds"),
        ({"interval": -1}, "interval: -1.0 is not allowed; allowed: 0 or more seconds"),
        (
            {"interface": "nosuch7"},
            "interface: 'nosuch7' is not allowed; allowed: an interface of this node that has an address:"
            " {interfaces_with_address}",
        ),
        (
            {"subnet": "10.66.0.0"},
            "subnet: '10.66.0.0' is not allowed; allowed: a subnet with its prefix length, such as 10.0.0.0/24",
        ),
        (
            {"cluster_domain": "a b"},
            "cluster_domain: 'a b' is not allowed; allowed: a domain name, such as cluster.local",
        ),
        ({"expected": {"g2": "g2"}}, "expected[g2]: 'g2' is not allowed; allowed: a numeric address"),
        (
            {"expected": {"g2.a": "10.0.0.1", "g2.b": "10.0.0.2"}},
            "expected: '10.0.0.1, 10.0.0.2' is not allowed; allowed: one address for g2; write the names in full",
        ),
        (
            {"use_expected": True, "numeric": False},
            "use_expected: True is not allowed;"
            " allowed: false where numeric is false: the names in the file must resolve",
        ),
        ({"dest": "/nosuch/hostfile"}, f"dest: '/nosuch/hostfile' {DEST}"),
        ({"dest": "/tmp"}, f"dest: '/tmp' {DEST}"),
        (
            {"run_id": "a/b"},
            "run_id: 'a/b' is not allowed; allowed: 1 to 63 letters, digits, dots, underscores and dashes,"
            " beginning with a letter or digit",
        ),
        (
            {"run_dir": "/etc/passwd/run"},
            "run_dir: /etc/passwd/run cannot be made, because /etc/passwd is not a directory that {user} may write;"
            " set run_dir (in playbooks gpufabric_run_dir) to a path below one that is",
        ),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(refuse, options, message):
    given = {"run_id": "bad", "run_dir": "{tmp}/run", "hosts": [HOST], "timeout": 0, **options}
    refuse(mpi_hostfile, {name: value for name, value in given.items() if value is not None}, message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "g2:4\n",
            "line 1: 'g2:4' is MPICH's way to give slots; Open MPI takes it for a name: write 'g2 slots=4'",
        ),
        ("g2\n# g3\ng2 slots=2\n", "each host once, with all its slots: line 3: g2 is there already, line 1"),
        ("g2 slots=0\n", "line 1: slots '0' is not 1 or more"),
        ("g2 gpus=8\n", "line 1: 'gpus=8' is not a setting of a hostfile; allowed: slots=N, max_slots=N"),
        ("root@g2\n", "line 1: 'root@g2' names a user; ssh_config does that, so write 'g2'"),
        (
            "-x\n10.0.0.256\n",
            "line 1: '-x' is not a host name or a numeric address;"
            " line 2: '10.0.0.256' is not a host name or a numeric address",
        ),
        ("# none\n\n", "it names no host"),
    ],
)
def test_mistakes_in_a_hostfile_are_named(refuse, tmp_path, text, message):
    (tmp_path / "hostfile").write_text(text, encoding="utf-8")
    options = {"run_id": "bad", "run_dir": "{tmp}/run", "src": "{tmp}/hostfile"}
    refuse(mpi_hostfile, options, f"hostfile {{tmp}}/hostfile: {message}")


FIRST, SECOND = "10-100", "20-200"


def claim(owner, play, **more):
    return {"owner": owner, "controller": "c1", "play": play, "live": [FIRST, SECOND], "take_over": False, **more}


def write(tmp_path, address, check_mode=False, **options):
    """What the module returns that writes a hostfile of one address for a run of the test's own."""
    values = {
        **dict.fromkeys(("src", "dest", "part", "earlier", "expected", "subnet", "interface", "claim")),
        "run_id": "unit",
        "run_dir": str(tmp_path / "run"),
        "timeout": 0,
        "interval": 0,
        "rewrite_fqdn": "auto",
        "cluster_domain": "cluster.local",
        "use_expected": False,
        "numeric": True,
        "hosts": [{"name": "g2", "address": address, "slots": 1}],
    }
    return mpi_hostfile.run({**values, **options}, check_mode)


def test_who_writes_the_hostfile_takes_the_run_and_others_are_refused(tmp_path):
    path = tmp_path / "run" / "mpi" / "hostfile"
    assert write(tmp_path, "10.0.0.1", True, claim=claim("me@here", FIRST))["changed"] and not path.exists()
    write(tmp_path, "10.0.0.1", claim=claim("me@here", FIRST))
    mark = RunDir("unit", str(tmp_path / "run")).read_mark()
    assert (mark["owner"], mark["play"]) == ("me@here", FIRST)
    for who, identity in ((claim("me@here", SECOND), "run-in-use"), (claim("you@there", SECOND), "run-taken")):
        # Before names are waited for.
        with pytest.raises(ProblemError) as refused:
            write(tmp_path, None, claim=who, timeout=600)
        assert [problem.id for problem in refused.value.problems] == [identity]
    assert path.read_text() == "10.0.0.1 slots=1\n"
    assert not write(tmp_path, "10.0.0.1", claim=claim("me@here", FIRST))["changed"]
    over = write(tmp_path, "10.0.0.1", claim=claim("you@there", SECOND, take_over=True))
    assert over["changed"] and over["diff"]["before"] == "" and path.read_text() == "10.0.0.1 slots=1\n"
    assert RunDir("unit", str(tmp_path / "run")).read_mark()["owner"] == "you@there"
    # Nobody is refused who does not say who asks, and takes nothing.
    write(tmp_path, "10.0.0.2")
    assert RunDir("unit", str(tmp_path / "run")).read_mark()["owner"] == "you@there"
