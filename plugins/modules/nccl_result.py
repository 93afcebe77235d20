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
  - Reads what nccl-tests and rccl-tests print, of any version since 2018, or the collection's own CPU program, and returns each
    test as one document. It also reads the JSON of nccl-tests' C(-J), of any version and also where the file ends early, and of
    rccl-tests' C(-Z json).
  - The table may be in a log with much else in it, such as that of C(NCCL_DEBUG), and with the labels of mpirun, srun, kubectl or
    Ray on its lines. Several tests in one log are several documents.
  - A run that stopped half-way keeps the rows that it has. A row that NCCL's own log tore is put together where that can be done
    in one way only; else it is counted in C(lost_rows), and nothing is ever guessed. The printed average is compared with the rows,
    so that rows that are missing without a trace are noticed.
  - Output of other programs that looks alike, such as the OSU micro-benchmarks, is refused by its name.
  - Of the environment in a file of C(-J) only settings are kept that cannot hold secrets, by a list of names.
  - With O(thresholds), O(baseline) or O(assertions) it also says whether the results are as they should be. Each document then
    has C(verdicts), which say the value, the limit, where that comes from, and by how much it was kept or missed.
  - The task does not fail for what the benchmark found, unless O(fail_on) says so.
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
      - Path of a file on the host that holds the output. It is read in blocks, and memory does not grow with it.
      - What it is, text or JSON, is told by its content; nccl-tests names a file of C(-J) V(out.json.0) where V(out.json) exists.
      - Exactly one of O(src), O(text) and O(results) is required.
    type: path
  text:
    description: The output itself.
    type: str
  results:
    description:
      - Result documents, as RV(results) of an earlier task or C(results) of a C(results.json), to hold against O(thresholds),
        O(baseline) and O(assertions), or to keep in a baseline.
      - Of an empty list only the rules are checked, and nothing is written, so that a mistake in them is told before a long run.
    type: list
    elements: dict
    version_added: 0.2.0
  dest:
    description:
      - Path of a file on the host that the results are written to, as a JSON object with C(schema)
        (V(gpufabric.nccl/results/v1)), C(verdict) and C(results). Its folder must exist.
    type: path
  points:
    description: Settings that the run was made with; they are kept in each document's C(points). Not with O(results), which have theirs.
    type: dict
    default: {}
  thresholds:
    description:
      - What bandwidths and times are to be. Without it, and without O(baseline) and O(assertions), nothing is held against a limit.
      - A test that none of the rules is for has the verdict V(unchecked).
    type: dict
    version_added: 0.2.0
    suboptions:
      rules:
        description:
          - Each has one of C(limit), C(ceiling_percent), C(baseline_percent), C(dip_percent) and C(cliff_factor). A rule is held
            against the tests that it is for, and of them against the sizes that it is for.
          - Sizes are in bytes, or have C(K), C(M) or C(G) of 1024.
        type: list
        elements: dict
        default: []
        suboptions:
          name:
            description: What to call the rule. By default it is made of what the rule says.
            type: str
          collective:
            description: The collectives that it is for, such as V(all_reduce). By default all.
            type: list
            elements: str
          min_ranks:
            description: The least number of ranks of a test that it is for.
            type: int
          max_ranks:
            description: The largest number of ranks.
            type: int
          min_hosts:
            description: The least number of hosts.
            type: int
          max_hosts:
            description: The largest number of hosts.
            type: int
          gpu:
            description: How a part of the name of all devices begins, such as V(H100).
            type: str
          network:
            description: The rule is only for tests where O(thresholds.topology.network) is this.
            type: str
          metric:
            description:
              - The value. Default is V(out_of_place.busbw), and for C(cliff_factor) V(out_of_place.time_us).
              - V(avg_busbw) is the printed average. It is over all sizes and both placements, so it depends on which sizes were run.
                With C(min_bytes) or C(max_bytes) it is checked only where all sizes are in between.
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
            description: The only size that it is for.
            type: str
          min_bytes:
            description: The least size that it is for. With C(dip_percent) default is V(1M).
            type: str
          max_bytes:
            description: The largest size that it is for. With C(cliff_factor) default is V(64K).
            type: str
          over:
            description:
              - Whether the V(peak) of these sizes is to keep the limit, or V(each) of them.
              - Default is V(each) for times, with C(size) and with C(baseline_percent), and else V(peak).
            type: str
            choices: [peak, each]
          limit:
            description: The least bandwidth in GB/s, or the most time in microseconds.
            type: float
          ceiling_percent:
            description: The least share of what O(thresholds.topology) allows.
            type: float
          baseline_percent:
            description:
              - How much slower than the median of the baseline it may be, or V(0). Where the noise of the baseline is more, it
                may be that much slower.
              - Without such a rule, a baseline is held against the times of all sizes.
            type: float
          dip_percent:
            description: By how much bandwidth may fall, from the best of the smaller sizes.
            type: float
          cliff_factor:
            description: By how much the time may grow from one size to the next.
            type: float
      topology:
        description: What the machines are made of, for C(ceiling_percent).
        type: dict
        default: {}
        suboptions:
          nic_gbps:
            description: Line rate of a NIC, in Gb/s.
            type: float
          rails:
            description: How many of them a host has. Default is V(1).
            type: float
          nvlink_gbytes:
            description: What a GPU can send by NVLink, in GB/s and one direction, such as V(450) of an H100.
            type: float
          nvlink_hosts:
            description: How many hosts one domain of NVLink has. Default is V(1).
            type: int
          in_network_reduction:
            description: Whether switches reduce (SHARP, NVLS). Default is V(false).
            type: bool
          network:
            description: What kind of network it is, in words of one's own, for rules that are for one kind.
            type: str
      reference:
        description:
          - The name of published values to hold the results against. They are for certain GPUs and numbers of hosts, and tests
            of others are V(unchecked). Each says its source, system and definition in the verdict.
          - Default is none of them. Published values are far apart, since they are of different definitions.
        type: str
        choices:
          - nvcre-aws-h100
          - nvcre-aws-gb200
          - nvcre-aws-gb200-efa
          - nvcre-aws-gb300
          - oci-a100
          - oci-h100
          - oci-h200
          - oci-b200
          - oci-b300
          - oci-gb200
          - oci-gb300
          - oci-mi300x
          - oci-mi355x
          - azure-nd-h100-v5
          - azure-nd-h200-v5
          - azure-nd-a100-v4
          - azure-nd40rs-v2
          - azure-nd-mi300x-v5
          - google-a3
          - google-a3plus
          - google-a3ultra
          - google-a4
          - google-a4x
          - coreweave-h100
          - coreweave-gb200
          - cvs-mi300x
      reference_tolerance_percent:
        description: How far below a measured reference value is good enough. Values that are acceptance limits are taken as they are.
        type: float
        default: 10
  baseline:
    description: Statistics of earlier runs, in a file that git can show the differences of.
    type: dict
    version_added: 0.2.0
    suboptions:
      path:
        description: The file, on the host.
        type: path
      document:
        description: Its content instead, to compare with.
        type: dict
      mode:
        description:
          - V(compare) holds the results against the baseline; V(save) makes one of the tests that neither failed nor are incomplete.
        type: str
        choices: [compare, save]
        default: compare
      add:
        description:
          - Whether V(save) keeps the runs that the file has, and adds those of the results. A run that is in it is not added again.
        type: bool
        default: true
      tolerance_percent:
        description:
          - How much slower than the baseline is good enough, where its noise is not more. Default is V(2).
          - Of fewer than three runs the noise is not known. Nothing is said against such a baseline then, unless this is given.
        type: float
  assertions:
    description:
      - What must be true of each result document. They need the Python library C(jmespath) on the host that the task runs on.
    type: list
    elements: dict
    default: []
    version_added: 0.2.0
    suboptions:
      that:
        description: An expression of JMESPath over the document that gives V(true). Whatever else it gives, V(null) included, fails.
        type: str
        required: true
      msg:
        description: What to say where it does not hold.
        type: str
      name:
        description: What to call it. By default the expression.
        type: str
  fail_on:
    description: Verdicts that fail the task. The results are returned, and written to O(dest), even then.
    type: list
    elements: str
    choices: [fail, incomplete, unchecked]
    default: []
