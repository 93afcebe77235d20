#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: check_variables
short_description: Check the variables of roles of this collection once for all hosts
version_added: 0.2.0
description:
  - Checks that each variable of the roles that is set here has a value that its type and choices allow. Text from the command line or from
    a survey is read as the value that it means; a list may have commas or lines between its items, or be JSON.
  - Fails with the name of the first wrong variable, its value and what is allowed.
  - With O(roles) or O(hosts), fails if there is a variable whose name is nearly that of one of the collection's roles or playbooks.
  - A list or dictionary that several roles share, such as C(gpufabric_hosts), must not be text.
  - C(gpufabric_hosts) and C(key_exchange_hosts) are checked always. Tasks ask whether a host is in them, and a text with C(w10) in it has
    C(w1) in it, too.
  - Ansible itself checks the variables of a role on every host and in every role. That costs one task on the controller for each of them. With
    this module, a play can set C(rolespec_validate=false) where it includes the roles.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
  - gpufabric.nccl.attributes.read_only
options:
  roles:
    description: The roles, by their names without that of the collection.
    type: list
    elements: str
    default: []
  playbook:
    description:
      - Whether to fail if the inventory sets a variable that the collection's playbooks read in their headers, such as C(gpufabric_target).
        Ansible knows no variable of a host there, and would ignore it.
      - Also fails if a variable of the command line, such as an answer of a survey of AWX, is no value of its type in a role of the collection,
        or if a variable of the playbooks themselves, such as C(gpufabric_worker_pods) or C(gpufabric_environment), is none.
      - Also fails if the inventory or the command line has a variable whose name is nearly that of one of the collection's roles or playbooks,
        such as C(report_threshold) for C(report_thresholds). Ansible ignores it, and no limit would be checked.
        It warns of a name that has one letter wrong in its prefix, such as C(gpufabrik_run_id). That may be another project's.
      - Also fails in a slice of a job of AWX. AWX tells a job of its slices only by a workflow that has the name of the job template.
    type: bool
    default: false
  hosts:
    description:
      - Hosts that a role needs at the same time. Fails if there are none, if one is no host of the play, or if the play runs them one after
        the other (C(serial)) or each on its own (C(strategy=free)), or includes the role for one of them (C(run_once)).
      - Also fails if the inventory has a variable of the whole run, such as C(report_thresholds), for some of them only, or not the same value
        for all. A task that runs once takes the value of the first host, and the others would be ignored.
      - What each host may have of its own is C(gpufabric_control_interface), C(gpufabric_control_subnet), C(gpufabric_data_interface),
        C(gpufabric_data_subnet), C(gpufabric_environment), C(gpufabric_mpi_prefix), C(gpufabric_node_env), C(gpufabric_run_dir), the options
        of C(key_exchange) for its sshd and ssh, C(nccl_tests_cuda_home), C(nccl_tests_rocm_home), C(nccl_tests_nccl_home), C(nccl_tests_jobs)
        and C(preflight_task_timeout).
    type: list
    elements: str
  group:
    description:
      - The group of the inventory that a role joins what it makes to. Fails if other hosts are in it, since they would take part, and if
        C(--limit) leaves out what is to join it.
    type: dict
    version_added: 0.2.0
    suboptions:
      name:
        description: Name of the variable that names the group, such as C(worker_pods_group).
        type: str
        required: true
      mark:
        description: A variable that the role sets for each host that it joins.
        type: str
        required: true
  collections:
    description:
      - Collections that the role needs and that are not installed with this one, as C(ansible-galaxy collection install) takes them. Fails if
        one is missing.
    type: list
    elements: str
    default: []
    version_added: 0.2.0
  results:
    description: Names of variables, each with a list of paths on the controller. Fails if one of these files is not a C(results.json) of the role report.
    type: dict
    default: {}
    version_added: 0.2.0
  own_run:
    description:
      - The variable that names the run in a playbook or role that has a run of its own. Fails if C(gpufabric_run_id) has another value, since
        C(-e) and facts take precedence over what the playbook or role gives it.
    type: dict
    suboptions:
      name:
        description: Name of the variable, such as C(diagnose_run_id).
        type: str
        required: true
      value:
        description: Its value.
        type: str
        required: true
seealso:
  - module: ansible.builtin.validate_argument_spec
"""

EXAMPLES = r"""
- name: Check the variables of the job before anything is changed
  gpufabric.nccl.check_variables:
    roles: [nccl_benchmark, key_exchange, preflight, report]
  run_once: true

- name: Check that the inventory sets no variable that only -e can set
  gpufabric.nccl.check_variables:
    playbook: true

- name: Check that gpufabric_run_id names the run of this role
  gpufabric.nccl.check_variables:
    own_run:
      name: nccl_tests_run_id
      value: "{{ nccl_tests_run_id }}"
  vars:
    gpufabric_run_id: "{{ nccl_tests_run_id }}"
  run_once: true
"""

RETURN = r"""
msg:
  description: Which variable is wrong, its value and what is allowed.
  returned: failure
  type: str
  sample: "nccl_benchmark_iterations: 'many' is not allowed; allowed: a whole number"
"""
