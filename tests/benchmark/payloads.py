# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What each module sends to a node, and how long its imports take there: make bench-payloads.

Files are those of the collection that Ansible packs with a module: what it imports, and what that imports. They are imported from a
zip file, without bytecode, as on a node. The time is the least CPU time of several runs, beside that of Ansible's own AnsibleModule.
"""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys
import tempfile
import typing as t
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMESPACE = "ansible_collections.gpufabric.nccl."
RUNS = 7
#: Prints the CPU seconds of an import.
TIMED = """
import sys, time
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
begin = time.process_time()
import ansible.module_utils.basic
basic = time.process_time()
__import__(sys.argv[2])
print(basic - begin, time.process_time() - basic)
"""


def imported(file: pathlib.Path) -> t.Iterator[str]:
    """The names of the collection's files that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(NAMESPACE):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def closure(module: pathlib.Path) -> dict[str, pathlib.Path]:
    """The files that go with a module, by their dotted names, with the module's own."""
    found: dict[str, pathlib.Path] = {}
    todo = [f"{NAMESPACE}plugins.modules.{module.stem}"]
    while todo:
        name = todo.pop()
        file = ROOT / (name[len(NAMESPACE) :].replace(".", "/") + ".py")
        if name not in found and file.exists():
            found[name] = file
            todo.extend(imported(file))
    return found


def pack(files: t.Mapping[str, pathlib.Path], archive: pathlib.Path) -> None:
    """Write a zip file with the files and the empty packages that lead to them."""
    packages = {name.rpartition(".")[0] for name in files}
    for package in list(packages):
        while package:
            packages.add(package)
            package = package.rpartition(".")[0]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as stream:
        for package in sorted(packages):
            stream.writestr(f"{package.replace('.', '/')}/__init__.py", "")
        for name, file in sorted(files.items()):
            stream.write(file, f"{name.replace('.', '/')}.py")


def main() -> None:
    """Prints a table."""
    print(f"{'module':16} {'files':>5} {'lines':>6} {'KiB packed':>10} {'import ms':>9} {'times AnsibleModule':>19}")
    modules = sorted((ROOT / "plugins/modules").glob("*.py"))
    with tempfile.TemporaryDirectory() as folder:
        for module in modules:
            if (ROOT / "plugins/action" / module.name).exists() and "def main" not in module.read_text():
                continue
            files, archive = closure(module), pathlib.Path(folder, f"{module.stem}.zip")
            pack(files, archive)
            command = [sys.executable, "-c", TIMED, str(archive), f"{NAMESPACE}plugins.modules.{module.stem}"]
            runs = [
                tuple(map(float, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()))
                for _run in range(RUNS)
            ]
            basic, own = (min(times) for times in zip(*runs))
            lines = sum(len(file.read_text().splitlines()) for file in files.values())
            size = archive.stat().st_size / 1024
            print(f"{module.stem:16} {len(files):5} {lines:6} {size:10.0f} {own * 1000:9.0f} {own / basic:19.1f}")


if __name__ == "__main__":
    main()
