#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: write_report
short_description: Write the results of benchmarks to files for people and for programs
version_added: 0.2.0
description:
  - Writes C(results.json), C(results.csv), C(report.md), C(report.html), C(junit.xml) and C(results.prom) to a folder on the controller.
    All hold the same numbers and no time stamps, so the same results change nothing.
  - Three of them need a Python library on the controller. C(report.html) needs C(matplotlib), C(junit.xml) C(junitparser), and
    C(results.prom) C(prometheus_client). If a library is missing, the module leaves out the file, and a warning says how to install it.
  - Removes a file of these names that an earlier run wrote and that it does not write.
  - Fails, before it changes anything, if a file that it is to write exists and no run has written it. The folder's file
    C(.gpufabric-report) lists those of runs. Other files in the folder do not matter.
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
    details: Shows the difference of C(report.md); the other files have the same content.
  idempotent:
    support: full
options:
  results:
    description: Result documents, as RV(gpufabric.nccl.nccl_result#module:results) of M(gpufabric.nccl.nccl_result).
    type: list
    elements: dict
    required: true
  dest:
    description: The folder on the controller; created if it is missing.
    type: path
    required: true
  formats:
    description: The formats to write.
    type: list
    elements: str
    choices: [json, csv, markdown, html, junit, openmetrics]
    default: [json, csv, markdown, html, junit, openmetrics]
  run_id:
    description: Name of the run, which the report shows.
    type: str
    default: default
  sweep:
    description: The analysis of a sweep, as P(gpufabric.nccl.sweep_results#filter) returns it. By default that of the O(results) that are points of a sweep.
    type: dict
    default: {}
  isolation:
    description:
      - The findings of a search for bad machines.
      - C(pairs) is a list of two hosts, C(a) and C(b), and their C(busbw) in GB/s, which is V(null) if the pair failed. C(nodes) is a list
        of C(node), C(verdict), C(where) and C(evidence). C(limit) is a pattern of hosts.
    type: dict
    default: {}
  baseline:
    description:
      - A baseline to draw beside the results. C(measurements) is a list of C(collective), C(size), C(placement) and C(busbw) in GB/s,
        which is a number or C(median), C(min) and C(max).
      - An entry with C(tool), C(type), C(redop), C(ranks), C(hosts) or C(setting) is drawn only if these match the results.
    type: dict
    default: {}
requirements:
  - matplotlib >= 3.6.3 for V(html), on the controller
  - junitparser >= 2.8.0 for V(junit), on the controller
  - prometheus-client >= 0.16.0 for V(openmetrics), on the controller
seealso:
  - module: gpufabric.nccl.report_folder
  - module: gpufabric.nccl.nccl_result
  - plugin: gpufabric.nccl.sweep_results
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Write the results for people and for the CI system
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
tools:
  description: The names of the programs that ran, each once.
  returned: success
  type: list
  elements: str
  sample: [nccl-tests]
  version_added: 0.2.0
worst:
  description: The result to look at first; V(null) if all passed.
  returned: success
  type: dict
  contains:
    test: {description: "Its number, from 1.", type: int, sample: 2}
    name: {description: Its name., type: str, sample: all_gather}
    point: {description: Its point in a sweep; V(null) if there is no sweep., type: str, sample: all_gather-8-64K-1c4a5e0b9d21-2}
    verdict: {description: Its verdict., type: str, sample: fail}
    host: {description: The host that is to blame; V(null) if that is unknown., type: str, sample: gpu-2}
    why: {description: Why it has the verdict., type: str, sample: The collective delivered wrong values.}
numbers:
  description:
    - The main numbers of each result, for the following jobs of a workflow. Of more than 20 results only the 20 with the worst verdicts, and
      of one that is alone at most 20 limits and 20 problems. Of 20 each has at most 2.
  returned: success
  type: list
  elements: dict
  contains:
    test: {description: "Its number, from 1.", type: int, sample: 1}
    name: {description: Its name., type: str, sample: "all_reduce float sum, 16 ranks on 2 hosts"}
    collective: {description: Its collective., type: str, sample: all_reduce}
    verdict: {description: Its verdict., type: str, sample: fail}
    host_count: {description: How many hosts took part., type: int, sample: 2}
    rank_count: {description: How many ranks took part., type: int, sample: 16}
    peak_busbw: {description: "The highest bus bandwidth, in GB/s; V(null) if there is none.", type: float, sample: 346.97}
    peak_size: {description: The size of the highest bus bandwidth in bytes., type: int, sample: 134217728}
    avg_busbw: {description: "The average bus bandwidth that the program printed, in GB/s.", type: float, sample: 98.02}
    wrong: {description: How many values were wrong; V(null) if they were not checked., type: int, sample: 0}
    limits_missed: {description: The names of the limits that it missed., type: list, elements: str, sample: [Network]}
    causes:
      description: The causes of its problems.
      type: list
      elements: dict
      contains:
        id: {description: Which one it is., type: str, sample: limit-missed}
        severity: {description: V(error) or V(warning)., type: str, sample: error}
        host: {description: The host that is to blame; V(null) if that is unknown., type: str, sample: gpu-2}
  version_added: 0.2.0
paths:
  description: The file of each format that was written or was already up to date.
  returned: success
  type: dict
  sample: {json: results/nightly/results.json, html: results/nightly/report.html}
"""
