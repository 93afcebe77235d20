# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.plan import (
    check_free,
    check_launcher,
    check_nodes,
    check_settings,
    choose_backend,
    complete_results,
    control_network,
    data_plane,
    plan_benchmark,
    runs_beside,
    with_sizes,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.tests.unit.benchmark_settings import SETTINGS


def node(number, gpus=0):
    found = {
        "hostname": f"node-{number}",
        "interfaces": [
            {"name": "net1", "mtu": 1500, "addresses": [f"192.168.0.{number}/24"]},
            {"name": "eth0", "mtu": 1500, "addresses": [f"10.0.0.{number}/24"]},
        ],
        "data": None,
        "gpus": {"vendor": "nvidia" if gpus else "none", "count": gpus, "names": [], "unusable": []},
        "mpi": {"mpirun": "/usr/bin/mpirun", "prefix": "/usr", "implementation": "openmpi", "version": "4.1.4"},
        "benchmarks": {"directory": "/opt/nccl-tests", "programs": ["all_reduce_perf"]} if gpus else None,
        "python": {"executable": "/usr/bin/python3", "mpi4py": "3.1.4", "numpy": "1.24.2"},
    }
    return copy.deepcopy(found)


def nodes(gpus=0):
    return {f"g{number}": node(number, gpus) for number in (1, 2, 3)}


PEERS = [{"name": f"g{number}", "address": f"10.0.0.{number}", "run_dir": "/run/gpufabric/x"} for number in (1, 2, 3)]


def test_auto_takes_nccl_where_all_have_it():
    plan = plan_benchmark(nodes(gpus=8), PEERS, SETTINGS)
    assert plan["backend"] == "nccl"
    assert [host["slots"] for host in plan["hosts"]] == [8, 8, 8]
    assert plan["points"][0]["argv"][:3] == ["/opt/nccl-tests/all_reduce_perf", "-b", "8"]


@pytest.mark.parametrize("backend", ["auto", "nccl"])
@pytest.mark.parametrize(
    ("change", "identity", "host", "words"),
    [
        (lambda found: found["g2"]["gpus"].update(count=0), "gpus-missing", "g2", "too few GPUs: 0"),
        (
            lambda found: found["g2"]["gpus"].update(count=0, unusable=["0000:1b:00.0 10de:2330"]),
            "gpu-driver",
            "g2",
            "their driver does not answer",
        ),
        (lambda found: found["g3"].update(benchmarks=None), "benchmark-missing", "g3", "no all_reduce_perf"),
        (lambda found: found["g3"]["gpus"].update(count=7), "gpus-differ", "g3", "here 7; 8 on 2 workers"),
        (lambda found: found["g1"]["gpus"].update(names=["A100"]), "gpus-differ", "g1", "here 8 A100; 8 on 2 workers"),
    ],
)
def test_a_worker_that_lacks_gpus_or_programs_is_never_passed_over(change, identity, host, words, backend):
    found = nodes(gpus=8)
    change(found)
    with pytest.raises(ProblemError) as error:
        plan_benchmark(found, PEERS, {**SETTINGS, "backend": backend})
    (one,) = error.value.problems
    assert (one.id, one.host) == (identity, host) and words in one.cause
    assert plan_benchmark(found, PEERS, {**SETTINGS, "backend": "cpu"})["backend"] == "cpu"


def test_names_of_the_inventory_are_kept_where_the_ranks_print_others():
    found = nodes(gpus=8)
    hostnames = {"g1": "g1.example.com", "g2": "node-2.example.com", "g3": "node-3"}
    for name, hostname in hostnames.items():
        found[name]["hostname"] = hostname
    plan = plan_benchmark(found, PEERS, SETTINGS)
    assert plan["inventory_names"] == {"node-2": "g2", "node-3": "g3"}
    run = {"points": [outcome()]}
    (document,) = complete_results(plan, run)
    assert document["host_names"] == plan["inventory_names"]
    (document,) = complete_results({**plan, "inventory_names": {}}, run)
    assert "host_names" not in document


def test_nccl_without_any_gpu_is_one_problem_whose_cure_begins_with_the_way_out():
    found = nodes(gpus=8)
    for node in found.values():
        node["gpus"].update(count=0)
    with pytest.raises(ProblemError) as error:
        plan_benchmark(found, PEERS, {**SETTINGS, "backend": "nccl"})
    (one,) = error.value.problems
    assert (one.id, one.host) == ("gpus-nowhere", None)
    assert one.cure.startswith("To test the machines without GPUs, set nccl_benchmark_backend to cpu.")


def test_of_two_workers_the_one_with_fewer_gpus_has_lost_some():
    found = {"g1": node(1, 7), "g2": node(2, 8)}
    with pytest.raises(ProblemError) as error:
        check_nodes(found, SETTINGS)
    assert [one.host for one in error.value.problems] == ["g1"]
    plan = plan_benchmark(found, PEERS[:2], {**SETTINGS, "allow_uneven_gpus": True})
    assert [host["slots"] for host in plan["hosts"]] == [7, 8]


@pytest.mark.parametrize(
    ("settings", "slots", "arguments"),
    [
        ({"gpus_per_rank": 8}, 1, ["-g", "8"]),
        ({"gpus_per_rank": 2, "threads_per_rank": 2}, 2, ["-g", "2", "-t", "2"]),
        ({"gpus_per_rank": 4, "ranks_per_node": 1}, 1, ["-g", "4"]),
        ({"threads_per_rank": 4}, 2, ["-g", "1", "-t", "4"]),
    ],
)
def test_ranks_that_use_several_gpus(settings, slots, arguments):
    plan = plan_benchmark(nodes(gpus=8), PEERS, {**SETTINGS, **settings})
    assert {host["slots"] for host in plan["hosts"]} == {slots}
    argv = plan["points"][0]["argv"]
    begin = argv.index("-g")
    assert argv[begin : begin + len(arguments)] == arguments


