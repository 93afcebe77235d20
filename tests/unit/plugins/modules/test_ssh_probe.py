# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import importlib.util
import sys
import types

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight import fleet_login
from ansible_collections.gpufabric.nccl.plugins.modules import ssh_probe


@pytest.mark.parametrize(("option", "value"), [("timeout", 0), ("timeout", 61), ("forks", 0), ("forks", 4097)])
def test_options_are_checked(monkeypatch, option, value):
    monkeypatch.setattr(ssh_probe, "HAS_PARAMIKO", True)
    with pytest.raises(OptionError, match=f"{option}: {value} is not allowed; allowed: "):
        ssh_probe.run({"endpoints": [], "timeout": 5, "forks": 50, option: value}, check_mode=False)


def test_without_paramiko_it_says_what_to_type(monkeypatch):
    monkeypatch.setattr(ssh_probe, "HAS_PARAMIKO", False)
    with pytest.raises(ProblemError) as raised:
        ssh_probe.run({"endpoints": []}, check_mode=False)
    assert str(raised.value) == (
        f"{sys.executable} lacks the library paramiko; without it, nobody looks why the controller cannot log in to a host."
        f" Install it: {sys.executable} -m pip install --upgrade paramiko."
    )


@pytest.mark.parametrize("version", ["none", "2.12"])
def test_a_paramiko_that_reads_no_key_by_its_path_is_none(monkeypatch, version):
    """Every key would be told to be unreadable."""
    monkeypatch.setitem(sys.modules, "paramiko", None if version == "none" else types.SimpleNamespace(PKey=object))
    spec = importlib.util.spec_from_file_location("without_paramiko", fleet_login.__file__)
    module = importlib.util.module_from_spec(spec)
    # Where its dataclasses look for their types.
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    assert module.HAS_PARAMIKO is False
