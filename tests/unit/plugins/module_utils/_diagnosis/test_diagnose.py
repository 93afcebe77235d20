# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import sys
import tracemalloc

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import (
    CATALOGUE,
    DOMAINS,
    combine_with_checks,
    diagnose,
    problem,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.entry import filled
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.reader import Facts, Reader, Source
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube import pods

ROOT = pathlib.Path(__file__).parents[5]
FIXTURES = ROOT / "tests" / "unit" / "fixtures"
SCRIPT = ROOT / "scripts" / "render-troubleshooting"
LOADER = importlib.machinery.SourceFileLoader("render_troubleshooting", str(SCRIPT))
PAGE = importlib.util.module_from_spec(importlib.util.spec_from_loader(LOADER.name, LOADER))
LOADER.exec_module(PAGE)
EXAMPLES = PAGE.read_examples()
#: How mpirun ends where a rank has failed.
NON_ZERO_EXIT = """\
--------------------------------------------------------------------------
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[1,1],3]
  Exit code:    255
--------------------------------------------------------------------------
"""
NOT_STARTED = """\
--------------------------------------------------------------------------
ORTE was unable to reliably start one or more daemons.
This usually is caused by:

* not finding the required libraries and/or binaries on
  one or more nodes. Please check your PATH and LD_LIBRARY_PATH
--------------------------------------------------------------------------
"""
LOST = """\
--------------------------------------------------------------------------
ORTE has lost communication with a remote daemon.

  HNP daemon   : [[1,0],0] on node g1
  Remote daemon: [[1,0],2] on node g3
--------------------------------------------------------------------------
"""
REMOTE = "g{0}:40:41 [1] misc/socket.cc:538 NCCL WARN Net : Connection closed by remote peer g3.lab<40213>\n"
LOST_PEER = "An MPI communication peer process has unexpectedly disconnected.\n  Local host: g1\n  Local PID:  4211\n  Peer host:  g3\n"
TEST_TIMEOUT = "{0}: Test timeout (30s) common.cu:525\n"
LAUNCH_FAILED = "g3: Test CUDA failure common.cu:377 'unspecified launch failure'\n"
XID = "Sep  3 10:11:12 g3 kernel: NVRM: Xid (PCI:0000:07:00): {0}\n"
KILLED = "mpirun noticed that process rank 5 with PID 4211 on node g3 exited on signal 9 (Killed).\n"
OOM = "Sep  3 10:11:12 g3 kernel: Out of memory: Killed process 4211 (all_reduce_perf) total-vm:8123456kB\n"
#: What the outputs that are fixtures of the parser tell beside numbers.
TOLD = {
    "2.10-reduce-failed.txt": {"wrong-values"},
    "2.17-minimum-failed.txt": {"average-below-minimum"},
    "2.18-numbers-of-any-width.txt": {"wrong-values"},
    "2.19.6-wrong.txt": {"wrong-values"},
    "died-in-row.txt": {"gpu-illegal-access"},
}
SHM_FULL = "g3:40:41 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-Ab12Cd to 5767524 bytes\n"
GPU_MEMORY = "{0}:40:41 [0] include/alloc.h:316 NCCL WARN Cuda failure 'out of memory'\n"
INFO = "g1:4000:4100 [0] NCCL INFO Channel 00/0 : 0[10] -> 8[10] [send] via NET/IB/0 failed error timed out\n"


def found(*texts, exit_status=1, facts=None, kind="launcher"):
    """Ids and hosts of what is found."""
    sources = [Source(kind, text.splitlines(keepends=True)) for text in texts]
    return [(entry.id, entry.host) for entry in diagnose(sources, exit_status, facts)]


def short(host):
    """A name without its domain; an address as it is."""
    return host and (host if host[0].isdigit() else host.partition(".")[0])


def test_examples_are_told_as_their_causes_and_no_others():
    wrong = {}
    for number, example in enumerate(EXAMPLES):
        problems = diagnose([Source("any", example.lines)], example.exit_status)
        told = [(entry.id, short(entry.host), bool(entry.evidence)) for entry in problems]
        if told != [(example.id, short(example.host), True)]:
            wrong[f"{number}: {example.id} {example.host}"] = told
    assert len(EXAMPLES) > 400 and wrong == {}


def test_every_signature_is_shown_by_an_example(monkeypatch):
    seen = set()
    close = Reader._close

    def recording(reader, window):
        if window.signature.pattern.search(" ".join(window.texts)):
            seen.add((window.entry.id, window.signature))
        close(reader, window)

    monkeypatch.setattr(Reader, "_close", recording)
    for example in EXAMPLES:
        diagnose([Source("any", example.lines)], example.exit_status)
    signatures = [(entry.id, signature) for entry in CATALOGUE.entries.values() for signature in entry.signatures]
    assert [
        (identity, signature.literal) for identity, signature in signatures if (identity, signature) not in seen
    ] == []


def test_ids_are_there_once():
    ids = [entry.id for entries in DOMAINS.values() for entry in entries]
    assert sorted(ids) == sorted(set(ids))
    assert [identity for identity in ids if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", identity)] == []
    assert [
        entry.id
        for entry in CATALOGUE.entries.values()
        if not (entry.signatures or entry.found_by or entry.id == "unknown")
    ] == []


def called(path):
    """The calls in a source, each with the name of what is called, without what it is an attribute of."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield getattr(node.func, "attr", None) or getattr(node.func, "id", None), node


@pytest.mark.skipif(sys.version_info < (3, 11), reason="plugins of the controller are of its Python")
def test_ids_of_all_plugins_are_in_the_catalogue():
    used = set(pods._WAITING.values())
    for path in (ROOT / "roles").glob("*/tasks/*.yml"):
        used |= set(re.findall(r"\bid: ([a-z][\w-]+)", path.read_text(encoding="utf-8")))
    for path in (ROOT / "plugins").rglob("*.py"):
        for name, node in called(path):
            if name in ("problem", "known_cause"):
                used |= {value.value for value in node.args[:1] if isinstance(value, ast.Constant)}
    assert {"dns-selector", "rows-lost", "operator-missing", "openssh-missing"} <= used
    assert sorted(used - set(CATALOGUE.entries)) == []


@pytest.mark.skipif(sys.version_info < (3, 11), reason="plugins of the controller are of its Python")
def test_problems_are_made_by_the_catalogue_alone():
    """Nothing but the package of the catalogue calls the constructor: others go by an id, or by a result's entry."""
    makers = {
        path.relative_to(ROOT / "plugins").parent.name
        for path in (ROOT / "plugins").rglob("*.py")
        for name, _node in called(path)
        if name == "Problem"
    }
    assert makers == {"_diagnosis"}


def test_texts_are_whole_sentences_with_and_without_facts():
    wrong = []
    for identity, entry in CATALOGUE.entries.items():
        names = set(re.findall(r"{(\w+)}", entry.cause + entry.cure))
        for facts in ({}, {name: f"<{name}>" for name in names}):
            told = problem(identity, **facts)
            wrong += [
                f"{identity}: {text}"
                for text in (told.cause, told.cure)
                if not re.fullmatch(r"[^ ].*\.", text) or re.search(r"[\[\]{}]|  | [,.;:)]|\( ", text)
            ]
            wrong += [f"{identity}: {fact}" for fact in facts.values() if fact not in told.cause + told.cure]
    assert wrong == []


def test_problem():
    made = problem("connect-refused", host="g3", evidence="x", address="10.66.0.13", port=2222, other=1)
    assert made.as_dict() == {
        "id": "connect-refused",
        "severity": "error",
        "host": "g3",
        "cause": "Nothing listens on 10.66.0.13 port 2222, or a firewall resets the connection.",
        "cure": CATALOGUE.entries["connect-refused"].cure,
        "evidence": "x",
    }
    assert problem("env-not-sent").severity == "warning"
    assert problem("env-not-sent", severity="error").severity == "error"


def test_an_sshd_that_ends_with_each_login_is_not_told_to_be_started_again_alone():
    """systemd-logind ends what a login leaves; seen from the launcher, nothing listens."""
    assert "KillUserProcesses=no in /etc/systemd/logind.conf" in CATALOGUE.entries["connect-refused"].cure


def test_a_host_with_a_login_that_works_and_steps_that_do_not_has_a_cure():
    """Of a network that drops large packets, diagnose says the same: the login fits into small ones."""
    assert "If it can log in and later steps time out" in CATALOGUE.entries["host-unreachable"].cure


def test_filled():
    assert filled("[{a} and {b}|Two] of [{c}].", {"a": "[1]", "b": "{2}"}) == "[1] and {2} of ."


def test_facts_of_the_output_are_in_the_texts():
    (entry,) = diagnose([Source("launcher", ["ssh: connect to host 10.66.0.13 port 2222: Connection refused\n"])], 255)
    assert entry.cause == "Nothing listens on 10.66.0.13 port 2222, or a firewall resets the connection."
    assert entry.evidence == "line 1: ssh: connect to host 10.66.0.13 port 2222: Connection refused"


def test_evidence_of_a_block_is_its_telling_lines():
    example = next(example for example in EXAMPLES if example.id == "mpi-version-differs")
    (entry,) = diagnose([Source("launcher", ["x", *example.lines], name="stderr")], 1)
    assert entry.cause == "The host and the launcher have different versions of Open MPI: 4.0.3, not 4.1.4."
    assert [line.split(":")[1] for line in entry.evidence.splitlines()] == ["2", "10", "11", "13"]
    assert entry.evidence.startswith("stderr:2: Open MPI detected a mismatch")


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([NON_ZERO_EXIT], [("unknown", None)]),
        ([REMOTE.format(1), REMOTE.format(2)], [("nccl-remote-error", "g3.lab")]),
        ([REMOTE.format(1), LOST, NOT_STARTED], [("lost-connection", "g3")]),
        # A rank that waited in vain closes its connections.
        ([REMOTE.format(1), TEST_TIMEOUT.format("g2"), TEST_TIMEOUT.format("g3")], [("test-timeout", None)]),
        ([LAUNCH_FAILED, TEST_TIMEOUT.format("g2")], [("gpu-launch-failed", "g3")]),
        # The kernel knows why.
        ([LAUNCH_FAILED, XID.format("79, pid=4211, GPU has fallen off the bus.")], [("gpu-lost", "g3")]),
        ([LAUNCH_FAILED, XID.format("61, pid=4211, 0d34")], [("gpu-xid", "g3")]),
        ([REMOTE.format(1), LOST, KILLED], [("rank-killed", "g3")]),
        # Told last, and by another source.
        ([REMOTE.format(1), LOST, KILLED, OOM], [("oom-killed", "g3")]),
        (["command terminated with exit code 137\n" + LOST], [("daemon-killed", "g3")]),
        (["bash: orted: command not found\n" + LOST], [("daemon-missing", "g3")]),
        # CUDA cannot pin memory that /dev/shm has no room for; where it has, or elsewhere, the GPU's is used up.
        ([SHM_FULL + GPU_MEMORY.format("g3")], [("shm-full", "g3")]),
        ([SHM_FULL + GPU_MEMORY.format("g2")], [("shm-full", "g3"), ("gpu-memory", "g2")]),
        # What is wrong here is wrong on the launcher.
        (["Bad owner or permissions on /root/.ssh/config\n" + LOST], [("ssh-config-permissions", None)]),
        (["Host key verification failed.\n" + NOT_STARTED], [("host-key-refused", None)]),
    ],
)
def test_first_cause_of_what_follows_from_it(texts, expected):
    assert found(*texts) == expected


