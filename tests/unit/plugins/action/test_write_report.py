# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import pathlib

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.gpufabric.nccl.plugins.action.report_folder import ActionModule as FolderModule
from ansible_collections.gpufabric.nccl.plugins.action.write_report import ActionModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import parse_results

FIXTURES = pathlib.Path(__file__).parents[2] / "fixtures" / "nccl_tests"


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": "x"},
        {"points": []},
        {"points": {"sweep": 5}},
        {"config": [1]},
        {"config": {"minbytes": float("nan")}},
        {"verdicts": 5},
    ],
    ids=str,
)
def test_documents_that_were_edited_by_hand_are_one_error_and_no_file(planned, tmp_path, change):
    (document,) = parse_results((FIXTURES / "2.10-all_reduce.txt").read_text().splitlines())
    edited = {**copy.deepcopy(document), **change}
    with pytest.raises(
        AnsibleActionFail,
        match=r"^(results: documents are needed as nccl_result returns them \(|a list of result documents is needed; )",
    ):
        planned(ActionModule, "report", {"results": [edited], "dest": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("action", [ActionModule, FolderModule])
def test_what_is_in_the_way_of_a_folder_is_said_once(planned, tmp_path, action):
    (tmp_path / "file").touch()
    place = str(tmp_path / "file" / "results")
    arguments = {"path": place, "option": "report_dir"} if action is FolderModule else {"results": [], "dest": place}
    with pytest.raises(AnsibleActionFail, match="Not a directory") as told:
        planned(action, "report", arguments)
    # Ansible adds the words of the cause to those of the error.
    assert told.value.__cause__ is None and str(told.value).count("Not a directory") == 1
