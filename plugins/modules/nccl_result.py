#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_result
short_description: Read the output of nccl-tests into result documents
version_added: 0.1.0
description:
  - Reads the output of nccl-tests and rccl-tests, of any version since 2018, or of the collection's own CPU program, and returns each
    test as one document. It also reads the JSON of nccl-tests' C(-J), of any version and even if the file ends early, and of
    rccl-tests' C(-Z json).
  - The table may be in a log with other output, such as that of C(NCCL_DEBUG), and its lines may have the labels of mpirun, srun, kubectl
    or Ray. Several tests in one log become several documents.
  - A run that stopped half-way keeps the rows that it has. If NCCL's own log tore a row, the row is put together if there is only one way
    to do so, and is counted in C(lost_rows) if not. Nothing is guessed. The printed average is compared with the rows, which reveals
    missing rows.
  - The module refuses similar output of other programs, such as the OSU micro-benchmarks, and names the program.
  - From the environment in a file of C(-J), it keeps only settings that cannot hold secrets, by a list of names.
  - What NCCL warned of in the text (C(NCCL WARN), with C(NCCL_DEBUG=WARN) and above) is among the C(problems) as warnings, with its cause
    and the host that said so. The verdict does not depend on it.
  - With O(thresholds), O(baseline) or O(assertions), it also judges the results. Each document then has C(verdicts), which give the value,
    the limit, the source of the limit, and by how much it was kept or missed.
  - The task does not fail because of results, unless O(fail_on) says so.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - Shows the content of O(dest).
  idempotent:
    support: full
