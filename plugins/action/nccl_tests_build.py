# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import time
import typing as t

from ansible.utils.path import unfrackpath
from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import TEXT, check_answer, text
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.run_module import failure
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import GpufabricError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import open_file
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.source import (
    BUILD_TIMEOUT,
    FETCH_TIMEOUT,
    check_address,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._options import Spec, read_value
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._node_answers import NodeAction

#: An archive goes with the arguments of the module: nccl-tests is 73 KB.
_MOST = 16 << 20
#: Seconds from one look at a build to the next: the module itself waits, unless another program is done.
_PAUSE = 1.0
#: Seconds that the node needs to end a build whose time is over.
_END = 60.0
#: How the module says how far a build is.
_RUNNING = {"done": [text(r"[a-z0-9_]{1,80}", "the name of a program")], "line": TEXT}


class ActionModule(NodeAction):
    """Takes the archive along, and follows the build."""

    TEXTS: t.ClassVar[dict[str, Spec]] = {"programs": {"type": "list", "elements": "str"}, "jobs": {"type": "int"}}

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Run the action."""
        result = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        self._host = self._task.delegate_to or (task_vars or {}).get("inventory_hostname", "the node")
        try:
            for option in ("url", "git_url"):
                check_address(option, str(arguments.get(option) or ""))
            archive = read_value("archive", {"type": "path"}, arguments.get("archive"))
            if archive is not None and arguments.get("state", "present") == "present":
                arguments["content"] = read_archive(archive)
            answer = self._follow(self._execute_module(module_args=arguments, task_vars=task_vars), task_vars)
        except GpufabricError as error:
            return {**result, "failed": True, **failure(error)}
        # With much verbosity it would be on the screen.
        answer.pop("invocation", None)
        return self.shown({**result, **answer})

    def _follow(self, answer: dict[str, t.Any], task_vars: t.Any) -> dict[str, t.Any]:
        """What the module returns in the end. Raises GpufabricError if a build is not over when the node must have ended it."""
        seconds = read_value("timeout", {"type": "int", "default": BUILD_TIMEOUT}, self._task.args.get("timeout"))
        seconds += FETCH_TIMEOUT + _END
        looked = time.monotonic()
        deadline = looked + seconds
        done: list[str] = []
        while "running" in answer:
            running = check_answer(self._host, "running", answer["running"], _RUNNING)
            self._tell(running, done)
            done = running["done"]
            if time.monotonic() > deadline:
                raise ProblemError(problem("build-failed", self._host, f"not finished after {seconds:g} s"))
            time.sleep(max(0.0, looked + _PAUSE - time.monotonic()))
            looked = time.monotonic()
            answer = self._execute_module(module_args={**self._task.args, "follow": done}, task_vars=task_vars)
        return answer

    def _tell(self, running: t.Mapping[str, t.Any], before: t.Sequence[str]) -> None:
        fresh = [name for name in running["done"] if name not in before]
        for line in [f"{name} is built" for name in fresh] or [running["line"]]:
            self.show(self._host, line)


def read_archive(path: str) -> str:
    """An archive on the controller, in base64. Raises OptionError."""
    path = unfrackpath(path, follow=False)
    try:
        with open_file(path) as file:
            content = file.read(_MOST + 1)
    except OSError as error:
        raise OptionError(
            "archive", path, f"an archive on the controller that can be read ({error.strerror})"
        ) from error
    if len(content) > _MOST:
        raise OptionError("archive", path, f"an archive of nccl-tests of at most {_MOST >> 20} MiB")
    return base64.b64encode(content).decode()
