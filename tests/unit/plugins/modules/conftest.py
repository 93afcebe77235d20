# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import read_addresses

#: What messages about the run's directory call the user of this process.
USER = "root" if os.geteuid() == 0 else f"uid {os.geteuid()}"


def fill(value, words):
    """A value with {WORD} in all of its texts replaced."""
    if isinstance(value, str):
        for word, text in words.items():
            value = value.replace(f"{{{word}}}", text)
        return value
    if isinstance(value, list):
        return [fill(item, words) for item in value]
    return {key: fill(item, words) for key, item in value.items()} if isinstance(value, dict) else value


def networks():
    """What is true of this machine's interfaces now: other tests may add and remove some."""
    addresses = read_addresses()
    return {
        "interfaces": ", ".join(sorted(set(os.listdir("/sys/class/net")) - {"lo"})) or "none",
        "interfaces_with_address": ", ".join(sorted({item.interface for item in addresses})),
        "addresses": ", ".join(f"{item.address} ({item.interface})" for item in addresses if not item.is_loopback)
        or "none",
    }


@pytest.fixture
def words(tmp_path):
    """What options and messages of a case stand for: places and a user of the test's own."""
    public = tmp_path / "public"
    public.mkdir()
    public.chmod(0o777)
    return {"tmp": str(tmp_path), "public": str(public), "user": USER, "uid": str(os.geteuid())}


@pytest.fixture
def refuse(capsys, tmp_path, words):
    """Runs a module in this process with options that it refuses, and compares the message. It changes no file."""

    def files():
        return sorted((str(path), path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))

    def run(module, options):
        umask = os.umask(0o022)
        try:
            with patch_module_args(fill(options, words)), pytest.raises(SystemExit) as end:
                module.main()
        finally:
            os.umask(umask)
        result = json.loads(capsys.readouterr().out)
        assert end.value.code == 1 and result["failed"], result
        return result["msg"]

    def refused(module, options, message):
        before = files()
        seen = None
        while seen != networks():
            seen = networks()
            told = run(module, options)
        assert told == fill(message, {**words, **seen})
        assert "\n" not in told
        assert files() == before

    return refused
