#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fail_with_problems
short_description: Fail with what a person needs first, and with the problems for programs
version_added: 0.2.0
description:
  - Fails with a text that says which host, what is wrong and what to do, then the evidence, then where the logs are.
  - The problems are in the result, so that a C(rescue) can act on them.
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
        description: Which problem of the catalogue it is.
        type: str
        required: true
      severity:
        description: Whether it keeps anything from working.
        type: str
        choices: [error, warning]
        default: error
      host:
        description: Whose it is, if it is anybody's in particular.
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
        description: What shows it.
        type: str
        default: ""
  logs:
    description: Where to read on.
    type: list
    elements: str
    default: []
  end:
    description: What to say after all.
    type: str
    default: ""
seealso:
  - module: ansible.builtin.fail
  - plugin: gpufabric.nccl.problems_text
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Stop where a launch would fail
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
      cause: orted is not in /usr/bin.
      cure: Install the same Open MPI in the same place on all, and set gpufabric_mpi_prefix to it.
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
