# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import importlib.util
import itertools
import os
import pathlib
import subprocess
import sys

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import diagnose
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.reader import Source

PROGRAM = pathlib.Path(__file__).parents[4] / "plugins/plugin_utils/_programs/cpu_perf.py"
SPEC = importlib.util.spec_from_file_location("cpu_perf", PROGRAM)
cpu = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(cpu)

needs_numpy = pytest.mark.skipif(cpu.np is None, reason="numpy is not installed")

DEVICE = {
    "rank": 0,
    "group": 0,
    "pid": 123,
    "hostname": "g1",
    "device": 0,
    "device_hex": "0000:00:00",
    "device_info": "CPU x86_64",
}


def options(text, ranks=4):
    return cpu.parse_options(text.split(), ranks)


@pytest.mark.parametrize(
    ("text", "size"), [("8", 8), ("4M", 4 << 20), ("1k", 1024), ("1.5G", 3 << 29), ("0", 0), ("2 K", 2048)]
)
def test_sizes_are_1024_based(text, size):
    assert cpu.parse_size(text) == size


def test_defaults_are_those_of_nccl_tests():
    given = vars(options("all_reduce"))
    assert {name: given[name] for name in ("minbytes", "maxbytes", "stepbytes", "stepfactor")} == {
        "minbytes": 32 << 20,
        "maxbytes": 32 << 20,
        "stepbytes": 1 << 20,
        "stepfactor": 1,
    }
    assert [given[name] for name in ("iters", "warmup_iters", "agg_iters", "check", "average")] == [20, 1, 1, 1, 1]
    assert [given[name] for name in ("op", "datatype", "root")] == [["sum"], ["float"], 0]


def test_all_means_all():
    given = options("reduce -e 32M -o all -d all -r all")
    assert given.op == ["sum", "prod", "max", "min", "avg"]
    assert given.datatype == list(cpu.TYPES)
    assert given.root == -1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("allreduce", "invalid choice: 'allreduce'"),
        ("all_reduce --nope", "--nope"),
        ("all_reduce -q 1", "-q 1"),
        ("all_reduce -b 4X", "'4X' is not a size"),
        ("all_reduce -b -1", "-b"),
        (f"all_reduce -e {'9' * 400}", "is too large; allowed: less than 2^63 bytes"),
        ("all_reduce -b 8 -e 4", "-b 8 is more than -e 4"),
        ("all_reduce -b 0 -f 2", "use -i instead"),
        ("all_reduce -i 0", "-i 0"),
        ("all_reduce -n 0", "at least 1"),
        ("all_reduce -g 8", "start more ranks"),
        ("all_reduce -t 2", "start more ranks"),
        ("all_reduce -d bfloat16", "int8, uint8, int32, uint32, int64, uint64, half, float, double"),
        ("all_reduce -o mulsum", "sum, prod, max, min, avg"),
        ("all_reduce -a 4", "-a"),
        ("broadcast -r 4", "ranks 0 to 3"),
        ("all_reduce -e 8G", "at most 2147483647 elements"),
    ],
)
def test_usage_errors_are_one_line(text, message):
    with pytest.raises(cpu.UsageError) as caught:
        options(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    # As mpirun prints it, of a run that has failed.
    (cause,) = diagnose([Source("launcher", [f"{cpu.PROGRAM}: {caught.value}\n"])], cpu.INVALID_USAGE)
    assert (cause.id, cause.host) == ("test-argument", None)


def test_a_collective_is_needed():
    with pytest.raises(cpu.UsageError, match="required: collective"):
        options("")


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ((8, 64, 1 << 20, 2), [8, 16, 32, 64]),
        ((0, 25, 10, 1), [0, 10, 20]),
        ((5, 5, 1, 1), [5]),
        ((8, 100, 1, 3), [8, 24, 72]),
    ],
)
def test_plan_of_sizes(plan, expected):
    assert list(cpu.sizes(*plan)) == expected


