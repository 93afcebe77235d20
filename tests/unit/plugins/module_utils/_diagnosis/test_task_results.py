# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis import problem as problem_module
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import entries_from
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.task_results import (
    answer_of,
    failure_details,
    problems_by_host,
    problems_from_play,
    problems_from_result,
)

REFUSED = (
    'HTTP response body: {"message":"services is forbidden: User \\"system:serviceaccount:a:b\\" cannot list resource'
    ' \\"services\\" in API group \\"\\" in the namespace \\"bench\\"","reason":"Forbidden"}'
)
ANY = {"id": "any", "cause": "It is cold.", "cure": "Heat it.", "host": "as-it-calls-itself"}
NOT_READ = "Module result deserialization failed: No start of json char found"


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"msg": REFUSED}, ("kube-forbidden", "p-0")),
        (
            {"msg": NOT_READ, "module_stderr": "error: You must be logged in to the server (Unauthorized)\n"},
            ("kube-token-expired", None),
        ),
        (
            {"msg": NOT_READ, "module_stderr": 'Error from server (NotFound): pods "p-0" not found\n'},
            ("pod-missing", "p-0"),
        ),
        ({"msg": "Failed to retrieve node 'w1' due to: Unauthorized", "status": 401}, ("kube-token-expired", None)),
        ({"msg": "Failed to retrieve requested object: Unauthorized\n"}, ("kube-token-expired", None)),
        # Of a program on a host, such as one that fetches something from elsewhere.
        ({"msg": "the build failed", "stderr": "Unauthorized\nHTTP 401 Unauthorized\n", "status": 401}, None),
        ({"msg": "Unauthorized"}, None),
        ({"msg": "The module interpreter '/usr/bin/python3' was not found."}, ("interpreter-missing", "p-0")),
        (
            {"msg": NOT_READ, "module_stderr": "sudo: sorry, you must have a tty to run sudo\n"},
            ("become-refused", "p-0"),
        ),
        ({"msg": "Task failed: Incorrect sudo password"}, ("become-refused", "p-0")),
        (
            {
                "msg": NOT_READ,
                "module_stderr": 'Traceback (most recent call last):\n  File "<stdin>", line 3\nSyntaxError: future feature'
                " annotations is not defined\n",
            },
            ("python-too-old", "p-0"),
        ),
        ({"msg": "something else", "problems": []}, None),
        ({"msg": "x", "problems": [ANY]}, ("any", "p-0")),
    ],
)
def test_what_a_result_tells(result, expected):
    found = [(entry["id"], entry["host"]) for entry in problems_from_result(result, "p-0")]
    assert found == ([] if expected is None else [expected])


def test_rights_are_told_as_they_are_written():
    assert 'may not list resource "services" in namespace bench.' in problems_from_result({"msg": REFUSED})[0]["cause"]


def test_the_answer_is_taken_from_the_text_of_an_exception():
    headers = "Exception '403\nReason: Forbidden\nHTTP response headers: HTTPHeaderDict({})\n"
    assert answer_of(f"{headers}{REFUSED}\n\nOriginal traceback: \n  File x").startswith("services is forbidden: User")
    assert answer_of("no route to host\n\nOriginal traceback: \n  File x") == "no route to host"
    # Of whoever it does not know, the API server says one word.
    unknown = f"{headers.replace('403', '401').replace('Forbidden', 'Unauthorized')}HTTP response body: "
    words = "You must be logged in to the server (Unauthorized)"
    body = '{"kind": "Status", "message": "Unauthorized", "reason": "Unauthorized", "code": 401}'
    assert answer_of(f"{unknown}{body}\n\nOriginal traceback: \n  File x") == words
    assert answer_of(f"{unknown}Unauthorized\n\nOriginal traceback: \n  File x") == words
    assert (
        answer_of(f"Failed to delete object: {body}")
        == answer_of(f"Failed to retrieve requested object: {body}")
        == words
    )
    nested = f'HTTP response body: {{"message": {"[" * 100000}}}'
    assert answer_of(nested) == nested


HOSTILE = [
    "text",
    {"id": 5},
    [
        "text",
        None,
        {"id": "any"},
        {"id": "any", "cause": {}, "cure": "x"},
        {"id": "{{ 1 }}", "cause": "x", "cure": "x"},
    ],
]


@pytest.mark.parametrize("problems", HOSTILE, ids=repr)
def test_what_is_no_problem_is_left_out(problems):
    assert entries_from(problems) == []
    assert problems_by_host({"to x": {"p-0": {"failed": True, "msg": "no", "problems": problems}}})["p-0"][0]["id"] == (
        "step-failed"
    )


def test_a_problem_that_a_machine_returned_is_clean_and_complete():
    told = {"id": "any", "cause": "a\x1b[2J", "cure": "b\rc", "severity": "x", "host": "h\u202e", "more": "x"}
    assert entries_from([{**told, "evidence": ["d"]}]) == [
        {
            "id": "any",
            "severity": "error",
            "host": "h\ufffd",
            "cause": "a\ufffd[2J",
            "cure": "b\ufffdc",
            "evidence": "['d']",
        }
    ]


