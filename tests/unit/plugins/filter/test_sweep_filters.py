# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.gpufabric.nccl.plugins.filter.sweep import FilterModule
from ansible_collections.gpufabric.nccl.plugins.module_utils import _benchmark, _sweep, _sweep_results

FILTERS = FilterModule().filters()
DOCUMENTATION = pathlib.Path(__file__).parents[4] / "plugins" / "filter"


def documented(name):
    return yaml.safe_load((DOCUMENTATION / f"{name}.yml").read_text())["DOCUMENTATION"]["options"]


def test_error_names_filter_and_option():
    with pytest.raises(AnsibleFilterError, match="^sweep_points: my_sweep.repeats: 0 is not allowed"):
        FILTERS["sweep_points"]({"repeats": 0}, "my_sweep")
    with pytest.raises(AnsibleFilterError, match="^sweep_results: a list of result documents is needed"):
        FILTERS["sweep_results"]("text")
    with pytest.raises(AnsibleFilterError, match="^sweep_results: bands: '1X' is not allowed"):
        FILTERS["sweep_results"]([], bands=["1X"])


def test_keys_of_a_sweep_are_the_documented_ones():
    options = documented("sweep_points")["_input"]["suboptions"]
    sizes = options["sizes"]["suboptions"]
    assert {name: item["default"] for name, item in sizes.items()} == _sweep._SIZES
    defaults = {name: item.get("default") for name, item in options.items()}
    assert {**defaults, "sizes": _sweep._SIZES} == _sweep._DEFAULTS
    assert options["collectives"]["choices"] == list(_benchmark.COLLECTIVES)
    assert options["datatypes"]["choices"] == list(_sweep.DATATYPES)
    assert options["operations"]["choices"] == list(_sweep.OPERATIONS)


def test_bands_are_the_documented_ones():
    assert documented("sweep_results")["bands"]["default"] == list(_sweep_results.BANDS)