@pytest.mark.parametrize(
    ("name", "size", "itemsize", "ranks", "expected"),
    [
        ("all_reduce", 1000, 4, 3, (250, 250, 250)),
        ("sendrecv", 10, 8, 2, (1, 1, 1)),
        ("all_gather", 1 << 20, 4, 4, (65536, 65536, 262144)),
        ("gather", 100, 4, 3, (8, 8, 24)),
        ("scatter", 100, 2, 3, (16, 48, 16)),
        ("reduce_scatter", 100, 1, 3, (32, 96, 32)),
        ("alltoall", 100, 8, 3, (4, 12, 12)),
        ("alltoall", 63, 4, 4, (0, 0, 0)),
    ],
)
def test_counts_are_those_of_nccl_tests(name, size, itemsize, ranks, expected):
    assert cpu.counts(cpu.COLLECTIVES[name], size, itemsize, ranks) == expected


@pytest.mark.parametrize(
    ("name", "factor"),
    [("all_reduce", 1.5), ("broadcast", 1), ("reduce", 1), ("sendrecv", 1)]
    + [(name, 0.75) for name in ("all_gather", "reduce_scatter", "alltoall", "gather", "scatter")],
)
def test_bus_factor(name, factor):
    assert cpu.COLLECTIVES[name].bus_factor(4) == factor


def test_size_of_types():
    assert [cpu.item_size(name) for name in cpu.TYPES] == [1, 1, 4, 4, 8, 8, 2, 4, 8]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("reduce", [("sum", 0), ("sum", 1), ("max", 0), ("max", 1)]),
        ("broadcast", [("none", 0), ("none", 1)]),
        ("sendrecv", [("sum", -1), ("max", -1)]),
        ("alltoall", [("none", -1)]),
    ],
)
def test_cases(name, expected):
    found = cpu.cases(cpu.COLLECTIVES[name], ["half", "float"], ["sum", "max"], -1, 2)
    assert [(case.op, case.root) for case in found if case.type == "half"] == expected
    assert [case.type for case in found] == ["half"] * len(expected) + ["float"] * len(expected)


@pytest.mark.parametrize(
    ("value", "width", "text"),
    [
        (0.004, 6, "  0.00"),
        (18.66, 7, "  18.66"),
        (137.87, 6, "137.87"),
        (1344.5, 6, "1344.5"),
        (17054.3, 6, " 17054"),
        (67369.4, 7, "67369.4"),
        (1234567.8, 7, "1234568"),
        (12345678.0, 7, "1.2e+07"),
        (12345678.0, 6, " 1e+07"),
    ],
)
def test_numbers_shrink_to_their_column(value, width, text):
    assert cpu.fit(value, width) == text


def test_text_is_that_of_nccl_tests():
    given = options("sendrecv -b 1 -e 10K -i 100")
    result = {
        "size": 100,
        "count": 25,
        "type": "float",
        "redop": "sum",
        "root": "    -1",
        "out_of_place": {"time": 12.66, "alg_bw": 0.0079, "bus_bw": 0.0079, "nwrong": 0.0},
        "in_place": {"time": 12.49, "alg_bw": 0.008, "bus_bw": 0.008, "nwrong": None},
    }
    lines = [
        cpu.banner("sendrecv_cpu", given, "mpi=Open MPI 4.1.4 mpi4py=3.1.4"),
        cpu.device_line(DEVICE),
        cpu.header(given),
        cpu.row(result, ""),
        cpu.footer("sendrecv_cpu", 0, 0.369672),
    ]
    assert [line.rstrip() for line in "\n".join(lines).split("\n")] == [
        "# gpufabric-cpu version 0.1.0 mpi=Open MPI 4.1.4 mpi4py=3.1.4",
        "# Collective test starting: sendrecv_cpu",
        "# nThread 1 nGpus 1 minBytes 1 maxBytes 10240 step: 100(bytes) warmup iters: 1 iters: 20 agg iters: 1"
        " validation: 1 graph: 0",
        "#",
        "# Using devices",
        "#  Rank  0 Group  0 Pid    123 on         g1 device  0 [0000:00:00] CPU x86_64",
        "#",
        "#                                                              out-of-place                       in-place",
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)",
        "         100            25     float     sum      -1    12.66    0.01    0.01       0    12.49    0.01    0.01     N/A",
        "# Out of bounds values : 0 OK",
        "# Avg bus bandwidth    : 0.369672",
        "#",
        "# Collective test concluded: sendrecv_cpu",
        "#",
    ]


