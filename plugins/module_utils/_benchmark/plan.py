# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""From what the nodes have to what is run on them: backend, ranks, programs."""

from __future__ import annotations

import collections
import dataclasses
import ipaddress
import posixpath
import re
import shlex
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._answers import (
    ADDRESS_WITH_PREFIX,
    BOOLEAN,
    BYTES,
    FINITE,
    HOST_NAME,
    INTERFACE,
    NUMBER,
    PATH,
    PLAIN,
    Maybe,
    Optional,
    check_answer,
    text,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.hardware import (
    RATE,
    common_hardware,
    hardware_of,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.sizes import SMALLEST, default_size
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import combine_with_checks, problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import (
    Problem,
    ProblemDict,
    ProblemError,
    entries_from,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.openmpi import (
    check_environment,
    check_mca,
    exact_names,
    unusable,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.points import PROGRAM_JSON
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.checking import check_document
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import (
    RESULT_SCHEMA,
    add_problems,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.shapes import ResultDocument
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.identity import shared_names
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.ownership import REFUSALS
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.shapes import NodeInfo
from ansible_collections.gpufabric.nccl.plugins.module_utils._options import environment_texts, program_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.mesh import check_environment_names
from ansible_collections.gpufabric.nccl.plugins.module_utils._text import listing, shown_environment
from ansible_collections.gpufabric.nccl.plugins.module_utils._units import parse_size, size_word

_Host = t.TypeVar("_Host")

#: Of nccl-tests, and alltoallv of rccl-tests.
COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "reduce",
    "alltoall",
    "sendrecv",
    "gather",
    "scatter",
    "hypercube",
    "alltoallv",
)
#: What the CPU program does not have, of those.
_NOT_BY_CPU = ("hypercube", "alltoallv")

#: The option of a program that a variable of the role sets, in all its forms.
_OWN_OPTION = re.compile(r"-(?P<short>[gt])|--(?P<long>ng|nt)")
_OWN_CYCLES = re.compile(r"-N|--run_cycles\b")
#: Options of a program that decide about its JSON and the times of iterations; a graph has no such times.
_OWN_TIMES = re.compile(r"-[IJGz]|--(?:per_iter_timing|output_file|cudagraph|blocking)\b")
_OWN_VARIABLES = {"g": "gpus_per_rank", "ng": "gpus_per_rank", "t": "threads_per_rank", "nt": "threads_per_rank"}

#: The options of a program that keep it from ever coming to an end if their value is 0: times any factor, a size of 0 stays 0, and 0
#: cycles are endless. A program knows its long options by their beginnings, too.
_ENDLESS = re.compile(r"(?P<minbytes>b|mi\w*)|(?P<run_cycles>N|ru\w*)")
_ZERO = re.compile(r"[+-]?(?:0+(?:\.0*)?|\.0+)[A-Za-z]?\Z")
#: The warning of mpi_node_info of another run, and how many of these are told.
_BESIDE = "run-beside"
_MOST_BESIDE = 8

_VERSION = text(r"[A-Za-z0-9.+!_-]{1,64}", "a version of letters, digits and .+!_-")
#: What is used of a node that mpi_node_info returned.
_NODE = {
    "hostname": HOST_NAME,
    "interfaces": [{"name": INTERFACE, "addresses": [ADDRESS_WITH_PREFIX]}],
    "data": Maybe({"interface": INTERFACE}),
    "gpus": {
        "count": NUMBER,
        "names": [PLAIN],
        "memory_bytes": Optional(Maybe(BYTES)),
        "nvlink_gbytes": Optional(Maybe(RATE)),
        "unusable": [PLAIN],
    },
    "line_rate": Optional(Maybe({"gbps": FINITE, "source": PLAIN})),
    "rdma_ports": Optional([{"name": PLAIN, "active": BOOLEAN, "gbps": Maybe(RATE)}]),
    "mpi": Maybe({"mpirun": PATH, "prefix": PATH, "implementation": PLAIN, "version": PLAIN}),
    "benchmarks": Maybe(
        {
            "directory": PATH,
            "programs": [text(r"[A-Za-z0-9_.+-]{1,255}", "a name of letters, digits and _.+-")],
            "features": Optional([text(r"[a-z_]{1,40}", "a name of letters and underscores")]),
        }
    ),
    "python": {"executable": PATH, "mpi4py": Maybe(_VERSION), "numpy": Maybe(_VERSION)},
}

# Rank 0's host alone has the program's file; rank 0 sends the text to the others. The first argument is the file's path.
# Not by standard input: Open MPI 5.0 brings rank 0 none on another host than the launcher, and never its end.
# A rank that cannot take part says so in one line and ends all, for the others would wait for it.
_BOOTSTRAP = (
    "import os,socket,sys;"
    "sys.excepthook=lambda t,e,b:("
    "(r:=(str(e).strip() or t.__name__).splitlines()[-1]),"
    'print(f"gpufabric-cpu: {socket.gethostname()}: "+(f"mpi4py cannot be imported: {r}; for {sys.executable} install '
    'python3-mpi4py and python3-numpy" if issubclass(t,ImportError) else r),file=sys.stderr,flush=True),'
    "os._exit(1));"
    "from mpi4py import MPI;"
    "c=MPI.COMM_WORLD;"
    "f=sys.argv.pop(1);"
    "s=c.bcast(c.rank or open(f).read());"
    "sys.argv[0]=f;"
    'exec(compile(s,f,"exec"))'
)


#: What the CPU program can do of what mpi_node_info tells of other programs.
CPU_FEATURES = frozenset(("cycles", "timestamps"))
#: The least value of each setting that is a number.
_LEAST = {
    "step_factor": 2,
    "iterations": 1,
    "warmup_iterations": 0,
    "cycles": 1,
    "ranks_per_node": 1,
    "gpus_per_rank": 1,
    "threads_per_rank": 1,
    "timeout": 1,
    "startup_timeout": 1,
    "silence_timeout": 0,
    "orphan_timeout": 0,
    "time_limit": 1,
}

#: Of one node: no machine has as many GPUs or processors, and as many processes may take it down.
MOST_RANKS = 1024

#: What the CPU program knows, of those that a sweep may have.
CPU_DATATYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double")


def check_settings(settings: t.Mapping[str, t.Any]) -> None:
    """Raise OptionError where the programs would refuse a setting: before anything is run, and by the variable's name."""
    _check_collectives(settings)
    smallest, largest = (parse_size(f"nccl_benchmark_{name}", settings[name]) for name in ("min_bytes", "max_bytes"))
    # Times any factor, 0 stays 0.
    if smallest < 1:
        raise OptionError("nccl_benchmark_min_bytes", settings["min_bytes"], "1 or more")
    if smallest > largest:
        raise OptionError(
            "nccl_benchmark_min_bytes", settings["min_bytes"], f"at most {settings['max_bytes']}, the largest size"
        )
    # None is a variable that the ranks are not to have.
    env = environment_texts("nccl_benchmark_env", settings.get("env") or {})
    check_environment("nccl_benchmark_env", {name: value or "" for name, value in env.items()})
    mca = settings.get("mca") or {}
    check_mca(
        "nccl_benchmark_mca", {name: program_text(f"nccl_benchmark_mca.{name}", value) for name, value in mca.items()}
    )
    check_environment_names("nccl_benchmark_forward_env", settings.get("forward_env") or ())
    check_limits(settings)
    words = further_arguments(settings)
    for word in words:
        own = _OWN_OPTION.match(word)
        if own:
            variable = _OWN_VARIABLES[own["short"] or own["long"]]
            raise OptionError(
                "nccl_benchmark_extra_args", word, f"options other than that of nccl_benchmark_{variable}"
            )
    for name, value in options_in(words):
        endless = _ENDLESS.fullmatch(name)
        if endless and _ZERO.match(value):
            allowed = f"1 or more for --{endless.lastgroup}, since with 0 the program never ends"
            raise OptionError("nccl_benchmark_extra_args", value, allowed)


def _check_collectives(settings: t.Mapping[str, t.Any]) -> None:
    unknown = [name for name in settings["collectives"] if name not in COLLECTIVES]
    if unknown or not settings["collectives"]:
        raise OptionError("nccl_benchmark_collectives", unknown, f"one or more of {', '.join(COLLECTIVES)}")


def check_limits(settings: t.Mapping[str, t.Any]) -> None:
    """Raise OptionError where a number is too small, or ``output_limit`` no size. A setting that is not there is not checked."""
    for name, least in _LEAST.items():
        if settings.get(name) is not None and int(settings[name]) < least:
            raise OptionError(f"nccl_benchmark_{name}", settings[name], f"{least} or more")
    ranks = settings.get("ranks_per_node")
    if ranks is not None and int(ranks) > MOST_RANKS:
        raise OptionError("nccl_benchmark_ranks_per_node", ranks, f"1 to {MOST_RANKS}")
    if settings.get("output_limit") is not None:
        parse_size("nccl_benchmark_output_limit", settings["output_limit"])


def devices_per_rank(settings: t.Mapping[str, t.Any]) -> int:
    """How many GPUs a process uses: each of its threads has ``gpus_per_rank``."""
    return int(settings.get("gpus_per_rank") or 1) * int(settings.get("threads_per_rank") or 1)


def program_arguments(settings: t.Mapping[str, t.Any]) -> list[str]:
    """The arguments of an nccl-tests program; all collectives have the same, but for the ``operation`` of a point of a sweep."""
    options = {
        "-b": settings["min_bytes"],
        "-e": settings["max_bytes"],
        "-f": settings["step_factor"],
        "-g": settings.get("gpus_per_rank") or 1,
        "-t": settings["threads_per_rank"] if int(settings.get("threads_per_rank") or 1) > 1 else None,
        "-n": settings["iterations"],
        "-w": settings["warmup_iterations"],
        "-c": int(settings["check"]),
        "-d": settings.get("datatype"),
        "-o": settings.get("operation"),
    }
    words = [str(item) for pair in options.items() if pair[1] is not None for item in pair]
    return [*words, *settings.get("own_arguments", ()), *further_arguments(settings)]


def cycle_arguments(settings: t.Mapping[str, t.Any], features: t.Container[str]) -> list[str]:
    """What makes programs with these features run their sizes again and again, each row with its time. Raises OptionError if they cannot."""
    cycles = int(settings.get("cycles") or 1)
    if cycles == 1:
        return []
    given = [word for word in further_arguments(settings) if _OWN_CYCLES.match(word)]
    if given:
        allowed = f"1 with {given[0]} in nccl_benchmark_extra_args"
        raise OptionError("nccl_benchmark_cycles", settings["cycles"], allowed)
    if "cycles" not in features:
        raise OptionError("nccl_benchmark_cycles", settings["cycles"], "1: the programs on the workers have no -N")
    return ["-N", str(cycles), *(["-S", "1"] if "timestamps" in features else [])]


def _own_arguments(
    nodes: t.Mapping[str, NodeInfo], settings: t.Mapping[str, t.Any], backend: str, json_path: str | None
) -> list[str]:
    """What the programs get so that they tell the times of single ranks, if they can. ``json_path``: on the host of rank 0.

    Raises OptionError if they cannot do what is asked for.
    """
    wanted = settings.get("rank_times") or "none"
    if wanted == "none":
        return []
    features = _common_features(nodes) if backend == "nccl" else set()
    if wanted == "barriers" and not {"json", "rank_times", "barriers"} <= features:
        allowed = "none or iterations: the programs on the workers have no -z 3 with times of each process, as nccl-tests 2.19.6 has"
        raise OptionError("nccl_benchmark_rank_times", wanted, allowed)
    given = [word for word in further_arguments(settings) if _OWN_TIMES.match(word)]
    if given and wanted == "barriers":
        raise OptionError(
            "nccl_benchmark_rank_times", wanted, f"none or iterations with {given[0]} in nccl_benchmark_extra_args"
        )
    if given or json_path is None or not {"json", "rank_times"} <= features:
        return []
    return ["-I", "1", "-J", json_path, *(["-z", "3"] if wanted == "barriers" else [])]


def _common_features(nodes: t.Mapping[str, NodeInfo]) -> set[str]:
    """What the programs of all nodes can do."""
    found = [node["benchmarks"] for node in nodes.values()]
    every = [set(benchmarks.get("features") or ()) if benchmarks else set() for benchmarks in found]
    return set.intersection(*every) if every else set()


def further_arguments(settings: t.Mapping[str, t.Any]) -> list[str]:
    """The words of ``extra_args``: with -e an option and its value are one text. Raises OptionError."""
    words = []
    for item in settings["extra_args"]:
        try:
            words += shlex.split(str(item))
        except ValueError as error:
            raise OptionError("nccl_benchmark_extra_args", item, f"words as in a shell ({error})") from None
    return words


def options_in(words: t.Sequence[str]) -> t.Iterator[tuple[str, str]]:
    """The options among the arguments of a program, without their dashes, each with its value: all of them have one."""
    left = iter(words)
    for word in left:
        if word.startswith("--"):
            name, separator, value = word[2:].partition("=")
            yield name, value if separator else next(left, "")
        elif word.startswith("-") and len(word) > 1:
            yield word[1], word[2:] or next(left, "")


def choose_backend(wanted: str, nodes: t.Mapping[str, NodeInfo], collectives: t.Sequence[str]) -> tuple[str, str]:
    """The backend, ``nccl`` or ``cpu``, and the reason for it in words.

    ``nodes``: what mpi_node_info found, by host. ``auto`` is ``cpu`` only where no node has a GPU, not even one without a
    driver: one that has lost its GPUs is what is looked for. Raises ProblemError, which names the hosts that lack GPUs or
    programs.
    """
    if wanted == "cpu":
        return "cpu", "as nccl_benchmark_backend says"
    without_gpu = [host for host, node in nodes.items() if node["gpus"]["count"] == 0]
    unusable = {host: ", ".join(nodes[host]["gpus"]["unusable"]) for host in without_gpu}
    without_driver = [problem("gpu-driver", host, found) for host, found in unusable.items() if found]
    if wanted == "auto" and len(without_gpu) == len(nodes):
        if without_driver:
            raise ProblemError(*without_driver)
        return "cpu", "no GPU on any worker"
    without_program = {
        host: missing for host in nodes if (missing := _missing_programs(nodes[host], nodes, collectives))
    }
    nowhere = len(without_gpu) == len(nodes) and not without_driver
    if without_gpu or without_program:
        raise ProblemError(
            *without_driver,
            *([problem("gpus-nowhere")] if nowhere else []),
            *(problem("gpus-missing", host, count=0) for host in without_gpu if not (unusable[host] or nowhere)),
            *(problem("benchmark-missing", host, programs=", ".join(names)) for host, names in without_program.items()),
        )
    return "nccl", "as nccl_benchmark_backend says" if wanted == "nccl" else "GPUs and nccl-tests are on all workers"


def check_launcher(hosts: t.Collection[str], settings: t.Mapping[str, t.Any]) -> None:
    """Raise OptionError if the launcher is none of the hosts that are to be connected, or is dedicated and alone."""
    launcher = settings["launcher"] or next(iter(hosts))
    if launcher not in hosts:
        raise OptionError("nccl_benchmark_launcher", launcher, f"one of the workers: {', '.join(hosts)}")
    running_ranks(dict.fromkeys(hosts), settings)


def running_ranks(hosts: t.Mapping[str, _Host], settings: t.Mapping[str, t.Any]) -> dict[str, _Host]:
    """Those of the hosts that run ranks: all but a dedicated launcher. Raises OptionError if there is no other."""
    if not hosts or not settings.get("dedicated_launcher"):
        return dict(hosts)
    launcher = settings.get("launcher") or next(iter(hosts))
    found = {name: host for name, host in hosts.items() if name != launcher}
    if not found:
        allowed = f"false, or another host beside {launcher} in gpufabric_hosts, since the launcher runs no ranks then"
        raise OptionError("nccl_benchmark_dedicated_launcher", True, allowed)
    return found


def uses_gpus(wanted: str, nodes: t.Mapping[str, t.Any]) -> bool:
    """Whether nccl is the backend, if any: ``auto`` takes it as soon as one node has a GPU. Arguments and errors as check_nodes."""
    return wanted == "nccl" or (
        wanted == "auto" and any(node["gpus"]["count"] for node in _checked_nodes(nodes).values())
    )


def with_sizes(nodes: t.Mapping[str, t.Any], settings: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The settings with a ``max_bytes`` if they have none, and with ``sizes_note``: in words, that it is the default, and why no larger.

    Arguments and errors as check_nodes.
    """
    if settings.get("max_bytes") not in (None, ""):
        return {**settings, "sizes_note": ""}
    _check_collectives(settings)
    check_limits(settings)
    smallest = parse_size("nccl_benchmark_min_bytes", settings["min_bytes"])
    nodes = running_ranks(nodes, settings)
    if not nodes or not uses_gpus(settings["backend"], nodes):
        return {**settings, "max_bytes": size_word(max(SMALLEST, smallest)), "sizes_note": "the default"}
    size, reason = default_size(_checked_nodes(nodes), settings)
    return {
        **settings,
        "max_bytes": size_word(size),
        "sizes_note": f"the default with GPUs; {reason}" if reason else "the default with GPUs",
    }


def single_size(nodes: t.Mapping[str, t.Any], settings: t.Mapping[str, t.Any], most: str) -> tuple[str, str]:
    """The size for tests of one size on GPUs, at most ``most``, and in words why it is no larger. Arguments and errors as check_nodes."""
    check_limits(settings)
    largest = parse_size("nccl_benchmark_max_bytes", most)
    size, reason = default_size(_checked_nodes(nodes), settings, largest, is_single=True)
    return (size_word(size) if reason else most), reason


def check_gpus(nodes: t.Mapping[str, NodeInfo]) -> None:
    """Raise ProblemError where nodes differ in number or model of their GPUs; it names those that are not as most are."""
    kinds = {host: (node["gpus"]["count"], tuple(node["gpus"]["names"])) for host, node in nodes.items()}
    counted = collections.Counter(kinds.values())
    # Of two kinds that are as frequent, the one with fewer GPUs has lost some.
    usual = max(counted, key=lambda kind: (counted[kind], kind[0]))
    odd = {host: kind for host, kind in kinds.items() if kind != usual}
    if odd:
        raise ProblemError(
            *(
                problem("gpus-differ", host, here=_gpus_text(kind), usual=_gpus_text(usual), hosts=counted[usual])
                for host, kind in odd.items()
            )
        )


def _gpus_text(kind: tuple[int, tuple[str, ...]]) -> str:
    count, names = kind
    return " ".join(filter(None, (str(count), " and ".join(names))))


def control_network(nodes: t.Mapping[str, NodeInfo], addresses: t.Mapping[str, str]) -> str:
    """The value of Open MPI's *_if_include that means, on every host, the network that its address is in.

    By the interface's name where that is the same everywhere, else by the subnet where that is. Raises NodeError.
    """
    found = {host: _interface_of(nodes[host], address) for host, address in addresses.items()}
    unknown = [host for host, item in found.items() if item is None]
    if unknown:
        raise ProblemError(*(problem("control-address-missing", host, address=addresses[host]) for host in unknown))
    names = {item[0] for item in found.values() if item}
    subnets = {item[1] for item in found.values() if item}
    if len(names) == 1:
        return names.pop()
    if len(subnets) == 1:
        return subnets.pop()
    raise ProblemError(
        *(
            problem("control-network-differs", host, interface=item[0], subnet=item[1])
            for host, item in found.items()
            if item
        )
    )


def data_plane(nodes: t.Mapping[str, NodeInfo]) -> dict[str, t.Any]:
    """NCCL's network: ``data``, the interfaces' names where they are the same on all nodes, else None, and ``node_env``.

    NCCL knows no subnets, so where names differ each node has its own value of a variable: ``node_env``, by node.
    Raises NodeError where nothing is said of some nodes.
    """
    names = {host: node["data"]["interface"] if node["data"] else None for host, node in nodes.items()}
    if len(set(names.values())) == 1:
        return {"data": next(iter(names.values())), "node_env": {}}
    unknown = [host for host, name in names.items() if name is None]
    if unknown:
        raise ProblemError(*(problem("data-interface-unset", host) for host in unknown))
    own = {host: {"NCCL_SOCKET_IFNAME": exact_names(str(name))} for host, name in names.items()}
    return {"data": None, "node_env": own}


def check_nodes(nodes: t.Mapping[str, NodeInfo], settings: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Whether the nodes can run the benchmark together: the ``launcher``, the ``backend``, the ``reason`` for it, and where
    nodes have programs of their own the paths of the ``programs`` by collective, and of the first ``program``.

    Also what data_plane says of them.

    ``nodes``: what mpi_node_info found, by inventory name, in their order. ``settings``: the role's variables without
    their prefix. Raises GpufabricError, which names the host at fault.
    """
    check_settings(settings)
    if not nodes:
        raise OptionError("gpufabric_hosts", [], "at least one host of the play")
    return _check_together(_checked_nodes(nodes), settings)


def _check_together(nodes: t.Mapping[str, NodeInfo], settings: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What check_nodes returns, of nodes and settings that were checked one by one."""
    launcher = settings["launcher"] or next(iter(nodes))
    if launcher not in nodes and not settings["dedicated_launcher"]:
        raise OptionError("nccl_benchmark_launcher", launcher, f"one of the workers: {', '.join(nodes)}")
    workers = running_ranks(nodes, settings)
    _check_identities(nodes)
    # All that is to be installed at once, if it is known already what is needed.
    _check_mpi(nodes, _missing_modules(workers) if settings["backend"] == "cpu" else ())
    backend, reason = choose_backend(settings["backend"], workers, settings["collectives"])
    if backend == "nccl" and not settings.get("allow_uneven_gpus"):
        check_gpus(workers)
    if backend == "cpu":
        check_cpu_settings(settings)
        _check_python(workers)
        unknown = {point["options"]["datatype"] for point in settings.get("sweep_points", ())} - set(CPU_DATATYPES)
        if unknown:
            allowed = f"with the cpu backend {', '.join(CPU_DATATYPES)}"
            raise OptionError("nccl_benchmark_sweep.datatypes", sorted(unknown), allowed)
    plane = data_plane(workers)
    of_nodes = {name for own in plane["node_env"].values() for name in own}
    both = sorted({name for point in settings.get("sweep_points", ()) for name in point["env"]} & of_nodes)
    if both:
        allowed = (
            "other variables, since the data interface has another name on each worker, which a worker sets itself"
        )
        raise OptionError("nccl_benchmark_sweep.env", both, allowed)
    # The sshd of its workers is not the run's.
    if plane["node_env"] and launcher not in nodes:
        raise ProblemError(
            *(
                problem("data-interface-differs", host, interface=node["data"]["interface"])
                for host, node in workers.items()
                if node["data"]
            )
        )
    programs = _programs(workers, settings["collectives"]) if backend == "nccl" else {}
    return {
        "launcher": launcher,
        "backend": backend,
        "reason": reason,
        "programs": programs,
        "program": programs.get(settings["collectives"][0]),
        **plane,
    }


def check_free(refusals: t.Mapping[str, t.Any]) -> None:
    """Raise ProblemError if a host refuses the run to the play. ``refusals``: the ``problems`` of mpi_node_info, by host."""
    found = [
        Problem.from_dict({**entry, "host": host})
        for host, entries in refusals.items()
        for entry in entries_from(entries)
        # Anything else is not for a node to say.
        if entry["id"] in REFUSALS
    ]
    if found:
        raise ProblemError(*found)


def runs_beside(told: t.Mapping[str, t.Any]) -> list[ProblemDict]:
    """A warning for each other run that hosts have programs of. ``told``: the ``problems`` of mpi_node_info, by host.

    Its host is that of the run, if there is one alone; else the evidence names them.
    """
    found: dict[str, dict[str, ProblemDict]] = {}
    for host, entries in told.items():
        for entry in entries_from(entries):
            if entry["id"] == _BESIDE:
                # The cure names the run; how long it has been going on may differ by a second.
                found.setdefault(entry["cure"], {}).setdefault(host, entry)
    return [_of_hosts(entries) for entries in list(found.values())[:_MOST_BESIDE]]


def _of_hosts(entries: t.Mapping[str, ProblemDict]) -> ProblemDict:
    """One warning for the same one of several hosts. ``entries``: by host."""
    first = Problem.from_dict(next(iter(entries.values())))
    if len(entries) == 1:
        return dataclasses.replace(first, severity="warning", host=next(iter(entries))).as_dict()
    return dataclasses.replace(first, severity="warning", host=None, evidence=f"on {listing(entries)}").as_dict()


def _checked_nodes(nodes: t.Mapping[str, t.Any]) -> dict[str, NodeInfo]:
    """The nodes without what is not used of them. Raises NodeError if a node returned something else than mpi_node_info does."""
    return {host: check_answer(host, "node", node, _NODE) for host, node in nodes.items()}


def plan_benchmark(
    nodes: t.Mapping[str, NodeInfo], peers: t.Sequence[t.Mapping[str, t.Any]], settings: t.Mapping[str, t.Any]
) -> dict[str, t.Any]:
    """What to run: as check_nodes, and ``hosts`` of the hostfile, the ``control`` network, ``mca`` parameters, ``points``, the
    points of the ``sweep`` that they are, empty where it is none, the ``hardware`` that most workers have, and where rank 0's host
    has the ``cpu_program``.

    ``peers``: as key_exchange made them, each with its ``name``; one may have ``slots`` that are given. ``settings``: as
    with_sweep makes them. Raises GpufabricError, which names the host at fault.
    """
    if not peers:
        raise OptionError("gpufabric_peers", list(peers), "at least one worker, as the role key_exchange makes it")
    check_settings(settings)
    nodes = _checked_nodes({peer["name"]: nodes[peer["name"]] for peer in peers})
    plan = _check_together(nodes, settings)
    launcher, backend = plan["launcher"], plan["backend"]
    workers = running_ranks(nodes, settings)
    addresses = {peer["name"]: peer["address"] for peer in peers}
    # Rank 0 is to run on the launcher if that is a worker, and ranks are given out in the order of the hostfile.
    order = sorted((peer for peer in peers if peer["name"] in workers), key=lambda peer: peer["name"] != launcher)
    # What rank 0 reads and writes is on its own host.
    run_dir = order[0]["run_dir"]
    cpu_program = posixpath.join(run_dir, "mpi", "files", "cpu_perf.py")
    first = workers[order[0]["name"]]
    sweep = settings.get("sweep_points", ())
    # Also where a point leaves it out: what the launcher has of it is not to be handed on.
    unset = {name: None for point in sweep for name in point["env"]}
    json_path = posixpath.join(run_dir, "mpi", PROGRAM_JSON) if order[0]["name"] == launcher else None
    features = _common_features(workers) if backend == "nccl" else CPU_FEATURES
    own = [*cycle_arguments(settings, features), *_own_arguments(workers, settings, backend, json_path)]
    base = {**settings, "own_arguments": own, "env": {**unset, **settings["env"]}}
    commands = {
        name: [plan["programs"][name]]
        if backend == "nccl"
        else [first["python"]["executable"], "-c", _BOOTSTRAP, cpu_program, name]
        for name in settings["collectives"]
    }
    return {
        **plan,
        "control": control_network(nodes, addresses),
        "hosts": [
            {
                "name": peer["name"],
                "address": peer["address"],
                "slots": _slots(peer, workers[peer["name"]], backend, settings),
            }
            for peer in order
        ],
        # Ranks that wait would keep the others off the CPUs where nodes share these.
        "mca": {"mpi_yield_when_idle": "1"} if backend == "cpu" else {},
        "cpu_program": cpu_program,
        "inventory_names": _inventory_names({name: node["hostname"] for name, node in workers.items()}),
        "hardware": common_hardware(workers),
        "points": [_swept_point(point, commands, base) for point in sweep]
        or [_point(name, commands, base) for name in settings["collectives"]],
        "sweep": list(sweep),
    }


def complete_results(
    plan: t.Mapping[str, t.Any],
    run: t.Mapping[str, t.Any],
    found: t.Sequence[t.Mapping[str, t.Any]] = (),
    hosts: t.Sequence[t.Mapping[str, t.Any]] = (),
) -> list[ResultDocument]:
    """A result document for each point, also for one that printed no result.

    ``plan``: of plan_benchmark, its ``points`` and ``sweep``, and ``beside``, of runs_beside. ``run``: what mpi_run returned, its ``points`` in the same order,
    whether it was ``limited``, and the ``msg`` where points failed. Points of a sweep that were not run since its time was
    over have no document: they are missing, and that is all. ``found``: what a look at the hosts found after points failed.
    ``hosts``: what mpi_preflight returned of each host then. Raises AnswerError if a result is none, and ValueError if points are missing.
    """
    documents = []
    launcher = plan.get("launcher") or "the launcher"
    if len(run["points"]) != len(plan["points"]):
        raise ValueError(f"{len(run['points'])} points in place of {len(plan['points'])}")
    sweep = plan.get("sweep") or [None] * len(plan["points"])
    names = {host["address"]: host["name"] for host in plan.get("hosts", ())}
    interfaces = {host["name"]: host["facts"]["interfaces"] for host in hosts if host["facts"]}
    for point, swept, outcome in zip(plan["points"], sweep, run["points"]):
        if swept and run.get("limited") and outcome["status"] == "not_run":
            continue
        printed = outcome.get("results")
        if printed:
            check_document(launcher, printed[0])
        document: ResultDocument = printed[0].copy() if printed else _empty_document()
        # A launcher judges nothing.
        document.pop("verdicts", None)
        document.pop("host_names", None)
        if plan.get("inventory_names"):
            document["host_names"] = dict(plan["inventory_names"])
        # mpirun knows the hosts by their addresses.
        document["problems"] = [_with_name(entry, names) for entry in entries_from(document["problems"])]
        # What the rows tell, the output may tell too.
        known = {entry["id"] for entry in document["problems"]}
        problems = [
            Problem.from_dict(_with_name(entry, names))
            for entry in entries_from(outcome.get("problems"))
            if entry["id"] not in known
        ]
        if outcome["status"] != "finished":
            problems = combine_with_checks(problems, list(map(Problem.from_dict, entries_from(found))), interfaces)
        # Processes that are left are no cause, and warnings are none of a point that ran: with them alone it would pass.
        explained = any(
            item.id != "processes-left" and (item.severity == "error" or outcome["status"] == "not_run")
            for item in problems
        ) or any(entry["severity"] == "error" for entry in document["problems"])
        if outcome["status"] != "finished" and not explained:
            problems.insert(0, _launch_problem(outcome, run.get("msg", "")))
        elif printed and len(printed) > 1 and not explained:
            problems.append(problem("tables-many", count=len(printed)))
        elif not printed and not explained:
            problems.append(_unread_problem(outcome))
        document["hardware"] = hardware_of(plan.get("hardware"), document.get("transport"))
        document["collective"] = swept["collective"] if swept else point["name"]
        document["points"] = {
            "argv": list(point["argv"]),
            # Null is a variable that is not set, whatever the launcher has.
            "env": shown_environment(
                {name: value for name, value in point["env"].items() if value is not None}, (swept or {}).get("env", ())
            ),
            "duration_s": check_answer(launcher, "duration", outcome.get("duration"), Maybe(FINITE)),
            # With the total, it can be told of a few results that there should be more.
            **({"sweep": {**swept, "total": len(sweep)}} if swept else {}),
        }
        problems += [Problem.from_dict(entry) for entry in entries_from(plan.get("beside"))]
        documents.append(add_problems(document, problems))
    return documents


def _inventory_names(hostnames: t.Mapping[str, str]) -> dict[str, str]:
    """The inventory names by the short host names that ranks print, of hosts where these differ. Of several with one name, none.

    ``hostnames``: by inventory name.
    """
    shorts = collections.Counter(hostname.split(".")[0] for hostname in hostnames.values())
    found = {hostname.split(".")[0]: name for name, hostname in hostnames.items()}
    return {short: name for short, name in found.items() if shorts[short] == 1 and name.split(".")[0] != short}


def _with_name(entry: ProblemDict, names: t.Mapping[str, str]) -> ProblemDict:
    """A problem with the inventory name of its host. ``names``: by address."""
    host = entry["host"]
    return entry if host is None else {**entry, "host": names.get(host, host)}


def _launch_problem(outcome: t.Mapping[str, t.Any], message: str) -> Problem:
    return problem(
        "run-failed",
        evidence="\n".join(outcome.get("said", ())) or message,
        status=outcome["exit_status"],
        path=_output_path(outcome),
    )


def _unread_problem(outcome: t.Mapping[str, t.Any]) -> Problem:
    return problem("output-unread", evidence=outcome.get("unread") or "", path=_output_path(outcome))


def _output_path(outcome: t.Mapping[str, t.Any]) -> str:
    """Where the output of a point is for those who read of it: pods with a launcher's files are gone by then."""
    output = outcome.get("output")
    if output:
        return f"{posixpath.dirname(output['stdout'])} of {output['archive']}"
    return f"{posixpath.dirname(outcome['stdout_path'])} on the launcher"


def _empty_document() -> ResultDocument:
    return {
        "schema": RESULT_SCHEMA,
        "tool": {"name": None, "version": None, "nccl_version": None},
        "collective": None,
        "complete": False,
        "config": {},
        "ranks": [],
        "rows": [],
        "lost_rows": 0,
        "json_output": None,
        "summary": {
            "avg_busbw": None,
            "peak_busbw": None,
            "peak_size": None,
            "wrong": None,
            "checked": False,
            "out_of_bounds": None,
        },
        "points": {},
        "env": {},
        "host_count": 0,
        "rank_count": 0,
        "transport": None,
        "software": None,
        "hardware": None,
        "stragglers": None,
        "soak": None,
        "problems": [],
        "verdict": "incomplete",
    }


def _program_name(collective: str, nodes: t.Mapping[str, NodeInfo]) -> str:
    """NVIDIA's images call the programs that are built with MPI ``*_perf_mpi``, and have others beside them without it."""
    name = f"{collective}_perf_mpi"
    return name if any(name in _programs_of(node) for node in nodes.values()) else f"{collective}_perf"


def _programs_of(node: NodeInfo) -> t.Sequence[str]:
    return node["benchmarks"]["programs"] if node["benchmarks"] else ()


def _missing_programs(node: NodeInfo, nodes: t.Mapping[str, NodeInfo], collectives: t.Iterable[str]) -> list[str]:
    names = [_program_name(collective, nodes) for collective in collectives]
    return [name for name in names if name not in _programs_of(node)]


def _programs(nodes: t.Mapping[str, NodeInfo], collectives: t.Iterable[str]) -> dict[str, str]:
    """The path of each collective's program, as the first node has it."""
    directory = next(node["benchmarks"]["directory"] for node in nodes.values() if node["benchmarks"])
    return {name: posixpath.join(directory, _program_name(name, nodes)) for name in collectives}


def _interface_of(node: NodeInfo, address: str) -> tuple[str, str] | None:
    for interface in node["interfaces"]:
        for item in interface["addresses"]:
            own = ipaddress.ip_interface(item)
            if str(own.ip) == address:
                return interface["name"], str(own.network)
    return None


def _check_identities(nodes: t.Mapping[str, NodeInfo]) -> None:
    hostnames = {host: node["hostname"] for host, node in nodes.items()}
    addresses = {
        host: [address for interface in node["interfaces"] for address in interface["addresses"]]
        for host, node in nodes.items()
    }
    problems = shared_names(hostnames, addresses)
    if problems:
        raise ProblemError(*problems)


def _check_mpi(nodes: t.Mapping[str, NodeInfo], further: t.Iterable[Problem]) -> None:
    """``further``: what else is missing, to be told with what is missing of MPI."""
    reasons = {host: unusable(node["mpi"]) for host, node in nodes.items()}
    if any(reasons.values()):
        raise ProblemError(
            *(problem("mpi-unusable", host, reason=reason) for host, reason in reasons.items() if reason),
            *further,
        )
    found = {host: node["mpi"] for host, node in nodes.items() if node["mpi"]}
    versions = collections.Counter((mpi["version"], mpi["prefix"]) for mpi in found.values())
    ((version, prefix), _count), *others = versions.most_common()
    if not others:
        return
    problems = []
    for host, mpi in found.items():
        if mpi["version"] != version:
            problems.append(problem("mpi-version-differs", host, mpi["mpirun"], here=version, there=mpi["version"]))
        elif mpi["prefix"] != prefix:
            facts = {"daemon": "mpirun", "prefix": prefix, "other": posixpath.join(mpi["prefix"], "bin")}
            problems.append(problem("mpi-prefix-differs", host, mpi["mpirun"], **facts))
    raise ProblemError(*problems)


def check_cpu_settings(settings: t.Mapping[str, t.Any]) -> None:
    """Raise OptionError if the CPU program would refuse a setting that nccl-tests take."""
    unknown = [name for name in settings["collectives"] if name in _NOT_BY_CPU]
    if unknown:
        known = [name for name in COLLECTIVES if name not in _NOT_BY_CPU]
        raise OptionError("nccl_benchmark_collectives", unknown, f"with the cpu backend {', '.join(known)}")
    for name in ("gpus_per_rank", "threads_per_rank"):
        if int(settings.get(name) or 1) != 1:
            raise OptionError(f"nccl_benchmark_{name}", settings[name], "1 with the cpu backend")


def _missing_modules(nodes: t.Mapping[str, NodeInfo]) -> list[Problem]:
    """A problem for each node whose Python lacks what the CPU program needs."""
    problems = []
    for host, node in nodes.items():
        packages = {"mpi4py": node["python"]["mpi4py"], "numpy": node["python"]["numpy"]}
        missing = [name for name, version in packages.items() if version is None]
        if missing:
            facts = {"python": node["python"]["executable"], "module": " and no ".join(missing)}
            problems.append(problem("python-module-missing", host, **facts))
    return problems


def _check_python(nodes: t.Mapping[str, NodeInfo]) -> None:
    problems = _missing_modules(nodes)
    if problems:
        raise ProblemError(*problems)
    executables = {host: node["python"]["executable"] for host, node in nodes.items()}
    here = next(iter(executables.values()))
    problems = [
        problem("python-differs", host, here=here, there=there) for host, there in executables.items() if there != here
    ]
    if problems:
        raise ProblemError(*problems)


def _slots(peer: t.Mapping[str, t.Any], node: NodeInfo, backend: str, settings: t.Mapping[str, t.Any]) -> int:
    """As many as the point with the most ranks needs, else as the slots that are given and the GPUs are enough for."""
    swept = [point["ranks_per_node"] for point in settings.get("sweep_points", ()) if point["ranks_per_node"]]
    option = "nccl_benchmark_sweep.ranks_per_node" if swept else "nccl_benchmark_ranks_per_node"
    # What is given with -e is text.
    ranks = max(swept) if swept else settings["ranks_per_node"] and int(settings["ranks_per_node"])
    limits = []
    if peer.get("slots"):
        limits.append((peer["slots"], f"the number of slots of {peer['name']}"))
    if backend == "nccl":
        gpus = node["gpus"]["count"]
        is_all = not ranks and (not limits or limits[0][0] * devices_per_rank(settings) >= gpus)
        limits.append(_gpu_limit(peer["name"], gpus, settings, is_all))
    if not limits:
        return ranks or 1
    most, reason = min(limits, key=lambda limit: limit[0])
    if ranks and ranks > most:
        raise OptionError(option, ranks, f"1 to {most}, {reason}")
    return ranks or most


def _gpu_limit(name: str, gpus: int, settings: t.Mapping[str, t.Any], is_all: bool) -> tuple[int, str]:
    """How many ranks the GPUs of a host are enough for, and why. Raises OptionError where it is none.

    ``is_all``: nobody said how many ranks there are to be, so that no GPU is to be left out.
    """
    each = devices_per_rank(settings)
    reason = f"the number of GPUs of {name}" if each == 1 else f"{name} has {gpus} GPUs, {each} a rank"
    option = "gpus_per_rank" if settings.get("gpus_per_rank") else "threads_per_rank"
    if each > gpus:
        raise OptionError(f"nccl_benchmark_{option}", settings[option], f"1 to {gpus}, {reason}")
    if is_all and gpus % each:
        allowed = f"a number that leaves no GPU out, or nccl_benchmark_ranks_per_node beside it: {reason}"
        raise OptionError(f"nccl_benchmark_{option}", settings[option], allowed)
    return gpus // each, reason


def _point(
    collective: str, commands: t.Mapping[str, t.Sequence[str]], settings: t.Mapping[str, t.Any]
) -> dict[str, t.Any]:
    """``commands``: how the program of each collective is called, without its arguments."""
    argv = [*commands[collective], *program_arguments(settings)]
    return {"name": collective, "argv": argv, "env": dict(settings["env"])}


def _swept_point(
    point: t.Mapping[str, t.Any], commands: t.Mapping[str, t.Sequence[str]], settings: t.Mapping[str, t.Any]
) -> dict[str, t.Any]:
    own = {**settings, **point["options"], "env": {**settings["env"], **point["env"]}}
    planned = {**_point(point["collective"], commands, own), "name": point["name"], "id": point["id"]}
    return {**planned, "ranks_per_node": point["ranks_per_node"]} if point["ranks_per_node"] else planned
