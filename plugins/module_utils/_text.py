# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Words for people."""

from __future__ import annotations

import typing as t


def listing(items: t.Iterable[str], most: int = 8) -> str:
    """The first ``most`` items with commas between, and how many more there are: ``a, b and 3 more``."""
    items = list(items)
    return ", ".join(items[:most]) + (f" and {len(items) - most} more" if len(items) > most else "")