def test_failed_values_are_said():
    assert "# Out of bounds values : 3 FAILED" in cpu.footer("reduce_cpu", 3, 1.0)


def test_ignored_options_are_said():
    text = cpu.banner("all_reduce_cpu", options("all_reduce -R 1 -G 0"), "")
    assert "ignored: -R\n" in text


def test_cpu_time_and_timestamps_add_to_the_table():
    lines = cpu.header(options("all_reduce -C 1 -S 1")).splitlines()
    assert lines[2].split().count("cputime") == 2
    assert lines[2].split()[-1] == "timestamp"


def test_json_config():
    config = cpu.config_document(options("all_reduce -b 8 -e 64 -f 2 -z 1"), [DEVICE])
    assert config["step_factor"] == 2
    assert "step_bytes" not in config
    assert config["blocking_collectives"] == "true"
    assert config["devices"] == [DEVICE]


def test_environment_is_reduced():
    kept = cpu.kept_environment(
        {
            "NCCL_DEBUG": "WARN",
            "OMPI_MCA_btl": "tcp,self",
            "OMPI_MCA_orte_hnp_uri": "tcp://192.0.2.1",
            "NCCL_API_TOKEN": "secret",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "MY_NCCL_X": "secret",
        }
    )
    assert kept == ["NCCL_DEBUG=WARN", "OMPI_MCA_btl=tcp,self"]


def test_json_file_never_replaces_another(tmp_path, capsys):
    path = tmp_path / "out.json"
    for name in ("out.json", "out.json.0", "out.json.1"):
        cpu.open_new(str(path)).close()
        assert capsys.readouterr().out == f"# Writing JSON output to {tmp_path / name}\n"
    assert cpu.open_new(str(tmp_path / "none/out.json")) is None
    assert "skipping json output" in capsys.readouterr().out


def test_memory_problem_names_host_and_bytes():
    assert cpu.memory_problem("g1", 100, 2, 100) is None
    assert cpu.memory_problem("g1", 100, 2, None) is None
    problem = cpu.memory_problem("g1", 101, 2, 100)
    assert "2 ranks on g1 need 101 bytes" in problem
    assert "100 bytes are available" in problem


def reduce_in_type(op, buffers):
    """The reduction as MPI does it: one rank after the other, in the type."""
    np = cpu.np
    function = {"sum": np.add, "avg": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}[op]
    result = buffers[0].copy()
    for buffer in buffers[1:]:
        function(result, buffer, out=result)
    return (
        result / len(buffers)
        if op == "avg" and result.dtype.kind == "f"
        else result // len(buffers)
        if op == "avg"
        else result
    )


def run_without_mpi(name, case, block, ranks, rank, sent):
    """What rank receives out of place from what all ranks sent."""
    np = cpu.np
    mine = slice(rank * block, (rank + 1) * block)
    received = {
        "all_reduce": lambda: reduce_in_type(case.op, sent),
        "reduce": lambda: reduce_in_type(case.op, sent),
        "reduce_scatter": lambda: reduce_in_type(case.op, sent)[mine],
        "all_gather": lambda: np.concatenate(sent),
        "gather": lambda: np.concatenate(sent),
        "alltoall": lambda: np.concatenate([buffer[mine] for buffer in sent]),
        "broadcast": lambda: sent[case.root],
        "scatter": lambda: sent[case.root][mine],
        "sendrecv": lambda: sent[(rank - 1) % ranks],
    }[name]()
    return received.astype(sent[0].dtype)


