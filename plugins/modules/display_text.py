#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: display_text
short_description: Show text in the output of the play
version_added: 0.1.0
description:
  - Shows text of several lines, such as a table, in the output of the play, line by line and without JSON quoting.
  - With C(no_log), it shows nothing.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
  - gpufabric.nccl.attributes.read_only
options:
  text:
    description: The text.
    type: str
    required: true
seealso:
  - module: ansible.builtin.debug
  - plugin: gpufabric.nccl.results_table
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show the results of a benchmark
  gpufabric.nccl.display_text:
    text: "{{ outcome.results | gpufabric.nccl.results_table }}"
  run_once: true
"""

RETURN = r""" # """