seealso:
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

- name: Stop the play where a value is wrong or the output is not whole
  gpufabric.nccl.nccl_result:
    text: "{{ benchmark.stdout }}"
    points:
      NCCL_ALGO: Ring
    fail_on: [fail, incomplete]

- name: Accept the machines, or say by how much they miss what they should do
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
    assertions:
      - that: rank_count == `16`
        msg: not all GPUs took part
    fail_on: [fail, incomplete, unchecked]

- name: Keep the run as one of those that say what is usual
  gpufabric.nccl.nccl_result:
    src: /var/tmp/all_reduce.log
    baseline:
      path: /var/lib/gpufabric/baseline.json
      mode: save

- name: See whether the rules are right before a long run
  gpufabric.nccl.nccl_result:
    results: []
    thresholds: "{{ acceptance }}"

- name: Hold a later run against them
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
    - C(rows) holds V(null) for a half that was not measured, such as of C(-O), and for C(wrong) where values were not checked.
      Versions before 2.13 print the greatest difference, C(error), instead of how many values are wrong. With C(-C) there is
      C(cpu_time_us) instead of C(time_us). C(extra) of a row or half holds further columns by their printed names.
    - C(lost_rows) is how many rows could not be put together, and C(json_output) where nccl-tests wrote its JSON to.
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
    problems: []
    verdict: pass