@pytest.mark.parametrize("kind", ["ImportError", "RuntimeError"])
def test_a_numpy_that_cannot_be_loaded_is_named(kind, tmp_path):
    """Numpy raises RuntimeError on a processor that it was not built for."""
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "__init__.py").write_text(f"raise {kind}('your machine does not support X86_V2')\n")
    done = subprocess.run(
        [sys.executable, cpu.__file__, "all_reduce"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert "numpy cannot be imported: your machine does not support X86_V2; for" in done.stderr
    assert "Traceback" not in done.stderr


@needs_numpy
@pytest.mark.parametrize("name", list(cpu.COLLECTIVES))
def test_expected_values_are_exact(name):
    collective = cpu.COLLECTIVES[name]
    ops = cpu.OPS if collective.takes_op else ["none"]
    for type_name, op, ranks, size in itertools.product(cpu.TYPES, ops, [1, 3, 5], [0, 64, 40000]):
        dtype = cpu.np.dtype(cpu.TYPES[type_name][0])
        case = cpu.Case(type_name, op, ranks - 1 if collective.takes_root else -1)
        counts = cpu.counts(collective, size, dtype.itemsize, ranks)
        table = cpu.input_table(op, ranks, seed=5)
        sent = [cpu.np.zeros(counts.send, dtype) for _rank in range(ranks)]
        for row, buffer in zip(table, sent):
            cpu.fill(buffer, cpu.Part(0, counts.send, row, 0))
        for rank in range(ranks):
            parts = cpu.expected_parts(name, case, counts.block, rank, False, table, dtype)
            assert parts or rank != case.root
            received = run_without_mpi(name, case, counts.block, ranks, rank, sent)
            assert sum(cpu.count_wrong(received, part) for part in parts) == 0
            if parts and received.size:
                assert sum(part.count for part in parts) == received.size
                received[-1] += 1
                assert sum(cpu.count_wrong(received, part) for part in parts) == 1


@needs_numpy
@pytest.mark.parametrize("op", [*cpu.OPS, "none"])
def test_values_fit_into_every_type(op):
    for ranks in (1, 2, 3, 32, 33, 200, 3000):
        table = cpu.input_table(op, ranks, seed=1)
        reduced = table if op == "none" else cpu.reduced_row(op, table, cpu.np.dtype("float64"))
        assert table.min() >= 0
        assert max(table.max(), reduced.max()) <= 127


@needs_numpy
@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_operations_are_told_apart(ranks):
    dtype = cpu.np.dtype("int64")
    for op in ("sum", "prod", "max", "min"):
        table = cpu.input_table(op, ranks, seed=1)
        for other in {"sum", "prod", "max", "min"} - {op}:
            assert (cpu.reduced_row(op, table, dtype) != cpu.reduced_row(other, table, dtype)).any()


@needs_numpy
def test_another_seed_gives_other_values():
    for op in (*cpu.OPS, "none"):
        assert (cpu.input_table(op, 4, 1) != cpu.input_table(op, 4, 2)).any()


@needs_numpy
@pytest.mark.parametrize(("type_name", "expected"), [("int8", 0), ("uint64", 0), ("double", 96 / 200)])
def test_average_over_more_ranks_than_the_type_holds(type_name, expected):
    values = cpu.np.full(3, 96, cpu.TYPES[type_name][0])
    cpu.divide(values, 200)
    assert (values == expected).all()


@needs_numpy
def test_scatter_in_place_lands_in_the_block_of_the_rank():
    table = cpu.input_table("none", 3, 1)
    (part,) = cpu.expected_parts("scatter", cpu.Case("float", "none", 0), 8, 2, True, table, cpu.np.dtype("float32"))
    assert (part.start, part.count, part.offset) == (16, 8, 16)
