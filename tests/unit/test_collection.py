# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the files that describe the collection agree with each other and with what there is."""

from __future__ import annotations

import pathlib

import yaml

ROOT = pathlib.Path(__file__).parents[2]


def read_yaml(name):
    return yaml.safe_load((ROOT / name).read_text())


def test_action_group_names_every_module():
    assert read_yaml("meta/runtime.yml")["action_groups"]["all"] == sorted(
        path.stem for path in (ROOT / "plugins/modules").glob("*.py")
    )


def test_collections_for_development_are_the_dependencies():
    installed = {entry["name"]: entry["version"] for entry in read_yaml("requirements.yml")["collections"]}
    assert installed == read_yaml("galaxy.yml")["dependencies"]


def test_requirements_have_lower_bounds_only():
    lines = (ROOT / "meta/ee-requirements.txt").read_text().splitlines()
    names = [line.partition(">=")[0] for line in lines]
    assert [line for line in lines if not line.count(">=") == 1 or "," in line] == []
    assert "ansible-core" not in names and names == sorted(names)


def test_role_defaults_are_the_documented_ones():
    for specs in ROOT.glob("roles/*/meta/argument_specs.yml"):
        role = specs.parents[1]
        options = yaml.safe_load(specs.read_text())["argument_specs"]["main"]["options"]
        defaults = yaml.safe_load((role / "defaults/main.yml").read_text()) or {}
        documented = {name: option["default"] for name, option in options.items() if "default" in option}
        undocumented = {name: value for name, value in defaults.items() if documented.get(name, value) != value}
        assert (role.name, undocumented) == (role.name, {})
        assert (role.name, [name for name in defaults if name not in options]) == (role.name, [])
