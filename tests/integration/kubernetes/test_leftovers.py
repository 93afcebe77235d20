# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run of the tests that is killed leaves nothing that the next one meets."""

from __future__ import annotations

import subprocess
import uuid

import pytest
from job_runs import Definition
from leftovers import is_of_tests, owned, remove_namespace, sweep


def test_the_namespace_of_a_run_that_is_gone_is_removed_and_no_other(cluster, namespace):
    left = f"gpufabric-test-{uuid.uuid4().hex[:8]}"
    with subprocess.Popen(["sleep", "infinity"]) as killed:
        metadata = {"name": left, **owned(killed.pid)}
        killed.kill()
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})

    def stays(name: str) -> bool:
        argv = ("get", "namespace", name, "--ignore-not-found", "--output=jsonpath={.metadata}")
        found = cluster.kubectl(*argv).stdout
        return found != "" and "deletionTimestamp" not in found

    try:
        assert (stays(left), stays(namespace)) == (True, True)
        sweep(cluster)
        assert (stays(left), stays(namespace)) == (False, True)
    finally:
        remove_namespace(cluster, left)


def test_the_definition_of_mpijobs_that_a_run_left_is_used(cluster, mpijobs):
    try:
        Definition(cluster)
    except pytest.skip.Exception as error:
        pytest.fail(str(error))
    assert not is_of_tests({"metadata": {"name": "mpijobs.kubeflow.org", "labels": {"app": "mpi-operator"}}})
