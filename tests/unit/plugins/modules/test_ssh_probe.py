# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import sys

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.modules import ssh_probe


def test_without_paramiko_it_says_what_to_type(monkeypatch):
    monkeypatch.setattr(ssh_probe, "HAS_PARAMIKO", False)
    with pytest.raises(ProblemError) as raised:
        ssh_probe.run({"endpoints": []}, check_mode=False)
    assert str(raised.value) == (
        f"{sys.executable} lacks the library paramiko; without it, nobody looks why the controller cannot log in to a host."
        f" Install it: {sys.executable} -m pip install paramiko."
    )