def test_programs_that_are_built_with_mpi_come_first():
    found = nodes(gpus=8)
    for one in found.values():
        one["benchmarks"]["programs"] = ["all_reduce_perf", "all_reduce_perf_mpi", "alltoall_perf"]
    plan = plan_benchmark(found, PEERS, {**SETTINGS, "collectives": ["all_reduce", "alltoall"]})
    assert [point["argv"][0] for point in plan["points"]] == [
        "/opt/nccl-tests/all_reduce_perf_mpi",
        "/opt/nccl-tests/alltoall_perf",
    ]
    assert plan["program"] == "/opt/nccl-tests/all_reduce_perf_mpi"
    found["g2"]["benchmarks"]["programs"].remove("all_reduce_perf_mpi")
    with pytest.raises(ProblemError, match="no all_reduce_perf_mpi") as error:
        check_nodes(found, SETTINGS)
    assert [one.host for one in error.value.problems] == ["g2"]


def test_auto_without_any_gpu_names_no_single_host():
    assert choose_backend("auto", nodes(), ["all_reduce"])[1].startswith("no GPU on any worker")


def test_auto_does_not_pass_over_gpus_without_a_driver():
    found = nodes()
    for name in ("g1", "g3"):
        found[name]["gpus"]["unusable"] = ["0000:1b:00.0 10de:2330", "0000:43:00.0 10de:2330"]
    with pytest.raises(ProblemError) as error:
        check_nodes(found, SETTINGS)
    evidence = "0000:1b:00.0 10de:2330, 0000:43:00.0 10de:2330"
    assert [(one.id, one.host, one.evidence) for one in error.value.problems] == [
        ("gpu-driver", "g1", evidence),
        ("gpu-driver", "g3", evidence),
    ]
    assert "nccl_benchmark_backend: cpu" in error.value.problems[0].cure
    assert check_nodes(found, {**SETTINGS, "backend": "cpu"})["backend"] == "cpu"


def test_what_is_missing_is_known_before_there_are_peers():
    found = nodes()
    assert check_nodes(found, SETTINGS)["backend"] == "cpu"
    found["g2"]["mpi"] = None
    with pytest.raises(ProblemError, match="^mpirun is not on this node. Install Open MPI"):
        check_nodes(found, SETTINGS)
    with pytest.raises(OptionError, match="^gpufabric_hosts: "):
        check_nodes({}, SETTINGS)


def test_launcher_comes_first():
    plan = plan_benchmark(nodes(), PEERS, {**SETTINGS, "launcher": "g3"})
    assert [host["name"] for host in plan["hosts"]] == ["g3", "g1", "g2"]
    assert plan["cpu_program"] == "/run/gpufabric/x/mpi/files/cpu_perf.py"
    assert plan["points"][0]["argv"][3:5] == [plan["cpu_program"], "all_reduce"]


def test_a_launcher_that_is_no_worker_runs_no_rank_and_slots_that_are_given_stay():
    given = [{**peer, "slots": 4} for peer in PEERS]
    settings = {**SETTINGS, "launcher": "job-launcher", "dedicated_launcher": True}
    plan = plan_benchmark(nodes(), given, settings)
    assert plan["launcher"] == "job-launcher"
    assert [(host["name"], host["slots"]) for host in plan["hosts"]] == [("g1", 4), ("g2", 4), ("g3", 4)]
    with pytest.raises(OptionError, match="nccl_benchmark_launcher"):
        plan_benchmark(nodes(), given, {**settings, "dedicated_launcher": False})


@pytest.mark.parametrize("gpus", [0, 8])
@pytest.mark.parametrize("launcher", [None, "g1", "g3"])
def test_a_worker_that_is_a_dedicated_launcher_runs_no_rank_and_lacks_nothing(launcher, gpus):
    """The first one, if none is named."""
    found, name = nodes(gpus), launcher or "g1"
    found[name]["gpus"]["count"] = 0
    found[name].update(benchmarks=None, python={"executable": "/opt/python", "mpi4py": None, "numpy": None})
    found[name]["interfaces"].pop(0)
    peers = [{**peer, "run_dir": f"/run/{peer['name']}"} for peer in PEERS]
    settings = {**SETTINGS, "launcher": launcher, "dedicated_launcher": True, "rank_times": "iterations"}
    workers = [peer["name"] for peer in PEERS if peer["name"] != name]
    plan = plan_benchmark(found, peers, settings)
    assert plan["launcher"] == check_nodes(found, settings)["launcher"] == name
    assert [(host["name"], host["slots"]) for host in plan["hosts"]] == [(worker, gpus or 1) for worker in workers]
    assert plan["cpu_program"].startswith(f"/run/{workers[0]}/")
    assert sorted(plan["inventory_names"].values()) == workers
    assert plan["backend"] == ("nccl" if gpus else "cpu") and "-J" not in plan["points"][0]["argv"]
    # Its GPUs are not those of the benchmark, and it looks at nothing that they need.
    found[name]["gpus"]["count"] = 4
    assert plan_benchmark(found, peers, settings)["backend"] == plan["backend"]
    of_workers = with_sizes(
        {worker: found[worker] for worker in workers}, {**settings, "max_bytes": None, "dedicated_launcher": False}
    )
    assert with_sizes(found, {**settings, "max_bytes": None}) == {**of_workers, "dedicated_launcher": True}


