# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.hardware import common_hardware, hardware_of

PORTS = [f"mlx5_{number}:1" for number in range(8)]


def node(ports=PORTS, gbps=400.0, down=(), gpus=8, nvlink=450.0):
    return {
        "gpus": {"count": gpus, "nvlink_gbytes": nvlink},
        "rdma_ports": [{"name": name, "active": name not in down, "gbps": gbps} for name in ports],
    }


def transport(used):
    return {"nics": dict(used)}


def test_most_hosts_count():
    nodes = {"g1": node(), "g2": node(down=PORTS[:1], nvlink=425.0), "g3": node(), "login": node(["mlx5_9:1"], gpus=0)}
    common = common_hardware(nodes)
    assert common == {"ports": dict.fromkeys(PORTS, 400.0), "nvlink_gbytes": 450.0}
    assert PORTS[0] not in common_hardware({"g2": nodes["g2"]})["ports"]
    assert hardware_of(common, None) == {"nic_gbps": 400.0, "rails": 8, "ports": 8, "nvlink_gbytes": 450.0}


@pytest.mark.parametrize(
    ("ports", "nics", "found"),
    [
        # NCCL used half of the NICs; one host lacks one.
        (dict.fromkeys(PORTS, 400.0), {"g1": PORTS[:4], "g2": PORTS[:4], "g3": PORTS[:3]}, (400.0, 4, 8)),
        # The log does not name them, or by names of a plugin: the storage has NICs of another rate.
        ({**dict.fromkeys(PORTS, 400.0), "mlx5_8:1": 200.0, "mlx5_9:1": 200.0}, {"g1": None}, (400.0, 8, 10)),
        (dict.fromkeys(PORTS, 100.0), {"g1": ["AWS Libfabric/0"]}, (100.0, 8, 8)),
        ({}, {"g1": PORTS}, (None, None, 0)),
    ],
)
def test_nics_are_those_that_nccl_uses(ports, nics, found):
    hardware = hardware_of({"ports": ports, "nvlink_gbytes": 450.0}, transport(nics))
    assert (hardware["nic_gbps"], hardware["rails"], hardware["ports"]) == found


@pytest.mark.parametrize("nodes", [{"g1": {"gpus": {"count": 8}}}, {"g1": node(gbps=None, nvlink=None)}, {}])
def test_what_is_not_known_is_nothing(nodes):
    assert hardware_of(common_hardware(nodes), transport({"g1": PORTS})) is None
    assert hardware_of(None, None) is None
