# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whole runs with Open MPI 5.0, whose runtime is another one than that of 4, and the same with 4 where they may differ."""

from __future__ import annotations

import json
import subprocess

import pytest
from conftest import slow

#: Each means something to a shell, to Open MPI or to sshd.
VALUES = {
    "NCCL_TEST_SHELL": "$HOME `id` $(id) \\ * | & ; # ~",
    "NCCL_TEST_QUOTES": "a 'b' \"c\"  ",
    "NCCL_TEST_LISTS": "x=y=z,a;b:c",
    "NCCL_TEST_EMPTY": "",
    "TEST_OF_THE_USER": "two words",
}

#: What images and batch systems leave. Each keeps one of the versions from running on both nodes.
LEFT = {
    "OMPI_MCA_btl_tcp_if_exclude": "lo",
    "OMPI_MCA_oob_tcp_if_exclude": "lo",
    "PRTE_MCA_prte_if_exclude": "lo",
    "OMPI_MCA_mca_base_env_list": "A=1",
    "OMPI_MCA_pml": "ucx",
    "OMPI_MCA_plm_rsh_args": "-p 1",
    "PRTE_MCA_plm_ssh_args": "-p 1",
    "OMPI_MCA_orte_default_hostfile": "/nosuch",
    "OPAL_PREFIX": "/nosuch",
    "SLURM_JOBID": "1",
    "PBS_ENVIRONMENT": "x",
    "PBS_JOBID": "1",
}

#: Python runs it first in each rank.
SPY = """\
import json, os
if "OMPI_COMM_WORLD_RANK" in os.environ:
    json.dump(dict(os.environ), open("/tmp/seen", "w"))
"""

#: An mpirun that drops its hostfile, in place of {prefix}.
LOSING = """\
mkdir -p /tmp/losing/bin; cd /tmp/losing/bin; ln -s {prefix}/bin/prted .
cat > mpirun <<'END'
#!/bin/bash
words=()
while (($#)); do
  case $1 in
    --hostfile) shift ;;
    --prefix) words+=("$1" {prefix}); shift ;;
    *) words+=("$1") ;;
  esac
  shift
done
exec {prefix}/bin/mpirun "${{words[@]}}"
END
chmod +x mpirun
"""


@pytest.fixture(scope="module")
def pair(make_nodes):
    """Two nodes whose second interfaces are not called the same, with a spy in each rank."""
    nodes = make_nodes(2)
    rename = "ip link set net1 down && ip link set net1 name dat0 && ip link set dat0 up"
    # Nothing less may do so.
    command = ["podman", "exec", "--privileged", f"gpufabric-{nodes.run_id}-g2", "bash", "-c", rename]
    subprocess.run(command, check=True, timeout=60)
    for node in nodes.names:
        nodes.shell(node, f"mkdir /tmp/spy; cat > /tmp/spy/sitecustomize.py <<'END'\n{SPY}END")
    return nodes


def result_of(report_dir):
    (document,) = json.loads((report_dir / "results.json").read_text())["results"]
    return document


def seen(nodes):
    return {node: json.loads(nodes.shell(node, "cat /tmp/seen; rm /tmp/seen").stdout) for node in nodes.names}


