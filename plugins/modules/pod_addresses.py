#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: pod_addresses
short_description: Ask a cluster for the addresses of pods
version_added: 0.2.0
description:
  - Asks for the pods of the namespace, for M(gpufabric.nccl.mpi_hostfile). Does not fail if the cluster does not tell them.
  - Only a task of a role can call it, of P(gpufabric.nccl.mpijob#role). It reads the variables of the role that begin with C(gpufabric_).
  - Run it on the controller. It uses M(kubernetes.core.k8s_info) and has its requirements.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
  - gpufabric.nccl.attributes.read_only
options: {}
seealso:
  - plugin: gpufabric.nccl.pod_addresses
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Ask the cluster for the addresses of the pods
  gpufabric.nccl.pod_addresses:
  register: pods
"""

RETURN = r"""
addresses:
  description: The address of each pod that has not ended, by its name in DNS. Empty if the cluster does not tell them.
  returned: always
  type: dict
  sample: {training-worker-0.training.default: 10.1.2.3}
"""
