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
  - Fails with a message that says which host, what is wrong and what to do. The evidence and the places of the logs follow.
  - The result holds the problems, so that a C(rescue) can act on them.
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
    required: true
    suboptions:
      id:
        description: Id of the problem in the catalogue.
        type: str
        required: true
      severity:
        description: V(error) if it keeps something from working, else V(warning).
        type: str
        choices: [error, warning]
        default: error
      host:
        description: The host that has it, if there is one.
        type: str
      cause:
        description: What is wrong.
        type: str
        required: true
      cure:
        description: What to do.
        type: str
        required: true
      evidence:
        description: The output or value that shows it.
        type: str
        default: ""
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
"""

EXAMPLES = r"""
- name: Stop if a launch would fail
  gpufabric.nccl.fail_with_problems:
    problems: "{{ outcome.problems }}"
    logs: ["{{ report_dir }}/report.md"]
  when: not outcome.ok
"""

RETURN = r"""
problems:
  description: The option O(problems).
  returned: always
  type: list
  elements: dict
  sample:
    - id: daemon-missing
      severity: error
      host: g2
      cause: The host has no orted in /usr/bin.
      cure: Install the same Open MPI in the same place on all hosts, and set gpufabric_mpi_prefix to it.
      evidence: /usr/bin/orted
logs:
  description: The option O(logs).
  returned: always
  type: list
  elements: str
  sample: []
end:
  description: The option O(end).
  returned: always
  type: str
  sample: "The verdict is fail: all_reduce."
"""
