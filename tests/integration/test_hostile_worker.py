# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plays over a worker that answers every module as it likes: nothing that it says is run on the controller."""

from __future__ import annotations

import pathlib
import shlex
import typing as t

import pytest
import yaml
from conftest import Played, Player, ansible_core, slow
from hostile import Hostility

#: Has what the CPU program needs.
REAL = "/usr/bin/python3"
#: The oldest takes for a template what later ones know to be text of a worker; from 2.21 on, an answer is made an object of.
RELEASES = ("2.16", "2.21", "next")


class Worker:
    """A host of the inventory that is this machine, with a Python of its own."""

    def __init__(self, player: Player, directory: pathlib.Path) -> None:
        self.player = player.within({})
        self.player._seconds = 180
        self.directory = directory
        self.hostility = Hostility(directory / "was-run")
        self.run_id = f"hostile{directory.name[-1]}"

    def play(
        self,
        playbook: str | list[dict[str, t.Any]],
        names: str = "",
        answer: dict[str, t.Any] | None = None,
        more: dict[str, t.Any] | None = None,
        **variables: t.Any,
    ) -> Played:
        """Run a playbook where the modules ``names`` (none: all) answer with hostile texts, with ``answer``, or with ``more`` beside
        what they return."""
        interpreter = self.directory / "python"
        interpreter.write_text(self.hostility.python(REAL, names, answer, more))
        interpreter.chmod(0o755)
        inventory = self.directory / "inventory.yml"
        host = {"ansible_connection": "local", "ansible_python_interpreter": str(interpreter)}
        inventory.write_text(yaml.safe_dump({"all": {"hosts": {"w1": host}}}))
        return self.player.playbook(
            playbook,
            "-i",
            str(inventory),
            "--diff",
            gpufabric_run_id=self.run_id,
            diagnose_run_id=self.run_id,
            isolate_run_id=self.run_id,
            gpufabric_run_dir=str(self.directory / "run"),
            gpufabric_control_interface="lo",
            gpufabric_target="w1",
            report_dir=str(self.directory / "results"),
            preflight_report_dir=str(self.directory / "results"),
            **{
                "nccl_benchmark_max_bytes": "1K",
                "nccl_benchmark_iterations": 1,
                "isolate_min_bytes": "1K",
                "isolate_max_bytes": "1K",
                "isolate_iterations": 1,
                **variables,
            },
        )


@pytest.fixture
def worker(player, tmp_path):
    worker = Worker(player, tmp_path)
    yield worker
    worker.player.playbook(
        "gpufabric.nccl.teardown",
        "-i",
        "localhost,",
        gpufabric_run_id=worker.run_id,
        gpufabric_run_dir=str(tmp_path / "run"),
        gpufabric_target="localhost",
        ansible_connection="local",
        ansible_python_interpreter=REAL,
    )


def answer_everything(worker: Worker, playbooks: t.Mapping[str, str]) -> None:
    """Run playbooks, each of which is to say something of what it was answered, and then the teardown."""
    answer = worker.hostility.answers("w1")
    for playbook, words in playbooks.items():
        worker.hostility.check(worker.play(f"gpufabric.nccl.{playbook}", answer=answer), words)
    played = worker.play("gpufabric.nccl.teardown", answer=answer)
    assert not worker.hostility.mark.exists() and "\x1b" not in played.output


#: What each playbook says of it.
TOLD = {
    "bare_metal": "w1 returned node: ",
    "isolate": "w1 returned node: ",
    "diagnose": "w1 returned sshd_instance",
}


def test_a_worker_that_answers_everything_with_templates(worker):
    answer_everything(worker, TOLD)


@pytest.mark.slow
def test_nor_has_it_a_way_in_with_the_playbook_nccl_tests(worker):
    answer_everything(worker, {"nccl_tests": "w1"})


#: One module without a half on the controller, and one whose half hands on what the node answers.
MODULES = [
    {"gpufabric.nccl.free_port": {}},
    {"gpufabric.nccl.mpi_run": {"run_id": "nosuch", "state": "stopped"}},
]


