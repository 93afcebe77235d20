#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_tests_build
short_description: Build nccl-tests or rccl-tests on a node
version_added: 0.2.0
description:
  - Builds the programs with C(MPI=1) against the Open MPI, the CUDA and the NCCL (or the ROCm and the RCCL) of the node, for the
    architectures of its GPUs, in a directory of its own.
  - The directory has a mark that says what the programs were built from. With the same source, settings and versions, the
    next call changes nothing.
  - A build takes minutes. It continues if the connection or the play is lost, and the same task then follows it. While it runs, the task
    shows each program that is done.
  - If something is missing that the build needs, the module fails with one problem for each such thing, and names the packages.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
attributes:
  check_mode:
    support: full
    details:
      - In check mode nothing is downloaded, and a git reference is looked up.
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  state:
    description:
      - V(present) builds the programs. V(absent) ends a build that is running, and removes the directory.
    type: str
    choices: [present, absent]
    default: present
  directory:
    description:
      - Directory on the node, such as V(/opt/nccl-tests). The programs are in C(build) in it, the log of the build is C(build.log).
      - It must not exist yet, be empty, or have been made by this module. Without its mark, nothing in it is ever changed or removed.
      - One that was there before stays, empty, if what was built is removed.
    type: path
    default: /opt/nccl-tests
  archive:
    description: Path of an archive of the source on the controller, as of C(tar). At most 16 MiB.
    type: path
  url:
    description:
      - Address of an archive of the source, which the node downloads. Needs O(checksum).
      - By default the archive of nccl-tests 2.19.6 on GitHub, with its checksum.
      - It must not hold a user, a password or a token. C(~/.netrc) on the node may hold them.
    type: str
  checksum:
    description: SHA-256 of the archive.
    type: str
  git_url:
    description:
      - Repository to take the source from, which the node can reach. Needs O(git_ref).
      - It must not hold a password or a token, and a user only for C(ssh). C(~/.netrc) or a credential helper of git on the node may hold
        them.
    type: str
  git_ref:
    description: Tag, branch or commit in O(git_url). A branch that has moved is built anew.
    type: str
  programs:
    description:
      - Which programs to build, by the names of the collectives or of the programs.
      - By default all.
    type: list
    elements: str
    default: []
  architectures:
    description:
      - The compute capabilities of NVIDIA's GPUs, such as V(9.0), or the names of AMD's architectures, such as V(gfx942).
      - By default those of the node's GPUs. If it has none, those that the source chooses.
    type: list
    elements: str
    default: []
  vendor:
    description: Whose GPUs the programs are for. By default those of the node. If it has none, by the compiler that it has.
    type: str
    choices: [nvidia, amd]
  cuda_home:
    description: Directory of the CUDA toolkit, the one that holds C(bin/nvcc). By default the module searches for it.
    type: path
  rocm_home:
    description: Directory of ROCm, the one that holds C(bin/hipcc). By default the module searches for it.
    type: path
  nccl_home:
    description: Directory of NCCL or RCCL, with C(include) and C(lib) in it. By default the module searches for it.
    type: path
  mpi_prefix:
    description: Directory in which Open MPI is installed. By default that of the node's mpirun.
    type: path
  jobs:
    description: How many compilers run at the same time. By default as many as there are CPUs. Each takes up to 2 GiB of memory.
    type: int
  timeout:
    description:
      - How long the build may take, in seconds.
      - The module tries for at most 20 minutes more to get the source.
    type: int
    default: 3600
  content:
    description: The archive itself, in base64. The action makes it of O(archive).
    type: str
  follow:
    description: The programs that are known to be done. The module then follows a build that is running, and starts none. For the action.
    type: list
    elements: str
requirements:
  - On the node, make, a C++ compiler, CUDA's nvcc and runtime with headers, NCCL with headers, Open MPI with headers; or ROCm with hipcc and RCCL
seealso:
  - module: gpufabric.nccl.nccl_tests_info
  - module: gpufabric.nccl.nccl_tests_spread
"""

EXAMPLES = r"""
- name: Build nccl-tests
  gpufabric.nccl.nccl_tests_build:

- name: Build two programs of an archive, for H100
  gpufabric.nccl.nccl_tests_build:
    archive: ~/nccl-tests-2.17.1.tar.gz
    programs: [all_reduce, alltoall]
    architectures: ["9.0"]

