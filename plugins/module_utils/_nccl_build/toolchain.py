# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What nccl-tests and rccl-tests are built with: compilers, headers and libraries of a node, and the arguments of make."""

from __future__ import annotations

import dataclasses
import glob
import os
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.node_catalogue import known_cause
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem, ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import read_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.info import find_mpi, read_gpus
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import find_program, run

NVIDIA, AMD = VENDORS = ("nvidia", "amd")

#: Where the toolkits are, beside the one whose compiler is on the PATH. Debian's own nvidia-cuda-toolkit is in /usr.
CUDA_HOMES = ("/usr/local/cuda", "/usr/local/cuda-*", "/opt/cuda", "/usr")
ROCM_HOMES = ("/opt/rocm", "/opt/rocm-*")
#: Where NCCL is, beside the system's own directories and the toolkit's.
NCCL_HOMES = ("/usr/local", "/usr/local/nccl*", "/opt/nccl*")

#: What Open MPI's compiler wrapper would say, where it is missing: below its prefix, and as distributions have it.
_MPI_INCLUDES = ("{prefix}/include", "{prefix}/include/openmpi*", "{prefix}/lib/*/openmpi/include")
_MPI_LIBRARIES = ("{prefix}/lib", "{prefix}/lib64", "{prefix}/lib/*/openmpi/lib")
_SYSTEM_INCLUDES = ("/usr/include/openmpi-*",)

_CAPABILITY = re.compile(r"[0-9]{1,2}\.[0-9]\Z")
_GFX = re.compile(r"gfx[0-9a-f]{3,5}(?::[a-z]+[+-])*\Z")
#: Blanks, quotes, dollars and colons mean something to make or to the shell that it starts.
_PATH = re.compile(r"/[A-Za-z0-9._/+-]*\Z")


@dataclasses.dataclass(frozen=True)
class Requirement:
    """What a build needs, and the packages that have it: of Debian and Ubuntu, and of RHEL and its kin. ``option``: names its place."""

    what: str
    deb: str
    rpm: str
    option: str = ""
    note: str = ""


_OF_NVIDIA = "from NVIDIA's repository, MAJOR-MINOR such as 12-8, for a CUDA that the driver supports"
_OF_AMD = "from AMD's repository"
REQUIREMENTS = {
    "make": Requirement("make", "make", "make"),
    "c++": Requirement("C++ compiler (g++)", "g++", "gcc-c++"),
    "git": Requirement("git", "git", "git"),
    "nvcc": Requirement(
        "CUDA compiler (nvcc)", "cuda-nvcc-MAJOR-MINOR", "cuda-nvcc-MAJOR-MINOR", "nccl_tests_cuda_home", _OF_NVIDIA
    ),
    "cuda": Requirement(
        "CUDA runtime for the build (cuda_runtime.h, libcudart.so)",
        "cuda-cudart-dev-MAJOR-MINOR",
        "cuda-cudart-devel-MAJOR-MINOR",
        "nccl_tests_cuda_home",
        _OF_NVIDIA,
    ),
    "nccl": Requirement(
        "NCCL for the build (nccl.h, libnccl.so)",
        "libnccl-dev",
        "libnccl-devel",
        "nccl_tests_nccl_home",
        "from NVIDIA's repository, of the version of libnccl2 (RHEL: libnccl) that is installed",
    ),
    "hipcc": Requirement("HIP compiler (hipcc)", "hipcc", "hipcc", "nccl_tests_rocm_home", _OF_AMD),
    # rccl-tests makes its source from that of nccl-tests by it.
    "hipify": Requirement("HIPIFY (hipify-perl)", "hipify-clang", "hipify-clang", "nccl_tests_rocm_home", _OF_AMD),
    "rccl": Requirement(
        "RCCL for the build (rccl.h, librccl.so)", "rccl-dev", "rccl-devel", "nccl_tests_nccl_home", _OF_AMD
    ),
    "mpi": Requirement("Open MPI with mpirun", "openmpi-bin", "openmpi", "gpufabric_mpi_prefix"),
    "mpi.h": Requirement(
        "Open MPI for the build (mpi.h, libmpi.so)", "libopenmpi-dev", "openmpi-devel", "gpufabric_mpi_prefix"
    ),
}