def test_causes_on_several_hosts_are_all_told():
    text = (
        "ssh: connect to host g2 port 22: Connection refused\n"
        "ssh: Could not resolve hostname g3: Name or service not known\n"
        "bench@g4: Permission denied (publickey).\n"
        "ssh: connect to host g5 port 22: Connection refused\n"
        "ssh: connect to host g2 port 22: Connection refused\n"
    )
    assert found(text + NOT_STARTED, exit_status=255) == [
        ("connect-refused", "g2"),
        ("name-unresolved", "g3"),
        ("connect-refused", "g5"),
        ("ssh-auth-refused", "g4"),
    ]


def test_effect_on_a_host_with_a_cause_is_left_out_and_on_another_is_told():
    sshd = Source("sshd", ["User bench not allowed because account is locked\n"], host="g3")
    ssh = Source("launcher", [f"bench@{host}: Permission denied (publickey).\n" for host in ("g3", "g4")])
    problems = diagnose([ssh, sshd], 255)
    assert [(entry.id, entry.host) for entry in problems] == [("account-locked", "g3"), ("ssh-auth-refused", "g4")]


def test_names_of_the_run():
    facts = Facts(names={"10.66.0.13": "g3", "g4": "node-four"}, ranks={7: "g7"})
    text = (
        "ssh: connect to host 10.66.0.13 port 2222: Connection refused\n"
        "ssh: Could not resolve hostname g4.lab: Name or service not known\n"
        "[1,7]<stderr>:sh: 1: exec: /opt/all_reduce_perf: not found\n"
    )
    assert found(text, facts=facts) == [
        ("connect-refused", "g3"),
        ("name-unresolved", "node-four"),
        ("program-missing", "g7"),
    ]