def test_a_dedicated_launcher_is_looked_at_as_one_that_starts_mpirun():
    settings = {**SETTINGS, "launcher": "g1", "dedicated_launcher": True}
    for change, words in (
        ({"mpi": None}, "mpirun is not on this node"),
        ({"hostname": "node-2"}, "have the host name node-2"),
        ({"interfaces": []}, "has the address 10.0.0.1"),
    ):
        found = nodes()
        found["g1"].update(change)
        with pytest.raises(ProblemError, match=words) as error:
            plan_benchmark(found, PEERS, settings)
        assert "g1" in {one.host for one in error.value.problems}


def test_each_worker_of_a_dedicated_launcher_has_the_name_of_its_own_data_interface():
    found = nodes()
    for name, interface in (("g2", "net1"), ("g3", "dat0")):
        found[name]["data"] = {"interface": interface}
    plan = plan_benchmark(found, PEERS, {**SETTINGS, "dedicated_launcher": True})
    assert plan["data"] is None and set(plan["node_env"]) == {"g2", "g3"}


@pytest.mark.parametrize("launcher", [None, "", "g1"])
def test_a_dedicated_launcher_needs_a_worker_beside_it(launcher):
    settings = {**SETTINGS, "launcher": launcher, "dedicated_launcher": True}
    words = "^nccl_benchmark_dedicated_launcher: True is not allowed; allowed: false, or another host beside g1 in gpufabric_hosts"
    with pytest.raises(OptionError, match=words):
        check_nodes({"g1": node(1)}, settings)
    with pytest.raises(OptionError, match=words):
        check_launcher(["g1"], settings)
    check_launcher(["g1", "g2"], settings)
    check_launcher(["g1"], {**settings, "dedicated_launcher": False})
    for dedicated in (False, True):
        with pytest.raises(OptionError, match="^nccl_benchmark_launcher: 'g9' .* one of the workers: g1, g2$"):
            check_launcher(["g1", "g2"], {**settings, "launcher": "g9", "dedicated_launcher": dedicated})


@pytest.mark.parametrize(
    ("gpus", "slots", "settings", "ranks"),
    [
        (8, 8, {}, 8),
        (8, 8, {"ranks_per_node": 4}, 4),
        (8, 8, {"gpus_per_rank": 8}, 1),
        (8, 8, {"gpus_per_rank": 2, "ranks_per_node": 3}, 3),
        (8, 2, {"gpus_per_rank": 2}, 2),
        (4, 8, {}, 4),
        (0, 8, {}, 8),
        (0, 8, {"ranks_per_node": 2}, 2),
    ],
)
def test_ranks_of_an_adopted_job_keep_to_its_slots_and_to_the_gpus(gpus, slots, settings, ranks):
    given = [{**peer, "slots": slots} for peer in PEERS]
    plan = plan_benchmark(nodes(gpus), given, {**SETTINGS, **settings})
    assert [host["slots"] for host in plan["hosts"]] == [ranks] * 3


@pytest.mark.parametrize(
    ("gpus", "slots", "settings", "message"),
    [
        (8, 4, {"ranks_per_node": 5}, "ranks_per_node: 5 is not allowed; allowed: 1 to 4, the number of slots of g1"),
        (0, 4, {"ranks_per_node": 5}, "ranks_per_node: 5 is not allowed; allowed: 1 to 4, the number of slots of g1"),
        (8, 16, {"ranks_per_node": 9}, "ranks_per_node: 9 is not allowed; allowed: 1 to 8, the number of GPUs of g1"),
        (
            8,
            8,
            {"ranks_per_node": 3, "gpus_per_rank": 4},
            "ranks_per_node: 3 is not allowed; allowed: 1 to 2, g1 has 8 GPUs, 4 a rank",
        ),
        (8, 8, {"gpus_per_rank": 9}, "gpus_per_rank: 9 is not allowed; allowed: 1 to 8, g1 has 8 GPUs, 9 a rank"),
    ],
)
def test_an_adopted_job_refuses_more_ranks_than_it_has_slots_or_gpus_for(gpus, slots, settings, message):
    given = [{**peer, "slots": slots} for peer in PEERS]
    with pytest.raises(OptionError, match=f"^nccl_benchmark_{message}$"):
        plan_benchmark(nodes(gpus), given, {**SETTINGS, **settings})


def test_no_gpu_is_left_out_unless_somebody_says_so():
    words = "a number that leaves no GPU out, or nccl_benchmark_ranks_per_node beside it: g1 has 8 GPUs, 3 a rank"
    with pytest.raises(OptionError, match=f"^nccl_benchmark_gpus_per_rank: 3 is not allowed; allowed: {words}$"):
        plan_benchmark(nodes(8), PEERS, {**SETTINGS, "gpus_per_rank": 3})
    with pytest.raises(OptionError, match="leaves no GPU out"):
        plan_benchmark(nodes(8), [{**peer, "slots": 8} for peer in PEERS], {**SETTINGS, "gpus_per_rank": 3})
    plan = plan_benchmark(nodes(8), PEERS, {**SETTINGS, "gpus_per_rank": 3, "ranks_per_node": 2})
    assert [host["slots"] for host in plan["hosts"]] == [2] * 3


