# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes down what pytest is to run, what begins and how it ends, while it happens, for scripts/test.

A JUnit file is written when all has ended; of a run that is cut off there is none. The file of GPUFABRIC_EVENTS has one JSON
object a line: ``{"planned": [TEST, ...]}``, ``{"began": TEST}`` and
``{"test": TEST, "phase": "setup"|"call"|"teardown"|"collect", "outcome": "passed"|"failed"|"skipped", "text": WHY}``.
"""

from __future__ import annotations

import json
import os
import typing as t

import pytest

#: Characters of what a failure says that are kept: its end, where pytest says where it was. A play's output before that may be longer.
MOST = 20000


class Events:
    """Writes events. ``plans``, ``reports``: whether this process knows what is planned, and what comes of it."""

    def __init__(self, path: str, plans: bool, reports: bool) -> None:
        self._path = path
        self._plans = plans
        self._reports = reports

    def _write(self, event: t.Mapping[str, t.Any]) -> None:
        # One write to a file that is open for appending: processes beside each other do not mix their lines.
        with open(self._path, "ab", buffering=0) as file:
            file.write(json.dumps(event).encode() + b"\n")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if self._plans:
            self._write({"planned": [item.nodeid for item in session.items]})

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self._reports:
            self._write({"began": nodeid})

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if self._reports and report.failed:
            self._write({"test": report.nodeid, "phase": "collect", "outcome": "failed", "text": _text(report)})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._reports:
            self._write({"test": report.nodeid, "phase": report.when, "outcome": report.outcome, "text": _text(report)})


def _text(report: pytest.TestReport | pytest.CollectReport) -> str:
    if report.outcome == "passed":
        return ""
    if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    return shortened(report.longreprtext)


def shortened(text: str) -> str:
    """What a failure says: its end, and if that is not all of it, the first line of what was raised before it."""
    if len(text) <= MOST:
        return text
    raised = next((line for line in text.splitlines() if line.startswith("E ")), "")
    return f"{raised}\n…\n{text[-MOST:]}"


def register(config: pytest.Config) -> None:
    """Have pytest write events, if somebody reads them."""
    path = os.environ.get("GPUFABRIC_EVENTS")
    # Whoever only collects tests, as the check of the fault matrix does after a run, runs none.
    if not path or config.option.collectonly:
        return
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    alone = worker is None and not getattr(config.option, "numprocesses", None)
    config.pluginmanager.register(Events(path, plans=alone or worker == "gw0", reports=worker is None))