def test_host_of_a_rank_is_learnt_from_the_device_list():
    text = (
        "[1,0]<stdout>:#  Rank  3 Group  0 Pid   4211 on         g3 device  0 [0000:07:00] NVIDIA H100\n"
        "[1,3]<stderr>:malloc: Cannot allocate memory\n"
    )
    assert found(text) == [("host-memory", "g3")]


@pytest.mark.parametrize(
    "line",
    [
        "[1,1]<stderr>:[g2][[45,1],1][btl_tcp_frag.c:242:mca_btl_tcp_frag_recv] mca_btl_tcp_frag_recv: readv failed: Connection reset by peer (104)",
        "[1,1]<stdout>:g2: Test NCCL failure common.cu:958 'remote process exited or there was a network error / '",
        "g2:4211:4250 [1] enqueue.cc:1 NCCL WARN ncclRemoteError",
    ],
)
def test_who_says_that_another_rank_has_ended_is_not_to_blame(line):
    (entry,) = diagnose([Source("launcher", [line])], 3, Facts(ranks={1: "g2"}))
    assert (entry.id in ("mpi-peer-gone", "nccl-remote-error"), entry.host) == (True, None)
    assert entry.cause == "A rank ended while other ranks were connected to it."
    # Another line names the one that ended.
    assert found(f"{line}\n{REMOTE.format(2)}{LOST_PEER}", facts=Facts({"g3.lab": "g3"}, {1: "g2"})) == [
        ("nccl-remote-error", "g3")
    ]


