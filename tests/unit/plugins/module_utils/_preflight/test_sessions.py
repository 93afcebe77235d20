# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import sys
import tracemalloc

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._connect import Attempt
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight import probe as probe_script
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight import sessions
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.answers import complete

CONFIG = """\
Host 10.0.0.1
    HostName 10.0.0.1
    Port 2201
    SendEnv LD_LIBRARY_PATH NCCL_*
Host 10.0.0.2
    HostName 10.0.0.2
    Include /etc/ssh/ssh_config
"""


def test_an_ssh_config_is_read_by_host():
    hosts = sessions.parse_ssh_config(CONFIG)
    assert list(hosts) == ["10.0.0.1", "10.0.0.2"]
    assert hosts["10.0.0.1"]["port"] == ["2201"] and "port" not in hosts["10.0.0.2"]


def test_a_variable_is_tried_for_each_pattern():
    environment = {"NCCL_DEBUG": "INFO", "OTHER": "x", "LD_LIBRARY_PATH": "", "OMPI_MCA_a": "one\ntwo"}
    assert sessions.try_variables(["LD_LIBRARY_PATH", "NCCL_*", "OMPI_MCA_*", "A?"], environment) == {
        "NCCL_DEBUG": "INFO",
        "AX": "/gpufabric-preflight",
    }


def test_variables_that_ssh_keeps_to_itself():
    assert sessions.not_sent(["NCCL_DEBUG", "PATH", "A"], ["LD_LIBRARY_PATH NCCL_*", "A"]) == ["PATH"]


@pytest.mark.parametrize(
    ("names", "links"),
    [
        (["a"], {"a": []}),
        (["a", "b"], {"a": ["b"], "b": ["a"]}),
        (["a", "b", "c"], {"a": ["b", "c"], "b": ["c", "a"], "c": ["a", "b"]}),
    ],
)
def test_every_host_sends_to_its_neighbours(names, links):
    assert sessions.plan_links(names) == links


def test_in_a_large_ring_all_are_sent_to_as_often():
    links = sessions.plan_links([str(number) for number in range(20)])
    targets = [target for others in links.values() for target in others]
    assert all(targets.count(host) == 3 and host not in links[host] for host in links)


@pytest.mark.parametrize("python", [None, "/opt/python/bin/python3", "/opt/it's/$(reboot)"])
def test_the_command_is_harmless_to_any_login_shell(python):
    command = sessions.remote_command(python)
    assert command.count("'") == 2 and "!" not in command and "\n" not in command and "reboot" not in command
    assert ("/opt/python/bin/python3 " in command) is (python == "/opt/python/bin/python3")


PARAMETERS = {
    "prefix": "/nosuch",
    "daemon": "orted",
    "libraries": ["/nosuch/lib"],
    "places": [],
    "foreign": ["OPAL_PREFIX"],
    "program": None,
    "control": None,
    "variables": {"UNSET": "x"},
    "run_dir": "/nosuch/run",
    # A port that nobody may listen on.
    "callback": {"address": "127.0.0.1", "port": 1},
    "token": "t",
    "full": True,
    "data_interface": None,
    "timeout": 2,
    "deadline": 60,
}


def session(command, parameters):
    return sessions.Session(["sh", "-c", command], os.environ, sessions.program_text(parameters))


def test_the_probe_runs_with_nothing_but_what_is_sent():
    probe = session(sessions.remote_command(sys.executable), PARAMETERS)
    answered, facts = probe.read(60)
    assert answered and facts["daemon"]["exists"] is False and facts["environment"] == {"UNSET": False}
    assert facts["callback"]["status"] == "refused" and "lo" in facts["interfaces"]
    answered, more = probe.read(60)
    assert answered and more["disks"] and more["shm"]["size"] > 0
    assert probe.read(60) == (False, None) and probe.close() == (0, "")


def test_a_quick_look_ends_by_itself():
    probe = session(sessions.remote_command(sys.executable), {**PARAMETERS, "full": False})
    assert probe.read(60)[0] and probe.read(60) == (False, None) and probe.close() == (0, "")


@pytest.mark.parametrize(
    ("python", "answer", "status", "words"),
    [
        # Neither is a Python; the last is not tried where the probe itself has failed.
        ("exit 1", (True, None), 0, ""),
        ("exit 86", (False, None), 86, ""),
        ("kill -9 $$", (False, None), 137, "Killed"),
        ("echo hello; echo oops >&2; exit 86", (False, None), 86, "oops\nhello"),
    ],
)
def test_a_peer_without_an_answer(tmp_path, python, answer, status, words):
    (tmp_path / "python3").write_text(f"#!/bin/sh\n{python}\n")
    (tmp_path / "python3").chmod(0o755)
    command = sessions.remote_command(None).replace("/usr/local/bin/python3", "").replace("/usr/libexec/", "/nosuch/")
    probe = sessions.Session(["/bin/sh", "-c", command], {"PATH": str(tmp_path)}, b"1\n\n")
    assert probe.read(60) == answer
    ended, said = probe.close()
    assert ended == status and words in said


