#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mpijob_plan
short_description: Make the objects of a benchmark as a Kubeflow MPIJob
version_added: 0.2.0
description:
  - Makes an C(MPIJob) of C(kubeflow.org/v2beta1), and a C(ConfigMap) with the programs of its pods, for the role mpijob.
  - The same variables give the same objects; only the name of a job that is submitted has a random suffix, and
    its ConfigMap a random annotation. No cluster is asked.
  - Only a task of the role P(gpufabric.nccl.mpijob#role) can call it. It reads the variables of that role, each as its type says, also
    if it was given as text. A list may have commas or lines between its items, or be JSON.
  - A variable with a wrong value fails with its name, the value and what is allowed.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
  - gpufabric.nccl.attributes.read_only
options:
  name:
    description: Name of the job, such as that of one to follow. By default the variables of the role determine it.
    type: str
    default: ""
  found:
    description: The jobs of the run that the cluster has. If one of them goes on and has the same settings, the plan is that of this job.
    type: list
    elements: dict
    default: []
seealso:
  - module: gpufabric.nccl.mpijob_finished
"""

EXAMPLES = r"""
- name: Plan the job
  gpufabric.nccl.mpijob_plan:
  register: plan
"""

RETURN = r"""
objects:
  description: The objects to make.
  returned: success
  type: list
  elements: dict
  sample: [{kind: MPIJob, metadata: {name: gpufabric-default-x7k2p}}]
manifest:
  description: The objects as the text of one YAML file.
  returned: success
  type: str
  sample: "# A benchmark of gpufabric.nccl."
followed:
  description: Name of the job of O(found) that the plan is of, empty if there is none.
  returned: success
  type: str
  sample: gpufabric-default-x7k2p
mark:
  description: The object that claims the run, without its data.
  returned: success
  type: dict
  sample: {apiVersion: v1, kind: ConfigMap, metadata: {name: gpufabric-default}}
name:
  description: Name of the job.
  returned: success
  type: str
  sample: gpufabric-default-x7k2p
namespace:
  description: Its namespace.
  returned: success
  type: str
  sample: default
selector:
  description: Label selector of the run's objects.
  returned: success
  type: str
  sample: app.kubernetes.io/managed-by=gpufabric.nccl,gpufabric.nccl/mpijob=default
workers:
  description: Names of the worker pods.
  returned: success
  type: list
  elements: str
  sample: [nccl-default-worker-0]
host_names:
  description: The host names of the workers, or how many different ones there are if the pods are on the network of their nodes.
  returned: success
  type: raw
  sample: [nccl-default-worker-0]
ranks:
  description: How many ranks there are.
  returned: success
  type: int
  sample: 16
backend:
  description: What runs, V(nccl) or V(cpu).
  returned: success
  type: str
  sample: nccl
points:
  description: What is run, in order.
  returned: success
  type: list
  elements: dict
  sample: [{name: all_reduce, collective: all_reduce}]
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
  sample: kubectl --namespace default delete mpijob,networkpolicy,configmap --selector gpufabric.nccl/mpijob=default
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
