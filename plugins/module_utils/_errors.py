# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What can go wrong, as exceptions whose text is the one line that the user reads."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._text import NOT_SHOWN


class GpufabricError(Exception):
    """A failure with a known cause. ``str(error)`` is what the user reads.

    ``details``: what a module returns beside it.
    """

    details: t.Mapping[str, t.Any] = {}


class Hidden:
    """What OptionError shows in place of a value that may be a secret."""

    def __repr__(self) -> str:
        return NOT_SHOWN


#: In the words of each OptionError.
OPTION_REFUSED = " is not allowed; allowed: "


#: Characters of a value in an OptionError.
_LONGEST_VALUE = 500


class OptionError(GpufabricError):
    """An option holds a value that is not allowed."""

    def __init__(self, option: str, value: t.Any, allowed: str) -> None:
        super().__init__(f"{option}: {_shown(value)}{OPTION_REFUSED}{allowed}")
        self.option = option


def _shown(value: t.Any) -> str:
    try:
        text = repr(value)
    except ValueError:
        # Python shows no integer of thousands of digits.
        return "a number of thousands of digits"
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


class NodeError(GpufabricError):
    """The node lacks something that the work needs, or refuses to give it. ``has_cure``: whether the text says what to do."""

    def __init__(self, text: str, has_cure: bool = False) -> None:
        super().__init__(text)
        self.has_cure = has_cure