results:
  description: All tests of the output, in their order.
  returned: when the output could be read
  type: list
  elements: dict
  sample: []
verdict:
  description:
    - The worst verdict of all tests.
    - V(pass), V(unchecked) where no value was checked or none of the rules could be applied, V(incomplete) where the output is
      not whole, or V(fail) where values are wrong, a rule or an assertion is not kept, or the run was not what was meant, such
      as one without MPI.
  returned: when the output could be read
  type: str
  sample: pass
verdicts:
  description:
    - What each rule, the baseline and each assertion say of each test. Also in the C(verdicts) of the documents.
    - Each has C(test) (its number in RV(results), from 1), C(rule), C(metric), C(value), C(limit), C(unit), C(source) (where the
      limit comes from), C(percent) (by how much the value is better than the limit, or worse where it is negative), C(size)
      (bytes; the worst where it is about several), C(missed_sizes), C(passed) (V(null) where it could not be told) and C(message).
  returned: when the output could be read and O(thresholds), O(baseline) or O(assertions) are given
  type: list
  elements: dict
  version_added: 0.2.0
  sample:
    - test: 1
      rule: Bandwidth between hosts
      metric: out_of_place.busbw
      value: 48.89
      limit: 360
      unit: GB/s
      source: "90 % of 400 GB/s: 400 Gb/s x 8 rails, all_reduce over 16 ranks on 2 hosts"
      percent: -86.4194
      size: 134217728
      missed_sizes: [134217728]
      passed: false
      message: "Bandwidth between hosts: 48.89 GB/s at 128 MiB, 86.4 % below 360 GB/s (90 % of 400 GB/s: 400 Gb/s x 8 rails, all_reduce
        over 16 ranks on 2 hosts)"
baseline:
  description:
    - The baseline that was saved or that the results were held against, with C(schema) (V(gpufabric.nccl/baseline/v1)), C(runs)
      and C(measurements).
  returned: when O(baseline) is given and there is one
  type: dict
  version_added: 0.2.0
  sample: {}
baseline_summary:
  description: What the baseline that was saved has now, and how many tests were left out, in words.
  returned: when O(baseline.mode=save)
  type: str
  version_added: 0.2.0
  sample: all_reduce 3 runs
problems:
  description: The problems of all tests, each with C(id), C(severity), C(host), C(cause), C(cure) and C(evidence).
  returned: when the output could be read
  type: list
  elements: dict
  sample: []
