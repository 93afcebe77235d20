#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_baseline
short_description: Save results of nccl-tests in a baseline
version_added: 0.2.0
description:
  - Adds runs to a baseline, a file with the statistics of earlier runs that is readable in C(git diff). M(gpufabric.nccl.nccl_result) compares
    later runs with it.
  - Several plays may save in one file at once. Only on file systems that cannot lock a directory, such as NFS, may one lose its runs then.
  - A file that exists keeps its mode, owner and group; a new one has the mode 0644.
  - Tests that failed or are incomplete are not added, and a run that is in the file is not added again.
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
      - Shows the content of O(path).
  idempotent:
    support: full
options:
  results:
    description:
      - Result documents, as RV(gpufabric.nccl.nccl_result#module:results) or C(results) of a C(results.json).
      - With an empty list, the module only checks the other options. This finds a mistake in them before a long run.
    type: list
    elements: dict
    required: true
  path:
    description: The file, on the host. Its folder must exist.
    type: path
    required: true
  add:
    description: Whether to keep the runs in the file.
    type: bool
    default: true
seealso:
  - module: gpufabric.nccl.nccl_result
"""

EXAMPLES = r"""
- name: Read a log
  gpufabric.nccl.nccl_result:
    src: /var/tmp/all_reduce.log
  register: outcome

- name: Add the run to a baseline
  gpufabric.nccl.nccl_baseline:
    results: "{{ outcome.results }}"
    path: /var/lib/gpufabric/baseline.json

- name: Compare a later run with the baseline
  gpufabric.nccl.nccl_result:
    src: /var/tmp/all_reduce-2.log
    baseline:
      path: /var/lib/gpufabric/baseline.json
    fail_on: [fail]
"""

RETURN = r"""
baseline:
  description:
    - The content of the file after the task; V(null) if there is no file.
    - See also L(contracts,https://github.com/gpufabric/gpufabric.nccl/blob/main/docs/contracts.md).
  returned: success
  type: dict
  contains:
    schema: {description: Its schema., type: str, sample: gpufabric.nccl/baseline/v1}
    runs:
      description: The runs in it.
      type: list
      elements: dict
      sample: [{digest: 1f3a, tool: nccl-tests, version: 2.17.6, collective: all_reduce, hosts: 2}]
    measurements:
      description: Statistics of each measurement over the runs, times in microseconds and bandwidths in GB/s.
      type: list
      elements: dict
      sample: [{collective: all_reduce, size: 1024, placement: out_of_place, time_us: {n: 3, median: 22.1, mad: 0.2, min: 21.9, max: 22.6}}]
summary:
  description: The number of runs in the baseline, and of tests that were left out, in words.
  returned: when a test can be kept
  type: str
  sample: all_reduce 3 runs
"""

import os
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.run_module import run_module
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import (
    check_destination,
    locked,
    read_text,
    replace_text,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.baseline import (
    LONGEST_TEXT,
    NOTHING_KEPT,
    baseline_text,
    is_kept,
    looks_like_baseline,
    make_baseline,
    read_baseline,
    saved_text,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.tables import check_documents

#: Seconds until another play must have saved.
_PATIENCE = 60.0


def run(params: dict[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """Add the runs; what the module returns. Raises GpufabricError."""
    path = params["path"]
    check_destination("path", path)
    if check_mode or not params["results"]:
        return save(params, check_mode)
    # Two plays that save at once would each write without the runs of the other.
    with locked(os.path.dirname(os.path.abspath(path)), _PATIENCE):
        return save(params, check_mode)


def save(params: dict[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """Read the file, and write it with the runs; what the module returns. Raises GpufabricError."""
    path = params["path"]
    text = read_text(path, "path", LONGEST_TEXT)
    if text and not params["add"] and not looks_like_baseline(text):
        raise OptionError(
            "path", path, "the path of a baseline, or of no file yet: add is false, and this file would be lost"
        )
    earlier = None if text is None or not params["add"] else read_baseline(text, "path")
    documents = check_documents(params["results"])
    if not any(map(is_kept, documents)):
        warnings = [f"{path} is left as it was: {NOTHING_KEPT}"] if documents else []
        return {"baseline": earlier, "warnings": warnings}
    saved = make_baseline(documents, earlier)
    written = replace_text("path", path, baseline_text(saved), check_mode=check_mode)
    return {"baseline": saved, "summary": saved_text(saved, documents), **written}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "results": {"type": "list", "elements": "dict", "required": True},
            "path": {"type": "path", "required": True},
            "add": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    run_module(module, run)


if __name__ == "__main__":
    main()
