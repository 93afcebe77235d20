#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: report_plan
short_description: Check the variables of the role report
version_added: 0.2.0
description:
  - Reads the variables of the role P(gpufabric.nccl.report#role), which may be text that C(-e) or a survey of AWX gave.
  - Only a task of that role can call it.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
  - gpufabric.nccl.attributes.read_only
options: {}
seealso:
  - module: gpufabric.nccl.write_report
  - module: gpufabric.nccl.nccl_result
"""

EXAMPLES = r"""
- name: Check the variables of the report
  gpufabric.nccl.report_plan:
  register: plan
"""

RETURN = r"""
thresholds:
  description: As O(gpufabric.nccl.nccl_result#module:thresholds).
  returned: success
  type: dict
  sample: {reference: nccl-dgx-h100-4}
assertions:
  description: As O(gpufabric.nccl.nccl_result#module:assertions).
  returned: success
  type: list
  elements: dict
  sample: [{that: complete}]
baseline:
  description: As O(gpufabric.nccl.nccl_result#module:baseline), with an absolute path. Empty if there is nothing to compare with.
  returned: success
  type: dict
  sample: {path: /home/user/baseline.json}
saved:
  description: The O(gpufabric.nccl.nccl_baseline#module:path) and O(gpufabric.nccl.nccl_baseline#module:add) of the baseline that results
    are added to. Empty if there is none.
  returned: success
  type: dict
  sample: {path: /home/user/baseline.json, add: true}
is_judged:
  description: Whether there is anything that results are held against.
  returned: success
  type: bool
  sample: true
formats:
  description: As O(gpufabric.nccl.write_report#module:formats).
  returned: success
  type: list
  elements: str
  sample: [json, html]
fail_on:
  description: The verdicts that fail the play.
  returned: success
  type: list
  elements: str
  sample: [fail, incomplete]
"""
