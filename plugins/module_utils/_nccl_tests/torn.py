# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Where a row of the table ends right before a host's name, with which NCCL's lines begin."""

from __future__ import annotations

import re
import typing as t

_NUMBER = re.compile(r"-?[\d.]*\d[\d.]*\Z", re.ASCII)
#: Characters of the end of a row that are looked at: no cell has more.
_LONGEST_CELL = 64


def before_hosts(text: str, hosts: t.AbstractSet[str]) -> t.Iterator[tuple[str, str]]:
    """Each way in which a text is something and one of the hosts behind it, as both."""
    for end in range(1, min(len(text), _LONGEST_CELL)):
        if text[end:] in hosts:
            yield text[:end], text[end:]


def host_behind_digits(text: str, hosts: t.AbstractSet[str]) -> str | None:
    """The host that stands in a text right behind digits and dots, or a root of -1; None if there is none."""
    return next((host for cell, host in before_hosts(text, hosts) if _NUMBER.match(cell)), None)
