# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.hardware import checked_hardware
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.ceiling import share_of_ceiling
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.tables import expected_lines
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.verdict import Judge

G = 1 << 30
FOUND = {"nic_gbps": 400.0, "rails": 8, "ports": 8, "nvlink_gbytes": 450.0}


def document(hosts=12, busbw=371.2, gpu="NVIDIA H100 80GB HBM3", gpus=8, **changes):
    row = {
        "size": 8 * G,
        "type": "float",
        "redop": "sum",
        "root": -1,
        "out_of_place": {"time_us": 1.0, "algbw": 190.0, "busbw": busbw, "wrong": 0},
        "in_place": None,
    }
    found = {
        "tool": {"name": "nccl-tests", "version": "2.19.6", "nccl_version": "2.28.7"},
        "collective": "all_reduce",
        "complete": True,
        "ranks": [{"rank": rank, "host": f"g{rank // gpus}", "name": gpu} for rank in range(gpus * hosts)],
        "rows": [row],
        "summary": {"avg_busbw": busbw / 2, "peak_busbw": busbw, "peak_size": 8 * G, "wrong": 0, "checked": True},
        "host_count": hosts,
        "rank_count": gpus * hosts,
        "hardware": FOUND,
        "transport": None,
        "problems": [],
        "verdict": "pass",
        **changes,
    }
    return copy.deepcopy(found)


def test_what_it_should_have_been_is_told_unasked():
    assert expected_lines(document()) == [
        "ceiling: 371.20 GB/s is 93 % of the ceiling, 400 GB/s: 400 Gb/s x 8 rails, all_reduce over 96 ranks on 12 hosts",
        "published: 386.56 GB/s at 8 GiB, CoreWeave H100, 12 x 8 GPUs, InfiniBand with SHARP (coreweave-h100); this is 96 % of it",
        "published: 391.10 GB/s at 16 GiB, OCI H100, 4 x 8 GPUs (oci-h100-nodes); this is 95 % of it",
        "published: 479.28 GB/s at 8 GiB, AWS p5.48xlarge, 2 x 8 H100, EFA (aws-p5); this is 77 % of it",
    ]


def test_values_of_machines_with_another_network_are_left_out():
    slow = document(hosts=2, hardware={**FOUND, "nic_gbps": 200.0})
    names = [line.partition("(")[2].partition(")")[0] for line in expected_lines(slow)[1:]]
    assert names == ["nvcre-gcp-h100"]
    unknown = document(hosts=2, hardware=None)
    assert "(aws-p5)" in "".join(expected_lines(unknown))
    # Of machines whose network is not known.
    assert "(hgx-h100)" in expected_lines(document(hosts=1))[1]


MNNVL = {"mnnvl": True, "connections": {"NET": 0}}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"hosts": 1, "gpus": 8, "busbw": 360.0}, "80 % of the ceiling, 450 GB/s: 450 GB/s of NVLink a GPU"),
        # NVLink connects all hosts, or some of them.
        ({"hosts": 2, "gpus": 4, "transport": MNNVL}, "82 % of the ceiling, 450 GB/s: 450 GB/s of NVLink a GPU"),
        ({"hosts": 2, "gpus": 4, "transport": {**MNNVL, "connections": {"NET": 8}}}, ""),
        # NCCL's log of a fleet without NVLink between hosts takes nothing away.
        (
            {"transport": {"mnnvl": False, "connections": {"NET": 8}}},
            "93 % of the ceiling, 400 GB/s: 400 Gb/s x 8 rails",
        ),
        ({"hosts": 2, "transport": {"mnnvl": False, "connections": {"NET": 0}}}, "93 % of the ceiling, 400 GB/s"),
        # More ranks than GPUs have no more of the network.
        ({"hardware": {**FOUND, "gpus": 4}}, "93 % of the ceiling, 400 GB/s: 400 Gb/s x 8 rails"),
        # What was typed in goes before what the log shows.
        ({"hosts": 2, "transport": MNNVL, "hardware": {**FOUND, "nvlink_hosts": 1}}, "93 % of the ceiling, 400 GB/s"),
        ({"hardware": {**FOUND, "nic_gbps": None, "rails": None}}, ""),
        ({"hosts": 1, "hardware": {**FOUND, "nvlink_gbytes": None}}, ""),
        ({"hardware": None}, ""),
        ({"collective": "hypercube"}, ""),
        ({"collective": None}, ""),
    ],
)
def test_the_ceiling_is_that_of_what_was_found(changes, told):
    found = share_of_ceiling(document(**changes))
    assert told in found and bool(told) == bool(found)


@pytest.mark.parametrize("group_of", [lambda rank: rank // 8, lambda rank: rank % 8])
def test_groups_that_ran_beside_each_other_have_no_ceiling_of_all(group_of):
    """As with NCCL_TESTS_SPLIT: the hosts each alone, which never used the network, or a group for each rail, of all that share it."""
    split = document(hosts=2)
    split["ranks"] = [{**rank, "group": group_of(rank["rank"])} for rank in split["ranks"]]
    assert expected_lines(split) == []
    rules = [{"name": "Network", "ceiling_percent": 90}, {"name": "Fast", "limit": 1}]
    result = Judge({"rules": rules, "reference": "aws-p5"}).judge(split)
    told = {entry["rule"]: (entry["passed"], entry["message"]) for entry in result["verdicts"][1:]}
    reason = "the ranks ran in {} groups beside each other".format(len({rank["group"] for rank in split["ranks"]}))
    assert told.pop("Fast")[0] is True and len(told) > 1
    assert all(passed is None and reason in message for passed, message in told.values())


def test_a_rule_by_the_ceiling_needs_nothing_typed_in():
    judge = Judge({"rules": [{"name": "Network", "ceiling_percent": 95}]})
    result = judge.judge(document())
    entry = result["verdicts"][1]
    assert result["hardware"] == FOUND
    assert (entry["limit"], entry["passed"]) == (380.0, False) and "400 Gb/s x 8 rails" in entry["source"]
    assert judge.judge(document(hardware=None))["verdicts"][1]["passed"] is None


def test_what_is_typed_in_overrides_what_was_found():
    judge = Judge({"topology": {"nic_gbps": 200}, "rules": [{"name": "Network", "ceiling_percent": 95}]})
    result = judge.judge(document())
    assert result["hardware"] == {**FOUND, "nic_gbps": 200.0, "typed": ["nic_gbps"]}
    assert "200 Gb/s x 8 rails" in result["verdicts"][1]["source"]
    assert "186 % of the ceiling, 200 GB/s" in expected_lines(result)[0]
    assert checked_hardware(result["hardware"]) == result["hardware"]
    # Nothing was found.
    result = judge.judge(document(hardware=None))
    assert "1 rail," in result["verdicts"][1]["source"] and result["hardware"]["rails"] is None


def test_machines_that_have_nvlink_alone_have_no_ports():
    alone = {**FOUND, "nic_gbps": None, "rails": None, "ports": 0}
    assert checked_hardware(alone) == alone


@pytest.mark.parametrize(
    "value",
    [
        3,
        {},
        {**FOUND, "rails": "8"},
        {**FOUND, "rails": True},
        {**FOUND, "x": 1},
        {**FOUND, "nic_gbps": float("inf")},
        {**FOUND, "typed": ["\x1b"]},
    ],
)
def test_hardware_that_is_none_is_refused(value):
    with pytest.raises(GpufabricError, match="the hardware of an item"):
        checked_hardware(value)
