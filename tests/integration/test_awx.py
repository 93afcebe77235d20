# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs of examples/awx as AWX runs them: by ansible-runner, from a project that cannot be written, with answers of a survey."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.server
import json
import pathlib
import subprocess
import threading
import typing as t
import uuid

import pytest
from background import kill, wait
from conftest import slow

runner = pytest.importorskip("ansible_runner")

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "awx"
#: What AWX adds to the variables of each job.
OF_AWX = {"awx_job_id": 7, "awx_job_template_name": "NCCL bare_metal", "awx_workflow_job_id": 8}
#: The longest event that is fine, in bytes: AWX keeps them all in its database.
LONGEST = 15000

#: Python runs it first in each rank. That of reduce goes on until it may end.
TROUBLE = """\
import os, time
while "reduce" in open("/proc/self/cmdline").read().split("\\0") and os.path.exists("/run/hold"):
    time.sleep(0.2)
"""


class Jobs:
    """Runs jobs on nodes. ``results``: what they keep on a volume."""

    def __init__(self, directory: pathlib.Path, nodes: t.Any) -> None:
        self._directory = directory
        self._inventory = nodes.inventory if nodes else "localhost,"
        self.results = directory / "results"
        self.results.mkdir()

    def run(self, playbook: str, cmdline: str = "", **options: t.Any) -> t.Any:
        """Run a job. ``options``: its variables, but for those that begin with ``_``, which are ansible_runner's."""
        place = self._directory / uuid.uuid4().hex
        (place / "project").mkdir(parents=True)
        (place / "none.cfg").touch()
        own = {name[1:]: value for name, value in options.items() if name.startswith("_")}
        given = {name: value for name, value in options.items() if not name.startswith("_")}
        variables = {"gpufabric_owner": "awx", "results_dir": str(self.results), **OF_AWX, **given}
        with read_only(EXAMPLE, place / "project"):
            return runner.run(
                private_data_dir=str(place),
                playbook=playbook,
                inventory=self._inventory,
                extravars=variables,
                cmdline=f"--forks=50 {cmdline}",
                envvars={
                    # As in a container of AWX, which has no ansible.cfg.
                    "ANSIBLE_CONFIG": str(place / "none.cfg"),
                    "ANSIBLE_COLLECTIONS_PATH": f"{ROOT}/build/collections:{ROOT}/.venv/collections",
                    "ANSIBLE_HOST_KEY_CHECKING": "False",
                    "ANSIBLE_RETRY_FILES_ENABLED": "False",
                },
                settings={"suppress_ansible_output": True},
                quiet=True,
                **own,
            )


