# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Which cluster, and where in it."""

    DOCUMENTATION = r"""
options:
  kubeconfig:
    description:
      - Path of the configuration for the cluster.
      - By default what E(KUBECONFIG), C(~/.kube/config) or, in a pod, the pod's own service account gives.
    type: path
  context:
    description: The context in that configuration. By default its current one.
    type: str
  namespace:
    description: The namespace of the pods.
    type: str
    default: default
requirements:
  - kubernetes >= 24.2.0, on the controller
notes:
  - If the API server stops answering after it has answered, the module tries again for two minutes. Programs in the cluster continue
    while the API server restarts.
"""
