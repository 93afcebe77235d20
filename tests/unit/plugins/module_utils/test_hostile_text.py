# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What reads the output of machines takes time in proportion to its length, whatever is in it."""

from __future__ import annotations

import contextlib
import json
import signal

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import CATALOGUE, diagnose
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.reader import Source
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.task_results import problems_from_result
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._hang import look
from ansible_collections.gpufabric.nccl.plugins.module_utils._hang.ras import parse_report
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.mpijob import parse_log
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.points import telling_lines
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.progress import parse_look, parse_part
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.rank_lines import Marks, without_marks
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log import collect
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.reader import LogReader
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.summary import software_of, transport_of
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import parse_results
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.text_output import TextReader
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.info import parse_gpu_names, parse_mpirun_version
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.sessions import parse_ssh_config
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import clean, inert, markdown_plain

LENGTH = 1 << 17
#: Seconds of CPU: a time that is quadratic in the length is minutes.
LIMIT = 10

#: What makes the readers expect more, and what may then follow without end.
BEGINNINGS = (
    "GPUFABRIC-HANG ", 'GPUFABRIC-HANG ["', "#0-0 (a) MISMATCH\n  Rank 1 -- GPU 1 managed by process 1 on node ",
    "", '{"results": [', "#  Rank  0 ", "NCCL version ", " 8 2 float sum -1 ", "gpufabric-rank 0 ", "gpufabric-mpijob: worker ",
    "HTTP response body: {", 'User "', "[host:1:2] ", "ssh: ", "NCCL version", "RCCL version:",
    "g1:1:2 [0] NCCL INFO NCCL version", "g1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] via NET/",
    "g1:1:2 [0] NCCL INFO NET/IB : Using [0]={", "g1:1:2 [0] NCCL INFO Using network ", "g1:1:2 [0] NCCL INFO Bootstrap : Using a:",
)  # fmt: skip
REPEATED = ("a", " ", "0", "1.", "0 ", "a.", "-", "[", "{", '"', "\\", "x: ", "\n", "\n#", "\n8 ")


def _marks(text):
    marks = Marks()
    for begin in range(0, len(text), 1 << 16):
        marks.feed(text[begin : begin + (1 << 16)].encode())


def _log(text):
    """The readers of NCCL's log: of lines, and of blocks of one process."""
    reader = LogReader()
    reader.feed(text.splitlines())
    line = text.splitlines()[0] if text else ""
    reader.feed([f"g1:1:2 [0] NCCL INFO {line}"])
    reader.feed_block(f"g1:1:2 [0] NCCL INFO {line}\n".encode())
    transport_of(reader.facts)
    software_of(reader.facts)


def _answer(text):
    word = text[:300]
    collect.parse_answer(f"{collect.MARK}{text}")
    answer = {"facts": {"g1": {"used": {word: 1}, "way": {"NET": 1}}}, "complaints": [], "files": 1, "bytes": 1}
    found = collect.parse_answer(f"{collect.MARK}{json.dumps({**answer, 'rdma': [word]})}")
    if found is not None:
        transport_of(found["facts"])


READERS = {
    "parse_results": lambda text: parse_results(text.splitlines(keepends=True)),
    "nccl_log": _log,
    "nccl_log_answer": _answer,
    "diagnose": lambda text: diagnose([Source("launcher", text.splitlines())], 1),
    "telling_lines": telling_lines,
    "hang": look.parse_answer,
    "ras": lambda text: [parse_report(text), look.parse_ras(text)],
    "marks": _marks,
    "without_marks": without_marks,
    "parse_log": parse_log,
    "problems_from_result": lambda text: problems_from_result({"msg": text}),
    "parse_look": lambda text: parse_look(f"gpufabric.nccl\n{text}\n\n\ngpufabric.nccl", 1, 1),
    "parse_part": lambda text: parse_part(f"gpufabric.nccl\n{text}\ngpufabric.nccl"),
    "parse_ssh_config": parse_ssh_config,
    "parse_mpirun_version": parse_mpirun_version,
    "parse_gpu_names": parse_gpu_names,
    "clean": clean,
    "inert": inert,
    "markdown_plain": markdown_plain,
}


@contextlib.contextmanager
def limited(what, limit=LIMIT):
    """Fail where the CPU is used for longer than the limit."""

    def over(_number, _frame):
        pytest.fail(f"{what} takes more than {limit} s of CPU")

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_long_text_takes_no_more_than_its_length(name):
    for beginning in BEGINNINGS:
        for repeated in REPEATED:
            text = beginning + repeated * (LENGTH // len(repeated))
            with limited(f"{name} of {beginning!r} and {repeated!r}"), contextlib.suppress(GpufabricError):
                READERS[name](text)


@pytest.mark.parametrize(
    "end", [": Permission denied (x", " line x: Bad configuration option", ": terminating, x bad configuration options"]
)
def test_long_words_before_what_a_pattern_looks_for(end):
    text = f"{'a' * 4000}{end}\n" * 128
    with limited(f"diagnose of {end!r}"):
        READERS["diagnose"](text)


def test_no_signature_takes_more_than_the_length_of_a_text():
    length = 1 << 15
    for item in CATALOGUE.entries.values():
        for signature in item.signatures:
            literal = signature.literal
            texts = [(literal + repeated * length)[:length] for repeated in ("", " a", "a", " ", "1", "/", "[", ": ")]
            texts += [
                repeated * (length // len(repeated)) + literal for repeated in (literal, "a", "1", "/", ":", "a ")
            ]
            with limited(f"the pattern {signature.regex}", 1):
                for text in texts:
                    signature.pattern.search(text)


@pytest.mark.parametrize(
    "beginning", ["requested a conflicting number of processes", 'via the "execve" system call Local host: x ']
)
def test_lines_that_begin_as_a_message_of_several_lines(beginning):
    lines = [(beginning + " Local host: x" * 4096)[:4096]] * 32
    with limited(f"diagnose of {beginning!r}"):
        diagnose([Source("launcher", lines)], 1)


def test_the_cause_is_found_behind_long_lines_that_were_searched_in_vain():
    lines = [f"Permission denied {'x' * 3000}"] * 500 + [f"sh: orted: Permission denied {'x' * 3000}"]
    (problem,) = diagnose([Source("launcher", lines)], 1)
    assert problem.id == "daemon-not-executable"


def test_json_that_is_torn_into_short_lines_is_read_once():
    text = '{"results": [' + "\n#" * LENGTH
    with limited("parse_results"), contextlib.suppress(GpufabricError):
        parse_results(text.splitlines(keepends=True))


def test_lines_with_many_words_that_may_begin_a_header():
    line = "size " * 6500 + "busbw\n"
    # 4 MiB in less than a second.
    with limited("a table's header", 3):
        reader = TextReader()
        for _count in range(128):
            reader.read(line)
