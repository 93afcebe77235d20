# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib
import re

import pytest
import yaml
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.openmpi import (
    DEAD,
    FORWARDED_TO_RANKS,
    LEFTOVERS,
    RENAMED,
    SETTINGS,
    Launch,
    argv,
    check_hosts,
    check_implementation,
    conflicts,
    environment,
    library_path,
    notes,
    parameter_files,
    pod_environment,
)

AGENT = "/usr/bin/ssh -F /run/gpufabric/default/ssh/config"
ROOT = pathlib.Path(__file__).parents[5]
DOCUMENT = ROOT / "docs" / "openmpi.md"


def launch(version="4.1.4", **changes):
    values = {
        "mpirun": "/opt/openmpi/bin/mpirun",
        "prefix": "/opt/openmpi",
        "hostfile": "/run/gpufabric/default/mpi/hostfile",
        "ranks": 16,
        "ranks_per_node": None,
        "agent": tuple(AGENT.split()),
        "control": "eth0",
        "version": version,
    }
    return Launch(**{**values, **changes})


def pairs(command, *options):
    return {command[index + 1]: command[index + 2] for index, word in enumerate(command) if word in options}


def told(version, **changes):
    """All that an mpirun is told: options with their values, parameters by ``mca``, variables."""
    made = launch(version, **changes)
    command = argv(made, {}, (), ["x"])[1:-1]
    parameters = pairs(command, "--mca", "--prtemca")
    words = [word for word in command if word.startswith("--") and word not in ("--mca", "--prtemca")]
    options = {word: command[command.index(word) + 1] for word in words if word != "--allow-run-as-root"}
    return {**options, **{f"mca {name}": value for name, value in parameters.items()}, **environment(made, {}, {})}


EVERYWHERE = {
    "--prefix": "/opt/openmpi",
    "--hostfile": "/run/gpufabric/default/mpi/hostfile",
    "--np": "16",
    "--map-by": "slot",
    "--bind-to": "none",
    "mca pml": "ob1",
    "mca btl": "self,tcp",
    "mca btl_tcp_if_include": "eth0",
    "mca coll_hcoll_enable": "0",
    "mca mpi_abort_delay": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "LD_LIBRARY_PATH": "/opt/openmpi/lib:/opt/openmpi/lib64",
}
ORTE = {"OMPI_MCA_plm": "rsh", "OMPI_MCA_plm_rsh_agent": AGENT, "OMPI_MCA_oob_tcp_if_include": "eth0"}
PRRTE = {"PRTE_MCA_plm": "ssh", "PRTE_MCA_plm_ssh_agent": AGENT, "PRTE_MCA_prte_if_include": "eth0"}
UCC = {"mca coll_ucc_enable": "0"}