options:
  src:
    description:
      - Path of a file on the host that holds the output. The module reads it in blocks, so memory does not grow with its size.
      - The module detects by its content whether it is text or JSON. nccl-tests names a file of C(-J) V(out.json.0) if V(out.json) exists.
      - Exactly one of O(src), O(text) and O(results) is required.
    type: path
  text:
    description: The output itself.
    type: str
  results:
    description:
      - Result documents, as RV(results) of an earlier task or C(results) of a C(results.json), to judge by O(thresholds), O(baseline)
        and O(assertions).
      - With an empty list, the module only checks the rules and writes nothing. This finds a mistake in them before a long run.
    type: list
    elements: dict
    version_added: 0.2.0
  dest:
    description:
      - Path of a file on the host for the results, a JSON object with C(schema) (V(gpufabric.nccl/results/v1)), C(verdict) and
        C(results). Its folder must exist.
    type: path
  points:
    description: Settings of the run, for C(points) of each document. Not used with O(results), which have their own.
    type: dict
    default: {}
  thresholds:
    description:
      - Limits of bandwidths and times. Without it, and without O(baseline) and O(assertions), the results are not judged by limits.
      - A test that no rule applies to has the verdict V(unchecked).
    type: dict
    version_added: 0.2.0
    suboptions:
      rules:
        description:
          - Each has one of C(limit), C(ceiling_percent), C(baseline_percent), C(dip_percent) and C(cliff_factor). A rule applies only to
            the tests and sizes that it names.
          - Sizes are in bytes, or have C(K), C(M) or C(G) of 1024.
        type: list
        elements: dict
        default: []
        suboptions:
          name:
            description: Name of the rule. By default it is made from the rule.
            type: str
          collective:
            description: The collectives that it applies to, such as V(all_reduce). By default all.
            type: list
            elements: str
          min_ranks:
            description: The smallest number of ranks of a test that it applies to.
            type: int
          max_ranks:
            description: The largest number of ranks.
            type: int
          min_hosts:
            description: The smallest number of hosts.
            type: int
          max_hosts:
            description: The largest number of hosts.
            type: int
          gpu:
            description: The beginning of a word in the name of all devices, such as V(H100).
            type: str
          network:
            description: The rule applies only if O(thresholds.topology.network) has this value.
            type: str
          metric:
            description:
              - The value to judge. The default is V(out_of_place.busbw), and for C(cliff_factor) V(out_of_place.time_us).
              - V(avg_busbw) is the printed average. It is over all sizes and both placements, so it depends on which sizes were run.
                With C(min_bytes) or C(max_bytes) it is checked only if all sizes are in between.
            type: str
            choices:
              - out_of_place.busbw
              - out_of_place.algbw
              - out_of_place.time_us
              - in_place.busbw
              - in_place.algbw
              - in_place.time_us
              - avg_busbw
          size:
            description: The only size that it applies to.
            type: str
          min_bytes:
            description: The smallest size that it applies to. With C(dip_percent) the default is V(1M).
            type: str
          max_bytes:
            description: The largest size that it applies to. With C(cliff_factor) the default is V(64K).
            type: str
          over:
            description:
              - Whether the V(peak) of these sizes must keep the limit, or V(each) of them.
              - For the V(peak), and with C(baseline_percent), a size that ran several times counts by its median.
              - The default is V(each) for times, with C(size) and with C(baseline_percent), and else V(peak).
            type: str
            choices: [peak, each]
          limit:
            description: The least bandwidth in GB/s, or the most time in microseconds.
            type: float
          ceiling_percent:
            description: The smallest share of what O(thresholds.topology) allows, in percent; V(1) or more.
            type: float
          baseline_percent:
            description:
              - How much slower than the median of the baseline it may be, in percent; V(0) is allowed. If the noise of the baseline is
                larger, that is the limit.
              - Without such a rule, the times of all sizes are compared with a baseline.
            type: float
          dip_percent:
            description: How far the bandwidth may fall below the best of the smaller sizes, in percent; below V(100).
            type: float
          cliff_factor:
            description: The largest factor by which the time may grow from one size to the next.
            type: float
          transport:
            description:
              - What the ranks must have talked over, by NCCL's own log (C(transport) of RV(result)). Such a rule has no other limit.
              - On one host, C(network), C(gdr) and C(nics) are not judged.
            type: dict
            version_added: 0.2.0
            suboptions:
              network:
                description: The networks that are allowed, such as V(IB), V(RoCE), V(Socket), or the name of a plugin.
                type: list
                elements: str
              gdr:
                description: Whether all connections over the network use GPUDirect RDMA.
                type: bool
              nics:
                description: The smallest number of ports that the connections of each host go over.
                type: int
              channels:
                description: The smallest number of channels.
                type: int
              nvls:
                description: Whether NVLink SHARP is set up.
                type: bool
              mnnvl:
                description: Whether NVLink between hosts is set up.
                type: bool
      topology:
        description:
          - The hardware of the machines, for C(ceiling_percent).
          - By default it is what the role P(gpufabric.nccl.nccl_benchmark#role) found on the workers. What is given here takes its place,
            key by key.
        type: dict
        default: {}
        suboptions:
          nic_gbps:
            description: Line rate of a NIC, in Gb/s.
            type: float
          rails:
            description: Number of NICs of a host. The default is the number that was found, else V(1).
            type: float
          gpus:
            description:
              - Number of GPUs of a host. A test with fewer of them has as much less of its NICs.
              - By default all tests are taken to use all NICs.
            type: int
            version_added: 0.2.0
          nvlink_gbytes:
            description: Bandwidth of a GPU's NVLink, in GB/s and one direction, such as V(450) for an H100.
            type: float
          nvlink_hosts:
            description: Number of hosts in one NVLink domain. The default is all hosts if NCCL's log shows that NVLink connects them, else V(1).
            type: int
          in_network_reduction:
            description: Whether switches reduce (SHARP, NVLS). The default is V(false).
            type: bool
          network:
            description: Your own name for the kind of network, for rules that apply to one kind.
            type: str
      reference:
        description:
          - The name of published values to compare with. They apply to certain GPUs and numbers of hosts and GPUs; other tests are
            V(unchecked). The verdict names the source, system and definition of each.
          - The names are on the page L(Expected values,https://github.com/gpufabric/gpufabric.nccl/blob/main/docs/expected.md).
          - By default none is used, because the definitions of published values differ and the values are far apart.
        type: str
      reference_tolerance_percent:
        description: How far below a measured reference value is good enough, in percent. Acceptance limits are used as they are.
        type: float
        default: 10
  baseline:
    description: Statistics of earlier runs to compare the results with, as M(gpufabric.nccl.nccl_baseline) saves them.
    type: dict
    version_added: 0.2.0
    suboptions:
      path:
        description: The file, on the host.
        type: path
      document:
        description: Its content instead.
        type: dict
      tolerance_percent:
        description:
          - How much slower than the baseline is good enough, in percent, unless its noise is larger. The default is V(2).
          - With fewer than three runs the noise is unknown. Nothing is judged by such a baseline, unless this option is set.
        type: float
  assertions:
    description:
      - Conditions that each result document must meet.
    type: list
    elements: dict
    default: []
    version_added: 0.2.0
    suboptions:
      that:
        description: A JMESPath expression over the document. It must give V(true); any other value, such as V(null), fails.
        type: str
        required: true
      msg:
        description: Message if it does not hold.
        type: str
      name:
        description: Name of the assertion. By default the expression.
        type: str
  fail_on:
    description: Verdicts that fail the task. Even then, the module returns the results and writes them to O(dest).
    type: list
    elements: str
    choices: [fail, incomplete, unchecked]
    default: []
  published:
    description: The values that O(thresholds.reference) may name. The collection sets it, whatever is given.
    type: dict
    version_added: 0.2.0
requirements:
  - jmespath >= 1.0.1 for O(assertions), on the host that runs the task
seealso:
  - module: gpufabric.nccl.nccl_baseline
  - module: gpufabric.nccl.display_text
  - plugin: gpufabric.nccl.results_table
    plugin_type: filter
  - plugin: gpufabric.nccl.results_markdown
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Read a log and keep the results beside it
  gpufabric.nccl.nccl_result:
    src: /var/tmp/all_reduce.log
    dest: /var/tmp/all_reduce.json
  register: outcome

- name: Show them
  gpufabric.nccl.display_text:
    text: "{{ outcome.results | gpufabric.nccl.results_table }}"

- name: Stop the play if a value is wrong or the output is incomplete
  gpufabric.nccl.nccl_result:
    text: "{{ benchmark.stdout }}"
    points:
      NCCL_ALGO: Ring
    fail_on: [fail, incomplete]

- name: Accept the machines, or say by how much they miss the limits
  gpufabric.nccl.nccl_result:
    src: /var/tmp/all_reduce.log
    thresholds:
      topology:
        nic_gbps: 400
        rails: 8
      rules:
        - name: Bandwidth between hosts
          collective: [all_reduce, all_gather]
          min_hosts: 2
          min_bytes: 1G
          ceiling_percent: 90
        - name: Latency
          size: "8"
          metric: out_of_place.time_us
          limit: 40
        - dip_percent: 10
        - name: RDMA
          min_hosts: 2
          transport:
            network: [IB, RoCE]
            gdr: true
            nics: 8
    assertions:
      - that: rank_count == `16`
        msg: not all GPUs took part
    fail_on: [fail, incomplete, unchecked]

- name: Check the rules before a long run
  gpufabric.nccl.nccl_result:
    results: []
    thresholds: "{{ acceptance }}"

- name: Compare a later run with the baseline
  gpufabric.nccl.nccl_result:
    src: /var/tmp/all_reduce.log
    baseline:
      path: /var/lib/gpufabric/baseline.json
    fail_on: [fail]
"""

RETURN = r"""
result:
  description:
    - The first of RV(results).
    - Sizes are in bytes, times in microseconds, bandwidths in GB/s (10^9 bytes a second).
    - In C(rows), C(out_of_place) or C(in_place) is V(null) if it was not measured, such as with C(-O), and C(wrong) is V(null) if values were
      not checked. Versions before 2.13 print the greatest difference, C(error), instead of the number of wrong values. With C(-C) there is
      C(cpu_time_us) instead of C(time_us). C(extra) of a row, C(out_of_place) or C(in_place) holds further columns by their printed names.
    - C(algbw) and C(busbw) are worked out from the time if that is more exact than the two decimals that are printed. If a printed one differs
      by more than rounding, it stays, and C(computed) has the other. A number that was printed as C(nan) or C(inf) is V(null); it is in
      C(no_numbers), and is an error.
    - C(transport) and C(software) are from the lines with C(NCCL INFO) that the output has if E(NCCL_DEBUG) is V(INFO), and V(null) without
      them. They name the network, whether GPUDirect RDMA is used, the ports of each host, the channels, and the hosts that differ.
    - C(hardware) is what the role P(gpufabric.nccl.nccl_benchmark#role) found on the workers, with what O(thresholds) typed in; V(null) if
      nothing is known.
    - C(stragglers) are the ranks that the others wait for, from the JSON of programs that ran with C(-I) and C(-J); V(null) without times of
      processes.
    - C(soak) has the drift and the dips of a test that ran its sizes several times (C(-N)); V(null) of any other.
    - C(lost_rows) is the number of rows that could not be put together. C(json_output) is the file to which nccl-tests wrote its JSON.
  returned: when the output could be read
  type: dict
  sample:
    schema: gpufabric.nccl/result/v1
    tool: {name: nccl-tests, version: 2.17.6, nccl_version: 2.28.7}
    collective: all_reduce
    complete: true
    config:
      nthreads: 1
      ngpus: 1
      minbytes: 134217728
      maxbytes: 134217728
      step: 2(factor)
      warmup_iters: 1
      iters: 20
      agg_iters: 1
      validation: 1
      graph: 0
      blocking: false
    ranks:
      - {rank: 0, group: 0, pid: 4711, host: g1, device: 0, bus_id: "0000:07:00", name: NVIDIA H100}
      - {rank: 1, group: 0, pid: 4712, host: g2, device: 0, bus_id: "0000:07:00", name: NVIDIA H100}
    rows:
      - size: 134217728
        count: 33554432
        type: float
        redop: sum
        root: -1
        out_of_place: {time_us: 2745.2, algbw: 48.89, busbw: 48.89, wrong: 0}
        in_place: {time_us: 2750.1, algbw: 48.8, busbw: 48.8, wrong: 0}
    lost_rows: 0
    summary: {avg_busbw: 48.845, peak_busbw: 48.89, peak_size: 134217728, wrong: 0, checked: true, out_of_bounds: 0}
    json_output: null
    points: {}
    env: {}
    host_count: 2
    rank_count: 2
    transport:
      network: IB
      plugin: null
      gdr: true
      mixed: false
      nics: {g1: ["mlx5_0:1"], g2: ["mlx5_0:1"]}
      channels: 2
      nvls: false
      mnnvl: false
      socket_interface: eth0
      connections: {P2P: 0, SHM: 0, NET: 8, COLLNET: 0}
      differences: []
      source: nccl-debug
    software: {nccl: 2.28.7, cuda: "13.0", driver: null, driver_cuda: "13.0", plugin_version: null, differences: []}
    problems: []
    verdict: pass
results:
  description: All tests of the output, in their order.
  returned: when the output could be read
  type: list
  elements: dict
  sample: [{schema: gpufabric.nccl/result/v1, collective: all_reduce, complete: true, verdict: pass}]
verdict:
  description:
    - The worst verdict of all tests.
    - V(pass); V(unchecked) if no value was checked or no rule could be applied; V(incomplete) if the output is incomplete; V(fail) if
      values are wrong, a rule, the baseline or an assertion was missed, or the run was not the intended one, such as a run without MPI.
  returned: when the output could be read
  type: str
  sample: pass
verdicts:
  description:
    - The verdict of each rule, the baseline and each assertion on each test. They are also in the C(verdicts) of the documents.
  returned: when the output could be read and O(thresholds), O(baseline) or O(assertions) are given
  type: list
  elements: dict
  version_added: 0.2.0
  contains:
    test: {description: "Number of the test in RV(results), from 1.", type: int, sample: 1}
    rule: {description: Name of the rule., type: str, sample: Bandwidth between hosts}
    metric: {description: The value that was judged., type: str, sample: out_of_place.busbw}
    value: {description: The value., type: raw, sample: 48.89}
    limit: {description: Its limit., type: float, sample: 360}
    unit: {description: Unit of both., type: str, sample: GB/s}
    source:
      description: Where the limit comes from.
      type: str
      sample: "90 % of 400 GB/s: 400 Gb/s x 8 rails, all_reduce over 16 ranks on 2 hosts"
    percent: {description: "By how much the value is better than the limit, or worse if negative.", type: float, sample: -86.4194}
    size: {description: "The size, in bytes; of several the worst.", type: int, sample: 134217728}
    missed_sizes: {description: "All sizes that miss the limit, in bytes.", type: list, elements: int, sample: [134217728]}
    passed: {description: Whether the limit was kept; V(null) if it could not be judged., type: bool, sample: false}
    message:
      description: All of it in words.
      type: str
      sample: "Bandwidth between hosts: 48.89 GB/s at 128 MiB, 86.4 % below 360 GB/s (90 % of 400 GB/s: 400 Gb/s x 8 rails, all_reduce
        over 16 ranks on 2 hosts)"
baseline:
  description: The baseline that the results were compared with, as RV(gpufabric.nccl.nccl_baseline#module:baseline).
  returned: when O(baseline) is given
  type: dict
  version_added: 0.2.0
  sample: {schema: gpufabric.nccl/baseline/v1, runs: [], measurements: []}
problems:
  description: The problems of all tests.
  returned: when the output could be read
  type: list
  elements: dict
  contains:
    id:
      description: The cause, as L(troubleshooting,https://github.com/gpufabric/gpufabric.nccl/blob/main/docs/troubleshooting.md) describes it.
      type: str
      sample: connect-refused
    severity: {description: V(error) or V(warning)., type: str, sample: error}
    host: {description: The host or pod that has the problem; V(null) if no single one has it., type: str, sample: gpu-2}
    cause: {description: What is wrong., type: str, sample: Nothing listens on 10.0.0.12 port 22.}
    cure: {description: What to do., type: str, sample: Start sshd there.}
    evidence: {description: The output or value that shows it; may be empty., type: str, sample: Connection refused}
"""

import io
import json
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import AnswerError, check_answer
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.run_module import run_module
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import read_text, replace_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import (
    parse_file,
    parse_results,
    results_object,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.shapes import ResultDocument
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.baseline import (
    LONGEST_TEXT,
    check_baseline,
    read_baseline,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.reference_values import parse_published
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.tables import POINTS, check_documents
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.verdict import (
    BOUNDS,
    LIMITS,
    METRICS,
    OVER,
    Expression,
    Judge,
)

try:
    import jmespath
    import jmespath.functions
except ImportError:
    jmespath = None


def documents_of(path: str) -> list[ResultDocument]:
    """The documents of a file. Raises GpufabricError."""
    try:
        return parse_file(path)
    except OSError as error:
        raise OptionError("src", path, f"a file on this host that can be read ({error.strerror})") from error


ARGUMENT_SPEC: dict[str, t.Any] = {
    "src": {"type": "path"},
    "text": {"type": "str"},
    "results": {"type": "list", "elements": "dict"},
    "dest": {"type": "path"},
    "points": {"type": "dict", "default": {}},
    "thresholds": {
        "type": "dict",
        "options": {
            "rules": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str"},
                    "collective": {"type": "list", "elements": "str"},
                    **{name: {"type": "int"} for name in BOUNDS},
                    "gpu": {"type": "str"},
                    "network": {"type": "str"},
                    "metric": {"type": "str", "choices": list(METRICS)},
                    **{name: {"type": "str"} for name in ("size", "min_bytes", "max_bytes")},
                    "over": {"type": "str", "choices": list(OVER)},
                    **{name: {"type": "float"} for name in LIMITS},
                    "transport": {
                        "type": "dict",
                        "options": {
                            "network": {"type": "list", "elements": "str"},
                            **{name: {"type": "int"} for name in ("nics", "channels")},
                            **{name: {"type": "bool"} for name in ("gdr", "nvls", "mnnvl")},
                        },
                    },
                },
            },
            "topology": {
                "type": "dict",
                "default": {},
                "options": {
                    "nic_gbps": {"type": "float"},
                    "rails": {"type": "float"},
                    "gpus": {"type": "int"},
                    "nvlink_gbytes": {"type": "float"},
                    "nvlink_hosts": {"type": "int"},
                    "in_network_reduction": {"type": "bool"},
                    "network": {"type": "str"},
                },
            },
            "reference": {"type": "str"},
            "reference_tolerance_percent": {"type": "float", "default": 10},
        },
    },
    "baseline": {
        "type": "dict",
        "options": {
            "path": {"type": "path"},
            "document": {"type": "dict"},
            "tolerance_percent": {"type": "float"},
        },
        "mutually_exclusive": [("path", "document")],
        "required_one_of": [("path", "document")],
    },
    "assertions": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "that": {"type": "str", "required": True},
            "msg": {"type": "str"},
            "name": {"type": "str"},
        },
    },
    # Of the action plugin.
    "published": {"type": "dict"},
    "fail_on": {"type": "list", "elements": "str", "choices": ["fail", "incomplete", "unchecked"], "default": []},
}


def compiled(that: str) -> Expression:
    """What ``jmespath.compile`` gives, which misses a function that there is not until it is called. Raises ValueError."""
    expression = jmespath.compile(that)
    nodes = [expression.parsed]
    for node in nodes:
        if node["type"] == "function_expression" and node["value"] not in jmespath.functions.Functions.FUNCTION_TABLE:
            raise ValueError(f"Unknown function: {node['value']}()")
        # Those of a slice are numbers.
        nodes += [child for child in node["children"] if isinstance(child, dict)]
    return expression


def judge_of(params: t.Mapping[str, t.Any], baseline: dict[str, t.Any] | None) -> Judge | None:
    """What holds documents against the rules, which it checks; None where there are none. Raises GpufabricError."""
    if not (params["thresholds"] or baseline or params["assertions"]):
        return None
    return Judge(
        thresholds=params["thresholds"],
        baseline=baseline,
        baseline_percent=params["baseline"]["tolerance_percent"] if baseline else None,
        assertions=params["assertions"],
        compiled=None if jmespath is None else compiled,
        published=None if params["published"] is None else parse_published(params["published"]),
    )


def baseline_of(given: t.Mapping[str, t.Any] | None) -> dict[str, t.Any] | None:
    """The baseline to compare with. Raises GpufabricError."""
    if given is None:
        return None
    if given["document"] is not None:
        return check_baseline(given["document"], "baseline.document")
    text = read_text(given["path"], "baseline.path", LONGEST_TEXT)
    if text is None:
        raise OptionError("baseline.path", given["path"], "a file on this host, such as nccl_baseline makes")
    return read_baseline(text, "baseline.path")


def documents_from(params: t.Mapping[str, t.Any]) -> list[ResultDocument]:
    """What is to be judged. Raises GpufabricError."""
    if params["results"] is not None:
        return check_documents(params["results"])
    try:
        check_answer("points", "points", params["points"], POINTS)
    except AnswerError as error:
        raise OptionError(
            "points", params["points"], "with argv, env, duration_s and sweep as in a document"
        ) from error
    documents = parse_results(io.StringIO(params["text"])) if params["src"] is None else documents_of(params["src"])
    return [{**document, "points": params["points"]} for document in documents]


class BadVerdict(GpufabricError):
    """A verdict that is to fail the task."""

    def __init__(self, verdicts: t.Iterable[str], result: dict[str, t.Any]) -> None:
        causes = "; ".join(problem["cause"] for problem in result["problems"])
        super().__init__(f"the verdict is {' and '.join(verdicts)}" + (f": {causes}" if causes else ""))
        self.details = result


def run(params: dict[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """Read and judge; what the module returns. Raises GpufabricError."""
    baseline = baseline_of(params["baseline"])
    judge = judge_of(params, baseline)
    documents = documents_from(params)
    documents, warnings = judge.judge_all(documents) if judge else (documents, [])
    outcome = results_object(documents)
    result: dict[str, t.Any] = {
        "changed": False,
        "result": documents[0] if documents else None,
        "results": documents,
        "verdict": outcome["verdict"],
        "problems": [problem for document in documents for problem in document["problems"]],
        **({"baseline": baseline} if baseline else {}),
        **({"warnings": warnings} if warnings else {}),
    }
    if judge:
        result["verdicts"] = [
            {"test": number, **entry} for number, document in enumerate(documents, 1) for entry in document["verdicts"]
        ]
    if params["dest"] is not None and documents:
        text = json.dumps(outcome, indent=2) + "\n"
        result.update(replace_text("dest", params["dest"], text, check_mode=check_mode))
    bad = sorted({document["verdict"] for document in documents} & set(params["fail_on"]))
    if bad:
        raise BadVerdict(bad, result)
    return result


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=ARGUMENT_SPEC,
        mutually_exclusive=[("src", "text", "results")],
        required_one_of=[("src", "text", "results")],
        supports_check_mode=True,
    )
    run_module(module, run)


if __name__ == "__main__":
    main()
