# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.planning import lacking, make_plan
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.receiver import ANSWER
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.spreading import Target, spread
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.toolchain import missing_requirement

DIGEST = "0123456789abcdef"


def look(missing=(), **node):
    default = {"vendor": "nvidia", "architectures": ["9.0"], "digest": None, "reason": "", "elsewhere": None}
    return {"node": {**default, **node}, "missing": [missing_requirement(name).as_dict() for name in missing]}


def plan(looks, **variables):
    default = {"programs": [], "architectures": [], "spread": True, "build_on": None, "force": False}
    default.update(url=None, git_url=None)
    return make_plan(looks, {**default, **variables})


def test_the_first_that_can_builds_for_all():
    looks = {"a": look(["nvcc"]), "b": look(architectures=["10.0"]), "c": look(architectures=["8.6"])}
    made = plan(looks)
    assert made.builders == ["b"] and made.vendor == "nvidia"
    assert made.architectures == ["8.6", "9.0", "10.0"]
    assert plan(looks, build_on="c").builders == ["c"]
    assert plan(looks, spread=False).builders == ["a", "b", "c"]
    assert plan(looks, architectures=["9.0"]).architectures == ["9.0"]


def test_what_is_missing_is_told_of_one_host():
    looks = {"a": look(["nvcc", "mpi.h"]), "b": look(["make"])}
    for build_on, host, count in ((None, "a", 2), ("b", "b", 1)):
        with pytest.raises(ProblemError) as caught:
            plan(looks, build_on=build_on)
        assert [problem.host for problem in caught.value.problems] == [host] * count
    with pytest.raises(OptionError, match="nccl_tests_build_on: 'x' is not allowed; allowed: one of the workers: a, b"):
        plan(looks, build_on="x")
    with pytest.raises(
        OptionError, match="nccl_tests_build_on: 'b' is not allowed; allowed: to leave it out if nccl_tests_spread"
    ):
        plan(looks, build_on="b", spread=False)


def test_hosts_that_have_it_already_need_nothing():
    own = {"directory": "/usr/local/bin", "programs": ["all_reduce_perf_mpi", "alltoall_perf"]}
    looks = {"a": look(elsewhere=own), "b": look(["nvcc"], elsewhere=own)}
    made = plan(looks)
    assert made.builders == [] and "in /usr/local/bin already" in made.note
    assert plan(looks, programs=["all_reduce"]).builders == []
    # One that they do not have, another directory, a worker that lacks it, and force.
    assert plan(looks, programs=["gather"]).builders == ["a"]
    assert plan({**looks, "b": look(elsewhere={**own, "directory": "/usr/bin"})}).builders == ["a"]
    assert plan({**looks, "b": look()}).builders == ["a"]
    assert plan(looks, force=True).builders == ["a"]


def test_hosts_that_have_the_same_need_no_compiler():
    looks = {"a": look(["nvcc"], digest=DIGEST), "b": look(["mpi.h"], digest=DIGEST)}
    for build_on in (None, "b"):
        made = plan(looks, build_on=build_on)
        assert made.builders == [] and made.note.startswith("All workers have the same programs, and none of them has")
    # One that can build, programs that differ or are missing, and whoever asks for a build.
    assert plan({**looks, "c": look(digest=DIGEST)}).builders == ["c"]
    for others, force in (({"c": look(["make"], digest="f" * 16)}, False), ({"c": look(["make"])}, False), ({}, True)):
        with pytest.raises(ProblemError):
            plan({**looks, **others}, force=force)
    with pytest.raises(ProblemError):
        plan({"a": look(["nvcc"])})


def test_an_address_with_a_password_is_refused_before_anything_is_done():
    for option in ("url", "git_url"):
        with pytest.raises(OptionError) as caught:
            plan({"a": look()}, **{option: "https://user:s3cret@host/x"})
        text = str(caught.value)
        assert text.startswith(f"nccl_tests_{option}: 'https://***@host/x' is not allowed") and "s3cret" not in text
        assert "~/.netrc" in text and "nccl_tests_archive" in text


