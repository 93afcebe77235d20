# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Sizes in bytes: as nccl-tests take them, and as people read them."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError

_SIZE = re.compile(r"0*([0-9]+)([KMG]?)\Z", re.IGNORECASE)
#: Programs keep a size in 64 bits. Python reads no number of thousands of digits.
_LIMIT = 1 << 63
_MOST_DIGITS = 19
_FACTORS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def parse_size(option: str, value: t.Any) -> int:
    """Bytes of a size such as 128M. Raises OptionError."""
    match = _SIZE.match(str(value))
    if match is None:
        raise OptionError(option, value, "a number of bytes, such as 8, or one with K, M or G, such as 128M")
    digits, unit = match.groups()
    size = int(digits) * _FACTORS[unit.upper()] if len(digits) <= _MOST_DIGITS else _LIMIT
    if size >= _LIMIT:
        raise OptionError(option, value, "less than 2^63 bytes")
    return size


def format_size(size: int) -> str:
    """``64 KiB`` of 65536; to two decimals if it is no whole number of units."""
    value, unit = float(size), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    number = f"{value:.2f}".rstrip("0").rstrip(".")
    return f"{number} {_UNITS[unit]}"


def size_word(size: int) -> str:
    """``8G`` of 8589934592: what parse_size reads as the same."""
    for unit in ("G", "M", "K"):
        if size and size % _FACTORS[unit] == 0:
            return f"{size // _FACTORS[unit]}{unit}"
    return str(size)
