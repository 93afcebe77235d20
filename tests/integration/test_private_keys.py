# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Private keys are on the node that made them: no result, diff, log, event, report or file of the controller has one."""

from __future__ import annotations

import pytest
from private_keys import MARKS, holders, lines_of, tellers

#: Shows all that Ansible shows: each module's arguments and whole result.
ALL = ("-vvv", "--diff")
TOKEN = "t0ken-of-somebody"
KEYS = ["/ssh/id_ed25519", "/sshd/ssh_host_ed25519_key"]
RUN_DIR = "/run/private-keys"

#: Keeps what modules say to the system's log, with their arguments.
SYSLOG = """python3 -c '
import os, socket
log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
log.bind("/dev/log")
if os.fork() == 0:
    os.setsid()
    with open("/root/syslog", "ab", buffering=0) as file:
        while True:
            file.write(log.recv(1 << 20) + b"\\n")
' >/dev/null 2>&1 </dev/null"""


@pytest.fixture
def logged(fresh_nodes):
    """Two nodes that keep a log."""
    for name in fresh_nodes.names:
        fresh_nodes.shell(name, SYSLOG)
    return fresh_nodes


def found_on(nodes, name, secrets):
    """The files of a node that have a private key of the run, and are no key files of it; its programs' memory is not looked at."""
    patterns = "\n".join([*MARKS, *secrets])
    # The node has the root file system of this machine, with keys of its own; what a run writes is here.
    places = "/run /tmp /var/log /dev/shm /root/syslog"
    found = nodes.shell(
        name, f"grep -rslF -e '{patterns}' --exclude-dir=.ssh {places} | grep -v local-node; true"
    ).stdout.split()
    return sorted(path for path in found if path not in [f"{RUN_DIR}{key}" for key in KEYS])


# test_playbooks looks through one play.
@pytest.mark.slow
def test_no_private_key_leaves_its_node(logged, tmp_path):
    nodes = logged
    report = {"report_dir": str(tmp_path / "report"), "preflight_report_dir": str(tmp_path / "report")}
    small = {
        "gpufabric_run_dir": RUN_DIR,
        "nccl_benchmark_max_bytes": "4K",
        "nccl_benchmark_iterations": 2,
        "isolate_min_bytes": "64K",
        "isolate_max_bytes": "64K",
        # No key, but as secret; its value is shown to nobody but whoever asks Ansible for the arguments of modules.
        "nccl_benchmark_env": {"MY_TOKEN": TOKEN},
    }
    output = {"nccl_benchmark_output_dir": str(tmp_path / "report")}
    checked = nodes.playbook("gpufabric.nccl.bare_metal", *ALL, "--check", **report, **small)
    first = nodes.playbook("gpufabric.nccl.bare_metal", *ALL, **report, **small, **output)
    assert first.returncode == 0, first.output
    secrets = []
    for name in nodes.names:
        paths = [f"{RUN_DIR}{key}" for key in KEYS]
        assert nodes.shell(name, f"stat -c %a {' '.join(paths)}").stdout.split() == ["600", "600"]
        secrets += lines_of(nodes.shell(name, f"cat {path}").stdout for path in paths)
    assert len(secrets) >= 8
    again = nodes.playbook("gpufabric.nccl.bare_metal", *ALL, **report, **small, **output)
    # One that fails says and keeps the most.
    nodes.shell("g2", f"chmod 0644 {RUN_DIR}/ssh/id_ed25519; echo broken >{RUN_DIR}/ssh/config")
    failed = nodes.playbook(
        "gpufabric.nccl.bare_metal",
        *ALL,
        **report,
        **small,
        nccl_benchmark_mca={"plm_base_verbose": "5", "plm_rsh_agent": "/none"},
    )
    assert failed.returncode != 0
    diagnosed = nodes.playbook("gpufabric.nccl.diagnose", *ALL, **report, gpufabric_run_dir=f"{RUN_DIR}-diagnose")
    isolated = nodes.playbook(
        "gpufabric.nccl.isolate", *ALL, **report, **{**small, "gpufabric_run_dir": f"{RUN_DIR}-isolate"}
    )
    kept = {name: found_on(nodes, name, secrets) for name in nodes.names}
    ended = nodes.playbook("gpufabric.nccl.teardown", *ALL, gpufabric_run_dir=RUN_DIR)
    assert kept == {name: found_on(nodes, name, secrets) for name in nodes.names} == {name: [] for name in nodes.names}
    plays = {
        "check": checked, "first": first, "again": again, "failed": failed, "diagnose": diagnosed, "isolate": isolated,
        "teardown": ended,
    }  # fmt: skip
    assert {name: tellers(played, TOKEN) for name, played in plays.items()} == {name: [] for name in plays}
    assert {name: holders(played, tmp_path, secrets) for name, played in plays.items()} == {name: [] for name in plays}
    # What was looked through is what there is to look through.
    assert isolated.returncode == 0, isolated.output[-6000:]
    silent = [name for name in ("check", "first", "diagnose", "isolate") if "max_startups" not in plays[name].output]
    assert silent == []
    assert "Invoked with" in nodes.shell("g1", "cat /root/syslog").stdout
    for name in nodes.names:
        logged_lines = nodes.shell(name, "cat /root/syslog").stdout.splitlines()
        assert [line[:200] for line in logged_lines if TOKEN in line] == []
    assert not [path for path in (tmp_path / "report").iterdir() if TOKEN.encode() in path.read_bytes()]
    assert (tmp_path / "report/output.tar.gz").is_file() and (tmp_path / "report/diagnosis.json").is_file()
