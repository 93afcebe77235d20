# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """ansible-test has settings of pytest of its own, and takes no marker that it does not know; it runs slow tests, too."""
    config.addinivalue_line("markers", "slow: as in pyproject.toml")
