# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import os

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build import toolchain as module
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.toolchain import (
    Pair,
    Places,
    check_architectures,
    check_supported,
    find_toolchain,
    gencode,
    link_homes,
    make_arguments,
    nccl_version,
    parse_capabilities,
)


def program(path, text="exit 0"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def file(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


NCCL_H = "#define NCCL_MAJOR 2\n#define NCCL_MINOR 27\n#define NCCL_PATCH 7\n"


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A node that has all that a build needs, and nothing else."""
    for name in ("make", "g++"):
        program(tmp_path / "bin" / name)
    program(tmp_path / "cuda/bin/nvcc", 'echo "Cuda compilation tools, release 12.8, V12.8.93"')
    file(tmp_path / "cuda/include/cuda_runtime.h")
    file(tmp_path / "cuda/lib64/libcudart.so")
    file(tmp_path / "nccl/include/nccl.h", NCCL_H)
    file(tmp_path / "nccl/lib/libnccl.so")
    program(tmp_path / "mpi/bin/mpirun", 'echo "mpirun (Open MPI) 4.1.4"')
    file(tmp_path / "mpi/include/mpi.h")
    file(tmp_path / "mpi/lib/libmpi.so")
    monkeypatch.setattr(module, "CUDA_HOMES", (str(tmp_path / "cuda"),))
    monkeypatch.setattr(module, "NCCL_HOMES", (str(tmp_path / "nccl"),))
    monkeypatch.setattr(module, "_SYSTEM_INCLUDES", ())
    programs = {name: str(tmp_path / "bin" / name) for name in ("make", "g++")}
    monkeypatch.setattr(module, "find_program", lambda name: _there(programs.get(name)))
    return tmp_path


def _there(path):
    return path if path and os.path.exists(path) else None


def places(root):
    return Places(mpi_prefix=str(root / "mpi"))


def test_what_a_build_needs_is_found(root):
    found = find_toolchain("nvidia", places(root))
    assert found.home == str(root / "cuda") and found.compiler == str(root / "cuda/bin/nvcc")
    assert found.library == str(root / "cuda/lib64")
    assert found.nccl == Pair(str(root / "nccl/include"), str(root / "nccl/lib"))
    assert found.mpi == Pair(str(root / "mpi/include"), str(root / "mpi/lib"))
    assert found.versions == {"compiler": "12.8", "nccl": "2.27.7", "mpi": "openmpi 4.1.4"}


@pytest.mark.parametrize(
    ("lost", "what", "deb", "rpm"),
    [
        ("bin/make", "make", "make", "make"),
        ("bin/g++", "C++ compiler", "g++", "gcc-c++"),
        ("cuda/bin/nvcc", "nvcc", "cuda-nvcc-MAJOR-MINOR", "cuda-nvcc-MAJOR-MINOR"),
        (
            "cuda/include/cuda_runtime.h",
            "cuda_runtime.h",
            "cuda-cudart-dev-MAJOR-MINOR",
            "cuda-cudart-devel-MAJOR-MINOR",
        ),
        ("cuda/lib64/libcudart.so", "libcudart.so", "cuda-cudart-dev-MAJOR-MINOR", "cuda-cudart-devel-MAJOR-MINOR"),
        ("nccl/include/nccl.h", "nccl.h", "libnccl-dev", "libnccl-devel"),
        ("nccl/lib/libnccl.so", "libnccl.so", "libnccl-dev", "libnccl-devel"),
        ("mpi/include/mpi.h", "mpi.h", "libopenmpi-dev", "openmpi-devel"),
        ("mpi/lib/libmpi.so", "libmpi.so", "libopenmpi-dev", "openmpi-devel"),
    ],
)
def test_what_is_missing_is_one_problem_with_its_packages(root, lost, what, deb, rpm):
    (root / lost).unlink()
    with pytest.raises(ProblemError) as caught:
        find_toolchain("nvidia", places(root))
    (problem,) = caught.value.problems
    assert problem.id == "build-requirement-missing" and what in problem.cause
    assert f"Debian, Ubuntu: apt-get install {deb};" in problem.cure
    assert f"RHEL and its kin: dnf install {rpm}" in problem.cure


def test_all_that_is_missing_is_told_at_once(root):
    for lost in ("bin/make", "nccl/include/nccl.h", "mpi/include/mpi.h"):
        (root / lost).unlink()
    with pytest.raises(ProblemError) as caught:
        find_toolchain("nvidia", places(root))
    assert len(caught.value.problems) == 3


def test_a_place_that_is_given_is_the_only_one(root):
    with pytest.raises(ProblemError, match=r"nvcc\) in /nowhere"):
        find_toolchain("nvidia", Places(cuda_home="/nowhere", mpi_prefix=str(root / "mpi")))
    with pytest.raises(OptionError, match="cuda_home: '/a b' is not allowed"):
        Places(cuda_home="/a b")


def test_a_compiler_on_the_path_that_only_calls_another_is_no_toolkit(root, monkeypatch):
    program(root / "bin/nvcc")
    known = module.find_program
    monkeypatch.setattr(module, "find_program", lambda name: str(root / "bin/nvcc") if name == "nvcc" else known(name))
    assert find_toolchain("nvidia", places(root)).home == str(root / "cuda")


def test_the_newest_of_several_toolkits_is_taken(root, monkeypatch):
    for version in ("9.2", "12.4"):
        for path in ("bin/nvcc", "include/cuda_runtime.h", "lib64/libcudart.so"):
            program(root / f"cuda-{version}" / path, f'echo "release {version}"')
    monkeypatch.setattr(module, "CUDA_HOMES", (str(root / "cuda-*"),))
    found = find_toolchain("nvidia", places(root))
    assert (found.home, found.versions["compiler"]) == (str(root / "cuda-12.4"), "12.4")


def test_rccl(root, monkeypatch):
    program(root / "rocm/bin/hipcc", 'echo "HIP version: 6.4.43482"')
    program(root / "rocm/bin/hipify-perl", "true")
    file(root / "rocm/include/rccl/rccl.h", NCCL_H)
    file(root / "rocm/lib/librccl.so")
    monkeypatch.setattr(module, "ROCM_HOMES", (str(root / "rocm"),))
    found = find_toolchain("amd", places(root))
    assert found.versions["compiler"] == "6.4" and found.versions["nccl"] == "2.27.7"
    arguments = make_arguments(found, "/w/links", "/w/objects", ["gfx90a", "gfx942"], [], 8)
    assert arguments == [
        "--jobs=8",
        "MPI=1",
        "MPI_HOME=/w/links/mpi",
        "BUILDDIR=/w/objects",
        f"ROCM_PATH={root}/rocm",
        f"HIP_HOME={root}/rocm",
        f"HIPCC={root}/rocm/bin/hipcc",
        "GPU_TARGETS=gfx90a,gfx942",
        "build",
    ]
    # One that somebody has built.
    file(root / "own/include/rccl.h", NCCL_H)
    file(root / "own/lib/librccl.so")
    own = find_toolchain("amd", dataclasses.replace(places(root), nccl_home=str(root / "own")))
    assert "NCCL_HOME=/w/links/nccl" in make_arguments(own, "/w/links", "/w/objects", [], [], 8)
    (root / "rocm/bin/hipify-perl").unlink()
    with pytest.raises(ProblemError, match="hipify-clang; RHEL and its kin: dnf install hipify-clang"):
        find_toolchain("amd", places(root))
    program(root / "rocm/bin/hipify-perl", "true")
    (root / "rocm/lib/librccl.so").unlink()
    with pytest.raises(ProblemError, match="rccl-dev; RHEL and its kin: dnf install rccl-devel"):
        find_toolchain("amd", places(root))


def toolchain(root):
    return find_toolchain("nvidia", places(root))


def test_arguments_of_make(root):
    arguments = make_arguments(toolchain(root), "/w/links", "/w/objects", ["8.0", "9.0"], ["all_reduce_perf"], 2)
    assert arguments[0] == "--jobs=2" and arguments[-1] == "/w/objects/all_reduce_perf"
    assert dict(argument.split("=", 1) for argument in arguments[1:-1]) == {
        "MPI": "1",
        "MPI_HOME": "/w/links/mpi",
        "BUILDDIR": "/w/objects",
        "CUDA_HOME": str(root / "cuda"),
        "CUDA_LIB": str(root / "cuda/lib64"),
        "NVCC": str(root / "cuda/bin/nvcc"),
        "CXX": str(root / "bin/g++"),
        "NCCL_HOME": "/w/links/nccl",
        "NVCC_GENCODE": "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90"
        " -gencode=arch=compute_90,code=compute_90",
    }
    # Without GPUs the source chooses.
    assert not any("GENCODE" in argument for argument in make_arguments(toolchain(root), "/l", "/o", [], [], 1))


def test_homes_of_links(root, tmp_path):
    file(root / "nccl/include/stdio.h")
    link_homes(toolchain(root), str(tmp_path / "links"))
    # Other headers would come before the compiler's own.
    assert sorted(os.listdir(tmp_path / "links/nccl/include")) == ["nccl.h"]
    for part in ("nccl/lib/libnccl.so", "mpi/include/mpi.h", "mpi/lib/libmpi.so"):
        assert (tmp_path / "links" / part).exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9.0\n9.0\n", ["9.0"]),
        ("10.0\n9.0\n8.6\n", ["8.6", "9.0", "10.0"]),
        ("[N/A]\n", []),
        ('Field "compute_cap" is not a valid field to query.\n', []),
    ],
)
def test_compute_capabilities(text, expected):
    assert parse_capabilities(text) == expected


def test_architectures():
    assert check_architectures("nvidia", ["10.0", "9.0", "9.0"]) == ["9.0", "10.0"]
    assert check_architectures("amd", ["gfx942"]) == ["gfx942"]
    assert gencode(["12.0"]) == "-gencode=arch=compute_120,code=sm_120 -gencode=arch=compute_120,code=compute_120"
    for vendor, wrong in (("nvidia", "sm_90"), ("nvidia", "9.0 $(id)"), ("nvidia", "\u0669.0"), ("amd", "9.0")):
        with pytest.raises(OptionError, match="architectures: .* is not allowed"):
            check_architectures(vendor, [wrong])


def test_an_architecture_that_the_compiler_does_not_know(tmp_path):
    program(tmp_path / "nvcc", "printf 'compute_75\\ncompute_90\\ncompute_100\\n'")
    check_supported(str(tmp_path / "nvcc"), "13.0", ["9.0", "10.0"])
    with pytest.raises(ProblemError) as caught:
        check_supported(str(tmp_path / "nvcc"), "13.0", ["7.0"])
    (problem,) = caught.value.problems
    assert problem.id == "build-architecture" and "compute capability 7.0" in problem.cause
    assert problem.evidence == "nvcc 13.0 supports 7.5, 9.0, 10.0"
    program(tmp_path / "old", "exit 1")
    check_supported(str(tmp_path / "old"), "11.0", ["7.0"])


def test_version_of_nccl(tmp_path):
    file(tmp_path / "nccl.h", NCCL_H)
    assert nccl_version(str(tmp_path)) == "2.27.7"
    assert nccl_version(str(tmp_path / "nothing")) == ""
