#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_objects
short_description: Judge, make or remove the objects of a run in a cluster
version_added: 0.2.0
description:
  - Works on the objects that have the run's label. Those of the role P(gpufabric.nccl.worker_pods#role) are a StatefulSet, a NetworkPolicy and a
    Service. Those of the role P(gpufabric.nccl.mpijob#role) are MPIJobs, a NetworkPolicy and a ConfigMap.
  - Only a task of these roles can call it. It reads the variables of the role that begin with C(gpufabric_).
  - Objects of another owner, or that are in use with other settings, are neither changed nor removed, unless C(gpufabric_take_over) is true.
  - What another play changes between a look and a change is left alone, since an object is changed and removed by its uid.
  - Run it on the controller. It uses the modules of C(kubernetes.core) and has their requirements.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
options:
  state:
    description:
      - V(free) changes nothing. It fails if the run is another owner's, or is in use with other settings.
      - V(present) makes O(objects) and O(policy), or changes those that the run has already.
      - V(absent) removes the objects of the run, or O(found). It waits until the pods are gone. It does not fail if something is left; see
        RV(problems).
      - If V(absent) finds nothing, it warns of the namespaces in which the run's owner has a run of that name, if it may look there.
    type: str
    choices: [free, present, absent]
    required: true
  objects:
    description:
      - The objects that the play makes or has made. The first one claims the run, the last one makes pods.
      - With O(state=free), an object of the run is in use if one of its kind is given here and has other settings.
      - With O(state=absent), objects that another play has made meanwhile stay. C(gpufabric_take_over) does not count then.
    type: list
    elements: dict
    default: []
  policy:
    description: The NetworkPolicy to make, if any. It is made before the object that makes pods.
    type: dict
  policy_required:
    description: Whether to fail if the account may not make O(policy). Otherwise the module says so and goes on.
    type: bool
    default: false
  names:
    description: Objects whose kinds and names must be free, or the run's. For O(state=free).
    type: list
    elements: dict
    default: []
  named_by:
    description: The variable that gave the names, for the message if one belongs to something else.
    type: str
  joins:
    description:
      - Whether objects that an earlier play of the same owner made with the same settings are used. For O(state=present).
      - Otherwise it fails if another play has claimed the run.
    type: bool
    default: false
  found:
    description: The objects to remove, as RV(found) has them. For O(state=absent).
    type: list
    elements: dict
  timeout:
    description:
      - How long to wait, in seconds. With O(state=free), for an object that is being removed; by default it is not waited for.
      - With O(state=absent), for the pods to be gone; at least 300.
    type: int
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
seealso:
  - module: gpufabric.nccl.worker_pods_plan
  - module: gpufabric.nccl.mpijob_plan
"""

EXAMPLES = r"""
- name: Make the objects
  gpufabric.nccl.run_objects:
    state: present
    objects: "{{ plan.objects }}"
    policy: "{{ plan.policy or omit }}"
  register: made

- name: Remove them
  gpufabric.nccl.run_objects:
    state: absent
    objects: "{{ made.made }}"
  register: removed
"""

RETURN = r"""
found:
  description: The objects of the run. Each has C(apiVersion), C(kind), what its C(metadata) says of the run, and C(status.conditions).
  returned: if O(state=free)
  type: list
  elements: dict
  sample: [{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: gpufabric-default, uid: 6d3b}, status: {conditions: []}}]
made:
  description: The objects that were to be made, in the form of RV(found).
  returned: if O(state=present), also if it fails, unless the run is another's
  type: list
  elements: dict
  sample: [{apiVersion: v1, kind: Service, metadata: {name: gpufabric-default, uid: 81aa}, status: {conditions: []}}]
created:
  description: Whether the play made the object that makes pods, or may have made some of the objects.
  returned: if O(state=present), also if it fails, unless the run is another's
  type: bool
  sample: true
problems:
  description: What is left and why. Empty if nothing is.
  returned: if O(state=absent)
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
