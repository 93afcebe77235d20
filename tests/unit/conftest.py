# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import signal
import types
import typing as t

import pytest

#: Seconds that a test may take where the plugin pytest-timeout is not loaded, which ansible-test does not.
TIMEOUT = 300


def pytest_configure(config: pytest.Config) -> None:
    """ansible-test has settings of pytest of its own, and takes no marker that it does not know; it runs slow tests, too."""
    config.addinivalue_line("markers", "slow: as in pyproject.toml")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> t.Iterator[None]:
    """Fail a test that hangs, so that it is named: ansible-test writes its report only when all have ended."""
    if item.config.pluginmanager.hasplugin("timeout"):
        yield
        return

    def fail(_number: int, _frame: types.FrameType | None) -> None:
        pytest.fail(f"took longer than {TIMEOUT} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(TIMEOUT)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
