# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.bandwidth import (
    algorithm_bandwidth,
    bus_factor,
    host_traffic,
)


@pytest.mark.parametrize(
    ("collective", "bus", "sent"),
    [
        ("all_reduce", 1.875, 1.875),
        ("all_gather", 0.9375, 0.9375),
        ("reduce_scatter", 0.9375, 0.9375),
        ("broadcast", 1.0, 1.0),
        ("reduce", 1.0, 1.0),
        ("sendrecv", 1.0, 1.0),
        # Each of 4 ranks sends 3 quarters to other hosts; of gather and scatter only one rank has it all.
        ("alltoall", 0.9375, 3.0),
        ("gather", 0.9375, 0.75),
        ("scatter", 0.9375, 0.75),
        ("hypercube", 1.0, None),
        ("alltoallv", None, None),
        (None, None, None),
    ],
)
def test_factors_of_16_ranks_on_4_hosts(collective, bus, sent):
    assert (bus_factor(collective, 16), host_traffic(collective, 16, 4)) == (bus, sent)


def test_of_hypercube_the_ranks_must_be_known():
    assert algorithm_bandwidth("all_reduce", 8000, None, 4.0, 0.005).value == 2.0
    assert algorithm_bandwidth("hypercube", 8000, 16, 4.0, 0.005).value == 1.875
    assert algorithm_bandwidth("hypercube", 8000, None, 4.0, 0.005) is None


def test_a_printed_bandwidth_may_differ_by_what_is_rounded_away():
    worked_out = algorithm_bandwidth("all_reduce", 8 << 20, 8, 1000.0, 0.0)
    assert [worked_out.is_printed(printed, 0.005) for printed in (8.37, 8.38, 8.39, 8.4)] == [False, False, True, False]


def test_what_is_printed_is_refined_within_its_last_digit():
    worked_out = algorithm_bandwidth("all_reduce", 1024, 8, 31.25, 0.005)
    refined = [worked_out.refined(printed, 0.005) for printed in (0.03, 0.04, 0.02)]
    assert refined == pytest.approx([0.032768, 0.03505, 0.02495])
    # Of a time with few digits the printed value is the more exact one, and of none there is nothing to work out.
    assert algorithm_bandwidth("all_reduce", 8 << 20, 8, 74.0, 0.5).refined(113.35, 0.005) == 113.35
    assert algorithm_bandwidth("all_reduce", 1024, 8, 0.005, 0.005) is None