@pytest.mark.parametrize(
    ("version", "own"),
    [
        ("4.0.3", ORTE),
        ("4.1.4", {**ORTE, **UCC}),
        ("4.1.7rc1", {**ORTE, **UCC}),
        ("4.1.6amzn1", {**ORTE, **UCC}),
        ("5.0.0", {**PRRTE, **UCC}),
        ("5.0.11", {**PRRTE, **UCC}),
        (None, {**ORTE, **PRRTE, **UCC}),
    ],
)
def test_a_version_is_told_what_it_reads_and_nothing_else(version, own):
    assert told(version) == {**EVERYWHERE, **own}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"ranks_per_node": 8}, {"--map-by": "ppr:8:node"}),
        ({"vendor": "hpcx"}, {"OPAL_PREFIX": "/opt/openmpi"}),
        ({"data_interface": "net1"}, {"NCCL_SOCKET_IFNAME": "=net1"}),
        ({"data_interface": "net1,net2"}, {"NCCL_SOCKET_IFNAME": "=net1,net2"}),
        ({"node_env": {"NCCL_IB_HCA": "mlx5_3"}}, {"NCCL_IB_HCA": "mlx5_3"}),
        ({"mca": {"pml": "ucx", "osc": "rdma"}}, {"mca pml": "ucx", "mca osc": "rdma"}),
        ({"files": {"/etc/a.conf": "btl_tcp_if_exclude = lo"}}, {"mca mca_base_param_files": "none"}),
        ({"files": {"/etc/a.conf": "btl = ^openib  # btl_tcp_if_exclude = lo"}}, {}),
        ({"prefix": "/usr"}, {"--prefix": "/usr", "LD_LIBRARY_PATH": None}),
        ({"control": None}, {"mca btl_tcp_if_include": None, "OMPI_MCA_oob_tcp_if_include": None}),
        (
            {"control": "10.0.0.0/24,eth1"},
            {"mca btl_tcp_if_include": "10.0.0.0/24,eth1", "OMPI_MCA_oob_tcp_if_include": "10.0.0.0/24,eth1"},
        ),
        # What the user excludes cannot be named with what is to be used.
        (
            {"mca": {"btl_tcp_if_exclude": "lo"}},
            {"mca btl_tcp_if_include": None, "mca btl_tcp_if_exclude": "lo"},
        ),
        (
            {"mca": {"oob_tcp_if_exclude": "lo"}},
            {"OMPI_MCA_oob_tcp_if_include": None, "mca oob_tcp_if_exclude": "lo"},
        ),
    ],
)
def test_what_a_launch_asks_for(changes, found):
    asked = told("4.1.4", **changes)
    wanted = {**EVERYWHERE, **ORTE, **UCC, **found}
    assert asked == {name: value for name, value in wanted.items() if value is not None}


@pytest.mark.parametrize(
    ("version", "name", "value", "becomes", "why"),
    [
        ("4.1.4", "routed", "direct", {"routed": "direct"}, ""),
        ("5.0.11", "routed", "direct", {}, "mca: routed is left out, for Open MPI 5 has no routed framework"),
        ("4.1.4", "orte_abort_timeout", "60", {}, "no version from 4.0 on has it"),
        ("5.0.11", "orte_abort_timeout", "60", {}, "no version from 4.0 on has it"),
        ("5.0.11", "orte_base_help_aggregate", "0", {}, "Open MPI 5 has another runtime"),
        ("5.0.11", "orte_set_default_slots", "cores", {"prte_set_default_slots": "cores"}, "is called prte_set"),
        ("4.0.3", "prte_set_default_slots", "cores", {"orte_set_default_slots": "cores"}, "is called orte_set"),
        (
            "5.0.11",
            "plm_rsh_num_concurrent",
            "4",
            {"plm_ssh_num_concurrent": "4"},
            "is called plm_ssh_num_concurrent in",
        ),
        (
            "4.1.4",
            "plm_ssh_num_concurrent",
            "4",
            {"plm_rsh_num_concurrent": "4"},
            "is called plm_rsh_num_concurrent in",
        ),
        ("5.0.11", "oob_tcp_if_include", "eth1", {"prte_if_include": "eth1"}, "is called prte_if_include"),
        ("4.1.4", "prte_if_include", "eth1", {"oob_tcp_if_include": "eth1"}, "is called oob_tcp_if_include"),
        ("5.0.11", "oob_tcp_sndbuf", "1", {}, "Open MPI 5 has only the choice of interfaces"),
        ("5.0.11", "btl_openib_warn_no_device_params_found", "0", {}, "Open MPI 5 has no openib"),
        (
            "5.0.11",
            "btl_vader_single_copy_mechanism",
            "none",
            {"btl_sm_single_copy_mechanism": "none"},
            "btl_sm_single",
        ),
        ("5.0.11", "btl", "self,tcp,vader", {"btl": "self,tcp,sm"}, "where shared memory is sm"),
        ("4.0.3", "btl", "self,tcp,sm", {"btl": "self,tcp,vader"}, "where shared memory is vader"),
        ("4.1.4", "btl", "self,tcp,sm", {"btl": "self,tcp,vader"}, "where shared memory is vader"),
        ("4.1.4", "btl", "^openib", {"btl": "^openib"}, ""),
        ("5.0.11", "btl", "^openib", {"btl": "self,tcp"}, "mca: btl ^openib is left out"),
        ("5.0.11", "btl", "tcp,self", {"btl": "tcp,self"}, ""),
        ("4.1.4", "mca_base_env_list", "A=1", {}, "it excludes -x"),
        ("4.1.4", "hwloc_base_binding_policy", "core", {}, "ranks are not bound"),
        ("5.0.11", "rmaps_default_mapping_policy", "core", {}, "nccl_benchmark_ranks_per_node chooses the mapping"),
        ("5.0.11", "coll_ucc_enable", "1", {"coll_ucc_enable": "1"}, ""),
    ],
)
def test_parameters_of_the_user(version, name, value, becomes, why):
    made = launch(version, mca={name: value})
    own = pairs(argv(launch(version), {}, (), ["x"]), "--mca", "--prtemca")
    assert pairs(argv(made, {}, (), ["x"]), "--mca", "--prtemca") == {**own, **becomes}
    said = notes(made)
    assert len(said) == bool(why) and all(why in text for text in said)


