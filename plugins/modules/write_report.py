#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: write_report
short_description: Write the results of benchmarks as files for people and for programs
version_added: 0.2.0
description:
  - Writes, on the controller, C(results.json), C(results.csv), C(report.md), C(report.html), C(junit.xml) and
    C(results.prom) to a folder. All hold the same numbers, and no time stamps, so the same results change nothing.
  - Three of them take a Python library on the controller, C(report.html) C(matplotlib), C(junit.xml) C(junitparser), and
    C(results.prom) C(prometheus_client). Where one is missing its file is left out, and a warning says how to install it.
  - A file of these names that is not to be written is removed, since it would tell of an earlier run.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
attributes:
  check_mode:
    support: full
  diff_mode:
    support: partial
    details: The difference of C(report.md) is shown; the other files say the same.
  idempotent:
    support: full
options:
  results:
    description: Result documents, as RV(gpufabric.nccl.nccl_result#module:results) of M(gpufabric.nccl.nccl_result).
    type: list
    elements: dict
    required: true
  dest:
    description: The folder on the controller; made if it is missing.
    type: path
    required: true
  formats:
    description: What to write.
    type: list
    elements: str
    choices: [json, csv, markdown, html, junit, openmetrics]
    default: [json, csv, markdown, html, junit, openmetrics]
  run_id:
    description: Name of the run, to tell it from others.
    type: str
    default: default
  sweep:
    description: What P(gpufabric.nccl.sweep_results#filter) found. By default what it finds in the results that are points of a sweep.
    type: dict
    default: {}
  isolation:
    description:
      - What a search for bad machines found, with C(pairs), a list of two hosts, C(a) and C(b), and their C(busbw) in GB/s,
        which is V(null) where the pair failed, with C(nodes), a list of C(node), C(verdict), C(where) and C(evidence), and
        with C(limit), a pattern of hosts.
    type: dict
    default: {}
  baseline:
    description:
      - What to draw beside the results, with C(measurements), a list of C(collective), C(size), C(placement) and C(busbw) in GB/s,
        a number or C(median), C(min) and C(max).
      - Of entries with C(tool), C(type), C(redop), C(ranks), C(hosts) or C(setting) only those are drawn in which these are the results' own.
    type: dict
    default: {}
seealso:
  - module: gpufabric.nccl.nccl_result
  - plugin: gpufabric.nccl.sweep_results
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Keep the results for people and for the CI system
  gpufabric.nccl.write_report:
    results: "{{ outcome.results }}"
    dest: results/nightly
    formats: [json, html, junit]
    run_id: nightly
  run_once: true
"""

RETURN = r"""
verdict:
  description: The worst verdict of all results.
  returned: success
  type: str
  sample: pass
counts:
  description: How many results have each verdict.
  returned: success
  type: dict
  sample: {pass: 3}
worst:
  description:
    - The result to look at first. It has C(test), its number from 1, C(name), C(point) (of a sweep), C(verdict), C(host) and C(why).
    - V(null) where all passed.
  returned: success
  type: dict
paths:
  description: The file of each format that was written, or that was as it is to be already.
  returned: success
  type: dict
  sample: {json: results/nightly/results.json, html: results/nightly/report.html}
"""
