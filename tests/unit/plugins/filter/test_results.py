# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import pathlib

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpufabric.nccl.plugins.filter.results import FilterModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests import parse_results

TEXT = (pathlib.Path(__file__).parents[2] / "fixtures" / "alltoall_cpu.txt").read_text(encoding="utf-8")
FILTERS = FilterModule().filters()


def test_json_is_one_object_with_the_worst_verdict():
    documents = parse_results(TEXT.splitlines()) + parse_results(TEXT[:-300].splitlines())
    assert json.loads(FILTERS["results_json"](documents)) == {
        "schema": "gpufabric.nccl/results/v1",
        "verdict": "incomplete",
        "results": documents,
    }


@pytest.mark.parametrize(
    ("name", "begin"), [("results_table", "alltoall (cpu 0.1.0)"), ("results_markdown", "# Benchmark")]
)
def test_text(name, begin):
    assert FILTERS[name](parse_results(TEXT.splitlines())).startswith(begin)


@pytest.mark.parametrize("name", sorted(FILTERS))
def test_error_names_the_filter(name):
    with pytest.raises(AnsibleFilterError, match=f"{name}: a list of result documents is needed"):
        FILTERS[name]("text")
