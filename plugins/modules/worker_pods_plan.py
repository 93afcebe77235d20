#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: worker_pods_plan
short_description: Decide how the role worker_pods gets its pods
version_added: 0.2.0
description:
  - Decides between creating and adopting pods, and makes the objects to create. No cluster is asked.
  - Only a task of the role P(gpufabric.nccl.worker_pods#role) can call it. It reads the variables of that role, each as its type says, also
    if it was given as text. A list may have commas or lines between its items, or be JSON.
  - A variable with a wrong value fails with its name, the value and what is allowed.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
  - gpufabric.nccl.attributes.read_only
seealso:
  - module: gpufabric.nccl.pods_ready
"""

EXAMPLES = r"""
- name: Plan the pods
  gpufabric.nccl.worker_pods_plan:
  register: plan
"""

RETURN = r"""
adopt:
  description: Whether the pods exist already.
  returned: success
  type: bool
  sample: false
name:
  description: Name of the objects to make.
  returned: success
  type: str
  sample: gpufabric-default
container:
  description: The container to run programs in, of pods that are to be made.
  returned: success
  type: str
  sample: worker
selector:
  description: Label selector of the pods, if they are chosen by one.
  returned: success
  type: str
  sample: app.kubernetes.io/managed-by=gpufabric.nccl,gpufabric.nccl/run=default
names:
  description: Names of the pods, if they are chosen by name.
  returned: success
  type: list
  elements: str
  sample: [trainer-0, trainer-1]
objects:
  description: The objects to make.
  returned: success
  type: list
  elements: dict
  sample: [{kind: StatefulSet, metadata: {name: gpufabric-default}}]
policy:
  description: The NetworkPolicy to make; V(null) for none.
  returned: success
  type: dict
  sample: {kind: NetworkPolicy, metadata: {name: gpufabric-default}}
policy_required:
  description: Whether an account that may not make it is refused.
  returned: success
  type: bool
  sample: false
removal:
  description: The command by which a person removes the objects.
  returned: success
  type: str
  sample: kubectl --namespace default delete statefulset,networkpolicy,service --selector gpufabric.nccl/run=default
needs:
  description: The permissions that this needs, each as API group, resource and verbs.
  returned: success
  type: list
  elements: list
  sample: [["", "pods", ["get", "list"]]]
settings:
  description: The variables of the role, by their names without its prefix, each as its type says.
  returned: success
  type: dict
  sample: {"replicas": 2}
"""
