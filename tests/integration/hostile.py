# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Workers whose answers are meant to run something on the controller, and to deceive whoever reads them."""

from __future__ import annotations

import json
import pathlib
import re
import typing as t

#: A worker's Python. It runs a module and then replaces texts in its answer, or answers without running anything.
_PYTHON = """#!{python}
import json, os, re, subprocess, sys

HOSTILE = json.loads({hostile!r})
names, whole = {names!r}.split(), {whole!r}
if sys.argv[1:2] == ["-c"]:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
source = sys.stdin.read() if sys.argv[1:2] in ([], ["-"]) else open(sys.argv[1]).read() if sys.argv[1:] else ""
called = re.search(r"ansible_collections[./]gpufabric[./]nccl[./]plugins[./]modules[./](\\w+)", source)
name = called.group(1) if called else ""
if name and (not names or name in names):
    if whole:
        print(json.dumps({{**HOSTILE, "changed": False}}))
        sys.exit()
    done = subprocess.run([{python!r}, *sys.argv[1:]], input=source, capture_output=True, text=True)
    def changed(value):
        if isinstance(value, dict):
            return {{key: changed(inner) for key, inner in value.items()}}
        if isinstance(value, list):
            return [changed(item) for item in value] or [HOSTILE["text"]]
        return HOSTILE["text"] if isinstance(value, str) else value
    answer = json.loads(done.stdout[done.stdout.index("{{"):])
    answer.pop("invocation", None)
    print(json.dumps(changed(answer)))
    sys.exit(done.returncode)
done = subprocess.run([{python!r}, *sys.argv[1:]], input=source, text=True)
sys.exit(done.returncode)
"""


class Hostility:
    """What a worker answers, and how one knows that the controller ran it. ``mark``: a path of the controller, which nobody is to make."""

    def __init__(self, mark: pathlib.Path) -> None:
        self.mark = mark
        self.text = f"{{{{ lookup('pipe', 'touch {mark}') }}}}\n\x1b]0;owned\x07"

    def python(self, real: str, names: str = "", answer: dict[str, t.Any] | None = None) -> str:
        """A program that takes the place of a worker's Python.

        ``real``: the Python that it runs modules with. ``names``: the modules that are answered for, none: all. ``answer``: what they
        return; by default what they do, with each text replaced.
        """
        hostile = json.dumps({"text": self.text, **(answer or {})})
        return _PYTHON.format(python=real, hostile=hostile, names=names, whole=answer is not None)

    def answers(self, host: str) -> dict[str, t.Any]:
        """An answer that has all that any module returns, each text a hostile one. ``host``: a name that the play knows."""
        text = self.text
        problem = {"id": text, "severity": "error", "host": "-oProxyCommand=touch " + str(self.mark), "cause": text}
        refused = {**problem, "id": "ssh-closed", "cure": text, "evidence": text}
        told = {"name": host, "address": text, "stage": text, "ok": False, "facts": {"interfaces": text}}
        return {
            **dict.fromkeys(("address", "user", "client_public_key", "run_dir", "hostname", "path", "msg"), text),
            **dict.fromkeys(("ssh_config", "agent", "environment", "node", "points", "runner", "version"), text),
            "port": text,
            "host_public_keys": [text],
            "problems": [{**problem, "cure": text, "evidence": text}, refused, text],
            "hosts": [{**told, "problems": [text]}],
            "ok": False,
        }

    def check(self, played: t.Any, *words: str) -> None:
        """Nothing ran on the controller, no escape was shown, and the play says what is wrong, and of which host."""
        assert not self.mark.exists(), played.output
        assert played.returncode == 2, played.output
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", played.output), played.output
        assert "Traceback" not in played.output and all(word in played.output for word in words), played.output
