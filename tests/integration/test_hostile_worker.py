# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plays over a worker that answers every module as it likes: nothing that it says is run on the controller."""

from __future__ import annotations

import json
import re

import pytest
import yaml

#: Has what the CPU program needs.
REAL = "/usr/bin/python3"

# The worker's Python. It runs a module and then replaces texts in its answer, or answers without running anything.
PYTHON = """#!{python}
import json, os, re, subprocess, sys

HOSTILE = json.loads({hostile!r})
names, whole = {names!r}.split(), {whole!r}
source = sys.stdin.read() if sys.argv[1:2] in ([], ["-"]) else open(sys.argv[1]).read() if sys.argv[1:] else ""
called = re.search(r"ansible_collections[./]gpufabric[./]nccl[./]plugins[./]modules[./](\\w+)", source)
name = called.group(1) if called else ""
if name and (not names or name in names):
    if whole:
        print(json.dumps({{**HOSTILE, "changed": False}}))
        sys.exit()
    done = subprocess.run([{python!r}, *sys.argv[1:]], input=source, capture_output=True, text=True)
    def changed(value, key=""):
        if isinstance(value, dict):
            return {{k: changed(v, k) for k, v in value.items()}}
        if isinstance(value, list):
            return [changed(item, key) for item in value] or [HOSTILE["text"]]
        return HOSTILE["text"] if isinstance(value, str) and key not in ("module_args",) else value
    answer = json.loads(done.stdout[done.stdout.index("{{"):])
    invocation = answer.pop("invocation", None)
    print(json.dumps(changed(answer)))
    sys.exit(done.returncode)
done = subprocess.run([{python!r}, *sys.argv[1:]], input=source, text=True)
sys.exit(done.returncode)
"""


class Worker:
    """A host of the inventory that is this machine, with a Python of its own."""

    def __init__(self, player, directory):
        self.player = player.within({})
        self.player._seconds = 180
        self.directory = directory
        self.mark = directory / "was-run"
        self.text = f"{{{{ lookup('pipe', 'touch {self.mark}') }}}}\n\x1b]0;owned\x07"
        self.run_id = f"hostile{directory.name[-1]}"

    def play(self, playbook, names="", answer=None, **variables):
        """Run a playbook where the modules ``names`` (none: all) answer with hostile texts, or with ``answer``."""
        interpreter = self.directory / "python"
        hostile = {"text": self.text, **(answer or {})}
        interpreter.write_text(
            PYTHON.format(python=REAL, hostile=json.dumps(hostile), names=names, whole=answer is not None)
        )
        interpreter.chmod(0o755)
        inventory = self.directory / "inventory.yml"
        host = {"ansible_connection": "local", "ansible_python_interpreter": str(interpreter)}
        inventory.write_text(yaml.safe_dump({"all": {"hosts": {"w1": host}}}))
        return self.player.playbook(
            playbook,
            "-i",
            str(inventory),
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

    def answers(self):
        """An answer that has all that any module returns, each text a hostile one."""
        text = self.text
        problem = {"id": text, "severity": "error", "host": "-oProxyCommand=touch " + str(self.mark), "cause": text}
        refused = {**problem, "id": "ssh-closed", "cure": text, "evidence": text}
        host = {"name": "w1", "address": text, "stage": text, "ok": False, "facts": {"interfaces": text}}
        return {
            **dict.fromkeys(("address", "user", "client_public_key", "run_dir", "hostname", "path", "msg"), text),
            **dict.fromkeys(("ssh_config", "agent", "environment", "node", "points", "runner", "version"), text),
            "port": text,
            "host_public_keys": [text],
            "problems": [{**problem, "cure": text, "evidence": text}, refused, text],
            "hosts": [{**host, "problems": [text]}],
            "ok": False,
        }


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


def check(worker, played, *words):
    """Nothing ran on the controller, no escape was shown, and the play says what is wrong, and of which host."""
    assert not worker.mark.exists(), played.output
    assert played.returncode == 2, played.output
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", played.output), played.output
    assert "Traceback" not in played.output and all(word in played.output for word in words), played.output


def test_a_worker_that_answers_everything_with_templates(worker):
    answer = worker.answers()
    for playbook, words in (
        ("bare_metal", ["w1 returned node: "]),
        ("isolate", ["w1 returned node: "]),
        ("diagnose", ["w1 returned sshd_instance"]),
    ):
        check(worker, worker.play(f"gpufabric.nccl.{playbook}", answer=answer), *words)
    played = worker.play("gpufabric.nccl.teardown", answer=answer)
    assert not worker.mark.exists() and "\x1b" not in played.output


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
    played = worker.play(f"gpufabric.nccl.{playbook}", module, worker.answers() if whole else None)
    assert not worker.mark.exists() and "\x1b" not in played.output and "Traceback" not in played.output, played.output
    assert all(word in played.output for word in words), played.output
    assert module in {record["action"].rpartition(".")[2] for record in played.records}, played.output