@pytest.mark.slow
@pytest.mark.parametrize("version", [4, 5])
def test_names_that_differ_values_and_leftovers(pair, request, tmp_path, version):
    variables = request.getfixturevalue("openmpi5") if version == 5 else {}
    number = pair.addresses["g1"].split(".")[2]
    if version == 4:
        network = {"gpufabric_data_interface": "{{ {'g1': 'net1', 'g2': 'dat0'}[inventory_hostname] }}"}
    else:
        network = {"gpufabric_data_interface": "{{ omit }}", "gpufabric_data_subnet": f"192.168.{number}.0/24"}
    played = pair.benchmark(
        tmp_path,
        gpufabric_environment={**LEFT, **VALUES},
        gpufabric_node_env={
            "NCCL_IB_HCA": "{{ inventory_hostname }}_0",
            "NCCL_TEST_OF_NODE": "two 'words'; # $x",
            "NCCL_TEST_UNSET": None,
        },
        nccl_benchmark_env={"PYTHONPATH": "/tmp/spy"},
        nccl_benchmark_forward_env=["PATH", "LD_LIBRARY_PATH", "NCCL_*", "TEST_*"],
        nccl_benchmark_mca={"routed": "direct", "orte_abort_timeout": "60", "plm_rsh_num_concurrent": "4"},
        **network,
        **variables,
    )
    assert played.returncode == 0, played.output
    document = result_of(tmp_path)
    assert document["verdict"] == "pass" and sorted(rank["host"] for rank in document["ranks"]) == pair.names
    ran = played.result("g1", "gpufabric.nccl.mpi_run")
    noted = "\n".join(ran["notes"])
    # A batch system's or another Open MPI's, an image's, the user's.
    for name in ("SLURM_JOBID=1", "OPAL_PREFIX=/nosuch", "OMPI_MCA_btl_tcp_if_exclude=lo", "mca: orte_abort_timeout"):
        assert name in noted and name in played.output, name
    assert ("mca: routed is left out" in noted) == (version == 5)
    command = ran["points"][0]["command"]
    if version == 4:
        assert command[command.index("routed") + 1] == "direct" and "plm_rsh_num_concurrent" in command
    else:
        assert "routed" not in command and command[command.index("plm_ssh_num_concurrent") - 1] == "--prtemca"
    assert "orte_abort_timeout" not in command
    environments = seen(pair)
    for node, name in (("g1", "net1"), ("g2", "dat0")):
        found = environments[node]
        assert {key: found.get(key) for key in VALUES} == VALUES
        assert (found["NCCL_SOCKET_IFNAME"], found["NCCL_IB_HCA"]) == (f"={name}", f"{node}_0")
        assert found["NCCL_TEST_OF_NODE"] == "two 'words'; # $x" and "NCCL_TEST_UNSET" not in found
        assert "OMPI_MCA_btl_tcp_if_exclude" not in found
        # mpirun hands on what it was given as --mca.
        parameters = {"pml": "ob1", "btl": "self,tcp", "coll_ucc_enable": "0", "coll_hcoll_enable": "0"}
        assert {key: found.get(f"OMPI_MCA_{key}") for key in parameters} == parameters


@pytest.mark.parametrize("version", [slow(4), 5])
@pytest.mark.slow
def test_a_parameter_file_that_contradicts(pair, request, tmp_path, version):
    variables = request.getfixturevalue("openmpi5") if version == 5 else {}
    for node in pair.names:
        pair.shell(node, "mkdir /root/.openmpi; echo 'btl_tcp_if_exclude = lo' > /root/.openmpi/mca-params.conf")
    try:
        played = pair.benchmark(tmp_path, gpufabric_data_interface="eth0", **variables)
    finally:
        for node in pair.names:
            pair.shell(node, "rm -r /root/.openmpi")
    if version == 4:
        # It can be kept from reading the file.
        assert played.returncode == 0 and result_of(tmp_path)["verdict"] == "pass", played.output
    else:
        assert played.returncode == 2
        assert "/root/.openmpi/mca-params.conf sets btl_tcp_if_exclude, and Open MPI 5.0" in played.output


@pytest.mark.slow
def test_a_lost_hostfile_is_noticed(pair, tmp_path, openmpi5, faults):
    """Open MPI 5 runs everything on the launcher then, and ends with 0."""
    for node in pair.names:
        pair.shell(node, LOSING.format(prefix=openmpi5["gpufabric_mpi_prefix"]))
    losing = {**openmpi5, "gpufabric_mpi_prefix": "/tmp/losing", "gpufabric_data_interface": "eth0"}
    # It has a launcher's mpirun and no daemon, which a look would tell.
    pair.benchmark(tmp_path, preflight_level="none", **losing)
    document = result_of(tmp_path)
    assert document["verdict"] != "pass"
    assert any("launcher" in problem["cause"] for problem in document["problems"]), document["problems"]
    # mpirun loses it on the launcher; the host that is named is the one that takes no part for that reason.
    words = "hostfile lost, so that a worker takes no part"
    faults.fault(words, document["problems"], "hosts-differ", "g2", "mpi_run, Open MPI 5.0", "the launcher")