@pytest.mark.parametrize("process", ["[[42683,1],3]", "[prterun-g1-77@1,3]"])
def test_host_of_the_rank_that_ended_first(process):
    """mpirun says which it was, where what the rank printed says of no host whose it is."""
    facts = Facts(ranks={3: "g3"})
    ended = NON_ZERO_EXIT.replace("[[1,1],3]", process)
    text = (
        "/opt/perf: error while loading shared libraries: libnccl.so.2: cannot open shared object file: No such file\n"
    )
    assert found(text + ended, facts=facts) == [("program-library-missing", "g3")]
    assert found(ended, facts=facts) == [("unknown", "g3")]
    # All have got the same argument.
    assert found("invalid size specified for 'minbytes'\n" + ended, facts=facts) == [("test-argument", None)]


def test_a_closer_look_takes_the_place_of_what_mpirun_says():
    told = [problem("daemon-missing", "g2"), problem("processes-left", "g3"), problem("mca-conflict")]
    looked = [problem("mpi-prefix-differs", "g3"), problem("control-interface-address", "g2")]
    kept = [(item.id, item.host) for item in combine_with_checks(told, looked)]
    assert kept == [("mca-conflict", None), ("mpi-prefix-differs", "g3"), ("processes-left", "g3")]
    # The look has found what it stands for on its own.
    both = [*looked, problem("daemon-missing", "g2")]
    assert ("daemon-missing", "g2") in [(item.id, item.host) for item in combine_with_checks(told, both)]


