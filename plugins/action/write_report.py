# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gpufabric.nccl.plugins.module_utils import _files
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError
from ansible_collections.gpufabric.nccl.plugins.module_utils._results.tables import check_documents
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report.data import make_report
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report.folder import ReportFolder
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report.formats import FORMATS, render


class ActionModule(ActionBase):
    """Writes the files on the controller; nothing runs on the host."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Run the action."""
        result = super().run(tmp, task_vars)
        arguments = self.validate_argument_spec(
            {
                "results": {"type": "list", "elements": "dict", "required": True},
                "dest": {"type": "path", "required": True},
                "formats": {"type": "list", "elements": "str", "choices": list(FORMATS), "default": list(FORMATS)},
                "run_id": {"type": "str", "default": "default"},
                "sweep": {"type": "dict", "default": {}},
                "isolation": {"type": "dict", "default": {}},
                "baseline": {"type": "dict", "default": {}},
            }
        )[1]
        try:
            report = make_report(
                check_documents(arguments["results"]),
                run_id=arguments["run_id"],
                sweep=arguments["sweep"],
                isolation=arguments["isolation"],
                baseline=arguments["baseline"],
            )
            texts, missing = render(report, arguments["formats"])
            if missing:
                Display().warning(missing)
            paths = {name: os.path.join(arguments["dest"], FORMATS[name].file) for name in texts}
            changes = _Changes(paths, texts, arguments["dest"])
            if not self._task.check_mode:
                changes.apply()
        except GpufabricError as error:
            raise AnsibleActionFail(str(error)) from None
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            # Such as documents that were edited by hand.
            said = f"{type(error).__name__}: {error}"
            raise AnsibleActionFail(f"results: documents are needed as nccl_result returns them ({said})") from error
        result.update(
            changed=changes.changed,
            verdict=report.verdict,
            counts=report.counts(),
            tools=report.tools(),
            worst=report.worst(),
            numbers=report.numbers(),
            paths=paths,
        )
        if self._task.diff:
            result["diff"] = changes.diff()
        return result


class _Changes:
    """What is to be written, and what is to be removed since it would tell of an earlier run."""

    def __init__(self, paths: t.Mapping[str, str], texts: t.Mapping[str, str], dest: str) -> None:
        self._folder = ReportFolder("dest", dest)
        self._names = [FORMATS[name].file for name in texts]
        self._folder.check(self._names)
        of_runs = {os.path.join(dest, name) for name in self._folder.of_runs(form.file for form in FORMATS.values())}
        wanted = {paths[name]: text for name, text in texts.items()}
        self._before = {path: _files.read_text(path) for path in of_runs}
        self._written = {path: text for path, text in wanted.items() if self._before.get(path) != text}
        self._removed = sorted(of_runs - set(wanted))

    @property
    def changed(self) -> bool:
        return bool(self._written or self._removed)

    def apply(self) -> None:
        self._folder.claim(self._names)
        for path, text in self._written.items():
            _files.write_text(path, text, mode=0o644)
        self._folder.remove([os.path.basename(path) for path in self._removed])

    def diff(self) -> list[dict[str, str]]:
        """Of files that are read by people; the others say the same."""
        return [
            {
                "before_header": path,
                "after_header": path,
                "before": self._before.get(path) or "",
                "after": self._written.get(path, ""),
            }
            for path in [*self._written, *self._removed]
            if path.endswith(".md")
        ]