@contextlib.contextmanager
def read_only(source: pathlib.Path, target: pathlib.Path) -> t.Iterator[None]:
    """A directory at another place too, where root cannot write it either."""
    subprocess.run(["mount", "--bind", "--options", "ro", source, target], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", target], check=True)


@pytest.fixture
def jobs(nodes, tmp_path):
    return Jobs(tmp_path, nodes)


def said(job):
    return " ".join(job.stdout.read().split())


def artifacts(job):
    """What the job hands on to the next one of a workflow."""
    found = [
        event["event_data"]["artifact_data"] for event in job.events if "artifact_data" in event.get("event_data", {})
    ]
    return found[-1] if found else {}


def assert_events_are_short(job):
    lengths = {len(json.dumps(event)): event for event in job.events}
    longest = lengths[max(lengths)]
    assert max(lengths) < LONGEST, (max(lengths), longest["event"], longest.get("event_data", {}).get("task"))


def test_a_job_hands_on_its_numbers_in_small_events_and_keeps_its_results(jobs, nodes):
    job = jobs.run(
        "bare_metal.yml",
        "--limit g1:g2",
        nccl_benchmark_collectives="all_reduce\nall_gather\n",
        nccl_benchmark_min_bytes=8,
        nccl_benchmark_max_bytes="64K",
        nccl_benchmark_iterations="3",
        nccl_benchmark_env="NCCL_ALGO=Ring",
        nccl_benchmark_extra_args="",
        report_formats=["json", "markdown"],
        report_thresholds='{"rules": [{"name": "Fast", "limit": 1000}]}',
    )
    assert job.status == "failed", said(job)
    # The next job of the workflow has a container, and so a controller, of its own, and is not refused.
    nodes.shell("g1", "! ls /run/gpufabric/*/mpi/polled")
    handed_on = artifacts(job)
    numbers = handed_on["gpufabric_numbers"]
    assert handed_on["gpufabric_verdict"] == "fail" and [one["collective"] for one in numbers] == [
        "all_reduce",
        "all_gather",
    ]
    for one in numbers:
        assert (one["host_count"], one["limits_missed"], one["causes"][0]["id"]) == (2, ["Fast"], "limit-missed")
        assert one["peak_busbw"] >= one["avg_busbw"] > 0
    assert len(json.dumps(handed_on)) < 4000
    folder = jobs.results / "8"
    assert {"results.json", "report.md", "output.tar.gz"} <= {path.name for path in folder.iterdir()}
    results = json.loads((folder / "results.json").read_text())["results"]
    for one, document in zip(numbers, results):
        assert [one[name] for name in ("peak_busbw", "avg_busbw", "wrong")] == [
            document["summary"][name] for name in ("peak_busbw", "avg_busbw", "wrong")
        ]
    assert results[0]["points"]["env"] == {"NCCL_ALGO": "Ring"} and len(results[0]["rows"]) == 14

    assert_events_are_short(job)
    texts = [json.dumps(event.get("event_data")) for event in job.events]
    # The CPU program goes to the nodes by an option of mpi_run.
    assert not any("SPDX-License-Identifier" in text for text in texts)
    # Rows are shown as they are printed, and are in the files; documents of two collectives are too long to be shown.
    assert not any('"time_us"' in text for text in texts)
    removed = jobs.run("teardown.yml")
    assert removed.status == "successful", said(removed)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"awx_workflow_job_name": "NCCL bare_metal"}, "awx_workflow_job_name: 'NCCL bare_metal' is not allowed; allowed: a job template without slices"),
        slow({"nccl_benchmark_env": "just words"}, "nccl_benchmark_env: (not shown) is not allowed; allowed: a dictionary; as text NAME=VALUE"),
        slow({"results_dir": "/proc/nothing"}, "/proc/nothing"),
    ],
    ids=["slices", "answer", "volume"],
)  # fmt: skip
def test_a_job_that_cannot_work_is_refused_with_one_error_before_a_machine_is_touched(jobs, nodes, variables, words):
    before = nodes.state("g1")
    job = jobs.run("bare_metal.yml", **variables)
    failures = [event for event in job.events if event["event"] == "runner_on_failed"]
    assert job.status == "failed" and len(failures) == 1 and words in said(job), said(job)
    assert nodes.state("g1") == before


@pytest.mark.parametrize("playbook", ["kubernetes", slow("mpijob"), slow("compare"), slow("local")])
def test_a_limit_that_leaves_out_the_controller_is_refused(player, playbook):
    """All plays would be skipped, and the job would be green."""
    played = player.playbook(f"gpufabric.nccl.{playbook}", "-i", "gpu-1,gpu-2", "--limit", "gpu-1")
    told = " ".join(played.output.split())
    assert played.returncode == 2 and "--limit gpu-1 is not allowed: this playbook runs on the controller" in told, told


class Ranks:
    """The program of a job that goes on until /run/hold is gone, and what tells of it on the nodes."""

    #: Not that of the inventory, which other tests have.
    RUN = "held"

    def __init__(self, nodes: t.Any) -> None:
        self._nodes = nodes
        self.options = {
            "nccl_benchmark_collectives": "broadcast,reduce",
            "nccl_benchmark_env": {"PYTHONPATH": "/opt/trouble"},
            "nccl_benchmark_max_bytes": "1K",
            "report_formats": "json",
            "preflight_level": "none",
            "gpufabric_run_id": self.RUN,
        }

    def hold(self) -> None:
        for node in self._nodes.names:
            self._nodes.shell(
                node, f"mkdir -p /opt/trouble; printf %s '{TROUBLE}' >/opt/trouble/sitecustomize.py; touch /run/hold"
            )

    def release(self) -> None:
        for node in self._nodes.names:
            self._nodes.shell(node, "rm -rf /run/hold /opt/trouble")

    def processes(self) -> str:
        """All that carries a point of the run, on all nodes: ranks, mpirun and its daemons."""
        look = f"grep -lz -e _POINT={self.RUN}/ -e gpufabric_point={self.RUN}/ /proc/[0-9]*/environ"
        return "".join(self._nodes.shell(node, look, check=False).stdout for node in self._nodes.names)

    def events(self) -> str:
        path = f"/run/gpufabric/{self.RUN}/mpi/events.jsonl"
        return self._nodes.shell("g1", f"cat {path}", check=False).stdout

    def second_point_runs(self) -> bool:
        return '"event": "started", "point": 2' in self.events()

    def over(self) -> str | None:
        text = self._nodes.shell("g1", f"cat /run/gpufabric/{self.RUN}/mpi/run.json").stdout
        return json.loads(text)["over"]