@pytest.mark.parametrize(
    ("change", "identity", "words"),
    [
        (lambda found: found["g2"].update(mpi=None), "mpi-unusable", "mpirun is not on this node"),
        (lambda found: found["g2"]["mpi"].update(version="5.0.11"), "mpi-version-differs", "5.0.11, not 4.1.4"),
        (lambda found: found["g2"]["mpi"].update(prefix="/opt/m"), "mpi-prefix-differs", "/usr/bin but in /opt/m/bin"),
        (
            lambda found: found["g2"]["python"].update(mpi4py=None),
            "python-module-missing",
            "python3 lacks the module mpi4py",
        ),
        (lambda found: found["g2"]["python"].update(executable="/opt/python"), "python-differs", "is /opt/python"),
        (lambda found: found["g2"].update(interfaces=[]), "control-address-missing", "has the address 10.0.0.2"),
    ],
)
def test_names_the_host_at_fault(change, identity, words):
    found = nodes()
    change(found)
    with pytest.raises(ProblemError) as error:
        plan_benchmark(found, PEERS, SETTINGS)
    (one,) = error.value.problems
    assert (one.id, one.host) == (identity, "g2") and words in one.cause


@pytest.mark.parametrize(("backend", "more"), [("cpu", ["python-module-missing"]), ("auto", [])])
def test_all_that_the_cpu_program_lacks_is_named_at_once(backend, more):
    """Where it is certain that it will run: each look that ends in an error is one more installation."""
    found = nodes()
    found["g1"]["mpi"], found["g3"]["python"]["numpy"] = None, None
    with pytest.raises(ProblemError) as error:
        plan_benchmark(found, PEERS, {**SETTINGS, "backend": backend})
    assert [problem.id for problem in error.value.problems] == ["mpi-unusable", *more]


def test_hosts_whose_names_differ_in_the_domain_alone_are_named_before_a_launch():
    """nccl-tests prints names without it: the run would end with fewer hosts than took part."""
    found = nodes()
    found["g1"]["hostname"], found["g3"]["hostname"] = "gpu.rack1", "GPU.rack2.example.com"
    with pytest.raises(ProblemError, match="have the host name gpu") as error:
        check_nodes(found, SETTINGS)
    assert [(item.id, item.host, item.evidence) for item in error.value.problems] == [
        ("host-name-shared", "g1", "gpu.rack1, of which only gpu counts"),
        ("host-name-shared", "g3", "GPU.rack2.example.com, of which only gpu counts"),
    ]


def test_hosts_that_open_mpi_takes_for_one_are_named_before_a_launch():
    found = nodes()
    found["g3"]["hostname"] = found["g1"]["hostname"]
    with pytest.raises(ProblemError, match="have the host name node-1") as error:
        check_nodes(found, SETTINGS)
    assert [(item.id, item.host) for item in error.value.problems] == [
        ("host-name-shared", "g1"),
        ("host-name-shared", "g3"),
    ]
    with pytest.raises(ProblemError, match=r"several names: g2, g4\.") as error:
        check_nodes({**nodes(), "g4": node(2)}, SETTINGS)
    assert [(item.id, item.host) for item in error.value.problems] == [("host-twice", "g2"), ("host-twice", "g4")]


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"launcher": "g9"}, "nccl_benchmark_launcher"),
        ({"collectives": []}, "nccl_benchmark_collectives"),
        ({"min_bytes": "8X"}, "nccl_benchmark_min_bytes"),
        ({"min_bytes": "5M"}, "nccl_benchmark_min_bytes"),
        ({"min_bytes": "0"}, "nccl_benchmark_min_bytes"),
        ({"min_bytes": "0K"}, "nccl_benchmark_min_bytes"),
        ({"max_bytes": "-1"}, "nccl_benchmark_max_bytes"),
        ({"step_factor": 1}, "nccl_benchmark_step_factor"),
        ({"iterations": 0}, "nccl_benchmark_iterations"),
        ({"warmup_iterations": -1}, "nccl_benchmark_warmup_iterations"),
        ({"timeout": 0}, "nccl_benchmark_timeout"),
        ({"collectives": ["all_redcue"]}, "nccl_benchmark_collectives"),
        ({"backend": "nccl", "ranks_per_node": 9}, "nccl_benchmark_ranks_per_node"),
        ({"ranks_per_node": 0}, "nccl_benchmark_ranks_per_node"),
        ({"ranks_per_node": 3, "gpus_per_rank": 4}, "nccl_benchmark_ranks_per_node"),
        ({"gpus_per_rank": 9}, "nccl_benchmark_gpus_per_rank"),
        ({"threads_per_rank": 9}, "nccl_benchmark_threads_per_rank"),
        ({"gpus_per_rank": 0}, "nccl_benchmark_gpus_per_rank"),
        ({"backend": "cpu", "gpus_per_rank": 2}, "nccl_benchmark_gpus_per_rank"),
        ({"backend": "cpu", "collectives": ["hypercube"]}, "nccl_benchmark_collectives"),
        *(
            ({"extra_args": [word]}, "nccl_benchmark_extra_args")
            for word in (
                "-g",
                "-g8",
                "--ngpus",
                "-t",
                "--nthreads=2",
                "-d half -g 8",
                "-x 'half",
                "-b 0",
                "-b0",
                "--minb=0",
                "-N0",
            )
        ),
    ],
)
def test_refuses(changes, option):
    with pytest.raises(OptionError, match=f"^{option}: "):
        plan_benchmark(nodes(gpus=8), PEERS, {**SETTINGS, **changes})