def missing_requirement(name: str, place: str = "") -> Problem:
    """The problem of a node that lacks something to build with. ``place``: where it was looked for, if only there."""
    needed = REQUIREMENTS[name]
    facts = {"what": needed.what, "deb": needed.deb, "rpm": needed.rpm}
    for fact, value in (("place", place), ("option", needed.option), ("note", needed.note)):
        if value:
            facts[fact] = value
    return known_cause("build-requirement-missing", **facts).problems[0]


@dataclasses.dataclass(frozen=True)
class Places:
    """Where the user says that things are; None: they are looked for. ``mpi_prefix``: of the Open MPI that runs the programs."""

    cuda_home: str | None = None
    rocm_home: str | None = None
    nccl_home: str | None = None
    mpi_prefix: str | None = None

    def __post_init__(self) -> None:
        """Raise OptionError unless make can take the paths as they are."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None and not _PATH.match(value):
                raise OptionError(field.name, value, "an absolute path of letters, digits and ._/+-")


@dataclasses.dataclass(frozen=True)
class Pair:
    """Where the headers of something are, and its libraries."""

    include: str
    library: str


@dataclasses.dataclass(frozen=True)
class Toolchain:
    """All that a build needs. ``home``: of the toolkit, ``library`` its libraries. ``nccl``: or RCCL. ``versions``: by what they are of."""

    vendor: str
    home: str
    compiler: str
    cxx: str
    make: str
    library: str
    nccl: Pair
    mpi: Pair
    versions: t.Mapping[str, str]


def choose_vendor(known: str | None, places: Places) -> str:
    """Whose GPUs to build for: as known, else by the compiler that there is."""
    if known:
        return known
    has_hipcc = _find_compiler("hipcc", places.rocm_home, ROCM_HOMES)[1]
    return AMD if has_hipcc and not _find_compiler("nvcc", places.cuda_home, CUDA_HOMES)[1] else NVIDIA


def find_toolchain(vendor: str, places: Places) -> Toolchain:
    """What the node builds with. Raises ProblemError, with a problem for each thing that it lacks, or OptionError."""
    missing: list[Problem] = []

    def need(name: str, found: t.Any, place: str | None = None) -> t.Any:
        if not found:
            missing.append(missing_requirement(name, place or ""))
        return found

    make = need("make", find_program("make"))
    cxx = need("c++", find_program("g++") or find_program("c++")) if vendor == NVIDIA else ""
    if vendor == NVIDIA:
        home, found = _find_compiler("nvcc", places.cuda_home, CUDA_HOMES, _find_runtime)
        compiler = need("nvcc", found, places.cuda_home)
        runtime = need("cuda", _find_runtime(home), home) if compiler else None
        nccl = need("nccl", _find_nccl(places.nccl_home, home, "nccl"), places.nccl_home)
    else:
        home, found = _find_compiler("hipcc", places.rocm_home, ROCM_HOMES)
        compiler = need("hipcc", found, places.rocm_home)
        if compiler:
            beside = os.path.join(os.path.dirname(compiler), "hipify-perl")
            need("hipify", os.access(beside, os.X_OK) or find_program("hipify-perl"), home)
        runtime = Pair(f"{home}/include", f"{home}/lib")
        nccl = need("rccl", _find_nccl(places.nccl_home, home, "rccl"), places.nccl_home)
    found_mpi = find_mpi(places.mpi_prefix)
    need("mpi", found_mpi)
    pair = _find_mpi_pair(found_mpi["mpirun"], found_mpi["prefix"]) if found_mpi else None
    mpi = need("mpi.h", pair, found_mpi["prefix"]) if found_mpi else None
    if missing or mpi is None:
        raise ProblemError(*missing)
    versions = {
        "compiler": read_compiler_version(compiler),
        "nccl": nccl_version(nccl.include),
        "mpi": f"{found_mpi['implementation']} {found_mpi['version']}" if found_mpi else "",
    }
    return Toolchain(vendor, home, compiler, cxx, make, runtime.library if runtime else "", nccl, mpi, versions)


def _find_compiler(
    name: str, given: str | None, homes: t.Sequence[str], is_whole: t.Callable[[str], t.Any] = bool
) -> tuple[str, str | None]:
    """The home of a toolkit, and its compiler; None where there is none. ``is_whole``: what a home should have beside it.

    The compiler on the PATH may be a script that calls one elsewhere.
    """
    on_path = find_program(name)
    beside = [os.path.dirname(os.path.dirname(os.path.realpath(on_path)))] if on_path else []
    # The newest of several versions.
    usual = [path for pattern in homes for path in sorted(glob.glob(pattern), key=_by_numbers, reverse=True)]
    paths = [(home, os.path.join(home, "bin", name)) for home in ([given] if given else [*beside, *usual])]
    found = [(home, path) for home, path in paths if os.access(path, os.X_OK) and not os.path.isdir(path)]
    none: tuple[str, str | None] = (given or "", None)
    return next((one for one in found if is_whole(one[0])), found[0] if found else none)


def _by_numbers(path: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path)]


def _find_runtime(home: str) -> Pair | None:
    """Headers and libraries of CUDA's runtime. Debian's own package spreads them over the system's directories."""
    return find_pair(
        ("cuda_runtime.h", "libcudart.so"),
        (f"{home}/include", f"{home}/targets/*/include"),
        (f"{home}/lib64", f"{home}/lib", f"{home}/targets/*/lib", f"{home}/lib/*-linux-gnu"),
    )


