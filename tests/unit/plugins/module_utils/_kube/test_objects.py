# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._kube.objects import labels, object_name, selector

LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?\Z")


@pytest.mark.parametrize("run_id", ["default", "nightly-3", "a", "x" * 30])
def test_a_name_that_fits_is_kept(run_id):
    assert object_name(run_id) == f"gpufabric-{run_id}"


@pytest.mark.parametrize("run_id", ["Nightly", "a_b", "a.b", "-a", "a-", "x" * 31, "x" * 63, "___", "a--b"])
def test_a_name_that_does_not_fit_is_changed_and_stays_unique(run_id):
    name = object_name(run_id)
    assert LABEL.match(name) and len(name) <= 40
    assert name != f"gpufabric-{run_id}"


def test_names_that_are_cut_at_the_same_place_differ():
    assert object_name("x" * 40 + "1") != object_name("x" * 40 + "2")
    assert object_name("Run") != object_name("run")


def test_labels_and_selector():
    assert labels("Run_1.a") == {"app.kubernetes.io/managed-by": "gpufabric.nccl", "gpufabric.nccl/run": "Run_1.a"}
    assert selector("a") == "app.kubernetes.io/managed-by=gpufabric.nccl,gpufabric.nccl/run=a"


@pytest.mark.parametrize("run_id", ["", "-a", "a-", "a b", "x" * 64, "a\n"])
def test_a_run_that_is_no_label_is_refused(run_id):
    with pytest.raises(OptionError, match="gpufabric_run_id"):
        labels(run_id)