def test_further_arguments_are_words_as_a_shell_has_them():
    given = ["-d half", "-z", "1", "-J '/tmp/a b.json'", ""]
    argv = plan_benchmark(nodes(gpus=8), PEERS, {**SETTINGS, "extra_args": given})["points"][0]["argv"]
    assert argv[-6:] == ["-d", "half", "-z", "1", "-J", "/tmp/a b.json"]


JSON = ["-J", "/run/gpufabric/x/mpi/program.json"]
FEATURES = ["json", "rank_times", "barriers"]


def with_features(*features):
    """Nodes whose programs can do something; the others as the first."""
    found = nodes(gpus=8)
    for node, own in zip(found.values(), [*features, *[features[0]] * 3]):
        node["benchmarks"]["features"] = own
    return found


@pytest.mark.parametrize(
    ("features", "changes", "added"),
    [
        ([FEATURES], {"rank_times": "iterations"}, ["-I", "1", *JSON]),
        ([FEATURES], {"rank_times": "barriers"}, ["-I", "1", *JSON, "-z", "3"]),
        ([FEATURES], {"rank_times": "none"}, []),
        ([FEATURES], {}, []),
        ([["json", "cycles"]], {"rank_times": "iterations"}, []),
        ([[]], {"rank_times": "iterations"}, []),
        ([FEATURES, ["json"]], {"rank_times": "iterations"}, []),
        *(
            ([FEATURES], {"rank_times": "iterations", "extra_args": [word]}, [])
            for word in ("-I 0", "-Jx", "--cudagraph=2", "-G 1")
        ),
        ([FEATURES], {"rank_times": "iterations", "extra_args": ["-i 8"]}, ["-I", "1", *JSON]),
        # Rank 0 writes the file.
        ([FEATURES], {"rank_times": "iterations", "dedicated_launcher": True, "launcher": "control"}, []),
        ([FEATURES], {"rank_times": "iterations", "launcher": "g2"}, ["-I", "1", *JSON]),
        ([FEATURES], {"rank_times": "iterations", "backend": "cpu"}, []),
    ],
)
def test_times_of_ranks_are_asked_for_where_all_programs_have_them(features, changes, added):
    settings = {**SETTINGS, **changes}
    argv = plan_benchmark(with_features(*features), PEERS, settings)["points"][0]["argv"]
    further = [word for text in settings["extra_args"] for word in text.split()]
    start = argv.index("-c") + 2 if settings["backend"] != "cpu" else len(argv) - argv[::-1].index("-c") + 1
    assert argv[start:] == [*added, *further]


@pytest.mark.parametrize(
    ("features", "changes", "added"),
    [
        (["cycles", "timestamps"], {}, ["-N", "5", "-S", "1"]),
        (["cycles"], {}, ["-N", "5"]),
        (["cycles"], {"extra_args": ["-S 1"]}, ["-N", "5", "-S", "1"]),
        ([], {"cycles": 1}, []),
        ([], {"backend": "cpu"}, ["-N", "5", "-S", "1"]),
        (["cycles", *FEATURES], {"rank_times": "iterations"}, ["-N", "5", "-I", "1", *JSON]),
    ],
)
def test_cycles(features, changes, added):
    settings = {**SETTINGS, "cycles": 5, **changes}
    argv = plan_benchmark(with_features(features), PEERS, settings)["points"][0]["argv"]
    assert argv[len(argv) - argv[::-1].index("-c") + 1 :] == added


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cycles": 0}, "1 or more"),
        ({"cycles": 2}, "1: the programs on the workers have no -N"),
        ({"cycles": 2, "extra_args": ["-N 3"]}, "1 with -N in nccl_benchmark_extra_args"),
    ],
)
def test_cycles_that_there_cannot_be(changes, words):
    with pytest.raises(OptionError, match="^nccl_benchmark_cycles: ") as caught:
        plan_benchmark(with_features([]), PEERS, {**SETTINGS, **changes})
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("features", "changes", "words"),
    [
        (["json", "rank_times"], {}, "have no -z 3"),
        (FEATURES, {"backend": "cpu"}, "have no -z 3"),
        (FEATURES, {"extra_args": ["-z 1"]}, "none or iterations with -z in nccl_benchmark_extra_args"),
    ],
)
def test_barriers_that_there_cannot_be(features, changes, words):
    settings = {**SETTINGS, "rank_times": "barriers", **changes}
    with pytest.raises(OptionError, match="^nccl_benchmark_rank_times: 'barriers' is not allowed") as caught:
        plan_benchmark(with_features(features), PEERS, settings)
    assert words in str(caught.value)


def test_ranks_per_node_may_be_text():
    plan = plan_benchmark(nodes(), PEERS, {**SETTINGS, "ranks_per_node": "2"})
    assert [host["slots"] for host in plan["hosts"]] == [2, 2, 2]


def test_control_network_by_name_or_by_subnet():
    addresses = {peer["name"]: peer["address"] for peer in PEERS}
    found = nodes()
    assert control_network(found, addresses) == "eth0"
    found["g2"]["interfaces"][1]["name"] = "ens3"
    assert control_network(found, addresses) == "10.0.0.0/24"
    found["g2"]["interfaces"][1]["addresses"] = ["10.0.0.2/25"]
    with pytest.raises(ProblemError, match="here ens3 10.0.0.0/25"):
        control_network(found, addresses)