def _find_nccl(given: str | None, toolkit: str, name: str) -> Pair | None:
    homes = (given,) if given else ("/usr", toolkit, *NCCL_HOMES)
    for home in homes:
        found = find_pair(
            (f"{name}.h", f"lib{name}.so"),
            (f"{home}/include", f"{home}/include/{name}"),
            (f"{home}/lib64", f"{home}/lib", f"{home}/lib/*-linux-gnu"),
        )
        if home and found:
            return found
    return None


def _find_mpi_pair(mpirun: str, prefix: str) -> Pair | None:
    """Headers and libraries of the Open MPI of an mpirun: its compiler wrapper knows them best."""
    wrapper = os.path.join(os.path.dirname(mpirun), "mpicc")
    includes, libraries = _ask_wrapper(wrapper, "incdirs"), _ask_wrapper(wrapper, "libdirs")
    includes += [pattern.format(prefix=prefix) for pattern in _MPI_INCLUDES] + list(_SYSTEM_INCLUDES)
    libraries += [pattern.format(prefix=prefix) for pattern in _MPI_LIBRARIES]
    return find_pair(("mpi.h", "libmpi.so"), includes, libraries)


def _ask_wrapper(wrapper: str, what: str) -> list[str]:
    if not os.access(wrapper, os.X_OK):
        return []
    try:
        answer = run([wrapper, f"--showme:{what}"])
    except NodeError:
        return []
    return [path for path in answer.stdout.split() if _PATH.match(path)] if answer.returncode == 0 else []


def find_pair(names: tuple[str, str], includes: t.Iterable[str], libraries: t.Iterable[str]) -> Pair | None:
    """The first of the directories (patterns of glob) that has the header, and the first that has the library."""
    found = []
    for name, patterns in zip(names, (includes, libraries)):
        paths = [path for pattern in patterns for path in sorted(glob.glob(pattern))]
        found.append(next((path for path in paths if os.path.exists(os.path.join(path, name))), None))
    include, library = found
    return Pair(include, library) if include and library else None


def read_compiler_version(compiler: str) -> str:
    """Such as 13.0, as nvcc and hipcc print it; empty where they print something else. Raises NodeError."""
    text = run([compiler, "--version"]).stdout
    found = re.search(r"release (\d+\.\d+)|HIP version: (\d+\.\d+)", text)
    return (found.group(1) or found.group(2)) if found else ""


def nccl_version(include: str) -> str:
    """Such as 2.27.7, by the header of NCCL or RCCL; empty where it does not say."""
    for name in ("nccl.h", "rccl.h"):
        numbers = dict(
            re.findall(r"^#define NCCL_(MAJOR|MINOR|PATCH) +(\d+)", read_text(f"{include}/{name}") or "", re.M)
        )
        if len(numbers) == 3:
            return "{MAJOR}.{MINOR}.{PATCH}".format(**numbers)
    return ""


def read_architectures() -> tuple[str | None, list[str]]:
    """Vendor and architectures of the node's GPUs, such as 9.0 or gfx942, as far as they are known. Raises NodeError."""
    gpus = read_gpus()
    if gpus["vendor"] == AMD:
        return AMD, sorted(name for name in gpus["names"] if _GFX.match(name))
    if gpus["vendor"] != NVIDIA:
        return None, []
    program = find_program("nvidia-smi")
    result = run([program, "--query-gpu=compute_cap", "--format=csv,noheader"]) if program else None
    # A driver before 510 does not know the question.
    return NVIDIA, parse_capabilities(result.stdout) if result is not None and result.returncode == 0 else []


