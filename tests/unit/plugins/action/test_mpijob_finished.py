# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import types

import pytest
from ansible_collections.gpufabric.nccl.plugins.action.mpijob_finished import ActionModule


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ({"log": "gpufabric-mpijob: stage keys"}, ("gpufabric-mpijob: stage keys", "")),
        ({"log": ""}, ("", "")),
        ({"failed": True, "msg": "pods/log is forbidden"}, ("", "pods/log is forbidden")),
    ],
)
def test_a_log_that_cannot_be_read_says_why(answer, found):
    action = types.SimpleNamespace(execute=lambda *_module, **_arguments: answer)
    assert ActionModule._log(action, {"metadata": {"name": "launcher"}}) == found