def test_the_data_interface_by_its_one_name_or_for_each_node():
    found = nodes()
    assert data_plane(found) == {"data": None, "node_env": {}}
    for one in found.values():
        one["data"] = {"interface": "net1", "address": None, "subnet": None}
    assert data_plane(found) == {"data": "net1", "node_env": {}}
    found["g2"]["data"]["interface"] = "dat0,dat1"
    plan = check_nodes(found, SETTINGS)
    assert plan["data"] is None
    assert plan["node_env"] == {
        "g1": {"NCCL_SOCKET_IFNAME": "=net1"},
        "g2": {"NCCL_SOCKET_IFNAME": "=dat0,dat1"},
        "g3": {"NCCL_SOCKET_IFNAME": "=net1"},
    }
    # A point without a value would still have that of each worker.
    swept = [{"env": env, "options": {"datatype": "float"}} for env in ({}, {"NCCL_SOCKET_IFNAME": "net1"})]
    with pytest.raises(OptionError, match="^nccl_benchmark_sweep.env: .'NCCL_SOCKET_IFNAME'"):
        check_nodes(found, {**SETTINGS, "sweep_points": swept})
    # The sshd of its workers is not the run's, which could tell each its own.
    with pytest.raises(ProblemError, match="here net1.* here dat0,dat1.* here net1"):
        check_nodes(found, {**SETTINGS, "launcher": "g0", "dedicated_launcher": True})
    found["g3"]["data"] = None
    with pytest.raises(ProblemError, match="gpufabric_data_interface is set for other workers") as error:
        data_plane(found)
    assert [one.host for one in error.value.problems] == ["g3"]


def test_zero_means_no_limit_where_that_is_documented():
    check_settings({**SETTINGS, "silence_timeout": 0, "orphan_timeout": "0", "warmup_iterations": 0})
    for name in ("timeout", "startup_timeout", "time_limit", "iterations"):
        with pytest.raises(OptionError, match=f"^nccl_benchmark_{name}: 0 "):
            check_settings({**SETTINGS, name: 0})


def outcome(**changes):
    values = {"status": "finished", "exit_status": 0, "duration": 1.0, "stdout_path": "/x/1/stdout", "problems": []}
    return {**values, **changes}


POINT = {"name": "all_reduce", "argv": ["all_reduce_perf"], "env": {"NCCL_ALGO": "Ring"}}


def completed(*outcomes, point=None, **run):
    return complete_results({"points": [point or POINT] * len(outcomes)}, {"points": outcomes, **run})


(EMPTY,) = completed(outcome())
DOCUMENT = {
    **EMPTY,
    "complete": True,
    "summary": {**EMPTY["summary"], "checked": True},
    "problems": [],
    "verdict": "pass",
}


def test_complete_results_keeps_a_good_one():
    (document,) = completed(
        outcome(results=[DOCUMENT]), point={**POINT, "env": {"NCCL_ALGO": "Ring", "NCCL_PROTO": None}}
    )
    assert document["verdict"] == "pass" and document["points"]["env"] == {"NCCL_ALGO": "Ring"}


def test_complete_results_takes_neither_verdicts_nor_more_or_fewer_results_from_a_launcher():
    kept = [{"rule": "network", "passed": True}]
    (document,) = completed(outcome(results=[{**DOCUMENT, "verdicts": kept}]))
    assert "verdicts" not in document
    (document,) = completed(outcome(results=[DOCUMENT, DOCUMENT]))
    assert ([entry["id"] for entry in document["problems"]], document["verdict"]) == (["tables-many"], "fail")
    with pytest.raises(ValueError, match="1 points in place of 2"):
        complete_results({"points": [POINT] * 2}, {"points": [outcome(results=[DOCUMENT])]})


def test_complete_results_holds_no_value_that_may_be_a_token():
    env = {"WANDB_API_KEY": "s3cr3t", "NCCL_DEBUG": "INFO", "MY_LEVEL": "3"}
    (document,) = completed(outcome(results=[DOCUMENT]), point={**POINT, "env": env})
    hidden = "(not shown)"
    assert document["points"]["env"] == {"WANDB_API_KEY": hidden, "NCCL_DEBUG": "INFO", "MY_LEVEL": hidden}
    swept = {"collective": "all_reduce", "env": {"MY_LEVEL": "3"}}
    plan = {"points": [{**POINT, "env": env}], "sweep": [swept]}
    (document,) = complete_results(plan, {"points": [outcome(results=[DOCUMENT])]})
    assert document["points"]["env"]["MY_LEVEL"] == "3" and "s3cr3t" not in str(document)


def test_complete_results_has_the_collective_and_the_number_of_points_of_a_sweep():
    """The name of a point has its setting, too; by it no two points would be of the same collective."""
    swept = [{"collective": "all_reduce", "env": {"NCCL_ALGO": algorithm}, "id": algorithm} for algorithm in ("A", "B")]
    points = [{**POINT, "name": f"all_reduce NCCL_ALGO={point['id']} #1"} for point in swept]
    outcomes = [outcome(results=[DOCUMENT]), outcome(status="failed", exit_status=1)]
    documents = complete_results({"points": points, "sweep": swept}, {"points": outcomes})
    assert [document["collective"] for document in documents] == ["all_reduce"] * 2
    assert [document["points"]["sweep"] for document in documents] == [{**point, "total": 2} for point in swept]
    (alone, _failed) = completed(*outcomes)
    assert (alone["collective"], "sweep" in alone["points"]) == ("all_reduce", False)


