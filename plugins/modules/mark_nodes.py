#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mark_nodes
short_description: Mark the nodes of a cluster whose pods are bad
version_added: 0.2.0
description:
  - Sets the taint or label of the role P(gpufabric.nccl.isolate#role) on the nodes whose pods are bad, and removes it from those whose pods are
    all good.
  - Only a task of that role can call it. It reads the variables of that role.
  - Run it on the controller. It uses M(kubernetes.core.k8s_info), M(kubernetes.core.k8s) and M(kubernetes.core.k8s_taint), and has their
    requirements.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
options:
  search:
    description: The search, as M(gpufabric.nccl.isolation_step) returned it.
    type: dict
    required: true
  uids:
    description:
      - The uid of each pod that was searched, by its name in the inventory. Empty if it is not known.
      - A pod that has another one took the place of the pod that was searched, maybe on another node, and decides no mark.
    type: dict
    default: {}
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
seealso:
  - module: gpufabric.nccl.isolation_step
"""

EXAMPLES = r"""
- name: Mark the nodes whose pods are bad
  gpufabric.nccl.mark_nodes:
    search: "{{ isolate_search }}"
    uids: {worker-0: 0d5b7d3c-6a5e-4f0e-9c1b-1f4f0a4a2f11}
  register: isolate_marks
"""

RETURN = r"""
value:
  description: The value of the mark.
  returned: success
  type: str
  sample: bad
present:
  description: The nodes of the cluster that have the mark now.
  returned: success
  type: list
  elements: str
  sample: [n1]
absent:
  description: The nodes of the cluster that have lost the mark.
  returned: success
  type: list
  elements: str
  sample: [n2]
"""