"""

import io
import json
import os
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._baseline import (
    NOTHING_KEPT,
    baseline_text,
    check_baseline,
    is_kept,
    make_baseline,
    read_baseline,
    saved_text,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import read_text, write_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests import (
    parse_file,
    parse_results,
    results_object,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._reference_values import REFERENCE_NAMES
from ansible_collections.gpufabric.nccl.plugins.module_utils._report import check_documents
from ansible_collections.gpufabric.nccl.plugins.module_utils._verdict import BOUNDS, LIMITS, METRICS, OVER, Judge

try:
    import jmespath
except ImportError:
    jmespath = None


def documents_of(path: str) -> list[dict[str, t.Any]]:
    """The documents of a file. Raises GpufabricError."""
    try:
        return parse_file(path)
    except OSError as error:
        raise OptionError("src", path, f"a file on this host that can be read ({error.strerror})") from error


def check_dest(option: str, dest: str) -> None:
    """Raises OptionError where no file can be written."""
    if os.path.isdir(dest) or not os.path.isdir(os.path.dirname(os.path.abspath(dest))):
        raise OptionError(option, dest, "a path in a folder that exists")


def pending_write(option: str, dest: str, text: str) -> dict[str, str] | None:
    """The difference that writing makes; None where the file holds the text. Raises GpufabricError."""
    check_dest(option, dest)
    before = read_text(dest)
    if before == text:
        return None
    return {"before": before or "", "after": text, "before_header": dest, "after_header": dest}


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
                },
            },
            "topology": {
                "type": "dict",
                "default": {},
                "options": {
                    "nic_gbps": {"type": "float"},
                    "rails": {"type": "float"},
                    "nvlink_gbytes": {"type": "float"},
                    "nvlink_hosts": {"type": "int"},
                    "in_network_reduction": {"type": "bool"},
                    "network": {"type": "str"},
                },
            },
            "reference": {"type": "str", "choices": list(REFERENCE_NAMES)},
            "reference_tolerance_percent": {"type": "float", "default": 10},
        },
    },
    "baseline": {
        "type": "dict",
        "options": {
            "path": {"type": "path"},
            "document": {"type": "dict"},
            "mode": {"type": "str", "choices": ["compare", "save"], "default": "compare"},
            "add": {"type": "bool", "default": True},
            "tolerance_percent": {"type": "float"},
        },
        "mutually_exclusive": [("path", "document")],
        "required_one_of": [("path", "document")],
        "required_if": [("mode", "save", ["path"])],
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
    "fail_on": {"type": "list", "elements": "str", "choices": ["fail", "incomplete", "unchecked"], "default": []},
}


def judge_of(params: t.Mapping[str, t.Any], baseline: dict[str, t.Any] | None) -> Judge | None:
    """What holds documents against the rules, which it checks; None where there are none. Raises GpufabricError."""
    if not (params["thresholds"] or baseline or params["assertions"]):
        return None
    return Judge(
        thresholds=params["thresholds"],
        baseline=baseline,
        baseline_percent=params["baseline"]["tolerance_percent"] if baseline else None,
        assertions=params["assertions"],
        compiled=None if jmespath is None else jmespath.compile,
    )


def earlier_baseline(baseline: t.Mapping[str, t.Any], needed: bool) -> dict[str, t.Any] | None:
    """The baseline that there is; None where there is none and none is needed. Raises GpufabricError."""
    if baseline["document"] is not None:
        return check_baseline(baseline["document"], "baseline.document")
    text = read_text(baseline["path"])
    if text is None and needed:
        raise OptionError("baseline.path", baseline["path"], "a file on this host, such as mode=save makes")
    return None if text is None else read_baseline(text, "baseline.path")


def new_baseline(
    path: str, earlier: dict[str, t.Any] | None, documents: list[dict[str, t.Any]]
) -> dict[str, t.Any] | None:
    """The baseline with the documents; None where none of them is to be kept. Raises GpufabricError."""
    check_dest("baseline.path", path)
    return make_baseline(documents, earlier) if any(map(is_kept, documents)) else None


def documents_from(params: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """What is to be judged. Raises GpufabricError."""
    if params["results"] is not None:
        return check_documents(params["results"])
    documents = parse_results(io.StringIO(params["text"])) if params["src"] is None else documents_of(params["src"])
    return [{**document, "points": params["points"]} for document in documents]


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=ARGUMENT_SPEC,
        mutually_exclusive=[("src", "text", "results")],
        required_one_of=[("src", "text", "results")],
        supports_check_mode=True,
    )
    dest, baseline = module.params["dest"], module.params["baseline"]
    saves = baseline is not None and baseline["mode"] == "save"
    result: dict[str, t.Any] = {"changed": False}
    try:
        earlier = earlier_baseline(baseline, needed=not saves) if baseline and (baseline["add"] or not saves) else None
        judge = judge_of(module.params, None if saves else earlier)
        documents = documents_from(module.params)
        if judge:
            documents = [judge.judge(document) for document in documents]
        outcome = results_object(documents)
        files = {} if dest is None or not documents else {"dest": (dest, json.dumps(outcome, indent=2) + "\n")}
        if earlier:
            result["baseline"] = earlier
        saved = new_baseline(baseline["path"], earlier, documents) if saves else None
        if saved:
            files["baseline.path"] = (baseline["path"], baseline_text(saved))
            result.update(baseline=saved, baseline_summary=saved_text(saved, documents))
        elif saves and documents:
            module.warn(f"{baseline['path']} is left as it was: {NOTHING_KEPT}")
        diffs = {path: (text, pending_write(option, path, text)) for option, (path, text) in files.items()}
        for path, (text, diff) in diffs.items():
            if diff is not None and not module.check_mode:
                write_text(os.path.abspath(path), text, mode=0o644)
    except GpufabricError as error:
        module.fail_json(msg=str(error))
    differences = [diff for text, diff in diffs.values() if diff is not None]
    if differences:
        result.update(changed=True, diff=differences if len(differences) > 1 else differences[0])
    result.update(
        result=documents[0] if documents else None,
        results=documents,
        verdict=outcome["verdict"],
        problems=[problem for document in documents for problem in document["problems"]],
    )
    if judge:
        result["verdicts"] = [
            {"test": number, **entry} for number, document in enumerate(documents, 1) for entry in document["verdicts"]
        ]
    bad = sorted({document["verdict"] for document in documents} & set(module.params["fail_on"]))
    if bad:
        causes = "; ".join(problem["cause"] for problem in result["problems"])
        module.fail_json(msg=f"the verdict is {' and '.join(bad)}" + (f": {causes}" if causes else ""), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
