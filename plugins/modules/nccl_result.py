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
      - Exactly one of O(src) and O(text) is required.
    type: path
  text:
    description: The output itself.
    type: str
  dest:
    description:
      - Path of a file on the host that the results are written to, as a JSON object with C(schema)
        (V(gpufabric.nccl/results/v1)), C(verdict) and C(results). Its folder must exist.
    type: path
  points:
    description: Settings that the run was made with; they are kept in each document's C(points).
    type: dict
    default: {}
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
    - V(pass), V(unchecked) where no value was checked, V(incomplete) where the output is not whole, or V(fail) where values are
      wrong or the run was not what was meant, such as one without MPI.
  returned: when the output could be read
  type: str
  sample: pass
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
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import read_text, write_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests import (
    parse_file,
    parse_results,
    results_object,
)


def documents_of(path: str) -> list[dict[str, t.Any]]:
    """The documents of a file. Raises GpufabricError."""
    try:
        return parse_file(path)
    except OSError as error:
        raise OptionError("src", path, f"a file on this host that can be read ({error.strerror})") from error


def pending_write(dest: str, text: str) -> dict[str, str] | None:
    """The difference that writing makes; None where the file holds the text. Raises GpufabricError."""
    if os.path.isdir(dest) or not os.path.isdir(os.path.dirname(os.path.abspath(dest))):
        raise OptionError("dest", dest, "a path in a folder that exists")
    before = read_text(dest)
    if before == text:
        return None
    return {"before": before or "", "after": text, "before_header": dest, "after_header": dest}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "src": {"type": "path"},
            "text": {"type": "str"},
            "dest": {"type": "path"},
            "points": {"type": "dict", "default": {}},
            "fail_on": {
                "type": "list",
                "elements": "str",
                "choices": ["fail", "incomplete", "unchecked"],
                "default": [],
            },
        },
        mutually_exclusive=[("src", "text")],
        required_one_of=[("src", "text")],
        supports_check_mode=True,
    )
    src, dest = module.params["src"], module.params["dest"]
    result: dict[str, t.Any] = {"changed": False}
    try:
        documents = parse_results(io.StringIO(module.params["text"])) if src is None else documents_of(src)
        documents = [{**document, "points": module.params["points"]} for document in documents]
        outcome = results_object(documents)
        if dest is not None:
            text = json.dumps(outcome, indent=2) + "\n"
            diff = pending_write(dest, text)
            if diff is not None:
                result.update(changed=True, diff=diff)
                if not module.check_mode:
                    write_text(os.path.abspath(dest), text, mode=0o644)
    except GpufabricError as error:
        module.fail_json(msg=str(error))
    result.update(
        result=documents[0],
        results=documents,
        verdict=outcome["verdict"],
        problems=[problem for document in documents for problem in document["problems"]],
    )
    bad = sorted({document["verdict"] for document in documents} & set(module.params["fail_on"]))
    if bad:
        causes = "; ".join(problem["cause"] for problem in result["problems"])
        module.fail_json(msg=f"the verdict is {' and '.join(bad)}" + (f": {causes}" if causes else ""), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
