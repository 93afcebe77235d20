# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether each option of a role is used for real by some test: an integration test, a scenario of molecule or a script."""

from __future__ import annotations

import pathlib
import re

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[2]
REAL = ("tests/integration", "molecule", "scripts")

#: Options that no test sets, by the reason.
EXCEPTIONS = {
    "the roles preflight and nccl_benchmark set it, which tests run": {"preflight_ignore_errors"},
    "the roles report, preflight and isolate set it to remove their files, which tests run": {"report_remove"},
    "it goes to nccl_tests_build, and unit tests download, clone, and build rccl-tests' arguments": {
        *("nccl_tests_url", "nccl_tests_git_url", "nccl_tests_git_ref", "nccl_tests_rocm_home"),
    },
    "it is a number that goes to a module": {"nccl_tests_jobs", "nccl_tests_spread_timeout"},
}


def options_of(specs: pathlib.Path) -> set[str]:
    """The names of the options of all entry points of a role."""
    entry_points = yaml.safe_load(specs.read_text())["argument_specs"].values()
    return {name for entry_point in entry_points for name in entry_point.get("options", {})}


@pytest.fixture(scope="module")
def named() -> set[str]:
    """All words of what runs for real."""
    files = [path for place in REAL for path in (ROOT / place).rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return {word for path in files for word in re.findall(r"\w+", path.read_text(errors="replace"))}


@pytest.mark.parametrize("specs", sorted(ROOT.glob("roles/*/meta/argument_specs.yml")), ids=lambda path: path.parts[-3])
def test_each_option_of_a_role_is_named_by_a_test(specs, named):
    assert options_of(specs) - named - set().union(*EXCEPTIONS.values()) == set()


def test_exceptions_are_options_that_no_test_names(named):
    known = set().union(*map(options_of, ROOT.glob("roles/*/meta/argument_specs.yml")))
    for names in EXCEPTIONS.values():
        assert names - known == set() and names & named == set()
