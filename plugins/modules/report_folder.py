#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: report_folder
short_description: Make a folder for results on the controller, or remove the results from it
version_added: 0.2.0
description:
  - Makes a folder, and lists the files that a run is to write in the folder's file C(.gpufabric-report).
  - Fails if one of the files exists and no run has written it. Other files in the folder do not matter.
  - Removes only files that are listed there. Removes the folder if a run made it and nothing else is in it.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  state:
    description: V(present) makes the folder. V(absent) removes the files of runs from it.
    type: str
    choices: [present, absent]
    default: present
  path:
    description: The folder on the controller.
    type: path
    required: true
  option:
    description: The variable that the folder comes from. Errors name it.
    type: str
    default: path
  files:
    description: Names of files in the folder.
    type: list
    elements: str
    default: []
  formats:
    description: Formats of M(gpufabric.nccl.write_report), whose files are meant in addition.
    type: list
    elements: str
    choices: [json, csv, markdown, html, junit, openmetrics]
    default: []
seealso:
  - module: gpufabric.nccl.write_report
"""

EXAMPLES = r"""
- name: Make the folder of the results
  gpufabric.nccl.report_folder:
    path: results/nightly
    files: [output.tar.gz]
    formats: [json, junit]
  run_once: true

- name: Remove the results
  gpufabric.nccl.report_folder:
    path: results/nightly
    files: [output.tar.gz]
    formats: [json, junit]
    state: absent
  run_once: true
"""

RETURN = r"""
path:
  description: The folder.
  returned: success
  type: str
  sample: results/nightly
removed:
  description: Names of the files that were removed.
  returned: O(state=absent)
  type: list
  elements: str
  sample: [results.json]
"""
