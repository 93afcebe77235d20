# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables of the role nccl_benchmark without their prefix, with which tests plan a benchmark."""

from __future__ import annotations

SETTINGS = {
    "backend": "auto",
    "collectives": ["all_reduce"],
    "launcher": None,
    "dedicated_launcher": False,
    "ranks_per_node": None,
    "min_bytes": "8",
    "max_bytes": "4M",
    "step_factor": 2,
    "iterations": 20,
    "warmup_iterations": 1,
    "timeout": 600,
    "check": True,
    "extra_args": [],
    "env": {},
}
