# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._rdma import read_ports


def test_ports_with_their_rates(tmp_path):
    # The forms of the kernel, drivers/infiniband/core/sysfs.c.
    ports = {
        ("mlx5_0", "1"): ("4: ACTIVE", "400 Gb/sec (4X NDR)"),
        ("mlx5_1", "1"): ("1: DOWN", "2.5 Gb/sec (1X SDR)"),
        ("mlx5_2", "2"): ("4: ACTIVE", "no rate"),
        ("mlx5_3", "1"): ("4: ACTIVE", None),
    }
    for (device, number), (state, rate) in ports.items():
        port = tmp_path / "sys/class/infiniband" / device / "ports" / number
        port.mkdir(parents=True)
        (port / "state").write_text(f"{state}\n")
        if rate:
            (port / "rate").write_text(f"{rate}\n")
    assert read_ports(str(tmp_path)) == [
        {"name": "mlx5_0:1", "active": True, "gbps": 400.0},
        {"name": "mlx5_1:1", "active": False, "gbps": 2.5},
        {"name": "mlx5_2:2", "active": True, "gbps": None},
        {"name": "mlx5_3:1", "active": True, "gbps": None},
    ]
    assert read_ports(str(tmp_path / "none")) == []