@pytest.mark.parametrize(("version", "said"), [("4.1.4", 1), ("5.0.11", 2)])
def test_another_way_to_log_in_is_told(version, said):
    """Hosts refuse who comes without the keys of the run, or to another port: nothing else says why."""
    told = notes(launch(version, mca={"plm_rsh_agent": "ssh -o StrictHostKeyChecking=no"}))
    assert len(told) == said
    assert told[-1] == f"mca: plm_rsh_agent is used in place of {AGENT}, which has the keys and ports of the run"


NO_AGENT = f"has no effect, for mpirun logs in by {AGENT}, which has the keys and ports of the run"


@pytest.mark.parametrize(
    ("version", "name", "said"),
    [
        ("4.1.4", "OMPI_MCA_plm_rsh_agent", NO_AGENT),
        ("5.0.11", "PRTE_MCA_plm_ssh_agent", NO_AGENT),
        ("5.0.11", "OMPI_MCA_plm_rsh_agent", None),
        (
            "4.1.4",
            "OMPI_MCA_btl_tcp_if_include",
            "has no effect, for mpirun is told --mca btl_tcp_if_include eth0; give it as mca",
        ),
        ("4.1.4", "OMPI_MCA_mpi_show_mca_params", None),
        ("4.1.4", "NCCL_DEBUG", None),
    ],
)
def test_parameters_among_the_variables_of_a_point_are_told(version, name, said):
    told = notes(launch(version), {name: "ssh -o StrictHostKeyChecking=no"})
    assert told == ([f"env: {name} {said}"] if said else [])


@pytest.mark.parametrize(
    ("version", "name"), [("4.1.4", "OMPI_MCA_plm_rsh_agent"), ("5.0.11", "PRTE_MCA_plm_ssh_agent")]
)
def test_an_agent_of_a_point_is_not_that_of_the_launch(version, name):
    assert environment(launch(version), {}, {name: "ssh -p 22"})[name] == AGENT


def test_parameters_of_a_point_that_are_the_runs_own_are_not_told():
    assert notes(launch(), {"OMPI_MCA_btl": "self,tcp", "OMPI_MCA_pml": "ob1"}) == []


def test_five_is_told_whose_parameter_it_is():
    command = argv(launch("5.0.11", mca={"plm_rsh_delay": "1", "osc": "rdma"}), {}, (), ["x"])
    assert pairs(command, "--prtemca") == {"plm_ssh_delay": "1"} and pairs(command, "--mca")["osc"] == "rdma"


def test_options_have_two_dashes_and_come_before_the_program():
    command = argv(launch(), {}, (), ["all_reduce_perf", "-b", "8"])
    assert command[0] == "/opt/openmpi/bin/mpirun" and command[-3:] == ["all_reduce_perf", "-b", "8"]
    assert all(word.startswith("--") for word in command[:-3] if word.startswith("-"))