def test_hosts_that_do_not_fit():
    with pytest.raises(NodeError, match="b has GPUs of amd and a has GPUs of nvidia"):
        plan({"a": look(), "b": look(vendor="amd", architectures=["gfx942"])})
    with pytest.raises(NodeError, match="^b: /opt is not ours$"):
        plan({"a": look(), "b": look(reason="/opt is not ours")})
    assert plan({"a": look(vendor=None, architectures=[])}).vendor is None


@pytest.mark.parametrize(
    "node",
    [
        {"vendor": "{{ x }}"},
        {"architectures": ["9.0 --x"]},
        {"digest": "zz"},
        {"elsewhere": {"directory": "x", "programs": []}},
    ],
)
def test_answers_of_hostile_workers(node):
    with pytest.raises(NodeError, match="a returned node"):
        plan({"a": look(**node)})


def test_who_lacks_what_was_built():
    looks = {"a": look(digest=DIGEST), "b": look(digest=DIGEST), "c": look(digest="f" * 16), "d": look()}
    assert lacking(looks, "a", DIGEST) == ["c", "d"]
    # In check mode nothing was built.
    assert lacking(looks, "a", None) == ["b", "c", "d"]
    with pytest.raises(NodeError, match="a returned digest"):
        lacking(looks, "a", "../x")


def spread_by(tmp_path, script):
    """What comes of two targets, with a script in place of ssh."""
    agent = tmp_path / "ssh"
    agent.write_text(f"#!/bin/sh\n{script}\n")
    agent.chmod(0o755)
    targets = [Target("a", "10.0.0.1"), Target("b", "10.0.0.2")]
    return spread([str(agent)], targets, b"x" * (1 << 20), 20)


def answer(**values):
    text = json.dumps({"changed": True, "missing": [], "reason": "", **values})
    return f"cat >/dev/null; echo noise; echo '{ANSWER}{text}'"


def test_each_target_is_told_of(tmp_path):
    outcomes = spread_by(tmp_path, answer())
    assert {name: (one.changed, one.problem) for name, one in outcomes.items()} == {
        "a": (True, None),
        "b": (True, None),
    }


@pytest.mark.parametrize(
    ("script", "identity", "words"),
    [
        (answer(changed=False, missing=["libnccl.so.2"]), "program-library-missing", "libnccl.so.2"),
        (
            answer(changed=False, reason="all_reduce_perf did not come whole"),
            "programs-not-brought",
            "did not come whole",
        ),
        ("echo 'Permission denied' >&2; exit 255", "programs-not-brought", "Permission denied"),
        ("exit 1", "programs-not-brought", "exit status 1"),
        (f"echo '{ANSWER}[1]'", "programs-not-brought", "returned answer"),
        (f"echo '{ANSWER}nonsense'", "programs-not-brought", "cannot be read"),
        (f"echo '{ANSWER}null'", "programs-not-brought", "no Python 3.8 or later starts there"),
        ("yes", "programs-not-brought", "printed more than 1 MiB"),
    ],
)
def test_targets_that_fail(tmp_path, script, identity, words):
    for name, one in spread_by(tmp_path, script).items():
        assert not one.changed and one.problem.id == identity and one.problem.host == name
        assert words in one.problem.cause


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"node": look()["node"]}, "a returned missing: None"),
        (look(architectures=["\u0669.0"]), "a returned node.architectures"),
        (look(architectures=["9.0", "gfx942"]), "a returned node.architectures: .*gfx942"),
        (look(vendor="amd", architectures=["9.0"]), "a returned node.architectures"),
    ],
)
def test_an_answer_that_fits_no_node_is_refused(answer, message):
    with pytest.raises(NodeError, match=message):
        plan({"a": answer})
