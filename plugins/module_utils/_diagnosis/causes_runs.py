# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Why a play leaves a run alone that there is already."""

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.entry import Entry, entry

ENTRIES: tuple[Entry, ...] = (
    entry(
        "run-in-use",
        "The run[ {run_id}] [{state}|is still going on with other points or settings][, started {age}]"
        "[ ({ended} of {total} points are over)].",
        "Wait for its end, or set gpufabric_run_id to another name. To end it: mpi_run with state=stopped, or the playbook"
        " gpufabric.nccl.teardown.",
        found_by="mpi_run, mpi_hostfile, sshd_instance, local_nodes and the role mpijob",
    ),
    entry(
        "run-beside",
        "Programs of another run[, {run_id},][ of {owner}][, started {age},] are on the host. Both runs measure less than the machine can do.",
        "Wait for the end of that run, and then run this one again. To end it, run the playbook gpufabric.nccl.teardown[ with -e"
        " gpufabric_run_id={run_id}]; if it is another owner's, with -e gpufabric_take_over=true as well.",
        severity="warning",
        found_by="mpi_node_info, with the programs of this user; as root, with those of all",
    ),
    entry(
        "run-taken",
        "The run[ {run_id}] [{state}|belongs to another owner][, started {age}].",
        "Set gpufabric_run_id to another name. To replace that run, set gpufabric_take_over=true.",
        found_by="sshd_instance, mpi_hostfile, mpi_run, run_cleanup, local_nodes and the roles worker_pods and mpijob",
    ),
)