def test_forwards_by_pattern_and_what_is_the_points_own():
    variables = {"PATH": "/bin", "NCCL_DEBUG": "INFO", "HOME": "/root", "MINE": "1", "NCCL_IB_HCA": "mlx5_3"}
    made = launch(node_env={"NCCL_IB_HCA": "mlx5_3"})

    def forwarded(always):
        command = argv(made, variables, always, ["x"])
        return [command[index + 1] for index, word in enumerate(command) if word == "-x"]

    # Each node has its own of what differs between nodes, unless a point is run with one of its own.
    assert forwarded(["MINE"]) == ["MINE", "NCCL_DEBUG", "PATH"]
    assert forwarded(["NCCL_IB_HCA"]) == ["NCCL_DEBUG", "NCCL_IB_HCA", "PATH"]


def test_libraries_of_gpus_and_networks_have_their_variables_on_all_hosts():
    names = ["CUDA_X", "FI_PROVIDER", "HSA_X", "LD_LIBRARY_PATH", "NCCL_X", "PATH", "RCCL_X", "SHARP_X", "UCX_TLS"]
    command = argv(launch(), dict.fromkeys([*names, "HOME", "MY_UCX_X", "CUDA_VISIBLE_DEVICES"], "GPU-1f"), (), ["x"])
    assert [command[index + 1] for index, word in enumerate(command) if word == "-x"] == names
    for role in ("nccl_benchmark", "mpijob", "isolate"):
        defaults = yaml.safe_load((ROOT / "roles" / role / "defaults/main.yml").read_text())
        forwarded = defaults.get("nccl_benchmark_forward_env") or re.findall(
            r"'(\S+)'", defaults["isolate_forward_env"]
        )
        assert tuple(forwarded) == FORWARDED_TO_RANKS, role


def test_environment_of_the_point_wins():
    made = launch(data_interface="net1", node_env={"NCCL_IB_HCA": "mlx5_3"})
    point = {"NCCL_SOCKET_IFNAME": "net2", "NCCL_IB_HCA": "mlx5_0", "LD_LIBRARY_PATH": "/mine"}
    variables = environment(made, {"LD_LIBRARY_PATH": "/cuda", "HOME": "/root"}, point)
    assert variables["NCCL_SOCKET_IFNAME"] == "net2" and variables["NCCL_IB_HCA"] == "mlx5_0"
    assert variables["LD_LIBRARY_PATH"] == "/opt/openmpi/lib:/opt/openmpi/lib64:/mine"
    assert variables["HOME"] == "/root"


def test_pods_get_both_dialects_whatever_is_called_there():
    variables = pod_environment(launch(None))
    assert {**ORTE, **PRRTE}.items() <= variables.items()
    assert int(variables["PRTE_MCA_plm_ssh_num_concurrent"]) >= 128
    assert variables["OMPI_MCA_btl"] == "self,tcp" and variables["OMPI_MCA_coll_ucc_enable"] == "0"


LEFT = {
    "OMPI_MCA_btl_tcp_if_exclude": "lo",
    "PRTE_MCA_oob_tcp_if_exclude": "lo",
    "PRTE_MCA_prte_if_exclude": "lo",
    "OMPI_MCA_plm_rsh_args": "-o IdentityFile=secret",
    "PRTE_MCA_plm_ssh_args": "-p 1",
    "OMPI_MCA_orte_launch_agent": "/bin/agent",
    "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
    "PRTE_MCA_rmaps_default_mapping_policy": "core",
    "OMPI_MCA_hwloc_base_binding_policy": "core",
    "OMPI_MCA_mca_base_env_list": "TOKEN=secret",
    "PRTE_MCA_schizo_proxy": "ompi",
    "OPAL_PREFIX": "/elsewhere",
    "SLURM_JOBID": "12",
    "PBS_JOBID": "12",
    "PBS_ENVIRONMENT": "PBS_BATCH",
    "LSB_JOBID": "12",
    "PE_HOSTFILE": "/sge/hosts",
}


