# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The chapters of the catalogue that modules on a node use: builds, runs, names, ssh, memory and files."""

from __future__ import annotations

import socket
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis import (
    causes_build,
    causes_runs,
    causes_ssh,
    causes_system,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.catalogue import Catalogue
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError

NODE_CATALOGUE = Catalogue(causes_build.ENTRIES, causes_runs.ENTRIES, causes_ssh.ENTRIES, causes_system.ENTRIES)


def known_cause(identity: str, evidence: str = "", **facts: t.Any) -> ProblemError:
    """The error for a cause on this node, by its id in the catalogue."""
    return ProblemError(NODE_CATALOGUE.problem(identity, socket.gethostname(), evidence, **facts))
