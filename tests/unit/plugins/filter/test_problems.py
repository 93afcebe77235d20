# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.filter.problems import play_problems
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem

LOST = problem("pod-lost", "b").as_dict()
#: What the output of a run looks like that was ended in its middle.
CUT = [{**problem(identity).as_dict(), "severity": "warning"} for identity in ("output-cut", "rows-lost")]


def failed(*problems):
    return {"failed": True, "msg": "told", "problems": list(problems)}


def test_an_output_that_ends_early_is_no_news_where_pods_were_lost():
    assert play_problems({"a": failed(*CUT)}, [LOST]) == [LOST]
    other = problem("disk-full", "a").as_dict()
    assert play_problems({"a": failed(other, *CUT)}, [LOST]) == [LOST, other]


def test_an_output_that_ends_early_is_told_where_nothing_else_is():
    assert play_problems({"a": failed(*CUT)}, []) == CUT