def test_a_host_that_was_frozen_while_the_run_hung_is_told_with_its_ranks():
    told = [problem("host-frozen", "g3", who="Rank 2")]
    banner = problem("ssh-banner-timeout", "g3")
    assert combine_with_checks(told, [banner]) == told
    # On another host it is something else, and a check that says more is the reason.
    other = problem("ssh-banner-timeout", "g2")
    assert combine_with_checks(told, [other]) == [*told, other]
    assert combine_with_checks(told, [problem("connect-timeout", "g3")]) == [problem("connect-timeout", "g3")]


def test_ranks_that_crash_since_versions_differ_are_no_fault_of_their_own():
    told = [problem("rank-crashed", "g2", rank=1, signal=11)]
    looked = [problem("mpi-version-differs", "g3", there="4.1.8", here="4.1.4")]
    assert [(item.id, item.host) for item in combine_with_checks(told, looked)] == [("mpi-version-differs", "g3")]


def test_interleaved_blocks_of_ranks():
    blocks = [
        [
            f"[1,{rank}]<stderr>:WARNING: An invalid value was given for btl_tcp_if_include.  This",
            f"[1,{rank}]<stderr>:value will be ignored.",
            f"[1,{rank}]<stderr>:",
            f"[1,{rank}]<stderr>:  Local host: g{rank}",
            f"[1,{rank}]<stderr>:  Value:      {value}",
            f"[1,{rank}]<stderr>:  Message:    {message}",
        ]
        for rank, value, message in (
            (1, "ens9", "Unknown interface name"),
            (2, "10.77.0.x/24", "Invalid specification (inet_pton() failed)"),
        )
    ]
    text = "".join(f"{first}\n{second}\n" for first, second in zip(*blocks))
    assert found(text) == [("btl-interface-missing", "g1"), ("btl-network-invalid", None)]


def test_an_exception_is_named_and_not_the_abort_that_follows_from_it():
    """mpi4py ends the job by MPI_Abort if a rank has an exception."""
    text = (
        "Traceback (most recent call last):\n"
        '  File "/opt/job.py", line 3, in <module>\n'
        "ValueError: no such size\n"
        "--------------------------------------------------------------------------\n"
        "MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD\n"
        "with errorcode 1.\n"
    )
    (found,) = diagnose([Source("g1", text.splitlines())], 1)
    assert found.cause == "A Python program ended with an exception: ValueError: no such size."


def test_a_setting_of_all_hosts_is_no_fault_of_the_one_that_says_so_first():
    first, second = (
        f"A requested component was not found, or was unable to be opened.\n\nHost:      {host}\nFramework: btl\nComponent: nosuch\n"
        for host in ("g3.lab", "g5")
    )
    crashed = "mpirun noticed that process rank 5 with PID 4211 on node g4 exited on signal 9 (Killed).\n"
    (entry,) = diagnose([Source("launcher", (first + second + crashed).splitlines())], 1)
    assert (entry.id, entry.host) == ("mca-component-missing", None)
    assert entry.cause == "Open MPI does not have the component nosuch of btl; g3.lab reports it first."
    pair = "processes are unable to reach each other\nProcess 1 is ([[1,1],0]) is on host: g1\nProcess 2 ([[1,1],1]) is on host: g3\n"
    (entry,) = diagnose([Source("launcher", pair.splitlines())], 1)
    assert (entry.id, entry.host) == ("mpi-unreachable", None)
    assert entry.cause == "Ranks on g1 and g3 have no transport to send messages to each other."


@pytest.mark.parametrize(
    "prefix", ["[1,3]<stderr>:", "[prterun-g1-77@1,3]<stderr>: ", " 3: ", "[2026-01-02 03:04:05] [1,3]<stderr>:", "[pod/bench-3/worker] "]
)  # fmt: skip
def test_prefixes_of_lines(prefix):
    facts = Facts(ranks={3: "bench-3"})
    assert found(f"{prefix}sh: 1: exec: x: not found\n", facts=facts) == [("program-missing", "bench-3")]
    assert found(f"{prefix}g3: Test CUDA failure common.cu:1 'invalid device ordinal'\n") == [("gpus-missing", "g3")]