def check_nothing_is_obeyed(worker: Worker) -> None:
    """Neither by a later task of the controller, nor by a later play, and of none of its texts a terminal."""
    more, failure = worker.hostility.commands(), worker.hostility.failure()
    answered = [{"register": "answer", **task} for task in MODULES]
    shown = {"msg": "{{ [groups, gpufabric_environment | default(''), report_formats | default('')] }}"}
    plays = [
        {"hosts": "w1", "gather_facts": False, "tasks": answered},
        {"hosts": "all", "gather_facts": False, "tasks": [{"ansible.builtin.debug": shown}]},
    ]
    played = worker.play(plays, more=more)
    worker.hostility.check_quiet(played)
    assert played.returncode == 0, played.output
    assert played.result("w1", "ansible.builtin.debug")["msg"] == [{"all": ["w1"], "ungrouped": ["w1"]}, "", ""]
    returned = [record["result"] for record in played.records if record["action"] in str(MODULES)]
    assert len(returned) == len(MODULES)
    assert [set(more) & set(result) - {"changed", "warnings", "diff"} for result in returned] == [set(), set()]
    assert "owned" in played.output
    for task in MODULES:
        played = worker.play([{"hosts": "w1", "gather_facts": False, "tasks": [task]}], answer=failure)
        worker.hostility.check_quiet(played)
        assert played.returncode == 2 and "owned" in played.output, played.output


def test_nothing_that_ansible_acts_on_is_obeyed(worker):
    check_nothing_is_obeyed(worker)


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_nor_is_it_with_another_ansible_core(worker, release):
    worker.player = worker.player.within(ansible_core(release))
    check_nothing_is_obeyed(worker)


def test_facts_of_a_pod_of_a_job_that_is_adopted(worker):
    """Its pods join when the playbook has begun; their facts may be those that a play before has kept."""
    facts = {
        "gpufabric_environment": worker.hostility.commands()["ansible_facts"]["gpufabric_environment"],
        # So that results are judged, by Python on the controller.
        "report_assertions": [{"name": "fast", "that": "true"}],
        "cacheable": True,
    }
    role = {"name": "gpufabric.nccl.mpijob", "tasks_from": "benchmark"}
    plays = [
        {
            "hosts": "w1",
            "gather_facts": False,
            "tasks": [
                *({"ansible.builtin.group_by": {"key": group}} for group in ("mpijob_worker", "mpijob_launcher")),
                {"ansible.builtin.set_fact": facts},
            ],
        },
        {
            "hosts": "mpijob_worker",
            "gather_facts": False,
            "environment": "{{ gpufabric_environment }}",
            "tasks": [{"ansible.builtin.include_role": role}],
        },
    ]
    played = worker.play(plays)
    worker.hostility.check(played, ": it is among the facts of w1, which ")


