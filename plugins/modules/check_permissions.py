#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: check_permissions
short_description: Check that the user may do in a cluster what a role needs
version_added: 0.2.0
description:
  - Asks the cluster, by a SelfSubjectRulesReview, what its user may do in the namespace. Fails with C(kube-forbidden), which names what is
    missing. If the cluster cannot list all rules, nothing is said.
  - Only a task of a role can call it, of P(gpufabric.nccl.worker_pods#role), P(gpufabric.nccl.mpijob#role) or
    P(gpufabric.nccl.isolate#role). It reads the variables of the role that begin with C(gpufabric_).
  - Run it on the controller. It uses M(kubernetes.core.k8s) and M(kubernetes.core.k8s_cluster_info), and has their requirements.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
  - gpufabric.nccl.attributes.read_only
options:
  needs:
    description: What the role needs, each as API group, resource and verbs.
    type: list
    elements: list
    required: true
  operator:
    description: Whether the role needs the MPI Operator. Fails with C(operator-missing) if the cluster does not know MPIJobs.
    type: bool
    default: false
  adopting:
    description: The variables that adopt pods, if that is another way. It is only named to a user who may do that.
    type: str
  rendering:
    description: The variable and value that render a manifest for another user, if that is another way.
    type: str
seealso:
  - module: gpufabric.nccl.run_objects
"""

EXAMPLES = r"""
- name: Check the permissions
  gpufabric.nccl.check_permissions:
    needs: [["", "pods", ["get", "list"]]]
  check_mode: false
"""

RETURN = r"""#"""