NO_INTERFACE = "g3:42:43 [1] a.cc:1 NCCL WARN Bootstrap : no socket interface found"
NO_GPU = "g3: Test CUDA failure common.cu:1012 'no CUDA-capable device is detected'"


@pytest.mark.parametrize(("said", "identity"), [(NO_INTERFACE, "nccl-interface-missing"), (NO_GPU, "gpu-none")])
@pytest.mark.parametrize(
    "before",
    [
        pytest.param("   8  2  float  sum  -1", id="after the first cells of a row"),
        pytest.param("   8  2  float  sum  -1  20.12  0.00  0.00      0", id="after half a row"),
        pytest.param("   8  2  float  sum  -1g1:40:41 [0] NCCL INFO x ", id="after the line of another rank in a row"),
        pytest.param(
            "g1:40:41 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] via P2P/IPC", id="after a line without its end"
        ),
        pytest.param("g1:40:41 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] via", id="after the first words of a line"),
        pytest.param("g1", id="after the first letters of a line"),
    ],
)
@pytest.mark.parametrize("names", [("g1", "g3"), ("g1.lab", "g3.lab")])
def test_torn_line(before, said, identity, names):
    """What mpirun gets of several ranks at once may stand in one line."""
    facts = Facts(names={name: f"node-{name[1]}" for name in names})
    told = [(name, {"node-3": "g3"}.get(host, host)) for name, host in found(f"{before}{said}\n", facts=facts)]
    assert told == [(identity, "g3")]


def test_sshd_closing_a_connection_is_no_failure():
    lines = ["Connection closed by 10.66.0.11 port 40112\n", "Connection reset by 10.66.0.11 port 40113\n"]
    assert [entry.id for entry in diagnose([Source("sshd", lines, host="g3")], 255)] == ["unknown"]
    assert [entry.id for entry in diagnose([Source("ssh", lines)], 255)] == ["ssh-closed"]


def test_open_mpi_that_loses_its_own_message_is_no_other_version():
    line = "[g3:42] [[1,0],0] ORTE_ERROR_LOG: Data unpack would read past end of buffer in file ../orte/util/show_help.c at line 501\n"
    assert found(line) == [("unknown", None)]


@pytest.mark.parametrize(
    "line",
    [
        # As Open MPI 4 looks through the RDMA devices of a host, which it does not use by default.
        pytest.param(
            "[g3][[31817,1],0][btl_openib_component.c:1704:init_one_device] error obtaining device attributes for mlx5_0 errno says"
            " No space left on device",
            id="an RDMA device that openib does not know",
        ),
        pytest.param(
            "[g3][[31817,1],0][btl_openib_component.c:1704:init_one_device] error obtaining device attributes for mlx5_0 errno says"
            " Cannot allocate memory",
            id="another one",
        ),
        # NCCL's CUDACHECKIGNORE.
        pytest.param(
            "g3:42:43 [0] NCCL INFO transport/p2p.cc:207 Cuda failure 'peer access is not supported between these two devices'",
            id="a failure that NCCL ignores",
        ),
        pytest.param("g3:42:43 [0] NCCL INFO init.cc:99 Cuda failure 'invalid device ordinal'", id="another failure"),
        pytest.param(
            "g3:42:43 [0] NCCL INFO init.cc:99 HIP failure: 'out of memory'", id="a failure that RCCL ignores"
        ),
    ],
)
def test_what_programs_go_on_after_is_no_cause(line):
    assert found(f"{line}\n") == [("unknown", None)]
    assert found(f"{line}\n", KILLED) == found(KILLED)


def test_output_of_nccl_tests_has_no_sign():
    """Not even of a run that was ended, which the exit status does not clear."""
    told = {}
    for path in [FIXTURES / "all_reduce_perf.txt", FIXTURES / "alltoall_cpu.txt", *(FIXTURES / "nccl_tests").iterdir()]:
        text = path.read_text(encoding="utf-8")
        told[path.name] = {
            identity for identity, _host in found(text, text.replace("\n", f"\n{INFO}"), exit_status=None)
        }
    assert len(told) > 40 and {name: ids for name, ids in told.items() if ids} == TOLD