@pytest.mark.slow
def test_a_benchmark_with_such_answers_is_one_without_them(worker):
    """All tasks that follow run in it, those on the controller too."""
    played = worker.play("gpufabric.nccl.bare_metal", more=worker.hostility.commands())
    worker.hostility.check_quiet(played)
    assert played.returncode == 0 and "intruder" not in played.output, played.output
    assert (worker.directory / "results" / "results.csv").exists(), played.output


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_nor_with_another_ansible_core(worker, release):
    worker.player = worker.player.within(ansible_core(release))
    answer_everything(worker, TOLD)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("playbook", "module", "whole", "words"),
    [
        ("bare_metal", "mpi_run", False, []),
        ("bare_metal", "mpi_run", True, ["what w1 says of the run cannot be read"]),
        ("isolate", "mpi_run", False, []),
        ("diagnose", "mpi_preflight", False, []),
        ("diagnose", "run_cleanup", True, []),
        ("bare_metal", "sshd_instance", False, ["w1 returned sshd_instance"]),
        ("bare_metal", "mpi_preflight", True, []),
    ],
)
def test_a_worker_that_changes_one_answer(worker, playbook, module, whole, words):
    played = worker.play(f"gpufabric.nccl.{playbook}", module, worker.hostility.answers("w1") if whole else None)
    assert not worker.hostility.mark.exists() and "\x1b" not in played.output and "Traceback" not in played.output, (
        played.output
    )
    assert all(word in played.output for word in words), played.output
    assert module in {record["action"].rpartition(".")[2] for record in played.records}, played.output


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_what_a_worker_says_that_ends_the_connection(nodes, tmp_path, release):
    """Of a host that is unreachable, Ansible before 2.19 marks nothing as unsafe."""
    hostility = Hostility(tmp_path / "was-run")
    python = "/run/ends-the-connection"
    # The exit status of ssh itself.
    nodes.shell(
        "g2",
        f"printf '#!/bin/sh\\nprintf %%s %s >&2\\nexit 255\\n' {shlex.quote(shlex.quote(hostility.text))} >{python}",
    )
    inventory = tmp_path / "more.yml"
    inventory.write_text(yaml.safe_dump({"all": {"hosts": {"g2": {"ansible_python_interpreter": python}}}}))
    try:
        nodes.shell("g2", f"chmod 0755 {python}")
        for playbook in ("bare_metal", "teardown"):
            more = ("-i", str(inventory), "--limit", "g1:g2")
            played = nodes.within(ansible_core(release)).playbook(
                f"gpufabric.nccl.{playbook}", *more, report_dir=str(tmp_path / "results")
            )
            assert played.returncode in (2, 4) and "lookup(" in played.output, played.output
            hostility.check_quiet(played)
    finally:
        nodes.shell("g2", f"rm -f {python}")


@pytest.mark.parametrize("release", [None, *map(slow, RELEASES)])
def test_what_programs_of_a_worker_say_before_and_after_an_answer(fresh_nodes, tmp_path, release):
    """Ansible shows their words itself where it makes its directory there, and so does what brings the output of a run."""
    hostility = Hostility(tmp_path / "was-run")
    nodes = fresh_nodes.within(ansible_core(release)) if release else fresh_nodes
    lie = shlex.quote(f"#!/bin/sh\nprintf '%s\\n' {shlex.quote(hostility.text)} | tee /dev/stderr\nexit 1\n")

    def play(program: str, status: int, words: str, *tasks: dict[str, t.Any], **variables: t.Any) -> None:
        path = f"/usr/local/sbin/{program}"
        nodes.shell("g1", f"printf %s {lie} >{path}; /bin/chmod 0755 {path}")
        played = nodes.playbook([{"hosts": "g1", "gather_facts": False, "tasks": tasks}], **variables)
        nodes.shell("g1", f"/bin/rm {path}")
        hostility.check_quiet(played)
        said = " ".join(played.output.split())
        assert played.returncode == status and words in said and "[forged]" in said, played.output

    # As where ansible.cfg does not say that modules need no files there.
    for program, status, words in (("mkdir", 4, "Failed to create temporary"), ("chmod", 2, "Failed to set ")):
        play(program, status, words, {"gpufabric.nccl.free_port": {}}, ansible_pipelining=False)
    keys = {"hosts": "workers", "gather_facts": False, "roles": ["gpufabric.nccl.key_exchange"]}
    assert nodes.playbook([keys]).returncode == 0
    hosts = [{"name": nodes.addresses["g1"], "slots": 1}]
    run = {"run_id": nodes.run_id, "control_interface": "eth0", "points": [{"argv": ["true"]}], "poll_grace": 3}
    play(
        "base64",
        0,
        "the output of the run stays on g1",
        {"gpufabric.nccl.mpi_hostfile": {"run_id": nodes.run_id, "hosts": hosts}},
        {"gpufabric.nccl.mpi_run": {**run, "fetch_dest": str(tmp_path / "output")}},
        # Else ssh has the last word: that its connection is closed.
        ansible_ssh_extra_args="-o LogLevel=QUIET",
    )
