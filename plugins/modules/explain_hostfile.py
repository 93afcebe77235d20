#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: explain_hostfile
short_description: Fail with the reason why the names of pods do not resolve
version_added: 0.2.0
description:
  - Takes a M(gpufabric.nccl.mpi_hostfile) that failed on a pod. If names did not resolve, asks the cluster for its Services, Endpoints and
    pods, and fails with the cause and the cure of each name. It always fails.
  - Run it on the controller. It uses M(kubernetes.core.k8s_info) and has its requirements.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
  - gpufabric.nccl.attributes.read_only
  - gpufabric.nccl.cluster
options:
  result:
    description: The result of M(gpufabric.nccl.mpi_hostfile).
    type: dict
    required: true
  host:
    description: The host that it ran on. By default a failure that is not about names belongs to no host.
    type: str
  cluster_domain:
    description: The domain of the cluster's DNS.
    type: str
    default: cluster.local
seealso:
  - module: gpufabric.nccl.mpi_hostfile
  - plugin: gpufabric.nccl.pod_addresses
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Write the hostfile
  gpufabric.nccl.mpi_hostfile:
    src: /etc/mpi/hostfile
  register: hostfile
  failed_when: false

- name: Explain why there is none
  gpufabric.nccl.explain_hostfile:
    namespace: benchmarks
    result: "{{ hostfile }}"
  when: hostfile.hosts is not defined
  delegate_to: localhost
"""

RETURN = r"""
problems:
  description: The causes.
  returned: always
  type: list
  elements: dict
  contains:
    id:
      description: The cause, as L(troubleshooting,https://github.com/gpufabric/gpufabric.nccl/blob/main/docs/troubleshooting.md) describes it.
      type: str
      sample: connect-refused
    severity: {description: V(error) or V(warning)., type: str, sample: error}
    host: {description: The host or pod that has the problem; V(null) if no single one has it., type: str, sample: gpu-2}
    cause: {description: What is wrong., type: str, sample: Nothing listens on 10.0.0.12 port 22.}
    cure: {description: What to do., type: str, sample: Start sshd there.}
    evidence: {description: The output or value that shows it; may be empty., type: str, sample: Connection refused}
"""
