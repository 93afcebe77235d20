#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_claim
short_description: Say who starts or removes a run on nodes
version_added: 0.2.0
description:
  - Makes the option O(gpufabric.nccl.sshd_instance#module:claim) of all modules that start, use or remove a run, such as
    M(gpufabric.nccl.sshd_instance) and M(gpufabric.nccl.run_cleanup). With it, they leave a run alone that another owner, or another play, is
    using.
  - Nothing runs on the host. With C(run_once), one task is enough for all hosts of a play.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
  - gpufabric.nccl.attributes.read_only
options:
  owner:
    description: The owner. If it is blank, the user and host of the controller as C(USER@HOST).
    type: str
    default: ""
  take_over:
    description: Whether a run of another owner is replaced.
    type: bool
    default: false
seealso:
  - module: gpufabric.nccl.sshd_instance
  - module: gpufabric.nccl.run_cleanup
"""

EXAMPLES = r"""
- name: Record who starts the run
  gpufabric.nccl.run_claim:
  register: starts
  run_once: true

- name: Start a private sshd, unless somebody else uses the run
  gpufabric.nccl.sshd_instance:
    claim: "{{ starts.claim }}"
"""

RETURN = r"""
claim:
  description: The claim.
  returned: success
  type: dict
  contains:
    owner: {description: The owner., type: str, sample: ada@controller-1}
    controller: {description: The controller; empty if plays cannot be distinguished there., type: str, sample: 6f1c-4026531836}
    play: {description: The play on it., type: str, sample: 4711-1234567}
    live: {description: All plays that are running on it., type: list, elements: str, sample: [4711-1234567]}
    take_over: {description: Whether a run of another owner is replaced., type: bool, sample: false}
"""
