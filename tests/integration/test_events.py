# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is kept of a failure: of a play's output that is longer than that, why it was a failure."""

from __future__ import annotations

from events import MOST, shortened


def test_a_long_failure_keeps_what_was_raised():
    output = "".join(f"E   ok: [g{number}]\n" for number in range(MOST // 10))
    text = f"    def test():\n>       play()\nE   Failed: a play has not ended\n{output}conftest.py:1: Failed"
    kept = shortened(text)
    assert kept.startswith("E   Failed: a play has not ended\n") and kept.endswith(text[-MOST:])
    assert len(kept) < MOST + 100
    assert shortened(text[-MOST:]) == text[-MOST:]
