# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._preflight.planning import plan, read_config
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir


@pytest.mark.parametrize("expect", [{"clock_skew": float("nan")}, {"gpus": -1}])
def test_what_no_host_could_miss_or_have_is_refused(expect):
    (name,) = expect
    with pytest.raises(OptionError, match=rf"^expect\.{name}: .* is not allowed; allowed: 0 or more$"):
        plan({"environment": [], "timeout": 5.0, "expect": expect}, RunDir("r", None), "", [])


def test_a_configuration_without_hosts_is_none_of_a_run(tmp_path):
    run_dir = RunDir("r", str(tmp_path / "r"))
    (tmp_path / "r" / "ssh").mkdir(parents=True)
    for text in ("", "# nothing\n", "Host 10.0.0.1\n"):
        (tmp_path / "r" / "ssh" / "config").write_text(text)
        if "Host" in text:
            assert read_config(run_dir) == text
            continue
        with pytest.raises(OptionError, match="^run_dir: "):
            read_config(run_dir)
