# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import hashlib
import json
import pathlib

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.installation import Installation, Mark
from ansible_collections.gpufabric.nccl.plugins.modules import nccl_tests_build, nccl_tests_info, nccl_tests_spread

DIRECTORY = "is not allowed; allowed: an absolute path of two parts or more, such as /opt/nccl-tests, of letters, digits and ._+-"
PATH = "is not allowed; allowed: an absolute path of letters, digits and ._/+-"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"directory": "/opt"}, f"directory: '/opt' {DIRECTORY}"),
        ({"directory": "/opt/a b"}, f"directory: '/opt/a b' {DIRECTORY}"),
        ({"state": "absent", "directory": "/"}, f"directory: '/' {DIRECTORY}"),
        ({"jobs": 0}, "jobs: 0 is not allowed; allowed: 1 to 1024"),
        ({"timeout": 0}, "timeout: 0 is not allowed; allowed: 1 to 86400 seconds"),
        (
            {"programs": ["../x"]},
            "programs: '../x' is not allowed; allowed: the name of a collective such as all_reduce, or of its program",
        ),
        ({"cuda_home": "/opt/a b"}, f"cuda_home: '/opt/a b' {PATH}"),
        ({"nccl_home": "/opt/$(id)"}, f"nccl_home: '/opt/$(id)' {PATH}"),
        (
            {"vendor": "amd", "architectures": ["9.0"]},
            "architectures: '9.0' is not allowed; allowed: such as gfx942",
        ),
        ({"git_url": "https://x/y"}, "parameters are required together: git_url, git_ref"),
        (
            {"git_url": "https://x/y", "git_ref": "a", "url": "https://x/z"},
            "parameters are mutually exclusive: archive|url|git_url, content|url|git_url",
        ),
    ],
)
def test_builds_that_are_refused(refuse, options, message):
    refuse(nccl_tests_build, {"directory": "{tmp}/nccl-tests", **options}, message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 0}, "timeout: 0 is not allowed; allowed: 1 to 86400 seconds"),
        (
            {"hosts": [{"name": "a", "address": "-oProxyCommand=id"}]},
            "hosts[0].address: '-oProxyCommand=id' is not allowed; allowed: a numeric IPv4 or IPv6 address without a zone",
        ),
        (
            {"directory": "{public}/nccl-tests"},
            "{public}, on the way to {public}/nccl-tests, may be written by everybody, who can put other programs there; set"
            " nccl_tests_dir to a path below directories of root and of this user that nobody else may write",
        ),
        ({}, "there are no programs in {tmp}/nccl-tests/build, or not those that were built"),
    ],
)
def test_what_is_not_sent(refuse, options, message):
    hosts = [{"name": "a", "address": "10.0.0.1", "port": 22}]
    refuse(nccl_tests_spread, {"directory": "{tmp}/nccl-tests", "hosts": hosts, **options}, message)


def test_a_look_is_refused(refuse):
    refuse(nccl_tests_info, {"directory": "/opt"}, f"directory: '/opt' {DIRECTORY}")


def test_programs_that_others_may_have_put_there_are_not_read(words):
    """They might be a pipe, which is never read to its end."""
    there = Installation(f"{words['public']}/nccl-tests")
    pathlib.Path(there.build).mkdir(parents=True)
    program = pathlib.Path(there.build, "all_reduce_perf")
    program.touch(0o755)
    mark = Mark({}, {program.name: hashlib.sha256(b"").hexdigest()})
    pathlib.Path(there.mark).write_text(mark.as_text())
    assert there.read() == mark
    places = dict.fromkeys(("cuda_home", "rocm_home", "nccl_home", "mpi_prefix"))
    node = nccl_tests_info.run({"directory": there.path, **places}, False)["node"]
    assert f"{words['public']}, on the way to" in node["reason"] and node["digest"] is None


@pytest.mark.parametrize("check", [True, False])
def test_what_others_have_is_not_removed(capsys, tmp_path, check):
    (tmp_path / "nccl-tests" / "build").mkdir(parents=True)
    options = {"state": "absent", "directory": str(tmp_path / "nccl-tests"), "_ansible_check_mode": check}
    with patch_module_args(options), pytest.raises(SystemExit):
        nccl_tests_build.main()
    result = json.loads(capsys.readouterr().out)
    assert (result["changed"], result["removed"]) == (False, [])
    assert (tmp_path / "nccl-tests" / "build").is_dir()
