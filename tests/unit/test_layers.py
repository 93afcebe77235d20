# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the imports of plugins point one way."""

from __future__ import annotations

import ast
import pathlib

import graphlib

PLUGINS = pathlib.Path(__file__).parents[2] / "plugins"
PREFIX = "ansible_collections.gpufabric.nccl.plugins."
#: Packages of module_utils; each may import from the rows before its own. Files without a package are the first row.
LAYERS = (
    ("",),
    ("_diagnosis",),
    ("_nccl_log", "_hang"),
    ("_nccl_tests",),
    ("_ssh", "_mpi"),
    ("_node",),
    ("_benchmark", "_preflight"),
    ("_results", "_kube", "_nccl_build"),
)
HEIGHT = {package: height for height, row in enumerate(LAYERS) for package in row}
#: Folders of plugins, and the others that each may import from.
FOLDERS = {
    "module_utils": {"module_utils"},
    "plugin_utils": {"module_utils", "plugin_utils"},
    "doc_fragments": set(),
    "modules": {"module_utils"},
    "action": {"module_utils", "plugin_utils"},
    "filter": {"module_utils", "plugin_utils"},
}


def read_imports(text: str) -> list[tuple[str, bool]]:
    """What of the collection a source imports, by dotted names below plugins, and whether it does at its top."""
    tree = ast.parse(text)
    top = set(map(id, tree.body))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(PREFIX):
            base = str(node.module)[len(PREFIX) :]
            is_file = (PLUGINS / (base.replace(".", "/") + ".py")).exists()
            names = [base] if is_file else [f"{base}.{alias.name}" for alias in node.names]
            found += [(name, id(node) in top) for name in names]
    return found


def all_imports() -> dict[str, list[tuple[str, bool]]]:
    """The imports of each file of plugins, by its dotted name."""
    return {
        ".".join(file.relative_to(PLUGINS).with_suffix("").parts): read_imports(file.read_text())
        for file in sorted(PLUGINS.rglob("*.py"))
    }


def package_of(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 2 else ""


def is_allowed(importer: str, imported: str) -> bool:
    folder, other = importer.split(".")[0], imported.split(".")[0]
    if other not in FOLDERS[folder]:
        return False
    if folder != "module_utils" or package_of(importer) == package_of(imported):
        return True
    return HEIGHT[package_of(imported)] < HEIGHT[package_of(importer)]


def test_every_package_has_its_layer():
    packages = {path.parent.name for path in PLUGINS.glob("module_utils/*/*.py")}
    assert packages == set(HEIGHT) - {""}


def test_imports_point_one_way():
    arrows = [(name, imported) for name, imports in all_imports().items() for imported, _top in imports]
    assert len(arrows) > 200
    assert [arrow for arrow in arrows if not is_allowed(*arrow)] == []


def test_there_is_no_circle():
    graphlib.TopologicalSorter(
        {name: [imported for imported, _top in imports] for name, imports in all_imports().items()}
    ).prepare()


def test_imports_stand_at_the_top():
    hidden = [(name, imported) for name, imports in all_imports().items() for imported, at_top in imports if not at_top]
    assert hidden == []


def test_an_arrow_that_runs_back_is_seen():
    text = f"def f():\n    from {PREFIX}module_utils._mpi import points\n"
    assert read_imports(text) == [("module_utils._mpi.points", False)]
    assert not is_allowed("module_utils._diagnosis.entry", "module_utils._mpi.points")
    assert not is_allowed("module_utils._ssh.sshd", "module_utils._mpi.points")
    assert not is_allowed("module_utils._files", "module_utils._diagnosis.entry")
    assert not is_allowed("module_utils._kube.pods", "plugin_utils._cluster")
    assert is_allowed("module_utils._kube.pods", "module_utils._mpi.points")
