# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Modules of the collection that run on another host: over ssh, by its Python, without a file there."""

from __future__ import annotations

import re
import shlex
import sys
import typing as t

#: Where a host's Python is looked for.
_PYTHONS = ("python3", "/usr/libexec/platform-python", "/usr/local/bin/python3")
_SAFE_PATH = re.compile(r"/[A-Za-z0-9._/+-]+\Z")

#: Reads its own source from the standard input and leaves what follows it there, with a Python that is new enough. Without
#: quotes, and without what a shell takes for its own between double ones.
_LOADER = (
    "import sys;sys.version_info<(3,8) and sys.exit(1);exec(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())))"
)

#: The exit status that tells a program that failed from a Python that does not start.
_FAILED = 86

_BOOTSTRAP = """\
import os, sys
def fail(*error):
    sys.__excepthook__(*error)
    os._exit({failed})
sys.excepthook = fail
for name, text in {sources!a}:
    sys.modules[name] = type(sys)(name)
    exec(compile(text, name, "exec"), sys.modules[name].__dict__)
sys.modules[name].main({parameters!a})
"""


def python_command(python: str | None, otherwise: str) -> str:
    """The command for any login shell of a host: it runs what it reads with a Python that is new enough.

    ``python``: the interpreter to try first. ``otherwise``: what to print if there is none.
    """
    pythons = " ".join([python] if python and _SAFE_PATH.match(python) else []) + " " + " ".join(_PYTHONS)
    script = (
        f'for p in {pythons.strip()}; do command -v "$p" >/dev/null || continue; "$p" -ISB -c "{_LOADER}"; s=$?;'
        f' [ $s = 0 ] || [ $s = {_FAILED} ] || [ $s -gt 128 ] && exit $s; done; echo "{otherwise}"'
    )
    return f"exec /bin/sh -c {shlex.quote(script)}"


def sources_of(name: str) -> list[tuple[str, str]]:
    """Names and sources of a module and its imports from the collection; each comes after its own imports."""
    source = t.cast("t.Any", sys.modules[name].__loader__).get_source(name)
    # Ansible's own loader on a controller has bytes.
    source = source.decode() if isinstance(source, bytes) else source
    found: dict[str, str] = {}
    for imported in re.findall(r"^from (ansible_collections\.\S+) import", source, re.MULTILINE):
        found.update(sources_of(imported))
    return [*found.items(), (name, source)]


def program_text(sources: t.Sequence[tuple[str, str]], parameters: t.Mapping[str, t.Any]) -> bytes:
    """What the host's Python reads: the modules, and the call of the last one's ``main``."""
    text = _BOOTSTRAP.format(failed=_FAILED, sources=list(sources), parameters=dict(parameters)).encode()
    return f"{len(text)}\n".encode() + text
