# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster whose API server takes connections and never answers, as a load balancer does whose backend is gone."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import typing as t

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[2]

#: Ansible, with another limit: its argument.
PROGRAM = """
import sys
from ansible.plugins.loader import init_plugin_loader
init_plugin_loader([])
from ansible_collections.gpufabric.nccl.plugins.plugin_utils import _cluster
_cluster._LONGEST = int(sys.argv.pop(1))
from ansible.cli.adhoc import AdHocCLI
AdHocCLI.cli_executor(sys.argv)
"""

UNANSWERED = "The API server of the cluster does not answer: no answer in {} s."


@pytest.fixture
def kubeconfig(tmp_path: pathlib.Path) -> t.Iterator[pathlib.Path]:
    path = tmp_path / "kubeconfig"
    with socket.create_server(("127.0.0.1", 0)) as server:
        config = {
            "clusters": [
                {"name": "silent", "cluster": {"server": f"http://127.0.0.1:{server.getsockname()[1]}"}},
            ],
            "users": [{"name": "user", "user": {"token": "none"}}],
            "contexts": [{"name": "silent", "context": {"cluster": "silent", "user": "user"}}],
            "current-context": "silent",
        }
        path.write_text(yaml.safe_dump(config))
        yield path


def ansible(directory: pathlib.Path, *command: str, collections: pathlib.Path = ROOT / "build/collections") -> t.Any:
    return subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": f"{collections}:{ROOT / '.venv/collections'}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def impatient(directory: pathlib.Path) -> pathlib.Path:
    """Where the collection is with tasks that have a limit of 5 s."""
    limit = re.compile(r"timeout: (?:120|300|900)\n")
    collection = directory / "collections/ansible_collections/gpufabric/nccl"
    collection.mkdir(parents=True)
    for name in ("galaxy.yml", "meta", "playbooks"):
        (collection / name).symlink_to(ROOT / name)
    for name in ("plugins", "roles"):
        shutil.copytree(ROOT / name, collection / name)
    asking = collection / "plugins/plugin_utils/_cluster.py"
    asking.write_text(asking.read_text().replace("_LONGEST = 120", "_LONGEST = 5"))
    limited = [path for path in collection.glob("roles/*/tasks/*.yml") if limit.search(path.read_text())]
    assert limited
    for path in limited:
        path.write_text(limit.sub("timeout: 5\n", path.read_text()))
    return directory / "collections"


def play_of(directory: pathlib.Path, kubeconfig: pathlib.Path, *tasks: t.Mapping[str, t.Any]) -> t.Any:
    variables = {
        "gpufabric_kubeconfig": str(kubeconfig),
        "gpufabric_namespace": "x",
        "isolate_search": {"document": {"nodes": []}},
        "mpijob_hostfile_launcher": "localhost",
    }
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": variables, "tasks": tasks}
    (directory / "play.yml").write_text(yaml.safe_dump([play]))
    return ansible(directory, "ansible-playbook", "play.yml", collections=impatient(directory))


def test_a_question_that_nobody_answers_ends(
    tmp_path: pathlib.Path, kubeconfig: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As the one of Busybox, which Alpine has: it knows no long options.
    program = tmp_path / "bin/timeout"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\ncase $1 in --*) exit 1;; esac\nexec {shutil.which("timeout")} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    arguments = f"kubeconfig={kubeconfig} namespace=x label_selector=a=b"
    command = (sys.executable, "-c", PROGRAM, "10", "localhost", "-m", "gpufabric.nccl.pods_ready", "-a", arguments)
    play = ansible(tmp_path, *command)
    assert play.returncode == 2, play.stdout + play.stderr
    assert UNANSWERED.format(10) in play.stdout


def test_a_role_whose_question_nobody_answers_says_so(tmp_path: pathlib.Path, kubeconfig: pathlib.Path) -> None:
    tasks = {"name": "gpufabric.nccl.isolate", "tasks_from": "mark"}
    play = play_of(tmp_path, kubeconfig, {"ansible.builtin.include_role": tasks})
    assert play.returncode == 2, play.stdout + play.stderr
    assert UNANSWERED.format(5) in play.stdout


def test_the_hostfile_of_a_job_is_read_without_the_cluster_too(
    tmp_path: pathlib.Path, kubeconfig: pathlib.Path
) -> None:
    # Its file is not here: what matters is that its module was asked.
    tasks = {"name": "gpufabric.nccl.mpijob", "tasks_from": "hostfile"}
    play = play_of(tmp_path, kubeconfig, {"ansible.builtin.include_role": tasks})
    assert "TASK [gpufabric.nccl.mpijob : Hostfile | Write it]" in play.stdout, play.stdout + play.stderr


