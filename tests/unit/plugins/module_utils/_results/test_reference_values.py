# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The published values are data, and the page about them is made of it."""

from __future__ import annotations

import json
import pathlib

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.reference_values import (
    parse_published,
    read_published,
    references,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.verdict import Judge
from ansible_collections.gpufabric.nccl.plugins.module_utils._units import format_size

ROOT = pathlib.Path(__file__).parents[5]
PAGE = (ROOT / "docs" / "expected.md").read_text(encoding="utf-8")


def test_the_file_is_as_its_schema_says():
    jsonschema = pytest.importorskip("jsonschema")
    published = read_published()
    schema = json.loads((ROOT / "tests/unit/fixtures/published.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(published)
    names = {entry["name"] for entry in published["values"]}
    assert {entry["source"] for entry in published["values"]} == set(published["sources"])
    assert set(published["host_gbps"]) <= names
    lines = [json.dumps(entry, sort_keys=True) for entry in published["values"]]
    assert len(lines) == len(set(lines))


def test_values_have_what_is_said_of_their_source_and_their_network():
    published = read_published()
    assert references() == parse_published(published)
    found = next(one for one in references() if one.name == "aws-p5")
    assert found.source.where.startswith("aws-samples/") and found.host_gbps == 3200
    assert (found.min_bytes, found.max_bytes) == (64 << 20, 64 << 20)
    assert next(one for one in references() if one.name == "hgx-h100").host_gbps == 0


@pytest.mark.parametrize("reference", references(), ids=lambda reference: f"{reference.name}-{reference.collective}")
def test_the_page_has_each_value_with_its_source(reference):
    source = reference.source
    assert 0 < reference.min_bytes <= reference.max_bytes
    Judge({"reference": reference.name})
    sizes = " to ".join(dict.fromkeys(map(format_size, (reference.min_bytes, reference.max_bytes))))
    row = f"| `{reference.name}` | {reference.system} | {reference.collective} | {sizes} | {reference.value:g} |"
    head, found, _rest = PAGE.partition(row)
    _before, _kind, about = head.rpartition(f"{source.kind.capitalize()}: ")
    assert found and about.startswith(f"{source.definition}. Source: [{source.where.partition(', ')[0]}, ")