def test_complete_results_names_the_hosts_of_nccls_warnings():
    flapped = problem("rdma-port-flapped", "10.0.0.2", "x", "warning").as_dict()
    plan = {"points": [POINT], "hosts": [{"address": "10.0.0.2", "name": "gpu-2"}]}
    result = outcome(results=[{**DOCUMENT, "problems": [flapped]}])
    (document,) = complete_results(plan, {"points": [result]})
    assert [(entry["id"], entry["host"]) for entry in document["problems"]] == [("rdma-port-flapped", "gpu-2")]
    assert document["verdict"] == "pass" and flapped["host"] == "10.0.0.2"


def test_each_other_run_is_told_once_with_its_hosts_and_stays_with_the_results():
    def entry(run, age):
        return {**problem("run-beside", "localhost", "2 processes", run_id=run, age=age).as_dict(), "severity": "error"}

    refused = problem("run-taken", "g1").as_dict()
    told = {"g1": [entry("a", "1 s ago")], "g2": [refused, entry("a", "2 s ago"), entry("b", "1 s ago")], "g3": 7}
    found = runs_beside(told)
    assert [(one["host"], one["evidence"]) for one in found] == [(None, "on g1, g2"), ("g2", "2 processes")]
    plan = {"points": [POINT], "beside": found}
    (document,) = complete_results(plan, {"points": [outcome(results=[DOCUMENT])]})
    assert [(one["id"], one["severity"]) for one in document["problems"]] == [("run-beside", "warning")] * 2
    assert document["verdict"] == "pass"
    assert len(runs_beside({"g1": [entry(f"r{number}", "1 s ago") for number in range(100)]})) == 8


def test_complete_results_explains_a_point_without_result():
    failed = outcome(status="failed", exit_status=255, results=[], unread="no test")
    # That a host cannot be asked afterwards is no explanation.
    left = {"id": "processes-left", "severity": "error", "cause": "", "cure": "", "host": "g2", "evidence": ""}
    said = {**failed, "said": ["ssh: a", "ssh: b"], "problems": [left]}
    documents = completed(failed, said, msg="ssh: Connection refused")
    for document, evidence, more in zip(documents, ("ssh: Connection refused", "ssh: a\nssh: b"), ([], [left])):
        assert document["verdict"] == "fail" and document["rows"] == []
        entry, *others = document["problems"]
        assert others == more
        assert (entry["id"], entry["cause"]) == ("run-failed", "mpirun ended with exit status 255.")
        assert entry["evidence"] == evidence


def test_complete_results_tells_why_output_was_not_read():
    (document,) = completed(outcome(results=[], unread="columns found: size"))
    assert document["verdict"] == "fail"
    (entry,) = document["problems"]
    assert (entry["id"], entry["evidence"]) == ("output-unread", "columns found: size")
    assert " on the launcher, and check" in entry["cure"]


def test_complete_results_names_the_output_that_outlives_the_launcher():
    kept = {"archive": "/var/results/output.tar.gz", "stdout": "points/1/stdout", "stderr": "points/1/stderr"}
    for more in ({"unread": "columns found: size"}, {"status": "failed", "exit_status": 255}):
        (document,) = completed(outcome(results=[], output=kept, **more))
        assert "in points/1 of /var/results/output.tar.gz" in document["problems"][0]["cure"]


def test_complete_results_does_not_explain_twice():
    wrong = {"id": "wrong-values", "severity": "error", "cause": "", "cure": "", "host": None, "evidence": ""}
    found = {"results": [{**DOCUMENT, "problems": [wrong]}], "problems": [wrong]}
    (document,) = completed(outcome(status="failed", exit_status=7, **found))
    assert [entry["id"] for entry in document["problems"]] == ["wrong-values"]


def test_complete_results_believes_a_look_at_the_hosts_more_than_mpirun():
    def entry(identity, host, severity="error"):
        return {"id": identity, "severity": severity, "cause": "", "cure": "", "host": host, "evidence": ""}

    said = [entry("daemon-missing", "g3"), entry("daemon-not-started", None), entry("rank-killed", "g4")]
    looked = [entry("daemon-missing", "g2"), entry("files-low", "g1", "warning")]
    plan = {"points": [POINT, POINT]}
    run = {"points": [outcome(status="failed", exit_status=1, problems=said), outcome(results=[DOCUMENT])]}
    failed, finished = complete_results(plan, run, looked)
    assert [(one["id"], one["host"]) for one in failed["problems"]] == [("daemon-missing", "g2"), ("rank-killed", "g4")]
    assert finished["problems"] == []
    alone = {"points": [outcome(status="failed", exit_status=1, problems=[entry("pids-low", None)])]}
    (failed,) = complete_results({"points": [POINT]}, alone, [entry("ssh-closed", "g2")])
    assert [(one["id"], one["host"]) for one in failed["problems"]] == [("pids-low", "g2")]
    (failed, _finished) = complete_results(plan, run, looked[1:])
    assert [one["host"] for one in failed["problems"]] == ["g3", None, "g4"]


@pytest.mark.parametrize("found", [(), ("ssh-closed",)])
@pytest.mark.parametrize("host", [None, "g1"])
def test_a_point_that_failed_never_passes_with_a_whole_table_and_warnings_alone(host, found):
    said = [problem("numa-balancing", host, "x", "warning").as_dict(), problem("lost-connection", "g2", "x").as_dict()]
    said = said if found else said[:1]
    run = {"points": [outcome(status="failed", results=[DOCUMENT], problems=said)]}
    (document,) = complete_results({"points": [POINT]}, run, [problem(each, "g2").as_dict() for each in found])
    errors = [entry["id"] for entry in document["problems"] if entry["severity"] == "error"]
    assert (document["verdict"], errors) == ("fail", [*found] or ["run-failed"])
    assert ("numa-balancing", host) in [(entry["id"], entry["host"]) for entry in document["problems"]]