def test_success_is_no_failure_whatever_was_printed():
    assert found(NOT_STARTED + KILLED, exit_status=0) == []


FLAPPED = "g3:40:41 [1] transport/net_ib/common.cc:179 (ncclIbAsyncThreadMain) NCCL WARN NET/IB : mlx5_3:1 Got non-fatal async event: port active(9)\n"
IOMMU = 'g2:40:41 [1] init.cc:163 NCCL WARN Missing "iommu=pt" from kernel command line which can lead to system instablity or hang!\n'


def test_complaints_of_a_run_that_passed_are_warnings():
    text = FLAPPED + IOMMU + GPU_MEMORY.format("g1") + REMOTE.format(1) + NOT_STARTED + KILLED + FLAPPED
    problems = diagnose([Source("launcher", text.splitlines())], 0, Facts(names={"g3": "node-three"}))
    assert [(entry.id, entry.host, entry.severity) for entry in problems] == [
        ("rccl-iommu", "g2", "warning"),
        ("gpu-memory", "g1", "warning"),
        ("rdma-port-flapped", "node-three", "warning"),
    ]
    assert problems[2].cause.startswith("The RDMA port mlx5_3:1 went down and came back")


def test_complaints_that_are_not_known_are_shown_once():
    lines = [f"g{host}:4{host}:41 [1] a.cc:1 (f) NCCL WARN The gizmo is {what}" for host in (1, 2) for what in "ab"]
    (entry,) = diagnose(
        [Source("launcher", [*lines, FLAPPED.replace("WARN", "INFO"), "the gizmo failed"], numbered=False)], 0
    )
    assert (entry.id, entry.host, entry.severity) == ("nccl-complaint", None, "warning")
    assert entry.evidence == "\n".join(lines[:2])
    (entry,) = diagnose([Source("launcher", lines[:2])], 0, Facts(names={"g1": "node-one"}))
    assert (entry.host, entry.evidence.splitlines()[1]) == ("node-one", f"line 2: {lines[1]}")
    many = [f"g1:4:4 [1] a.cc:1 NCCL WARN gizmo {number}" for number in range(1000)]
    (entry,) = diagnose([Source("launcher", many)], 0)
    assert len(entry.evidence.splitlines()) == 8


def test_a_warning_is_no_reason_of_a_failure():
    assert found(IOMMU) == [("unknown", None), ("rccl-iommu", "g2")]
    assert found(IOMMU + GPU_MEMORY.format("g2")) == [("gpu-memory", "g2"), ("rccl-iommu", "g2")]
    assert found(IOMMU, exit_status=None) == [("rccl-iommu", "g2")]
    # It hides no consequence of another host's failure.
    assert found(IOMMU + "g2:1:1 [0] x NCCL WARN Failed to malloc 12 bytes\n") == [
        ("host-memory", "g2"),
        ("rccl-iommu", "g2"),
    ]


def test_a_plugin_of_the_image_that_finds_no_network_is_not_to_blame():
    plugin = "g2:42:43 [6] nccl_net_ofi_init:43 NCCL WARN NET/OFI No eligible providers were found\n"
    assert found(plugin + GPU_MEMORY.format("g3")) == [("gpu-memory", "g3"), ("ofi-no-provider", "g2")]
    missing = "g2:42:43 [6] NCCL WARN Error: network AWS not found.\n"
    assert found(plugin + missing) == [("nccl-net-missing", "g2"), ("ofi-no-provider", "g2")]


