# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""NCCL's warnings in the output of a run, which may have passed."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.reader import COMPLAINT, Facts, Source
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.result_catalogue import RESULT_CATALOGUE
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.torn import host_behind_digits

#: Lines that are kept, and characters of each: one of each kind of every host of a large cluster.
_MOST = 4096
_LONGEST = 1024
_HOST = re.compile(r"(?:^|[\s:])([\w.-]+):\d+:\d+ \[-?\d+\] ")


class Complaints:
    """The lines with warnings: of what several ranks of a host say, one."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str], str] = {}

    def add(self, line: str) -> None:
        """Take a line that has one."""
        if len(self._lines) >= _MOST:
            return
        shown = line[:_LONGEST].rstrip()
        before, _mark, said = shown.partition(COMPLAINT)
        host = _HOST.search(before)
        self._lines.setdefault((host.group(1) if host else "", said), shown)

    def follow(self, others: Complaints) -> None:
        """Take those of others, which came after these, too."""
        for key, shown in others._lines.items():
            if len(self._lines) >= _MOST:
                return
            self._lines.setdefault(key, shown)

    def problems(self, facts: Facts, hosts: t.AbstractSet[str]) -> list[Problem]:
        """Their causes, as warnings. ``hosts``: of the ranks, as they call themselves."""
        if not self._lines:
            return []
        torn = {said: host_behind_digits(said, hosts) for said, _text in self._lines if said not in hosts}
        names = {**facts.names, **{said: facts.names.get(host, host) for said, host in torn.items() if host}}
        source = Source("any", self._lines.values(), numbered=False)
        return RESULT_CATALOGUE.diagnose([source], 0, Facts(names, facts.ranks))