NO_INTERFACE = (
    "stderr:5: An invalid value was given for btl_tcp_if_include\nstderr:8: Local host: g1\nstderr:9: Value:      {}"
)


@pytest.mark.parametrize(
    ("value", "hosts"),
    [
        # No host has it: a setting that is wrong.
        ("nosuch0", [None]),
        ("10.99.0.0/24", [None]),
        ("bad/24", [None]),
        # The hosts that lack it, whichever Open MPI named, also one on which it has no address.
        ("net1", ["g2", "g3"]),
        ("10.77.0.0/24", ["g2", "g3"]),
        # All have it by now.
        ("eth0", ["g1"]),
    ],
)
def test_an_interface_that_mpi_does_not_find_is_a_fault_of_the_hosts_without_it_or_of_the_setting(value, hosts):
    said = [
        {"id": "btl-interface-missing", "severity": "error", "cause": "", "cure": "", "host": host, "evidence": text}
        for host, text in (("10.66.0.1", NO_INTERFACE.format(value)),)
    ]
    plan = {"points": [POINT], "hosts": [{"name": f"g{n}", "address": f"10.66.0.{n}"} for n in (1, 2, 3)]}
    run = {"points": [outcome(status="failed", exit_status=1, problems=said)]}
    eth0, net1 = ({"mtu": 1500, "addresses": [f"{start}.2/24"]} for start in ("10.66.0", "10.77.0"))
    facts = {
        "g1": {"interfaces": {"eth0": eth0, "net1": net1}},
        "g2": {"interfaces": {"eth0": eth0, "net1": {"mtu": 1500, "addresses": []}}},
        "g3": {"interfaces": {"eth0": eth0}},
    }
    looked = [{"name": name, "facts": own} for name, own in facts.items()]
    (document,) = complete_results(plan, run, [], looked)
    assert [one["host"] for one in document["problems"]] == hosts
    assert {one["id"] for one in document["problems"]} == {"btl-interface-missing"}
    if hosts == [None]:
        cause = f"A setting of Open MPI names {value} for messages, which is not on any host."
        assert document["problems"][0]["cause"] == cause
    # A host that could not be looked at is none without the interface.
    (unseen,) = complete_results(plan, run, [], [{"name": "g1", "facts": None}])
    assert [one["host"] for one in unseen["problems"]] == ["g1"]


def test_a_setting_that_is_wrong_is_no_fault_of_the_host_that_a_look_blames_for_what_follows():
    def entry(identity, host):
        return {"id": identity, "severity": "error", "cause": "", "cure": "", "host": host, "evidence": ""}

    run = {"points": [outcome(status="failed", exit_status=1, problems=[entry("mca-component-missing", None)])]}
    (document,) = complete_results({"points": [POINT]}, run, [entry("ssh-closed", "g2")])
    assert document["problems"][0]["host"] is None


def test_time_that_was_over_is_no_failure():
    over = {"id": "limit-reached", "severity": "warning", "cause": "", "cure": "", "host": None, "evidence": ""}
    left = outcome(status="not_run", exit_status=None, problems=[over], results=[], unread="the point has not ended")
    done, not_run = completed(outcome(results=[DOCUMENT]), left, limited=True)
    assert (done["verdict"], not_run["verdict"]) == ("pass", "incomplete")
    assert not_run["problems"] == [over]


def test_a_node_says_whose_the_run_is_and_nothing_else():
    taken = {"id": "run-taken", "cause": "The run is another's.", "cure": "Take another.", "host": "g9"}
    with pytest.raises(ProblemError) as told:
        check_free({"g1": [], "g2": [taken, {**taken, "id": "ssh-closed"}, "x"], "g3": None})
    assert [(problem.id, problem.host) for problem in told.value.problems] == [("run-taken", "g2")]
    check_free({"g2": [{**taken, "id": "ssh-closed"}]})


def test_results_have_the_hardware_that_the_look_found():
    found = nodes(gpus=8)
    for one in found.values():
        one["gpus"]["nvlink_gbytes"] = 450.0
        one["rdma_ports"] = [{"name": f"mlx5_{port}:1", "active": True, "gbps": 400.0} for port in range(8)]
    plan = plan_benchmark(found, PEERS, SETTINGS)
    (document,) = complete_results(plan, {"points": [outcome(results=[{**DOCUMENT, "hardware": {"rails": 99}}])]})
    assert document["hardware"] == {"nic_gbps": 400.0, "rails": 8, "ports": 8, "nvlink_gbytes": 450.0}
    (document,) = complete_results(plan_benchmark(nodes(), PEERS, SETTINGS), {"points": [outcome()]})
    assert document["hardware"] is None


@pytest.mark.parametrize("rate", ["400", True, -1, float("inf"), float("nan")])
def test_a_rate_that_is_none_is_refused(rate):
    found = nodes()
    found["g2"]["rdma_ports"] = [{"name": "mlx5_0:1", "active": True, "gbps": rate}]
    with pytest.raises(NodeError, match=r"^g2 returned node.rdma_ports\[0\].gbps: .* allowed: a rate above 0"):
        plan_benchmark(found, PEERS, SETTINGS)
