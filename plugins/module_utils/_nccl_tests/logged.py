# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What NCCL logged, in the result document of its test."""

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.result_catalogue import RESULT_CATALOGUE
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.reader import SPEED
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.shapes import FleetFacts
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_log.summary import (
    describe_differences,
    software_of,
    transport_of,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.document import add_problems
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.shapes import ResultDocument
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.torn import host_behind_digits
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import listing


def with_log(document: ResultDocument, fleet: FleetFacts) -> ResultDocument:
    """A document with the transport and the software that the facts tell; warnings name the hosts that differ from most, and ports that changed."""
    ranks = {rank["host"] for rank in document["ranks"]}
    # A row of the table may end right before a line of the log: its last digits are no part of the name.
    hosts = {name: facts for name, facts in fleet.items() if name in ranks or host_behind_digits(name, ranks) is None}
    transport, software = transport_of(hosts), software_of(hosts)
    problems = []
    for identity, found in (("transport-differs", transport), ("software-differs", software)):
        differences = found["differences"] if found else []
        names = list(dict.fromkeys(entry["host"] for entry in differences))
        if names:
            host = names[0] if len(names) == 1 else None
            evidence = describe_differences(differences)
            problems.append(RESULT_CATALOGUE.problem(identity, host=host, evidence=evidence, hosts=listing(names)))
    for name, facts in sorted(hosts.items()):
        if facts.get(SPEED):
            told = listing(sorted(facts[SPEED]))
            problems.append(RESULT_CATALOGUE.problem("rdma-port-speed", host=name, evidence=told, changes=told))
    return add_problems({**document, "transport": transport, "software": software}, problems)
