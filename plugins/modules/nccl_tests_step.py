#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_tests_step
short_description: Take the next step of bringing nccl-tests to machines
version_added: 0.2.0
description:
  - Does the thinking of the role P(gpufabric.nccl.nccl_tests#role), whose other tasks work on the hosts.
  - Only a task of that role can call it.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
  - gpufabric.nccl.attributes.read_only
options:
  step:
    description:
      - V(plan) chooses the hosts that build, and the architectures.
      - V(lacking) names the hosts that do not have what was built.
    type: str
    choices: [plan, lacking]
    required: true
  looks:
    description: The result of M(gpufabric.nccl.nccl_tests_info), by host.
    type: dict
    required: true
  builder:
    description: The host that has built.
    type: str
  built:
    description: The result of M(gpufabric.nccl.nccl_tests_build) on that host.
    type: dict
    default: {}
seealso:
  - module: gpufabric.nccl.nccl_tests_build
"""

EXAMPLES = r"""
- name: Choose who builds
  gpufabric.nccl.nccl_tests_step:
    step: plan
    looks: "{{ looks }}"
  register: plan
  run_once: true
"""

RETURN = r"""
builders:
  description: The hosts that build; none if nothing is to be done.
  returned: with O(step=plan)
  type: list
  elements: str
  sample: [gpu-1]
vendor:
  description: Whose GPUs the hosts have; V(null) if they have none.
  returned: with O(step=plan)
  type: str
  sample: nvidia
architectures:
  description: The architectures of the GPUs of all hosts.
  returned: with O(step=plan)
  type: list
  elements: str
  sample: ["9.0"]
note:
  description: The plan in words.
  returned: with O(step=plan)
  type: str
  sample: nccl-tests is built on gpu-1 for 16 workers.
lacking:
  description: The hosts that do not have what was built.
  returned: with O(step=lacking)
  type: list
  elements: str
  sample: [gpu-2, gpu-3]
"""
