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
#: It prints more than an answer, too, which Ansible shows.
_PYTHON = """#!{python}
import json, os, re, subprocess, sys

HOSTILE = json.loads({hostile!r})
names, whole, more = {names!r}.split(), {whole!r}, json.loads({more!r})
if sys.argv[1:2] == ["-c"]:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
source = sys.stdin.read() if sys.argv[1:2] in ([], ["-"]) else open(sys.argv[1]).read() if sys.argv[1:] else ""
called = re.search(r"ansible_collections[./]gpufabric[./]nccl[./]plugins[./]modules[./](\\w+)", source)
name = called.group(1) if called else ""
if name and (not names or name in names):
    if whole:
        print(json.dumps({{"changed": False, **HOSTILE}}))
        print("\\x1b]0;junk\\x07\\nok: [forged]\\nand more")
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
    print(json.dumps({{**answer, **more}} if more else changed(answer)))
    print("\\x1b]0;junk\\x07\\nok: [forged]\\nand more")
    sys.exit(done.returncode)
done = subprocess.run([{python!r}, *sys.argv[1:]], input=source, text=True)
sys.exit(done.returncode)
"""


class Hostility:
    """What a worker answers, and how one knows that the controller ran it. ``mark``: a path of the controller, which nobody is to make."""

    def __init__(self, mark: pathlib.Path) -> None:
        self.mark = mark
        # Something follows the forged line, since ansible-core before 2.19 breaks a warning into lines of its own.
        self.text = f"{{{{ lookup('pipe', 'touch {mark}') }}}}\n\x1b]0;owned\x07\nok: [forged]\nand more"

    def python(
        self,
        real: str,
        names: str = "",
        answer: dict[str, t.Any] | None = None,
        more: dict[str, t.Any] | None = None,
    ) -> str:
        """A program that takes the place of a worker's Python.

        ``real``: the Python that it runs modules with. ``names``: the modules that are answered for, none: all. ``answer``: what they
        return; by default what they do, with each text replaced, or with ``more`` beside it.
        """
        hostile = json.dumps({"text": self.text, **(answer or {})})
        return _PYTHON.format(
            python=real, hostile=hostile, names=names, whole=answer is not None, more=json.dumps(more or {})
        )

    def commands(self) -> dict[str, t.Any]:
        """What Ansible acts on in any module's answer: facts, statistics, new hosts and groups, and what it prints as it comes."""
        facts = {
            # The controller's Python, given this, opens a page in a browser as soon as it starts.
            "gpufabric_environment": {"PYTHONWARNINGS": "all:0:antigravity.x:0:0", "BROWSER": f"touch {self.mark} %s"},
            "gpufabric_take_over": True,
            "report_assertions": [{"name": self.text, "that": "true"}],
            "report_formats": ["json"],
            "discovered_interpreter_python": f"/bin/touch {self.mark}",
        }
        return {
            "ansible_facts": facts,
            "_ansible_facts_cacheable": True,
            f"_ansible_{self.text}": self.text,
            "ansible_stats": {"data": {"gpufabric_verdict": self.text}, "aggregate": False, "per_host": False},
            "add_host": {"host_name": "intruder", "groups": ["workers"], "host_vars": {"ansible_connection": "local"}},
            "add_group": "intruders",
            "parent_groups": ["all"],
            "warnings": [self.text],
            "deprecations": [{"msg": self.text, "version": "9.0", "collection_name": self.text}],
            "diff": {"before": "", "after": self.text, "before_header": self.text, "after_header": self.text},
            "changed": True,
        }

    def failure(self) -> dict[str, t.Any]:
        """A failure, whose texts Ansible prints itself."""
        return {"failed": True, "msg": self.text, "exception": f"Traceback\n{self.text}", "results": [1], "rc": 1}

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
        assert played.returncode == 2, played.output
        self.check_quiet(played)
        assert "Traceback" not in played.output and all(word in played.output for word in words), played.output

    def check_quiet(self, played: t.Any) -> None:
        """Nothing ran on the controller, and no escape was shown, nor a line as if it were Ansible's."""
        assert not self.mark.exists(), played.output
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", played.output), played.output
        assert "ok: [forged]" not in played.output.splitlines(), played.output
