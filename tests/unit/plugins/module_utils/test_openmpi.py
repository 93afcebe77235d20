# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._openmpi import (
    Launch,
    argv,
    check_implementation,
    environment,
    library_path,
)


def launch(**changes):
    values = {
        "mpirun": "/opt/openmpi/bin/mpirun",
        "prefix": "/opt/openmpi",
        "hostfile": "/run/gpufabric/default/mpi/hostfile",
        "ranks": 16,
        "ranks_per_node": None,
        "agent": ("/usr/bin/ssh", "-F", "/run/gpufabric/default/ssh/config"),
        "control": "eth0",
    }
    return Launch(**{**values, **changes})


def pairs(command, option):
    return {command[index + 1]: command[index + 2] for index, word in enumerate(command) if word == option}


def test_argv_has_the_control_plane_and_two_dashes():
    command = argv(launch(), {}, (), ["all_reduce_perf", "-b", "8"])
    assert command[-3:] == ["all_reduce_perf", "-b", "8"]
    own = command[:-3]
    assert all(word.startswith("--") or word == "-x" for word in own if word.startswith("-"))
    assert pairs(own, "--mca") == {
        "pml": "ob1",
        "btl": "self,tcp",
        "coll_ucc_enable": "0",
        "coll_hcoll_enable": "0",
        "btl_tcp_if_include": "eth0",
    }
    assert own[own.index("--map-by") + 1] == "slot" and own[own.index("--np") + 1] == "16"


def test_argv_maps_by_node_when_told_so():
    command = argv(launch(ranks_per_node=8), {}, (), ["x"])
    assert command[command.index("--map-by") + 1] == "ppr:8:node"


def test_parameters_of_the_user_win():
    command = argv(launch(mca={"pml": "ucx", "osc": "rdma"}), {}, (), ["x"])
    assert pairs(command, "--mca")["pml"] == "ucx" and pairs(command, "--mca")["osc"] == "rdma"


def test_forwards_by_pattern_and_what_is_the_points_own():
    variables = {"PATH": "/bin", "NCCL_DEBUG": "INFO", "HOME": "/root", "MINE": "1"}
    command = argv(launch(), variables, ("MINE",), ["x"])
    assert [command[index + 1] for index, word in enumerate(command) if word == "-x"] == ["MINE", "NCCL_DEBUG", "PATH"]


def test_environment_speaks_both_dialects():
    variables = environment(launch(data_interface="net1"), {"LD_LIBRARY_PATH": "/cuda", "HOME": "/root"}, {"MINE": "1"})
    agent = "/usr/bin/ssh -F /run/gpufabric/default/ssh/config"
    assert variables == {
        "HOME": "/root",
        "MINE": "1",
        "LD_LIBRARY_PATH": "/opt/openmpi/lib:/opt/openmpi/lib64:/cuda",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_plm_rsh_agent": agent,
        "PRTE_MCA_plm_ssh_agent": agent,
        "OMPI_MCA_oob_tcp_if_include": "eth0",
        "PRTE_MCA_prte_if_include": "eth0",
        "NCCL_SOCKET_IFNAME": "net1",
    }


def test_environment_of_the_point_wins():
    variables = environment(
        launch(data_interface="net1"), {}, {"NCCL_SOCKET_IFNAME": "net2", "LD_LIBRARY_PATH": "/mine"}
    )
    assert variables["NCCL_SOCKET_IFNAME"] == "net2"
    assert variables["LD_LIBRARY_PATH"].endswith(":/mine")


def test_library_path_of_the_systems_own_is_left_alone():
    assert library_path("/usr", "") == ""
    assert library_path("/usr", "/a::/b") == "/a:/b"


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"control": "eth0; reboot"}, "control_interface"),
        ({"data_interface": "a b"}, "data_interface"),
        ({"mca": {"--pml": "x"}}, "mca"),
        ({"mca": {"pml": "a\nb"}}, "mca"),
    ],
)
def test_refuses(changes, option):
    with pytest.raises(OptionError, match=f"^{option}: "):
        launch(**changes)


@pytest.mark.parametrize(
    ("mpi", "words"),
    [
        (None, "install Open MPI .*apt-get install openmpi-bin"),
        ({"mpirun": "/m", "implementation": "other", "version": "HYDRA build details:"}, "is not Open MPI's"),
        ({"mpirun": "/m", "implementation": "openmpi", "version": "3.1.6"}, "is of Open MPI 3.1.6"),
    ],
)
def test_check_implementation_refuses(mpi, words):
    with pytest.raises(NodeError, match=words):
        check_implementation(mpi)
