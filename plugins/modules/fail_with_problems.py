#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fail_with_problems
short_description: Fail with problems, as text for people and as data for programs
version_added: 0.2.0
description:
  - Shows which host, what is wrong and what to do, then the evidence and the places of the logs, and fails.
  - A C(rescue) gets the problems by the filter P(gpufabric.nccl.failure_details#filter).
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
  - gpufabric.nccl.attributes.read_only
options:
  problems:
    description: The problems, as modules and roles of this collection return them.
    type: list
    elements: dict
    default: []
    suboptions:
      id:
        description: Id of the problem in the catalogue.
        type: str
        required: true
      severity:
        description:
          - V(error) if it keeps something from working, else V(warning).
          - By default that of the catalogue for the O(problems[].id), or V(error) if O(problems[].cause) and O(problems[].cure) are given.
        type: str
        choices: [error, warning]
      host:
        description: The host that has it, if there is one.
        type: str
      cause:
        description: What is wrong. By default the catalogue's words for the O(problems[].id).
        type: str
      cure:
        description: What to do. By default the catalogue's words for the O(problems[].id).
        type: str
      evidence:
        description: The output or value that shows it.
        type: str
        default: ""
      facts:
        description: Values for the catalogue's words, such as the name of a missing program.
        type: dict
        default: {}
  result:
    description:
      - The result of a task that failed, such as C(ansible_failed_result). Its problems come first, or those that its texts show.
      - If there are none, its message is at the end.
    type: dict
  results:
    description:
      - The results of tasks that failed, by host; empty for a host on which nothing failed. The problems of these results come first.
      - Without O(lost), they are problems of the host that returned them, whichever host they name.
    type: dict
    default: {}
  lost:
    description:
      - The problems of hosts that were lost during the play, as M(gpufabric.nccl.lost_pods) returns them. What
        follows from them in O(results), such as an output that ends early, is left out.
    type: list
    elements: dict
  logs:
    description: Where to read more, such as paths of logs.
    type: list
    elements: str
    default: []
  end:
    description: Text at the end of the message.
    type: str
    default: ""
seealso:
  - module: ansible.builtin.fail
  - plugin: gpufabric.nccl.problems_text
    plugin_type: filter
  - plugin: gpufabric.nccl.failure_details
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Stop if a launch would fail
  gpufabric.nccl.fail_with_problems:
    problems: "{{ outcome.problems }}"
    logs: ["{{ report_dir }}/report.md"]
  when: not outcome.ok

- name: Stop if there is no MPI Operator
  gpufabric.nccl.fail_with_problems:
    problems:
      - id: operator-missing
  when: "'MPIJob' not in cluster.apis['kubeflow.org/v2beta1'] | default({})"
"""

RETURN = r"""
msg:
  description:
    - The ids of the problems, or O(end) if there are neither problems nor logs.
    - The result that Ansible shows has no more than that. The filter P(gpufabric.nccl.failure_details#filter) adds O(problems), O(logs) and
      O(end) to C(ansible_failed_result).
  returned: always
  type: str
  sample: "daemon-missing: see above."
"""