def test_problems_of_hosts_on_which_tasks_failed():
    first = {
        "a": {"failed": True, "msg": "no sshd"},
        "b": {"unreachable": True, "msg": "refused"},
        "c": {"failed": True, "timedout": {"period": 60}, "msg": "timed out"},
        "d": {"changed": True},
        "e": {},
    }
    second = {
        "d": {"failed": True, "msg": "no", "problems": [ANY]},
        "e": {"skipped": True},
    }
    found = problems_by_host({"to run a private sshd": first, "to be cleaned up": second})
    assert {host: [entry["id"] for entry in problems] for host, problems in found.items()} == {
        "a": ["step-failed"],
        "b": ["host-unreachable"],
        "c": ["host-unreachable"],
        "d": ["any"],
    }
    assert found["a"][0]["cause"] == "The host cannot take part: it failed to run a private sshd: no sshd."
    assert found["b"][0]["evidence"] == "refused" and found["d"][0]["host"] == "d"


def test_a_host_that_froze_in_a_task_is_told_as_one_that_cannot_be_reached():
    (entry,) = problems_from_play({"c": {"failed": True, "timedout": {"period": 60}, "msg": "timed out"}})
    assert (entry["id"], entry["host"], entry["evidence"]) == ("host-unreachable", "c", "timed out")


@pytest.mark.parametrize(
    "invocation",
    ["x", ["problems"], {"module_args": "problems"}, {"module_args": ["problems"]}, {"module_args": {"problems": 5}}],
)
def test_a_machine_that_returns_anything_as_its_arguments_has_failed_like_others(invocation):
    result = {"failed": True, "msg": "no", "invocation": invocation}
    assert [entry["id"] for entry in problems_by_host({"to x": {"a": result}})["a"]] == ["step-failed"]
    (entry,) = problems_from_play({"a": result})
    assert (entry["id"], entry["host"], entry["cause"]) == (
        "step-failed",
        "a",
        "The host cannot take part: it failed to run the job: no.",
    )


def test_logs_and_the_end_are_texts_whatever_a_machine_returned():
    arguments = {"logs": ["a", {}, 5], "end": ["x"], "problems": [ANY]}
    told = failure_details({"failed": True, "invocation": {"module_args": arguments}})
    assert {name: told.get(name) for name in arguments} == {"logs": ["a"], "end": None, "problems": [ANY]}
    assert "logs" not in failure_details({"failed": True, "logs": {"a": 1}})


def test_what_a_host_returned_of_itself_is_its_own_problem():
    other = {**ANY, "host": "innocent"}
    assert [entry["host"] for entry in problems_from_play({"a": failed(other)})] == ["a"]
    # The task may have been one that looked at all hosts.
    assert [entry["host"] for entry in problems_from_play({"a": failed(other)}, [])] == ["innocent"]


LOST = problem("pod-lost", "b").as_dict()
#: What the output of a run looks like that was ended in its middle.
CUT = [{**problem(identity).as_dict(), "severity": "warning"} for identity in ("output-cut", "rows-lost")]


def failed(*problems):
    return {"failed": True, "msg": "told", "problems": list(problems)}


def test_an_output_that_ends_early_is_no_news_where_pods_were_lost():
    assert problems_from_play({"a": failed(*CUT)}, [LOST]) == [LOST]
    other = problem("disk-full", "a").as_dict()
    assert problems_from_play({"a": failed(other, *CUT)}, [LOST]) == [LOST, other]


def test_a_rank_that_cannot_connect_is_no_news_where_pods_were_lost():
    connecting = problem("mpi-connect-failed", "a", address="10.0.0.2:1024").as_dict()
    assert problems_from_play({"a": failed(connecting)}, [LOST]) == [LOST]
    assert problems_from_play({"a": failed(connecting)}, []) == [connecting]


def test_a_host_that_ansible_cannot_reach_is_told_as_such_and_a_module_that_did_not_answer_with_what_it_printed():
    printed = {"msg": NOT_READ, "module_stderr": "\n  ".join(["pyenv: python3.13: command not found", *"abcdef"])}
    away, odd = problems_from_play({"a": {"unreachable": True, "msg": "No route to host"}, "b": printed})
    assert (away["id"], away["host"], away["evidence"]) == ("host-unreachable", "a", "No route to host")
    assert "ansible_host" in away["cure"] and "gpufabric.nccl.diagnose" in away["cure"] and "--limit" in away["cure"]
    assert odd["id"] == "step-failed" and odd["evidence"].splitlines() == [
        "pyenv: python3.13: command not found",
        *"abcd",
    ]


def test_an_output_that_ends_early_is_told_where_nothing_else_is():
    assert problems_from_play({"a": failed(*CUT)}, []) == CUT


def test_a_host_has_no_more_problems_than_a_check_of_a_fleet_finds(monkeypatch):
    monkeypatch.setattr(problem_module, "_MOST", 3)
    told = {"id": "a", "cause": "b", "cure": "c"}
    assert [
        entry["evidence"] for entry in entries_from([{**told, "evidence": str(number)} for number in range(9)])
    ] == ["0", "1", "2"]
