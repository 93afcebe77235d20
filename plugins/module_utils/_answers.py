# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What the controller takes from a node's answer: only texts that no template, file or terminal reads as something else."""

from __future__ import annotations

import dataclasses
import ipaddress
import math
import re
import reprlib
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import is_numeric
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import inert, one_line

_LONGEST_VALUE, _LONGEST_FIELD = 80, 200
_LONGEST_TEXT = 1 << 16
_MOST_ITEMS = 4096

#: What a value may be: a Kind, a dict of shapes by key, or a list of one shape; or one of the classes below.
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


@dataclasses.dataclass(frozen=True)
class Optional:
    """Of a key of a dict: it may be missing."""

    shape: t.Any


@dataclasses.dataclass(frozen=True)
class Each:
    """A dict with any keys of a kind, and values of one shape."""

    key: Kind
    shape: t.Any


def text(pattern: str, allowed: str) -> Kind:
    """Texts that a pattern matches as a whole."""
    compiled = re.compile(rf"(?:{pattern})\Z")
    return Kind(lambda value: isinstance(value, str) and compiled.match(value) is not None, allowed)


def _is_plain(value: t.Any) -> bool:
    return isinstance(value, str) and value.isprintable() and not re.search(r"[{}]", value) and len(value) <= 1024


def _is_address_with_prefix(value: t.Any) -> bool:
    address, slash, prefix = value.partition("/") if isinstance(value, str) else ("", "", "")
    if not slash or not is_numeric(address) or not re.match(r"[0-9]{1,3}\Z", prefix):
        return False
    return int(prefix) <= ipaddress.ip_address(address).max_prefixlen


def _is_integer(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 64


def _is_finite(value: t.Any) -> bool:
    return _is_integer(value) or (isinstance(value, float) and math.isfinite(value))


INTEGER = Kind(_is_integer, "an integer of at most 64 bits")
NUMBER = Kind(lambda value: _is_integer(value) and value >= 0, "a whole number")
BYTES = Kind(lambda value: _is_integer(value) and 0 <= value < 1 << 63, "a whole number below 2^63")
PORT = Kind(lambda value: _is_integer(value) and 0 <= value <= 65535, "a port, 0 to 65535")
FINITE = Kind(_is_finite, "a finite number")
BOOLEAN = Kind(lambda value: isinstance(value, bool), "true or false")
#: What a program printed, for people to read.
TEXT = Kind(
    lambda value: isinstance(value, str) and len(value) <= _LONGEST_TEXT, f"text of at most {_LONGEST_TEXT} characters"
)
SIMPLE = Kind(
    lambda value: isinstance(value, bool) or TEXT.is_allowed(value) or _is_finite(value),
    f"true or false, a finite number, or {TEXT.allowed}",
)
PLAIN = Kind(_is_plain, "printable text of at most 1024 characters without braces")
#: What a host is called in the inventory. It is shown, and stands in no file that ssh or mpirun reads: addresses do.
WORKER_NAME = Kind(
    lambda value: _is_plain(value) and bool(value.strip()),
    "one line of at most 1024 printable characters without braces, not all blank",
)
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


class AnswerError(NodeError):
    """A value that a host returned and that nothing is to be done with. ``host``: which one."""

    def __init__(self, host: str, text: str) -> None:
        super().__init__(text)
        self.host = host


def refuse(host: str, field: str, value: t.Any, allowed: str) -> AnswerError:
    """The error for a value that a host returned."""
    shown = _shown(value)
    shown = shown if len(shown) <= _LONGEST_VALUE else f"{shown[:_LONGEST_VALUE]}…"
    # The names of keys are the host's, too.
    told = f"{host} returned {one_line(field, _LONGEST_FIELD)}: {shown}, which is not allowed; allowed: {allowed}"
    return AnswerError(host, inert(told))


def _shown(value: t.Any) -> str:
    """The beginning of a value, however large and deep it is."""
    if isinstance(value, str):
        return repr(value[: _LONGEST_VALUE + 1])
    try:
        return reprlib.repr(value)
    except ValueError:
        # Python shows no integer of thousands of digits.
        return "a number of thousands of digits"


def check_answer(host: str, field: str, value: t.Any, shape: t.Any) -> t.Any:
    """What a host returned, with no keys but those of the shape. Raises AnswerError with the host and the field."""
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
    if isinstance(shape, Each):
        if not isinstance(value, t.Mapping) or len(value) > _MOST_ITEMS:
            raise refuse(host, field, value, f"a dictionary of at most {_MOST_ITEMS} items")
        for name in value:
            check_answer(host, f"a key of {field}", name, shape.key)
        return {name: check_answer(host, f"{field}.{name}", inner, shape.shape) for name, inner in value.items()}
    if not isinstance(value, t.Mapping):
        raise refuse(host, field, value, f"a dictionary with {', '.join(shape)}")
    missing = [name for name, inner in shape.items() if name not in value and not isinstance(inner, Optional)]
    if missing:
        raise refuse(host, field, list(value)[:_MOST_ITEMS], f"a dictionary with {', '.join(missing)}")
    return {
        name: check_answer(host, f"{field}.{name}", value[name], inner.shape if isinstance(inner, Optional) else inner)
        for name, inner in shape.items()
        if name in value
    }
