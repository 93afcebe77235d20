# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64

import pytest
from ansible_collections.gpufabric.nccl.plugins.action.nccl_tests_build import read_archive
from ansible_collections.gpufabric.nccl.plugins.action.nccl_tests_step import ActionModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError

LOOK = {
    "node": {"vendor": "nvidia", "architectures": ["9.0"], "digest": None, "reason": "", "elsewhere": None},
    "missing": [],
}


def test_an_archive_on_the_controller(tmp_path):
    path = tmp_path / "a.tar.gz"
    path.write_bytes(b"\0\xff")
    assert base64.b64decode(read_archive(str(path))) == b"\0\xff"
    for wrong in ("/nosuch.tar.gz", str(tmp_path)):
        with pytest.raises(OptionError, match="archive: .* is not allowed; allowed: an archive on the controller"):
            read_archive(wrong)


def test_steps(planned):
    plan = planned(ActionModule, "nccl_tests", {"step": "plan", "looks": {"a": LOOK, "b": LOOK}})
    assert plan["builders"] == ["a"] and plan["architectures"] == ["9.0"] and plan["changed"] is False
    each = planned(ActionModule, "nccl_tests", {"step": "plan", "looks": {"a": LOOK}}, nccl_tests_spread="false")
    assert each["note"] == "nccl-tests is built on each of 1 workers."
    step = {"step": "lacking", "looks": {"a": LOOK, "b": LOOK}, "builder": "a", "built": {"digest": "0" * 16}}
    assert planned(ActionModule, "nccl_tests", step)["lacking"] == ["b"]
    wrong = planned(ActionModule, "nccl_tests", {"step": "plan", "looks": {"a": LOOK}}, nccl_tests_programs=["-j"])
    assert wrong["failed"] and "programs: '-j' is not allowed" in wrong["msg"]
