#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark_results
short_description: Make the result documents of a benchmark
version_added: 0.2.0
description:
  - Makes a result document of each point that was planned, also of one that failed, with the problems that explain it.
  - Only a task of the role P(gpufabric.nccl.nccl_benchmark#role) can call it.
  - If the launcher returned something else than M(gpufabric.nccl.mpi_run) does, it fails and names the launcher.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
  - gpufabric.nccl.attributes.read_only
options:
  plan:
    description: The result of M(gpufabric.nccl.benchmark_plan).
    type: dict
    required: true
  run:
    description: The result of M(gpufabric.nccl.mpi_run).
    type: dict
    required: true
  look:
    description: The result of M(gpufabric.nccl.mpi_preflight) after a point had failed.
    type: dict
    default: {}
seealso:
  - module: gpufabric.nccl.benchmark_plan
  - module: gpufabric.nccl.mpi_run
"""

EXAMPLES = r"""
- name: Combine the results
  gpufabric.nccl.benchmark_results:
    plan: "{{ plan }}"
    run: "{{ run }}"
  register: combined
"""

RETURN = r"""
results:
  description: A result document of each point, in order.
  returned: success
  type: list
  elements: dict
  sample: [{schema: gpufabric.nccl/result/v1, collective: all_reduce, complete: true, verdict: pass}]
"""
