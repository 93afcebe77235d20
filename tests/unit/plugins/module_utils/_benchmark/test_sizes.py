# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.plan import single_size, with_sizes
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.sizes import default_size, room
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.tests.unit.benchmark_settings import SETTINGS

G, M = 1 << 30, 1 << 20
UNSET = {**SETTINGS, "max_bytes": None}


def nodes(count=2, gpus=8, memory=80 * G, gbps=3200.0):
    rate = None if gbps is None else {"gbps": gbps, "source": "8 RDMA ports"}
    node = {"gpus": {"count": gpus, "names": [], "memory_bytes": memory, "unusable": []}, "line_rate": rate}
    return {f"g{number}": node for number in range(count)}


@pytest.mark.parametrize(
    ("found", "changes", "size", "words"),
    [
        (nodes(), {}, 8 * G, ""),
        (nodes(1000), {"collectives": ["all_reduce", "alltoall"]}, 8 * G, ""),
        (nodes(memory=24 * G), {}, 4 * G, "a GPU has 24 GiB, and a test needs 3 buffers"),
        (nodes(memory=24 * G), {"check": False}, 8 * G, ""),
        (nodes(memory=16 * G), {}, 4 * G, "16 GiB"),
        (nodes(memory=G), {}, 128 * M, "a GPU has 1 GiB"),
        (nodes(memory=None), {}, 8 * G, ""),
        (nodes(gbps=25.0), {}, 2 * G, "over 300 s, half of the time limit, if hosts send half of 25 Gb/s"),
        (nodes(gbps=25.0), {"iterations": 2}, 8 * G, ""),
        (nodes(gbps=25.0), {"timeout": 100}, 256 * M, "over 50 s"),
        (nodes(gbps=25.0), {"cycles": 10}, 256 * M, "over 300 s"),
        (nodes(gbps=25.0), {"collectives": ["all_reduce", "alltoall"]}, G, "half of 25 Gb/s"),
        # The most that a host can send is taken for what is not known.
        (nodes(gbps=25.0), {"collectives": ["hypercube"]}, G, "half of 25 Gb/s"),
        (nodes(gbps=None), {}, G, "half of 10 Gb/s (the line rate is not known)"),
        (nodes(gbps=-1.0), {}, G, "half of 10 Gb/s"),
        (nodes(gbps=1e-300), {}, 128 * M, "Gb/s"),
        # All that is between them is PCIe, at worst.
        (nodes(1, gbps=None), {}, 8 * G, ""),
        (nodes(1, gbps=1.0), {"iterations": 200}, G, "if GPUs send 10 GB/s to each other"),
        (nodes(), {"min_bytes": "16G"}, 16 * G, ""),
        ({**nodes(), "g9": nodes(1, memory=24 * G)["g0"]}, {}, 4 * G, "24 GiB"),
    ],
)
def test_default_size(found, changes, size, words):
    got, reason = default_size(found, {**UNSET, **changes})
    assert got == size and words in reason and bool(words) == bool(reason)


def test_a_single_size_has_the_time_for_itself():
    assert default_size(nodes(gbps=10.0), UNSET, 2 * G)[0] == G
    assert default_size(nodes(gbps=10.0), UNSET, 2 * G, is_single=True)[0] == 2 * G


def test_room_is_what_nccl_tests_takes():
    """src/common.cu of nccl-tests 2.19.6: 1 GiB for each 16 GiB, 4 at most, and one more stay free; send, receive, expected."""
    assert room(80 * G, True) == 75 * G / 3 and room(80 * G, False) == 75 * G / 2
    assert room(16 * G, True) == 14 * G / 3 and room(G, True) == 0


def whole(**node):
    """A node as mpi_node_info returns it."""
    return {
        "hostname": "g",
        "interfaces": [],
        "data": None,
        "mpi": None,
        "benchmarks": None,
        "python": {"executable": "/usr/bin/python3", "mpi4py": None, "numpy": None},
        "gpus": {"count": 8, "names": [], "unusable": []},
        **node,
    }


def test_a_size_is_chosen_only_if_none_is_given():
    given = with_sizes({"g1": whole()}, {**SETTINGS, "max_bytes": "4M"})
    assert (given["max_bytes"], given["sizes_note"]) == ("4M", "")
    gpus = with_sizes({"g1": whole()}, UNSET)
    assert (gpus["max_bytes"], gpus["sizes_note"]) == ("8G", "the default with GPUs")
    small = with_sizes({"g1": whole(gpus={"count": 1, "names": [], "memory_bytes": 24 * G, "unusable": []})}, UNSET)
    assert small["max_bytes"] == "4G" and small["sizes_note"].startswith("the default with GPUs; a GPU has 24 GiB")
    none = {"count": 0, "names": [], "unusable": []}
    for settings, found in (
        (UNSET, {"g1": whole(gpus=none)}),
        ({**UNSET, "backend": "cpu"}, {"g1": whole()}),
        (UNSET, {}),
    ):
        cpu = with_sizes(found, settings)
        assert (cpu["max_bytes"], cpu["sizes_note"]) == ("128M", "the default")
    assert with_sizes({"g1": whole(gpus=none)}, {**UNSET, "min_bytes": "1G"})["max_bytes"] == "1G"
    assert single_size({"g1": whole()}, UNSET, "1G") == ("1G", "")


@pytest.mark.parametrize(
    ("changes", "option"),
    [({"min_bytes": "x"}, "min_bytes"), ({"step_factor": 1}, "step_factor"), ({"timeout": 0}, "timeout")],
)
def test_settings_that_no_size_follows_from(changes, option):
    with pytest.raises(OptionError, match=f"^nccl_benchmark_{option}: "):
        with_sizes({"g1": whole()}, {**UNSET, **changes})


@pytest.mark.parametrize(
    "node",
    [
        {"line_rate": {"gbps": "fast", "source": "x"}},
        {"line_rate": {"gbps": float("inf"), "source": "x"}},
        {"gpus": {"count": 1, "names": [], "memory_bytes": -1, "unusable": []}},
        {"gpus": {"count": 1, "names": [], "memory_bytes": 1 << 70, "unusable": []}},
    ],
)
def test_a_node_that_answers_something_else(node):
    with pytest.raises(NodeError, match="^g1 returned node"):
        with_sizes({"g1": whole(**node)}, UNSET)