def parse_capabilities(text: str) -> list[str]:
    """The different compute capabilities, lowest first, of what nvidia-smi prints."""
    found = {line.strip() for line in text.splitlines()}
    return sorted((item for item in found if _CAPABILITY.match(item)), key=float)


def check_architectures(vendor: str, architectures: t.Sequence[str]) -> list[str]:
    """The architectures in their order, each once. Raises OptionError."""
    pattern, allowed = (
        (_CAPABILITY, "a compute capability such as 9.0") if vendor == NVIDIA else (_GFX, "such as gfx942")
    )
    for item in architectures:
        if not pattern.match(item):
            raise OptionError("architectures", item, allowed)
    return sorted(set(architectures), key=float) if vendor == NVIDIA else sorted(set(architectures))


def gencode(capabilities: t.Sequence[str]) -> str:
    """NVCC_GENCODE for compute capabilities, lowest first: code for each, and PTX of the last for GPUs to come."""
    numbers = [item.replace(".", "") for item in capabilities]
    flags = [f"-gencode=arch=compute_{number},code=sm_{number}" for number in numbers]
    return " ".join([*flags, f"-gencode=arch=compute_{numbers[-1]},code=compute_{numbers[-1]}"])


def check_supported(compiler: str, version: str, capabilities: t.Sequence[str]) -> None:
    """Raise ProblemError if nvcc makes no code for one of the compute capabilities. One before CUDA 11.5 does not say."""
    result = run([compiler, "--list-gpu-arch"])
    known = set(re.findall(r"^compute_(\d+)$", result.stdout, re.MULTILINE))
    for item in capabilities:
        if known and item.replace(".", "") not in known:
            supported = sorted((f"{number[:-1]}.{number[-1]}" for number in known), key=float)
            raise known_cause(
                "build-architecture",
                f"nvcc {version} supports {', '.join(supported)}",
                capability=item,
                version=version or "installed here",
            )


def make_arguments(
    toolchain: Toolchain, links: str, build: str, architectures: t.Sequence[str], programs: t.Sequence[str], jobs: int
) -> list[str]:
    """The arguments of make in the directory ``src`` of the source.

    ``links``: the directory with ``mpi`` and ``nccl``, each with ``include`` and ``lib``. ``build``: where the programs go. ``programs``:
    their names, such as all_reduce_perf; none: all.
    """
    variables = {"MPI": "1", "MPI_HOME": f"{links}/mpi", "BUILDDIR": build}
    if toolchain.vendor == NVIDIA:
        variables.update(
            CUDA_HOME=toolchain.home,
            CUDA_LIB=toolchain.library,
            NVCC=toolchain.compiler,
            CXX=toolchain.cxx,
            NCCL_HOME=f"{links}/nccl",
        )
        if architectures:
            variables["NVCC_GENCODE"] = gencode(architectures)
    else:
        # RCCL is where ROCm is, unless somebody has built one.
        variables.update(ROCM_PATH=toolchain.home, HIP_HOME=toolchain.home, HIPCC=toolchain.compiler)
        if not toolchain.nccl.library.startswith(f"{toolchain.home}/"):
            variables["NCCL_HOME"] = f"{links}/nccl"
        if architectures:
            variables["GPU_TARGETS"] = ",".join(architectures)
    targets = [f"{build}/{program}" for program in programs] or ["build"]
    return [f"--jobs={jobs}", *(f"{name}={value}" for name, value in variables.items()), *targets]


def link_homes(toolchain: Toolchain, links: str) -> None:
    """Make the directories that make_arguments names: links to where the headers and libraries are.

    A distribution may have both in different trees, and make wants one home. Of NCCL's headers only its own are there: a whole /usr/include
    would come before the compiler's.
    """
    for name, pair in (("mpi", toolchain.mpi), ("nccl", toolchain.nccl)):
        os.makedirs(os.path.join(links, name))
        # As a whole: libmpi finds its own libraries beside it.
        os.symlink(pair.library, os.path.join(links, name, "lib"))
    os.symlink(toolchain.mpi.include, os.path.join(links, "mpi", "include"))
    headers = os.path.join(links, "nccl", "include")
    os.makedirs(headers)
    for pattern in ("nccl*", "rccl*"):
        for path in glob.glob(os.path.join(glob.escape(toolchain.nccl.include), pattern)):
            os.symlink(path, os.path.join(headers, os.path.basename(path)))