- name: Build a release of rccl-tests
  gpufabric.nccl.nccl_tests_build:
    directory: /opt/rccl-tests
    git_url: https://github.com/ROCm/rccl-tests.git
    git_ref: develop

- name: Remove it
  gpufabric.nccl.nccl_tests_build:
    state: absent
"""

RETURN = r"""
directory:
  description: Directory of the programs, for the option O(gpufabric.nccl.mpi_node_info#module:benchmark_dir).
  returned: O(state=present)
  type: str
  sample: /opt/nccl-tests/build
programs:
  description: The programs; in check mode those that were asked for.
  returned: O(state=present)
  type: list
  elements: str
  sample: [all_reduce_perf, alltoall_perf]
recipe:
  description: What the programs are built from.
  returned: O(state=present)
  type: dict
  contains:
    source: {description: The SHA-256 of the archive or the commit., type: dict, sample: {sha256: adbd3d27}}
    programs: {description: "The programs that were asked for, none for all.", type: list, elements: str, sample: [all_reduce_perf]}
    vendor: {description: V(nvidia) or V(amd)., type: str, sample: nvidia}
    architectures: {description: The architectures., type: list, elements: str, sample: ["9.0"]}
    versions: {description: "Versions of the compiler, of NCCL and of MPI.", type: dict, sample: {compiler: "13.0", nccl: 2.27.7, mpi: openmpi 5.0.7}}
digest:
  description: What the programs are known by. Nodes with the same digest have the same programs.
  returned: O(state=present), not in check mode if there is something to build
  type: str
  sample: 5c2b1e0a9d3f4c77
running:
  description: How far a build is. The action waits until there is none.
  returned: to the action
  type: dict
  contains:
    done: {description: The programs that are done., type: list, elements: str, sample: [all_reduce_perf]}
    line: {description: The last line of the log., type: str, sample: Compiling all_gather.cu}
removed:
  description: What was removed.
  returned: O(state=absent)
  type: list
  elements: str
  sample: [/opt/nccl-tests]
problems:
  description: What is wrong.
  returned: failure
  type: list
  elements: dict
  contains:
    id:
      description: The cause, as L(troubleshooting,https://github.com/gpufabric/gpufabric.nccl/blob/main/docs/troubleshooting.md) describes it.
      type: str
      sample: connect-refused
    severity: {description: V(error) or V(warning)., type: str, sample: error}
    host: {description: The host or pod that has the problem; V(null) if no single one has it., type: str, sample: gpu-2}
    cause: {description: What is wrong., type: str, sample: Nothing listens on 10.0.0.12 port 22.}
    cure: {description: What to do., type: str, sample: Start sshd there.}
    evidence: {description: The output or value that shows it; may be empty., type: str, sample: Connection refused}
"""

import os

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem, ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.run_module import QuietModule, run_module
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.building import (
    Order,
    Progress,
    follow,
    missing_libraries,
    start,
    stop,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.installation import (
    RANGES,
    Installation,
    program_names,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.source import BUILD_TIMEOUT, parse_source
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.toolchain import (
    AMD,
    NVIDIA,
    Places,
    check_architectures,
    check_supported,
    choose_vendor,
    find_toolchain,
    read_architectures,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.info import find_mpi
from ansible_collections.gpufabric.nccl.plugins.module_utils._options import check_ranges

#: How long one call waits for news of a build, in seconds.
_WAIT = 20.0

ARGUMENT_SPEC = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "directory": {"type": "path", "default": "/opt/nccl-tests"},
    "archive": {"type": "path"},
    "url": {"type": "str"},
    "checksum": {"type": "str"},
    "git_url": {"type": "str"},
    "git_ref": {"type": "str"},
    "programs": {"type": "list", "elements": "str", "default": []},
    "architectures": {"type": "list", "elements": "str", "default": []},
    "vendor": {"type": "str", "choices": ["nvidia", "amd"]},
    "cuda_home": {"type": "path"},
    "rocm_home": {"type": "path"},
    "nccl_home": {"type": "path"},
    "mpi_prefix": {"type": "path"},
    "jobs": {"type": "int"},
    "timeout": {"type": "int", "default": BUILD_TIMEOUT},
    "content": {"type": "str"},
    "follow": {"type": "list", "elements": "str"},
}


def make_order(params: dict) -> Order:
    """What is to be built. Raises GpufabricError."""
    jobs = len(os.sched_getaffinity(0)) if params["jobs"] is None else params["jobs"]
    check_ranges(RANGES, {**params, "jobs": jobs})
    programs = program_names(params["programs"])
    places = Places(params["cuda_home"], params["rocm_home"], params["nccl_home"], params["mpi_prefix"])
    found, own = read_architectures()
    vendor = choose_vendor(params["vendor"] or found, places)
    architectures = check_architectures(vendor, params["architectures"] or (own if vendor == found else []))
    toolchain = find_toolchain(vendor, places)
    if vendor == NVIDIA:
        check_supported(toolchain.compiler, toolchain.versions["compiler"], architectures)
    given = [params[option] for option in ("content", "url", "checksum", "git_url", "git_ref")]
    if vendor == AMD and not any(given):
        raise OptionError(
            "git_url", None, "the source of rccl-tests for AMD's GPUs, by git_url and git_ref, url, or archive"
        )
    source = parse_source(*given)
    mpi = find_mpi(params["mpi_prefix"])
    prefix = mpi["prefix"] if mpi else "/usr"
    return Order(source, toolchain, programs, architectures, prefix, jobs, params["timeout"])


def build(params: dict, installation: Installation, check_mode: bool) -> dict:
    """Start or follow a build; what the module returns. Raises GpufabricError."""
    if params["follow"] is not None:
        return built(params, installation, follow(installation, _WAIT, params["follow"]))
    order = make_order(params)
    installation.check()
    mark = installation.read()
    if mark is not None and mark.recipe == order.recipe():
        return installed(params, installation, False)
    if check_mode:
        names = list(order.programs)
        return {"changed": True, "directory": installation.build, "programs": names, "recipe": order.recipe()}
    start(installation, order)
    return built(params, installation, follow(installation, _WAIT))


def built(params: dict, installation: Installation, progress: Progress) -> dict:
    """What a call returns that has followed a build. Raises GpufabricError if it has failed."""
    if progress.outcome is None:
        return {"changed": True, "running": {"done": list(progress.done), "line": progress.line}}
    if progress.outcome.get("problems"):
        raise ProblemError(*map(Problem.from_dict, progress.outcome["problems"]))
    if progress.outcome:
        raise NodeError(progress.outcome["msg"], has_cure=True)
    return installed(params, installation, True)


def installed(params: dict, installation: Installation, changed: bool) -> dict:
    """What the module returns of programs that are there. Raises ProblemError if they cannot start."""
    mark = installation.read()
    if mark is None:
        raise NodeError(f"the programs in {installation.build} are gone, or are not those that were built")
    names = sorted(mark.programs)
    mpi = find_mpi(params["mpi_prefix"])
    paths = [os.path.join(installation.build, name) for name in names]
    missing = missing_libraries(paths, mpi["prefix"] if mpi else "/usr", os.environ)
    if missing:
        facts = {"program": paths[0], "libraries": ", ".join(missing)}
        raise ProblemError(problem("program-library-missing", os.uname().nodename, "", **facts))
    return {
        "changed": changed,
        "directory": installation.build,
        "programs": names,
        "recipe": mark.recipe,
        "digest": mark.digest,
    }


def remove(installation: Installation, check_mode: bool) -> dict:
    """End a build and remove the directory; what the module returns. Raises GpufabricError."""
    removed = installation.remaining()
    if removed and not check_mode:
        stop(installation)
        installation.remove()
    return {"changed": bool(removed), "removed": removed}


def run(params: dict, check_mode: bool) -> dict:
    """What the module returns. Raises GpufabricError."""
    os.umask(0o022)
    installation = Installation(params["directory"])
    return remove(installation, check_mode) if params["state"] == "absent" else build(params, installation, check_mode)


def main() -> None:
    """Run the module."""
    module = QuietModule(
        argument_spec=ARGUMENT_SPEC,
        mutually_exclusive=[("archive", "url", "git_url"), ("content", "url", "git_url"), ("checksum", "git_url")],
        required_together=[("git_url", "git_ref")],
        supports_check_mode=True,
    )
    run_module(module, run)


if __name__ == "__main__":
    main()