@pytest.mark.parametrize("version", ["4.1.4", "5.0.11"])
def test_what_contradicts_is_taken_out_and_named(version):
    harmless = {"OPAL_PREFIX": "/opt/openmpi", "OMPI_MCA_btl_tcp_links": "2", "SLURM_CPUS": "1", "OMPI_MCA_pml": "ob1"}
    made = launch(version)
    assert conflicts(made, harmless) == [] and harmless.items() <= environment(made, harmless, {}).items()
    found = conflicts(made, LEFT)
    assert [conflict.name for conflict in found] == sorted(LEFT)
    assert not set(environment(made, LEFT, {})) & set(LEFT)
    said = "\n".join(map(str, found))
    assert "secret" not in said
    assert (
        "OMPI_MCA_btl_tcp_if_exclude=lo in the environment is left out: interfaces to use and interfaces not to use exclude"
        in said
    )


def test_interfaces_may_be_excluded_where_none_is_chosen():
    left = {"OMPI_MCA_btl_tcp_if_exclude": "lo"}
    assert (
        conflicts(launch(control=None), left) == []
        and environment(launch(control=None), left, {}).items() >= left.items()
    )


def test_what_is_overridden_is_named():
    left = {"OMPI_MCA_pml": "ucx", "OMPI_MCA_plm_rsh_agent": "ssh -i secret", "NCCL_SOCKET_IFNAME": "eth0"}
    said = [str(conflict) for conflict in conflicts(launch(data_interface="net1"), left)]
    assert said == [
        "NCCL_SOCKET_IFNAME=eth0 in the environment is overridden: the run sets it itself",
        "OMPI_MCA_plm_rsh_agent in the environment is overridden: the run sets it itself",
        "OMPI_MCA_pml=ucx in the environment is overridden: the run sets it itself",
    ]
    assert environment(launch(), left, {})["OMPI_MCA_plm_rsh_agent"] == AGENT


@pytest.mark.parametrize(
    ("version", "path", "text", "words"),
    [
        (
            "4.1.4",
            "/e/openmpi-mca-params.conf",
            "btl_tcp_if_exclude=lo",
            "btl_tcp_if_exclude=lo in /e/openmpi-mca-params",
        ),
        (
            "4.1.4",
            "/e/openmpi-mca-params.conf",
            " mca_base_env_list = A=1;B=2",
            "mca_base_env_list in /e/openmpi-mca-params",
        ),
        (
            "4.1.4",
            "/e/openmpi-default-hostfile",
            "# none\n\nh1 slots=2\n",
            "hosts in /e/openmpi-default-hostfile is over",
        ),
        ("5.0.11", "/e/prte-default-hostfile", "h1\n", "hosts in /e/prte-default-hostfile is overridden"),
    ],
)
def test_files_that_contradict_are_named(version, path, text, words):
    (conflict,) = conflicts(launch(version, files={path: text}), {})
    assert str(conflict).startswith(words)


def test_comments_contradict_nothing():
    files = {"/e/openmpi-default-hostfile": "# h1\n", "/e/a.conf": "# btl_tcp_if_exclude = lo\nbtl = ^openib\n"}
    assert conflicts(launch(files=files), {}) == []


def test_five_cannot_be_kept_from_its_files():
    made = launch("5.0.11", files={"/root/.prte/mca-params.conf": "prte_if_exclude = lo\n"})
    with pytest.raises(NodeError, match="^/root/.prte/mca-params.conf sets prte_if_exclude, and Open MPI 5.0.11 reads"):
        conflicts(made, {})
    # Of 4's runtime, it knows nothing.
    assert conflicts(launch("5.0.11", files={"/a.conf": "orte_launch_agent = x\nmca_base_env_list = A=1"}), {}) == []


