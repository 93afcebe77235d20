# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All that the CPU program does, over MPI between nodes."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.plan import COLLECTIVES, CPU_DATATYPES
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.sweep import OPERATIONS, REDUCING

COLLECTIVES_OF_CPU = [name for name in COLLECTIVES if name not in ("hypercube", "alltoallv")]


@pytest.mark.slow
def test_each_collective_type_and_operation(make_nodes, tmp_path):
    # The buffers of three ranks do not divide the sizes evenly.
    nodes = make_nodes(3)
    played = nodes.benchmark(
        tmp_path,
        nccl_benchmark_collectives=COLLECTIVES_OF_CPU,
        nccl_benchmark_extra_args=["-d", "all", "-o", "all"],
        nccl_benchmark_min_bytes="1K",
        nccl_benchmark_max_bytes="2K",
        report_formats=["json"],
    )
    assert played.returncode == 0, played.output
    documents = json.loads((tmp_path / "results.json").read_text())["results"]
    assert [document["collective"] for document in documents] == COLLECTIVES_OF_CPU
    for document in documents:
        assert (document["verdict"], document["problems"], document["rank_count"]) == ("pass", [], 3)
        found = {(row["type"], row["redop"]) for row in document["rows"]}
        # sendrecv goes through the operations too, as that of nccl-tests does.
        operations = OPERATIONS if document["collective"] in (*REDUCING, "sendrecv") else ["none"]
        assert found == {(datatype, operation) for datatype in CPU_DATATYPES for operation in operations}
