# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Words for people."""

from __future__ import annotations

import re
import typing as t

#: What XML cannot hold, what controls a terminal, and what changes the direction of text.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)

#: Variables of NCCL and of what it runs on: settings, never secrets.
_SETTINGS = (
    "CUDA_",
    "FI_",
    "HIP_",
    "HSA_",
    "NCCL_",
    "NVIDIA_",
    "OMPI_MCA_",
    "PMIX_MCA_",
    "PRTE_MCA_",
    "RCCL_",
    "ROCR_",
    "UCX_",
)
_SETTINGS_BY_NAME = ("LD_LIBRARY_PATH", "OMP_NUM_THREADS", "PATH")
NOT_SHOWN = "(not shown)"

_ESCAPES = str.maketrans({**{character: f"\\{character}" for character in "\\|[]`"}, "<": "&lt;"})


def listing(items: t.Iterable[str], most: int = 8) -> str:
    """The first ``most`` items with commas between, and how many more there are: ``a, b and 3 more``."""
    items = list(items)
    return ", ".join(items[:most]) + (f" and {len(items) - most} more" if len(items) > most else "")


def ago(seconds: float) -> str:
    """How long ago something was, in its largest whole unit: ``3 minutes ago``."""
    seconds = max(0, int(seconds))
    unit, size = next(
        (unit, size)
        for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))
        if seconds >= size or size == 1
    )
    count = seconds // size
    return f"{count} {unit}{'' if count == 1 else 's'} ago"


def clean(text: str) -> str:
    """Text from a machine as it may be shown: each character that controls a terminal, reorders text or that XML forbids is
    replaced by U+FFFD. A carriage return before a line break is left out.
    """
    return _CONTROL.sub("\ufffd", text.replace("\r\n", "\n"))


def one_line(text: str, most: int = 300) -> str:
    """``clean`` for one line, cut after so many characters. Its blanks stay, as the columns of a table need them."""
    line = clean_line(text)
    return line if len(line) <= most else f"{line[:most]}…"


def clean_line(text: str) -> str:
    """``clean`` for one line, however long it is."""
    return clean(text).replace("\n", " ").replace("\t", " ")


def indented(text: str) -> str:
    """A text whose lines after the first are indented, so that on the screen none looks like a line of Ansible's. Twice is as once."""
    return re.sub(r"\n(?! {2}|\n)", "\n  ", text)


def clean_values(value: t.Any, shown: t.Callable[[str], str] = clean) -> t.Any:
    """``shown`` of all texts in lists and dictionaries."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, t.Mapping):
        return {clean_values(key, shown): clean_values(item, shown) for key, item in value.items()}
    return [clean_values(item, shown) for item in value] if isinstance(value, (list, tuple)) else value


def inert(text: str) -> str:
    """Text that Ansible does not take for a template, whatever variable it gets into."""
    return re.sub(r"\{(?=[{%#])", "{ ", text)


def markdown_plain(text: str) -> str:
    """Text from a machine for Markdown: one line that can neither end a table's cell nor begin a link, code or an HTML tag."""
    return " ".join(clean(text).split()).translate(_ESCAPES)


def shown_environment(variables: t.Mapping[str, t.Any], also: t.Container[str] = ()) -> dict[str, t.Any]:
    """Variables as they may be shown: of those that are not known as settings of NCCL or MPI, which may be tokens, only the names.

    ``also``: names whose values are shown, too.
    """
    return {
        name: value
        if value is None or name in also or name in _SETTINGS_BY_NAME or name.startswith(_SETTINGS)
        else NOT_SHOWN
        for name, value in variables.items()
    }
