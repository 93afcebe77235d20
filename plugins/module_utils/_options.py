# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Values of variables as their type says, however they were given.

``-e NAME=VALUE`` and a survey of AWX give text for anything, and an empty text for what was left blank.
"""

from __future__ import annotations

import json
import math
import os
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import Hidden, OptionError

#: An option as in a role's argument_specs: ``type``, ``elements``, ``choices``, ``default``, ``options``.
Spec = t.Mapping[str, t.Any]


class Range(t.NamedTuple):
    """What a number may be, and that in words."""

    least: int
    most: int
    allowed: str


_TRUE = ("true", "yes", "on", "y", "t", "1")
#: No seconds, ranks or ports are so many.
_LIMIT = 1 << 63
#: What no file, program or argument can have, and JSON can write.
NO_TEXT = re.compile("[\x00\ud800-\udfff]")
_FALSE = ("false", "no", "off", "n", "f", "0")


def read_values(specs: t.Mapping[str, Spec], values: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The value of each variable of ``specs``, its default or None where there is none. Raises OptionError."""
    return {name: read_value(name, spec, values.get(name)) for name, spec in specs.items()}


def read_value(name: str, spec: Spec, value: t.Any) -> t.Any:
    """A variable's value as its type says; its default, or None, if it is not set or blank. Raises OptionError."""
    kind = spec.get("type", "str")
    if value is None or (isinstance(value, str) and not value.strip() and kind != "str"):
        return spec.get("default")
    value = _READERS[kind](name, spec, value)
    choices = spec.get("choices")
    if choices is not None:
        for item in value if isinstance(value, list) else [value]:
            if item not in choices:
                raise OptionError(name, item, ", ".join(map(str, choices)))
    return value


def _text(name: str, _spec: Spec, value: t.Any) -> str:
    if isinstance(value, bool):
        # As YAML and JSON write it, for options that have these among other choices.
        return str(value).lower()
    if not isinstance(value, (str, int, float)):
        raise OptionError(name, value, "a text")
    text = str(value)
    if NO_TEXT.search(text):
        raise OptionError(name, shown(name, value), "a text without NUL and halves of characters")
    return text


def _path(name: str, spec: Spec, value: t.Any) -> str:
    return os.path.expanduser(_text(name, spec, value))


def _switch(name: str, _spec: Spec, value: t.Any) -> bool:
    word = str(value).strip().lower()
    if word not in _TRUE + _FALSE:
        raise OptionError(name, value, "true or false")
    return word in _TRUE


def _integer(name: str, spec: Spec, value: t.Any) -> int:
    number = _number(name, spec, value)
    if number != int(number) or abs(number) >= _LIMIT:
        raise OptionError(
            name, value, "a whole number" if abs(number) < _LIMIT else "a whole number of at most 64 bits"
        )
    return int(number)


def _number(name: str, spec: Spec, value: t.Any) -> float:
    wanted = "a whole number" if spec.get("type") == "int" or spec.get("elements") == "int" else "a number"
    if isinstance(value, bool):
        raise OptionError(name, value, wanted)
    try:
        number = float(value)
    except (OverflowError, TypeError, ValueError):
        raise OptionError(name, value, wanted) from None
    if not math.isfinite(number):
        raise OptionError(name, value, wanted)
    return number


def _list(name: str, spec: Spec, value: t.Any) -> list[t.Any]:
    """Text is a list in JSON, or items separated by commas or lines."""
    elements = {"type": spec.get("elements", "str")}
    if isinstance(value, str):
        value = _json(name, value) if value.lstrip().startswith(("[", "{")) else _items(value)
    if isinstance(value, t.Mapping) and elements["type"] != "dict":
        raise OptionError(name, value, "a list; as text with commas, with lines, or in JSON")
    if isinstance(value, (t.Mapping, int, float)):
        value = [value]
    try:
        items = list(value)
    except TypeError:
        # YAML makes a date of what looks like one.
        raise OptionError(name, value, "a list; as text with commas, with lines, or in JSON") from None
    return [
        _READERS[elements["type"]](f"{name}[{number}]" if len(items) > 1 else name, elements, item)
        for number, item in enumerate(items)
    ]


def _dict(name: str, spec: Spec, value: t.Any) -> dict[str, t.Any]:
    """Text is a dictionary in JSON, or NAME=VALUE separated by commas or lines. What is not among its ``options`` is none of its keys."""
    if isinstance(value, str):
        text = value.strip()
        pairs = [item.partition("=") for item in _items(text)]
        if text.startswith(("{", "[")):
            value = _json(name, text)
        elif all(key.strip() and separator for key, separator, _item in pairs):
            value = {key.strip(): item.strip() for key, _separator, item in pairs}
    if not isinstance(value, t.Mapping):
        raise OptionError(
            name, shown(name, value), "a dictionary; as text NAME=VALUE with commas, with lines, or in JSON"
        )
    options = spec.get("options")
    if options is None:
        return {str(key): item for key, item in value.items()}
    for key in value:
        if key not in options:
            raise OptionError(f"{name}.{key}", value[key], f"one of the keys {', '.join(options)}")
    # Without the defaults: a dictionary may say something by being empty.
    return {
        key: item if item is None else read_value(f"{name}.{key}", options[key], item) for key, item in value.items()
    }


def check_ranges(ranges: t.Mapping[str, Range], values: t.Mapping[str, t.Any], prefix: str = "") -> None:
    """Raise OptionError for a number that is out of its range. ``prefix``: of its name in ``values``, where it may be missing."""
    for name, (least, most, allowed) in ranges.items():
        value = values.get(f"{prefix}{name}")
        if value is not None and not least <= value <= most:
            raise OptionError(f"{prefix}{name}", value, allowed)


def environment_texts(option: str, values: t.Mapping[str, t.Any], variable: str = "") -> dict[str, str | None]:
    """Environment variables as texts; None is one that is not to be set. Raises OptionError.

    ``variable``: of the roles, where the option has another name.
    NCCL reads numbers: the text True, of what YAML takes for a truth value, would be 0 to it.
    """
    return {
        str(name): None if value is None else program_text(f"{option}.{name}", value, variable)
        for name, value in values.items()
    }


def program_text(option: str, value: t.Any, variable: str = "") -> str:
    """A value as the text that a program gets. Raises OptionError for one that would be in the words of Python."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        is_switch = isinstance(value, bool)
        allowed = "a text or a number, such as 1 or 0" if is_switch else "a text or a number"
        named = f"{allowed} (variable: {variable})" if variable else allowed
        raise OptionError(option, value if is_switch or value is None else Hidden(), named)
    return str(value)


def shown(name: str, value: t.Any) -> t.Any:
    """A variable's value as an error may show it: environments may hold secrets."""
    return Hidden() if name.endswith(("_env", "_environment")) else value


def _items(text: str) -> list[str]:
    return [item.strip() for line in text.splitlines() for item in line.split(",") if item.strip()]


def _json(name: str, text: str) -> t.Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(name, shown(name, text), f"text that is JSON if it begins like it ({error})") from None


def _raw(_name: str, _spec: Spec, value: t.Any) -> t.Any:
    return value


_READERS: dict[str, t.Callable[[str, Spec, t.Any], t.Any]] = {
    "str": _text,
    "path": _path,
    "bool": _switch,
    "int": _integer,
    "float": _number,
    "list": _list,
    "dict": _dict,
    "raw": _raw,
}