@pytest.mark.parametrize("exit_status", [1, 137, 255])
def test_unknown_shows_the_lines_that_matter(exit_status):
    advice = "-" * 40 + "\n" + "".join(f"advice {number}\n" for number in range(50)) + "-" * 40 + "\n"
    rows = "".join(f"{number}  2  float  sum  -1  3.4  0.0  0.0  0\n" for number in range(100))
    text = "the gizmo failed\n" + rows + INFO * 30 + advice + "the end\n"
    (entry,) = diagnose([Source("launcher", text.splitlines())], exit_status)
    lines = entry.evidence.splitlines()
    assert (entry.id, entry.host, len(lines)) == ("unknown", None, 20)
    assert (lines[0], lines[1], lines[-1]) == ("the gizmo failed", "82  2  float  sum  -1  3.4  0.0  0.0  0", "the end")
    assert not any("INFO" in line or "advice" in line for line in lines)


def test_advice_is_shown_where_there_is_nothing_else():
    (entry,) = diagnose([Source("launcher", NON_ZERO_EXIT.splitlines())], 255)
    assert entry.evidence.startswith("mpirun detected that one or more processes")


def test_little_is_kept_of_much():
    def lines():
        for number in range(5_000):
            yield INFO
            yield f"[1,{number % 64}]<stderr>:ssh: connect to host g{number % 50} port 22: Connection refused\n"
            yield f"[1,{number % 64}]<stderr>:WARNING: An invalid value was given for btl_tcp_if_include. {number}\n"

    tracemalloc.start()
    problems = diagnose([Source("launcher", lines())], 255)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(problems) == 50 and all(len(entry.evidence) < 1000 for entry in problems)
    assert peak < 2_000_000


def test_evidence_is_short_however_a_host_is_called():
    lines = [REMOTE.format(1).replace("g3.lab", f"g3.lab{number}") for number in range(20)]
    (entry,) = diagnose([Source("launcher", lines)], 1)
    assert len(entry.evidence.splitlines()) == 6


def test_line_without_end_takes_no_time():
    assert found("x" + " error: while connect() to" * 200_000) == [("unknown", None)]


def test_page_is_the_catalogue():
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    assert text == PAGE.page(), "run scripts/render-troubleshooting"


CORPUS = os.environ.get("GPUFABRIC_CORPUS")


def test_each_cause_says_how_it_is_known():
    """A cause that programs' words tell is made, was seen in a real output, or names where the words come from."""
    basis = PAGE.Basis()
    assert [
        entry.id for entry in CATALOGUE.entries.values() if entry.signatures and basis.of(entry)[0] == PAGE.CHECKED
    ] == []
    assert sorted(PAGE.read_faults().keys() - set(CATALOGUE.entries)) == []


@pytest.mark.parametrize("identity", PAGE.TESTS)
def test_a_test_that_makes_a_cause_asks_for_it(identity):
    path, _colons, name = PAGE.TESTS[identity].partition("::")
    text = (ROOT / path).read_text(encoding="utf-8")
    (test,) = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == name)
    asked = {node.value for node in ast.walk(test) if isinstance(node, ast.Constant)}
    assert identity in CATALOGUE.entries and identity in asked


LOGS = json.loads(PAGE.CORPUS.read_text(encoding="utf-8"))


def test_the_table_of_the_corpus_is_whole():
    """What is told of no cause says why that is right, and only that."""
    assert {identity for log in LOGS.values() for identity in [*log["causes"], *log.get("beside", [])]} <= set(
        CATALOGUE.entries
    )
    assert [name for name, log in LOGS.items() if (log["causes"] == ["unknown"]) != ("why" in log)] == []


@pytest.mark.skipif(
    CORPUS is None or not pathlib.Path(CORPUS, "fail").is_dir(),
    reason="GPUFABRIC_CORPUS does not name a folder with failures in fail/*.txt",
)
def test_corpus_of_failures():
    """Of every text the causes that are expected are told, and no others; so are the signatures that lie beside them."""
    told = {}
    for path in sorted(pathlib.Path(CORPUS, "fail").glob("*.txt")):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        causes = list(dict.fromkeys(entry.id for entry in diagnose([Source("any", lines)], 1)))
        reader = Reader(CATALOGUE.signatures_by_word, 1, Facts())
        reader.read(Source("any", lines))
        told[path.name] = (causes, sorted({finding.entry.id for finding in reader.findings} - set(causes)))
    expected = {name: (log["causes"], log.get("beside", [])) for name, log in LOGS.items()}
    assert told == expected
