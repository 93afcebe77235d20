# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to the collection: it may change in any release.

"""The formats of a report: the file of each, and the Python library that it takes on the controller."""

from __future__ import annotations

import importlib
import importlib.util
import json
import shlex
import sys
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._text import one_line
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report.csv_file import render_csv
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report.data import Report
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report.markdown import render_markdown


class Format(t.NamedTuple):
    """``library``: what is imported, and ``package``: what is installed for it; empty where neither is needed."""

    file: str
    library: str = ""
    package: str = ""


#: In the order in which they are told. The packages are those of meta/ee-requirements.txt.
FORMATS = {
    "json": Format("results.json"),
    "csv": Format("results.csv"),
    "markdown": Format("report.md"),
    "html": Format("report.html", "matplotlib.figure", "matplotlib"),
    "junit": Format("junit.xml", "junitparser", "junitparser"),
    "openmetrics": Format("results.prom", "prometheus_client", "prometheus-client"),
}


def render(report: Report, formats: t.Collection[str]) -> tuple[dict[str, str], str]:
    """The text of each format, and one sentence that tells which were left out and how to get them; empty of none."""
    texts: dict[str, str] = {}
    lacking: dict[str, str] = {}
    for name, form in FORMATS.items():
        if name not in formats:
            continue
        if not form.library:
            texts[name] = _RENDERERS[name](report)
        elif not importlib.util.find_spec(form.library.partition(".")[0]):
            lacking[name] = ""
        else:
            try:
                importlib.import_module(form.library)
                texts[name] = _RENDERERS[name](report)
            except Exception as error:
                # Such as that the library was built for another version of one that it needs, or is too old: the other files are written.
                lacking[name] = one_line(f"{type(error).__name__}: {error}")
    if not lacking:
        return texts, ""
    files = ", ".join(FORMATS[name].file + (f" ({why})" if why else "") for name, why in lacking.items())
    packages = [FORMATS[name].package for name in lacking]
    upgrade = ["--upgrade"] if any(lacking.values()) else []
    install = shlex.join([sys.executable, "-m", "pip", "install", *upgrade, *packages])
    return texts, f"not written, since the controller lacks Python libraries: {files}. To have them: {install}"


def _render_json(report: Report) -> str:
    return json.dumps(report.as_json(), indent=2, allow_nan=False) + "\n"


def _by_library(module: str, function: str) -> t.Callable[[Report], str]:
    """The renderer of a format whose module cannot be imported without its library."""

    def rendered(report: Report) -> str:
        renderer = getattr(importlib.import_module(f"{__package__}.{module}"), function)
        return t.cast(str, renderer(report))

    return rendered


_RENDERERS: dict[str, t.Callable[[Report], str]] = {
    "json": _render_json,
    "csv": render_csv,
    "markdown": render_markdown,
    "html": _by_library("page", "render_html"),
    "junit": _by_library("junit", "render_junit"),
    "openmetrics": _by_library("openmetrics", "render_openmetrics"),
}