_LOOK = {"gpufabric_hosts": ["p-0"]}
_GROUP = {
    **dict.fromkeys(("orphan_timeout", "silence_timeout", "startup_timeout", "timeout"), 1),
    "backend": "cpu",
    "control": "x",
    "forward_env": [],
    "hosts": [],
    "launcher": "p-0",
    "mca": {},
    "output_limit": "1M",
    "parallel": False,
    "points": [],
    "show": "none",
}
#: What a play asks a pod for that is not the run itself, by role and file of its tasks, and the variables that it needs. The limit of the
#: hostfile is 300 s above mpijob_dns_timeout.
STEPS: dict[tuple[str, str], dict[str, t.Any]] = {
    ("key_exchange", "main"): {"key_exchange_hosts": ["p-0"]},
    ("nccl_benchmark", "look"): _LOOK,
    ("mpijob", "disconnect"): {},
    ("mpijob", "hostfile"): {"mpijob_dns_timeout": -295, "mpijob_hostfile_launcher": "p-0"},
    ("worker_pods", "clean"): {},
    ("nccl_benchmark", "run_group"): {"nccl_benchmark_group": _GROUP},
    ("preflight", "look"): {"gpufabric_peers": [], "preflight_launcher": "p-0", "preflight_level": "quick"},
    ("isolate", "main"): {**_LOOK, "isolate_fail_on_bad": True},
    ("nccl_tests", "main"): _LOOK,
}


@pytest.mark.parametrize(
    "step",
    # Three of them at each commit.
    [pytest.param(step, marks=[pytest.mark.slow] if number >= 3 else []) for number, step in enumerate(STEPS)],
    ids="-".join,
)
def test_a_pod_that_does_not_answer_does_not_hold_a_play_up(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, step: tuple[str, str]
) -> None:
    # As one of a node whose kubelet hangs.
    program = tmp_path / "bin/kubectl"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    (tmp_path / "inventory").write_text(
        "[mpijob_launcher]\np-0\n[all:vars]\nansible_connection=kubernetes.core.kubectl\n"
    )
    variables = {
        "_worker_pods_plan": {"adopt": True},
        "_mpijob_hostfile": {"path": "x"},
        "gpufabric_claim": {},
        "gpufabric_namespace": "x",
        "ansible_pipelining": True,
        "ansible_python_interpreter": "python3",
        "report_dir": str(tmp_path / "report"),
        **STEPS[step],
    }
    facts = {"hosts": "localhost", "connection": "local", "gather_facts": False}
    asked = {"ansible.builtin.include_role": {"name": f"gpufabric.nccl.{step[0]}", "tasks_from": step[1]}}
    plays = [
        {**facts, "tasks": [{"ansible.builtin.set_fact": variables}]},
        {"hosts": "p-0", "gather_facts": False, "vars": variables, "tasks": [asked]},
    ]
    (tmp_path / "play.yml").write_text(yaml.safe_dump(plays))
    play = ansible(tmp_path, "ansible-playbook", "-i", "inventory", "play.yml", collections=impatient(tmp_path))
    assert "Timed out after 5 second(s)" in play.stdout, play.stdout + play.stderr
    # That pods could not be cleaned, the end of the play tells.
    assert play.returncode == (0 if step == ("worker_pods", "clean") else 2), play.stdout


AWAY = {"id": "kube-unreachable", "severity": "error", "host": None, "cause": "away", "cure": "", "evidence": ""}
FAILURE = {"failed": True, "problems": [{**AWAY, "id": "launcher-lost", "host": "p-0", "cause": "no answer"}]}
UNCLEAN = {
    "worker_pods_unclean": {"failed": True, "msg": "x", "module_stderr": "No usable temporary directory found in"}
}


@pytest.mark.parametrize(
    ("adopt", "answered", "failure", "unclean", "told"),
    [
        (
            True,
            False,
            FAILURE,
            {},
            {"kube-unreachable, processes-left: see above", "p-0, p-1: The host may still have"},
        ),
        (False, False, FAILURE, {}, {"kube-unreachable: see above"}),
        (
            True,
            True,
            FAILURE,
            UNCLEAN,
            {"p-1: The user can write to no directory", "p-0: no answer", "p-1: The host may"},
        ),
        (True, True, {}, UNCLEAN, {"temporary-directory-missing, processes-left: see above"}),
    ],
)
def test_what_may_be_left_in_pods_of_others_is_told(
    tmp_path: pathlib.Path, adopt: bool, answered: bool, failure: t.Any, unclean: t.Any, told: set[str]
) -> None:
    facts = {
        "_worker_pods_made": {"created": False},
        "_worker_pods_plan": {"adopt": adopt, "removal": "kubectl delete"},
        "worker_pods_leftovers": [],
        "worker_pods_lost": {"answered": answered, "names": [], "problems": [] if answered else [AWAY]},
    }
    hosts = {"p-0": {"worker_pods_failure": failure}, "p-1": {"worker_pods_failure": {}, **unclean}}
    (tmp_path / "inventory.yml").write_text(yaml.safe_dump({"workers": {"hosts": hosts}}))
    ends = {"ansible.builtin.include_role": {"name": "gpufabric.nccl.worker_pods", "tasks_from": "end"}}
    tasks = [{"ansible.builtin.set_fact": facts}, ends]
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    played = ansible(tmp_path, "ansible-playbook", "-i", "inventory.yml", "play.yml")
    assert played.returncode == 2, played.stdout + played.stderr
    assert {words for words in told if words not in played.stdout} == set(), played.stdout
