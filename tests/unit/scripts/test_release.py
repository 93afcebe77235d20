# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""scripts/release: what may be released, and whether the files that name the version agree."""

from __future__ import annotations

import dataclasses
import importlib.machinery
import importlib.util
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture(scope="module")
def script():
    loader = importlib.machinery.SourceFileLoader("scripts_release", str(ROOT / "scripts" / "release"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("scripts_release", loader))
    sys.modules["scripts_release"] = module
    loader.exec_module(module)
    return module


@pytest.fixture
def releasable(script):
    readme = "This page describes version 0.2.0."
    return script.State(version="0.2.0", newest="0.2.0", fragments=[], tags=["0.1.0"], changes=[], readme=readme)


def test_a_tree_that_can_be_released(script, releasable):
    assert script.faults(releasable) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"version": "0.2.0-dev", "newest": "0.1.0"}, "galaxy.yml has version 0.2.0-dev: set 0.2.0"),
        ({"newest": "0.1.0"}, "the newest release of changelogs/changelog.yaml is 0.1.0, galaxy.yml has 0.2.0"),
        ({"version": "0.1.1"}, "the newest release of changelogs/changelog.yaml is 0.2.0, galaxy.yml has 0.1.1"),
        ({"fragments": ["a.yml", "b.yml"]}, "changelogs/fragments has a.yml, b.yml: antsibull-changelog release"),
        ({"tags": ["0.1.0", "0.2.0"]}, "the tag 0.2.0 exists"),
        ({"changes": ["?? notes"]}, "the working tree has changes, such as ?? notes"),
        ({"readme": "version 0.2.0, which is\nnot released yet"}, "README.md says of its version"),
    ],
)
def test_what_keeps_it_from_being_released(script, releasable, change, fault):
    (found,) = script.faults(dataclasses.replace(releasable, **change))
    assert found.startswith(fault)


def test_the_newest_release_is_the_highest(script):
    assert max(["0.9.0", "0.10.0", "0.2.0"], key=script.number) == "0.10.0"


def test_the_files_that_name_the_version_agree(script):
    """Either this is a release, or galaxy.yml and the README have the one that is being made."""
    version, *_suffix = re.fullmatch(r"(\d+\.\d+\.\d+)(-dev)?", script.read_state().version).groups()
    state = script.read_state()
    assert re.findall(r"This page describes version (\S+?)[,.] ", state.readme.replace("\n", " ")) == [version]
    if state.version.endswith("-dev"):
        assert script.number(version) > script.number(state.newest) and script.UNRELEASED in " ".join(
            state.readme.split()
        )
    else:
        assert state.newest == version and state.fragments == []


def test_no_part_is_newer_than_the_version(script):
    files = [*ROOT.glob("plugins/**/*.py"), *ROOT.glob("plugins/**/*.yml"), *ROOT.glob("roles/*/meta/*.yml")]
    added = {found for path in files for found in re.findall(r"version_added: ['\"]?([\d.]+)", path.read_text())}
    assert max(added, key=script.number) == script.read_state().version.partition("-")[0]
