# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What the controller takes from a node's answer: only texts that no template, file or terminal reads as something else."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import is_numeric
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import inert

_LONGEST_VALUE = 80
_MOST_ITEMS = 4096

#: What a value may be: a Kind, a dict of shapes by key, or a list of one shape.
Shape = t.Union["Kind", t.Mapping[str, t.Any], t.List[t.Any]]


@dataclasses.dataclass(frozen=True)
class Kind:
    """Values that ``is_allowed`` accepts. ``allowed``: the same in words."""

    is_allowed: t.Callable[[t.Any], bool]
    allowed: str


@dataclasses.dataclass(frozen=True)
class Maybe:
    """A value of a shape, or None."""

    shape: Shape


def text(pattern: str, allowed: str) -> Kind:
    """Texts that a pattern matches as a whole."""
    compiled = re.compile(rf"(?:{pattern})\Z")
    return Kind(lambda value: isinstance(value, str) and compiled.match(value) is not None, allowed)


def _is_plain(value: t.Any) -> bool:
    return isinstance(value, str) and value.isprintable() and not re.search(r"[{}]", value) and len(value) <= 1024


def _is_address_with_prefix(value: t.Any) -> bool:
    address, slash, prefix = str(value).partition("/")
    return isinstance(value, str) and bool(slash) and is_numeric(address) and re.match(r"\d{1,3}\Z", prefix) is not None


NUMBER = Kind(lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0, "a whole number")
PLAIN = Kind(_is_plain, "printable text of at most 1024 characters without braces")
PATH = Kind(
    lambda value: _is_plain(value) and value.startswith("/"), "an absolute path of printable characters without braces"
)
RUN_DIRECTORY = text(r"/[A-Za-z0-9._/+-]{1,1023}", "an absolute path of letters, digits and ._+-")
HOST_NAME = text(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,253}", "a host name of letters, digits, dots, underscores and dashes")
#: Linux allows more in a name; names with a comma between are several.
INTERFACE = Kind(
    lambda value: _is_plain(value) and re.match(r"[^\s/]{1,255}\Z", value) is not None,
    "a name of an interface: printable characters without braces, blanks and slashes",
)
ADDRESS = Kind(is_numeric, "a numeric IPv4 or IPv6 address without a zone")
ADDRESS_WITH_PREFIX = Kind(_is_address_with_prefix, "an address with its prefix length, such as 10.0.0.1/24")


def refuse(host: str, field: str, value: t.Any, allowed: str) -> NodeError:
    """The error for a value that a host returned."""
    shown = repr(value)
    shown = shown if len(shown) <= _LONGEST_VALUE else f"{shown[:_LONGEST_VALUE]}…"
    return NodeError(f"{host} returned {field}: {inert(shown)}, which is not allowed; allowed: {allowed}")


def check_answer(host: str, field: str, value: t.Any, shape: t.Any) -> t.Any:
    """What a host returned, with no keys but those of the shape. Raises NodeError with the host and the field."""
    if isinstance(shape, Maybe):
        return None if value is None else check_answer(host, field, value, shape.shape)
    if isinstance(shape, Kind):
        if not shape.is_allowed(value):
            raise refuse(host, field, value, shape.allowed)
        return value
    if isinstance(shape, list):
        if not isinstance(value, (list, tuple)) or len(value) > _MOST_ITEMS:
            raise refuse(host, field, value, f"a list of at most {_MOST_ITEMS} items")
        return [check_answer(host, f"{field}[{index}]", item, shape[0]) for index, item in enumerate(value)]
    if not isinstance(value, t.Mapping):
        raise refuse(host, field, value, f"a dictionary with {', '.join(shape)}")
    missing = [name for name in shape if name not in value]
    if missing:
        raise refuse(host, field, sorted(map(str, value)), f"a dictionary with {', '.join(missing)}")
    return {name: check_answer(host, f"{field}.{name}", value[name], inner) for name, inner in shape.items()}
