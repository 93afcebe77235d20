# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A test is left out only if what it needs is not to be had, and not if a script that installs it is broken."""

from __future__ import annotations

import conftest
import pytest
from conftest import installed


def test_only_what_is_not_to_be_had_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(conftest, "ROOT", tmp_path)
    script = tmp_path / "scripts" / "some"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\necho why >&2; echo /there; exit $1\n")
    script.chmod(0o755)
    assert installed("some", "0") == "/there"
    for status, told in (("75", pytest.skip.Exception), ("1", AssertionError)):
        # Whatever it is: a test that is left out by mistake would be this one.
        with pytest.raises(BaseException, match="why") as caught:
            installed("some", status)
        assert caught.type is told