@pytest.mark.parametrize(
    ("prefix", "version", "path"),
    [
        ("/usr", "4.1.4", "/etc/openmpi/openmpi-mca-params.conf"),
        ("/usr/lib64/openmpi", "4.1.1", "/etc/openmpi-x86_64/openmpi-mca-params.conf"),
        ("/opt/amazon/openmpi", "4.1.6amzn1", "/opt/amazon/openmpi/etc/openmpi-default-hostfile"),
        ("/opt/o", "5.0.3", "/opt/o/etc/prte-mca-params.conf"),
        ("/opt/o", "5.0.3", "/root/.openmpi/mca-params.conf"),
        ("/opt/o", "5.0.3", "/root/.prte/mca-params.conf"),
    ],
)
def test_where_files_are(prefix, version, path):
    assert path in parameter_files({"prefix": prefix, "version": version}, "/root")


def test_library_path_of_the_systems_own_is_left_alone():
    assert library_path("/usr", "") == ""
    assert library_path("/usr", "/a::/b") == "/a:/b"


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"control": "eth0; reboot"}, "control_interface"),
        ({"control": "eth0,"}, "control_interface"),
        ({"control": "10.0.0.0/33"}, "control_interface"),
        ({"control": "fd00::/64"}, "control_interface"),
        ({"control": "a-name-that-is-too-long"}, "control_interface"),
        ({"data_interface": "a b"}, "data_interface"),
        ({"data_interface": "192.168.0.0/24"}, "data_interface"),
        ({"mca": {"--pml": "x"}}, "mca"),
        ({"mca": {"pml": "a\nb"}}, "mca"),
        ({"node_env": {"A B": "x"}}, "node_env"),
    ],
)
def test_refuses(changes, option):
    with pytest.raises(OptionError, match=f"^{option}: "):
        launch(**changes)


@pytest.mark.parametrize(
    ("mpi", "words"),
    [
        (None, "install Open MPI .*apt-get install openmpi-bin"),
        (
            {"implementation": "mpich", "version": "4.0.2"},
            "is not Open MPI's but of MPICH 4.0.2; install Open MPI 4 or 5",
        ),
        ({"implementation": "intel", "version": "2021.11"}, "is not Open MPI's but of Intel MPI 2021.11"),
        ({"implementation": "mvapich", "version": ""}, "is not Open MPI's but of MVAPICH; install"),
        ({"implementation": "other", "version": "hello"}, "is not Open MPI's but says 'hello'"),
        ({"implementation": "openmpi", "version": "3.1.6"}, "is of Open MPI 3.1.6"),
    ],
)
def test_check_implementation_refuses(mpi, words):
    with pytest.raises(NodeError, match=words):
        check_implementation(mpi and {"mpirun": "/m", **mpi})


def test_addresses_of_ipv6_are_for_five():
    names = ["10.0.0.1", "fd00::2"]
    with pytest.raises(OptionError, match="^hostfile: 'fd00::2' is not allowed; .* Open MPI 4 crash"):
        check_hosts((4, 1), names)
    check_hosts((5, 0), names)
    check_hosts((4, 1), ["10.0.0.1", "g2"])
    # No daemon is started.
    check_hosts((4, 1), ["fd00::2"])


def rows_of(heading):
    """The cells of the table below a heading of the users' document."""
    text = DOCUMENT.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return [[re.sub(r"[`{}]", "", cell).strip() for cell in row] for row in rows[2:]]


def test_the_document_has_the_tables():
    def plain(text):
        return re.sub(r"[{}]", "", text)

    assert rows_of("Parameters of mpirun") == [
        [one.name, plain(one.four) + (" (4.1)" if one.since > (4, 0) else ""), plain(one.five), one.why]
        for one in SETTINGS
    ]
    assert rows_of("Parameters with another name") == [list(names) for names in RENAMED]
    assert rows_of("Parameters without effect") == [
        [name, {0: "4 and 5", 4: "4", 5: "5"}[version], why] for version, name, why in DEAD
    ]
    assert rows_of("Leftovers of images") == [[pattern, why] for pattern, _against, why in LEFTOVERS]
    names = [name for name, _why in rows_of("What reaches the ranks")]
    assert ", ".join(FORWARDED_TO_RANKS) in names
