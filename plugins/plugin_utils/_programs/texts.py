# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to the collection: it may change in any release.

"""Programs that run on nodes from their text; nothing imports them."""

from __future__ import annotations

import pathlib


def cpu_program() -> dict[str, str]:
    """The text of the program that measures where there are no GPUs, by its file name."""
    path = pathlib.Path(__file__).parent / "cpu_perf.py"
    return {path.name: path.read_text(encoding="utf-8")}