def test_a_session_that_hangs_is_given_up():
    probe = session("echo welcome; exec sleep 3600", {**PARAMETERS, "run_dir": "x" * 200000})
    # What the shell says first is there.
    assert probe.wait(60)
    assert probe.read(0.5) == (False, None)
    status, words = probe.close()
    assert status is None and words.startswith("welcome\nno answer in ")


@pytest.mark.parametrize(
    "program",
    [
        "import sys\nwhile True: sys.stdout.write('y\\n' * 9999)",
        "import sys\nwhile True: sys.stdout.write('y' * 9999)",
        "import sys\nwhile True: sys.stderr.write('y\\n' * 9999)",
        "import sys\nwhile True: sys.stderr.write('y' * 9999); sys.stdout.write('y' * 9999)",
    ],
    ids=["lines", "a line", "errors", "both"],
)
def test_a_session_that_prints_without_end_is_given_up(program):
    probe = sessions.Session([sys.executable, "-c", program], os.environ, b"")
    tracemalloc.start()
    assert probe.read(600) == (False, None) and probe.is_noisy()
    status, words = probe.close()
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert status in (None, 1) and len(words) < 100000 and peak < 20e6


def test_the_time_is_up_also_while_a_session_prints():
    # Less than what is too much.
    program = "import time\nwhile True: print('y', flush=True); time.sleep(0.01)"
    probe = sessions.Session([sys.executable, "-c", program], os.environ, b"")
    assert probe.read(0.5) == (False, None) and not probe.is_noisy()
    assert "no answer in" in probe.close()[1]


def test_the_program_of_most_is_the_usual_one():
    one, two = ({"exists": True, "sha256": digest} for digest in "ab")
    assert sessions.usual_program([one, {"exists": False}, None, two, two]) is two
    assert sessions.usual_program([one, two]) is one and sessions.usual_program([None]) is None


def test_what_is_no_answer_of_a_probe_is_none():
    said = "\\n".join(f"{probe_script.MARK}{text}" for text in ("[1]", "7", "(", "{[]: 1}", "{}", "None"))
    probe = session(f"printf '{said}\\n'", PARAMETERS)
    assert probe.read(60) == (True, {}) and probe.read(60) == (True, None) and probe.read(60) == (False, None)
    probe.close()


@pytest.mark.parametrize(
    "text",
    [
        *("1" + "+1" * 9999, "a" + ".a" * 9999, "1if 1else " * 9 + "1", "--1", "b''", "{'a': 1j}"),
        *("[1 -1]", "[1.5 -1.5]", "()()", "[0][0]", "[0]\t(0)", "('a' 'a')", "{1: 2} {3}", "{1: [2] 3}"),
    ],
)
def test_what_no_probe_prints_does_not_get_to_the_parser(monkeypatch, text):
    # Python up to 3.10 crashes on some of these, if they are long.
    monkeypatch.setattr(sessions.ast, "literal_eval", lambda text: pytest.fail("it was parsed"))
    assert sessions._answer_in(f"{probe_script.MARK}{text}") == (False, None)


def test_whatever_facts_a_probe_has_are_read():
    facts = {"a": [1, -2.5, 1e300, 1e-05, True, False, None], "b": {"'": '"', "\\": "\u20ac\n", "c": ((), (1,))}, 3: {}}
    assert sessions._answer_in(f"{probe_script.MARK}{facts!a}") == (True, facts)


def test_a_probe_that_fails_says_why():
    probe = session(sessions.remote_command(sys.executable), {**PARAMETERS, "variables": None})
    assert probe.read(60) == (False, None)
    status, words = probe.close()
    assert status == 86 and "AttributeError" in words


def test_what_mpirun_says_is_read_by_the_launcher():
    said = {"daemon": {"version": "mpirun (Open MPI) 4.1.4\n\nReport bugs"}}
    assert complete(said) == {"daemon": {"version": "4.1.4"}}
    assert complete({"daemon": {"version": None}}) == {"daemon": {"version": None}}


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (["timeout", "ok"], "ok"),
        (["unreachable", "timeout"], "timeout"),
        (["refused"], "refused"),
        (["rejected"], "rejected"),
        (["ok"], "ok"),
    ],
)
def test_a_machine_that_was_rebuilt_answers_the_second_time(monkeypatch, answers, expected):
    left = list(answers)
    monkeypatch.setattr(sessions, "connect", lambda *_arguments: Attempt(left.pop(0)))
    assert sessions.connect_first("10.0.0.2", 22, 5.0).status == expected and not left