@pytest.fixture
def ranks(nodes):
    ranks = Ranks(nodes)
    ranks.hold()
    yield ranks
    ranks.release()
    removed = nodes.playbook("gpufabric.nccl.teardown", gpufabric_run_id=Ranks.RUN, gpufabric_owner="awx")
    assert removed.returncode == 0 and not ranks.processes(), removed.output


@pytest.mark.slow
def test_what_ansible_leaves_of_a_cancelled_job_ends_the_run(jobs, ranks):
    """AWX kills the process group of the playbook; a worker of Ansible has a session of its own."""
    job = jobs.run("bare_metal.yml", _cancel_callback=ranks.second_point_runs, **ranks.options)
    assert job.status == "canceled"
    wait(lambda: not ranks.processes(), 120, ranks.processes)
    # The worker ends the run if it still reaches the launcher, else the launcher does, when nobody has asked for 90 s.
    assert ranks.over() in ("stopped", "orphaned"), ranks.events()


def check_beside(nodes, folder):
    """Another run on the machines says that they are in use, and so do its results."""
    beside = nodes.benchmark(folder, gpufabric_run_id="beside", preflight_level="none")
    told = " ".join(beside.output.split())
    assert f"[WARNING]: Programs of another run, {Ranks.RUN}, of awx, started " in told, told
    (problem,) = json.loads((folder / "results.json").read_text())["results"][0]["problems"]
    assert (problem["id"], problem["severity"]) == ("run-beside", "warning") and "g1, g2, g3" in problem["evidence"]
    assert nodes.playbook("gpufabric.nccl.teardown", gpufabric_run_id="beside").returncode == 0


@pytest.mark.slow
def test_a_run_whose_controller_is_gone_ends_itself_in_two_minutes_and_is_continued_by_the_same_job(jobs, ranks, nodes):
    token = uuid.uuid4().hex
    options = {"gpufabric_owner": "awx", **ranks.options}
    # Another process: who looks for the token must not find this one.
    with concurrent.futures.ThreadPoolExecutor() as pool:
        first = pool.submit(nodes.benchmark, jobs.results / "first", token=token, **options)
        try:
            wait(ranks.second_point_runs)
            check_beside(nodes, jobs.results / "beside")
        finally:
            kill(token)
        assert first.result().returncode != 0
    wait(lambda: not ranks.processes(), 120, ranks.processes)
    assert ranks.over() == "orphaned"

    ranks.release()
    again = nodes.benchmark(jobs.results / "first", **options)
    assert again.returncode == 0, again.output
    points = again.result(action="gpufabric.nccl.mpi_run")["points"]
    assert [(point["status"], point["resumed"]) for point in points] == [("finished", True), ("finished", False)]


class Store(http.server.BaseHTTPRequestHandler):
    """Takes files as WebDAV does."""

    stored: t.ClassVar[dict[str, tuple[str | None, bytes]]] = {}
    refused: t.ClassVar[str] = ""

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.stored[self.path] = (self.headers["Authorization"], body)
        self.send_response(403 if self.path == self.refused else 201)
        self.end_headers()

    def log_message(self, *_arguments: t.Any) -> None:
        """Nothing."""


def test_the_last_job_uploads_the_results_and_fails_if_the_benchmark_has(tmp_path, monkeypatch):
    jobs = Jobs(tmp_path, None)
    (jobs.results / "8" / "isolate").mkdir(parents=True)
    for name in ("report.html", "isolate/isolation.json"):
        (jobs.results / "8" / name).write_text(name)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("RESULTS_TOKEN", "s3cr3t")
        url = f"http://127.0.0.1:{server.server_address[1]}/nccl"
        job = jobs.run("report.yml", gpufabric_verdict="pass", gpufabric_numbers=[{"peak_busbw": 9}], results_url=url)
        Store.refused = "/nccl/8/report.html"
        refused = jobs.run("report.yml", gpufabric_verdict="pass", results_url=url)
        lost = jobs.run("report.yml", gpufabric_verdict="pass", results_url=url, results_dir="/nosuch")
        server.shutdown()
    assert lost.status == "failed" and "No files in /nosuch/8: " in said(lost), said(lost)
    assert refused.status == "failed" and f"Not uploaded to {url}: " in said(refused), said(refused)
    assert job.status == "successful" and "s3cr3t" not in said(job), said(job)
    assert not any("s3cr3t" in json.dumps(event) for events in (job.events, refused.events) for event in events)
    assert Store.stored == {
        f"/nccl/8/{name}": ("Bearer s3cr3t", name.encode()) for name in ("report.html", "isolate/isolation.json")
    }
    found = {"gpufabric_verdict": "pass", "gpufabric_isolation_nodes": {"gpu-2": "bad"}}
    job = jobs.run("report.yml", **found)
    assert job.status == "failed" and "The benchmark has not passed. Not good: gpu-2" in said(job), said(job)
